"""The NumPy device's element-wise operators against plain Python: one number after the other, exact where integers are stored."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from dmlpy.description.registry import operator_class
from dmlpy.reference.special import erf
from tests.support.descs import facts_reader as facts
from tests.support.descs import relation_descs as descs
from tests.support.operators.layout_runs import Array, defined, repeated, run
from tests.support.operators.scalar_activations import activate as activate_number
from tests.support.tolerance import assert_close

Number = Any
INF, NAN = math.inf, math.nan
DEFINED = defined("elementwise")
OPERATORS = [name for name in facts.operators() if name.removeprefix("DML_OPERATOR_") in DEFINED]


# What each operator computes of one element of each of its inputs, in the struct's order. Floating point comes as Python's float.


def real(function: Callable[..., float], at_error: float = NAN) -> Callable[..., float]:
    """A function of `math`, with a value where it raises an error of its domain."""

    def of(desc: Any, x: Number, *others: Number) -> float:
        try:
            return function(x, *others)
        except ValueError:
            return at_error

    return of


def scaled(desc: Any, x: Number) -> Number:
    """Exact in integers of up to 32 bits, in double precision otherwise."""
    if desc.scale_bias is None:
        return x
    kind = Fraction if desc.input_tensor.data_type.bits <= 32 and isinstance(x, int) else float
    return kind(x) * kind(desc.scale_bias.scale) + kind(desc.scale_bias.bias)


def exactly_scaled(desc: Any, x: Number) -> Number:
    """X * scale + bias, of integers without rounding where both are whole."""
    if desc.scale_bias is None or isinstance(x, float) or not desc.scale_bias.is_whole:
        return scaled(desc, x)
    return int(x) * int(desc.scale_bias.scale) + int(desc.scale_bias.bias)


def of_scaled(function: Callable[..., Number]) -> Callable[..., Number]:
    return lambda desc, x, *others: function(desc, scaled(desc, x), *others)


def quotient(a: Number, b: Number) -> Number:
    if not isinstance(a, int):
        return a / b if b else (NAN if a == 0 or math.isnan(a) else math.copysign(INF, a) * math.copysign(1, b))
    return math.trunc(Fraction(a, b)) if b else 0


def remainder(rounding: Callable[[Any], int]) -> Callable[..., Number]:
    def of(desc: Any, a: Number, b: Number) -> Number:
        if isinstance(a, int):
            return a - b * rounding(Fraction(a, b)) if b else 0
        if b == 0:
            return NAN
        exact = Fraction(a) - Fraction(b) * rounding(Fraction(a) / Fraction(b))
        return float(exact)

    return of


def power(desc: Any, x: Number, exponent: Number) -> Number:
    x = scaled(desc, x)
    if isinstance(x, int) and isinstance(exponent, int):
        if exponent < 0:
            return {1: 1, -1: 1 if exponent % 2 == 0 else -1}.get(x, 0)
        return pow(x, exponent, 2**64)
    if desc.output_tensor.data_type.name.startswith("FLOAT") or exponent != int(exponent):
        return plain_power(x, exponent)
    exponent = int(exponent)
    if abs(exponent) > 100 and abs(x) not in (0, 1):
        return math.copysign(INF, x if exponent % 2 else 1) if (abs(x) > 1) == (exponent > 0) else 0
    if exponent < 0:
        return 1 / Fraction(x) ** -exponent if x else INF
    return Fraction(x) ** exponent


def plain_power(x: Number, exponent: Number) -> float:
    try:
        return math.pow(x, exponent)
    except ValueError:
        return INF if x == 0 else NAN
    except OverflowError:
        return math.copysign(INF, x) if exponent % 2 == 1 else INF


def clip(desc: Any, x: Number) -> Number:
    return min(max(exactly_scaled(desc, x), desc.min), desc.max)


def clip1(desc: Any, x: Number) -> Number:
    return max(min(exactly_scaled(desc, x), desc.max), desc.min)


def nearest(desc: Any, x: float) -> float:
    return {
        "HALVES_TO_NEAREST_EVEN": lambda: round(x),
        "TOWARD_ZERO": lambda: math.trunc(x),
        "TOWARD_INFINITY": lambda: math.floor(abs(x) + Fraction(1, 2)) * (1 if x >= 0 else -1),
    }[desc.rounding_mode.name]()


def bits(function: Callable[..., int]) -> Callable[..., int]:
    """A function of the elements' bits; they come as integers."""
    return lambda desc, *elements: function(*elements)


def shifted(function: Callable[[int, int], int]) -> Callable[..., int]:
    return lambda desc, a, b: function(a, b) if b < desc.a_tensor.data_type.bits else 0


def infinite(desc: Any, x: float) -> bool:
    return math.isinf(x) and {"EITHER": True, "POSITIVE": x > 0, "NEGATIVE": x < 0}[desc.infinity_mode.name]


def fused(desc: Any, a: float, b: float) -> float:
    return a + b if desc.fused_activation is None else activate_number(desc.fused_activation, a + b)


PLAIN: dict[str, Callable[..., Number]] = {
    "ABS": of_scaled(lambda desc, x: abs(x)),
    "ACOS": of_scaled(real(math.acos)),
    "ACOSH": of_scaled(real(math.acosh)),
    "ADD": lambda desc, a, b: a + b,
    "ADD1": fused,
    "ASIN": of_scaled(real(math.asin)),
    "ASINH": of_scaled(real(math.asinh)),
    "ATAN": of_scaled(real(math.atan)),
    "ATANH": of_scaled(lambda desc, x: math.copysign(INF, x) if abs(x) == 1 else real(math.atanh)(desc, x)),
    "ATAN_YX": lambda desc, a, b: math.atan2(a, b),
    "BIT_AND": bits(lambda a, b: a & b),
    "BIT_COUNT": bits(lambda x: bin(x).count("1")),
    "BIT_NOT": bits(lambda x: ~x),
    "BIT_OR": bits(lambda a, b: a | b),
    "BIT_SHIFT_LEFT": shifted(lambda a, b: a << b),
    "BIT_SHIFT_RIGHT": shifted(lambda a, b: a >> b),
    "BIT_XOR": bits(lambda a, b: a ^ b),
    "CEIL": of_scaled(lambda desc, x: math.ceil(x)),
    "CLIP": clip,
    "CLIP1": clip1,
    "CLIP_GRAD": lambda desc, x, gradient: 0 if x <= desc.min or x >= desc.max else gradient,
    "CLIP_GRAD1": lambda desc, x, gradient: 0 if x <= desc.min or x >= desc.max else gradient,
    "CONSTANT_POW": of_scaled(lambda desc, x: plain_power(x, desc.exponent)),
    "COS": of_scaled(real(math.cos)),
    "COSH": of_scaled(real(math.cosh)),
    "DIFFERENCE_SQUARE": lambda desc, a, b: (a - b) * (a - b),
    "DIVIDE": lambda desc, a, b: quotient(a, b),
    "ERF": of_scaled(real(math.erf)),
    "EXP": of_scaled(real(math.exp)),
    "FLOOR": of_scaled(lambda desc, x: math.floor(x)),
    "IDENTITY": exactly_scaled,
    "IF": lambda desc, condition, a, b: a if condition else b,
    "IS_INFINITY": infinite,
    "IS_NAN": lambda desc, x: math.isnan(x),
    "LOG": of_scaled(lambda desc, x: real(math.log, NAN if x else -INF)(desc, x)),
    "LOGICAL_AND": lambda desc, a, b: a != 0 and b != 0,
    "LOGICAL_EQUALS": lambda desc, a, b: a == b,
    "LOGICAL_GREATER_THAN": lambda desc, a, b: a > b,
    "LOGICAL_GREATER_THAN_OR_EQUAL": lambda desc, a, b: a >= b,
    "LOGICAL_LESS_THAN": lambda desc, a, b: a < b,
    "LOGICAL_LESS_THAN_OR_EQUAL": lambda desc, a, b: a <= b,
    "LOGICAL_NOT": lambda desc, x: x == 0,
    "LOGICAL_OR": lambda desc, a, b: a != 0 or b != 0,
    "LOGICAL_XOR": lambda desc, a, b: (a != 0) != (b != 0),
    "MAX": lambda desc, a, b: max(a, b),
    "MEAN": lambda desc, a, b: Fraction(a + b) / 2,
    "MIN": lambda desc, a, b: min(a, b),
    "MODULUS_FLOOR": remainder(math.floor),
    "MODULUS_TRUNCATE": remainder(math.trunc),
    "MULTIPLY": lambda desc, a, b: a * b,
    "NEGATE": lambda desc, x: -x,
    "POW": power,
    "RECIP": of_scaled(lambda desc, x: quotient(1.0, x)),
    "ROUND": nearest,
    "SIGN": lambda desc, x: (x > 0) - (x < 0),
    "SIN": of_scaled(real(math.sin)),
    "SINH": of_scaled(real(math.sinh)),
    "SQRT": of_scaled(real(math.sqrt)),
    "SUBTRACT": lambda desc, a, b: a - b,
    "TAN": of_scaled(real(math.tan)),
    "TANH": of_scaled(real(math.tanh)),
    "THRESHOLD": lambda desc, x: max(scaled(desc, x), desc.min),
}
COPIED = {"IDENTITY", "IF", "CLIP_GRAD", "CLIP_GRAD1", "MAX", "MIN", "NEGATE", "MODULUS_TRUNCATE"}
"""Operators that round nothing (IDENTITY where nothing is scaled): of floating point too the results are exact."""


def short(desc: dml.OperatorDesc) -> str:
    return desc.short_name().removeprefix("ELEMENT_WISE_")


def stored(value: Number, dtype: np.dtype[Any], *, wraps: bool) -> Number:
    """What is stored of an exact number: integers wrap around, other numbers are rounded toward zero and moved into the range."""
    if dtype.kind == "f":
        return float(value)
    limits = np.iinfo(dtype)
    if wraps:
        return (int(value) - limits.min) % 2**limits.bits + limits.min
    if isinstance(value, float) and not math.isfinite(value):
        return 0 if math.isnan(value) else int(limits.max if value > 0 else limits.min)
    return min(max(math.trunc(value), int(limits.min)), int(limits.max))


def random_values(desc: dml.OperatorDesc, tensor: dml.TensorDesc, rng: np.random.Generator, place: str) -> Array:
    """Numbers that float16 holds, and float32 after the scales and biases used here; integers with the ends of their range."""
    dtype, sizes = tensor.data_type.numpy, tensor.sizes
    if short(desc).startswith("BIT_") and "SHIFT" not in short(desc):
        found = np.frombuffer(rng.bytes(math.prod(sizes) * dtype.itemsize), dtype).reshape(sizes)
    elif place == "exponent_tensor" and desc.tensors()["input_tensor"].data_type.numpy.kind == "f" != dtype.kind:
        found = rng.integers(0 if dtype.kind == "u" else -2, 5, sizes).astype(dtype)  # what float16 and float32 hold
    elif dtype.kind == "f":
        found = (rng.integers(-192, 193, sizes) / 64).astype(dtype)
    elif "SHIFT" in short(desc) and place == "b_tensor":
        found = rng.integers(0, 2 * 8 * dtype.itemsize, sizes).astype(dtype)
    else:
        limits = np.iinfo(dtype)
        small = rng.integers(max(limits.min, -4), 5, sizes)
        wide = rng.integers(limits.min, limits.max, sizes, dtype, endpoint=True)
        ends = rng.choice(np.array([limits.min, limits.max], dtype), sizes)
        found = np.choose(rng.integers(0, 3, sizes), [small.astype(dtype), wide, ends])
    return repeated(found, tensor)


def elements(desc: dml.OperatorDesc, array: Array) -> list[Number]:
    raw = short(desc).startswith("BIT")
    flat = np.ascontiguousarray(array).reshape(-1)
    found: list[Number] = flat.view(f"u{flat.itemsize}").tolist() if raw else flat.tolist()
    return found


def compare(desc: Any, values: dict[str, Array]) -> None:
    """Fails where the NumPy device differs from what plain Python computes of the same elements."""
    name = short(desc)
    ((_, found),) = run(desc, values).items()
    columns = [elements(desc, values[slot.place]) for slot in desc.slots() if slot.place in values]
    plain = [PLAIN[name](desc, *row) for row in zip(*columns, strict=True)]
    if name.startswith("BIT"):
        assert elements(desc, found) == [value % 2 ** (8 * found.itemsize) for value in plain]
        return
    exact = all(isinstance(value, int) for value in plain)
    of_numbers = getattr(desc, "scale_bias", None) is not None or name in ("CLIP", "CLIP1", "THRESHOLD", "MEAN") or not exact
    expected = np.array(
        [stored(value, found.dtype, wraps=not of_numbers) for value in plain], found.dtype if found.dtype.kind != "f" else None
    )
    if found.dtype.kind == "f" and not (name in COPIED and getattr(desc, "scale_bias", None) is None):
        assert_close(found.reshape(-1), expected, found.dtype, what=name)
    else:
        np.testing.assert_array_equal(found.reshape(-1), expected.astype(found.dtype), err_msg=name)


def spread(operator: str, members: descs.Members) -> descs.Members:
    """The desc with gaps between the elements of every tensor that has no strides yet, and dimensions in the other order."""
    for place, own in descs.places(operator, members).items():
        if "Strides" not in own:
            strides = descs.packed(own["Sizes"][::-1])[::-1]
            members = descs.with_tensor(members, place, {"Strides": [2 * stride for stride in strides]})
    return members


def all_descs(operator: str) -> Iterator[dml.OperatorDesc]:
    """The relations' valid descs, each in every type that the latest support row has, by turns packed and spread."""
    row = facts.operators()[operator]["support"][0]
    tried: list[descs.Members] = []
    for own in descs.valid_descs(operator):
        for slot, support in row["tensors"].items():
            for wanted in support["types"]:
                members = descs.with_types(operator, own.members, dict.fromkeys(descs.type_group(operator, slot), wanted))
                if members not in tried:
                    tried.append(members)
    for number, members in enumerate(tried):
        try:
            desc = dml.OperatorDesc.from_dict(descs.data(operator, spread(operator, members) if number % 2 else members))
        except dml.DescError:
            continue
        if not dml.check(desc):
            yield desc


def inputs_of(desc: dml.OperatorDesc) -> dict[str, dml.TensorDesc]:
    return {slot.place: slot.tensor for slot in desc.slots() if slot.tensor is not None and not slot.field.marker.output}


@pytest.mark.parametrize("most", [8, pytest.param(None, marks=pytest.mark.slow)], ids=["some", "all"])
def test_every_operator_in_all_types_and_layouts(most: int | None) -> None:
    rng = np.random.default_rng(1)
    wrong, ran = [], dict.fromkeys(OPERATORS, 0)
    for operator in OPERATORS:
        every = list(all_descs(operator))
        for desc in every[:: 1 if most is None else -(-len(every) // most)]:
            ran[operator] += 1
            try:
                compare(desc, {place: random_values(desc, tensor, rng, place) for place, tensor in inputs_of(desc).items()})
            except (AssertionError, dml.DmlError) as error:
                wrong.append(f"{desc}: {error}")
    assert not wrong, f"{len(wrong)} of {sum(ran.values())}\n" + "\n".join(wrong[:8])
    assert PLAIN.keys() == {name.removeprefix("DML_OPERATOR_ELEMENT_WISE_") for name in OPERATORS}
    assert len(OPERATORS) == len(DEFINED)
    assert min(ran.values()) >= 4


M = float(np.finfo(np.float32).max)
TINY = float(np.finfo(np.float32).smallest_subnormal)
BELOW_HALF = float(np.nextafter(np.float32(0.5), np.float32(0)))

# Of one tensor: operator, attributes, type, elements, results.
SPECIAL: list[tuple[str, dict[str, Any], str, list[Number], list[Number]]] = [
    ("ABS", {}, "INT8", [-128, -127, 127], [-128, 127, 127]),
    ("ABS", {"scale_bias": {"scale": 2.0, "bias": 0.0}}, "INT8", [-128, -60, 127], [127, 120, 127]),
    ("ABS", {}, "FLOAT32", [-INF, NAN, -0.0], [INF, NAN, 0.0]),
    ("ACOS", {}, "FLOAT32", [1.5, -1.5, 1, -1, NAN], [NAN, NAN, 0, math.pi, NAN]),
    ("ACOSH", {}, "FLOAT32", [0.5, 1, INF], [NAN, 0, INF]),
    ("ASINH", {}, "FLOAT32", [-INF, INF, -M], [-INF, INF, -math.asinh(M)]),
    ("ATAN", {}, "FLOAT32", [-INF, INF], [-math.pi / 2, math.pi / 2]),
    ("ATANH", {}, "FLOAT32", [-1, 1, 2], [-INF, INF, NAN]),
    ("CLIP", {"min": 2.0, "max": 1.0}, "FLOAT32", [0, 1.5, 3, INF, NAN], [1, 1, 1, 1, NAN]),
    ("CLIP", {"min": -INF, "max": INF}, "INT64", [-(2**63), 2**63 - 1], [-(2**63), 2**63 - 1]),
    ("CLIP", {"min": -300.0, "max": 2.5}, "INT8", [-128, 2, 3], [-128, 2, 2]),
    ("CLIP", {"min": NAN, "max": NAN}, "INT8", [-128, 3], [-128, 3]),
    ("CLIP1", {"min_max_data_type": "FLOAT32", "min": 2.0, "max": 1.0}, "FLOAT32", [0, 1.5, 3, NAN], [2, 2, 2, NAN]),
    ("CLIP1", {"min_max_data_type": "UINT64", "min": 1, "max": 2**64 - 2}, "UINT64", [0, 2**64 - 1], [1, 2**64 - 2]),
    ("CONSTANT_POW", {"exponent": 0.0}, "FLOAT32", [0, INF, NAN], [1, 1, 1]),
    ("CONSTANT_POW", {"exponent": 3.0}, "FLOAT32", [-2, 0, -INF], [-8, 0, -INF]),
    ("CONSTANT_POW", {"exponent": 0.5}, "FLOAT32", [-2, 0, INF], [NAN, 0, INF]),
    ("ERF", {}, "FLOAT32", [-INF, INF, NAN, -0.0, 9, -9], [-1, 1, NAN, -0.0, 1, -1]),
    ("EXP", {}, "FLOAT32", [-INF, INF, 89, -200], [0, INF, INF, 0]),
    ("EXP", {}, "FLOAT16", [12, -30], [INF, 0]),
    ("IDENTITY", {"scale_bias": {"scale": 0.5, "bias": 0.0}}, "INT32", [-3, 3, 2**31 - 1], [-1, 1, 2**30 - 1]),
    ("IDENTITY", {"scale_bias": {"scale": 2.0, "bias": 0.0}}, "INT64", [-(2**63), 2**62, 2**63 - 1], [-(2**63), 2**63 - 1, 2**63 - 1]),
    ("IDENTITY", {"scale_bias": {"scale": NAN, "bias": 0.0}}, "UINT8", [1, 2], [0, 0]),
    ("IS_INFINITY", {"infinity_mode": "POSITIVE"}, "FLOAT16", [-INF, INF, NAN, 65504], [0, 1, 0, 0]),
    ("IS_INFINITY", {"infinity_mode": "NEGATIVE"}, "FLOAT32", [-INF, INF, NAN, -M], [1, 0, 0, 0]),
    ("IS_INFINITY", {}, "FLOAT32", [-INF, INF, NAN, M], [1, 1, 0, 0]),
    ("IS_NAN", {}, "FLOAT16", [-INF, INF, NAN, 0], [0, 0, 1, 0]),
    ("LOG", {}, "FLOAT32", [0, -0.0, -1, INF], [-INF, -INF, NAN, INF]),
    ("NEGATE", {}, "INT16", [-32768, 32767], [-32768, -32767]),
    ("RECIP", {}, "FLOAT32", [0, -0.0, INF, -INF], [INF, -INF, 0, -0.0]),
    ("ROUND", {"rounding_mode": "TOWARD_INFINITY"}, "FLOAT32", [BELOW_HALF, 0.5, -0.5, INF, NAN, 8388609.0], [0, 1, -1, INF, NAN, 8388609]),
    ("ROUND", {"rounding_mode": "TOWARD_ZERO"}, "FLOAT32", [-1.9, INF], [-1, INF]),
    ("ROUND", {}, "FLOAT32", [0.5, 1.5, -2.5, -INF], [0, 2, -2, -INF]),
    ("SIGN", {}, "FLOAT32", [NAN, -0.0, INF, -TINY], [0, 0, 1, -1]),
    ("SIGN", {}, "UINT64", [0, 2**64 - 1], [0, 1]),
    ("SQRT", {}, "FLOAT32", [-1, INF, 0], [NAN, INF, 0]),
    ("THRESHOLD", {"min": 300.0}, "UINT8", [0, 255], [255, 255]),
    ("THRESHOLD", {"min": -1.0}, "FLOAT32", [-INF, NAN], [-1, NAN]),
]

# Of two tensors.
SPECIAL_PAIRS: list[tuple[str, str, list[Number], list[Number], list[Number]]] = [
    ("ADD", "UINT8", [255, 200], [1, 100], [0, 44]),
    ("ATAN_YX", "FLOAT32", [0, -0.0, 1], [-1, -1, 0], [math.pi, -math.pi, math.pi / 2]),
    ("BIT_SHIFT_LEFT", "UINT64", [1, 1, 3], [63, 64, 2**63], [2**63, 0, 0]),
    ("BIT_SHIFT_RIGHT", "UINT8", [255, 255], [7, 8], [1, 0]),
    ("DIFFERENCE_SQUARE", "UINT32", [1, 0], [3, 2**16], [4, 0]),
    ("DIVIDE", "INT8", [-7, 7, -128, 5], [2, -2, -1, 0], [-3, -3, -128, 0]),
    ("DIVIDE", "FLOAT32", [1, -1, 0, INF], [0, 0, 0, INF], [INF, -INF, NAN, NAN]),
    ("DIVIDE", "UINT64", [2**64 - 1, 2**64 - 1], [1, 2], [2**64 - 1, 2**63 - 1]),
    ("LOGICAL_EQUALS", "FLOAT32", [NAN, 0.0], [NAN, -0.0], [0, 1]),
    ("LOGICAL_GREATER_THAN_OR_EQUAL", "FLOAT32", [NAN, INF], [0, INF], [0, 1]),
    ("LOGICAL_LESS_THAN", "INT64", [2**62, -1], [2**62 + 1, 0], [1, 1]),
    ("MAX", "FLOAT32", [NAN, 1], [1, NAN], [NAN, NAN]),
    ("MEAN", "INT32", [2**31 - 1, -(2**31), -1], [2**31 - 2, -(2**31) + 1, 0], [2**31 - 2, -(2**31) + 1, 0]),
    ("MEAN", "UINT32", [2**32 - 1], [2**32 - 2], [2**32 - 2]),
    ("MIN", "FLOAT32", [NAN, 1], [1, NAN], [NAN, NAN]),
    ("MODULUS_FLOOR", "INT8", [-7, 7, -128, 5], [3, -3, -1, 0], [2, -2, 0, 0]),
    ("MODULUS_FLOOR", "FLOAT32", [-7, 1, 1, INF], [3, 0, INF, 1], [2, NAN, 1, NAN]),
    ("MODULUS_TRUNCATE", "INT8", [-7, 7, -128, 5], [3, -3, -1, 0], [-1, 1, 0, 0]),
    ("MODULUS_TRUNCATE", "FLOAT32", [-7, 1, -1, INF], [3, 0, INF, 1], [-1, NAN, -1, NAN]),
    ("MULTIPLY", "INT8", [-128, 100], [-1, 3], [-128, 44]),
    ("SUBTRACT", "UINT16", [0], [1], [65535]),
]


def special(name: str, attributes: dict[str, Any], data_type: str, elements: dict[str, list[Number]]) -> Array:
    """An operator's results for elements of one dimension."""
    kind = operator_class(f"ELEMENT_WISE_{name}")
    [count] = {len(values) for values in elements.values()}
    desc = kind(**{place: dml.TensorDesc(data_type=data_type, sizes=[count]) for place in elements}, **attributes).with_outputs()
    [found] = run(desc, {place: np.array(values, data_type.lower()) for place, values in elements.items()}).values()
    return found


def test_ends_of_the_ranges_infinities_and_nan() -> None:
    wrong = []
    cases = [(name, attributes, kind, {"input_tensor": x}, y) for name, attributes, kind, x, y in SPECIAL]
    cases += [(name, {}, kind, {"a_tensor": a, "b_tensor": b}, y) for name, kind, a, b, y in SPECIAL_PAIRS]
    for name, attributes, kind, given, expected in cases:
        found = special(name, attributes, kind, given)
        told = np.array(expected, found.dtype)
        same = np.isclose(found, told, 1e-6, 0, equal_nan=True) if found.dtype.kind == "f" else found == told
        if not np.all(same) or not np.array_equal(np.signbit(found[told == 0]), np.signbit(told[told == 0])):
            wrong.append(f"{name} {attributes} {kind} of {given}: {found.tolist()}, expected {expected}")
    assert not wrong, "\n".join(wrong)


def test_whole_powers_of_integers_are_exact() -> None:
    base = np.repeat(np.arange(-128, 128), 12)
    exponent = np.tile(np.arange(-4, 8), 256)
    for data_type, dtype in (("INT32", np.int32), ("FLOAT32", np.float32)):
        tensors = {
            "input_tensor": dml.TensorDesc(data_type="INT32", sizes=[base.size]),
            "exponent_tensor": dml.TensorDesc(data_type=data_type, sizes=[base.size]),
        }
        desc = dml.ElementWisePowDesc(**tensors).with_outputs()
        [found] = run(desc, {"input_tensor": base.astype(np.int32), "exponent_tensor": exponent.astype(dtype)}).values()
        for x, e, y in zip(base.tolist(), exponent.tolist(), found.tolist(), strict=True):
            if e >= 0:
                wide = (x**e + 2**31) % 2**32 - 2**31 if dtype is np.int32 else min(max(x**e, -(2**31)), 2**31 - 1)
                assert y == wide, (x, e)
            elif x:
                assert y == math.trunc(Fraction(x) ** e), (x, e)


def test_erf_stays_accurate() -> None:
    points = np.concatenate([10.0 ** np.linspace(-300, -1, 600), np.linspace(0.1, 7, 3000), [0.46875, 4.0]])
    for dtype, allowed in ((np.float64, 1e-15), (np.float32, 4e-7)):
        x = np.concatenate([points, -points]).astype(dtype)
        x = x[np.abs(x) >= np.finfo(dtype).tiny]
        with np.errstate(all="ignore"):
            found = erf(x)
        np.testing.assert_allclose(found, [math.erf(value) for value in x.tolist()], rtol=allowed)


def test_bits_of_float16_stay() -> None:
    every = np.arange(65536, dtype=np.uint16)
    tensor = dml.TensorDesc(data_type="FLOAT16", sizes=[65536])
    [found] = run(dml.ElementWiseBitNotDesc(input_tensor=tensor).with_outputs(), {"input_tensor": every.view(np.float16)}).values()
    np.testing.assert_array_equal(found.view(np.uint16), ~every)
