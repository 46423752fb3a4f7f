"""`LSTM`, `GRU` and `RNN` as Thinc's models, over Padded, Ragged, lists of arrays and arrays."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np
from thinc.api import Model, glorot_uniform_init, registry, zero_init
from thinc.types import Floats2d, Floats3d, Padded, Ragged
from thinc.util import get_width

from dmlpy.description.coercion import brief, is_among
from dmlpy.description.enums import RecurrentDirection
from dmlpy.description.gate_order import GateOrder
from dmlpy.devices import device as find_device
from dmlpy.messages.naming import alternatives
from dmlpy.messages.problems import DescError, Problem
from dmlpy.nn.arrays import Home
from dmlpy.nn.layers import ACTIVATIONS, Layer, Lease, Sizes, Workspace, lease
from dmlpy.thinc.argument_names import NAMES
from dmlpy.thinc.sequences import Batch, batch_of
from dmlpy.thinc.weights import LayerWeights, Shape, slices, split

if TYPE_CHECKING:
    from dmlpy.description.gate_order import Cell
    from dmlpy.devices import Device

SequenceT = TypeVar("SequenceT", Padded, Ragged, list[Floats2d], Floats3d)
Initializer = Callable[..., Any]
"""Thinc's: called with ops and a shape, it returns an array."""
Native = Any

_STATES = {"LSTM": "HC0", "GRU": "H0", "RNN": "H0"}
"""The parameter that holds the states before the first step. As in Thinc's `LSTM.v1`, nothing trains it."""


@registry.layers("dmlpy.LSTM.v1")
@NAMES.refuse_others
def LSTM(
    nO: int | None = None,
    nI: int | None = None,
    *,
    bi: bool = False,
    depth: int = 1,
    dropout: float = 0.0,
    init_W: Initializer | None = None,
    init_b: Initializer | None = None,
) -> Model[SequenceT, SequenceT]:
    """Creates long short-term memory layers with the arguments, parameters and initial values of Thinc's `LSTM.v1`.

    Args:
        nO: the width of the output: twice the units with `bi`. None: from the data.
        nI: the width of the input. None: from the data.
        bi: whether each layer runs in both directions.
        depth: the number of layers.
        dropout: the share of the weights that are zero in a training step.
        init_W: the initializer of the matrices; None: `glorot_uniform_init`.
        init_b: that of the biases; None: `zero_init`.

    Raises:
        DescError: an argument is out of its range.
    """
    return _model("LSTM", nO, nI, bi, depth, dropout, init_W, init_b)


@registry.layers("dmlpy.GRU.v1")
@NAMES.refuse_others
def GRU(
    nO: int | None = None,
    nI: int | None = None,
    *,
    bi: bool = False,
    depth: int = 1,
    dropout: float = 0.0,
    init_W: Initializer | None = None,
    init_b: Initializer | None = None,
) -> Model[SequenceT, SequenceT]:
    """Creates layers of gated recurrent units, whose reset gate multiplies the recurrent product; the arguments are those of `LSTM`."""
    return _model("GRU", nO, nI, bi, depth, dropout, init_W, init_b)


@registry.layers("dmlpy.RNN.v1")
@NAMES.refuse_others
def RNN(
    nO: int | None = None,
    nI: int | None = None,
    *,
    bi: bool = False,
    depth: int = 1,
    dropout: float = 0.0,
    activation: str = "tanh",
    init_W: Initializer | None = None,
    init_b: Initializer | None = None,
) -> Model[SequenceT, SequenceT]:
    """Creates simple recurrent layers with the activation `tanh` or `relu`; the other arguments, and the errors, are those of `LSTM`."""
    model: Model[SequenceT, SequenceT] = _model("RNN", nO, nI, bi, depth, dropout, init_W, init_b)
    if not is_among(activation, ACTIVATIONS):
        expected = alternatives(map(repr, ACTIVATIONS))
        raise DescError("dmlpy.thinc.RNN", [Problem("field.form", "activation", brief(activation), expected)])
    model.attrs["activation"] = activation
    return model


def _model(
    cell: Cell,
    outputs: int | None,
    inputs: int | None,
    bi: bool,
    depth: int,
    dropout: float,
    init_w: Initializer | None,
    init_b: Initializer | None,
) -> Model[Any, Any]:
    directions, problems = 1, list[Problem]()
    if not isinstance(bi, int | np.bool_):
        problems.append(Problem("field.form", "bi", brief(bi), "True or False"))
    elif bi:
        directions = 2
    for name, init in {"init_W": init_w, "init_b": init_b}.items():
        if init is not None and not callable(init):
            problems.append(Problem("field.form", name, brief(init), "an initializer of Thinc, or None"))
    sizes = {"nO": outputs, "nI": inputs, "depth": depth}
    wrong = [name for name, size in sizes.items() if not _is_size(size) and (size is not None or name == "depth")]
    problems += [Problem("field.form", name, brief(sizes[name]), "an integer of at least 1") for name in wrong]
    if outputs is not None and "nO" not in wrong and outputs % directions:
        problems.append(Problem("field.form", "nO", str(outputs), "an even number", ("bi is True: each direction gives half of it",)))
    if not isinstance(dropout, int | float | np.number) or not 0 <= dropout <= 1:
        problems.append(Problem("dropout_range", "dropout", brief(dropout), "a number from 0 to 1"))
    if problems:
        raise DescError(f"dmlpy.thinc.{cell}", problems)
    return Model(
        cell.lower(),
        partial(_forward, cell),
        dims={"nO": outputs, "nI": inputs, "depth": depth, "dirs": directions},
        attrs={"registry_name": f"dmlpy.{cell}.v1", "dropout_rate": dropout},
        params={cell: None, _STATES[cell]: None},
        init=partial(_init, cell, init_w or glorot_uniform_init, init_b or zero_init),
    )


def _is_size(size: object) -> bool:
    return isinstance(size, int | np.integer) and not isinstance(size, bool) and bool(size >= 1)


def shape_of(cell: Cell, model: Model[Any, Any]) -> Shape:
    """The sizes of a model whose widths are known.

    Raises:
        DescError: a width is not known, or both directions cannot share the output's.
    """
    if unknown := [name for name in ("nO", "nI") if not model.has_dim(name)]:
        remedy = f"give {' and '.join(unknown)}, or call model.initialize(X=..., Y=...) with a batch of inputs and outputs"
        raise DescError(f"dmlpy.thinc.{cell}", [Problem("field.missing", name, "unknown", "a width", (), remedy) for name in unknown])
    outputs, directions = model.get_dim("nO"), model.get_dim("dirs")
    if outputs % directions:
        problem = Problem("field.form", "nO", str(outputs), "an even number", ("bi is True: each direction gives half of it",))
        raise DescError(f"dmlpy.thinc.{cell}", [problem])
    return Shape(cell, model.get_dim("nI"), outputs // directions, model.get_dim("depth"), directions)


def _init(cell: Cell, init_w: Initializer, init_b: Initializer, model: Model[Any, Any], X: Any = None, Y: Any = None) -> None:
    if X is not None and not model.has_dim("nI"):
        model.set_dim("nI", get_width(X))
    if Y is not None and not model.has_dim("nO"):
        model.set_dim("nO", get_width(Y))
    shape, ops = shape_of(cell, model), model.ops
    flat = ops.alloc1f(shape.size)
    for layer in split(flat, shape):
        for direction in range(shape.directions):
            # One gate after the other, in the order of Thinc's: equal seeds give equal weights.
            for matrices, biases in ((layer.w[direction], layer.bw[direction]), (layer.r[direction], layer.br[direction])):
                for part, fill in ((matrices, init_w), (biases, init_b)):
                    for start in range(0, len(part), shape.units):
                        gate = part[start : start + shape.units]
                        gate[...] = fill(ops, gate.shape)
    model.set_param(cell, flat)
    model.set_param(_STATES[cell], zero_init(ops, _states_shape(shape)))


def _states_shape(shape: Shape) -> tuple[int, ...]:
    sizes = (shape.depth, shape.directions, shape.units)
    return (2, *sizes) if shape.cell == "LSTM" else sizes


def _home(model: Model[Any, Any]) -> Home:
    """The device and the library of a model's arrays."""
    ops, xp = model.ops, model.ops.xp
    if xp is np:
        return _home_at(find_device, "cpu", xp)
    if xp.__name__ == "cupy":
        return _home_at(find_device, f"cuda:{max(ops.device_id, 0)}", xp)
    expected = "ops of NumPy or CuPy: thinc.api.NumpyOps or CupyOps"
    raise DescError("dmlpy.thinc", [Problem("field.form", "model.ops", type(ops).__name__, expected)])


@lru_cache
def _home_at(find: Callable[[str], Device], name: str, xp: Any) -> Home:
    return Home(find(name), xp, lambda array: array)


def _param(model: Model[Any, Any], name: str, shape: tuple[int, ...]) -> Native:
    if model.has_param(name) is not True:
        remedy = "call model.initialize(), or load a model of this kind"
        raise DescError("dmlpy.thinc", [Problem("field.missing", name, "missing", f"an array {list(shape)}", remedy=remedy)])
    param = cast("Any", model.get_param(name))
    if tuple(param.shape) != shape:
        names = ("nI", "nO", "depth", "dirs")
        why = (", ".join(f"{dim} is {model.get_dim(dim)}" for dim in names), "the layout is that of Thinc's LSTM.v1")
        raise DescError("dmlpy.thinc", [Problem("array.shape", name, str(list(param.shape)), str(list(shape)), why)])
    return param


def _forward(cell: Cell, model: Model[Any, Any], X: Any, is_train: bool) -> tuple[Any, Callable[[Any], Any]]:
    home, shape = _home(model), shape_of(cell, model)
    batch = batch_of(home.xp, X)
    x = batch.data(X, shape.inputs, "X")
    flat, states = _param(model, cell, (shape.size,)), _param(model, _STATES[cell], _states_shape(shape))
    mask = None
    if is_train and (rate := model.attrs["dropout_rate"]) > 0:
        mask = model.ops.get_dropout_mask(flat.shape, rate)
        flat = flat * mask
    if batch.is_empty:
        return batch.get(None, model.get_dim("nO")), lambda _: batch.get(None, shape.inputs)
    layer = _layer(cell, model)
    with home.current():
        leases = _run(home, layer, shape, batch, x, flat, states, is_train=is_train)
        last = leases[-1]
        # A gradient does not read y, and leases are held until nobody can ask for it: so y need not be copied.
        y = batch.get(last.lend(last.space.y) if is_train else last.space.y, model.get_dim("nO"), takes=is_train)
        for used in leases:
            used.space.note_use()

    def backprop(dY: Any) -> Any:
        upstream = batch.data(dY, model.get_dim("nO"), "dY")
        with home.current():
            for used in leases:
                used.follow(home.device)
            gradient = _differentiate(leases, shape, batch, upstream, model.ops.alloc1f(shape.size, zeros=False))
            if mask is not None:
                gradient *= mask
            model.inc_grad(cell, gradient)
            found = batch.get(leases[0].space.gradients["x"], shape.inputs)
            for used in leases:
                used.space.note_use()
            return found

    if not is_train:
        for used in reversed(leases):  # layers of equal sizes then find the weights of the last call in the next one
            used.close()
        return y, _not_trained
    return y, backprop


def _not_trained(dY: Any) -> Any:
    remedy = "call model.begin_update(X), or model(X, is_train=True)"
    problem = Problem("field.form", "is_train", "False", "True, for a call whose gradient follows", remedy=remedy)
    raise DescError("dmlpy.thinc", [problem])


def _layer(cell: Cell, model: Model[Any, Any]) -> Layer:
    return _layer_of(cell, model.get_dim("dirs"), model.attrs.get("activation", "tanh"))


@lru_cache
def _layer_of(cell: Cell, directions: int, activation: str) -> Layer:
    return Layer(cell, RecurrentDirection.BIDIRECTIONAL if directions == 2 else RecurrentDirection.FORWARD, activation)


def _run(home: Home, layer: Layer, shape: Shape, batch: Batch, x: Any, flat: Native, states: Native, *, is_train: bool) -> list[Lease]:
    """Runs all layers; each one's workspace holds its results."""
    leases: list[Lease] = []
    for number, elements in enumerate(slices(flat, shape)):
        sizes = Sizes(*batch.buffer, shape.inputs_of(number), shape.units)
        taken = lease(home, layer, sizes, np.float32, ragged=batch.is_ragged, trains=is_train)
        space = taken.space
        if leases:
            space.x[...] = leases[-1].space.y
        else:
            batch.put(x, space.x)
        space.set_weights(GateOrder.THINC, [elements], partial(_fill, space, elements, shape, number))
        if space.c0 is None:
            space.h0[...] = states[number][:, None]
        else:  # Thinc passes the two halves the other way round than it names them
            space.c0[...], space.h0[...] = states[0, number][:, None], states[1, number][:, None]
        if space.lengths is not None:
            space.lengths[...] = batch.buffer_lengths()
        space.run()
        leases.append(taken)
    return leases


def _fill(space: Workspace, elements: Native, shape: Shape, layer: int) -> None:
    LayerWeights.of(elements, shape, layer).fill(space, shape.cell)


def _differentiate(leases: list[Lease], shape: Shape, batch: Batch, upstream: Any, gradient: Native) -> Native:
    """Computes the gradient of the parameter, and leaves that of the input in the first workspace."""
    parts = list(split(gradient, shape))
    for number in reversed(range(shape.depth)):
        space = leases[number].space
        if number == shape.depth - 1:
            batch.put(upstream, space.upstream["y"])
        else:
            space.upstream["y"][...] = leases[number + 1].space.gradients["x"]
        for name in ("h", "c"):
            if name in space.upstream:
                space.upstream[name][...] = 0
        space.differentiate()
        parts[number].take(space, shape.cell)
    return gradient
