"""What an item of a compiled convolution is: rows of positions in a slice of an image and a group, and a part of the filters."""

from __future__ import annotations

from typing import Any

from dmlpy.devices.cpu.simd import jit


@jit
def place_of(p: Any, item: Any) -> Any:
    """The part of the filters, the tile, its first row of positions and its rows, the group, the slice, and where input and output begin.

    The input is that of the image and the group, the output that of the tile's first row.
    """
    share, tile = item % p.parts, item // p.parts
    first_row, rest = tile % p.tiles * p.rows, tile // p.tiles
    group, place = rest % p.groups, rest // p.groups
    image, z = place // p.out_depth, place % p.out_depth
    source = p.input + image * p.input_image + group * p.input_group
    output = p.output + image * p.output_image + z * p.output_slice + first_row * p.output_row + group * p.filters * p.output_channel
    return share, tile, first_row, min(p.rows, p.out_height - first_row), group, z, source, output
