"""The plan of attention: products of matrices and softmax, for as many heads at a time as have scores that stay in a cache."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.description.enums import DataType, MatrixTransform
from dmlpy.description.tensors import TensorDesc
from dmlpy.devices.cpu.elementwise.plan import ElementwisePlan
from dmlpy.devices.cpu.elementwise.program import Code, Program
from dmlpy.devices.cpu.movement.plan import CONVERSIONS, COPIES, Copy, CopyPlan, Elements
from dmlpy.devices.cpu.plans import best_plan
from dmlpy.devices.numpy.array_functions import WholePlan
from dmlpy.devices.plan import Launch, Layout, Plan, PlanWithoutConstants, Pointers, arrays_of, in_order
from dmlpy.operators.activation import ActivationSoftmax1Desc
from dmlpy.operators.matrix import GEMMDesc
from dmlpy.reference.attention import leaves_keys_out, mask_addends

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


_LAYERS = {
    "query": (("stacked_query_key_tensor", 0), ("stacked_query_key_value_tensor", 0)),
    "key": (("stacked_query_key_tensor", 1), ("stacked_key_value_tensor", 0), ("stacked_query_key_value_tensor", 1)),
    "value": (("stacked_key_value_tensor", 1), ("stacked_query_key_value_tensor", 2)),
}
"""The stacked tensors that may hold an operand, and its index among what they hold."""


@dataclass(frozen=True)
class Operand:
    """A tensor in memory of the caller or in scratch.

    Attributes:
        place: the place of the memory.
        offset: the bytes from the memory's first one to the first element.
        tensor: the sizes and strides.
    """

    place: str
    offset: int
    tensor: TensorDesc

    def part(self, *ranges: tuple[int, int]) -> Operand:
        """Slices the first dimensions: each of `ranges` is the first entry, and how many."""
        sizes, strides = list(self.tensor.sizes), self.tensor.element_strides
        offset = 0
        for axis, (first, count) in enumerate(ranges):
            sizes[axis] = count
            offset += first * strides[axis]
        return Operand(self.place, self.offset + offset * self._size, _tensor(self.tensor.data_type, sizes, strides))

    def divided(self, axis: int, sizes: tuple[int, int]) -> Operand:
        """The operand with a dimension as two."""
        step, strides, whole = self.tensor.element_strides[axis], list(self.tensor.element_strides), list(self.tensor.sizes)
        whole[axis : axis + 1], strides[axis : axis + 1] = sizes, (step * sizes[1], step)
        return Operand(self.place, self.offset, _tensor(self.tensor.data_type, whole, strides))

    def repeated(self, sizes: Sequence[int]) -> Operand:
        """The operand with its dimensions of size 1 repeated to sizes."""
        strides = [
            step if existing == size else 0
            for existing, size, step in zip(self.tensor.sizes, sizes, self.tensor.element_strides, strict=True)
        ]
        return Operand(self.place, self.offset, _tensor(self.tensor.data_type, sizes, strides))

    @property
    def _size(self) -> int:
        return self.tensor.data_type.numpy.itemsize


def _tensor(data_type: DataType, sizes: Sequence[int], strides: Sequence[int]) -> TensorDesc:
    return TensorDesc(data_type=data_type, sizes=tuple(sizes), strides=tuple(strides))


def packed(place: str, sizes: Sequence[int]) -> Operand:
    """A packed FLOAT32 tensor."""
    return Operand(place, 0, TensorDesc(data_type=DataType.FLOAT32, sizes=tuple(sizes)))


def without_leading(place: str, tensor: TensorDesc, count: int) -> Operand:
    """A tensor of the caller without leading dimensions of size 1, so that it has `count`; missing ones are added."""
    missing = (1,) * (count - len(tensor.sizes))
    sizes, strides = (*missing, *tensor.sizes)[-count:], (*(0 for _ in missing), *tensor.element_strides)[-count:]
    return Operand(place, 0, _tensor(tensor.data_type, sizes, strides))


def heads_of(place: str, tensor: TensorDesc, heads: int) -> Operand:
    """A tensor [batch, positions, heads * size] as [batch, heads, positions, size]."""
    whole = without_leading(place, tensor, 3).divided(2, (heads, tensor.sizes[-1] // heads))
    (batch, positions, _, size), (step, row, head, element) = whole.tensor.sizes, whole.tensor.element_strides
    return Operand(place, 0, _tensor(tensor.data_type, (batch, heads, positions, size), (step, head, row, element)))


def operand_of(desc: Any, name: str, heads: int) -> Operand | None:
    """The new query, key or value of a desc as [batch, heads, positions, size]; None if the past holds them all."""
    described = getattr(desc, f"{name}_tensor")
    if described is not None:
        return heads_of(f"{name}_tensor", described, heads)
    for place, layer in _LAYERS[name]:
        stacked = getattr(desc, place)
        if stacked is not None:
            batch, positions, count, _, size = stacked.sizes
            step, row, head, of_layer, element = stacked.element_strides
            tensor = _tensor(stacked.data_type, (batch, count, positions, size), (step, head, row, element))
            return Operand(place, layer * of_layer * stacked.data_type.numpy.itemsize, tensor)
    return None


@dataclass(frozen=True)
class Step:
    """The work of a plan on operands.

    Attributes:
        plan: the plan.
        operands: the operand at each of its places.
    """

    plan: Plan
    operands: Mapping[str, Operand]

    def bind(self, memories: Pointers, scratch: int) -> Launch:
        """Binds the work, given the address of each operand's memory."""
        pointers = {place: memories[operand.place] + operand.offset for place, operand in self.operands.items()}
        return self.plan.bind(pointers, scratch, None)


def copied(source: Operand, target: Operand) -> Step:
    """The copy of an operand to another, converted if their types differ."""
    copy = Copy(Elements.of("target", target.tensor), Elements.of("source", source.tensor))
    kernel = COPIES if source.tensor.data_type is target.tensor.data_type else CONVERSIONS
    return Step(CopyPlan([copy], kernel), {"target": target, "source": source})


def added(x: Operand, y: Operand, target: Operand) -> Step:
    """The sum of two operands, the second of which is repeated."""
    y = y.repeated(target.tensor.sizes)
    program = Program([x.tensor, y.tensor])
    program.add(Code.ADD, 0, 1)
    plan = ElementwisePlan(program, [("x", x.tensor), ("y", y.tensor)], ("target", target.tensor))
    return Step(plan, {"x": x, "y": y, "target": target})


_ALIGNMENT = 64
_SCORES = 1 << 17
"""Scores that are computed at a time, at most, if those of a head are not more: they stay in the second-level cache."""
_MIN_ALIGNED = 8
"""Rows of scores from which on each begins with a cache line, without which vectors of softmax would lie in two."""
_FLOAT32 = np.dtype(np.float32)


class AttentionPlan(PlanWithoutConstants):
    """Attention by the plans of products, sums and copies, in float32.

    Keys and values of the past are joined with the new ones where they are to be stored, or in scratch; there go operands that a bias is
    added to or that are of FLOAT16, too. Others are read in place.

    Args:
        desc: a checked desc without `past_sequence_lengths_tensor`.
    """

    def __init__(self, desc: Any) -> None:
        self._desc, self._tensors = desc, desc.tensors()
        self._halves = desc.output_tensor.data_type is DataType.FLOAT16
        self._arrays: list[tuple[str, tuple[int, ...], np.dtype[Any]]] = []
        self._before: list[Step] = []
        self._presents = {
            name: without_leading(place, self._tensors[place], 4)
            for name in ("key", "value")
            if (place := f"output_present_{name}_tensor") in self._tensors
        }
        """The tensors into which keys and values are still to be stored."""
        heads, groups = (getattr(desc, name) for name in desc.head_counts)
        query, key, value = self._operands(heads, groups)
        output = heads_of("output_tensor", desc.output_tensor, heads)
        result = self._scratch("output", output.tensor.sizes) if self._halves else output
        self._bias = self._score_bias()
        self._chunks = self._products(query, key, value, result)
        self._behind = [copied(result, output)] if self._halves else []
        sources = {"key": key, "value": value}
        self._behind += [copied(sources[name], present) for name, present in self._presents.items()]
        self._layout = Layout(self._arrays, _ALIGNMENT)
        self._plans: list[Plan] = [step.plan for step in (*self._before, *self._chunks, *self._behind)]
        self.temporary_size = self._layout.size + max(plan.temporary_size for plan in self._plans)

    def _scratch(self, name: str, sizes: tuple[int, ...]) -> Operand:
        self._arrays.append((name, sizes, _FLOAT32))
        return packed(name, sizes)

    def _operands(self, heads: int, groups: int) -> tuple[Operand, Operand, Operand]:
        """Query, key and value as the products read them; adds the steps that write them."""
        desc, operands, first = self._desc, [], 0
        for name, count in (("query", heads), ("key", groups), ("value", groups)):
            new, past = operand_of(desc, name, count), getattr(desc, f"past_{name}_tensor", None)
            earlier = None if past is None else without_leading(f"past_{name}_tensor", past, 4)
            bias = None
            if new is not None and desc.bias_tensor is not None:
                width = count * new.tensor.sizes[3]
                line = without_leading("bias_tensor", desc.bias_tensor, 1).part((first, width)).divided(0, (count, new.tensor.sizes[3]))
                bias, first = line.divided(0, (1, count)).divided(2, (1, new.tensor.sizes[3])), first + width
            operands.append(self._joined(name, earlier, new, bias))
        return operands[0], operands[1], operands[2]

    def _joined(self, name: str, earlier: Operand | None, new: Operand | None, bias: Operand | None) -> Operand:
        """The operand's earlier positions and then the new ones, plus the bias."""
        parts = [part for part in (earlier, new) if part is not None]
        if len(parts) == 1 and bias is None and not self._halves:
            return parts[0]
        batch, heads, _, size = parts[0].tensor.sizes
        present = None if self._halves else self._presents.pop(name, None)
        whole = present or self._scratch(name, (batch, heads, sum(part.tensor.sizes[2] for part in parts), size))
        first = 0
        for part in parts:
            target = whole.part((0, batch), (0, heads), (first, part.tensor.sizes[2]))
            self._before.append(copied(part, target) if bias is None or part is earlier else added(part, bias, target))
            first += part.tensor.sizes[2]
        return whole

    def _score_bias(self) -> Operand | None:
        """The addend of the scores, [batch, heads, queries, keys] with sizes of 1 where it repeats: position bias and mask."""
        bias, mask = self._desc.relative_position_bias_tensor, self._desc.mask_tensor
        if bias is None and mask is None:
            return None
        if mask is None and not self._halves:
            return without_leading("relative_position_bias_tensor", bias, 4)
        shapes = [] if bias is None else [without_leading("relative_position_bias_tensor", bias, 4).tensor.sizes]
        if mask is not None:
            shapes.append(mask_addends(self._desc, np.zeros(mask.sizes, np.int32)).shape)
        return self._scratch("bias", np.broadcast_shapes(*shapes))

    def _products(self, query: Operand, key: Operand, value: Operand, result: Operand) -> list[Step]:
        """The products of all heads, for a chunk of them at a time."""
        (batch, heads, length, _), (_, groups, keys, _) = query.tensor.sizes, key.tensor.sizes
        shared = heads // groups
        bias = None if self._bias is None else self._bias.repeated((batch, heads, length, keys))
        if shared > 1:  # heads that share keys and values are the inner dimension, and batch entries come one after the other
            of_queries = [operand.divided(1, (groups, shared)) for operand in (query, result, *([] if bias is None else [bias]))]
            of_keys = [
                operand.divided(1, (groups, 1)).repeated((batch, groups, shared, *operand.tensor.sizes[2:])) for operand in (key, value)
            ]
        else:
            of_queries = [operand.divided(0, (1, batch)) for operand in (query, result, *([] if bias is None else [bias]))]
            of_keys = [operand.divided(0, (1, batch)) for operand in (key, value)]
        entries, outer, inner = of_queries[0].tensor.sizes[:3]
        some = _divisor(inner, max(1, _SCORES // (length * keys)))
        several = _divisor(outer, max(1, _SCORES // (inner * length * keys))) if some == inner else 1
        pitch = keys if length < _MIN_ALIGNED else -(-keys * _FLOAT32.itemsize // _ALIGNMENT) * _ALIGNMENT // _FLOAT32.itemsize
        scores = self._scratch("scores", (several, some, length, pitch)).part((0, several), (0, some), (0, length), (0, keys))
        steps: list[Step] = []
        plans: list[Plan] = []
        for entry, first, head in np.ndindex(entries, outer // several, inner // some):
            ranges = (entry, 1), (first * several, several), (head * some, some)
            parts = [_without_first(operand.part(*ranges)) for operand in (*of_queries, *of_keys)]
            weighed, summed = _gemms(parts, scores, self._desc.scale)
            plans = plans or [best_plan(weighed[0]), best_plan(summed[0])]
            steps += [Step(plan, operands) for plan, (_, operands) in zip(plans, (weighed, summed), strict=True)]
        return steps

    def load(self) -> None:
        for plan in dict.fromkeys(self._plans):
            plan.load()

    def describe(self) -> str:
        weighed, summed = self._chunks[:2]
        lines = [
            f"compiled products and softmax, float32 arithmetic, {len(self._chunks) // 2} time(s)",
            f"scores: {weighed.plan.describe()}",
        ]
        return "\n".join([*lines, f"results: {summed.plan.describe()}"])

    def bind(self, tensors: Pointers, temporary: int, persistent: int | None) -> Launch:
        memories = {**tensors, **self._layout.pointers(temporary)}
        scratch = temporary + self._layout.size
        work = [step.bind(memories, scratch) for step in (*self._before, *self._chunks, *self._behind)]
        if self._bias is not None and self._bias.place == "bias":
            work.insert(0, self._bias_launch(self._bias, memories))
        if leaves_keys_out(self._desc):
            work.append(self._mending_launch(tensors))
        return in_order(work)

    def _mending_launch(self, pointers: Pointers) -> Launch:
        """Computes results anew by the definition that are NaN: products with what keys hold that a query leaves out."""
        arrays = arrays_of(self._tensors, {name: pointers[name] for name in self._tensors})
        output = arrays["output_tensor"]

        def launch(stream: int) -> None:
            is_nan = np.isnan(output)
            if is_nan.any():
                anew = np.empty_like(output)
                by_definition = WholePlan(self._desc.replace(output_present_key_tensor=None, output_present_value_tensor=None))
                by_definition.bind_arrays(arrays | {"output_tensor": anew})(stream)
                np.copyto(output, anew, where=is_nan)

        return launch

    def _bias_launch(self, bias: Operand, memories: Pointers) -> Launch:
        """Writes what is added to the scores, by NumPy: it is as large as the scores only if mask or bias are."""
        desc, names = self._desc, ("relative_position_bias_tensor", "mask_tensor")
        tensors = {name: self._tensors[name] for name in names if name in self._tensors}
        given = arrays_of(tensors, {name: memories[name] for name in tensors})
        target = arrays_of({"bias": bias.tensor}, {"bias": memories["bias"]})["bias"]
        of_positions, mask = (given.get(name) for name in names)
        if of_positions is not None:
            of_positions = of_positions.reshape((1,) * (4 - of_positions.ndim) + of_positions.shape[-4:])

        def launch(stream: int) -> None:
            with np.errstate(all="ignore"):
                target[...] = 0.0 if of_positions is None else of_positions
                if mask is not None:
                    target[...] += mask_addends(desc, mask)

        return launch


def _divisor(count: int, most: int) -> int:
    """The largest divisor of a count that is at most a number."""
    return next(divisor for divisor in range(min(count, most), 0, -1) if count % divisor == 0)


def _without_first(operand: Operand) -> Operand:
    """The operand without its first dimension, of size 1."""
    tensor = operand.tensor
    return Operand(operand.place, operand.offset, tensor.replace(sizes=tensor.sizes[1:], strides=tensor.element_strides[1:]))


def _gemms(parts: list[Operand], scores: Operand, scale: float) -> list[tuple[GEMMDesc, dict[str, Operand]]]:
    """The two products of a chunk, with their operands: query, result, perhaps the bias of the scores, key and value."""
    query, result, *bias, key, value = parts
    weighed = {"a_tensor": query, "b_tensor": key, "output_tensor": scores} | ({"c_tensor": bias[0]} if bias else {})
    summed = {"a_tensor": scores, "b_tensor": value, "output_tensor": result}
    of_scores: dict[str, Any] = {place: operand.tensor for place, operand in weighed.items()}
    of_results: dict[str, Any] = {place: operand.tensor for place, operand in summed.items()}
    softmax = ActivationSoftmax1Desc(axes=(3,))
    return [
        (GEMMDesc(**of_scores, trans_b=MatrixTransform.TRANSPOSE, alpha=scale, fused_activation=softmax), weighed),
        (GEMMDesc(**of_results), summed),
    ]
