"""The layers around the recurrent ones: `Dense`, `Embedding` and `Masking`."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from dmlpy.description.enums import MatrixTransform
from dmlpy.description.flags import flag_problems
from dmlpy.description.tensors import TensorDesc
from dmlpy.devices.host.blas import limited, worth
from dmlpy.keras.activation_gradients import Passed, refuse_untrainable
from dmlpy.keras.activations import activation as find_activation
from dmlpy.keras.activations import of_rows
from dmlpy.keras.arguments import dropout_problems, found_argument, size_problems
from dmlpy.keras.initializers import Initializer
from dmlpy.keras.initializers import initializer as find_initializer
from dmlpy.keras.layer import Layer, Shape, Weight
from dmlpy.keras.regularizers import Regularizer
from dmlpy.keras.regularizers import regularizer as find_regularizer
from dmlpy.messages.problems import DescError, Problem
from dmlpy.operators.activation import (
    ActivationIdentityDesc,
    ActivationSigmoidDesc,
    ActivationSoftmaxDesc,
)
from dmlpy.operators.matrix import GEMMDesc

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from dmlpy.description.descs import OperatorDesc
    from dmlpy.keras.backend import Array, Backend


_GEMM_ROWS = 512
"""Rows of a product from which on packing the layer's weights pays: with fewer, packing takes more than a fifth of the time."""


class Dense(Layer):
    """A dense layer y = activation(x W + b) over the last axis of x: [B, input_dim], [B, T, input_dim], ... Masks pass through.

    Args:
        output_dim: size of y's last axis.
        init: the initializer of W; b begins with zeros.
        activation: a name or a desc. All but HARDMAX can be trained.
        weights: initial values of W, [input_dim, output_dim], and b, [output_dim].
        W_regularizer: the regularizer of W, or its name.
        b_regularizer: the regularizer of b.
        bias: whether the layer has b.
        **kwargs: as for `Layer`.

    Attributes:
        activation: its desc.
        logits: the activation's argument in the last pass, of the output's shape, for a softmax or sigmoid; else None.

    Raises:
        DescError: arguments that the layer cannot have, all of them together.
    """

    def __init__(
        self,
        output_dim: int,
        init: Initializer | str = "glorot_uniform",
        activation: OperatorDesc | str | None = "linear",
        weights: Sequence[Any] | None = None,
        W_regularizer: Regularizer | str | None = None,
        b_regularizer: Regularizer | str | None = None,
        bias: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.output_dim = output_dim
        problems = size_problems(output_dim=output_dim) + flag_problems(bias=bias)
        self.init: Initializer = found_argument(find_initializer, init, "init", problems)
        self.activation: OperatorDesc = found_argument(find_activation, activation, "activation", problems)
        self.bias = bias
        self.logits: Array | None = None
        self._first_weights = weights
        self._regularizers: list[Regularizer | None] = [
            found_argument(find_regularizer, W_regularizer, "W_regularizer", problems),
            found_argument(find_regularizer, b_regularizer, "b_regularizer", problems),
        ]
        self._descs: tuple[OperatorDesc, ...] = ()
        self._products: dict[Hashable, GEMMDesc] = {}
        self._rows: Array | None = None
        self._passed: Passed | None = None
        if problems:
            raise DescError(self.name, problems)

    @property
    def descs(self) -> tuple[OperatorDesc, ...]:
        return self._descs

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        if len(input_shape) < 2 or input_shape[-1] is None:
            expected = "[B, input_dim] or [B, ..., input_dim], with a known input_dim"
            raise DescError(self.name, [Problem("layer.input_shape", "input_shape", str(list(input_shape)), expected)])
        return (*input_shape[:-1], self.output_dim)

    def weight_shapes(self, input_shape: Shape) -> dict[str, tuple[int, ...]]:
        assert input_shape[-1] is not None
        return {"W": (input_shape[-1], self.output_dim)} | ({"b": (self.output_dim,)} if self.bias else {})

    def make_weights(self, backend: Backend) -> None:
        assert self.input_shape is not None
        first = {"W": self.init, "b": find_initializer("zero")}
        for (name, shape), regularizer in zip(self.weight_shapes(self.input_shape).items(), self._regularizers, strict=False):
            values = self.first_values(first[name], shape, backend)
            self.weights.append(Weight(name, backend.array(values), regularizer=regularizer))
        if self._first_weights is not None:
            self.set_weights(self._first_weights)

    def begin_with(self, weights: Sequence[Any]) -> None:
        """Sets the initial weights of an unbuilt layer, in the form of `set_weights`; they are checked when it is built."""
        self._first_weights = weights

    def forward(self, x: Array, mask: Array | None, *, training: bool) -> tuple[Array, Array | None]:
        assert self.backend is not None
        if training:
            refuse_untrainable(self.name, self.activation)
        self.refuse_shape(x, (None, *[None] * (x.ndim - 2), self.weights[0].value.shape[0]))
        rows = x.reshape(-1, x.shape[-1])
        self._descs = ()
        z = self._product(rows, self.weights[0].value, self.weights[1].value if self.bias else None)
        y = self._activate(z)
        shape = (*x.shape[:-1], self.output_dim)
        linked = isinstance(self.activation, ActivationSoftmaxDesc | ActivationSigmoidDesc)
        self.logits = z.reshape(shape) if linked else None
        if training:
            self._rows, self._passed = rows, Passed(self.activation, z, y, self.backend)
        return y.reshape(shape), mask

    def _activate(self, z: Array) -> Array:
        assert self.backend is not None
        if isinstance(self.activation, ActivationIdentityDesc):
            return z
        desc = of_rows(self.activation, z.shape)
        self._descs += (desc,)
        return self.backend.run(desc, input_tensor=z).output_tensor

    def _takes_gemm(self, rows: int, multiplications: int) -> bool:
        """Returns whether a product is large enough for its operator's plan, which packs the matrices and leaves no threads spinning.

        NumPy's BLAS leaves its threads spinning after a multithreaded product, on the cores that the next layer needs. On one thread it
        does not, and its calls take less time.
        """
        assert self.backend is not None
        return self.backend.device.name == "cpu" and worth(multiplications) > 1 and rows >= _GEMM_ROWS

    def _product(self, a: Array, b: Array, c: Array | None = None, *, transposed: bool = False) -> Array:
        """The product of matrices, of which `a` may be transposed, with the row `c` added: by GEMM if `_takes_gemm` says so."""
        assert self.backend is not None
        multiplications = a.size * b.shape[1]
        if not self._takes_gemm(len(a), multiplications):
            with limited(multiplications) if self.backend.xp is np else nullcontext():
                product = (a.T if transposed else a) @ b
            if c is not None:
                product += c
            return product
        tensors = {"a_tensor": a, "b_tensor": b}
        if c is not None:
            tensors["c_tensor"] = np.broadcast_to(c, (len(a), len(c)))
        key = (transposed, *((array.shape, array.strides) for array in tensors.values()))
        if key not in self._products:
            described: dict[str, Any] = {name: TensorDesc.of(array) for name, array in tensors.items()}
            transform = MatrixTransform.TRANSPOSE if transposed else MatrixTransform.NONE
            self._products[key] = GEMMDesc(**described, trans_a=transform).with_outputs()
        desc = self._products[key]
        self._descs += (desc,)
        return self.backend.run(desc, **tensors).output_tensor

    def backward(self, dy: Array) -> Array | None:
        if self._passed is None:
            raise self.not_trained()
        return self.backward_logits(self._passed.gradient(dy.reshape(-1, self.output_dim)).reshape(dy.shape))

    def backward_logits(self, dz: Array) -> Array | None:
        """Runs the backward pass from the gradient of the activation's argument; see `backward`."""
        if self._rows is None:
            raise self.not_trained()
        shape = (*dz.shape[:-1], self._rows.shape[-1])
        dz = dz.reshape(-1, self.output_dim)
        self.weights[0].gradient = self._product(self._rows, dz, transposed=True)
        dx = self._product(dz, self.weights[0].value.T) if self.input_gradient else None
        if self.bias:
            self.weights[1].gradient = dz.sum(axis=0)
        return None if dx is None else dx.reshape(shape)


class Embedding(Layer):
    """A trained vector for each class index: [B, T] integers to [B, T, output_dim]. It is the first layer of a model.

    Indices are from 0 to input_dim - 1, of an integer type or floating-point numbers without a fraction; they are checked in host memory.
    The gradient of a row is summed pairwise in a fixed order.

    Args:
        input_dim: the number of classes.
        output_dim: elements of each vector.
        init: the initializer of the rows.
        input_length: steps of each sample; None if it may differ between calls.
        W_regularizer: the regularizer of all rows, or its name.
        mask_zero: whether index 0 marks a step to be skipped.
        weights: initial values of the rows, [input_dim, output_dim], in a list.
        dropout: share of the classes whose rows are zero in a training pass; the others are scaled by 1 / (1 - dropout).
        **kwargs: as for `Layer`.

    Raises:
        DescError: arguments that the layer cannot have, all of them together.
    """

    input_type: ClassVar[type[np.generic]] = np.int32

    def __init__(
        self,
        input_dim: int,
        output_dim: int,
        init: Initializer | str = "uniform",
        input_length: int | None = None,
        W_regularizer: Regularizer | str | None = None,
        mask_zero: bool = False,
        weights: Sequence[Any] | None = None,
        dropout: float = 0.0,
        **kwargs: Any,
    ) -> None:
        if kwargs.get("batch_input_shape") is None and kwargs.get("input_shape") is None:
            kwargs["input_shape"] = (input_length,)
        super().__init__(**kwargs)
        self.input_dim = input_dim
        self.output_dim = output_dim
        problems = size_problems(input_dim=input_dim, output_dim=output_dim)
        problems += dropout_problems(dropout=dropout) + flag_problems(mask_zero=mask_zero)
        self.init: Initializer = found_argument(find_initializer, init, "init", problems)
        self._regularizer: Regularizer | None = found_argument(find_regularizer, W_regularizer, "W_regularizer", problems)
        if problems:
            raise DescError(self.name, problems)
        self.mask_zero = mask_zero
        self.dropout = dropout
        self._first_weights = weights
        self._symbols: Array | None = None
        self._scale: Array | None = None

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        if len(input_shape) != 2:
            raise DescError(
                self.name, [Problem("layer.input_shape", "input_shape", str(list(input_shape)), "[B, T], a symbol for each step")]
            )
        return (*input_shape, self.output_dim)

    def weight_shapes(self, input_shape: Shape) -> dict[str, tuple[int, ...]]:
        return {"W": (self.input_dim, self.output_dim)}

    def make_weights(self, backend: Backend) -> None:
        values = self.first_values(self.init, (self.input_dim, self.output_dim), backend)
        self.weights = [Weight("W", backend.array(values), regularizer=self._regularizer)]
        if self._first_weights is not None:
            self.set_weights(self._first_weights)

    def begin_with(self, weights: Sequence[Any]) -> None:
        """Sets the initial weights of an unbuilt layer, in the form of `set_weights`; they are checked when it is built."""
        self._first_weights = weights

    def input_problems(self, x: Any) -> list[Problem]:
        assert self.backend is not None
        x = self.backend.values(x)
        wrong = ~((x >= 0) & (x < self.input_dim) & (np.floor(x) == x))
        if not wrong.any():
            return []
        place = [int(index) for index in np.argwhere(wrong)[0]]
        why = (f"the layer has {self.input_dim} symbols: input_dim",)
        found = f"{x[tuple(place)]}" + (f", and {wrong.sum() - 1} more are out of range" if wrong.sum() > 1 else "")
        return [Problem("embedding.symbol", f"x{place}", found, f"a whole number from 0 to {self.input_dim - 1}", why)]

    def forward(self, x: Array, mask: Array | None, *, training: bool) -> tuple[Array, Array | None]:
        assert self.backend is not None
        problems = []
        if x.dtype != self.input_type:
            expected = "symbols, the input of a model's first layer"
            problems.append(Problem("embedding.input", "x", f"of type {x.dtype}", expected))
        if mask is not None:
            problems.append(Problem("mask.unexpected", "mask", "given", "no mask", ("the symbols determine the mask: mask_zero",)))
        if problems:
            raise DescError(self.name, problems)
        self.refuse_shape(x, (None, None))
        y = self.weights[0].value[x]
        self._scale = None
        if training:
            self._symbols = x
            if self.dropout:
                kept = self.backend.random.random(self.input_dim) >= self.dropout
                self._scale = self.backend.array(kept / (1 - self.dropout))[x][..., None]
                y *= self._scale
        return y, x != 0 if self.mask_zero else None

    def backward(self, dy: Array) -> None:
        if self._symbols is None or self.backend is None:
            raise self.not_trained()
        rows = dy.reshape(-1, self.output_dim) if self._scale is None else (dy * self._scale).reshape(-1, self.output_dim)
        self.weights[0].gradient = sum_by_symbol(rows, self._symbols.reshape(-1), self.input_dim, self.backend.xp)


class Masking(Layer):
    """Masks the steps whose values are all `mask_value`, and makes them zero: [B, T, I] to [B, T, I].

    Args:
        mask_value: the value of all elements of a masked step.
        **kwargs: as for `Layer`.
    """

    def __init__(self, mask_value: float = 0.0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.mask_value = mask_value
        self._factors: Array | None = None

    def _given_shape(
        self,
        input_dim: int | None,
        input_length: int | None,
        input_shape: Sequence[int | None] | None,
        batch_input_shape: Sequence[int | None] | None,
    ) -> Shape | None:
        if input_dim is not None and input_shape is None and batch_input_shape is None:
            return (None, input_length, input_dim)
        return super()._given_shape(input_dim, input_length, input_shape, batch_input_shape)

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        if len(input_shape) != 3:
            raise DescError(self.name, [Problem("layer.input_shape", "input_shape", str(list(input_shape)), "[B, T, input_dim]")])
        return input_shape

    def forward(self, x: Array, mask: Array | None, *, training: bool) -> tuple[Array, Array | None]:
        assert self.input_shape is not None
        self.refuse_shape(x, (None, None, self.input_shape[2]), mask)
        kept = (x != self.mask_value).any(axis=-1)
        if mask is not None:
            kept &= mask
        factors = kept[..., None]
        if training:
            self._factors = factors
        return x * factors, kept

    def backward(self, dy: Array) -> Array | None:
        if self._factors is None:
            raise self.not_trained()
        return dy * self._factors if self.input_gradient else None


def sum_by_symbol(rows: Array, symbols: Array, count: int, xp: Any) -> Array:
    """Sums the rows of each class, [count, D], in an order that depends on the indices alone.

    Args:
        rows: [N, D].
        symbols: class indices, [N], each less than count.
        count: the number of classes.
        xp: the arrays' library.
    """
    order = xp.argsort(symbols, kind="stable")
    symbols, rows = symbols[order], rows[order]
    # Each class's rows are now consecutive, from `start` to `end`. They are summed as a tree: adjacent rows first, then every second row
    # with the next second one, and so on. No row is written twice in a round, so the sums need no atomics.
    place = xp.arange(symbols.size)
    start = xp.searchsorted(symbols, symbols, side="left")
    end = xp.searchsorted(symbols, symbols, side="right")
    rank, longest = place - start, int((end - start).max())
    distance = 1
    while distance < longest:
        left = xp.flatnonzero((rank % (2 * distance) == 0) & (place + distance < end))
        rows[left] += rows[left + distance]
        distance *= 2
    sums = xp.zeros((count, rows.shape[1]), rows.dtype)
    first = xp.flatnonzero(rank == 0)
    sums[symbols[first]] = rows[first]
    return sums
