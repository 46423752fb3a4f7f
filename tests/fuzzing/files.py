"""Fuzzes files: mutants of every kind that dmlpy reads, and large files made to cost as much as they can.

    python -m tests.fuzzing.files --seconds 60 --seed 1
    python -m tests.fuzzing.files --megabytes 10 --tries 0

Promises: a file of up to 10 MB is answered within 5 seconds of the processor's time and 500 MB of memory, with a result or with an error of
dmlpy's own, whose text is bounded. Files that broke one are stored in the folder that `--keep` names.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import dmlpy as dml
from tests.fuzzing import large, limited, mutants

if TYPE_CHECKING:
    from dmlpy.onnx.reporting.report import Like

SECONDS = 5.0
MEGABYTES = 500.0
MAX_TEXT = 5 * 10**6
"""Characters of a report's text."""

MAX_MODEL_TEXT = 30 * 10**6
"""The same of an ONNX model, which has a line or more for each node."""


def checked(path: Path) -> str:
    """`dmlpy check`, with everything that it can print."""
    from dmlpy.dxdispatch.checker import check_file

    report = check_file(path)
    shown = [report.text(), json.dumps(report.to_dict())]
    for finding in report.findings[:50]:
        if finding.table is not None:
            shown += [finding.table.to_text(), finding.table.to_html()]
    assert sum(map(len, shown)) < MAX_TEXT, f"{sum(map(len, shown))} characters are told"
    return report.findings[0].problems[0].code if report.findings else "accepted"


def parsed(path: Path) -> str:
    """A desc and a graph from JSON, by the classes themselves; then all that can be asked of what is accepted."""
    data, told = path.read_bytes(), []
    for read in (dml.OperatorDesc.from_json, dml.Graph.from_json):
        try:
            found = read(data)
        except dml.DescError as error:
            refused = error
            told.append(refused.problems[0].code)
        else:
            assert type(found).from_json(found.to_json()) == found, "it is read as another"
            problems = dml.check(found) if isinstance(found, dml.OperatorDesc) else found.check()
            assert len(str(found)) + sum(len(str(problem)) for problem in problems) < MAX_TEXT, "its text is long"
            return "accepted"
    assert len(str(refused)) < MAX_TEXT, f"{len(str(refused))} characters are told"
    return told[0]


def filled(path: Path) -> str:
    """A model with one resource that a file fills: checked, and filled as in a run."""
    from dmlpy.dxdispatch import Folders, load

    values = {"sourcePath": path.name}
    resource = {"initialValuesDataType": "FLOAT32", "initialValues": values} if path.suffix != ".npy" else {"initialValues": values}
    model = path.with_name("model.json")
    model.write_text(json.dumps({"resources": {"x": resource}, "dispatchables": {}, "commands": []}))
    loaded = load(model, Folders((path.parent,), path.parent))
    for found in loaded.resources.values():
        found.data()
    return "accepted"


def loaded_model(path: Path) -> str:
    """A model from a file of safetensors; then its weights for another model."""
    from dmlpy.keras.model_files import load_model
    from dmlpy.keras.models import Sequential
    from dmlpy.keras.simple import Dense

    try:
        load_model(path, device="numpy")
    except dml.DmlError as error:
        refused = str(error)
    else:
        return "accepted"
    assert len(refused) < MAX_TEXT, f"{len(refused)} characters are told"
    Sequential([Dense(3, input_dim=4)], device="numpy").load_weights(path)
    return "accepted as weights alone"


def imported(path: Path) -> str:
    """A layer from an ONNX model; what onnx itself does not read is not a file of dmlpy's."""
    import onnx
    from google.protobuf.message import DecodeError

    from dmlpy.keras.onnx_importer import from_onnx

    try:
        model = onnx.load_model_from_string(path.read_bytes())
    except (DecodeError, ValueError):
        return "not read by onnx"
    from_onnx(model)
    return "accepted"


def modelled(path: Path, like: Like = "dmlpy") -> str:
    """`dmlpy onnx check`, with everything that it can print."""
    from dmlpy.cli import onnx_models
    from dmlpy.validation.checking import LATEST

    outcome, report = onnx_models.check_onnx(path, LATEST, like=like)
    shown = [outcome.text(), onnx_models.as_json([(outcome, report)])]
    if report is not None:
        shown += [report.table().to_text(), *report.summary(), *report.reasons()]
    assert sum(map(len, shown)) < MAX_MODEL_TEXT, f"{sum(map(len, shown))} characters are told"
    return "accepted" if report is not None else outcome.findings[0].problems[0].code


def predicted(path: Path) -> str:
    """The same as ONNX Runtime's DirectML provider is predicted to run the model."""
    return modelled(path, "onnxruntime")


def compiled(path: Path) -> str:
    """An ONNX model, compiled for NumPy, as far as its sizes are known."""
    from dmlpy import onnx

    onnx.load(path).compile("numpy")
    return "accepted"


def recorded(path: Path) -> str:
    """A record of `dmlpy bench`."""
    from dmlpy.bench.records import Record

    Record.load(path)
    return "accepted"


TRIES: dict[str, Callable[[Path], str]] = {
    "npy": filled,
    "npz": filled,
    "png": filled,
    "jpg": filled,
    "raw": filled,
    "json": checked,
    "bin": checked,
    "safetensors": loaded_model,
    "onnx": imported,
    "model": modelled,
    "prediction": predicted,
    "generated": modelled,
    "generated prediction": predicted,
    "generated compiled": compiled,
    "record": recorded,
    "generated json": checked,
    "generated desc": parsed,
}
"""What is done with a file, by kind."""
GENERATED = ("generated", "generated prediction", "generated compiled")
"""The kinds whose files are made from the schemas of ONNX's operators."""
SUFFIXES = {
    "npz": "npy",
    "generated json": "json",
    "generated desc": "json",
    **dict.fromkeys(("model", "prediction", *GENERATED), "onnx"),
    "record": "json",
    "raw": "dat",
}
"""Of kinds whose files have another suffix than the kind's name."""


class FuzzRun:
    """Tries of one run, with what they found."""

    def __init__(self, folder: Path, keep: Path | None, seconds: float) -> None:
        self.folder, self.keep = folder, keep
        self.child = limited.Child("tests.fuzzing.files", seconds, MEGABYTES)
        self.told: Counter[str] = Counter()
        self.tries = 0
        self.finds: list[str] = []

    def take(self, kind: str, name: str, data: bytes) -> limited.Outcome:
        """One try with a file of these bytes."""
        path = self.folder / f"x.{SUFFIXES.get(kind, kind)}"
        path.write_bytes(data)
        outcome = self.child.answer(kind, path)
        self.tries += 1
        self.told[f"{kind} {outcome.told}"] += 1
        if outcome.broken:
            self.finds.append(f"{kind} {name}: {outcome.told}")
            if self.keep is not None:
                self.keep.mkdir(parents=True, exist_ok=True)
                shutil.copy(path, self.keep / f"{len(self.finds)}{path.suffix}")
        return outcome


def main(argv: Sequence[str] | None = None) -> int:
    """The program; returns its exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=0, help="of mutants, shared among the kinds")
    parser.add_argument("--tries", type=int, default=100, help="mutants of each kind, where --seconds is not given")
    parser.add_argument("--kinds", nargs="*", choices=list(TRIES), default=list(TRIES))
    parser.add_argument("--megabytes", type=float, default=0, help="also the large files, of this size")
    parser.add_argument("--limit", type=float, default=SECONDS, help="seconds of the processor's time that a try may take")
    parser.add_argument("--keep", type=Path, help="where files that broke a promise go")
    parser.add_argument("--child", type=float, help=argparse.SUPPRESS)
    asked = parser.parse_args(argv)
    if asked.child is not None:
        mutants.warm_up()
        limited.serve(TRIES, dml.DmlError, asked.child)
        return 0
    with tempfile.TemporaryDirectory() as name:
        fuzz = FuzzRun(Path(name), asked.keep, asked.limit)
        try:
            for kind in asked.kinds:
                _mutants(fuzz, kind, asked)
            if asked.megabytes:
                _large(fuzz, asked)
        finally:
            fuzz.child.end()
    for told, count in sorted(fuzz.told.items()):
        print(f"{count:6} {told}")
    print(f"{fuzz.tries} tries, {len(fuzz.finds)} broken promises (seed {asked.seed})")
    seen: Counter[str] = Counter()
    for find in fuzz.finds:
        seen[find.partition(": ")[2][:60]] += 1
        if seen[find.partition(": ")[2][:60]] <= 3:  # of one kind
            print(f"BROKEN {find}")
    return 1 if fuzz.finds else 0


def _mutants(fuzz: FuzzRun, kind: str, asked: argparse.Namespace) -> None:
    chance = random.Random(f"{asked.seed} {kind}")
    end = time.perf_counter() + asked.seconds / len(asked.kinds)
    made = mutants.of(kind, chance)
    number = 0
    while time.perf_counter() < end if asked.seconds else number < asked.tries:
        fuzz.take(kind, f"mutant {number} of seed {asked.seed}", next(made))
        number += 1


def _large(fuzz: FuzzRun, asked: argparse.Namespace) -> None:
    for name, (kind, make) in large.FILES.items():
        if kind in asked.kinds:
            fuzz.child.end()  # a new one, whose peak of memory is that of the file
            data = make(int(asked.megabytes * limited.MEGABYTE))
            found = fuzz.take(kind, name, data)
            size = f"{len(data) / limited.MEGABYTE:.1f} MB"
            print(f"{name:36} {size:>8} {found.seconds:6.2f} s {found.megabytes:6.0f} MB  {found.told[:60]}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
