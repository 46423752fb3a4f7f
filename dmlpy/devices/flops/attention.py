"""The operations of attention."""

from __future__ import annotations

from typing import Any

from dmlpy.devices.flops import flops, of_products
from dmlpy.operators.attention import AttentionDesc


@flops(AttentionDesc)
@of_products
def attention(desc: Any) -> int:
    """The products of queries with keys and of weights with values, masked ones included."""
    batch, queries = desc.output_tensor.sizes[-3:-1]
    past, fresh, _ = desc.key_lengths
    return int(2 * batch * getattr(desc, desc.head_counts[0]) * queries * (past + fresh) * sum(desc.head_sizes))
