"""Runs a graph node by node, with memory of its own for every tensor: what a planned graph must give."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

import dmlpy as dml
from dmlpy.graphs import ConstantNode, Graph

Array = np.ndarray[Any, np.dtype[Any]]

ROOM = 4096
"""Bytes behind each tensor that are zero, for readers that read more than is written."""


def given(name: str, tensor: dml.TensorDesc, rng: np.random.Generator) -> Array:
    """Small integers, with which sums and products are exact in every order."""
    memory = np.zeros(tensor.span, tensor.data_type.numpy)
    array = np.lib.stride_tricks.as_strided(memory, tensor.sizes, tensor.numpy_strides())
    low = 0 if array.dtype.kind == "u" else -4
    array[...] = rng.integers(low, 5, tensor.sizes)
    return array


def node_by_node(graph: Graph, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """The outputs of a graph whose nodes have all run by themselves on NumPy. No code of `dmlpy.devices.graphs` is used."""
    sources: dict[tuple[int, int], Any] = {}
    for edge in graph.input_edges:
        sources[edge.to_node_index, edge.to_node_input_index] = graph.input_names[edge.graph_input_index]
    for link in graph.intermediate_edges:
        sources[link.to_node_index, link.to_node_input_index] = (link.from_node_index, link.from_node_output_index)
    memory: dict[Any, Array] = {}
    constants: dict[Any, bytes] = {}
    waiting = []
    for index, node in enumerate(graph.nodes):
        if isinstance(node, ConstantNode):
            constants[index, 0] = node.data
        else:
            waiting.append(index)

    def buffer(source: Any) -> dml.Buffer:
        if isinstance(source, str):
            return dml.Buffer(inputs[source].ctypes.data, 2**30)
        return dml.Buffer(memory[source].ctypes.data, memory[source].nbytes)

    def aligned(data: bytes) -> Array:
        block = np.zeros(len(data) + ROOM + 256, np.uint8)
        found = block[-block.ctypes.data % 256 :][: len(data) + ROOM]
        found[: len(data)] = np.frombuffer(data, np.uint8)
        return found

    memory |= {source: aligned(data) for source, data in constants.items()}
    while waiting:
        index = next(
            index
            for index in waiting
            if all(
                isinstance(source := sources[index, at], str) or source in memory
                for at, slot in enumerate(graph.nodes[index].input_slots())
                if slot.tensor is not None
            )
        )
        waiting.remove(index)
        node = graph.nodes[index]
        assert not isinstance(node, ConstantNode)
        for at, slot in enumerate(node.output_slots()):
            if slot.tensor is not None:
                memory[index, at] = aligned(bytes(slot.tensor.size_in_bytes))
        read = {slot.place: buffer(sources[index, at]) for at, slot in enumerate(node.input_slots()) if slot.tensor is not None}
        written = {slot.place: buffer((index, at)) for at, slot in enumerate(node.output_slots()) if slot.tensor is not None}
        dml.compile(node.operator, "numpy").bind(read, written)()
    found: dict[str, Array] = {}
    for end in graph.output_edges:
        source = (end.from_node_index, end.from_node_output_index)
        found[graph.output_names[end.graph_output_index]] = memory[source]
    return found


def same_elements(planned: Array, memory: Array) -> bool:
    """Whether an output of a planned graph holds what the bytes of the same tensor hold, bit for bit."""
    item = planned.dtype.itemsize
    strides = planned.strides
    alone = np.ndarray(planned.shape, planned.dtype, memory.data, strides=strides)
    return np.array_equal(
        planned.view(f"u{item}") if planned.flags.c_contiguous else np.ascontiguousarray(planned).view(f"u{item}"),
        np.ascontiguousarray(alone).view(f"u{item}"),
    )


def on_device(device: dml.Device, desc: dml.TensorDesc, array: Any) -> Any:
    """The array in the device's memory, in the desc's layout."""
    if device.memory_kind == "cpu":
        return array
    flat = np.lib.stride_tricks.as_strided(array, (desc.memory.span,), (array.itemsize,))
    memory = device.from_host(flat)
    found = device.empty(desc, device.current_stream())
    device.copy(device.view(found).pointer, device.view(memory).pointer, desc.extent_in_bytes, device.current_stream())
    return found


def on_host(device: dml.Device, desc: dml.TensorDesc, array: Any) -> Any:
    """What lies in the device's memory in the desc's layout; of 4-bit elements the bytes."""
    if device.memory_kind == "cpu":
        return array
    data = device.read(device.view(array).pointer, desc.extent_in_bytes, device.current_stream())
    return np.ndarray(desc.memory.sizes, desc.memory.data_type.numpy, data, strides=desc.memory.numpy_strides())
