# Written by `python -m dmlpy.x.stubs`: do not edit.
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, overload
from numpy import bool_, dtype, floating, generic, integer, number
from dmlpy.description.descs import FusableDesc, OperatorDesc
from dmlpy.operators.activation import ActivationDesc
from dmlpy.description.enums import AxisDirection
from dmlpy.description.enums import ConvolutionDirection
from dmlpy.description.enums import ConvolutionMode
from dmlpy.description.enums import DataType
from dmlpy.description.enums import DepthSpaceOrder
from dmlpy.description.enums import ExecutionFlags
from dmlpy.description.enums import Feature
from dmlpy.description.enums import FeatureLevel
from dmlpy.description.enums import GraphEdgeType
from dmlpy.description.enums import GraphNodeType
from dmlpy.description.enums import InterpolationMode
from dmlpy.description.enums import IsInfinityMode
from dmlpy.description.enums import MatrixTransform
from dmlpy.description.enums import MultiheadAttentionMaskType
from dmlpy.description.enums import PaddingMode
from dmlpy.description.enums import QuantizationType
from dmlpy.description.enums import RandomGeneratorType
from dmlpy.description.enums import RecurrentDirection
from dmlpy.description.enums import ReduceFunction
from dmlpy.description.enums import RoundingMode
from dmlpy.description.enums import TensorFlags
from dmlpy.description.enums import TensorType
from dmlpy.description.tensors import TensorDesc
from dmlpy.description.value_structs import ScaleBias
from dmlpy.description.value_structs import Size2D
from dmlpy.devices.plan import BindingProperties
from dmlpy.graphs.graph import Graph
from dmlpy.graphs.nodes import ConstantNode
from dmlpy.graphs.nodes import InputEdge
from dmlpy.graphs.nodes import IntermediateEdge
from dmlpy.graphs.nodes import OperatorNode
from dmlpy.graphs.nodes import OutputEdge
from dmlpy.operators.activation import ActivationCeluDesc
from dmlpy.operators.activation import ActivationEluDesc
from dmlpy.operators.activation import ActivationGeluDesc
from dmlpy.operators.activation import ActivationHardSigmoidDesc
from dmlpy.operators.activation import ActivationHardSwishDesc
from dmlpy.operators.activation import ActivationHardmax1Desc
from dmlpy.operators.activation import ActivationHardmaxDesc
from dmlpy.operators.activation import ActivationIdentityDesc
from dmlpy.operators.activation import ActivationLeakyReluDesc
from dmlpy.operators.activation import ActivationLinearDesc
from dmlpy.operators.activation import ActivationLogSoftmax1Desc
from dmlpy.operators.activation import ActivationLogSoftmaxDesc
from dmlpy.operators.activation import ActivationParameterizedReluDesc
from dmlpy.operators.activation import ActivationParametricSoftplusDesc
from dmlpy.operators.activation import ActivationReluDesc
from dmlpy.operators.activation import ActivationReluGradDesc
from dmlpy.operators.activation import ActivationScaledEluDesc
from dmlpy.operators.activation import ActivationScaledTanhDesc
from dmlpy.operators.activation import ActivationShrinkDesc
from dmlpy.operators.activation import ActivationSigmoidDesc
from dmlpy.operators.activation import ActivationSoftmax1Desc
from dmlpy.operators.activation import ActivationSoftmaxDesc
from dmlpy.operators.activation import ActivationSoftplusDesc
from dmlpy.operators.activation import ActivationSoftsignDesc
from dmlpy.operators.activation import ActivationSwishDesc
from dmlpy.operators.activation import ActivationTanhDesc
from dmlpy.operators.activation import ActivationThresholdedReluDesc
from dmlpy.operators.attention import MultiheadAttention1Desc
from dmlpy.operators.attention import MultiheadAttentionDesc
from dmlpy.operators.convolution import ConvolutionDesc
from dmlpy.operators.elementwise.arithmetic import ElementWiseAdd1Desc
from dmlpy.operators.elementwise.arithmetic import ElementWiseAddDesc
from dmlpy.operators.elementwise.arithmetic import ElementWiseAtanYXDesc
from dmlpy.operators.elementwise.arithmetic import ElementWiseConstantPowDesc
from dmlpy.operators.elementwise.arithmetic import ElementWiseDifferenceSquareDesc
from dmlpy.operators.elementwise.arithmetic import ElementWiseDivideDesc
from dmlpy.operators.elementwise.arithmetic import ElementWiseMaxDesc
from dmlpy.operators.elementwise.arithmetic import ElementWiseMeanDesc
from dmlpy.operators.elementwise.arithmetic import ElementWiseMinDesc
from dmlpy.operators.elementwise.arithmetic import ElementWiseModulusFloorDesc
from dmlpy.operators.elementwise.arithmetic import ElementWiseModulusTruncateDesc
from dmlpy.operators.elementwise.arithmetic import ElementWiseMultiplyDesc
from dmlpy.operators.elementwise.arithmetic import ElementWisePowDesc
from dmlpy.operators.elementwise.arithmetic import ElementWiseSubtractDesc
from dmlpy.operators.elementwise.logic import ElementWiseBitAndDesc
from dmlpy.operators.elementwise.logic import ElementWiseBitCountDesc
from dmlpy.operators.elementwise.logic import ElementWiseBitNotDesc
from dmlpy.operators.elementwise.logic import ElementWiseBitOrDesc
from dmlpy.operators.elementwise.logic import ElementWiseBitShiftLeftDesc
from dmlpy.operators.elementwise.logic import ElementWiseBitShiftRightDesc
from dmlpy.operators.elementwise.logic import ElementWiseBitXorDesc
from dmlpy.operators.elementwise.logic import ElementWiseIfDesc
from dmlpy.operators.elementwise.logic import ElementWiseIsInfinityDesc
from dmlpy.operators.elementwise.logic import ElementWiseIsNaNDesc
from dmlpy.operators.elementwise.logic import ElementWiseLogicalAndDesc
from dmlpy.operators.elementwise.logic import ElementWiseLogicalEqualsDesc
from dmlpy.operators.elementwise.logic import ElementWiseLogicalGreaterThanDesc
from dmlpy.operators.elementwise.logic import ElementWiseLogicalGreaterThanOrEqualDesc
from dmlpy.operators.elementwise.logic import ElementWiseLogicalLessThanDesc
from dmlpy.operators.elementwise.logic import ElementWiseLogicalLessThanOrEqualDesc
from dmlpy.operators.elementwise.logic import ElementWiseLogicalNotDesc
from dmlpy.operators.elementwise.logic import ElementWiseLogicalOrDesc
from dmlpy.operators.elementwise.logic import ElementWiseLogicalXorDesc
from dmlpy.operators.elementwise.math import ElementWiseAbsDesc
from dmlpy.operators.elementwise.math import ElementWiseAcosDesc
from dmlpy.operators.elementwise.math import ElementWiseAcoshDesc
from dmlpy.operators.elementwise.math import ElementWiseAsinDesc
from dmlpy.operators.elementwise.math import ElementWiseAsinhDesc
from dmlpy.operators.elementwise.math import ElementWiseAtanDesc
from dmlpy.operators.elementwise.math import ElementWiseAtanhDesc
from dmlpy.operators.elementwise.math import ElementWiseCeilDesc
from dmlpy.operators.elementwise.math import ElementWiseCosDesc
from dmlpy.operators.elementwise.math import ElementWiseCoshDesc
from dmlpy.operators.elementwise.math import ElementWiseErfDesc
from dmlpy.operators.elementwise.math import ElementWiseExpDesc
from dmlpy.operators.elementwise.math import ElementWiseFloorDesc
from dmlpy.operators.elementwise.math import ElementWiseIdentityDesc
from dmlpy.operators.elementwise.math import ElementWiseLogDesc
from dmlpy.operators.elementwise.math import ElementWiseNegateDesc
from dmlpy.operators.elementwise.math import ElementWiseRecipDesc
from dmlpy.operators.elementwise.math import ElementWiseSignDesc
from dmlpy.operators.elementwise.math import ElementWiseSinDesc
from dmlpy.operators.elementwise.math import ElementWiseSinhDesc
from dmlpy.operators.elementwise.math import ElementWiseSqrtDesc
from dmlpy.operators.elementwise.math import ElementWiseTanDesc
from dmlpy.operators.elementwise.math import ElementWiseTanhDesc
from dmlpy.operators.elementwise.ranges import ElementWiseClip1Desc
from dmlpy.operators.elementwise.ranges import ElementWiseClipDesc
from dmlpy.operators.elementwise.ranges import ElementWiseClipGrad1Desc
from dmlpy.operators.elementwise.ranges import ElementWiseClipGradDesc
from dmlpy.operators.elementwise.ranges import ElementWiseRoundDesc
from dmlpy.operators.elementwise.ranges import ElementWiseThresholdDesc
from dmlpy.operators.generation import DiagonalMatrix1Desc
from dmlpy.operators.generation import DiagonalMatrixDesc
from dmlpy.operators.generation import FillValueConstantDesc
from dmlpy.operators.generation import FillValueSequenceDesc
from dmlpy.operators.generation import RandomGeneratorDesc
from dmlpy.operators.indexing import GatherDesc
from dmlpy.operators.indexing import GatherElementsDesc
from dmlpy.operators.indexing import GatherND1Desc
from dmlpy.operators.indexing import GatherNDDesc
from dmlpy.operators.indexing import NonzeroCoordinatesDesc
from dmlpy.operators.indexing import OneHotDesc
from dmlpy.operators.indexing import ScatterDesc
from dmlpy.operators.indexing import ScatterNDDesc
from dmlpy.operators.matrix import GEMMDesc
from dmlpy.operators.movement.blocks import DepthToSpace1Desc
from dmlpy.operators.movement.blocks import DepthToSpaceDesc
from dmlpy.operators.movement.blocks import FoldDesc
from dmlpy.operators.movement.blocks import SpaceToDepth1Desc
from dmlpy.operators.movement.blocks import SpaceToDepthDesc
from dmlpy.operators.movement.blocks import UnfoldDesc
from dmlpy.operators.movement.copy import CastDesc
from dmlpy.operators.movement.copy import JoinDesc
from dmlpy.operators.movement.copy import ReverseSubsequencesDesc
from dmlpy.operators.movement.copy import SplitDesc
from dmlpy.operators.movement.copy import TileDesc
from dmlpy.operators.movement.slicing import Padding1Desc
from dmlpy.operators.movement.slicing import PaddingDesc
from dmlpy.operators.movement.slicing import Slice1Desc
from dmlpy.operators.movement.slicing import SliceDesc
from dmlpy.operators.movement.slicing import SliceGradDesc
from dmlpy.operators.normalization.batch import BatchNormalizationDesc
from dmlpy.operators.normalization.batch import BatchNormalizationGradDesc
from dmlpy.operators.normalization.batch import BatchNormalizationTrainingDesc
from dmlpy.operators.normalization.batch import BatchNormalizationTrainingGradDesc
from dmlpy.operators.normalization.local_response import LocalResponseNormalizationDesc
from dmlpy.operators.normalization.local_response import LocalResponseNormalizationGradDesc
from dmlpy.operators.normalization.lp import LPNormalizationDesc
from dmlpy.operators.normalization.mean_variance import MeanVarianceNormalization1Desc
from dmlpy.operators.normalization.mean_variance import MeanVarianceNormalization2Desc
from dmlpy.operators.normalization.mean_variance import MeanVarianceNormalizationDesc
from dmlpy.operators.optimization import AdamOptimizerDesc
from dmlpy.operators.pooling.average import AveragePooling1Desc
from dmlpy.operators.pooling.average import AveragePoolingDesc
from dmlpy.operators.pooling.average import AveragePoolingGradDesc
from dmlpy.operators.pooling.lp import LPPooling1Desc
from dmlpy.operators.pooling.lp import LPPoolingDesc
from dmlpy.operators.pooling.maximum import MaxPooling1Desc
from dmlpy.operators.pooling.maximum import MaxPooling2Desc
from dmlpy.operators.pooling.maximum import MaxPoolingDesc
from dmlpy.operators.pooling.maximum import MaxPoolingGradDesc
from dmlpy.operators.pooling.maximum import MaxUnpoolingDesc
from dmlpy.operators.pooling.roi import ROIAlign1Desc
from dmlpy.operators.pooling.roi import ROIAlignDesc
from dmlpy.operators.pooling.roi import ROIAlignGradDesc
from dmlpy.operators.pooling.roi import ROIPoolingDesc
from dmlpy.operators.quantized.linear import DequantizeDesc
from dmlpy.operators.quantized.linear import DynamicQuantizeLinearDesc
from dmlpy.operators.quantized.linear import ElementWiseDequantizeLinearDesc
from dmlpy.operators.quantized.linear import ElementWiseQuantizeLinearDesc
from dmlpy.operators.quantized.linear import ElementWiseQuantizedLinearAddDesc
from dmlpy.operators.quantized.linear import QuantizeDesc
from dmlpy.operators.quantized.products import ConvolutionIntegerDesc
from dmlpy.operators.quantized.products import MatrixMultiplyIntegerDesc
from dmlpy.operators.quantized.products import MatrixMultiplyIntegerToFloatDesc
from dmlpy.operators.quantized.products import QuantizedLinearAveragePoolingDesc
from dmlpy.operators.quantized.products import QuantizedLinearConvolutionDesc
from dmlpy.operators.quantized.products import QuantizedLinearMatrixMultiplyDesc
from dmlpy.operators.recurrent.layer import GRUDesc
from dmlpy.operators.recurrent.layer import LSTMDesc
from dmlpy.operators.recurrent.layer import RNNDesc
from dmlpy.operators.reduction import ArgmaxDesc
from dmlpy.operators.reduction import ArgminDesc
from dmlpy.operators.reduction import CumulativeProductDesc
from dmlpy.operators.reduction import CumulativeSummationDesc
from dmlpy.operators.reduction import ReduceDesc
from dmlpy.operators.reduction import TopK1Desc
from dmlpy.operators.reduction import TopKDesc
from dmlpy.operators.resampling import Resample1Desc
from dmlpy.operators.resampling import Resample2Desc
from dmlpy.operators.resampling import Resample3Desc
from dmlpy.operators.resampling import ResampleDesc
from dmlpy.operators.resampling import ResampleGrad1Desc
from dmlpy.operators.resampling import ResampleGradDesc
from dmlpy.operators.resampling import Upsample2DDesc
from dmlpy.operators.resampling import ValueScale2DDesc
from dmlpy.validation.features import FeatureDataFeatureLevels
from dmlpy.validation.features import FeatureDataTensorDataTypeSupport
from dmlpy.validation.features import FeatureQueryFeatureLevels
from dmlpy.validation.features import FeatureQueryTensorDataTypeSupport
from dmlpy.description.enums import AxisDirection as DML_AXIS_DIRECTION
from dmlpy.devices.plan import BindingProperties as DML_BINDING_PROPERTIES
from dmlpy.description.enums import ConvolutionDirection as DML_CONVOLUTION_DIRECTION
from dmlpy.description.enums import ConvolutionMode as DML_CONVOLUTION_MODE
from dmlpy.description.enums import DepthSpaceOrder as DML_DEPTH_SPACE_ORDER
from dmlpy.description.enums import ExecutionFlags as DML_EXECUTION_FLAGS
from dmlpy.description.enums import Feature as DML_FEATURE
from dmlpy.description.enums import FeatureLevel as DML_FEATURE_LEVEL
from dmlpy.description.enums import GraphEdgeType as DML_GRAPH_EDGE_TYPE
from dmlpy.description.enums import GraphNodeType as DML_GRAPH_NODE_TYPE
from dmlpy.description.enums import InterpolationMode as DML_INTERPOLATION_MODE
from dmlpy.description.enums import IsInfinityMode as DML_IS_INFINITY_MODE
from dmlpy.description.enums import MatrixTransform as DML_MATRIX_TRANSFORM
from dmlpy.description.enums import MultiheadAttentionMaskType as DML_MULTIHEAD_ATTENTION_MASK_TYPE
from dmlpy.description.enums import PaddingMode as DML_PADDING_MODE
from dmlpy.description.enums import QuantizationType as DML_QUANTIZATION_TYPE
from dmlpy.description.enums import RandomGeneratorType as DML_RANDOM_GENERATOR_TYPE
from dmlpy.description.enums import RecurrentDirection as DML_RECURRENT_NETWORK_DIRECTION
from dmlpy.description.enums import ReduceFunction as DML_REDUCE_FUNCTION
from dmlpy.description.enums import RoundingMode as DML_ROUNDING_MODE
from dmlpy.description.enums import DataType as DML_TENSOR_DATA_TYPE
from dmlpy.description.enums import TensorFlags as DML_TENSOR_FLAGS
from dmlpy.description.enums import TensorType as DML_TENSOR_TYPE
from dmlpy.directml.header import DMLCalcBufferTensorSize as DMLCalcBufferTensorSize
from dmlpy.directml.header import DML_BUFFER_BINDING as DML_BUFFER_BINDING
from dmlpy.directml.header import DML_GRAPH_EDGE_DESC as DML_GRAPH_EDGE_DESC
from dmlpy.directml.header import DML_GRAPH_NODE_DESC as DML_GRAPH_NODE_DESC
from dmlpy.directml.header import DML_OPERATOR_DESC as DML_OPERATOR_DESC
from dmlpy.directml.header import DML_TENSOR_DESC as DML_TENSOR_DESC
class DML_ACTIVATION_CELU_OPERATOR_DESC(ActivationCeluDesc):
    @overload
    def __init__(self, *, InputTensor: TensorDesc | None = ..., OutputTensor: TensorDesc | None = ..., Alpha: float | str | floating[Any] = ...) -> None: ...
    @overload
    def __init__(self, *, input_tensor: TensorDesc | None = ..., output_tensor: TensorDesc | None = ..., alpha: float | str | floating[Any] = ...) -> None: ...
class DML_ACTIVATION_ELU_OPERATOR_DESC(ActivationEluDesc):
    @overload
    def __init__(self, *, InputTensor: TensorDesc | None = ..., OutputTensor: TensorDesc | None = ..., Alpha: float | str | floating[Any] = ...) -> None: ...
    @overload
    def __init__(self, *, input_tensor: TensorDesc | None = ..., output_tensor: TensorDesc | None = ..., alpha: float | str | floating[Any] = ...) -> None: ...
class DML_ACTIVATION_GELU_OPERATOR_DESC(ActivationGeluDesc):
    @overload
    def __init__(self, *, InputTensor: TensorDesc | None = ..., OutputTensor: TensorDesc | None = ...) -> None: ...
    @overload
    def __init__(self, *, input_tensor: TensorDesc | None = ..., output_tensor: TensorDesc | None = ...) -> None: ...
class DML_ACTIVATION_HARDMAX1_OPERATOR_DESC(ActivationHardmax1Desc):
    @overload
    def __init__(self, *, InputTensor: TensorDesc | None = ..., OutputTensor: TensorDesc | None = ..., Axes: Sequence[int], AxisCount: int | integer[Any] = ...) -> None: ...
    @overload
    def __init__(self, *, input_tensor: TensorDesc | None = ..., output_tensor: TensorDesc | None = ..., axes: Sequence[int]) -> None: ...
class DML_ACTIVATION_HARDMAX_OPERATOR_DESC(ActivationHardmaxDesc):
    @overload
    def __init__(self, *, InputTensor: TensorDesc | None = ..., OutputTensor: TensorDesc | None = ...) -> None: ...
    @overload
    def __init__(self, *, input_tensor: TensorDesc | None = ..., output_tensor: TensorDesc | None = ...) -> None: ...
class DML_ACTIVATION_HARD_SIGMOID_OPERATOR_DESC(ActivationHardSigmoidDesc):
    @overload
    def __init__(self, *, InputTensor: TensorDesc | None = ..., OutputTensor: TensorDesc | None = ..., Alpha: float | str | floating[Any] = ..., Beta: float | str | floating[Any] = ...) -> None: ...
    @overload
    def __init__(self, *, input_tensor: TensorDesc | None = ..., output_tensor: TensorDesc | None = ..., alpha: float | str | floating[Any] = ..., beta: float | str | floating[Any] = ...) -> None: ...
class DML_ACTIVATION_HARD_SWISH_OPERATOR_DESC(ActivationHardSwishDesc):
    @overload
    def __init__(self, *, InputTensor: TensorDesc | None = ..., OutputTensor: TensorDesc | None = ..., Alpha: float | str | floating[Any] = ..., Beta: float | str | floating[Any] = ...) -> None: ...
    @overload
    def __init__(self, *, input_tensor: TensorDesc | None = ..., output_tensor: TensorDesc | None = ..., alpha: float | str | floating[Any] = ..., beta: float | str | floating[Any] = ...) -> None: ...
class DML_ACTIVATION_IDENTITY_OPERATOR_DESC(ActivationIdentityDesc):
    @overload
    def __init__(self, *, InputTensor: TensorDesc | None = ..., OutputTensor: TensorDesc | None = ...) -> None: ...
    @overload
    def __init__(self, *, input_tensor: TensorDesc | None = ..., output_tensor: TensorDesc | None = ...) -> None: ...
class DML_ACTIVATION_LEAKY_RELU_OPERATOR_DESC(ActivationLeakyReluDesc):
    @overload
    def __init__(self, *, InputTensor: TensorDesc | None = ..., OutputTensor: TensorDesc | None = ..., Alpha: float | str | floating[Any] = ...) -> None: ...
    @overload
    def __init__(self, *, input_tensor: TensorDesc | None = ..., output_tensor: TensorDesc | None = ..., alpha: float | str | floating[Any] = ...) -> None: ...
class DML_ACTIVATION_LINEAR_OPERATOR_DESC(ActivationLinearDesc):
    @overload
    def __init__(self, *, InputTensor: TensorDesc | None = ..., OutputTensor: TensorDesc | None = ..., Alpha: float | str | floating[Any] = ..., Beta: float | str | floating[Any] = ...) -> None: ...
    @overload
    def __init__(self, *, input_tensor: TensorDesc | None = ..., output_tensor: TensorDesc | None = ..., alpha: float | str | floating[Any] = ..., beta: float | str | floating[Any] = ...) -> None: ...
class DML_ACTIVATION_LOG_SOFTMAX1_OPERATOR_DESC(ActivationLogSoftmax1Desc):
    @overload
    def __init__(self, *, InputTensor: TensorDesc | None = ..., OutputTensor: TensorDesc | None = ..., Axes: Sequence[int], AxisCount: int | integer[Any] = ...) -> None: ...
    @overload
    def __init__(self, *, input_tensor: TensorDesc | None = ..., output_tensor: TensorDesc | None = ..., axes: Sequence[int]) -> None: ...
class DML_ACTIVATION_LOG_SOFTMAX_OPERATOR_DESC(ActivationLogSoftmaxDesc):
    @overload
    def __init__(self, *, InputTensor: TensorDesc | None = ..., OutputTensor: TensorDesc | None = ...) -> None: ...
    @overload
    def __init__(self, *, input_tensor: TensorDesc | None = ..., output_tensor: TensorDesc | None = ...) -> None: ...
class DML_ACTIVATION_PARAMETERIZED_RELU_OPERATOR_DESC(ActivationParameterizedReluDesc):
    @overload
    def __init__(self, *, InputTensor: TensorDesc | None = ..., SlopeTensor: TensorDesc | None = ..., OutputTensor: TensorDesc | None = ...) -> None: ...
    @overload
    def __init__(self, *, input_tensor: TensorDesc | None = ..., slope_tensor: TensorDesc | None = ..., output_tensor: TensorDesc | None = ...) -> None: ...
class DML_ACTIVATION_PARAMETRIC_SOFTPLUS_OPERATOR_DESC(ActivationParametricSoftplusDesc):
    @overload
    def __init__(self, *, InputTensor: TensorDesc | None = ..., OutputTensor: TensorDesc | None = ..., Alpha: float | str | floating[Any] = ..., Beta: float | str | floating[Any] = ...) -> None: ...
    @overload
    def __init__(self, *, input_tensor: TensorDesc | None = ..., output_tensor: TensorDesc | None = ..., alpha: float | str | floating[Any] = ..., beta: float | str | floating[Any] = ...) -> None: ...
class DML_ACTIVATION_RELU_GRAD_OPERATOR_DESC(ActivationReluGradDesc):
    @overload
    def __init__(self, *, InputTensor: TensorDesc | None = ..., InputGradientTensor: TensorDesc | None = ..., OutputGradientTensor: TensorDesc | None = ...) -> None: ...
    @overload
    def __init__(self, *, input_tensor: TensorDesc | None = ..., input_gradient_tensor: TensorDesc | None = ..., output_gradient_tensor: TensorDesc | None = ...) -> None: ...
class DML_ACTIVATION_RELU_OPERATOR_DESC(ActivationReluDesc):
    @overload
    def __init__(self, *, InputTensor: TensorDesc | None = ..., OutputTensor: TensorDesc | None = ...) -> None: ...
    @overload
    def __init__(self, *, input_tensor: TensorDesc | None = ..., output_tensor: TensorDesc | None = ...) -> None: ...
class DML_ACTIVATION_SCALED_ELU_OPERATOR_DESC(ActivationScaledEluDesc):
    @overload
    def __init__(self, *, InputTensor: TensorDesc | None = ..., OutputTensor: TensorDesc | None = ..., Alpha: float | str | floating[Any] = ..., Gamma: float | str | floating[Any] = ...) -> None: ...
    @overload
    def __init__(self, *, input_tensor: TensorDesc | None = ..., output_tensor: TensorDesc | None = ..., alpha: float | str | floating[Any] = ..., gamma: float | str | floating[Any] = ...) -> None: ...
class DML_ACTIVATION_SCALED_TANH_OPERATOR_DESC(ActivationScaledTanhDesc):
    @overload
    def __init__(self, *, InputTensor: TensorDesc | None = ..., OutputTensor: TensorDesc | None = ..., Alpha: float | str | floating[Any] = ..., Beta: float | str | floating[Any] = ...) -> None: ...
    @overload
    def __init__(self, *, input_tensor: TensorDesc | None = ..., output_tensor: TensorDesc | None = ..., alpha: float | str | floating[Any] = ..., beta: float | str | floating[Any] = ...) -> None: ...
class DML_ACTIVATION_SHRINK_OPERATOR_DESC(ActivationShrinkDesc):
    @overload
    def __init__(self, *, InputTensor: TensorDesc | None = ..., OutputTensor: TensorDesc | None = ..., Bias: float | str | floating[Any] = ..., Threshold: float | str | floating[Any] = ...) -> None: ...
    @overload
    def __init__(self, *, input_tensor: TensorDesc | None = ..., output_tensor: TensorDesc | None = ..., bias: float | str | floating[Any] = ..., threshold: float | str | floating[Any] = ...) -> None: ...
class DML_ACTIVATION_SIGMOID_OPERATOR_DESC(ActivationSigmoidDesc):
    @overload
    def __init__(self, *, InputTensor: TensorDesc | None = ..., OutputTensor: TensorDesc | None = ...) -> None: ...
    @overload
    def __init__(self, *, input_tensor: TensorDesc | None = ..., output_tensor: TensorDesc | None = ...) -> None: ...
class DML_ACTIVATION_SOFTMAX1_OPERATOR_DESC(ActivationSoftmax1Desc):
    @overload
    def __init__(self, *, InputTensor: TensorDesc | None = ..., OutputTensor: TensorDesc | None = ..., Axes: Sequence[int], AxisCount: int | integer[Any] = ...) -> None: ...
    @overload
    def __init__(self, *, input_tensor: TensorDesc | None = ..., output_tensor: TensorDesc | None = ..., axes: Sequence[int]) -> None: ...
class DML_ACTIVATION_SOFTMAX_OPERATOR_DESC(ActivationSoftmaxDesc):
    @overload
    def __init__(self, *, InputTensor: TensorDesc | None = ..., OutputTensor: TensorDesc | None = ...) -> None: ...
    @overload
    def __init__(self, *, input_tensor: TensorDesc | None = ..., output_tensor: TensorDesc | None = ...) -> None: ...
class DML_ACTIVATION_SOFTPLUS_OPERATOR_DESC(ActivationSoftplusDesc):
    @overload
    def __init__(self, *, InputTensor: TensorDesc | None = ..., OutputTensor: TensorDesc | None = ..., Steepness: float | str | floating[Any] = ...) -> None: ...
    @overload
    def __init__(self, *, input_tensor: TensorDesc | None = ..., output_tensor: TensorDesc | None = ..., steepness: float | str | floating[Any] = ...) -> None: ...
class DML_ACTIVATION_SOFTSIGN_OPERATOR_DESC(ActivationSoftsignDesc):
    @overload
    def __init__(self, *, InputTensor: TensorDesc | None = ..., OutputTensor: TensorDesc | None = ...) -> None: ...
    @overload
    def __init__(self, *, input_tensor: TensorDesc | None = ..., output_tensor: TensorDesc | None = ...) -> None: ...
class DML_ACTIVATION_SWISH_OPERATOR_DESC(ActivationSwishDesc):
    @overload
    def __init__(self, *, InputTensor: TensorDesc | None = ..., OutputTensor: TensorDesc | None = ..., SigmoidInputScale: float | str | floating[Any] = ...) -> None: ...
    @overload
    def __init__(self, *, input_tensor: TensorDesc | None = ..., output_tensor: TensorDesc | None = ..., sigmoid_input_scale: float | str | floating[Any] = ...) -> None: ...
class DML_ACTIVATION_TANH_OPERATOR_DESC(ActivationTanhDesc):
    @overload
    def __init__(self, *, InputTensor: TensorDesc | None = ..., OutputTensor: TensorDesc | None = ...) -> None: ...
    @overload
    def __init__(self, *, input_tensor: TensorDesc | None = ..., output_tensor: TensorDesc | None = ...) -> None: ...
class DML_ACTIVATION_THRESHOLDED_RELU_OPERATOR_DESC(ActivationThresholdedReluDesc):
    @overload
    def __init__(self, *, InputTensor: TensorDesc | None = ..., OutputTensor: TensorDesc | None = ..., Alpha: float | str | floating[Any] = ...) -> None: ...
    @overload
    def __init__(self, *, input_tensor: TensorDesc | None = ..., output_tensor: TensorDesc | None = ..., alpha: float | str | floating[Any] = ...) -> None: ...
class DML_ADAM_OPTIMIZER_OPERATOR_DESC(AdamOptimizerDesc):
    @overload
    def __init__(self, *, InputParametersTensor: TensorDesc, InputFirstMomentTensor: TensorDesc, InputSecondMomentTensor: TensorDesc, GradientTensor: TensorDesc, TrainingStepTensor: TensorDesc, OutputParametersTensor: TensorDesc | None = ..., OutputFirstMomentTensor: TensorDesc | None = ..., OutputSecondMomentTensor: TensorDesc | None = ..., LearningRate: float | str | floating[Any], Beta1: float | str | floating[Any] = ..., Beta2: float | str | floating[Any] = ..., Epsilon: float | str | floating[Any] = ...) -> None: ...
    @overload
    def __init__(self, *, input_parameters_tensor: TensorDesc, input_first_moment_tensor: TensorDesc, input_second_moment_tensor: TensorDesc, gradient_tensor: TensorDesc, training_step_tensor: TensorDesc, output_parameters_tensor: TensorDesc | None = ..., output_first_moment_tensor: TensorDesc | None = ..., output_second_moment_tensor: TensorDesc | None = ..., learning_rate: float | str | floating[Any], beta1: float | str | floating[Any] = ..., beta2: float | str | floating[Any] = ..., epsilon: float | str | floating[Any] = ...) -> None: ...
class DML_ARGMAX_OPERATOR_DESC(ArgmaxDesc):
    @overload
    def __init__(self, *, InputTensor: TensorDesc, OutputTensor: TensorDesc | None = ..., Axes: Sequence[int], AxisDirection: AxisDirection | str | int = ..., AxisCount: int | integer[Any] = ...) -> None: ...
    @overload
    def __init__(self, *, input_tensor: TensorDesc, output_tensor: TensorDesc | None = ..., axes: Sequence[int], axis_direction: AxisDirection | str | int = ...) -> None: ...
class DML_ARGMIN_OPERATOR_DESC(ArgminDesc):
    @overload
    def __init__(self, *, InputTensor: TensorDesc, OutputTensor: TensorDesc | None = ..., Axes: Sequence[int], AxisDirection: AxisDirection | str | int = ..., AxisCount: int | integer[Any] = ...) -> None: ...
    @overload
    def __init__(self, *, input_tensor: TensorDesc, output_tensor: TensorDesc | None = ..., axes: Sequence[int], axis_direction: AxisDirection | str | int = ...) -> None: ...
class DML_AVERAGE_POOLING1_OPERATOR_DESC(AveragePooling1Desc):
    @overload
    def __init__(self, *, InputTensor: TensorDesc, OutputTensor: TensorDesc | None = ..., Strides: Sequence[int], WindowSize: Sequence[int], StartPadding: Sequence[int], EndPadding: Sequence[int], Dilations: Sequence[int], IncludePadding: bool | bool_, DimensionCount: int | integer[Any] = ...) -> None: ...
    @overload
    def __init__(self, *, input_tensor: TensorDesc, output_tensor: TensorDesc | None = ..., strides: Sequence[int], window_size: Sequence[int], start_padding: Sequence[int], end_padding: Sequence[int], dilations: Sequence[int], include_padding: bool | bool_) -> None: ...
class DML_AVERAGE_POOLING_GRAD_OPERATOR_DESC(AveragePoolingGradDesc):
    @overload
    def __init__(self, *, InputGradientTensor: TensorDesc, OutputGradientTensor: TensorDesc, Strides: Sequence[int], WindowSize: Sequence[int], StartPadding: Sequence[int], EndPadding: Sequence[int], IncludePadding: bool | bool_, DimensionCount: int | integer[Any] = ...) -> None: ...
    @overload
    def __init__(self, *, input_gradient_tensor: TensorDesc, output_gradient_tensor: TensorDesc, strides: Sequence[int], window_size: Sequence[int], start_padding: Sequence[int], end_padding: Sequence[int], include_padding: bool | bool_) -> None: ...
class DML_AVERAGE_POOLING_OPERATOR_DESC(AveragePoolingDesc):
    @overload
    def __init__(self, *, InputTensor: TensorDesc, OutputTensor: TensorDesc | None = ..., Strides: Sequence[int], WindowSize: Sequence[int], StartPadding: Sequence[int], EndPadding: Sequence[int], IncludePadding: bool | bool_, DimensionCount: int | integer[Any] = ...) -> None: ...
    @overload
    def __init__(self, *, input_tensor: TensorDesc, output_tensor: TensorDesc | None = ..., strides: Sequence[int], window_size: Sequence[int], start_padding: Sequence[int], end_padding: Sequence[int], include_padding: bool | bool_) -> None: ...
class DML_BATCH_NORMALIZATION_GRAD_OPERATOR_DESC(BatchNormalizationGradDesc):
    @overload
    def __init__(self, *, InputTensor: TensorDesc, InputGradientTensor: TensorDesc, MeanTensor: TensorDesc, VarianceTensor: TensorDesc, ScaleTensor: TensorDesc, OutputGradientTensor: TensorDesc | None = ..., OutputScaleGradientTensor: TensorDesc | None = ..., OutputBiasGradientTensor: TensorDesc | None = ..., Epsilon: float | str | floating[Any] = ...) -> None: ...
    @overload
    def __init__(self, *, input_tensor: TensorDesc, input_gradient_tensor: TensorDesc, mean_tensor: TensorDesc, variance_tensor: TensorDesc, scale_tensor: TensorDesc, output_gradient_tensor: TensorDesc | None = ..., output_scale_gradient_tensor: TensorDesc | None = ..., output_bias_gradient_tensor: TensorDesc | None = ..., epsilon: float | str | floating[Any] = ...) -> None: ...
class DML_BATCH_NORMALIZATION_OPERATOR_DESC(BatchNormalizationDesc):
    @overload
    def __init__(self, *, InputTensor: TensorDesc, MeanTensor: TensorDesc, VarianceTensor: TensorDesc, ScaleTensor: TensorDesc, BiasTensor: TensorDesc, OutputTensor: TensorDesc | None = ..., Spatial: bool | bool_ = ..., Epsilon: float | str | floating[Any] = ..., FusedActivation: ActivationDesc | None = ...) -> None: ...
    @overload
    def __init__(self, *, input_tensor: TensorDesc, mean_tensor: TensorDesc, variance_tensor: TensorDesc, scale_tensor: TensorDesc, bias_tensor: TensorDesc, output_tensor: TensorDesc | None = ..., spatial: bool | bool_ = ..., epsilon: float | str | floating[Any] = ..., fused_activation: ActivationDesc | None = ...) -> None: ...
class DML_BATCH_NORMALIZATION_TRAINING_GRAD_OPERATOR_DESC(BatchNormalizationTrainingGradDesc):
    @overload
    def __init__(self, *, InputTensor: TensorDesc, InputGradientTensor: TensorDesc, MeanTensor: TensorDesc, VarianceTensor: TensorDesc, ScaleTensor: TensorDesc, OutputGradientTensor: TensorDesc | None = ..., OutputScaleGradientTensor: TensorDesc | None = ..., OutputBiasGradientTensor: TensorDesc | None = ..., Epsilon: float | str | floating[Any] = ...) -> None: ...
    @overload
    def __init__(self, *, input_tensor: TensorDesc, input_gradient_tensor: TensorDesc, mean_tensor: TensorDesc, variance_tensor: TensorDesc, scale_tensor: TensorDesc, output_gradient_tensor: TensorDesc | None = ..., output_scale_gradient_tensor: TensorDesc | None = ..., output_bias_gradient_tensor: TensorDesc | None = ..., epsilon: float | str | floating[Any] = ...) -> None: ...
class DML_BATCH_NORMALIZATION_TRAINING_OPERATOR_DESC(BatchNormalizationTrainingDesc):
    @overload
    def __init__(self, *, InputTensor: TensorDesc, ScaleTensor: TensorDesc, BiasTensor: TensorDesc, FusedAddTensor: TensorDesc | None = ..., OutputTensor: TensorDesc | None = ..., OutputMeanTensor: TensorDesc | None = ..., OutputVarianceTensor: TensorDesc | None = ..., Epsilon: float | str | floating[Any] = ..., FusedActivation: ActivationDesc | None = ...) -> None: ...
    @overload
    def __init__(self, *, input_tensor: TensorDesc, scale_tensor: TensorDesc, bias_tensor: TensorDesc, fused_add_tensor: TensorDesc | None = ..., output_tensor: TensorDesc | None = ..., output_mean_tensor: TensorDesc | None = ..., output_variance_tensor: TensorDesc | None = ..., epsilon: float | str | floating[Any] = ..., fused_activation: ActivationDesc | None = ...) -> None: ...
class DML_BUFFER_TENSOR_DESC(TensorDesc):
    @overload
    def __init__(self, *, DataType: DataType | str | int | dtype[Any] | type[generic], Sizes: Sequence[int], Strides: Sequence[int] | None = ..., Flags: TensorFlags | str | int = ..., TotalTensorSizeInBytes: int | integer[Any] | None = ..., GuaranteedBaseOffsetAlignment: int | integer[Any] = ..., DimensionCount: int | integer[Any] = ...) -> None: ...
    @overload
    def __init__(self, *, data_type: DataType | str | int | dtype[Any] | type[generic], sizes: Sequence[int], strides: Sequence[int] | None = ..., flags: TensorFlags | str | int = ..., total_tensor_size_in_bytes: int | integer[Any] | None = ..., guaranteed_base_offset_alignment: int | integer[Any] = ...) -> None: ...
class DML_CAST_OPERATOR_DESC(CastDesc):
    @overload
    def __init__(self, *, InputTensor: TensorDesc, OutputTensor: TensorDesc) -> None: ...
    @overload
    def __init__(self, *, input_tensor: TensorDesc, output_tensor: TensorDesc) -> None: ...
class DML_CONSTANT_DATA_GRAPH_NODE_DESC(ConstantNode):
    @overload
    def __init__(self, *, Data: bytes, Name: str | None = ..., DataSize: int | integer[Any] = ...) -> None: ...
    @overload
    def __init__(self, *, data: bytes, name: str | None = ...) -> None: ...
class DML_CONVOLUTION_INTEGER_OPERATOR_DESC(ConvolutionIntegerDesc):
    @overload
    def __init__(self, *, InputTensor: TensorDesc, InputZeroPointTensor: TensorDesc | None = ..., FilterTensor: TensorDesc, FilterZeroPointTensor: TensorDesc | None = ..., OutputTensor: TensorDesc | None = ..., Strides: Sequence[int], Dilations: Sequence[int], StartPadding: Sequence[int], EndPadding: Sequence[int], GroupCount: int | integer[Any] = ..., DimensionCount: int | integer[Any] = ...) -> None: ...
    @overload
    def __init__(self, *, input_tensor: TensorDesc, input_zero_point_tensor: TensorDesc | None = ..., filter_tensor: TensorDesc, filter_zero_point_tensor: TensorDesc | None = ..., output_tensor: TensorDesc | None = ..., strides: Sequence[int], dilations: Sequence[int], start_padding: Sequence[int], end_padding: Sequence[int], group_count: int | integer[Any] = ...) -> None: ...
class DML_CONVOLUTION_OPERATOR_DESC(ConvolutionDesc):
    @overload
    def __init__(self, *, InputTensor: TensorDesc, FilterTensor: TensorDesc, BiasTensor: TensorDesc | None = ..., OutputTensor: TensorDesc | None = ..., Mode: ConvolutionMode | str | int = ..., Direction: ConvolutionDirection | str | int = ..., Strides: Sequence[int], Dilations: Sequence[int], StartPadding: Sequence[int], EndPadding: Sequence[int], OutputPadding: Sequence[int], GroupCount: int | integer[Any] = ..., FusedActivation: FusableDesc | None = ..., DimensionCount: int | integer[Any] = ...) -> None: ...
    @overload
    def __init__(self, *, input_tensor: TensorDesc, filter_tensor: TensorDesc, bias_tensor: TensorDesc | None = ..., output_tensor: TensorDesc | None = ..., mode: ConvolutionMode | str | int = ..., direction: ConvolutionDirection | str | int = ..., strides: Sequence[int], dilations: Sequence[int], start_padding: Sequence[int], end_padding: Sequence[int], output_padding: Sequence[int], group_count: int | integer[Any] = ..., fused_activation: FusableDesc | None = ...) -> None: ...
class DML_CUMULATIVE_PRODUCT_OPERATOR_DESC(CumulativeProductDesc):
    @overload
    def __init__(self, *, InputTensor: TensorDesc, OutputTensor: TensorDesc | None = ..., Axis: int | integer[Any], AxisDirection: AxisDirection | str | int = ..., HasExclusiveProduct: bool | bool_ = ...) -> None: ...
    @overload
    def __init__(self, *, input_tensor: TensorDesc, output_tensor: TensorDesc | None = ..., axis: int | integer[Any], axis_direction: AxisDirection | str | int = ..., has_exclusive_product: bool | bool_ = ...) -> None: ...
class DML_CUMULATIVE_SUMMATION_OPERATOR_DESC(CumulativeSummationDesc):
    @overload
    def __init__(self, *, InputTensor: TensorDesc, OutputTensor: TensorDesc | None = ..., Axis: int | integer[Any], AxisDirection: AxisDirection | str | int = ..., HasExclusiveSum: bool | bool_ = ...) -> None: ...
    @overload
    def __init__(self, *, input_tensor: TensorDesc, output_tensor: TensorDesc | None = ..., axis: int | integer[Any], axis_direction: AxisDirection | str | int = ..., has_exclusive_sum: bool | bool_ = ...) -> None: ...
class DML_DEPTH_TO_SPACE1_OPERATOR_DESC(DepthToSpace1Desc):
    @overload
    def __init__(self, *, InputTensor: TensorDesc, OutputTensor: TensorDesc | None = ..., BlockSize: int | integer[Any], Order: DepthSpaceOrder | str | int) -> None: ...
    @overload
    def __init__(self, *, input_tensor: TensorDesc, output_tensor: TensorDesc | None = ..., block_size: int | integer[Any], order: DepthSpaceOrder | str | int) -> None: ...
class DML_DEPTH_TO_SPACE_OPERATOR_DESC(DepthToSpaceDesc):
    @overload
    def __init__(self, *, InputTensor: TensorDesc, OutputTensor: TensorDesc | None = ..., BlockSize: int | integer[Any]) -> None: ...
    @overload
    def __init__(self, *, input_tensor: TensorDesc, output_tensor: TensorDesc | None = ..., block_size: int | integer[Any]) -> None: ...
class DML_DEQUANTIZE_OPERATOR_DESC(DequantizeDesc):
    @overload
    def __init__(self, *, InputTensor: TensorDesc, QuantizationType: QuantizationType | str | int, QuantizationTensors: Iterable[TensorDesc], OutputTensor: TensorDesc | None = ..., QuantizationTensorCount: int | integer[Any] = ...) -> None: ...
    @overload
    def __init__(self, *, input_tensor: TensorDesc, quantization_type: QuantizationType | str | int, quantization_tensors: Iterable[TensorDesc], output_tensor: TensorDesc | None = ...) -> None: ...
class DML_DIAGONAL_MATRIX1_OPERATOR_DESC(DiagonalMatrix1Desc):
    @overload
    def __init__(self, *, InputTensor: TensorDesc | None = ..., OutputTensor: TensorDesc | None = ..., ValueDataType: DataType | str | int | dtype[Any] | type[generic], Value: int | float | str | Mapping[str, Any] | number[Any], DiagonalFillBegin: int | integer[Any], DiagonalFillEnd: int | integer[Any]) -> None: ...
    @overload
    def __init__(self, *, input_tensor: TensorDesc | None = ..., output_tensor: TensorDesc | None = ..., value_data_type: DataType | str | int | dtype[Any] | type[generic], value: int | float | str | Mapping[str, Any] | number[Any], diagonal_fill_begin: int | integer[Any], diagonal_fill_end: int | integer[Any]) -> None: ...
class DML_DIAGONAL_MATRIX_OPERATOR_DESC(DiagonalMatrixDesc):
    @overload
    def __init__(self, *, OutputTensor: TensorDesc, Offset: int | integer[Any] = ..., Value: float | str | floating[Any] = ...) -> None: ...
    @overload
    def __init__(self, *, output_tensor: TensorDesc, offset: int | integer[Any] = ..., value: float | str | floating[Any] = ...) -> None: ...
class DML_DYNAMIC_QUANTIZE_LINEAR_OPERATOR_DESC(DynamicQuantizeLinearDesc):
    @overload
    def __init__(self, *, InputTensor: TensorDesc, OutputTensor: TensorDesc | None = ..., OutputScaleTensor: TensorDesc | None = ..., OutputZeroPointTensor: TensorDesc | None = ...) -> None: ...
    @overload
    def __init__(self, *, input_tensor: TensorDesc, output_tensor: TensorDesc | None = ..., output_scale_tensor: TensorDesc | None = ..., output_zero_point_tensor: TensorDesc | None = ...) -> None: ...
class DML_ELEMENT_WISE_ABS_OPERATOR_DESC(ElementWiseAbsDesc):
    @overload
    def __init__(self, *, InputTensor: TensorDesc, OutputTensor: TensorDesc | None = ..., ScaleBias: ScaleBias | Mapping[str, Any] | None = ...) -> None: ...
    @overload
    def __init__(self, *, input_tensor: TensorDesc, output_tensor: TensorDesc | None = ..., scale_bias: ScaleBias | Mapping[str, Any] | None = ...) -> None: ...
class DML_ELEMENT_WISE_ACOSH_OPERATOR_DESC(ElementWiseAcoshDesc):
    @overload
    def __init__(self, *, InputTensor: TensorDesc, OutputTensor: TensorDesc | None = ..., ScaleBias: ScaleBias | Mapping[str, Any] | None = ...) -> None: ...
    @overload
    def __init__(self, *, input_tensor: TensorDesc, output_tensor: TensorDesc | None = ..., scale_bias: ScaleBias | Mapping[str, Any] | None = ...) -> None: ...
class DML_ELEMENT_WISE_ACOS_OPERATOR_DESC(ElementWiseAcosDesc):
    @overload
    def __init__(self, *, InputTensor: TensorDesc, OutputTensor: TensorDesc | None = ..., ScaleBias: ScaleBias | Mapping[str, Any] | None = ...) -> None: ...
    @overload
    def __init__(self, *, input_tensor: TensorDesc, output_tensor: TensorDesc | None = ..., scale_bias: ScaleBias | Mapping[str, Any] | None = ...) -> None: ...
class DML_ELEMENT_WISE_ADD1_OPERATOR_DESC(ElementWiseAdd1Desc):
    @overload
    def __init__(self, *, ATensor: TensorDesc, BTensor: TensorDesc, OutputTensor: TensorDesc | None = ..., FusedActivation: ActivationDesc | None = ...) -> None: ...
    @overload
    def __init__(self, *, a_tensor: TensorDesc, b_tensor: TensorDesc, output_tensor: TensorDesc | None = ..., fused_activation: ActivationDesc | None = ...) -> None: ...
class DML_ELEMENT_WISE_ADD_OPERATOR_DESC(ElementWiseAddDesc):
    @overload
    def __init__(self, *, ATensor: TensorDesc, BTensor: TensorDesc, OutputTensor: TensorDesc | None = ...) -> None: ...
    @overload
    def __init__(self, *, a_tensor: TensorDesc, b_tensor: TensorDesc, output_tensor: TensorDesc | None = ...) -> None: ...
class DML_ELEMENT_WISE_ASINH_OPERATOR_DESC(ElementWiseAsinhDesc):
    @overload
    def __init__(self, *, InputTensor: TensorDesc, OutputTensor: TensorDesc | None = ..., ScaleBias: ScaleBias | Mapping[str, Any] | None = ...) -> None: ...
    @overload
    def __init__(self, *, input_tensor: TensorDesc, output_tensor: TensorDesc | None = ..., scale_bias: ScaleBias | Mapping[str, Any] | None = ...) -> None: ...
class DML_ELEMENT_WISE_ASIN_OPERATOR_DESC(ElementWiseAsinDesc):
    @overload
    def __init__(self, *, InputTensor: TensorDesc, OutputTensor: TensorDesc | None = ..., ScaleBias: ScaleBias | Mapping[str, Any] | None = ...) -> None: ...
    @overload
    def __init__(self, *, input_tensor: TensorDesc, output_tensor: TensorDesc | None = ..., scale_bias: ScaleBias | Mapping[str, Any] | None = ...) -> None: ...
class DML_ELEMENT_WISE_ATANH_OPERATOR_DESC(ElementWiseAtanhDesc):
    @overload
    def __init__(self, *, InputTensor: TensorDesc, OutputTensor: TensorDesc | None = ..., ScaleBias: ScaleBias | Mapping[str, Any] | None = ...) -> None: ...
    @overload
    def __init__(self, *, input_tensor: TensorDesc, output_tensor: TensorDesc | None = ..., scale_bias: ScaleBias | Mapping[str, Any] | None = ...) -> None: ...
class DML_ELEMENT_WISE_ATAN_OPERATOR_DESC(ElementWiseAtanDesc):
    @overload
    def __init__(self, *, InputTensor: TensorDesc, OutputTensor: TensorDesc | None = ..., ScaleBias: ScaleBias | Mapping[str, Any] | None = ...) -> None: ...
    @overload
    def __init__(self, *, input_tensor: TensorDesc, output_tensor: TensorDesc | None = ..., scale_bias: ScaleBias | Mapping[str, Any] | None = ...) -> None: ...
class DML_ELEMENT_WISE_ATAN_YX_OPERATOR_DESC(ElementWiseAtanYXDesc):
    @overload
    def __init__(self, *, ATensor: TensorDesc, BTensor: TensorDesc, OutputTensor: TensorDesc | None = ...) -> None: ...
    @overload
    def __init__(self, *, a_tensor: TensorDesc, b_tensor: TensorDesc, output_tensor: TensorDesc | None = ...) -> None: ...
class DML_ELEMENT_WISE_BIT_AND_OPERATOR_DESC(ElementWiseBitAndDesc):
    @overload
    def __init__(self, *, ATensor: TensorDesc, BTensor: TensorDesc, OutputTensor: TensorDesc | None = ...) -> None: ...
    @overload
    def __init__(self, *, a_tensor: TensorDesc, b_tensor: TensorDesc, output_tensor: TensorDesc | None = ...) -> None: ...
class DML_ELEMENT_WISE_BIT_COUNT_OPERATOR_DESC(ElementWiseBitCountDesc):
    @overload
    def __init__(self, *, InputTensor: TensorDesc, OutputTensor: TensorDesc | None = ...) -> None: ...
    @overload
    def __init__(self, *, input_tensor: TensorDesc, output_tensor: TensorDesc | None = ...) -> None: ...
class DML_ELEMENT_WISE_BIT_NOT_OPERATOR_DESC(ElementWiseBitNotDesc):
    @overload
    def __init__(self, *, InputTensor: TensorDesc, OutputTensor: TensorDesc | None = ...) -> None: ...
    @overload
    def __init__(self, *, input_tensor: TensorDesc, output_tensor: TensorDesc | None = ...) -> None: ...
class DML_ELEMENT_WISE_BIT_OR_OPERATOR_DESC(ElementWiseBitOrDesc):
    @overload
    def __init__(self, *, ATensor: TensorDesc, BTensor: TensorDesc, OutputTensor: TensorDesc | None = ...) -> None: ...
    @overload
    def __init__(self, *, a_tensor: TensorDesc, b_tensor: TensorDesc, output_tensor: TensorDesc | None = ...) -> None: ...
class DML_ELEMENT_WISE_BIT_SHIFT_LEFT_OPERATOR_DESC(ElementWiseBitShiftLeftDesc):
    @overload
    def __init__(self, *, ATensor: TensorDesc, BTensor: TensorDesc, OutputTensor: TensorDesc | None = ...) -> None: ...
    @overload
    def __init__(self, *, a_tensor: TensorDesc, b_tensor: TensorDesc, output_tensor: TensorDesc | None = ...) -> None: ...
class DML_ELEMENT_WISE_BIT_SHIFT_RIGHT_OPERATOR_DESC(ElementWiseBitShiftRightDesc):
    @overload
    def __init__(self, *, ATensor: TensorDesc, BTensor: TensorDesc, OutputTensor: TensorDesc | None = ...) -> None: ...
    @overload
    def __init__(self, *, a_tensor: TensorDesc, b_tensor: TensorDesc, output_tensor: TensorDesc | None = ...) -> None: ...
class DML_ELEMENT_WISE_BIT_XOR_OPERATOR_DESC(ElementWiseBitXorDesc):
    @overload
    def __init__(self, *, ATensor: TensorDesc, BTensor: TensorDesc, OutputTensor: TensorDesc | None = ...) -> None: ...
    @overload
    def __init__(self, *, a_tensor: TensorDesc, b_tensor: TensorDesc, output_tensor: TensorDesc | None = ...) -> None: ...
class DML_ELEMENT_WISE_CEIL_OPERATOR_DESC(ElementWiseCeilDesc):
    @overload
    def __init__(self, *, InputTensor: TensorDesc, OutputTensor: TensorDesc | None = ..., ScaleBias: ScaleBias | Mapping[str, Any] | None = ...) -> None: ...
    @overload
    def __init__(self, *, input_tensor: TensorDesc, output_tensor: TensorDesc | None = ..., scale_bias: ScaleBias | Mapping[str, Any] | None = ...) -> None: ...
class DML_ELEMENT_WISE_CLIP1_OPERATOR_DESC(ElementWiseClip1Desc):
    @overload
    def __init__(self, *, InputTensor: TensorDesc, OutputTensor: TensorDesc | None = ..., ScaleBias: ScaleBias | Mapping[str, Any] | None = ..., MinMaxDataType: DataType | str | int | dtype[Any] | type[generic], Min: int | float | str | Mapping[str, Any] | number[Any], Max: int | float | str | Mapping[str, Any] | number[Any]) -> None: ...
    @overload
    def __init__(self, *, input_tensor: TensorDesc, output_tensor: TensorDesc | None = ..., scale_bias: ScaleBias | Mapping[str, Any] | None = ..., min_max_data_type: DataType | str | int | dtype[Any] | type[generic], min: int | float | str | Mapping[str, Any] | number[Any], max: int | float | str | Mapping[str, Any] | number[Any]) -> None: ...
class DML_ELEMENT_WISE_CLIP_GRAD1_OPERATOR_DESC(ElementWiseClipGrad1Desc):
    @overload
    def __init__(self, *, InputTensor: TensorDesc, InputGradientTensor: TensorDesc, OutputGradientTensor: TensorDesc | None = ..., MinMaxDataType: DataType | str | int | dtype[Any] | type[generic], Min: int | float | str | Mapping[str, Any] | number[Any], Max: int | float | str | Mapping[str, Any] | number[Any]) -> None: ...
    @overload
    def __init__(self, *, input_tensor: TensorDesc, input_gradient_tensor: TensorDesc, output_gradient_tensor: TensorDesc | None = ..., min_max_data_type: DataType | str | int | dtype[Any] | type[generic], min: int | float | str | Mapping[str, Any] | number[Any], max: int | float | str | Mapping[str, Any] | number[Any]) -> None: ...
class DML_ELEMENT_WISE_CLIP_GRAD_OPERATOR_DESC(ElementWiseClipGradDesc):
    @overload
    def __init__(self, *, InputTensor: TensorDesc, InputGradientTensor: TensorDesc, OutputGradientTensor: TensorDesc | None = ..., Min: float | str | floating[Any], Max: float | str | floating[Any]) -> None: ...
    @overload
    def __init__(self, *, input_tensor: TensorDesc, input_gradient_tensor: TensorDesc, output_gradient_tensor: TensorDesc | None = ..., min: float | str | floating[Any], max: float | str | floating[Any]) -> None: ...
class DML_ELEMENT_WISE_CLIP_OPERATOR_DESC(ElementWiseClipDesc):
    @overload
    def __init__(self, *, InputTensor: TensorDesc | None = ..., OutputTensor: TensorDesc | None = ..., ScaleBias: ScaleBias | Mapping[str, Any] | None = ..., Min: float | str | floating[Any], Max: float | str | floating[Any]) -> None: ...
    @overload
    def __init__(self, *, input_tensor: TensorDesc | None = ..., output_tensor: TensorDesc | None = ..., scale_bias: ScaleBias | Mapping[str, Any] | None = ..., min: float | str | floating[Any], max: float | str | floating[Any]) -> None: ...
class DML_ELEMENT_WISE_CONSTANT_POW_OPERATOR_DESC(ElementWiseConstantPowDesc):
    @overload
    def __init__(self, *, InputTensor: TensorDesc, OutputTensor: TensorDesc | None = ..., ScaleBias: ScaleBias | Mapping[str, Any] | None = ..., Exponent: float | str | floating[Any]) -> None: ...
    @overload
    def __init__(self, *, input_tensor: TensorDesc, output_tensor: TensorDesc | None = ..., scale_bias: ScaleBias | Mapping[str, Any] | None = ..., exponent: float | str | floating[Any]) -> None: ...
class DML_ELEMENT_WISE_COSH_OPERATOR_DESC(ElementWiseCoshDesc):
    @overload
    def __init__(self, *, InputTensor: TensorDesc, OutputTensor: TensorDesc | None = ..., ScaleBias: ScaleBias | Mapping[str, Any] | None = ...) -> None: ...
    @overload
    def __init__(self, *, input_tensor: TensorDesc, output_tensor: TensorDesc | None = ..., scale_bias: ScaleBias | Mapping[str, Any] | None = ...) -> None: ...
class DML_ELEMENT_WISE_COS_OPERATOR_DESC(ElementWiseCosDesc):
    @overload
    def __init__(self, *, InputTensor: TensorDesc, OutputTensor: TensorDesc | None = ..., ScaleBias: ScaleBias | Mapping[str, Any] | None = ...) -> None: ...
    @overload
    def __init__(self, *, input_tensor: TensorDesc, output_tensor: TensorDesc | None = ..., scale_bias: ScaleBias | Mapping[str, Any] | None = ...) -> None: ...
class DML_ELEMENT_WISE_DEQUANTIZE_LINEAR_OPERATOR_DESC(ElementWiseDequantizeLinearDesc):
    @overload
    def __init__(self, *, InputTensor: TensorDesc, ScaleTensor: TensorDesc, ZeroPointTensor: TensorDesc | None = ..., OutputTensor: TensorDesc | None = ...) -> None: ...
    @overload
    def __init__(self, *, input_tensor: TensorDesc, scale_tensor: TensorDesc, zero_point_tensor: TensorDesc | None = ..., output_tensor: TensorDesc | None = ...) -> None: ...
class DML_ELEMENT_WISE_DIFFERENCE_SQUARE_OPERATOR_DESC(ElementWiseDifferenceSquareDesc):
    @overload
    def __init__(self, *, ATensor: TensorDesc, BTensor: TensorDesc, OutputTensor: TensorDesc | None = ...) -> None: ...
    @overload
    def __init__(self, *, a_tensor: TensorDesc, b_tensor: TensorDesc, output_tensor: TensorDesc | None = ...) -> None: ...
class DML_ELEMENT_WISE_DIVIDE_OPERATOR_DESC(ElementWiseDivideDesc):
    @overload
    def __init__(self, *, ATensor: TensorDesc, BTensor: TensorDesc, OutputTensor: TensorDesc | None = ...) -> None: ...
    @overload
    def __init__(self, *, a_tensor: TensorDesc, b_tensor: TensorDesc, output_tensor: TensorDesc | None = ...) -> None: ...
class DML_ELEMENT_WISE_ERF_OPERATOR_DESC(ElementWiseErfDesc):
    @overload
    def __init__(self, *, InputTensor: TensorDesc, OutputTensor: TensorDesc | None = ..., ScaleBias: ScaleBias | Mapping[str, Any] | None = ...) -> None: ...
    @overload
    def __init__(self, *, input_tensor: TensorDesc, output_tensor: TensorDesc | None = ..., scale_bias: ScaleBias | Mapping[str, Any] | None = ...) -> None: ...
class DML_ELEMENT_WISE_EXP_OPERATOR_DESC(ElementWiseExpDesc):
    @overload
    def __init__(self, *, InputTensor: TensorDesc, OutputTensor: TensorDesc | None = ..., ScaleBias: ScaleBias | Mapping[str, Any] | None = ...) -> None: ...
    @overload
    def __init__(self, *, input_tensor: TensorDesc, output_tensor: TensorDesc | None = ..., scale_bias: ScaleBias | Mapping[str, Any] | None = ...) -> None: ...
class DML_ELEMENT_WISE_FLOOR_OPERATOR_DESC(ElementWiseFloorDesc):
    @overload
    def __init__(self, *, InputTensor: TensorDesc, OutputTensor: TensorDesc | None = ..., ScaleBias: ScaleBias | Mapping[str, Any] | None = ...) -> None: ...
    @overload
    def __init__(self, *, input_tensor: TensorDesc, output_tensor: TensorDesc | None = ..., scale_bias: ScaleBias | Mapping[str, Any] | None = ...) -> None: ...
class DML_ELEMENT_WISE_IDENTITY_OPERATOR_DESC(ElementWiseIdentityDesc):
    @overload
    def __init__(self, *, InputTensor: TensorDesc, OutputTensor: TensorDesc | None = ..., ScaleBias: ScaleBias | Mapping[str, Any] | None = ...) -> None: ...
    @overload
    def __init__(self, *, input_tensor: TensorDesc, output_tensor: TensorDesc | None = ..., scale_bias: ScaleBias | Mapping[str, Any] | None = ...) -> None: ...
class DML_ELEMENT_WISE_IF_OPERATOR_DESC(ElementWiseIfDesc):
    @overload
    def __init__(self, *, ConditionTensor: TensorDesc, ATensor: TensorDesc, BTensor: TensorDesc, OutputTensor: TensorDesc | None = ...) -> None: ...
    @overload
    def __init__(self, *, condition_tensor: TensorDesc, a_tensor: TensorDesc, b_tensor: TensorDesc, output_tensor: TensorDesc | None = ...) -> None: ...
class DML_ELEMENT_WISE_IS_INFINITY_OPERATOR_DESC(ElementWiseIsInfinityDesc):
    @overload
    def __init__(self, *, InputTensor: TensorDesc, OutputTensor: TensorDesc | None = ..., InfinityMode: IsInfinityMode | str | int = ...) -> None: ...
    @overload
    def __init__(self, *, input_tensor: TensorDesc, output_tensor: TensorDesc | None = ..., infinity_mode: IsInfinityMode | str | int = ...) -> None: ...
class DML_ELEMENT_WISE_IS_NAN_OPERATOR_DESC(ElementWiseIsNaNDesc):
    @overload
    def __init__(self, *, InputTensor: TensorDesc, OutputTensor: TensorDesc | None = ...) -> None: ...
    @overload
    def __init__(self, *, input_tensor: TensorDesc, output_tensor: TensorDesc | None = ...) -> None: ...
class DML_ELEMENT_WISE_LOGICAL_AND_OPERATOR_DESC(ElementWiseLogicalAndDesc):
    @overload
    def __init__(self, *, ATensor: TensorDesc, BTensor: TensorDesc, OutputTensor: TensorDesc | None = ...) -> None: ...
    @overload
    def __init__(self, *, a_tensor: TensorDesc, b_tensor: TensorDesc, output_tensor: TensorDesc | None = ...) -> None: ...
class DML_ELEMENT_WISE_LOGICAL_EQUALS_OPERATOR_DESC(ElementWiseLogicalEqualsDesc):
    @overload
    def __init__(self, *, ATensor: TensorDesc, BTensor: TensorDesc, OutputTensor: TensorDesc | None = ...) -> None: ...
    @overload
    def __init__(self, *, a_tensor: TensorDesc, b_tensor: TensorDesc, output_tensor: TensorDesc | None = ...) -> None: ...
class DML_ELEMENT_WISE_LOGICAL_GREATER_THAN_OPERATOR_DESC(ElementWiseLogicalGreaterThanDesc):
    @overload
    def __init__(self, *, ATensor: TensorDesc, BTensor: TensorDesc, OutputTensor: TensorDesc | None = ...) -> None: ...
    @overload
    def __init__(self, *, a_tensor: TensorDesc, b_tensor: TensorDesc, output_tensor: TensorDesc | None = ...) -> None: ...
class DML_ELEMENT_WISE_LOGICAL_GREATER_THAN_OR_EQUAL_OPERATOR_DESC(ElementWiseLogicalGreaterThanOrEqualDesc):
    @overload
    def __init__(self, *, ATensor: TensorDesc, BTensor: TensorDesc, OutputTensor: TensorDesc | None = ...) -> None: ...
    @overload
    def __init__(self, *, a_tensor: TensorDesc, b_tensor: TensorDesc, output_tensor: TensorDesc | None = ...) -> None: ...
class DML_ELEMENT_WISE_LOGICAL_LESS_THAN_OPERATOR_DESC(ElementWiseLogicalLessThanDesc):
    @overload
    def __init__(self, *, ATensor: TensorDesc, BTensor: TensorDesc, OutputTensor: TensorDesc | None = ...) -> None: ...
    @overload
    def __init__(self, *, a_tensor: TensorDesc, b_tensor: TensorDesc, output_tensor: TensorDesc | None = ...) -> None: ...
class DML_ELEMENT_WISE_LOGICAL_LESS_THAN_OR_EQUAL_OPERATOR_DESC(ElementWiseLogicalLessThanOrEqualDesc):
    @overload
    def __init__(self, *, ATensor: TensorDesc, BTensor: TensorDesc, OutputTensor: TensorDesc | None = ...) -> None: ...
    @overload
    def __init__(self, *, a_tensor: TensorDesc, b_tensor: TensorDesc, output_tensor: TensorDesc | None = ...) -> None: ...
class DML_ELEMENT_WISE_LOGICAL_NOT_OPERATOR_DESC(ElementWiseLogicalNotDesc):
    @overload
    def __init__(self, *, InputTensor: TensorDesc, OutputTensor: TensorDesc | None = ...) -> None: ...
    @overload
    def __init__(self, *, input_tensor: TensorDesc, output_tensor: TensorDesc | None = ...) -> None: ...
class DML_ELEMENT_WISE_LOGICAL_OR_OPERATOR_DESC(ElementWiseLogicalOrDesc):
    @overload
    def __init__(self, *, ATensor: TensorDesc, BTensor: TensorDesc, OutputTensor: TensorDesc | None = ...) -> None: ...
    @overload
    def __init__(self, *, a_tensor: TensorDesc, b_tensor: TensorDesc, output_tensor: TensorDesc | None = ...) -> None: ...
class DML_ELEMENT_WISE_LOGICAL_XOR_OPERATOR_DESC(ElementWiseLogicalXorDesc):
    @overload
    def __init__(self, *, ATensor: TensorDesc, BTensor: TensorDesc, OutputTensor: TensorDesc | None = ...) -> None: ...
    @overload
    def __init__(self, *, a_tensor: TensorDesc, b_tensor: TensorDesc, output_tensor: TensorDesc | None = ...) -> None: ...
class DML_ELEMENT_WISE_LOG_OPERATOR_DESC(ElementWiseLogDesc):
    @overload
    def __init__(self, *, InputTensor: TensorDesc, OutputTensor: TensorDesc | None = ..., ScaleBias: ScaleBias | Mapping[str, Any] | None = ...) -> None: ...
    @overload
    def __init__(self, *, input_tensor: TensorDesc, output_tensor: TensorDesc | None = ..., scale_bias: ScaleBias | Mapping[str, Any] | None = ...) -> None: ...
class DML_ELEMENT_WISE_MAX_OPERATOR_DESC(ElementWiseMaxDesc):
    @overload
    def __init__(self, *, ATensor: TensorDesc, BTensor: TensorDesc, OutputTensor: TensorDesc | None = ...) -> None: ...
    @overload
    def __init__(self, *, a_tensor: TensorDesc, b_tensor: TensorDesc, output_tensor: TensorDesc | None = ...) -> None: ...
class DML_ELEMENT_WISE_MEAN_OPERATOR_DESC(ElementWiseMeanDesc):
    @overload
    def __init__(self, *, ATensor: TensorDesc, BTensor: TensorDesc, OutputTensor: TensorDesc | None = ...) -> None: ...
    @overload
    def __init__(self, *, a_tensor: TensorDesc, b_tensor: TensorDesc, output_tensor: TensorDesc | None = ...) -> None: ...
class DML_ELEMENT_WISE_MIN_OPERATOR_DESC(ElementWiseMinDesc):
    @overload
    def __init__(self, *, ATensor: TensorDesc, BTensor: TensorDesc, OutputTensor: TensorDesc | None = ...) -> None: ...
    @overload
    def __init__(self, *, a_tensor: TensorDesc, b_tensor: TensorDesc, output_tensor: TensorDesc | None = ...) -> None: ...
class DML_ELEMENT_WISE_MODULUS_FLOOR_OPERATOR_DESC(ElementWiseModulusFloorDesc):
    @overload
    def __init__(self, *, ATensor: TensorDesc, BTensor: TensorDesc, OutputTensor: TensorDesc | None = ...) -> None: ...
    @overload
    def __init__(self, *, a_tensor: TensorDesc, b_tensor: TensorDesc, output_tensor: TensorDesc | None = ...) -> None: ...
class DML_ELEMENT_WISE_MODULUS_TRUNCATE_OPERATOR_DESC(ElementWiseModulusTruncateDesc):
    @overload
    def __init__(self, *, ATensor: TensorDesc, BTensor: TensorDesc, OutputTensor: TensorDesc | None = ...) -> None: ...
    @overload
    def __init__(self, *, a_tensor: TensorDesc, b_tensor: TensorDesc, output_tensor: TensorDesc | None = ...) -> None: ...
class DML_ELEMENT_WISE_MULTIPLY_OPERATOR_DESC(ElementWiseMultiplyDesc):
    @overload
    def __init__(self, *, ATensor: TensorDesc, BTensor: TensorDesc, OutputTensor: TensorDesc | None = ...) -> None: ...
    @overload
    def __init__(self, *, a_tensor: TensorDesc, b_tensor: TensorDesc, output_tensor: TensorDesc | None = ...) -> None: ...
class DML_ELEMENT_WISE_NEGATE_OPERATOR_DESC(ElementWiseNegateDesc):
    @overload
    def __init__(self, *, InputTensor: TensorDesc, OutputTensor: TensorDesc | None = ...) -> None: ...
    @overload
    def __init__(self, *, input_tensor: TensorDesc, output_tensor: TensorDesc | None = ...) -> None: ...
class DML_ELEMENT_WISE_POW_OPERATOR_DESC(ElementWisePowDesc):
    @overload
    def __init__(self, *, InputTensor: TensorDesc, ExponentTensor: TensorDesc, OutputTensor: TensorDesc | None = ..., ScaleBias: ScaleBias | Mapping[str, Any] | None = ...) -> None: ...
    @overload
    def __init__(self, *, input_tensor: TensorDesc, exponent_tensor: TensorDesc, output_tensor: TensorDesc | None = ..., scale_bias: ScaleBias | Mapping[str, Any] | None = ...) -> None: ...
class DML_ELEMENT_WISE_QUANTIZED_LINEAR_ADD_OPERATOR_DESC(ElementWiseQuantizedLinearAddDesc):
    @overload
    def __init__(self, *, ATensor: TensorDesc, AScaleTensor: TensorDesc, AZeroPointTensor: TensorDesc | None = ..., BTensor: TensorDesc, BScaleTensor: TensorDesc, BZeroPointTensor: TensorDesc | None = ..., OutputScaleTensor: TensorDesc, OutputZeroPointTensor: TensorDesc | None = ..., OutputTensor: TensorDesc | None = ...) -> None: ...
    @overload
    def __init__(self, *, a_tensor: TensorDesc, a_scale_tensor: TensorDesc, a_zero_point_tensor: TensorDesc | None = ..., b_tensor: TensorDesc, b_scale_tensor: TensorDesc, b_zero_point_tensor: TensorDesc | None = ..., output_scale_tensor: TensorDesc, output_zero_point_tensor: TensorDesc | None = ..., output_tensor: TensorDesc | None = ...) -> None: ...
class DML_ELEMENT_WISE_QUANTIZE_LINEAR_OPERATOR_DESC(ElementWiseQuantizeLinearDesc):
    @overload
    def __init__(self, *, InputTensor: TensorDesc, ScaleTensor: TensorDesc, ZeroPointTensor: TensorDesc | None = ..., OutputTensor: TensorDesc | None = ...) -> None: ...
    @overload
    def __init__(self, *, input_tensor: TensorDesc, scale_tensor: TensorDesc, zero_point_tensor: TensorDesc | None = ..., output_tensor: TensorDesc | None = ...) -> None: ...
class DML_ELEMENT_WISE_RECIP_OPERATOR_DESC(ElementWiseRecipDesc):
    @overload
    def __init__(self, *, InputTensor: TensorDesc, OutputTensor: TensorDesc | None = ..., ScaleBias: ScaleBias | Mapping[str, Any] | None = ...) -> None: ...
    @overload
    def __init__(self, *, input_tensor: TensorDesc, output_tensor: TensorDesc | None = ..., scale_bias: ScaleBias | Mapping[str, Any] | None = ...) -> None: ...
class DML_ELEMENT_WISE_ROUND_OPERATOR_DESC(ElementWiseRoundDesc):
    @overload
    def __init__(self, *, InputTensor: TensorDesc, OutputTensor: TensorDesc | None = ..., RoundingMode: RoundingMode | str | int = ...) -> None: ...
    @overload
    def __init__(self, *, input_tensor: TensorDesc, output_tensor: TensorDesc | None = ..., rounding_mode: RoundingMode | str | int = ...) -> None: ...
class DML_ELEMENT_WISE_SIGN_OPERATOR_DESC(ElementWiseSignDesc):
    @overload
    def __init__(self, *, InputTensor: TensorDesc, OutputTensor: TensorDesc | None = ...) -> None: ...
    @overload
    def __init__(self, *, input_tensor: TensorDesc, output_tensor: TensorDesc | None = ...) -> None: ...
class DML_ELEMENT_WISE_SINH_OPERATOR_DESC(ElementWiseSinhDesc):
    @overload
    def __init__(self, *, InputTensor: TensorDesc, OutputTensor: TensorDesc | None = ..., ScaleBias: ScaleBias | Mapping[str, Any] | None = ...) -> None: ...
    @overload
    def __init__(self, *, input_tensor: TensorDesc, output_tensor: TensorDesc | None = ..., scale_bias: ScaleBias | Mapping[str, Any] | None = ...) -> None: ...
class DML_ELEMENT_WISE_SIN_OPERATOR_DESC(ElementWiseSinDesc):
    @overload
    def __init__(self, *, InputTensor: TensorDesc, OutputTensor: TensorDesc | None = ..., ScaleBias: ScaleBias | Mapping[str, Any] | None = ...) -> None: ...
    @overload
    def __init__(self, *, input_tensor: TensorDesc, output_tensor: TensorDesc | None = ..., scale_bias: ScaleBias | Mapping[str, Any] | None = ...) -> None: ...
class DML_ELEMENT_WISE_SQRT_OPERATOR_DESC(ElementWiseSqrtDesc):
    @overload
    def __init__(self, *, InputTensor: TensorDesc, OutputTensor: TensorDesc | None = ..., ScaleBias: ScaleBias | Mapping[str, Any] | None = ...) -> None: ...
    @overload
    def __init__(self, *, input_tensor: TensorDesc, output_tensor: TensorDesc | None = ..., scale_bias: ScaleBias | Mapping[str, Any] | None = ...) -> None: ...
class DML_ELEMENT_WISE_SUBTRACT_OPERATOR_DESC(ElementWiseSubtractDesc):
    @overload
    def __init__(self, *, ATensor: TensorDesc, BTensor: TensorDesc, OutputTensor: TensorDesc | None = ...) -> None: ...
    @overload
    def __init__(self, *, a_tensor: TensorDesc, b_tensor: TensorDesc, output_tensor: TensorDesc | None = ...) -> None: ...
class DML_ELEMENT_WISE_TANH_OPERATOR_DESC(ElementWiseTanhDesc):
    @overload
    def __init__(self, *, InputTensor: TensorDesc, OutputTensor: TensorDesc | None = ..., ScaleBias: ScaleBias | Mapping[str, Any] | None = ...) -> None: ...
    @overload
    def __init__(self, *, input_tensor: TensorDesc, output_tensor: TensorDesc | None = ..., scale_bias: ScaleBias | Mapping[str, Any] | None = ...) -> None: ...
class DML_ELEMENT_WISE_TAN_OPERATOR_DESC(ElementWiseTanDesc):
    @overload
    def __init__(self, *, InputTensor: TensorDesc, OutputTensor: TensorDesc | None = ..., ScaleBias: ScaleBias | Mapping[str, Any] | None = ...) -> None: ...
    @overload
    def __init__(self, *, input_tensor: TensorDesc, output_tensor: TensorDesc | None = ..., scale_bias: ScaleBias | Mapping[str, Any] | None = ...) -> None: ...
class DML_ELEMENT_WISE_THRESHOLD_OPERATOR_DESC(ElementWiseThresholdDesc):
    @overload
    def __init__(self, *, InputTensor: TensorDesc, OutputTensor: TensorDesc | None = ..., ScaleBias: ScaleBias | Mapping[str, Any] | None = ..., Min: float | str | floating[Any]) -> None: ...
    @overload
    def __init__(self, *, input_tensor: TensorDesc, output_tensor: TensorDesc | None = ..., scale_bias: ScaleBias | Mapping[str, Any] | None = ..., min: float | str | floating[Any]) -> None: ...
class DML_FEATURE_DATA_FEATURE_LEVELS(FeatureDataFeatureLevels):
    @overload
    def __init__(self, *, MaxSupportedFeatureLevel: FeatureLevel | str | int) -> None: ...
    @overload
    def __init__(self, *, max_supported_feature_level: FeatureLevel | str | int) -> None: ...
class DML_FEATURE_DATA_TENSOR_DATA_TYPE_SUPPORT(FeatureDataTensorDataTypeSupport):
    @overload
    def __init__(self, *, IsSupported: bool | bool_) -> None: ...
    @overload
    def __init__(self, *, is_supported: bool | bool_) -> None: ...
class DML_FEATURE_QUERY_FEATURE_LEVELS(FeatureQueryFeatureLevels):
    @overload
    def __init__(self, *, RequestedFeatureLevels: Iterable[FeatureLevel | str | int], RequestedFeatureLevelCount: int | integer[Any] = ...) -> None: ...
    @overload
    def __init__(self, *, requested_feature_levels: Iterable[FeatureLevel | str | int]) -> None: ...
class DML_FEATURE_QUERY_TENSOR_DATA_TYPE_SUPPORT(FeatureQueryTensorDataTypeSupport):
    @overload
    def __init__(self, *, DataType: DataType | str | int | dtype[Any] | type[generic]) -> None: ...
    @overload
    def __init__(self, *, data_type: DataType | str | int | dtype[Any] | type[generic]) -> None: ...
class DML_FILL_VALUE_CONSTANT_OPERATOR_DESC(FillValueConstantDesc):
    @overload
    def __init__(self, *, OutputTensor: TensorDesc, ValueDataType: DataType | str | int | dtype[Any] | type[generic], Value: int | float | str | Mapping[str, Any] | number[Any]) -> None: ...
    @overload
    def __init__(self, *, output_tensor: TensorDesc, value_data_type: DataType | str | int | dtype[Any] | type[generic], value: int | float | str | Mapping[str, Any] | number[Any]) -> None: ...
class DML_FILL_VALUE_SEQUENCE_OPERATOR_DESC(FillValueSequenceDesc):
    @overload
    def __init__(self, *, OutputTensor: TensorDesc, ValueDataType: DataType | str | int | dtype[Any] | type[generic], ValueStart: int | float | str | Mapping[str, Any] | number[Any], ValueDelta: int | float | str | Mapping[str, Any] | number[Any]) -> None: ...
    @overload
    def __init__(self, *, output_tensor: TensorDesc, value_data_type: DataType | str | int | dtype[Any] | type[generic], value_start: int | float | str | Mapping[str, Any] | number[Any], value_delta: int | float | str | Mapping[str, Any] | number[Any]) -> None: ...
class DML_FOLD_OPERATOR_DESC(FoldDesc):
    @overload
    def __init__(self, *, InputTensor: TensorDesc, OutputTensor: TensorDesc, WindowSizes: Sequence[int], Strides: Sequence[int], Dilations: Sequence[int], StartPadding: Sequence[int], EndPadding: Sequence[int], DimensionCount: int | integer[Any] = ...) -> None: ...
    @overload
    def __init__(self, *, input_tensor: TensorDesc, output_tensor: TensorDesc, window_sizes: Sequence[int], strides: Sequence[int], dilations: Sequence[int], start_padding: Sequence[int], end_padding: Sequence[int]) -> None: ...
class DML_GATHER_ELEMENTS_OPERATOR_DESC(GatherElementsDesc):
    @overload
    def __init__(self, *, InputTensor: TensorDesc, IndicesTensor: TensorDesc, OutputTensor: TensorDesc | None = ..., Axis: int | integer[Any]) -> None: ...
    @overload
    def __init__(self, *, input_tensor: TensorDesc, indices_tensor: TensorDesc, output_tensor: TensorDesc | None = ..., axis: int | integer[Any]) -> None: ...
class DML_GATHER_ND1_OPERATOR_DESC(GatherND1Desc):
    @overload
    def __init__(self, *, InputTensor: TensorDesc, IndicesTensor: TensorDesc, OutputTensor: TensorDesc | None = ..., InputDimensionCount: int | integer[Any], IndicesDimensionCount: int | integer[Any], BatchDimensionCount: int | integer[Any]) -> None: ...
    @overload
    def __init__(self, *, input_tensor: TensorDesc, indices_tensor: TensorDesc, output_tensor: TensorDesc | None = ..., input_dimension_count: int | integer[Any], indices_dimension_count: int | integer[Any], batch_dimension_count: int | integer[Any]) -> None: ...
class DML_GATHER_ND_OPERATOR_DESC(GatherNDDesc):
    @overload
    def __init__(self, *, InputTensor: TensorDesc, IndicesTensor: TensorDesc, OutputTensor: TensorDesc | None = ..., InputDimensionCount: int | integer[Any], IndicesDimensionCount: int | integer[Any]) -> None: ...
    @overload
    def __init__(self, *, input_tensor: TensorDesc, indices_tensor: TensorDesc, output_tensor: TensorDesc | None = ..., input_dimension_count: int | integer[Any], indices_dimension_count: int | integer[Any]) -> None: ...
class DML_GATHER_OPERATOR_DESC(GatherDesc):
    @overload
    def __init__(self, *, InputTensor: TensorDesc, IndicesTensor: TensorDesc, OutputTensor: TensorDesc | None = ..., Axis: int | integer[Any], IndexDimensions: int | integer[Any]) -> None: ...
    @overload
    def __init__(self, *, input_tensor: TensorDesc, indices_tensor: TensorDesc, output_tensor: TensorDesc | None = ..., axis: int | integer[Any], index_dimensions: int | integer[Any]) -> None: ...
class DML_GEMM_OPERATOR_DESC(GEMMDesc):
    @overload
    def __init__(self, *, ATensor: TensorDesc, BTensor: TensorDesc, CTensor: TensorDesc | None = ..., OutputTensor: TensorDesc | None = ..., TransA: MatrixTransform | str | int = ..., TransB: MatrixTransform | str | int = ..., Alpha: float | str | floating[Any] = ..., Beta: float | str | floating[Any] = ..., FusedActivation: FusableDesc | None = ...) -> None: ...
    @overload
    def __init__(self, *, a_tensor: TensorDesc, b_tensor: TensorDesc, c_tensor: TensorDesc | None = ..., output_tensor: TensorDesc | None = ..., trans_a: MatrixTransform | str | int = ..., trans_b: MatrixTransform | str | int = ..., alpha: float | str | floating[Any] = ..., beta: float | str | floating[Any] = ..., fused_activation: FusableDesc | None = ...) -> None: ...
class DML_GRAPH_DESC(Graph):
    @overload
    def __init__(self, *, InputCount: int | integer[Any] = ..., OutputCount: int | integer[Any] = ..., Nodes: Sequence[OperatorNode | ConstantNode], InputEdges: Sequence[InputEdge | Mapping[str, Any]] = ..., OutputEdges: Sequence[OutputEdge | Mapping[str, Any]] = ..., IntermediateEdges: Sequence[IntermediateEdge | Mapping[str, Any]] = ..., InputNames: Sequence[str] = ..., OutputNames: Sequence[str] = ..., InputTensors: Iterable[TensorDesc] = ..., OutputTensors: Iterable[TensorDesc] = ..., Name: str | None = ..., NodeCount: int | integer[Any] = ..., InputEdgeCount: int | integer[Any] = ..., OutputEdgeCount: int | integer[Any] = ..., IntermediateEdgeCount: int | integer[Any] = ...) -> None: ...
    @overload
    def __init__(self, *, input_count: int | integer[Any] = ..., output_count: int | integer[Any] = ..., nodes: Sequence[OperatorNode | ConstantNode], input_edges: Sequence[InputEdge | Mapping[str, Any]] = ..., output_edges: Sequence[OutputEdge | Mapping[str, Any]] = ..., intermediate_edges: Sequence[IntermediateEdge | Mapping[str, Any]] = ..., input_names: Sequence[str] = ..., output_names: Sequence[str] = ..., input_tensors: Iterable[TensorDesc] = ..., output_tensors: Iterable[TensorDesc] = ..., name: str | None = ...) -> None: ...
class DML_GRU_OPERATOR_DESC(GRUDesc):
    @overload
    def __init__(self, *, InputTensor: TensorDesc, WeightTensor: TensorDesc, RecurrenceTensor: TensorDesc, BiasTensor: TensorDesc | None = ..., HiddenInitTensor: TensorDesc | None = ..., SequenceLengthsTensor: TensorDesc | None = ..., OutputSequenceTensor: TensorDesc | None = ..., OutputSingleTensor: TensorDesc | None = ..., ActivationDescs: Iterable[ActivationDesc], Direction: RecurrentDirection | str | int, LinearBeforeReset: bool | bool_ = ..., ActivationDescCount: int | integer[Any] = ...) -> None: ...
    @overload
    def __init__(self, *, input_tensor: TensorDesc, weight_tensor: TensorDesc, recurrence_tensor: TensorDesc, bias_tensor: TensorDesc | None = ..., hidden_init_tensor: TensorDesc | None = ..., sequence_lengths_tensor: TensorDesc | None = ..., output_sequence_tensor: TensorDesc | None = ..., output_single_tensor: TensorDesc | None = ..., activation_descs: Iterable[ActivationDesc], direction: RecurrentDirection | str | int, linear_before_reset: bool | bool_ = ...) -> None: ...
class DML_INPUT_GRAPH_EDGE_DESC(InputEdge):
    @overload
    def __init__(self, *, GraphInputIndex: int | integer[Any], ToNodeIndex: int | integer[Any], ToNodeInputIndex: int | integer[Any], Name: str | None = ...) -> None: ...
    @overload
    def __init__(self, *, graph_input_index: int | integer[Any], to_node_index: int | integer[Any], to_node_input_index: int | integer[Any], name: str | None = ...) -> None: ...
class DML_INTERMEDIATE_GRAPH_EDGE_DESC(IntermediateEdge):
    @overload
    def __init__(self, *, FromNodeIndex: int | integer[Any], FromNodeOutputIndex: int | integer[Any], ToNodeIndex: int | integer[Any], ToNodeInputIndex: int | integer[Any], Name: str | None = ...) -> None: ...
    @overload
    def __init__(self, *, from_node_index: int | integer[Any], from_node_output_index: int | integer[Any], to_node_index: int | integer[Any], to_node_input_index: int | integer[Any], name: str | None = ...) -> None: ...
class DML_JOIN_OPERATOR_DESC(JoinDesc):
    @overload
    def __init__(self, *, InputTensors: Iterable[TensorDesc], OutputTensor: TensorDesc | None = ..., Axis: int | integer[Any], InputCount: int | integer[Any] = ...) -> None: ...
    @overload
    def __init__(self, *, input_tensors: Iterable[TensorDesc], output_tensor: TensorDesc | None = ..., axis: int | integer[Any]) -> None: ...
class DML_LOCAL_RESPONSE_NORMALIZATION_GRAD_OPERATOR_DESC(LocalResponseNormalizationGradDesc):
    @overload
    def __init__(self, *, InputTensor: TensorDesc, InputGradientTensor: TensorDesc, OutputGradientTensor: TensorDesc | None = ..., CrossChannel: bool | bool_, LocalSize: int | integer[Any], Alpha: float | str | floating[Any] = ..., Beta: float | str | floating[Any] = ..., Bias: float | str | floating[Any] = ...) -> None: ...
    @overload
    def __init__(self, *, input_tensor: TensorDesc, input_gradient_tensor: TensorDesc, output_gradient_tensor: TensorDesc | None = ..., cross_channel: bool | bool_, local_size: int | integer[Any], alpha: float | str | floating[Any] = ..., beta: float | str | floating[Any] = ..., bias: float | str | floating[Any] = ...) -> None: ...
class DML_LOCAL_RESPONSE_NORMALIZATION_OPERATOR_DESC(LocalResponseNormalizationDesc):
    @overload
    def __init__(self, *, InputTensor: TensorDesc, OutputTensor: TensorDesc | None = ..., CrossChannel: bool | bool_, LocalSize: int | integer[Any], Alpha: float | str | floating[Any] = ..., Beta: float | str | floating[Any] = ..., Bias: float | str | floating[Any] = ...) -> None: ...
    @overload
    def __init__(self, *, input_tensor: TensorDesc, output_tensor: TensorDesc | None = ..., cross_channel: bool | bool_, local_size: int | integer[Any], alpha: float | str | floating[Any] = ..., beta: float | str | floating[Any] = ..., bias: float | str | floating[Any] = ...) -> None: ...
class DML_LP_NORMALIZATION_OPERATOR_DESC(LPNormalizationDesc):
    @overload
    def __init__(self, *, InputTensor: TensorDesc, OutputTensor: TensorDesc | None = ..., Axis: int | integer[Any], Epsilon: float | str | floating[Any] = ..., P: int | integer[Any] = ...) -> None: ...
    @overload
    def __init__(self, *, input_tensor: TensorDesc, output_tensor: TensorDesc | None = ..., axis: int | integer[Any], epsilon: float | str | floating[Any] = ..., p: int | integer[Any] = ...) -> None: ...
class DML_LP_POOLING1_OPERATOR_DESC(LPPooling1Desc):
    @overload
    def __init__(self, *, InputTensor: TensorDesc, OutputTensor: TensorDesc | None = ..., Strides: Sequence[int], WindowSize: Sequence[int], StartPadding: Sequence[int], EndPadding: Sequence[int], Dilations: Sequence[int], P: int | integer[Any], DimensionCount: int | integer[Any] = ...) -> None: ...
    @overload
    def __init__(self, *, input_tensor: TensorDesc, output_tensor: TensorDesc | None = ..., strides: Sequence[int], window_size: Sequence[int], start_padding: Sequence[int], end_padding: Sequence[int], dilations: Sequence[int], p: int | integer[Any]) -> None: ...
class DML_LP_POOLING_OPERATOR_DESC(LPPoolingDesc):
    @overload
    def __init__(self, *, InputTensor: TensorDesc, OutputTensor: TensorDesc | None = ..., Strides: Sequence[int], WindowSize: Sequence[int], StartPadding: Sequence[int], EndPadding: Sequence[int], P: int | integer[Any], DimensionCount: int | integer[Any] = ...) -> None: ...
    @overload
    def __init__(self, *, input_tensor: TensorDesc, output_tensor: TensorDesc | None = ..., strides: Sequence[int], window_size: Sequence[int], start_padding: Sequence[int], end_padding: Sequence[int], p: int | integer[Any]) -> None: ...
class DML_LSTM_OPERATOR_DESC(LSTMDesc):
    @overload
    def __init__(self, *, InputTensor: TensorDesc, WeightTensor: TensorDesc, RecurrenceTensor: TensorDesc, BiasTensor: TensorDesc | None = ..., HiddenInitTensor: TensorDesc | None = ..., CellMemInitTensor: TensorDesc | None = ..., SequenceLengthsTensor: TensorDesc | None = ..., PeepholeTensor: TensorDesc | None = ..., OutputSequenceTensor: TensorDesc | None = ..., OutputSingleTensor: TensorDesc | None = ..., OutputCellSingleTensor: TensorDesc | None = ..., ActivationDescs: Iterable[ActivationDesc], Direction: RecurrentDirection | str | int, ClipThreshold: float | str | floating[Any] = ..., UseClipThreshold: bool | bool_ = ..., CoupleInputForget: bool | bool_ = ..., ActivationDescCount: int | integer[Any] = ...) -> None: ...
    @overload
    def __init__(self, *, input_tensor: TensorDesc, weight_tensor: TensorDesc, recurrence_tensor: TensorDesc, bias_tensor: TensorDesc | None = ..., hidden_init_tensor: TensorDesc | None = ..., cell_mem_init_tensor: TensorDesc | None = ..., sequence_lengths_tensor: TensorDesc | None = ..., peephole_tensor: TensorDesc | None = ..., output_sequence_tensor: TensorDesc | None = ..., output_single_tensor: TensorDesc | None = ..., output_cell_single_tensor: TensorDesc | None = ..., activation_descs: Iterable[ActivationDesc], direction: RecurrentDirection | str | int, clip_threshold: float | str | floating[Any] = ..., use_clip_threshold: bool | bool_ = ..., couple_input_forget: bool | bool_ = ...) -> None: ...
class DML_MATRIX_MULTIPLY_INTEGER_OPERATOR_DESC(MatrixMultiplyIntegerDesc):
    @overload
    def __init__(self, *, ATensor: TensorDesc, AZeroPointTensor: TensorDesc | None = ..., BTensor: TensorDesc, BZeroPointTensor: TensorDesc | None = ..., OutputTensor: TensorDesc | None = ...) -> None: ...
    @overload
    def __init__(self, *, a_tensor: TensorDesc, a_zero_point_tensor: TensorDesc | None = ..., b_tensor: TensorDesc, b_zero_point_tensor: TensorDesc | None = ..., output_tensor: TensorDesc | None = ...) -> None: ...
class DML_MATRIX_MULTIPLY_INTEGER_TO_FLOAT_OPERATOR_DESC(MatrixMultiplyIntegerToFloatDesc):
    @overload
    def __init__(self, *, ATensor: TensorDesc, AScaleTensor: TensorDesc, AZeroPointTensor: TensorDesc | None = ..., BTensor: TensorDesc, BScaleTensor: TensorDesc, BZeroPointTensor: TensorDesc | None = ..., BiasTensor: TensorDesc | None = ..., OutputTensor: TensorDesc | None = ...) -> None: ...
    @overload
    def __init__(self, *, a_tensor: TensorDesc, a_scale_tensor: TensorDesc, a_zero_point_tensor: TensorDesc | None = ..., b_tensor: TensorDesc, b_scale_tensor: TensorDesc, b_zero_point_tensor: TensorDesc | None = ..., bias_tensor: TensorDesc | None = ..., output_tensor: TensorDesc | None = ...) -> None: ...
class DML_MAX_POOLING1_OPERATOR_DESC(MaxPooling1Desc):
    @overload
    def __init__(self, *, InputTensor: TensorDesc, OutputTensor: TensorDesc | None = ..., OutputIndicesTensor: TensorDesc | None = ..., Strides: Sequence[int], WindowSize: Sequence[int], StartPadding: Sequence[int], EndPadding: Sequence[int], DimensionCount: int | integer[Any] = ...) -> None: ...
    @overload
    def __init__(self, *, input_tensor: TensorDesc, output_tensor: TensorDesc | None = ..., output_indices_tensor: TensorDesc | None = ..., strides: Sequence[int], window_size: Sequence[int], start_padding: Sequence[int], end_padding: Sequence[int]) -> None: ...
class DML_MAX_POOLING2_OPERATOR_DESC(MaxPooling2Desc):
    @overload
    def __init__(self, *, InputTensor: TensorDesc, OutputTensor: TensorDesc | None = ..., OutputIndicesTensor: TensorDesc | None = ..., Strides: Sequence[int], WindowSize: Sequence[int], StartPadding: Sequence[int], EndPadding: Sequence[int], Dilations: Sequence[int], DimensionCount: int | integer[Any] = ...) -> None: ...
    @overload
    def __init__(self, *, input_tensor: TensorDesc, output_tensor: TensorDesc | None = ..., output_indices_tensor: TensorDesc | None = ..., strides: Sequence[int], window_size: Sequence[int], start_padding: Sequence[int], end_padding: Sequence[int], dilations: Sequence[int]) -> None: ...
class DML_MAX_POOLING_GRAD_OPERATOR_DESC(MaxPoolingGradDesc):
    @overload
    def __init__(self, *, InputTensor: TensorDesc, InputGradientTensor: TensorDesc, OutputGradientTensor: TensorDesc | None = ..., Strides: Sequence[int], WindowSize: Sequence[int], StartPadding: Sequence[int], EndPadding: Sequence[int], Dilations: Sequence[int], DimensionCount: int | integer[Any] = ...) -> None: ...
    @overload
    def __init__(self, *, input_tensor: TensorDesc, input_gradient_tensor: TensorDesc, output_gradient_tensor: TensorDesc | None = ..., strides: Sequence[int], window_size: Sequence[int], start_padding: Sequence[int], end_padding: Sequence[int], dilations: Sequence[int]) -> None: ...
class DML_MAX_POOLING_OPERATOR_DESC(MaxPoolingDesc):
    @overload
    def __init__(self, *, InputTensor: TensorDesc, OutputTensor: TensorDesc | None = ..., Strides: Sequence[int], WindowSize: Sequence[int], StartPadding: Sequence[int], EndPadding: Sequence[int], DimensionCount: int | integer[Any] = ...) -> None: ...
    @overload
    def __init__(self, *, input_tensor: TensorDesc, output_tensor: TensorDesc | None = ..., strides: Sequence[int], window_size: Sequence[int], start_padding: Sequence[int], end_padding: Sequence[int]) -> None: ...
class DML_MAX_UNPOOLING_OPERATOR_DESC(MaxUnpoolingDesc):
    @overload
    def __init__(self, *, InputTensor: TensorDesc, IndicesTensor: TensorDesc, OutputTensor: TensorDesc) -> None: ...
    @overload
    def __init__(self, *, input_tensor: TensorDesc, indices_tensor: TensorDesc, output_tensor: TensorDesc) -> None: ...
class DML_MEAN_VARIANCE_NORMALIZATION1_OPERATOR_DESC(MeanVarianceNormalization1Desc):
    @overload
    def __init__(self, *, InputTensor: TensorDesc, ScaleTensor: TensorDesc | None = ..., BiasTensor: TensorDesc | None = ..., OutputTensor: TensorDesc | None = ..., Axes: Sequence[int], NormalizeVariance: bool | bool_ = ..., Epsilon: float | str | floating[Any] = ..., FusedActivation: ActivationDesc | None = ..., AxisCount: int | integer[Any] = ...) -> None: ...
    @overload
    def __init__(self, *, input_tensor: TensorDesc, scale_tensor: TensorDesc | None = ..., bias_tensor: TensorDesc | None = ..., output_tensor: TensorDesc | None = ..., axes: Sequence[int], normalize_variance: bool | bool_ = ..., epsilon: float | str | floating[Any] = ..., fused_activation: ActivationDesc | None = ...) -> None: ...
class DML_MEAN_VARIANCE_NORMALIZATION2_OPERATOR_DESC(MeanVarianceNormalization2Desc):
    @overload
    def __init__(self, *, InputTensor: TensorDesc, ScaleTensor: TensorDesc | None = ..., BiasTensor: TensorDesc | None = ..., OutputTensor: TensorDesc | None = ..., Axes: Sequence[int], UseMean: bool | bool_ = ..., UseVariance: bool | bool_ = ..., Epsilon: float | str | floating[Any] = ..., FusedActivation: ActivationDesc | None = ..., AxisCount: int | integer[Any] = ...) -> None: ...
    @overload
    def __init__(self, *, input_tensor: TensorDesc, scale_tensor: TensorDesc | None = ..., bias_tensor: TensorDesc | None = ..., output_tensor: TensorDesc | None = ..., axes: Sequence[int], use_mean: bool | bool_ = ..., use_variance: bool | bool_ = ..., epsilon: float | str | floating[Any] = ..., fused_activation: ActivationDesc | None = ...) -> None: ...
class DML_MEAN_VARIANCE_NORMALIZATION_OPERATOR_DESC(MeanVarianceNormalizationDesc):
    @overload
    def __init__(self, *, InputTensor: TensorDesc, ScaleTensor: TensorDesc | None = ..., BiasTensor: TensorDesc | None = ..., OutputTensor: TensorDesc | None = ..., CrossChannel: bool | bool_ = ..., NormalizeVariance: bool | bool_ = ..., Epsilon: float | str | floating[Any] = ..., FusedActivation: ActivationDesc | None = ...) -> None: ...
    @overload
    def __init__(self, *, input_tensor: TensorDesc, scale_tensor: TensorDesc | None = ..., bias_tensor: TensorDesc | None = ..., output_tensor: TensorDesc | None = ..., cross_channel: bool | bool_ = ..., normalize_variance: bool | bool_ = ..., epsilon: float | str | floating[Any] = ..., fused_activation: ActivationDesc | None = ...) -> None: ...
class DML_MULTIHEAD_ATTENTION1_OPERATOR_DESC(MultiheadAttention1Desc):
    @overload
    def __init__(self, *, QueryTensor: TensorDesc | None = ..., KeyTensor: TensorDesc | None = ..., ValueTensor: TensorDesc | None = ..., StackedQueryKeyTensor: TensorDesc | None = ..., StackedKeyValueTensor: TensorDesc | None = ..., StackedQueryKeyValueTensor: TensorDesc | None = ..., BiasTensor: TensorDesc | None = ..., MaskTensor: TensorDesc | None = ..., RelativePositionBiasTensor: TensorDesc | None = ..., PastKeyTensor: TensorDesc | None = ..., PastValueTensor: TensorDesc | None = ..., PastSequenceLengthsTensor: TensorDesc | None = ..., OutputTensor: TensorDesc | None = ..., OutputPresentKeyTensor: TensorDesc | None = ..., OutputPresentValueTensor: TensorDesc | None = ..., Scale: float | str | floating[Any], MaskFilterValue: float | str | floating[Any], QueryHeadCount: int | integer[Any], KeyValueHeadCount: int | integer[Any], MaskType: MultiheadAttentionMaskType | str | int = ...) -> None: ...
    @overload
    def __init__(self, *, query_tensor: TensorDesc | None = ..., key_tensor: TensorDesc | None = ..., value_tensor: TensorDesc | None = ..., stacked_query_key_tensor: TensorDesc | None = ..., stacked_key_value_tensor: TensorDesc | None = ..., stacked_query_key_value_tensor: TensorDesc | None = ..., bias_tensor: TensorDesc | None = ..., mask_tensor: TensorDesc | None = ..., relative_position_bias_tensor: TensorDesc | None = ..., past_key_tensor: TensorDesc | None = ..., past_value_tensor: TensorDesc | None = ..., past_sequence_lengths_tensor: TensorDesc | None = ..., output_tensor: TensorDesc | None = ..., output_present_key_tensor: TensorDesc | None = ..., output_present_value_tensor: TensorDesc | None = ..., scale: float | str | floating[Any], mask_filter_value: float | str | floating[Any], query_head_count: int | integer[Any], key_value_head_count: int | integer[Any], mask_type: MultiheadAttentionMaskType | str | int = ...) -> None: ...
class DML_MULTIHEAD_ATTENTION_OPERATOR_DESC(MultiheadAttentionDesc):
    @overload
    def __init__(self, *, QueryTensor: TensorDesc | None = ..., KeyTensor: TensorDesc | None = ..., ValueTensor: TensorDesc | None = ..., StackedQueryKeyTensor: TensorDesc | None = ..., StackedKeyValueTensor: TensorDesc | None = ..., StackedQueryKeyValueTensor: TensorDesc | None = ..., BiasTensor: TensorDesc | None = ..., MaskTensor: TensorDesc | None = ..., RelativePositionBiasTensor: TensorDesc | None = ..., PastKeyTensor: TensorDesc | None = ..., PastValueTensor: TensorDesc | None = ..., OutputTensor: TensorDesc | None = ..., OutputPresentKeyTensor: TensorDesc | None = ..., OutputPresentValueTensor: TensorDesc | None = ..., Scale: float | str | floating[Any], MaskFilterValue: float | str | floating[Any], HeadCount: int | integer[Any], MaskType: MultiheadAttentionMaskType | str | int = ...) -> None: ...
    @overload
    def __init__(self, *, query_tensor: TensorDesc | None = ..., key_tensor: TensorDesc | None = ..., value_tensor: TensorDesc | None = ..., stacked_query_key_tensor: TensorDesc | None = ..., stacked_key_value_tensor: TensorDesc | None = ..., stacked_query_key_value_tensor: TensorDesc | None = ..., bias_tensor: TensorDesc | None = ..., mask_tensor: TensorDesc | None = ..., relative_position_bias_tensor: TensorDesc | None = ..., past_key_tensor: TensorDesc | None = ..., past_value_tensor: TensorDesc | None = ..., output_tensor: TensorDesc | None = ..., output_present_key_tensor: TensorDesc | None = ..., output_present_value_tensor: TensorDesc | None = ..., scale: float | str | floating[Any], mask_filter_value: float | str | floating[Any], head_count: int | integer[Any], mask_type: MultiheadAttentionMaskType | str | int = ...) -> None: ...
class DML_NONZERO_COORDINATES_OPERATOR_DESC(NonzeroCoordinatesDesc):
    @overload
    def __init__(self, *, InputTensor: TensorDesc, OutputCountTensor: TensorDesc | None = ..., OutputCoordinatesTensor: TensorDesc | None = ...) -> None: ...
    @overload
    def __init__(self, *, input_tensor: TensorDesc, output_count_tensor: TensorDesc | None = ..., output_coordinates_tensor: TensorDesc | None = ...) -> None: ...
class DML_ONE_HOT_OPERATOR_DESC(OneHotDesc):
    @overload
    def __init__(self, *, IndicesTensor: TensorDesc, ValuesTensor: TensorDesc, OutputTensor: TensorDesc, Axis: int | integer[Any]) -> None: ...
    @overload
    def __init__(self, *, indices_tensor: TensorDesc, values_tensor: TensorDesc, output_tensor: TensorDesc, axis: int | integer[Any]) -> None: ...
class DML_OPERATOR_GRAPH_NODE_DESC(OperatorNode):
    @overload
    def __init__(self, *, Operator: OperatorDesc, Name: str | None = ...) -> None: ...
    @overload
    def __init__(self, *, operator: OperatorDesc, name: str | None = ...) -> None: ...
class DML_OUTPUT_GRAPH_EDGE_DESC(OutputEdge):
    @overload
    def __init__(self, *, FromNodeIndex: int | integer[Any], FromNodeOutputIndex: int | integer[Any], GraphOutputIndex: int | integer[Any], Name: str | None = ...) -> None: ...
    @overload
    def __init__(self, *, from_node_index: int | integer[Any], from_node_output_index: int | integer[Any], graph_output_index: int | integer[Any], name: str | None = ...) -> None: ...
class DML_PADDING1_OPERATOR_DESC(Padding1Desc):
    @overload
    def __init__(self, *, InputTensor: TensorDesc, OutputTensor: TensorDesc | None = ..., PaddingMode: PaddingMode | str | int = ..., PaddingValueDataType: DataType | str | int | dtype[Any] | type[generic], PaddingValue: int | float | str | Mapping[str, Any] | number[Any] = ..., StartPadding: Sequence[int], EndPadding: Sequence[int], DimensionCount: int | integer[Any] = ...) -> None: ...
    @overload
    def __init__(self, *, input_tensor: TensorDesc, output_tensor: TensorDesc | None = ..., padding_mode: PaddingMode | str | int = ..., padding_value_data_type: DataType | str | int | dtype[Any] | type[generic], padding_value: int | float | str | Mapping[str, Any] | number[Any] = ..., start_padding: Sequence[int], end_padding: Sequence[int]) -> None: ...
class DML_PADDING_OPERATOR_DESC(PaddingDesc):
    @overload
    def __init__(self, *, InputTensor: TensorDesc, OutputTensor: TensorDesc | None = ..., PaddingMode: PaddingMode | str | int = ..., PaddingValue: float | str | floating[Any] = ..., StartPadding: Sequence[int], EndPadding: Sequence[int], DimensionCount: int | integer[Any] = ...) -> None: ...
    @overload
    def __init__(self, *, input_tensor: TensorDesc, output_tensor: TensorDesc | None = ..., padding_mode: PaddingMode | str | int = ..., padding_value: float | str | floating[Any] = ..., start_padding: Sequence[int], end_padding: Sequence[int]) -> None: ...
class DML_QUANTIZED_LINEAR_AVERAGE_POOLING_OPERATOR_DESC(QuantizedLinearAveragePoolingDesc):
    @overload
    def __init__(self, *, InputTensor: TensorDesc, InputScaleTensor: TensorDesc, InputZeroPointTensor: TensorDesc | None = ..., OutputScaleTensor: TensorDesc, OutputZeroPointTensor: TensorDesc | None = ..., OutputTensor: TensorDesc | None = ..., Strides: Sequence[int], WindowSize: Sequence[int], StartPadding: Sequence[int], EndPadding: Sequence[int], Dilations: Sequence[int], IncludePadding: bool | bool_, DimensionCount: int | integer[Any] = ...) -> None: ...
    @overload
    def __init__(self, *, input_tensor: TensorDesc, input_scale_tensor: TensorDesc, input_zero_point_tensor: TensorDesc | None = ..., output_scale_tensor: TensorDesc, output_zero_point_tensor: TensorDesc | None = ..., output_tensor: TensorDesc | None = ..., strides: Sequence[int], window_size: Sequence[int], start_padding: Sequence[int], end_padding: Sequence[int], dilations: Sequence[int], include_padding: bool | bool_) -> None: ...
class DML_QUANTIZED_LINEAR_CONVOLUTION_OPERATOR_DESC(QuantizedLinearConvolutionDesc):
    @overload
    def __init__(self, *, InputTensor: TensorDesc, InputScaleTensor: TensorDesc, InputZeroPointTensor: TensorDesc | None = ..., FilterTensor: TensorDesc, FilterScaleTensor: TensorDesc, FilterZeroPointTensor: TensorDesc | None = ..., BiasTensor: TensorDesc | None = ..., OutputScaleTensor: TensorDesc, OutputZeroPointTensor: TensorDesc | None = ..., OutputTensor: TensorDesc | None = ..., Strides: Sequence[int], Dilations: Sequence[int], StartPadding: Sequence[int], EndPadding: Sequence[int], GroupCount: int | integer[Any] = ..., DimensionCount: int | integer[Any] = ...) -> None: ...
    @overload
    def __init__(self, *, input_tensor: TensorDesc, input_scale_tensor: TensorDesc, input_zero_point_tensor: TensorDesc | None = ..., filter_tensor: TensorDesc, filter_scale_tensor: TensorDesc, filter_zero_point_tensor: TensorDesc | None = ..., bias_tensor: TensorDesc | None = ..., output_scale_tensor: TensorDesc, output_zero_point_tensor: TensorDesc | None = ..., output_tensor: TensorDesc | None = ..., strides: Sequence[int], dilations: Sequence[int], start_padding: Sequence[int], end_padding: Sequence[int], group_count: int | integer[Any] = ...) -> None: ...
class DML_QUANTIZED_LINEAR_MATRIX_MULTIPLY_OPERATOR_DESC(QuantizedLinearMatrixMultiplyDesc):
    @overload
    def __init__(self, *, ATensor: TensorDesc, AScaleTensor: TensorDesc, AZeroPointTensor: TensorDesc | None = ..., BTensor: TensorDesc, BScaleTensor: TensorDesc, BZeroPointTensor: TensorDesc | None = ..., OutputScaleTensor: TensorDesc, OutputZeroPointTensor: TensorDesc | None = ..., OutputTensor: TensorDesc | None = ...) -> None: ...
    @overload
    def __init__(self, *, a_tensor: TensorDesc, a_scale_tensor: TensorDesc, a_zero_point_tensor: TensorDesc | None = ..., b_tensor: TensorDesc, b_scale_tensor: TensorDesc, b_zero_point_tensor: TensorDesc | None = ..., output_scale_tensor: TensorDesc, output_zero_point_tensor: TensorDesc | None = ..., output_tensor: TensorDesc | None = ...) -> None: ...
class DML_QUANTIZE_OPERATOR_DESC(QuantizeDesc):
    @overload
    def __init__(self, *, InputTensor: TensorDesc, QuantizationType: QuantizationType | str | int, QuantizationTensors: Iterable[TensorDesc], OutputTensor: TensorDesc | None = ..., QuantizationTensorCount: int | integer[Any] = ...) -> None: ...
    @overload
    def __init__(self, *, input_tensor: TensorDesc, quantization_type: QuantizationType | str | int, quantization_tensors: Iterable[TensorDesc], output_tensor: TensorDesc | None = ...) -> None: ...
class DML_RANDOM_GENERATOR_OPERATOR_DESC(RandomGeneratorDesc):
    @overload
    def __init__(self, *, InputStateTensor: TensorDesc, OutputTensor: TensorDesc, OutputStateTensor: TensorDesc | None = ..., Type: RandomGeneratorType | str | int = ...) -> None: ...
    @overload
    def __init__(self, *, input_state_tensor: TensorDesc, output_tensor: TensorDesc, output_state_tensor: TensorDesc | None = ..., type: RandomGeneratorType | str | int = ...) -> None: ...
class DML_REDUCE_OPERATOR_DESC(ReduceDesc):
    @overload
    def __init__(self, *, Function: ReduceFunction | str | int, InputTensor: TensorDesc, OutputTensor: TensorDesc | None = ..., Axes: Sequence[int], AxisCount: int | integer[Any] = ...) -> None: ...
    @overload
    def __init__(self, *, function: ReduceFunction | str | int, input_tensor: TensorDesc, output_tensor: TensorDesc | None = ..., axes: Sequence[int]) -> None: ...
class DML_RESAMPLE1_OPERATOR_DESC(Resample1Desc):
    @overload
    def __init__(self, *, InputTensor: TensorDesc, OutputTensor: TensorDesc | None = ..., InterpolationMode: InterpolationMode | str | int, Scales: Sequence[float], InputPixelOffsets: Sequence[float], OutputPixelOffsets: Sequence[float], DimensionCount: int | integer[Any] = ...) -> None: ...
    @overload
    def __init__(self, *, input_tensor: TensorDesc, output_tensor: TensorDesc | None = ..., interpolation_mode: InterpolationMode | str | int, scales: Sequence[float], input_pixel_offsets: Sequence[float], output_pixel_offsets: Sequence[float]) -> None: ...
class DML_RESAMPLE2_OPERATOR_DESC(Resample2Desc):
    @overload
    def __init__(self, *, InputTensor: TensorDesc, OutputTensor: TensorDesc | None = ..., InterpolationMode: InterpolationMode | str | int, RoundingDirection: AxisDirection | str | int = ..., Scales: Sequence[float], InputPixelOffsets: Sequence[float], OutputPixelOffsets: Sequence[float], DimensionCount: int | integer[Any] = ...) -> None: ...
    @overload
    def __init__(self, *, input_tensor: TensorDesc, output_tensor: TensorDesc | None = ..., interpolation_mode: InterpolationMode | str | int, rounding_direction: AxisDirection | str | int = ..., scales: Sequence[float], input_pixel_offsets: Sequence[float], output_pixel_offsets: Sequence[float]) -> None: ...
class DML_RESAMPLE3_OPERATOR_DESC(Resample3Desc):
    @overload
    def __init__(self, *, InputTensor: TensorDesc, OutputTensor: TensorDesc | None = ..., InterpolationMode: InterpolationMode | str | int, RoundingDirection: AxisDirection | str | int = ..., Scales: Sequence[float], InputPixelOffsets: Sequence[float], OutputPixelOffsets: Sequence[float], Antialiased: bool | bool_ = ..., DimensionCount: int | integer[Any] = ...) -> None: ...
    @overload
    def __init__(self, *, input_tensor: TensorDesc, output_tensor: TensorDesc | None = ..., interpolation_mode: InterpolationMode | str | int, rounding_direction: AxisDirection | str | int = ..., scales: Sequence[float], input_pixel_offsets: Sequence[float], output_pixel_offsets: Sequence[float], antialiased: bool | bool_ = ...) -> None: ...
class DML_RESAMPLE_GRAD1_OPERATOR_DESC(ResampleGrad1Desc):
    @overload
    def __init__(self, *, InputGradientTensor: TensorDesc, OutputGradientTensor: TensorDesc | None = ..., InterpolationMode: InterpolationMode | str | int, RoundingDirection: AxisDirection | str | int = ..., Scales: Sequence[float], InputPixelOffsets: Sequence[float], OutputPixelOffsets: Sequence[float], DimensionCount: int | integer[Any] = ...) -> None: ...
    @overload
    def __init__(self, *, input_gradient_tensor: TensorDesc, output_gradient_tensor: TensorDesc | None = ..., interpolation_mode: InterpolationMode | str | int, rounding_direction: AxisDirection | str | int = ..., scales: Sequence[float], input_pixel_offsets: Sequence[float], output_pixel_offsets: Sequence[float]) -> None: ...
class DML_RESAMPLE_GRAD_OPERATOR_DESC(ResampleGradDesc):
    @overload
    def __init__(self, *, InputGradientTensor: TensorDesc, OutputGradientTensor: TensorDesc | None = ..., InterpolationMode: InterpolationMode | str | int, Scales: Sequence[float], InputPixelOffsets: Sequence[float], OutputPixelOffsets: Sequence[float], DimensionCount: int | integer[Any] = ...) -> None: ...
    @overload
    def __init__(self, *, input_gradient_tensor: TensorDesc, output_gradient_tensor: TensorDesc | None = ..., interpolation_mode: InterpolationMode | str | int, scales: Sequence[float], input_pixel_offsets: Sequence[float], output_pixel_offsets: Sequence[float]) -> None: ...
class DML_RESAMPLE_OPERATOR_DESC(ResampleDesc):
    @overload
    def __init__(self, *, InputTensor: TensorDesc, OutputTensor: TensorDesc | None = ..., InterpolationMode: InterpolationMode | str | int, Scales: Sequence[float], ScaleCount: int | integer[Any] = ...) -> None: ...
    @overload
    def __init__(self, *, input_tensor: TensorDesc, output_tensor: TensorDesc | None = ..., interpolation_mode: InterpolationMode | str | int, scales: Sequence[float]) -> None: ...
class DML_REVERSE_SUBSEQUENCES_OPERATOR_DESC(ReverseSubsequencesDesc):
    @overload
    def __init__(self, *, InputTensor: TensorDesc, SequenceLengthsTensor: TensorDesc, OutputTensor: TensorDesc | None = ..., Axis: int | integer[Any]) -> None: ...
    @overload
    def __init__(self, *, input_tensor: TensorDesc, sequence_lengths_tensor: TensorDesc, output_tensor: TensorDesc | None = ..., axis: int | integer[Any]) -> None: ...
class DML_RNN_OPERATOR_DESC(RNNDesc):
    @overload
    def __init__(self, *, InputTensor: TensorDesc, WeightTensor: TensorDesc, RecurrenceTensor: TensorDesc, BiasTensor: TensorDesc | None = ..., HiddenInitTensor: TensorDesc | None = ..., SequenceLengthsTensor: TensorDesc | None = ..., OutputSequenceTensor: TensorDesc | None = ..., OutputSingleTensor: TensorDesc | None = ..., ActivationDescs: Iterable[ActivationDesc], Direction: RecurrentDirection | str | int, ActivationDescCount: int | integer[Any] = ...) -> None: ...
    @overload
    def __init__(self, *, input_tensor: TensorDesc, weight_tensor: TensorDesc, recurrence_tensor: TensorDesc, bias_tensor: TensorDesc | None = ..., hidden_init_tensor: TensorDesc | None = ..., sequence_lengths_tensor: TensorDesc | None = ..., output_sequence_tensor: TensorDesc | None = ..., output_single_tensor: TensorDesc | None = ..., activation_descs: Iterable[ActivationDesc], direction: RecurrentDirection | str | int) -> None: ...
class DML_ROI_ALIGN1_OPERATOR_DESC(ROIAlign1Desc):
    @overload
    def __init__(self, *, InputTensor: TensorDesc, ROITensor: TensorDesc, BatchIndicesTensor: TensorDesc, OutputTensor: TensorDesc, ReductionFunction: ReduceFunction | str | int, InterpolationMode: InterpolationMode | str | int, SpatialScaleX: float | str | floating[Any] = ..., SpatialScaleY: float | str | floating[Any] = ..., InputPixelOffset: float | str | floating[Any] = ..., OutputPixelOffset: float | str | floating[Any] = ..., OutOfBoundsInputValue: float | str | floating[Any] = ..., MinimumSamplesPerOutput: int | integer[Any], MaximumSamplesPerOutput: int | integer[Any], AlignRegionsToCorners: bool | bool_ = ...) -> None: ...
    @overload
    def __init__(self, *, input_tensor: TensorDesc, roi_tensor: TensorDesc, batch_indices_tensor: TensorDesc, output_tensor: TensorDesc, reduction_function: ReduceFunction | str | int, interpolation_mode: InterpolationMode | str | int, spatial_scale_x: float | str | floating[Any] = ..., spatial_scale_y: float | str | floating[Any] = ..., input_pixel_offset: float | str | floating[Any] = ..., output_pixel_offset: float | str | floating[Any] = ..., out_of_bounds_input_value: float | str | floating[Any] = ..., minimum_samples_per_output: int | integer[Any], maximum_samples_per_output: int | integer[Any], align_regions_to_corners: bool | bool_ = ...) -> None: ...
class DML_ROI_ALIGN_GRAD_OPERATOR_DESC(ROIAlignGradDesc):
    @overload
    def __init__(self, *, InputTensor: TensorDesc | None = ..., InputGradientTensor: TensorDesc, ROITensor: TensorDesc, BatchIndicesTensor: TensorDesc, OutputGradientTensor: TensorDesc | None = ..., OutputROIGradientTensor: TensorDesc | None = ..., ReductionFunction: ReduceFunction | str | int, InterpolationMode: InterpolationMode | str | int, SpatialScaleX: float | str | floating[Any] = ..., SpatialScaleY: float | str | floating[Any] = ..., InputPixelOffset: float | str | floating[Any] = ..., OutputPixelOffset: float | str | floating[Any] = ..., MinimumSamplesPerOutput: int | integer[Any], MaximumSamplesPerOutput: int | integer[Any], AlignRegionsToCorners: bool | bool_ = ...) -> None: ...
    @overload
    def __init__(self, *, input_tensor: TensorDesc | None = ..., input_gradient_tensor: TensorDesc, roi_tensor: TensorDesc, batch_indices_tensor: TensorDesc, output_gradient_tensor: TensorDesc | None = ..., output_roi_gradient_tensor: TensorDesc | None = ..., reduction_function: ReduceFunction | str | int, interpolation_mode: InterpolationMode | str | int, spatial_scale_x: float | str | floating[Any] = ..., spatial_scale_y: float | str | floating[Any] = ..., input_pixel_offset: float | str | floating[Any] = ..., output_pixel_offset: float | str | floating[Any] = ..., minimum_samples_per_output: int | integer[Any], maximum_samples_per_output: int | integer[Any], align_regions_to_corners: bool | bool_ = ...) -> None: ...
class DML_ROI_ALIGN_OPERATOR_DESC(ROIAlignDesc):
    @overload
    def __init__(self, *, InputTensor: TensorDesc, ROITensor: TensorDesc, BatchIndicesTensor: TensorDesc, OutputTensor: TensorDesc, ReductionFunction: ReduceFunction | str | int, InterpolationMode: InterpolationMode | str | int, SpatialScaleX: float | str | floating[Any] = ..., SpatialScaleY: float | str | floating[Any] = ..., OutOfBoundsInputValue: float | str | floating[Any] = ..., MinimumSamplesPerOutput: int | integer[Any], MaximumSamplesPerOutput: int | integer[Any]) -> None: ...
    @overload
    def __init__(self, *, input_tensor: TensorDesc, roi_tensor: TensorDesc, batch_indices_tensor: TensorDesc, output_tensor: TensorDesc, reduction_function: ReduceFunction | str | int, interpolation_mode: InterpolationMode | str | int, spatial_scale_x: float | str | floating[Any] = ..., spatial_scale_y: float | str | floating[Any] = ..., out_of_bounds_input_value: float | str | floating[Any] = ..., minimum_samples_per_output: int | integer[Any], maximum_samples_per_output: int | integer[Any]) -> None: ...
class DML_ROI_POOLING_OPERATOR_DESC(ROIPoolingDesc):
    @overload
    def __init__(self, *, InputTensor: TensorDesc, ROITensor: TensorDesc, OutputTensor: TensorDesc | None = ..., SpatialScale: float | str | floating[Any] = ..., PooledSize: Size2D | Mapping[str, Any]) -> None: ...
    @overload
    def __init__(self, *, input_tensor: TensorDesc, roi_tensor: TensorDesc, output_tensor: TensorDesc | None = ..., spatial_scale: float | str | floating[Any] = ..., pooled_size: Size2D | Mapping[str, Any]) -> None: ...
class DML_SCALE_BIAS(ScaleBias):
    @overload
    def __init__(self, *, Scale: float | str | floating[Any], Bias: float | str | floating[Any]) -> None: ...
    @overload
    def __init__(self, *, scale: float | str | floating[Any], bias: float | str | floating[Any]) -> None: ...
class DML_SCATTER_ND_OPERATOR_DESC(ScatterNDDesc):
    @overload
    def __init__(self, *, InputTensor: TensorDesc, IndicesTensor: TensorDesc, UpdatesTensor: TensorDesc, OutputTensor: TensorDesc | None = ..., InputDimensionCount: int | integer[Any], IndicesDimensionCount: int | integer[Any]) -> None: ...
    @overload
    def __init__(self, *, input_tensor: TensorDesc, indices_tensor: TensorDesc, updates_tensor: TensorDesc, output_tensor: TensorDesc | None = ..., input_dimension_count: int | integer[Any], indices_dimension_count: int | integer[Any]) -> None: ...
class DML_SCATTER_OPERATOR_DESC(ScatterDesc):
    @overload
    def __init__(self, *, InputTensor: TensorDesc, IndicesTensor: TensorDesc, UpdatesTensor: TensorDesc, OutputTensor: TensorDesc | None = ..., Axis: int | integer[Any]) -> None: ...
    @overload
    def __init__(self, *, input_tensor: TensorDesc, indices_tensor: TensorDesc, updates_tensor: TensorDesc, output_tensor: TensorDesc | None = ..., axis: int | integer[Any]) -> None: ...
class DML_SIZE_2D(Size2D):
    @overload
    def __init__(self, *, Width: int | integer[Any], Height: int | integer[Any]) -> None: ...
    @overload
    def __init__(self, *, width: int | integer[Any], height: int | integer[Any]) -> None: ...
class DML_SLICE1_OPERATOR_DESC(Slice1Desc):
    @overload
    def __init__(self, *, InputTensor: TensorDesc, OutputTensor: TensorDesc | None = ..., InputWindowOffsets: Sequence[int], InputWindowSizes: Sequence[int], InputWindowStrides: Sequence[int], DimensionCount: int | integer[Any] = ...) -> None: ...
    @overload
    def __init__(self, *, input_tensor: TensorDesc, output_tensor: TensorDesc | None = ..., input_window_offsets: Sequence[int], input_window_sizes: Sequence[int], input_window_strides: Sequence[int]) -> None: ...
class DML_SLICE_GRAD_OPERATOR_DESC(SliceGradDesc):
    @overload
    def __init__(self, *, InputGradientTensor: TensorDesc, OutputGradientTensor: TensorDesc, InputWindowOffsets: Sequence[int], InputWindowSizes: Sequence[int], InputWindowStrides: Sequence[int], DimensionCount: int | integer[Any] = ...) -> None: ...
    @overload
    def __init__(self, *, input_gradient_tensor: TensorDesc, output_gradient_tensor: TensorDesc, input_window_offsets: Sequence[int], input_window_sizes: Sequence[int], input_window_strides: Sequence[int]) -> None: ...
class DML_SLICE_OPERATOR_DESC(SliceDesc):
    @overload
    def __init__(self, *, InputTensor: TensorDesc, OutputTensor: TensorDesc | None = ..., Offsets: Sequence[int], Sizes: Sequence[int], Strides: Sequence[int], DimensionCount: int | integer[Any] = ...) -> None: ...
    @overload
    def __init__(self, *, input_tensor: TensorDesc, output_tensor: TensorDesc | None = ..., offsets: Sequence[int], slice_sizes: Sequence[int], strides: Sequence[int]) -> None: ...
class DML_SPACE_TO_DEPTH1_OPERATOR_DESC(SpaceToDepth1Desc):
    @overload
    def __init__(self, *, InputTensor: TensorDesc, OutputTensor: TensorDesc | None = ..., BlockSize: int | integer[Any], Order: DepthSpaceOrder | str | int) -> None: ...
    @overload
    def __init__(self, *, input_tensor: TensorDesc, output_tensor: TensorDesc | None = ..., block_size: int | integer[Any], order: DepthSpaceOrder | str | int) -> None: ...
class DML_SPACE_TO_DEPTH_OPERATOR_DESC(SpaceToDepthDesc):
    @overload
    def __init__(self, *, InputTensor: TensorDesc, OutputTensor: TensorDesc | None = ..., BlockSize: int | integer[Any]) -> None: ...
    @overload
    def __init__(self, *, input_tensor: TensorDesc, output_tensor: TensorDesc | None = ..., block_size: int | integer[Any]) -> None: ...
class DML_SPLIT_OPERATOR_DESC(SplitDesc):
    @overload
    def __init__(self, *, InputTensor: TensorDesc, OutputTensors: Iterable[TensorDesc], Axis: int | integer[Any], OutputCount: int | integer[Any] = ...) -> None: ...
    @overload
    def __init__(self, *, input_tensor: TensorDesc, output_tensors: Iterable[TensorDesc], axis: int | integer[Any]) -> None: ...
class DML_TILE_OPERATOR_DESC(TileDesc):
    @overload
    def __init__(self, *, InputTensor: TensorDesc, OutputTensor: TensorDesc | None = ..., Repeats: Sequence[int], RepeatsCount: int | integer[Any] = ...) -> None: ...
    @overload
    def __init__(self, *, input_tensor: TensorDesc, output_tensor: TensorDesc | None = ..., repeats: Sequence[int]) -> None: ...
class DML_TOP_K1_OPERATOR_DESC(TopK1Desc):
    @overload
    def __init__(self, *, InputTensor: TensorDesc, OutputValueTensor: TensorDesc | None = ..., OutputIndexTensor: TensorDesc | None = ..., Axis: int | integer[Any], K: int | integer[Any], AxisDirection: AxisDirection | str | int = ...) -> None: ...
    @overload
    def __init__(self, *, input_tensor: TensorDesc, output_value_tensor: TensorDesc | None = ..., output_index_tensor: TensorDesc | None = ..., axis: int | integer[Any], k: int | integer[Any], axis_direction: AxisDirection | str | int = ...) -> None: ...
class DML_TOP_K_OPERATOR_DESC(TopKDesc):
    @overload
    def __init__(self, *, InputTensor: TensorDesc, OutputValueTensor: TensorDesc | None = ..., OutputIndexTensor: TensorDesc | None = ..., Axis: int | integer[Any], K: int | integer[Any]) -> None: ...
    @overload
    def __init__(self, *, input_tensor: TensorDesc, output_value_tensor: TensorDesc | None = ..., output_index_tensor: TensorDesc | None = ..., axis: int | integer[Any], k: int | integer[Any]) -> None: ...
class DML_UNFOLD_OPERATOR_DESC(UnfoldDesc):
    @overload
    def __init__(self, *, InputTensor: TensorDesc, OutputTensor: TensorDesc | None = ..., WindowSizes: Sequence[int], Strides: Sequence[int], Dilations: Sequence[int], StartPadding: Sequence[int], EndPadding: Sequence[int], DimensionCount: int | integer[Any] = ...) -> None: ...
    @overload
    def __init__(self, *, input_tensor: TensorDesc, output_tensor: TensorDesc | None = ..., window_sizes: Sequence[int], strides: Sequence[int], dilations: Sequence[int], start_padding: Sequence[int], end_padding: Sequence[int]) -> None: ...
class DML_UPSAMPLE_2D_OPERATOR_DESC(Upsample2DDesc):
    @overload
    def __init__(self, *, InputTensor: TensorDesc, OutputTensor: TensorDesc | None = ..., ScaleSize: Size2D | Mapping[str, Any], InterpolationMode: InterpolationMode | str | int) -> None: ...
    @overload
    def __init__(self, *, input_tensor: TensorDesc, output_tensor: TensorDesc | None = ..., scale_size: Size2D | Mapping[str, Any], interpolation_mode: InterpolationMode | str | int) -> None: ...
class DML_VALUE_SCALE_2D_OPERATOR_DESC(ValueScale2DDesc):
    @overload
    def __init__(self, *, InputTensor: TensorDesc, OutputTensor: TensorDesc | None = ..., Scale: float | str | floating[Any], Bias: Sequence[float], ChannelCount: int | integer[Any] = ...) -> None: ...
    @overload
    def __init__(self, *, input_tensor: TensorDesc, output_tensor: TensorDesc | None = ..., scale: float | str | floating[Any], bias: Sequence[float]) -> None: ...
DML_AXIS_DIRECTION_DECREASING = DML_AXIS_DIRECTION.DECREASING
DML_AXIS_DIRECTION_INCREASING = DML_AXIS_DIRECTION.INCREASING
DML_CONVOLUTION_DIRECTION_BACKWARD = DML_CONVOLUTION_DIRECTION.BACKWARD
DML_CONVOLUTION_DIRECTION_FORWARD = DML_CONVOLUTION_DIRECTION.FORWARD
DML_CONVOLUTION_MODE_CONVOLUTION = DML_CONVOLUTION_MODE.CONVOLUTION
DML_CONVOLUTION_MODE_CROSS_CORRELATION = DML_CONVOLUTION_MODE.CROSS_CORRELATION
DML_DEPTH_SPACE_ORDER_COLUMN_ROW_DEPTH = DML_DEPTH_SPACE_ORDER.COLUMN_ROW_DEPTH
DML_DEPTH_SPACE_ORDER_DEPTH_COLUMN_ROW = DML_DEPTH_SPACE_ORDER.DEPTH_COLUMN_ROW
DML_EXECUTION_FLAG_ALLOW_HALF_PRECISION_COMPUTATION = DML_EXECUTION_FLAGS.ALLOW_HALF_PRECISION_COMPUTATION
DML_EXECUTION_FLAG_DESCRIPTORS_VOLATILE = DML_EXECUTION_FLAGS.DESCRIPTORS_VOLATILE
DML_EXECUTION_FLAG_DISABLE_META_COMMANDS = DML_EXECUTION_FLAGS.DISABLE_META_COMMANDS
DML_EXECUTION_FLAG_NONE = DML_EXECUTION_FLAGS.NONE
DML_FEATURE_FEATURE_LEVELS = DML_FEATURE.FEATURE_LEVELS
DML_FEATURE_LEVEL_1_0 = DML_FEATURE_LEVEL.FL_1_0
DML_FEATURE_LEVEL_2_0 = DML_FEATURE_LEVEL.FL_2_0
DML_FEATURE_LEVEL_2_1 = DML_FEATURE_LEVEL.FL_2_1
DML_FEATURE_LEVEL_3_0 = DML_FEATURE_LEVEL.FL_3_0
DML_FEATURE_LEVEL_3_1 = DML_FEATURE_LEVEL.FL_3_1
DML_FEATURE_LEVEL_4_0 = DML_FEATURE_LEVEL.FL_4_0
DML_FEATURE_LEVEL_4_1 = DML_FEATURE_LEVEL.FL_4_1
DML_FEATURE_LEVEL_5_0 = DML_FEATURE_LEVEL.FL_5_0
DML_FEATURE_LEVEL_5_1 = DML_FEATURE_LEVEL.FL_5_1
DML_FEATURE_LEVEL_5_2 = DML_FEATURE_LEVEL.FL_5_2
DML_FEATURE_LEVEL_6_0 = DML_FEATURE_LEVEL.FL_6_0
DML_FEATURE_LEVEL_6_1 = DML_FEATURE_LEVEL.FL_6_1
DML_FEATURE_LEVEL_6_2 = DML_FEATURE_LEVEL.FL_6_2
DML_FEATURE_LEVEL_6_3 = DML_FEATURE_LEVEL.FL_6_3
DML_FEATURE_LEVEL_6_4 = DML_FEATURE_LEVEL.FL_6_4
DML_FEATURE_TENSOR_DATA_TYPE_SUPPORT = DML_FEATURE.TENSOR_DATA_TYPE_SUPPORT
DML_GRAPH_EDGE_TYPE_INPUT = DML_GRAPH_EDGE_TYPE.INPUT
DML_GRAPH_EDGE_TYPE_INTERMEDIATE = DML_GRAPH_EDGE_TYPE.INTERMEDIATE
DML_GRAPH_EDGE_TYPE_INVALID = DML_GRAPH_EDGE_TYPE.INVALID
DML_GRAPH_EDGE_TYPE_OUTPUT = DML_GRAPH_EDGE_TYPE.OUTPUT
DML_GRAPH_NODE_TYPE_CONSTANT = DML_GRAPH_NODE_TYPE.CONSTANT
DML_GRAPH_NODE_TYPE_INVALID = DML_GRAPH_NODE_TYPE.INVALID
DML_GRAPH_NODE_TYPE_OPERATOR = DML_GRAPH_NODE_TYPE.OPERATOR
DML_INTERPOLATION_MODE_LINEAR = DML_INTERPOLATION_MODE.LINEAR
DML_INTERPOLATION_MODE_NEAREST_NEIGHBOR = DML_INTERPOLATION_MODE.NEAREST_NEIGHBOR
DML_IS_INFINITY_MODE_EITHER = DML_IS_INFINITY_MODE.EITHER
DML_IS_INFINITY_MODE_NEGATIVE = DML_IS_INFINITY_MODE.NEGATIVE
DML_IS_INFINITY_MODE_POSITIVE = DML_IS_INFINITY_MODE.POSITIVE
DML_MATRIX_TRANSFORM_NONE = DML_MATRIX_TRANSFORM.NONE
DML_MATRIX_TRANSFORM_TRANSPOSE = DML_MATRIX_TRANSFORM.TRANSPOSE
DML_MULTIHEAD_ATTENTION_MASK_TYPE_BOOLEAN = DML_MULTIHEAD_ATTENTION_MASK_TYPE.BOOLEAN
DML_MULTIHEAD_ATTENTION_MASK_TYPE_KEY_QUERY_SEQUENCE_LENGTH_START_END = DML_MULTIHEAD_ATTENTION_MASK_TYPE.KEY_QUERY_SEQUENCE_LENGTH_START_END
DML_MULTIHEAD_ATTENTION_MASK_TYPE_KEY_SEQUENCE_END_START = DML_MULTIHEAD_ATTENTION_MASK_TYPE.KEY_SEQUENCE_END_START
DML_MULTIHEAD_ATTENTION_MASK_TYPE_KEY_SEQUENCE_LENGTH = DML_MULTIHEAD_ATTENTION_MASK_TYPE.KEY_SEQUENCE_LENGTH
DML_MULTIHEAD_ATTENTION_MASK_TYPE_NONE = DML_MULTIHEAD_ATTENTION_MASK_TYPE.NONE
DML_PADDING_MODE_CONSTANT = DML_PADDING_MODE.CONSTANT
DML_PADDING_MODE_EDGE = DML_PADDING_MODE.EDGE
DML_PADDING_MODE_REFLECTION = DML_PADDING_MODE.REFLECTION
DML_PADDING_MODE_SYMMETRIC = DML_PADDING_MODE.SYMMETRIC
DML_PADDING_MODE_WRAP = DML_PADDING_MODE.WRAP
DML_QUANTIZATION_TYPE_NONE = DML_QUANTIZATION_TYPE.NONE
DML_QUANTIZATION_TYPE_SCALE = DML_QUANTIZATION_TYPE.SCALE
DML_QUANTIZATION_TYPE_SCALE_ZERO_POINT = DML_QUANTIZATION_TYPE.SCALE_ZERO_POINT
DML_RANDOM_GENERATOR_TYPE_PHILOX_4X32_10 = DML_RANDOM_GENERATOR_TYPE.PHILOX_4X32_10
DML_RECURRENT_NETWORK_DIRECTION_BACKWARD = DML_RECURRENT_NETWORK_DIRECTION.BACKWARD
DML_RECURRENT_NETWORK_DIRECTION_BIDIRECTIONAL = DML_RECURRENT_NETWORK_DIRECTION.BIDIRECTIONAL
DML_RECURRENT_NETWORK_DIRECTION_FORWARD = DML_RECURRENT_NETWORK_DIRECTION.FORWARD
DML_REDUCE_FUNCTION_ARGMAX = DML_REDUCE_FUNCTION.ARGMAX
DML_REDUCE_FUNCTION_ARGMIN = DML_REDUCE_FUNCTION.ARGMIN
DML_REDUCE_FUNCTION_AVERAGE = DML_REDUCE_FUNCTION.AVERAGE
DML_REDUCE_FUNCTION_L1 = DML_REDUCE_FUNCTION.L1
DML_REDUCE_FUNCTION_L2 = DML_REDUCE_FUNCTION.L2
DML_REDUCE_FUNCTION_LOG_SUM = DML_REDUCE_FUNCTION.LOG_SUM
DML_REDUCE_FUNCTION_LOG_SUM_EXP = DML_REDUCE_FUNCTION.LOG_SUM_EXP
DML_REDUCE_FUNCTION_MAX = DML_REDUCE_FUNCTION.MAX
DML_REDUCE_FUNCTION_MIN = DML_REDUCE_FUNCTION.MIN
DML_REDUCE_FUNCTION_MULTIPLY = DML_REDUCE_FUNCTION.MULTIPLY
DML_REDUCE_FUNCTION_SUM = DML_REDUCE_FUNCTION.SUM
DML_REDUCE_FUNCTION_SUM_SQUARE = DML_REDUCE_FUNCTION.SUM_SQUARE
DML_ROUNDING_MODE_HALVES_TO_NEAREST_EVEN = DML_ROUNDING_MODE.HALVES_TO_NEAREST_EVEN
DML_ROUNDING_MODE_TOWARD_INFINITY = DML_ROUNDING_MODE.TOWARD_INFINITY
DML_ROUNDING_MODE_TOWARD_ZERO = DML_ROUNDING_MODE.TOWARD_ZERO
DML_TENSOR_DATA_TYPE_BFLOAT16 = DML_TENSOR_DATA_TYPE.BFLOAT16
DML_TENSOR_DATA_TYPE_FLOAT16 = DML_TENSOR_DATA_TYPE.FLOAT16
DML_TENSOR_DATA_TYPE_FLOAT32 = DML_TENSOR_DATA_TYPE.FLOAT32
DML_TENSOR_DATA_TYPE_FLOAT64 = DML_TENSOR_DATA_TYPE.FLOAT64
DML_TENSOR_DATA_TYPE_INT16 = DML_TENSOR_DATA_TYPE.INT16
DML_TENSOR_DATA_TYPE_INT32 = DML_TENSOR_DATA_TYPE.INT32
DML_TENSOR_DATA_TYPE_INT4 = DML_TENSOR_DATA_TYPE.INT4
DML_TENSOR_DATA_TYPE_INT64 = DML_TENSOR_DATA_TYPE.INT64
DML_TENSOR_DATA_TYPE_INT8 = DML_TENSOR_DATA_TYPE.INT8
DML_TENSOR_DATA_TYPE_UINT16 = DML_TENSOR_DATA_TYPE.UINT16
DML_TENSOR_DATA_TYPE_UINT32 = DML_TENSOR_DATA_TYPE.UINT32
DML_TENSOR_DATA_TYPE_UINT4 = DML_TENSOR_DATA_TYPE.UINT4
DML_TENSOR_DATA_TYPE_UINT64 = DML_TENSOR_DATA_TYPE.UINT64
DML_TENSOR_DATA_TYPE_UINT8 = DML_TENSOR_DATA_TYPE.UINT8
DML_TENSOR_DATA_TYPE_UNKNOWN = DML_TENSOR_DATA_TYPE.UNKNOWN
DML_TENSOR_FLAG_NONE = DML_TENSOR_FLAGS.NONE
DML_TENSOR_FLAG_OWNED_BY_DML = DML_TENSOR_FLAGS.OWNED_BY_DML
DML_TENSOR_TYPE_BUFFER = DML_TENSOR_TYPE.BUFFER
DML_TENSOR_TYPE_INVALID = DML_TENSOR_TYPE.INVALID
DML_MINIMUM_BUFFER_TENSOR_ALIGNMENT: Final = 16
DML_OPERATOR_ACTIVATION_CELU: Final = "DML_OPERATOR_ACTIVATION_CELU"
DML_OPERATOR_ACTIVATION_ELU: Final = "DML_OPERATOR_ACTIVATION_ELU"
DML_OPERATOR_ACTIVATION_GELU: Final = "DML_OPERATOR_ACTIVATION_GELU"
DML_OPERATOR_ACTIVATION_HARDMAX: Final = "DML_OPERATOR_ACTIVATION_HARDMAX"
DML_OPERATOR_ACTIVATION_HARDMAX1: Final = "DML_OPERATOR_ACTIVATION_HARDMAX1"
DML_OPERATOR_ACTIVATION_HARD_SIGMOID: Final = "DML_OPERATOR_ACTIVATION_HARD_SIGMOID"
DML_OPERATOR_ACTIVATION_HARD_SWISH: Final = "DML_OPERATOR_ACTIVATION_HARD_SWISH"
DML_OPERATOR_ACTIVATION_IDENTITY: Final = "DML_OPERATOR_ACTIVATION_IDENTITY"
DML_OPERATOR_ACTIVATION_LEAKY_RELU: Final = "DML_OPERATOR_ACTIVATION_LEAKY_RELU"
DML_OPERATOR_ACTIVATION_LINEAR: Final = "DML_OPERATOR_ACTIVATION_LINEAR"
DML_OPERATOR_ACTIVATION_LOG_SOFTMAX: Final = "DML_OPERATOR_ACTIVATION_LOG_SOFTMAX"
DML_OPERATOR_ACTIVATION_LOG_SOFTMAX1: Final = "DML_OPERATOR_ACTIVATION_LOG_SOFTMAX1"
DML_OPERATOR_ACTIVATION_PARAMETERIZED_RELU: Final = "DML_OPERATOR_ACTIVATION_PARAMETERIZED_RELU"
DML_OPERATOR_ACTIVATION_PARAMETRIC_SOFTPLUS: Final = "DML_OPERATOR_ACTIVATION_PARAMETRIC_SOFTPLUS"
DML_OPERATOR_ACTIVATION_RELU: Final = "DML_OPERATOR_ACTIVATION_RELU"
DML_OPERATOR_ACTIVATION_RELU_GRAD: Final = "DML_OPERATOR_ACTIVATION_RELU_GRAD"
DML_OPERATOR_ACTIVATION_SCALED_ELU: Final = "DML_OPERATOR_ACTIVATION_SCALED_ELU"
DML_OPERATOR_ACTIVATION_SCALED_TANH: Final = "DML_OPERATOR_ACTIVATION_SCALED_TANH"
DML_OPERATOR_ACTIVATION_SHRINK: Final = "DML_OPERATOR_ACTIVATION_SHRINK"
DML_OPERATOR_ACTIVATION_SIGMOID: Final = "DML_OPERATOR_ACTIVATION_SIGMOID"
DML_OPERATOR_ACTIVATION_SOFTMAX: Final = "DML_OPERATOR_ACTIVATION_SOFTMAX"
DML_OPERATOR_ACTIVATION_SOFTMAX1: Final = "DML_OPERATOR_ACTIVATION_SOFTMAX1"
DML_OPERATOR_ACTIVATION_SOFTPLUS: Final = "DML_OPERATOR_ACTIVATION_SOFTPLUS"
DML_OPERATOR_ACTIVATION_SOFTSIGN: Final = "DML_OPERATOR_ACTIVATION_SOFTSIGN"
DML_OPERATOR_ACTIVATION_SWISH: Final = "DML_OPERATOR_ACTIVATION_SWISH"
DML_OPERATOR_ACTIVATION_TANH: Final = "DML_OPERATOR_ACTIVATION_TANH"
DML_OPERATOR_ACTIVATION_THRESHOLDED_RELU: Final = "DML_OPERATOR_ACTIVATION_THRESHOLDED_RELU"
DML_OPERATOR_ADAM_OPTIMIZER: Final = "DML_OPERATOR_ADAM_OPTIMIZER"
DML_OPERATOR_ARGMAX: Final = "DML_OPERATOR_ARGMAX"
DML_OPERATOR_ARGMIN: Final = "DML_OPERATOR_ARGMIN"
DML_OPERATOR_AVERAGE_POOLING: Final = "DML_OPERATOR_AVERAGE_POOLING"
DML_OPERATOR_AVERAGE_POOLING1: Final = "DML_OPERATOR_AVERAGE_POOLING1"
DML_OPERATOR_AVERAGE_POOLING_GRAD: Final = "DML_OPERATOR_AVERAGE_POOLING_GRAD"
DML_OPERATOR_BATCH_NORMALIZATION: Final = "DML_OPERATOR_BATCH_NORMALIZATION"
DML_OPERATOR_BATCH_NORMALIZATION_GRAD: Final = "DML_OPERATOR_BATCH_NORMALIZATION_GRAD"
DML_OPERATOR_BATCH_NORMALIZATION_TRAINING: Final = "DML_OPERATOR_BATCH_NORMALIZATION_TRAINING"
DML_OPERATOR_BATCH_NORMALIZATION_TRAINING_GRAD: Final = "DML_OPERATOR_BATCH_NORMALIZATION_TRAINING_GRAD"
DML_OPERATOR_CAST: Final = "DML_OPERATOR_CAST"
DML_OPERATOR_CONVOLUTION: Final = "DML_OPERATOR_CONVOLUTION"
DML_OPERATOR_CONVOLUTION_INTEGER: Final = "DML_OPERATOR_CONVOLUTION_INTEGER"
DML_OPERATOR_CUMULATIVE_PRODUCT: Final = "DML_OPERATOR_CUMULATIVE_PRODUCT"
DML_OPERATOR_CUMULATIVE_SUMMATION: Final = "DML_OPERATOR_CUMULATIVE_SUMMATION"
DML_OPERATOR_DEPTH_TO_SPACE: Final = "DML_OPERATOR_DEPTH_TO_SPACE"
DML_OPERATOR_DEPTH_TO_SPACE1: Final = "DML_OPERATOR_DEPTH_TO_SPACE1"
DML_OPERATOR_DEQUANTIZE: Final = "DML_OPERATOR_DEQUANTIZE"
DML_OPERATOR_DIAGONAL_MATRIX: Final = "DML_OPERATOR_DIAGONAL_MATRIX"
DML_OPERATOR_DIAGONAL_MATRIX1: Final = "DML_OPERATOR_DIAGONAL_MATRIX1"
DML_OPERATOR_DYNAMIC_QUANTIZE_LINEAR: Final = "DML_OPERATOR_DYNAMIC_QUANTIZE_LINEAR"
DML_OPERATOR_ELEMENT_WISE_ABS: Final = "DML_OPERATOR_ELEMENT_WISE_ABS"
DML_OPERATOR_ELEMENT_WISE_ACOS: Final = "DML_OPERATOR_ELEMENT_WISE_ACOS"
DML_OPERATOR_ELEMENT_WISE_ACOSH: Final = "DML_OPERATOR_ELEMENT_WISE_ACOSH"
DML_OPERATOR_ELEMENT_WISE_ADD: Final = "DML_OPERATOR_ELEMENT_WISE_ADD"
DML_OPERATOR_ELEMENT_WISE_ADD1: Final = "DML_OPERATOR_ELEMENT_WISE_ADD1"
DML_OPERATOR_ELEMENT_WISE_ASIN: Final = "DML_OPERATOR_ELEMENT_WISE_ASIN"
DML_OPERATOR_ELEMENT_WISE_ASINH: Final = "DML_OPERATOR_ELEMENT_WISE_ASINH"
DML_OPERATOR_ELEMENT_WISE_ATAN: Final = "DML_OPERATOR_ELEMENT_WISE_ATAN"
DML_OPERATOR_ELEMENT_WISE_ATANH: Final = "DML_OPERATOR_ELEMENT_WISE_ATANH"
DML_OPERATOR_ELEMENT_WISE_ATAN_YX: Final = "DML_OPERATOR_ELEMENT_WISE_ATAN_YX"
DML_OPERATOR_ELEMENT_WISE_BIT_AND: Final = "DML_OPERATOR_ELEMENT_WISE_BIT_AND"
DML_OPERATOR_ELEMENT_WISE_BIT_COUNT: Final = "DML_OPERATOR_ELEMENT_WISE_BIT_COUNT"
DML_OPERATOR_ELEMENT_WISE_BIT_NOT: Final = "DML_OPERATOR_ELEMENT_WISE_BIT_NOT"
DML_OPERATOR_ELEMENT_WISE_BIT_OR: Final = "DML_OPERATOR_ELEMENT_WISE_BIT_OR"
DML_OPERATOR_ELEMENT_WISE_BIT_SHIFT_LEFT: Final = "DML_OPERATOR_ELEMENT_WISE_BIT_SHIFT_LEFT"
DML_OPERATOR_ELEMENT_WISE_BIT_SHIFT_RIGHT: Final = "DML_OPERATOR_ELEMENT_WISE_BIT_SHIFT_RIGHT"
DML_OPERATOR_ELEMENT_WISE_BIT_XOR: Final = "DML_OPERATOR_ELEMENT_WISE_BIT_XOR"
DML_OPERATOR_ELEMENT_WISE_CEIL: Final = "DML_OPERATOR_ELEMENT_WISE_CEIL"
DML_OPERATOR_ELEMENT_WISE_CLIP: Final = "DML_OPERATOR_ELEMENT_WISE_CLIP"
DML_OPERATOR_ELEMENT_WISE_CLIP1: Final = "DML_OPERATOR_ELEMENT_WISE_CLIP1"
DML_OPERATOR_ELEMENT_WISE_CLIP_GRAD: Final = "DML_OPERATOR_ELEMENT_WISE_CLIP_GRAD"
DML_OPERATOR_ELEMENT_WISE_CLIP_GRAD1: Final = "DML_OPERATOR_ELEMENT_WISE_CLIP_GRAD1"
DML_OPERATOR_ELEMENT_WISE_CONSTANT_POW: Final = "DML_OPERATOR_ELEMENT_WISE_CONSTANT_POW"
DML_OPERATOR_ELEMENT_WISE_COS: Final = "DML_OPERATOR_ELEMENT_WISE_COS"
DML_OPERATOR_ELEMENT_WISE_COSH: Final = "DML_OPERATOR_ELEMENT_WISE_COSH"
DML_OPERATOR_ELEMENT_WISE_DEQUANTIZE_LINEAR: Final = "DML_OPERATOR_ELEMENT_WISE_DEQUANTIZE_LINEAR"
DML_OPERATOR_ELEMENT_WISE_DIFFERENCE_SQUARE: Final = "DML_OPERATOR_ELEMENT_WISE_DIFFERENCE_SQUARE"
DML_OPERATOR_ELEMENT_WISE_DIVIDE: Final = "DML_OPERATOR_ELEMENT_WISE_DIVIDE"
DML_OPERATOR_ELEMENT_WISE_ERF: Final = "DML_OPERATOR_ELEMENT_WISE_ERF"
DML_OPERATOR_ELEMENT_WISE_EXP: Final = "DML_OPERATOR_ELEMENT_WISE_EXP"
DML_OPERATOR_ELEMENT_WISE_FLOOR: Final = "DML_OPERATOR_ELEMENT_WISE_FLOOR"
DML_OPERATOR_ELEMENT_WISE_IDENTITY: Final = "DML_OPERATOR_ELEMENT_WISE_IDENTITY"
DML_OPERATOR_ELEMENT_WISE_IF: Final = "DML_OPERATOR_ELEMENT_WISE_IF"
DML_OPERATOR_ELEMENT_WISE_IS_INFINITY: Final = "DML_OPERATOR_ELEMENT_WISE_IS_INFINITY"
DML_OPERATOR_ELEMENT_WISE_IS_NAN: Final = "DML_OPERATOR_ELEMENT_WISE_IS_NAN"
DML_OPERATOR_ELEMENT_WISE_LOG: Final = "DML_OPERATOR_ELEMENT_WISE_LOG"
DML_OPERATOR_ELEMENT_WISE_LOGICAL_AND: Final = "DML_OPERATOR_ELEMENT_WISE_LOGICAL_AND"
DML_OPERATOR_ELEMENT_WISE_LOGICAL_EQUALS: Final = "DML_OPERATOR_ELEMENT_WISE_LOGICAL_EQUALS"
DML_OPERATOR_ELEMENT_WISE_LOGICAL_GREATER_THAN: Final = "DML_OPERATOR_ELEMENT_WISE_LOGICAL_GREATER_THAN"
DML_OPERATOR_ELEMENT_WISE_LOGICAL_GREATER_THAN_OR_EQUAL: Final = "DML_OPERATOR_ELEMENT_WISE_LOGICAL_GREATER_THAN_OR_EQUAL"
DML_OPERATOR_ELEMENT_WISE_LOGICAL_LESS_THAN: Final = "DML_OPERATOR_ELEMENT_WISE_LOGICAL_LESS_THAN"
DML_OPERATOR_ELEMENT_WISE_LOGICAL_LESS_THAN_OR_EQUAL: Final = "DML_OPERATOR_ELEMENT_WISE_LOGICAL_LESS_THAN_OR_EQUAL"
DML_OPERATOR_ELEMENT_WISE_LOGICAL_NOT: Final = "DML_OPERATOR_ELEMENT_WISE_LOGICAL_NOT"
DML_OPERATOR_ELEMENT_WISE_LOGICAL_OR: Final = "DML_OPERATOR_ELEMENT_WISE_LOGICAL_OR"
DML_OPERATOR_ELEMENT_WISE_LOGICAL_XOR: Final = "DML_OPERATOR_ELEMENT_WISE_LOGICAL_XOR"
DML_OPERATOR_ELEMENT_WISE_MAX: Final = "DML_OPERATOR_ELEMENT_WISE_MAX"
DML_OPERATOR_ELEMENT_WISE_MEAN: Final = "DML_OPERATOR_ELEMENT_WISE_MEAN"
DML_OPERATOR_ELEMENT_WISE_MIN: Final = "DML_OPERATOR_ELEMENT_WISE_MIN"
DML_OPERATOR_ELEMENT_WISE_MODULUS_FLOOR: Final = "DML_OPERATOR_ELEMENT_WISE_MODULUS_FLOOR"
DML_OPERATOR_ELEMENT_WISE_MODULUS_TRUNCATE: Final = "DML_OPERATOR_ELEMENT_WISE_MODULUS_TRUNCATE"
DML_OPERATOR_ELEMENT_WISE_MULTIPLY: Final = "DML_OPERATOR_ELEMENT_WISE_MULTIPLY"
DML_OPERATOR_ELEMENT_WISE_NEGATE: Final = "DML_OPERATOR_ELEMENT_WISE_NEGATE"
DML_OPERATOR_ELEMENT_WISE_POW: Final = "DML_OPERATOR_ELEMENT_WISE_POW"
DML_OPERATOR_ELEMENT_WISE_QUANTIZED_LINEAR_ADD: Final = "DML_OPERATOR_ELEMENT_WISE_QUANTIZED_LINEAR_ADD"
DML_OPERATOR_ELEMENT_WISE_QUANTIZE_LINEAR: Final = "DML_OPERATOR_ELEMENT_WISE_QUANTIZE_LINEAR"
DML_OPERATOR_ELEMENT_WISE_RECIP: Final = "DML_OPERATOR_ELEMENT_WISE_RECIP"
DML_OPERATOR_ELEMENT_WISE_ROUND: Final = "DML_OPERATOR_ELEMENT_WISE_ROUND"
DML_OPERATOR_ELEMENT_WISE_SIGN: Final = "DML_OPERATOR_ELEMENT_WISE_SIGN"
DML_OPERATOR_ELEMENT_WISE_SIN: Final = "DML_OPERATOR_ELEMENT_WISE_SIN"
DML_OPERATOR_ELEMENT_WISE_SINH: Final = "DML_OPERATOR_ELEMENT_WISE_SINH"
DML_OPERATOR_ELEMENT_WISE_SQRT: Final = "DML_OPERATOR_ELEMENT_WISE_SQRT"
DML_OPERATOR_ELEMENT_WISE_SUBTRACT: Final = "DML_OPERATOR_ELEMENT_WISE_SUBTRACT"
DML_OPERATOR_ELEMENT_WISE_TAN: Final = "DML_OPERATOR_ELEMENT_WISE_TAN"
DML_OPERATOR_ELEMENT_WISE_TANH: Final = "DML_OPERATOR_ELEMENT_WISE_TANH"
DML_OPERATOR_ELEMENT_WISE_THRESHOLD: Final = "DML_OPERATOR_ELEMENT_WISE_THRESHOLD"
DML_OPERATOR_FILL_VALUE_CONSTANT: Final = "DML_OPERATOR_FILL_VALUE_CONSTANT"
DML_OPERATOR_FILL_VALUE_SEQUENCE: Final = "DML_OPERATOR_FILL_VALUE_SEQUENCE"
DML_OPERATOR_FOLD: Final = "DML_OPERATOR_FOLD"
DML_OPERATOR_GATHER: Final = "DML_OPERATOR_GATHER"
DML_OPERATOR_GATHER_ELEMENTS: Final = "DML_OPERATOR_GATHER_ELEMENTS"
DML_OPERATOR_GATHER_ND: Final = "DML_OPERATOR_GATHER_ND"
DML_OPERATOR_GATHER_ND1: Final = "DML_OPERATOR_GATHER_ND1"
DML_OPERATOR_GEMM: Final = "DML_OPERATOR_GEMM"
DML_OPERATOR_GRU: Final = "DML_OPERATOR_GRU"
DML_OPERATOR_JOIN: Final = "DML_OPERATOR_JOIN"
DML_OPERATOR_LOCAL_RESPONSE_NORMALIZATION: Final = "DML_OPERATOR_LOCAL_RESPONSE_NORMALIZATION"
DML_OPERATOR_LOCAL_RESPONSE_NORMALIZATION_GRAD: Final = "DML_OPERATOR_LOCAL_RESPONSE_NORMALIZATION_GRAD"
DML_OPERATOR_LP_NORMALIZATION: Final = "DML_OPERATOR_LP_NORMALIZATION"
DML_OPERATOR_LP_POOLING: Final = "DML_OPERATOR_LP_POOLING"
DML_OPERATOR_LP_POOLING1: Final = "DML_OPERATOR_LP_POOLING1"
DML_OPERATOR_LSTM: Final = "DML_OPERATOR_LSTM"
DML_OPERATOR_MATRIX_MULTIPLY_INTEGER: Final = "DML_OPERATOR_MATRIX_MULTIPLY_INTEGER"
DML_OPERATOR_MATRIX_MULTIPLY_INTEGER_TO_FLOAT: Final = "DML_OPERATOR_MATRIX_MULTIPLY_INTEGER_TO_FLOAT"
DML_OPERATOR_MAX_POOLING: Final = "DML_OPERATOR_MAX_POOLING"
DML_OPERATOR_MAX_POOLING1: Final = "DML_OPERATOR_MAX_POOLING1"
DML_OPERATOR_MAX_POOLING2: Final = "DML_OPERATOR_MAX_POOLING2"
DML_OPERATOR_MAX_POOLING_GRAD: Final = "DML_OPERATOR_MAX_POOLING_GRAD"
DML_OPERATOR_MAX_UNPOOLING: Final = "DML_OPERATOR_MAX_UNPOOLING"
DML_OPERATOR_MEAN_VARIANCE_NORMALIZATION: Final = "DML_OPERATOR_MEAN_VARIANCE_NORMALIZATION"
DML_OPERATOR_MEAN_VARIANCE_NORMALIZATION1: Final = "DML_OPERATOR_MEAN_VARIANCE_NORMALIZATION1"
DML_OPERATOR_MEAN_VARIANCE_NORMALIZATION2: Final = "DML_OPERATOR_MEAN_VARIANCE_NORMALIZATION2"
DML_OPERATOR_MULTIHEAD_ATTENTION: Final = "DML_OPERATOR_MULTIHEAD_ATTENTION"
DML_OPERATOR_MULTIHEAD_ATTENTION1: Final = "DML_OPERATOR_MULTIHEAD_ATTENTION1"
DML_OPERATOR_NONZERO_COORDINATES: Final = "DML_OPERATOR_NONZERO_COORDINATES"
DML_OPERATOR_ONE_HOT: Final = "DML_OPERATOR_ONE_HOT"
DML_OPERATOR_PADDING: Final = "DML_OPERATOR_PADDING"
DML_OPERATOR_PADDING1: Final = "DML_OPERATOR_PADDING1"
DML_OPERATOR_QUANTIZE: Final = "DML_OPERATOR_QUANTIZE"
DML_OPERATOR_QUANTIZED_LINEAR_AVERAGE_POOLING: Final = "DML_OPERATOR_QUANTIZED_LINEAR_AVERAGE_POOLING"
DML_OPERATOR_QUANTIZED_LINEAR_CONVOLUTION: Final = "DML_OPERATOR_QUANTIZED_LINEAR_CONVOLUTION"
DML_OPERATOR_QUANTIZED_LINEAR_MATRIX_MULTIPLY: Final = "DML_OPERATOR_QUANTIZED_LINEAR_MATRIX_MULTIPLY"
DML_OPERATOR_RANDOM_GENERATOR: Final = "DML_OPERATOR_RANDOM_GENERATOR"
DML_OPERATOR_REDUCE: Final = "DML_OPERATOR_REDUCE"
DML_OPERATOR_RESAMPLE: Final = "DML_OPERATOR_RESAMPLE"
DML_OPERATOR_RESAMPLE1: Final = "DML_OPERATOR_RESAMPLE1"
DML_OPERATOR_RESAMPLE2: Final = "DML_OPERATOR_RESAMPLE2"
DML_OPERATOR_RESAMPLE3: Final = "DML_OPERATOR_RESAMPLE3"
DML_OPERATOR_RESAMPLE_GRAD: Final = "DML_OPERATOR_RESAMPLE_GRAD"
DML_OPERATOR_RESAMPLE_GRAD1: Final = "DML_OPERATOR_RESAMPLE_GRAD1"
DML_OPERATOR_REVERSE_SUBSEQUENCES: Final = "DML_OPERATOR_REVERSE_SUBSEQUENCES"
DML_OPERATOR_RNN: Final = "DML_OPERATOR_RNN"
DML_OPERATOR_ROI_ALIGN: Final = "DML_OPERATOR_ROI_ALIGN"
DML_OPERATOR_ROI_ALIGN1: Final = "DML_OPERATOR_ROI_ALIGN1"
DML_OPERATOR_ROI_ALIGN_GRAD: Final = "DML_OPERATOR_ROI_ALIGN_GRAD"
DML_OPERATOR_ROI_POOLING: Final = "DML_OPERATOR_ROI_POOLING"
DML_OPERATOR_SCATTER: Final = "DML_OPERATOR_SCATTER"
DML_OPERATOR_SCATTER_ELEMENTS: Final = "DML_OPERATOR_SCATTER"
DML_OPERATOR_SCATTER_ND: Final = "DML_OPERATOR_SCATTER_ND"
DML_OPERATOR_SLICE: Final = "DML_OPERATOR_SLICE"
DML_OPERATOR_SLICE1: Final = "DML_OPERATOR_SLICE1"
DML_OPERATOR_SLICE_GRAD: Final = "DML_OPERATOR_SLICE_GRAD"
DML_OPERATOR_SPACE_TO_DEPTH: Final = "DML_OPERATOR_SPACE_TO_DEPTH"
DML_OPERATOR_SPACE_TO_DEPTH1: Final = "DML_OPERATOR_SPACE_TO_DEPTH1"
DML_OPERATOR_SPLIT: Final = "DML_OPERATOR_SPLIT"
DML_OPERATOR_TILE: Final = "DML_OPERATOR_TILE"
DML_OPERATOR_TOP_K: Final = "DML_OPERATOR_TOP_K"
DML_OPERATOR_TOP_K1: Final = "DML_OPERATOR_TOP_K1"
DML_OPERATOR_UNFOLD: Final = "DML_OPERATOR_UNFOLD"
DML_OPERATOR_UPSAMPLE_2D: Final = "DML_OPERATOR_UPSAMPLE_2D"
DML_OPERATOR_VALUE_SCALE_2D: Final = "DML_OPERATOR_VALUE_SCALE_2D"
DML_PERSISTENT_BUFFER_ALIGNMENT: Final = 256
DML_TARGET_VERSION: Final = 25600
DML_TEMPORARY_BUFFER_ALIGNMENT: Final = 256
DML_TENSOR_DIMENSION_COUNT_MAX: Final = 5
DML_TENSOR_DIMENSION_COUNT_MAX1: Final = 8
__all__ = [
    "DMLCalcBufferTensorSize",
    "DML_ACTIVATION_CELU_OPERATOR_DESC",
    "DML_ACTIVATION_ELU_OPERATOR_DESC",
    "DML_ACTIVATION_GELU_OPERATOR_DESC",
    "DML_ACTIVATION_HARDMAX1_OPERATOR_DESC",
    "DML_ACTIVATION_HARDMAX_OPERATOR_DESC",
    "DML_ACTIVATION_HARD_SIGMOID_OPERATOR_DESC",
    "DML_ACTIVATION_HARD_SWISH_OPERATOR_DESC",
    "DML_ACTIVATION_IDENTITY_OPERATOR_DESC",
    "DML_ACTIVATION_LEAKY_RELU_OPERATOR_DESC",
    "DML_ACTIVATION_LINEAR_OPERATOR_DESC",
    "DML_ACTIVATION_LOG_SOFTMAX1_OPERATOR_DESC",
    "DML_ACTIVATION_LOG_SOFTMAX_OPERATOR_DESC",
    "DML_ACTIVATION_PARAMETERIZED_RELU_OPERATOR_DESC",
    "DML_ACTIVATION_PARAMETRIC_SOFTPLUS_OPERATOR_DESC",
    "DML_ACTIVATION_RELU_GRAD_OPERATOR_DESC",
    "DML_ACTIVATION_RELU_OPERATOR_DESC",
    "DML_ACTIVATION_SCALED_ELU_OPERATOR_DESC",
    "DML_ACTIVATION_SCALED_TANH_OPERATOR_DESC",
    "DML_ACTIVATION_SHRINK_OPERATOR_DESC",
    "DML_ACTIVATION_SIGMOID_OPERATOR_DESC",
    "DML_ACTIVATION_SOFTMAX1_OPERATOR_DESC",
    "DML_ACTIVATION_SOFTMAX_OPERATOR_DESC",
    "DML_ACTIVATION_SOFTPLUS_OPERATOR_DESC",
    "DML_ACTIVATION_SOFTSIGN_OPERATOR_DESC",
    "DML_ACTIVATION_SWISH_OPERATOR_DESC",
    "DML_ACTIVATION_TANH_OPERATOR_DESC",
    "DML_ACTIVATION_THRESHOLDED_RELU_OPERATOR_DESC",
    "DML_ADAM_OPTIMIZER_OPERATOR_DESC",
    "DML_ARGMAX_OPERATOR_DESC",
    "DML_ARGMIN_OPERATOR_DESC",
    "DML_AVERAGE_POOLING1_OPERATOR_DESC",
    "DML_AVERAGE_POOLING_GRAD_OPERATOR_DESC",
    "DML_AVERAGE_POOLING_OPERATOR_DESC",
    "DML_AXIS_DIRECTION",
    "DML_AXIS_DIRECTION_DECREASING",
    "DML_AXIS_DIRECTION_INCREASING",
    "DML_BATCH_NORMALIZATION_GRAD_OPERATOR_DESC",
    "DML_BATCH_NORMALIZATION_OPERATOR_DESC",
    "DML_BATCH_NORMALIZATION_TRAINING_GRAD_OPERATOR_DESC",
    "DML_BATCH_NORMALIZATION_TRAINING_OPERATOR_DESC",
    "DML_BINDING_PROPERTIES",
    "DML_BUFFER_BINDING",
    "DML_BUFFER_TENSOR_DESC",
    "DML_CAST_OPERATOR_DESC",
    "DML_CONSTANT_DATA_GRAPH_NODE_DESC",
    "DML_CONVOLUTION_DIRECTION",
    "DML_CONVOLUTION_DIRECTION_BACKWARD",
    "DML_CONVOLUTION_DIRECTION_FORWARD",
    "DML_CONVOLUTION_INTEGER_OPERATOR_DESC",
    "DML_CONVOLUTION_MODE",
    "DML_CONVOLUTION_MODE_CONVOLUTION",
    "DML_CONVOLUTION_MODE_CROSS_CORRELATION",
    "DML_CONVOLUTION_OPERATOR_DESC",
    "DML_CUMULATIVE_PRODUCT_OPERATOR_DESC",
    "DML_CUMULATIVE_SUMMATION_OPERATOR_DESC",
    "DML_DEPTH_SPACE_ORDER",
    "DML_DEPTH_SPACE_ORDER_COLUMN_ROW_DEPTH",
    "DML_DEPTH_SPACE_ORDER_DEPTH_COLUMN_ROW",
    "DML_DEPTH_TO_SPACE1_OPERATOR_DESC",
    "DML_DEPTH_TO_SPACE_OPERATOR_DESC",
    "DML_DEQUANTIZE_OPERATOR_DESC",
    "DML_DIAGONAL_MATRIX1_OPERATOR_DESC",
    "DML_DIAGONAL_MATRIX_OPERATOR_DESC",
    "DML_DYNAMIC_QUANTIZE_LINEAR_OPERATOR_DESC",
    "DML_ELEMENT_WISE_ABS_OPERATOR_DESC",
    "DML_ELEMENT_WISE_ACOSH_OPERATOR_DESC",
    "DML_ELEMENT_WISE_ACOS_OPERATOR_DESC",
    "DML_ELEMENT_WISE_ADD1_OPERATOR_DESC",
    "DML_ELEMENT_WISE_ADD_OPERATOR_DESC",
    "DML_ELEMENT_WISE_ASINH_OPERATOR_DESC",
    "DML_ELEMENT_WISE_ASIN_OPERATOR_DESC",
    "DML_ELEMENT_WISE_ATANH_OPERATOR_DESC",
    "DML_ELEMENT_WISE_ATAN_OPERATOR_DESC",
    "DML_ELEMENT_WISE_ATAN_YX_OPERATOR_DESC",
    "DML_ELEMENT_WISE_BIT_AND_OPERATOR_DESC",
    "DML_ELEMENT_WISE_BIT_COUNT_OPERATOR_DESC",
    "DML_ELEMENT_WISE_BIT_NOT_OPERATOR_DESC",
    "DML_ELEMENT_WISE_BIT_OR_OPERATOR_DESC",
    "DML_ELEMENT_WISE_BIT_SHIFT_LEFT_OPERATOR_DESC",
    "DML_ELEMENT_WISE_BIT_SHIFT_RIGHT_OPERATOR_DESC",
    "DML_ELEMENT_WISE_BIT_XOR_OPERATOR_DESC",
    "DML_ELEMENT_WISE_CEIL_OPERATOR_DESC",
    "DML_ELEMENT_WISE_CLIP1_OPERATOR_DESC",
    "DML_ELEMENT_WISE_CLIP_GRAD1_OPERATOR_DESC",
    "DML_ELEMENT_WISE_CLIP_GRAD_OPERATOR_DESC",
    "DML_ELEMENT_WISE_CLIP_OPERATOR_DESC",
    "DML_ELEMENT_WISE_CONSTANT_POW_OPERATOR_DESC",
    "DML_ELEMENT_WISE_COSH_OPERATOR_DESC",
    "DML_ELEMENT_WISE_COS_OPERATOR_DESC",
    "DML_ELEMENT_WISE_DEQUANTIZE_LINEAR_OPERATOR_DESC",
    "DML_ELEMENT_WISE_DIFFERENCE_SQUARE_OPERATOR_DESC",
    "DML_ELEMENT_WISE_DIVIDE_OPERATOR_DESC",
    "DML_ELEMENT_WISE_ERF_OPERATOR_DESC",
    "DML_ELEMENT_WISE_EXP_OPERATOR_DESC",
    "DML_ELEMENT_WISE_FLOOR_OPERATOR_DESC",
    "DML_ELEMENT_WISE_IDENTITY_OPERATOR_DESC",
    "DML_ELEMENT_WISE_IF_OPERATOR_DESC",
    "DML_ELEMENT_WISE_IS_INFINITY_OPERATOR_DESC",
    "DML_ELEMENT_WISE_IS_NAN_OPERATOR_DESC",
    "DML_ELEMENT_WISE_LOGICAL_AND_OPERATOR_DESC",
    "DML_ELEMENT_WISE_LOGICAL_EQUALS_OPERATOR_DESC",
    "DML_ELEMENT_WISE_LOGICAL_GREATER_THAN_OPERATOR_DESC",
    "DML_ELEMENT_WISE_LOGICAL_GREATER_THAN_OR_EQUAL_OPERATOR_DESC",
    "DML_ELEMENT_WISE_LOGICAL_LESS_THAN_OPERATOR_DESC",
    "DML_ELEMENT_WISE_LOGICAL_LESS_THAN_OR_EQUAL_OPERATOR_DESC",
    "DML_ELEMENT_WISE_LOGICAL_NOT_OPERATOR_DESC",
    "DML_ELEMENT_WISE_LOGICAL_OR_OPERATOR_DESC",
    "DML_ELEMENT_WISE_LOGICAL_XOR_OPERATOR_DESC",
    "DML_ELEMENT_WISE_LOG_OPERATOR_DESC",
    "DML_ELEMENT_WISE_MAX_OPERATOR_DESC",
    "DML_ELEMENT_WISE_MEAN_OPERATOR_DESC",
    "DML_ELEMENT_WISE_MIN_OPERATOR_DESC",
    "DML_ELEMENT_WISE_MODULUS_FLOOR_OPERATOR_DESC",
    "DML_ELEMENT_WISE_MODULUS_TRUNCATE_OPERATOR_DESC",
    "DML_ELEMENT_WISE_MULTIPLY_OPERATOR_DESC",
    "DML_ELEMENT_WISE_NEGATE_OPERATOR_DESC",
    "DML_ELEMENT_WISE_POW_OPERATOR_DESC",
    "DML_ELEMENT_WISE_QUANTIZED_LINEAR_ADD_OPERATOR_DESC",
    "DML_ELEMENT_WISE_QUANTIZE_LINEAR_OPERATOR_DESC",
    "DML_ELEMENT_WISE_RECIP_OPERATOR_DESC",
    "DML_ELEMENT_WISE_ROUND_OPERATOR_DESC",
    "DML_ELEMENT_WISE_SIGN_OPERATOR_DESC",
    "DML_ELEMENT_WISE_SINH_OPERATOR_DESC",
    "DML_ELEMENT_WISE_SIN_OPERATOR_DESC",
    "DML_ELEMENT_WISE_SQRT_OPERATOR_DESC",
    "DML_ELEMENT_WISE_SUBTRACT_OPERATOR_DESC",
    "DML_ELEMENT_WISE_TANH_OPERATOR_DESC",
    "DML_ELEMENT_WISE_TAN_OPERATOR_DESC",
    "DML_ELEMENT_WISE_THRESHOLD_OPERATOR_DESC",
    "DML_EXECUTION_FLAGS",
    "DML_EXECUTION_FLAG_ALLOW_HALF_PRECISION_COMPUTATION",
    "DML_EXECUTION_FLAG_DESCRIPTORS_VOLATILE",
    "DML_EXECUTION_FLAG_DISABLE_META_COMMANDS",
    "DML_EXECUTION_FLAG_NONE",
    "DML_FEATURE",
    "DML_FEATURE_DATA_FEATURE_LEVELS",
    "DML_FEATURE_DATA_TENSOR_DATA_TYPE_SUPPORT",
    "DML_FEATURE_FEATURE_LEVELS",
    "DML_FEATURE_LEVEL",
    "DML_FEATURE_LEVEL_1_0",
    "DML_FEATURE_LEVEL_2_0",
    "DML_FEATURE_LEVEL_2_1",
    "DML_FEATURE_LEVEL_3_0",
    "DML_FEATURE_LEVEL_3_1",
    "DML_FEATURE_LEVEL_4_0",
    "DML_FEATURE_LEVEL_4_1",
    "DML_FEATURE_LEVEL_5_0",
    "DML_FEATURE_LEVEL_5_1",
    "DML_FEATURE_LEVEL_5_2",
    "DML_FEATURE_LEVEL_6_0",
    "DML_FEATURE_LEVEL_6_1",
    "DML_FEATURE_LEVEL_6_2",
    "DML_FEATURE_LEVEL_6_3",
    "DML_FEATURE_LEVEL_6_4",
    "DML_FEATURE_QUERY_FEATURE_LEVELS",
    "DML_FEATURE_QUERY_TENSOR_DATA_TYPE_SUPPORT",
    "DML_FEATURE_TENSOR_DATA_TYPE_SUPPORT",
    "DML_FILL_VALUE_CONSTANT_OPERATOR_DESC",
    "DML_FILL_VALUE_SEQUENCE_OPERATOR_DESC",
    "DML_FOLD_OPERATOR_DESC",
    "DML_GATHER_ELEMENTS_OPERATOR_DESC",
    "DML_GATHER_ND1_OPERATOR_DESC",
    "DML_GATHER_ND_OPERATOR_DESC",
    "DML_GATHER_OPERATOR_DESC",
    "DML_GEMM_OPERATOR_DESC",
    "DML_GRAPH_DESC",
    "DML_GRAPH_EDGE_DESC",
    "DML_GRAPH_EDGE_TYPE",
    "DML_GRAPH_EDGE_TYPE_INPUT",
    "DML_GRAPH_EDGE_TYPE_INTERMEDIATE",
    "DML_GRAPH_EDGE_TYPE_INVALID",
    "DML_GRAPH_EDGE_TYPE_OUTPUT",
    "DML_GRAPH_NODE_DESC",
    "DML_GRAPH_NODE_TYPE",
    "DML_GRAPH_NODE_TYPE_CONSTANT",
    "DML_GRAPH_NODE_TYPE_INVALID",
    "DML_GRAPH_NODE_TYPE_OPERATOR",
    "DML_GRU_OPERATOR_DESC",
    "DML_INPUT_GRAPH_EDGE_DESC",
    "DML_INTERMEDIATE_GRAPH_EDGE_DESC",
    "DML_INTERPOLATION_MODE",
    "DML_INTERPOLATION_MODE_LINEAR",
    "DML_INTERPOLATION_MODE_NEAREST_NEIGHBOR",
    "DML_IS_INFINITY_MODE",
    "DML_IS_INFINITY_MODE_EITHER",
    "DML_IS_INFINITY_MODE_NEGATIVE",
    "DML_IS_INFINITY_MODE_POSITIVE",
    "DML_JOIN_OPERATOR_DESC",
    "DML_LOCAL_RESPONSE_NORMALIZATION_GRAD_OPERATOR_DESC",
    "DML_LOCAL_RESPONSE_NORMALIZATION_OPERATOR_DESC",
    "DML_LP_NORMALIZATION_OPERATOR_DESC",
    "DML_LP_POOLING1_OPERATOR_DESC",
    "DML_LP_POOLING_OPERATOR_DESC",
    "DML_LSTM_OPERATOR_DESC",
    "DML_MATRIX_MULTIPLY_INTEGER_OPERATOR_DESC",
    "DML_MATRIX_MULTIPLY_INTEGER_TO_FLOAT_OPERATOR_DESC",
    "DML_MATRIX_TRANSFORM",
    "DML_MATRIX_TRANSFORM_NONE",
    "DML_MATRIX_TRANSFORM_TRANSPOSE",
    "DML_MAX_POOLING1_OPERATOR_DESC",
    "DML_MAX_POOLING2_OPERATOR_DESC",
    "DML_MAX_POOLING_GRAD_OPERATOR_DESC",
    "DML_MAX_POOLING_OPERATOR_DESC",
    "DML_MAX_UNPOOLING_OPERATOR_DESC",
    "DML_MEAN_VARIANCE_NORMALIZATION1_OPERATOR_DESC",
    "DML_MEAN_VARIANCE_NORMALIZATION2_OPERATOR_DESC",
    "DML_MEAN_VARIANCE_NORMALIZATION_OPERATOR_DESC",
    "DML_MINIMUM_BUFFER_TENSOR_ALIGNMENT",
    "DML_MULTIHEAD_ATTENTION1_OPERATOR_DESC",
    "DML_MULTIHEAD_ATTENTION_MASK_TYPE",
    "DML_MULTIHEAD_ATTENTION_MASK_TYPE_BOOLEAN",
    "DML_MULTIHEAD_ATTENTION_MASK_TYPE_KEY_QUERY_SEQUENCE_LENGTH_START_END",
    "DML_MULTIHEAD_ATTENTION_MASK_TYPE_KEY_SEQUENCE_END_START",
    "DML_MULTIHEAD_ATTENTION_MASK_TYPE_KEY_SEQUENCE_LENGTH",
    "DML_MULTIHEAD_ATTENTION_MASK_TYPE_NONE",
    "DML_MULTIHEAD_ATTENTION_OPERATOR_DESC",
    "DML_NONZERO_COORDINATES_OPERATOR_DESC",
    "DML_ONE_HOT_OPERATOR_DESC",
    "DML_OPERATOR_ACTIVATION_CELU",
    "DML_OPERATOR_ACTIVATION_ELU",
    "DML_OPERATOR_ACTIVATION_GELU",
    "DML_OPERATOR_ACTIVATION_HARDMAX",
    "DML_OPERATOR_ACTIVATION_HARDMAX1",
    "DML_OPERATOR_ACTIVATION_HARD_SIGMOID",
    "DML_OPERATOR_ACTIVATION_HARD_SWISH",
    "DML_OPERATOR_ACTIVATION_IDENTITY",
    "DML_OPERATOR_ACTIVATION_LEAKY_RELU",
    "DML_OPERATOR_ACTIVATION_LINEAR",
    "DML_OPERATOR_ACTIVATION_LOG_SOFTMAX",
    "DML_OPERATOR_ACTIVATION_LOG_SOFTMAX1",
    "DML_OPERATOR_ACTIVATION_PARAMETERIZED_RELU",
    "DML_OPERATOR_ACTIVATION_PARAMETRIC_SOFTPLUS",
    "DML_OPERATOR_ACTIVATION_RELU",
    "DML_OPERATOR_ACTIVATION_RELU_GRAD",
    "DML_OPERATOR_ACTIVATION_SCALED_ELU",
    "DML_OPERATOR_ACTIVATION_SCALED_TANH",
    "DML_OPERATOR_ACTIVATION_SHRINK",
    "DML_OPERATOR_ACTIVATION_SIGMOID",
    "DML_OPERATOR_ACTIVATION_SOFTMAX",
    "DML_OPERATOR_ACTIVATION_SOFTMAX1",
    "DML_OPERATOR_ACTIVATION_SOFTPLUS",
    "DML_OPERATOR_ACTIVATION_SOFTSIGN",
    "DML_OPERATOR_ACTIVATION_SWISH",
    "DML_OPERATOR_ACTIVATION_TANH",
    "DML_OPERATOR_ACTIVATION_THRESHOLDED_RELU",
    "DML_OPERATOR_ADAM_OPTIMIZER",
    "DML_OPERATOR_ARGMAX",
    "DML_OPERATOR_ARGMIN",
    "DML_OPERATOR_AVERAGE_POOLING",
    "DML_OPERATOR_AVERAGE_POOLING1",
    "DML_OPERATOR_AVERAGE_POOLING_GRAD",
    "DML_OPERATOR_BATCH_NORMALIZATION",
    "DML_OPERATOR_BATCH_NORMALIZATION_GRAD",
    "DML_OPERATOR_BATCH_NORMALIZATION_TRAINING",
    "DML_OPERATOR_BATCH_NORMALIZATION_TRAINING_GRAD",
    "DML_OPERATOR_CAST",
    "DML_OPERATOR_CONVOLUTION",
    "DML_OPERATOR_CONVOLUTION_INTEGER",
    "DML_OPERATOR_CUMULATIVE_PRODUCT",
    "DML_OPERATOR_CUMULATIVE_SUMMATION",
    "DML_OPERATOR_DEPTH_TO_SPACE",
    "DML_OPERATOR_DEPTH_TO_SPACE1",
    "DML_OPERATOR_DEQUANTIZE",
    "DML_OPERATOR_DESC",
    "DML_OPERATOR_DIAGONAL_MATRIX",
    "DML_OPERATOR_DIAGONAL_MATRIX1",
    "DML_OPERATOR_DYNAMIC_QUANTIZE_LINEAR",
    "DML_OPERATOR_ELEMENT_WISE_ABS",
    "DML_OPERATOR_ELEMENT_WISE_ACOS",
    "DML_OPERATOR_ELEMENT_WISE_ACOSH",
    "DML_OPERATOR_ELEMENT_WISE_ADD",
    "DML_OPERATOR_ELEMENT_WISE_ADD1",
    "DML_OPERATOR_ELEMENT_WISE_ASIN",
    "DML_OPERATOR_ELEMENT_WISE_ASINH",
    "DML_OPERATOR_ELEMENT_WISE_ATAN",
    "DML_OPERATOR_ELEMENT_WISE_ATANH",
    "DML_OPERATOR_ELEMENT_WISE_ATAN_YX",
    "DML_OPERATOR_ELEMENT_WISE_BIT_AND",
    "DML_OPERATOR_ELEMENT_WISE_BIT_COUNT",
    "DML_OPERATOR_ELEMENT_WISE_BIT_NOT",
    "DML_OPERATOR_ELEMENT_WISE_BIT_OR",
    "DML_OPERATOR_ELEMENT_WISE_BIT_SHIFT_LEFT",
    "DML_OPERATOR_ELEMENT_WISE_BIT_SHIFT_RIGHT",
    "DML_OPERATOR_ELEMENT_WISE_BIT_XOR",
    "DML_OPERATOR_ELEMENT_WISE_CEIL",
    "DML_OPERATOR_ELEMENT_WISE_CLIP",
    "DML_OPERATOR_ELEMENT_WISE_CLIP1",
    "DML_OPERATOR_ELEMENT_WISE_CLIP_GRAD",
    "DML_OPERATOR_ELEMENT_WISE_CLIP_GRAD1",
    "DML_OPERATOR_ELEMENT_WISE_CONSTANT_POW",
    "DML_OPERATOR_ELEMENT_WISE_COS",
    "DML_OPERATOR_ELEMENT_WISE_COSH",
    "DML_OPERATOR_ELEMENT_WISE_DEQUANTIZE_LINEAR",
    "DML_OPERATOR_ELEMENT_WISE_DIFFERENCE_SQUARE",
    "DML_OPERATOR_ELEMENT_WISE_DIVIDE",
    "DML_OPERATOR_ELEMENT_WISE_ERF",
    "DML_OPERATOR_ELEMENT_WISE_EXP",
    "DML_OPERATOR_ELEMENT_WISE_FLOOR",
    "DML_OPERATOR_ELEMENT_WISE_IDENTITY",
    "DML_OPERATOR_ELEMENT_WISE_IF",
    "DML_OPERATOR_ELEMENT_WISE_IS_INFINITY",
    "DML_OPERATOR_ELEMENT_WISE_IS_NAN",
    "DML_OPERATOR_ELEMENT_WISE_LOG",
    "DML_OPERATOR_ELEMENT_WISE_LOGICAL_AND",
    "DML_OPERATOR_ELEMENT_WISE_LOGICAL_EQUALS",
    "DML_OPERATOR_ELEMENT_WISE_LOGICAL_GREATER_THAN",
    "DML_OPERATOR_ELEMENT_WISE_LOGICAL_GREATER_THAN_OR_EQUAL",
    "DML_OPERATOR_ELEMENT_WISE_LOGICAL_LESS_THAN",
    "DML_OPERATOR_ELEMENT_WISE_LOGICAL_LESS_THAN_OR_EQUAL",
    "DML_OPERATOR_ELEMENT_WISE_LOGICAL_NOT",
    "DML_OPERATOR_ELEMENT_WISE_LOGICAL_OR",
    "DML_OPERATOR_ELEMENT_WISE_LOGICAL_XOR",
    "DML_OPERATOR_ELEMENT_WISE_MAX",
    "DML_OPERATOR_ELEMENT_WISE_MEAN",
    "DML_OPERATOR_ELEMENT_WISE_MIN",
    "DML_OPERATOR_ELEMENT_WISE_MODULUS_FLOOR",
    "DML_OPERATOR_ELEMENT_WISE_MODULUS_TRUNCATE",
    "DML_OPERATOR_ELEMENT_WISE_MULTIPLY",
    "DML_OPERATOR_ELEMENT_WISE_NEGATE",
    "DML_OPERATOR_ELEMENT_WISE_POW",
    "DML_OPERATOR_ELEMENT_WISE_QUANTIZED_LINEAR_ADD",
    "DML_OPERATOR_ELEMENT_WISE_QUANTIZE_LINEAR",
    "DML_OPERATOR_ELEMENT_WISE_RECIP",
    "DML_OPERATOR_ELEMENT_WISE_ROUND",
    "DML_OPERATOR_ELEMENT_WISE_SIGN",
    "DML_OPERATOR_ELEMENT_WISE_SIN",
    "DML_OPERATOR_ELEMENT_WISE_SINH",
    "DML_OPERATOR_ELEMENT_WISE_SQRT",
    "DML_OPERATOR_ELEMENT_WISE_SUBTRACT",
    "DML_OPERATOR_ELEMENT_WISE_TAN",
    "DML_OPERATOR_ELEMENT_WISE_TANH",
    "DML_OPERATOR_ELEMENT_WISE_THRESHOLD",
    "DML_OPERATOR_FILL_VALUE_CONSTANT",
    "DML_OPERATOR_FILL_VALUE_SEQUENCE",
    "DML_OPERATOR_FOLD",
    "DML_OPERATOR_GATHER",
    "DML_OPERATOR_GATHER_ELEMENTS",
    "DML_OPERATOR_GATHER_ND",
    "DML_OPERATOR_GATHER_ND1",
    "DML_OPERATOR_GEMM",
    "DML_OPERATOR_GRAPH_NODE_DESC",
    "DML_OPERATOR_GRU",
    "DML_OPERATOR_JOIN",
    "DML_OPERATOR_LOCAL_RESPONSE_NORMALIZATION",
    "DML_OPERATOR_LOCAL_RESPONSE_NORMALIZATION_GRAD",
    "DML_OPERATOR_LP_NORMALIZATION",
    "DML_OPERATOR_LP_POOLING",
    "DML_OPERATOR_LP_POOLING1",
    "DML_OPERATOR_LSTM",
    "DML_OPERATOR_MATRIX_MULTIPLY_INTEGER",
    "DML_OPERATOR_MATRIX_MULTIPLY_INTEGER_TO_FLOAT",
    "DML_OPERATOR_MAX_POOLING",
    "DML_OPERATOR_MAX_POOLING1",
    "DML_OPERATOR_MAX_POOLING2",
    "DML_OPERATOR_MAX_POOLING_GRAD",
    "DML_OPERATOR_MAX_UNPOOLING",
    "DML_OPERATOR_MEAN_VARIANCE_NORMALIZATION",
    "DML_OPERATOR_MEAN_VARIANCE_NORMALIZATION1",
    "DML_OPERATOR_MEAN_VARIANCE_NORMALIZATION2",
    "DML_OPERATOR_MULTIHEAD_ATTENTION",
    "DML_OPERATOR_MULTIHEAD_ATTENTION1",
    "DML_OPERATOR_NONZERO_COORDINATES",
    "DML_OPERATOR_ONE_HOT",
    "DML_OPERATOR_PADDING",
    "DML_OPERATOR_PADDING1",
    "DML_OPERATOR_QUANTIZE",
    "DML_OPERATOR_QUANTIZED_LINEAR_AVERAGE_POOLING",
    "DML_OPERATOR_QUANTIZED_LINEAR_CONVOLUTION",
    "DML_OPERATOR_QUANTIZED_LINEAR_MATRIX_MULTIPLY",
    "DML_OPERATOR_RANDOM_GENERATOR",
    "DML_OPERATOR_REDUCE",
    "DML_OPERATOR_RESAMPLE",
    "DML_OPERATOR_RESAMPLE1",
    "DML_OPERATOR_RESAMPLE2",
    "DML_OPERATOR_RESAMPLE3",
    "DML_OPERATOR_RESAMPLE_GRAD",
    "DML_OPERATOR_RESAMPLE_GRAD1",
    "DML_OPERATOR_REVERSE_SUBSEQUENCES",
    "DML_OPERATOR_RNN",
    "DML_OPERATOR_ROI_ALIGN",
    "DML_OPERATOR_ROI_ALIGN1",
    "DML_OPERATOR_ROI_ALIGN_GRAD",
    "DML_OPERATOR_ROI_POOLING",
    "DML_OPERATOR_SCATTER",
    "DML_OPERATOR_SCATTER_ELEMENTS",
    "DML_OPERATOR_SCATTER_ND",
    "DML_OPERATOR_SLICE",
    "DML_OPERATOR_SLICE1",
    "DML_OPERATOR_SLICE_GRAD",
    "DML_OPERATOR_SPACE_TO_DEPTH",
    "DML_OPERATOR_SPACE_TO_DEPTH1",
    "DML_OPERATOR_SPLIT",
    "DML_OPERATOR_TILE",
    "DML_OPERATOR_TOP_K",
    "DML_OPERATOR_TOP_K1",
    "DML_OPERATOR_UNFOLD",
    "DML_OPERATOR_UPSAMPLE_2D",
    "DML_OPERATOR_VALUE_SCALE_2D",
    "DML_OUTPUT_GRAPH_EDGE_DESC",
    "DML_PADDING1_OPERATOR_DESC",
    "DML_PADDING_MODE",
    "DML_PADDING_MODE_CONSTANT",
    "DML_PADDING_MODE_EDGE",
    "DML_PADDING_MODE_REFLECTION",
    "DML_PADDING_MODE_SYMMETRIC",
    "DML_PADDING_MODE_WRAP",
    "DML_PADDING_OPERATOR_DESC",
    "DML_PERSISTENT_BUFFER_ALIGNMENT",
    "DML_QUANTIZATION_TYPE",
    "DML_QUANTIZATION_TYPE_NONE",
    "DML_QUANTIZATION_TYPE_SCALE",
    "DML_QUANTIZATION_TYPE_SCALE_ZERO_POINT",
    "DML_QUANTIZED_LINEAR_AVERAGE_POOLING_OPERATOR_DESC",
    "DML_QUANTIZED_LINEAR_CONVOLUTION_OPERATOR_DESC",
    "DML_QUANTIZED_LINEAR_MATRIX_MULTIPLY_OPERATOR_DESC",
    "DML_QUANTIZE_OPERATOR_DESC",
    "DML_RANDOM_GENERATOR_OPERATOR_DESC",
    "DML_RANDOM_GENERATOR_TYPE",
    "DML_RANDOM_GENERATOR_TYPE_PHILOX_4X32_10",
    "DML_RECURRENT_NETWORK_DIRECTION",
    "DML_RECURRENT_NETWORK_DIRECTION_BACKWARD",
    "DML_RECURRENT_NETWORK_DIRECTION_BIDIRECTIONAL",
    "DML_RECURRENT_NETWORK_DIRECTION_FORWARD",
    "DML_REDUCE_FUNCTION",
    "DML_REDUCE_FUNCTION_ARGMAX",
    "DML_REDUCE_FUNCTION_ARGMIN",
    "DML_REDUCE_FUNCTION_AVERAGE",
    "DML_REDUCE_FUNCTION_L1",
    "DML_REDUCE_FUNCTION_L2",
    "DML_REDUCE_FUNCTION_LOG_SUM",
    "DML_REDUCE_FUNCTION_LOG_SUM_EXP",
    "DML_REDUCE_FUNCTION_MAX",
    "DML_REDUCE_FUNCTION_MIN",
    "DML_REDUCE_FUNCTION_MULTIPLY",
    "DML_REDUCE_FUNCTION_SUM",
    "DML_REDUCE_FUNCTION_SUM_SQUARE",
    "DML_REDUCE_OPERATOR_DESC",
    "DML_RESAMPLE1_OPERATOR_DESC",
    "DML_RESAMPLE2_OPERATOR_DESC",
    "DML_RESAMPLE3_OPERATOR_DESC",
    "DML_RESAMPLE_GRAD1_OPERATOR_DESC",
    "DML_RESAMPLE_GRAD_OPERATOR_DESC",
    "DML_RESAMPLE_OPERATOR_DESC",
    "DML_REVERSE_SUBSEQUENCES_OPERATOR_DESC",
    "DML_RNN_OPERATOR_DESC",
    "DML_ROI_ALIGN1_OPERATOR_DESC",
    "DML_ROI_ALIGN_GRAD_OPERATOR_DESC",
    "DML_ROI_ALIGN_OPERATOR_DESC",
    "DML_ROI_POOLING_OPERATOR_DESC",
    "DML_ROUNDING_MODE",
    "DML_ROUNDING_MODE_HALVES_TO_NEAREST_EVEN",
    "DML_ROUNDING_MODE_TOWARD_INFINITY",
    "DML_ROUNDING_MODE_TOWARD_ZERO",
    "DML_SCALE_BIAS",
    "DML_SCATTER_ND_OPERATOR_DESC",
    "DML_SCATTER_OPERATOR_DESC",
    "DML_SIZE_2D",
    "DML_SLICE1_OPERATOR_DESC",
    "DML_SLICE_GRAD_OPERATOR_DESC",
    "DML_SLICE_OPERATOR_DESC",
    "DML_SPACE_TO_DEPTH1_OPERATOR_DESC",
    "DML_SPACE_TO_DEPTH_OPERATOR_DESC",
    "DML_SPLIT_OPERATOR_DESC",
    "DML_TARGET_VERSION",
    "DML_TEMPORARY_BUFFER_ALIGNMENT",
    "DML_TENSOR_DATA_TYPE",
    "DML_TENSOR_DATA_TYPE_BFLOAT16",
    "DML_TENSOR_DATA_TYPE_FLOAT16",
    "DML_TENSOR_DATA_TYPE_FLOAT32",
    "DML_TENSOR_DATA_TYPE_FLOAT64",
    "DML_TENSOR_DATA_TYPE_INT16",
    "DML_TENSOR_DATA_TYPE_INT32",
    "DML_TENSOR_DATA_TYPE_INT4",
    "DML_TENSOR_DATA_TYPE_INT64",
    "DML_TENSOR_DATA_TYPE_INT8",
    "DML_TENSOR_DATA_TYPE_UINT16",
    "DML_TENSOR_DATA_TYPE_UINT32",
    "DML_TENSOR_DATA_TYPE_UINT4",
    "DML_TENSOR_DATA_TYPE_UINT64",
    "DML_TENSOR_DATA_TYPE_UINT8",
    "DML_TENSOR_DATA_TYPE_UNKNOWN",
    "DML_TENSOR_DESC",
    "DML_TENSOR_DIMENSION_COUNT_MAX",
    "DML_TENSOR_DIMENSION_COUNT_MAX1",
    "DML_TENSOR_FLAGS",
    "DML_TENSOR_FLAG_NONE",
    "DML_TENSOR_FLAG_OWNED_BY_DML",
    "DML_TENSOR_TYPE",
    "DML_TENSOR_TYPE_BUFFER",
    "DML_TENSOR_TYPE_INVALID",
    "DML_TILE_OPERATOR_DESC",
    "DML_TOP_K1_OPERATOR_DESC",
    "DML_TOP_K_OPERATOR_DESC",
    "DML_UNFOLD_OPERATOR_DESC",
    "DML_UPSAMPLE_2D_OPERATOR_DESC",
    "DML_VALUE_SCALE_2D_OPERATOR_DESC",
]
