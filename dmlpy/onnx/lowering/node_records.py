"""`NodeRecord`: the result of lowering a node."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal, TypeAlias

from dmlpy.validation.checking import lowest_level

if TYPE_CHECKING:
    from dmlpy.description.descs import OperatorDesc
    from dmlpy.description.enums import FeatureLevel
    from dmlpy.messages.problems import Problem
    from dmlpy.onnx.loading.values import Value

Placement: TypeAlias = Literal["directml", "deferred", "host", "folded", "nowhere", "invalid", "refused"]


@dataclass(frozen=True)
class NodeRecord:
    """The result of lowering a node.

    Attributes:
        name: its name, unique in the model after control flow was unrolled and functions were inlined.
        op_type: its operator.
        domain: the operator's domain, empty for ONNX's.
        where: `directml`; `deferred` for a node that is compiled once the sizes of its inputs are known; `host` for one that runs there;
            `folded` for one whose results are known before the model runs; `nowhere` for one that nothing runs; `invalid` for one that is
            invalid in ONNX; `refused` for one that ONNX Runtime passes to DirectML, which rejects it.
        operators: the short names of its operators, in order; empty for a view of its input.
        descs: their descs.
        problems: why it does not run on DirectML.
        inputs: the names of the values that it reads.
        outputs: the values that it computes.
        stage: its stage; None if it is folded.
        alone: why ONNX Runtime does not fuse it into a graph.
        older: why older releases of ONNX Runtime fail.
    """

    name: str
    op_type: str
    domain: str
    where: Placement
    operators: tuple[str, ...] = ()
    descs: tuple[OperatorDesc, ...] = ()
    problems: tuple[Problem, ...] = ()
    inputs: tuple[str, ...] = ()
    outputs: tuple[Value, ...] = ()
    stage: int | None = None
    alone: tuple[Problem, ...] = ()
    older: tuple[Problem, ...] = ()

    @cached_property
    def level(self) -> FeatureLevel | None:
        """The lowest feature level that has all its operators; None if there are none."""
        return max((level for desc in self.descs if (level := lowest_level(desc)) is not None), default=None)
