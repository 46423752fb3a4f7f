"""Reports: what becomes of each node, why not, and what ONNX Runtime's DirectML provider is predicted to do.

The complaints are public threads of onnxruntime, rebuilt as models of one or a few nodes.
"""

from __future__ import annotations

import html
import json
import re
import runpy
import shutil
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, defs
from onnx.helper import make_node

import dmlpy as dml
from dmlpy import onnx
from dmlpy.onnx.reporting import provider
from tests.support.folders import EXAMPLES
from tests.support.onnx.models import model

IMAGE = {"x": [1, 1, 2, 2]}


def ones(*sizes: int) -> np.ndarray[Any, Any]:
    return np.ones(sizes, np.float32)


@dataclass(frozen=True)
class Complaint:
    """A row.

    Attributes:
        issue: the thread's number.
        model: the smallest model with the same fault.
        node: the node that the report has to name.
        kept: which of the record's lists holds the reason: `problems`, `alone` or `older`.
        code: the code of the reason.
        told: parts of the reason, in order.
        where: where the node runs.
        level: the feature level of the author's DirectML.
    """

    issue: int
    model: ModelProto
    node: str
    kept: str
    code: str
    told: tuple[str, ...]
    where: str = "directml"
    level: str = "5_0"


COMPLAINTS = [
    # "Is there a way to know which node is not compatible yet with DirectML?"
    Complaint(
        13330,
        model(
            [make_node("InstanceNormalization", ["x", "s", "b"], ["y"], name="norm")],
            {"x": [1, 32, 3200]},
            ["y"],
            opset=17,
            constants={"s": ones(32), "b": ones(32)},
        ),
        "norm",
        "older",
        "statistics_sizes",
        ("scale_tensor.sizes[1] is 32, expected 1", "ONNX Runtime before 1.13", "use ONNX Runtime 1.13 or newer"),
    ),
    Complaint(
        25926,
        model(
            [make_node("LayerNormalization", ["x", "s"], ["y"], name="norm1", axis=-1)],
            {"x": [1, 197, 768]},
            ["y"],
            opset=17,
            constants={"s": ones(768)},
        ),
        "norm1",
        "problems",
        "scale_with_bias",
        ("bias_tensor is missing", "a bias of zeros changes nothing; feature level 5_2 takes scale_tensor alone"),
        where="refused",
    ),
    Complaint(
        21583,
        model([make_node("MatMul", ["x", "w"], ["y"], name="product")], {"x": [1, 64, 4, 8, 72], "w": [1, 64, 4, 72, 1]}, ["y"], opset=17),
        "product",
        "problems",
        "dims.support",
        ("a_tensor.sizes has 5 dimensions [1, 64, 4, 8, 72], expected 2 to 4", "fold the leading dimensions"),
        where="refused",
        level="6_4",
    ),
    Complaint(
        26529,
        model(
            [make_node("MatMul", ["x", "w"], ["y"], name="product")],
            {"x": [2, 3, 4, 5, 6]},
            ["y"],
            opset=17,
            constants={"w": ones(6, 7)},
        ),
        "product",
        "problems",
        "dims.support",
        ("a_tensor.sizes has 5 dimensions", "sizes [6, 4, 5, 6]"),
        where="refused",
        level="6_4",
    ),
    # Compiled anew whenever the sizes change.
    Complaint(
        14550,
        model([make_node("Relu", ["x"], ["y"], name="act")], {"x": ["batch", 3, "height", "width"]}, ["y"], opset=17),
        "act",
        "alone",
        "onnx.dynamic",
        ("'x', float32 [batch, 3, height, width]", "compiles the operator anew", "pass sizes for 'batch', 'height', 'width'"),
    ),
    # No node ran on DirectML: kernels hold for single versions of operators.
    Complaint(
        9719,
        model([make_node("Conv", ["x", "w"], ["y"], name="conv")], {"x": [1, 3, 8, 8]}, ["y"], opset=22, constants={"w": ones(2, 3, 3, 3)}),
        "conv",
        "problems",
        "onnx.opset",
        ("Conv as opset 22 has it", "[1, 11]", "export the model with opset 21 or lower"),
        where="host",
    ),
    # Sizes that the model computes while it runs.
    Complaint(
        21013,
        model(
            [
                make_node("Shape", ["x"], ["s"], name="shape"),
                make_node("Gather", ["s", "first"], ["n"], name="pick"),
                make_node("Concat", ["n", "rest"], ["t"], name="join", axis=0),
                make_node("Reshape", ["x", "t"], ["y"], name="view"),
            ],
            {"x": ["n", 3, 4]},
            ["y"],
            opset=17,
            constants={"first": np.array([0]), "rest": np.array([12])},
        ),
        "join",
        "problems",
        "onnx.cpu_preferred",
        ("Concat, which computes with sizes", "pass all sizes of the inputs"),
        where="host",
    ),
]


@pytest.mark.parametrize("row", COMPLAINTS, ids=lambda row: str(row.issue))
def test_a_complaint_gets_the_node_and_the_reason(row: Complaint) -> None:
    report = onnx.load(row.model).report(row.level, like="onnxruntime")
    (found,) = [node for node in report.nodes if node.name == row.node]
    assert found.where == row.where
    (problem, *_) = [problem for problem in getattr(found, row.kept) if problem.code == row.code]
    text = str(problem)
    for part in row.told:
        assert part in text
    assert f"{row.node!r} (" in str(report)
    assert bool(report.fallbacks) == (row.where != "directml")


@pytest.mark.parametrize(
    ("built", "code", "where"),
    [
        (model([make_node("Sigmoid", ["x"], ["y"])], {"x": [2]}, ["y"], types={"x": TensorProto.DOUBLE}), "onnx.type", "host"),
        (model([make_node("Unique", ["x"], ["y"])], {"x": [2]}, ["y"]), "onnx.kernel", "host"),
        (model([make_node("Sum", ["x", "x", "x"], ["y"])], {"x": [2]}, ["y"]), "onnx.graph", "directml"),
        (model([make_node("NonZero", ["x"], ["y"])], {"x": [2]}, ["y"]), "onnx.graph", "directml"),
        (model([make_node("Relu", ["x"], ["y"])], {"x": [2, 0]}, ["y"]), "onnx.empty", "directml"),
        (
            model([make_node("MaxPool", ["x"], ["y"], kernel_shape=[1, 1], storage_order=1)], IMAGE, ["y"]),
            "onnx.attribute",
            "host",
        ),
        (
            model([make_node("Resize", ["x", "", "s"], ["y"], mode="cubic")], IMAGE, ["y"], constants={"s": ones(4)}),
            "onnx.attribute",
            "host",
        ),
        (model([make_node("LayerNormalization", ["x", "s"], ["y", "m"])], {"x": [2, 3], "s": [3]}, ["y", "m"]), "onnx.output", "host"),
        (model([make_node("Einsum", ["x", "x", "x"], ["y"], equation="i,i,i->i")], {"x": [2]}, ["y"]), "onnx.attribute", "host"),
        (model([make_node("LayerNormalization", ["x", "s"], ["y"], axis=2)], {"x": [2, 3], "s": [3]}, ["y"]), "onnx.invalid", "invalid"),
        (model([make_node("Clip", ["x", "l"], ["y"])], {"x": [2], "l": []}, ["y"]), "onnx.constant_input", "directml"),
        (model([make_node("Pad", ["x"], ["y"], mode="edge", pads=[-1, 0])], {"x": [2]}, ["y"], opset=10), "onnx.attribute", "host"),
    ],
    ids=lambda value: value.graph.node[0].op_type if isinstance(value, ModelProto) else "",
)
def test_the_prediction_knows_the_reasons_of_the_provider(built: ModelProto, code: str, where: str) -> None:
    (node,) = onnx.load(built).report("6_4", like="onnxruntime").nodes
    assert (node.where, {problem.code for problem in (*node.problems, *node.alone)}) == (where, {code})


def test_a_function_takes_the_place_of_a_node_without_a_kernel() -> None:
    built = model([make_node("HardSwish", ["x"], ["y"], name="act")], {"x": [2, 3]}, ["y"], opset=21)
    report = onnx.load(built).report(like="onnxruntime")
    assert [node.op_type for node in report.nodes] == ["HardSigmoid", "Mul"]
    assert not report.fallbacks


def mixed(batch: int | str = 4) -> onnx.Model:
    nodes = [
        make_node("MatMul", ["x", "w"], ["a"], name="product"),
        make_node("Relu", ["a"], ["b"], name="act"),
        make_node("Unique", ["b"], ["u"], name="unique"),
        make_node("Mul", ["u", "k"], ["v"], name="scale"),
        make_node("Mul", ["b", "b"], ["y"], name="square"),
    ]
    return onnx.load(model(nodes, {"x": [batch, 3]}, ["y", "v"], constants={"w": ones(3, 5), "k": ones(1)}))


def test_the_report_of_a_model() -> None:
    report = mixed().report()
    assert [(part.place, part.nodes) for part in report.partitions] == [
        ("graph", ("product", "act", "square")),
        ("host", ("unique", "scale")),
    ]
    assert [node.name for node in report.fallbacks] == ["unique", "scale"]
    assert report.problems[0].path == "unique"
    assert report.lowest_level is dml.FeatureLevel.FL_1_0
    assert (report.weight_bytes, report.missing_level) == (60, ())
    assert report.open_sizes == ()
    assert mixed("n").report().open_sizes == ("n",)
    text = str(report)
    assert "nodes        5: 3 on DirectML, 1 compiled once sizes are known, 1 on the host" in text
    assert "partitions   2: 1 graph, 1 on the host" in text
    json.dumps(report.to_dict())
    assert report.to_dict()["nodes"][2]["problems"][0]["code"] == "onnx.kernel"
    assert "<table>" in report._repr_html_()


def convolution(sizes: list[int | str], window: int = 3) -> ModelProto:
    nodes = [make_node("Conv", ["x", "w"], ["a"], name="conv"), make_node("GlobalAveragePool", ["a"], ["y"], name="mean")]
    return model(nodes, {"x": sizes}, ["y"], constants={"w": ones(2, 3, window, window)})


def sliced(sizes: list[int | str], first: int = 2) -> ModelProto:
    nodes = [make_node("Slice", ["x", "first", "last"], ["a"], name="part"), make_node("Relu", ["a"], ["y"], name="act")]
    return model(nodes, {"x": sizes}, ["y"], constants={"first": np.array([first]), "last": np.array([first + 3])})


@pytest.mark.parametrize(
    ("built", "sizes", "places"),
    [
        (convolution(["n", 3, 8, 8]), {"n": 1}, ["directml", "directml"]),
        (convolution(["n", 3, "h", "w"]), {"n": 1, "h": 16, "w": 16}, ["directml", "directml"]),
        (convolution(["n", 3, "h", "h"], 20), {"n": 1, "h": 64}, ["directml", "directml"]),
        (convolution([2, 3, "", 8]), {"x[2]": 16}, ["directml", "directml"]),
        (convolution([2, 3, 8, 8]), {}, ["directml", "directml"]),
        (sliced(["n", 8]), {"n": 16}, ["directml", "directml"]),
        (sliced(["n", 8], first=9999), {"n": 1}, ["folded", "folded"]),
        (convolution(["n", 4, 8, 8]), {"n": 1}, ["invalid", "directml"]),
        # Other sizes than those that are tried may be allowed: the nodes wait for them.
        (convolution(["n", 4, "h", 8]), {}, ["deferred", "deferred"]),
        (model([make_node("MatMul", ["x", "w"], ["y"])], {"x": ["n", "k"]}, ["y"], constants={"w": ones(5, 3)}), {}, ["deferred"]),
        (model([make_node("Relu", ["x"], ["y"])], {"x": None}, ["y"]), {}, ["deferred"]),
    ],
    ids=lambda value: ",".join(value) if isinstance(value, dict) else "",
)
def test_a_report_on_open_sizes_is_that_of_a_call(built: ModelProto, sizes: dict[str, int], places: list[str]) -> None:
    loaded = onnx.load(built)
    report = loaded.report()
    assert (dict(report.tried), [node.where for node in report.nodes]) == (sizes, places)
    text = ", with " + ", ".join(f"{name}={size}" for name, size in sizes.items())
    assert (text in report.summary()[0], text in str(report).splitlines()[0]) == (bool(sizes), bool(sizes))
    if sizes and set(places) == {"directml"}:
        shape = [sizes.get(str(size or f"x[{axis}]"), size) for axis, size in enumerate(loaded.inputs["x"].sizes or ())]
        again = onnx.load(built, sizes={"x": shape}).report()
        assert [node.operators for node in report.nodes] == [node.operators for node in again.nodes]
        assert (report.lowest_level, report.partitions) == (again.lowest_level, again.partitions)
        assert (report.weight_bytes, report.memory_bytes) == (again.weight_bytes, again.memory_bytes)
        plan = loaded.compile("numpy").explain_plan({"x": shape})
        assert len(plan.parts) == len(report.partitions) == 1


def test_the_inputs_of_one_symbol_have_one_size() -> None:
    nodes = [make_node("MatMul", ["x", "z"], ["a"]), make_node("Softmax", ["a"], ["y"])]
    report = onnx.load(model(nodes, {"x": ["n", 3, "k"], "z": ["n", "k", 5]}, ["y"])).report()
    assert dict(report.tried) == {"n": 1, "k": 1}
    assert not report.fallbacks


def waiting(sizes: list[int | str]) -> onnx.Model:
    nodes = [
        make_node("NonZero", ["x"], ["i"], name="where"),
        make_node("Cast", ["i"], ["c"], name="real", to=TensorProto.FLOAT),
        *(make_node("Relu", ["c"], [f"r{index}"], name=f"relu{index}") for index in range(5)),
        make_node("Sum", ["r0", "r1", "r2", "r3", "r4"], ["y"], name="sum"),
        make_node("Unique", ["x"], ["u"], name="first"),
        make_node("Unique", ["x"], ["v"], name="second"),
    ]
    return onnx.load(model(nodes, {"x": sizes}, ["y", "u", "v"]))


@pytest.mark.parametrize("sizes", [[2, 3], ["n", 3]])
def test_what_holds_for_many_nodes_is_reported_once(sizes: list[int | str]) -> None:
    report = waiting(sizes).report()
    root, host = report.reasons()
    assert root.startswith("node 'where' (NonZero) is compiled when")
    assert root.splitlines()[-1] == (
        "    7 nodes after it wait for its sizes: 'real' (Cast), 'relu0' (Relu), 'relu1' (Relu), 'relu2' (Relu) and 3 more"
    )
    assert [(cause.count, len(cause.followers)) for cause in report.causes()] == [(8, 7), (2, 0)]
    assert host.splitlines()[0] == "2 nodes fall back to the host: 'first' (Unique), 'second' (Unique)"
    assert "Unique of opset 21" in host


def test_open_sizes_that_many_nodes_need_are_reported_once() -> None:
    nodes = [make_node("Relu", ["x"], ["a"], name="act"), *(make_node("Neg", ["a"], [f"y{i}"], name=f"neg{i}") for i in range(5))]
    built = model(nodes, {"x": ["n", 3, "k"]}, [f"y{i}" for i in range(5)])
    (reason,) = onnx.load(built).report(like="onnxruntime").reasons()
    assert reason.splitlines()[0] == ("6 nodes need a size for 'n', 'k': 'act' (Relu), 'neg0' (Neg), 'neg1' (Neg), 'neg2' (Neg) and 2 more")
    assert len(reason.splitlines()) == 2
    assert "--size to dmlpy onnx check" in reason


@pytest.mark.parametrize("rows", ["n", 1])
def test_sizes_are_tried_for_onnx_runtime(rows: int | str) -> None:
    """With them only what no size mends is left."""
    nodes = [make_node("Relu", ["x"], ["a"], name="act"), make_node("NonZero", ["a"], ["y"], name="where")]
    report = onnx.load(model(nodes, {"x": [rows, 3]}, ["y"])).report(like="onnxruntime")
    if rows == "n":
        assert report.sized is not None
        assert dict(report.sized.tried) == {"n": 1}
        assert report.summary()[-2] == "             with n=1: 2 of 2 nodes on DirectML, in 1 graph"
        assert [(cause.sizes, [node.name for node in cause.nodes]) for cause in report.causes()] == [
            (("n",), ["act"]),
            ((), ["where"]),
        ]
        assert report.to_dict()["with_sizes"]["tried_sizes"] == {"n": 1}
    else:
        assert report.sized is None
        assert [[node.name for node in cause.nodes] for cause in report.causes()] == [["where"]]


def test_work_and_borders() -> None:
    """A product, a node on the host that reads its result, and one on DirectML that reads what the host gives; and a view."""
    nodes = [
        make_node("MatMul", ["x", "w"], ["a"], name="product"),
        make_node("Det", ["a"], ["d"], name="det"),
        make_node("Mul", ["d", "a"], ["m"], name="scale"),
        make_node("Flatten", ["m"], ["y"], name="view"),
    ]
    report = onnx.load(model(nodes, {"x": [3, 4]}, ["y"], constants={"w": ones(4, 3)})).report()
    assert [node.where for node in report.nodes] == ["directml", "host", "directml", "directml"]
    assert {name: (work.flops, work.bytes_moved) for name, work in report.work.items()} == {
        "product": (2 * 3 * 4 * 3, 4 * (12 + 12 + 9)),
        "det": (9, 4 * (9 + 1)),
        "scale": (9, 4 * (9 + 9 + 9)),
        "view": (0, 0),
    }
    # Not what the model reads and gives, and not what DirectML's nodes pass on.
    assert [(border.to_host, border.values, border.size) for border in report.borders] == [(True, ("a",), 36), (False, ("d",), 4)]
    summary = report.summary()
    assert summary[1].startswith("level        1_0 ")
    assert summary[2] == "on DirectML  90.0% of 90 flop, 85.7% of 280 bytes moved"
    assert "borders      2: 40 bytes copied in a run" in summary
    assert "             36 bytes to the host: 'a' (partition 1 to 2)" in summary
    assert summary[-1] == "likely cause node 'det' (Det) falls back to the host"


@pytest.mark.parametrize(
    ("node", "sizes", "flops"),
    [
        (make_node("MatMul", ["a", "b"], ["y"]), ([5, 2, 3], [5, 3, 4]), 2 * 5 * 2 * 3 * 4),
        (make_node("MatMul", ["a", "b"], ["y"]), ([2, 3], [3, 4]), 2 * 2 * 3 * 4),
        (make_node("Gemm", ["a", "b"], ["y"], transA=1, transB=1), ([3, 2], [4, 3]), 2 * 2 * 3 * 4),
        (make_node("Conv", ["a", "b"], ["y"], group=2), ([1, 4, 5, 5], [6, 2, 3, 3]), 2 * (6 * 3 * 3) * (2 * 3 * 3)),
        (make_node("ConvTranspose", ["a", "b"], ["y"]), ([1, 4, 5, 5], [4, 6, 3, 3]), 2 * (4 * 5 * 5) * (6 * 3 * 3)),
        (make_node("LSTM", ["a", "b", "c"], ["y"], hidden_size=2), ([7, 5, 3], [1, 8, 3], [1, 8, 2]), 2 * 7 * 5 * 8 * (3 + 2)),
        (make_node("Unique", ["a"], ["y"]), ([5, 2],), None),
        (make_node("Add", ["a", "b"], ["y"]), ([5, 2], [1]), 10),
    ],
    ids=lambda value: value.op_type if hasattr(value, "op_type") else "",
)
def test_work_on_the_host_is_estimated(node: Any, sizes: tuple[list[int], ...], flops: int | None) -> None:
    """Of FLOAT64 tensors, which DirectML's operators have not."""
    inputs = dict(zip("abc", sizes, strict=False))
    built = model([node], inputs, ["y"], types=dict.fromkeys(inputs, TensorProto.DOUBLE))
    report = onnx.load(built).report()
    (work,) = report.work.values()
    assert (report.nodes[0].where, work.flops) == ("host", flops)


def test_what_only_reads_sizes_copies_nothing() -> None:
    nodes = [
        make_node("NonZero", ["x"], ["i"], name="where"),
        make_node("Shape", ["i"], ["s"], name="shape"),
        make_node("Cast", ["s"], ["y"], name="real", to=TensorProto.FLOAT),
    ]
    report = onnx.load(model(nodes, {"x": [2, 3]}, ["y"])).report()
    assert [(border.to_host, border.values) for border in report.borders] == [(False, ("s",))]


@pytest.mark.parametrize("like", ["dmlpy", "onnxruntime"])
@pytest.mark.parametrize(
    ("node", "types", "message"),
    [
        (make_node("MatMul", ["a", "b"], ["y"], name="mm"), {}, "mm.input 1 'B', 'b', is [4, 5], expected 3 rows"),
        (make_node("Add", ["a", "b"], ["y"], name="add"), {"b": TensorProto.FLOAT16}, "add.input 1 'B' is float16, expected float32"),
    ],
    ids=["sizes", "types"],
)
def test_an_invalid_model_is_called_invalid(node: Any, types: dict[str, int], message: str, like: Any) -> None:
    report = onnx.load(model([node], {"a": [2, 3], "b": [4, 5]}, ["y"], types=types)).report(like=like)
    head, cause = report.summary()
    assert head == "nodes        1: 1 that ONNX does not allow"
    assert cause.startswith(f"likely cause the model is invalid: {message}")
    assert "80070057" not in str(report)
    assert "host" not in str(report)


@pytest.mark.parametrize("scale", [{}, {"scale": [2, 2]}], ids=["borders", "scale"])
def test_the_sizes_of_a_removed_operator_are_known(scale: dict[str, Any]) -> None:
    built = model([make_node("Crop", ["x"], ["y"], border=[1, 1, 1, 2], **scale)], {"x": ["n", 3, 5, 6]}, ["y"], opset=7)
    for like in ("dmlpy", "onnxruntime"):
        assert "unknown sizes" not in str(onnx.load(built, sizes={"n": 2}).report(like=like))


@pytest.mark.parametrize("like", ["dmlpy", "onnxruntime"])
def test_a_report_of_many_nodes_fits_a_screen(like: Any) -> None:
    nodes = [make_node(kind, ["x"], [f"{kind}{i}"], name=f"{kind}{i}") for i in range(30) for kind in ("Unique", "Det", "NonZero")]
    nodes += [make_node("Relu", [f"NonZero{i}"], [f"y{i}"], name=f"relu{i}") for i in range(30)]
    loaded = onnx.load(model(nodes, {"x": ["n", "n"]}, [f"y{i}" for i in range(30)]))
    assert len(str(loaded.report(like=like)).splitlines()) <= 40


@pytest.mark.parametrize("like", ["dmlpy", "onnxruntime"])
@pytest.mark.parametrize(("script", "graph"), [("levels.py", "classifier"), ("engine.py", "network")])
def test_a_report_of_the_examples_fits_a_screen(script: str, graph: str, like: Any) -> None:
    built = onnx.export(runpy.run_path(str(EXAMPLES / script))[graph]())
    report = onnx.load(built).report(like=like)
    assert len(str(report).splitlines()) <= 40
    assert report.summary()[-1].startswith("likely cause ")


def test_many_causes_are_shortened() -> None:
    nodes = [make_node(f"Kind{i}", ["x"], [f"y{i}"], name=f"node{i}", domain="strange") for i in range(40)]
    report = onnx.load(model(nodes, {"x": [2]}, [f"y{i}" for i in range(40)], domains={"strange": 1})).report()
    lines = str(report).splitlines()
    assert len(lines) <= 40
    assert lines[-1] == "... 100 more lines with 33 more causes: dmlpy onnx check --all shows them"
    assert len(report.causes()) == 40
    assert "node39" in report.text(all_causes=True)


def test_a_page_needs_no_other_file(monkeypatch: pytest.MonkeyPatch) -> None:
    odd = "<script>alert(1)</script>"
    built = model([make_node("Unique", ["x"], ["u"], name=odd), make_node("Relu", ["u"], ["y"], name="act")], {"x": [2, 3]}, ["y"])
    report = onnx.load(built).report()
    page = report.to_html()
    assert "<script" not in page
    assert not re.search(r"(src|href)=.(?!#)|@import|url\(", page)
    for text in (*report.summary(), "dot is not installed" if shutil.which("dot") is None else "<svg", "<b>1</b> host"):
        assert html.escape(text) in page or text in page
    monkeypatch.setenv("PATH", "")
    without = report.to_html()
    assert "<svg" not in without
    assert "dot is not installed" in without


def test_a_large_model_is_not_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dmlpy.onnx.reporting.page._MOST_DRAWN", 1)
    assert "Not drawn: 5 nodes, more than 1" in mixed().report().to_html()


def test_the_memory_between_nodes_is_reported() -> None:
    nodes = [make_node("MatMul", ["x", "w"], ["a"]), make_node("MatMul", ["a", "w"], ["b"]), make_node("MatMul", ["b", "w"], ["y"])]
    report = onnx.load(model(nodes, {"x": [10, 30]}, ["y"], constants={"w": ones(30, 30)})).report()
    assert (report.weight_bytes, report.memory_bytes) == (3600, 2 * 1280)
    assert "2.6 kB between the nodes" in str(report)


def test_the_picture_marks_what_does_not_run_on_directml() -> None:
    source = mixed().report().to_graphviz().source
    marked = [line for line in source.splitlines() if "#b00020" in line]
    assert len(marked) == 2
    assert all("Unique" in line or "Mul" in line for line in marked)
    assert source.count("subgraph cluster") == 2


def test_a_level_that_is_too_low_is_reported() -> None:
    built = model([make_node("BitwiseAnd", ["x", "x"], ["y"], name="both")], {"x": [2]}, ["y"], types={"x": TensorProto.INT32})
    report = onnx.load(built).report("2_0")
    assert report.missing_level == ("both",)
    assert report.lowest_level is dml.FeatureLevel.FL_4_1
    assert report.nodes[0].problems[0].code == "level.operator"


def test_like_is_one_of_two() -> None:
    with pytest.raises(dml.DescError, match="onnxruntime"):
        mixed().report(like="tensorrt")


def test_the_facts_name_versions_and_types_of_onnx() -> None:
    schemas: dict[tuple[str, int], Any] = {
        (schema.name, schema.since_version): schema for schema in defs.get_all_schemas_with_history() if schema.domain == ""
    }
    names = {name for name, _ in schemas}
    wrong = []
    for operator, rows in provider.facts()["ai_onnx"].items():
        versions = [version for row in rows for version in row["since"]]
        if versions != sorted(set(versions)):
            wrong.append((operator, versions))
        for kernel in provider.kernels(operator, ""):
            for schema in [schemas[operator, version] for version in kernel.since if (operator, version) in schemas]:
                parameters = {constraint.type_param_str for constraint in schema.type_constraints}
                if not set(kernel.types) <= parameters or any(index >= schema.max_input for index in kernel.constant):
                    wrong.append((operator, schema.since_version))
    assert not wrong
    assert len(names & set(provider.facts()["ai_onnx"])) >= 130
    assert set(provider.facts()["types"]) == {
        row[key]
        for domain in ("ai_onnx", "com_microsoft")
        for rows in provider.facts()[domain].values()
        for row in rows
        for key in row
        if isinstance(row[key], str) and key != "query"
    }
