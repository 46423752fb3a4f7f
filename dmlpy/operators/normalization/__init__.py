"""The operators that normalize: batch normalization as DirectML and as TensorFlow describe it."""

from dmlpy.operators.normalization import batch, fused_batch

__all__ = ["batch", "fused_batch"]
