#!/usr/bin/env bash
# ncnn 1.0.20261020's Mat(array) reads the memory of a NumPy array from its first element on, whatever the array's strides are.
#
# A transposed array, one in Fortran's order and an image whose channels were moved to the front by transpose(2, 0, 1), the layout that ncnn wants,
# become a Mat of the right shape with the elements in the wrong places; so does every second column. NumPy's buffer has the strides, and Python's
# buffer protocol tells them ("PEP 3118", "Py_buffer.strides"); NumPy's own np.array(memoryview(array)) keeps to them. clone() copies the wrong Mat.
# np.ascontiguousarray before it helps. Nothing is said.
set -euo pipefail
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
python3 -m pip install -q --target "$root/packages" numpy==2.4.6
python3 -m pip install -q --target "$root/packages" --no-deps ncnn==1.0.20261020
cat >"$root/run.py" <<'PYTHON'
import ncnn
import numpy as np

rows = np.arange(6, dtype=np.float32).reshape(2, 3)
image = np.arange(24, dtype=np.float32).reshape(2, 4, 3)
arrays = {
    "as it is": rows,
    "transposed": rows.T,
    "Fortran's order": np.asfortranarray(rows),
    "every second column": np.arange(12, dtype=np.float32).reshape(2, 6)[:, ::2],
    "channels to the front": image.transpose(2, 0, 1),
}
print("ncnn", ncnn.__version__)
for name, array in arrays.items():
    found = np.array(ncnn.Mat(array).clone())
    print(f"{name}: array {array.ravel()[:6]}, Mat {found.ravel()[:6]}")
    assert found.shape == array.shape and np.array_equal(np.array(memoryview(array)), array)
    assert np.array_equal(found, array) == (name == "as it is")
    assert np.array_equal(np.array(ncnn.Mat(np.ascontiguousarray(array)).clone()), array)
assert np.array_equal(np.array(ncnn.Mat(arrays["channels to the front"]).clone()).ravel(), image.ravel())
PYTHON
PYTHONPATH="$root/packages" python3 "$root/run.py"
