"""The project's site: a page for each operator, written from the classes, beside the pages of the checkout."""

from dmlpy.docs.build import Built, build

__all__ = ["Built", "build"]
