"""A tensor's desc from its sizes alone."""

from __future__ import annotations

from typing import Any

import dmlpy as dml


def tensor(*sizes: int, data_type: str = "FLOAT32", **members: Any) -> dml.TensorDesc:
    """A desc of these sizes; `members` are further ones of the struct."""
    return dml.TensorDesc(data_type=data_type, sizes=sizes, **members)
