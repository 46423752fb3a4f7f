"""Names of directml.h and its helper header, other than the structs, enumerations and flags that are dmlpy's classes.

Some C structs only pair a type with a pointer, as DML_TENSOR_DESC does. They are functions here: each checks that the type is that of the
struct behind it, and returns that struct, which is what dmlpy takes in their place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeVar

from dmlpy.description import arrays
from dmlpy.description.arrays import view
from dmlpy.description.coercion import brief
from dmlpy.description.enums import DmlEnum, FeatureLevel, GraphEdgeType, GraphNodeType, TensorType
from dmlpy.description.registry import operator_class
from dmlpy.description.structs import Struct
from dmlpy.description.tensors import MAX_DIMENSION_COUNT, MINIMUM_BUFFER_ALIGNMENT, TensorDesc
from dmlpy.graphs import ConstantNode, InputEdge, IntermediateEdge, OperatorNode, OutputEdge
from dmlpy.messages.naming import with_article
from dmlpy.messages.problems import BindError, DescError, Problem

if TYPE_CHECKING:
    from dmlpy.description.descs import OperatorDesc

DML_TENSOR_DIMENSION_COUNT_MAX: Final = 5
"""The most dimensions of a tensor below feature level 3_0."""
DML_TENSOR_DIMENSION_COUNT_MAX1: Final = MAX_DIMENSION_COUNT
"""The most dimensions of a tensor."""
DML_MINIMUM_BUFFER_TENSOR_ALIGNMENT: Final = MINIMUM_BUFFER_ALIGNMENT
"""The alignment in bytes that DirectML requires of a tensor's address."""
DML_TEMPORARY_BUFFER_ALIGNMENT: Final = 256
"""The alignment in bytes that DirectML requires of temporary memory. dmlpy accepts less."""
DML_PERSISTENT_BUFFER_ALIGNMENT: Final = 256
"""The same of persistent memory."""
DML_TARGET_VERSION: Final = int(max(FeatureLevel))
"""The version of the header that is mirrored, as the number of its feature level."""

EnumT = TypeVar("EnumT", bound=DmlEnum)
StructT = TypeVar("StructT", bound=Struct)
OperatorT = TypeVar("OperatorT", bound="OperatorDesc")
NodeT = TypeVar("NodeT", bound=OperatorNode | ConstantNode)
EdgeT = TypeVar("EdgeT", bound=InputEdge | OutputEdge | IntermediateEdge)


def DML_TENSOR_DESC(Type: TensorType | str | int, Desc: TensorDesc) -> TensorDesc:
    """DML_TENSOR_DESC: a tensor of a type, of which there is one, BUFFER.

    Raises:
        DescError: the type is another one, or `Desc` is not a DML_BUFFER_TENSOR_DESC.
    """
    return _described("DML_TENSOR_DESC", TensorType, Type, {TensorType.BUFFER: TensorDesc}, Desc)


def DML_OPERATOR_DESC(Type: str, Desc: OperatorT) -> OperatorT:
    """DML_OPERATOR_DESC: an operator's struct with its type, like DML_OPERATOR_GEMM.

    Raises:
        DescError: there is no such operator, or `Desc` is the struct of another one.
    """
    kind: type[OperatorDesc] = operator_class(Type)
    if not isinstance(Desc, kind):
        raise _wrong_desc("DML_OPERATOR_DESC", Desc, kind.c_name)
    return Desc


def DML_GRAPH_NODE_DESC(Type: GraphNodeType | str | int, Desc: NodeT) -> NodeT:
    """DML_GRAPH_NODE_DESC: a node of a graph with its type.

    Raises:
        DescError: there is no such type, or `Desc` is a node of another one.
    """
    kinds = {GraphNodeType.OPERATOR: OperatorNode, GraphNodeType.CONSTANT: ConstantNode}
    return _described("DML_GRAPH_NODE_DESC", GraphNodeType, Type, kinds, Desc)


def DML_GRAPH_EDGE_DESC(Type: GraphEdgeType | str | int, Desc: EdgeT) -> EdgeT:
    """DML_GRAPH_EDGE_DESC: an edge of a graph with its type.

    Raises:
        DescError: there is no such type, or `Desc` is an edge of another one.
    """
    kinds = {kind.kind: kind for kind in (InputEdge, OutputEdge, IntermediateEdge)}
    return _described("DML_GRAPH_EDGE_DESC", GraphEdgeType, Type, kinds, Desc)


def _described(struct: str, types: type[EnumT], given: Any, kinds: dict[EnumT, Any], desc: StructT) -> StructT:
    """The desc behind a type, if it has that type."""
    try:
        kind = kinds[types.parse(given)]
    except (ValueError, KeyError):
        raise DescError(
            struct, [Problem("field.form", "Type", brief(given), f"one of {', '.join(kind.c_name for kind in kinds)}")]
        ) from None
    if not isinstance(desc, kind):
        raise _wrong_desc(struct, desc, kind.c_name)
    return desc


def _wrong_desc(struct: str, given: Any, expected: str) -> DescError:
    found = given.c_name if isinstance(given, Struct) else brief(given)
    return DescError(struct, [Problem("field.form", "Desc", found, expected, ("Type and Desc belong together",))])


class DML_BUFFER_BINDING(arrays.Buffer):
    """DML_BUFFER_BINDING: a range of memory; `bind` and `prepare` take it wherever they take a `dmlpy.Buffer`.

    Args:
        Buffer: the memory: an array, a `dmlpy.Buffer`, or an address on the operator's device.
        Offset: bytes from there to the first of the range.
        SizeInBytes: bytes of the range; may be left out for the rest of an array or of a `dmlpy.Buffer`.

    Raises:
        BindError: the range is not within the memory, or the memory cannot be used where it is.
    """

    def __init__(self, Buffer: Any, Offset: int = 0, SizeInBytes: int | None = None) -> None:
        pointer, size = _memory(Buffer)
        if SizeInBytes is None and size is None:
            raise _unbound("SizeInBytes", "missing", "a number of bytes: an address does not tell how many there are")
        if isinstance(Offset, bool) or not isinstance(Offset, int) or not 0 <= Offset <= (2**64 - 1 if size is None else size):
            raise _unbound("Offset", brief(Offset), "a number of bytes" if size is None else f"0 to {size}, the bytes of the memory")
        length = (size or 0) - Offset if SizeInBytes is None else SizeInBytes
        if isinstance(length, bool) or not isinstance(length, int) or length < 0 or (size is not None and Offset + length > size):
            expected = "a number of bytes" if size is None else f"at most {size - Offset}: the memory has {size} bytes"
            raise _unbound("SizeInBytes", brief(length), expected)
        super().__init__(pointer + Offset, length)
        # The range and what it was made of, as C code reads it. This keeps an array alive.
        for name, value in (("Buffer", Buffer), ("Offset", Offset), ("SizeInBytes", length)):
            object.__setattr__(self, name, value)

    Buffer: Any
    Offset: int
    SizeInBytes: int


def _memory(given: Any) -> tuple[int, int | None]:
    """The address and the bytes of memory; an address alone has an unknown number of bytes."""
    if isinstance(given, arrays.Buffer):
        return given.pointer, given.size_in_bytes
    if isinstance(given, int) and not isinstance(given, bool) and given > 0:
        return given, None
    if given is None or isinstance(given, int):
        raise _unbound("Buffer", brief(given), "memory", remedy="bind None where there is no tensor")
    try:
        seen = view(given)
    except TypeError as error:
        raise _unbound("Buffer", with_article(type(given).__name__), "an array, a Buffer or an address", str(error)) from None
    strides = [stride * (size - 1) for size, stride in zip(seen.shape, seen.strides, strict=True)]
    if min(strides, default=0) < 0:
        raise _unbound("Buffer", "an array with negative strides", "memory from its first byte on")
    return seen.pointer, sum(strides) + seen.dtype.itemsize if 0 not in seen.shape else 0


def _unbound(member: str, found: str, expected: str, *why: str, remedy: str | None = None) -> BindError:
    return BindError("DML_BUFFER_BINDING", [Problem("buffer.form", member, found, expected, why, remedy)])


def DMLCalcBufferTensorSize(dataType: Any, dimensionCount: int, sizes: Any, strides: Any = None) -> int:
    """The least TotalTensorSizeInBytes of a tensor, as the helper of DirectMLX.h computes it, but in integers that cannot overflow.

    Args:
        dataType: the type of the elements.
        dimensionCount: how many sizes, and strides, there are.
        sizes: elements along each dimension.
        strides: elements from one entry to the next along each dimension; None for a packed tensor.

    Raises:
        DescError: no tensor is like that. The C helper returns 0 for a type that it does not know.
    """
    members = {"DataType": dataType, "DimensionCount": dimensionCount, "Sizes": sizes}
    desc = TensorDesc.from_dict(members if strides is None else members | {"Strides": strides})
    if problems := desc.problems(output=False):
        raise DescError("DMLCalcBufferTensorSize", problems)
    return desc.minimum_size_in_bytes
