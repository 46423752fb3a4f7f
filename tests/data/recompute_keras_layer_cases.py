"""Computes the outputs of the stored keras_*_* cases of whole layers anew with Keras on TensorFlow's CPU, from their inputs and attributes.

    pip install tensorflow-cpu numpy
    python tests/data/recompute_keras_layer_cases.py [--write]

Those named keras_import_* hold the config of a live layer, its weights as it lists them, and gradients too.
Prints the largest relative difference of each case, and fails above 1e-6. With --write the outputs are replaced.
"""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import recompute  # type: ignore[import-not-found, unused-ignore]
import tensorflow as tf

Arrays = dict[str, np.ndarray[Any, Any]]


def hard_sigmoid(x: Any) -> Any:
    """Keras 1's; that of Keras 3 is another."""
    return keras.ops.clip(0.2 * x + 0.5, 0.0, 1.0)


def layer(attributes: dict[str, Any]) -> Any:
    """Keras's layer of a case."""
    kind = getattr(keras.layers, attributes["layer"])
    if "config" in attributes:
        return kind.from_config(attributes["config"])
    options = {name: attributes[name] for name in ("return_sequences", "go_backwards", "stateful", "activation")}
    if attributes["inner_activation"] == "hard_sigmoid":
        options["recurrent_activation"] = hard_sigmoid
    if attributes["layer"] == "GRU":
        options["reset_after"] = False
    return kind(attributes["output_dim"], **options)


def compute(attributes: dict[str, Any], inputs: Arrays) -> Arrays:
    """What Keras gives for a case: the output of each batch, and gradients of the last one's under the case's upstream gradient."""
    with tf.device("CPU:0"):
        made = layer(attributes)
        made.build(inputs["x0"].shape)
        made.set_weights([inputs[name] for name in inputs if name in ("W", "U", "b") or name.startswith("weight")])
        mask = tf.constant(inputs["mask"] != 0) if "mask" in inputs else None
        outputs: dict[str, Any] = {}
        for name in inputs:
            if name.startswith("x"):
                x = tf.constant(inputs[name])
                with tf.GradientTape() as tape:
                    tape.watch(x)
                    outputs[f"y{name[1:]}"] = y = made(x, mask=mask)
        if "output_backprop" in inputs:
            sources = {"input": x} | {f"weight{index}": weight.value for index, weight in enumerate(made.trainable_weights)}
            upstream = tf.constant(inputs["output_backprop"])
            gradients = tape.gradient(y, sources, upstream, unconnected_gradients=tf.UnconnectedGradients.ZERO)
            outputs |= {f"{name}_backprop": gradient for name, gradient in gradients.items()}
        return {name: tensor.numpy() for name, tensor in outputs.items()}


if __name__ == "__main__":
    # simplernn, gru, lstm and import; those of dropout and masks are gradients, which have a separate script.
    recompute.main(__doc__, f"Keras {keras.__version__}", "keras_[sgli]*", lambda entry, inputs: compute(entry["attributes"], inputs))
