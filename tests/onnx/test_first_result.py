"""What a fresh process does until the first result of a model: imports, validators and files, counted."""

from __future__ import annotations

import gc
import json
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

import numpy as np
import pytest
from onnx import helper

import dmlpy as dml
from dmlpy import onnx
from dmlpy.devices.graphs import normalization_fusion
from dmlpy.devices.graphs.fused_convolution_descs import NormalizedConvolutionDesc
from dmlpy.onnx.loading import load, schemas
from dmlpy.onnx.lowering import rules, shape_inference
from dmlpy.onnx.lowering.rule_modules import RULE_MODULES
from dmlpy.validation import checking
from tests.support.onnx.models import model

PROGRAM = """
import gc, json, sys
import numpy as np
import dmlpy as dml
from dmlpy import onnx
from dmlpy.devices.cpu.plans import plan
opened = []
sys.addaudithook(lambda event, given: opened.append(str(given[0])) if event == "open" else None)
for kind in (dml.ConvolutionDesc, dml.BatchNormalizationDesc, dml.ElementWiseClipDesc, dml.AveragePoolingDesc, dml.GEMMDesc):
    plan.find(kind)
import dmlpy.devices.cpu.pooling.plan, dmlpy.devices.cpu.movement.copies, dmlpy.devices.graphs, dmlpy.onnx.lowering.passed_values
needless = [name for name in sys.argv[2].split() if name in sys.modules]  # NumPy's definitions import whole families
onnx.load(sys.argv[1]).compile("numpy")({"x": np.ones((1, 3, 8, 8), np.float32)})
from dmlpy.description.structs import Struct
def kinds(kind):
    return [kind, *(below for base in kind.__subclasses__() for below in kinds(base))]
print(json.dumps({
    "validators": sorted(kind.__name__ for kind in kinds(Struct) if kind.__pydantic_complete__ and kind.c_name),
    "families": sorted({name.split(".")[2] for name in sys.modules if name.startswith("dmlpy.operators.")}),
    "needless": needless + [name for name in sys.argv[3].split() if name in sys.modules],
    "entry points": sum(name.endswith("entry_points.txt") for name in opened),
    "looked through": len(gc.get_objects(1)) > 20_000,
}))
"""
OTHER_OPERATORS = """dmlpy.operators.elementwise.logic dmlpy.operators.elementwise.math
dmlpy.operators.movement.blocks dmlpy.operators.pooling.maximum
dmlpy.operators.pooling.roi dmlpy.operators.normalization.fused_batch dmlpy.operators.normalization.lp
dmlpy.devices.graphs.normalization_fusion"""
OTHER_WORK = """dmlpy.comparison dmlpy.devices.reporting.profile dmlpy.messages.tables dmlpy.graphs.picture dmlpy.onnx.runtime.plans
dmlpy.onnx.lowering.rules.microsoft_fused dmlpy.onnx.lowering.rules.resizing dmlpy.onnx.lowering.rules.recurrent
dmlpy.onnx.lowering.quantized_chains dmlpy.evidence.undocumented llvmlite.binding dmlpy.onnx.runtime.loop_iterations"""
"""Modules that compare, profile, show, lower operators that the model has not, tell of types, compile kernels, and repeat loops."""


def network(rows: int = 8) -> Any:
    """A convolution with normalization and activation, a layer normalization, and a product."""
    rng = np.random.default_rng(1)
    weights = {name: rng.standard_normal(sizes, np.float32) for name, sizes in {"f": (4, 3, 3, 3), "w": (8, 8)}.items()}
    weights |= {name: np.ones(4, np.float32) for name in ("scale", "bias", "mean", "variance")}
    weights |= {"gain": np.ones(8, np.float32), "offset": np.zeros(8, np.float32), "low": np.float32(0), "high": np.float32(6)}
    nodes = [
        helper.make_node("Conv", ["x", "f"], ["a"], pads=[1, 1, 1, 1]),
        helper.make_node("BatchNormalization", ["a", "scale", "bias", "mean", "variance"], ["b"]),
        helper.make_node("Clip", ["b", "low", "high"], ["c"]),
        helper.make_node("LayerNormalization", ["c", "gain", "offset"], ["d"]),
        helper.make_node("MatMul", ["d", "w"], ["y"]),
    ]
    return model(nodes, {"x": [1, 3, rows, 8]}, ["y"], constants=weights)


def test_a_first_result_needs_little_of_dmlpy(tmp_path: Path) -> None:
    """Not a validator of pydantic's, which looks for plugins in all installed packages, and neither a family of operators nor
    another module that is not used.

    The collector does not look through what imports have made, either.
    """
    path = tmp_path / "model.onnx"
    path.write_bytes(network().SerializeToString())
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(path), OTHER_OPERATORS, OTHER_WORK], capture_output=True, text=True, check=True
    )
    families = ["activation", "along_axis", "convolution", "elementwise", "matrix", "movement", "normalization", "pooling", "windows"]
    expected = {"validators": [], "families": families, "needless": [], "entry points": 0, "looked through": False}
    assert json.loads(done.stdout) == expected


def test_the_rules_of_operators_are_in_the_modules_of_the_table() -> None:
    registered: dict[tuple[str, str], set[str]] = {}
    for found in iter_modules(rules.__path__):
        import_module(f"{rules.__name__}.{found.name}")
    for operator, versions in rules._LOWERINGS.items():
        registered[operator] = {function.__module__.removeprefix(f"{rules.__name__}.") for function in versions.values()}
    assert {operator: set(modules) for operator, modules in RULE_MODULES.items()} == registered


def test_later_versions_of_an_operator_are_looked_for_where_one_infers_no_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Looking through all operators that ONNX ever had takes longer than the inference of a small model."""
    asked: list[str] = []

    def later(op_type: str, version: int, domain: str) -> tuple[()]:
        asked.append(op_type)
        return ()

    monkeypatch.setattr(shape_inference, "_later_versions", later)
    onnx.load(network()).program()
    assert asked == []
    oldest = onnx.load(model([helper.make_node("Relu", ["x"], ["y"])], {"x": [2, 3]}, ["y"], opset=1))
    assert [value.name for value in oldest.outputs.values()] == ["y"]
    assert asked == ["Relu"]


def test_a_node_is_described_once_for_all_like_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """ONNX makes the inputs and attributes of a schema, with all of their types, each time that they are read."""
    schemas.inputs_of.cache_clear()
    schemas.attributes_of.cache_clear()
    nodes = [helper.make_node("Conv", [f"v{index}", "f"], [f"v{index + 1}"], pads=[1, 1, 1, 1]) for index in range(20)]
    onnx.load(model(nodes, {"v0": [1, 3, 8, 8]}, ["v20"], constants={"f": np.ones((3, 3, 3, 3), np.float32)})).program()
    assert schemas.inputs_of.cache_info().misses == schemas.attributes_of.cache_info().misses == 1


def test_each_tensor_and_desc_of_a_graph_is_checked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also those of which a graph owns an input, which it compiles without the flag, and tensors that operators share."""
    checked: list[dml.OperatorDesc] = []
    problems = checking._problems

    def counted(desc: dml.OperatorDesc, *given: Any, **named: Any) -> Any:
        checked.append(desc)
        return problems(desc, *given, **named)

    monkeypatch.setattr(checking, "_problems", counted)
    sizes = (7, 11)  # of no other test: what a process checked before, it finds
    weights = {"w": np.ones(sizes, np.float32), "v": np.ones(sizes, np.float32)}
    nodes = [helper.make_node("Add", ["x", "w"], ["a"]), helper.make_node("Mul", ["a", "v"], ["y"])]
    onnx.load(model(nodes, {"x": sizes}, ["y"], constants=weights)).compile("numpy")
    assert sorted(desc.short_name() for desc in checked) == ["ELEMENT_WISE_ADD", "ELEMENT_WISE_MULTIPLY"]
    tensor = dml.TensorDesc(data_type="FLOAT32", sizes=[0])
    assert [problem.path for problem in tensor.problems(output=False)] == [problem.path for problem in tensor.problems(output=False)] != []


def test_what_is_fused_of_checked_nodes_is_not_checked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A convolution with a normalization has the members of both."""
    checked: list[dml.OperatorDesc] = []
    made: list[NormalizedConvolutionDesc] = []
    problems, keep = checking._problems, checking.keep_validity

    def counted(desc: dml.OperatorDesc, *given: Any, **named: Any) -> Any:
        checked.append(desc)
        return problems(desc, *given, **named)

    def kept(original: dml.OperatorDesc, changed: NormalizedConvolutionDesc) -> None:
        made.append(changed)
        keep(original, changed)

    monkeypatch.setattr(checking, "_problems", counted)
    monkeypatch.setattr(normalization_fusion, "keep_validity", kept)
    onnx.load(network(rows=9)).compile("numpy")  # of sizes of no other test
    assert len(made) == 1
    assert not any(desc is made[0] for desc in checked), "only with the activation it is another desc"
    assert [*problems(made[0], checking.LATEST, made[0].sizes(), strict=False, unlimited=False)] == []


def test_the_collector_of_cycles_pauses_and_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[bool] = []

    def watched(source: Any, limits: Any) -> Any:
        seen.append(gc.isenabled())
        return load.load_model(source, limits)

    monkeypatch.setattr("dmlpy.onnx.model.load_model", watched)
    for collects in (True, False):
        (gc.enable if collects else gc.disable)()
        try:
            onnx.load(network())
            with pytest.raises(dml.DescError):
                onnx.load(b"no model")
            assert gc.isenabled() == collects
        finally:
            gc.enable()
    assert seen == [False] * 4
