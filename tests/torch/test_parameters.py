"""dmlpy.torch's modules as torch.nn's: construction, parameters, state_dict, copies."""

from __future__ import annotations

import copy
import io
import pickle
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import dmlpy as dml
from tests.support.tools import require
from tests.support.torch.pointers import Spy

require("torch")

import torch
from torch import nn

import dmlpy.torch as dt

pytestmark = pytest.mark.filterwarnings("ignore:LSTM with projections is not supported with oneDNN")

STEPS, BATCH, INPUT, HIDDEN = 5, 3, 4, 6


@pytest.fixture(autouse=True)
def _repeatable() -> Iterator[None]:
    """The same random numbers for each test; one thread, since for tensors this small more would only wait for each other."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    yield
    torch.set_num_threads(threads)


ARGUMENTS: list[tuple[Any, Any, dict[str, Any]]] = [
    (dt.RNN, nn.RNN, {"nonlinearity": "relu"}),
    (dt.RNN, nn.RNN, {"bidirectional": True, "bias": False}),
    (dt.GRU, nn.GRU, {"num_layers": 3, "batch_first": True, "dropout": 0.25}),
    (dt.LSTM, nn.LSTM, {"num_layers": 2, "bidirectional": True, "proj_size": 2}),
    (dt.LSTM, nn.LSTM, {"bias": False, "proj_size": 2, "dtype": torch.float16}),
]


@pytest.mark.parametrize(("kind", "theirs", "more"), ARGUMENTS, ids=str)
def test_construction_is_that_of_torch(kind: Any, theirs: Any, more: dict[str, Any]) -> None:
    modules = []
    for one in (kind, theirs):
        torch.manual_seed(7)
        modules.append((one(INPUT, HIDDEN, **more), torch.rand(())))
    (own, after), (other, other_after) = modules
    assert repr(own) == repr(other)
    assert list(own.state_dict()) == list(other.state_dict())
    for name, tensor in other.state_dict().items():
        assert torch.equal(own.state_dict()[name], tensor), name
        assert torch.equal(getattr(own, name), tensor), name
    assert torch.equal(after, other_after), "as many random numbers were drawn"
    assert [[part.shape for part in parts] for parts in own.all_weights] == [[part.shape for part in parts] for parts in other.all_weights]
    assert [name for name, _ in own.named_parameters()] == ["params"]
    assert own.params.numel() == sum(parameter.numel() for parameter in other.parameters())
    own.flatten_parameters()


def test_positional_arguments_are_those_of_torch() -> None:
    assert repr(dt.RNN(3, 4, 2, "relu", False, True, 0.5, True)) == repr(nn.RNN(3, 4, 2, "relu", False, True, 0.5, True))
    assert repr(dt.GRU(3, 4, 2, False, True, 0.5, True)) == repr(nn.GRU(3, 4, 2, False, True, 0.5, True))
    assert repr(dt.LSTM(3, 4, 2, False, True, 0.5, True, 2)) == repr(nn.LSTM(3, 4, 2, False, True, 0.5, True, 2))


def test_parts_are_views_of_the_parameter() -> None:
    module = dt.LSTM(INPUT, HIDDEN, num_layers=2)
    block = next(block for block in module.layout.blocks() if block.name == "bias_hh_l1")
    where = slice(block.offset, block.offset + block.size)
    nn.init.constant_(module.bias_hh_l1, 3.0)
    assert (module.params[where] == 3).all()
    with torch.no_grad():
        module.bias_hh_l1[1] = 5
    assert module.params[block.offset + 1] == 5
    module.bias_hh_l1 = nn.Parameter(torch.full((4 * HIDDEN,), 2.0))
    assert (module.params[where] == 2).all()
    assert [name for name, _ in module.named_parameters()] == ["params"]
    module.bias_hh_l1.square().sum().backward()
    gradient = module.params.grad
    assert gradient is not None
    assert (gradient[where] == 4).all()
    assert gradient.count_nonzero() == block.size
    assert "bias_hh_l1" in dir(module)
    assert not hasattr(module, "bias_hh_l2")
    with pytest.raises(dml.DescError, match=r"bias_hh_l1 is .*expected a tensor \[24\]"):
        module.bias_hh_l1 = torch.zeros(3)
    with pytest.raises(dml.DescError, match="bias_hh_l1 is None"):
        module.bias_hh_l1 = None


@pytest.mark.parametrize("prefix", ["", "encoder.rnn."])
@pytest.mark.parametrize("bias", [True, False], ids=["biases", "no biases"])
def test_state_dict_goes_both_ways(bias: bool, prefix: str) -> None:
    own, theirs = dt.LSTM(INPUT, HIDDEN, 2, bias=bias, proj_size=2), nn.LSTM(INPUT, HIDDEN, 2, bias=bias, proj_size=2)
    models: list[nn.Module] = [own, theirs]
    if prefix:
        models = [nn.ModuleDict({"encoder": nn.ModuleDict({"rnn": module}), "head": nn.Linear(2, 2)}) for module in (own, theirs)]
    file = io.BytesIO()
    torch.save(models[0].state_dict(), file)
    file.seek(0)
    models[1].load_state_dict(torch.load(file))
    expected = theirs(torch.ones(STEPS, BATCH, INPUT))[0]
    torch.testing.assert_close(own(torch.ones(STEPS, BATCH, INPUT))[0], expected)
    own.reset_parameters()
    parameter = own.params
    models[0].load_state_dict(models[1].state_dict())
    assert own.params is parameter
    assert all(torch.equal(tensor, theirs.state_dict()[name]) for name, tensor in own.state_dict().items())


def damaged(state: dict[str, Any]) -> dict[str, Any]:
    state = dict(state)
    del state["weight_hh_l0"]
    state["bias_ih_l0"] = torch.zeros(2)
    return state | {"weight_ih_l1": torch.zeros(2), "params": torch.zeros(3)}


def test_a_state_dict_that_does_not_fit_is_refused_as_torch_does() -> None:
    own: Any
    theirs: Any
    own, theirs = dt.GRU(INPUT, HIDDEN), nn.GRU(INPUT, HIDDEN)
    messages = []
    for module in (own, theirs):
        before = module.weight_hh_l0.detach().clone()
        with pytest.raises(RuntimeError) as error:
            module.load_state_dict(damaged(theirs.state_dict()))
        messages.append(sorted(str(error.value).splitlines()[1:]))
        assert torch.equal(module.weight_hh_l0, before)
    for line, reference in zip(*messages, strict=True):
        assert sorted(line) == sorted(reference), "the same keys, in any order"
    fitting = {name: tensor for name, tensor in damaged(theirs.state_dict()).items() if name != "bias_ih_l0"}
    results = [module.load_state_dict(fitting, strict=False) for module in (own, theirs)]
    for attribute in ("missing_keys", "unexpected_keys"):
        assert sorted(getattr(results[0], attribute)) == sorted(getattr(results[1], attribute))
    with pytest.raises(RuntimeError, match="bias_ih_l0 is a str, expected a tensor"):
        own.load_state_dict(theirs.state_dict() | {"bias_ih_l0": "zeros"})


@pytest.mark.parametrize("bias", [True, False], ids=["biases", "no biases"])
def test_a_module_without_memory_takes_over_a_state_dict(bias: bool) -> None:
    own, theirs = dt.LSTM(INPUT, HIDDEN, bias=bias, device="meta"), nn.LSTM(INPUT, HIDDEN, bias=bias)
    own.load_state_dict(theirs.state_dict(), assign=True)
    x = torch.randn(STEPS, BATCH, INPUT)
    torch.testing.assert_close(own(x)[0], theirs(x)[0])
    own.load_state_dict(theirs.half().state_dict(), assign=True)
    assert own(x.half())[0].dtype is torch.float16


COPIES: dict[str, Callable[[Any], Any]] = {
    "deepcopy": copy.deepcopy,
    "pickle": lambda module: pickle.loads(pickle.dumps(module)),
    "to": lambda module: module.to(torch.float16).to(torch.float32),
    "half": lambda module: module.half().float(),
    "shared": lambda module: module.share_memory(),
    "to_torch": lambda module: type(module).from_torch(module.to_torch()),
}


@pytest.mark.parametrize("bias", [True, False], ids=["biases", "no biases"])
@pytest.mark.parametrize("way", COPIES)
def test_copies(way: str, bias: bool, in_place: None, monkeypatch: pytest.MonkeyPatch) -> None:
    module, x = dt.LSTM(INPUT, HIDDEN, num_layers=2, dropout=0.5, bias=bias).half().float(), torch.randn(STEPS, BATCH, INPUT)
    module.eval()
    expected = module(x)[0]
    other = COPIES[way](module)
    assert not other.training
    spy = Spy(monkeypatch)
    assert torch.equal(other(x)[0], expected)
    assert spy.pointers["params"] == other.params.data_ptr(), "the parameter itself is read"
    with torch.no_grad():
        other.weight_hh_l1.zero_()
    assert not torch.equal(other(x)[0], expected)
    assert torch.equal(module(x)[0], expected) == (other is not module)


def test_a_replaced_parameter_without_biases() -> None:
    """What lies behind a tensor that replaces the parameter is not its zero biases."""
    module, x = dt.GRU(INPUT, HIDDEN, bias=False), torch.randn(STEPS, BATCH, INPUT)
    longer = torch.ones(2 * module.layout.size)
    replacement = longer[: module.params.numel()].copy_(module.params.detach()).requires_grad_()
    output = torch.func.functional_call(module, {"params": replacement}, (x,))[0]
    torch.testing.assert_close(output, module(x)[0], rtol=0, atol=0)
    output.sum().backward()
    module(x)[0].sum().backward()
    torch.testing.assert_close(replacement.grad, module.params.grad)
    module.params.data = replacement.detach()
    torch.testing.assert_close(module(x)[0], output, rtol=0, atol=0)


def test_from_torch_preserves_the_module_s_options() -> None:
    theirs: Any = nn.LSTM(INPUT, HIDDEN, 2, batch_first=True, dropout=0.5, proj_size=2, dtype=torch.float16).eval().requires_grad_(False)
    drawn = torch.random.get_rng_state()
    own: Any = dt.LSTM.from_torch(theirs)
    back: Any = own.to_torch()
    assert torch.equal(torch.random.get_rng_state(), drawn), "nothing was drawn"
    assert type(back) is nn.LSTM
    assert repr(own) == repr(theirs) == repr(back)
    assert (own.training, own.params.requires_grad, own.params.dtype) == (False, False, torch.float16)
    assert (back.training, back.weight_hh_l0.requires_grad, back.weight_hh_l0.dtype) == (False, False, torch.float16)
    assert torch.equal(back.weight_hr_l1, theirs.weight_hr_l1)
    with torch.no_grad():
        theirs.weight_hr_l1.zero_()
    assert torch.count_nonzero(own.weight_hr_l1), "a copy"
    assert torch.count_nonzero(back.weight_hr_l1), "a copy"
    with pytest.raises(dml.DescError, match=r"module is LSTM.*expected a torch\.nn\.GRU"):
        dt.GRU.from_torch(theirs)
    theirs.weight_hh_l0.requires_grad_()
    with pytest.raises(dml.DescError, match="frozen in part"):
        dt.LSTM.from_torch(theirs)
    with pytest.raises(dml.DescError, match=r"torch\.float64"):
        dt.GRU.from_torch(nn.GRU(2, 3, dtype=torch.float64))
