"""Properties of dmlpy's own operators over random descs: any combination of optional tensors passes and runs, a changed size is refused."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import dmlpy as dml
from dmlpy.description.descs import OperatorDesc
from dmlpy.description.registry import OPERATORS
from dmlpy.operators.normalization.fused_batch import FusedBatchNormDesc
from dmlpy.operators.recurrent.cudnn import CudnnRNNDesc
from dmlpy.operators.recurrent.gradient import ReserveDesc
from tests.support.descs.own_descs import GATES, OWN, ROLES

quick = settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
Members = dict[str, Any]
Symbols = dict[str, int]

# What the descs must find, written down independently.
OF_STATE = re.compile(r"(recurrence|hidden_init|state_dropout|output_sequence|output_single)(_gradient)?_tensor")
TRANSPOSED = re.compile(r"(input|output)(_[hc])?(_backprop)?")
ORDERS = {
    "NHWC": "batch height width channels",
    "NCHW": "batch channels height width",
    "NDHWC": "batch depth height width channels",
    "NCDHW": "batch channels depth height width",
}
VARIANCES = ("variance", "reserve_space_2")
FLAGS = ("use_clip_threshold", "couple_input_forget", "linear_before_reset")


def aligned(elements: int) -> int:
    return (elements + 63) // 64 * 64


def layer_reserve(symbols: Symbols, kept: int, state: int, memory: int) -> int:
    steps = symbols["seq_length"]
    return symbols["num_directions"] * symbols["batch_size"] * (steps * kept * symbols["hidden_size"] + (steps + 1) * (state + memory))


@st.composite
def layers(draw: st.DrawFn, kind: type[Any]) -> tuple[Members, Symbols, dict[str, str]]:
    """Attributes of a training form or a gradient, its symbols, and the patterns that differ from the fields'."""
    cell = kind.cell_kind
    direction = draw(st.sampled_from(["FORWARD", "BACKWARD", "BIDIRECTIONAL"]))
    directions = 2 if direction == "BIDIRECTIONAL" else 1
    symbols = {name: draw(st.integers(1, 5)) for name in ("seq_length", "batch_size", "input_size", "hidden_size", "projection_size")}
    symbols |= {"num_directions": directions, "num_gates": GATES[cell]}
    attributes: Members = {name: draw(st.booleans()) for name in FLAGS if name in kind.model_fields}
    if "clip_threshold" in kind.model_fields:
        attributes["clip_threshold"] = draw(st.floats(2**-10, 4, width=32))
    functions = [dml.ActivationTanhDesc(), dml.ActivationSigmoidDesc(), dml.ActivationSoftplusDesc(steepness=1.0)]
    attributes["activation_descs"] = [draw(st.sampled_from(functions)) for _ in range(directions * ROLES[cell])]
    projects = cell == "LSTM" and draw(st.booleans())
    state = symbols["projection_size" if projects else "hidden_size"]
    kept = GATES[cell] + attributes.get("linear_before_reset", False)
    symbols["reserve_size"] = layer_reserve(symbols, kept, state, symbols["hidden_size"] if cell == "LSTM" else 0)
    patterns: dict[str, str] = {}
    for field in kind.tensor_fields():
        if projects and OF_STATE.fullmatch(field.name):
            patterns[field.name] = field.marker.pattern.rpartition(" ")[0] + " projection_size"
        if not projects and field.name.startswith("projection"):
            patterns[field.name] = ""
    if projects:
        patterns["projection_tensor"] = "1 num_directions projection_size hidden_size"
    return attributes | {"direction": direction}, symbols, patterns


@st.composite
def networks(draw: st.DrawFn, kind: type[Any]) -> tuple[Members, Symbols, dict[str, str]]:
    """The same for a stacked network or its gradient."""
    mode = draw(st.sampled_from(["rnn_relu", "rnn_tanh", "gru", "lstm"]))
    directions, count = draw(st.integers(1, 2)), draw(st.integers(1, 3))
    symbols = {name: draw(st.integers(1, 5)) for name in ("seq_length", "batch_size", "input_size", "num_units")}
    units = symbols["num_units"]
    num_proj = draw(st.integers(0, units - 1)) if mode == "lstm" else 0
    input_mode = draw(st.sampled_from(["linear_input", "auto_select"] + ["skip_input"] * (units == symbols["input_size"])))
    direction = "bidirectional" if directions == 2 else "unidirectional"
    layout: Members = {"rnn_mode": mode, "input_mode": input_mode, "direction": direction, "num_proj": num_proj}
    attributes = layout | {"dropout": draw(st.sampled_from([0.0, 0.5])), "time_major": draw(st.booleans())}
    if "is_training" in kind.model_fields:
        attributes["is_training"] = draw(st.booleans())
    state = num_proj or units
    symbols |= {
        "num_directions": directions,
        "stacked_directions": count * directions,
        "state_size": state,
        "output_size": directions * state,
    }
    symbols["params_size"] = dml.params_size(count, units, symbols["input_size"], **layout)
    kept = 4 if mode in ("lstm", "gru") else 1
    of_layer = layer_reserve(symbols | {"hidden_size": units}, kept, state, units if mode == "lstm" else 0)
    between = symbols["seq_length"] * symbols["batch_size"] * directions * state
    symbols["reserve_size"] = 64 + count * aligned(of_layer) + (count - 1) * aligned(between)
    patterns: dict[str, str] = {}
    for field in kind.tensor_fields():
        if not attributes["time_major"] and TRANSPOSED.fullmatch(field.name):
            first, second, last = field.marker.pattern.split()
            patterns[field.name] = f"{second} {first} {last}"
        if re.fullmatch(r"(input|output)_c(_backprop)?", field.name) and mode != "lstm":
            patterns[field.name] = ""
    if not attributes.get("is_training", True):
        patterns["reserve_space"] = ""
    return attributes, symbols, patterns


@st.composite
def normalizations(draw: st.DrawFn, kind: type[Any]) -> tuple[Members, Symbols, dict[str, str]]:
    """The same for the normalization of images or volumes or its gradient."""
    order = draw(st.sampled_from(sorted(ORDERS)))
    symbols = {name: draw(st.integers(1, 5)) for name in ORDERS["NDHWC"].split()}
    attributes = {"data_format": order, "epsilon": draw(st.floats(2**-10, 1, width=32)), "is_training": draw(st.booleans())}
    if "exponential_avg_factor" in kind.model_fields:
        attributes["exponential_avg_factor"] = draw(st.sampled_from([0.25, 1.0]))
    return attributes, symbols, {field.name: ORDERS[order] for field in kind.tensor_fields() if len(field.marker.terms) > 1}


@st.composite
def valid(draw: st.DrawFn) -> tuple[Any, dict[str, list[tuple[int, str | None]]]]:
    """A desc with any of its optional tensors, and for each tensor the factor and symbol of each axis."""
    kind: Any = OPERATORS[draw(st.sampled_from(OWN))]
    if issubclass(kind, ReserveDesc):
        attributes, symbols, patterns = draw(layers(kind))
    elif issubclass(kind, CudnnRNNDesc):
        attributes, symbols, patterns = draw(networks(kind))
    elif issubclass(kind, FusedBatchNormDesc):
        attributes, symbols, patterns = draw(normalizations(kind))
    else:
        symbols = {name: draw(st.integers(1, 5)) for name in ("batch_size", "input_size", "cell_size")}
        attributes, patterns = {}, {}
        symbols["input_and_cell_size"] = symbols["input_size"] + symbols["cell_size"]
    data_type = draw(st.sampled_from(["FLOAT32", "FLOAT16"]))
    possible = {field.name for field in kind.tensor_fields() if patterns.get(field.name, "any") != ""}
    results = sorted(possible & {field.name for field in kind.outputs()})
    required = {field.name for field in kind.tensor_fields() if not field.optional} | {draw(st.sampled_from(results))}
    if issubclass(kind, CudnnRNNDesc) and "input_c" in possible:
        required.add("input_c")
    if not attributes.get("is_training", True) or attributes.get("exponential_avg_factor", 1) != 1:
        required |= possible & {"mean", "variance"}
    # A projection is what the sizes were drawn for; the gradient of peepholes needs these.
    required |= possible & {"projection_tensor"}
    present = {name for name in sorted(possible) if name in required or draw(st.booleans())}
    present |= {"peephole_tensor"} if "peephole_gradient_tensor" in present else set()
    axes: dict[str, list[tuple[int, str | None]]] = {}
    members: Members = dict(attributes)
    for field in kind.tensor_fields():
        if field.name in present:
            axes[field.name] = [_axis(text) for text in patterns.get(field.name, field.marker.pattern).split()]
            sizes = [factor * symbols.get(symbol or "", 1) for factor, symbol in axes[field.name]]
            own = data_type if isinstance(field.marker.types, str) else min(field.marker.types).name
            members[field.name] = dml.TensorDesc(data_type=own, sizes=sizes)
    return kind(**members), axes


def _axis(text: str) -> tuple[int, str | None]:
    if text.isdigit():
        return int(text), None
    factor, _, symbol = text.rpartition("*")
    return int(factor or 1), symbol


def inputs_of(desc: Any) -> dict[str, Any]:
    """Random values; a mask of both, lengths from 0 to T, and a reserve of zeros."""
    rng, found = np.random.default_rng(1), {}
    for field in desc.inputs():
        tensor = getattr(desc, field.name)
        if tensor is None:
            continue
        dtype = tensor.data_type.numpy
        if field.marker.reserve:
            found[field.name] = np.zeros(tensor.sizes, dtype)
        elif dtype.kind == "f":
            least = 0.0 if field.name in VARIANCES else -0.5
            found[field.name] = rng.uniform(least, 0.5, tensor.sizes).astype(dtype)
        else:
            most = desc.sizes()[field.marker.at_most] if field.marker.at_most else 1
            found[field.name] = rng.integers(0, most, tensor.sizes, dtype, endpoint=True)
    return found


@quick
@given(valid())
def test_every_combination_passes_and_runs(case: tuple[Any, Any]) -> None:
    desc, axes = case
    assert dml.check(desc) == []
    assert dml.check(desc, strict=True) == []
    assert OperatorDesc.from_json(desc.to_json()) == desc
    outputs = [name for name in axes if name in {field.name for field in desc.outputs()}]
    assert desc.replace(**dict.fromkeys(outputs)).with_outputs(*outputs) == desc, "the sizes of outputs are inferred"
    results = dml.compile(desc, "numpy")(**inputs_of(desc)).as_dict()
    assert list(results) == outputs
    for name, value in results.items():
        if isinstance(value, dml.Reserve):
            assert value.array.shape == getattr(desc, name).sizes  # of which a part may stay unwritten
        else:
            assert np.isfinite(value).all(), name


@quick
@given(valid(), st.data())
def test_a_changed_size_is_refused(case: tuple[Any, dict[str, list[tuple[int, str | None]]]], data: st.DataObject) -> None:
    """Where a pattern has a number, or another tensor or an attribute knows the symbol, no other size passes."""
    desc, axes = case
    told = [symbol for terms in axes.values() for _, symbol in terms]
    known = {*desc.size_methods(), *desc.derived_sizes()} - {"projection_size", "num_layers"}
    places = [
        (name, axis)
        for name, terms in axes.items()
        for axis, (_, symbol) in enumerate(terms)
        if symbol is None or symbol in known or told.count(symbol) > 1
    ]
    name, axis = data.draw(st.sampled_from(places))
    tensor = getattr(desc, name)
    sizes = list(tensor.sizes)
    sizes[axis] += data.draw(st.integers(1, 40))
    mutant = desc.replace(**{name: tensor.replace(sizes=sizes)})
    problems = dml.check(mutant)
    assert problems
    assert all(problem.found and problem.expected for problem in problems)
    assert OperatorDesc.from_json(mutant.to_json()) == mutant


numbers = st.one_of(st.integers(0, 5), st.sampled_from([-1, 2**31, 2**32 - 1, 2**32, 2**64]))


@quick
@given(valid(), st.data())
def test_check_never_raises(case: tuple[Any, Any], data: st.DataObject) -> None:
    """Whatever the tensors and numbers are, and whichever are missing: all that is wrong is reported."""
    desc, axes = case
    changes: Members = {}
    for name in data.draw(st.lists(st.sampled_from(sorted(axes)), max_size=4, unique=True)):
        sizes = data.draw(st.lists(numbers, max_size=5))
        changes[name] = dml.TensorDesc(data_type=data.draw(st.sampled_from(list(dml.DataType))), sizes=sizes)
    for field in desc.tensor_fields():
        if field.optional and data.draw(st.integers(0, 5)) == 0:
            changes[field.name] = None
    for name in desc.attribute_names():
        if isinstance(getattr(desc, name), float):
            changes[name] = data.draw(st.floats() | st.just(0.25))
        elif name in ("num_proj", "seed"):
            changes[name] = data.draw(numbers)
    desc = desc.replace(**changes)
    problems = dml.check(desc)
    for problem in problems:
        assert problem.code
        assert problem.found
        assert problem.expected
        assert problem.field in ("", *type(desc).model_fields)
    desc.table(problems).to_html()
