"""Operators that NumPy computes by their definition in `dmlpy.reference`, on whole arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property, partial
from math import isqrt, prod
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.description.arrays import arrays_at
from dmlpy.description.bfloat16 import in_other_type
from dmlpy.description.enums import DataType
from dmlpy.description.int4 import pack_tensor, unpack_tensor
from dmlpy.devices.host.blas import with_limited_blas
from dmlpy.devices.host.floating_point import without_warnings
from dmlpy.devices.numpy.plans import COMPUTE
from dmlpy.devices.plan import ArrayPlan, Launch, Pointers
from dmlpy.reference.registry import definition, why_undefined

if TYPE_CHECKING:
    from dmlpy.description.descs import OperatorDesc
    from dmlpy.description.tensors import TensorDesc

Array = np.ndarray[Any, np.dtype[Any]]
Reader = Callable[[Array], Array]
"""Converts a tensor's memory to the array that definitions read."""
Store = Callable[[Array, Any], bool]
"""store(output, result) stores a result, and returns True, or returns False for a kind of result that it does not store."""

_WITH_PRODUCTS = ("matrix", "convolution", "attention", "quantized")
"""The families of operators that multiply matrices."""


def _multiplications(desc: OperatorDesc) -> int:
    """Estimates the multiplications of a product of the largest tensors; exact for matrices [m, k], [k, n] and [m, n]."""
    counts = sorted((tensor.element_count for tensor in desc.tensors().values()), reverse=True)
    return isqrt(prod(counts[:3]))


_MOVING = frozenset(
    {
        *("DEPTH_TO_SPACE", "DEPTH_TO_SPACE1", "DIAGONAL_MATRIX1", "ELEMENT_WISE_IF", "GATHER", "GATHER_ELEMENTS", "GATHER_ND"),
        *("GATHER_ND1", "JOIN", "MAX_UNPOOLING", "ONE_HOT", "PADDING", "PADDING1", "REVERSE_SUBSEQUENCES", "SCATTER", "SCATTER_ND"),
        *("SLICE", "SLICE1", "SLICE_GRAD", "SPACE_TO_DEPTH", "SPACE_TO_DEPTH1", "SPLIT", "TILE", "UNFOLD"),
    }
)
"""The operators that compute nothing of their elements: FLOAT16 is moved as it is."""


_ROUNDED_ONCE: Mapping[str, np.ufunc] = {
    "ELEMENT_WISE_ADD": np.add,
    "ELEMENT_WISE_MULTIPLY": np.multiply,
    "ELEMENT_WISE_SUBTRACT": np.subtract,
}
"""Operators that are one operation of IEEE 754 for each element: NumPy's result is the same wherever it is written."""


class WholePlan(ArrayPlan):
    """An operator on whole arrays. NumPy allocates its temporaries.

    Args:
        desc: a checked desc.
        largest_product: the multiplications of its largest matrix product; None estimates them by the tensors' sizes.
    """

    def __init__(self, desc: OperatorDesc, largest_product: int | None = None) -> None:
        # Definitions read arrays, whose elements are converted: they are not to know of BFLOAT16.
        self._desc = in_other_type(desc, DataType.FLOAT32) if desc.has_bfloat16 else desc
        function = definition(type(desc))
        assert function is not None
        self._function = function
        slots = [(slot, slot.tensor) for slot in desc.slots() if slot.tensor is not None]
        # A type that needs a missing package is an error here, not in the first call.
        self._memories = [(slot.place, tensor.memory, tensor.memory.data_type.numpy) for slot, tensor in slots]
        self._outputs = [slot for slot, _ in slots if slot.field.marker.output]
        self._packs = {slot.place: tensor for slot, tensor in slots if slot.field.marker.output and tensor.data_type.bits == 4}
        self._moves = desc.short_name() in _MOVING
        self._inputs = [(slot.place, slot.field, tensor) for slot, tensor in slots if not slot.field.marker.output]
        self._given_product = largest_product
        is_converted = any(self._conversion(tensor) is not None for _, _, tensor in self._inputs)
        self._ufunc = None if is_converted else _ROUNDED_ONCE.get(desc.short_name())
        self._absent: dict[str, Any] = {field.name: () if field.listed else None for field in desc.inputs()}

    @cached_property
    def _arrays_at(self) -> list[tuple[str, Callable[[int], Array]]]:
        """For each tensor its place, and a function from its address to its array."""
        return [(place, arrays_at(memory.sizes, dtype, memory.element_strides)) for place, memory, dtype in self._memories]

    @cached_property
    def _product(self) -> int:
        """The multiplications of the largest matrix product."""
        if self._given_product is not None:
            return self._given_product
        return _multiplications(self._desc) if self._desc.family() in _WITH_PRODUCTS else 0

    def describe(self) -> str:
        allocated = "; temporaries are allocated in each dispatch" if self._ufunc is None else ""
        return f"NumPy, whole arrays, {COMPUTE} arithmetic{allocated}"

    def bind(self, tensors: Pointers, temporary: int, persistent: int | None) -> Launch:
        return self.bind_arrays({place: array_at(tensors[place]) for place, array_at in self._arrays_at})

    def bind_arrays(self, arrays: Mapping[str, Array]) -> Launch:
        outputs = [(slot.place, arrays[slot.place], self._store(slot.tensor)) for slot in self._outputs if slot.tensor is not None]
        readers = {place: self._conversion(tensor) for place, _, tensor in self._inputs}
        # Arrays that need no conversion are the same in each launch.
        inputs = self._read(arrays, readers) if not any(readers.values()) else None

        _, only, only_store = outputs[0]

        def compute_one() -> None:
            result = self._only_result(self._read(arrays, readers) if inputs is None else inputs)
            if only_store is None or not only_store(only, result):
                only[...] = result

        def compute() -> None:
            results = self._computed(self._read(arrays, readers) if inputs is None else inputs)
            for place, output, store in outputs:
                # A result may be a view of an input that shares memory with an output: NumPy's assignment takes care of overlaps.
                # It converts as it writes: an array of converted results might find no memory when other outputs are written.
                packs = self._packs.get(place)
                if packs is not None:
                    output[...] = pack_tensor(results[place], packs)
                elif store is None or not store(output, results[place]):
                    output[...] = results[place]

        if self._ufunc is not None and inputs is not None:
            written = partial(self._ufunc, inputs["a_tensor"], inputs["b_tensor"], out=only)
            return lambda stream: without_warnings(written)
        work = compute_one if len(outputs) == 1 and not self._packs and self._outputs[0].index is None else compute
        return with_limited_blas(lambda stream: without_warnings(work), self._product)

    def _conversion(self, tensor: TensorDesc) -> Reader | None:
        """The conversion of a tensor's memory to the array that definitions read; None if it is that array."""
        if tensor.data_type is DataType.FLOAT16:
            return None if self._moves else self._halves_reader(tensor)
        if tensor.data_type is DataType.BFLOAT16:
            return lambda data: data.astype(COMPUTE)
        return (lambda data: unpack_tensor(data, tensor)) if tensor.data_type.bits == 4 else None

    def _halves_reader(self, tensor: TensorDesc) -> Reader:
        """The conversion of a tensor of FLOAT16."""
        return lambda array: array.astype(COMPUTE, copy=False)

    def _store(self, tensor: TensorDesc) -> Store | None:
        """A function that stores results of some kinds in a tensor; None if NumPy's assignment stores all."""
        return None

    def _read(self, arrays: Mapping[str, Array], readers: Mapping[str, Reader | None]) -> dict[str, Any]:
        """The inputs by field, as the operator's function takes them."""
        inputs = self._absent.copy()
        for place, field, _ in self._inputs:
            convert = readers[place]
            array = arrays[place] if convert is None else convert(arrays[place])
            if field.listed:
                inputs[field.name] += (array,)
            else:
                inputs[field.name] = array
        return inputs

    def _only_result(self, inputs: Mapping[str, Any]) -> Any:
        """The output of an operator that has only one: an array, or a scalar to be repeated over all elements."""
        result = self._function(self._desc, inputs)
        if isinstance(result, np.ndarray) or not isinstance(result, Mapping):
            return result
        return result[self._outputs[0].field.name]

    def _computed(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """The outputs by place: arrays, or scalars to be repeated over all elements."""
        results = self._function(self._desc, inputs)
        if isinstance(results, np.ndarray) or not isinstance(results, Mapping):
            return {self._outputs[0].place: results}
        arrays: dict[str, Any] = {}
        for slot in self._outputs:
            value = results[slot.field.name]
            arrays[slot.place] = value if slot.index is None else value[slot.index]
        return arrays


def whole_plan(desc: OperatorDesc, kind: type[WholePlan] = WholePlan) -> WholePlan | None:
    """The plan of a kind for a checked desc; None if its operator has no definition."""
    return kind(desc) if why_undefined(desc) is None else None
