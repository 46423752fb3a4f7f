"""What a fresh process does until the first result of a model: imports, validators and files, counted."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper

from dmlpy import onnx
from dmlpy.onnx.lowering import shape_inference
from tests.support.onnx_models import model

PROGRAM = """
import json, sys
import numpy as np
from dmlpy import onnx
opened = []
sys.addaudithook(lambda event, given: opened.append(str(given[0])) if event == "open" else None)
onnx.load(sys.argv[1]).compile("numpy")({"x": np.ones((1, 3, 8, 8), np.float32)})
from dmlpy.description.structs import Struct
def kinds(kind):
    return [kind, *(below for base in kind.__subclasses__() for below in kinds(base))]
print(json.dumps({
    "validators": sorted(kind.__name__ for kind in kinds(Struct) if kind.__pydantic_complete__ and kind.c_name),
    "families": sorted({name.split(".")[2] for name in sys.modules if name.startswith("dmlpy.operators.")}),
    "entry points": sum(name.endswith("entry_points.txt") for name in opened),
}))
"""


def network() -> Any:
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
    return model(nodes, {"x": [1, 3, 8, 8]}, ["y"], constants=weights)


def test_a_first_result_needs_little_of_dmlpy(tmp_path: Path) -> None:
    """Not a validator of pydantic's, which looks for plugins in all installed packages, and no family of operators that is not used."""
    path = tmp_path / "model.onnx"
    path.write_bytes(network().SerializeToString())
    done = subprocess.run([sys.executable, "-c", PROGRAM, str(path)], capture_output=True, text=True, check=True)
    used = {"activation", "along_axis", "convolution", "elementwise", "matrix", "movement", "normalization", "windows"}
    families = sorted({*used, "recurrent"})  # of which the names of ONNX's activations
    assert json.loads(done.stdout) == {"validators": [], "families": families, "entry points": 0}


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
