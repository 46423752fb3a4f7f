"""ONNX models on the command line: checks files, runs models on .npy files, and exports graphs."""

from __future__ import annotations

import json
import re
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.cli.output import standard_input
from dmlpy.dxdispatch import text
from dmlpy.dxdispatch.checker import Report, is_serialized
from dmlpy.dxdispatch.files import write_npy
from dmlpy.dxdispatch.npy import read_array, read_header
from dmlpy.dxdispatch.report import Finding, ModelError, is_unreadable
from dmlpy.graphs import Graph
from dmlpy.messages.naming import did_you_mean, listed
from dmlpy.messages.problems import BindError, DescError, DeviceError, Problem, truncate
from dmlpy.system.files import write_bytes, write_text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from dmlpy.description.enums import FeatureLevel
    from dmlpy.devices import Device
    from dmlpy.devices.reporting.profile import Profile
    from dmlpy.onnx import Limits, Model
    from dmlpy.onnx.reporting.report import Like
    from dmlpy.onnx.reporting.report import Report as ModelReport


def check_onnx(
    path: Path,
    level: FeatureLevel,
    sizes: Mapping[str, int | Sequence[int]] | None = None,
    like: Like = "dmlpy",
    limits: Limits | None = None,
) -> tuple[Report, ModelReport | None]:
    """Checks which nodes of an ONNX model run on DirectML.

    Args:
        path: the model's file; `-` is standard input.
        level: the highest feature level that may be used.
        sizes: as for `dmlpy.onnx.load`.
        like: as for `dmlpy.onnx.Model.report`.
        limits: as for `dmlpy.onnx.load`.

    Returns:
        The outcome, in which each node that does not run on DirectML is a part with problems; and the report, None if the model is refused.
    """
    from dmlpy import onnx  # needs the package onnx

    try:
        report = onnx.load(_source(path), sizes=sizes, limits=limits).report(level, like=like)
    except ModelError as error:
        return Report(path, None, level, None, tuple(error.findings)), None
    except DescError as error:
        # A file has one code here, whatever its kind.
        problems = tuple(
            replace(problem, code="file.unreadable", path="file") if problem.code == "onnx.file" else problem
            for problem in _of_size_option(error, sizes or {}).problems
        )
        return Report(path, None if is_unreadable(problems) else "ONNX model", level, None, (Finding("", problems),)), None
    findings = tuple(Finding(f"node {node.name!r} ({node.op_type})", node.problems) for node in report.fallbacks)
    wrong = (Finding("", tuple(truncate(report.contradicted)), severity="warning"),) if report.contradicted else ()
    return Report(path, "ONNX model", level, None if findings else report.lowest_level, findings, wrong), report


def _source(path: Path) -> Path | bytes:
    """The model for `dmlpy.onnx.load`: a file, or the bytes of standard input.

    Raises:
        ModelError: standard input is too long, or cannot be read.
    """
    from dmlpy.onnx.loading.load import MAX_BYTES  # needs the package onnx

    stream = standard_input(path)
    return path if stream is None else text.read_stream(stream, path, MAX_BYTES)


def _of_size_option(error: DescError, sizes: Mapping[str, object]) -> DescError:
    """The error with its problems of `sizes` at the option that gave them."""
    options = {f"sizes[{name!r}]": f"--size {name}" for name in sizes}
    problems = (replace(problem, path=options.get(problem.path, problem.path)) for problem in error.problems)
    return DescError(error.subject, problems, error.hresult)


def as_json(outcomes: Sequence[tuple[Report, ModelReport | None]]) -> str:
    """The reports of models, and the total number of problems."""
    files = [outcome.to_dict() | ({} if report is None else report.to_dict()) for outcome, report in outcomes]
    return json.dumps({"files": files, "problems": sum(outcome.problem_count for outcome, _ in outcomes)}, indent=2)


def parse_sizes(texts: Sequence[str]) -> dict[str, int | Sequence[int]]:
    """Parses sizes from the command line: `batch=1` for a symbol, `x=1,3,224,224` for an input.

    Raises:
        DescError: a text is neither.
    """
    parsed: dict[str, int | Sequence[int]] = {}
    for line in texts:
        name, equals, value = line.rpartition("=")
        if not equals or not name or re.fullmatch(r"\d{1,18}(,\d{1,18})*,?", value, re.ASCII) is None:
            expected = "a symbol with its size, or an input with all of them: batch=1, x=1,3,224,224"
            raise DescError("--size", [Problem("onnx.sizes", "--size", repr(line), expected)])
        numbers = [int(number) for number in value.split(",") if number]
        parsed[name] = numbers[0] if "," not in value else numbers
    return parsed


def parse_limits(texts: Sequence[str]) -> Limits:
    """Parses limits from the command line: `nodes=20000`.

    Raises:
        DescError: a text is none.
    """
    from dmlpy.onnx import Limits  # needs the package onnx

    parsed: dict[str, int] = {}
    names = [item.name for item in fields(Limits)]
    for line in texts:
        name, _, value = line.partition("=")
        if name not in names or re.fullmatch(r"\d{1,18}", value, re.ASCII) is None:
            remedy = did_you_mean(name, names)
            raise DescError(
                "--limit", [Problem("onnx.limit", "--limit", repr(line), f"NAME=NUMBER, the name one of {', '.join(names)}", (), remedy)]
            )
        parsed[name] = int(value)
    return Limits(**parsed)


def run_onnx(
    path: Path,
    inputs: Mapping[str, Path],
    output: Path | None,
    device: Device,
    level: FeatureLevel,
    sizes: Mapping[str, int | Sequence[int]],
    inform: Callable[[str], None],
    limits: Limits | None = None,
    *,
    profile: bool = False,
) -> Profile | None:
    """Runs an ONNX model.

    Args:
        path: the model's file; `-` is standard input.
        inputs: the .npy files of its inputs, by name.
        output: the folder that its outputs are written to as .npy files, sequences and maps as .json files; None writes none.
        device: where it runs.
        level: the highest feature level that may be used.
        sizes: as for `dmlpy.onnx.load`.
        inform: receives each line of the output; the first, with the device, once the model is ready.
        limits: as for `dmlpy.onnx.load`.
        profile: whether it is also measured node by node.

    Returns:
        The profile, if it is measured.

    Raises:
        DmlError: the model, a file or an input is rejected, or the run fails.
    """
    from dmlpy import onnx  # needs the package onnx

    try:
        model = onnx.load(_source(path), sizes=sizes, limits=limits)
    except DescError as error:
        raise _of_size_option(error, sizes) from None
    arrays = _read_inputs(inputs, model)
    compiled = model.compile(device, level)
    inform(f"Running on '{device.describe()['name']}'")
    try:
        results = compiled(arrays)
    except BindError as error:
        raise BindError(error.subject, [_of_input_option(problem) for problem in error.problems]) from None
    taken: set[str] = set()
    for name, result in results.items():
        line = f"{name}: {_summary(result)}"
        if output is not None:
            target = output / f"{_file_name(name, taken)}{'.npy' if isinstance(result, np.ndarray) else '.json'}"
            try:
                if isinstance(result, np.ndarray):
                    write_npy(target, result)
                else:
                    write_text(target, json.dumps(result, default=_listed_array) + "\n")
            except (OSError, ValueError) as error:
                raise DeviceError(f"{target} cannot be written: {error}") from error
            line += f" in {target}"
        inform(line)
    return compiled.profile(arrays) if profile else None


def _summary(result: Any) -> str:
    """The type and sizes of an output: an array, or a sequence, an optional or a map, which are lists, None and dicts."""
    if isinstance(result, np.ndarray):
        return f"{result.dtype} {list(result.shape)}"
    if isinstance(result, list):
        return f"a list of {len(result)}" + (f", the first {_summary(result[0])}" if result else "")
    return f"a map of {len(result)} keys" if isinstance(result, dict) else str(result)


def _listed_array(array: Any) -> Any:
    """An array within a list or a map as JSON has it."""
    return np.asarray(array).tolist()


def _read_inputs(files: Mapping[str, Path], model: Model) -> dict[str, Any]:
    """The arrays in .npy files, by the names of a model's inputs."""
    unknown = [name for name in files if name not in model.inputs]
    if unknown:
        expected = f"one of {listed([*model.inputs])}"
        found = "no input of the model"
        raise BindError(
            model.name,
            [Problem("onnx.inputs", f"--input {name}", found, expected, remedy=did_you_mean(name, model.inputs)) for name in unknown],
        )
    arrays: dict[str, Any] = {}
    for name, file in files.items():
        try:
            arrays[name] = read_array(file, read_header(file, f"--input {name}"))
        except (OSError, MemoryError) as error:
            reason = (error.strerror or str(error)) if isinstance(error, OSError) else "more than fits into memory"
            actual = f"{file}: {reason}"
            raise DescError("dmlpy onnx run", [Problem("file.unreadable", f"--input {name}", actual, "a .npy file")]) from None
    return arrays


def _of_input_option(problem: Problem) -> Problem:
    """The problem of an input at the option that gave it, or gives it."""
    if problem.code != "onnx.inputs":
        return problem
    remedy = f"--input {problem.path}=FILE.npy" if problem.found == "not given" else problem.remedy
    return replace(problem, path=f"--input {problem.path}", remedy=remedy)


def export_graph(path: Path, target: Path, input_path: Path | None = None) -> tuple[int, int]:
    """Writes a graph as an ONNX model. The constants that a serialized graph has in files are stored in the model.

    Args:
        path: the graph: JSON, or what ONNX Runtime serialized; `-` is standard input.
        target: the model's file.
        input_path: folder of a serialized graph's constants, instead of the file's folder.

    Returns:
        The numbers of nodes of the graph and of the model.

    Raises:
        DmlError: the file is rejected, ONNX cannot express the graph, or the model cannot be written.
    """
    from dmlpy import onnx  # needs the package onnx

    stream = standard_input(path)
    data = text.read_bytes(path) if stream is None else text.read_stream(stream, path)
    if path.suffix.lower() == ".onnx":
        raise _not_a_graph(path, "named as an ONNX model", "dmlpy onnx check shows the operators of a model")
    constants: dict[str, bytes] = {}
    if is_serialized(data):
        from dmlpy.graphs.serialized import load_serialized  # needs flatbuffers

        loaded = load_serialized(data, input_path or path.parent)
        graph, constants = loaded.graph, {name: loaded.read_constant(name) for name in loaded.constants}
    else:
        document = text.decode(data, path)
        if findings := document.findings():
            raise ModelError(path, findings)
        if not any(key.lower() == "nodes" for key in document.data):
            if any(key.lower() == "type" for key in document.data):
                raise _not_a_graph(path, "a single desc", "make a graph of it with GraphBuilder.add")
            raise _not_a_graph(path, "not a graph")
        graph = Graph.from_dict(document.data)
    model = onnx.export(graph, constants=constants)
    try:
        written = model.SerializeToString()
        write_bytes(target, written)
    except (OSError, ValueError) as error:  # a model of 2 GiB or more is a ValueError
        raise DeviceError(f"{target} cannot be written: {error}") from error
    return len(graph.nodes), len(model.graph.node)


def _not_a_graph(path: Path, found: str, remedy: str | None = None) -> ModelError:
    expected = "a graph in JSON (Nodes, edges), or one that ONNX Runtime serialized"
    return ModelError(path, [Finding("", (Problem("json.root", "file", found, expected, remedy=remedy),))])


def _file_name(name: str, taken: set[str]) -> str:
    """A file name for a name of the model, which may contain slashes and other characters; it is added to those that are taken."""
    plain = re.sub(r"[^\w.-]", "_", name, flags=re.ASCII).lstrip(".")[:100] or "output"
    # Folders of some systems do not distinguish upper and lower case.
    unused = next(other for other in (plain, *(f"{plain}_{number}" for number in range(1, len(taken) + 1))) if other.lower() not in taken)
    taken.add(unused.lower())
    return unused
