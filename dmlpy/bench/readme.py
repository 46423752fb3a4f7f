"""Writes the results and pictures of records into README files: `python -m dmlpy.bench.readme [--check] [FILE ...]`.

The text between `<!-- bench: NAME -->` and `<!-- end -->` is generated from records/NAME.json, and records/NAME.svg is redrawn if it shows
another record. `<!-- bench: NAME goals -->` lists the rows that meet the goal, and `predictions` is the name of the cost model's
predictions. With `--check` nothing is written: the exit status is 0 if all is up to date. The default files are
the README.md of this folder and the one in the records' folder.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

from dmlpy.bench import picture, predictions, tables
from dmlpy.bench.operators import report
from dmlpy.bench.records import Record
from dmlpy.messages.naming import plural

RECORDS = Path(__file__).parent / "records"
READMES = (Path(__file__).with_name("README.md"), RECORDS / "README.md")
BLOCK = re.compile(
    r"^(?P<start><!-- bench: (?P<name>[a-z0-9_-]+)(?P<goals> goals)? -->)\n(?P<text>.*?)^<!-- end -->$", re.MULTILINE | re.DOTALL
)
START = "<!-- bench: "
FOLDER = "dmlpy/bench/records"
"""The folder of the records from a checkout's root, for commands."""
COMMANDS = {
    "cpu": "--device cpu ",
    "cpu-load": "--device cpu --load 2 ",
    "cuda": "--device cuda ",
    "operators": "--operators --device cpu ",
    "operators-avx2": "--operators --device cpu --max-isa AVX2 ",
    "operators-float16": "--operators --device cpu --dtype float16 --scale 0.25 --scale 1 --scale 4 ",
    "operators-int8": "--operators --device cpu --dtype int8 --scale 0.25 --scale 1 --scale 4 ",
    "operators-sizes": "--operators --device cpu --scale 0.25 --scale 4 ",
}
"""The options of the command that makes a record, by the record's name."""
EXPLAINED = (
    "dmlpy's median time, and the other libraries' medians relative to it for the same work: above 1 dmlpy is faster, **below 1** slower. "
    "The record has their times with the 10th and 90th percentiles."
)
QUOTIENTS = "The quotients of times are dmlpy's divided by the other library's: below 1 dmlpy is faster."


def block(name: str, records: Path) -> str:
    """The README's block about a record: its conditions, the tables, the picture. Without a record it says how to make one."""
    path = records / f"{name}.json"
    if name == predictions.NAME:
        return predictions.markdown(predictions.Predictions.load(path))
    if not path.is_file():
        missing = f"No speed has been recorded on a {'GPU' if name == 'cuda' else 'processor'}"
        return f"{missing} yet; `dmlpy bench {COMMANDS.get(name, '')}--save {FOLDER}/{name}.json` makes the record.\n"
    record = Record.load(path)
    operators, layers = report.parts(record)
    paragraphs = [*(_layers(layers, name) if layers.runs else []), *(_operators(operators) if operators.runs else [])]
    if record.device.get("kind") == "cuda":
        paragraphs.insert(0, "\n".join(f"- {line}" for line in tables.conditions(record)))
    if record.left_out:
        paragraphs.append(f"Left out: {', '.join(record.left_out)}.")
    return "\n\n".join(paragraphs) + "\n"


def _layers(record: Record, name: str) -> list[str]:
    """The paragraphs about layers and normalizations."""
    paragraphs = [f"{_where(record)} {EXPLAINED}", tables.markdown(record)]
    if memory := tables.memory_markdown(record):
        paragraphs.append(memory)
    if picture.lines(record):
        paragraphs.append(f"![The time of each library relative to dmlpy's, a line for each shape and pass]({RECORDS.name}/{name}.svg)")
    return paragraphs


def _operators(record: Record) -> list[str]:
    """The paragraphs about single operators."""
    return [f"{_where(record)} {_conditions(record)} {QUOTIENTS}", *filter(None, [report.goal_text(record)]), report.markdown(record)]


def goals(name: str, records: Path) -> str:
    """How a record compares with its goal."""
    path = records / f"{name}.json"
    if not path.is_file():
        return "Not measured yet.\n"
    operators, layers = report.parts(Record.load(path))
    sentences = [tables.goals_text(layers)] if layers.runs else []
    if operators.runs:
        sentences.append(f"{_where(operators)} {_conditions(operators)} {report.goal_text(operators)}")
    return "\n\n".join(sentences) + "\n"


def _conditions(record: Record) -> str:
    """The conditions of the least times."""
    if record.device.get("kind") == "cuda":
        return f"Least times of {_rounds(record)} rounds."
    before, after = (
        " ".join(f"{average:.1f}" for average in loads) or "unknown" for loads in (record.host.load_before, record.host.load_after)
    )
    unit = "processor times" if record.host.threads == 1 and record.device.get("kind") == "cpu" else "times"
    return f"Least {unit} of {_rounds(record)} rounds. Load averages of 1, 5 and 15 minutes before: {before}, after: {after}."


def _rounds(record: Record) -> int:
    return max((run.rounds for run in record.runs if run.rounds is not None), default=0)


def _where(record: Record) -> str:
    names = {"numpy": "NumPy", "cupy": "CuPy"}
    own_versions = " and ".join(f"{name} {record.versions[key]}" for key, name in names.items() if key in record.versions)
    if record.device.get("kind") == "cuda":
        return f"{record.device_name}, {record.date[:10]}, dmlpy with {own_versions}."
    threads, loops = record.host.threads, record.host.busy_loops
    load = f", with {plural(loops, 'CPU-bound background process')}" if loops else ""
    where = f"{record.device_name}, {threads} thread{'s' * (threads > 1)}{load}, {record.date[:10]}, dmlpy with {own_versions}."
    return " ".join(filter(None, [where, tables.isa_text(record)]))


def rewritten(text: str, records: Path) -> str:
    """The text with its blocks updated from the records.

    Raises:
        ValueError: A block is not closed, or there is none.
    """
    opened, blocks = text.count(START), list(BLOCK.finditer(text))
    if not blocks or opened != len(blocks) or any(START in block["text"] for block in blocks):
        raise ValueError(
            f"there are {opened} lines {START}NAME --> and {len(blocks)} blocks that begin so and that a line <!-- end --> ends"
        )

    def replaced(match: re.Match[str]) -> str:
        inside = goals(match["name"], records) if match["goals"] else block(match["name"], records)
        return f"{match['start']}\n{inside}<!-- end -->"

    return BLOCK.sub(replaced, text)


def stale_pictures(text: str, records: Path) -> list[Path]:
    """The records shown in the text whose picture is missing or was drawn from another record."""
    stale = []
    for match in BLOCK.finditer(text):
        path = records / f"{match['name']}.json"
        if match["name"] != predictions.NAME and not match["goals"] and path.is_file() and picture.lines(Record.load(path)):
            drawn = path.with_suffix(".svg")
            if not drawn.is_file() or picture.hash_in(drawn.read_text("utf-8")) != picture.record_hash(path):
                stale.append(path)
    return stale


def main(arguments: list[str] | None = None) -> int:
    """Runs the command and returns its exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m dmlpy.bench.readme", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("files", nargs="*", type=Path, default=READMES, metavar="FILE")
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 if something is out of date")
    options = parser.parse_args(arguments)
    current = True
    for path in options.files:
        if not path.is_file():
            parser.error(f"there is no file {path}")
        try:
            current &= _update(path, write=not options.check)
        except ValueError as error:
            parser.error(f"{path}: {error}")
    return int(options.check and not current)


def _update(path: Path, *, write: bool) -> bool:
    """Returns whether a file and its pictures match the records; if not, writes them, or reports it."""
    text = path.read_text("utf-8")
    wanted, stale = rewritten(text, RECORDS), stale_pictures(text, RECORDS)
    for record in stale:
        drawn = record.with_suffix(".svg")
        if write:
            drawn.write_text(picture.draw(Record.load(record), picture.record_hash(record)), "utf-8", newline="\n")
        else:
            print(f"{drawn} was not drawn from {record.name}")
    if wanted != text:
        if write:
            path.write_text(wanted, "utf-8", newline="\n")
        else:
            print(f"{path} is not what the records say")
    return wanted == text and not stale


if __name__ == "__main__":
    sys.exit(main())
