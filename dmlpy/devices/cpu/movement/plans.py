"""The compiled plans of the operators that move elements."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

from dmlpy.description.enums import DataType
from dmlpy.devices.cpu.plans import plan
from dmlpy.operators.movement.copy import CastDesc, JoinDesc, ReverseSubsequencesDesc, SplitDesc, TileDesc
from dmlpy.operators.movement.slicing import Padding1Desc, PaddingDesc, Slice1Desc, SliceDesc, SliceGradDesc

if TYPE_CHECKING:
    from collections.abc import Callable

    from dmlpy.description.descs import OperatorDesc
    from dmlpy.description.tensors import TensorDesc
    from dmlpy.devices.cpu.elementwise.integer_plan import ChoicePlan, ContiguousPlan, RowsPlan, SmallPlan
    from dmlpy.devices.cpu.float32_copies import Float32CopyPlan
    from dmlpy.devices.cpu.movement.fold_plan import FoldPlan
    from dmlpy.devices.cpu.movement.plan import CopyPlan, ReversalPlan
    from dmlpy.operators.movement.blocks import DepthToSpaceBaseDesc, FoldDesc, SpaceToDepthBaseDesc, UnfoldDesc

_BLOCKS = "dmlpy.operators.movement.blocks"

_MOST_COPIES = 512
"""The most copies of a plan: each takes some time on its own."""
_MOST_SUMS = 1 << 12
"""The most elements of a window of FOLD, each of which takes some time to plan."""
_CONVERTED = {DataType.FLOAT16, DataType.FLOAT32}


def copy_plan(desc: OperatorDesc, maker: str, *, count: int = 1) -> CopyPlan | str:
    """The plan of a checked desc as copies, or the reason why there is none.

    Args:
        desc: the desc.
        maker: the function of `copies` that gives them.
        count: the most copies that it may give.
    """
    from dmlpy.devices.cpu.movement import copies
    from dmlpy.devices.cpu.movement.plan import CopyPlan

    if any(tensor.data_type.bits == 4 for tensor in desc.tensors().values()):
        return "compiled copies move whole bytes"
    if count > _MOST_COPIES:
        return f"it takes more than {_MOST_COPIES} copies"
    make: Callable[[Any], Any] = getattr(copies, maker)
    return CopyPlan(make(desc))


@plan(CastDesc)
def cast_plan(desc: CastDesc) -> CopyPlan | SmallPlan | ContiguousPlan | RowsPlan | ChoicePlan | str:
    from dmlpy.devices.cpu.elementwise.integer_plan import integer_plan
    from dmlpy.devices.cpu.movement import copies
    from dmlpy.devices.cpu.movement.plan import CONVERSIONS, CopyPlan

    types = {desc.input_tensor.data_type, desc.output_tensor.data_type}
    if len(types) == 1:
        return copy_plan(desc, "identity_copies")
    if types != _CONVERTED:
        return integer_plan(desc) or _cast_plan(desc)
    return CopyPlan(copies.identity_copies(desc), CONVERSIONS)


def bfloat16_conversion(source: TensorDesc, target: TensorDesc) -> CopyPlan:
    """The conversion between tensors of BFLOAT16 and FLOAT32; their places are those of CAST."""
    from dmlpy.devices.cpu.movement import copies
    from dmlpy.devices.cpu.movement.plan import BFLOAT16_CONVERSIONS, CopyPlan

    words = [tensor.replace(data_type=DataType.UINT16) if tensor.data_type is DataType.BFLOAT16 else tensor for tensor in (source, target)]
    return CopyPlan(copies.identity_copies(CastDesc(input_tensor=words[0], output_tensor=words[1])), BFLOAT16_CONVERSIONS)


def _cast_plan(desc: CastDesc) -> CopyPlan | str:
    """The plan of a conversion from or to integers or FLOAT64."""
    from dmlpy.devices.cpu.movement.copies import identity_copies
    from dmlpy.devices.cpu.movement.plan import CastPlan

    types = {desc.input_tensor.data_type, desc.output_tensor.data_type}
    if DataType.BFLOAT16 in types or any(each.bits == 4 for each in types):
        return "conversions of BFLOAT16 and of integers of 4 bits have no compiled form"
    (copy,) = identity_copies(desc)
    return CastPlan(copy)


@plan(JoinDesc)
def join_plan(desc: JoinDesc) -> CopyPlan | str:
    return copy_plan(desc, "join_copies", count=len(desc.input_tensors))


@plan(ReverseSubsequencesDesc)
def reversal_plan(desc: ReverseSubsequencesDesc) -> ReversalPlan | str:
    from dmlpy.devices.cpu.movement.plan import ReversalPlan

    return "compiled reversals move whole bytes" if desc.input_tensor.data_type.bits == 4 else ReversalPlan(desc)


@plan(SplitDesc)
def split_plan(desc: SplitDesc) -> CopyPlan | str:
    return copy_plan(desc, "split_copies", count=len(desc.output_tensors))


@plan(TileDesc)
def tile_plan(desc: TileDesc) -> CopyPlan | str:
    return copy_plan(desc, "tile_copies")


@plan(SliceDesc)
def slice_plan(desc: SliceDesc) -> CopyPlan | str:
    return copy_plan(desc, "slice_copies")


@plan(Slice1Desc)
def slice1_plan(desc: Slice1Desc) -> CopyPlan | str:
    return copy_plan(desc, "slice1_copies")


@plan(SliceGradDesc)
def slice_gradient_plan(desc: SliceGradDesc) -> CopyPlan | str:
    return copy_plan(desc, "slice_gradient_copies", count=2)


@plan(PaddingDesc, Padding1Desc)
def padding_plan(desc: PaddingDesc | Padding1Desc) -> CopyPlan | str:
    from dmlpy.devices.cpu.movement.copies import count_padding_copies

    return copy_plan(desc, "padding_copies", count=count_padding_copies(desc))


@plan(f"{_BLOCKS}:DepthToSpaceBaseDesc", f"{_BLOCKS}:SpaceToDepthBaseDesc")
def space_plan(desc: DepthToSpaceBaseDesc | SpaceToDepthBaseDesc) -> CopyPlan | str:
    return copy_plan(desc, "space_copies")


@plan(f"{_BLOCKS}:FoldDesc")
def fold_plan(desc: FoldDesc) -> FoldPlan | Float32CopyPlan | str:
    from dmlpy.devices.cpu.float32_copies import Float32CopyPlan
    from dmlpy.devices.cpu.movement.fold_plan import FoldPlan

    if desc.input_tensor.data_type not in _CONVERTED:
        return "compiled sums of columns are of floats"
    if prod(desc.window_sizes) > _MOST_SUMS:
        return f"the window has more than {_MOST_SUMS} elements"
    return FoldPlan(desc) if desc.input_tensor.data_type is DataType.FLOAT32 else Float32CopyPlan(desc)


@plan(f"{_BLOCKS}:UnfoldDesc")
def unfold_plan(desc: UnfoldDesc) -> CopyPlan | str:
    return copy_plan(desc, "unfold_copies", count=1 + prod(desc.window_sizes))
