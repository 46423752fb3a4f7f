#!/usr/bin/env bash
# onnx 1.23.2's function body of Attention-24 brings minus infinity to the mask's type: with a mask of UINT8 ONNX Runtime 1.32.0 lets every padded key
# count.
#
# Keys beyond nonpad_kv_seqlen, and keys beyond the columns of a shorter mask, take minus infinity. The body makes it by CastLike of the mask: unsigned
# integers have no such number, so a mask of UINT8 gets 0, and the padding is attended to like all else. UINT32 and UINT64 get what the processor
# makes of the conversion (on x86 the padding alone counts). ONNX's schema takes all integers; ONNX Runtime runs the body for them. onnx's reference
# keeps nonpad_kv_seqlen right and loses the shorter mask as well. With a mask of FLOAT, nothing is lost.
set -euo pipefail
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
python3 -m pip install -q --target "$root/packages" onnx==1.23.2 onnxruntime==1.32.0
cat >"$root/run.py" <<'PYTHON'
import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

# Keys of zeros: all weights are equal, so an output is the mean of the values that are seen. Two of the four are padding.
values = np.array([10, 20, 30, 100], np.float32).reshape(1, 1, 4, 1)


def run(dtype, columns, lengths):
    arrays = {"Q": np.zeros((1, 1, 1, 1), np.float32), "K": np.zeros_like(values), "V": values, "mask": np.zeros((1, columns), dtype)}
    names = ["Q", "K", "V", "mask"]
    if lengths:
        arrays["nonpad_kv_seqlen"] = np.array(lengths)
        names += ["", "", "nonpad_kv_seqlen"]
    inputs = [helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape) for name, array in arrays.items()]
    y = helper.make_tensor_value_info("Y", TensorProto.FLOAT, [1, 1, 1, 1])
    graph = helper.make_graph([helper.make_node("Attention", names, ["Y"])], "g", inputs, [y])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 24)], ir_version=11)
    onnx.checker.check_model(model, full_check=True)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, arrays)[0].item(), ReferenceEvaluator(model).run(None, arrays)[0].item()


print("onnx", onnx.__version__, "onnxruntime", onnxruntime.__version__)
for dtype in (np.float32, np.int32, np.uint8, np.uint32, np.uint64):
    found, reference = run(dtype, 4, [2])
    print(f"nonpad_kv_seqlen 2 of 4, mask of {dtype.__name__}: right 15, ONNX Runtime {found}, onnx's reference {reference}")
    assert reference == 15
    if dtype in (np.float32, np.int32):
        assert found == 15
    else:
        assert found == 40 if dtype is np.uint8 else found != 15
found, reference = run(np.uint8, 2, None)
print(f"two columns for four keys, mask of uint8: right 15, ONNX Runtime {found}, onnx's reference {reference}")
assert found == reference == 40
PYTHON
PYTHONPATH="$root/packages" python3 -W ignore "$root/run.py"
