"""Optionals and sequences as inputs and outputs, which may be None or empty: what ONNX says, and ONNX Runtime gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import parser

import dmlpy as dml
from dmlpy import onnx

A, B = np.arange(6, dtype=np.float32).reshape(2, 3) - 2, np.arange(12, dtype=np.float32).reshape(4, 3) - 5
YES, NO = np.asarray(True), np.asarray(False)
IF_SEQUENCE = """(bool c, float[2, 3] x) => (seq(float[N, 3]) s, int64 n) {
    s = If (c) <then_branch = t () => (seq(float[N, 3]) a) { a = SequenceConstruct(x, x, x) },
                else_branch = e () => (seq(float[N, 3]) b) { b = SequenceEmpty() }>
    n = SequenceLength(s) }"""
IF_OPTIONAL = """(bool c, float[2, 3] x) => (optional(float[2, 3]) o, bool y) {
    o = If (c) <then_branch = t () => (optional(float[2, 3]) a) { a = Optional(x) },
                else_branch = e () => (optional(float[2, 3]) b) { b = Optional<type = float[2, 3]>() }>
    y = OptionalHasElement(o) }"""
BY_OPTIONAL = """(optional(float[2, 3]) o, float[2, 3] x) => (float[2, 3] y) {
    c = OptionalHasElement(o)
    y = If (c) <then_branch = t () => (float[2, 3] b) { a = OptionalGetElement(o) b = Relu(a) },
                else_branch = e () => (float[2, 3] d) { d = Neg(x) }> }"""
MAPPED = (
    "(seq(float[N, 3]) s) => (seq(float[N, 3]) t) { t = SequenceMap (s) <body = b (float[N, 3] a) => (float[N, 3] c) { c = Relu(a) }> }"
)
HAS = "(optional(float[2, 3]) o) => (bool y) { y = OptionalHasElement(o) }"
GET = "(optional(float[2, 3]) o) => (float[2, 3] y) { y = OptionalGetElement(o) }"
SEQUENCE_OF = (
    "(optional(seq(float[N, 3])) o) => (bool y, int64 n) { y = OptionalHasElement(o) s = OptionalGetElement(o) n = SequenceLength(s) }"
)
HAS_SEQUENCE = "(optional(seq(float[N, 3])) o) => (bool y) { y = OptionalHasElement(o) }"
THROUGH = "(optional(float[2, 3]) o) => (optional(float[2, 3]) p) { p = Identity(o) }"
NONE = "() => (optional(float[2, 3]) o, bool y) { o = Optional<type = float[2, 3]>() y = OptionalHasElement(o) }"
INSERTED = "(seq(float[N, 3]) s, float[2, 3] x) => (seq(float[N, 3]) t, int64 n) { t = SequenceInsert(s, x) n = SequenceLength(t) }"
JOINED = "(seq(float[N, 3]) s) => (float[M, 3] y) { y = ConcatFromSequence<axis = 0>(s) }"

ROWS = [
    (HAS, {"o": A}, [YES]),
    (HAS, {"o": None}, [NO]),
    (HAS_SEQUENCE, {"o": []}, [YES]),
    (HAS_SEQUENCE, {"o": None}, [NO]),
    (GET, {"o": A}, [A]),
    (SEQUENCE_OF, {"o": [A, B]}, [YES, np.asarray(2)]),
    (THROUGH, {"o": A}, [A]),
    (THROUGH, {"o": None}, [None]),
    (NONE, {}, [None, NO]),
    (BY_OPTIONAL, {"o": A, "x": A}, [np.maximum(A, 0)]),
    (BY_OPTIONAL, {"o": None, "x": A}, [-A]),
    (IF_OPTIONAL, {"c": YES, "x": A}, [A, YES]),
    (IF_OPTIONAL, {"c": NO, "x": A}, [None, NO]),
    (IF_SEQUENCE, {"c": YES, "x": A}, [[A, A, A], np.asarray(3)]),
    (IF_SEQUENCE, {"c": NO, "x": A}, [[], np.asarray(0)]),
    (MAPPED, {"s": [A, -B]}, [[np.maximum(A, 0), np.maximum(-B, 0)]]),
    (MAPPED, {"s": []}, [[]]),
    (INSERTED, {"s": [B], "x": A}, [[B, A], np.asarray(2)]),
    (INSERTED, {"s": [], "x": A}, [[A], np.asarray(1)]),
    (JOINED, {"s": [A, B]}, [np.concatenate([A, B])]),
]


def load(text: str) -> onnx.Model:
    return onnx.load(parser.parse_model(f'<ir_version: 9, opset_import: ["": 18]> net {text}'))


def check(found: Any, expected: Any) -> None:
    if expected is None or isinstance(expected, list):
        assert type(found) is type(expected)
        for own, theirs in zip(found or [], expected or [], strict=True):
            check(own, theirs)
    else:
        assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(("text", "given", "expected"), ROWS)
def test_optionals_and_sequences(text: str, given: dict[str, Any], expected: list[Any]) -> None:
    """Twice: a second run finds what the first one compiled."""
    compiled = load(text).compile("numpy")
    for _ in range(2):
        check([*compiled(given).values()], expected)


def test_an_optional_comes_and_goes() -> None:
    compiled = load(BY_OPTIONAL).compile("numpy")
    for given, expected in ((None, -A), (A, np.maximum(A, 0))) * 2:
        check(compiled({"o": given, "x": A})["y"], expected)


def test_nothing_is_no_element() -> None:
    with pytest.raises(dml.DmlError, match="'o', None, expected an optional that holds something"):
        load(GET).compile("numpy")({"o": None})


CONSTRUCTED = "(float[2, 3] x) => (seq(float[2, 3]) s) { s = SequenceConstruct(x, x) }"
THE_SAME = "(seq(float[2, 3]) s) => (seq(float[2, 3]) t) { t = Identity(s) }"


@pytest.mark.parametrize(("text", "hold"), [(CONSTRUCTED, lambda x: {"x": x}), (THE_SAME, lambda x: {"s": [x]})], ids=["made", "passed"])
def test_sequences_hold_no_memory_of_the_caller(text: str, hold: Any) -> None:
    compiled, x = load(text).compile("numpy"), A.copy()
    ((found, *_),) = compiled(hold(x)).values()
    x[...] = 0
    check(found, A)
