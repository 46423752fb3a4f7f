"""A record of single operators as a table: for the terminal, and as Markdown for the page.

Cells show the least time of all rounds, which other load on the machine affects least.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dmlpy.bench.instruction_sets import is_limited
from dmlpy.bench.operators import suite
from dmlpy.bench.operators.scaling import is_case
from dmlpy.bench.operators.shape import LargeShape, tensor_text
from dmlpy.bench.records import floor_us
from dmlpy.bench.tables import NAMES, OWN, Column, Row, columns, headings, markdown_line, rows, time_text
from dmlpy.messages.tables import Table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dmlpy.bench.operators.shape import OperatorShape
    from dmlpy.bench.records import Measurement, Record

GOAL = 1.5
"""The goal: dmlpy's time over that of the fastest other library."""


def _is_operator(run: Measurement) -> bool:
    return is_case(run.shape) or run.shape in suite.CASES


def parts(record: Record) -> tuple[Record, Record]:
    """A record's runs of single operators, and its others."""
    operators, others = ([run for run in record.runs if _is_operator(run) == of_operators] for of_operators in (True, False))
    return record.model_copy(update={"runs": operators}), record.model_copy(update={"runs": others})


def _least(run: Measurement | None) -> float | None:
    return None if run is None or run.status != "ok" else run.least_us


def _ratio(row: Row, column: Column) -> float | None:
    """The device's least time over another library's in the same mode."""
    own_run, theirs = row.own(column[1]), _least(row.runs.get(column))
    mine = _least(own_run)
    return mine / theirs if mine is not None and theirs else None


def _floor_ratio(row: Row) -> float | None:
    own_runs = [run for (subject, _), run in row.runs.items() if subject == OWN and run.status == "ok"]
    floor = floor_us(row.runs.values())
    times = [run.least_us / floor for run in own_runs if run.least_us is not None and floor]
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


def _rate(run: Measurement | None) -> str:
    """The operations or bytes per second, whichever bounds an operator on a GPU."""
    least = _least(run)
    if run is None or least is None:
        return ""
    if run.flops:
        return f"{run.flops / least / 1e6:.3g} TFLOP/s"
    return f"{run.bytes / least / 1e6:.2f} TB/s" if run.bytes else ""


def _fastest(row: Row) -> Measurement | None:
    own_runs = [run for (subject, _), run in row.runs.items() if subject == OWN and _least(run) is not None]
    return min(own_runs, key=lambda run: run.least_us or 0, default=None)


def _times(ratio: float | None) -> str:
    if ratio is None:
        return ""
    return f"{ratio:.1g}×" if ratio < 0.095 else f"{ratio:.1f}×" if ratio < 9.95 else f"{ratio:.0f}×"


def _cells(record: Record) -> tuple[list[str], list[list[str]], list[str]]:
    """The headings, rows and notes."""
    shown, notes, table_rows = columns(record), dict[str, int](), rows(record)
    peers = [column for column in shown if column[0] != OWN]
    several = len({mode for _, mode in shown}) > 1
    names = [f"dmlpy / {NAMES.get(subject, subject)}" + (f", {mode}" if several else "") for subject, mode in peers]
    typed = len({row.work[2] for row in table_rows}) > 1
    modelled = record.device.get("kind") == "cuda"  # the CPU's roofline is a copy's rate, which is not meaningful for cached tensors
    judged = ["dmlpy / floor", "dmlpy's rate"] if modelled else []
    head = ["operator", *(["type"] if typed else []), "tensor", *headings(record), *names, *judged]
    body = []
    for row in table_rows:
        operator, _, dtype = row.work
        tensor = next((run.tensor for run in row.runs.values() if run.tensor), "")
        times = [_cell(row.runs.get(column), notes) for column in shown]
        ratios = [_times(_ratio(row, column)) for column in peers]
        last = [_times(_floor_ratio(row)), _rate(_fastest(row))] if modelled else []
        body.append([operator, *([dtype] if typed else []), tensor, *times, *ratios, *last])
    return head, body, [f"[{number}] {reason}" for reason, number in notes.items()]


def goal_text(record: Record) -> str:
    """How many operators reach the goal relative to the fastest other library, and which do not; empty without another library.

    If libraries were limited to an instruction set, the others do not count.
    """
    limit = record.host.max_isa
    others = [column for column in columns(record) if not column[0].startswith(OWN) and is_limited(column[0], limit)]
    ratios = {}
    for row in rows(record):
        if row_ratios := [ratio for column in others if (ratio := _ratio(row, column)) is not None]:
            ratios[row.work[0]] = max(row_ratios)
    if not ratios:
        return ""
    slow = sorted((name for name, ratio in ratios.items() if ratio > GOAL), key=lambda name: -ratios[name])
    met = f"{len(ratios) - len(slow)} of the {len(ratios)} operators that another library has"
    sentence = f"{met} take at most {GOAL:g} times the fastest one's time"
    return sentence + (f"; more take {', '.join(f'{name} ({_times(ratios[name])})' for name in slow)}." if slow else ".")


def format_table(record: Record) -> tuple[Table, list[str]]:
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


def listing(shapes: Sequence[OperatorShape | LargeShape]) -> Table:
    """Lists operators with their tensors and equivalents."""
    listed = []
    for shape in shapes:
        first_type = shape.dtypes[0]
        nodes = [] if isinstance(shape, LargeShape) else [line.partition("=")[2] for line in shape.operator_case.onnx.splitlines()]
        names = ", ".join(node.split("<")[0].split("(")[0].strip() for node in nodes)
        amounts = (
            f"{flops / 1e9:.3g}" if (flops := shape.flops("forward")) else "",
            f"{shape.bytes('forward', first_type) / 1e6:.3g}",
        )
        equivalents = (names or "–", "yes" if shape.operator_case.torch else "–")
        listed.append((shape.key, ", ".join(shape.dtypes), tensor_text(shape.desc(first_type)), *amounts, *equivalents))
    return Table("Operators", ("operator", "types", "tensor", "GFLOP", "MB", "ONNX", "PyTorch"), tuple(listed))
