"""Training and evaluation: the objective, and the data that a model takes."""

from __future__ import annotations

from numbers import Integral
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from dmlpy.description.coercion import brief, is_among
from dmlpy.keras.arguments import entries_of, found_array
from dmlpy.keras.losses import BinaryCrossentropy, Crossentropy, Loss, SparseCategoricalCrossentropy, score_weights
from dmlpy.keras.simple import Dense
from dmlpy.messages.naming import did_you_mean, plural
from dmlpy.messages.problems import DescError, Problem

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from dmlpy.keras.backend import Array, Backend
    from dmlpy.keras.layer import Layer, Shape

Values = np.ndarray[Any, np.dtype[Any]]

BATCH_SIZE = 32
_METRICS = {"accuracy": "acc", "acc": "acc"}


# What is minimized


class Measured(NamedTuple):
    """A batch's metrics.

    Attributes:
        values: the loss without regularizers, then the metrics.
        backward: runs the last layer's backward pass and returns the gradient of its input.
    """

    values: list[float]
    backward: Callable[[], Array | None]


class Objective:
    """A loss, and further metrics.

    Attributes:
        loss: the loss to minimize.
        names: the names of the metrics: `loss`, and `acc` for the accuracy.
    """

    def __init__(self, loss: Loss, metrics: Sequence[str] = ()) -> None:
        self.loss = loss
        self.names = ["loss", *metrics]

    @staticmethod
    def metric_names(metrics: Iterable[str]) -> list[str]:
        """The names under which metrics are reported: `acc` for `accuracy`.

        Raises:
            DescError: a metric is unknown.
        """
        if (given := entries_of(metrics)) is None:
            raise DescError("metrics", [Problem("field.form", "", brief(metrics), "a list of metrics' names: ['accuracy']")])
        problems = [
            Problem("metric.unknown", f"[{index}]", brief(metric), "accuracy", remedy=did_you_mean(metric, _METRICS))
            for index, metric in enumerate(given)
            if not is_among(metric, _METRICS)
        ]
        if problems:
            raise DescError("metrics", problems)
        return list(dict.fromkeys(_METRICS[metric] for metric in given))

    def measure(
        self, last: Layer, values: Array, mask: Array | None, targets: Array, sample_weight: Array | None, backend: Backend
    ) -> Measured:
        """Computes the metrics of a batch.

        Args:
            last: the layer that computed the values; it holds their logits.
            values: the model's output.
            mask: the mask of the output's steps.
            targets: the targets, of the shape of `Loss.target_shape`.
            sample_weight: [B].
            backend: the device of the arrays.

        Raises:
            DescError: the mask or the targets do not fit the output.
        """
        self._refuse(values, mask, targets)
        backward: Callable[[Array], Array | None] = last.backward
        head = last.head
        if isinstance(self.loss, Crossentropy) and isinstance(head, Dense) and type(head.activation) is self.loss.link:
            scores, gradient = self.loss.of_logits(targets, values, head.logits, backend)
            head.input_gradient = last.input_gradient
            backward = head.backward_logits
        else:
            scores, gradient = self.loss.of_values(targets, values, backend)
        weights = score_weights(scores.shape, mask, sample_weight, backend.xp)
        figures = [float((scores * weights).sum())]
        if "acc" in self.names:
            counted = score_weights(scores.shape, mask, None, backend.xp)
            figures.append(float((self._hits(targets, values) * counted).sum()))
        gradient *= weights[..., None]
        return Measured(figures, lambda: backward(gradient))

    def _refuse(self, values: Array, mask: Array | None, targets: Array) -> None:
        problems = []
        expected = self.loss.target_shape(values.shape)
        if targets.shape != expected:
            problems.append(_shape_problem("y", targets.shape, expected, f"{self.loss.name} of an output of {list(values.shape)}"))
        if mask is not None and mask.shape != values.shape[:-1]:
            why = (f"the loss has one score for each of {list(values.shape[:-1])}",)
            problems.append(Problem("mask.unexpected", "mask", f"of shape {list(mask.shape)}", "no mask, or one of the scores' shape", why))
        if problems:
            raise DescError("loss", problems)

    def _hits(self, targets: Array, values: Array) -> Array:
        """Scores each prediction 1 if it is right, else 0; a fraction where several values are thresholded at 0.5."""
        if isinstance(self.loss, SparseCategoricalCrossentropy):
            return values.argmax(axis=-1) == targets[..., 0]
        if isinstance(self.loss, BinaryCrossentropy) or values.shape[-1] == 1:
            return (values.round() == targets).mean(axis=-1)
        return values.argmax(axis=-1) == targets.argmax(axis=-1)


# Data


class Data(NamedTuple):
    """Samples in host memory.

    Attributes:
        x: the model's input.
        y: its targets; None for a prediction.
        sample_weight: [B], or None.
    """

    x: Values
    y: Values | None = None
    sample_weight: Values | None = None

    def part(self, index: Any) -> Data:
        """Some of the samples."""
        return Data(*(None if values is None else values[index] for values in self))  # type: ignore[arg-type]

    def __len__(self) -> int:
        return len(self.x)


class Model(Protocol):
    """The protocol that training requires of a model; `Sequential` is one."""

    layers: list[Layer]
    backend: Backend

    @property
    def stateful(self) -> bool: ...

    @property
    def input_shape(self) -> Shape: ...

    @property
    def output_shape(self) -> Shape: ...

    @property
    def objective(self) -> Objective: ...

    def train_step(self, batch: Data) -> list[float]:
        """Updates the weights by a batch; returns its metrics before that."""
        ...

    def test_step(self, batch: Data) -> list[float]:
        """Returns a batch's metrics."""
        ...


class DataReader:
    """Reads the data passed to a model's method and collects all problems.

    Args:
        model: whose data it is.
        method: the method's name, for messages.
    """

    def __init__(self, model: Model, method: str) -> None:
        self.model = model
        self.subject = f"{type(model).__name__}.{method}"
        self.problems: list[Problem] = []

    def read(self, x: Any, y: Any = None, sample_weight: Any = None, *, with_targets: bool = True, prefix: str = "") -> Data | None:
        """Reads the data; None if it has problems. `prefix` comes before the arguments' names in messages."""
        before = len(self.problems)
        inputs = self._array(x, f"{prefix}x")
        if inputs is not None:
            self._check_shape(inputs, self.model.input_shape, f"{prefix}x", "the model's input")
        fits = len(self.problems) == before
        if inputs is not None and fits:
            self.problems += [problem.under(prefix[:-1]) for problem in self.model.layers[0].input_problems(inputs)]
        if not with_targets:
            return Data(inputs) if inputs is not None and len(self.problems) == before else None
        targets = self._targets(y, inputs if fits else None, f"{prefix}y")
        weights = None if sample_weight is None else self._array(sample_weight, f"{prefix}sample_weight")
        if inputs is not None and inputs.ndim:
            for name, values in {"y": targets, "sample_weight": weights}.items():
                if values is not None and values.ndim and len(values) != len(inputs):
                    found = f"of {plural(len(values), 'sample')}"
                    self.problems.append(Problem("data.length", f"{prefix}{name}", found, f"{len(inputs)}, as many as {prefix}x has"))
        if weights is not None and weights.ndim != 1:
            self.problems.append(_shape_problem(f"{prefix}sample_weight", weights.shape, (None,), "a weight for each sample"))
        if len(self.problems) > before or inputs is None:
            return None
        return Data(inputs, targets, weights)

    def batch_size(self, given: int | None) -> int:
        """The batch size: as given, else the model's, else 32."""
        fixed = self.model.input_shape[0]
        if given is None:
            return fixed or BATCH_SIZE
        if not isinstance(given, Integral) or given < 1:
            self.problems.append(Problem("data.batch_size", "batch_size", brief(given), "a whole number of at least 1"))
            return BATCH_SIZE
        if fixed is not None and given != fixed:
            why = (f"the model was built for batches of {fixed}: batch_input_shape",)
            self.problems.append(Problem("data.batch_size", "batch_size", str(given), str(fixed), why, "leave batch_size out"))
        return int(given)

    def whole_batches(self, data: Data | None, path: str = "x") -> None:
        """Reports a number of samples that leaves a batch smaller than a fixed batch size."""
        fixed = self.model.input_shape[0]
        if data is not None and fixed is not None and len(data) % fixed:
            why = (f"the model was built for batches of {fixed}: batch_input_shape",)
            self.problems.append(Problem("data.length", path, f"of {plural(len(data), 'sample')}", f"a multiple of {fixed}", why))

    def whole_batch(self, data: Data | None, path: str) -> None:
        """Reports a batch of another size than a fixed batch size."""
        fixed = self.model.input_shape[0]
        if data is not None and fixed is not None and len(data) != fixed:
            why = (f"the model was built for batches of {fixed}: batch_input_shape",)
            self.problems.append(Problem("data.batch_size", path, f"of {plural(len(data), 'sample')}", str(fixed), why))

    def raise_problems(self) -> None:
        """Raises DescError if there are problems."""
        if self.problems:
            raise DescError(self.subject, self.problems)

    def _array(self, value: Any, path: str) -> Values | None:
        array = found_array(self.model.backend.values, value, path, self.problems, remedy="pad sequences to one length")
        if array is None:
            return None
        if array.ndim == 0 or array.size == 0:
            self.problems.append(Problem("data.form", path, f"of shape {list(array.shape)}", "at least one sample"))
            return None
        return array

    def _targets(self, y: Any, inputs: Values | None, path: str) -> Values | None:
        array = self._array(y, path)
        if array is None:
            return None
        loss, output_shape = self.model.objective.loss, self.model.output_shape
        expected = loss.target_shape(output_shape)
        if expected[-1] == 1 and array.ndim == len(expected) - 1:
            array = array[..., None]
        before = len(self.problems)
        self._check_shape(array, expected, path, f"{loss.name} of the model's output, {list(output_shape)}")
        if len(self.problems) == before:
            self.problems += [problem.under(path.rpartition(".")[0]) for problem in loss.target_problems(array, output_shape)]
        return array

    def _check_shape(self, array: Values, expected: Shape, path: str, why: str) -> None:
        # The method that splits batches checks the batch size.
        sizes = (None, *expected[1:])
        if len(array.shape) != len(sizes) or any(size not in (None, length) for size, length in zip(sizes, array.shape, strict=True)):
            self.problems.append(_shape_problem(path, array.shape, sizes, why))


def _shape_problem(path: str, found: Sequence[int], expected: Shape, why: str) -> Problem:
    single = tuple(found) == tuple(expected[1:])
    remedy = f"a single sample is a batch of one: {path}[None]" if single else None
    return Problem("data.shape", path, f"of shape {list(found)}", str(list(expected)), (why,), remedy)
