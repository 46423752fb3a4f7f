"""`SizedArray`: an array whose elements or sizes follow from symbolic sizes."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from dmlpy.description.symbolic_sizes import NoTemplateError, example_size, is_symbolic, specialize_all

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

Array = np.ndarray[Any, np.dtype[Any]]


class SizedArray:
    """An array that is another one for other sizes. Code that needs its elements takes `fixed`: NumPy cannot read it unnoticed.

    Args:
        example: the array for the example's sizes.
        shape: its sizes, which may be symbolic.
        compute: the array for the numbers of a trace; raises NoTemplateError if there is none.
        places: the places of the numbers that it is computed of.

    Attributes:
        numbers: its elements in order, which may be symbolic; None if they are not known as formulas.
    """

    def __init__(self, example: Array, shape: Sequence[int], compute: Callable[[Sequence[int]], Array], places: Iterable[int]) -> None:
        self.example, self.shape, self._compute, self.places = example, tuple(shape), compute, frozenset(places)
        self.numbers: tuple[int, ...] | None = None
        self._last: tuple[Sequence[int], Array] | None = None
        self._limits: list[tuple[int | None, int]] = []
        """The columns of indices, or None for all elements, each with the size of the axis."""

    @classmethod
    def of(cls, numbers: Iterable[int], shape: Sequence[int], dtype: Any = np.int64) -> Any:
        """An array of these elements: one of NumPy if none is symbolic.

        Args:
            numbers: the elements in order.
            shape: the sizes, which are known.
            dtype: the type of integers.
        """
        listed = tuple(numbers)
        example = np.array([number.example if is_symbolic(number) else number for number in listed], dtype).reshape(shape)
        places = [(at, number.place) for at, number in enumerate(listed) if is_symbolic(number)]
        if not places:
            return example

        def compute(values: Sequence[int]) -> Array:
            array = example.copy()
            for at, place in places:
                array.flat[at] = values[place]
            return array

        symbolic = cls(example, shape, compute, (place for _, place in places))
        symbolic.numbers = listed
        return symbolic

    @classmethod
    def of_records(cls, records: Sequence[Sequence[Any]], dtype: np.dtype[np.void]) -> Any:
        """An array of records, each with a number for each field: one of NumPy if none is symbolic."""
        example = np.array([tuple(map(example_size, record)) for record in records], dtype)
        places = [
            (at, name, number.place)
            for at, record in enumerate(records)
            for name, number in zip(dtype.names or (), record, strict=True)
            if is_symbolic(number)
        ]
        if not places:
            return example

        def compute(values: Sequence[int]) -> Array:
            array = example.copy()
            for at, name, place in places:
                array[name][at] = values[place]
            return array

        return cls(example, example.shape, compute, (place for _, _, place in places))

    @classmethod
    def mapped_from(cls, numbers: Sequence[int], function: Callable[[Array], Array], shape: Sequence[int]) -> Any:
        """The result of a function of an array of numbers: a NumPy array if none of them is symbolic.

        Args:
            numbers: the numbers.
            function: makes the array.
            shape: its sizes.
        """
        given = cls.of(numbers, (len(numbers),))
        return given.mapped(function, shape) if isinstance(given, cls) else function(given)

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.example.dtype

    def at(self, values: Sequence[int]) -> Array:
        """The array for the numbers of a trace.

        Raises:
            NoTemplateError: it is not known for these.
        """
        last = self._last
        if last is None or last[0] is not values:
            array = self._compute(values)
            for column, size in self._limits:
                indices = array if column is None else array[..., column]
                if not are_indices(indices, values[size.place] if is_symbolic(size) else size):
                    raise NoTemplateError
            last = self._last = values, array  # several arrays may follow from this one
        return last[1]

    def limit_indices(self, size: int, column: int | None = None) -> None:
        """Has arrays for other numbers refused that are no indices along an axis.

        Args:
            size: the size of the axis, which may be symbolic.
            column: the elements that are its indices, along the last dimension; None for all.
        """
        self._limits.append((column, size))
        if is_symbolic(size):
            self.places |= {size.place}

    def fixed(self) -> Array:
        """The array for the example, which then must not change."""
        specialize_all()
        return self.example

    def mapped(self, function: Callable[[Array], Array], shape: Sequence[int]) -> SizedArray:
        """The result of a function of the array.

        Args:
            function: makes arrays of arrays.
            shape: the sizes of the result.
        """
        return SizedArray(function(self.example), shape, lambda values: function(self.at(values)), self.places)

    def __array__(self, *_: Any, **__: Any) -> NoReturn:
        raise NoTemplateError


class SizedBytes(bytes):
    """The bytes of a `SizedArray`, padded to a multiple of 4: those for the example, which is what code that does not know them reads.

    Attributes:
        array: the array.
        length: how many there are, which may be symbolic.
    """

    array: SizedArray
    length: int

    @classmethod
    def of(cls, array: SizedArray) -> SizedBytes:
        """The bytes of an array."""
        copy = cls(_padded(array.example))
        copy.array, copy.length = array, -(-prod(array.shape) * array.dtype.itemsize // 4) * 4
        return copy

    @property
    def places(self) -> frozenset[int]:
        """The places of the array's `SizedArray`."""
        return self.array.places

    def at(self, values: Sequence[int]) -> bytes:
        """The bytes for the numbers of a trace, as `SizedArray.at`."""
        return _padded(self.array.at(values))


def _padded(array: Array) -> bytes:
    return array.tobytes() + bytes(-array.nbytes % 4)


def are_indices(array: Array, size: int) -> bool:
    """Whether all elements are indices along an axis; negative ones count from its end."""
    return not array.size or bool(-size <= array.min() <= array.max() < size)


def example_array(array: Any) -> Array:
    """The array for the example's sizes, for what does not depend on it."""
    example: Array = array.example if isinstance(array, SizedArray) else array
    return example
