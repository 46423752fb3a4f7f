"""pydirectml's expressions: those of `dmlpy.x`, with pydirectml's operators and outputs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Self

from dmlpy.description.coercion import brief
from dmlpy.messages.problems import DescError, Problem
from dmlpy.pydirectml.tensors import TensorDesc
from dmlpy.x import calls, expressions
from dmlpy.x.source_locations import caller_location

if TYPE_CHECKING:
    from dmlpy.x.producers import TensorRef


class Expression(expressions.Expression):
    """The tensor that an input or an operator gives. `Expression()` stands for none.

    `+ - * / %` accept expressions and, except for `%`, numbers on either side. The remainder has the sign of the dividend, as in C.
    """

    def __init__(self, ref: TensorRef | None = None) -> None:
        if ref is not None:
            super().__init__(ref)

    def get_output_desc(self) -> TensorDesc:
        """The desc of the tensor.

        Raises:
            DescError: the expression is an empty one.
        """
        if not exists(self):
            raise DescError(
                f"get_output_desc {caller_location()}", [Problem("expression.operand", "expression", "empty", "one that was made")]
            )
        return TensorDesc.of(self.tensor)

    def __mod__(self, other: Any) -> Self:
        return self._binary("MODULUS_TRUNCATE", self, other)

    def __rmod__(self, other: Any) -> Self:
        return self._binary("MODULUS_TRUNCATE", other, self)

    def __repr__(self) -> str:
        return super().__repr__() if exists(self) else "<empty expression>"


class MaxPoolingOutputs(NamedTuple):
    """The outputs of `max_pooling`."""

    values: Expression
    indices: Expression
    """Empty unless `output_indices` is true."""


class GRUOutputs(NamedTuple):
    """The outputs of `gru`; those that `output_options` leaves out are empty."""

    sequence: Expression
    single: Expression


def exists(expression: expressions.Expression | None) -> bool:
    """Whether there is a tensor: pydirectml's optional arguments take None and empty expressions."""
    return expression is not None and hasattr(expression, "_ref")


def one(operator: str, /, **members: Any) -> Expression:
    """The first output of an operator; empty expressions among the members count as None."""
    return make_expressions(operator, **members)[0]


def make_expressions(operator: str, /, **members: Any) -> tuple[Expression, ...]:
    """The outputs of an operator, empty where it has none with these members."""
    given = {name: None if isinstance(value, Expression) and not exists(value) else value for name, value in members.items()}
    return tuple(Expression(end) for end in calls.call(operator, **given))


def truth(function: str, name: str, value: Any) -> bool:
    """A flag, which pydirectml takes from all that has a truth.

    Raises:
        DescError: it has none, as an array of several elements.
    """
    try:
        return bool(value)
    except Exception:  # whatever the caller's type raises
        raise DescError(f"{function} {caller_location()}", [Problem("field.form", name, brief(value), "True or False")]) from None
