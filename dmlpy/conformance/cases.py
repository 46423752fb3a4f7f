"""The descs that `dmlpy conformance` has DirectML check and run.

These are the sample of every operator, other values of each member, other types, ranks and layouts, and descs that released programs build.
Only descs that the C structs can hold are among them: a count beyond 32 bits, for instance, is not.
"""

from __future__ import annotations

from functools import cache
from itertools import product
from typing import TYPE_CHECKING, Any

from dmlpy.conformance.layout import operator_struct
from dmlpy.description.descs import OperatorDesc
from dmlpy.description.enums import DataType, DmlEnum, RecurrentDirection
from dmlpy.description.registry import OPERATORS
from dmlpy.description.tensors import TensorDesc, packed_strides
from dmlpy.evidence.descs import evidence_descs
from dmlpy.inspection.alternatives import changes
from dmlpy.inspection.samples import sample
from dmlpy.messages.problems import DescError
from dmlpy.operators.activation import ActivationDesc
from dmlpy.operators.recurrent.layer import LayerDesc
from dmlpy.validation.checking import check

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from dmlpy.description.enums import FeatureLevel

RECURRENT = ("RNN", "GRU", "LSTM")
LARGEST_RUN = 1 << 16
"""The most elements of all tensors of a desc that is run."""


def operator_classes(names: Iterable[str] = ()) -> list[type[OperatorDesc]]:
    """The classes of DirectML's operators with these short names, else of all of them; recurrent layers first."""
    wanted = {name.upper() for name in names}
    classes = [kind for kind in OPERATORS.values() if not kind.is_extension and (not wanted or kind.short_name() in wanted)]
    return sorted(classes, key=lambda kind: (kind.short_name() not in RECURRENT, kind.type_name))


@cache
def _of_evidence() -> dict[type[OperatorDesc], list[OperatorDesc]]:
    """The descs of the evidence by their operators."""
    descs: dict[type[OperatorDesc], list[OperatorDesc]] = {}
    for data in evidence_descs():
        desc = OperatorDesc.from_dict(data)
        descs.setdefault(type(desc), []).append(desc)
    return descs


def cases(kind: type[OperatorDesc]) -> list[OperatorDesc]:
    """The descs of an operator to check, without duplicates; the sample comes first."""
    unique: dict[OperatorDesc, None] = {}
    for desc in (*_candidates(kind), *_of_evidence().get(kind, ())):
        if desc not in unique and _is_expressible(desc):
            unique[desc] = None
    return list(unique)


def runs(kind: type[OperatorDesc], level: FeatureLevel) -> list[OperatorDesc]:
    """The valid descs of an operator whose results are compared: samples of every type, recurrent layers, those of programs."""
    unique: dict[OperatorDesc, None] = {}
    layers = _layers(kind) if kind.short_name() in RECURRENT else ()
    for desc in (*_of_types(sample(kind)), *_modes(sample(kind)), *layers, *_of_evidence().get(kind, ())):
        small = sum(tensor.element_count for tensor in desc.tensors().values()) <= LARGEST_RUN
        if small and not check(desc, level):
            unique[desc] = None
    return list(unique)


def _candidates(kind: type[OperatorDesc]) -> Iterator[OperatorDesc]:
    base = sample(kind)
    yield base
    if kind.short_name() in RECURRENT:
        yield from _layers(kind)
    for members in (*changes(base), *_layouts(base), *_activations(base)):
        yield from _replaced(base, members)
    yield from _of_types(base)
    yield from _of_ranks(base)
    yield from _modes(base)


def _replaced(base: OperatorDesc, members: dict[str, Any]) -> Iterator[OperatorDesc]:
    """The desc with other members, unless Python cannot hold it."""
    try:
        yield base.replace(**members)
    except DescError:
        return


def _is_expressible(desc: OperatorDesc) -> bool:
    try:
        operator_struct(desc)
    except DescError:
        return False
    return True


def _tensor_members(desc: OperatorDesc) -> Iterator[tuple[str, tuple[TensorDesc, ...], bool]]:
    """The described tensor members: the name, the tensors, and whether they are an array."""
    for field in desc.tensor_fields():
        value = getattr(desc, field.name)
        if value is not None:
            yield field.name, (value if field.listed else (value,)), field.listed


def _with_tensors(desc: OperatorDesc, changed: dict[str, tuple[TensorDesc, ...]]) -> dict[str, Any]:
    listed = {field.name: field.listed for field in desc.tensor_fields()}
    return {name: tensors if listed[name] else tensors[0] for name, tensors in changed.items()}


def _of_types(base: OperatorDesc) -> Iterator[OperatorDesc]:
    """The desc with every element type in all tensors that share one, and in all tensors."""
    groups: dict[Any, list[str]] = {}
    fields = {field.name: field for field in base.tensor_fields()}
    members = {name: tensors for name, tensors, _ in _tensor_members(base)}
    for name in members:
        groups.setdefault(base.type_variable(fields[name]), []).append(name)
    named = [attribute for attribute in base.attribute_fields() if attribute.limits.type_of is not None]
    for names, data_type in product([*groups.values(), list(members)], DataType):
        if data_type.introduced is None:  # DirectML has no such type
            continue
        changed: dict[str, Any] = _with_tensors(
            base,
            {
                name: tuple(tensor.replace(data_type=data_type, total_tensor_size_in_bytes=None) for tensor in members[name])
                for name in names
            },
        )
        changed |= {attribute.name: data_type for attribute in named if attribute.limits.type_of in names}
        yield from _replaced(base, changed)


def _of_ranks(base: OperatorDesc) -> Iterator[OperatorDesc]:
    """The desc with leading dimensions of size 1 added to all tensors, or taken away."""
    members = {name: tensors for name, tensors, _ in _tensor_members(base)}
    for count in range(1, 5):
        longer = {
            name: tuple(tensor.replace(sizes=(1,) * count + tensor.sizes, strides=None) for tensor in tensors)
            for name, tensors in members.items()
        }
        yield from _replaced(base, _with_tensors(base, longer))
        if all(tensor.sizes[:count] == (1,) * count and len(tensor.sizes) > count for tensors in members.values() for tensor in tensors):
            shorter = {
                name: tuple(tensor.replace(sizes=tensor.sizes[count:], strides=None) for tensor in tensors)
                for name, tensors in members.items()
            }
            yield from _replaced(base, _with_tensors(base, shorter))


def _layouts(base: OperatorDesc) -> Iterator[dict[str, Any]]:
    """Other layouts of one tensor: padded, transposed, broadcast, overlapping; other sizes in bytes and alignments."""
    for name, tensors, _ in _tensor_members(base):
        for layout in _layouts_of(tensors[-1]):
            yield _with_tensors(base, {name: (*tensors[:-1], layout)})


def _layouts_of(tensor: TensorDesc) -> Iterator[TensorDesc]:
    sizes, packed = tensor.sizes, packed_strides(tensor.sizes)
    strides = [tuple(2 * stride for stride in packed), tuple(reversed(packed_strides(sizes[::-1]))), (1,) * len(sizes)]
    strides += [tuple(0 if axis == repeated else stride for axis, stride in enumerate(packed)) for repeated in range(len(sizes))]
    yield from (tensor.replace(strides=layout, total_tensor_size_in_bytes=None) for layout in strides)
    size = tensor.minimum_size_in_bytes
    yield from (tensor.replace(total_tensor_size_in_bytes=total) for total in (size - 4, size - 1, size + 1, size + 4, 2**33) if total > 0)
    yield from (tensor.replace(guaranteed_base_offset_alignment=alignment) for alignment in (1, 3, 16, 24, 256))


def _modes(base: OperatorDesc) -> Iterator[OperatorDesc]:
    """The desc with all combinations of its enumerations and flags, and without each optional tensor."""
    choices: dict[str, tuple[Any, ...]] = {}
    for name in base.attribute_names():
        value = getattr(base, name)
        if isinstance(value, bool):
            choices[name] = (False, True)
        elif isinstance(value, DmlEnum) and not isinstance(value, DataType):
            choices[name] = tuple(type(value))
    for values in product(*choices.values()):
        yield from _replaced(base, dict(zip(choices, values, strict=True)))
    for field in base.tensor_fields():
        if field.optional:
            yield from _replaced(base, {field.name: None})


def _activations(base: OperatorDesc) -> Iterator[dict[str, Any]]:
    """Every activation that the operator may fuse, or not."""
    names = [name for name in ("fused_activation", "activation_descs") if name in base.attribute_names()]
    for name, activation in product(names, _every_activation() if names else ()):
        value = getattr(base, name)
        yield {name: (activation,) * len(value) if isinstance(value, tuple) else activation}


def _every_activation() -> Iterator[OperatorDesc]:
    """Each activation as another struct holds it, with the attributes of its sample."""
    for kind in OPERATORS.values():
        if issubclass(kind, ActivationDesc) and not kind.is_extension:
            alone = sample(kind)
            optional = {field.name: None for field in alone.tensor_fields() if field.marker.null_when_fused}
            yield from _replaced(alone, optional)


def _layers(kind: type[OperatorDesc]) -> Iterator[OperatorDesc]:
    """The forms of a recurrent layer: directions, optional tensors, flags, activations."""
    for direction in RecurrentDirection:
        base = _layer(kind, direction)
        if base is None:
            continue
        optional = [field.name for field in base.tensor_fields() if field.optional]
        yield base
        yield from (desc for name in optional for desc in _replaced(base, {name: None}))
        yield from _replaced(base, {name: None for name in optional if not name.startswith("output")})
        yield from _modes(base)
        for members in _activations(base):
            yield from _replaced(base, members)


def _layer(kind: type[OperatorDesc], direction: RecurrentDirection) -> OperatorDesc | None:
    """A recurrent layer with every tensor that it can have."""
    base = sample(kind)
    gates = {"RNN": 1, "GRU": 3, "LSTM": 4}[kind.short_name()]
    directions = 2 if direction is RecurrentDirection.BIDIRECTIONAL else 1
    steps, batch, inputs, hidden = 5, 3, 4, 6
    sizes = {
        "input_tensor": (1, steps, batch, inputs),
        "weight_tensor": (1, directions, gates * hidden, inputs),
        "recurrence_tensor": (1, directions, gates * hidden, hidden),
        "bias_tensor": (1, 1, directions, 2 * gates * hidden),
        "hidden_init_tensor": (1, directions, batch, hidden),
        "cell_mem_init_tensor": (1, directions, batch, hidden),
        "sequence_lengths_tensor": (1, 1, 1, batch),
        "peephole_tensor": (1, 1, directions, 3 * hidden),
        "output_sequence_tensor": (steps, directions, batch, hidden),
        "output_single_tensor": (1, directions, batch, hidden),
        "output_cell_single_tensor": (1, directions, batch, hidden),
    }
    members: dict[str, Any] = {
        field.name: TensorDesc(data_type="UINT32" if field.name == "sequence_lengths_tensor" else "FLOAT32", sizes=sizes[field.name])
        for field in kind.tensor_fields()
    }
    count = {"RNN": 1, "GRU": 2, "LSTM": 3}[kind.short_name()] * directions
    assert isinstance(base, LayerDesc)
    activations = base.activation_descs
    members |= {"activation_descs": (activations * count)[:count], "direction": direction}
    return next(_replaced(base, members), None)
