"""Tables of tests that go wrong, as the tests of `gpu_faults`: a row that fails is raised with the others, in one group."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.cuda.gpu_faults import computed
from tests.support.tables import table

pytestmark = pytest.mark.gpu


@table("expected", [[0, 1], [2, 3], [4, 5]])
def test_is_wrong_in_rows(expected: list[float]) -> None:
    np.testing.assert_array_equal(computed(), expected)


@table("error", [AssertionError, ValueError])
def test_raises_in_a_row(error: type[Exception]) -> None:
    raise error("no result is needed to see this")
