"""How long a fresh process takes to its first LSTM on the device `cpu`: `python -m tests.benchmarks.start_up [PROCESSES]`.

The first line is of a process that compiles, over an empty folder; the others find the kernels there. Times begin after `import dmlpy`.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile

_PROGRAM = """
import time
import numpy as np
import dmlpy as dml
started = time.perf_counter()
def tensor(*sizes):
    return dml.TensorDesc(data_type="FLOAT32", sizes=sizes)
functions = [dml.ActivationSigmoidDesc(), dml.ActivationTanhDesc(), dml.ActivationTanhDesc()]
desc = dml.LSTMDesc(
    input_tensor=tensor(1, 100, 1, 64), weight_tensor=tensor(1, 1, 256, 64), recurrence_tensor=tensor(1, 1, 256, 64),
    activation_descs=functions, direction="FORWARD",
).with_outputs("output_sequence_tensor")
operator = dml.compile(desc, "cpu")
operator(**{name: np.ones(item.sizes, np.float32) for name, item in desc.tensors().items() if name != "output_sequence_tensor"})
print(f"{time.perf_counter() - started:.3f} s, {operator.plan.splitlines()[0]}")
"""


def main(processes: int) -> None:
    """Prints a line for each process."""
    with tempfile.TemporaryDirectory() as folder:
        for number in range(processes):
            print("compiles:" if number == 0 else "reads:", end=" ", flush=True)
            subprocess.run([sys.executable, "-c", _PROGRAM], check=True, env=os.environ | {"DMLPY_CACHE_DIR": folder})


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 4)
