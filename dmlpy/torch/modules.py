"""`RNN`, `LSTM` and `GRU`: modules that replace torch.nn's, over one flat parameter."""

from __future__ import annotations

import math
import warnings
from numbers import Real
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

import torch
from torch import nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from dmlpy.description.coercion import brief, is_among
from dmlpy.description.flags import option_problems
from dmlpy.messages.naming import plural
from dmlpy.messages.problems import DescError, Problem
from dmlpy.operators.recurrent.params import ParamsBlock, ParamsLayout
from dmlpy.torch.argument_names import NAMES, device_problems, same_float
from dmlpy.torch.calls import KINDS
from dmlpy.torch.direct import is_differentiated, key_of
from dmlpy.torch.function import DifferentiableCall, Mixed, is_sharded, run, type_problems
from dmlpy.torch.operators import FLOATS, Network, staged_call

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Iterator

    from dmlpy.torch.calls import StagedCall

_States = tuple[torch.Tensor, ...]
_ORDER = ("weight_ih", "weight_hh", "bias_ih", "bias_hh", "weight_hr")
"""The parameters of a layer's direction, as torch.nn lists them."""


def _shard_problems(flat: torch.Tensor) -> Iterator[Problem]:
    if is_sharded(flat):
        remedy = "gather it: module.views(module.params.full_tensor())"
        yield Problem("array.kind", "flat", f"a DTensor {list(flat.shape)}", "a tensor with all its elements here", remedy=remedy)


_MOST = 1 << 30
"""More than any size of a network: PyTorch multiplies sizes in 64 bits."""
_MOST_DIRECT = 64
"""The sizes and types of calls of a module for which the operator is known without looking it up."""


class _Call(NamedTuple):
    """A call, without its input and states.

    Attributes:
        params: the module's parameter, converted if torch.autocast requires it.
        mixed: the types that torch.autocast requires, if it does.
        direct: what calls the operator directly, if it is known and may be.
    """

    params: torch.Tensor
    mixed: Mixed | None
    direct: StagedCall | DifferentiableCall | None = None


class RNNBase(nn.Module):
    """The base of the modules: the parameter, its named parts, and the call.

    Attributes:
        params: the one parameter, [layout.size]; without biases, only the matrices, which come first.
        layout: the layout of the parameter.
        mode: `RNN_TANH`, `RNN_RELU`, `LSTM` or `GRU`, as torch.nn names them.

    The other attributes are the constructor's arguments. `weight_ih_l0`, `bias_hh_l1_reverse` and so on are views of `params`: autograd
    tracks them, and writing to them under `torch.no_grad()`, or assigning them, writes to `params`.
    """

    torch_class: ClassVar[type[nn.RNNBase]]
    params: nn.Parameter

    def __init__(
        self,
        mode: str,
        input_size: int,
        hidden_size: int,
        num_layers: int,
        bias: bool,
        batch_first: bool,
        dropout: float,
        bidirectional: bool,
        proj_size: int,
        device: torch.device | str | int | None,
        dtype: torch.dtype | None,
    ) -> None:
        super().__init__()
        self.mode = mode
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.num_layers = num_layers
        self.bias = bias
        self.batch_first = batch_first
        self.dropout = dropout
        self.bidirectional = bidirectional
        self.proj_size = proj_size
        dtype = torch.get_default_dtype() if dtype is None else dtype
        self._refuse(self._argument_problems(dtype, device))
        self.dropout = float(dropout)
        if dropout > 0 and num_layers == 1:
            warnings.warn(f"dropout = {dropout:g} has no effect: it acts between layers, and there is one", stacklevel=4)
        self.layout = ParamsLayout(mode.lower(), num_layers, hidden_size, input_size, bidirectional, proj_size)
        kept = [block for block in self.layout.blocks() if bias or not block.kind.startswith("bias")]
        kept.sort(key=lambda block: (block.layer, block.direction, _ORDER.index(block.kind)))
        self._blocks: dict[str, ParamsBlock] = {block.name: block for block in kept}
        self._params_sizes = (sum(block.size for block in kept),)
        self.params = nn.Parameter(torch.empty(self._params_sizes, device=device, dtype=dtype))
        self._whole: tuple[nn.Parameter, torch.Tensor] | None = None
        self._direct: dict[Hashable, StagedCall | DifferentiableCall | None] = {}
        """What runs calls directly; None where such calls are not staged."""
        self._lay_tail()
        self.reset_parameters()

    def _argument_problems(self, dtype: torch.dtype, device: Any) -> Iterator[Problem]:
        for name, least in (("input_size", 1), ("hidden_size", 1), ("num_layers", 1), ("proj_size", 0)):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < least:
                yield Problem("field.form", name, brief(value), f"an integer of at least {least}")
            elif value > _MOST:
                yield Problem("field.form", name, brief(value), f"at most {_MOST}")
            elif name == "proj_size" and isinstance(self.hidden_size, int) and value >= max(self.hidden_size, 1):
                yield Problem("num_proj_range", name, str(value), f"less than hidden_size = {self.hidden_size}")
        yield from option_problems(**{name: getattr(self, name) for name in ("bias", "batch_first", "bidirectional")})
        if not isinstance(self.dropout, Real) or isinstance(self.dropout, bool) or not 0 <= self.dropout < 1:
            yield Problem("dropout_range", "dropout", brief(self.dropout), "a number of at least 0, below 1")
        if not isinstance(dtype, torch.dtype) or dtype not in FLOATS:
            expected, why = "torch.float32, torch.float16 or torch.bfloat16", "sums and states are kept in 32 bits"
            yield Problem(
                "type.support",
                "dtype",
                brief(dtype) if hasattr(dtype, "shape") else str(dtype),
                expected,
                (why,),
                f"pass dtype={same_float(dtype)}",
            )
        yield from device_problems(device)

    def _refuse(self, problems: Iterable[Problem]) -> None:
        if found := list(problems):
            raise DescError(type(self).__name__, found)

    def reset_parameters(self) -> None:
        """Redraws every parameter from -1/sqrt(hidden_size) to 1/sqrt(hidden_size), in torch.nn's order; rank 0 draws for a DTensor."""
        bound = 1 / math.sqrt(self.hidden_size)
        params: Any = self.params.detach()
        whole = torch.empty(params.shape, dtype=params.dtype, device=params.device) if is_sharded(params) else params
        for part in self.views(whole).values():
            part.uniform_(-bound, bound)
        if whole is not params:
            from torch.distributed.tensor import distribute_tensor

            params.copy_(distribute_tensor(whole, params.device_mesh, params.placements))

    # the parameter and its parts

    def views(self, flat: torch.Tensor) -> dict[str, torch.Tensor]:
        """The parts of `params`, or of a tensor of its size such as `params.grad`, as views by torch.nn's names and in its order.

        Raises:
            DescError: the tensor is a DTensor.
        """
        self._refuse(_shard_problems(flat))
        return {name: block.view(flat) for name, block in self._blocks.items()}

    @property
    def all_weights(self) -> list[list[torch.Tensor]]:
        """The views, listed for each layer and direction."""
        listed: dict[tuple[int, int], list[torch.Tensor]] = {}
        for name, part in self.views(self.params).items():
            block = self._blocks[name]
            listed.setdefault((block.layer, block.direction), []).append(part)
        return list(listed.values())

    def flatten_parameters(self) -> None:
        """Does nothing: the parameters are always flat."""

    def __getattr__(self, name: str) -> Any:
        block = self.__dict__.get("_blocks", {}).get(name)
        if block is None:
            return super().__getattr__(name)
        self._refuse(_shard_problems(self.params))
        return block.view(self.params)

    def __setattr__(self, name: str, value: Any) -> None:
        block = self.__dict__.get("_blocks", {}).get(name)
        if block is None:
            super().__setattr__(name, value)
            return
        if not isinstance(value, torch.Tensor) or value.shape != block.shape:
            problem = Problem("array.shape", name, brief(value), f"a tensor {list(block.shape)}", (f"it is written into {name}'s place",))
            raise DescError(type(self).__name__, [problem])
        with torch.no_grad():
            block.view(self.params).copy_(value)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self._blocks})

    def _lay_tail(self) -> None:
        """Without biases, places the matrices at the start of a buffer that has zeros in place of the biases."""
        tail, params = self.layout.size - self.params.numel(), self.params
        if not tail or is_sharded(params) or self._tail_lies():
            return
        whole = params.new_zeros(self.layout.size)
        with torch.no_grad():
            whole[:-tail].copy_(params)
        params.data = whole[:-tail]
        self._whole = params, whole

    def _tail_lies(self) -> bool:
        """Whether the zeros follow `params` in memory: not if another tensor substitutes it, nor after its memory was replaced."""
        if self._whole is None or self._whole[0] is not self.params:
            return False
        params, whole = self._whole
        return whole.data_ptr() == params.data_ptr() and (whole.dtype, whole.device) == (params.dtype, params.device)

    def _apply(self, fn: Any, recurse: bool = True) -> Self:
        super()._apply(fn, recurse)
        self._lay_tail()
        return self

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_whole": None, "_direct": {}}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__({"_direct": {}} | state)
        self._lay_tail()

    # state_dict, with torch.nn's entries

    def _save_to_state_dict(self, destination: dict[str, Any], prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        if is_sharded(self.params):  # its parts are not separate DTensors
            return
        for name, part in self.views(destination.pop(f"{prefix}params")).items():
            destination[prefix + name] = part

    def _load_from_state_dict(
        self,
        state_dict: dict[str, Any],
        prefix: str,
        local_metadata: dict[str, Any],
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        if f"{prefix}params" in state_dict and not any(prefix + name in state_dict for name in self._blocks):  # of a sharded module
            super()._load_from_state_dict(state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)
            self._lay_tail()
            return
        params, given = self.params.detach(), dict(state_dict)
        if strict and given.pop(f"{prefix}params", None) is not None:
            unexpected_keys.append(f"{prefix}params")
        flat = torch.empty_like(params)
        entries = {name: given.pop(prefix + name) for name in self._blocks if prefix + name in given}
        if local_metadata.get("assign_to_params_buffers") and entries:
            like = next(iter(entries.values()))
            flat = torch.empty_like(params, dtype=like.dtype, device=like.device)
        if not params.is_meta:
            flat.copy_(params)
        for name, part in self.views(flat).items():
            if name not in entries:
                missing_keys += [prefix + name] if strict else []
            elif not isinstance(entry := entries[name], torch.Tensor):
                error_msgs.append(f"{prefix + name} is a {type(entry).__name__}, expected a tensor {list(part.shape)}.")
            elif entry.shape != part.shape:
                error_msgs.append(
                    f"size mismatch for {prefix + name}: copying a param with shape {entry.shape} from checkpoint, "
                    f"the shape in current model is {part.shape}."
                )
            else:
                part.copy_(entry.detach())
        given[f"{prefix}params"] = flat
        super()._load_from_state_dict(given, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)
        self._lay_tail()

    # from and to torch.nn

    @classmethod
    def from_torch(cls, module: nn.RNNBase) -> Self:
        """Creates a module that computes what torch.nn's does, with a copy of its parameters, on their device.

        Raises:
            DescError: the module is of another class, its type is not supported, or only some of its parameters are frozen.
        """
        if not isinstance(module, cls.torch_class):
            expected = f"a torch.nn.{cls.torch_class.__name__}"
            raise DescError(f"{cls.__name__}.from_torch", [Problem("field.form", "module", brief(module), expected)])
        parameters = list(module.parameters())
        if len(frozen := {parameter.requires_grad for parameter in parameters}) > 1:
            problem = Problem("field.form", "module", "frozen in part", "one whose parameters all have the same requires_grad")
            raise DescError(f"{cls.__name__}.from_torch", [problem])
        converted = cls(**_arguments(module), device="meta", dtype=parameters[0].dtype).to_empty(device=parameters[0].device)
        converted.load_state_dict(module.state_dict())
        converted.params.requires_grad_(frozen.pop())
        return converted.train(module.training)

    def to_torch(self) -> nn.RNNBase:
        """Creates torch.nn's module with the same arguments and a copy of the parameters, on their device."""
        module = self.torch_class(**_arguments(self), device="meta", dtype=self.params.dtype).to_empty(device=self.params.device)
        module.load_state_dict(self.state_dict())
        module.requires_grad_(self.params.requires_grad)
        return module.train(self.training)

    # a call

    def forward(self, input: torch.Tensor | PackedSequence, hx: Any = None) -> tuple[Any, Any]:
        """Computes what torch.nn's modules do: L layers, D directions, H hidden_size, S proj_size or else hidden_size.

        Args:
            input: [T, B, input_size]; [B, T, input_size] with batch_first; [T, input_size]; or a PackedSequence.
            hx: the initial state, [L D, B, S], [L D, S] of a 2-D input; of an LSTM that and the cell's, [L D, B, H]. None, zero.

        Returns:
            The output in the input's form, with D S entries; the last state in hx's form.

        Raises:
            DescError: wrong types, sizes or devices; all problems at once.
        """
        states, params = self._states_given(hx), self._parameter()
        if isinstance(input, PackedSequence) or (key := self._direct_key(params, input, states)) is None:
            return self._checked_call(params, input, states)
        if (direct := self._direct.get(key)) is not None:
            if input.dim() == 3 and not self.batch_first:
                output, last = self._run_directly(direct, params, input, states)
                return output, self._states_shown(last)
            return self._unpacked(_Call(params, None, direct), input, states)
        found = self._checked_call(params, input, states)
        if key not in self._direct:
            self._remember(key, params, input, keep=is_differentiated(params, input, *(states or ())))
        return found

    def _checked_call(self, params: torch.Tensor, input: torch.Tensor | PackedSequence, states: _States | None) -> tuple[Any, Any]:
        mixed = Mixed.of(params)
        if mixed is not None:
            input = input.to(mixed.computed) if isinstance(input, PackedSequence) else mixed.converted(input)
            states, params = states and tuple(map(mixed.converted, states)), mixed.converted(params)
        call = _Call(params, mixed)
        if isinstance(input, PackedSequence):
            self._refuse(self._call_problems(params, input.data, states, int(input.batch_sizes[0])))
            return self._packed(call, input, states)
        if states is not None or not self._takes(params, input):
            self._refuse(self._call_problems(params, input, states))
        return self._unpacked(call, input, states)

    def _unpacked(self, call: _Call, input: torch.Tensor, states: _States | None) -> tuple[Any, Any]:
        if input.dim() == 2:
            states = states and tuple(state.unsqueeze(1) for state in states)
            output, last = self._run(call, input.unsqueeze(1), states)
            return output.squeeze(1), self._states_shown(tuple(state.squeeze(1) for state in last))
        if self.batch_first:
            output, last = self._run(call, input.transpose(0, 1), states, batch_first=True)
            return output.transpose(0, 1), self._states_shown(last)
        output, last = self._run(call, input, states)
        return output, self._states_shown(last)

    def _packed(self, call: _Call, input: PackedSequence, states: _States | None) -> tuple[PackedSequence, Any]:
        # Padded in the order of lengths, as in the packed data; the states are permuted likewise.
        padded, lengths = pad_packed_sequence(PackedSequence(input.data, input.batch_sizes))
        if states and input.sorted_indices is not None:
            states = tuple(state.index_select(1, input.sorted_indices) for state in states)
        output, last = self._run(call, padded, states, lengths)
        if input.unsorted_indices is not None:
            last = tuple(state.index_select(1, input.unsorted_indices) for state in last)
        data = pack_padded_sequence(output, lengths).data
        return PackedSequence(data, input.batch_sizes, input.sorted_indices, input.unsorted_indices), self._states_shown(last)

    def _run(
        self, call: _Call, input: torch.Tensor, states: _States | None, lengths: torch.Tensor | None = None, *, batch_first: bool = False
    ) -> tuple[torch.Tensor, _States]:
        params = call.params
        if call.direct is not None:
            return self._run_directly(call.direct, params, input, states)
        if states is None:
            states = tuple(input.new_zeros(sizes) for sizes in self._state_sizes(input.shape[1]))
        tail = self.layout.size - params.numel()
        # `params` was converted, or replaced, for example by functional_call; and tracing does not model memory beyond a tensor.
        if tail and (torch.compiler.is_compiling() or params is not self.params or not self._tail_lies()):
            params, tail = torch.cat([params, params.new_zeros(tail)]), 0
        network = self._network(float(self.dropout) if self.num_layers > 1 else 0.0)
        cell = states[1] if len(states) == 2 else None
        flags = {"training": self.training, "batch_first": batch_first}
        output, h, c = run(network, input, states[0], cell, params, lengths, tail=tail, mixed=call.mixed, **flags)
        return output, (h,) if c is None else (h, c)

    @staticmethod
    def _run_directly(
        direct: StagedCall | DifferentiableCall, params: torch.Tensor, input: torch.Tensor, states: _States | None
    ) -> tuple[torch.Tensor, _States]:
        h, cell = (None, None) if states is None else (*states, None)[:2]
        output, *last = direct({"input": input, "input_h": h, "input_c": cell, "params": params}).values()
        return output, tuple(last)

    def _network(self, dropout: float) -> Network:
        direction = "bidirectional" if self.bidirectional else "unidirectional"
        return Network(self.layout.rnn_mode, direction=direction, dropout=dropout, num_proj=self.proj_size)

    # direct calls

    def _parameter(self) -> torch.Tensor:
        found = self._parameters.get("params")  # in a tenth of the time of the attribute
        return self.params if found is None else found

    def _direct_key(self, params: torch.Tensor, input: Any, states: _States | None) -> Hashable | None:
        """The key of a call's operator, if it may be called directly."""
        if self.training and self.dropout:
            return None
        if (key := key_of(params, self._params_sizes, input, states or ())) is None:
            return None
        differentiated = is_differentiated(params, input, *(states or ()))
        has_tail = self._params_sizes[0] < self.layout.size
        # Hooks of saved tensors may save a copy, which the tail does not follow.
        if has_tail and (differentiated or params is not self._parameters.get("params") or not self._tail_lies()):
            return None
        return (self.batch_first, differentiated, key)

    def _remember(self, key: Hashable, params: torch.Tensor, input: torch.Tensor, *, keep: bool) -> None:
        """Looks up the operator of a call that succeeded, for later ones with the same key; with `keep` one that has gradients."""
        steps, batch, entries = (input.shape[0], 1, input.shape[1]) if input.dim() == 2 else input.shape
        batch_first = self.batch_first and input.dim() == 3
        if batch_first:
            steps, batch = batch, steps
        hidden, *cell = self._state_sizes(batch)
        sizes = {"input": (steps, batch, entries), "input_h": hidden, "params": (self.layout.size,)}
        if cell:
            sizes["input_c"] = cell[0]
        if len(self._direct) == _MOST_DIRECT:
            self._direct.clear()
        network = self._network(0.0)
        empty = not input.numel()
        staged = None if empty else staged_call(network, sizes, params.dtype, batch_first=batch_first, keep=keep)
        self._direct[key] = DifferentiableCall(network, staged) if keep and staged is not None else staged

    def _state_sizes(self, *batch: int) -> tuple[tuple[int, ...], ...]:
        directions = self.num_layers * self.layout.num_directions
        hidden: tuple[int, ...] = (directions, *batch, self.layout.state_size)
        return (hidden, (directions, *batch, self.hidden_size)) if self.mode == "LSTM" else (hidden,)

    def _states_given(self, hx: Any) -> _States | None:
        if hx is None:
            return None
        if self.mode != "LSTM":
            return (hx,)
        if not isinstance(hx, tuple | list) or len(hx) != 2:
            given = f"a {type(hx).__name__} of {plural(len(hx), 'tensor')}" if isinstance(hx, tuple | list) else brief(hx)
            raise DescError(type(self).__name__, [Problem("field.form", "hx", given, "two tensors, the hidden and the cell states")])
        return tuple(hx)

    def _states_shown(self, states: _States) -> Any:
        return states if self.mode == "LSTM" else states[0]

    def _takes(self, params: torch.Tensor, input: Any) -> bool:
        """Whether `_call_problems` would find none with an input of the most usual form, without states."""
        return (
            type(input) is torch.Tensor
            and type(params) in (nn.Parameter, torch.Tensor)
            and input.layout is params.layout is torch.strided
            and not input.is_nested
            and params.shape == self._params_sizes
            and input.dtype is params.dtype
            and params.dtype in FLOATS
            and input.device == params.device
            and params.device.type in KINDS
            and input.dim() == 3
            and input.shape[2] == self.input_size
            and input.shape[self.batch_first] > 0
        )

    def _call_problems(
        self, params: torch.Tensor, input: Any, states: _States | None, packed_batch: int | None = None
    ) -> Iterator[Problem]:
        names = [f"hx[{index}]" for index in range(2)] if self.mode == "LSTM" else ["hx"]
        named = {"input": input, **dict(zip(names, states or (), strict=False))}
        yield from type_problems(params, named, "the parameter")
        if not all(isinstance(tensor, torch.Tensor) and not tensor.is_nested for tensor in (params, *named.values())):
            return
        if params.shape != self._params_sizes:
            yield Problem("array.shape", "the parameter", str(list(params.shape)), str(list(self._params_sizes)))
        dims = (2, 3) if packed_batch is None else (2,)
        if input.dim() not in dims:
            form = "[B, T, input_size]" if self.batch_first else "[T, B, input_size]"
            yield Problem("dims.support", "input", f"{input.dim()}-D {list(input.shape)}", f"{form} or [T, input_size]")
            return
        if input.shape[-1] != self.input_size:
            found, expected = str(input.shape[-1]), str(self.input_size)
            yield Problem("size.equal", f"input.shape[{input.dim() - 1}]", found, expected, (f"input_size is {expected}",))
        steps = int(self.batch_first and input.dim() == 3)
        if packed_batch is None and not input.shape[steps]:
            reason = "torch.nn refuses an input without steps, too"
            yield Problem("size.range", f"input.shape[{steps}]", "0", "a sequence of at least one step", (reason,))
        batch: tuple[int, ...] = () if input.dim() == 2 else (input.shape[0 if self.batch_first else 1],)
        if packed_batch is not None:
            batch = (packed_batch,)
        letters = "[num_layers * num_directions, B, entries]" if batch else "[num_layers * num_directions, entries]"
        for name, state, sizes in zip(names, states or (), self._state_sizes(*batch), strict=False):
            if tuple(state.shape) != sizes:
                why = (f"{name} is {letters}",) + ((f"B is {batch[0]} in the input",) if batch else ())
                yield Problem("array.shape", name, str(list(state.shape)), str(list(sizes)), why)

    def extra_repr(self) -> str:
        texts = [f"{self.input_size}, {self.hidden_size}"]
        defaults = {"proj_size": 0, "num_layers": 1, "bias": True, "batch_first": False, "dropout": 0, "bidirectional": False}
        texts += [f"{name}={getattr(self, name)}" for name, value in defaults.items() if getattr(self, name) != value]
        return ", ".join(texts)


class RNN(RNNBase):
    """torch.nn.RNN: h[t] = tanh(W x[t] + bW + R h[t-1] + bR), or relu. It takes the same arguments and calls."""

    torch_class = nn.RNN

    @NAMES.refuse_others
    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        nonlinearity: str = "tanh",
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        device: torch.device | str | int | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        if not is_among(nonlinearity, ("tanh", "relu")):
            raise DescError("RNN", [Problem("field.form", "nonlinearity", brief(nonlinearity), "'tanh' or 'relu'")])
        mode = f"RNN_{nonlinearity.upper()}"
        super().__init__(mode, input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, 0, device, dtype)
        self.nonlinearity = nonlinearity


class LSTM(RNNBase):
    """torch.nn.LSTM, with its projection. It takes the same arguments and calls."""

    torch_class = nn.LSTM

    @NAMES.refuse_others
    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: torch.device | str | int | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__("LSTM", input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, proj_size, device, dtype)


class GRU(RNNBase):
    """torch.nn.GRU, whose reset gate acts after the recurrent product. It takes the same arguments and calls."""

    torch_class = nn.GRU

    @NAMES.refuse_others
    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        device: torch.device | str | int | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__("GRU", input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, 0, device, dtype)


def _arguments(module: Any) -> dict[str, Any]:
    """The arguments that construct the same network, here and in torch.nn."""
    names = ["input_size", "hidden_size", "num_layers", "bias", "batch_first", "dropout", "bidirectional"]
    names += {"LSTM": ["proj_size"], "GRU": []}.get(module.mode, ["nonlinearity"])
    return {name: getattr(module, name) for name in names}
