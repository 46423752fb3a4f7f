"""Pooling of regions of interest, on whole arrays."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from dmlpy.devices.numpy.whole import Array
from dmlpy.operators.pooling.roi import ROIPoolingDesc

_FARTHEST = 2**31
"""Coordinates beyond are outside of every image."""


def roi_pooling(desc: ROIPoolingDesc, inputs: Mapping[str, Any]) -> Array:
    """The maximum of each part of each region; 0 where a part has no pixel of the image."""
    images, regions = inputs["input_tensor"], inputs["roi_tensor"].reshape(-1, 5)
    height, width = images.shape[2:]
    batches = _whole(regions[:, 0]).clip(0, len(images) - 1)
    result = np.zeros((len(regions), images.shape[1], desc.pooled_size.height, desc.pooled_size.width), images.dtype)
    for region, (left, top, right, bottom) in enumerate(_whole(regions[:, 1:] * desc.spatial_scale).tolist()):
        image = images[batches[region]]
        rows = [*_parts(top, bottom, desc.pooled_size.height, height)]
        for column, columns in enumerate(_parts(left, right, desc.pooled_size.width, width)):
            for row, part in enumerate(rows):
                pixels = image[:, part, columns]
                if pixels.size:
                    result[region, :, row, column] = pixels.max(axis=(1, 2))
    return result


def _whole(x: Array) -> Array:
    """The nearest whole numbers, halves away from 0."""
    near = np.clip(np.nan_to_num(x), -_FARTHEST, _FARTHEST).astype(np.float64)
    nearest: Array = np.copysign(np.floor(np.abs(near) + 0.5), near)
    return nearest.astype(np.int64)


def _parts(first: int, last: int, count: int, size: int) -> Iterator[slice]:
    """The pixels of each part of a region along one axis, of those inside the image."""
    extent = max(last - first + 1, 1)
    for part in range(count):
        start, end = first + part * extent // count, first - (-(part + 1) * extent // count)
        yield slice(min(max(start, 0), size), min(max(end, 0), size))
