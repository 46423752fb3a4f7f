#!/usr/bin/env bash
# jax2onnx 0.17.1 takes the number of heads for the sequences' lengths in a jax.nn.dot_product_attention that has only some lengths.
#
# Where key_value_seq_lengths is given and query_seq_lengths is not, all queries are valid in JAX 0.10.2. jax2onnx fills the missing lengths in from
# dimension 2, which is the heads by JAX's text: (batch, length, heads, width). With one head only the first of five queries is right; the
# others count as padding. With as many heads as there are queries, or both lengths given, all are. With query_seq_lengths alone the keys' lengths
# are filled in so, and all five are wrong. Nothing is said. The models run in ONNX Runtime 1.32.0.
set -euo pipefail
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
python3 -m pip install -q --target "$root/packages" onnx==1.23.2 onnxruntime==1.32.0 jax==0.10.2 jax2onnx==0.17.1
cat >"$root/run.py" <<'PYTHON'
import jax
import numpy as np
import onnxruntime
from jax2onnx import to_onnx

LENGTHS = {"key_value_seq_lengths": np.array([3], np.int32), "query_seq_lengths": np.array([5], np.int32)}


def wrong_queries(heads, *names):
    """The queries whose results differ from JAX's own."""
    rng = np.random.default_rng(0)
    inputs = [rng.standard_normal((1, 5, heads, 4), np.float32) for _ in range(3)] + [LENGTHS[name] for name in names]
    attend = lambda q, k, v, *lengths: jax.nn.dot_product_attention(q, k, v, **dict(zip(names, lengths)))
    model = to_onnx(attend, [jax.ShapeDtypeStruct(array.shape, array.dtype) for array in inputs])
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    found = session.run(None, {value.name: array for value, array in zip(session.get_inputs(), inputs)})[0]
    off = np.abs(found - attend(*map(jax.numpy.asarray, inputs))).max((0, 2, 3))
    print(f"{heads} heads, {' and '.join(names)}: largest difference of each query {off.round(4)}")
    return np.flatnonzero(off > 1e-3).tolist()


assert wrong_queries(1, "key_value_seq_lengths") == [1, 2, 3, 4]
assert wrong_queries(3, "key_value_seq_lengths") == [3, 4]
assert wrong_queries(5, "key_value_seq_lengths") == []
assert wrong_queries(1, "query_seq_lengths") == [0, 1, 2, 3, 4]
assert wrong_queries(1, "key_value_seq_lengths", "query_seq_lengths") == []
PYTHON
PYTHONPATH="$root/packages" python3 "$root/run.py"
