#!/usr/bin/env bash
# onnx 1.23.2's inliner drops the default attributes of functions.
#
# A function may have attributes with defaults (FunctionProto.attribute_proto, IR version 9 on); a call that leaves one out takes the default.
# The function below hands its attribute "slope", 0.2 by default, on to LeakyRelu. inline_local_functions leaves LeakyRelu without alpha where
# the call has no slope, so it runs with LeakyRelu's own default of 0.01. Nothing is said. ONNX Runtime 1.32.0 has the model as it is right.
set -euo pipefail
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
python3 -m pip install -q --target "$root/packages" onnx==1.23.2 onnxruntime==1.32.0
cat >"$root/run.py" <<'PYTHON'
import numpy as np
import onnx
import onnxruntime
from onnx import AttributeProto, TensorProto, helper, inliner

leaky = helper.make_node("LeakyRelu", ["x"], ["y"])
leaky.attribute.append(AttributeProto(name="alpha", type=AttributeProto.FLOAT, ref_attr_name="slope"))
opsets = [helper.make_opsetid("", 17)]
function = helper.make_function("own", "Leak", ["x"], ["y"], [leaky], opsets, attribute_protos=[helper.make_attribute("slope", 0.2)])
for attributes, right, given in (({}, -0.2, -0.01), ({"slope": 0.5}, -0.5, -0.5)):
    infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1]) for name in ("X", "Y")]
    graph = helper.make_graph([helper.make_node("Leak", ["X"], ["Y"], domain="own", **attributes)], "g", infos[:1], infos[1:])
    model = helper.make_model(graph, functions=[function], opset_imports=[*opsets, helper.make_opsetid("own", 1)], ir_version=9)
    onnx.checker.check_model(model)
    inlined = inliner.inline_local_functions(model)
    found = [
        onnxruntime.InferenceSession(m.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, {"X": np.array([-1], np.float32)})[0]
        for m in (model, inlined)
    ]
    print(f"call with {attributes}: {found[0]}, inlined {found[1]}")
    assert np.allclose(found[0], right) and np.allclose(found[1], given)
PYTHON
PYTHONPATH="$root/packages" python3 "$root/run.py"
