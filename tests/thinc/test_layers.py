"""dmlpy.thinc's layers: equal to Thinc's where these are right, in every form of sequences, stored, copied and run by threads."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from tests.conftest import cuda_on_cpu
from tests.support.cuda.fakes.cupy_over_numpy import FakeCuPy
from tests.support.recurrent.thinc_cases import ThincCase, load
from tests.support.tools import require

require("thinc")

import thinc.api as thinc
from thinc.types import Padded, Ragged

import dmlpy.thinc as dt
from dmlpy import nn
from dmlpy.nn.arrays import Home
from dmlpy.nn.layers import lease as dmlpy_lease
from dmlpy.thinc import layers

Array = np.ndarray[Any, Any]
CASES = load()
LIMIT = 1e-5
OPS = thinc.NumpyOps()
LENGTHS = (5, 2, 7, 0, 1)
KINDS: dict[str, Callable[..., Any]] = {"LSTM": dt.LSTM, "GRU": dt.GRU, "RNN": dt.RNN}


def model_of(case: ThincCase, kind: Callable[..., Any] = dt.LSTM) -> Any:
    model = kind(case.units * case.directions, case.x.shape[1], bi=case.directions == 2, depth=case.depth).initialize()
    model.set_param("LSTM", case.LSTM)
    model.set_param("HC0", case.HC0)
    return model


@pytest.fixture(autouse=True)
def on_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    """The device without compiled kernels: tests of another one name it."""
    monkeypatch.setattr(layers, "find_device", lambda name: dml.device("numpy"))


@pytest.mark.parametrize("number", [0, 1, 5, 8, 15])
def test_a_model_of_thinc_loads_and_gives_the_same(number: int) -> None:
    case = CASES[number]
    theirs = model_of(case, thinc.LSTM)
    ours = dt.LSTM(bi=case.directions == 2, depth=case.depth).from_bytes(theirs.to_bytes())
    np.testing.assert_array_equal(ours.get_param("LSTM"), case.LSTM)
    np.testing.assert_allclose(ours.predict(Ragged(case.x, case.lengths)).data, case.y, rtol=0, atol=LIMIT)
    padded = OPS.list2padded(case.parts(case.x))
    np.testing.assert_allclose(ours.predict(padded).data, theirs.predict(padded).data, rtol=0, atol=LIMIT)


@pytest.mark.parametrize("number", [0, 3, 4, 9])
def test_gradients(number: int) -> None:
    case = CASES[number]
    model = model_of(case)
    model.set_param("HC0", np.zeros_like(case.HC0))
    y, backprop = model.begin_update(Ragged(case.x, case.lengths))
    dx = backprop(Ragged(case.dy, case.lengths))
    np.testing.assert_allclose(dx.data, case.dx, rtol=0, atol=LIMIT * max(1, np.abs(case.dx).max()))
    np.testing.assert_allclose(model.get_grad("LSTM"), case.dLSTM, rtol=0, atol=LIMIT * max(1, np.abs(case.dLSTM).max()))
    assert len(y.data) == len(case.y)
    assert not model.has_grad("HC0")


def test_equal_seeds_give_thincs_initial_weights_and_dropout() -> None:
    found = []
    for kind in (thinc.LSTM, dt.LSTM):
        thinc.fix_random_seed(3)
        model = kind(8, 3, bi=True, depth=2, dropout=0.4).initialize()
        x = [np.full((4, 3), 0.5, np.float32)]
        y, _ = (model if kind is dt.LSTM else thinc.with_padded(model))(x, True)
        found.append((model.get_param("LSTM"), y[0]))
    np.testing.assert_array_equal(found[0][0], found[1][0])
    np.testing.assert_allclose(found[0][1], found[1][1], rtol=0, atol=LIMIT)


def test_dropout_masks_the_gradients_of_the_weights_that_were_left_out() -> None:
    model = dt.GRU(4, 3, dropout=0.5).initialize()
    x = [np.ones((4, 3), np.float32)]
    y, backprop = model.begin_update(x)
    backprop(y)
    gradient = model.get_grad("GRU")
    assert 0.2 < np.mean(gradient == 0) < 0.8
    np.testing.assert_array_equal(model.predict(x)[0], model.predict(x)[0])


# forms of sequences


def forms() -> dict[str, tuple[Any, Callable[[Any], Array]]]:
    """A batch in each form, and what gives the rows of all sequences of such a value."""
    rng = np.random.default_rng(0)
    parts = [rng.standard_normal((length, 3), np.float32) for length in LENGTHS]
    padded = OPS.list2padded(parts)
    return {
        "list": (parts, np.concatenate),
        "Ragged": (Ragged(np.concatenate(parts), np.array(LENGTHS, "i")), lambda value: value.data),
        "Padded": (padded, lambda value: np.concatenate(OPS.padded2list(value))),
    }


@pytest.mark.parametrize("cell", KINDS)
@pytest.mark.parametrize("form", ["Ragged", "Padded", "with_padded"])
def test_every_form_gives_the_same(cell: str, form: str) -> None:
    model = KINDS[cell](6, 3, bi=True, depth=2).initialize()
    (given, rows), (other, other_rows) = forms()["list"], forms().get(form, forms()["list"])
    second = thinc.with_padded(model) if form == "with_padded" else model
    found = []
    for layer, value, flat in ((model, given, rows), (second, other, other_rows)):
        model.set_grad(cell, np.zeros_like(model.get_param(cell)))
        y, backprop = layer(value, True)
        assert type(y) is type(value)
        dx = backprop(y)
        assert type(dx) is type(value)
        found.append((flat(layer.predict(value)), flat(y), flat(dx), model.get_grad(cell)))
    for one, two in zip(*found, strict=True):
        np.testing.assert_allclose(one, two, rtol=0, atol=LIMIT)


def test_arrays_are_sequences_of_one_length() -> None:
    model = dt.RNN(6, 3, activation="relu").initialize()
    x = np.random.default_rng(1).standard_normal((4, 5, 3), np.float32)
    y, backprop = model(x, True)
    parts, back = model([x[:, at] for at in range(5)], True)
    np.testing.assert_allclose(y, np.stack(parts, 1), rtol=0, atol=LIMIT)
    np.testing.assert_allclose(backprop(y), np.stack(back(parts), 1), rtol=0, atol=LIMIT)


def test_sequences_do_not_depend_on_each_other() -> None:
    model, (parts, _) = dt.LSTM(6, 3, bi=True).initialize(), forms()["list"]
    for part, together in zip(parts, model.predict(parts), strict=True):
        np.testing.assert_allclose(model.predict([part])[0], together, rtol=0, atol=LIMIT)


@pytest.mark.parametrize(
    "empty",
    [
        [],
        [np.zeros((0, 3), np.float32)] * 2,
        Ragged(np.zeros((0, 3), np.float32), np.zeros(2, "i")),
        OPS.list2padded([np.zeros((0, 3), np.float32)]),
    ],
    ids=["none", "list", "Ragged", "Padded"],
)
def test_nothing_gives_nothing(empty: Any) -> None:
    model = dt.LSTM(6, 3, bi=True).initialize()
    y, backprop = model(empty, True)
    assert type(y) is type(empty)
    assert len(y) == len(empty)
    assert type(backprop(y)) is type(empty)
    if isinstance(empty, list):
        assert [part.shape for part in y] == [(0, 6)] * len(empty)


def test_many_batches_compile_few_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    model, rng, used, original = dt.LSTM(4, 3).initialize(), np.random.default_rng(0), set[Any](), dmlpy_lease

    def noted(home: Any, layer: Any, sizes: Any, *given: Any, **options: Any) -> Any:
        used.add(sizes)
        return original(home, layer, sizes, *given, **options)

    monkeypatch.setattr(layers, "lease", noted)
    for _ in range(60):
        model.predict([np.zeros((int(length), 3), np.float32) for length in rng.integers(1, 40, rng.integers(17, 24))])
    assert len(used) <= 6


def test_layers_of_equal_sizes_find_their_weights_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layers, "find_device", lambda name: dml.device("cpu"))
    model, x = dt.LSTM(4, 4, depth=3).initialize(), [np.ones((3, 4), np.float32)]
    filled, original = list[int](), layers._fill

    def noted(space: Any, elements: Any, shape: Any, layer: int) -> None:
        filled.append(layer)
        original(space, elements, shape, layer)

    monkeypatch.setattr(layers, "_fill", noted)
    first = model.predict(x)[0]
    np.testing.assert_array_equal(model.predict(x)[0], first)
    assert filled == [0, 1, 2]
    flat: Any = model.get_param("LSTM")
    flat[-20:] += 1  # as an optimizer does, in place
    assert not np.array_equal(model.predict(x)[0], first)
    assert filled == [0, 1, 2, 2]


# what becomes of a model


def test_models_are_stored_copied_and_run_by_threads(tmp_path: Path) -> None:
    model, (parts, rows) = dt.GRU(6, 3, bi=True, depth=2).initialize(), forms()["list"]
    expected = rows(model.predict(parts))
    model.to_disk(tmp_path / "model")
    loaded = dt.GRU(bi=True, depth=2).from_disk(tmp_path / "model")
    np.testing.assert_array_equal(rows(loaded.predict(parts)), expected)
    copied = model.copy()
    copied.set_param("GRU", np.zeros_like(model.get_param("GRU")))
    np.testing.assert_array_equal(rows(model.predict(parts)), expected)
    assert not rows(copied.predict(parts)).any()
    with ThreadPoolExecutor(4) as pool:
        for found in pool.map(lambda _: rows(model.predict(parts)), range(40)):
            np.testing.assert_array_equal(found, expected)


def test_backward_passes_may_come_in_any_order() -> None:
    model, (parts, rows) = dt.LSTM(6, 3).initialize(), forms()["list"]
    alone = []
    for scale in (1, 2):
        y, backprop = model([scale * part for part in parts], True)
        alone.append(rows(backprop(y)))
    (one, first), (two, second) = (model([scale * part for part in parts], True) for scale in (1, 2))
    np.testing.assert_array_equal(rows(second(two)), alone[1])
    np.testing.assert_array_equal(rows(first(one)), alone[0])


@pytest.mark.parametrize("form", ["Padded", "array"])
def test_outputs_outlive_their_pass_and_may_be_written_to(form: str) -> None:
    """Those of a training pass lie in the layer's buffers, which later passes must not get before."""

    def values(value: Any) -> Any:
        return value.data if isinstance(value, Padded) else value

    model = dt.LSTM(6, 3, depth=2).initialize()
    given = forms()[form][0] if form == "Padded" else np.ones((4, 2, 3), np.float32)
    y, backprop = model(given, True)
    kept, upstream = values(y).copy(), model.predict(given)
    expected = values(backprop(upstream)).copy()
    y, backprop = model(given, True)
    values(y)[...] = 7
    np.testing.assert_array_equal(values(backprop(upstream)), expected)
    y, _ = model(given, True)
    for _ in range(3):
        values(model(given, True)[0])[...] = 5
        model.predict(given)
    np.testing.assert_array_equal(values(y), kept)


def test_configs_name_the_layers() -> None:
    config = thinc.Config().from_str('[model]\n@layers = "dmlpy.LSTM.v1"\nnO = 6\nnI = 3\nbi = true\ndepth = 2\n')
    model = thinc.registry.resolve(config)["model"]
    assert (model.name, model.get_dim("dirs"), model.get_dim("depth")) == ("lstm", 2, 2)
    registered: Any = thinc.registry.layers
    assert all(f"dmlpy.{kind}.v1" in registered for kind in KINDS)


def test_training_lowers_a_loss() -> None:
    rng = np.random.default_rng(0)
    x = [rng.standard_normal((6, 3), np.float32) for _ in range(8)]
    target = [np.cumsum(part, axis=0)[:, :2] / 4 for part in x]
    model: Any = thinc.chain(dt.LSTM(8, 3), thinc.with_array(thinc.Linear(2, 8)))
    model.initialize(x, target)
    optimizer, losses = thinc.Adam(0.02), []
    for _ in range(40):
        y, backprop = model.begin_update(x)
        gradient = [(found - wanted) / len(x) for found, wanted in zip(y, target, strict=True)]
        losses.append(sum(float(np.square(part).sum()) for part in gradient))
        backprop(gradient)
        model.finish_update(optimizer)
    assert losses[-1] < losses[0] / 5


# PyTorch


@pytest.mark.parametrize("cell", KINDS)
def test_conversion_to_and_from_pytorch(cell: str) -> None:
    require("torch")
    options: dict[str, Any] = {"activation": "relu"} if cell == "RNN" else {}
    model = KINDS[cell](6, 3, bi=True, depth=2, **options).initialize()
    model.set_param(cell, np.random.default_rng(0).uniform(-1, 1, model.get_param(cell).shape).astype(np.float32))
    other = dt.to_pytorch(model)
    x = [np.random.default_rng(1).standard_normal((5, 3), np.float32)]
    (y, backprop), (z, other_backprop) = model(x, True), other(x, True)
    np.testing.assert_allclose(y[0], z[0], rtol=0, atol=LIMIT)
    np.testing.assert_allclose(backprop(y)[0], other_backprop(z)[0], rtol=0, atol=LIMIT)
    back = dt.from_pytorch(other, dropout=0.1)
    np.testing.assert_array_equal(back.get_param(cell), model.get_param(cell))
    np.testing.assert_array_equal(back.predict(x)[0], model.predict(x)[0])
    if cell == "LSTM":
        own = dt.from_pytorch(thinc.PyTorchLSTM(6, 3, bi=True, depth=2))
        assert own.get_param("LSTM").shape == model.get_param("LSTM").shape


# a GPU


@pytest.fixture
def fake_cupy(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeCuPy]:
    """CuPy's arrays on the emulated device."""
    device = cuda_on_cpu()
    cupy = FakeCuPy(device)
    monkeypatch.setattr(layers, "_home", lambda model: Home(device, cupy, lambda array: array))
    monkeypatch.setattr(Home, "current", lambda _: nullcontext())
    yield cupy
    nn.free_buffers()


def test_arrays_on_a_gpu(fake_cupy: FakeCuPy) -> None:
    case = CASES[3]
    model = model_of(case)
    model.set_param("HC0", fake_cupy.asarray(np.zeros_like(case.HC0)))
    model.set_param("LSTM", fake_cupy.asarray(case.LSTM))
    y, backprop = model(Ragged(fake_cupy.asarray(case.x), fake_cupy.asarray(case.lengths)), True)
    dx = backprop(Ragged(fake_cupy.asarray(case.dy), fake_cupy.asarray(case.lengths)))
    assert isinstance(y.data, fake_cupy.ndarray)
    np.testing.assert_allclose(np.array(dx.data), case.dx, rtol=0, atol=LIMIT * max(1, np.abs(case.dx).max()))
    np.testing.assert_allclose(model.get_grad("LSTM"), case.dLSTM, rtol=0, atol=LIMIT * max(1, np.abs(case.dLSTM).max()))


def test_the_compiled_device_runs_models(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    case = CASES[3]
    model = model_of(case)
    np.testing.assert_allclose(model.predict(Ragged(case.x, case.lengths)).data, case.y, rtol=0, atol=LIMIT)
    model.set_param("HC0", np.zeros_like(case.HC0))
    _, backprop = model.begin_update(Ragged(case.x, case.lengths))
    dx = backprop(Ragged(case.dy, case.lengths))
    np.testing.assert_allclose(dx.data, case.dx, rtol=0, atol=LIMIT * max(1, np.abs(case.dx).max()))


def test_a_padded_batch_of_another_kind_is_not_taken_for_it() -> None:
    model, (padded, _) = dt.LSTM(6, 3).initialize(), forms()["Padded"]
    _, backprop = model(padded, True)
    with pytest.raises(dml.DescError, match=r"dY\.lengths is \[.*\], expected \[7, 5, 2, 1, 0\]"):
        backprop(Padded(np.zeros((7, 5, 6), np.float32), padded.size_at_t, padded.lengths[::-1].copy(), padded.indices))
