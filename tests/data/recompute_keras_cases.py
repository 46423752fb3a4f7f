"""Computes the outputs of the stored keras_*_grad_* cases anew with Keras on TensorFlow's CPU, from their stored inputs and attributes.

    pip install tensorflow-cpu numpy
    python tests/data/recompute_keras_cases.py [--write]

Prints the largest relative difference of each case, and fails above 1e-6. With --write the outputs are replaced.
"""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import recompute  # type: ignore[import-not-found, unused-ignore]
import tensorflow as tf

WEIGHTS = ("kernel", "recurrent_kernel", "bias")
STATES = ("state_h", "state_c")
# Keras applies dropout only where there is a rate; the multipliers themselves are the case's.
RATES = {"input_dropout": "dropout", "state_dropout": "recurrent_dropout"}

Arrays = dict[str, np.ndarray[Any, Any]]


def layer(attributes: dict[str, Any], inputs: Arrays) -> Any:
    """Keras's layer of a case, with its weights, and with the case's dropout multipliers in place of random ones."""
    options = {name: value for name, value in attributes.items() if name != "layer"}
    rates = {rate: 0.5 for name, rate in RATES.items() if name in inputs}
    made = getattr(keras.layers, attributes["layer"])(inputs["state_h"].shape[1], return_state=True, **options, **rates)
    made.build(inputs["input"].shape)
    made.set_weights([inputs[name] for name in WEIGHTS])
    multipliers = {name: [tf.constant(gate) for gate in inputs[name]] for name in RATES if name in inputs}
    # The simple layer has one gate and takes its multipliers without a list, as the others do where the state is not dropped.
    if "state_dropout" not in inputs or attributes["layer"] == "SimpleRNN":
        multipliers = {name: gates[0] for name, gates in multipliers.items()}
    made.cell.get_dropout_mask = lambda _: multipliers.get("input_dropout")
    made.cell.get_recurrent_dropout_mask = lambda _: multipliers.get("state_dropout")
    return made


def compute(attributes: dict[str, Any], inputs: Arrays) -> Arrays:
    """What Keras gives for a case: outputs, and GradientTape's gradients of them under the case's upstream gradients."""
    with tf.device("CPU:0"):
        made = layer(attributes, inputs)
        operands = {name: tf.constant(inputs[name]) for name in ("input", *STATES) if name in inputs}
        mask = tf.constant(inputs["mask"] != 0) if "mask" in inputs else None
        with tf.GradientTape() as tape:
            tape.watch(operands)
            states = [operands[name] for name in STATES if name in operands]
            output, *last = made(operands["input"], mask=mask, initial_state=states, training=True)
        outputs = {"output": output} | {f"output_{name}": state for name, state in zip(STATES, last, strict=False)}
        sources = operands | {name: weight.value for name, weight in zip(WEIGHTS, made.trainable_weights, strict=True)}
        upstream = [tf.constant(inputs[f"{name}_backprop"]) for name in outputs]
        gradients = tape.gradient(list(outputs.values()), sources, upstream, unconnected_gradients=tf.UnconnectedGradients.ZERO)
        outputs |= {f"{name}_backprop": gradient for name, gradient in gradients.items()}
        return {name: tensor.numpy() for name, tensor in outputs.items()}


if __name__ == "__main__":
    recompute.main(__doc__, f"Keras {keras.__version__}", "keras_*_grad_*", lambda entry, inputs: compute(entry["attributes"], inputs))
