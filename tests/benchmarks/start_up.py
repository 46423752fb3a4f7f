"""How long a fresh process takes to its first launch on the device `cpu`: `python -m tests.benchmarks.start_up [--later 5] [--json FILE]`.

Each row begins with an empty folder of kernels: its first process compiles, the later ones find the kernels there. Seconds begin after
`import dmlpy` and end with the first result, so a description and its check, the plan and a launch are part of them. Python's byte code is
cached by a process that is not counted, as in an installed package.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

from dmlpy.messages.json_text import lay_out

_PROGRAM = """
import sys, time
import numpy as np
import dmlpy as dml
cell, direction, trains = sys.argv[1], sys.argv[2], sys.argv[3] == "training"
started = time.perf_counter()
gates, directions = {"RNN": 1, "GRU": 3, "LSTM": 4}[cell], 2 if direction == "BIDIRECTIONAL" else 1
def tensor(*sizes):
    return dml.TensorDesc(data_type="FLOAT32", sizes=sizes)
functions = {"RNN": [dml.ActivationTanhDesc()], "GRU": [dml.ActivationSigmoidDesc(), dml.ActivationTanhDesc()]}
functions["LSTM"] = [*functions["GRU"], dml.ActivationTanhDesc()]
desc = getattr(dml, cell + ("TrainingDesc" if trains else "Desc"))(
    input_tensor=tensor(1, 100, 1, 64), weight_tensor=tensor(1, directions, gates * 64, 64),
    recurrence_tensor=tensor(1, directions, gates * 64, 64), activation_descs=functions[cell] * directions, direction=direction,
)
desc = desc.with_outputs("output_sequence_tensor", *(["reserve_tensor"] if trains else []))
def run(desc, found):
    operator = dml.compile(desc, "cpu")
    assert operator.plan.startswith("strategy: compiled"), operator.plan
    tensors, inputs = desc.tensors(), {item.name for item in desc.inputs()}
    return operator(**{
        name: found[name] if name in found else np.ones(item.sizes, np.float32) for name, item in tensors.items() if name in inputs
    })
results = run(desc, {}).as_dict()
if trains:
    run(desc.gradient(), results)
print(time.perf_counter() - started)
"""

ROWS = [
    (cell, direction, which)
    for cell, direction in (("LSTM", "FORWARD"), ("LSTM", "BIDIRECTIONAL"), ("GRU", "FORWARD"), ("RNN", "FORWARD"))
    for which in ("forward", "training")
]
"""The cell, its direction, and whether a forward pass alone is launched or a training form and its gradient."""


def _seconds(cell: str, direction: str, which: str, byte_code: str, *, processes: int) -> list[float]:
    """What so many processes take, one after the other, of which the first finds no kernels."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        environment |= {"DMLPY_CACHE_DIR": folder, "PYTHONPYCACHEPREFIX": byte_code}
        command = [sys.executable, "-c", _PROGRAM, cell, direction, which]
        return [float(subprocess.run(command, check=True, stdout=subprocess.PIPE, env=environment).stdout) for _ in range(processes)]


def main() -> None:
    """Prints a line for each row."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--later", type=int, default=5, help="processes that find the kernels, of which the median counts")
    parser.add_argument("--json", type=Path, help="where to write the figures")
    arguments = parser.parse_args()
    from dmlpy.bench import machine

    report = {"date": datetime.now(UTC).isoformat(timespec="seconds"), "processor": machine.host(1).processor, "load": os.getloadavg()}
    rows = []
    with tempfile.TemporaryDirectory() as byte_code:
        for row in ROWS[:2]:
            _seconds(*row, byte_code, processes=1)
        for cell, direction, which in ROWS:
            first, *later = _seconds(cell, direction, which, byte_code, processes=1 + arguments.later)
            later.sort()
            rows.append({"cell": cell, "direction": direction, "pass": which, "compiles_s": first, "later_s": later})
            print(f"{cell} {direction} {which}: compiles in {first:.2f} s, later {later[len(later) // 2]:.2f} s", flush=True)
    if arguments.json:
        arguments.json.write_text(lay_out(report | {"rows": rows}))


if __name__ == "__main__":
    main()
