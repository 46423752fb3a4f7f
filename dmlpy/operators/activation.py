"""The activation operators: functions of one tensor, alone or fused into another operator."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from dmlpy.description.coercion import Float, Uints, brief, default, entries, has_entries, read_by
from dmlpy.description.descs import FusableDesc, OperatorDesc
from dmlpy.description.enums import FeatureLevel
from dmlpy.description.markers import In, Limits, Out, Violation, rule
from dmlpy.description.registry import C_PREFIX, OPERATORS
from dmlpy.description.sizes import MAX_SIZE, Sizes
from dmlpy.description.support import FLOATS, FLOATS_INTEGERS_TO_32, FLOATS_SIGNED_TO_32, SupportRow
from dmlpy.description.tensors import TensorDesc
from dmlpy.messages.problems import DescError
from dmlpy.operators.elementwise.common import ElementWiseDesc

FROM_1_0 = (SupportRow("1_0", dims=4, T=FLOATS), SupportRow("2_0", dims=(4, 5), T=FLOATS), SupportRow("3_0", dims=(1, 8), T=FLOATS))
INTEGERS_FROM_5_1 = (*FROM_1_0, SupportRow("5_1", dims=(1, 8), T=FLOATS_SIGNED_TO_32))


class ActivationDesc(FusableDesc):
    """An activation function. Inside another struct its tensors are null; used alone it needs all of them."""

    fusable: ClassVar[bool] = True
    """Whether DirectML fuses it into other operators and runs it in a recurrent cell."""


class ElementWiseActivationDesc(ElementWiseDesc, ActivationDesc):
    """y = f(x), element by element."""

    in_place: ClassVar[bool] = True

    input_tensor: Annotated[TensorDesc | None, In("*sizes", null_when_fused=True)] = None
    """The input x."""

    output_tensor: Annotated[TensorDesc | None, Out("*sizes", null_when_fused=True)] = None
    """The result y. It may have the memory of the input."""


class LoneActivationDesc(ActivationDesc):
    """y = f(x), an activation that DirectML fuses into no other operator.

    It can be built without tensors like the others, so that an operator that fuses it by mistake can report it.
    """

    fusable: ClassVar[bool] = False

    input_tensor: Annotated[TensorDesc | None, In("*sizes", required=True)] = None
    """The input x."""

    output_tensor: Annotated[TensorDesc | None, Out("*sizes", required=True)] = None
    """The result y."""


class ActivationIdentityDesc(ElementWiseActivationDesc, dml="ACTIVATION_IDENTITY"):
    """DML_ACTIVATION_IDENTITY_OPERATOR_DESC: a copy of each element."""

    formula = "y = x"
    support = FROM_1_0


class ActivationReluDesc(ElementWiseActivationDesc, dml="ACTIVATION_RELU"):
    """DML_ACTIVATION_RELU_OPERATOR_DESC: the positive part."""

    formula = "y = max(0, x)"
    support = INTEGERS_FROM_5_1


class ActivationSigmoidDesc(ElementWiseActivationDesc, dml="ACTIVATION_SIGMOID"):
    """DML_ACTIVATION_SIGMOID_OPERATOR_DESC: the logistic function."""

    formula = "y = 1 / (1 + exp(-x))"
    support = FROM_1_0


class ActivationTanhDesc(ElementWiseActivationDesc, dml="ACTIVATION_TANH"):
    """DML_ACTIVATION_TANH_OPERATOR_DESC: the hyperbolic tangent."""

    formula = "y = tanh(x) = (1 - exp(-2 * x)) / (1 + exp(-2 * x))"
    support = FROM_1_0


class ActivationSoftsignDesc(ElementWiseActivationDesc, dml="ACTIVATION_SOFTSIGN"):
    """DML_ACTIVATION_SOFTSIGN_OPERATOR_DESC: a sigmoid without an exponential.

    DirectML gives 0 for magnitudes above about 8.5e37, whose reciprocal a GPU flushes to 0, as ONNX Runtime's tests record; here the
    formula holds for all numbers.
    """

    formula = "y = x / (1 + |x|)"
    support = FROM_1_0


class ActivationGeluDesc(ElementWiseActivationDesc, dml="ACTIVATION_GELU"):
    """DML_ACTIVATION_GELU_OPERATOR_DESC: x times the normal distribution function of x, exact, not approximated by tanh."""

    formula = "y = 0.5 * x * (1 + erf(x / sqrt(2)))"
    support = (SupportRow("5_1", dims=(1, 8), T=FLOATS),)


class ActivationEluDesc(ElementWiseActivationDesc, dml="ACTIVATION_ELU"):
    """DML_ACTIVATION_ELU_OPERATOR_DESC: x, exponential below 0."""

    formula = "y = x where x >= 0, else alpha * (exp(x) - 1)"
    support = FROM_1_0
    alpha: Float = default(1.0)
    """Minus the limit of y for negative x."""


class ActivationCeluDesc(ElementWiseActivationDesc, dml="ACTIVATION_CELU"):
    """DML_ACTIVATION_CELU_OPERATOR_DESC: x, exponential below 0 and smooth at 0 for every alpha."""

    formula = "y = max(0, x) + min(0, alpha * (exp(x / alpha) - 1))"
    support = (SupportRow("3_0", dims=(1, 8), T=FLOATS),)
    alpha: Float = default(1.0)
    """Minus the limit of y for negative x. It is not 0."""

    @rule("alpha is not 0: it divides")
    def celu_alpha(self, symbols: Sizes, level: FeatureLevel) -> Iterable[Violation]:
        if self.alpha == 0:
            yield Violation("alpha", "0", "any number but 0", ("the function divides by alpha",))


class ActivationLeakyReluDesc(ElementWiseActivationDesc, dml="ACTIVATION_LEAKY_RELU"):
    """DML_ACTIVATION_LEAKY_RELU_OPERATOR_DESC: x, with another slope below 0."""

    formula = "y = x where x >= 0, else alpha * x"
    support = FROM_1_0
    alpha: Float = default(0.01)
    """The slope below 0."""


class ActivationThresholdedReluDesc(ElementWiseActivationDesc, dml="ACTIVATION_THRESHOLDED_RELU"):
    """DML_ACTIVATION_THRESHOLDED_RELU_OPERATOR_DESC: x above a threshold.

    An element equal to alpha gives 0, and so does, by the formula, NaN.
    """

    formula = "y = x where x > alpha, else 0"
    support = FROM_1_0
    alpha: Float = default(1.0)
    """The threshold."""


class ActivationScaledEluDesc(ElementWiseActivationDesc, dml="ACTIVATION_SCALED_ELU"):
    """DML_ACTIVATION_SCALED_ELU_OPERATOR_DESC: x, exponential below 0, and scaled: SELU."""

    formula = "y = gamma * x where x > 0, else gamma * (alpha * exp(x) - alpha)"
    support = FROM_1_0
    alpha: Float = default(1.67326319)
    """Minus the limit of y / gamma for negative x."""

    gamma: Float = default(1.05070102)
    """The scale of the result."""


class ActivationLinearDesc(ElementWiseActivationDesc, dml="ACTIVATION_LINEAR"):
    """DML_ACTIVATION_LINEAR_OPERATOR_DESC: a straight line."""

    formula = "y = alpha * x + beta"
    support = FROM_1_0
    alpha: Float = default(1.0)
    """The slope."""

    beta: Float = default(0.0)
    """The value y where x is 0."""


class ActivationHardSigmoidDesc(ElementWiseActivationDesc, dml="ACTIVATION_HARD_SIGMOID"):
    """DML_ACTIVATION_HARD_SIGMOID_OPERATOR_DESC: a straight line clamped between 0 and 1."""

    formula = "y = max(0, min(alpha * x + beta, 1))"
    support = FROM_1_0
    alpha: Float = default(0.2)
    """The slope."""

    beta: Float = default(0.5)
    """The value y where x is 0."""


class ActivationScaledTanhDesc(ElementWiseActivationDesc, dml="ACTIVATION_SCALED_TANH"):
    """DML_ACTIVATION_SCALED_TANH_OPERATOR_DESC: the hyperbolic tangent, scaled."""

    formula = "y = alpha * tanh(beta * x)"
    support = FROM_1_0
    alpha: Float = default(1.0)
    """The scale of the result."""

    beta: Float = default(0.5)
    """The scale of x."""


class ActivationParametricSoftplusDesc(ElementWiseActivationDesc, dml="ACTIVATION_PARAMETRIC_SOFTPLUS"):
    """DML_ACTIVATION_PARAMETRIC_SOFTPLUS_OPERATOR_DESC: a smooth positive part, scaled."""

    formula = "y = alpha * ln(1 + exp(beta * x))"
    support = FROM_1_0
    alpha: Float = default(1.0)
    """The scale of the result."""

    beta: Float = default(1.0)
    """The scale of x."""


class ActivationSoftplusDesc(ElementWiseActivationDesc, dml="ACTIVATION_SOFTPLUS"):
    """DML_ACTIVATION_SOFTPLUS_OPERATOR_DESC: a smooth positive part."""

    formula = "y = ln(1 + exp(steepness * x)) / steepness"
    support = FROM_1_0
    steepness: Float = default(1.0)
    """How close the function is to max(0, x): at least 1, from feature level 6_4 on above 0."""

    @rule("steepness is at least 1 before 6_4, and positive from 6_4 on")
    def softplus_steepness(self, symbols: Sizes, level: FeatureLevel) -> Iterable[Violation]:
        if not self.steepness > 0:
            yield Violation("steepness", f"{self.steepness:g}", "a number above 0", ("the function divides by steepness",))
        elif self.steepness < 1 and level < FeatureLevel.FL_6_4:
            remedy = "feature level 6_4 takes a steepness below 1"
            yield Violation("steepness", f"{self.steepness:g}", f"at least 1 at feature level {level}", remedy=remedy)


class ActivationShrinkDesc(ElementWiseActivationDesc, dml="ACTIVATION_SHRINK"):
    """DML_ACTIVATION_SHRINK_OPERATOR_DESC: x moved towards 0 by a bias, and 0 near 0.

    Integers are computed as 64-bit floats, the result rounded toward zero and held within the type's range; one that a NaN as bias
    makes no number is the smallest of the type.
    """

    formula = "y = x - bias where x > threshold, x + bias where x < -threshold, else 0"
    support = (
        SupportRow("2_0", dims=(4, 5), T=FLOATS),
        SupportRow("3_0", dims=(1, 8), T=FLOATS),
        SupportRow("5_1", dims=(1, 8), T=FLOATS_INTEGERS_TO_32),
    )
    bias: Float = default(0.0)
    """The number that moves x towards 0."""

    threshold: Float = default(0.5)
    """The bound: elements from -threshold to threshold give 0."""


class ActivationSwishDesc(ElementWiseDesc, LoneActivationDesc, dml="ACTIVATION_SWISH"):
    """DML_ACTIVATION_SWISH_OPERATOR_DESC: x times a sigmoid of it."""

    formula = "y = x * sigmoid(sigmoid_input_scale * x) = x / (1 + exp(-sigmoid_input_scale * x))"
    support = (SupportRow("6_2", dims=(1, 8), T=FLOATS),)
    sigmoid_input_scale: Float = default(1.0)
    """The scale of x inside the sigmoid."""


class ActivationHardSwishDesc(ElementWiseDesc, LoneActivationDesc, dml="ACTIVATION_HARD_SWISH"):
    """DML_ACTIVATION_HARD_SWISH_OPERATOR_DESC: x times HARD_SIGMOID of it."""

    formula = "y = x * max(0, min(alpha * x + beta, 1))"
    support = (SupportRow("6_2", dims=(1, 8), T=FLOATS),)
    alpha: Float = default(0.2)
    """The slope of the factor."""

    beta: Float = default(0.5)
    """The factor where x is 0."""


class ActivationParameterizedReluDesc(ElementWiseDesc, ActivationDesc, dml="ACTIVATION_PARAMETERIZED_RELU"):
    """DML_ACTIVATION_PARAMETERIZED_RELU_OPERATOR_DESC: x, with a separate slope for each element below 0.

    Integers are multiplied modulo two to the number of their bits. In place the output has the memory of either input; DirectML's page
    names input_tensor only.
    """

    formula = "y = x where x >= 0, else slope * x"
    fusable = False
    in_place = True
    support = INTEGERS_FROM_5_1

    input_tensor: Annotated[TensorDesc | None, In("*sizes", required=True)] = None
    """The input x."""

    slope_tensor: Annotated[TensorDesc | None, In("*sizes", required=True)] = None
    """The slope below 0. Strides of 0 repeat it."""

    output_tensor: Annotated[TensorDesc | None, Out("*sizes", required=True)] = None
    """The result y. It may have the memory of either input."""


class ActivationReluGradDesc(ElementWiseDesc, ActivationDesc, dml="ACTIVATION_RELU_GRAD"):
    """DML_ACTIVATION_RELU_GRAD_OPERATOR_DESC: the gradient of RELU. Where x is 0 or NaN it is 0."""

    formula = "dx = dy where x > 0, else 0"
    fusable = False
    support = (
        SupportRow("3_0", dims=(1, 8), T=FLOATS),
        SupportRow("4_0", dims=(1, 8), T=FLOATS),
        SupportRow("5_1", dims=(1, 8), T=FLOATS_SIGNED_TO_32),
    )

    input_tensor: Annotated[TensorDesc | None, In("*sizes", required=True)] = None
    """The input x of the forward operator."""

    input_gradient_tensor: Annotated[TensorDesc | None, In("*sizes", required=True)] = None
    """The upstream gradient dy."""

    output_gradient_tensor: Annotated[TensorDesc | None, Out("*sizes", required=True)] = None
    """The gradient dx of the input."""


class RowActivationDesc(LoneActivationDesc):
    """A function of whole rows: the tensor is read as a matrix whose rows are its last dimension."""

    support = FROM_1_0

    @rule("without its leading ones the tensor has at most 2 dimensions")
    def effective_rank(self, symbols: Sizes, level: FeatureLevel) -> Iterable[Violation]:
        tensor = self.input_tensor
        sizes = () if tensor is None else tensor.sizes
        leading = next((axis for axis, size in enumerate(sizes) if size != 1), len(sizes))
        if tensor is None or len(sizes) - leading <= 2:
            return
        actual = f"{list(sizes)}, {len(sizes) - leading} dimensions without the leading ones"
        remedy = f"from feature level 5_1 on {self.type_name}1 takes a list of axes"
        rows = math.prod(sizes[:-1])
        if 1 <= rows <= MAX_SIZE and tensor.is_packed and (self.output_tensor is None or self.output_tensor.is_packed):
            same = [*[1] * (len(sizes) - 2), rows, sizes[-1]]
            remedy = f"along the last dimension, sizes {same} of input and output are the same; {remedy}"
        yield Violation("input_tensor.sizes", actual, "at most 2", remedy=remedy)


class ActivationSoftmaxDesc(RowActivationDesc, dml="ACTIVATION_SOFTMAX"):
    """DML_ACTIVATION_SOFTMAX_OPERATOR_DESC: the softmax of each row, whose elements sum up to 1."""

    formula = "y[i] = exp(x[i]) / (the sum of exp(x[k]) over the row)"


class ActivationLogSoftmaxDesc(RowActivationDesc, dml="ACTIVATION_LOG_SOFTMAX"):
    """DML_ACTIVATION_LOG_SOFTMAX_OPERATOR_DESC: the natural logarithm of SOFTMAX."""

    formula = "y[i] = x[i] - ln(the sum of exp(x[k]) over the row)"


class ActivationHardmaxDesc(RowActivationDesc, dml="ACTIVATION_HARDMAX"):
    """DML_ACTIVATION_HARDMAX_OPERATOR_DESC: 1 at the largest element of each row, 0 elsewhere."""

    formula = "y[i] = 1 where x[i] is the first largest element of the row, else 0"


class AxesActivationDesc(LoneActivationDesc):
    """A function of groups of elements: those that differ only along the listed axes."""

    c_counts: ClassVar[Mapping[str, str]] = {"AxisCount": "axes"}
    support = (SupportRow("5_1", dims=(1, 8), T=FLOATS),)
    axes: Annotated[Uints, Limits(axis_of="sizes")]
    """The dimensions that a group extends along. With the last one alone, groups are rows. A repeated one counts once."""


class ActivationSoftmax1Desc(AxesActivationDesc, dml="ACTIVATION_SOFTMAX1"):
    """DML_ACTIVATION_SOFTMAX1_OPERATOR_DESC: the softmax of each group, whose elements sum up to 1."""

    formula = "y[i] = exp(x[i]) / (the sum of exp(x[k]) over the group)"


class ActivationLogSoftmax1Desc(AxesActivationDesc, dml="ACTIVATION_LOG_SOFTMAX1"):
    """DML_ACTIVATION_LOG_SOFTMAX1_OPERATOR_DESC: the natural logarithm of SOFTMAX1."""

    formula = "y[i] = x[i] - ln(the sum of exp(x[k]) over the group)"


class ActivationHardmax1Desc(AxesActivationDesc, dml="ACTIVATION_HARDMAX1"):
    """DML_ACTIVATION_HARDMAX1_OPERATOR_DESC: 1 at the largest element of each group, 0 elsewhere."""

    formula = "y[i] = 1 where x[i] is the first largest element of the group, in the order of its indices, else 0"


def _as_activation(value: Any, path: str = "") -> ActivationDesc:
    """Converts any form of an activation to its desc.

    Raises:
        DescError: the struct that a mapping holds is wrong; places begin with `path`.
        ValueError: it is not an activation.
    """
    try:
        desc = ActivationDesc.from_dict(value) if isinstance(value, Mapping) else value
    except DescError as error:
        raise DescError(error.subject, [problem.under(path) for problem in error.problems] if path else error.problems) from None
    if isinstance(desc, type) and issubclass(desc, ActivationDesc):
        raise ValueError(f"{'activation descs' if path else 'an activation desc'}: call the class, {desc.__name__}()")
    if not isinstance(desc, ActivationDesc):
        one = 'an activation desc, like ActivationReluDesc() or {"Type": "DML_OPERATOR_ACTIVATION_RELU"}'
        raise ValueError(f"a sequence of activation descs (found {brief(value)}){_call_of(value)}" if path else one + _call_of(value))
    return desc


def _call_of(name: Any) -> str:
    """The desc of a named activation, for the end of a message: `: write ActivationTanhDesc()`."""
    if not isinstance(name, str):
        return ""
    short = name.upper().removeprefix(C_PREFIX).removeprefix("ACTIVATION_")
    kind = OPERATORS.get(f"{C_PREFIX}ACTIVATION_{short}")
    return f": write {kind.__name__}()" if kind else ""


def _as_activations(value: Any) -> tuple[ActivationDesc, ...]:
    if isinstance(value, ActivationDesc | OperatorDesc) or not has_entries(value):
        raise ValueError("a sequence of activation descs")
    return tuple(_as_activation(item, f"[{index}]") for index, item in enumerate(entries(value)))


def _as_function(value: Any) -> FusableDesc:
    """Converts any form of a fused function to its desc; raises as `_as_activation`."""
    if isinstance(value, Mapping):
        return FusableDesc.from_dict(value)
    return value if isinstance(value, FusableDesc) else _as_activation(value)


def unfusable(path: str, activation: ActivationDesc | None, why: str) -> Iterable[Violation]:
    """Yields a violation if DirectML does not fuse the activation at `path` into the operator."""
    if activation is not None and not activation.fusable:
        yield Violation(path, activation.type_name, "an element-wise activation that DirectML fuses", (why,))


def unfusable_function(path: str, function: FusableDesc | None, level: FeatureLevel, also: Mapping[str, str]) -> Iterable[Violation]:
    """Checks as `unfusable` does, for an operator that fuses more functions: `also` maps their short names to the level of each."""
    if function is None or (isinstance(function, ActivationDesc) and function.fusable):
        return
    since = also.get(function.short_name())
    if since is None or FeatureLevel.parse(since) > level:
        more = "".join(f", or from feature level {brought} on {name}" for name, brought in also.items())
        remedy = None if since is None else f"feature level {since} takes it"
        yield Violation(path, function.type_name, f"an element-wise activation that DirectML fuses{more}", remedy=remedy)


if TYPE_CHECKING:
    from dmlpy.description.coercion import Member

    Activations = Member[tuple[ActivationDesc, ...], Iterable[ActivationDesc]]
    FusedActivation = Member[ActivationDesc | None, ActivationDesc | None]
    FusedFunction = Member[FusableDesc | None, FusableDesc | None]
else:
    Activations = Annotated[tuple[ActivationDesc, ...], read_by(_as_activations)]
    FusedActivation = Annotated[ActivationDesc | None, read_by(_as_activation, optional=True)]
    FusedFunction = Annotated[FusableDesc | None, read_by(_as_function, optional=True)]
