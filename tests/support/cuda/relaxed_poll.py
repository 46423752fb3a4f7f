"""A change of the kernels that takes the acquire from a wait, which the sanitizer must notice."""

from __future__ import annotations

RELAXED_POLL = ("machine::load_acquire(flags_ + block)", 0, "__atomic_load_n(flags_ + block, __ATOMIC_RELAXED)")
"""In place of the acquire of a wait."""
