"""The translation of a function's statements, and of its variables."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from llvmlite import ir

from dmlpy.devices.cpu.compiler.arithmetic import is_known, promoted
from dmlpy.devices.cpu.compiler.expressions import Expressions, KernelError
from dmlpy.devices.cpu.compiler.functions import allocated, stores_of, syntax_of
from dmlpy.devices.cpu.compiler.types import Value, int64

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import ClassVar

    from dmlpy.devices.cpu.compiler.expressions import Call
    from dmlpy.devices.cpu.compiler.types import Term, Type


@dataclass(frozen=True, slots=True)
class _Variable:
    """A variable in memory, which LLVM moves to a register.

    Attributes:
        type: its type.
        room: its address.
        suite: the number of the statements among which it was first assigned.
        is_local: whether other statements have a variable of its name and another type.
    """

    type: Type
    room: Any
    suite: int
    is_local: bool


@dataclass
class _Loop:
    """The blocks of the next iteration and of what follows, and whether the loop ends there."""

    following: Any
    after: Any
    ends: bool = False


class Body(Expressions):
    """The translation of a function.

    Args:
        call: appends calls of functions.
        function: the LLVM function.
        python: the Python function.
        arguments: its arguments.

    Raises:
        KernelError: it takes another number of arguments.
    """

    def __init__(self, call: Call, function: Any, python: Any, arguments: Sequence[Term]) -> None:
        self._entry, self._start, self._exit = (function.append_basic_block(name) for name in ("entry", "start", "exit"))
        super().__init__(call, ir.IRBuilder(self._start), python)
        self._definition = syntax_of(python)
        self._stores = stores_of(self._definition)
        self._variables: dict[str, Any] = {}
        self._suites, self._active = 0, [0]
        """How many suites of statements have begun, and the numbers of those that have not ended."""
        self._loops: list[_Loop] = []
        self._results: Any = None
        self._has_returned = False
        names = [argument.arg for argument in self._definition.args.args]
        if len(names) != len(arguments):
            raise KernelError(f"{python.__qualname__} takes {len(names)} arguments, not {len(arguments)}")
        self._variables |= {name: self._kept(term) if name in self._stores else term for name, term in zip(names, arguments, strict=True)}

    def translate(self) -> Term:
        """Translates all statements; the builder is then where the function ends. Returns its result.

        Raises:
            KernelError: a statement cannot be compiled.
        """
        self._run(self._definition.body)
        if not self.builder.block.is_terminated:
            if self._results is not None:
                raise KernelError(f"{self.python.__qualname__} returns a value, but not always")
            self.builder.branch(self._exit)
        self.builder.position_at_end(self._exit)
        result = self._loaded(self._results)
        ir.IRBuilder(self._entry).branch(self._start)
        return result

    def _run(self, statements: Sequence[ast.stmt]) -> None:
        """Translates statements in order, up to one that leaves them."""
        self._suites += 1
        self._active.append(self._suites)
        for statement in statements:
            self._translate_one(statement)
            if self.builder.block.is_terminated:
                break
        self._active.pop()

    def _translate_one(self, node: ast.stmt) -> None:
        translate = self._STATEMENTS.get(type(node))
        try:
            if translate is None:
                raise NotImplementedError("kernels have no such statement")
            translate(self, node)
        except KernelError:
            raise
        except (TypeError, AttributeError, LookupError, NotImplementedError, ValueError, ZeroDivisionError) as error:
            place = f"{self.python.__code__.co_filename}:{node.lineno}"
            raise KernelError(f"{place}: {ast.unparse(node).splitlines()[0]}: {error}") from error

    def _pass(self, node: ast.Pass) -> None:
        """Nothing."""

    def _evaluate(self, node: ast.Expr) -> None:
        if not isinstance(node.value, ast.Constant):  # a docstring
            self.term(node.value)

    def _assign_all(self, node: ast.Assign) -> None:
        term = self.term(node.value)
        for target in node.targets:
            self._assign(target, term)

    def _augment(self, node: ast.AugAssign) -> None:
        self._assign(node.target, self.arithmetic.binary(node.op, self.term(node.target), self.term(node.value)))

    def _return(self, node: ast.Return) -> None:
        term = None if node.value is None else self.term(node.value)
        if self._has_returned:
            if not self._store(self._results, term):
                raise TypeError("the function returns values of several types")
        else:
            self._results, self._has_returned = self._kept(term), True
        self.builder.branch(self._exit)

    def _branch(self, node: ast.If) -> None:
        truth = self.arithmetic.truth(self.term(node.test))
        if isinstance(truth, bool):
            self._run(node.body if truth else node.orelse)
            return
        yes, no, after = (self.builder.append_basic_block(name) for name in ("yes", "no", "after"))
        self.builder.cbranch(truth, yes, no)
        continues = False
        for block, statements in ((yes, node.body), (no, node.orelse)):
            self.builder.position_at_end(block)
            self._run(statements)
            if not self.builder.block.is_terminated:
                self.builder.branch(after)
                continues = True
        self._continue_at(after, is_reached=continues)

    def _continue_at(self, block: Any, *, is_reached: bool) -> None:
        self.builder.position_at_end(block)
        if not is_reached:
            self.builder.unreachable()

    # Loops

    def _loop_while(self, node: ast.While) -> None:
        head, body, after = (self.builder.append_basic_block(name) for name in ("while", "body", "after"))
        self.builder.branch(head)
        self.builder.position_at_end(head)
        truth, loop = self.arithmetic.truth(self.term(node.test)), _Loop(head, after)
        if truth is True:
            self.builder.branch(body)
        else:
            self.builder.cbranch(truth, body, after)
            loop.ends = True
        self._loop(body, node, loop)
        self._continue_at(after, is_reached=loop.ends)

    def _loop_for(self, node: ast.For) -> None:
        function = self.term(node.iter.func) if isinstance(node.iter, ast.Call) else None
        if function is range and isinstance(node.iter, ast.Call):
            self._count(node, self.terms(node.iter.args))
        elif function is enumerate and isinstance(node.iter, ast.Call):
            (terms,) = self.terms(node.iter.args)
            self._unroll(node, tuple(enumerate(terms)))
        else:
            self._unroll(node, self.term(node.iter))

    def _unroll(self, node: ast.For, terms: Term) -> None:
        """A loop over terms that are known one by one."""
        if not isinstance(terms, tuple):
            raise NotImplementedError("kernels have `for` over `range` and tuples")
        after = self.builder.append_basic_block("after")
        for term in terms:
            following = self.builder.append_basic_block("next")
            self._loop(self.builder.block, node, _Loop(following, after), term)
            self.builder.position_at_end(following)
        self.builder.branch(after)
        self.builder.position_at_end(after)

    def _count(self, node: ast.For, terms: Sequence[Term]) -> None:
        """A loop over a range."""
        builder = self.builder
        first, stop, step = (0, terms[0], 1) if len(terms) == 1 else (*terms, 1) if len(terms) == 2 else terms
        begin, end, increment = (self.arithmetic.converted(each, int64) for each in (first, stop, step))
        counter = allocated(builder, int64.llvm)
        builder.store(begin, counter)
        head, body, following, after = (builder.append_basic_block(name) for name in ("for", "body", "next", "after"))
        builder.branch(head)
        builder.position_at_end(head)
        number = builder.load(counter)
        builder.cbranch(self._is_before(number, end, step, increment), body, after)
        builder.position_at_end(following)
        builder.store(builder.add(builder.load(counter), increment, flags=["nsw"]), counter)
        builder.branch(head)
        self._loop(body, node, _Loop(following, after), Value(int64, number))
        builder.position_at_end(after)

    def _is_before(self, number: Any, end: Any, step: Term, increment: Any) -> Any:
        """Whether a loop's number is in its range."""
        below, above = (self.builder.icmp_signed(sign, number, end) for sign in "<>")
        if is_known(step):
            return below if step > 0 else above
        return self.builder.select(self.builder.icmp_signed(">", increment, int64.llvm(0)), below, above)

    def _loop(self, body: Any, node: ast.For | ast.While, loop: _Loop, term: Term = None) -> None:
        """A loop's body, which begins in a block; `term` is what is assigned to the target of a `for`."""
        if node.orelse:
            raise NotImplementedError("loops of kernels have no `else`")
        self._loops.append(loop)
        self.builder.position_at_end(body)
        if isinstance(node, ast.For):
            self._assign(node.target, term)
        self._run(node.body)
        if not self.builder.block.is_terminated:
            self.builder.branch(loop.following)
        self._loops.pop()

    def _break(self, node: ast.Break) -> None:
        self._loops[-1].ends = True
        self.builder.branch(self._loops[-1].after)

    def _continue(self, node: ast.Continue) -> None:
        self.builder.branch(self._loops[-1].following)

    # Variables

    def named(self, name: str) -> Term:
        return self._loaded(self._variables[name]) if name in self._variables else super().named(name)

    def _assign(self, target: ast.expr, term: Term) -> None:
        if isinstance(target, ast.Name):
            self._assign_name(target.id, term)
        elif isinstance(target, ast.Tuple) and isinstance(term, tuple):
            for part, each in zip(target.elts, term, strict=True):
                self._assign(part, each)
        elif isinstance(target, ast.Attribute):
            kind, place = self.field(self.term(target.value), target.attr)
            self.builder.store(self.arithmetic.converted(term, kind), place, align=1)
        else:
            raise NotImplementedError("kernels assign to names, tuples of names, and fields")

    def _assign_name(self, name: str, term: Term) -> None:
        if name in self._variables:
            if not self._store(self._variables[name], term):
                self._variables[name] = self._kept(term, is_local=len(self._active) > 2)
        elif self._stores[name] == 1 and len(self._active) == 2 and not self._loops:
            self._variables[name] = term  # its only assignment precedes all other uses
        else:
            self._variables[name] = self._kept(term)

    def _kept(self, term: Term, *, is_local: bool = False) -> Any:
        """Variables with the value of a term."""
        if isinstance(term, tuple):
            return tuple(self._kept(each, is_local=is_local) for each in term)
        if not isinstance(term, (Value, int, float, np.generic)):
            return term
        value = self.arithmetic.value(term)
        variable = _Variable(value.type, allocated(self.builder, value.type.llvm), self._active[-1], is_local)
        self.builder.store(value.llvm, variable.room)
        return variable

    def _store(self, kept: Any, term: Term) -> bool:
        """Writes a term to variables; returns False where it needs other variables: from here on the name stands for those."""
        if isinstance(kept, tuple):
            if not isinstance(term, tuple) or len(term) != len(kept):
                raise TypeError(f"the variable is a tuple of {len(kept)}")
            return all(self._store(stored, each) for stored, each in zip(kept, term, strict=True))
        if not isinstance(kept, _Variable):
            if kept is not term:
                raise TypeError("the variable's value is decided when the kernel is compiled, and cannot change")
            return True
        has_ended = kept.suite not in self._active
        if has_ended and kept.is_local:
            return False
        value = self.arithmetic.value(term)
        if value.type is not kept.type and (has_ended or kept.suite == self._active[-1]):
            return False
        if not _fits(value.type, kept.type):
            raise TypeError(f"the variable is of type {kept.type}, the value of type {value.type}")
        self.builder.store(self.arithmetic.converted(value, kept.type), kept.room)
        return True

    def _loaded(self, kept: Any) -> Term:
        if isinstance(kept, _Variable):
            if kept.is_local and kept.suite not in self._active:
                raise TypeError("a variable has values of several types")
            return Value(kept.type, self.builder.load(kept.room))
        return tuple(self._loaded(each) for each in kept) if isinstance(kept, tuple) else kept

    _STATEMENTS: ClassVar[dict[type[ast.stmt], Callable[[Any, Any], None]]] = {
        ast.Pass: _pass,
        ast.Expr: _evaluate,
        ast.Assign: _assign_all,
        ast.AugAssign: _augment,
        ast.Return: _return,
        ast.If: _branch,
        ast.While: _loop_while,
        ast.For: _loop_for,
        ast.Break: _break,
        ast.Continue: _continue,
    }


def _fits(actual: Type, kind: Type) -> bool:
    """Whether every value of a type is one of another."""
    if actual is kind:
        return True
    try:
        return promoted(actual, kind) is kind
    except TypeError:
        return False
