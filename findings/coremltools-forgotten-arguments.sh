#!/usr/bin/env bash
# coremltools 9.0 converts argmax of all elements, InstanceNorm with running statistics and antialiased resizing to Core ML operators that compute others.
#
# PyTorch's argmax and argmin without dim are the index among all elements: the program reduces the last axis and its result has another shape. In evaluation,
# InstanceNorm of track_running_stats=True takes its running mean and variance: the program takes those of the image, and has not the stored ones.
# interpolate(mode="bilinear", antialias=True) is the program of antialias=False. Nothing is said. Conversion to a MIL program needs no macOS.
set -euo pipefail
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
python3 -m pip install -q --target "$root/packages" coremltools==9.0 numpy==2.4.6 torch==2.13.0
cat >"$root/run.py" <<'PYTHON'
import contextlib
import io
import logging

logging.disable(logging.CRITICAL)
import coremltools as ct  # noqa: E402 (after its messages about other systems are off)
import numpy as np  # noqa: E402
import torch  # noqa: E402

logging.disable(logging.NOTSET)


class Call(torch.nn.Module):
    def __init__(self, function, **options) -> None:
        super().__init__()
        self.function, self.options = function, options

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(x, **self.options)


def program(module: torch.nn.Module, x: torch.Tensor) -> tuple[list, list[int]]:
    """The operators of the MIL program with the values of their constant inputs, and the shape of its result."""
    traced = torch.jit.trace(module.eval(), (x,))
    options = {"compute_precision": ct.precision.FLOAT32, "minimum_deployment_target": ct.target.iOS17, "convert_to": "milinternal"}
    with contextlib.redirect_stderr(io.StringIO()) as said, contextlib.redirect_stdout(said):
        handler = logging.StreamHandler(said)
        logging.getLogger().addHandler(handler)
        main = ct.convert(traced, inputs=[ct.TensorType(name="x", shape=x.shape)], **options).functions["main"]
        logging.getLogger().removeHandler(handler)
    assert not any(word in said.getvalue().lower() for word in ("alias", "running_", "statistic", "ignor", "not support", "unsupport"))
    steps = [step for step in main.operations if step.op_type != "const"]
    steps = [(step.op_type, {key: np.array(value.val).tolist() for key, value in step.inputs.items() if value.val is not None}) for step in steps]
    return steps, list(main.outputs[0].shape)


torch.manual_seed(0)
print("coremltools", ct.__version__)
x, image = torch.randn(2, 3), torch.randn(1, 2, 8, 8) * 2 + 3
with torch.no_grad():
    for function in (torch.argmax, torch.argmin):
        right = function(x)
        steps, shape = program(Call(function), x)
        print(f"{function.__name__}: PyTorch {list(right.shape)}, program {shape} by {steps}")
        assert right.shape == () and shape == [2] and (steps, shape) == program(Call(function, dim=-1), x)
    layer = torch.nn.InstanceNorm2d(2, affine=True, track_running_stats=True).eval()
    layer.running_mean[:], layer.running_var[:] = torch.tensor([1.0, 2.0]), torch.tensor([4.0, 9.0])
    plain = torch.nn.InstanceNorm2d(2, affine=True).eval()
    stored = (image - layer.running_mean.reshape(1, 2, 1, 1)) / torch.sqrt(layer.running_var.reshape(1, 2, 1, 1) + layer.eps)
    assert torch.allclose(layer(image), stored, atol=1e-5)
    steps, _ = program(layer, image)
    print(f"InstanceNorm: differs from that of the image by {(layer(image) - plain(image)).abs().max():.2f}, program {steps}")
    assert (layer(image) - plain(image)).abs().max() > 0.5 and steps == program(plain, image)[0] and [name for name, _ in steps] == ["instance_norm"]
    resized = [Call(torch.nn.functional.interpolate, size=(3, 3), mode="bilinear", antialias=antialias) for antialias in (False, True)]
    difference = (resized[0](image) - resized[1](image)).abs().max()
    programs = [program(module, image) for module in resized]
    print(f"interpolate: antialias changes PyTorch's result by {difference:.2f}, program {programs[1][0]}")
    assert difference > 0.5 and programs[0] == programs[1]
PYTHON
PYTHONPATH="$root/packages" python3 "$root/run.py"
