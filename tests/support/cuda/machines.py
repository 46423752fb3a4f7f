"""GPUs as the model of recurrent layers describes them."""

from __future__ import annotations

from dmlpy.devices.cuda.seam import Limits

H200 = Limits("H200", 90, 132, 227 * 1024, 141 << 30, 13000, 13000)


T4 = Limits("T4", 75, 40, 64 * 1024, 16 << 30, 13000, 13000)


A100 = Limits("A100", 80, 108, 163 * 1024, 40 << 30, 13000, 13000)


B200 = Limits("B200", 100, 148, 227 * 1024, 180 << 30, 13000, 13000)


GEFORCE_4090 = Limits("4090", 89, 128, 99 * 1024, 24 << 30, 13000, 13000)
