"""PyTorch: `torch.nn`'s recurrent modules and `batch_norm`, on the processor or with cuDNN on a GPU, where TF32 is off."""

from __future__ import annotations

from abc import abstractmethod
from itertools import groupby
from typing import TYPE_CHECKING, Any

from dmlpy.bench.libraries import Library, Mode, NotInstalledError, Runner, UnsupportedError
from dmlpy.bench.work import Array, BatchNormWork, RecurrentWork, SampledWork, Work

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from dmlpy.bench.shapes import LayerShape

WARM_UPS = 3
"""Passes before a graph is captured."""


class Torch(Library):
    """PyTorch on a device."""

    name = "torch"
    cudnn = True

    def __init__(self, device: str, threads: int) -> None:
        super().__init__(device, threads)
        torch = self.torch = self._module()
        if self.on_gpu:
            if not torch.cuda.is_available():
                raise NotInstalledError(f"PyTorch {torch.__version__} sees no GPU: install a build for CUDA")
            torch.cuda.set_device(device)
            self.allow_tf32(False)
            torch.backends.cudnn.enabled = self.cudnn
        else:
            torch.set_num_threads(threads)

    def _module(self) -> Any:
        try:
            import torch
        except ImportError as error:
            raise NotInstalledError(f"{error}: pip install torch") from error
        return torch

    @property
    def place(self) -> str:
        """The device of tensors, by PyTorch's name."""
        return self.device if self.on_gpu else "cpu"

    def allow_tf32(self, allowed: bool) -> None:
        """Allows or forbids TF32 in FLOAT32 products."""
        self.torch.backends.cudnn.allow_tf32 = self.torch.backends.cuda.matmul.allow_tf32 = allowed

    @property
    def reusable(self) -> bool:
        return self.on_gpu

    def release(self) -> None:
        if self.on_gpu:
            self.torch.cuda.empty_cache()

    def versions(self) -> dict[str, str]:
        versions = {self.name: self.torch.__version__}
        if self.on_gpu and self.cudnn:
            versions |= {"cuDNN": str(self.torch.backends.cudnn.version()), "PyTorch's CUDA": str(self.torch.version.cuda)}
        return versions

    def instruction_set(self) -> str | None:
        return None if self.on_gpu else str(self.torch.backends.cpu.get_cpu_capability())

    def build(self, work: Work, mode: Mode) -> Runner:
        if isinstance(work, BatchNormWork):
            return NormalizationRunner(self, work, mode)
        if isinstance(work, RecurrentWork):
            return RecurrentRunner(self, work, mode)
        raise UnsupportedError(f"there is no runner for {type(work).__name__}")

    def microseconds(self, issue: Callable[[], None], repeats: int) -> float:
        if not self.on_gpu:
            return super().microseconds(issue, repeats)
        start, end = (self.torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        for _ in range(repeats):
            issue()
        end.record()
        end.synchronize()
        return 1e3 * float(start.elapsed_time(end)) / repeats

    def mark(self) -> None:
        if self.on_gpu:
            self.torch.cuda.reset_peak_memory_stats()
            self._before = self.torch.cuda.memory_allocated()
        else:
            super().mark()

    def peak_bytes(self) -> int | None:
        if not self.on_gpu or self._before is None:
            return super().peak_bytes()
        return int(self.torch.cuda.max_memory_allocated()) - self._before


class TorchNative(Torch):
    """PyTorch's native kernels on a GPU, without cuDNN."""

    name = "torch-native"
    cudnn = False


class TorchRunner(Runner):
    """Calls a function of a set's index that returns PyTorch's results, or captures it in a graph for each set."""

    _work: Work

    def __init__(self, library: Torch, work: Work, mode: Mode) -> None:
        self._torch, self._library, self._work = library.torch, library, work
        self._place()
        library.mark()
        self._kept: dict[str, Any] = {}
        self._graphs: list[tuple[Any, dict[str, Any]]] = []
        if mode.startswith("graph"):
            self._capture()

    @abstractmethod
    def _place(self) -> None:
        """Copies the inputs of all sets and the parameters to the device."""

    @abstractmethod
    def _pass(self, number: int) -> dict[str, Any]:
        """All results of a pass as tensors."""

    def _tensor(self, array: Array) -> Any:
        """Copies an array to the device with its strides."""
        return self._torch.from_numpy(array).to(self._library.place)

    def _capture(self) -> None:
        torch = self._torch
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(WARM_UPS):
                self._pass(0)
        torch.cuda.current_stream().wait_stream(side)
        pool = None
        for number in range(self.sets or self._library.sets):
            graph = torch.cuda.CUDAGraph()
            # The graphs never run at the same time, so they may share their memory.
            with torch.cuda.graph(graph, pool=pool):
                results = self._pass(number)
            pool = graph.pool()
            self._graphs.append((graph, results))

    def run(self, number: int) -> None:
        if self._graphs:
            graph, self._kept = self._graphs[number]
            graph.replay()
        else:
            self._kept = self._pass(number)

    def results(self) -> dict[str, Array]:
        return {name: tensor.detach().cpu().numpy() for name, tensor in self._kept.items()}


class _SampledRunner(TorchRunner):
    """Passes over samples, whose upstream gradient may be replaced."""

    _work: SampledWork

    def _place(self) -> None:
        self._xs = [self._tensor(self._work.x(number)) for number in range(self._library.sets)]
        if self._work.case.trains:
            for x in self._xs:
                x.requires_grad_()
            self._dy = self._tensor(self._work.upstream())

    def load_upstream(self, upstream: Array) -> None:
        self._dy.copy_(self._torch.from_numpy(upstream))


class RecurrentRunner(_SampledRunner):
    """A module for each group of consecutive layers that fits one module; the sequence is passed from module to module."""

    _work: RecurrentWork

    def _place(self) -> None:
        super()._place()
        torch, shape = self._torch, self._work.shape
        parameters = self._work.parameters()
        self._modules: list[_Stack] = []
        self._leaves: dict[str, Any] = {}
        for layers in _runs(shape.layers):
            stack = _Stack(self._library, layers, self._work)
            self._modules.append(stack)
            for number, layer in layers:
                for direction in range(layer.directions):
                    for name, (letter, half) in _BLOCKS.items():
                        if f"{letter}{number}" in parameters:
                            block = parameters[f"{letter}{number}"][direction]
                            stack.set(name, number, direction, block if half is None else block[half])
            stack.finish()
            self._leaves |= stack.leaves(self._work.case.trains)
        # A ragged batch is packed in each pass: its input and output are padded.
        self._lengths = torch.from_numpy(self._work.lengths()) if shape.ragged else None
        names = ", ".join(f"{type(stack.module).__name__} of {stack.module.num_layers} layer(s)" for stack in self._modules)
        self.plan = (f"torch.nn: {names}" + (", packed sequences" if shape.ragged else ""),)

    def _pass(self, number: int) -> dict[str, Any]:
        torch = self._torch
        x = self._xs[number]
        with torch.set_grad_enabled(self._work.case.trains):
            flowing: Any = x
            if self._lengths is not None:
                flowing = torch.nn.utils.rnn.pack_padded_sequence(x, self._lengths)
            results: dict[str, Any] = {}
            for stack in self._modules:
                flowing, states = stack(flowing)
                results |= states
            if self._lengths is not None:
                flowing, _ = torch.nn.utils.rnn.pad_packed_sequence(flowing, total_length=self._work.shape.steps)
            results["y"] = flowing
            if self._work.case.trains:
                gradients = torch.autograd.grad(flowing, [x, *self._leaves.values()], self._dy)
                results |= dict(zip(("dx", *(f"d{name}" for name in self._leaves)), gradients, strict=True))
        return results

    def results(self) -> dict[str, Array]:
        results = super().results()
        for stack in self._modules:
            stack.name_results(results)
        return results


_BLOCKS: dict[str, tuple[str, int | None]] = {
    "weight_ih": ("w", None),
    "weight_hh": ("r", None),
    "bias_ih": ("b", 0),
    "bias_hh": ("b", 1),
    "weight_hr": ("p", None),
}
"""PyTorch's parameters: the work's array with one per direction, and the part of it."""


def _runs(layers: tuple[LayerShape, ...]) -> Iterator[list[tuple[int, LayerShape]]]:
    """The indices of consecutive layers that differ in the input size only."""
    for _, run in groupby(enumerate(layers), lambda item: (item[1].cell, item[1].hidden_size, item[1].direction, item[1].projection)):
        consecutive = list(run)
        if consecutive[0][1].direction == "BACKWARD":
            yield from ([one] for one in consecutive)  # between them the sequence is reversed
        else:
            yield consecutive


class _Stack:
    """A module of `torch.nn` with its initial states of zero."""

    def __init__(self, library: Torch, layers: list[tuple[int, LayerShape]], work: RecurrentWork) -> None:
        torch = self._torch = library.torch
        self._layers = layers
        (first, layer), shape = layers[0], work.shape
        self._first = first
        self._backwards = layer.direction == "BACKWARD"
        if self._backwards and shape.ragged:
            raise UnsupportedError("PyTorch has no layer that only runs backwards, and reversing a ragged batch does not help")
        if layer.cell == "GRU" and not layer.linear_before_reset:
            raise UnsupportedError("PyTorch's GRU resets after the recurrent product only")
        kind = {"float32": torch.float32, "float16": torch.float16}[work.dtype.name]
        place: dict[str, Any] = {"device": library.place, "dtype": kind}
        more = {"proj_size": layer.projection} if layer.projection else {}
        self.module: Any = getattr(torch.nn, layer.cell)(
            layer.input_size, layer.hidden_size, len(layers), bidirectional=layer.directions == 2, **more, **place
        ).train(work.case.trains)
        stacked = len(layers) * layer.directions
        self._states = [torch.zeros(stacked, shape.batch, layer.state_size, **place)]
        if layer.cell == "LSTM":
            self._states.append(torch.zeros(stacked, shape.batch, layer.hidden_size, **place))

    def _parameter(self, name: str, number: int, direction: int) -> Any:
        return getattr(self.module, f"{name}_l{number - self._first}{'_reverse' if direction else ''}")

    def set(self, name: str, number: int, direction: int, values: Array) -> None:
        self._parameter(name, number, direction).data.copy_(self._torch.from_numpy(values))

    def finish(self) -> None:
        self.module.flatten_parameters()

    def leaves(self, trains: bool) -> dict[str, Any]:
        """The tensors whose gradients are computed, by name."""
        for tensor in (*self.module.parameters(), *self._states):
            tensor.requires_grad_(trains)
        states = zip(("h", "c"), self._states, strict=False)
        return {f"{name}@{self._first}": tensor for name, tensor in (*self.module.named_parameters(), *states)}

    def __call__(self, flowing: Any) -> tuple[Any, dict[str, Any]]:
        if self._backwards:
            flowing = flowing.flip(0)
        flowing, states = self.module(flowing, tuple(self._states) if len(self._states) == 2 else self._states[0])
        if self._backwards:
            flowing = flowing.flip(0)
        ends = states if len(self._states) == 2 else (states,)
        return flowing, {f"{name}@{self._first}": end for name, end in zip(("h", "c"), ends, strict=False)}

    def name_results(self, results: dict[str, Array]) -> None:
        """Converts stacked states and single blocks to the arrays of the work."""
        import numpy as np

        for prefix in ("", "d"):
            for letter in ("h", "c"):
                stacked = results.pop(f"{prefix}{letter}@{self._first}", None)
                if stacked is None:
                    continue
                for place, (number, layer) in enumerate(self._layers):
                    results[f"{prefix}{letter}{number}"] = stacked[place * layer.directions : (place + 1) * layer.directions]
        for number, layer in self._layers:
            blocks: dict[str, list[Array]] = {}
            for direction in range(layer.directions):
                for name, (letter, _) in _BLOCKS.items():
                    suffix = f"_l{number - self._first}{'_reverse' if direction else ''}@{self._first}"
                    block = results.pop(f"d{name}{suffix}", None)
                    if block is not None:
                        blocks.setdefault(letter, []).append(block)
            for letter, parts in blocks.items():
                array = np.stack(parts)
                results[f"d{letter}{number}"] = array.reshape(layer.directions, 2, -1) if letter == "b" else array


class NormalizationRunner(_SampledRunner):
    """`torch.nn.functional.batch_norm` with the batch's statistics. NHWC is `channels_last`, which PyTorch infers from the strides."""

    _work: BatchNormWork

    def _place(self) -> None:
        super()._place()
        self._leaves = {name: self._tensor(array).requires_grad_(self._work.case.trains) for name, array in self._work.parameters().items()}
        self.plan = ("torch.nn.functional.batch_norm" + ("" if self._library.cudnn or not self._library.on_gpu else " without cuDNN"),)

    def _pass(self, number: int) -> dict[str, Any]:
        torch, x = self._torch, self._xs[number]
        with torch.set_grad_enabled(self._work.case.trains):
            scale, offset = self._leaves["scale"], self._leaves["offset"]
            y = torch.nn.functional.batch_norm(x, None, None, scale, offset, training=True, eps=self._work.EPSILON)
            results = {"y": y}
            if self._work.case.trains:
                results |= dict(zip(("dx", "dscale", "doffset"), torch.autograd.grad(y, (x, scale, offset), self._dy), strict=True))
        return results
