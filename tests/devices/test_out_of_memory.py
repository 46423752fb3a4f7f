"""Memory that is not there: DeviceError with the sizes, outputs as they were, and a device that continues."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from dmlpy.devices.numpy.recurrent.layer import RecurrentPlan
from dmlpy.messages.hresult import HResult
from tests.support.tensors import tensor

LIMITED = """\
import resource, sys
import numpy as np
import dmlpy as dml

def tensor(*sizes, **members):
    return dml.TensorDesc(data_type="FLOAT32", sizes=sizes, **members)

LARGE = tensor(1, 1, 1 << 10, 1 << 20, strides=[0, 0, 0, 0])  # one number, 4 GB of them for whoever copies it
DESCS = {
    "reduce": dml.ReduceDesc(function="L1", input_tensor=LARGE, output_tensor=tensor(1, 1, 1, 1), axes=[0, 1, 2, 3]),
    "argmax": dml.ArgmaxDesc(
        input_tensor=LARGE, output_tensor=dml.TensorDesc(data_type="UINT32", sizes=[1, 1, 1, 1]), axes=[0, 1, 2, 3],
        axis_direction="DECREASING",
    ),
}
relu = dml.compile(dml.ActivationReluDesc(input_tensor=tensor(4), output_tensor=tensor(4)), "numpy")
with open("/proc/self/statm") as status:
    used = int(status.read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (1 << 30), resource.RLIM_INFINITY))
one = np.lib.stride_tricks.as_strided(np.ones(1, np.float32), LARGE.sizes, [0] * 4)
for name, desc in DESCS.items():
    output = np.full(desc.output_tensor.sizes, 7, desc.output_tensor.data_type.numpy)
    operator = dml.compile(desc, "numpy")
    for attempt in (
        lambda: operator(input_tensor=one, output_tensor=output),
        operator.bind({"input_tensor": one}, {"output_tensor": output}),
    ):
        try:
            attempt()
            print(name, "found memory")
        except dml.DeviceError as error:
            print(name, error.hresult.name, error)
    print((output == 7).all(), relu(input_tensor=np.float32([-1, 0, 1, 2])).output_tensor)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="limits of memory are Linux's")
def test_temporaries_that_do_not_fit() -> None:
    done = subprocess.run([sys.executable, "-c", LIMITED], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == 6, done.stdout
    for name, (call, dispatch, after) in {"reduce": lines[:3], "argmax": lines[3:]}.items():
        for line in (call, dispatch):
            assert line.startswith(f"{name} E_OUTOFMEMORY DML_{name.upper()}_OPERATOR_DESC needs "), line
            assert re.search(r" needs [0-9.]+ GB for a temporary array \[.*\] of (float|int)[0-9]+; [0-9.]+ [MG]B are available", line), (
                line
            )
        assert after == "True [0. 0. 1. 2.]"


def rnn() -> dml.RNNDesc:
    return dml.RNNDesc(
        input_tensor=tensor(1, 2, 1, 3),
        weight_tensor=tensor(1, 1, 4, 3),
        recurrence_tensor=tensor(1, 1, 4, 4),
        activation_descs=[dml.ActivationTanhDesc()],
        direction="FORWARD",
    ).with_outputs()


def fails(*_: object, **__: object) -> Any:
    raise MemoryError


@pytest.mark.parametrize("member", ["bind", "pack"])
def test_memory_that_a_plan_does_not_find(member: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever it looks for it: on binding, on packing, in the launch."""
    desc = rnn()
    operator = dml.compile(desc, "numpy")
    given = {field.name: np.ones(desc.tensors()[field.name].sizes, np.float32) for field in desc.inputs() if field.name in desc.tensors()}
    constants = {name: given[name] for name in ("weight_tensor", "recurrence_tensor")}
    results = {field.name: np.zeros(desc.tensors()[field.name].sizes, np.float32) for field in desc.outputs()}
    dispatch = operator.bind(given, results)
    attempts: dict[str, list[Any]] = {
        "bind": [lambda: operator(**given), lambda: operator.bind(given, results)],
        "pack": [lambda: operator.prepare(**constants)],
    }
    with monkeypatch.context() as patch:
        patch.setattr(RecurrentPlan, member, fails)
        for attempt in attempts[member]:
            with pytest.raises(dml.DeviceError, match=r"DML_RNN_OPERATOR_DESC.* needs more memory than the host has left") as caught:
                attempt()
            assert caught.value.hresult is HResult.E_OUTOFMEMORY
    dispatch()
    assert all(array.any() for array in results.values())


def test_memory_that_a_node_of_a_graph_does_not_find(monkeypatch: pytest.MonkeyPatch) -> None:
    g = dml.GraphBuilder("small")
    g.output("y", g.add(dml.ElementWiseAbsDesc, "abs", input_tensor=g.input("x", tensor(3))))
    operator = dml.compile(g.build(), "numpy")
    with monkeypatch.context() as patch:
        patch.setattr("dmlpy.devices.numpy.array_functions.WholePlan._only_result", fails)
        with pytest.raises(dml.DeviceError, match="DML_ELEMENT_WISE_ABS_OPERATOR_DESC needs more memory") as caught:
            operator(x=np.ones(3, np.float32))
        assert caught.value.hresult is HResult.E_OUTOFMEMORY
    assert operator(x=-np.ones(3, np.float32)).y.tolist() == [1.0, 1.0, 1.0]
