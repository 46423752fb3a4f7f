"""`dmlpy::cudnn_rnn` and `dmlpy::cudnn_rnn_backprop`: the network and its gradient as operators of PyTorch's dispatcher.

Tracers of PyTorch (torch.compile, torch.export, fake tensors) record them by name and infer sizes and strides with a function without
data; torch.vmap runs them once for each entry of the mapped axis. An absent result is a new tensor without elements: an operator's
results are always tensors, and must not alias.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import torch

from dmlpy.compiler import compile as compile_operator
from dmlpy.description.enums import DataType, RnnMode
from dmlpy.description.tensors import TensorDesc, packed_strides
from dmlpy.operators.recurrent.cudnn import CudnnRNNBackpropV3Desc, CudnnRNNV3Desc, reserve_elements
from dmlpy.torch.calls import DATA_TYPES, OperatorCall, StagedCall, device_of

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

FLOATS = (torch.float32, torch.float16, torch.bfloat16)
DIFFERENTIABLE = ("input", "input_h", "input_c", "params")
"""The tensors that have gradients, in the order of the operators' arguments."""
RESULTS = ("output", "output_h", "output_c")
GRADIENTS = tuple(f"{name}_backprop" for name in DIFFERENTIABLE)
GRADIENT_TENSORS = (*DIFFERENTIABLE, "sequence_lengths", *[f"{name}_backprop" for name in RESULTS], "reserve_space")
"""The tensors that gradients are computed from, in the order of the operator's arguments."""

_TENSORS = "Tensor input, Tensor input_h, Tensor? input_c, Tensor params, Tensor? sequence_lengths"
_NETWORK = "str rnn_mode, str input_mode, str direction, float dropout, int num_proj"
_library = torch.library.Library("dmlpy", "DEF")
_library.define(
    f"cudnn_rnn({_TENSORS}, Tensor? dropout_offset, {_NETWORK}, int tail, bool batch_first, bool training)"
    " -> (Tensor output, Tensor output_h, Tensor output_c, Tensor reserve)"
)
_library.define(
    f"cudnn_rnn_backprop({_TENSORS}, Tensor? output_backprop, Tensor? output_h_backprop, Tensor? output_c_backprop, Tensor reserve,"
    f" {_NETWORK}, bool[4] wanted) -> (Tensor input_backprop, Tensor input_h_backprop, Tensor input_c_backprop,"
    " Tensor params_backprop)"
)
network_op = torch.ops.dmlpy.cudnn_rnn.default
gradient_op = torch.ops.dmlpy.cudnn_rnn_backprop.default


class Network(NamedTuple):
    """The attributes of a network, as in CudnnRNNV3Desc."""

    rnn_mode: str = "lstm"
    input_mode: str = "linear_input"
    direction: str = "unidirectional"
    dropout: float = 0.0
    num_proj: int = 0


# Implementations


def _run_network(
    input: torch.Tensor,
    input_h: torch.Tensor,
    input_c: torch.Tensor | None,
    params: torch.Tensor,
    sequence_lengths: torch.Tensor | None,
    dropout_offset: torch.Tensor | None,
    rnn_mode: str,
    input_mode: str,
    direction: str,
    dropout: float,
    num_proj: int,
    tail: int,
    batch_first: bool,
    training: bool,
) -> tuple[torch.Tensor, ...]:
    """Runs a network.

    Args:
        input: [T, B, I].
        input_h: [L D, B, S].
        input_c: [L D, B, H]; None unless rnn_mode is lstm.
        params: [ParamsLayout.size - tail].
        sequence_lengths: int32 [B], or None.
        dropout_offset: int64 [1]; None without dropout.
        rnn_mode: as in CudnnRNNV3Desc, like the four after it.
        input_mode: of the first layer.
        direction: of all layers.
        dropout: between the layers.
        num_proj: 0 for none.
        tail: the number of the buffer's last elements that `params` excludes: they follow it in memory, and have no gradient.
        batch_first: whether the memory order of the output, whose sizes are [T, B, D S], is [B, T, D S].
        training: whether there is a reserve.
    """
    network = Network(rnn_mode, input_mode, direction, dropout, num_proj)
    named = _name_tensors(input, input_h, input_c, with_tail(params, tail), sequence_lengths)
    if dropout_offset is not None:
        named["dropout_offset"] = dropout_offset.view(torch.uint64)
    if _is_empty(input, input_h, input_c):
        # Compiled for one sample, so that other errors are reported; DirectML has no empty tensors, so nothing runs.
        _network_call(network, input.device, batch_first, training, _key(_of_one_sample(named)))
        attributes = (rnn_mode, input_mode, direction, dropout, num_proj, tail, batch_first, training)
        *results, reserve = _network_sizes(input, input_h, input_c, params, sequence_lengths, dropout_offset, *attributes)
        return (*results, reserve.zero_())
    found = _network_call(network, input.device, batch_first, training, _key(named))(named)
    return tuple([found[name] if name in found else input.new_empty(0) for name in (*RESULTS, "reserve_space")])


def _run_gradient(
    input: torch.Tensor,
    input_h: torch.Tensor,
    input_c: torch.Tensor | None,
    params: torch.Tensor,
    sequence_lengths: torch.Tensor | None,
    output_backprop: torch.Tensor | None,
    output_h_backprop: torch.Tensor | None,
    output_c_backprop: torch.Tensor | None,
    reserve: torch.Tensor,
    rnn_mode: str,
    input_mode: str,
    direction: str,
    dropout: float,
    num_proj: int,
    wanted: Sequence[bool],
) -> tuple[torch.Tensor, ...]:
    """Computes the gradients of the `wanted` of `DIFFERENTIABLE`, from those of the results; None counts as zeros."""
    if _is_empty(input, input_h, input_c):
        tensors = (input, input_h, input_c, params)
        pairs = zip(tensors, wanted, strict=True)
        return tuple(torch.zeros_like(tensor) if is_wanted and tensor is not None else input.new_empty(0) for tensor, is_wanted in pairs)
    given = (input, input_h, input_c, params, sequence_lengths, output_backprop, output_h_backprop, output_c_backprop, reserve)
    found = gradients_of(given, Network(rnn_mode, input_mode, direction, dropout, num_proj), wanted)
    return tuple([input.new_empty(0) if gradient is None else gradient for gradient in found])


def gradients_of(tensors: Sequence[Any], network: Network, wanted: Sequence[bool]) -> tuple[torch.Tensor | None, ...]:
    """Computes the gradients of the `wanted` of `DIFFERENTIABLE` of a batch that is not empty; None for the others.

    Args:
        tensors: the first arguments of the operator `gradient_op`, up to `reserve`.
        network: its attributes.
        wanted: its last argument.
    """
    call, named = _gradient_call_of(tensors, network, wanted)
    found = call(named)
    return tuple(map(found.get, GRADIENTS))


def staged_gradients(tensors: Sequence[Any], network: Network, wanted: Sequence[bool]) -> StagedCall | None:
    """The staged call that computes gradients as `gradients_of` does, for tensors like these; None if they are too large."""
    call, _ = _gradient_call_of(tensors, network, wanted)
    return call if isinstance(call, StagedCall) else None


def _gradient_call_of(tensors: Sequence[Any], network: Network, wanted: Sequence[bool]) -> tuple[OperatorCall, dict[str, torch.Tensor]]:
    """The call that computes gradients, and its tensors by name."""
    *given, output_backprop, output_h_backprop, output_c_backprop, reserve = tensors
    named = _name_tensors(*given)
    for name, gradient in zip(RESULTS, (output_backprop, output_h_backprop, output_c_backprop), strict=True):
        if gradient is not None:
            named[f"{name}_backprop"] = _detached(gradient)
    names = tuple([name for name, is_wanted in zip(DIFFERENTIABLE, wanted, strict=True) if is_wanted])
    call = _gradient_call(network, reserve.device, names, tuple(reserve.shape), _key(named))
    return call, named | {"reserve_space": reserve}


for _kind in ("CPU", "CUDA"):
    _library.impl("cudnn_rnn", _run_network, _kind)
    _library.impl("cudnn_rnn_backprop", _run_gradient, _kind)


# Rules for tracing and mapping


@torch.library.register_fake("dmlpy::cudnn_rnn", lib=_library)
def _network_sizes(
    input: torch.Tensor,
    input_h: torch.Tensor,
    input_c: torch.Tensor | None,
    params: torch.Tensor,
    sequence_lengths: torch.Tensor | None,
    dropout_offset: torch.Tensor | None,
    rnn_mode: str,
    input_mode: str,
    direction: str,
    dropout: float,
    num_proj: int,
    tail: int,
    batch_first: bool,
    training: bool,
) -> tuple[torch.Tensor, ...]:
    steps, batch, _ = input.shape
    stacked, _, state = input_h.shape
    directions = 2 if direction == "bidirectional" else 1
    output = input.new_empty(batch, steps, directions * state).transpose(0, 1) if batch_first else None
    reserve = 0
    if training:
        known = {
            "seq_length": steps,
            "batch_size": batch,
            "num_units": state if input_c is None else input_c.shape[2],
            "state_size": state,
            "num_directions": directions,
            "num_layers": stacked // directions,
            "output_size": directions * state,
        }
        reserve = reserve_elements(RnnMode.parse(rnn_mode), known)
    return (
        input.new_empty(steps, batch, directions * state) if output is None else output,
        input.new_empty(input_h.shape),
        input.new_empty(0 if input_c is None else input_c.shape),
        input.new_empty(reserve, dtype=torch.float32 if training else input.dtype),
    )


@torch.library.register_fake("dmlpy::cudnn_rnn_backprop", lib=_library)
def _gradient_sizes(
    input: torch.Tensor,
    input_h: torch.Tensor,
    input_c: torch.Tensor | None,
    params: torch.Tensor,
    sequence_lengths: torch.Tensor | None,
    output_backprop: torch.Tensor | None,
    output_h_backprop: torch.Tensor | None,
    output_c_backprop: torch.Tensor | None,
    reserve: torch.Tensor,
    rnn_mode: str,
    input_mode: str,
    direction: str,
    dropout: float,
    num_proj: int,
    wanted: Sequence[bool],
) -> tuple[torch.Tensor, ...]:
    tensors = (input, input_h, input_c, params)
    return tuple(
        torch.empty_like(tensor) if is_wanted and tensor is not None else input.new_empty(0)
        for tensor, is_wanted in zip(tensors, wanted, strict=True)
    )


def _map(operator: Any) -> Any:
    """The rule of torch.vmap: the operator runs for each entry, since one of its calls has one set of parameters and one reserve."""

    def rule(info: Any, in_dims: tuple[Any, ...], *arguments: Any) -> tuple[tuple[torch.Tensor, ...], tuple[int, ...]]:
        found = [
            operator(
                *(
                    value.select(dim, index).contiguous() if isinstance(value, torch.Tensor) and dim is not None else value
                    for value, dim in zip(arguments, in_dims, strict=True)
                )
            )
            for index in range(info.batch_size)
        ]
        return tuple(torch.stack(results) for results in zip(*found, strict=True)), (0,) * len(found[0])

    return rule


torch.library.register_vmap("dmlpy::cudnn_rnn", _map(network_op), lib=_library)
torch.library.register_vmap("dmlpy::cudnn_rnn_backprop", _map(gradient_op), lib=_library)


# The compiled operators


def _is_empty(*tensors: torch.Tensor | None) -> bool:
    """Whether a batch has no samples, as the last one of a data set may; a sequence without steps is rejected, as in PyTorch."""
    return not any(tensor is not None and (tensor.dim() != 3 or tensor.shape[1]) for tensor in tensors)


def _of_one_sample(named: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Tensors like those of an empty batch with one sample in it."""
    axes = {"input": 1, "input_h": 1, "input_c": 1, "sequence_lengths": 0}
    found = dict(named)
    for name, axis in axes.items():
        if name in found and found[name].dim() > axis and not found[name].shape[axis]:
            sizes = list(found[name].shape)
            sizes[axis] = 1
            found[name] = found[name].new_zeros(sizes)
    return found


def with_tail(params: torch.Tensor, tail: int) -> torch.Tensor:
    """Parameters; with a `tail`, detached and with this many elements that follow them in memory."""
    return params.detach().as_strided((params.numel() + tail,), (1,)) if tail else params


def _name_tensors(
    input: torch.Tensor,
    input_h: torch.Tensor,
    input_c: torch.Tensor | None,
    params: torch.Tensor,
    sequence_lengths: torch.Tensor | None,
) -> dict[str, torch.Tensor]:
    """The given tensors by field, detached from autograd."""
    named = {"input": _detached(input), "input_h": _detached(input_h), "params": _detached(params)}
    if input_c is not None:
        named["input_c"] = _detached(input_c)
    if sequence_lengths is not None:
        named["sequence_lengths"] = sequence_lengths
    return named


def _detached(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach() if tensor.requires_grad else tensor


class _Layout(NamedTuple):
    """The properties of a tensor that an operator is compiled for."""

    name: str
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: torch.dtype

    def desc(self) -> TensorDesc:
        return TensorDesc(data_type=DATA_TYPES[self.dtype], sizes=self.sizes, strides=self.strides)

    @property
    def nbytes(self) -> int:
        """The bytes of a copy."""
        return math.prod(self.sizes) * self.dtype.itemsize

    def packed(self, *, as_result: bool) -> _Layout:
        """The layout of a contiguous copy; with `as_result` that of a tensor like it."""
        example = torch.empty(self.sizes, device="meta")
        if as_result:
            example = torch.empty_like(torch.empty_strided(self.sizes, self.strides, device="meta"))
        return self._replace(strides=example.stride())


_Row: TypeAlias = tuple[str, tuple[int, ...], tuple[int, ...], torch.dtype]
"""A `_Layout` as a plain tuple, which is made in half of the time in each call. Both are equal, and have one hash."""


def _key(tensors: Mapping[str, torch.Tensor]) -> tuple[_Row, ...]:
    return tuple([(name, tensor.shape, tensor.stride(), tensor.dtype) for name, tensor in tensors.items()])


def _usual(key: tuple[_Row, ...], device: torch.device, wanted: Collection[str] = ()) -> tuple[_Row, ...]:
    """The key of the staged call that stands in for those of all strides: it copies its inputs; gradients have strides like theirs."""
    layouts = [_Layout(*row) for row in key]
    if device.type != "cpu" or not StagedCall.may_copy(sum(layout.nbytes for layout in layouts if layout.name != "params")):
        return key
    return tuple([layout if layout.name == "params" else layout.packed(as_result=layout.name in wanted) for layout in layouts])


@lru_cache(maxsize=1024)
def _network_call(network: Network, device: torch.device, batch_first: bool, keep: bool, key: tuple[_Row, ...]) -> OperatorCall:
    if (usual := _usual(key, device)) != key:
        call = _network_call(network, device, batch_first, keep, usual)
        if isinstance(call, StagedCall):
            return call
    members: dict[str, Any] = {row[0]: _Layout(*row).desc() for row in key}
    desc = CudnnRNNV3Desc(**members, **network._asdict(), is_training=keep or network.dropout != 0)
    states = [name for name in RESULTS if name != "output_c" or "input_c" in members]
    desc = desc.with_outputs(*states, *(["reserve_space"] if keep else []))
    if batch_first and desc.output is not None:
        steps, _, entries = desc.output.sizes
        desc = desc.replace(output=desc.output.replace(strides=(entries, steps * entries, 1)))
    return _call_of(desc, device, key)


def staged_call(
    network: Network, tensors: Mapping[str, tuple[int, ...]], dtype: torch.dtype, *, batch_first: bool, keep: bool
) -> StagedCall | None:
    """The staged call that runs a network on tensors of these sizes and any strides; None if they are too large.

    Args:
        network: the network.
        tensors: the sizes by name.
        dtype: the type of all.
        batch_first: as in `_run_network`.
        keep: whether there is a reserve.
    """
    layouts = [_Layout(name, sizes, packed_strides(sizes), dtype) for name, sizes in tensors.items()]
    if not StagedCall.may_copy(sum(layout.nbytes for layout in layouts if layout.name != "params")):
        return None
    call = _network_call(network, torch.device("cpu"), batch_first, keep, tuple(layouts))
    return call if isinstance(call, StagedCall) else None


@lru_cache(maxsize=1024)
def _gradient_call(
    network: Network, device: torch.device, wanted: tuple[str, ...], reserve: tuple[int, ...], key: tuple[_Row, ...]
) -> OperatorCall:
    if (usual := _usual(key, device, wanted)) != key:
        call = _gradient_call(network, device, wanted, reserve, usual)
        if isinstance(call, StagedCall):
            return call
    layouts = [_Layout(*row) for row in key]
    members: dict[str, Any] = {layout.name: layout.desc() for layout in layouts}
    members["reserve_space"] = TensorDesc(data_type=DataType.FLOAT32, sizes=reserve)
    for layout in layouts:
        if layout.name in wanted:
            members[f"{layout.name}_backprop"] = layout.packed(as_result=True).desc()
    return _call_of(CudnnRNNBackpropV3Desc(**members, **network._asdict()), device, key)


def _call_of(desc: CudnnRNNV3Desc | CudnnRNNBackpropV3Desc, device: torch.device, key: tuple[_Row, ...]) -> OperatorCall:
    operator = compile_operator(desc, device_of(device))
    if device.type != "cpu" or not StagedCall.takes(operator) or any(name == "params" and strides != (1,) for name, _, strides, _ in key):
        return OperatorCall(operator, device)
    packed = {
        name: getattr(desc, name).replace(strides=None)
        for name in (field.name for field in desc.inputs())
        if getattr(desc, name) is not None
    }
    return StagedCall(compile_operator(desc.replace(**packed), operator.device), device)
