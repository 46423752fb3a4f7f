"""The examples on the pages of DirectML's documentation."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

from tests.support.descs import facts_reader as facts
from tests.support.descs import relation_descs as descs

# Members that a page's example leaves out, with the values that it holds for (see the facts' doubts).
UNSAID: dict[str, descs.Members] = {
    "DML_OPERATOR_PADDING": {"PaddingValue": 0.0},
    "DML_OPERATOR_PADDING1": {"PaddingValue": 0.0},
    "DML_OPERATOR_RESAMPLE_GRAD": {"InputPixelOffsets": [0.5, 0.5], "OutputPixelOffsets": [0.0, 0.0]},
    "DML_OPERATOR_RESAMPLE_GRAD1": {
        "InputPixelOffsets": [0.5, 0.5],
        "OutputPixelOffsets": [-0.5, -0.5],
        "RoundingDirection": "DECREASING",
    },
    "DML_OPERATOR_ROI_ALIGN_GRAD": {"InputPixelOffset": 0.5, "OutputPixelOffset": -0.5},
}


@dataclass(frozen=True)
class Example:
    """A page's example as a desc in the C spelling, and its values by tensor (`InputTensor`, `InputTensors[0]`)."""

    name: str
    operator: str
    members: descs.Members
    inputs: dict[str, Any]
    outputs: dict[str, Any]

    def data(self, members: descs.Members | None = None) -> dict[str, Any]:
        return descs.data(self.operator, self.members if members is None else members)


@cache
def examples() -> tuple[Example, ...]:
    found = []
    for operator, fact in facts.operators().items():
        for number, given in enumerate(fact["examples"]):
            slots = {**given["inputs"], **given["outputs"]}
            described = {slot: [layout(own) for own in item] if isinstance(item, list) else layout(item) for slot, item in slots.items()}
            members = described | UNSAID.get(operator, {}) | given["attributes"]
            found.append(Example(f"{operator} {number}", operator, members, given["inputs"], given["outputs"]))
    return tuple(found)


def layout(item: dict[str, Any]) -> descs.Members:
    return {"DataType": item["type"], "Sizes": item["sizes"]}
