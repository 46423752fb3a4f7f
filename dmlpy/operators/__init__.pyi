# Written by `python -m dmlpy.x.stubs`: do not edit.
from .activation import ActivationCeluDesc as ActivationCeluDesc
from .activation import ActivationEluDesc as ActivationEluDesc
from .activation import ActivationGeluDesc as ActivationGeluDesc
from .activation import ActivationHardSigmoidDesc as ActivationHardSigmoidDesc
from .activation import ActivationHardSwishDesc as ActivationHardSwishDesc
from .activation import ActivationHardmax1Desc as ActivationHardmax1Desc
from .activation import ActivationHardmaxDesc as ActivationHardmaxDesc
from .activation import ActivationIdentityDesc as ActivationIdentityDesc
from .activation import ActivationLeakyReluDesc as ActivationLeakyReluDesc
from .activation import ActivationLinearDesc as ActivationLinearDesc
from .activation import ActivationLogSoftmax1Desc as ActivationLogSoftmax1Desc
from .activation import ActivationLogSoftmaxDesc as ActivationLogSoftmaxDesc
from .activation import ActivationParameterizedReluDesc as ActivationParameterizedReluDesc
from .activation import ActivationParametricSoftplusDesc as ActivationParametricSoftplusDesc
from .activation import ActivationReluDesc as ActivationReluDesc
from .activation import ActivationReluGradDesc as ActivationReluGradDesc
from .activation import ActivationScaledEluDesc as ActivationScaledEluDesc
from .activation import ActivationScaledTanhDesc as ActivationScaledTanhDesc
from .activation import ActivationShrinkDesc as ActivationShrinkDesc
from .activation import ActivationSigmoidDesc as ActivationSigmoidDesc
from .activation import ActivationSoftmax1Desc as ActivationSoftmax1Desc
from .activation import ActivationSoftmaxDesc as ActivationSoftmaxDesc
from .activation import ActivationSoftplusDesc as ActivationSoftplusDesc
from .activation import ActivationSoftsignDesc as ActivationSoftsignDesc
from .activation import ActivationSwishDesc as ActivationSwishDesc
from .activation import ActivationTanhDesc as ActivationTanhDesc
from .activation import ActivationThresholdedReluDesc as ActivationThresholdedReluDesc
from .attention import MultiheadAttention1Desc as MultiheadAttention1Desc
from .attention import MultiheadAttentionDesc as MultiheadAttentionDesc
from .convolution import ConvolutionDesc as ConvolutionDesc
from .elementwise.arithmetic import ElementWiseAdd1Desc as ElementWiseAdd1Desc
from .elementwise.arithmetic import ElementWiseAddDesc as ElementWiseAddDesc
from .elementwise.arithmetic import ElementWiseAtanYXDesc as ElementWiseAtanYXDesc
from .elementwise.arithmetic import ElementWiseConstantPowDesc as ElementWiseConstantPowDesc
from .elementwise.arithmetic import ElementWiseDifferenceSquareDesc as ElementWiseDifferenceSquareDesc
from .elementwise.arithmetic import ElementWiseDivideDesc as ElementWiseDivideDesc
from .elementwise.arithmetic import ElementWiseMaxDesc as ElementWiseMaxDesc
from .elementwise.arithmetic import ElementWiseMeanDesc as ElementWiseMeanDesc
from .elementwise.arithmetic import ElementWiseMinDesc as ElementWiseMinDesc
from .elementwise.arithmetic import ElementWiseModulusFloorDesc as ElementWiseModulusFloorDesc
from .elementwise.arithmetic import ElementWiseModulusTruncateDesc as ElementWiseModulusTruncateDesc
from .elementwise.arithmetic import ElementWiseMultiplyDesc as ElementWiseMultiplyDesc
from .elementwise.arithmetic import ElementWisePowDesc as ElementWisePowDesc
from .elementwise.arithmetic import ElementWiseSubtractDesc as ElementWiseSubtractDesc
from .elementwise.logic import ElementWiseBitAndDesc as ElementWiseBitAndDesc
from .elementwise.logic import ElementWiseBitCountDesc as ElementWiseBitCountDesc
from .elementwise.logic import ElementWiseBitNotDesc as ElementWiseBitNotDesc
from .elementwise.logic import ElementWiseBitOrDesc as ElementWiseBitOrDesc
from .elementwise.logic import ElementWiseBitShiftLeftDesc as ElementWiseBitShiftLeftDesc
from .elementwise.logic import ElementWiseBitShiftRightDesc as ElementWiseBitShiftRightDesc
from .elementwise.logic import ElementWiseBitXorDesc as ElementWiseBitXorDesc
from .elementwise.logic import ElementWiseIfDesc as ElementWiseIfDesc
from .elementwise.logic import ElementWiseIsInfinityDesc as ElementWiseIsInfinityDesc
from .elementwise.logic import ElementWiseIsNaNDesc as ElementWiseIsNaNDesc
from .elementwise.logic import ElementWiseLogicalAndDesc as ElementWiseLogicalAndDesc
from .elementwise.logic import ElementWiseLogicalEqualsDesc as ElementWiseLogicalEqualsDesc
from .elementwise.logic import ElementWiseLogicalGreaterThanDesc as ElementWiseLogicalGreaterThanDesc
from .elementwise.logic import ElementWiseLogicalGreaterThanOrEqualDesc as ElementWiseLogicalGreaterThanOrEqualDesc
from .elementwise.logic import ElementWiseLogicalLessThanDesc as ElementWiseLogicalLessThanDesc
from .elementwise.logic import ElementWiseLogicalLessThanOrEqualDesc as ElementWiseLogicalLessThanOrEqualDesc
from .elementwise.logic import ElementWiseLogicalNotDesc as ElementWiseLogicalNotDesc
from .elementwise.logic import ElementWiseLogicalOrDesc as ElementWiseLogicalOrDesc
from .elementwise.logic import ElementWiseLogicalXorDesc as ElementWiseLogicalXorDesc
from .elementwise.math import ElementWiseAbsDesc as ElementWiseAbsDesc
from .elementwise.math import ElementWiseAcosDesc as ElementWiseAcosDesc
from .elementwise.math import ElementWiseAcoshDesc as ElementWiseAcoshDesc
from .elementwise.math import ElementWiseAsinDesc as ElementWiseAsinDesc
from .elementwise.math import ElementWiseAsinhDesc as ElementWiseAsinhDesc
from .elementwise.math import ElementWiseAtanDesc as ElementWiseAtanDesc
from .elementwise.math import ElementWiseAtanhDesc as ElementWiseAtanhDesc
from .elementwise.math import ElementWiseCeilDesc as ElementWiseCeilDesc
from .elementwise.math import ElementWiseCosDesc as ElementWiseCosDesc
from .elementwise.math import ElementWiseCoshDesc as ElementWiseCoshDesc
from .elementwise.math import ElementWiseErfDesc as ElementWiseErfDesc
from .elementwise.math import ElementWiseExpDesc as ElementWiseExpDesc
from .elementwise.math import ElementWiseFloorDesc as ElementWiseFloorDesc
from .elementwise.math import ElementWiseIdentityDesc as ElementWiseIdentityDesc
from .elementwise.math import ElementWiseLogDesc as ElementWiseLogDesc
from .elementwise.math import ElementWiseNegateDesc as ElementWiseNegateDesc
from .elementwise.math import ElementWiseRecipDesc as ElementWiseRecipDesc
from .elementwise.math import ElementWiseSignDesc as ElementWiseSignDesc
from .elementwise.math import ElementWiseSinDesc as ElementWiseSinDesc
from .elementwise.math import ElementWiseSinhDesc as ElementWiseSinhDesc
from .elementwise.math import ElementWiseSqrtDesc as ElementWiseSqrtDesc
from .elementwise.math import ElementWiseTanDesc as ElementWiseTanDesc
from .elementwise.math import ElementWiseTanhDesc as ElementWiseTanhDesc
from .elementwise.ranges import ElementWiseClip1Desc as ElementWiseClip1Desc
from .elementwise.ranges import ElementWiseClipDesc as ElementWiseClipDesc
from .elementwise.ranges import ElementWiseClipGrad1Desc as ElementWiseClipGrad1Desc
from .elementwise.ranges import ElementWiseClipGradDesc as ElementWiseClipGradDesc
from .elementwise.ranges import ElementWiseRoundDesc as ElementWiseRoundDesc
from .elementwise.ranges import ElementWiseThresholdDesc as ElementWiseThresholdDesc
from .generation import DiagonalMatrix1Desc as DiagonalMatrix1Desc
from .generation import DiagonalMatrixDesc as DiagonalMatrixDesc
from .generation import FillValueConstantDesc as FillValueConstantDesc
from .generation import FillValueSequenceDesc as FillValueSequenceDesc
from .generation import RandomGeneratorDesc as RandomGeneratorDesc
from .indexing import GatherDesc as GatherDesc
from .indexing import GatherElementsDesc as GatherElementsDesc
from .indexing import GatherND1Desc as GatherND1Desc
from .indexing import GatherNDDesc as GatherNDDesc
from .indexing import NonzeroCoordinatesDesc as NonzeroCoordinatesDesc
from .indexing import OneHotDesc as OneHotDesc
from .indexing import ScatterDesc as ScatterDesc
from .indexing import ScatterNDDesc as ScatterNDDesc
from .matrix import GEMMDesc as GEMMDesc
from .movement.blocks import DepthToSpace1Desc as DepthToSpace1Desc
from .movement.blocks import DepthToSpaceDesc as DepthToSpaceDesc
from .movement.blocks import FoldDesc as FoldDesc
from .movement.blocks import SpaceToDepth1Desc as SpaceToDepth1Desc
from .movement.blocks import SpaceToDepthDesc as SpaceToDepthDesc
from .movement.blocks import UnfoldDesc as UnfoldDesc
from .movement.copy import CastDesc as CastDesc
from .movement.copy import JoinDesc as JoinDesc
from .movement.copy import ReverseSubsequencesDesc as ReverseSubsequencesDesc
from .movement.copy import SplitDesc as SplitDesc
from .movement.copy import TileDesc as TileDesc
from .movement.slicing import Padding1Desc as Padding1Desc
from .movement.slicing import PaddingDesc as PaddingDesc
from .movement.slicing import Slice1Desc as Slice1Desc
from .movement.slicing import SliceDesc as SliceDesc
from .movement.slicing import SliceGradDesc as SliceGradDesc
from .normalization.batch import BatchNormalizationDesc as BatchNormalizationDesc
from .normalization.batch import BatchNormalizationGradDesc as BatchNormalizationGradDesc
from .normalization.batch import BatchNormalizationTrainingDesc as BatchNormalizationTrainingDesc
from .normalization.batch import BatchNormalizationTrainingGradDesc as BatchNormalizationTrainingGradDesc
from .normalization.fused_batch import FusedBatchNormGradV3Desc as FusedBatchNormGradV3Desc
from .normalization.fused_batch import FusedBatchNormV3Desc as FusedBatchNormV3Desc
from .normalization.local_response import LocalResponseNormalizationDesc as LocalResponseNormalizationDesc
from .normalization.local_response import LocalResponseNormalizationGradDesc as LocalResponseNormalizationGradDesc
from .normalization.lp import LPNormalizationDesc as LPNormalizationDesc
from .normalization.mean_variance import MeanVarianceNormalization1Desc as MeanVarianceNormalization1Desc
from .normalization.mean_variance import MeanVarianceNormalization2Desc as MeanVarianceNormalization2Desc
from .normalization.mean_variance import MeanVarianceNormalizationDesc as MeanVarianceNormalizationDesc
from .optimization import AdamOptimizerDesc as AdamOptimizerDesc
from .pooling.average import AveragePooling1Desc as AveragePooling1Desc
from .pooling.average import AveragePoolingDesc as AveragePoolingDesc
from .pooling.average import AveragePoolingGradDesc as AveragePoolingGradDesc
from .pooling.lp import LPPooling1Desc as LPPooling1Desc
from .pooling.lp import LPPoolingDesc as LPPoolingDesc
from .pooling.maximum import MaxPooling1Desc as MaxPooling1Desc
from .pooling.maximum import MaxPooling2Desc as MaxPooling2Desc
from .pooling.maximum import MaxPoolingDesc as MaxPoolingDesc
from .pooling.maximum import MaxPoolingGradDesc as MaxPoolingGradDesc
from .pooling.maximum import MaxUnpoolingDesc as MaxUnpoolingDesc
from .pooling.roi import ROIAlign1Desc as ROIAlign1Desc
from .pooling.roi import ROIAlignDesc as ROIAlignDesc
from .pooling.roi import ROIAlignGradDesc as ROIAlignGradDesc
from .pooling.roi import ROIPoolingDesc as ROIPoolingDesc
from .quantized.linear import DequantizeDesc as DequantizeDesc
from .quantized.linear import DynamicQuantizeLinearDesc as DynamicQuantizeLinearDesc
from .quantized.linear import ElementWiseDequantizeLinearDesc as ElementWiseDequantizeLinearDesc
from .quantized.linear import ElementWiseQuantizeLinearDesc as ElementWiseQuantizeLinearDesc
from .quantized.linear import ElementWiseQuantizedLinearAddDesc as ElementWiseQuantizedLinearAddDesc
from .quantized.linear import QuantizeDesc as QuantizeDesc
from .quantized.products import ConvolutionIntegerDesc as ConvolutionIntegerDesc
from .quantized.products import MatrixMultiplyIntegerDesc as MatrixMultiplyIntegerDesc
from .quantized.products import MatrixMultiplyIntegerToFloatDesc as MatrixMultiplyIntegerToFloatDesc
from .quantized.products import QuantizedLinearAveragePoolingDesc as QuantizedLinearAveragePoolingDesc
from .quantized.products import QuantizedLinearConvolutionDesc as QuantizedLinearConvolutionDesc
from .quantized.products import QuantizedLinearMatrixMultiplyDesc as QuantizedLinearMatrixMultiplyDesc
from .recurrent.block_cell import GRUBlockCellDesc as GRUBlockCellDesc
from .recurrent.block_cell import GRUBlockCellGradDesc as GRUBlockCellGradDesc
from .recurrent.cudnn import CudnnRNNBackpropV3Desc as CudnnRNNBackpropV3Desc
from .recurrent.cudnn import CudnnRNNV3Desc as CudnnRNNV3Desc
from .recurrent.gradient import GRUGradDesc as GRUGradDesc
from .recurrent.gradient import LSTMGradDesc as LSTMGradDesc
from .recurrent.gradient import RNNGradDesc as RNNGradDesc
from .recurrent.layer import GRUDesc as GRUDesc
from .recurrent.layer import LSTMDesc as LSTMDesc
from .recurrent.layer import RNNDesc as RNNDesc
from .recurrent.training import GRUTrainingDesc as GRUTrainingDesc
from .recurrent.training import LSTMTrainingDesc as LSTMTrainingDesc
from .recurrent.training import RNNTrainingDesc as RNNTrainingDesc
from .reduction import ArgmaxDesc as ArgmaxDesc
from .reduction import ArgminDesc as ArgminDesc
from .reduction import CumulativeProductDesc as CumulativeProductDesc
from .reduction import CumulativeSummationDesc as CumulativeSummationDesc
from .reduction import ReduceDesc as ReduceDesc
from .reduction import TopK1Desc as TopK1Desc
from .reduction import TopKDesc as TopKDesc
from .resampling import Resample1Desc as Resample1Desc
from .resampling import Resample2Desc as Resample2Desc
from .resampling import Resample3Desc as Resample3Desc
from .resampling import ResampleDesc as ResampleDesc
from .resampling import ResampleGrad1Desc as ResampleGrad1Desc
from .resampling import ResampleGradDesc as ResampleGradDesc
from .resampling import Upsample2DDesc as Upsample2DDesc
from .resampling import ValueScale2DDesc as ValueScale2DDesc
__all__ = [
    "ActivationCeluDesc",
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
    "BatchNormalizationDesc",
    "BatchNormalizationGradDesc",
    "BatchNormalizationTrainingDesc",
    "BatchNormalizationTrainingGradDesc",
    "CastDesc",
    "ConvolutionDesc",
    "ConvolutionIntegerDesc",
    "CudnnRNNBackpropV3Desc",
    "CudnnRNNV3Desc",
    "CumulativeProductDesc",
    "CumulativeSummationDesc",
    "DepthToSpace1Desc",
    "DepthToSpaceDesc",
    "DequantizeDesc",
    "DiagonalMatrix1Desc",
    "DiagonalMatrixDesc",
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
    "NonzeroCoordinatesDesc",
    "OneHotDesc",
    "Padding1Desc",
    "PaddingDesc",
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
    "ReduceDesc",
    "Resample1Desc",
    "Resample2Desc",
    "Resample3Desc",
    "ResampleDesc",
    "ResampleGrad1Desc",
    "ResampleGradDesc",
    "ReverseSubsequencesDesc",
    "ScatterDesc",
    "ScatterNDDesc",
    "Slice1Desc",
    "SliceDesc",
    "SliceGradDesc",
    "SpaceToDepth1Desc",
    "SpaceToDepthDesc",
    "SplitDesc",
    "TileDesc",
    "TopK1Desc",
    "TopKDesc",
    "UnfoldDesc",
    "Upsample2DDesc",
    "ValueScale2DDesc",
]
