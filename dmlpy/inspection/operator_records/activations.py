"""The records of the activations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dmlpy.inspection.operator_records.record import Draw, OperatorRecord, Torch, UlpBound, normal

if TYPE_CHECKING:
    from collections.abc import Iterator

_ROWS = (256, 1024)
"""Groups and their elements."""

_PRODUCT = "NumPy and CPU: the product of argument and attribute is rounded"
_BOUNDS = {
    "CELU": (UlpBound(4, 2, 4, {"alpha": 0.75}, in_cells=2),),
    "ELU": (UlpBound(4, 2, 4, {"alpha": 1.5}, in_cells=2),),
    "GELU": (UlpBound(64, 7, 10, in_cells=7, note="NumPy: the square of the argument is rounded"),),
    "HARD_SIGMOID": (UlpBound(1, 1, 1, {"alpha": 0.25, "beta": 0.5}, in_cells=1, of_largest_term=True),),
    "HARD_SWISH": (UlpBound(2, 2, 2, {"alpha": 0.25, "beta": 0.5}),),
    "IDENTITY": (UlpBound(0, 0, 0, in_cells=0),),
    "LEAKY_RELU": (UlpBound(0.5, 0.5, 0.5, {"alpha": 0.25}, in_cells=0.5),),
    "LINEAR": (UlpBound(2, 2, 2, {"alpha": 0.7, "beta": 0.25}, in_cells=2, of_largest_term=True),),
    "PARAMETRIC_SOFTPLUS": (UlpBound(68, 68, 8, {"alpha": 1.5, "beta": 0.75}, in_cells=4, note=_PRODUCT),),
    "RELU": (UlpBound(0, 0, 0, in_cells=0),),
    "SCALED_ELU": (UlpBound(4, 3, 5, {"alpha": 1.5, "gamma": 1.25}, in_cells=3),),
    "SCALED_TANH": (UlpBound(4, 7, 4, {"alpha": 1.5, "beta": 0.75}, in_cells=7),),
    "SHRINK": (UlpBound(0.5, 0.5, 0.5, {"bias": 0.25, "threshold": 0.5}, in_cells=0.5),),
    "SIGMOID": (UlpBound(4, 3, 8, in_cells=3),),
    "SOFTPLUS": (
        UlpBound(4, 4, 7, {"steepness": 1.0}, in_cells=3),
        UlpBound(68, 68, 8, {"steepness": 3.0}, in_cells=4, note=_PRODUCT),
    ),
    "SOFTSIGN": (UlpBound(2, 2, 2, in_cells=2),),
    "SWISH": (UlpBound(7, 5, 13, {"sigmoid_input_scale": 1.0}), UlpBound(7, 5, 13, {"sigmoid_input_scale": -0.5})),
    "TANH": (UlpBound(2, 6, 4, in_cells=6),),
    "THRESHOLDED_RELU": (UlpBound(0, 0, 0, {"alpha": 0.5}, in_cells=0),),
}


def _of_one(operator: str, onnx: str, torch: Torch | None, members: dict[str, Any] | None = None, **more: Any) -> OperatorRecord:
    inputs: dict[str, Draw] = {"input_tensor": normal()}
    nodes = f"output_tensor = {onnx} (input_tensor)" if onnx else ""
    bounds = _BOUNDS.get(operator, ())
    return OperatorRecord(f"ACTIVATION_{operator}", inputs, members or {}, onnx=nodes, torch=torch, bounds=bounds, **more)


def _of_elements() -> Iterator[OperatorRecord]:
    old: dict[str, Any] = {"opset": 7}  # no longer in the standard; ONNX Runtime has them for models of old versions
    yield _of_one("CELU", "Celu <alpha=1.5>", lambda t, x: t.nn.functional.celu(x.input_tensor, 1.5), {"alpha": 1.5})
    yield _of_one("ELU", "Elu <alpha=1.5>", lambda t, x: t.nn.functional.elu(x.input_tensor, 1.5), {"alpha": 1.5})
    yield _of_one("GELU", "Gelu", lambda t, x: t.nn.functional.gelu(x.input_tensor))
    yield _of_one(
        "HARD_SIGMOID", "HardSigmoid <alpha=0.16666667, beta=0.5>", lambda t, x: t.nn.functional.hardsigmoid(x.input_tensor),
        {"alpha": 1 / 6, "beta": 0.5},
    )  # fmt: skip
    yield _of_one("HARD_SWISH", "HardSwish", lambda t, x: t.nn.functional.hardswish(x.input_tensor), {"alpha": 1 / 6, "beta": 0.5})
    yield _of_one("IDENTITY", "Identity", lambda t, x: t.clone(x.input_tensor))
    yield _of_one("LEAKY_RELU", "LeakyRelu <alpha=0.1>", lambda t, x: t.nn.functional.leaky_relu(x.input_tensor, 0.1), {"alpha": 0.1})
    yield _of_one(
        "LINEAR", "Affine <alpha=1.5, beta=-0.25>", lambda t, x: x.input_tensor.mul(1.5).sub_(0.25), {"alpha": 1.5, "beta": -0.25}, **old
    )
    yield OperatorRecord(
        *("ACTIVATION_PARAMETERIZED_RELU", {"input_tensor": normal(), "slope_tensor": normal()}),
        onnx="output_tensor = PRelu (input_tensor, slope_tensor)",
        torch=lambda t, x: t.where(x.input_tensor < 0, x.input_tensor * x.slope_tensor, x.input_tensor),
        bounds=(UlpBound(0.5, 0.5, 0.5),),
    )
    yield _of_one(
        "PARAMETRIC_SOFTPLUS", "ParametricSoftplus <alpha=0.5, beta=0.8>",
        lambda t, x: t.nn.functional.softplus(x.input_tensor, 0.8).mul_(0.4), {"alpha": 0.5, "beta": 0.8}, **old,
    )  # fmt: skip
    yield _of_one("RELU", "Relu", lambda t, x: t.relu(x.input_tensor))
    yield OperatorRecord(
        *("ACTIVATION_RELU_GRAD", {"input_tensor": normal(), "input_gradient_tensor": normal()}),
        torch=lambda t, x: t.ops.aten.threshold_backward(x.input_gradient_tensor, x.input_tensor, 0),
    )
    yield _of_one("SCALED_ELU", "Selu", lambda t, x: t.selu(x.input_tensor), {"alpha": 1.6732632423543772, "gamma": 1.0507009873554805})
    yield _of_one(
        "SCALED_TANH", "ScaledTanh <alpha=0.9, beta=0.7>", lambda t, x: x.input_tensor.mul(0.7).tanh_().mul_(0.9),
        {"alpha": 0.9, "beta": 0.7}, **old,
    )  # fmt: skip
    yield _of_one(
        "SHRINK",
        "Shrink <bias=0.5, lambd=0.5>",
        lambda t, x: t.nn.functional.softshrink(x.input_tensor, 0.5),
        {"bias": 0.5, "threshold": 0.5},
    )
    yield _of_one("SIGMOID", "Sigmoid", lambda t, x: t.sigmoid(x.input_tensor))
    yield _of_one("SOFTPLUS", "Softplus", lambda t, x: t.nn.functional.softplus(x.input_tensor), {"steepness": 1.0})
    yield _of_one("SOFTSIGN", "Softsign", lambda t, x: t.nn.functional.softsign(x.input_tensor))
    yield _of_one(
        "SWISH", "com.microsoft.QuickGelu <alpha=1.0>", lambda t, x: t.nn.functional.silu(x.input_tensor), {"sigmoid_input_scale": 1.0}
    )
    yield _of_one("TANH", "Tanh", lambda t, x: t.tanh(x.input_tensor))
    yield _of_one("THRESHOLDED_RELU", "ThresholdedRelu <alpha=0.5>", lambda t, x: t.threshold(x.input_tensor, 0.5, 0.0), {"alpha": 0.5})


def _of_groups() -> Iterator[OperatorRecord]:
    rows: dict[str, Draw] = {"input_tensor": normal(*_ROWS)}
    names: dict[str, tuple[str, Torch | None]] = {
        "HARDMAX": ("Hardmax", None),
        "LOG_SOFTMAX": ("LogSoftmax", lambda t, x: t.log_softmax(x.input_tensor, 1)),
        "SOFTMAX": ("Softmax", lambda t, x: t.softmax(x.input_tensor, 1)),
    }
    for name, (theirs, torch) in names.items():
        nodes = f"output_tensor = {theirs} <axis=1> (input_tensor)"
        yield OperatorRecord(f"ACTIVATION_{name}", rows, onnx=nodes, torch=torch)
        yield OperatorRecord(f"ACTIVATION_{name}1", rows, {"axes": (1,)}, onnx=nodes, torch=torch)


def records() -> Iterator[OperatorRecord]:
    """The records of the family."""
    yield from _of_elements()
    yield from _of_groups()
