"""`OPERATORS`: every operator's class by its type name. A family's module is imported when one of its operators is looked up."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Iterator, Mapping
from pkgutil import walk_packages
from typing import Any

from dmlpy.description.coercion import brief
from dmlpy.description.foreign_names import operator_remedy
from dmlpy.messages.problems import DescError, Problem

C_PREFIX = "DML_OPERATOR_"
EXTENSION_PREFIX = "DMLPY_OPERATOR_"
"""The prefix of the type names of operators that DirectML lacks."""


class Registry(Mapping[str, type[Any]]):
    """Operators' classes by type name (`DML_OPERATOR_RNN`). Looking one up imports only its family; iterating imports all.

    Threads may share it.
    """

    def __init__(self) -> None:
        self._kinds: dict[str, type[Any]] = {}
        self._announced: dict[str, tuple[str, str]] = {}
        self._packages: list[str] = []
        self._is_complete = False

    def announce(self, package: str, class_names: Iterable[str]) -> None:
        """Announces that a package's modules define operators, and that its attributes are classes of these names, imported on use."""
        self._announced |= {_without_case(name.removesuffix("Desc")): (package, name) for name in class_names}
        self._packages.append(package)
        self._is_complete = False

    def add(self, type_name: str, kind: type[Any]) -> None:
        """Adds a class; `OperatorDesc` does so for each class with an operator name."""
        self._kinds[type_name] = kind

    def _load(self) -> None:
        # Each thread here imports all modules or waits for the thread that does, so none continues with some of the operators missing.
        if not self._is_complete:
            for package in self._packages:
                import_with_modules(package)
            self._is_complete = True

    def __getitem__(self, type_name: str) -> type[Any]:
        if type_name not in self._kinds:
            self.announced(type_name)
        return self._kinds[type_name]

    def loaded(self, type_name: str) -> type[Any] | None:
        """The class of a type name, if its family has been imported."""
        return self._kinds.get(type_name)

    def announced(self, name: str) -> type[Any] | None:
        """The class announced under a type name, long or short, or its class's name, in any case; None if there is none."""
        if (origin := self._announced.get(_without_case(short_name(name)).removesuffix("DESC"))) is None:
            return None
        package, class_name = origin
        kind: type[Any] = getattr(importlib.import_module(package), class_name)
        return kind

    def __iter__(self) -> Iterator[str]:
        self._load()
        return iter(sorted(self._kinds))

    def __len__(self) -> int:
        self._load()
        return len(self._kinds)


def import_with_modules(name: str) -> None:
    """Imports a module, and all modules below it if it is a package."""
    module = importlib.import_module(name)
    for below in walk_packages(getattr(module, "__path__", ()), f"{name}."):
        importlib.import_module(below.name)


def _without_case(name: str) -> str:
    return name.replace("_", "").upper()


ALIASES = {"SCATTER_ELEMENTS": "SCATTER"}
"""Alternative operator names in directml.h, in addition to the struct's."""

OPERATORS = Registry()


def short_name(type_name: str) -> str:
    """An operator's type name without its prefix: `RNN` of `DML_OPERATOR_RNN`."""
    return type_name.removeprefix(C_PREFIX).removeprefix(EXTENSION_PREFIX)


def family_of(kind: type) -> str | None:
    """The file or folder of `dmlpy.operators` that defines a class, such as `recurrent`; None if it is defined elsewhere."""
    package, _, rest = kind.__module__.partition(".operators.")
    return rest.partition(".")[0] if package == "dmlpy" and rest else None


def operator_class(type_name: Any) -> type[Any]:
    """The class for an operator's type name, long or short (`DML_OPERATOR_RNN`, `RNN`).

    Raises:
        DescError: there is no such operator; the message gives the nearest name.
    """
    if isinstance(type_name, str):
        alias = ALIASES.get(short_name(type_name))
        type_name = C_PREFIX + alias if alias else type_name
        spellings = (type_name, C_PREFIX + type_name, EXTENSION_PREFIX + type_name)
        for find in (OPERATORS.loaded, OPERATORS.get):
            for spelling in spellings:
                if (kind := find(spelling)) is not None:
                    return kind
    full_names = {short_name(known): known for known in OPERATORS}
    remedy = operator_remedy(type_name, full_names, full_names.__getitem__)
    expected = f"one of the {len(OPERATORS)} operators that dmlpy describes"
    why = ("dmlpy ops lists them",)
    raise DescError("operator", [Problem("operator.unknown", "type", brief(type_name), expected, why, remedy)])
