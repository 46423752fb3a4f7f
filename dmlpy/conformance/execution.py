"""One dispatch of an operator on a DirectML device: buffers, bindings, two command lists, and the bytes of the outputs."""

from __future__ import annotations

import ctypes
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, ClassVar, Self

from dmlpy.conformance import interfaces
from dmlpy.conformance.com import POINTER, ComObject
from dmlpy.conformance.device import binding_properties
from dmlpy.conformance.layout import UINT, UINT64, operator_struct

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dmlpy.conformance.device import BindingPropertiesStruct, Device
    from dmlpy.description.descs import OperatorDesc
    from dmlpy.description.tensors import TensorDesc

DEFAULT, UPLOAD, READBACK = 1, 2, 3
"""D3D12_HEAP_TYPE."""
UNORDERED_ACCESS, COPY_DEST, COPY_SOURCE, GENERIC_READ = 0x8, 0x400, 0x800, 0xAC3
"""D3D12_RESOURCE_STATES."""
_TRANSITION, _UAV = 0, 2
_ALLOW_UNORDERED_ACCESS = 4
_BUFFER, _ROW_MAJOR = 1, 1
_BINDING_BUFFER = 1
_DIRECT = 0
_SHADER_VISIBLE = 1
_ALL_SUBRESOURCES = 0xFFFFFFFF
POISON = 0xCD
"""The byte that outputs hold before the dispatch."""

Fields = list[tuple[str, Any]]


class _QueueDesc(ctypes.Structure):
    """D3D12_COMMAND_QUEUE_DESC."""

    _fields_: ClassVar[Fields] = [("Type", UINT), ("Priority", UINT), ("Flags", UINT), ("NodeMask", UINT)]


class _DescriptorHeapDesc(ctypes.Structure):
    """D3D12_DESCRIPTOR_HEAP_DESC."""

    _fields_: ClassVar[Fields] = [("Type", UINT), ("NumDescriptors", UINT), ("Flags", UINT), ("NodeMask", UINT)]


class _HeapProperties(ctypes.Structure):
    """D3D12_HEAP_PROPERTIES."""

    _fields_: ClassVar[Fields] = [
        ("Type", UINT),
        ("CPUPageProperty", UINT),
        ("MemoryPoolPreference", UINT),
        ("CreationNodeMask", UINT),
        ("VisibleNodeMask", UINT),
    ]


class _ResourceDesc(ctypes.Structure):
    """D3D12_RESOURCE_DESC."""

    _fields_: ClassVar[Fields] = [
        ("Dimension", UINT),
        ("Alignment", UINT64),
        ("Width", UINT64),
        ("Height", UINT),
        ("DepthOrArraySize", ctypes.c_uint16),
        ("MipLevels", ctypes.c_uint16),
        ("Format", UINT),
        ("SampleCount", UINT),
        ("SampleQuality", UINT),
        ("Layout", UINT),
        ("Flags", UINT),
    ]


class _Barrier(ctypes.Structure):
    """D3D12_RESOURCE_BARRIER: of a transition, and of unordered access, which has the resource only."""

    _fields_: ClassVar[Fields] = [
        ("Type", UINT),
        ("Flags", UINT),
        ("pResource", POINTER),
        ("Subresource", UINT),
        ("StateBefore", UINT),
        ("StateAfter", UINT),
    ]


class _BufferBinding(ctypes.Structure):
    """DML_BUFFER_BINDING."""

    _fields_: ClassVar[Fields] = [("Buffer", POINTER), ("Offset", UINT64), ("SizeInBytes", UINT64)]


class _BindingDesc(ctypes.Structure):
    """DML_BINDING_DESC. All zeros is one of type NONE."""

    _fields_: ClassVar[Fields] = [("Type", UINT), ("Desc", POINTER)]


class _BindingTableDesc(ctypes.Structure):
    """DML_BINDING_TABLE_DESC."""

    _fields_: ClassVar[Fields] = [
        ("Dispatchable", POINTER),
        ("CPUDescriptorHandle", UINT64),
        ("GPUDescriptorHandle", UINT64),
        ("SizeInDescriptors", UINT),
    ]


def run(device: Device, desc: OperatorDesc, inputs: Sequence[bytes | None]) -> list[bytes | None]:
    """Runs an operator once. No input may be owned by DirectML.

    Args:
        device: the device.
        desc: a desc that DirectML accepts.
        inputs: the bytes of each input slot's tensor, from its first element on; None for slots without a tensor.

    Returns:
        The bytes of each output slot's tensor, likewise.

    Raises:
        HresultError: a call failed.
        RemovedError: the device was removed, as it is after wrong bindings.
    """
    with _Execution(device, desc) as execution:
        return execution.run(inputs)


class _Execution:
    """The objects of one dispatch, as a context manager."""

    def __init__(self, device: Device, desc: OperatorDesc) -> None:
        self.device = device
        self.input_tensors = [slot.tensor for slot in desc.input_slots()]
        self.output_tensors = [slot.tensor for slot in desc.output_slots()]
        self._kept: list[Any] = []
        self._fence_value = 0
        self._stack = ExitStack()
        with ExitStack() as stack:
            self._stack = stack
            self.compiled = self._kept_until_exit(device.compile(operator_struct(desc)))
            self.needs = binding_properties(self.compiled)
            operators = (POINTER * 1)(self.compiled.address)
            self.initializer = self._create(device.dml, interfaces.OPERATOR_INITIALIZER, "CreateOperatorInitializer", 1, operators)
            self.initializer_needs = binding_properties(self.initializer)
            self.queue = self._create(device.d3d12, interfaces.COMMAND_QUEUE, "CreateCommandQueue", ctypes.byref(_QueueDesc(_DIRECT)))
            self.fence = self._create(device.d3d12, interfaces.FENCE, "CreateFence", 0, 0)
            self.recorder = self._create(device.dml, interfaces.COMMAND_RECORDER, "CreateCommandRecorder")
            count = max(self.needs.RequiredDescriptorCount, self.initializer_needs.RequiredDescriptorCount, 1)
            heap_desc = _DescriptorHeapDesc(0, count, _SHADER_VISIBLE)
            self.heap = self._create(device.d3d12, interfaces.DESCRIPTOR_HEAP, "CreateDescriptorHeap", ctypes.byref(heap_desc))
            self._stack = stack.pop_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def run(self, inputs: Sequence[bytes | None]) -> list[bytes | None]:
        persistent = self._area(self.needs.PersistentResourceSize)
        self._submit(lambda commands: self._initialize(commands, persistent))
        input_buffers = [
            None if tensor is None else self._filled(tensor, data or b"") for tensor, data in zip(self.input_tensors, inputs, strict=True)
        ]
        results = [None if tensor is None else self._filled(tensor, b"") for tensor in self.output_tensors]
        read = [None if buffer is None else self._buffer(_whole(size), READBACK, COPY_DEST) for buffer, size in self._sized(results)]

        def dispatch_and_copy(commands: ComObject) -> None:
            self._dispatch(commands, persistent, input_buffers, results)
            # In the list of the dispatch: between lists a buffer decays to the state COMMON.
            self._copy_back(commands, results, read)

        self._submit(dispatch_and_copy)
        return [None if buffer is None else self._read(buffer, size) for buffer, size in self._sized(read)]

    def _sized(self, buffers: Sequence[ComObject | None]) -> list[tuple[ComObject | None, int]]:
        """The buffers of the outputs, with the bytes of each tensor."""
        sizes = [0 if tensor is None else tensor.size_in_bytes for tensor in self.output_tensors]
        return list(zip(buffers, sizes, strict=True))

    def _initialize(self, commands: ComObject, persistent: ComObject | None) -> None:
        table = self._table(self.initializer, self.initializer_needs)
        temporary = self._area(self.initializer_needs.TemporaryResourceSize)
        if temporary is not None:
            table.call("BindTemporaryResource", self._binding(temporary, self.initializer_needs.TemporaryResourceSize))
        if persistent is not None:
            table.call("BindOutputs", 1, self._binding(persistent, self.needs.PersistentResourceSize))
        self._record(commands, self.initializer, table)

    def _dispatch(
        self, commands: ComObject, persistent: ComObject | None, input_buffers: list[ComObject | None], results: list[ComObject | None]
    ) -> None:
        table = self._table(self.compiled, self.needs)
        for name, buffers, tensors in (("BindInputs", input_buffers, self.input_tensors), ("BindOutputs", results, self.output_tensors)):
            if buffers:
                table.call(name, len(buffers), self._bindings(buffers, tensors))
        temporary = self._area(self.needs.TemporaryResourceSize)
        if temporary is not None:
            table.call("BindTemporaryResource", self._binding(temporary, self.needs.TemporaryResourceSize))
        if persistent is not None:
            table.call("BindPersistentResource", self._binding(persistent, self.needs.PersistentResourceSize))
        self._record(commands, self.compiled, table)

    def _copy_back(self, commands: ComObject, results: list[ComObject | None], read: list[ComObject | None]) -> None:
        for source, target, tensor in zip(results, read, self.output_tensors, strict=True):
            if source is not None and target is not None and tensor is not None:
                self._transition(commands, source, UNORDERED_ACCESS, COPY_SOURCE)
                commands.call("CopyBufferRegion", target.address, 0, source.address, 0, _whole(tensor.size_in_bytes))

    def _record(self, commands: ComObject, what: ComObject, table: ComObject) -> None:
        commands.call("SetDescriptorHeaps", 1, (POINTER * 1)(self.heap.address))
        self.recorder.call("RecordDispatch", commands.address, what.address, table.address)
        commands.call("ResourceBarrier", 1, ctypes.byref(_Barrier(_UAV)))

    def _table(self, what: ComObject, needs: BindingPropertiesStruct) -> ComObject:
        handles = UINT64(), UINT64()
        self.heap.call("GetCPUDescriptorHandleForHeapStart", ctypes.byref(handles[0]))
        self.heap.call("GetGPUDescriptorHandleForHeapStart", ctypes.byref(handles[1]))
        desc = _BindingTableDesc(what.address, handles[0].value, handles[1].value, needs.RequiredDescriptorCount)
        return self._create(self.device.dml, interfaces.BINDING_TABLE, "CreateBindingTable", ctypes.byref(desc))

    def _binding(self, buffer: ComObject, size: int) -> Any:
        area = _BufferBinding(buffer.address, 0, size)
        self._kept.append(area)
        return ctypes.byref(_BindingDesc(_BINDING_BUFFER, ctypes.addressof(area)))

    def _bindings(self, buffers: Sequence[ComObject | None], tensors: Sequence[TensorDesc | None]) -> ctypes.Array[_BindingDesc]:
        bindings = (_BindingDesc * len(buffers))()
        for index, (buffer, tensor) in enumerate(zip(buffers, tensors, strict=True)):
            if buffer is not None and tensor is not None:
                area = _BufferBinding(buffer.address, 0, tensor.size_in_bytes)
                self._kept.append(area)
                bindings[index] = _BindingDesc(_BINDING_BUFFER, ctypes.addressof(area))
        return bindings

    def _area(self, size: int) -> ComObject | None:
        """A buffer for a temporary or a persistent resource; None if it needs none."""
        return self._buffer(_whole(size), DEFAULT, UNORDERED_ACCESS) if size else None

    def _filled(self, tensor: TensorDesc, data: bytes) -> ComObject:
        """A buffer for a tensor, with its first bytes and then poison."""
        size = _whole(tensor.size_in_bytes)
        upload, filled = self._buffer(size, UPLOAD, GENERIC_READ), self._buffer(size, DEFAULT, COPY_DEST)
        contents = data.ljust(size, bytes([POISON]))
        place = POINTER()
        upload.checked("Map", 0, None, ctypes.byref(place))
        ctypes.memmove(place, contents, size)
        upload.call("Unmap", 0, None)

        def copy(commands: ComObject) -> None:
            commands.call("CopyBufferRegion", filled.address, 0, upload.address, 0, size)
            self._transition(commands, filled, COPY_DEST, UNORDERED_ACCESS)

        self._submit(copy)
        return filled

    def _read(self, buffer: ComObject, size: int) -> bytes:
        place = POINTER()
        buffer.checked("Map", 0, None, ctypes.byref(place))
        data = ctypes.string_at(place.value or 0, size)
        buffer.call("Unmap", 0, None)
        return data

    def _buffer(self, size: int, heap: int, state: int) -> ComObject:
        flags = _ALLOW_UNORDERED_ACCESS if heap == DEFAULT else 0
        properties = _HeapProperties(heap, 0, 0, 1, 1)
        desc = _ResourceDesc(_BUFFER, 0, size, 1, 1, 1, 0, 1, 0, _ROW_MAJOR, flags)
        arguments = (ctypes.byref(properties), 0, ctypes.byref(desc), state, None)
        return self._create(self.device.d3d12, interfaces.RESOURCE, "CreateCommittedResource", *arguments)

    @staticmethod
    def _transition(commands: ComObject, buffer: ComObject, before: int, after: int) -> None:
        barrier = _Barrier(_TRANSITION, 0, buffer.address, _ALL_SUBRESOURCES, before, after)
        commands.call("ResourceBarrier", 1, ctypes.byref(barrier))

    def _submit(self, record: Callable[[ComObject], None]) -> None:
        """Records a command list, executes it, and waits for its end."""
        allocator = self._create(self.device.d3d12, interfaces.COMMAND_ALLOCATOR, "CreateCommandAllocator", _DIRECT)
        arguments = (0, _DIRECT, allocator.address, None)
        commands = self._create(self.device.d3d12, interfaces.COMMAND_LIST, "CreateCommandList", *arguments)
        record(commands)
        commands.checked("Close")
        self.queue.call("ExecuteCommandLists", 1, (POINTER * 1)(commands.address))
        self._fence_value += 1
        self.queue.checked("Signal", self.fence.address, self._fence_value)
        self.fence.checked("SetEventOnCompletion", self._fence_value, None)  # without an event it returns when the value is reached
        self.device.check_removed()

    def _create(self, creator: ComObject, interface: Any, name: str, *arguments: Any) -> ComObject:
        return self._kept_until_exit(creator.create(interface, name, *arguments))

    def _kept_until_exit(self, created: ComObject) -> ComObject:
        self._stack.push(created)
        return created


def _whole(size: int) -> int:
    """The bytes of a buffer: at least one element, and whole 32-bit words."""
    return max(4, -(-size // 4) * 4)
