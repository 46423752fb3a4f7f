"""Runs a compiled operator on the arrays of a call: small ones on the host are copied into memory that is bound, all others are bound."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.description.dlpack import tensor_of
from dmlpy.devices.memory.reserve import Reserve
from dmlpy.devices.staged_calls import Stages

if TYPE_CHECKING:
    from dmlpy.description.tensors import TensorDesc
    from dmlpy.devices import CompiledOperator

MAX_STAGED = 1 << 20
"""The most bytes of a call, scratch included, that are copied: copying so many takes no longer than binding the arrays would."""

Prepared = Callable[[Sequence[Any]], Any]
"""Runs a call on its operands, in the order in which the call has them."""


@dataclass(frozen=True)
class Operand:
    """An input of the operator, and the operand of the call that it is.

    Attributes:
        place: its place in the desc.
        index: which of the operands.
        given: the layout of the operand.
        taken: the layout that the operator reads, which may repeat dimensions.
        is_number: whether the operand is a number; `given` is then the tensor of one element that holds it.
    """

    place: str
    index: int
    given: TensorDesc
    taken: TensorDesc
    is_number: bool = False


def prepare_call(
    compiled: CompiledOperator, operands: Sequence[Operand], arrays: Sequence[Any], wrap: Callable[[list[Any]], Any]
) -> Prepared:
    """Prepares an operator for calls on operands like these."""
    tensors = [*compiled.desc.tensors().values()]
    is_plain = all(type(arrays[operand.index]) is np.ndarray or operand.is_number for operand in operands)
    is_small = sum(tensor.extent_in_bytes for tensor in tensors) + compiled.binding_properties.temporary_resource_size <= MAX_STAGED
    has_unpacked = any(tensor.data_type.bits == 4 for tensor in tensors)
    if compiled.device.memory_kind == "cpu" and is_plain and is_small and not has_unpacked and not compiled._tables.reserves:
        return _StagedCall(compiled, operands, wrap)
    return _BoundCall(compiled, operands, wrap)


class _StagedCall:
    """Copies the operands into memory that is bound to a dispatch, and the results out of it."""

    def __init__(self, compiled: CompiledOperator, operands: Sequence[Operand], wrap: Callable[[list[Any]], Any]) -> None:
        self._indices, self._wrap = [operand.index for operand in operands], wrap
        self._integers = [
            (place, operand.index) for place, operand in enumerate(operands) if operand.is_number and "INT" in operand.given.data_type.name
        ]
        self._stages = Stages(compiled, [(operand.place, operand.given, operand.taken) for operand in operands])

    def __call__(self, arrays: Sequence[Any]) -> Any:
        stage = self._stages.take()
        for target, index in zip(stage.inputs, self._indices, strict=True):
            target[...] = arrays[index]
        for place, index in self._integers:
            if stage.inputs[place][0] != arrays[index]:
                raise ValueError("a fraction as an integer")
        stage.dispatch()
        results = [None if output is None else output.copy() for output in stage.outputs.values()]
        self._stages.give(stage)
        return self._wrap(results)


class _BoundCall:
    """Calls the operator on the arrays where they are. The results belong to the first operand's library."""

    def __init__(self, compiled: CompiledOperator, operands: Sequence[Operand], wrap: Callable[[list[Any]], Any]) -> None:
        self._compiled, self._operands, self._wrap = compiled, operands, wrap

    def __call__(self, arrays: Sequence[Any]) -> Any:
        torch = sys.modules.get("torch")
        is_torch = torch is not None and any(isinstance(array, torch.Tensor) for array in arrays)
        device, stream = self._compiled.device, None
        if torch is not None and is_torch and device.memory_kind == "cuda":
            stream = torch.cuda.current_stream(device.name).cuda_stream
        values = {operand.place: self._value(operand, arrays[operand.index], stream) for operand in self._operands}
        outputs = self._compiled(stream=stream, **values).as_dict()
        results: list[Any] = []
        for field in self._compiled.desc.outputs():
            value = outputs.get(field.name)
            results += value if field.listed and value is not None else [value]
        if torch is not None and is_torch:
            results = [result if result is None or isinstance(result, Reserve) else tensor_of(torch, result) for result in results]
        return self._wrap(results)

    def _value(self, operand: Operand, value: Any, stream: int | None) -> Any:
        """An operand as the array that the operator reads, which is freed for later work of the stream."""
        if operand.is_number:
            number = np.array([value], operand.given.data_type.numpy)
            if "INT" in operand.given.data_type.name and number[0] != value:
                raise ValueError("a fraction as an integer")
            value = self._compiled.device.from_host(number, stream)
        if operand.given is operand.taken or operand.given == operand.taken:
            return value
        library = sys.modules[type(value).__module__.partition(".")[0]]
        if not hasattr(library, "broadcast_to"):  # an array that is known by its interface only
            library, value = np, np.asarray(value)
        return library.broadcast_to(value, operand.taken.sizes)
