"""Kernels that other kernels call by their addresses, so that they are compiled once for all of them."""

from __future__ import annotations

from dmlpy.devices.cpu.jit import Kernel

TAKE = Kernel("dmlpy.devices.cpu.thread_pool_kernels:taking_of", 6, returns=True)
"""What takes an item of a phase, for several threads."""
PRODUCT = Kernel("dmlpy.devices.cpu.small_products:product_of", 8)
"""`Vectors.product`: how many vectors, whether the factors lie by terms, and the registers."""
GATE_PRODUCTS = Kernel("dmlpy.devices.cpu.small_products:gate_products_of", 9)
"""The products of a cell's gates: how many there are, how many are summed together, and the registers."""
FILL = Kernel("dmlpy.devices.cpu.convolution.gather_kernels:filling_of", 5)
"""What copies a part of an image: whether of FLOAT16, and the registers."""
