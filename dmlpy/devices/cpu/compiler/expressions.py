"""The translation of expressions."""

from __future__ import annotations

import ast
import builtins
import math
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from llvmlite import ir

from dmlpy.devices.cpu.compiler.arithmetic import Arithmetic, is_known, promoted
from dmlpy.devices.cpu.compiler.functions import ExternalFunction, Function, Intrinsic, declared, outer_names, phis
from dmlpy.devices.cpu.compiler.types import StructPointer, Type, UniTuple, Value, boolean, float32, float64, int64, type_of_field

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import ClassVar

    from dmlpy.devices.cpu.compiler.types import Term

Call: TypeAlias = "Callable[[Any, Function, Sequence[Term]], Term]"
"""call(builder, function, terms) appends a call of a function, and returns its result."""

_CONVERSIONS: dict[object, Type] = {int: int64, float: float64, bool: boolean, np.int64: int64, np.float32: float32, np.float64: float64}
_BUILT_IN: dict[object, str] = {math.log: "log", math.sqrt: "sqrt", np.rint: "rint"}
_EXTREMES: dict[object, str] = {min: "<", max: ">"}


class KernelError(TypeError):
    """A function cannot be compiled: the message says where and why."""


class Expressions:
    """The expressions of a function.

    Attributes:
        builder: where their code is appended.
        arithmetic: its operators.
        python: the function.

    Args:
        call: appends calls of functions.
        builder: where their code is appended.
        python: the function.
    """

    def __init__(self, call: Call, builder: Any, python: Any) -> None:
        self._call_of, self.builder, self.python = call, builder, python
        self.arithmetic = Arithmetic(builder)
        self._outer = outer_names(python)

    def named(self, name: str) -> Term:
        """The value of a name.

        Raises:
            KeyError: nothing.
        """
        for scope in (self._outer, self.python.__globals__, vars(builtins)):
            if name in scope:
                return scope[name]
        raise KeyError(f"{name} has no value here")

    def term(self, node: ast.expr) -> Term:
        """The value of an expression.

        Raises:
            TypeError: it has operands that it cannot have.
            NotImplementedError: kernels have no such expression.
        """
        translate = self._EXPRESSIONS.get(type(node))
        if translate is None:
            raise NotImplementedError(f"kernels have no expressions such as {ast.unparse(node)}")
        return translate(self, node)

    def terms(self, nodes: Sequence[ast.expr]) -> list[Term]:
        """The values of expressions, where each `*tuple` has several."""
        terms: list[Term] = []
        for node in nodes:
            terms += self.term(node.value) if isinstance(node, ast.Starred) else [self.term(node)]
        return terms

    def field(self, owner: Term, name: str) -> tuple[Type, Any]:
        """The type and the address of a struct's field.

        Raises:
            TypeError: it is not a struct.
            KeyError: it has no such field.
        """
        if not isinstance(owner, Value) or not isinstance(owner.type, StructPointer) or owner.type.dtype.fields is None:
            raise TypeError("only structs have fields")
        field, offset, *_ = owner.type.dtype.fields[name]
        kind = type_of_field(field)
        place = self.builder.gep(owner.llvm, [int64.llvm(offset)], inbounds=True)
        return kind, self.builder.bitcast(place, kind.llvm.as_pointer())

    def _constant(self, node: ast.Constant) -> Term:
        return node.value

    def _name(self, node: ast.Name) -> Term:
        return self.named(node.id)

    def _tuple(self, node: ast.Tuple) -> Term:
        return tuple(self.terms(node.elts))

    def _attribute(self, node: ast.Attribute) -> Term:
        owner = self.term(node.value)
        if not isinstance(owner, Value):
            return getattr(owner, node.attr)
        kind, place = self.field(owner, node.attr)
        return Value(kind, self.builder.load(place, align=1))

    def _subscript(self, node: ast.Subscript) -> Term:
        owner, place = self.term(node.value), self.term(node.slice)
        if isinstance(owner, tuple) and isinstance(place, int):
            return owner[place]
        raise NotImplementedError("only tuples have elements, at places that are known when the kernel is compiled")

    def _binary(self, node: ast.BinOp) -> Term:
        return self.arithmetic.binary(node.op, self.term(node.left), self.term(node.right))

    def _unary(self, node: ast.UnaryOp) -> Term:
        return self.arithmetic.unary(node.op, self.term(node.operand))

    # Conditions

    def _comparison(self, node: ast.Compare) -> Term:
        left, result = self.term(node.left), None
        for kind, other in zip(node.ops, node.comparators, strict=True):
            right = self.term(other)
            compare = self._is_among if isinstance(kind, ast.In) and isinstance(right, tuple) else self.arithmetic.comparison
            one = compare(kind, left, right)
            result = one if result is None else self.arithmetic.binary(ast.BitAnd(), result, one)
            left = right
        return result

    def _is_among(self, kind: ast.cmpop, term: Term, others: Sequence[Term]) -> Term:
        result: Term = False
        for other in others:
            result = self.arithmetic.binary(ast.BitOr(), result, self.arithmetic.comparison(ast.Eq(), term, other))
        return result

    def _logical(self, node: ast.BoolOp) -> Term:
        """`and` or `or`: true or false, not one of the operands. Operands that do not matter are not computed."""
        first, *others = node.values
        result, decides = self._truth(first), isinstance(node.op, ast.Or)
        for other in others:
            if isinstance(result, bool):
                result = result if result == decides else self._truth(other)
            elif decides:
                result = self._choice(result.llvm, lambda: True, partial(self._truth, other))
            else:
                result = self._choice(result.llvm, partial(self._truth, other), lambda: False)
        return result

    def _truth(self, node: ast.expr) -> Term:
        truth = self.arithmetic.truth(self.term(node))
        return truth if isinstance(truth, bool) else Value(boolean, truth)

    def _conditional(self, node: ast.IfExp) -> Term:
        truth = self.arithmetic.truth(self.term(node.test))
        if isinstance(truth, bool):
            return self.term(node.body if truth else node.orelse)
        return self._choice(truth, lambda: self.term(node.body), lambda: self.term(node.orelse))

    def _choice(self, truth: Any, yes: Callable[[], Term], no: Callable[[], Term]) -> Term:
        """One of two terms, each computed only if it is chosen."""
        builder = self.builder
        *blocks, after = (builder.append_basic_block(name) for name in ("yes", "no", "chosen"))
        builder.cbranch(truth, *blocks)
        terms, ends = [], []
        for block, compute in zip(blocks, (yes, no), strict=True):
            builder.position_at_end(block)
            terms.append(compute())
            ends.append(builder.block)
        x, y = (list(term) if isinstance(term, tuple) else [term] for term in terms)
        kinds = [promoted(*(self.arithmetic.value(each).type for each in pair)) for pair in zip(x, y, strict=True)]
        values = []
        for end, alternative in zip(ends, (x, y), strict=True):
            builder.position_at_end(end)
            values.append([self.arithmetic.converted(each, kind) for each, kind in zip(alternative, kinds, strict=True)])
            builder.branch(after)
        builder.position_at_end(after)
        chosen = phis(builder, *zip(ends, values, strict=True))
        results = [Value(kind, value) for kind, value in zip(kinds, chosen, strict=True)]
        return tuple(results) if isinstance(terms[0], tuple) else results[0]

    # Calls

    def _call(self, node: ast.Call) -> Term:
        if node.keywords:
            raise NotImplementedError("arguments of kernels' functions are given in order")
        function, terms = self.term(node.func), self.terms(node.args)
        if isinstance(function, Function):
            return self._call_of(self.builder, function, [self._passed(term) for term in terms])
        if isinstance(function, Intrinsic):
            return self._intrinsic(function, terms)
        if isinstance(function, ExternalFunction):
            return self._external(function, terms)
        if function in _EXTREMES:
            return self.arithmetic.extreme(_EXTREMES[function], terms)
        if function is abs:
            return self.arithmetic.magnitude(terms[0])
        if function in _BUILT_IN:
            return self.arithmetic.built_in(_BUILT_IN[function], terms[0])
        if function not in _CONVERSIONS:
            raise NotImplementedError(f"kernels cannot call {ast.unparse(node.func)}")
        if is_known(terms[0]):
            return function(terms[0])
        kind = _CONVERSIONS[function]
        return Value(kind, self.arithmetic.truth(terms[0]) if kind is boolean else self.arithmetic.converted(terms[0], kind))

    def _passed(self, term: Term) -> Term:
        """An argument of a function: numbers are passed as values, so that the function is compiled once for all."""
        if isinstance(term, tuple):
            return tuple(self._passed(each) for each in term)
        return self.arithmetic.value(term) if isinstance(term, (int, float, np.generic)) else term

    def _intrinsic(self, function: Intrinsic, terms: Sequence[Term]) -> Term:
        signature, generate = function.define(*(self._type(term) for term in terms))
        arguments = [self._argument(*each) for each in zip(terms, signature.arguments, strict=True)]
        result = generate(self.builder, arguments)
        return None if result is None else Value(signature.result, result)

    def _type(self, term: Term) -> Any:
        return tuple(self._type(each) for each in term) if isinstance(term, tuple) else self.arithmetic.value(term).type

    def _argument(self, term: Term, kind: Type) -> Any:
        """The LLVM value of an argument as a type."""
        if not isinstance(kind, UniTuple):
            return self.arithmetic.converted(term, kind)
        packed = ir.Constant(kind.llvm, ir.Undefined)
        if not isinstance(term, tuple) or len(term) != kind.count:
            raise TypeError(f"the argument is a tuple of {kind.count}")
        for place, each in enumerate(term):
            packed = self.builder.insert_value(packed, self.arithmetic.converted(each, kind.element), place)
        return packed

    def _external(self, function: ExternalFunction, terms: Sequence[Term]) -> Term:
        signature = function.signature
        kind = ir.FunctionType(signature.result.llvm, [each.llvm for each in signature.arguments])
        callee = declared(self.builder.module, kind, function.name)
        result = self.builder.call(callee, [self._argument(*each) for each in zip(terms, signature.arguments, strict=True)])
        return None if isinstance(signature.result.llvm, ir.VoidType) else Value(signature.result, result)

    _EXPRESSIONS: ClassVar[dict[type[ast.expr], Callable[[Any, Any], Term]]] = {
        ast.Constant: _constant,
        ast.Name: _name,
        ast.Tuple: _tuple,
        ast.Attribute: _attribute,
        ast.Subscript: _subscript,
        ast.BinOp: _binary,
        ast.UnaryOp: _unary,
        ast.Compare: _comparison,
        ast.BoolOp: _logical,
        ast.IfExp: _conditional,
        ast.Call: _call,
    }
