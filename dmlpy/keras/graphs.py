"""`model_graph`: the operators that a model runs to predict, with its weights, as one graph."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy import x as ops
from dmlpy.description.coercion import brief
from dmlpy.description.enums import RecurrentDirection, ReduceFunction
from dmlpy.description.flags import option_problems
from dmlpy.keras.activations import of_rows
from dmlpy.keras.arguments import size_problems
from dmlpy.keras.bidirectional import Bidirectional
from dmlpy.keras.pointwise import Activation, Dropout
from dmlpy.keras.recurrent import Recurrent
from dmlpy.keras.simple import Dense, Embedding, Masking
from dmlpy.keras.time_distributed import TimeDistributed
from dmlpy.messages.problems import DescError, Problem
from dmlpy.operators.activation import ActivationIdentityDesc, AxesActivationDesc

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from dmlpy.description.descs import OperatorDesc
    from dmlpy.graphs import Graph
    from dmlpy.keras.layer import Layer, Shape
    from dmlpy.x import Expression

_SUBJECT = "Sequential.to_graph"


def model_graph(layers: Sequence[Layer], input_shape: Sequence[int] | None, *, right_padded: bool) -> Graph:
    """The graph of `Sequential.to_graph`, of built layers, of which there is at least one."""
    first = layers[0].input_shape
    assert first is not None
    problems = _layer_problems(layers) + option_problems(right_padded=right_padded)
    sizes = _sizes(first, input_shape, problems)
    if problems:
        raise DescError(_SUBJECT, problems)
    expressions = _ModelExpressions(right_padded=bool(right_padded))
    y, mask = ops.input("x", sizes, "INT32" if layers[0].input_type is np.int32 else "FLOAT32"), None
    for layer in layers:
        with ops.name_scope(layer.name):
            y, mask = expressions.apply(layer, y, mask)
    return ops.graph({"y": y, **expressions.states}, "model")


def _layer_problems(layers: Sequence[Layer]) -> list[Problem]:
    """Problems of layers whose operators are not known: those of other classes, also of what is applied to each step."""
    problems = []
    for place, layer in enumerate(layers):
        inner, path = layer, f"layers[{place}]"
        while type(inner) is TimeDistributed:
            inner, path = inner.layer, f"{path}.layer"
        if type(inner) not in _KINDS and not isinstance(inner, Recurrent):
            names = ", ".join(kind.__name__ for kind in _KINDS)
            remedy = "write its operators with dmlpy.x, and the other layers' by to_graph of models without it"
            found = f"{inner.name}, of the class {type(inner).__name__}"
            problems.append(Problem("layer.kind", path, found, f"SimpleRNN, GRU, LSTM or one of {names}", remedy=remedy))
    return problems


def _sizes(known: Shape, given: Sequence[int] | None, problems: list[Problem]) -> tuple[int, ...]:
    """The sizes of the input: the given ones, or those of the model with a batch of 1."""
    if given is None:
        sizes: Any = (known[0] or 1, *known[1:])
        if open_axes := [str(axis) for axis, size in enumerate(sizes) if size is None]:
            remedy = f"to_graph({tuple(size or 10 for size in sizes)}), for example"
            expected = "sizes for a graph, whose tensors have no open ones"
            why = (f"the model leaves size {' and '.join(open_axes)} open",)
            problems.append(Problem("layer.input_shape", "input_shape", "None", expected, why, remedy))
        return tuple(sizes)
    wanted = f"[{', '.join('any' if size is None else str(size) for size in known)}]"
    try:
        sizes = tuple(given)
    except TypeError:
        sizes = None
    if sizes is None or isinstance(given, str) or size_problems(**{str(axis): size for axis, size in enumerate(sizes)}):
        problems.append(Problem("layer.input_shape", "input_shape", brief(given), f"sizes of at least 1: {wanted}"))
        return ()
    if len(sizes) != len(known) or any(known_size not in (None, size) for known_size, size in zip(known, sizes, strict=False)):
        problems.append(Problem("layer.input_shape", "input_shape", str(list(sizes)), wanted))
    return tuple(int(size) for size in sizes)


@dataclass
class _ModelExpressions:
    """The expressions of a model.

    Attributes:
        right_padded: whether masked steps are the last ones of their sequences.
        states: the final states of stateful layers, by output.
    """

    right_padded: bool
    states: dict[str, Expression] = field(default_factory=dict)

    def apply(self, layer: Any, x: Expression, mask: Expression | None) -> tuple[Expression, Expression | None]:
        """A layer's output and the mask after it, UINT8 [B, T]."""
        if isinstance(layer, Recurrent):
            y = self.recurrence(layer, x, mask)
            y = y.reshape(*y.sizes[:-2], layer.output_dim)
            if layer.return_sequences and layer.go_backwards:
                y = y[:, ::-1]
            return y, mask if layer.return_sequences else None
        return _KINDS[type(layer)](self, layer, x, mask)

    def recurrence(self, layer: Recurrent, x: Expression, mask: Expression | None) -> Expression:
        """The outputs of a recurrent layer, [B, T, D, H] in time order, or the last ones, [B, D, H]."""
        plain, training = layer.forms
        assert layer.backend is not None
        batch, steps, width = x.sizes
        tensors: dict[str, Any] = {"input_tensor": x.transpose(1, 0, 2).reshape(1, steps, batch, width)}
        tensors |= {name: layer.backend.host(value) for name, value in layer.constants.items()}
        form: type[OperatorDesc] = plain
        if mask is not None and self.right_padded:
            # Counted as FLOAT32: ONNX Runtime, which may run the exported model, sums no UINT32.
            lengths = ops.reduce(ops.cast(mask, output_data_type="FLOAT32"), function=ReduceFunction.SUM, axes=[1])
            tensors["sequence_lengths_tensor"] = ops.cast(lengths, output_data_type="UINT32").reshape(1, 1, 1, batch)
        elif mask is not None:
            form, tensors["step_mask_tensor"] = training, mask.transpose(1, 0).reshape(1, 1, steps, batch)
        names = {"hidden_init_tensor": "h", "cell_mem_init_tensor": "c"} if layer.stateful else {}
        states = {name: short for name, short in names.items() if name in plain.model_fields}
        sizes = [1, layer.directions, batch, layer.output_dim]
        tensors |= {name: ops.input(f"{layer.name}.{short}", sizes) for name, short in states.items()}
        sequence, last, *more = ops.operator(form, **tensors, **layer.operator_attributes)  # an LSTM's cell state, a reserve for training
        self.states |= {f"{layer.name}.next_{short}": state for short, state in zip(states.values(), (last, *more), strict=False)}
        y = (sequence if layer.return_sequences else last).transpose(2, 0, 1, 3)  # from [T, D, B, H], or of one step
        y = y if layer.return_sequences else y.reshape(batch, layer.directions, layer.output_dim)
        return y if mask is None else self._shown(layer, y, mask)

    def _shown(self, layer: Recurrent, y: Expression, mask: Expression) -> Expression:
        """The outputs, of which those at masked steps may have to be zeros, as in a layer's pass."""
        if layer.return_sequences:
            counts = mask.reshape(*mask.sizes, 1, 1) if layer.zero_output_for_mask else None
        elif layer.zero_output_for_mask:
            last = 0 if layer.direction is RecurrentDirection.BACKWARD else mask.sizes[1] - 1
            counts = mask[:, last : last + 1].reshape(mask.sizes[0], 1, 1)
        else:
            counts = ops.reduce(mask, function=ReduceFunction.MAX, axes=[1]).reshape(mask.sizes[0], 1, 1) if layer.stateful else None
        return y if counts is None else y * ops.cast(counts, output_data_type="FLOAT32")

    def bidirectional(self, layer: Bidirectional, x: Expression, mask: Expression | None) -> tuple[Expression, Expression | None]:
        both = self.recurrence(layer.layer, x, mask)
        *outer, _, units = both.sizes
        if layer.merge_mode == "concat":
            y = both.reshape(*outer, 2 * units)
        else:
            forward, backward = (both[..., way : way + 1, :].reshape(*outer, units) for way in range(2))
            y = forward * backward if layer.merge_mode == "mul" else forward + backward
            y = y * 0.5 if layer.merge_mode == "ave" else y
        return y, mask if layer.layer.return_sequences else None

    def time_distributed(self, layer: TimeDistributed, x: Expression, mask: Expression | None) -> tuple[Expression, Expression | None]:
        batch, steps, *sizes = x.sizes
        y, _ = self.apply(layer.layer, x.reshape(batch * steps, *sizes), None)
        return y.reshape(batch, steps, *y.sizes[1:]), mask

    def dense(self, layer: Dense, x: Expression, mask: Expression | None) -> tuple[Expression, Expression | None]:
        assert layer.backend is not None
        w, *b = (layer.backend.host(weight.value) for weight in layer.weights)
        rows = x.reshape(1, 1, -1, x.sizes[-1])
        product = ops.gemm(rows, w[None, None], *(bias[None, None, None] for bias in b))
        return _activated(layer.activation, product).reshape(*x.sizes[:-1], layer.output_dim), mask

    def embedding(self, layer: Embedding, x: Expression, mask: Expression | None) -> tuple[Expression, Expression | None]:
        assert layer.backend is not None
        rows = layer.backend.host(layer.weights[0].value)
        y = ops.gather(rows[None, None], x.reshape(1, 1, *x.sizes), axis=2, index_dimensions=2)
        return y.reshape(*x.sizes, layer.output_dim), _differs(x, 0) if layer.mask_zero else None

    def masking(self, layer: Masking, x: Expression, mask: Expression | None) -> tuple[Expression, Expression | None]:
        kept = ops.reduce(_differs(x, layer.mask_value), function=ReduceFunction.MAX, axes=[2])
        if mask is not None:
            kept = ops.logical_and(kept, mask.reshape(*mask.sizes, 1))
        return x * ops.cast(kept, output_data_type="FLOAT32"), kept.reshape(*kept.sizes[:2])

    def activation(self, layer: Activation, x: Expression, mask: Expression | None) -> tuple[Expression, Expression | None]:
        return _activated(layer.activation, x.reshape(1, 1, -1, x.sizes[-1])).reshape(*x.sizes), mask

    def unchanged(self, layer: Dropout, x: Expression, mask: Expression | None) -> tuple[Expression, Expression | None]:
        return x, mask


_KINDS: Mapping[type[Layer], Callable[[_ModelExpressions, Any, Expression, Expression | None], tuple[Expression, Expression | None]]] = {
    Bidirectional: _ModelExpressions.bidirectional,
    TimeDistributed: _ModelExpressions.time_distributed,
    Dense: _ModelExpressions.dense,
    Embedding: _ModelExpressions.embedding,
    Masking: _ModelExpressions.masking,
    Activation: _ModelExpressions.activation,
    Dropout: _ModelExpressions.unchanged,
}
"""The layers around the recurrent ones, and what makes their operators. Classes derived from them may compute something else."""


def _activated(activation: OperatorDesc, rows: Expression) -> Expression:
    """The function of rows, [1, 1, N, n]; one whose axes are counted has them as in the layer, whose rows are [N, n]."""
    if isinstance(activation, ActivationIdentityDesc):
        return rows
    counted = isinstance(activation, AxesActivationDesc)
    given = rows.reshape(*rows.sizes[2:]) if counted else rows
    described = of_rows(activation, given.sizes)
    y: Expression = ops.operator(described, input_tensor=given)[0]
    return y.reshape(*rows.sizes) if counted else y


def _differs(x: Expression, value: float) -> Expression:
    """UINT8: 1 for each element that differs from a value, else 0."""
    return ops.logical_not(
        ops.logical_equals(x, np.full([1] * len(x.sizes), value, np.int32 if x.data_type.name == "INT32" else np.float32))
    )
