"""The kernels of gradient.cu and gradient_results.cu in raw_kernels/recurrent/, and the structs that they take."""

from __future__ import annotations

from typing import Any

import numpy as np

from dmlpy.devices.cuda.kernels import STRIDED, Kernel, scalar_type, struct
from dmlpy.devices.cuda.recurrent.common import LAYER

STEPS = struct(
    ("sequence_lengths", STRIDED),
    ("step_mask", STRIDED),
    ("unmasked", np.uint64),
    ("seq_length", np.int32),
    ("batch_size", np.int32),
)
SEQUENCE = struct(
    *LAYER,
    ("steps", STEPS),
    ("saved", np.uint64),
    ("hidden", np.uint64),
    ("memory", np.uint64),
    ("peephole", STRIDED),
    ("output_sequence_gradient", STRIDED),
    ("output_single_gradient", STRIDED),
    ("output_cell_single_gradient", STRIDED),
    ("gate_gradients", np.uint64),
    ("state_size", np.int32),
)
PERSISTENT_BLOCK = struct(
    ("sequence", SEQUENCE),
    ("recurrence", np.uint64),
    ("hidden_init_gradient", STRIDED),
    ("cell_mem_init_gradient", STRIDED),
)
STEP = struct(
    ("sequence", SEQUENCE),
    ("state_dropout", STRIDED),
    ("hidden_gradient", np.uint64),
    ("memory_gradient", np.uint64),
    ("products", np.uint64),
    ("reset_product", np.uint64),
    ("state_gradients", np.uint64),
    ("projected_gradient", np.uint64),
    ("hidden_init_gradient", STRIDED),
    ("cell_mem_init_gradient", STRIDED),
    ("num_products", np.int64),
    ("step", np.int64),
)
OPERAND = struct(("source", STRIDED), ("multiplier", STRIDED), ("steps", STEPS), ("destination", np.uint64), ("columns", np.int64))
REBUILD = struct(("sequence", SEQUENCE), ("multiplier", STRIDED), ("destination", np.uint64), ("direction", np.int64))
SUM_PRODUCTS = struct(
    ("product", np.uint64),
    ("multiplier", STRIDED),
    ("sum", np.uint64),
    ("count", np.int64),
    ("batch_size", np.int64),
    ("input_size", np.int64),
    ("is_first", np.int64),
)
CLEAR_SKIPPED_PARAMETERS = struct(("steps", STEPS), ("values", np.uint64), ("columns", np.int64), ("stride", np.int64))
UNPACK = struct(
    ("source", np.uint64),
    ("destination", STRIDED),
    ("parts", np.uint64),
    ("sizes", np.int64, (4,)),
    ("num_parts", np.int32),
)
LARGEST = struct(("values", np.uint64), ("parts", np.uint64), ("count", np.int64))
NARROW = struct(
    ("source", np.uint64),
    ("destination", np.uint64),
    ("parts", np.uint64),
    ("count", np.int64),
    ("num_parts", np.int32),
)
SUM = struct(
    ("gate_gradients", np.uint64),
    ("memory", np.uint64),
    ("partial", np.uint64),
    ("output", STRIDED),
    ("steps", STEPS),
    ("chunk_rows", np.int64),
    ("num_chunks", np.int64),
    ("seq_length", np.int32),
    ("batch_size", np.int32),
    ("num_directions", np.int32),
    ("hidden_size", np.int32),
    ("rows", np.int32),
    ("gates", np.int32),
    ("backward", np.int32, (2,)),
)

RECURRENCE_FILE, RESULTS = "recurrent/gradient.cu", "recurrent/gradient_results.cu"

_KERNELS = {
    "collect": (RECURRENCE_FILE, STEP, "StepParameters"),
    "step": (RECURRENCE_FILE, STEP, "StepParameters"),
    "reset": (RECURRENCE_FILE, STEP, "StepParameters"),
    "finish": (RECURRENCE_FILE, STEP, "StepParameters"),
    "rebuild": (RESULTS, REBUILD, "RebuildParameters"),
    "sum_products": (RESULTS, SUM_PRODUCTS, "SumProductsParameters"),
    "unpack": (RESULTS, UNPACK, "UnpackParameters"),
    "sum_rows": (RESULTS, SUM, "SumParameters"),
    "sum_chunks": (RESULTS, SUM, "SumParameters"),
}


def gradient_kernel(name: str, data_type: np.dtype[Any], *types: str) -> Kernel:
    """A kernel of one element type; `types` are the C++ types that follow it: cell and activations, or the type of the sums."""
    file, parameters, parameter_struct = _KERNELS[name]
    scalar = scalar_type(data_type)
    entry = f"{name}<{', '.join((scalar, *types))}>"
    return Kernel(file, entry, parameters, f"{parameter_struct}<{scalar}>")


def persistent_block_kernel(data_type: np.dtype[Any], samples: int, cell: str, forward: str, backward: str) -> Kernel:
    """The kernel `persistent_block` for slices of `samples`."""
    scalar = scalar_type(data_type)
    entry = f"persistent_block<{scalar}, {samples}, {cell}, {forward}, {backward}>"
    return Kernel(RECURRENCE_FILE, entry, PERSISTENT_BLOCK, f"PersistentBlockParameters<{scalar}>", dynamic_shared=True)


def operand_kernel(source: np.dtype[Any], data_type: np.dtype[Any]) -> Kernel:
    """The kernel `operand` for a source and a multiplier of these types."""
    types = f"<{scalar_type(source)}, {scalar_type(data_type)}>"
    return Kernel(RESULTS, f"operand{types}", OPERAND, f"OperandParameters{types}")


def find_largest_kernel(width: int) -> Kernel:
    """The kernel `find_largest`, for this many values at a time."""
    return Kernel(RESULTS, f"find_largest<{width}>", LARGEST, "LargestParameters")


def narrow_kernel(data_type: np.dtype[Any], width: int) -> Kernel:
    """The kernel `narrow` to a type of 2 bytes, for this many values at a time."""
    scalar = scalar_type(data_type)
    return Kernel(RESULTS, f"narrow<{scalar}, {width}>", NARROW, f"NarrowParameters<{scalar}>")


CLEAR_SKIPPED = Kernel(RESULTS, "clear_skipped<>", CLEAR_SKIPPED_PARAMETERS, "ClearSkippedParameters")
FIND_UNMASKED = Kernel(RECURRENCE_FILE, "find_unmasked<>", STEPS, "Steps")
