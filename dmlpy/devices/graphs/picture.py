"""Draws the plan of a graph's memory."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from dmlpy.devices.graphs.ir import node_name
from dmlpy.messages.quantities import show_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dmlpy.devices.graphs.program import GraphProgram

_WIDTH, _HEIGHT, _LEFT, _TOP = 720, 320, 80, 24
_COLOURS = ("#4e79a7", "#b35806", "#59a14f", "#8f5f8a", "#2f7f7a", "#8c6d1f", "#c23b3d", "#7a5a48")
_SCRATCH_COLOUR = "#6f6a66"
_LETTER, _LINE = 6.2, 12
"""The width of a letter and the height of a line in pixels, about."""
_MOST_TICKS = 40
_MOST_LETTERS = 24
"""Of a step's name on the axis."""


def memory_svg(program: GraphProgram) -> str:
    """The block of memory over the steps: one box for each tensor and each scratch, and a line at the lower bound."""
    plan, steps = program.plan, max(1, len(program.steps))
    size = max(1, plan.size)

    def x(step: float) -> float:
        return _LEFT + step * _WIDTH / steps

    def y(byte: int) -> float:
        return _TOP + _HEIGHT * (1 - byte / size)

    names = [node_name(program.ir.graph, step.node) for step in program.steps]
    axis, room = _axis(names, x, y(0))
    title = f"{show_bytes(plan.size)} for {len(plan.items)} tensors and scratches, lower bound {show_bytes(plan.lower_bound)}"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_LEFT + _WIDTH + 16}" height="{_TOP + _HEIGHT + room}" font-family="sans-serif" '
        f'font-size="11" fill="currentColor"><title>{escape(title)}</title><text x="{_LEFT}" y="14">{escape(title)}</text>'
    ]
    scratch_from = len(plan.items) - len(program.scratch)
    for at, (item, offset) in enumerate(zip(plan.items, plan.offsets, strict=True)):
        colour = _COLOURS[at % len(_COLOURS)] if at < scratch_from else _SCRATCH_COLOUR
        last = min(item.last + 1, steps)
        left, width = x(item.first), max(1.0, x(last) - x(item.first))
        top, height = y(offset + item.size), max(0.5, y(offset) - y(offset + item.size))
        tooltip = f"{item.name}: {show_bytes(item.size)} at {offset}, steps {item.first} to {item.last}"
        parts.append(
            f'<rect x="{left:.1f}" y="{top:.1f}" width="{width:.1f}" height="{height:.1f}" fill="{colour}" stroke="white">'
            f"<title>{escape(tooltip)}</title></rect>"
        )
        parts.append(_name(item.name, left, top, width, height))
    bound = y(plan.lower_bound)
    parts.append(
        f'<line x1="{_LEFT}" x2="{_LEFT + _WIDTH}" y1="{bound:.1f}" y2="{bound:.1f}" stroke="currentColor" stroke-dasharray="4">'
        f"<title>lower bound</title></line>"
    )
    parts += [f'<text x="{_LEFT - 6}" y="{y(byte) + 4:.1f}" text-anchor="end">{show_bytes(byte)}</text>' for byte in (0, plan.size)]
    return "".join([*parts, *axis, "</svg>"])


def _name(name: str, left: float, top: float, width: float, height: float) -> str:
    """A box's name inside it: along the box, upright where it is narrow and tall, shortened where it is long, or none."""
    along, upright = int((width - 6) // _LETTER), int((height - 6) // _LETTER)
    if height >= _LINE and along >= min(len(name), 4) and (along >= len(name) or along >= upright or width < _LINE):
        return f'<text x="{left + 3:.1f}" y="{top + height / 2 + 4:.1f}" fill="white">{escape(_shortened(name, along))}</text>'
    if width >= _LINE and upright >= min(len(name), 4):
        x, y = left + width / 2 + 4, top + height - 3
        return f'<text transform="translate({x:.1f} {y:.1f}) rotate(-90)" fill="white">{escape(_shortened(name, upright))}</text>'
    return ""


def _axis(names: Sequence[str], x: Callable[[float], float], bottom: float) -> tuple[list[str], int]:
    """The axis of steps below the boxes, and its height. Each step has a tick and its name; of many, as many as there is room for."""
    if not names:
        return [], _LINE
    every = -(-len(names) // _MOST_TICKS)
    parts = [f'<line x1="{_LEFT}" x2="{_LEFT + _WIDTH}" y1="{bottom:.1f}" y2="{bottom:.1f}" stroke="currentColor"/>']
    longest = 0
    for step in range(0, len(names), every):
        middle, label = (x(step) + x(step + 1)) / 2, _shortened(f"{step} {names[step]}", _MOST_LETTERS)
        longest = max(longest, len(label))
        parts.append(f'<line x1="{middle:.1f}" x2="{middle:.1f}" y1="{bottom:.1f}" y2="{bottom + 4:.1f}" stroke="currentColor"/>')
        parts.append(f'<text transform="translate({middle + 4:.1f} {bottom + 8:.1f}) rotate(-90)" text-anchor="end">{escape(label)}</text>')
    room = int(longest * _LETTER) + 12
    parts.append(f'<text x="{_LEFT - 6}" y="{bottom + 2 * _LINE + 2:.1f}" text-anchor="end">step</text>')
    return parts, max(room, 3 * _LINE)


def _shortened(name: str, letters: int) -> str:
    return name if len(name) <= letters else f"{name[: letters - 1]}…"
