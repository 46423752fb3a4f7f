"""What PyTorch does with modules from outside, tried on those of dmlpy.torch in one process: each either works or ends in a clear error.

`TRIED` has the rows of the table of dmlpy/torch/README.md; `tests/support/torch/ranks.py` has those of several processes.
"""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.utils import parametrizations, parametrize
from torch.utils.checkpoint import checkpoint

import dmlpy as dml
import dmlpy.torch as dt
from tests.support.tolerance import assert_close, tolerance

STEPS, BATCH, INPUT, HIDDEN = 5, 3, 4, 6
TERMS = 128

TRIED: dict[str, tuple[str, Callable[[], None]]] = {}
"""What was tried, by the name in the table: the outcome in the table, and its check."""


def tried(name: str, outcome: str) -> Callable[[Callable[[], None]], Callable[[], None]]:
    def take(check: Callable[[], None]) -> Callable[[], None]:
        TRIED[name] = outcome, check
        return check

    return take


def given() -> torch.Tensor:
    return torch.randn(STEPS, BATCH, INPUT)


def gradient(module: Any, call: Callable[..., Any], x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The output's and the parameter's gradient of one call."""
    module.zero_grad()
    output = call(x)[0]
    output.square().sum().backward()
    return output.detach(), module.params.grad.clone()


@tried("`torch.compile`", "works with `fullgraph=True`: the network is one operator in the graph, sizes may be symbols")
def compile_whole() -> None:
    module = dt.LSTM(INPUT, HIDDEN, num_layers=2, bias=False, batch_first=True)
    compiled: Any = torch.compile(module, fullgraph=True, backend="aot_eager", dynamic=True)
    for batch in (BATCH, BATCH + 2):
        x = torch.randn(batch, STEPS, INPUT)
        for found, expected in zip(gradient(module, compiled, x), gradient(module, module, x), strict=True):
            assert torch.equal(found, expected)
    with torch.no_grad():
        assert torch.equal(compiled(x)[0], module(x)[0])


@tried("`torch.export`", "works: the program holds `torch.ops.dmlpy.cudnn_rnn`, and importing `dmlpy.torch` is all that it needs to run")
def export() -> None:
    module: Any = dt.LSTM(INPUT, HIDDEN, num_layers=2, bidirectional=True)
    program = torch.export.export(module.eval(), (given(),), dynamic_shapes=({1: torch.export.Dim("batch")},))
    assert "dmlpy.cudnn_rnn" in str(program.graph)
    x = torch.randn(STEPS, BATCH + 4, INPUT)
    assert torch.equal(program.module()(x)[0], module(x)[0])


@tried("`torch.onnx.export`", "PyTorch names the operator that it has no ONNX form of; export `module.to_torch()`")
def export_onnx() -> None:
    module: Any = nn.Sequential(dt.LSTM(INPUT, HIDDEN))
    program = torch.export.export(module.eval(), (given(),))
    with pytest.raises(Exception, match=r"dmlpy\.cudnn_rnn"):
        torch.onnx.export(program, dynamo=True, verbose=False)


@tried("`torch.library.opcheck`", "passes: schema, fake tensors and autograd agree")
def opcheck() -> None:
    layout = dt.LSTM(INPUT, HIDDEN, num_layers=2).layout
    states = torch.randn(2, 2, BATCH, HIDDEN)
    tensors = (given(), states[0], states[1], torch.randn(layout.size), torch.tensor([1, 5, 2], dtype=torch.int32))
    network = ("lstm", "linear_input", "unidirectional", 0.5, 0)
    arguments: tuple[Any, ...]
    for training in (False, True):
        arguments = (*tensors, torch.tensor([3]), *network, 0, True, training)
        torch.library.opcheck(torch.ops.dmlpy.cudnn_rnn.default, arguments, test_utils=("test_schema", "test_faketensor"))
    output, h, c, reserve = torch.ops.dmlpy.cudnn_rnn.default(*arguments)
    arguments = (*tensors, torch.ones_like(output), torch.ones_like(h), torch.ones_like(c), reserve, *network, [True, False, True, True])
    torch.library.opcheck(torch.ops.dmlpy.cudnn_rnn_backprop.default, arguments, test_utils=("test_schema", "test_faketensor"))


@tried("`torch.autocast`, float16", "works: computed in float16 as on a GPU, gradients in the parameter's type")
def autocast_float16() -> None:
    check_autocast(torch.float16, tolerance(np.float16))


@tried("`torch.autocast`, bfloat16", "works: input and results are bfloat16, the network runs in float32")
def autocast_bfloat16() -> None:
    check_autocast(torch.bfloat16, 2**-7)  # what is left of the results after they are rounded to bfloat16


def check_autocast(dtype: torch.dtype, allowed: float) -> None:
    for bias in (True, False):
        first = nn.Linear(INPUT, INPUT)
        module: Any = dt.LSTM(INPUT, HIDDEN, bias=bias)
        x = given()
        states = (torch.randn(1, BATCH, HIDDEN), torch.randn(1, BATCH, HIDDEN))
        with torch.autocast("cpu", dtype):
            output, (h, c) = module(first(x), states)
            packed, _ = module(nn.utils.rnn.pack_padded_sequence(first(x), torch.tensor([5, 3, 2])))
            function = dt.cudnn_rnn(x, *(state.bfloat16() for state in states), dt.LSTM(INPUT, HIDDEN).params)
        assert {output.dtype, h.dtype, c.dtype, packed.data.dtype, function[0].dtype} == {dtype}
        (output.sum() + c.sum()).backward()
        reduced = [module.params.grad.clone(), gradient_of(first.weight)]
        assert [tensor.dtype for tensor in reduced] == [torch.float32] * 2
        module.zero_grad()
        first.zero_grad()
        full, (_, cell) = module(first(x), states)
        (full.sum() + cell.sum()).backward()
        for found, expected in zip([output, *reduced], [full, module.params.grad, gradient_of(first.weight)], strict=True):
            assert (found.float() - expected).norm() <= 2 * allowed * expected.norm()
        with torch.autocast("cpu", dtype), pytest.raises(dml.DescError, match=r"input is torch\.float64"):
            module(x.double())


def gradient_of(tensor: Any) -> torch.Tensor:
    assert tensor.grad is not None
    return tensor.grad.clone()


@tried("`torch.amp.GradScaler`", "works: a step whose gradients overflow is left out")
def grad_scaler() -> None:
    module: Any = dt.GRU(INPUT, HIDDEN)
    before = module.params.detach().clone()
    descent = torch.optim.SGD(module.parameters(), 0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**40)
    updated = []
    for _ in range(40):
        with torch.autocast("cpu", torch.float16):
            loss = module(given())[0].square().sum()
        descent.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(descent)
        scaler.update()
        updated.append(not torch.equal(module.params, before))
    assert updated[0] is False, "the first step's gradients are infinite in float16"
    assert updated[-1] is True
    assert module.params.isfinite().all()


@tried("`torch.utils.checkpoint`", "works, also non-reentrant: the second run has the dropout masks of the first")
def checkpointed() -> None:
    module: Any = dt.LSTM(INPUT, HIDDEN, num_layers=2, dropout=0.5)
    x = given().requires_grad_()
    found = []
    for call in (module, *(lambda x, way=way: checkpoint(module, x, use_reentrant=way) for way in (True, False))):
        torch.manual_seed(3)
        found.append(gradient(module, call, x))
    for one in found[1:]:
        assert all(map(torch.equal, one, found[0]))


@tried("`torch.func.grad`, `vjp`, `jacrev`", "work")
def func_grad() -> None:
    module: Any = dt.LSTM(INPUT, HIDDEN, bias=False)
    x = given()
    expected = torch.autograd.functional.jacobian(lambda x: module(x)[0], x)
    assert torch.equal(torch.func.jacrev(lambda x: module(x)[0])(x), expected)
    whole = torch.func.grad(lambda x: module(x)[0].sum())(x)
    torch.testing.assert_close(whole, expected.sum((0, 1, 2)))
    params = {"params": module.params.detach()}
    by_params = torch.func.grad(lambda params: torch.func.functional_call(module, params, (x,))[0].square().sum())(params)["params"]
    assert torch.equal(by_params, gradient(module, module, x)[1])


@tried("`torch.vmap`", "works, also over parameters and over `grad`: one call of the operator for each entry")
def vmap() -> None:
    module: Any = dt.GRU(INPUT, HIDDEN, bias=False)
    x, ensemble = torch.randn(2, STEPS, BATCH, INPUT), torch.randn(2, module.params.numel())

    def call(params: torch.Tensor, x: torch.Tensor) -> Any:
        return torch.func.functional_call(module, {"params": params}, (x,))[0]

    assert torch.equal(torch.vmap(call)(ensemble, x), torch.stack([call(params, one) for params, one in zip(ensemble, x, strict=True)]))
    assert torch.equal(torch.vmap(lambda x: module(x)[0], in_dims=1)(x.transpose(0, 1)), torch.stack([module(one)[0] for one in x]))
    slope = torch.func.grad(lambda params, x: call(params, x).square().sum())
    each = torch.vmap(slope, in_dims=(None, 0))(ensemble[0], x)
    torch.testing.assert_close(each, torch.stack([slope(ensemble[0], one) for one in x]), rtol=0, atol=0)


@tried("`torch.func.jvp`, `jacfwd`, dual numbers", "`DerivativeError`: there is no derivative in forward mode")
def forward_mode() -> None:
    module: Any = dt.GRU(INPUT, HIDDEN)
    x = given()
    calls: list[Callable[[], object]] = [
        lambda: torch.func.jvp(lambda x: module(x)[0], (x,), (x,)),
        lambda: torch.func.jacfwd(lambda x: module(x)[0])(x),
        lambda: dual(module, x),
    ]
    for differentiate in calls:
        with pytest.raises(dt.DerivativeError, match=r"in forward mode(.|\n)*torch\.func\.jacrev"):
            differentiate()


def dual(module: Any, x: torch.Tensor) -> None:
    with torch.autograd.forward_ad.dual_level(), torch.no_grad():
        module(torch.autograd.forward_ad.make_dual(x, torch.ones_like(x)))


@tried("gradients of gradients", "`DerivativeError`: there is no second derivative; `module.to_torch()` has one on the CPU")
def second() -> None:
    module: Any = dt.LSTM(INPUT, HIDDEN)
    x = given().requires_grad_()

    def total(x: torch.Tensor) -> torch.Tensor:
        summed: torch.Tensor = module(x)[0].sum()
        return summed

    with pytest.raises(dt.DerivativeError, match="in forward mode"):
        torch.func.hessian(total)(x)
    with pytest.raises(dt.DerivativeError, match=r"cannot be differentiated again(.|\n)*to_torch"):
        torch.func.jacrev(torch.func.grad(total))(x)
    (slope,) = torch.autograd.grad(module(x)[0].sum(), x, create_graph=True)
    with pytest.raises(dt.DerivativeError, match="cannot be differentiated again"):
        slope.square().sum().backward()


@tried("`deepcopy`, `pickle`, `torch.save`", "work; a copy has memory of its own")
def copies() -> None:
    module: Any = nn.Sequential(dt.LSTM(INPUT, HIDDEN, bias=False))
    x = given()
    for other in (copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
        assert torch.equal(other(x)[0], module(x)[0])
        with torch.no_grad():
            other[0].weight_hh_l0.zero_()
        assert not torch.equal(other(x)[0], module(x)[0])


@tried("hooks of modules and tensors", "work: before and after calls, of gradients, and after a gradient is added up")
def hooks() -> None:
    module: Any = dt.GRU(INPUT, HIDDEN)
    seen: list[str] = []
    module.register_forward_pre_hook(lambda *_: seen.append("before"))
    module.register_forward_hook(lambda *_: seen.append("after"))
    module.register_full_backward_hook(lambda *_: seen.append("backward"))
    module.params.register_hook(lambda slope: (seen.append("gradient"), 2 * slope)[1])  # type: ignore[func-returns-value]
    module.params.register_post_accumulate_grad_hook(lambda _: seen.append("added"))
    x = given().requires_grad_()
    doubled = gradient(module, module, x)[1]
    assert sorted(seen) == ["added", "after", "backward", "before", "gradient"]
    plain: Any = dt.GRU(INPUT, HIDDEN)
    plain.load_state_dict(module.state_dict())
    assert torch.equal(doubled, 2 * gradient(plain, plain, x)[1])


class _Halved(nn.Module):
    def forward(self, tensor: torch.Tensor) -> torch.Tensor:
        return tensor / 2


@tried("`parametrize`", "works on `params`; PyTorch refuses the views `weight_ih_l0` ..., which are not parameters")
def parametrized() -> None:
    module: Any = dt.LSTM(INPUT, HIDDEN, bias=False)
    x, whole = given(), module.params.detach().clone()
    parametrize.register_parametrization(module, "params", _Halved())
    halved: Any = dt.LSTM(INPUT, HIDDEN, bias=False)
    with torch.no_grad():
        halved.params.copy_(whole / 2)
    assert torch.equal(module(x)[0], halved(x)[0])
    module(x)[0].sum().backward()
    halved(x)[0].sum().backward()
    assert torch.equal(module.parametrizations.params.original.grad, halved.params.grad / 2)
    with pytest.raises(ValueError, match="does not have a parameter"):
        parametrizations.weight_norm(halved, "weight_hh_l0")


@tried("`torch.jit.trace`", "works in evaluation; PyTorch has replaced it by `torch.export`")
def traced() -> None:
    module: Any = dt.GRU(INPUT, HIDDEN).eval().requires_grad_(False)
    script: Any = torch.jit.trace(module, (given(),), check_trace=False)
    x = given()
    assert torch.equal(script(x)[0], module(x)[0])


@tried("`torch.jit.script`", "PyTorch refuses it; use `torch.compile` or `torch.export`")
def scripted() -> None:
    with pytest.raises((ValueError, RuntimeError)):
        torch.jit.script(dt.GRU(INPUT, HIDDEN))


@tried("weight averages, `torch.optim.swa_utils`", "work")
def averaged() -> None:
    module: Any = dt.GRU(INPUT, HIDDEN, bias=False)
    mean: Any = torch.optim.swa_utils.AveragedModel(module)
    first = module.params.detach().clone()
    mean.update_parameters(module)
    with torch.no_grad():
        module.params.mul_(3)
    mean.update_parameters(module)
    x = given()
    expected: Any = dt.GRU(INPUT, HIDDEN, bias=False)
    with torch.no_grad():
        expected.params.copy_(2 * first)
    assert_close(mean(x)[0].detach(), expected(x)[0].detach().double(), np.float32, terms=TERMS)
