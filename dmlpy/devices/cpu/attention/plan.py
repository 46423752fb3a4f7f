"""The plan of attention: products of matrices and softmax, for as many heads at a time as have scores that stay in a cache."""

from __future__ import annotations

from typing import Any

import numpy as np

from dmlpy.description.enums import DataType, MatrixTransform
from dmlpy.devices.cpu.attention.parts import Operand, Step, added, copied, heads_of, operand_of, packed, without_leading
from dmlpy.devices.cpu.plans import best_plan
from dmlpy.devices.plan import Launch, Layout, Plan, PlanWithoutConstants, Pointers, arrays_of, in_order
from dmlpy.operators.activation import ActivationSoftmax1Desc
from dmlpy.operators.matrix import GEMMDesc
from dmlpy.reference.attention import mask_addends

_ALIGNMENT = 64
_SCORES = 1 << 17
"""Scores that are computed at a time, at most, if those of a head are not more: they stay in the second-level cache."""
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
        """Where keys and values are still to be stored."""
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
        desc, found, first = self._desc, [], 0
        for name, count in (("query", heads), ("key", groups), ("value", groups)):
            new, past = operand_of(desc, name, count), getattr(desc, f"past_{name}_tensor", None)
            earlier = None if past is None else without_leading(f"past_{name}_tensor", past, 4)
            bias = None
            if new is not None and desc.bias_tensor is not None:
                width = count * new.tensor.sizes[3]
                line = without_leading("bias_tensor", desc.bias_tensor, 1).part((first, width)).divided(0, (count, new.tensor.sizes[3]))
                bias, first = line.divided(0, (1, count)).divided(2, (1, new.tensor.sizes[3])), first + width
            found.append(self._joined(name, earlier, new, bias))
        return found[0], found[1], found[2]

    def _joined(self, name: str, earlier: Operand | None, new: Operand | None, bias: Operand | None) -> Operand:
        """The operand's earlier positions and then the new ones, plus the bias."""
        parts = [own for own in (earlier, new) if own is not None]
        if len(parts) == 1 and bias is None and not self._halves:
            return parts[0]
        batch, heads, _, size = parts[0].tensor.sizes
        present = None if self._halves else self._presents.pop(name, None)
        whole = present or self._scratch(name, (batch, heads, sum(own.tensor.sizes[2] for own in parts), size))
        first = 0
        for own in parts:
            target = whole.part((0, batch), (0, heads), (first, own.tensor.sizes[2]))
            self._before.append(copied(own, target) if bias is None or own is earlier else added(own, bias, target))
            first += own.tensor.sizes[2]
        return whole

    def _score_bias(self) -> Operand | None:
        """What is added to the scores, [batch, heads, queries, keys] with sizes of 1 where it repeats: position bias and mask."""
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
            own = [operand.divided(1, (groups, shared)) for operand in (query, result, *([] if bias is None else [bias]))]
            of_keys = [
                operand.divided(1, (groups, 1)).repeated((batch, groups, shared, *operand.tensor.sizes[2:])) for operand in (key, value)
            ]
        else:
            own = [operand.divided(0, (1, batch)) for operand in (query, result, *([] if bias is None else [bias]))]
            of_keys = [operand.divided(0, (1, batch)) for operand in (key, value)]
        entries, outer, inner = own[0].tensor.sizes[:3]
        some = _divisor(inner, max(1, _SCORES // (length * keys)))
        several = _divisor(outer, max(1, _SCORES // (inner * length * keys))) if some == inner else 1
        scores = self._scratch("scores", (several, some, length, keys))
        found: list[Step] = []
        plans: list[Plan] = []
        for entry, first, head in np.ndindex(entries, outer // several, inner // some):
            ranges = (entry, 1), (first * several, several), (head * some, some)
            parts = [_without_first(operand.part(*ranges)) for operand in (*own, *of_keys)]
            weighed, summed = _gemms(parts, scores, self._desc.scale)
            plans = plans or [best_plan(weighed[0]), best_plan(summed[0])]
            found += [Step(plan, operands) for plan, (_, operands) in zip(plans, (weighed, summed), strict=True)]
        return found

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
        return in_order(work)

    def _bias_launch(self, bias: Operand, memories: Pointers) -> Launch:
        """Writes what is added to the scores, by NumPy: it is as large as the scores only if mask or bias are."""
        desc, names = self._desc, ("relative_position_bias_tensor", "mask_tensor")
        own = {name: self._tensors[name] for name in names if name in self._tensors}
        given = arrays_of(own, {name: memories[name] for name in own})
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
    return next(own for own in range(min(count, most), 0, -1) if count % own == 0)


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
