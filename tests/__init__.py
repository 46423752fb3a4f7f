"""The tests of dmlpy, in a folder for each of its rooms; what several of them share is in `support`."""

from contextlib import suppress

with suppress(ModuleNotFoundError):  # `tests.gpu_check` itself reports what is not installed
    import pytest

    # A failing `assert` of a shared check shows its values, as one of a test does.
    pytest.register_assert_rewrite("tests.support")
