"""The CUDA device: the kernels of `raw_kernels/`, launched through one seam. CuPy is imported when a GPU is first asked for."""

from dmlpy.devices.cuda.device import CudaDevice

__all__ = ["CudaDevice"]
