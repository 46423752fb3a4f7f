#!/usr/bin/env bash
# nnef-tools 1.0.11's interpreter divides softmax over several axes by the sum of the inputs in place of their exponentials.
#
# NNEF's softmax takes a list of axes. With one axis the interpreter is right. With two, exponentials less the maximum are divided by the sum of x
# itself: "probabilities" that do not sum to 1, negative where that sum is negative. selu has lambda and alpha as arguments; the interpreter takes the
# usual values, whatever the graph says. Nothing is reported.
set -euo pipefail
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
python3 -m pip install -q --target "$root/packages" nnef==1.0.10 nnef-tools==1.0.11 onnx==1.23.2 torch==2.13.0
cat >"$root/run.py" <<'PYTHON'
import pathlib
import sys

import numpy as np
from nnef_tools.interpreter.pytorch import Interpreter

x = np.random.default_rng(1).standard_normal((1, 2, 3, 3)).astype(np.float32)


def result(operation: str) -> np.ndarray:
    folder = pathlib.Path(sys.argv[1]) / "graph"
    folder.mkdir(exist_ok=True)
    body = f"x = external<scalar>(shape = {list(x.shape)}); y = {operation};"
    (folder / "graph.nnef").write_text(f"version 1.0; graph g(x) -> (y) {{ {body} }}")
    return np.asarray(Interpreter(str(folder))([x])["y"])


one, two = result("softmax(x, axes = [3])"), result("softmax(x, axes = [2, 3])")
print("sums over one axis", one.sum(3).ravel().round(3), "over two", two.sum((2, 3)).ravel().round(3), "sums of x", x.sum((2, 3)).ravel().round(3))
exponentials = np.exp(x - x.max((2, 3), keepdims=True))
assert np.allclose(one.sum(3), 1, atol=1e-5) and np.abs(two.sum((2, 3)) - 1).min() > 0.1
assert np.allclose(two, exponentials / x.sum((2, 3), keepdims=True), rtol=1e-3)

usual = [1.67326319, 1.05070102]
for alpha, scale in ([1.67326319, 1.05070102], [2.0, 3.0]):
    found = result(f"selu(x, alpha = {alpha}, lambda = {scale})")
    right = scale * np.where(x > 0, x, alpha * np.expm1(x))
    print(f"selu with alpha {alpha} and lambda {scale}: {found.ravel()[:3].round(3)}, formula {right.ravel()[:3].round(3)}")
    assert np.allclose(found, right, atol=1e-5) == ([alpha, scale] == usual)
PYTHON
PYTHONPATH="$root/packages" python3 "$root/run.py" "$root"
