"""Runs nodes on the host with ONNX's reference implementation: constants ahead of time, and nodes that DirectML does not express."""

from __future__ import annotations

import warnings
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from onnx import NodeProto, helper
from onnx.reference import ReferenceEvaluator
from onnx.reference.ops import load_op

from dmlpy.onnx.host_loop import Loop
from dmlpy.validation.problems import DeviceError, Problem

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dmlpy.onnx.values import Array


def runs(op_type: str, opset: int, domain: str) -> bool:
    """Whether the reference implementation has the operator."""
    return _known(op_type, opset, domain)


@lru_cache(maxsize=4096)
def _known(op_type: str, opset: int, domain: str) -> bool:
    try:
        load_op(domain, op_type, opset)
    except Exception:
        return False
    return True


class HostProgram:
    """Nodes in an order in which they run, ready to be run many times, from one thread at a time.

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
        self.label = ", ".join(node.name or node.op_type for node in nodes[:3]) + ("" if len(nodes) <= 3 else ", ...")
        graph = helper.make_graph(
            list(nodes),
            "host",
            [helper.make_value_info(name, helper.make_tensor_type_proto(0, None)) for name in inputs],
            [helper.make_value_info(name, helper.make_tensor_type_proto(0, None)) for name in outputs],
        )
        imports = [helper.make_opsetid(domain, version) for domain, version in opsets.items()]
        try:
            self._evaluator = ReferenceEvaluator(helper.make_model(graph, opset_imports=imports), new_ops=[Loop])
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
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                found = self._evaluator.run(list(self.outputs), dict(inputs))
        except MemoryError:
            raise
        except Exception as error:  # the reference implementation raises of many classes
            raise self._failure(error) from error
        return dict(zip(self.outputs, (_as_array(value) for value in found), strict=True))

    def _failure(self, error: Exception) -> DeviceError:
        text = f"{type(error).__name__}: {error}".splitlines()[0]
        return DeviceError("the host", [Problem("onnx.host", self.label, text, "a result of ONNX's reference implementation")])


def _as_array(value: Any) -> Any:
    """Scalars as arrays; sequences and absent optionals stay."""
    return np.asarray(value) if isinstance(value, np.generic | int | float | bool) else value


def evaluate(node: NodeProto, opsets: Mapping[str, int], arrays: Mapping[str, Array]) -> dict[str, Array]:
    """The outputs of one node whose inputs are known, by name."""
    wanted = [name for name in node.output if name]
    return HostProgram([node], opsets, list(arrays), wanted)(arrays)
