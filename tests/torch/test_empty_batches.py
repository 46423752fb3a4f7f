"""Batches of no samples, as the last one of a data set may be: results and gradients have PyTorch's sizes, and nothing runs."""

from __future__ import annotations

from typing import Any

import pytest

import dmlpy as dml

torch: Any = pytest.importorskip("torch")

from torch import nn

import dmlpy.torch as dt

STEPS, SIZE, UNITS = 4, 3, 5


def listed(found: tuple[Any, Any]) -> list[torch.Tensor]:
    output, last = found
    return [output, *(last if isinstance(last, tuple) else (last,))]


@pytest.mark.parametrize("with_states", [False, True])
@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("options", [{}, {"num_layers": 2, "bidirectional": True, "dropout": 0.3}, {"bias": False}], ids=str)
@pytest.mark.parametrize("kind", ["RNN", "GRU", "LSTM"])
def test_results_and_gradients_have_the_sizes_of_pytorch(kind: str, options: dict[str, Any], batch_first: bool, with_states: bool) -> None:
    theirs = getattr(nn, kind)(SIZE, UNITS, batch_first=batch_first, **options)
    mine = getattr(dt, kind).from_torch(theirs)
    directions = options.get("num_layers", 1) * (2 if options.get("bidirectional") else 1)
    found = []
    for module in (theirs, mine):
        x = torch.zeros((0, STEPS, SIZE) if batch_first else (STEPS, 0, SIZE), requires_grad=True)
        states = [torch.zeros(directions, 0, UNITS, requires_grad=True) for _ in range(2 if kind == "LSTM" else 1)]
        given = (tuple(states) if kind == "LSTM" else states[0]) if with_states else None
        results = listed(module(x, given))
        sum(result.sum() for result in results).backward()
        leaves = [x, *(states if with_states else [])]
        found.append(([result.shape for result in results], [result.dtype for result in results], [leaf.grad.shape for leaf in leaves]))
    assert found[0] == found[1]
    assert mine.params.grad.shape == mine.params.shape
    assert not mine.params.grad.any()


def test_a_projection_and_evaluation() -> None:
    module = dt.LSTM(SIZE, UNITS, proj_size=2).eval()
    with torch.no_grad():
        output, (h, c) = module(torch.zeros(STEPS, 0, SIZE))
    assert (output.shape, h.shape, c.shape) == ((STEPS, 0, 2), (1, 0, 2), (1, 0, UNITS))


def test_autocast_and_the_function_below() -> None:
    module = dt.GRU(SIZE, UNITS)
    with torch.autocast("cpu", torch.bfloat16):
        output, _ = module(torch.zeros(STEPS, 0, SIZE))
    assert (output.dtype, output.shape) == (torch.bfloat16, (STEPS, 0, UNITS))
    lengths = torch.zeros(0, dtype=torch.int64)
    found = dt.cudnn_rnn(
        torch.zeros(STEPS, 0, SIZE), torch.zeros(1, 0, UNITS), None, module.params, sequence_lengths=lengths, rnn_mode="gru"
    )
    assert found[0].shape == (STEPS, 0, UNITS)


def test_a_training_step_changes_nothing() -> None:
    module = dt.LSTM(SIZE, UNITS)
    before, optimizer = module.params.detach().clone(), torch.optim.SGD(module.parameters(), 0.1)
    module(torch.zeros(STEPS, 0, SIZE))[0].sum().backward()
    optimizer.step()
    assert torch.equal(module.params, before)


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize(
    ("sizes", "batch_first", "place"), [((0, 2, SIZE), False, 0), ((2, 0, SIZE), True, 1), ((0, SIZE), True, 0), ((0, 0, SIZE), True, 1)]
)
@pytest.mark.parametrize("kind", ["RNN", "GRU", "LSTM"])
def test_a_sequence_without_steps_is_refused_as_in_pytorch(
    kind: str, sizes: tuple[int, ...], batch_first: bool, place: int, training: bool
) -> None:
    theirs = getattr(nn, kind)(SIZE, UNITS, batch_first=batch_first).train(training)
    with pytest.raises(RuntimeError, match="sequence length to be larger than 0"):
        theirs(torch.zeros(sizes))
    module = getattr(dt, kind).from_torch(theirs)
    with pytest.raises(dml.DescError, match=rf"input\.shape\[{place}\] is 0, expected a sequence of at least one step") as caught:
        module(torch.zeros(sizes))
    assert len(caught.value.problems) == 1


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"params": torch.zeros(11)}, r"params\.sizes\[0\] is 11, expected params_size"),
        ({"input": torch.zeros(0, 0, SIZE)}, r"input\.sizes\[0\] is 0"),
        ({"input_h": torch.zeros(1, 2, UNITS)}, r"input\.sizes\[1\] is 0"),
        ({"rnn_mode": "lstm"}, "input_c"),
    ],
)
def test_what_is_wrong_is_refused_all_the_same(changed: dict[str, Any], message: str) -> None:
    own = {"input": torch.zeros(STEPS, 0, SIZE), "input_h": torch.zeros(1, 0, UNITS), "input_c": None, "rnn_mode": "gru"}
    with pytest.raises((dml.CompileError, dml.DescError), match=message):
        dt.cudnn_rnn(**own | {"params": dt.GRU(SIZE, UNITS).params.detach()} | changed)
