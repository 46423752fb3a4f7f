"""The operators' structs, by family. Importing this package registers them all."""

from dmlpy.operators import activation, normalization, recurrent

__all__ = ["activation", "normalization", "recurrent"]
