"""The compiled NONZERO_COORDINATES: coordinates are written for each element, over those of the one before if that was zero."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from llvmlite import ir

from dmlpy.devices.cpu.compiler import types
from dmlpy.devices.cpu.compiler.functions import intrinsic, jit
from dmlpy.devices.cpu.indexing.nonzero_plan import NonzeroParameters
from dmlpy.devices.cpu.movement.kernels import fill, long_at, set_long
from dmlpy.devices.cpu.quantized.byte_product_kernels import set_quad
from dmlpy.devices.cpu.simd import ADDRESS, struct_view

if TYPE_CHECKING:
    from dmlpy.devices.cpu.thread_pool import TaskBody

_WORD = 4


def _bits_at(width: int) -> Any:
    """The intrinsic that loads an element's bits."""
    kind = ir.IntType(8 * width)

    @intrinsic
    def load(address: Any) -> Any:
        def generate(builder: Any, arguments: Any) -> Any:
            value = builder.load(builder.inttoptr(arguments[0], kind.as_pointer()), align=width)
            return value if kind == ADDRESS else builder.zext(value, ADDRESS)

        return types.int64(types.int64), generate

    return load


def build_nonzero(width: int) -> TaskBody:
    """Builds the search, to be compiled. It runs on one thread.

    Args:
        width: bytes of an element.
    """
    bits_at, parameters_at, repeat = _bits_at(width), struct_view(NonzeroParameters), fill

    @jit
    def search(p: NonzeroParameters, x: Any, target: Any) -> Any:
        """Writes the coordinates of a row's elements, and returns where the next ones go."""
        # In variables: what is written might be the parameters, for all that LLVM knows.
        outer, columns, step, mask, indices = p.dimensions - 1, p.columns, p.column, p.mask, p.indices
        size = (outer + 1) * _WORD
        if outer == 1:
            row = long_at(indices)
            for column in range(columns):
                set_quad(target, row)
                set_quad(target + _WORD, column)
                target += size if bits_at(x + column * step) & mask != 0 else 0
        else:
            for column in range(columns):
                for dimension in range(outer):
                    set_quad(target + dimension * _WORD, long_at(indices + dimension * 8))
                set_quad(target + outer * _WORD, column)
                target += size if bits_at(x + column * step) & mask != 0 else 0
        return target

    def find(parameters: Any, thread: Any, threads: Any, sync: Any, epoch: Any) -> None:
        p = parameters_at(parameters)
        x, target, size = p.x, p.coordinates, p.dimensions * _WORD
        for dimension in range(p.dimensions):
            set_long(p.indices + dimension * 8, 0)
        for _ in range(p.rows):
            target = search(p, x, target)
            dimension = p.dimensions - 2
            while dimension >= 0:
                index, stride = long_at(p.indices + dimension * 8) + 1, long_at(p.strides + dimension * 8)
                x += stride
                if index < long_at(p.sizes + dimension * 8):
                    set_long(p.indices + dimension * 8, index)
                    dimension = -1
                else:
                    x -= index * stride
                    set_long(p.indices + dimension * 8, 0)
                    dimension -= 1
        found = (target - p.coordinates) // size
        set_quad(p.count, found)
        if target < p.coordinates + p.size:
            set_quad(target, 0)
            repeat(target, target, _WORD, p.coordinates + p.size - target)

    return find
