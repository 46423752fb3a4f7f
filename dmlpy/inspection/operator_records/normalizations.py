"""The records of the normalizations and of the optimizer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.inspection.operator_records.record import Draw, OperatorRecord, Torch, broadcast, constant, flat, normal, uniform

if TYPE_CHECKING:
    from collections.abc import Iterator

_SIZES = (4, 64, 32, 32)
_CHANNELS = (1, 64, 1, 1)


def _batch() -> Iterator[OperatorRecord]:
    x, statistics = normal(*_SIZES), {"mean_tensor": normal(*_CHANNELS), "variance_tensor": uniform(0.5, 2, *_CHANNELS)}
    scale, bias = {"scale_tensor": normal(*_CHANNELS)}, {"bias_tensor": normal(*_CHANNELS)}
    members: dict[str, Any] = {"epsilon": 1e-5}
    yield OperatorRecord(
        *("BATCH_NORMALIZATION", {"input_tensor": x, **statistics, **scale, **bias}, members),
        onnx="output_tensor = BatchNormalization <epsilon=0.00001> (input_tensor, scale, bias, mean, variance)",
        onnx_inputs={name: flat(f"{name}_tensor") for name in ("scale", "bias", "mean", "variance")},
        torch=lambda t, x: t.batch_norm(
            x.input_tensor,
            *(part.view(-1) for part in (x.scale_tensor, x.bias_tensor, x.mean_tensor, x.variance_tensor)),
            False,
            0.1,
            1e-5,
            True,
        ),
    )

    def train(t: Any, x: Any) -> Any:
        y, mean, _ = t.native_batch_norm(x.input_tensor, x.scale_tensor.view(-1), x.bias_tensor.view(-1), None, None, True, 0.1, 1e-5)
        return {"output_tensor": y, "output_mean_tensor": mean}

    lacking = {"torch": ("output_variance_tensor",)}  # it has 1 over the deviation
    yield OperatorRecord("BATCH_NORMALIZATION_TRAINING", {"input_tensor": x, **scale, **bias}, members, torch=train, lacking=lacking)

    def backward(training: bool) -> Torch:
        def gradient(t: Any, x: Any) -> Any:
            scale, mean, variance = (part.view(-1) for part in (x.scale_tensor, x.mean_tensor, x.variance_tensor))
            saved = (mean, t.rsqrt(variance + 1e-5)) if training else (None, None)
            arguments = x.input_gradient_tensor, x.input_tensor, scale, mean, variance, *saved
            return t.ops.aten.native_batch_norm_backward(*arguments, training, 1e-5, [True, True, True])

        return gradient

    inputs = {"input_tensor": x, "input_gradient_tensor": normal(*_SIZES), **statistics, **scale}
    yield OperatorRecord("BATCH_NORMALIZATION_GRAD", inputs, members, torch=backward(False))
    # PyTorch's gradient uses the given mean, DirectML's computes it: the given one must be the input's mean.
    yield OperatorRecord(
        *("BATCH_NORMALIZATION_TRAINING_GRAD", inputs | _own_statistics(), members),
        torch=backward(True),
        scaled_axes=dict.fromkeys(inputs, 1),
    )


def _own_statistics() -> dict[str, Draw]:
    """An input of 4,096 numbers per channel with mean 0 and variance 1, up to rounding, and these statistics."""

    def draw(rng: np.random.Generator) -> Any:
        x = rng.standard_normal(_SIZES)
        x -= x.mean((0, 2, 3), keepdims=True)
        return (x / x.std((0, 2, 3), keepdims=True)).astype(np.float32)

    return {"input_tensor": draw, "mean_tensor": constant(0, *_CHANNELS), "variance_tensor": constant(1, *_CHANNELS)}


def _groups() -> Iterator[OperatorRecord]:
    x, scale, bias = normal(*_SIZES), normal(*_CHANNELS), normal(*_CHANNELS)
    instance = "output_tensor = InstanceNormalization <epsilon=0.00001> (input_tensor, scale, bias)"
    theirs: dict[str, Any] = {
        "onnx": instance,
        "onnx_inputs": {name: flat(f"{name}_tensor") for name in ("scale", "bias")},
        "torch": lambda t, x: t.nn.functional.instance_norm(
            x.input_tensor, weight=x.scale_tensor.reshape(-1), bias=x.bias_tensor.reshape(-1), eps=1e-5
        ),
    }
    inputs: dict[str, Draw] = {"input_tensor": x, "scale_tensor": scale, "bias_tensor": bias}
    members: dict[str, Any] = {"normalize_variance": True, "epsilon": 1e-5}
    yield OperatorRecord("MEAN_VARIANCE_NORMALIZATION", inputs, {**members, "cross_channel": False}, **theirs)
    layer = normal(256, 1024)
    wide = {name: broadcast(normal(1, 1024), 256, 1024) for name in ("scale_tensor", "bias_tensor")}
    of_rows: dict[str, Any] = {
        "onnx": "output_tensor = LayerNormalization <axis=-1, epsilon=0.00001> (input_tensor, scale, bias)",
        "onnx_inputs": {name: flat(f"{name}_tensor") for name in ("scale", "bias")},
        "torch": lambda t, x: t.layer_norm(x.input_tensor, (1024,), x.scale_tensor[0], x.bias_tensor[0], 1e-5),
    }
    yield OperatorRecord("MEAN_VARIANCE_NORMALIZATION1", {"input_tensor": layer, **wide}, {**members, "axes": (1,)}, **of_rows)
    both = {"use_mean": True, "use_variance": True, "epsilon": 1e-5}
    small = {name: normal(1, 1024) for name in ("scale_tensor", "bias_tensor")}
    yield OperatorRecord("MEAN_VARIANCE_NORMALIZATION2", {"input_tensor": layer, **small}, {**both, "axes": (1,)}, **of_rows)
    yield OperatorRecord(
        *("LP_NORMALIZATION", {"input_tensor": layer}, {"axis": 1, "epsilon": 0.0, "p": 2}),
        onnx="output_tensor = LpNormalization <axis=1, p=2> (input_tensor)",
        torch=lambda t, x: t.nn.functional.normalize(x.input_tensor, 2.0, 1, 0.0),
    )
    members = {"cross_channel": True, "local_size": 5, "alpha": 1e-2, "beta": 0.75, "bias": 1.0}
    yield OperatorRecord(
        *("LOCAL_RESPONSE_NORMALIZATION", {"input_tensor": x}, members),
        onnx="output_tensor = LRN <size=5, alpha=0.01, beta=0.75, bias=1.0> (input_tensor)",
        torch=lambda t, x: t.nn.functional.local_response_norm(x.input_tensor, 5, 1e-2, 0.75, 1.0),
    )

    def gradient(t: Any, x: Any) -> Any:
        leaf = x.input_tensor.detach().requires_grad_()
        with t.enable_grad():
            result = t.nn.functional.local_response_norm(leaf, 5, 1e-2, 0.75, 1.0)
        return t.autograd.grad(result, leaf, x.input_gradient_tensor)[0]

    yield OperatorRecord(
        "LOCAL_RESPONSE_NORMALIZATION_GRAD", {"input_tensor": x, "input_gradient_tensor": normal(*_SIZES)}, members, torch=gradient
    )


def _optimizer() -> Iterator[OperatorRecord]:
    inputs: dict[str, Draw] = {"input_parameters_tensor": normal(1, 1, 512, 512), "input_first_moment_tensor": normal(1, 1, 512, 512)}
    inputs |= {"input_second_moment_tensor": uniform(0.5, 2, 1, 1, 512, 512), "gradient_tensor": normal(1, 1, 512, 512)}
    inputs |= {"training_step_tensor": constant(7, 1, 1, 1, 1, dtype=np.uint32)}
    members: dict[str, Any] = {"learning_rate": 0.01, "beta1": 0.9, "beta2": 0.999, "epsilon": 0.0}

    def step(t: Any, x: Any) -> Any:
        parts = [part.clone() for part in (x.input_parameters_tensor, x.input_first_moment_tensor, x.input_second_moment_tensor)]
        steps = [t.tensor(6.0, device=x.device)]
        options = {"lr": 0.01, "beta1": 0.9, "beta2": 0.999, "weight_decay": 0.0, "eps": 0.0, "amsgrad": False, "maximize": False}
        t._fused_adam_([parts[0]], [x.gradient_tensor], [parts[1]], [parts[2]], [], steps, **options)
        return parts

    yield OperatorRecord("ADAM_OPTIMIZER", inputs, members, torch=step)


def records() -> Iterator[OperatorRecord]:
    """The records of the families."""
    for part in (_batch, _groups, _optimizer):
        yield from part()
