"""Which tests the calls run, in which order."""

from __future__ import annotations

from collections.abc import Mapping

FAMILIES = ("walk", "grid", "step")
"""Of recurrent kernels: `first` has a process for each."""

RECURRENT = (
    "tests/test_gpu_families.py",
    "tests/test_gpu.py",
    "tests/test_cuda_plans.py",
    "tests/test_cuda_training.py",
    "tests/test_cuda_gradient.py",
    "tests/test_cuda_gradient_halves.py",
    "tests/test_reserve_bytes.py",
    "tests/test_cuda_grid.py",
    "tests/test_cuda_grid_gradient.py",
)
"""The files of `first`."""

OTHERS = (
    "tests/test_cudnn.py",
    "tests/test_cudnn_dropout.py",
    "tests/test_cudnn_errors.py",
    "tests/test_block_cell.py",
    "tests/test_operator.py",
    "tests/test_wrong_bindings.py",
    "tests/test_owned_inputs.py",
    "tests/test_compiled_graph.py",
    "tests/test_bench.py",
    "tests/test_dxdispatch.py",
    "tests/test_examples.py",
    "tests/test_page_examples.py",
    "tests/test_torch.py",
    "tests/test_keras_cases.py",
    "tests/test_keras_layers.py",
    "tests/test_keras_training.py",
    "tests/test_keras_weights.py",
    "tests/test_philox.py",
    "tests/test_approximations.py",
    "tests/test_activations.py",
    "tests/test_activations_in_place.py",
    "tests/test_activation_derivatives.py",
    "tests/test_activation_functors.py",
    "tests/test_onnx_activations.py",
    "tests/test_softmax.py",
    "tests/test_normalization_descs.py",
    "tests/test_batch_normalization.py",
    "tests/test_batch_normalization_layouts.py",
    "tests/test_batch_normalization_differences.py",
    "tests/test_batch_normalization_numerics.py",
)
"""The files of `rest`: what is small or uses several operators comes first, the 1,500 tests of normalization last."""

SOAK = "tests/test_gpu_families.py::test_a_hundred_thousand_steps_with_late_blocks"
"""Runs alone, at the end of `rest`."""

_GRID = ("tests/test_cuda_grid.py", "tests/test_cuda_grid_gradient.py")


def family_of(file: str, parameters: Mapping[str, object]) -> str:
    """The family that a test of `RECURRENT` belongs to; `step` also has the tests that name none."""
    if file in _GRID:
        return "grid"
    named = (str(parameters.get(name, "")).partition(" ")[0] for name in ("family", "device"))  # "walk 4": with so many samples
    return next((name for name in named if name in FAMILIES), "step")


SANITIZED = (
    "tests/test_cuda_plans.py::test_directions_may_have_different_activations",
    "tests/test_cuda_plans.py::test_a_sequence_of_length_zero_carries_its_state_through",
    "tests/test_cuda_plans.py::test_input_is_read_in_any_layout",
    "tests/test_cuda_plans.py::test_each_output_alone",
    "tests/test_gpu_families.py::test_a_gru_that_resets_first_in_every_family[grid-64-5-9-FLOAT16]",
    "tests/test_gpu_families.py::test_a_gru_that_resets_first_in_every_family[grid-300-33-7-FLOAT32]",
    "tests/test_gpu_families.py::test_a_network_in_every_family[grid-rnn_tanh-320-1-30-FLOAT16]",
    "tests/test_gpu_families.py::test_a_network_in_every_family[grid-lstm-48-3-9-FLOAT32]",
)
"""Small enough to be run under compute-sanitizer."""
