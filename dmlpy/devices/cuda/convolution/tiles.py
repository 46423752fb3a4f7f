"""The tiles of `convolve_tiles` and how long they take: which tile a convolution gets, and whether its operands are copied before.

The cycles of a turn of the loop over pieces are those of `kernel_cycles`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from dmlpy.devices.cuda.common.matrix_products import BFLOAT16_CAPABILITY, TF32_CAPABILITY
from dmlpy.devices.cuda.common.tile_products import TILE_THREADS, WIDE_BYTES
from dmlpy.devices.cuda.performance.gpu_model import CAPTURED_LAUNCH_US
from dmlpy.devices.cuda.performance.kernel_cycles import NEXT_TAP, TURN, cycles_of, launch_us, unsure

if TYPE_CHECKING:
    from dmlpy.devices.cuda.convolution.geometry import Geometry
    from dmlpy.devices.cuda.performance.gpu_model import Factors, GpuModel

LINE_BYTES = 64
"""Of a line of a piece."""
_STAGES = 3
MOST_TERMS_WITHOUT_TOTALS = 8192
"""The most terms that tensor cores sum up without a total: what they cut off stays below the rounding of a half, or of a TF32 factor."""
MOST_TERMS_OF_PLAIN_TOTALS = 8192
"""The most terms of floats whose sums of 128 are added up by a float: of terms of one sign, all roundings are less than 2^-17 of it."""
_RESULT_INSTRUCTIONS = 12
"""Of a thread for each result that it writes. Model."""
_ELEMENT_INSTRUCTIONS = 25
"""Of a thread for each element that it copies alone. Model."""


@dataclass(frozen=True)
class Tile:
    """A tile of output channels and pixels: the sums that `convolve_tiles` is instantiated with.

    Attributes:
        sums: the C++ type.
        rows: output channels.
        columns: pixels.
        factors: what is multiplied.
        most_terms: the most that are summed, as roundings add up; None if there is no limit.
        lowest_capability: the first compute capability that multiplies such factors.
    """

    sums: str
    rows: int
    columns: int
    factors: Factors
    most_terms: int | None = None
    lowest_capability: int = 75

    @property
    def shared_bytes(self) -> int:
        """Dynamic shared memory of a block: the stages of both operands, through which the sums pass at last."""
        return _STAGES * (self.rows + self.columns) * LINE_BYTES

    @property
    def cycles_name(self) -> str:
        """The name of its loop in `kernel_cycles`, for all types of such factors."""
        return f"convolution, {self.factors}, {self.rows} x {self.columns}"

    def us(self, geometry: Geometry, size: int, gpu: GpuModel, *, wide: bool) -> float:
        """Microseconds of a launch, memory left out.

        Args:
            geometry: of the convolution.
            size: bytes of an element.
            gpu: the model.
            wide: whether operands are copied 16 bytes at a time, or element by element: those of a thread's lines together, and then the
                next ones.
        """
        usual, next_tap = (cycles_of(self.cycles_name, gpu.capability, way) for way in (TURN, NEXT_TAP))
        tap_bytes, blocks = geometry.terms_of_tap(size, wide=wide) * size, geometry.tiles(self.rows, self.columns)
        pieces = -(-geometry.phase_taps * tap_bytes // LINE_BYTES)
        first_of_taps = min(pieces, geometry.phase_taps)
        ways = [(first_of_taps, next_tap), (pieces - first_of_taps, usual)]
        if not wide:
            elements = (self.rows + self.columns) * (LINE_BYTES // size) / TILE_THREADS * _ELEMENT_INSTRUCTIONS
            waiting = gpu.l2_cycles * (WIDE_BYTES // size)
            ways = [(pieces, tuple(max(waiting, cycles + blocks * elements) for blocks, cycles in enumerate(usual, 1)))]
        results = self.rows * self.columns / TILE_THREADS * _RESULT_INSTRUCTIONS
        ways.append((1, tuple(blocks * results for blocks in range(1, len(usual) + 1))))
        return launch_us(gpu, blocks, ways)


HALVES = (Tile("Halves", 64, 64, "half"), Tile("ManyHalves", 128, 128, "half", MOST_TERMS_WITHOUT_TOTALS))
BFLOAT16S = tuple(replace(tile, sums=tile.sums.replace("Halves", "Bfloat16s"), lowest_capability=BFLOAT16_CAPABILITY) for tile in HALVES)
TF32 = (
    Tile("Tf32", 64, 64, "tf32", lowest_capability=TF32_CAPABILITY),
    Tile("ManyTf32", 128, 128, "tf32", MOST_TERMS_WITHOUT_TOTALS, lowest_capability=TF32_CAPABILITY),
)
FLOATS = (Tile("WholeFloats", 64, 64, "float"), Tile("ManyFloats", 128, 64, "float", MOST_TERMS_OF_PLAIN_TOTALS))


def byte_tile(sums: str) -> Tile:
    """The tile of sums of bytes, whose types differ."""
    return Tile(sums, 64, 64, "int8")


def ranked_tiles(tiles: tuple[Tile, ...], geometry: Geometry, size: int, gpu: GpuModel) -> list[Tile]:
    """The tiles that may take the least time, by the model: the best one first."""
    possible = [tile for tile in tiles if tile.most_terms is None or geometry.terms <= tile.most_terms]
    return [possible[number] for number in unsure([tile.us(geometry, size, gpu, wide=True) for tile in possible])]


def copies_us(elements: int, size: int, launches: int, gpu: GpuModel) -> float:
    """Microseconds of copies of this many elements."""
    return gpu.memory_us(2 * elements * size) + launches * CAPTURED_LAUNCH_US
