"""Windows that slide over the spatial dimensions of a tensor, for pooling and convolution."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, ClassVar

from dmlpy.description.coercion import Uints
from dmlpy.description.descs import OperatorDesc
from dmlpy.description.enums import FeatureLevel
from dmlpy.description.markers import Limits, TensorField, Violation, derived, rule
from dmlpy.description.sizes import MAX_SIZE, Derived, Explained, Sizes, Term, UnboundSymbolError, align
from dmlpy.description.tensors import TensorDesc, packed_strides
from dmlpy.messages.naming import plural


@dataclass(frozen=True)
class Window:
    """A window along one spatial dimension.

    Attributes:
        size: the size of the tensor that it slides over.
        start: padding before the first element.
        end: padding after the last one.
        length: elements of the window.
        dilation: steps from one element of the window to the next.
        stride: steps from one position of the window to the next.
    """

    size: int
    start: int
    end: int
    length: int
    dilation: int
    stride: int

    def is_sound(self, least_dilation: int) -> bool:
        """Whether its numbers, as arrays of a desc give them, are within their limits."""
        numbers = (self.start, self.end, self.length, self.dilation, self.stride)
        return (
            min(self.start, self.end) >= 0
            and min(self.length, self.stride) >= 1
            and least_dilation <= self.dilation
            and max(numbers) <= MAX_SIZE
        )

    @property
    def extent(self) -> int:
        """The steps from the window's first element to its last, inclusive."""
        return 1 + (self.length - 1) * self.dilation

    @property
    def padded(self) -> int:
        return self.size + self.start + self.end

    @property
    def positions(self) -> int:
        """The number of positions of the window: below 1 if it does not fit."""
        return (self.padded - self.extent) // self.stride + 1

    @property
    def rounded_up(self) -> int:
        """The number of positions, plus one if elements are left over at the end, where a window is cut off."""
        return -(-(self.padded - self.extent) // self.stride) + 1

    @property
    def rounded_up_within(self) -> int:
        """The number of positions like `rounded_up`, without a last window that begins after the last element: ONNX and PyTorch drop it."""
        last = (self.rounded_up - 1) * self.stride
        return self.rounded_up if last < self.start + self.size else self.positions

    def filled_by(self, positions: int) -> bool:
        """Returns whether fewer positions leave no room for a longer window, as in a filter's gradient, where the window is the output."""
        room = self.padded - 1 - (positions - 1) * self.stride
        return positions < self.positions and room // self.dilation + 1 == self.length

    def formula(self, divided: str = "//") -> str:
        """The formula of the positions with the numbers filled in."""
        return f"({self.size} + {self.start} + {self.end} - {self.extent_formula()}) {divided} {self.stride} + 1"

    def extent_formula(self) -> str:
        return str(self.length) if self.dilation == 1 else f"(1 + ({self.length} - 1) * {self.dilation})"

    def padding_for(self, positions: int) -> int:
        """The least padding, start and end together, for this many positions."""
        return max(0, (positions - 1) * self.stride + self.extent - self.size)


def channels_first(name: str, sizes: Sequence[int]) -> str:
    """A remedy for a tensor whose sizes were given with the channels last."""
    return f"if the channels lie last, {name} is sizes {_moved(sizes)}, strides {_moved(packed_strides(sizes))}"


def _moved(values: Sequence[int]) -> list[int]:
    return [values[0], values[-1], *values[1:-1]]


class SlidingDesc(OperatorDesc):
    """An operator whose window slides over the spatial dimensions of [batch, channels, *spatial] and has `out` positions there.

    Its arrays have an entry for each spatial dimension, the outermost first: depth, height, width.
    """

    ranked: ClassVar[tuple[str, ...]] = ("input_tensor", "output_tensor")
    """The tensors of equal dimension counts, with the spatial dimensions at the end."""

    slid_over: ClassVar[str] = "input_tensor"
    """The tensor that the window slides over."""

    positioned: ClassVar[str] = "output_tensor"
    """The tensor that has an element for each position of the window."""

    array_weight: ClassVar[float] = 1.5
    """How many tensors the arrays count for where tensors disagree about their dimension count: one, and the last word."""

    least_dilation: ClassVar[int] = 1
    """The least of the dilations, where the struct has any."""

    strides: Annotated[Uints, Limits(length="dimension_count", least=1)]
    """The steps from one position of the window to the next, for each spatial dimension, the outermost first."""

    start_padding: Uints
    """The elements of padding before the first element of each spatial dimension."""

    end_padding: Uints
    """The elements of padding after the last element of each spatial dimension."""

    @cached_property
    def rank(self) -> int:
        """The dimension count that most tensors have; the arrays count as `array_weight` tensors.

        So a forgotten batch is reported for the tensor that lacks it, and not for all others.
        """
        counts = [len(tensor.sizes) for name in self.ranked if (tensor := self._tensor(name)) is not None]
        lengths = [len(array) for array in self._arrays()]
        of_arrays = max(lengths, key=lengths.count) + 2
        spans = [row.dims_for(self.slid_over) for row in self.support]
        possible = [count for count in (*counts, of_arrays) if any(least <= count <= most for least, most in spans)] or counts
        return max(3, max(possible, key=lambda count: counts.count(count) + self.array_weight * (count == of_arrays)))

    def terms(self, field: TensorField) -> tuple[Term, ...]:
        terms_of = self._terms_by_field
        if field.name not in terms_of:
            terms_of[field.name] = self.spread(super().terms(field)) if field.name in self.ranked else super().terms(field)
        return terms_of[field.name]

    @cached_property
    def _terms_by_field(self) -> dict[str, tuple[Term, ...]]:
        """The terms by field: a check asks for those of a field ten times."""
        return {}

    def spread(self, terms: Sequence[Term]) -> tuple[Term, ...]:
        """A pattern with its run spread over the spatial dimensions; `*ones` are ones."""
        aligned = align(terms, self.rank) or tuple(terms)
        return tuple(Term(1) if term.symbol is not None and term.symbol.startswith("ones[") else term for term in aligned)

    @abstractmethod
    def window_lengths(self, symbols: Sizes) -> Sequence[int]:
        """The number of elements of the window along each spatial dimension."""

    @abstractmethod
    def window_place(self, axis: int) -> str:
        """The member that holds the window's length along a spatial dimension."""

    def windows(self, symbols: Sizes, spatial: Sequence[int] | None = None) -> tuple[Window, ...]:
        """The window along each spatial dimension, for the desc's sizes or for others.

        Raises:
            UnboundSymbolError: sizes are not known, or arrays have a wrong length or values that make no sense.
        """
        windows = self.sound_windows(symbols, spatial)
        if None in windows:
            raise UnboundSymbolError("strides")
        return tuple(window for window in windows if window is not None)

    def sound_windows(self, symbols: Sizes, spatial: Sequence[int] | None = None) -> tuple[Window | None, ...]:
        """As `windows`, with None along a dimension where arrays have values that make no sense, which their limits report."""
        count, entries = self.rank - 2, symbols["dimension_count"]
        if any(len(array) != entries for array in self._arrays()):
            raise UnboundSymbolError("strides")
        sizes = [symbols[f"spatial[{axis}]"] for axis in range(count)] if spatial is None else spatial
        dilations: Sequence[int] = getattr(self, "dilations", (1,) * entries)
        rows = (self.start_padding, self.end_padding, dilations, self.strides)
        starts, ends, steps, strides = (row[entries - count :] for row in rows)
        windows = map(Window, sizes, starts, ends, self.window_lengths(symbols), steps, strides)
        return tuple(window if window.is_sound(self.least_dilation) else None for window in windows)

    def positions(self, symbols: Sizes) -> Sequence[Derived]:
        """The positions along each spatial dimension; the described ones where no window fits, which other rules report.

        Raises:
            UnboundSymbolError: sizes or lengths are not known, or where no window fits no positions are described.
        """
        windows, described = self.sound_windows(symbols), self.described()
        sizes: list[Derived] = []
        for axis, window in enumerate(windows):
            if window is not None and window.positions >= 1:
                sizes.append(Explained(window.positions, self.reason(axis, window)))
            elif described is None:
                raise UnboundSymbolError("out")
            else:
                sizes.append(described[axis])
        return sizes

    def described(self) -> list[int] | None:
        """The spatial sizes that the tensor of positions describes; None if it is null or has another dimension count."""
        tensor = self._tensor(self.positioned)
        return [*tensor.sizes[2:]] if tensor is not None and len(tensor.sizes) == self.rank else None

    def reason(self, axis: int, window: Window, divided: str = "//") -> str:
        """The reason for the number of positions along a spatial dimension, first with names, then with numbers."""
        at = self.entry(axis)
        extent = self.window_place(axis) if window.dilation == 1 else f"({self._extent(axis)})"
        padded = f"{self.slid_over}.sizes[{axis + 2}] + start_padding[{at}] + end_padding[{at}]"
        return f"({padded} - {extent}) {divided} strides[{at}] + 1 = {window.formula(divided)}"

    def _extent(self, axis: int) -> str:
        return f"1 + ({self.window_place(axis)} - 1) * dilations[{self.entry(axis)}]"

    def entry(self, axis: int) -> int:
        """The index of the arrays' entry for a spatial dimension."""
        return axis

    @derived("the dimensions of the tensors, less batch and channels")
    def dimension_count(self, symbols: Sizes) -> Explained:
        tensors = [name for name in self.ranked if (tensor := self._tensor(name)) is not None and len(tensor.sizes) == self.rank]
        return Explained(
            self.rank - 2, f"the {plural(self.rank, 'dimension')} of {', '.join(tensors) or 'the tensors'} less batch and channels"
        )

    @rule("start_padding and end_padding have an entry each for every spatial dimension")
    def padding_entries(self, symbols: Sizes, level: FeatureLevel) -> Iterable[Violation]:
        count = symbols["dimension_count"]
        for name in ("start_padding", "end_padding"):
            entries: tuple[int, ...] = getattr(self, name)
            if len(entries) != count:
                both = f"start_padding {list(entries[:count])}, end_padding {list(entries[count:])}"
                remedy = f"if it has all starts, then all ends, that is {both}" if len(entries) == 2 * count else None
                actual = plural(len(entries), "entry")
                yield Violation(name, actual, str(count), (symbols.why("dimension_count"),), remedy)

    @rule("the window, spread by its dilations, fits into the padded tensor that it slides over")
    def window_fits(self, symbols: Sizes, level: FeatureLevel) -> Iterable[Violation]:
        for axis, window in enumerate(self.sound_windows(symbols)):
            if window is None or window.positions >= 1:
                continue
            why = [f"{self.slid_over} with padding is {window.padded} = {window.size} + {window.start} + {window.end} there"]
            if window.dilation > 1:
                why.append(f"the window spans {self._extent(axis)} = {window.extent}")
            remedy = self._channels_last(symbols)
            if window.length <= window.padded:
                most = (window.padded - 1) // (window.length - 1)
                yield Violation(f"dilations[{self.entry(axis)}]", str(window.dilation), f"at most {most}", tuple(why), remedy)
            else:
                yield Violation(self.window_place(axis), str(window.length), f"at most {window.padded}", tuple(why), remedy)

    def size_remedy(self, field: TensorField, symbols: Sizes) -> str | None:
        tensor = self._tensor(field.name)
        if tensor is None or field.name not in self.ranked:
            return super().size_remedy(field, symbols)
        if len(tensor.sizes) != self.rank:
            return self._rank_remedy(field, tensor)
        if all(row.dims_for(field.name)[0] > 3 for row in self.support) and (fuller := self.fuller_remedy(field, 4)) is not None:
            return fuller
        try:
            of_positions = self.terms(field)[2].symbol == "out[0]"
            return self._channels_last(symbols) or (self._padding_remedy(tensor, symbols) if of_positions else None)
        except UnboundSymbolError:
            return None

    def fuller_remedy(self, field: TensorField, least: int) -> str | None:
        tensor = self._tensor(field.name)
        if field.name not in self.ranked or tensor is None or not len(tensor.sizes) == self.rank == 3 < least:
            return None
        strides = "" if tensor.strides is None else f" and strides {[*tensor.strides[:2], 0, tensor.strides[2]]}"
        fitting = [*tensor.sizes[:2], 1, tensor.sizes[2]]
        return f"give it a height of 1, sizes {fitting}{strides}, and put an entry in front of each array: 1, or 0 for padding"

    def _rank_remedy(self, field: TensorField, tensor: TensorDesc) -> str | None:
        if self.terms(field)[0].symbol == "batch" and len(tensor.sizes) == self.rank - 1:
            return f"a single sample is a batch of one: sizes {[1, *tensor.sizes]}"
        return None

    def _channels_last(self, symbols: Sizes) -> str | None:
        """A remedy if all sizes agree once the channels are read from the last dimension, as in NHWC."""
        slid, positioned = self._tensor(self.slid_over), self._tensor(self.positioned)
        if slid is None or positioned is None or not len(slid.sizes) == len(positioned.sizes) == self.rank:
            return None
        sizes, out = slid.sizes, positioned.sizes
        if sizes[0] != out[0] or min(*sizes, *out) < 1 or not self._channels_agree(sizes[-1], out[-1]):
            return None
        if [window.positions for window in self.windows(symbols, sizes[1:-1])] != [*out[1:-1]]:
            return None
        return f"{channels_first(self.slid_over, sizes)}, and {self.positioned} is sizes {_moved(out)}: strides alone define a layout"

    def _channels_agree(self, slid: int, positioned: int) -> bool:
        """Returns whether the two tensors may have these channel counts."""
        return slid == positioned

    def _padding_remedy(self, tensor: TensorDesc, symbols: Sizes) -> str | None:
        """A remedy where padding would give the sizes: sizes rounded up, or kept the same."""
        pairs = list(zip(tensor.sizes[2:], self.windows(symbols), strict=True))
        if all(size - window.positions in (0, 1 if (window.padded - window.extent) % window.stride else 0) for size, window in pairs):
            ends = [max(window.end, window.padding_for(size) - window.start) for size, window in pairs]
            # If the windows already have these sizes, the tensor differs elsewhere, in its channels.
            return f"sizes are rounded down; end_padding {ends} rounds up" if ends != [*self.end_padding] else None
        if all(size == -(-window.size // window.stride) for size, window in pairs):
            both = [window.padding_for(size) for size, window in pairs]
            halves = [padding // 2 for padding in both]
            rest = [padding - half for padding, half in zip(both, halves, strict=True)]
            return f"start_padding {halves} and end_padding {rest} make these sizes, as SAME padding does"
        return None

    def _tensor(self, name: str) -> TensorDesc | None:
        return getattr(self, name, None)

    def _arrays(self) -> list[tuple[int, ...]]:
        """The arrays whose length is DimensionCount."""
        return [getattr(self, name) for name in self.c_counts["DimensionCount"]]
