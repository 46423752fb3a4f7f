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
RNN = np.random.default_rng(3).standard_normal((2, 1, 3, 3)).astype(np.float32)
MAPPED_RNN = """(seq(float[4, 2, 3]) s, float[1, 3, 3] w, float[1, 3, 3] r, int32[2] l) => (seq(float[1, 2, 3]) t) {
    t = SequenceMap (s, w, r, l) <body = b (float[4, 2, 3] a, float[1, 3, 3] v, float[1, 3, 3] q, int32[2] k) => (float[1, 2, 3] c) {
        d, c = RNN <hidden_size = 3> (a, v, q, , k) }> }"""
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


@pytest.mark.parametrize(
    ("node", "path"),
    [("Relu(o)", "Relu_0.input 0"), ("Add(x, o)", "Add_0.input 1"), ("NonZero(o)", "NonZero_0.input 0"), ("ReduceSum(o)", "ReduceSum_0")],
)
def test_a_tensor_node_needs_what_an_optional_holds(node: str, path: str) -> None:
    compiled = load(f"(optional(float[2, 3]) o, float[2, 3] x) => (y) {{ y = {node} }}").compile("numpy")
    assert compiled({"o": A, "x": A})["y"].size
    with pytest.raises(dml.DeviceError, match=rf"{path}.*is 'o', None, expected an optional that holds something"):
        compiled({"o": None, "x": A})


@pytest.mark.parametrize(("text", "given", "expected"), ROWS)
def test_optionals_and_sequences(text: str, given: dict[str, Any], expected: list[Any]) -> None:
    """Twice: a second run finds what the first one compiled."""
    compiled = load(text).compile("numpy")
    for _ in range(2):
        check([*compiled(given).values()], expected)


def test_a_body_that_is_mapped_runs_as_any_other() -> None:
    """ONNX's reference implementation ignores the lengths."""
    x, lengths = np.random.default_rng(4).standard_normal((2, 4, 2, 3)).astype(np.float32), np.array([2, 3], np.int32)
    ((*found,),) = load(MAPPED_RNN).compile("numpy")({"s": [*x], "w": RNN[0], "r": RNN[1], "l": lengths}).values()
    for steps, result in zip(x.astype(np.float64), found, strict=True):
        state = np.zeros((2, 3))
        for step, row in enumerate(steps):
            running = (step < lengths)[:, None]
            state = np.where(running, np.tanh(row @ RNN[0, 0].T + state @ RNN[1, 0].T), state)
        np.testing.assert_allclose(result[0], state, rtol=1e-5, atol=1e-6)


def test_sequences_that_are_mapped_together_have_one_length() -> None:
    text = """(seq(float[N]) s, seq(float[N]) q) => (seq(float[N]) t) {
        t = SequenceMap (s, q) <body = b (float[N] a, float[N] d) => (float[N] c) { c = Add(a, d) }> }"""
    with pytest.raises(dml.DmlError, match=r"of lengths \[2, 1\], expected sequences of one length"):
        load(text).compile("numpy")({"s": [A[0], A[1]], "q": [A[0]]})


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


def test_a_state_that_is_optional_is_filled_by_its_content() -> None:
    """So ONNX's own test of a Loop with such a state does it."""
    text = """(optional(float[2]) o, float[2] x, int64 n, bool go) => (float[2] y) {
        y = Loop (n, go, o) <body = b (int64 i, bool c, optional(float[2]) a) => (bool d, float[2] z) { d = Identity(c) z = Neg(x) }> }"""
    x = np.float32([1, -2])
    found = load(text).compile("numpy")({"o": None, "x": x, "n": np.asarray(2), "go": YES})
    np.testing.assert_array_equal(found["y"], -x)
