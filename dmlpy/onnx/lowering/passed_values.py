"""Values that a graph passes on as it reads them, and the feature levels that cannot copy them.

A graph of DirectML copies such a value to its output by ELEMENT_WISE_IDENTITY, which takes few types and four or five dimensions at low
feature levels. There the node that passes the value on belongs on the host.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dmlpy.description.enums import FeatureLevel
from dmlpy.description.tensors import TensorDesc
from dmlpy.onnx.lowering.stages import GraphStage
from dmlpy.validation.checking import check
from dmlpy.x.producers import OperatorProducer

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from dmlpy.messages.problems import Problem
    from dmlpy.onnx.loading.values import Value
    from dmlpy.onnx.lowering.stages import Stage

_COPIES_ALL = FeatureLevel.FL_4_1
"""The level from which ELEMENT_WISE_IDENTITY copies every type but those of 4 bits, which have copies of their own."""


def uncopied_values(stages: Mapping[int, Stage], outputs: Iterable[Value], level: FeatureLevel) -> dict[str, list[Problem]]:
    """The values that graphs would have to copy and that the level cannot copy, by name, with what is wrong with the copies.

    Args:
        stages: the stages of the model by index.
        outputs: the model's outputs.
        level: the highest feature level that may be used.
    """
    if level >= _COPIES_ALL:
        return {}
    read = {value.name for value in outputs}
    for stage in stages.values():
        read |= stage.reads.keys() if isinstance(stage, GraphStage) else {name for node in stage.nodes for name in node.reads}
    uncopied: dict[str, list[Problem]] = {}
    for stage in stages.values():
        if isinstance(stage, GraphStage):
            uncopied |= _uncopied(stage, read, level)
    return uncopied


def _uncopied(stage: GraphStage, read: set[str], level: FeatureLevel) -> dict[str, list[Problem]]:
    uncopied: dict[str, list[Problem]] = {}
    written = set()
    for name in stage.results:
        if name not in read:
            continue
        ref = stage.expressions[name]._ref
        place, tensor = (ref.producer, ref.index), ref.tensor
        is_own = isinstance(ref.producer, OperatorProducer) and place not in written and tensor.is_packed
        written.add(place)
        if not is_own and tensor.data_type.bits != 4:
            from dmlpy.operators.elementwise.math import ElementWiseIdentityDesc  # which few models need

            copy = ElementWiseIdentityDesc(input_tensor=tensor, output_tensor=TensorDesc(data_type=tensor.data_type, sizes=tensor.sizes))
            if problems := check(copy, level):
                uncopied[name] = [problem.under(type(copy).short_name()) for problem in problems]
    return uncopied
