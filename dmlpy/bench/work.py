"""The arrays of a piece of work, the same in every process, and the float64 results to compare a library's with.

A batch's samples are independent, and so are batch normalization's channels: each has separate random numbers, and the
reference is computed for a few of them. Gradients of parameters are sums over the batch: to check them, the upstream gradient is
zero for all other samples.

Parameters are those of cuDNN and PyTorch, in their order of gates: for layer l `w<l>` [D, G H, I], `r<l>` [D, G H, S], `b<l>` [D, 2, G H]
(the input's, then the state's) and `p<l>` [D, P, H]. Results are `y` [T, B, D S], and `h<l>` [D, B, S] and `c<l>` [D, B, H] of every
layer; in training also `dx`, and the gradient `d<name>` of each parameter and initial state. Letters as in `shapes`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from dmlpy.bench.operators.shape import LargeShape, OperatorShape
from dmlpy.bench.shapes import BatchNorm, DataType, LayerShape, Pass, Recurrent, Shape
from dmlpy.description.gate_order import GateOrder, reorder
from dmlpy.reference.evaluation import reference

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

Array = np.ndarray[Any, np.dtype[Any]]

CHECKED = 3
"""The number of samples or channels that are compared with the reference."""
TOLERANCES: dict[DataType, float] = {"FLOAT32": 1e-4, "FLOAT16": 2e-2, "INT8": 1e-4}
"""The largest allowed relative error, in norms, of any result. TF32 and BFLOAT16 products do not pass as FLOAT32."""

_SEED = 1
_INPUT, _UPSTREAM, _PARAMETERS = range(3)
_FIELDS = {"w": "weight", "r": "recurrence", "b": "bias", "p": "projection"}


@dataclass(frozen=True)
class Case:
    """A measured case: a shape in a type, forward or in training."""

    shape: Shape
    dtype: DataType
    which: Pass

    @property
    def name(self) -> str:
        return f"{self.shape.key} {self.dtype} {self.which}"

    @property
    def trains(self) -> bool:
        return self.which == "training"

    @property
    def tolerance(self) -> float:
        """The largest allowed error of any result, from `TOLERANCES`. TF32 has as many significant digits as FLOAT16."""
        rounded = isinstance(self.shape, LargeShape) and self.shape.operator_case.half_precision
        return TOLERANCES["FLOAT16" if rounded else self.dtype]

    def work(self) -> Work:
        """The arrays of the case.

        Raises:
            TypeError: the kind of shape is unknown.
        """
        if isinstance(self.shape, Recurrent):
            return RecurrentWork(self, self.shape)
        if isinstance(self.shape, BatchNorm):
            return BatchNormWork(self, self.shape)
        if isinstance(self.shape, OperatorShape):
            return OperatorWork(self, self.shape)
        if isinstance(self.shape, LargeShape):
            return LargeWork(self, self.shape)
        raise TypeError(f"there is no work for a {type(self.shape).__name__}")

    def needed_bytes(self, sets: int) -> int:
        """The least memory that one library needs: all sets of inputs, and the tensors of all operators."""
        if isinstance(self.shape, LargeShape):
            return self.shape.bytes(self.which, self.dtype) * self.shape.operator_case.sets(self.dtype)
        descs = self.shape.descs(self.which, self.dtype)
        tensors = sum(tensor.extent_in_bytes for desc in descs for tensor in desc.tensors().values())
        first = next(iter(descs[0].tensors().values()))
        return tensors + (sets - 1) * first.extent_in_bytes


class Work(ABC):
    """The arrays of a case."""

    def __init__(self, case: Case) -> None:
        self.case = case

    @abstractmethod
    def reference(self) -> dict[str, Array]:
        """The float64 results of the checked parts."""

    def select(self, results: Mapping[str, Array]) -> dict[str, Array]:
        """Selects the parts of a library's results that the reference has."""
        return dict(results)

    def compared(self, subject: str, reference: Mapping[str, Array]) -> Mapping[str, Array]:
        """The results that a library must have: the reference's, except those that it is known to lack."""
        return reference

    @property
    def checked(self) -> str:
        """A description of the compared results, for a record."""
        return "all results"


class OperatorWork(Work):
    """One operator. Results are named by the places of the outputs."""

    def __init__(self, case: Case, shape: OperatorShape) -> None:
        super().__init__(case)
        self.shape, self.operator_case = shape, shape.operator_case
        self.desc, self.arrays = shape.desc(case.dtype), shape.arrays(case.dtype)

    def placed(self) -> dict[str, Array]:
        """The inputs by place: `input_tensors[0]` is the first of an array of tensors."""
        slots = [slot for slot in self.desc.input_slots() if slot.tensor is not None]
        values = {slot.place: (slot.index, self.arrays[slot.field.name]) for slot in slots}
        return {place: value if index is None else value[index] for place, (index, value) in values.items()}

    def reference(self) -> dict[str, Array]:
        results = reference(self.desc, self.placed()).as_dict()
        slots = [slot for slot in self.desc.output_slots() if slot.tensor is not None]
        return {slot.place: results[slot.field.name] if slot.index is None else results[slot.field.name][slot.index] for slot in slots}

    def described(self, place: str, array: Array) -> Array:
        """A library's result with the output's sizes; rows that only the output has are 0."""
        sizes = next(slot.tensor.sizes for slot in self.desc.output_slots() if slot.place == place and slot.tensor is not None)
        if array.size == prod(sizes):
            return array.reshape(sizes)
        padded = np.zeros(sizes, array.dtype)
        padded[: len(array)] = array
        return padded

    def compared(self, subject: str, reference: Mapping[str, Array]) -> Mapping[str, Array]:
        return {place: array for place, array in reference.items() if place not in self.operator_case.lacking.get(subject, ())}


class LargeWork(Work):
    """One operator at a size that fills a GPU, a part of which is checked. Results are named by the fields of the outputs.

    Attributes:
        sets: the number of input sets that are used in turn. They are identical copies.
    """

    def __init__(self, case: Case, shape: LargeShape) -> None:
        super().__init__(case)
        self.shape, self.operator_case = shape, shape.operator_case
        self.desc, self.sets = shape.desc(case.dtype), shape.operator_case.sets(case.dtype)

    def arrays(self) -> dict[str, Array]:
        """The inputs by field, created by each call: they are too large to keep."""
        return self.operator_case.arrays(self.case.dtype)

    def reference(self) -> dict[str, Array]:
        results: dict[str, Array] = reference(
            self.operator_case.sampled_desc(self.case.dtype), self.operator_case.sampled(self.arrays())
        ).as_dict()
        return results

    def select(self, results: Mapping[str, Array]) -> dict[str, Array]:
        return self.operator_case.sampled(results)

    def compared(self, subject: str, reference: Mapping[str, Array]) -> Mapping[str, Array]:
        lacking = self.operator_case.lacking if subject == "torch" else ()
        return {field: array for field, array in reference.items() if field not in lacking}

    @property
    def checked(self) -> str:
        return self.operator_case.sampled_text()


class SampledWork(Work):
    """Independent samples or channels, a few of which are checked.

    Attributes:
        chosen: which samples or channels are checked.
        dtype: NumPy's type of x, y and what goes with them.
    """

    chosen_axes: ClassVar[Mapping[str, int]]
    """The axis of samples or channels in results that have one, by the name without a layer's number."""

    def __init__(self, case: Case, count: int) -> None:
        super().__init__(case)
        self.dtype, self._count = np.dtype(case.dtype.lower()), count
        self.chosen = sorted({0, count // 2, count - 1})[:CHECKED]

    @property
    def checked(self) -> str:
        return f"{len(self.chosen)} of {self._count}"

    @abstractmethod
    def x(self, number: int = 0) -> Array:
        """The input of a set."""

    @abstractmethod
    def upstream(self, *, checked: bool = False) -> Array:
        """The gradient of y; `checked` zeroes the parts that are not checked where they would add to the results."""

    @abstractmethod
    def parameters(self) -> dict[str, Array]:
        """All parameters by name."""

    @abstractmethod
    def reference(self) -> dict[str, Array]:
        """The float64 results of the chosen samples or channels, for set 0 and the checked upstream gradient."""

    def select(self, results: Mapping[str, Array]) -> dict[str, Array]:
        """Selects the parts of a library's results that the reference has."""
        axes = {name: self.chosen_axes.get(name.rstrip("0123456789")) for name in results}
        return {name: array if (axis := axes[name]) is None else np.take(array, self.chosen, axis) for name, array in results.items()}

    def _normal(self, role: int, number: int, index: int, sizes: Iterable[int]) -> Array:
        return np.random.default_rng([_SEED, role, number, index]).standard_normal(tuple(sizes), np.float32)


def relative_error(results: Mapping[str, Array], expected: Mapping[str, Array]) -> tuple[float, str]:
    """The largest norm of an error relative to the result's norm, and the name of that result.

    The error of missing, wrongly sized or non-finite results is infinite.
    """
    errors = {}
    for name, wanted in expected.items():
        got = results.get(name)
        if got is None or got.shape != wanted.shape or not np.isfinite(got).all():
            return float("inf"), name
        error, size = np.linalg.norm(got.astype(np.float64) - wanted), np.linalg.norm(wanted)
        errors[name] = float(error / size) if size else float(error)
    worst = max(errors, key=lambda name: errors[name])
    return errors[worst], worst


class RecurrentWork(SampledWork):
    """Sequences through a stack of recurrent layers."""

    chosen_axes = {"y": 1, "h": 1, "c": 1, "dx": 1, "dh": 1, "dc": 1}

    def __init__(self, case: Case, shape: Recurrent) -> None:
        super().__init__(case, shape.batch)
        self.shape = shape

    def x(self, number: int = 0) -> Array:
        return self._of_samples(_INPUT, number, self.shape.layers[0].input_size, range(self.shape.batch))

    def upstream(self, *, checked: bool = False) -> Array:
        samples = self.chosen if checked else range(self.shape.batch)
        return self._of_samples(_UPSTREAM, 0, self.shape.layers[-1].output_size, samples)

    def _of_samples(self, role: int, number: int, width: int, samples: Iterable[int]) -> Array:
        """Embeds samples in [B, T, width], with zeros for the other samples."""
        array = np.zeros((self.shape.steps, self.shape.batch, width), self.dtype)
        for sample in samples:
            array[:, sample] = self._normal(role, number, sample, (self.shape.steps, width))
        return array

    def parameters(self) -> dict[str, Array]:
        """Draws uniformly within the root of 1 / H, as PyTorch initializes: states neither vanish nor saturate."""
        arrays: dict[str, Array] = {}
        for number, layer in enumerate(self.shape.layers):
            rng = np.random.default_rng([_SEED, _PARAMETERS, number])
            bound, directions, rows = layer.hidden_size**-0.5, layer.directions, layer.gates * layer.hidden_size
            sizes = {
                "w": (directions, rows, layer.input_size),
                "r": (directions, rows, layer.state_size),
                "b": (directions, 2, rows),
                "p": (directions, layer.projection, layer.hidden_size),
            }
            for name, size in sizes.items():
                if 0 not in size:
                    values = rng.random(size, np.float32)
                    arrays[f"{name}{number}"] = ((2 * values - 1) * np.float32(bound)).astype(self.dtype)
        return arrays

    def lengths(self) -> Array:
        """The number of steps of each sample that count, [B], the longest first."""
        return np.array(self.shape.sequence_lengths(), np.int64)

    def reference(self) -> dict[str, Array]:
        shape = replace(self.shape, batch=len(self.chosen))
        layers = shape.layers
        descs: list[Any] = shape.descs(self.case.which, self.case.dtype)
        parameters = self.parameters()
        x = np.stack([self._normal(_INPUT, 0, sample, (shape.steps, layers[0].input_size)) for sample in self.chosen], axis=1)
        layer_inputs: list[dict[str, Array]] = []
        kept: list[dict[str, Array]] = []
        results: dict[str, Array] = {}
        flowing = x.astype(self.dtype).astype(np.float64)
        for number, layer in enumerate(layers):
            inputs = {"input_tensor": flowing[None], **self.initial_fields(layer, len(self.chosen))}
            inputs |= {name: array.astype(np.float64) for name, array in parameter_fields(layer, parameters, number).items()}
            if shape.ragged:
                inputs["sequence_lengths_tensor"] = self.lengths()[self.chosen].astype(np.uint32).reshape(1, 1, 1, -1)
            outputs = reference(descs[number], inputs).as_dict()
            layer_inputs.append(inputs)
            kept.append(outputs)
            flowing = outputs["output_sequence_tensor"].transpose(0, 2, 1, 3).reshape(shape.steps, len(self.chosen), layer.output_size)
            results[f"h{number}"] = outputs["output_single_tensor"][0]
            if layer.cell == "LSTM":
                results[f"c{number}"] = outputs["output_cell_single_tensor"][0]
        results["y"] = flowing
        if self.case.trains:
            flowing = self.upstream(checked=True)[:, self.chosen].astype(np.float64)
            for number, layer in reversed(list(enumerate(layers))):
                desc = upstream_of_y_alone(descs[2 * len(layers) - 1 - number], descs[number])
                upstream = flowing.reshape(shape.steps, len(self.chosen), layer.directions, layer.state_size).transpose(0, 2, 1, 3)
                arrays = layer_inputs[number] | {
                    "reserve_tensor": kept[number]["reserve_tensor"],
                    "output_sequence_gradient_tensor": upstream,
                }
                fields = {field.name for field in desc.inputs()}
                gradients = reference(desc, {name: array for name, array in arrays.items() if name in fields}).as_dict()
                results |= gradients_by_name(layer, gradients, number)
                flowing = gradients["input_gradient_tensor"][0]
            results["dx"] = flowing
        return results

    def initial_fields(self, layer: LayerShape, batch: int) -> dict[str, Array]:
        """Zero states by field of an operator."""
        fields = {"hidden_init_tensor": np.zeros((1, layer.directions, batch, layer.state_size), self.dtype)}
        if layer.cell == "LSTM":
            fields["cell_mem_init_tensor"] = np.zeros((1, layer.directions, batch, layer.hidden_size), self.dtype)
        return fields


def upstream_of_y_alone(gradient: Any, forward: Any) -> Any:
    """A layer's upstream gradients if only y has one, in y's memory layout, without those of the last states."""
    names = ("output_single_gradient_tensor", "output_cell_single_gradient_tensor")
    members: dict[str, Any] = {name: None for name in names if name in gradient.tensors()}
    return gradient.replace(output_sequence_gradient_tensor=forward.output_sequence_tensor, **members)


def parameter_fields(layer: LayerShape, parameters: Mapping[str, Array], number: int) -> dict[str, Array]:
    """A layer's parameters by field of an operator: [1, D, ...], in DirectML's and ONNX's gate order."""
    fields = {}
    for name, field in _FIELDS.items():
        array = parameters.get(f"{name}{number}")
        if array is not None:
            if name != "p":
                array = reorder(array, layer.cell, GateOrder.CUDNN, GateOrder.DIRECTML, axis=2 if name == "b" else 1)
            fields[f"{field}_tensor"] = array.reshape(1, 1, layer.directions, -1) if name == "b" else array[None]
    return fields


def gradients_by_name(layer: LayerShape, fields: Mapping[str, Array], number: int) -> dict[str, Array]:
    """Renames the gradients of a layer's parameters and initial states from an operator's fields to the names used here."""
    gradients_of = {}
    for name, field in _FIELDS.items():
        array = fields.get(f"{field}_gradient_tensor")
        if array is not None:
            array = array.reshape(layer.directions, 2, -1) if name == "b" else array[0]
            if name != "p":
                array = reorder(array, layer.cell, GateOrder.DIRECTML, GateOrder.CUDNN, axis=2 if name == "b" else 1)
            gradients_of[f"d{name}{number}"] = array
    for name, field in (("h", "hidden_init"), ("c", "cell_mem_init")):
        if f"{field}_gradient_tensor" in fields:
            gradients_of[f"d{name}{number}"] = fields[f"{field}_gradient_tensor"][0]
    return gradients_of


class BatchNormWork(SampledWork):
    """Batch normalization of [N, C, H, W], whatever the layout in memory; parameters `scale` and `offset`, results `y`, `dx` and theirs."""

    chosen_axes = {"y": 1, "dx": 1, "dscale": 0, "doffset": 0}
    EPSILON = 1e-5

    def __init__(self, case: Case, shape: BatchNorm) -> None:
        super().__init__(case, shape.sizes[1])
        self.shape = shape

    def x(self, number: int = 0) -> Array:
        return self._of_channels(_INPUT, number)

    def upstream(self, *, checked: bool = False) -> Array:
        return self._of_channels(_UPSTREAM, 0)

    def _of_channels(self, role: int, number: int) -> Array:
        """Stores [N, C, H, W] in the layout's memory order."""
        images, channels, height, width = self.shape.sizes
        array = self.from_memory(np.empty(self.shape.sizes, self.dtype))
        for channel in range(channels):
            array[:, channel] = self._normal(role, number, channel, (images, height, width))
        return array

    def from_memory(self, memory: Array) -> Array:
        """Reads packed memory of the layout as [N, C, H, W]."""
        images, channels, height, width = self.shape.sizes
        if self.shape.layout == "NCHW":
            return memory.reshape(self.shape.sizes)
        return memory.reshape(images, height, width, channels).transpose(0, 3, 1, 2)

    def parameters(self) -> dict[str, Array]:
        rng = np.random.default_rng([_SEED, _PARAMETERS])
        return {name: rng.uniform(0.5, 1.5, self.shape.sizes[1]).astype(np.float32) for name in ("scale", "offset")}

    def reference(self) -> dict[str, Array]:
        images, _, height, width = self.shape.sizes

        def chosen(role: int) -> Array:
            parts = [self._normal(role, 0, channel, (images, height, width)) for channel in self.chosen]
            return np.stack(parts, axis=1).astype(self.dtype).astype(np.float64)

        def total(array: Array) -> Array:
            summed: Array = array.sum((0, 2, 3), keepdims=True)
            return summed

        x, count = chosen(_INPUT), images * height * width
        scale, offset = (array[self.chosen].astype(np.float64)[:, None, None] for array in self.parameters().values())
        centred = x - total(x) / count
        deviation = np.sqrt(total(centred * centred) / count + self.EPSILON)
        normalized = centred / deviation
        results = {"y": scale * normalized + offset}
        if self.case.trains:
            dy = chosen(_UPSTREAM)
            d_offset, d_scale = total(dy), total(dy * normalized)
            results["dx"] = scale / deviation * (dy - d_offset / count - normalized * d_scale / count)
            results |= {"dscale": d_scale.ravel(), "doffset": d_offset.ravel()}
        return results
