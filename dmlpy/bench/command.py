"""The body of `dmlpy bench`: from the words of the command line to a record."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, get_args

import dmlpy as dml
from dmlpy.bench import tables
from dmlpy.bench.measure import Benchmark, Options, cases_of
from dmlpy.bench.operators import report
from dmlpy.bench.operators.shape import OperatorShape
from dmlpy.bench.operators.shape import select as select_operators
from dmlpy.bench.records import Record
from dmlpy.bench.shapes import DataType, Shape, select
from dmlpy.bench.subjects import OPERATORS_OWN, OPERATORS_PEERS, OWN, PEERS, Peer
from dmlpy.description.naming import nearest
from dmlpy.devices.processors import processors
from dmlpy.inspection.render import Table
from dmlpy.validation.problems import DmlError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path


@dataclass(frozen=True)
class Asked:
    """The command line's request; an empty field leaves the choice to the device, or means all.

    Attributes:
        device: a name, or None for a GPU if one answers, else cpu.
        shapes: patterns of keys.
        peers: names; None for no peers.
        pythons: `NAME=PATH` of interpreters.
        threads: the threads of each library on the processor; 0 means all cores, None all cores, but 1 for single operators.
        load: busy loops that the benchmark runs beside the libraries.
        add: whether the runs of a record that is there already are kept.
        seconds: after which no other case is begun; None for no such end.
        operators: names of single operators to measure instead of shapes, none for all; None for shapes.
    """

    device: str | None = None
    shapes: Sequence[str] = ()
    dtypes: Sequence[str] = ()
    passes: Sequence[str] = ()
    peers: Sequence[str] | None = ()
    pythons: Sequence[str] = ()
    rounds: int = 15
    threads: int | None = None
    limit_s: float = 300.0
    slope: bool = False
    load: int = 0
    add: bool = False
    seconds: float | None = None
    operators: Sequence[str] | None = None


def listed(asked: Asked) -> list[Table]:
    """Lists the shapes that would be measured, and the libraries that dmlpy is compared with if they are installed."""
    device = dml.device(asked.device)
    peers = Table("Peers", ("name", "what"), tuple((peer.name, peer.help) for peer in _peers(asked, device)))
    if asked.operators is not None:
        return [report.listing(_operators(asked)), peers]
    return [tables.listing(_shapes(asked, device)), peers]


def shown(record: Record) -> tuple[Table, list[str]]:
    """A record as a table with its notes."""
    if report.of_operators(record):
        return report.shown(record)
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
    shapes: Sequence[Shape] = _shapes(asked, device) if asked.operators is None else _operators(asked)
    cases = list(cases_of(shapes, _types(asked), _known(asked.passes, ("forward", "training"))))
    if not cases:
        raise DmlError("none of these shapes is measured in that type and pass: dmlpy bench --list shows what is")
    options = Options(
        peers=_peers(asked, device),
        own=OWN if asked.operators is None else OPERATORS_OWN,
        rounds=asked.rounds,
        threads=threads_of(asked),
        limit_s=asked.limit_s,
        slope=asked.slope,
        load=asked.load,
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


def _operators(asked: Asked) -> list[OperatorShape]:
    try:
        return select_operators(asked.operators or (), _types(asked))
    except ValueError as error:
        raise DmlError(str(error)) from error


def _types(asked: Asked) -> list[DataType]:
    return [name for name in get_args(DataType) if name in _known(asked.dtypes, get_args(DataType))]


def threads_of(asked: Asked) -> int:
    """The threads of each library on the processor."""
    if asked.threads is None and asked.operators is not None:
        return 1
    return asked.threads or processors()


def _known(asked: Sequence[str], known: Sequence[str]) -> list[str]:
    """Names in any case, in the spelling used here."""
    spelled = {name.lower(): name for name in known}
    return [spelled[_checked(name.lower(), spelled)] for name in asked]


def _peers(asked: Asked, device: dml.Device) -> list[Peer]:
    every = PEERS if asked.operators is None else OPERATORS_PEERS
    peers = {peer.name: peer for peer in every if peer.stands_beside(device, asked.load)}
    if asked.peers is None:
        return []
    return [peers[_checked(name, peers)] for name in asked.peers] or list(peers.values())


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
