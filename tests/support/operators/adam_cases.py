"""Random inputs and descs of ADAM_OPTIMIZER."""

from __future__ import annotations

from typing import Any

import numpy as np

import dmlpy as dml
from tests.support.operators.layout_runs import Array, tensor

OUTPUTS = ("output_parameters_tensor", "output_first_moment_tensor", "output_second_moment_tensor")


def inputs(dtype: Any, sizes: tuple[int, ...], step: int) -> dict[str, Array]:
    rng = np.random.default_rng(step % 1000)
    names = ("input_parameters_tensor", "input_first_moment_tensor", "input_second_moment_tensor", "gradient_tensor")
    arrays = {name: rng.normal(size=sizes).astype(dtype) for name in names}
    arrays["input_second_moment_tensor"] **= 2
    return {**arrays, "training_step_tensor": np.full((1, 1, 1, 1), step, np.uint32)}


def adam(arrays: dict[str, Array], **attributes: float) -> dml.AdamOptimizerDesc:
    return dml.AdamOptimizerDesc(**{name: tensor(array) for name, array in arrays.items()}, **attributes).with_outputs()
