"""Builds the report of a model."""

from __future__ import annotations

from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING, get_args

from dmlpy.compiler import compile_at_any_level
from dmlpy.description.enums import FeatureLevel
from dmlpy.graphs import ConstantNode
from dmlpy.messages.naming import listed
from dmlpy.messages.problems import CompileError, DescError, DeviceError, Problem
from dmlpy.onnx.loading import tensors
from dmlpy.onnx.loading.size_candidates import size_candidates
from dmlpy.onnx.lowering.model_lowering import Lowering
from dmlpy.onnx.lowering.programs import GraphPart
from dmlpy.onnx.nodes.levels import cap_of
from dmlpy.onnx.reporting.partitions import group_records
from dmlpy.onnx.reporting.prediction import Prediction
from dmlpy.onnx.reporting.report import Like, Report
from dmlpy.onnx.reporting.work import KnownValues, by_node, find_borders
from dmlpy.validation.checking import LATEST

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from dmlpy.onnx.loading.values import Value
    from dmlpy.onnx.lowering.lowered_model import LoweredModel


def build_report(model: LoweredModel, level: FeatureLevel, like: Like) -> Report:
    """See `Model.report`."""
    if like not in get_args(Like):
        raise DescError("Model.report", [Problem("onnx.like", "like", repr(like), f"one of {listed(get_args(Like))}")])
    inputs = model.inputs
    if like == "dmlpy":
        sized, sizes = _with_candidate_sizes(model, level)
        report = _report_of(sized, sizes, inputs, level, like)  # as in a call, where all sizes are known
        return replace(report, contradicted=model.interpretation(level).contradicted)  # whatever sizes are chosen
    lowering = model.interpretation(level)
    report = replace(_with_invalid_nodes(_report_of(model, {}, inputs, level, like), lowering), contradicted=lowering.contradicted)
    if not report.open_sizes:
        return report
    sized, sizes = _with_candidate_sizes(model, level)
    return replace(report, sized=_report_of(sized, sizes, inputs, level, like)) if sizes else report


def _with_invalid_nodes(report: Report, lowering: Lowering) -> Report:
    """A prediction with the nodes that contradict ONNX: ONNX Runtime refuses the model before it asks a provider.

    Args:
        report: the prediction.
        lowering: the model as dmlpy lowers it.
    """
    invalid = {record.name: record for record in lowering.records if record.where == "invalid"}
    nodes = [
        replace(node, where="invalid", problems=invalid[node.name].problems, alone=(), older=()) if node.name in invalid else node
        for node in report.nodes
    ]
    return replace(report, nodes=tuple(nodes)) if invalid else report


def _report_of(model: LoweredModel, sizes: Mapping[str, int], inputs: Mapping[str, Value], level: FeatureLevel, like: Like) -> Report:
    """The report of a model as it is.

    Args:
        model: the model.
        sizes: the sizes that were chosen for it.
        inputs: its inputs before that.
        level: the highest feature level that may be used.
        like: whose decisions are reported.
    """

    def found_at(level: FeatureLevel) -> Lowering:
        kind = Lowering if like == "dmlpy" else Prediction
        return kind.of(model.loaded, model.given, level)  # not cached: it may be large

    lowering = model.interpretation(level) if like == "dmlpy" else found_at(level)
    latest = lowering if level >= LATEST else found_at(LATEST)
    taken = _nodes_on_directml(lowering)
    weights, memory = _memory_sizes(model, level) if like == "dmlpy" else (_initializer_bytes(model), None)
    values = KnownValues(model.loaded.proto.graph, model.given.values(), lowering.records)
    partitions = group_records(lowering.records, level)
    return Report(
        model=model.name,
        like=like,
        feature_level=level,
        nodes=tuple(lowering.records),
        inputs=inputs,
        outputs=lowering.outputs,
        tried=sizes,
        lowest_level=_lowest_level(latest, {level: taken}, found_at),
        missing_level=tuple(name for name in _nodes_on_directml(latest) if name not in taken),
        partitions=partitions,
        weight_bytes=weights,
        memory_bytes=memory,
        work=by_node(lowering.records, values),
        borders=find_borders(partitions, lowering.records, values),
    )


def _with_candidate_sizes(model: LoweredModel, level: FeatureLevel) -> tuple[LoweredModel, Mapping[str, int]]:
    """A model as in a call, with the sizes chosen for dynamic ones; the model itself if none are dynamic or found.

    These are the first sizes that the model allows and that leave no tensor empty; else those with the fewest empty tensors; and if all
    sizes cause problems, the first.
    """
    best: tuple[LoweredModel, Mapping[str, int]] = model, {}
    fewest: float = inf
    refused: list[tuple[LoweredModel, Mapping[str, int], set[str]]] = []
    for trial in size_candidates(model.inputs):
        sized = model.with_inputs(trial.shapes)
        records = sized.interpretation(level).records
        wrong = {problem.under(record.name).headline() for record in records if record.where == "invalid" for problem in record.problems}
        empty = sum(value.is_empty for record in records for value in record.outputs)
        if wrong:
            refused.append((sized, trial.sizes, wrong))
        elif empty < fewest:
            best, fewest = (sized, trial.sizes), empty
        else:
            break
        if not wrong and not empty:
            break
    if fewest == inf and refused and set.intersection(*(wrong for _, _, wrong in refused)):
        return refused[0][:2]
    return best


def _nodes_on_directml(lowering: Lowering) -> frozenset[str]:
    """The nodes that run on DirectML, or need not run."""
    return frozenset(record.name for record in lowering.records if record.where in ("directml", "folded"))


def _lowest_level(
    latest: Lowering, known: dict[FeatureLevel, frozenset[str]], found_at: Callable[[FeatureLevel], Lowering]
) -> FeatureLevel | None:
    """The lowest level that supports the same nodes as the latest; None if none does, since some are of BFLOAT16, or there are no nodes.

    Levels only add, so this is a binary search.

    Args:
        latest: the model at the latest level.
        known: the nodes that some levels support.
        found_at: lowers the model at a level.
    """
    if any(desc.has_bfloat16 for record in latest.records for desc in record.descs):
        return None
    wanted = _nodes_on_directml(latest)
    highest = max((record.level for record in latest.records if record.level is not None), default=None)
    if highest is None:
        return min(FeatureLevel) if any(record.where == "directml" for record in latest.records) else None
    levels = [level for level in FeatureLevel if level <= highest]
    low, high = 0, len(levels) - 1
    middle = high - 1  # the highest of them is needed, unless a node has another form below it
    while low < high:
        level = levels[middle]
        taken = known[level] if level in known else _nodes_on_directml(found_at(level))
        low, high = (low, middle) if wanted <= taken else (middle + 1, high)
        middle = (low + high) // 2
    return levels[low]


def _initializer_bytes(model: LoweredModel) -> int:
    return sum(map(tensors.bytes_of, model.loaded.proto.graph.initializer))


def _memory_sizes(model: LoweredModel, level: FeatureLevel) -> tuple[int, int | None]:
    """The bytes of the weights of all graphs, and of the scratch of the graph that needs most."""
    parts = [part for part in model.program(level).parts if isinstance(part, GraphPart)]
    weights = sum(array.nbytes for part in parts for array in part.owned.values())
    weights += sum(node.data_size for part in parts for node in part.graph.nodes if isinstance(node, ConstantNode))
    try:
        scratch = [compile_at_any_level(part.graph, "numpy", cap_of(level)).binding_properties.temporary_resource_size for part in parts]
    except (CompileError, DeviceError):
        return weights, None
    return weights, max(scratch, default=0)
