"""The arrays of a call: which device holds them, as arrays of NumPy or CuPy, and results in the caller's library."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dmlpy.description.array_problems import value_problems
from dmlpy.description.arrays import dlpack_device, is_convertible, resolved
from dmlpy.description.bfloat16_numbers import holds_bfloat16
from dmlpy.description.coercion import brief
from dmlpy.description.dlpack import bfloat16_array, tensor_of
from dmlpy.devices import Device
from dmlpy.devices import device as find_device
from dmlpy.messages.problems import DescError, Problem

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

Array = Any
"""An array of NumPy, CuPy, PyTorch, JAX, or of any library with DLPack."""
Native = Any
"""An array of NumPy, or of CuPy for a GPU."""

FLOATS = frozenset({"float32", "float16", "bfloat16"})
"""The names of the types of elements. CuPy has no bfloat16."""
_NUMPY_FLOATS = frozenset({np.dtype(np.float32), np.dtype(np.float16)})
_OPTIONAL = frozenset(("b", "h0", "c0", "mean", "variance"))
"""The arguments that may be None."""
_CPU, _CUDA = 1, 2
"""DLPack's numbers of the kinds of memory."""
_FORM = "an array of NumPy, CuPy, PyTorch, JAX, or of any library with DLPack"


class Home(NamedTuple):
    """The device and the library of a call's arrays.

    Attributes:
        device: the device that runs the call.
        xp: the library of its memory: `numpy` or `cupy`.
        wrap: what turns an array of `xp` into one of the caller's library, in the same memory.
    """

    device: Device
    xp: Any
    wrap: Callable[[Native], Array]

    def current(self) -> AbstractContextManager[Any]:
        """Makes `xp` allocate on the device within the block."""
        if self.device.memory_kind == "cpu":
            return nullcontext()
        context: AbstractContextManager[Any] = self.xp.cuda.Device(int(self.device.name.partition(":")[2]))
        return context


def receive(subject: str, arrays: Mapping[str, Array | None], device: Device | str | None = None) -> tuple[Home, dict[str, Native]]:
    """The home of a call's arrays, and those that are given, as arrays of NumPy or CuPy in the same memory.

    Args:
        subject: the function's name, for messages.
        arrays: by the caller's names, the one first whose library the results have.
        device: the device that is to run the call; None: the one that holds the arrays, for host memory `cpu`.

    Raises:
        DescError: something is not an array, lies elsewhere than the first one, or has a type that is not supported; all problems at once.
        DeviceError: no such device, such as for an array on a GPU where dmlpy finds none.
    """
    given = {name: array for name, array in arrays.items() if array is not None or name not in _OPTIONAL}
    if (home := _numpy_home(given, device)) is not None:
        return home, given
    if (received := _receive_tensors(given, device)) is not None:
        return received
    places = {name: _place(array) for name, array in given.items()}
    problems = [
        Problem("array.kind", name, brief(given[name]), _FORM, remedy=_remedy(given[name])) for name, at in places.items() if not at
    ]
    first, place = next(iter(places.items()))
    for name, at in places.items():
        if at and place and at != place:
            remedy = f"move it to {_named(place)}"
            problems.append(Problem("array.device", name, f"on {_named(at)}", f"on {_named(place)}", (f"{first} is there",), remedy))
    if place and place[0] not in (_CPU, _CUDA):
        problems.append(Problem("array.device", first, f"on {_named(place)}", "in host memory, or on an NVIDIA GPU"))
    if problems or place is None:
        raise DescError(subject, problems)
    home = _home(given[first], place, device)
    native: dict[str, Native] = {}
    with home.current():
        for name, array in given.items():
            try:
                native[name] = _native(array, home.xp)
            except Exception as error:  # DLPack is other libraries' code
                problems.append(_unshared(name, array, error))
    if first in native:
        dtype = native[first].dtype
        problems += [problem for name, array in native.items() for problem in _type_problems(name, given[name], array, first, dtype)]
    if problems:
        raise DescError(subject, problems)
    return home, native


def _numpy_home(arrays: Mapping[str, Array], device: Device | str | None) -> Home | None:
    """The home of arrays of NumPy without any problem; None for others. A small layer takes less time than the other checks."""
    dtypes = {array.dtype if type(array) is np.ndarray else None for array in arrays.values()}
    if len(dtypes) > 1 or dtypes.isdisjoint(_NUMPY_FLOATS):
        return None
    chosen = find_device("cpu" if device is None else device)
    return Home(chosen, np, _same) if chosen.memory_kind == "cpu" else None


def _receive_tensors(arrays: Mapping[str, Array], device: Device | str | None) -> tuple[Home, dict[str, Native]] | None:
    """The same for PyTorch's tensors in host memory, with their arrays: by DLPack they take ten times as long."""
    torch = sys.modules.get("torch")
    if torch is None:
        return None
    kinds = (torch.Tensor, torch.nn.Parameter)
    dtypes = {array.dtype if type(array) in kinds else None for array in arrays.values()}
    if len(dtypes) > 1 or dtypes.isdisjoint((torch.float32, torch.float16)):
        return None
    try:
        native = {name: array.numpy() for name, array in arrays.items()}
    except (RuntimeError, TypeError):  # they lie elsewhere, or need a gradient: the other checks report it
        return None
    chosen = find_device("cpu" if device is None else device)
    return (Home(chosen, np, torch.from_numpy), native) if chosen.memory_kind == "cpu" else None


def _same(native: Native) -> Array:
    return native


def _place(array: Any) -> tuple[int, int] | None:
    """DLPack's kind of memory and the device's number; None for what is not an array."""
    if isinstance(array, np.ndarray):
        return None if isinstance(array, np.ma.MaskedArray) else (_CPU, 0)
    return dlpack_device(array)


def _named(place: tuple[int, int]) -> str:
    kind, number = place
    return {_CPU: "the CPU", _CUDA: f"cuda:{number}"}.get(kind, f"a DLPack device of type {kind}")


def _home(array: Any, place: tuple[int, int], device: Device | str | None) -> Home:
    kind, number = place
    chosen = find_device(device if device is not None else "cpu" if kind == _CPU else f"cuda:{number}")
    if (chosen.memory_kind == "cpu") != (kind == _CPU):
        why = (f"the arrays are on {_named(place)}",)
        raise DescError("device", [Problem("array.device", "device", chosen.name, f"a device for memory of {_named(place)}", why)])
    xp: Any = np
    if kind == _CUDA:
        import cupy

        xp = cupy
    return Home(chosen, xp, _wrapping(array, xp))


def _wrapping(array: Any, xp: Any) -> Callable[[Native], Array]:
    if isinstance(array, xp.ndarray):
        return _same
    if holds_bfloat16(array) and (torch := sys.modules.get("torch")) is not None and isinstance(array, torch.Tensor):
        return partial(tensor_of, torch)
    namespace = getattr(array, "__array_namespace__", None)
    library = namespace() if callable(namespace) else sys.modules.get(type(array).__module__.partition(".")[0])
    importer = getattr(library, "asarray" if holds_bfloat16(array) else "from_dlpack", None)  # NumPy does not give bfloat16 by DLPack
    return importer if callable(importer) else _same


def _native(array: Any, xp: Any) -> Native:
    if isinstance(array, xp.ndarray):
        return array
    array = resolved(array)
    return bfloat16_array(array) if xp is np and holds_bfloat16(array) else xp.from_dlpack(array)


def _unshared(name: str, array: Any, error: Exception) -> Problem:
    remedy = None
    if getattr(array, "requires_grad", False):
        remedy = f"pass {name}.detach(), or use dmlpy.torch, which PyTorch's autograd differentiates"
    why = (f"{type(error).__name__}: {error}",)
    return Problem("array.kind", name, f"a {type(array).__name__} whose memory cannot be shared", _FORM, why, remedy)


def _type_problems(name: str, given: Any, array: Native, first: str, dtype: Any) -> list[Problem]:
    if array.dtype.name not in FLOATS:
        remedy = None
        if isinstance(array, np.ndarray) and array.dtype.kind == "f":
            remedy = f"convert it: {name}.astype(numpy.float32)"
        elif array.dtype == np.uint16:
            remedy = f"if its elements are the bits of BFLOAT16, view it: {name}.view(ml_dtypes.bfloat16)"
        return [Problem("type.support", name, str(array.dtype), "float32, float16 or bfloat16", remedy=remedy)]
    if array.dtype != dtype and dtype.name in FLOATS:
        method = next((method for method in ("astype", "to") if hasattr(given, method)), None)
        remedy = f"convert it: {name}.{method}({first}.dtype)" if method else None
        return [Problem("type.equal", name, str(array.dtype), str(dtype), (f"{first} is {dtype}",), remedy)]
    return []


def _remedy(array: Any) -> str | None:
    if isinstance(array, np.ma.MaskedArray):
        return "masked arrays are not supported: give what stands for masked elements, as by .filled(0)"
    if any(kind.__name__ == "Tracer" for kind in type(array).__mro__):  # of JAX
        return "a tracer has no memory: within jax.jit and jax.grad, call the function by jax.pure_callback"
    return "make it an array: numpy.asarray(..., numpy.float32)" if is_convertible(array) else None


def receive_lengths(subject: str, lengths: Any, home: Home, batch: int, steps: int) -> Native:
    """The sequence lengths as uint32 [batch] in the device's memory.

    Args:
        subject: the function's name, for messages.
        lengths: a list, or an array of integers of any library. Those in host memory are checked; on a GPU that would synchronise, and
            there numbers outside of the range count as `steps`.
        home: the call's.
        batch: the number of sequences.
        steps: the longest that there may be.

    Raises:
        DescError: not integers, another number of them, or lengths outside of [0, steps].
    """
    expected = f"{batch} integers from 0 to {steps}"
    place = _place(lengths)
    try:
        on_gpu = place is not None and place[0] == _CUDA and home.device.memory_kind != "cpu"
        received = _native(lengths, home.xp) if on_gpu else _host(lengths)
    except Exception as error:  # what is given may be anything
        raise DescError(subject, [Problem("array.kind", "lengths", brief(lengths), expected, (str(error),))]) from None
    if received.dtype.kind not in "iu":
        raise DescError(subject, [Problem("array.type", "lengths", str(received.dtype), expected)])
    if received.shape != (batch,):
        why = (f"x has {batch} sequences: its sizes are [steps, batch, input size]",)
        raise DescError(subject, [Problem("array.shape", "lengths", str(list(received.shape)), f"[{batch}]", why)])
    if on_gpu:
        return home.xp.clip(home.xp.where(received < 0, steps, received), 0, steps).astype(np.uint32)
    if batch and (problems := value_problems("lengths", received, steps, "the number of steps of x")):
        raise DescError(subject, problems)
    return home.xp.asarray(received.astype(np.uint32))


def _host(lengths: Any) -> np.ndarray[Any, Any]:
    if hasattr(lengths, "__dlpack__") and not isinstance(lengths, np.ndarray):
        return np.from_dlpack(resolved(lengths))
    array = np.asarray(lengths)
    return array if array.size else array.astype(np.int64)
