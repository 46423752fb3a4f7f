"""`dmlpy onnx`: ONNX models checked and run, and graphs as ONNX models."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import dmlpy
from dmlpy.cli.output import LevelOption, ProfileOption, TraceOption, flag, report_errors, show, tell, warn, write_trace

if TYPE_CHECKING:
    from dmlpy.onnx.reporting.report import Like

app = typer.Typer(name="onnx", help="ONNX models: which nodes run on DirectML, running and writing them.", no_args_is_help=True)

SizeOption = Annotated[
    list[str] | None,
    typer.Option("--size", metavar="NAME=SIZE", help="Sizes of dynamic dimensions: batch=1, or all sizes of an input: x=1,3,224,224."),
]
LimitOption = Annotated[
    list[str] | None,
    typer.Option("--limit", metavar="NAME=NUMBER", help="Raise a limit of dmlpy.onnx.Limits for a trusted model: nodes=20000."),
]


@app.command()
def check(
    files: Annotated[list[Path], typer.Argument(metavar="MODEL.onnx", help="The models; - is standard input.")],
    feature_level: LevelOption = "6_4",
    sizes: SizeOption = None,
    limits: LimitOption = None,
    like: Annotated[
        str, typer.Option("--like", metavar="RUNTIME", help="dmlpy; onnxruntime: the predicted placement by its DirectML provider.")
    ] = "dmlpy",
    every: Annotated[bool, flag("--all", help="Also list every node, and every cause.")] = False,
    html: Annotated[
        Path | None,
        typer.Option(
            "--html", dir_okay=False, help="Also write the report of one model as a page, with a picture of it.", show_default=False
        ),
    ] = None,
    output_format: Annotated[
        str, typer.Option("--format", metavar="FORMAT", help="text; json; sarif (code scanning); github (workflow annotations).")
    ] = "text",
    as_json: Annotated[bool, flag("--json", help="Short for --format json.")] = False,
) -> None:
    """Show which nodes run on DirectML, and why others do not.

    The exit status is 0 if all do, 1 if any does not or a model is rejected, 2 if a file cannot be read or an option is wrong.
    """
    from dmlpy.cli import onnx_models
    from dmlpy.cli.formats import FORMATS, Format, exit_status
    from dmlpy.validation.checking import parse_level

    if output_format not in set(Format):
        raise typer.BadParameter(f"--format is one of {', '.join(Format)}, not {output_format!r}")
    if like not in ("dmlpy", "onnxruntime"):
        raise typer.BadParameter(f"--like is dmlpy or onnxruntime, not {like!r}")
    if html is not None and len(files) > 1:
        raise typer.BadParameter("--html has the report of one model: give one file")
    whose: Like = "onnxruntime" if like == "onnxruntime" else "dmlpy"
    chosen = Format.JSON if as_json else Format(output_format)
    with report_errors(2):
        level, sizes_by_name = parse_level(feature_level), onnx_models.parse_sizes(sizes or [])
        allowed = onnx_models.parse_limits(limits or [])
        outcomes = [onnx_models.check_onnx(file, level, sizes_by_name, whose, allowed) for file in files]
        if html is not None and (support := outcomes[0][1]) is not None:
            _write_page(html, support.to_html())
        if chosen is Format.TEXT:
            for outcome, report in outcomes:
                if report is None:
                    typer.echo(outcome.text())
                    continue
                if every:
                    show(report.table())
                tell(report.text(all_causes=every))
        elif written := onnx_models.as_json(outcomes) if chosen is Format.JSON else FORMATS[chosen]([outcome for outcome, _ in outcomes]):
            typer.echo(written)
        if status := exit_status([outcome for outcome, _ in outcomes]):
            raise typer.Exit(status)


def _write_page(path: Path, text: str) -> None:
    from dmlpy.system.files import write_text

    try:
        write_text(path, text)
    except OSError as error:
        raise dmlpy.DeviceError(f"{path} cannot be written: {error.strerror or error}") from error


@app.command()
def run(
    model: Annotated[Path, typer.Argument(metavar="MODEL.onnx", help="The model; - is standard input.")],
    inputs: Annotated[list[str] | None, typer.Option("--input", metavar="NAME=FILE.npy", help="An input; repeatable.")] = None,
    output: Annotated[Path | None, typer.Option("--output", file_okay=False, help="Folder for the outputs.", show_default=False)] = None,
    device: Annotated[str | None, typer.Option("--device", help="cpu, numpy, cuda, cuda:1; default: a usable GPU, else cpu.")] = None,
    feature_level: LevelOption = "6_4",
    sizes: SizeOption = None,
    limits: LimitOption = None,
    profile: ProfileOption = False,
    trace: TraceOption = None,
) -> None:
    """Run a model on inputs from .npy files."""
    from dmlpy.cli.onnx_models import parse_limits, parse_sizes, run_onnx
    from dmlpy.validation.checking import parse_level

    input_files: dict[str, Path] = {}
    for text in inputs or []:
        name, equals, file = text.partition("=")
        if not equals or not name or not file:
            raise typer.BadParameter(f"--input is NAME=FILE.npy, not {text!r}")
        input_files[name] = Path(file)
    with report_errors(2):
        place = dmlpy.device(device)
        level, sizes_by_name, allowed = parse_level(feature_level), parse_sizes(sizes or []), parse_limits(limits or [])
    with report_errors():
        measured = run_onnx(model, input_files, output, place, level, sizes_by_name, tell, allowed, profile=profile or trace is not None)
        if measured is not None:
            tell(f"\n{measured}")
            if trace is not None:
                write_trace(trace, [measured])
    if output is None:
        warn("the outputs are not written: pass --output FOLDER")


@app.command()
def export(
    graph: Annotated[Path, typer.Argument(metavar="GRAPH", help="A graph: JSON, or serialized by ONNX Runtime; - is standard input.")],
    output: Annotated[
        Path | None,
        typer.Option("--output", dir_okay=False, help="The model; default: the graph's name with .onnx.", show_default=False),
    ] = None,
    input_path: Annotated[
        Path | None, typer.Option("--input_path", file_okay=False, exists=True, help="Folder of a serialized graph's constants.")
    ] = None,
) -> None:
    """Write a graph of DirectML's operators as an ONNX model, or report which nodes cannot be expressed in ONNX, and why."""
    from dmlpy.cli.onnx_models import export_graph

    if output is None and str(graph) == "-":
        raise typer.BadParameter("standard input has no name: pass --output MODEL.onnx")
    if output is None and not graph.name:
        raise typer.BadParameter(f"GRAPH is a file, not {str(graph)!r}")
    target = graph.with_suffix(".onnx") if output is None else output
    with report_errors():
        nodes, written = export_graph(graph, target, input_path)
    typer.echo(f"{target}: {written} nodes of ONNX for {nodes} of the graph")
