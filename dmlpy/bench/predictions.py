"""The model's predictions for the benchmark's recurrent shapes on a GPU: `python -m dmlpy.bench.predictions [--check] [--add TITLE]`.

Writes the predictions of this version's cost model to records/predictions.json, replacing the last ones there, or with `--add`
after them: earlier ones are kept, so that each can be compared with measurements. With `--check` nothing is written: the exit status
is 0 if the last ones are this model's. No GPU is needed, and nothing is measured.
"""

from __future__ import annotations

import argparse
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from pydantic import BaseModel, ConfigDict

from dmlpy.bench.shapes import SHAPES, DataType, Pass, Recurrent
from dmlpy.devices.cuda.recurrent.gradient_plan import BACKWARD
from dmlpy.devices.cuda.recurrent.plan import FORWARD
from dmlpy.devices.cuda.recurrent.strategies import Choice, Plans, choose
from dmlpy.devices.cuda.runtime.interface import Limits
from dmlpy.messages.json_text import lay_out
from dmlpy.operators.recurrent.gradient import RecurrentGradDesc

if TYPE_CHECKING:
    from dmlpy.operators.recurrent.layer import RecurrentDesc

NAME = "predictions"
PREDICTIONS = Path(__file__).parent / "records" / f"{NAME}.json"
H200 = Limits("H200", 90, 132, 227 * 1024, 141 << 30, 13000, 13000, 1.98e9, 4.8e12, 60 << 20)


class Prediction(BaseModel):
    """The prediction for one shape, pass and data type, without the products over all steps.

    Attributes:
        strategies: the operators' kernel strategies, one operator per layer and then its gradient.
        step_us: microseconds of a step of each, with its share of the work before the first one.
        us: microseconds of all operators' steps.
    """

    model_config = ConfigDict(extra="forbid")

    strategies: list[str]
    step_us: list[float]
    us: float


class Model(BaseModel):
    """One version of the cost model.

    Attributes:
        title: the model's title.
        date: the date of the predictions.
        predictions: by `SHAPE PASS TYPE`.
    """

    model_config = ConfigDict(extra="forbid")

    title: str
    date: str
    predictions: dict[str, Prediction]


class Predictions(BaseModel):
    """The file of predictions.

    Attributes:
        device: the GPU's name.
        models: the oldest first.
    """

    model_config = ConfigDict(extra="forbid")

    format: int = 1
    device: str
    models: list[Model]

    @classmethod
    def load(cls, path: Path) -> Predictions:
        return cls.model_validate_json(path.read_text("utf-8"))


def predict() -> dict[str, Prediction]:
    """Predicts each recurrent layer of the suite of models, as `Model.predictions`."""
    return {
        f"{key} {which} {dtype}": _prediction(shape, which, dtype)
        for key, shape in SHAPES.items()
        if isinstance(shape, Recurrent) and shape.suite == "models"
        for which in shape.passes
        for dtype in shape.dtypes
    }


def _prediction(shape: Recurrent, which: Pass, dtype: DataType) -> Prediction:
    choices: list[Choice[Any]] = []
    for desc in shape.descs(which, dtype):
        plans: Plans[Any] = BACKWARD if isinstance(desc, RecurrentGradDesc) else FORWARD
        choices.append(choose(plans, cast("RecurrentDesc", desc), H200))
    return Prediction(
        strategies=[choice.strategy for choice in choices],
        step_us=[round(choice.option.step_us, 2) for choice in choices],
        us=round(sum(choice.option.estimate.sequence_us for choice in choices), 1),
    )


def markdown(predictions: Predictions) -> str:
    """A table of all models, in microseconds per step summed over the operators, with the last model's strategies."""
    titles = [f"{model.title} ({model.date})" for model in predictions.models]
    lines = [
        f"| {predictions.device}: shape, pass, type | {' | '.join(titles)} | strategies |",
        "| --- |" + " --- |" * (len(titles) + 1),
    ]
    for key, last in predictions.models[-1].predictions.items():
        times = []
        for model in predictions.models:
            prediction = model.predictions.get(key)
            times.append("" if prediction is None else f"{sum(prediction.step_us):.2f}")
        lines.append(f"| {key} | {' | '.join(times)} | {', '.join(dict.fromkeys(last.strategies))} |")
    return "\n".join(lines) + "\n"


def main(arguments: list[str] | None = None) -> int:
    """Runs the command and returns its exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m dmlpy.bench.predictions", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    group = parser.add_mutually_exclusive_group()
    group.add_argument("--check", action="store_true", help="write nothing; exit with 1 if the last predictions are not this model's")
    group.add_argument("--add", metavar="TITLE", help="keep what the last model said, and add this one under a title")
    options = parser.parse_args(arguments)
    recorded = Predictions(device=H200.name, models=[])
    if PREDICTIONS.is_file():
        recorded = Predictions.load(PREDICTIONS)
    elif options.add is None:
        parser.error(f"there is no {PREDICTIONS}: the first model takes --add")
    now = predict()
    if options.check:
        return int(now != recorded.models[-1].predictions)
    title = options.add or recorded.models.pop().title
    recorded.models.append(Model(title=title, date=datetime.now(UTC).date().isoformat(), predictions=now))
    PREDICTIONS.write_text(lay_out(recorded.model_dump()), "utf-8", newline="\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
