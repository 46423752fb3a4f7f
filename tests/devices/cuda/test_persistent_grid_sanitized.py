"""Plans of `persistent_grid` under g++'s sanitizers, and proof that they notice each barrier, release and acquire that is lost."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dmlpy.devices.cuda import sources
from dmlpy.devices.cuda.emulation.runtime import H100, EmulatedRuntime
from dmlpy.messages.problems import DeviceError
from tests.support.cuda import training_layers as training
from tests.support.cuda.changed_waits import RELAXED_POLL
from tests.support.cuda.grid_rows import RESETS_FIRST, Row
from tests.support.cuda.layer_plans import launch
from tests.support.tools import require

ROWS = {
    "gru of halves": Row("GRU", np.float16, (8, 9, 8), (12, 9), direction="FORWARD", flags=RESETS_FIRST, options={"most_registers": 0}),
    "gru": Row("GRU", np.float32, (4, 2, 1), (6, 2), direction="FORWARD", flags=RESETS_FIRST, options={"most_registers": 0}),
    "lstm": Row("LSTM", np.float16, (8, 9, 8), (12, 9), direction="FORWARD", options={"most_registers": 0, "row_warps": 2}),
    "gru without flags": Row("GRU", np.float16, (8, 9, 8), (16, 9), direction="FORWARD", flags=RESETS_FIRST, options={"protocol": "data"}),
    "lstm without flags": Row("LSTM", np.float32, (4, 3, 2), (7, 3), direction="BACKWARD", options={"protocol": "data"}),
    "lstm in tf32": Row("LSTM", np.float32, (12, 5, 8), (12, 5), tf32=True, peephole=True),
}
"""Groups of units with two passes over the samples each, and two directions of a block alone."""

SOURCE = sources.read("recurrent/persistent_grid.cu")


def run(row: Row, runtime: EmulatedRuntime) -> None:
    made = row.build(trains=True, t=2)
    launch(made, row.plan, runtime)
    training.check(made)
    runtime.check_guards()


@pytest.mark.parametrize(
    ("name", "sanitize"),
    [
        ("gru of halves", "thread"),
        ("gru without flags", "address,undefined"),
        *(
            pytest.param(name, sanitize, marks=pytest.mark.slow)
            for name, sanitize in [
                ("gru", "address,undefined"),
                ("gru of halves", "address,undefined"),
                ("gru", "thread"),
                ("lstm", "thread"),
                ("lstm without flags", "thread"),
                ("gru without flags", "thread"),
                ("lstm in tf32", "address,undefined"),
                ("lstm in tf32", "thread"),
            ]
        ),
    ],
)
def test_the_sanitizers_are_silent(name: str, sanitize: str) -> None:
    require("g++")
    run(ROWS[name], EmulatedRuntime(H100, sanitize=sanitize, sanitized=("persistent_grid<", "arrange<")))


IN_STAGING = SOURCE[: SOURCE.index("class Staging")].count("__syncthreads();")
"""The barrier of the warps that share an operand, of which only two that own different rows have need."""
FAULTS: list[tuple[str, Any]] = [
    *(
        ("lstm" if place == IN_STAGING else "gru of halves", ("__syncthreads();", place))
        for place in range(SOURCE.count("__syncthreads();"))
    ),
    *((name, ("__syncwarp();", place)) for place, name in enumerate(("gru of halves", "gru"))),
    ("gru of halves", RELAXED_POLL),
    ("gru of halves", ("machine::store_release(", 0, "machine::store_relaxed(")),
    ("lstm", ("to_next_(machine::opaque(count(taking_turns, steps) == 1 ? 0 : size))", 0, "to_next_(0)")),
]
"""Each barrier of a block, of a warp (after a wait, where an operand is staged), what publishes and waits, the second buffer of H[t]."""


def test_all_that_orders_memory_is_left_out_once() -> None:
    for text in ("__syncthreads();", "__syncwarp();", RELAXED_POLL[0], "machine::store_release("):
        assert [fault[1] for _, fault in FAULTS if fault[0] == text] == list(range(SOURCE.count(text)))


def fault_rows() -> list[Any]:
    """All of `FAULTS`; all are slow but a block's last barrier and a store that releases nothing."""
    usual = [fault for _, fault in FAULTS if fault[0] == "__syncthreads();"][-1:]
    usual += [fault for _, fault in FAULTS if fault[0] == "machine::store_release("]
    assert len(usual) == 2
    return [pytest.param(name, fault, marks=[pytest.mark.slow] * (fault not in usual)) for name, fault in FAULTS]


@pytest.mark.parametrize(("name", "fault"), fault_rows(), ids=str)
def test_the_thread_sanitizer_misses_what_orders_memory(name: str, fault: Any) -> None:
    require("g++")
    with pytest.raises(DeviceError, match="data race"):
        run(ROWS[name], EmulatedRuntime(H100, sanitize="thread", sanitized=("persistent_grid<",), fault=fault))


@pytest.mark.parametrize("name", ["gru without flags", pytest.param("lstm without flags", marks=pytest.mark.slow)])
def test_words_that_are_not_waited_for_are_wrong(name: str) -> None:
    require("g++")
    fault = ("!(is_there(exchange) & others.is_there())", 0, "false")
    with pytest.raises(AssertionError):
        run(ROWS[name], EmulatedRuntime(H100, fault=fault, delay_us=200))
