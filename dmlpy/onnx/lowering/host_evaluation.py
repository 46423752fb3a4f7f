"""Runs nodes on the host with ONNX's reference implementation: constants ahead of time, and nodes that DirectML does not express."""

from __future__ import annotations

import json
import threading
import warnings
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from onnx import NodeProto, TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun
from onnx.reference.ops.op_cast import cast_to

from dmlpy.messages.naming import listed
from dmlpy.messages.problems import DeviceError, Problem
from dmlpy.onnx.domains.host_operators import find_host_operator
from dmlpy.onnx.loading.schemas import schema_of
from dmlpy.onnx.lowering.integer_reductions import INTEGER_REDUCTIONS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dmlpy.onnx.loading.values import Array


TABLE = Path(__file__).with_name("host_operators.json")
"""The versions of operators for which the reference implementation was compared with ONNX Runtime; a script of tests/data makes it."""
_BY_NATURE = frozenset(
    {"Bernoulli", "Dropout", "Multinomial", "Optional", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"}
)
"""Operators of which nothing can be compared: random numbers, and optionals that hold what they are given."""


def is_supported(op_type: str, opset: int, domain: str) -> bool:
    """Whether the host may run an operator: the reference implementation has it and gives what ONNX Runtime gives, or dmlpy defines it."""
    if domain:
        return find_host_operator(op_type, domain) is not None
    schema = schema_of(op_type, opset, domain)
    return schema is not None and (op_type in _BY_NATURE or schema.since_version in _verified_versions().get(op_type, ()))


@cache
def _verified_versions() -> dict[str, list[int]]:
    found: dict[str, list[int]] = json.loads(TABLE.read_text("utf-8"))
    return found


_LEAST_E8M0 = 2.0**-127
"""The least number of FLOAT8E8M0, which the reference implementation makes of 0; the largest is its inverse."""
_MOST_INPUTS = 8
"""The most inputs of a node that a message tells."""
_QUICK = frozenset(
    {
        *("Abs", "Add", "And", "Cast", "CastLike", "Ceil", "Concat", "Constant", "ConstantOfShape", "Div", "Equal", "Expand", "Floor"),
        *("Gather", "Greater", "Identity", "Less", "Max", "Min", "Mod", "Mul", "Neg", "NonZero", "Not", "Or", "Range", "ReduceProd"),
        *("Reshape", "Shape", "Size", "Slice", "Split", "Squeeze", "Sub", "Tile", "Transpose", "Unsqueeze", "Where"),
    }
)
"""Operators that models compute sizes with: it is quicker to compute them here than by DirectML's operators, with the same result."""


def is_quick(op_type: str, opset: int) -> bool:
    """Whether constants of an operator are computed here first."""
    return op_type in _QUICK and is_supported(op_type, opset, "")


class Compress(OpRun):  # type: ignore[misc, unused-ignore]
    """What of a condition lies behind the data keeps nothing, as in ONNX Runtime; the reference implementation refuses it."""

    def _run(self, data: Array, condition: Array, axis: int | None = None) -> tuple[Array]:
        size = data.size if axis is None else data.shape[axis]
        return (np.compress(condition[:size], data, axis=axis),)


class Cast(OpRun):  # type: ignore[misc, unused-ignore]
    """Infinity and numbers below the least one of FLOAT8E8M0 saturate or are NaN, as ONNX's text and ONNX Runtime have it."""

    def _run(self, x: Array, to: int | None = None, saturate: int | None = 1, round_mode: str | None = "up") -> tuple[Array]:
        is_saturated = saturate is None or bool(saturate)
        if to == TensorProto.FLOAT8E8M0:
            small = np.where((x == _LEAST_E8M0) | is_saturated, np.float32(0), np.float32(np.nan))
            x = np.where(x <= _LEAST_E8M0, small, x.astype(np.float32))
            x = np.minimum(x, np.float32(1 / _LEAST_E8M0)) if is_saturated else x
        return (cast_to(x, to, is_saturated, round_mode or "up"),)  # type: ignore[arg-type]


class HostProgram:
    """Nodes in an order in which they run, ready to be run many times. Threads may share it.

    Args:
        nodes: the nodes; names of inputs and outputs are unique.
        opsets: the versions of the domains that they are of.
        inputs: the names that are given.
        outputs: the names that are wanted.

    Raises:
        DeviceError: the reference implementation does not take the nodes.
    """

    def __init__(self, nodes: Sequence[NodeProto], opsets: Mapping[str, int], inputs: Sequence[str], outputs: Sequence[str]) -> None:
        self.outputs = tuple(outputs)
        self._lock = threading.Lock()  # the reference implementation keeps values of a run
        self.label = ", ".join(node.name or node.op_type for node in nodes[:3]) + ("" if len(nodes) <= 3 else ", ...")
        graph = helper.make_graph(
            [part for node in nodes for part in _with_optional_inputs(node)],
            "host",
            [helper.make_value_info(name, helper.make_tensor_type_proto(0, None)) for name in inputs],
            [helper.make_value_info(name, helper.make_tensor_type_proto(0, None)) for name in outputs],
        )
        imports = [helper.make_opsetid(domain, version) for domain, version in opsets.items()]
        try:
            own: list[type[OpRun]] = [Cast, Compress, *INTEGER_REDUCTIONS]
            self._evaluator = ReferenceEvaluator(helper.make_model(graph, opset_imports=imports), new_ops=own)
        except MemoryError:
            raise
        except Exception as error:  # of many classes, as when it runs
            raise self._failure(error) from error

    def __call__(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """The outputs by name.

        Raises:
            DeviceError: the reference implementation fails with these inputs.
        """
        try:
            with self._lock, warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                found = self._evaluator.run(list(self.outputs), dict(inputs))
        except MemoryError:
            raise
        except Exception as error:  # the reference implementation raises of many classes
            raise self._failure(error, inputs) from error
        return dict(zip(self.outputs, (_as_array(value) for value in found), strict=True))

    def _failure(self, error: Exception, inputs: Mapping[str, Any] | None = None) -> DeviceError:
        text = f"{type(error).__name__}: {error}".splitlines()[0]
        given = [f"{name!r} {_summary(value)}" for name, value in (inputs or {}).items()]
        why = (f"inputs: {', '.join(given[:_MOST_INPUTS])}" + (", ..." if len(given) > _MOST_INPUTS else ""),) if given else ()
        return DeviceError("the host", [Problem("onnx.host", self.label, text, "a result of ONNX's reference implementation", why)])


def _summary(value: Any) -> str:
    """Type and sizes of what a node reads."""
    if isinstance(value, np.ndarray):
        return f"{value.dtype.name} {listed(value.shape)}"
    return f"a list of {len(value)}" if isinstance(value, list) else "None"


def _with_optional_inputs(node: NodeProto) -> list[NodeProto]:
    """A node with its optional inputs, where the reference implementation needs them to be given."""
    if node.op_type != "NonMaxSuppression" or (len(node.input) == 5 and all(node.input)):
        return [node]
    own = NodeProto()
    own.CopyFrom(node)
    own.input.extend([""] * (5 - len(own.input)))
    found = []
    for index, default in ((2, np.asarray([0], np.int64)), (3, np.zeros(1, np.float32)), (4, np.asarray([-np.inf], np.float32))):
        if not own.input[index]:
            own.input[index] = f"{node.name}/input {index}"
            found.append(helper.make_node("Constant", [], [own.input[index]], value=numpy_helper.from_array(default)))
    return [*found, own]


def _as_array(value: Any) -> Any:
    """Scalars as arrays, strings as objects; sequences and absent optionals stay."""
    if isinstance(value, np.generic | int | float | bool | str):
        value = np.asarray(value)
    return value.astype(object) if isinstance(value, np.ndarray) and value.dtype.kind in "US" else value


def evaluate_node(node: NodeProto, opsets: Mapping[str, int], arrays: Mapping[str, Array]) -> dict[str, Array]:
    """The outputs of one node whose inputs are known, by name."""
    wanted = [name for name in node.output if name]
    return HostProgram([node], opsets, list(arrays), wanted)(arrays)
