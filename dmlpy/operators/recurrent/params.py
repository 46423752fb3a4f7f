"""The flat `params` buffer of CudnnRNNV3: dmlpy's layout, and the conversions to and from named or listed matrices.

With H = num_units, I = input_size, D directions and G gates (RNN 1, GRU 3, LSTM 4), h has S entries: num_proj with a projection, else H.
The buffer holds, one after the other and without gaps, each block row-major:

    for each layer, for each direction (forward first):
        weight_ih   [G*H, I], in deeper layers [G*H, D*S]; the first layer has none with skip_input
        weight_hh   [G*H, S]
        weight_hr   [num_proj, H], the LSTM's projection, if there is one
    then again for each layer, for each direction:
        bias_ih     [G*H]
        bias_hh     [G*H]

Gates lie in cuDNN's order (LSTM i, f, g, o; GRU r, z, n), as everywhere in PyTorch, whose names the blocks bear: `weight_ih_l0`,
`weight_hh_l0_reverse`, ... The layout is the same on every device and will not change under its version, so that a stored buffer keeps
its meaning.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any, Literal, NamedTuple

import numpy as np

from dmlpy.description.coercion import brief
from dmlpy.description.flags import option_problems
from dmlpy.description.form_remedies import spelling_remedy
from dmlpy.description.gate_order import Cell, GateOrder
from dmlpy.messages.naming import did_you_mean, nearest, plural
from dmlpy.messages.problems import DescError, Problem

PARAMS_LAYOUT_VERSION = 1
"""Another number means another order of the blocks."""

BlockKind = Literal["weight_ih", "weight_hh", "weight_hr", "bias_ih", "bias_hh"]
ParamsArray = Any
"""An array of NumPy or CuPy, or another one that has a shape and a dtype and whose slices are views."""

_CELLS: dict[str, Cell] = {"rnn_relu": "RNN", "rnn_tanh": "RNN", "lstm": "LSTM", "gru": "GRU"}
_INPUT_MODES = ("linear_input", "skip_input", "auto_select")
_DIRECTIONS = ("unidirectional", "bidirectional")
_MOST = {"num_layers": 1 << 16}
"""The most layers: each has blocks of its own, which are listed."""


@dataclass(frozen=True)
class ParamsBlock:
    """One matrix or bias in the buffer, with all its gates.

    Attributes:
        name: PyTorch's name: `weight_ih_l0`, `bias_hh_l1_reverse`.
        layer: counted from the input, from 0.
        direction: 0 forward, 1 backward.
        kind: the name without layer and direction.
        offset: elements of the buffer before it.
        shape: (out, in) of a matrix, (out,) of a bias.
    """

    name: str
    layer: int
    direction: int
    kind: BlockKind
    offset: int
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        """The number of elements in the block."""
        return prod(self.shape)

    def view(self, params: ParamsArray) -> ParamsArray:
        """The block in a flat buffer, without a copy."""
        return params[self.offset : self.offset + self.size].reshape(self.shape)


@dataclass(frozen=True)
class ParamsLayout:
    """The layout of one network's `params`.

    Attributes:
        rnn_mode: `rnn_relu`, `rnn_tanh`, `lstm` or `gru`, in any case.
        num_layers: layers, each reading the one before it.
        num_units: H, units of each layer and direction.
        input_size: I, values of the network's input for each step and sample.
        bidirectional: whether each layer runs in both directions.
        num_proj: entries of the LSTM's projected h, fewer than num_units; 0 for none.
        skip_input: whether the first layer takes its input without matrices, which needs I = H.

    Raises:
        DescError: names every member that is wrong.
    """

    rnn_mode: str
    num_layers: int
    num_units: int
    input_size: int
    bidirectional: bool
    num_proj: int = 0
    skip_input: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "rnn_mode", str(self.rnn_mode).lower())
        problems = [*_choice("rnn_mode", self.rnn_mode, _CELLS)]
        for name in ("num_layers", "num_units", "input_size", "num_proj"):
            problems += self._number(name, least=0 if name == "num_proj" else 1)
        flags = {"bidirectional": self.bidirectional, "skip_input": self.skip_input}
        problems += option_problems(**flags)
        if not problems:
            for name, value in flags.items():
                object.__setattr__(self, name, bool(value))
            problems += self._broken_rules()
        if problems:
            raise DescError("ParamsLayout", problems)

    def _number(self, name: str, least: int) -> Iterator[Problem]:
        value = getattr(self, name)
        if isinstance(value, bool | np.bool_) or not isinstance(value, int | np.integer) or value < least:
            yield Problem("field.form", name, brief(value), f"an integer of at least {least}")
        elif value > _MOST.get(name, value):
            yield Problem("field.form", name, brief(value), f"at most {_MOST[name]}")
        else:
            object.__setattr__(self, name, int(value))

    def _broken_rules(self) -> Iterator[Problem]:
        if self.num_proj and self.rnn_mode != "lstm":
            yield Problem("num_proj_range", "num_proj", str(self.num_proj), "0", (f"rnn_mode is {self.rnn_mode}",))
        elif self.num_proj >= self.num_units:
            expected = f"less than num_units = {self.num_units}"
            yield Problem("num_proj_range", "num_proj", str(self.num_proj), expected, ("a projection makes h smaller",))
        if self.skip_input and self.input_size != self.num_units:
            why = (f"input_size is {self.input_size}, num_units is {self.num_units}", "the input takes the place of the gates' products")
            yield Problem("skip_input_sizes", "skip_input", "True", "False where input_size differs from num_units", why)

    @classmethod
    def of(
        cls,
        num_layers: int,
        num_units: int,
        input_size: int,
        *,
        rnn_mode: object = "lstm",
        input_mode: object = "linear_input",
        direction: object = "unidirectional",
        num_proj: int = 0,
    ) -> ParamsLayout:
        """The layout for TensorFlow's attributes, with their defaults; names in any case.

        `input_mode` is `linear_input`, `skip_input` or `auto_select`, which skips exactly if input_size = num_units.

        Raises:
            DescError: names every attribute that is wrong.
        """
        mode, way = str(input_mode).lower(), str(direction).lower()
        problems = [*_choice("input_mode", mode, _INPUT_MODES), *_choice("direction", way, _DIRECTIONS)]
        skip = mode == "skip_input" or (mode == "auto_select" and input_size == num_units)
        try:
            layout = cls(str(rnn_mode), num_layers, num_units, input_size, way == "bidirectional", num_proj, skip)
        except DescError as error:
            raise DescError("params", [*error.problems, *problems]) from None
        if problems:
            raise DescError("params", problems)
        return layout

    @property
    def cell(self) -> Cell:
        """The cell, by its name in dmlpy.description.gate_order."""
        return _CELLS[self.rnn_mode]

    @property
    def gates(self) -> int:
        """G, the number of gates: 1 for RNN, 3 for GRU, 4 for LSTM."""
        return len(GateOrder.CUDNN.gates(self.cell))

    @property
    def num_directions(self) -> int:
        """D, the number of directions: 1 or 2."""
        return 2 if self.bidirectional else 1

    @property
    def state_size(self) -> int:
        """The number S of entries of h, which is num_proj with a projection, else num_units."""
        return self.num_proj or self.num_units

    @property
    def size(self) -> int:
        """The number of elements of the whole buffer."""
        last = self._blocks[-1]
        return last.offset + last.size

    def blocks(self) -> tuple[ParamsBlock, ...]:
        """All blocks, in the buffer's order."""
        return self._blocks

    @cached_property
    def _blocks(self) -> tuple[ParamsBlock, ...]:
        places = [(layer, direction) for layer in range(self.num_layers) for direction in range(self.num_directions)]
        rows = self.gates * self.num_units
        shapes: list[tuple[int, int, BlockKind, tuple[int, ...]]] = []
        for layer, direction in places:
            if layer or not self.skip_input:
                columns = self.num_directions * self.state_size if layer else self.input_size
                shapes.append((layer, direction, "weight_ih", (rows, columns)))
            shapes.append((layer, direction, "weight_hh", (rows, self.state_size)))
            if self.num_proj:
                shapes.append((layer, direction, "weight_hr", (self.num_proj, self.num_units)))
        for layer, direction in places:
            shapes += [(layer, direction, "bias_ih", (rows,)), (layer, direction, "bias_hh", (rows,))]
        blocks, offset = [], 0
        for layer, direction, kind, shape in shapes:
            name = f"{kind}_l{layer}{'_reverse' if direction else ''}"
            blocks.append(ParamsBlock(name, layer, direction, kind, offset, shape))
            offset += blocks[-1].size
        return tuple(blocks)


def params_size(
    num_layers: int,
    num_units: int,
    input_size: int,
    *,
    rnn_mode: object = "lstm",
    input_mode: object = "linear_input",
    direction: object = "unidirectional",
    num_proj: int = 0,
) -> int:
    """Returns the number of elements of `params`: TensorFlow's CudnnRNNParamsSize, with its attributes and their defaults.

    Raises:
        DescError: names every attribute that is wrong.
    """
    return ParamsLayout.of(
        num_layers, num_units, input_size, rnn_mode=rnn_mode, input_mode=input_mode, direction=direction, num_proj=num_proj
    ).size


def params_to_canonical(params: ParamsArray, layout: ParamsLayout) -> dict[str, ParamsArray]:
    """Returns the blocks of a buffer by PyTorch's names, in the buffer's order: views, so writing to them writes to the buffer.

    Args:
        params: [layout.size].
        layout: the network's layout.

    Raises:
        DescError: the buffer is not flat or has another size.
    """
    _check_buffer(params, layout, "params")
    return {block.name: block.view(params) for block in layout.blocks()}


def canonical_to_params(canonical: Mapping[str, ParamsArray], layout: ParamsLayout, out: ParamsArray | None = None) -> ParamsArray:
    """Combines named blocks into one buffer, as `params_to_canonical` or a PyTorch module's `state_dict` returns them.

    Args:
        canonical: every block of the layout, and nothing else, all of one type.
        layout: the network's layout.
        out: [layout.size], is overwritten; an entry may be its block of `out` itself, but no other part of it. Absent, a new array of the
            entries' library and type (NumPy or CuPy; other libraries' arrays need `out`).

    Returns:
        `out`, or the new array.

    Raises:
        DescError: names every entry that is missing, unknown, or of another shape or type. Nothing was written.
    """
    _check_layout(layout)
    if not isinstance(canonical, Mapping):
        raise DescError("canonical", [Problem("field.form", "canonical", brief(canonical), "a dict of arrays by the names of blocks")])
    blocks = {block.name: block for block in layout.blocks()}
    absent = [name for name in blocks if name not in canonical]
    unknown = [name for name in canonical if name not in blocks]
    problems = []
    for name in unknown:
        # A mistyped name is most probably one of the missing ones.
        remedy = did_you_mean(name, absent or blocks)
        problems.append(
            Problem(
                "field.unknown",
                name if isinstance(name, str) else brief(name),
                "not a block of this layout",
                "a name in layout.blocks()",
                remedy=remedy,
            )
        )
    for name in absent:
        close = nearest(name, map(str, unknown))
        remedy = f"was it given as {close}?" if close else None
        problems.append(Problem("field.missing", name, "missing", f"an array {list(blocks[name].shape)}", remedy=remedy))
    parts = [_Part(name, canonical[name], block.offset, block.shape) for name, block in blocks.items() if name in canonical]
    return _assemble("canonical", parts, problems, layout, out)


def params_to_weights_and_biases(params: ParamsArray, layout: ParamsLayout) -> tuple[list[ParamsArray], list[ParamsArray]]:
    """Returns the matrices and biases of single gates, listed as by TensorFlow's CudnnRNNParamsToCanonicalV2: views of the buffer.

    For each layer and direction, `weights` has the input matrices [H, columns] of all gates in cuDNN's order (none in the first layer with
    skip_input), the recurrent ones [H, S], then the projection [num_proj, H] if there is one; `biases` has the input biases [H] of all
    gates, then the recurrent ones.

    Args:
        params: [layout.size].
        layout: the network's layout.

    Raises:
        DescError: the buffer is not flat or has another size.
    """
    _check_buffer(params, layout, "params")
    listed: dict[bool, list[ParamsArray]] = {False: [], True: []}
    for is_bias, offset, shape in _gate_places(layout):
        listed[is_bias].append(params[offset : offset + prod(shape)].reshape(shape))
    return listed[False], listed[True]


def weights_and_biases_to_params(
    weights: Sequence[ParamsArray], biases: Sequence[ParamsArray], layout: ParamsLayout, out: ParamsArray | None = None
) -> ParamsArray:
    """Combines the matrices and biases of single gates into one buffer, as TensorFlow's CudnnRNNCanonicalToParamsV2 does.

    Args:
        weights: as `params_to_weights_and_biases` lists them, all of one type.
        biases: likewise.
        layout: the network's layout.
        out: as for `canonical_to_params`.

    Returns:
        `out`, or the new array.

    Raises:
        DescError: a list has another length, or entries have another shape or type: all of them are named. Nothing was written.
    """
    _check_layout(layout)
    places = list(_gate_places(layout))
    parts: list[_Part] = []
    problems = []
    for name, arrays, is_bias in (("weights", weights, False), ("biases", biases, True)):
        wanted = [(offset, shape) for kind, offset, shape in places if kind is is_bias]
        if not isinstance(arrays, Sequence) and not (_is_array(arrays) and arrays.shape):  # whose rows are the list's
            problems.append(Problem("field.form", name, brief(arrays), "a list of arrays"))
        elif len(arrays) != len(wanted):
            network = (
                f"{plural(layout.num_layers, 'layer')} of {plural(layout.num_directions, 'direction')}, {plural(layout.gates, 'gate')}"
            )
            why = (f"the {name} of {network}",)
            problems.append(Problem("count.length", name, f"a list of {len(arrays)}", f"a list of {len(wanted)}", why))
        else:
            entries = enumerate(zip(arrays, wanted, strict=True))
            parts += [_Part(f"{name}[{index}]", array, offset, shape) for index, (array, (offset, shape)) in entries]
    return _assemble("weights and biases", parts, problems, layout, out)


def _gate_places(layout: ParamsLayout) -> Iterator[tuple[bool, int, tuple[int, ...]]]:
    """Each gate's part of each block in the buffer's order: whether it is a bias, the offset, the shape; projections are whole."""
    for block in layout.blocks():
        count = 1 if block.kind == "weight_hr" else layout.gates
        shape = (block.shape[0] // count, *block.shape[1:])
        for gate in range(count):
            yield block.kind.startswith("bias"), block.offset + gate * prod(shape), shape


class _Part(NamedTuple):
    """An array that fills a part of the buffer."""

    path: str
    array: ParamsArray
    offset: int
    shape: tuple[int, ...]


def _assemble(subject: str, parts: list[_Part], problems: list[Problem], layout: ParamsLayout, out: ParamsArray | None) -> ParamsArray:
    """Copies the parts into the buffer once none of them has a problem."""
    types = Counter(part.array.dtype for part in parts if _is_array(part.array))
    if out is not None:
        _check_buffer(out, layout, "out")
        dtype, why = out.dtype, "out has this type"
    else:
        dtype, why = next((common for common, _ in types.most_common(1)), None), "most entries have this type"
    for path, array, _, shape in parts:
        if not _is_array(array):
            problems.append(Problem("array.kind", path, brief(array), f"an array {list(shape)}"))
            continue
        if tuple(array.shape) != shape:
            problems.append(Problem("array.shape", path, str(list(array.shape)), str(list(shape))))
        if array.dtype != dtype:
            problems.append(Problem("array.type", path, str(array.dtype), str(dtype), (why,)))
    if problems:
        raise DescError(subject, problems)
    if out is None:
        out = np.empty_like(parts[0].array, shape=(layout.size,))
    for _, array, offset, shape in parts:
        out[offset : offset + prod(shape)].reshape(shape)[...] = array
    return out


def _is_array(value: object) -> bool:
    return hasattr(value, "shape") and hasattr(value, "dtype")


def _check_layout(layout: object) -> None:
    if not isinstance(layout, ParamsLayout):
        remedy = "dmlpy.ParamsLayout.of(num_layers, num_units, input_size, rnn_mode=..., direction=...)"
        raise DescError("params", [Problem("field.form", "layout", brief(layout), "a ParamsLayout", remedy=remedy)])


def _check_buffer(params: ParamsArray, layout: ParamsLayout, name: str) -> None:
    _check_layout(layout)
    if not _is_array(params) or tuple(params.shape) != (layout.size,):
        code = "array.shape" if _is_array(params) else "array.kind"
        why = (f"that is what {layout} holds",)
        raise DescError(name, [Problem(code, name, brief(params), f"a flat array of {plural(layout.size, 'element')}", why)])


def _choice(name: str, value: str, choices: Iterable[str]) -> Iterator[Problem]:
    expected = f"one of {', '.join(choices)}"
    if value not in choices:
        yield Problem("field.form", name, repr(value), expected, remedy=spelling_remedy(value, expected))
