"""Modules, processes and memory for tests of `dmlpy.torch`."""
