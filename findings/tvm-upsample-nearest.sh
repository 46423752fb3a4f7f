#!/usr/bin/env bash
# TVM 0.27.0's ONNX importer doubles [0, 1, 2, 3, 4] by an Upsample of opset 7, mode nearest, to [0, 0, 1, 2, 2, 2, 3, 4, 4, 4].
#
# Doubled, each element stands twice, as in ONNX's node test upsample_nearest and in ONNX Runtime 1.32.0, which rounds x / scale down. TVM rounds
# x / 2 to the nearest, halves to even numbers, so that elements 1 and 3 stand once and 2 and 4 three times. The node test has two elements,
# where both ways are the same. Nothing is said. (An Upsample of opset 9 is refused.)
set -euo pipefail
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
python3 -m pip install -q --target "$root/packages" onnx==1.23.2 onnxruntime==1.32.0 apache-tvm==0.27.0.post1
cat >"$root/run.py" <<'PYTHON'
import numpy as np
import onnx
import onnxruntime
import tvm
from onnx import TensorProto, helper
from tvm import relax
from tvm.relax.frontend.onnx import from_onnx

for elements in (2, 5):
    node = helper.make_node("Upsample", ["x"], ["y"], mode="nearest", scales=[1.0, 1.0, 1.0, 2.0])
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 1, 1, size * elements]) for name, size in (("x", 1), ("y", 2))]
    graph = helper.make_graph([node], "g", values[:1], values[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 7)], ir_version=4)
    onnx.checker.check_model(model)
    x = np.arange(elements, dtype=np.float32).reshape(1, 1, 1, elements)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    right = session.run(None, {"x": x})[0].ravel()
    machine = relax.VirtualMachine(tvm.compile(relax.transform.LegalizeOps()(from_onnx(model)), target="llvm"), tvm.cpu())
    found = machine["main"](tvm.runtime.tensor(x)).numpy().ravel()
    print(f"{elements} elements doubled: TVM {tvm.__version__} {found}, onnxruntime {onnxruntime.__version__} {right}")
    assert np.array_equal(right, x.ravel().repeat(2))
    assert np.array_equal(found, np.minimum(np.rint(np.arange(2 * elements) / 2), elements - 1))
PYTHON
PYTHONPATH="$root/packages" python3 "$root/run.py"
