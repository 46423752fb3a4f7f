"""A plugin for pytest that hides all installed packages but those that the calls of `.ci/gpu` say they need.

It has to be loaded before others import what it hides: with `PYTEST_DISABLE_PLUGIN_AUTOLOAD=1` and itself first in `PYTEST_PLUGINS`.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from importlib.machinery import ModuleSpec, PathFinder
from importlib.metadata import PackageNotFoundError, packages_distributions, requires
from types import ModuleType
from typing import Any

from tests.gpu_check.packages import DISTRIBUTIONS, NEEDED


class OnlyNeeded(PathFinder):
    """Python's finder, which does not find the packages that are not needed."""

    hidden: frozenset[str] = frozenset()

    @classmethod
    def find_spec(cls, fullname: str, path: Any = None, target: ModuleType | None = None) -> ModuleSpec | None:
        return None if fullname.partition(".")[0] in cls.hidden else super().find_spec(fullname, path, target)


def hide_all_but(modules: Iterable[str]) -> None:
    """Whatever is not a requirement of these is not found any more."""
    needed = with_requirements({DISTRIBUTIONS.get(name, name) for name in modules})
    hidden = {name for name, owners in packages_distributions().items() if not needed & set(map(normal, owners))}
    OnlyNeeded.hidden = frozenset(hidden - {"dmlpy", "tests", *sys.stdlib_module_names})
    sys.meta_path[:] = [OnlyNeeded if finder is PathFinder else finder for finder in sys.meta_path]


def normal(distribution: str) -> str:
    return re.sub(r"[-_.]+", "-", distribution).lower()


def with_requirements(distributions: Iterable[str]) -> set[str]:
    """Distributions with all that pip installs with them."""
    found, left = set[str](), list(map(normal, distributions))
    while left:
        name = left.pop()
        if name in found:
            continue
        found.add(name)
        try:
            wanted = requires(name) or []
        except PackageNotFoundError:
            continue  # of another system
        left += [normal(re.split(r"[^\w.-]", line)[0]) for line in wanted if "extra ==" not in line]
    return found


hide_all_but(NEEDED)
