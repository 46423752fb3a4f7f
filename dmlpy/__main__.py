"""`python -m dmlpy` is the `dmlpy` command."""

from __future__ import annotations

from dmlpy.cli.main import main

if __name__ == "__main__":
    main()
