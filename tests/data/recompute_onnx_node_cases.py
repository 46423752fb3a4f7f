"""Makes the stored results of ONNX's nodes anew: inputs from fixed seeds and outputs by ONNX Runtime's CPU provider.

    pip install onnx onnxruntime
    python tests/data/recompute_onnx_node_cases.py [--write]

Fails where the stored results differ by more than 1e-6, relative to numbers of at least 0.01. With --write the cases are replaced.
"""

from __future__ import annotations

import onnx_attention_rows  # type: ignore[import-not-found, unused-ignore]
import onnx_contrib_rows  # type: ignore[import-not-found, unused-ignore]
import onnx_host_rows  # type: ignore[import-not-found, unused-ignore]
import onnx_node_rows  # type: ignore[import-not-found, unused-ignore]


def main() -> None:
    for module in (onnx_node_rows, onnx_attention_rows, onnx_contrib_rows, onnx_host_rows):
        for rows in module.ROWS:
            rows()
    onnx_node_rows.CASES.main(__doc__)


if __name__ == "__main__":
    main()
