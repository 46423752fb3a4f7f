"""The compiled kernel of strips: depthwise convolutions and poolings of planes whose rows lie side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dmlpy.devices.cpu.convolution.depthwise_kernels import strip_walk
from dmlpy.devices.cpu.convolution.strip_parameters import PARAMETERS, Strip
from dmlpy.devices.cpu.simd import struct_view
from dmlpy.devices.cpu.thread_pool_kernels import first_tile, next_tile, wait_for_all_tiles

if TYPE_CHECKING:
    from dmlpy.devices.cpu.isa import Isa
    from dmlpy.devices.cpu.thread_pool import TaskBody


def strips_of(strip: Strip, halves: bool, isa: Isa) -> TaskBody:
    """A thread's part of the planes, to be compiled.

    Args:
        strip: the window.
        halves: whether input and output are of FLOAT16.
        isa: the instruction set that it is compiled for.
    """
    walk, lanes, parameters_at = strip_walk(strip, halves, isa), isa.lanes, struct_view(PARAMETERS)

    def share(parameters: Any, thread: Any, threads: Any, sync: Any, epoch: Any) -> None:
        p = parameters_at(parameters)
        state, finished = parameters, 0
        item = first_tile(state, p.items, thread, threads, sync, epoch)
        while item < p.items:
            for part in range(p.parts * item // p.items, p.parts * (item + 1) // p.items):
                plane, first_row = part // p.tiles, part % p.tiles * p.rows
                image, channel = plane // p.channels, plane % p.channels
                source = p.input + image * p.input_image + channel * p.input_channel
                output = p.output + image * p.output_image + channel * p.output_channel
                rows = min(p.rows, p.out_height - first_row)
                for column in range(0, p.out_width, lanes):
                    walk(parameters, source, output, channel, first_row, rows, column)
            finished += 1
            item = next_tile(state, item, p.items, threads, epoch)
        wait_for_all_tiles(state, finished, p.items, thread, threads)

    return share
