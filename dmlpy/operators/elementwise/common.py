"""The base of the element-wise operators: their tensors, recurring support rows, and remedies where sizes differ."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import Annotated, ClassVar

from dmlpy.description.coercion import default
from dmlpy.description.descs import OperatorDesc
from dmlpy.description.markers import In, Out, TensorField
from dmlpy.description.sizes import MAX_SIZE, Sizes
from dmlpy.description.support import FLOATS, FLOATS_INTEGERS_OF_32, FLOATS_INTEGERS_TO_32, FLOATS_INTEGERS_TO_64, SupportRow
from dmlpy.description.tensors import MAX_DIMENSION_COUNT, TensorDesc
from dmlpy.description.value_structs import OptionalScaleBias

FLOATS_FROM_1_0 = (SupportRow("1_0", dims=4, T=FLOATS), SupportRow("3_0", dims=(1, 8), T=FLOATS))
FLOATS_FROM_2_0 = (SupportRow("2_0", dims=4, T=FLOATS), SupportRow("3_0", dims=(1, 8), T=FLOATS))

INTEGERS_OF_32_FROM_2_1 = (
    SupportRow("1_0", dims=4, T=FLOATS),
    SupportRow("2_1", dims=4, T=FLOATS_INTEGERS_OF_32),
    SupportRow("3_0", dims=(1, 8), T=FLOATS_INTEGERS_OF_32),
)
INTEGERS_TO_32_FROM_2_1 = (
    SupportRow("1_0", dims=4, T=FLOATS),
    SupportRow("2_1", dims=4, T=FLOATS_INTEGERS_TO_32),
    SupportRow("3_0", dims=(1, 8), T=FLOATS_INTEGERS_TO_32),
)
INTEGERS_TO_64_FROM_5_0 = (*INTEGERS_TO_32_FROM_2_1, SupportRow("5_0", dims=(1, 8), T=FLOATS_INTEGERS_TO_64))

_BY_STRIDES = "an input repeats by strides of 0, never by its sizes"


class ElementWiseDesc(OperatorDesc):
    """A function of the elements at the same place of its tensors, which have equal sizes: only strides of 0 repeat an input.

    Users of NumPy broadcasting pass size-1 dimensions, or leave them out. The sizes are then inferred from the tensors with more
    elements, and the remedy gives the strides.
    """

    def _bound_sizes(self) -> Sizes:
        symbols = super()._bound_sizes()
        inputs, outputs = self._of_equal_sizes(output=False), self._of_equal_sizes(output=True)
        given = [tensor.sizes for tensor in (*inputs.values(), *outputs.values())]
        if all(sizes == given[0] for sizes in given):
            return symbols
        target = _common_sizes([tensor.sizes for tensor in inputs.values()])
        if target is None or any(tensor.sizes != target for tensor in outputs.values()):
            return symbols
        if None in [_repeating(operand, target) for operand in inputs.values()]:
            return symbols
        whole = {name: operand.sizes for name, operand in (inputs | outputs).items() if len(operand.sizes) == len(target)}
        symbols.fix("len(sizes)", len(target), f"from {', '.join(f'{name}.sizes' for name in whole)}")
        for axis, size in enumerate(target):
            places = [f"{name}.sizes[{axis}]" for name, operand in whole.items() if operand[axis] == size]
            symbols.fix(f"sizes[{axis}]", size, f"from {', '.join(places)}")
        return symbols

    def size_remedy(self, field: TensorField, symbols: Sizes) -> str | None:
        inputs, outputs = self._of_equal_sizes(output=False), self._of_equal_sizes(output=True)
        described, wanted = (inputs | outputs).get(field.name), symbols.infer(self.terms(field))
        if described is None or wanted is None:
            return super().size_remedy(field, symbols)
        if len(described.sizes) != len(wanted) and (same := _leading_ones(described, wanted)) is not None:
            return same
        if math.prod(described.sizes) == math.prod(wanted):
            return None
        strides = _repeating(described, wanted)
        if field.name in inputs and strides is not None:
            return f"{_BY_STRIDES}: sizes {list(wanted)} and strides {list(strides)}"
        # The tensor is longer than the others, so these must change.
        target = _common_sizes([tensor.sizes for tensor in (inputs | outputs).values()])
        if target is None:
            return None
        filling = {name: _repeating(tensor, target) for name, tensor in inputs.items() if tensor.sizes != target}
        if not filling or None in filling.values():
            return None
        advice = [f"{name} with sizes {list(target)} and strides {list(strides or ())}" for name, strides in filling.items()]
        advice += [f"{name} with sizes {list(target)}" for name, tensor in outputs.items() if tensor.sizes != target]
        return f"{_BY_STRIDES}: {', '.join(advice)}"

    def _of_equal_sizes(self, *, output: bool) -> dict[str, TensorDesc]:
        """The described inputs or outputs whose sizes must be equal."""
        names = self._names_of_equal_sizes(output)
        return {name: tensor for name in names if (tensor := getattr(self, name)) is not None}

    @classmethod
    @cache
    def _names_of_equal_sizes(cls, output: bool) -> tuple[str, ...]:
        """The tensor members whose sizes must be equal."""
        return tuple(field.name for field in cls.tensor_fields() if field.marker.output == output and field.marker.pattern == "*sizes")


def _leading_ones(tensor: TensorDesc, wanted: Sequence[int]) -> str | None:
    """A remedy that describes the same elements in more or fewer dimensions; None if more than leading ones differs."""
    sizes, added = tensor.sizes, len(wanted) - len(tensor.sizes)
    if (1,) * added + sizes != (1,) * -added + tuple(wanted):
        return None
    advice = f"{'put ones in front' if added > 0 else 'leave out leading ones'}: sizes {list(wanted)}"
    if tensor.strides is None:
        return advice
    strides = (0,) * added + tensor.strides[max(0, -added) :]
    return f"{advice} and strides {list(strides)}" if len(strides) == len(wanted) else None


def _common_sizes(sizes: Sequence[Sequence[int]]) -> tuple[int, ...] | None:
    """The sizes that NumPy would broadcast to; else those of the first tensor with most dimensions; None if any is not a legal size."""
    count = max((len(tensor_sizes) for tensor_sizes in sizes), default=0)
    if not 1 <= count <= MAX_DIMENSION_COUNT or any(not 1 <= size <= MAX_SIZE for tensor_sizes in sizes for size in tensor_sizes):
        return None
    padded = [(1,) * (count - len(tensor_sizes)) + tuple(tensor_sizes) for tensor_sizes in sizes]
    largest = tuple(max(column) for column in zip(*padded, strict=True))
    if all(size in (1, most) for tensor_sizes in padded for size, most in zip(tensor_sizes, largest, strict=True)):
        return largest
    return tuple(next(tensor_sizes for tensor_sizes in sizes if len(tensor_sizes) == count))


def _repeating(tensor: TensorDesc, target: Sequence[int]) -> tuple[int, ...] | None:
    """The strides with which a tensor's elements repeat to larger sizes; None if they cannot.

    A single size that only one dimension of the larger sizes has, such as that of a bias for each channel, belongs there.
    """
    sizes, strides = tensor.sizes, tensor.element_strides
    missing = len(target) - len(sizes)
    if missing < 0 or len(strides) != len(sizes):
        return None
    if all(size in (1, most) for size, most in zip(sizes, target[missing:], strict=True)):
        return (0,) * missing + tuple(0 if size == 1 else stride for size, stride in zip(sizes, strides, strict=True))
    longer = [(size, stride) for size, stride in zip(sizes, strides, strict=True) if size > 1]
    if len(longer) == 1 and tuple(target).count(longer[0][0]) == 1:
        size, stride = longer[0]
        return tuple(stride if most == size else 0 for most in target)
    return None


class UnaryDesc(ElementWiseDesc):
    """y = f(x)."""

    in_place: ClassVar[bool] = True

    input_tensor: Annotated[TensorDesc, In("*sizes")]
    """The input x."""

    output_tensor: Annotated[TensorDesc | None, Out("*sizes", required=True)] = None
    """The result y. It may have the memory of the input."""

    def size_remedy(self, field: TensorField, symbols: Sizes) -> str | None:
        return super().size_remedy(field, symbols) or self._moved()

    def _moved(self) -> str | None:
        """A remedy that transposes or reshapes without an operator, if the elements are the input's in other sizes."""
        input_tensor, out = self.input_tensor, self.output_tensor
        if out is None or out.sizes == input_tensor.sizes or math.prod(out.sizes) != math.prod(input_tensor.sizes):
            return None
        longer = [size for size in input_tensor.sizes if size > 1]
        if [size for size in out.sizes if size > 1] == longer or sorted(longer) != sorted(size for size in out.sizes if size > 1):
            return f"a reshape needs no operator: keep the sizes here, and describe the packed output as {list(out.sizes)} where it is read"
        if len(set(longer)) < len(longer) or len(input_tensor.element_strides) != len(input_tensor.sizes):
            return None
        steps = dict(zip(input_tensor.sizes, input_tensor.element_strides, strict=True))
        strides = [steps[size] if size > 1 else 0 for size in out.sizes]
        return f"to transpose, describe the input in the output's order: sizes {list(out.sizes)}, strides {strides}"


class ScaledInputDesc(OperatorDesc):
    """A function of x * scale + bias."""

    scale_bias: OptionalScaleBias = default(None)
    """The scale and bias of x, which is first replaced by x * scale + bias. If absent, x is unchanged. How DirectML rounds integers then is
    not documented: here toward zero, and the result is held within the range of the type.
    """


class ScaledDesc(ScaledInputDesc, UnaryDesc):
    """y = f(x * scale + bias)."""


class BinaryDesc(ElementWiseDesc):
    """y = f(a, b)."""

    in_place: ClassVar[bool] = True

    a_tensor: Annotated[TensorDesc, In("*sizes")]
    """The first operand a. Strides of 0 repeat it."""

    b_tensor: Annotated[TensorDesc, In("*sizes")]
    """The second operand b. Strides of 0 repeat it."""

    output_tensor: Annotated[TensorDesc | None, Out("*sizes", required=True)] = None
    """The result y. It may have the memory of either input."""
