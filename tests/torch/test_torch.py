"""dmlpy.torch's results and gradients against torch.nn's in float64 on the CPU; memory, autograd, dropout, and the function itself."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from dmlpy.operators.recurrent.params import ParamsLayout
from tests.support.tolerance import assert_close
from tests.support.tools import require
from tests.support.torch.pointers import Spy

require("torch")

import torch
from torch import nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence
from torch.utils.checkpoint import checkpoint

import dmlpy.torch as dt
from dmlpy.torch import calls

pytestmark = pytest.mark.filterwarnings("ignore:LSTM with projections is not supported with oneDNN")

STEPS, BATCH, INPUT, HIDDEN = 5, 3, 4, 6
LENGTHS = (2, 5, 3)
TERMS = 128
"""Sums over steps, samples and layers: what the policy allows to those."""

CELLS: dict[str, Callable[..., Any]] = {
    "tanh": lambda **more: dt.RNN(INPUT, HIDDEN, **more),
    "relu": lambda **more: dt.RNN(INPUT, HIDDEN, nonlinearity="relu", **more),
    "GRU": lambda **more: dt.GRU(INPUT, HIDDEN, **more),
    "LSTM": lambda **more: dt.LSTM(INPUT, HIDDEN, **more),
    "projected LSTM": lambda **more: dt.LSTM(INPUT, HIDDEN, proj_size=HIDDEN - 1, **more),
}
FORMS = ("time first", "batch first", "one sample", "packed", "packed unsorted", "packed batch first")
DEVICES = ["cpu", pytest.param("cuda", marks=[pytest.mark.gpu, pytest.mark.cupy])]


@pytest.fixture(params=DEVICES)
def torch_device(request: pytest.FixtureRequest) -> str:
    """Where the tensors lie."""
    if request.param == "cuda" and not torch.cuda.is_available():
        pytest.skip("PyTorch sees no GPU")
    return str(request.param)


@pytest.fixture(autouse=True)
def _repeatable() -> Iterator[None]:
    """The same random numbers for each test; one thread, since for tensors this small more would only wait for each other."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    yield
    torch.set_num_threads(threads)


def gradient_of(tensor: Any) -> torch.Tensor:
    """The gradient that a backward pass left with a tensor."""
    gradient = tensor.grad
    assert isinstance(gradient, torch.Tensor)
    return gradient


def inputs_of(module: Any, form: str, *, states: bool, dtype: torch.dtype = torch.float32) -> tuple[Any, Any, list[torch.Tensor]]:
    """Input and hx in one of the forms, and the leaves that they are made of."""
    place = module.params.device
    batch = () if form == "one sample" else (BATCH,)
    directions = module.num_layers * (2 if module.bidirectional else 1)
    sizes = (BATCH, STEPS, INPUT) if module.batch_first and "packed" not in form else (STEPS, *batch, INPUT)
    leaf = torch.randn(sizes, device=place).to(dtype).requires_grad_()
    leaves = [leaf]
    hx: Any = None
    if states:
        hx = torch.randn(directions, *batch, module.proj_size or HIDDEN, device=place).to(dtype).requires_grad_()
        leaves.append(hx)
        if module.mode == "LSTM":
            leaves.append(torch.randn(directions, *batch, HIDDEN, device=place).to(dtype).requires_grad_())
            hx = (leaves[1], leaves[2])
    return formed(leaf, form), hx, leaves


def formed(leaf: torch.Tensor, form: str) -> Any:
    if "packed" not in form:
        return leaf
    lengths = torch.tensor(LENGTHS if form == "packed unsorted" else sorted(LENGTHS, reverse=True))
    return pack_padded_sequence(leaf, lengths, enforce_sorted=form != "packed unsorted")


def flat(results: tuple[Any, Any]) -> list[torch.Tensor]:
    """All tensors of a module's results; a packed output also has its order."""
    output, last = results
    states = [*last] if isinstance(last, tuple) else [last]
    if not isinstance(output, PackedSequence):
        return [output, *states]
    lengths = pad_packed_sequence(output)[1]
    return [output.data, *states, lengths.to(output.data)]


def check_against_torch(module: Any, form: str, *, states: bool, dtype: torch.dtype = torch.float32) -> None:
    """Outputs and all gradients under random upstream gradients."""
    kind = np.float16 if dtype is torch.float16 else np.float32
    given, hx, leaves = inputs_of(module, form, states=states, dtype=dtype)
    theirs = module.to_torch().to("cpu", torch.float64)
    exact = [leaf.detach().to("cpu", torch.float64).requires_grad_() for leaf in leaves]
    their_hx = None if not states else (exact[1], exact[2]) if module.mode == "LSTM" else exact[1]
    found, expected = flat(module(given, hx)), flat(theirs(formed(exact[0], form), their_hx))
    assert len(found) == len(expected)
    upstream = [torch.randn(tensor.shape).to(dtype) for tensor in found]
    for number, (own, reference) in enumerate(zip(found, expected, strict=True)):
        assert own.dtype == dtype
        assert own.device.type == leaves[0].device.type
        assert_close(own.detach().cpu(), reference.detach(), kind, terms=TERMS, what=f"result {number}")
    differentiable = [index for index, tensor in enumerate(expected) if tensor.requires_grad]
    torch.autograd.backward(
        [found[index] for index in differentiable], [upstream[index].to(module.params.device) for index in differentiable]
    )
    torch.autograd.backward([expected[index] for index in differentiable], [upstream[index].double() for index in differentiable])
    for number, (own, reference) in enumerate(zip(leaves, exact, strict=True)):
        assert_close(gradient_of(own).cpu(), reference.grad, kind, terms=TERMS, what=f"gradient of leaf {number}")
    gradients = dict(theirs.named_parameters())
    parts = module.views(module.params.grad)
    assert list(parts) == list(gradients)
    for name, part in parts.items():
        assert_close(part.cpu(), gradients[name].grad, kind, terms=TERMS, what=f"gradient of {name}")


@pytest.mark.pairwise
@pytest.mark.parametrize("states", [False, True], ids=["from zero", "with states"])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("bias", [True, False], ids=["biases", "no biases"])
@pytest.mark.parametrize(("layers", "both"), [(1, False), (1, True), (2, True), (3, False)])
@pytest.mark.parametrize("cell", CELLS)
def test_results_and_gradients_are_those_of_torch(
    cell: str, layers: int, both: bool, bias: bool, form: str, states: bool, torch_device: str
) -> None:
    module = CELLS[cell](num_layers=layers, bidirectional=both, bias=bias, batch_first="batch first" in form, device=torch_device)
    check_against_torch(module, form, states=states)


@pytest.mark.parametrize("form", ["batch first", "packed unsorted"])
@pytest.mark.parametrize("cell", CELLS)
def test_float16(cell: str, form: str, torch_device: str) -> None:
    module = CELLS[cell](bidirectional=True, batch_first="batch first" in form, device=torch_device, dtype=torch.float16)
    check_against_torch(module, form, states=True, dtype=torch.float16)


STRIDED: dict[str, Callable[[], torch.Tensor]] = {
    "every second entry": lambda: torch.randn(STEPS, BATCH, 2 * INPUT)[:, :, ::2],
    "entries first": lambda: torch.randn(INPUT, STEPS, BATCH).permute(1, 2, 0),
    "one sample for all": lambda: torch.randn(STEPS, 1, INPUT).expand(STEPS, BATCH, INPUT),
    "one step for all": lambda: torch.randn(1, BATCH, INPUT).expand(STEPS, BATCH, INPUT),
    "overlapping windows": lambda: torch.randn(STEPS + INPUT, BATCH).unfold(0, INPUT, 1)[:STEPS],
}


@pytest.mark.parametrize("layout", STRIDED)
def test_strided_inputs(layout: str, torch_device: str) -> None:
    module = dt.LSTM(INPUT, HIDDEN, device=torch_device)
    strided = STRIDED[layout]().to(torch_device)
    packed = strided.contiguous()
    results = [module(tensor.requires_grad_()) for tensor in (strided, packed)]
    torch.testing.assert_close(results[0], results[1], rtol=0, atol=0)
    for output, _ in results:
        output.sin().sum().backward()
    torch.testing.assert_close(strided.grad, packed.grad, rtol=0, atol=0)


def test_strided_states_and_upstream_gradients(torch_device: str) -> None:
    module = dt.GRU(INPUT, HIDDEN, num_layers=2, device=torch_device)
    x = torch.randn(STEPS, BATCH, INPUT, device=torch_device)
    strided = torch.randn(BATCH, 2, HIDDEN, device=torch_device).transpose(0, 1)
    upstream = [
        torch.randn((), device=torch_device).expand(STEPS, BATCH, HIDDEN),
        torch.randn(STEPS, 1, HIDDEN, device=torch_device).expand(STEPS, BATCH, HIDDEN),
        torch.randn(HIDDEN, BATCH, STEPS, device=torch_device).permute(2, 1, 0),
    ]
    for gradient in upstream:
        found = []
        for given, state in ((gradient, strided), (gradient.contiguous(), strided.contiguous())):
            module.params.grad = None
            h = state.clone(memory_format=torch.preserve_format).requires_grad_()
            module(x, h)[0].backward(given)
            found.append((h.grad, gradient_of(module.params).clone()))
        torch.testing.assert_close(found[0], found[1], rtol=0, atol=0)


def test_a_result_that_is_not_used_has_no_gradient() -> None:
    """Each result alone, so that upstream gradients are absent in turn."""
    module = dt.LSTM(INPUT, HIDDEN)
    theirs = module.to_torch().double()
    for index in range(3):
        x = torch.randn(STEPS, BATCH, INPUT, requires_grad=True)
        exact = x.detach().double().requires_grad_()
        (own,) = torch.autograd.grad(flat(module(x))[index].square().sum(), x)
        (reference,) = torch.autograd.grad(flat(theirs(exact))[index].square().sum(), exact)
        assert_close(own, reference, np.float32, terms=TERMS)


# memory


@pytest.mark.parametrize("bias", [True, False], ids=["biases", "no biases"])
def test_nothing_is_copied(bias: bool, torch_device: str, in_place: None, monkeypatch: pytest.MonkeyPatch) -> None:
    module = dt.LSTM(INPUT, HIDDEN, bias=bias, batch_first=True, device=torch_device)
    x = torch.randn(BATCH, STEPS, INPUT, device=torch_device, requires_grad=True)
    h, c = (torch.randn(1, BATCH, HIDDEN, device=torch_device) for _ in range(2))
    spy = Spy(monkeypatch)
    output, (h_n, c_n) = module(x, (h, c))
    named = {"input": x, "input_h": h, "input_c": c, "params": module.params, "output": output, "output_h": h_n, "output_c": c_n}
    assert spy.pointers == {name: tensor.data_ptr() for name, tensor in named.items()} | {"reserve_space": spy.pointers["reserve_space"]}
    assert output.is_contiguous()
    reserve = spy.pointers["reserve_space"]
    upstream = torch.randn_like(output)
    output.backward(upstream)
    gradients = {"output_backprop": upstream, "input_backprop": gradient_of(x), "params_backprop": gradient_of(module.params)}
    for name, tensor in gradients.items():
        assert spy.pointers[name] == tensor.data_ptr(), name
    assert spy.pointers["reserve_space"] == reserve


def test_later_calls_build_no_descs(monkeypatch: pytest.MonkeyPatch) -> None:
    module = dt.GRU(INPUT, HIDDEN)

    def step() -> None:
        module(torch.randn(STEPS, BATCH, INPUT))[0].sum().backward()

    step()

    def refuse(self: Any, **members: Any) -> None:
        raise AssertionError(f"{type(self).__name__} is built again")

    monkeypatch.setattr(dml.OperatorDesc, "__init__", refuse)
    monkeypatch.setattr(dml.TensorDesc, "__init__", refuse)
    step()
    with pytest.raises(AssertionError, match="is built again"):
        module(torch.randn(STEPS + 1, BATCH, INPUT))


def test_a_reserve_only_where_gradients_can_be_asked_for(in_place: None, monkeypatch: pytest.MonkeyPatch) -> None:
    module, x = dt.LSTM(INPUT, HIDDEN), torch.randn(STEPS, BATCH, INPUT)
    spy = Spy(monkeypatch)
    expected = module(x)[0]
    assert "reserve_space" in spy.pointers
    frozen = copy.deepcopy(module).requires_grad_(False)
    for call in (lambda: torch.no_grad()(module)(x), lambda: torch.inference_mode()(module)(x), lambda: frozen(x)):
        spy.pointers.clear()
        output = call()[0]
        assert "output" in spy.pointers
        assert "reserve_space" not in spy.pointers
        assert not output.requires_grad
        assert torch.equal(output, expected)
    spy.pointers.clear()
    module.eval()(x)[0].sum().backward()
    assert "reserve_space" in spy.pointers
    assert module.params.grad is not None


@pytest.mark.parametrize("wanted", [("input",), ("params",), ("input_h", "input_c"), ("input", "input_h", "params")], ids="+".join)
def test_only_the_gradients_that_are_needed(wanted: tuple[str, ...], in_place: None, monkeypatch: pytest.MonkeyPatch) -> None:
    module = dt.LSTM(INPUT, HIDDEN, bias=False)
    directions = torch.randn(2, 1, BATCH, HIDDEN)
    tensors = {"input": torch.randn(STEPS, BATCH, INPUT), "input_h": directions[0], "input_c": directions[1], "params": module.params}
    whole = {name: tensor.detach().clone().requires_grad_() for name, tensor in tensors.items() if name != "params"}
    module(whole["input"], (whole["input_h"], whole["input_c"]))[0].sum().backward()
    whole["params"] = copy.deepcopy(module.params)
    whole["params"].grad, module.params.grad = module.params.grad, None
    for name, tensor in tensors.items():
        tensor.requires_grad_(name in wanted)
    spy = Spy(monkeypatch)
    output = module(tensors["input"], (tensors["input_h"], tensors["input_c"]))[0]
    spy.pointers.clear()
    output.sum().backward()
    assert {name for name in spy.pointers if name.endswith("_backprop")} == {"output_backprop", *(f"{name}_backprop" for name in wanted)}
    for name, tensor in tensors.items():
        if name in wanted:
            assert torch.equal(tensor.grad, whole[name].grad)
        else:
            assert tensor.grad is None


# autograd


@pytest.mark.parametrize("upstream", ["constant", "with a gradient"])
def test_the_gradient_of_the_gradient_is_refused(upstream: str) -> None:
    x = torch.randn(STEPS, BATCH, INPUT, requires_grad=True)
    output = dt.GRU(INPUT, HIDDEN)(x)[0]
    loss = output.sum() if upstream == "constant" else output.square().sum()
    (plain,) = torch.autograd.grad(loss, x, retain_graph=True)
    (gradient,) = torch.autograd.grad(loss, x, create_graph=True)
    assert torch.equal(gradient, plain)
    with pytest.raises(RuntimeError, match="cannot be differentiated again"):
        gradient.square().sum().backward()


def test_a_graph_is_used_once_unless_it_is_retained() -> None:
    module, x = dt.LSTM(INPUT, HIDDEN), torch.randn(STEPS, BATCH, INPUT, requires_grad=True)
    loss = module(x)[0].sum()
    loss.backward(retain_graph=True)
    first = gradient_of(x).clone()
    loss.backward()
    torch.testing.assert_close(x.grad, 2 * first, rtol=0, atol=0)
    with pytest.raises(RuntimeError, match="second time"):
        loss.backward()


@pytest.mark.parametrize("bias", [True, False], ids=["biases", "no biases"])
def test_hooks_may_save_copies_of_tensors(bias: bool) -> None:
    """As torch.autograd.graph.save_on_cpu and offloading do: what lies behind such a copy is not the parameter's zero biases."""

    def copied(tensor: torch.Tensor) -> torch.Tensor:
        longer = torch.full((2 * tensor.numel(),), torch.nan, dtype=tensor.dtype)
        return longer[: tensor.numel()].view(tensor.shape).copy_(tensor)

    module, x = dt.GRU(INPUT, HIDDEN, bias=bias), torch.randn(STEPS, BATCH, INPUT, requires_grad=True)
    expected = torch.autograd.grad(module(x)[0].square().sum(), (x, module.params))
    with torch.autograd.graph.saved_tensors_hooks(copied, lambda tensor: tensor):
        output = module(x)[0]
    for own, reference in zip(torch.autograd.grad(output.square().sum(), (x, module.params)), expected, strict=True):
        assert torch.equal(own, reference)


@pytest.mark.parametrize("bias", [True, False], ids=["biases", "no biases"])
@pytest.mark.parametrize("changed", ["input", "state", "params", "weight_hh_l0"])
def test_what_is_changed_before_the_gradient_is_found(changed: str, bias: bool) -> None:
    module = dt.GRU(INPUT, HIDDEN, bias=bias)
    tensors = {"input": torch.randn(STEPS, BATCH, INPUT), "state": torch.randn(1, BATCH, HIDDEN)}
    output, _ = module(tensors["input"], tensors["state"])
    with torch.no_grad():
        (tensors[changed] if changed in tensors else getattr(module, changed)).add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        output.sum().backward()


@pytest.mark.parametrize("bias", [True, False], ids=["biases", "no biases"])
@pytest.mark.parametrize(
    "optimizer",
    [lambda parameters: torch.optim.SGD(parameters, 0.5, 0.9), lambda parameters: torch.optim.Adam(parameters, 0.02)],
    ids=["SGD", "Adam"],
)
def test_training_goes_as_with_torch(optimizer: Callable[..., Any], bias: bool) -> None:
    own: nn.Module = nn.Sequential(dt.LSTM(INPUT, HIDDEN, num_layers=2, bias=bias), _First(), nn.Linear(HIDDEN, 2))
    theirs = nn.Sequential(nn.LSTM(INPUT, HIDDEN, num_layers=2, bias=bias), _First(), nn.Linear(HIDDEN, 2))
    theirs.load_state_dict(own.state_dict())
    data = torch.randn(STEPS, BATCH, INPUT)
    target = data.cumsum(0)[:, :, :2].tanh()
    curves = []
    for model in (own, theirs):
        descent, losses = optimizer(model.parameters()), []
        for _ in range(20):
            descent.zero_grad()
            loss = nn.functional.mse_loss(model(data), target)
            loss.backward()
            descent.step()
            losses.append(loss.item())
        curves.append(losses)
    assert curves[0][-1] < 0.9 * curves[0][0]
    np.testing.assert_allclose(curves[0], curves[1], rtol=1e-4)


class _First(nn.Module):
    def forward(self, results: tuple[torch.Tensor, Any]) -> torch.Tensor:
        return results[0]


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor")  # torch.compile looks at every tensor's
@pytest.mark.filterwarnings("ignore:.*should not be instantiated")
def test_a_compiled_model_calls_the_module_as_it_is() -> None:
    model: Any = nn.Sequential(nn.Linear(INPUT, INPUT), dt.GRU(INPUT, HIDDEN, num_layers=2, dropout=0.5))
    x = torch.randn(STEPS, BATCH, INPUT)
    found = []
    for call in (model, torch.compile(model, backend="eager")):
        torch.manual_seed(1)
        model.zero_grad()
        output = call(x)[0]
        output.square().sum().backward()
        found.append((output.detach(), gradient_of(model[1].params).clone(), gradient_of(model[0].weight).clone()))
    torch.testing.assert_close(found[1], found[0])


# dropout


def identity(share: float) -> Any:
    """Two layers whose output is their positive input, so that it shows the mask between them."""
    module = dt.RNN(64, 64, num_layers=2, nonlinearity="relu", dropout=share, bias=False)
    for name, part in module.views(module.params.detach()).items():
        part.copy_(torch.eye(64) if "ih" in name else torch.zeros(64, 64))
    return module


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_dropout_scales_what_it_keeps(share: float) -> None:
    module, x = identity(share), torch.rand(40, 10, 64).add_(0.5).requires_grad_()
    output = module(x)[0]
    ratio = (output / x).detach()
    kept = ratio > 0
    torch.testing.assert_close(ratio[kept], torch.full_like(ratio[kept], 1 / (1 - share)))
    # The share of 25600 independent draws: within five standard deviations.
    assert abs(kept.double().mean().item() - (1 - share)) < 5 * (share * (1 - share) / kept.numel()) ** 0.5
    output.sum().backward()
    torch.testing.assert_close(x.grad, ratio)  # the gradient has the same mask


def test_masks_differ_and_repeat_with_the_generator() -> None:
    module, x = identity(0.5), torch.ones(STEPS, BATCH, 64)
    torch.manual_seed(0)
    first, second = module(x)[0], module(x)[0]
    assert not torch.equal(first, second)
    torch.manual_seed(0)
    assert torch.equal(module(x)[0], first)
    assert torch.equal(copy.deepcopy(module)(x)[0], second)
    with torch.no_grad():
        torch.manual_seed(0)
        assert torch.equal(module(x)[0], first)
    drawn = torch.random.get_rng_state()
    assert torch.equal(module.eval()(x)[0], x)
    assert torch.equal(torch.random.get_rng_state(), drawn), "evaluation draws nothing"


def test_a_checkpoint_has_the_masks_of_the_first_run() -> None:
    module, x = identity(0.5), torch.rand(STEPS, BATCH, 64).requires_grad_()
    gradients = []
    for segment in (module, lambda given: checkpoint(module, given, use_reentrant=False)):
        torch.manual_seed(3)
        (gradient,) = torch.autograd.grad(segment(x)[0].square().sum(), x)
        gradients.append(gradient)
    assert torch.equal(*gradients)


def test_dropout_with_one_layer_warns() -> None:
    with pytest.warns(UserWarning, match="acts between layers") as warned:
        module = dt.GRU(INPUT, HIDDEN, dropout=0.5)
    assert warned[0].filename == __file__
    x = torch.randn(STEPS, BATCH, INPUT)
    assert torch.equal(module(x)[0], module(x)[0])


# the function


def network(mode: str, **more: Any) -> tuple[ParamsLayout, torch.Tensor]:
    layout = ParamsLayout.of(2, HIDDEN, INPUT, rnn_mode=mode, **more)
    return layout, (torch.rand(layout.size) - 0.5).requires_grad_()


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64, torch.uint8])
def test_lengths(dtype: torch.dtype) -> None:
    """A sample of no steps keeps its state; others end where they end."""
    layout, params = network("gru", direction="bidirectional")
    x, h = torch.randn(STEPS, BATCH, INPUT), torch.randn(4, BATCH, HIDDEN)
    lengths = torch.tensor([0, STEPS, 2], dtype=dtype)
    output, output_h, none = dt.cudnn_rnn(x, h, None, params, lengths, rnn_mode="gru", direction="bidirectional")
    assert none is None
    assert torch.equal(output_h[:, 0], h[:, 0])
    assert not output[:, 0].any()
    assert not output[2:, 2].any()
    theirs = nn.GRU(INPUT, HIDDEN, 2, bidirectional=True)
    theirs.load_state_dict({block.name: block.view(params.detach()) for block in layout.blocks()})
    for sample, length in ((1, STEPS), (2, 2)):
        expected, last = theirs(x[:length, sample], h[:, sample])
        torch.testing.assert_close(output[:length, sample], expected)
        torch.testing.assert_close(output_h[:, sample], last)


def test_an_input_without_matrices() -> None:
    layout = ParamsLayout.of(1, HIDDEN, HIDDEN, rnn_mode="rnn_tanh", input_mode="skip_input")
    params, x = torch.randn(layout.size), torch.randn(STEPS, BATCH, HIDDEN)
    output, _, _ = dt.cudnn_rnn(x, torch.zeros(1, BATCH, HIDDEN), None, params, rnn_mode="rnn_tanh", input_mode="skip_input")
    parts = {block.name: block.view(params) for block in layout.blocks()} | {"weight_ih_l0": torch.eye(HIDDEN)}
    theirs = nn.RNN(HIDDEN, HIDDEN)
    theirs.load_state_dict(parts)
    torch.testing.assert_close(output, theirs(x)[0])


def test_streams_and_devices(torch_device: str) -> None:
    if torch_device != "cuda":
        assert calls.device_of(torch.device("cpu")).name == "cpu"
        return
    stream = torch.cuda.Stream()
    module, x = dt.LSTM(INPUT, HIDDEN, device=torch_device), torch.randn(STEPS, BATCH, INPUT, device=torch_device)
    expected = module(x)[0]
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        found = module(x)[0]
        found.sum().backward()
    stream.synchronize()
    assert torch.equal(found, expected)


# whose memory is used


@pytest.fixture
def only_torch_allocates(torch_device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """dmlpy's device allocates nothing; the module is compiled, and its kernels are made, before."""
    device = calls.device_of(torch.device(torch_device, None if torch_device == "cpu" else 0))

    def refuse(*arguments: Any) -> Any:
        raise AssertionError(f"dmlpy allocates: {arguments[1:]}")

    for name in ("_allocate", "empty"):
        monkeypatch.setattr(type(device), name, refuse)


@pytest.mark.usefixtures("only_torch_allocates")
@pytest.mark.parametrize("cell", CELLS)
def test_scratch_and_results_are_pytorchs(cell: str, torch_device: str, in_place: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """So there is one cache of a GPU's memory, and a graph that PyTorch captures has all of it in its own pool."""
    taken: list[int] = []
    empty = torch.empty

    def noted(*sizes: Any, **options: Any) -> torch.Tensor:
        made = empty(*sizes, **options)
        if made.dtype is torch.uint8:
            taken.append(made.numel())
            made.fill_(0xFF)
        return made

    module = CELLS[cell](device=torch_device)
    x = torch.randn(STEPS, BATCH, INPUT, device=torch_device, requires_grad=True)
    expected = module.to_torch()(x.detach())[0]
    monkeypatch.setattr(torch, "empty", noted)
    output = module(x)[0]
    assert len(taken) == 1
    output.sum().backward()
    assert len(taken) == 2
    torch.testing.assert_close(output, expected)


def warmed_up(run: Callable[[], Any]) -> None:
    """Runs in another stream, as PyTorch asks before a capture."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            run()
    torch.cuda.current_stream().wait_stream(stream)


@pytest.mark.gpu
@pytest.mark.cupy
@pytest.mark.parametrize("cell", CELLS)
def test_a_module_in_a_graph_of_pytorch(cell: str) -> None:
    if not torch.cuda.is_available():
        pytest.skip("PyTorch sees no GPU")
    module = CELLS[cell](device="cuda")
    x = torch.randn(STEPS, BATCH, INPUT, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.no_grad():
        warmed_up(lambda: module(x))
        with torch.cuda.graph(graph):
            output = module(x)[0]
        spoilers = [torch.full((count,), torch.nan, device="cuda") for count in (64, 1024, 1 << 20, 1 << 23)]
        for _ in range(2):
            x.normal_()
            graph.replay()
            torch.testing.assert_close(output, module(x)[0])
    assert all(bool(spoiler.isnan().all()) for spoiler in spoilers)


@pytest.mark.gpu
@pytest.mark.cupy
def test_graphed_callables_train() -> None:
    if not torch.cuda.is_available():
        pytest.skip("PyTorch sees no GPU")
    module, plain = dt.LSTM(INPUT, HIDDEN, device="cuda"), dt.LSTM(INPUT, HIDDEN, device="cuda")
    plain.load_state_dict(module.state_dict())
    x = torch.randn(STEPS, BATCH, INPUT, device="cuda", requires_grad=True)
    graphed: Any = torch.cuda.make_graphed_callables(module, (x,))
    for _ in range(3):
        given = torch.randn(STEPS, BATCH, INPUT, device="cuda", requires_grad=True)
        twin = given.detach().clone().requires_grad_()
        for run, start in ((graphed, given), (plain, twin)):
            run(start)[0].sum().backward()
        torch.testing.assert_close(given.grad, twin.grad)
        torch.testing.assert_close(module.params.grad, plain.params.grad)
