"""`map_blocks`: chunks give what one operator over the whole arrays gives, and everything wrong is reported before anything runs."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from dmlpy.devices.cuda.device import CudaDevice
from dmlpy.devices.device import DEVICE_KINDS
from tests.conftest import cuda_on_cpu
from tests.support.tensors import tensor
from tests.support.tolerance import assert_close

da = pytest.importorskip("dask.array")
dask = pytest.importorskip("dask")
from dmlpy.dask import jobs, map_blocks
from dmlpy.dask.chunking import all_chunks
from tests.support.dask.chunked import (
    CONSTANTS,
    INPUTS,
    STEPS,
    UNITS,
    Array,
    at_once,
    lstm,
    network,
    network_values,
    values,
)

LENGTHS = "sequence_lengths_tensor"


def computed(outputs: Any) -> list[Array]:
    return list(dask.compute(*outputs, scheduler="sync"))


def cut(array: Array, *chunks: Any) -> Any:
    return da.from_array(array, chunks=chunks)


# results


@pytest.mark.parametrize("names", [(), ("output_sequence_tensor",), ("output_cell_single_tensor", "output_single_tensor")], ids=len)
def test_a_bidirectional_layer_over_batches(names: tuple[str, ...]) -> None:
    """Chunks of 4, 4 and 3, where the desc has batches of 2."""
    desc = lstm("BIDIRECTIONAL", *names)
    given = values(desc)
    whole = at_once(desc, given)
    outputs = map_blocks(desc, device="numpy", **(given | {"input_tensor": cut(given["input_tensor"], 1, STEPS, 4, INPUTS)}))
    assert [output.chunks[2] for output in outputs] == [(4, 4, 3)] * len(whole)
    for found, expected, output in zip(computed(outputs), whole, outputs, strict=True):
        assert (output.shape, output.dtype, type(output._meta)) == (expected.shape, expected.dtype, np.ndarray)
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("direction", ["FORWARD", "BACKWARD"])
@pytest.mark.parametrize("with_lengths", [True, False], ids=["ragged", "whole"])
def test_state_is_carried_from_chunk_to_chunk_of_time(direction: str, with_lengths: bool) -> None:
    """20 steps in chunks of 6, with an initial state; sequences end in any of the chunks."""
    desc = lstm(direction).replace(hidden_init_tensor=tensor(1, 1, 2, UNITS))
    given = values(desc, steps=20) | {"hidden_init_tensor": np.random.default_rng(1).standard_normal((1, 1, 11, UNITS), np.float32)}
    if not with_lengths:
        desc = desc.replace(sequence_lengths_tensor=None)
        del given[LENGTHS]
    whole = at_once(desc, given)
    outputs = map_blocks(desc, device="numpy", carry=True, **(given | {"input_tensor": cut(given["input_tensor"], 1, 6, 4, INPUTS)}))
    assert outputs.output_sequence_tensor.chunks == ((6, 6, 6, 2), (1,), (4, 4, 3), (UNITS,))
    assert outputs.output_single_tensor.chunks == ((1,), (1,), (4, 4, 3), (UNITS,))
    for found, expected in zip(computed(outputs), whole, strict=True):
        np.testing.assert_array_equal(found, expected)


def test_a_batch_of_the_size_in_the_desc_carries_its_lengths_and_states() -> None:
    """Nothing but time is cut, so that lengths and initial states are the same for all chunks."""
    desc = lstm("FORWARD").replace(hidden_init_tensor=tensor(1, 1, 2, UNITS))
    given = values(desc, steps=9) | {"hidden_init_tensor": np.ones((1, 1, 11, UNITS), np.float32)}
    given |= {name: given[name][:, :, :2].copy() for name in ("input_tensor", "hidden_init_tensor")}
    given[LENGTHS] = given[LENGTHS][..., :2].copy()
    outputs = map_blocks(desc, device="numpy", carry=True, **(given | {"input_tensor": cut(given["input_tensor"], 1, 4, 2, INPUTS)}))
    for found, expected in zip(computed(outputs), at_once(desc, given), strict=True):
        np.testing.assert_array_equal(found, expected)


def test_states_that_nobody_asked_for_are_carried_too() -> None:
    desc = lstm("FORWARD", "output_sequence_tensor")
    given = values(desc, steps=9)
    outputs = map_blocks(desc, device="numpy", carry=True, **(given | {"input_tensor": cut(given["input_tensor"], 1, 4, 11, INPUTS)}))
    assert list(outputs.as_dict()) == ["output_sequence_tensor"]
    np.testing.assert_array_equal(computed(outputs)[0], at_once(desc, given)[0])


@pytest.mark.parametrize("by_name", [True, False], ids=["keywords", "mapping"])
def test_a_graph(by_name: bool) -> None:
    graph, given = network(), network_values()
    given["x"], whole = cut(given["x"], 1, STEPS, 4, INPUTS), at_once(graph, given)
    outputs = map_blocks(graph, device="numpy", **given) if by_name else map_blocks(graph, given, device="numpy")
    assert outputs.y.chunks == ((1,), (STEPS,), (4, 4, 3), (5,))
    assert_close(computed(outputs)[0], whole[0], np.float32)  # the product's rows are grouped by chunks


def test_named_axes_may_be_cut() -> None:
    """Rows of a matrix product, which no marker calls batch."""
    desc = dml.GEMMDesc(a_tensor=tensor(1, 1, 2, 3), b_tensor=tensor(1, 1, 3, 4), alpha=1.0, beta=0.0).with_outputs("output_tensor")
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((1, 1, 10, 3), np.float32), rng.standard_normal((1, 1, 3, 4), np.float32)
    outputs = map_blocks(desc, a_tensor=cut(a, 1, 1, 4, 3), b_tensor=b, axes={"a_tensor": 2}, device="numpy")
    assert outputs.output_tensor.chunks[2] == (4, 4, 2)
    assert_close(computed(outputs)[0], a @ b, np.float32)


def test_element_wise_operators_are_cut_along_any_axis_and_lists_are_taken() -> None:
    part = tensor(1, 1, 2, 3)
    add = dml.ElementWiseAddDesc(a_tensor=part, b_tensor=part.replace(strides=[0, 0, 0, 1]), output_tensor=part)
    a, b = np.arange(35, dtype=np.float32).reshape(1, 1, 5, 7), np.arange(7, dtype=np.float32)
    found = map_blocks(add, ATensor=cut(a, 1, 1, 2, 4), BTensor=np.broadcast_to(b, (1, 1, 5, 7)), device="numpy").output_tensor
    assert found.chunks[2:] == ((2, 2, 1), (4, 3))
    np.testing.assert_array_equal(found.compute(scheduler="sync"), a + b)
    row = tensor(1, 1, 2, 7)
    join = dml.JoinDesc(input_tensors=[row, row], output_tensor=tensor(1, 1, 2, 14), axis=3)
    joined = map_blocks(join, input_tensors=[cut(a, 1, 1, 2, 7), a], axes={"input_tensors[0]": 2}, device="numpy").output_tensor
    np.testing.assert_array_equal(joined.compute(scheduler="sync"), np.concatenate([a, a], 3))
    split = dml.SplitDesc(input_tensor=tensor(1, 1, 2, 14), output_tensors=[row, row], axis=3)
    one, other = map_blocks(split, input_tensor=joined, axes={"input_tensor": [2]}, device="numpy").output_tensors
    np.testing.assert_array_equal(np.stack(computed([one, other])), np.stack([a, a]))


def test_layouts_of_the_desc_are_preserved() -> None:
    """Utterances lie one after the other, [B, T, I]: the desc reads them so, and chunks are views."""
    desc = lstm("FORWARD", "output_single_tensor")
    given = values(desc)
    whole = at_once(desc, given)
    stored = np.ascontiguousarray(given["input_tensor"][0].transpose(1, 0, 2))
    strided = desc.replace(input_tensor=tensor(1, STEPS, 2, INPUTS, strides=(1, INPUTS, STEPS * INPUTS, 1)))
    given["input_tensor"] = cut(stored, 4, STEPS, INPUTS).transpose(1, 0, 2)[None]
    np.testing.assert_array_equal(computed(map_blocks(strided, device="numpy", **given))[0], whole[0])


def test_constants_may_be_arrays_of_dask_and_the_same_call_has_the_same_name() -> None:
    desc = lstm()
    given = values(desc)
    whole = at_once(desc, given)
    given["input_tensor"] = cut(given["input_tensor"], 1, STEPS, 4, INPUTS)
    one, other = (map_blocks(desc, device="numpy", **given) for _ in range(2))
    lazy = given | {"weight_tensor": da.from_array(given["weight_tensor"], chunks=-1)}
    third = map_blocks(desc, device="numpy", **lazy)
    for found, expected in zip(computed(third), whole, strict=True):
        np.testing.assert_array_equal(found, expected)
    names = [outputs.output_single_tensor.name for outputs in (one, other, third)]
    assert names[0] == names[1] != names[2]
    assert names[0].startswith("lstm-")


def test_constants_are_packed_once_for_each_size_of_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []
    monkeypatch.setattr(jobs.CompiledTask, "__init__", _counted(jobs.CompiledTask.__init__, made))
    desc = lstm()
    given = values(desc)
    given["input_tensor"] = cut(given["input_tensor"], 1, STEPS, 2, INPUTS)
    computed(map_blocks(desc, device="numpy", **given))
    assert sorted(sizes for _, sizes, _ in made) == [(1,), (2,)]


def _counted(function: Any, calls: list[Any]) -> Any:
    def counting(self: Any, *arguments: Any, **options: Any) -> None:
        calls.append(arguments)
        function(self, *arguments, **options)

    return counting


def test_nothing_cut_is_one_chunk() -> None:
    desc = lstm()
    given = values(desc, batch=2)
    for found, expected in zip(computed(map_blocks(desc, device="numpy", **given)), at_once(desc, given), strict=True):
        np.testing.assert_array_equal(found, expected)


def test_what_is_sent_names_its_version(monkeypatch: pytest.MonkeyPatch) -> None:
    given = values(lstm())
    graph = dict(map_blocks(lstm(), device="numpy", **given).output_single_tensor.__dask_graph__())
    (sent,) = [task for key, task in graph.items() if str(key).endswith("-constants")]
    pickled = pickle.dumps(sent)
    assert b"check_version" in pickled
    monkeypatch.setattr("dmlpy.devices.persistence.pickling.__version__", "0.0.9")
    with pytest.raises(dml.PickleError, match=r"wrote this pickle, and dmlpy 0\.0\.9 is to load it"):
        pickle.loads(pickled).job  # noqa: B018  (the property reads it)


# GPUs


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> CudaDevice:
    device = cuda_on_cpu()
    monkeypatch.setitem(DEVICE_KINDS, "cuda", lambda index: device if index == 0 else "there is 1 GPU")
    assert isinstance(device, CudaDevice)
    return device


def test_chunks_of_numpy_are_copied_to_a_gpu_and_back(gpu: CudaDevice) -> None:
    desc = lstm()
    given = values(desc)
    whole = at_once(desc, given)
    given["input_tensor"] = cut(given["input_tensor"], 1, STEPS, 4, INPUTS)
    for found, expected in zip(computed(map_blocks(desc, device="cuda", **given)), whole, strict=True):
        assert isinstance(found, np.ndarray)
        assert_close(found, expected, np.float32)


def test_chunks_on_a_gpu_stay_there(gpu: CudaDevice) -> None:
    """A task's inputs and outputs are the device's arrays. Dask's part needs CuPy's, which cannot be emulated."""
    desc = lstm()
    given = values(desc)
    whole = at_once(desc, given)
    tasks = dict(map_blocks(desc, axes={"input_tensor": 2}, **given).output_single_tensor.__dask_graph__())
    job = next(sent for key, sent in tasks.items() if str(key).endswith("-constants")).job
    (chunk,) = all_chunks(job.groups)
    constants = {name: array for name, array in given.items() if name not in job.cut}
    found = jobs.run(jobs.Task(job, constants), chunk, *(gpu.from_host(given[name]) for name in job.cut))
    for array, expected in zip(found, whole, strict=True):
        assert not isinstance(array, np.ndarray)
        assert_close(gpu.to_host(array), expected, np.float32)


@pytest.mark.gpu
@pytest.mark.cupy
def test_chunks_of_cupy() -> None:
    import cupy

    desc = lstm()
    given = values(desc)
    whole = at_once(desc, given)
    given["input_tensor"] = da.from_array(cupy.asarray(given["input_tensor"]), chunks=(1, STEPS, 4, INPUTS), asarray=False)
    given[LENGTHS] = cupy.asarray(given[LENGTHS])
    for found, expected in zip(computed(map_blocks(desc, **given)), whole, strict=True):
        assert isinstance(found, cupy.ndarray)
        assert_close(found.get(), expected, np.float32)


# what is wrong


def wrong(**changed: Any) -> Any:
    """A call over a bidirectional LSTM with some arguments changed; None leaves one out."""
    desc = changed.pop("desc", lstm())
    given: dict[str, Any] = values(lstm())
    given["input_tensor"] = cut(given["input_tensor"], 1, STEPS, 4, INPUTS)
    given = {name: value for name, value in (given | {"device": "numpy"} | changed).items() if value is not None}
    return map_blocks(desc, **given)


def sequence(*chunks: Any, shape: tuple[int, ...] = (1, STEPS, 11, INPUTS), dtype: str = "float32") -> Any:
    return da.zeros(shape, chunks=chunks or (1, STEPS, 4, INPUTS), dtype=dtype)


RELU = dml.ActivationReluDesc(input_tensor=tensor(1, 1, 2, 1 << 17), output_tensor=tensor(1, 1, 2, 1 << 17))
NIBBLES = tensor(1, 1, 2, 6, data_type="INT4")
NO_LSTM = dict.fromkeys((*CONSTANTS, LENGTHS))
WRONG: dict[str, tuple[dict[str, Any], type[dml.DmlError], str]] = {
    "no desc": ({"desc": 3, "input_tensor": 1}, dml.DescError, "described is 3, expected an operator's desc"),
    "an invalid desc": ({"desc": lstm().replace(activation_descs=[])}, dml.CompileError, "activation_descs has 0 activations"),
    "a misspelled name": ({"input_tensr": sequence()}, dml.DescError, "did you mean input_tensor"),
    "a missing input": ({"weight_tensor": None}, dml.DescError, r"weight_tensor is not given"),
    "a type": (
        {"input_tensor": sequence(dtype="float64")},
        dml.DescError,
        r"input_tensor is float64, expected float32.*\n.*astype\('float32'\)",
    ),
    "dimensions": (
        {"input_tensor": sequence(6, 4, 3, shape=(6, 11, 3))},
        dml.DescError,
        r"input_tensor\.shape has 3 dimensions, expected 4",
    ),
    "a constant's size": (
        {"weight_tensor": np.zeros((1, 2, 17, INPUTS), np.float32)},
        dml.DescError,
        r"weight_tensor\.sizes\[2\] is 17, expected 16.*\n.*not a batch",
    ),
    "unequal chunks": (
        {LENGTHS: da.zeros((1, 1, 1, 11), chunks=(1, 1, 1, 5), dtype="uint32")},
        dml.DescError,
        r"is cut differently: input_tensor along axis 2: 3 chunks of \[4, 4, 3\]; sequence_lengths_tensor .* 3: 3 chunks of \[5, 5, 1\]",
    ),
    "unequal lengths": ({LENGTHS: np.zeros((1, 1, 1, 12), np.uint32)}, dml.DescError, "expected the same chunks"),
    "unknown chunks": (
        {"input_tensor": (lambda x: x[:, :, x[0, 0, :, 0] > 0])(sequence())},
        dml.DescError,
        r"input_tensor\.chunks\[2\] is of unknown sizes.*\n.*compute_chunk_sizes",
    ),
    "an empty chunk": ({"input_tensor": sequence(1, STEPS, (4, 0, 7), INPUTS)}, dml.DescError, r"input_tensor\.chunks\[2\]\[1\] is 0"),
    "time without a state": (
        {"desc": lstm("FORWARD"), "input_tensor": sequence(1, 2, 4, INPUTS)},
        dml.DescError,
        r"input_tensor\.sizes\[1\] is 6 in 3 chunks, expected 6.*\n.*seq_length, which is not a batch.*\n.*carry=True",
    ),
    "time in both directions": (
        {"input_tensor": sequence(1, 2, 4, INPUTS), "carry": True},
        dml.DescError,
        "direction is BIDIRECTIONAL, expected FORWARD or BACKWARD",
    ),
    "a state of what has none": (
        {"desc": network(), "carry": True, "input_tensor": None, **NO_LSTM, **network_values()},
        dml.DescError,
        r"carry is True for Graph.*\[dask.carry\]",
    ),
    "a named axis": ({"axes": {"input_tensor": 9}}, dml.DescError, r"axes\['input_tensor'\] is 9, expected 0 to 3"),
    "an axis of no input": ({"axes": {"inputs": 2}}, dml.DescError, r"inputs is not among the inputs"),
    "an axis that no output has": (
        {"axes": {"input_tensor": 3}, "weight_tensor": da.zeros((1, 2, 16, 3), chunks=(1, 2, 16, 1), dtype="float32")}
        | {"input_tensor": sequence(1, STEPS, 11, 1)},
        dml.DescError,
        "output_sequence_tensor has no axis for input_size",
    ),
    "a device": ({"device": "cdua"}, dml.DeviceError, "did you mean 'cuda'"),
    "a flag": ({"flags": "FAST"}, dml.DescError, "flags is 'FAST'"),
    "a chunk beyond a limit": (
        {"desc": RELU, "input_tensor": da.zeros((1, 1, 3 << 16, 1 << 17), chunks=(1, 1, 1 << 16, 1 << 17), dtype="float32"), **NO_LSTM},
        dml.CompileError,
        r"DML_ACTIVATION_RELU_OPERATOR_DESC for chunk \(0,\), sizes\[2\] 0 to 65535: 2 problems(.|\n)*8589934592 elements",
    ),
    "4 bits": (
        {"desc": RELU.replace(input_tensor=NIBBLES, output_tensor=NIBBLES), "input_tensor": np.zeros(12, np.uint8), **NO_LSTM},
        dml.CompileError,
        "INT4",
    ),
}


@pytest.mark.parametrize(("changed", "kind", "message"), WRONG.values(), ids=WRONG)
def test_what_is_wrong_is_reported_before_anything_runs(changed: dict[str, Any], kind: type[dml.DmlError], message: str) -> None:
    with pytest.raises(kind, match=message):
        wrong(**changed)


@pytest.mark.parametrize("made", [None, "text", [[1.0]]], ids=["None", "text", "list"])
def test_a_chunk_that_is_no_array_is_reported_with_its_place(made: object) -> None:
    first = da.from_array(np.ones((1, 1, 2, 3), np.float32), chunks=(1, 1, 2, 3))
    second = da.from_delayed(dask.delayed(lambda: made)(), shape=(1, 1, 4, 3), dtype=np.float32)
    whole = da.concatenate([first, second], axis=2)
    with pytest.raises(dml.BindError, match=r"chunk .*sizes\[2\] 2 to 5.*(.|\n)*input_tensor is .*, expected an array  \[array.kind\]"):
        computed(map_blocks(RELU, device="numpy", input_tensor=whole))
