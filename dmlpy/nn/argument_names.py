"""The names that other libraries give to the arguments of the functions on arrays."""

from __future__ import annotations

from dmlpy.messages.argument_names import ArgumentNames

_STATE = ("h0", "h")
NAMES = ArgumentNames(
    "function",
    {
        "input": ("x",),
        **dict.fromkeys(("weight", "weights"), ("scale", "w")),
        **dict.fromkeys(("weight_ih", "kernel", "W"), ("w",)),
        **dict.fromkeys(("weight_hh", "recurrent_kernel", "R", "U"), ("r",)),
        **dict.fromkeys(("bias", "biases", "B"), ("b",)),
        **dict.fromkeys(("hx", "h_0", "initial_h", "initial_state", "hidden"), _STATE),
        **dict.fromkeys(("cx", "c_0", "initial_c"), ("c0", "c")),
        **dict.fromkeys(("nonlinearity", "activations"), ("activation",)),
        **dict.fromkeys(("sequence_lens", "sequence_lengths", "seq_lengths"), ("lengths",)),
        "linear_before_reset": ("reset_after",),
        "gamma": ("scale",),
        "beta": ("bias",),
        "running_mean": ("mean",),
        **dict.fromkeys(("running_var", "var"), ("variance",)),
        "eps": ("epsilon",),
    },
    {
        **dict.fromkeys(("bias_ih", "bias_hh"), "concatenate both: b has that of w, then that of r"),
        **dict.fromkeys(("input_size", "hidden_size"), "leave it out: it follows from the sizes of the weights"),
        "proj_size": "leave it out: dmlpy.torch.LSTM has a projection",
        "num_layers": "call it once for each layer",
        "bidirectional": "pass direction='bidirectional'",
        "go_backwards": "pass direction='backward'",
        "batch_first": "leave it out, and pass x.swapaxes(0, 1)",
        "mask": "pass lengths, the steps of each sequence",
        "dtype": "leave it out: results have the type of x",
        "out": "leave it out: results are new arrays",
        "dropout": "leave it out: dmlpy.torch and dmlpy.keras have layers with dropout",
        "training": "leave it out: batch_norm uses the mean and variance of the batch unless they are given",
        "momentum": "average the returned mean and variance yourself",
        "axis": "leave it out: axis 1 has the channels",
    },
)
