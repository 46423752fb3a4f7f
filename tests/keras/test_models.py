"""Sequential: shapes and their inference, prediction, weights, files, and what it refuses."""

from __future__ import annotations

import io
import json
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

import dmlpy as dml
from dmlpy.keras.bidirectional import Bidirectional
from dmlpy.keras.layer import Layer
from dmlpy.keras.model_files import load_model
from dmlpy.keras.models import Sequential
from dmlpy.keras.recurrent_layers import GRU, LSTM, SimpleRNN
from dmlpy.keras.regularizers import l1l2, l2
from dmlpy.keras.simple import Dense, Embedding, Masking

Array = np.ndarray[Any, np.dtype[Any]]


def model(*layers: Layer, seed: int = 0) -> Sequential:
    return Sequential(layers, device="numpy", seed=seed)


def tagger(seed: int = 0) -> Sequential:
    """A layer of each kind."""
    return model(
        Embedding(9, 5, mask_zero=True, W_regularizer=l2(0.01)),
        Bidirectional(GRU(3, return_sequences=True, dropout_U=0.2)),
        LSTM(4, return_sequences=True, activation=dml.ActivationSoftsignDesc(), b_regularizer=l1l2(0.1, 0.2)),
        SimpleRNN(6),
        Dense(2, activation="softmax"),
        seed=seed,
    )


def symbols(samples: int = 7, steps: int = 5) -> Array:
    return np.random.default_rng(1).integers(0, 9, (samples, steps))


def draw(*shape: int) -> Array:
    return np.random.default_rng(2).standard_normal(shape).astype(np.float32)


# Shapes


def test_the_first_layers_size_is_given_in_either_way() -> None:
    first, second = model(LSTM(32, input_dim=64, input_length=10)), model(LSTM(32, input_shape=(10, 64)))
    assert first.input_shape == second.input_shape == (None, 10, 64)
    assert first.output_shape == second.output_shape == (None, 32)
    for one, other in zip(first.get_weights(), second.get_weights(), strict=True):
        np.testing.assert_array_equal(one, other)


def test_later_layers_infer_their_sizes() -> None:
    m = model(LSTM(32, input_dim=64, input_length=10, return_sequences=True))
    shapes = [m.output_shape]
    for layer in (LSTM(16), Dense(3, input_dim=16)):
        m.add(layer)
        shapes.append(m.output_shape)
    assert shapes == [(None, 10, 32), (None, 16), (None, 3)]
    assert m.layers[1].input_shape == (None, 10, 32)
    assert m.count_params() == 4 * 32 * 97 + 4 * 16 * 49 + 17 * 3
    assert [weight.name for weight in m.weights] == ["W", "U", "b"] * 2 + ["W", "b"]
    assert [layer.input_gradient for layer in m.layers] == [False, True, True]


SUMMARY = """\
Sequential

 layer   kind        output shape      parameters
 ------------------------------------------------
 words   Embedding   (None, None, 5)   45
 cells   GRU         (None, 3)         81
 out     Dense       (None, 1000)      4,000
 total                                 4,126
"""


def test_summary(capsys: pytest.CaptureFixture[str]) -> None:
    m = model(Embedding(9, 5, name="words"), GRU(3, name="cells"), Dense(1000, name="out"))
    m.summary()
    assert capsys.readouterr().out == SUMMARY


# Prediction


@pytest.mark.parametrize("batch_size", [None, 1, 3, 7, 100])
def test_prediction_in_batches(batch_size: int | None) -> None:
    m, x = tagger(), symbols()
    whole = m.predict(x)
    assert whole.shape == (7, 2)
    assert whole.dtype == np.float32
    np.testing.assert_allclose(m.predict(x, batch_size=batch_size), whole, rtol=1e-6)
    np.testing.assert_allclose(whole.sum(1), 1, rtol=1e-6)
    assert not np.allclose(whole[0], whole[1])


def test_a_prediction_is_the_layers_one_after_the_other() -> None:
    m, x = tagger(), symbols()
    values, mask = m.backend.array(x, np.int32), None
    for layer in m.layers:
        values, mask = layer.forward(values, mask, training=False)
    np.testing.assert_array_equal(m.predict(x), values)


def test_masks_reach_the_recurrent_layers() -> None:
    """Padding at the end changes nothing, with the mask only."""
    x = np.array([[3, 1, 4, 0, 0]])
    for masked in (True, False):
        m = model(Embedding(9, 5, mask_zero=masked), GRU(3))
        same = np.allclose(m.predict(x), m.predict(x[:, :3]), rtol=1e-5)
        assert same == masked
    x = np.concatenate([draw(1, 3, 2), np.zeros((1, 2, 2))], axis=1)
    m = model(Masking(input_dim=2), LSTM(3))
    np.testing.assert_allclose(m.predict(x), m.predict(x[:, :3]), rtol=1e-5)


def test_states_go_from_batch_to_batch() -> None:
    m = model(GRU(3, stateful=True, return_sequences=True, batch_input_shape=(2, None, 4)), Dense(1))
    plain = model(GRU(3, return_sequences=True, input_dim=4), Dense(1))
    plain.set_weights(m.get_weights())
    assert m.stateful
    assert not plain.stateful
    x = draw(2, 6, 4)
    whole = plain.predict(x)
    for _ in range(2):
        parts = [m.predict(x[:, :4]), m.predict(x[:, 4:])]
        np.testing.assert_allclose(np.concatenate(parts, axis=1), whole, rtol=1e-5, atol=1e-6)
        m.reset_states()
    # Samples 2 and 3 of one call are the next batch.
    second = m.predict(np.concatenate([x[:, :3], x[:, 3:]]))
    np.testing.assert_allclose(np.concatenate([second[:2], second[2:]], axis=1), whole, rtol=1e-5, atol=1e-6)


# Weights and files


def test_weights_come_and_go() -> None:
    first, second = tagger(seed=0), tagger(seed=1)
    x = symbols()
    assert not np.allclose(first.predict(x), second.predict(x))
    second.set_weights(first.get_weights())
    np.testing.assert_array_equal(first.predict(x), second.predict(x))
    before = second.get_weights()
    with pytest.raises(dml.DescError, match=r"weights has 1 array, expected \d+"):
        second.set_weights(before[:1])


@pytest.mark.parametrize(
    ("place", "given", "message"),
    [
        (-1, np.ones(3), r"dense\w*\.weights\[1\] is of shape \[3\], expected \[2\], as b"),
        (-1, ["a", "b"], r"weights\[\d+\] is of type <U1, expected an array of numbers"),
        (1, np.ones(4), r"bidirectional\w*\.weights\[0\] is of shape \[4\]"),
    ],
)
def test_one_array_that_does_not_fit_leaves_all_weights_as_they_are(place: int, given: Any, message: str) -> None:
    m = tagger()
    before = m.get_weights()
    weights = [array + 1 for array in before]
    weights[place] = given
    with pytest.raises(dml.DescError, match=message):
        m.set_weights(weights)
    for own, array in zip(m.get_weights(), before, strict=True):
        np.testing.assert_array_equal(own, array)


def test_all_arrays_that_do_not_fit_are_reported() -> None:
    m = tagger()
    with pytest.raises(dml.DescError, match=f"{len(m.get_weights())} problems"):
        m.set_weights([np.ones(1)] * len(m.get_weights()))


def test_a_layer_whose_weights_do_not_fit_can_be_added_again() -> None:
    layer = LSTM(3, input_dim=4, weights=[np.ones(2)])
    m = model()
    with pytest.raises(dml.DescError, match="weights has 1 array"):
        m.add(layer)
    assert not layer.built
    assert not layer.weights
    assert layer.output_shape is None
    weights = model(LSTM(3, input_dim=4)).get_weights()
    layer.begin_with(weights)
    m.add(layer)
    np.testing.assert_array_equal(m.get_weights()[0], weights[0])


def test_weights_in_a_file(tmp_path: Path) -> None:
    first, second = tagger(seed=0), tagger(seed=1)
    first.save_weights(tmp_path / "w.safetensors")
    stored = load_file(tmp_path / "w.safetensors")
    assert {"0.embedding.W", "1.bidirectional.backward_U", "3.simplernn.b", "4.dense.W"} <= stored.keys()
    assert len(stored) == len(first.weights) == 1 + 6 + 3 + 3 + 2
    second.load_weights(str(tmp_path / "w.safetensors"))
    np.testing.assert_array_equal(first.predict(symbols()), second.predict(symbols()))


def test_a_model_in_a_file(tmp_path: Path) -> None:
    m, x = tagger(), symbols()
    m.save(tmp_path / "m.safetensors")
    loaded = load_model(tmp_path / "m.safetensors", device="numpy", seed=3)
    np.testing.assert_array_equal(loaded.predict(x), m.predict(x))
    assert [type(layer) for layer in loaded.layers] == [type(layer) for layer in m.layers]
    assert [weight.regularizer for weight in loaded.weights] == [weight.regularizer for weight in m.weights]
    loaded.save(tmp_path / "again.safetensors")
    headers = []
    for name in ("m", "again"):
        with safe_open(tmp_path / f"{name}.safetensors", framework="numpy") as file:
            headers.append(file.metadata())
    assert headers[0] == headers[1]
    assert len(json.loads(headers[0]["dmlpy.keras"])["layers"]) == 5


CHANGES: list[tuple[str, Callable[[dict[str, Array]], Any], str]] = [
    ("missing", lambda w: w.pop("1.dense.b"), r"1\.dense\.b is not in the file, expected a tensor of \[2\]  \[weights\.missing\]"),
    (
        "unknown",
        lambda w: w.update({"1.dense.c": w["1.dense.b"]}),
        r"1\.dense\.c is in the file, expected a weight of the model(.|\n)*mean 1\.",
    ),
    ("shape", lambda w: w.update({"1.dense.W": draw(2, 3)}), r"1\.dense\.W is F32 \[2, 3\], expected F32 \[3, 2\]  \[weights\.shape\]"),
    ("type", lambda w: w.update({"1.dense.b": np.zeros(2)}), r"1\.dense\.b is F64 \[2\], expected F32 \[2\]"),
    ("two", lambda w: (w.pop("0.dense.W"), w.pop("1.dense.W")), "2 problems"),
]


@pytest.mark.parametrize(("change", "message"), [row[1:] for row in CHANGES], ids=[row[0] for row in CHANGES])
def test_weights_that_do_not_fit_change_nothing(change: Callable[[dict[str, Array]], Any], message: str, tmp_path: Path) -> None:
    m = model(Dense(3, input_dim=4), Dense(2))
    path = tmp_path / "w.safetensors"
    m.save_weights(path)
    weights = {name: array + 1 for name, array in load_file(path).items()}
    change(weights)
    save_file(weights, path)
    before = m.get_weights()
    with pytest.raises(dml.DescError, match=message):
        m.load_weights(path)
    for old, new in zip(before, m.get_weights(), strict=True):
        np.testing.assert_array_equal(old, new)


class Doubled(Layer):
    """A layer from outside the package."""

    def __init__(self, factor: float = 2.0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.factor = factor

    def compute_output_shape(self, input_shape: Any) -> Any:
        return input_shape

    def forward(self, x: Any, mask: Any, *, training: bool) -> Any:
        return x * np.float32(self.factor), mask

    def backward(self, dy: Any) -> Any:
        return dy * np.float32(self.factor)


def test_own_layers_are_saved_by_their_arguments(tmp_path: Path) -> None:
    m = model(Doubled(3.0, input_dim=4), Dense(2, weights=[draw(4, 2), np.ones(2)]))
    m.save(tmp_path / "m.safetensors")
    loaded = load_model(tmp_path / "m.safetensors", device="numpy")
    assert isinstance(loaded.layers[0], Doubled)
    assert loaded.layers[0].factor == 3
    np.testing.assert_array_equal(loaded.predict(draw(5, 4)), m.predict(draw(5, 4)))


def with_header(folder: Path, header: Any) -> Path:
    path = folder / "m.safetensors"
    save_file({"w": np.zeros(1, np.float32)}, path, metadata=None if header is None else {"dmlpy.keras": header})
    return path


def layers(*given: tuple[str, dict[str, Any]]) -> str:
    return json.dumps({"layers": [{"class": kind, "arguments": arguments} for kind, arguments in given]})


FILES: list[tuple[str, Any, str]] = [
    ("weights alone", None, r"dmlpy\.keras is missing, expected the model's layers(.|\n)*load_weights"),
    ("no JSON", "{", r"dmlpy\.keras is '\{', expected the model's layers, as Sequential\.save"),
    ("no layers", "{}", "model.header"),
    ("no classes", '{"layers": [1, {}]}', "model.header"),
    ("another class", layers(("Dens", {})), r"layers\[0\] is 'Dens', expected a layer's class(.|\n)*did you mean Dense\?"),
    ("another argument", layers(("Dense", {"output_dim": 3, "kernel": 1})), "kernel is not an argument(.|\n)*field.unknown"),
    ("argument out of range", layers(("Dense", {"output_dim": 0})), r"layers\[0\]\.output_dim is 0, expected an integer"),
    ("weights of another model", layers(("Dense", {"output_dim": 2, "input_dim": 3})), "3 problems"),
]


@pytest.mark.parametrize(("header", "message"), [row[1:] for row in FILES], ids=[row[0] for row in FILES])
def test_files_without_a_model(header: Any, message: str, tmp_path: Path) -> None:
    path = with_header(tmp_path, header)
    with pytest.raises(dml.DescError, match=message) as caught:
        load_model(path, device="numpy")
    assert caught.value.subject == str(path)


def test_other_files(tmp_path: Path) -> None:
    path = tmp_path / "m.safetensors"
    with pytest.raises(FileNotFoundError):
        load_model(path)
    path.write_bytes(b"no tensors")
    for call in (load_model, model(Dense(1, input_dim=1)).load_weights):
        with pytest.raises(dml.DescError, match=r"not a safetensors file"):
            call(path)


def archive(name: str) -> bytes:
    """A ZIP archive of one file."""
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w") as file:
        file.writestr(name, "{}")
    return written.getvalue()


@pytest.mark.parametrize(
    ("begin", "found", "remedy"),
    [
        (b"\x89HDF\r\n\x1a\n\0\0", "HDF5, as Keras writes", "from_keras"),
        (archive("metadata.json"), "a model of Keras", "from_keras"),
        (archive("config.json"), "a model of Keras", "from_keras"),
        (archive("m/data.pkl"), "an archive of PyTorch", "from_torch"),
        (b"\x80\x02\x8a\nl\xfc", "a pickle", "from_torch"),
        (archive("a.txt"), "a ZIP archive", "take the file"),
        (b"GGUF\x03\0\0\0", "a model of llama.cpp", "it holds weights alone"),
        (b"", "empty", ""),
    ],
)
def test_files_of_others_are_recognized_by_their_first_bytes_without_safetensors(
    begin: bytes, found: str, remedy: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "m.keras"
    path.write_bytes(begin)
    monkeypatch.setitem(sys.modules, "safetensors.numpy", None)
    for call in (load_model, model(Dense(1, input_dim=1)).load_weights):
        with pytest.raises(dml.DescError, match=f"{found}.*, expected a file of safetensors") as caught:
            call(path)
        assert remedy in (caught.value.problems[0].remedy or "")


def test_a_damaged_file(tmp_path: Path) -> None:
    path = tmp_path / "m.safetensors"
    path.write_bytes(b"\x12\0\0\0\0\0\0\0{not JSON")
    with pytest.raises(dml.DescError, match="a damaged safetensors file"):
        load_model(path)


def test_files_need_safetensors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    m = model(Dense(3, input_dim=4))
    m.save(tmp_path / "m.safetensors")
    monkeypatch.setitem(sys.modules, "safetensors.numpy", None)
    for call in (m.save, m.save_weights, m.load_weights, load_model):
        with pytest.raises(ModuleNotFoundError, match=r"pip install 'dmlpy\[keras\]'"):
            call(tmp_path / "m.safetensors")


def test_functions_are_in_no_file(tmp_path: Path) -> None:
    m = model(Dense(3, input_dim=4, init=lambda shape, random: np.ones(shape)))
    with pytest.raises(dml.DescError, match=r"layers\[0\]\.init is <function .*expected what JSON can hold"):
        m.save(tmp_path / "m.safetensors")
    assert not list(tmp_path.iterdir())


# What it refuses


def used() -> Dense:
    layer = Dense(3, input_dim=4)
    model(layer)
    return layer


ERRORS: list[tuple[str, Callable[[], Any], str]] = [
    (
        "first layer without a size",
        lambda: model(Dense(3)),
        r"input_shape is missing, expected the sizes of the first layer's input  \[layer\.input_size\]\n(.|\n)*remedy: pass input_dim",
    ),
    ("recurrent layer without a size", lambda: model(LSTM(3)), r"\[layer\.input_size\]"),
    ("steps without a size", lambda: model(LSTM(3, input_length=10)), r"\[layer\.input_size\]"),
    (
        "sizes that do not follow",
        lambda: model(Dense(3, input_dim=4), Dense(3, input_dim=4)),
        r"is \[None, 4\], expected \[None, 3\], the output of dense_\d+",
    ),
    ("no sequence", lambda: model(Dense(3, input_dim=4), GRU(3)), r"gru_\d+: 1 problem"),
    ("the same layer again", lambda: model(used()), r"part of a model already, expected a new layer  \[layer\.built\]"),
    ("no layer", lambda: model("dense"), r"layer is a str, expected a layer"),
    ("stateful without a batch size", lambda: model(GRU(3, stateful=True, input_dim=4)), r"batch_input_shape"),
    ("no layers", lambda: model().output_shape, r"layers is empty, expected at least one layer  \[model\.empty\]"),
    ("prediction without layers", lambda: model().predict([[1]]), r"\[model\.empty\]"),
    (
        "embedding in the middle",
        lambda: model(Dense(3, input_dim=4), Embedding(9, 5)).predict(draw(2, 4)),
        r"x is of type float32, expected symbols, the input of a model's first layer  \[embedding\.input\]",
    ),
    (
        "input of a size",
        lambda: model(Dense(3, input_dim=4)).predict(draw(2, 5)),
        r"x is of shape \[2, 5\], expected \[None, 4\]  \[data\.shape\]",
    ),
    (
        "input of fewer dimensions",
        lambda: model(GRU(3, input_dim=4)).predict(draw(2, 4)),
        r"x is of shape \[2, 4\], expected \[None, None, 4\]",
    ),
    ("input of steps", lambda: model(GRU(3, input_dim=4, input_length=6)).predict(draw(2, 5, 4)), r"expected \[None, 6, 4\]"),
    ("no samples", lambda: model(Dense(3, input_dim=4)).predict(draw(0, 4)), r"x is of shape \[0, 4\], expected at least one sample"),
    ("words", lambda: model(Dense(3, input_dim=1)).predict([["a"]]), r"x is of type <U1, expected an array of numbers"),
    (
        "ragged lists",
        lambda: model(Embedding(9, 5)).predict([[1, 2], [3]]),
        r"expected an array of numbers  \[data\.form\](.|\n)*pad sequences",
    ),
    ("symbols", lambda: model(Embedding(9, 5)).predict([[1, 9]]), r"Sequential\.predict: 1 problem\n.*x\[0, 1\] is 9, expected a whole"),
    ("batch of nothing", lambda: model(Dense(3, input_dim=4)).predict(draw(2, 4), 0), r"batch_size is 0, expected a whole number"),
    (
        "batch of another size",
        lambda: model(Dense(3, batch_input_shape=(4, 4))).predict(draw(4, 4), 2),
        r"batch_size is 2, expected 4(.|\n)*leave batch_size out",
    ),
    (
        "half a batch",
        lambda: model(GRU(3, stateful=True, batch_input_shape=(4, 5, 2))).predict(draw(6, 5, 2)),
        r"x is of 6 samples, expected a multiple of 4  \[data\.length\]",
    ),
    ("two problems", lambda: model(Dense(3, input_dim=4)).predict(draw(2, 5), -1), "Sequential.predict: 2 problems"),
]


@pytest.mark.parametrize(("call", "message"), [row[1:] for row in ERRORS], ids=[row[0] for row in ERRORS])
def test_errors(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(dml.DescError, match=message):
        call()
