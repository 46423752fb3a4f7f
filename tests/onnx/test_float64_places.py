"""Nodes of FLOAT64 that compute places and weights keep the digits of these, in constants, inputs and attributes alike."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
from onnx import TensorProto
from onnx.helper import make_node

from dmlpy import onnx
from tests.support.onnx.models import model

Array = np.ndarray[Any, Any]
RNG = np.random.default_rng(29)
IMAGE = RNG.standard_normal((1, 2, 5, 6))
GRID = RNG.uniform(-1.3, 1.3, (1, 3, 4, 2))
BOXES = np.array([[0.3, 0.7, 4.1, 3.9], [1.123, 0.4, 1.456, 3.3]])
SCALE = float(np.float32(1.7))
"""Between two sizes: scales are FLOAT, and count as they are."""


def cubic(distance: Array) -> Array:
    near, a = np.abs(distance), -0.75
    return np.where(near <= 1, ((a + 2) * near - (a + 3)) * near**2 + 1, np.where(near < 2, ((near - 5) * near + 8) * near * a - 4 * a, 0))


def triangle(distance: Array) -> Array:
    return np.asarray(np.maximum(1 - np.abs(distance), 0))


def resized(x: Array, axis: int, places: Array, weight: Callable[[Array], Array], squeeze: float = 1.0) -> Array:
    """An axis at some places, by weights that sum to 1; places outside are those of the edge."""
    taps = np.arange(-20, x.shape[axis] + 20)
    weights = weight((taps - places[:, None]) * squeeze)
    matrix = np.zeros((len(places), x.shape[axis]))
    np.add.at(matrix.T, taps.clip(0, x.shape[axis] - 1), (weights / weights.sum(1, keepdims=True)).T)
    return np.moveaxis(np.tensordot(matrix, x, (1, axis)), 0, axis)


def of_both(places: Callable[[int], Array], weight: Callable[[Array], Array], squeeze: float = 1.0) -> Array:
    by_rows = resized(IMAGE, 2, places(5), weight, squeeze)
    return resized(by_rows, 3, places(6), weight, squeeze)


def scaled(size: int, scale: float = SCALE) -> Array:
    return np.asarray((np.arange(int(size * scale)) + 0.5) / scale - 0.5)


def cropped(size: int) -> Array:
    return np.asarray((0.1 + np.arange(4) * (0.83 - 0.1) / 3) * (size - 1))


def sampled(image: Array, x: Array, y: Array, weight: Callable[[Array], Array]) -> Array:
    """The image at places in pixels, with zeros around it."""
    rows, columns = (weight(np.arange(-4, size + 4) - at[..., None]) for size, at in ((image.shape[1], y), (image.shape[2], x)))
    around = np.pad(image, ((0, 0), (4, 4), (4, 4)))
    return np.asarray(np.einsum("crk,...r,...k->c...", around, rows, columns))


def from_grid(weight: Callable[[Array], Array]) -> Array:
    return sampled(IMAGE[0], ((GRID[0, ..., 0] + 1) * 6 - 1) / 2, ((GRID[0, ..., 1] + 1) * 5 - 1) / 2, weight)[None]


def largest_of_regions(samples: int = 2) -> Array:
    """RoiAlign's maxima: of products of a pixel and its weight."""
    rows = []
    for left, top, right, bottom in BOXES:
        steps = (np.arange(2 * samples) + 0.5) / (2 * samples)
        x, y = left + max(right - left, 1.0) * steps, top + max(bottom - top, 1.0) * steps
        columns, lines = (triangle(np.arange(size) - places[:, None]) for size, places in ((6, x), (5, y)))
        parts = np.einsum("crk,yr,xk->cyxrk", IMAGE[0], lines, columns)
        reached = np.einsum("yr,xk->yxrk", lines, columns) > 0
        largest = np.where(reached, parts, -np.inf).max((3, 4))
        rows.append(largest.reshape(2, 2, samples, 2, samples).max((2, 4)))
    return np.stack(rows)


def deformed() -> Array:
    offsets, kernel = DEFORMED["offset"], DEFORMED["W"]
    result = np.zeros((3, 4, 5))
    for tap in range(4):
        y, x = (offsets[0, 2 * tap + part] + base for part, base in enumerate(np.mgrid[:4, :5] + np.reshape(divmod(tap, 2), (2, 1, 1))))
        result += np.einsum("oc,cyx->oyx", kernel[:, :, tap // 2, tap % 2], sampled(IMAGE[0], x, y, triangle))
    return result[None]


DEFORMED = {"X": IMAGE, "W": RNG.standard_normal((3, 2, 2, 2)), "offset": RNG.uniform(-1, 1, (1, 8, 4, 5))}
SIGNAL = RNG.standard_normal((1, 12, 1))
LONG_SIGNAL, PRIME_SIGNAL = RNG.standard_normal((1, 480, 1)), RNG.standard_normal((1, 1031, 2))
THETA = RNG.standard_normal((1, 2, 3))


def frames() -> Array:
    return np.stack([np.fft.rfft(SIGNAL[0, start : start + 8, 0] * WINDOW) for start in (0, 2, 4)])[None]


WINDOW = RNG.standard_normal(8)


def parts(spectrum: Array) -> Array:
    return np.stack([spectrum.real, spectrum.imag], -1)


class Row(NamedTuple):
    operator: str
    inputs: dict[str, Array]
    constants: dict[str, Array]
    attributes: dict[str, Any]
    expected: Array


SCALES = {"scales": np.array([1, 1, SCALE, SCALE], np.float32)}
SMALLER = {"scales": np.array([1, 1, 0.55, 0.55], np.float32)}
SMALLER_SCALE = float(np.float32(0.55))
NO_REGION = {"roi": np.zeros(0)}
REGION = {"roi": np.array([0, 0, 0.1, 0.1, 1, 1, 0.83, 0.83])}
SIZES = {"sizes": np.array([1, 2, 4, 4])}
ALIGNED = {"batch_indices": np.zeros(2, np.int64)}
LARGEST = {"mode": "max", "output_height": 2, "output_width": 2, "sampling_ratio": 2, "coordinate_transformation_mode": "output_half_pixel"}

ROWS = {
    "GridSample linear": Row("GridSample", {"X": IMAGE, "grid": GRID}, {}, {"mode": "linear"}, from_grid(triangle)),
    "GridSample cubic": Row("GridSample", {"X": IMAGE, "grid": GRID}, {}, {"mode": "cubic"}, from_grid(cubic)),
    "GridSample of a FLOAT grid": Row(
        "GridSample",
        {"X": IMAGE, "grid": (np.round(GRID * 8) / 8).astype(np.float32)},
        {},
        {"mode": "nearest"},
        sampled(IMAGE[0], *(np.rint(((np.round(GRID[0, ..., at] * 8) / 8 + 1) * size - 1) / 2) for at, size in ((0, 6), (1, 5))), triangle)[
            None
        ],
    ),
    "Resize linear": Row("Resize", {"X": IMAGE}, NO_REGION | SCALES, {"mode": "linear"}, of_both(scaled, triangle)),
    "Resize cubic": Row("Resize", {"X": IMAGE}, NO_REGION | SCALES, {"mode": "cubic"}, of_both(scaled, cubic)),
    "Resize antialiased": Row(
        "Resize",
        {"X": IMAGE},
        NO_REGION | SMALLER,
        {"mode": "linear", "antialias": 1},
        of_both(lambda size: scaled(size, SMALLER_SCALE), triangle, SMALLER_SCALE),
    ),
    "Resize cropped": Row(
        "Resize",
        {"X": IMAGE},
        REGION | {"scales": np.zeros(0, np.float32)} | SIZES,
        {"mode": "cubic", "coordinate_transformation_mode": "tf_crop_and_resize"},
        of_both(cropped, cubic),
    ),
    "RoiAlign": Row("RoiAlign", {"X": IMAGE, "rois": BOXES}, ALIGNED, LARGEST, largest_of_regions()),
    "DeformConv": Row("DeformConv", DEFORMED, {}, {"kernel_shape": [2, 2]}, deformed()),
    "AffineGrid": Row(
        "AffineGrid",
        {"theta": THETA},
        {"size": np.array([1, 1, 3, 5])},
        {},
        np.stack(
            [
                sum(THETA[0, row, at] * part for at, part in enumerate((*np.meshgrid(np.arange(-4, 5, 2) / 5, np.arange(-2, 3, 2) / 3), 1)))
                for row in (0, 1)
            ],
            -1,
        )[None],
    ),
    "DFT": Row("DFT", {"x": SIGNAL}, {"length": np.array(12), "axis": np.array(1)}, {}, parts(np.fft.fft(SIGNAL[..., 0]))),
    "DFT by factors": Row(
        "DFT", {"x": LONG_SIGNAL}, {"length": np.array(480), "axis": np.array(1)}, {}, parts(np.fft.fft(LONG_SIGNAL[..., 0]))
    ),
    "DFT by chirps": Row(
        "DFT", {"x": PRIME_SIGNAL}, {"length": np.array(1031), "axis": np.array(1)}, {}, parts(np.fft.fft(PRIME_SIGNAL @ [1, 1j]))
    ),
    "STFT": Row("STFT", {"x": SIGNAL}, {"step": np.array(2), "window": WINDOW}, {}, parts(frames())),
}


def node_model(row: Row, *, known: bool = False) -> Any:
    given = row.constants | (row.inputs if known else {})
    node = make_node(row.operator, [*row.inputs, *row.constants], ["y"], **row.attributes)
    types = {name: TensorProto.FLOAT if array.dtype == np.float32 else TensorProto.DOUBLE for name, array in row.inputs.items()}
    inputs = {} if known else {name: array.shape for name, array in row.inputs.items()}
    return model([node], inputs, ["y"], opset=22, types=types | {"y": TensorProto.DOUBLE}, constants=given)


@pytest.mark.parametrize("device", ["numpy", "cpu"])
@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS.keys())
def test_places_and_weights_keep_their_digits(row: Row, device: str) -> None:
    compiled = onnx.load(node_model(row)).compile(device)
    for _ in range(2):  # the second run takes what the first one kept
        found = compiled(row.inputs)["y"]
        assert found.dtype == np.float64
        np.testing.assert_allclose(found, row.expected, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS.keys())
def test_known_places_and_weights_keep_their_digits(row: Row) -> None:
    found = onnx.load(node_model(row, known=True)).compile("numpy")({})["y"]
    assert found.dtype == np.float64
    np.testing.assert_allclose(found, row.expected, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("first", ["Resize cropped", "GridSample of a FLOAT grid"])
def test_what_a_run_keeps_holds_for_other_elements(first: str) -> None:
    """Elements that the lowering reads are no part of what is kept."""
    row = ROWS[first]
    inputs = row.inputs | {name: array for name, array in row.constants.items() if name == "roi"}
    constants = {name: array for name, array in row.constants.items() if name not in inputs}
    order = sorted([*inputs, *constants], key=[*row.inputs, *row.constants].index)
    node = make_node(row.operator, order, ["y"], **row.attributes)
    types = {name: TensorProto.FLOAT if array.dtype == np.float32 else TensorProto.DOUBLE for name, array in inputs.items()}
    sizes = {name: array.shape for name, array in inputs.items()}
    proto = model([node], sizes, ["y"], opset=22, types=types | {"y": TensorProto.DOUBLE}, constants=constants)
    compiled = onnx.load(proto).compile("numpy")
    for factor in (0.5, 1.0):
        found = compiled({name: array * array.dtype.type(factor if name in ("roi", "grid") else 1) for name, array in inputs.items()})["y"]
    np.testing.assert_allclose(found, row.expected, rtol=1e-12, atol=1e-13)
