"""`ProgramTemplates`: programs for other sizes of a model's inputs, of which few are lowered node by node.

When sizes keep changing, the nodes are lowered with symbolic sizes in the places that differ from the last ones. The program that comes of
it has a formula for each number, and holds for all sizes with which every comparison comes out as it did. For these its formulas are
computed; for others the nodes are lowered again.
"""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from onnx import NodeProto, TypeProto

from dmlpy.compiler import cap_of_graph
from dmlpy.description.sized_arrays import SizedArray
from dmlpy.description.sized_copies import SizedTemplate, is_alike
from dmlpy.description.symbolic_sizes import SizeTrace
from dmlpy.onnx.loading.stored_weights import StoredWeight
from dmlpy.onnx.nodes.levels import cap_of

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping, Sequence

    from dmlpy.description.enums import FeatureLevel
    from dmlpy.onnx.loading.values import Array, Value
    from dmlpy.onnx.lowering.cache import LRUCache
    from dmlpy.onnx.lowering.programs import Program

Inputs: TypeAlias = "Mapping[str, Value]"
LowerProgram: TypeAlias = "Callable[[Inputs], Program | None]"
"""Lowers nodes for inputs whose sizes are known; None if the result is not for these sizes alone."""
_LOWERED_FIRST = 1
"""The sizes for which nodes are lowered before a template is made, which takes a fifth longer and has to equal the program for these."""

_MOST_TEMPLATES = 4
"""The most templates of nodes, and the most failed attempts at one: other sizes are lowered node by node."""
_FIRST_PATIENCE = 4
"""The sizes for which no template holds until a new one replaces the least recently used. They have cost what a template costs."""

_ALONE = (-1, 0, 1)
"""What is made with one of these holds for no other, so it is as fixed as what stays the same: a size of 1 broadcasts."""
_MOST_NUMBERS = 64
"""The most elements of an input whose elements are known that may be symbolic, as sizes are: shapes and the like are short."""
_TYPES_OF_NUMBERS = (np.int32, np.float32, np.float64)
"""Types beside INT64 of whole numbers that may be symbolic."""
_EXACT = 1 << 24
"""What whole numbers are below that FLOAT32 holds exactly."""
_MOST_FAILED = 2
"""The templates that may fail in a row with an input's elements of such a type as symbols: then they are no lengths, such as scales."""
_MOST_RECENT = 3
"""The most programs that a new template is compared with."""
_RECENT_BYTES = 1 << 12
"""The bytes of a node of a program that is not compiled: its descs and values."""
_TEMPLATE_BYTES = 1 << 16
"""The bytes of a node of a template: its descs, their formulas, and what devices derive from them."""


class ProgramTemplates:
    """Programs of some nodes by the sizes of their inputs. One thread at a time uses it.

    Args:
        level: the highest feature level that may be used.
        lower: lowers the nodes.
        cache: holds what is known of inputs, by their form.
    """

    def __init__(self, level: FeatureLevel, lower: LowerProgram, cache: LRUCache) -> None:
        self._level, self._lower, self._cache = level, lower, cache
        self._keys: deque[Hashable] = deque()
        self._failed: Counter[str] = Counter()
        """How many templates failed in a row in which elements of an input were symbolic that are not of INT64, by its name."""

    def program(self, inputs: Inputs) -> Program | None:
        """The program for inputs whose sizes are known, as `lower` gives it.

        Raises:
            CompileError: `lower` raises it.
        """
        numbers = self._numbers_of(inputs)
        sizes = [number for name in inputs for number in numbers[name] or ()]
        key = self, tuple(_form_key(value, numbers[name]) for name, value in inputs.items())
        form: _Form = self._cache.get(key) or _Form()
        try:
            return self._program_of_form(form, inputs, sizes)
        finally:
            self._cache.put(key, form, form.held_bytes)
            if key not in self._keys:
                self._keys.append(key)
            while len(self._keys) > _MOST_TEMPLATES:
                self._cache.discard(self._keys.popleft())

    def _program_of_form(self, form: _Form, inputs: Inputs, sizes: Sequence[int]) -> Program | None:
        """The program for inputs of a form with these sizes."""
        for template in reversed(form.templates):
            program = template.program(sizes)
            if program is not None:
                form.use(template)
                form.add(sizes, program)
                return program
        form.misses += 1
        may_add = form.lowered >= _LOWERED_FIRST and (not form.is_full or form.waits)
        changing = [at for at, size in enumerate(sizes) if size not in _ALONE and any(size != other[at] for other, _ in form.recent)]
        program = self._program_of_new_template(form, inputs, sizes, changing) if may_add and changing else None
        if program is None:
            form.lowered += 1
            program = self._lower(inputs)
        if program is not None:
            form.add(sizes, program)
        return program

    def _program_of_new_template(self, form: _Form, inputs: Inputs, sizes: Sequence[int], changing: Sequence[int]) -> Program | None:
        """The program of a new template, which holds for these sizes and others; None if there is no such template.

        It has to equal the last programs, or if it holds for none of their sizes, one that is lowered for these.
        """
        if form.is_full:
            form.patience *= 2  # so that sizes for which none lasts cost little more than without
        form.misses, form.failures = 0, form.failures + 1
        elements = self._changing_elements(inputs, changing)
        self._failed.update(elements)
        try:
            template = self._lower_symbolically(inputs, sizes, changing)
            made = None if template is None else template.program(sizes)
            if template is None or made is None:
                return None
            copies = [(template.program(other), known) for other, known in form.recent]
            if not all(copy is None or is_alike(copy, known) for copy, known in copies):
                return None
            if not any(copy for copy, _ in copies):
                lowered = self._lower(inputs)
                if lowered is None or not is_alike(made, lowered):
                    return lowered
        except Exception:  # of code that does not take symbolic sizes: with integers it is another one, or none
            return None
        form.failures -= 1
        for name in elements:
            del self._failed[name]
        if form.is_full:
            del form.templates[0]
        form.templates.append(template)
        return made

    def _lower_symbolically(self, inputs: Inputs, sizes: Sequence[int], places: Sequence[int]) -> _Template | None:
        """A template in which the sizes in some places are symbolic."""
        trace = SizeTrace([sizes[at] for at in places])
        symbolic_sizes: list[Any] = [*sizes]
        for at, symbol in zip(places, trace.symbols, strict=True):
            symbolic_sizes[at] = symbol
        remaining = iter(symbolic_sizes)
        symbolic = {
            name: inputs[name] if numbers is None else _with_numbers(inputs[name], [next(remaining) for _ in numbers])
            for name, numbers in self._numbers_of(inputs).items()
        }
        with trace.active():
            program = self._lower(symbolic)
            cap = cap_of(self._level)
            # At the level at which graphs are compiled, so that copies for other sizes are not checked again.
            if program is None or any(graph.check(cap_of_graph(graph, cap), lenient=True) for graph in program.graphs):
                return None
        return _Template(SizedTemplate(trace, program, (NodeProto, StoredWeight, TypeProto)), places, sizes, program)

    def _numbers_of(self, inputs: Inputs) -> dict[str, Sequence[int] | None]:
        """Sizes of inputs, or elements that are known, such as sizes that the model computes; None where none may be symbolic."""
        return {name: self._numbers(name, value) for name, value in inputs.items()}

    def _numbers(self, name: str, value: Value) -> Sequence[int] | None:
        if value.array is None:
            return value.static_sizes if value.sizes is not None else ()
        if may_follow_from_sizes(value.array) or (self._failed[name] < _MOST_FAILED and _holds_numbers(value.array)):
            found: list[int] = value.array.ravel().astype(np.int64).tolist()
            return found
        return None

    def _changing_elements(self, inputs: Inputs, changing: Sequence[int]) -> list[str]:
        """The names of inputs with known elements, not of INT64, in some of these places."""
        found, end = list[str](), 0
        for name, numbers in self._numbers_of(inputs).items():
            start, end = end, end + len(numbers or ())
            array = inputs[name].array
            if array is not None and not may_follow_from_sizes(array) and any(start <= at < end for at in changing):
                found.append(name)
        return found


class _Form:
    """The key of inputs that differ in sizes only.

    Attributes:
        lowered: for how many sizes the nodes were lowered.
        templates: their templates, in the order of their last use.
        misses: for how many sizes no template held since the last one was made.
        patience: how many there are before a template replaces another one.
        failures: how many attempts at a template failed.
        recent: the last sizes, with their programs: some of them may compare as the next ones do, such as odd and even ones.
    """

    def __init__(self) -> None:
        self.lowered = 0
        self.templates: list[_Template] = []
        self.misses, self.patience = 0, _FIRST_PATIENCE
        self.failures = 0
        self.recent: deque[tuple[Sequence[int], Program]] = deque(maxlen=_MOST_RECENT)

    @property
    def held_bytes(self) -> int:
        """The approximate bytes that it holds."""
        recent = sum(len(graph.nodes) for _, program in self.recent for graph in program.graphs)
        return _RECENT_BYTES * (1 + recent) + sum(template.held_bytes for template in self.templates)

    @property
    def is_full(self) -> bool:
        """Whether a new template has to replace one."""
        return self.failures + len(self.templates) >= _MOST_TEMPLATES

    @property
    def waits(self) -> bool:
        """Whether enough sizes have come for which no template holds that one is to be replaced."""
        return bool(self.templates) and self.misses > self.patience

    def use(self, template: _Template) -> None:
        """Makes a template the last used one."""
        if self.templates[-1] is not template:
            self.templates.remove(template)
            self.templates.append(template)

    def add(self, sizes: Sequence[int], program: Program) -> None:
        """Adds the program of the last sizes."""
        self.recent.append((sizes, program))


def may_follow_from_sizes(array: Array) -> bool:
    """Whether known elements may be symbolic, as sizes are: short integers, as those of shapes that a model computes."""
    return array.dtype == np.int64 and array.size <= _MOST_NUMBERS


def _holds_numbers(array: Array) -> bool:
    """Whether known elements are numbers that may be symbolic: those of lengths that a model computes may have other types."""
    if may_follow_from_sizes(array):
        return True
    if array.dtype not in _TYPES_OF_NUMBERS or not 0 < array.size <= _MOST_NUMBERS:
        return False
    negative_zero = (array == 0) & np.signbit(array)
    return bool(np.all((np.abs(array) < _EXACT) & (array == np.trunc(array)) & ~negative_zero))


def _with_numbers(value: Value, numbers: Sequence[int]) -> Value:
    """The input with other numbers of `_numbers_of`."""
    if value.array is None:
        return replace(value, sizes=tuple(numbers) if value.sizes is not None else None)
    return replace(value, array=SizedArray.of(numbers, value.array.shape, value.array.dtype))


def _form_key(value: Value, numbers: Sequence[int] | None) -> Hashable:
    """The key of a value for which nodes are lowered, without the sizes or elements that may be symbolic."""
    if value.array is not None:
        return value.element, value.array.shape, value.array.tobytes() if numbers is None else None
    return value.element, value.kind, None if value.sizes is None else len(value.sizes)


class _Template:
    """A program whose numbers are computed from sizes.

    Args:
        template: the program.
        places: where the symbolic sizes are among all.
        sizes: all sizes of the example.
        program: the program with symbolic sizes.
    """

    def __init__(self, template: SizedTemplate, places: Sequence[int], sizes: Sequence[int], program: Program) -> None:
        self._template, self._places, self._graphs = template, places, program.graphs
        owned = [array for part in program.parts for array in part.owned.values()]
        self._constant_bytes = 2 * sum(array.example.nbytes for array in owned if isinstance(array, SizedArray))
        symbolic = frozenset(places)
        self._equal = [(at, size) for at, size in enumerate(sizes) if at not in symbolic]

    @property
    def held_bytes(self) -> int:
        """The approximate bytes that it holds."""
        return _TEMPLATE_BYTES * (1 + sum(len(graph.nodes) for graph in self._graphs)) + self._constant_bytes

    def program(self, sizes: Sequence[int]) -> Program | None:
        """The program for these sizes, or None if it may be another one."""
        if any(sizes[at] != size for at, size in self._equal):
            return None
        copy = self._template.copy([sizes[at] for at in self._places])
        if copy is None:
            return None
        for graph in self._graphs:
            if (graph_copy := copy.part(graph)) is not graph:
                graph_copy.attach_template(copy, graph)
        made: Program = copy.item
        return made
