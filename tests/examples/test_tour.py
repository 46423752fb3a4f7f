"""examples/tour.ipynb: every cell runs, and shows what its text promises. It is stored without outputs, which no change would renew."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from dmlpy.docs.notebook import run_cell

TOUR = Path(__file__).parents[2] / "examples" / "tour.ipynb"
NOTEBOOK: dict[str, Any] = json.loads(TOUR.read_text(encoding="utf-8"))
CODE = {cell["id"]: "".join(cell["source"]) for cell in NOTEBOOK["cells"] if cell["cell_type"] == "code"}


def test_the_notebook_is_well_formed_and_has_no_outputs() -> None:
    assert (NOTEBOOK["nbformat"], NOTEBOOK["nbformat_minor"], NOTEBOOK["metadata"]["kernelspec"]["name"]) == (4, 5, "python3")
    names = [cell["id"] for cell in NOTEBOOK["cells"]]
    assert len(set(names)) == len(names)
    assert all(re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", name) for name in names)
    for cell in NOTEBOOK["cells"]:
        kept = {key: cell[key] for key in ("outputs", "execution_count") if key in cell}
        assert kept == ({"outputs": [], "execution_count": None} if cell["cell_type"] == "code" else {}), cell["id"]


def test_the_tour_runs_and_shows_what_it_promises(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("MPLBACKEND", "Agg")
    variables: dict[str, Any] = {"__name__": "__main__"}
    shown, printed = {}, {}
    for name, source in CODE.items():
        shown[name] = run_cell(name, source, variables)
        printed[name] = capsys.readouterr().out
    html = {name: value._repr_html_() for name, value in shown.items() if hasattr(value, "_repr_html_")}
    # Layouts: packed, strided, broadcast.
    assert [re.findall(r"\((\w+)", line)[0] for line in printed["layouts-image"].splitlines()] == ["packed", "axis", "no"]
    # Errors: the codes, the marks, the remedies.
    assert {problem.code for problem in variables["problems"]} == {"size.equal", "type.equal"}
    assert "weight_tensor.sizes" in printed["errors-check"]
    assert "[size.equal]" in html["errors-compile"]
    assert all(remedy in printed["errors-spelling"] for remedy in ("did you mean strides?", "desc.replace(sizes="))
    # Graphs: a picture, or a table without dot.
    assert all(node in html["graphs-build"] for node in ("rnn", "scale"))
    # Training: both curves fall, far below the guess that the third one shows.
    losses = variables["history"]["loss"], variables["history"]["val_loss"]
    assert all(curve[-1] < 0.1 / 6 for curve in losses)
    curves = [line.get_label() for line in shown["training-curves"].axes[0].get_lines()]
    assert curves == ["training", "held out", "always the mean"]
    variables["plt"].close("all")
