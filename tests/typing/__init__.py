"""Typed code that type checkers read: `contract.py` must pass, each marked line of `wrong_uses.py` must not."""
