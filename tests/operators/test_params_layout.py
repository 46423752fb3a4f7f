"""The flat parameters of stacked networks: where each block lies, round trips, shared memory, and errors of bad input."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dmlpy.messages.problems import DescError, Problem
from dmlpy.operators.recurrent import params as module
from dmlpy.operators.recurrent.params import (
    ParamsLayout,
    canonical_to_params,
    params_size,
    params_to_canonical,
    params_to_weights_and_biases,
    weights_and_biases_to_params,
)

Array = np.ndarray[Any, np.dtype[Any]]


def test_version_1() -> None:
    """Whoever changes the order of blocks changes the version: stored buffers depend on it."""
    assert module.PARAMS_LAYOUT_VERSION == 1
    found = [(block.name, block.offset, block.shape) for block in ParamsLayout("lstm", 2, 3, 5, True, num_proj=2).blocks()]
    assert found == [
        ("weight_ih_l0", 0, (12, 5)),
        ("weight_hh_l0", 60, (12, 2)),
        ("weight_hr_l0", 84, (2, 3)),
        ("weight_ih_l0_reverse", 90, (12, 5)),
        ("weight_hh_l0_reverse", 150, (12, 2)),
        ("weight_hr_l0_reverse", 174, (2, 3)),
        ("weight_ih_l1", 180, (12, 4)),
        ("weight_hh_l1", 228, (12, 2)),
        ("weight_hr_l1", 252, (2, 3)),
        ("weight_ih_l1_reverse", 258, (12, 4)),
        ("weight_hh_l1_reverse", 306, (12, 2)),
        ("weight_hr_l1_reverse", 330, (2, 3)),
        ("bias_ih_l0", 336, (12,)),
        ("bias_hh_l0", 348, (12,)),
        ("bias_ih_l0_reverse", 360, (12,)),
        ("bias_hh_l0_reverse", 372, (12,)),
        ("bias_ih_l1", 384, (12,)),
        ("bias_hh_l1", 396, (12,)),
        ("bias_ih_l1_reverse", 408, (12,)),
        ("bias_hh_l1_reverse", 420, (12,)),
    ]


# Of torch.nn.RNN, GRU and LSTM: mode, layers, hidden_size, input_size, bidirectional, proj_size; then `named_parameters()`.
TORCH: list[tuple[tuple[Any, ...], dict[str, tuple[int, ...]]]] = [
    (("rnn_tanh", 1, 6, 7, False, 0), {"weight_ih_l0": (6, 7), "weight_hh_l0": (6, 6), "bias_ih_l0": (6,), "bias_hh_l0": (6,)}),
    (
        ("rnn_relu", 2, 8, 5, True, 0),
        {
            "weight_ih_l0": (8, 5),
            "weight_hh_l0": (8, 8),
            "bias_ih_l0": (8,),
            "bias_hh_l0": (8,),
            "weight_ih_l0_reverse": (8, 5),
            "weight_hh_l0_reverse": (8, 8),
            "bias_ih_l0_reverse": (8,),
            "bias_hh_l0_reverse": (8,),
            "weight_ih_l1": (8, 16),
            "weight_hh_l1": (8, 8),
            "bias_ih_l1": (8,),
            "bias_hh_l1": (8,),
            "weight_ih_l1_reverse": (8, 16),
            "weight_hh_l1_reverse": (8, 8),
            "bias_ih_l1_reverse": (8,),
            "bias_hh_l1_reverse": (8,),
        },
    ),
    (
        ("gru", 3, 5, 6, False, 0),
        {
            "weight_ih_l0": (15, 6),
            "weight_hh_l0": (15, 5),
            "bias_ih_l0": (15,),
            "bias_hh_l0": (15,),
            "weight_ih_l1": (15, 5),
            "weight_hh_l1": (15, 5),
            "bias_ih_l1": (15,),
            "bias_hh_l1": (15,),
            "weight_ih_l2": (15, 5),
            "weight_hh_l2": (15, 5),
            "bias_ih_l2": (15,),
            "bias_hh_l2": (15,),
        },
    ),
    (
        ("lstm", 2, 9, 6, False, 4),
        {
            "weight_ih_l0": (36, 6),
            "weight_hh_l0": (36, 4),
            "bias_ih_l0": (36,),
            "bias_hh_l0": (36,),
            "weight_hr_l0": (4, 9),
            "weight_ih_l1": (36, 4),
            "weight_hh_l1": (36, 4),
            "bias_ih_l1": (36,),
            "bias_hh_l1": (36,),
            "weight_hr_l1": (4, 9),
        },
    ),
    (
        ("lstm", 2, 9, 6, True, 4),
        {
            "weight_ih_l0": (36, 6),
            "weight_hh_l0": (36, 4),
            "bias_ih_l0": (36,),
            "bias_hh_l0": (36,),
            "weight_hr_l0": (4, 9),
            "weight_ih_l0_reverse": (36, 6),
            "weight_hh_l0_reverse": (36, 4),
            "bias_ih_l0_reverse": (36,),
            "bias_hh_l0_reverse": (36,),
            "weight_hr_l0_reverse": (4, 9),
            "weight_ih_l1": (36, 8),
            "weight_hh_l1": (36, 4),
            "bias_ih_l1": (36,),
            "bias_hh_l1": (36,),
            "weight_hr_l1": (4, 9),
            "weight_ih_l1_reverse": (36, 8),
            "weight_hh_l1_reverse": (36, 4),
            "bias_ih_l1_reverse": (36,),
            "bias_hh_l1_reverse": (36,),
            "weight_hr_l1_reverse": (4, 9),
        },
    ),
]


@pytest.mark.parametrize(("network", "expected"), TORCH, ids=[f"{row[0][0]} {row[0][1:]}" for row in TORCH])
def test_names_and_shapes_are_those_of_pytorch(network: tuple[Any, ...], expected: dict[str, tuple[int, ...]]) -> None:
    assert {block.name: block.shape for block in ParamsLayout(*network).blocks()} == expected


# H = 4 and I = 4 or 3, one layer: terms are input matrices, recurrent matrices, projection, both biases.
SIZES: list[tuple[dict[str, Any], int]] = [
    ({"rnn_mode": "rnn_tanh"}, 4 * 4 + 4 * 4 + 2 * 4),
    ({"rnn_mode": "rnn_relu", "input_size": 3}, 4 * 3 + 4 * 4 + 2 * 4),
    ({"rnn_mode": "gru"}, 12 * 4 + 12 * 4 + 2 * 12),
    ({}, 16 * 4 + 16 * 4 + 2 * 16),
    ({"input_mode": "auto_select"}, 16 * 4 + 2 * 16),
    ({"input_mode": "auto_select", "input_size": 3}, 16 * 3 + 16 * 4 + 2 * 16),
    ({"input_mode": "skip_input"}, 16 * 4 + 2 * 16),
    ({"input_mode": "SKIP_INPUT", "rnn_mode": "LSTM", "num_layers": 2}, (16 * 4 + 2 * 16) + (16 * 4 + 16 * 4 + 2 * 16)),
    ({"num_proj": 3}, 16 * 4 + 16 * 3 + 3 * 4 + 2 * 16),
    ({"direction": "bidirectional"}, 2 * (16 * 4 + 16 * 4 + 2 * 16)),
    ({"direction": "bidirectional", "num_layers": 2}, 2 * (16 * 4 + 16 * 4 + 2 * 16) + 2 * (16 * 8 + 16 * 4 + 2 * 16)),
    (
        {"direction": "bidirectional", "num_layers": 2, "num_proj": 3, "input_mode": "skip_input"},
        2 * (16 * 3 + 3 * 4 + 2 * 16) + 2 * (16 * 6 + 16 * 3 + 3 * 4 + 2 * 16),
    ),
]


@pytest.mark.parametrize(("attributes", "expected"), SIZES, ids=[str(row[0]) for row in SIZES])
def test_params_size(attributes: dict[str, Any], expected: int) -> None:
    assert params_size(**({"num_layers": 1, "num_units": 4, "input_size": 4} | attributes)) == expected


@st.composite
def layouts(draw: st.DrawFn) -> ParamsLayout:
    mode = draw(st.sampled_from(["rnn_relu", "rnn_tanh", "lstm", "gru"]))
    units = draw(st.integers(1, 5))
    skip = draw(st.booleans())
    return ParamsLayout(
        mode,
        draw(st.integers(1, 4)),
        units,
        units if skip else draw(st.integers(1, 6)),
        draw(st.booleans()),
        num_proj=draw(st.integers(0, units - 1)) if mode == "lstm" else 0,
        skip_input=skip,
    )


def numbered(layout: ParamsLayout, dtype: Any = np.float32) -> Array:
    """A buffer in which every element has another value."""
    return np.arange(layout.size).astype(dtype)


@settings(deadline=None)
@given(layouts())
def test_blocks_follow_each_other_without_gaps(layout: ParamsLayout) -> None:
    end = 0
    for block in layout.blocks():
        assert block.offset == end
        end += block.size
        assert block.name == f"{block.kind}_l{block.layer}" + ("_reverse" if block.direction else "")
    assert end == layout.size
    names = [block.name for block in layout.blocks()]
    assert len(set(names)) == len(names)
    assert not any("bias" in name for name in names[: -2 * layout.num_layers * layout.num_directions])


@settings(deadline=None)
@given(layouts(), st.sampled_from([np.float16, np.float32, np.float64]), st.integers(0, 2**32 - 1))
def test_round_trips_are_exact(layout: ParamsLayout, dtype: Any, seed: int) -> None:
    rng = np.random.default_rng(seed)
    params = rng.standard_normal(layout.size).astype(dtype)
    canonical = params_to_canonical(params, layout)
    again = canonical_to_params(dict(reversed(canonical.items())), layout)
    assert again.dtype == dtype
    assert again.tobytes() == params.tobytes()
    weights, biases = params_to_weights_and_biases(params, layout)
    assert weights_and_biases_to_params(weights, biases, layout).tobytes() == params.tobytes()
    assert weights_and_biases_to_params(weights, np.stack(biases), layout).tobytes() == params.tobytes(), "rows of one array"
    out = np.full(layout.size, np.nan, dtype)
    assert canonical_to_params({name: array.copy() for name, array in canonical.items()}, layout, out) is out
    assert out.tobytes() == params.tobytes()
    out.fill(np.nan)
    assert weights_and_biases_to_params(weights, biases, layout, out) is out
    assert out.tobytes() == params.tobytes()


@settings(deadline=None)
@given(layouts(), st.booleans())
def test_views_share_the_buffer(layout: ParamsLayout, strided: bool) -> None:
    memory = np.zeros(layout.size * 2, np.float32)
    params = memory[::2] if strided else memory[: layout.size]
    canonical = params_to_canonical(params, layout)
    weights, biases = params_to_weights_and_biases(params, layout)
    for views in (list(canonical.values()), [*weights, *biases]):
        params[:] = 0
        for array in views:
            assert np.shares_memory(array, params)
            array += 1
        assert (params == 1).all(), "each element belongs to exactly one view"


def test_views_of_tensorflows_lists() -> None:
    layout = ParamsLayout("lstm", 2, 3, 5, True, num_proj=2)
    params = numbered(layout)
    blocks = params_to_canonical(params, layout)
    expected_weights, expected_biases = [], []
    for end in ("l0", "l0_reverse", "l1", "l1_reverse"):
        expected_weights += [*np.split(blocks[f"weight_ih_{end}"], 4), *np.split(blocks[f"weight_hh_{end}"], 4), blocks[f"weight_hr_{end}"]]
        expected_biases += [*np.split(blocks[f"bias_ih_{end}"], 4), *np.split(blocks[f"bias_hh_{end}"], 4)]
    weights, biases = params_to_weights_and_biases(params, layout)
    assert [array.shape for array in weights[:9]] == [(3, 5)] * 4 + [(3, 2)] * 4 + [(2, 3)]
    assert [array.tolist() for array in weights] == [array.tolist() for array in expected_weights]
    assert [array.tolist() for array in biases] == [array.tolist() for array in expected_biases]


def test_lists_without_the_first_layers_input_matrices() -> None:
    weights, biases = params_to_weights_and_biases(np.zeros(params_size(2, 3, 3, rnn_mode="gru", input_mode="skip_input")), skipping())
    assert [array.shape for array in weights] == [(3, 3)] * (3 + 6)
    assert [array.shape for array in biases] == [(3,)] * 12


def skipping() -> ParamsLayout:
    return ParamsLayout("gru", 2, 3, 3, False, skip_input=True)


def test_entries_may_be_their_blocks_of_out_and_strided_arrays() -> None:
    layout = ParamsLayout("gru", 1, 3, 4, False)
    params = numbered(layout)
    canonical = params_to_canonical(params, layout)
    canonical["weight_ih_l0"] = np.asfortranarray(canonical["weight_ih_l0"] + 100)
    expected = params.copy()
    expected[: 9 * 4] += 100
    np.testing.assert_array_equal(canonical_to_params(canonical, layout, params), expected)


# attributes

LSTM = {"rnn_mode": "lstm", "num_layers": 1, "num_units": 4, "input_size": 3, "bidirectional": False}
WRONG: list[tuple[dict[str, Any], list[tuple[str, str]]]] = [
    ({"rnn_mode": "lsmt"}, [("rnn_mode", "field.form")]),
    ({"rnn_mode": None}, [("rnn_mode", "field.form")]),
    ({"num_layers": 0}, [("num_layers", "field.form")]),
    ({"num_units": -1}, [("num_units", "field.form")]),
    ({"input_size": 2.0}, [("input_size", "field.form")]),
    ({"input_size": True}, [("input_size", "field.form")]),
    ({"num_proj": -1}, [("num_proj", "field.form")]),
    ({"bidirectional": "unidirectional"}, [("bidirectional", "field.form")]),
    ({"skip_input": 1}, [("skip_input", "field.form")]),
    ({"num_layers": 0, "num_units": 0, "skip_input": None}, [(name, "field.form") for name in ("num_layers", "num_units", "skip_input")]),
    ({"rnn_mode": "gru", "num_proj": 2}, [("num_proj", "num_proj_range")]),
    ({"num_proj": 4}, [("num_proj", "num_proj_range")]),
    ({"skip_input": True}, [("skip_input", "skip_input_sizes")]),
    ({"num_proj": 5, "skip_input": True}, [("num_proj", "num_proj_range"), ("skip_input", "skip_input_sizes")]),
]


def places(problems: tuple[Problem, ...]) -> list[tuple[str, str]]:
    return [(problem.path, problem.code) for problem in problems]


@pytest.mark.parametrize(("change", "expected"), WRONG, ids=[str(row[0]) for row in WRONG])
def test_wrong_attributes(change: dict[str, Any], expected: list[tuple[str, str]]) -> None:
    with pytest.raises(DescError) as caught:
        ParamsLayout(**(LSTM | change))
    assert places(caught.value.problems) == expected


def test_wrong_attributes_of_tensorflow() -> None:
    with pytest.raises(DescError) as caught:
        params_size(0, 4, 3, rnn_mode="lsmt", input_mode="skip", direction="both")
    expected = ["rnn_mode", "num_layers", "input_mode", "direction"]
    assert places(caught.value.problems) == [(name, "field.form") for name in expected]
    assert caught.value.problems[0].remedy == "did you mean lstm?"
    with pytest.raises(DescError, match="bidirectional"):
        params_size(1, 4, 3, direction="bidi")


def test_a_layout_is_a_value() -> None:
    layout = ParamsLayout("LSTM", np.int64(2), 4, 3, np.bool_(True))
    assert layout == ParamsLayout("lstm", 2, 4, 3, True)
    assert hash(layout) == hash(ParamsLayout("lstm", 2, 4, 3, True))
    assert (layout.gates, layout.num_directions, layout.state_size, layout.cell) == (4, 2, 4, "LSTM")
    assert ParamsLayout("lstm", 2, 4, 3, False, num_proj=3).state_size == 3
    assert [ParamsLayout(mode, 1, 4, 3, False).gates for mode in ("rnn_relu", "rnn_tanh", "gru")] == [1, 1, 3]


# arrays

NETWORK = ParamsLayout("gru", 1, 3, 4, False)


@pytest.mark.parametrize("shape", [(NETWORK.size - 1,), (1, NETWORK.size), ()])
def test_a_buffer_of_another_shape(shape: tuple[int, ...]) -> None:
    good = params_to_canonical(numbered(NETWORK), NETWORK)
    lists = params_to_weights_and_biases(numbered(NETWORK), NETWORK)
    for call in (
        lambda: params_to_canonical(np.zeros(shape), NETWORK),
        lambda: params_to_weights_and_biases(np.zeros(shape), NETWORK),
        lambda: canonical_to_params(good, NETWORK, np.zeros(shape, np.float32)),
        lambda: weights_and_biases_to_params(*lists, NETWORK, np.zeros(shape, np.float32)),
    ):
        with pytest.raises(DescError, match=f"a flat array of {NETWORK.size} elements") as caught:
            call()
        assert [problem.code for problem in caught.value.problems] == ["array.shape"]
    with pytest.raises(DescError, match=r"array\.kind"):
        params_to_canonical([0.0] * NETWORK.size, NETWORK)


def test_everything_wrong_with_named_blocks_is_reported_at_once() -> None:
    canonical: dict[Any, Any] = dict(params_to_canonical(numbered(NETWORK), NETWORK))
    canonical["weight_ih_10"] = canonical.pop("weight_ih_l0")
    canonical["weight_hh_l0"] = canonical["weight_hh_l0"].T.copy()
    canonical["bias_ih_l0"] = canonical["bias_ih_l0"].astype(np.float64)
    canonical["bias_hh_l0"] = "zeros"
    canonical["weight_hr_l0"] = np.zeros((2, 3), np.float32)
    canonical[7] = None
    out = np.full(NETWORK.size, np.nan, np.float32)
    for target in (None, out):
        with pytest.raises(DescError) as caught:
            canonical_to_params(canonical, NETWORK, target)
        assert places(caught.value.problems) == [
            ("weight_ih_10", "field.unknown"),
            ("weight_hr_l0", "field.unknown"),
            ("7", "field.unknown"),
            ("weight_ih_l0", "field.missing"),
            ("weight_hh_l0", "array.shape"),
            ("bias_ih_l0", "array.type"),
            ("bias_hh_l0", "array.kind"),
        ]
        remedies = [problem.remedy for problem in caught.value.problems]
        assert remedies[0] == "did you mean weight_ih_l0?"
        assert remedies[3] == "was it given as weight_ih_10?"
        assert caught.value.problems[4].found == "[3, 9]"
        assert caught.value.problems[4].expected == "[9, 3]"
    assert np.isnan(out).all()


def test_a_buffer_of_another_type() -> None:
    canonical = params_to_canonical(numbered(NETWORK), NETWORK)
    out = np.full(NETWORK.size, np.nan, np.float16)
    with pytest.raises(DescError) as caught:
        canonical_to_params(canonical, NETWORK, out)
    assert places(caught.value.problems) == [(name, "array.type") for name in canonical]
    assert np.isnan(out).all()


def test_no_blocks_at_all() -> None:
    with pytest.raises(DescError) as caught:
        canonical_to_params({}, NETWORK)
    assert places(caught.value.problems) == [(block.name, "field.missing") for block in NETWORK.blocks()]


def test_everything_wrong_with_lists_is_reported_at_once() -> None:
    weights, biases = params_to_weights_and_biases(numbered(NETWORK), NETWORK)
    with pytest.raises(DescError) as caught:
        weights_and_biases_to_params([weights[0].T, *weights[1:5], weights[5].astype(np.float16)], biases[:-1], NETWORK)
    assert places(caught.value.problems) == [("biases", "count.length"), ("weights[0]", "array.shape"), ("weights[5]", "array.type")]
    with pytest.raises(DescError, match="a list of 6"):
        weights_and_biases_to_params([], [], NETWORK)
