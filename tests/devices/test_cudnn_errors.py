"""What stacked networks refuse, and that nothing is written then."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from tests.support.recurrent.networks import MODES, Mode, described, gradient_inputs, network, poisoned, run, upstream

Array = np.ndarray[Any, np.dtype[Any]]


def codes(error: pytest.ExceptionInfo[dml.DmlError]) -> dict[str, str]:
    """The problems' codes by path."""
    return {problem.path: problem.code for problem in error.value.problems}


# the reserve


CHANGES: dict[str, dict[str, Any]] = {
    "dropout": {"dropout": 0.25},
    "seed": {"seed": 8},
    "seed2": {"seed2": 8},
    "rnn_mode": {"rnn_mode": "rnn_relu"},
}


@pytest.mark.parametrize("attribute", CHANGES)
def test_the_reserve_of_another_configuration_is_refused(any_device: dml.Device, attribute: str) -> None:
    rng = np.random.default_rng(1)
    net = network(rng, "rnn_tanh", dropout=0.5, seed=7)
    other = described(net.arrays, net.desc, **CHANGES[attribute])
    reserve = run(any_device, other.desc, other.arrays)["reserve_space"]
    desc = net.desc.gradient()
    arrays = {name: any_device.from_host(array) for name, array in (gradient_inputs(net, desc) | upstream(rng, desc)).items()}
    result = any_device.from_host(np.full(net.desc.params.sizes, 7, np.float32))
    with pytest.raises(dml.BindError, match=rf"a reserve of {attribute} {CHANGES[attribute][attribute]}") as error:
        dml.compile(desc, any_device)(**arrays, reserve_space=reserve, params_backprop=result)
    assert codes(error) == {"reserve_space": "reserve.foreign"}
    assert (any_device.to_host(result) == 7).all()


def test_the_reserve_of_other_lengths_is_refused_but_their_values_may_differ() -> None:
    rng = np.random.default_rng(2)
    whole, ragged = network(rng), network(rng, lengths=[1, 2, 3])
    reserve = run(dml.device("numpy"), whole.desc, whole.arrays)["reserve_space"]
    desc = ragged.desc.gradient()
    with pytest.raises(dml.BindError, match="sequence_lengths"):
        run(dml.device("numpy"), desc, gradient_inputs(ragged, desc) | upstream(rng, desc) | {"reserve_space": reserve})


def test_the_reserve_of_a_skipped_input_is_refused() -> None:
    """Though its size is that of a network which multiplies its input."""
    rng = np.random.default_rng(2)
    skips, multiplies = (network(rng, inputs=6, units=6, input_mode=mode) for mode in ("auto_select", "linear_input"))
    reserve = run(dml.device("numpy"), skips.desc, skips.arrays)["reserve_space"]
    desc = multiplies.desc.gradient()
    with pytest.raises(dml.BindError, match="a reserve of skip_input True, expected one of skip_input False"):
        run(dml.device("numpy"), desc, gradient_inputs(multiplies, desc) | upstream(rng, desc) | {"reserve_space": reserve})


def test_a_reserve_belongs_to_its_device(cuda_device: dml.Device) -> None:
    rng = np.random.default_rng(3)
    net = network(rng)
    reserve = run(dml.device("numpy"), net.desc, net.arrays)["reserve_space"]
    desc = net.desc.gradient()
    with pytest.raises(dml.BindError) as error:
        run(cuda_device, desc, gradient_inputs(net, desc) | upstream(rng, desc) | {"reserve_space": reserve})
    assert codes(error) == {"reserve_space": "reserve.foreign"}


@pytest.mark.parametrize("shift", [0, 1])
def test_raw_memory_is_taken_as_the_reserve_at_any_address(any_device: dml.Device, shift: int) -> None:
    """Of a raw pointer only the size can be checked; it need not be aligned to more than its elements."""
    rng = np.random.default_rng(4)
    net = network(rng, dropout=0.5, offset=9, lengths=[5, 1, 4])
    desc, size = net.desc.gradient(), net.desc.reserve_space.sizes[0]  # type: ignore[union-attr]
    memory = poisoned(any_device, dml.TensorDesc(data_type="FLOAT32", sizes=[size + 1]))
    raw = dml.Buffer(any_device.view(memory).pointer + 4 * shift, 4 * size)
    given = gradient_inputs(net, desc) | upstream(rng, desc)
    own = run(any_device, net.desc, net.arrays)["reserve_space"]
    dml.compile(net.desc, any_device)(**net.arrays, reserve_space=raw, copy=True)
    expected = run(any_device, desc, given | {"reserve_space": own})
    for name, value in run(any_device, desc, given | {"reserve_space": raw}).items():
        np.testing.assert_array_equal(value, expected[name])
    for name, value in run(any_device, desc, given | {"reserve_space": own.array}).items():
        np.testing.assert_array_equal(value, expected[name])
    with pytest.raises(dml.BindError) as error:
        run(any_device, desc, given | {"reserve_space": dml.Buffer(raw.pointer, 4 * size - 1)})
    assert codes(error) == {"reserve_space": "buffer.size"}


def test_a_reserve_is_packed() -> None:
    desc = network(np.random.default_rng(5)).desc
    assert desc.reserve_space is not None
    apart = desc.reserve_space.replace(strides=(2,))
    for wrong in (desc.replace(reserve_space=apart), desc.gradient().replace(reserve_space=apart)):
        with pytest.raises(dml.CompileError) as error:
            dml.compile(wrong, "numpy")
        assert codes(error) == {"reserve_space.strides": "stride.reserve"}


# sizes and attributes


def test_params_of_a_wrong_size_are_refused(any_device: dml.Device) -> None:
    net = network(np.random.default_rng(6))
    short = net.arrays["params"][:-1]
    with pytest.raises(dml.BindError) as error:
        run(any_device, net.desc, net.arrays | {"params": short})
    assert codes(error) == {"params": "array.shape"}
    with pytest.raises(dml.CompileError, match=rf"params_size = {net.layout.size}") as compiling:
        dml.compile(net.desc.replace(params=dml.TensorDesc.of(short)), any_device)
    assert codes(compiling) == {"params.sizes[0]": "size.equal"}


@pytest.mark.parametrize(
    ("attributes", "code"),
    [
        ({"dropout": 1.0}, "dropout_range"),
        ({"dropout": -0.5}, "dropout_range"),
        ({"dropout": float("nan")}, "dropout_range"),
        ({"input_mode": "skip_input"}, "skip_input_sizes"),
        ({"num_proj": 6}, "num_proj_range"),
        ({"num_proj": 2, "rnn_mode": "gru", "input_c": None, "output_c": None}, "num_proj_range"),
        ({"rnn_mode": "gru"}, "cell_states"),
    ],
)
def test_wrong_attributes_are_refused(any_device: dml.Device, attributes: dict[str, Any], code: str) -> None:
    net = network(np.random.default_rng(7))
    for desc in (net.desc, net.desc.gradient()):
        known = {name: value for name, value in attributes.items() if name in type(desc).model_fields}
        with pytest.raises(dml.CompileError) as error:
            dml.compile(desc.replace(**known), any_device)
        assert code in codes(error).values()


@pytest.mark.parametrize(
    ("attribute", "value", "text"),
    [
        ("rnn_mode", "rnn", "rnn_relu, rnn_tanh, lstm, gru"),
        ("input_mode", "skip", "linear_input, skip_input, auto_select"),
        ("direction", "both", "unidirectional, bidirectional"),
    ],
)
def test_unknown_names_are_refused(attribute: str, value: str, text: str) -> None:
    with pytest.raises(dml.DescError, match=text):
        network(np.random.default_rng(8)).desc.replace(**{attribute: value})


# lengths on the host


@pytest.mark.parametrize("wrong", [-1, 6, -(2**31)])
@pytest.mark.parametrize("mode", MODES)
def test_lengths_on_the_host_are_checked_before_anything_is_written(mode: Mode, wrong: int) -> None:
    rng = np.random.default_rng(9)
    net = network(rng, mode, lengths=[5, 0, 2])
    desc = net.desc.gradient()
    reserve = run(dml.device("numpy"), net.desc, net.arrays)["reserve_space"].array
    given = gradient_inputs(net, desc) | upstream(rng, desc) | {"reserve_space": reserve}
    for of, arrays in ((net.desc, net.arrays), (desc, given)):
        lengths = np.array([5, 0, 2], np.int32)
        arrays = arrays | {"sequence_lengths": lengths}
        tensors = of.tensors()
        outputs = {f.name: np.full(tensors[f.name].sizes, 7, tensors[f.name].data_type.numpy) for f in of.outputs() if f.name in tensors}
        op: Any = dml.compile(of, "numpy")
        dispatch = op.bind(arrays, outputs)
        lengths[1] = wrong
        for call in (dispatch, lambda op=op, arrays=arrays, outputs=outputs: op(**arrays, **outputs)):
            with pytest.raises(dml.BindError, match=rf"sequence_lengths\[1\] is {wrong}, expected 0 to 5") as error:
                call()
            assert codes(error) == {"sequence_lengths[1]": "value.range"}
        assert all((array == 7).all() for array in outputs.values())


@pytest.mark.parametrize("wrong", [-1, 6])
def test_copied_lengths_are_checked_on_the_host(cuda_device: dml.Device, wrong: int) -> None:
    net = network(np.random.default_rng(10), lengths=[5, 0, 2])
    outputs = {"output": np.full(net.desc.output.sizes, 7, np.float32)}  # type: ignore[union-attr]
    arrays = net.arrays | {"sequence_lengths": np.array([5, wrong, 2], np.int32)}
    with pytest.raises(dml.BindError) as error:
        dml.compile(net.desc, cuda_device)(**arrays, **outputs, copy=True)
    assert codes(error) == {"sequence_lengths[1]": "value.range"}
    assert (outputs["output"] == 7).all()
