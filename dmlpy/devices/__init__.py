"""Devices, and the operators compiled for them."""

from dmlpy.description.outputs import Outputs
from dmlpy.devices.device import DEVICE_KINDS, Device, Memory, device, list_devices
from dmlpy.devices.dispatch import Dispatch
from dmlpy.devices.memory.reserve import Reserve
from dmlpy.devices.operator import CompiledOperator, PreparedOperator
from dmlpy.devices.plan import BindingProperties, Launch, Plan, Pointers

__all__ = [
    "DEVICE_KINDS",
    "BindingProperties",
    "CompiledOperator",
    "Device",
    "Dispatch",
    "Launch",
    "Memory",
    "Outputs",
    "Plan",
    "Pointers",
    "PreparedOperator",
    "Reserve",
    "device",
    "list_devices",
]
