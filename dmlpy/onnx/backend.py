"""dmlpy as a backend in ONNX's sense (`onnx.backend.base`), so that its test runner and other programs drive it.

import dmlpy.onnx.backend as backend

outputs = backend.prepare(model, "CPU").run([x])
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from onnx import defs, helper
from onnx.backend.base import Backend, BackendRep, Device, DeviceType, namedtupledict

from dmlpy.devices import list_devices
from dmlpy.messages.problems import DmlError
from dmlpy.onnx.loading.elements import element_of_array
from dmlpy.onnx.loading.schemas import domain_of
from dmlpy.onnx.model import load

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto

    from dmlpy.onnx.runtime.compiled import CompiledModel


class DmlpyRep(BackendRep):
    """A prepared model."""

    def __init__(self, compiled: CompiledModel) -> None:
        self.compiled = compiled

    def run(self, inputs: Any, **kwargs: Any) -> Any:
        """The outputs, as a tuple that can also be indexed by their names.

        Args:
            inputs: arrays in the order of the model's inputs, by their names, or one array.
            **kwargs: ignored.
        """
        names = [*self.compiled.model.inputs]
        if not isinstance(inputs, Mapping):
            given = inputs if isinstance(inputs, list | tuple) else [inputs]
            inputs = dict(zip(names, given, strict=False))
        found = self.compiled.run(inputs)
        return namedtupledict("Outputs", [*found])(*found.values())


class DmlpyBackend(Backend):
    """Runs ONNX models with dmlpy."""

    @classmethod
    def is_compatible(cls, model: ModelProto, device: str = "CPU", **kwargs: Any) -> bool:
        """Whether every node of a model runs, on DirectML's operators or on the host."""
        try:
            problems = load(model).interpretation().problems
        except DmlError:
            return False
        return cls.supports_device(device) and not problems

    @classmethod
    def prepare(cls, model: ModelProto, device: str = "CPU", **kwargs: Any) -> DmlpyRep:
        """Compiles a model.

        Args:
            model: the model.
            device: `CPU` for the device numpy, `CUDA` or `CUDA:1` for a GPU.
            **kwargs: for `dmlpy.onnx.Model.compile`.

        Raises:
            DmlError: the model is rejected, or there is no such device.
        """
        return DmlpyRep(load(model).compile(_name(device), **kwargs))

    @classmethod
    def run_model(cls, model: ModelProto, inputs: Any, device: str = "CPU", **kwargs: Any) -> Any:
        """Compiles a model and runs it once."""
        return cls.prepare(model, device, **kwargs).run(inputs)

    @classmethod
    def run_node(cls, node: NodeProto, inputs: Any, device: str = "CPU", outputs_info: Any = None, **kwargs: Any) -> Any:
        """Runs one node.

        Args:
            node: the node.
            inputs: its inputs in order.
            device: as for `prepare`.
            outputs_info: ignored.
            **kwargs: `opset_version`, the version of ONNX's operators; the others are for `prepare`.
        """
        opset = kwargs.pop("opset_version", defs.onnx_opset_version())
        arrays = [np.asarray(array) for array in inputs]
        names = [name for name in node.input if name]
        given = [
            helper.make_tensor_value_info(name, element_of_array(array), array.shape) for name, array in zip(names, arrays, strict=True)
        ]
        results = [helper.make_empty_tensor_value_info(name) for name in node.output if name]
        graph = helper.make_graph([node], node.op_type, given, results)
        imports = [helper.make_opsetid("", opset)]
        if domain_of(node.domain):
            imports.append(helper.make_opsetid(node.domain, 1))
        return cls.run_model(helper.make_model(graph, opset_imports=imports), arrays, device, **kwargs)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Whether a device is available: `CPU`, or `CUDA` with a usable GPU."""
        try:
            name = _name(device)
        except ValueError:
            return False
        return name == "cpu" or any(found.memory_kind == "cuda" for found in list_devices())


def _name(device: str) -> str:
    """dmlpy's name of an ONNX device."""
    try:
        found = Device(device)
    except (AttributeError, ValueError):
        raise ValueError(f"{device!r} is not a device of ONNX: CPU, CUDA, CUDA:1") from None
    return "cpu" if found.type == DeviceType.CPU else f"cuda:{found.device_id}"


is_compatible = DmlpyBackend.is_compatible
prepare = DmlpyBackend.prepare
run_model = DmlpyBackend.run_model
run_node = DmlpyBackend.run_node
supports_device = DmlpyBackend.supports_device
