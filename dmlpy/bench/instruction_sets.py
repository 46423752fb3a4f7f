"""Libraries limited to an instruction set that is smaller than the processor's, as on a processor without AVX-512.

Each library decides for itself by what the processor says it has, and most of those that do can be told to take less by environment
variables of their process. ONNX Runtime reads none. OpenVINO and JAX read some, but multiply matrices with AVX-512 all the same.
"""

from __future__ import annotations

from dmlpy.devices.cpu.llvm import MAX_ISA

_ONEDNN = "ONEDNN_MAX_CPU_ISA"
_OPENBLAS_AND_NUMPY = {
    "OPENBLAS_CORETYPE": "Haswell",
    "NPY_DISABLE_CPU_FEATURES": "X86_V4 AVX512F AVX512CD AVX512_SKX AVX512_CLX AVX512_CNL AVX512_ICL AVX512_SPR",
}
LIMITS: dict[str, dict[str, dict[str, str]]] = {
    "AVX2": {
        **{name: {MAX_ISA: "AVX2", **_OPENBLAS_AND_NUMPY} for name in ("dmlpy", "dmlpy-numpy", "dmlpy-one-thread")},
        # ATen's kernels, oneDNN's, MKL's and FBGEMM's
        "torch": {"ATEN_CPU_CAPABILITY": "avx2", _ONEDNN: "AVX2", "MKL_ENABLE_INSTRUCTIONS": "AVX2", "FBGEMM_ENABLE_INSTRUCTIONS": "AVX2"},
    }
}
"""The environment variables that limit a library, by the instruction set and the library's name in records."""


def variables_of(library: str, max_isa: str | None) -> dict[str, str]:
    """The environment variables that limit a library's process; empty if there is no limit, or the library has no such setting."""
    return {} if max_isa is None else LIMITS[max_isa].get(library, {})


def is_limited(library: str, max_isa: str | None) -> bool:
    """Whether a library can be limited to an instruction set; each one can where there is no limit."""
    return max_isa is None or library in LIMITS[max_isa]
