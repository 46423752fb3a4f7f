"""`python -m dmlpy.directml` prints `directml/__init__.pyi`."""

from __future__ import annotations

from dmlpy.directml.names import stub

print(stub(), end="")
