"""The implementation of `dmlpy bench`: from the command line's options to a record."""

from __future__ import annotations

import platform
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, get_args

import dmlpy as dml
from dmlpy.bench import priorities, tables
from dmlpy.bench.instruction_sets import LIMITS, is_limited
from dmlpy.bench.libraries import GPU_PEERS, OF_OPERATORS, OPERATORS_OWN, OPERATORS_PEERS, OWN, PEERS, Peer
from dmlpy.bench.measure import Benchmark, Options, cases_of
from dmlpy.bench.operators import report
from dmlpy.bench.operators.shape import LargeShape, OperatorShape
from dmlpy.bench.operators.shape import select as select_operators
from dmlpy.bench.records import Record
from dmlpy.bench.references import References
from dmlpy.bench.shapes import DataType, Shape, select
from dmlpy.devices.cpu.isa import X86_64
from dmlpy.devices.host.processors import processors
from dmlpy.messages.naming import nearest
from dmlpy.messages.problems import DmlError
from dmlpy.messages.tables import Table
from dmlpy.system.files import status, write_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from dmlpy.bench.work import Case


_PASSES = ("forward", "training")


@dataclass(frozen=True)
class CommandOptions:
    """The command line's options; an empty field means the device's default, or all.

    Attributes:
        device: a name, or None for a usable GPU, else cpu.
        shapes: patterns of keys.
        peers: names; None for no peers.
        pythons: `NAME=PATH` of interpreters.
        threads: the threads of each library on the processor; 0 means all cores, None all cores, but 1 for single operators.
        load: CPU-bound background processes during the benchmark.
        add: whether to keep the runs of an existing record.
        seconds: after which no new case is started; None for no limit.
        operators: names of single operators to measure instead of shapes, empty for all; None for shapes, and on a GPU for both.
        references: the file of precomputed results.
        scales: the multiples of their usual size at which single operators are measured.
        max_isa: the instruction set that libraries are limited to; None for all that the processor has.
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
    scales: Sequence[float] = (1,)
    max_isa: str | None = None


@dataclass(frozen=True)
class Place:
    """A device to list cases for, which need not exist here."""

    memory_kind: str
    name: str


def place_of(device: str | None) -> Place:
    """The device of a name. A GPU need not exist here.

    Raises:
        DmlError: there is no such device.
    """
    try:
        opened = dml.device(device)
    except dml.DeviceError:
        if device is None or not re.fullmatch(r"cuda(:[0-9]{1,4})?", device.lower()):
            raise
        return Place("cuda", device.lower())
    return Place(opened.memory_kind, opened.name)


def list_cases(options: CommandOptions) -> list[Table]:
    """Lists the cases that would be measured, and the libraries that dmlpy is compared with if they are installed.

    Raises:
        DmlError: a type, a pass or another choice does not exist.
    """
    place = place_of(options.device)
    _types(options)
    _select_known(options.passes, _PASSES)
    peers = Table("Peers", ("name", "what"), tuple((peer.name, peer.help) for peer in _peers(options, place)))
    operators, layers = _operators(options, place), _layers(options, place)
    listings = [tables.listing(layers)] if layers else []
    return [*listings, *([report.listing(operators)] if operators else []), peers]


def check(options: CommandOptions) -> None:
    """Raises DmlError for shapes, types, passes, instruction sets and interpreters that do not exist."""
    place = place_of(options.device)
    _max_isa(options, place)
    cases(options, place)
    _pythons(options.pythons)


def format_tables(record: Record) -> list[tuple[Table, list[str]]]:
    """A record as tables with their notes: of layers, and of single operators."""
    operators, layers = report.parts(record)
    tables_with_notes = [(tables.table(layers), tables.reasons(layers))] if layers.runs or not operators.runs else []
    tables_with_notes += [report.format_table(operators)] if operators.runs else []
    return [(table, [*notes, *filter(None, [tables.isa_text(record)])]) for table, notes in tables_with_notes]


def cases(options: CommandOptions, place: Place) -> list[Case]:
    """The requested cases, in the order in which they are measured.

    Raises:
        DmlError: something requested does not exist.
    """
    shapes = [*_layers(options, place), *_operators(options, place)]
    chosen = list(cases_of(shapes, _types(options), _select_known(options.passes, _PASSES)))
    if not chosen:
        raise DmlError("none of these shapes is measured in that type and pass: dmlpy bench --list shows what is")
    return priorities.order_by_priority(chosen) if place.memory_kind == "cuda" else chosen


def run(options: CommandOptions, save: Path | None, inform: Callable[[str], None]) -> Record:
    """Measures the requested cases.

    Args:
        options: shapes, types, passes and libraries.
        save: the file of the record, rewritten after each case.
        inform: receives a progress message for each step.

    Raises:
        DmlError: something requested does not exist; nothing was measured.
    """
    device = dml.device(options.device)
    place = Place(device.memory_kind, device.name)
    chosen = cases(options, place)
    settings = Options(
        peers=_peers(options, place),
        own=OWN if options.operators is None and place.memory_kind == "cpu" else OPERATORS_OWN,
        rounds=options.rounds,
        threads=threads_of(options),
        limit_s=options.limit_s,
        slope=options.slope,
        load=options.load,
        pythons=_pythons(options.pythons),
        seconds=options.seconds,
        max_isa=_max_isa(options, place),
        references=None if options.references is None else References.load(options.references),
    )
    inform(f"{len(chosen)} cases on '{device.describe()['name']}', {settings.rounds} rounds")
    before = Record.load(save) if options.add and save is not None and status(save) is not None else None
    return Benchmark(device, settings, inform, before).run(chosen, save)


def is_complete(record: Record) -> bool:
    """Returns whether at least one case was started, and dmlpy completed and passed all that were."""
    statuses = [run.status for run in record.runs if run.subject == OWN.name]
    return bool(statuses) and set(statuses) == {"ok"}


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


def _layers(options: CommandOptions, place: Place) -> list[Shape]:
    """The layers and normalizations; none if single operators are requested."""
    if options.operators is not None:
        return []
    try:
        return select(options.shapes, place.memory_kind)
    except ValueError as error:
        raise DmlError(str(error)) from error


def _operators(options: CommandOptions, place: Place) -> list[OperatorShape | LargeShape]:
    """The single operators; on a GPU they are measured with the layers, unless shapes or passes are chosen."""
    if options.operators is None and (place.memory_kind == "cpu" or options.shapes or options.passes or options.slope):
        return []
    try:
        return select_operators(options.operators or (), _types(options), place.memory_kind, options.scales)
    except ValueError as error:
        raise DmlError(str(error)) from error


def _types(options: CommandOptions) -> list[DataType]:
    return [name for name in get_args(DataType) if name in _select_known(options.dtypes, get_args(DataType))]


def threads_of(options: CommandOptions) -> int:
    """The threads of each library on the processor."""
    if options.threads is None and options.operators is not None:
        return 1
    return options.threads or processors()


def _select_known(options: Sequence[str], choices: Sequence[str]) -> list[str]:
    """Case-insensitive names, in the spelling used here."""
    spelled = {name.lower(): name for name in choices}
    return [spelled[_check_name(name.lower(), spelled)] for name in options]


def _peers(options: CommandOptions, place: Place) -> list[Peer]:
    every = OPERATORS_PEERS if options.operators is not None else GPU_PEERS if place.memory_kind == "cuda" else PEERS
    peers = {peer.name: peer for peer in every if peer.stands_beside(place, options.load)}
    if options.peers is None:
        return []
    named = [peers[_check_name(name, peers)] for name in options.peers]
    return named or [peer for peer in peers.values() if is_limited(peer.name, _max_isa(options, place))]


def _max_isa(options: CommandOptions, place: Place) -> str | None:
    """The instruction set in the spelling used here."""
    if options.max_isa is None:
        return None
    if place.memory_kind != "cpu" or platform.machine().lower() not in X86_64:
        raise DmlError(f"--max-isa limits libraries to instructions of x86-64: '{place.name}' has none of them")
    return _check_name(options.max_isa.upper(), LIMITS)


def _pythons(texts: Sequence[str]) -> Mapping[str, str]:
    paths = {}
    for text in texts:
        name, equals, path = text.partition("=")
        if not equals or not path:
            raise DmlError(f"--python is {text!r}, expected NAME=PATH: the interpreter that a library is installed for")
        paths[_check_name(name, [peer.name for peer in (*PEERS, *OF_OPERATORS)])] = path
    return paths


def _check_name(name: str, choices: Iterable[str]) -> str:
    names = list(choices)
    if name not in names:
        close = nearest(name, names)
        raise DmlError(f"{name!r} is none of {', '.join(names)}" + (f"; did you mean {close!r}?" if close else ""))
    return name
