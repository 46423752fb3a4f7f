"""What bounds the benchmark's operators on a GPU, by machine code, by bytes, and by a library."""

from __future__ import annotations

import pytest

from dmlpy.bench.operators import suite
from dmlpy.devices.cuda.offline_device import GPUS
from tests.support.cuda.binaries import scheduler_model
from tests.support.operators.estimates import estimate, estimates
from tests.support.tools import require

require("nvrtc")
require("nvdisasm")
H100 = GPUS["H100"]


def test_a_case_is_bound_by_instructions_bytes_or_a_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scheduler_model, "_FOLLOWED", 500)  # a few turns of sixteen warps
    gelu = estimate("ACTIVATION_GELU:LARGE", "FLOAT16", H100)
    assert (gelu.kernel, gelu.bound) == ("elements<Gelu, 8, int, 8, machine::half, machine::half>", "memory")
    assert gelu.moved == 2 * 2 * 32768 * 4096
    # As test_issue_rates.py counts them; a multiprocessor issues four a cycle.
    assert 150 < gelu.instructions < 200
    issue_us = gelu.instructions * gelu.moved / 4 / 8 / 32 / 4 / 132 / 1.98e3
    assert issue_us <= gelu.model_us < 1.1 * issue_us
    product = estimate("GEMM:SQUARE", "FLOAT16", H100)
    assert (product.kernel, product.bound) == ("cuBLAS", "products")
    assert product.model_us >= product.floor_us > product.memory_us
    assert "GEMM:SQUARE FLOAT16: cuBLAS: 101 MB; model " in str(product)


@pytest.mark.slow
def test_no_case_takes_less_than_its_floor() -> None:
    found = list(estimates(list(suite.CASES), H100))
    assert len(found) == 2 * 17 + 8
    for line in found:
        assert max(line.model_us, line.memory_us) >= 0.99 * line.floor_us, line
    bound = {line.name: line.bound for line in found}
    assert bound["CONVOLUTION:NHWC FLOAT16"] == "cache"
    assert bound["MULTIHEAD_ATTENTION:DECODE FLOAT16"] in ("cache", "memory")
