"""`HResult`: how DirectML answers in its COM interfaces."""

from __future__ import annotations

import enum


class HResult(enum.IntEnum):
    """The COM result codes of DirectML, for code that interoperates with it."""

    E_INVALIDARG = 0x80070057
    E_OUTOFMEMORY = 0x8007000E
    E_NOTIMPL = 0x80004001
    DXGI_ERROR_UNSUPPORTED = 0x887A0004
    DXGI_ERROR_DEVICE_REMOVED = 0x887A0005
