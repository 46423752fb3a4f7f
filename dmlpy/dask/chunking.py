"""Finds the axes of an operator's tensors that are chunked together, and problems of their arrays."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate, pairwise, product
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.dask.resizing import Resizing, Use, describe_uses, resize, tensors_of
from dmlpy.messages.naming import Count, did_you_mean, listed
from dmlpy.messages.problems import DescError, Problem
from dmlpy.operators.elementwise.common import ElementWiseDesc
from dmlpy.operators.matrix import GEMMDesc
from dmlpy.operators.recurrent.layer import LayerDesc

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from dmlpy.dask.resizing import Described

BATCH = frozenset(("batch", "batch_size", "batch_count"))
"""The symbols of axes whose entries do not depend on each other."""


@dataclass(frozen=True)
class Group:
    """Axes of several tensors that are chunked alike.

    Attributes:
        name: its name in messages: the symbol of an operator's sizes, or `axis 1 of x`.
        first: the input that determined it.
        axes: the axis of each input and output that has one, by name.
        chunks: the sizes of the chunks.
        uses: the operators that the axes reach.
    """

    name: str
    first: str
    axes: Mapping[str, int]
    chunks: tuple[int, ...]
    uses: tuple[Use, ...]

    @cached_property
    def bounds(self) -> tuple[tuple[int, int], ...]:
        """The first entry of each chunk and the one after its last."""
        return tuple(pairwise((0, *accumulate(self.chunks))))


@dataclass(frozen=True)
class Chunk:
    """One combination of chunks.

    Attributes:
        index: its place along each group.
        sizes: its size along each group.
        starts: its first entry along each group.
        label: its name in messages: `chunk (2,), batch_size 512 to 767`.
    """

    index: tuple[int, ...]
    sizes: tuple[int, ...]
    starts: tuple[int, ...]
    label: str


def all_chunks(groups: Sequence[Group]) -> Iterator[Chunk]:
    """Every combination of the groups' chunks, in order."""
    for index in product(*(range(len(group.chunks)) for group in groups)):
        bounds = [group.bounds[at] for group, at in zip(groups, index, strict=True)]
        words = [f"{group.name} {start} to {stop - 1}" for group, (start, stop) in zip(groups, bounds, strict=True)]
        sizes, starts = tuple(stop - start for start, stop in bounds), tuple(start for start, _ in bounds)
        yield Chunk(index, sizes, starts, ", ".join([f"chunk {index}", *words]))


def resize_to(described: Described, groups: Sequence[Group], sizes: Sequence[int]) -> Resizing:
    """The desc or graph for a chunk of these sizes along the groups."""
    wanted: dict[str, dict[int, int]] = {}
    for group, size in zip(groups, sizes, strict=True):
        wanted.setdefault(group.first, {})[group.axes[group.first]] = size
    return resize(described, wanted)


class AxisGrouping:
    """Finds the groups of axes along which arrays are chunked.

    Args:
        described: a valid desc or graph.
        arrays: the array for each: Dask's, or NumPy's or CuPy's for inputs that are not chunked.
        named: the axes that the caller allows to be chunked, by input.
        carry: whether recurrent layers may be chunked along time.
    """

    def __init__(self, described: Described, arrays: Mapping[str, Any], named: Mapping[str, Sequence[int]], *, carry: bool) -> None:
        self._described, self._arrays, self._named, self._carry = described, arrays, named, carry
        self._inputs, self._outputs = tensors_of(described)
        self._seen: set[tuple[str, int]] = set()
        self.problems: list[Problem] = []

    def groups(self) -> list[Group]:
        """The groups, in the order of the inputs; problems of the arrays are added to `problems`."""
        self._check_forms()
        if self.problems:
            return []
        groups: list[Group] = []
        for name, tensor in self._inputs.items():
            for axis, size in enumerate(tensor.sizes):
                array = self._arrays[name]
                cut = len(_chunks(array, axis)) > 1 or array.shape[axis] != size or axis in self._named.get(name, ())
                if cut and (name, axis) not in self._seen:
                    try:
                        group = self._group(name, axis)
                    except DescError as error:
                        self.problems += error.problems
                        return []
                    groups += [group] if group is not None else []
        return groups

    def _check_forms(self) -> None:
        """Problems of names, types and dimension counts."""
        for name in [*self._arrays, *self._named]:
            if name not in self._inputs:
                expected, remedy = f"one of {', '.join(self._inputs)}", did_you_mean(name, self._inputs)
                self.problems.append(Problem("bind.unknown", name, "not among the inputs", expected, remedy=remedy))
        for name, tensor in self._inputs.items():
            if name not in self._arrays:
                self.problems.append(Problem("bind.missing", name, "not given", f"an array for {tensor.summary()}"))
                continue
            array, expected_type = self._arrays[name], np.dtype(tensor.data_type.numpy)
            if tensor.data_type.bits == 4:
                why = ("two elements share a byte, so no chunk could begin at every one",)
                self.problems.append(Problem("array.type", name, str(tensor.data_type), "a type of 8 bits or more", why))
            elif array.dtype != expected_type:
                remedy = f"cast it: array.astype({str(expected_type)!r})"
                self.problems.append(Problem("array.type", name, str(array.dtype), str(expected_type), remedy=remedy))
            if len(array.shape) != len(tensor.sizes):
                expected = f"{len(tensor.sizes)}, as in {tensor.summary()}"
                self.problems.append(Problem("array.dims", f"{name}.shape", Count(f"{len(array.shape)} dimensions"), expected))
                continue
            for axis in self._named.get(name, ()):
                if not 0 <= axis < len(tensor.sizes):
                    expected = f"0 to {len(tensor.sizes) - 1}"
                    self.problems.append(Problem("field.form", f"axes[{name!r}]", str(axis), expected))
            for axis in range(len(array.shape)):
                self.problems += _chunk_problems(name, axis, _chunks(array, axis))

    def _group(self, name: str, axis: int) -> Group | None:
        """The axes that are chunked with an input's; None if this is not allowed."""
        size = self._inputs[name].sizes[axis]
        doubled = resize(self._described, {name: {axis: 2 * size}})
        tensors = {**doubled.inputs, **doubled.outputs}
        befores = {**self._inputs, **self._outputs}
        changes = {
            other: [at for at, (old, new) in enumerate(zip(befores[other].sizes, tensor.sizes, strict=True)) if old != new]
            for other, tensor in tensors.items()
        }
        self._seen |= {(other, at) for other, changed in changes.items() for at in changed}
        if not any(at in self._named.get(other, ()) for other, changed in changes.items() for at in changed):
            dependent = next((use for use in doubled.uses if not _is_independent(use) and not (self._carry and _is_recurrent(use))), None)
            if dependent is not None:
                self.problems.append(self._dependent(name, axis, dependent))
                return None
        axes: dict[str, int] = {}
        for other, changed in changes.items():
            before, tensor = befores[other], tensors[other]
            if len(changed) > 1 or any(tensor.sizes[index] != 2 * before.sizes[index] for index in changed):
                found = f"{listed(tensor.sizes)} for twice the size of {name}.sizes[{axis}]"
                why = describe_uses(doubled.uses)
                self.problems.append(Problem("dask.axis", f"{other}.sizes", found, "one axis that grows alike", why))
                return None
            if changed:
                axes[other] = changed[0]
        symbols = {use.symbol for use in doubled.uses}
        called = symbols.pop() if len(symbols) == 1 else f"axis {axis} of {name}"
        return self._chunked(Group(called, name, axes, (), doubled.uses))

    def _chunked(self, group: Group) -> Group | None:
        """The group with the chunks that its arrays have; a problem where they differ."""
        known: dict[tuple[int, ...], str] = {}
        for name, axis in group.axes.items():
            if name in self._inputs:
                array = self._arrays[name]
                whole = not hasattr(array, "chunks")
                known.setdefault((array.shape[axis],) if whole else _chunks(array, axis), f"{name} along axis {axis}")
        # An array in one chunk is split like the others.
        pieces = {chunks: place for chunks, place in known.items() if len(chunks) > 1} or known
        lengths = {sum(chunks) for chunks in known}
        if len(pieces) > 1 or len(lengths) > 1:
            found = "cut differently: " + "; ".join(f"{place}: {_describe_chunks(chunks)}" for chunks, place in known.items())
            remedy = f"cut them alike: array.rechunk(...), with the chunks of {next(iter(pieces.values()))}"
            self.problems.append(Problem("dask.chunks", group.name, found, "the same chunks", describe_uses(group.uses), remedy))
            return None
        return replace(group, chunks=next(iter(pieces)))

    def _dependent(self, name: str, axis: int, use: Use) -> Problem:
        """The problem of an input that is chunked along an axis whose entries may depend on each other."""
        array, size = self._arrays[name], self._inputs[name].sizes[axis]
        pieces = len(_chunks(array, axis))
        ways = [f"pass it in one piece of this size (array.rechunk({{{axis}: -1}}))"] if pieces > 1 else []
        ways += ["carry=True takes the state from chunk to chunk"] if _is_recurrent(use) and use.desc.sizes()["num_directions"] == 1 else []
        ways += [f"name the axis if chunks along it are independent: axes={{{name!r}: [{axis}]}}"]
        why = f"{use.label or use.desc.c_name} calls the axis {use.symbol}, which is not a batch: its entries may depend on each other"
        found = f"{array.shape[axis]} in {pieces} chunks" if pieces > 1 else str(array.shape[axis])
        return Problem("dask.axis", f"{name}.sizes[{axis}]", found, f"{size}, as the desc says", (why,), ", or ".join(ways))


def _is_independent(use: Use) -> bool:
    """Whether an operator computes the entries along an axis independently."""
    symbol = use.symbol.partition("[")[0]
    if getattr(use.desc, "dropout", 0):
        return False  # a mask depends on an element's place
    if isinstance(use.desc, GEMMDesc) and symbol == "m":
        return True  # each row is multiplied by itself: a dense layer's batch
    return symbol in BATCH or isinstance(use.desc, ElementWiseDesc)


def _is_recurrent(use: Use) -> bool:
    """Whether an operator has a recurrence along an axis."""
    return isinstance(use.desc, LayerDesc) and use.symbol == "seq_length"


def _chunks(array: Any, axis: int) -> tuple[Any, ...]:
    """The chunks along an axis; one for an array that is not Dask's."""
    chunks: tuple[Any, ...] = array.chunks[axis] if hasattr(array, "chunks") else (array.shape[axis],)
    return chunks


def _chunk_problems(name: str, axis: int, chunks: Sequence[Any]) -> Iterator[Problem]:
    path = f"{name}.chunks[{axis}]"
    if any(math.isnan(size) for size in chunks):
        yield Problem("dask.chunks", path, "of unknown sizes", "known sizes", remedy="array.compute_chunk_sizes() finds them")
    elif 0 in chunks:
        expected, why = "chunks of at least one entry", ("DirectML has no empty tensors",)
        yield Problem("dask.chunks", f"{path}[{list(chunks).index(0)}]", "0", expected, why, "array.rechunk(...) joins chunks")


def _describe_chunks(chunks: Sequence[int]) -> str:
    return f"{len(chunks)} chunks of {listed(chunks)}" if len(chunks) > 1 else f"{chunks[0]} in one piece"
