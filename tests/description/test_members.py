"""What is known of a struct's members: one source for `help`, signatures, `dmlpy explain` and the schemas."""

from __future__ import annotations

import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import dmlpy as dml
from dmlpy.description import members

MODULE = '''
from typing import Annotated

from dmlpy.description.markers import In
from dmlpy.description.structs import After, Bool, Uint, default
from dmlpy.description.descs import OperatorDesc
from dmlpy.description.support import FLOATS, Since
from dmlpy.description.tensors import TensorDesc


class Base(OperatorDesc):
    """What both share."""

    support = (Since("1_0", dims=4, T=FLOATS),)

    first: Annotated[TensorDesc, In("a b")]
    """The first one,
    told on two lines."""

    last: Uint
    """The last one."""


class Both(Base, own="MEMBERS_OF_A_TEST"):
    """DMLPY_MEMBERS_OF_A_TEST_OPERATOR_DESC: a made-up operator."""

    flag: Annotated[Bool, After("first")] = default(True)
    """Whether it is so."""

    other: Annotated[TensorDesc | None, In("b a"), After("flag")] = None
    """Another one."""
'''


def test_members_are_told_once_and_stand_in_the_order_of_the_struct(tmp_path: Path) -> None:
    (tmp_path / "made_up.py").write_text(MODULE, encoding="utf-8")
    # In a process of its own: the class would stay among the operators.
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
    assert members.accepted(kind.model_fields[name].annotation) == expected


TYPES = [
    (dml.LSTMDesc, "input_tensor", "FLOAT32 or FLOAT16"),
    (dml.LSTMDesc, "sequence_lengths_tensor", "UINT32"),
    (dml.ActivationReluDesc, "input_tensor", "FLOAT32 or FLOAT16; from 5_1 on also INT32 or INT16 or INT8"),
    (dml.GRUGradDesc, "reserve_tensor", "FLOAT32"),
]


@pytest.mark.parametrize(("kind", "name", "expected"), TYPES, ids=[f"{kind.__name__}.{name}" for kind, name, _ in TYPES])
def test_types_by_level(kind: type[dml.OperatorDesc], name: str, expected: str) -> None:
    (member,) = (member for member in kind.members() if member.name == name)
    assert member.types() == expected


def test_types_that_an_attribute_chooses() -> None:
    (output,) = (member for member in dml.ReduceDesc.members() if member.kind == "output")
    indices, *values = output.types().split(". With ")
    assert indices == "With function ARGMIN or ARGMAX: UINT32; from 3_0 on also INT32 or UINT64 or INT64"
    assert all("UINT32; from 3_0" not in text for text in values)
    assert output.types_at(dml.FeatureLevel.FL_1_0) == frozenset({dml.DataType.FLOAT32, dml.DataType.FLOAT16, dml.DataType.UINT32})
