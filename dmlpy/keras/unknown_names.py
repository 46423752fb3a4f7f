"""The messages for names that `dmlpy.keras` does not have: layers and modules of Keras, and arguments of its models' methods."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from dmlpy.messages.argument_names import ArgumentNames
from dmlpy.messages.naming import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Sequence

KindT = TypeVar("KindT", bound="type[Any]")

_INPUT = "pass input_shape=(...) to the first layer, without the batch"
_HINTS = {
    "Input": _INPUT,
    "InputLayer": _INPUT,
    "layers": "its layers are in dmlpy.keras itself, like dmlpy.keras.LSTM",
    "metrics": "compile takes metrics=['accuracy']",
    "Model": "there is only Sequential; dmlpy.x makes other graphs of operators, and dmlpy.onnx runs models",
    "Conv1D": "dmlpy.eager.convolution computes it, outside of a Sequential",
    "Conv2D": "dmlpy.eager.convolution computes it, outside of a Sequential",
    "BatchNormalization": "dmlpy.nn.batch_norm computes it, outside of a Sequential",
}
"""The counterparts of names of Keras."""

LAYER_REMEDIES = {
    "Sequential": "make one Sequential of the layers of both",
    "function": "Activation(name) applies a known function; other layers are classes derived from dmlpy.keras.Layer",
    "str": "pass a layer, such as Dense(10) or Activation('relu')",
}
"""Remedies for other objects than layers, by the name of their class."""


_ARGUMENTS = ArgumentNames(
    "method",
    {
        **dict.fromkeys(("epoch", "n_epochs", "num_epochs"), ("epochs",)),
        **dict.fromkeys(("X", "inputs"), ("x",)),
        **dict.fromkeys(("labels", "targets"), ("y",)),
        "validation": ("validation_data",),
        "sample_weights": ("sample_weight",),
    },
    {
        "device": "Sequential takes it: Sequential(device=...)",
        "learning_rate": "the optimizer takes it, as lr: optimizer=Adam(lr=...)",
        "lr": "the optimizer takes it: optimizer=Adam(lr=...)",
        "class_weight": "pass the weight of each sample: sample_weight=...",
        "steps": "leave it out: all samples are read",
        **dict.fromkeys(("workers", "use_multiprocessing", "max_queue_size"), "leave it out: give a loader of its own workers as x"),
        **dict.fromkeys(("run_eagerly", "jit_compile", "auto_scale_loss"), "leave it out: the operators are compiled for the device"),
    },
)
"""The counterparts of arguments that such methods have in other libraries, and remedies for those that have none."""


def refuses_other_arguments(kind: KindT) -> KindT:
    """Makes the methods of a model that train and run it raise DescError for arguments that they do not have."""
    for name in ("compile", "fit", "evaluate", "predict", "train_on_batch", "test_on_batch"):
        setattr(kind, name, _ARGUMENTS.refuse_others(getattr(kind, name)))
    return kind


def unknown_attribute(name: str, public: Sequence[str]) -> str:
    """Returns the message of an AttributeError of `dmlpy.keras`.

    Args:
        name: the unknown name.
        public: the names that there are.
    """
    if name.startswith("_"):
        return f"module 'dmlpy.keras' has no attribute {name!r}"
    hint = _HINTS.get(name) or did_you_mean(name, public, "dmlpy.keras.{}".format)
    return f"dmlpy.keras has no name {name!r}: {hint or 'it has recurrent layers and those around them; dir(dmlpy.keras) lists its names'}"
