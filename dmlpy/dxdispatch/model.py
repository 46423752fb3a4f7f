"""`load`: a DxDispatch model, read and checked as a whole, so that all its problems are reported at once."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from dmlpy.description.coercion import brief, given_path
from dmlpy.description.enums import ExecutionFlags, FeatureLevel
from dmlpy.dxdispatch import text
from dmlpy.dxdispatch.bindings import Dispatchable, GraphDispatchable, OperatorDispatchable, resolve
from dmlpy.dxdispatch.commands import Action, Command, Dispatch, Print, WriteFile
from dmlpy.dxdispatch.desc_check import check_desc
from dmlpy.dxdispatch.entries import (
    COMMANDS,
    DispatchableEntry,
    DispatchEntry,
    OnnxEntry,
    OperatorEntry,
    PrintEntry,
    SerializedGraphEntry,
    WriteFileEntry,
    ignored_problem,
)
from dmlpy.dxdispatch.files import SOURCE, Folders
from dmlpy.dxdispatch.onnx_dispatchables import (
    DENOTATION_OPTION,
    NAME_OPTION,
    SHAPE_OPTION,
    OnnxDispatchable,
    OnnxOptions,
    resolve_onnx,
)
from dmlpy.dxdispatch.problem_collector import MAX_ENTRIES, ProblemCollector
from dmlpy.dxdispatch.report import Finding, ModelError, Place, graph_finding
from dmlpy.dxdispatch.resources import Resource, ResourceEntry, build
from dmlpy.messages.json_positions import parts as parts_of
from dmlpy.messages.naming import Count, did_you_mean, nearest
from dmlpy.messages.problems import DescError, Problem, only_errors, only_undocumented, truncate
from dmlpy.validation.checking import LATEST, parse_level

if TYPE_CHECKING:
    from dmlpy.onnx import Model as OnnxModel

HLSL = "hlsl"
ONNX = "onnx"
SERIALIZED_GRAPH = "dmlserializedgraph"
_NO_OPTIONS = OnnxOptions()


@dataclass(frozen=True)
class Model:
    """A model that can be run.

    Attributes:
        path: its file.
        resources: the resources by name.
        dispatchables: the dispatchables by name.
        commands: the commands in order.
        warnings: the parts of the file that are ignored.
    """

    path: Path
    resources: Mapping[str, Resource]
    dispatchables: Mapping[str, Dispatchable]
    commands: tuple[Command, ...]
    warnings: tuple[Finding, ...]


_PARTS: Mapping[str, tuple[type, str]] = {
    "resources": (dict, "an object"),
    "dispatchables": (dict, "an object"),
    "commands": (list, "an array"),
}
"""The members of a model, each with its form."""


def is_model(data: Mapping[str, Any]) -> bool:
    """Returns whether a JSON object is a model and not a single desc."""
    return any(key in data for key in _PARTS)


def root_remedy(data: Mapping[str, Any], *others: str) -> str | None:
    """The remedy for an object that is no model: the member that one of its names is meant to be, of a model or of `others`."""
    for key in data:
        if (nearest_name := nearest(key, (*_PARTS, *others))) is not None:
            return f"did you mean {nearest_name} by {brief(key)}?"
    return None


def load(
    path: Path | str,
    folders: Folders | None = None,
    feature_level: FeatureLevel | str | int = LATEST,
    onnx_options: OnnxOptions = _NO_OPTIONS,
    stream: BinaryIO | None = None,
) -> Model:
    """Reads a model and checks it.

    Args:
        path: the model's file; a file that ends in `.onnx` is an ONNX model, which is dispatched once, with zeros.
        folders: the folders of the files that it names; None: the model's folder, and the current directory.
        feature_level: a cap for its operators, as for `dmlpy.check`.
        onnx_options: sizes for its ONNX models.
        stream: what to read instead of a file; `path` is its name in messages.

    Raises:
        ModelError: all that is wrong with it.
        DescError: an argument of another type.
    """
    path, level = given_path("dxdispatch.load", "path", path), parse_level(feature_level)
    chosen_folders = Folders.of(path) if folders is None else folders
    for name, value, kind in (("folders", chosen_folders, Folders), ("onnx_options", onnx_options, OnnxOptions)):
        if not isinstance(value, kind):
            remedy = "Folders.of(path, input_path)" if kind is Folders else None
            raise DescError("dxdispatch.load", [Problem("field.form", name, brief(value), f"{kind.__name__}(...)", remedy=remedy)])
    if path.suffix.lower() == ".onnx":
        return _of_onnx(path, chosen_folders, level, onnx_options)
    document = text.read(path) if stream is None else text.decode(text.read_stream(stream, path), path)
    return from_document(document, chosen_folders, level, onnx_options)


def _of_onnx(path: Path, folders: Folders, level: FeatureLevel, options: OnnxOptions) -> Model:
    loader = _Loader(folders, level, options)
    source = {"type": "dispatch", "dispatchable": path.stem, "bindings": {}}
    dispatchable = loader.onnx(Place(), path.stem, path, {}, {})
    command = None if dispatchable is None else loader.command(0, source, {}, {path.stem: dispatchable})
    loader.end()
    if loader.findings or dispatchable is None or command is None:
        raise ModelError(path, loader.findings)
    return Model(path, {}, {path.stem: dispatchable}, (command,), tuple(loader.warnings))


def from_document(
    document: text.Document, folders: Folders, feature_level: FeatureLevel = LATEST, onnx_options: OnnxOptions = _NO_OPTIONS
) -> Model:
    """Loads a model from a document; see `load`."""
    loader = _Loader(folders, feature_level, onnx_options)
    loader.findings += document.findings()
    parts = loader.parts(document.data)
    resources = {name: loader.resource(name, entry) for name, entry in loader.each(parts["resources"].items())}
    dispatchables = {name: loader.dispatchable(name, entry, resources) for name, entry in loader.each(parts["dispatchables"].items())}
    commands = [loader.command(index, entry, resources, dispatchables) for index, entry in loader.each(enumerate(parts["commands"]))]
    loader.end()
    if loader.findings:
        raise ModelError(document.path, [finding.located(document.positions) for finding in loader.findings])
    return Model(
        document.path,
        {name: resource for name, resource in resources.items() if resource is not None},
        {name: dispatchable for name, dispatchable in dispatchables.items() if dispatchable is not None},
        tuple(command for command in commands if command is not None),
        tuple(warning.located(document.positions) for warning in loader.warnings),
    )


class _Loader(ProblemCollector):
    """Reads the parts one by one and collects the problems of each. An invalid part becomes None."""

    def __init__(self, folders: Folders, level: FeatureLevel, options: OnnxOptions) -> None:
        super().__init__()
        self.folders = folders
        self.level = level
        self.options = options
        self.available = -1
        self.models: dict[Path, OnnxModel] = {}
        """The ONNX models: a file may name one many times."""
        self.allocated: set[str] = set()
        """The deferred resources that dispatches have allocated so far."""
        self.unused = {
            **dict.fromkeys(options.names, NAME_OPTION),
            **dict.fromkeys(options.denotations, DENOTATION_OPTION),
            **dict.fromkeys(options.shapes, SHAPE_OPTION),
        }
        """The names in the command line that no ONNX model has used so far, each with its option."""
        self.onnx_names: set[str] = set()
        """The names that these options could have."""

    def end(self) -> None:
        """Reports a file that was not read to its end, and unused options of the command line."""
        expected = "a name that an ONNX model of the file has"
        unused, names = sorted(self.unused.items()), self.onnx_names
        self.warn(Place(), [ignored_problem(f"{option} {name}", expected, did_you_mean(name, names)) for name, option in unused])
        if self.full:
            remedy = "fix these first: the rest of the file was not read"
            self.report(Place(), [Problem("file.problems", "file", "a model with very many problems", "none", remedy=remedy)])

    def parts(self, data: Mapping[str, Any]) -> dict[str, Any]:
        read: dict[str, Any] = {}
        problems = []
        if not is_model(data):
            words = "a model (resources, dispatchables, commands)"
            remedy = "dmlpy check FILE.json checks a single desc" if any(key.lower() == "type" for key in data) else root_remedy(data)
            self.report(Place(), [Problem("json.root", "file", "not a model", words, remedy=remedy)])
            return {"resources": {}, "dispatchables": {}, "commands": []}
        if (problem := text.too_many_parts(parts_of(data.get("dispatchables")))) is not None:
            self.report(Place(), [problem])
            return {"resources": {}, "dispatchables": {}, "commands": []}
        unknown = [key for key in data if key not in _PARTS and not key.startswith(("$", "_"))]
        for name, (form, words) in _PARTS.items():
            value = data.get(name)
            read[name] = value if isinstance(value, form) else form()
            if name not in data:
                nearest_name = nearest(name, unknown)
                remedy = None if nearest_name is None else f"did you mean {name} by {brief(nearest_name)}?"
                problems.append(Problem("field.missing", name, "missing", words, remedy=remedy))
            elif not isinstance(value, form):
                problems.append(Problem("field.form", name, brief(value), words))
            elif len(read[name]) > MAX_ENTRIES:
                problems.append(Problem("file.parts", name, Count(f"{len(read[name])} entries"), f"at most {MAX_ENTRIES}"))
        expected = f"one of {', '.join(_PARTS)}"
        self.warn(Place(), list(truncate(ignored_problem(key, expected, did_you_mean(key, _PARTS)) for key in unknown)))
        self.report(Place(), problems)
        return read

    def resource(self, name: str, data: Any) -> Resource | None:
        place = Place(f"resource {name!r}", ("resources", name))
        entry = self.read(ResourceEntry, place, data)
        if entry is None:
            return None
        if self.available < 0:
            import psutil

            self.available = int(psutil.virtual_memory().available)
        try:
            resource = build(name, entry, self.folders, self.available)
        except DescError as error:
            self.report(place, list(error.problems))
            return None
        except OSError as error:
            self.report(place, [Problem("file.unreadable", SOURCE, error.strerror or str(error), "a file that can be read")])
            return None
        except MemoryError:
            # Allocation failed despite the reported free memory: the process or its container has a limit.
            self.report(place, [Problem("resource.memory", "initialValues", "more than the memory that is left", "a smaller resource")])
            return None
        # Once as the file's data and once as the device's buffer.
        self.available = max(0, self.available - resource.size - resource.nbytes)
        return resource

    def dispatchable(self, name: str, data: Any, resources: Mapping[str, Resource | None]) -> Dispatchable | None:
        place = Place(f"dispatchable {name!r}", ("dispatchables", name))
        if not isinstance(data, dict):
            self.report(place, [Problem("field.form", "", brief(data), "an object with type and desc")])
            return None
        kind = data.get("type", data.get("Type"))
        other = kind.lower() if isinstance(kind, str) else ""
        if other == HLSL:
            self.report(place, [Problem("dispatchable.kind", "type", brief(kind), "a DirectML operator", ("shaders need Direct3D",))])
            return None
        if other == ONNX:
            return self._onnx(place, name, data)
        if other == SERIALIZED_GRAPH:
            return self._serialized(place, name, data, resources)
        entry = self.read(OperatorEntry, place, data)
        outside = {*OperatorEntry.spellings(), "type", "Type"}
        nested = next((data[key] for key in ("desc", "Desc") if key in data), None)
        members = nested if isinstance(nested, dict) else {key: value for key, value in data.items() if key not in outside}
        examined = check_desc({"Type": kind, "Desc": members} if kind is not None else {"Desc": members}, self.level, strict=True)
        if examined.problems:
            self.findings.append(replace(examined.finding(place.words), location=place.location))
        self.warnings += [replace(item, location=place.location) for item in examined.undocumented_findings(place.words)]
        if nested is not None:
            own_members = {*outside, "desc", "Desc"}
            surplus = (key for key in data if key not in own_members and not key.startswith(("$", "_")))
            expected = "only type, bindings, executionFlags and dmlCompileType beside desc"
            self.warn(place, list(truncate(ignored_problem(key, expected, "move the struct's members into desc") for key in surplus)))
        if entry is None or examined.kind is None:
            return None
        flags = self._execution_flags(place, entry)
        bare = OperatorDispatchable(name, {}, flags, examined.kind, None if examined.problems else examined.desc)
        owned, problems = resolve(bare, entry.bindings, resources, self.did_you_mean, initialisation=True)
        self.report(place.below("bindings"), problems)
        return replace(bare, owned=owned)

    def _onnx(self, place: Place, name: str, data: dict[str, Any]) -> OnnxDispatchable | None:
        entry = self.read(OnnxEntry, place, data)
        if entry is None:
            return None
        ignored = [key for key in OnnxEntry.FOR_ONNX_RUNTIME if key in data]
        self.warn(place, [ignored_problem(key, "nothing", "leave it out: it configures ONNX Runtime") for key in ignored])
        try:
            path = self.folders.source(entry.source_path, "")
        except DescError as error:
            self.report(place.below("sourcePath"), list(error.problems))
            return None
        names, denotations = entry.free_dimension_name_overrides, entry.free_dimension_denotation_overrides
        dispatchable = self.onnx(place.below("sourcePath"), name, path, names, denotations)
        if dispatchable is not None:
            dimensions = list(dispatchable.dimensions())
            for member, overrides, dimension_names in (
                ("freeDimensionNameOverrides", names, {symbol for symbol, _ in dimensions if symbol}),
                ("freeDimensionDenotationOverrides", denotations, {denotation for _, denotation in dimensions if denotation}),
            ):
                expected = f"one of {', '.join(sorted(dimension_names))}" if dimension_names else "nothing: no open dimension has one"
                unknown = (
                    ignored_problem(f"{member}.{key}", expected, self.did_you_mean(key, dimension_names))
                    for key in overrides
                    if key not in dimension_names
                )
                self.warn(place, list(truncate(unknown)))
        return dispatchable

    def onnx(
        self, place: Place, name: str, path: Path, names: Mapping[str, int], denotations: Mapping[str, int]
    ) -> OnnxDispatchable | None:
        """The dispatchable of an ONNX model's file, with the sizes that its entry gives to open dimensions."""
        options = self.options
        try:
            from dmlpy import onnx  # needs the package onnx

            if path not in self.models:
                self.models[path] = onnx.load(path)
        except ModuleNotFoundError as error:
            remedy = str(error).partition(": ")[2] or None
            missing = Problem("onnx.package", "", "an ONNX model", "the package onnx, which reads it", remedy=remedy)
            unreadable = Problem("file.unreadable", "file", "missing", "a file")
            self.report(place, [missing if os.path.isfile(path) else unreadable])
            return None
        except DescError as error:
            self.report(place, list(error.problems))
            return None
        dispatchable = OnnxDispatchable(
            name,
            {},
            ExecutionFlags.NONE,
            self.models[path],
            self.level,
            {**names, **options.names},
            {**denotations, **options.denotations},
            options.shapes,
        )
        used = {point.name for point in dispatchable.bind_points()}
        used.update(label for dimension in dispatchable.dimensions() for label in dimension if label)
        self.onnx_names |= used
        self.unused = {label: option for label, option in self.unused.items() if label not in used}
        return dispatchable

    def _serialized(self, place: Place, name: str, data: dict[str, Any], resources: Mapping[str, Resource | None]) -> Dispatchable | None:
        entry = self.read(SerializedGraphEntry, place, data)
        if entry is None:
            return None
        flags = self._execution_flags(place, entry)
        from dmlpy.graphs.serialized import load_serialized  # needs flatbuffers

        # The problems' paths are places in the graph; in the model they are reported where the graph is named.
        named = place.below("sourcePath")
        try:
            path = self.folders.source(entry.source_path, "")
            loaded = load_serialized(path, path.parent)
        except DescError as error:
            self.report(named, list(error.problems))
            return None
        all_problems = loaded.graph.check(self.level, strict=True, lenient=True)
        if problems := only_errors(all_problems):
            self.findings.append(graph_finding(named, problems, loaded.graph))
            return None
        if undocumented := only_undocumented(all_problems):
            self.warnings.append(graph_finding(named, undocumented, loaded.graph))
        bare = GraphDispatchable(name, {}, flags, loaded)
        owned, wrong = resolve(bare, entry.bindings, resources, self.did_you_mean, initialisation=True)
        self.report(place.below("bindings"), wrong)
        return replace(bare, owned=owned)

    def _execution_flags(self, place: Place, entry: DispatchableEntry) -> ExecutionFlags:
        spellings, prefix = ExecutionFlags.spellings(), ExecutionFlags.prefix()
        wrong = {flag for flag in entry.execution_flags if flag.removeprefix(prefix) not in spellings}
        expected = f"one of {', '.join(spellings)}"
        self.report(place, list(truncate(Problem("field.form", "executionFlags", brief(flag), expected) for flag in sorted(wrong))))
        return ExecutionFlags.parse([flag for flag in entry.execution_flags if flag not in wrong])

    def command(
        self, index: int, data: Any, resources: Mapping[str, Resource | None], dispatchables: Mapping[str, Dispatchable | None]
    ) -> Command | None:
        place = Place(f"command at index {index}", ("commands", index))
        kind = data.get("type") if isinstance(data, dict) else None
        if not isinstance(kind, str) or kind.lower() not in COMMANDS:
            actual = "missing" if isinstance(data, dict) and "type" not in data else brief(kind if isinstance(data, dict) else data)
            remedy = self.did_you_mean(kind, ("dispatch", "print", "writeFile"))
            self.report(place, [Problem("command.kind", "type", actual, "dispatch, print or writeFile", remedy=remedy)])
            return None
        entry = self.read(COMMANDS[kind.lower()], place, data)
        action: Action | None = None
        if isinstance(entry, DispatchEntry):
            if "threadGroupCount" in data:
                self.warn(place, [ignored_problem("threadGroupCount", "nothing", "leave it out: it is for shaders")])
            action = self._dispatch(place, entry, resources, dispatchables)
        elif isinstance(entry, PrintEntry | WriteFileEntry):
            resource = self._named(place, "resource", entry.resource, resources)
            if resource is not None:
                action = self._of_resource(place, entry, resource)
        return None if action is None else Command(action, data)

    def _named(self, place: Place, member: str, name: str, parts: Mapping[str, Any]) -> Any:
        if name not in parts:
            remedy = self.did_you_mean(name, parts, repr)
            self.report(place, [Problem("command.name", member, brief(name), f"a {member} of the file", remedy=remedy)])
        return parts.get(name)

    def _dispatch(
        self,
        place: Place,
        entry: DispatchEntry,
        resources: Mapping[str, Resource | None],
        dispatchables: Mapping[str, Dispatchable | None],
    ) -> Action | None:
        dispatchable: Dispatchable | None = self._named(place, "dispatchable", entry.dispatchable, dispatchables)
        if dispatchable is None or isinstance(dispatchable, OnnxDispatchable):
            named = (resources.get(source.name) for sources in entry.bindings.values() for source in sources)
            self.allocated.update(resource.name for resource in named if resource is not None and resource.deferred)
        if dispatchable is None:
            return None
        if isinstance(dispatchable, OnnxDispatchable):
            action, problems = resolve_onnx(dispatchable, entry.bindings, resources, self.did_you_mean)
            self.report(place.below("bindings"), problems)
            return action
        ranges, problems = resolve(dispatchable, entry.bindings, resources, self.did_you_mean)
        self.report(place.below("bindings"), problems)
        return None if problems else Dispatch(dispatchable, ranges)

    def _of_resource(self, place: Place, entry: PrintEntry | WriteFileEntry, resource: Resource) -> Action | None:
        if resource.deferred and resource.name not in self.allocated:
            why = ("a dispatch of an ONNX model gives it memory, as one of its outputs",)
            actual, expected = f"{resource.name!r}, deferred", "a resource with memory"
            self.report(place, [Problem("command.resource", "resource", actual, expected, why, "dispatch the model before this command")])
            return None
        try:
            action: Print | WriteFile
            if isinstance(entry, PrintEntry):
                action = Print(resource, entry.verbose)
            else:
                action = WriteFile(resource, self.folders.target(entry.target_path), entry.dimensions)
            if not resource.deferred:
                action.check(resource)
        except DescError as error:
            self.report(place, list(error.problems))
            return None
        return action
