"""Remedies for operators that nothing runs."""

from __future__ import annotations

from dmlpy.onnx.loading.schemas import MICROSOFT

_SEARCHES = frozenset({"BeamSearch", "GreedySearch", "Sampling", "WhisperBeamSearch"})
"""Operators that run whole models of their attributes for each token."""


def remedy_of(op_type: str, domain: str) -> str:
    """The remedy for an operator that nothing runs."""
    if domain == MICROSOFT and op_type in _SEARCHES:
        return "load the graph of its attribute 'decoder' as a model, run it for each token, and search outside of it"
    if domain == f"{MICROSOFT}.nchwc":
        return "save the optimized model at ONNX Runtime's level ORT_ENABLE_EXTENDED: that level has no operators for one kind of processor"
    if domain == "ai.onnx.contrib":
        return "run it with onnxruntime-extensions, and load the model without it"
    return "export the model without it, or add a function of its name and domain to the model, which dmlpy then inlines"
