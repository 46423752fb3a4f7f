"""What is known of a struct's members: one source for `help`, signatures, `dmlpy explain` and the schemas."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import dmlpy as dml
from dmlpy.description import member_docs
from dmlpy.description.member_docs import MemberInfo
from dmlpy.description.registry import OPERATORS
from dmlpy.description.structs import Struct
from dmlpy.inspection import schemas
from dmlpy.inspection.explain import explain
from tests.support.tables import table

MODULE = '''
from typing import Annotated

from dmlpy.description.markers import In
from dmlpy.description.coercion import After, Bool, Uint, default
from dmlpy.description.descs import OperatorDesc
from dmlpy.description.support import FLOATS, SupportRow
from dmlpy.description.tensors import TensorDesc


class Base(OperatorDesc):
    """What both share."""

    support = (SupportRow("1_0", dims=4, T=FLOATS),)

    first: Annotated[TensorDesc, In("a b")]
    """The first one,
    told on two lines."""

    last: Uint
    """The last one."""


class Both(Base, extension="MEMBERS_OF_A_TEST"):
    """DMLPY_MEMBERS_OF_A_TEST_OPERATOR_DESC: a made-up operator."""

    flag: Annotated[Bool, After("first")] = default(True)
    """Whether it is so."""

    other: Annotated[TensorDesc | None, In("b a"), After("flag")] = None
    """Another one."""
'''


def test_members_are_listed_once_in_the_order_of_the_struct(tmp_path: Path) -> None:
    (tmp_path / "made_up.py").write_text(MODULE, encoding="utf-8")
    # In a separate process: the class would stay among the operators.
    program = "import inspect, made_up\nprint(made_up.Both.__doc__)\nprint(inspect.signature(made_up.Both))"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=tmp_path, check=True)
    assert run.stdout == (
        "a made-up operator.\n\nMembers:\n"
        "    first: input, [a, b], FLOAT32 or FLOAT16\n        The first one, told on two lines.\n"
        "    flag: attribute, true | false\n        Whether it is so. True in Python if left out.\n"
        "    other: input, optional, [b, a], FLOAT32 or FLOAT16\n        Another one.\n"
        "    last: attribute, an integer from 0\n        The last one.\n"
        "(*, first: 'TensorDesc', flag: 'bool' = True, other: 'TensorDesc | None' = None, last: 'int')\n"
    )


def test_the_signature_is_the_same_before_and_after_the_first_use() -> None:
    kind = "dmlpy.ActivationEluDesc"
    program = f"import inspect, dmlpy\nprint(inspect.signature({kind}))\n{kind}()\nprint(inspect.signature({kind}))"
    before, after = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.splitlines()
    assert (
        before == after == "(*, input_tensor: 'TensorDesc | None' = None, output_tensor: 'TensorDesc | None' = None, alpha: 'float' = 1.0)"
    )


def test_a_signature_binds_what_the_constructor_takes() -> None:
    signature = inspect.signature(dml.TensorDesc)
    bound = signature.bind(data_type="FLOAT32", sizes=[1, 2])
    bound.apply_defaults()
    assert dml.TensorDesc(**bound.arguments) == dml.TensorDesc(data_type="FLOAT32", sizes=(1, 2))
    with pytest.raises(TypeError, match="missing a required argument: 'sizes'"):
        signature.bind(data_type="FLOAT32")


ACCEPTED = [
    (dml.GRUDesc, "direction", "RecurrentDirection | str"),
    (dml.GRUDesc, "activation_descs", "Sequence[ActivationDesc]"),
    (dml.GRUDesc, "bias_tensor", "TensorDesc | None"),
    (dml.TensorDesc, "strides", "Sequence[int] | None"),
    (dml.FillValueConstantDesc, "value", "int | float"),
    (dml.JoinDesc, "input_tensors", "Sequence[TensorDesc]"),
    (dml.ElementWiseAdd1Desc, "fused_activation", "ActivationDesc | None"),
    (dml.ROIPoolingDesc, "pooled_size", "Size2D"),
    (dml.Graph, "nodes", "Sequence[OperatorNode | ConstantNode]"),
]


@pytest.mark.parametrize(("kind", "name", "expected"), ACCEPTED, ids=[f"{kind.__name__}.{name}" for kind, name, _ in ACCEPTED])
def test_types_of_the_constructor(kind: type[dml.TensorDesc], name: str, expected: str) -> None:
    assert member_docs.accepted_type(kind.model_fields[name].annotation) == expected


TYPES = [
    (dml.LSTMDesc, "input_tensor", "FLOAT32 or FLOAT16"),
    (dml.LSTMDesc, "sequence_lengths_tensor", "UINT32"),
    (dml.ActivationReluDesc, "input_tensor", "FLOAT32 or FLOAT16; from 5_1 on also INT32, INT16 or INT8"),
    (dml.GRUGradDesc, "reserve_tensor", "FLOAT32"),
]


@pytest.mark.parametrize(("kind", "name", "expected"), TYPES, ids=[f"{kind.__name__}.{name}" for kind, name, _ in TYPES])
def test_types_by_level(kind: type[dml.OperatorDesc], name: str, expected: str) -> None:
    (member,) = (member for member in kind.members() if member.name == name)
    assert member.types() == expected


def test_types_that_an_attribute_chooses() -> None:
    (output,) = (member for member in dml.ReduceDesc.members() if member.kind == "output")
    indices, *values = output.types().split(". With ")
    assert indices == "With function ARGMIN or ARGMAX: UINT32; from 3_0 on also INT32, UINT64 or INT64"
    assert all("UINT32; from 3_0" not in text for text in values)
    assert output.types_at(dml.FeatureLevel.FL_1_0) == frozenset({dml.DataType.FLOAT32, dml.DataType.FLOAT16, dml.DataType.UINT32})


# every class

TYPE_NAMES = re.compile(rf"\b({'|'.join(dml.DataType.spellings())})\b")


def subclasses(kind: Any) -> Iterator[type[Struct]]:
    for below in kind.__subclasses__():
        yield below
        yield from subclasses(below)


@cache
def declared() -> dict[type[Struct], dict[str, str]]:
    """The fields that each struct class of dmlpy declares itself, with their texts; empty where there is none."""
    assert len(OPERATORS) > 100  # imports all families
    kinds = [kind for kind in dict.fromkeys(subclasses(Struct)) if kind.__module__.startswith("dmlpy.")]
    return {
        kind: {name: member_docs.declared_texts(kind).get(name, "") for name in kind.__annotations__ if name in kind.model_fields}
        for kind in kinds
    }


def faults_of(text: str, member: MemberInfo) -> Iterator[str]:
    """Where a text is not a sentence, or repeats the marker."""
    if not re.match(r"[A-Z]", text) or not text.endswith("."):
        yield "is not a sentence"
    if re.search(r"(?<!\w)\[", text):
        yield "repeats sizes"
    if "in Python" in text:
        yield "repeats the default"
    if member.kind != "attribute":
        types = {str(item) for row in member.support for item in row.types}
        if len(types) == 1 and types & set(TYPE_NAMES.findall(text)):
            yield "repeats the type"
        if re.search(r"\b(input's|[a-z]'s) sizes\b|sizes and type", text):
            yield "repeats the sizes of another tensor"


FAULTY = [
    ("x, the samples.", "is not a sentence"),
    ("The samples", "is not a sentence"),
    ("The samples, [1, T, B, I].", "repeats sizes"),
    ("The samples, 0 in Python if left out.", "repeats the default"),
    ("The lengths, UINT32.", "repeats the type"),
    ("The lengths, the input's sizes.", "repeats the sizes of another tensor"),
]


@pytest.mark.parametrize(("text", "fault"), FAULTY, ids=[fault + str(index) for index, (_, fault) in enumerate(FAULTY)])
def test_what_a_text_must_not_repeat(text: str, fault: str) -> None:
    (lengths,) = (member for member in dml.LSTMDesc.members() if member.name == "sequence_lengths_tensor")
    assert list(faults_of(text, lengths)) == [fault]
    assert list(faults_of("The hidden state h[t] of every step, at least one.", lengths)) == []


def test_every_declared_member_has_a_text_that_repeats_nothing() -> None:
    wrong = []
    for kind, fields in declared().items():
        told = {member.name: member for member in kind.members()}
        wrong += [f"{kind.__name__}.{name} {fault}" for name, text in fields.items() for fault in faults_of(text, told[name])]
    assert not wrong, "\n".join(wrong)


def test_a_member_that_is_declared_again_means_something_else() -> None:
    """Else the base's text would do, and with it the base's field."""
    same = []
    for kind, fields in declared().items():
        above = [declared()[base] for base in kind.__mro__[1:] if base in declared()]
        for name, text in fields.items():
            inherited = next((own[name] for own in above if name in own), None)
            same += [f"{kind.__name__}.{name}"] if inherited == text else []
    assert not same


def test_a_long_text_stands_in_one_class() -> None:
    places: dict[tuple[str, str], list[str]] = {}
    for kind, fields in declared().items():
        for name, text in fields.items():
            places.setdefault((name, text), []).append(kind.__name__)
    repeated = {name: kinds for (name, text), kinds in places.items() if len(kinds) > 1 and len(text) > 100}
    assert not repeated


def page_of(kind: type[Struct]) -> str:
    """The documentation on one line."""
    return " ".join((inspect.getdoc(kind) or "").split())


@table("operator", OPERATORS)
def test_help_explanation_schema_and_signature_agree(operator: str) -> None:
    kind = OPERATORS[operator]
    known = [member for member in kind.members() if member.name]
    page, schema = page_of(kind), schemas.schema(kind)["$defs"][kind.c_name]
    signature = inspect.signature(kind).parameters
    table = "".join("".join(row) for row in explain(operator).members().rows)
    assert [member.name for member in known] == list(signature) == list(kind.model_fields)
    assert page.startswith(" ".join(kind.description().split()))
    assert [name for name in schema["properties"] if name not in kind.c_counts] == [member.c_name for member in known]
    for member in known:
        head = f"{member.name}: {member.kind}, {'' if member.required else 'optional, '}{member.values}"
        body = " ".join(filter(None, (head + (f", {member.types()}" if member.types() else ""), member.meaning)))
        assert " ".join(body.split()) in page
        assert member.meaning in table
        assert schema["properties"][member.c_name]["description"] == schemas.in_c(kind, member.text)
        assert (member.c_name in schema["required"]) == member.required
        parameter, info = signature[member.name], kind.model_fields[member.name]
        assert parameter.kind is inspect.Parameter.KEYWORD_ONLY
        assert parameter.annotation == member.annotation
        assert parameter.default == (inspect.Parameter.empty if info.is_required() else info.default)


OTHER_STRUCTS = [dml.TensorDesc, dml.ScaleBias, dml.Size2D, dml.Graph]


@pytest.mark.parametrize("kind", OTHER_STRUCTS, ids=lambda kind: kind.__name__)
def test_help_shows_the_members_of_the_other_structs(kind: type[Struct]) -> None:
    for member in kind.members():
        assert not member.name or f"{member.name}: attribute" in page_of(kind)
        assert member.meaning in page_of(kind) or not member.name


def test_a_struct_without_source_code_has_members_without_texts() -> None:
    namespace: dict[str, Any] = {}
    source = (
        "from dmlpy.description.value_structs import ValueStruct\n"
        "class Typed(ValueStruct):\n    'Typed in.'\n    c_name = 'TYPED'\n    number: int\n"
    )
    exec(source, namespace)  # a class of an interactive session
    kind = namespace["Typed"]
    assert kind.__doc__ == "Typed in.\n\nMembers:\n    number: attribute, an integer from 0"
