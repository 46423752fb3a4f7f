#!/usr/bin/env bash
# CuPy 14.2.0: its wheel holds the CUDA runtime inside its modules; no libcudart.so belongs to the process.
#
# The extra [ctk] installs nvidia-cuda-runtime with a libcudart.so.13, but no module of CuPy names it among the libraries that it needs: the
# runtime is linked in statically. A function of the runtime that CuPy does not bind, such as cudaThreadExchangeStreamCaptureMode, cannot be
# called beside it by loading libcudart: that is a second runtime. The driver's library, libcuda.so.1, is the same for all.
set -euo pipefail
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
python3 -m pip install -q --target "$root/packages" --no-deps cupy-cuda13x==14.2.0 pyelftools==0.32
cat >"$root/run.py" <<'PYTHON'
import pathlib
import sys
from importlib.metadata import version

from elftools.elf.elffile import ELFFile

needed = set()
for file in sorted(pathlib.Path(sys.argv[1]).rglob("*.so")):
    if "cupy" not in str(file.relative_to(sys.argv[1])).split("/")[0]:
        continue
    with file.open("rb") as stream:
        section = ELFFile(stream).get_section_by_name(".dynamic")
        needed |= {tag.needed for tag in section.iter_tags("DT_NEEDED")} if section else set()
print("CuPy", version("cupy-cuda13x"), "needs", sorted(needed))
assert "libnvrtc.so.13" in needed and not any("cudart" in name for name in needed)
PYTHON
PYTHONPATH="$root/packages" python3 "$root/run.py" "$root/packages"
