"""CropAndResize (com.microsoft): boxes of images, resized to one size."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dmlpy.onnx.domains.host_operators import register_host_operator

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dmlpy.onnx.domains.host_operators import OutputType
    from dmlpy.onnx.loading.values import Array
    from dmlpy.onnx.nodes.node import Node

_IMAGES, _BOXES, _PLACES, _SIZE = range(4)


def _describe_outputs(node: Node) -> Sequence[OutputType]:
    images, boxes, size = node.value(_IMAGES), node.value(_BOXES), node.value(_SIZE).array
    if images.sizes is None or boxes.sizes is None:
        return [(images.element, None)]
    last = (None, None) if size is None else (int(size[0]), int(size[1]))
    return [(images.element, (boxes.sizes[0], images.sizes[1], *last))]


@register_host_operator("CropAndResize", _describe_outputs)
def crop_and_resize(node: Node) -> Sequence[Array]:
    """The crops [boxes, C, height, width]; corners of a box map to corners of its crop, and positions outside an image are filled."""
    mode = node.attribute("mode", "bilinear")
    if mode not in ("bilinear", "nearest"):
        raise node.invalid("mode", "bilinear", "nearest")
    images, boxes = node.array(_IMAGES), node.array(_BOXES).astype(np.float32)
    size = [int(number) for number in node.array(_SIZE)]
    fill = np.float32(node.attribute("extrapolation_value", 0.0))
    crops = np.empty((len(boxes), images.shape[1], *size), images.dtype)
    for place, (box, image) in enumerate(zip(boxes, node.array(_PLACES), strict=True)):
        rows = _positions(box[0], box[2], images.shape[2], size[0])
        columns = _positions(box[1], box[3], images.shape[3], size[1])
        crops[place] = _crop(images[image], rows, columns, fill, nearest=mode == "nearest")
    return [crops]


def _positions(start: np.float32, end: np.float32, size: int, count: int) -> Array:
    """The positions of a crop's elements along an axis of an image, in elements."""
    most = np.float32(size - 1)
    if count == 1:
        return np.asarray([np.float32(0.5) * (start + end) * most], np.float32)
    step = (end - start) * most / np.float32(count - 1)
    positions: Array = start * most + np.arange(count, dtype=np.float32) * step
    return positions


def _crop(image: Array, rows: Array, columns: Array, fill: np.float32, *, nearest: bool) -> Array:
    inside = ((rows >= 0) & (rows <= image.shape[1] - 1))[:, None] & ((columns >= 0) & (columns <= image.shape[2] - 1))
    rows, columns = np.clip(rows, 0, image.shape[1] - 1), np.clip(columns, 0, image.shape[2] - 1)
    if nearest:
        cropped = image[:, _round(rows)[:, None], _round(columns)]
    else:
        top, left = np.floor(rows).astype(int), np.floor(columns).astype(int)
        bottom, right = np.ceil(rows).astype(int), np.ceil(columns).astype(int)
        down, across = (rows - top)[:, None], columns - left
        above = image[:, top[:, None], left] * (1 - across) + image[:, top[:, None], right] * across
        below = image[:, bottom[:, None], left] * (1 - across) + image[:, bottom[:, None], right] * across
        cropped = above * (1 - down) + below * down
    return np.where(inside, cropped, fill).astype(image.dtype)


def _round(positions: Array) -> Array:
    """Rounds to the nearest element; ties away from 0."""
    rounded: Array = np.floor(positions + np.float32(0.5)).astype(int)
    return rounded
