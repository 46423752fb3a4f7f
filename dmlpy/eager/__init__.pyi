# Written by `python -m dmlpy.x.stubs`: do not edit.
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from numpy import bool_, dtype, floating, generic, integer, number

from dmlpy.description.descs import FusableDesc
from dmlpy.description.enums import (
    AxisDirection,
    ConvolutionDirection,
    ConvolutionMode,
    DataFormat,
    DataType,
    DepthSpaceOrder,
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
)
from dmlpy.description.value_structs import ScaleBias, Size2D
from dmlpy.devices import Device
from dmlpy.operators.activation import ActivationDesc

class CudnnRNNBackpropV3Outputs(NamedTuple):
    input_backprop: Any
    input_h_backprop: Any
    input_c_backprop: Any
    params_backprop: Any

def cudnn_rnn_backprop_v3(
    input: Any,
    input_h: Any,
    params: Any,
    reserve_space: Any,
    input_c: Any | None = None,
    sequence_lengths: Any | None = None,
    output: Any | None = None,
    output_h: Any | None = None,
    output_c: Any | None = None,
    output_backprop: Any | None = None,
    output_h_backprop: Any | None = None,
    output_c_backprop: Any | None = None,
    host_reserved: Any | None = None,
    *,
    rnn_mode: RnnMode | str | int = RnnMode.LSTM,
    input_mode: RnnInputMode | str | int = RnnInputMode.LINEAR_INPUT,
    direction: RnnDirection | str | int = RnnDirection.UNIDIRECTIONAL,
    dropout: float | str | floating[Any] = 0.0,
    seed: int | integer[Any] = 0,
    seed2: int | integer[Any] = 0,
    num_proj: int | integer[Any] = 0,
    time_major: bool | bool_ = True,
    device: Device | str | None = None,
) -> CudnnRNNBackpropV3Outputs:
    """CUDNN_RNN_BACKPROP_V3: the gradient of a network of stacked recurrent layers."""

class CudnnRNNV3Outputs(NamedTuple):
    output: Any
    h: Any
    c: Any
    reserve_space: Any
    host_reserved: Any

def cudnn_rnn_v3(
    input: Any,
    input_h: Any,
    params: Any,
    input_c: Any | None = None,
    sequence_lengths: Any | None = None,
    dropout_offset: Any | None = None,
    *,
    rnn_mode: RnnMode | str | int = RnnMode.LSTM,
    input_mode: RnnInputMode | str | int = RnnInputMode.LINEAR_INPUT,
    direction: RnnDirection | str | int = RnnDirection.UNIDIRECTIONAL,
    dropout: float | str | floating[Any] = 0.0,
    seed: int | integer[Any] = 0,
    seed2: int | integer[Any] = 0,
    num_proj: int | integer[Any] = 0,
    is_training: bool | bool_ = True,
    time_major: bool | bool_ = True,
    device: Device | str | None = None,
) -> CudnnRNNV3Outputs:
    """CUDNN_RNN_V3: a network of stacked recurrent layers, for inference and training."""

class FusedBatchNormGradV3Outputs(NamedTuple):
    x_backprop: Any
    scale_backprop: Any
    offset_backprop: Any

def fused_batch_norm_grad_v3(
    y_backprop: Any,
    x: Any,
    scale: Any,
    reserve_space_1: Any,
    reserve_space_2: Any,
    *,
    epsilon: float | str | floating[Any] = 0.0001,
    data_format: DataFormat | str | int = DataFormat.NHWC,
    is_training: bool | bool_ = True,
    device: Device | str | None = None,
) -> FusedBatchNormGradV3Outputs:
    """FUSED_BATCH_NORM_GRAD_V3: the gradients of x, scale and offset."""

class FusedBatchNormV3Outputs(NamedTuple):
    y: Any
    batch_mean: Any
    batch_variance: Any
    reserve_space_1: Any
    reserve_space_2: Any

def fused_batch_norm_v3(
    x: Any,
    scale: Any,
    offset: Any,
    mean: Any | None = None,
    variance: Any | None = None,
    *,
    epsilon: float | str | floating[Any] = 0.0001,
    exponential_avg_factor: float | str | floating[Any] = 1.0,
    data_format: DataFormat | str | int = DataFormat.NHWC,
    is_training: bool | bool_ = True,
    device: Device | str | None = None,
) -> FusedBatchNormV3Outputs:
    """FUSED_BATCH_NORM_V3: normalizes each channel, with the batch's statistics or with given ones."""

class GRUBlockCellOutputs(NamedTuple):
    r: Any
    u: Any
    c: Any
    h: Any

def gru_block_cell(
    x: Any,
    h_prev: Any,
    w_ru: Any,
    w_c: Any,
    b_ru: Any,
    b_c: Any,
    *,
    device: Device | str | None = None,
) -> GRUBlockCellOutputs:
    """GRU_BLOCK_CELL: one step of gated recurrent units."""

class GRUBlockCellGradOutputs(NamedTuple):
    d_x: Any
    d_h_prev: Any
    d_c_bar: Any
    d_r_bar_u_bar: Any

def gru_block_cell_grad(
    x: Any,
    h_prev: Any,
    w_ru: Any,
    w_c: Any,
    r: Any,
    u: Any,
    c: Any,
    d_h: Any,
    b_ru: Any | None = None,
    b_c: Any | None = None,
    *,
    device: Device | str | None = None,
) -> GRUBlockCellGradOutputs:
    """GRU_BLOCK_CELL_GRAD: the gradient of one step, without that of its weights."""

class GRUGradOutputs(NamedTuple):
    input_gradient: Any
    weight_gradient: Any
    recurrence_gradient: Any
    bias_gradient: Any
    hidden_init_gradient: Any

def gru_grad(
    input: Any,
    weight: Any,
    recurrence: Any,
    reserve: Any,
    sequence_lengths: Any | None = None,
    step_mask: Any | None = None,
    input_dropout: Any | None = None,
    state_dropout: Any | None = None,
    output_sequence_gradient: Any | None = None,
    output_single_gradient: Any | None = None,
    *,
    activation_descs: Iterable[ActivationDesc],
    direction: RecurrentDirection | str | int,
    linear_before_reset: bool | bool_ = False,
    device: Device | str | None = None,
) -> GRUGradOutputs:
    """GRU_GRAD: the gradient of a layer of gated recurrent units."""

class GRUTrainingOutputs(NamedTuple):
    sequence: Any
    single: Any
    reserve: Any

def gru_training(
    input: Any,
    weight: Any,
    recurrence: Any,
    bias: Any | None = None,
    hidden_init: Any | None = None,
    sequence_lengths: Any | None = None,
    step_mask: Any | None = None,
    input_dropout: Any | None = None,
    state_dropout: Any | None = None,
    *,
    activation_descs: Iterable[ActivationDesc],
    direction: RecurrentDirection | str | int,
    linear_before_reset: bool | bool_ = False,
    device: Device | str | None = None,
) -> GRUTrainingOutputs:
    """GRU_TRAINING: DML_GRU_OPERATOR_DESC with a reserve for GRU_GRAD, a step mask and dropout."""

class LSTMGradOutputs(NamedTuple):
    input_gradient: Any
    weight_gradient: Any
    recurrence_gradient: Any
    bias_gradient: Any
    hidden_init_gradient: Any
    cell_mem_init_gradient: Any
    peephole_gradient: Any
    projection_gradient: Any

def lstm_grad(
    input: Any,
    weight: Any,
    recurrence: Any,
    reserve: Any,
    sequence_lengths: Any | None = None,
    peephole: Any | None = None,
    projection: Any | None = None,
    step_mask: Any | None = None,
    input_dropout: Any | None = None,
    state_dropout: Any | None = None,
    output_sequence_gradient: Any | None = None,
    output_single_gradient: Any | None = None,
    output_cell_single_gradient: Any | None = None,
    *,
    activation_descs: Iterable[ActivationDesc],
    direction: RecurrentDirection | str | int,
    clip_threshold: float | str | floating[Any] = 0.0,
    use_clip_threshold: bool | bool_ = False,
    couple_input_forget: bool | bool_ = False,
    device: Device | str | None = None,
) -> LSTMGradOutputs:
    """LSTM_GRAD: the gradient of a long short-term memory layer."""

class LSTMTrainingOutputs(NamedTuple):
    sequence: Any
    single: Any
    cell_single: Any
    reserve: Any

def lstm_training(
    input: Any,
    weight: Any,
    recurrence: Any,
    bias: Any | None = None,
    hidden_init: Any | None = None,
    cell_mem_init: Any | None = None,
    sequence_lengths: Any | None = None,
    peephole: Any | None = None,
    step_mask: Any | None = None,
    input_dropout: Any | None = None,
    state_dropout: Any | None = None,
    projection: Any | None = None,
    *,
    activation_descs: Iterable[ActivationDesc],
    direction: RecurrentDirection | str | int,
    clip_threshold: float | str | floating[Any] = 0.0,
    use_clip_threshold: bool | bool_ = False,
    couple_input_forget: bool | bool_ = False,
    device: Device | str | None = None,
) -> LSTMTrainingOutputs:
    """LSTM_TRAINING: DML_LSTM_OPERATOR_DESC with a reserve for LSTM_GRAD, a step mask, dropout and a projection."""

class RNNGradOutputs(NamedTuple):
    input_gradient: Any
    weight_gradient: Any
    recurrence_gradient: Any
    bias_gradient: Any
    hidden_init_gradient: Any

def rnn_grad(
    input: Any,
    weight: Any,
    recurrence: Any,
    reserve: Any,
    sequence_lengths: Any | None = None,
    step_mask: Any | None = None,
    input_dropout: Any | None = None,
    state_dropout: Any | None = None,
    output_sequence_gradient: Any | None = None,
    output_single_gradient: Any | None = None,
    *,
    activation_descs: Iterable[ActivationDesc],
    direction: RecurrentDirection | str | int,
    device: Device | str | None = None,
) -> RNNGradOutputs:
    """RNN_GRAD: the gradient of a simple recurrent layer."""

class RNNTrainingOutputs(NamedTuple):
    sequence: Any
    single: Any
    reserve: Any

def rnn_training(
    input: Any,
    weight: Any,
    recurrence: Any,
    bias: Any | None = None,
    hidden_init: Any | None = None,
    sequence_lengths: Any | None = None,
    step_mask: Any | None = None,
    input_dropout: Any | None = None,
    state_dropout: Any | None = None,
    *,
    activation_descs: Iterable[ActivationDesc],
    direction: RecurrentDirection | str | int,
    device: Device | str | None = None,
) -> RNNTrainingOutputs:
    """RNN_TRAINING: DML_RNN_OPERATOR_DESC with a reserve for RNN_GRAD, a step mask and dropout."""

def activation_celu(
    input: Any,
    *,
    alpha: float | str | floating[Any] = 1.0,
    device: Device | str | None = None,
) -> Any:
    """ACTIVATION_CELU: x, exponential below 0 and smooth at 0 for every alpha."""

def activation_elu(
    input: Any,
    *,
    alpha: float | str | floating[Any] = 1.0,
    device: Device | str | None = None,
) -> Any:
    """ACTIVATION_ELU: x, exponential below 0."""

def activation_gelu(
    input: Any,
    *,
    device: Device | str | None = None,
) -> Any:
    """ACTIVATION_GELU: x times the normal distribution function of x, exact, not approximated by tanh."""

def activation_hardmax(
    input: Any,
    *,
    device: Device | str | None = None,
) -> Any:
    """ACTIVATION_HARDMAX: 1 at the largest element of each row, 0 elsewhere."""

def activation_hardmax1(
    input: Any,
    *,
    axes: Sequence[int],
    device: Device | str | None = None,
) -> Any:
    """ACTIVATION_HARDMAX1: 1 at the largest element of each group, 0 elsewhere."""

def activation_hard_sigmoid(
    input: Any,
    *,
    alpha: float | str | floating[Any] = 0.2,
    beta: float | str | floating[Any] = 0.5,
    device: Device | str | None = None,
) -> Any:
    """ACTIVATION_HARD_SIGMOID: a straight line clamped between 0 and 1."""

def activation_hard_swish(
    input: Any,
    *,
    alpha: float | str | floating[Any] = 0.2,
    beta: float | str | floating[Any] = 0.5,
    device: Device | str | None = None,
) -> Any:
    """ACTIVATION_HARD_SWISH: x times HARD_SIGMOID of it."""

def activation_identity(
    input: Any,
    *,
    device: Device | str | None = None,
) -> Any:
    """ACTIVATION_IDENTITY: a copy of each element."""

def activation_leaky_relu(
    input: Any,
    *,
    alpha: float | str | floating[Any] = 0.01,
    device: Device | str | None = None,
) -> Any:
    """ACTIVATION_LEAKY_RELU: x, with another slope below 0."""

def activation_linear(
    input: Any,
    *,
    alpha: float | str | floating[Any] = 1.0,
    beta: float | str | floating[Any] = 0.0,
    device: Device | str | None = None,
) -> Any:
    """ACTIVATION_LINEAR: a straight line."""

def activation_log_softmax(
    input: Any,
    *,
    device: Device | str | None = None,
) -> Any:
    """ACTIVATION_LOG_SOFTMAX: the natural logarithm of SOFTMAX."""

def activation_log_softmax1(
    input: Any,
    *,
    axes: Sequence[int],
    device: Device | str | None = None,
) -> Any:
    """ACTIVATION_LOG_SOFTMAX1: the natural logarithm of SOFTMAX1."""

def activation_parameterized_relu(
    input: Any,
    slope: Any,
    *,
    device: Device | str | None = None,
) -> Any:
    """ACTIVATION_PARAMETERIZED_RELU: x, with a separate slope for each element below 0."""

def activation_parametric_softplus(
    input: Any,
    *,
    alpha: float | str | floating[Any] = 1.0,
    beta: float | str | floating[Any] = 1.0,
    device: Device | str | None = None,
) -> Any:
    """ACTIVATION_PARAMETRIC_SOFTPLUS: a smooth positive part, scaled."""

def activation_relu(
    input: Any,
    *,
    device: Device | str | None = None,
) -> Any:
    """ACTIVATION_RELU: the positive part."""

def activation_relu_grad(
    input: Any,
    input_gradient: Any,
    *,
    device: Device | str | None = None,
) -> Any:
    """ACTIVATION_RELU_GRAD: the gradient of RELU. Where x is 0 or NaN it is 0."""

def activation_scaled_elu(
    input: Any,
    *,
    alpha: float | str | floating[Any] = 1.67326319,
    gamma: float | str | floating[Any] = 1.05070102,
    device: Device | str | None = None,
) -> Any:
    """ACTIVATION_SCALED_ELU: x, exponential below 0, and scaled: SELU."""

def activation_scaled_tanh(
    input: Any,
    *,
    alpha: float | str | floating[Any] = 1.0,
    beta: float | str | floating[Any] = 0.5,
    device: Device | str | None = None,
) -> Any:
    """ACTIVATION_SCALED_TANH: the hyperbolic tangent, scaled."""

def activation_shrink(
    input: Any,
    *,
    bias: float | str | floating[Any] = 0.0,
    threshold: float | str | floating[Any] = 0.5,
    device: Device | str | None = None,
) -> Any:
    """ACTIVATION_SHRINK: x moved towards 0 by a bias, and 0 near 0."""

def activation_sigmoid(
    input: Any,
    *,
    device: Device | str | None = None,
) -> Any:
    """ACTIVATION_SIGMOID: the logistic function."""

def activation_softmax(
    input: Any,
    *,
    device: Device | str | None = None,
) -> Any:
    """ACTIVATION_SOFTMAX: the softmax of each row, whose elements sum up to 1."""

def activation_softmax1(
    input: Any,
    *,
    axes: Sequence[int],
    device: Device | str | None = None,
) -> Any:
    """ACTIVATION_SOFTMAX1: the softmax of each group, whose elements sum up to 1."""

def activation_softplus(
    input: Any,
    *,
    steepness: float | str | floating[Any] = 1.0,
    device: Device | str | None = None,
) -> Any:
    """ACTIVATION_SOFTPLUS: a smooth positive part."""

def activation_softsign(
    input: Any,
    *,
    device: Device | str | None = None,
) -> Any:
    """ACTIVATION_SOFTSIGN: a sigmoid without an exponential."""

def activation_swish(
    input: Any,
    *,
    sigmoid_input_scale: float | str | floating[Any] = 1.0,
    device: Device | str | None = None,
) -> Any:
    """ACTIVATION_SWISH: x times a sigmoid of it."""

def activation_tanh(
    input: Any,
    *,
    device: Device | str | None = None,
) -> Any:
    """ACTIVATION_TANH: the hyperbolic tangent."""

def activation_thresholded_relu(
    input: Any,
    *,
    alpha: float | str | floating[Any] = 1.0,
    device: Device | str | None = None,
) -> Any:
    """ACTIVATION_THRESHOLDED_RELU: x above a threshold."""

class AdamOptimizerOutputs(NamedTuple):
    parameters: Any
    first_moment: Any
    second_moment: Any

def adam_optimizer(
    input_parameters: Any,
    input_first_moment: Any,
    input_second_moment: Any,
    gradient: Any,
    training_step: Any,
    *,
    learning_rate: float | str | floating[Any],
    beta1: float | str | floating[Any] = 0.9,
    beta2: float | str | floating[Any] = 0.999,
    epsilon: float | str | floating[Any] = 1e-08,
    device: Device | str | None = None,
) -> AdamOptimizerOutputs:
    """ADAM_OPTIMIZER: one step of Adam: new parameters and moments from the old ones and the gradient."""

def argmax(
    input: Any,
    *,
    axes: Sequence[int],
    axis_direction: AxisDirection | str | int = AxisDirection.INCREASING,
    output_data_type: DataType | str | int | dtype[Any] | type[generic] | None = None,
    device: Device | str | None = None,
) -> Any:
    """ARGMAX: the index of the largest element of each group."""

def argmin(
    input: Any,
    *,
    axes: Sequence[int],
    axis_direction: AxisDirection | str | int = AxisDirection.INCREASING,
    output_data_type: DataType | str | int | dtype[Any] | type[generic] | None = None,
    device: Device | str | None = None,
) -> Any:
    """ARGMIN: the index of the smallest element of each group."""

def average_pooling(
    input: Any,
    *,
    strides: Sequence[int] | None = None,
    window_size: Sequence[int],
    start_padding: Sequence[int] | None = None,
    end_padding: Sequence[int] | None = None,
    include_padding: bool | bool_,
    device: Device | str | None = None,
) -> Any:
    """AVERAGE_POOLING: the mean of each window's elements, for each batch entry and channel."""

def average_pooling1(
    input: Any,
    *,
    strides: Sequence[int] | None = None,
    window_size: Sequence[int],
    start_padding: Sequence[int] | None = None,
    end_padding: Sequence[int] | None = None,
    dilations: Sequence[int] | None = None,
    include_padding: bool | bool_,
    device: Device | str | None = None,
) -> Any:
    """AVERAGE_POOLING1: as AVERAGE_POOLING, with a window whose elements may be dilated."""

def average_pooling_grad(
    input_gradient: Any,
    *,
    strides: Sequence[int] | None = None,
    window_size: Sequence[int],
    start_padding: Sequence[int] | None = None,
    end_padding: Sequence[int] | None = None,
    include_padding: bool | bool_,
    output_sizes: Sequence[int],
    device: Device | str | None = None,
) -> Any:
    """AVERAGE_POOLING_GRAD: the gradient of AVERAGE_POOLING for its input."""

def batch_normalization(
    input: Any,
    mean: Any,
    variance: Any,
    scale: Any,
    bias: Any,
    *,
    spatial: bool | bool_ = True,
    epsilon: float | str | floating[Any] = 1e-05,
    fused_activation: ActivationDesc | None = None,
    device: Device | str | None = None,
) -> Any:
    """BATCH_NORMALIZATION: normalizes with given statistics."""

class BatchNormalizationGradOutputs(NamedTuple):
    gradient: Any
    scale_gradient: Any
    bias_gradient: Any

def batch_normalization_grad(
    input: Any,
    input_gradient: Any,
    mean: Any,
    variance: Any,
    scale: Any,
    *,
    epsilon: float | str | floating[Any] = 1e-05,
    device: Device | str | None = None,
) -> BatchNormalizationGradOutputs:
    """BATCH_NORMALIZATION_GRAD: the gradients where mean and variance are constants."""

class BatchNormalizationTrainingOutputs(NamedTuple):
    output: Any
    mean: Any
    variance: Any

def batch_normalization_training(
    input: Any,
    scale: Any,
    bias: Any,
    fused_add: Any | None = None,
    *,
    epsilon: float | str | floating[Any] = 1e-05,
    fused_activation: ActivationDesc | None = None,
    device: Device | str | None = None,
) -> BatchNormalizationTrainingOutputs:
    """BATCH_NORMALIZATION_TRAINING: normalizes with the batch's statistics."""

class BatchNormalizationTrainingGradOutputs(NamedTuple):
    gradient: Any
    scale_gradient: Any
    bias_gradient: Any

def batch_normalization_training_grad(
    input: Any,
    input_gradient: Any,
    mean: Any,
    variance: Any,
    scale: Any,
    *,
    epsilon: float | str | floating[Any] = 1e-05,
    device: Device | str | None = None,
) -> BatchNormalizationTrainingGradOutputs:
    """BATCH_NORMALIZATION_TRAINING_GRAD: the gradients where mean and variance follow from the batch."""

def cast(
    input: Any,
    *,
    output_data_type: DataType | str | int | dtype[Any] | type[generic],
    device: Device | str | None = None,
) -> Any:
    """CAST: converts each element to the output's type, by value."""

def convolution(
    input: Any,
    filter: Any,
    bias: Any | None = None,
    *,
    mode: ConvolutionMode | str | int = ConvolutionMode.CROSS_CORRELATION,
    direction: ConvolutionDirection | str | int = ConvolutionDirection.FORWARD,
    strides: Sequence[int] | None = None,
    dilations: Sequence[int] | None = None,
    start_padding: Sequence[int] | None = None,
    end_padding: Sequence[int] | None = None,
    output_padding: Sequence[int] | None = None,
    group_count: int | integer[Any] = 1,
    fused_activation: FusableDesc | None = None,
    output_sizes: Sequence[int] | None = None,
    device: Device | str | None = None,
) -> Any:
    """CONVOLUTION: the convolution of a tensor with filters, forward or transposed."""

def convolution_integer(
    input: Any,
    filter: Any,
    input_zero_point: Any | None = None,
    filter_zero_point: Any | None = None,
    *,
    strides: Sequence[int] | None = None,
    dilations: Sequence[int] | None = None,
    start_padding: Sequence[int] | None = None,
    end_padding: Sequence[int] | None = None,
    group_count: int | integer[Any] = 1,
    device: Device | str | None = None,
) -> Any:
    """CONVOLUTION_INTEGER: the forward convolution of quantized numbers, summed as 32-bit integers."""

def cumulative_product(
    input: Any,
    *,
    axis: int | integer[Any],
    axis_direction: AxisDirection | str | int = AxisDirection.INCREASING,
    has_exclusive_product: bool | bool_ = False,
    device: Device | str | None = None,
) -> Any:
    """CUMULATIVE_PRODUCT: the running product along an axis."""

def cumulative_summation(
    input: Any,
    *,
    axis: int | integer[Any],
    axis_direction: AxisDirection | str | int = AxisDirection.INCREASING,
    has_exclusive_sum: bool | bool_ = False,
    device: Device | str | None = None,
) -> Any:
    """CUMULATIVE_SUMMATION: the running sum along an axis."""

def depth_to_space(
    input: Any,
    *,
    block_size: int | integer[Any],
    device: Device | str | None = None,
) -> Any:
    """DEPTH_TO_SPACE: moves channels into blocks of the image, the inverse of SPACE_TO_DEPTH."""

def depth_to_space1(
    input: Any,
    *,
    block_size: int | integer[Any],
    order: DepthSpaceOrder | str | int,
    device: Device | str | None = None,
) -> Any:
    """DEPTH_TO_SPACE1: moves channels into blocks of the image, the inverse of SPACE_TO_DEPTH1."""

def dequantize(
    input: Any,
    quantizations: Sequence[Any],
    *,
    quantization_type: QuantizationType | str | int,
    output_data_type: DataType | str | int | dtype[Any] | type[generic] | None = None,
    device: Device | str | None = None,
) -> Any:
    """DEQUANTIZE: the numbers that 8- or 4-bit integers represent."""

def diagonal_matrix(
    *,
    offset: int | integer[Any] = 0,
    value: float | str | floating[Any] = 1.0,
    output_sizes: Sequence[int],
    output_data_type: DataType | str | int | dtype[Any] | type[generic] | None = None,
    device: Device | str | None = None,
) -> Any:
    """DIAGONAL_MATRIX: matrices with one value along a diagonal, and 0 elsewhere."""

def diagonal_matrix1(
    input: Any | None = None,
    *,
    value_data_type: DataType | str | int | dtype[Any] | type[generic],
    value: int | float | str | Mapping[str, Any] | number[Any],
    diagonal_fill_begin: int | integer[Any],
    diagonal_fill_end: int | integer[Any],
    output_sizes: Sequence[int] | None = None,
    device: Device | str | None = None,
) -> Any:
    """DIAGONAL_MATRIX1: matrices with one value along a band of diagonals, and the input elsewhere."""

class DynamicQuantizeLinearOutputs(NamedTuple):
    output: Any
    scale: Any
    zero_point: Any

def dynamic_quantize_linear(
    input: Any,
    *,
    output_data_type: DataType | str | int | dtype[Any] | type[generic] | None = None,
    output_zero_point_data_type: DataType | str | int | dtype[Any] | type[generic] | None = None,
    device: Device | str | None = None,
) -> DynamicQuantizeLinearOutputs:
    """DYNAMIC_QUANTIZE_LINEAR: quantizes with the scale and the zero point of the input's range."""

def abs(
    input: Any,
    *,
    scale_bias: ScaleBias | Mapping[str, Any] | None = None,
    device: Device | str | None = None,
) -> Any:
    """ELEMENT_WISE_ABS: the absolute value."""

def acos(
    input: Any,
    *,
    scale_bias: ScaleBias | Mapping[str, Any] | None = None,
    device: Device | str | None = None,
) -> Any:
    """ELEMENT_WISE_ACOS: the arc cosine, in radians, of numbers from -1 to 1."""

def acosh(
    input: Any,
    *,
    scale_bias: ScaleBias | Mapping[str, Any] | None = None,
    device: Device | str | None = None,
) -> Any:
    """ELEMENT_WISE_ACOSH: the inverse hyperbolic cosine of numbers from 1 on."""

def add(
    a: Any,
    b: Any,
    *,
    device: Device | str | None = None,
) -> Any:
    """ELEMENT_WISE_ADD: the sum."""

def add1(
    a: Any,
    b: Any,
    *,
    fused_activation: ActivationDesc | None = None,
    device: Device | str | None = None,
) -> Any:
    """ELEMENT_WISE_ADD1: the sum of floating-point numbers, and an activation of it."""

def asin(
    input: Any,
    *,
    scale_bias: ScaleBias | Mapping[str, Any] | None = None,
    device: Device | str | None = None,
) -> Any:
    """ELEMENT_WISE_ASIN: the arc sine, in radians, of numbers from -1 to 1."""

def asinh(
    input: Any,
    *,
    scale_bias: ScaleBias | Mapping[str, Any] | None = None,
    device: Device | str | None = None,
) -> Any:
    """ELEMENT_WISE_ASINH: the inverse hyperbolic sine."""

def atan(
    input: Any,
    *,
    scale_bias: ScaleBias | Mapping[str, Any] | None = None,
    device: Device | str | None = None,
) -> Any:
    """ELEMENT_WISE_ATAN: the arc tangent, in radians."""

def atanh(
    input: Any,
    *,
    scale_bias: ScaleBias | Mapping[str, Any] | None = None,
    device: Device | str | None = None,
) -> Any:
    """ELEMENT_WISE_ATANH: the inverse hyperbolic tangent of numbers from -1 to 1."""

def atan_yx(
    a: Any,
    b: Any,
    *,
    device: Device | str | None = None,
) -> Any:
    """ELEMENT_WISE_ATAN_YX: the angle, in radians, of the point with ordinate a and abscissa b."""

def bit_and(
    a: Any,
    b: Any,
    *,
    device: Device | str | None = None,
) -> Any:
    """ELEMENT_WISE_BIT_AND: the bitwise and."""

def bit_count(
    input: Any,
    *,
    output_data_type: DataType | str | int | dtype[Any] | type[generic] | None = None,
    device: Device | str | None = None,
) -> Any:
    """ELEMENT_WISE_BIT_COUNT: the number of bits of each element that are 1."""

def bit_not(
    input: Any,
    *,
    device: Device | str | None = None,
) -> Any:
    """ELEMENT_WISE_BIT_NOT: every bit inverted."""

def bit_or(
    a: Any,
    b: Any,
    *,
    device: Device | str | None = None,
) -> Any:
    """ELEMENT_WISE_BIT_OR: the bitwise or."""

def bit_shift_left(
    a: Any,
    b: Any,
    *,
    device: Device | str | None = None,
) -> Any:
    """ELEMENT_WISE_BIT_SHIFT_LEFT: the bits of a shifted left by b places."""

def bit_shift_right(
    a: Any,
    b: Any,
    *,
    device: Device | str | None = None,
) -> Any:
    """ELEMENT_WISE_BIT_SHIFT_RIGHT: the bits of a shifted right by b places."""

def bit_xor(
    a: Any,
    b: Any,
    *,
    device: Device | str | None = None,
) -> Any:
    """ELEMENT_WISE_BIT_XOR: the bitwise exclusive or."""

def ceil(
    input: Any,
    *,
    scale_bias: ScaleBias | Mapping[str, Any] | None = None,
    device: Device | str | None = None,
) -> Any:
    """ELEMENT_WISE_CEIL: the least whole number that is not below x."""

def clip(
    input: Any,
    *,
    scale_bias: ScaleBias | Mapping[str, Any] | None = None,
    min: float | str | floating[Any],
    max: float | str | floating[Any],
    device: Device | str | None = None,
) -> Any:
    """ELEMENT_WISE_CLIP: each element clamped to a range. Where min is above max, max wins."""

def clip1(
    input: Any,
    *,
    scale_bias: ScaleBias | Mapping[str, Any] | None = None,
    min_max_data_type: DataType | str | int | dtype[Any] | type[generic] | None = None,
    min: int | float | str | Mapping[str, Any] | number[Any],
    max: int | float | str | Mapping[str, Any] | number[Any],
    device: Device | str | None = None,
) -> Any:
    """ELEMENT_WISE_CLIP1: each element clamped to a range that is given in the tensors' type."""

def clip_grad(
    input: Any,
    input_gradient: Any,
    *,
    min: float | str | floating[Any],
    max: float | str | floating[Any],
    device: Device | str | None = None,
) -> Any:
    """ELEMENT_WISE_CLIP_GRAD: the gradient of CLIP. At the limits themselves it is 0."""

def clip_grad1(
    input: Any,
    input_gradient: Any,
    *,
    min_max_data_type: DataType | str | int | dtype[Any] | type[generic] | None = None,
    min: int | float | str | Mapping[str, Any] | number[Any],
    max: int | float | str | Mapping[str, Any] | number[Any],
    device: Device | str | None = None,
) -> Any:
    """ELEMENT_WISE_CLIP_GRAD1: the gradient of CLIP1. At the limits themselves it is 0."""

def constant_pow(
    input: Any,
    *,
    scale_bias: ScaleBias | Mapping[str, Any] | None = None,
    exponent: float | str | floating[Any],
    device: Device | str | None = None,
) -> Any:
    """ELEMENT_WISE_CONSTANT_POW: a power with one exponent for all elements."""

def cos(
    input: Any,
    *,
    scale_bias: ScaleBias | Mapping[str, Any] | None = None,
    device: Device | str | None = None,
) -> Any:
    """ELEMENT_WISE_COS: the cosine of angles in radians."""

def cosh(
    input: Any,
    *,
    scale_bias: ScaleBias | Mapping[str, Any] | None = None,
    device: Device | str | None = None,
) -> Any:
    """ELEMENT_WISE_COSH: the hyperbolic cosine."""

def dequantize_linear(
    input: Any,
    scale: Any,
    zero_point: Any | None = None,
    *,
    device: Device | str | None = None,
) -> Any:
    """ELEMENT_WISE_DEQUANTIZE_LINEAR: the numbers that quantized integers represent."""

def difference_square(
    a: Any,
    b: Any,
    *,
    device: Device | str | None = None,
) -> Any:
    """ELEMENT_WISE_DIFFERENCE_SQUARE: the square of the difference."""

def divide(
    a: Any,
    b: Any,
    *,
    device: Device | str | None = None,
) -> Any:
    """ELEMENT_WISE_DIVIDE: the quotient; that of integers is rounded toward zero."""

def erf(
    input: Any,
    *,
    scale_bias: ScaleBias | Mapping[str, Any] | None = None,
    device: Device | str | None = None,
) -> Any:
    """ELEMENT_WISE_ERF: the Gauss error function."""

def exp(
    input: Any,
    *,
    scale_bias: ScaleBias | Mapping[str, Any] | None = None,
    device: Device | str | None = None,
) -> Any:
    """ELEMENT_WISE_EXP: the exponential function."""

def floor(
    input: Any,
    *,
    scale_bias: ScaleBias | Mapping[str, Any] | None = None,
    device: Device | str | None = None,
) -> Any:
    """ELEMENT_WISE_FLOOR: the greatest whole number that is not above x."""

def identity(
    input: Any,
    *,
    scale_bias: ScaleBias | Mapping[str, Any] | None = None,
    device: Device | str | None = None,
) -> Any:
    """ELEMENT_WISE_IDENTITY: copies each element."""

def if_(
    condition: Any,
    a: Any,
    b: Any,
    *,
    device: Device | str | None = None,
) -> Any:
    """ELEMENT_WISE_IF: the element of one tensor or of another, chosen by a condition."""

def is_infinity(
    input: Any,
    *,
    infinity_mode: IsInfinityMode | str | int = IsInfinityMode.EITHER,
    device: Device | str | None = None,
) -> Any:
    """ELEMENT_WISE_IS_INFINITY: whether each element is infinite. NaN is not."""

def is_nan(
    input: Any,
    *,
    output_data_type: DataType | str | int | dtype[Any] | type[generic] | None = None,
    device: Device | str | None = None,
) -> Any:
    """ELEMENT_WISE_IS_NAN: whether each element is NaN. Infinities are not."""

def log(
    input: Any,
    *,
    scale_bias: ScaleBias | Mapping[str, Any] | None = None,
    device: Device | str | None = None,
) -> Any:
    """ELEMENT_WISE_LOG: the natural logarithm. That of 0 is minus infinity, that of a negative number NaN."""

def logical_and(
    a: Any,
    b: Any,
    *,
    device: Device | str | None = None,
) -> Any:
    """ELEMENT_WISE_LOGICAL_AND: the logical and of truth values."""

def logical_equals(
    a: Any,
    b: Any,
    *,
    output_data_type: DataType | str | int | dtype[Any] | type[generic] | None = None,
    device: Device | str | None = None,
) -> Any:
    """ELEMENT_WISE_LOGICAL_EQUALS: whether a equals b."""

def logical_greater_than(
    a: Any,
    b: Any,
    *,
    output_data_type: DataType | str | int | dtype[Any] | type[generic] | None = None,
    device: Device | str | None = None,
) -> Any:
    """ELEMENT_WISE_LOGICAL_GREATER_THAN: whether a is greater than b."""

def logical_greater_than_or_equal(
    a: Any,
    b: Any,
    *,
    output_data_type: DataType | str | int | dtype[Any] | type[generic] | None = None,
    device: Device | str | None = None,
) -> Any:
    """ELEMENT_WISE_LOGICAL_GREATER_THAN_OR_EQUAL: whether a is greater than or equal to b."""

def logical_less_than(
    a: Any,
    b: Any,
    *,
    output_data_type: DataType | str | int | dtype[Any] | type[generic] | None = None,
    device: Device | str | None = None,
) -> Any:
    """ELEMENT_WISE_LOGICAL_LESS_THAN: whether a is less than b."""

def logical_less_than_or_equal(
    a: Any,
    b: Any,
    *,
    output_data_type: DataType | str | int | dtype[Any] | type[generic] | None = None,
    device: Device | str | None = None,
) -> Any:
    """ELEMENT_WISE_LOGICAL_LESS_THAN_OR_EQUAL: whether a is less than or equal to b."""

def logical_not(
    input: Any,
    *,
    device: Device | str | None = None,
) -> Any:
    """ELEMENT_WISE_LOGICAL_NOT: the negation of truth values. Any number but 0 is true."""

def logical_or(
    a: Any,
    b: Any,
    *,
    device: Device | str | None = None,
) -> Any:
    """ELEMENT_WISE_LOGICAL_OR: the logical or of truth values."""

def logical_xor(
    a: Any,
    b: Any,
    *,
    device: Device | str | None = None,
) -> Any:
    """ELEMENT_WISE_LOGICAL_XOR: the exclusive or of truth values."""

def max(
    a: Any,
    b: Any,
    *,
    device: Device | str | None = None,
) -> Any:
    """ELEMENT_WISE_MAX: the greater of two numbers. The result for NaN is not documented; here it is NaN."""

def mean(
    a: Any,
    b: Any,
    *,
    device: Device | str | None = None,
) -> Any:
    """ELEMENT_WISE_MEAN: the mean of two numbers."""

def min(
    a: Any,
    b: Any,
    *,
    device: Device | str | None = None,
) -> Any:
    """ELEMENT_WISE_MIN: the lesser of two numbers. The result for NaN is not documented; here it is NaN."""

def modulus_floor(
    a: Any,
    b: Any,
    *,
    device: Device | str | None = None,
) -> Any:
    """ELEMENT_WISE_MODULUS_FLOOR: the remainder with the sign of the divisor, as Python's % has it."""

def modulus_truncate(
    a: Any,
    b: Any,
    *,
    device: Device | str | None = None,
) -> Any:
    """ELEMENT_WISE_MODULUS_TRUNCATE: the remainder with the sign of the dividend, as C's % has it."""

def multiply(
    a: Any,
    b: Any,
    *,
    device: Device | str | None = None,
) -> Any:
    """ELEMENT_WISE_MULTIPLY: the product."""

def negate(
    input: Any,
    *,
    device: Device | str | None = None,
) -> Any:
    """ELEMENT_WISE_NEGATE: the number with the opposite sign."""

def pow(
    input: Any,
    exponent: Any,
    *,
    scale_bias: ScaleBias | Mapping[str, Any] | None = None,
    device: Device | str | None = None,
) -> Any:
    """ELEMENT_WISE_POW: a power with an exponent for each element."""

def quantized_linear_add(
    a: Any,
    a_scale: Any,
    b: Any,
    b_scale: Any,
    output_scale: Any,
    a_zero_point: Any | None = None,
    b_zero_point: Any | None = None,
    output_zero_point: Any | None = None,
    *,
    output_data_type: DataType | str | int | dtype[Any] | type[generic] | None = None,
    device: Device | str | None = None,
) -> Any:
    """ELEMENT_WISE_QUANTIZED_LINEAR_ADD: the sum of quantized tensors, quantized again."""

def quantize_linear(
    input: Any,
    scale: Any,
    zero_point: Any | None = None,
    *,
    output_data_type: DataType | str | int | dtype[Any] | type[generic] | None = None,
    device: Device | str | None = None,
) -> Any:
    """ELEMENT_WISE_QUANTIZE_LINEAR: quantizes numbers to 8-bit integers."""

def recip(
    input: Any,
    *,
    scale_bias: ScaleBias | Mapping[str, Any] | None = None,
    device: Device | str | None = None,
) -> Any:
    """ELEMENT_WISE_RECIP: the reciprocal."""

def round(
    input: Any,
    *,
    rounding_mode: RoundingMode | str | int = RoundingMode.HALVES_TO_NEAREST_EVEN,
    device: Device | str | None = None,
) -> Any:
    """ELEMENT_WISE_ROUND: rounds to whole numbers, which remain floating-point numbers."""

def sign(
    input: Any,
    *,
    device: Device | str | None = None,
) -> Any:
    """ELEMENT_WISE_SIGN: the sign: -1, 0 or 1."""

def sin(
    input: Any,
    *,
    scale_bias: ScaleBias | Mapping[str, Any] | None = None,
    device: Device | str | None = None,
) -> Any:
    """ELEMENT_WISE_SIN: the sine of angles in radians."""

def sinh(
    input: Any,
    *,
    scale_bias: ScaleBias | Mapping[str, Any] | None = None,
    device: Device | str | None = None,
) -> Any:
    """ELEMENT_WISE_SINH: the hyperbolic sine."""

def sqrt(
    input: Any,
    *,
    scale_bias: ScaleBias | Mapping[str, Any] | None = None,
    device: Device | str | None = None,
) -> Any:
    """ELEMENT_WISE_SQRT: the square root of numbers that are not negative."""

def subtract(
    a: Any,
    b: Any,
    *,
    device: Device | str | None = None,
) -> Any:
    """ELEMENT_WISE_SUBTRACT: the difference."""

def tan(
    input: Any,
    *,
    scale_bias: ScaleBias | Mapping[str, Any] | None = None,
    device: Device | str | None = None,
) -> Any:
    """ELEMENT_WISE_TAN: the tangent of angles in radians."""

def tanh(
    input: Any,
    *,
    scale_bias: ScaleBias | Mapping[str, Any] | None = None,
    device: Device | str | None = None,
) -> Any:
    """ELEMENT_WISE_TANH: the hyperbolic tangent."""

def threshold(
    input: Any,
    *,
    scale_bias: ScaleBias | Mapping[str, Any] | None = None,
    min: float | str | floating[Any],
    device: Device | str | None = None,
) -> Any:
    """ELEMENT_WISE_THRESHOLD: each element, or the threshold if the element is below it."""

def fill_value_constant(
    *,
    value_data_type: DataType | str | int | dtype[Any] | type[generic],
    value: int | float | str | Mapping[str, Any] | number[Any],
    output_sizes: Sequence[int],
    device: Device | str | None = None,
) -> Any:
    """FILL_VALUE_CONSTANT: a tensor of one value."""

def fill_value_sequence(
    *,
    value_data_type: DataType | str | int | dtype[Any] | type[generic],
    value_start: int | float | str | Mapping[str, Any] | number[Any],
    value_delta: int | float | str | Mapping[str, Any] | number[Any],
    output_sizes: Sequence[int],
    device: Device | str | None = None,
) -> Any:
    """FILL_VALUE_SEQUENCE: a tensor of values at equal distances, counted in row-major order whatever the strides."""

def fold(
    input: Any,
    *,
    window_sizes: Sequence[int],
    strides: Sequence[int] | None = None,
    dilations: Sequence[int] | None = None,
    start_padding: Sequence[int] | None = None,
    end_padding: Sequence[int] | None = None,
    output_sizes: Sequence[int],
    device: Device | str | None = None,
) -> Any:
    """FOLD: sums sliding blocks, one per column, into an image. The transpose of UNFOLD."""

def gather(
    input: Any,
    indices: Any,
    *,
    axis: int | integer[Any],
    index_dimensions: int | integer[Any],
    device: Device | str | None = None,
) -> Any:
    """GATHER: picks slices of a tensor along an axis, one for each index."""

def gather_elements(
    input: Any,
    indices: Any,
    *,
    axis: int | integer[Any],
    device: Device | str | None = None,
) -> Any:
    """GATHER_ELEMENTS: picks single elements along an axis, one for each index."""

def gather_nd(
    input: Any,
    indices: Any,
    *,
    input_dimension_count: int | integer[Any],
    indices_dimension_count: int | integer[Any],
    device: Device | str | None = None,
) -> Any:
    """GATHER_ND: picks blocks of a tensor, one for each tuple of indices."""

def gather_nd1(
    input: Any,
    indices: Any,
    *,
    input_dimension_count: int | integer[Any],
    indices_dimension_count: int | integer[Any],
    batch_dimension_count: int | integer[Any],
    device: Device | str | None = None,
) -> Any:
    """GATHER_ND1: picks blocks of a tensor, one for each tuple of indices, for each entry of a batch."""

def gemm(
    a: Any,
    b: Any,
    c: Any | None = None,
    *,
    trans_a: MatrixTransform | str | int = MatrixTransform.NONE,
    trans_b: MatrixTransform | str | int = MatrixTransform.NONE,
    alpha: float | str | floating[Any] = 1.0,
    beta: float | str | floating[Any] = 1.0,
    fused_activation: FusableDesc | None = None,
    device: Device | str | None = None,
) -> Any:
    """GEMM: the product of two matrices, for each entry of a batch."""

class GRUOutputs(NamedTuple):
    sequence: Any
    single: Any

def gru(
    input: Any,
    weight: Any,
    recurrence: Any,
    bias: Any | None = None,
    hidden_init: Any | None = None,
    sequence_lengths: Any | None = None,
    *,
    activation_descs: Iterable[ActivationDesc],
    direction: RecurrentDirection | str | int,
    linear_before_reset: bool | bool_ = False,
    device: Device | str | None = None,
) -> GRUOutputs:
    """GRU: gated recurrent units, a recurrent layer that replaces its state h as far as the update gate z lets it."""

def join(
    inputs: Sequence[Any],
    *,
    axis: int | integer[Any],
    device: Device | str | None = None,
) -> Any:
    """JOIN: concatenates tensors along an axis, the inverse of SPLIT."""

def local_response_normalization(
    input: Any,
    *,
    cross_channel: bool | bool_,
    local_size: int | integer[Any],
    alpha: float | str | floating[Any] = 0.0001,
    beta: float | str | floating[Any] = 0.75,
    bias: float | str | floating[Any] = 1.0,
    device: Device | str | None = None,
) -> Any:
    """LOCAL_RESPONSE_NORMALIZATION: divides each element by a power of the squares in a window around it."""

def local_response_normalization_grad(
    input: Any,
    input_gradient: Any,
    *,
    cross_channel: bool | bool_,
    local_size: int | integer[Any],
    alpha: float | str | floating[Any] = 0.0001,
    beta: float | str | floating[Any] = 0.75,
    bias: float | str | floating[Any] = 1.0,
    device: Device | str | None = None,
) -> Any:
    """LOCAL_RESPONSE_NORMALIZATION_GRAD: the gradient of LOCAL_RESPONSE_NORMALIZATION for its input."""

def lp_normalization(
    input: Any,
    *,
    axis: int | integer[Any],
    epsilon: float | str | floating[Any] = 1e-05,
    p: int | integer[Any] = 2,
    device: Device | str | None = None,
) -> Any:
    """LP_NORMALIZATION: divides each line of elements along an axis by its norm."""

def lp_pooling(
    input: Any,
    *,
    strides: Sequence[int] | None = None,
    window_size: Sequence[int],
    start_padding: Sequence[int] | None = None,
    end_padding: Sequence[int] | None = None,
    p: int | integer[Any],
    device: Device | str | None = None,
) -> Any:
    """LP_POOLING: the Lp norm of each window's elements, for each batch entry and channel."""

def lp_pooling1(
    input: Any,
    *,
    strides: Sequence[int] | None = None,
    window_size: Sequence[int],
    start_padding: Sequence[int] | None = None,
    end_padding: Sequence[int] | None = None,
    dilations: Sequence[int] | None = None,
    p: int | integer[Any],
    device: Device | str | None = None,
) -> Any:
    """LP_POOLING1: as LP_POOLING, with a window whose elements may be dilated."""

class LSTMOutputs(NamedTuple):
    sequence: Any
    single: Any
    cell_single: Any

def lstm(
    input: Any,
    weight: Any,
    recurrence: Any,
    bias: Any | None = None,
    hidden_init: Any | None = None,
    cell_mem_init: Any | None = None,
    sequence_lengths: Any | None = None,
    peephole: Any | None = None,
    *,
    activation_descs: Iterable[ActivationDesc],
    direction: RecurrentDirection | str | int,
    clip_threshold: float | str | floating[Any] = 0.0,
    use_clip_threshold: bool | bool_ = False,
    couple_input_forget: bool | bool_ = False,
    device: Device | str | None = None,
) -> LSTMOutputs:
    """LSTM: long short-term memory, a recurrent layer with a cell state c in addition to h; gates keep or change it."""

def matrix_multiply_integer(
    a: Any,
    b: Any,
    a_zero_point: Any | None = None,
    b_zero_point: Any | None = None,
    *,
    device: Device | str | None = None,
) -> Any:
    """MATRIX_MULTIPLY_INTEGER: the product of two matrices of quantized numbers, summed as 32-bit integers."""

def matrix_multiply_integer_to_float(
    a: Any,
    a_scale: Any,
    b: Any,
    b_scale: Any,
    a_zero_point: Any | None = None,
    b_zero_point: Any | None = None,
    bias: Any | None = None,
    *,
    device: Device | str | None = None,
) -> Any:
    """MATRIX_MULTIPLY_INTEGER_TO_FLOAT: the product of two matrices of quantized numbers, as floats."""

def max_pooling(
    input: Any,
    *,
    strides: Sequence[int] | None = None,
    window_size: Sequence[int],
    start_padding: Sequence[int] | None = None,
    end_padding: Sequence[int] | None = None,
    device: Device | str | None = None,
) -> Any:
    """MAX_POOLING: the largest of each window's elements, for each batch entry and channel."""

class MaxPooling1Outputs(NamedTuple):
    values: Any
    indices: Any

def max_pooling1(
    input: Any,
    *,
    strides: Sequence[int] | None = None,
    window_size: Sequence[int],
    start_padding: Sequence[int] | None = None,
    end_padding: Sequence[int] | None = None,
    output_indices_data_type: DataType | str | int | dtype[Any] | type[generic] | None = None,
    device: Device | str | None = None,
) -> MaxPooling1Outputs:
    """MAX_POOLING1: as MAX_POOLING, and returns the index of each maximum."""

class MaxPooling2Outputs(NamedTuple):
    values: Any
    indices: Any

def max_pooling2(
    input: Any,
    *,
    strides: Sequence[int] | None = None,
    window_size: Sequence[int],
    start_padding: Sequence[int] | None = None,
    end_padding: Sequence[int] | None = None,
    dilations: Sequence[int] | None = None,
    output_indices_data_type: DataType | str | int | dtype[Any] | type[generic] | None = None,
    device: Device | str | None = None,
) -> MaxPooling2Outputs:
    """MAX_POOLING2: as MAX_POOLING1, with a window whose elements may be dilated."""

def max_pooling_grad(
    input: Any,
    input_gradient: Any,
    *,
    strides: Sequence[int] | None = None,
    window_size: Sequence[int],
    start_padding: Sequence[int] | None = None,
    end_padding: Sequence[int] | None = None,
    dilations: Sequence[int] | None = None,
    device: Device | str | None = None,
) -> Any:
    """MAX_POOLING_GRAD: the gradient of MAX_POOLING2 for its input."""

def max_unpooling(
    input: Any,
    indices: Any,
    *,
    output_sizes: Sequence[int],
    device: Device | str | None = None,
) -> Any:
    """MAX_UNPOOLING: puts each element at its index among zeros: the inverse of MAX_POOLING1."""

def mean_variance_normalization(
    input: Any,
    scale: Any | None = None,
    bias: Any | None = None,
    *,
    cross_channel: bool | bool_ = False,
    normalize_variance: bool | bool_ = True,
    epsilon: float | str | floating[Any] = 1e-05,
    fused_activation: ActivationDesc | None = None,
    device: Device | str | None = None,
) -> Any:
    """MEAN_VARIANCE_NORMALIZATION: normalizes each image by its mean and variance, by channel or as a whole."""

def mean_variance_normalization1(
    input: Any,
    scale: Any | None = None,
    bias: Any | None = None,
    *,
    axes: Sequence[int],
    normalize_variance: bool | bool_ = True,
    epsilon: float | str | floating[Any] = 1e-05,
    fused_activation: ActivationDesc | None = None,
    device: Device | str | None = None,
) -> Any:
    """MEAN_VARIANCE_NORMALIZATION1: normalizes each group of elements by its mean and variance."""

def mean_variance_normalization2(
    input: Any,
    scale: Any | None = None,
    bias: Any | None = None,
    *,
    axes: Sequence[int],
    use_mean: bool | bool_ = True,
    use_variance: bool | bool_ = True,
    epsilon: float | str | floating[Any] = 1e-05,
    fused_activation: ActivationDesc | None = None,
    device: Device | str | None = None,
) -> Any:
    """MEAN_VARIANCE_NORMALIZATION2: normalizes each group of elements by its mean, variance or both."""

class MultiheadAttentionOutputs(NamedTuple):
    output: Any
    present_key: Any
    present_value: Any

def multihead_attention(
    query: Any | None = None,
    key: Any | None = None,
    value: Any | None = None,
    stacked_query_key: Any | None = None,
    stacked_key_value: Any | None = None,
    stacked_query_key_value: Any | None = None,
    bias: Any | None = None,
    mask: Any | None = None,
    relative_position_bias: Any | None = None,
    past_key: Any | None = None,
    past_value: Any | None = None,
    *,
    scale: float | str | floating[Any],
    mask_filter_value: float | str | floating[Any],
    head_count: int | integer[Any],
    mask_type: MultiheadAttentionMaskType | str | int = MultiheadAttentionMaskType.NONE,
    output_data_type: DataType | str | int | dtype[Any] | type[generic] | None = None,
    output_present_key_data_type: DataType | str | int | dtype[Any] | type[generic] | None = None,
    output_present_value_data_type: DataType | str | int | dtype[Any] | type[generic] | None = None,
    device: Device | str | None = None,
) -> MultiheadAttentionOutputs:
    """MULTIHEAD_ATTENTION: attention of each of several heads."""

class MultiheadAttention1Outputs(NamedTuple):
    output: Any
    present_key: Any
    present_value: Any

def multihead_attention1(
    query: Any | None = None,
    key: Any | None = None,
    value: Any | None = None,
    stacked_query_key: Any | None = None,
    stacked_key_value: Any | None = None,
    stacked_query_key_value: Any | None = None,
    bias: Any | None = None,
    mask: Any | None = None,
    relative_position_bias: Any | None = None,
    past_key: Any | None = None,
    past_value: Any | None = None,
    past_sequence_lengths: Any | None = None,
    *,
    scale: float | str | floating[Any],
    mask_filter_value: float | str | floating[Any],
    query_head_count: int | integer[Any],
    key_value_head_count: int | integer[Any],
    mask_type: MultiheadAttentionMaskType | str | int = MultiheadAttentionMaskType.NONE,
    output_data_type: DataType | str | int | dtype[Any] | type[generic] | None = None,
    output_present_key_data_type: DataType | str | int | dtype[Any] | type[generic] | None = None,
    output_present_value_data_type: DataType | str | int | dtype[Any] | type[generic] | None = None,
    device: Device | str | None = None,
) -> MultiheadAttention1Outputs:
    """MULTIHEAD_ATTENTION1: attention of each of several heads; several may share their keys and values."""

class NonzeroCoordinatesOutputs(NamedTuple):
    count: Any
    coordinates: Any

def nonzero_coordinates(
    input: Any,
    *,
    device: Device | str | None = None,
) -> NonzeroCoordinatesOutputs:
    """NONZERO_COORDINATES: the coordinates of all non-zero elements, in row-major order."""

def one_hot(
    indices: Any,
    values: Any,
    *,
    axis: int | integer[Any],
    output_length: int | integer[Any],
    device: Device | str | None = None,
) -> Any:
    """ONE_HOT: sequences along an axis that hold one value at an index, and another value elsewhere."""

def padding(
    input: Any,
    *,
    padding_mode: PaddingMode | str | int = PaddingMode.CONSTANT,
    padding_value: float | str | floating[Any] = 0.0,
    start_padding: Sequence[int],
    end_padding: Sequence[int],
    device: Device | str | None = None,
) -> Any:
    """PADDING: adds a margin around a tensor."""

def padding1(
    input: Any,
    *,
    padding_mode: PaddingMode | str | int = PaddingMode.CONSTANT,
    padding_value_data_type: DataType | str | int | dtype[Any] | type[generic] | None = None,
    padding_value: int | float | str | Mapping[str, Any] | number[Any] = 0,
    start_padding: Sequence[int],
    end_padding: Sequence[int],
    device: Device | str | None = None,
) -> Any:
    """PADDING1: adds a margin around a tensor, with a value of the tensor's type."""

def quantize(
    input: Any,
    quantizations: Sequence[Any],
    *,
    quantization_type: QuantizationType | str | int,
    output_data_type: DataType | str | int | dtype[Any] | type[generic] | None = None,
    device: Device | str | None = None,
) -> Any:
    """QUANTIZE: quantizes numbers to 8- or 4-bit integers."""

def quantized_linear_average_pooling(
    input: Any,
    input_scale: Any,
    output_scale: Any,
    input_zero_point: Any | None = None,
    output_zero_point: Any | None = None,
    *,
    strides: Sequence[int] | None = None,
    window_size: Sequence[int],
    start_padding: Sequence[int] | None = None,
    end_padding: Sequence[int] | None = None,
    dilations: Sequence[int] | None = None,
    include_padding: bool | bool_,
    output_data_type: DataType | str | int | dtype[Any] | type[generic] | None = None,
    device: Device | str | None = None,
) -> Any:
    """QUANTIZED_LINEAR_AVERAGE_POOLING: the mean of each window's quantized elements, quantized again."""

def quantized_linear_convolution(
    input: Any,
    input_scale: Any,
    filter: Any,
    filter_scale: Any,
    output_scale: Any,
    input_zero_point: Any | None = None,
    filter_zero_point: Any | None = None,
    bias: Any | None = None,
    output_zero_point: Any | None = None,
    *,
    strides: Sequence[int] | None = None,
    dilations: Sequence[int] | None = None,
    start_padding: Sequence[int] | None = None,
    end_padding: Sequence[int] | None = None,
    group_count: int | integer[Any] = 1,
    output_data_type: DataType | str | int | dtype[Any] | type[generic] | None = None,
    device: Device | str | None = None,
) -> Any:
    """QUANTIZED_LINEAR_CONVOLUTION: the forward convolution of quantized numbers, quantized again."""

def quantized_linear_matrix_multiply(
    a: Any,
    a_scale: Any,
    b: Any,
    b_scale: Any,
    output_scale: Any,
    a_zero_point: Any | None = None,
    b_zero_point: Any | None = None,
    output_zero_point: Any | None = None,
    *,
    output_data_type: DataType | str | int | dtype[Any] | type[generic] | None = None,
    device: Device | str | None = None,
) -> Any:
    """QUANTIZED_LINEAR_MATRIX_MULTIPLY: the product of two matrices of quantized numbers, quantized again."""

class RandomGeneratorOutputs(NamedTuple):
    values: Any
    state: Any

def random_generator(
    input_state: Any,
    *,
    type: RandomGeneratorType | str | int = RandomGeneratorType.PHILOX_4X32_10,
    output_sizes: Sequence[int],
    device: Device | str | None = None,
) -> RandomGeneratorOutputs:
    """RANDOM_GENERATOR: random bits of Philox 4x32-10, and the state to continue from."""

def reduce(
    input: Any,
    *,
    function: ReduceFunction | str | int,
    axes: Sequence[int] | None = None,
    output_data_type: DataType | str | int | dtype[Any] | type[generic] | None = None,
    device: Device | str | None = None,
) -> Any:
    """REDUCE: reduces each group of n elements x to one element, by a function."""

def resample(
    input: Any,
    *,
    interpolation_mode: InterpolationMode | str | int,
    scales: Sequence[float] | None = None,
    output_sizes: Sequence[int] | None = None,
    device: Device | str | None = None,
) -> Any:
    """RESAMPLE: resamples a tensor by the centres of its pixels."""

def resample1(
    input: Any,
    *,
    interpolation_mode: InterpolationMode | str | int,
    scales: Sequence[float] | None = None,
    input_pixel_offsets: Sequence[float] | None = None,
    output_pixel_offsets: Sequence[float] | None = None,
    output_sizes: Sequence[int] | None = None,
    device: Device | str | None = None,
) -> Any:
    """RESAMPLE1: resamples a tensor."""

def resample2(
    input: Any,
    *,
    interpolation_mode: InterpolationMode | str | int,
    rounding_direction: AxisDirection | str | int = AxisDirection.INCREASING,
    scales: Sequence[float] | None = None,
    input_pixel_offsets: Sequence[float] | None = None,
    output_pixel_offsets: Sequence[float] | None = None,
    output_sizes: Sequence[int] | None = None,
    device: Device | str | None = None,
) -> Any:
    """RESAMPLE2: resamples a tensor, with a given rounding direction for the nearest neighbour."""

def resample3(
    input: Any,
    *,
    interpolation_mode: InterpolationMode | str | int,
    rounding_direction: AxisDirection | str | int = AxisDirection.INCREASING,
    scales: Sequence[float] | None = None,
    input_pixel_offsets: Sequence[float] | None = None,
    output_pixel_offsets: Sequence[float] | None = None,
    antialiased: bool | bool_ = False,
    output_sizes: Sequence[int] | None = None,
    device: Device | str | None = None,
) -> Any:
    """RESAMPLE3: resamples a tensor, optionally without the artefacts of shrinking."""

def resample_grad(
    input_gradient: Any,
    *,
    interpolation_mode: InterpolationMode | str | int,
    scales: Sequence[float] | None = None,
    input_pixel_offsets: Sequence[float] | None = None,
    output_pixel_offsets: Sequence[float] | None = None,
    output_sizes: Sequence[int] | None = None,
    device: Device | str | None = None,
) -> Any:
    """RESAMPLE_GRAD: the gradient of RESAMPLE1 for its input."""

def resample_grad1(
    input_gradient: Any,
    *,
    interpolation_mode: InterpolationMode | str | int,
    rounding_direction: AxisDirection | str | int = AxisDirection.INCREASING,
    scales: Sequence[float] | None = None,
    input_pixel_offsets: Sequence[float] | None = None,
    output_pixel_offsets: Sequence[float] | None = None,
    output_sizes: Sequence[int] | None = None,
    device: Device | str | None = None,
) -> Any:
    """RESAMPLE_GRAD1: the gradient of RESAMPLE2 for its input."""

def reverse_subsequences(
    input: Any,
    sequence_lengths: Any,
    *,
    axis: int | integer[Any],
    device: Device | str | None = None,
) -> Any:
    """REVERSE_SUBSEQUENCES: reverses the first elements of each sequence along an axis; the others stay."""

class RNNOutputs(NamedTuple):
    sequence: Any
    single: Any

def rnn(
    input: Any,
    weight: Any,
    recurrence: Any,
    bias: Any | None = None,
    hidden_init: Any | None = None,
    sequence_lengths: Any | None = None,
    *,
    activation_descs: Iterable[ActivationDesc],
    direction: RecurrentDirection | str | int,
    device: Device | str | None = None,
) -> RNNOutputs:
    """RNN: a simple recurrent layer; its state h is f of the input and of the state before."""

def roi_align(
    input: Any,
    roi: Any,
    batch_indices: Any,
    *,
    reduction_function: ReduceFunction | str | int,
    interpolation_mode: InterpolationMode | str | int,
    spatial_scale_x: float | str | floating[Any] = 1.0,
    spatial_scale_y: float | str | floating[Any] = 1.0,
    out_of_bounds_input_value: float | str | floating[Any] = 0.0,
    minimum_samples_per_output: int | integer[Any],
    maximum_samples_per_output: int | integer[Any],
    output_sizes: Sequence[int],
    device: Device | str | None = None,
) -> Any:
    """ROI_ALIGN: samples each region of interest at output_height x output_width places."""

def roi_align1(
    input: Any,
    roi: Any,
    batch_indices: Any,
    *,
    reduction_function: ReduceFunction | str | int,
    interpolation_mode: InterpolationMode | str | int,
    spatial_scale_x: float | str | floating[Any] = 1.0,
    spatial_scale_y: float | str | floating[Any] = 1.0,
    input_pixel_offset: float | str | floating[Any] = 0.5,
    output_pixel_offset: float | str | floating[Any] = -0.5,
    out_of_bounds_input_value: float | str | floating[Any] = 0.0,
    minimum_samples_per_output: int | integer[Any],
    maximum_samples_per_output: int | integer[Any],
    align_regions_to_corners: bool | bool_ = False,
    output_sizes: Sequence[int],
    device: Device | str | None = None,
) -> Any:
    """ROI_ALIGN1: as ROI_ALIGN, with explicit offsets, and samples that may reach the region's corners."""

class ROIAlignGradOutputs(NamedTuple):
    gradient: Any
    roi_gradient: Any

def roi_align_grad(
    input_gradient: Any,
    roi: Any,
    batch_indices: Any,
    input: Any | None = None,
    *,
    reduction_function: ReduceFunction | str | int,
    interpolation_mode: InterpolationMode | str | int,
    spatial_scale_x: float | str | floating[Any] = 1.0,
    spatial_scale_y: float | str | floating[Any] = 1.0,
    input_pixel_offset: float | str | floating[Any] = 0.5,
    output_pixel_offset: float | str | floating[Any] = -0.5,
    minimum_samples_per_output: int | integer[Any],
    maximum_samples_per_output: int | integer[Any],
    align_regions_to_corners: bool | bool_ = False,
    output_sizes: Sequence[int] | None = None,
    device: Device | str | None = None,
) -> ROIAlignGradOutputs:
    """ROI_ALIGN_GRAD: the gradients of ROI_ALIGN1 for the images, for the regions, or for both."""

def roi_pooling(
    input: Any,
    roi: Any,
    *,
    spatial_scale: float | str | floating[Any] = 1.0,
    pooled_size: Size2D | Mapping[str, Any],
    device: Device | str | None = None,
) -> Any:
    """ROI_POOLING: the maximum of each part of each region of interest."""

def scatter(
    input: Any,
    indices: Any,
    updates: Any,
    *,
    axis: int | integer[Any],
    device: Device | str | None = None,
) -> Any:
    """SCATTER: copies a tensor and replaces single elements along an axis, one for each index."""

def scatter_nd(
    input: Any,
    indices: Any,
    updates: Any,
    *,
    input_dimension_count: int | integer[Any],
    indices_dimension_count: int | integer[Any],
    device: Device | str | None = None,
) -> Any:
    """SCATTER_ND: copies a tensor and replaces blocks of it, one for each tuple of indices."""

def slice(
    input: Any,
    *,
    offsets: Sequence[int],
    slice_sizes: Sequence[int],
    strides: Sequence[int] | None = None,
    device: Device | str | None = None,
) -> Any:
    """SLICE: copies a window of a tensor, all its elements or one in every few."""

def slice1(
    input: Any,
    *,
    input_window_offsets: Sequence[int],
    input_window_sizes: Sequence[int],
    input_window_strides: Sequence[int] | None = None,
    device: Device | str | None = None,
) -> Any:
    """SLICE1: copies a window of a tensor, all its elements or one in every few, forwards or backwards."""

def slice_grad(
    input_gradient: Any,
    *,
    input_window_offsets: Sequence[int],
    input_window_sizes: Sequence[int],
    input_window_strides: Sequence[int] | None = None,
    output_sizes: Sequence[int],
    device: Device | str | None = None,
) -> Any:
    """SLICE_GRAD: the gradient of SLICE1's input: its output's gradient at the places copied from, else 0."""

def space_to_depth(
    input: Any,
    *,
    block_size: int | integer[Any],
    device: Device | str | None = None,
) -> Any:
    """SPACE_TO_DEPTH: moves blocks of the image into channels, the inverse of DEPTH_TO_SPACE."""

def space_to_depth1(
    input: Any,
    *,
    block_size: int | integer[Any],
    order: DepthSpaceOrder | str | int,
    device: Device | str | None = None,
) -> Any:
    """SPACE_TO_DEPTH1: moves blocks of the image into channels, the inverse of DEPTH_TO_SPACE1."""

def split(
    input: Any,
    *,
    axis: int | integer[Any],
    output_axis_sizes: Sequence[int],
    device: Device | str | None = None,
) -> tuple[Any, ...]:
    """SPLIT: cuts a tensor into parts along an axis, the inverse of JOIN."""

def tile(
    input: Any,
    *,
    repeats: Sequence[int],
    device: Device | str | None = None,
) -> Any:
    """TILE: repeats the whole input along each dimension."""

class TopKOutputs(NamedTuple):
    value: Any
    index: Any

def top_k(
    input: Any,
    *,
    axis: int | integer[Any],
    k: int | integer[Any],
    output_index_data_type: DataType | str | int | dtype[Any] | type[generic] | None = None,
    device: Device | str | None = None,
) -> TopKOutputs:
    """TOP_K: the k largest elements along an axis, the largest first, and their indices."""

class TopK1Outputs(NamedTuple):
    value: Any
    index: Any

def top_k1(
    input: Any,
    *,
    axis: int | integer[Any],
    k: int | integer[Any],
    axis_direction: AxisDirection | str | int = AxisDirection.DECREASING,
    output_index_data_type: DataType | str | int | dtype[Any] | type[generic] | None = None,
    device: Device | str | None = None,
) -> TopK1Outputs:
    """TOP_K1: the k largest or smallest elements along an axis, and their indices."""

def unfold(
    input: Any,
    *,
    window_sizes: Sequence[int],
    strides: Sequence[int] | None = None,
    dilations: Sequence[int] | None = None,
    start_padding: Sequence[int] | None = None,
    end_padding: Sequence[int] | None = None,
    device: Device | str | None = None,
) -> Any:
    """UNFOLD: copies sliding blocks of an image into columns. The transpose of FOLD."""

def upsample_2d(
    input: Any,
    *,
    scale_size: Size2D | Mapping[str, Any],
    interpolation_mode: InterpolationMode | str | int,
    device: Device | str | None = None,
) -> Any:
    """UPSAMPLE_2D: enlarges images, or volumes slice by slice, by whole factors."""

def value_scale_2d(
    input: Any,
    *,
    scale: float | str | floating[Any],
    bias: Sequence[float],
    device: Device | str | None = None,
) -> Any:
    """VALUE_SCALE_2D: multiplies the values of images by a factor and adds a number for each channel."""

__all__ = [
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
    "constant_pow",
    "convolution",
    "convolution_integer",
    "cos",
    "cosh",
    "cudnn_rnn_backprop_v3",
    "cudnn_rnn_v3",
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
    "fused_batch_norm_grad_v3",
    "fused_batch_norm_v3",
    "gather",
    "gather_elements",
    "gather_nd",
    "gather_nd1",
    "gemm",
    "gru",
    "gru_block_cell",
    "gru_block_cell_grad",
    "gru_grad",
    "gru_training",
    "identity",
    "if_",
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
    "lstm_grad",
    "lstm_training",
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
    "negate",
    "nonzero_coordinates",
    "one_hot",
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
    "rnn_grad",
    "rnn_training",
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
    "threshold",
    "tile",
    "top_k",
    "top_k1",
    "unfold",
    "upsample_2d",
    "value_scale_2d",
]
