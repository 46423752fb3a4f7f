"""The records of the element-wise operators, and of their quantized forms."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.inspection.operator_records.record import (
    SIZES,
    Draw,
    OperatorRecord,
    Torch,
    UlpBound,
    broadcast,
    cast,
    constant,
    normal,
    scalar,
    uniform,
    whole,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

_U8 = np.uint8


def _of_one(operator: str, onnx: str, torch: Torch | None, draw: Draw | None = None, **more: Any) -> OperatorRecord:
    nodes = f"output_tensor = {onnx} (input_tensor)" if onnx else ""
    return OperatorRecord(f"ELEMENT_WISE_{operator}", {"input_tensor": draw or normal()}, onnx=nodes, torch=torch, **more)


def _of_two(operator: str, onnx: str, torch: Torch | None, a: Draw | None = None, b: Draw | None = None, **more: Any) -> OperatorRecord:
    inputs = {"a_tensor": a or normal(), "b_tensor": b or normal()}
    nodes = f"output_tensor = {onnx} (a_tensor, b_tensor)" if onnx else ""
    return OperatorRecord(f"ELEMENT_WISE_{operator}", inputs, onnx=nodes, torch=torch, **more)


def _functions() -> Iterator[OperatorRecord]:
    unit, positive = uniform(-0.95, 0.95), uniform(0.1, 9)
    yield _of_one("ABS", "Abs", lambda t, x: t.abs(x.input_tensor))
    yield _of_one("ACOS", "Acos", lambda t, x: t.acos(x.input_tensor), unit, bounds=(UlpBound(3, 3, 4),))
    yield _of_one("ACOSH", "Acosh", lambda t, x: t.acosh(x.input_tensor), uniform(1.1, 9), bounds=(UlpBound(2, 2, 5),))
    yield _of_one("ASIN", "Asin", lambda t, x: t.asin(x.input_tensor), unit, bounds=(UlpBound(3, 3, 5),))
    yield _of_one("ASINH", "Asinh", lambda t, x: t.asinh(x.input_tensor), bounds=(UlpBound(2, 2, 4),))
    yield _of_one("ATAN", "Atan", lambda t, x: t.atan(x.input_tensor), bounds=(UlpBound(3, 3, 3),))
    yield _of_one("ATANH", "Atanh", lambda t, x: t.atanh(x.input_tensor), unit, bounds=(UlpBound(2, 2, 4),))
    yield _of_one("CEIL", "Ceil", lambda t, x: t.ceil(x.input_tensor))
    yield _of_one("COS", "Cos", lambda t, x: t.cos(x.input_tensor), bounds=(UlpBound(2, 2, 4),))
    yield _of_one("COSH", "Cosh", lambda t, x: t.cosh(x.input_tensor), bounds=(UlpBound(3, 3, 4),))
    yield _of_one("ERF", "Erf", lambda t, x: t.erf(x.input_tensor), bounds=(UlpBound(6, 2, 4),))
    yield _of_one("EXP", "Exp", lambda t, x: t.exp(x.input_tensor), bounds=(UlpBound(3, 2, 4),))
    yield _of_one("FLOOR", "Floor", lambda t, x: t.floor(x.input_tensor))
    yield _of_one("IDENTITY", "Identity", lambda t, x: t.clone(x.input_tensor))
    yield _of_one("LOG", "Log", lambda t, x: t.log(x.input_tensor), positive, bounds=(UlpBound(4, 4, 3),))
    yield _of_one("NEGATE", "Neg", lambda t, x: t.neg(x.input_tensor))
    yield _of_one("RECIP", "Reciprocal", lambda t, x: t.reciprocal(x.input_tensor), positive, bounds=(UlpBound(0.5, 0.5, 0.5),))
    yield _of_one("SIGN", "Sign", lambda t, x: t.sign(x.input_tensor))
    yield _of_one("SIN", "Sin", lambda t, x: t.sin(x.input_tensor), bounds=(UlpBound(2, 2, 4),))
    yield _of_one("SINH", "Sinh", lambda t, x: t.sinh(x.input_tensor), bounds=(UlpBound(2, 2, 4),))
    yield _of_one("SQRT", "Sqrt", lambda t, x: t.sqrt(x.input_tensor), positive, bounds=(UlpBound(0.5, 0.5, 0.5),))
    yield _of_one("TAN", "Tan", lambda t, x: t.tan(x.input_tensor), unit, bounds=(UlpBound(4, 4, 5),))
    yield _of_one("TANH", "Tanh", lambda t, x: t.tanh(x.input_tensor), bounds=(UlpBound(2, 6, 4),))
    yield _of_one("ROUND", "Round", lambda t, x: t.round(x.input_tensor), members={"rounding_mode": "HALVES_TO_NEAREST_EVEN"})
    truth: dict[str, Any] = {"outputs": {"output_tensor": (SIZES, _U8)}}
    yield _of_one("IS_NAN", "IsNaN", lambda t, x: t.isnan(x.input_tensor), _some(np.nan), **truth)
    yield _of_one(
        "IS_INFINITY", "IsInf", lambda t, x: t.isinf(x.input_tensor), _some(-np.inf), members={"infinity_mode": "EITHER"}, **truth
    )


def _some(value: float) -> Draw:
    """Normal numbers, one in eight of which is replaced."""

    def draw(rng: np.random.Generator) -> Any:
        values = rng.standard_normal(SIZES, np.float32)
        values[rng.random(SIZES) < 1 / 8] = value
        return values

    return draw


def _limits() -> Iterator[OperatorRecord]:
    low, high = np.float32(-0.5), np.float32(0.75)
    limits = {"low": np.array(low), "high": np.array(high)}
    typed: dict[str, Any] = {"min_max_data_type": "FLOAT32", "min": low.item(), "max": high.item()}
    plain = {"min": low.item(), "max": high.item()}
    clip = "output_tensor = Clip (input_tensor, low, high)"

    def clamp(t: Any, x: Any) -> Any:
        return t.clamp(x.input_tensor, -0.5, 0.75)

    one: dict[str, Draw] = {"input_tensor": normal()}
    yield OperatorRecord("ELEMENT_WISE_CLIP", one, plain, onnx=clip, onnx_inputs=limits, torch=clamp)
    yield OperatorRecord("ELEMENT_WISE_CLIP1", one, typed, onnx=clip, onnx_inputs=limits, torch=clamp)
    passed = {"input_tensor": normal(), "input_gradient_tensor": normal()}

    def gradient(t: Any, x: Any) -> Any:
        return t.ops.aten.hardtanh_backward(x.input_gradient_tensor, x.input_tensor, -0.5, 0.75)

    yield OperatorRecord("ELEMENT_WISE_CLIP_GRAD", passed, plain, torch=gradient)
    yield OperatorRecord("ELEMENT_WISE_CLIP_GRAD1", passed, typed, torch=gradient)
    least = {"low": np.array(low)}
    yield OperatorRecord(
        *("ELEMENT_WISE_THRESHOLD", one, {"min": low.item()}),
        onnx="output_tensor = Clip (input_tensor, low)",
        onnx_inputs=least,
        torch=lambda t, x: t.clamp(x.input_tensor, -0.5),
    )


def _arithmetic() -> Iterator[OperatorRecord]:
    divisor = uniform(0.25, 4)
    yield _of_two("ADD", "Add", lambda t, x: t.add(x.a_tensor, x.b_tensor), bounds=(UlpBound(0.5, 0.5, 0.5),))
    yield OperatorRecord(
        *(
            "ELEMENT_WISE_ADD1",
            {"a_tensor": normal(), "b_tensor": normal()},
            {"fused_activation": {"Type": "DML_OPERATOR_ACTIVATION_RELU"}},
        ),
        onnx="sum = Add (a_tensor, b_tensor)\noutput_tensor = Relu (sum)",
        torch=lambda t, x: t.relu_(t.add(x.a_tensor, x.b_tensor)),
    )
    yield _of_two("ATAN_YX", "", lambda t, x: t.atan2(x.a_tensor, x.b_tensor), bounds=(UlpBound(4, 4, 4),))
    yield OperatorRecord(
        *("ELEMENT_WISE_DIFFERENCE_SQUARE", {"a_tensor": normal(), "b_tensor": normal()}),
        onnx="difference = Sub (a_tensor, b_tensor)\noutput_tensor = Mul (difference, difference)",
        torch=lambda t, x: t.nn.functional.mse_loss(x.a_tensor, x.b_tensor, reduction="none"),
        bounds=(UlpBound(2, 2, 2),),
    )
    yield _of_two("DIVIDE", "Div", lambda t, x: t.div(x.a_tensor, x.b_tensor), b=divisor, bounds=(UlpBound(0.5, 0.5, 0.5),))
    yield _of_two("MAX", "Max", lambda t, x: t.maximum(x.a_tensor, x.b_tensor))
    yield _of_two("MEAN", "Mean", lambda t, x: t.add(x.a_tensor, x.b_tensor).mul_(0.5))
    yield _of_two("MIN", "Min", lambda t, x: t.minimum(x.a_tensor, x.b_tensor))
    ints: dict[str, Draw] = {"a": whole(-99, 100), "b": whole(1, 10)}
    yield _of_two("MODULUS_FLOOR", "Mod", lambda t, x: t.remainder(x.a_tensor, x.b_tensor), **ints, bounds=(UlpBound(0.5, 0.5, 0.5),))
    yield _of_two("MODULUS_TRUNCATE", "Mod <fmod=1>", lambda t, x: t.fmod(x.a_tensor, x.b_tensor), b=divisor, bounds=(UlpBound(0, 0, 0),))
    yield _of_two("MULTIPLY", "Mul", lambda t, x: t.mul(x.a_tensor, x.b_tensor), bounds=(UlpBound(0.5, 0.5, 0.5),))
    yield _of_two("SUBTRACT", "Sub", lambda t, x: t.sub(x.a_tensor, x.b_tensor), bounds=(UlpBound(0.5, 0.5, 0.5),))
    yield OperatorRecord(
        *("ELEMENT_WISE_POW", {"input_tensor": uniform(0.1, 4), "exponent_tensor": uniform(-2, 2)}),
        onnx="output_tensor = Pow (input_tensor, exponent_tensor)",
        torch=lambda t, x: t.pow(x.input_tensor, x.exponent_tensor),
        bounds=(UlpBound(2, 2, 17),),
    )
    yield OperatorRecord(
        *("ELEMENT_WISE_CONSTANT_POW", {"input_tensor": uniform(0.1, 4)}, {"exponent": 1.5}),
        onnx="output_tensor = Pow (input_tensor, exponent)",
        onnx_inputs={"exponent": np.array(1.5, np.float32)},
        torch=lambda t, x: t.pow(x.input_tensor, 1.5),
        bounds=(
            UlpBound(2, 2, 0.5, {"exponent": 0.5}),
            UlpBound(2, 2, 17, {"exponent": -1.5}),
            UlpBound(0.5, 0.5, 0.5, {"exponent": 2.0}),
            UlpBound(2, 2, 17, {"exponent": 3.0}),
        ),
    )


def _logic() -> Iterator[OperatorRecord]:
    truth: dict[str, Any] = {"outputs": {"output_tensor": (SIZES, _U8)}}
    few: dict[str, Draw] = {"a": whole(-4, 5), "b": whole(-4, 5)}
    yield _of_two("LOGICAL_EQUALS", "Equal", lambda t, x: t.eq(x.a_tensor, x.b_tensor), **few, **truth)
    yield _of_two("LOGICAL_GREATER_THAN", "Greater", lambda t, x: t.gt(x.a_tensor, x.b_tensor), **truth)
    yield _of_two("LOGICAL_GREATER_THAN_OR_EQUAL", "GreaterOrEqual", lambda t, x: t.ge(x.a_tensor, x.b_tensor), **truth)
    yield _of_two("LOGICAL_LESS_THAN", "Less", lambda t, x: t.lt(x.a_tensor, x.b_tensor), **truth)
    yield _of_two("LOGICAL_LESS_THAN_OR_EQUAL", "LessOrEqual", lambda t, x: t.le(x.a_tensor, x.b_tensor), **truth)
    bits = {name: whole(0, 2, dtype=_U8) for name in ("a_tensor", "b_tensor")}
    booleans = {"a": cast("a_tensor", np.bool_), "b": cast("b_tensor", np.bool_)}
    names: dict[str, tuple[str, Torch]] = {
        "AND": ("And", lambda t, x: t.logical_and(x.a_tensor, x.b_tensor)),
        "OR": ("Or", lambda t, x: t.logical_or(x.a_tensor, x.b_tensor)),
        "XOR": ("Xor", lambda t, x: t.logical_xor(x.a_tensor, x.b_tensor)),
    }
    for name, (theirs, torch) in names.items():
        yield OperatorRecord(
            f"ELEMENT_WISE_LOGICAL_{name}", bits, onnx=f"output_tensor = {theirs} (a, b)", onnx_inputs=booleans, torch=torch
        )
    yield OperatorRecord(
        *("ELEMENT_WISE_LOGICAL_NOT", {"input_tensor": whole(0, 2, dtype=_U8)}),
        onnx="output_tensor = Not (x)",
        onnx_inputs={"x": cast("input_tensor", np.bool_)},
        torch=lambda t, x: t.logical_not(x.input_tensor),
    )
    yield OperatorRecord(
        *("ELEMENT_WISE_IF", {"condition_tensor": whole(0, 2, dtype=_U8), "a_tensor": normal(), "b_tensor": normal()}),
        onnx="output_tensor = Where (condition, a_tensor, b_tensor)",
        onnx_inputs={"condition": cast("condition_tensor", np.bool_)},
        torch=lambda t, x: t.where(x.condition_tensor.view(t.bool), x.a_tensor, x.b_tensor),
    )
    words: dict[str, Draw] = {"a": whole(0, 1 << 30), "b": whole(0, 1 << 30)}
    yield _of_two("BIT_AND", "BitwiseAnd", lambda t, x: t.bitwise_and(x.a_tensor, x.b_tensor), **words)
    yield _of_two("BIT_OR", "BitwiseOr", lambda t, x: t.bitwise_or(x.a_tensor, x.b_tensor), **words)
    yield _of_two("BIT_XOR", "BitwiseXor", lambda t, x: t.bitwise_xor(x.a_tensor, x.b_tensor), **words)
    yield _of_one("BIT_NOT", "BitwiseNot", lambda t, x: t.bitwise_not(x.input_tensor), words["a"])
    yield _of_one("BIT_COUNT", "", None, whole(0, 1 << 30, dtype=np.uint32), outputs={"output_tensor": (SIZES, np.uint32)})
    shifts: dict[str, Draw] = {"a": whole(0, 256, dtype=_U8), "b": whole(0, 8, dtype=_U8)}
    for name in ("LEFT", "RIGHT"):
        theirs = f'BitShift <direction="{name}">'
        yield _of_two(f"BIT_SHIFT_{name}", theirs, _shift(name), **shifts)


def _shift(direction: str) -> Torch:
    return lambda t, x: getattr(t, f"bitwise_{direction.lower()}_shift")(x.a_tensor, x.b_tensor)


def _quantize() -> Iterator[OperatorRecord]:
    # A power of two, so that ties between two integers do not depend on the order of the operations.
    scale, point = broadcast(constant(0.03125, 1, 1, 1, 1)), broadcast(constant(128, 1, 1, 1, 1, dtype=_U8))
    parameters = {"scale": scalar("scale_tensor"), "point": scalar("zero_point_tensor")}
    yield OperatorRecord(
        *("ELEMENT_WISE_QUANTIZE_LINEAR", {"input_tensor": normal(), "scale_tensor": scale, "zero_point_tensor": point}),
        outputs={"output_tensor": (SIZES, _U8)},
        onnx="output_tensor = QuantizeLinear (input_tensor, scale, point)",
        onnx_inputs=parameters,
        torch=lambda t, x: t.ops.aten.quantize_per_tensor(x.input_tensor, 0.03125, 128, t.quint8),
    )
    steps = whole(0, 256, dtype=_U8)
    yield OperatorRecord(
        *("ELEMENT_WISE_DEQUANTIZE_LINEAR", {"input_tensor": steps, "scale_tensor": scale, "zero_point_tensor": point}),
        onnx="output_tensor = DequantizeLinear (input_tensor, scale, point)",
        onnx_inputs=parameters,
        torch=lambda t, x: (x.input_tensor.to(t.float32) - 128).mul_(0.03125),
    )
    both = constant(0.03125, 1, 1, 1, 1), constant(128, 1, 1, 1, 1, dtype=_U8)
    ways: dict[str, tuple[Draw, Torch]] = {
        "Quantize": (normal(), lambda t, x: t.ops.aten.quantize_per_tensor(x.input_tensor, 0.03125, 128, t.quint8)),
        "Dequantize": (steps, lambda t, x: (x.input_tensor.to(t.float32) - 128).mul_(0.03125)),
    }
    for name, (operand, torch) in ways.items():
        yield OperatorRecord(
            operator=name.upper(),
            inputs={"input_tensor": operand, "quantization_tensors": both},
            members={"quantization_type": "SCALE_ZERO_POINT"},
            outputs={"output_tensor": (SIZES, _U8 if name == "Quantize" else np.float32)},
            onnx=f"output_tensor = {name}Linear (input_tensor, scale, point)",
            onnx_inputs={"scale": scalar("quantization_tensors0"), "point": scalar("quantization_tensors1")},
            torch=torch,
        )
    yield OperatorRecord(
        *("DYNAMIC_QUANTIZE_LINEAR", {"input_tensor": normal()}),
        outputs={"output_tensor": (SIZES, _U8), "output_scale_tensor": ((1,) * 4, np.float32), "output_zero_point_tensor": ((1,) * 4, _U8)},
        onnx="output_tensor, output_scale_tensor, output_zero_point_tensor = DynamicQuantizeLinear (input_tensor)",
    )
    scales, zeros = {}, {}
    for name, value in (("a", 0.02), ("b", 0.03), ("output", 0.045)):
        scales[name], zeros[name] = constant(value, 1, 1, 1, 1), constant(120, 1, 1, 1, 1, dtype=_U8)
    inputs = {"a_tensor": steps, "a_scale_tensor": scales["a"], "a_zero_point_tensor": zeros["a"]}
    inputs |= {"b_tensor": steps, "b_scale_tensor": scales["b"], "b_zero_point_tensor": zeros["b"]}
    inputs |= {"output_scale_tensor": scales["output"], "output_zero_point_tensor": zeros["output"]}
    names = [name for name in inputs if name not in ("a_tensor", "b_tensor")]
    short = {name: name.removesuffix("_tensor") for name in names}
    yield OperatorRecord(
        *("ELEMENT_WISE_QUANTIZED_LINEAR_ADD", inputs),
        outputs={"output_tensor": (SIZES, _U8)},
        onnx=f"output_tensor = com.microsoft.QLinearAdd ({', '.join(short.get(name, name) for name in inputs)})",
        onnx_inputs={parameter: scalar(name) for name, parameter in short.items()},
    )


def records() -> Iterator[OperatorRecord]:
    """The records of the family."""
    for part in (_functions, _limits, _arithmetic, _logic, _quantize):
        yield from part()
