#!/usr/bin/env bash
# NVRTC 13.0.88: asking for the assembler's statistics changes the compiled image.
#
# `--ptxas-options=-v` prints registers and spills and generates the same instructions. The cubin differs all the same: a note in it records
# the options. Who looks kernels up by the digest of the image, or compares images to show that a change of source changed nothing, sees a
# difference where there is none.
set -euo pipefail
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
python3 -m pip install -q --target "$root/packages" nvidia-cuda-nvrtc==13.0.88
cat >"$root/run.py" <<'PYTHON'
import ctypes
import pathlib
import sys

packages = pathlib.Path(sys.argv[1])
ctypes.CDLL(str(next(packages.rglob("libnvrtc-builtins.so.13.0"))))  # found by its name from then on
library = ctypes.CDLL(str(next(packages.rglob("libnvrtc.so.13"))))
SOURCE = b'extern "C" __global__ void twice(float *x) { x[threadIdx.x] *= 2; }'


def image(*options):
    program, size = ctypes.c_void_p(), ctypes.c_size_t()
    assert library.nvrtcCreateProgram(ctypes.byref(program), SOURCE, b"twice.cu", 0, None, None) == 0
    texts = [b"--gpu-architecture=sm_90", *options]
    assert library.nvrtcCompileProgram(program, len(texts), (ctypes.c_char_p * len(texts))(*texts)) == 0
    assert library.nvrtcGetCUBINSize(program, ctypes.byref(size)) == 0
    data = ctypes.create_string_buffer(size.value)
    assert library.nvrtcGetCUBIN(program, data) == 0
    return data.raw


version = [ctypes.c_int(), ctypes.c_int()]
library.nvrtcVersion(*map(ctypes.byref, version))
plain, again, verbose = image(), image(), image(b"--ptxas-options=-v")
print("NVRTC", f"{version[0].value}.{version[1].value}:", len(plain), "bytes,", len(verbose), "with --ptxas-options=-v")
assert plain == again and plain != verbose
PYTHON
PYTHONPATH="$root/packages" python3 "$root/run.py" "$root/packages"
