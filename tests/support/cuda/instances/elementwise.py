"""Instances of the element engine's kernel: of every operator that runs by it, with each data type that it takes."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import dmlpy as dml
from dmlpy.description.registry import OPERATORS
from dmlpy.devices.cuda.common.element_engine import ElementsPlan
from dmlpy.devices.cuda.device import CudaDevice
from dmlpy.devices.cuda.kernels import Kernel
from dmlpy.devices.cuda.plans import Target, plan_of
from dmlpy.inspection.samples import sample
from dmlpy.operators.quantized.linear import QuantizationDesc
from tests.support.cuda.plan_kernels import H100, RecordingLibrary
from tests.support.operators.operator_types import of_all_types


@cache
def engine_operators() -> tuple[type[dml.OperatorDesc], ...]:
    """Those whose samples run by the element engine alone."""
    target = Target(RecordingLibrary(H100))
    return tuple(
        kind
        for kind in OPERATORS.values()
        if CudaDevice.runs(kind) and not kind.is_extension and isinstance(plan_of(sample(kind), target), ElementsPlan)
    )


def _in_odd_rows(desc: dml.OperatorDesc) -> dml.OperatorDesc:
    """A quantization of 5 rows of 7 elements each, with a scale for each row."""
    assert isinstance(desc, QuantizationDesc)
    assert desc.output_tensor is not None
    rows = [tensor.replace(sizes=[5, 1], strides=None) for tensor in desc.quantization_tensors]
    whole = {"input_tensor": desc.input_tensor, "output_tensor": desc.output_tensor}
    return desc.replace(quantization_tensors=rows, **{name: tensor.replace(sizes=[5, 7], strides=None) for name, tensor in whole.items()})


def _across() -> Iterator[dml.OperatorDesc]:
    """Inputs that lie across the output: of each size of elements, as one of two inputs, and with elements that are numbered."""
    for data_type in ("UINT8", "FLOAT16", "FLOAT32", "INT64"):
        tensor = dml.TensorDesc(data_type=data_type, sizes=[3, 40, 50])
        across = tensor.replace(strides=[2000, 1, 40])
        yield dml.ElementWiseIdentityDesc(input_tensor=across, output_tensor=tensor)
        yield dml.CastDesc(input_tensor=across, output_tensor=tensor.replace(data_type="INT32"))
    floats = dml.TensorDesc(data_type="FLOAT32", sizes=[3, 40, 50])
    across, apart = floats.replace(strides=[2000, 1, 40]), floats.replace(strides=[1, 3, 120])
    for a in (floats, apart):
        yield dml.ElementWiseAddDesc(a_tensor=a, b_tensor=across, output_tensor=floats)
    yield dml.DiagonalMatrix1Desc(
        input_tensor=across,
        output_tensor=floats,
        value_data_type="FLOAT32",
        value=2.0,
        diagonal_fill_begin=-1,
        diagonal_fill_end=2,
    )


def _powers() -> Iterator[dml.OperatorDesc]:
    """Of an exponent that has a functor of its own, and of another one."""
    for exponent, data_type in ((2.0, "FLOAT32"), (3.0, "FLOAT32"), (3.0, "FLOAT16")):
        tensor = dml.TensorDesc(data_type=data_type, sizes=[64])
        yield dml.ElementWiseConstantPowDesc(input_tensor=tensor, output_tensor=tensor, exponent=exponent)


def _of_bfloat16() -> Iterator[dml.OperatorDesc]:
    """Both conversions, which all other operators begin and end with, and an operator of each file."""
    tensor, floats = (dml.TensorDesc(data_type=data_type, sizes=[64]) for data_type in ("BFLOAT16", "FLOAT32"))
    yield dml.CastDesc(input_tensor=tensor, output_tensor=floats)
    yield dml.CastDesc(input_tensor=floats, output_tensor=tensor)
    yield dml.ElementWiseAddDesc(a_tensor=tensor, b_tensor=tensor, output_tensor=tensor)
    yield dml.ElementWiseLogicalEqualsDesc(a_tensor=tensor, b_tensor=tensor).with_outputs()
    yield dml.ElementWiseClipDesc(input_tensor=tensor, output_tensor=tensor, min=-1.0, max=1.0)
    yield dml.ActivationSigmoidDesc(input_tensor=tensor, output_tensor=tensor)


def element_instances() -> Iterator[Kernel]:
    """Each operator with each type, copies, casts and sums in every width, inputs that lie across the output, and powers."""
    library = RecordingLibrary(H100)
    for kind in engine_operators():
        for desc in of_all_types(kind):
            _load(desc, library)
            if any(tensor.data_type.bits == 4 for tensor in desc.tensors().values()):
                _load(_in_odd_rows(desc), library)  # of which neighbours share a byte
    for desc in (*_across(), *_powers(), *_of_bfloat16()):
        _load(desc, library)
    yield from library.kernels


def _load(desc: dml.OperatorDesc, library: RecordingLibrary) -> None:
    plan = plan_of(desc, Target(library))
    assert plan is not None
    plan.load()
