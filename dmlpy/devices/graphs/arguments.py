"""`GraphArguments`: the memory that a call of a compiled graph passes, checked and bound to the graph's tensors."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from dmlpy.description.coercion import brief
from dmlpy.devices.memory import binding
from dmlpy.devices.memory.binding import BoundTensor
from dmlpy.messages.naming import did_you_mean
from dmlpy.messages.problems import Problem
from dmlpy.validation.tensor_arguments import in_order, named

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import numpy as np

    from dmlpy.description.tensors import TensorDesc
    from dmlpy.devices.device import Device, Memory
    from dmlpy.devices.memory.binding import KnownLayouts


class GraphArguments(NamedTuple):
    """The tensors and layouts against which calls of one compiled graph are checked.

    Attributes:
        device: the device of the graph.
        layouts: the layouts of earlier calls, by the tensor's name.
        prepared: the inputs that `prepare` takes.
        order: the names of all inputs in the graph's order, those that feed no node included.
        alignment: the bytes that the tensors in scratch and among packed constants are aligned to.
    """

    device: Device
    layouts: Mapping[str, KnownLayouts]
    prepared: Sequence[str]
    order: Sequence[str]
    alignment: int

    def bind_inputs(
        self, values: Any, wanted: Mapping[str, TensorDesc], copied_on: int | None = None
    ) -> tuple[list[BoundTensor], list[Problem]]:
        """Binds inputs as `_bind` does."""
        return self._bind(values, wanted, self.order, "input", copied_on)

    def bind_outputs(
        self,
        values: Any,
        wanted: Mapping[str, TensorDesc],
        copied_on: int | None = None,
        copied_back: list[tuple[np.ndarray[Any, Any], BoundTensor]] | None = None,
    ) -> tuple[list[BoundTensor], list[Problem]]:
        """Binds outputs as `_bind` does."""
        return self._bind(values, wanted, list(wanted), "output", copied_on, copied_back)

    def resource(
        self, name: str, value: Any, needed: int, producers: list[int]
    ) -> tuple[Memory | None, tuple[int, int] | None, list[Problem]]:
        """The memory that is passed for scratch or packed constants, its address and end, and the problems with it; None if there is none.

        Args:
            name: its place.
            value: the memory, or None.
            needed: the bytes that it must have.
            producers: the stream that users of the memory have to wait for is appended, if there is one.
        """
        if value is None:
            return None, None, []
        area, problems = binding.resource(self.device, name, value, needed, producers, self.alignment)
        return binding.memory_of(value, area), area, problems

    def _bind(
        self,
        values: Any,
        wanted: Mapping[str, TensorDesc],
        order: Sequence[str],
        kind: Literal["input", "output"],
        copied_on: int | None = None,
        copied_back: list[tuple[np.ndarray[Any, Any], BoundTensor]] | None = None,
    ) -> tuple[list[BoundTensor], list[Problem]]:
        """Binds the tensors of a call, and returns them with all problems.

        Args:
            values: memory by name, or a list of it in the graph's order.
            wanted: the tensors to bind, by name.
            order: the names that a list stands for.
            kind: what the tensors are.
            copied_on: a stream on which arrays in host memory are copied to the device; None refuses them on a GPU.
            copied_back: receives outputs in host memory with what is to be copied back into them.
        """
        output = kind == "output"
        bound: list[BoundTensor] = []
        given, problems = in_order(values, order, kind) if isinstance(values, list | tuple) else named(values, kind, in_order=True)
        if not given and problems and problems[0].code == "bind.form":  # that the tensors are missing follows from it
            return [], problems
        problems += [
            self._unexpected_problem(name, wanted, order, kind) for name in given if name not in wanted and given[name] is not None
        ]
        for name, tensor in wanted.items():
            if given.get(name) is None:
                problems.append(Problem("bind.missing", name, "not given", f"memory for {tensor.summary()}"))
                continue
            host = binding.host_array(self.device, given[name]) if copied_on is not None else None
            if host is not None and copied_on is not None:
                wrong = binding.value_form_problems(name, tensor, host, output=output, copied=True)
                memory = None if wrong else self.device.upload(binding.stage(tensor, None if output else host), copied_on)
                item = None if memory is None else BoundTensor(name, tensor, output, memory.pointer, memory)
                if item is not None and copied_back is not None and output:
                    copied_back.append((host, item))
            else:
                known = self.layouts[name]
                item, wrong = binding.bind_tensor(self.device, name, tensor, given[name], output=output, known=known)
            problems += wrong
            bound += [item] if item else []
        return bound, problems

    def _unexpected_problem(self, name: str, wanted: Iterable[str], order: Sequence[str], kind: str) -> Problem:
        """The problem with memory for a tensor that is not bound here."""
        if kind == "input" and name in self.prepared:
            return Problem("bind.packed", name, "given", "nothing: prepare has copied it")
        if kind == "input" and name in order and name not in self.layouts:
            return Problem("bind.unknown", name, "given", "None: no node reads this input, so nothing says what it holds")
        if kind == "input" and name in order:  # of those that are not owned, only `prepare` wants none
            remedy = "pass it with each call, or declare it with the flag OWNED_BY_DML, which makes it constant"
            return Problem("bind.misplaced", name, "an input without the flag OWNED_BY_DML", "owned inputs only", remedy=remedy)
        expected = f"one of {', '.join(wanted)}" if wanted else "nothing"
        return Problem("bind.unknown", name, f"not among the {kind}s of the graph", expected, remedy=did_you_mean(name, wanted))


def immutable_problems(immutable: object, owned: Sequence[str]) -> list[Problem]:
    """The problems of the argument `immutable` of `prepare`."""
    if isinstance(immutable, str) or not isinstance(immutable, Collection):
        remedy = f"immutable=[{immutable!r}]" if isinstance(immutable, str) and immutable in owned else None
        return [Problem("bind.form", "immutable", brief(immutable), "a list of names of owned inputs", (), remedy)]
    known = frozenset(owned)
    unknown = [name for name in immutable if not (isinstance(name, str) and name in known)]
    if not unknown:
        return []
    expected = f"one of {', '.join(owned)}" if owned else "nothing: the graph has no owned inputs"
    return [Problem("bind.unknown", "immutable", brief(name), expected, (), did_you_mean(name, owned)) for name in unknown]
