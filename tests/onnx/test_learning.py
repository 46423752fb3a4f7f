"""Operators of ai.onnx.ml on texts and NaN, and what they refuse; the stored nodes have rows of the others."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.helper import make_node

import dmlpy as dml
from dmlpy import onnx
from tests.support.onnx.models import Array, model

NAN = float("nan")
TEXTS = np.array([["a", "b"], ["c", "a"]], object)
NUMBERS = np.array([[0, 1], [2, 0]])
FLOATS = np.array([[0.0, NAN], [2.5, 0.0]], np.float32)

MACHINES = {
    **{"classlabels_ints": [1, 2], "vectors_per_class": [1, 1], "rho": [0.0], "coefficients": [1.0, -1.0], "kernel_type": "RBF"},
    **{"kernel_params": [0.5, 0.0, 3.0], "support_vectors": [1.0, 2.0, 3.0, 4.0]},
}
"""An SVMClassifier of two classes with a support vector each."""


PAIR = {"coefficients": [1.0, 0.5], "intercepts": [0.1], "classlabels_ints": [1, 2]}
"""A LinearClassifier of two classes, of which the second one has a score."""


def tensor(values: Any) -> Any:
    return numpy_helper.from_array(np.asarray(values))


def run(operator: str, x: Array, *, version: int = 3, outputs: int = 1, inputs: tuple[Array, ...] = (), **attributes: Any) -> list[Array]:
    names = ["x", *(f"x{index}" for index in range(len(inputs)))]
    given = dict(zip(names, (x, *inputs), strict=True))
    results = [f"y{index}" for index in range(outputs)]
    node = make_node(operator, names, results, name="node", domain="ai.onnx.ml", **attributes)
    texts = {name: TensorProto.STRING for name, array in given.items() if array.dtype.hasobject}
    types = texts or {name: helper.np_dtype_to_tensor_dtype(array.dtype) for name, array in given.items()}
    built = model([node], {name: array.shape for name, array in given.items()}, results, types=types, domains={"ai.onnx.ml": version})
    for output in built.graph.output:
        output.type.Clear()
    found = onnx.load(built)
    (record,) = found.interpretation().records
    assert record.where == "host"
    made = found.compile("numpy")(given)
    for value, name in zip(record.outputs, results, strict=True):
        assert value is not None
        assert value.sizes in (None, made[name].shape)
    return [np.asarray(made[name]) for name in results]


@pytest.mark.parametrize(
    ("operator", "x", "version", "attributes", "expected"),
    [
        ("LabelEncoder", TEXTS, 2, {"keys_strings": ["a", "b", "a"], "values_int64s": [5, 6, 7]}, [[5, 6], [-1, 5]]),
        ("LabelEncoder", TEXTS, 3, {"keys_strings": ["a"], "values_strings": ["z"]}, [["z", "_Unused"], ["_Unused", "z"]]),
        ("LabelEncoder", NUMBERS, 3, {"keys_int64s": [0, 1], "values_strings": ["n", "y"], "default_string": ""}, [["n", "y"], ["", "n"]]),
        ("LabelEncoder", FLOATS, 4, {"keys_floats": [0.0, NAN], "values_floats": [5.0, 6.0], "default_float": 1.0}, [[5, 6], [1, 5]]),
        ("LabelEncoder", NUMBERS, 4, {f"{kind}_tensor": tensor([v]) for kind, v in (("keys", 0), ("values", 3), ("default", 9))},
         [[3, 9], [9, 3]]),
        ("LabelEncoder", TEXTS, 4, {"keys_strings": ["b"], "values_tensor": tensor(np.array([5], np.int16))}, [[-1, 5], [-1, -1]]),
        ("LabelEncoder", TEXTS, 1, {"classes_strings": ["a", "b"]}, [[0, 1], [-1, 0]]),
        ("LabelEncoder", NUMBERS, 1, {"classes_strings": ["a", "b"], "default_string": "q"}, [["a", "b"], ["q", "a"]]),
        ("CategoryMapper", TEXTS, 1, {"cats_strings": ["a", "b"], "cats_int64s": [4, 5]}, [[4, 5], [-1, 4]]),
        ("CategoryMapper", NUMBERS, 1, {"cats_strings": ["a", "b"], "cats_int64s": [0, 2]}, [["a", "_Unused"], ["b", "a"]]),
        ("OneHotEncoder", TEXTS, 1, {"cats_strings": ["c", "a"]}, [[[0, 1], [0, 0]], [[1, 0], [0, 1]]]),
        ("Binarizer", FLOATS, 1, {"threshold": 1.0}, [[0, 0], [1, 0]]),
        ("Imputer", FLOATS, 1, {"imputed_value_floats": [7.0, 8.0], "replaced_value_float": NAN}, [[0, 8], [2.5, 0]]),
    ],
)  # fmt: skip
def test_tables_replace_elements(operator: str, x: Array, version: int, attributes: dict[str, Any], expected: Any) -> None:
    (found,) = run(operator, x, version=version, **attributes)
    assert found.tolist() == expected


TREE = {
    **{"nodes_treeids": [0, 0, 0], "nodes_nodeids": [0, 1, 2], "nodes_featureids": [1, 0, 0], "nodes_values": [0.5, 0.0, 0.0]},
    **{"nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"], "nodes_truenodeids": [1, 0, 0], "nodes_falsenodeids": [2, 0, 0]},
}
"""Two leaves by the second feature."""


@pytest.mark.parametrize(
    ("operator", "attributes", "shapes"),
    [
        ("Scaler", {"offset": [1.0], "scale": [2.0]}, [(0, 2)]),
        *(("Normalizer", {"norm": norm}, [(0, 2)]) for norm in ("MAX", "L1", "L2")),
        ("Binarizer", {"threshold": 0.5}, [(0, 2)]),
        ("Imputer", {"imputed_value_floats": [1.0], "replaced_value_float": NAN}, [(0, 2)]),
        ("LabelEncoder", {"keys_floats": [1.0], "values_int64s": [2]}, [(0, 2)]),
        ("OneHotEncoder", {"cats_int64s": [0, 1, 2]}, [(0, 2, 3)]),
        ("FeatureVectorizer", {"inputdimensions": [3]}, [(0, 3)]),
        ("LinearRegressor", {"coefficients": [1.0, 2.0]}, [(0, 1)]),
        ("LinearClassifier", {"coefficients": [1.0, 2.0] * 3, "intercepts": [0.0] * 3, "classlabels_ints": [1, 2, 3]}, [(0,), (0, 3)]),
        ("SVMClassifier", MACHINES, [(0,), (0, 2)]),
        ("TreeEnsembleRegressor", {**TREE, "target_treeids": [0, 0], "target_nodeids": [1, 2], "target_ids": [0, 0],
                                   "target_weights": [1.0, 2.0], "n_targets": 1}, [(0, 1)]),
        ("TreeEnsembleClassifier", {**TREE, "class_treeids": [0, 0], "class_nodeids": [1, 2], "class_ids": [0, 1],
                                    "class_weights": [1.0, 2.0], "classlabels_int64s": [4, 5]}, [(0,), (0, 2)]),
    ],
)  # fmt: skip
def test_a_batch_may_be_empty(operator: str, attributes: dict[str, Any], shapes: list[tuple[int, ...]]) -> None:
    """Also one that is empty only when the model runs."""
    names = [f"y{index}" for index in range(len(shapes))]
    node = make_node(operator, ["x"], names, name="node", domain="ai.onnx.ml", **attributes)
    built = model([node], {"x": ["n", 2]}, names, domains={"ai.onnx.ml": 3})
    for output in built.graph.output:
        output.type.Clear()
    compiled = onnx.load(built).compile("numpy")
    for rows in (0, 3):
        found = compiled({"x": np.ones((rows, 2), np.float32)})
        assert [found[name].shape for name in names] == [(rows, *shape[1:]) for shape in shapes]


SHARES = np.array([[0.2, 0.1], [0.4, 0.05], [-0.9, 0.2], [0, 0]], np.float32)
PROBITS = [[-0.3853402, -1.4051672], [0.0627057, -1.1265779], [NAN, NAN], [-1.2817129, -np.inf]]


@pytest.mark.parametrize(
    ("operator", "attributes", "expected"),
    [
        ("LinearRegressor", {"coefficients": [1.0, 0.5], "intercepts": [0.1]}, [row[:1] for row in PROBITS]),
        ("LinearRegressor", {"coefficients": [1.0, 0.5, 0.3, 0.2], "intercepts": [0.1, 0.0], "targets": 2}, PROBITS),
        ("LinearClassifier", PAIR | {"coefficients": [1.0, 0.5, 0.3, 0.2], "intercepts": [0.1, 0.0]}, PROBITS),
        ("TreeEnsembleRegressor", {**TREE, "target_treeids": [0, 0], "target_nodeids": [1, 2], "target_ids": [0, 0],
                                   "target_weights": [0.8, 0.3], "n_targets": 1}, [[0.8417561]] * 4),
    ],
)  # fmt: skip
def test_shares_become_quantiles_of_the_normal_distribution(operator: str, attributes: dict[str, Any], expected: Any) -> None:
    """As in ONNX Runtime 1.32.0, which gave the numbers."""
    *_, found = run(operator, SHARES, outputs=2 if "Classifier" in operator else 1, post_transform="PROBIT", **attributes)
    np.testing.assert_allclose(found, expected, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("norm", ["MAX", "L1", "L2"])
def test_the_norm_of_a_row_with_nan_is_nan(norm: str) -> None:
    (found,) = run("Normalizer", FLOATS, norm=norm)
    np.testing.assert_array_equal(found, np.array([[NAN, NAN], [1, 0]], np.float32))


def test_labels_are_texts() -> None:
    labels, scores = run(
        "LinearClassifier", FLOATS[1:], outputs=2, coefficients=[1.0, 1.0], intercepts=[0.5], classlabels_strings=["no", "yes"]
    )
    assert (labels.tolist(), scores.tolist()) == (["yes"], [[-2.0, 3.0]])


@pytest.mark.parametrize(
    ("operator", "x", "attributes", "path"),
    [
        ("Scaler", FLOATS, {"offset": [1.0, 2.0, 3.0], "scale": [1.0, 1.0, 1.0]}, "offset has 3 numbers, expected"),
        ("Scaler", FLOATS, {"offset": [1.0, 2.0], "scale": [1.0]}, "scale has 1 number, expected"),
        ("Normalizer", FLOATS, {"norm": "L3"}, "norm"),
        ("Imputer", FLOATS, {}, "imputed_value_floats"),
        ("OneHotEncoder", NUMBERS, {"cats_int64s": [0, 1], "zeros": 0}, "zeros is 0"),
        ("OneHotEncoder", NUMBERS, {"cats_strings": ["a"]}, "cats_int64s"),
        ("FeatureVectorizer", FLOATS, {"inputdimensions": [2, 2]}, "inputdimensions"),
        ("FeatureVectorizer", FLOATS, {"inputdimensions": [1 << 40]}, "onnx.limit"),
        ("LinearRegressor", FLOATS, {"coefficients": [1.0, 2.0, 3.0], "targets": 2}, "coefficients"),
        ("LinearRegressor", FLOATS, {"coefficients": [1.0, 2.0, 3.0]}, "[N, 3]"),
        ("LinearRegressor", FLOATS, {"coefficients": [1.0, 2.0], "intercepts": [1.0, 2.0]}, "intercepts"),
        ("LinearRegressor", FLOATS, {"coefficients": [1.0, 2.0], "post_transform": "TANH"}, "post_transform"),
        ("LinearClassifier", FLOATS, PAIR | {"post_transform": "PROBIT"}, "where two classes share one score"),
        ("SVMClassifier", FLOATS, MACHINES | {"post_transform": "PROBIT"}, "where two classes share one score"),
        ("LinearClassifier", FLOATS, {"coefficients": [1.0, 2.0]}, "classlabels_ints"),
        ("LinearClassifier", FLOATS, {"coefficients": [1.0, 2.0], "classlabels_ints": [1], "intercepts": [0.0]}, "one label"),
        ("LinearClassifier", FLOATS, {"coefficients": [1.0] * 4, "classlabels_ints": [1, 2, 3], "intercepts": [0.0] * 2}, "intercepts"),
        ("SVMRegressor", FLOATS, {"coefficients": [1.0], "n_supports": 2, "support_vectors": [1.0] * 4}, "n_supports"),
        ("SVMRegressor", FLOATS, {"coefficients": [1.0], "n_supports": 1, "support_vectors": [1.0, 1.0], "kernel_type": "?"}, "_type"),
        ("SVMClassifier", FLOATS, MACHINES | {"vectors_per_class": [1]}, "vectors_per_class has 1 number, expected"),
        ("SVMClassifier", FLOATS, MACHINES | {"vectors_per_class": [-1, 1]}, "vectors_per_class is -1, expected numbers of 0 or more"),
        ("SVMClassifier", FLOATS, MACHINES | {"support_vectors": [1.0]}, "support_vectors has 1 number, expected"),
        ("SVMClassifier", FLOATS, MACHINES | {"coefficients": [1.0]}, "coefficients has 1 number, expected"),
        ("SVMClassifier", FLOATS, MACHINES | {"rho": [1.0, 2.0]}, "rho has 2 numbers, expected"),
        ("SVMClassifier", FLOATS, MACHINES | {"prob_a": [1.0]}, "prob_b has 0 numbers, expected"),
        ("SVMClassifier", FLOATS, MACHINES | {"kernel_params": [1.0]}, "kernel_params has 1 number, expected"),
        ("SVMClassifier", FLOATS, {"coefficients": [1.0] * 3, "classlabels_ints": [1, 2]}, "coefficients has 3 numbers, expected"),
        ("SVMClassifier", FLOATS, {"coefficients": [1.0], "classlabels_ints": [1]}, "one label"),
        ("ZipMap", FLOATS, {"classlabels_int64s": [1, 2, 3]}, "[N, 3]: a score for each label"),
        ("ZipMap", FLOATS, {}, "classlabels_int64s"),
        ("LabelEncoder", TEXTS, {"keys_int64s": [1], "values_int64s": [1]}, "numbers, as the keys are"),
        ("LabelEncoder", NUMBERS, {"keys_int64s": [1, 2], "values_int64s": [1]}, "values has 1 value, expected 2"),
        ("LabelEncoder", NUMBERS, {"keys_int64s": [1]}, "one of values_strings"),
    ],
)  # fmt: skip
def test_what_contradicts_itself_is_refused(operator: str, x: Array, attributes: dict[str, Any], path: str) -> None:
    with pytest.raises(dml.DmlError) as caught:
        run(operator, x, outputs=2 if operator.endswith("Classifier") else 1, **attributes)
    assert path in str(caught.value)


SCORES = np.array([[0.25, 0.75], [1.0, 0.0]], np.float32)


@pytest.mark.parametrize("device", ["numpy", "cpu"])
@pytest.mark.parametrize(
    ("labels", "keys"), [({"classlabels_int64s": [7, -1]}, [7, -1]), ({"classlabels_strings": ["no", "yes"]}, ["no", "yes"])]
)
def test_scores_become_maps(labels: dict[str, Any], keys: list[Any], device: str) -> None:
    """Behind operators of DirectML, of open sizes, several times: runs that recur have another way to their outputs."""
    nodes = [make_node("Relu", ["x"], ["scores"]), make_node("ZipMap", ["scores"], ["maps"], domain="ai.onnx.ml", **labels)]
    built = model(nodes, {"x": ["N", 2]}, ["maps", "scores"], domains={"ai.onnx.ml": 1})
    built.graph.output[0].type.Clear()
    compiled = onnx.load(built).compile(device)
    for x in (SCORES, SCORES, SCORES, SCORES[:1]):
        found = compiled({"x": x})
        assert found["maps"] == [dict(zip(keys, row, strict=True)) for row in x.tolist()]
        assert {type(value) for row in found["maps"] for value in row.values()} == {float}


def run_map(operator: str, types: tuple[int, int], given: Any, **attributes: Any) -> Array:
    key, element = types
    x = helper.make_value_info("x", helper.make_map_type_proto(key, helper.make_tensor_type_proto(element, [])))
    node = make_node(operator, ["x"], ["y"], name="node", domain="ai.onnx.ml", **attributes)
    graph = helper.make_graph([node], "maps", [x], [helper.make_empty_tensor_value_info("y")])
    imports = [helper.make_opsetid("", 21), helper.make_opsetid("ai.onnx.ml", 1)]
    made = onnx.load(helper.make_model(graph, opset_imports=imports, ir_version=10)).compile("numpy")({"x": given})["y"]
    return np.asarray(made)


TEXT, WHOLE, FLOAT = TensorProto.STRING, TensorProto.INT64, TensorProto.FLOAT
PLACES = {3: 1.5, 0: 2.75}


@pytest.mark.parametrize(
    ("operator", "types", "given", "attributes", "expected", "dtype"),
    [
        ("DictVectorizer", (TEXT, FLOAT), {"a": 1.5, "c": 2}, {"string_vocabulary": ["c", "b", "a"]}, [2.0, 0.0, 1.5], np.float32),
        ("DictVectorizer", (WHOLE, WHOLE), {np.int64(4): 5}, {"int64_vocabulary": [3, 4]}, [0, 5], np.int64),
        ("DictVectorizer", (WHOLE, TEXT), {3: "q"}, {"int64_vocabulary": [3, 4]}, ["q", ""], object),
        ("CastMap", (WHOLE, FLOAT), PLACES, {}, [2.75, 1.5], np.float32),
        ("CastMap", (WHOLE, FLOAT), PLACES, {"cast_to": "TO_INT64"}, [2, 1], np.int64),
        ("CastMap", (WHOLE, FLOAT), PLACES, {"cast_to": "TO_STRING"}, ["2.750000", "1.500000"], object),
        ("CastMap", (WHOLE, FLOAT), PLACES, {"map_form": "SPARSE", "max_map": 5}, [2.75, 0, 0, 1.5, 0], np.float32),
        ("CastMap", (WHOLE, FLOAT), PLACES, {"map_form": "SPARSE", "max_map": 2}, [2.75, 0], np.float32),
        ("CastMap", (WHOLE, TEXT), {3: "1.5", 0: "2.75"}, {}, [2.75, 1.5], np.float32),
    ],
)  # fmt: skip
def test_maps_become_rows(operator: str, types: tuple[int, int], given: Any, attributes: Any, expected: Any, dtype: Any) -> None:
    """As ONNX Runtime's CPU provider does, but for texts, which its Python interface does not take."""
    found = run_map(operator, types, given, **attributes)
    assert (found.tolist(), found.dtype) == ([expected], dtype)


@pytest.mark.parametrize(
    ("types", "given", "message"),
    [
        ((TEXT, FLOAT), [{"a": 1.5}], "expected a dict: the input is a map"),
        ((TEXT, FLOAT), {1: 1.5}, "x is the key 1, expected keys of string"),
        ((TEXT, FLOAT), {"a": "1"}, "x is the value '1' of 'a', expected values of float32"),
        ((TEXT, TEXT), {"a": 1}, "x is the value 1 of 'a', expected values of string"),
        ((TEXT, FLOAT), {}, "a map without elements"),
        ((TEXT, FLOAT), {"a": 1e300}, "x is the value 1e+300 of 'a', expected values of float32"),
        ((TEXT, FLOAT), {"a": 2**2000}, "expected values of float32"),
        ((TEXT, WHOLE), {"a": 1.5}, "x is the value 1.5 of 'a', expected values of int64"),
        ((TEXT, WHOLE), {"a": float("nan")}, "x is the value nan of 'a', expected values of int64"),
        ((TEXT, WHOLE), {"a": 2**63}, "x is the value 9223372036854775808 of 'a', expected values of int64"),
        ((WHOLE, FLOAT), {1.5: 1.0}, "x is the key 1.5, expected keys of int64"),
        ((WHOLE, FLOAT), {-(2**63) - 1: 1.0}, "x is the key -9223372036854775809, expected keys of int64"),
    ],
)
def test_maps_of_other_types_are_refused(types: tuple[int, int], given: Any, message: str) -> None:
    with pytest.raises(dml.DmlError) as caught:
        run_map("DictVectorizer", types, given, string_vocabulary=["a"])
    assert message in str(caught.value)


def test_keys_below_zero_have_no_place() -> None:
    with pytest.raises(dml.DmlError, match="the key -1"):
        run_map("CastMap", (WHOLE, FLOAT), {-1: 1.0}, map_form="SPARSE", max_map=4)


@pytest.mark.parametrize("places", [[2], [-1]])
def test_features_that_are_not_there_are_refused(places: list[int]) -> None:
    with pytest.raises(dml.DmlError, match=r"expected 0 to 1: axis 1 of \[2, 2\]"):
        run("ArrayFeatureExtractor", FLOATS, inputs=(np.array(places),))
