"""`ClassRegistry`: functions and classes that packages attach to classes of descs by a decorator; the most derived class wins."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Generic, TypeVar, cast

from dmlpy.description.descs import OperatorDesc
from dmlpy.description.registry import family_of, import_with_modules

T = TypeVar("T")
AttachedT = TypeVar("AttachedT")


def name_of(kind: type[OperatorDesc]) -> str:
    """The name of a class that stands for it where it is not imported: `dmlpy.operators.recurrent.cudnn:CudnnRNNDesc`."""
    return f"{kind.__module__}:{kind.__qualname__}"


def _extends(kind: type[OperatorDesc], base: type) -> bool:
    """Whether a class computes more than an operator of DirectML's from which it is derived: what handles that one would leave it out."""
    return kind.is_extension and issubclass(base, OperatorDesc) and not base.is_extension and bool(base.type_name)


class ClassRegistry(Generic[T]):
    """Functions or classes, keyed by the class of desc that they are for.

    An instance is used as a decorator: `@plan(RNNDesc)`. `find` goes along a class's `__mro__`, so the most derived class wins, and the
    order in which things are attached does not matter. What is attached to an operator of DirectML's does not handle the classes that
    graphs derive from it for several nodes, such as a convolution with an epilogue: these are attached by themselves.

    The code for the operators of `dmlpy.operators.FAMILY` is in FAMILY below the package, a module or a package of modules. It is
    imported when an operator of that family is first asked for. Threads may share it.

    Args:
        package: the package, `dmlpy.devices.cpu`.
        module: the module of each FAMILY that is imported, such as `plans`, and nothing else; None for all modules of FAMILY.
    """

    def __init__(self, package: str, module: str | None = None) -> None:
        self._package, self._module = package, module
        self._attached: dict[type[OperatorDesc] | str, tuple[Any, bool]] = {}
        self._imported: set[str] = set()
        self._by_kind: dict[type[OperatorDesc], T | None] = {}
        """The results of `find` since the last function or class was attached."""

    def __call__(self, *kinds: type[OperatorDesc] | str, derived: bool = True) -> Callable[[AttachedT], AttachedT]:
        """Returns a decorator that attaches a function or a class, of type T.

        Args:
            kinds: the classes of descs that it handles; or `"dmlpy.operators.recurrent.cudnn:CudnnRNNDesc"`, so that the class is not
                imported to find what handles others.
            derived: whether it handles the classes derived from them too.

        Raises:
            ValueError: something else is attached to one of the classes.
        """

        def attach(value: AttachedT) -> AttachedT:
            for kind in kinds:
                if (known := self._attached_to(kind)) is not None:
                    name = kind if isinstance(kind, str) else kind.__name__
                    raise ValueError(f"{self._package} has {known[0]!r} for {name}, not {value!r}")
            self._attached.update(dict.fromkeys(kinds, (value, derived)))
            self._by_kind = {}
            return value

        return attach

    def find(self, kind: type[OperatorDesc]) -> T | None:
        """Finds the object attached to a class, or to the nearest class in its `__mro__`; None if there is none."""
        attached = self._attached_to(kind)
        if attached is not None:
            return cast("T", attached[0])  # the class itself: no base can be nearer
        nearest = self._by_kind
        if kind not in nearest:
            for base in kind.__mro__:
                self._import_for(base)
            nearest = self._by_kind  # an import may have replaced it
            nearest[kind] = self._nearest(kind)
        return nearest[kind]

    def _nearest(self, kind: type[OperatorDesc]) -> T | None:
        for base in kind.__mro__:
            attached = self._attached_to(base)
            if attached is not None and (base is kind or (attached[1] and not _extends(kind, base))):
                value: T = attached[0]
                return value
        return None

    def _attached_to(self, kind: type[OperatorDesc] | str) -> tuple[Any, bool] | None:
        """The function or class that is attached to a class or to its name, and whether it handles derived classes."""
        attached = self._attached.get(kind)
        # Classes that are defined once more, in a notebook say, have one name and are two keys.
        return attached or (None if isinstance(kind, str) else self._attached.get(name_of(kind)))

    def _import_for(self, base: type) -> None:
        family = family_of(base)
        if family is None or family in self._imported:
            return
        name = f"{self._package}.{family}"
        if (spec := find_spec(name)) is not None:
            if self._module is None:
                import_with_modules(name)
            elif spec.submodule_search_locations and find_spec(f"{name}.{self._module}") is not None:
                import_module(f"{name}.{self._module}")
        # Done last, so that a thread that comes during another one's imports waits for its modules.
        self._imported.add(family)
