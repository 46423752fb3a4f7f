"""Compiled models: threads, memory, device-resident outputs, other libraries' arrays, comparison, and ONNX's interface of backends."""

from __future__ import annotations

import pickle
import re
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, save_model
from onnx.helper import (
    make_graph,
    make_node,
    make_optional_type_proto,
    make_tensor_sequence_value_info,
    make_tensor_type_proto,
    make_tensor_value_info,
    make_value_info,
    np_dtype_to_tensor_dtype,
)

import dmlpy as dml
from dmlpy import onnx
from dmlpy.devices.cuda.device import CudaDevice
from dmlpy.devices.cuda.emulation.memory import DlpackArray
from dmlpy.devices.graphs.compiled import PreparedGraph
from dmlpy.devices.numpy.device import NumpyDevice
from dmlpy.onnx import backend
from tests.support.cuda.fakes.cupy_bindings import FakeGpus
from tests.support.cuda.fakes.runtime_over_fake_cupy import runtime_over
from tests.support.devices import DeviceOfNothing
from tests.support.onnx.models import model
from tests.support.tolerance import assert_close

Array = np.ndarray[Any, Any]
WEIGHTS = np.random.default_rng(0).standard_normal((3, 5)).astype(np.float32)


def chain(batch: int | str = 4) -> onnx.Model:
    """A graph, a node on the host, and a graph that reads both."""
    nodes = [
        make_node("MatMul", ["x", "w"], ["a"], name="product"),
        make_node("Relu", ["a"], ["b"], name="act"),
        make_node("Unique", ["b"], ["u"], name="unique"),
        make_node("Mul", ["b", "b"], ["y"], name="square"),
        make_node("Greater", ["y", "one"], ["large"], name="compare"),
    ]
    types = {"large": TensorProto.BOOL}
    constants = {"w": WEIGHTS, "one": np.ones(1, np.float32)}
    return onnx.load(model(nodes, {"x": [batch, 3]}, ["y", "u", "large"], constants=constants, types=types))


def expected(x: Array) -> dict[str, Array]:
    act = np.maximum(x @ WEIGHTS, 0)
    return {"y": act * act, "u": np.unique(act), "large": act * act > 1}


def given(seed: int, count: int = 4) -> Array:
    return np.random.default_rng(seed).standard_normal((count, 3)).astype(np.float32)


def check(found: dict[str, Any], x: Array) -> None:
    for name, array in expected(x).items():
        assert found[name].dtype == array.dtype
        assert_close(found[name], array, np.float32)


@pytest.mark.parametrize("device", ["numpy", "cpu"])
def test_the_exported_log_sigmoid_of_large_negative_numbers_is_the_number(device: str) -> None:
    """Sigmoid and Log, as PyTorch 2.13.0 exports LogSigmoid; ONNX Runtime 1.32.0 has -inf (findings/torch-exporter-logsigmoid.sh)."""
    nodes = [make_node("Sigmoid", ["x"], ["s"]), make_node("Log", ["s"], ["y"])]
    x = np.array([-80, -50, -18, -17, -1], np.float32)
    found = onnx.load(model(nodes, {"x": [5]}, ["y"])).compile(device)({"x": x})["y"]
    assert_close(found, -np.log1p(np.exp(-x.astype(np.float64))), np.float32)


def test_threads_share_a_model() -> None:
    compiled = chain("n").compile("numpy", keep_bytes=0)
    inputs = [given(seed, 1 + seed % 3) for seed in range(60)]
    with ThreadPoolExecutor(8) as threads:
        for x, found in zip(inputs, threads.map(lambda x: compiled({"x": x}), inputs), strict=True):
            check(found, x)


def test_runs_in_different_streams_have_scratch_of_their_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Runs of one dispatch into two streams would use its scratch at the same time."""
    bound: list[Any] = []
    bind = PreparedGraph.bind

    def noted(*arguments: Any) -> Any:
        bound.append(bind(*arguments))
        return bound[-1]

    monkeypatch.setattr(PreparedGraph, "bind", noted)
    gpu = CudaDevice(runtime_over(FakeGpus(), monkeypatch, tmp_path))
    relu = onnx.load(model([make_node("Relu", ["x"], ["y"])], {"x": [4, 3]}, ["y"])).compile(gpu)
    streams = [sys.modules["cupy"].cuda.Stream(non_blocking=True) for _ in range(2)]
    for stream in (*streams, *streams, streams[0]):
        with stream:
            relu({"x": given(0)})
    assert len(bound) == 2


def test_results_of_earlier_runs_stay() -> None:
    compiled = chain().compile("numpy")
    first = compiled({"x": given(0)})
    compiled({"x": given(1)})
    check(first, given(0))
    first["y"][...] = 0
    check(compiled({"x": given(0)}), given(0))


def test_outputs_may_stay_on_the_device(any_device: dml.Device) -> None:
    compiled = chain().compile(any_device)
    found = compiled.run({"x": given(0)}, outputs="device")
    assert isinstance(found["u"], np.ndarray), "what a node on the host gives is there"
    if any_device.memory_kind == "cuda":
        assert any_device.view(found["y"]).device == any_device.view(found["large"]).device == any_device.name
    assert found["large"].dtype == np.bool_
    check({name: any_device.to_host(array) for name, array in found.items()}, given(0))


def test_what_stays_on_the_device_is_read_there(any_device: dml.Device) -> None:
    nodes = [make_node("Mul", ["x", "x"], ["y"]), make_node("Not", ["b"], ["c"])]
    types = {"b": TensorProto.BOOL, "c": TensorProto.BOOL}
    compiled = onnx.load(model(nodes, {"x": [2, 3], "b": [3]}, ["y", "c"], types=types)).compile(any_device)
    x, b = given(0, 2), np.asarray([True, False, True])
    first = compiled.run({"x": x, "b": b}, outputs="device")
    for array in first.values():
        assert array.strides  # each is an array of its own: a later run leaves it alone
    second = compiled.run({"x": first["y"], "b": first["c"]})
    assert_close(second["y"], x**4, np.float32)
    np.testing.assert_array_equal(second["c"], b)
    assert_close(any_device.to_host(first["y"]), x * x, np.float32)


def test_device_arrays_that_know_dlpack_alone_are_taken(cuda_device: dml.Device) -> None:
    array = DlpackArray(cuda_device.from_host(given(3)))
    check(chain().compile(cuda_device)({"x": array}), given(3))


class Foreign:
    """An array of another library, which knows DLPack."""

    def __init__(self, array: Array) -> None:
        self._array = array

    def __dlpack__(self, **arguments: Any) -> Any:
        return self._array.__dlpack__(**arguments)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._array.__dlpack_device__()


def test_arrays_of_other_libraries_are_taken(any_device: dml.Device) -> None:
    check(chain().compile(any_device)({"x": Foreign(given(3))}), given(3))


def test_arrays_at_any_address_are_taken(any_device: dml.Device) -> None:
    """Larger than what is copied between runs anyway; the sizes recur, so that graphs are bound together."""
    memory = np.zeros(4 * 3 * 4000 + 1, np.uint8)
    x = memory[1:].view(np.float32).reshape(4000, 3)
    x[...] = np.random.default_rng(7).standard_normal(x.shape)
    compiled = onnx.load(model([make_node("Relu", ["x"], ["y"])], {"x": ["t", 3]}, ["y"])).compile(any_device)
    for given in (x, Foreign(x), x, x):
        np.testing.assert_array_equal(compiled(x=given)["y"], np.maximum(x, 0))


@pytest.mark.filterwarnings("ignore:the matrix subclass:PendingDeprecationWarning")
def test_a_matrix_is_a_plain_array() -> None:
    """Rows of NumPy's matrix have two dimensions, which a loop over rows would hand on."""
    step = [make_node("Add", ["s", "row"], ["next"])]
    types = [make_value_info(name, make_tensor_type_proto(TensorProto.FLOAT, [3])) for name in ("s", "row", "next")]
    scan = make_node("Scan", ["start", "x"], ["y"], body=make_graph(step, "body", types[:2], types[2:]), num_scan_inputs=1)
    loaded = onnx.load(model([scan], {"start": [3], "x": [2, 3]}, ["y"]), limits=onnx.Limits(unrolled=0))
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    found = loaded.compile("numpy")(start=np.zeros(3, np.float32), x=np.asmatrix(x))["y"]
    np.testing.assert_array_equal(found, x.sum(0), strict=True)


def listed(*nodes: Any, outputs: Sequence[str]) -> onnx.CompiledModel:
    """A model of nodes that read what they name: a sequence of floats `s`, an optional `o`, floats `x`, an integer `i`."""
    types = {"i": TensorProto.INT64, "i2": TensorProto.INT64, "h": TensorProto.BOOL}
    read = {name for node in nodes for name in node.input}
    sizes: dict[str, list[int | str]] = {"i": [], "x": ["n", 3]}
    built = model(nodes, {name: sizes[name] for name in sizes if name in read}, outputs, types=types)
    if "s" in read:
        built.graph.input.append(make_tensor_sequence_value_info("s", TensorProto.FLOAT, None))
    if "o" in read:
        built.graph.input.append(make_value_info("o", make_optional_type_proto(make_tensor_type_proto(TensorProto.FLOAT, [2]))))
    return onnx.load(built).compile("numpy")


def test_sequences_are_lists_of_arrays() -> None:
    nodes = [make_node("SequenceAt", ["s", "i"], ["a"]), make_node("Relu", ["a"], ["y"]), make_node("SequenceInsert", ["s", "y"], ["t"])]
    compiled = listed(*nodes, outputs=["y", "t"])
    found = compiled({"s": [given(0, 1), Foreign(given(1, 2))], "i": np.asarray(1)})
    np.testing.assert_array_equal(found["y"], np.maximum(given(1, 2), 0))
    assert [array.shape for array in found["t"]] == [(1, 3), (2, 3), (2, 3)]
    np.testing.assert_array_equal(found["t"][2], found["y"])


@pytest.mark.parametrize(("position", "place"), [(0, 0), (2, 2), (-1, 1), (-2, 0)])
def test_a_position_that_comes_when_the_model_runs_is_counted_from_either_end(position: int, place: int) -> None:
    parts, new = [given(0, 1), given(1, 2)], given(2, 3)
    found = listed(make_node("SequenceInsert", ["s", "x", "i"], ["t"]), outputs=["t"])({"s": parts, "x": new, "i": np.asarray(position)})[
        "t"
    ]
    expected = parts.copy()
    expected.insert(place, new)
    assert [array.tolist() for array in found] == [array.tolist() for array in expected]


@pytest.mark.parametrize(
    ("operator", "position", "text"),
    [
        ("SequenceAt", 2, r"node.input 1 'position' is 2, expected -2 to 1: the sequence has 2 tensors"),
        ("SequenceErase", -3, r"node.input 1 'position' is -3, expected -2 to 1: the sequence has 2 tensors"),
        ("SequenceInsert", 3, r"node.input 2 'position' is 3, expected -2 to 2: the sequence has 2 tensors"),
    ],
)
def test_a_position_outside_of_a_sequence_is_refused(operator: str, position: int, text: str) -> None:
    given_names = ["s", "x", "i"] if operator == "SequenceInsert" else ["s", "i"]
    compiled = listed(make_node(operator, given_names, ["t"], name="node"), outputs=["t"])
    held = {"s": [given(0, 1), given(1, 2)], "x": given(2, 3), "i": np.asarray(position)}
    with pytest.raises(dml.DeviceError, match=text):
        compiled({name: held[name] for name in given_names})
    assert [array.shape for array in compiled({**{name: held[name] for name in given_names}, "i": np.asarray(0)})["t"]]


def test_optionals_hold_a_tensor_or_nothing() -> None:
    compiled = listed(make_node("OptionalHasElement", ["o"], ["h"]), outputs=["h"])
    assert [compiled({"o": held})["h"].item() for held in (None, np.ones(2, np.float32))] == [False, True]
    value = listed(make_node("OptionalGetElement", ["o"], ["e"]), make_node("Neg", ["e"], ["y"]), outputs=["y"])
    np.testing.assert_array_equal(value({"o": np.ones(2, np.float32)})["y"], [-1, -1])
    with pytest.raises(dml.DeviceError, match="expected an optional that holds something"):
        value({"o": None})


@pytest.mark.parametrize(
    ("operator", "name", "wrong", "text"),
    [
        ("SequenceLength", "s", np.ones(3, np.float32), "s is an array of float32 [3], expected a list: the input is a sequence"),
        ("SequenceLength", "s", None, "s is None, expected a list"),
        ("SequenceLength", "s", [np.ones(1, np.float32), np.ones(1)], "s[1] is float64, expected float32"),
        ("SequenceLength", "s", ["text"], "s[0] is <U4, expected float32"),
        ("OptionalHasElement", "o", np.ones(3, np.float32), "o is of sizes [3], expected float32 [2]"),
        ("OptionalHasElement", "o", np.ones(2, np.int32), "o is int32, expected float32"),
    ],
)
def test_sequences_and_optionals_that_do_not_fit_are_reported(operator: str, name: str, wrong: Any, text: str) -> None:
    compiled = listed(make_node(operator, [name], ["h" if name == "o" else "i2"]), outputs=["h" if name == "o" else "i2"])
    with pytest.raises(dml.BindError, match=re.escape(text)):
        compiled({name: wrong})


@pytest.mark.parametrize("way", ["call", "run", "profile", "compare"])
def test_inputs_without_their_names_are_refused_with_the_names(way: str) -> None:
    compiled: Any = chain().compile("numpy")
    array = np.ones((4, 3), np.float32)
    calls = {"call": compiled, "run": compiled.run, "profile": compiled.profile, "compare": partial(compiled.compare, "reference")}
    with pytest.raises(dml.BindError, match=r"inputs is an array of float32 \[4, 3\], expected a mapping(.|\n)*name it: \{'x': array\}"):
        calls[way](array)


@pytest.mark.parametrize("outputs", [None, ["y"]])
@pytest.mark.parametrize("call", ["compiled", "compiled.run"])
def test_a_call_as_of_an_onnx_runtime_session_is_answered_with_the_call(outputs: Any, call: str) -> None:
    compiled: Any = chain().compile("numpy")
    feeds = {"x": np.ones((4, 3), np.float32)}
    output = next(iter(compiled(feeds)))
    with pytest.raises(dml.BindError) as caught:
        (compiled if call == "compiled" else compiled.run)(outputs, feeds)
    for text in (
        f"call is {call}({outputs}, {{'x': ",
        f"expected {call}(inputs)  [bind.form]",
        f"remedy: {call}({{'x': array}})['{output}']",
    ):
        assert text in str(caught.value)


def test_outputs_lie_in_one_of_two_places() -> None:
    compiled: Any = chain().compile("numpy")
    with pytest.raises(dml.DescError, match="outputs is 'gpu', expected 'host' or 'device'"):
        compiled.run({"x": np.ones((4, 3), np.float32)}, outputs="gpu")


def test_a_type_that_does_not_fit_has_a_remedy() -> None:
    with pytest.raises(dml.BindError, match=r"cast it: array\.astype\(numpy\.float32\)"):
        chain().compile("numpy")(x=[[1.0, 2.0, 3.0]] * 4)


@pytest.mark.parametrize("kind", ["open", "known", "with constants", "of a file", "of external data"])
def test_a_compiled_model_travels_in_a_pickle(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """To other processes: with the weights, once, and with what it was compiled for."""
    width = 600 if kind == "of a file" else 100  # from 1 MiB on weights are read apart
    weights = np.random.default_rng(1).standard_normal((width, width), np.float32)
    nodes = [make_node("MatMul", ["x", "w"], ["a"]), make_node("Add", ["a", "b"], ["y"])]
    proto = model(nodes, {"x": ["n" if kind == "open" else 2, width], "b": [width]}, ["y"], constants={"w": weights})
    source: Any = proto
    if kind == "of a file":
        (tmp_path / "model.onnx").write_bytes(proto.SerializeToString())
        source = tmp_path / "model.onnx"
    if kind == "of external data":
        monkeypatch.chdir(tmp_path)
        source = Path("model.onnx")
        save_model(proto, source, save_as_external_data=True, location="weights.bin")
    x, b = weights[:2], weights[3]
    compiled = onnx.load(source, constants={"b": b} if kind == "with constants" else None).compile("numpy", "5_0")
    feeds = {"x": x} if kind == "with constants" else {"x": x, "b": b}
    expected = compiled(feeds)["y"]
    data = pickle.dumps(compiled)
    assert len(data) < weights.nbytes + 20_000
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    arrived = pickle.loads(data)
    assert (arrived.device, arrived.feature_level) == (compiled.device, compiled.feature_level)
    np.testing.assert_array_equal(arrived(feeds)["y"], expected)
    monkeypatch.setattr("dmlpy.devices.persistence.pickling.__version__", "0.0.1")
    with pytest.raises(dml.PickleError, match=r"dmlpy 0\.0\.1 is to load it"):
        pickle.loads(data)


def test_a_loop_and_a_host_node_that_have_run_travel_in_a_pickle() -> None:
    """What their runs have bound to memory stays here."""
    body = make_graph(
        [make_node("Identity", ["goes_on"], ["again"]), make_node("Add", ["state", "x"], ["sum"])],
        "body",
        [
            make_tensor_value_info(name, kind, sizes)
            for name, kind, sizes in (("i", TensorProto.INT64, []), ("goes_on", TensorProto.BOOL, []), ("state", TensorProto.FLOAT, [3]))
        ],
        [make_tensor_value_info("again", TensorProto.BOOL, []), make_tensor_value_info("sum", TensorProto.FLOAT, [3])],
    )
    nodes = [make_node("Loop", ["n", "", "x"], ["y"], body=body), make_node("Unique", ["y"], ["unique"])]
    compiled = onnx.load(model(nodes, {"n": [], "x": [3]}, ["y", "unique"], types={"n": TensorProto.INT64})).compile("numpy")
    feeds, data = {"n": np.array(5), "x": np.float32([1, 2, 2])}, pickle.dumps(compiled)
    for _ in range(3):
        found = compiled(feeds)
    assert len(pickle.dumps(compiled)) == len(data)
    arrived = pickle.loads(pickle.dumps(compiled))(feeds)
    for name, wanted in {"y": [6, 12, 12], "unique": [6, 12]}.items():
        assert (found[name].tolist(), arrived[name].tolist()) == (wanted, wanted)


def test_a_compiled_model_on_a_device_without_a_name_is_not_pickled() -> None:
    compiled = onnx.load(model([make_node("Relu", ["x"], ["y"])], {"x": [2]}, ["y"])).compile(NumpyDevice())
    with pytest.raises(dml.PickleError, match="its device was made by hand"):
        pickle.dumps(compiled)


def test_a_scalar_may_be_a_list_of_one_number() -> None:
    compiled = onnx.load(model([make_node("Mul", ["x", "rate"], ["y"])], {"x": [2], "rate": []}, ["y"])).compile("numpy")
    for rate in (np.float32([3]), np.float32([[3]]), np.asarray(3, np.float32)):
        np.testing.assert_array_equal(compiled({"x": np.float32([1, 2]), "rate": rate})["y"], np.float32([3, 6]))
    with pytest.raises(dml.BindError, match=r"rate is of sizes \[2\]"):
        compiled({"x": np.float32([1, 2]), "rate": np.float32([3, 4])})


def test_an_initializer_that_is_an_input_is_a_default() -> None:
    built = chain().loaded.proto
    built.graph.input.add(name="w").type.CopyFrom(built.graph.input[0].type)
    built.graph.input[1].type.tensor_type.shape.dim[0].dim_value = 3
    built.graph.input[1].type.tensor_type.shape.dim[1].dim_value = 5
    loaded = onnx.load(built)
    assert [*loaded.inputs] == ["x"]
    check(loaded.compile("numpy")({"x": given(0)}), given(0))
    doubled = onnx.load(built, constants={"w": 2 * WEIGHTS}).compile("numpy")({"x": given(0)})
    assert_close(doubled["y"], 4 * expected(given(0))["y"], np.float32)
    compiled = loaded.compile("numpy")
    for factor in (2, 3):  # a call may give it, as in ONNX Runtime
        arrays = {"x": given(0), "w": factor * WEIGHTS}
        assert_close(compiled(arrays)["y"], factor**2 * expected(given(0))["y"], np.float32)
    check(compiled({"x": given(0)}), given(0))
    assert compiled.profile(arrays, runs=1).nodes
    assert compiled.compare("reference", arrays).first is None
    with pytest.raises(dml.BindError, match=r"w is of sizes \[3, 4\]"):
        compiled({"x": given(0), "w": WEIGHTS[:, :4]})
    with pytest.raises(dml.BindError, match=r"w is None, expected float32 \[3, 5\](.|\n)*leave it out: its initializer is used"):
        compiled({"x": given(0), "w": None})
    with pytest.raises(dml.BindError, match=r"expected one of \[x, w\]"):
        compiled({"x": given(0), "v": WEIGHTS})


TEXTS = [
    (
        "float32",
        "STRING",
        [1.5, 1e10, 0.1, 3, np.nan, -np.inf, 1e-5, -0.0],
        ["1.5", "1e+10", "0.1", "3", "NaN", "-INF", "9.9999997e-06", "-0"],
    ),
    ("float64", "STRING", [1 / 3, 123456789.0], ["0.33333333", "1.2345679e+08"]),
    ("bool", "STRING", [True, False], ["1", "0"]),
    ("object", "BOOL", ["1", "0", "-3", "0.0"], [True, False, True, False]),
    ("object", "INT64", ["3.7", "-3.7", " 5"], [3, -3, 5]),
    ("object", "UINT8", ["300", "-3"], [44, 253]),
    ("object", "FLOAT", ["1e3", "inf", "NaN"], [1000, np.inf, np.nan]),
]
"""Casts to and from texts as ONNX Runtime 1.32.0 makes them."""


@pytest.mark.parametrize(("of", "to", "values", "expected"), TEXTS, ids=lambda given: given if isinstance(given, str) else "")
def test_numbers_become_texts_and_texts_numbers_as_in_onnx_runtime(of: str, to: str, values: list[Any], expected: list[Any]) -> None:
    wanted = TensorProto.DataType.Value(to)
    kind = TensorProto.STRING if of == "object" else int(np_dtype_to_tensor_dtype(np.dtype(of)))
    built = model([make_node("Cast", ["x"], ["y"], to=wanted)], {"x": [len(values)]}, ["y"], types={"x": kind, "y": wanted})
    result = onnx.load(built).compile("numpy")({"x": np.array(values, of)})["y"]
    np.testing.assert_array_equal(result, np.array(expected, result.dtype))


def test_the_plan_reports_the_memory() -> None:
    compiled = chain("n").compile("numpy")
    plan = compiled.explain_plan({"x": [4, 3]})
    assert plan.weight_bytes >= WEIGHTS.nbytes
    assert [part for part in plan.parts if isinstance(part, tuple)] == [("unique",)]
    assert "on the host: unique" in str(plan)
    with pytest.raises(dml.BindError, match="float32 \\[n, 3\\]"):
        compiled.explain_plan()
    with pytest.raises(dml.BindError, match="of sizes"):
        compiled.explain_plan({"x": [4, 2]})


def test_devices_are_compared_node_by_node() -> None:
    compiled = chain().compile("numpy")
    found = compiled.compare("reference", {"x": given(0)})
    assert found.first is None
    assert "agree" in str(found)
    first = compiled.compare("reference", {"x": given(0)}, tolerance=0.0).first
    assert first is not None
    assert first.node.startswith("product/")


def test_what_no_device_runs_is_reported() -> None:
    with pytest.raises(dml.CompileError):
        chain().compile(DeviceOfNothing())


def test_dmlpy_is_a_backend_of_onnx() -> None:
    proto = chain().loaded.proto
    assert backend.supports_device("CPU")
    assert not backend.supports_device("TPU")
    assert backend.is_compatible(proto)
    prepared = backend.prepare(proto)
    for inputs in ([given(0)], {"x": given(0)}, given(0)):
        found = prepared.run(inputs)
        assert_close(found[0], expected(given(0))["y"], np.float32)
        np.testing.assert_array_equal(found["large"], expected(given(0))["large"])
    (sums,) = backend.run_node(make_node("Add", ["a", "b"], ["c"]), [np.ones(3, np.float32), np.ones(3, np.float32)], opset_version=14)
    np.testing.assert_array_equal(sums, [2, 2, 2])
    assert not backend.is_compatible(model([make_node("Mystery", ["x"], ["y"], domain="own")], {"x": [2]}, ["y"], domains={"own": 1}))


@pytest.mark.parametrize("form", [list, np.array, lambda given: np.array(given, object)], ids=["list", "characters", "objects"])
def test_texts_may_be_arrays_of_characters(form: Any) -> None:
    texts = {"inputs": {"x": [2], "y": [1]}, "types": dict.fromkeys("xy", TensorProto.STRING)}
    proto = model([make_node("StringConcat", ["x", "y"], ["z"])], outputs=["z"], opset=20, **texts)
    assert onnx.load(proto).compile("numpy")(x=form(["a", "bc"]), y=form(["d"]))["z"].tolist() == ["ad", "bcd"]
