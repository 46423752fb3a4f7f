"""Runs operators with Microsoft's pydirectml in place of dmlpy's own calls: a third implementation, to judge results that differ.

pydirectml composes expressions of DirectMLX, so it has functions for some operators only. Outputs are packed, and as DirectMLX infers them.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.description.descs import OperatorDesc
from dmlpy.description.enums import DmlEnum, PaddingMode
from dmlpy.description.value_structs import Size2D
from dmlpy.messages.problems import DmlError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import ModuleType

    from dmlpy.description.tensors import TensorDesc

_CALLS = {
    "CONVOLUTION": "convolution input filter bias mode direction strides dilations start_padding end_padding output_padding group_count"
    " fused_activation",
    "UPSAMPLE_2D": "up_sample_2d input scale_size interpolation_mode",
    "ACTIVATION_IDENTITY": "activation_identity input",
    "ACTIVATION_LINEAR": "activation_linear input alpha beta",
    "ACTIVATION_RELU": "activation_relu input",
    "ACTIVATION_SIGMOID": "activation_sigmoid input",
    "ACTIVATION_SOFTMAX": "activation_soft_max input",
    "ACTIVATION_TANH": "activation_tanh input",
    "ELEMENT_WISE_ADD1": "add a b fused_activation",
    "ELEMENT_WISE_SUBTRACT": "subtract a b",
    "ELEMENT_WISE_MULTIPLY": "multiply a b",
    "ELEMENT_WISE_DIVIDE": "divide a b",
    "PADDING": "padding input padding_mode padding_value start_padding end_padding",
    "MEAN_VARIANCE_NORMALIZATION1": "mean_variance_normalization input scale bias axes normalize_variance epsilon fused_activation",
    "SLICE1": "slice input input_window_offsets input_window_sizes input_window_strides",
    "VALUE_SCALE_2D": "value_scale_2d input scale bias",
    "BATCH_NORMALIZATION": "batch_normalization input mean variance scale bias spatial epsilon fused_activation",
    "LOCAL_RESPONSE_NORMALIZATION": "local_response_normalization input cross_channel local_size alpha beta bias",
    "GEMM": "gemm a b c trans_a trans_b alpha beta fused_activation",
    "AVERAGE_POOLING": "average_pooling input strides window_sizes=window_size start_padding end_padding include_padding",
    "MAX_POOLING2": "max_pooling input window_sizes=window_size strides start_padding end_padding dilations",
    "JOIN": "join input=input_tensors axis",
    "GRU": "gru input weight recurrence bias hidden_init sequence_lengths activation_descs direction linear_before_reset",
    "GATHER": "gather input indices axis index_dimensions",
}
"""The function for an operator and its arguments, each with the member that it stands for: `NAME`, `NAME_tensor`, or as it says."""
_ACTIVATIONS = frozenset(
    (
        "ACTIVATION_ELU",
        "ACTIVATION_HARDMAX",
        "ACTIVATION_HARD_SIGMOID",
        "ACTIVATION_IDENTITY",
        "ACTIVATION_LEAKY_RELU",
        "ACTIVATION_LINEAR",
        "ACTIVATION_LOG_SOFTMAX",
        "ACTIVATION_PARAMETRIC_SOFTPLUS",
        "ACTIVATION_RELU",
        "ACTIVATION_SCALED_ELU",
        "ACTIVATION_SCALED_TANH",
        "ACTIVATION_SHRINK",
        "ACTIVATION_SIGMOID",
        "ACTIVATION_SOFTMAX",
        "ACTIVATION_SOFTPLUS",
        "ACTIVATION_SOFTSIGN",
        "ACTIVATION_TANH",
        "ACTIVATION_THRESHOLDED_RELU",
    )
)
"""The activations that pydirectml's OperatorType has."""
_LATER_MODES = (PaddingMode.SYMMETRIC, PaddingMode.WRAP)
"""Enumerators that pydirectml lacks."""
_FLOAT_BYTES = 4
"""pydirectml takes and gives all data as arrays of float32."""


def expresses(desc: OperatorDesc) -> bool:
    """Whether pydirectml has a function that makes this desc, with the outputs that DirectMLX infers."""
    outputs = {slot.field.name: slot.tensor for slot in desc.output_slots() if slot.tensor is not None}
    if desc.short_name() not in _CALLS or not all(_has(getattr(desc, name)) for name in desc.attribute_names()):
        return False
    if any(tensor.strides is not None for tensor in outputs.values()) or (desc.short_name() != "GRU" and "output_tensor" not in outputs):
        return False
    inferred = desc.replace(**dict.fromkeys(outputs)).with_outputs(*outputs).tensors()
    return all((inferred[name].sizes, inferred[name].data_type) == (tensor.sizes, tensor.data_type) for name, tensor in outputs.items())


def _has(value: Any) -> bool:
    """Whether pydirectml has the enumerators and activations of an attribute."""
    if isinstance(value, tuple):
        return bool(value) and all(_has(item) for item in value)  # an empty list stands for defaults, such as the spatial axes
    if isinstance(value, PaddingMode):
        return value not in _LATER_MODES
    return not isinstance(value, OperatorDesc) or value.short_name() in _ACTIVATIONS


@dataclass(frozen=True)
class Pydirectml:
    """The installed module and a device of it.

    Attributes:
        module: pydirectml.
        device: its device.
    """

    module: ModuleType
    device: Any

    @classmethod
    def load(cls, *, hardware: bool, debug: bool) -> Pydirectml:
        """Imports pydirectml and opens a device.

        Args:
            hardware: the first GPU in place of the software adapter.
            debug: the debug layer, where there is one.

        Raises:
            DmlError: pydirectml is not installed, or it finds no device.
        """
        try:
            module = importlib.import_module("pydirectml")
        except ImportError as error:
            reason = "is not installed" if error.name == "pydirectml" else f"cannot be imported ({error})"
            raise DmlError(f"pydirectml {reason}: it is built from the folder Python of Microsoft's repository DirectML") from error
        try:
            return cls(module, module.Device(hardware, debug))
        except Exception as error:  # pybind11 raises RuntimeError, or what the C++ exception is registered as
            raise DmlError(f"pydirectml opens no device: {error}") from error

    def run(self, desc: OperatorDesc, inputs: Sequence[bytes | None]) -> list[bytes | None]:
        """Runs an operator once; arguments and result as for `execution.run`.

        Raises:
            DmlError: pydirectml cannot express the desc, refuses it, or infers other outputs.
        """
        try:
            return self._run(desc, inputs)
        except DmlError:
            raise
        except Exception as error:
            raise DmlError(f"pydirectml raised {type(error).__name__}: {error}") from error

    def _run(self, desc: OperatorDesc, inputs: Sequence[bytes | None]) -> list[bytes | None]:
        builder = self.module.GraphBuilder(self.device)
        operands: dict[str, Any] = {}
        bindings = list[Any]()
        for slot, data in zip(desc.input_slots(), inputs, strict=True):
            if slot.tensor is None or data is None:
                continue
            operand = self.module.input_tensor(builder, len(bindings), self._tensor(slot.tensor))
            operands[slot.place] = operand
            bindings.append(self.module.Binding(operand, _as_floats(data, slot.tensor.size_in_bytes)))
        expressions = self._expressions(desc, operands)
        outputs = list[Any]()
        for slot, expression in zip(desc.output_slots(), expressions, strict=True):
            if slot.tensor is not None:
                _check_output(slot.place, expression.get_output_desc(), slot.tensor, self._enumerator(slot.tensor.data_type))
                outputs.append(self._as_floats_of(expression, slot.tensor))
        model = builder.build(self.module.ExecutionFlags.NONE, outputs)
        results = iter(self.device.compute(model, bindings, outputs))
        return [
            None if slot.tensor is None else np.array(next(results)).tobytes()[: slot.tensor.size_in_bytes] for slot in desc.output_slots()
        ]

    def _expressions(self, desc: OperatorDesc, operands: dict[str, Any]) -> list[Any]:
        """The expressions of an operator's outputs."""
        name, *arguments = _CALLS[desc.short_name()].split()
        keywords = {}
        for argument in arguments:
            parameter, _, member = argument.partition("=")
            member = member or (f"{parameter}_tensor" if hasattr(desc, f"{parameter}_tensor") else parameter)
            keywords[parameter] = self._argument(desc, member, operands)
        function = getattr(self.module, name)
        if name == "convolution":
            return [function(**keywords, output_sizes=list(desc.tensors()["output_tensor"].sizes))]
        if name == "max_pooling":
            pooled = function(**keywords, output_indices="output_indices_tensor" in desc.tensors())
            return [pooled.values, pooled.indices]
        if name == "gru":
            wanted = [slot.tensor is not None for slot in desc.output_slots()]
            options = self.module.OutputOptions
            state = function(**keywords, output_options=options.Both if all(wanted) else options.Sequence if wanted[0] else options.Single)
            return [state.sequence, state.single]
        return [function(**keywords)]

    def _argument(self, desc: OperatorDesc, member: str, operands: dict[str, Any]) -> Any:
        if member == "input_tensors":
            return [operands[slot.place] for slot in desc.input_slots()]
        if member.endswith("_tensor"):
            return operands.get(member)
        return self._value(getattr(desc, member), fuses=member == "fused_activation")

    def _value(self, value: Any, *, fuses: bool = False) -> Any:
        """An attribute as pydirectml takes it."""
        if fuses and value is None:
            return self.module.FusedActivation(self.module.OperatorType.INVALID)
        if isinstance(value, OperatorDesc):
            activation = getattr(self.module.OperatorType, value.short_name())
            return self.module.FusedActivation(activation, *(float(getattr(value, name)) for name in value.attribute_names()))
        if isinstance(value, DmlEnum):
            return self._enumerator(value)
        if isinstance(value, Size2D):
            return self.module.Size2D(value.width, value.height)
        return [self._value(item) for item in value] if isinstance(value, tuple) else value

    def _enumerator(self, value: DmlEnum) -> Any:
        renamed = {"DataType": "TensorDataType", "RecurrentDirection": "RecurrentNetworkDirection"}
        kind = type(value).__name__
        return getattr(getattr(self.module, renamed.get(kind, kind)), value.name)

    def _tensor(self, tensor: TensorDesc) -> Any:
        strides = None if tensor.strides is None else list(tensor.strides)
        alignment = tensor.guaranteed_base_offset_alignment
        flags = self.module.TensorFlags.NONE
        return self.module.TensorDesc(
            self._enumerator(tensor.data_type), flags, list(tensor.sizes), strides, tensor.size_in_bytes, alignment
        )

    def _as_floats_of(self, expression: Any, tensor: TensorDesc) -> Any:
        """An output of elements of 4 bytes: pydirectml shows every output as such, and would read past the end of smaller ones."""
        if tensor.data_type.bits == 8 * _FLOAT_BYTES:
            return expression
        count = tensor.size_in_bytes // _FLOAT_BYTES
        return self.module.reinterpret(input=expression, new_type=self.module.TensorDataType.FLOAT32, new_size=[count], new_strides=None)


def _as_floats(data: bytes, size: int) -> np.ndarray[Any, np.dtype[np.float32]]:
    """The memory of a tensor of this size in bytes as float32, with zeros at the end."""
    return np.frombuffer(data.ljust(size, b"\0"), np.float32)


def _check_output(place: str, inferred: Any, wanted: TensorDesc, data_type: Any) -> None:
    if (list(inferred.sizes), inferred.data_type) != (list(wanted.sizes), data_type):
        raise DmlError(f"pydirectml infers {place} as {inferred.data_type} {list(inferred.sizes)}, not {wanted.summary()}")
