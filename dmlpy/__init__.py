"""DirectML's operators on any machine: descriptor structs that mirror directml.h, checked, compiled, run on NumPy or CUDA."""

from importlib import import_module as _import_module
from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any

from dmlpy.arrays import Buffer
from dmlpy.compiler import compile  # noqa: A004  (the contract's name)
from dmlpy.description.descs import OperatorDesc
from dmlpy.description.enums import (
    AxisDirection,
    ConvolutionDirection,
    ConvolutionMode,
    DataFormat,
    DataType,
    DepthSpaceOrder,
    ExecutionFlags,
    Feature,
    FeatureLevel,
    GraphEdgeType,
    GraphNodeType,
    HResult,
    InterpolationMode,
    IsInfinityMode,
    MatrixTransform,
    MultiheadAttentionMaskType,
    PaddingMode,
    QuantizationType,
    RandomGeneratorType,
    RecurrentDirection,
    ReduceFunction,
    RnnDirection,
    RnnInputMode,
    RnnMode,
    RoundingMode,
    TensorFlags,
    TensorType,
)
from dmlpy.description.tensors import TensorDesc
from dmlpy.description.value_structs import ScaleBias, Size2D
from dmlpy.devices import (
    BindingProperties,
    CompiledOperator,
    Device,
    Dispatch,
    Outputs,
    PreparedOperator,
    Reserve,
    device,
    list_devices,
)
from dmlpy.devices import cuda as _cuda  # noqa: F401  (adds itself to the kinds of devices)
from dmlpy.devices import numba as _numba  # noqa: F401
from dmlpy.devices import numpy as _numpy  # noqa: F401
from dmlpy.operators import FAMILIES as _FAMILIES
from dmlpy.validation.checking import check, lowest_level
from dmlpy.validation.problems import BindError, CompileError, DescError, DeviceError, DmlError, Problem

if _TYPE_CHECKING:
    # What `__getattr__` imports at run time, when it is first used: describing all of DirectML takes longer than importing NumPy.
    from dmlpy.devices.report import PlanReport as PlanReport
    from dmlpy.graphs import ConstantNode as ConstantNode
    from dmlpy.graphs import Graph as Graph
    from dmlpy.graphs import GraphBuilder as GraphBuilder
    from dmlpy.graphs import InputEdge as InputEdge
    from dmlpy.graphs import IntermediateEdge as IntermediateEdge
    from dmlpy.graphs import OperatorNode as OperatorNode
    from dmlpy.graphs import OutputEdge as OutputEdge
    from dmlpy.graphs import load_serialized as load_serialized
    from dmlpy.graphs import read_serialized as read_serialized
    from dmlpy.operators.activation import ActivationCeluDesc as ActivationCeluDesc
    from dmlpy.operators.activation import ActivationDesc as ActivationDesc
    from dmlpy.operators.activation import ActivationEluDesc as ActivationEluDesc
    from dmlpy.operators.activation import ActivationGeluDesc as ActivationGeluDesc
    from dmlpy.operators.activation import ActivationHardmax1Desc as ActivationHardmax1Desc
    from dmlpy.operators.activation import ActivationHardmaxDesc as ActivationHardmaxDesc
    from dmlpy.operators.activation import ActivationHardSigmoidDesc as ActivationHardSigmoidDesc
    from dmlpy.operators.activation import ActivationHardSwishDesc as ActivationHardSwishDesc
    from dmlpy.operators.activation import ActivationIdentityDesc as ActivationIdentityDesc
    from dmlpy.operators.activation import ActivationLeakyReluDesc as ActivationLeakyReluDesc
    from dmlpy.operators.activation import ActivationLinearDesc as ActivationLinearDesc
    from dmlpy.operators.activation import ActivationLogSoftmax1Desc as ActivationLogSoftmax1Desc
    from dmlpy.operators.activation import ActivationLogSoftmaxDesc as ActivationLogSoftmaxDesc
    from dmlpy.operators.activation import ActivationParameterizedReluDesc as ActivationParameterizedReluDesc
    from dmlpy.operators.activation import ActivationParametricSoftplusDesc as ActivationParametricSoftplusDesc
    from dmlpy.operators.activation import ActivationReluDesc as ActivationReluDesc
    from dmlpy.operators.activation import ActivationReluGradDesc as ActivationReluGradDesc
    from dmlpy.operators.activation import ActivationScaledEluDesc as ActivationScaledEluDesc
    from dmlpy.operators.activation import ActivationScaledTanhDesc as ActivationScaledTanhDesc
    from dmlpy.operators.activation import ActivationShrinkDesc as ActivationShrinkDesc
    from dmlpy.operators.activation import ActivationSigmoidDesc as ActivationSigmoidDesc
    from dmlpy.operators.activation import ActivationSoftmax1Desc as ActivationSoftmax1Desc
    from dmlpy.operators.activation import ActivationSoftmaxDesc as ActivationSoftmaxDesc
    from dmlpy.operators.activation import ActivationSoftplusDesc as ActivationSoftplusDesc
    from dmlpy.operators.activation import ActivationSoftsignDesc as ActivationSoftsignDesc
    from dmlpy.operators.activation import ActivationSwishDesc as ActivationSwishDesc
    from dmlpy.operators.activation import ActivationTanhDesc as ActivationTanhDesc
    from dmlpy.operators.activation import ActivationThresholdedReluDesc as ActivationThresholdedReluDesc
    from dmlpy.operators.attention import MultiheadAttention1Desc as MultiheadAttention1Desc
    from dmlpy.operators.attention import MultiheadAttentionDesc as MultiheadAttentionDesc
    from dmlpy.operators.convolution import ConvolutionDesc as ConvolutionDesc
    from dmlpy.operators.elementwise.arithmetic import ElementWiseAdd1Desc as ElementWiseAdd1Desc
    from dmlpy.operators.elementwise.arithmetic import ElementWiseAddDesc as ElementWiseAddDesc
    from dmlpy.operators.elementwise.arithmetic import ElementWiseAtanYXDesc as ElementWiseAtanYXDesc
    from dmlpy.operators.elementwise.arithmetic import ElementWiseConstantPowDesc as ElementWiseConstantPowDesc
    from dmlpy.operators.elementwise.arithmetic import ElementWiseDifferenceSquareDesc as ElementWiseDifferenceSquareDesc
    from dmlpy.operators.elementwise.arithmetic import ElementWiseDivideDesc as ElementWiseDivideDesc
    from dmlpy.operators.elementwise.arithmetic import ElementWiseMaxDesc as ElementWiseMaxDesc
    from dmlpy.operators.elementwise.arithmetic import ElementWiseMeanDesc as ElementWiseMeanDesc
    from dmlpy.operators.elementwise.arithmetic import ElementWiseMinDesc as ElementWiseMinDesc
    from dmlpy.operators.elementwise.arithmetic import ElementWiseModulusFloorDesc as ElementWiseModulusFloorDesc
    from dmlpy.operators.elementwise.arithmetic import ElementWiseModulusTruncateDesc as ElementWiseModulusTruncateDesc
    from dmlpy.operators.elementwise.arithmetic import ElementWiseMultiplyDesc as ElementWiseMultiplyDesc
    from dmlpy.operators.elementwise.arithmetic import ElementWisePowDesc as ElementWisePowDesc
    from dmlpy.operators.elementwise.arithmetic import ElementWiseSubtractDesc as ElementWiseSubtractDesc
    from dmlpy.operators.elementwise.logic import ElementWiseBitAndDesc as ElementWiseBitAndDesc
    from dmlpy.operators.elementwise.logic import ElementWiseBitCountDesc as ElementWiseBitCountDesc
    from dmlpy.operators.elementwise.logic import ElementWiseBitNotDesc as ElementWiseBitNotDesc
    from dmlpy.operators.elementwise.logic import ElementWiseBitOrDesc as ElementWiseBitOrDesc
    from dmlpy.operators.elementwise.logic import ElementWiseBitShiftLeftDesc as ElementWiseBitShiftLeftDesc
    from dmlpy.operators.elementwise.logic import ElementWiseBitShiftRightDesc as ElementWiseBitShiftRightDesc
    from dmlpy.operators.elementwise.logic import ElementWiseBitXorDesc as ElementWiseBitXorDesc
    from dmlpy.operators.elementwise.logic import ElementWiseIfDesc as ElementWiseIfDesc
    from dmlpy.operators.elementwise.logic import ElementWiseIsInfinityDesc as ElementWiseIsInfinityDesc
    from dmlpy.operators.elementwise.logic import ElementWiseIsNaNDesc as ElementWiseIsNaNDesc
    from dmlpy.operators.elementwise.logic import ElementWiseLogicalAndDesc as ElementWiseLogicalAndDesc
    from dmlpy.operators.elementwise.logic import ElementWiseLogicalEqualsDesc as ElementWiseLogicalEqualsDesc
    from dmlpy.operators.elementwise.logic import ElementWiseLogicalGreaterThanDesc as ElementWiseLogicalGreaterThanDesc
    from dmlpy.operators.elementwise.logic import ElementWiseLogicalGreaterThanOrEqualDesc as ElementWiseLogicalGreaterThanOrEqualDesc
    from dmlpy.operators.elementwise.logic import ElementWiseLogicalLessThanDesc as ElementWiseLogicalLessThanDesc
    from dmlpy.operators.elementwise.logic import ElementWiseLogicalLessThanOrEqualDesc as ElementWiseLogicalLessThanOrEqualDesc
    from dmlpy.operators.elementwise.logic import ElementWiseLogicalNotDesc as ElementWiseLogicalNotDesc
    from dmlpy.operators.elementwise.logic import ElementWiseLogicalOrDesc as ElementWiseLogicalOrDesc
    from dmlpy.operators.elementwise.logic import ElementWiseLogicalXorDesc as ElementWiseLogicalXorDesc
    from dmlpy.operators.elementwise.math import ElementWiseAbsDesc as ElementWiseAbsDesc
    from dmlpy.operators.elementwise.math import ElementWiseAcosDesc as ElementWiseAcosDesc
    from dmlpy.operators.elementwise.math import ElementWiseAcoshDesc as ElementWiseAcoshDesc
    from dmlpy.operators.elementwise.math import ElementWiseAsinDesc as ElementWiseAsinDesc
    from dmlpy.operators.elementwise.math import ElementWiseAsinhDesc as ElementWiseAsinhDesc
    from dmlpy.operators.elementwise.math import ElementWiseAtanDesc as ElementWiseAtanDesc
    from dmlpy.operators.elementwise.math import ElementWiseAtanhDesc as ElementWiseAtanhDesc
    from dmlpy.operators.elementwise.math import ElementWiseCeilDesc as ElementWiseCeilDesc
    from dmlpy.operators.elementwise.math import ElementWiseCosDesc as ElementWiseCosDesc
    from dmlpy.operators.elementwise.math import ElementWiseCoshDesc as ElementWiseCoshDesc
    from dmlpy.operators.elementwise.math import ElementWiseErfDesc as ElementWiseErfDesc
    from dmlpy.operators.elementwise.math import ElementWiseExpDesc as ElementWiseExpDesc
    from dmlpy.operators.elementwise.math import ElementWiseFloorDesc as ElementWiseFloorDesc
    from dmlpy.operators.elementwise.math import ElementWiseIdentityDesc as ElementWiseIdentityDesc
    from dmlpy.operators.elementwise.math import ElementWiseLogDesc as ElementWiseLogDesc
    from dmlpy.operators.elementwise.math import ElementWiseNegateDesc as ElementWiseNegateDesc
    from dmlpy.operators.elementwise.math import ElementWiseRecipDesc as ElementWiseRecipDesc
    from dmlpy.operators.elementwise.math import ElementWiseSignDesc as ElementWiseSignDesc
    from dmlpy.operators.elementwise.math import ElementWiseSinDesc as ElementWiseSinDesc
    from dmlpy.operators.elementwise.math import ElementWiseSinhDesc as ElementWiseSinhDesc
    from dmlpy.operators.elementwise.math import ElementWiseSqrtDesc as ElementWiseSqrtDesc
    from dmlpy.operators.elementwise.math import ElementWiseTanDesc as ElementWiseTanDesc
    from dmlpy.operators.elementwise.math import ElementWiseTanhDesc as ElementWiseTanhDesc
    from dmlpy.operators.elementwise.ranges import ElementWiseClip1Desc as ElementWiseClip1Desc
    from dmlpy.operators.elementwise.ranges import ElementWiseClipDesc as ElementWiseClipDesc
    from dmlpy.operators.elementwise.ranges import ElementWiseClipGrad1Desc as ElementWiseClipGrad1Desc
    from dmlpy.operators.elementwise.ranges import ElementWiseClipGradDesc as ElementWiseClipGradDesc
    from dmlpy.operators.elementwise.ranges import ElementWiseRoundDesc as ElementWiseRoundDesc
    from dmlpy.operators.elementwise.ranges import ElementWiseThresholdDesc as ElementWiseThresholdDesc
    from dmlpy.operators.generation import DiagonalMatrix1Desc as DiagonalMatrix1Desc
    from dmlpy.operators.generation import DiagonalMatrixDesc as DiagonalMatrixDesc
    from dmlpy.operators.generation import FillValueConstantDesc as FillValueConstantDesc
    from dmlpy.operators.generation import FillValueSequenceDesc as FillValueSequenceDesc
    from dmlpy.operators.generation import RandomGeneratorDesc as RandomGeneratorDesc
    from dmlpy.operators.indexing import GatherDesc as GatherDesc
    from dmlpy.operators.indexing import GatherElementsDesc as GatherElementsDesc
    from dmlpy.operators.indexing import GatherND1Desc as GatherND1Desc
    from dmlpy.operators.indexing import GatherNDDesc as GatherNDDesc
    from dmlpy.operators.indexing import NonzeroCoordinatesDesc as NonzeroCoordinatesDesc
    from dmlpy.operators.indexing import OneHotDesc as OneHotDesc
    from dmlpy.operators.indexing import ScatterDesc as ScatterDesc
    from dmlpy.operators.indexing import ScatterNDDesc as ScatterNDDesc
    from dmlpy.operators.matrix import GEMMDesc as GEMMDesc
    from dmlpy.operators.movement.blocks import DepthToSpace1Desc as DepthToSpace1Desc
    from dmlpy.operators.movement.blocks import DepthToSpaceDesc as DepthToSpaceDesc
    from dmlpy.operators.movement.blocks import FoldDesc as FoldDesc
    from dmlpy.operators.movement.blocks import SpaceToDepth1Desc as SpaceToDepth1Desc
    from dmlpy.operators.movement.blocks import SpaceToDepthDesc as SpaceToDepthDesc
    from dmlpy.operators.movement.blocks import UnfoldDesc as UnfoldDesc
    from dmlpy.operators.movement.copy import CastDesc as CastDesc
    from dmlpy.operators.movement.copy import JoinDesc as JoinDesc
    from dmlpy.operators.movement.copy import ReverseSubsequencesDesc as ReverseSubsequencesDesc
    from dmlpy.operators.movement.copy import SplitDesc as SplitDesc
    from dmlpy.operators.movement.copy import TileDesc as TileDesc
    from dmlpy.operators.movement.slicing import Padding1Desc as Padding1Desc
    from dmlpy.operators.movement.slicing import PaddingDesc as PaddingDesc
    from dmlpy.operators.movement.slicing import Slice1Desc as Slice1Desc
    from dmlpy.operators.movement.slicing import SliceDesc as SliceDesc
    from dmlpy.operators.movement.slicing import SliceGradDesc as SliceGradDesc
    from dmlpy.operators.normalization.batch import BatchNormalizationDesc as BatchNormalizationDesc
    from dmlpy.operators.normalization.batch import BatchNormalizationGradDesc as BatchNormalizationGradDesc
    from dmlpy.operators.normalization.batch import BatchNormalizationTrainingDesc as BatchNormalizationTrainingDesc
    from dmlpy.operators.normalization.batch import BatchNormalizationTrainingGradDesc as BatchNormalizationTrainingGradDesc
    from dmlpy.operators.normalization.fused_batch import FusedBatchNormGradV3Desc as FusedBatchNormGradV3Desc
    from dmlpy.operators.normalization.fused_batch import FusedBatchNormV3Desc as FusedBatchNormV3Desc
    from dmlpy.operators.normalization.local_response import LocalResponseNormalizationDesc as LocalResponseNormalizationDesc
    from dmlpy.operators.normalization.local_response import LocalResponseNormalizationGradDesc as LocalResponseNormalizationGradDesc
    from dmlpy.operators.normalization.lp import LPNormalizationDesc as LPNormalizationDesc
    from dmlpy.operators.normalization.mean_variance import MeanVarianceNormalization1Desc as MeanVarianceNormalization1Desc
    from dmlpy.operators.normalization.mean_variance import MeanVarianceNormalization2Desc as MeanVarianceNormalization2Desc
    from dmlpy.operators.normalization.mean_variance import MeanVarianceNormalizationDesc as MeanVarianceNormalizationDesc
    from dmlpy.operators.optimization import AdamOptimizerDesc as AdamOptimizerDesc
    from dmlpy.operators.pooling.average import AveragePooling1Desc as AveragePooling1Desc
    from dmlpy.operators.pooling.average import AveragePoolingDesc as AveragePoolingDesc
    from dmlpy.operators.pooling.average import AveragePoolingGradDesc as AveragePoolingGradDesc
    from dmlpy.operators.pooling.lp import LPPooling1Desc as LPPooling1Desc
    from dmlpy.operators.pooling.lp import LPPoolingDesc as LPPoolingDesc
    from dmlpy.operators.pooling.maximum import MaxPooling1Desc as MaxPooling1Desc
    from dmlpy.operators.pooling.maximum import MaxPooling2Desc as MaxPooling2Desc
    from dmlpy.operators.pooling.maximum import MaxPoolingDesc as MaxPoolingDesc
    from dmlpy.operators.pooling.maximum import MaxPoolingGradDesc as MaxPoolingGradDesc
    from dmlpy.operators.pooling.maximum import MaxUnpoolingDesc as MaxUnpoolingDesc
    from dmlpy.operators.pooling.roi import ROIAlign1Desc as ROIAlign1Desc
    from dmlpy.operators.pooling.roi import ROIAlignDesc as ROIAlignDesc
    from dmlpy.operators.pooling.roi import ROIAlignGradDesc as ROIAlignGradDesc
    from dmlpy.operators.pooling.roi import ROIPoolingDesc as ROIPoolingDesc
    from dmlpy.operators.quantized.linear import DequantizeDesc as DequantizeDesc
    from dmlpy.operators.quantized.linear import DynamicQuantizeLinearDesc as DynamicQuantizeLinearDesc
    from dmlpy.operators.quantized.linear import ElementWiseDequantizeLinearDesc as ElementWiseDequantizeLinearDesc
    from dmlpy.operators.quantized.linear import ElementWiseQuantizedLinearAddDesc as ElementWiseQuantizedLinearAddDesc
    from dmlpy.operators.quantized.linear import ElementWiseQuantizeLinearDesc as ElementWiseQuantizeLinearDesc
    from dmlpy.operators.quantized.linear import QuantizeDesc as QuantizeDesc
    from dmlpy.operators.quantized.products import ConvolutionIntegerDesc as ConvolutionIntegerDesc
    from dmlpy.operators.quantized.products import MatrixMultiplyIntegerDesc as MatrixMultiplyIntegerDesc
    from dmlpy.operators.quantized.products import MatrixMultiplyIntegerToFloatDesc as MatrixMultiplyIntegerToFloatDesc
    from dmlpy.operators.quantized.products import QuantizedLinearAveragePoolingDesc as QuantizedLinearAveragePoolingDesc
    from dmlpy.operators.quantized.products import QuantizedLinearConvolutionDesc as QuantizedLinearConvolutionDesc
    from dmlpy.operators.quantized.products import QuantizedLinearMatrixMultiplyDesc as QuantizedLinearMatrixMultiplyDesc
    from dmlpy.operators.recurrent.block_cell import GRUBlockCellDesc as GRUBlockCellDesc
    from dmlpy.operators.recurrent.block_cell import GRUBlockCellGradDesc as GRUBlockCellGradDesc
    from dmlpy.operators.recurrent.block_cell import gru_block_cell_weight_gradients as gru_block_cell_weight_gradients
    from dmlpy.operators.recurrent.cudnn import CudnnRNNBackpropV3Desc as CudnnRNNBackpropV3Desc
    from dmlpy.operators.recurrent.cudnn import CudnnRNNV3Desc as CudnnRNNV3Desc
    from dmlpy.operators.recurrent.gradient import GRUGradDesc as GRUGradDesc
    from dmlpy.operators.recurrent.gradient import LSTMGradDesc as LSTMGradDesc
    from dmlpy.operators.recurrent.gradient import RNNGradDesc as RNNGradDesc
    from dmlpy.operators.recurrent.layer import GRUDesc as GRUDesc
    from dmlpy.operators.recurrent.layer import LSTMDesc as LSTMDesc
    from dmlpy.operators.recurrent.layer import RecurrentDesc as RecurrentDesc
    from dmlpy.operators.recurrent.layer import RNNDesc as RNNDesc
    from dmlpy.operators.recurrent.params import ParamsLayout as ParamsLayout
    from dmlpy.operators.recurrent.params import canonical_to_params as canonical_to_params
    from dmlpy.operators.recurrent.params import params_size as params_size
    from dmlpy.operators.recurrent.params import params_to_canonical as params_to_canonical
    from dmlpy.operators.recurrent.params import params_to_weights_and_biases as params_to_weights_and_biases
    from dmlpy.operators.recurrent.params import weights_and_biases_to_params as weights_and_biases_to_params
    from dmlpy.operators.recurrent.training import GRUTrainingDesc as GRUTrainingDesc
    from dmlpy.operators.recurrent.training import LSTMTrainingDesc as LSTMTrainingDesc
    from dmlpy.operators.recurrent.training import RNNTrainingDesc as RNNTrainingDesc
    from dmlpy.operators.reduction import ArgmaxDesc as ArgmaxDesc
    from dmlpy.operators.reduction import ArgminDesc as ArgminDesc
    from dmlpy.operators.reduction import CumulativeProductDesc as CumulativeProductDesc
    from dmlpy.operators.reduction import CumulativeSummationDesc as CumulativeSummationDesc
    from dmlpy.operators.reduction import ReduceDesc as ReduceDesc
    from dmlpy.operators.reduction import TopK1Desc as TopK1Desc
    from dmlpy.operators.reduction import TopKDesc as TopKDesc
    from dmlpy.operators.resampling import Resample1Desc as Resample1Desc
    from dmlpy.operators.resampling import Resample2Desc as Resample2Desc
    from dmlpy.operators.resampling import Resample3Desc as Resample3Desc
    from dmlpy.operators.resampling import ResampleDesc as ResampleDesc
    from dmlpy.operators.resampling import ResampleGrad1Desc as ResampleGrad1Desc
    from dmlpy.operators.resampling import ResampleGradDesc as ResampleGradDesc
    from dmlpy.operators.resampling import Upsample2DDesc as Upsample2DDesc
    from dmlpy.operators.resampling import ValueScale2DDesc as ValueScale2DDesc
    from dmlpy.validation.features import FeatureDataFeatureLevels as FeatureDataFeatureLevels
    from dmlpy.validation.features import FeatureDataTensorDataTypeSupport as FeatureDataTensorDataTypeSupport
    from dmlpy.validation.features import FeatureQueryFeatureLevels as FeatureQueryFeatureLevels
    from dmlpy.validation.features import FeatureQueryTensorDataTypeSupport as FeatureQueryTensorDataTypeSupport
    from dmlpy.validation.features import check_feature_support as check_feature_support

__version__ = "0.1.0"

_LAZY = {name: f"operators.{module}" for module, names in _FAMILIES.items() for name in names} | {
    "PlanReport": "devices.report",
    "ConstantNode": "graphs",
    "Graph": "graphs",
    "GraphBuilder": "graphs",
    "InputEdge": "graphs",
    "IntermediateEdge": "graphs",
    "OperatorNode": "graphs",
    "OutputEdge": "graphs",
    "read_serialized": "graphs",
    "load_serialized": "graphs",
    "check_feature_support": "validation.features",
    "FeatureDataFeatureLevels": "validation.features",
    "FeatureDataTensorDataTypeSupport": "validation.features",
    "FeatureQueryFeatureLevels": "validation.features",
    "FeatureQueryTensorDataTypeSupport": "validation.features",
    "ActivationDesc": "operators.activation",
    "RecurrentDesc": "operators.recurrent.layer",
    "gru_block_cell_weight_gradients": "operators.recurrent.block_cell",
    "ParamsLayout": "operators.recurrent.params",
    "canonical_to_params": "operators.recurrent.params",
    "params_size": "operators.recurrent.params",
    "params_to_canonical": "operators.recurrent.params",
    "params_to_weights_and_biases": "operators.recurrent.params",
    "weights_and_biases_to_params": "operators.recurrent.params",
}

__all__ = [
    "AxisDirection",
    "BindError",
    "BindingProperties",
    "Buffer",
    "CompileError",
    "CompiledOperator",
    "ConvolutionDirection",
    "ConvolutionMode",
    "DataFormat",
    "DataType",
    "DepthSpaceOrder",
    "DescError",
    "Device",
    "DeviceError",
    "Dispatch",
    "DmlError",
    "ExecutionFlags",
    "Feature",
    "FeatureLevel",
    "GraphEdgeType",
    "GraphNodeType",
    "HResult",
    "InterpolationMode",
    "IsInfinityMode",
    "MatrixTransform",
    "MultiheadAttentionMaskType",
    "OperatorDesc",
    "Outputs",
    "PaddingMode",
    "PreparedOperator",
    "Problem",
    "QuantizationType",
    "RandomGeneratorType",
    "RecurrentDirection",
    "ReduceFunction",
    "Reserve",
    "RnnDirection",
    "RnnInputMode",
    "RnnMode",
    "RoundingMode",
    "ScaleBias",
    "Size2D",
    "TensorDesc",
    "TensorFlags",
    "TensorType",
    "check",
    "compile",
    "device",
    "list_devices",
    "lowest_level",
]
__all__ += sorted(_LAZY)


def __getattr__(name: str) -> _Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(_import_module(f"{__name__}.{_LAZY[name]}"), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY})
