"""`plan`: attaches a plan of Numba's to a class of descs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dmlpy.description.attachments import Attachments

if TYPE_CHECKING:
    from collections.abc import Callable

    from dmlpy.devices.plan import Plan

plan: Attachments[Callable[[Any], Plan]] = Attachments("dmlpy.devices.numba")
"""`@plan(RNNDesc)` attaches what makes a plan of a checked desc. It raises CompileError for attributes that have no kernel.

The families' modules import Numba, which is an extra, no sooner than a plan is made.
"""
