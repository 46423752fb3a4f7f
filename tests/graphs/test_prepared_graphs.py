"""The life of a graph: compiled, prepared, bound to memory of the caller, dispatched, bound to other memory."""

from __future__ import annotations

import copy
import gc
import pickle
import threading
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from dmlpy.devices.dispatch import MAX_CACHED_LAUNCHES
from tests.support.graphs.network_shapes import lstm_stack
from tests.support.tensors import tensor
from tests.support.tolerance import assert_close

RNG = np.random.default_rng(11)
Array = np.ndarray[Any, np.dtype[Any]]


def values(*sizes: int) -> Array:
    return RNG.standard_normal(sizes, dtype=np.float32)


def owning() -> dml.Graph:
    """y = relu(a * w) + shift + w, with `w` and `shift` owned, and w read by two nodes."""
    g = dml.GraphBuilder("owning")
    owned = tensor(1, 1, 4, 4, flags="OWNED_BY_DML")
    a, w, shift = g.input("a", tensor(1, 1, 4, 4)), g.input("w", owned), g.input("shift", owned)
    product = g.add(dml.GEMMDesc, "product", a_tensor=a, b_tensor=w)
    shifted = g.add(dml.ElementWiseAddDesc, "shifted", a_tensor=product, b_tensor=shift)
    g.output("y", g.add(dml.ElementWiseAddDesc, "y", a_tensor=shifted, b_tensor=w))
    return g.build()


def wanted(a: Array, w: Array, shift: Array) -> Array:
    return a.astype(np.float64) @ w + shift + w


def block(device: dml.Device, size: int, value: int = 0x7F) -> tuple[dml.Buffer, Any]:
    """Memory of the device, aligned to 256 bytes and filled with a byte, and what keeps it alive."""
    memory = device.from_host(np.full(size + 256, value, np.uint8))
    pointer = device.view(memory).pointer
    return dml.Buffer(pointer + -pointer % 256, size), memory


def arrays(device: dml.Device) -> tuple[dict[str, Array], dict[str, Any]]:
    host = {name: values(1, 1, 4, 4) for name in ("a", "w", "shift")}
    return host, {name: device.from_host(array.copy()) for name, array in host.items()}


def fill(device: dml.Device, array: Any, value: float) -> None:
    host = device.from_host(np.full(array.shape, value, np.float32))
    device.copy(device.view(array).pointer, device.view(host).pointer, 4 * int(np.prod(array.shape)), device.current_stream())


def test_a_prepared_graph_refers_to_no_owned_input(any_device: dml.Device) -> None:
    op = dml.compile(owning(), any_device)
    host, given = arrays(any_device)
    assert op.prepared_inputs == ("w", "shift")
    prepared = op.prepare(w=given["w"], shift=given["shift"])
    for name in ("w", "shift"):
        fill(any_device, given[name], np.nan)
    assert list(prepared.inputs) == ["a"]
    found = any_device.to_host(prepared(a=given["a"]).y)
    assert_close(found, wanted(**host), np.float32, terms=6)
    out = any_device.from_host(np.full((1, 1, 4, 4), np.nan, np.float32))
    prepared.bind([given["a"], None, None], [out])()
    np.testing.assert_array_equal(any_device.to_host(out), found)


def test_a_graph_lives_in_one_arena_of_the_caller(any_device: dml.Device) -> None:
    """The engine's way: sizes first, then memory, then the upload memory is free, and later the scratch is spoilt between dispatches."""
    op = dml.compile(owning(), any_device)
    host, given = arrays(any_device)
    properties = op.binding_properties
    assert properties.required_descriptor_count == 4
    assert properties.temporary_resource_size % 256 == properties.persistent_resource_size % 256 == 0
    persistent, kept = block(any_device, properties.persistent_resource_size)
    temporary, scratch = block(any_device, max(1, properties.temporary_resource_size))
    op.prepare([None, given["w"], given["shift"]], persistent=persistent)
    for name in ("w", "shift"):
        fill(any_device, given[name], np.nan)
    out = any_device.from_host(np.zeros((1, 1, 4, 4), np.float32))
    dispatch = op.bind({"a": given["a"]}, {"y": out}, temporary=temporary, persistent=persistent)
    for spoilt in (0x7F, 0xFF):
        spoiler = any_device.from_host(np.full(max(1, temporary.size_in_bytes), spoilt, np.uint8))
        any_device.copy(temporary.pointer, any_device.view(spoiler).pointer, temporary.size_in_bytes, any_device.current_stream())
        dispatch()
        assert_close(any_device.to_host(out), wanted(**host), np.float32, terms=6)
    del kept, scratch


def test_a_call_takes_the_owned_inputs_along(any_device: dml.Device) -> None:
    host, given = arrays(any_device)
    assert_close(any_device.to_host(dml.compile(owning(), any_device)(**given).y), wanted(**host), np.float32, terms=6)


def test_host_arrays_are_copied_on_request(cuda_device: dml.Device) -> None:
    host, given = arrays(cuda_device)
    op = dml.compile(owning(), cuda_device)
    prepared = op.prepare(w=host["w"], shift=host["shift"], copy=True)
    assert_close(cuda_device.to_host(prepared(a=given["a"]).y), wanted(**host), np.float32, terms=6)
    with pytest.raises(dml.BindError, match=r"array\.device"):
        op.prepare(w=host["w"], shift=host["shift"])


def aligned(size: int) -> Array:
    memory = np.zeros(size + 256, np.uint8)
    return memory[-memory.ctypes.data % 256 :][:size]


BLOCK: Array = aligned(4096)
OTHER: Array = aligned(4096)

WRONG: dict[str, tuple[Callable[[Any, dict[str, Any]], Any], dict[str, str]]] = {
    "bound unprepared": (lambda op, given: op.bind(given, {"y": np.zeros((1, 1, 4, 4), np.float32)}),
                         {"persistent": "bind.unprepared", "w": "bind.packed", "shift": "bind.packed"}),
    "owned inputs missing": (lambda op, given: op.prepare(w=given["w"]), {"shift": "bind.missing"}),
    "too many prepared": (lambda op, given: op.prepare(**given), {"a": "bind.misplaced"}),
    "wrong form": (lambda op, given: op.prepare({"w": given["w"]}, shift=given["shift"]), {"shift": "bind.missing", "inputs": "bind.form"}),
    "owned inputs bound again": (lambda op, given: prepared(op, given).bind(given, {"y": values(1, 1, 4, 4)}),
                                 {"w": "bind.packed", "shift": "bind.packed"}),
    "persistent too small": (lambda op, given: op.prepare([None, given["w"], given["shift"]], persistent=np.zeros(7, np.uint8)),
                             {"persistent": "resource.size"}),
    "persistent misaligned": (lambda op, given: op.prepare([None, given["w"], given["shift"]], persistent=odd(4096)),
                              {"persistent": "resource.alignment"}),
    "persistent is an owned input": (lambda op, given: op.prepare([None, given["w"], given["shift"]], persistent=around(given["w"])),
                                     {"persistent": "hazard.persistent"}),
    "persistent is an output": (lambda op, given: op.bind({"a": given["a"]}, {"y": BLOCK[:64].view(np.float32).reshape(1, 1, 4, 4)},
                                                          persistent=BLOCK), {"persistent": "hazard.persistent"}),
    "temporary too small": (lambda op, given: op.bind({"a": given["a"]}, {"y": values(1, 1, 4, 4)}, temporary=np.zeros(7, np.uint8),
                                                      persistent=BLOCK), {"temporary": "resource.size"}),
    "temporary is persistent": (lambda op, given: op.bind({"a": given["a"]}, {"y": values(1, 1, 4, 4)}, temporary=BLOCK, persistent=BLOCK),
                                {"temporary": "hazard.temporary"}),
    "temporary is an input": (lambda op, given: op.bind({"a": BLOCK[:64].view(np.float32).reshape(1, 1, 4, 4)}, {"y": values(1, 1, 4, 4)},
                                                        temporary=BLOCK, persistent=OTHER), {"temporary": "hazard.temporary"}),
    "an output is an input": (lambda op, given: prepared(op, given).bind({"a": given["a"]}, {"y": given["a"]}), {"y": "hazard.in_place"}),
}  # fmt: skip


def prepared(op: Any, given: dict[str, Any]) -> Any:
    return op.prepare(w=given["w"], shift=given["shift"])


def odd(size: int) -> Array:
    memory = np.zeros(size + 16, np.uint8)
    return memory[1 + -memory.ctypes.data % 16 :][:size]


def around(array: Array) -> dml.Buffer:
    return dml.Buffer(array.ctypes.data - array.ctypes.data % 256, 4096)


def needing_scratch() -> dml.Graph:
    """The graph of `owning` with a node in between that cannot run in place, so that it has memory of its own."""
    graph = owning()
    g = dml.GraphBuilder("scratch")
    names = ("a", "w", "shift")
    owned = {"w", "shift"}
    x = {name: g.input(name, tensor(1, 1, 4, 4, flags="OWNED_BY_DML" if name in owned else "NONE")) for name in names}
    y = g.add(dml.GEMMDesc, "product", a_tensor=x["a"], b_tensor=x["w"])
    y = g.add(dml.GEMMDesc, "again", a_tensor=y, b_tensor=x["shift"])
    g.output("y", y)
    assert graph.name == "owning"
    return g.build()


@pytest.mark.parametrize("name", WRONG)
def test_memory_that_does_not_fit_is_refused_and_nothing_is_written(name: str) -> None:
    op = dml.compile(needing_scratch(), "numpy")
    assert op.binding_properties.temporary_resource_size == 256
    BLOCK[...] = OTHER[...] = 7
    _, given = arrays(dml.device("numpy"))
    before = {key: array.copy() for key, array in given.items()}
    act, problems = WRONG[name]
    with pytest.raises(dml.BindError) as caught:
        act(op, given)
    assert {problem.path: problem.code for problem in caught.value.problems} == problems
    assert (BLOCK == 7).all()
    assert (OTHER == 7).all()
    for key, array in given.items():
        np.testing.assert_array_equal(array, before[key])
    if name == "bound unprepared":
        assert any("prepare(" in (problem.remedy or "") for problem in caught.value.problems)


def test_memory_of_another_device_is_refused(cuda_device: dml.Device) -> None:
    op = dml.compile(owning(), cuda_device)
    host, given = arrays(cuda_device)
    with pytest.raises(dml.BindError) as caught:
        op.prepare(w=given["w"], shift=given["shift"], persistent=np.zeros(4096, np.uint8))
    assert [problem.code for problem in caught.value.problems] == ["resource.kind"]
    ready = op.prepare(w=given["w"], shift=given["shift"])
    with pytest.raises(dml.BindError) as caught:
        ready.bind({"a": host["a"]}, {"y": given["w"]})
    assert [problem.code for problem in caught.value.problems] == ["array.device"]


# packing


def count_packs(monkeypatch: pytest.MonkeyPatch, op: Any) -> list[str]:
    packed: list[str] = []
    for operator in {step.operator._plan: step.operator for step in op._program.steps}.values():  # equal layers share one
        plan = operator._plan
        pack = plan.pack

        def counted(*given: Any, pack: Any = pack, name: str = operator.name) -> Any:
            packed.append(name)
            return pack(*given)

        monkeypatch.setattr(plan, "pack", counted)
    return packed


def test_constant_weights_are_packed_once(any_device: dml.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = lstm_stack(layers=2)
    op = dml.compile(graph, any_device)
    assert op.binding_properties.persistent_resource_size > 0
    packed = count_packs(monkeypatch, op)
    x = values(*op.inputs["x"].sizes)
    given = any_device.from_host(x)
    first = any_device.to_host(op(x=given).y)
    assert len(packed) == 2
    for _ in range(2):
        np.testing.assert_array_equal(any_device.to_host(op(x=given).y), first)
    op.bind({"x": given}, {"y": op(x=given).y})()
    assert len(packed) == 2, "each layer is packed when it is first needed, and never again"
    np.testing.assert_array_equal(any_device.to_host(op.prepare()(x=given).y), first)
    assert len(packed) == 4, "prepare packs into memory of its own"


def test_recurrent_weights_that_are_owned_through_an_identity_are_packed(any_device: dml.Device) -> None:
    """LSTM refuses the flag, so engines put an IDENTITY after the owned tensor; it is a view, and the weights are packed from the input."""
    g = dml.GraphBuilder("owned weights")
    rnn: dict[str, Any] = {"activation_descs": [dml.ActivationTanhDesc()], "direction": "FORWARD", "outputs": ["output_single_tensor"]}
    x = g.input("x", tensor(1, 5, 2, 3))
    owned = {name: g.input(name, tensor(1, 1, 4, width, flags="OWNED_BY_DML")) for name, width in (("w", 3), ("r", 4))}
    own = {
        name: g.add(dml.ElementWiseIdentityDesc, name, input_tensor=value, output_tensor=tensor(*value.tensor.sizes))
        for name, value in owned.items()
    }
    g.output("y", g.add(dml.RNNDesc, "rnn", input_tensor=x, weight_tensor=own["w"], recurrence_tensor=own["r"], **rnn))
    graph = g.build()
    op = dml.compile(graph, any_device)
    report = op.explain_plan()
    assert report.views == ("w", "r")
    assert report.order == ("rnn",)
    host = {name: values(*desc.sizes) for name, desc in op.inputs.items()}
    given = {name: any_device.from_host(array.copy()) for name, array in host.items()}
    ready = op.prepare(w=given["w"], r=given["r"])
    for name in ("w", "r"):
        fill(any_device, given[name], np.nan)
    found = any_device.to_host(ready(x=given["x"]).y)
    desc = graph.nodes[-1].operator  # type: ignore[union-attr]
    assert op._program.owned == {}, "the packed weights are all that is kept"
    reference = dml.reference(desc, input_tensor=host["x"], weight_tensor=host["w"], recurrence_tensor=host["r"])
    assert_close(found, reference.output_single_tensor, np.float32, terms=7)


# copies and pickles


def test_prepared_graphs_are_pickled_with_what_is_packed() -> None:
    op = dml.compile(owning(), "numpy")
    host, given = arrays(dml.device("numpy"))
    ready = op.prepare(w=given["w"], shift=given["shift"])
    same = pickle.loads(pickle.dumps(ready))
    np.testing.assert_array_equal(same(a=given["a"]).y, ready(a=given["a"]).y)
    assert copy.copy(ready) is ready
    assert copy.deepcopy(ready) is ready
    restore, (graph, packed, _) = ready.__reduce__()
    with pytest.raises(dml.PickleError, match="another layout"):
        restore(graph, packed, b"?")
    assert pickle.loads(pickle.dumps(dml.compile(owning(), "numpy", fuse=False))).fuse is False
    assert repr(ready) == "<graph of 3 nodes prepared for numpy>"
    assert_close(same(a=given["a"]).y, wanted(**host), np.float32, terms=6)


def test_threads_share_a_graph_that_packs_its_constants_once() -> None:
    op = dml.compile(lstm_stack(layers=2, steps=3), "numpy")
    x = values(*op.inputs["x"].sizes)
    expected = dml.compile(lstm_stack(layers=2, steps=3), "numpy")(x=x).y
    wrong: list[str] = []

    def work() -> None:
        for _ in range(5):
            if not np.array_equal(op(x=x).y, expected):
                wrong.append("result")

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


# rebinding


def test_memory_is_bound_anew_one_by_one(any_device: dml.Device) -> None:
    op = dml.compile(owning(), any_device)
    host, given = arrays(any_device)
    ready = op.prepare(w=given["w"], shift=given["shift"])
    first, second = (any_device.from_host(np.zeros((1, 1, 4, 4), np.float32)) for _ in range(2))
    dispatch = ready.bind({"a": given["a"]}, {"y": first})
    dispatch()
    before = any_device.to_host(first).copy()
    other = values(1, 1, 4, 4)
    dispatch.rebind(a=any_device.from_host(other), y=second)
    dispatch()
    np.testing.assert_array_equal(any_device.to_host(first), before)
    assert_close(any_device.to_host(second), wanted(other, host["w"], host["shift"]), np.float32, terms=6)
    dispatch.rebind(a=given["a"])
    dispatch()
    np.testing.assert_array_equal(any_device.to_host(second), before)
    for wrong, problems in (
        ({"a": second}, {"y": "hazard.in_place"}),
        ({"w": given["w"]}, {"w": "bind.packed"}),
        ({"b": second}, {"b": "bind.unknown"}),
        ({"y": given["a"]}, {"y": "hazard.in_place"}),
        ({"a": 5}, {"a": "array.kind"}),
    ):
        with pytest.raises(dml.BindError) as caught:
            dispatch.rebind(**wrong)
        assert {problem.path: problem.code for problem in caught.value.problems} == problems
    fill(any_device, second, 0)
    dispatch()
    np.testing.assert_array_equal(any_device.to_host(second), before)


def test_copied_outputs_are_bound_anew_too(any_device: dml.Device) -> None:
    g = dml.GraphBuilder("twice")
    y = g.add(dml.ActivationReluDesc, "relu", input_tensor=g.input("x", tensor(4)))
    g.output("y", y)
    g.output("z", y)
    op = dml.compile(g.build(), any_device)
    x = any_device.from_host(values(4))
    places = [any_device.from_host(np.zeros(4, np.float32)) for _ in range(4)]
    dispatch = op.bind([x], places[:2])
    dispatch()
    dispatch.rebind(z=places[2])
    dispatch()
    dispatch.rebind(y=places[3])
    dispatch()
    expected = np.maximum(any_device.to_host(x), 0)
    for place in places:
        np.testing.assert_array_equal(any_device.to_host(place), expected)


def test_a_dispatch_is_not_rebound_while_it_runs() -> None:
    op = dml.compile(owning(), "numpy")
    _, given = arrays(dml.device("numpy"))
    dispatch = op.prepare(w=given["w"], shift=given["shift"]).bind([given["a"], None, None], [values(1, 1, 4, 4)])
    dispatch._under_way[0] = dispatch._under_way[1] = object()
    with pytest.raises(dml.DispatchError, match="being dispatched by another call"):
        dispatch.rebind(a=given["a"])


def test_limits_on_values_follow_a_rebinding() -> None:
    g = dml.GraphBuilder("ragged")
    rnn: dict[str, Any] = {"activation_descs": [dml.ActivationTanhDesc()], "direction": "FORWARD", "outputs": ["output_single_tensor"]}
    lengths = g.input("lengths", tensor(1, 1, 1, 2, data_type="UINT32"))
    own = {"input_tensor": g.input("x", tensor(1, 3, 2, 4)), "weight_tensor": g.input("w", tensor(1, 1, 5, 4))}
    own["recurrence_tensor"] = g.input("r", tensor(1, 1, 5, 5))
    g.output("h", g.add(dml.RNNDesc, "rnn", sequence_lengths_tensor=lengths, **own, **rnn))
    op = dml.compile(g.build(), "numpy")
    given = {name: values(*desc.sizes) for name, desc in op.inputs.items() if name != "lengths"}
    good, bad = (np.array(counts, np.uint32).reshape(1, 1, 1, 2) for counts in ([1, 3], [1, 4]))
    out = np.full(op.outputs["h"].sizes, np.nan, np.float32)
    dispatch = op.bind({**given, "lengths": good}, {"h": out})
    dispatch.rebind(lengths=bad)
    with pytest.raises(dml.BindError, match=r"lengths.*is 4, expected 0 to 3"):
        dispatch()
    assert np.isnan(out).all()
    dispatch.rebind(lengths=good)
    dispatch()
    assert np.isfinite(out).all()


def test_a_graph_on_cuda_is_one_launch(cuda_device: dml.Device) -> None:
    runtime: Any = cuda_device.runtime  # type: ignore[attr-defined]
    op = dml.compile(owning(), cuda_device)
    _, given = arrays(cuda_device)
    dispatch = op.prepare(w=given["w"], shift=given["shift"]).bind([given["a"], None, None], [cuda_device.from_host(values(1, 1, 4, 4))])
    if not hasattr(runtime, "counts"):
        pytest.skip("only the emulated device counts launches")
    before = runtime.counts.copy()
    for _ in range(3):
        dispatch()
    assert runtime.counts - before == {"launch_graph": 3}
    stream = runtime.begin_capture()
    dispatch(stream)
    assert len(runtime.end_capture(stream)) >= 2, "a graph that is being captured takes the launches one by one"


def test_a_call_copies_arrays_of_the_host_on_request(cuda_device: dml.Device) -> None:
    op = dml.compile(owning(), cuda_device)
    host, given = arrays(cuda_device)
    prepared = op.prepare(w=given["w"], shift=given["shift"])
    out = np.full((2, 4, 4), np.nan, np.float32)
    for found in (prepared(a=host["a"], copy=True).y, op(**host, copy=True).y):
        assert_close(cuda_device.to_host(found), wanted(**host), np.float32, terms=6)
    assert prepared(a=given["a"], y=out[None, :1], copy=True).y.base is out
    assert_close(out[None, :1], wanted(**host), np.float32, terms=6)
    assert np.isnan(out[1]).all()
    for wrong in ({"a": host["a"]}, {"a": host["a"][..., :2], "copy": True}):
        with pytest.raises(dml.BindError) as caught:
            prepared(**wrong)
        assert [problem.path for problem in caught.value.problems] == ["a"]


def test_memory_that_comes_again_is_captured_once(cuda_device: dml.Device) -> None:
    """Of a GPU's launches the first ones with new memory are issued one by one, and those of the last sets of memory are cached."""
    op = dml.compile(owning(), cuda_device)
    host, given = arrays(cuda_device)
    prepared = op.prepare(w=given["w"], shift=given["shift"])
    sets = [(values(1, 1, 4, 4), cuda_device.from_host(values(1, 1, 4, 4))) for _ in range(MAX_CACHED_LAUNCHES + 2)]
    given_sets = [(cuda_device.from_host(a.copy()), y) for a, y in sets]
    dispatch = prepared.bind([given_sets[0][0], None, None], [given_sets[0][1]])
    runtime: Any = cuda_device.runtime  # type: ignore[attr-defined]
    counts = getattr(runtime, "counts", None)

    def captures_of(turns: list[int]) -> int:
        before = 0 if counts is None else counts["capture"]
        for at in turns:
            a, y = given_sets[at]
            dispatch.rebind(a=a, y=y)
            fill(cuda_device, y, np.nan)
            dispatch()
            expected = wanted(**{**host, "a": sets[at][0]})
            assert_close(cuda_device.to_host(y), expected, np.float32, terms=6)
        return 0 if counts is None else counts["capture"] - before

    found = [captures_of(turns) for turns in ([1], [1, 1], [2, 0, 1, 2], [2, 0, 1], [3, 4, 5], [0], [5, 4])]
    assert counts is None or found == [0, 1, 1, 0, 0, 0, 2]


def test_memory_that_was_replaced_is_let_go_of(any_device: dml.Device) -> None:
    op = dml.compile(owning(), any_device)
    _, given = arrays(any_device)
    first, second = (any_device.from_host(values(1, 1, 4, 4)) for _ in range(2))
    out = any_device.from_host(values(1, 1, 4, 4))
    dispatch = op.prepare(w=given["w"], shift=given["shift"]).bind([first, None, None], [out])
    dispatch()
    gone = weakref.ref(first)
    dispatch.rebind(a=second)
    dispatch()
    del first
    gc.collect()
    assert gone() is None


# Owned inputs that are read where they are


def placed(array: Array, offset: int = 0) -> Array:
    """A copy at an address that is a multiple of 64, or so many bytes behind one."""
    room = np.empty(array.nbytes + 128, np.uint8)
    start = -room.ctypes.data % 64 + offset
    found: Array = room[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    found[...] = array
    return found


def summed(rows: int) -> dml.Graph:
    """y = a + w, with w owned."""
    g = dml.GraphBuilder("summed")
    a, w = g.input("a", tensor(1, 1, rows, 64)), g.input("w", tensor(1, 1, rows, 64, flags="OWNED_BY_DML"))
    g.output("y", g.add(dml.ElementWiseAddDesc, a_tensor=a, b_tensor=w))
    return g.build()


@pytest.mark.parametrize(
    ("rows", "offset", "immutable", "borrows"),
    [(64, 0, ("w",), True), (64, 0, (), False), (64, 4, ("w",), False), (1, 0, ("w",), False)],
    ids=["large", "not immutable", "not aligned", "small"],
)
def test_an_immutable_input_in_host_memory_is_not_copied(rows: int, offset: int, immutable: tuple[str, ...], borrows: bool) -> None:
    """Weights of a model are in memory once where nodes read them as they are; a pickle holds them."""
    device = dml.device("numpy")
    op, a = dml.compile(summed(rows), device), values(1, 1, rows, 64)
    w = placed(values(1, 1, rows, 64), offset)
    prepared, expected = op.prepare(w=w, immutable=immutable), a + w
    again = pickle.loads(pickle.dumps(prepared))
    dispatch = prepared.bind({"a": a}, {"y": (y := np.full_like(a, np.nan))})
    dispatch()
    assert prepared(a=a).y.tobytes() == y.tobytes() == again(a=a).y.tobytes() == expected.tobytes()
    w += 1  # which shows whether it is read; whoever says that it lasts must not
    assert (prepared(a=a).y == expected).all() != borrows
    assert again(a=a).y.tobytes() == expected.tobytes()


@pytest.mark.parametrize(
    ("immutable", "message"),
    [
        (["w", "v"], r"immutable is 'v', expected one of w  \[bind.unknown\]"),
        (["a"], r"immutable is 'a', expected one of w"),
        ("w", r"immutable is 'w', expected a list of names of owned inputs  \[bind.form\]\n *remedy: immutable=\['w'\]"),
        (None, r"immutable is None, expected a list"),
    ],
)
def test_immutable_inputs_are_named(immutable: Any, message: str) -> None:
    with pytest.raises(dml.BindError, match=message):
        dml.compile(summed(1), "numpy").prepare(w=values(1, 1, 1, 64), immutable=immutable)


def test_no_output_is_written_to_an_immutable_input() -> None:
    """Where the graph reads it in place; the other inputs may be the same memory."""
    op, a, y = dml.compile(summed(64), "numpy"), values(1, 1, 64, 64), np.empty((1, 1, 64, 64), np.float32)
    w = placed(values(1, 1, 64, 64), 0)
    prepared = op.prepare(w=w, immutable=["w"])
    message = r"y is memory that w uses too, expected separate memory  \[hazard.in_place\]"
    with pytest.raises(dml.BindError, match=message):
        prepared.bind({"a": a}, {"y": w})
    with pytest.raises(dml.BindError, match=message):
        prepared(a=a, y=w)
    dispatch = prepared.bind({"a": w}, {"y": y})
    with pytest.raises(dml.BindError, match=message):
        dispatch.rebind(y=w)
    dispatch()
    assert (y == w + w).all()
    op.prepare(w=w).bind({"a": a}, {"y": w})()  # copied, so that it may be written


def test_a_prepared_graph_keeps_its_immutable_inputs() -> None:
    op, w = dml.compile(summed(64), "numpy"), placed(values(1, 1, 64, 64))
    gone = weakref.ref(w)
    prepared = op.prepare(w=w, immutable=["w"])
    del w
    gc.collect()
    assert gone() is not None
    del prepared
    gc.collect()
    assert gone() is None
