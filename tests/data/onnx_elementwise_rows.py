"""Element-wise operators of DirectML by ONNX's: the operator, ONNX's, the members of dmlpy's desc, and what ONNX takes in their place."""

from __future__ import annotations

import numpy as np
from onnx_operators import F16, F32, I8, I32, I64, U8, U32, case, element_type, normal, once, scalar, whole  # type: ignore[import-not-found, unused-ignore]

SPECIAL = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-40, -1e-40, 1e-6, -1e-6, 0.5, -0.5, 1, -1, 1.5, -1.5, 2.5, -2.5, 3.7], F32)
UNIT = np.array([0.0, -0.0, 1, -1, np.nan, 1e-6, -1e-6, 0.5, -0.5, 1.5, -1.5, 0.999, -0.999, 0.1, 0.9, -0.3, 0.7, 1e-3], F32)


def elementwise() -> None:
    unary = "Abs Acos Acosh Asin Asinh Atan Atanh Ceil Cos Cosh Erf Exp Floor Identity Log Neg Reciprocal Sign Sin Sinh Sqrt Tan Tanh"
    names = {"Neg": "NEGATE", "Reciprocal": "RECIP"}
    for peer in unary.split():
        operator = f"ELEMENT_WISE_{names.get(peer, peer.upper())}"
        x = UNIT if peer in ("Acos", "Asin", "Atanh") else SPECIAL
        if peer in ("Sin", "Cos", "Tan", "Sign"):
            x = x[np.isfinite(x)]  # of an infinity it is NaN, on NaN's sign the systems disagree
        wide = normal(peer, 3, 5, scale=3.0)
        case(operator, peer, {"input_tensor": np.concatenate([x, x[::-1] * F32(0.9)]).reshape(2, -1)})
        if peer == "Acosh":
            wide = np.abs(wide) + 1
        if peer in ("Acos", "Asin", "Atanh"):
            wide = np.tanh(wide)
        if peer in ("Log", "Sqrt"):
            wide = np.abs(wide)
        case(operator, peer, {"input_tensor": wide})
        if peer not in ("Neg", "Sign"):
            case(operator, peer, {"input_tensor": wide}, scale_bias=(0.5, 0.75 if peer in ("Acosh",) else 0.125))
    for dtype, peer in ((I32, "Abs"), (I8, "Abs"), (I32, "Neg"), (I8, "Neg"), (I32, "Sign"), (I8, "Sign")):
        case(f"ELEMENT_WISE_{names.get(peer, peer.upper())}", peer, {"input_tensor": whole(peer, -9, 10, 3, 7, dtype=dtype)})
    halves = np.array([-3.5, -2.5, -1.5, -0.5, -0.4, 0.4, 0.5, 1.5, 2.5, 3.5, 1e9, -np.inf], F32)
    case("ELEMENT_WISE_ROUND", "Round", {"input_tensor": halves}, {"rounding_mode": "HALVES_TO_NEAREST_EVEN"})
    case("ELEMENT_WISE_ROUND", "Round", {"input_tensor": normal("Round", 3, 7, scale=4)}, {"rounding_mode": "HALVES_TO_NEAREST_EVEN"})
    case("ELEMENT_WISE_IS_NAN", "IsNaN", {"input_tensor": SPECIAL})
    for mode, positive, negative in (("EITHER", 1, 1), ("POSITIVE", 1, 0), ("NEGATIVE", 0, 1)):
        signs = {"detect_positive": positive, "detect_negative": negative}
        case("ELEMENT_WISE_IS_INFINITY", "IsInf", {"input_tensor": SPECIAL}, {"infinity_mode": mode}, **signs)
    for dtype in (U8, I32, I8):
        case("ELEMENT_WISE_BIT_NOT", "BitwiseNot", {"input_tensor": whole("BitNot", 0, 100, 3, 5, dtype=dtype)})

    clipped = normal("Clip", 3, 7, scale=3)
    for low, high in ((-1.5, 2.0), (0.0, 6.0), (-np.inf, 0.5)):
        limits = [clipped, scalar(low, F32), scalar(high, F32)]
        case("ELEMENT_WISE_CLIP", "Clip", {"input_tensor": clipped}, {"min": low, "max": high}, given=limits)
        typed = {"min_max_data_type": "FLOAT32", "min": low, "max": high}
        case("ELEMENT_WISE_CLIP1", "Clip", {"input_tensor": clipped}, typed, given=limits)
    for dtype, low, high in ((I32, -4, 5), (U8, 3, 9), (I64, -2, 2)):
        x = whole("Clip1", 0 if dtype is U8 else -9, 12, 4, 5, dtype=dtype)
        typed = {"min_max_data_type": np.dtype(dtype).name.upper(), "min": low, "max": high}
        case("ELEMENT_WISE_CLIP1", "Clip", {"input_tensor": x}, typed, given=[x, scalar(low, dtype), scalar(high, dtype)])
    for low in (-0.5, 1.25):
        case("ELEMENT_WISE_THRESHOLD", "Clip", {"input_tensor": clipped}, {"min": low}, given=[clipped, scalar(low, F32)])
    positive = np.abs(clipped)
    for exponent, x in ((2.0, clipped), (0.5, positive), (-1.0, positive), (3.0, clipped), (0.0, clipped)):
        given = [x, scalar(exponent, F32)]
        case("ELEMENT_WISE_CONSTANT_POW", "Pow", {"input_tensor": x}, {"exponent": exponent}, given=given)
    base, exponents = np.abs(normal("base", 1, 2, 3, 5)) + F32(0.1), np.broadcast_to(normal("exponent", 1, 1, 3, 1), (1, 2, 3, 5))
    case("ELEMENT_WISE_POW", "Pow", {"input_tensor": base, "exponent_tensor": exponents})
    powers = np.array([[-2.0, -2, 0, 0, -1.5, 3], [2, 3, 0, 2, -1, -2]], F32)
    case("ELEMENT_WISE_POW", "Pow", {"input_tensor": powers[:1], "exponent_tensor": powers[1:]})


def binary() -> None:
    sizes = (2, 1, 3, 5)
    a, b = normal("a", *sizes, scale=2), np.broadcast_to(normal("b", 2, 1, 1, 5, scale=2), sizes)
    divisors = np.array([2, -3, 4], I32).reshape(1, 1, 3, 1)
    ints = whole("ints", -9, 10, *sizes), np.broadcast_to(divisors, sizes)
    names = {"Add": "ADD", "Sub": "SUBTRACT", "Mul": "MULTIPLY", "Div": "DIVIDE", "Max": "MAX", "Min": "MIN"}
    special = np.array([[0.0, 1, -1, np.inf, -np.inf, 3, 1e-40, 2]], F32), np.array([[2.0, 0, -0.0, 2, 3, -np.inf, 1e-3, -1e30]], F32)
    for peer, name in names.items():
        for one, other in ((a, b), ints, special):
            case(f"ELEMENT_WISE_{name}", peer, {"a_tensor": one, "b_tensor": other})
    case("ELEMENT_WISE_MEAN", "Mean", {"a_tensor": a, "b_tensor": b})
    case("ELEMENT_WISE_MEAN", "Mean", {"a_tensor": special[0], "b_tensor": special[1]})
    case("ELEMENT_WISE_ADD1", "Add", {"a_tensor": a, "b_tensor": b})
    case("ELEMENT_WISE_ADD1", "Add", {"a_tensor": a, "b_tensor": b}, fused="Relu")
    case("ELEMENT_WISE_ADD1", "Add", {"a_tensor": a, "b_tensor": b}, fused="Tanh")

    divisor = np.where(np.abs(b) < 0.1, F32(0.5), b)
    for one, other in ((a, divisor), ints):
        both = {"a_tensor": one, "b_tensor": other}
        case("ELEMENT_WISE_MODULUS_TRUNCATE", "Mod", both, fmod=1)
    case("ELEMENT_WISE_MODULUS_FLOOR", "Mod", {"a_tensor": ints[0], "b_tensor": ints[1]}, fmod=0)
    small = {"a_tensor": whole("mod", -100, 100, 4, 6, dtype=I8), "b_tensor": np.broadcast_to(np.array([[3], [-4], [7], [-9]], I8), (4, 6))}
    case("ELEMENT_WISE_MODULUS_FLOOR", "Mod", small, fmod=0)

    comparisons = {
        "Equal": "EQUALS",
        "Greater": "GREATER_THAN",
        "Less": "LESS_THAN",
        "GreaterOrEqual": "GREATER_THAN_OR_EQUAL",
        "LessOrEqual": "LESS_THAN_OR_EQUAL",
    }
    tied = np.array([[0.0, -0.0, 1, 1, np.nan, 2, np.inf, -np.inf, 3]], F32), np.array([[-0.0, 0, 1, 2, np.nan, np.nan, np.inf, 0, 2]], F32)
    for peer, name in comparisons.items():
        few = whole("few", -2, 3, *sizes), np.broadcast_to(whole("others", -2, 3, 1, 1, 1, 5), sizes)
        for one, other in (tied, few, (few[0].astype(I64), few[1].astype(I64))):
            case(f"ELEMENT_WISE_LOGICAL_{name}", peer, {"a_tensor": one, "b_tensor": other})
    truth = np.array([0, 0, 1, 1], U8), np.array([0, 1, 0, 1], U8)
    wide = whole("truth", 0, 2, 2, 3, 5, dtype=U8), np.broadcast_to(whole("truths", 0, 2, 1, 3, 1, dtype=U8), (2, 3, 5))
    for one, other in (truth, wide):
        for peer in ("And", "Or", "Xor"):
            given = [once(one).astype(bool), once(other).astype(bool)]
            case(f"ELEMENT_WISE_LOGICAL_{peer.upper()}", peer, {"a_tensor": one, "b_tensor": other}, given=given)
        case("ELEMENT_WISE_LOGICAL_NOT", "Not", {"input_tensor": np.ascontiguousarray(one)}, given=[one.astype(bool)])
    for dtype in (U8, U32, I32):
        bits = whole("bits", 0, 120, 3, 5, dtype=dtype), np.broadcast_to(whole("mask", 0, 120, 1, 5, dtype=dtype), (3, 5))
        for name in ("And", "Or", "Xor"):
            case(f"ELEMENT_WISE_BIT_{name.upper()}", f"Bitwise{name}", {"a_tensor": bits[0], "b_tensor": bits[1]})
    for dtype in (U8, U32):
        bits = whole("shifted", 0, 250, 3, 5, dtype=dtype), np.broadcast_to(whole("shifts", 0, 8, 1, 5, dtype=dtype), (3, 5))
        for name in ("LEFT", "RIGHT"):
            case(f"ELEMENT_WISE_BIT_SHIFT_{name}", "BitShift", {"a_tensor": bits[0], "b_tensor": bits[1]}, direction=name)
    condition = np.broadcast_to(whole("where", 0, 2, 2, 1, 3, 1, dtype=U8), sizes)
    for one, other in ((a, b), ints):
        inputs = {"condition_tensor": condition, "a_tensor": one, "b_tensor": other}
        case("ELEMENT_WISE_IF", "Where", inputs, given=[once(condition).astype(bool), once(one), once(other)])


def casts() -> None:
    floats = np.array([0.0, -0.0, 0.5, -0.5, 1.99, -1.99, 2.5, 100.7, -100.7, 3], F32)
    rows = [
        (floats, F16),
        (np.array([65504, 65519, 1e-8, 6e-8, np.inf, -np.inf, np.nan, 1 / 3, 1 + 2**-11], F32), F16),
        (normal("halves", 3, 5).astype(F16), F32),
        (floats, I32),
        (floats, I8),
        (floats, I64),
        (np.abs(floats), U8),
        (np.array([0, 1, 2**24 + 1, 2**24 + 3, -(2**31), 2**31 - 1], I32), F32),
        (np.array([0, 255, 17], U8), F32),
        (np.array([0, 255, 256, -1, 2**31 - 1, -(2**31)], I32), U8),
        (np.array([-1, -128, 127, 5], I8), U32),
        (np.array([2**40 + 3, -1, 7, -(2**33)], I64), I32),
    ]
    for x, dtype in rows:
        case("CAST", "Cast", {"input_tensor": x}, to=element_type(dtype))


ROWS = (elementwise, binary, casts)
