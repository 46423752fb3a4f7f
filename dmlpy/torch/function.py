"""`cudnn_rnn`: a network of stacked recurrent layers as one differentiable function of PyTorch's tensors."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import torch
from torch.autograd import forward_ad

from dmlpy.messages.naming import with_article
from dmlpy.messages.problems import DescError, DmlError, Problem
from dmlpy.torch.calls import KINDS
from dmlpy.torch.direct import are_plain, dual_level, is_followed, transforms_are_active
from dmlpy.torch.operators import (
    FLOATS,
    GRADIENT_TENSORS,
    GRADIENTS,
    RESULTS,
    Network,
    gradient_op,
    gradients_of,
    network_op,
    staged_gradients,
    with_tail,
)

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence

    from dmlpy.torch.calls import StagedCall

_Results: TypeAlias = tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]

_MOST_GRADIENTS = 16
"""The kinds of gradients of a call whose operators are known without looking them up."""


class DerivativeError(DmlError, RuntimeError):
    """A derivative that a recurrent network does not have: the gradient's gradient, or one in forward mode."""


def cudnn_rnn(
    input: torch.Tensor,
    input_h: torch.Tensor,
    input_c: torch.Tensor | None,
    params: torch.Tensor,
    sequence_lengths: torch.Tensor | None = None,
    *,
    rnn_mode: str = "lstm",
    input_mode: str = "linear_input",
    direction: str = "unidirectional",
    dropout: float = 0.0,
    num_proj: int = 0,
    training: bool = True,
) -> _Results:
    """Runs a network of stacked recurrent layers; autograd can differentiate it once.

    T steps, B batch, I input size, L layers, D directions, H units, S entries of h: num_proj with a projection, else H.

    Within torch.autocast the tensors are converted as `Mixed` describes.

    Args:
        input: x, [T, B, I], float32, float16 or bfloat16; any strides.
        input_h: h of every layer and direction before the first step, [L D, B, S].
        input_c: the same for c, [L D, B, H]; None unless rnn_mode is lstm.
        params: all matrices and biases, [ParamsLayout.size], in the layout of `dmlpy.operators.recurrent.params`.
        sequence_lengths: the number of valid steps of each sample, [B], integers from 0 to T; None: T for all.
        rnn_mode: `rnn_relu`, `rnn_tanh`, `lstm` or `gru`.
        input_mode: `linear_input`, `skip_input` or `auto_select`.
        direction: `unidirectional` or `bidirectional`.
        dropout: the share of each layer's output, except the last's, that is set to zero if `training`; at least 0 and below 1.
        num_proj: entries of the LSTM's projected h; 0 for no projection.
        training: whether dropout is applied. Its masks derive from a number drawn from PyTorch's generator of the input's device.

    Returns:
        output [T, B, D S], zero past a sample's end; output_h and output_c after each sample's last step, like input_h and input_c.

    Raises:
        DescError: tensors of another type, of several types, or on several devices.
        DerivativeError: forward-mode differentiation; later, differentiation of the gradient.
        CompileError: sizes or attributes that do not fit.
        BindError: a sequence length on the CPU is negative or above T.
        DeviceError: there is no CUDA device for a tensor on a GPU.
    """
    mixed = Mixed.of(params)
    if mixed is not None:
        input, input_h, input_c, params = (mixed.converted(tensor) for tensor in (input, input_h, input_c, params))
    states = {"input_h": input_h} if input_c is None else {"input_h": input_h, "input_c": input_c}
    problems = type_problems(params, {"input": input, **states})
    if sequence_lengths is not None and not _is_integral(sequence_lengths):
        given = sequence_lengths.dtype if isinstance(sequence_lengths, torch.Tensor) else type(sequence_lengths).__name__
        problems.append(Problem("array.type", "sequence_lengths", str(given), "a tensor of integers"))
    if problems:
        raise DescError("cudnn_rnn", problems)
    network = Network(rnn_mode, input_mode, direction, dropout, num_proj)
    return run(network, input, input_h, input_c, params, sequence_lengths, training=training, mixed=mixed)


def _is_integral(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and not (value.is_floating_point() or value.is_complex() or value.dtype is torch.bool)


def type_problems(params: Any, tensors: Mapping[str, Any], owner: str = "params") -> list[Problem]:
    """Problems of the types and devices of a network's tensors, which must all be those of `params`.

    Args:
        params: the network's parameters.
        tensors: its other tensors, by the caller's names.
        owner: the name for `params` in messages.
    """
    if not isinstance(params, torch.Tensor):
        return [Problem("array.kind", owner, with_article(type(params).__name__), "a torch.Tensor")]
    problems = [_shard_problem(name, tensor) for name, tensor in {owner: params, **tensors}.items() if is_sharded(tensor)]
    problems += _layout_problems(owner, params)
    if params.dtype not in FLOATS:
        problems.append(_type_problem(owner, params.dtype))
    if params.device.type not in KINDS:
        problems.append(Problem("array.device", owner, f"on {params.device}", "a tensor on the CPU or on an NVIDIA GPU"))
    for name, tensor in tensors.items():
        if not isinstance(tensor, torch.Tensor):
            remedy = f"convert it: torch.as_tensor({name})" if hasattr(tensor, "__array_interface__") else None
            problems.append(Problem("array.kind", name, with_article(type(tensor).__name__), "a torch.Tensor", remedy=remedy))
            continue
        problems += _layout_problems(name, tensor)
        if tensor.dtype not in FLOATS:
            problems.append(_type_problem(name, tensor.dtype))
        elif tensor.dtype is not params.dtype and params.dtype in FLOATS:
            remedy = f"convert it: {name}.to({params.dtype})"
            problems.append(Problem("type.equal", name, str(tensor.dtype), str(params.dtype), (f"{owner} is {params.dtype}",), remedy))
        if tensor.device != params.device:
            remedy = f"move it: {name}.to({str(params.device)!r})"
            why = (f"{owner} is there",)
            problems.append(Problem("array.device", name, f"on {tensor.device}", f"a tensor on {params.device}", why, remedy))
    return problems


def _layout_problems(name: str, tensor: torch.Tensor) -> list[Problem]:
    """The problem of a tensor whose elements are not at strides in memory."""
    expected = "a dense torch.Tensor"
    if tensor.is_nested:
        remedy = f"pack its sequences: torch.nn.utils.rnn.pack_sequence({name}.unbind(), enforce_sorted=False)" if name == "input" else None
        return [Problem("array.kind", name, "a nested tensor", expected, remedy=remedy)]
    if tensor.layout is not torch.strided:
        return [Problem("array.kind", name, f"of layout {tensor.layout}", expected, remedy=f"convert it: {name}.to_dense()")]
    return []


def _type_problem(name: str, dtype: torch.dtype) -> Problem:
    remedy = f"convert it: {name}.to(torch.float32)" if dtype.is_floating_point else None
    return Problem("type.support", name, str(dtype), "torch.float32, torch.float16 or torch.bfloat16", remedy=remedy)


def is_sharded(tensor: Any) -> bool:
    """Whether a tensor is a DTensor, whose elements are distributed over processes."""
    if type(tensor) in (torch.Tensor, torch.nn.Parameter):
        return False
    module = sys.modules.get("torch.distributed.tensor")  # imported wherever there is a DTensor
    return module is not None and isinstance(tensor, module.DTensor)


def _shard_problem(name: str, tensor: torch.Tensor) -> Problem:
    remedy = "wrap the module by torch.distributed.fsdp.fully_shard, which gathers its parameter for each call, or pass full_tensor()"
    return Problem("array.kind", name, f"a DTensor {list(tensor.shape)}", "a torch.Tensor with all its elements here", remedy=remedy)


class Mixed(NamedTuple):
    """The types that torch.autocast requires of a network.

    float16 is computed in float16 with sums in float32. bfloat16 is the type of the input and the results only: the network
    runs in float32, which represents the inputs exactly.

    Attributes:
        computed: the type in which the network runs.
        result: the type of its results.
    """

    computed: torch.dtype
    result: torch.dtype

    @classmethod
    def of(cls, params: Any) -> Mixed | None:
        """The types for a network whose parameters these are; None outside of torch.autocast."""
        if not isinstance(params, torch.Tensor):
            return None
        kind = params.device.type
        if kind not in KINDS or not torch.is_autocast_enabled(kind):
            return None
        result = torch.get_autocast_dtype(kind)
        return cls(result if result is torch.float16 else torch.float32, result)

    def converted(self, tensor: Any) -> Any:
        """Converts a tensor to the network's type. As everywhere within torch.autocast, float64 is unchanged."""
        return tensor.to(self.computed) if isinstance(tensor, torch.Tensor) and tensor.dtype in FLOATS else tensor


def run(
    network: Network,
    input: torch.Tensor,
    input_h: torch.Tensor,
    input_c: torch.Tensor | None,
    params: torch.Tensor,
    sequence_lengths: torch.Tensor | None,
    *,
    training: bool,
    batch_first: bool = False,
    tail: int = 0,
    mixed: Mixed | None = None,
) -> _Results:
    """Runs `cudnn_rnn` on tensors whose types and devices were checked.

    Args:
        network: the network's shape and options.
        input: [T, B, input size].
        input_h: [layers D, B, output size], the initial hidden state.
        input_c: [layers D, B, H], the initial cell state of an LSTM; None for others.
        params: all weights and biases, flat.
        sequence_lengths: [B]; None where all sequences have T steps.
        training: whether gradients are needed, and dropout applies.
        batch_first: whether the memory order of the output, whose sizes are [T, B, D S], is [B, T, D S].
        tail: the number of the buffer's last elements that `params` excludes: they follow it in memory, and have no gradient.
        mixed: the types that torch.autocast requires; None for results of the input's type.
    """
    drops = training and network.dropout != 0
    if not drops:
        network = network._replace(dropout=0.0)
    if sequence_lengths is not None:
        sequence_lengths = sequence_lengths.to(input.device, torch.int32)
    # Drawn in each call, not counted: checkpointing, which restores the generator and reruns a segment, then has the same masks.
    offset = torch.randint(2**63 - 1, (1,), device=input.device) if drops else None
    tensors = (input, input_h, params) if input_c is None else (input, input_h, input_c, params)
    differentiated = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors)
    arguments = (input, input_h, input_c, params, sequence_lengths, offset, *network, tail, batch_first, differentiated)
    compiling = torch.compiler.is_compiling()
    if differentiated:
        output, output_h, output_c, _ = _function(compiling).apply(*arguments)
    else:
        if not compiling:
            _refuse_tangents(tensors)
        output, output_h, output_c, _ = network_op(*arguments)
    if mixed is not None:
        output, output_h, output_c = (tensor.to(mixed.result) for tensor in (output, output_h, output_c))
    return output, output_h, None if input_c is None else output_c


def _function(compiling: bool) -> type[torch.autograd.Function]:
    if compiling:
        return CudnnRNNFunction
    return _EagerFunction if transforms_are_active() else _PlainFunction


def _refuse_tangents(tensors: tuple[torch.Tensor, ...]) -> None:
    """Raises DerivativeError for dual numbers, whose tangents an operator without a rule for them would drop silently."""
    if dual_level() >= 0 and any(forward_ad.unpack_dual(tensor).tangent is not None for tensor in tensors):
        raise _forward_error()


def _forward_error() -> DerivativeError:
    remedy = "differentiate backwards: torch.autograd.grad, torch.func.vjp or torch.func.jacrev"
    problem = Problem("derivative.forward", "", "differentiated in forward mode", "the gradient, in reverse mode", remedy=remedy)
    return DerivativeError("cudnn_rnn", [problem])


_WHERE_WANTED, _AFTER_TENSORS = slice(4), 10
"""The arguments of `CudnnRNNFunction` that have gradients, and the number of those after them."""


class CudnnRNNFunction(torch.autograd.Function):
    """CudnnRNNV3 forward and CudnnRNNBackpropV3 backward; the arguments are those of the operator `network_op`."""

    generate_vmap_rule = True

    @staticmethod
    def forward(*arguments: Any) -> tuple[torch.Tensor, ...]:
        return network_op(*arguments)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[torch.Tensor, ...]) -> None:
        input, input_h, input_c, params, lengths, _, *attributes, tail, _, _ = inputs
        # The tail is saved too: hooks of saved tensors may save a copy of them. The reserve is saved as a tensor, so that it is freed with
        # the graph.
        ctx.save_for_backward(input, input_h, input_c, with_tail(params, tail), lengths, output[3])
        ctx.mark_non_differentiable(output[3])
        ctx.attributes, ctx.tail = attributes, tail
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx: Any, *upstream: torch.Tensor | None) -> tuple[torch.Tensor | None, ...]:
        return *_dispatched_gradients(ctx, _gradient_tensors(ctx, upstream)), *[None] * _AFTER_TENSORS


def _gradient_tensors(ctx: Any, upstream: tuple[torch.Tensor | None, ...]) -> tuple[Any, ...]:
    """The tensors among the arguments of `gradient_op`, which come first."""
    *tensors, reserve = ctx.saved_tensors
    given = upstream[:3] if tensors[2] is not None else (*upstream[:2], None)
    return (*tensors, *given, reserve)


def _dispatched_gradients(ctx: Any, tensors: tuple[Any, ...]) -> tuple[torch.Tensor | None, ...]:
    """The gradients of the tensors, of which None is not wanted, by the operator `gradient_op`."""
    wanted = ctx.needs_input_grad[_WHERE_WANTED]
    arguments = (*tensors, *ctx.attributes, list(wanted))
    # Under `create_graph` the gradients are results of a function that refuses to be differentiated: elsewhere an upstream gradient
    # that is a constant would make them constants silently.
    function = _Gradients if torch.compiler.is_compiling() else _EagerGradients
    found = list(function.apply(*arguments) if torch.is_grad_enabled() else gradient_op(*arguments))
    if ctx.tail and wanted[3]:
        found[3] = found[3][: -ctx.tail]
    return tuple([gradient if is_wanted else None for gradient, is_wanted in zip(found, wanted, strict=True)])


class _Gradients(torch.autograd.Function):
    """The gradients, which cannot be differentiated; the arguments are those of the operator `gradient_op`."""

    generate_vmap_rule = True

    @staticmethod
    def forward(*arguments: Any) -> tuple[torch.Tensor, ...]:
        return gradient_op(*arguments)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[torch.Tensor, ...]) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, *upstream: torch.Tensor | None) -> Any:
        remedy = "torch.nn's modules on the CPU, which to_torch() gives, have second derivatives"
        found, expected = (
            "differentiated a second time: the gradient of a recurrent network cannot be differentiated again",
            "one derivative",
        )
        raise DerivativeError("cudnn_rnn", [Problem("derivative.second", "", found, expected, remedy=remedy)])


class _WithoutTangents:
    """The error for forward-mode differentiation, which torch.compile cannot trace."""

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Any:
        raise _forward_error()


class _EagerFunction(_WithoutTangents, CudnnRNNFunction):
    """`CudnnRNNFunction` outside of torch.compile."""


class _EagerGradients(_WithoutTangents, _Gradients):
    """`_Gradients` outside of torch.compile."""


class _PlainFunction(_WithoutTangents, torch.autograd.Function):
    """`_EagerFunction` where nothing transforms functions: PyTorch binds no arguments to a signature, which takes longer than a step."""

    @staticmethod
    def forward(ctx: Any, *arguments: Any) -> tuple[torch.Tensor, ...]:
        output = network_op(*arguments)
        CudnnRNNFunction.setup_context(ctx, arguments, output)
        found: tuple[torch.Tensor, ...] = output
        return found

    backward = CudnnRNNFunction.backward


class DifferentiableCall:
    """A direct call that autograd can differentiate as it can `run`.

    Args:
        network: the network.
        staged: the call of its operator, with a reserve.
    """

    def __init__(self, network: Network, staged: StagedCall) -> None:
        self.network, self.staged = network, staged
        tensors = staged.operator.desc.tensors()
        self._state_sizes = [tensors[name].sizes if name in tensors else None for name in ("input_h", "input_c")]
        self._gradients: dict[Hashable, StagedCall | None] = {}
        """The calls of the gradient by what they depend on; None where such calls are not staged."""

    def __call__(self, tensors: Mapping[str, torch.Tensor | None]) -> dict[str, torch.Tensor]:
        """Returns new results by name; None counts as zeros."""
        found = _DirectFunction.apply(tensors["input"], tensors["input_h"], tensors["input_c"], tensors["params"], self)
        return dict(zip(RESULTS, found, strict=False))

    def gradients(self, tensors: Sequence[torch.Tensor | None], wanted: tuple[bool, ...]) -> tuple[torch.Tensor | None, ...]:
        """The gradients of the `wanted` of the input, the states and the parameters; None for the others.

        Args:
            tensors: the first arguments of the operator `gradient_op`, up to `reserve`; initial states that are None count as zeros.
            wanted: its last argument.
        """
        # Gradients have strides like those of their tensors. Hooks of saved tensors may have changed all else.
        key = (
            wanted,
            *[
                None if tensor is None else (tensor.shape, tensor.dtype, tensor.stride() if at < len(wanted) and wanted[at] else None)
                for at, tensor in enumerate(tensors)
            ],
        )
        try:
            call = self._gradients[key]
        except KeyError:
            if len(self._gradients) == _MOST_GRADIENTS:
                self._gradients.clear()
            call = self._gradients[key] = staged_gradients(self.with_states(tensors), self.network, wanted)
        if call is None:
            return gradients_of(self.with_states(tensors), self.network, wanted)
        found = call(dict(zip(GRADIENT_TENSORS, tensors, strict=True)))
        return tuple(map(found.get, GRADIENTS))

    def with_states(self, tensors: Sequence[torch.Tensor | None]) -> tuple[torch.Tensor | None, ...]:
        """The tensors of `gradients` with zeros as the initial states that are None."""
        input, *states = tensors[:3]
        assert input is not None
        given = [
            state if state is not None or sizes is None else input.new_zeros(sizes)
            for state, sizes in zip(states, self._state_sizes, strict=True)
        ]
        return (input, *given, *tensors[3:])


class _DirectFunction(_WithoutTangents, torch.autograd.Function):
    """`_PlainFunction` without PyTorch's dispatcher, whose results are the output and the states. States that are None count as zeros."""

    @staticmethod
    def forward(
        ctx: Any,
        input: torch.Tensor,
        input_h: torch.Tensor | None,
        input_c: torch.Tensor | None,
        params: torch.Tensor,
        call: DifferentiableCall,
    ) -> tuple[torch.Tensor, ...]:
        found = call.staged({"input": input, "input_h": input_h, "input_c": input_c, "params": params})
        ctx.save_for_backward(input, input_h, input_c, params, found.pop("reserve_space"))
        ctx.call = call
        ctx.set_materialize_grads(False)
        return tuple(found.values())

    @staticmethod
    def backward(ctx: Any, *upstream: torch.Tensor | None) -> tuple[torch.Tensor | None, ...]:
        call: DifferentiableCall = ctx.call
        *saved, reserve = ctx.saved_tensors
        tensors = (*saved, None, *(upstream if len(upstream) == len(RESULTS) else (*upstream, None)), reserve)
        # Hooks may have changed what was saved.
        if torch.is_grad_enabled() or is_followed() or not are_plain(tensors):
            ctx.attributes, ctx.tail = call.network, 0
            return *_dispatched_gradients(ctx, call.with_states(tensors)), None
        return *call.gradients(tensors, ctx.needs_input_grad[_WHERE_WANTED]), None
