"""The operators' structs, by family. A family's module is imported when one of its names is first used.

`__init__.pyi` lists the names; `python -m dmlpy.x.stubs` writes it.
"""

from dmlpy.description.registry import OPERATORS
from dmlpy.system.lazy_names import attach_names

__getattr__, __dir__, __all__ = attach_names(__name__, __file__)

OPERATORS.announce(__name__, __all__)
