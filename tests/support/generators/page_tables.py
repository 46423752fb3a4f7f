"""Tables and diagrams in the project's pages that are made from the code: `python -m tests.support.generators.pages` writes them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from dmlpy import debugging
from dmlpy.evidence.facts import FACT_CLASSES, facts
from dmlpy.evidence.undocumented import type_entries
from dmlpy.inspection import catalog
from tests.support.folders import DATA, TESTS
from tests.support.operators import accuracy
from tests.support.structure.layers import LAYERS

DEVICES = {"numpy": "NumPy", "cpu": "CPU", "cuda": "CUDA"}
"""The devices as columns of the table of operators, by name."""


def operators() -> str:
    """The number of operators of each family, and of those that each device runs, as a Markdown table."""
    entries = catalog.operators()
    head = ["family", "DirectML's", "dmlpy's own", *DEVICES.values()]
    rows = [_row(family, [entry for entry in entries if entry.kind.family() == family]) for family in catalog.families()]
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows, _row("**all**", entries)]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def _row(title: str, entries: Sequence[catalog.CatalogEntry]) -> list[str]:
    """The title and the counts; a count of zero is left blank."""
    own = sum(entry.kind.is_extension for entry in entries)
    counts = [len(entries) - own, own, *(sum(entry.runs_on[device] for entry in entries) for device in DEVICES)]
    return [title, *(str(count or "") for count in counts)]


def layers() -> str:
    """The layers of dmlpy as a Mermaid diagram, the highest first; an arrow points to the next layer below."""
    nodes = [f'    L{level}["{" · ".join(sorted(names))}"]\n' for level, names in reversed(list(enumerate(LAYERS)))]
    arrows = " --> ".join(f"L{level}" for level in reversed(range(len(LAYERS))))
    return f"```mermaid\nflowchart TD\n{''.join(nodes)}    {arrows}\n```\n"


def debug_topics() -> str:
    """The topics of `DMLPY_DEBUG`, each with what is logged."""
    return "| topic | what is logged |\n|---|---|\n" + "".join(f"| `{topic}` | {text} |\n" for topic, text in debugging.TOPICS.items())


def fact_counts() -> str:
    """The number of facts of each family and class, as a Markdown table."""
    families = sorted({fact.id.rpartition("-")[0] for fact in facts()})
    counts = Counter((fact.id.rpartition("-")[0], fact.kind) for fact in facts())
    rows = [[family, *(str(counts[family, kind] or "") for kind in FACT_CLASSES)] for family in families]
    total = ["**all**", *(str(sum(counts[family, kind] for family in families)) for kind in FACT_CLASSES)]
    head = ["family", *(f"`{kind}`" for kind in FACT_CLASSES)]
    lines = [head, ["---", *["---:"] * len(FACT_CLASSES)], *rows, total]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def _open_facts(kind: str) -> str:
    """The facts of a class with what dmlpy does, as a Markdown table."""
    rows = [(fact.id, ", ".join(fact.operators), fact.text, fact.reason) for fact in facts() if fact.kind == kind]
    head = "| fact | operators | what is shown | what dmlpy does |\n|---|---|---|---|\n"
    return head + "".join(f"| {' | '.join(cell.replace('|', '&#124;').replace('*', '&#42;') for cell in row)} |\n" for row in rows)


def facts_that_differ() -> str:
    """The facts where dmlpy does something else by choice."""
    return _open_facts("differs")


def facts_in_question() -> str:
    """The facts that the sources do not decide."""
    return _open_facts("question")


def undocumented_types() -> str:
    """The types of programs' tables that Microsoft's pages do not list, with the decisions."""
    rows = [
        (
            f"{entry.operator} {entry.field}: {entry.listed()}",
            entry.span(),
            entry.source.name,
            entry.decision,
            " ".join(entry.reason.split()),
        )
        for entry in type_entries()
    ]
    head = "| types | levels | listed by | decision | reason |\n|---|---|---|---|---|\n"
    return head + "".join(f"| {' | '.join(row)} |\n" for row in rows)


def dask_scaling() -> str:
    """The record of `dmlpy.dask.scaling`; Dask is imported only where the table is made."""
    from dmlpy.dask import scaling

    return scaling.markdown(json.loads(scaling.RECORD.read_text("utf-8")))


def thinc_layers() -> str:
    """The record of `tests.benchmarks.thinc_layers`: times, and how many times dmlpy's the other ones are."""
    record = json.loads((TESTS / "benchmarks" / "records" / "thinc_layers.json").read_text("utf-8"))
    subjects = list(dict.fromkeys(row["subject"] for row in record["rows"]))
    times = {(row["shape"], row["pass"], row["subject"]): row for row in record["rows"]}
    made = ", ".join(f"{name} {number}" for name, number in record["versions"].items())
    threads = "1 thread" if record["threads"] == 1 else f"{record['threads']} threads"
    lines = [f"{record['date'][:10]}, {threads}, time {record['time']}, the machine's load {record['load'][0]:.0f}; {made}.\n\n"]
    lines.append(f"| layer | pass | {' | '.join(subjects)} |\n|---|---|{'---:|' * len(subjects)}\n")
    for shape, which in dict.fromkeys((row["shape"], row["pass"]) for row in record["rows"]):
        cells = []
        for subject in subjects:
            row = times[shape, which, subject]
            ratio = "" if row["times_dmlpy"] == 1 else f", {row['times_dmlpy']:.2f}×"
            cells.append(f"{row['best_us'] / 1e3:.2f} ms{ratio}")
        lines.append(f"| {shape} | {which} | {' | '.join(cells)} |\n")
    return "".join(lines)


def onnx_node_tests() -> str:
    """ONNX's node tests that pass, by operator: all of them, and those of operators of which dmlpy does not pass every case."""
    own = json.loads((DATA / "onnx_node_cases.json").read_text("utf-8"))
    peer = json.loads((DATA / "onnx_runtime_node_cases.json").read_text("utf-8"))
    outcomes = (
        dict.fromkeys(own["pass"], "pass") | dict.fromkeys(own["folded"], "folded") | {name: one[0] for name, one in own["others"].items()}
    )
    counts: dict[str, Counter[str]] = {}
    for name, (operator, theirs, _) in peer["cases"].items():
        for row in ("**all**", operator):
            counts.setdefault(row, Counter()).update(["cases", outcomes[name], f"peer {theirs}"])
    columns = ("cases", "pass", "folded", "deferred", "host", "nowhere", "wrong", "peer pass", "peer refused", "peer wrong")
    names = ("cases", "on DirectML's operators", "known ahead", "compiled late", "a node on the host", "nowhere", "other results")
    theirs = (f"ONNX Runtime {peer['onnxruntime']} passes", "refuses", "has other results")
    lines = [["operator", *names, *theirs], ["---", *["---:"] * len(columns)]]
    for operator, found in sorted(counts.items()):
        if found["pass"] + found["folded"] < found["cases"]:
            lines.append([operator, *(str(found[column] or "") for column in columns)])
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


TABLES: Mapping[str, Callable[[], str]] = {
    "debug-topics": debug_topics,
    "accuracy": accuracy.table,
    "operators": operators,
    "layers": layers,
    "facts": fact_counts,
    "facts-that-differ": facts_that_differ,
    "facts-in-question": facts_in_question,
    "undocumented-types": undocumented_types,
    "dask-scaling": dask_scaling,
    "onnx-node-tests": onnx_node_tests,
    "thinc-layers": thinc_layers,
}
"""What makes each table, by the name that the pages give it."""
