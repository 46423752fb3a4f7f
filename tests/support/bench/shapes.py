"""Small layers that tests of the benchmark measure."""

from __future__ import annotations

from typing import Any

from dmlpy.bench.shapes import LayerShape, Recurrent

SMALLEST = "lstm-128-b1-t1"
"""The least of the benchmark's own shapes."""


def stack(*layers: LayerShape, batch: int = 4, steps: int = 5, **more: Any) -> Recurrent:
    return Recurrent(title="test", suite="cpu", layers=layers, batch=batch, steps=steps, **more)


SMALL = stack(LayerShape("LSTM", 4, 6))
