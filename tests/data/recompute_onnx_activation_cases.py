"""Makes the stored onnx_activation_* cases anew: inputs from fixed seeds and outputs by ONNX Runtime's CPU provider.

    pip install onnx onnxruntime
    python tests/data/recompute_onnx_activation_cases.py [--write]

Prints the largest difference of each case's outputs, relative to numbers of at least 0.01, and fails above 1e-6 or where other numbers
are not finite. With --write the cases and their entries in index.json are replaced.

ONNX Runtime has no operator for RELU_GRAD.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import onnx
import onnxruntime
from recompute import FOLDER, LIMIT, Arrays  # type: ignore[import-not-found, unused-ignore]

from tests.support.generators import stored_data

LARGEST = float(np.finfo(np.float32).max)
SPECIAL = [
    *(0.0, -0.0, np.inf, -np.inf, np.nan, LARGEST, -LARGEST, 1e-45, -1e-45, 1e-40, -1e-40, 1e-30, -1e-30),
    *(1e-6, -1e-6, 1e-3, -1e-3, 0.5, -0.5, 1.0, -1.0, 2.5, -2.5, 3.0, -3.0, 5.0, -5.0, 9.0, -9.0, 20.0, -20.0),
    *(88.7, -88.7, 104.0, -104.0, 1e4, -1e4, 1e20, -1e20),
]
ROWS = [
    [1, -np.inf, 2, 3, -np.inf],
    [-np.inf] * 5,
    [1, np.inf, 2, -3, 0],
    [np.inf, 0, np.inf, -np.inf, 1],
    [0, np.nan, 3, 2, 1],
    [LARGEST, 0, LARGEST, -LARGEST, 1],
    [-LARGEST, -LARGEST, -LARGEST, -LARGEST, -LARGEST],
    [0.0, -0.0, 0.0, -0.0, 0.0],
    [-0.0, 0.0, -1, -1, -1],
    [2, 7, 7, 7, 3],
    [1e4, 1e4 + 1, 1e4 - 2, 1e4, 1e4 + 1],
    [0, -20, 20, -60, 10],
    [1e-45, -1e-45, 1e-30, -1e-30, 0],
]
"""Groups of a softmax."""


class Case(NamedTuple):
    """An operator with its attributes, of a version of its domain."""

    operator: str
    attributes: Mapping[str, Any] = {}
    opset: int = 20
    domain: str = ""


# The last three are no longer in the standard; ONNX Runtime keeps them for models of old versions.
CASES: dict[str, Case] = {
    "identity": Case("Identity"),
    "relu": Case("Relu"),
    "leaky_relu": Case("LeakyRelu", {"alpha": 0.1}),
    "leaky_relu_negative": Case("LeakyRelu", {"alpha": -0.7}),
    "thresholded_relu": Case("ThresholdedRelu", {"alpha": 1.0}),
    "thresholded_relu_negative": Case("ThresholdedRelu", {"alpha": -2.5}),
    "prelu": Case("PRelu"),
    "elu": Case("Elu", {"alpha": 1.0}),
    "elu_half": Case("Elu", {"alpha": 0.5}),
    "celu": Case("Celu", {"alpha": 1.0}),
    "celu_large": Case("Celu", {"alpha": 2.0}),
    "selu": Case("Selu"),
    "selu_other": Case("Selu", {"alpha": 1.2, "gamma": 0.7}),
    "sigmoid": Case("Sigmoid"),
    "hard_sigmoid": Case("HardSigmoid", {"alpha": 0.2, "beta": 0.5}),
    "hard_sigmoid_steep": Case("HardSigmoid", {"alpha": 0.75, "beta": 0.25}),
    "tanh": Case("Tanh"),
    "softsign": Case("Softsign"),
    "softplus": Case("Softplus"),
    "gelu": Case("Gelu"),
    "shrink": Case("Shrink", {"bias": 0.0, "lambd": 0.5}),
    "shrink_soft": Case("Shrink", {"bias": 0.5, "lambd": 0.5}),
    "hard_swish": Case("HardSwish"),
    "swish": Case("QuickGelu", {"alpha": 1.0}, domain="com.microsoft"),
    "swish_steep": Case("QuickGelu", {"alpha": 1.702}, domain="com.microsoft"),
    "softmax_last": Case("Softmax", {"axis": -1}),
    "softmax_first": Case("Softmax", {"axis": 0}),
    "softmax_middle": Case("Softmax", {"axis": 1}),
    "log_softmax_last": Case("LogSoftmax", {"axis": -1}),
    "log_softmax_first": Case("LogSoftmax", {"axis": 0}),
    "log_softmax_middle": Case("LogSoftmax", {"axis": 1}),
    "hardmax_last": Case("Hardmax", {"axis": -1}),
    "hardmax_first": Case("Hardmax", {"axis": 0}),
    "hardmax_middle": Case("Hardmax", {"axis": 1}),
    "scaled_tanh": Case("ScaledTanh", {"alpha": 0.9, "beta": 0.7}, opset=7),
    "parametric_softplus": Case("ParametricSoftplus", {"alpha": 0.5, "beta": 0.8}, opset=7),
    "affine": Case("Affine", {"alpha": 1.5, "beta": -0.25}, opset=7),
}


def inputs(name: str, case: Case) -> Arrays:
    """The inputs of a case: numbers at which functions turn or end, and random ones."""
    rng = np.random.default_rng(list(name.encode()))
    if "axis" not in case.attributes:
        x = np.concatenate([SPECIAL, 2 * rng.standard_normal(60), rng.uniform(-12, 12, 60)]).astype(np.float32)
        return {"X": x, "slope": rng.standard_normal(x.size).astype(np.float32)} if case.operator == "PRelu" else {"X": x}
    if case.attributes["axis"] == 1:
        return {"X": (3 * rng.standard_normal((3, 7, 4))).astype(np.float32)}
    rows = np.concatenate([ROWS, 3 * rng.standard_normal((8, 5)), 1e4 + rng.standard_normal((3, 5))]).astype(np.float32)
    return {"X": rows if case.attributes["axis"] == -1 else np.ascontiguousarray(rows.T)}


def compute(case: Case, given: Arrays) -> Arrays:
    """What ONNX Runtime's operator gives."""
    node = onnx.helper.make_node(case.operator, list(given), ["Y"], domain=case.domain, **case.attributes)
    graph = onnx.helper.make_graph(
        [node],
        case.operator,
        [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, array.shape) for name, array in given.items()],
        [onnx.helper.make_tensor_value_info("Y", onnx.TensorProto.FLOAT, None)],
    )
    versions = [onnx.helper.make_opsetid("", case.opset), *([onnx.helper.make_opsetid(case.domain, 1)] if case.domain else [])]
    model = onnx.helper.make_model(graph, opset_imports=versions, ir_version=9)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return {"Y": session.run(["Y"], given)[0]}


def entry(name: str, case: Case, given: Arrays, computed: Arrays) -> dict[str, Any]:
    """The case's entry in index.json."""
    domain = f"{case.domain}." if case.domain else ""
    return {
        "case": f"onnx_activation_{name}",
        "system": f"ONNX Runtime CPU, operator {domain}{case.operator}",
        "attributes": {"operator": case.operator, **case.attributes},
        "inputs": {name: list(array.shape) for name, array in given.items()},
        "outputs": {name: list(array.shape) for name, array in computed.items()},
    }


def difference(name: str, given: Arrays, computed: Arrays) -> float:
    """How far the stored outputs are from the computed ones; infinite where the inputs are others or different numbers are not finite."""
    path = FOLDER / f"onnx_activation_{name}.npz"
    if not path.exists():
        return np.inf
    with np.load(path) as file:
        stored = {field: file[field] for field in file.files}
    expected = {f"in.{field}": array for field, array in given.items()} | {f"out.{field}": array for field, array in computed.items()}
    if stored.keys() != expected.keys() or not all(np.array_equal(stored[f"in.{field}"], given[field], equal_nan=True) for field in given):
        return np.inf
    worst = 0.0
    for field, array in computed.items():
        kept, anew = stored[f"out.{field}"].astype(np.float64), array.astype(np.float64)
        finite = np.isfinite(anew)
        if not np.array_equal(kept[~finite], anew[~finite], equal_nan=True):
            return np.inf
        error = np.abs(kept[finite] - anew[finite]) / np.maximum(np.abs(anew[finite]), 0.01)
        worst = max(worst, float(np.max(error, initial=0.0)))
    return worst


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="replace the cases")
    write = parser.parse_args().write
    entries, worst = [], 0.0
    for name, case in CASES.items():
        given = inputs(name, case)
        computed = compute(case, given)
        entries.append(entry(name, case, given, computed))
        found = difference(name, given, computed)
        worst = max(worst, found)
        print(f"{entries[-1]['case']:45} {found:.1e}")
        if write:
            arrays = {f"in.{field}": array for field, array in given.items()} | {f"out.{field}": array for field, array in computed.items()}
            np.savez_compressed(FOLDER / f"{entries[-1]['case']}.npz", **arrays)
    if write:
        index = FOLDER / "index.json"
        anew = {item["case"]: item for item in entries}
        stored = {item["case"]: item for item in json.loads(index.read_text())}
        kept = {name: item for name, item in stored.items() if name in anew or not name.startswith("onnx_activation_")}
        stored_data.write(index, list((kept | anew).values()))  # each in the place that it had
    elif worst > LIMIT:
        raise SystemExit(f"the stored outputs differ from ONNX Runtime {onnxruntime.__version__} by {worst:.1e}")


if __name__ == "__main__":
    main()
