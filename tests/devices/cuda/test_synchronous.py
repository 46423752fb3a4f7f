"""`DMLPY_SYNCHRONIZE=1` raises a kernel's error at the operator that launched it. Over a CuPy whose kernels fail after their launch."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from dmlpy.devices.cuda.device import CudaDevice
from dmlpy.devices.cuda.runtime.cupy_runtime import CupyRuntime
from dmlpy.messages.hresult import HResult
from tests.support.cuda.fakes.captures import CUDARuntimeError
from tests.support.cuda.fakes.cupy_bindings import FakeGpus
from tests.support.recurrent.small_rnn import inputs, rnn
from tests.support.tensors import tensor

SIZES = (2, 3, 4)
RELU = dml.ActivationReluDesc(input_tensor=tensor(*SIZES), output_tensor=tensor(*SIZES))
ABS = dml.ElementWiseAbsDesc(input_tensor=tensor(*SIZES), output_tensor=tensor(*SIZES))
FAULTY = "elu"
"""In the symbols of kernels that fail: that of RELU."""
HINT = r"DMLPY_SYNCHRONIZE=1 tells which operator"


@pytest.fixture(params=["0", "1"])
def gpu(request: pytest.FixtureRequest, runtime: CupyRuntime, monkeypatch: pytest.MonkeyPatch) -> CudaDevice:
    """With and without the switch."""
    monkeypatch.setenv("DMLPY_SYNCHRONIZE", request.param)
    return CudaDevice(runtime)


SWITCHED_ON = pytest.mark.parametrize("gpu", ["1"], indirect=True)
SWITCHED_OFF = pytest.mark.parametrize("gpu", ["0"], indirect=True)


def array(gpu: CudaDevice) -> Any:
    return gpu.from_host(np.ones(SIZES, np.float32))


@SWITCHED_OFF
def test_without_the_switch_a_later_operator_raises(gpu: CudaDevice, gpus: FakeGpus) -> None:
    relu, absolute = (dml.compile(desc, gpu).bind([array(gpu)], [array(gpu)]) for desc in (RELU, ABS))
    gpus.faulty.add(FAULTY)
    relu()
    with pytest.raises(dml.DeviceError, match=rf"^launch: cudaErrorIllegalAddress: .*; .*{HINT}$"):
        absolute()


@SWITCHED_ON
@pytest.mark.parametrize("way", ["dispatch", "call"])
def test_the_operator_that_failed_raises(way: str, gpu: CudaDevice, gpus: FakeGpus) -> None:
    relu, absolute = (dml.compile(desc, gpu) for desc in (RELU, ABS))
    given, output = array(gpu), array(gpu)
    dispatch = relu.bind([given], [output])
    absolute(input_tensor=given, output_tensor=output)
    assert gpus.synchronized[-2:] == [0, 0], "before and after"
    gpus.faulty.add(FAULTY)
    with pytest.raises(dml.DeviceError, match=r"^DML_ACTIVATION_RELU_OPERATOR_DESC failed: synchronize: cudaErrorIllegalAddress: \D*$"):
        dispatch() if way == "dispatch" else relu(input_tensor=given, output_tensor=output)


@SWITCHED_ON
def test_what_others_broke_is_not_blamed_on_the_operator(gpu: CudaDevice, gpus: FakeGpus) -> None:
    relu = dml.compile(RELU, gpu).bind([array(gpu)], [array(gpu)])
    gpus.broken = CUDARuntimeError(719, "cudaErrorLaunchFailure: unspecified launch failure")
    with pytest.raises(dml.DeviceError, match=r"^work before DML_ACTIVATION_RELU_OPERATOR_DESC on its stream failed: .*LaunchFailure"):
        relu()


def graph_of_two(gpu: CudaDevice) -> dml.CompiledGraph:
    """A convolution-like pair that is not fused: RELU, then a sum along an axis."""
    builder = dml.GraphBuilder()
    active = builder.add(dml.ActivationReluDesc, "active", input_tensor=builder.input("x", tensor(*SIZES)))
    builder.output("y", builder.add(dml.ReduceDesc, "total", input_tensor=active, function="SUM", axes=[2]))
    return dml.compile(builder.build(), gpu)


def test_the_node_that_failed_is_named(gpu: CudaDevice, gpus: FakeGpus) -> None:
    graph = graph_of_two(gpu)
    dispatch = graph.bind({"x": array(gpu)}, {"y": gpu.empty(graph.outputs["y"], 0)})
    gpus.faulty.add(FAULTY)
    if not gpu._is_synchronous:
        dispatch()
        return
    with pytest.raises(dml.DeviceError, match=r"^graph: node 0 'active' \(ACTIVATION_RELU\) failed: synchronize: cudaErrorIllegal"):
        dispatch()


@SWITCHED_ON
def test_a_preparation_is_named(gpu: CudaDevice, gpus: FakeGpus) -> None:
    op = dml.compile(rnn(), gpu)
    constants = {name: gpu.from_host(value) for name, value in inputs(rnn()).items() if name in op.prepared_inputs}
    gpus.faulty.add("")
    with pytest.raises(dml.DeviceError, match=r"^DML_RNN_OPERATOR_DESC prepare( failed)?: .*IllegalAddress"):
        op.prepare(**constants)


@SWITCHED_ON
def test_a_capture_is_not_waited_for(gpu: CudaDevice, gpus: FakeGpus) -> None:
    graph = graph_of_two(gpu)
    relu = dml.compile(RELU, gpu).bind([array(gpu)], [array(gpu)])
    nodes = graph.bind({"x": array(gpu)}, {"y": gpu.empty(graph.outputs["y"], 0)})
    stream = sys.modules["cupy"].cuda.Stream(non_blocking=True)
    gpus.synchronized.clear()
    stream.begin_capture()
    relu(stream)
    nodes(stream)
    captured = stream.end_capture()
    assert not gpus.synchronized
    captured.launch(stream)
    assert len(gpus.launches) == 3


@SWITCHED_ON
def test_the_error_of_a_launch_names_the_operator_too(gpu: CudaDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    relu = dml.compile(RELU, gpu)
    given, output = array(gpu), array(gpu)

    def refused(*arguments: Any) -> None:
        raise CUDARuntimeError(1, "CUDA_ERROR_INVALID_VALUE: invalid argument")

    monkeypatch.setattr(sys.modules["cupy"].cuda.driver, "launchKernel", refused)
    with pytest.raises(dml.DeviceError, match=r"^DML_ACTIVATION_RELU_OPERATOR_DESC: launch: CUDA_ERROR_INVALID_VALUE"):
        relu(input_tensor=given, output_tensor=output)


@SWITCHED_OFF
def test_an_error_on_another_stream_is_the_one_that_is_raised(gpu: CudaDevice, gpus: FakeGpus) -> None:
    """Not the one that follows from it, when the memory of the dispatch is associated with its user."""
    op = dml.compile(rnn(), gpu)
    given = {name: gpu.from_host(value) for name, value in inputs(rnn()).items()}
    outputs = {field.name: gpu.empty(rnn().tensors()[field.name], 0) for field in rnn().outputs()}
    dispatch, stream = op.bind(given, outputs), sys.modules["cupy"].cuda.Stream(non_blocking=True)
    gpus.broken = CUDARuntimeError(700, "cudaErrorIllegalAddress")
    with pytest.raises(dml.DeviceError, match=r"^(wait_for|launch|launch_graph|memset|gemm): cudaErrorIllegalAddress; "):
        dispatch(stream)


@SWITCHED_ON
def test_only_an_error_of_kernels_has_the_hint(gpu: CudaDevice, monkeypatch: pytest.MonkeyPatch, gpus: FakeGpus) -> None:
    monkeypatch.setenv("DMLPY_SYNCHRONIZE", "0")
    gpus.broken = CUDARuntimeError(700, "cudaErrorIllegalAddress")
    with pytest.raises(dml.DeviceError, match=HINT):
        gpu.synchronize(0)
    gpus.broken = CUDARuntimeError(1, "cudaErrorInvalidValue")
    with pytest.raises(dml.DeviceError, match=r"^synchronize: cudaErrorInvalidValue$"):
        gpu.synchronize(0)


@pytest.mark.parametrize("value", ["yes", "2", " 1"])
def test_another_value_is_refused(value: str, runtime: CupyRuntime, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DMLPY_SYNCHRONIZE", value)
    with pytest.raises(dml.DeviceError, match=f"DMLPY_SYNCHRONIZE is '{value}', expected 0 or 1") as error:
        CudaDevice(runtime)
    assert error.value.hresult == HResult.E_INVALIDARG
