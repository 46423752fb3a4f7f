"""The small structs of directml.h that operators have as attributes: DML_SCALE_BIAS and DML_SIZE_2D."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self

from dmlpy.description.coercion import Float, Uint, brief, read_by
from dmlpy.description.structs import Struct, c_value
from dmlpy.messages.naming import c_member
from dmlpy.messages.problems import DescError, Problem


class ValueStruct(Struct):
    """A struct of numbers."""

    def to_dict(self) -> dict[str, Any]:
        """The members in the C spelling."""
        return {c_member(name): c_value(getattr(self, name)) for name in type(self).model_fields}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Builds a struct from a JSON object.

        Raises:
            DescError: unknown, missing or unparsable members.
        """
        if not isinstance(data, Mapping):
            names = " and ".join(c_member(name) for name in cls.model_fields)
            call = f"{cls.__name__}({', '.join(f'{name}={_entry(data)}' for name in cls.model_fields)})"
            raise DescError(cls.c_name, [Problem("field.form", "", brief(data), f"an object with {names}", remedy=f"write dmlpy.{call}")])
        return cls(**{str(name): value for name, value in data.items()})

    def __str__(self) -> str:
        values = {name: getattr(self, name) for name in type(self).model_fields}
        return ", ".join(f"{name}={value:g}" if isinstance(value, float) else f"{name}={value}" for name, value in values.items())


def _entry(data: Any) -> object:
    """The number that all entries of a list are, as members; dots where they differ, since their order is unknown."""
    alike = type(data) in (list, tuple) and len(data) and all(type(item) is int and item == data[0] for item in data)
    return data[0] if alike else "..."


class ScaleBias(ValueStruct):
    """DML_SCALE_BIAS: x is replaced by x * scale + bias before the operator's function."""

    c_name: ClassVar[str] = "DML_SCALE_BIAS"

    scale: Float
    """The factor of x."""

    bias: Float
    """The number added to the scaled x."""

    @property
    def is_whole(self) -> bool:
        """Whether both are whole numbers of 64 bits, so that integers are scaled without rounding."""
        return all(value.is_integer() and abs(value) < 2**63 for value in (self.scale, self.bias))


class Size2D(ValueStruct):
    """DML_SIZE_2D: a width and a height."""

    c_name: ClassVar[str] = "DML_SIZE_2D"

    width: Uint
    """The size along the last dimension."""

    height: Uint
    """The size along the last dimension but one."""


def _reader(kind: type[ValueStruct], *, optional: bool = False) -> Any:
    def read(value: Any) -> Any:
        return value if isinstance(value, kind) else kind.from_dict(value)

    return read_by(read, optional=optional)


if TYPE_CHECKING:
    from dmlpy.description.coercion import Member

    OptionalScaleBias = Member[ScaleBias | None, ScaleBias | Mapping[str, Any] | None]
    Size2DValue = Member[Size2D, Size2D | Mapping[str, Any]]
else:
    OptionalScaleBias = Annotated[ScaleBias | None, _reader(ScaleBias, optional=True)]
    Size2DValue = Annotated[Size2D, _reader(Size2D)]
