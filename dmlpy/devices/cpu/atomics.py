"""Integers in memory that several threads change: operations that no other thread's comes between."""

from __future__ import annotations

from typing import Any

from numba import types
from numba.extending import intrinsic

from dmlpy.devices.cpu.simd import ADDRESS


@intrinsic
def exchange_integer(context: Any, address: Any, expected: Any, value: Any) -> Any:
    """Replaces the integer at an address if it is as expected; returns what was there."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        place = builder.inttoptr(arguments[0], ADDRESS.as_pointer())
        found = builder.cmpxchg(place, arguments[1], arguments[2], "acq_rel", "acquire")
        return builder.extract_value(found, 0)

    return types.int64(types.int64, types.int64, types.int64), generate


@intrinsic
def add_integer(context: Any, address: Any, value: Any) -> Any:
    """Adds to the integer at an address; returns what was there."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.atomic_rmw("add", builder.inttoptr(arguments[0], ADDRESS.as_pointer()), arguments[1], "acq_rel")

    return types.int64(types.int64, types.int64), generate
