"""Calls of modules that go straight to their operator: the same bits, and only where nothing has to see PyTorch's dispatcher at work."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import dmlpy as dml
from dmlpy import nn
from tests.support.tools import require

require("torch")

import torch
from torch.autograd import forward_ad
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

import dmlpy.torch as dt
from dmlpy.torch import function, modules, operators

STEPS, BATCH, INPUT, HIDDEN = 2, 3, 5, 6

MODULES: dict[str, Callable[[], Any]] = {
    "LSTM": lambda: dt.LSTM(INPUT, HIDDEN),
    "batch first": lambda: dt.LSTM(INPUT, HIDDEN, batch_first=True),
    "projected, 2 layers": lambda: dt.LSTM(INPUT, HIDDEN, proj_size=3, num_layers=2, dropout=0.5).eval(),
    "GRU without biases": lambda: dt.GRU(INPUT, HIDDEN, bias=False),
    "bidirectional": lambda: dt.GRU(INPUT, HIDDEN, bidirectional=True),
    "float16": lambda: dt.RNN(INPUT, HIDDEN, dtype=torch.float16),
    "bfloat16": lambda: dt.RNN(INPUT, HIDDEN, dtype=torch.bfloat16),
}
INPUTS: dict[str, Callable[[Any], torch.Tensor]] = {
    "packed": lambda made: made(STEPS, BATCH, INPUT),
    "exchanged axes": lambda made: made(BATCH, STEPS, INPUT).transpose(0, 1),
    "one sample": lambda made: made(STEPS, INPUT),
    "negated when it is read": lambda made: torch._neg_view(made(STEPS, BATCH, INPUT)),
    "zeros without memory": lambda made: torch._efficientzerotensor((STEPS, BATCH, INPUT), dtype=made(1).dtype),
}


@pytest.fixture(autouse=True)
def _anew() -> None:
    nn.free_buffers()


@pytest.fixture
def dispatched(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What is noted when PyTorch's dispatcher runs a network or its gradient."""
    noted: list[Any] = []

    def follow(original: Any) -> Any:
        def run(*arguments: Any) -> Any:
            noted.append(arguments)
            return original(*arguments)

        return run

    for name in ("network_op", "gradient_op"):
        monkeypatch.setattr(function, name, follow(getattr(operators, name)))
    return noted


def gradients(module: Any, x: torch.Tensor, state: Any, factor: torch.Tensor) -> list[torch.Tensor]:
    """The results of a call, then the gradients of its parameter, input and state."""
    results = parts(module(x, state))
    total = (results[0] * factor).sum() + results[-1].sum()
    leaves = [module.params, x, *(() if state is None else state if isinstance(state, tuple) else (state,))]
    return [*results, *torch.autograd.grad(total, [leaf for leaf in leaves if leaf.requires_grad])]


def parts(found: Any) -> list[torch.Tensor]:
    output, last = found
    return [output, *(last if isinstance(last, tuple) else (last,))]


@torch.no_grad()
@pytest.mark.parametrize("form", INPUTS)
@pytest.mark.parametrize("case", MODULES)
def test_bits_and_strides_are_those_of_the_dispatcher(case: str, form: str, dispatched: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    module = MODULES[case]()
    dtype = module.params.dtype

    def made(*sizes: int) -> torch.Tensor:
        return torch.randn(sizes, dtype=dtype)

    given = [INPUTS[form](made) for _ in range(2)]
    lasts = [module(x)[1] for x in given]
    calls = [(x, state) for x, last in zip(given, lasts, strict=True) for state in (None, last, None)]
    for x, state in calls[:2]:
        module(x, state)
    before = len(dispatched)
    found = [parts(module(*call)) for call in calls]
    assert len(dispatched) == before > 0
    monkeypatch.setattr(modules, "key_of", lambda *_: None)
    for call, own in zip(calls, found, strict=True):
        for part, expected in zip(own, parts(module(*call)), strict=True):
            assert torch.equal(part, expected)
            assert (part.stride(), part.dtype) == (expected.stride(), expected.dtype)
    assert len(dispatched) == before + len(calls)


@pytest.mark.parametrize("form", ["packed", "exchanged axes"])
@pytest.mark.parametrize("case", MODULES)
def test_gradients_are_those_of_the_dispatcher(case: str, form: str, dispatched: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    module = MODULES[case]()
    x = INPUTS[form](lambda *sizes: torch.randn(sizes, dtype=module.params.dtype)).requires_grad_()
    with torch.no_grad():
        output, last = module(x)
    state = tuple(each.requires_grad_() for each in last) if isinstance(last, tuple) else last.requires_grad_()
    work = [(x, given, torch.randn_like(output)) for given in (None, state)]
    for call in work:
        gradients(module, *call)
    before = len(dispatched)
    found = [gradients(module, *call) for call in work]
    assert (len(dispatched) == before) == module.bias, "what is saved of parameters without biases has zeros after them"
    monkeypatch.setattr(modules, "key_of", lambda *_: None)
    for call, own in zip(work, found, strict=True):
        for part, expected in zip(own, gradients(module, *call), strict=True):
            assert torch.equal(part, expected)
            assert (part.stride(), part.dtype) == (expected.stride(), expected.dtype)
    assert len(dispatched) >= before + 2 * len(work)


UNPACKED: dict[str, tuple[Callable[[torch.Tensor], torch.Tensor], Callable[[torch.Tensor], torch.Tensor], bool]] = {
    "a copy": (torch.clone, lambda saved: saved, False),
    "negated when it is read": (torch.neg, torch._neg_view, True),
}
"""What hooks do to a tensor when it is saved and when it is unpacked, and whether PyTorch's dispatcher has to read it."""


@pytest.mark.parametrize("form", UNPACKED)
def test_hooks_of_saved_tensors(form: str, dispatched: list[Any]) -> None:
    module, x, factor = dt.LSTM(INPUT, HIDDEN), torch.randn(STEPS, BATCH, INPUT, requires_grad=True), torch.randn(STEPS, BATCH, HIDDEN)
    expected = [gradients(module, x, None, factor) for _ in range(2)][1]
    pack, unpack, is_dispatched = UNPACKED[form]
    packed: list[torch.Tensor] = []
    unpacked: list[torch.Tensor] = []

    def noted(notes: list[torch.Tensor], made: torch.Tensor) -> torch.Tensor:
        notes.append(made)
        return made

    before = len(dispatched)
    with torch.autograd.graph.saved_tensors_hooks(lambda tensor: noted(packed, pack(tensor)), lambda saved: noted(unpacked, unpack(saved))):
        found = gradients(module, x, None, factor)
    assert all(map(torch.equal, found, expected))
    assert len(dispatched) == before + is_dispatched
    assert len(packed) == len(unpacked) >= 4, "checkpoints unpack once"


def test_hooks_that_change_sizes_are_refused() -> None:
    module, x = dt.LSTM(INPUT, HIDDEN), torch.randn(STEPS, BATCH, INPUT)
    for _ in range(2):
        module(x)[0].sum().backward()
    with torch.autograd.graph.saved_tensors_hooks(lambda tensor: tensor, lambda saved: saved[:, :1] if saved.shape == x.shape else saved):
        output = module(x)[0]
        with pytest.raises(dml.CompileError, match="batch_size"):
            output.sum().backward()


def test_kinds_of_gradients_are_not_all_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(function, "_MOST_GRADIENTS", 2)
    module, x = dt.GRU(INPUT, HIDDEN), torch.randn(STEPS, BATCH, INPUT)
    expected = torch.autograd.grad(module(x)[0].sum(), module.params)
    factors = [torch.ones(STEPS, BATCH, HIDDEN), torch.ones(1).expand(STEPS, BATCH, HIDDEN)]
    for x_wanted in (False, True):
        given = x.clone().requires_grad_(x_wanted)
        for factor in factors:
            for results in (1, 2):
                output, last = module(given)
                upstream = [factor, torch.zeros_like(last)]
                found = torch.autograd.grad([output, last][:results], module.params, upstream[:results])
                assert torch.equal(found[0], expected[0])
    [direct] = module._direct.values()
    assert isinstance(direct, function.DifferentiableCall)
    assert 0 < len(direct._gradients) <= 2


def test_gradients_of_direct_calls_cannot_be_differentiated() -> None:
    module, x = dt.GRU(INPUT, HIDDEN), torch.randn(STEPS, BATCH, INPUT, requires_grad=True)
    module(x)
    (gradient,) = torch.autograd.grad(module(x)[0].sum(), x, create_graph=True)
    with pytest.raises(dt.DerivativeError, match="a second time"):
        gradient.sum().backward()


def test_batched_gradients_of_direct_calls() -> None:
    """PyTorch computes them on tensors without memory, which no transform of torch.func announces."""
    module, x = dt.GRU(INPUT, HIDDEN), torch.randn(STEPS, BATCH, INPUT, requires_grad=True)
    module(x)
    output, upstream = module(x)[0], torch.randn(3, STEPS, BATCH, HIDDEN)
    (found,) = torch.autograd.grad(output, x, upstream, retain_graph=True, is_grads_batched=True)
    for each, own in zip(found, upstream, strict=True):
        assert torch.equal(each, torch.autograd.grad(output, x, own, retain_graph=True)[0])


class _Functions(TorchFunctionMode):
    def __torch_function__(self, called: Any, types: Any, arguments: Any = (), named: Any = None) -> Any:
        return called(*arguments, **(named or {}))


class _Dispatches(TorchDispatchMode):
    def __torch_dispatch__(self, called: Any, types: Any, arguments: Any = (), named: Any = None) -> Any:
        return called(*arguments, **(named or {}))


@contextmanager
def _traced() -> Iterator[None]:
    """What `torch.jit.trace` sets up."""
    tracing = torch._C._get_tracing_state
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("dmlpy.torch.direct._tracing_state", lambda: tracing() or object())
        yield


FOLLOWED: dict[str, Callable[[], Any]] = {
    "a mode of functions": _Functions,
    "a mode of the dispatcher": _Dispatches,
    "autocast": lambda: torch.autocast("cpu", torch.bfloat16),
    "a profiler": torch.autograd.profiler.profile,
    "forward-mode differentiation": forward_ad.dual_level,
    "torch.jit": _traced,
}


class _SeenError(Exception):
    pass


@pytest.mark.parametrize("what", FOLLOWED)
def test_what_follows_operators_sees_them(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module, x = dt.GRU(INPUT, HIDDEN).requires_grad_(False), torch.randn(STEPS, BATCH, INPUT)
    state = torch.zeros(1, BATCH, HIDDEN)  # given, since PyTorch imports much to make zeros in a mode
    module(x, state)

    def seen(*_: Any) -> Any:
        raise _SeenError

    monkeypatch.setattr(function, "network_op", seen)
    module(x, state)
    with FOLLOWED[what](), pytest.raises(_SeenError):
        module(x, state)
    module(x, state)


@pytest.mark.parametrize("what", [what for what in FOLLOWED if what != "a mode of functions"])  # which PyTorch leaves within backward
def test_what_follows_operators_sees_gradients(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module, x = dt.GRU(INPUT, HIDDEN), torch.randn(STEPS, BATCH, INPUT)
    state, upstream = torch.zeros(1, BATCH, HIDDEN), torch.ones(STEPS, BATCH, HIDDEN)
    module(x, state)

    def seen(*_: Any) -> Any:
        raise _SeenError

    monkeypatch.setattr(function, "gradient_op", seen)
    torch.autograd.backward(module(x, state)[0], upstream)
    output = module(x, state)[0]
    with FOLLOWED[what](), pytest.raises(_SeenError):
        torch.autograd.backward(output, upstream)


def test_only_what_needs_gradients_has_them_and_vmap_goes_through_the_dispatcher(dispatched: list[Any]) -> None:
    module, x = dt.GRU(INPUT, HIDDEN), torch.randn(STEPS, BATCH, INPUT)
    with torch.no_grad():
        for _ in range(2):
            expected = module(x)[0]
    assert module(x)[0].requires_grad
    module.requires_grad_(False)
    assert module(x.detach().requires_grad_())[0].requires_grad
    state = torch.zeros(1, BATCH, HIDDEN)
    for given in (state, state, state.clone().requires_grad_()):
        assert module(x, given)[0].requires_grad == given.requires_grad
    before = len(dispatched)
    mapped = torch.func.vmap(lambda each: module(each)[0])(torch.stack([x, x]))
    assert len(dispatched) == before + 1
    assert torch.equal(mapped[1], expected)


@torch.no_grad()
def test_parameters_may_be_replaced() -> None:
    module, x = dt.GRU(INPUT, HIDDEN, bias=False), torch.randn(STEPS, BATCH, INPUT)
    other = dt.GRU(INPUT, HIDDEN, bias=False)
    (_, own), (_, expected) = [[each(x)[0] for _ in range(2)] for each in (module, other)]
    substituted = torch.func.functional_call(module, {"params": other.params}, (x,))[0]
    assert torch.equal(substituted, expected)
    assert torch.equal(module(x)[0], own)
    module.load_state_dict(other.state_dict(), assign=True)
    assert torch.equal(module(x)[0], expected)
    module.half()
    assert torch.allclose(module(x.half())[0].float(), expected, atol=1e-2)
    with pytest.raises(dml.DescError, match="float32"):
        module(x)


@torch.no_grad()
@pytest.mark.parametrize(
    "substitute",
    [lambda params: torch._neg_view(-params), lambda params: torch._efficientzerotensor(params.shape), torch.clone],
    ids=["negated when it is read", "zeros without memory", "a copy"],
)
def test_substitutes_without_plain_elements_are_read_as_pytorch_reads_them(substitute: Callable[[torch.Tensor], torch.Tensor]) -> None:
    module, x = dt.GRU(INPUT, HIDDEN), torch.randn(STEPS, BATCH, INPUT)
    params = substitute(module.params.detach())
    expected = torch.func.functional_call(module, {"params": params + 0}, (x,))
    for _ in range(2):
        found = torch.func.functional_call(module, {"params": params}, (x,))
        assert all(map(torch.equal, found, expected))


@torch.no_grad()
@pytest.mark.parametrize("copied", [copy.deepcopy, lambda module: pickle.loads(pickle.dumps(module))], ids=["copy", "pickle"])
def test_what_is_known_stays_with_a_module(copied: Any) -> None:
    module, x = dt.LSTM(INPUT, HIDDEN), torch.randn(STEPS, BATCH, INPUT)
    expected = [module(x)[0] for _ in range(2)][1]
    made = copied(module)
    assert module._direct
    assert not made._direct
    assert torch.equal(made(x)[0], expected)
    state = module.__getstate__()
    del state["_direct"]  # that of a pickle from before there were direct calls
    made.__setstate__(state)
    assert torch.equal(made(x)[0], expected)


@torch.no_grad()
def test_calls_of_many_sizes_are_not_all_known() -> None:
    module = dt.RNN(INPUT, HIDDEN)
    for steps in range(1, 5):
        module(torch.randn(steps, 0, INPUT))
    assert set(module._direct.values()) == {None}, "nothing runs without samples"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(modules, "_MOST_DIRECT", 4)
        for steps in range(1, 8):
            module(torch.randn(steps, BATCH, INPUT))
            assert len(module._direct) <= 4
