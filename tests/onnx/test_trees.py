"""Trees of ai.onnx.ml, which the host runs: TreeEnsemble against a loop through each tree, labels, and what other forms refuse."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.helper import make_node

import dmlpy as dml
from dmlpy import onnx
from tests.support.onnx.models import Array, model

COMPARISONS: list[Any] = [np.less_equal, np.less, np.greater_equal, np.greater, np.equal, np.not_equal]
FEATURES, TARGETS, DEPTH, TREES = 3, 2, 3, 4


def ensemble(rng: np.random.Generator, dtype: Any) -> dict[str, Any]:
    """Attributes of full trees with random comparisons; every node of the last level leads to two leaves."""
    inner = 2**DEPTH - 1
    count, leaves = TREES * inner, TREES * 2**DEPTH
    ends = np.tile(np.arange(inner) >= inner // 2, TREES).astype(int)
    children = np.tile(np.arange(inner), TREES)
    base = np.repeat(np.arange(TREES), inner)
    ways = [np.where(ends, base * 2**DEPTH + 2 * (children - inner // 2) + side, base * inner + 2 * children + 1 + side) for side in (0, 1)]
    return {
        "n_targets": TARGETS,
        "nodes_featureids": rng.integers(0, FEATURES, count),
        "nodes_modes": rng.integers(0, 6, count).astype(np.uint8),
        "nodes_splits": rng.integers(-2, 3, count).astype(dtype),
        "nodes_truenodeids": ways[0],
        "nodes_falsenodeids": ways[1],
        "nodes_trueleafs": ends,
        "nodes_falseleafs": ends,
        "nodes_missing_value_tracks_true": rng.integers(0, 2, count),
        "leaf_targetids": rng.integers(0, TARGETS, leaves),
        "leaf_weights": rng.standard_normal(leaves).astype(dtype),
        "tree_roots": np.arange(TREES) * inner,
    }


def run(attributes: dict[str, Any], x: Array) -> Array:
    tensors = ("nodes_modes", "nodes_splits", "leaf_weights", "membership_values")
    given = {
        name: numpy_helper.from_array(value) if name in tensors else value.tolist() if isinstance(value, np.ndarray) else value
        for name, value in attributes.items()
    }
    node = make_node("TreeEnsemble", ["x"], ["y"], name="trees", domain="ai.onnx.ml", **given)
    element = helper.np_dtype_to_tensor_dtype(x.dtype)
    built = model([node], {"x": x.shape}, ["y"], types={"x": element, "y": element}, domains={"ai.onnx.ml": 5})
    found = onnx.load(built)
    (record,) = found.interpretation().records
    assert (record.where, record.outputs[0].sizes) == ("host", (len(x), attributes["n_targets"]))
    return np.asarray(found.compile("numpy")({"x": x})["y"])


def reached_leaves(attributes: dict[str, Any], row: Array) -> list[tuple[int, float]]:
    """Target and weight of the leaf that a row comes to in each tree."""
    found = []
    for root in attributes["tree_roots"]:
        node, ended = int(root), False
        while not ended:
            value = row[attributes["nodes_featureids"][node]]
            holds = COMPARISONS[attributes["nodes_modes"][node]](value, attributes["nodes_splits"][node])
            way = "true" if holds or (np.isnan(value) and attributes["nodes_missing_value_tracks_true"][node]) else "false"
            ended, node = bool(attributes[f"nodes_{way}leafs"][node]), int(attributes[f"nodes_{way}nodeids"][node])
        found.append((int(attributes["leaf_targetids"][node]), float(attributes["leaf_weights"][node])))
    return found


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("aggregate", range(4))
def test_each_row_goes_its_way_through_each_tree(aggregate: int, dtype: Any) -> None:
    rng = np.random.default_rng(aggregate)
    attributes = ensemble(rng, dtype) | {"aggregate_function": aggregate}
    x = rng.integers(-2, 3, (9, FEATURES)).astype(dtype)
    x[0, 0] = x[3] = np.nan
    expected = np.zeros((9, TARGETS))
    for row, target in np.ndindex(9, TARGETS):
        weights = [weight for place, weight in reached_leaves(attributes, x[row]) if place == target]
        put = (lambda own: sum(own) / TREES, sum, lambda own: min(own, default=0), lambda own: max(own, default=0))[aggregate]
        expected[row, target] = put(weights)
    result = run(attributes, x)
    assert result.dtype == dtype
    np.testing.assert_allclose(result, expected, rtol=1e-6 if dtype is np.float32 else 1e-14, atol=1e-7)


@pytest.mark.parametrize("transform", [1, 2, 3])
def test_scores_are_transformed(transform: int) -> None:
    rng = np.random.default_rng(transform)
    attributes = ensemble(rng, np.float64)
    x = rng.standard_normal((5, FEATURES))
    scores = run(attributes, x)
    kept = scores != 0 if transform == 3 else np.ones_like(scores, bool)
    shares = np.exp(scores) * kept
    expected = 1 / (1 + np.exp(-scores)) if transform == 1 else shares / shares.sum(1, keepdims=True)
    np.testing.assert_allclose(run(attributes | {"post_transform": transform}, x), expected, rtol=1e-12)


@pytest.mark.parametrize(
    ("changed", "path"),
    [
        ({"nodes_featureids": [7] * TREES * 7}, "input 0 'X'"),
        ({"nodes_truenodeids": [99] * TREES * 7}, "nodes_truenodeids"),
        ({"nodes_truenodeids": [1] * 3}, "nodes_featureids"),
        ({"tree_roots": [99]}, "nodes_truenodeids"),
        ({"post_transform": 5}, "post_transform"),
        ({"nodes_modes": np.full(TREES * 7, 6, np.uint8)}, "membership_values"),
    ],
)
def test_what_contradicts_itself_is_refused(changed: dict[str, Any], path: str) -> None:
    with pytest.raises(dml.CompileError, match="trees") as refusal:
        run(ensemble(np.random.default_rng(0), np.float32) | changed, np.zeros((2, FEATURES), np.float32))
    assert path in refusal.value.problems[0].path or path in str(refusal.value)


def test_nodes_that_lead_in_a_circle_are_refused() -> None:
    attributes = ensemble(np.random.default_rng(0), np.float32)
    circle = {"nodes_truenodeids": np.zeros(TREES * 7, int), "nodes_falsenodeids": np.zeros(TREES * 7, int)}
    circle |= {"nodes_trueleafs": np.zeros(TREES * 7, int), "nodes_falseleafs": np.zeros(TREES * 7, int)}
    with pytest.raises(dml.CompileError, match="in a circle"):
        run(attributes | circle, np.zeros((2, FEATURES), np.float32))


STUMP: dict[str, Any] = {
    "nodes_treeids": [0, 0, 0, 7],
    "nodes_nodeids": [0, 4, 9, 0],
    "nodes_modes": ["BRANCH_LT", "LEAF", "LEAF", "LEAF"],
    "nodes_featureids": [1, 0, 0, 0],
    "nodes_values": [0.5, 0.0, 0.0, 0.0],
    "nodes_truenodeids": [9, 0, 0, 0],
    "nodes_falsenodeids": [4, 0, 0, 0],
    "target_treeids": [0, 0, 7],
    "target_nodeids": [4, 9, 0],
    "target_ids": [0, 0, 0],
    "target_weights": [2.0, 3.0, 10.0],
}
"""Attributes of a tree of one comparison, and of one that is a leaf."""


def regress(attributes: dict[str, Any], x: Array) -> Array:
    given = {name: value for name, value in attributes.items() if value is not None}
    node = make_node("TreeEnsembleRegressor", ["x"], ["y"], name="trees", domain="ai.onnx.ml", **given)
    element = helper.np_dtype_to_tensor_dtype(x.dtype)
    built = model([node], {"x": x.shape}, ["y"], types={"x": element}, domains={"ai.onnx.ml": 3})
    found = onnx.load(built)
    assert [(record.where, record.outputs[0].summary()) for record in found.interpretation().records] == [
        ("host", f"float32 [{len(x)}, 1]")
    ]
    return np.asarray(found.compile("numpy")({"x": x})["y"])


def test_a_tree_may_be_one_leaf_and_numbers_may_have_gaps() -> None:
    x = np.array([[9, 0.25], [9, 0.5]], np.float32)
    np.testing.assert_array_equal(regress(STUMP, x), [[13], [12]])


def test_numbers_may_be_tensors_of_doubles() -> None:
    """A threshold that no FLOAT32 is: between two neighbours of the input's."""
    own = STUMP | {"nodes_values": None, "nodes_values_as_tensor": numpy_helper.from_array(np.array([0.5 + 2**-40, 0, 0, 0]))}
    np.testing.assert_array_equal(regress(own, np.array([[0, 0.5 + 2**-41], [0, 0.5 + 2**-40]])), [[13], [12]])


@pytest.mark.parametrize(
    ("changed", "path"),
    [
        ({"nodes_modes": ["BRANCH_LT", "LEAF", "LEAF", "TWIG"]}, "nodes_modes"),
        ({"nodes_modes": ["BRANCH_LT", "LEAF"]}, "nodes_modes"),
        ({"nodes_nodeids": [0, 4, 4, 0]}, "nodes_nodeids"),
        ({"nodes_truenodeids": [5, 0, 0, 0]}, "nodes_truenodeids"),
        ({"nodes_truenodeids": [4, 0, 0, 0]}, "nodes_truenodeids"),
        ({"nodes_truenodeids": [0, 0, 0, 0]}, "nodes_truenodeids"),
        ({"nodes_featureids": [2, 0, 0, 0]}, "input 0 'X'"),
        ({"nodes_values": None}, "nodes_values"),
        ({"target_ids": [0, 0, 1]}, "target_ids"),
        ({"target_nodeids": [4, 9, 1]}, "target_nodeids"),
        ({"target_weights": [1.0]}, "target_ids"),
        ({"base_values": [1.0, 2.0]}, "base_values"),
        ({"aggregate_function": "MEDIAN"}, "aggregate_function"),
        ({"post_transform": "TANH"}, "post_transform"),
        ({"n_targets": 2**40}, "trees"),
    ],
)
def test_a_regressor_that_contradicts_itself_is_refused(changed: dict[str, Any], path: str) -> None:
    own = STUMP | changed
    node = make_node(
        "TreeEnsembleRegressor", ["x"], ["y"], name="trees", domain="ai.onnx.ml", **{k: v for k, v in own.items() if v is not None}
    )
    built = model([node], {"x": [2, 2]}, ["y"], domains={"ai.onnx.ml": 3})
    with pytest.raises(dml.DmlError, match="trees") as refusal:
        onnx.load(built).compile("numpy")({"x": np.zeros((2, 2), np.float32)})
    assert path in str(refusal.value)


def classifier(**changed: Any) -> Any:
    """A model of a stump that reads column 1; each of its leaves has a weight for each class, but for what is changed."""
    own = {name.replace("target_", "class_"): value for name, value in STUMP.items()}
    own |= {
        "class_treeids": [0, 0, 0, 0],
        "class_nodeids": [4, 4, 9, 9],
        "class_ids": [0, 1, 0, 1],
        "class_weights": [1.0, 0.25, 0.25, 1.0],
    }
    own |= {"classlabels_int64s": [10, 20]} | changed
    given = {name: value for name, value in own.items() if value is not None}
    node = make_node("TreeEnsembleClassifier", ["x"], ["label", "scores"], name="trees", domain="ai.onnx.ml", **given)
    element = TensorProto.STRING if "classlabels_strings" in given else TensorProto.INT64
    return onnx.load(model([node], {"x": [2, 2]}, ["label", "scores"], types={"label": element}, domains={"ai.onnx.ml": 3}))


@pytest.mark.parametrize(
    ("changed", "labels"),
    [
        ({}, [20, 10]),  # ONNX Runtime 1.32.0 has 1 and 1 here
        ({"class_weights": [1.0, 0.25, 0.75, 1.0], "base_values": [0.5, 0.0]}, [10, 10]),
        ({"classlabels_int64s": None, "classlabels_strings": ["no", "yes"]}, ["yes", "no"]),
        ({"class_ids": [0, 0, 0, 0], "class_weights": [0.1, 0.1, 0.4, 0.4]}, [20, 10]),
        ({"class_ids": [0, 0, 0, 0], "class_weights": [0.1, 0.1, 0.1, 0.1], "post_transform": "LOGISTIC"}, [20, 20]),
        ({"class_ids": [1, 1, 1, 1], "class_weights": [-0.1, 0.0, 0.1, 0.1]}, [20, 10]),
        ({"classlabels_int64s": [5, 6, 7], "class_weights": [-1.0, -1.0, -1.0, 1.0]}, [6, 7]),
    ],
)
def test_the_label_is_that_of_the_largest_score(changed: dict[str, Any], labels: list[Any]) -> None:
    found = classifier(**changed)
    assert [(record.where, record.outputs[0].sizes) for record in found.interpretation().records] == [("host", (2,))]
    results = found.compile("numpy")({"x": np.array([[9, 0.25], [9, 0.5]], np.float32)})
    assert results["label"].tolist() == labels
    given = [*(changed.get("classlabels_strings") or changed.get("classlabels_int64s") or [10, 20])]
    assert [given[place] for place in results["scores"].argmax(1)] == labels


@pytest.mark.parametrize(
    ("changed", "path"),
    [
        ({"classlabels_int64s": None}, "classlabels_int64s"),
        ({"classlabels_strings": ["no", "yes"]}, "classlabels_int64s"),
        ({"classlabels_int64s": [1]}, "classlabels"),
        ({"class_ids": [0, 1, 0, 2]}, "class_ids"),
        ({"class_weights": [1.0]}, "class_ids"),
        ({"base_values": [1.0]}, "base_values"),
        ({"class_ids": [0, 0, 0, 0], "base_values": [1.0, 2.0]}, "base_values"),
        ({"class_ids": [0, 0, 0, 0], "post_transform": "PROBIT"}, "post_transform"),
    ],
)
def test_a_classifier_that_contradicts_itself_is_refused(changed: dict[str, Any], path: str) -> None:
    with pytest.raises(dml.DmlError, match="trees") as refusal:
        classifier(**changed).compile("numpy")({"x": np.zeros((2, 2), np.float32)})
    assert path in str(refusal.value)
