"""TOP_K and TOP_K1 over raw_kernels/reduction/top_k.cu: selections, which reduce long lines to few entries, then sorts and merges."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.description.bfloat16_numbers import is_float
from dmlpy.description.enums import AxisDirection
from dmlpy.devices.axes import element_count, merged
from dmlpy.devices.cost import Cost
from dmlpy.devices.cuda.common.axes import axes_type, axes_value
from dmlpy.devices.cuda.common.division import power_of_two
from dmlpy.devices.cuda.kernels import ALIGNMENT, Kernel, KernelLibrary, scalar_type, struct
from dmlpy.devices.cuda.performance.gpu_model import CAPTURED_LAUNCH_US, GpuModel
from dmlpy.devices.plan import Launch, Layout, PlanWithoutConstants, Pointers, in_order
from dmlpy.messages.problems import DeviceError
from dmlpy.operators.reduction import TopK1Desc

if TYPE_CHECKING:
    from dmlpy.devices.cuda.plans import Target
    from dmlpy.operators.reduction import TopKDesc

NUMBERS = 2**31
"""Entries of a line and lines are fewer: a grid has a block for each line, and an index past the last entry has to fit too."""

MOST_SORTED = 1024
"""Entries that a block sorts: twice `most_sort_threads`."""

SELECT_THREADS = 256
"""`select_threads`."""

LEAST_SHARE = 8
"""The fewest entries of a segment for each selected one: with fewer, sorting is as fast."""

LEAST_SEGMENT = 4096
"""Entries of a segment, at least: with fewer, blocks have little to do."""

BLOCKS = 4
"""Blocks for each multiprocessor that lines are split into segments for."""

PARAMETERS = struct(
    ("x", np.uint64),
    ("values", np.uint64),
    ("indices", np.uint64),
    ("lines", axes_type(3)),
    ("strides", np.int64, (3,)),
    *((name, np.uint64) for name in ("keys", "numbers", "next_keys", "next_numbers")),
    ("pitch", np.int64),
    ("next_pitch", np.int64),
    ("flip", np.uint64),
    *((name, np.uint32) for name in ("line_count", "count", "k", "part", "parts")),
    ("across", np.int32),
    ("index_bytes", np.int32),
)

_UINT32 = np.dtype(np.uint32)


def top_k_kernel(name: str, data_type: np.dtype[Any]) -> Kernel:
    """An instance of `sort`, `select` or `merge`: integers of a size share it."""
    unsigned = {1: "unsigned char", 2: "unsigned short", 4: "unsigned", 8: "unsigned long long"}
    scalar = scalar_type(data_type) if is_float(data_type) else unsigned[data_type.itemsize]
    return Kernel("reduction/top_k.cu", f"{name}<{scalar}>", PARAMETERS, f"TopKParameters<{scalar}>", dynamic_shared=name == "sort")


@dataclass(frozen=True)
class Step:
    """A launch.

    Attributes:
        name: its kernel.
        count: entries of a line that it reads.
        part: entries of a segment or of a run.
        left: entries of a line that remain; 0 if it writes the results.
    """

    name: str
    count: int
    part: int
    left: int

    @property
    def parts(self) -> int:
        """Segments or runs of a line."""
        return -(-self.count // self.part)


def steps(length: int, k: int, lines: int, multiprocessors: int) -> list[Step]:
    """The launches that find the first `k` of `length` entries of each line."""
    result: list[Step] = []
    count = length
    while count > MOST_SORTED and LEAST_SHARE * k <= count:
        most = max(1, count // max(LEAST_SHARE * k, LEAST_SEGMENT))
        segment = -(-count // min(most, -(-BLOCKS * multiprocessors // lines)))
        full, rest = divmod(count, segment)
        left = full * k + min(k, rest)
        result.append(Step("select", count, segment, left))
        count = left
    run = min(count, MOST_SORTED)
    result.append(Step("sort", count, run, count if run < count else 0))
    while run < count:
        result.append(Step("merge", count, run, count if 2 * run < count else 0))
        run *= 2
    return result


class TopKPlan(PlanWithoutConstants):
    """Launches that exchange keys and indices in two buffers in turn.

    Args:
        desc: a checked desc.
        library: the device's kernels.

    Raises:
        DeviceError: there are more lines, or entries of a line, than kernels can index, or a kernel cannot be compiled.
    """

    def __init__(self, desc: TopKDesc, library: KernelLibrary) -> None:
        tensors = desc.tensors()
        x, values, indices = (tensors[name] for name in ("input_tensor", "output_value_tensor", "output_index_tensor"))
        self._library, self._k, self._type = library, desc.k, x.data_type.numpy
        self._index_bytes = indices.data_type.numpy.itemsize
        largest_first = not isinstance(desc, TopK1Desc) or desc.axis_direction is AxisDirection.DECREASING
        bits = 8 * self._type.itemsize
        signed = 1 << (bits - 1) if self._type.kind == "i" else 0
        self._flip = signed ^ ((1 << bits) - 1 if largest_first else 0)
        self._length = x.sizes[desc.axis]
        self._strides = tuple(tensor.element_strides[desc.axis] for tensor in (x, values, indices))
        sizes = [1 if axis == desc.axis else size for axis, size in enumerate(x.sizes)]
        self._lines = merged(sizes, [tensor.element_strides for tensor in (x, values, indices)])
        self._line_count = element_count(self._lines)
        for count, what in ((self._length, "entries of a line"), (self._line_count, "lines")):
            if count >= NUMBERS:
                raise DeviceError(f"{count} {what}: at most {NUMBERS - 1}")
        self._steps = steps(self._length, desc.k, self._line_count, library.limits.multiprocessors)
        self._across = bool(self._lines) and self._lines[-1].strides[0] < self._strides[0]
        key = np.dtype(np.uint64 if self._type.itemsize == 8 else np.uint32)
        self._pitches = [max((step.left for step in self._steps[turn::2]), default=0) for turn in range(2)]
        self._scratch = Layout(
            [
                (f"{name}{turn}", (self._line_count, pitch), dtype)
                for turn, pitch in enumerate(self._pitches)
                for name, dtype in (("keys", key), ("numbers", _UINT32))
            ],
            ALIGNMENT,
        )
        self._key_bytes = key.itemsize
        self.temporary_size = self._scratch.size
        library.functions(self._kernels())

    def _kernels(self) -> list[Kernel]:
        """The kernels of a launch, each once."""
        return [top_k_kernel(name, self._type) for name in dict.fromkeys(step.name for step in self._steps)]

    def describe(self) -> str:
        work = [
            f"{step.name} of {step.count} entries a line in {step.parts} {'segments' if step.name == 'select' else 'runs'}"
            for step in self._steps
        ]
        return (
            f"CUDA, {self._library.limits.name}, {self._type} data, exact arithmetic\n"
            f"{self._line_count} lines of {self._length} entries, of which {self._k} are taken: {', '.join(work)}\n"
            f"kernels: {', '.join(kernel.entry for kernel in self._kernels())}"
        )

    def cost(self) -> Cost:
        gpu, lines = GpuModel.of(self._library.limits), self._line_count
        floor = gpu.memory_us(lines * (self._length * self._type.itemsize + self._k * (self._type.itemsize + self._index_bytes)))
        between = sum(2 * lines * step.left * (self._key_bytes + _UINT32.itemsize) for step in self._steps)
        passes = self._type.itemsize + 1  # of a selection: one for each digit, and one that copies the selected entries
        again = sum((passes - 1) * lines * step.count * self._type.itemsize for step in self._steps if step.name == "select")
        traffic = {"keys and indices": between, "further readings": again}
        return Cost(
            traffic={kind: size for kind, size in traffic.items() if size},
            floor_us=floor,
            estimate_us=floor + gpu.memory_us(between + again) + CAPTURED_LAUNCH_US * len(self._steps),
        )

    def bind(self, tensors: Pointers, temporary: int, persistent: int | None) -> Launch:
        argument, scratch = np.zeros(1, PARAMETERS), self._scratch.pointers(temporary)
        argument["x"], argument["values"] = tensors["input_tensor"], tensors["output_value_tensor"]
        argument["indices"] = tensors["output_index_tensor"]
        argument["lines"], argument["strides"] = axes_value(self._lines, 3), self._strides
        argument["line_count"], argument["k"], argument["flip"] = self._line_count, self._k, self._flip
        argument["across"], argument["index_bytes"] = self._across, self._index_bytes
        launches = []
        for number, step in enumerate(self._steps):
            before, after = (number - 1) % 2, number % 2
            fields = argument.copy()
            fields["count"], fields["part"], fields["parts"] = step.count, step.part, step.parts
            if number:
                fields["keys"], fields["numbers"], fields["pitch"] = (
                    scratch[f"keys{before}"],
                    scratch[f"numbers{before}"],
                    self._pitches[before],
                )
            if step.left:
                fields["next_keys"], fields["next_numbers"] = scratch[f"keys{after}"], scratch[f"numbers{after}"]
                fields["next_pitch"] = self._pitches[after]
            launches.append(self._launch(step, fields))
        return in_order(launches)

    def _launch(self, step: Step, argument: Any) -> Launch:
        kernel = top_k_kernel(step.name, self._type)
        if step.name == "select":
            return self._library.launch(kernel, (self._line_count, step.parts), SELECT_THREADS, argument)
        if step.name == "merge":
            return self._library.launch_elements(kernel, self._line_count * step.count, argument)
        run, pieces = max(2, power_of_two(step.part)), self._line_count * step.parts
        slots = min(MOST_SORTED, run * power_of_two(pieces))
        shared_bytes = slots * (self._key_bytes + _UINT32.itemsize)
        return self._library.launch(kernel, (-(-pieces // (slots // run)),), slots // 2, argument, shared_bytes)


def top_k_plan(desc: TopKDesc, target: Target) -> TopKPlan:
    return TopKPlan(desc, target.library)
