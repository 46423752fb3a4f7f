"""The base of operators whose tensors have equal sizes in all dimensions but the one that the attribute `axis` names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Annotated, ClassVar

from dmlpy.description.coercion import Uint
from dmlpy.description.descs import OperatorDesc
from dmlpy.description.enums import FeatureLevel
from dmlpy.description.markers import Limits, Slot, TensorField, Violation, rule
from dmlpy.description.sizes import Derived, Explained, Sizes, Term, UnboundSymbolError, align, parse
from dmlpy.description.tensors import TensorDesc

_SIZES = parse("*sizes")


class AlongAxisDesc(OperatorDesc):
    """An operator of tensors with equal sizes, `*sizes`, except along `axis`."""

    along_axis: ClassVar[Mapping[str, str]] = {}
    """The term that a tensor has along the axis in place of its part of `*sizes`. For an array of tensors it is a symbol, with a separate
    one for each element (`length[0]`, `length[1]`)."""

    axis: Annotated[Uint, Limits(axis_of="sizes")]
    """The dimension that the operator works along, the only one in which the tensors' sizes may differ."""

    @cached_property
    def rank(self) -> int:
        """The dimension count that most tensors have."""
        counts = [len(tensor.sizes) for _, tensor in self._shared()]
        return max(dict.fromkeys(counts), key=counts.count, default=0)

    @cached_property
    def meant_axis(self) -> int | None:
        """The axis along which the tensors would fit, if it is not `axis`; None if there is none."""
        shared, rank = self._shared(), self.rank
        described = {name for name, _ in shared} >= self.along_axis.keys()
        if not described or not 0 <= self.axis < rank or any(len(tensor.sizes) != rank for _, tensor in shared):
            return None
        first = shared[0][1].sizes if shared else ()
        differing = [axis for axis in range(rank) if any(tensor.sizes[axis] != first[axis] for _, tensor in shared)]
        return differing[0] if len(differing) == 1 and differing[0] != self.axis and self._fit_along(differing[0]) else None

    def _shared(self) -> list[tuple[str, TensorDesc]]:
        """The described tensors with sizes `*sizes`, along the axis or everywhere, each with its field."""
        slots = [slot for slot in self.slots() if slot.field.name in self.along_axis or slot.field.marker.terms == _SIZES]
        return [(slot.field.name, slot.tensor) for slot in slots if slot.tensor is not None]

    def _fit_along(self, axis: int) -> bool:
        """Returns whether tensors that are equal elsewhere have the sizes along an axis that the operator requires there."""
        lengths: dict[str, list[int]] = {}
        for name, tensor in self._shared():
            lengths.setdefault(self.along_axis.get(name, ""), []).append(tensor.sizes[axis])
        listed = next((self.along_axis[field.name] for field in self.tensor_fields() if field.listed), None)
        if listed is not None:
            parts = lengths.pop(listed)
            return all(sizes == [sum(parts)] for sizes in lengths.values())
        return all(len({*sizes, *([int(pattern)] if pattern.isdigit() else [])}) == 1 for pattern, sizes in lengths.items())

    def aligned(self, slot: Slot, dimension_count: int) -> tuple[Term, ...] | None:
        pattern = self.along_axis.get(slot.field.name)
        shared = align(_SIZES, dimension_count)
        if pattern is None or shared is None:
            return super().aligned(slot, dimension_count)
        if dimension_count != self.rank or not 0 <= self.axis < dimension_count or self.meant_axis is not None:
            # The axis is unknown, so the sizes cannot be checked.
            return tuple(Term(1, f"{slot.place}.sizes[{axis}]") for axis in range(dimension_count))
        if pattern.isdigit() and len(self._shared()) == 2:
            return super().aligned(slot, dimension_count)  # with two tensors, the other one determines the sizes
        concatenated = parse(pattern)[0] if slot.index is None else Term(1, f"{pattern}[{slot.index}]")
        return tuple(concatenated if axis == self.axis else term for axis, term in enumerate(shared))

    def with_along_axis(self, symbols: Sizes, length: Derived) -> list[Derived]:
        """The pattern `*sizes` with another length along the axis.

        Raises:
            UnboundSymbolError: no tensor determines a size, or the axis does not exist.
        """
        dimension_count = symbols["len(sizes)"]
        if not 0 <= self.axis < dimension_count:
            raise UnboundSymbolError("axis")
        return [length if axis == self.axis else _as_held(symbols, f"sizes[{axis}]") for axis in range(dimension_count)]

    @rule("along axis, and nowhere else, the tensors may differ")
    def axis_choice(self, symbols: Sizes, level: FeatureLevel) -> Iterable[Violation]:
        if self.meant_axis is not None:
            why = (f"the tensors differ along dimension {self.meant_axis} alone, and fit together there",)
            remedy = f"if dimension {self.axis} is meant, all tensors have one size along dimension {self.meant_axis}"
            yield Violation("axis", str(self.axis), str(self.meant_axis), why, remedy)

    def size_remedy(self, field: TensorField, symbols: Sizes) -> str | None:
        pattern, dimension_count = self.along_axis.get(field.name), symbols.get("len(sizes)", 0)
        if pattern is None or not 0 <= self.axis < dimension_count:
            return None
        if pattern.isdigit():
            return self._sizes_remedy(symbols, int(pattern))
        return f"only along dimension {self.axis}, the axis, it may differ from the others" if field.name in self._misfits else None

    def _sizes_remedy(self, symbols: Sizes, length: int) -> str | None:
        """A remedy with the sizes of a tensor that has a fixed length along the axis."""
        sizes = [length if axis == self.axis else symbols.get(f"sizes[{axis}]") for axis in range(symbols["len(sizes)"])]
        if None in sizes:
            return None
        return f"along dimension {self.axis}, the axis, it has size {length}, elsewhere those of the others: sizes {sizes}"

    @cached_property
    def _misfits(self) -> frozenset[str]:
        """The fields of tensors whose size differs from the others' where it must not."""
        symbols = self.sizes()
        sizes = [symbols.get(f"sizes[{axis}]") for axis in range(symbols["len(sizes)"])]
        shared = [(name, tensor.sizes) for name, tensor in self._shared() if len(tensor.sizes) == len(sizes)]
        return frozenset(
            name for name, tensor_sizes in shared if any(size != sizes[axis] for axis, size in enumerate(tensor_sizes) if axis != self.axis)
        )


def _as_held(symbols: Sizes, symbol: str) -> Explained:
    """A symbol's value with the places that hold it as the reason."""
    return Explained(symbols[symbol], symbols.why(symbol).partition(": ")[2])
