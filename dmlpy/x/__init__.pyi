# Written by `python -m dmlpy.x.stubs`: do not edit.
from .composition import compile as compile
from .composition import graph as graph
from .expressions import Expression as Expression
from .expressions import constant as constant
from .expressions import input as input
from .expressions import operator as operator
from .functions.activation import activation_celu as activation_celu
from .functions.activation import activation_elu as activation_elu
from .functions.activation import activation_gelu as activation_gelu
from .functions.activation import activation_hard_sigmoid as activation_hard_sigmoid
from .functions.activation import activation_hard_swish as activation_hard_swish
from .functions.activation import activation_hardmax as activation_hardmax
from .functions.activation import activation_hardmax1 as activation_hardmax1
from .functions.activation import activation_identity as activation_identity
from .functions.activation import activation_leaky_relu as activation_leaky_relu
from .functions.activation import activation_linear as activation_linear
from .functions.activation import activation_log_softmax as activation_log_softmax
from .functions.activation import activation_log_softmax1 as activation_log_softmax1
from .functions.activation import activation_parameterized_relu as activation_parameterized_relu
from .functions.activation import activation_parametric_softplus as activation_parametric_softplus
from .functions.activation import activation_relu as activation_relu
from .functions.activation import activation_relu_grad as activation_relu_grad
from .functions.activation import activation_scaled_elu as activation_scaled_elu
from .functions.activation import activation_scaled_tanh as activation_scaled_tanh
from .functions.activation import activation_shrink as activation_shrink
from .functions.activation import activation_sigmoid as activation_sigmoid
from .functions.activation import activation_softmax as activation_softmax
from .functions.activation import activation_softmax1 as activation_softmax1
from .functions.activation import activation_softplus as activation_softplus
from .functions.activation import activation_softsign as activation_softsign
from .functions.activation import activation_swish as activation_swish
from .functions.activation import activation_tanh as activation_tanh
from .functions.activation import activation_thresholded_relu as activation_thresholded_relu
from .functions.attention import MultiheadAttention1Outputs as MultiheadAttention1Outputs
from .functions.attention import MultiheadAttentionOutputs as MultiheadAttentionOutputs
from .functions.attention import multihead_attention as multihead_attention
from .functions.attention import multihead_attention1 as multihead_attention1
from .functions.convolution import convolution as convolution
from .functions.elementwise import abs as abs
from .functions.elementwise import acos as acos
from .functions.elementwise import acosh as acosh
from .functions.elementwise import add as add
from .functions.elementwise import add1 as add1
from .functions.elementwise import asin as asin
from .functions.elementwise import asinh as asinh
from .functions.elementwise import atan as atan
from .functions.elementwise import atan_yx as atan_yx
from .functions.elementwise import atanh as atanh
from .functions.elementwise import bit_and as bit_and
from .functions.elementwise import bit_count as bit_count
from .functions.elementwise import bit_not as bit_not
from .functions.elementwise import bit_or as bit_or
from .functions.elementwise import bit_shift_left as bit_shift_left
from .functions.elementwise import bit_shift_right as bit_shift_right
from .functions.elementwise import bit_xor as bit_xor
from .functions.elementwise import ceil as ceil
from .functions.elementwise import clip as clip
from .functions.elementwise import clip1 as clip1
from .functions.elementwise import clip_grad as clip_grad
from .functions.elementwise import clip_grad1 as clip_grad1
from .functions.elementwise import constant_pow as constant_pow
from .functions.elementwise import cos as cos
from .functions.elementwise import cosh as cosh
from .functions.elementwise import difference_square as difference_square
from .functions.elementwise import divide as divide
from .functions.elementwise import erf as erf
from .functions.elementwise import exp as exp
from .functions.elementwise import floor as floor
from .functions.elementwise import identity as identity
from .functions.elementwise import if_ as if_
from .functions.elementwise import is_infinity as is_infinity
from .functions.elementwise import is_nan as is_nan
from .functions.elementwise import log as log
from .functions.elementwise import logical_and as logical_and
from .functions.elementwise import logical_equals as logical_equals
from .functions.elementwise import logical_greater_than as logical_greater_than
from .functions.elementwise import logical_greater_than_or_equal as logical_greater_than_or_equal
from .functions.elementwise import logical_less_than as logical_less_than
from .functions.elementwise import logical_less_than_or_equal as logical_less_than_or_equal
from .functions.elementwise import logical_not as logical_not
from .functions.elementwise import logical_or as logical_or
from .functions.elementwise import logical_xor as logical_xor
from .functions.elementwise import max as max
from .functions.elementwise import mean as mean
from .functions.elementwise import min as min
from .functions.elementwise import modulus_floor as modulus_floor
from .functions.elementwise import modulus_truncate as modulus_truncate
from .functions.elementwise import multiply as multiply
from .functions.elementwise import negate as negate
from .functions.elementwise import pow as pow
from .functions.elementwise import recip as recip
from .functions.elementwise import round as round
from .functions.elementwise import sign as sign
from .functions.elementwise import sin as sin
from .functions.elementwise import sinh as sinh
from .functions.elementwise import sqrt as sqrt
from .functions.elementwise import subtract as subtract
from .functions.elementwise import tan as tan
from .functions.elementwise import tanh as tanh
from .functions.elementwise import threshold as threshold
from .functions.generation import RandomGeneratorOutputs as RandomGeneratorOutputs
from .functions.generation import diagonal_matrix as diagonal_matrix
from .functions.generation import diagonal_matrix1 as diagonal_matrix1
from .functions.generation import fill_value_constant as fill_value_constant
from .functions.generation import fill_value_sequence as fill_value_sequence
from .functions.generation import random_generator as random_generator
from .functions.indexing import NonzeroCoordinatesOutputs as NonzeroCoordinatesOutputs
from .functions.indexing import gather as gather
from .functions.indexing import gather_elements as gather_elements
from .functions.indexing import gather_nd as gather_nd
from .functions.indexing import gather_nd1 as gather_nd1
from .functions.indexing import nonzero_coordinates as nonzero_coordinates
from .functions.indexing import one_hot as one_hot
from .functions.indexing import scatter as scatter
from .functions.indexing import scatter_nd as scatter_nd
from .functions.matrix import gemm as gemm
from .functions.movement import cast as cast
from .functions.movement import depth_to_space as depth_to_space
from .functions.movement import depth_to_space1 as depth_to_space1
from .functions.movement import fold as fold
from .functions.movement import join as join
from .functions.movement import padding as padding
from .functions.movement import padding1 as padding1
from .functions.movement import reverse_subsequences as reverse_subsequences
from .functions.movement import slice as slice
from .functions.movement import slice1 as slice1
from .functions.movement import slice_grad as slice_grad
from .functions.movement import space_to_depth as space_to_depth
from .functions.movement import space_to_depth1 as space_to_depth1
from .functions.movement import split as split
from .functions.movement import tile as tile
from .functions.movement import unfold as unfold
from .functions.normalization import BatchNormalizationGradOutputs as BatchNormalizationGradOutputs
from .functions.normalization import BatchNormalizationTrainingGradOutputs as BatchNormalizationTrainingGradOutputs
from .functions.normalization import BatchNormalizationTrainingOutputs as BatchNormalizationTrainingOutputs
from .functions.normalization import batch_normalization as batch_normalization
from .functions.normalization import batch_normalization_grad as batch_normalization_grad
from .functions.normalization import batch_normalization_training as batch_normalization_training
from .functions.normalization import batch_normalization_training_grad as batch_normalization_training_grad
from .functions.normalization import local_response_normalization as local_response_normalization
from .functions.normalization import local_response_normalization_grad as local_response_normalization_grad
from .functions.normalization import lp_normalization as lp_normalization
from .functions.normalization import mean_variance_normalization as mean_variance_normalization
from .functions.normalization import mean_variance_normalization1 as mean_variance_normalization1
from .functions.normalization import mean_variance_normalization2 as mean_variance_normalization2
from .functions.optimization import AdamOptimizerOutputs as AdamOptimizerOutputs
from .functions.optimization import adam_optimizer as adam_optimizer
from .functions.pooling import MaxPooling1Outputs as MaxPooling1Outputs
from .functions.pooling import MaxPooling2Outputs as MaxPooling2Outputs
from .functions.pooling import ROIAlignGradOutputs as ROIAlignGradOutputs
from .functions.pooling import average_pooling as average_pooling
from .functions.pooling import average_pooling1 as average_pooling1
from .functions.pooling import average_pooling_grad as average_pooling_grad
from .functions.pooling import lp_pooling as lp_pooling
from .functions.pooling import lp_pooling1 as lp_pooling1
from .functions.pooling import max_pooling as max_pooling
from .functions.pooling import max_pooling1 as max_pooling1
from .functions.pooling import max_pooling2 as max_pooling2
from .functions.pooling import max_pooling_grad as max_pooling_grad
from .functions.pooling import max_unpooling as max_unpooling
from .functions.pooling import roi_align as roi_align
from .functions.pooling import roi_align1 as roi_align1
from .functions.pooling import roi_align_grad as roi_align_grad
from .functions.pooling import roi_pooling as roi_pooling
from .functions.quantized import DynamicQuantizeLinearOutputs as DynamicQuantizeLinearOutputs
from .functions.quantized import convolution_integer as convolution_integer
from .functions.quantized import dequantize as dequantize
from .functions.quantized import dequantize_linear as dequantize_linear
from .functions.quantized import dynamic_quantize_linear as dynamic_quantize_linear
from .functions.quantized import matrix_multiply_integer as matrix_multiply_integer
from .functions.quantized import matrix_multiply_integer_to_float as matrix_multiply_integer_to_float
from .functions.quantized import quantize as quantize
from .functions.quantized import quantize_linear as quantize_linear
from .functions.quantized import quantized_linear_add as quantized_linear_add
from .functions.quantized import quantized_linear_average_pooling as quantized_linear_average_pooling
from .functions.quantized import quantized_linear_convolution as quantized_linear_convolution
from .functions.quantized import quantized_linear_matrix_multiply as quantized_linear_matrix_multiply
from .functions.recurrent import GRUOutputs as GRUOutputs
from .functions.recurrent import LSTMOutputs as LSTMOutputs
from .functions.recurrent import RNNOutputs as RNNOutputs
from .functions.recurrent import gru as gru
from .functions.recurrent import lstm as lstm
from .functions.recurrent import rnn as rnn
from .functions.reduction import TopK1Outputs as TopK1Outputs
from .functions.reduction import TopKOutputs as TopKOutputs
from .functions.reduction import argmax as argmax
from .functions.reduction import argmin as argmin
from .functions.reduction import cumulative_product as cumulative_product
from .functions.reduction import cumulative_summation as cumulative_summation
from .functions.reduction import reduce as reduce
from .functions.reduction import top_k as top_k
from .functions.reduction import top_k1 as top_k1
from .functions.resampling import resample as resample
from .functions.resampling import resample1 as resample1
from .functions.resampling import resample2 as resample2
from .functions.resampling import resample3 as resample3
from .functions.resampling import resample_grad as resample_grad
from .functions.resampling import resample_grad1 as resample_grad1
from .functions.resampling import upsample_2d as upsample_2d
from .functions.resampling import value_scale_2d as value_scale_2d
from .policies import TensorPolicy as TensorPolicy
from .policies import tensor_policy as tensor_policy
from .source_locations import name_scope as name_scope
__all__ = [
    "AdamOptimizerOutputs",
    "BatchNormalizationGradOutputs",
    "BatchNormalizationTrainingGradOutputs",
    "BatchNormalizationTrainingOutputs",
    "DynamicQuantizeLinearOutputs",
    "Expression",
    "GRUOutputs",
    "LSTMOutputs",
    "MaxPooling1Outputs",
    "MaxPooling2Outputs",
    "MultiheadAttention1Outputs",
    "MultiheadAttentionOutputs",
    "NonzeroCoordinatesOutputs",
    "RNNOutputs",
    "ROIAlignGradOutputs",
    "RandomGeneratorOutputs",
    "TensorPolicy",
    "TopK1Outputs",
    "TopKOutputs",
    "abs",
    "acos",
    "acosh",
    "activation_celu",
    "activation_elu",
    "activation_gelu",
    "activation_hard_sigmoid",
    "activation_hard_swish",
    "activation_hardmax",
    "activation_hardmax1",
    "activation_identity",
    "activation_leaky_relu",
    "activation_linear",
    "activation_log_softmax",
    "activation_log_softmax1",
    "activation_parameterized_relu",
    "activation_parametric_softplus",
    "activation_relu",
    "activation_relu_grad",
    "activation_scaled_elu",
    "activation_scaled_tanh",
    "activation_shrink",
    "activation_sigmoid",
    "activation_softmax",
    "activation_softmax1",
    "activation_softplus",
    "activation_softsign",
    "activation_swish",
    "activation_tanh",
    "activation_thresholded_relu",
    "adam_optimizer",
    "add",
    "add1",
    "argmax",
    "argmin",
    "asin",
    "asinh",
    "atan",
    "atan_yx",
    "atanh",
    "average_pooling",
    "average_pooling1",
    "average_pooling_grad",
    "batch_normalization",
    "batch_normalization_grad",
    "batch_normalization_training",
    "batch_normalization_training_grad",
    "bit_and",
    "bit_count",
    "bit_not",
    "bit_or",
    "bit_shift_left",
    "bit_shift_right",
    "bit_xor",
    "cast",
    "ceil",
    "clip",
    "clip1",
    "clip_grad",
    "clip_grad1",
    "compile",
    "constant",
    "constant_pow",
    "convolution",
    "convolution_integer",
    "cos",
    "cosh",
    "cumulative_product",
    "cumulative_summation",
    "depth_to_space",
    "depth_to_space1",
    "dequantize",
    "dequantize_linear",
    "diagonal_matrix",
    "diagonal_matrix1",
    "difference_square",
    "divide",
    "dynamic_quantize_linear",
    "erf",
    "exp",
    "fill_value_constant",
    "fill_value_sequence",
    "floor",
    "fold",
    "gather",
    "gather_elements",
    "gather_nd",
    "gather_nd1",
    "gemm",
    "graph",
    "gru",
    "identity",
    "if_",
    "input",
    "is_infinity",
    "is_nan",
    "join",
    "local_response_normalization",
    "local_response_normalization_grad",
    "log",
    "logical_and",
    "logical_equals",
    "logical_greater_than",
    "logical_greater_than_or_equal",
    "logical_less_than",
    "logical_less_than_or_equal",
    "logical_not",
    "logical_or",
    "logical_xor",
    "lp_normalization",
    "lp_pooling",
    "lp_pooling1",
    "lstm",
    "matrix_multiply_integer",
    "matrix_multiply_integer_to_float",
    "max",
    "max_pooling",
    "max_pooling1",
    "max_pooling2",
    "max_pooling_grad",
    "max_unpooling",
    "mean",
    "mean_variance_normalization",
    "mean_variance_normalization1",
    "mean_variance_normalization2",
    "min",
    "modulus_floor",
    "modulus_truncate",
    "multihead_attention",
    "multihead_attention1",
    "multiply",
    "name_scope",
    "negate",
    "nonzero_coordinates",
    "one_hot",
    "operator",
    "padding",
    "padding1",
    "pow",
    "quantize",
    "quantize_linear",
    "quantized_linear_add",
    "quantized_linear_average_pooling",
    "quantized_linear_convolution",
    "quantized_linear_matrix_multiply",
    "random_generator",
    "recip",
    "reduce",
    "resample",
    "resample1",
    "resample2",
    "resample3",
    "resample_grad",
    "resample_grad1",
    "reverse_subsequences",
    "rnn",
    "roi_align",
    "roi_align1",
    "roi_align_grad",
    "roi_pooling",
    "round",
    "scatter",
    "scatter_nd",
    "sign",
    "sin",
    "sinh",
    "slice",
    "slice1",
    "slice_grad",
    "space_to_depth",
    "space_to_depth1",
    "split",
    "sqrt",
    "subtract",
    "tan",
    "tanh",
    "tensor_policy",
    "threshold",
    "tile",
    "top_k",
    "top_k1",
    "unfold",
    "upsample_2d",
    "value_scale_2d",
]
