"""`Limits` and `Budget`: bounds the work and memory that a model takes before it runs. Models are untrusted; small ones can be costly."""

from __future__ import annotations

import math
from contextlib import contextmanager
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, NamedTuple

from dmlpy.description.coercion import brief
from dmlpy.messages.problems import DescError, Problem

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_NAME = 4096
"""The most characters of a name, which every nested place repeats."""
OPERANDS = 16
"""Inputs and outputs per counted node; a node with more counts as several."""
_NODES, _NODES_FOR_EACH, _MOST_NODES = 2048, 8, 10_000
_BYTES, _BYTES_FOR_EACH = 1 << 26, 4
_ELEMENTS, _ELEMENTS_FOR_EACH = 1 << 28, 16


@dataclass(frozen=True)
class Limits:
    """The most that a model may take while it is loaded, checked, reported on and compiled. A given number replaces the default.

    Attributes:
        nodes: nodes that are processed, including those of the model's functions and of ONNX's operator definitions: 2048 plus 8 for each
            node in the file, at most 10,000. A model with more is rejected.
        unrolled: nodes that all loops are unrolled to, each counted once per operator that it becomes. A loop beyond the limit runs
            step by step when the model runs, as does one that would become more than 64 nodes outside of graphs.
        elements: elements that are computed ahead of time, weighted by cost: 2**28 plus 16 for each byte of the model's tensors. Anything
            beyond is computed when the model runs.
        bytes: memory in addition to the model's tensors: 64 MiB plus 4 for each byte of these. A constant beyond the limit is
            computed when the model runs; functions, sparse tensors and holes in files of external data that need more are rejected.
        characters: characters of generated names. A model with more is rejected.
        messages: messages in a file's protobuf. A file with more is rejected before it is read.
    """

    nodes: int | None = None
    unrolled: int = 2000
    elements: int | None = None
    bytes: int | None = None
    characters: int = 1 << 24
    messages: int = 400_000

    def __post_init__(self) -> None:
        """Checks the numbers.

        Raises:
            DescError: a limit is not a number, or is below 0.
        """
        problems = []
        for item in fields(self):
            given, optional = getattr(self, item.name), item.default is None
            if (given is None and not optional) or (given is not None and (type(given) is not int or given < 0)):
                problems.append(Problem("field.form", item.name, brief(given), "a number of 0 or more" + (", or None" if optional else "")))
        if problems:
            raise DescError("onnx.Limits", problems)


class ModelSize(NamedTuple):
    """The contents of a file, with which the default limits grow.

    Attributes:
        nodes: the nodes of its graph, of their subgraphs and of its functions, each once.
        bytes: the bytes of its tensors, including those that files of external data really contain.
    """

    nodes: int = 0
    bytes: int = 0


def limit_problem(limit: str, path: str, found: str, allowed: int, what: str) -> Problem:
    """The problem of an exceeded limit.

    Args:
        limit: the name of the limit.
        path: the place.
        found: the number that was reached.
        allowed: the most that the limit allows.
        what: the counted items.
    """
    remedy = f"if you trust the model, load it with more: limits=dmlpy.onnx.Limits({limit}=...) of dmlpy.onnx.load, or --limit {limit}=..."
    return Problem("onnx.limit", path, found, f"at most {allowed} {what}", (f"limit {limit!r} of dmlpy.onnx.Limits",), remedy)


class Budget:
    """The remainder of a model's limits during one lowering.

    Args:
        name: what messages call the model.
        limits: the limits.
        size: the size of the model's file.

    Attributes:
        nodes: the most nodes that are processed.
        unrolled: the most nodes that loops are unrolled to.
        elements: the most elements that are computed.
        bytes: the most bytes that are held.
        characters: the most characters of names.
    """

    def __init__(self, name: str, limits: Limits, size: ModelSize) -> None:
        self._name = name
        self.nodes = limits.nodes if limits.nodes is not None else most_nodes(size)
        self.unrolled = limits.unrolled
        self.elements = _ELEMENTS + _ELEMENTS_FOR_EACH * size.bytes if limits.elements is None else limits.elements
        self.bytes = most_bytes(limits, size)
        self.characters = limits.characters
        self._seen = self._unrolled = self._computed = self._held_bytes = self._written = 0
        self._loops = 0

    # Indispensable: beyond the limit the model is rejected

    def count_nodes(self, place: str, count: int = 1) -> None:
        """Counts processed nodes.

        Raises:
            DescError: there are too many.
        """
        if self._loops:
            self._unrolled += count
            return
        self._seen += count
        if self._seen > self.nodes:
            raise self._error("nodes", place, f"node {self._seen}", self.nodes, "nodes, with those that functions and definitions become")

    def count_operators(self, operators: int) -> None:
        """Counts a loop node's operators after the first: each costs as much as a node. Nodes outside of loops are in the file."""
        if self._loops:
            self._unrolled += max(operators - 1, 0)

    def count_name(self, text: str) -> None:
        """Counts a generated name.

        Raises:
            DescError: names have too many characters.
        """
        self._written += len(text)
        if self._written > self.characters:
            found = f"{self._written} characters of names"
            raise self._error("characters", text, found, self.characters, "in all names that nodes and values have in their places")

    def _error(self, limit: str, place: str, found: str, allowed: int, what: str) -> DescError:
        return DescError(f"onnx: {self._name}", [limit_problem(limit, place, found, allowed, what)])

    # Dispensable: beyond the limit the model's runs do the work

    def reserve(self, elements: float, size: float) -> bool:
        """Whether elements may be computed and stored; if so, counts them.

        Args:
            elements: their number, weighted by cost.
            size: the bytes of the results. One result may take half of the limit.
        """
        if elements > self.elements - self._computed or size > min(self.bytes // 2, self.bytes - self._held_bytes):
            return False
        self._computed += math.floor(elements)  # which may be symbolic, and then remains so
        self._held_bytes += math.floor(size)
        return True

    def reserve_bytes(self, count: int) -> bool:
        """Whether this many bytes may be stored; if so, counts them."""
        return self.reserve(0, count)

    @property
    def nodes_left(self) -> int:
        """How many more nodes may be processed."""
        return self.unrolled_left if self._loops else max(self.nodes - self._seen, 0)

    @property
    def unrolled_left(self) -> int:
        """How many more nodes loops may be unrolled to."""
        return max(self.unrolled - self._unrolled, 0)

    @property
    def characters_left(self) -> int:
        """How many more characters names may have."""
        return max(self.characters - self._written, 0)

    @contextmanager
    def unrolling(self) -> Iterator[None]:
        """Counts the nodes that are processed in this context as unrolled."""
        self._loops += 1
        try:
            yield
        finally:
            self._loops -= 1


def most_nodes(size: ModelSize) -> int:
    """The default limit on a model's nodes."""
    return min(_NODES + _NODES_FOR_EACH * size.nodes, _MOST_NODES)


def most_bytes(limits: Limits, size: ModelSize) -> int:
    """The default limit on bytes in addition to a model's tensors."""
    return _BYTES + _BYTES_FOR_EACH * size.bytes if limits.bytes is None else limits.bytes
