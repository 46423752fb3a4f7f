#!/usr/bin/env bash
# onnxconverter-common 1.16.0's convert_float_to_float16(keep_io_types=True) names its casts by the nodes around them. Two unnamed nodes (names are
# optional in ONNX) that read one input get two casts of one name with one output name, so the converted model is invalid: onnx's checker and
# ONNX Runtime refuse it. With names the same model is converted and runs.
set -euo pipefail
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
python3 -m pip install -q --target "$root/packages" onnx==1.23.2 onnxruntime==1.32.0 onnxconverter-common==1.16.0
cat >"$root/run.py" <<'PYTHON'
import importlib.metadata
from collections import Counter

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper
from onnxconverter_common.float16 import convert_float_to_float16

onnxruntime.set_default_logger_severity(4)
x = np.array([1, 2, 3], np.float32)
for names in (("exp", "neg"), ("", "")):
    nodes = [helper.make_node(kind, ["x"], [output], name=name) for kind, output, name in zip(("Exp", "Neg"), "ab", names)]
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [3]) for name in "xab"]
    graph = helper.make_graph(nodes, "g", values[:1], values[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    converted = convert_float_to_float16(model, keep_io_types=True)
    outputs = Counter(name for node in converted.graph.node for name in node.output)
    repeated = [name for name, count in outputs.items() if count > 1]
    try:
        session = onnxruntime.InferenceSession(converted.SerializeToString(), providers=["CPUExecutionProvider"])
        outcome = [result.round(2).tolist() for result in session.run(None, {"x": x})]
    except Exception as error:  # what ONNX Runtime raises for an invalid model has no public class
        outcome = f"refused: {str(error).splitlines()[0]}"
    print("onnxconverter-common", importlib.metadata.version("onnxconverter-common"), "names", names, "repeated outputs", repeated, "->", outcome)
    assert bool(repeated) == (names == ("", ""))
    assert isinstance(outcome, str) == bool(repeated)
PYTHON
PYTHONPATH="$root/packages" python3 "$root/run.py"
