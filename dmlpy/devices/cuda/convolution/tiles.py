"""The tiles of `convolve_tiles` and how long they take: which tile a convolution gets, and whether its operands are copied before.

Instructions are those that a warp executes in a turn of the loop over pieces: tests/devices/cuda/test_executed_instructions.py reads
them from machine code.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from dmlpy.devices.cuda.gpu_model import CAPTURED_LAUNCH_US
from dmlpy.devices.cuda.tile_products import TILE_THREADS, WIDE_BYTES

if TYPE_CHECKING:
    from dmlpy.devices.cuda.convolution.geometry import Geometry
    from dmlpy.devices.cuda.gpu_model import Factors, GpuModel

_LINE_BYTES = 64
"""Of a line of a piece."""
_STAGES = 3
MOST_TERMS_WITHOUT_TOTALS = 8192
"""The most terms that tensor cores sum up without a total: what they cut off stays below the rounding of a half, or of a TF32 factor."""
_BLOCKS_TOGETHER = 2
"""Blocks of a multiprocessor, at least."""
_PIECES_UNDER_WAY = 2
_RESULT_INSTRUCTIONS = 12
"""Of a thread for each result that it writes. Model."""
_ELEMENT_INSTRUCTIONS = 25
"""Of a thread for each element that it copies alone. Model."""


@dataclass(frozen=True)
class Tile:
    """A tile of output channels and pixels: the sums that `convolve_tiles` is instantiated with.

    Attributes:
        sums: the C++ type.
        side: output channels, and pixels.
        factors: what is multiplied.
        instructions: of a warp, for a piece.
        tap_instructions: the same where a piece begins another tap, beside them.
        totals: whether sums of some terms are added to totals.
    """

    sums: str
    side: int
    factors: Factors
    instructions: int
    tap_instructions: int
    totals: bool = True

    @property
    def shared_bytes(self) -> int:
        """Dynamic shared memory of a block: the stages of both operands, through which the sums pass at last."""
        return _STAGES * 2 * self.side * _LINE_BYTES

    def us(self, geometry: Geometry, size: int, gpu: GpuModel, *, wide: bool) -> float:
        """Microseconds of a launch, memory left out.

        Args:
            geometry: of the convolution.
            size: bytes of an element.
            gpu: the model.
            wide: whether operands are copied 16 bytes at a time, or element by element: those of a thread's lines together, and then the
                next ones.
        """
        flops = 2 * self.side * self.side * (_LINE_BYTES // size)
        rates = {"half": gpu.mma, "tf32": gpu.mma_tf32, "float": gpu.fma, "int8": gpu.peaks["int8"]}
        terms, rounds = geometry.terms_of_tap(size, wide=wide), -(-geometry.tiles(self.side) // gpu.multiprocessors)
        pieces = -(-geometry.phase_taps * terms * size // _LINE_BYTES)
        waiting = gpu.l2_cycles / min(rounds, _BLOCKS_TOGETHER)
        if wide:
            issued = self.instructions + self.tap_instructions / max(1.0, terms * size / _LINE_BYTES)
            waiting /= _PIECES_UNDER_WAY
        else:
            issued = self.instructions + 2 * self.side * (_LINE_BYTES // size) / TILE_THREADS * _ELEMENT_INSTRUCTIONS
            waiting *= WIDE_BYTES // size
        piece = max(issued, flops / rates[self.factors], 2 * self.side * _LINE_BYTES / gpu.l2_rate, waiting)
        results = self.side * self.side / TILE_THREADS * _RESULT_INSTRUCTIONS
        return gpu.us(rounds * (pieces * piece + results))


HALVES = (Tile("Halves", 64, "half", 93, 93), Tile("ManyHalves", 128, "half", 162, 120, totals=False))
BFLOAT16S = tuple(replace(tile, sums=tile.sums.replace("Halves", "Bfloat16s")) for tile in HALVES)
TF32 = (Tile("Tf32", 64, "tf32", 153, 93), Tile("ManyTf32", 128, "tf32", 301, 129, totals=False))
FLOATS = (Tile("WholeFloats", 64, "float", 855, 95),)


def byte_tile(sums: str) -> Tile:
    """The tile of sums of bytes, whose types differ."""
    return Tile(sums, 64, "int8", 155, 93)


def best_tile(tiles: tuple[Tile, ...], geometry: Geometry, size: int, gpu: GpuModel) -> Tile:
    """The tile that takes the least time."""
    possible = [tile for tile in tiles if tile.totals or geometry.terms <= MOST_TERMS_WITHOUT_TOTALS]
    return min(possible, key=lambda tile: tile.us(geometry, size, gpu, wide=True))


def copies_us(elements: int, size: int, launches: int, gpu: GpuModel) -> float:
    """Microseconds of copies of so many elements."""
    return gpu.memory_us(2 * elements * size) + launches * CAPTURED_LAUNCH_US
