"""`batch_norm` over arrays, with the statistics of the batch or with given ones, and its gradients."""

from __future__ import annotations

from numbers import Real
from typing import TYPE_CHECKING, Any, NamedTuple

from dmlpy.compiler import compile as compile_desc
from dmlpy.description.coercion import brief
from dmlpy.description.tensors import TensorDesc
from dmlpy.messages.problems import DescError, Problem
from dmlpy.nn.argument_names import NAMES
from dmlpy.nn.arrays import Array, Home, Native, receive
from dmlpy.operators.normalization.batch import BatchNormalizationDesc, BatchNormalizationTrainingDesc

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from dmlpy.devices import Device

_MOST_DIMENSIONS = 8


class BatchNormResult(NamedTuple):
    """The result of `batch_norm`.

    Attributes:
        y: the normalized array, of the sizes of x.
        mean: the mean of each channel, [C]: the batch's, or the one that was given.
        variance: the same for the variance, which divides by the number of elements.
    """

    y: Array
    mean: Array
    variance: Array


class BatchNormGradients(NamedTuple):
    """The gradients of x, scale and bias."""

    x: Array
    scale: Array
    bias: Array


@NAMES.refuse_others
def batch_norm(
    x: Array,
    scale: Array,
    bias: Array,
    mean: Array | None = None,
    variance: Array | None = None,
    *,
    epsilon: float = 1e-5,
    device: Device | str | None = None,
) -> BatchNormResult:
    """Normalizes each channel: y = scale * (x - mean) / sqrt(variance + epsilon) + bias.

    Args:
        x: [N, C, ...], two to eight dimensions, float32, float16 or bfloat16, like all arrays.
        scale: [C].
        bias: [C].
        mean: [C], with `variance`; None for both: those of the batch.
        variance: [C].
        epsilon: the number that is added to the variance.
        device: the device that runs it; None: the GPU that holds the arrays, in CuPy's current stream, or `cpu` for host memory.

    Returns:
        BatchNormResult: y, mean and variance, arrays of x's library.

    Raises:
        DescError: arrays of wrong sizes or types, or on several devices; all problems at once.
        DeviceError: there is no such device.
    """
    return _batch_norm(x, scale, bias, mean, variance, epsilon, device)[0]


@NAMES.refuse_others
def batch_norm_vjp(
    x: Array,
    scale: Array,
    bias: Array,
    mean: Array | None = None,
    variance: Array | None = None,
    *,
    epsilon: float = 1e-5,
    device: Device | str | None = None,
) -> tuple[BatchNormResult, Callable[[Array], BatchNormGradients]]:
    """Runs `batch_norm`, and returns its result and the function `backward(dy)`, which computes the gradients.

    With the batch's statistics the gradient of x goes through them too; given ones are constants. x must not be changed before
    `backward` was called.
    """
    return _batch_norm(x, scale, bias, mean, variance, epsilon, device)


def _batch_norm(
    x: Array, scale: Array, bias: Array, mean: Array | None, variance: Array | None, epsilon: float, device: Device | str | None
) -> tuple[BatchNormResult, Callable[[Array], BatchNormGradients]]:
    arrays = {"x": x, "scale": scale, "bias": bias, "mean": mean, "variance": variance}
    home, given = receive("batch_norm", arrays, device)
    if problems := _problems(given, epsilon):
        raise DescError("batch_norm", problems)
    with home.current():
        tensors = {f"{'input' if name == 'x' else name}_tensor": _expanded(name, array, given["x"]) for name, array in given.items()}
        kind = BatchNormalizationDesc if "mean" in given else BatchNormalizationTrainingDesc
        described: dict[str, Any] = {name: TensorDesc.of(array) for name, array in tensors.items()}
        desc = kind(**described, epsilon=epsilon).with_outputs()
        results = compile_desc(desc, home.device)(**tensors)
        if isinstance(desc, BatchNormalizationTrainingDesc):
            tensors |= {"mean_tensor": results.output_mean_tensor, "variance_tensor": results.output_variance_tensor}
        statistics = [home.wrap(tensors[f"{name}_tensor"].reshape(-1).copy()) for name in ("mean", "variance")]
        result = BatchNormResult(home.wrap(results.output_tensor), *statistics)

    def backward(dy: Array) -> BatchNormGradients:
        upstream = receive("batch_norm_vjp's backward", {"dy": dy}, home.device)[1]["dy"]
        if upstream.shape != given["x"].shape or upstream.dtype != given["x"].dtype:
            found, expected = (f"{array.dtype} {list(array.shape)}" for array in (upstream, given["x"]))
            raise DescError("batch_norm_vjp's backward", [Problem("array.shape", "dy", found, expected, ("y is such an array",))])
        return _gradients(home, desc, tensors, upstream)

    return result, backward


def _gradients(
    home: Home, desc: BatchNormalizationDesc | BatchNormalizationTrainingDesc, tensors: Mapping[str, Native], upstream: Native
) -> BatchNormGradients:
    with home.current():
        gradient = desc.gradient()
        arrays = {name: array for name, array in tensors.items() if name in type(gradient).model_fields}
        arrays["input_gradient_tensor"] = _forwards(home, upstream)
        gradient = gradient.replace(**{name: TensorDesc.of(array) for name, array in arrays.items()})
        gradients = compile_desc(gradient, home.device)(**arrays)
        parts = (gradients.output_gradient_tensor, gradients.output_scale_gradient_tensor, gradients.output_bias_gradient_tensor)
        return BatchNormGradients(home.wrap(parts[0]), *(home.wrap(part.reshape(-1)) for part in parts[1:]))


def _forwards(home: Home, array: Native) -> Native:
    """The array, or a copy of one with negative strides, which DirectML does not describe."""
    return home.xp.ascontiguousarray(array) if any(stride < 0 for stride in array.strides) else array


def _expanded(name: str, array: Native, x: Native) -> Native:
    """x as it is, and [C] as [1, C, 1, ...]."""
    if name == "x":
        return array if all(stride >= 0 for stride in array.strides) else array.copy()
    return array.reshape(1, -1, *[1] * (x.ndim - 2))


def _problems(given: Mapping[str, Native], epsilon: Any) -> list[Problem]:
    shape, problems = given["x"].shape, list[Problem]()
    if not 2 <= len(shape) <= _MOST_DIMENSIONS or 0 in shape:
        expected = f"[N, C, ...], 2 to {_MOST_DIMENSIONS} dimensions with elements in them"
        return [Problem("dims.support", "x", f"{len(shape)}-D {list(shape)}", expected)]
    for name, array in given.items():
        if name != "x" and array.shape != (shape[1],):
            problems.append(Problem("array.shape", name, str(list(array.shape)), f"[{shape[1]}]", (f"x has {shape[1]} channels",)))
    if ("mean" in given) != ("variance" in given):
        absent = "variance" if "mean" in given else "mean"
        problems.append(Problem("field.missing", absent, "None", f"an array [{shape[1]}]", ("mean and variance go together",)))
    if not isinstance(epsilon, Real) or isinstance(epsilon, bool) or not float(epsilon) >= 0:
        problems.append(Problem("field.form", "epsilon", brief(epsilon), "a number of at least 0"))
    return problems
