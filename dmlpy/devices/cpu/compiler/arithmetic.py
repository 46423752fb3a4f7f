"""Python's operators on the values of kernels, as LLVM code. Types are promoted as NumPy promotes those of arrays."""

from __future__ import annotations

import ast
import operator
from typing import TYPE_CHECKING, Any

import numpy as np
from llvmlite import ir

from dmlpy.devices.cpu.compiler.functions import declared
from dmlpy.devices.cpu.compiler.types import Float, Integer, Type, Value, boolean, float64, int64, type_of_number

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dmlpy.devices.cpu.compiler.types import Term

_FOLDED: dict[type[ast.AST], Any] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Div: operator.truediv,
    ast.LShift: operator.lshift,
    ast.RShift: operator.rshift,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
    ast.BitXor: operator.xor,
    ast.Pow: operator.pow,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
    ast.In: lambda x, y: x in y,
}
_COMPARISONS = {ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">="}
_BITWISE = {ast.BitAnd: "and_", ast.BitOr: "or_", ast.BitXor: "xor"}
_OF_INTEGERS = {ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul"}
_OF_FLOATS = {ast.Add: "fadd", ast.Sub: "fsub", ast.Mult: "fmul", ast.Div: "fdiv"}
_FOLDABLE = (int, float, np.integer)


def is_known(term: Term) -> bool:
    """Whether a term is known when the kernel is compiled."""
    return not isinstance(term, Value) and not (isinstance(term, tuple) and any(not is_known(each) for each in term))


def promoted(x: Type, y: Type) -> Type:
    """The type of both operands of an operator.

    Raises:
        TypeError: they have none in common.
    """
    if x is y:
        return x
    if isinstance(x, Integer) and isinstance(y, Integer):
        return int64
    if isinstance(x, (Integer, Float)) and isinstance(y, (Integer, Float)):
        return float64
    raise TypeError(f"{x} and {y} have no common type")


class Arithmetic:
    """Operators whose code is appended to a block.

    Args:
        builder: appends to the block.
    """

    def __init__(self, builder: Any) -> None:
        self._builder = builder

    def value(self, term: Term) -> Value:
        """A term as a value.

        Raises:
            TypeError: it is neither a number nor a value.
        """
        if isinstance(term, Value):
            return term
        kind = type_of_number(term)
        if kind is None:
            raise TypeError(f"{term!r} is not a number")
        return Value(kind, ir.Constant(kind.llvm, float(term) if isinstance(kind, Float) else int(term)))

    def converted(self, term: Term, kind: Type) -> Any:
        """The LLVM value of a number as another type.

        Raises:
            TypeError: it cannot be converted.
        """
        value, builder = self.value(term), self._builder
        source, llvm_value = value.type, value.llvm
        if source is kind:
            return llvm_value
        if isinstance(source, Integer) and isinstance(kind, Integer):
            if source.bits > kind.bits:
                return builder.trunc(llvm_value, kind.llvm)
            return (builder.zext if source is boolean else builder.sext)(llvm_value, kind.llvm)
        if isinstance(source, Integer) and isinstance(kind, Float):
            return (builder.uitofp if source is boolean else builder.sitofp)(llvm_value, kind.llvm)
        if isinstance(source, Float) and isinstance(kind, Float):
            return (builder.fptrunc if source.bits > kind.bits else builder.fpext)(llvm_value, kind.llvm)
        if isinstance(source, Float) and isinstance(kind, Integer) and kind is not boolean:
            return builder.fptosi(llvm_value, kind.llvm)
        raise TypeError(f"{source} is not {kind}")

    def truth(self, term: Term) -> Any:
        """Whether a term is true: a boolean of Python where it is known, else of LLVM."""
        if is_known(term):
            return bool(term)
        if isinstance(term.type, Float):
            return self._builder.fcmp_unordered("!=", term.llvm, ir.Constant(term.type.llvm, 0.0))
        if not isinstance(term.type, Integer):
            raise TypeError(f"{term.type} is neither true nor false")
        return term.llvm if term.type is boolean else self._builder.icmp_signed("!=", term.llvm, ir.Constant(term.type.llvm, 0))

    def binary(self, kind: ast.operator, x: Term, y: Term) -> Term:
        """x operator y."""
        if isinstance(x, _FOLDABLE) and isinstance(y, _FOLDABLE):
            return _FOLDED[type(kind)](x, y)
        x, y = self.value(x), self.value(y)
        common = promoted(x.type, y.type)
        if isinstance(kind, ast.Div) and isinstance(common, Integer):
            common = float64
        bitwise = _BITWISE.get(type(kind))
        if isinstance(common, Integer) and (common is not boolean or bitwise is None):
            common = int64
        a, b = self.converted(x, common), self.converted(y, common)
        if isinstance(common, Float):
            name = _OF_FLOATS.get(type(kind))
            if name is None:
                raise TypeError(f"floats of kernels have no operator {type(kind).__name__}")
            return Value(common, getattr(self._builder, name)(a, b))
        if not isinstance(common, Integer):
            raise TypeError(f"{common} has no operators; use the operations of `Simd`")
        return Value(common, self._of_integers(type(kind), bitwise, a, b))

    def _of_integers(self, kind: type[ast.operator], bitwise: str | None, a: Any, b: Any) -> Any:
        builder = self._builder
        if bitwise is not None:
            return getattr(builder, bitwise)(a, b)
        if kind is ast.LShift:
            return builder.shl(a, b)
        if kind is ast.RShift:
            return builder.ashr(a, b)
        if kind in _OF_INTEGERS:
            return getattr(builder, _OF_INTEGERS[kind])(a, b, flags=["nsw"])
        return self._floor_division(kind, a, b)

    def _floor_division(self, kind: type[ast.operator], a: Any, b: Any) -> Any:
        """The quotient, rounded down, or the remainder; 0 if the divisor is 0. It has no branches: LLVM drops what cannot happen."""
        builder, zero, one = self._builder, ir.Constant(a.type, 0), ir.Constant(a.type, 1)
        if isinstance(b, ir.Constant) and b.constant > 0:
            divisor, is_zero = b, None
        else:
            is_zero = builder.icmp_signed("==", b, zero)
            divisor = builder.select(is_zero, one, b)
        rest = builder.srem(a, divisor)
        rounds = builder.and_(builder.icmp_signed("!=", rest, zero), builder.icmp_signed("<", builder.xor(divisor, rest), zero))
        if kind is ast.FloorDiv:
            quotient = builder.sdiv(a, divisor)
            result = builder.select(rounds, builder.sub(quotient, one), quotient)
        elif kind is ast.Mod:
            result = builder.select(rounds, builder.add(rest, divisor), rest)
        else:
            raise TypeError(f"the operator {kind.__name__} is not one of kernels")
        return result if is_zero is None else builder.select(is_zero, zero, result)

    def comparison(self, kind: ast.cmpop, x: Term, y: Term) -> Term:
        """Whether a comparison of x and y holds."""
        if is_known(x) and is_known(y) and type(kind) in _FOLDED:
            return bool(_FOLDED[type(kind)](x, y))
        sign = _COMPARISONS.get(type(kind))
        if sign is None:
            raise TypeError(f"values of kernels have no comparison {type(kind).__name__}")
        x, y = self.value(x), self.value(y)
        common = promoted(x.type, y.type)
        return Value(boolean, self._compared(sign, common, self.converted(x, common), self.converted(y, common)))

    def _compared(self, sign: str, kind: Type, a: Any, b: Any) -> Any:
        """Whether a comparison of two values of one type holds. Of NaN only `!=` does."""
        if isinstance(kind, Float):
            return (self._builder.fcmp_unordered if sign == "!=" else self._builder.fcmp_ordered)(sign, a, b)
        if not isinstance(kind, Integer):
            raise TypeError(f"{kind} has no comparisons; use the operations of `Simd`")
        # As a signed number of one bit, true would be -1.
        return (self._builder.icmp_unsigned if kind is boolean else self._builder.icmp_signed)(sign, a, b)

    def unary(self, kind: ast.unaryop, x: Term) -> Term:
        """The operator of one operand."""
        if isinstance(kind, ast.Not):
            truth = self.truth(x)
            return not truth if isinstance(truth, bool) else Value(boolean, self._builder.not_(truth))
        if not isinstance(kind, ast.USub):
            raise TypeError(f"the operator {type(kind).__name__} is not one of kernels")
        if is_known(x):
            return -x
        if isinstance(x.type, Float):
            return Value(x.type, self._builder.fneg(x.llvm))
        return Value(int64, self._builder.neg(self.converted(x, int64)))

    def extreme(self, sign: str, terms: Sequence[Term]) -> Term:
        """The least or largest term, as Python's `min` and `max` choose it where some are NaN."""
        if all(isinstance(term, (int, np.integer)) for term in terms):
            return (min if sign == "<" else max)(terms)
        best, *others = map(self.value, terms)
        for other in others:
            common = promoted(best.type, other.type)
            a, b = self.converted(best, common), self.converted(other, common)
            best = Value(common, self._builder.select(self._compared(sign, common, b, a), b, a))
        return best

    def built_in(self, name: str, x: Term) -> Term:
        """An LLVM intrinsic of floats; integers are converted to float64."""
        value = self.value(x)
        kind = value.type if isinstance(value.type, Float) else float64
        function = declared(self._builder.module, ir.FunctionType(kind.llvm, [kind.llvm]), f"llvm.{name}.f{kind.bits}")
        return Value(kind, self._builder.call(function, [self.converted(value, kind)]))

    def magnitude(self, x: Term) -> Term:
        """The absolute value."""
        value = self.value(x)
        if isinstance(value.type, Float):
            return self.built_in("fabs", value)
        number = self.converted(value, int64)
        is_negative = self._builder.icmp_signed("<", number, ir.Constant(number.type, 0))
        return Value(int64, self._builder.select(is_negative, self._builder.neg(number), number))
