"""What the model predicts for the benchmark's shapes, as it is recorded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dmlpy.bench import predictions
from dmlpy.bench.predictions import Prediction, Predictions
from dmlpy.bench.shapes import SHAPES, Recurrent


def test_the_last_predictions_are_the_models() -> None:
    """Where this fails: python -m dmlpy.bench.predictions, and then python -m dmlpy.bench.readme."""
    assert predictions.main(["--check"]) == 0


def test_all_models_speak_of_the_same_work() -> None:
    recorded = Predictions.load(predictions.PREDICTIONS)
    first, *others = (list(model.predictions) for model in recorded.models)
    assert others
    assert all(keys == first for keys in others)
    shapes = {key: shape for key, shape in SHAPES.items() if isinstance(shape, Recurrent) and shape.suite == "models"}
    assert {key.split()[0] for key in first} == {*shapes}
    assert len(shapes) >= 16
    for model in recorded.models:
        for key, prediction in model.predictions.items():
            shape = shapes[key.split()[0]]
            operators = len(shape.layers) * (2 if " training " in key else 1)
            assert len(prediction.strategies) == len(prediction.step_us) == operators
            # a step has its share of what comes before the first one
            assert prediction.us == pytest.approx(shape.steps * sum(prediction.step_us), rel=0.02, abs=0.01 * shape.steps * operators)


@pytest.fixture
def recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file that the command writes; the model says one thing of one shape."""
    monkeypatch.setattr(predictions, "PREDICTIONS", tmp_path / "predictions.json")
    say(monkeypatch, 1.0)
    return tmp_path / "predictions.json"


def say(monkeypatch: pytest.MonkeyPatch, us: float) -> None:
    prediction = Prediction(strategies=["persistent_grid", "persistent_grid", "per_step"], step_us=[us, us, 2 * us], us=40 * us)
    monkeypatch.setattr(predictions, "predict", lambda: {"lstm-1-b1-t10 forward FLOAT32": prediction})


def test_models_are_added_and_the_last_one_is_replaced(recorded: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert predictions.main(["--add", "first"]) == 0
    say(monkeypatch, 2.0)
    assert predictions.main(["--check"]) == 1
    assert predictions.main(["--add", "second"]) == 0
    say(monkeypatch, 3.0)
    assert predictions.main([]) == 0
    assert predictions.main(["--check"]) == 0
    found = Predictions.load(recorded)
    assert [(model.title, model.predictions["lstm-1-b1-t10 forward FLOAT32"].us) for model in found.models] == [
        ("first", 40.0),
        ("second", 120.0),
    ]
    date = found.models[0].date
    assert predictions.markdown(found).splitlines() == [
        f"| H200: shape, pass, type | first ({date}) | second ({date}) | strategies |",
        "| --- | --- | --- | --- |",
        "| lstm-1-b1-t10 forward FLOAT32 | 4.00 | 12.00 | persistent_grid, per_step |",
    ]


def test_the_first_model_needs_a_title(recorded: Path, capsys: Any) -> None:
    with pytest.raises(SystemExit, match="2"):
        predictions.main([])
    assert "the first model takes --add" in capsys.readouterr().err
    assert not recorded.exists()
