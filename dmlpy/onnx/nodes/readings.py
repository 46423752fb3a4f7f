"""What ONNX leaves open in nodes, as ONNX Runtime's CPU provider reads it: flags that are neither 0 nor 1, and empty lists of axes.

Nodes are changed before anything else reads them: ONNX's inference and its reference implementation read some of them otherwise.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from onnx import AttributeProto, NodeProto

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dmlpy.onnx.loading.values import Value

    Inputs: TypeAlias = tuple[Value | None, ...]

_SET_BY_ALL_BUT_0 = frozenset(
    {
        *("align_corners", "antialias", "count_include_pad", "detect_negative", "detect_positive", "exclude_outside", "input_forget"),
        *("inverse", "linear_before_reset", "onesided", "periodic", "select_last_index", "transA", "transB", "upper"),
    }
)
"""Names of flags that any number but 0 sets."""
_SET_BY_1 = frozenset(
    {"allowzero", "ceil_mode", "interleaved", "is_causal", "keepdims", "largest", "noop_with_empty_axes", "saturate", "sorted"}
)
"""Names of flags that 1 alone sets. ONNX Runtime refuses other numbers of the flags that are in neither set."""
_KEEPS_BY_ALL_BUT_0 = "SplitToSequence"
"""The operator whose `keepdims` is set by any number but 0."""


def as_read(node: NodeProto, domain: str, inputs: Inputs) -> tuple[NodeProto, Inputs]:
    """A node and its inputs as ONNX Runtime reads them; the node is copied if it changes."""
    if domain or (not (wrong := [*_flags(node)]) and node.op_type != "Squeeze"):
        return node, inputs
    changed = NodeProto()
    changed.CopyFrom(node)
    for place, value in wrong:
        changed.attribute[place].i = value
    if node.op_type == "Squeeze":
        kept = [item for item in node.attribute if item.name != "axes" or item.ints]
        del changed.attribute[:]
        changed.attribute.extend(kept)
        if len(inputs) > 1 and inputs[1] is not None and inputs[1].is_empty:
            del changed.input[1:]
            inputs = inputs[:1]
    return changed, inputs


def _flags(node: NodeProto) -> Iterator[tuple[int, int]]:
    """The places of flags that are neither 0 nor 1, and the one for which ONNX Runtime takes them."""
    for place, item in enumerate(node.attribute):
        if item.i in (0, 1) or item.type != AttributeProto.INT:
            continue
        if item.name in _SET_BY_ALL_BUT_0 or (item.name == "keepdims" and node.op_type == _KEEPS_BY_ALL_BUT_0):
            yield place, 1
        elif item.name in _SET_BY_1:
            yield place, 0
