"""The `dmlpy` command: runs and checks files, explains operators, and shows what this machine can run.

A command imports its dependencies when it runs, so that help is fast.
"""

from __future__ import annotations

import io
import json
import os
import sys
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

import dmlpy
from dmlpy.cli import onnx
from dmlpy.cli.bench import bench
from dmlpy.cli.conformance import conformance
from dmlpy.cli.interrupts import reported
from dmlpy.cli.output import LevelOption, ProfileOption, TraceOption, flag, report_errors, show, standard_input, warn, write_trace

if TYPE_CHECKING:
    from dmlpy.devices import Device
    from dmlpy.dxdispatch.onnx_dispatchables import OnnxOptions
    from dmlpy.inspection.explain import Explanation


OTHER_COMMANDS = {
    "version": "--version",
    "help": "--help",
    **dict.fromkeys(("devices", "doctor", "env", "gpu"), "info"),
    **dict.fromkeys(("list", "operators"), "ops"),
    **dict.fromkeys(("validate", "lint", "verify"), "check"),
    **dict.fromkeys(("describe", "show", "doc"), "explain"),
    **dict.fromkeys(("execute", "exec", "infer"), "run"),
    **dict.fromkeys(("convert", "export"), "onnx export"),
    **dict.fromkeys(("inspect", "report"), "onnx check"),
    **dict.fromkeys(("benchmark", "profile"), "bench"),
    **dict.fromkeys(("schema", "jsonschema"), "schemas"),
}
"""Commands of this program by the names that other programs have for them."""


class ModelsAreRun(TyperGroup):
    """Suggests the right command for a file in a command's place, and for the name that other programs have."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name = args[0]
        if name not in self.commands and (Path(name).suffix.lower() in (".json", ".jsonc", ".bin", ".onnx") or os.path.isfile(name)):
            run = "onnx run" if Path(name).suffix.lower() == ".onnx" else "run"
            ctx.fail(f"{name!r} is not a command: did you mean dmlpy {run} {name}? dmlpy check {name} checks it")
        if name not in self.commands and (meant := OTHER_COMMANDS.get(name)):
            ctx.fail(f"{name!r} is not a command: did you mean dmlpy {meant}?")
        return super().resolve_command(ctx, args)


app = typer.Typer(
    name="dmlpy",
    cls=ModelsAreRun,
    help="DirectML's operators on any machine: check descriptors, run DxDispatch models.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    # Options are spelled as DxDispatch does; dashes are also accepted for underscores.
    context_settings={"help_option_names": ["-h", "--help"], "token_normalize_func": lambda name: name.replace("-", "_")},
)

app.add_typer(onnx.app)

_WINDOWS = "has no meaning outside Windows and Direct3D"
_ONNX = "configures ONNX Runtime, which dmlpy does not use"
REFUSED_OPTIONS = {
    **dict.fromkeys(("-c", "--pix_capture_type", "-o", "--pix_capture_name"), _WINDOWS),
    **dict.fromkeys(("--print_hlsl_disassembly", "--xbox_allow_precompile", "--disable_custom_heaps", "--clear_shader_caches"), _WINDOWS),
    **dict.fromkeys(("--disable_gpu_timeout", "--enable_dred", "--disable_background_processing", "--present_separator"), _WINDOWS),
    **dict.fromkeys(("--set_stable_power_state", "--disable_agility_sdk"), _WINDOWS),
    **dict.fromkeys(("-e", "--onnx_session_config_entry", "-l", "--onnx_graph_optimization_level"), _ONNX),
    **dict.fromkeys(("-L", "--onnx_logging_level", "-x", "--enable_ort_extensions", "--enable_onnx_profiling"), _ONNX),
    **dict.fromkeys(("-p", "--print_onnx_bindings"), "is not here: dmlpy onnx check shows the inputs and outputs of ONNX models"),
}
"""Options of DxDispatch that cannot do anything here, each with the reason."""


UNWRITTEN = 74
"""The exit status where the output cannot be written: EX_IOERR of BSD's sysexits."""


class Barriers(StrEnum):
    """DxDispatch's choices for barriers between dispatches."""

    NONE = "none"
    UAV = "uav"
    UAV_AND_ALIASING = "uav+aliasing"


class RunCommand(TyperCommand):
    """Explains why an option of DxDispatch is rejected, instead of calling it unknown."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        for argument in args:
            option = argument.partition("=")[0]
            reason = REFUSED_OPTIONS.get(option if len(option) == 2 else option.replace("-", "_").replace("__", "--", 1))
            if reason is not None:
                raise typer.BadParameter(f"{option} {reason}", ctx=ctx)
        return super().parse_args(ctx, args)


def main() -> None:
    """The entry point of the `dmlpy` command."""
    with reported():
        _main()


def _main() -> None:
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # Where the encoding lacks a character, as in pipes on Windows, a question mark is better than no output.
            stream.reconfigure(errors="replace")
    try:
        app()
    except OSError as error:
        # dmlpy's errors report the files that a command reads and writes: this is its output, on a full disk.
        reason = error.strerror or error
        with suppress(OSError):
            typer.echo(f"{error.filename}: {reason}" if error.filename else f"the output cannot be written: {reason}", err=True)
        with suppress(OSError):  # a non-empty buffer would fail again when the process ends
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(UNWRITTEN)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"dmlpy {dmlpy.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[bool, flag("--version", callback=_version, is_eager=True, help="Show the version and stop.")] = False,
) -> None:
    pass


ModelFile = Annotated[
    Path | None, typer.Argument(metavar="MODEL.json", help="The model, - for standard input; or an ONNX model.", show_default=False)
]
JsonOption = Annotated[bool, flag("--json", help="Print JSON.")]

InputOption = Annotated[Path | None, typer.Option("--input_path", file_okay=False, exists=True, help="Folder of the model's data files.")]


MillisecondsOption = Annotated[
    float | None, typer.Option("--milliseconds_to_run", "-t", min=0, help="Run each dispatch for this long; overrides -i.")
]
IntervalOption = Annotated[
    float, typer.Option("--dispatch_interval", "-I", min=0, help="Minimum milliseconds between starts of iterations.")
]
VerbosityOption = Annotated[
    int, typer.Option("--timing_verbosity", "-v", min=0, max=2, help="0: one line, 1: statistics, 2: every iteration.")
]
GpuSamplesOption = Annotated[
    int, typer.Option("--max_gpu_time_measurements", min=0, help="Maximum number of GPU timings; 0 disables GPU timing.")
]
RunLevelOption = Annotated[str, typer.Option("--dml_feature_level", "--feature-level", metavar="LEVEL", help="Highest feature level.")]
FreeNamesOption = Annotated[
    list[str] | None,
    typer.Option("--onnx_free_dim_name_override", "-f", metavar="NAME:SIZE", help="ONNX models: size of a named dimension; repeatable."),
]
FreeDenotationsOption = Annotated[
    list[str] | None,
    typer.Option("--onnx_free_dim_denotation_override", "-F", metavar="DENOTATION:SIZE", help="The same by denotation, like DATA_BATCH:3."),
]
ShapesOption = Annotated[
    list[str] | None,
    typer.Option("--binding_shape", "-b", metavar="NAME:SIZES", help="ONNX models: the shape of an input or output, like x:2,3."),
]
BarriersOption = Annotated[Barriers, typer.Option("--post_dispatch_barriers", help="Accepted and ignored: streams order the work.")]
QueueOption = Annotated[
    str | None, typer.Option("--queue_type", "-q", metavar="TYPE", help="Ignored: there are no Direct3D queues.", show_default=False)
]


@app.command(cls=RunCommand)
def run(
    model: ModelFile = None,
    model_option: Annotated[Path | None, typer.Option("--model", "-m", help="The model, as an option.", show_default=False)] = None,
    device: Annotated[str | None, typer.Option("--device", help="cpu, numpy, cuda, cuda:1; default: a usable GPU, else cpu.")] = None,
    adapter: Annotated[str, typer.Option("--adapter", "-a", help="Part of the device's name, instead of --device.")] = "",
    show_adapters: Annotated[bool, flag("--show_adapters", "-s", help="List the devices and stop.")] = False,
    show_dependencies: Annotated[bool, flag("--show_dependencies", "-S", help="List versions and stop.")] = False,
    iterations: Annotated[int, typer.Option("--dispatch_iterations", "-i", min=1, help="Iterations of each dispatch command.")] = 1,
    repeat: Annotated[int, typer.Option("--dispatch_repeat", "-r", min=1, help="Dispatches in each iteration.")] = 1,
    milliseconds: MillisecondsOption = None,
    interval: IntervalOption = 0,
    warmup: Annotated[int, typer.Option("--warmup_samples", "-w", min=0, help="Warm-up iterations, reported separately.")] = 1,
    verbosity: VerbosityOption = 0,
    max_gpu_samples: GpuSamplesOption = 8192,
    debug: Annotated[bool, flag("--debug", "-d", help="Check each dispatch for NaN and for bytes written out of bounds.")] = False,
    input_path: InputOption = None,
    output_path: Annotated[Path | None, typer.Option("--output_path", file_okay=False, help="Folder for output files.")] = None,
    print_commands: Annotated[bool, flag("--print_commands", help="Show the start and end of each command.")] = False,
    profile: ProfileOption = False,
    trace: TraceOption = None,
    feature_level: RunLevelOption = "6_4",
    free_names: FreeNamesOption = None,
    free_denotations: FreeDenotationsOption = None,
    shapes: ShapesOption = None,
    barriers: BarriersOption = Barriers.UAV,
    queue_type: QueueOption = None,
) -> None:
    """Run a DxDispatch model: upload its resources, compile its operators, then its commands in order."""
    if show_adapters or show_dependencies:
        return _show_environment(show_adapters, show_dependencies)
    with report_errors(2):
        path = model or model_option
        if path is None or (model and model_option):
            raise typer.BadParameter("pass one model file: dmlpy run MODEL.json")
        from dmlpy.dxdispatch import Folders, RunOptions, load
        from dmlpy.dxdispatch import run as run_model
        from dmlpy.validation.checking import parse_level

        if queue_type is not None:
            warn(f"warning: --queue_type {queue_type} is ignored: command queues belong to Direct3D")
        level, chosen = parse_level(feature_level), _device(device, adapter)
        onnx_options = _onnx_options(free_names or [], free_denotations or [], shapes or [])
    with report_errors():
        loaded = load(path, Folders.of(path, input_path, output_path), level, onnx_options, standard_input(path))
        for warning in loaded.warnings:
            warn("\n".join(f"{warning.severity}: {text}" for text in warning.sentences(str(path))))
        typer.echo(f"Running on '{chosen.describe()['name']}'")
        options = RunOptions(
            *(iterations, repeat, milliseconds, interval, warmup, verbosity, max_gpu_samples),
            debug=debug,
            print_commands=print_commands,
            profile=profile or trace is not None,
        )
        profiles = run_model(loaded, chosen, options, level, inform=typer.echo, warn=lambda text: warn(f"warning: {text}"))
        if trace is not None:
            write_trace(trace, profiles)


def _show_environment(adapters: bool, dependencies: bool) -> None:
    """Lists the devices, and the versions of what dmlpy uses."""
    if adapters:
        for item in dmlpy.list_devices():
            typer.echo(f"{item.name}: {item.describe()['name']}")
    if dependencies:
        from dmlpy.info import versions

        for name, version in versions().items():
            typer.echo(f"{name}: {version}")


def _onnx_options(free_names: list[str], free_denotations: list[str], shapes: list[str]) -> OnnxOptions:
    """The options of ONNX models, as they are given on the command line."""
    from dmlpy.dxdispatch.onnx_dispatchables import DENOTATION_OPTION, NAME_OPTION, SHAPE_OPTION, OnnxOptions, parse_shapes

    names, denotations = (
        {name: size for name, (size,) in parse_shapes(option, values, single=True).items()}
        for option, values in ((NAME_OPTION, free_names), (DENOTATION_OPTION, free_denotations))
    )
    return OnnxOptions(names, denotations, parse_shapes(SHAPE_OPTION, shapes))


def _device(name: str | None, adapter: str) -> Device:
    """The device of a name, or the first one whose own name contains the text of `adapter`; GPUs before the processor."""
    if name is not None and adapter:
        raise typer.BadParameter("--adapter and --device say the same thing: give one of them")
    if not adapter:
        return dmlpy.device(name)
    devices = sorted(dmlpy.list_devices(), key=lambda item: item.memory_kind != "cuda")
    names = {item: item.describe()["name"] for item in devices}
    for item, name in names.items():
        if adapter.lower() in name.lower():
            return item
    raise dmlpy.DeviceError(f"no device's name contains {adapter!r}; there are {', '.join(map(repr, names.values()))}")


@app.command()
def check(
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILE", help="Models, single descs, graphs, serialized graphs, ONNX models; - is standard input."),
    ],
    feature_level: LevelOption = "6_4",
    strict: Annotated[bool, flag("--strict", help="Also check DirectML's buffer rules (always on for models).")] = False,
    lenient: Annotated[
        bool,
        flag("--lenient", help="Allow graph edges between data types, and unused inputs (always on for dumps)."),
    ] = False,
    fail_on_undocumented: Annotated[bool, flag("--fail-on-undocumented", help="The exit status is 1 for undocumented types, too.")] = False,
    input_path: InputOption = None,
    output_format: Annotated[
        str, typer.Option("--format", metavar="FORMAT", help="text; json; sarif (code scanning); github (workflow annotations).")
    ] = "text",
    as_json: Annotated[bool, flag("--json", help="Short for --format json.")] = False,
) -> None:
    """Check files and list all problems. The exit status is 0 if there are none, 1 if there are any, 2 if a file cannot be read.

    A type that Microsoft's page does not list and a released program uses is listed as undocumented. It does not change the exit status.
    """
    from dmlpy.cli import onnx_models
    from dmlpy.cli.formats import FORMATS, Format, as_sarif, exit_status
    from dmlpy.dxdispatch.checker import check_file
    from dmlpy.dxdispatch.report import MAX_FINDINGS
    from dmlpy.validation.checking import parse_level

    if output_format not in set(Format):
        raise typer.BadParameter(f"--format is one of {', '.join(Format)}, not {output_format!r}")
    chosen = Format(output_format)
    if as_json and chosen not in (Format.TEXT, Format.JSON):
        raise typer.BadParameter(f"--json and --format {chosen} contradict each other: give one of them")
    chosen = Format.JSON if as_json else chosen
    with report_errors(2):
        level = parse_level(feature_level)
        reports = []
        for file in files:
            if file.suffix.lower() == ".onnx":
                report, _ = onnx_models.check_onnx(file, level)
            else:
                stream = standard_input(file)
                report = check_file(file, level, strict=strict, lenient=lenient, input_path=input_path, stream=stream)
            reports.append(report)
            if chosen is Format.TEXT:
                for warning in report.warnings:
                    warn("\n".join(f"{warning.severity}: {text}" for text in warning.sentences(str(file))))
                for finding in report.findings[:MAX_FINDINGS]:
                    if finding.table is not None:
                        show(finding.table)
                typer.echo(report.text())
        if chosen is Format.SARIF:
            typer.echo(as_sarif(reports, undocumented_fails=fail_on_undocumented))
        elif chosen is not Format.TEXT and (written := FORMATS[chosen](reports)):
            typer.echo(written)
        if status := exit_status(reports, undocumented_fails=fail_on_undocumented):
            raise typer.Exit(status)


@app.command()
def explain(
    operator: Annotated[
        str | None,
        typer.Argument(
            metavar="OPERATOR",
            help="RNN, DML_OPERATOR_RNN, DML_RNN_OPERATOR_DESC or RNNDesc; or a problem's code: size.equal.",
            show_default=False,
        ),
    ] = None,
    feature_level: LevelOption = "6_4",
    as_json: JsonOption = False,
) -> None:
    """Show an operator's struct (members, sizes, types, rules, support) or a problem's code. Without a name, list the operators."""
    from dmlpy.inspection import explain as explanations

    with report_errors(2):
        if operator is None:
            from dmlpy.inspection import catalog

            entries = catalog.operators()
            if as_json:
                typer.echo(json.dumps([explanations.explain(entry.kind, feature_level).as_dict() for entry in entries], indent=2))
            else:
                show(catalog.operators_table(entries))
        elif explanations.is_code(operator):
            if as_json:
                raise typer.BadParameter("a code's explanation is text", param_hint="--json")
            from dmlpy.docs.codes import explain_code

            typer.echo(explain_code(operator))
        elif as_json:
            typer.echo(json.dumps(explanations.explain(operator, feature_level).as_dict(), indent=2))
        else:
            _print_explanation(explanations.explain(operator, feature_level))


def _print_explanation(explanation: Explanation) -> None:
    """Prints an operator's explanation: tables in colour on a terminal."""
    for part in explanation.parts():
        if isinstance(part, str):
            typer.echo(part)
        else:
            show(part)


@app.command()
def ops(
    family: Annotated[str | None, typer.Option("--family", metavar="F", help="Only this family.", show_default=False)] = None,
    feature_level: Annotated[
        str | None, typer.Option("--feature-level", metavar="LEVEL", help="Only operators of this level.", show_default=False)
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """List the operators: family, feature level, the devices that run them, and the libraries that tests compare their results with."""
    from dmlpy.inspection import catalog
    from dmlpy.validation.checking import parse_level

    with report_errors(2):
        level = None if feature_level is None else parse_level(feature_level)
        entries = catalog.operators(family=family, feature_level=level)
        if as_json:
            typer.echo(json.dumps([entry.to_dict() for entry in entries], indent=2))
        else:
            show(catalog.operators_table(entries))


@app.command()
def levels(
    level: Annotated[str | None, typer.Argument(metavar="LEVEL", help="Like 5_0 or 5.0.", show_default=False)] = None,
    as_json: JsonOption = False,
) -> None:
    """Show the additions of each feature level, or details of one."""
    from dmlpy.inspection import catalog
    from dmlpy.inspection.explain import parse_named_level

    with report_errors(2):
        wanted = None if level is None else parse_named_level(level)
        chosen = [item for item in catalog.levels() if wanted in (None, item.level)]
        if as_json:
            typer.echo(json.dumps([item.to_dict() for item in chosen], indent=2))
        elif wanted is None:
            show(catalog.levels_table(chosen))
        else:
            typer.echo(chosen[0].text())


@app.command()
def warmup(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="WORK",
            help="rnn, lstm, gru, convolution, pooling, elements, indexing, gemm, attention, normalization, reduction, resampling or "
            "quantized; default: all.",
        ),
    ] = None,
    device: Annotated[str, typer.Option("--device", help="cpu, cuda or cuda:1.")] = "cpu",
    target: Annotated[
        str | None,
        typer.Option(
            "--for",
            metavar="GPU",
            help="With cuda: compile for an architecture or a GPU, present or not: sm_90, H200. Needs only CuPy and NVRTC.",
            show_default=False,
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", dir_okay=False, help="With cuda: also pack the kernels into this file (.tar.gz).", show_default=False),
    ] = None,
    dtype: Annotated[str, typer.Option("--dtype", help="float32 or float16.")] = "float32",
    training: Annotated[bool, flag("--training", help="Recurrent layers' training forms and gradients instead.")] = False,
) -> None:
    """Compile kernels ahead of time and cache them for later processes, or for another machine."""
    from dmlpy.cli import warmup as work
    from dmlpy.cli.warmup_work import WORK

    unknown = [name for name in names or () if name.lower() not in WORK]
    if unknown:
        raise typer.BadParameter(f"{unknown[0]!r} is none of {', '.join(WORK)}")
    if dtype.upper() not in ("FLOAT32", "FLOAT16"):
        raise typer.BadParameter(f"{dtype!r} is none of float32, float16")
    kind = device.partition(":")[0]
    if kind not in ("cpu", "cuda"):
        raise typer.BadParameter(f"{device!r} has no kernels to compile: --device is cpu, cuda or cuda:1")
    if kind == "cpu" and (target is not None or output is not None):
        raise typer.BadParameter("--for and --output are for GPUs: add --device cuda")
    with report_errors(2):
        if target is None:
            place = dmlpy.device(device)
        else:
            from dmlpy.devices.cuda.offline_device import offline_device

            place = offline_device(target)
    with report_errors():
        warmed = list(work.warm_up([name.lower() for name in names or ()], device=place, dtype=dtype.upper(), training=training))
        show(work.warmed_table(warmed, place))
        typer.echo(work.place())
        if output is not None:
            typer.echo(work.pack(place, output))


@app.command()
def cache(*, clear: Annotated[bool, flag("--clear", help="Remove all of them.")] = False) -> None:
    """Show where compiled kernels are stored and how many there are, or remove them."""
    from dmlpy.cli import warmup as work

    with report_errors():
        typer.echo(work.clear_cache() if clear else work.cache_contents())


@app.command()
def info(as_json: JsonOption = False) -> None:
    """Show the devices and what they run, or why there is no GPU, and the versions."""
    from dmlpy.info import info as look

    with report_errors():
        details = look()
        typer.echo(json.dumps(details.as_dict(), indent=2) if as_json else "\n".join(details.lines()))


app.command()(bench)
app.command()(conformance)


@app.command()
def docs(
    output: Annotated[Path, typer.Option("--output", file_okay=False, help="Folder of the site.")] = Path("site"),
    sources: Annotated[
        Path | None,
        typer.Option("--sources", file_okay=False, help="Folder for the Markdown; default: temporary.", show_default=False),
    ] = None,
    strict: Annotated[bool, flag("--strict", help="The exit status is 1 if Sphinx has warnings.")] = False,
    jobs: Annotated[int | None, typer.Option("--jobs", min=1, help="Processes; default: one for each core.", show_default=False)] = None,
) -> None:
    """Build the site: this project's pages, and a page for each operator. Needs the extra `docs`."""
    from dmlpy import docs

    with report_errors():
        built = docs.build(output, sources=sources, jobs=jobs)
    for warning in built.warnings:
        warn(warning)
    if built.missing:
        warn(f"warning: left out, as they are in a checkout only: {', '.join(built.missing)}")
    typer.echo(f"{built.pages} pages: {output / 'index.html'}")
    if strict and built.warnings:
        raise typer.Exit(1)


@app.command()
def schemas(
    check: Annotated[bool, flag("--check", help="Write nothing; the exit status is 1 if a file is out of date.")] = False,
    bundle: Annotated[bool, flag("--bundle", help="Include all definitions in each schema, for single-file tools.")] = False,
    folder: Annotated[Path, typer.Option("--folder", file_okay=False, help="Folder of the files.")] = Path("schemas"),
) -> None:
    """Write the JSON Schemas and support tables that follow from the classes."""
    from dmlpy.inspection import schemas as generator

    with report_errors():
        if not check:
            for path in generator.write(folder, bundle=bundle):
                typer.echo(path)
        elif stale := generator.stale(folder, bundle=bundle):
            warn("\n".join([*stale, f"run: dmlpy schemas{' --bundle' if bundle else ''}"]))
            raise typer.Exit(1)
