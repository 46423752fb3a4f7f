"""`StepsPlan`: launches one after the other, each of a kernel whose threads own elements."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from dmlpy.devices.cost import Cost
from dmlpy.devices.cuda.kernels import ALIGNMENT
from dmlpy.devices.cuda.performance.gpu_model import CAPTURED_LAUNCH_US, GpuModel
from dmlpy.devices.plan import Launch, Layout, PlanWithoutConstants, Pointers, in_order

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dmlpy.description.descs import OperatorDesc
    from dmlpy.devices.cuda.kernels import Kernel, KernelLibrary, Struct

NO_SCRATCH = Layout([], ALIGNMENT)


@dataclass(frozen=True)
class Step:
    """One launch.

    Attributes:
        kernel: the kernel.
        argument: its parameters, without addresses.
        addresses: the place of the tensor, or the name of the array of scratch, that each of the other fields is the address of. That of
            an absent tensor is null. `regions.images` is the field of a field.
        count: elements that its threads own, one by one, or in groups.
        together: elements of a group, at most.
    """

    kernel: Kernel
    argument: Struct
    addresses: Mapping[str, str]
    count: int
    together: int = 1


class StepsPlan(PlanWithoutConstants):
    """A plan of some steps in order.

    Args:
        desc: a checked desc.
        library: the device's kernels.
        steps: the launches.
        scratch: the arrays that they pass to each other.
        rereads: how often the arrays of scratch are read or written as a whole.

    Raises:
        DeviceError: a kernel cannot be compiled.
    """

    def __init__(
        self, desc: OperatorDesc, library: KernelLibrary, steps: Sequence[Step], scratch: Layout = NO_SCRATCH, rereads: int = 2
    ) -> None:
        self._library, self._steps, self._scratch, self._rereads = library, tuple(steps), scratch, rereads
        self._bytes = sum(tensor.element_count * tensor.data_type.numpy.itemsize for tensor in desc.tensors().values())
        self.temporary_size = scratch.size
        library.functions(step.kernel for step in steps)

    def describe(self) -> str:
        lines = [f"CUDA, {self._library.limits.name}"]
        for step in self._steps:
            blocks = self._library.element_blocks(step.count)
            what = "elements" if step.together == 1 else f"times up to {step.together} elements"
            lines.append(f"{step.kernel.entry}: {step.count} {what}, {blocks} block{'s' if blocks > 1 else ''}")
        return "\n".join(lines)

    def cost(self) -> Cost:
        gpu, rereads = GpuModel.of(self._library.limits), self._rereads * self._scratch.size
        return Cost(
            traffic={"scratch": rereads} if rereads else {},
            floor_us=gpu.memory_us(self._bytes),
            estimate_us=gpu.memory_us(self._bytes + rereads) + CAPTURED_LAUNCH_US * len(self._steps),
        )

    def bind(self, tensors: Pointers, temporary: int, persistent: int | None) -> Launch:
        pointers = {**tensors, **self._scratch.pointers(temporary)}
        return in_order([self._launch(step, pointers) for step in self._steps])

    def _launch(self, step: Step, pointers: Mapping[str, int]) -> Launch:
        argument = step.argument.copy()
        for field, name in step.addresses.items():
            *outer, last = field.split(".")
            owner = argument
            for place in outer:
                owner = owner[place]
            owner[last] = pointers.get(name, 0)
        return self._library.launch_elements(step.kernel, step.count, argument)
