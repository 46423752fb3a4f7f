"""Makes the stored results of PyTorch's functions anew, most of them gradients: inputs from fixed seeds and outputs on the CPU.

    pip install torch torchvision
    python tests/data/recompute_torch_operator_cases.py [--write]

Fails where the stored results differ by more than 1e-6, relative to numbers of at least 0.01. With --write the cases are replaced.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from operator_cases import Array, Cases  # type: ignore[import-not-found, unused-ignore]
from torch.nn import functional
from torchvision.ops.roi_align import _roi_align

CASES = Cases(f"PyTorch {torch.__version__}", "pytorch")


def normal(name: str, *sizes: int) -> Array:
    return np.random.default_rng(zlib.crc32(name.encode())).standard_normal(sizes).astype(np.float32)


def gradients(function: Callable[..., torch.Tensor], arrays: list[Array], incoming: Array) -> list[Array]:
    """Autograd's gradients of a function of arrays, of which `incoming` is that of its result."""
    tensors = [torch.tensor(array, requires_grad=True) for array in arrays]
    function(*tensors).backward(torch.tensor(incoming))
    return [tensor.grad.numpy() for tensor in tensors if tensor.grad is not None]


def taken(array: torch.Tensor, spans: tuple[slice, ...]) -> torch.Tensor:
    return array[spans]


def aligned_regions(
    x: torch.Tensor, boxes: torch.Tensor, *, batches: Array, scale: float, sizes: tuple[int, int], samples: int, aligned: bool
) -> torch.Tensor:
    numbered = torch.cat((torch.tensor(batches.astype(np.float32))[:, None], boxes), 1)
    return _roi_align(x, numbered, scale, *sizes, samples, aligned)


def batch_norm(
    x: torch.Tensor, scale: torch.Tensor, bias: torch.Tensor, statistics: tuple[Array, Array] | None, epsilon: float
) -> torch.Tensor:
    """Batch normalization by mean and variance, or by those of `x` itself where none are given."""
    mean, variance = (None, None) if statistics is None else map(torch.tensor, statistics)
    return functional.batch_norm(x, mean, variance, scale, bias, training=statistics is None, eps=epsilon)


def elementwise() -> None:
    x, incoming = normal("x", 3, 7), normal("incoming", 3, 7)
    x[0, :3] = 0.0, -0.0, 1e-40
    inputs = {"input_tensor": x, "input_gradient_tensor": incoming}
    found = gradients(torch.relu, [x], incoming)[0]
    CASES.add("ACTIVATION_RELU_GRAD", "relu, backward", inputs, {"output_gradient_tensor": found})
    # At the limits themselves PyTorch lets the gradient through and DirectML does not: no element is at one.
    for low, high in ((-0.5, 0.7), (0.1, 9.0)):
        found = gradients(partial(torch.clamp, min=low, max=high), [x], incoming)[0]
        CASES.add("ELEMENT_WISE_CLIP_GRAD", "clamp, backward", inputs, {"output_gradient_tensor": found}, {"min": low, "max": high})
        typed = {"min_max_data_type": "FLOAT32", "min": low, "max": high}
        CASES.add("ELEMENT_WISE_CLIP_GRAD1", "clamp, backward", inputs, {"output_gradient_tensor": found}, typed)

    one = np.array([[0.0, -0.0, 0.0, -0.0, 1, -1, np.inf, -np.inf, np.inf, 2]], np.float32)
    other = np.array([[0.0, 0.0, -0.0, -0.0, 0, -0.0, np.inf, -np.inf, 1, -np.inf]], np.float32)
    for a, b in ((x, incoming), (one, other)):
        both = {"a_tensor": a, "b_tensor": b}
        CASES.add("ELEMENT_WISE_ATAN_YX", "atan2", both, {"output_tensor": torch.atan2(torch.tensor(a), torch.tensor(b)).numpy()})
    for a, b in ((x, incoming), (1e3 + x, np.float32(1e3) + incoming)):
        found = functional.mse_loss(torch.tensor(a), torch.tensor(b), reduction="none").numpy()
        CASES.add("ELEMENT_WISE_DIFFERENCE_SQUARE", "mse_loss", {"a_tensor": a, "b_tensor": b}, {"output_tensor": found})
    toward = np.array([2.7, -2.7, 0.5, -0.5, 1e9, -np.inf], np.float32)
    found = torch.trunc(torch.tensor(toward)).numpy()
    CASES.add("ELEMENT_WISE_ROUND", "trunc", {"input_tensor": toward}, {"output_tensor": found}, {"rounding_mode": "TOWARD_ZERO"})
    divisor = np.where(np.abs(incoming) < 0.1, np.float32(-0.5), incoming)
    found = torch.remainder(torch.tensor(x), torch.tensor(divisor)).numpy()
    CASES.add("ELEMENT_WISE_MODULUS_FLOOR", "remainder", {"a_tensor": x, "b_tensor": divisor}, {"output_tensor": found})
    for axis in (0, 1):
        ours = {"axis": axis, "axis_direction": "INCREASING", "has_exclusive_product": False}
        CASES.add(
            "CUMULATIVE_PRODUCT",
            "cumprod",
            {"input_tensor": incoming},
            {"output_tensor": torch.cumprod(torch.tensor(incoming), axis).numpy()},
            ours,
        )
        ours["axis_direction"] = "DECREASING"
        found = torch.flip(torch.cumprod(torch.flip(torch.tensor(incoming), (axis,)), axis), (axis,)).numpy()
        CASES.add("CUMULATIVE_PRODUCT", "cumprod, flipped", {"input_tensor": incoming}, {"output_tensor": found}, ours)


def pooling() -> None:
    x = normal("pool", 2, 2, 6, 7)
    for window, strides, padding in (((2, 3), (1, 1), (0, 0)), ((3, 2), (2, 2), (1, 1)), ((3, 3), (3, 2), (0, 1))):
        ours = {"strides": strides, "window_size": window, "start_padding": padding, "end_padding": padding}
        for include in (False, True):
            theirs: dict[str, Any] = {"kernel_size": window, "stride": strides, "padding": padding}
            averages = partial(functional.avg_pool2d, **theirs, count_include_pad=include)
            incoming = normal("averages", *averages(torch.tensor(x)).shape)
            found = {"output_gradient_tensor": gradients(averages, [x], incoming)[0]}
            members = {**ours, "include_padding": include}
            CASES.add("AVERAGE_POOLING_GRAD", "avg_pool2d, backward", {"input_gradient_tensor": incoming}, found, members)

        for dilations in ((1, 1), (2, 2)) if window == (2, 3) else ((1, 1),):
            largest = partial(functional.max_pool2d, **theirs, dilation=dilations)
            incoming = normal("largest", *largest(torch.tensor(x)).shape)
            found = {"output_gradient_tensor": gradients(largest, [x], incoming)[0]}
            inputs = {"input_tensor": x, "input_gradient_tensor": incoming}
            CASES.add("MAX_POOLING_GRAD", "max_pool2d, backward", inputs, found, {**ours, "dilations": dilations})
    # Sizes rounded up but for windows that begin after the last element: (4, 3).
    x, theirs = normal("ceil", 1, 2, 12, 5), {"kernel_size": (1, 2), "stride": (3, 2), "ceil_mode": True}
    ours = {"strides": (3, 2), "window_size": (1, 2), "start_padding": (0, 0), "end_padding": (0, 0)}
    incoming = normal("rounded up", 1, 2, 4, 3)
    for include in (False, True):
        averages = partial(functional.avg_pool2d, **theirs, count_include_pad=include)
        found = {"output_gradient_tensor": gradients(averages, [x], incoming)[0]}
        members = {**ours, "include_padding": include}
        CASES.add("AVERAGE_POOLING_GRAD", "avg_pool2d, backward", {"input_gradient_tensor": incoming}, found, members)
    found = {"output_gradient_tensor": gradients(partial(functional.max_pool2d, **theirs), [x], incoming)[0]}
    inputs = {"input_tensor": x, "input_gradient_tensor": incoming}
    CASES.add("MAX_POOLING_GRAD", "max_pool2d, backward", inputs, found, {**ours, "dilations": (1, 1)})


def regions() -> None:
    """The gradients of torchvision's RoiAlign in Python, which, unlike its kernels, has that of the boxes.

    It does not drop samples far outside the image, and widens regions narrower than a pixel that are not `aligned`: there are none.
    """
    x, batches = normal("images", 2, 2, 6, 7), np.array([1, 0, 1, 0], np.uint32)
    boxes = np.array([[0.3, 0.6, 5.2, 4.7], [-0.6, -0.4, 3.1, 2.9], [2.9, 1.3, 7.2, 5.9], [1.7, 2.1, 4.4, 5.6]], np.float32)
    for scale, sizes, samples, aligned in (
        (1.0, (2, 3), 2, True),
        (0.75, (3, 2), 1, False),
        (0.5, (1, 2), -1, True),
        (1.0, (2, 2), 3, False),
    ):
        align = partial(aligned_regions, batches=batches, scale=scale, sizes=sizes, samples=samples, aligned=aligned)
        incoming = normal(f"aligned {samples}", len(boxes), 2, *sizes)
        of_images, of_boxes = gradients(align, [x, boxes], incoming)
        inputs = {"input_tensor": x, "input_gradient_tensor": incoming, "roi_tensor": boxes, "batch_indices_tensor": batches}
        found = {"output_gradient_tensor": of_images, "output_roi_gradient_tensor": of_boxes}
        members = {"reduction_function": "AVERAGE", "interpolation_mode": "LINEAR", "spatial_scale_x": scale, "spatial_scale_y": scale}
        members |= {"input_pixel_offset": 0.5 if aligned else 0.0, "output_pixel_offset": -0.5, "align_regions_to_corners": False}
        least, most = (samples, samples) if samples > 0 else (1, 2**32 - 1)
        members |= {"minimum_samples_per_output": least, "maximum_samples_per_output": most}
        CASES.add("ROI_ALIGN_GRAD", "torchvision's roi_align, backward", inputs, found, members)


def windows() -> None:
    x = normal("columns", 2, 3, 5, 6)
    for window, strides, padding, dilations in (((2, 3), (1, 1), (0, 0), (1, 1)), ((3, 2), (2, 1), (1, 1), (1, 2))):
        theirs: dict[str, Any] = {"dilation": dilations, "padding": padding, "stride": strides}
        columns = functional.unfold(torch.tensor(x), window, **theirs)
        back = functional.fold(columns, (5, 6), window, **theirs).numpy()
        ours = {"window_sizes": window, "strides": strides, "dilations": dilations, "start_padding": padding, "end_padding": padding}
        CASES.add("UNFOLD", "unfold", {"input_tensor": x}, {"output_tensor": columns.numpy()}, ours)
        CASES.add("FOLD", "fold", {"input_tensor": columns.numpy()}, {"output_tensor": back}, ours)


def resampling() -> None:
    x = normal("resample", 1, 2, 3, 4)
    rows = [((2.0, 3.0), "LINEAR", "bilinear"), ((2.0, 2.0), "NEAREST_NEIGHBOR", "nearest"), ((1.5, 2.5), "LINEAR", "bilinear")]
    for scales, mode, peer in rows:
        resized = partial(functional.interpolate, scale_factor=scales, mode=peer)
        incoming = normal("resized", *resized(torch.tensor(x)).shape)
        found = {"output_gradient_tensor": gradients(resized, [x], incoming)[0]}
        ours = {"interpolation_mode": mode, "scales": (1.0, 1.0, *scales)}
        centres = {"input_pixel_offsets": (0.5,) * 4, "output_pixel_offsets": (-0.5,) * 4}
        inputs = {"input_gradient_tensor": incoming}
        CASES.add("RESAMPLE_GRAD", "interpolate, backward", inputs, found, {**ours, **centres})
        # PyTorch's nearest element is at floor(o / scale).
        corner = {"input_pixel_offsets": (0.0,) * 4, "output_pixel_offsets": (0.0,) * 4, "rounding_direction": "DECREASING"}
        CASES.add("RESAMPLE_GRAD1", "interpolate, backward", inputs, found, {**ours, **(corner if peer == "nearest" else centres)})


def slices() -> None:
    x = normal("sliced", 4, 7)
    for offsets, sizes, strides in (((1, 0), (3, 7), (1, 2)), ((0, 2), (4, 5), (3, 1))):
        spans = tuple(slice(start, start + size, step) for start, size, step in zip(offsets, sizes, strides, strict=True))
        incoming = normal("slices", *x[spans].shape)
        found = {"output_gradient_tensor": gradients(partial(taken, spans=spans), [x], incoming)[0]}
        ours = {"input_window_offsets": offsets, "input_window_sizes": sizes, "input_window_strides": strides}
        CASES.add("SLICE_GRAD", "indexing, backward", {"input_gradient_tensor": incoming}, found, ours)


def normalizations() -> None:
    x, incoming = 2 * normal("norm", 3, 4, 2, 5), normal("normed", 3, 4, 2, 5)
    mean, scale, bias = (normal(name, 4) for name in ("mean", "scale", "bias"))
    variance = np.abs(normal("variance", 4)) + np.float32(0.1)
    wide = {name: array.reshape(1, 4, 1, 1) for name, array in (("mean", mean), ("scale", scale), ("bias", bias), ("variance", variance))}
    for epsilon in (1e-5, 0.1):
        ours = {"epsilon": epsilon}
        for training in (False, True):
            normed = partial(batch_norm, statistics=None if training else (mean, variance), epsilon=epsilon)
            given = [x, scale, bias]
            input_gradient, scale_gradient, bias_gradient = gradients(normed, given, incoming)
            found = {"output_gradient_tensor": input_gradient}
            found |= {"output_scale_gradient_tensor": scale_gradient.reshape(1, 4, 1, 1)}
            found |= {"output_bias_gradient_tensor": bias_gradient.reshape(1, 4, 1, 1)}
            spread, average = torch.var_mean(torch.tensor(x), (0, 2, 3), keepdim=True, correction=0)
            used = {"mean": average.numpy(), "variance": spread.numpy()} if training else wide
            inputs = {"input_tensor": x, "input_gradient_tensor": incoming, "mean_tensor": used["mean"]}
            inputs |= {"variance_tensor": used["variance"], "scale_tensor": wide["scale"]}
            operator = "BATCH_NORMALIZATION_TRAINING_GRAD" if training else "BATCH_NORMALIZATION_GRAD"
            CASES.add(operator, "batch_norm, backward", inputs, found, ours)
            if training:
                made = {"output_tensor": normed(*map(torch.tensor, given)).numpy()}
                made |= {"output_mean_tensor": average.numpy(), "output_variance_tensor": spread.numpy()}
                inputs = {"input_tensor": x, "scale_tensor": wide["scale"], "bias_tensor": wide["bias"]}
                CASES.add("BATCH_NORMALIZATION_TRAINING", "batch_norm, var_mean", inputs, made, ours)
    for size, alpha, beta, k in ((3, 0.5, 0.75, 1.0), (5, 0.01, 0.6, 2.0)):
        theirs = {"size": size, "alpha": alpha, "beta": beta, "k": k}
        found_gradient = gradients(partial(functional.local_response_norm, **theirs), [x], incoming)[0]
        members = {"cross_channel": True, "local_size": size, "alpha": alpha, "beta": beta, "bias": k}
        inputs = {"input_tensor": x, "input_gradient_tensor": incoming}
        found = {"output_gradient_tensor": found_gradient}
        CASES.add("LOCAL_RESPONSE_NORMALIZATION_GRAD", "local_response_norm, backward", inputs, found, members)


def optimization() -> None:
    """A step of Adam. PyTorch divides by sqrt(V / (1 - Beta2^T)) + Epsilon, DirectML by sqrt(V) + Epsilon: they are equal where it is 0."""
    for step, rate, beta1, beta2 in ((1, 0.01, 0.9, 0.999), (7, 0.5, 0.8, 0.95)):
        x, gradient, first = (normal(name, 1, 1, 3, 5) for name in ("parameters", "gradient", "first"))
        second = np.abs(normal("second", 1, 1, 3, 5))
        parameter = torch.nn.Parameter(torch.tensor(x))
        adam = torch.optim.Adam([parameter], lr=rate, betas=(beta1, beta2), eps=0.0, foreach=False)
        adam.state[parameter] = {"step": torch.tensor(step - 1.0), "exp_avg": torch.tensor(first), "exp_avg_sq": torch.tensor(second)}
        parameter.grad = torch.tensor(gradient)
        adam.step()
        inputs = {"input_parameters_tensor": x, "input_first_moment_tensor": first, "input_second_moment_tensor": second}
        inputs |= {"gradient_tensor": gradient, "training_step_tensor": np.full((1, 1, 1, 1), step, np.uint32)}
        made = {
            "output_parameters_tensor": parameter.detach().numpy(),
            "output_first_moment_tensor": adam.state[parameter]["exp_avg"].numpy(),
        }
        made |= {"output_second_moment_tensor": adam.state[parameter]["exp_avg_sq"].numpy()}
        members = {"learning_rate": rate, "beta1": beta1, "beta2": beta2, "epsilon": 0.0}
        CASES.add("ADAM_OPTIMIZER", "optim.Adam", inputs, made, members)


def main() -> None:
    for rows in (elementwise, pooling, regions, windows, resampling, slices, normalizations, optimization):
        rows()
    CASES.main(__doc__)


if __name__ == "__main__":
    main()
