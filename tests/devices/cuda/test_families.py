"""The families of operators: each attaches its plans by name, and what makes a plan is imported when one is made."""

from __future__ import annotations

import subprocess
import sys

from dmlpy.description.registry import OPERATORS
from dmlpy.devices.cuda.plans import PlanMaker, plan

_FIND = """
import sys
import dmlpy
from dmlpy.description.registry import OPERATORS
from dmlpy.devices.cuda.plans import plan

for kind in OPERATORS.values():
    plan.find(kind)
found = [name.split(".")[3:] for name in sys.modules if name.startswith("dmlpy.devices.cuda.")]
print(len([name for name in found if name[1:] == ["plans"]]), sorted(".".join(name) for name in found if name[1:] not in ([], ["plans"])))
"""


def test_finding_every_plan_imports_none_of_the_modules_that_make_them() -> None:
    found = subprocess.run([sys.executable, "-c", _FIND], capture_output=True, text=True, check=False)
    assert (found.stdout, found.stderr) == ("15 []\n", "")


def test_every_place_that_is_attached_holds_what_makes_plans() -> None:
    makers = {make for kind in OPERATORS.values() if isinstance(make := plan.find(kind), PlanMaker)}
    assert len(makers) > 50
    assert not [make for make in makers if not callable(make.load())]
