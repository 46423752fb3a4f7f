"""MULTIHEAD_ATTENTION and MULTIHEAD_ATTENTION1 over the kernels of raw_kernels/attention/.

`attend_halves` or `attend_floats`, or `attend` for large heads, computes the output from the tensors in place, including stacked ones.
Where blocks have parts of the keys, they write partial results, which `combine` merges. `finish` writes the present keys and values, and
computes rows anew that keys have made NaN which these rows leave out. The
scratch holds past sequence lengths converted to the kernels' type, and partial results.
"""

from __future__ import annotations

from functools import partial
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.description.enums import MultiheadAttentionMaskType
from dmlpy.devices.axes import repeated
from dmlpy.devices.cost import Cost
from dmlpy.devices.cuda.attention.division import (
    MOST_BLOCKS,
    PARAMETERS,
    Division,
    Work,
    combine_kernel,
    finish_kernel,
)
from dmlpy.devices.cuda.common.element_engine import Elementwise, View
from dmlpy.devices.cuda.common.tile_products import WIDE_BYTES, multiplication
from dmlpy.devices.cuda.kernels import ALIGNMENT, Kernel, KernelLibrary
from dmlpy.devices.cuda.movement.copies import COPY
from dmlpy.devices.cuda.performance.autotuning import TunablePlan
from dmlpy.devices.cuda.performance.gpu_model import CAPTURED_LAUNCH_US, GpuModel, factors_of
from dmlpy.devices.flops import flops_of
from dmlpy.devices.plan import Launch, PlanWithoutConstants, Pointers, in_order
from dmlpy.messages.naming import plural
from dmlpy.messages.problems import DeviceError
from dmlpy.reference.attention import leaves_keys_out

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from dmlpy.description.tensors import TensorDesc
    from dmlpy.devices.cuda.plans import Target
    from dmlpy.devices.plan import Plan
    from dmlpy.operators.attention import AttentionDesc

_MOST = 2**30
"""An exclusive limit of queries, keys and elements of a head: their numbers, rounded up to whole tiles, fit in 32 bits."""
_MOST_ROW_STRIDE = 2**24
"""An exclusive limit of the distance of keys in elements: offsets within a tile fit in 32 bits."""
_MOST_PLACE = 2**31 - 1
"""The most that a key's place among the masks or position biases of a row may be where kernels count it in 32 bits."""
_RESULT = 8
"""The number of values' sums in a partial result is a multiple of this."""
_STATE = 4
"""Numbers of a partial result beside sums of values: `State` of the kernels."""
_WARP = 32

# The place of each part in a stacked tensor, by field.
_STACKED = {
    "stacked_query_key_tensor": {"query": 0, "key": 1},
    "stacked_key_value_tensor": {"key": 0, "value": 1},
    "stacked_query_key_value_tensor": {"query": 0, "key": 1, "value": 2},
}


class AttentionPlan(PlanWithoutConstants, TunablePlan):
    """One launch for the output, and one for the present tensors if there are any.

    Args:
        desc: a checked desc.
        library: the device's kernels.
        variant: the number of the division among those that the model ranks first; None takes the first.

    Raises:
        DeviceError: there are more queries, keys or elements of a head than kernels can index, or a kernel cannot be compiled.
    """

    def __init__(self, desc: AttentionDesc, library: KernelLibrary, variant: int | None = None) -> None:
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
        group_heads, keys = self._heads // self._groups, self._past + self._fresh
        sizes = self._sizes["key"], self._sizes["value"]
        work = Work(self._batch, self._groups, group_heads, self._queries, keys, *sizes, self._is_far(keys))
        self._rows, self._group_heads = work.rows, group_heads
        aligned = dict.fromkeys(desc.tensors(), ALIGNMENT)
        plains = (True, False) if self._is_plain(aligned) else (False,)
        ranked = {plain: Division.variants(work, self._type, library.limits, plain=plain) for plain in plains}
        self._divisions = {plain: divisions[min(variant or 0, len(divisions) - 1)] for plain, divisions in ranked.items()}
        """The division of plain attention, where tensors lie as it needs, and the one for all addresses."""
        self._parts = [division.parts for division in next(iter(ranked.values()))] if variant is None else []
        self._leaves_out = leaves_keys_out(desc)
        self._keeps = desc.output_present_key_tensor is not None or desc.output_present_value_tensor is not None
        self._conversion = self._converted_lengths()
        self._lengths_size = 0 if self._conversion is None else _aligned(self._batch * 4)
        self._all_rows = self._batch * self._groups * self._rows
        parts = max(division.result_parts for division in self._divisions.values())
        self._results_size, states_size = (
            _aligned(parts * self._all_rows * width * 4) for width in (_aligned(self._sizes["value"], _RESULT), _STATE)
        )
        self.temporary_size = self._lengths_size + self._results_size + states_size
        library.functions(self._kernels())

    @property
    def kernel_file(self) -> str:
        return self._division.kernel.file

    def variants(self) -> Mapping[str, Callable[[], Plan]]:
        return {
            f"{plural(parts, 'part')} of the keys": partial(AttentionPlan, self._desc, self._library, number)
            for number, parts in enumerate(self._parts)
        }

    def _converted_lengths(self) -> Elementwise | None:
        """The step that converts past sequence lengths of another type to 32-bit integers."""
        lengths = getattr(self._desc, "past_sequence_lengths_tensor", None)
        if lengths is None or lengths.data_type.numpy == np.int32:
            return None
        given = View.of("past_sequence_lengths_tensor", lengths)
        packed = View("lengths", "int", (*(0,) * (lengths.dimension_count - 1), 1))
        return Elementwise(COPY, lengths.sizes, packed, [given])

    def _is_far(self, keys: int) -> bool:
        """Whether the masks or position biases of a row lie too far from each other for kernels that count in 32 bits."""
        added = (self._desc.relative_position_bias_tensor, self._desc.mask_tensor)
        return any(tensor is not None and keys * tensor.element_strides[-1] > _MOST_PLACE for tensor in added)

    @property
    def _division(self) -> Division:
        """The expected one: `bind`, which knows addresses, may need the other."""
        return next(iter(self._divisions.values()))

    def _kernels(self) -> list[Kernel]:
        """All kernels that it is expected to launch."""
        conversion = [] if self._conversion is None else [self._conversion.kernel()]
        combined = [combine_kernel(self._type)] if self._division.result_parts else []
        kept = [finish_kernel(self._type)] if self._keeps or self._leaves_out else []
        return [*conversion, self._division.kernel, *combined, *kept]

    def _is_plain(self, tensors: Pointers) -> bool:
        """Whether there is nothing but queries, keys and values, whose elements can be loaded 16 bytes at a time."""
        desc = self._desc
        added = (desc.mask_tensor, desc.bias_tensor, desc.relative_position_bias_tensor)
        return added == (None,) * 3 and all(self._wide(self._source(part, size, tensors), size) for part, size in self._sizes.items())

    def describe(self) -> str:
        heads = f"{self._heads} heads" if self._heads == self._groups else f"{self._heads} heads, {self._groups} of keys and values"
        keys = f"{self._past + self._fresh} keys" + (f", {self._past} of them earlier" if self._past else "")
        return (
            f"CUDA, {self._library.limits.name}, {self._type} data, float32 arithmetic\n"
            f"{self._batch} batch entries, {heads}, {self._queries} queries and {keys}\n"
            f"{self._blocks()}, products {self._products()}\n"
            f"kernels: {', '.join(kernel.entry for kernel in self._kernels())}"
        )

    def _blocks(self) -> str:
        """The share of a block, in words."""
        division = self._division
        if division.is_of_any:
            return f"blocks of {division.rows} queries and {division.columns} elements of a head's values"
        keys = f"one of {division.parts} parts of the keys" if division.parts > 1 else "all keys"
        return f"blocks of {division.rows} queries of heads that share keys, and {keys}"

    def _products(self) -> str:
        """How elements are multiplied."""
        return multiplication(self._type if self._division.on_tensor_cores else np.dtype(np.float32), self._library.limits)

    def cost(self) -> Cost:
        division = self._division
        gpu = GpuModel.of(self._library.limits)
        moved = sum(tensor.element_count * tensor.data_type.numpy.itemsize for tensor in self._desc.tensors().values())
        output, flops = self._desc.output_tensor, flops_of(self._desc) or 0
        assert output is not None
        others = len(self._kernels()) - (1 if division.is_of_any or not division.result_parts else 2)
        work_us = gpu.gemm_us(flops, 0, "float") if division.is_of_any else division.us
        return Cost(
            floor_us=max(gpu.memory_us(moved), gpu.product_us(flops, factors_of(output))),
            estimate_us=max(gpu.memory_us(moved), work_us) + CAPTURED_LAUNCH_US * (1 + others),
        )

    def bind(self, tensors: Pointers, temporary: int, persistent: int | None) -> Launch:
        desc, argument = self._desc, np.zeros(1, PARAMETERS)
        lengths = getattr(desc, "past_sequence_lengths_tensor", None)
        launches: list[Launch] = []
        for part, size in self._sizes.items():
            argument[part] = self._source(part, size, tensors)
            argument[part]["wide"] = self._wide(argument[part][0], size)
            if part != "query":
                present = f"output_present_{part}_tensor"
                argument[f"present_{part}"] = _last_four(getattr(desc, present), tensors.get(present))
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
        argument["wide_output"] = self._stores_wide(argument["output"][0])
        argument["scale"], argument["filter_value"] = desc.scale, desc.mask_filter_value
        division = self._divisions[True in self._divisions and self._is_plain(tensors)]
        self._fill_counts(argument, division)
        if division.result_parts:
            argument["part_results"] = temporary + self._lengths_size
            argument["part_states"] = temporary + self._lengths_size + self._results_size
        blocks = min(division.tiles, MOST_BLOCKS)
        launches.append(self._library.launch(division.kernel, (blocks,), division.threads, argument, division.shared_bytes))
        if division.result_parts:
            launches.append(self._library.launch_elements(combine_kernel(self._type), self._all_rows * _WARP, argument))
        if self._keeps or self._leaves_out:
            rows = max(argument["present_rows"].item(), argument["mended_rows"].item())
            launches.append(self._library.launch_elements(finish_kernel(self._type), rows * _WARP, argument))
        return in_order(launches)

    def _fill_counts(self, argument: Any, division: Division) -> None:
        argument["tiles"], argument["query_tiles"], argument["value_tiles"] = division.tiles, division.query_tiles, division.value_tiles
        argument["parts"], argument["result_parts"] = division.parts, division.result_parts
        argument["all_rows"], argument["rows"], argument["group_heads"] = self._all_rows, self._rows, self._group_heads
        argument["present_rows"] = self._batch * self._groups * self._total if self._keeps else 0
        argument["mended_rows"] = self._batch * self._heads * self._queries if self._leaves_out else 0
        argument["heads"], argument["groups"], argument["queries"] = self._heads, self._groups, self._queries
        argument["most_valid"], argument["fresh"], argument["total"] = min(self._past, self._total - self._fresh), self._fresh, self._total

    def _source(self, part: str, size: int, tensors: Pointers) -> Any:
        """A part's tensors as a kernel's `Source`, without its bias."""
        source = np.zeros((), PARAMETERS[part])
        source["fresh"], source["size"] = self._fresh_part(part, size, tensors), size
        if part != "query":
            source["past"] = _last_four(getattr(self._desc, f"past_{part}_tensor"), tensors.get(f"past_{part}_tensor"))
        return source

    def _wide(self, source: Any, size: int) -> bool:
        """Whether the elements of a part can be loaded 16 bytes at a time in every row, and places within a tile fit in 32 bits."""
        starts = [size]
        for name, place in (("past", 2), ("fresh", 1)):
            data, strides = int(source[name]["data"]), [int(stride) for stride in source[name]["strides"]]
            if data and (strides[3] != 1 or strides[place] >= _MOST_ROW_STRIDE):
                return False
            starts += [data // self._type.itemsize, *strides[:3]]
        return all(start * self._type.itemsize % WIDE_BYTES == 0 for start in starts)

    def _stores_wide(self, output: Any) -> bool:
        """Whether all elements of the output can be stored 16 bytes at a time."""
        data, strides = int(output["data"]), [int(stride) for stride in output["strides"]]
        starts = [self._sizes["value"], data // self._type.itemsize, *strides[:3]]
        return strides[3] == 1 and all(start * self._type.itemsize % WIDE_BYTES == 0 for start in starts)

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


def _aligned(size: int, multiple: int = ALIGNMENT) -> int:
    return -(-size // multiple) * multiple


def _last_four(tensor: TensorDesc | None, pointer: int | None) -> tuple[int, Sequence[int]]:
    """The last four dimensions of a tensor, which repeats along those of size 1; absent without a tensor."""
    if tensor is None or pointer is None:
        return 0, (0, 0, 0, 0)
    assert prod(tensor.sizes[:-4]) == 1
    strides = repeated(tensor.sizes, tensor.element_strides)[-4:]
    return pointer, (0,) * (4 - len(strides)) + strides


def attention_plan(desc: AttentionDesc, target: Target) -> AttentionPlan:
    return AttentionPlan(desc, target.library)
