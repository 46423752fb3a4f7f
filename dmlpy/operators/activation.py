"""The activation operators: functions of one tensor, alone or fused into another operator."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from pydantic import BeforeValidator

from dmlpy.descs import Breach, In, OperatorDesc, Out, rule
from dmlpy.enums import FeatureLevel
from dmlpy.problems import DescError
from dmlpy.sizes import Sizes
from dmlpy.structs import Float, Uints, brief, default
from dmlpy.support import FLOATS, FLOATS_INTEGERS_TO_32, FLOATS_SIGNED_TO_32, Since
from dmlpy.tensors import TensorDesc

FROM_1_0 = (Since("1_0", dims=4, T=FLOATS), Since("2_0", dims=(4, 5), T=FLOATS), Since("3_0", dims=(1, 8), T=FLOATS))
INTEGERS_FROM_5_1 = (*FROM_1_0, Since("5_1", dims=(1, 8), T=FLOATS_SIGNED_TO_32))


class ActivationDesc(OperatorDesc):
    """An activation function. Inside another struct its tensors are null; on its own it needs both."""

    fusable: ClassVar[bool] = True
    """Whether DirectML fuses it into other operators and runs it in a recurrent cell."""


class ElementWiseActivationDesc(ActivationDesc):
    """y = f(x), element by element."""

    in_place: ClassVar[bool] = True

    input_tensor: Annotated[TensorDesc | None, In("*sizes", null_when_fused=True)] = None
    output_tensor: Annotated[TensorDesc | None, Out("*sizes", null_when_fused=True)] = None


class ActivationIdentityDesc(ElementWiseActivationDesc, dml="ACTIVATION_IDENTITY"):
    """y = x."""

    support = FROM_1_0


class ActivationReluDesc(ElementWiseActivationDesc, dml="ACTIVATION_RELU"):
    """y = max(0, x); integers too."""

    support = INTEGERS_FROM_5_1


class ActivationSigmoidDesc(ElementWiseActivationDesc, dml="ACTIVATION_SIGMOID"):
    """y = 1 / (1 + exp(-x))."""

    support = FROM_1_0


class ActivationTanhDesc(ElementWiseActivationDesc, dml="ACTIVATION_TANH"):
    """y = tanh(x)."""

    support = FROM_1_0


class ActivationSoftsignDesc(ElementWiseActivationDesc, dml="ACTIVATION_SOFTSIGN"):
    """y = x / (1 + |x|)."""

    support = FROM_1_0


class ActivationGeluDesc(ElementWiseActivationDesc, dml="ACTIVATION_GELU"):
    """y = 0.5 * x * (1 + erf(x / sqrt(2)))."""

    support = (Since("5_1", dims=(1, 8), T=FLOATS),)


class ActivationEluDesc(ElementWiseActivationDesc, dml="ACTIVATION_ELU"):
    """y = x where x >= 0, else alpha * (exp(x) - 1)."""

    support = FROM_1_0
    alpha: Float = default(1.0)


class ActivationCeluDesc(ElementWiseActivationDesc, dml="ACTIVATION_CELU"):
    """y = max(0, x) + min(0, alpha * (exp(x / alpha) - 1)). alpha may not be 0."""

    support = (Since("3_0", dims=(1, 8), T=FLOATS),)
    alpha: Float = default(1.0)

    @rule("alpha is not 0: it divides")
    def celu_alpha(self, known: Sizes, level: FeatureLevel) -> Iterable[Breach]:
        if self.alpha == 0:
            yield Breach("alpha", "0", "any number but 0", ("the function divides by alpha",))


class ActivationLeakyReluDesc(ElementWiseActivationDesc, dml="ACTIVATION_LEAKY_RELU"):
    """y = x where x >= 0, else alpha * x."""

    support = FROM_1_0
    alpha: Float = default(0.01)


class ActivationThresholdedReluDesc(ElementWiseActivationDesc, dml="ACTIVATION_THRESHOLDED_RELU"):
    """y = x where x > alpha, else 0."""

    support = FROM_1_0
    alpha: Float = default(1.0)


class ActivationScaledEluDesc(ElementWiseActivationDesc, dml="ACTIVATION_SCALED_ELU"):
    """y = gamma * x where x > 0, else gamma * (alpha * exp(x) - alpha)."""

    support = FROM_1_0
    alpha: Float = default(1.67326319)
    gamma: Float = default(1.05070102)


class ActivationLinearDesc(ElementWiseActivationDesc, dml="ACTIVATION_LINEAR"):
    """y = alpha * x + beta."""

    support = FROM_1_0
    alpha: Float = default(1.0)
    beta: Float = default(0.0)


class ActivationHardSigmoidDesc(ElementWiseActivationDesc, dml="ACTIVATION_HARD_SIGMOID"):
    """y = max(0, min(alpha * x + beta, 1))."""

    support = FROM_1_0
    alpha: Float = default(0.2)
    beta: Float = default(0.5)


class ActivationScaledTanhDesc(ElementWiseActivationDesc, dml="ACTIVATION_SCALED_TANH"):
    """y = alpha * tanh(beta * x)."""

    support = FROM_1_0
    alpha: Float = default(1.0)
    beta: Float = default(0.5)


class ActivationParametricSoftplusDesc(ElementWiseActivationDesc, dml="ACTIVATION_PARAMETRIC_SOFTPLUS"):
    """y = alpha * ln(1 + exp(beta * x))."""

    support = FROM_1_0
    alpha: Float = default(1.0)
    beta: Float = default(1.0)


class ActivationSoftplusDesc(ElementWiseActivationDesc, dml="ACTIVATION_SOFTPLUS"):
    """y = ln(1 + exp(steepness * x)) / steepness."""

    support = FROM_1_0
    steepness: Float = default(1.0)

    @rule("steepness is at least 1 before 6_4, and positive from 6_4 on")
    def softplus_steepness(self, known: Sizes, level: FeatureLevel) -> Iterable[Breach]:
        if not self.steepness > 0:
            yield Breach("steepness", f"{self.steepness:g}", "a number above 0", ("the function divides by it",))
        elif self.steepness < 1 and level < FeatureLevel.FL_6_4:
            remedy = "feature level 6_4 takes a steepness below 1"
            yield Breach("steepness", f"{self.steepness:g}", f"at least 1 at feature level {level}", remedy=remedy)


class ActivationShrinkDesc(ElementWiseActivationDesc, dml="ACTIVATION_SHRINK"):
    """y = x - bias where x > threshold, x + bias where x < -threshold, else 0.

    Integers are computed as 64-bit floats, the result rounded toward zero and held within the type's range; one that a NaN as bias
    makes no number is the smallest of the type.
    """

    support = (
        Since("2_0", dims=(4, 5), T=FLOATS),
        Since("3_0", dims=(1, 8), T=FLOATS),
        Since("5_1", dims=(1, 8), T=FLOATS_INTEGERS_TO_32),
    )
    bias: Float = default(0.0)
    threshold: Float = default(0.5)


class ActivationSwishDesc(ElementWiseActivationDesc, dml="ACTIVATION_SWISH"):
    """y = x * sigmoid(sigmoid_input_scale * x)."""

    fusable = False
    in_place = False
    support = (Since("6_2", dims=(1, 8), T=FLOATS),)
    sigmoid_input_scale: Float = default(1.0)


class ActivationHardSwishDesc(ElementWiseActivationDesc, dml="ACTIVATION_HARD_SWISH"):
    """y = x * max(0, min(alpha * x + beta, 1))."""

    fusable = False
    in_place = False
    support = (Since("6_2", dims=(1, 8), T=FLOATS),)
    alpha: Float = default(0.2)
    beta: Float = default(0.5)


class ActivationParameterizedReluDesc(ActivationDesc, dml="ACTIVATION_PARAMETERIZED_RELU"):
    """y = x where x >= 0, else slope * x, with a slope for each element; a shared slope has strides of 0.

    Integers are multiplied modulo two to the number of their bits. In place the output has the memory of either input; DirectML's page
    names input_tensor only.
    """

    fusable = False
    in_place = True
    support = INTEGERS_FROM_5_1

    input_tensor: Annotated[TensorDesc | None, In("*sizes", null_when_fused=True)] = None
    slope_tensor: Annotated[TensorDesc | None, In("*sizes", null_when_fused=True)] = None
    output_tensor: Annotated[TensorDesc | None, Out("*sizes", null_when_fused=True)] = None


class ActivationReluGradDesc(ActivationDesc, dml="ACTIVATION_RELU_GRAD"):
    """dx = dy where x > 0, else 0."""

    fusable = False
    support = (
        Since("3_0", dims=(1, 8), T=FLOATS),
        Since("4_0", dims=(1, 8), T=FLOATS),
        Since("5_1", dims=(1, 8), T=FLOATS_SIGNED_TO_32),
    )

    input_tensor: Annotated[TensorDesc | None, In("*sizes", null_when_fused=True)] = None
    input_gradient_tensor: Annotated[TensorDesc | None, In("*sizes", null_when_fused=True)] = None
    output_gradient_tensor: Annotated[TensorDesc | None, Out("*sizes", null_when_fused=True)] = None


class RowActivationDesc(ElementWiseActivationDesc):
    """A function of whole rows: the tensor is read as a matrix whose rows are its last dimension."""

    fusable = False
    in_place = False
    support = FROM_1_0

    @rule("without its leading ones the tensor has at most 2 dimensions")
    def effective_rank(self, known: Sizes, level: FeatureLevel) -> Iterable[Breach]:
        sizes = () if self.input_tensor is None else self.input_tensor.sizes
        leading = next((axis for axis, size in enumerate(sizes) if size != 1), len(sizes))
        if len(sizes) - leading > 2:
            found = f"{list(sizes)}, {len(sizes) - leading} dimensions without the leading ones"
            yield Breach("input_tensor.sizes", found, "at most 2", remedy=f"the operator {self.type_name}1 takes a list of axes")


class ActivationSoftmaxDesc(RowActivationDesc, dml="ACTIVATION_SOFTMAX"):
    """y[i] = exp(x[i]) / sum(exp(x)), along the last dimension."""


class ActivationLogSoftmaxDesc(RowActivationDesc, dml="ACTIVATION_LOG_SOFTMAX"):
    """y[i] = x[i] - ln(sum(exp(x))), along the last dimension."""


class ActivationHardmaxDesc(RowActivationDesc, dml="ACTIVATION_HARDMAX"):
    """1 at the first largest value of each row, 0 elsewhere."""


class AxesActivationDesc(ElementWiseActivationDesc):
    """A function of groups of elements: those that differ only along the listed axes."""

    fusable = False
    in_place = False
    c_counts: ClassVar[Mapping[str, str]] = {"AxisCount": "axes"}
    support = (Since("5_1", dims=(1, 8), T=FLOATS),)
    axes: Uints

    @rule("each axis is one of the tensor's dimensions")
    def axes_range(self, known: Sizes, level: FeatureLevel) -> Iterable[Breach]:
        if self.input_tensor is None:
            return  # that is a problem of its own
        count = len(self.input_tensor.sizes)
        for index, axis in enumerate(self.axes):
            if not 0 <= axis < count:
                yield Breach(f"axes[{index}]", str(axis), f"0 to {count - 1}", (f"input_tensor has {count} dimensions",))


class ActivationSoftmax1Desc(AxesActivationDesc, dml="ACTIVATION_SOFTMAX1"):
    """y[i] = exp(x[i]) / sum(exp(x)), over each group."""


class ActivationLogSoftmax1Desc(AxesActivationDesc, dml="ACTIVATION_LOG_SOFTMAX1"):
    """y[i] = x[i] - ln(sum(exp(x))), over each group."""


class ActivationHardmax1Desc(AxesActivationDesc, dml="ACTIVATION_HARDMAX1"):
    """1 at the first largest value of each group, 0 elsewhere."""


def _as_activation(value: Any, path: str = "") -> ActivationDesc:
    """An activation desc of any of its forms.

    Raises:
        DescError: the struct that a mapping holds is wrong; places begin with `path`.
        ValueError: it is no activation.
    """
    try:
        desc = ActivationDesc.from_dict(value) if isinstance(value, Mapping) else value
    except DescError as error:
        raise DescError(error.subject, [problem.under(path) for problem in error.problems] if path else error.problems) from None
    if isinstance(desc, type) and issubclass(desc, ActivationDesc):
        raise ValueError(f"{'activation descs' if path else 'an activation desc'}: call the class, {desc.__name__}()")
    if not isinstance(desc, ActivationDesc):
        one = 'an activation desc, like ActivationReluDesc() or {"Type": "DML_OPERATOR_ACTIVATION_RELU"}'
        raise ValueError(f"a sequence of activation descs (found {brief(value)})" if path else one)
    return desc


def _as_activations(value: Any) -> tuple[ActivationDesc, ...]:
    if isinstance(value, ActivationDesc | OperatorDesc | str | Mapping) or not isinstance(value, Iterable):
        raise ValueError("a sequence of activation descs")
    return tuple(_as_activation(item, f"[{index}]") for index, item in enumerate(value))


def unfusable(path: str, activation: ActivationDesc | None, why: str) -> Iterable[Breach]:
    """The breach of an operator that fuses the activation at `path`, if DirectML does not fuse it."""
    if activation is not None and not activation.fusable:
        yield Breach(path, activation.type_name, "an element-wise activation that DirectML fuses", (why,))


if TYPE_CHECKING:
    from dmlpy.structs import Member

    Activations = Member[tuple[ActivationDesc, ...], Iterable[ActivationDesc]]
    FusedActivation = Member[ActivationDesc | None, ActivationDesc | None]
else:
    Activations = Annotated[tuple[ActivationDesc, ...], BeforeValidator(_as_activations)]
    FusedActivation = Annotated[ActivationDesc | None, BeforeValidator(lambda value: None if value is None else _as_activation(value))]
