"""Which tests the calls run, in which order."""

from __future__ import annotations

CORE = (
    "tests/devices/cuda/test_gpu_strategies.py",
    "tests/devices/cuda/test_gpu.py",
    "tests/devices/cuda/test_grid.py",
    "tests/devices/cuda/test_grid_gradient.py",
    "tests/devices/test_operator_results.py",
    "tests/devices/cuda/test_attention.py",
    "tests/devices/cuda/test_convolution.py",
    "tests/devices/test_cudnn.py",
    "tests/graphs/test_compiled_graph.py",
)
"""The files of `core`: the recurrent kernels in each strategy, then every operator once, attention, convolutions and graphs."""

OTHERS = (
    "tests/devices/cuda/test_plans.py",
    "tests/devices/cuda/test_training.py",
    "tests/devices/cuda/test_gradient.py",
    "tests/devices/cuda/test_gradient_halves.py",
    "tests/devices/cuda/test_reserve_bytes.py",
    "tests/devices/test_cudnn_dropout.py",
    "tests/devices/test_cudnn_errors.py",
    "tests/devices/test_block_cell.py",
    "tests/devices/test_operator.py",
    "tests/devices/test_given_scratch.py",
    "tests/devices/test_accuracy.py",
    "tests/devices/test_shut_gates.py",
    "tests/onnx/test_deferred.py",
    "tests/devices/test_dispatch_threads.py",
    "tests/devices/test_known_layouts.py",
    "tests/devices/test_wrong_bindings.py",
    "tests/devices/test_owned_inputs.py",
    "tests/graphs/test_prepared_graphs.py",
    "tests/graphs/test_tracing.py",
    "tests/graphs/test_views_and_fusion.py",
    "tests/graphs/test_builder.py",
    "tests/graphs/test_chains.py",
    "tests/graphs/test_normalized_convolutions.py",
    "tests/graphs/test_ordering.py",
    "tests/onnx/test_node_cases.py",
    "tests/onnx/test_running.py",
    "tests/devices/test_initializer.py",
    "tests/devices/test_rebinding.py",
    "tests/devices/test_pickling.py",
    "tests/x/test_expressions.py",
    "tests/pydirectml/test_scripts.py",
    "tests/bench/test_bench.py",
    "tests/dxdispatch/test_dxdispatch.py",
    "tests/dxdispatch/test_onnx_dispatchables.py",
    "tests/dask/test_map_blocks.py",
    "tests/test_examples.py",
    "tests/test_pages.py",
    "tests/operators/test_page_examples.py",
    "tests/torch/test_torch.py",
    "tests/keras/test_cases.py",
    "tests/keras/test_layers.py",
    "tests/keras/test_training.py",
    "tests/keras/test_weights.py",
    "tests/devices/test_philox.py",
    "tests/devices/cuda/test_approximations.py",
    "tests/devices/test_activations.py",
    "tests/devices/test_activations_in_place.py",
    "tests/devices/test_activation_derivatives.py",
    "tests/devices/cuda/test_activation_functors.py",
    "tests/devices/test_onnx_activations.py",
    "tests/devices/test_softmax.py",
    "tests/devices/cuda/test_elements.py",
    "tests/devices/cuda/test_words.py",
    "tests/devices/test_indexing.py",
    "tests/devices/test_padding.py",
    "tests/devices/test_blocks.py",
    "tests/devices/test_random_words.py",
    "tests/devices/test_optimization.py",
    "tests/devices/test_reduction.py",
    "tests/devices/test_normalizations.py",
    "tests/devices/test_dynamic_quantization.py",
    "tests/devices/test_pooling.py",
    "tests/devices/cuda/test_pooling.py",
    "tests/devices/test_regions.py",
    "tests/devices/test_region_gradients.py",
    "tests/devices/test_int4.py",
    "tests/devices/test_matrix.py",
    "tests/devices/cuda/test_matrix.py",
    "tests/devices/test_integer_products.py",
    "tests/devices/test_convolution.py",
    "tests/devices/test_quantized_convolution.py",
    "tests/devices/test_attention.py",
    "tests/devices/test_resampling.py",
    "tests/devices/cuda/test_resampling.py",
    "tests/operators/test_normalization_descs.py",
    "tests/devices/test_batch_normalization.py",
    "tests/devices/test_batch_normalization_layouts.py",
    "tests/devices/test_batch_normalization_differences.py",
    "tests/devices/test_batch_normalization_numerics.py",
)
"""The files of `rest`: first what is recurrent, then what is small or uses several operators, and normalization last."""

SAMPLED = "tests/devices/test_batch_normalization"
"""How the files begin of whose tests `rest` takes each tenth only: they are a third of all others."""
SAMPLE = 10

SOAK = "tests/devices/cuda/test_gpu_strategies.py::test_a_hundred_thousand_steps_with_late_blocks"
"""Runs alone: see `soak`."""

SANITIZED = (
    "tests/devices/cuda/test_plans.py::test_directions_may_have_different_activations",
    "tests/devices/cuda/test_plans.py::test_a_sequence_of_length_zero_carries_its_state_through",
    "tests/devices/cuda/test_plans.py::test_input_is_read_in_any_layout",
    "tests/devices/cuda/test_plans.py::test_each_output_alone",
    "tests/devices/cuda/test_gpu_strategies.py::test_a_gru_that_resets_first_in_every_strategy[grid-64-5-9-FLOAT16]",
    "tests/devices/cuda/test_gpu_strategies.py::test_a_gru_that_resets_first_in_every_strategy[grid-300-33-7-FLOAT32]",
    "tests/devices/cuda/test_gpu_strategies.py::test_a_network_in_every_strategy[grid-rnn_tanh-320-1-30-FLOAT16]",
    "tests/devices/cuda/test_gpu_strategies.py::test_a_network_in_every_strategy[grid-lstm-48-3-9-FLOAT32]",
)
"""Small enough to be run under compute-sanitizer."""

LONG_CASES = ("lstm-2048-1024x3-b32-t100 FLOAT16 forward", "gru-512-b32-t1375 FLOAT32 forward")
"""Of `bench` in `recheck`: a processor takes half a minute for their references, which are brought along."""

PROFILED = ("lstm-256-b64-t150 FLOAT16 forward", "CONVOLUTION:NHWC FLOAT16 forward", "MULTIHEAD_ATTENTION:D128 FLOAT16 forward")
PROFILED_KERNELS = "regex:^(grid|convolve_tiles|attend_halves)$"
"""Cases of the benchmark, and the kernel of each that `profile` looks at."""
