"""Images for batch normalization on CUDA, and its descs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import dmlpy as dml
from tests.support.operators.normalization_cases import INPUTS, MODES

TRAINING, INFERENCE = "BATCH_NORMALIZATION_TRAINING", "BATCH_NORMALIZATION"


TRAINING_GRAD, INFERENCE_GRAD = "BATCH_NORMALIZATION_TRAINING_GRAD", "BATCH_NORMALIZATION_GRAD"


def images(sizes: Sequence[int], memory: str, data_type: str = "FLOAT32") -> dml.TensorDesc:
    """A tensor of [N, C, H, W] in an order of memory, or a slice of one twice as wide."""
    _, c, h, w = sizes
    strides = {
        "NCHW": (c * h * w, h * w, w, 1),
        "NHWC": (h * w * c, 1, w * c, c),
        "sliced": (c * h * 2 * w, h * 2 * w, 2 * w, 1),
        "every second": (c * h * 2 * w, h * 2 * w, 2 * w, 2),
        "one for each channel": (0, 1, 0, 0),
    }[memory]
    return dml.TensorDesc(data_type=data_type, sizes=sizes, strides=strides)


def described(mode: str, x: dml.TensorDesc, other: dml.TensorDesc | None = None) -> Any:
    """The operator over channels; its other tensors of the input's sizes are like `other`, or like x."""
    kind, _ = MODES[mode]
    channels = dml.TensorDesc(data_type=x.data_type, sizes=(1, x.sizes[1], 1, 1))
    roles = INPUTS[kind]
    tensors = {name: {"x": x, "dy": other or x}.get(role, channels) for name, role in roles.items() if role != "add"}
    desc = kind(**tensors).with_outputs()
    of_images = {name: x if other is None else other for name in ("output_tensor", "output_gradient_tensor") if hasattr(desc, name)}
    return desc.replace(**of_images)
