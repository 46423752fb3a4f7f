"""`ErrorPolicy`: whether an exception that nobody foresaw is reported as a fault of the model."""

from __future__ import annotations


class ErrorPolicy:
    """What happens to exceptions that are raised while a node is looked at or run, and that nobody foresaw.

    Attributes:
        propagate_unexpected: whether they propagate as they are. dmlpy's own tests set it, for such an exception may be a mistake in dmlpy.
            Users have models from anywhere: for them it becomes an error of dmlpy that names the node.
    """

    propagate_unexpected = False
