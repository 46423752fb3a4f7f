"""`TensorDesc`: the layout of a tensor in memory. It owns no memory."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import product
from typing import Annotated, Any, ClassVar

import numpy as np
from pydantic import AfterValidator

from dmlpy.description.coercion import OptionalUint, OptionalUints, Spelled, SpelledType, Uint, Uints, as_uint, brief, default
from dmlpy.description.enums import DataType, TensorFlags, TensorType
from dmlpy.description.json_objects import unwrap
from dmlpy.description.structs import Struct
from dmlpy.description.symbolic_sizes import SymbolicSize
from dmlpy.messages.naming import listed, plural, with_article
from dmlpy.messages.problems import DescError, Problem

MAX_DIMENSION_COUNT = 8
MAX_ELEMENTS = 2**32 - 1
MAX_UINT32 = 2**32 - 1
MINIMUM_BUFFER_ALIGNMENT = 16
_EXACT_OVERLAP_LIMIT = 4096
_MOST_MERGED = 64
"""The most dimensions of an oversized tensor for which a message suggests an equivalent shape."""


def packed_strides(sizes: Sequence[int]) -> tuple[int, ...]:
    """The strides, in elements, of a packed tensor: without gaps, with the last dimension contiguous."""
    strides = [1] * len(sizes)
    for axis in range(len(sizes) - 2, -1, -1):
        strides[axis] = strides[axis + 1] * sizes[axis + 1]
    return tuple(strides)


class TensorDesc(Struct):
    """DML_BUFFER_TENSOR_DESC, the only kind that DML_TENSOR_DESC can hold."""

    c_name: ClassVar[str] = "DML_BUFFER_TENSOR_DESC"
    c_counts: ClassVar[Mapping[str, str]] = {"DimensionCount": "sizes"}
    _sample: ClassVar[Mapping[str, Any]] = {"data_type": "FLOAT32", "sizes": [2, 3]}

    # DxDispatch and directml.h write empty strides for packed, and size 0 for one to compute: one meaning, one value, so that equal descs
    # are equal.
    data_type: SpelledType
    """The type of the elements."""

    sizes: Uints
    """The elements along each of 1 to 8 dimensions."""

    strides: Annotated[OptionalUints, AfterValidator(lambda strides: strides or None)] = default(None)
    """The elements from one entry to the next along each dimension. 0 repeats an entry (broadcast). If absent, the tensor is packed."""

    flags: Spelled[TensorFlags] = default(TensorFlags.NONE)
    """OWNED_BY_DML for an input that the operator takes over at initialisation."""

    total_tensor_size_in_bytes: Annotated[OptionalUint, AfterValidator(lambda size: size or None)] = default(None)
    """The bytes of the buffer. None and 0 stand for the fewest that hold the tensor."""

    guaranteed_base_offset_alignment: Uint = default(0)
    """A number of bytes that the tensor's address is promised to be a multiple of. 0 promises nothing."""

    @classmethod
    def of(cls, array: Any, *, dimension_count: int | None = None) -> TensorDesc:
        """The desc of an existing array: NumPy's, CuPy's, or any object with `__cuda_array_interface__` or `__dlpack__`.

        Args:
            array: its type, sizes and strides are taken as they are; packed arrays get no explicit strides.
            dimension_count: dimensions of the desc; leading dimensions of size 1 are added as needed.

        Raises:
            DescError: DirectML has no such element type, a stride is negative or no multiple of the element, or the
                array has more dimensions than asked for.
        """
        from dmlpy.description.arrays import is_convertible, layout_of

        try:
            shape, strides, dtype = layout_of(array)
        except TypeError as error:
            found, remedy = with_article(type(array).__name__), None
            if is_convertible(array):
                remedy = "make it an array: numpy.asarray(..., numpy.float32)"
            raise DescError("TensorDesc.of", [Problem("array.kind", "", found, "an array", (str(error),), remedy)]) from None
        problems = []
        data_type = DataType.UNKNOWN
        try:
            data_type = DataType.of(dtype)
        except TypeError as error:
            remedy = "describe and pass array.view(numpy.uint8)" if dtype == np.bool_ else None
            if not dtype.isnative:
                remedy = "swap its bytes: array.astype(array.dtype.newbyteorder('='))"
            problems.append(Problem("array.type", "data_type", str(dtype), "a type that DirectML has", (str(error),), remedy))
        if any(stride < 0 or stride % max(1, dtype.itemsize) for stride in strides):
            expected = f"non-negative multiples of the element's {dtype.itemsize} bytes"
            remedy = "pass a contiguous copy (numpy.ascontiguousarray)"
            problems.append(Problem("array.strides", "strides", f"{strides} bytes", expected, remedy=remedy))
        missing = 0
        try:
            missing = 0 if dimension_count is None else as_uint(dimension_count) - len(shape)
        except ValueError as error:
            problems.append(Problem("field.form", "dimension_count", brief(dimension_count), str(error)))
        if missing < 0:
            problems.append(Problem("array.dims", "sizes", plural(len(shape), "dimension"), f"at most {dimension_count}"))
        if problems:
            raise DescError("TensorDesc.of", problems)
        sizes = (1,) * missing + tuple(shape)
        counted = tuple(stride // dtype.itemsize for stride in strides)
        padded = packed_strides(sizes)[:missing] + counted
        # Strides of dimensions of size 1 do not matter and libraries fill in any value: a packed array's desc should be packed.
        same = all(size == 1 or given == packed for size, given, packed in zip(sizes, padded, packed_strides(sizes), strict=True))
        return cls(data_type=data_type, sizes=sizes, strides=None if same else padded)

    @cached_property
    def element_strides(self) -> tuple[int, ...]:
        """The strides in elements, computed if the desc leaves them out."""
        return packed_strides(self.sizes) if self.strides is None else self.strides

    @property
    def dimension_count(self) -> int:
        """The number of dimensions: `DimensionCount` of the C struct."""
        return len(self.sizes)

    @property
    def element_count(self) -> int:
        """The number of elements by the sizes; a broadcast element counts each time."""
        return math.prod(self.sizes)

    @property
    def span(self) -> int:
        """The number of elements from the first to the last that the tensor reaches, inclusive."""
        if self.strides is None and self.sizes and 0 not in self.sizes:
            return math.prod(self.sizes)
        return 1 + sum((size - 1) * stride for size, stride in zip(self.sizes, self.element_strides, strict=False))

    @cached_property
    def extent_in_bytes(self) -> int:
        """The bytes from the tensor's address to the end of the last element that it reaches."""
        return -(-self.span * self.data_type.bits // 8)

    @property
    def memory(self) -> TensorDesc:
        """The desc of the array that holds the tensor: its own, and for 4-bit elements that of its bytes, which two of them share each."""
        return self if self.data_type.bits != 4 else self._bytes

    @cached_property
    def _bytes(self) -> TensorDesc:
        """The desc of the bytes that hold 4-bit elements."""
        return TensorDesc(
            data_type=DataType.UINT8,
            sizes=(self.extent_in_bytes,),
            guaranteed_base_offset_alignment=self.guaranteed_base_offset_alignment,
        )

    @property
    def required_alignment(self) -> int:
        """The alignment in bytes of the tensor's address: the guaranteed one, else the element's size."""
        return max(self.guaranteed_base_offset_alignment, self.data_type.bits // 8, 1)

    @property
    def minimum_size_in_bytes(self) -> int:
        """The smallest legal TotalTensorSizeInBytes: the reached bytes rounded up to a multiple of 4 (DMLCalcBufferTensorSize)."""
        return -(-self.extent_in_bytes // 4) * 4

    @property
    def size_in_bytes(self) -> int:
        """The given TotalTensorSizeInBytes, else the smallest legal one."""
        return self.total_tensor_size_in_bytes or self.minimum_size_in_bytes

    @property
    def is_measurable(self) -> bool:
        """Whether the number of sizes is legal and there are as many strides; the properties below mean nothing otherwise."""
        return 1 <= len(self.sizes) <= MAX_DIMENSION_COUNT and (self.strides is None or len(self.strides) == len(self.sizes))

    @cached_property
    def is_packed(self) -> bool:
        """Whether the elements are contiguous, the last dimension fastest."""
        if self.strides is None:
            return True
        rows = zip(self.sizes, self.strides, packed_strides(self.sizes), strict=False)
        return len(self.strides) == len(self.sizes) and all(size == 1 or stride == packed for size, stride, packed in rows)

    @property
    def contiguous_axes(self) -> tuple[int, ...]:
        """The axes of more than one entry whose stride is one element."""
        return tuple(
            axis for axis, (size, stride) in enumerate(zip(self.sizes, self.element_strides, strict=False)) if size > 1 and stride == 1
        )

    @property
    def broadcast_axes(self) -> tuple[int, ...]:
        """The axes along which one entry is repeated."""
        return tuple(
            axis for axis, (size, stride) in enumerate(zip(self.sizes, self.element_strides, strict=False)) if size > 1 and stride == 0
        )

    def overlaps_itself(self) -> bool:
        """Returns whether two entries may share memory: exact for small tensors, pessimistic for large ones that interleave unusually."""
        dims = sorted((stride, size) for size, stride in zip(self.sizes, self.element_strides, strict=True) if size > 1)
        extent = 0
        for stride, size in dims:
            if stride <= extent:
                break
            extent += (size - 1) * stride
        else:
            return False
        if self.element_count > _EXACT_OVERLAP_LIMIT:
            return True
        offsets = [sum(steps) for steps in product(*([index * stride for index in range(size)] for stride, size in dims))]
        return len(set(offsets)) < len(offsets)

    def cells(self) -> tuple[str, str, str, str, str]:
        """The type, sizes, strides, bytes and layout, as cells of a table."""
        if not self.is_measurable:
            return str(self.data_type), listed(self.sizes), "" if self.strides is None else listed(self.strides), "", self.layout()
        strides = " ".join(map(str, self.element_strides if self.strides is None else self.strides))
        return str(self.data_type), " ".join(map(str, self.sizes)), strides, str(self.size_in_bytes), self.layout()

    def layout(self) -> str:
        """The tensor's layout in memory, in words: packed, strided with its contiguous axis, broadcast."""
        if not self.is_measurable:
            return "invalid"
        if self.is_packed:
            return "packed"
        words = [f"axis {axis} contiguous" for axis in self.contiguous_axes] or ["no contiguous axis"]
        words += [f"axis {axis} broadcast" for axis in self.broadcast_axes]
        return ", ".join(words)

    def to_dict(self) -> dict[str, Any]:
        """The members in the C spelling, in the form that DxDispatch models use, without members that have their default."""
        data: dict[str, Any] = {"DataType": self.data_type.c_name, "DimensionCount": len(self.sizes), "Sizes": list(self.sizes)}
        if self.strides is not None:
            data["Strides"] = list(self.strides)
        if self.flags is not TensorFlags.NONE:
            data["Flags"] = self.flags.c_name
        if self.total_tensor_size_in_bytes is not None:
            data["TotalTensorSizeInBytes"] = self.total_tensor_size_in_bytes
        if self.guaranteed_base_offset_alignment:
            data["GuaranteedBaseOffsetAlignment"] = self.guaranteed_base_offset_alignment
        return data

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> TensorDesc:
        """Builds a desc from a JSON object: flat, or nested as `{"Type": "BUFFER", "Desc": {...}}`.

        Raises:
            DescError: unknown, missing or unparsable members.
        """
        if not isinstance(data, Mapping):
            raise DescError(cls.c_name, [Problem("field.form", "", brief(data), "an object with DataType and Sizes")])
        members = unwrap(data)
        kind = members.pop("Type", TensorType.BUFFER)
        try:
            is_buffer = TensorType.parse(kind) is TensorType.BUFFER
        except ValueError:
            is_buffer = False
        if not is_buffer:
            raise DescError(cls.c_name, [Problem("field.form", "type", brief(kind), "BUFFER, the only kind of tensor")])
        if isinstance(members.get("Flags"), list) and len(members["Flags"]) <= 1:
            members["Flags"] = (members["Flags"] or ["NONE"])[0]
        return cls(**members)

    def problems(self, *, output: bool, strict: bool = False) -> list[Problem]:
        """The rules that this tensor breaks by itself, with places relative to it.

        Args:
            output: whether the tensor is written: outputs may not overlap themselves.
            strict: also what DirectML demands of the buffers behind the tensor (multiples of 4 bytes, 16-byte alignment).
        """
        sound: set[tuple[bool, bool]] = self.__dict__.setdefault("_sound", set())  # operators share the descs of their tensors
        if (output, strict) in sound:
            return []
        problems = self._problems(output=output, strict=strict)
        # Comparisons of symbolic sizes are recorded each time.
        if not problems and SymbolicSize not in map(type, (*self.sizes, *(self.strides or ()), self.total_tensor_size_in_bytes)):
            sound.add((output, strict))
        return problems

    def _problems(self, *, output: bool, strict: bool) -> list[Problem]:
        problems: list[Problem] = []

        def report(code: str, path: str, given: Any, expected: str, *why: str, remedy: str | None = None) -> None:
            problems.append(Problem(code, path, str(given), expected, why, remedy))

        if self.data_type is DataType.UNKNOWN:
            report("type.unknown", "data_type", "UNKNOWN", "a known element type")
        if not 1 <= len(self.sizes) <= MAX_DIMENSION_COUNT:
            expected, remedy = f"1 to {MAX_DIMENSION_COUNT} dimensions", self._dimensions_remedy()
            report("dims.range", "sizes", plural(len(self.sizes), "dimension"), expected, remedy=remedy)
            return problems  # there may be millions, so they are not checked one by one
        for axis, size in enumerate(self.sizes):
            if not 1 <= size <= MAX_UINT32:
                remedy = "DirectML has no empty tensors: leave the operator out where a size is 0" if size == 0 else None
                report("size.range", f"sizes[{axis}]", size, f"1 to {MAX_UINT32}", remedy=remedy)
        if self.strides is not None and len(self.strides) != len(self.sizes):
            report("stride.count", "strides", plural(len(self.strides), "stride"), f"{len(self.sizes)}, one for each dimension")
        for axis, stride in enumerate((self.strides or ())[:MAX_DIMENSION_COUNT]):
            if not 0 <= stride <= MAX_UINT32:
                remedy = "flip the data: a stride cannot be negative" if stride < 0 else None
                report("stride.range", f"strides[{axis}]", stride, f"0 to {MAX_UINT32} elements", remedy=remedy)
        if not 0 <= self.guaranteed_base_offset_alignment <= MAX_UINT32:
            report("alignment.range", "guaranteed_base_offset_alignment", self.guaranteed_base_offset_alignment, f"0 to {MAX_UINT32}")
        if self.total_tensor_size_in_bytes is not None and not 0 <= self.total_tensor_size_in_bytes < 2**64:
            report("total_size.range", "total_tensor_size_in_bytes", self.total_tensor_size_in_bytes, "an unsigned 64-bit integer")
        if problems:
            return problems  # the rules below need a well-formed layout

        if max(self.element_count, self.span) > MAX_ELEMENTS:
            many = self.element_count > MAX_ELEMENTS
            count = plural(self.element_count, "element") if many else f"a span of {self.span} elements"
            report("elements.limit", "sizes" if many else "strides", count, f"at most {MAX_ELEMENTS}")
        if self.total_tensor_size_in_bytes is not None and self.total_tensor_size_in_bytes < self.minimum_size_in_bytes:
            rule = (
                f"{self.minimum_size_in_bytes} = ({self.span - 1} + 1) * {self.data_type.bits} bits in bytes, rounded up to a multiple of 4"
            )
            remedy = "leave it out: dmlpy computes it"
            why = (f"{self.span - 1} is the sum of (sizes - 1) * strides",)
            report(
                "total_size.small", "total_tensor_size_in_bytes", self.total_tensor_size_in_bytes, f"at least {rule}", *why, remedy=remedy
            )
        alignment, element = self.guaranteed_base_offset_alignment, max(1, self.data_type.bits // 8)
        if alignment and (alignment & (alignment - 1) or alignment < element):
            expected = f"0, or a power of two of at least the element's {element} bytes"
            report("alignment.value", "guaranteed_base_offset_alignment", alignment, expected)
        if output and self.data_type.bits == 4 and not self.is_packed:
            report("stride.nibble", "strides", self.strides, "packed strides: elements of 4 bits have no address to be written at")
        if output:
            self._output_problems(report)
        if strict:
            if self.size_in_bytes % 4:
                report("strict.size", "total_tensor_size_in_bytes", self.size_in_bytes, "a multiple of 4, like every DirectML buffer")
            if 0 < alignment < MINIMUM_BUFFER_ALIGNMENT:
                expected = f"0 or at least {MINIMUM_BUFFER_ALIGNMENT} (DML_MINIMUM_BUFFER_TENSOR_ALIGNMENT)"
                report("strict.alignment", "guaranteed_base_offset_alignment", alignment, expected)
        return problems

    def _dimensions_remedy(self) -> str | None:
        """A remedy that describes the same elements with a legal number of dimensions."""
        if not self.sizes:
            return "a scalar is sizes [1]"
        if len(self.sizes) > _MOST_MERGED or min(self.sizes) < 1:
            return None  # before strides are computed: those of many sizes are huge numbers
        sizes, strides = [*self.sizes], [*self.element_strides]
        if len(strides) != len(sizes):
            return None
        excess = len(sizes) - MAX_DIMENSION_COUNT
        if math.prod(sizes[:excess]) == 1:
            shown = "" if self.strides is None else f" and strides {strides[excess:]}"
            return f"leave out leading ones: sizes {sizes[excess:]}{shown}"
        axis = 0
        while len(sizes) > MAX_DIMENSION_COUNT and axis + 1 < len(sizes):
            if sizes[axis] == 1 or strides[axis] == sizes[axis + 1] * strides[axis + 1]:
                sizes[axis : axis + 2], strides[axis : axis + 2] = [sizes[axis] * sizes[axis + 1]], [strides[axis + 1]]
            else:
                axis += 1
        if len(sizes) > MAX_DIMENSION_COUNT:
            return "run the operator on slices along one of the dimensions"
        shown = "" if self.strides is None else f" and strides {strides}"
        return f"merge dimensions that the operator treats alike, in all its tensors: here sizes {sizes}{shown}, for instance"

    def _output_problems(self, report: Any) -> None:
        if self.flags is TensorFlags.OWNED_BY_DML:
            report("flag.output", "flags", "OWNED_BY_DML", "NONE: only an input can be owned")
        if self.broadcast_axes:
            for axis in self.broadcast_axes:
                expected = f"a stride that keeps the {self.sizes[axis]} entries of axis {axis} apart"
                report(
                    "stride.broadcast", f"strides[{axis}]", 0, expected, "an output cannot be broadcast: entries would overwrite each other"
                )
        elif self.overlaps_itself():
            expected = "strides that give every entry separate memory"
            remedy = f"packed strides would be {packed_strides(self.sizes)}"
            report("stride.overlap", "strides", self.strides, expected, "entries of an output would overwrite each other", remedy=remedy)

    def numpy_strides(self) -> tuple[int, ...]:
        """The strides in bytes, as NumPy counts them."""
        itemsize = self.data_type.numpy.itemsize
        return tuple(stride * itemsize for stride in self.element_strides)

    def summary(self) -> str:
        """Describes the tensor in one line: type, sizes, layout, bytes."""
        if not self.is_measurable or min(self.sizes) < 0:
            strides = "" if self.strides is None else f" strides {listed(self.strides)}"
            return f"{self.data_type} {listed(self.sizes)}{strides} (invalid)"
        strides = "" if self.is_packed else f" strides {list(self.element_strides)}"
        return f"{self.data_type} {list(self.sizes)}{strides} ({self.layout()}, {self.size_in_bytes} bytes)"

    def __str__(self) -> str:
        return self.summary()

    def _repr_html_(self) -> str:
        from dmlpy.description.layout_picture import layout_svg
        from dmlpy.messages.tables import paragraph_html

        drawn = self.is_measurable and min(self.sizes) > 0 and (self.strides is None or min(self.strides) >= 0)
        return paragraph_html(self.summary()) + (layout_svg(self.sizes, self.element_strides, label=self.summary()) if drawn else "")


def covers(desc: TensorDesc, reader: TensorDesc) -> bool:
    """Returns whether a reader of the tensor's memory reads only its elements. Unusual reads count as reading more.

    Args:
        desc: the tensor as it is written; it does not overlap itself.
        reader: the tensor as its memory is read.
    """
    if reader.extent_in_bytes > desc.extent_in_bytes:
        return False
    if desc.element_count == desc.span:
        return True
    if desc.data_type.bits != reader.data_type.bits:
        return False
    # How far the reader can still go along each axis. An offset within all limits is that of an element.
    axes = _merged_axes(desc)
    left = [size - 1 for size, _ in axes]
    for size, stride in zip(reader.sizes, reader.element_strides, strict=True):
        if size == 1 or stride == 0:
            continue
        fitting = [at for at, (_, axis_stride) in enumerate(axes) if stride % axis_stride == 0]
        if not fitting:
            return False
        axis = max(fitting, key=lambda at: axes[at][1])
        left[axis] -= (size - 1) * (stride // axes[axis][1])
    return min(left) >= 0


def _merged_axes(desc: TensorDesc) -> list[tuple[int, int]]:
    """The sizes and strides of the axes with several entries, with axes that continue each other merged."""
    merged: list[tuple[int, int]] = []
    for size, stride in zip(desc.sizes, desc.element_strides, strict=True):
        if size == 1:
            continue
        if merged and merged[-1][1] == size * stride:
            merged[-1] = (merged[-1][0] * size, stride)
        else:
            merged.append((size, stride))
    return merged


def same_layout(desc: TensorDesc, strides: Sequence[int]) -> bool:
    """Returns whether strides in elements equal the desc's layout; those of dimensions of size 1 do not matter."""
    return all(size == 1 or described == given for size, described, given in zip(desc.sizes, desc.element_strides, strides, strict=True))


def with_dimension_count(desc: TensorDesc, count: int) -> TensorDesc | None:
    """The same elements with leading dimensions of size 1 added or left out, or None if the other dimensions are more than `count`."""
    missing = count - desc.dimension_count
    if any(size != 1 for size in desc.sizes[: max(-missing, 0)]):
        return None
    sizes = (1,) * missing + desc.sizes[max(-missing, 0) :]
    strides = None if desc.strides is None else (0,) * missing + desc.strides[max(-missing, 0) :]
    return desc.replace(sizes=sizes, strides=strides)
