# Written by `python -m dmlpy.x.stubs`: do not edit.
from . import eager as eager
from . import x as x
from .comparison import Comparison as Comparison
from .comparison import NodeDifference as NodeDifference
from .comparison import compare as compare
from .compiler import compile as compile
from .description.arrays import Buffer as Buffer
from .description.descs import OperatorDesc as OperatorDesc
from .description.enums import AxisDirection as AxisDirection
from .description.enums import ConvolutionDirection as ConvolutionDirection
from .description.enums import ConvolutionMode as ConvolutionMode
from .description.enums import DataFormat as DataFormat
from .description.enums import DataType as DataType
from .description.enums import DepthSpaceOrder as DepthSpaceOrder
from .description.enums import ExecutionFlags as ExecutionFlags
from .description.enums import Feature as Feature
from .description.enums import FeatureLevel as FeatureLevel
from .description.enums import GraphEdgeType as GraphEdgeType
from .description.enums import GraphNodeType as GraphNodeType
from .description.enums import InterpolationMode as InterpolationMode
from .description.enums import IsInfinityMode as IsInfinityMode
from .description.enums import MatrixTransform as MatrixTransform
from .description.enums import MultiheadAttentionMaskType as MultiheadAttentionMaskType
from .description.enums import PaddingMode as PaddingMode
from .description.enums import QuantizationType as QuantizationType
from .description.enums import RandomGeneratorType as RandomGeneratorType
from .description.enums import RecurrentDirection as RecurrentDirection
from .description.enums import ReduceFunction as ReduceFunction
from .description.enums import RnnDirection as RnnDirection
from .description.enums import RnnInputMode as RnnInputMode
from .description.enums import RnnMode as RnnMode
from .description.enums import RoundingMode as RoundingMode
from .description.enums import TensorFlags as TensorFlags
from .description.enums import TensorType as TensorType
from .description.int4 import pack_int4 as pack_int4
from .description.int4 import unpack_int4 as unpack_int4
from .description.outputs import Outputs as Outputs
from .description.tensors import TensorDesc as TensorDesc
from .description.value_structs import ScaleBias as ScaleBias
from .description.value_structs import Size2D as Size2D
from .devices.device import Device as Device
from .devices.device import device as device
from .devices.device import list_devices as list_devices
from .devices.dispatch import Dispatch as Dispatch
from .devices.graphs.compiled import CompiledGraph as CompiledGraph
from .devices.graphs.compiled import PreparedGraph as PreparedGraph
from .devices.graphs.report import GraphReport as GraphReport
from .devices.initializer import OperatorInitializer as OperatorInitializer
from .devices.memory.reserve import Reserve as Reserve
from .devices.operator import CompiledOperator as CompiledOperator
from .devices.operator import PreparedOperator as PreparedOperator
from .devices.plan import BindingProperties as BindingProperties
from .devices.reporting.profile import Profile as Profile
from .devices.reporting.profile import ProfiledNode as ProfiledNode
from .devices.reporting.report import PlanReport as PlanReport
from .graphs.builder import GraphBuilder as GraphBuilder
from .graphs.graph import Graph as Graph
from .graphs.nodes import ConstantNode as ConstantNode
from .graphs.nodes import InputEdge as InputEdge
from .graphs.nodes import IntermediateEdge as IntermediateEdge
from .graphs.nodes import OperatorNode as OperatorNode
from .graphs.nodes import OutputEdge as OutputEdge
from .graphs.serialized import load_serialized as load_serialized
from .inspection.explain import Explanation as Explanation
from .inspection.explain import explain as explain
from .messages.hresult import HResult as HResult
from .messages.problems import BindError as BindError
from .messages.problems import CompileError as CompileError
from .messages.problems import DescError as DescError
from .messages.problems import DeviceError as DeviceError
from .messages.problems import DispatchError as DispatchError
from .messages.problems import DmlError as DmlError
from .messages.problems import PickleError as PickleError
from .messages.problems import Problem as Problem
from .operators.activation import ActivationCeluDesc as ActivationCeluDesc
from .operators.activation import ActivationDesc as ActivationDesc
from .operators.activation import ActivationEluDesc as ActivationEluDesc
from .operators.activation import ActivationGeluDesc as ActivationGeluDesc
from .operators.activation import ActivationHardSigmoidDesc as ActivationHardSigmoidDesc
from .operators.activation import ActivationHardSwishDesc as ActivationHardSwishDesc
from .operators.activation import ActivationHardmax1Desc as ActivationHardmax1Desc
from .operators.activation import ActivationHardmaxDesc as ActivationHardmaxDesc
from .operators.activation import ActivationIdentityDesc as ActivationIdentityDesc
from .operators.activation import ActivationLeakyReluDesc as ActivationLeakyReluDesc
from .operators.activation import ActivationLinearDesc as ActivationLinearDesc
from .operators.activation import ActivationLogSoftmax1Desc as ActivationLogSoftmax1Desc
from .operators.activation import ActivationLogSoftmaxDesc as ActivationLogSoftmaxDesc
from .operators.activation import ActivationParameterizedReluDesc as ActivationParameterizedReluDesc
from .operators.activation import ActivationParametricSoftplusDesc as ActivationParametricSoftplusDesc
from .operators.activation import ActivationReluDesc as ActivationReluDesc
from .operators.activation import ActivationReluGradDesc as ActivationReluGradDesc
from .operators.activation import ActivationScaledEluDesc as ActivationScaledEluDesc
from .operators.activation import ActivationScaledTanhDesc as ActivationScaledTanhDesc
from .operators.activation import ActivationShrinkDesc as ActivationShrinkDesc
from .operators.activation import ActivationSigmoidDesc as ActivationSigmoidDesc
from .operators.activation import ActivationSoftmax1Desc as ActivationSoftmax1Desc
from .operators.activation import ActivationSoftmaxDesc as ActivationSoftmaxDesc
from .operators.activation import ActivationSoftplusDesc as ActivationSoftplusDesc
from .operators.activation import ActivationSoftsignDesc as ActivationSoftsignDesc
from .operators.activation import ActivationSwishDesc as ActivationSwishDesc
from .operators.activation import ActivationTanhDesc as ActivationTanhDesc
from .operators.activation import ActivationThresholdedReluDesc as ActivationThresholdedReluDesc
from .operators.attention import MultiheadAttention1Desc as MultiheadAttention1Desc
from .operators.attention import MultiheadAttentionDesc as MultiheadAttentionDesc
from .operators.convolution import ConvolutionDesc as ConvolutionDesc
from .operators.elementwise.arithmetic import ElementWiseAdd1Desc as ElementWiseAdd1Desc
from .operators.elementwise.arithmetic import ElementWiseAddDesc as ElementWiseAddDesc
from .operators.elementwise.arithmetic import ElementWiseAtanYXDesc as ElementWiseAtanYXDesc
from .operators.elementwise.arithmetic import ElementWiseConstantPowDesc as ElementWiseConstantPowDesc
from .operators.elementwise.arithmetic import ElementWiseDifferenceSquareDesc as ElementWiseDifferenceSquareDesc
from .operators.elementwise.arithmetic import ElementWiseDivideDesc as ElementWiseDivideDesc
from .operators.elementwise.arithmetic import ElementWiseMaxDesc as ElementWiseMaxDesc
from .operators.elementwise.arithmetic import ElementWiseMeanDesc as ElementWiseMeanDesc
from .operators.elementwise.arithmetic import ElementWiseMinDesc as ElementWiseMinDesc
from .operators.elementwise.arithmetic import ElementWiseModulusFloorDesc as ElementWiseModulusFloorDesc
from .operators.elementwise.arithmetic import ElementWiseModulusTruncateDesc as ElementWiseModulusTruncateDesc
from .operators.elementwise.arithmetic import ElementWiseMultiplyDesc as ElementWiseMultiplyDesc
from .operators.elementwise.arithmetic import ElementWisePowDesc as ElementWisePowDesc
from .operators.elementwise.arithmetic import ElementWiseSubtractDesc as ElementWiseSubtractDesc
from .operators.elementwise.logic import ElementWiseBitAndDesc as ElementWiseBitAndDesc
from .operators.elementwise.logic import ElementWiseBitCountDesc as ElementWiseBitCountDesc
from .operators.elementwise.logic import ElementWiseBitNotDesc as ElementWiseBitNotDesc
from .operators.elementwise.logic import ElementWiseBitOrDesc as ElementWiseBitOrDesc
from .operators.elementwise.logic import ElementWiseBitShiftLeftDesc as ElementWiseBitShiftLeftDesc
from .operators.elementwise.logic import ElementWiseBitShiftRightDesc as ElementWiseBitShiftRightDesc
from .operators.elementwise.logic import ElementWiseBitXorDesc as ElementWiseBitXorDesc
from .operators.elementwise.logic import ElementWiseIfDesc as ElementWiseIfDesc
from .operators.elementwise.logic import ElementWiseIsInfinityDesc as ElementWiseIsInfinityDesc
from .operators.elementwise.logic import ElementWiseIsNaNDesc as ElementWiseIsNaNDesc
from .operators.elementwise.logic import ElementWiseLogicalAndDesc as ElementWiseLogicalAndDesc
from .operators.elementwise.logic import ElementWiseLogicalEqualsDesc as ElementWiseLogicalEqualsDesc
from .operators.elementwise.logic import ElementWiseLogicalGreaterThanDesc as ElementWiseLogicalGreaterThanDesc
from .operators.elementwise.logic import ElementWiseLogicalGreaterThanOrEqualDesc as ElementWiseLogicalGreaterThanOrEqualDesc
from .operators.elementwise.logic import ElementWiseLogicalLessThanDesc as ElementWiseLogicalLessThanDesc
from .operators.elementwise.logic import ElementWiseLogicalLessThanOrEqualDesc as ElementWiseLogicalLessThanOrEqualDesc
from .operators.elementwise.logic import ElementWiseLogicalNotDesc as ElementWiseLogicalNotDesc
from .operators.elementwise.logic import ElementWiseLogicalOrDesc as ElementWiseLogicalOrDesc
from .operators.elementwise.logic import ElementWiseLogicalXorDesc as ElementWiseLogicalXorDesc
from .operators.elementwise.math import ElementWiseAbsDesc as ElementWiseAbsDesc
from .operators.elementwise.math import ElementWiseAcosDesc as ElementWiseAcosDesc
from .operators.elementwise.math import ElementWiseAcoshDesc as ElementWiseAcoshDesc
from .operators.elementwise.math import ElementWiseAsinDesc as ElementWiseAsinDesc
from .operators.elementwise.math import ElementWiseAsinhDesc as ElementWiseAsinhDesc
from .operators.elementwise.math import ElementWiseAtanDesc as ElementWiseAtanDesc
from .operators.elementwise.math import ElementWiseAtanhDesc as ElementWiseAtanhDesc
from .operators.elementwise.math import ElementWiseCeilDesc as ElementWiseCeilDesc
from .operators.elementwise.math import ElementWiseCosDesc as ElementWiseCosDesc
from .operators.elementwise.math import ElementWiseCoshDesc as ElementWiseCoshDesc
from .operators.elementwise.math import ElementWiseErfDesc as ElementWiseErfDesc
from .operators.elementwise.math import ElementWiseExpDesc as ElementWiseExpDesc
from .operators.elementwise.math import ElementWiseFloorDesc as ElementWiseFloorDesc
from .operators.elementwise.math import ElementWiseIdentityDesc as ElementWiseIdentityDesc
from .operators.elementwise.math import ElementWiseLogDesc as ElementWiseLogDesc
from .operators.elementwise.math import ElementWiseNegateDesc as ElementWiseNegateDesc
from .operators.elementwise.math import ElementWiseRecipDesc as ElementWiseRecipDesc
from .operators.elementwise.math import ElementWiseSignDesc as ElementWiseSignDesc
from .operators.elementwise.math import ElementWiseSinDesc as ElementWiseSinDesc
from .operators.elementwise.math import ElementWiseSinhDesc as ElementWiseSinhDesc
from .operators.elementwise.math import ElementWiseSqrtDesc as ElementWiseSqrtDesc
from .operators.elementwise.math import ElementWiseTanDesc as ElementWiseTanDesc
from .operators.elementwise.math import ElementWiseTanhDesc as ElementWiseTanhDesc
from .operators.elementwise.ranges import ElementWiseClip1Desc as ElementWiseClip1Desc
from .operators.elementwise.ranges import ElementWiseClipDesc as ElementWiseClipDesc
from .operators.elementwise.ranges import ElementWiseClipGrad1Desc as ElementWiseClipGrad1Desc
from .operators.elementwise.ranges import ElementWiseClipGradDesc as ElementWiseClipGradDesc
from .operators.elementwise.ranges import ElementWiseRoundDesc as ElementWiseRoundDesc
from .operators.elementwise.ranges import ElementWiseThresholdDesc as ElementWiseThresholdDesc
from .operators.generation import DiagonalMatrix1Desc as DiagonalMatrix1Desc
from .operators.generation import DiagonalMatrixDesc as DiagonalMatrixDesc
from .operators.generation import FillValueConstantDesc as FillValueConstantDesc
from .operators.generation import FillValueSequenceDesc as FillValueSequenceDesc
from .operators.generation import RandomGeneratorDesc as RandomGeneratorDesc
from .operators.indexing import GatherDesc as GatherDesc
from .operators.indexing import GatherElementsDesc as GatherElementsDesc
from .operators.indexing import GatherND1Desc as GatherND1Desc
from .operators.indexing import GatherNDDesc as GatherNDDesc
from .operators.indexing import NonzeroCoordinatesDesc as NonzeroCoordinatesDesc
from .operators.indexing import OneHotDesc as OneHotDesc
from .operators.indexing import ScatterDesc as ScatterDesc
from .operators.indexing import ScatterNDDesc as ScatterNDDesc
from .operators.matrix import GEMMDesc as GEMMDesc
from .operators.movement.blocks import DepthToSpace1Desc as DepthToSpace1Desc
from .operators.movement.blocks import DepthToSpaceDesc as DepthToSpaceDesc
from .operators.movement.blocks import FoldDesc as FoldDesc
from .operators.movement.blocks import SpaceToDepth1Desc as SpaceToDepth1Desc
from .operators.movement.blocks import SpaceToDepthDesc as SpaceToDepthDesc
from .operators.movement.blocks import UnfoldDesc as UnfoldDesc
from .operators.movement.copy import CastDesc as CastDesc
from .operators.movement.copy import JoinDesc as JoinDesc
from .operators.movement.copy import ReverseSubsequencesDesc as ReverseSubsequencesDesc
from .operators.movement.copy import SplitDesc as SplitDesc
from .operators.movement.copy import TileDesc as TileDesc
from .operators.movement.slicing import Padding1Desc as Padding1Desc
from .operators.movement.slicing import PaddingDesc as PaddingDesc
from .operators.movement.slicing import Slice1Desc as Slice1Desc
from .operators.movement.slicing import SliceDesc as SliceDesc
from .operators.movement.slicing import SliceGradDesc as SliceGradDesc
from .operators.normalization.batch import BatchNormalizationDesc as BatchNormalizationDesc
from .operators.normalization.batch import BatchNormalizationGradDesc as BatchNormalizationGradDesc
from .operators.normalization.batch import BatchNormalizationTrainingDesc as BatchNormalizationTrainingDesc
from .operators.normalization.batch import BatchNormalizationTrainingGradDesc as BatchNormalizationTrainingGradDesc
from .operators.normalization.fused_batch import FusedBatchNormGradV3Desc as FusedBatchNormGradV3Desc
from .operators.normalization.fused_batch import FusedBatchNormV3Desc as FusedBatchNormV3Desc
from .operators.normalization.local_response import LocalResponseNormalizationDesc as LocalResponseNormalizationDesc
from .operators.normalization.local_response import LocalResponseNormalizationGradDesc as LocalResponseNormalizationGradDesc
from .operators.normalization.lp import LPNormalizationDesc as LPNormalizationDesc
from .operators.normalization.mean_variance import MeanVarianceNormalization1Desc as MeanVarianceNormalization1Desc
from .operators.normalization.mean_variance import MeanVarianceNormalization2Desc as MeanVarianceNormalization2Desc
from .operators.normalization.mean_variance import MeanVarianceNormalizationDesc as MeanVarianceNormalizationDesc
from .operators.optimization import AdamOptimizerDesc as AdamOptimizerDesc
from .operators.pooling.average import AveragePooling1Desc as AveragePooling1Desc
from .operators.pooling.average import AveragePoolingDesc as AveragePoolingDesc
from .operators.pooling.average import AveragePoolingGradDesc as AveragePoolingGradDesc
from .operators.pooling.lp import LPPooling1Desc as LPPooling1Desc
from .operators.pooling.lp import LPPoolingDesc as LPPoolingDesc
from .operators.pooling.maximum import MaxPooling1Desc as MaxPooling1Desc
from .operators.pooling.maximum import MaxPooling2Desc as MaxPooling2Desc
from .operators.pooling.maximum import MaxPoolingDesc as MaxPoolingDesc
from .operators.pooling.maximum import MaxPoolingGradDesc as MaxPoolingGradDesc
from .operators.pooling.maximum import MaxUnpoolingDesc as MaxUnpoolingDesc
from .operators.pooling.roi import ROIAlign1Desc as ROIAlign1Desc
from .operators.pooling.roi import ROIAlignDesc as ROIAlignDesc
from .operators.pooling.roi import ROIAlignGradDesc as ROIAlignGradDesc
from .operators.pooling.roi import ROIPoolingDesc as ROIPoolingDesc
from .operators.quantized.linear import DequantizeDesc as DequantizeDesc
from .operators.quantized.linear import DynamicQuantizeLinearDesc as DynamicQuantizeLinearDesc
from .operators.quantized.linear import ElementWiseDequantizeLinearDesc as ElementWiseDequantizeLinearDesc
from .operators.quantized.linear import ElementWiseQuantizeLinearDesc as ElementWiseQuantizeLinearDesc
from .operators.quantized.linear import ElementWiseQuantizedLinearAddDesc as ElementWiseQuantizedLinearAddDesc
from .operators.quantized.linear import QuantizeDesc as QuantizeDesc
from .operators.quantized.products import ConvolutionIntegerDesc as ConvolutionIntegerDesc
from .operators.quantized.products import MatrixMultiplyIntegerDesc as MatrixMultiplyIntegerDesc
from .operators.quantized.products import MatrixMultiplyIntegerToFloatDesc as MatrixMultiplyIntegerToFloatDesc
from .operators.quantized.products import QuantizedLinearAveragePoolingDesc as QuantizedLinearAveragePoolingDesc
from .operators.quantized.products import QuantizedLinearConvolutionDesc as QuantizedLinearConvolutionDesc
from .operators.quantized.products import QuantizedLinearMatrixMultiplyDesc as QuantizedLinearMatrixMultiplyDesc
from .operators.recurrent.block_cell import GRUBlockCellDesc as GRUBlockCellDesc
from .operators.recurrent.block_cell import GRUBlockCellGradDesc as GRUBlockCellGradDesc
from .operators.recurrent.block_cell import gru_block_cell_weight_gradients as gru_block_cell_weight_gradients
from .operators.recurrent.cudnn import CudnnRNNBackpropV3Desc as CudnnRNNBackpropV3Desc
from .operators.recurrent.cudnn import CudnnRNNV3Desc as CudnnRNNV3Desc
from .operators.recurrent.gradient import GRUGradDesc as GRUGradDesc
from .operators.recurrent.gradient import LSTMGradDesc as LSTMGradDesc
from .operators.recurrent.gradient import RNNGradDesc as RNNGradDesc
from .operators.recurrent.layer import GRUDesc as GRUDesc
from .operators.recurrent.layer import LSTMDesc as LSTMDesc
from .operators.recurrent.layer import RNNDesc as RNNDesc
from .operators.recurrent.layer import RecurrentDesc as RecurrentDesc
from .operators.recurrent.params import ParamsLayout as ParamsLayout
from .operators.recurrent.params import canonical_to_params as canonical_to_params
from .operators.recurrent.params import params_size as params_size
from .operators.recurrent.params import params_to_canonical as params_to_canonical
from .operators.recurrent.params import params_to_weights_and_biases as params_to_weights_and_biases
from .operators.recurrent.params import weights_and_biases_to_params as weights_and_biases_to_params
from .operators.recurrent.training import GRUTrainingDesc as GRUTrainingDesc
from .operators.recurrent.training import LSTMTrainingDesc as LSTMTrainingDesc
from .operators.recurrent.training import RNNTrainingDesc as RNNTrainingDesc
from .operators.reduction import ArgmaxDesc as ArgmaxDesc
from .operators.reduction import ArgminDesc as ArgminDesc
from .operators.reduction import CumulativeProductDesc as CumulativeProductDesc
from .operators.reduction import CumulativeSummationDesc as CumulativeSummationDesc
from .operators.reduction import ReduceDesc as ReduceDesc
from .operators.reduction import TopK1Desc as TopK1Desc
from .operators.reduction import TopKDesc as TopKDesc
from .operators.resampling import Resample1Desc as Resample1Desc
from .operators.resampling import Resample2Desc as Resample2Desc
from .operators.resampling import Resample3Desc as Resample3Desc
from .operators.resampling import ResampleDesc as ResampleDesc
from .operators.resampling import ResampleGrad1Desc as ResampleGrad1Desc
from .operators.resampling import ResampleGradDesc as ResampleGradDesc
from .operators.resampling import Upsample2DDesc as Upsample2DDesc
from .operators.resampling import ValueScale2DDesc as ValueScale2DDesc
from .reference.evaluation import reference as reference
from .validation.checking import check as check
from .validation.checking import lowest_level as lowest_level
from .validation.features import FeatureDataFeatureLevels as FeatureDataFeatureLevels
from .validation.features import FeatureDataTensorDataTypeSupport as FeatureDataTensorDataTypeSupport
from .validation.features import FeatureQueryFeatureLevels as FeatureQueryFeatureLevels
from .validation.features import FeatureQueryTensorDataTypeSupport as FeatureQueryTensorDataTypeSupport
from .validation.features import check_feature_support as check_feature_support
__version__: str
__all__ = [
    "ActivationCeluDesc",
    "ActivationDesc",
    "ActivationEluDesc",
    "ActivationGeluDesc",
    "ActivationHardSigmoidDesc",
    "ActivationHardSwishDesc",
    "ActivationHardmax1Desc",
    "ActivationHardmaxDesc",
    "ActivationIdentityDesc",
    "ActivationLeakyReluDesc",
    "ActivationLinearDesc",
    "ActivationLogSoftmax1Desc",
    "ActivationLogSoftmaxDesc",
    "ActivationParameterizedReluDesc",
    "ActivationParametricSoftplusDesc",
    "ActivationReluDesc",
    "ActivationReluGradDesc",
    "ActivationScaledEluDesc",
    "ActivationScaledTanhDesc",
    "ActivationShrinkDesc",
    "ActivationSigmoidDesc",
    "ActivationSoftmax1Desc",
    "ActivationSoftmaxDesc",
    "ActivationSoftplusDesc",
    "ActivationSoftsignDesc",
    "ActivationSwishDesc",
    "ActivationTanhDesc",
    "ActivationThresholdedReluDesc",
    "AdamOptimizerDesc",
    "ArgmaxDesc",
    "ArgminDesc",
    "AveragePooling1Desc",
    "AveragePoolingDesc",
    "AveragePoolingGradDesc",
    "AxisDirection",
    "BatchNormalizationDesc",
    "BatchNormalizationGradDesc",
    "BatchNormalizationTrainingDesc",
    "BatchNormalizationTrainingGradDesc",
    "BindError",
    "BindingProperties",
    "Buffer",
    "CastDesc",
    "Comparison",
    "CompileError",
    "CompiledGraph",
    "CompiledOperator",
    "ConstantNode",
    "ConvolutionDesc",
    "ConvolutionDirection",
    "ConvolutionIntegerDesc",
    "ConvolutionMode",
    "CudnnRNNBackpropV3Desc",
    "CudnnRNNV3Desc",
    "CumulativeProductDesc",
    "CumulativeSummationDesc",
    "DataFormat",
    "DataType",
    "DepthSpaceOrder",
    "DepthToSpace1Desc",
    "DepthToSpaceDesc",
    "DequantizeDesc",
    "DescError",
    "Device",
    "DeviceError",
    "DiagonalMatrix1Desc",
    "DiagonalMatrixDesc",
    "Dispatch",
    "DispatchError",
    "DmlError",
    "DynamicQuantizeLinearDesc",
    "ElementWiseAbsDesc",
    "ElementWiseAcosDesc",
    "ElementWiseAcoshDesc",
    "ElementWiseAdd1Desc",
    "ElementWiseAddDesc",
    "ElementWiseAsinDesc",
    "ElementWiseAsinhDesc",
    "ElementWiseAtanDesc",
    "ElementWiseAtanYXDesc",
    "ElementWiseAtanhDesc",
    "ElementWiseBitAndDesc",
    "ElementWiseBitCountDesc",
    "ElementWiseBitNotDesc",
    "ElementWiseBitOrDesc",
    "ElementWiseBitShiftLeftDesc",
    "ElementWiseBitShiftRightDesc",
    "ElementWiseBitXorDesc",
    "ElementWiseCeilDesc",
    "ElementWiseClip1Desc",
    "ElementWiseClipDesc",
    "ElementWiseClipGrad1Desc",
    "ElementWiseClipGradDesc",
    "ElementWiseConstantPowDesc",
    "ElementWiseCosDesc",
    "ElementWiseCoshDesc",
    "ElementWiseDequantizeLinearDesc",
    "ElementWiseDifferenceSquareDesc",
    "ElementWiseDivideDesc",
    "ElementWiseErfDesc",
    "ElementWiseExpDesc",
    "ElementWiseFloorDesc",
    "ElementWiseIdentityDesc",
    "ElementWiseIfDesc",
    "ElementWiseIsInfinityDesc",
    "ElementWiseIsNaNDesc",
    "ElementWiseLogDesc",
    "ElementWiseLogicalAndDesc",
    "ElementWiseLogicalEqualsDesc",
    "ElementWiseLogicalGreaterThanDesc",
    "ElementWiseLogicalGreaterThanOrEqualDesc",
    "ElementWiseLogicalLessThanDesc",
    "ElementWiseLogicalLessThanOrEqualDesc",
    "ElementWiseLogicalNotDesc",
    "ElementWiseLogicalOrDesc",
    "ElementWiseLogicalXorDesc",
    "ElementWiseMaxDesc",
    "ElementWiseMeanDesc",
    "ElementWiseMinDesc",
    "ElementWiseModulusFloorDesc",
    "ElementWiseModulusTruncateDesc",
    "ElementWiseMultiplyDesc",
    "ElementWiseNegateDesc",
    "ElementWisePowDesc",
    "ElementWiseQuantizeLinearDesc",
    "ElementWiseQuantizedLinearAddDesc",
    "ElementWiseRecipDesc",
    "ElementWiseRoundDesc",
    "ElementWiseSignDesc",
    "ElementWiseSinDesc",
    "ElementWiseSinhDesc",
    "ElementWiseSqrtDesc",
    "ElementWiseSubtractDesc",
    "ElementWiseTanDesc",
    "ElementWiseTanhDesc",
    "ElementWiseThresholdDesc",
    "ExecutionFlags",
    "Explanation",
    "Feature",
    "FeatureDataFeatureLevels",
    "FeatureDataTensorDataTypeSupport",
    "FeatureLevel",
    "FeatureQueryFeatureLevels",
    "FeatureQueryTensorDataTypeSupport",
    "FillValueConstantDesc",
    "FillValueSequenceDesc",
    "FoldDesc",
    "FusedBatchNormGradV3Desc",
    "FusedBatchNormV3Desc",
    "GEMMDesc",
    "GRUBlockCellDesc",
    "GRUBlockCellGradDesc",
    "GRUDesc",
    "GRUGradDesc",
    "GRUTrainingDesc",
    "GatherDesc",
    "GatherElementsDesc",
    "GatherND1Desc",
    "GatherNDDesc",
    "Graph",
    "GraphBuilder",
    "GraphEdgeType",
    "GraphNodeType",
    "GraphReport",
    "HResult",
    "InputEdge",
    "IntermediateEdge",
    "InterpolationMode",
    "IsInfinityMode",
    "JoinDesc",
    "LPNormalizationDesc",
    "LPPooling1Desc",
    "LPPoolingDesc",
    "LSTMDesc",
    "LSTMGradDesc",
    "LSTMTrainingDesc",
    "LocalResponseNormalizationDesc",
    "LocalResponseNormalizationGradDesc",
    "MatrixMultiplyIntegerDesc",
    "MatrixMultiplyIntegerToFloatDesc",
    "MatrixTransform",
    "MaxPooling1Desc",
    "MaxPooling2Desc",
    "MaxPoolingDesc",
    "MaxPoolingGradDesc",
    "MaxUnpoolingDesc",
    "MeanVarianceNormalization1Desc",
    "MeanVarianceNormalization2Desc",
    "MeanVarianceNormalizationDesc",
    "MultiheadAttention1Desc",
    "MultiheadAttentionDesc",
    "MultiheadAttentionMaskType",
    "NodeDifference",
    "NonzeroCoordinatesDesc",
    "OneHotDesc",
    "OperatorDesc",
    "OperatorInitializer",
    "OperatorNode",
    "OutputEdge",
    "Outputs",
    "Padding1Desc",
    "PaddingDesc",
    "PaddingMode",
    "ParamsLayout",
    "PickleError",
    "PlanReport",
    "PreparedGraph",
    "PreparedOperator",
    "Problem",
    "Profile",
    "ProfiledNode",
    "QuantizationType",
    "QuantizeDesc",
    "QuantizedLinearAveragePoolingDesc",
    "QuantizedLinearConvolutionDesc",
    "QuantizedLinearMatrixMultiplyDesc",
    "RNNDesc",
    "RNNGradDesc",
    "RNNTrainingDesc",
    "ROIAlign1Desc",
    "ROIAlignDesc",
    "ROIAlignGradDesc",
    "ROIPoolingDesc",
    "RandomGeneratorDesc",
    "RandomGeneratorType",
    "RecurrentDesc",
    "RecurrentDirection",
    "ReduceDesc",
    "ReduceFunction",
    "Resample1Desc",
    "Resample2Desc",
    "Resample3Desc",
    "ResampleDesc",
    "ResampleGrad1Desc",
    "ResampleGradDesc",
    "Reserve",
    "ReverseSubsequencesDesc",
    "RnnDirection",
    "RnnInputMode",
    "RnnMode",
    "RoundingMode",
    "ScaleBias",
    "ScatterDesc",
    "ScatterNDDesc",
    "Size2D",
    "Slice1Desc",
    "SliceDesc",
    "SliceGradDesc",
    "SpaceToDepth1Desc",
    "SpaceToDepthDesc",
    "SplitDesc",
    "TensorDesc",
    "TensorFlags",
    "TensorType",
    "TileDesc",
    "TopK1Desc",
    "TopKDesc",
    "UnfoldDesc",
    "Upsample2DDesc",
    "ValueScale2DDesc",
    "canonical_to_params",
    "check",
    "check_feature_support",
    "compare",
    "compile",
    "device",
    "eager",
    "explain",
    "gru_block_cell_weight_gradients",
    "list_devices",
    "load_serialized",
    "lowest_level",
    "pack_int4",
    "params_size",
    "params_to_canonical",
    "params_to_weights_and_biases",
    "reference",
    "unpack_int4",
    "weights_and_biases_to_params",
    "x",
]
