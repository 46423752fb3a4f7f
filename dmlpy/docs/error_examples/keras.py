"""Errors of Keras-style layers and models."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from safetensors.numpy import save_file

import dmlpy as dml
from dmlpy.docs.error_examples.example import shows
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
    TensorBoard,
    TerminateOnNaN,
    from_torch,
    load_model,
)

x = np.zeros((2, 4), np.float32)
y = np.zeros((2, 1), np.float32)
trained = Sequential([Dense(1, input_dim=4)], device="numpy")  # on the first device importing this would begin to use a GPU


@shows("activation.training")
def activation_training() -> Any:
    model = Sequential([Dense(1, activation=dml.ActivationHardmaxDesc(), input_dim=4)])
    model.compile("sgd", "mse")
    model.train_on_batch(x, y)


@shows("backup.damaged")
def backup_damaged() -> Any:
    folder = Path("backup")
    folder.mkdir()
    save_file({"weight.0.W": x}, folder / "latest.safetensors", {"dmlpy.keras.run": "{}"})
    trained.compile("sgd", "mse")
    trained.fit(x, y, verbose=0, callbacks=[BackupAndRestore(folder)])


@shows("backup.foreign")
def backup_foreign() -> Any:
    trained.compile("sgd", "mse")
    trained.fit(x, y, epochs=1, verbose=0, callbacks=[BackupAndRestore("backup", delete_checkpoint=False)])
    trained.fit(x, y, epochs=2, verbose=0, callbacks=[BackupAndRestore("backup"), TerminateOnNaN()])


@shows("callback.kind")
def callback_kind() -> Any:
    trained.compile("sgd", "mse")
    trained.fit(x, y, callbacks=[print])


@shows("callback.monitor")
def callback_monitor() -> Any:
    trained.compile("sgd", "mse")
    trained.fit(x, y, callbacks=[EarlyStopping("val_loss")])


@shows("callback.package")
def callback_package() -> Any:
    with patch.dict(sys.modules, {"tensorboardX": None}):  # as if it were not installed
        TensorBoard("logs")


@shows("data.batch_size")
def data_batch_size() -> Any:
    trained.compile("sgd", "mse")
    trained.predict(x, batch_size=0)


@shows("data.epochs")
def data_epochs() -> Any:
    trained.compile("sgd", "mse")
    trained.fit(x, y, epochs=-1)


@shows("data.form")
def data_form() -> Any:
    trained.compile("sgd", "mse")
    trained.predict("text")


@shows("data.length")
def data_length() -> Any:
    trained.compile("sgd", "mse")
    trained.fit(x, y[:1])


@shows("data.shape")
def data_shape() -> Any:
    trained.compile("sgd", "mse")
    trained.fit(x[:, :3], y)


@shows("data.steps")
def data_steps() -> Any:
    trained.compile("sgd", "mse")
    trained.fit(iter([(x, y)]), epochs=2)


@shows("data.shuffle")
def data_shuffle() -> Any:
    model = Sequential([GRU(1, stateful=True, batch_input_shape=(2, 5, 4))])
    model.compile("sgd", "mse")
    model.fit(np.zeros((2, 5, 4), np.float32), y, shuffle=True)


@shows("data.split")
def data_split() -> Any:
    trained.compile("sgd", "mse")
    trained.fit(x, y, validation_split=2)


@shows("embedding.input")
def embedding_input() -> Any:
    Sequential([Dense(3, input_dim=4), Embedding(9, 5)]).predict(x)


@shows("embedding.symbol")
def embedding_symbol() -> Any:
    Sequential([Embedding(9, 5)]).predict([[9]])


@shows("import.kind")
def import_kind() -> Any:
    from_torch([])


@shows("import.missing")
def import_missing() -> Any:
    from_torch({})


@shows("import.option")
def import_option() -> Any:
    from_torch({f"{kind}_l{layer}": x for layer in (0, 1) for kind in ("weight_ih", "weight_hh")})


@shows("layer.abstract")
def layer_abstract() -> Any:
    Recurrent(3, {})


@shows("layer.batch_size")
def layer_batch_size() -> Any:
    Sequential([GRU(3, stateful=True, input_dim=4)])


@shows("layer.built")
def layer_built() -> Any:
    dense = Dense(3, input_dim=4)
    Sequential([dense])
    Sequential([dense])


@shows("layer.direction")
def layer_direction() -> Any:
    Bidirectional(LSTM(3, go_backwards=True))


@shows("layer.input_shape")
def layer_input_shape() -> Any:
    Sequential([Embedding(9, 5, input_shape=(2, 3))])


@shows("layer.input_size")
def layer_input_size() -> Any:
    Sequential([Dense(3)])


@shows("layer.kind")
def layer_kind() -> Any:
    Sequential([3])


@shows("layer.not_built")
def layer_not_built() -> Any:
    Dense(3).set_weights([])


@shows("layer.not_trained")
def layer_not_trained() -> Any:
    Sequential([Dense(3, input_dim=4)]).layers[0].backward(x)


@shows("loss.unknown")
def loss_unknown() -> Any:
    Sequential([Dense(1, input_dim=4)]).compile("sgd", "huber")


@shows("mask.shape")
def mask_shape() -> Any:
    LSTM(3)(np.zeros((2, 5, 4), np.float32), mask=np.ones((2, 4)))


@shows("mask.unexpected")
def mask_unexpected() -> Any:
    Embedding(9, 5)([[1]], mask=[[True]])


@shows("metric.unknown")
def metric_unknown() -> Any:
    trained.compile("sgd", "mse")
    trained.compile("sgd", "mse", ["mae"])


@shows("model.argument")
def model_argument() -> Any:
    Sequential([Dense(3, input_dim=4, init=lambda shape, random: np.zeros(shape))]).save("model.safetensors")


@shows("model.path")
def model_path() -> Any:
    trained.save("model.keras")


@shows("model.empty")
def model_empty() -> Any:
    Sequential().predict(x)


@shows("model.header")
def model_header() -> Any:
    trained.compile("sgd", "mse")
    trained.save_weights("weights.safetensors")
    load_model("weights.safetensors")


@shows("model.not_compiled")
def model_not_compiled() -> Any:
    Sequential([Dense(1, input_dim=4)]).evaluate(x, y)


@shows("optimizer.range")
def optimizer_range() -> Any:
    SGD(lr=-1)


@shows("optimizer.unknown")
def optimizer_unknown() -> Any:
    Sequential([Dense(1, input_dim=4)]).compile("nadam", "mse")


@shows("optimizer.weights")
def optimizer_weights() -> Any:
    rule = SGD(momentum=0.9)
    models = [Sequential([Dense(1, input_dim=inputs)]) for inputs in (4, 5)]
    for model in models:
        model.compile(rule, "mse")
    for model, inputs in zip(models, (4, 5), strict=True):
        model.train_on_batch(np.zeros((2, inputs), np.float32), y)


@shows("targets.class")
def targets_class() -> Any:
    model = Sequential([Dense(3, input_dim=4, activation="softmax")])
    model.compile("sgd", "sparse_categorical_crossentropy")
    model.fit(x, [0, 3])


@shows("weights.count")
def weights_count() -> Any:
    trained.compile("sgd", "mse")
    trained.set_weights([])


@shows("weights.file")
def weights_file() -> Any:
    trained.compile("sgd", "mse")
    Path("weights.safetensors").write_text("text")
    trained.load_weights("weights.safetensors")


@shows("weights.missing")
def weights_missing() -> Any:
    trained.compile("sgd", "mse")
    Sequential([Dense(1, bias=False, input_dim=4)]).save_weights("weights.safetensors")
    trained.load_weights("weights.safetensors")


@shows("weights.shape")
def weights_shape() -> Any:
    Sequential([Dense(3, input_dim=4, weights=[np.zeros((3, 4)), np.zeros(3)])])


@shows("weights.unknown")
def weights_unknown() -> Any:
    trained.compile("sgd", "mse")
    Sequential([Dense(1, input_dim=4), Dense(1)]).save_weights("weights.safetensors")
    trained.load_weights("weights.safetensors")


@shows("layer.argument")
def layer_argument() -> Any:
    save_file({}, "model.safetensors", {"dmlpy.keras": '{"layers": [{"class": "Dense", "arguments": {}}]}'})
    load_model("model.safetensors")


@shows("layer.unknown")
def layer_unknown() -> Any:
    save_file({}, "model.safetensors", {"dmlpy.keras": '{"layers": [{"class": "Tense", "arguments": {}}]}'})
    load_model("model.safetensors")
