"""The compiled functions of small tensors: one kernel for all functions, types and layouts, element by element."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.devices.cpu.compiler.functions import jit
from dmlpy.devices.cpu.elementwise.small_plan import Function, Kind, SmallParameters
from dmlpy.devices.cpu.quantized.byte_product_kernels import byte_at, quad_at, set_byte, set_quad
from dmlpy.devices.cpu.simd import float_at, integer_at, set_float, set_integer, struct_view

if TYPE_CHECKING:
    from dmlpy.devices.cpu.thread_pool import TaskBody

_INT8, _UINT8, _INT32, _UINT32, _INT64, _FLOAT32 = map(int, Kind)
_CONVERT, _ADD, _SUBTRACT, _MULTIPLY, _MIN, _MAX, _EQUAL, _LESS, _LESS_OR_EQUAL, _AND, _OR, _XOR, _NOT, _SELECT = map(int, Function)


@jit
def _integer(address: Any, kind: Any) -> Any:
    """Loads an element as an integer: of FLOAT32 its bits."""
    value = 0
    if kind == _INT64:
        value = integer_at(address)
    elif kind == _UINT8:
        value = byte_at(address)
    elif kind == _INT8:
        value = (byte_at(address) ^ 128) - 128
    elif kind == _UINT32:
        value = quad_at(address) & 0xFFFFFFFF
    else:
        value = quad_at(address)
    return value


@jit
def _store(address: Any, kind: Any, value: Any) -> None:
    """Stores the low bits of an integer."""
    if kind == _INT64:
        set_integer(address, value)
    elif kind in (_UINT8, _INT8):
        set_byte(address, value)
    else:
        set_quad(address, value)


@jit
def _compared(function: Any, kind: Any, a: Any, b: Any) -> Any:
    """Whether elements compare as a function says."""
    found = False
    if kind == _FLOAT32:
        x, y = float_at(a), float_at(b)
        found = x == y if function == _EQUAL else (x < y if function == _LESS else x <= y)
    else:
        own, other = _integer(a, kind), _integer(b, kind)
        found = own == other if function == _EQUAL else (own < other if function == _LESS else own <= other)
    return 1 if found else 0


@jit
def _truth(function: Any, x: Any, y: Any) -> Any:
    """A function of truth values, which are true unless 0."""
    a, b = 1 if x != 0 else 0, 1 if y != 0 else 0
    return a & b if function == _AND else (a | b if function == _OR else (a ^ b if function == _XOR else 1 - a))


@jit
def _number(function: Any, x: Any, y: Any) -> Any:
    """A function of integers."""
    found = x
    if function == _ADD:
        found = x + y
    elif function == _SUBTRACT:
        found = x - y
    elif function == _MULTIPLY:
        found = x * y
    elif function == _MIN:
        found = min(x, y)
    elif function == _MAX:
        found = max(x, y)
    return found


def build_small() -> TaskBody:
    """Builds the functions, to be compiled. They run on one thread."""
    parameters_at = struct_view(SmallParameters)

    def small(parameters: Any, thread: Any, threads: Any, sync: Any, epoch: Any) -> None:
        p = parameters_at(parameters)
        for row in range(p.rows):
            for column in range(p.columns):
                a, b = p.a + row * p.a_row + column * p.a_column, p.b + row * p.b_row + column * p.b_column
                target = p.y + row * p.y_row + column * p.y_column
                value = 0
                if p.function >= _EQUAL and p.function <= _LESS_OR_EQUAL:
                    value = _compared(p.function, p.a_kind, a, b)
                elif p.function == _SELECT:
                    value = _integer(a if byte_at(p.c + row * p.c_row + column * p.c_column) != 0 else b, p.a_kind)
                else:
                    value, other = _integer(a, p.a_kind), 0
                    if p.function != _CONVERT and p.function != _NOT:
                        other = _integer(b, p.b_kind)
                    value = _truth(p.function, value, other) if p.function >= _AND else _number(p.function, value, other)
                if p.y_kind == _FLOAT32 and p.function != _SELECT:
                    set_float(target, np.float32(value))
                else:
                    _store(target, p.y_kind, value)

    return small
