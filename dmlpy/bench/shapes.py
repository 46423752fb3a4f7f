"""The work that `dmlpy bench` measures: layers of known models, sizes for comparison on a CPU, and batch normalization.

Letters: T steps, B batch, I input size, H hidden size, G gates (RNN 1, GRU 3, LSTM 4), D directions, P projection, S entries of h
(P with a projection, else H). Tensors are time-major. A shape's key consists of its sizes: records refer to shapes by key, so other
sizes are another shape.
"""

from __future__ import annotations

import fnmatch
import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import dmlpy as dml
from dmlpy.messages.naming import nearest

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

Cell = Literal["RNN", "GRU", "LSTM"]
Direction = Literal["FORWARD", "BACKWARD", "BIDIRECTIONAL"]
DataType = Literal["FLOAT32", "FLOAT16", "INT8"]
"""INT8 is a type of single operators only."""
Pass = Literal["forward", "training"]
"""A training pass is the forward pass that saves values for the gradient, followed by all gradients."""
Lengths = Literal["full", "ragged", "resets"]
"""All sequences of T steps; evenly spaced from T down to T / 2; episodes of which 3% end at each step, at most T long."""
Layout = Literal["NCHW", "NHWC"]
Suite = Literal["cpu", "batch_norm", "models", "batch_norm_gpu", "operators"]

GATES: dict[Cell, int] = {"RNN": 1, "GRU": 3, "LSTM": 4}
ITEM_BYTES: dict[DataType, int] = {"FLOAT32": 4, "FLOAT16": 2, "INT8": 1}
BOTH: tuple[DataType, ...] = ("FLOAT32", "FLOAT16")
DEFAULT_SUITES: dict[str, tuple[Suite, ...]] = {"cpu": ("cpu", "batch_norm"), "cuda": ("models", "batch_norm_gpu")}
"""The default suites, by the kind of the device's memory."""
LAYOUTS: tuple[Layout, ...] = ("NCHW", "NHWC")
RESETS = 0.03


@dataclass(frozen=True, kw_only=True)
class Shape(ABC):
    """One piece of work, identical for every library."""

    title: str
    """The model, or the purpose of the shape."""
    source: str = ""
    """The source of the sizes; empty if this project chose them."""
    number: int | None = None
    """The number in the table of 16 models; None outside it."""
    dtypes: tuple[DataType, ...] = ("FLOAT32",)
    passes: tuple[Pass, ...] = ("forward", "training")
    suite: Suite
    steps: int = 1
    """T, which divides a time to give the time per step; 1 if there are no steps."""
    least_repeats: ClassVar[int | None] = None
    """The least number of passes that are timed together; None for the device's default."""
    turn_s: ClassVar[float | None] = None
    """The least seconds that they take; None for the device's default."""

    @property
    @abstractmethod
    def key(self) -> str:
        """A unique key that consists of the sizes: lstm-256-b16-t100."""

    @abstractmethod
    def flops(self, which: Pass) -> int:
        """The floating-point operations of the matrix products, without element-wise work."""

    @abstractmethod
    def bytes(self, which: Pass, dtype: DataType) -> int:
        """The bytes that must be transferred at least once: inputs, parameters and results, without values saved for backward."""

    @abstractmethod
    def descs(self, which: Pass, dtype: DataType) -> list[dml.OperatorDesc]:
        """The operators in dispatch order; in training the gradients follow, last layer first."""

    def memory_us(self, which: Pass, dtype: DataType, gb_per_s: float) -> float:
        """The least time that a memory of this rate needs for the bytes, in microseconds."""
        return self.bytes(which, dtype) / gb_per_s / 1e3


@dataclass(frozen=True)
class LayerShape:
    """A recurrent layer. Its input has I = `input_size` features: D S of the preceding layer.

    Attributes:
        cell: RNN is the one with tanh.
        projection: P, where an LSTM's h is P products with the cell's output; 0 without.
        linear_before_reset: whether GRU's reset gate applies to the recurrent product, as in cuDNN, or to h before it.
    """

    cell: Cell
    input_size: int
    hidden_size: int
    direction: Direction = "FORWARD"
    projection: int = 0
    linear_before_reset: bool = True

    @property
    def directions(self) -> int:
        return 2 if self.direction == "BIDIRECTIONAL" else 1

    @property
    def gates(self) -> int:
        return GATES[self.cell]

    @property
    def state_size(self) -> int:
        """S, the number of entries of h."""
        return self.projection or self.hidden_size

    @property
    def output_size(self) -> int:
        """D S, the number of output features."""
        return self.directions * self.state_size

    @property
    def parameters(self) -> int:
        """The number of elements of weights, recurrence, both biases and projection."""
        rows = self.gates * self.hidden_size
        return self.directions * (rows * (self.input_size + self.state_size + 2) + self.projection * self.hidden_size)

    @property
    def input_flops(self) -> int:
        """The floating-point operations of the input product, per sample and step."""
        return 2 * self.directions * self.gates * self.hidden_size * self.input_size

    @property
    def recurrent_flops(self) -> int:
        """The floating-point operations of the products that depend on the previous step, per sample and step."""
        return 2 * self.directions * self.hidden_size * (self.gates * self.state_size + self.projection)


@dataclass(frozen=True, kw_only=True)
class Recurrent(Shape):
    """A stack of recurrent layers over a batch of sequences, with both biases and initial states of zero."""

    layers: tuple[LayerShape, ...]
    batch: int
    lengths: Lengths = "full"

    def __post_init__(self) -> None:
        for before, after in zip(self.layers, self.layers[1:], strict=False):
            if before.output_size != after.input_size:
                raise ValueError(f"{self.title}: a layer reads {after.input_size} features, the one before it writes {before.output_size}")

    @property
    def key(self) -> str:
        first = self.layers[0]
        names = [("bi" if layer.directions == 2 else "") + layer.cell.lower() for layer in self.layers]
        name = "-".join(dict.fromkeys(names))
        if first.directions == 1 and any(layer.direction != first.direction for layer in self.layers):
            name = f"alternating-{name}"
        if first.cell == "GRU" and not first.linear_before_reset:
            name += "-reset-before"
        hidden = [layer.hidden_size for layer in self.layers]
        if len(set(hidden)) == 1:
            sizes = [str(hidden[0]) if first.input_size == hidden[0] else f"{first.input_size}-{hidden[0]}"]
            sizes[0] += f"x{len(hidden)}" if len(hidden) > 1 else ""
        else:
            sizes = [str(size) for size in (first.input_size, *hidden)]
        sizes += [f"p{first.projection}"] if first.projection else []
        parts = [name, *sizes, f"b{self.batch}", f"t{self.steps}"]
        return "-".join(parts if self.lengths == "full" else [*parts, self.lengths])

    @property
    def ragged(self) -> bool:
        return self.lengths != "full"

    def sequence_lengths(self) -> list[int]:
        """The sequence length of each sample, the longest first, as PyTorch's packing requires."""
        if self.lengths == "full":
            return [self.steps] * self.batch
        ranks = [index / max(self.batch - 1, 1) for index in range(self.batch)]
        if self.lengths == "ragged":
            return [self.steps - round(rank * self.steps / 2) for rank in ranks]
        # Quantiles of the episodes' lengths.
        episodes = [math.ceil(math.log((index + 0.5) / self.batch) / math.log(1 - RESETS)) for index in range(self.batch)]
        return [min(max(length, 1), self.steps) for length in episodes]

    def flops(self, which: Pass) -> int:
        """The operations of a pass; training has three times the products of a forward pass, with the gradients of both factors."""
        each = sum(layer.input_flops + layer.recurrent_flops for layer in self.layers)
        return each * sum(self.sequence_lengths()) * (3 if which == "training" else 1)

    def bytes(self, which: Pass, dtype: DataType) -> int:
        """The bytes of a pass: forward reads x and the parameters and writes y; a gradient moves as many and re-reads the forward's."""
        parameters = sum(layer.parameters for layer in self.layers)
        ends = (self.layers[0].input_size + self.layers[-1].output_size) * sum(self.sequence_lengths())
        return (parameters + ends) * ITEM_BYTES[dtype] * (3 if which == "training" else 1)

    def descs(self, which: Pass, dtype: DataType) -> list[dml.OperatorDesc]:
        """One operator per layer. A bidirectional layer's output lies in memory as the next one's input, [T, B, D S]."""
        forward = [self._layer_desc(layer, which, dtype) for layer in self.layers]
        if which == "forward":
            return list(forward)
        return [*forward, *(desc.gradient() for desc in reversed(forward))]

    def _layer_desc(self, layer: LayerShape, which: Pass, dtype: DataType) -> Any:
        directions, rows, states = layer.directions, layer.gates * layer.hidden_size, layer.state_size

        def tensor(*sizes: int, data_type: str = dtype, strides: Sequence[int] | None = None) -> dml.TensorDesc:
            return dml.TensorDesc(data_type=data_type, sizes=sizes, strides=strides)

        width = layer.output_size
        members: dict[str, Any] = {
            "input_tensor": tensor(1, self.steps, self.batch, layer.input_size),
            "weight_tensor": tensor(1, directions, rows, layer.input_size),
            "recurrence_tensor": tensor(1, directions, rows, states),
            "bias_tensor": tensor(1, 1, directions, 2 * rows),
            "hidden_init_tensor": tensor(1, directions, self.batch, states),
            "output_sequence_tensor": tensor(
                self.steps, directions, self.batch, states, strides=(self.batch * width, states, width, 1) if directions > 1 else None
            ),
            "output_single_tensor": tensor(1, directions, self.batch, states),
            "activation_descs": [dml.ActivationTanhDesc()] * directions,
            "direction": layer.direction,
        }
        if self.ragged:
            members["sequence_lengths_tensor"] = tensor(1, 1, 1, self.batch, data_type="UINT32")
        sigmoid, tanh = dml.ActivationSigmoidDesc(), dml.ActivationTanhDesc()
        # DirectML's struct has no projection: the training form has, whose reserve is optional.
        trains = which == "training" or layer.projection > 0
        kind: type[dml.RecurrentDesc]
        if layer.cell == "RNN":
            kind = dml.RNNTrainingDesc if trains else dml.RNNDesc
        elif layer.cell == "GRU":
            kind = dml.GRUTrainingDesc if trains else dml.GRUDesc
            members |= {"activation_descs": [sigmoid, tanh] * directions, "linear_before_reset": layer.linear_before_reset}
        else:
            kind = dml.LSTMTrainingDesc if trains else dml.LSTMDesc
            cell = tensor(1, directions, self.batch, layer.hidden_size)
            members |= {"cell_mem_init_tensor": cell, "output_cell_single_tensor": cell}
            members["activation_descs"] = [sigmoid, tanh, tanh] * directions
            if layer.projection:
                members["projection_tensor"] = tensor(1, directions, layer.projection, layer.hidden_size)
        desc = kind(**members)
        return desc.with_outputs("reserve_tensor") if which == "training" else desc


@dataclass(frozen=True, kw_only=True)
class BatchNorm(Shape):
    """Batch normalization in training: y and the batch's statistics, then the gradients of x, scale and offset.

    Scale, offset and statistics are FLOAT32 also for FLOAT16 data, as in PyTorch.
    """

    sizes: tuple[int, int, int, int]
    """N, C, H, W."""
    layout: Layout

    @property
    def key(self) -> str:
        return f"batchnorm-{'x'.join(map(str, self.sizes))}-{self.layout.lower()}"

    @property
    def strides(self) -> tuple[int, int, int, int]:
        _, c, h, w = self.sizes
        return (c * h * w, h * w, w, 1) if self.layout == "NCHW" else (h * w * c, 1, w * c, c)

    def flops(self, which: Pass) -> int:
        return 0

    def bytes(self, which: Pass, dtype: DataType) -> int:
        """The bytes of a pass: forward x, y; gradient x, dy, dx. Re-reads of data that do not fit on chip are not counted."""
        return math.prod(self.sizes) * ITEM_BYTES[dtype] * (5 if which == "training" else 2)

    def descs(self, which: Pass, dtype: DataType) -> list[dml.OperatorDesc]:
        """TensorFlow's operators. They name the axes NCHW in either layout; the strides define the layout."""
        x = dml.TensorDesc(data_type=dtype, sizes=self.sizes, strides=self.strides)
        statistic = dml.TensorDesc(data_type="FLOAT32", sizes=self.sizes[1:2])
        forward = dml.FusedBatchNormV3Desc(x=x, scale=statistic, offset=statistic, y=x, data_format="NCHW", epsilon=1e-5)
        forward = forward.with_outputs("reserve_space_1", "reserve_space_2")
        if which == "forward":
            return [forward]
        return [forward, forward.gradient("scale_backprop", "offset_backprop").replace(y_backprop=x, x_backprop=x)]


def _stack(cell: Cell, input_size: int, *hidden: int, direction: Direction = "FORWARD") -> tuple[LayerShape, ...]:
    """A stack of layers of one direction."""
    layers: list[LayerShape] = []
    for size in hidden:
        layers.append(LayerShape(cell, layers[-1].output_size if layers else input_size, size, direction))
    return tuple(layers)


def _cpu_suite() -> Iterable[Shape]:
    cells: tuple[Cell, ...] = ("LSTM", "GRU")
    sizes = ((100, 1, 64), (100, 1, 128), (100, 16, 256), (100, 64, 256), (50, 64, 512), (50, 32, 1024), (50, 1, 1024))
    for cell in cells:
        for steps, batch, hidden in sizes:
            trained = cell == "LSTM" and (steps, batch, hidden) in ((100, 16, 256), (50, 64, 512))
            yield Recurrent(
                title="recurrent layer, I = H",
                layers=_stack(cell, hidden, hidden),
                batch=batch,
                steps=steps,
                passes=("forward", "training") if trained else ("forward",),
                suite="cpu",
            )
    for hidden in (64, 128):
        title = "voice detector of 40 features, a step at a time"
        yield Recurrent(title=title, layers=_stack("LSTM", 40, hidden), batch=1, steps=1, passes=("forward",), suite="cpu")
    tagger = _stack("LSTM", 100, 200, direction="BIDIRECTIONAL")
    yield Recurrent(title="tagger of words", layers=tagger, batch=32, steps=40, lengths="ragged", suite="cpu")
    yield Recurrent(title="character model's step", layers=_stack("LSTM", 96, 256), batch=32, steps=64, passes=("training",), suite="cpu")
    before = LayerShape("GRU", 256, 256, linear_before_reset=False)
    yield Recurrent(title="GRU with the reset before the product", layers=(before,), batch=16, steps=100, passes=("forward",), suite="cpu")


def _model(number: int, title: str, source: str, layers: tuple[LayerShape, ...], batch: int, steps: int, **more: Any) -> Recurrent:
    """Layers of a known model. The title mentions a T or B that this project chose."""
    return Recurrent(number=number, title=title, source=source, layers=layers, batch=batch, steps=steps, suite="models", **more)


_F16: dict[str, Any] = {"dtypes": ("FLOAT16",)}
_BOTH: dict[str, Any] = {"dtypes": BOTH}
_INFERENCE: dict[str, Any] = {"passes": ("forward",)}
_DEEPBENCH = "DeepBench, rnn_problems.h"


def _small_models() -> Iterable[Shape]:
    """Models 1 to 6: at most 256 hidden units."""
    source = "snakers4/silero-vad, tinygrad_model.py"
    yield _model(1, "Silero VAD, a chunk at a time", source, _stack("LSTM", 128, 128), 1, 1, **_INFERENCE)
    yield _model(1, "Silero VAD (T chosen)", source, _stack("LSTM", 128, 128), 1, 512)
    source = "pyannote-audio, defaults of PyanNet.py"
    yield _model(2, "pyannote segmentation (B, T chosen)", source, _stack("LSTM", 60, 128, 128, direction="BIDIRECTIONAL"), 32, 293)
    yield _model(3, "Resemblyzer speaker encoder (B chosen)", "Resemblyzer, hparams.py", _stack("LSTM", 40, 256, 256, 256), 64, 160)
    source = "pytorch/rl, pull request 3816; stable-baselines3-contrib, recurrent/policies.py"
    for cell in ("GRU", "LSTM"):
        yield _model(4, f"recurrent RL, {cell}, 3% resets", source, _stack(cell, 256, 256), 128, 128, lengths="resets")
    yield _model(5, "policy on a small device", _DEEPBENCH, _stack("RNN", 64, 64), 1, 96)
    for batch in (16, 64):
        yield _model(6, "character language model", _DEEPBENCH, _stack("LSTM", 256, 256), batch, 150, **_BOTH)


def _large_models() -> Iterable[Shape]:
    """Models 7 to 16."""
    yield _model(7, "FlashRNN's baseline", "NX-AI/flashrnn, head_dim--lstm.svg", _stack("LSTM", 768, 768), 16, 1024, **_F16)
    source = "gist iiSeymour/bc3fac82"
    yield _model(8, "basecaller of Bonito's size", source, _stack("LSTM", 384, *[384] * 5), 64, 1600, **_F16)
    yield _model(8, "basecaller of Bonito's size, one layer", source, _stack("LSTM", 384, 384), 64, 1600, **_F16)
    alternating = tuple(LayerShape("LSTM", 1024, 1024, "FORWARD" if index % 2 else "BACKWARD") for index in range(5))
    source = "nanoporetech/bonito, dna_r10.4.1@v4.3.toml"
    yield _model(9, "Bonito dna_r10.4.1 v4.3", source, alternating, 96, 1666, **_F16)
    source = "NVIDIA/DeepLearningExamples, GNMT"
    gnmt = (LayerShape("LSTM", 1024, 1024, "BIDIRECTIONAL"), LayerShape("LSTM", 2048, 1024))
    yield _model(10, "GNMT, first two layers (T chosen)", source, gnmt, 128, 50, **_F16)
    source = "NVIDIA/DeepLearningExamples, Tacotron2"
    encoder = _stack("LSTM", 512, 256, direction="BIDIRECTIONAL")
    yield _model(11, "Tacotron 2, encoder (T chosen)", source, encoder, 48, 150, **_BOTH)
    yield _model(11, "Tacotron 2, attention cell", source, _stack("LSTM", 768, 1024), 48, 1, **_BOTH, **_INFERENCE)
    yield _model(11, "Tacotron 2, decoder cell", source, _stack("LSTM", 1536, 1024), 48, 1, **_BOTH, **_INFERENCE)
    yield _model(12, "AWD-LSTM", "salesforce/awd-lstm-lm, main.py", _stack("LSTM", 400, 1150, 1150, 400), 80, 70, **_BOTH)
    source = "SeanNaren/deepspeech.pytorch, train_config.py"
    # The model sums the directions and normalizes between layers, so each layer is a separate work; four of five are alike.
    yield _model(
        13,
        "DeepSpeech-style, one of 5 layers (T chosen)",
        source,
        _stack("LSTM", 1024, 1024, direction="BIDIRECTIONAL"),
        64,
        400,
        **_F16,
        lengths="ragged",
    )
    yield BatchNorm(
        number=13,
        title="DeepSpeech-style, between layers",
        source=source,
        sizes=(64 * 400, 1024, 1, 1),
        layout="NHWC",
        dtypes=("FLOAT16",),
        suite="models",
    )
    yield _model(14, "DeepBench speech", _DEEPBENCH, _stack("RNN", 1760, 1760), 16, 50, **_BOTH)
    yield _model(14, "DeepBench speech", _DEEPBENCH, _stack("GRU", 2816, 2816), 32, 375, **_BOTH)
    yield _model(14, "DeepBench speech", _DEEPBENCH, _stack("GRU", 1024, 1024), 64, 1500, **_BOTH)
    projected = (LayerShape("LSTM", 640, 2048, projection=640),)
    yield _model(15, "RNN-T for streaming, one layer (B, T chosen)", "Google AI blog, March 2019", projected, 16, 200, **_F16)
    source = "mlcommons/training, rnnt, baseline_v3-1023sp.yaml"
    yield _model(15, "MLPerf RNN-T, encoder before stacking (B, T chosen)", source, _stack("LSTM", 240, 1024, 1024), 32, 200, **_F16)
    yield _model(15, "MLPerf RNN-T, encoder after stacking (B, T chosen)", source, _stack("LSTM", 2048, 1024, 1024, 1024), 32, 100, **_F16)
    yield _model(15, "MLPerf RNN-T, prediction (B, T chosen)", source, _stack("LSTM", 512, 512, 512), 32, 100, **_F16)
    source = "fatchord/WaveRNN, hparams.py"
    yield _model(16, "WaveRNN", source, _stack("GRU", 512, 512), 32, 1375)
    yield _model(16, "WaveRNN, generation (B chosen)", source, _stack("GRU", 512, 512), 8, 11000, **_INFERENCE)


def _batch_norms() -> Iterable[Shape]:
    for layout in LAYOUTS:
        yield BatchNorm(title="batch normalization", sizes=(32, 64, 56, 56), layout=layout, suite="batch_norm")
    sizes = ((64, 256, 56, 56), (32, 64, 112, 112), (32, 512, 28, 28), (32, 1024, 14, 14), (32, 2048, 7, 7))
    for size in sizes:
        for layout in LAYOUTS:
            yield BatchNorm(title="ResNet-50", sizes=size, layout=layout, dtypes=BOTH, suite="batch_norm_gpu")
    yield BatchNorm(title="dense layer", sizes=(4096, 1024, 1, 1), layout="NHWC", dtypes=BOTH, suite="batch_norm_gpu")


SHAPES: dict[str, Shape] = {shape.key: shape for shape in (*_cpu_suite(), *_small_models(), *_large_models(), *_batch_norms())}


def select(patterns: Sequence[str], memory_kind: str) -> list[Shape]:
    """The shapes whose keys match a glob pattern, in the order of `SHAPES`; without patterns the device's suites.

    Raises:
        ValueError: A pattern matches no key.
    """
    if not patterns:
        return [shape for shape in SHAPES.values() if shape.suite in DEFAULT_SUITES[memory_kind]]
    chosen: set[str] = set()
    for pattern in patterns:
        matching = fnmatch.filter(SHAPES, pattern)
        if not matching:
            near = nearest(pattern, SHAPES)
            hint = f"did you mean {near!r}?" if near else "dmlpy bench --list shows all"
            raise ValueError(f"no shape's key matches {pattern!r}; {hint}")
        chosen.update(matching)
    return [shape for key, shape in SHAPES.items() if key in chosen]
