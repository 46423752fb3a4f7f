"""dmlpy.nn's recurrent functions give the values and gradients of the operators' definitions, for every form of their arguments."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from dmlpy import nn
from dmlpy.description.gate_order import Cell, GateOrder, reorder
from dmlpy.nn import arrays as nn_arrays
from tests.conftest import cuda_on_cpu
from tests.support.cuda.fakes.cupy_over_numpy import FakeCuPy
from tests.support.cuda.fakes.runtime_over_fake_cupy import in_a_fresh_thread
from tests.support.operators.bfloat16_cases import BFLOAT16
from tests.support.recurrent.layer_runs import USUAL
from tests.support.tolerance import assert_close
from tests.support.tools import require

Array = np.ndarray[Any, np.dtype[Any]]
T, B, I, H = 5, 3, 4, 7  # noqa: E741  (the field's letters)
LENGTHS = (5, 0, 3)
FUNCTIONS: dict[Cell, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "LSTM": (nn.lstm, nn.lstm_vjp),
    "GRU": (nn.gru, nn.gru_vjp),
    "RNN": (nn.rnn, nn.rnn_vjp),
}
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
TRAINING: dict[Cell, Any] = {"LSTM": dml.LSTMTrainingDesc, "GRU": dml.GRUTrainingDesc, "RNN": dml.RNNTrainingDesc}
ORDERS = {"cudnn": GateOrder.CUDNN, "onnx": GateOrder.DIRECTML, "keras": GateOrder.KERAS, "thinc": GateOrder.THINC}


class Case:
    """Arguments of a function in DirectML's order of gates, all with an axis of directions, and upstream gradients."""

    def __init__(self, cell: Cell, direction: str, dtype: Any = np.float32, *, biases: int = 2, states: bool = True) -> None:
        rng = np.random.default_rng(len(direction) + biases)
        self.cell, self.direction, self.ways = cell, direction, 2 if direction == "bidirectional" else 1
        rows = GATES[cell] * H

        def draw(*shape: int) -> Array:
            return (rng.standard_normal(shape) / 2).astype(dtype)

        self.arrays = {"x": draw(T, B, I), "w": draw(self.ways, rows, I), "r": draw(self.ways, rows, H)}
        if biases:
            self.arrays["b"] = draw(self.ways, biases * rows)
        if states:
            self.arrays |= {"h0": draw(self.ways, B, H)} | ({"c0": draw(self.ways, B, H)} if cell == "LSTM" else {})
        self.upstream = {"dy": draw(T, B, self.ways * H), "dh": draw(self.ways, B, H)}
        if cell == "LSTM":
            self.upstream["dc"] = draw(self.ways, B, H)

    def given(self, order: GateOrder) -> dict[str, Array]:
        """The arguments in another order of gates, without the axis of directions where there is one direction."""
        return {name: self.own_form(name, array, order) for name, array in self.arrays.items()}

    def own_form(self, name: str, array: Array, order: GateOrder) -> Array:
        if name in ("w", "r", "b"):
            parts = array.shape[1] // (GATES[self.cell] * H)
            array = reorder(array, self.cell, GateOrder.DIRECTML, order, axis=1, parts=parts)
        return array if name in ("x", "dy") or self.ways == 2 else array[0]

    def reference(self, lengths: Any, **attributes: Any) -> tuple[dict[str, Array], dict[str, Array]]:
        """The results and the gradients by the definition in float64, in the order of `order` for gates."""
        fields = {"x": "input", "w": "weight", "r": "recurrence", "b": "bias", "h0": "hidden_init", "c0": "cell_mem_init"}
        tensors = {f"{fields[name]}_tensor": array[None] for name, array in self.arrays.items()}
        if "b" in self.arrays:
            whole = self.arrays["b"]
            if whole.shape[1] == GATES[self.cell] * H:
                whole = np.concatenate([whole, np.zeros_like(whole)], axis=1)
            tensors["bias_tensor"] = whole[None, None]
        if lengths is not None:
            tensors["sequence_lengths_tensor"] = np.array(lengths, np.uint32)[None, None, None]
        activation = attributes.pop("activation", None)
        acts = USUAL[self.cell] if activation is None else (dml.ActivationReluDesc(),)
        given: dict[str, Any] = {name: dml.TensorDesc.of(array) for name, array in tensors.items()}
        desc = TRAINING[self.cell](**given, activation_descs=acts * self.ways, direction=self.direction.upper(), **attributes)
        desc = desc.with_outputs()
        found = dml.reference(desc, tensors)
        y = found.output_sequence_tensor.transpose(0, 2, 1, 3).reshape(T, B, -1)
        results = {"y": y, "h": found.output_single_tensor[0]}
        if self.cell == "LSTM":
            results["c"] = found.output_cell_single_tensor[0]
        gradient = desc.gradient()
        upstream = {
            "output_sequence_gradient_tensor": self.upstream["dy"].reshape(T, B, self.ways, H).transpose(0, 2, 1, 3),
            "output_single_gradient_tensor": self.upstream["dh"][None],
        }
        if self.cell == "LSTM":
            upstream["output_cell_single_gradient_tensor"] = self.upstream["dc"][None]
        read = {name: array for name, array in tensors.items() if name in gradient.tensors()}
        back = dml.reference(gradient, read | upstream | {"reserve_tensor": found.reserve_tensor})
        gradients = {name: getattr(back, f"{fields[name]}_gradient_tensor")[0] for name in self.arrays}
        if "b" in gradients:
            gradients["b"] = gradients["b"][0][:, : self.arrays["b"].shape[1]]
        return results, gradients


def check(case: Case, order: str, dtype: Any = np.float32, **given: Any) -> None:
    """Compares both functions with the definition."""
    plain, vjp = FUNCTIONS[case.cell]
    lengths = given.get("lengths")
    attributes = {"linear_before_reset": given.get("reset_after", True)} if case.cell == "GRU" else {}
    if "activation" in given:
        attributes["activation"] = given["activation"]
    results, gradients = case.reference(lengths, **attributes)
    arguments = case.given(ORDERS[order])
    options: dict[str, Any] = {"direction": case.direction, **given}
    if case.cell != "RNN":
        options["gates"] = order
    found = plain(**arguments, **options)
    trained, backward = vjp(**arguments, **options)
    for name, whole in results.items():
        expected = whole if name == "y" else case.own_form("h0", whole, GateOrder.DIRECTML)
        for result in (found, trained):
            assert_close(getattr(result, name), expected, dtype, terms=I + H, what=name)
    upstream = [case.own_form(name, array, ORDERS[order]) for name, array in case.upstream.items()]
    back = backward(*upstream)
    for name in nn.RecurrentGradients._fields:
        if name not in case.arrays:
            assert getattr(back, name) is None
        else:
            expected = case.own_form(name, gradients[name], ORDERS[order])
            assert_close(getattr(back, name), expected, dtype, terms=T * B * (I + H), what=f"gradient of {name}")


ROWS: list[tuple[Cell, str, str, Any, str]] = [
    ("LSTM", "forward", "cudnn", None, "numpy"),
    ("LSTM", "backward", "keras", LENGTHS, "numpy"),
    ("LSTM", "bidirectional", "thinc", LENGTHS, "cpu"),
    ("LSTM", "bidirectional", "onnx", None, "numpy"),
    ("GRU", "forward", "cudnn", LENGTHS, "numpy"),
    ("GRU", "bidirectional", "keras", None, "numpy"),
    ("GRU", "backward", "cudnn", None, "cpu"),
    ("RNN", "forward", "onnx", LENGTHS, "numpy"),
    ("RNN", "bidirectional", "onnx", None, "numpy"),
]


@pytest.mark.parametrize(("cell", "direction", "order", "lengths", "device"), ROWS)
def test_values_and_gradients(cell: Cell, direction: str, order: str, lengths: Any, device: str) -> None:
    check(Case(cell, direction), order, lengths=lengths, device=device)


@pytest.mark.parametrize(
    ("cell", "options", "case"),
    [
        ("GRU", {"reset_after": False}, {}),
        ("RNN", {"activation": "relu"}, {}),
        ("LSTM", {}, {"biases": 1}),
        ("GRU", {}, {"biases": 1}),
        ("LSTM", {}, {"biases": 0, "states": False}),
        ("RNN", {}, {"biases": 0, "states": False}),
        ("LSTM", {"lengths": np.array(LENGTHS, np.int64)}, {}),
    ],
)
def test_options(cell: Cell, options: Any, case: Any) -> None:
    check(Case(cell, "bidirectional", **case), "cudnn", device="numpy", **options)


def test_bfloat16() -> None:
    """Arrays of NumPy's form of it, and PyTorch's tensors; gradients too."""
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(6)
    x, w, r = (rng.standard_normal(sizes).astype(BFLOAT16) for sizes in ((5, 3, 4), (18, 4), (18, 6)))
    (expected, last), backward = nn.gru_vjp(*(array.astype(np.float64).astype(np.float32) for array in (x, w, r)), lengths=[5, 2, 3])
    (y, h), own_backward = nn.gru_vjp(x, w, r, lengths=[5, 2, 3])
    tensors = [torch.from_numpy(array.view(np.int16)).view(torch.bfloat16) for array in (x, w, r)]
    assert torch.equal(nn.gru(*tensors, lengths=[5, 2, 3]).y, torch.from_numpy(y.view(np.int16)).view(torch.bfloat16))
    upstream = rng.standard_normal(y.shape).astype(BFLOAT16)
    found, wide = own_backward(upstream), backward(upstream.astype(np.float32))
    pairs = [(y, expected), (h, last), *((getattr(found, name), getattr(wide, name)) for name in ("x", "w", "r"))]
    for narrow, reference in pairs:
        assert narrow.dtype == BFLOAT16
        assert_close(narrow, reference.astype(np.float64), BFLOAT16)


def test_float16() -> None:
    check(Case("LSTM", "forward", np.float16), "cudnn", np.float16, device=dml.device("numpy"))


def test_any_strides_and_types_of_order_are_read() -> None:
    case = Case("LSTM", "forward")
    given = case.given(GateOrder.CUDNN)
    strided = {name: np.flip(np.asfortranarray(np.flip(array, -1)), -1) for name, array in given.items()}
    assert any(stride < 0 for stride in strided["x"].strides)
    plain, other = nn.lstm(**given), nn.lstm(**strided)
    np.testing.assert_array_equal(plain.y, other.y)


def test_upstream_gradients_that_are_left_out_are_zeros() -> None:
    case = Case("LSTM", "forward")
    _, backward = nn.lstm_vjp(**case.given(GateOrder.CUDNN))
    dy, dh, dc = (case.own_form(name, array, GateOrder.CUDNN) for name, array in case.upstream.items())
    whole, first, last = backward(dy, dh, dc), backward(dy), backward(None, dh, dc)
    for together, one, other in zip(whole, first, last, strict=True):
        assert_close(one + other, together, np.float32, terms=T * B * H)
    assert not any(np.any(part) for part in backward())


def test_a_backward_pass_may_come_after_the_arguments_changed_and_other_calls() -> None:
    case = Case("GRU", "bidirectional")
    given, dy = case.given(GateOrder.CUDNN), case.upstream["dy"]
    _, backward = nn.gru_vjp(**given, lengths=LENGTHS, direction="bidirectional")
    first = backward(dy)
    for array in given.values():
        array[...] = np.nan
    nn.gru_vjp(**given, lengths=LENGTHS, direction="bidirectional")[1](dy)
    for before, after in zip(first, backward(dy), strict=True):
        np.testing.assert_array_equal(before, after)
    # The NaN that are left in buffers are in no later result.
    nn.gru_vjp(**given, lengths=LENGTHS, direction="bidirectional")
    check(Case("GRU", "bidirectional"), "cudnn", lengths=LENGTHS)


@pytest.mark.parametrize(("steps", "batch"), [(0, 3), (5, 0), (0, 0)])
def test_no_steps_leave_the_states(steps: int, batch: int) -> None:
    case = Case("LSTM", "bidirectional")
    given = case.given(GateOrder.CUDNN) | {"x": np.zeros((steps, batch, I), np.float32)}
    given["h0"], given["c0"] = given["h0"][:, :batch], given["c0"][:, :batch]
    (y, h, c), backward = nn.lstm_vjp(**given, direction="bidirectional", lengths=[0] * batch)
    assert y.shape == (steps, batch, 2 * H)
    np.testing.assert_array_equal(h, given["h0"])
    np.testing.assert_array_equal(c, given["c0"])
    found = backward(y, h, 2 * c)
    np.testing.assert_array_equal(found.h0, h)
    np.testing.assert_array_equal(found.c0, 2 * c)
    assert found.w.shape == given["w"].shape
    assert not found.w.any()


def test_single_steps_are_steps_of_the_layers() -> None:
    lstm, gru = Case("LSTM", "forward").given(GateOrder.CUDNN), Case("GRU", "forward").given(GateOrder.CUDNN)
    h, c = lstm["h0"], lstm["c0"]
    for x in lstm["x"]:
        h, c = nn.lstm_cell(x, h, c, lstm["w"], lstm["r"], lstm["b"], device="numpy")
    whole = nn.lstm(**lstm, device="numpy")
    assert_close(h, whole.h, np.float32, terms=I + H)
    assert_close(c, whole.c, np.float32, terms=I + H)
    h = gru["h0"]
    for x in gru["x"]:
        h = nn.gru_cell(x, h, gru["w"], gru["r"], gru["b"], reset_after=False, device="numpy")
    assert_close(h, nn.gru(**gru, reset_after=False, device="numpy").h, np.float32, terms=I + H)


def test_tensors_of_pytorch() -> None:
    require("torch")
    import torch

    case = Case("LSTM", "bidirectional")
    given = {name: torch.from_numpy(array) for name, array in case.given(GateOrder.CUDNN).items()}
    (y, h, _), backward = nn.lstm_vjp(**given, direction="bidirectional", lengths=torch.tensor(LENGTHS))
    assert isinstance(y, torch.Tensor)
    assert isinstance(h, torch.Tensor)
    expected, gradients = case.reference(LENGTHS)
    assert_close(y.numpy(), expected["y"], np.float32, terms=I + H)
    found = backward(*map(torch.from_numpy, case.upstream.values()))
    assert_close(found.w.numpy(), case.own_form("w", gradients["w"], GateOrder.CUDNN), np.float32, terms=T * B)


@pytest.mark.parametrize("at", range(3))
def test_tensors_of_pytorch_whose_signs_are_flipped_when_they_are_read(at: int) -> None:
    require("torch")
    import torch

    flipped = [torch.randn(shape, dtype=torch.complex64).conj().imag for shape in ((T, B, I), (H, I), (H, H))]
    given = [tensor if number == at else tensor.resolve_neg() for number, tensor in enumerate(flipped)]
    assert given[at].is_neg()
    assert torch.equal(nn.rnn(*given).y, nn.rnn(*(tensor.resolve_neg() for tensor in given)).y)


def test_arrays_of_any_library_with_dlpack() -> None:
    class Foreign:
        def __init__(self, array: Array) -> None:
            self.array, self.shape = array, array.shape

        def __dlpack__(self, **given: Any) -> Any:
            return self.array.__dlpack__(**given)

        def __dlpack_device__(self) -> Any:
            return self.array.__dlpack_device__()

        def __array_namespace__(self) -> Any:
            class Namespace:
                @staticmethod
                def from_dlpack(array: Any) -> Foreign:
                    return Foreign(np.from_dlpack(array))

            return Namespace

    case = Case("RNN", "forward")
    given = case.given(GateOrder.CUDNN)
    found = nn.rnn(**{name: Foreign(array) for name, array in given.items()}, device="numpy")
    assert isinstance(found.y, Foreign)
    np.testing.assert_array_equal(found.y.array, nn.rnn(**given, device="numpy").y)


def test_bfloat16_of_other_libraries_comes_back_as_an_array() -> None:
    """As of JAX, whose arrays of bfloat16 are exported by DLPack, while those of NumPy are not."""
    torch = pytest.importorskip("torch")

    class Foreign:
        dtype = "bfloat16"

        def __init__(self, array: Array) -> None:
            self.tensor, self.shape = torch.tensor(array.astype(np.float32)).bfloat16(), array.shape

        def __dlpack__(self, **given: Any) -> Any:
            return self.tensor.__dlpack__(**given)

        def __dlpack_device__(self) -> Any:
            return self.tensor.__dlpack_device__()

        def __array_namespace__(self) -> Any:
            return SimpleNamespace(asarray=Foreign, from_dlpack=np.from_dlpack)

    given = {name: Foreign(array) for name, array in Case("RNN", "forward").given(GateOrder.CUDNN).items()}
    found = nn.rnn(**given, device="numpy").y
    assert isinstance(found, Foreign)
    expected = nn.rnn(**{name: array.tensor for name, array in given.items()}, device="numpy").y
    assert torch.equal(found.tensor, expected)


def test_tracers_have_no_memory() -> None:
    class Tracer:
        shape, dtype = (3, 2, 4), np.dtype(np.float32)

    with pytest.raises(dml.DescError, match=r"call the function by jax\.pure_callback"):
        nn.rnn(Tracer(), np.zeros((5, 4), np.float32), np.zeros((5, 5), np.float32))


@pytest.fixture
def fake_cupy(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeCuPy]:
    """CuPy's arrays on the emulated device, for `dmlpy.nn`."""
    device = cuda_on_cpu()
    cupy = FakeCuPy(device)
    home = nn_arrays.Home(device, cupy, lambda array: array)
    monkeypatch.setattr(nn_arrays, "_home", lambda *_: home)
    monkeypatch.setattr(nn_arrays.Home, "current", lambda _: nullcontext())
    yield cupy
    nn.free_buffers()


@pytest.mark.parametrize(("cell", "direction", "lengths"), [("LSTM", "bidirectional", LENGTHS), ("GRU", "forward", None)])
def test_arrays_on_a_gpu(fake_cupy: FakeCuPy, cell: Cell, direction: str, lengths: Any) -> None:
    case = Case(cell, direction)
    given = {name: fake_cupy.asarray(array) for name, array in case.given(GateOrder.CUDNN).items()}
    (y, *_), backward = FUNCTIONS[cell][1](**given, direction=direction, lengths=lengths)
    results, gradients = case.reference(lengths, **({"linear_before_reset": True} if cell == "GRU" else {}))
    assert_close(np.array(y), results["y"], np.float32, terms=I + H)
    found = backward(
        fake_cupy.asarray(case.upstream["dy"]),
        *(fake_cupy.asarray(case.own_form(name, array, GateOrder.CUDNN)) for name, array in list(case.upstream.items())[1:]),
    )
    for name in case.arrays:
        expected = case.own_form(name, gradients[name], GateOrder.CUDNN)
        assert_close(np.array(getattr(found, name)), expected, np.float32, terms=T * B * (I + H), what=name)


def test_buffers_go_to_later_work_of_the_stream_that_used_them_last(fake_cupy: FakeCuPy) -> None:
    """The same holds for default streams of threads, which have one handle."""
    runtime: Any = fake_cupy._device.runtime  # type: ignore[attr-defined]  # of the emulated device
    case = Case("GRU", "forward")
    given = {name: fake_cupy.asarray(array) for name, array in case.given(GateOrder.CUDNN).items()}

    def gradient_in(stream: int) -> None:
        _, backward = nn.gru_vjp(**given)
        runtime.stream = stream
        backward(fake_cupy.asarray(case.upstream["dy"]))

    runtime.stream, other = 0, runtime.new_stream()
    gradient_in(other)
    size = nn.idle_bytes()
    assert size
    gradient_in(other)
    assert nn.idle_bytes() == size, "in the same stream the buffers are used again"
    runtime.stream = 0
    gradient_in(2)
    assert nn.idle_bytes() == 2 * size, "in the other one that work may use them still"
    gradient_in(2)
    assert nn.idle_bytes() == 2 * size
    in_a_fresh_thread(partial(gradient_in, 2))
    assert nn.idle_bytes() == 3 * size


@pytest.mark.parametrize("part", ["call", "gradient"])
def test_buffers_belong_to_the_cuda_graph_that_captures_their_use(fake_cupy: FakeCuPy, part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """No other call uses them, and they are not freed before it is destroyed."""
    runtime: Any = fake_cupy._device.runtime  # type: ignore[attr-defined]  # of the emulated device
    monkeypatch.setattr(fake_cupy._device, "replayed", lambda launch: launch)  # which captures another stream: not possible here
    case = Case("GRU", "forward")
    given = {name: fake_cupy.asarray(array) for name, array in case.given(GateOrder.CUDNN).items()}
    nn.gru_vjp(**given)  # compiles, and leaves buffers that a call in a capture does not take
    size = nn.idle_bytes()
    if part == "call":
        runtime.stream = stream = runtime.begin_capture()
        _, backward = nn.gru_vjp(**given)
    else:
        _, backward = nn.gru_vjp(**given)
        runtime.stream = stream = runtime.begin_capture()
        backward(fake_cupy.asarray(case.upstream["dy"]))
    graph, runtime.stream = runtime.end_capture(stream), 0
    assert buffers_of(backward) <= {memory.pointer for memory in graph.retained}
    del backward
    assert nn.idle_bytes() == (size if part == "call" else 0)


def test_buffers_are_not_freed_before_the_work_that_uses_them_last(fake_cupy: FakeCuPy, monkeypatch: pytest.MonkeyPatch) -> None:
    runtime: Any = fake_cupy._device.runtime  # type: ignore[attr-defined]  # of the emulated device
    case = Case("GRU", "forward")
    given = {name: fake_cupy.asarray(array) for name, array in case.given(GateOrder.CUDNN).items()}
    uses: dict[int, set[int]] = {}
    monkeypatch.setattr(runtime, "_hold", lambda memory, stream: uses.setdefault(stream, set()).add(memory.pointer))
    runtime.stream, other = 0, runtime.new_stream()
    _, backward = nn.gru_vjp(**given)
    runtime.stream = other
    backward(fake_cupy.asarray(case.upstream["dy"]))
    assert buffers_of(backward) <= uses[other]


def buffers_of(backward: Any) -> set[int]:
    """The addresses of the buffers of a call whose gradient this method computes."""
    space = backward.__self__.lease.space
    return {getattr(space, name).owner.pointer for name in ("x", "w", "r", "b", "h0", "y", "h")}
