"""`WeightedGatherDesc`: a sum of weighted gathers as one operator; what is gathered has no memory."""

from __future__ import annotations

from typing import Annotated

from dmlpy.description.descs import OperatorDesc, TensorDescs
from dmlpy.description.enums import DataType
from dmlpy.description.markers import In, Out
from dmlpy.description.support import SupportRow
from dmlpy.description.tensors import TensorDesc  # noqa: TC001  (pydantic reads it)
from dmlpy.devices.flops import flops

MOST_TERMS = 16
"""Terms, at most: kernels hold an address for the indices of each, and one for its weights."""
_FLOAT = frozenset({DataType.FLOAT32})
_INDEX = frozenset({DataType.UINT32})


class WeightedGatherDesc(OperatorDesc):
    """Sums of rows of each batch that indices choose, times weights. It samples images at any places.

    Graphs create it from their nodes; DirectML has no such operator. A device without a plan for it runs the nodes separately.
    """

    c_name = "sum of weighted gathers"
    is_extension = True
    support = (SupportRow("1_0", dims=(3, 3)),)
    formula = "y[b, p, c] = sum over k of weight_k[b, p] * x[b, index_k[b, p], c]"

    input_tensor: Annotated[TensorDesc, In("batch elements channels", _FLOAT)]
    """The tensor whose elements are gathered."""

    indices_tensors: Annotated[TensorDescs, In("batch places 1", _INDEX)]
    """The indices of each term; one that is out of range selects the last element."""

    weight_tensors: Annotated[TensorDescs, In("batch places 1", _FLOAT)]
    """The weights of each term."""

    output_tensor: Annotated[TensorDesc, Out("batch places channels", _FLOAT)]
    """The sums: products are rounded, and added in order."""


@flops(WeightedGatherDesc)
def weighted_gather_flops(desc: WeightedGatherDesc) -> int:
    return desc.output_tensor.element_count * (2 * len(desc.indices_tensors) - 1)
