"""The compiled kernel of strips: depthwise convolutions and poolings of planes whose rows lie side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dmlpy.devices.cpu.convolution.depthwise_kernels import strip_walk
from dmlpy.devices.cpu.convolution.strip_parameters import PARAMETERS, Strip
from dmlpy.devices.cpu.sharing import first_item, next_item, wait_for_all
from dmlpy.devices.cpu.simd import record_at

if TYPE_CHECKING:
    from dmlpy.devices.cpu.isa import Registers
    from dmlpy.devices.cpu.thread_pool import Share


def strips_of(strip: Strip, halves: bool, registers: Registers) -> Share:
    """A thread's share of the planes, to be compiled.

    Args:
        strip: the window.
        halves: whether input and output are of FLOAT16.
        registers: the registers that it is compiled for.
    """
    walk, lanes, parameters_at = strip_walk(strip, halves, registers), registers.lanes, record_at(PARAMETERS)

    def share(parameters: Any, thread: Any, threads: Any, board: Any, met: Any) -> None:
        p = parameters_at(parameters)
        state, finished = parameters, 0
        item = first_item(state, p.items, thread, threads, board, met)
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
            item = next_item(state, item, p.items, threads, met)
        wait_for_all(state, finished, p.items, thread, threads)

    return share
