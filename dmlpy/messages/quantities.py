"""Quantities as texts for people: bytes and floating-point operations."""

from __future__ import annotations


def show_bytes(size: int) -> str:
    """Formats a number of bytes for people: `6.1 GB`."""
    value, unit = float(size), "bytes"
    for larger in ("kB", "MB", "GB", "TB"):
        if value < 1000:
            break
        value, unit = value / 1000, larger
    return f"{size} bytes" if unit == "bytes" else f"{value:.1f} {unit}"


def show_flops(flops: int) -> str:
    """A number of operations for people: `1.05 Mflop`."""
    value, unit = float(flops), "flop"
    for larger in ("kflop", "Mflop", "Gflop", "Tflop"):
        if value < 1000:
            break
        value, unit = value / 1000, larger
    return f"{flops} flop" if unit == "flop" else f"{value:.3g} {unit}"
