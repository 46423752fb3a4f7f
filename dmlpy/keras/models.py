"""`Sequential`: a sequence of layers, with training, prediction and files."""

from __future__ import annotations

from contextlib import contextmanager
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, overload

import numpy as np

from dmlpy.description.coercion import brief
from dmlpy.description.flags import check_flags
from dmlpy.devices.reporting.profile import checked_runs
from dmlpy.keras import saving
from dmlpy.keras.arguments import count_problem, found_argument, found_arrays
from dmlpy.keras.backend import Array, Backend
from dmlpy.keras.data_sources import ArraySource, BatchSource
from dmlpy.keras.fit_arguments import FitArguments, given_callbacks
from dmlpy.keras.layer import Layer, Shape, Weight, listed_layers
from dmlpy.keras.loop import Run, evaluate
from dmlpy.keras.losses import Loss
from dmlpy.keras.losses import loss as find_loss
from dmlpy.keras.optimizers import Optimizer
from dmlpy.keras.optimizers import optimizer as find_optimizer
from dmlpy.keras.profiling import profile_layers
from dmlpy.keras.training import Data, DataReader, Measured, Objective
from dmlpy.keras.unknown_names import LAYER_REMEDIES, refuses_other_arguments
from dmlpy.messages.foreign_members import foreign_members
from dmlpy.messages.naming import class_remedy, plural, with_article
from dmlpy.messages.problems import DescError, Problem
from dmlpy.messages.tables import Table

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from os import PathLike

    from dmlpy.devices import Device
    from dmlpy.devices.reporting.profile import Profile
    from dmlpy.graphs import Graph
    from dmlpy.keras.callbacks import Callback, History


class _Compiled(NamedTuple):
    """The result of `Sequential.compile`."""

    objective: Objective
    optimizer: Optimizer


@foreign_members
@refuses_other_arguments
class Sequential:
    """A model of layers, each of which receives the output of the previous one.

    Data are NumPy arrays, or what NumPy accepts, or arrays in the device's memory; they are held in host memory and copied to the device
    batch by batch. Results are NumPy arrays.

    Args:
        layers: the first layers; `add` adds more.
        device: `"cpu"`, `"numpy"`, `"cuda"`, `"cuda:1"`, a device, or None: the first usable GPU, else `"cpu"`.
        seed: the seed of all randomness: initial weights, dropout and shuffling. The same seed gives the same run on a device, bit for bit.

    Attributes:
        layers: the layers; change them with `add`.
        backend: the device with its array operations.
        stop_training: whether `fit` stops after the current batch; callbacks set it.

    Raises:
        DescError: as for `add`.
        DeviceError: there is no such device.
    """

    def __init__(self, layers: Iterable[Layer] | None = None, *, device: Device | str | None = None, seed: int | None = None) -> None:
        self.layers: list[Layer] = []
        self.backend = Backend(device, seed)
        self._compiled: _Compiled | None = None
        self.stop_training = False
        for layer in () if layers is None else listed_layers(layers):
            self.add(layer)

    def __repr__(self) -> str:
        layers = ", ".join(layer.name for layer in self.layers)
        return f"<Sequential on {self.backend.device.name} of {plural(len(self.layers), 'layer')}{f': {layers}' if layers else ''}>"

    # Layers

    def add(self, layer: Layer) -> None:
        """Adds a layer and creates its weights.

        Raises:
            DescError: the first layer has no input size, or a layer does not accept the previous one's output, or is already in a model.
        """
        if not isinstance(layer, Layer):
            found = brief(layer) if isinstance(layer, type) else with_article(type(layer).__name__)
            remedy = class_remedy(layer, Layer) or LAYER_REMEDIES.get(type(layer).__name__)
            raise DescError("Sequential.add", [Problem("layer.kind", "layer", found, "a layer", remedy=remedy)])
        if layer.return_state:
            remedy = "leave return_state out, or call the layers one after the other"
            raise DescError(
                layer.name, [Problem("layer.kind", "return_state", "True", "False: a model's layer has one output", remedy=remedy)]
            )
        last = self.layers[-1] if self.layers else None
        shape = input_shape_after(layer, None if last is None else last.output_shape, "" if last is None else last.name)
        layer.input_gradient = last is not None
        layer.build(shape, self.backend)
        self.layers.append(layer)
        self._compiled = None

    @property
    def input_shape(self) -> Shape:
        """The sizes of the input, the batch first; None for sizes that may differ between calls."""
        shape = self._known_layers()[0].input_shape
        assert shape is not None
        return shape

    @property
    def output_shape(self) -> Shape:
        """The sizes of the output, the batch first; None for sizes that may differ between calls."""
        shape = self._known_layers()[-1].output_shape
        assert shape is not None
        return shape

    @property
    def weights(self) -> list[Weight]:
        """The weights of all layers."""
        return [weight for layer in self.layers for weight in layer.weights]

    @property
    def stateful(self) -> bool:
        """Whether a layer carries its state from batch to batch."""
        return any(layer.stateful for layer in self.layers)

    def count_params(self) -> int:
        """The number of elements of the weights."""
        return sum(weight.value.size for weight in self.weights)

    def get_weights(self) -> list[np.ndarray[Any, Any]]:
        """Returns copies of the weights of all layers, in host memory."""
        return [array for layer in self.layers for array in layer.get_weights()]

    def set_weights(self, weights: Sequence[Any]) -> None:
        """Replaces all weights; changes nothing if one does not fit.

        Args:
            weights: arrays in the order of `get_weights`.

        Raises:
            DescError: another number of arrays, or other shapes; all problems at once.
        """
        counts = [len(layer.get_weights()) for layer in self.layers]
        given = found_arrays(self.backend.values, weights, "weights")
        if len(given) != sum(counts):
            raise DescError("Sequential", [count_problem(self.layers, len(given), sum(counts))])
        problems: list[Problem] = []
        fitted: list[Array] = []
        for layer, end, count in zip(self.layers, accumulate(counts), counts, strict=True):
            try:
                fitted += layer.fitted_weights(given[end - count : end])
            except DescError as error:
                problems += [problem.under(layer.name) for problem in error.problems]
        if problems:
            raise DescError("Sequential", problems)
        self.backend.fill([weight.value for weight in self.weights], fitted)

    def reset_states(self) -> None:
        """Clears the states that stateful layers carry from batch to batch."""
        for layer in self.layers:
            layer.reset_states()

    def table(self) -> Table:
        """A table of the layers with their output shapes and parameter counts."""
        rows = [
            (layer.name, type(layer).__name__, str(layer.output_shape), f"{sum(w.value.size for w in layer.weights):,}")
            for layer in self.layers
        ]
        return Table("Sequential", ("layer", "kind", "output shape", "parameters"), (*rows, ("total", "", "", f"{self.count_params():,}")))

    def summary(self) -> None:
        """Prints the table of the layers."""
        print(self.table().to_text())

    # Training

    def compile(self, optimizer: Optimizer | str, loss: Loss | str, metrics: Sequence[str] | str | None = ()) -> None:
        """Sets how the model is trained. The optimizer starts from its initial state.

        Args:
            optimizer: `sgd`, `adam`, `adamw`, `rmsprop`, or an optimizer.
            loss: `mse`, `mae`, `binary_crossentropy`, `categorical_crossentropy`, `sparse_categorical_crossentropy`, or a loss.
            metrics: `accuracy` or nothing.

        Raises:
            DescError: unknown names; all problems at once.
        """
        problems: list[Problem] = []
        found_optimizer: Optimizer = found_argument(find_optimizer, optimizer, "optimizer", problems)
        minimized: Loss = found_argument(find_loss, loss, "loss", problems)
        listed = (metrics,) if isinstance(metrics, str) else () if metrics is None else metrics
        names = found_argument(Objective.metric_names, listed, "metrics", problems)
        if problems:
            raise DescError("Sequential.compile", problems)
        found_optimizer.reset()
        self._compiled = _Compiled(Objective(minimized, names), found_optimizer)

    @property
    def objective(self) -> Objective:
        """The loss that is minimized. Raises DescError before `compile`."""
        return self._known_compiled().objective

    @property
    def optimizer(self) -> Optimizer:
        """The optimizer that updates the weights. Raises DescError before `compile`."""
        return self._known_compiled().optimizer

    def fit(
        self,
        x: Any,
        y: Any = None,
        batch_size: int | None = None,
        nb_epoch: int = 10,
        verbose: int = 1,
        validation_split: float = 0.0,
        validation_data: Any = None,
        shuffle: bool = True,
        sample_weight: Any = None,
        *,
        epochs: int | None = None,
        callbacks: Callback | Iterable[Callback] | None = None,
        initial_epoch: int = 0,
        steps_per_epoch: int | None = None,
        validation_steps: int | None = None,
    ) -> History:
        """Trains for a number of epochs. A loss that is not finite does not stop the run.

        Args:
            x: samples, [N, ...]; or, without y, an iterable of batches (x, y) or (x, y, sample_weight): a list, a generator, a
                PyTorch DataLoader, a Keras sequence.
            y: targets: of the output's shape; for the sparse cross-entropy a class index in place of the last axis. A last axis of size 1
                may be left out.
            batch_size: samples of one update; None: the model's fixed batch size, else 32. The last batch of an epoch may be smaller.
            nb_epoch: the number of the last epoch: passes over all samples, if the first epoch is 0.
            verbose: 1 for a progress bar and a line for each epoch, 2 for the lines only, 0 for nothing.
            validation_split: share of the samples, the last ones, that are held out and evaluated after each epoch.
            validation_data: x and y, and optionally weights, to evaluate instead of a share; or an iterable of batches.
            shuffle: whether to shuffle the samples of arrays in each epoch.
            sample_weight: [N], of each sample in the loss.
            epochs: another name of `nb_epoch`, which it overrides.
            callbacks: one callback, or several, called in this order.
            initial_epoch: the number of the first epoch.
            steps_per_epoch: for an iterable, the batches of an epoch; None: one pass over it. The next epoch continues where one has ended.
                If an iterator is exhausted early, the run ends with a warning.
            validation_steps: the same for the validation data.

        A model with a fixed batch size needs a number of samples that is a multiple of it. A stateful one needs `shuffle=False`; states
        are carried from batch to batch until `reset_states`, into the validation data and the next epoch too.

        Raises:
            DescError: before `compile`, or invalid data; all problems at once, those of a batch when it is read.
        """
        self._known_layers()
        self._known_compiled()
        called = given_callbacks(callbacks)
        rest = (validation_split, validation_data, shuffle, sample_weight, called, initial_epoch, steps_per_epoch, validation_steps)
        arguments = FitArguments(x, y, batch_size, nb_epoch if epochs is None else epochs, *rest)
        source, validation = arguments.sources(self, "nb_epoch" if epochs is None else "epochs")
        return Run(self, source, validation, int(arguments.epochs), verbose, int(initial_epoch)).train(called)

    def train_on_batch(self, x: Any, y: Any, sample_weight: Any = None) -> float | list[float]:
        """Makes one update. Returns the batch's loss before it, in a list with any metrics. The gradients stay in the weights.

        Raises:
            DescError: as for `fit`.
        """
        return _scalar_or_list(self.train_step(self._one_batch("train_on_batch", x, y, sample_weight)))

    def test_on_batch(self, x: Any, y: Any, sample_weight: Any = None) -> float | list[float]:
        """Returns the loss of a batch, in a list with any metrics.

        Raises:
            DescError: as for `fit`.
        """
        return _scalar_or_list(self.test_step(self._one_batch("test_on_batch", x, y, sample_weight)))

    @overload
    def evaluate(
        self,
        x: Any,
        y: Any = None,
        batch_size: int | None = None,
        sample_weight: Any = None,
        *,
        steps: int | None = None,
        verbose: int = 0,
        return_dict: Literal[False] = False,
    ) -> float | list[float]: ...
    @overload
    def evaluate(
        self,
        x: Any,
        y: Any = None,
        batch_size: int | None = None,
        sample_weight: Any = None,
        *,
        steps: int | None = None,
        verbose: int = 0,
        return_dict: Literal[True],
    ) -> dict[str, float]: ...
    @check_flags
    def evaluate(
        self,
        x: Any,
        y: Any = None,
        batch_size: int | None = None,
        sample_weight: Any = None,
        *,
        steps: int | None = None,
        verbose: int = 0,
        return_dict: bool = False,
    ) -> float | list[float] | dict[str, float]:
        """Returns the loss of all samples, averaged over batches, in a list with any metrics.

        Args:
            x: samples, [N, ...]; or, without y, an iterable of batches, as for `fit`.
            y: targets.
            batch_size: samples of a batch; None: the model's fixed batch size, else 32.
            sample_weight: [N], of each sample in the loss.
            steps: for an iterable, the batches to read; None: all.
            verbose: 0 for nothing; else a line with the metrics is printed.
            return_dict: whether the loss and the metrics are returned by the names that `History` has, without its `val_`.

        Raises:
            DescError: as for `fit`.
        """
        reader = self._reader("evaluate")
        self._known_compiled()
        if y is None and BatchSource.gives(x):
            return _reported(evaluate(self, BatchSource(self, x, steps, "evaluate", "x")), verbose, as_dict=return_dict)
        data = reader.read(x, y, sample_weight)
        size = reader.batch_size(batch_size)
        reader.whole_batches(data)
        reader.raise_problems()
        assert data is not None
        return _reported(evaluate(self, ArraySource(data, size)), verbose, as_dict=return_dict)

    @np.errstate(all="ignore")
    def predict(self, x: Any, batch_size: int | None = None, *, verbose: int = 0) -> np.ndarray[Any, Any]:
        """Computes the outputs of all samples.

        Args:
            x: samples, [N, ...].
            batch_size: samples of a batch; None: the model's fixed batch size, else 32.
            verbose: 0 for nothing; else a line with the number of samples is printed.

        Raises:
            DescError: invalid data; all problems at once.
        """
        reader = self._reader("predict")
        data = reader.read(x, with_targets=False)
        size = reader.batch_size(batch_size)
        reader.whole_batches(data)
        reader.raise_problems()
        assert data is not None
        with self._pass():
            parts = [self.backend.host(self._forward(batch.x, training=False)[0]) for batch in ArraySource(data, size).epoch(0)]
        if verbose:
            print(f"predicted {plural(len(data), 'sample')}")
        return np.concatenate(parts)

    @np.errstate(all="ignore")
    def profile(self, x: Any, *, runs: int = 20) -> Profile:
        """Measures predictions of a batch, as a whole and layer by layer. The states of stateful layers stay as they are.

        Args:
            x: samples, [N, ...], all of them as one batch.
            runs: how many runs are measured, after one that is not.

        Raises:
            DescError: invalid data, or `runs` is not a number from 1 on.
        """
        count, reader = checked_runs(runs, "Sequential.profile"), self._reader("profile")
        data = reader.read(x, with_targets=False)
        if data is not None:
            reader.whole_batch(data, "x")
        reader.raise_problems()
        assert data is not None
        states = [layer.states for layer in self.layers]
        try:
            with self._pass():
                return profile_layers(self.layers, self.backend, data.x, count)
        finally:
            for layer, states_before in zip(self.layers, states, strict=True):
                layer.states = states_before

    # Files

    def save_weights(self, path: str | PathLike[str]) -> None:
        """Writes the weights to a safetensors file, each named by its layer's index and class: `0.embedding.W`, `1.gru.U`."""
        saving.save_weights(self.layers, self.backend, path)

    def load_weights(self, path: str | PathLike[str]) -> None:
        """Reads weights that `save_weights` or `save` wrote; changes nothing if one does not fit.

        Raises:
            DescError: the file is not safetensors, or weights are missing, unknown or of another shape; all problems at once.
            OSError: the file cannot be read.
        """
        saving.load_weights(self.layers, self.backend, path)

    def save(self, path: str | PathLike[str]) -> None:
        """Writes the weights and the layers' arguments to a safetensors file, for `load_model`. The settings of `compile` are not saved.

        Raises:
            DescError: a layer has an argument that cannot be stored: a function; or the file's name says that it is Keras's.
        """
        saving.save_model(self.layers, self.backend, path)

    def to_graph(self, input_shape: Sequence[int] | None = None, *, right_padded: bool = False) -> Graph:
        """Returns the operators that `predict` runs, with the weights as constants: a graph from `x` to `y`, for data of one shape.

        `dml.compile(graph)` runs it as a whole, and `dmlpy.onnx.export(graph)` writes it as an ONNX model. x is FLOAT32, or INT32 for an
        `Embedding`. A stateful layer adds inputs and outputs for its states, [1, directions, B, H]: `lstm_1.h` and `lstm_1.c` begin the
        sequences, `lstm_1.next_h` and `lstm_1.next_c` are the states after them.

        Recurrent layers behind a mask run dmlpy's operators with step masks, which ONNX and DirectML do not have, unless `right_padded`.

        Args:
            input_shape: the sizes of x with the batch; None: the model's, with a batch of 1 if it may differ between calls.
            right_padded: promises that masked steps are the last ones of their sequences. Recurrent layers then run DirectML's operators
                with the sequences' lengths, and their outputs at masked steps are zeros, where `predict` repeats the last ones.

        Raises DescError if there are no layers, sizes are missing or wrong, or a layer is none of `dmlpy.keras`; all problems at once.
        """
        from dmlpy.keras.graphs import model_graph

        return model_graph(self._known_layers(), input_shape, right_padded=right_padded)

    # Steps

    @np.errstate(all="ignore")
    def train_step(self, batch: Data) -> list[float]:
        """Makes one update with checked data of one batch; returns the loss before it, with the regularizers, then the metrics."""
        with self._pass():
            values, mask = self._forward(batch.x, training=True)
            measured = self._measure(batch, values, mask)
            gradient = measured.backward()
            for layer in reversed(self.layers[:-1]):
                gradient = layer.backward(gradient)
            loss = self._with_penalties(measured.values)
            for weight in self.weights:
                if weight.regularizer is not None:
                    weight.gradient = weight.gradient + weight.regularizer.gradient(weight.value)
            self.optimizer.update(self.weights, self.backend)
        return loss

    @np.errstate(all="ignore")
    def test_step(self, batch: Data) -> list[float]:
        """Returns the loss of checked data of one batch, with the regularizers, then the metrics."""
        with self._pass():
            return self._with_penalties(self._measure(batch, *self._forward(batch.x, training=False)).values)

    @contextmanager
    def _pass(self) -> Iterator[None]:
        """Runs the block on the model's device; if it fails, the states of stateful layers are restored."""
        before = [layer.states for layer in self.layers]
        try:
            with self.backend.current():
                yield
        except Exception:
            for layer, states in zip(self.layers, before, strict=True):
                layer.states = states
            raise

    def _forward(self, x: np.ndarray[Any, Any], *, training: bool) -> tuple[Array, Array | None]:
        values, mask = self.backend.array(x, self.layers[0].input_type), None
        for layer in self.layers:
            values, mask = layer.forward(values, mask, training=training)
        return values, mask

    def _measure(self, batch: Data, values: Array, mask: Array | None) -> Measured:
        targets = self.backend.array(batch.y, self.objective.loss.target_type)
        weights = None if batch.sample_weight is None else self.backend.array(batch.sample_weight)
        return self.objective.measure(self.layers[-1], values, mask, targets, weights, self.backend)

    def _with_penalties(self, values: Sequence[float]) -> list[float]:
        penalties = sum(weight.regularizer.loss(weight.value) for weight in self.weights if weight.regularizer is not None)
        return [values[0] + penalties, *values[1:]]

    # Checks

    def _known_layers(self) -> list[Layer]:
        if not self.layers:
            raise DescError("Sequential", [Problem("model.empty", "layers", "empty", "at least one layer", remedy="add(layer)")])
        return self.layers

    def _known_compiled(self) -> _Compiled:
        if self._compiled is None:
            remedy = "call compile(optimizer, loss) once all layers are added"
            raise DescError("Sequential", [Problem("model.not_compiled", "", "not compiled", "an optimizer and a loss", remedy=remedy)])
        return self._compiled

    def _reader(self, method: str) -> DataReader:
        self._known_layers()
        return DataReader(self, method)

    def _one_batch(self, method: str, x: Any, y: Any, sample_weight: Any) -> Data:
        reader = self._reader(method)
        self._known_compiled()
        data = reader.read(x, y, sample_weight)
        reader.whole_batch(data, "x")
        reader.raise_problems()
        assert data is not None
        return data


def input_shape_after(layer: Layer, before: Shape | None, name: str) -> Shape:
    """The input shape of a layer after one with the given output and name; None for the first layer.

    Raises:
        DescError: as `Sequential.add`.
    """
    problems = []
    if layer.built:
        problems.append(Problem("layer.built", "", "part of a model already", "a new layer"))
    given = layer.input_shape
    if before is None and given is None:
        why = ("only the layers after the first infer theirs",)
        remedy = "pass input_dim, input_shape or batch_input_shape to it"
        problems.append(Problem("layer.input_size", "input_shape", "missing", "the sizes of the first layer's input", why, remedy))
    if before is not None and given is not None and not layer.built and not _agree(given, before):
        problems.append(Problem("layer.input_size", "input_shape", str(list(given)), f"{list(before)}, the output of {name}"))
    if problems:
        raise DescError(layer.name, problems)
    shape = before or given
    assert shape is not None
    return shape


def _agree(given: Shape, before: Shape) -> bool:
    """Returns whether an input may have both shapes: sizes are equal where both are known."""
    return len(given) == len(before) and all(None in (size, other) or size == other for size, other in zip(given, before, strict=True))


def _reported(metrics: Mapping[str, float], verbose: int, *, as_dict: bool) -> float | list[float] | dict[str, float]:
    """The metrics as `evaluate` returns them, which may be printed."""
    if verbose:
        print(" - ".join(f"{name}: {value:.4f}" for name, value in metrics.items()))
    return dict(metrics) if as_dict else _scalar_or_list(list(metrics.values()))


def _scalar_or_list(values: list[float]) -> float | list[float]:
    return values[0] if len(values) == 1 else values
