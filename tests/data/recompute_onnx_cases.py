"""Computes the outputs of the stored onnx_rnn_*, onnx_gru_* and onnx_lstm_* cases anew with ONNX Runtime's CPU provider.

Their inputs and attributes are the stored ones.

    pip install onnx onnxruntime
    python tests/data/recompute_onnx_cases.py [--write]

Prints the largest relative difference of each case, and fails above 1e-6. With --write the outputs are replaced.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
import recompute  # type: ignore[import-not-found, unused-ignore]

INPUTS = {
    "rnn": ["X", "W", "R", "B", "sequence_lens", "initial_h"],
    "gru": ["X", "W", "R", "B", "sequence_lens", "initial_h"],
    "lstm": ["X", "W", "R", "B", "sequence_lens", "initial_h", "initial_c", "P"],
}
OPSET = 14

Arrays = dict[str, np.ndarray[Any, Any]]


def compute(cell: str, attributes: dict[str, Any], inputs: Arrays) -> Arrays:
    """What ONNX Runtime's operator gives for a case."""
    outputs = ["Y", "Y_h", *(["Y_c"] if cell == "lstm" else [])]
    names = [name if name in inputs else "" for name in INPUTS[cell]]
    node = onnx.helper.make_node(cell.upper(), names, outputs, **attributes)
    types = {name: onnx.helper.np_dtype_to_tensor_dtype(array.dtype) for name, array in inputs.items()}
    graph = onnx.helper.make_graph(
        [node],
        cell,
        [onnx.helper.make_tensor_value_info(name, types[name], array.shape) for name, array in inputs.items()],
        [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None) for name in outputs],
    )
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", OPSET)], ir_version=8)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return dict(zip(outputs, session.run(outputs, inputs), strict=True))


if __name__ == "__main__":
    recompute.main(
        __doc__,
        f"ONNX Runtime {onnxruntime.__version__}",
        "onnx_[rgl]*",
        lambda entry, inputs: compute(entry["case"].split("_")[1], entry["attributes"], inputs),
    )
