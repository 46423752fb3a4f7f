"""The arguments of torch.nn's layers, which Thinc calls otherwise."""

from __future__ import annotations

from dmlpy.messages.argument_names import ArgumentNames

NAMES = ArgumentNames(
    "layer",
    {"nonlinearity": ("activation",)},
    {
        "input_size": "Thinc calls it nI",
        "hidden_size": "Thinc has nO, the width of the output: hidden_size, or twice that with bi=True",
        "num_layers": "Thinc calls it depth",
        "bidirectional": "Thinc calls it bi",
        "nonlinearity": "leave it out: only RNN has a choice of activations",
        "batch_first": "leave it out: arrays are [steps, batch, width], and lists of [steps, width] have no such order",
        "bias": "leave it out: layers have biases, and init_b gives their initial values",
        "proj_size": "leave it out: these layers have no projection; dmlpy.torch.LSTM has one",
        "device": "leave it out: model.ops decides, such as that of thinc.api.prefer_gpu()",
        "dtype": "leave it out: Thinc's weights are float32",
    },
    prefix="dmlpy.thinc.",
)
