"""The tests of dmlpy, in a folder for each of its rooms; what several of them share is in `support`."""

import sys

# Programs that tests start import what is shared as well: they do without pytest, which takes longer to import than most of it.
if "pytest" in sys.modules:
    # A failing `assert` of a shared check shows its values, as one of a test does.
    sys.modules["pytest"].register_assert_rewrite("tests.support")
