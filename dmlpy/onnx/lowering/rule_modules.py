"""The module of `dmlpy.onnx.lowering.rules` that lowers each operator: a model imports those of its operators alone."""

from __future__ import annotations

from collections import defaultdict

from dmlpy.onnx.loading.schemas import MICROSOFT, OWN

_OPERATORS = {
    "": {
        "activations": """
            Celu Elu Gelu HardSigmoid HardSwish Hardmax LeakyRelu LogSoftmax Mish PRelu Relu Selu Shrink Sigmoid Softmax
            Softplus Softsign Swish Tanh ThresholdedRelu
        """,
        "attention": "Attention RotaryEmbedding TensorScatter",
        "convolutions": "Conv ConvTranspose",
        "einsum": "Einsum",
        "elementwise": """
            Abs Acos Acosh Add And Asin Asinh Atan Atanh BitCast BitShift BitwiseAnd BitwiseNot BitwiseOr BitwiseXor Cast
            CastLike Ceil Clip Cos Cosh Div Dropout Equal Erf Exp Floor Greater GreaterOrEqual Identity IsInf IsNaN Less
            LessOrEqual Log Max Mean Min Mod Mul Neg Not Or Pow Reciprocal Round Sign Sin Sinh Sqrt Sub Sum Tan Where Xor
        """,
        "fourier": "DFT STFT",
        "indexing": """
            Compress EyeLike Gather GatherElements GatherND NonZero OneHot ReverseSequence Scatter ScatterElements ScatterND
            TensorScatter Trilu
        """,
        "matrices": "Gemm MatMul",
        "microsoft_fused": "SimplifiedLayerNormalization",
        "movement": "Col2Im Concat ConstantOfShape DepthToSpace Expand Pad Range Slice SpaceToDepth Split Tile",
        "normalizations": """
            BatchNormalization GroupNormalization InstanceNormalization LRN LayerNormalization LpNormalization
            MeanVarianceNormalization RMSNormalization
        """,
        "pooling": "AveragePool GlobalAveragePool GlobalLpPool GlobalMaxPool LpPool MaxPool MaxRoiPool MaxUnpool",
        "quantized": "DequantizeLinear DynamicQuantizeLinear QuantizeLinear",
        "quantized_products": "ConvInteger MatMulInteger QLinearConv QLinearMatMul",
        "recurrent": "GRU LSTM RNN",
        "reductions": """
            ArgMax ArgMin CumProd CumSum ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin
            ReduceProd ReduceSum ReduceSumSquare TopK
        """,
        "regions": "RoiAlign",
        "removed": "Affine Crop ImageScaler ParametricSoftplus Scale ScaledTanh",
        "resizing": "Resize Upsample",
        "sampling": "AffineGrid DeformConv GridSample",
        "views": "Flatten Reshape Squeeze Transpose Unsqueeze",
    },
    MICROSOFT: {
        "microsoft_attention": "Attention MultiHeadAttention QAttention",
        "microsoft_fused": """
            BiasAdd BiasGelu BiasSplitGelu ConvTransposeWithDynamicPads EmbedLayerNormalization FastGelu FusedMatMul
            FusedMatMulActivation Gelu GroupNorm MRotaryEmbedding NhwcConv QuickGelu RotaryEmbedding
            SimplifiedLayerNormalization SkipLayerNormalization SkipSimplifiedLayerNormalization TransposeMatMul
        """,
        "microsoft_grouped": "GroupQueryAttention",
        "microsoft_linear": "QGemm QLinearLeakyRelu QLinearReduceMean QLinearSoftmax QLinearWhere",
        "microsoft_products": "FusedConv FusedGemm",
        "microsoft_quantized": """
            DynamicQuantizeMatMul MatMulBnb4 MatMulIntegerToFloat MatMulNBits QLinearAdd QLinearAveragePool QLinearConcat
            QLinearGlobalAveragePool QLinearMul QLinearSigmoid
        """,
        "quantized": "DequantizeLinear QuantizeLinear",
    },
    OWN: {"microsoft_quantized": "QLinearAdd"},
}
"""The operators by domain and module. One that several modules lower, in different opsets, is named for each."""


def _modules() -> dict[tuple[str, str], tuple[str, ...]]:
    modules: dict[tuple[str, str], tuple[str, ...]] = defaultdict(tuple)
    for domain, families in _OPERATORS.items():
        for module, operators in families.items():
            for operator in operators.split():
                modules[domain, operator] += (module,)
    return dict(modules)


RULE_MODULES = _modules()
"""The modules by the domain and name of an operator."""
