"""`ProgramTemplates`: programs for other sizes of a model's inputs, of which few are lowered node by node.

When sizes come that differ from those before, the nodes are lowered with symbolic sizes in the places that differ. The program that comes
of it has a formula for each number, and holds for all sizes with which every comparison comes out as it did. For these its formulas are
computed; for others the nodes are lowered again.
"""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from enum import Enum
from types import NoneType
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from onnx import NodeProto, TypeProto

from dmlpy.description.structs import Struct
from dmlpy.description.symbolic_sizes import SizeRecord, is_symbolic

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping, Sequence

    from dmlpy.description.enums import FeatureLevel
    from dmlpy.onnx.loading.values import Value
    from dmlpy.onnx.lowering.programs import Program

Inputs: TypeAlias = "Mapping[str, Value]"
LowerProgram: TypeAlias = "Callable[[Inputs], Program | None]"
"""Lowers nodes for inputs whose sizes are known; None if the result is not for these sizes alone."""
_Step: TypeAlias = "Callable[[Sequence[int], list[Any]], Any]"
"""Makes an object of the numbers of a record, and of what steps before it made."""

_MOST_TEMPLATES = 4
"""The most templates of nodes, and the most failed attempts at one: other sizes are lowered node by node."""

_WITHOUT_SIZES = (int, float, str, bytes, NoneType, Enum, np.ndarray, NodeProto, TypeProto)
"""The kinds of objects in a program that hold no symbolic sizes."""


class ProgramTemplates:
    """Programs of some nodes by the sizes of their inputs. One thread at a time uses it.

    Args:
        level: the highest feature level that may be used.
        lower: lowers the nodes.
    """

    def __init__(self, level: FeatureLevel, lower: LowerProgram) -> None:
        self._level, self._lower = level, lower
        self._forms: dict[Hashable, _Form] = {}

    def program(self, inputs: Inputs) -> Program | None:
        """The program for inputs whose sizes are known, as `lower` gives it.

        Raises:
            CompileError: `lower` raises it.
        """
        places = [(name, axis) for name, value in inputs.items() if value.array is None for axis in range(len(value.sizes or ()))]
        sizes = [inputs[name].static_sizes[axis] for name, axis in places]
        key = tuple(_form_key(value) for value in inputs.values())
        form = self._forms.get(key)
        if form is None:
            form = self._forms[key] = _Form()
            while len(self._forms) > _MOST_TEMPLATES:
                del self._forms[next(iter(self._forms))]
        for template in form.templates:
            found = template.program(sizes)
            if found is not None:
                return found
        added = self._new_template(form, inputs, sizes)
        found = self._lower(inputs) if added is None else added.program(sizes)
        if added is not None:
            form.templates.append(added)
        if found is not None:
            form.last = sizes, found
        return found

    def _new_template(self, form: _Form, inputs: Inputs, sizes: Sequence[int]) -> _Template | None:
        """A template for these sizes and the last ones; None if there is none."""
        if form.last is None or form.failures + len(form.templates) >= _MOST_TEMPLATES:
            return None
        last, known = form.last
        form.failures += 1
        try:
            template = self._lower_symbolically(inputs, sizes, [at for at, size in enumerate(sizes) if size != last[at]])
            if template is None or not is_alike(template.program(last), known):
                return None
        except Exception:  # of code that does not take symbolic sizes: with integers it is another one, or none
            return None
        form.failures -= 1
        return template

    def _lower_symbolically(self, inputs: Inputs, sizes: Sequence[int], places: Sequence[int]) -> _Template | None:
        """A template in which the sizes in some places are symbolic."""
        record = SizeRecord([sizes[at] for at in places])
        own: list[Any] = [*sizes]
        for at, symbol in zip(places, record.symbols, strict=True):
            own[at] = symbol
        remaining = iter(own)
        symbolic = {
            name: value if value.array is not None else replace(value, sizes=tuple(next(remaining) for _ in value.sizes or ()))
            for name, value in inputs.items()
        }
        with record.active():
            program = self._lower(symbolic)
            if program is None or any(graph.check(self._level, lenient=True) for graph in program.graphs):
                return None
        return None if record.is_fixed else _Template(record, places, sizes, program)


class _Form:
    """What is known of inputs that differ in sizes only.

    Attributes:
        templates: their templates.
        last: the last sizes for which no template was, and the program.
        failures: how many attempts at a template failed.
    """

    def __init__(self) -> None:
        self.templates: list[_Template] = []
        self.last: tuple[Sequence[int], Program] | None = None
        self.failures = 0


def _form_key(value: Value) -> Hashable:
    """What nodes are lowered for, but for the sizes. Who holds it holds the array, too."""
    if value.array is not None:
        return value.element, value.array.shape, value.array.tobytes()
    return value.element, value.kind, None if value.sizes is None else len(value.sizes)


class _Template:
    """A program whose numbers are computed from sizes.

    Args:
        record: the record of the symbolic sizes.
        places: where these are among all sizes.
        sizes: all sizes of the example.
        program: the program with symbolic sizes.
    """

    def __init__(self, record: SizeRecord, places: Sequence[int], sizes: Sequence[int], program: Program) -> None:
        self._record, self._places = record, places
        symbolic = frozenset(places)
        self._equal = [(at, size) for at, size in enumerate(sizes) if at not in symbolic]
        self._copier = _Copier()
        self._result = self._copier.add(program)
        self._program = program

    def program(self, sizes: Sequence[int]) -> Program | None:
        """The program for these sizes; None if it may be another one."""
        if any(sizes[at] != size for at, size in self._equal):
            return None
        values = self._record.values_for([sizes[at] for at in self._places])
        if values is None:
            return None
        made: Program = self._program if self._result is None else self._copier.copy(values)[self._result]
        return made


class _UncopiedError(Exception):
    """Raised for an object that may hold sizes, and is not known."""


class _Copier:
    """Copies objects with numbers in place of symbolic sizes; what holds none is shared by the copies."""

    def __init__(self) -> None:
        self._steps: list[_Step] = []
        self._known: dict[int, tuple[Any, int | None]] = {}
        """The steps of objects by `id`; the objects are held, so that these stay theirs."""

    def copy(self, values: Sequence[int]) -> list[Any]:
        """What the steps make."""
        made: list[Any] = []
        for step in self._steps:
            made.append(step(values, made))
        return made

    def add(self, item: Any) -> int | None:
        """The step that makes a copy of an object; None if it holds no symbolic sizes.

        Raises:
            _UncopiedError: it is of no kind that is known.
        """
        if is_symbolic(item):
            place = item.place
            return self._step(lambda values, made: values[place])
        known = self._known.get(id(item))
        if known is None:
            known = self._known[id(item)] = item, self._add(item)
        return known[1]

    def _step(self, step: _Step) -> int:
        self._steps.append(step)
        return len(self._steps) - 1

    def _add(self, item: Any) -> int | None:
        kind = type(item)
        if kind in (tuple, list):
            return self._add_entries(item)
        if kind is dict:
            return self._add_parts(item, dict)
        if isinstance(item, Struct):
            return self._add_parts(item._members(), _maker_of_struct(item))
        if is_dataclass(item):
            return self._add_parts({field.name: getattr(item, field.name) for field in fields(item)}, _maker_of_dataclass(kind))
        if isinstance(item, _WITHOUT_SIZES) and not (isinstance(item, np.ndarray) and item.dtype.hasobject):
            return None
        raise _UncopiedError

    def _add_entries(self, item: Sequence[Any]) -> int | None:
        changed = [(at, step) for at, entry in enumerate(item) if (step := self.add(entry)) is not None]
        if not changed:
            return None
        kind, entries = type(item), list(item)

        def make(values: Sequence[int], made: list[Any]) -> Any:
            found = entries.copy()
            for at, step in changed:
                found[at] = made[step]
            return kind(found)  # type: ignore[call-arg]

        return self._step(make)

    def _add_parts(self, parts: Mapping[Any, Any], make: Callable[[dict[Any, Any]], Any]) -> int | None:
        changed = [(name, step) for name, part in parts.items() if (step := self.add(part)) is not None]
        if not changed:
            return None
        same = dict(parts)

        def copied(values: Sequence[int], made: list[Any]) -> Any:
            found = same.copy()
            for name, step in changed:
                found[name] = made[step]
            return make(found)

        return self._step(copied)


def _maker_of_struct(item: Struct) -> Callable[[dict[str, Any]], Struct]:
    """Makes structs with other members. All are as valid as this one: that follows from the record, as their numbers do."""
    kind, given = type(item), item.__pydantic_fields_set__
    valid_at = frozenset(item.__dict__.get("_valid_at", ()))
    origins = item.__dict__.get("_origins")

    def make(members: dict[str, Any]) -> Struct:
        made = kind.__new__(kind)
        if valid_at:
            members["_valid_at"] = {*valid_at}
        if origins is not None:
            members["_origins"] = origins
        made._adopt(members, given)
        return made

    return make


def _maker_of_dataclass(kind: type) -> Callable[[dict[str, Any]], Any]:
    def make(parts: dict[str, Any]) -> Any:
        made: Any = object.__new__(kind)
        made.__dict__.update(parts)
        return made

    return make


def is_alike(one: object, other: object) -> bool:
    """Whether two objects of a program are equal in all their parts."""
    if one is other:
        return True
    if type(one) is not type(other):
        return False
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        return one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes()
    if isinstance(one, tuple | list) and isinstance(other, tuple | list):
        return len(one) == len(other) and all(map(is_alike, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return [*one] == [*other] and all(is_alike(one[name], other[name]) for name in one)
    if is_dataclass(one) and not isinstance(one, type):
        return all(is_alike(getattr(one, field.name), getattr(other, field.name)) for field in fields(one))
    return bool(one == other)
