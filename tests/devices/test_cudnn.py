"""Stacked networks and their gradients on every device: against PyTorch, a float64 run, and what has to be equal bit for bit."""

from __future__ import annotations

import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from dmlpy.devices.cuda.device import CudaDevice
from dmlpy.devices.cuda.emulation.runtime import T4, EmulatedRuntime
from dmlpy.devices.cuda.kernels import KernelLibrary
from dmlpy.devices.cuda.recurrent.common import MOST_CAPTURED_STEPS
from dmlpy.devices.cuda.recurrent.cudnn import NetworkPlan
from dmlpy.devices.numpy.plans import plan_of
from dmlpy.operators.recurrent.stack import stack_of
from tests.conftest import cuda_on_cpu
from tests.support.cuda.dry_run import DryRunRuntime
from tests.support.recurrent.layer_runs import place
from tests.support.recurrent.networks import (
    MODES,
    Arrays,
    Mode,
    Network,
    by_block,
    check,
    check_torch,
    described,
    gradient_inputs,
    gradients,
    network,
    reference,
    run,
    same,
    swapped,
    torch_case,
    torch_cases,
    upstream,
    values,
)
from tests.support.tools import require

Array = np.ndarray[Any, np.dtype[Any]]

STEP = replace(T4, name="a device whose blocks share next to nothing", shared_memory_per_block=64)


# against PyTorch


@pytest.mark.parametrize("name", torch_cases())
def test_torch(any_device: dml.Device, name: str) -> None:
    check_torch(any_device, name)


@pytest.mark.parametrize("name", [name for name in torch_cases() if name.endswith(("_lens", "_proj"))])
def test_torch_where_each_step_is_a_launch(name: str) -> None:
    device, case = cuda_on_cpu(limits=STEP), torch_case(name)
    assert "strategy per_step" in dml.compile(case.network.desc, device).plan
    check(gradients(device, case.network, case.upstream), case.outputs, case.network.layout)


@pytest.mark.parametrize("name", torch_cases())
def test_the_float64_run_is_pytorchs_too(name: str) -> None:
    case = torch_case(name)
    check(reference(case.network, case.upstream), case.outputs, case.network.layout)


# against a float64 run

ROWS: dict[str, dict[str, Any]] = {
    "one layer": {"layers": 1, "directions": 1},
    "ragged": {"layers": 3, "lengths": [5, 0, 2]},
    "one sample": {"layers": 3, "batch": 1, "lengths": [3]},
    "one step": {"steps": 1, "directions": 1, "lengths": [1, 0, 1]},
    "skips its input": {"inputs": 6, "input_mode": "skip_input", "lengths": [1, 5, 4]},
    "odd sizes": {"layers": 4, "directions": 1, "inputs": 7, "units": 5, "batch": 5, "steps": 7},
    "dropout": {"layers": 3, "dropout": 0.4, "seed": 3, "seed2": 2**32 - 5, "offset": 2**64 - 2**31, "lengths": [5, 3, 4]},
}


@pytest.mark.each_value
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("row", ROWS)
def test_options(any_device: dml.Device, row: str, mode: Mode, dtype: Any) -> None:
    rng = np.random.default_rng(1)
    net = network(rng, mode, dtype=dtype, **ROWS[row])
    given = upstream(rng, net.desc.gradient())
    check_types(any_device, net, given, dtype)


@pytest.mark.each_value
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("row", ["one layer", "ragged", "dropout"])
def test_projections(every_device: dml.Device, row: str, dtype: Any) -> None:
    rng = np.random.default_rng(2)
    net = network(rng, num_proj=4, dtype=dtype, **ROWS[row])
    check_types(every_device, net, upstream(rng, net.desc.gradient()), dtype)


def check_types(device: dml.Device, net: Network, given: Arrays, dtype: Any) -> None:
    """FLOAT32 within the policy's tolerance, FLOAT16 within 5e-3: what is rounded between the layers adds up."""
    expected, results = reference(net, given), gradients(device, net, given)
    if dtype == np.float32:
        check(results, expected, net.layout)
        return
    for name, wanted in by_block(expected, net.layout):
        found = dict(by_block(results, net.layout))[name].astype(np.float64)
        size = np.linalg.norm(wanted)
        assert np.linalg.norm(found - wanted) <= 5e-3 * size, (name, np.linalg.norm(found - wanted) / size)


@pytest.mark.each_value
@pytest.mark.parametrize("scale", [1.0, 1e-4, 1e-8, 1e4])
@pytest.mark.parametrize("mode", MODES)
def test_gradients_keep_their_accuracy_at_any_scale(any_device: dml.Device, mode: Mode, scale: float) -> None:
    rng = np.random.default_rng(3)
    net = network(rng, mode, layers=3, lengths=[5, 2, 4], dropout=0.2)
    given = {name: array * np.float32(scale) for name, array in upstream(rng, net.desc.gradient()).items()}
    results, expected = gradients(any_device, net, given), reference(net, given)
    for name in ("input_backprop", "input_h_backprop", "params_backprop"):
        assert np.linalg.norm(results[name] - expected[name]) <= 1e-5 * np.linalg.norm(expected[name]), name


# layouts


@pytest.mark.parametrize("mode", MODES)
def test_batch_major_is_the_transposed_time_major(any_device: dml.Device, mode: Mode) -> None:
    rng = np.random.default_rng(4)
    net = network(rng, mode, lengths=[2, 5, 0], dropout=0.3, offset=5)
    given = upstream(rng, net.desc.gradient())
    first = gradients(any_device, net, given)
    second = gradients(any_device, net.transposed(), {name: swapped(name, array) for name, array in given.items()})
    same({name: swapped(name, value) for name, value in values(first).items()}, second)


@pytest.mark.parametrize("mode", MODES)
def test_tensors_of_any_strides(any_device: dml.Device, mode: Mode) -> None:
    """All tensors of the caller, but the reserve, are padded and permuted; nothing between their elements is touched."""
    rng = np.random.default_rng(5)
    net = network(rng, mode, inputs=6, lengths=[2, 5, 0], dropout=0.3, offset=5)
    given = upstream(rng, net.desc.gradient())
    packed = gradients(any_device, net, given)

    def strided(desc: Any, arrays: dict[str, Any]) -> dict[str, Any]:
        # With one axis there is nothing to permute, and padding alone sets elements apart.
        layouts = {name: "padded" if array.ndim == 1 else "permuted" for name, array in arrays.items() if isinstance(array, np.ndarray)}
        placed = {name: place(arrays[name], layout, rng) for name, layout in layouts.items()}
        outputs = {}
        for field in desc.outputs():
            if (tensor := getattr(desc, field.name)) is not None and not field.marker.reserve:
                start = np.full(tensor.sizes, -1, tensor.data_type.numpy)
                outputs[field.name] = place(start, "padded" if start.ndim == 1 else "permuted", rng)
        desc = desc.replace(**{name: item.desc for name, item in (placed | outputs).items()})
        assert dml.check(desc) == []
        given = arrays | {name: item.elements for name, item in placed.items()}
        if any_device.memory_kind != "cpu":
            return run(any_device, desc, given)
        untouched = {name: item.gaps() for name, item in outputs.items()}
        results = dml.compile(desc, any_device)(**given, **{name: item.elements for name, item in outputs.items()}).as_dict()
        for name, item in outputs.items():
            np.testing.assert_array_equal(item.gaps(), untouched[name], err_msg=name)
        return dict(results)

    results = strided(net.desc, dict(net.arrays))
    desc = net.desc.gradient()
    results |= strided(desc, gradient_inputs(net, desc) | given | {"reserve_space": results["reserve_space"]})
    check(results, values(packed), net.layout)


def test_parameters_may_be_every_second_element(any_device: dml.Device) -> None:
    rng = np.random.default_rng(6)
    net = network(rng, "rnn_tanh")
    wide = np.repeat(net.arrays["params"], 2)
    wide[1::2] = np.nan
    apart = described(net.arrays | {"params": wide[::2]}, net.desc)
    assert apart.desc.params.strides == (2,)
    same(run(any_device, net.desc, net.arrays), run(any_device, apart.desc, apart.arrays))


# input modes


@pytest.mark.parametrize("mode", MODES)
def test_skipping_is_the_identity_for_every_gate(any_device: dml.Device, mode: Mode) -> None:
    rng = np.random.default_rng(14)
    net = network(rng, mode, inputs=6, units=6, input_mode="skip_input", lengths=[5, 0, 3])
    blocks = dml.params_to_canonical(net.arrays["params"], net.layout)
    layout = replace(net.layout, skip_input=False)
    identity = np.tile(np.eye(6, dtype=np.float32), (layout.gates, 1))
    whole = dml.canonical_to_params({"weight_ih_l0": identity, "weight_ih_l0_reverse": identity} | blocks, layout)
    explicit = described(net.arrays | {"params": whole}, net.desc, input_mode="linear_input")
    given = upstream(rng, net.desc.gradient())
    skipping, multiplying = gradients(any_device, net, given), gradients(any_device, explicit, given)
    found = dml.params_to_canonical(skipping.pop("params_backprop"), net.layout)
    expected = dml.params_to_canonical(multiplying.pop("params_backprop"), layout)
    same(skipping, multiplying)
    for name, block in found.items():
        np.testing.assert_array_equal(block, expected[name], err_msg=name)
    assert len(found) == len(expected) - 2


@pytest.mark.parametrize(("inputs", "meaning"), [(6, "skip_input"), (5, "linear_input")])
def test_auto_select(any_device: dml.Device, inputs: int, meaning: str) -> None:
    rng = np.random.default_rng(15)
    net = network(rng, "gru", inputs=inputs, units=6, input_mode=meaning)
    automatic = described(net.arrays, net.desc, input_mode="auto_select")
    given = upstream(rng, net.desc.gradient())
    same(gradients(any_device, net, given), gradients(any_device, automatic, given))


# some outputs, some inputs


@pytest.mark.parametrize("mode", MODES)
def test_outputs_do_not_depend_on_which_others_there_are(any_device: dml.Device, mode: Mode) -> None:
    net = network(np.random.default_rng(16), mode, layers=3, lengths=[5, 2, 0], dropout=0.3)
    whole = run(any_device, net.desc, net.arrays)
    bare = net.desc.replace(**{field.name: None for field in net.desc.outputs()})
    names = [name for name in whole if name != "reserve_space"]
    for count in (1, 2):
        for some in combinations(names, count):
            desc = bare.with_outputs(*some)
            found = run(any_device, desc, net.arrays)
            same(found, {name: whole[name] for name in some})
            assert tuple(found) == some
    assert whole["host_reserved"] == 0


@pytest.mark.parametrize("mode", MODES)
def test_gradients_do_not_depend_on_which_others_there_are(any_device: dml.Device, mode: Mode) -> None:
    rng = np.random.default_rng(17)
    net = network(rng, mode, layers=3, lengths=[5, 2, 0], dropout=0.3)
    desc = net.desc.gradient()
    given = upstream(rng, desc)
    results = run(any_device, net.desc, net.arrays)
    arrays = gradient_inputs(net, desc) | given | {"reserve_space": results["reserve_space"]}
    whole = run(any_device, desc, arrays)
    for some in [(name,) for name in whole] + [tuple(whole)[:2]]:
        same(run(any_device, net.desc.gradient(*some), arrays), {name: whole[name] for name in some})


@pytest.mark.parametrize("mode", MODES)
def test_absent_upstream_gradients_are_zero(any_device: dml.Device, mode: Mode) -> None:
    rng = np.random.default_rng(18)
    net = network(rng, mode, lengths=[5, 2, 0])
    desc = net.desc.gradient()
    given = upstream(rng, desc)
    for count in range(len(given)):
        for absent in combinations(given, count + 1):
            zeros = {name: np.zeros_like(array) if name in absent else array for name, array in given.items()}
            less = desc.replace(**dict.fromkeys(absent))
            found = gradients(any_device, net, {name: array for name, array in given.items() if name not in absent}, less)
            same(found, gradients(any_device, net, zeros))


def test_what_is_there_for_tensorflow_alone_is_not_read(any_device: dml.Device) -> None:
    rng = np.random.default_rng(19)
    net = network(rng)
    results = run(any_device, net.desc, net.arrays)
    desc = net.desc.gradient()
    names = ("output", "output_h", "output_c", "host_reserved")
    whole = desc.replace(**{name: getattr(net.desc, name) for name in names})
    given = upstream(rng, desc)
    junk = {name: np.full_like(results[name], np.nan if results[name].dtype.kind == "f" else 7) for name in names}
    arrays = gradient_inputs(net, desc) | given | {"reserve_space": results["reserve_space"]}
    same(run(any_device, desc, arrays), run(any_device, whole, arrays | junk))


# lengths


def test_past_a_samples_end_nothing_counts(any_device: dml.Device) -> None:
    """Inputs and upstream gradients there may be anything; outputs and the input's gradient are zero."""
    rng = np.random.default_rng(20)
    lengths = [3, 0, 5]
    net = network(rng, "gru", lengths=lengths)
    given = upstream(rng, net.desc.gradient())
    clean = gradients(any_device, net, given)
    past = np.arange(5)[:, None] >= lengths
    dirty = net.of(input=np.where(past[..., None], np.float32(np.nan), net.arrays["input"]))
    worse = given | {"output_backprop": np.where(past[..., None], np.float32(np.inf), given["output_backprop"])}
    same(clean, gradients(any_device, dirty, worse))
    assert not clean["output"][past].any()
    assert not clean["input_backprop"][past].any()
    np.testing.assert_array_equal(clean["output_h"][:, 1], net.arrays["input_h"][:, 1])
    np.testing.assert_array_equal(clean["input_h_backprop"][:, 1], given["output_h_backprop"][:, 1])


def test_lengths_on_the_device_are_clamped_or_validated(cuda_device: dml.Device) -> None:
    rng = np.random.default_rng(21)
    net = network(rng, lengths=[5, 0, 4])
    given = upstream(rng, net.desc.gradient())
    expected = gradients(cuda_device, net, given)
    lengths = cuda_device.from_host(np.array([2**31 - 1, -(2**31), 4], np.int32))
    same(expected, gradients(cuda_device, net.of(sequence_lengths=lengths), given))
    with pytest.raises(dml.BindError, match=r"sequence_lengths\[0\] is 2147483647, expected 0 to 5"):
        dml.compile(net.desc, cuda_device)(**net.arrays | {"sequence_lengths": lengths}, copy=True, validate=True)


def launched(net: Network) -> dict[str, np.ndarray[Any, Any]]:
    """The outputs of a launch of NumPy's plan alone, which checks no values."""
    plan = plan_of(net.desc)
    assert plan is not None
    tensors = {slot.place: slot.tensor for slot in net.desc.output_slots() if slot.tensor is not None}
    outputs = {place: np.zeros(tensor.sizes, tensor.data_type.numpy) for place, tensor in tensors.items()}
    scratch = np.empty(plan.temporary_size, np.uint8)
    plan.bind({name: array.ctypes.data for name, array in {**net.arrays, **outputs}.items()}, scratch.ctypes.data, None)(0)
    return outputs


def test_lengths_out_of_range_are_clamped_where_nobody_checks_them() -> None:
    net = network(np.random.default_rng(21), "gru", lengths=[5, 0, 4])
    odd = net.of(sequence_lengths=np.array([2**31 - 1, -1, 4], np.int32))
    same(launched(net), launched(odd))


# dispatches


@pytest.mark.parametrize("mode", MODES)
def test_the_same_inputs_give_the_same_bits(any_device: dml.Device, mode: Mode) -> None:
    rng = np.random.default_rng(22)
    net = network(rng, mode, lengths=[5, 2, 0], dropout=0.3)
    given = upstream(rng, net.desc.gradient())
    same(gradients(any_device, net, given), gradients(any_device, net, given))


def test_results_do_not_depend_on_the_order_of_threads() -> None:
    rng = np.random.default_rng(23)
    net = network(rng, "lstm", lengths=[5, 2, 0], dropout=0.3)
    given = upstream(rng, net.desc.gradient())
    found = [gradients(cuda_on_cpu(seed=seed), net, given) for seed in (1, 2)]
    same(*found)


@pytest.mark.parametrize("prepared", [False, True])
def test_a_dispatch_repeats_on_changed_inputs_and_offsets(any_device: dml.Device, prepared: bool) -> None:
    rng = np.random.default_rng(24)
    net = network(rng, "lstm", lengths=[5, 2, 0], dropout=0.5, offset=1)
    desc = net.desc.gradient()
    given = upstream(rng, desc)
    arrays = {name: any_device.from_host(array.copy()) for name, array in (net.arrays | given).items()}
    outputs = {
        field.name: any_device.empty(getattr(of, field.name), any_device.current_stream())
        for of in (net.desc, desc)
        for field in of.outputs()
    }
    steps = []
    for of in (net.desc, desc):
        op: Any = dml.compile(of, any_device)
        inputs = {field.name: (arrays | outputs)[field.name] for field in of.inputs() if getattr(of, field.name) is not None}
        bound = {field.name: outputs[field.name] for field in of.outputs()}
        steps.append((op.prepare() if prepared else op).bind(inputs, bound))
    for offset, factor in ((1, 1.0), (2**33, -0.5)):
        changed = net.of(dropout_offset=np.array([offset], np.uint64), input=net.arrays["input"] * np.float32(factor))
        for name in ("dropout_offset", "input"):
            if any_device.memory_kind == "cpu":
                arrays[name][...] = changed.arrays[name]
            else:
                arrays[name].set(changed.arrays[name])
        for step in steps:
            step()
        expected = gradients(any_device, changed, given)
        same({name: np.array(any_device.to_host(outputs[name])) for name in expected if name != "reserve_space"}, values(expected))


@pytest.mark.parametrize("mode", MODES)
def test_a_launch_allocates_nothing_big(mode: Mode) -> None:
    rng = np.random.default_rng(24)
    net = network(rng, mode, layers=3, steps=4, batch=64, units=256, lengths=[4, 2] * 32, dropout=0.3, offset=5)
    desc = net.desc.gradient()
    results = run(dml.device("cpu"), net.desc, net.arrays)
    arrays = net.arrays | upstream(rng, desc) | results
    for of in (net.desc, desc):
        inputs = {field.name: arrays[field.name] for field in of.inputs() if field.name in of.tensors()}
        outputs = {name: np.empty(tensor.sizes, tensor.data_type.numpy) for name, tensor in of.tensors().items() if name not in inputs}
        dispatch = dml.compile(of, "cpu").bind(inputs, outputs)
        dispatch()
        tracemalloc.start()
        try:
            dispatch()
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        # What lies between two layers is 512 KiB, and a state 64; NumPy itself takes up to 64 KiB to iterate over some broadcasts.
        assert peak < 200_000, f"{of.c_name}: {peak} bytes"


def test_threads_share_an_operator() -> None:
    """Each call has separate scratch, and plans hold none."""
    rng = np.random.default_rng(24)
    net = network(rng, layers=3, steps=9, batch=8, units=32, lengths=[9, 3, 0, 4, 9, 9, 1, 2], dropout=0.3)
    given = upstream(rng, net.desc.gradient())
    nets = [net.of(input=net.arrays["input"] * np.float32(factor)) for factor in (1.0, -0.5)]
    expected = [gradients(dml.device("numpy"), one, given) for one in nets]
    with ThreadPoolExecutor(4) as pool:
        for index, found in enumerate(pool.map(lambda number: gradients(dml.device("numpy"), nets[number % 2], given), range(24))):
            same(found, expected[index % 2])


def test_a_bound_network_is_one_graph() -> None:
    """Its lengths and offset included, which the kernels read."""
    require("g++")
    net = network(np.random.default_rng(24), num_proj=3, lengths=[5, 2, 0], dropout=0.5, offset=1)
    runtime = EmulatedRuntime()
    device = CudaDevice(runtime)
    arrays = {name: device.from_host(array) for name, array in net.arrays.items()}
    outputs = {field.name: device.empty(getattr(net.desc, field.name), 0) for field in net.desc.outputs()}
    dispatch = dml.compile(net.desc, device).bind(arrays, outputs)
    before = runtime.counts.copy()
    dispatch()
    assert runtime.counts - before == {"launch_graph": 1}


@pytest.mark.parametrize(("steps", "captured"), [(MOST_CAPTURED_STEPS // 3, True), (MOST_CAPTURED_STEPS // 3 + 1, False)])
def test_all_layers_steps_count_for_the_graph(steps: int, captured: bool) -> None:
    """Where they are launched one by one."""
    net = network(np.random.default_rng(25), "gru", layers=3, directions=1, steps=steps, batch=1, units=2, inputs=1)
    library = KernelLibrary(DryRunRuntime(), 0)
    for desc in (net.desc, net.desc.gradient()):
        assert NetworkPlan(desc, library, strategy="per_step").capturable is captured
        assert NetworkPlan(desc, library, strategy="persistent_block").capturable


def test_plans_describe_their_layers(any_device: dml.Device) -> None:
    net = network(np.random.default_rng(25), "lstm", layers=3, inputs=6, input_mode="skip_input", dropout=0.5)
    plan = dml.compile(net.desc, any_device).plan.splitlines()
    assert [line for line in plan if line.startswith("layer")] == ["layer 0:", "layer 1:", "layer 2:"]
    assert plan.count("    then dropout of layer 0's output") == 1
    assert plan.count("    input matrices: the identity") == 1
    assert plan.count("    gates brought into DirectML's order: weight, recurrence, bias") == 2
    backwards = dml.compile(net.desc.gradient(), any_device).plan.splitlines()
    assert [line for line in backwards if line.startswith("layer")] == ["layer 2:", "layer 1:", "layer 0:"]


# the description of the layers


@pytest.mark.parametrize("time_major", [True, False])
def test_nothing_is_copied_that_strides_can_express(time_major: bool) -> None:
    net = network(np.random.default_rng(26), "rnn_tanh", layers=3, directions=2, steps=5, batch=3, inputs=4, units=6)
    net = net if time_major else net.transposed()
    first, second, third = stack_of(net.desc).layers
    assert not any(layer.loads or layer.scratch for layer in (first, second, third)), "one gate has one order"
    assert first.places["weight_tensor"].memory == "params"
    assert first.places["input_tensor"].memory == "input"
    assert first.places["input_tensor"].tensor.strides == ((0, 12, 4, 1) if time_major else (0, 4, 20, 1))
    assert third.places["output_sequence_tensor"].memory == "output"
    assert third.places["output_sequence_tensor"].tensor.strides == ((36, 6, 12, 1) if time_major else (12, 6, 60, 1))
    state = second.places["hidden_init_tensor"]
    assert (state.memory, state.offset) == ("input_h", 2 * 18 if time_major else 2 * 6)
    assert state.tensor.strides == ((0, 18, 6, 1) if time_major else (0, 6, 36, 1))
    assert second.places["input_tensor"].memory == "reserve_space", "a deeper layer's input is written where it is kept"


def test_layers_describe_valid_operators_within_their_memory() -> None:
    for number, mode in enumerate(MODES):
        net = network(
            np.random.default_rng(27),
            mode,
            layers=3,
            lengths=[1, 2, 3],
            dropout=0.5,
            input_mode=("linear_input", "auto_select")[number % 2],
        )
        for desc in (net.desc, net.desc.gradient(), net.desc.replace(reserve_space=None)):
            stack = stack_of(desc)
            for layer in stack.layers:
                assert dml.check(layer.desc) == []
                memories = {**desc.tensors(), **stack.scratch, **layer.scratch}
                assert all(place_.offset % 64 == 0 for place_ in layer.places.values() if place_.memory == "reserve_space")
                moved = [place_ for move in (*layer.loads, *layer.stores) for place_ in (move.source, move.target)]
                for place_ in (*layer.places.values(), *moved):
                    memory = memories[place_.memory]
                    assert place_.offset * memory.data_type.bits + place_.tensor.extent_in_bytes * 8 <= memory.extent_in_bytes * 8


OWN = ("drop<", "clamp_lengths<", "write_header<")


@pytest.mark.parametrize(
    ("sanitize", "own"),
    [
        ("address,undefined", ("move_gates<", "identity<", *OWN)),
        pytest.param("thread", OWN, marks=pytest.mark.slow),
        pytest.param("thread", ("move_gates<", "identity<", *OWN), marks=pytest.mark.slow),
    ],
    ids=["address,undefined", "thread", "thread, all kernels"],
)
def test_the_sanitizers_are_silent(sanitize: str, own: tuple[str, ...]) -> None:
    """A CUDA thread costs the thread sanitizer a millisecond; the kernels of the layers have tests of their own."""
    rng = np.random.default_rng(28)
    net = network(rng, "gru", steps=3, inputs=6, input_mode="skip_input", lengths=[3, 0, 2], dropout=0.5, offset=2**40)
    given = upstream(rng, net.desc.gradient())
    check(gradients(cuda_on_cpu(sanitize=sanitize, sanitized=own), net, given), reference(net, given), net.layout)
