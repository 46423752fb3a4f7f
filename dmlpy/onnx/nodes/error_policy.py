"""`ErrorPolicy`: whether an unexpected exception is reported as a fault of the model."""

from __future__ import annotations


class ErrorPolicy:
    """The handling of unexpected exceptions while a node is processed or run.

    Attributes:
        propagate_unexpected: whether they propagate unchanged. dmlpy's tests set it, since such an exception may be a bug in dmlpy.
            Users may have any model: for them it becomes an error of dmlpy that names the node.
    """

    propagate_unexpected = False
