"""`OpenSizes`: a model compiled with those sizes open that differ between its runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from dmlpy.messages.problems import CompileError, DeviceError
from dmlpy.onnx.lowering.control_flow import CONTROL_FLOW

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from dmlpy.description.enums import FeatureLevel
    from dmlpy.onnx.loading.values import Value
    from dmlpy.onnx.lowering.lowered_model import LoweredModel
    from dmlpy.onnx.runtime.compiled_program import CompiledProgram

Pattern: TypeAlias = "dict[str, tuple[int | None, ...]]"
"""The sizes of the inputs by name; None for those that are open."""

_LEAST_NODES = 4
"""The fewest nodes of a part on average: a part costs each run about as much as some nodes do."""


class OpenSizes:
    """A model in which only the nodes whose sizes differ between runs are compiled for each new set of sizes.

    All others are compiled once. The sizes that the model's file leaves open are open at first. If too few nodes are left then, those are
    that are not 1 in the first run, where batches and tokens that come one by one are; and if these are others than those that come to
    differ, those that have differed. Where it does not pay, there is no such form, and the model is compiled for each set of sizes as a
    whole.

    Args:
        model: the model.
        level: the highest feature level that may be used.
        compiled: compiles the model with some sizes open.
    """

    def __init__(self, model: LoweredModel, level: FeatureLevel, compiled: Callable[[LoweredModel], CompiledProgram]) -> None:
        self._model, self._level, self._compiled = model, level, compiled
        self._learned: Pattern | None = None
        """The sizes that were the same in all runs so far."""
        self._pattern: Pattern = {}
        self._without_form: list[Pattern] = []
        """The last patterns that had no form."""
        self._form: CompiledProgram | None = None
        self._is_given_up = False
        self._declared = _declared_sizes(model.inputs)
        if self._declared is not None:
            self._take(self._declared)

    def form(self, sizes: Mapping[str, Sequence[int]]) -> CompiledProgram | None:
        """The model with sizes open that runs with these sizes; None if there is none."""
        if self._is_given_up:
            return None
        if self._form is not None and _fits(self._pattern, sizes):
            return self._form
        if self._learned is None:
            self._learned = {name: tuple(input_sizes) for name, input_sizes in sizes.items()}
            if self._declared is not None:
                self._take(_without_ones(self._declared, sizes))
        elif not _fits(self._learned, sizes):
            learned = _common_sizes(self._learned, sizes)
            if learned is None:
                self._is_given_up = True
                return None
            self._learned = learned
            self._take(learned)
        return self._form if self._form is not None and _fits(self._pattern, sizes) else None

    def give_up(self) -> None:
        """Compiles the model as a whole from now on."""
        self._is_given_up, self._form = True, None

    def _take(self, pattern: Pattern) -> None:
        """Makes the form of a pattern if it pays."""
        if pattern in self._without_form or not any(None in sizes for sizes in pattern.values()):
            return
        model = self._model.with_inputs(pattern)
        try:
            if self._pays(model):
                self._pattern, self._form = pattern, self._compiled(model)
            else:
                self._without_form.append(pattern)
        except (CompileError, DeviceError):
            self.give_up()  # the model as a whole reports the problem

    def _pays(self, model: LoweredModel) -> bool:
        """Whether enough nodes do not depend on what is open, in parts that are large enough, and only sizes stand in the way of others."""
        found = model.interpretation(self._level)
        if any(record.where not in ("directml", "folded", "deferred") or record.op_type in CONTROL_FLOW for record in found.records):
            return False
        fixed = sum(record.where == "directml" for record in found.records)
        waiting = sum(record.where == "deferred" for record in found.records)
        return fixed >= waiting > 0 and len(model.program(self._level).parts) * _LEAST_NODES <= fixed + waiting


def _declared_sizes(inputs: Mapping[str, Value]) -> Pattern | None:
    """The sizes that the model's file states; None if it does not even state how many an input has."""
    found: Pattern = {}
    for name, value in inputs.items():
        if value.kind != "tensor" or value.sizes is None:
            return None
        found[name] = tuple(size if isinstance(size, int) else None for size in value.sizes)
    return found


def _fits(pattern: Pattern, sizes: Mapping[str, Sequence[int]]) -> bool:
    for name, own in pattern.items():
        given = sizes[name]
        if len(own) != len(given):
            return False
        for size, other in zip(own, given, strict=True):
            if size is not None and size != other:
                return False
    return True


def _without_ones(pattern: Pattern, sizes: Mapping[str, Sequence[int]]) -> Pattern:
    """The pattern with those of its open sizes known that are 1."""
    return {
        name: tuple(1 if size is None and given == 1 else size for size, given in zip(own, sizes[name], strict=True))
        for name, own in pattern.items()
    }


def _common_sizes(pattern: Pattern, sizes: Mapping[str, Sequence[int]]) -> Pattern | None:
    """The pattern without the sizes that differ from these; None if ranks differ."""
    if any(len(own) != len(sizes[name]) for name, own in pattern.items()):
        return None
    return {
        name: tuple(size if size == given else None for size, given in zip(own, sizes[name], strict=True)) for name, own in pattern.items()
    }
