#!/usr/bin/env bash
# IREE 3.13.0 gives a QLinearMatMul of three dimensions wrong values where it has zero points.
#
# ONNX: the zero points are subtracted from the elements before they are multiplied. For matrices (two dimensions) IREE does so, and without zero
# points it is right in three dimensions as well; two batches of 2 x 4 and 4 x 3 with zero points of 1 and 2 are off by several steps, INT8 and
# UINT8 alike. Nothing is said. (Compiler for the CPU, import by iree-import-onnx's own module.) iree-org/iree#24583 is about MatMulInteger.
set -euo pipefail
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
python3 -m pip install -q --target "$root/packages" onnx==1.23.2 onnxruntime==1.32.0 iree-base-compiler==3.13.0 iree-base-runtime==3.13.0
cat >"$root/run.py" <<'PYTHON'
import sys

import iree.compiler
import iree.compiler.tools.import_onnx.__main__ as importer
import iree.runtime
import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

root = sys.argv[1]
rng = np.random.default_rng(0)
TYPES = {np.int8: TensorProto.INT8, np.uint8: TensorProto.UINT8}


def both(a: np.ndarray, b: np.ndarray, a_zero: int, b_zero: int) -> tuple[np.ndarray, np.ndarray]:
    """The products in ONNX Runtime and in IREE, with scales of 0.5, 0.25 and 1, and a zero point of 3 for the result."""
    kind = a.dtype.type
    scalars = {"a_scale": np.float32(0.5), "a_zero": kind(a_zero), "b_scale": np.float32(0.25), "b_zero": kind(b_zero), "y_scale": np.float32(1), "y_zero": kind(3)}
    node = helper.make_node("QLinearMatMul", ["a", "a_scale", "a_zero", "b", "b_scale", "b_zero", "y_scale", "y_zero"], ["y"])
    sizes = {"a": a.shape, "b": b.shape, "y": (*a.shape[:-1], b.shape[-1])}
    values = [helper.make_tensor_value_info(name, TYPES[kind], size) for name, size in sizes.items()]
    graph = helper.make_graph([node], "g", values[:2], values[2:], [numpy_helper.from_array(np.asarray(value), name) for name, value in scalars.items()])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 10)], ir_version=8)
    onnx.checker.check_model(model)
    right = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, {"a": a, "b": b})[0]
    onnx.save(model, f"{root}/model.onnx")
    importer.main(importer.parse_arguments([f"{root}/model.onnx", "-o", f"{root}/model.mlir"]))
    arguments = {"target_backends": ["llvm-cpu"], "input_type": "onnx", "extra_args": ["--iree-llvmcpu-target-cpu=host"]}
    module = iree.runtime.load_vm_flatbuffer(iree.compiler.compile_file(f"{root}/model.mlir", **arguments), driver="local-sync")
    return right, module.g(a, b).to_host().view(kind)


def expected(a: np.ndarray, b: np.ndarray, a_zero: int, b_zero: int) -> np.ndarray:
    product = (a.astype(np.int32) - a_zero) @ (b.astype(np.int32) - b_zero)
    limits = np.iinfo(a.dtype)
    return np.clip(np.rint(product * 0.125) + 3, limits.min, limits.max)


for kind in TYPES:
    for batch in ((), (2,)):
        for zeros in ((0, 0), (1, 2)):
            a, b = (rng.integers(0, 18, (*batch, *sizes)).astype(kind) for sizes in ((2, 4), (4, 3)))
            right, found = both(a, b, *zeros)
            print(f"{kind.__name__} {a.shape} zero points {zeros}: ONNX Runtime {right.ravel()[:6]}, IREE {found.ravel()[:6]}")
            assert np.array_equal(right, expected(a, b, *zeros)) and found.shape == right.shape
            assert np.array_equal(right, found) == (batch == () or zeros == (0, 0))
PYTHON
PYTHONPATH="$root/packages" python3 "$root/run.py" "$root"
