"""The problems of a mutant desc."""

from __future__ import annotations

import dmlpy as dml
from tests.support.descs import relation_descs as descs


def problems_of(operator: str, members: descs.Members, level: str) -> list[dml.Problem]:
    """The problems of a desc given as JSON data; any other exception is reported as one, so that others are still tried."""
    try:
        return dml.check(dml.OperatorDesc.from_dict(descs.data(operator, members)), level)
    except dml.DescError as error:
        return list(error.problems)
    except Exception as error:
        return [dml.Problem("raised", "", repr(error), "a DescError, or problems")]
