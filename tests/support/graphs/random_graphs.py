"""Random graphs in which every result is exact, whatever is planned, fused or left out."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np

import dmlpy as dml
from dmlpy.graphs import Graph, GraphBuilder

LIMIT = 8.0
"""Values are kept within this, so that products of float32 stay exact."""


class _Drawer:
    """Draws one graph."""

    def __init__(self, seed: int, nodes: int) -> None:
        self.draw = random.Random(seed)
        self.g = GraphBuilder(f"random {seed}")
        self.values: list[Any] = []
        for number in range(self.draw.randint(1, 3)):
            flags = "OWNED_BY_DML" if self.draw.random() < 0.2 else "NONE"
            self.values.append(self.g.input(f"in{number}", self.tensor(self.sizes(), flags=flags)))
        if self.draw.random() < 0.5:
            array = np.array(self.draw.choices(range(-4, 5), k=24), np.float32).reshape(1, 2, 3, 4)
            self.values.append(self.g.constant("constant", array))
        kinds: list[Callable[[Any], Any]] = [
            self.activation, self.activation, self.addition, self.addition, self.copy, self.slice, self.split, self.join, self.join,
            self.product, self.padding, self.reduction, self.reshape,
        ]  # fmt: skip
        for number in range(nodes):
            self.name = f"n{number}"
            result = self.draw.choice(kinds)(self.draw.choice(self.values[-6:]))
            self.values += result if isinstance(result, tuple) else [result]

    def sizes(self) -> list[int]:
        return [1, *(self.draw.randint(1, 4) for _ in range(3))]

    def tensor(self, sizes: Any, **members: Any) -> dml.TensorDesc:
        """A desc, now and then with gaps or transposed."""
        kind = self.draw.random()
        if kind < 0.15:
            pitch = sizes[3] + self.draw.randint(1, 3)
            members["strides"] = [sizes[1] * sizes[2] * pitch, sizes[2] * pitch, pitch, 1]
        elif kind < 0.3:
            members["strides"] = [sizes[1] * sizes[2] * sizes[3], 1, sizes[1] * sizes[3], sizes[1]]
        return dml.TensorDesc(data_type="FLOAT32", sizes=sizes, **members)

    def alike(self, value: Any) -> Any:
        """A value of the same sizes, perhaps the same one."""
        return self.draw.choice([other for other in self.values if other.tensor.sizes == value.tensor.sizes])

    def activation(self, x: Any) -> Any:
        kind = self.draw.choice([dml.ActivationReluDesc, dml.ElementWiseAbsDesc, dml.ElementWiseNegateDesc, dml.ActivationShrinkDesc])
        members = {"bias": 0.5, "threshold": 1.0} if kind is dml.ActivationShrinkDesc else {}
        return self.g.add(kind, self.name, input_tensor=x, output_tensor=self.tensor(x.tensor.sizes), **members)

    def clipped(self, x: Any) -> Any:
        return self.g.add(
            dml.ElementWiseClipDesc, self.name + " clip", input_tensor=x, output_tensor=self.tensor(x.tensor.sizes), min=-LIMIT, max=LIMIT
        )

    def addition(self, a: Any) -> Any:
        kind = self.draw.choice([dml.ElementWiseAddDesc, dml.ElementWiseAdd1Desc, dml.ElementWiseMaxDesc])
        b = self.alike(a)
        return self.clipped(self.g.add(kind, self.name, a_tensor=a, b_tensor=b, output_tensor=self.tensor(a.tensor.sizes)))

    def copy(self, x: Any) -> Any:
        kind = self.draw.choice([dml.ElementWiseIdentityDesc, dml.ActivationIdentityDesc])
        sizes = x.tensor.sizes
        if self.draw.random() < 0.4:  # a transposition
            order = self.draw.sample(range(4), 4)
            strides = [x.tensor.element_strides[axis] for axis in order]
            size = x.tensor.size_in_bytes
            x = x.viewed(x.tensor.replace(sizes=[sizes[axis] for axis in order], strides=strides, total_tensor_size_in_bytes=size))
            sizes = x.tensor.sizes
        return self.g.add(kind, self.name, input_tensor=x, output_tensor=self.tensor(sizes))

    def slice(self, x: Any) -> Any:
        steps = [self.draw.randint(1, 2) for _ in range(4)]
        starts = [self.draw.randrange(size) for size in x.tensor.sizes]
        rooms = [size - start for size, start in zip(x.tensor.sizes, starts, strict=True)]
        if self.draw.random() < 0.5:
            counts = [self.draw.randint(1, (room - 1) // step + 1) for room, step in zip(rooms, steps, strict=True)]
            members: dict[str, Any] = {"offsets": starts, "slice_sizes": counts, "strides": steps}
            return self.g.add(dml.SliceDesc, self.name, input_tensor=x, output_tensor=self.tensor(counts), **members)
        steps = [-step if self.draw.random() < 0.1 else step for step in steps]
        members = {"input_window_offsets": starts, "input_window_sizes": rooms, "input_window_strides": steps}
        counts = [(room - 1) // abs(step) + 1 for room, step in zip(rooms, steps, strict=True)]
        return self.g.add(dml.Slice1Desc, self.name, input_tensor=x, output_tensor=self.tensor(counts), **members)

    def split(self, x: Any) -> Any:
        axis = self.draw.choice(list(range(4)))
        length = x.tensor.sizes[axis]
        cuts = sorted(self.draw.sample(range(1, length), min(length - 1, self.draw.randint(0, 2))))
        lengths = [stop - start for start, stop in zip([0, *cuts], [*cuts, length], strict=True)]
        parts = [self.tensor([own if at == axis else size for at, size in enumerate(x.tensor.sizes)]) for own in lengths]
        result = self.g.add(dml.SplitDesc, self.name, input_tensor=x, output_tensors=parts, axis=axis)
        return result

    def join(self, x: Any) -> Any:
        axis = self.draw.randrange(4)

        def fits(other: Any) -> bool:
            return all(own == size for at, (own, size) in enumerate(zip(other.tensor.sizes, x.tensor.sizes, strict=True)) if at != axis)

        parts = [x, *self.draw.choices([other for other in self.values if fits(other)], k=self.draw.randint(0, 2))]
        if sum(part.tensor.sizes[axis] for part in parts) > 12:
            parts = [x]
        sizes = list(x.tensor.sizes)
        sizes[axis] = sum(part.tensor.sizes[axis] for part in parts)
        return self.g.add(dml.JoinDesc, self.name, input_tensors=parts, output_tensor=self.tensor(sizes), axis=axis)

    def product(self, a: Any) -> Any:
        transposed = self.draw.random() < 0.5
        b = self.alike(a) if transposed else a
        rows = a.tensor.sizes[2]
        if transposed:
            sizes = [*a.tensor.sizes[:2], rows, rows]
            members: dict[str, Any] = {"a_tensor": a, "b_tensor": b, "trans_b": "TRANSPOSE"}
        else:
            sizes = [*a.tensor.sizes[:2], a.tensor.sizes[3], a.tensor.sizes[3]]
            members = {"a_tensor": a, "b_tensor": b, "trans_a": "TRANSPOSE"}
        y = self.g.add(dml.GEMMDesc, self.name, **members, output_tensor=self.tensor(sizes))
        if self.draw.random() < 0.5:
            y = self.g.add(dml.ActivationReluDesc, self.name + " relu", input_tensor=y)
        return self.clipped(y)

    def padding(self, x: Any) -> Any:
        start, end = ([0, 0, *(self.draw.randint(0, 1) for _ in range(2))] for _ in range(2))
        sizes = [size + before + after for size, before, after in zip(x.tensor.sizes, start, end, strict=True)]
        if max(sizes) > 8:
            return self.activation(x)
        members: dict[str, Any] = {"padding_mode": "CONSTANT", "padding_value": 1.0, "start_padding": start, "end_padding": end}
        return self.g.add(dml.PaddingDesc, self.name, input_tensor=x, output_tensor=self.tensor(sizes), **members)

    def reduction(self, x: Any) -> Any:
        sizes = [*x.tensor.sizes[:3], 1]
        y = self.g.add(dml.ReduceDesc, self.name, input_tensor=x, output_tensor=self.tensor(sizes), function="MAX", axes=[3])
        return y

    def reshape(self, x: Any) -> Any:
        """Reads a packed value as other sizes; of one with gaps it reads the gaps, which are zero."""
        count = x.tensor.size_in_bytes // 4
        divisor = next(size for size in (4, 3, 2, 1) if count % size == 0)
        desc = dml.TensorDesc(
            data_type="FLOAT32", sizes=[1, 1, count // divisor, divisor], total_tensor_size_in_bytes=x.tensor.size_in_bytes
        )
        if x.node is None or count > 64:  # a graph input's gaps are the caller's
            return self.activation(x)
        return self.g.add(dml.ActivationReluDesc, self.name, input_tensor=x.viewed(desc), output_tensor=self.tensor(desc.sizes))

    def graph(self) -> Graph:
        """The graph, with what nobody reads as its outputs, and some others."""
        read = {(edge.from_node_index, edge.from_node_output_index) for edge in self.g.build().intermediate_edges}
        number = 0
        for value in self.values:
            if value.node is None:
                continue
            for _ in range(((value.node, value.index) not in read) + (self.draw.random() < 0.15)):
                self.g.output(f"out{number}", value)
                number += 1
        return self.g.build()


def random_graph(seed: int, nodes: int | None = None) -> Graph:
    """A graph of float32 tensors that all hold small multiples of 1/2."""
    drawer = _Drawer(seed, 1 + seed % 14 if nodes is None else nodes)
    graph = drawer.graph()
    problems = graph.check(lenient=True)
    assert not problems, problems
    return graph
