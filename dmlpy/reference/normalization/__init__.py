"""What the normalization operators compute."""

from dmlpy.reference.normalization import local_response, lp, mean_variance

__all__ = ["local_response", "lp", "mean_variance"]
