"""Plain CuPy without a library for recurrent layers: a loop over steps with a matrix product and fused element-wise functions.

Forward only. The input product is one product over all steps; the arrays' library is `xp`, so that NumPy can run the same loop.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from dmlpy.bench.libraries import EAGER, Library, Mode, NotInstalledError, Runner, UnsupportedError
from dmlpy.bench.work import Array, RecurrentWork, Work

if TYPE_CHECKING:
    from dmlpy.bench.shapes import LayerShape

Fuse = Callable[[Callable[..., Any]], Callable[..., Any]]


def free_cached() -> None:
    """Frees the memory that CuPy's pool caches."""
    import cupy

    cupy.get_default_memory_pool().free_all_blocks()


class PlainCupy(Library):
    """CuPy on a GPU."""

    def __init__(self, device: str, threads: int) -> None:
        super().__init__(device, threads)
        try:
            import cupy
        except ImportError as error:
            raise NotInstalledError(f"{error}: pip install cupy-cuda13x") from error
        self.xp: Any = cupy
        try:
            cupy.cuda.Device(int(device.partition(":")[2] or 0)).use()
        except cupy.cuda.runtime.CUDARuntimeError as error:
            raise NotInstalledError(f"CuPy {cupy.__version__} sees no GPU: {error}") from error

    @property
    def reusable(self) -> bool:
        return True

    def release(self) -> None:
        free_cached()

    def versions(self) -> dict[str, str]:
        return {"cupy": self.xp.__version__}

    def modes(self, work: Work) -> tuple[Mode, ...]:
        return EAGER

    def build(self, work: Work, mode: Mode) -> Runner:
        if work.case.trains or not isinstance(work, RecurrentWork):
            raise UnsupportedError("the plain loop has recurrent layers, and no gradients")
        return LoopRunner(self.xp, self.xp.fuse(), work, self.sets, self.mark)

    def microseconds(self, issue: Callable[[], None], repeats: int) -> float:
        cuda = self.xp.cuda
        start, end = cuda.Event(), cuda.Event()
        start.record()
        for _ in range(repeats):
            issue()
        end.record()
        end.synchronize()
        return 1e3 * float(cuda.get_elapsed_time(start, end)) / repeats

    def mark(self) -> None:
        pool = self.xp.get_default_memory_pool()
        pool.free_all_blocks()
        self._before = int(pool.total_bytes())

    def peak_bytes(self) -> int | None:
        """The bytes that the pool has allocated since `mark`; it caches memory that a pass has freed."""
        return None if self._before is None else int(self.xp.get_default_memory_pool().total_bytes()) - self._before


class LoopRunner(Runner):
    """The loop.

    Args:
        xp: CuPy, or NumPy.
        fuse: compiles an element-wise function to one kernel.
        work: the work to do.
        sets: the number of inputs used in turn.
        mark: called once inputs and parameters are in place.
    """

    plan = ("input product over all steps; each step a product and fused element-wise functions",)

    def __init__(self, xp: Any, fuse: Fuse, work: RecurrentWork, sets: int, mark: Callable[[], None]) -> None:
        self._xp, self._work = xp, work
        self._xs = [xp.asarray(work.x(number)) for number in range(sets)]
        self._parameters = {name: xp.asarray(array) for name, array in work.parameters().items()}
        shape = work.shape
        # [T, B, 1]: whether a sample's step counts.
        steps = xp.arange(shape.steps)[:, None, None]
        self._within = steps < xp.asarray(work.lengths())[None, :, None] if shape.ragged else None
        self._functions = {name: fuse(function) for name, function in _functions(xp).items()}
        self._kept: dict[str, Any] = {}
        mark()

    def run(self, number: int) -> None:
        xp, shape = self._xp, self._work.shape
        flowing = self._xs[number]
        for place, layer in enumerate(shape.layers):
            directions = {"FORWARD": (False,), "BACKWARD": (True,), "BIDIRECTIONAL": (False, True)}[layer.direction]
            results = [self._run_direction(place, layer, index, flowing, backwards) for index, backwards in enumerate(directions)]
            flowing = xp.concatenate([sequence for sequence, _, _ in results], axis=2) if len(results) > 1 else results[0][0]
            self._kept[f"h{place}"] = xp.stack([h for _, h, _ in results])
            if layer.cell == "LSTM":
                self._kept[f"c{place}"] = xp.stack([c for _, _, c in results])
        self._kept["y"] = flowing

    def _run_direction(self, place: int, layer: LayerShape, direction: int, x: Any, backwards: bool) -> tuple[Any, Any, Any]:
        """Runs one direction of a layer: returns its sequence [T, B, S] and the last h and c."""
        xp, shape = self._xp, self._work.shape
        w, r, b = (self._parameters[f"{name}{place}"][direction] for name in "wrb")
        projection = self._parameters[f"p{place}"][direction].T if layer.projection else None
        hidden = layer.hidden_size
        resets_last = layer.cell == "GRU" and layer.linear_before_reset
        # The recurrent bias of a gate with reset must be added to the recurrent product.
        bias = b[0] + b[1]
        if resets_last:
            bias[2 * hidden :] = b[0, 2 * hidden :]
        sums = (x.reshape(-1, layer.input_size) @ w.T + bias).reshape(shape.steps, shape.batch, -1)
        h = xp.zeros((shape.batch, layer.state_size), x.dtype)
        c = xp.zeros((shape.batch, hidden), x.dtype)
        y = xp.zeros((shape.steps, shape.batch, layer.state_size), x.dtype)
        functions, recurrence = self._functions, r.T
        for time in reversed(range(shape.steps)) if backwards else range(shape.steps):
            before, memory = h, c
            if layer.cell == "RNN":
                h = functions["rnn"](sums[time], h @ recurrence)
            elif layer.cell == "LSTM":
                i, f, g, o = (sums[time][:, gate * hidden : (gate + 1) * hidden] for gate in range(4))
                product = h @ recurrence
                ri, rf, rg, ro = (product[:, gate * hidden : (gate + 1) * hidden] for gate in range(4))
                c = functions["memory"](i, ri, f, rf, g, rg, c)
                h = functions["state"](o, ro, c)
                if projection is not None:
                    h = h @ projection
            else:
                r_in, z_in, n_in = (sums[time][:, gate * hidden : (gate + 1) * hidden] for gate in range(3))
                if resets_last:
                    product = h @ recurrence
                    reset = functions["gate"](r_in, product[:, :hidden])
                    update = product[:, hidden : 2 * hidden]
                    new = functions["reset_last"](n_in, reset, product[:, 2 * hidden :], b[1, 2 * hidden :])
                else:
                    product = h @ recurrence[:, : 2 * hidden]
                    update = product[:, hidden:]
                    reset = functions["reset_first"](r_in, product[:, :hidden], h)
                    new = functions["rnn"](n_in, reset @ recurrence[:, 2 * hidden :])
                h = functions["mix"](z_in, update, new, h)
            if self._within is not None:
                counts = self._within[time]
                y[time] = xp.where(counts, h, 0)
                h, c = xp.where(counts, h, before), xp.where(counts, c, memory)
            else:
                y[time] = h
        return y, h, c

    def results(self) -> dict[str, Array]:
        return {name: array.get() if hasattr(array, "get") else array for name, array in self._kept.items()}


def _functions(xp: Any) -> dict[str, Callable[..., Any]]:
    """The element-wise functions of the cells, each with one result."""

    def sigmoid(x: Any) -> Any:
        return 0.5 * xp.tanh(0.5 * x) + 0.5

    def rnn(x: Any, h: Any) -> Any:
        return xp.tanh(x + h)

    def memory(i: Any, ri: Any, f: Any, rf: Any, g: Any, rg: Any, c: Any) -> Any:
        return sigmoid(f + rf) * c + sigmoid(i + ri) * xp.tanh(g + rg)

    def state(o: Any, ro: Any, c: Any) -> Any:
        return sigmoid(o + ro) * xp.tanh(c)

    def gate(x: Any, h: Any) -> Any:
        return sigmoid(x + h)

    def reset_last(x: Any, reset: Any, product: Any, bias: Any) -> Any:
        return xp.tanh(x + reset * (product + bias))

    def reset_first(x: Any, product: Any, h: Any) -> Any:
        return sigmoid(x + product) * h

    def mix(x: Any, product: Any, new: Any, h: Any) -> Any:
        z = sigmoid(x + product)
        return (1 - z) * new + z * h

    return {function.__name__: function for function in (rnn, memory, state, gate, reset_last, reset_first, mix)}
