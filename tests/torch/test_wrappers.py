"""What PyTorch does with modules from outside: compiling, exporting, mixed precision, function transforms, copies, hooks."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.folders import ROOT
from tests.support.tools import require

require("torch")

import torch

from tests.support.torch.ranks import RANKS
from tests.support.torch.wrappers import TRIED

pytestmark = [
    # torch.compile looks at every tensor's gradient and makes an instance of every autograd.Function; torch.jit is on its way out.
    pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor"),
    pytest.mark.filterwarnings("ignore:.*should not be instantiated"),
    pytest.mark.filterwarnings("ignore:.*torch.jit"),
    pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning"),
    pytest.mark.filterwarnings("ignore:.*LeafSpec"),
    pytest.mark.filterwarnings("ignore:Converting a tensor to a Python"),
]


@pytest.fixture(autouse=True)
def _repeatable() -> Iterator[None]:
    """The same random numbers for each test; one thread, since for tensors this small more would only wait for each other."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    yield
    torch.set_num_threads(threads)
    torch.compiler.reset()


SLOW = ("`torch.compile`", "`torch.onnx.export`")


@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.slow] * (name in SLOW)) for name in TRIED])
def test_works_or_ends_in_a_clear_error(name: str) -> None:
    TRIED[name][1]()


def test_the_page_shows_what_was_tried() -> None:
    page = (ROOT / "dmlpy/torch/README.md").read_text(encoding="utf-8")
    rows = [f"| {name} | {outcome} |" for name, (outcome, _) in {**TRIED, **RANKS}.items()]
    assert [line for line in page.splitlines() if line.startswith("| ")][1:] == rows, "\n".join(rows)
