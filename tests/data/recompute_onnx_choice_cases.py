"""Makes the stored results of nodes that are easily guessed wrong anew: inputs from fixed seeds and outputs by ONNX Runtime's CPU provider.

    pip install onnx onnxruntime
    python tests/data/recompute_onnx_choice_cases.py [--write]

Fails where the stored results differ by more than 1e-6, relative to numbers of at least 0.01. With --write the cases are replaced.
"""

from __future__ import annotations

import onnx_choice_rows  # type: ignore[import-not-found, unused-ignore]


def main() -> None:
    for rows in onnx_choice_rows.ROWS:
        rows()
    onnx_choice_rows.CASES.main(__doc__)


if __name__ == "__main__":
    main()
