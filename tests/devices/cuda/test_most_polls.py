"""How long a block waits for another before its launch gives up, and that `DMLPY_MOST_POLLS` shortens it in every kernel that waits."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from dmlpy.devices.cuda.device import CudaDevice
from dmlpy.devices.cuda.recurrent.grid import MOST_POLLS
from dmlpy.validation.problems import DeviceError
from tests.support.cuda.counting import Replayed
from tests.support.cuda.cpu_seam import H100, CpuSeam, NullSeam
from tests.support.cuda.grid_rows import HALF, Row
from tests.support.cuda.layer_plans import launch
from tests.support.cuda.network_checks import stacked
from tests.support.tools import require


class Recording(NullSeam):
    """Keeps the looks that each launch allows, of kernels that have such a parameter."""

    def __init__(self) -> None:
        super().__init__(replace(H100, multiprocessors=40))
        self.allowed: list[int] = []

    def bind_launch(self, function: Any, grid: Any, threads: int, shared_bytes: int, argument: Any, cooperative: bool = False) -> Any:
        names = argument.dtype.names or ()
        assert cooperative <= ("most_polls" in names)
        if cooperative:
            self.allowed.append(int(argument["most_polls"][0]))
        return super().bind_launch(function, grid, threads, shared_bytes, argument, cooperative)


@pytest.mark.parametrize(("text", "wanted"), [(None, MOST_POLLS), ("", MOST_POLLS), ("2097152", 1 << 21), ("4294967295", 2**32 - 1)])
def test_the_environment_bounds_every_wait(monkeypatch: pytest.MonkeyPatch, text: str | None, wanted: int) -> None:
    """Of the forward kernels and of those of gradients."""
    monkeypatch.delenv("DMLPY_MOST_POLLS", raising=False)
    if text is not None:
        monkeypatch.setenv("DMLPY_MOST_POLLS", text)
    seam = Recording()
    Replayed(CudaDevice(seam, strategy="grid"), stacked("lstm", 320, 2, 3, np.float16))
    assert seam.allowed == [wanted] * 4  # two layers, each forward and backward


@pytest.mark.parametrize("text", ["0", "-1", "1e6", "many", "4294967296", "²"])
def test_what_is_no_number_of_looks_is_refused(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("DMLPY_MOST_POLLS", text)
    with pytest.raises(DeviceError, match=rf"DMLPY_MOST_POLLS is {text!r}, expected a number from 1 to 4294967295") as error:
        Replayed(CudaDevice(Recording(), strategy="grid"), stacked("gru", 320, 2, 3, np.float16))
    assert error.value.hresult == dml.HResult.E_INVALIDARG


def test_a_wait_without_end_fails_the_launch(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel whose blocks never tell that their values are there; with the usual number of looks this would last minutes."""
    require("g++")
    monkeypatch.setenv("DMLPY_MOST_POLLS", "1000")
    row = Row("RNN", HALF, (8, 3, 8), options={"most_registers": 0})
    with pytest.raises(DeviceError, match=r"trap at common/exchange\.cuh"):
        launch(row.build(trains=False), row.plan, CpuSeam(fault=("machine::store_release(flags_ + own_, epoch_);", 0)))
