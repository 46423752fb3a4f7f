"""What random graphs are made of: inputs in any layout, known numbers, windows."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

import dmlpy as dml
from dmlpy.graphs import GraphBuilder


class Parts:
    """The parts of one graph, drawn from a seed."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.g = GraphBuilder(f"seed {seed}")
        self.inputs = 0

    def laid(self, sizes: Any, data_type: str = "FLOAT32") -> dml.TensorDesc:
        """A desc that is packed, has gaps, or has its axes in another order."""
        kind = self.draw.random()
        if kind < 0.7:
            return dml.TensorDesc(data_type=data_type, sizes=sizes)
        order = self.draw.sample(range(len(sizes)), len(sizes)) if kind < 0.85 else [*range(len(sizes))]
        strides, step = [0] * len(sizes), 1
        for axis in reversed(order):
            strides[axis] = step
            step *= sizes[axis]
            step += self.draw.randint(0, 2) if kind > 0.85 else 0
        return dml.TensorDesc(data_type=data_type, sizes=sizes, strides=strides)

    def input(self, sizes: Any, data_type: str = "FLOAT32") -> Any:
        """A new input of the graph."""
        self.inputs += 1
        return self.g.input(f"x{self.inputs}", self.laid(list(sizes), data_type))

    def indices(self, sizes: Any, size: int) -> Any:
        """Known indices, of which some count from the end or lie outside."""
        least, most = (0, size - 1) if self.draw.random() < 0.5 else (-size - 1, size + 1)
        constant = self.numbers(least, most, sizes, "int64")
        # A graph input hides what the indices are from the rules.
        return constant if self.draw.random() < 0.5 else self.g.add(dml.ElementWiseIdentityDesc, input_tensor=constant)

    def numbers(self, least: int, most: int, sizes: Any, dtype: str) -> Any:
        """A constant of whole numbers."""
        self.inputs += 1
        data = np.array([self.draw.randint(least, most) for _ in range(int(np.prod(sizes)))], dtype).reshape(sizes)
        return self.g.constant(f"numbers{self.inputs}", data)

    def as_floats(self, value: Any) -> Any:
        """Numbers up to a few hundred as small floats."""
        floats = self.g.add(dml.CastDesc, input_tensor=value, output_tensor=dml.TensorDesc(data_type="FLOAT32", sizes=value.tensor.sizes))
        return self.g.add(dml.ElementWiseIdentityDesc, input_tensor=floats, scale_bias=dml.ScaleBias(scale=1 / 64, bias=0.0))

    def same(self, value: Any) -> Any:
        """A value of the same sizes, perhaps repeated along some axes."""
        sizes = value.tensor.sizes
        kept = [size if self.draw.random() < 0.6 else 1 for size in sizes]
        strides = [0 if own == 1 else int(np.prod(kept[axis + 1 :])) for axis, own in enumerate(kept)]
        other = self.g.add(
            dml.ElementWiseIdentityDesc, input_tensor=self.input(kept), output_tensor=dml.TensorDesc(data_type="FLOAT32", sizes=kept)
        )
        seen = dml.TensorDesc(data_type="FLOAT32", sizes=sizes, strides=strides)
        return other.viewed(seen.replace(total_tensor_size_in_bytes=other.tensor.size_in_bytes))

    def windows(self, spatial: Any) -> dict[str, Any]:
        """Windows that fit, with padding smaller than they are, or larger."""
        draw, most = self.draw, len(spatial)
        lengths = [draw.randint(1, 3) for _ in spatial]
        dilations = [draw.randint(1, 2) for _ in spatial]
        start = [draw.randint(0, 3) for _ in range(most)]
        reaches = [1 + (length - 1) * dilation for length, dilation in zip(lengths, dilations, strict=True)]
        end = [max(draw.randint(0, 2), reach - size - before) for size, before, reach in zip(spatial, start, reaches, strict=True)]
        return {
            "lengths": lengths, "strides": [draw.randint(1, 3) for _ in spatial], "dilations": dilations, "start_padding": start,
            "end_padding": end,
        }  # fmt: skip

    def window(self, sizes: Any) -> dict[str, Any]:
        """A window of a tensor, and its steps."""
        offsets = [self.draw.randrange(size) for size in sizes]
        lengths = [self.draw.randint(1, size - offset) for size, offset in zip(sizes, offsets, strict=True)]
        steps = [self.draw.choice([1, 2, -1, -2]) for _ in sizes]
        return {"input_window_offsets": offsets, "input_window_sizes": lengths, "input_window_strides": steps}
