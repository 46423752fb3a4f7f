"""A record of single operators as a table: for the terminal, and as Markdown for the page.

Cells show the least time of all rounds, which other work on the machine prolongs least.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dmlpy.bench.operators.shape import tensor_text
from dmlpy.bench.operators.table import ROWS
from dmlpy.bench.tables import NAMES, OWN, Column, Row, columns, headings, markdown_line, rows, time_text
from dmlpy.inspection.render import Table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dmlpy.bench.operators.shape import OperatorShape
    from dmlpy.bench.records import Measurement, Record

GOAL_PEER = "onnxruntime"
GOAL = 8.0
"""The goal for a device of the processor, its time over ONNX Runtime's, for a single thread and 100,000 elements or more."""


def of_operators(record: Record) -> bool:
    """Returns whether a record is of single operators."""
    return any(run.shape in ROWS for run in record.runs)


def _least(run: Measurement | None) -> float | None:
    return None if run is None or run.status != "ok" else run.least_us


def _ratio(row: Row, column: Column) -> float | None:
    """The device's least time over another library's in the same mode."""
    own, theirs = row.own(column[1]), _least(row.runs.get(column))
    mine = _least(own)
    return mine / theirs if mine is not None and theirs else None


def _floor_ratio(row: Row) -> float | None:
    own = [run for (subject, _), run in row.runs.items() if subject == OWN and run.status == "ok"]
    times = [run.least_us / run.floor_us for run in own if run.least_us is not None and run.floor_us]
    return min(times, default=None)


def _cell(run: Measurement | None, notes: dict[str, int]) -> str:
    if run is None:
        return ""
    if (least := _least(run)) is not None:
        return time_text(least)
    if run.status == "absent" and run.reason == "no equivalent":
        return "–"
    name = NAMES.get(run.subject, run.subject)
    return f"{run.status} [{notes.setdefault(f'{name}: {run.reason}', len(notes) + 1)}]"


def _times(ratio: float | None) -> str:
    return "" if ratio is None else f"{ratio:.1f}×" if ratio < 9.95 else f"{ratio:.0f}×"


def _cells(record: Record) -> tuple[list[str], list[list[str]], list[str]]:
    """The headings, rows and notes."""
    shown, notes, found = columns(record), dict[str, int](), rows(record)
    peers = [column for column in shown if column[0] != OWN]
    several = len({mode for _, mode in shown}) > 1
    names = [f"dmlpy / {NAMES.get(subject, subject)}" + (f", {mode}" if several else "") for subject, mode in peers]
    typed = len({row.work[2] for row in found}) > 1
    modelled = record.device.get("kind") == "cuda"  # the processor's floor is a copy's rate, which says little of tensors in its caches
    judged = ["dmlpy / floor"] if modelled else []
    head = ["operator", *(["type"] if typed else []), "tensor", *headings(record), *names, *judged]
    body = []
    for row in found:
        operator, _, dtype = row.work
        tensor = next((run.tensor for run in row.runs.values() if run.tensor), "")
        times = [_cell(row.runs.get(column), notes) for column in shown]
        ratios = [_times(_ratio(row, column)) for column in peers]
        body.append([operator, *([dtype] if typed else []), tensor, *times, *ratios, *([_times(_floor_ratio(row))] if modelled else [])])
    return head, body, [f"[{number}] {reason}" for reason, number in notes.items()]


def goal_text(record: Record) -> str:
    """How many operators reach the goal beside ONNX Runtime, and which do not; empty unless both were measured."""
    peer = [column for column in columns(record) if column[0] == GOAL_PEER]
    ratios = {row.work[0]: ratio for row in rows(record) if peer and (ratio := _ratio(row, peer[0])) is not None}
    if not ratios:
        return ""
    slow = sorted((name for name, ratio in ratios.items() if ratio > GOAL), key=lambda name: -ratios[name])
    told = f"{len(ratios) - len(slow)} of the {len(ratios)} operators that {NAMES[GOAL_PEER]} has take at most {GOAL:g} times its time"
    return told + (f"; more take {', '.join(f'{name} ({_times(ratios[name])})' for name in slow)}." if slow else ".")


def shown(record: Record) -> tuple[Table, list[str]]:
    """The table for a terminal with the lines below it; operators that dmlpy computed wrongly, or not at all, are marked."""
    head, body, notes = _cells(record)
    broken = {
        index
        for index, row in enumerate(rows(record))
        if any(run.status in ("wrong", "failed") for (subject, _), run in row.runs.items() if subject == OWN)
    }
    return Table("", tuple(head), tuple(map(tuple, body)), frozenset(broken)), [*notes, *filter(None, [goal_text(record)])]


def markdown(record: Record) -> str:
    """The table and the lines below it."""
    head, body, notes = _cells(record)
    lines = [markdown_line(head), markdown_line(["---"] * len(head)), *map(markdown_line, body)]
    return "\n".join([*lines, *([""] if notes else []), *(f"- {line}" for line in notes)])


def listing(shapes: Sequence[OperatorShape]) -> Table:
    """Lists operators with their tensors and equivalents."""
    listed = []
    for shape in shapes:
        own = shape.dtypes[0]
        nodes = ", ".join(line.partition("=")[2].split("<")[0].split("(")[0].strip() for line in shape.row.onnx.splitlines())
        amounts = (f"{shape.flops('forward') / 1e9:.3g}" if shape.row.products else "", f"{shape.bytes('forward', own) / 1e6:.3g}")
        listed.append((shape.key, tensor_text(shape.desc(own)), *amounts, nodes or "–", "yes" if shape.row.torch else "–"))
    return Table("Operators", ("operator", "tensor", "GFLOP", "MB", "ONNX", "PyTorch"), tuple(listed))
