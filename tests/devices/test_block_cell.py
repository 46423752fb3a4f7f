"""GRUBlockCell and GRUBlockCellGrad on every device: TensorFlow's results, central differences, layouts, and the published page's slips."""

from __future__ import annotations

import itertools
import json
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import dmlpy as dml
from dmlpy.devices.cuda.device import CudaDevice
from dmlpy.devices.cuda.emulation.runtime import EmulatedRuntime
from dmlpy.operators.recurrent.block_cell import GRUBlockDesc, gru_block_cell_weight_gradients
from tests.support.folders import STORED_CASES
from tests.support.recurrent.block_cell_runs import (
    OUTPUTS,
    Array,
    Arrays,
    check,
    check_tensorflow_gradient,
    check_tensorflow_step,
    described,
    load,
    poisons,
    random_inputs,
    run,
)
from tests.support.recurrent.layer_runs import GUARD, Layout, Placed, place
from tests.support.tolerance import assert_close
from tests.support.tools import require

INPUTS = ("x", "h_prev", "w_ru", "w_c", "b_ru", "b_c")
KINDS = pytest.mark.parametrize("kind", OUTPUTS, ids=lambda kind: kind.short_name())
DATA_TYPES = pytest.mark.parametrize("dtype", [np.float32, np.float16], ids=["FLOAT32", "FLOAT16"])


# TensorFlow's results


def cases(prefix: str) -> list[str]:
    """The cases whose name is the prefix and a number."""
    index = json.loads((STORED_CASES / "index.json").read_text())
    found = [entry["case"] for entry in index if entry["case"].removeprefix(prefix).isdigit()]
    assert found
    return found


STEPS, GRADIENTS = cases("tf_gru_block_cell_"), cases("tf_gru_block_cell_grad_")


@pytest.mark.parametrize("case", STEPS)
def test_tensorflow_step(every_device: dml.Device, case: str) -> None:
    check_tensorflow_step(every_device, case)


@pytest.mark.parametrize("case", GRADIENTS)
def test_tensorflow_gradient(every_device: dml.Device, case: str) -> None:
    check_tensorflow_gradient(every_device, case)


@pytest.mark.parametrize("case", STEPS[:2])
def test_step_of_a_sequence_of_one(any_device: dml.Device, case: str) -> None:
    """GRUBlockCell is DirectML's GRU that resets before the product, with T = 1: its u is z, its c is h, matrices are transposed."""
    arrays, _ = load(case)
    inputs, units = arrays["x"].shape[1], arrays["h_prev"].shape[1]
    gates = np.concatenate([arrays["w_ru"][:, units:], arrays["w_ru"][:, :units], arrays["w_c"]], 1).T
    biases = [arrays["b_ru"][units:], arrays["b_ru"][:units], arrays["b_c"], np.zeros(3 * units, np.float32)]
    given = {
        "input_tensor": arrays["x"][None, None],
        "weight_tensor": np.ascontiguousarray(gates[None, None, :, :inputs]),
        "recurrence_tensor": np.ascontiguousarray(gates[None, None, :, inputs:]),
        "bias_tensor": np.concatenate(biases)[None, None, None],
        "hidden_init_tensor": arrays["h_prev"][None, None],
    }
    gru = dml.GRUDesc(
        **{name: dml.TensorDesc.of(array) for name, array in given.items()},
        activation_descs=[dml.ActivationSigmoidDesc(), dml.ActivationTanhDesc()],
        direction="FORWARD",
        linear_before_reset=False,
    ).with_outputs("output_single_tensor")
    whole = dml.compile(gru, device=any_device)(**{name: any_device.from_host(array) for name, array in given.items()})
    step = run(any_device, described(dml.GRUBlockCellDesc, arrays, "h"), arrays)
    assert_close(step["h"], any_device.to_host(whole.output_single_tensor)[0, 0], np.float32, terms=inputs + units)


# the published page


def page(arrays: Arrays) -> dict[str, Array]:
    """The page's equations that can be evaluated, each taken literally, its other terms as they should be, in float64.

    d_r_bar, which it never defines, is as it should be everywhere.
    """
    x, h_prev, w_ru, w_c, r, u, c, d_h = (arrays[name].astype(np.float64) for name in ("x", "h_prev", "w_ru", "w_c", "r", "u", "c", "d_h"))
    inputs, units = x.shape[1], h_prev.shape[1]
    right = dml.reference(described(dml.GRUBlockCellGradDesc, arrays), arrays).as_dict()
    d_c_bar, (d_r_bar, d_u_bar) = right["d_c_bar"], np.split(right["d_r_bar_u_bar"], 2, 1)
    w_r_x, w_r_h_prev = w_ru[:inputs, :units], w_ru[inputs:, :units]
    d_h_prevr, h = d_c_bar @ w_c[inputs:].T, u * h_prev + (1 - u) * c
    return {
        "w_r_x for w_u_x": d_r_bar @ w_r_x.T + d_u_bar @ w_r_x.T + d_c_bar @ w_c[:inputs].T,
        "w_r_h_prev for w_u_h_prev": d_r_bar @ w_r_h_prev.T + d_u_bar @ w_r_h_prev.T + d_h_prevr * r + d_h * u,
        "h for h_prev": d_h * (h - c) * u * (1 - u),
        "u for d_h * u": right["d_r_bar_u_bar"] @ w_ru[inputs:].T + d_h_prevr * r + u,
        "d_w_ru and d_w_c swapped": np.concatenate([x, h_prev * r], 1).T @ d_c_bar,
    }


@pytest.mark.parametrize("case", GRADIENTS)
def test_the_published_page_is_wrong(case: str) -> None:
    """Each slip alone moves the result by 15% at least, as the operators' docstring states."""
    arrays, stored = load(case)
    units = arrays["h_prev"].shape[1]
    meant = {
        "w_r_x for w_u_x": stored["d_x"],
        "w_r_h_prev for w_u_h_prev": stored["d_h_prev"],
        "h for h_prev": stored["d_r_bar_u_bar"][:, units:],
        "u for d_h * u": stored["d_h_prev"],
    }
    literal = page(arrays)
    swapped = literal.pop("d_w_ru and d_w_c swapped")  # what the page calls d_w_ru has the sizes and the values of d_w_c
    assert swapped.shape != stored["d_w_ru"].shape
    assert_close(swapped, stored["d_w_c"], np.float32, terms=len(arrays["x"]))
    for slip, values in meant.items():
        error = np.linalg.norm(literal[slip] - values) / np.linalg.norm(values)
        assert error > 0.15, f"{slip}: off by {error:.3g}"


# float64: the reference is right beyond TensorFlow's digits


@pytest.mark.parametrize("seed", range(6))
def test_central_differences(seed: int) -> None:
    rng = np.random.default_rng(seed)
    b, i, h = (int(size) for size in rng.integers(1, 6, 3))
    arrays = {name: array.astype(np.float64) for name, array in random_inputs(rng, b, i, h, dml.GRUBlockCellGradDesc).items()}
    desc = described(dml.GRUBlockCellGradDesc, {name: array.astype(np.float32) for name, array in arrays.items()})
    operands = {name: arrays[name] for name in INPUTS}
    step = described(dml.GRUBlockCellDesc, {name: array.astype(np.float32) for name, array in operands.items()})
    forward = dml.reference(step, operands).as_dict()
    arrays |= {name: forward[name] for name in "ruc"}
    found = dml.reference(desc, arrays).as_dict()
    of_weights = gru_block_cell_weight_gradients(arrays["x"], arrays["h_prev"], arrays["r"], found["d_c_bar"], found["d_r_bar_u_bar"])
    found |= of_weights._asdict()
    for name, values in operands.items():
        expected = np.zeros(values.shape)
        for place_of in np.ndindex(values.shape):
            ends = []
            for difference in (1e-5, -1e-5):
                moved = values.copy()
                moved[place_of] += difference
                ends.append(np.sum(arrays["d_h"] * dml.reference(step, operands | {name: moved}).h))
            expected[place_of] = (ends[0] - ends[1]) / 2e-5
        sums_in_float32 = name not in ("x", "h_prev")
        np.testing.assert_allclose(found[f"d_{name}"], expected, rtol=0, atol=5e-6 if sums_in_float32 else 1e-8, err_msg=f"d_{name}")


# layouts, types, subsets


def arrange(values: Arrays, layouts: tuple[Layout, ...], rng: np.random.Generator) -> dict[str, Placed]:
    return {name: place(array, layouts[rng.integers(len(layouts))], rng) for name, array in values.items()}


def run_placed(device: dml.Device, kind: type[GRUBlockDesc], inputs: dict[str, Placed], outputs: dict[str, Placed]) -> GRUBlockDesc:
    """Runs over memory that is laid out like the host's, byte by byte, and copies it back."""
    desc = kind(**{name: placed.desc for name, placed in (inputs | outputs).items()})
    stream = device.current_stream()
    memory = {name: device.upload(placed.memory, stream) for name, placed in (inputs | outputs).items()}

    def buffers(placed: dict[str, Placed]) -> dict[str, dml.Buffer]:
        starts = {name: item.pointer - item.memory.ctypes.data for name, item in placed.items()}
        return {name: dml.Buffer(memory[name].pointer + start, memory[name].size - start) for name, start in starts.items()}

    dml.compile(desc, device=device).bind(buffers(inputs), buffers(outputs))()
    for name, placed in (inputs | outputs).items():
        after = np.frombuffer(device.read(memory[name].pointer, placed.memory.size, stream), np.uint8)
        if name in inputs:
            np.testing.assert_array_equal(after, placed.memory, err_msg=f"{name} was written to")
        placed.memory[...] = after
    return desc


@pytest.mark.pairwise
@DATA_TYPES
@KINDS
@pytest.mark.parametrize("seed", range(12))
def test_random_layouts(every_device: dml.Device, kind: type[GRUBlockDesc], dtype: Any, seed: int) -> None:
    """Any strides, broadcast inputs, some of the outputs, sizes of 1 and odd ones; no byte outside the elements is touched."""
    rng = np.random.default_rng(seed)
    b, i, h = (int(size) for size in rng.choice([1, 2, 3, 5, 9, 17], 3))
    arrays = random_inputs(rng, b, i, h, kind, dtype)
    inputs = arrange(arrays, ("packed", "padded", "permuted", "broadcast"), rng)
    names = [str(name) for name in rng.permutation(OUTPUTS[kind])[: rng.integers(1, 5)]]
    outputs = arrange(poisons(described(kind, arrays, *names)), ("packed", "padded", "permuted"), rng)
    desc = run_placed(every_device, kind, inputs, outputs)
    given = {name: placed.elements for name, placed in inputs.items()}
    check({name: placed.elements for name, placed in outputs.items()}, desc, given, f"seed {seed}, {b} x {i} x {h}: ")
    for name, placed in outputs.items():
        assert (placed.gaps() == GUARD).all(), f"{name}: memory beside its elements was written"


@DATA_TYPES
@KINDS
def test_every_subset_of_outputs(every_device: dml.Device, kind: type[GRUBlockDesc], dtype: Any) -> None:
    arrays = random_inputs(np.random.default_rng(3), 5, 4, 6, kind, dtype)
    for count in range(1, 5):
        for names in itertools.combinations(OUTPUTS[kind], count):
            desc = described(kind, arrays, *names)
            check(run(every_device, desc, arrays), desc, arrays, f"of {', '.join(names)}: ")


@DATA_TYPES
@KINDS
def test_a_larger_step(every_device: dml.Device, kind: type[GRUBlockDesc], dtype: Any) -> None:
    """Weights of the usual scale, and more elements than one block has threads."""
    arrays = random_inputs(np.random.default_rng(4), 33, 70, 65, kind, dtype)
    for name in ("w_ru", "w_c"):
        arrays[name] = (arrays[name] * arrays[name].dtype.type(0.1)).astype(dtype)
    desc = described(kind, arrays)
    check(run(every_device, desc, arrays), desc, arrays)


@pytest.mark.parametrize("scale", [1e-8, 1e-4, 1e4])
def test_upstream_gradients_of_any_scale(every_device: dml.Device, scale: float) -> None:
    arrays = random_inputs(np.random.default_rng(5), 4, 3, 5, dml.GRUBlockCellGradDesc)
    arrays["d_h"] *= np.float32(scale)
    desc = described(dml.GRUBlockCellGradDesc, arrays)
    for name, values in run(every_device, desc, arrays).items():
        expected = dml.reference(desc, arrays).as_dict()[name]
        assert np.linalg.norm(values - expected) <= 1e-6 * np.linalg.norm(expected), name


def test_odd_numbers_stay_in_their_sample(every_device: dml.Device) -> None:
    """Sums beyond the range of exp saturate without a warning; a NaN spoils its own sample only."""
    arrays = random_inputs(np.random.default_rng(6), 4, 3, 5, dml.GRUBlockCellDesc)
    arrays["x"][0] = [1e30, -1e30, 1e30]
    arrays["x"][1, 0] = np.nan
    arrays["x"][2, 1] = np.inf
    desc = described(dml.GRUBlockCellDesc, arrays)
    found = run(every_device, desc, arrays)
    # The compiled sigmoid and tanh of the device cpu may end a rounding or two short of their limits.
    rounding = np.finfo(np.float32).eps if every_device.name == "cpu" else 0.0
    assert np.minimum(found["r"][0], 1 - found["r"][0]).max() <= rounding
    assert np.abs(np.abs(found["c"][0]) - 1).max() <= 2 * rounding
    assert all(np.isnan(values[1]).all() for values in found.values())
    assert np.isfinite(found["r"][2]).all()
    check({name: values[3:] for name, values in found.items()}, *cut(desc, arrays, slice(3, 4)))


def cut(desc: GRUBlockDesc, arrays: Arrays, samples: slice) -> tuple[GRUBlockDesc, dict[str, Array]]:
    """The same step of some samples only."""
    fewer = {name: array[samples] if name in ("x", "h_prev") else array for name, array in arrays.items()}
    return described(type(desc), fewer), fewer


# what a plan promises


@KINDS
def test_there_is_nothing_to_prepare(every_device: dml.Device, kind: type[GRUBlockDesc]) -> None:
    arrays = random_inputs(np.random.default_rng(7), 2, 3, 4, kind)
    desc = described(kind, arrays)
    operator = dml.compile(desc, device=every_device)
    assert operator.binding_properties.persistent_resource_size == 0
    outputs = operator.prepare()(**{name: every_device.from_host(array) for name, array in arrays.items()})
    check({name: every_device.to_host(array) for name, array in outputs.as_dict().items()}, desc, arrays)


WORK: list[tuple[type[GRUBlockDesc], tuple[str, ...], int, int]] = [
    (dml.GRUBlockCellDesc, ("r",), 2, 1),
    (dml.GRUBlockCellDesc, ("r", "u"), 2, 1),
    (dml.GRUBlockCellDesc, ("c",), 4, 2),
    (dml.GRUBlockCellDesc, OUTPUTS[dml.GRUBlockCellDesc], 4, 2),
    (dml.GRUBlockCellGradDesc, ("d_c_bar",), 0, 1),
    (dml.GRUBlockCellGradDesc, ("d_r_bar_u_bar",), 1, 2),
    (dml.GRUBlockCellGradDesc, ("d_x",), 2, 3),
    (dml.GRUBlockCellGradDesc, OUTPUTS[dml.GRUBlockCellGradDesc], 2, 3),
]


@pytest.mark.parametrize(
    ("kind", "outputs", "products", "launches"), WORK, ids=[f"{row[0].short_name()}: {' '.join(row[1])}" for row in WORK]
)
def test_work_on_cuda(kind: type[GRUBlockDesc], outputs: tuple[str, ...], products: int, launches: int) -> None:
    """Packed float32 tensors are read where they are; what no output needs is not computed; the order of threads counts for nothing."""
    require("g++")
    arrays = random_inputs(np.random.default_rng(9), 3, 4, 5, kind)
    desc, found = described(kind, arrays, *outputs), []
    for seed in (1, 2):
        runtime = EmulatedRuntime(seed=seed)
        found.append(run(CudaDevice(runtime), desc, arrays))
        assert (runtime.counts["gemm"], runtime.counts["launch"]) == (products, launches)
    for name in outputs:
        np.testing.assert_array_equal(found[0][name], found[1][name])


@pytest.mark.slow
@pytest.mark.parametrize("sanitizers", ["address,undefined", "thread"])
@DATA_TYPES
@KINDS
def test_sanitizers_find_nothing(kind: type[GRUBlockDesc], dtype: Any, sanitizers: str) -> None:
    require("g++")
    arrays = random_inputs(np.random.default_rng(15), 5, 4, 6, kind, dtype)
    desc, runtime = described(kind, arrays), EmulatedRuntime(sanitize=sanitizers)
    check(run(CudaDevice(runtime), desc, arrays), desc, arrays)
    runtime.check_guards()


@KINDS
def test_the_plan_says_what_is_copied(cuda_device: Any, kind: type[GRUBlockDesc]) -> None:
    arrays = random_inputs(np.random.default_rng(10), 3, 4, 5, kind)
    assert "copied" not in dml.compile(described(kind, arrays), device=cuda_device).plan
    arrays["w_c"] = np.broadcast_to(arrays["w_c"][:, :1], arrays["w_c"].shape)
    told = dml.compile(described(kind, arrays), device=cuda_device).plan
    assert "w_c: copied to packed float32 by each launch" in told
    assert "w_ru: copied" not in told


# wrong descs

WRONG: list[tuple[type[GRUBlockDesc], str, tuple[int, ...], str]] = [
    (dml.GRUBlockCellDesc, "h_prev", (4, 5), "h_prev.sizes[0]"),
    (dml.GRUBlockCellDesc, "w_ru", (9, 5), "w_ru.sizes[1]"),
    (dml.GRUBlockCellDesc, "w_ru", (4, 10), "w_ru.sizes[0]"),
    (dml.GRUBlockCellDesc, "w_c", (9, 10), "w_c.sizes[1]"),
    (dml.GRUBlockCellDesc, "w_c", (8, 5), "w_c.sizes[0]"),
    (dml.GRUBlockCellDesc, "b_ru", (5,), "b_ru.sizes[0]"),
    (dml.GRUBlockCellDesc, "b_ru", (1, 10), "b_ru.sizes"),
    (dml.GRUBlockCellDesc, "b_c", (6,), "b_c.sizes[0]"),
    (dml.GRUBlockCellDesc, "r", (3, 4), "r.sizes[1]"),
    (dml.GRUBlockCellDesc, "h", (3, 10), "h.sizes[1]"),
    (dml.GRUBlockCellGradDesc, "b_c", (4,), "b_c.sizes[0]"),
    (dml.GRUBlockCellGradDesc, "u", (3, 10), "u.sizes[1]"),
    (dml.GRUBlockCellGradDesc, "c", (2, 5), "c.sizes[0]"),
    (dml.GRUBlockCellGradDesc, "d_h", (3, 1), "d_h.sizes[1]"),
    (dml.GRUBlockCellGradDesc, "d_x", (3, 5), "d_x.sizes[1]"),
    (dml.GRUBlockCellGradDesc, "d_r_bar_u_bar", (3, 5), "d_r_bar_u_bar.sizes[1]"),
]


@pytest.mark.parametrize(("kind", "field", "sizes", "path"), WRONG)
def test_wrong_sizes_are_located(kind: type[GRUBlockDesc], field: str, sizes: tuple[int, ...], path: str) -> None:
    """In a step of 3 samples, 4 inputs and 5 units."""
    desc = described(kind, random_inputs(np.random.default_rng(11), 3, 4, 5, kind))
    wrong = desc.replace(**{field: dml.TensorDesc(data_type="FLOAT32", sizes=sizes)})
    with pytest.raises(dml.CompileError) as caught:
        dml.compile(wrong, device="numpy")
    assert [problem.path for problem in caught.value.problems] == [path]


@KINDS
def test_wrong_types_and_missing_outputs(kind: type[GRUBlockDesc]) -> None:
    desc = described(kind, random_inputs(np.random.default_rng(12), 3, 4, 5, kind))
    mixed = desc.replace(w_c=dml.TensorDesc(data_type="FLOAT16", sizes=(9, 5)))
    for wrong, path in ((mixed, "w_c"), (desc.replace(**dict.fromkeys(OUTPUTS[kind])), OUTPUTS[kind][0])):
        with pytest.raises(dml.CompileError) as caught:
            dml.compile(wrong, device="numpy")
        assert any(problem.path.startswith(path) for problem in caught.value.problems)


# the gradients of the weights


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
def test_weight_gradients(dtype: Any) -> None:
    """The arrays' type, from sums in float32: in float16 a sum of ones would stop at 2048."""
    rng = np.random.default_rng(13)
    batch, inputs, units = 4096, 3, 2
    x, h_prev, d_c_bar = (rng.standard_normal((batch, size)).astype(dtype) for size in (inputs, units, units))
    r, d_ru_bar = rng.uniform(size=(batch, units)).astype(dtype), rng.standard_normal((batch, 2 * units)).astype(dtype)
    x[:, 0] = d_c_bar[:, 0] = 1
    found = gru_block_cell_weight_gradients(x, h_prev, r, d_c_bar, d_ru_bar)
    wide_x, wide_h, wide_r, of_c, of_ru = (array.astype(np.float64) for array in (x, h_prev, r, d_c_bar, d_ru_bar))
    expected = {
        "d_w_ru": np.concatenate([wide_x, wide_h], 1).T @ of_ru,
        "d_w_c": np.concatenate([wide_x, wide_h * wide_r], 1).T @ of_c,
        "d_b_ru": of_ru.sum(0),
        "d_b_c": of_c.sum(0),
    }
    assert found.d_b_c[0] == found.d_w_c[0, 0] == batch
    for name, values in expected.items():
        array = getattr(found, name)
        assert array.dtype == dtype
        assert_close(array, values, dtype, terms=batch, what=name)


@pytest.mark.gpu
@pytest.mark.cupy
@DATA_TYPES
def test_weight_gradients_of_a_gpus_arrays(dtype: Any) -> None:
    """They stay there."""
    import cupy

    arrays = random_inputs(np.random.default_rng(14), 6, 4, 5, dml.GRUBlockCellGradDesc, dtype)
    given = {name: cupy.asarray(array) for name, array in arrays.items()}
    found = dml.compile(described(dml.GRUBlockCellGradDesc, arrays), device="cuda")(**given)
    on_gpu = gru_block_cell_weight_gradients(given["x"], given["h_prev"], given["r"], found.d_c_bar, found.d_r_bar_u_bar)
    bars = found.d_c_bar.get(), found.d_r_bar_u_bar.get()
    on_host = gru_block_cell_weight_gradients(arrays["x"], arrays["h_prev"], arrays["r"], *bars)
    for name, values in on_host._asdict().items():
        array = getattr(on_gpu, name)
        assert isinstance(array, cupy.ndarray)
        assert array.dtype == dtype
        assert_close(array.get(), values, dtype, terms=6, what=name)
