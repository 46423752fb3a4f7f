"""Operators that read or write elements by index: gather and scatter, one-hot, the coordinates of non-zero elements.

DirectML does not define what an index out of range does, nor which of several updates of one element is written. Each class says what dmlpy
does, on every device.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, ClassVar

from dmlpy.description.coercion import After, Uint
from dmlpy.description.descs import OperatorDesc
from dmlpy.description.enums import FeatureLevel
from dmlpy.description.markers import In, Limits, Out, Slot, TensorField, Violation, derived, rule
from dmlpy.description.sizes import Derived, Explained, Sizes, Term, UnboundSymbolError
from dmlpy.description.support import ALL_BUT_4_BITS, FLOATS, FLOATS_INTEGERS_TO_32, INTEGERS_32_AND_64, UINT32, SupportRow
from dmlpy.description.tensors import MAX_DIMENSION_COUNT, TensorDesc
from dmlpy.messages.naming import plural
from dmlpy.operators.along_axis import AlongAxisDesc

FROM_3_0 = (
    SupportRow("3_0", dims=(1, 8), T=FLOATS_INTEGERS_TO_32, I=INTEGERS_32_AND_64),
    SupportRow("4_1", dims=(1, 8), T=ALL_BUT_4_BITS, I=INTEGERS_32_AND_64),
)
FROM_2_1 = (SupportRow("2_1", dims=4, T=FLOATS_INTEGERS_TO_32, I=UINT32), *FROM_3_0)
FROM_1_0 = (SupportRow("1_0", dims=4, T=FLOATS, I=UINT32), *FROM_2_1)


def _of_rank(sizes: Sequence[int], dimension_count: int) -> tuple[int, ...]:
    """A tensor's sizes, as a run of this many dimensions."""
    return (*sizes[:dimension_count], *(1 for _ in range(dimension_count - len(sizes))))


class PickDesc(OperatorDesc):
    """The base of operators whose indices pick blocks of a tensor, so that the result's rank is the sum of its rank and theirs.

    All tensors have one dimension count; where there are fewer actual dimensions, those in front are padding of size 1.
    """

    counted: ClassVar[Mapping[str, str]] = {}
    """The attributes that give the number of actual dimensions of a tensor, each with the tensor."""

    fewest: ClassVar[int] = 1
    """The least value of these attributes."""

    input_tensor: Annotated[TensorDesc, In("*sizes")]
    """The tensor that the indices point into."""

    indices_tensor: Annotated[TensorDesc, In("*indices", "I")]
    """The indices."""

    @abstractmethod
    def picked(self, symbols: Sizes) -> list[Explained]:
        """The sizes of the picked blocks, each with the place that it comes from, not padded.

        Raises:
            UnboundSymbolError: the attributes make no sense, or the tensors have no common dimension count.
        """

    def too_many(self, excess: Sequence[Explained]) -> int:
        """The number of leading sizes without a dimension that must not be dropped."""
        return len(excess)

    def padded(self, symbols: Sizes) -> Sequence[Derived]:
        """`picked`, with leading ones up to the common dimension count; raises as it does, and where padding dimensions are not 1."""
        dimension_count, sizes = symbols["len(sizes)"], self.picked(symbols)
        excess = max(len(sizes) - dimension_count, 0)
        if any(self._wrong_padding(attribute) for attribute in self.counted):
            raise UnboundSymbolError("picked")  # `padding_dimensions` reports it
        if self.too_many(sizes[:excess]):
            raise UnboundSymbolError("picked")
        return [Explained(1, "a leading one")] * (dimension_count - len(sizes)) + sizes[excess:]

    def common_dimension_count(self, symbols: Sizes) -> int:
        """The dimension count of input and indices.

        Raises:
            UnboundSymbolError: they have none in common.
        """
        dimension_count = symbols["len(sizes)"]
        if not len(self.input_tensor.sizes) == len(self.indices_tensor.sizes) == dimension_count:
            raise UnboundSymbolError("len(sizes)")
        return dimension_count

    @derived("any sizes, in as many dimensions as input_tensor has")
    def indices(self, symbols: Sizes) -> Sequence[Derived]:
        return _of_rank(self.indices_tensor.sizes, symbols["len(sizes)"])

    def size_remedy(self, field: TensorField, symbols: Sizes) -> str | None:
        tensors = {slot.field.name: slot.tensor.sizes for slot in self.slots() if slot.tensor is not None}
        actual, most = tensors.pop(field.name, ()), max(map(len, tensors.values()), default=0)
        if not len(actual) < most <= MAX_DIMENSION_COUNT:
            excess = len(actual) - most
            if excess > 0 and math.prod(actual[:excess]) == 1:
                return f"leave out leading ones: sizes {[*actual[excess:]]}"
            low = [name for name, sizes in tensors.items() if len(sizes) < len(actual)]
            return f"put ones in front of the sizes of {' and '.join(low)}, for {plural(len(actual), 'dimension')}" if low else None
        return f"put ones in front: sizes {[*(1,) * (most - len(actual)), *actual]}"

    @rule("no more dimensions are actual than a tensor has")
    def dimension_count_range(self, symbols: Sizes, level: FeatureLevel) -> Iterable[Violation]:
        for attribute, name in self.counted.items():
            value, dimension_count = getattr(self, attribute), len(getattr(self, name).sizes)
            if value > dimension_count:
                yield Violation(
                    attribute, str(value), f"at most {dimension_count}", (f"{name} has {plural(dimension_count, 'dimension')}",)
                )

    def _wrong_padding(self, attribute: str) -> list[int]:
        """A tensor's dimensions, in front of the actual ones that an attribute counts, whose size is not 1."""
        value, sizes = getattr(self, attribute), getattr(self, self.counted[attribute]).sizes
        if not self.fewest <= value <= len(sizes):
            return []  # already reported
        return [axis for axis, size in enumerate(sizes[: len(sizes) - value]) if size > 1]

    @rule("dimensions in front of the actual ones are 1")
    def padding_dimensions(self, symbols: Sizes, level: FeatureLevel) -> Iterable[Violation]:
        for attribute, name in self.counted.items():
            value, sizes = getattr(self, attribute), getattr(self, name).sizes
            wrong = self._wrong_padding(attribute)
            for axis in wrong:
                why = (f"{attribute} is {value}: dimensions before the last {value} are padding",)
                remedy = f"with {attribute}={len(sizes) - wrong[0]} it would count"
                yield Violation(f"{name}.sizes[{axis}]", str(sizes[axis]), "1", why, remedy)

    @rule("the picked blocks have no more dimensions than the tensors")
    def picked_dimensions(self, symbols: Sizes, level: FeatureLevel) -> Iterable[Violation]:
        dimension_count, sizes = symbols["len(sizes)"], self.picked(symbols)
        too_many = self.too_many(sizes[: max(len(sizes) - dimension_count, 0)])
        if not too_many:
            return
        attribute = next(name for name, tensor in self.counted.items() if tensor == "indices_tensor")
        value, needed = getattr(self, attribute), dimension_count + too_many
        why = (f"the picked blocks have the sizes {[size.value for size in sizes[-needed:]]}", symbols.why("len(sizes)"))
        remedy = f"put ones in front of the sizes of every tensor, for {needed} dimensions" if needed <= MAX_DIMENSION_COUNT else None
        yield Violation(attribute, str(value), f"at most {value - too_many}", why, remedy)


class GatherDesc(PickDesc, dml="GATHER"):
    """DML_GATHER_OPERATOR_DESC: picks slices of a tensor along an axis, one for each index.

    The output's sizes are the input's with those of the actual indices in place of the axis. All tensors have one dimension count, so
    leading ones are added, or those of the input left out. Of signed types, a negative index counts from the end. An index out of range
    reads some element of the input; here the nearest along the axis.
    """

    formula = "output[p..., i..., s...] = input[p..., indices[i...], s...], p the coordinates before axis, s those after it"
    support = FROM_1_0
    counted = {"index_dimensions": "indices_tensor"}
    fewest = 0

    output_tensor: Annotated[TensorDesc | None, Out("*gathered", required=True)] = None
    """The slices."""

    axis: Annotated[Uint, Limits(axis_of="sizes")]
    """The dimension of the input that is indexed."""

    index_dimensions: Uint
    """How many dimensions of the indices are actual, 0 for a single index. The dimensions before them have size 1."""

    @derived("sizes up to axis, the last index_dimensions of indices, sizes after axis; leading ones added or left out to fit")
    def gathered(self, symbols: Sizes) -> Sequence[Derived]:
        return self.padded(symbols)

    def picked(self, symbols: Sizes) -> list[Explained]:
        dimension_count = self.common_dimension_count(symbols)
        if not (0 <= self.axis < dimension_count and 0 <= self.index_dimensions <= dimension_count):
            raise UnboundSymbolError("axis")
        of_input = [Explained(size, f"input_tensor.sizes[{axis}]") for axis, size in enumerate(symbols.run("sizes"))]
        of_indices = [Explained(size, f"indices_tensor.sizes[{axis}]") for axis, size in enumerate(self.indices_tensor.sizes)]
        return [*of_input[: self.axis], *of_indices[dimension_count - self.index_dimensions :], *of_input[self.axis + 1 :]]

    def too_many(self, excess: Sequence[Explained]) -> int:
        return next((len(excess) - axis for axis, size in enumerate(excess) if size.value != 1), 0)

    def size_remedy(self, field: TensorField, symbols: Sizes) -> str | None:
        remedy, dimension_count = super().size_remedy(field, symbols), len(self.input_tensor.sizes)
        if remedy is not None:
            missing = max(len(tensor.sizes) for tensor in self.tensors().values()) - dimension_count
            return f"{remedy}, and add {missing} to axis" if "input_tensor" in remedy else remedy
        if field.name != "output_tensor" or self.output_tensor is None:
            return None
        fitting = [axis for axis in range(dimension_count) if self._sizes_along(axis) == self.output_tensor.sizes]
        return f"with axis={fitting[0]} these would be the sizes" if len(fitting) == 1 and fitting[0] != self.axis else None

    def _sizes_along(self, axis: int) -> tuple[int, ...] | None:
        """The output's sizes if this were the axis; None if there are too few dimensions for them."""
        sizes, indices = self.input_tensor.sizes, self.indices_tensor.sizes
        picked = (*sizes[:axis], *indices[len(indices) - self.index_dimensions :], *sizes[axis + 1 :])
        excess = len(picked) - len(sizes)
        if excess <= 0:
            return (1,) * -excess + picked
        return picked[excess:] if math.prod(picked[:excess]) == 1 else None


class GatherElementsDesc(AlongAxisDesc, dml="GATHER_ELEMENTS"):
    """DML_GATHER_ELEMENTS_OPERATOR_DESC: picks single elements along an axis, one for each index.

    Of signed types, a negative index counts from the end. An index out of range is not defined by the reference; here it reads the nearest
    element along the axis.
    """

    formula = "output[c] = input[c with indices[c] along axis]"
    support = FROM_2_1
    along_axis = {"indices_tensor": "index_count", "output_tensor": "index_count"}

    input_tensor: Annotated[TensorDesc, In("*sizes"), After()]
    """The tensor that is read."""

    indices_tensor: Annotated[TensorDesc, In("*indices", "I")]
    """The index along axis of each element that is read."""

    output_tensor: Annotated[TensorDesc | None, Out("*indices", required=True)] = None
    """The elements that are read."""

    @derived("sizes, but any length along axis")
    def indices(self, symbols: Sizes) -> Sequence[Derived]:
        return self.with_along_axis(symbols, symbols["index_count"])

    def inferred_sizes(self, field: TensorField) -> tuple[int, ...] | None:
        sizes = super().inferred_sizes(field)
        # Indices of other sizes than the input's are wrong; the output takes their sizes anyway, so that `check` blames only them.
        return sizes and self.indices_tensor.sizes


class PickNDDesc(PickDesc):
    """The base of GATHER_ND, GATHER_ND1 and SCATTER_ND: the indices' last dimension holds tuples, which point into the input."""

    counted = {"input_dimension_count": "input_tensor", "indices_dimension_count": "indices_tensor"}

    batch: ClassVar[str | None] = None
    """The attribute that counts batch dimensions, which the tuples do not index."""

    indices_tensor: Annotated[TensorDesc, In("*indices", "I")]
    """The tuples of indices, along the last dimension. The dimensions before the last indices_dimension_count have size 1."""

    input_dimension_count: Annotated[Uint, Limits(least=1)]
    """How many dimensions of the input are actual. The dimensions before them have size 1."""

    indices_dimension_count: Annotated[Uint, Limits(least=1)]
    """How many dimensions of the indices are actual."""

    @property
    def batch_dimensions(self) -> int:
        """The number of leading dimensions that input and indices have in common."""
        return 0 if self.batch is None else int(getattr(self, self.batch))

    def _counts(self, dimension_count: int) -> tuple[int, int, int]:
        """The numbers of actual dimensions of input and indices, and of batch dimensions among them.

        Raises:
            UnboundSymbolError: they make no sense.
        """
        counts = self.input_dimension_count, self.indices_dimension_count, self.batch_dimensions
        if not (0 <= counts[2] < min(counts[:2]) and max(counts[:2]) <= dimension_count):
            raise UnboundSymbolError("input_dimension_count")
        return counts

    def aligned(self, slot: Slot, dimension_count: int) -> tuple[Term, ...] | None:
        terms = super().aligned(slot, dimension_count)
        if terms is None or slot.field.name not in ("indices_tensor", "output_tensor") or not self.batch_dimensions:
            return terms
        try:
            of_input, of_indices, batch = self._counts(dimension_count)
        except UnboundSymbolError:
            return terms
        shared = tuple(Term(1, f"sizes[{dimension_count - of_input + axis}]") for axis in range(batch))
        actual = of_indices
        if slot.field.name == "output_tensor":  # the batch comes first among the picked sizes
            tuple_size = (self.indices_tensor.sizes or (0,))[-1]
            actual = of_indices - 1 + of_input - batch - tuple_size
            if not 1 <= tuple_size <= of_input - batch or actual > dimension_count:
                return terms
        start = dimension_count - actual
        return (*terms[:start], *shared, *terms[start + batch :])

    def picked(self, symbols: Sizes) -> list[Explained]:
        dimension_count = self.common_dimension_count(symbols)
        of_input, of_indices, batch = self._counts(dimension_count)
        sizes, indices = symbols.run("sizes"), self.indices_tensor.sizes
        shared = range(dimension_count - of_input, dimension_count - of_input + batch)
        tuples = range(dimension_count - of_indices + batch, dimension_count - 1)
        if not 1 <= indices[-1] <= of_input - batch:
            raise UnboundSymbolError("indices_tensor")
        blocks = range(dimension_count - of_input + batch + indices[-1], dimension_count)
        return [
            *(Explained(sizes[axis], symbols.why(f"sizes[{axis}]").partition(": ")[2]) for axis in shared),
            *(Explained(indices[axis], f"indices_tensor.sizes[{axis}]") for axis in tuples),
            *(Explained(sizes[axis], f"input_tensor.sizes[{axis}]") for axis in blocks),
        ]

    @rule("a tuple of indices has no more of them than the input has dimensions to index")
    def tuple_size(self, symbols: Sizes, level: FeatureLevel) -> Iterable[Violation]:
        dimension_count = self.common_dimension_count(symbols)
        of_input, _, batch = self._counts(dimension_count)
        size = self.indices_tensor.sizes[-1]
        if size > of_input - batch:
            minus = f" - {batch} of the batch" if batch else ""
            why = (f"the last dimension holds tuples, which index {plural(of_input, 'dimension')}{minus} of input_tensor",)
            yield Violation(f"indices_tensor.sizes[{dimension_count - 1}]", str(size), f"1 to {of_input - batch}", why)


class GatherNDDesc(PickNDDesc, dml="GATHER_ND"):
    """DML_GATHER_ND_OPERATOR_DESC: picks blocks of a tensor, one for each tuple of indices.

    The last dimension of the indices holds tuples; each indexes the first actual dimensions of the input and selects the elements there.
    The output's sizes are those of the actual indices but the last, then those of a block, with ones in front. Of signed types, a negative
    index counts from the end. An index out of range is not defined by the reference; here the nearest in its dimension is read.
    """

    formula = "output[i..., s...] = input[indices[i..., 0], indices[i..., 1], ..., s...]"
    support = FROM_2_1

    output_tensor: Annotated[TensorDesc | None, Out("*gathered", required=True), After("indices_tensor")] = None
    """The blocks."""

    @derived("leading ones, the actual sizes of indices but the last, those of the input that no tuple indexes")
    def gathered(self, symbols: Sizes) -> Sequence[Derived]:
        return self.padded(symbols)


class GatherND1Desc(PickNDDesc, dml="GATHER_ND1"):
    """DML_GATHER_ND1_OPERATOR_DESC: picks blocks of a tensor, one for each tuple of indices, for each entry of a batch.

    The last dimension of the indices holds tuples; each indexes the actual dimensions of the input after those of the batch and picks what
    lies there. The output's sizes are those of the actual indices but the last, then those of a block, with ones in front. Of signed
    types, a negative index counts from the end. An index out of range is not defined by the reference; here the nearest in its dimension is
    read.
    """

    formula = "output[b..., i..., s...] = input[b..., indices[b..., i..., 0], indices[b..., i..., 1], ..., s...]"
    support = FROM_3_0
    batch = "batch_dimension_count"

    output_tensor: Annotated[TensorDesc | None, Out("*gathered", required=True), After("indices_tensor")] = None
    """The blocks of each batch entry."""

    batch_dimension_count: Annotated[Uint, After("indices_dimension_count")]
    """How many of the first actual dimensions of input and indices are a batch. With 0 there is none."""

    @derived("leading ones, the actual sizes of indices but the last, those of the input that no tuple indexes")
    def gathered(self, symbols: Sizes) -> Sequence[Derived]:
        return self.padded(symbols)

    @rule("the batch dimensions leave a dimension of the input to index, and one of the indices for tuples")
    def batch_dimension_range(self, symbols: Sizes, level: FeatureLevel) -> Iterable[Violation]:
        least = min(self.input_dimension_count, self.indices_dimension_count)
        if self.batch_dimension_count >= least > 0:
            why = (f"input_dimension_count is {self.input_dimension_count}, indices_dimension_count {self.indices_dimension_count}",)
            yield Violation("batch_dimension_count", str(self.batch_dimension_count), f"0 to {least - 1}", why)


class NonzeroCoordinatesDesc(OperatorDesc, dml="NONZERO_COORDINATES"):
    """DML_NONZERO_COORDINATES_OPERATOR_DESC: the coordinates of all non-zero elements, in row-major order.

    What the coordinates hold behind the last that is counted is not defined; here zeros. The dimension counts of the three tensors are
    their own.
    """

    formula = "output_coordinates[k] = coordinates of the k-th element of input that is not 0, for k < output_count"
    support = (
        SupportRow("3_0", dims=(4, 5), T=FLOATS_INTEGERS_TO_32),
        SupportRow("4_0", dims=(1, 8), dims_of={"output_coordinates_tensor": (2, 8)}, T=FLOATS_INTEGERS_TO_32),
    )

    input_tensor: Annotated[TensorDesc, In("*sizes")]
    """The tensor that is searched. +0 and -0 are zero, NaN is not."""

    output_count_tensor: Annotated[TensorDesc | None, Out("*ones", UINT32, required=True)] = None
    """How many elements are not zero."""

    output_coordinates_tensor: Annotated[
        TensorDesc | None, Out("*leading_ones input_element_count coordinate_size", UINT32, required=True)
    ] = None
    """A row of coordinates for each element of the input. A row may leave out the coordinates of leading dimensions of size 1."""

    @derived("1 in each dimension")
    def ones(self, symbols: Sizes) -> Sequence[Derived]:
        return [1] * (len(self.output_count_tensor.sizes) if self.output_count_tensor is not None else symbols["len(sizes)"])

    @derived("1 in each dimension before the last two")
    def leading_ones(self, symbols: Sizes) -> Sequence[Derived]:
        tensor = self.output_coordinates_tensor
        return [1] * ((len(tensor.sizes) if tensor is not None else symbols["len(sizes)"]) - 2)

    @derived("the product of sizes")
    def input_element_count(self, symbols: Sizes) -> Derived:
        sizes = symbols.run("sizes")
        return Explained(math.prod(sizes), " * ".join(map(str, sizes)))

    @derived("len(sizes), or less by leading ones")
    def coordinate_size(self, symbols: Sizes) -> Derived:
        if self.output_coordinates_tensor is not None:
            raise UnboundSymbolError("coordinate_size")  # a range of sizes is right
        return symbols["len(sizes)"]

    @rule("a row holds as many coordinates as the input has dimensions, without some or all leading ones")
    def coordinate_range(self, symbols: Sizes, level: FeatureLevel) -> Iterable[Violation]:
        tensor, sizes = self.output_coordinates_tensor, symbols.run("sizes")
        effective = next((len(sizes) - axis for axis, size in enumerate(sizes) if size != 1), 0)
        least = max(effective, 1)
        if tensor is not None and len(tensor.sizes) >= 2 and not least <= tensor.sizes[-1] <= len(sizes):
            expected = f"{least} to {len(sizes)}" if least < len(sizes) else str(least)
            why = (f"input_tensor has {plural(len(sizes), 'dimension')}, {effective} without leading ones",)
            remedy = self._order_remedy(tensor, symbols)
            yield Violation(f"output_coordinates_tensor.sizes[{len(tensor.sizes) - 1}]", str(tensor.sizes[-1]), expected, why, remedy)

    def size_remedy(self, field: TensorField, symbols: Sizes) -> str | None:
        tensor = self.output_coordinates_tensor
        return self._order_remedy(tensor, symbols) if tensor is not None and field.name == "output_coordinates_tensor" else None

    def _order_remedy(self, tensor: TensorDesc, symbols: Sizes) -> str | None:
        sizes = [*tensor.sizes[:-2], *reversed(tensor.sizes[-2:])]
        if sizes == [*(1,) * (len(sizes) - 2), symbols.get("input_element_count"), symbols.get("len(sizes)")]:
            return f"each row belongs to one element, unlike in ONNX's NonZero: sizes {sizes}"
        return None


class OneHotDesc(AlongAxisDesc, dml="ONE_HOT"):
    """DML_ONE_HOT_OPERATOR_DESC: sequences along an axis that hold one value at an index, and another value elsewhere.

    An index out of range leaves its sequence without the value. Of signed types, a negative index counts from the end. The reference
    demands one dimension count of all tensors; that of the values is not checked, as ONNX Runtime always gives them four dimensions.
    """

    formula = "output[c] = values[1] where c along axis is indices[c with 0 along axis], else values[0]"
    support = (
        SupportRow("2_0", dims=4, T=FLOATS, I=UINT32),
        SupportRow("2_1", dims=4, T=FLOATS_INTEGERS_TO_32, I=UINT32),
        SupportRow("3_0", dims=(1, 8), T=FLOATS_INTEGERS_TO_32, I=INTEGERS_32_AND_64),
        SupportRow("4_1", dims=(1, 8), T=ALL_BUT_4_BITS, I=INTEGERS_32_AND_64),
    )
    along_axis = {"indices_tensor": "1"}

    indices_tensor: Annotated[TensorDesc, In("*indices", "I"), After()]
    """The place of the value in each sequence."""

    values_tensor: Annotated[TensorDesc, In("*values")]
    """The value of the other elements, then the value itself, in any number of dimensions. Further elements are not used."""

    output_tensor: Annotated[TensorDesc, Out("*sizes")]
    """The sequences. No other member determines their length."""

    @derived("sizes, but 1 along axis")
    def indices(self, symbols: Sizes) -> Sequence[Derived]:
        return self.with_along_axis(symbols, 1)

    @rule("there are two values at least: that of the other elements, then that of the index")
    def values_count(self, symbols: Sizes, level: FeatureLevel) -> Iterable[Violation]:
        count = math.prod(self.values_tensor.sizes)
        if count < 2:
            why = ("the first is what most elements hold, the second what the indices set",)
            yield Violation("values_tensor.sizes", plural(count, "element"), "at least 2 elements", why)


class ScatterDesc(AlongAxisDesc, dml="SCATTER"):
    """DML_SCATTER_OPERATOR_DESC: copies a tensor and replaces single elements along an axis, one for each index.

    Two indices of one element are invalid: which of them wins is not defined; here the last in row-major order. Of signed types, a negative
    index counts from the end. An index out of range is not defined either; here it writes nothing. The header also calls the operator
    DML_OPERATOR_SCATTER_ELEMENTS. Its page has types for feature level 1_0, but 2_0 brought it.
    """

    formula = "output = input, then output[c with indices[c] along axis] = updates[c]"
    support = FROM_1_0
    since = "2_0"
    along_axis = {"indices_tensor": "index_count", "updates_tensor": "index_count"}

    input_tensor: Annotated[TensorDesc, In("*sizes"), After()]
    """The tensor that is copied."""

    indices_tensor: Annotated[TensorDesc, In("*indices", "I")]
    """The index along axis of the element that each update replaces."""

    updates_tensor: Annotated[TensorDesc, In("*indices")]
    """The elements that are written."""

    output_tensor: Annotated[TensorDesc | None, Out("*sizes", required=True)] = None
    """The copy with its elements replaced."""

    @derived("sizes, but any length along axis")
    def indices(self, symbols: Sizes) -> Sequence[Derived]:
        return self.with_along_axis(symbols, symbols["index_count"])


class ScatterNDDesc(PickNDDesc, dml="SCATTER_ND"):
    """DML_SCATTER_ND_OPERATOR_DESC: copies a tensor and replaces blocks of it, one for each tuple of indices.

    The last dimension of the indices holds tuples; each indexes the first actual dimensions of the input and replaces the elements there.
    Two tuples of one place are invalid: which of them wins is not defined; here the last in row-major order. Of signed types, a negative
    index counts from the end. An index out of range is not defined by the reference; here its tuple writes nothing.
    """

    formula = "output = input, then output[indices[i..., 0], indices[i..., 1], ..., s...] = updates[i..., s...]"
    support = FROM_2_1

    updates_tensor: Annotated[TensorDesc, In("*updates"), After("indices_tensor")]
    """The blocks that are written."""

    output_tensor: Annotated[TensorDesc | None, Out("*sizes", required=True)] = None
    """The copy with its blocks replaced."""

    @derived("leading ones, the actual sizes of indices but the last, those of the input that no tuple indexes")
    def updates(self, symbols: Sizes) -> Sequence[Derived]:
        return self.padded(symbols)
