"""The project's site: a page for each operator, generated from the classes, and the pages of the checkout."""

from dmlpy.docs.build import Built, build

__all__ = ["Built", "build"]
