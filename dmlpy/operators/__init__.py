"""The operators' structs, by family. A family's module is imported when one of its names is first used.

`__init__.pyi` lists the names; `python -m dmlpy.x.stubs` writes it.
"""

import lazy_loader

from dmlpy.description.registry import OPERATORS

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

OPERATORS.announce(__name__, __all__)
