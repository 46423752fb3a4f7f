"""`ElementwiseGroupDesc`: several element-wise operators as one; the tensors between them have no memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from dmlpy.description.descs import OperatorDesc, TensorDescs
from dmlpy.description.markers import In, Out
from dmlpy.description.support import ALL_BUT_4_BITS, SupportRow
from dmlpy.description.tensors import TensorDesc  # noqa: TC001  (pydantic reads it)
from dmlpy.devices.flops import flops, flops_of


@dataclass(frozen=True)
class GroupedOperator:
    """One operator of a group.

    Attributes:
        desc: its desc in the graph, with the numbers of the struct: see `stored`.
        reads: the number of the value that it reads at each of its places: the inputs of the group come first, then the results of its
            operators in order.
    """

    desc: OperatorDesc
    reads: tuple[tuple[str, int], ...]


class ElementwiseGroupDesc(OperatorDesc):
    """Element-wise operators one after the other. Graphs create it from their nodes; DirectML has no such operator."""

    c_name = "chain of element-wise operators"
    is_extension = True
    support = (SupportRow("1_0", dims=(1, 8)),)
    in_place = True

    input_tensors: Annotated[TensorDescs, In("*sizes", ALL_BUT_4_BITS)]
    """The tensors that the operators read from memory, in the sizes of the output."""

    output_tensor: Annotated[TensorDesc, Out("*sizes", ALL_BUT_4_BITS)]
    """The output of the last operator."""

    nodes: tuple[Any, ...]
    """The operators as `GroupedOperator`s, each after those that it reads."""


@flops(ElementwiseGroupDesc)
def group_flops(desc: ElementwiseGroupDesc) -> int | None:
    counts = [flops_of(link.desc) for link in desc.nodes]
    return None if None in counts else sum(count or 0 for count in counts)
