"""Draws the plan of a graph's memory."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from dmlpy.devices.device import show_bytes
from dmlpy.devices.graphs.ir import node_name

if TYPE_CHECKING:
    from dmlpy.devices.graphs.program import GraphProgram

_WIDTH, _HEIGHT, _LEFT, _TOP = 720, 320, 80, 24
_COLOURS = ("#4e79a7", "#f28e2b", "#59a14f", "#b07aa1", "#76b7b2", "#edc948", "#e15759", "#9c755f")
_SCRATCH_COLOUR = "#bab0ac"
_ROOM_FOR_A_NAME = 60
"""The width in pixels from which a box shows its name; all show it as a tooltip."""


def memory_svg(program: GraphProgram) -> str:
    """The block of memory over the steps: one box for each tensor and each scratch, and a line at the lower bound."""
    plan, steps = program.plan, max(1, len(program.steps))
    size = max(1, plan.size)

    def x(step: float) -> float:
        return _LEFT + step * _WIDTH / steps

    def y(byte: int) -> float:
        return _TOP + _HEIGHT * (1 - byte / size)

    title = f"{show_bytes(plan.size)} for {len(plan.items)} tensors and scratches, lower bound {show_bytes(plan.lower_bound)}"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_LEFT + _WIDTH + 16}" height="{_TOP + _HEIGHT + 40}" font-family="sans-serif" '
        f'font-size="11"><title>{escape(title)}</title><text x="{_LEFT}" y="14">{escape(title)}</text>'
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
        if width >= _ROOM_FOR_A_NAME and height >= 12:
            name = item.name[: int(width // 6)]
            parts.append(f'<text x="{left + 3:.1f}" y="{top + height / 2 + 4:.1f}" fill="white">{escape(name)}</text>')
    bound = y(plan.lower_bound)
    parts.append(
        f'<line x1="{_LEFT}" x2="{_LEFT + _WIDTH}" y1="{bound:.1f}" y2="{bound:.1f}" stroke="black" stroke-dasharray="4">'
        f"<title>lower bound</title></line>"
    )
    parts += [f'<text x="{_LEFT - 6}" y="{y(byte) + 4:.1f}" text-anchor="end">{show_bytes(byte)}</text>' for byte in (0, plan.size)]
    names = [node_name(program.ir.graph, step.node) for step in program.steps]
    shown = {0: names[0], len(names) - 1: names[-1]} if names else {}
    for at, name in shown.items():
        anchor = "start" if at == 0 else "end"
        place = x(0) if at == 0 else x(steps)
        parts.append(f'<text x="{place:.1f}" y="{_TOP + _HEIGHT + 16}" text-anchor="{anchor}">{escape(f"step {at}: {name}")}</text>')
    return "".join([*parts, "</svg>"])
