#!/usr/bin/env bash
# flax 0.12.8: the carry of a sequence of length 0 is that of a whole padded row, in linen's and nnx's RNN alike.
#
# seq_lengths "indicating the length of each sequence in the batch. Elements whose index in the time dimension is greater than the corresponding length will
# be considered padding and will be ignored". A linear cell of weights of 1 adds its inputs, here ones: lengths of 4, 1 and 0 from a carry of 10 end with
# 14, 11 and 10. Flax gives 14, 11 and 14: it takes the carry at index length - 1, and -1 is the last step. Nothing is said.
set -euo pipefail
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
python3 -m pip install -q --target "$root/packages" flax==0.12.8 jax==0.10.2
cat >"$root/run.py" <<'PYTHON'
import flax
import jax
import jax.numpy as jnp
from flax import linen, nnx

x, carry, lengths = jnp.ones((3, 4, 1)), jnp.full((3, 1), 10.0), jnp.array([4, 1, 0])
ones = jax.nn.initializers.ones
options = {"kernel_init": ones, "recurrent_kernel_init": ones, "activation_fn": lambda value: value}
print("flax", flax.__version__)
for reverse in (False, True):
    layer = linen.RNN(linen.SimpleCell(1, **options), return_carry=True, reverse=reverse)
    weights = layer.init(jax.random.PRNGKey(0), x)
    last, _ = layer.apply(weights, x, seq_lengths=lengths, initial_carry=carry)
    other = nnx.RNN(nnx.SimpleCell(1, 1, rngs=nnx.Rngs(0), **options), return_carry=True, reverse=reverse)
    carried, _ = other(x, seq_lengths=lengths, initial_carry=carry)
    print("lengths", lengths, "reverse", reverse, "linen", last.ravel(), "nnx", carried.ravel())
    assert last.ravel().tolist() == carried.ravel().tolist() == [14, 11, 14]
PYTHON
PYTHONPATH="$root/packages" JAX_PLATFORMS=cpu python3 "$root/run.py"
