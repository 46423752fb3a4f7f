"""The NumPy device's recurrent plans: against ONNX Runtime, published vectors and a plain float64 loop; memory, layouts, threads."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dmlpy.description.tensors import TensorDesc
from dmlpy.devices.numpy.recurrent.layer import RecurrentPlan
from dmlpy.operators.activation import ActivationDesc
from tests.support.folders import STORED_CASES
from tests.support.operators.exact import exact
from tests.support.pairwise import first_few
from tests.support.recurrent import onnx_cases
from tests.support.recurrent.layer_runs import (
    CELLS,
    EVERY_ACTIVATION,
    FLAGS,
    GUARD,
    LENGTHS,
    OPTIONAL,
    USUAL,
    Run,
    build,
    check_allocations,
    check_threads_share,
    place,
    random_run,
    scratch,
)
from tests.support.tables import table

# against results that are not ours


@table("entry", [pytest.param(entry, id=entry["case"]) for entry in onnx_cases.entries()])
@table("dtype", [np.float32, np.float16])
def test_onnx_runtime(entry: dict[str, Any], dtype: Any) -> None:
    case = onnx_cases.load(entry)
    rng = np.random.default_rng(1)
    arrays = {name: array if array.dtype == np.uint32 else array.astype(dtype) for name, array in case.inputs.items()}
    inputs = {name: place(array, "packed", rng) for name, array in arrays.items()}
    outputs = {name: place(np.full(array.shape, np.nan, dtype), "packed", rng) for name, array in case.outputs.items()}
    desc = case.desc.model_copy(update={name: placed.desc for name, placed in (inputs | outputs).items()})
    run = Run(desc, inputs, outputs)
    run.launch(RecurrentPlan(desc))
    if dtype == np.float32:
        run.check(case.outputs)
    # In FLOAT16 the inputs are rounded first: float64 on the rounded inputs is what the result is held to.
    run.check(exact(desc, arrays))


def test_onnx_cases_are_all_there() -> None:
    indexed = {entry["case"] for entry in onnx_cases.entries()}
    assert indexed == {path.stem for cell in onnx_cases.DESCS for path in STORED_CASES.glob(f"onnx_{cell}_*.npz")}
    assert len(indexed) == 36


W1 = [0.1, 0.2, 0.3, 0.4, 1, 2, 3, 4, 10, 11, 12, 13]


def test_published_lstm_of_two_samples() -> None:
    rng = np.random.default_rng(1)
    run = build("LSTM", rng, t=2, b=2, i=1, h=3, optional=())
    run.inputs["input_tensor"].elements[...] = np.reshape([1, 2, 10, 11], (1, 2, 2, 1))
    run.inputs["weight_tensor"].elements[...] = np.reshape(W1, (1, 1, 12, 1))
    run.inputs["recurrence_tensor"].elements[...] = 0.1
    run.launch(RecurrentPlan(run.desc))
    h = [
        [[0.28828835, 0.36581863, 0.45679406], [0.34526032, 0.47220859, 0.55850911]],
        [[0.84196719, 0.89402526, 0.91073048], [0.85882828, 0.90703777, 0.92382453]],
    ]
    c = [[1.27731147, 1.44181041, 1.53179041], [1.3249796, 1.51063104, 1.61451544]]
    sequence = np.array(h)[:, None]
    run.check(
        {
            "output_sequence_tensor": sequence,
            "output_single_tensor": sequence[None, 1],
            "output_cell_single_tensor": np.array(c)[None, None],
        }
    )


X2 = [[-0.455351, -0.276391], [-0.185934, -0.269585]]
W2 = [
    *([-0.494659, 0.0453352], [-0.487793, 0.417264], [-0.0175329, 0.489074], [-0.446013, 0.414029]),
    *([-0.0091708, -0.255364], [-0.106952, -0.266717], [-0.0888852, -0.428709], [-0.283349, 0.208792]),
]
R2 = [
    *([0.146626, -0.0620289], [-0.0815302, 0.100482], [-0.219535, -0.306635], [-0.28515, -0.314112]),
    *([-0.228172, 0.405972], [0.31576, 0.281487], [-0.394864, 0.42111], [-0.386624, -0.390225]),
]
B2 = [0.381619, 0.0323954, -0.14449, 0.420804, -0.258721, 0.45056, -0.250755, 0.0967895] + [0.0] * 8
P2 = [0.2345, 0.5235, 0.4378, 0.3475, 0.8927, 0.3456]
PUBLISHED: list[tuple[str, dict[str, Any], list[float]]] = [
    ("plain", {}, [-0.02510625, 0.05612617, -0.03277518, 0.05935364]),
    ("clip", {"use_clip_threshold": True, "clip_threshold": 0.1}, [-0.02280854, 0.02744377, -0.03516197, 0.03875681]),
    ("coupled", {"couple_input_forget": True}, [-0.02510626, 0.05612619, -0.0314321, 0.05087372]),
    ("backward", {"direction": "BACKWARD"}, [-0.03189282, 0.07626793, -0.03068724, 0.02803503]),
    ("no bias", {"optional": ("peephole_tensor",)}, [0.04154162, 0.01969122, 0.05298181, 0.0030589]),
]


@pytest.mark.parametrize(("name", "options", "expected"), PUBLISHED, ids=[name for name, _, _ in PUBLISHED])
def test_published_lstm_with_peepholes(name: str, options: dict[str, Any], expected: list[float]) -> None:
    options = {"optional": ("bias_tensor", "peephole_tensor"), "outputs": ("output_sequence_tensor",)} | options
    run = build("LSTM", np.random.default_rng(1), t=2, b=1, i=2, h=2, **options)
    constants: dict[str, Any] = {"input_tensor": X2, "weight_tensor": W2, "recurrence_tensor": R2, "bias_tensor": B2, "peephole_tensor": P2}
    for field, placed in run.inputs.items():
        placed.elements[...] = np.reshape(constants[field], placed.elements.shape)
    run.launch(RecurrentPlan(run.desc))
    run.check({"output_sequence_tensor": np.reshape(expected, (2, 1, 1, 2))})
    wanted = np.reshape(expected, (2, 1, 1, 2))
    np.testing.assert_allclose(exact(run.desc, run.arrays)["output_sequence_tensor"], wanted, atol=2e-7)


# against the plain loop


@pytest.mark.pairwise
@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("ragged", [False, True], ids=["full", "ragged"])
@pytest.mark.parametrize("direction", ["FORWARD", "BACKWARD", "BIDIRECTIONAL"])
@pytest.mark.parametrize(("cell", "flags"), [(cell, flags) for cell, table in FLAGS.items() for flags in table])
def test_every_flag(cell: str, flags: dict[str, Any], direction: str, ragged: bool, batch: int) -> None:
    for dtype, prepared in ((np.float32, True), (np.float16, False)):
        lengths = LENGTHS[batch] if ragged else None
        run = build(cell, np.random.default_rng(11), b=batch, direction=direction, lengths=lengths, dtype=dtype, **flags)
        run.launch(RecurrentPlan(run.desc), prepared=prepared)
        expected = exact(run.desc, run.arrays)
        run.check(expected)


@pytest.mark.pairwise
@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize(("cell", "role"), [(cell, role) for cell, usual in USUAL.items() for role in range(len(usual))])
@pytest.mark.parametrize("function", EVERY_ACTIVATION, ids=lambda desc: type(desc).__name__)
def test_every_activation_in_every_role(function: ActivationDesc, cell: str, role: int, dtype: Any, batch: int) -> None:
    usual = USUAL[cell]
    # The backward direction has the usual functions, so the two sets differ.
    functions = (*usual[:role], function, *usual[role + 1 :], *usual)
    run = build(cell, np.random.default_rng(23), b=batch, dtype=dtype, direction="BIDIRECTIONAL", functions=functions)
    run.launch(RecurrentPlan(run.desc))
    run.check(exact(run.desc, run.arrays))


@pytest.mark.parametrize("seed", first_few(range(300), 100))
def test_random_descs(seed: int) -> None:
    run = random_run(np.random.default_rng(seed))
    kept = {name: placed.memory.copy() for name, placed in run.inputs.items()}
    for prepared in (False, True):
        for placed in run.outputs.values():
            placed.elements[...] = np.nan
        run.launch(RecurrentPlan(run.desc), prepared=prepared)
        run.check(exact(run.desc, run.arrays))
    for name, placed in run.inputs.items():
        np.testing.assert_array_equal(placed.memory, kept[name], err_msg=f"{name} was written to")


@pytest.mark.parametrize("direction", ["FORWARD", "BACKWARD"])
@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("batch", [1, 5])
def test_chunks_of_the_input_product(cell: str, direction: str, batch: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dmlpy.devices.numpy.recurrent.layer._CHUNK_BYTES", len(CELLS[cell].gate_names) * 6 * batch * 4 * 3)
    for lengths in (None, [1, 8, 4, 0, 5][:batch], [2, 2, 2, 1, 2][:batch]):
        run = build(cell, np.random.default_rng(2), t=8, b=batch, i=5, h=6, direction=direction, lengths=lengths)
        plan = RecurrentPlan(run.desc)
        assert "3 of 8 steps at a time" in plan.describe()
        run.launch(plan)
        run.check(exact(run.desc, run.arrays))


# what happens past a sequence's end


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("direction", ["FORWARD", "BACKWARD"])
def test_a_sequence_of_length_zero_carries_its_state_through(cell: str, direction: str) -> None:
    for lengths in ([0, 0, 0], [0, 3, 0]):
        run = build(cell, np.random.default_rng(4), t=3, direction=direction, lengths=lengths)
        run.launch(RecurrentPlan(run.desc))
        for sample in (0, 2):
            assert (run.outputs["output_sequence_tensor"].elements[:, :, sample] == 0).all()
            for output, initial in (("output_single_tensor", "hidden_init_tensor"), ("output_cell_single_tensor", "cell_mem_init_tensor")):
                if output in run.outputs:
                    np.testing.assert_array_equal(run.outputs[output].elements[0, :, sample], run.inputs[initial].elements[0, :, sample])


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("direction", ["FORWARD", "BACKWARD", "BIDIRECTIONAL"])
@pytest.mark.parametrize("junk", [np.nan, np.inf])
def test_input_past_the_end_is_never_seen(cell: str, direction: str, junk: float) -> None:
    lengths = [2, 4, 0, 1]
    run = build(cell, np.random.default_rng(5), t=5, b=4, direction=direction, lengths=lengths)
    expected = exact(run.desc, run.arrays)
    for sample, length in enumerate(lengths):
        run.inputs["input_tensor"].elements[0, length:, sample] = junk
    run.launch(RecurrentPlan(run.desc))
    run.check(expected)


def test_nan_passes_through_the_clip() -> None:
    flags = {"use_clip_threshold": True, "clip_threshold": 0.1}
    for optional in (OPTIONAL, ()):
        run = build("LSTM", np.random.default_rng(6), optional=optional, **flags)
        run.inputs["input_tensor"].elements[0, 1, 2] = np.nan
        run.launch(RecurrentPlan(run.desc))
        sequence = run.outputs["output_sequence_tensor"].elements
        assert np.isnan(sequence[1:, 0, 2]).all()
        assert np.isfinite(sequence[:, 0, :2]).all()
        assert np.isfinite(sequence[0]).all()


# plans and memory


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("batch", [1, 3])
def test_a_bound_launch_reads_its_tensors_anew(cell: str, batch: int) -> None:
    run = build(cell, np.random.default_rng(8), b=batch, lengths=[2] * batch, layouts=("packed", "padded", "permuted"))
    plan = RecurrentPlan(run.desc)
    block, temporary = scratch(plan.temporary_size)
    launch = plan.bind({name: placed.pointer for name, placed in (run.inputs | run.outputs).items()}, temporary, None)
    other = build(cell, np.random.default_rng(9), b=batch, lengths=[4] * batch)
    for _ in range(2):
        launch(0)
        run.check(exact(run.desc, run.arrays))
        for name, placed in run.inputs.items():
            placed.elements[...] = other.inputs[name].elements
    assert (block[-64:] == GUARD).all()


@pytest.mark.pairwise
@pytest.mark.parametrize("ragged", [False, True], ids=["full", "ragged"])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize(
    ("cell", "flags"),
    [("RNN", {}), ("LSTM", {}), ("LSTM", {"optional": OPTIONAL[:1]}), ("GRU", {"linear_before_reset": True}), ("GRU", {})],
)
@pytest.mark.parametrize("batch", [1, 128])
def test_a_launch_allocates_nothing_big(
    cell: str, flags: dict[str, Any], dtype: Any, ragged: bool, batch: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Two threads' states are 64 KiB each here, or the recurrence at least 256 KiB: no temporary of such sizes would go unseen. NumPy itself
    # takes up to 32 KiB on each thread, whatever the sizes, to iterate over some broadcasts.
    monkeypatch.setattr("dmlpy.devices.numpy.recurrent.layer.available_threads", lambda: 2)
    run = build(
        cell,
        np.random.default_rng(8),
        t=6,
        b=batch,
        i=64,
        h=256,
        dtype=dtype,
        lengths=[4, 2] * (batch // 2) or [4] if ragged else None,
        **flags,
    )
    check_allocations(RecurrentPlan(run.desc), run, 40_000 if batch == 1 else 96_000)


@pytest.mark.parametrize(
    ("strides", "data_type", "in_place"),
    [
        (None, "FLOAT32", True),
        ((99, 15, 5, 1), "FLOAT32", True),  # the last steps of a longer batch
        ((99, 21, 7, 1), "FLOAT32", True),  # some columns of a wider input
        ((99, 5, 20, 1), "FLOAT32", False),  # batch before time
        ((99, 3, 1, 12), "FLOAT32", False),
        ((99, 15, 0, 1), "FLOAT32", False),
        ((99, 0, 0, 1), "FLOAT32", False),
        ((99, 15, 5, 2), "FLOAT32", False),
        ((99, 9, 3, 1), "FLOAT32", False),  # rows that overlap
        (None, "FLOAT16", False),
    ],
)
def test_input_is_copied_only_where_blas_needs_it(
    strides: tuple[int, ...] | None, data_type: str, in_place: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dmlpy.devices.numpy.recurrent.products.small_products_are_direct", lambda: False)
    dtype = np.dtype(data_type.lower())
    run = build("RNN", np.random.default_rng(1), t=4, b=3, i=5, dtype=dtype)
    desc = run.desc.model_copy(update={"input_tensor": TensorDesc(data_type=data_type, sizes=(1, 4, 3, 5), strides=strides)})
    assert ("read in place" in RecurrentPlan(desc).describe()) is in_place


def test_sizes_of_a_plan_add_up() -> None:
    run = build("LSTM", np.random.default_rng(1), b=2, i=3, h=4)
    plan = RecurrentPlan(run.desc)
    assert plan.constants == ("weight_tensor", "recurrence_tensor", "bias_tensor", "peephole_tensor")
    # [16, 3] + [16, 4] + [16] + [3, 4] in float32, each rounded up to 64 bytes
    assert plan.persistent_size == 192 + 256 + 64 + 64
    assert plan.temporary_size == plan.persistent_size + plan.prepared_temporary_size


def test_long_sequences_do_not_grow_the_scratch() -> None:
    short, long = (build("GRU", np.random.default_rng(1), t=t, b=16, h=64, i=8) for t in (100, 1000))
    assert RecurrentPlan(long.desc).temporary_size == RecurrentPlan(short.desc).temporary_size


def test_threads_share_a_plan() -> None:
    run = build("LSTM", np.random.default_rng(8), t=20, b=4, h=16, direction="BIDIRECTIONAL")
    check_threads_share(run, RecurrentPlan(run.desc), exact(run.desc, run.arrays))
