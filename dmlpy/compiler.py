"""`compile`: checks a desc and plans it on a device."""

from __future__ import annotations

import copyreg
import logging
import pickle
from contextlib import suppress
from functools import lru_cache
from textwrap import indent
from typing import TYPE_CHECKING, Any, overload

from dmlpy.debugging import PLANS
from dmlpy.description.coercion import brief
from dmlpy.description.descs import OperatorDesc
from dmlpy.description.enums import ExecutionFlags, FeatureLevel, TensorFlags
from dmlpy.description.flags import check_flags
from dmlpy.description.stored_floats import stored
from dmlpy.devices import CompiledOperator, Device
from dmlpy.devices import device as find_device
from dmlpy.devices.persistence.pickling import Refused, device_name, version_refused, written_by
from dmlpy.messages.hresult import HResult
from dmlpy.messages.problems import CompileError, DescError, Problem, only_errors
from dmlpy.system import forks
from dmlpy.validation.checking import LATEST, Checkable, Level, check, no_desc, parse_level
from dmlpy.validation.undocumented import why_uncomputed

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from dmlpy.description.sized_copies import Kinds
    from dmlpy.devices.graphs import BufferAssignment, CompiledGraph, GraphIR, GraphProgram
    from dmlpy.graphs import Graph

Flags = ExecutionFlags | str | int
"""Execution flags in any spelling."""


@overload
def compile(
    desc: OperatorDesc,
    device: Device | str | None = None,
    feature_level: Level = None,
    flags: Flags | Sequence[Flags] = ExecutionFlags.NONE,
    *,
    fuse: bool = True,
) -> CompiledOperator: ...
@overload
def compile(
    desc: Graph,
    device: Device | str | None = None,
    feature_level: Level = None,
    flags: Flags | Sequence[Flags] = ExecutionFlags.NONE,
    *,
    fuse: bool = True,
) -> CompiledGraph: ...


@check_flags
def compile(
    desc: OperatorDesc | Graph,
    device: Device | str | None = None,
    feature_level: Level = None,
    flags: Flags | Sequence[Flags] = ExecutionFlags.NONE,
    *,
    fuse: bool = True,
) -> CompiledOperator | CompiledGraph:
    """Checks a desc or a graph, and compiles it for a device. Equal descs return the same object, as long as it is in the cache.

    A graph is checked leniently: whatever DirectML accepts can be compiled.

    Args:
        desc: the desc or graph to run.
        device: `"cpu"`, `"numpy"`, `"cuda"`, `"cuda:1"`, a device, or None: the first GPU that works, else `"cpu"`.
        feature_level: the highest level to allow, as for `check`. Levels reject BFLOAT16, which no DirectML has. None, the default, allows
            everything.
        flags: `ExecutionFlags`, a name, or a list of names. Only ALLOW_HALF_PRECISION_COMPUTATION has an effect: it may round the
            factors of FLOAT32 matrix products, on a GPU to TF32 (of convolutions, too), on `cpu` to BFLOAT16. The compiled operator's
            `plan` lists the flags that it supports.
        fuse: whether activations of a graph become part of the operators before them, where these have a `fused_activation`, and, on CUDA,
            element-wise nodes that only read each other run as one kernel. Results in FLOAT16 and BFLOAT16 are not rounded before a fused
            activation; all other results stay the same bit for bit. A single desc has nothing to fuse.

    Raises:
        CompileError: the desc breaks rules (all of them are reported), or the device does not run the operator yet.
        DescError: `desc` is neither, or there is no such level or flag.
        DeviceError: there is no such device.
    """
    if isinstance(desc, OperatorDesc):
        return _compile(desc, find_device(device), _cap_of([desc], feature_level), parse_flags(flags))
    if not isinstance(desc, Checkable):
        raise DescError("compile", [no_desc(desc, "an operator's desc, like RNNDesc(...), or a Graph")])
    return _compile_graph(desc, find_device(device), cap_of_graph(desc, feature_level), parse_flags(flags), fuse=fuse)


def _cap_of(descs: Iterable[OperatorDesc], feature_level: Level) -> FeatureLevel | None:
    """The level that caps descs; None if no level was given and some have tensors of BFLOAT16. Without them the highest caps nothing."""
    if feature_level is not None:
        return parse_level(feature_level)
    return None if any(desc.has_bfloat16 for desc in descs) else LATEST


def cap_of_graph(graph: Graph, feature_level: Level) -> FeatureLevel | None:
    """The level that caps the nodes of a graph, which it is checked at; None as in `_cap_of`."""
    return _cap_of(_operators(graph), feature_level)


def _operators(graph: Graph) -> Iterator[OperatorDesc]:
    """The descs of a graph's nodes."""
    return (operator for node in graph.nodes if isinstance(operator := getattr(node, "operator", None), OperatorDesc))


def compile_at_any_level(
    graph: Graph,
    device: Device | str | None = None,
    feature_level: Level = None,
    flags: Flags | Sequence[Flags] = ExecutionFlags.NONE,
    *,
    fuse: bool = True,
) -> CompiledGraph:
    """Compiles a graph as `compile` does; at a feature level that has no graphs, as operators dispatched one by one, with nothing fused.

    Raises:
        CompileError: the graph or an operator breaks rules, or the device does not run an operator yet.
        DescError: there is no such level or flag.
        DeviceError: there is no such device.
    """
    from dmlpy.graphs.checking import GRAPHS_SINCE

    level = cap_of_graph(graph, feature_level)
    operators_only = level is not None and level < GRAPHS_SINCE
    return _compile_graph(
        graph, find_device(device), level, parse_flags(flags), fuse=fuse and not operators_only, operators_only=operators_only
    )


def parse_flags(flags: Flags | Sequence[Flags]) -> ExecutionFlags:
    """Parses execution flags in any spelling.

    Raises:
        DescError: there is no such flag.
    """
    try:
        return ExecutionFlags.parse(flags)
    except ValueError as error:
        raise DescError("compile", [Problem("field.form", "flags", brief(flags), str(error).removeprefix("expected "))]) from None


@lru_cache(maxsize=512)
def _compile(desc: OperatorDesc, device: Device, level: FeatureLevel | None, flags: ExecutionFlags) -> CompiledOperator:
    operator = _compile_operator(desc, device, level, flags)
    operator._plan.load()
    return operator


@lru_cache(maxsize=512)
def _compile_operator(desc: OperatorDesc, device: Device, level: FeatureLevel | None, flags: ExecutionFlags) -> CompiledOperator:
    """The operator, of which kernels may be missing: in a graph not every node runs unchanged."""
    found = check(desc, level)
    if problems := only_errors(found):
        raise CompileError(desc.c_name, problems, desc=desc)
    uncomputed = why_uncomputed(desc, on_cuda=device.memory_kind == "cuda") if found else None
    plan = None if uncomputed else device.plan(stored(desc), flags)
    if plan is None:
        raise CompileError(desc.c_name, [_not_built(desc, device, uncomputed)], HResult.E_NOTIMPL, desc)
    if owned := tuple(place for place, tensor in desc.tensors().items() if tensor.flags is TensorFlags.OWNED_BY_DML):
        from dmlpy.devices.memory.owned_inputs import OwningPlan

        plan = OwningPlan(plan, owned, desc, device)
    operator = CompiledOperator(desc, device, level, flags, plan)
    _log_plan(operator)
    return operator


def _log_plan(operator: CompiledOperator) -> None:
    if PLANS.isEnabledFor(logging.DEBUG):
        PLANS.debug("%s on %s\n%s", operator.desc.c_name, operator.device.name, indent(operator.plan, "    "))


def _not_built(desc: OperatorDesc, device: Device, uncomputed: str | None) -> Problem:
    """Why a device does not run a checked desc, and where it runs."""
    numpy = find_device("numpy")
    on_host = (numpy, find_device("cpu"))  # `cpu` runs what NumPy runs
    elsewhere = device not in on_host and why_uncomputed(desc) is None and numpy.plan(desc) is not None
    remedy = "compile it for the device 'cpu'" if elsewhere else None
    why = (uncomputed or device.why_not(desc),)
    return Problem("operator.not_built", "", desc.type_name, f"an operator that runs on {device.name}", why, remedy)


def _compile_graph(
    graph: Graph, device: Device, level: FeatureLevel | None, flags: ExecutionFlags, *, fuse: bool, operators_only: bool = False
) -> CompiledGraph:
    from dmlpy.devices.graphs import CompiledGraph, GraphIR, assign_buffers, compile_program, loaded_program

    found = only_errors(graph.check(level, lenient=True))
    problems = [problem for problem in found if not (operators_only and problem.code == "level.graph")]
    if problems:
        raise CompileError(graph.name or graph.c_name, problems)
    copyreg.pickle(CompiledGraph, lambda compiled: _compilation(compiled.graph, compiled, fuse=compiled.fuse))

    def compile_node(desc: OperatorDesc) -> CompiledOperator:
        return _compile_operator(desc, device, level, flags)._current

    program = None
    with suppress(CompileError):  # of some sizes only, which are compiled without the template
        program = _program_by_template(graph, device, level, flags, compile_node, fuse=fuse)
    if program is None:
        ir = GraphIR.of(graph)
        try:  # of what is fused, only the whole is planned
            program = loaded_program(assign_buffers(ir, device, compile_node, fuse=fuse), compile_node)
        except CompileError:
            if problems := _unplanned(ir, compile_node):
                raise CompileError(graph.name or graph.c_name, problems, HResult.E_NOTIMPL) from None
            raise
    return compile_program(program, device, level, flags, compile_node, fuse=fuse)


def _unplanned(ir: GraphIR, compile_node: Callable[[OperatorDesc], CompiledOperator]) -> list[Problem]:
    """The problems of all nodes that the device does not run."""
    problems: list[Problem] = []
    for index, desc in ir.operators.items():
        try:
            compile_node(desc)
        except CompileError as error:
            problems += [problem.under(f"nodes[{index}]") for problem in error.problems]
    return problems


def _program_by_template(
    graph: Graph,
    device: Device,
    level: FeatureLevel | None,
    flags: ExecutionFlags,
    compile_node: Callable[[OperatorDesc], CompiledOperator],
    *,
    fuse: bool,
) -> GraphProgram | None:
    """The program of a graph that is a copy of one with symbolic sizes; None if it cannot be derived from that.

    Where the plan of a node, or that of the memory, depends on the numbers, the other nodes' plans follow from the template. Each node's
    plan is derived by itself: a comparison that comes out differently has that node alone planned again.
    """
    if graph.template is None or not device.plans_all_sizes:
        return None
    from dmlpy.description.sized_copies import Kinds
    from dmlpy.devices.graphs import BufferAssignment, loaded_program
    from dmlpy.devices.plan import PlanPart

    copy, symbolic = graph.template
    key, kinds = (id(symbolic), device, level, flags, fuse, device.planning_key()), Kinds((Device,), (PlanPart,), (BufferAssignment,))
    parts = _TemplateParts(device, level, flags, compile_node, kinds, fuse=fuse)
    program: GraphProgram | None = copy.derive(("program", *key), symbolic, parts.program_of, kinds)
    if program is not None:
        for operator in program.operators:
            _log_plan(operator)
        return program
    places = copy.derived_copy(("buffers", *key), symbolic, parts.buffers_of, kinds)
    if places is None:
        return None
    buffers, symbolic_buffers = places.item, places.symbolic
    operators = {}
    for index in buffers.order:
        desc = symbolic_buffers.desc(index)
        operator = copy.derive(index, desc, parts.operator_of, kinds, places)
        operators[index] = operator or compile_node(buffers.desc(index))
    program = loaded_program(buffers, compile_node, operators, copy.noted(("order", *key)))
    copy.note(("order", *key), program)
    return program


class _TemplateParts:
    """Functions of a graph whose sizes may be symbolic, for a template and its copies.

    Args:
        device: the device.
        level: the highest level to allow.
        flags: the execution flags.
        compile_node: compiles the desc of a node whose sizes are numbers.
        kinds: classes of objects in the results.
        fuse: whether activations are fused.
    """

    def __init__(
        self,
        device: Device,
        level: FeatureLevel | None,
        flags: ExecutionFlags,
        compile_node: Callable[[OperatorDesc], CompiledOperator],
        kinds: Kinds,
        *,
        fuse: bool,
    ) -> None:
        self._device, self._level, self._flags, self._fuse = device, level, flags, fuse
        self._compile_node, self._kinds = compile_node, kinds
        self._examples: dict[int, tuple[OperatorDesc, CompiledOperator]] = {}
        """Operators for the example's sizes, by the `id` of the symbolic desc, which is held."""

    def program_of(self, part: Graph, is_symbolic: bool) -> GraphProgram:
        """The program.

        Raises:
            NoTemplateError: it is not planned with symbolic sizes.
        """
        from dmlpy.description.symbolic_sizes import NoTemplateError
        from dmlpy.devices.graphs import loaded_program

        if len(part.nodes) > _MOST_WHOLE:
            raise NoTemplateError
        return loaded_program(self._assign(part, is_symbolic), self._compile_anew)

    def buffers_of(self, part: Graph, is_symbolic: bool) -> BufferAssignment:
        """The places of values.

        Raises:
            NoTemplateError: they are not planned with symbolic sizes.
        """
        return self._assign(part, is_symbolic)

    def operator_of(self, desc: OperatorDesc, is_symbolic: bool) -> CompiledOperator:
        """The operator of a node."""
        return self._compile_anew(desc)

    def _assign(self, part: Graph, is_symbolic: bool) -> BufferAssignment:
        from dmlpy.devices.graphs import GraphIR, assign_buffers

        ir, compiled = GraphIR.of(part), self._compile_example if is_symbolic else self._compile_node
        for desc in ir.operators.values():
            compiled(desc)
        buffers = assign_buffers(ir, self._device, compiled, fuse=self._fuse)
        for index in buffers.order:
            compiled(buffers.desc(index))
        return buffers

    def _compile_anew(self, desc: OperatorDesc) -> CompiledOperator:
        return _compile_operator.__wrapped__(desc, self._device, self._level, self._flags)._current

    def _compile_example(self, desc: OperatorDesc) -> CompiledOperator:
        from dmlpy.description.sized_copies import example_of
        from dmlpy.description.symbolic_sizes import NoTemplateError

        if id(desc) not in self._examples:
            if problems := only_errors(check(desc, self._level)):
                raise CompileError(desc.c_name, problems, desc=desc)
            try:
                self._examples[id(desc)] = desc, _compile_operator(example_of(desc), self._device, self._level, self._flags)._current
            except CompileError:
                raise NoTemplateError from None  # whether the device runs other sizes is not known
        return self._examples[id(desc)][1]


_MOST_WHOLE = 24
"""The most nodes of a graph whose order and memory are planned with symbolic sizes: for many values arrays of numbers are faster."""

# pickles


def _compilation(described: OperatorDesc | Graph, compiled: CompiledOperator | CompiledGraph, *, fuse: bool) -> tuple[Any, ...]:
    """The compiled object in a pickle: the version, then what `_arrived` compiles.

    Raises:
        PickleError: its device is none of those that have a name.
    """
    work = described, device_name(compiled), compiled.feature_level, compiled.flags, fuse
    return _arrived, (written_by(), pickle.dumps(work))


_MOST_GRAPHS = 32
"""The compiled graphs that this process caches."""

_compile_arrived = lru_cache(maxsize=_MOST_GRAPHS)(_compile_graph)


class _StripedLocks:
    """Locks, so that threads that are sent the same pickle compile it once. Several keys may share one."""

    def __init__(self) -> None:
        self._locks = tuple(forks.lock() for _ in range(64))

    def of(self, key: object) -> threading.Lock:
        return self._locks[hash(key) % len(self._locks)]


_arrival_locks = _StripedLocks()


def _arrived(writer: str, work: bytes) -> CompiledOperator | CompiledGraph | Refused:
    """Compiles what a pickle holds, once in a process for equal descs: its threads get the same object.

    Its name, place and first argument must stay the same in all versions, which read `work` only if they wrote it: descs of another version
    may not be readable at all.

    Raises:
        PickleError: another version of dmlpy wrote it.
        CompileError: the device here does not run the operator.
        DeviceError: there is no such device here.
    """
    if (refused := version_refused(writer)) is not None:
        return refused
    described, name, level, flags, fuse = pickle.loads(work)
    device = find_device(name)
    with _arrival_locks.of(described):
        if isinstance(described, OperatorDesc):
            return _compile(described, device, level, flags)
        return _compile_arrived(described, device, level, flags, fuse=fuse)


copyreg.pickle(CompiledOperator, lambda compiled: _compilation(compiled.desc, compiled, fuse=True))
