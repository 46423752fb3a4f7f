"""Makes the stored results of ONNX Runtime's operators anew: inputs from fixed seeds and outputs by its CPU provider.

    pip install onnx onnxruntime
    python tests/data/recompute_onnx_operator_cases.py [--write]

Fails where the stored results differ by more than 1e-6, relative to numbers of at least 0.01. With --write the cases are replaced.
"""

from __future__ import annotations

import onnx_array_rows  # type: ignore[import-not-found, unused-ignore]
import onnx_elementwise_rows  # type: ignore[import-not-found, unused-ignore]
import onnx_layer_rows  # type: ignore[import-not-found, unused-ignore]
from onnx_operators import CASES  # type: ignore[import-not-found, unused-ignore]


def main() -> None:
    for module in (onnx_elementwise_rows, onnx_array_rows, onnx_layer_rows):
        for rows in module.ROWS:
            rows()
    CASES.main(__doc__)


if __name__ == "__main__":
    main()
