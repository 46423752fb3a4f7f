"""Loop, Scan and SequenceMap that are not unrolled: their bodies are compiled like models, and iterations run one by one."""

from __future__ import annotations

from contextlib import nullcontext
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from onnx import TensorProto, helper

from dmlpy.messages.naming import listed
from dmlpy.messages.problems import DeviceError, Problem
from dmlpy.onnx.loading.elements import dtype_of
from dmlpy.onnx.loading.values import Value, value_from_proto
from dmlpy.onnx.lowering import subgraphs
from dmlpy.onnx.lowering.cache import WAITING_BYTES
from dmlpy.onnx.runtime.deferred_nodes import form_of
from dmlpy.onnx.runtime.loop_iterations import LoopFlow

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence
    from contextlib import AbstractContextManager

    from onnx import GraphProto, ValueInfoProto

    from dmlpy.onnx.loading.values import Array
    from dmlpy.onnx.lowering.stages import HostNode
    from dmlpy.onnx.runtime.bound_runs import Signature
    from dmlpy.onnx.runtime.compile_context import CompileContext
    from dmlpy.onnx.runtime.loop_iterations import LoopIterations, LoopOutcome


class LoopRun:
    """A node of control flow whose body runs many times.

    Args:
        node: the node, a Loop, a Scan or a SequenceMap.
        context: what its body is compiled for.
    """

    def __init__(self, node: HostNode, context: CompileContext) -> None:
        self._node = node
        self._context = context
        self._attributes = {item.name: helper.get_attribute_value(item) for item in node.proto.attribute}
        self._body: GraphProto = self._attributes["body"]
        of_body = {item.name: value_from_proto(item.name, item.type) for item in self._body.input}
        around = {name: node.reads[name] for name in subgraphs.captured_names(node.proto)}
        graph = self._body
        self._take = context.lowering_of(graph, node.opsets)
        self._around = [name for name, value in around.items() if value.array is None]
        self._reads = around | of_body
        self._iteration = context.defer(self._take, self._reads, list(dict.fromkeys(item.name for item in graph.output)))
        self._is_on_host = context.device.memory_kind == "cpu"
        self._inputs, self._outputs = [item.name for item in graph.input], [item.name for item in graph.output]

    def __call__(self, values: Mapping[str, Any]) -> list[Any]:
        """The node's outputs, as many as its body gives.

        Args:
            values: what the node reads, by name.
        """
        given = [values[name] if name else None for name in self._node.proto.input]
        around = {name: self._array(values[name]) for name in self._around}
        runs = {"Loop": self._run_loop, "Scan": self._run_batched_scan, "SequenceMap": self._run_map}
        return runs[self._node.proto.op_type](given, around)

    def _run_loop(self, given: Sequence[Any], around: Mapping[str, Any]) -> list[Any]:
        most = None if given[0] is None else int(self._scalar(0, given[0]))
        goes_on = len(given) < 2 or given[1] is None or bool(self._scalar(1, given[1]))
        states = list(given[2:])
        rows: list[list[Any]] = [[] for _ in self._body.output[1 + len(states) :]]
        step = 0
        while goes_on and (most is None or step < most):
            values = self._values([np.asarray(step, np.int64), np.asarray(goes_on), *states], around)
            with self._in_place(values) as running:
                if running is not None:
                    iterations, stream = running
                    ran = iterations.run(step, None if most is None else most - step, [], stream)
                    step, goes_on = step + ran.iterations, ran.goes_on
                    states = self._following(iterations, rows, ran)
                    continue
            outputs = [*map(self._array, self._run(values))]
            goes_on = bool(self._context.to_host(outputs[0]).item(0))
            states = outputs[1 : 1 + len(states)]
            self._append(rows, outputs[1 + len(states) :])
            step += 1
        first = [np.asarray(0, np.int64), np.asarray(True), *given[2:]]
        items = self._body.output[1 + len(states) :]
        return [*states, *(self._stack_rows(row, item, 0, first, around) for row, item in zip(rows, items, strict=True))]

    def _run_map(self, given: Sequence[Any], around: Mapping[str, Any]) -> list[Any]:
        """Lists of what the body gives for each tensor of the first sequence; all iterations read the same tensors of other inputs."""
        lengths = [len(sequence) for sequence in given if isinstance(sequence, list)]
        if len({*lengths}) > 1:
            raise self._failure("the sequences", f"of lengths {lengths}", "sequences of one length")
        rows: list[list[Any]] = [[] for _ in self._outputs]
        for place in range(lengths[0]):
            items = [each[place] if isinstance(each, list) else each for each in given]
            for row, output in zip(rows, self._run(self._values(items, around)), strict=True):
                row.append(output)
        return rows

    def _run_batched_scan(self, given: Sequence[Any], around: Mapping[str, Any]) -> list[Any]:
        if self._opset >= 9:
            return self._run_scan(given, around)
        batches = [self._context.to_host(value) for value in given[1:]]
        states = len(batches) - int(self._attributes["num_scan_inputs"])
        batch, steps = batches[0].shape[0], batches[states].shape[1]
        lengths = [steps] * batch if given[0] is None else self._sequence_lens(given[0], batch, steps)
        by_sample = []
        for entry, length in enumerate(lengths):
            scanned = [array[entry, :length] for array in batches[states:]]
            values = map(self._context.to_host, self._run_scan([*(array[entry] for array in batches[:states]), *scanned], around))
            by_sample.append([value if index < states else _lengthened(value, steps) for index, value in enumerate(values)])
        return [np.stack(entries) for entries in zip(*by_sample, strict=True)]

    def _sequence_lens(self, given: Any, batch: int, steps: int) -> list[int]:
        """The number of steps of each sequence of a batch."""
        lengths = self._context.to_host(given)
        if lengths.shape != (batch,) or lengths.min(initial=1) < 1 or lengths.max(initial=steps) > steps:
            raise self._failure(
                "input 0 'sequence_lens'", f"{lengths.tolist()}", f"{batch} numbers from 1 to {steps}, one for each sequence"
            )
        return [int(length) for length in lengths]

    def _run_scan(self, given: Sequence[Any], around: Mapping[str, Any]) -> list[Any]:
        scanned = int(self._attributes["num_scan_inputs"])
        first = len(given) - scanned
        states = list(given[:first])
        rows: list[list[Any]] = [[] for _ in self._body.output[first:]]
        axes = self._attributes.get("scan_input_axes") or [0] * scanned
        turned = self._attributes.get("scan_input_directions" if self._opset >= 9 else "directions") or [0] * scanned
        arrays = [np.moveaxis(self._context.to_host(value), axis, 0) for value, axis in zip(given[first:], axes, strict=True)]
        lengths = sorted({len(array) for array in arrays})
        if len(lengths) > 1:
            raise self._failure("the scanned inputs", f"of lengths {lengths}", "inputs of one length along their axes")
        arrays = [array[::-1] if turn else array for array, turn in zip(arrays, turned, strict=True)]
        step, steps = 0, lengths[0] if lengths else 0
        while step < steps:
            values = self._values([*states, *(array[step] for array in arrays)], around)
            with self._in_place(values) as running:
                if running is not None:
                    iterations, stream = running
                    ran = iterations.run(step, steps - step, [array[step:] for array in arrays], stream)
                    states, step = self._following(iterations, rows, ran), steps
                    continue
            outputs = self._run(values)
            states, step = outputs[:first], step + 1
            self._append(rows, outputs[first:])
        axes = self._attributes.get("scan_output_axes") or [0] * len(rows)
        turned = self._attributes.get("scan_output_directions") or [0] * len(rows)
        entry = [*given[:first], *(np.zeros(array.shape[1:], array.dtype) for array in arrays)]
        stacked = [
            self._stack_rows(row, item, axis, entry, around, turned=bool(turn))
            for row, item, axis, turn in zip(rows, self._body.output[first:], axes, turned, strict=True)
        ]
        return [*states, *stacked]

    def _stack_rows(
        self,
        blocks: Sequence[Array],
        item: ValueInfoProto,
        axis: int,
        first: Sequence[Any],
        around: Mapping[str, Any],
        *,
        turned: bool = False,
    ) -> Array:
        """The results of the iterations for an output of the body, along an axis; without iterations a tensor without elements.

        Args:
            blocks: the rows of some iterations each.
            item: the output.
            axis: the dimension of the iterations.
            first: what the first iteration reads, by the body's inputs.
            around: what the body reads of the graph around it.
            turned: whether the last iteration is first.
        """
        if blocks:
            shapes = [list(each) for each in sorted({block.shape[1:] for block in blocks})]
            if len(shapes) > 1:
                raise self._failure(
                    f"output {item.name!r} of its body", f"of sizes {listed(shapes)}", "of the same sizes in each iteration"
                )
            rows = blocks[0] if len(blocks) == 1 else np.concatenate(blocks)
            return np.ascontiguousarray(np.moveaxis(rows[::-1] if turned else rows, 0, axis))
        row = value_from_proto(item.name, item.type)
        if row.element is None or not row.is_static:
            row = self._inferred_row(item.name, first, around) or row
        sizes = [size if isinstance(size, int) else 0 for size in row.sizes or ()]
        sizes.insert(axis if axis >= 0 else axis + len(sizes) + 1, 0)
        return np.empty(sizes, dtype_of(row.element or TensorProto.FLOAT))

    def _inferred_row(self, name: str, first: Sequence[Any], around: Mapping[str, Any]) -> Value | None:
        """The type and sizes of an output of the body, kept for the types and sizes of what the first iteration would read."""
        values = {read: value for read, value in self._values(first, around).items() if read in self._reads}
        key = LoopRun, self, name, tuple((read, form_of(value)) for read, value in values.items())
        row: Value | None = self._context.cache.get(key)
        if row is None:
            inferred = self._context.infer_values(self._take, self._reads, values, [name]).get(name)
            if inferred is not None:
                row = Value(name, inferred.element, inferred.sizes)
                self._context.cache.put(key, row, WAITING_BYTES)
        return row

    def _append(self, rows: Sequence[list[Array]], outputs: Sequence[Any]) -> None:
        """Appends what an iteration gives to the blocks of rows."""
        for row, output in zip(rows, outputs, strict=True):
            row.append(self._context.to_host(output)[np.newaxis])

    def _following(self, iterations: LoopIterations, rows: Sequence[list[Array]], ran: LoopOutcome) -> list[Any]:
        """The states after iterations in place, whose rows it appends."""
        for row, blocks in zip(rows, ran.rows, strict=True):
            row += blocks
        first = self._flow.condition is not None
        return [iterations.outputs[name].copy() for name in [*self._flow.fed_back.values()][first:]]

    def _values(self, given: Sequence[Any], around: Mapping[str, Any]) -> dict[str, Any]:
        """The inputs of one iteration, by name."""
        values = dict(around)
        values.update(zip(self._inputs, map(self._array, given), strict=False))
        return values

    def _run(self, values: Mapping[str, Any]) -> list[Any]:
        """The outputs of one iteration."""
        results = self._context.recurring.values(self._iteration, values, self._signature(values))
        return [results[name] for name in self._outputs]

    def _in_place(self, values: Mapping[str, Any]) -> AbstractContextManager[tuple[LoopIterations, int] | None]:
        """The iterations in place, and their stream, if the graphs of one are bound together and have all their memory; else None.

        Args:
            values: what the next iteration reads.
        """
        key = self._signature(values)
        bound = None if key is None else self._context.recurring.find(key)
        return nullcontext() if bound is None else bound.iterations(values, self._flow)

    @cached_property
    def _flow(self) -> LoopFlow:
        """How values flow from one iteration of a Loop or a Scan to the next."""
        inputs, outputs = self._inputs, self._outputs
        if self._node.proto.op_type == "Loop":
            following, kept = dict(zip(inputs[1:], outputs, strict=False)), outputs[max(1, len(inputs) - 1) :]
            return LoopFlow(following, inputs[0], [], kept, outputs[0])
        first = len(inputs) - int(self._attributes["num_scan_inputs"])
        return LoopFlow(dict(zip(inputs[:first], outputs, strict=False)), None, inputs[first:], outputs[first:], None)

    def _array(self, value: Any) -> Any:
        """A value as the iterations take it: in host memory an array of NumPy, which costs no copy there."""
        return self._context.to_host(value) if self._is_on_host else value

    def _signature(self, values: Mapping[str, Any]) -> Signature | None:
        """The types and sizes of what an iteration reads, and whose it is; None if it is not all arrays in host memory."""
        signature: list[Hashable] = [self]
        for value in values.values():
            if type(value) is not np.ndarray:
                return None
            signature.append((value.dtype, value.shape))
        return tuple(signature)

    @property
    def _opset(self) -> int:
        return self._node.opsets[""]

    def _scalar(self, index: int, value: Any) -> Any:
        """The only element of an input."""
        array = np.ravel(self._context.to_host(value))
        if len(array) != 1:
            raise self._failure(
                f"input {index} {('M', 'cond')[index]!r}", f"of {len(array)} elements", "one element, an integer or a truth value"
            )
        return array[0]

    def _failure(self, path: str, found: str, expected: str) -> DeviceError:
        return DeviceError(self._node.proto.name, [Problem("onnx.invalid", path, found, expected)])


def _lengthened(rows: Array, steps: int) -> Array:
    """The rows of a shorter sequence, followed by zeros."""
    made = np.zeros((steps, *rows.shape[1:]), rows.dtype)
    made[: len(rows)] = rows
    return made
