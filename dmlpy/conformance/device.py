"""A DirectML device on a Direct3D 12 adapter, which accepts or rejects a desc."""

from __future__ import annotations

import ctypes
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

from dmlpy.conformance import interfaces
from dmlpy.conformance.com import (
    POINTER,
    S_OK,
    ComObject,
    HresultError,
    create,
    hresult_name,
)
from dmlpy.conformance.layout import UINT, UINT64, operator_struct
from dmlpy.description.enums import Feature, FeatureLevel
from dmlpy.messages.hresult import HResult
from dmlpy.messages.problems import DmlError

if TYPE_CHECKING:
    from types import TracebackType

    from dmlpy.conformance.libraries import Libraries
    from dmlpy.description.descs import OperatorDesc

D3D_FEATURE_LEVEL_11_0 = 0xB000
_NO_FLAGS, _DEBUG = 0, 1
_MOST_MESSAGES = 8


class _LevelQuery(ctypes.Structure):
    """DML_FEATURE_QUERY_FEATURE_LEVELS."""

    _fields_: ClassVar[list[tuple[str, Any]]] = [("RequestedFeatureLevelCount", UINT), ("RequestedFeatureLevels", POINTER)]


class BindingPropertiesStruct(ctypes.Structure):
    """DML_BINDING_PROPERTIES."""

    _fields_: ClassVar[list[tuple[str, Any]]] = [
        ("RequiredDescriptorCount", UINT),
        ("TemporaryResourceSize", UINT64),
        ("PersistentResourceSize", UINT64),
    ]


class _AdapterDesc(ctypes.Structure):
    """DXGI_ADAPTER_DESC1."""

    _fields_: ClassVar[list[tuple[str, Any]]] = [
        ("Description", ctypes.c_uint16 * 128),
        ("VendorId", UINT),
        ("DeviceId", UINT),
        ("SubSysId", UINT),
        ("Revision", UINT),
        ("DedicatedVideoMemory", ctypes.c_size_t),
        ("DedicatedSystemMemory", ctypes.c_size_t),
        ("SharedSystemMemory", ctypes.c_size_t),
        ("AdapterLuid", UINT * 2),
        ("Flags", UINT),
    ]


class _Message(ctypes.Structure):
    """D3D12_MESSAGE."""

    _fields_: ClassVar[list[tuple[str, Any]]] = [
        ("Category", UINT),
        ("Severity", UINT),
        ("ID", UINT),
        ("pDescription", ctypes.c_char_p),
        ("DescriptionByteLength", ctypes.c_size_t),
    ]


@dataclass(frozen=True)
class Verdict:
    """DirectML's response to a desc.

    Attributes:
        hresult: the name of the first failure, else `S_OK`.
        call: the method that failed; empty if none did.
        descriptors: the descriptors that a dispatch needs, where the desc is accepted.
        temporary: the bytes of its temporary resource.
        persistent: the bytes of its persistent resource.
        messages: what the debug layer says, where there is one.
    """

    hresult: str
    call: str = ""
    descriptors: int = 0
    temporary: int = 0
    persistent: int = 0
    messages: tuple[str, ...] = ()

    @property
    def accepted(self) -> bool:
        """Whether the operator was created and compiled."""
        return not self.call


class RemovedError(DmlError):
    """The device was removed: it answers nothing any more."""


class Device:
    """A DirectML device, as a context manager.

    Attributes:
        adapter: the adapter's name.
        has_debug_layer: whether the debug layer is on.
        d3d12: the ID3D12Device.
        dml: the IDMLDevice.

    Args:
        libraries: the libraries.
        level: the lowest feature level that the device must have.
        hardware: the first GPU in place of the software adapter (WARP).
        debug: the debug layer, where it is installed.

    Raises:
        DmlError: there is no such adapter, or DirectML does not know the level.
    """

    def __init__(self, libraries: Libraries, level: FeatureLevel, *, hardware: bool = False, debug: bool = True) -> None:
        self._stack = ExitStack()
        with ExitStack() as opening:
            create_device = libraries.function("DMLCreateDevice1")
            if debug:
                _enable_debug_layer(libraries)
            adapter = opening.enter_context(_adapter(libraries, hardware=hardware))
            self.adapter = _adapter_name(adapter)
            create_d3d12 = libraries.function("D3D12CreateDevice")
            self.d3d12 = create(create_d3d12, interfaces.D3D12_DEVICE, adapter.address, D3D_FEATURE_LEVEL_11_0)
            opening.push(self.d3d12)
            self.dml, self.has_debug_layer = self._create(create_device, level, libraries.file, debug=debug)
            opening.push(self.dml)
            self._queue = self.d3d12.query(interfaces.INFO_QUEUE) if self.has_debug_layer else None
            if self._queue is not None:
                opening.push(self._queue)
            self._stack = opening.pop_all()

    def _create(self, function: Any, level: FeatureLevel, file: str, *, debug: bool) -> tuple[ComObject, bool]:
        for flags in (_DEBUG, _NO_FLAGS) if debug else (_NO_FLAGS,):
            try:
                return create(function, interfaces.DML_DEVICE, self.d3d12.address, flags, int(level)), flags == _DEBUG
            except HresultError as error:
                if error.result == HResult.DXGI_ERROR_UNSUPPORTED:
                    needed = f"DirectML {level.directml_version} or newer is needed"
                    raise DmlError(f"{file} does not know feature level {level}: {needed}") from error
                if flags == _NO_FLAGS:
                    raise  # otherwise the debug layer is missing, or an old DirectML needs that of Direct3D 12
        raise AssertionError("one of the two attempts returns or raises")

    def highest_level(self) -> FeatureLevel:
        """The highest feature level that dmlpy and DirectML both know.

        Raises:
            DmlError: there is none.
        """
        for level in reversed(FeatureLevel):  # one by one: an old DirectML may refuse a list with a level that it does not know
            wanted, highest = ctypes.c_int32(level), ctypes.c_int32()
            query = _LevelQuery(1, ctypes.addressof(wanted))
            sizes = ctypes.sizeof(query), ctypes.sizeof(highest)
            arguments = (Feature.FEATURE_LEVELS, sizes[0], ctypes.byref(query), sizes[1], ctypes.byref(highest))
            if self.dml.call("CheckFeatureSupport", *arguments) == S_OK and highest.value == level:
                return level
        raise DmlError("DirectML reports none of the feature levels that dmlpy knows")

    def check(self, desc: OperatorDesc) -> Verdict:
        """Creates and compiles an operator.

        Raises:
            DescError: the C structs cannot hold the desc.
            RemovedError: the device was removed.
        """
        struct = operator_struct(desc)
        try:
            with self.compile(struct) as compiled:
                properties = binding_properties(compiled)
        except HresultError as error:
            response = Verdict(hresult_name(error.result), error.call, messages=tuple(self._messages()))
        else:
            response = Verdict(
                "S_OK",
                "",
                properties.RequiredDescriptorCount,
                properties.TemporaryResourceSize,
                properties.PersistentResourceSize,
                tuple(self._messages()),
            )
        self.check_removed()
        return response

    def compile(self, struct: ctypes.Structure) -> ComObject:
        """Creates and compiles the operator of a DML_OPERATOR_DESC.

        Raises:
            HresultError: DirectML refuses it.
        """
        with self.dml.create(interfaces.OPERATOR, "CreateOperator", ctypes.byref(struct)) as created:
            return self.dml.create(interfaces.COMPILED_OPERATOR, "CompileOperator", created.address, _NO_FLAGS)

    def check_removed(self) -> None:
        """Raises RemovedError if the device was removed."""
        for device in (self.dml, self.d3d12):
            reason = device.call("GetDeviceRemovedReason")
            if reason != S_OK:
                raise RemovedError(f"the device was removed: {hresult_name(reason)}")

    def _messages(self) -> list[str]:
        """The texts of the debug layer since the last call."""
        if self._queue is None:
            return []
        texts = []
        for index in range(min(self._queue.call("GetNumStoredMessages"), _MOST_MESSAGES)):
            length = ctypes.c_size_t()
            self._queue.call("GetMessage", index, None, ctypes.byref(length))
            memory = ctypes.create_string_buffer(max(length.value, ctypes.sizeof(_Message)))
            if self._queue.call("GetMessage", index, memory, ctypes.byref(length)) == S_OK:
                texts.append((_Message.from_buffer(memory).pDescription or b"").decode("utf-8", "replace"))
        self._queue.call("ClearStoredMessages")
        return texts

    def close(self) -> None:
        """Releases the device."""
        self._stack.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self.close()


def binding_properties(dispatchable: ComObject) -> BindingPropertiesStruct:
    """The binding properties of a compiled operator or an initializer."""
    properties = BindingPropertiesStruct()
    dispatchable.call("GetBindingProperties", ctypes.byref(properties))
    return properties


def _enable_debug_layer(libraries: Libraries) -> None:
    """Turns Direct3D 12's debug layer on where it is installed: it collects DirectML's messages."""
    try:
        debug = create(libraries.function("D3D12GetDebugInterface"), interfaces.D3D12_DEBUG)
    except HresultError:
        return
    with debug:
        debug.call("EnableDebugLayer")


def _adapter(libraries: Libraries, *, hardware: bool) -> ComObject:
    with create(libraries.function("CreateDXGIFactory2"), interfaces.FACTORY, _NO_FLAGS) as factory:
        if not hardware:
            try:
                return factory.create(interfaces.ADAPTER, "EnumWarpAdapter")
            except HresultError as error:
                result = hresult_name(error.result)
                raise DmlError(f"Windows has no software adapter (WARP; {result}): use --hardware on a machine with a GPU") from error
        place = POINTER()
        hresult = factory.call("EnumAdapters1", 0, ctypes.byref(place))
        if hresult != S_OK:
            raise DmlError(f"Windows has no adapter ({hresult_name(hresult)}): leave out --hardware to use the software adapter (WARP)")
        return ComObject(interfaces.ADAPTER, place.value or 0)


def _adapter_name(adapter: ComObject) -> str:
    adapter_desc = _AdapterDesc()
    adapter.checked("GetDesc1", ctypes.byref(adapter_desc))
    return bytes(adapter_desc.Description).decode("utf-16-le").partition("\0")[0]
