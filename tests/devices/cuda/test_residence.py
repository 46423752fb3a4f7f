"""A grid whose blocks do not fit together though the device's numbers said so: other kernels do its work, or the error names a remedy."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from dmlpy.devices.cuda.device import CudaDevice
from dmlpy.devices.cuda.emulation.launches import CooperativeLaunch
from dmlpy.devices.cuda.emulation.runtime import H100, EmulatedRuntime
from dmlpy.devices.cuda.recurrent.persistent_grid import PersistentGridPlan
from dmlpy.devices.cuda.runtime.cupy_runtime import CupyRuntime
from dmlpy.devices.cuda.runtime.interface import NotResidentError
from dmlpy.messages.problems import DeviceError
from tests.support.cuda.counting import Replayed
from tests.support.cuda.fakes.cupy_bindings import FakeGpus
from tests.support.cuda.network_checks import resetting_gru, stacked
from tests.support.pairwise import first_few
from tests.support.tolerance import assert_close
from tests.support.tools import require

Arrays = Mapping[str, Any]

REFUSED = r"3 blocks have to run at the same time, and the device holds fewer"
REMEDY = rf"^DML_GRU_OPERATOR_DESC: {REFUSED}, and its constants are packed for them\. Call prepare again, or compile the graph again"
GONE = 1
"""The multiprocessors that are left where a grid no longer fits."""


class Gru:
    """A GRU that resets first, whose best plan is a grid of three blocks where there are no clusters, and the memory of its tensors."""

    def __init__(self, strategy: str | None = None) -> None:
        require("g++")
        self.runtime = EmulatedRuntime(replace(H100, compute_capability=80, multiprocessors=3))
        self.device = CudaDevice(self.runtime, strategy=strategy)
        self.desc, arrays = resetting_gru(200, 2, 4, np.float32)
        self.op = dml.compile(self.desc, self.device)
        self.given = {name: self.device.from_host(array) for name, array in arrays.items()}
        self.reference = dml.reference(self.desc, arrays).as_dict()
        assert "strategy persistent_grid" in self.op.plan

    @property
    def constants(self) -> dict[str, Any]:
        return {name: self.given[name] for name in self.op.prepared_inputs}

    @property
    def inputs(self) -> dict[str, Any]:
        """The others."""
        return {name: array for name, array in self.given.items() if name not in self.op.prepared_inputs}

    def outputs(self) -> dict[str, Any]:
        """New memory for the results, all NaN."""
        found = {slot.place: slot.tensor for slot in self.desc.output_slots() if slot.tensor is not None}
        return {name: self.device.from_host(np.full(tensor.sizes, np.nan, np.float32)) for name, tensor in found.items()}

    def check(self, results: Arrays) -> None:
        for name, wanted in self.reference.items():
            assert_close(self.device.to_host(results[name]), wanted, np.float32, terms=400, what=name)
        self.runtime.check_guards()


# without packed constants


def test_a_call_takes_other_kernels_and_says_so() -> None:
    gru = Gru()
    properties = gru.op.binding_properties
    gru.runtime.left = GONE
    for _ in range(2):
        gru.check(gru.op(**gru.given).as_dict())
    assert gru.runtime.counts["refused"] == 1, "it is not tried again"
    assert "strategy per_step" in gru.op.plan
    assert f"    persistent_grid: {REFUSED}" in gru.op.plan
    assert gru.op.explain_plan().strategy == f"per_step (persistent_grid: {REFUSED})"
    assert gru.op.binding_properties == properties


def test_where_it_is_known_when_it_is_compiled_the_report_says_so() -> None:
    class Small(EmulatedRuntime):
        def occupancy(self, function: Any, threads: int, shared_bytes: int) -> int:
            return 0

    require("g++")
    op = dml.compile(resetting_gru(200, 2, 4, np.float32)[0], CudaDevice(Small(replace(H100, compute_capability=80, multiprocessors=3))))
    assert op.explain_plan().strategy == "per_step (persistent_grid: 3 blocks have to run at the same time, and the device holds 0)"


@pytest.mark.parametrize("is_bound_before", [False, True])
def test_a_dispatch_takes_other_kernels_in_the_scratch_that_it_has(is_bound_before: bool) -> None:
    """The scratch that the operator asked for when it was compiled suffices for them."""
    gru = Gru()
    scratch = gru.runtime.allocate(0, gru.op.binding_properties.temporary_resource_size, 0)
    temporary, outputs = dml.Buffer(scratch.pointer, scratch.size), gru.outputs()
    if is_bound_before:
        dispatch = gru.op.bind(gru.given, outputs, temporary)
        dispatch()
        gru.runtime.left = GONE
    else:
        gru.runtime.left = GONE
        dispatch = gru.op.bind(gru.given, outputs, temporary)
    dispatch()
    gru.check(outputs)
    other = gru.outputs()
    dispatch.rebind(**other)
    dispatch()
    gru.check(other)


def test_a_capture_takes_other_kernels_once_they_are_loaded() -> None:
    gru = Gru()
    outputs = gru.outputs()
    dispatch = gru.op.bind(gru.given, outputs)
    gru.runtime.left = GONE
    stream = gru.runtime.begin_capture()
    with pytest.raises(DeviceError, match=f"^{REFUSED}; .* dispatch this once outside of a capture"):
        dispatch(stream)
    gru.runtime.end_capture(stream)
    dispatch()
    dispatch.rebind(**(outputs := gru.outputs()))
    stream = gru.runtime.begin_capture()
    dispatch(stream)
    gru.runtime.launch_graph(gru.runtime.end_capture(stream), 0)
    gru.check(outputs)


def test_memory_suffices_for_either() -> None:
    """If the other kernels need more, that is what is asked for, and the grid does with it as well."""
    gru = Gru()
    plan = gru.op._plan
    assert isinstance(plan, PersistentGridPlan)
    larger = SimpleNamespace(temporary_size=plan.temporary_size + 4096, persistent_size=plan.persistent_size + 2048)
    plan.fall_back_on(lambda why: larger)  # type: ignore[return-value]
    found = dml.CompiledOperator(gru.desc, gru.device, gru.op.feature_level, gru.op.flags, plan)
    properties = found.binding_properties
    assert (properties.temporary_resource_size, properties.persistent_resource_size) == (larger.temporary_size, larger.persistent_size)
    gru.check(found(**gru.given).as_dict())
    gru.check(found.prepare(**gru.constants)(**gru.inputs).as_dict())


def test_threads_find_out_at_the_same_time() -> None:
    gru = Gru()
    gru.runtime.left = GONE
    outputs = [gru.outputs() for _ in range(4)]
    dispatches = [gru.op.bind(gru.given, of_thread) for of_thread in outputs]
    threads = [threading.Thread(target=dispatch) for dispatch in dispatches]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for of_thread in outputs:
        gru.check(of_thread)


def test_a_strategy_that_is_asked_for_is_refused() -> None:
    gru = Gru("persistent_grid")
    gru.runtime.left = GONE
    with pytest.raises(DeviceError, match=f"^{REFUSED}"):
        gru.op(**gru.given)
    gru.runtime.left = 3
    gru.check(gru.op(**gru.given).as_dict())


# with packed constants


def test_packed_constants_are_of_no_use_to_other_kernels() -> None:
    """What was packed before is read by none but the kernels that it is for, and what is packed from then on is for the others."""
    gru = Gru()
    old = gru.op.prepare(**gru.constants)
    gru.runtime.left = GONE
    with pytest.raises(DeviceError, match=REMEDY):
        old(**gru.inputs)
    new = gru.op.prepare(**gru.constants)
    gru.check(new(**gru.inputs).as_dict())
    outputs = gru.outputs()
    new.bind(gru.inputs, outputs)()
    gru.check(outputs)
    with pytest.raises(DeviceError, match=REMEDY):
        old(**gru.inputs)
    gru.runtime.left = 3
    gru.check(old(**gru.inputs).as_dict())
    gru.check(new(**gru.inputs).as_dict())


def test_memory_of_the_reported_size_takes_the_constants_of_other_kernels() -> None:
    gru = Gru()
    memory = gru.runtime.allocate(0, gru.op.binding_properties.persistent_resource_size, 0)
    persistent = dml.Buffer(memory.pointer, memory.size)
    gru.op.prepare(persistent=persistent, **gru.constants)
    gru.runtime.left = GONE
    dispatch = gru.op.bind(gru.inputs, gru.outputs(), persistent=persistent)
    with pytest.raises(DeviceError, match=REMEDY):
        dispatch()
    outputs = gru.outputs()
    gru.op.prepare(persistent=persistent, **gru.constants).bind(gru.inputs, outputs)()
    gru.check(outputs)


def test_constants_that_travelled_are_packed_for_other_kernels() -> None:
    gru = Gru()
    old = gru.op.prepare(portable=True, **gru.constants)
    gru.runtime.left = GONE
    with pytest.raises(DeviceError, match=REMEDY):
        old(**gru.inputs)
    make, arguments = old.__reduce__()
    gru.check(make(*arguments)(**gru.inputs).as_dict())


def graph_of(gru: Gru, *, packs: bool) -> dml.CompiledGraph:
    """A graph of the layer and one more node. Its weights are constants, and so packed, or inputs like any other."""
    builder, tensors = dml.GraphBuilder(), gru.desc.tensors()
    members: dict[str, Any] = {}
    for name, array in gru.given.items():
        is_constant = packs and name in gru.op.prepared_inputs
        members[name] = builder.constant(name, gru.device.to_host(array)) if is_constant else builder.input(name, tensors[name])
    members |= {"activation_descs": gru.desc.activation_descs, "direction": gru.desc.direction, "linear_before_reset": False}
    hidden = builder.add(type(gru.desc), "layer", outputs=["output_sequence_tensor"], **members)
    builder.output("y", builder.add(dml.ActivationReluDesc, "relu", input_tensor=hidden))
    return dml.compile(builder.build(), gru.device)


def check_graph(gru: Gru, results: Any) -> None:
    wanted = np.maximum(gru.reference["output_sequence_tensor"], 0)
    assert_close(gru.device.to_host(results.as_dict()["y"]), wanted, np.float32, terms=400)


@pytest.mark.parametrize("is_called_before", [False, True])
def test_a_graph_takes_other_kernels(is_called_before: bool) -> None:
    gru = Gru()
    graph = graph_of(gru, packs=False)
    if is_called_before:
        check_graph(gru, graph(**gru.given))
    gru.runtime.left = GONE
    for _ in range(2):
        check_graph(gru, graph(**gru.given))


def test_a_graph_that_has_packed_constants_is_to_be_compiled_again() -> None:
    gru = Gru()
    old = graph_of(gru, packs=True)
    check_graph(gru, old(**gru.inputs))
    gru.runtime.left = GONE
    for _ in range(2):
        with pytest.raises(DeviceError, match=REMEDY):
            old(**gru.inputs)
    check_graph(gru, graph_of(gru, packs=True)(**gru.inputs))


# training


@pytest.mark.parametrize("before", first_few(["forward", "backward", "bind", "the second run"], 2))
def test_a_network_and_its_gradient_take_other_kernels(before: str) -> None:
    """Whichever kernels wrote a reserve, those of a gradient can read it."""
    require("g++")
    runtime = EmulatedRuntime(replace(H100, multiprocessors=6))
    if before == "bind":
        runtime.left = GONE
    net = Replayed(CudaDevice(runtime), stacked("lstm", 150, 2, 3, np.float32))
    for dispatch in (net.forward, net.backward):
        assert "strategy persistent_grid" in dispatch.operator.plan
    if before == "the second run":
        net.run()
    if before != "backward":
        runtime.left = GONE
    net.forward()
    runtime.left = GONE
    net.backward()
    found = {name: np.frombuffer(data, np.float32) for name, data in net.results().items()}
    expected = Replayed(CudaDevice(EmulatedRuntime(replace(H100, multiprocessors=6))), stacked("lstm", 150, 2, 3, np.float32)).run()
    for name, data in expected.items():
        assert_close(found[name], np.frombuffer(data, np.float32).astype(np.float64), np.float32, terms=600, what=name)
    assert "strategy per_step" in net.backward.operator.plan
    assert ("strategy per_step" in net.forward.operator.plan) == (before != "backward")


# graphs that are refused as a whole


class RefusedAsAWhole(EmulatedRuntime):
    """A launch that is captured is not looked at before its graph is made, or launched."""

    when_made = False

    def capture(self, device: int, issue: Callable[[int], None]) -> Any:
        left, self.left = self.left, self._limits.multiprocessors
        try:
            graph = super().capture(device, issue)
        finally:
            self.left = left
        for operation in graph:
            if self.when_made and isinstance(operation, CooperativeLaunch):
                operation.check(self)
        return graph


@pytest.mark.parametrize("when_made", [False, True])
def test_a_graph_that_is_refused_as_a_whole_is_made_again(when_made: bool) -> None:
    require("g++")
    net = stacked("lstm", 150, 2, 3, np.float32)
    expected = Replayed(CudaDevice(EmulatedRuntime(replace(H100, multiprocessors=6))), net).run()
    runtime = RefusedAsAWhole(replace(H100, multiprocessors=6))
    runtime.when_made, runtime.left = when_made, GONE
    found = Replayed(CudaDevice(runtime), net)
    results = [found.run() for _ in range(2)]
    assert results[0] == results[1]
    for name, data in expected.items():
        wanted = np.frombuffer(data, np.float32).astype(np.float64)
        assert_close(np.frombuffer(results[0][name], np.float32), wanted, np.float32, terms=600, what=name)
    before = runtime.counts.copy()
    found.run()
    assert (runtime.counts - before)["launch_graph"] == 2
    assert (runtime.counts - before)["launch"] == 0


# the driver's answers


ARGUMENT = np.zeros(1, np.dtype([("pointer", np.uint64), ("count", np.int64)], align=True))


def test_what_the_driver_refuses_is_reported(runtime: CupyRuntime, gpus: FakeGpus) -> None:
    function = runtime.load(0, *runtime.compile("source", ["kernel<float>"], 90)[0], 0)
    with pytest.raises(NotResidentError, match=r"^133 blocks have to run at the same time, and the device holds 132$"):
        runtime.bind_launch(function, (133, 1, 1), 256, 0, ARGUMENT, cooperative=True)
    launch = runtime.bind_launch(function, (66, 2, 1), 256, 0, ARGUMENT, cooperative=True)
    with runtime.use(0):
        launch(0)
        gpus.left = 66
        with pytest.raises(NotResidentError, match=r"^132 blocks have to run at the same time, and the device holds fewer$"):
            launch(0)
    graph = runtime.capture(0, lambda stream: runtime.memset(ARGUMENT.ctypes.data, 0, 4, stream))
    gpus.refuses_graphs = True
    with pytest.raises(NotResidentError, match="CooperativeLaunchTooLarge"):
        runtime.launch_graph(graph, 0)
