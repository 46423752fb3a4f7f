"""`CompiledGraph`: a checked graph, planned on a device; and `PreparedGraph`, with its owned inputs prepared."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from textwrap import indent
from typing import TYPE_CHECKING, Any, Never, cast

import numpy as np

from dmlpy.description.coercion import brief
from dmlpy.description.enums import at_level
from dmlpy.description.flags import flag_problems, is_set
from dmlpy.description.outputs import Outputs
from dmlpy.devices.graphs.arguments import GraphArguments, immutable_problems
from dmlpy.devices.graphs.calls import GraphCalls
from dmlpy.devices.graphs.dispatch import GraphDispatch
from dmlpy.devices.graphs.hazards import areas_of, shared_memory
from dmlpy.devices.graphs.ir import NumberedInputs, node_name
from dmlpy.devices.graphs.launches import GraphLaunches
from dmlpy.devices.graphs.packing import Packing
from dmlpy.devices.memory import binding
from dmlpy.devices.memory.binding import BoundTensor, KnownLayouts
from dmlpy.devices.memory.binding_table import BoundNames, with_call_errors
from dmlpy.devices.persistence.pickling import Bytes, Refused, host_bytes
from dmlpy.devices.plan import BindingProperties
from dmlpy.messages.foreign_members import foreign_members
from dmlpy.messages.naming import plural
from dmlpy.messages.problems import BindError, Problem
from dmlpy.system import forks

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from dmlpy.description.enums import ExecutionFlags, FeatureLevel
    from dmlpy.description.tensors import TensorDesc
    from dmlpy.devices.device import Device, Memory
    from dmlpy.devices.graphs.program import GraphProgram
    from dmlpy.devices.graphs.report import GraphReport
    from dmlpy.devices.reporting.profile import Profile
    from dmlpy.graphs import Graph

Values = Any
"""Arrays or `Buffer`s by name, or a list of them in the graph's order."""


@foreign_members
class CompiledGraph:
    """A graph on a device: its nodes run one after the other, on one stream. Immutable; threads may share it.

    A pickle holds the graph, the device's name, the feature level, the flags and whether activations are fused: it is compiled again where
    it is loaded, once in a process. `cuda` is the first GPU there; any other index stays as it was named.

    Attributes:
        graph: the compiled graph.
        device: the device that it runs on.
        feature_level: the level that it was checked against; None if it has tensors of BFLOAT16, which no level accepts.
        flags: the execution flags, of every node.
        fuse: whether activations are moved into the operators before them.
    """

    def __init__(
        self,
        graph: Graph,
        program: GraphProgram,
        device: Device,
        feature_level: FeatureLevel | None,
        flags: ExecutionFlags,
        *,
        fuse: bool,
        traced: Callable[[], CompiledGraph],
    ) -> None:
        self.graph = graph
        self.device = device
        self.feature_level = feature_level
        self.flags = flags
        self.fuse = fuse
        self.name = graph.name or "graph"
        self._traced = traced
        self._program = program
        self._layouts = {name: KnownLayouts() for name in (*self.inputs, *self.outputs)}
        order = graph.input_names or NumberedInputs(graph.input_count)
        self._arguments = GraphArguments(device, self._layouts, self.prepared_inputs, order, program.alignment)
        stream = device.current_stream()
        # DirectML too copies constants when it compiles.
        self._constants = {
            source: device.upload(np.frombuffer(node.data, np.uint8), stream)
            for source in program.raw_constants
            if (node := program.ir.constant(source)) is not None
        }
        self._packing = Packing(program, device, self.name)
        self._lock = forks.lock()
        self._packed_constants: Memory | None = None
        self._calls: GraphCalls | None = None

    @cached_property
    def inputs(self) -> dict[str, TensorDesc]:
        """The inputs to bind, by name (`input_0`, ... if the graph has no names), without inputs that feed no node."""
        return {name: tensor for name, (_, tensor) in self._program.ir.inputs.items()}

    @cached_property
    def outputs(self) -> dict[str, TensorDesc]:
        """The outputs, by name (`output_0`, ...)."""
        return dict(self._program.ir.bound_outputs)

    @property
    def prepared_inputs(self) -> tuple[str, ...]:
        """The inputs that are flagged OWNED_BY_DML, which `prepare` takes all at once, in the graph's order."""
        return self._program.ir.owned

    @cached_property
    def _prepared_names(self) -> frozenset[str]:
        """`prepared_inputs` for look-ups: a model may have thousands of weights."""
        return frozenset(self.prepared_inputs)

    @cached_property
    def _unprepared_inputs(self) -> dict[str, TensorDesc]:
        """The inputs that each dispatch binds, by name."""
        return {name: tensor for name, tensor in self.inputs.items() if name not in self._prepared_names}

    @property
    def binding_properties(self) -> BindingProperties:
        """The bytes of scratch, which holds all tensors between nodes, and of what `prepare` copies and packs."""
        count = self.graph.input_count + self.graph.output_count
        return BindingProperties(count, self._program.plan.size, self._program.persistent_size)

    @property
    def plan(self) -> str:
        """Describes which kernels run each node and why, in the order in which the nodes run."""
        graph = self._program.ir.graph
        return "\n".join(f"{node_name(graph, step.node)}\n{indent(step.operator.plan, '    ')}" for step in self._program.steps)

    def explain_plan(self) -> GraphReport:
        """Reports the order of the nodes, the plan of the memory, and the work and predicted cost of one dispatch.

        The figures are the sums of `CompiledOperator.explain_plan` over all nodes that run; the nodes' reports are its `parts`.
        """
        from dmlpy.devices.graphs.report import report_of

        return report_of(self.graph.name or self.graph.c_name, self.device.name, self._program)

    def memory_svg(self) -> str:
        """A picture of the scratch: each tensor as a box from the step that writes it to the last one that reads it, at its place."""
        from dmlpy.devices.graphs.picture import memory_svg

        return memory_svg(self._program)

    def prepare(
        self,
        inputs: Values = None,
        /,
        *,
        persistent: Any = None,
        stream: Any = None,
        copy: bool = False,
        portable: bool = False,
        immutable: Collection[str] = (),
        on_packed: Callable[[str], None] | None = None,
        **owned: Any,
    ) -> PreparedGraph:
        """Copies the owned inputs and packs the constants once for all later dispatches, as DirectML's initializer does.

        Args:
            inputs: the owned inputs by name or as a list in the graph's order, as for `bind`, if they are not given as keywords.
            persistent: memory to copy and pack into (`binding_properties.persistent_resource_size` bytes); None allocates it.
            stream: as for `Dispatch`; later work must be ordered after it.
            copy: whether arrays in host memory are copied to a GPU.
            portable: whether copies of the owned inputs are stored in host memory, as for `CompiledOperator.prepare`. A graph without owned
                inputs is portable.
            immutable: names of owned inputs whose arrays will not change: large ones in host memory are not copied for a device that reads
                them there.
            on_packed: called with the name of an owned input as soon as its array is not read any more, before the next one is packed, so
                that it may be freed. On a GPU it is not called: work may still wait there.
            **owned: all of `prepared_inputs`, by name. Memory of those not named in `immutable` may be changed or freed once the stream has
                completed this call.

        Raises:
            BindError: an input is missing or does not fit; nothing was written.
            DeviceError: not enough memory, a failed launch.
        """
        handle = self.device.stream_handle(stream)
        given = owned if inputs is None else inputs
        problems = [Problem("bind.form", "inputs", "given beside keywords", "either of them")] if inputs is not None and owned else []
        work = self._preparation(
            given, persistent, handle, problems, copy=copy, portable=portable, immutable=immutable, on_packed=on_packed
        )
        return cast("PreparedGraph", work.enqueue(None))

    def _preparation(
        self,
        given: Values,
        persistent: Any,
        handle: int,
        problems: list[Problem],
        *,
        copy: bool,
        portable: bool = False,
        immutable: Collection[str] = (),
        on_packed: Callable[[str], None] | None = None,
    ) -> binding.Preparation:
        """Checks the arguments of `prepare`, and returns its work, which takes scratch or None."""
        wanted = {name: self.inputs[name] for name in self.prepared_inputs}
        bound, wrong = self._arguments.bind_inputs(given, wanted, handle if is_set(copy) else None)
        problems = wrong + problems + immutable_problems(immutable, self.prepared_inputs) + flag_problems(copy=copy, portable=portable)
        producers: list[int] = []
        memory, area, wrong = self._arguments.resource("persistent", persistent, self._program.persistent_size, producers)
        problems += wrong
        problems = problems or shared_memory(bound, [], {"persistent": area} if area else {}, packing=True)
        if problems:
            raise BindError(f"{self.name}.prepare", problems)

        def enqueue(temporary: Memory | None) -> PreparedGraph:
            binding.order_after_producers(self.device, bound, handle, producers)
            # First, since it raises in a capture, which must then be undisturbed.
            kept = {item.name: host_bytes(item, self.device, handle) for item in bound} if portable or not bound else None
            filled = self._packing.pack(bound, memory, handle, temporary, immutable=immutable, on_packed=on_packed)
            return PreparedGraph(self, filled, kept)

        return binding.Preparation(enqueue, bound, area)

    def __call__(self, *unnamed: Never, stream: Any = None, copy: bool = False, temporary: Any = None, **tensors: Any) -> Any:
        """Runs once. Owned inputs are among the arguments; they are copied and packed for this call.

        If the stream is being captured, the call is captured, and the memory that it allocates is kept as long as the CUDA graph.

        Args:
            *unnamed: nothing: arrays are given by name.
            stream: as for `Dispatch`.
            copy: whether arrays in host memory are copied to a GPU, and passed outputs back; not during a capture.
            temporary: scratch, as for `bind`; None allocates it. It may be reused as soon as the stream has completed this call.
            **tensors: arrays or `Buffer`s of the inputs, and of outputs to fill, by name.

        Returns:
            Outputs: those that were not passed are allocated.

        Raises:
            BindError: arrays or scratch that do not fit; nothing was written.
            DeviceError: not enough memory, a failed launch.
        """
        if unnamed:
            raise binding.unnamed_error(self.name, self.inputs, unnamed)
        return self._run(tensors, None, stream, copy=copy, temporary=temporary)

    def trace(self, inputs: Values = None, /, *, stream: Any = None, **tensors: Any) -> dict[str, Any]:
        """Runs once and returns the outputs of each node, to find a node with wrong results.

        Every node runs separately, with nothing fused or skipped, into separate memory.

        Args:
            inputs: all inputs by name, if they are not given as keywords; owned ones are among them.
            stream: as for `Dispatch`.
            **tensors: the inputs.

        Returns:
            Arrays in the order in which the nodes run: by the node's name, or `node 3` for one without, with `.output_tensor` behind it for
            a node of several outputs, and `(node 3)` behind a name that several nodes have.

        Raises:
            BindError: inputs that do not fit.
        """
        given = tensors if inputs is None else inputs
        if not isinstance(given, Mapping):
            raise BindError(
                f"{self.name}.trace", [Problem("bind.form", "inputs", brief(given), "a mapping of the inputs' names to arrays")]
            )
        traced = self._traced()
        ir = traced._program.ir
        values = traced._run(given, None, stream, copy=False, temporary=None).as_dict()
        order = {index: step for step, index in enumerate(ir.order())}
        sources = sorted(ir.tensors, key=lambda source: (order[source[0] or 0], source[1]))
        return {label: values[f"{index}.{at}"] for (index, at), label in zip(sources, ir.labels(sources), strict=True)}

    def profile(self, inputs: Values = None, /, *, runs: int = 20, stream: Any = None, **tensors: Any) -> Profile:
        """Measures a dispatch with constants packed, as a whole and node by node. This synchronises.

        Args:
            inputs: all inputs by name, if they are not given as keywords; owned ones are among them. Arrays in host memory are copied to a
                GPU first.
            runs: how many runs are measured, after one that is not.
            stream: as for `Dispatch`.
            **tensors: the inputs.

        Raises:
            BindError: inputs that do not fit.
            DescError: `runs` is not a number from 1 on.
            DeviceError: not enough memory, a failed launch.
        """
        return self._profile(tensors if inputs is None else inputs, None, runs, stream)

    def _profile(self, given: Values, persistent: Memory | None, runs: int, stream: Any) -> Profile:
        from dmlpy.devices.reporting.profile import checked_runs  # imports tables

        handle = self.device.stream_handle(stream)
        checked_runs(runs, f"{self.name}.profile")
        wanted = {name: tensor for name, tensor in self.inputs.items() if persistent is None or name not in self._prepared_names}
        bound, problems = self._arguments.bind_inputs(given, wanted, handle)
        if problems:
            raise BindError(f"{self.name}.profile", problems)
        allocated = self.device.outputs(self.outputs, handle, f"outputs of {self.name}")
        written = [binding.bind_allocated(self.device, name, self.outputs[name], array) for name, array in allocated.items()]
        binding.order_after_producers(self.device, bound, handle, [])
        if persistent is None and self.prepared_inputs:
            persistent = self._packing.pack([item for item in bound if item.name in self._prepared_names], None, handle)
        others = [item for item in bound if item.name not in self._prepared_names]
        return self._dispatch(others, written, None, persistent, handle, repeated=True).profile(runs, handle)

    @with_call_errors
    def bind(self, inputs: Values, outputs: Values, temporary: Any = None, persistent: Any = None) -> GraphDispatch:
        """Binds memory for many dispatches.

        A node may read more of another's output than that node writes: gaps between strided elements, or bytes after the last one. They
        are zero.

        Args:
            inputs: arrays or `Buffer`s by name, or a list of them in the graph's order, with None for inputs that feed no node and for
                those that `prepare` has copied.
            outputs: the same.
            temporary: scratch (`binding_properties.temporary_resource_size` bytes); None allocates it.
            persistent: memory that `prepare` filled; a graph without owned inputs packs its constants by itself where it is None.

        Raises:
            BindError: memory that does not fit, is missing, or is used twice, or the owned inputs of the graph were not prepared.
            DeviceError: not enough memory for the scratch.
        """
        producers: list[int] = []
        memory, _, problems = self._arguments.resource("persistent", persistent, self._program.persistent_size, producers)
        if persistent is None and self.prepared_inputs:
            names = ", ".join(self.prepared_inputs)
            remedy = "bind what g.prepare(...) returns, or pass the memory that it has filled as persistent"
            why = (f"{names}: flagged OWNED_BY_DML",)
            problems = [Problem("bind.unprepared", "persistent", "not given", "memory with the owned inputs of the graph", why, remedy)]
        return self._bind(inputs, outputs, temporary, memory, problems, producers)

    def _bind(
        self,
        inputs: Values,
        outputs: Values,
        temporary: Any,
        persistent: Memory | None,
        problems: Sequence[Problem] = (),
        producers: Sequence[int] = (),
    ) -> GraphDispatch:
        """Binds as `bind` does; `problems` are those found so far, `producers` the streams that fill `persistent`."""
        bound, wrong = self._arguments.bind_inputs(inputs, self._unprepared_inputs)
        written, wrong_outputs = self._arguments.bind_outputs(outputs, self.outputs)
        all_problems, streams = [*problems, *wrong, *wrong_outputs], [*producers]
        scratch, _, wrong = self._arguments.resource("temporary", temporary, self._program.plan.size, streams)
        all_problems = all_problems + wrong or shared_memory(bound, written, areas_of(scratch, persistent))
        if all_problems:
            raise BindError(self.name, all_problems)
        stream = self.device.current_stream()
        if scratch is None:
            scratch = self._allocate_scratch(stream)
            streams += binding.previous_users(self.device, scratch, stream)
        return self._dispatch(bound, written, scratch, persistent, stream, streams, repeated=True)

    def _dispatch(
        self,
        bound: Sequence[BoundTensor],
        written: Sequence[BoundTensor],
        scratch: Memory | None,
        persistent: Memory | None,
        stream: int,
        producers: Sequence[int] = (),
        *,
        repeated: bool,
    ) -> GraphDispatch:
        scratch = scratch or self._allocate_scratch(stream)
        persistent = persistent or self._own_constants()
        return GraphDispatch(self, bound, written, self._constants, scratch, persistent, producers, repeated=repeated)

    def _run(
        self,
        tensors: Mapping[str, Any],
        persistent: Memory | None,
        stream: Any,
        *,
        copy: bool,
        temporary: Any,
        calls: GraphCalls | None = None,
    ) -> Outputs:
        handle = self.device.stream_handle(stream)
        calls = (calls or self._own_calls(persistent)) if self.device.memory_kind == "cpu" else None
        if calls is not None and temporary is None and copy is False and (outputs := calls.on_arrays(tensors, handle)) is not None:
            return Outputs(outputs)
        copied_on = handle if is_set(copy) else None
        copied_back: list[tuple[np.ndarray[Any, Any], BoundTensor]] = []
        results = {name: tensors.get(name) for name in self.outputs}
        given = {name: value for name, value in tensors.items() if name not in results}
        taken = frozenset[str]() if persistent is None else self._prepared_names
        wanted = {name: tensor for name, tensor in self.inputs.items() if name not in taken}
        bound, problems = self._arguments.bind_inputs(given, wanted, copied_on)
        passed = {name: value for name, value in results.items() if value is not None}
        written, wrong = self._arguments.bind_outputs(passed, {name: self.outputs[name] for name in passed}, copied_on, copied_back)
        producers: list[int] = []
        scratch, _, wrong_scratch = self._arguments.resource("temporary", temporary, self._program.plan.size, producers)
        problems += wrong + wrong_scratch + flag_problems(copy=copy)
        problems = problems or shared_memory(bound, written, areas_of(scratch, persistent))
        if problems:
            raise BindError(self.name, problems)
        absent = {name: self.outputs[name] for name, value in results.items() if value is None}
        allocated = self.device.outputs(absent, handle, f"outputs of {self.name}")
        results.update(allocated)
        written += [binding.bind_allocated(self.device, name, absent[name], array) for name, array in allocated.items()]
        binding.order_after_producers(self.device, [*bound, *written], handle, producers)
        if persistent is None and self.prepared_inputs:
            persistent = self._packing.pack([item for item in bound if item.name in self._prepared_names], None, handle)
        others = [item for item in bound if item.name not in self._prepared_names]
        if calls is not None:
            calls.run({item.name: item.pointer for item in (*others, *written)}, scratch, handle)
        else:
            self._dispatch(others, written, scratch, persistent, handle, repeated=False)(handle)
        for host, item in copied_back:
            data = np.frombuffer(self.device.read(item.pointer, item.desc.extent_in_bytes, handle), np.uint8)
            binding.copy_back(data, item.desc, host)
        return Outputs(results)

    def _own_calls(self, persistent: Memory | None) -> GraphCalls | None:
        """The calls of a graph without owned inputs; None if its inputs are packed for each call."""
        if persistent is not None or self.prepared_inputs:
            return None
        if self._calls is None:
            self._calls = self._calls_with(self._own_constants())
        return self._calls

    def _calls_with(self, persistent: Memory | None) -> GraphCalls:
        """Calls with owned inputs and packed constants in this memory."""
        program, device, name, size = self._program, self.device, self.name, self._program.plan.size
        label, constants, packing = self.graph.label, self._constants, self._packing
        return GraphCalls(
            device,
            name,
            self._unprepared_inputs,
            self.outputs,
            areas_of(None, persistent).values(),
            size,
            lambda: GraphLaunches(program, device, name, label, constants, persistent),
            lambda size: packing.allocate(size, device.current_stream(), f"the tensors and scratch of {name}"),
        )

    def _own_constants(self) -> Memory | None:
        """The packed constants of a graph without owned inputs: packed once, when they are first needed."""
        if not self._program.persistent_size or self.prepared_inputs:
            return None
        with self._lock:
            if self._packed_constants is None:
                stream = self.device.current_stream()
                packed = self._packing.pack([], None, stream)
                self.device.synchronize(stream)  # dispatches may go into other streams
                self._packed_constants = packed
        return self._packed_constants

    def _allocate_scratch(self, stream: int) -> Memory:
        return self._packing.allocate(self._program.plan.size, stream, f"the tensors and scratch of {self.name}")

    def _bound_names(self) -> BoundNames:
        return BoundNames(self.name, tuple(self._unprepared_inputs), tuple(self.outputs))

    def _repr_html_(self) -> str:
        from dmlpy.messages.tables import paragraph_html

        return self.graph._repr_html_() + paragraph_html(repr(self)) + self.memory_svg()

    def __copy__(self) -> CompiledGraph:
        return self

    def __deepcopy__(self, memo: Any) -> CompiledGraph:
        return self

    def __repr__(self) -> str:
        return f"<graph of {plural(len(self.graph.nodes), 'node')} compiled for {self.device.name} {at_level(self.feature_level)}>"


@foreign_members
class PreparedGraph:
    """A compiled graph with its owned inputs prepared. Called and bound like the graph, without them. Immutable.

    A pickle holds the graph's and, if it was prepared with `portable=True` or has no owned inputs, those inputs, which are repacked
    where it is loaded. Else it holds the packed bytes, and loading it raises `PickleError` if plans pack in another layout.

    Attributes:
        graph: the compiled graph.
    """

    def __init__(self, graph: CompiledGraph, memory: Memory, owned: Mapping[str, Bytes] | None = None) -> None:
        self.graph = graph
        self._memory, self._owned = memory, owned

    @cached_property
    def _calls(self) -> GraphCalls:
        return self.graph._calls_with(self._memory)

    @property
    def device(self) -> Device:
        """The device that runs the graph, and in whose memory the packed constants are."""
        return self.graph.device

    @property
    def inputs(self) -> dict[str, TensorDesc]:
        """The inputs that are still to bind, by name."""
        return self.graph._unprepared_inputs

    @property
    def outputs(self) -> dict[str, TensorDesc]:
        """The outputs, by name."""
        return self.graph.outputs

    @property
    def binding_properties(self) -> BindingProperties:
        """Those of the graph: the bytes of scratch and of packed constants."""
        return self.graph.binding_properties

    @property
    def plan(self) -> str:
        """The plan of the graph, as `CompiledGraph.plan` describes it."""
        return self.graph.plan

    def explain_plan(self) -> GraphReport:
        """Reports what `CompiledGraph.explain_plan` reports."""
        return self.graph.explain_plan()

    def shared_with(self, graph: CompiledGraph) -> PreparedGraph | None:
        """Another graph, such as one for other sizes, prepared with the same memory; None if it is not known to have the same packing."""
        layout = self.graph._packing.layout
        alike = graph.device is self.device and layout is not None and layout == graph._packing.layout
        return PreparedGraph(graph, self._memory, self._owned) if alike else None

    def __call__(self, *unnamed: Never, stream: Any = None, copy: bool = False, temporary: Any = None, **tensors: Any) -> Any:
        """Runs once, as `CompiledGraph.__call__` does, without the owned inputs."""
        if unnamed:
            raise binding.unnamed_error(self.graph.name, self.graph._unprepared_inputs, unnamed)
        return self.graph._run(tensors, self._memory, stream, copy=copy, temporary=temporary, calls=self._calls)

    def profile(self, inputs: Values = None, /, *, runs: int = 20, stream: Any = None, **tensors: Any) -> Profile:
        """Measures a dispatch, as `CompiledGraph.profile` does, without the owned inputs."""
        return self.graph._profile(tensors if inputs is None else inputs, self._memory, runs, stream)

    @with_call_errors
    def bind(self, inputs: Values, outputs: Values, temporary: Any = None) -> GraphDispatch:
        """Binds memory for many dispatches, as `CompiledGraph.bind` does; in a list the owned inputs are None."""
        return self.graph._bind(inputs, outputs, temporary, self._memory)

    def _bound_names(self) -> BoundNames:
        return self.graph._bound_names()

    def __reduce__(self) -> tuple[Any, ...]:
        packing = self.graph._packing
        if self._owned is not None:
            return _pack_again, (self.graph, self._owned)
        return _restore_prepared, (self.graph, packing.packed_bytes(self._memory), packing.fingerprint())

    def __copy__(self) -> PreparedGraph:
        return self

    def __deepcopy__(self, memo: Any) -> PreparedGraph:
        return self

    def __repr__(self) -> str:
        return f"<graph of {plural(len(self.graph.graph.nodes), 'node')} prepared for {self.device.name}>"


def _restore_prepared(graph: CompiledGraph | Refused, packed: Bytes, fingerprint: bytes) -> PreparedGraph | Refused:
    """Restores a prepared graph from a pickle with packed bytes."""
    if isinstance(graph, Refused):
        return graph
    return PreparedGraph(graph, graph._packing.restore(packed, fingerprint))


def _pack_again(graph: CompiledGraph | Refused, owned: Mapping[str, Bytes]) -> PreparedGraph | Refused:
    """Restores a prepared graph from a pickle with its owned inputs."""
    if isinstance(graph, Refused):
        return graph
    device, handle = graph.device, graph.device.current_stream()
    sources = {name: device.upload(data, handle) for name, data in owned.items()}
    bound = [BoundTensor(name, graph.inputs[name], False, source.pointer, source) for name, source in sources.items()]
    memory = graph._packing.pack(bound, None, handle)
    device.synchronize(handle)  # dispatches may go into other streams
    return PreparedGraph(graph, memory, owned)
