"""Recurrent layers, attention and optimizers of released programs."""

from __future__ import annotations

from typing import Any

import dmlpy as dml
from tests.support.released.rows import CHROMIUM, ONNX_RUNTIME, TENSORFLOW, ReleasedDesc, f16, f32, i32, u32

_SIGMOID, _TANH, _RELU = dml.ActivationSigmoidDesc(), dml.ActivationTanhDesc(), dml.ActivationReluDesc()
_GATES: dict[Any, int] = {dml.RNNDesc: 1, dml.GRUDesc: 3, dml.LSTMDesc: 4}
STEPS, BATCH, INPUTS, HIDDEN = 2, 3, 3, 5


def recurrent(kind: Any, direction: str = "FORWARD", *, steps: int = STEPS, states: bool = True, bias: bool = True, **members: Any) -> Any:
    """A recurrent layer; members replace those of the layer without initial states and lengths."""
    directions, gates = 2 if direction == "BIDIRECTIONAL" else 1, _GATES[kind]
    given: dict[str, Any] = {
        "input_tensor": f32(1, steps, BATCH, INPUTS),
        "weight_tensor": f32(1, directions, gates * HIDDEN, INPUTS),
        "recurrence_tensor": f32(1, directions, gates * HIDDEN, HIDDEN),
        "bias_tensor": f32(1, 1, directions, 2 * gates * HIDDEN) if bias else None,
        "hidden_init_tensor": f32(1, directions, BATCH, HIDDEN) if states else None,
        "direction": direction,
    }
    return kind(**given | members)


def _state(directions: int = 1) -> dml.TensorDesc:
    return f32(1, directions, BATCH, HIDDEN)


def _attention(**members: Any) -> Any:
    given: dict[str, Any] = {"scale": 0.5, "mask_filter_value": -10000.0, "head_count": 2}
    return dml.MultiheadAttentionDesc(**given | members)


_QUERY, _OUTPUT = f32(2, 4, 6), f32(2, 4, 6)
_PAST, _PRESENT = f32(2, 2, 3, 3), f32(2, 2, 7, 3)

ROWS = [
    ReleasedDesc(
        CHROMIUM,
        "4_0",
        "gru with a joined bias and the last state alone",
        recurrent(dml.GRUDesc, activation_descs=[_SIGMOID, _TANH], output_single_tensor=_state(), linear_before_reset=True),
    ),
    ReleasedDesc(
        CHROMIUM,
        "4_0",
        "gru in both directions",
        recurrent(
            dml.GRUDesc,
            "BIDIRECTIONAL",
            states=False,
            bias=False,
            activation_descs=[_SIGMOID, _TANH] * 2,
            output_sequence_tensor=f32(STEPS, 2, BATCH, HIDDEN),
            output_single_tensor=_state(2),
        ),
    ),
    ReleasedDesc(
        CHROMIUM,
        "4_0",
        "gruCell",
        recurrent(dml.GRUDesc, steps=1, activation_descs=[_RELU, _RELU], output_single_tensor=_state()),
    ),
    ReleasedDesc(
        ONNX_RUNTIME,
        "6_4",
        "lengths of UINT32, Softsign and ScaledTanh",
        recurrent(
            dml.GRUDesc,
            activation_descs=[dml.ActivationSoftsignDesc(), dml.ActivationScaledTanhDesc(alpha=2.0, beta=1.5)],
            sequence_lengths_tensor=u32(1, 1, 1, BATCH),
            output_sequence_tensor=f32(STEPS, 1, BATCH, HIDDEN),
            output_single_tensor=_state(),
        ),
    ),
    ReleasedDesc(
        CHROMIUM,
        "4_0",
        "lstm with peepholes and a clip threshold that is not used",
        recurrent(
            dml.LSTMDesc,
            activation_descs=[_SIGMOID, _TANH, _TANH],
            cell_mem_init_tensor=_state(),
            peephole_tensor=f32(1, 1, 1, 3 * HIDDEN),
            output_single_tensor=_state(),
            output_cell_single_tensor=_state(),
            clip_threshold=0.0,
            use_clip_threshold=False,
        ),
    ),
    ReleasedDesc(
        ONNX_RUNTIME,
        "6_4",
        "deep_cpu_lstm_op_test.cc: both directions, lengths, clip 9999",
        recurrent(
            dml.LSTMDesc,
            "BIDIRECTIONAL",
            activation_descs=[_SIGMOID, _TANH, _TANH] * 2,
            sequence_lengths_tensor=u32(1, 1, 1, BATCH),
            output_sequence_tensor=f32(STEPS, 2, BATCH, HIDDEN),
            output_single_tensor=_state(2),
            output_cell_single_tensor=_state(2),
            clip_threshold=9999.0,
            use_clip_threshold=True,
        ),
    ),
    ReleasedDesc(
        ONNX_RUNTIME,
        "6_4",
        "input_forget with HardSigmoid",
        recurrent(
            dml.LSTMDesc,
            activation_descs=[dml.ActivationHardSigmoidDesc(alpha=0.2, beta=0.5), _TANH, _TANH],
            output_sequence_tensor=f32(STEPS, 1, BATCH, HIDDEN),
            couple_input_forget=True,
        ),
    ),
    ReleasedDesc(
        ONNX_RUNTIME,
        "6_4",
        "rnn_op_test.cc: both directions with lengths",
        recurrent(
            dml.RNNDesc,
            "BIDIRECTIONAL",
            activation_descs=[_TANH, _TANH],
            sequence_lengths_tensor=u32(1, 1, 1, BATCH),
            output_sequence_tensor=f32(STEPS, 2, BATCH, HIDDEN),
            output_single_tensor=_state(2),
        ),
    ),
    ReleasedDesc(
        ONNX_RUNTIME,
        "6_4",
        "LeakyRelu and the last state alone",
        recurrent(dml.RNNDesc, activation_descs=[dml.ActivationLeakyReluDesc(alpha=0.1)], output_single_tensor=_state()),
    ),
    ReleasedDesc(
        ONNX_RUNTIME,
        "6_4",
        "stacked query, key and value",
        _attention(stacked_query_key_value_tensor=f32(2, 4, 2, 3, 3), output_tensor=_OUTPUT),
    ),
    ReleasedDesc(
        ONNX_RUNTIME,
        "6_4",
        "a bias of one dimension and a mask of lengths",
        _attention(
            query_tensor=_QUERY,
            key_tensor=_QUERY,
            value_tensor=_QUERY,
            bias_tensor=f32(18),
            mask_tensor=i32(1, 2),
            mask_type="KEY_SEQUENCE_LENGTH",
            output_tensor=_OUTPUT,
        ),
    ),
    ReleasedDesc(
        ONNX_RUNTIME,
        "6_4",
        "a mask of 3 B + 2",
        _attention(
            query_tensor=_QUERY,
            key_tensor=_QUERY,
            value_tensor=_QUERY,
            mask_tensor=i32(8),
            mask_type="KEY_QUERY_SEQUENCE_LENGTH_START_END",
            output_tensor=_OUTPUT,
        ),
    ),
    ReleasedDesc(
        ONNX_RUNTIME,
        "6_4",
        "a broadcast mask of booleans",
        _attention(
            query_tensor=_QUERY,
            key_tensor=_QUERY,
            value_tensor=_QUERY,
            mask_tensor=i32(2, 2, 4, 4, strides=[4, 0, 0, 1]),
            mask_type="BOOLEAN",
            output_tensor=_OUTPUT,
        ),
    ),
    ReleasedDesc(
        ONNX_RUNTIME,
        "6_4",
        "cross attention with past key and value alone",
        _attention(query_tensor=_QUERY, past_key_tensor=_PAST, past_value_tensor=_PAST, output_tensor=_OUTPUT),
    ),
    ReleasedDesc(
        ONNX_RUNTIME,
        "6_4",
        "past and present",
        _attention(
            query_tensor=_QUERY,
            key_tensor=_QUERY,
            value_tensor=_QUERY,
            past_key_tensor=_PAST,
            past_value_tensor=_PAST,
            output_tensor=_OUTPUT,
            output_present_key_tensor=_PRESENT,
            output_present_value_tensor=_PRESENT,
        ),
    ),
    ReleasedDesc(
        ONNX_RUNTIME,
        "6_4",
        "a relative position bias with stacked key and value",
        _attention(
            query_tensor=_QUERY,
            stacked_key_value_tensor=f32(2, 4, 2, 2, 3),
            relative_position_bias_tensor=f32(2, 2, 4, 4),
            output_tensor=_OUTPUT,
        ),
    ),
    ReleasedDesc(
        ONNX_RUNTIME,
        "6_4",
        "GroupQueryAttention without past tensors",
        dml.MultiheadAttention1Desc(
            query_tensor=f16(2, 1, 8),
            key_tensor=f16(2, 1, 4),
            value_tensor=f16(2, 1, 4),
            past_sequence_lengths_tensor=i32(2),
            output_tensor=f16(2, 1, 8),
            output_present_key_tensor=f16(2, 2, 16, 2),
            output_present_value_tensor=f16(2, 2, 16, 2),
            scale=0.5,
            mask_filter_value=-10000.0,
            query_head_count=4,
            key_value_head_count=2,
        ),
    ),
    ReleasedDesc(
        TENSORFLOW,
        "5_0",
        "ResourceApplyAdam",
        dml.AdamOptimizerDesc(
            input_parameters_tensor=f32(1, 1, 2, 3),
            input_first_moment_tensor=f32(1, 1, 2, 3),
            input_second_moment_tensor=f32(1, 1, 2, 3),
            gradient_tensor=f32(1, 1, 2, 3),
            training_step_tensor=u32(1, 1, 1, 1),
            output_parameters_tensor=f32(1, 1, 2, 3),
            output_first_moment_tensor=f32(1, 1, 2, 3),
            output_second_moment_tensor=f32(1, 1, 2, 3),
            learning_rate=0.001,
        ),
    ),
]
