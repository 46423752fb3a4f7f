"""`OperatorCall`: a compiled operator on PyTorch's tensors. On the CPU small ones are copied into memory that is bound once for all calls.

A call of such an operator takes a few microseconds, and binding its tensors several hundred.
"""

from __future__ import annotations

from ctypes import memmove
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from dmlpy.description.arrays import Buffer, array_at
from dmlpy.description.enums import DataType
from dmlpy.devices import Device
from dmlpy.devices import device as find_device
from dmlpy.nn.idle_pool import DISPATCH_BYTES, IDLE
from dmlpy.nn.kept_weights import KeptWeights

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dmlpy.devices import CompiledOperator, Dispatch

KINDS = {"cpu": "cpu", "cuda": "cuda"}
"""The device that runs tensors, by their device's type."""
DATA_TYPES = {
    torch.float32: DataType.FLOAT32,
    torch.float16: DataType.FLOAT16,
    torch.bfloat16: DataType.BFLOAT16,
    torch.int32: DataType.INT32,
    torch.uint64: DataType.UINT64,
}
_TORCH_TYPES = {data_type: dtype for dtype, data_type in DATA_TYPES.items()}

_MOST_STAGED_BYTES = 8 << 20
"""The most bytes of tensors and scratch that are copied: copying so many takes no longer than binding them."""
_MOST_PARAMS = 4
"""The parameters for which memory is bound at once: they are read where they are."""
_PARAMS = "params"


@cache
def device_of(device: torch.device) -> Device:
    """The device that runs tensors on one of PyTorch's."""
    kind = KINDS[device.type]
    return find_device(kind if device.index is None else f"{kind}:{device.index}")


class OperatorCall:
    """A compiled operator with the memory that its calls allocate. Equal calls share one.

    PyTorch allocates all of it, scratch too, so that one allocator manages the GPU's memory, and allocations during the capture of a CUDA
    graph come from the graph's private pool, which is reserved as long as the graph exists.
    """

    def __init__(self, operator: CompiledOperator, device: torch.device) -> None:
        desc, self.operator, self._place = operator.desc, operator, device
        self._scratch = self.operator.binding_properties.temporary_resource_size
        self._outputs = [
            (field.name, tensor.sizes, tensor.element_strides, _TORCH_TYPES[tensor.data_type])
            for field in desc.outputs()
            if (tensor := getattr(desc, field.name)) is not None
        ]

    def __call__(self, tensors: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """Runs on PyTorch's current stream, over the tensors' memory and new outputs, which are returned by name."""
        outputs = self.new_outputs()
        stream = torch.cuda.current_stream(self._place).cuda_stream if self._place.type == "cuda" else None
        scratch = self.new_scratch()
        arguments: dict[str, Any] = {**tensors, **outputs}
        self.operator(stream=stream, temporary=None if scratch is None else _buffer(scratch), **arguments)
        return outputs  # frees the scratch to PyTorch, which reuses it only for later work in this stream

    def new_outputs(self) -> dict[str, torch.Tensor]:
        """Memory for the outputs by name."""
        return {name: torch.empty_strided(sizes, strides, dtype=dtype, device=self._place) for name, sizes, strides, dtype in self._outputs}

    def new_scratch(self) -> torch.Tensor | None:
        """Memory for the scratch; None if there is none."""
        return torch.empty(self._scratch, dtype=torch.uint8, device=self._place) if self._scratch else None


class StagedCall(OperatorCall):
    """A call on the host that copies the tensors into memory of its own, and the results out of it; the parameters are read in place.

    The desc's inputs are packed: a copy takes tensors of any strides.
    """

    @staticmethod
    def may_copy(size: int) -> bool:
        """Whether a size in bytes is below the limit."""
        return size <= _MOST_STAGED_BYTES

    @classmethod
    def takes(cls, operator: CompiledOperator) -> bool:
        """Whether an operator's tensors are so few bytes that copying them pays."""
        copied = sum(tensor.extent_in_bytes for name, tensor in operator.desc.tensors().items() if name != _PARAMS)
        return cls.may_copy(copied + operator.binding_properties.temporary_resource_size)

    def __call__(self, tensors: Mapping[str, torch.Tensor | None]) -> dict[str, torch.Tensor]:
        """Runs over copies of the tensors, of which None counts as zeros, and returns new outputs by name."""
        stage: _Stage | None = IDLE.take(self)
        if stage is None:
            with torch.inference_mode(False):  # else later calls could not write into it
                stage = _Stage(self)
        results = stage.run(tensors)
        IDLE.put(self, stage)  # not after an error, which may have left a dispatch in the middle of its work
        return results


@dataclass
class _Bound:
    """The dispatches for the parameters at an address.

    Attributes:
        params: the parameters' bytes, at that address.
        packs: packs the parameters.
        reads: reads what was packed last, whatever the parameters are; None until it is needed.
    """

    params: np.ndarray[Any, np.dtype[Any]]
    packs: Dispatch
    reads: Dispatch | None = None


class _Memory:
    """A tensor's memory, to be written to and copied.

    Attributes:
        tensor: the tensor, which is dense.
    """

    def __init__(self, tensor: torch.Tensor) -> None:
        self.tensor = tensor
        self._address, self._size = tensor.data_ptr(), tensor.nbytes
        self._is_zero = False

    def fill(self, tensor: torch.Tensor | None) -> None:
        """Copies another tensor's elements into this one, which is contiguous; None is zeros."""
        if tensor is None:
            if not self._is_zero:
                self.tensor.zero_()
                self._is_zero = True
            return
        self._is_zero = False
        # In a third of the time of `copy_`. Elements that are to be negated, or are zeros without memory, are not what lies there.
        if tensor.is_contiguous() and not tensor.is_neg() and (source := tensor.data_ptr()):
            memmove(self._address, source, self._size)
        else:
            self.tensor.copy_(tensor)

    def copy(self) -> torch.Tensor:
        """A copy with the same strides."""
        return self.tensor.clone()


class _Stage:
    """The memory of a `StagedCall`, which one thread at a time uses, and the dispatches that are bound to it."""

    def __init__(self, call: StagedCall) -> None:
        self._operator = call.operator
        self._reusing = call.operator.reusing if "reserve_space" not in call.operator.desc.tensors() else None  # training changes weights
        self._inputs = {
            name: _Memory(torch.empty(tensor.sizes, dtype=_TORCH_TYPES[tensor.data_type]))
            for field in call.operator.desc.inputs()
            if (tensor := getattr(call.operator.desc, name := field.name)) is not None and name != _PARAMS
        }
        self._outputs = {name: _Memory(tensor) for name, tensor in call.new_outputs().items()}
        self._scratch = call.new_scratch()
        self._params_bytes = call.operator.desc.tensors()[_PARAMS].extent_in_bytes
        self._dispatches: dict[int, _Bound] = {}
        """By the address of the parameters."""
        self._packed = KeptWeights()
        staged = [memory.tensor for memory in (*self._inputs.values(), *self._outputs.values())]
        self._bytes = sum(tensor.nbytes for tensor in staged) + (0 if self._scratch is None else self._scratch.nbytes)

    @property
    def bytes(self) -> int:
        """The size of the memory, and about that of the dispatches."""
        return self._bytes + self._packed.bytes

    def run(self, tensors: Mapping[str, torch.Tensor | None]) -> dict[str, torch.Tensor]:
        """Runs once, and returns new outputs by name."""
        params = tensors[_PARAMS]
        assert params is not None
        address = params.data_ptr()
        bound = self._dispatches.get(address)
        if bound is None:
            bound = self._bind(address)
        for name, memory in self._inputs.items():
            memory.fill(tensors[name])
        if self._reusing is None:
            bound.packs()
        elif self._packed.are(None, [bound.params]):
            bound.reads = bound.reads or self._dispatch(self._reusing, address)
            bound.reads()
        else:
            self._packed.note(None, [bound.params])
            bound.packs()
            self._packed.settle()
        return {name: memory.copy() for name, memory in self._outputs.items()}

    def _bind(self, address: int) -> _Bound:
        params = array_at(address, (self._params_bytes,), np.dtype(np.uint8), (1,))
        bound = _Bound(params, self._dispatch(self._operator, address))
        if len(self._dispatches) == _MOST_PARAMS:
            oldest = self._dispatches.pop(next(iter(self._dispatches)))
            self._bytes -= DISPATCH_BYTES * (1 if oldest.reads is None else 2)
        self._dispatches[address] = bound
        return bound

    def _dispatch(self, operator: CompiledOperator, address: int) -> Dispatch:
        inputs = {name: memory.tensor for name, memory in self._inputs.items()} | {_PARAMS: Buffer(address, self._params_bytes)}
        outputs = {name: memory.tensor for name, memory in self._outputs.items()}
        self._bytes += DISPATCH_BYTES
        return operator.bind(inputs, outputs, temporary=None if self._scratch is None else _buffer(self._scratch))


def _buffer(memory: torch.Tensor) -> Buffer:
    return Buffer(memory.data_ptr(), memory.nbytes)
