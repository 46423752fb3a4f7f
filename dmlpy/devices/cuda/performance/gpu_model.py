"""`GpuModel`: a GPU as figures from which `recurrent.model` and others estimate times.

Nothing here was measured except where a line says so, and nothing queries a GPU. Cycles are of the multiprocessors' clock.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dmlpy.description.tensors import TensorDesc
    from dmlpy.devices.cuda.runtime.interface import Limits

Arithmetic = Literal["half", "tf32", "float"]
"""The arithmetic of a matrix product: FLOAT16 operands, FLOAT32 rounded to TF32, or FLOAT32 itself. Sums are float32."""
Factors = Arithmetic | Literal["int8"]
"""The same, or integers of 8 bits with exact sums."""

FMA_SHARE = 0.8
"""The share of the nominal float32 rate that a loop of multiplications reaches. Model."""
GEMM_SHARE = 0.6
"""The share of the tensor cores' nominal rate that a large matrix product reaches. Model."""


CAPTURED_LAUNCH_US = 1.3
"""Microseconds for a kernel in a CUDA graph. Reported for an H100."""
LAUNCH_US = 3.0
"""Microseconds for a kernel launched by itself after another. Model."""
MEMORY_SHARE = 0.9
"""The share of the memory pins' rate that a copy reaches. Model: 4.3 of an H200's 4.8 TB/s."""
L2_SHARE = 2 / 3
"""The share of the L2 cache that holds what was read last. Model: 40 of an H200's 60 MB."""


@dataclass(frozen=True)
class _Generation:
    """Nominal rates of a compute capability in flops per cycle and multiprocessor, from NVIDIA's data sheets.

    Attributes:
        clock_hz: under load.
        half: the rate of mma.sync with FLOAT16 operands and float32 sums.
        int8: of the tensor cores with operands of 8 bits.
        tf32: of the same with TF32 operands; 0 where there is none.
        fma: the rate of float32.
        mma_share: the share of `half` and `tf32` that mma.sync reaches.
        memory: bytes a second of the GPU's memory.
        l2_cycles: of a load from the L2 cache.
        l2_bytes: its size.
        shared_rate: bytes a cycle from shared memory.
        peak_share: the share of `half`, `int8` and `tf32` that the best products reach; None for that of mma.sync.
    """

    clock_hz: float
    half: int
    int8: int
    tf32: int
    fma: int
    mma_share: float
    memory: float
    l2_cycles: int
    l2_bytes: float
    shared_rate: int = 128
    peak_share: float | None = None


_GENERATIONS = {
    # T4. 1.59 GHz, 65 and 8.1 TFLOP/s, 130 TOP/s of int8; L2 and shared memory: Jia et al., arXiv 1903.07486; memory: 0.85 of 320 GB/s
    # (model).
    75: _Generation(1.59e9, 1024, 2048, 0, 128, 0.9, 0.27e12, 188, 4e6, shared_rate=64),
    # A100. 1.41 GHz, 312, 156 and 19.5 TFLOP/s, 624 TOP/s; memory: 0.9 of 1555 GB/s (model); L2: near and far half (model).
    80: _Generation(1.41e9, 2048, 4096, 1024, 128, 0.9, 1.4e12, 270, 40e6),
    # GeForce 3090. 1.70 GHz, 71, 35.6 and 35.6 TFLOP/s, 284 TOP/s; memory: 0.9 of 936 GB/s (model); L2: model.
    86: _Generation(1.70e9, 512, 2048, 256, 256, 0.9, 0.84e12, 240, 6e6),
    # GeForce 4090. 2.52 GHz, 165, 82.6 and 82.6 TFLOP/s, 660 TOP/s; memory: 0.9 of 1008 GB/s (model); L2: model.
    89: _Generation(2.52e9, 512, 2048, 256, 256, 0.9, 0.91e12, 270, 72e6),
    # H200. 1.98 GHz, memory 4.3 TB/s and L2 60 MB were read on one; 989, 494 and 67 TFLOP/s, 1979 TOP/s; mma.sync's share, L2 near
    # 258 and far 414: Luo et al. A product of 8192 cubed reached 788 TFLOP/s there, of BFLOAT16.
    90: _Generation(1.98e9, 4096, 8192, 2048, 256, 0.63, 4.3e12, 336, 60e6, peak_share=0.737),
    # B200. Clock and memory: 0.9 of 8 TB/s (model); 4500 TOP/s; mma.sync, which is not its fastest instruction, and L2 as on an
    # H200; its own products are twice as fast (model).
    100: _Generation(1.85e9, 4096, 8192, 2048, 256, 0.63, 7.2e12, 336, 126e6, peak_share=1.47),
    # GeForce 5090. 2.41 GHz, 210, 105 and 105 TFLOP/s, 838 TOP/s; memory: 0.9 of 1792 GB/s (model); L2: model.
    120: _Generation(2.41e9, 512, 2048, 256, 256, 0.9, 1.6e12, 270, 96e6),
}


@dataclass(frozen=True)
class GpuModel:
    """A GPU as the model sees it. Rates are per multiprocessor and cycle unless stated otherwise.

    Attributes:
        multiprocessors: P.
        shared_bytes: the shared memory of one block.
        clock_hz: the multiprocessors' clock.
        mma: flop that mma.sync reaches with FLOAT16 operands.
        mma_tf32: the same with TF32 operands; 0 where there are none.
        peaks: flop of the best matrix products, by the arithmetic of their factors.
        gemm: flop that large matrix products reach, FLOAT16.
        gemm_tf32: the same for TF32.
        fma: flop in float32 that a loop reaches.
        special: special functions, two of which make one activation. NVIDIA's programming guide.
        shared_rate: bytes from shared memory.
        l2_rate: bytes from the L2 cache, all multiprocessors reading. Model, over 5.5 TB/s of an H200.
        l2_cycles: of a load from the L2 cache.
        l2_bytes: its size.
        memory: bytes a second of the GPU's memory.
        has_clusters: whether blocks of a cluster reach each other's shared memory.
        capability: the compute capability, at least the lowest that is known.
    """

    multiprocessors: int
    shared_bytes: int
    clock_hz: float
    mma: float
    mma_tf32: float
    peaks: Mapping[Factors, float]
    gemm: float
    gemm_tf32: float
    fma: float
    special: int
    shared_rate: int
    l2_rate: int
    l2_cycles: int
    l2_bytes: float
    memory: float
    has_clusters: bool
    capability: int

    @classmethod
    def of(cls, limits: Limits) -> GpuModel:
        """The model of a device: its reported limits, and the figures of its compute capability or the next lower one."""
        known = max((capability for capability in _GENERATIONS if capability <= limits.compute_capability), default=min(_GENERATIONS))
        generation = _GENERATIONS[known]
        best = generation.peak_share or generation.mma_share
        return cls(
            multiprocessors=limits.multiprocessors,
            shared_bytes=limits.shared_memory_per_block,
            clock_hz=limits.clock_hz or generation.clock_hz,
            mma=generation.mma_share * generation.half,
            mma_tf32=generation.mma_share * generation.tf32,
            peaks={
                "half": best * generation.half,
                "int8": best * generation.int8,
                "tf32": best * generation.tf32,
                "float": FMA_SHARE * generation.fma,
            },
            gemm=GEMM_SHARE * generation.half,
            gemm_tf32=GEMM_SHARE * generation.tf32,
            fma=FMA_SHARE * generation.fma,
            special=16,
            shared_rate=generation.shared_rate,
            l2_rate=21,
            l2_cycles=generation.l2_cycles,
            l2_bytes=limits.l2_bytes or generation.l2_bytes,
            memory=MEMORY_SHARE * limits.memory_rate or generation.memory,
            has_clusters=known >= 90,
            capability=max(known, limits.compute_capability),
        )

    def us(self, cycles: float) -> float:
        """Converts cycles to microseconds."""
        return cycles / self.clock_hz * 1e6

    def memory_us(self, size: float) -> float:
        """The microseconds to move this many bytes to or from the GPU's memory."""
        return size / self.memory * 1e6

    def product_us(self, flops: float, factors: Factors) -> float:
        """The microseconds of products at the best rate, which no kernel is expected to exceed."""
        return self.us(flops / (self.peaks[factors] * self.multiprocessors))

    def gemm_us(self, flops: float, size: float, arithmetic: Arithmetic, parts: int | None = None) -> float:
        """The microseconds of a library's matrix product: its arithmetic or the bytes that it reads, whichever takes longer.

        Args:
            flops: two for each multiplication.
            size: bytes of its matrices.
            arithmetic: the arithmetic of the operands.
            parts: the parts that multiprocessors share, of some 32 by 64 results and 1024 terms; None if there are more than enough.
        """
        rate = {"half": self.gemm, "tf32": self.gemm_tf32, "float": self.fma}[arithmetic] * self.multiprocessors
        if parts is not None:
            rate *= min(1.0, parts / self.multiprocessors)
        read_us = self.us(size / (self.l2_rate * self.multiprocessors)) if size <= self.l2_bytes / 2 else self.memory_us(size)
        return max(self.us(flops / rate), read_us)


def factors_of(tensor: TensorDesc, *, tf32: bool = False) -> Factors:
    """How the elements of a tensor are multiplied; `tf32`: FLOAT32 may be rounded."""
    if tensor.data_type.bits <= 8:
        return "int8"
    return "half" if tensor.data_type.bits == 16 else "tf32" if tf32 else "float"
