"""The body of `dmlpy bench`: from the words of the command line to a record."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, get_args

import dmlpy as dml
from dmlpy.bench import tables, worth
from dmlpy.bench.measure import Benchmark, Options, cases_of
from dmlpy.bench.operators import report
from dmlpy.bench.operators.shape import LargeShape, OperatorShape
from dmlpy.bench.operators.shape import select as select_operators
from dmlpy.bench.records import Record
from dmlpy.bench.references import References
from dmlpy.bench.shapes import DataType, Shape, select
from dmlpy.bench.subjects import GPU_PEERS, OPERATORS_OWN, OPERATORS_PEERS, OWN, PEERS, Peer
from dmlpy.devices.processors import processors
from dmlpy.files import write_text
from dmlpy.messages.naming import nearest
from dmlpy.messages.problems import DmlError
from dmlpy.messages.tables import Table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from dmlpy.bench.work import Case


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
        operators: names of single operators to measure instead of shapes, none for all; None for shapes, and on a GPU for both.
        references: the file of results that were made beforehand.
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
    references: Path | None = None


@dataclass(frozen=True)
class Place:
    """Where would be measured, which need not be there to tell what."""

    memory_kind: str
    name: str


def place_of(device: str | None) -> Place:
    """The place of a device's name. A GPU need not be here.

    Raises:
        DmlError: there is no such device.
    """
    try:
        found = dml.device(device)
    except dml.DeviceError:
        if device is None or not re.fullmatch(r"cuda(:[0-9]{1,4})?", device.lower()):
            raise
        return Place("cuda", device.lower())
    return Place(found.memory_kind, found.name)


def listed(asked: Asked) -> list[Table]:
    """Lists what would be measured, and the libraries that dmlpy is compared with if they are installed."""
    place = place_of(asked.device)
    peers = Table("Peers", ("name", "what"), tuple((peer.name, peer.help) for peer in _peers(asked, place)))
    operators, layers = _operators(asked, place), _layers(asked, place)
    found = [tables.listing(layers)] if layers else []
    return [*found, *([report.listing(operators)] if operators else []), peers]


def shown(record: Record) -> list[tuple[Table, list[str]]]:
    """A record as tables with their notes: of layers, and of single operators."""
    operators, layers = report.parts(record)
    found = [(tables.table(layers), tables.reasons(layers))] if layers.runs or not operators.runs else []
    return [*found, *([report.shown(operators)] if operators.runs else [])]


def cases(asked: Asked, place: Place) -> list[Case]:
    """The cases that the command line requests, in the order in which they are measured.

    Raises:
        DmlError: something asked for does not exist.
    """
    shapes = [*_layers(asked, place), *_operators(asked, place)]
    found = list(cases_of(shapes, _types(asked), _known(asked.passes, ("forward", "training"))))
    if not found:
        raise DmlError("none of these shapes is measured in that type and pass: dmlpy bench --list shows what is")
    return worth.ordered(found) if place.memory_kind == "cuda" else found


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
    place = Place(device.memory_kind, device.name)
    chosen = cases(asked, place)
    options = Options(
        peers=_peers(asked, place),
        own=OWN if asked.operators is None and place.memory_kind == "cpu" else OPERATORS_OWN,
        rounds=asked.rounds,
        threads=threads_of(asked),
        limit_s=asked.limit_s,
        slope=asked.slope,
        load=asked.load,
        pythons=_pythons(asked.pythons),
        seconds=asked.seconds,
        references=None if asked.references is None else References.load(asked.references),
    )
    inform(f"{len(chosen)} cases on '{device.describe()['name']}', {options.rounds} rounds")
    before = Record.load(save) if asked.add and save is not None and save.exists() else None
    return Benchmark(device, options, inform, before).run(chosen, save)


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
        write_text(picture, draw(Record.load(record), record_hash(record)))
    except (ModuleNotFoundError, ValueError) as error:
        raise DmlError(str(error)) from error


def _layers(asked: Asked, place: Place) -> list[Shape]:
    """The layers and normalizations; none where single operators are asked for."""
    if asked.operators is not None:
        return []
    try:
        return select(asked.shapes, place.memory_kind)
    except ValueError as error:
        raise DmlError(str(error)) from error


def _operators(asked: Asked, place: Place) -> list[OperatorShape | LargeShape]:
    """The single operators; on a GPU they are measured with the layers, unless shapes or passes are chosen."""
    if asked.operators is None and (place.memory_kind == "cpu" or asked.shapes or asked.passes or asked.slope):
        return []
    try:
        return select_operators(asked.operators or (), _types(asked), place.memory_kind)
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


def _peers(asked: Asked, place: Place) -> list[Peer]:
    every = OPERATORS_PEERS if asked.operators is not None else GPU_PEERS if place.memory_kind == "cuda" else PEERS
    peers = {peer.name: peer for peer in every if peer.stands_beside(place, asked.load)}
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
