"""Ctrl+C in the first compilation of an operator and in its launches: the device works afterwards, with the results that it always has."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.folders import ROOT

PROGRAM = """
import signal
import time
import numpy as np
import dmlpy as dml
from tests.support.tensors import tensor

signal.signal(signal.SIGALRM, signal.default_int_handler)
random = np.random.default_rng(5)
pooling = dml.MaxPoolingDesc(
    input_tensor=tensor(4, 16, 96, 96), strides=[1, 1], window_size=[3, 3], start_padding=[1, 1], end_padding=[1, 1]
).with_outputs()
layer = dml.LSTMDesc(
    input_tensor=tensor(1, 40, 4, 32), weight_tensor=tensor(1, 1, 256, 32), recurrence_tensor=tensor(1, 1, 256, 64), direction="FORWARD",
    activation_descs=[dml.ActivationSigmoidDesc(), dml.ActivationTanhDesc(), dml.ActivationTanhDesc()], clip_threshold=0,
    use_clip_threshold=False, couple_input_forget=False,
).with_outputs("output_sequence_tensor")


def is_interrupted(call, delay):
    try:
        signal.setitimer(signal.ITIMER_REAL, delay)
        call()
        signal.setitimer(signal.ITIMER_REAL, 0)
    except KeyboardInterrupt:
        return True
    return False


for desc in (pooling, layer):
    inputs = {slot.place: 0.2 * random.standard_normal(slot.tensor.sizes, np.float32) for slot in desc.input_slots() if slot.tensor}
    (expected,) = dml.compile(desc, "numpy")(**inputs).as_dict().values()
    compiling, delay = 0, 0.005
    while is_interrupted(lambda: dml.compile(desc, "cpu")(**inputs), delay):
        compiling, delay = compiling + 1, delay * 2
    operator, launching = dml.compile(desc, "cpu"), 0
    output = np.empty_like(expected)
    dispatch = operator.bind(inputs, {name: output for name in operator.desc.applicable_outputs()[:1]})
    times = []
    for _ in range(5):
        began = time.perf_counter()
        dispatch()
        times.append(time.perf_counter() - began)
    for delay in min(times) * np.geomspace(0.1, 3, 30):
        launching += is_interrupted(dispatch, delay)
        output[...] = np.nan
        dispatch()
        np.testing.assert_allclose(output, expected, 0, 1e-5)
    print(compiling, launching)
"""


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="the system has no timers")
def test_interrupts_of_compilations_and_launches_leave_a_device_that_works(tmp_path: Path) -> None:
    environment = os.environ | {"DMLPY_CACHE_DIR": str(tmp_path / "kernels")}
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, cwd=ROOT, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    for line in done.stdout.splitlines():
        compiling, launching = map(int, line.split()[:2])
        assert compiling > 2
        assert launching > 2
