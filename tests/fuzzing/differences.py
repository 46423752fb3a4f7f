"""Fuzzes results: random descs of all operators on all devices, against their definitions in float64.

    python -m tests.fuzzing.differences --seconds 60 --seed 1
    python -m tests.fuzzing.differences --tries 500 --kinds numpy cpu
    python -m tests.fuzzing.differences --tries 100 --operators GEMM CONVOLUTION

A desc begins as a sample, or as one that the documented constraints give, and is changed in many ways while it stays valid: other sizes
and ranks, other values of attributes, tensors left out, other types, strides with gaps, in other orders and of 0. The promise: each device
gives what the definition gives, as far as the tolerances go, and writes nothing else. Integers are equal, but for results that are rounded
from floating point, which may be one off.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from functools import cache, partial
from typing import Any

import numpy as np

import dmlpy as dml
from dmlpy.conformance.values import random_inputs
from dmlpy.description.registry import OPERATORS
from dmlpy.inspection.samples import sample
from dmlpy.reference.registry import definition
from tests.fuzzing import tally
from tests.fuzzing.tally import FuzzRun
from tests.support.descs import relation_descs
from tests.support.descs.own_descs import OWN, own_desc
from tests.support.operators.layout_runs import as_values, by_definition, run
from tests.support.operators.operator_types import of_all_types
from tests.support.tolerance import assert_close, assert_each_close

_CHANGES = 6
_MOST_ELEMENTS = 4096
_TERMS = 1024
_SMALLEST, _LARGEST = 1e-6, 1e30
"""Of results that tolerances hold for."""
_OTHERWISE = frozenset({"RANDOM_GENERATOR"})
"""Operators that are compared elsewhere."""


@cache
def device_named(name: str) -> dml.Device:
    if name != "cuda":
        return dml.device(name)
    from dmlpy.devices.cuda.device import CudaDevice
    from dmlpy.devices.cuda.emulation.runtime import EmulatedRuntime

    return CudaDevice(EmulatedRuntime())


@cache
def bases(name: str) -> list[dml.OperatorDesc]:
    """Valid descs of an operator, by its short name."""
    kind = next(kind for kind in OPERATORS.values() if kind.short_name() == name)
    made = [own_desc(kind.type_name) if kind.type_name in OWN else sample(kind)]
    if kind.is_extension:
        return made
    made += of_all_types(kind)
    made += [
        dml.OperatorDesc.from_dict(relation_descs.data(kind.type_name, own.members)) for own in relation_descs.valid_descs(kind.type_name)
    ]
    return [desc for desc in made if not dml.check(desc)]


def is_valid(desc: dml.OperatorDesc) -> bool:
    tensors = desc.tensors().values()
    return not dml.check(desc) and sum(tensor.element_count for tensor in tensors) <= _MOST_ELEMENTS


def with_members(desc: dml.OperatorDesc, members: dict[str, Any], *, infer: bool) -> dml.OperatorDesc | None:
    """The desc with other members, and the sizes of its outputs inferred anew where `infer`; None if it is not valid."""
    try:
        made = desc.replace(**members)
        if infer:
            names = [field.name for field in desc.outputs() if getattr(desc, field.name) is not None]
            made = made.replace(**dict.fromkeys(names)).with_outputs(*names)
    except (dml.DmlError, OverflowError):
        return None
    return made if is_valid(made) else None


def _each_tensor(desc: dml.OperatorDesc, change: Callable[[dml.TensorDesc], dml.TensorDesc], *, outputs: bool) -> dict[str, Any]:
    members: dict[str, Any] = {}
    for field in desc.tensor_fields():
        given = getattr(desc, field.name)
        if given is not None and (outputs or not field.marker.output):
            members[field.name] = tuple(map(change, given)) if isinstance(given, tuple) else change(given)
    return members


def other_size(chance: random.Random, desc: dml.OperatorDesc) -> dml.OperatorDesc | None:
    """A size that stands for one thing, or all those that are equal, have another number."""
    sizes = sorted({size for tensor in desc.tensors().values() for size in tensor.sizes})
    size, new = chance.choice(sizes), chance.choice([1, 1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 33])
    axis = chance.choice([None, *range(8)])

    def changed(tensor: dml.TensorDesc) -> dml.TensorDesc:
        own = tuple(new if old == size and axis in (None, at) else old for at, old in enumerate(tensor.sizes))
        return dml.TensorDesc(data_type=tensor.data_type, sizes=own)

    infer = chance.random() < 0.7
    return with_members(desc, _each_tensor(desc, changed, outputs=not infer), infer=infer)


def other_rank(chance: random.Random, desc: dml.OperatorDesc) -> dml.OperatorDesc | None:
    """A dimension more in front, and an entry more of the attributes that have one for each."""
    size = chance.choice([1, 1, 2, 3])
    ranks = {len(tensor.sizes) for tensor in desc.tensors().values()}
    members = _each_tensor(
        desc, lambda tensor: dml.TensorDesc(data_type=tensor.data_type, sizes=(size, *tensor.sizes)), outputs=chance.random() < 0.5
    )
    for attribute in type(desc).attribute_fields():
        value = getattr(desc, attribute.name)
        if isinstance(value, tuple) and len(value) in ranks and value:
            members[attribute.name] = (chance.choice([0, 1, size]), *value)
        elif isinstance(value, tuple) and attribute.name == "axes":
            members[attribute.name] = tuple(axis + 1 for axis in value)
        elif attribute.name == "axis" and chance.random() < 0.7:
            members[attribute.name] = value + 1
    return with_members(desc, members, infer=True)


def _other_number(chance: random.Random, value: Any) -> Any:
    if isinstance(value, bool):
        return not value
    if isinstance(value, Enum):
        return chance.choice(list(type(value)))
    if isinstance(value, int):
        return chance.choice([0, 1, 2, 3, 4, value + 1, max(value - 1, 0), -1, -2])
    if isinstance(value, float):
        return chance.choice([0.0, 0.5, 1.0, 2.0, -1.0, 0.25, 1.5, 3.0, value])
    if isinstance(value, tuple) and value and not isinstance(value[0], dml.OperatorDesc | dml.TensorDesc):
        at = chance.randrange(len(value))
        return tuple(_other_number(chance, item) if place == at or chance.random() < 0.2 else item for place, item in enumerate(value))
    return value


def other_attribute(chance: random.Random, desc: dml.OperatorDesc) -> dml.OperatorDesc | None:
    attributes = type(desc).attribute_fields()
    if not attributes:
        return None
    attribute = chance.choice(attributes)
    value = getattr(desc, attribute.name)
    if isinstance(value, dml.OperatorDesc) or (isinstance(value, tuple) and value and isinstance(value[0], dml.OperatorDesc)):
        return other_activation(chance, desc, attribute.name, value)
    return with_members(desc, {attribute.name: _other_number(chance, value)}, infer=chance.random() < 0.8)


@cache
def _activations() -> list[dml.OperatorDesc]:
    """Each activation without tensors."""
    made = []
    for kind in OPERATORS.values():
        if "_ACTIVATION_" in kind.type_name and not kind.is_extension:
            own = sample(kind)
            made.append(own.replace(**{field.name: None for field in own.tensor_fields()}))
    return made


def other_activation(chance: random.Random, desc: dml.OperatorDesc, name: str, value: Any) -> dml.OperatorDesc | None:
    chosen = chance.choice(_activations())
    if isinstance(value, tuple):
        at = chance.randrange(len(value))
        return with_members(desc, {name: (*value[:at], chosen, *value[at + 1 :])}, infer=False)
    return with_members(desc, {name: chosen}, infer=False)


def with_activation(chance: random.Random, desc: dml.OperatorDesc) -> dml.OperatorDesc | None:
    """The activation that some operators fuse, where there is none."""
    if "fused_activation" not in type(desc).model_fields:
        return None
    return with_members(desc, {"fused_activation": chance.choice([None, *_activations()])}, infer=False)


def without_tensor(chance: random.Random, desc: dml.OperatorDesc) -> dml.OperatorDesc | None:
    optional = [field for field in desc.tensor_fields() if field.optional and getattr(desc, field.name) is not None]
    return with_members(desc, {chance.choice(optional).name: None}, infer=False) if optional else None


def other_layout(chance: random.Random, desc: dml.OperatorDesc) -> dml.OperatorDesc | None:
    """One tensor with gaps, its dimensions in another order, and of inputs some with a stride of 0."""
    fields = [field for field in desc.tensor_fields() if isinstance(getattr(desc, field.name), dml.TensorDesc)]
    field = chance.choice(fields)
    tensor = getattr(desc, field.name)
    strides, reach = [0] * len(tensor.sizes), chance.choice([1, 1, 1, 2, 3])
    order = list(range(len(tensor.sizes)))[::-1]
    if chance.random() < 0.6:
        chance.shuffle(order)
    for axis in order:
        if not field.marker.output and chance.random() < 0.15:
            continue
        strides[axis] = reach if tensor.sizes[axis] > 1 or chance.random() < 0.5 else chance.choice([0, 1, 5])
        reach = reach * tensor.sizes[axis] + chance.choice([0, 0, 0, 1, 3])
    return with_members(desc, {field.name: dml.TensorDesc(data_type=tensor.data_type, sizes=tensor.sizes, strides=strides)}, infer=False)


def other_type(chance: random.Random, desc: dml.OperatorDesc) -> dml.OperatorDesc | None:
    """All tensors of one floating-point type have another one."""
    types = [dml.DataType.FLOAT32, dml.DataType.FLOAT16, dml.DataType.BFLOAT16, dml.DataType.FLOAT64]
    old, new = chance.sample(types, 2)

    def changed(tensor: dml.TensorDesc) -> dml.TensorDesc:
        return dml.TensorDesc(data_type=new if tensor.data_type is old else tensor.data_type, sizes=tensor.sizes, strides=tensor.strides)

    return with_members(desc, _each_tensor(desc, changed, outputs=True), infer=False)


CHANGES = (
    other_type,
    other_size,
    other_size,
    other_size,
    other_rank,
    other_attribute,
    other_attribute,
    with_activation,
    without_tensor,
    other_layout,
    other_layout,
)


def random_desc(chance: random.Random, name: str) -> dml.OperatorDesc:
    desc = chance.choice(bases(name))
    for _ in range(chance.randrange(_CHANGES + 1)):
        for _ in range(4):
            if (changed := chance.choice(CHANGES)(chance, desc)) is not None:
                desc = changed
                break
    return desc


def rounds(desc: dml.OperatorDesc) -> bool:
    """Whether integers are rounded from floating point: then a result next to the middle of two may be either."""
    name = desc.short_name()
    return "QUANTIZE" in name or "RESAMPLE" in name or "INTERPOL" in name or name in ("CAST", "ACTIVATION_SHRINK", "AVERAGE_POOLING1")


def compare(desc: dml.OperatorDesc, given: dict[str, Any], exact: dict[str, Any], device: dml.Device) -> None:
    """Fails unless the device gives what the definition gives."""
    found = run(desc, given, device)
    for place, result in found.items():
        wanted = exact[place]
        if result.dtype.kind in "fV":
            with np.errstate(all="ignore"):
                wide = np.asarray(wanted, np.float64)
                narrow = wide.astype(np.float32) if result.dtype.kind == "V" else wide
                stored = narrow.astype(result.dtype).astype(np.float64)
                wide = np.where(np.isfinite(stored), wide, stored)
            size = np.abs(wide).max(initial=0)
            if not size < _LARGEST:  # or NaN: an intermediate result may have overflowed
                continue
            if size < _SMALLEST:  # terms cancel out
                assert_each_close(result, wide, result.dtype, what=place)
                continue
            assert_close(result, wide, result.dtype, terms=_TERMS, what=place, least=0.25 if result.dtype.itemsize == 2 else 0.01)
        else:
            apart = np.abs(result.astype(np.float64) - wanted.astype(np.float64)).max(initial=0)
            assert apart <= rounds(desc), f"{place}: integers are up to {apart} apart"


def difference(fuzz: FuzzRun, devices: Sequence[str], names: Sequence[str]) -> str:
    """One desc on some devices."""
    name = fuzz.chance.choice(names)
    desc = random_desc(fuzz.chance, name)
    rng = np.random.default_rng(fuzz.chance.randrange(1 << 30))
    given = {place: as_values(array, desc.tensors()[place]) for place, array in random_inputs(rng, desc).items()}
    exact = by_definition(desc, given)
    outcome = "ran"
    for each in devices:
        try:
            compare(desc, given, exact, device_named(each))
        except dml.DmlError as error:
            if not isinstance(error, dml.CompileError | dml.DeviceError | dml.BindError):
                raise
            outcome = f"refused: {type(error).__name__} {error.problems[0].code if error.problems else ''}"
            if isinstance(error, dml.BindError):
                fuzz.promise(False, f"{each}: {name}: {error}\n{json.dumps(desc.to_dict())}")
        except Exception as error:
            fuzz.promise(False, f"{each}: {type(error).__name__}: {str(error)[:300]}\n{json.dumps(desc.to_dict())}\n{name}")
    return outcome


def in_place(fuzz: FuzzRun, names: Sequence[str]) -> str:
    """An output in the memory of an input, on a device of the host: the bits are those of an output of its own."""
    name = fuzz.chance.choice(names)
    desc = random_desc(fuzz.chance, name)
    outputs = [slot for slot in desc.output_slots() if slot.tensor is not None and slot.index is None]
    pairs = [(one, slot) for one in outputs for slot in desc.input_slots() if slot.index is None and _is_alike(one.tensor, slot.tensor)]
    if not pairs:
        return "no input like the output"
    output, source = fuzz.chance.choice(pairs)
    assert output.tensor is not None
    rng = np.random.default_rng(fuzz.chance.randrange(1 << 30))
    tensors = {name: tensor for name, tensor in desc.tensors().items() if name not in {slot.place for slot in outputs}}
    given = random_inputs(rng, desc)
    found: list[str] = []
    for where in ("numpy", "cpu"):
        op = dml.compile(desc, where)
        apart = op(**_laid_out(tensors, given)).as_dict()[output.place]
        arrays = _laid_out(tensors, given)
        with fuzz.answers(found):
            op(**arrays, **{output.place: arrays[source.place]})
            fuzz.promise(
                np.array_equal(_bytes(arrays[source.place]), _bytes(apart)), f"{where}\n{json.dumps(desc.to_dict())}\n{name} {source.place}"
            )
    return ", ".join(sorted(set(found)))


def _is_alike(one: dml.TensorDesc | None, other: dml.TensorDesc | None) -> bool:
    if one is None or other is None or 0 in [stride for size, stride in zip(other.sizes, other.element_strides, strict=True) if size > 1]:
        return False
    return (one.data_type, one.sizes, one.element_strides) == (other.data_type, other.sizes, other.element_strides)


def _laid_out(tensors: dict[str, dml.TensorDesc], given: dict[str, Any]) -> dict[str, Any]:
    """Copies of arrays, with the described strides."""
    made: dict[str, Any] = {}
    for name, tensor in tensors.items():
        stored = tensor.memory
        memory = np.zeros(stored.span, stored.data_type.numpy)
        array = np.lib.stride_tricks.as_strided(memory, stored.sizes, stored.numpy_strides())
        array[...] = given[name]
        field, index = name.partition("[")[::2]
        if index:
            made.setdefault(field, []).append(array)
        else:
            made[name] = array
    return made


def _bytes(array: Any) -> Any:
    return np.frombuffer(np.ascontiguousarray(array).tobytes(), np.uint8)


def operators() -> Iterator[str]:
    """The operators that are defined, but for those that read a reserve, in whose layout each device writes it."""
    for kind in OPERATORS.values():
        reads_reserve = any("reserve" in field.name for field in kind.tensor_fields())
        if definition(kind) is not None and not reads_reserve and kind.short_name() not in _OTHERWISE:
            yield kind.short_name()


def main(arguments: Sequence[str] | None = None) -> int:
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    names = list(operators())
    if "--operators" in arguments:
        at = arguments.index("--operators")
        end = next((place for place in range(at + 1, len(arguments)) if arguments[place].startswith("--")), len(arguments))
        names = arguments[at + 1 : end]
        del arguments[at:end]
    kinds: dict[str, Callable[[FuzzRun], str]] = {
        name: partial(difference, devices=[name], names=names) for name in ("numpy", "cpu", "cuda")
    }
    return tally.run(arguments, __doc__, kinds | {"in_place": partial(in_place, names=names)})


if __name__ == "__main__":
    sys.exit(main())
