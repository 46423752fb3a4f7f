"""The plans of operators that only move elements."""

from __future__ import annotations

from dmlpy.devices.cuda.plans import attach_plan
from dmlpy.operators.movement.blocks import DepthToSpace1Desc, DepthToSpaceDesc, FoldDesc, SpaceToDepth1Desc, SpaceToDepthDesc, UnfoldDesc
from dmlpy.operators.movement.copy import CastDesc, JoinDesc, ReverseSubsequencesDesc, SplitDesc, TileDesc
from dmlpy.operators.movement.slicing import Padding1Desc, PaddingDesc, Slice1Desc, SliceDesc, SliceGradDesc

attach_plan("dmlpy.devices.cuda.movement.blocks:unfold_plan", UnfoldDesc)
attach_plan("dmlpy.devices.cuda.movement.blocks:fold_plan", FoldDesc)
attach_plan("dmlpy.devices.cuda.movement.copies:cast_plan", CastDesc)
attach_plan("dmlpy.devices.cuda.movement.copies:join_plan", JoinDesc)
attach_plan("dmlpy.devices.cuda.movement.copies:split_plan", SplitDesc)
attach_plan("dmlpy.devices.cuda.movement.copies:tile_plan", TileDesc)
attach_plan("dmlpy.devices.cuda.movement.copies:slice_plan", SliceDesc)
attach_plan("dmlpy.devices.cuda.movement.copies:slice1_plan", Slice1Desc)
attach_plan("dmlpy.devices.cuda.movement.copies:slice_grad_plan", SliceGradDesc)
attach_plan("dmlpy.devices.cuda.movement.copies:block_plan", DepthToSpaceDesc, SpaceToDepthDesc)
attach_plan("dmlpy.devices.cuda.movement.copies:block1_plan", DepthToSpace1Desc, SpaceToDepth1Desc)
attach_plan("dmlpy.devices.cuda.movement.padding:padding_plan", PaddingDesc, Padding1Desc)
attach_plan("dmlpy.devices.cuda.movement.reverse:reverse_plan", ReverseSubsequencesDesc)
