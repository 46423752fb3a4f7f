"""A GRU with weights that do not fit, an operator that nothing defines, and the order of pieces in a message."""

from __future__ import annotations

from unittest.mock import patch

import dmlpy as dml
from dmlpy.inspection.samples import sample
from tests.support.tensors import tensor

GATES = [dml.ActivationSigmoidDesc(), dml.ActivationTanhDesc(), dml.ActivationTanhDesc()]


def gru(weight: dml.TensorDesc, recurrence: dml.TensorDesc) -> dml.GRUDesc:
    return dml.GRUDesc(
        input_tensor=tensor(1, 2, 3, 3),
        weight_tensor=weight,
        recurrence_tensor=recurrence,
        output_sequence_tensor=tensor(2, 1, 3, 5),
        activation_descs=GATES[:2],
        direction="FORWARD",
        linear_before_reset=True,
    )


def in_order(pieces: list[str], text: str) -> str | None:
    """The first piece that is not in the text behind the pieces before it; None if all are."""
    place = 0
    for piece in pieces:
        place = text.find(piece, place)
        if place < 0:
            return piece
    return None


def reference_of_undefined() -> dml.Outputs:
    """Asks `dml.reference` for an operator that nothing defines. Raises CompileError."""
    with patch("dmlpy.reference.evaluation.why_undefined", return_value="it has no definition"):
        return dml.reference(sample(dml.ROIAlignGradDesc))
