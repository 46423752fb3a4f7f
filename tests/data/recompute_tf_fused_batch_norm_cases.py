"""Computes the outputs of the stored tf_fused_batch_norm_* cases anew with TensorFlow on the CPU, from their stored inputs.

    pip install tensorflow-cpu numpy
    python tests/data/recompute_tf_fused_batch_norm_cases.py [--write]

Prints the largest relative difference of each case, and fails above 1e-6. With --write the outputs are replaced.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import recompute  # type: ignore[import-not-found, unused-ignore]
import tensorflow as tf

Arrays = dict[str, np.ndarray[Any, Any]]
PLACEHOLDERS = {"reserve_space_3", "reserve_space_4", "reserve_space_5"}
UNWRITTEN = {"reserve_space_1", "reserve_space_2"}
"""What TensorFlow's CPU leaves as memory happened to be where the statistics are given, except where oneDNN does the work."""


def compute(entry: dict[str, Any], inputs: Arrays) -> Arrays:
    """What TensorFlow gives for a case, but for its empty placeholders and what it does not write."""
    left_out = PLACEHOLDERS if entry["attributes"]["is_training"] else PLACEHOLDERS | UNWRITTEN
    with tf.device("CPU:0"):
        if "y_backprop" in inputs:
            placeholder = np.zeros(0, np.float32)
            outputs = tf.raw_ops.FusedBatchNormGradV3(**inputs, reserve_space_3=placeholder, **entry["attributes"])
        else:
            outputs = tf.raw_ops.FusedBatchNormV3(**inputs, **entry["attributes"])
        return {name: array.numpy() for name, array in outputs._asdict().items() if name not in left_out}


if __name__ == "__main__":
    recompute.main(__doc__, f"TensorFlow {tf.__version__}", "tf_fused_batch_norm_*", compute)
