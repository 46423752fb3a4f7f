"""`cudnn_rnn`: a network of stacked recurrent layers as one differentiable function of PyTorch's tensors."""

from __future__ import annotations

from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import torch

from dmlpy.compiler import compile as compile_operator
from dmlpy.description.enums import DataType
from dmlpy.description.tensors import TensorDesc
from dmlpy.devices import CompiledOperator, Device, Reserve
from dmlpy.devices import device as find_device
from dmlpy.operators.recurrent.cudnn import CudnnRNNBackpropV3Desc, CudnnRNNV3Desc
from dmlpy.validation.problems import DescError, Problem

if TYPE_CHECKING:
    from collections.abc import Mapping

FLOATS = (torch.float32, torch.float16)
_DATA_TYPES = {
    torch.float32: DataType.FLOAT32,
    torch.float16: DataType.FLOAT16,
    torch.int32: DataType.INT32,
    torch.uint64: DataType.UINT64,
}
_TORCH_TYPES = {data_type: dtype for dtype, data_type in _DATA_TYPES.items()}
_KINDS = {"cpu": "cpu", "cuda": "cuda"}
_DIFFERENTIABLE = ("input", "input_h", "input_c", "params")
_Results: TypeAlias = tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]
_RESULTS = ("output", "output_h", "output_c")


class Network(NamedTuple):
    """The attributes of a network, as in CudnnRNNV3Desc."""

    rnn_mode: str = "lstm"
    input_mode: str = "linear_input"
    direction: str = "unidirectional"
    dropout: float = 0.0
    num_proj: int = 0


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

    Args:
        input: x, [T, B, I], float32 or float16; any strides.
        input_h: h of every layer and direction before the first step, [L D, B, S].
        input_c: the same for c, [L D, B, H]; None unless rnn_mode is lstm.
        params: all matrices and biases, [ParamsLayout.size], laid out as `dmlpy.operators.recurrent.params` tells.
        sequence_lengths: steps of each sample that count, [B], integers of 0 to T; None, all.
        rnn_mode: `rnn_relu`, `rnn_tanh`, `lstm` or `gru`.
        input_mode: `linear_input`, `skip_input` or `auto_select`.
        direction: `unidirectional` or `bidirectional`.
        dropout: the share of each layer's output, but the last's, that is set to zero if `training`; at least 0, below 1.
        num_proj: entries of the LSTM's projected h; 0 for no projection.
        training: whether there is dropout. Its masks follow from a number drawn from PyTorch's generator of the input's device.

    Returns:
        output [T, B, D S], zero past a sample's end; output_h and output_c after each sample's last step, like input_h and input_c.

    Raises:
        DescError: tensors of another type, of several types, or on several devices.
        CompileError: sizes or attributes that do not fit.
        BindError: a sequence length on the CPU is negative or above T.
        DeviceError: there is no CUDA device for a tensor on a GPU.
    """
    states = {"input_h": input_h} if input_c is None else {"input_h": input_h, "input_c": input_c}
    problems = type_problems(params, {"input": input, **states})
    if sequence_lengths is not None and not _is_integral(sequence_lengths):
        given = sequence_lengths.dtype if isinstance(sequence_lengths, torch.Tensor) else type(sequence_lengths).__name__
        problems.append(Problem("array.type", "sequence_lengths", str(given), "a tensor of integers"))
    if problems:
        raise DescError("cudnn_rnn", problems)
    network = Network(rnn_mode, input_mode, direction, dropout, num_proj)
    return run(network, input, input_h, input_c, params, sequence_lengths, training=training)


def _is_integral(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and not (value.is_floating_point() or value.is_complex() or value.dtype is torch.bool)


def type_problems(params: Any, tensors: Mapping[str, Any], owner: str = "params") -> list[Problem]:
    """The problems with the types and devices of a network's tensors, which must all be those of `params`.

    Args:
        params: the network's parameters.
        tensors: its other tensors, by the names that the caller knows them by.
        owner: the name for `params` in messages.
    """
    if not isinstance(params, torch.Tensor):
        return [Problem("array.kind", owner, f"a {type(params).__name__}", "a torch.Tensor")]
    problems = []
    if params.dtype not in FLOATS:
        problems.append(_type_problem(owner, params.dtype))
    if params.device.type not in _KINDS:
        problems.append(Problem("array.device", owner, f"on {params.device}", "a tensor on the CPU or on an NVIDIA GPU"))
    for name, tensor in tensors.items():
        if not isinstance(tensor, torch.Tensor):
            problems.append(Problem("array.kind", name, f"a {type(tensor).__name__}", "a torch.Tensor"))
            continue
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


def _type_problem(name: str, dtype: torch.dtype) -> Problem:
    remedy = f"convert it: {name}.to(torch.float32)" if dtype.is_floating_point else None
    return Problem("type.support", name, str(dtype), "torch.float32 or torch.float16", remedy=remedy)


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
) -> _Results:
    """Runs `cudnn_rnn` on tensors whose types and devices were checked.

    Args:
        network: the network's shape and options.
        input: [T, B, input size].
        input_h: [layers D, B, output size], the initial hidden state.
        input_c: [layers D, B, H], the initial cell state of an LSTM; None for others.
        params: all weights and biases, flat.
        sequence_lengths: [B]; None where all sequences have T steps.
        training: whether gradients will be asked for, and dropout applies.
        batch_first: whether the output, [T, B, D S] all the same, lies in memory as [B, T, D S].
        tail: the number of the buffer's last elements that `params` leaves out: they lie behind it in memory, and have no gradient.
    """
    drops = training and network.dropout != 0
    if not drops:
        network = network._replace(dropout=0.0)
    if sequence_lengths is not None:
        sequence_lengths = sequence_lengths.to(input.device, torch.int32)
    # Drawn in each call, not counted: then a checkpoint that restores the generator and runs a segment again has the same masks.
    offset = torch.randint(2**63 - 1, (1,), device=input.device).view(torch.uint64) if drops else None
    # torch.compile calls this as it is: there is nothing in it that could be traced. To import what `disable` needs takes a second.
    execute = torch.compiler.disable(_execute) if torch.compiler.is_compiling() else _execute
    return execute(network, batch_first, tail, (input, input_h, input_c, params), sequence_lengths, offset)


def _execute(
    network: Network,
    batch_first: bool,
    tail: int,
    tensors: tuple[torch.Tensor, torch.Tensor, torch.Tensor | None, torch.Tensor],
    sequence_lengths: torch.Tensor | None,
    offset: torch.Tensor | None,
) -> _Results:
    if torch.is_grad_enabled() and any(tensor is not None and tensor.requires_grad for tensor in tensors):
        results = CudnnRNNFunction.apply(network, batch_first, tail, *tensors, sequence_lengths, offset)
        return results[0], results[1], results[2]
    named = _named(*tensors, sequence_lengths, tail=tail) | ({} if offset is None else {"dropout_offset": offset})
    return _results(_network_call(network, tensors[0].device, batch_first, False, _key(named))(named))


class CudnnRNNFunction(torch.autograd.Function):
    """CudnnRNNV3 forward and CudnnRNNBackpropV3 backward; the arguments are those of `run`."""

    @staticmethod
    def forward(
        ctx: Any,
        network: Network,
        batch_first: bool,
        tail: int,
        input: torch.Tensor,
        input_h: torch.Tensor,
        input_c: torch.Tensor | None,
        params: torch.Tensor,
        sequence_lengths: torch.Tensor | None,
        dropout_offset: torch.Tensor | None,
    ) -> _Results:
        tensors = (input, input_h, input_c, params, sequence_lengths)
        named = _named(*tensors, tail=tail) | ({} if dropout_offset is None else {"dropout_offset": dropout_offset})
        found = _network_call(network, input.device, batch_first, True, _key(named))(named)
        reserve: Reserve = found["reserve_space"]
        # The reserve's memory is saved as a tensor, so that it goes when the graph does; what it belongs to, beside it.
        ctx.save_for_backward(*tensors, reserve.array)
        ctx.network, ctx.tail, ctx.configuration = network, tail, reserve.configuration
        ctx.set_materialize_grads(False)
        return _results(found)

    @staticmethod
    def backward(ctx: Any, *upstream: torch.Tensor | None) -> tuple[torch.Tensor | None, ...]:
        *tensors, reserve = ctx.saved_tensors
        wanted = tuple(name for name, needed in zip(_DIFFERENTIABLE, ctx.needs_input_grad[3:7], strict=True) if needed)
        with torch.no_grad():
            named = _named(*tensors, tail=ctx.tail)
            for name, gradient in zip(_RESULTS, upstream, strict=True):
                if gradient is not None:
                    named[f"{name}_backprop"] = gradient.detach()
            call = _gradient_call(ctx.network, reserve.device, wanted, reserve.shape, _key(named))
            found = call(named, reserve_space=Reserve(reserve, ctx.configuration))
            gradients = {name: found[f"{name}_backprop"] for name in wanted}
            if ctx.tail and "params" in gradients:
                gradients["params"] = gradients["params"][: -ctx.tail]
        if torch.is_grad_enabled():
            source = next(tensor for tensor in tensors if tensor is not None and tensor.requires_grad)
            gradients = dict(zip(wanted, _FinalGradients.apply(source, *gradients.values()), strict=True))
        return None, None, None, *(gradients.get(name) for name in _DIFFERENTIABLE), None, None


class _FinalGradients(torch.autograd.Function):
    """Gradients that refuse to be differentiated again.

    `once_differentiable` refuses it only where the upstream gradients have one: under others the result would silently be a constant.
    """

    @staticmethod
    def forward(ctx: Any, source: torch.Tensor, *gradients: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return gradients

    @staticmethod
    def backward(ctx: Any, *upstream: torch.Tensor | None) -> Any:
        raise RuntimeError("the gradient of a recurrent network cannot be differentiated again")


def _named(
    input: torch.Tensor,
    input_h: torch.Tensor,
    input_c: torch.Tensor | None,
    params: torch.Tensor,
    sequence_lengths: torch.Tensor | None,
    *,
    tail: int,
) -> dict[str, torch.Tensor]:
    """The given tensors by field, detached from autograd, with the tail appended to `params`."""
    whole = params.as_strided((params.numel() + tail,), (1,)) if tail else params
    tensors = {"input": input, "input_h": input_h, "input_c": input_c, "params": whole, "sequence_lengths": sequence_lengths}
    return {name: tensor.detach() for name, tensor in tensors.items() if tensor is not None}


def _results(found: Mapping[str, torch.Tensor]) -> _Results:
    return found["output"], found["output_h"], found.get("output_c")


class _Layout(NamedTuple):
    """The properties of a tensor that an operator is compiled for."""

    name: str
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: torch.dtype

    def desc(self) -> TensorDesc:
        return TensorDesc(data_type=_DATA_TYPES[self.dtype], sizes=self.sizes, strides=self.strides)


def _key(tensors: Mapping[str, torch.Tensor]) -> tuple[_Layout, ...]:
    return tuple(_Layout(name, tensor.shape, tensor.stride(), tensor.dtype) for name, tensor in tensors.items())


class _Call:
    """A compiled operator with the memory that its calls allocate. Equal calls share one."""

    def __init__(self, desc: CudnnRNNV3Desc | CudnnRNNBackpropV3Desc, device: torch.device) -> None:
        self._operator: CompiledOperator = compile_operator(desc, _device(device))
        self._place = device
        self._outputs = [
            (field.name, tensor.sizes, tensor.element_strides, _TORCH_TYPES[tensor.data_type])
            for field in desc.outputs()
            if (tensor := getattr(desc, field.name)) is not None
        ]

    def __call__(self, tensors: Mapping[str, torch.Tensor], **reserve: Reserve) -> dict[str, Any]:
        """Runs on PyTorch's current stream, over the tensors' memory and new outputs, which are returned by name."""
        outputs = {
            name: torch.empty_strided(sizes, strides, dtype=dtype, device=self._place) for name, sizes, strides, dtype in self._outputs
        }
        stream = torch.cuda.current_stream(self._place).cuda_stream if self._place.type == "cuda" else None
        arguments: dict[str, Any] = {**tensors, **reserve, **outputs}
        found: dict[str, Any] = self._operator(stream=stream, **arguments).as_dict()
        return found


@cache
def _device(device: torch.device) -> Device:
    kind = _KINDS[device.type]
    return find_device(kind if device.index is None else f"{kind}:{device.index}")


@lru_cache(maxsize=1024)
def _network_call(network: Network, device: torch.device, batch_first: bool, keep: bool, key: tuple[_Layout, ...]) -> _Call:
    members: dict[str, Any] = {layout.name: layout.desc() for layout in key}
    desc = CudnnRNNV3Desc(**members, **network._asdict(), is_training=keep or network.dropout != 0)
    states = [name for name in _RESULTS if name != "output_c" or "input_c" in members]
    desc = desc.with_outputs(*states, *(["reserve_space"] if keep else []))
    if batch_first and desc.output is not None:
        steps, _, entries = desc.output.sizes
        desc = desc.replace(output=desc.output.replace(strides=(entries, steps * entries, 1)))
    return _Call(desc, device)


@lru_cache(maxsize=1024)
def _gradient_call(
    network: Network, device: torch.device, wanted: tuple[str, ...], reserve: tuple[int, ...], key: tuple[_Layout, ...]
) -> _Call:
    members: dict[str, Any] = {layout.name: layout.desc() for layout in key}
    members["reserve_space"] = TensorDesc(data_type=DataType.FLOAT32, sizes=reserve)
    for layout in key:
        if layout.name in wanted:
            strides = torch.empty_like(torch.empty_strided(layout.sizes, layout.strides, device="meta")).stride()
            members[f"{layout.name}_backprop"] = members[layout.name].replace(strides=strides)
    return _Call(CudnnRNNBackpropV3Desc(**members, **network._asdict()), device)
