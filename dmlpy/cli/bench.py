"""`dmlpy bench`: layers and operators measured beside other libraries."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dmlpy.cli.output import flag, report_errors, show, tell, warn

if TYPE_CHECKING:
    from dmlpy.bench.command import CommandOptions

NameArguments = Annotated[
    list[str] | None, typer.Argument(metavar="OPERATOR", help="With --operators: names; default: all.", show_default=False)
]
ShapesOption = Annotated[
    list[str] | None, typer.Option("--shape", metavar="GLOB", help="Shapes to measure, by key; repeatable.", show_default=False)
]
DtypesOption = Annotated[
    list[str] | None, typer.Option("--dtype", help="float32, float16, or int8 for operators; default: all of a shape's.")
]
PythonsOption = Annotated[
    list[str] | None, typer.Option("--python", metavar="NAME=PATH", help="The Python that a library is installed for; repeatable.")
]
ThreadsOption = Annotated[
    int | None,
    typer.Option("--threads", min=0, help="CPU threads per library; 0: all cores; default: 0, or 1 for operators.", show_default=False),
]
ReferencesOption = Annotated[
    Path | None,
    typer.Option("--references", dir_okay=False, help="Reference results precomputed by dmlpy.bench.references.", show_default=False),
]
ScalesOption = Annotated[
    list[float] | None,
    typer.Option(
        "--scale", help="With --operators: sizes, as multiples of the usual one; repeatable.", min=0.01, max=100, show_default=False
    ),
]
MaxIsaOption = Annotated[
    str | None,
    typer.Option(
        "--max-isa", metavar="ISA", help="Limit libraries to this instruction set, if they have a setting for it: AVX2.", show_default=False
    ),
]
PictureOption = Annotated[
    Path | None, typer.Option("--picture", dir_okay=False, help="SVG file to draw the saved record to.", show_default=False)
]


def bench(
    names: NameArguments = None,
    device: Annotated[str | None, typer.Option("--device", help="cpu, numpy, cuda, cuda:1; default: a usable GPU, else cpu.")] = None,
    shapes: ShapesOption = None,
    dtypes: DtypesOption = None,
    passes: Annotated[list[str] | None, typer.Option("--pass", help="forward or training; default: all of a shape's.")] = None,
    peers: Annotated[list[str] | None, typer.Option("--peer", metavar="NAME", help="Only these other libraries; repeatable.")] = None,
    no_peers: Annotated[bool, flag("--no-peers", help="Measure only dmlpy.")] = False,
    pythons: PythonsOption = None,
    rounds: Annotated[int, typer.Option("--rounds", min=1, help="Number of rounds per library.")] = 15,
    threads: ThreadsOption = None,
    limit: Annotated[float, typer.Option("--time-limit", min=0.1, help="Timeout per library, in seconds.")] = 300,
    seconds: Annotated[float | None, typer.Option("--seconds", min=0, help="Start no new case after this many seconds.")] = None,
    references: ReferencesOption = None,
    slope: Annotated[bool, flag("--slope", help="Also measure the time per additional step, from twice as many steps.")] = False,
    load: Annotated[int, typer.Option("--load", min=0, help="Number of CPU-bound background processes.")] = 0,
    save: Annotated[Path | None, typer.Option("--save", dir_okay=False, help="File to write the record to.", show_default=False)] = None,
    add: Annotated[bool, flag("--add", help="Keep the other runs of the existing record.")] = False,
    picture: PictureOption = None,
    operators: Annotated[bool, flag("--operators", help="Measure single operators: all, or the named ones.")] = False,
    scales: ScalesOption = None,
    max_isa: MaxIsaOption = None,
    list_shapes: Annotated[bool, flag("--list", help="List the cases without measuring.")] = False,
) -> None:
    """Measure layers of known models, and on a GPU or with --operators single operators; compare with other installed libraries."""
    from dmlpy.bench import command

    if names and not operators:
        raise typer.BadParameter(_why_no_name(names[0]))
    _refuse_contradictions(
        (no_peers and peers, "--peer and --no-peers contradict each other: give one of them"),
        (picture and not save, "--picture draws the record that --save writes: give both"),
        (add and not save, "--add is about the record that --save writes: give both"),
        (scales and not operators, "--scale is about single operators: add --operators"),
        (operators and (shapes or passes or slope or picture), "--operators has no shapes, passes, slopes and pictures: leave these out"),
    )
    chosen = command.CommandOptions(
        *(device, shapes or (), dtypes or (), passes or (), None if no_peers else peers or (), pythons or ()),
        rounds=rounds,
        threads=threads,
        limit_s=limit,
        slope=slope,
        load=load,
        add=add,
        seconds=seconds,
        operators=(names or ()) if operators else None,
        references=references,
        scales=scales or (1,),
        max_isa=max_isa,
    )
    with report_errors(2):
        listing = command.list_cases(chosen)
        if not list_shapes:
            command.check(chosen)
    if list_shapes:
        for listed in listing:
            show(listed)
        return
    _measure(chosen, save, picture)


def _refuse_contradictions(*options: tuple[object, str]) -> None:
    """Raises BadParameter with the message of the first options that contradict each other, which is what their value says."""
    for contradict, message in options:
        if contradict:
            raise typer.BadParameter(message)


def _measure(options: CommandOptions, save: Path | None, picture: Path | None) -> None:
    """Measures, prints the tables, and writes the record and its picture.

    Raises:
        typer.Exit: a case of dmlpy failed or was wrong, none was started, or an error ended the measurement.
    """
    from dmlpy.bench import command

    with report_errors():
        record = command.run(options, save, inform=warn)
        for text, reasons in command.format_tables(record):
            show(text)
            for reason in reasons:
                tell(reason)
        if save is not None and picture is not None:
            command.write_picture(save, picture)
        if not command.is_complete(record):
            raise typer.Exit(1)


def _why_no_name(name: str) -> str:
    """Why `bench` takes no name without --operators, and what was probably meant."""
    from dmlpy.bench.shapes import SHAPES
    from dmlpy.description.registry import OPERATORS
    from dmlpy.messages.naming import did_you_mean

    if name in SHAPES:
        return f"{name!r} is a shape: give it as --shape {name}"
    short = {kind.short_name().lower() for kind in OPERATORS.values()}
    spelled = name.lower().removeprefix("dml_operator_")
    if not short.isdisjoint((spelled, f"element_wise_{spelled}", f"activation_{spelled}")):
        return f"{name!r} is an operator: add --operators"
    suggestion = did_you_mean(name, [*SHAPES, *short])
    return f"{name!r} is neither a shape (--shape) nor an operator (with --operators)" + (f": {suggestion}" if suggestion else "")
