"""Resizes descs and graphs along some axes, to compute a chunk of the arrays.

A new size propagates through an operator by the symbols of its tensors' sizes, and through a graph along its edges, to a fixed point.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dmlpy.graphs import Graph, OperatorNode
from dmlpy.messages.naming import listed
from dmlpy.messages.problems import DescError, Problem

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from dmlpy.description.descs import OperatorDesc
    from dmlpy.description.markers import Slot
    from dmlpy.description.sizes import Term
    from dmlpy.description.tensors import TensorDesc

Described = Any
"""An operator's desc, or a `Graph`."""

End = tuple[str, int, str]
"""A tensor: `("input", index, "")` or `("output", index, "")` of a graph, or `("node", index, place)`."""


@dataclass(frozen=True)
class Use:
    """A symbol of an operator's sizes that changes its value.

    Attributes:
        label: the node in a graph, for messages; empty for a desc.
        desc: the operator.
        symbol: the symbol, like `batch_size` or `sizes[0]`.
    """

    label: str
    desc: OperatorDesc
    symbol: str


@dataclass(frozen=True)
class Resizing:
    """A desc or graph with other sizes.

    Attributes:
        described: it.
        inputs: the tensors to bind, by name.
        outputs: its output tensors, by name.
        uses: the operators that the change affects.
    """

    described: Described
    inputs: Mapping[str, TensorDesc]
    outputs: Mapping[str, TensorDesc]
    uses: tuple[Use, ...]


def resize(described: Described, sizes: Mapping[str, Mapping[int, int]]) -> Resizing:
    """Returns a desc or graph with other sizes of inputs; tensors that share them, and the outputs, are resized too.

    Args:
        described: a valid desc or graph.
        sizes: the new sizes by axis, by input.

    Raises:
        DescError: an axis cannot have the size, or the corresponding axis of another tensor cannot be determined.
    """
    changes = _Changes(described)
    for name, axes in sizes.items():
        for axis, size in axes.items():
            changes.set(changes.inputs[name], axis, size)
    changes.spread()
    return changes.result()


def resize_tensor(tensor: TensorDesc, sizes: Mapping[int, int]) -> TensorDesc:
    """A tensor with other sizes: the order of its axes in memory, its gaps between entries and its broadcast axes are preserved."""
    given = tuple(sizes.get(axis, size) for axis, size in enumerate(tensor.sizes))
    if tensor.strides is None:
        return tensor.replace(sizes=given, total_tensor_size_in_bytes=None)
    before = tensor.strides
    strides = list(before)
    old_run = new_run = 1
    # Axes of one entry may have any stride, so they are placed as in a packed tensor.
    for axis in sorted(range(len(given)), key=lambda axis: (before[axis], -axis)):
        if before[axis] == 0:
            continue
        strides[axis] = new_run + before[axis] - old_run if tensor.sizes[axis] > 1 else new_run
        old_run = max(old_run, before[axis] * tensor.sizes[axis]) if tensor.sizes[axis] > 1 else old_run
        new_run = strides[axis] * given[axis]
    return tensor.replace(sizes=given, strides=strides, total_tensor_size_in_bytes=None)


def tensors_of(described: Described) -> tuple[dict[str, TensorDesc], dict[str, TensorDesc]]:
    """The inputs and outputs of a valid desc or graph, by name."""
    changes = _Changes(described)
    inputs, outputs = ({name: changes.tensors[end] for name, end in ends.items()} for ends in (changes.inputs, changes.outputs))
    return inputs, outputs


class _Changes:
    """The tensors of a desc or graph, which of them are the same memory, and the sizes that change.

    A desc is a graph of one node, whose tensors are the graph's.
    """

    def __init__(self, described: Described) -> None:
        self.described = described
        self.tensors: dict[End, TensorDesc] = {}
        self.inputs: dict[str, End] = {}
        self.outputs: dict[str, End] = {}
        self._sizes: dict[End, dict[int, int]] = defaultdict(dict)
        self._links: dict[End, list[End]] = defaultdict(list)
        self._constants: set[End] = set()
        self._uses: dict[tuple[int, str], Use] = {}
        self._waiting: list[tuple[End, int]] = []
        self._nodes: dict[int, OperatorDesc]
        if isinstance(described, Graph):
            self._nodes = {index: node.operator for index, node in enumerate(described.nodes) if isinstance(node, OperatorNode)}
        else:
            self._nodes = {0: described}
        for index, desc in self._nodes.items():
            self.tensors |= {("node", index, place): tensor for place, tensor in desc.tensors().items()}
        if isinstance(described, Graph):
            self._wire(described)
        else:
            described_slots = [slot for slot in described.slots() if slot.tensor is not None]
            self.inputs = {slot.place: ("node", 0, slot.place) for slot in described_slots if not slot.field.marker.output}
            self.outputs = {slot.place: ("node", 0, slot.place) for slot in described_slots if slot.field.marker.output}

    def _wire(self, graph: Graph) -> None:
        for edge in graph.input_edges:
            self._link(("input", edge.graph_input_index, ""), self._slot(edge.to_node_index, edge.to_node_input_index, output=False))
        for link in graph.intermediate_edges:
            reader = self._slot(link.to_node_index, link.to_node_input_index, output=False)
            if link.from_node_index in self._nodes:
                self._link(self._slot(link.from_node_index, link.from_node_output_index, output=True), reader)
            else:
                self._constants.add(reader)
        for out in graph.output_edges:
            self._link(("output", out.graph_output_index, ""), self._slot(out.from_node_index, out.from_node_output_index, output=True))
        for kind, count, names, declared, ends in (
            ("input", graph.input_count, graph.input_names, graph.input_tensors, self.inputs),
            ("output", graph.output_count, graph.output_names, graph.output_tensors, self.outputs),
        ):
            for index in range(count):
                end = (kind, index, "")
                if not self._links[end]:
                    continue  # an input that feeds no node
                others = [self.tensors[other] for other in self._links[end]]
                self.tensors[end] = declared[index] if declared else max(others, key=lambda tensor: tensor.extent_in_bytes)
                ends[names[index] if names else f"{kind}_{index}"] = end

    def _slot(self, node: int, index: int, *, output: bool) -> End:
        slots = self._nodes[node].output_slots() if output else self._nodes[node].input_slots()
        return "node", node, slots[index].place

    def _link(self, one: End, other: End) -> None:
        self._links[one].append(other)
        self._links[other].append(one)

    def set(self, end: End, axis: int, size: int) -> None:
        """Gives an axis another size."""
        before = self._sizes[end].get(axis)
        if before is not None and before != size:
            raise self._refused(end, axis, f"{before} and {size}", "one size", "two of the axes that change meet here")
        if before is None and (self.tensors[end].sizes[axis] != size):
            if end in self._constants:
                raise self._refused(end, axis, str(size), str(self.tensors[end].sizes[axis]), "the graph holds it as a constant")
            self._sizes[end][axis] = size
            self._waiting.append((end, axis))

    def spread(self) -> None:
        """Propagates the changes to all affected tensors."""
        while self._waiting:
            touched = set()
            while self._waiting:
                end, axis = self._waiting.pop()
                for other in self._links[end]:
                    self.set(other, self._axis_there(end, axis, other), self._sizes[end][axis])
                if end[0] == "node":
                    touched.add(end[1])
                    self._spread_symbol(end, axis)
            for node in sorted(touched):
                self._spread_derived(node)

    def _axis_there(self, end: End, axis: int, other: End) -> int:
        """The corresponding axis of another view of the same memory: the one with the same size and stride."""
        here, there = self.tensors[end], self.tensors[other]
        size, stride = here.sizes[axis], here.element_strides[axis]
        if (here.sizes, here.element_strides) == (there.sizes, there.element_strides):
            return axis
        axes = [index for index, entry in enumerate(zip(there.sizes, there.element_strides, strict=True)) if entry == (size, stride)]
        if axis in axes:
            return axis
        if size == 1 or len(axes) != 1:
            why = f"it is read as {there.summary()}, where no axis is this one" + " for certain: describe it with a size above 1" * (
                size == 1
            )
            raise self._refused(end, axis, "cut", "an axis that every view of the tensor has", why)
        return axes[0]

    def _terms(self, node: int, slot: Slot) -> tuple[Term, ...]:
        return self._nodes[node].aligned(slot, len(self.tensors["node", node, slot.place].sizes)) or ()

    def _spread_symbol(self, end: End, axis: int) -> None:
        node, desc, size = end[1], self._nodes[end[1]], self._sizes[end][axis]
        slots = [slot for slot in desc.slots() if slot.tensor is not None]
        term = next(self._terms(node, slot)[axis] for slot in slots if slot.place == end[2])
        if term.symbol is None or size % term.factor:
            raise self._refused(
                end, axis, str(size), f"{term}" if term.symbol is None else f"a multiple of {term.factor}", f"of {desc.c_name}"
            )
        label = self.described.label(node) if isinstance(self.described, Graph) else ""
        self._uses.setdefault((node, term.symbol), Use(label, desc, term.symbol))
        for slot in slots:
            for index, other in enumerate(self._terms(node, slot)):
                if other.symbol == term.symbol:
                    self.set(("node", node, slot.place), index, other.factor * size // term.factor)

    def _spread_derived(self, node: int) -> None:
        """Propagates sizes that a formula derives from others."""
        desc = self._desc(node)
        known, derived = desc.sizes(), desc.derived_sizes()
        for slot in desc.slots():
            terms = desc.terms(slot.field)
            if slot.tensor is None or not any(term.symbol in derived for term in terms):
                continue
            sizes = known.infer(terms)
            if sizes is not None and len(sizes) == len(slot.tensor.sizes):
                for axis, size in enumerate(sizes):
                    if slot.tensor.sizes[axis] != size:
                        self.set(("node", node, slot.place), axis, size)

    def _desc(self, node: int) -> OperatorDesc:
        """The operator with the sizes so far."""
        desc = self._nodes[node]
        members: dict[str, Any] = {}
        for slot in desc.slots():
            if slot.tensor is None:
                continue
            tensor = self._tensor(("node", node, slot.place))
            members[slot.field.name] = tensor if slot.index is None else (*members.get(slot.field.name, ()), tensor)
        return desc.replace(**members)

    def _tensor(self, end: End) -> TensorDesc:
        return resize_tensor(self.tensors[end], self._sizes[end]) if self._sizes[end] else self.tensors[end]

    def result(self) -> Resizing:
        """The desc or graph with all changes."""
        described = self.described
        if isinstance(described, Graph):
            nodes = [
                node.replace(operator=self._desc(index)) if isinstance(node, OperatorNode) else node
                for index, node in enumerate(described.nodes)
            ]
            members: dict[str, Any] = {"nodes": nodes}
            for kind, name in (("input", "input_tensors"), ("output", "output_tensors")):
                if declared := getattr(described, name):
                    members[name] = [self._declared((kind, index, ""), tensor) for index, tensor in enumerate(declared)]
            described = described.replace(**members).with_origins(described.origins)
        else:
            described = self._desc(0)
        inputs, outputs = ({name: self._tensor(end) for name, end in ends.items()} for ends in (self.inputs, self.outputs))
        return Resizing(described, inputs, outputs, tuple(self._uses.values()))

    def _declared(self, end: End, tensor: TensorDesc) -> TensorDesc:
        return self._tensor(end) if end in self.tensors else tensor

    def _refused(self, end: End, axis: int, found: str, expected: str, why: str) -> DescError:
        kind, index, place = end
        names = {known: name for name, known in (self.inputs | self.outputs).items()}
        label = names.get(end) or (f"nodes[{index}].{place}" if kind == "node" else f"{kind}_{index}")
        tensor = self.tensors[end]
        facts = (f"{label} has the sizes {listed(tensor.sizes)}", why)
        return DescError("map_blocks", [Problem("dask.axis", f"{label}.sizes[{axis}]", found, expected, facts)])


def describe_uses(uses: Iterable[Use]) -> tuple[str, ...]:
    """The operators' names of the axes, for messages."""
    return tuple(dict.fromkeys(f"{use.label or use.desc.c_name} calls the axis {use.symbol}" for use in uses))
