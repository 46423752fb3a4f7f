"""`dmlpy conformance`: dmlpy's checks and results compared with those of DirectML itself."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dmlpy.cli.output import flag, report_errors, show, warn


def conformance(
    operators: Annotated[
        list[str] | None, typer.Argument(metavar="OPERATOR", help="Operators, like RNN; default: all.", show_default=False)
    ] = None,
    output: Annotated[Path, typer.Option("--output", "-o", dir_okay=False, help="File of the record.")] = Path("conformance.json"),
    dll: Annotated[
        Path | None,
        typer.Option(
            "--dll", dir_okay=False, help="DirectML.dll; default: onnxruntime-directml's, else that of Windows.", show_default=False
        ),
    ] = None,
    descs: Annotated[
        list[Path] | None, typer.Option("--descs", dir_okay=False, help="JSON file with more descs; repeatable.", show_default=False)
    ] = None,
    hardware: Annotated[bool, flag("--hardware", help="Use the first GPU instead of the software adapter (WARP).")] = False,
    debug_layer: Annotated[bool, flag("--debug-layer/--no-debug-layer", help="The debug layer, where it is installed.")] = True,
    results: Annotated[bool, flag("--results/--no-results", help="Also run operators and compare their results.")] = True,
    dxdispatch: Annotated[
        Path | None,
        typer.Option("--dxdispatch", dir_okay=False, help="dxdispatch.exe to run operators with, instead of dmlpy.", show_default=False),
    ] = None,
    pydirectml: Annotated[bool, flag("--pydirectml", help="Run operators with the installed pydirectml, instead of dmlpy.")] = False,
    every_level: Annotated[bool, flag("--every-level", help="Ask a device of each lower level about all descs, not a few.")] = False,
    limit: Annotated[float, typer.Option("--time-limit", min=0.1, help="Timeout per desc, in seconds.")] = 60,
    seconds: Annotated[
        float | None, typer.Option("--seconds", min=0, help="Ask no more after this many seconds.", show_default=False)
    ] = None,
    check_record: Annotated[
        Path | None, typer.Option("--check", dir_okay=False, help="Check and show a record instead.", show_default=False)
    ] = None,
) -> None:
    """On Windows: compare what dmlpy accepts and computes with DirectML itself, and write a record."""
    from dmlpy.conformance import command
    from dmlpy.inspection import directml_records
    from dmlpy.system.files import write_bytes

    chosen = command.ConformanceOptions(
        operators or (),
        dll,
        descs or (),
        hardware=hardware,
        debug=debug_layer,
        run=results,
        every_level=every_level,
        dxdispatch=dxdispatch,
        pydirectml=pydirectml,
        limit_s=limit,
        seconds=seconds,
    )
    with report_errors():
        if check_record is not None:
            record = directml_records.read(check_record)
        else:
            record = command.run(chosen, lambda record: write_bytes(output, record.to_json().encode()), warn)
        if not command.is_clean(record):
            show(command.differences_table(record))
        typer.echo(command.summary(record))
        if check_record is None:
            typer.echo(f"{output}: dmlpy/conformance/README.md says where to send it")
