"""A record as tables: for the terminal, and as Markdown for the pages.

A row is a shape, a pass and a type; a column is a library and its mode. In the terminal a cell shows the median with the 10th and 90th
percentile of the rounds, and for other libraries the ratio of the medians: theirs over dmlpy's, above 1 where dmlpy is faster. On the pages
dmlpy's cells show the median, and other libraries' the ratio.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from dmlpy.bench import launches
from dmlpy.bench.instruction_sets import is_limited
from dmlpy.bench.records import floor_us
from dmlpy.messages.tables import Table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dmlpy.bench.records import Measurement, Record
    from dmlpy.bench.shapes import Shape

OWN = "dmlpy"
ONE_THREAD = "dmlpy-one-thread"
MOST_OVER_ONE_THREAD = 1.1
"""The goal for the time on all threads over that on one, under background load."""
NAMES = {
    OWN: "dmlpy",
    "dmlpy-numpy": "dmlpy on NumPy",
    ONE_THREAD: "dmlpy on one thread",
    "onnxruntime": "ONNX Runtime",
    "torch": "PyTorch",
    "torch-native": "PyTorch without cuDNN",
    "cupy": "plain CuPy",
    "openvino": "OpenVINO",
    "jax": "JAX",
}
"""The libraries' names in headings; others appear under their given name."""

Work = tuple[str, str, str]
"""Shape, pass and type."""
Column = tuple[str, str]
"""Subject and mode."""


@dataclass(frozen=True)
class Row:
    """The runs of one work by column; columns without a run in the record are missing."""

    work: Work
    runs: dict[Column, Measurement]

    def own(self, mode: str) -> Measurement | None:
        """The dmlpy run that a peer's run in this mode is compared with: in the same mode, or in dmlpy's only one.

        The words after the first, which name a peer's kernels, are ignored.
        """
        own_runs = [run for (subject, _), run in self.runs.items() if subject == OWN and run.status == "ok"]
        same = [run for run in own_runs if run.mode == mode.partition(" ")[0]]
        return same[0] if same else own_runs[0] if len(own_runs) == 1 else None

    def ratio(self, column: Column) -> float | None:
        """A peer's median over dmlpy's; None for dmlpy itself, and if either has no time."""
        run, own_run = self.runs.get(column), self.own(column[1])
        if column[0] == OWN or run is None or own_run is None or run.median_us is None or own_run.median_us is None:
            return None
        return run.median_us / own_run.median_us

    def over_floor(self) -> float | None:
        """dmlpy's least median over the roofline."""
        own_runs = [run for (subject, _), run in self.runs.items() if subject == OWN]
        medians = [run.median_us for run in own_runs if run.median_us is not None]
        floor = floor_us(self.runs.values())
        return min(medians) / floor if medians and floor else None

    def over_estimate(self) -> float | None:
        """dmlpy's least median over its cost model's prediction."""
        own_runs = [run for (subject, _), run in self.runs.items() if subject == OWN and run.estimate_us is not None]
        ratios = [run.median_us / run.estimate_us for run in own_runs if run.median_us is not None and run.estimate_us]
        return min(ratios, default=None)


def rows(record: Record) -> list[Row]:
    """The rows of the table, in the order of the record's runs."""
    runs_of: dict[Work, dict[Column, Measurement]] = {}
    for run in record.runs:
        runs_of.setdefault((run.shape, run.pass_, run.dtype), {})[run.subject, run.mode] = run
    return [Row(work, runs) for work, runs in runs_of.items()]


def columns(record: Record) -> list[Column]:
    """The columns, dmlpy's first. A library absent from every run for the same reason appears in `reasons` only."""
    every_column = dict.fromkeys((run.subject, run.mode) for run in record.runs)
    shown = [column for column in every_column if column[0] == OWN or not _absent(record, column[0])]
    return sorted(shown, key=lambda column: column[0] != OWN)


def _absent(record: Record, subject: str) -> bool:
    runs = [run for run in record.runs if run.subject == subject]
    return all(run.status == "absent" for run in runs) and len({run.reason for run in runs}) == 1


def library_name(record: Record, subject: str) -> str:
    """The library's name with the measured version, if the record has it."""
    name, version = NAMES.get(subject, subject), record.versions.get(subject)
    limit = "" if is_limited(subject, record.host.max_isa) else f" (not limited to {record.host.max_isa})"
    return (f"{name} {version}" if version else name) + limit


def isa_text(record: Record) -> str:
    """A sentence that says which instructions the libraries took; empty if they were not limited."""
    if record.host.max_isa is None:
        return ""
    limited = [f"{NAMES.get(subject, subject)} (which reports {text})" for subject, text in record.instruction_sets.items()]
    others = {subject for subject, _ in columns(record)} - record.instruction_sets.keys()
    limited += [NAMES.get(subject, subject) for subject in sorted(others) if is_limited(subject, record.host.max_isa)]
    free = [NAMES.get(subject, subject) for subject in sorted(others) if not is_limited(subject, record.host.max_isa)]
    more = f"; not limited, for lack of a setting: {', '.join(free)}" if free else ""
    return f"Limited to {record.host.max_isa}: {', '.join(limited)}{more}."


def headings(record: Record) -> list[str]:
    """The headings of the columns, with the mode if there are several."""
    shown = columns(record)
    several = len({mode for _, mode in shown}) > 1
    return [library_name(record, subject) + (f", {mode}" if several else "") for subject, mode in shown]


def time_text(us: float, unit_of: float | None = None) -> str:
    """Formats three digits and a unit; with `unit_of` the number alone, in that time's unit."""
    scale, unit = next((scale, unit) for scale, unit in ((1e6, "s"), (1e3, "ms"), (1.0, "µs")) if (unit_of or us) >= scale or scale == 1)
    value = us / scale
    digits = 0 if value >= 99.95 else 1 if value >= 9.995 else 2
    return f"{value:.{digits}f}" + ("" if unit_of else f" {unit}")


def cell(row: Row, column: Column, notes: dict[str, int], *, brief: bool) -> str:
    """The text of a run's cell. The reason for a missing time is added to `notes`, which numbers the reasons.

    With `brief` it is Markdown and one number: the ratio, bold where the library is faster than dmlpy, or the median if there is none.
    """
    run = row.runs.get(column)
    if run is None:
        return ""
    if run.status != "ok" or run.median_us is None:
        name = NAMES.get(run.subject, run.subject)
        return f"{run.status} [{notes.setdefault(f'{name}: {run.reason}', len(notes) + 1)}]"
    text, ratio = time_text(run.median_us), row.ratio(column)
    if brief:
        return text if ratio is None else f"**{ratio:.2f}×**" if ratio < 1 else f"{ratio:.2f}×"
    if run.p10_us is not None and run.p90_us is not None:
        text += f" ({time_text(run.p10_us, run.median_us)}–{time_text(run.p90_us, run.median_us)})"
    return text if ratio is None else f"{text}, {ratio:.2f}×"


def _cells(record: Record, *, brief: bool = False) -> tuple[list[str], list[list[str]], list[str]]:
    """The headings, rows and notes. The type has a separate column if the record has more than one."""
    table_rows, shown, notes = rows(record), columns(record), dict[str, int]()
    typed = len({row.work[2] for row in table_rows}) > 1
    judged = {
        heading: judge
        for heading, judge in {"dmlpy over floor": Row.over_floor, "dmlpy over its model's estimate": Row.over_estimate}.items()
        if any(judge(row) is not None for row in table_rows)
    }
    head = ["shape", "pass", *(["type"] if typed else []), *headings(record), *judged]
    body = []
    for row in table_rows:
        shape, which, dtype = row.work
        last = [f"{over:.1f}×" if (over := judge(row)) is not None else "" for judge in judged.values()]
        body.append([shape, which, *([dtype] if typed else []), *(cell(row, column, notes, brief=brief) for column in shown), *last])
    below = [f"[{number}] {reason}" for reason, number in notes.items()]
    for subject in dict.fromkeys(run.subject for run in record.runs):
        if subject not in {name for name, _ in shown}:
            reason = next(run.reason for run in record.runs if run.subject == subject)
            below.append(f"{NAMES.get(subject, subject)} is absent: {reason}")
    if record.machine.was_busy:
        spread = f"{record.machine.rate_spread:.1f}"
        below.append(f"the machine was busy while its rates were measured: they differ by a factor of {spread}, so floors are rough")
    return head, body, below


def table(record: Record) -> Table:
    """The table for a terminal; work that dmlpy computed wrongly, or not at all, is marked."""
    head, body, _ = _cells(record)
    broken = {
        index
        for index, row in enumerate(rows(record))
        if any(run.status in ("wrong", "failed") for (subject, _), run in row.runs.items() if subject == OWN)
    }
    return Table("", tuple(head), tuple(map(tuple, body)), frozenset(broken))


def reasons(record: Record) -> list[str]:
    """The notes below the table: why times and columns are missing."""
    return _cells(record)[2]


def markdown(record: Record) -> str:
    """The table and the lines below it."""
    head, body, below = _cells(record, brief=True)
    lines = [markdown_line(head), markdown_line(["---"] * len(head)), *map(markdown_line, body)]
    return "\n".join([*lines, *([""] if below else []), *(f"- {_escape(line)}" for line in below)])


def memory_markdown(record: Record) -> str:
    """The peak memory of training passes, for libraries that report it; empty if none does."""
    training_rows = [row for row in rows(record) if row.work[1] == "training"]
    peaks = {column: [_peak(row, column) for row in training_rows] for column in columns(record)}
    peaks = {column: paragraphs for column, paragraphs in peaks.items() if any(paragraphs)}
    body = [
        [f"{shape}, {dtype}", *cells]
        for (shape, _, dtype), *cells in zip((row.work for row in training_rows), *peaks.values(), strict=True)
    ]
    if not peaks:
        return ""
    names = dict(zip(columns(record), headings(record), strict=True))
    head = ["peak memory in training, beyond inputs and parameters", *(names[column] for column in peaks)]
    return "\n".join([markdown_line(head), markdown_line(["---"] * len(head)), *(markdown_line(line) for line in body if any(line[1:]))])


def _peak(row: Row, column: Column) -> str:
    run = row.runs.get(column)
    return f"{run.peak_bytes / 1e6:.0f} MB" if run is not None and run.peak_bytes is not None else ""


def goals_text(record: Record) -> str:
    """In how many rows dmlpy is at least as fast as the fastest other library, and the other rows; empty without another library.

    If it was also measured on one thread: in how many rows all threads take at most a tenth more.
    """
    table_rows = rows(record)
    fastest = {row.work: beside for row in table_rows if (beside := _beside_fastest(row, record.host.max_isa)) is not None}
    alone = {row.work: (1 / ratio, ONE_THREAD) for row in table_rows if (ratio := row.ratio((ONE_THREAD, "eager")))}
    paragraphs = [
        _goal_text(fastest, 1.0, "rows with another library", "the time of the fastest of them"),
        _goal_text(
            alone, MOST_OVER_ONE_THREAD, "rows that were measured on one thread, too,", f"{MOST_OVER_ONE_THREAD:g} times its time there"
        ),
    ]
    return "\n\n".join(filter(None, paragraphs))


def _goal_text(ratios: dict[Work, tuple[float, str]], most: float, which: str, goal: str) -> str:
    if not ratios:
        return ""
    slower = sorted(((*slowest, work) for work, slowest in ratios.items() if slowest[0] > most), reverse=True)
    paragraphs = f"In {len(ratios) - len(slower)} of the {len(ratios)} {which} dmlpy takes at most {goal}"
    return paragraphs + (f"; it takes more in {', '.join(map(_slower_text, slower))}." if slower else ".")


def _beside_fastest(row: Row, max_isa: str | None) -> tuple[float, str] | None:
    """dmlpy's median over that of the fastest other library limited to the same instructions, and its name; None if none has a time."""
    others = [column for column in row.runs if not column[0].startswith(OWN) and is_limited(column[0], max_isa)]
    ratios = [(1 / ratio, column[0]) for column in others if (ratio := row.ratio(column))]
    return max(ratios, default=None)


def _slower_text(slowest: tuple[float, str, Work]) -> str:
    ratio, subject, (shape, which, dtype) = slowest
    return f"{shape} {which} {dtype} ({ratio:.2f}× that of {NAMES.get(subject, subject)})"


def conditions(record: Record) -> list[str]:
    """The conditions of GPU results: the card and its clocks, its rates, and the launch overhead."""
    device, machine = record.device, record.machine
    driver = device.get("driver_version") or device.get("CUDA driver, runtime", "").partition(",")[0]
    clocks = [f"{device[key]} {text}" for key, text in (("clocks.sm", "at work"), ("clocks.max.sm", "at most")) if key in device]
    paragraphs = [", ".join(filter(None, [device.get("name"), f"driver {driver}" if driver else "", *clocks]))]
    rates = [f"a copy of 1 GiB: {machine.copy_gb_s / 1e3:.2f} TB/s read and written"] if machine.copy_gb_s is not None else []
    rates += [f"a product of {product}: {rate / 1e3:.0f} TFLOP/s" for product, rate in machine.gemm_gflops.items()]
    starts = [f"{launches.NAMES.get(name, name)}: {us:.2f} µs" for name, us in machine.launch_us.items()]
    return [*paragraphs, *("; ".join(parts) for parts in (rates, starts) if parts)]


def listing(shapes: Sequence[Shape]) -> Table:
    """Lists shapes with their purposes. Operations and bytes are those of a forward pass, the bytes in the first type."""
    rows = []
    for shape in shapes:
        flops = shape.flops("forward")
        amounts = (f"{flops / 1e9:.3g}" if flops else "", f"{shape.bytes('forward', shape.dtypes[0]) / 1e6:.3g}")
        number = str(shape.number) if shape.number else ""
        rows.append((shape.key, number, shape.title, ", ".join(shape.dtypes), ", ".join(shape.passes), *amounts, shape.suite))
    return Table("Shapes", ("key", "model", "title", "types", "passes", "GFLOP", "MB", "suite"), tuple(rows))


def markdown_line(cells: list[str]) -> str:
    """A row of a Markdown table."""
    return f"| {' | '.join(map(_escape, cells))} |"


def _escape(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())
