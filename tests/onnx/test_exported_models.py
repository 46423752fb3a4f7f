"""Models that PyTorch's exporters made: dmlpy gives PyTorch's results, with every node on DirectML's operators."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dmlpy import onnx
from tests.support.folders import EXPORTED_MODELS
from tests.support.tolerance import assert_close

FILES = sorted(EXPORTED_MODELS.glob("*.onnx"))
OPERATORS = {
    "cnn": {"CONVOLUTION", "MAX_POOLING", "GEMM", "ACTIVATION_HARD_SWISH"},
    "joint": {"GRU", "GATHER", "GEMM"},
    "tagger": {"LSTM", "GATHER", "GEMM"},
    "transformer": {"GEMM", "MEAN_VARIANCE_NORMALIZATION"},
}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_an_exported_model_runs_on_directml_as_in_pytorch(path: Path) -> None:
    name = path.stem.partition("_")[0]
    loaded = onnx.load(path)
    with np.load(EXPORTED_MODELS / f"{name}.npz") as data:
        result = loaded.compile("numpy")({given: data[given] for given in loaded.inputs})["result"]
        assert_close(result, data["result"], np.float32, terms=200)
    report = loaded.report()
    assert OPERATORS[name] <= {operator.rstrip("12") for node in report.nodes for operator in node.operators}
    assert report.fallbacks == loaded.report(like="onnxruntime").fallbacks == ()
    assert [part.place for part in report.partitions] == ["graph"]


def test_both_exporters_are_there() -> None:
    assert len(FILES) == 8
