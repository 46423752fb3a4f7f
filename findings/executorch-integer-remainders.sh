#!/usr/bin/env bash
# executorch 1.5.1's torch.remainder and % of integers take the sign of the dividend, as fmod does, and not that of the divisor.
#
# PyTorch's page of remainder: the result has the divisor's sign and is a - a.div(b, rounding_mode="floor") * b, Python's modulus. For [-7, -1, 1, 7] by
# [3, 3, 3, -3] this is [2, 2, 1, -2]. The portable kernels give [-1, -1, 1, 1] for INT8, INT16, INT32 and INT64, by a tensor or a number; FLOAT is right.
# Their floor_divide is right, so that a - floor_divide(a, b) * b of the same program is another number. No step of the export says so.
set -euo pipefail
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
python3 -m pip install -q --target "$root/packages" executorch==1.5.1 numpy==2.4.6 torch==2.13.0
cat >"$root/run.py" <<'PYTHON'
from importlib.metadata import version

import torch
from executorch.exir import to_edge
from executorch.runtime import Runtime


class Call(torch.nn.Module):
    def __init__(self, function) -> None:
        super().__init__()
        self.function = function

    def forward(self, *x: torch.Tensor) -> torch.Tensor:
        return self.function(*x)


def found(function, *x: torch.Tensor) -> list:
    """The result of the function as a program of ExecuTorch's runtime."""
    program = to_edge(torch.export.export(Call(function), x)).to_executorch()
    loaded = Runtime.get().load_program(program.buffer)
    return loaded.load_method("forward").execute(list(x))[0].tolist()


print("executorch", version("executorch"))
dividends, divisors = [-7, -1, 1, 7], [3, 3, 3, -3]
for type_ in (torch.int8, torch.int16, torch.int32, torch.int64, torch.float32):
    a, b = torch.tensor(dividends, dtype=type_), torch.tensor(divisors, dtype=type_)
    results = [found(torch.remainder, a, b), found(lambda x: x % 3, a), found(lambda x: torch.remainder(x, -3), a)]
    print(type_, "remainder, % 3, remainder by -3:", *results)
    right = [[x % y for x, y in zip(dividends, divisors)], [x % 3 for x in dividends], [x % -3 for x in dividends]]
    assert right == [torch.remainder(a, b).tolist(), (a % 3).tolist(), torch.remainder(a, -3).tolist()]
    assert results == (right if type_ == torch.float32 else [[-1, -1, 1, 1]] * 3)
    assert found(torch.floor_divide, a, b) == [x // y for x, y in zip(dividends, divisors)]
    assert found(lambda x, y: x - torch.floor_divide(x, y) * y, a, b) == right[0]
    assert found(torch.fmod, a, b) == [-1, -1, 1, 1]
PYTHON
PYTHONPATH="$root/packages" python3 "$root/run.py"
