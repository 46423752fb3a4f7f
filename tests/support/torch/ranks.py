"""dmlpy.torch's modules on two processes that talk by gloo: `python -m tests.support.torch.ranks RANK FOLDER` is one of them.

Each check compares with one process's results on the joined batch. `RANKS` has the rows of the table of dmlpy/torch/README.md.
"""

from __future__ import annotations

import json
import sys
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import dmlpy as dml
import dmlpy.torch as dt
from tests.support.tolerance import assert_close

WORLD = 2
STEPS, BATCH, INPUT, HIDDEN = 5, 4, 4, 6
TERMS = 256

Check = Callable[[int, Path], None]
RANKS: dict[str, tuple[str, Check]] = {}
"""What was tried, by the name in the table: the outcome in the table, and its check, for a rank and a folder."""


def tried(name: str, outcome: str) -> Callable[[Check], Check]:
    def take(check: Check) -> Check:
        RANKS[name] = outcome, check
        return check

    return take


class Tagger(nn.Module):
    """A model around a module of dmlpy's."""

    def __init__(self, **more: Any) -> None:
        super().__init__()
        self.rnn: Any = dt.LSTM(INPUT, HIDDEN, bidirectional=True, **more)
        self.head = nn.Linear(2 * HIDDEN, 2)

    def forward(self, x: Any) -> torch.Tensor:
        output, _ = self.rnn(x)
        return self.head(output.data if isinstance(output, nn.utils.rnn.PackedSequence) else output)


def model(**more: Any) -> Tagger:
    torch.manual_seed(1)
    return Tagger(**more)


def joined() -> torch.Tensor:
    """The batch of all ranks."""
    torch.manual_seed(2)
    return torch.randn(STEPS, WORLD * BATCH, INPUT)


def own(x: torch.Tensor, rank: int) -> torch.Tensor:
    return x[:, rank * BATCH : (rank + 1) * BATCH]


def same(found: torch.Tensor, expected: torch.Tensor, what: str) -> None:
    assert_close(found.detach().numpy(), expected.detach().double().numpy(), "float32", terms=TERMS, what=what)


def expected_step(x: torch.Tensor, **more: Any) -> tuple[Tagger, torch.optim.Optimizer]:
    """One process's step on the joined batch."""
    alone = model(**more)
    descent = torch.optim.Adam(alone.parameters(), 0.01)
    alone(x).square().mean().backward()
    descent.step()
    return alone, descent


def check_parameters(found: dict[str, torch.Tensor], expected: nn.Module) -> None:
    for name, parameter in expected.named_parameters():
        same(found[name], parameter, name)


@tried("`DistributedDataParallel`", "works: gradients of the joined batch, with `no_sync` and packed sequences too")
def parallel(rank: int, folder: Path) -> None:
    for more in ({}, {"bias": False}, {"num_layers": 2}):
        ddp = nn.parallel.DistributedDataParallel(model(**more))
        x = joined()
        ddp(own(x, rank)).square().mean().backward()
        alone, _ = expected_step(x, **more)
        for (name, parameter), other in zip(ddp.module.named_parameters(), alone.parameters(), strict=True):
            same(gradient_of(parameter), gradient_of(other), name)
    once = gradient_of(ddp.module.rnn.params).clone()
    ddp.zero_grad()
    with ddp.no_sync():
        ddp(own(x, rank)).square().mean().backward()
    ddp(own(x, rank)).square().mean().backward()
    same(gradient_of(ddp.module.rnn.params), 2 * once, "the sum of two steps")
    lengths = torch.tensor([5, 4, 3, 2])
    ddp.zero_grad()
    ddp(nn.utils.rnn.pack_padded_sequence(own(x, rank), lengths)).square().sum().backward()
    alone = model(num_layers=2)
    alone(nn.utils.rnn.pack_padded_sequence(x, lengths.repeat(WORLD), enforce_sorted=False)).square().sum().backward()
    same(WORLD * gradient_of(ddp.module.rnn.params), gradient_of(alone.rnn.params), "ragged")


def gradient_of(tensor: Any) -> torch.Tensor:
    assert tensor.grad is not None
    return tensor.grad


@tried("`DistributedDataParallel` of a compiled model", "works")
def compiled(rank: int, folder: Path) -> None:
    ddp = nn.parallel.DistributedDataParallel(model())
    call: Any = torch.compile(ddp, backend="aot_eager")
    x = joined()
    call(own(x, rank)).square().mean().backward()
    alone, _ = expected_step(x)
    same(gradient_of(ddp.module.rnn.params), gradient_of(alone.rnn.params), "params")


@tried("`ZeroRedundancyOptimizer`", "works")
def zero(rank: int, folder: Path) -> None:
    from torch.distributed.optim import ZeroRedundancyOptimizer

    ddp = nn.parallel.DistributedDataParallel(model())
    descent = ZeroRedundancyOptimizer(ddp.parameters(), torch.optim.Adam, lr=0.01)
    x = joined()
    ddp(own(x, rank)).square().mean().backward()
    descent.step()
    check_parameters(dict(ddp.module.named_parameters()), expected_step(x)[0])


def sharded(**more: Any) -> Any:
    from torch.distributed.fsdp import fully_shard

    whole: Any = model(**more)
    fully_shard(whole.rnn)
    fully_shard(whole)
    return whole


def full(whole: Any) -> dict[str, torch.Tensor]:
    return {name: parameter.full_tensor() for name, parameter in whole.named_parameters()}


@tried("FSDP2, `fully_shard`", "works, Adam's state sharded; a module's `state_dict` then has the one sharded entry `params`")
def shard(rank: int, folder: Path) -> None:
    for more in ({}, {"bias": False}):
        whole = sharded(**more)
        descent = torch.optim.Adam(whole.parameters(), 0.01)
        x = joined()
        whole(own(x, rank)).square().mean().backward()
        alone, _ = expected_step(x, **more)
        same(whole.rnn.params.grad.full_tensor(), gradient_of(alone.rnn.params), "gradient")
        descent.step()
        check_parameters(full(whole), alone)
        assert list(whole.state_dict()) == ["rnn.params", "head.weight", "head.bias"]
        entry = whole.state_dict()["rnn.params"]
        assert entry.to_local().numel() < entry.numel() == alone.rnn.params.numel()
        other = sharded(**more)
        other.load_state_dict(whole.state_dict())
        same(other(own(x, rank)), alone(own(x, rank)), "loaded")


@tried("full `state_dict` of a sharded model", "loads into a module that is not sharded, and the other way round")
def full_state(rank: int, folder: Path) -> None:
    from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict, set_model_state_dict

    whole = sharded(bias=False)
    entries: Any = get_model_state_dict(whole, options=StateDictOptions(full_state_dict=True))
    plain = Tagger(bias=False)
    plain.load_state_dict(entries)
    x = joined()
    same(plain(x), model(bias=False)(x), "gathered")
    assert "rnn.weight_ih_l0" in plain.state_dict()
    changed: Any = {name: 2 * tensor for name, tensor in entries.items()}
    set_model_state_dict(whole, changed, options=StateDictOptions(full_state_dict=True))
    same(whole.rnn.params.full_tensor(), 2 * plain.rnn.params, "scattered")


@tried("`torch.distributed.checkpoint`", "works, sharded, with the optimizer's state")
def stored(rank: int, folder: Path) -> None:
    from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
    from torch.distributed.checkpoint.state_dict_loader import load
    from torch.distributed.checkpoint.state_dict_saver import save

    whole = sharded()
    descent = torch.optim.Adam(whole.parameters(), 0.01)
    x = joined()

    def step(whole: Any, descent: Any) -> None:
        descent.zero_grad()
        whole(own(x, rank)).square().mean().backward()
        descent.step()

    step(whole, descent)
    entries, moments = get_state_dict(whole, descent)
    save({"model": entries, "optimizer": moments}, checkpoint_id=folder / "checkpoint")
    step(whole, descent)
    other = sharded()
    torch.manual_seed(5)
    other_descent = torch.optim.Adam(other.parameters(), 0.01)
    entries, moments = get_state_dict(other, other_descent)
    load({"model": entries, "optimizer": moments}, checkpoint_id=folder / "checkpoint")
    set_state_dict(other, other_descent, model_state_dict=entries, optim_state_dict=moments)
    step(other, other_descent)
    for name, tensor in full(other).items():
        assert torch.equal(tensor, full(whole)[name]), name


@tried("`fully_shard` of a module on `meta`", "works: `to_empty`, then `reset_parameters`")
def deferred(rank: int, folder: Path) -> None:
    from torch.distributed.fsdp import fully_shard

    module: Any = dt.GRU(INPUT, HIDDEN, bias=False, device="meta")
    fully_shard(module)
    module.to_empty(device="cpu")
    torch.manual_seed(9)
    module.reset_parameters()
    torch.manual_seed(9)
    assert torch.equal(module.params.full_tensor(), dt.GRU(INPUT, HIDDEN, bias=False).params)
    module(own(joined(), rank))[0].sum().backward()
    assert module.params.grad.full_tensor().isfinite().all()


@tried("`MixedPrecisionPolicy`", "float16 and bfloat16 work")
def mixed(rank: int, folder: Path) -> None:
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    x = own(joined(), rank)
    for dtype in (torch.float16, torch.bfloat16):
        module: Any = dt.GRU(INPUT, HIDDEN)
        fully_shard(module, mp_policy=MixedPrecisionPolicy(param_dtype=dtype, reduce_dtype=torch.float32))
        output = module(x)[0]
        assert output.dtype is dtype
        output.float().sum().backward()
        assert module.params.grad.dtype is torch.float32


@tried("DTensor as input, views of a sharded parameter", "`DescError` says how to gather it")
def refused(rank: int, folder: Path) -> None:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Shard, distribute_tensor

    x = distribute_tensor(joined(), init_device_mesh("cpu", (WORLD,)), [Shard(1)])
    whole = sharded().rnn
    with pytest.raises(dml.DescError, match=r"input is a DTensor \[5, 8, 4\](.|\n)*full_tensor\(\)"):
        dt.LSTM(INPUT, HIDDEN)(x)
    for call in (lambda: whole.views(whole.params), lambda: whole.weight_hh_l0):
        with pytest.raises(dml.DescError, match=r"flat is a DTensor(.|\n)*module\.views\(module\.params\.full_tensor\(\)\)"):
            call()


def main(rank: int, folder: Path) -> None:
    """Runs all checks in the same order in each process; writes what went wrong, by name."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", init_method=f"file://{folder / 'store'}", rank=rank, world_size=WORLD)
    failures = {}
    for name, (_, check) in RANKS.items():
        try:
            check(rank, folder)
        except Exception:
            failures[name] = traceback.format_exc()
            break  # the other process may wait for this one within the check
    (folder / f"{rank}.json").write_text(json.dumps(failures), encoding="utf-8")
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]))
