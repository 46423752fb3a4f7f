"""COM interfaces, whose methods are called by their place in the vtable.

The places count from IUnknown's three methods on, in the order of the headers. All functions have the one calling convention of 64-bit
Windows. A method that returns a struct takes the struct's address behind the object instead, as Microsoft's compiler passes it.
"""

from __future__ import annotations

import ctypes
import uuid
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Final, Self

from dmlpy.messages.hresult import HResult
from dmlpy.messages.problems import DmlError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType

HRESULT: Final = ctypes.c_uint32
POINTER, UINT, INT, UINT64 = ctypes.c_void_p, ctypes.c_uint32, ctypes.c_int32, ctypes.c_uint64
SIZE = ctypes.c_size_t
# 64-bit Windows has one calling convention; WINFUNCTYPE is the name that ctypes has for it there.
PROTOTYPE = getattr(ctypes, "WINFUNCTYPE", ctypes.CFUNCTYPE)

S_OK = 0
DXGI_ERROR_NOT_FOUND = 0x887A0002
_NAMES: Mapping[int, str] = {
    S_OK: "S_OK",
    **{int(result): result.name for result in HResult},
    0x80004002: "E_NOINTERFACE",
    0x80004003: "E_POINTER",
    0x80004005: "E_FAIL",
    0x8000FFFF: "E_UNEXPECTED",
    DXGI_ERROR_NOT_FOUND: "DXGI_ERROR_NOT_FOUND",
    0x887A0006: "DXGI_ERROR_DEVICE_HUNG",
    0x887A0007: "DXGI_ERROR_DEVICE_RESET",
    0x887A0020: "DXGI_ERROR_DRIVER_INTERNAL_ERROR",
    0x887A002D: "DXGI_ERROR_SDK_COMPONENT_MISSING",
}


def hresult_name(value: int) -> str:
    """The name of a result, else its number: `E_INVALIDARG`, `0x80070005`."""
    return _NAMES.get(value, f"0x{value:08X}")


class HresultError(DmlError):
    """A call failed.

    Attributes:
        call: the function or method.
        result: its HRESULT.
    """

    def __init__(self, call: str, hresult: int) -> None:
        super().__init__(f"{call} failed: {hresult_name(hresult)}")
        self.call, self.result = call, hresult


@dataclass(frozen=True)
class Method:
    """A method of an interface.

    Attributes:
        place: its place in the vtable.
        result: the C type of its result; None for none.
        arguments: the C types of its arguments, without the object.
    """

    place: int
    result: Any
    arguments: tuple[Any, ...] = ()


@dataclass(frozen=True)
class Interface:
    """An interface, with the methods that are called here.

    Attributes:
        name: its name in the header.
        iid: its identifier.
        methods: the methods by name.
    """

    name: str
    iid: str
    methods: Mapping[str, Method]

    @property
    def iid_bytes(self) -> bytes:
        """The identifier as the 16 bytes of a GUID."""
        return uuid.UUID(self.iid).bytes_le


RELEASE = Method(2, ctypes.c_uint32)
QUERY_INTERFACE = Method(0, HRESULT, (POINTER, POINTER))


@cache
def _prototype(method: Method) -> Any:
    return PROTOTYPE(method.result, POINTER, *method.arguments)


class ComObject:
    """An object behind an interface. It holds one reference, which `release` or leaving a `with` block returns.

    Args:
        interface: the interface.
        address: the object.
    """

    def __init__(self, interface: Interface, address: int) -> None:
        self.interface = interface
        self.address = address

    def call(self, name: str, *arguments: Any) -> Any:
        """Calls a method and returns its result, of an HRESULT the number."""
        return self._call(self.interface.methods[name], arguments)

    def _call(self, method: Method, arguments: tuple[Any, ...]) -> Any:
        vtable = POINTER.from_address(self.address).value or 0
        function = POINTER.from_address(vtable + ctypes.sizeof(POINTER) * method.place).value
        return _prototype(method)(function)(self.address, *arguments)

    def checked(self, name: str, *arguments: Any) -> None:
        """Calls a method that returns an HRESULT.

        Raises:
            HresultError: it failed.
        """
        check(f"{self.interface.name}::{name}", self.call(name, *arguments))

    def create(self, interface: Interface, name: str, *arguments: Any) -> ComObject:
        """Calls a method whose last two arguments are the identifier of an interface and the place for the new object.

        Raises:
            HresultError: it failed.
        """
        place = POINTER()
        self.checked(name, *arguments, interface.iid_bytes, ctypes.byref(place))
        return ComObject(interface, place.value or 0)

    def query(self, interface: Interface) -> ComObject | None:
        """The same object by another interface; None if it does not have that."""
        place = POINTER()
        hresult = self._call(QUERY_INTERFACE, (interface.iid_bytes, ctypes.byref(place)))
        return None if hresult != S_OK else ComObject(interface, place.value or 0)

    def release(self) -> None:
        """Returns the reference; the object must not be used any more."""
        self._call(RELEASE, ())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self.release()


def check(call: str, hresult: int) -> None:
    """Raises HresultError if a result is a failure."""
    if hresult & 0x80000000:
        raise HresultError(call, hresult)


def create(function: Any, interface: Interface, *arguments: Any) -> ComObject:
    """Calls an exported function whose last two arguments are the identifier of an interface and the place for the new object.

    Raises:
        HresultError: it failed.
    """
    place = POINTER()
    check(function.__name__, function(*arguments, interface.iid_bytes, ctypes.byref(place)))
    return ComObject(interface, place.value or 0)
