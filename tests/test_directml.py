"""The alias module holds every C name that dmlpy has, and nothing else."""

from __future__ import annotations

from pathlib import Path

import dmlpy as dml
from dmlpy import directml
from dmlpy.enums import DmlEnum, DmlFlags
from dmlpy.registry import OPERATORS


def test_every_struct_and_enumeration_member_has_its_c_name() -> None:
    expected: dict[str, object] = {kind.c_name: kind for kind in OPERATORS.values() if not kind.own}
    for kind in (dml.TensorDesc, dml.ScaleBias, dml.Size2D, dml.FeatureQueryFeatureLevels, dml.FeatureDataFeatureLevels):
        expected[kind.c_name] = kind
    for kind in (dml.FeatureQueryTensorDataTypeSupport, dml.FeatureDataTensorDataTypeSupport):
        expected[kind.c_name] = kind
    for kind in (kind for kind in DmlEnum.__subclasses__() if kind.prefix()):
        expected["DML_TENSOR_FLAGS" if kind is dml.TensorFlags else kind.prefix().removesuffix("_")] = kind
        expected |= {member.c_name: member for member in kind}
    for flags in DmlFlags.__subclasses__():
        expected[flags.prefix().removesuffix("_") + "S"] = flags
        expected |= {flags.prefix() + name: member for name, member in flags.__members__.items()}
    assert {name: getattr(directml, name) for name in directml.__all__} == expected


def test_a_c_program_reads_the_same() -> None:
    desc = directml.DML_RNN_OPERATOR_DESC(
        InputTensor=directml.DML_BUFFER_TENSOR_DESC(DataType=directml.DML_TENSOR_DATA_TYPE_FLOAT32, Sizes=[1, 2, 3, 4]),
        WeightTensor=directml.DML_BUFFER_TENSOR_DESC(DataType="DML_TENSOR_DATA_TYPE_FLOAT32", Sizes=[1, 1, 5, 4], DimensionCount=4),
        RecurrenceTensor=directml.DML_BUFFER_TENSOR_DESC(DataType="FLOAT32", Sizes=[1, 1, 5, 5]),
        OutputSingleTensor=directml.DML_BUFFER_TENSOR_DESC(DataType="FLOAT32", Sizes=[1, 1, 3, 5]),
        ActivationDescCount=1,
        ActivationDescs=[directml.DML_ACTIVATION_TANH_OPERATOR_DESC()],
        Direction=directml.DML_RECURRENT_NETWORK_DIRECTION_FORWARD,
    )
    assert dml.check(desc, directml.DML_FEATURE_LEVEL_1_0) == []


def test_the_stub_is_fresh() -> None:
    file = Path(directml.__file__).with_suffix(".pyi")
    assert file.read_text(encoding="utf-8") == directml.stub(), "run: python -m dmlpy.directml > dmlpy/directml.pyi"
