"""Layers over sequences that contradict ONNX: recurrent ones, attention, its rotations and caches. As in `test_wrong_nodes`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.support.onnx.models import Array
from tests.support.onnx.wrong_nodes import Row, assert_refused, in_all_ways, integers, normal


def recurrent(
    operator: str, gates: int, *more: Array | None, message: tuple[str, ...], constants: tuple[int, ...] = (), **attributes: Any
) -> Row:
    """A layer of 5 steps, batch 2, 3 inputs and 4 units."""
    given = (normal(5, 2, 3), normal(1, gates * 4, 3), normal(1, gates * 4, 4), *more)
    return Row(operator, given, message, {"hidden_size": 4} | attributes, constants=constants)


def grouped_past(heads: int, size: int, *texts: str, packed: bool = False, steps: int = 2) -> Row:
    """A GroupQueryAttention of 4 heads that share 2 of 8 elements, after steps of other heads."""
    own = (normal(1, 3, 64), None, None) if packed else (normal(1, 3, 32), normal(1, 3, 16), normal(1, 3, 16))
    counts = np.asarray([2 + steps], np.int32), np.asarray(3 + steps, np.int32)
    given = (*own, normal(1, heads, steps, size), normal(1, heads, steps, size), *counts)
    return Row("GroupQueryAttention", given, texts, {"num_heads": 4, "kv_num_heads": 2}, constants=(6,), domain="com.microsoft")


def past(operator: str, keys: int | None, values: int | None, *texts: str) -> Row:
    """An attention whose keys and values are of so many past steps; None leaves them out."""
    states = tuple(None if steps is None else normal(1, 2, steps, 8) for steps in (keys, values))
    parts = normal(1, 3, 16), normal(1, 3, 16), normal(1, 3, 16)
    if operator == "Attention":
        return Row(operator, (*parts, None, *states), texts, {"q_num_heads": 2, "kv_num_heads": 2}, 23)
    if operator == "MultiHeadAttention":
        return Row(operator, (*parts, None, None, None, *states), texts, {"num_heads": 2}, domain="com.microsoft")
    counts = np.asarray([2 + (keys or 0)], np.int32), np.asarray(3 + (keys or 0), np.int32)
    return Row(operator, (*parts, *states, *counts), texts, {"num_heads": 2, "kv_num_heads": 2}, constants=(6,), domain="com.microsoft")


ROWS = {
    "Attention of 0 past keys and 2 values": past("Attention", 0, 2, "input 5 is [", "2, 2, 8]", "expected 0 past steps"),
    "Attention of 2 past keys and 0 values": past("Attention", 2, 0, "input 5 is [", "2, 0, 8]", "expected 2 past steps"),
    "Attention of None past keys and 2 values": past("Attention", None, 2, "input 4 is left out"),
    "Attention of 0 past keys and None values": past("Attention", 0, None, "input 5 is left out"),
    "MultiHeadAttention of 0 past keys and 2 values": past("MultiHeadAttention", 0, 2, "input 7 is [", "2, 2, 8]", "expected 0 past steps"),
    "MultiHeadAttention of 2 past keys and 0 values": past("MultiHeadAttention", 2, 0, "input 7 is [", "2, 0, 8]", "expected 2 past steps"),
    "MultiHeadAttention of None past keys and 2 values": past("MultiHeadAttention", None, 2, "input 6 is left out"),
    "MultiHeadAttention of 0 past keys and None values": past("MultiHeadAttention", 0, None, "input 7 is left out"),
    "GroupQueryAttention of 0 past keys and 2 values": past(
        "GroupQueryAttention", 0, 2, "input 4 is [", "2, 2, 8]", "expected 0 past steps"
    ),
    "GroupQueryAttention of 2 past keys and 0 values": past(
        "GroupQueryAttention", 2, 0, "input 4 is [", "2, 0, 8]", "expected 2 past steps"
    ),
    "GroupQueryAttention of None past keys and 2 values": past("GroupQueryAttention", None, 2, "input 3 is left out"),
    "GroupQueryAttention of 0 past keys and None values": past("GroupQueryAttention", 0, None, "input 4 is left out"),
    "past steps of other elements": grouped_past(2, 4, "input 3 is [", "2, 2, 4]", "[batch, 2, steps, 8]", "input 4"),
    "past steps of the heads of queries": grouped_past(4, 8, "input 3 is [", "4, 2, 8]", "[batch, 2, steps, 8]", packed=True),
    "no past steps of other elements": grouped_past(2, 4, "input 3 is [", "2, 0, 4]", "[batch, 2, steps, 8]", steps=0),
    "a projection of 4 units to 2": Row(
        "LSTM",
        (normal(5, 2, 3), normal(1, 16, 3), normal(1, 16, 2), None, None, normal(1, 2, 2), normal(1, 2, 4)),
        ("[1, 16, 2]", "expected [1, 16, 4]", "no projection of 4 units to 2", "proj_size"),
        {"hidden_size": 4},
    ),
    "initial_h of batch 1": recurrent("GRU", 3, None, None, normal(1, 1, 4), message=("input 5 'initial_h'", "[1, 1, 4]", "[1, 2, 4]")),
    "initial_c of batch 1": recurrent(
        "LSTM", 4, None, None, None, normal(1, 1, 4), message=("input 6 'initial_c'", "[1, 1, 4]", "[1, 2, 4]")
    ),
    "hidden_size contradicts W": recurrent("GRU", 3, message=("hidden_size",), hidden_size=5),
    "one length for two samples": recurrent("LSTM", 4, None, np.int32([3]), message=("sequence_lens", "[2]")),
    "a length of 9 of 5 steps": recurrent("RNN", 1, None, np.int32([9, 2]), message=("sequence_lens", "9"), constants=(4,)),
    "one activation of two": recurrent("GRU", 3, message=("activations has 1 name, expected 2",), activations=["Sigmoid"]),
    "an unknown activation": recurrent("LSTM", 4, message=("activations", "Gelu"), activations=["Sigmoid", "Gelu", "Tanh"]),
    "an unknown direction": recurrent("RNN", 1, message=("direction",), direction="sideways"),
    "peepholes of 3": recurrent("LSTM", 4, None, None, None, None, normal(1, 3), message=("'P'", "[1, 3]", "[1, 12]")),
    **{
        f"attention with {name}": Row("Attention", (normal(2, 4, 3, 8), *given), texts, opset=23)
        for name, given, texts in (
            ("keys of another batch", (normal(1, 2, 5, 8), normal(2, 2, 5, 8)), ("'K'", "[1, 2, 5, 8]", "a batch of 2")),
            ("keys of other elements", (normal(2, 2, 5, 6), normal(2, 2, 5, 8)), ("'K'", "[2, 2, 5, 6]", "8 elements for each of 2 heads")),
            ("values of other heads", (normal(2, 2, 5, 8), normal(2, 1, 5, 8)), ("'V'", "[2, 1, 5, 8]", "2 heads")),
            ("a mask of other queries", (*(normal(2, 2, 5, 8),) * 2, normal(4, 5)), ("'attn_mask'", "[4, 5]", "[2, 4, 3, 5]")),
            ("a mask of more keys", (*(normal(2, 2, 5, 8),) * 2, normal(3, 6)), ("'attn_mask'", "[3, 6]", "[2, 4, 3, 5]")),
            ("a mask of other heads", (*(normal(2, 2, 5, 8),) * 2, normal(2, 2, 3, 5)), ("'attn_mask'", "[2, 2, 3, 5]", "[2, 4, 3, 5]")),
        )
    },
    "values of other steps": Row(
        "Attention", (normal(1, 2, 4, 8), normal(1, 2, 5, 8), normal(1, 2, 6, 8)), ("'V' is [1, 2, 6, 8]", "5 steps"), opset=23
    ),
    "no such direction": recurrent("LSTM", 4, message=("direction is 'backward'", "reverse"), direction="backward"),
    "no such layout": recurrent("RNN", 1, message=("layout is 2, expected one of [0, 1]",), layout=2),
    "no such activation": recurrent("GRU", 3, message=("activations is ['Gelu', 'Tanh']", "Softsign"), activations=["Gelu", "Tanh"]),
    "an activation for one direction": recurrent(
        "RNN", 2, message=("activations has 1 name, expected 2",), activations=["Tanh"], direction="bidirectional"
    ),
    **{
        f"{operator} with a clip of {clip}": recurrent(operator, gates, message=(f"clip is {clip}, expected a number above 0",), clip=clip)
        for operator, gates, clip in (("GRU", 3, 0.0), ("LSTM", 4, -1.0))
    },
    "no such buffer": Row("TensorScatter", (normal(1, 4, 2), normal(1, 1, 2)), ("mode is 'ring'", "circular"), {"mode": "ring"}, opset=24),
    **{
        f"{operator} of an image": Row(
            operator,
            (normal(1, 2, 2, 3), normal(1, gates * 4, 3), normal(1, gates * 4, 4)),
            ("'X' is [1, 2, 2, 3], expected 3 dimensions",),
            {"hidden_size": 4},
        )
        for operator, gates in (("RNN", 1), ("GRU", 3), ("LSTM", 4))
    },
    "no such scores": Row(
        "Attention", (normal(1, 2, 3, 4),) * 3, ("qk_matmul_output_mode is 4, expected one of",), {"qk_matmul_output_mode": 4}, 23
    ),
    "no such precision": Row("Attention", (normal(1, 2, 3, 4),) * 3, ("softmax_precision is 6",), {"softmax_precision": 6}, 23),
    "an odd number of elements to rotate": Row(
        "RotaryEmbedding", (normal(1, 2, 3, 9), normal(1, 3, 4), normal(1, 3, 4)), ("[1, 2, 3, 9]", "an even number"), opset=23
    ),
    "angles for fewer elements": Row(
        "RotaryEmbedding", (normal(1, 2, 3, 8), normal(1, 3, 3), normal(1, 3, 3)), ("'cos_cache'", "[1, 3, 3]", "4 as last size"), opset=23
    ),
    "a sine for other cosines": Row(
        "RotaryEmbedding",
        (normal(1, 2, 3, 4), normal(5, 2), normal(4, 2), np.ones((1, 3), np.int64)),
        ("is [4, 2], expected [5, 2]",),
        opset=23,
    ),
    "positions of other tokens": Row(
        "RotaryEmbedding",
        (normal(1, 2, 3, 4), normal(5, 2), normal(5, 2), np.ones((1, 2), np.int64)),
        ("is [1, 2], expected [1, 3]",),
        opset=23,
    ),
    "a position behind the last": Row(
        "RotaryEmbedding",
        (normal(1, 2, 3, 4), normal(5, 2), normal(5, 2), integers([0, 5, 1])),
        ("'position_ids' is 5, expected 0 to 4",),
        opset=23,
        constants=(3,),
    ),
    "an update of other heads": Row("TensorScatter", (normal(2, 4, 3), normal(2, 1, 2)), ("is [2, 1, 2], expected [2, 4, 3]",), opset=24),
    "an update beyond the cache": Row("TensorScatter", (normal(2, 4, 3), normal(2, 5, 3)), ("is [2, 5, 3], expected [2, 4, 3]",), opset=24),
    "places of other entries": Row(
        "TensorScatter", (normal(2, 4, 3), normal(2, 1, 3), integers(0)), ("is [1], expected [2]: a place for each",), opset=24
    ),
}


@pytest.mark.each_value
@pytest.mark.parametrize(("name", "way"), in_all_ways(ROWS))
def test_a_layer_that_contradicts_onnx_is_refused(name: str, way: str) -> None:
    assert_refused(ROWS[name], way)
