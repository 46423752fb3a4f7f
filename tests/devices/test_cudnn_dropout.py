"""Dropout between the layers of a network: the same masks on every device, made again for the gradient."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from dmlpy.devices.numpy.device import NumpyDevice
from dmlpy.operators.recurrent.stack import stack_of
from dmlpy.reference.philox import dropout_multipliers, round_keys
from tests.support.recurrent.networks import (
    MODES,
    Mode,
    Network,
    check,
    described,
    gradients,
    network,
    reference,
    run,
    same,
    upstream,
)

Array = np.ndarray[Any, np.dtype[Any]]


def kept_inputs(device: dml.Device, net: Network, reserve: dml.Reserve) -> list[Array]:
    """What the reserve holds as the input of each layer but the first, [T B, D S]."""
    flat, found = np.ascontiguousarray(device.to_host(reserve.array)), []
    for layer in stack_of(net.desc).layers[1:]:
        where = layer.places["input_tensor"]
        kept = flat[where.offset :].view(where.tensor.data_type.numpy)[: where.tensor.element_count]
        found.append(kept.reshape(-1, where.tensor.sizes[-1]))
    return found


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_masks_are_philoxs_on_every_device(any_device: dml.Device, dtype: Any) -> None:
    offset, seeds = 0x0123_4567_89AB_CDEF, {"seed": 11, "seed2": 2**32 - 3}
    sizes = {"layers": 3, "steps": 33, "batch": 8, "units": 32}
    net = network(np.random.default_rng(7), dropout=0.3, offset=offset, dtype=dtype, **sizes, **seeds)
    reserve = run(any_device, net.desc, net.arrays)["reserve_space"]
    assert tuple(any_device.to_host(reserve.array)[:3].view(np.uint32)) == (0x89AB_CDEF, 0x0123_4567, 0)
    inputs = kept_inputs(any_device, net, reserve)
    for number, kept in enumerate(inputs):
        multipliers = np.empty(kept.size, np.float32)
        dropout_multipliers(0, number, round_keys((11, 2**32 - 3)), offset, 0.3, multipliers)
        np.testing.assert_array_equal(kept != 0, multipliers.reshape(kept.shape) != 0)
        assert 0.69 < (kept != 0).mean() < 0.71
    assert ((inputs[0] != 0) != (inputs[1] != 0)).any(), "each layer has its own"


@pytest.mark.parametrize("mode", MODES)
def test_dropout_multiplies_between_layers_only(any_device: dml.Device, mode: Mode) -> None:
    """The network is its layers run one by one, the mask of the reserve between them."""
    rng = np.random.default_rng(8)
    net = network(rng, mode, layers=2, lengths=[5, 2, 0], dropout=0.5, offset=1)
    whole = run(any_device, net.desc, net.arrays)
    (kept,) = kept_inputs(any_device, net, whole["reserve_space"])
    blocks = dml.params_to_canonical(net.arrays["params"], net.layout)
    signal, outputs = net.arrays["input"], []
    for number in (0, 1):
        own = {name.replace(f"_l{number}", "_l0"): array for name, array in blocks.items() if f"_l{number}" in name}
        layout = replace(net.layout, num_layers=1, input_size=signal.shape[2])
        states = {name: array[2 * number : 2 * number + 2] for name, array in net.arrays.items() if name in ("input_h", "input_c")}
        arrays = {"input": signal, **states, "params": dml.canonical_to_params(own, layout)}
        layer = described(arrays | {"sequence_lengths": net.arrays["sequence_lengths"]}, net.desc)
        outputs.append(run(any_device, layer.desc, layer.arrays))
        undropped = outputs[-1]["output"]
        signal = np.where(kept.reshape(undropped.shape) != 0, 2 * undropped, 0) if number == 0 else undropped
    np.testing.assert_array_equal(whole["output"], outputs[1]["output"])
    np.testing.assert_array_equal(whole["output_h"], np.concatenate([outputs[0]["output_h"], outputs[1]["output_h"]]))


def test_a_mask_follows_seeds_and_offset(any_device: dml.Device) -> None:
    base = {"dropout": 0.5, "seed": 1, "seed2": 2}
    net = network(np.random.default_rng(9), **base, offset=0)

    def output(offset: int, **attributes: Any) -> Array:
        changed = described(net.arrays | {"dropout_offset": np.array([offset], np.uint64)}, net.desc, **attributes)
        found: Array = run(any_device, changed.desc, changed.arrays)["output"]
        return found

    first = output(0)
    np.testing.assert_array_equal(output(0), first)
    np.testing.assert_array_equal(output(0, seed=2**32 + 1), first, err_msg="the low 32 bits count")
    without = described({name: array for name, array in net.arrays.items() if name != "dropout_offset"}, net.desc)
    np.testing.assert_array_equal(run(any_device, without.desc, without.arrays)["output"], first, err_msg="the offset's default is 0")
    others = [output(1), output(2**32), output(0, seed=2), output(0, seed2=1)]
    for one, other in combinations([first, *others], 2):
        assert (one != other).any()


def test_any_number_of_multipliers_at_a_time_gives_the_same_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    rng, results = np.random.default_rng(10), []
    net = network(rng, layers=3, dropout=0.5, offset=7, lengths=[5, 2, 4])
    given = upstream(rng, net.desc.gradient())
    for elements in (1 << 14, 180, 7, 1):
        monkeypatch.setattr("dmlpy.devices.numpy.recurrent.cudnn._MASK_ELEMENTS", elements)
        device = NumpyDevice()  # one whose plans nobody has cached
        results.append(gradients(device, net, given))
        same(results[0], results[-1])


def test_the_gradient_takes_the_offset_from_the_reserve(any_device: dml.Device) -> None:
    rng = np.random.default_rng(10)
    nets = [network(np.random.default_rng(11), dropout=0.5, offset=offset) for offset in (3, 2**40 + 3)]
    given = upstream(rng, nets[0].desc.gradient())
    found = [gradients(any_device, net, given) for net in nets]
    assert (found[0]["params_backprop"] != found[1]["params_backprop"]).any()
    for net, results in zip(nets, found, strict=True):
        check(results, reference(net, given), net.layout)


@pytest.mark.parametrize("dropout", [0.0, 0.6])
@pytest.mark.parametrize("mode", MODES)
def test_inference_is_training_without_dropout(any_device: dml.Device, mode: Mode, dropout: float) -> None:
    net = network(np.random.default_rng(12), mode, layers=4, lengths=[1, 5, 3])
    inference = described(net.arrays, net.desc, is_training=False, dropout=dropout)
    assert inference.desc.reserve_space is None
    trained = run(any_device, net.desc, net.arrays)
    del trained["reserve_space"]
    same(trained, run(any_device, inference.desc, inference.arrays))


def test_training_without_a_reserve_has_dropout(any_device: dml.Device) -> None:
    net = network(np.random.default_rng(13), layers=3, dropout=0.4)
    results = run(any_device, net.desc, net.arrays)
    without = run(any_device, net.desc.replace(reserve_space=None), net.arrays)
    np.testing.assert_array_equal(without["output"], results["output"])
