"""The body of `dmlpy bench`: from the words of the command line to a record."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import dmlpy as dml
from dmlpy.bench import machine, tables
from dmlpy.bench.measure import Benchmark, Options, cases_of
from dmlpy.bench.records import Record
from dmlpy.bench.shapes import Shape, select
from dmlpy.bench.subjects import OWN, PEERS, Peer
from dmlpy.description.naming import nearest
from dmlpy.inspection.render import Table
from dmlpy.validation.problems import DmlError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path


@dataclass(frozen=True)
class Asked:
    """The command line's request; an empty field leaves the choice to the device, or means all.

    Attributes:
        device: a name, or None for a GPU if one answers, else numpy.
        shapes: patterns of keys.
        peers: names; None for no peers.
        pythons: `NAME=PATH` of interpreters.
        threads: the threads of each library on the processor; 0 means all cores.
        add: whether the runs of a record that is there already are kept.
        seconds: after which no other case is begun; None for no such end.
    """

    device: str | None = None
    shapes: Sequence[str] = ()
    dtypes: Sequence[str] = ()
    passes: Sequence[str] = ()
    peers: Sequence[str] | None = ()
    pythons: Sequence[str] = ()
    rounds: int = 15
    threads: int = 0
    limit_s: float = 300.0
    slope: bool = False
    add: bool = False
    seconds: float | None = None


def listed(asked: Asked) -> list[Table]:
    """Lists the shapes that would be measured, and the libraries that dmlpy is compared with if they are installed."""
    device = dml.device(asked.device)
    peers = [(peer.name, peer.help) for peer in _peers(asked.peers, device)]
    return [
        tables.listing(_shapes(asked, device)),
        Table("Peers", ("name", "what"), tuple(peers)),
    ]


def shown(record: Record) -> tuple[Table, list[str]]:
    """A record as a table with its notes."""
    return tables.table(record), tables.reasons(record)


def run(asked: Asked, save: Path | None, inform: Callable[[str], None]) -> Record:
    """Measures what the command line requests.

    Args:
        asked: shapes, types, passes and subjects.
        save: the file of the record, rewritten after each case.
        inform: takes a line for people about each step.

    Raises:
        DmlError: something asked for does not exist; nothing was measured.
    """
    device = dml.device(asked.device)
    cases = list(
        cases_of(_shapes(asked, device), _known(asked.dtypes, ("FLOAT32", "FLOAT16")), _known(asked.passes, ("forward", "training")))
    )
    if not cases:
        raise DmlError("none of these shapes is measured in that type and pass: dmlpy bench --list shows what is")
    options = Options(
        peers=_peers(asked.peers, device),
        rounds=asked.rounds,
        threads=asked.threads or machine.available_cores(),
        limit_s=asked.limit_s,
        slope=asked.slope,
        pythons=_pythons(asked.pythons),
        seconds=asked.seconds,
    )
    inform(f"{len(cases)} cases on '{device.describe()['name']}', {options.rounds} rounds")
    before = Record.load(save) if asked.add and save is not None and save.exists() else None
    return Benchmark(device, options, inform, before).run(cases, save)


def is_complete(record: Record) -> bool:
    """Returns whether dmlpy completed and passed all that was begun, if anything was."""
    found = [run.status for run in record.runs if run.subject == OWN.name]
    return bool(found) and set(found) == {"ok"}


def write_picture(record: Path, picture: Path) -> None:
    """Draws the picture of a saved record.

    Raises:
        DmlError: matplotlib is missing, or there is nothing to draw.
    """
    from dmlpy.bench.picture import draw, record_hash

    try:
        picture.write_text(draw(Record.load(record), record_hash(record)), encoding="utf-8")
    except (ModuleNotFoundError, ValueError) as error:
        raise DmlError(str(error)) from error


def _shapes(asked: Asked, device: dml.Device) -> list[Shape]:
    try:
        return select(asked.shapes, device.memory_kind)
    except ValueError as error:
        raise DmlError(str(error)) from error


def _known(asked: Sequence[str], known: Sequence[str]) -> list[str]:
    """Names in any case, in the spelling used here."""
    spelled = {name.lower(): name for name in known}
    return [spelled[_checked(name.lower(), spelled)] for name in asked]


def _peers(names: Sequence[str] | None, device: dml.Device) -> list[Peer]:
    peers = {peer.name: peer for peer in PEERS if peer.stands_beside(device)}
    if names is None:
        return []
    return [peers[_checked(name, peers)] for name in names] or list(peers.values())


def _pythons(texts: Sequence[str]) -> Mapping[str, str]:
    found = {}
    for text in texts:
        name, equals, path = text.partition("=")
        if not equals or not path:
            raise DmlError(f"--python is {text!r}, expected NAME=PATH: the interpreter that a library is installed for")
        found[_checked(name, [peer.name for peer in PEERS])] = path
    return found


def _checked(name: str, known: Iterable[str]) -> str:
    names = list(known)
    if name not in names:
        close = nearest(name, names)
        raise DmlError(f"{name!r} is none of {', '.join(names)}" + (f"; did you mean {close!r}?" if close else ""))
    return name
