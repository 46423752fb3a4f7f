"""`compile`: a desc, checked, with its plan on a device."""

from __future__ import annotations

from functools import lru_cache

from dmlpy.checking import LATEST, check, parse_level
from dmlpy.descs import OperatorDesc
from dmlpy.devices import CompiledOperator, Device
from dmlpy.devices import device as find_device
from dmlpy.devices.owned import with_owned_inputs
from dmlpy.enums import FeatureLevel, HResult
from dmlpy.problems import CompileError, DescError, Problem
from dmlpy.structs import brief


def compile(desc: OperatorDesc, device: Device | str | None = None, feature_level: FeatureLevel | str | int = LATEST) -> CompiledOperator:
    """Checks a desc and plans its work on a device. Equal descs give the same object, as long as it is in the cache.

    Args:
        desc: what to run.
        device: `"cuda"`, `"cuda:1"`, `"numpy"`, a device, or None: the first GPU that answers, else NumPy.
        feature_level: a cap, as for `check`.

    Raises:
        CompileError: the desc breaks rules (all of them are told), or the device does not run the operator yet.
        DescError: `desc` is no operator's desc, or there is no such level.
        DeviceError: there is no such device.
    """
    if not isinstance(desc, OperatorDesc):
        raise DescError("compile", [Problem("field.form", "desc", brief(desc), "an operator's desc, like RNNDesc(...)")])
    return _compile(desc, find_device(device), parse_level(feature_level))


@lru_cache(maxsize=512)
def _compile(desc: OperatorDesc, device: Device, level: FeatureLevel) -> CompiledOperator:
    problems = check(desc, level)
    if problems:
        raise CompileError(desc.c_name, problems, desc=desc)
    plan = device.plan(desc)
    if plan is None:
        problem = Problem(
            "operator.not_built", "", desc.type_name, f"an operator that runs on {device.name}", ("it is described and checked only",)
        )
        raise CompileError(desc.c_name, [problem], HResult.E_NOTIMPL, desc)
    return CompiledOperator(desc, device, level, with_owned_inputs(plan, desc, device))
