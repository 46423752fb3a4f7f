"""Records of `dmlpy conformance`: what DirectML itself accepts and computes. Those in the folder `directml` are shown by `dmlpy ops`.

A record has a line in the table for each operator, and the smallest desc of each kind of difference. It names no user and no folder.
"""

from __future__ import annotations

from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from dmlpy.messages.json_text import lay_out
from dmlpy.messages.naming import plural
from dmlpy.messages.problems import DmlError, Problem

FOLDER = Path(__file__).with_name("directml")
"""The records that dmlpy has: one file for each version of DirectML, `1.15.4.json`."""

Count = Annotated[int, Field(ge=0)]
Level = Annotated[str, Field(pattern=r"^\d_\d$")]
Text = Annotated[str, Field(max_length=2000)]


class Kind(StrEnum):
    """How DirectML and dmlpy differ, and how DirectML answers where dmlpy's sources disagree."""

    ACCEPTED = "DirectML accepts what dmlpy refuses"
    REFUSED = "DirectML refuses what dmlpy accepts"
    UNDOCUMENTED_ACCEPTED = "DirectML accepts what dmlpy calls undocumented"
    UNDOCUMENTED_REFUSED = "DirectML refuses what dmlpy calls undocumented"
    RESULT = "DirectML computes another result"
    FAILED = "DirectML accepts the desc, and running it fails"
    ENDED = "the process ended, or gave no answer in time"

    @property
    def is_disagreement(self) -> bool:
        """Whether dmlpy is wrong if DirectML is right: what dmlpy calls undocumented may be answered either way."""
        return self not in (Kind.UNDOCUMENTED_ACCEPTED, Kind.UNDOCUMENTED_REFUSED)


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Difference(_Model):
    """One kind of difference for an operator, with its smallest desc."""

    kind: Kind
    rule: Text
    """The code of the first problem that dmlpy reports, the call that DirectML refuses with its result, or the output that differs."""
    count: Annotated[int, Field(ge=1)]
    """The number of descs."""
    desc: dict[str, Any]
    """The smallest of them, as `OperatorDesc.to_dict` writes it."""
    messages: tuple[Text, ...] = ()
    """The debug layer's messages about it, or the error of the result."""


class Binding(_Model):
    """The descriptors and memory that a dispatch of an operator's sample needs."""

    descriptors: Count
    temporary_bytes: Count
    persistent_bytes: Count


class OperatorRecord(_Model):
    """An operator: the descs that were checked and run, and the differences."""

    checked: Count
    both_accept: Count
    both_refuse: Count
    confirmed: dict[str, Annotated[int, Field(ge=1)]]
    """The descs that both refuse, by the code of the first problem that dmlpy reports."""
    runs: Count
    """The descs that were run."""
    runs_agree: Count
    """The descs of `runs` whose results agree with `dmlpy.reference`."""
    left_out: Count
    """The descs that were neither checked nor run, as the time was over or the process had ended too often."""
    sample: Binding | None
    """The binding properties of the operator's sample, where DirectML accepts it."""
    differences: tuple[Difference, ...]


class LevelRecord(_Model):
    """A device that was created for a lower feature level."""

    opened: bool
    reason: Text = ""
    """Why it could not be created."""
    checked: Count
    differing: Count
    """The descs that it accepts and the device of the highest level does not, or the reverse."""
    smallest: dict[str, Any] | None = None
    """The smallest of these descs."""


class Record(_Model):
    """A run of `dmlpy conformance`."""

    format: Annotated[int, Field(ge=1, le=1)]
    date: Annotated[str, Field(pattern=r"^\d{4}-\d{2}-\d{2}$")]
    dmlpy: Text
    directml_version: Text
    """The version of DirectML.dll; empty if the file has none."""
    feature_level: Level
    """The highest feature level that dmlpy and DirectML both know, with which dmlpy checked the descs."""
    system: Text
    adapter: Text
    debug_layer: bool
    results_by: Annotated[str, Field(pattern="^(dmlpy|DxDispatch|pydirectml)$")]
    """Whose calls ran the operators."""
    endings: Count
    """How often the process that talks to DirectML ended, or was ended."""
    levels: dict[Level, LevelRecord]
    operators: dict[str, OperatorRecord]
    """By short name."""

    def to_json(self) -> str:
        """The text of the file."""
        return lay_out(self.model_dump(mode="json"))


def read(file: Path) -> Record:
    """Reads a record.

    Raises:
        DmlError: the file cannot be read, or it is not a record.
    """
    try:
        return Record.model_validate_json(file.read_bytes())
    except OSError as error:
        raise DmlError(str(file), [Problem("file.unreadable", "file", f"unreadable: {error.strerror}", "a file")]) from error
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"])) or "the file"
        raise DmlError(f"{file} is not a record of dmlpy conformance: {place}: {first['msg']}") from None


@cache
def stored() -> tuple[Record, ...]:
    """The records that dmlpy has, the newest DirectML first."""
    return tuple(sorted(map(read, FOLDER.glob("*.json")), key=lambda record: _numbers(record.directml_version), reverse=True))


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".") if part.isdigit())


def summary(short_name: str, records: tuple[Record, ...]) -> str:
    """The result of the newest record that has the operator; empty if there is none."""
    for record in records:
        if short_name in record.operators:
            operator_record = record.operators[short_name]
            differing = sum(difference.count for difference in operator_record.differences if difference.kind.is_disagreement)
            total = operator_record.checked + operator_record.runs
            outcome = f"{plural(differing, 'difference')} in {total}" if differing else f"agrees in all {total}"
            return f"{record.directml_version}: {outcome}"
    return ""
