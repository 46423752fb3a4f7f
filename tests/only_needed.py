"""A plugin for pytest that hides all installed packages but those that a call of `.ci/gpu` says it needs: `DMLPY_TEST_ONLY=rest`.

It has to be loaded before others import what it hides: with `PYTEST_DISABLE_PLUGIN_AUTOLOAD=1` and itself first in `PYTEST_PLUGINS`.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable
from importlib.abc import MetaPathFinder
from importlib.metadata import PackageNotFoundError, packages_distributions, requires
from types import ModuleType
from typing import Any

from tests.gpu_check.packages import DISTRIBUTIONS, NEEDED

VARIABLE = "DMLPY_TEST_ONLY"


class OnlyNeeded(MetaPathFinder):
    """Finds no module of a package that is not needed."""

    def __init__(self, modules: Iterable[str]) -> None:
        needed = with_requirements({DISTRIBUTIONS.get(name, name) for name in modules})
        self._hidden = {name for name, owners in packages_distributions().items() if not needed & {normal(owner) for owner in owners}}

    def find_spec(self, fullname: str, path: Any, target: ModuleType | None = None) -> None:
        name = fullname.partition(".")[0]
        if name in self._hidden and name not in ("dmlpy", "tests", *sys.stdlib_module_names):
            raise ModuleNotFoundError(f"No module named {fullname!r}: it is not among what is needed", name=fullname)


def normal(distribution: str) -> str:
    return re.sub(r"[-_.]+", "-", distribution).lower()


def with_requirements(distributions: Iterable[str]) -> set[str]:
    """Distributions with all that pip installs beside them."""
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


sys.meta_path.insert(0, OnlyNeeded(NEEDED[os.environ[VARIABLE]]))
