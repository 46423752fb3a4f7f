"""Random stacked networks, ways to run them and their gradients on a device, and PyTorch's results of some."""

from __future__ import annotations

import ctypes
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

import dmlpy as dml
from dmlpy.operators.recurrent.cudnn import CudnnRNNDesc
from tests.support.folders import STORED_CASES
from tests.support.tolerance import assert_close

Array = np.ndarray[Any, np.dtype[Any]]
Arrays = dict[str, Array]
Mode = Literal["rnn_relu", "rnn_tanh", "lstm", "gru"]
MODES: tuple[Mode, ...] = ("rnn_relu", "rnn_tanh", "lstm", "gru")


class Network(NamedTuple):
    """A desc with all outputs, and its inputs."""

    desc: dml.CudnnRNNV3Desc
    arrays: Arrays

    @property
    def layout(self) -> dml.ParamsLayout:
        return self.desc.params_layout()

    def transposed(self) -> Network:
        """The same network with time and batch in the other order."""
        return described(
            {name: swapped(name, array) for name, array in self.arrays.items()}, self.desc, time_major=not self.desc.time_major
        )

    def of(self, **arrays: Array) -> Network:
        """With other arrays."""
        return Network(self.desc, self.arrays | arrays)


def swapped(name: str, array: Array) -> Array:
    """An array of a network with time or stacked directions and batch in the other order."""
    return np.ascontiguousarray(array.swapaxes(0, 1)) if array.ndim == 3 else array


def described(arrays: Mapping[str, Array], like: dml.CudnnRNNV3Desc | None = None, **attributes: Any) -> Network:
    """The network of these inputs, with the attributes of another one and those given."""
    given = {} if like is None else {name: getattr(like, name) for name in like.attribute_names()}
    tensors = {name: dml.TensorDesc.of(array) for name, array in arrays.items()}
    desc = dml.CudnnRNNV3Desc(**tensors, **given | attributes).with_outputs()
    assert dml.check(desc) == []
    return Network(desc, dict(arrays))


def network(
    rng: np.random.Generator,
    mode: Mode = "lstm",
    *,
    layers: int = 2,
    directions: int = 2,
    steps: int = 5,
    batch: int = 3,
    inputs: int = 4,
    units: int = 6,
    num_proj: int = 0,
    lengths: Sequence[int] | None = None,
    offset: int | None = None,
    dtype: Any = np.float32,
    **attributes: Any,
) -> Network:
    """A network with random inputs and parameters, time first."""

    def random(*sizes: int) -> Array:
        return rng.standard_normal(sizes).astype(dtype)

    state = num_proj or units
    skips = attributes.get("input_mode") == "skip_input" or (attributes.get("input_mode") == "auto_select" and inputs == units)
    layout = dml.ParamsLayout(mode, layers, units, inputs, directions == 2, num_proj, skips)
    arrays = {"input": random(steps, batch, inputs), "input_h": random(layers * directions, batch, state)}
    if mode == "lstm":
        arrays["input_c"] = random(layers * directions, batch, units)
    arrays["params"] = (0.5 * random(layout.size)).astype(dtype)
    if lengths is not None:
        arrays["sequence_lengths"] = np.array(lengths, np.int32)
    if offset is not None:
        arrays["dropout_offset"] = np.array([offset], np.uint64)
    direction = "bidirectional" if directions == 2 else "unidirectional"
    return described(arrays, rnn_mode=mode, direction=direction, num_proj=num_proj, **attributes)


def upstream(rng: np.random.Generator, desc: dml.CudnnRNNBackpropV3Desc, dtype: Any = None) -> Arrays:
    """Random upstream gradients for all that the gradient takes."""
    names = ("output_backprop", "output_h_backprop", "output_c_backprop")
    tensors = {name: tensor for name, tensor in desc.tensors().items() if name in names}
    return {name: rng.standard_normal(tensor.sizes).astype(dtype or tensor.data_type.numpy) for name, tensor in tensors.items()}


def gradient_inputs(net: Network, desc: dml.CudnnRNNBackpropV3Desc) -> Arrays:
    """Those inputs of the network that its gradient takes too."""
    return {name: array for name, array in net.arrays.items() if name in desc.tensors()}


# on a device


def poisoned(device: dml.Device, desc: dml.TensorDesc) -> Any:
    """Memory for a tensor in which every float is a NaN, between its elements too."""
    array = device.empty(desc, device.current_stream())
    pointer = device.view(array).pointer
    if device.memory_kind == "cpu":
        ctypes.memset(pointer, 0xFF, desc.extent_in_bytes)
    else:
        device.runtime.memset(pointer, 0xFF, desc.extent_in_bytes, device.current_stream())  # type: ignore[attr-defined]
    return array


def run(device: dml.Device, desc: CudnnRNNDesc, arrays: Mapping[str, Any]) -> dict[str, Any]:
    """One call into poisoned outputs: NumPy arrays, and the reserve as it is."""
    op = dml.compile(desc, device)
    outputs = {field.name: poisoned(device, tensor) for field in desc.outputs() if (tensor := getattr(desc, field.name)) is not None}
    results = op(**arrays, **outputs, copy=True).as_dict()
    return {name: value if isinstance(value, dml.Reserve) else np.array(device.to_host(value)) for name, value in results.items()}


def gradients(device: dml.Device, net: Network, given: Arrays, desc: dml.CudnnRNNBackpropV3Desc | None = None) -> dict[str, Any]:
    """All outputs of the network, and its gradients under the given upstream ones."""
    desc = desc or net.desc.gradient()
    results = run(device, net.desc, net.arrays)
    return results | run(device, desc, gradient_inputs(net, desc) | given | {"reserve_space": results["reserve_space"]})


# stored cases


class TorchCase(NamedTuple):
    """A network with what PyTorch gives for it, parameters in one buffer."""

    network: Network
    upstream: Arrays
    outputs: Arrays


def torch_cases() -> list[str]:
    """The names of these cases."""
    return [entry["case"] for entry in json.loads((STORED_CASES / "index.json").read_text()) if entry["case"].startswith("torch_")]


def torch_case(name: str) -> TorchCase:
    """One of them."""
    attributes = next(entry["attributes"] for entry in json.loads((STORED_CASES / "index.json").read_text()) if entry["case"] == name)
    with np.load(STORED_CASES / f"{name}.npz") as file:
        source = {key: file[key] for key in file.files}
    inputs = {key.removeprefix("in."): array for key, array in source.items() if key.startswith("in.")}
    outputs = {key.removeprefix("out."): array for key, array in source.items() if key.startswith("out.")}
    mode, layers, projected = attributes["rnn_mode"], attributes.pop("num_layers"), attributes["num_proj"]
    units = inputs["input_c" if mode == "lstm" else "input_h"].shape[2]
    bidirectional = attributes["direction"] == "bidirectional"
    layout = dml.ParamsLayout(mode, layers, units, inputs["input"].shape[2], bidirectional, projected)

    def flat(arrays: Arrays, prefix: str) -> Array:
        named = {key.removeprefix(prefix): arrays.pop(key) for key in list(arrays) if key.startswith(prefix)}
        buffer: Array = dml.canonical_to_params(named, layout)
        return buffer

    inputs["params"] = flat(inputs, "param.")
    outputs["params_backprop"] = flat(outputs, "param_backprop.")
    given = {key: inputs.pop(key) for key in list(inputs) if key.endswith("_backprop")}
    return TorchCase(described(inputs, **attributes), given, outputs)


TERMS = 100
"""Of the sums in these networks, the layers' taken together."""


def values(results: dict[str, Any]) -> Arrays:
    """The results but the reserve."""
    return {name: value for name, value in results.items() if name not in ("reserve_space", "host_reserved")}


def by_block(results: dict[str, Any], layout: dml.ParamsLayout) -> Iterator[tuple[str, Array]]:
    """Results by name; the gradient of the parameters as its blocks."""
    for name, value in values(results).items():
        if name == "params_backprop":
            yield from dml.params_to_canonical(value, layout).items()
        else:
            yield name, value


def check(results: dict[str, Any], expected: Arrays, layout: dml.ParamsLayout, dtype: Any = np.float32) -> None:
    wanted = dict(by_block(expected, layout))
    found = dict(by_block(results, layout))
    assert found.keys() == wanted.keys()
    for name, value in found.items():
        assert_close(value, wanted[name], dtype, terms=TERMS, what=name)


def same(first: dict[str, Any], second: dict[str, Any]) -> None:
    """The same bits."""
    assert values(first).keys() == values(second).keys()
    for name, value in values(first).items():
        np.testing.assert_array_equal(value, second[name], err_msg=name)


def reference(net: Network, given: Arrays, desc: dml.CudnnRNNBackpropV3Desc | None = None) -> Arrays:
    """Outputs and gradients in float64."""
    desc = desc or net.desc.gradient()
    results = dml.reference(net.desc, net.arrays).as_dict()
    arrays = gradient_inputs(net, desc) | given | {"reserve_space": results["reserve_space"]}
    return values(results | dml.reference(desc, arrays).as_dict())


def check_torch(any_device: dml.Device, name: str) -> None:
    case = torch_case(name)
    check(gradients(any_device, case.network, case.upstream), case.outputs, case.network.layout)
