"""Changes of kernels that wait for other blocks: blocks that come late at random, and a wait without its acquire."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from dmlpy.devices.cuda import sources

STORES = ('asm volatile("st.release.gpu.global.u32', 'asm volatile("st.relaxed.gpu.global.u32')
DELAY = """\
unsigned const late = (static_cast<unsigned>(clock()) ^ blockIdx.x * 0x9E3779B9u) * 0x85EBCA6Bu >> 18;
    if (late % 2 != 0) {
        __nanosleep(late);
    }
    """
"""Half of the times nothing, else up to 16 microseconds."""


def with_delays(text: str) -> str:
    """A kernel's source that may sleep before each store for other blocks: of a value, and of a flag that signals values."""
    for store in STORES:
        assert text.count(store) <= 1
        text = text.replace(store, DELAY + store)
    return text


@contextmanager
def delays(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What is compiled meanwhile has them."""
    read = sources.read
    with monkeypatch.context() as patch:
        patch.setattr(sources, "read", lambda file: with_delays(read(file)))
        yield


RELAXED_POLL = ("machine::load_acquire(flags_ + block)", 0, "__atomic_load_n(flags_ + block, __ATOMIC_RELAXED)")
"""In place of the acquire of a wait."""
