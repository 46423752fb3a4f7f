"""Keras-style recurrent layers over dmlpy's descs: SimpleRNN, GRU and LSTM, the layers around them, and a model to train them.

    from dmlpy.keras import LSTM, Dense, Embedding, Sequential

    model = Sequential()
    model.add(Embedding(5000, 64, mask_zero=True))
    model.add(LSTM(32, dropout_W=0.2))
    model.add(Dense(1, activation="sigmoid"))
    model.compile(optimizer="adam", loss="binary_crossentropy")

Arguments have the names and defaults of Keras 1. A layer computes nothing itself: it describes its tensors and runs operators, and
`layer.descs` shows those of its last pass. This is a thin layer, not a framework: for anything more, use PyTorch through `dmlpy.torch`.
float32 only.
"""

from typing import TYPE_CHECKING as _TYPE_CHECKING

from dmlpy.keras.backup import BackupAndRestore
from dmlpy.keras.bidirectional import Bidirectional
from dmlpy.keras.callbacks import (
    Callback,
    CSVLogger,
    History,
    LambdaCallback,
    LearningRateScheduler,
    TerminateOnNaN,
)
from dmlpy.keras.importers import from_torch
from dmlpy.keras.keras_importer import from_keras
from dmlpy.keras.layer import Layer, Weight
from dmlpy.keras.losses import (
    BinaryCrossentropy,
    CategoricalCrossentropy,
    Loss,
    MeanAbsoluteError,
    MeanSquaredError,
    SparseCategoricalCrossentropy,
)
from dmlpy.keras.metric_callbacks import EarlyStopping, ModelCheckpoint, ReduceLROnPlateau
from dmlpy.keras.model_files import load_model
from dmlpy.keras.models import Sequential
from dmlpy.keras.onnx_importer import from_onnx
from dmlpy.keras.optimizers import SGD, Adam, AdamW, Optimizer, RMSprop
from dmlpy.keras.pointwise import Activation, Dropout
from dmlpy.keras.recurrent import Recurrent
from dmlpy.keras.recurrent_layers import GRU, LSTM, SimpleRNN
from dmlpy.keras.regularizers import Regularizer, l1, l1l2, l2
from dmlpy.keras.simple import Dense, Embedding, Masking
from dmlpy.keras.tensorboard import TensorBoard
from dmlpy.keras.time_distributed import TimeDistributed

__all__ = [
    "GRU",
    "LSTM",
    "SGD",
    "Activation",
    "Adam",
    "AdamW",
    "BackupAndRestore",
    "Bidirectional",
    "BinaryCrossentropy",
    "CSVLogger",
    "Callback",
    "CategoricalCrossentropy",
    "Dense",
    "Dropout",
    "EarlyStopping",
    "Embedding",
    "History",
    "LambdaCallback",
    "Layer",
    "LearningRateScheduler",
    "Loss",
    "Masking",
    "MeanAbsoluteError",
    "MeanSquaredError",
    "ModelCheckpoint",
    "Optimizer",
    "RMSprop",
    "Recurrent",
    "ReduceLROnPlateau",
    "Regularizer",
    "Sequential",
    "SimpleRNN",
    "SparseCategoricalCrossentropy",
    "TensorBoard",
    "TerminateOnNaN",
    "TimeDistributed",
    "Weight",
    "from_keras",
    "from_onnx",
    "from_torch",
    "l1",
    "l1l2",
    "l2",
    "load_model",
]

if not _TYPE_CHECKING:  # a type checker would take every name to exist

    def __getattr__(name: str) -> object:
        from dmlpy.keras.unknown_names import unknown_attribute

        raise AttributeError(unknown_attribute(name, __all__), name=name)
