"""Layers, models and runs for tests of `dmlpy.keras`."""
