"""Other values of a desc's members, right and wrong ones: each changes one member."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dmlpy.description.descs import OperatorDesc
from dmlpy.description.enums import DataType, DmlEnum, TensorFlags
from dmlpy.description.tensors import MAX_DIMENSION_COUNT, TensorDesc
from dmlpy.description.value_structs import Size2D
from dmlpy.operators.activation import ActivationLinearDesc, ActivationSoftmax1Desc, ActivationSoftmaxDesc

if TYPE_CHECKING:
    from collections.abc import Iterator

_OTHER_TYPES = (DataType.FLOAT16, DataType.FLOAT32, DataType.INT8, DataType.UINT32, DataType.INT64)


def changes(desc: OperatorDesc) -> Iterator[dict[str, Any]]:
    """Other values of one member each, right and wrong ones; then all outputs omitted."""
    for name in type(desc).model_fields:
        yield from ({name: value} for value in _alternatives(desc, name))
    yield {field.name: None for field in desc.outputs() if getattr(desc, field.name) is not None}


def _alternatives(desc: OperatorDesc, name: str) -> Iterator[Any]:
    """Other values of a member, right and wrong ones."""
    value = getattr(desc, name)
    markers = {field.name: field for field in desc.tensor_fields()}
    if name in markers and isinstance(value, TensorDesc):
        yield from _tensors(value)
    elif name in markers and isinstance(value, tuple):
        yield from ((), value[:-1], (*value, value[0]))
        yield from ((*value[:-1], other) for other in _tensors(value[-1]) if other is not None)
    elif isinstance(value, tuple):
        yield from _tuples(value)
    else:
        yield from _scalars(value, type(value))
    if value is not None:
        yield None


def _tensors(tensor: TensorDesc) -> Iterator[TensorDesc | None]:
    sizes = tensor.sizes
    for axis in reversed(range(len(sizes))):
        for size in (sizes[axis] + 1, 2 * sizes[axis], 1):
            if size != sizes[axis]:
                yield tensor.replace(sizes=(*sizes[:axis], size, *sizes[axis + 1 :]))
    for other in (sizes[1:], (1, *sizes), (1,) * (MAX_DIMENSION_COUNT + 1 - len(sizes)) + sizes, (*sizes[:-1], 0)):
        if other:
            yield tensor.replace(sizes=other)
    yield from (tensor.replace(data_type=other) for other in _OTHER_TYPES if other is not tensor.data_type)
    yield tensor.replace(flags=TensorFlags.OWNED_BY_DML)
    yield tensor.replace(strides=(0,) * len(sizes))
    yield None


def _scalars(value: Any, kind: type) -> Iterator[Any]:
    if isinstance(value, OperatorDesc):
        yield from (ActivationSoftmaxDesc(), ActivationSoftmax1Desc(axes=(9,)), ActivationLinearDesc(alpha="nan", beta=0))
    elif isinstance(value, Size2D):
        yield from (Size2D(width=0, height=value.height), Size2D(width=2**31, height=2**31))
    elif isinstance(value, bool):
        yield not value
    elif isinstance(value, DmlEnum):
        yield from (member for member in kind if member is not value)  # type: ignore[attr-defined]
    elif isinstance(value, int):
        yield from (value + 1, value + 2, 2 * value, 0, 1, 7, 1000, -1)
    elif isinstance(value, float):
        yield from (-1.0, 0.0, 1.0, 2.0, float("nan"), float("inf"))


def _tuples(value: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    yield ()
    yield value[:-1]
    yield (*value, *value[-1:])
    for index in (0, -1) if value else ():
        item = value[index]
        for other in _scalars(item, type(item)):
            changed = list(value)
            changed[index] = other
            yield tuple(changed)
