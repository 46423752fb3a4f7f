"""The gradient operators on the NumPy device: float32 and FLOAT16 against float64, what must not leak, memory, layouts, repeats.

`test_gradient_differences` holds the float64 arithmetic itself to the plain loop.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from dmlpy.devices.numpy.recurrent.definition import DefinitionPlan
from dmlpy.reference.recurrent.layer import unpacked_reserve
from tests.support.pairwise import first_few
from tests.support.recurrent.gradient_runs import CELLS, DROPOUTS, UPSTREAM, backward
from tests.support.recurrent.layer_runs import EVERY_ACTIVATION, FLAGS, USUAL, Run, scratch
from tests.support.recurrent.training_runs import DIRECTIONS, HOLES, LAYOUTS, MASK, RESERVE, VARIANTS, build, of_cell, random_run
from tests.support.tolerance import assert_close

Array = np.ndarray[Any, np.dtype[Any]]


def ones(array: Array) -> list[tuple[int, ...]]:
    return [tuple(index) for index in np.argwhere(array)]


def skipped(run: Run) -> Array:
    """Who does not take which step, [T, B]."""
    sizes, arrays = run.desc.geometry, run.arrays
    result = np.zeros((sizes.seq_length, sizes.batch_size), np.bool_)
    if "sequence_lengths_tensor" in arrays:
        result |= np.arange(sizes.seq_length)[:, None] >= arrays["sequence_lengths_tensor"][0, 0]
    if MASK in arrays:
        result |= arrays[MASK][0, 0] == 0
    return result


# against float64

LENGTHS = {1: [3], 3: [0, 4, 2]}


@pytest.mark.pairwise
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("masked", [False, True], ids=["all steps", "masked"])
@pytest.mark.parametrize("ragged", [False, True], ids=["full", "ragged"])
@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize(("cell", "flags"), [(cell, flags) for cell, table in FLAGS.items() for flags in table])
def test_every_option(
    cell: str, flags: dict[str, Any], variant: dict[str, Any], direction: str, ragged: bool, masked: bool, batch: int, dtype: Any
) -> None:
    options = {"lengths": LENGTHS[batch] if ragged else None, "mask": HOLES[batch] if masked else None} | flags | of_cell(cell, variant)
    rng = np.random.default_rng(3)
    run = build(cell, rng, b=batch, dtype=dtype, direction=direction, **options)
    backward(run, rng).check()


@pytest.mark.pairwise
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("flags", [-2, -1], ids=["last flags but one", "last flags"])
@pytest.mark.parametrize(("cell", "role"), [(cell, role) for cell, usual in USUAL.items() for role in range(len(usual))])
@pytest.mark.parametrize("function", EVERY_ACTIVATION, ids=lambda desc: type(desc).__name__)
def test_every_activation_in_every_role(function: Any, cell: str, role: int, flags: int, batch: int, dtype: Any) -> None:
    rng, usual = np.random.default_rng(5), USUAL[cell]
    functions = (*usual[:role], function, *usual[role + 1 :], *usual)
    options = {**FLAGS[cell][flags], "b": batch, "dtype": dtype, "direction": "BIDIRECTIONAL", "functions": functions}
    run = build(cell, rng, lengths=[3] * batch, **options)
    backward(run, rng).check()


@pytest.mark.parametrize("flags", first_few([{}, {"use_clip_threshold": True, "clip_threshold": 0.3}], 1))
def test_one_unit_of_one_sample(flags: dict[str, Any]) -> None:
    """Then a gate's values of all steps are strided by a few elements, not contiguous."""
    rng = np.random.default_rng(6)
    for function, role in itertools.product(EVERY_ACTIVATION, range(3)):
        functions = (*USUAL["LSTM"][:role], function, *USUAL["LSTM"][role + 1 :])
        run = build("LSTM", rng, t=9, b=1, i=2, h=1, functions=functions, **flags)
        backward(run, rng).check(f"{function}, role {role}: ")


@pytest.mark.parametrize("seed", first_few(range(150), 50))
def test_random_layouts(seed: int) -> None:
    run, rng = random_run(seed, batches=[1, 2, 3, 8], hidden=[1, 2, 5, 9]), np.random.default_rng(seed)
    back = backward(run, rng, upstream=[name for name in UPSTREAM if rng.integers(3)], layouts=LAYOUTS)
    kept = {name: placed.memory.copy() for name, placed in back.inputs.items()}
    back.check()
    for name, placed in back.inputs.items():
        np.testing.assert_array_equal(placed.memory, kept[name], err_msg=f"{name} was written to")


def holes(batch: int) -> Any:
    """A mask in which nobody takes some steps one after the other."""
    mask = np.random.default_rng(1).integers(0, 2, (13, batch))
    mask[4:11] = 0
    return mask


@pytest.mark.pairwise
@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("batch", [1, 5])
@pytest.mark.parametrize("lengths", [None, [1, 8, 4, 0, 5], [2, 2, 2, 1, 2], [0] * 5], ids=["full", "ragged", "short", "empty"])
@pytest.mark.parametrize("mask", [None, holes(5), np.zeros((13, 5), np.int64)], ids=["all steps", "holes", "no step"])
@pytest.mark.parametrize("dropout", [(), DROPOUTS], ids=["no dropout", "dropout"])
def test_steps_that_nobody_takes(
    cell: str, direction: str, batch: int, lengths: list[int] | None, mask: Any, dropout: tuple[str, ...]
) -> None:
    rng = np.random.default_rng(2)
    options = {"lengths": lengths and lengths[:batch], "mask": None if mask is None else mask[:, :batch], "dropout": dropout}
    p = 4 if cell == "LSTM" and dropout else None
    backward(build(cell, rng, t=13, b=batch, i=5, h=6, p=p, direction=direction, **options), rng).check()


@pytest.mark.parametrize("scale", [1.0, 1e-4, 1e-8, 1e4])
@pytest.mark.parametrize("cell", CELLS)
def test_small_and_large_upstream_gradients(cell: str, scale: float) -> None:
    rng = np.random.default_rng(7)
    run = build(cell, rng, t=12, b=5, i=9, h=10, direction="BIDIRECTIONAL")
    found = backward(run, np.random.default_rng(8), scale=scale).check()
    usual = backward(run, np.random.default_rng(8)).check()
    for name, array in found.items():
        assert_close(array / scale, usual[name], np.float32, terms=10**6, what=f"{name} for upstream gradients of {scale:g}")


# some outputs, some upstream gradients


@pytest.mark.each_value
@pytest.mark.parametrize("masked", [False, True], ids=["all steps", "masked"])
@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("cell", CELLS)
def test_each_output_alone(cell: str, batch: int, masked: bool) -> None:
    for variant in VARIANTS[:2]:
        options = {**of_cell(cell, variant), "mask": HOLES[batch] if masked else None}
        run = build(cell, np.random.default_rng(3), b=batch, direction="BIDIRECTIONAL", **options)
        everything = backward(run, np.random.default_rng(4)).launch()
        assert len(everything) == {"RNN": 5, "GRU": 5, "LSTM": 7 + ("p" in options)}[cell]
        for name, expected in everything.items():
            alone = backward(run, np.random.default_rng(4), gradients=[name]).launch()
            assert alone.keys() == {name}
            np.testing.assert_array_equal(alone[name], expected, err_msg=name)


@pytest.mark.parametrize("cell", CELLS)
def test_an_absent_upstream_gradient_is_zero(cell: str) -> None:
    run = build(cell, np.random.default_rng(3), lengths=[2, 4, 0])
    names = [name for name in UPSTREAM if name in run.desc.gradient().tensors()]
    for present in itertools.chain.from_iterable(itertools.combinations(names, count) for count in range(len(names))):
        some = backward(run, np.random.default_rng(4), upstream=present)
        zeroed = backward(run, np.random.default_rng(4))
        for name in names:
            zeroed.inputs[name].elements[...] = some.inputs[name].elements if name in present else 0.0
        for (name, array), other in zip(some.launch().items(), zeroed.launch().values(), strict=True):
            np.testing.assert_array_equal(array, other, err_msg=name)
            assert present or not array.any()


# steps that are not taken


@pytest.mark.pairwise
@pytest.mark.parametrize("options", [{"lengths": [2, 4, 0]}, {"mask": HOLES[3]}, {"lengths": [3, 4, 2], "mask": HOLES[3]}])
@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("junk", [np.nan, np.inf])
@pytest.mark.parametrize(("cell", "flags"), [(cell, flags) for cell, table in FLAGS.items() for flags in table])
def test_nothing_leaks_from_steps_not_taken(cell: str, flags: dict[str, Any], junk: float, direction: str, options: Any) -> None:
    rng = np.random.default_rng(6)
    for variant in VARIANTS[: 3 if cell == "LSTM" else 1]:
        run = build(cell, rng, direction=direction, **flags, **options, **variant)
        back = backward(run, rng)
        clean = back.launch()
        idle = skipped(run)
        kept, *_ = unpacked_reserve(back.desc, back.inputs[RESERVE].elements)
        lengths = options.get("lengths", [4, 4, 4])
        for t, sample in ones(idle):
            back.inputs["input_tensor"].elements[0, t, sample] = junk
            kept[:, t, :, sample] = junk
        for sample, length in enumerate(lengths):
            back.inputs["output_sequence_gradient_tensor"].elements[length:, :, sample] = junk
        for name, array in back.launch().items():
            np.testing.assert_array_equal(array, clean[name], err_msg=name)


@pytest.mark.parametrize("cell", CELLS)
def test_input_gradient_is_zero_where_a_step_is_not_taken(cell: str) -> None:
    rng = np.random.default_rng(6)
    run = build(cell, rng, direction="BIDIRECTIONAL", lengths=[0, 4, 2], mask=HOLES[3])
    gradient = backward(run, rng).launch()["input_gradient_tensor"]
    idle = skipped(run)
    assert (gradient[0, idle] == 0).all()
    assert (gradient[0, ~idle] != 0).all()


@pytest.mark.parametrize("direction", DIRECTIONS[:2])
@pytest.mark.parametrize("cell", CELLS)
def test_a_sample_that_takes_no_step_passes_its_gradients_through(cell: str, direction: str) -> None:
    rng = np.random.default_rng(6)
    run = build(cell, rng, direction=direction, lengths=[4, 4, 0], mask=[[0, 1, 1]] * 4)
    back = backward(run, rng)
    found = back.launch()
    for name, upstream in (("hidden_init", "output_single"), ("cell_mem_init", "output_cell_single")):
        if f"{name}_gradient_tensor" in found:
            expected = back.inputs[f"{upstream}_gradient_tensor"].elements
            np.testing.assert_array_equal(found[f"{name}_gradient_tensor"][:, :, [0, 2]], expected[:, :, [0, 2]])


# plans and memory


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("batch", [1, 16])
def test_the_same_bits_every_time(cell: str, batch: int) -> None:
    rng = np.random.default_rng(6)
    back = backward(build(cell, rng, t=40, b=batch, i=33, h=64, direction="BIDIRECTIONAL"), rng)
    first = back.launch()
    for _ in range(3):
        for name, array in back.launch().items():
            np.testing.assert_array_equal(array, first[name], err_msg=name)


def test_a_bound_launch_reads_its_tensors_anew() -> None:
    rng = np.random.default_rng(9)
    one, other = (backward(build("LSTM", rng, lengths=lengths), rng) for lengths in ([4, 2, 3], [1, 4, 0]))
    plan = DefinitionPlan(one.desc)
    _, temporary = scratch(plan.temporary_size)
    launch = plan.bind({name: placed.pointer for name, placed in (one.inputs | one.outputs).items()}, temporary, None)
    launch(0)
    for name, placed in one.inputs.items():
        placed.elements[...] = other.inputs[name].elements
    launch(0)
    for name, array in other.launch().items():
        np.testing.assert_array_equal(one.outputs[name].elements, array, err_msg=name)


# the operator


def test_through_the_compiled_operators() -> None:
    rng = np.random.default_rng(10)
    run = build("GRU", rng)
    back = backward(run, rng)
    expected = back.check()
    forward = dml.compile(run.desc, "numpy")(**run.arrays)
    arrays = {name: array for name, array in back.arrays.items() if name != RESERVE}
    found = dml.compile(back.desc, "numpy")(**arrays, reserve_tensor=forward.reserve_tensor)
    for name, array in expected.items():
        np.testing.assert_array_equal(getattr(found, name), array, err_msg=name)


def test_a_reserve_of_another_size_is_refused() -> None:
    rng = np.random.default_rng(10)
    back = backward(build("GRU", rng), rng)
    reserve = back.desc.reserve_tensor
    wrong = back.desc.model_copy(update={RESERVE: dml.TensorDesc(data_type="FLOAT32", sizes=(1, 1, 1, reserve.sizes[3] - 1))})
    with pytest.raises(dml.CompileError, match="reserve_size"):
        dml.compile(wrong, "numpy")
    operator = dml.compile(back.desc, "numpy")
    outputs = back.launch()
    with pytest.raises(dml.BindError, match="reserve_tensor"):
        operator(**back.arrays | {RESERVE: back.arrays[RESERVE][..., :-1].copy()}, **outputs)
    for name, array in back.launch().items():
        np.testing.assert_array_equal(outputs[name], array, err_msg=f"{name} was written to")
