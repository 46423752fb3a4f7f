"""`load`: a DxDispatch model, read and checked as a whole, so that all its problems are reported at once."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from dmlpy.description.enums import ExecutionFlags, FeatureLevel
from dmlpy.description.member_forms import brief
from dmlpy.description.naming import did_you_mean
from dmlpy.dxdispatch import text
from dmlpy.dxdispatch.bindings import Dispatchable, GraphDispatchable, OperatorDispatchable, Range, resolve
from dmlpy.dxdispatch.entries import (
    COMMANDS,
    DispatchableEntry,
    DispatchEntry,
    ModelEntry,
    OperatorEntry,
    PrintEntry,
    SerializedGraphEntry,
    WriteFileEntry,
    form_problems,
    ignored,
    unknown_members,
)
from dmlpy.dxdispatch.examine import examine
from dmlpy.dxdispatch.files import SOURCE, Folders
from dmlpy.dxdispatch.npy import MAX_DIMENSIONS
from dmlpy.dxdispatch.pictures import IMAGE_SUFFIXES, IMAGE_TYPES
from dmlpy.dxdispatch.report import Finding, ModelError, Place, graph_finding
from dmlpy.dxdispatch.resources import Resource, ResourceEntry, build
from dmlpy.inspection.json_positions import parts as parts_of
from dmlpy.validation.checking import LATEST
from dmlpy.validation.problems import MAX_PROBLEMS, MAX_TOLD, DescError, Problem, told

OTHER_KINDS = {
    "hlsl": "shaders need Direct3D",
    "onnx": "ONNX models are not run by dmlpy; ONNX Runtime runs them",
}
SERIALIZED_GRAPH = "dmlserializedgraph"
MAX_ENTRIES = 100_000
"""The most resources, dispatchables or commands of a model; further ones are not read."""
EntryT = TypeVar("EntryT", bound=ModelEntry)
PartT = TypeVar("PartT")


@dataclass(frozen=True)
class Dispatch:
    """Runs a dispatchable over parts of resources, by field."""

    dispatchable: Dispatchable
    bindings: Mapping[str, Range]


@dataclass(frozen=True)
class Print:
    """Prints a resource's values."""

    resource: Resource
    verbose: bool


@dataclass(frozen=True)
class WriteFile:
    """Writes a resource to a file below the output folder."""

    resource: Resource
    target: Path
    dimensions: tuple[int, ...]


Action = Dispatch | Print | WriteFile


@dataclass(frozen=True)
class Command:
    """One command: its action, and its text in the file."""

    action: Action
    source: Mapping[str, Any]


@dataclass(frozen=True)
class Model:
    """A model that can be run.

    Attributes:
        path: its file.
        resources: the resources by name.
        dispatchables: the dispatchables by name.
        commands: the commands in order.
        warnings: the parts of the file that have no meaning.
    """

    path: Path
    resources: Mapping[str, Resource]
    dispatchables: Mapping[str, Dispatchable]
    commands: tuple[Command, ...]
    warnings: tuple[Finding, ...]


def is_model(data: Mapping[str, Any]) -> bool:
    """Returns whether a JSON object is a model and not a single desc."""
    return any(key in data for key in ("resources", "dispatchables", "commands"))


def load(path: Path, folders: Folders | None = None, feature_level: FeatureLevel = LATEST) -> Model:
    """Reads a model and checks it.

    Args:
        path: the model's file.
        folders: the folders of the files that it names; None is beside the model, and the current directory.
        feature_level: a cap for its operators, as for `dmlpy.check`.

    Raises:
        ModelError: all that is wrong with it.
    """
    return from_document(text.read(path), folders or Folders.of(path), feature_level)


def from_document(document: text.Document, folders: Folders, feature_level: FeatureLevel = LATEST) -> Model:
    """Loads a model from a document; see `load`."""
    loader = _Loader(folders, feature_level)
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


@dataclass
class _Loader:
    """Reads the parts one by one and gathers the problems of each. An invalid part becomes None."""

    folders: Folders
    level: FeatureLevel
    findings: list[Finding] = field(default_factory=list)
    warnings: list[Finding] = field(default_factory=list)
    available: int = -1
    warned: int = 0
    remedies: int = MAX_TOLD
    """The number of further names that are compared with those of the file: comparing takes longer than reading."""

    def did_you_mean(self, name: object, candidates: Iterable[str], show: Callable[[str], str] = str) -> str | None:
        """Suggests names as `naming.did_you_mean` does, for the first mistyped names of a file."""
        self.remedies -= 1
        return did_you_mean(name, candidates, show) if self.remedies >= 0 else None

    def each(self, parts: Iterable[PartT]) -> Iterator[PartT]:
        """Yields the parts one by one, until there are more problems than anybody reads."""
        for part in islice(parts, MAX_ENTRIES):
            if self.full:
                return
            yield part

    @property
    def full(self) -> bool:
        """Whether so many problems were found that the rest of the file is not read."""
        return sum(len(finding.problems) for finding in self.findings) >= MAX_PROBLEMS

    def end(self) -> None:
        """Reports it if the file was not read to its end."""
        if self.full:
            remedy = "fix these first: the rest of the file was not read"
            self.report(Place(), [Problem("file.problems", "file", "a model with very many problems", "none", remedy=remedy)])

    def report(self, place: Place, problems: list[Problem]) -> None:
        if problems:
            self.findings.append(Finding(place.words, tuple(problems), location=place.location))

    def warn(self, place: Place, problems: list[Problem]) -> None:
        self.warned += len(problems)
        if problems and self.warned <= MAX_PROBLEMS:
            self.warnings.append(Finding(place.words, tuple(problems), location=place.location, severity="warning"))

    def parts(self, data: Mapping[str, Any]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        problems = []
        if not is_model(data):
            words = "a model (resources, dispatchables, commands)"
            remedy = "dmlpy check FILE.json checks a single desc" if any(key.lower() == "type" for key in data) else None
            self.report(Place(), [Problem("json.root", "file", "not a model", words, remedy=remedy)])
            return {"resources": {}, "dispatchables": {}, "commands": []}
        if (problem := text.too_many_parts(parts_of(data.get("dispatchables")))) is not None:
            self.report(Place(), [problem])
            return {"resources": {}, "dispatchables": {}, "commands": []}
        for name, form, words in (("resources", dict, "an object"), ("dispatchables", dict, "an object"), ("commands", list, "an array")):
            value = data.get(name)
            found[name] = value if isinstance(value, form) else form()
            if name not in data:
                problems.append(Problem("field.missing", name, "missing", words))
            elif not isinstance(value, form):
                problems.append(Problem("field.form", name, brief(value), words))
            elif len(found[name]) > MAX_ENTRIES:
                problems.append(Problem("file.parts", name, f"{len(found[name])} of them", f"at most {MAX_ENTRIES}"))
        self.report(Place(), problems)
        return found

    def read(self, kind: type[EntryT], place: Place, data: Any) -> EntryT | None:
        try:
            entry = kind.model_validate(data)
        except ValidationError as error:
            self.report(place, form_problems(error))
            return None
        if kind is not OperatorEntry and self.warned < MAX_PROBLEMS:
            self.warn(place, unknown_members(kind, data))
        return entry

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
        if isinstance(kind, str) and kind.lower() in OTHER_KINDS:
            why = (OTHER_KINDS[kind.lower()],)
            self.report(place, [Problem("dispatchable.kind", "type", brief(kind), "a DirectML operator", why)])
            return None
        if isinstance(kind, str) and kind.lower() == SERIALIZED_GRAPH:
            return self._serialized(place, name, data, resources)
        entry = self.read(OperatorEntry, place, data)
        beside = {*OperatorEntry.spellings(), "type", "Type"}
        nested = next((data[key] for key in ("desc", "Desc") if key in data), None)
        members = nested if isinstance(nested, dict) else {key: value for key, value in data.items() if key not in beside}
        examined = examine({"Type": kind, "Desc": members} if kind is not None else {"Desc": members}, self.level, strict=True)
        if examined.problems:
            self.findings.append(replace(examined.finding(place.words), location=place.location))
        if nested is not None:
            known = {*beside, "desc", "Desc"}
            surplus = (key for key in data if key not in known and not key.startswith(("$", "_")))
            expected = "only type, bindings, executionFlags and dmlCompileType beside desc"
            self.warn(place, list(told(ignored(key, expected, "move the struct's members into desc") for key in surplus)))
        if entry is None or examined.kind is None:
            return None
        flags = self._execution_flags(place, entry)
        bare = OperatorDispatchable(name, {}, flags, examined.kind, None if examined.problems else examined.desc)
        owned, problems = resolve(bare, entry.bindings, resources, self.did_you_mean, initialisation=True)
        self.report(place.below("bindings"), problems)
        return replace(bare, owned=owned)

    def _serialized(self, place: Place, name: str, data: dict[str, Any], resources: Mapping[str, Resource | None]) -> Dispatchable | None:
        entry = self.read(SerializedGraphEntry, place, data)
        if entry is None:
            return None
        flags = self._execution_flags(place, entry)
        from dmlpy.graphs.serialized import load_serialized  # needs flatbuffers

        # The problems' paths are places in the graph: in the model they stand where the graph is named.
        named = place.below("sourcePath")
        try:
            path = self.folders.source(entry.source_path, "")
            loaded = load_serialized(path, path.parent)
        except DescError as error:
            self.report(named, list(error.problems))
            return None
        if problems := loaded.graph.check(self.level, strict=True, lenient=True):
            self.findings.append(graph_finding(named, problems, loaded.graph))
            return None
        bare = GraphDispatchable(name, {}, flags, loaded)
        owned, wrong = resolve(bare, entry.bindings, resources, self.did_you_mean, initialisation=True)
        self.report(place.below("bindings"), wrong)
        return replace(bare, owned=owned)

    def _execution_flags(self, place: Place, entry: DispatchableEntry) -> ExecutionFlags:
        known, prefix = ExecutionFlags.spellings(), ExecutionFlags.prefix()
        wrong = {flag for flag in entry.execution_flags if flag.removeprefix(prefix) not in known}
        expected = f"one of {', '.join(known)}"
        self.report(place, list(told(Problem("field.form", "executionFlags", brief(flag), expected) for flag in sorted(wrong))))
        return ExecutionFlags.parse([flag for flag in entry.execution_flags if flag not in wrong])

    def command(
        self, index: int, data: Any, resources: Mapping[str, Resource | None], dispatchables: Mapping[str, Dispatchable | None]
    ) -> Command | None:
        place = Place(f"command at index {index}", ("commands", index))
        kind = data.get("type") if isinstance(data, dict) else None
        if not isinstance(kind, str) or kind.lower() not in COMMANDS:
            found = "missing" if isinstance(data, dict) and "type" not in data else brief(kind if isinstance(data, dict) else data)
            self.report(place, [Problem("command.kind", "type", found, "dispatch, print or writeFile")])
            return None
        entry = self.read(COMMANDS[kind.lower()], place, data)
        action: Action | None = None
        if isinstance(entry, DispatchEntry):
            if "threadGroupCount" in data:
                self.warn(place, [ignored("threadGroupCount", "nothing", "leave it out: it is for shaders")])
            action = self._dispatch(place, entry, resources, dispatchables)
        elif isinstance(entry, PrintEntry | WriteFileEntry):
            resource = self._named(place, "resource", entry.resource, resources)
            if resource is not None:
                make = self._print if isinstance(entry, PrintEntry) else self._write_file
                action = self._checked(place, lambda: make(entry, resource))  # type: ignore[arg-type]
        return None if action is None else Command(action, data)

    def _checked(self, place: Place, make: Callable[[], Action]) -> Action | None:
        try:
            return make()
        except DescError as error:
            self.report(place, list(error.problems))
            return None

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
    ) -> Dispatch | None:
        dispatchable: Dispatchable | None = self._named(place, "dispatchable", entry.dispatchable, dispatchables)
        if dispatchable is None:
            return None
        found, problems = resolve(dispatchable, entry.bindings, resources, self.did_you_mean)
        self.report(place.below("bindings"), problems)
        return None if problems else Dispatch(dispatchable, found)

    def _print(self, entry: PrintEntry, resource: Resource) -> Print:
        _readable(resource, "printed")
        return Print(resource, entry.verbose)

    def _write_file(self, entry: WriteFileEntry, resource: Resource) -> WriteFile:
        target = self.folders.target(entry.target_path)
        suffix = target.suffix.lower()
        if suffix == ".npy" or suffix in IMAGE_SUFFIXES:
            _readable(resource, f"written to a {suffix} file")
            _fitting(entry.dimensions, resource, suffix)
        elif resource.deferred:
            _readable(resource, "written")
        return WriteFile(resource, target, entry.dimensions)


def _readable(resource: Resource, verb: str) -> None:
    if resource.deferred or resource.data_type is None:
        found = "deferred" if resource.deferred else "a struct of mixed values"
        why = "its memory is allocated by an ONNX model, which dmlpy does not run" if resource.deferred else f"it cannot be {verb}"
        raise DescError("command", [Problem("command.resource", "resource", f"{resource.name!r}, {found}", "values of one type", (why,))])


def _fitting(dimensions: tuple[int, ...], resource: Resource, suffix: str) -> None:
    if len(dimensions) > MAX_DIMENSIONS:
        # The number of elements of so many sizes has no use, and may have millions of digits.
        problem = Problem("command.dimensions", "dimensions", f"{len(dimensions)} of them", f"at most {MAX_DIMENSIONS}")
        raise DescError("command", [problem])
    problems = []
    found = str(list(dimensions))
    if dimensions and math.prod(dimensions) > resource.count:
        why = (f"they have {math.prod(dimensions)} elements",)
        problems.append(Problem("command.dimensions", "dimensions", found, f"at most the {resource.count} values of the resource", why))
    if suffix == ".npy":
        if resource.data_type is not None and resource.data_type.bits == 4:
            problems.append(Problem("command.resource", "resource", str(resource.data_type), "a type that .npy files have"))
    else:
        if len(dimensions) != 4 or dimensions[0] != 1 or dimensions[1] not in (1, 3, 4) or min(dimensions) < 1:
            problems.append(Problem("command.dimensions", "dimensions", found, "[1, C, H, W] with C = 1, 3 or 4 for a picture"))
        if resource.data_type not in IMAGE_TYPES:
            problems.append(Problem("command.resource", "resource", str(resource.data_type), "FLOAT32 or FLOAT16 for a picture"))
    if problems:
        raise DescError("command", problems)
