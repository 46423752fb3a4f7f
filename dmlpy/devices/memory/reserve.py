"""`Reserve`: the values that a training operator leaves for its gradient, with the configuration that they belong to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dmlpy.description.descs import OperatorDesc, show_attribute
from dmlpy.messages.problems import Problem

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dmlpy.description.markers import TensorField
    from dmlpy.devices.device import Device
    from dmlpy.devices.plan import Plan


@dataclass(frozen=True, eq=False)
class Reserve:
    """Memory that only the device and the configuration that wrote it can read.

    A call returns it in place of the output's array. A gradient rejects one of another configuration; for an array or a raw pointer, with
    which `dispatch` works, it can check only the size.

    Attributes:
        array: the memory, an array of the device's library.
        configuration: the configuration that it belongs to, by name.
    """

    array: Any
    configuration: Mapping[str, Any]

    def __repr__(self) -> str:
        about = " ".join(str(self.configuration[name]) for name in ("cell", "device") if name in self.configuration)
        return f"<reserve, {list(self.array.shape)} of {self.array.dtype}{about and f', of {about}'}>"

    @classmethod
    def of(cls, array: Any, configuration: Mapping[str, Any]) -> Reserve:
        """The reserve that an operator has written into an array, or into the memory of an earlier reserve."""
        return cls(array.array if isinstance(array, Reserve) else array, configuration)


def configuration(desc: OperatorDesc, device: Device, plan: Plan) -> dict[str, Any]:
    """The configuration that a desc's reserve belongs to, by a plan of a device."""
    return {"device": device.memory_kind, "layout": plan.reserve_layout, **desc.reserve_configuration()}


def foreign_problems(field: TensorField, reserve: Reserve, wanted: Mapping[str, Any]) -> list[Problem]:
    """The problems of a reserve bound to a tensor that is not one, or read by another configuration than the one that wrote it."""
    if not field.marker.reserve:
        return [Problem("array.kind", field.name, "a reserve", "an array, dmlpy.Buffer(pointer, size_in_bytes) or None")]
    given = reserve.configuration
    differing = [name for name in {**wanted, **given} if wanted.get(name) != given.get(name)]
    if field.marker.output or not differing:
        return []
    found = ", ".join(f"{name} {show_attribute(given.get(name))}" for name in differing)
    expected = ", ".join(f"{name} {show_attribute(wanted.get(name))}" for name in differing)
    why = ("a reserve can be read only by the gradient of the operator that wrote it",)
    remedy = "compile the operator and its gradient for the same device" if {"device", "layout"} & {*differing} else None
    return [Problem("reserve.foreign", field.name, f"a reserve of {found}", f"one of {expected}", why, remedy)]
