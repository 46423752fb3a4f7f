"""Examples of error codes: short functions whose bodies the site shows, with the errors raised when the site is built."""

from dmlpy.docs.error_examples.example import Example, examples

__all__ = ["Example", "examples"]
