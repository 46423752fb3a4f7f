"""Which tests `--device` and `-m quick` take; `test_pairwise.py` runs pytest with both."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.conftest import CUDA_DEVICES
from tests.support import selection
from tests.support.folders import TESTS


class FakeItem:
    """What the rules look at of a collected test."""

    def __init__(self, file: str, row: str = "", marks: tuple[str, ...] = (), **params: Any) -> None:
        self.path = TESTS / file
        self.nodeid = f"tests/{file}::test_it" + (f"[{row}]" if row else "")
        self.marks = {*marks}
        if params:
            self.callspec = SimpleNamespace(params=params)

    def get_closest_marker(self, name: str) -> object:
        return name if name in self.marks else None

    def add_marker(self, mark: pytest.MarkDecorator) -> None:
        self.marks.add(mark.name)


def test_devices_are_listed() -> None:
    assert selection.device_names("cpu, cuda-emulated") == {"cpu", "cuda-emulated"}
    with pytest.raises(pytest.UsageError, match="--device cpu,gpu: 'gpu' is none of numpy, cpu, cuda-emulated, cuda"):
        selection.device_names("cpu,gpu")


@pytest.mark.parametrize(
    ("item", "devices"),
    [
        (FakeItem("graphs/test_graphs.py"), None),
        (FakeItem("devices/test_softmax.py"), None),
        (FakeItem("devices/test_softmax.py", any_device="cuda-emulated"), {"cuda-emulated"}),
        (FakeItem("onnx/test_model.py", device="cpu", number=3), {"cpu"}),
        (FakeItem("devices/cpu/test_matrix.py"), {"cpu"}),
        (FakeItem("devices/numpy/test_division.py", number=3), {"numpy"}),
        (FakeItem("devices/cuda/test_plans.py"), {"cuda-emulated", "cuda"}),
        (FakeItem("devices/cuda/test_plans.py", cuda_device="cuda"), {"cuda"}),
        (FakeItem("devices/cuda/test_device.py", device="step"), {"cuda-emulated", "cuda"}),  # a strategy
        (FakeItem("torch/test_torch.py", torch_device="cpu"), None),  # PyTorch's
    ],
)
def test_what_a_test_is_about(item: Any, devices: set[str] | None) -> None:
    assert selection.devices_of(item) == devices
    kept, left = selection.of_devices([item], selection.DEVICES)
    assert (kept, left) == ([item], [])
    kept, left = selection.of_devices([item], {"cpu"})
    assert bool(kept) == (devices is None or "cpu" in devices)
    assert bool(left) != bool(kept)


def test_the_first_usual_row_of_each_test_is_quick() -> None:
    items: list[Any] = [
        FakeItem("graphs/test_graphs.py", "a", ("slow",)),
        FakeItem("graphs/test_graphs.py", "b", ("gpu",)),
        FakeItem("graphs/test_graphs.py", "c"),
        FakeItem("graphs/test_graphs.py", "d"),
        FakeItem("x/test_expressions.py"),
        FakeItem("devices/test_softmax.py", "e"),
        *(FakeItem(place if place.endswith(".py") else f"{place}/test_any.py") for place in selection.NOT_QUICK),
    ]
    selection.mark_quick(items)
    assert [item.nodeid.partition("[")[2] for item in items if "quick" in item.marks] == ["c]", "", "e]"]


def test_rules_name_what_there_is() -> None:
    assert [place for place in selection.NOT_QUICK if not (TESTS / place).exists()] == []
    assert {path.name for path in (TESTS / "devices").iterdir() if (path / "__init__.py").is_file()} == {*selection.DEVICES_OF_FOLDER}
    assert set().union(*selection.DEVICES_OF_FOLDER.values()) == {*selection.DEVICES}
    assert {getattr(device, "values", (device,))[0] for device in CUDA_DEVICES} == selection.DEVICES_OF_FOLDER["cuda"]
    assert selection.may_be_quick(Path("elsewhere/test_it.py"))
