"""Examples that a page shows as code with its results; they are executed when the page is written."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.devices import Reserve, device
from dmlpy.inspection.samples import example, sample

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from dmlpy.description.descs import OperatorDesc
    from dmlpy.description.markers import Slot

_MOST_PRINTED = 48
"""Elements of an array that are printed in full."""
_INDICES = re.compile("indices|index|coordinates|mask")
_NORMAL, _SMALL, _ABOVE_ONE, _BITS = "normal", "between 0 and 1", "above 1", "0 or 1"


@dataclass(frozen=True)
class ExecutedExample:
    """An operator's example with its results.

    Attributes:
        code: the Python code.
        inputs: the arrays that it creates, by place.
        outputs: the operator's results on the NumPy device, by place: arrays, and a training form's `Reserve`.
    """

    code: str
    inputs: Mapping[str, np.ndarray[Any, Any]]
    outputs: Mapping[str, Any]


def run_example(kind: type[OperatorDesc]) -> ExecutedExample | None:
    """Runs an operator's sample with random inputs on the NumPy device; None if it cannot.

    Uses the first kind of inputs that every step accepts and that yields finite results: a logarithm needs positive numbers,
    indices must be small.
    """
    if not device("numpy").runs(kind):
        return None
    desc = sample(kind)
    failure: Exception | None = None
    last: ExecutedExample | None = None
    for floats, integers in ((_NORMAL, _NORMAL), (_SMALL, _NORMAL), (_ABOVE_ONE, _NORMAL), (_NORMAL, _BITS), (_SMALL, _BITS)):
        described = example(kind).replace("import dmlpy as dml\n", "import dmlpy as dml\nimport numpy as np\n", 1)
        code = f"{described}\n{_running(desc, floats, integers)}"
        scope: dict[str, Any] = {}
        try:
            with np.errstate(all="ignore"):
                exec(compile(code, kind.short_name(), "exec"), scope)
        except ValueError as error:  # an index out of range
            failure = error
            continue
        last = ExecutedExample(code, scope["inputs"], dict(_by_place(scope["outputs"])))
        if all(np.isfinite(value).all() for value in last.outputs.values() if isinstance(value, np.ndarray) and value.dtype.kind == "f"):
            return last
    if last is None and failure is not None:
        raise failure
    return last


def show_value(name: str, value: Any) -> str:
    """Formats an input or output for a page: a small array in full, the first matrix of a large one abbreviated with dots."""
    if isinstance(value, Reserve):
        return f"{name}: a Reserve of {value.array.nbytes} bytes, for the gradient"
    heading = f"{name}: {value.dtype} {list(value.shape)}"
    if value.size > _MOST_PRINTED and value.ndim > 2:
        leading = (0,) * (value.ndim - 2)
        heading += f", of which {name}[{', '.join(map(str, leading))}]"
        value = value[leading]
    with np.printoptions(precision=4, suppress=True, threshold=_MOST_PRINTED, edgeitems=3, linewidth=88):
        return f"{heading}\n{value}"


def _by_place(outputs: Any) -> Iterator[tuple[str, Any]]:
    """The values of `Outputs`, with arrays of tensors split."""
    for name, value in outputs.as_dict().items():
        yield from ((f"{name}[{index}]", item) for index, item in enumerate(value)) if isinstance(value, tuple) else [(name, value)]


def _running(desc: OperatorDesc, floats: str, integers: str) -> str:
    lines = [f'    "{slot.place}": {text},' for slot, text in _inputs(desc, floats, integers)]
    statements = ["rng = np.random.default_rng(0)", "inputs = {", *lines, "}"] if lines else ["inputs = {}"]
    return "\n".join(["", *statements, 'outputs = dml.compile(desc, "numpy")(**inputs)'])


def _inputs(desc: OperatorDesc, floats: str, integers: str) -> Iterator[tuple[Slot, str]]:
    for slot in desc.input_slots():
        if slot.tensor is None:
            continue
        dtype, sizes = slot.tensor.memory.data_type.numpy, list(slot.tensor.memory.sizes)
        limit = slot.field.marker.at_most
        if limit is not None:
            expression = f"rng.integers(1, {desc.sizes()[limit] + 1}, {sizes})"
        elif dtype.kind == "f":
            expression = {
                _NORMAL: f"rng.normal(0, 0.5, {sizes})",
                _SMALL: f"rng.uniform(0.05, 0.95, {sizes})",
                _ABOVE_ONE: f"rng.uniform(1, 2, {sizes})",
            }[floats]
            expression += ".round(2)"
        else:
            small = integers == _BITS or slot.tensor.data_type.bits == 4 or _INDICES.search(slot.field.name)
            lowest, highest = (0, 2) if small else (0 if dtype.kind == "u" else -9, 10)
            expression = f"rng.integers({lowest}, {highest}, {sizes})"
        yield slot, f"{expression}.astype(np.{dtype.name})"
