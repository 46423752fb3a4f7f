"""Members that classes of other libraries have: reading one raises an AttributeError that names its counterpart here.

They are descriptors of the class and not `__getattr__`, which would make every other attribute slower: a bound dispatch by an eighth. For a
name that is spelled almost like one that exists, Python's traceback names that one by itself.
"""

from __future__ import annotations

from inspect import getattr_static
from typing import Any, NoReturn, TypeVar

Kind = TypeVar("Kind", bound=type[Any])

_CALL = "call it: {}(...), or bind it for many dispatches: {}.bind(...)"
_RUNS = ("run", "execute", "dispatch", "forward", "predict", "evaluate", "apply", "infer")
_PREPARES = ("initialize", "init", "load_weights", "pack")
_COMPILES = (
    *("compile", "create_operator", "compile_operator", "compile_graph", "create_graph", "run", "execute", "dispatch", "eval"),
    *("CreateOperator", "CompileOperator", "CompileGraph"),
)
_BINDINGS = (
    *("set_input", "set_inputs", "set_output", "bind_inputs", "bind_outputs", "create_binding_table", "binding_table"),
    *("BindInputs", "BindOutputs", "BindTemporaryResource", "BindPersistentResource", "Reset"),
)


def _compiled(name: str, described: str) -> dict[str, str]:
    return {
        **dict.fromkeys(_RUNS, _CALL.format(name, name)),
        **dict.fromkeys(_PREPARES, f"{name}.prepare(...) packs constants once"),
        **dict.fromkeys(_BINDINGS, f"{name}.bind(inputs, outputs) makes a dispatch, whose rebind replaces single bindings"),
        **dict.fromkeys(("GetBindingProperties", "get_binding_properties"), f"{name}.binding_properties"),
        **dict.fromkeys(("compile", "to", "cuda", "cpu"), f"it is compiled; for another device: dmlpy.compile({described}, device)"),
    }


_TENSORS = "{}.desc.input_tensor and the other members of its desc describe the tensors"
_OF_ARRAYS = {
    **dict.fromkeys(("shape", "size"), "{}.sizes has the elements along each dimension"),
    "dtype": "{0}.data_type, or {0}.data_type.numpy as a type of NumPy",
    **dict.fromkeys(("ndim", "rank", "dim"), "len({}.sizes)"),
    "strides": "{}.tensor.strides",
    **dict.fromkeys(("permute", "swapaxes"), "{}.transpose(...) takes the new order of the dimensions"),
    "T": "{}.transpose()",
    **dict.fromkeys(("view", "flatten", "ravel", "squeeze", "unsqueeze"), "{}.reshape(...)"),
    **dict.fromkeys(("expand", "broadcast_to"), "{}.broadcast(...)"),
    **dict.fromkeys(("astype", "to", "cast", "float", "half"), "dmlpy.x.cast({}, output_data_type=...)"),
    **dict.fromkeys(("sum", "mean", "max", "min", "prod"), "dmlpy.x.reduce({}, function=..., axes=[...])"),
    **dict.fromkeys(("relu", "sigmoid", "tanh", "softmax"), "a function of dmlpy.x, such as dmlpy.x.activation_relu({})"),
    **dict.fromkeys(("matmul", "dot"), "{} @ other, or dmlpy.x.gemm"),
    **dict.fromkeys(("numpy", "eval", "run", "execute"), "it has no elements before it runs: {}.compile(device)(...)"),
}
HINTS: dict[str, dict[str, str]] = {
    "Device": {
        **dict.fromkeys(_COMPILES, "dmlpy.compile(desc, device) compiles a desc or a graph, and what it returns is called"),
        **dict.fromkeys(("check", "validate"), "dmlpy.check(desc, feature_level) checks a desc or a graph"),
        **dict.fromkeys(("sync", "synchronise", "wait", "flush", "finish"), "device.synchronize()"),
        **dict.fromkeys(("array", "asarray", "from_numpy", "to_device", "put", "tensor"), "device.from_host(array)"),
        **dict.fromkeys(("to_numpy", "get", "download", "from_device"), "device.to_host(array)"),
        **dict.fromkeys(("zeros", "ones", "create_buffer", "malloc"), "device.from_host(array) or device.empty(...) allocates"),
        **dict.fromkeys(("type", "kind", "index", "id"), "device.name and device.memory_kind say what it is"),
        **dict.fromkeys(("feature_level", "feature_levels"), "every device supports all levels: dmlpy.compile takes feature_level="),
        **dict.fromkeys(("close", "release", "reset", "free"), "there is nothing to close: a device lives as long as the process"),
        **dict.fromkeys(
            ("CheckFeatureSupport", "check_feature_support"), "dmlpy.check_feature_support(feature, query, feature_level)"
        ),
        **dict.fromkeys(
            ("CreateCommandRecorder", "CreateBindingTable", "create_command_recorder", "create_binding_table"),
            "dmlpy.CompiledOperator.bind makes a dispatch to call",
        ),
        **dict.fromkeys(
            ("CreateOperatorInitializer", "create_operator_initializer"),
            "dmlpy.OperatorInitializer(targets), or dmlpy.CompiledOperator.prepare",
        ),
        **dict.fromkeys(("GetDeviceRemovedReason", "get_device_removed_reason"), "the call that fails raises dmlpy.DeviceError"),
    },
    "CompiledOperator": {
        **_compiled("op", "op.desc"),
        **dict.fromkeys(("inputs", "outputs", "input_names", "output_names", "tensors"), _TENSORS.format("op")),
    },
    "PreparedOperator": {
        **_compiled("prepared", "prepared.desc"),
        **dict.fromkeys(("inputs", "outputs", "input_names", "output_names", "tensors"), _TENSORS.format("prepared")),
        **dict.fromkeys(
            (*_PREPARES, "prepare"), "it is prepared; prepare the operator again for other constants: prepared.operator.prepare(...)"
        ),
    },
    "Dispatch": {
        **dict.fromkeys((*_RUNS, "launch", "record", "submit", "enqueue"), "call it: dispatch(), or on a GPU dispatch(stream)"),
        **dict.fromkeys(_BINDINGS, "dispatch.rebind(input_tensor=...) replaces single bindings"),
        **dict.fromkeys(("outputs", "result", "results"), "it writes the arrays that it was bound to"),
    },
    "CompiledGraph": {
        **_compiled("compiled", "compiled.graph"),
        "nodes": "compiled.graph.nodes, or compiled.plan, the steps that run",
        **dict.fromkeys(("input_names", "get_inputs"), "compiled.inputs has the tensors by name"),
        **dict.fromkeys(("output_names", "get_outputs"), "compiled.outputs has the tensors by name"),
        **dict.fromkeys(("save", "export", "to_onnx"), "dmlpy.onnx.export(compiled) makes an ONNX model, compiled.graph.to_json() a text"),
    },
    "PreparedGraph": {
        **_compiled("prepared", "prepared.graph"),
        **dict.fromkeys((*_PREPARES, "prepare"), "it is prepared; prepare the compiled graph again for other constants"),
    },
    "GraphDispatch": {
        **dict.fromkeys((*_RUNS, "launch", "record", "submit", "enqueue"), "call it: dispatch(), or on a GPU dispatch(stream)"),
        **dict.fromkeys(_BINDINGS, "dispatch.rebind(name=...) replaces single bindings"),
        **dict.fromkeys(("outputs", "result", "results"), "it writes the arrays that it was bound to"),
    },
    "GraphBuilder": {
        **dict.fromkeys(("add_node", "node", "add_operator", "operator", "append"), "builder.add(dmlpy.GEMMDesc, name, a_tensor=..., ...)"),
        **dict.fromkeys(("add_input", "inputs", "placeholder"), "builder.input(name, tensor_desc)"),
        **dict.fromkeys(("add_output", "outputs", "set_output"), "builder.output(name, value)"),
        **dict.fromkeys(("add_constant", "initializer", "weight"), "builder.constant(name, array)"),
        **dict.fromkeys(("add_edge", "connect"), "edges follow from the values that builder.add is given"),
        **dict.fromkeys(("graph", "finish", "finalize"), "builder.build() returns the graph"),
        **dict.fromkeys(("compile", "run", "check"), "build it first: dmlpy.compile(builder.build(), device)"),
    },
    "Expression": {name: hint.format(*["expression"]) for name, hint in _OF_ARRAYS.items()},
    "Model": {
        **dict.fromkeys(("run", "predict", "execute", "forward"), "compile it first: model.compile(device)({name: array})"),
        **dict.fromkeys(("check", "validate", "nodes", "operators"), "model.report() says where each node runs, and why"),
        **dict.fromkeys(("graph", "proto", "model_proto"), "model.graphs has its graphs of operators; onnx.load reads the ModelProto"),
        **dict.fromkeys(("optimize", "simplify"), "compile fuses and plans it: model.compile(device)"),
        **dict.fromkeys(("get_inputs", "input_names"), "model.inputs has them by name"),
        **dict.fromkeys(("get_outputs", "output_names"), "model.outputs has their names"),
        **dict.fromkeys(("save", "export"), "onnx.save writes the ModelProto that onnx.load read; dmlpy.onnx.export writes graphs"),
    },
    "CompiledModel": {
        **dict.fromkeys(("predict", "execute", "forward", "infer"), "call it: compiled({name: array}), or compiled.run(names, arrays)"),
        **dict.fromkeys(("get_inputs", "inputs", "input_names"), "compiled.model.inputs has them by name"),
        **dict.fromkeys(("get_outputs", "outputs", "output_names"), "compiled.model.outputs has their names"),
        **dict.fromkeys(("report", "graphs", "nodes"), "compiled.model.report() and compiled.model.graphs"),
        **dict.fromkeys(("bind", "io_binding"), "it is called with arrays; the graphs in compiled.model.graphs can be bound"),
        "get_providers": "compiled.device",
    },
    "Sequential": {
        **dict.fromkeys(("export", "to_onnx"), "dmlpy.onnx.export(model.to_graph()) makes an ONNX model"),
        **dict.fromkeys(("to_json", "get_config"), "save writes layers and weights, for load_model"),
        "pop": "make a Sequential of other layers, as of model.layers[:-1]",
        "fit_generator": "fit takes a generator",
        "predict_classes": "model.predict(x).argmax(-1)",
    },
    "DmlError": {
        **dict.fromkeys(("message", "msg", "reason"), "str(error) is the text"),
        **dict.fromkeys(("problem", "errors", "violations", "code"), "error.problems lists the problems, each with its code"),
    },
}  # fmt: skip
"""The counterparts of members that other libraries have, by class and name."""


RUNNING = frozenset({*_RUNS, "eval"})
"""Names of methods that run something."""


class Instead:
    """A member that a class lacks.

    Args:
        name: the member.
        hint: its counterpart.
    """

    def __init__(self, name: str, hint: str) -> None:
        self.name = name
        self.hint = hint

    def __get__(self, instance: object, owner: type) -> NoReturn:
        raise AttributeError(f"{owner.__name__!r} object has no attribute {self.name!r}: {self.hint}", name=self.name, obj=instance)


def foreign_members(kind: Kind) -> Kind:
    """Decorates a class of `HINTS`: its members there answer with their counterparts, and `dir` does not list them."""
    for name, hint in HINTS[kind.__name__].items():
        setattr(kind, name, Instead(name, hint))

    def listed(self: object) -> list[str]:
        return [name for name in object.__dir__(self) if not isinstance(getattr_static(type(self), name, None), Instead)]

    kind.__dir__ = listed  # type: ignore[assignment]
    return kind
