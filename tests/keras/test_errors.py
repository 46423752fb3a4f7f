"""Every code of a problem that dmlpy.keras can raise, shown to be reachable."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from safetensors.numpy import save_file

import dmlpy as dml
from dmlpy.keras import (
    GRU,
    LSTM,
    SGD,
    BackupAndRestore,
    Bidirectional,
    Dense,
    EarlyStopping,
    Embedding,
    Recurrent,
    Sequential,
    SimpleRNN,
    TensorBoard,
    from_keras,
    from_torch,
    load_model,
)
from tests.support.structure.problem_codes import SOURCE, codes_in

FOLDER = SOURCE / "keras"


def model(*layers: Any) -> Sequential:
    return Sequential(layers, device="numpy", seed=0)


def compiled(*layers: Any, rule: Any = "sgd", loss: str = "mse") -> Sequential:
    m = model(*(layers or (Dense(1, input_dim=4),)))
    m.compile(rule, loss)
    return m


def zeros(*shape: int) -> Any:
    return np.zeros(shape, np.float32)


def without_tensorboard() -> None:
    with patch.dict(sys.modules, {"tensorboardX": None}):
        TensorBoard()


def shared_optimizer() -> None:
    rule = SGD(momentum=0.5)
    first, second = compiled(rule=rule), compiled(Dense(2, input_dim=4), rule=rule)
    second.train_on_batch(zeros(2, 4), zeros(2, 2))
    first.train_on_batch(zeros(2, 4), zeros(2, 1))


def built_twice() -> None:
    layer = Dense(1, input_dim=4)
    model(layer, layer)


def load(folder: Path, weights: dict[str, Any], *, header: str | None = None, whole: bool = False) -> None:
    path = folder / "m.safetensors"
    save_file(weights, path, metadata=header and {"dmlpy.keras": header})
    if whole:
        load_model(path, device="numpy")
    else:
        model(Dense(1, input_dim=4)).load_weights(path)


def load_text(folder: Path) -> None:
    (folder / "text").write_text("no tensors")
    load_model(folder / "text")


def half_layer() -> Any:
    """A layer of Keras 3 that computes in float16, as far as it is asked before it is refused."""

    class Config(dict[str, Any]):
        def __missing__(self, name: str) -> None:
            return None

    members = {
        "built": True,
        "compute_dtype": "float16",
        "get_config": lambda _: Config(),
        "get_build_config": lambda _: {"input_shape": (None, None, 4)},
    }
    return type("SimpleRNN", (), members)()


def foreign_backup(folder: Path) -> None:
    m = compiled()
    m.fit(zeros(2, 4), zeros(2, 1), epochs=1, verbose=0, callbacks=[BackupAndRestore(folder, delete_checkpoint=False)])
    compiled(Dense(2, input_dim=4)).fit(zeros(2, 4), zeros(2, 2), verbose=0, callbacks=[BackupAndRestore(folder)])


def damaged_backup(folder: Path) -> None:
    save_file({"weight.0.W": zeros(4, 1)}, folder / "latest.safetensors", metadata={"dmlpy.keras.run": "{}"})
    compiled().fit(zeros(2, 4), zeros(2, 1), verbose=0, callbacks=[BackupAndRestore(folder)])


HARDMAX = dml.ActivationHardmaxDesc()
DENSE = {"0.dense.W": zeros(4, 1), "0.dense.b": zeros(1)}

CODES: dict[str, Callable[[Path], Any]] = {
    "activation.training": lambda _: compiled(Dense(1, input_dim=4, activation=HARDMAX)).train_on_batch(zeros(2, 4), zeros(2, 1)),
    "activation_kind": lambda _: GRU(3, activation="softmax"),
    "array.shape": lambda _: GRU(3, input_dim=4)(zeros(2, 5)),
    "backup.damaged": damaged_backup,
    "backup.foreign": foreign_backup,
    "callback.monitor": lambda _: compiled().fit(zeros(2, 4), zeros(2, 1), callbacks=[EarlyStopping("val_loss")]),
    "callback.package": lambda _: without_tensorboard(),
    "model.path": lambda folder: model(Dense(3, input_dim=4)).save(folder / "m.keras"),
    "callback.kind": lambda _: compiled().fit(zeros(2, 4), zeros(2, 1), callbacks=[print]),
    "data.batch_size": lambda _: compiled().predict(zeros(2, 4), batch_size=0),
    "data.epochs": lambda _: compiled().fit(zeros(2, 4), zeros(2, 1), nb_epoch=-1),
    "data.form": lambda _: compiled().predict("text"),
    "data.length": lambda _: compiled().fit(zeros(2, 4), zeros(3, 1)),
    "data.shape": lambda _: compiled().fit(zeros(2, 5), zeros(2, 1)),
    "data.shuffle": lambda _: compiled(GRU(1, stateful=True, batch_input_shape=(2, 5, 4))).fit(zeros(2, 5, 4), zeros(2, 1)),
    "data.split": lambda _: compiled().fit(zeros(2, 4), zeros(2, 1), validation_split=2),
    "data.steps": lambda _: compiled().fit(iter([]), epochs=2),
    "dropout_range": lambda _: Embedding(9, 5, dropout=1),
    "embedding.input": lambda _: model(Dense(3, input_dim=4), Embedding(9, 5)).predict(zeros(2, 4)),
    "embedding.symbol": lambda _: model(Embedding(9, 5)).predict([[9]]),
    "field.form": lambda _: Dense(0),
    "field.unknown": lambda _: GRU(3, units=3),
    "import.kind": lambda _: from_torch([]),
    "import.missing": lambda _: from_torch({}),
    "import.option": lambda _: from_torch({f"{kind}_l{layer}": zeros(1) for layer in (0, 1) for kind in ("weight_ih", "weight_hh")}),
    "layer.abstract": lambda _: Recurrent(3, {}),
    "layer.batch_size": lambda _: model(GRU(3, stateful=True, input_dim=4)),
    "layer.built": lambda _: built_twice(),
    "layer.direction": lambda _: Bidirectional(LSTM(3, go_backwards=True)),
    "layer.input_shape": lambda _: model(Embedding(9, 5, input_shape=(2, 3))),
    "layer.input_size": lambda _: model(Dense(3)),
    "layer.kind": lambda _: model(3),
    "layer.not_built": lambda _: Dense(3).set_weights([]),
    "layer.not_trained": lambda _: model(Dense(3, input_dim=4)).layers[0].backward(zeros(2, 3)),
    "layer.argument": lambda folder: load(folder, DENSE, header='{"layers": [{"class": "Dense", "arguments": {}}]}', whole=True),
    "layer.unknown": lambda folder: load(folder, DENSE, header='{"layers": [{"class": "Tense", "arguments": {}}]}', whole=True),
    "loss.unknown": lambda _: compiled(loss="huber"),
    "mask.shape": lambda _: SimpleRNN(3)(zeros(2, 5, 4), mask=np.ones((2, 4))),
    "mask.unexpected": lambda _: Embedding(9, 5)([[1]], mask=[[True]]),
    "metric.unknown": lambda _: compiled().compile("sgd", "mse", ["mae"]),
    "model.argument": lambda folder: model(Dense(3, input_dim=4, init=lambda shape, random: zeros(*shape))).save(folder / "m"),
    "model.empty": lambda _: model().predict(zeros(2, 4)),
    "model.header": lambda folder: load(folder, DENSE, whole=True),
    "model.not_compiled": lambda _: model(Dense(3, input_dim=4)).evaluate(zeros(2, 4), zeros(2, 3)),
    "optimizer.range": lambda _: SGD(lr=-1),
    "optimizer.unknown": lambda _: compiled(rule="nadam"),
    "optimizer.weights": lambda _: shared_optimizer(),
    "targets.class": lambda _: compiled(loss="sparse_categorical_crossentropy").fit(zeros(2, 4), [0, 1]),
    "type.support": lambda _: from_keras(half_layer()),
    "weights.count": lambda _: model(Dense(3, input_dim=4)).set_weights([]),
    "weights.file": load_text,
    "weights.missing": lambda folder: load(folder, {"0.dense.W": zeros(4, 1)}),
    "weights.shape": lambda _: model(Dense(3, input_dim=4, weights=[zeros(3, 4), zeros(3)])),
    "weights.unknown": lambda folder: load(folder, DENSE | {"1.dense.W": zeros(4, 1)}),
}


@pytest.mark.parametrize("code", CODES)
def test_every_code_is_reached(code: str, tmp_path: Path) -> None:
    with pytest.raises(dml.DescError) as caught:
        CODES[code](tmp_path)
    assert code in {problem.code for problem in caught.value.problems}
    assert caught.value.subject


def test_every_code_of_the_package_is_in_the_table() -> None:
    emitted = {code for path in FOLDER.glob("*.py") for code in codes_in(path.read_text(encoding="utf-8"))}
    assert emitted == set(CODES)


@pytest.mark.parametrize(
    "call",
    [
        lambda: Dense(0, bias="no"),
        lambda: Embedding(0, 5, mask_zero="no"),
        lambda: compiled().fit(zeros(2, 4), zeros(2, 1), shuffle="no", nb_epoch=-1),
    ],
)
def test_flags_are_reported_with_the_other_arguments(call: Callable[[], object]) -> None:
    with pytest.raises(dml.DescError, match="expected True or False") as raised:
        call()
    assert len(raised.value.problems) == 2
