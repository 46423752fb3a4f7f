"""Lists the public names once: `python -m dmlpy.x.stubs` writes the `.pyi` files that type checkers and lazy imports read.

It also writes the functions of `dmlpy.x`, which follow from the operators' classes.

Operators and enumerations are found in their modules; the rest is `PUBLIC`. After a new operator or a merge conflict in a `.pyi` file (take
either side), run it again. `--check` writes nothing and fails if a file is not current.
"""

from __future__ import annotations

import sys
from enum import EnumType
from pathlib import Path
from typing import TYPE_CHECKING

from dmlpy.description import enums
from dmlpy.description.registry import OPERATORS
from dmlpy.directml import typed
from dmlpy.system.files import write_text
from dmlpy.x import generation

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

PUBLIC: Mapping[str, tuple[str, ...]] = {
    "dmlpy.description.arrays": ("Buffer",),
    "dmlpy.reference.evaluation": ("reference",),
    "dmlpy.validation.checking": ("check", "lowest_level"),
    "dmlpy.inspection.explain": ("Explanation", "explain"),
    "dmlpy.comparison": ("Comparison", "NodeDifference", "compare"),
    "dmlpy.compiler": ("compile",),
    "dmlpy.description.descs": ("OperatorDesc",),
    "dmlpy.devices.device": ("Device", "device", "list_devices"),
    "dmlpy.devices.dispatch": ("Dispatch",),
    "dmlpy.devices.graphs.compiled": ("CompiledGraph", "PreparedGraph"),
    "dmlpy.devices.graphs.report": ("GraphReport",),
    "dmlpy.devices.initializer": ("OperatorInitializer",),
    "dmlpy.devices.operator": ("CompiledOperator", "PreparedOperator"),
    "dmlpy.devices.plan": ("BindingProperties",),
    "dmlpy.devices.reporting.profile": ("Profile", "ProfiledNode"),
    "dmlpy.devices.reporting.report": ("PlanReport",),
    "dmlpy.devices.memory.reserve": ("Reserve",),
    "dmlpy.validation.features": (
        "FeatureDataFeatureLevels",
        "FeatureDataTensorDataTypeSupport",
        "FeatureQueryFeatureLevels",
        "FeatureQueryTensorDataTypeSupport",
        "check_feature_support",
    ),
    "dmlpy.graphs.builder": ("GraphBuilder",),
    "dmlpy.description.int4": ("pack_int4", "unpack_int4"),
    "dmlpy.graphs.graph": ("Graph",),
    "dmlpy.graphs.nodes": ("ConstantNode", "InputEdge", "IntermediateEdge", "OperatorNode", "OutputEdge"),
    "dmlpy.graphs.serialized": ("load_serialized",),
    "dmlpy.operators.activation": ("ActivationDesc",),
    "dmlpy.operators.recurrent.block_cell": ("gru_block_cell_weight_gradients",),
    "dmlpy.operators.recurrent.layer": ("RecurrentDesc",),
    "dmlpy.operators.recurrent.params": (
        "ParamsLayout",
        "canonical_to_params",
        "params_size",
        "params_to_canonical",
        "params_to_weights_and_biases",
        "weights_and_biases_to_params",
    ),
    "dmlpy.messages.hresult": ("HResult",),
    "dmlpy.messages.problems": (
        "BindError",
        "CompileError",
        "DescError",
        "DeviceError",
        "DispatchError",
        "DmlError",
        "PickleError",
        "Problem",
    ),
    "dmlpy.description.outputs": ("Outputs",),
    "dmlpy.description.tensors": ("TensorDesc",),
    "dmlpy.description.value_structs": ("ScaleBias", "Size2D"),
}
"""The public names that are neither operators nor enumerations, by module."""

X: Mapping[str, tuple[str, ...]] = {
    "dmlpy.x.composition": ("compile", "graph"),
    "dmlpy.x.expressions": ("Expression", "constant", "input", "operator"),
    "dmlpy.x.source_locations": ("name_scope",),
    "dmlpy.x.policies": ("TensorPolicy", "tensor_policy"),
}
"""The public names of `dmlpy.x` other than the operators' functions, by module."""

ONNX: Mapping[str, tuple[str, ...]] = {
    "dmlpy.onnx.runtime.compiled": ("CompiledModel",),
    "dmlpy.onnx.exporting.graph_export": ("export",),
    "dmlpy.onnx.lowering.node_records": ("NodeRecord",),
    "dmlpy.onnx.loading.limits": ("Limits",),
    "dmlpy.onnx.model": ("Model", "load"),
    "dmlpy.onnx.reporting.causes": ("Cause",),
    "dmlpy.onnx.reporting.partitions": ("Partition",),
    "dmlpy.onnx.runtime.plans": ("ModelComparison", "ModelPlan"),
    "dmlpy.onnx.reporting.report": ("Report",),
    "dmlpy.onnx.reporting.work": ("Border", "Work"),
    "dmlpy.onnx.loading.values": ("Value",),
}
"""The public names of `dmlpy.onnx`, by module."""

_MODULES = ("eager", "x")
"""The modules that are attributes of `dmlpy` without an import of their own."""

_ROOT = Path(__file__).parents[1]
_HEAD = "# Written by `python -m dmlpy.x.stubs`: do not edit."


def texts() -> dict[Path, str]:
    """The text of each generated file."""
    operators = {kind.__name__: kind.__module__ for kind in OPERATORS.values()}
    enumerations = [kind for kind in vars(enums).values() if isinstance(kind, EnumType) and kind.__module__ == enums.__name__ and len(kind)]
    public = {name: module for module, listed in PUBLIC.items() for name in listed}
    public |= {kind.__name__: kind.__module__ for kind in enumerations} | operators
    functions = {name: module for module, listed in X.items() for name in listed}
    functions |= {name: f"dmlpy.x.{module}" for name, module in generation.names().items()}
    return {
        _ROOT / "__init__.pyi": _stub("dmlpy", public | dict.fromkeys(_MODULES, "dmlpy."), ["__version__: str"]),
        _ROOT / "operators" / "__init__.pyi": _stub("dmlpy.operators", operators),
        _ROOT / "directml" / "__init__.pyi": typed.stub(),
        _ROOT / "x" / "__init__.pyi": _stub("dmlpy.x", functions),
        _ROOT / "eager" / "__init__.pyi": generation.eager_stub(),
        _ROOT / "onnx" / "__init__.pyi": _stub("dmlpy.onnx", {name: module for module, listed in ONNX.items() for name in listed}),
        **{_ROOT / "x" / "functions" / f"{family}.py": text for family, text in generation.modules().items()},
    }


def _stub(package: str, modules: Mapping[str, str], more: Iterable[str] = ()) -> str:
    # A name that is imported as itself is exported: type checkers and lazy_loader take it so.
    names = sorted((module.removeprefix(package), name) for name, module in modules.items())
    imports = [f"from {module} import {name} as {name}" for module, name in names]
    listed = ["__all__ = [", *(f'    "{name}",' for name in sorted(modules)), "]"]
    return "\n".join([_HEAD, *imports, *more, *listed]) + "\n"


def main(arguments: list[str]) -> int:
    """Writes the files, or with `--check` reports which are out of date; returns the exit status."""
    contents = texts()
    stale = [path for path, text in contents.items() if not path.is_file() or path.read_text(encoding="utf-8") != text]
    for path in stale:
        if "--check" in arguments:
            print(f"{path.relative_to(_ROOT.parent)} is not current: run python -m dmlpy.x.stubs")
        else:
            write_text(path, contents[path])
    return 1 if stale and "--check" in arguments else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
