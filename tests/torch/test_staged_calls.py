"""Calls whose tensors are copied into memory that is bound once: the same bits, memory of the caller's own, parameters read in place."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from dmlpy import nn
from dmlpy.nn import idle_pool
from tests.support.tools import require
from tests.support.torch.pointers import Spy

require("torch")

import torch

import dmlpy.torch as dt
from dmlpy.torch import calls, operators

STEPS, BATCH, INPUT, HIDDEN = 4, 3, 5, 6

CASES: dict[str, tuple[Any, dict[str, Any]]] = {
    "LSTM": (dt.LSTM, {}),
    "batch first": (dt.LSTM, {"batch_first": True}),
    "projected, 2 layers": (dt.LSTM, {"proj_size": 3, "num_layers": 2}),
    "GRU without biases": (dt.GRU, {"bias": False}),
    "bidirectional": (dt.GRU, {"bidirectional": True}),
    "relu": (dt.RNN, {"nonlinearity": "relu"}),
    "float16": (dt.RNN, {"dtype": torch.float16}),
    "bfloat16": (dt.GRU, {"dtype": torch.bfloat16}),
    "dropout": (dt.LSTM, {"dropout": 0.5, "num_layers": 2}),
}
INPUTS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "packed": lambda x: x,
    "exchanged axes": lambda x: x.transpose(0, 2).contiguous().transpose(0, 2),
    "every other entry": lambda x: torch.stack([x, x], -1)[..., 0],
    "repeated": lambda x: x[:, :1].expand(x.shape),
}


@pytest.fixture(autouse=True)
def _anew() -> None:
    nn.free_buffers()


def passed(module: Any, x: torch.Tensor) -> list[torch.Tensor]:
    """Results and gradients."""
    torch.manual_seed(3)
    x = x.detach().requires_grad_()
    output, last = module(x)
    states = last if isinstance(last, tuple) else (last,)
    loss = sum((part.float() ** 2).sum() for part in (output, *states))
    return [output, *states, *torch.autograd.grad(loss, (x, module.params))]


@pytest.mark.parametrize("form", INPUTS)
@pytest.mark.parametrize("case", CASES)
def test_bits_strides_and_memory_are_those_of_tensors_in_place(case: str, form: str, request: pytest.FixtureRequest) -> None:
    kind, options = CASES[case]
    module = kind(INPUT, HIDDEN, **options)
    first, second = (INPUTS[form](torch.randn(STEPS, BATCH, INPUT, dtype=module.params.dtype)) for _ in range(2))
    found = passed(module, first)
    kept = [part.detach().clone() for part in found]
    again = passed(module, second)
    request.getfixturevalue("in_place")
    for expected, staged, copies in ((passed(module, first), found, kept), (passed(module, second), again, again)):
        for own, part, copied in zip(expected, staged, copies, strict=True):
            assert torch.equal(own, part)
            assert own.stride() == part.stride()
            assert torch.equal(part, copied), "the next call has written into the results of this one"


def test_tensors_of_all_strides_share_a_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps of sequences of several lengths have several strides: compiling for each takes a hundred times as long as a call."""
    compiled: list[Any] = []

    def noted(desc: Any, device: Any) -> Any:
        compiled.append(desc)
        return dml.compile(desc, device)

    operators._network_call.cache_clear()
    operators._gradient_call.cache_clear()
    monkeypatch.setattr(operators, "compile_operator", noted)
    module = dt.LSTM(INPUT, HIDDEN, batch_first=True)
    for steps in range(STEPS + 1, STEPS + 6):
        x = torch.randn(BATCH, steps, INPUT, requires_grad=True)
        passed(module, x[:, 1 : STEPS + 1])
        passed(module, x[:, 1 : STEPS + 1].contiguous())
        with torch.no_grad():
            module(x[:, 1 : STEPS + 1])
        if steps == STEPS + 1:
            before = len(compiled)
    assert 0 < len(compiled) == before
    assert len(idle_pool.IDLE._idle) == 3, "training, its gradient, and inference"


@pytest.mark.parametrize("lengths", [[4, 0, 2], [1, 4, 4]])
def test_lengths_are_read_and_refused(lengths: list[int]) -> None:
    module, x, states = dt.GRU(INPUT, HIDDEN), torch.randn(STEPS, BATCH, INPUT), torch.randn(1, BATCH, HIDDEN)

    def run(lengths: list[int]) -> torch.Tensor:
        return dt.cudnn_rnn(x, states, None, module.params, torch.tensor(lengths), rnn_mode="gru")[0]

    whole, found = run([STEPS] * BATCH), run(lengths)
    with pytest.raises(Exception, match="sequence_lengths"):
        run([*lengths[:-1], STEPS + 1])
    assert torch.equal(run(lengths), found)
    for sample, length in enumerate(lengths):
        assert torch.equal(found[:length, sample], whole[:length, sample])
        assert not found[length:, sample].any()


def test_parameters_are_read_where_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    modules, x, bound = [dt.RNN(INPUT, HIDDEN) for _ in range(calls._MOST_PARAMS + 2)], torch.randn(STEPS, BATCH, INPUT), Spy(monkeypatch)
    with torch.no_grad():
        for module in [*modules, modules[0], modules[-1]]:
            found = module(x)[0]
            module.params.data.mul_(2)  # which PyTorch does not count as a change
            assert not torch.equal(module(x)[0], found)
            module.params.data.mul_(0.5)
            assert torch.equal(module(x)[0], found)
        assert bound.pointers["params"] == modules[0].params.data_ptr(), "the last one is still bound"
    (((stage, _),),) = idle_pool.IDLE._idle.values()
    assert len(stage._dispatches) == calls._MOST_PARAMS


@pytest.mark.parametrize("case", CASES)
def test_parameters_that_stay_the_same_are_packed_once(case: str, request: pytest.FixtureRequest) -> None:
    kind, options = CASES[case]
    module = kind(INPUT, HIDDEN, **options).eval().requires_grad_(False)
    given = [torch.randn(STEPS, BATCH, INPUT, dtype=module.params.dtype) for _ in range(3)]
    found, before = [module(x)[0] for x in given], module.params.clone()
    module.params.data[0] += 0.5
    found += [module(x)[0] for x in given]
    (((stage, _),),) = idle_pool.IDLE._idle.values()
    # The second layer packs in the same scratch, and NumPy runs layers of BFLOAT16.
    assert (stage._reusing is not None) == (module.num_layers == 1 and case != "bfloat16")
    if stage._reusing is not None:
        (bound,) = stage._dispatches.values()
        bound.packs = lambda: pytest.fail("they are packed again")
        assert torch.equal(module(given[0])[0], found[3])
        changed = module.params.clone()
        module.params.data[-1] += 1
        with pytest.raises(pytest.fail.Exception, match="packed again"):
            module(given[0])
        module.params.data.copy_(changed)
    request.getfixturevalue("in_place")
    for at, x in enumerate(given):
        assert torch.equal(module(x)[0], found[3 + at])
    module.params.data.copy_(before)
    for at, x in enumerate(given):
        assert torch.equal(module(x)[0], found[at])


def test_bound_dispatches_count_as_idle_memory() -> None:
    modules, x, found = [dt.RNN(INPUT, HIDDEN) for _ in range(calls._MOST_PARAMS + 2)], torch.randn(STEPS, BATCH, INPUT), []
    with torch.no_grad():
        for module in modules:
            for _ in range(2):
                module(x)
            found.append(nn.idle_bytes())
    both = 2 * idle_pool.DISPATCH_BYTES
    assert found[0] > both
    assert np.diff(found).tolist() == [both] * (calls._MOST_PARAMS - 1) + [0] * 2


def test_inference_mode_comes_first() -> None:
    module, x = dt.GRU(INPUT, HIDDEN), torch.randn(STEPS, BATCH, INPUT)
    with torch.inference_mode():
        inferred = module(x)[0]
    with torch.no_grad():
        assert torch.equal(module(x)[0], inferred)
    assert torch.equal(module(x)[0], inferred)


def test_threads_have_memory_of_their_own() -> None:
    module = dt.LSTM(INPUT, HIDDEN)
    given = [torch.randn(STEPS, BATCH, INPUT) for _ in range(4)]
    expected = [passed(module, x) for x in given]

    def run(at: int) -> bool:
        x = given[at % 4].detach().requires_grad_()
        output, (h, c) = module(x)
        (gradient,) = torch.autograd.grad((output**2).sum() + (h**2).sum() + (c**2).sum(), x)
        return torch.equal(output, expected[at % 4][0]) and torch.equal(gradient, expected[at % 4][3])

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(run, range(40)))


def test_idle_memory_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    module = dt.RNN(INPUT, HIDDEN)
    with torch.no_grad():
        module(torch.randn(STEPS, BATCH, INPUT))
        one = nn.idle_bytes()
        assert one > 0
        monkeypatch.setattr(idle_pool, "MOST_IDLE_BYTES", 3 * one)
        for steps in range(STEPS, STEPS + 8):
            module(torch.randn(steps, BATCH, INPUT))
            assert nn.idle_bytes() <= 3 * one


@pytest.mark.parametrize(("most", "kind"), [(1 << 30, "StagedCall"), (0, "OperatorCall")])
def test_large_tensors_are_bound_where_they_are(most: int, kind: str, in_place: None, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []
    monkeypatch.setattr(calls, "_MOST_STAGED_BYTES", most)
    original = operators._network_call.__wrapped__

    def noted(*arguments: Any) -> Any:
        made.append(type(found := original(*arguments)).__name__)
        return found

    monkeypatch.setattr(operators, "_network_call", noted)
    with torch.no_grad():
        dt.RNN(INPUT, HIDDEN)(torch.randn(STEPS, BATCH, INPUT))
    assert set(made) == {kind}
