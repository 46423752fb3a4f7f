"""The parts of a model file as pydantic models: the form that each member may have. Relations between parts are checked in `model`."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import AliasChoices, BaseModel, BeforeValidator, ConfigDict, FailFast, Field, ValidationError
from pydantic.alias_generators import to_camel

from dmlpy.description.coercion import brief
from dmlpy.description.enums import DataType
from dmlpy.description.form_remedies import spelling_remedy
from dmlpy.messages.naming import did_you_mean
from dmlpy.messages.problems import MAX_REPORTED, Problem, truncate

MAX_BIND_POINTS = 10_000
"""The most bind points of a dispatchable: operators have some twenty, graphs one for each input and output."""
MAX_BOUND = 50_000
"""The most resources of one bind point."""
MAX_SHAPE = 1000
"""The most sizes of the shape in which an ONNX model uses a resource."""
Uint = Annotated[int, Field(strict=True, ge=0, lt=2**64)]


def type_or_unknown(value: Any) -> DataType:
    """Parses a data type of DirectML by its name in the file."""
    data_type = DataType.parse(value) if isinstance(value, str) else None
    if data_type is None or data_type is DataType.BFLOAT16:
        raise ValueError(f"expected one of {', '.join(name for name in DataType.spellings() if name != 'BFLOAT16')}")
    return data_type


class ModelEntry(BaseModel):
    """An object in a model file. Meaningless members are ignored, as DxDispatch does; `unknown_members` names them."""

    model_config = ConfigDict(frozen=True, extra="ignore", alias_generator=to_camel, defer_build=True)

    @classmethod
    def spellings(cls) -> list[str]:
        """The members' names in the file."""
        spellings: list[str] = []
        for name, info in cls.model_fields.items():
            alias = info.validation_alias
            spellings += (
                map(str, alias.choices) if isinstance(alias, AliasChoices) else [alias if isinstance(alias, str) else to_camel(name)]
            )
        return spellings


def _as_shape(value: Any) -> Any:
    if isinstance(value, list) and len(value) > MAX_SHAPE:
        raise ValueError(f"expected at most {MAX_SHAPE} sizes, not {len(value)}")
    return value


class SourceEntry(ModelEntry):
    """One resource at a bind point."""

    name: str
    element_count: Uint | None = None
    element_size_in_bytes: Annotated[Uint | None, Field(validation_alias=AliasChoices("elementSizeInBytes", "elementStride"))] = None
    element_offset: Uint = 0
    format: str | None = None
    counter: str | None = None
    counter_offset_bytes: Uint = 0
    shape: Annotated[list[Uint] | None, BeforeValidator(_as_shape)] = None


def _as_sources(value: Any) -> Any:
    items = value if isinstance(value, list) else [value]
    if len(items) > MAX_BOUND:
        raise ValueError(f"expected at most {MAX_BOUND} resources, not {len(items)}")
    return [{"name": item} if isinstance(item, str) else item for item in items]


def _as_bindings(value: Any) -> Any:
    if isinstance(value, dict) and len(value) > MAX_BIND_POINTS:
        raise ValueError(f"expected at most {MAX_BIND_POINTS} bind points, not {len(value)}")
    return value


# Only the first unreadable entry of a list is reported: a list of millions would have millions of problems.
Bindings = Annotated[dict[str, Annotated[tuple[SourceEntry, ...], FailFast(), BeforeValidator(_as_sources)]], BeforeValidator(_as_bindings)]


def as_lower(value: Any) -> Any:
    """Converts text to lower case; other values are rejected later."""
    return value.lower() if isinstance(value, str) else value


class DispatchEntry(ModelEntry):
    """A command that runs a dispatchable."""

    type: Annotated[Literal["dispatch"], BeforeValidator(as_lower)]
    dispatchable: str
    bindings: Bindings
    thread_group_count: tuple[Uint, Uint, Uint] = (1, 1, 1)


class PrintEntry(ModelEntry):
    """A command that prints a resource's values."""

    type: Annotated[Literal["print"], BeforeValidator(as_lower)]
    resource: str
    verbose: Annotated[bool, Field(strict=True)] = False


class WriteFileEntry(ModelEntry):
    """A command that writes a resource to a file."""

    type: Annotated[Literal["writefile"], BeforeValidator(as_lower)]
    resource: str
    target_path: Annotated[str, Field(min_length=1)]
    dimensions: Annotated[tuple[Uint, ...], FailFast()] = ()


Command = DispatchEntry | PrintEntry | WriteFileEntry
COMMANDS: dict[str, type[Command]] = {"dispatch": DispatchEntry, "print": PrintEntry, "writefile": WriteFileEntry}


def _as_list(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


class DispatchableEntry(ModelEntry):
    """The base of the dispatchables' entries."""

    execution_flags: Annotated[list[str], FailFast(), BeforeValidator(lambda value: [value] if isinstance(value, str) else value)] = [
        "NONE"
    ]
    bindings: Bindings = {}


class OperatorEntry(DispatchableEntry):
    """The members of a DirectML operator's dispatchable, without its desc."""

    dml_compile_type: Literal["DmlCompileOp", "DmlCompileGraph"] = "DmlCompileOp"


class SerializedGraphEntry(DispatchableEntry):
    """The dispatchable of a graph that ONNX Runtime serialized."""

    type: Annotated[Any, Field(validation_alias=AliasChoices("type", "Type"))]
    source_path: Annotated[str, Field(min_length=1)]


FreeSizes = Annotated[dict[str, Annotated[int, Field(strict=True, ge=1, lt=2**32)]], BeforeValidator(_as_bindings)]


class OnnxEntry(ModelEntry):
    """The dispatchable of an ONNX model. DxDispatch runs it with ONNX Runtime, which some members configure."""

    type: Annotated[Any, Field(validation_alias=AliasChoices("type", "Type"))]
    source_path: Annotated[str, Field(min_length=1)]
    free_dimension_name_overrides: FreeSizes = {}
    free_dimension_denotation_overrides: FreeSizes = {}
    session_options_config_entries: dict[str, str] = {}
    graph_optimization_level: Literal[0, 1, 2, 99] = 99
    logging_level: Literal[0, 1, 2, 3, 4] = 2

    FOR_ONNX_RUNTIME: ClassVar[tuple[str, ...]] = ("sessionOptionsConfigEntries", "graphOptimizationLevel", "loggingLevel")
    """Members that only configure ONNX Runtime."""


def form_problems(error: ValidationError) -> list[Problem]:
    """The problems that pydantic found, with places in the file's spelling."""
    problems: list[Problem] = []
    for item in error.errors(include_url=False)[:MAX_REPORTED]:
        path = ""
        for part in item["loc"]:
            path += f"[{part}]" if isinstance(part, int) else ("." if path else "") + part
        if item["type"] == "missing":
            problems.append(Problem("field.missing", path, "missing", "a value: the member is required"))
            continue
        cause = item.get("ctx", {}).get("error")
        expected = str(cause).removeprefix("expected ") if cause else item["msg"].removeprefix("Input should be ")
        if item["type"] == "model_type":
            expected = "an object"
        remedy = spelling_remedy(item["input"], expected, getattr(cause, "prefix", ""))
        problems.append(Problem("field.form", path, brief(item["input"]), expected, remedy=remedy))
    return problems


def unknown_members(kind: type[ModelEntry], data: dict[str, Any]) -> list[Problem]:
    """A problem for each meaningless member."""
    names = kind.spellings()
    unknown = (key for key in data if key not in names and not key.startswith(("$", "_")))
    return list(truncate(ignored_problem(key, f"one of {', '.join(names)}", did_you_mean(key, names)) for key in unknown))


def ignored_problem(key: str, expected: str, remedy: str | None = None) -> Problem:
    """The problem of a member that is ignored in its place."""
    return Problem("member.ignored", key, "not used here", expected, remedy=remedy)
