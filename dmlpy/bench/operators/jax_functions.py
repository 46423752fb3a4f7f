"""JAX's equivalents of operators: functions of the module and of the inputs as attributes, which return the outputs in the desc's order.

Inputs that a desc repeats by strides of 0 come once, with sizes of 1, and are broadcast.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Function = Callable[[Any, Any], Any]


def _of_one(name: str) -> Function:
    return lambda j, x: getattr(j.numpy, name)(x.input_tensor)


def _of_two(name: str) -> Function:
    return lambda j, x: getattr(j.numpy, name)(x.a_tensor, x.b_tensor)


_UNARY = (
    *("ABS abs", "ACOS arccos", "ACOSH arccosh", "ASIN arcsin", "ASINH arcsinh", "ATAN arctan", "ATANH arctanh", "CEIL ceil", "COS cos"),
    *("COSH cosh", "EXP exp", "FLOOR floor", "LOG log", "NEGATE negative", "RECIP reciprocal", "SIGN sign", "SIN sin", "SINH sinh"),
    *("SQRT sqrt", "TAN tan", "TANH tanh", "ROUND round", "IS_NAN isnan", "IS_INFINITY isinf", "BIT_NOT bitwise_not", "IDENTITY copy"),
    *("BIT_COUNT bitwise_count", "LOGICAL_NOT logical_not"),
)
_BINARY = (
    *("ADD add", "ATAN_YX arctan2", "DIVIDE divide", "MAX maximum", "MIN minimum", "MODULUS_FLOOR remainder", "MODULUS_TRUNCATE fmod"),
    *("MULTIPLY multiply", "SUBTRACT subtract", "LOGICAL_EQUALS equal", "LOGICAL_GREATER_THAN greater", "LOGICAL_AND logical_and"),
    *("LOGICAL_GREATER_THAN_OR_EQUAL greater_equal", "LOGICAL_LESS_THAN less", "LOGICAL_LESS_THAN_OR_EQUAL less_equal"),
    *("LOGICAL_OR logical_or", "LOGICAL_XOR logical_xor", "BIT_AND bitwise_and", "BIT_OR bitwise_or", "BIT_XOR bitwise_xor"),
    *("BIT_SHIFT_LEFT left_shift", "BIT_SHIFT_RIGHT right_shift"),
)


def _quantize(j: Any, x: Any) -> Any:
    return j.numpy.clip(j.numpy.rint(x.input_tensor / x.scale_tensor) + 128, 0, 255).astype("uint8")


def _elementwise() -> dict[str, Function]:
    functions = {f"ELEMENT_WISE_{name}": _of_one(theirs) for name, theirs in map(str.split, _UNARY)}
    functions |= {f"ELEMENT_WISE_{name}": _of_two(theirs) for name, theirs in map(str.split, _BINARY)}
    return functions | {
        "ELEMENT_WISE_ERF": lambda j, x: j.lax.erf(x.input_tensor),
        "ELEMENT_WISE_ADD1": lambda j, x: j.nn.relu(x.a_tensor + x.b_tensor),
        "ELEMENT_WISE_MEAN": lambda j, x: (x.a_tensor + x.b_tensor) / 2,
        "ELEMENT_WISE_DIFFERENCE_SQUARE": lambda j, x: j.numpy.square(x.a_tensor - x.b_tensor),
        "ELEMENT_WISE_POW": lambda j, x: j.numpy.power(x.input_tensor, x.exponent_tensor),
        "ELEMENT_WISE_CONSTANT_POW": lambda j, x: x.input_tensor**1.5,
        "ELEMENT_WISE_IF": lambda j, x: j.numpy.where(x.condition_tensor, x.a_tensor, x.b_tensor),
        "ELEMENT_WISE_CLIP": lambda j, x: j.numpy.clip(x.input_tensor, -0.5, 0.75),
        "ELEMENT_WISE_CLIP1": lambda j, x: j.numpy.clip(x.input_tensor, -0.5, 0.75),
        "ELEMENT_WISE_THRESHOLD": lambda j, x: j.numpy.maximum(x.input_tensor, -0.5),
        "ELEMENT_WISE_DEQUANTIZE_LINEAR": lambda j, x: (x.input_tensor.astype("float32") - 128) * x.scale_tensor,
        "ELEMENT_WISE_QUANTIZE_LINEAR": _quantize,
    }  # fmt: skip


def _activations() -> dict[str, Function]:
    rows: dict[str, Function] = {
        "SOFTMAX": lambda j, x: j.nn.softmax(x.input_tensor, 1),
        "LOG_SOFTMAX": lambda j, x: j.nn.log_softmax(x.input_tensor, 1),
    }
    functions: dict[str, Function] = {
        "CELU": lambda j, x: j.nn.celu(x.input_tensor, 1.5),
        "ELU": lambda j, x: j.nn.elu(x.input_tensor, 1.5),
        "GELU": lambda j, x: j.nn.gelu(x.input_tensor, approximate=False),
        "HARD_SIGMOID": lambda j, x: j.nn.hard_sigmoid(x.input_tensor),
        "HARD_SWISH": lambda j, x: j.nn.hard_swish(x.input_tensor),
        "IDENTITY": _of_one("copy"),
        "LEAKY_RELU": lambda j, x: j.nn.leaky_relu(x.input_tensor, 0.1),
        "LINEAR": lambda j, x: x.input_tensor * 1.5 - 0.25,
        "PARAMETERIZED_RELU": lambda j, x: j.numpy.where(x.input_tensor < 0, x.input_tensor * x.slope_tensor, x.input_tensor),
        "PARAMETRIC_SOFTPLUS": lambda j, x: 0.5 * j.nn.softplus(0.8 * x.input_tensor),
        "RELU": lambda j, x: j.nn.relu(x.input_tensor),
        "RELU_GRAD": lambda j, x: j.numpy.where(x.input_tensor > 0, x.input_gradient_tensor, 0),
        "SCALED_ELU": lambda j, x: j.nn.selu(x.input_tensor),
        "SCALED_TANH": lambda j, x: 0.9 * j.numpy.tanh(0.7 * x.input_tensor),
        "SIGMOID": lambda j, x: j.nn.sigmoid(x.input_tensor),
        "SOFTPLUS": lambda j, x: j.nn.softplus(x.input_tensor),
        "SOFTSIGN": lambda j, x: j.nn.soft_sign(x.input_tensor),
        "SWISH": lambda j, x: j.nn.silu(x.input_tensor),
        "TANH": _of_one("tanh"),
        **rows,
        **{f"{name}1": function for name, function in rows.items()},
    }
    return {f"ACTIVATION_{name}": function for name, function in functions.items()}


def _convolve(j: Any, x: Any) -> Any:
    padding, groups = x.filter_tensor.shape[2] // 2, x.input_tensor.shape[1] // x.filter_tensor.shape[1]
    return j.lax.conv(x.input_tensor, x.filter_tensor, (1, 1), "SAME") if groups == 1 else j.lax.conv_general_dilated(
        x.input_tensor, x.filter_tensor, (1, 1), [(padding, padding)] * 2, feature_group_count=groups
    )  # fmt: skip


def _pool(j: Any, x: Any, combine: str) -> Any:
    lowest = -j.numpy.inf if j.numpy.issubdtype(x.input_tensor.dtype, j.numpy.floating) else j.numpy.iinfo(x.input_tensor.dtype).min
    start = lowest if combine == "max" else 0
    window = (1, 1, 3, 3), (1, 1, 2, 2), ((0, 0), (0, 0), (1, 1), (1, 1))
    return j.lax.reduce_window(x.input_tensor, x.input_tensor.dtype.type(start), getattr(j.lax, combine), *window)


def _attend(j: Any, x: Any) -> Any:
    parts = [part.reshape(*part.shape[:2], 8, -1) for part in (x.query_tensor, x.key_tensor, x.value_tensor)]
    return j.nn.dot_product_attention(*parts, scale=0.125).reshape(x.query_tensor.shape)


def _normalize(j: Any, x: Any, axes: tuple[int, ...]) -> Any:
    mean, variance = (getattr(j.numpy, name)(x.input_tensor, axes, keepdims=True) for name in ("mean", "var"))
    return (x.input_tensor - mean) * j.lax.rsqrt(variance + 1e-5) * x.scale_tensor + x.bias_tensor


def _resize(method: str) -> Function:
    def function(j: Any, x: Any) -> Any:
        batch, channels, height, width = x.input_tensor.shape
        return j.image.resize(x.input_tensor, (batch, channels, 2 * height, 2 * width), method)

    return function


def _layers() -> dict[str, Function]:
    def batch(j: Any, x: Any) -> Any:
        return (x.input_tensor - x.mean_tensor) * j.lax.rsqrt(x.variance_tensor + 1e-5) * x.scale_tensor + x.bias_tensor

    functions: dict[str, Function] = {
        "GEMM": lambda j, x: j.numpy.matmul(x.a_tensor, x.b_tensor),
        "CONVOLUTION": _convolve,
        "MAX_POOLING": lambda j, x: _pool(j, x, "max"),
        "AVERAGE_POOLING": lambda j, x: _pool(j, x, "add") / 9,
        "AVERAGE_POOLING1": lambda j, x: _pool(j, x, "add") / 9,
        "MULTIHEAD_ATTENTION": _attend,
        "MULTIHEAD_ATTENTION1": _attend,
        "BATCH_NORMALIZATION": batch,
        "MEAN_VARIANCE_NORMALIZATION": lambda j, x: _normalize(j, x, (2, 3)),
        "MEAN_VARIANCE_NORMALIZATION1": lambda j, x: _normalize(j, x, (1,)),
        "MEAN_VARIANCE_NORMALIZATION2": lambda j, x: _normalize(j, x, (1,)),
        "LP_NORMALIZATION": lambda j, x: x.input_tensor / j.numpy.linalg.norm(x.input_tensor, axis=1, keepdims=True),
        "RESAMPLE": _resize("nearest"),
        "UPSAMPLE_2D": _resize("nearest"),
        "RESAMPLE1": _resize("linear"),
        "RESAMPLE2": _resize("linear"),
        "VALUE_SCALE_2D": lambda j, x: x.input_tensor * 1.5 + j.numpy.array([0.5, -1.0, 0.25], x.input_tensor.dtype).reshape(3, 1, 1),
    }
    return functions


def _arrays() -> dict[str, Function]:
    def moved(*order: int) -> Callable[[Any, tuple[int, ...], tuple[int, ...]], Any]:
        return lambda array, split, joined: array.reshape(-1, *split).transpose(order).reshape(-1, *joined)

    def to_space(j: Any, x: Any) -> Any:
        return moved(0, 3, 4, 1, 5, 2)(x.input_tensor, (2, 2, 16, 32, 32), (16, 64, 64))

    def to_depth(j: Any, x: Any) -> Any:
        return moved(0, 3, 5, 1, 2, 4)(x.input_tensor, (16, 32, 2, 32, 2), (64, 32, 32))

    def top(j: Any, x: Any) -> Any:
        return tuple(j.lax.top_k(x.input_tensor, 10))

    def reflected(j: Any, x: Any) -> Any:
        return j.numpy.pad(x.input_tensor, ((0, 0), (0, 0), (3, 3), (3, 3)), "reflect")

    def sliced(j: Any, x: Any) -> Any:
        return x.input_tensor[:, 8:56, 4:60:2]

    def pairs(j: Any, x: Any) -> Any:
        return x.input_tensor[x.indices_tensor[0, :, 0], x.indices_tensor[0, :, 1]]

    return {
        "CAST": lambda j, x: x.input_tensor.astype("int32"),
        "JOIN": lambda j, x: j.numpy.concatenate(x.input_tensors, 1),
        "SPLIT": lambda j, x: tuple(j.numpy.split(x.input_tensor, 2, 1)),
        "TILE": lambda j, x: j.numpy.tile(x.input_tensor, (1, 2, 1, 2)),
        "SLICE": sliced,
        "SLICE1": sliced,
        "PADDING": reflected,
        "PADDING1": reflected,
        "DEPTH_TO_SPACE": to_space,
        "DEPTH_TO_SPACE1": to_space,
        "SPACE_TO_DEPTH": to_depth,
        "SPACE_TO_DEPTH1": to_depth,
        "GATHER": lambda j, x: j.numpy.take(x.input_tensor, x.indices_tensor.reshape(-1), 0),
        "GATHER_ELEMENTS": lambda j, x: j.numpy.take_along_axis(x.input_tensor, x.indices_tensor, 0),
        "GATHER_ND": pairs,
        "GATHER_ND1": pairs,
        "SCATTER_ND": lambda j, x: x.input_tensor.at[x.indices_tensor[0, :, 0], x.indices_tensor[0, :, 1]].set(x.updates_tensor[0]),
        "ONE_HOT": lambda j, x: j.nn.one_hot(x.indices_tensor.reshape(-1), 128, dtype=x.values_tensor.dtype),
        "DIAGONAL_MATRIX1": lambda j, x: j.numpy.triu(x.input_tensor),
        "REDUCE": lambda j, x: j.numpy.sum(x.input_tensor, 1, keepdims=True),
        "ARGMAX": lambda j, x: j.numpy.argmax(x.input_tensor, 1, keepdims=True),
        "ARGMIN": lambda j, x: j.numpy.argmin(x.input_tensor, 1, keepdims=True),
        "CUMULATIVE_SUMMATION": lambda j, x: j.numpy.cumsum(x.input_tensor, 1),
        "CUMULATIVE_PRODUCT": lambda j, x: j.numpy.cumprod(x.input_tensor, 1),
        "TOP_K": top,
        "TOP_K1": top,
    }


FUNCTIONS: dict[str, Function] = {**_elementwise(), **_activations(), **_layers(), **_arrays()}
"""The functions by the operators' short names."""
