"""Reports on models: where each node runs, at which feature level, why not on DirectML, and what ONNX Runtime would do.

Imports the packages up to `lowering`; does not run models.
"""
