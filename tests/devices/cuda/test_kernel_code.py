"""What the compiler makes of the places where a recurrence spends its time, read from PTX; no GPU is needed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dmlpy.devices.cuda import sources
from dmlpy.devices.cuda.kernels import Kernel
from dmlpy.devices.cuda.recurrent import gradient_kernels, layer
from dmlpy.devices.cuda.recurrent.gradient_kernels import gradient_kernel
from dmlpy.devices.cuda.recurrent.layer import project_kernel, step_kernel
from tests.support.cuda.binaries.nvrtc import compile_ptx
from tests.support.cuda.binaries.ptx import body, count, load_chain
from tests.support.tools import require

require("nvrtc")

FLOAT: np.dtype[Any] = np.dtype(np.float32)
HALF: np.dtype[Any] = np.dtype(np.float16)
LSTM = ("Lstm<false, false, true>", *["Activations<Sigmoid, Tanh, Tanh>"] * 2)
GRU = ("Gru<false>", *["Activations<Sigmoid, Tanh>"] * 2)


def code(kernel: Kernel) -> list[str]:
    return body(*compile_ptx(sources.read(kernel.file), kernel.entry))


CODE = """
.visible .entry other(
)
{
	ld.global.u32 	%r9, [%rd9];
}
.visible .entry kernel(
	.param .u64 kernel_param_0
)
{
	.reg .b32 	%r<9>;
	ld.param.u64 	%rd1, [kernel_param_0];
	ld.global.u32 	%r1, [%rd1];
	ld.global.v2.u32 	{%r2, %r3}, [%rd1+8];
	mul.wide.s32 	%rd2, %r3, 4;
	setp.eq.s32 	%p1, %r1, 0;
	@%p1 bra 	$L__BB0_2;
	// a comment
	ld.global.u32 	%r4, [%rd1+4];
	@%p1 st.global.u32 	[%rd2], %r4;
$L__BB0_2:
	@!%p1 ld.global.u32 	%r5, [%rd2];
	div.s32 	%r6, %r5, %r4;
	ret;

}
"""


@pytest.mark.parametrize(
    ("without", "chain"),
    [
        ((), 2),
        (("@%p1 bra", "@!%p1 ld"), 1),
        (("@%p1 bra", "mul"), 2),  # by its predicate
        (("@%p1 bra", "setp"), 2),  # by its address
        (("setp", "mul"), 1),
        (("mul", "@!%p1 ld"), 2),  # by a branch around it
    ],
)
def test_loads_that_wait_are_found(without: tuple[str, ...], chain: int) -> None:
    lines = [line for line in body(CODE, "kernel") if not line.startswith(without)] if without else body(CODE, "kernel")
    assert load_chain(lines) == chain
    assert count(lines, "div", "rem") == 1
    assert count(lines, "ld.global") == 4 - ("@!%p1 ld" in without)


@pytest.mark.parametrize("data_type", [FLOAT, HALF], ids=str)
@pytest.mark.parametrize("kind", ["forward", "gradient"])
def test_persistent_block_loads_its_weights_16_bytes_at_a_time(kind: str, data_type: np.dtype[Any]) -> None:
    """Eight of them are on their way before the first is stored, and nothing is divided."""
    make: Any = layer.persistent_block_kernel if kind == "forward" else gradient_kernels.persistent_block_kernel
    for cell in (LSTM, GRU):
        lines = code(make(data_type, 2, *(["Inference"] if kind == "forward" else []), *cell))
        moves = [line.split()[0] for line in lines if line.startswith(("ld.global", "st.shared"))]
        assert moves[:9] == ["ld.global.v4.u32"] * 8 + ["st.shared.v4.u32"]
        assert count(lines, "div", "rem") == 0


OF_A_STEP = [
    *(step_kernel("step", data_type, run, *LSTM) for data_type in (FLOAT, HALF) for run in ("Inference", "Training")),
    step_kernel("reset", FLOAT, "Inference", *GRU),
    step_kernel("reset", HALF, "Training", *GRU),
    project_kernel(HALF),
]
OF_A_GRADIENTS_STEP = [
    *(gradient_kernel("step", data_type, *cell) for data_type, cell in ((FLOAT, LSTM), (HALF, GRU))),
    gradient_kernel("reset", HALF, *GRU),
    *(gradient_kernel(name, FLOAT) for name in ("collect", "finish")),
]


@pytest.mark.parametrize(
    ("kernel", "chain"),
    [
        # Where a sample's step lies follows from its length, if its direction is backward.
        *((kernel, 2) for kernel in OF_A_STEP),
        *((kernel, 1) for kernel in OF_A_GRADIENTS_STEP),
    ],
    ids=lambda item: item.entry if isinstance(item, Kernel) else None,
)
def test_a_step_divides_nothing_and_waits_for_few_loads(kernel: Kernel, chain: int) -> None:
    lines = code(kernel)
    assert count(lines, "div", "rem") == 0
    assert load_chain(lines) == chain
