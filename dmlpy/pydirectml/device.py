"""pydirectml's way from expressions to data: `GraphBuilder`, `Model`, `Binding` and `Device`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.compiler import Flags
from dmlpy.compiler import compile as compile_graph
from dmlpy.description.arrays import Buffer
from dmlpy.description.coercion import brief
from dmlpy.description.enums import ExecutionFlags
from dmlpy.description.tensors import MAX_UINT32
from dmlpy.devices import device as find_device
from dmlpy.messages.naming import listed, plural
from dmlpy.messages.problems import BindError, DescError, Problem
from dmlpy.pydirectml.expressions import Expression, exists, truth
from dmlpy.pydirectml.tensors import TensorData, TensorDesc, as_float32
from dmlpy.x import calls
from dmlpy.x.composition import graph
from dmlpy.x.producers import InputProducer
from dmlpy.x.source_locations import caller_location

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dmlpy.x.producers import TensorRef

_chosen: str | None = None
"""The device that `python -m dmlpy.pydirectml --device` selects, which overrides the script's."""


def choose_device(name: str | None) -> None:
    """Sets the device of every `Device` created from now on, like `numpy` or `cuda`; None lets the script choose.

    Raises:
        DeviceError: there is none.
    """
    global _chosen
    if name is not None:
        find_device(name)
    _chosen = name


class Binding:
    """Data for an input.

    Args:
        expr: what `input_tensor` gave.
        data: an array of any sizes. Its elements are cast to float32 in C order; only the number of bytes must be the tensor's, so
            [8, 1, 1] can be bound to sizes [1, 8, 28, 28] with strides [8, 1, 0, 0].
    """

    def __init__(self, expr: Expression, data: Any) -> None:
        self.expr = expr
        self.data = as_float32(data, f"Binding {caller_location()}")


class GraphBuilder:
    """A graph under construction, to which inputs belong. `device` runs its models."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self._inputs: dict[int, Expression] = {}

    def build(self, flags: Flags | Sequence[Flags], outputs: Sequence[Expression]) -> Model:
        """Compiles the expressions. Unused parts are removed.

        Raises:
            CompileError: operators that break rules, with the lines of the script that made them.
            DescError: an output that is an input, or an input under another desc: DirectMLX throws E_INVALIDARG.
        """
        if isinstance(flags, Expression) or (isinstance(flags, list | tuple) and any(isinstance(item, Expression) for item in flags)):
            problem = Problem("field.form", "flags", brief(flags), "ExecutionFlags", remedy="the flags come first: build(flags, outputs)")
            raise DescError(f"build {caller_location()}", [problem])
        _check_listed("build", "outputs", outputs)
        wanted = [output for output in outputs if exists(output)]
        if problems := [_copy(index, output) for index, output in enumerate(outputs) if exists(output) and _is_input(output)]:
            raise DescError(f"build {caller_location()}", problems)
        inputs = [self._inputs[index] for index in sorted(self._inputs)]
        return Model(compile_graph(graph(wanted, inputs=inputs), self.device.device, flags=flags or ExecutionFlags.NONE), wanted)

    def _input(self, index: int, desc: TensorDesc) -> Expression:
        problems = []
        if not isinstance(index, Integral) or isinstance(index, bool) or not 0 <= index <= MAX_UINT32:
            problems.append(Problem("graph.index", "input_index", brief(index), f"an integer from 0 to {MAX_UINT32}"))
        elif index in self._inputs:
            problems.append(Problem("graph.index", "input_index", str(index), "an index that no other input has"))
        if not isinstance(desc, TensorDesc):
            remedy = "dml.TensorDesc(dml.FLOAT32, sizes)"
            problems.append(Problem("field.form", "tensor_desc", brief(desc), "a TensorDesc of this module", remedy=remedy))
        if problems:
            raise DescError(f"input_tensor {caller_location()}", problems)
        self._inputs[index] = Expression(calls.input_ref(f"input_{index}", desc.desc))
        return self._inputs[index]


class Model:
    """A compiled graph."""

    def __init__(self, compiled: Any, outputs: Sequence[Expression]) -> None:
        _check_listed("Model", "outputs", outputs)
        self.compiled = compiled
        self.outputs = list(outputs)


class Device:
    """The device that runs models.

    Args:
        use_gpu: whether to use the first usable GPU, else `cpu`. `python -m dmlpy.pydirectml --device` overrides it.
        use_debug_layer: no effect: everything is always checked.
    """

    def __init__(self, use_gpu: bool = True, use_debug_layer: bool = False) -> None:
        self.device = find_device(_chosen if _chosen is not None else None if truth("Device", "use_gpu", use_gpu) else "cpu")

    def compute(self, model: Model, inputs: Sequence[Binding | None], outputs: Sequence[Expression | None]) -> list[TensorData]:
        """Runs a model.

        Args:
            model: what `GraphBuilder.build` gave.
            inputs: data for each input that the model reads, in any order; others may be among them.
            outputs: the outputs to return, of those that the model was built with.

        Returns:
            Each output's data, without those that are None.

        Raises:
            BindError: data of another number of bytes, none for an input, or data for one twice.
            DescError: an output that the model does not have, or no model.
        """
        if not isinstance(model, Model):
            problem = Problem("field.form", "model", brief(model), "what GraphBuilder.build gave", remedy="graph.build(flags, outputs)")
            raise DescError(f"compute {caller_location()}", [problem])
        _check_listed("compute", "inputs", inputs)
        _check_listed("compute", "outputs", outputs)
        stream = self.device.current_stream()
        memory = {name: self.device.upload(data, stream) for name, data in self._bytes(model, inputs).items()}
        given = {name: Buffer(item.pointer, item.size) for name, item in memory.items()}
        # Each call also passes the inputs that DirectML owns, so each dispatch is preceded by an initialization.
        owned = {name: given.pop(name) for name in model.compiled.prepared_inputs}
        run = model.compiled.prepare(owned, stream=stream) if owned else model.compiled
        found = run(stream=stream, **given)
        results = []
        for output in outputs:
            if output is not None and exists(output):
                results.append(TensorData.of(np.asarray(self.device.to_host(getattr(found, _name_of(model, output))))))
        return results

    @staticmethod
    def _bytes(model: Model, inputs: Sequence[Binding | None]) -> dict[str, np.ndarray[Any, Any]]:
        """The bytes of each input that the model reads, by name."""
        wanted = model.compiled.inputs
        given: dict[str, np.ndarray[Any, Any]] = {}
        problems = []
        for index, binding in enumerate(inputs):
            if hasattr(binding, "shape"):
                found = f"{brief(binding)} without its input"
                problems.append(Problem("bind.form", f"inputs[{index}]", found, "a Binding", remedy="Binding(expression, array)"))
            if not isinstance(binding, Binding) or not exists(binding.expr):
                continue
            name, data = binding.expr._ref.producer.name, binding.data
            if name not in wanted:
                continue
            needed = wanted[name].size_in_bytes
            if data.nbytes != needed:
                found = f"data of {data.nbytes} bytes, {listed(data.shape)} as float32"
                problems.append(Problem("bind.bytes", name, found, f"{needed} bytes", (f"its desc is {wanted[name].summary()}",)))
            if name in given:
                problems.append(Problem("bind.twice", name, "given twice", "one Binding"))
            given[name] = np.frombuffer(data.tobytes(), np.uint8)
        for name, tensor in wanted.items():
            if name not in given:
                problems.append(Problem("bind.missing", name, "not given", f"a Binding for {tensor.summary()}"))
        if problems:
            raise BindError(f"compute {caller_location()}", problems)
        return given

    def __repr__(self) -> str:
        return f"dml.Device on {'CPU' if self.device.memory_kind == 'cpu' else 'GPU'}"


def _check_listed(call: str, name: str, given: object) -> None:
    """Checks what is given for a list.

    Raises:
        DescError: it is a single expression or binding, a mapping, or nothing that has entries.
    """
    if isinstance(given, Expression | Binding | Mapping) or not isinstance(given, Iterable):
        remedy = "put it in a list" if isinstance(given, Expression | Binding) else None
        remedy = "Binding(expression, array) for each input" if isinstance(given, Mapping) else remedy
        expected = "a list of Bindings" if name == "inputs" else "a list of expressions"
        raise DescError(f"{call} {caller_location()}", [Problem("field.form", name, brief(given), expected, remedy=remedy)])


def _is_input(output: Expression) -> bool:
    """Whether no operator lies between an input and an output."""
    return isinstance(output._ref.producer, InputProducer)


def _copy(index: int, output: Expression) -> Problem:
    """The problem of such an output."""
    why = ("DirectMLX throws E_INVALIDARG: an edge of a graph begins or ends at a node",)
    found = f"{output._ref.producer.name} itself, or reinterpreted"
    return Problem("expression.operand", f"outputs[{index}]", found, "what an operator gives", why, "copy it: activation_identity(input)")


def _name_of(model: Model, output: Expression) -> str:
    """The name of a model's output."""
    for index, known in enumerate(model.outputs):
        if known is output or _same(known._ref, output._ref):
            return f"output_{index}"
    expected = f"one of the {plural(len(model.outputs), 'output')} that the model was built with"
    raise DescError(f"compute {caller_location()}", [Problem("expression.operand", "outputs", brief(output), expected)])


def _same(one: TensorRef, other: TensorRef) -> bool:
    return (one.producer, one.index, one.tensor) == (other.producer, other.index, other.tensor)
