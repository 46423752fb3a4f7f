"""TensorFlow's results of batch normalization."""

from __future__ import annotations

import json
from math import prod

import numpy as np

import dmlpy as dml
from tests.support.folders import STORED_CASES
from tests.support.operators.normalization_cases import (
    described,
    run,
)
from tests.support.tolerance import assert_close

CASES = {
    entry["case"]: entry for entry in json.loads((STORED_CASES / "index.json").read_text()) if entry["case"].startswith("tf_fused_batch")
}


def check_tensorflow(any_device: dml.Device, name: str) -> None:
    with np.load(STORED_CASES / f"{name}.npz") as file:
        stored = {key: file[key] for key in file.files}
    # TensorFlow's way to leave out a tensor is one without entries.
    arrays = {key[3:]: array for key, array in stored.items() if key.startswith("in.") and array.size}
    expected = {key[4:]: array for key, array in stored.items() if key.startswith("out.")}
    kind = dml.FusedBatchNormGradV3Desc if "y_backprop" in arrays else dml.FusedBatchNormV3Desc
    desc = described(kind, arrays, *expected, **CASES[name]["attributes"])
    assert kind is dml.FusedBatchNormGradV3Desc or desc.reads_statistics == ("mean" in arrays)
    found = run(any_device, desc, arrays)
    assert set(found) == set(expected)
    for output, values in expected.items():
        assert found[output].dtype == values.dtype
        assert_close(found[output], values, values.dtype, terms=prod(arrays["x"].shape), what=output)
