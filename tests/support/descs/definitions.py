"""What happens where an operator has no definition: every operator has one, whose absence is feigned."""

from __future__ import annotations

from unittest.mock import patch

import dmlpy as dml
from dmlpy.inspection.samples import sample


def reference_of_undefined() -> dml.Outputs:
    """Asks `dml.reference` for an operator that nothing defines. Raises CompileError."""
    with patch("dmlpy.reference.evaluation.why_undefined", return_value="it has no definition"):
        return dml.reference(sample(dml.ROIAlignGradDesc))
