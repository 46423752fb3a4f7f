"""The `dmlpy` command."""
