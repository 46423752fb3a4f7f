"""Models whose inputs have other sizes in each run: results, what is compiled for a new size, and what is cached."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto
from onnx.helper import make_node

import dmlpy as dml
from dmlpy import onnx
from dmlpy.devices.graphs.dispatch import GraphDispatch
from dmlpy.devices.graphs.packing import Packing
from dmlpy.onnx.lowering import model_lowering, node_lowering
from dmlpy.onnx.lowering.cache import LRUCache
from dmlpy.onnx.runtime.bound_runs import BoundRuns
from dmlpy.onnx.runtime.compiled_program import CompiledProgram
from dmlpy.onnx.runtime.graph_runs import GraphRun
from tests.support.devices import DeviceOfNothing
from tests.support.onnx.models import model
from tests.support.onnx.open_sizes import MODELS, OpenModel, chosen_rows, decoder, images, normal, recurrent
from tests.support.scripts import run
from tests.support.tables import table
from tests.support.tolerance import assert_close

Array = np.ndarray[Any, Any]
RNG = np.random.default_rng(29)


def fresh(case: OpenModel, given: Mapping[str, Array], device: Any = "numpy") -> dict[str, Array]:
    """What a model gives that knows these sizes only."""
    sizes = {name: list(array.shape) for name, array in given.items()}
    return onnx.load(case.proto, sizes=sizes).compile(device)(given)


def check(found: Mapping[str, Array], expected: Mapping[str, Array]) -> None:
    assert found.keys() == expected.keys()
    for name, array in expected.items():
        assert (found[name].shape, found[name].dtype) == (array.shape, array.dtype), name
        assert_close(found[name], array, np.float32)


ON_CPU = ("decoder", "shape arithmetic", "branches", "LSTM")
"""Models that the usual run compiles: which sizes are open does not depend on the device."""


@pytest.mark.parametrize(
    ("name", "device"),
    [
        *((name, "numpy") for name in MODELS),
        *(pytest.param(name, "cpu", marks=[pytest.mark.slow] * (name not in ON_CPU)) for name in MODELS),
    ],
)
def test_each_size_gives_what_a_model_of_this_size_gives(name: str, device: str) -> None:
    """In any order, each of them twice: with what was compiled for it before, and after others."""
    case = MODELS[name]()
    compiled = onnx.load(case.proto).compile(device)
    runs = [(given, fresh(case, given, device)) for given in map(case.given, case.numbers)]
    for at in (*range(len(runs)), *RNG.permutation(len(runs))):
        given, expected = runs[at]
        check(compiled(given), expected)


def test_sizes_on_cuda(cuda_device: dml.Device) -> None:
    case = decoder()
    compiled = onnx.load(case.proto).compile(cuda_device)
    for past in (2, 5, 2, 2, 5, 2):
        given = case.given(past)
        check(compiled(given), fresh(case, given, cuda_device))


# What a new size costs


class Work:
    """Counts what is done for sizes."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.lowered: Counter[str] = Counter()
        self.packed = 0
        lowered, pack = node_lowering.lower_node, Packing.pack

        def noted(node: Any, stage: Any) -> Any:
            found = lowered(node, stage)  # raises where sizes are not known yet
            self.lowered[node.op_type] += 1
            return found

        def packing(own: Any, *arguments: Any, **named: Any) -> Any:
            self.packed += bool(own._program.persistent_size)
            return pack(own, *arguments, **named)

        monkeypatch.setattr(model_lowering, "lower_node", noted)
        monkeypatch.setattr(Packing, "pack", packing)

    def of(self, call: Any, *arguments: Any) -> tuple[dict[str, int], int]:
        """How many nodes a call lowers, by operator, and how many graphs pack weights."""
        self.lowered.clear()
        self.packed = 0
        call(*arguments)
        return dict(self.lowered), self.packed


FIRST_CALL = """
import sys
import numpy as np
from dmlpy import onnx
compiled = onnx.load({path!r}).compile("numpy")
before = set(sys.modules)
compiled({{"x": np.ones((5, 1, 3), np.float32)}})
print(sorted(set(sys.modules) - before))
"""


def test_a_process_imports_what_calls_need_when_the_model_is_compiled(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(recurrent("GRU", 3).proto.SerializeToString())
    assert run("python", "-c", FIRST_CALL.format(path=str(path))) == "[]\n"


def test_a_model_whose_likely_sizes_are_refused_runs_with_others() -> None:
    """Neither a batch of 1 nor 16 or 64 columns can be multiplied."""
    compiled = onnx.load(model([make_node("MatMul", ["x", "w"], ["y"])], {"x": ["rows", "columns"]}, ["y"], constants={"w": normal(5, 2)}))
    assert compiled.compile("numpy")({"x": normal(3, 5)})["y"].shape == (3, 2)


GROWING = {"Concat": 2, "Transpose": 1, "MatMul": 2, "Mul": 1, "Softmax": 1}
"""The nodes of a layer whose sizes grow with the cache."""


@pytest.mark.parametrize("layers", [1, 3])
def test_only_nodes_of_new_sizes_are_compiled_and_alike_ones_once(monkeypatch: pytest.MonkeyPatch, layers: int) -> None:
    work, case = Work(monkeypatch), decoder(layers)
    compiled = onnx.load(case.proto).compile("numpy")
    assert work.of(compiled, case.given(4)) == (GROWING, 1), "the scale, which all layers share"
    assert work.of(compiled, case.given(5)) == (GROWING, 0), "with symbolic sizes"
    pasts = (4, 6, 7, 9, 8, 20, 100, 110, 12, 300)  # NumPy's softmax of more than 32 keys is another one
    assert [work.of(compiled, case.given(past)) for past in pasts] == [({}, 0)] * len(pasts), "sizes follow from symbolic ones"


@pytest.mark.parametrize(("first", "compiled_whole"), [(2, 0), (1, 1), (0, 0)])
def test_sizes_that_the_file_leaves_open_may_stay_the_same(monkeypatch: pytest.MonkeyPatch, first: int, compiled_whole: int) -> None:
    """The number of tokens is open as well, so that all nodes depend on what is open: runs show what differs. Ones are taken to stay."""
    work, case = Work(monkeypatch), decoder(tokens="one")
    compiled = onnx.load(case.proto).compile("numpy")
    assert work.of(compiled, case.given(first))[0]["LayerNormalization"] == 2
    assert work.of(compiled, case.given(3))[0].get("LayerNormalization", 0) == 2 * compiled_whole
    for past in (5, 6):
        assert work.of(compiled, case.given(past))[0] in ({}, GROWING)
    for past in (4, 9):
        assert work.of(compiled, case.given(past)) == ({}, 0)
    two = {**case.given(9), "ids": np.asarray([[1, 2]])}
    check(compiled(two), fresh(case, two))
    assert work.of(compiled, case.given(4)) == ({}, 0), "what was compiled with one token stays"


def test_many_sizes_that_come_again_are_not_compiled_again(monkeypatch: pytest.MonkeyPatch) -> None:
    work, case = Work(monkeypatch), recurrent("GRU", 3)
    compiled = onnx.load(case.proto).compile("numpy")
    runs = [{"x": normal(steps, 1, 3)} for steps in range(2, 25)]
    found = [work.of(compiled, given)[0] for given in runs]
    assert found == [{"GRU": 2}] + [{}] * (len(runs) - 1), "the first with symbolic sizes, beside those that the model was compiled with"
    assert [work.of(compiled, given) for given in runs] == [({}, 0)] * len(runs)


def test_a_cache_that_begins_with_one_token_is_lowered_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """A size of 1 broadcasts, so its program tells nothing of others: that for the sizes that were prepared does."""
    work = Work(monkeypatch)
    nodes = [
        make_node("Concat", ["past", "k"], ["keys"], axis=1),
        make_node("Transpose", ["keys"], ["turned"], perm=[0, 2, 1]),
        make_node("MatMul", ["k", "turned"], ["scores"]),
        make_node("Softmax", ["scores"], ["weights"], axis=-1),
        make_node("MatMul", ["weights", "keys"], ["y"]),
    ]
    compiled = onnx.load(model(nodes, {"past": [2, "p", 4], "k": [2, 1, 4]}, ["y"])).compile("numpy")
    whole = dict(Counter(node.op_type for node in nodes))
    found = [work.of(compiled, {"past": normal(2, past, 4), "k": normal(2, 1, 4)})[0] for past in (1, 2, 3, 9, 4, 1)]
    assert found == [whole, whole, {}, {}, {}, {}]


@pytest.mark.parametrize("device", ["numpy", "cpu"])
@pytest.mark.parametrize("operator", ["RNN", "GRU", "LSTM"])
def test_weights_are_packed_once_for_all_sizes_that_pack_them_alike(monkeypatch: pytest.MonkeyPatch, device: str, operator: str) -> None:
    """One sample alone may be multiplied by other layouts than several: each layout is packed, and none is taken for another."""
    work, case = Work(monkeypatch), recurrent(operator, {"RNN": 1, "GRU": 3, "LSTM": 4}[operator])
    compiled = onnx.load(case.proto).compile(device)
    runs = [{"x": normal(steps, batch, 3)} for steps, batch in ((5, 1), (6, 1), (6, 4), (2, 4), (3, 1))]
    packed = 0
    for given in runs:
        packed += work.of(lambda given=given: check(compiled(given), given_alone(case, given, work, device)))[1]
    assert packed <= 3


def given_alone(case: OpenModel, given: Mapping[str, Array], work: Work, device: str) -> dict[str, Array]:
    """What a fresh model gives, without its work being counted."""
    before = work.packed
    found = fresh(case, given, device)
    work.packed = before
    return found


GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}


@table(
    ("operator", "layout", "has_states", "clip"),
    [*((operator, 0, False, 0.3) for operator in GATES), *((operator, 1, True, 0.0) for operator in GATES)],
)
def test_recurrent_layers_of_no_steps_give_their_initial_states(operator: str, layout: int, has_states: bool, clip: float) -> None:
    """ONNX Runtime 1.32 has states of 0 there, whatever is given."""
    states = ["h", "c"] if operator == "LSTM" else ["h"]
    given = ["x", "w", "r", "", "", *(states if has_states else [])]
    own = {"hidden_size": 2, "direction": "bidirectional", "layout": layout} | ({"clip": clip} if clip else {})
    node = make_node(operator, given, ["y", *(f"y_{name}" for name in states)], name="layer", **own)
    weights = {"w": normal(2, 2 * GATES[operator], 3), "r": normal(2, 2 * GATES[operator], 2)}
    whole = [3, 2, 2] if layout else [2, 3, 2]
    initial = {name: normal(*whole) for name in states} if has_states else {}
    open_ = model([node], {"x": ["a", "b", 3], **dict.fromkeys(initial, whole)}, [*node.output], constants=weights, opset=22)
    compiled = onnx.load(open_).compile("numpy")
    for steps in (3, 0, 4, 0):
        inputs = {"x": normal(*((3, steps) if layout else (steps, 3)), 3), **initial}
        found = compiled(inputs)
        if steps:  # the last states of the forward direction are its last step
            last = (found["y"][:, -1, 0], found["y_h"][:, 0]) if layout else (found["y"][-1, 0], found["y_h"][0])
            np.testing.assert_array_equal(*last)
            continue
        assert found["y"].shape == ((3, 0, 2, 2) if layout else (0, 2, 3, 2))
        for name in states:
            np.testing.assert_array_equal(found[f"y_{name}"], initial.get(name, np.zeros(whole, np.float32)))


def test_weights_of_two_layers_are_not_taken_for_each_other() -> None:
    """Two layers of the same sizes, whose weights are packed alike."""
    nodes = [
        make_node("LSTM", ["x", "w", "r"], ["a"], hidden_size=4),
        make_node("Squeeze", ["a", "axis"], ["b"]),
        make_node("LSTM", ["b", "v", "s"], ["y"], hidden_size=4),
    ]
    constants = {"w": normal(1, 16, 4), "r": normal(1, 16, 4), "v": normal(1, 16, 4), "s": normal(1, 16, 4), "axis": np.asarray([1])}
    case = OpenModel(model(nodes, {"x": ["steps", 1, 4]}, ["y"], constants=constants), [2, 5, 3], lambda steps: {"x": normal(steps, 1, 4)})
    compiled = onnx.load(case.proto).compile("cpu")
    for steps in case.numbers:
        given = case.given(steps)
        check(compiled(given), fresh(case, given, "cpu"))


# What a size costs that comes again


class Binds:
    """Counts dispatches that are bound, and the tensors that are bound anew."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.dispatches = self.tensors = self.runs = 0
        made, rebind, run = GraphDispatch.__init__, GraphDispatch._rebind, GraphDispatch._enqueue

        def making(own: Any, *arguments: Any, **more: Any) -> None:
            self.dispatches += 1
            made(own, *arguments, **more)

        def rebinding(own: Any, tensors: Mapping[str, Any]) -> None:
            self.tensors += len(tensors)
            rebind(own, tensors)

        def running(own: Any, stream: int) -> None:
            self.runs += 1
            run(own, stream)

        monkeypatch.setattr(GraphDispatch, "__init__", making)
        monkeypatch.setattr(GraphDispatch, "_rebind", rebinding)
        monkeypatch.setattr(GraphDispatch, "_enqueue", running)

    def of(self, call: Any, *arguments: Any) -> tuple[int, int, int]:
        """How many dispatches a call binds and runs, and how many tensors it binds anew."""
        self.dispatches = self.tensors = self.runs = 0
        call(*arguments)
        return self.dispatches, self.runs, self.tensors


@pytest.mark.parametrize(("past", "bound_anew"), [(4, 0), (4200, 4)])
@pytest.mark.parametrize("layers", [1, 3])
def test_sizes_that_come_again_bind_only_large_tensors(monkeypatch: pytest.MonkeyPatch, layers: int, past: int, bound_anew: int) -> None:
    """Those that the model is given and gives, here the caches before and after; small ones are copied."""
    case = decoder(layers)
    compiled = onnx.load(case.proto).compile("numpy")
    binds, graphs = Binds(monkeypatch), 2 * layers + 1
    for _ in range(2):
        compiled(case.given(past))
    assert binds.of(compiled, case.given(past)) == (graphs, graphs, 0), "each graph is bound for these sizes"
    for _ in range(2):
        assert binds.of(compiled, case.given(past)) == (0, graphs, bound_anew * layers)
    compiled(case.given(5))
    assert binds.of(compiled, case.given(past)) == (0, graphs, bound_anew * layers), "others leave it as it is"
    given = case.given(past)
    check(compiled(given), fresh(case, given))


def test_a_layer_binds_nothing_anew_for_sizes_that_come_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a model that is compiled as a whole for each size; with arrays of any layout."""
    case = recurrent("LSTM", 4)
    compiled, binds = onnx.load(case.proto).compile("cpu"), Binds(monkeypatch)
    runs = [{"x": normal(4, 2, 3)}, {"x": normal(3, 2, 4).T}, {"x": normal(4, 4, 3)[:, ::2]}]
    found = [compiled(given) for given in runs]
    for given, own in zip(runs, found, strict=True):
        check(own, fresh(case, given, "cpu"))
    assert [binds.of(compiled, given) for given in runs] == [(0, 1, 0)] * len(runs)


def test_one_array_for_several_inputs_is_not_taken_for_one_input(monkeypatch: pytest.MonkeyPatch) -> None:
    case = decoder(1)
    compiled = onnx.load(case.proto).compile("numpy")
    given = case.given(3)
    alike = {**given, "layer0/past_v": given["layer0/past_k"]}
    for own in (alike, alike, given, given):
        check(compiled(own), fresh(case, own))
    assert Binds(monkeypatch).of(compiled, given) == (0, 3, 0)


def test_outputs_stay_when_the_same_sizes_come_again() -> None:
    """Those on the device too, though tensors between graphs are written in each run."""
    case = decoder()
    compiled = onnx.load(case.proto).compile("numpy")
    runs = [case.given(3) for _ in range(5)]
    found = [compiled.run(given, outputs="device") for given in runs]
    for own, given in zip(found, runs, strict=True):
        check(own, fresh(case, given))


@pytest.mark.parametrize("keep_bytes", [1 << 28, 1 << 19])
def test_runs_bound_together_hold_a_small_part_of_what_is_cached(keep_bytes: int) -> None:
    case = decoder()
    compiled = onnx.load(case.proto).compile("numpy", keep_bytes=keep_bytes)
    for given in [case.given(3)] * 4:
        check(compiled(given), fresh(case, given))
    bound = [size for item, size in compiled._cache._items.values() if isinstance(item, BoundRuns)]
    assert len(bound) == (keep_bytes > 1 << 20)
    assert all(0 < size <= keep_bytes / 8 for size in bound)


def test_what_depends_on_elements_is_not_bound_for_sizes() -> None:
    """How many rows there are: the same sizes give outputs of others."""
    case = chosen_rows()
    compiled = onnx.load(case.proto).compile("numpy")
    for number in (1, 4, 2, 4, 3):
        given = case.given(number)
        check(compiled(given), fresh(case, given))
    assert compiled._open is not None
    assert compiled._open.form({name: array.shape for name, array in given.items()}) is not None, "it runs in parts"
    assert not any(isinstance(item, BoundRuns) for item, _ in compiled._cache._items.values())


@pytest.mark.parametrize("busy", ["thread", "stream"])
def test_runs_that_cannot_use_what_is_bound_run_as_before(monkeypatch: pytest.MonkeyPatch, busy: str) -> None:
    """Another thread has it, or the stream is another."""
    case = decoder()
    compiled = onnx.load(case.proto).compile("numpy")
    for _ in range(3):
        compiled(case.given(3))
    (bound,) = (item for item, _ in compiled._cache._items.values() if isinstance(item, BoundRuns))
    if busy == "stream":
        monkeypatch.setattr(type(compiled.device), "stream_identity", lambda own, stream: 7)
    else:
        bound._lock.acquire()
    given = case.given(3)
    assert bound.values(given) is None
    check(compiled(given), fresh(case, given))
    check(compiled(given), fresh(case, given))


# The cache


@pytest.mark.parametrize("case", [decoder, images])
def test_the_cache_is_bounded_by_its_bytes(monkeypatch: pytest.MonkeyPatch, case: Any) -> None:
    own = case()
    runs = [own.given(number) for number in own.numbers]
    all_kept = onnx.load(own.proto).compile("numpy")
    for given in runs:
        all_kept(given)
    most = all_kept._cache.used_bytes // 3
    compiled = onnx.load(own.proto).compile("numpy", keep_bytes=most)
    for given in (*runs, *reversed(runs)):
        check(compiled(given), fresh(own, given))
        assert 0 < compiled._cache.used_bytes <= most
    assert 0 < len(compiled._cache) < len(all_kept._cache)
    prepared = Counter[str]()
    prepare = GraphRun.__init__

    def preparing(own: Any, *arguments: Any) -> None:
        prepared["graphs"] += 1
        prepare(own, *arguments)

    monkeypatch.setattr(GraphRun, "__init__", preparing)
    compiled(runs[0])
    assert not prepared, "what was used last is kept"
    compiled(runs[-1])
    assert prepared, "what was used longest ago is not"


def test_cached_items_are_evicted_in_the_order_of_their_last_use() -> None:
    cache = LRUCache(10)
    for key, size in (("a", 4), ("b", 3), ("c", 3)):
        cache.put(key, key.upper(), size)
    assert cache.get("a") == "A"
    cache.put("d", "D", 2)
    assert [cache.get(key) for key in "abcd"] == ["A", None, "C", "D"]
    assert (cache.used_bytes, len(cache)) == (9, 3)
    cache.put("c", "again", 5)
    assert [cache.get(key) for key in "acd"] == [None, "again", "D"]
    assert cache.used_bytes == 7
    cache.put("e", "large", 99)
    assert (cache.get("e"), len(cache), cache.used_bytes) == ("large", 1, 99), "what was used last stays in any case"


@pytest.mark.parametrize(("steps", "copied"), [(4, 4 * 2 * (3 + 5) * 4 + 40), (4000, 4000 * 2 * 3 * 4 + 40)])
def test_memory_of_copied_tensors_counts_among_the_cached_bytes(steps: int, copied: int) -> None:
    """x and y of each step and h; of 4,000 steps y is too large. The weights count once, where they were packed first."""
    compiled = onnx.load(recurrent("LSTM", 4).proto).compile("numpy")
    compiled._compile_for_sizes({"x": (steps, 2, 3)})
    programs = [item for item, _ in compiled._cache._items.values() if isinstance(item, CompiledProgram)]
    first, second = (run for program in programs for run in program._runs if isinstance(run, GraphRun))
    properties = [run.compiled.binding_properties for run in (first, second)]
    assert second.held_bytes == properties[1].temporary_resource_size + copied
    assert first.held_bytes == properties[0].temporary_resource_size + properties[0].persistent_resource_size + first.copied_bytes


@pytest.mark.each_value
@pytest.mark.parametrize("keep_bytes", [0, 1 << 28])
@pytest.mark.parametrize("case", [decoder, lambda: recurrent("LSTM", 4)])
def test_threads_may_bring_sizes_at_the_same_time(case: Any, keep_bytes: int) -> None:
    own = case()
    runs = [own.given(number) for number in own.numbers] * 3
    expected = [fresh(own, given) for given in runs]
    compiled = onnx.load(own.proto).compile("numpy", keep_bytes=keep_bytes)
    with ThreadPoolExecutor(6) as threads:
        for found, right in zip(threads.map(compiled, runs), expected, strict=True):
            check(found, right)


# What is wrong with some sizes


def refusal(call: Any, given: Mapping[str, Array]) -> str:
    with pytest.raises(dml.DmlError) as caught:
        call(given)
    return str(caught.value)


def test_sizes_that_do_not_go_together_are_refused_as_by_a_model_of_these_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    """By name, with the sizes of all nodes; and other sizes run as before."""
    case = decoder()
    compiled = onnx.load(case.proto).compile("numpy")
    good = case.given(3)
    check(compiled(good), fresh(case, good))
    for name in ("layer0/past_k", "layer1/past_v"):
        wrong = {**good, name: normal(1, 2, 5, 4)}
        told = refusal(compiled, wrong)
        assert told == refusal(lambda given: fresh(case, given), wrong)
    assert "layer1/read" in told
    work = Work(monkeypatch)
    assert work.of(compiled, good) == ({}, 0)
    assert work.of(compiled, case.given(6)) == (GROWING, 0)
    assert refusal(compiled, wrong) == told


def test_nodes_that_are_wrong_for_some_sizes_only() -> None:
    """An index past the end of the shorter inputs: nothing is computed from the memory behind them."""
    nodes = [
        make_node("Gather", ["x", "index"], ["row"], name="late row"),
        make_node("MatMul", ["z", "w"], ["a"]),
        make_node("Tanh", ["a"], ["b"]),
        make_node("MatMul", ["b", "w"], ["c"]),
        make_node("Tanh", ["c"], ["d"]),
        make_node("MatMul", ["d", "w"], ["e"]),
        make_node("Tanh", ["e"], ["f"]),
        make_node("MatMul", ["f", "w"], ["g"]),
        make_node("Sigmoid", ["g"], ["net"]),
        make_node("Add", ["row", "net"], ["y"]),
    ]
    constants = {"index": np.asarray([4]), "w": normal(3, 3)}
    case = OpenModel(model(nodes, {"x": ["rows", 3], "z": [2, 3]}, ["y"], constants=constants), (), lambda rows: {})
    compiled = onnx.load(case.proto).compile("numpy")
    for rows in (7, 3, 5, 4, 9):
        given = {"x": normal(rows, 3), "z": normal(2, 3)}
        if rows > 4:
            check(compiled(given), fresh(case, given))
        else:
            assert refusal(compiled, given) == refusal(lambda given: fresh(case, given), given)


def test_what_a_device_does_not_run_is_reported_when_sizes_are_known() -> None:
    """All of it, as by a model of these sizes: that part of it could be compiled before makes no difference."""
    case = decoder()
    compiled = onnx.load(case.proto).compile(DeviceOfNothing())
    given = case.given(3)
    told = refusal(compiled, given)
    assert told == refusal(lambda given: fresh(case, given, DeviceOfNothing()), given)
    assert told.count("operator.not_built") > 1


def test_nodes_that_only_the_host_runs_keep_their_names() -> None:
    """Of two layers that differ in names only, the second has an input that its node does not take."""
    types = {"keep": TensorProto.BOOL}
    nodes = [
        make_node("Compress", ["x", "keep"], ["a"], name="first choice", axis=0),
        make_node("MatMul", ["a", "w"], ["y"], name="first product"),
        make_node("Compress", ["u", "keep"], ["b"], name="second choice", axis=0),
        make_node("MatMul", ["b", "w"], ["v"], name="second product"),
    ]
    proto = model(nodes, {"x": [4, 3], "u": [4, "width"], "keep": [4]}, ["y", "v"], types=types, constants={"w": normal(3, 2)})
    compiled = onnx.load(proto).compile("numpy")
    given = {"x": normal(4, 3), "u": normal(4, 3), "keep": np.asarray([True, False, True, True])}
    found = compiled(given)
    weights = onnx.load(proto).loaded.array(proto.graph.initializer[0])
    assert_close(found["v"], given["u"][given["keep"]] @ weights, np.float32)
    assert "second product" in refusal(compiled, given | {"u": normal(4, 5)})
