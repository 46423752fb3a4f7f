"""Nodes, lowered or run on the host, against what ONNX Runtime's CPU provider gave for them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tests.support.onnx.stored_nodes import NODES, StoredNode
from tests.support.tables import table
from tests.support.tolerance import assert_close


@table("case", NODES, ids=str)
def test_a_node_gives_what_onnx_runtime_gives(case: StoredNode) -> None:
    check(case)


# One case of each operator, and all whose weights are blocks of 4 or 8 bits.
WEIGHTS = {case.name if case.operator == "MatMulNBits" else case.operator: case for case in NODES}.values()


@table("case", WEIGHTS, ids=str)
def test_weights_may_be_initializers(case: StoredNode) -> None:
    """As exporters have them: DirectML owns what is known before the model runs."""
    check(replace(case, known=tuple(index for index in case.inputs if index)))


ON_HOST = {
    *("CropAndResize", "DecoderMaskedMultiHeadAttention", "DynamicQuantizeLSTM", "GatherBlockQuantized", "Inverse", "Unique"),
    *("Det", "DynamicTimeWarping", "LinearAttention", "MurmurHash3", "MoE", "NGramRepeatBlock", "QMoE", "StringNormalizer", "Tokenizer"),
    *("ArrayFeatureExtractor", "Binarizer", "FeatureVectorizer", "Imputer", "LinearClassifier", "LinearRegressor", "Normalizer"),
    *("OneHotEncoder", "SVMClassifier", "SVMRegressor", "Scaler"),
    *("NonMaxSuppression", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "TreeEnsembleClassifier", "TreeEnsembleRegressor"),
}
"""The operators that the host runs."""


def check(case: StoredNode) -> None:
    found = case.model()
    where = "host" if case.operator in ON_HOST else "directml"
    records = [record for record in found.interpretation().records if record.where != "folded"]
    assert {record.where for record in records} == {where}, [record.problems for record in records]
    result = found.compile("numpy")(case.given())
    for index, expected in case.outputs.items():
        own = result[f"y{index}"]
        assert (own.dtype, own.shape) == (expected.dtype, expected.shape)
        if expected.dtype.kind == "f":
            assert_close(own, expected, expected.dtype, terms=64, what=f"output {index}")
        else:
            np.testing.assert_array_equal(own, expected)
