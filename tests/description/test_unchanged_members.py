"""Constructors of members that are stored unchanged: no validator reads them, and the struct is the one that it would make."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from dmlpy.description.registry import OPERATORS
from dmlpy.graphs.nodes import ConstantNode, InputEdge, OperatorNode
from tests.support.descs.wrong_descs import STRUCTS, valid


def built_by_validator(kind: type[Any], members: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> Any:
    """A struct built as one with members that have to be read."""
    with monkeypatch.context() as patched:
        patched.setattr(kind, "_plain", classmethod(lambda cls, members: None))
        return kind(**members)


def assert_built_alike(first: Any, second: Any) -> None:
    assert (first, hash(first), repr(first)) == (second, hash(second), repr(second))
    assert first._members() == second._members()
    assert [type(value) for value in first._members().values()] == [type(value) for value in second._members().values()]
    assert pickle.loads(pickle.dumps(first)) == copy.copy(first) == first.model_copy() == second
    assert first.model_fields_set == second.model_fields_set


@pytest.mark.parametrize("operator", STRUCTS)
def test_members_that_are_stored_unchanged_make_the_same_struct(operator: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Descs made of what descs hold skip the validator; they are what it makes."""
    desc = OPERATORS[operator](**valid(operator))
    members = desc._members()
    assert_built_alike(type(desc)(**members), built_by_validator(type(desc), members, monkeypatch))
    required = {name: value for name, value in members.items() if type(desc).model_fields[name].is_required()}
    assert_built_alike(type(desc)(**required), built_by_validator(type(desc), required, monkeypatch))
    for tensor in desc.tensors().values():
        assert type(tensor)._plain(tensor._members()) is not None
        assert_built_alike(type(tensor)(**tensor._members()), built_by_validator(type(tensor), tensor._members(), monkeypatch))


def test_the_structs_of_a_graph_are_made_of_structs_without_a_validator(monkeypatch: pytest.MonkeyPatch) -> None:
    """A model's nodes, edges and fused operators are made of what was checked before; pydantic would look through it again."""
    tensor = dml.TensorDesc(data_type="FLOAT32", sizes=[1, 1, 2, 3])
    relu = dml.ActivationReluDesc(input_tensor=tensor, output_tensor=tensor)
    fused = dml.ElementWiseAdd1Desc(a_tensor=tensor, b_tensor=tensor, output_tensor=tensor, fused_activation=dml.ActivationReluDesc())
    constant = ConstantNode(data=b"1234", name="c")
    nodes = [OperatorNode(operator=relu, name="relu"), OperatorNode(operator=fused, name="sum"), constant]
    edges = InputEdge(graph_input_index=0, to_node_index=0, to_node_input_index=0)
    found = dml.Graph(input_count=1, output_count=0, nodes=nodes, input_edges=[edges], input_names=["x"], input_tensors=[tensor])
    for struct in (fused, *nodes, edges, found):
        members = struct._members()
        assert type(struct)._plain(members) is not None
        assert_built_alike(type(struct)(**members), built_by_validator(type(struct), members, monkeypatch))


@pytest.mark.parametrize(
    ("kind", "members", "place"),
    [
        (OperatorNode, {"operator": dml.TensorDesc(data_type="FLOAT32", sizes=[1])}, "operator"),
        (OperatorNode, {"operator": dml.ActivationReluDesc(), "name": 3}, "name"),
        (dml.GEMMDesc, {"fused_activation": dml.TensorDesc(data_type="FLOAT32", sizes=[1])}, "fused_activation"),
        (dml.ElementWiseAdd1Desc, {"fused_activation": dml.ElementWiseClipDesc(min=0, max=1)}, "fused_activation"),
    ],
)
def test_a_struct_of_another_kind_is_no_member(kind: type[Any], members: dict[str, Any], place: str) -> None:
    assert kind._plain(members) is None
    with pytest.raises(dml.DescError, match=place):
        kind(**members)


@pytest.mark.parametrize(
    ("member", "value", "kept"),
    [
        ("sizes", [2, 3], (2, 3)),
        ("sizes", (np.int64(2), 3), (2, 3)),
        ("sizes", (True, 3), None),
        ("sizes", (2**200, 3), None),
        ("sizes", (2.0, 3), None),
        ("strides", (), None),
        ("strides", (3, 1), (3, 1)),
        ("total_tensor_size_in_bytes", 0, None),
        ("total_tensor_size_in_bytes", 24, 24),
        ("guaranteed_base_offset_alignment", 0, 0),
        ("guaranteed_base_offset_alignment", None, None),
        ("data_type", "FLOAT16", dml.DataType.FLOAT16),
        ("data_type", int(dml.DataType.INT8), dml.DataType.INT8),
        ("flags", "OWNED_BY_DML", dml.TensorFlags.OWNED_BY_DML),
    ],
)
def test_what_has_to_be_read_is_read(member: str, value: Any, kept: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the constructor and in `replace`: the same value, or the same refusal."""
    members = {"data_type": dml.DataType.FLOAT32, "sizes": (2, 3)} | {member: value}

    def outcome(make: Callable[[], Any]) -> Any:
        try:
            return getattr(make(), member), [type(item) for item in np.atleast_1d(getattr(make(), member)).tolist()]
        except dml.DescError as error:
            return [(problem.code, problem.path, problem.found) for problem in error.problems]

    expected = outcome(lambda: built_by_validator(dml.TensorDesc, members, monkeypatch))
    assert outcome(lambda: dml.TensorDesc(**members)) == expected
    assert outcome(lambda: dml.TensorDesc(data_type="FLOAT32", sizes=(2, 3)).replace(**{member: value})) == expected
    if kept is not None:
        assert expected[0] == kept


def test_nan_is_one_object_however_it_is_given() -> None:
    first, second = (dml.ActivationEluDesc(alpha=float("nan")) for _ in range(2))
    assert first == second == dml.ActivationEluDesc(alpha=1.0).replace(alpha=float("nan"))
