"""GPUs as the model of recurrent layers describes them."""

from __future__ import annotations

from dmlpy.devices.cuda.offline_device import GPUS

T4, A100, GEFORCE_4090, H200, B200 = (GPUS[name] for name in ("T4", "A100", "RTX4090", "H200", "B200"))
