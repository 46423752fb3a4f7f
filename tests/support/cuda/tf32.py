"""A layer's products in TF32 compared with those in FLOAT32."""

from __future__ import annotations

import numpy as np

import dmlpy as dml
from dmlpy.devices.cuda.device import CudaDevice
from dmlpy.devices.cuda.emulation.runtime import EmulatedRuntime
from tests.support.recurrent.small_rnn import inputs, on, rnn
from tests.support.tolerance import assert_close, tolerance
from tests.support.tools import require

ALLOW, DISABLE, VOLATILE = list(dml.ExecutionFlags)


NONE = dml.ExecutionFlags.NONE


def check_results_in_tf32(strategy: str) -> None:
    require("g++")
    device, desc = CudaDevice(EmulatedRuntime(), strategy=strategy), rnn()
    arrays = inputs(desc)
    expected = dml.reference(desc, arrays).as_dict()
    given = on(device, arrays)
    plain, allowed = (
        {name: device.to_host(array) for name, array in dml.compile(desc, device, flags=flags)(**given).as_dict().items()}
        for flags in (NONE, ALLOW)
    )
    for name, wanted in expected.items():
        assert_close(plain[name], wanted, np.float32, terms=desc.geometry.hidden_size, what=name)
        assert_close(allowed[name], wanted, np.float32, what=name, tf32=True)
        error = np.linalg.norm(allowed[name] - wanted) / np.linalg.norm(wanted)
        assert error > 5 * tolerance(np.float32), "factors were not rounded"
