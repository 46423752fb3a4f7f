"""MULTIHEAD_ATTENTION and MULTIHEAD_ATTENTION1 over the kernels of raw_kernels/attention/.

`attend`, or `attend_halves` on tensor cores, computes the output from the tensors in place, including stacked ones,
and `keep` writes the present keys and values. The scratch holds past sequence lengths converted to the kernels' type.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.description.enums import MultiheadAttentionMaskType
from dmlpy.devices.axes import repeated
from dmlpy.devices.cost import Cost
from dmlpy.devices.cuda.element_engine import Elementwise, View
from dmlpy.devices.cuda.gpu_model import CAPTURED_LAUNCH_US, GpuModel, factors_of
from dmlpy.devices.cuda.kernels import ALIGNMENT, STRIDED, Kernel, KernelLibrary, scalar_type, struct
from dmlpy.devices.cuda.movement.copies import COPY
from dmlpy.devices.cuda.tile_products import TILE_THREADS, WIDE_BYTES, multiplication
from dmlpy.devices.flops import flops_of
from dmlpy.devices.plan import Launch, PlanWithoutConstants, Pointers, in_order
from dmlpy.messages.problems import DeviceError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from dmlpy.description.tensors import TensorDesc
    from dmlpy.devices.cuda.gpu_model import Arithmetic
    from dmlpy.devices.cuda.plans import Target
    from dmlpy.operators.attention import AttentionDesc

FILE = "attention/forward.cu"
TENSOR_CORES_FILE = "attention/tensor_cores.cu"

_SOURCE = struct(
    ("past", STRIDED), ("fresh", STRIDED), ("bias", np.uint64), ("bias_stride", np.int64), ("size", np.int32), ("wide", np.int32)
)
_LIMIT = struct(("data", np.uint64), ("stride", np.int64))

PARAMETERS = struct(
    *((name, _SOURCE) for name in ("query", "key", "value")),
    ("position_bias", STRIDED),
    ("mask", STRIDED),
    *((name, _LIMIT) for name in ("ends", "starts", "past_lengths")),
    *((name, STRIDED) for name in ("output", "present_key", "present_value")),
    ("tiles", np.int64),
    ("present_rows", np.int64),
    *((name, np.int32) for name in ("query_tiles", "value_tiles", "heads", "groups", "queries", "most_valid", "fresh", "total")),
    ("scale", np.float32),
    ("filter_value", np.float32),
)

_LANES, _THREADS = 16, 256
"""Threads along a row of a block, and in total: `lanes` and `attend_threads` of the kernel."""
ROWS, COLUMNS = (1, 4), (4, 8)
"""Queries, and elements of a value, that a thread of `attend` owns: the second if there are more than 16 times the first."""
HALVES = {64: 64, 128: 32}
"""Of `attend_halves`: elements of a value in a block, and for each number the keys of one iteration."""
_HALVES_QUERIES = 64
"""Its queries of a block."""
LEAST_HALVES_QUERIES = 17
"""The fewest queries for which tensor cores are used: fewer leave most of a block's warps idle. Estimated, not measured."""
_MOST = 2**30
"""An exclusive limit of queries, keys and elements of a head: their numbers, rounded up to whole tiles, fit in 32 bits."""
_MOST_BLOCKS = 2**31 - 1
_WARP = 32

# The place of each part in a stacked tensor, by field.
_STACKED = {
    "stacked_query_key_tensor": {"query": 0, "key": 1},
    "stacked_key_value_tensor": {"key": 0, "value": 1},
    "stacked_query_key_value_tensor": {"query": 0, "key": 1, "value": 2},
}


def attend_kernel(data_type: np.dtype[Any], rows: int, columns: int) -> Kernel:
    """The kernel whose threads own so many queries and elements of their results."""
    scalar = scalar_type(data_type)
    return Kernel(FILE, f"attend<{scalar}, {rows}, {columns}>", PARAMETERS, f"AttentionParameters<{scalar}>")


def halves_kernel(columns: int) -> Kernel:
    """The kernel on tensor cores whose blocks own so many elements of the values."""
    return Kernel(TENSOR_CORES_FILE, f"attend_halves<{columns}, {HALVES[columns]}>", PARAMETERS, "AttentionParameters<half>")


def keep_kernel(data_type: np.dtype[Any]) -> Kernel:
    """The kernel that writes present keys and values."""
    scalar = scalar_type(data_type)
    return Kernel(FILE, f"keep<{scalar}>", PARAMETERS, f"AttentionParameters<{scalar}>")


class AttentionPlan(PlanWithoutConstants):
    """One launch for the output, and one for the present tensors if there are any.

    Args:
        desc: a checked desc.
        library: the device's kernels.

    Raises:
        DeviceError: there are more queries, keys or elements of a head than kernels can index, or a kernel cannot be compiled.
    """

    def __init__(self, desc: AttentionDesc, library: KernelLibrary) -> None:
        assert desc.output_tensor is not None
        self._desc, self._library = desc, library
        self._batch, self._queries = desc.output_tensor.sizes[-3:-1]
        self._heads, self._groups = (getattr(desc, name) for name in desc.head_counts)
        self._past, self._fresh, self._total = desc.key_lengths
        self._sizes = dict(zip(("query", "key", "value"), (desc.head_sizes[0], *desc.head_sizes), strict=True))
        largest = max(self._queries, self._past + self._fresh, self._total, *self._sizes.values())
        if largest >= _MOST:
            raise DeviceError(f"attention of {largest} queries, keys or elements of a head: at most {_MOST - 1}")
        self._type = desc.output_tensor.data_type.numpy
        self._kernel, self._threads, self._tile = self._chosen()
        self._query_tiles, self._value_tiles = -(-self._queries // self._tile[0]), -(-self._sizes["value"] // self._tile[1])
        self._keeps = desc.output_present_key_tensor is not None or desc.output_present_value_tensor is not None
        self._conversion = self._converted_lengths()
        self.temporary_size = 0 if self._conversion is None else -(-self._batch * 4 // ALIGNMENT) * ALIGNMENT
        library.functions(self._kernels())

    def _chosen(self) -> tuple[Kernel, int, tuple[int, int]]:
        """The kernel of the output, its threads, and the queries and the values' elements of a block."""
        size = self._sizes["value"]
        if self._type == np.float16 and self._queries >= LEAST_HALVES_QUERIES:
            columns = min((columns for columns in HALVES if columns >= size), default=max(HALVES))
            return halves_kernel(columns), TILE_THREADS, (_HALVES_QUERIES, columns)
        rows, columns = ROWS[self._queries > _LANES * ROWS[0]], COLUMNS[size > _LANES * COLUMNS[0]]
        return attend_kernel(self._type, rows, columns), _THREADS, (_LANES * rows, _LANES * columns)

    def _converted_lengths(self) -> Elementwise | None:
        """The step that converts past sequence lengths of another type to 32-bit integers."""
        lengths = getattr(self._desc, "past_sequence_lengths_tensor", None)
        if lengths is None or lengths.data_type.numpy == np.int32:
            return None
        given = View.of("past_sequence_lengths_tensor", lengths)
        packed = View("lengths", "int", (*(0,) * (lengths.dimension_count - 1), 1))
        return Elementwise(COPY, lengths.sizes, packed, [given])

    def _kernels(self) -> list[Kernel]:
        """All kernels that it launches."""
        conversion = [] if self._conversion is None else [self._conversion.kernel()]
        kept = [keep_kernel(self._type)] if self._keeps else []
        return [*conversion, self._kernel, *kept]

    def describe(self) -> str:
        heads = f"{self._heads} heads" if self._heads == self._groups else f"{self._heads} heads, {self._groups} of keys and values"
        keys = f"{self._past + self._fresh} keys" + (f", {self._past} of them earlier" if self._past else "")
        return (
            f"CUDA, {self._library.limits.name}, {self._type} data, float32 arithmetic\n"
            f"{self._batch} batch entries, {heads}, {self._queries} queries and {keys}\n"
            f"blocks of {self._tile[0]} queries and {self._tile[1]} elements of a head's values, products {self._products()}\n"
            f"kernels: {', '.join(kernel.entry for kernel in self._kernels())}"
        )

    def _products(self) -> str:
        """The kernel of the output and the reason for it."""
        if self._kernel.file == TENSOR_CORES_FILE:
            return multiplication(self._type, self._library.limits)
        few = f": {self._queries} queries are too few for tensor cores" if self._type == np.float16 else ""
        return f"{multiplication(np.dtype(np.float32), self._library.limits)}{few}"

    def cost(self) -> Cost:
        arithmetic: Arithmetic = "half" if self._kernel.file == TENSOR_CORES_FILE else "float"
        gpu = GpuModel.of(self._library.limits)
        moved = sum(tensor.element_count * tensor.data_type.numpy.itemsize for tensor in self._desc.tensors().values())
        output, flops = self._desc.output_tensor, flops_of(self._desc) or 0
        assert output is not None
        return Cost(
            floor_us=max(gpu.memory_us(moved), gpu.product_us(flops, factors_of(output))),
            estimate_us=max(gpu.memory_us(moved), gpu.gemm_us(flops, 0, arithmetic)) + CAPTURED_LAUNCH_US * len(self._kernels()),
        )

    def bind(self, tensors: Pointers, temporary: int, persistent: int | None) -> Launch:
        desc, argument = self._desc, np.zeros(1, PARAMETERS)
        lengths = getattr(desc, "past_sequence_lengths_tensor", None)
        launches: list[Launch] = []
        for part, size in self._sizes.items():
            source = argument[part]
            source["fresh"], source["size"] = self._fresh_part(part, size, tensors), size
            if part != "query":
                source["past"] = _last_four(getattr(desc, f"past_{part}_tensor"), tensors.get(f"past_{part}_tensor"))
                present = f"output_present_{part}_tensor"
                argument[f"present_{part}"] = _last_four(getattr(desc, present), tensors.get(present))
            source["wide"] = self._wide(source[0], size)
        for part, (pointer, stride) in self._biases(tensors):
            argument[part]["bias"], argument[part]["bias_stride"] = pointer, stride
        bias = "relative_position_bias_tensor"
        argument["position_bias"] = _last_four(getattr(desc, bias), tensors.get(bias))
        self._fill_mask(argument, tensors)
        if self._conversion is not None:
            launches += self._conversion.bind(self._library, {**tensors, "lengths": temporary})
            argument["past_lengths"] = (temporary, 1)
        elif lengths is not None:
            argument["past_lengths"] = (tensors["past_sequence_lengths_tensor"], lengths.element_strides[-1])
        assert desc.output_tensor is not None
        argument["output"] = self._heads_of(desc.output_tensor, self._sizes["value"], tensors["output_tensor"])
        argument["tiles"] = tiles = self._query_tiles * self._value_tiles * self._heads * self._batch
        argument["present_rows"] = present_rows = self._batch * self._groups * self._total
        argument["query_tiles"], argument["value_tiles"] = self._query_tiles, self._value_tiles
        argument["heads"], argument["groups"], argument["queries"] = self._heads, self._groups, self._queries
        argument["most_valid"], argument["fresh"], argument["total"] = min(self._past, self._total - self._fresh), self._fresh, self._total
        argument["scale"], argument["filter_value"] = desc.scale, desc.mask_filter_value
        launches.append(self._library.launch(self._kernel, (min(tiles, _MOST_BLOCKS),), self._threads, argument))
        if self._keeps:
            launches.append(self._library.launch_elements(keep_kernel(self._type), present_rows * _WARP, argument))
        return in_order(launches)

    def _wide(self, source: Any, size: int) -> bool:
        """Whether the elements of a part can be loaded 16 bytes at a time in every row."""
        starts = [size]
        for name in ("past", "fresh"):
            data, strides = int(source[name]["data"]), [int(stride) for stride in source[name]["strides"]]
            if data and strides[3] != 1:
                return False
            starts += [data // self._type.itemsize, *strides[:3]]
        return all(start * self._type.itemsize % WIDE_BYTES == 0 for start in starts)

    @staticmethod
    def _heads_of(tensor: TensorDesc, size: int, pointer: int) -> tuple[int, tuple[int, ...]]:
        """A tensor whose heads are adjacent in the last dimension, as [B, length, heads, size]."""
        batch, place, element = tensor.element_strides[-3:]
        return pointer, (batch, place, size * element, element)

    def _fresh_part(self, part: str, size: int, tensors: Pointers) -> tuple[int, tuple[int, ...]]:
        """New queries, keys or values as [B, length, heads, size]; absent if the past holds them all."""
        alone: TensorDesc | None = getattr(self._desc, f"{part}_tensor")
        if alone is not None:
            return self._heads_of(alone, size, tensors[f"{part}_tensor"])
        for name, places in _STACKED.items():
            tensor: TensorDesc | None = getattr(self._desc, name)
            if tensor is not None and part in places:
                batch, place, head, layer, element = tensor.element_strides
                return tensors[name] + places[part] * layer * self._type.itemsize, (batch, place, head, element)
        return 0, (0, 0, 0, 0)

    def _biases(self, tensors: Pointers) -> Iterator[tuple[str, tuple[int, int]]]:
        """The address and stride of each part's bias: one after the other in one tensor."""
        bias = self._desc.bias_tensor
        if bias is None:
            return
        pointer, stride = tensors["bias_tensor"], bias.element_strides[-1]
        for part, size in self._sizes.items():
            yield part, (pointer, stride)
            pointer += (self._heads if part == "query" else self._groups) * size * stride * self._type.itemsize

    def _fill_mask(self, argument: Any, tensors: Pointers) -> None:
        mask = self._desc.mask_tensor
        if mask is None:
            return
        pointer = tensors["mask_tensor"]
        if self._desc.mask_type is MultiheadAttentionMaskType.BOOLEAN:
            argument["mask"] = _last_four(mask, pointer)
            return
        # The last dimension is the batch; of consecutive lengths, starts and ends the first ones are the lengths.
        stride = mask.element_strides[-1]
        argument["ends"] = (pointer, stride)
        if self._desc.mask_type is MultiheadAttentionMaskType.KEY_SEQUENCE_END_START:
            argument["starts"] = (pointer + mask.element_strides[-2] * mask.data_type.numpy.itemsize, stride)


def _last_four(tensor: TensorDesc | None, pointer: int | None) -> tuple[int, Sequence[int]]:
    """The last four dimensions of a tensor, which repeats along those of size 1; absent without a tensor."""
    if tensor is None or pointer is None:
        return 0, (0, 0, 0, 0)
    assert prod(tensor.sizes[:-4]) == 1
    strides = repeated(tensor.sizes, tensor.element_strides)[-4:]
    return pointer, (0,) * (4 - len(strides)) + strides


def attention_plan(desc: AttentionDesc, target: Target) -> AttentionPlan:
    return AttentionPlan(desc, target.library)
