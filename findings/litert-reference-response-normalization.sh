#!/usr/bin/env bash
# ai-edge-litert 2.3.0's reference kernel of LOCAL_RESPONSE_NORMALIZATION leaves the last channel of the window out.
#
# tf.nn.local_response_normalization sums squares over the channels from c - depth_radius to c + depth_radius. The default kernels (XNNPACK) and
# those of BUILTIN_WITHOUT_DEFAULT_DELEGATES do so. OpResolverType.BUILTIN_REF, whose implementations others are compared with, ends at
# c + depth_radius - 1: with a radius of 1, a channel and the one before it. Here the sums themselves come out: bias 0, alpha 1, beta -1, ones.
set -euo pipefail
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
python3 -m pip install -q --target "$root/packages" ai-edge-litert==2.3.0 flatbuffers==25.12.19 numpy==2.4.6
cat >"$root/run.py" <<'PYTHON'
import flatbuffers
import numpy as np
from ai_edge_litert import schema_py_generated as schema
from ai_edge_litert.interpreter import Interpreter, OpResolverType

CHANNELS, OPERATOR = 6, schema.BuiltinOperator.LOCAL_RESPONSE_NORMALIZATION


def model(radius: int) -> bytes:
    graph, operator, code, options = schema.SubGraphT(), schema.OperatorT(), schema.OperatorCodeT(), schema.LocalResponseNormalizationOptionsT()
    options.radius, options.bias, options.alpha, options.beta = radius, 0.0, 1.0, -1.0
    code.builtinCode, code.deprecatedBuiltinCode, code.version = OPERATOR, OPERATOR, 1
    operator.inputs, operator.outputs, operator.builtinOptions = [0], [1], options
    operator.builtinOptionsType = schema.BuiltinOptions.LocalResponseNormalizationOptions
    graph.tensors, graph.inputs, graph.outputs, graph.operators = [schema.TensorT(), schema.TensorT()], [0], [1], [operator]
    for name, tensor in zip(("x", "y"), graph.tensors):
        tensor.name, tensor.shape, tensor.type = name.encode(), [1, 1, 1, CHANNELS], schema.TensorType.FLOAT32
    whole = schema.ModelT()
    whole.version, whole.buffers, whole.subgraphs, whole.operatorCodes = 3, [schema.BufferT()], [graph], [code]
    builder = flatbuffers.Builder()
    builder.Finish(whole.Pack(builder), b"TFL3")
    return bytes(builder.Output())


def sums(radius: int, resolver: OpResolverType) -> list[float]:
    interpreter = Interpreter(model_content=model(radius), experimental_op_resolver_type=resolver)
    interpreter.allocate_tensors()
    interpreter.set_tensor(interpreter.get_input_details()[0]["index"], np.ones((1, 1, 1, CHANNELS), np.float32))
    interpreter.invoke()
    return interpreter.get_tensor(interpreter.get_output_details()[0]["index"]).ravel().tolist()


for radius in (1, 2):
    right = [min(c + radius, CHANNELS - 1) - max(c - radius, 0) + 1 for c in range(CHANNELS)]
    short = [min(c + radius - 1, CHANNELS - 1) - max(c - radius, 0) + 1 for c in range(CHANNELS)]
    for resolver in (OpResolverType.BUILTIN, OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES, OpResolverType.BUILTIN_REF):
        found = sums(radius, resolver)
        print(f"radius {radius}, {resolver.name}: {found}")
        assert found == (short if resolver == OpResolverType.BUILTIN_REF else right)
PYTHON
PYTHONPATH="$root/packages" python3 "$root/run.py"
