"""Random graphs of operators that ONNX expresses in different ways: windows, layouts, indices, resampling, quantization, recurrence."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import dmlpy as dml
from dmlpy.graphs import Graph
from tests.support.onnx.random_layers import FUSED, Layers

_ACTIVATIONS: tuple[tuple[Any, dict[str, Any]], ...] = (
    (dml.ActivationCeluDesc, {"alpha": 0.5}),
    (dml.ActivationGeluDesc, {}),
    (dml.ActivationHardSwishDesc, {"alpha": 0.2, "beta": 0.5}),
    (dml.ActivationShrinkDesc, {"bias": 0.25, "threshold": 0.5}),
    (dml.ActivationSwishDesc, {"sigmoid_input_scale": 1.5}),
    (dml.ActivationSoftplusDesc, {"steepness": 3.0}),
    (dml.ActivationParametricSoftplusDesc, {"alpha": 0.5, "beta": 2.0}),
    (dml.ActivationThresholdedReluDesc, {"alpha": 0.25}),
    (dml.ElementWiseAbsDesc, {"scale_bias": dml.ScaleBias(scale=2.0, bias=-0.5)}),
    (dml.ElementWiseClipDesc, {"min": 0.5, "max": -0.5}),
    (dml.ElementWiseClip1Desc, {"min": 0.5, "max": -0.5, "min_max_data_type": "FLOAT32"}),
    (dml.ElementWiseThresholdDesc, {"min": 0.1, "scale_bias": dml.ScaleBias(scale=-1.0, bias=0.5)}),
    (dml.ElementWiseRoundDesc, {"rounding_mode": "TOWARD_INFINITY"}),
    (dml.ElementWiseErfDesc, {}),
    (dml.ActivationSoftmax1Desc, {"axes": [3]}),
    (dml.ActivationHardmax1Desc, {"axes": [1, 2]}),
)


class _Drawer(Layers):
    """Draws one graph of FLOAT32 values [N, C, H, W]."""

    def graph(self, nodes: int) -> Graph:
        """A chain with branches."""
        steps: list[Callable[[Any], Any]] = [
            self.activation,
            self.binary,
            self.convolution,
            self.transposed,
            self.average,
            self.largest,
            self.norm,
            self.lp,
            self.resampled,
            self.sliced,
            self.sliced_back,
            self.padded,
            self.gathered,
            self.by_elements,
            self.scattered,
            self.reduced,
            self.running,
            self.top,
            self.quantized,
            self.turned,
            self.joined,
            self.split,
            self.blocks,
            self.unfolded,
            self.mean_variance,
            self.product,
            self.recurrent,
            self.attention,
            self.reversed,
            self.cast,
            self.repeated,
            self.compared,
        ]
        value = self.input([1 + self.draw.randrange(2), *(self.draw.randint(1, 5) for _ in range(3))])
        for _ in range(nodes):
            value = self.draw.choice(steps)(value)
            if np.prod(value.tensor.sizes) > 600:
                value = self.reduced(value)
            value = self.g.add(dml.ActivationTanhDesc, input_tensor=value, output_tensor=self.laid(value.tensor.sizes))
        self.g.output("y", value)
        return self.g.build()

    def activation(self, value: Any) -> Any:
        kind, members = self.draw.choice(_ACTIVATIONS)
        return self.g.add(kind, input_tensor=value, output_tensor=self.laid(value.tensor.sizes), **members)

    def binary(self, value: Any) -> Any:
        kind = self.draw.choice(
            [
                dml.ElementWiseAdd1Desc,
                dml.ElementWiseMultiplyDesc,
                dml.ElementWiseMaxDesc,
                dml.ElementWiseDifferenceSquareDesc,
                dml.ElementWiseMeanDesc,
            ]
        )
        members = {"fused_activation": dml.ActivationReluDesc()} if kind is dml.ElementWiseAdd1Desc else {}
        pair = [value, self.same(value)]
        self.draw.shuffle(pair)
        return self.g.add(kind, a_tensor=pair[0], b_tensor=pair[1], **members)

    def convolution(self, value: Any) -> Any:
        _, channels, *spatial = value.tensor.sizes
        found = self.windows(spatial)
        groups = self.draw.choice([1, channels])
        filters = groups * self.draw.randint(1, 2)
        lengths = found.pop("lengths")
        bias = self.input([1, filters, 1, 1]) if self.draw.random() < 0.5 else None
        return self.g.add(
            dml.ConvolutionDesc,
            input_tensor=value,
            filter_tensor=self.input([filters, channels // groups, *lengths]),
            bias_tensor=bias,
            mode=self.draw.choice(["CONVOLUTION", "CROSS_CORRELATION"]),
            direction="FORWARD",
            output_padding=[0, 0],
            group_count=groups,
            fused_activation=self.draw.choice(FUSED)(),
            **found,
        )

    def transposed(self, value: Any) -> Any:
        _, channels, *spatial = value.tensor.sizes
        groups = self.draw.choice([1, channels])
        lengths = [self.draw.randint(2, 3) for _ in spatial]
        strides, dilations = ([self.draw.randint(1, 3) for _ in spatial] for _ in range(2))
        extra = [self.draw.randint(0, 3) for _ in spatial]
        full = [
            (size - 1) * stride + 1 + (length - 1) * dilation
            for size, stride, length, dilation in zip(spatial, strides, lengths, dilations, strict=True)
        ]
        start, end = ([self.draw.randint(0, (size - 1) // 2) for size in full] for _ in range(2))
        bias = self.input([1, groups * 2, 1, 1]) if self.draw.random() < 0.5 else None
        return self.g.add(
            dml.ConvolutionDesc,
            input_tensor=value,
            filter_tensor=self.input([channels, 2, *lengths]),
            bias_tensor=bias,
            mode=self.draw.choice(["CONVOLUTION", "CROSS_CORRELATION"]),
            direction="BACKWARD",
            output_padding=extra,
            group_count=groups,
            strides=strides,
            dilations=dilations,
            start_padding=start,
            end_padding=end,
            fused_activation=self.draw.choice(FUSED)(),
        )

    def pooling(self, value: Any, kind: Any, **members: Any) -> Any:
        found = self.windows(value.tensor.sizes[2:])
        found["window_size"] = found.pop("lengths")
        return self.g.add(kind, input_tensor=value, **found, **members)

    def average(self, value: Any) -> Any:
        return self.pooling(value, dml.AveragePooling1Desc, include_padding=True)

    def largest(self, value: Any) -> Any:
        found = self.windows(value.tensor.sizes[2:])
        found["window_size"] = found.pop("lengths")
        desc = dml.MaxPooling2Desc(input_tensor=value.tensor, **found).with_outputs("output_tensor")
        if self.draw.random() < 0.5:
            return self.g.add(
                dml.MaxPooling2Desc, input_tensor=value, output_tensor=desc.output_tensor, output_indices_tensor=None, **found
            )
        assert desc.output_tensor is not None
        numbers = desc.output_tensor.replace(data_type="UINT32")
        largest, places = self.g.add(
            dml.MaxPooling2Desc, input_tensor=value, output_tensor=desc.output_tensor, output_indices_tensor=numbers, **found
        )
        return self.g.add(dml.ElementWiseAddDesc, a_tensor=largest, b_tensor=self.as_floats(places))

    def norm(self, value: Any) -> Any:
        return self.pooling(value, dml.LPPooling1Desc, p=self.draw.randint(1, 3))

    def lp(self, value: Any) -> Any:
        return self.g.add(dml.LPNormalizationDesc, input_tensor=value, axis=self.draw.randrange(4), epsilon=1e-3, p=self.draw.randint(1, 2))

    def resampled(self, value: Any) -> Any:
        sizes = value.tensor.sizes
        wanted = [
            max(1, min(8, size + self.draw.randint(-2, 3))) if self.draw.random() < 0.5 else size * self.draw.choice([1, 2])
            for size in sizes
        ]
        scales = [own / size for own, size in zip(wanted, sizes, strict=True)]
        before, behind = self.draw.choice([(0.5, -0.5), (0.0, 0.0), (0.25, -0.125)])
        return self.g.add(
            dml.Resample2Desc,
            input_tensor=value,
            output_tensor=self.laid(wanted),
            scales=scales,
            input_pixel_offsets=[before] * 4,
            interpolation_mode=self.draw.choice(["LINEAR", "NEAREST_NEIGHBOR"]),
            output_pixel_offsets=[behind] * 4,
            rounding_direction=self.draw.choice(["INCREASING", "DECREASING"]),
        )

    def sliced(self, value: Any) -> Any:
        return self.g.add(dml.Slice1Desc, input_tensor=value, **self.window(value.tensor.sizes))

    def sliced_back(self, value: Any) -> Any:
        window = self.window([size + self.draw.randint(0, 2) for size in value.tensor.sizes])
        steps = [abs(step) for step in window["input_window_strides"]]
        window["input_window_sizes"] = [(size - 1) * step + 1 for size, step in zip(value.tensor.sizes, steps, strict=True)]
        places = zip(window["input_window_offsets"], window["input_window_sizes"], strict=True)
        sizes = [offset + length + self.draw.randint(0, 1) for offset, length in places]
        return self.g.add(dml.SliceGradDesc, input_gradient_tensor=value, output_gradient_tensor=self.laid(sizes), **window)

    def padded(self, value: Any) -> Any:
        start, end = ([self.draw.choice([0, 0, 1, 3]) for _ in range(4)] for _ in range(2))
        mode = self.draw.choice(["CONSTANT", "EDGE", "REFLECTION", "SYMMETRIC", "WRAP"])
        return self.g.add(dml.PaddingDesc, input_tensor=value, padding_mode=mode, padding_value=0.5, start_padding=start, end_padding=end)

    def gathered(self, value: Any) -> Any:
        axis = self.draw.randrange(4)
        wide = value.tensor.sizes[axis]
        sizes = [*value.tensor.sizes[:axis], 3, *value.tensor.sizes[axis + 1 :]]
        return self.g.add(
            dml.GatherDesc,
            input_tensor=value,
            indices_tensor=self.indices([1, 1, 1, 3], wide),
            output_tensor=self.laid(sizes),
            axis=axis,
            index_dimensions=1,
        )

    def by_elements(self, value: Any) -> Any:
        axis = self.draw.randrange(4)
        sizes = [*value.tensor.sizes[:axis], 3, *value.tensor.sizes[axis + 1 :]]
        indices = self.indices(sizes, value.tensor.sizes[axis])
        return self.g.add(dml.GatherElementsDesc, input_tensor=value, indices_tensor=indices, output_tensor=self.laid(sizes), axis=axis)

    def scattered(self, value: Any) -> Any:
        axis = self.draw.randrange(4)
        sizes = [*value.tensor.sizes[:axis], 1, *value.tensor.sizes[axis + 1 :]]
        indices = self.indices(sizes, value.tensor.sizes[axis])
        return self.g.add(dml.ScatterDesc, input_tensor=value, indices_tensor=indices, updates_tensor=self.input(sizes), axis=axis)

    def reduced(self, value: Any) -> Any:
        function = self.draw.choice(
            ["AVERAGE", "L1", "L2", "LOG_SUM_EXP", "MAX", "MIN", "MULTIPLY", "SUM", "SUM_SQUARE", "ARGMAX", "ARGMIN"]
        )
        axes = self.draw.sample(range(4), self.draw.randint(1, 3))
        sizes = [1 if axis in axes else size for axis, size in enumerate(value.tensor.sizes)]
        indexed = function.startswith("ARG")
        output = self.laid(sizes, "UINT32" if indexed else "FLOAT32")
        found = self.g.add(dml.ReduceDesc, input_tensor=value, output_tensor=output, function=function, axes=axes)
        return self.as_floats(found) if indexed else found

    def running(self, value: Any) -> Any:
        product = self.draw.random() < 0.5
        members = {"has_exclusive_product" if product else "has_exclusive_sum": self.draw.random() < 0.5}
        kind: Any = dml.CumulativeProductDesc if product else dml.CumulativeSummationDesc
        direction = self.draw.choice(["INCREASING", "DECREASING"])
        return self.g.add(kind, input_tensor=value, axis=self.draw.randrange(4), axis_direction=direction, **members)

    def top(self, value: Any) -> Any:
        axis = self.draw.randrange(4)
        direction, count = self.draw.choice(["INCREASING", "DECREASING"]), self.draw.randint(1, value.tensor.sizes[axis])
        sizes = [*value.tensor.sizes[:axis], count, *value.tensor.sizes[axis + 1 :]]
        found, places = self.g.add(
            dml.TopK1Desc,
            input_tensor=value,
            output_value_tensor=self.laid(sizes),
            output_index_tensor=self.laid(sizes, "UINT32"),
            axis=axis,
            k=count,
            axis_direction=direction,
        )
        return self.g.add(dml.ElementWiseAddDesc, a_tensor=found, b_tensor=self.as_floats(places))

    def quantized(self, value: Any) -> Any:
        """Quantized by a scale of the whole or of an axis, and back."""
        sizes = list(value.tensor.sizes)
        axis = self.draw.choice([None, 0, 1, 2, 3])
        kept = [size if own == axis else 1 for own, size in enumerate(sizes)]
        strides = [1 if own == axis else 0 for own in range(4)]
        name = self.draw.choice(["INT8", "UINT8"])
        numbers = np.array([self.draw.uniform(0.01, 0.03) for _ in range(int(np.prod(kept)))], np.float32)
        points = np.array([self.draw.randint(0, 9) for _ in range(int(np.prod(kept)))], name.lower())
        scale = self.g.constant(f"scale{self.inputs}", numbers).viewed(dml.TensorDesc(data_type="FLOAT32", sizes=sizes, strides=strides))
        point = self.g.constant(f"point{self.inputs}", points).viewed(dml.TensorDesc(data_type=name, sizes=sizes, strides=strides))
        self.inputs += 1
        stored = self.g.add(
            dml.ElementWiseQuantizeLinearDesc,
            input_tensor=value,
            scale_tensor=scale,
            zero_point_tensor=point,
            output_tensor=self.laid(sizes, name),
        )
        return self.g.add(
            dml.ElementWiseDequantizeLinearDesc,
            input_tensor=stored,
            scale_tensor=scale,
            zero_point_tensor=point,
            output_tensor=self.laid(sizes),
        )

    def turned(self, value: Any) -> Any:
        """The axes in another order, by strides."""
        order = self.draw.sample(range(4), 4)
        sizes, strides = ([values[axis] for axis in order] for values in (value.tensor.sizes, value.tensor.element_strides))
        seen = value.tensor.replace(sizes=sizes, strides=strides, total_tensor_size_in_bytes=value.tensor.size_in_bytes)
        return self.g.add(dml.ActivationIdentityDesc, input_tensor=value.viewed(seen), output_tensor=self.laid(sizes))

    def joined(self, value: Any) -> Any:
        axis = self.draw.randrange(4)
        sizes = list(value.tensor.sizes)
        other = self.input([*sizes[:axis], 2, *sizes[axis + 1 :]])
        sizes[axis] += 2
        return self.g.add(dml.JoinDesc, input_tensors=[value, other], output_tensor=self.laid(sizes), axis=axis)

    def split(self, value: Any) -> Any:
        sizes = list(value.tensor.sizes)
        axis = max(range(4), key=lambda own: sizes[own])
        if sizes[axis] < 2:
            return self.activation(value)
        parts = [self.laid([*sizes[:axis], count, *sizes[axis + 1 :]]) for count in (1, sizes[axis] - 1)]
        found = self.g.add(dml.SplitDesc, input_tensor=value, output_tensors=parts, axis=axis)
        self.g.output(f"part{self.inputs}", found[0])
        self.inputs += 1
        return found[1]

    def blocks(self, value: Any) -> Any:
        order = self.draw.choice(["DEPTH_COLUMN_ROW", "COLUMN_ROW_DEPTH"])
        wide = self.g.add(
            dml.TileDesc,
            input_tensor=value,
            output_tensor=self.laid([size * times for size, times in zip(value.tensor.sizes, (1, 1, 2, 2), strict=True)]),
            repeats=[1, 1, 2, 2],
        )
        deep = self.g.add(dml.SpaceToDepth1Desc, input_tensor=wide, block_size=2, order=order)
        return self.g.add(
            dml.DepthToSpace1Desc, input_tensor=deep, block_size=2, order=self.draw.choice(["DEPTH_COLUMN_ROW", "COLUMN_ROW_DEPTH"])
        )

    def unfolded(self, value: Any) -> Any:
        found = self.windows(value.tensor.sizes[2:])
        found["window_sizes"] = found.pop("lengths")
        columns = self.g.add(dml.UnfoldDesc, input_tensor=value, **found)
        if self.draw.random() < 0.5:
            return self.g.add(dml.FoldDesc, input_tensor=columns, output_tensor=self.laid(value.tensor.sizes), **found)
        return columns.viewed(
            columns.tensor.replace(sizes=[1, *columns.tensor.sizes], strides=None, total_tensor_size_in_bytes=columns.tensor.size_in_bytes)
        )

    def mean_variance(self, value: Any) -> Any:
        axes = self.draw.choice([[2, 3], [1, 2, 3], [1], [3], [0, 2]])
        kept = self.draw.choice(
            [[1 if axis not in axes else size for axis, size in enumerate(value.tensor.sizes)], [1, value.tensor.sizes[1], 1, 1]]
        )
        members: dict[str, Any] = {}
        if self.draw.random() < 0.6:
            members = {"scale_tensor": self.input(kept), "bias_tensor": self.input(kept)}
        return self.g.add(
            dml.MeanVarianceNormalization2Desc,
            input_tensor=value,
            axes=axes,
            use_mean=self.draw.random() < 0.8,
            use_variance=self.draw.random() < 0.8,
            epsilon=0.5,
            fused_activation=self.draw.choice(FUSED[:6])(),
            **members,
        )

    def reversed(self, value: Any) -> Any:
        axis = self.draw.randrange(4)
        sizes = [1 if own == axis else size for own, size in enumerate(value.tensor.sizes)]
        constant = self.numbers(0, value.tensor.sizes[axis] + 1, sizes, "uint32")
        return self.g.add(dml.ReverseSubsequencesDesc, input_tensor=value, sequence_lengths_tensor=constant, axis=axis)

    def cast(self, value: Any) -> Any:
        """Held in a smaller type, and back."""
        wide = self.g.add(
            dml.ElementWiseIdentityDesc, input_tensor=value, scale_bias=dml.ScaleBias(scale=self.draw.choice([3.0, 300.0]), bias=0.5)
        )
        name = self.draw.choice(["INT8", "UINT8", "INT32", "UINT16"])
        return self.as_floats(self.g.add(dml.CastDesc, input_tensor=wide, output_tensor=self.laid(value.tensor.sizes, name)))

    def repeated(self, value: Any) -> Any:
        repeats = [self.draw.choice([1, 1, 2]) for _ in range(4)]
        sizes = [size * times for size, times in zip(value.tensor.sizes, repeats, strict=True)]
        return self.g.add(dml.TileDesc, input_tensor=value, output_tensor=self.laid(sizes), repeats=repeats)

    def compared(self, value: Any) -> Any:
        other = self.same(value)
        sizes = value.tensor.sizes
        truth = self.g.add(dml.ElementWiseLogicalLessThanDesc, a_tensor=value, b_tensor=other, output_tensor=self.laid(sizes, "UINT8"))
        return self.g.add(dml.ElementWiseIfDesc, condition_tensor=truth, a_tensor=value, b_tensor=other, output_tensor=self.laid(sizes))


def random_exportable_graph(seed: int) -> Graph:
    """A graph of some operators, all of which ONNX can express."""
    return _Drawer(seed).graph(1 + seed % 5)
