"""Commands that write generated files; `python -m tests.support.regenerate` runs all of them."""
