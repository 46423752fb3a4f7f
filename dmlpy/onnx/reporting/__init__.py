"""Reports of models: where each node runs, at which feature level, why not on DirectML, and what ONNX Runtime would do.

Imports the packages up to `lowering`; nothing of it runs a model.
"""
