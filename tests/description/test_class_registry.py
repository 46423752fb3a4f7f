"""Plans attach themselves to classes of descs: the most derived class wins, and a family's modules are imported when first needed."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import permutations
from pathlib import Path
from pkgutil import resolve_name
from types import ModuleType
from typing import Any

import pytest

from dmlpy.description.class_registry import ClassRegistry, name_of
from dmlpy.description.descs import OperatorDesc
from dmlpy.description.registry import OPERATORS, family_of
from dmlpy.devices.cpu.plans import plan as cpu_plan
from dmlpy.devices.cuda.plans import plan as cuda_plan
from dmlpy.devices.numpy.plans import plan as numpy_plan
from dmlpy.inspection.catalog import operators
from dmlpy.operators.recurrent.gradient import RecurrentGradDesc
from dmlpy.reference.registry import defines


class Base(OperatorDesc):
    pass


class Other(OperatorDesc):
    pass


class Middle(Base):
    pass


class Leaf(Middle, Other):
    pass


@pytest.mark.parametrize("named", [(), (Base, Middle)], ids=["classes", "some by their names"])
@pytest.mark.parametrize("order", [*permutations((Base, Middle, Other))], ids=lambda order: " ".join(kind.__name__ for kind in order))
def test_the_most_derived_class_wins_in_any_order(order: tuple[type[OperatorDesc], ...], named: tuple[type[OperatorDesc], ...]) -> None:
    table: ClassRegistry[str] = ClassRegistry("tests")
    for kind in order:
        table(f"{__name__}:{kind.__name__}" if kind in named else kind)(kind.__name__)
    assert [table.find(kind) for kind in (Base, Middle, Leaf, Other)] == ["Base", "Middle", "Middle", "Other"]
    assert table.find(OperatorDesc) is None


def test_what_is_attached_after_a_search_is_found() -> None:
    table: ClassRegistry[str] = ClassRegistry("tests")
    assert table.find(Leaf) is None
    table(Base)("base")
    assert table.find(Leaf) == "base"
    table(Middle)("middle")
    assert table.find(Leaf) == "middle"


def test_what_is_for_a_class_alone_is_not_for_those_derived_from_it() -> None:
    table: ClassRegistry[str] = ClassRegistry("tests")
    table(Base)("base")
    table(Middle, derived=False)("middle")
    assert [table.find(kind) for kind in (Base, Middle, Leaf)] == ["base", "middle", "base"]


def test_a_class_has_one_at_most() -> None:
    table: ClassRegistry[str] = ClassRegistry("tests")
    table(Base)("first")
    with pytest.raises(ValueError, match="tests has 'first' for Base, not 'second'"):
        table(Middle, Base)("second")
    assert table.find(Middle) == "first", "a refused decorator attaches nothing"
    table(f"{__name__}:Other")("by name")
    with pytest.raises(ValueError, match="tests has 'by name' for Other, not 'second'"):
        table(Other)("second")


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A device's package with a family that is a module and one that is a package; each module attaches its own name."""
    name = "device_of_this_test"
    text = "from {0}.plans import table\nfrom dmlpy.operators.{1} import {2}\ntable({2})(__name__)\n"
    files = {
        "__init__.py": "",
        "plans.py": f"from dmlpy.description.class_registry import ClassRegistry\ntable = ClassRegistry({name!r})\n",
        "matrix.py": text.format(name, "matrix", "GEMMDesc"),
        "reduction/__init__.py": "",
        "reduction/plan.py": text.format(name, "reduction", "ReduceDesc"),
        "reduction/more/__init__.py": "",
        "reduction/more/top.py": text.format(name, "reduction", "TopKDesc"),
    }
    for path, content in files.items():
        (tmp_path / name / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name / path).write_text(content, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield name
    for module in [module for module in sys.modules if module.partition(".")[0] == name]:
        del sys.modules[module]


def test_a_family_s_modules_are_imported_when_first_asked_for(package: str) -> None:
    table = table_of(package)

    def imported() -> set[str]:
        return {name.removeprefix(f"{package}.") for name in sys.modules if name.startswith(f"{package}.")} - {"plans"}

    assert imported() == set()
    assert table.find(OPERATORS["DML_OPERATOR_GEMM"]) == f"{package}.matrix"
    assert imported() == {"matrix"}
    assert table.find(OPERATORS["DML_OPERATOR_TOP_K1"]) == f"{package}.reduction.more.top", "it derives from TOP_K"
    assert imported() == {"matrix", "reduction", "reduction.plan", "reduction.more", "reduction.more.top"}
    assert table.find(OPERATORS["DML_OPERATOR_CAST"]) is None


def test_threads_that_come_first_find_the_same(package: str) -> None:
    table, kind = table_of(package), OPERATORS["DML_OPERATOR_REDUCE"]
    with ThreadPoolExecutor(8) as threads:
        assert set(threads.map(table.find, [kind] * 8)) == {f"{package}.reduction.plan"}


def table_of(package: str) -> ClassRegistry[str]:
    module: ModuleType = __import__(f"{package}.plans", fromlist=["table"])
    table: ClassRegistry[str] = module.table
    return table


@pytest.mark.parametrize(
    ("kind", "numpy", "cuda", "cpu"),
    [
        ("DML_OPERATOR_LSTM", "layer_plan", "recurrent_plan", "recurrent_plan"),
        ("DMLPY_OPERATOR_LSTM_TRAINING", "definition_plan", "recurrent_plan", "recurrent_plan"),
        ("DMLPY_OPERATOR_LSTM_GRAD", "definition_plan", "gradient_plan", "gradient_plan"),
        ("DMLPY_OPERATOR_CUDNN_RNN_BACKPROP_V3", "network_plan", "network_plan", "network_plan"),
        ("DMLPY_OPERATOR_GRU_BLOCK_CELL", None, "block_cell_plan", "step_plan"),
        ("DMLPY_OPERATOR_GRU_BLOCK_CELL_GRAD", None, "block_cell_gradient_plan", "step_gradient_plan"),
        ("DML_OPERATOR_BATCH_NORMALIZATION", "forward_plan", "forward_plan", "forward_plan"),
        ("DML_OPERATOR_BATCH_NORMALIZATION_TRAINING_GRAD", "gradient_plan", "gradient_plan", "gradient_plan"),
        ("DMLPY_OPERATOR_FUSED_BATCH_NORM_V3", "forward_plan", "forward_plan", "forward_plan"),
        ("DMLPY_OPERATOR_FUSED_BATCH_NORM_GRAD_V3", "gradient_plan", "gradient_plan", "gradient_plan"),
        ("DML_OPERATOR_MEAN_VARIANCE_NORMALIZATION", None, "group_normalization_plan", "mean_variance_plan"),
        ("DML_OPERATOR_ACTIVATION_RELU", "elements_plan", "elements_plan", "elementwise_plan"),
        ("DML_OPERATOR_ACTIVATION_SOFTMAX", "softmax_plan", "groups_plan", "softmax_plan"),
        ("DML_OPERATOR_ACTIVATION_LOG_SOFTMAX1", "log_softmax_plan", "groups_plan", "softmax_plan"),
        ("DML_OPERATOR_ACTIVATION_HARDMAX", "hardmax_plan", "groups_plan", "hardmax_plan"),
        ("DML_OPERATOR_GEMM", None, "GemmPlan", "product_plan"),
    ],
)
def test_each_device_has_its_plan_for_an_operator(kind: str, numpy: str | None, cuda: str | None, cpu: str | None) -> None:
    found = (table.find(OPERATORS[kind]) for table in (numpy_plan, cuda_plan, cpu_plan))
    assert [getattr(make, "__name__", None) for make in found] == [numpy, cuda, cpu]


def test_a_base_class_has_its_own_plan() -> None:
    assert getattr(cuda_plan.find(RecurrentGradDesc), "__name__", None) == "gradient_plan"


def test_devices_run_what_they_have_plans_or_functions_for() -> None:
    for item in operators():
        assert item.runs_on["cuda"] == (cuda_plan.find(item.kind) is not None)
        assert item.runs_on["numpy"] == item.runs_on["cpu"]
        assert item.runs_on["numpy"] or not (item.runs_on["cuda"] or cpu_plan.find(item.kind)), "NumPy runs what another device runs"


ASKS = """
import json, sys
from dmlpy.inspection.catalog import operators
assert len(operators(family="recurrent")) == sum(item.kind.family() == "recurrent" for item in operators())
print(json.dumps(sorted({name.partition(".")[0] for name in sys.modules} & {"numba", "llvmlite", "cupy"})))
"""


def test_asking_what_runs_imports_no_optional_library() -> None:
    found = subprocess.run([sys.executable, "-c", ASKS], capture_output=True, text=True, check=True)
    assert json.loads(found.stdout) == []


def test_a_family_is_the_part_of_operators_that_has_the_class() -> None:
    assert {family_of(kind) for kind in OPERATORS.values()} == {kind.family() for kind in OPERATORS.values()}
    assert family_of(RecurrentGradDesc) == "recurrent"
    assert (family_of(Base), family_of(OperatorDesc), family_of(object)) == (None, None, None)


@pytest.mark.parametrize("plans", [cpu_plan, numpy_plan, cuda_plan])
def test_each_name_that_a_plan_is_attached_to_is_that_of_a_class(plans: ClassRegistry[Any]) -> None:
    """A name that is misspelt would have no plan."""
    for kind in OPERATORS.values():
        plans.find(kind)
    names = [name for name in plans._attached if isinstance(name, str)]
    assert [name_of(resolve_name(name)) for name in names] == names


FUSED = {
    "fused_convolution_descs:NormalizedConvolutionDesc": {"numpy", "cpu"},
    "fused_convolution_descs:EpilogueConvolutionDesc": {"cpu"},
    "fused_convolution_descs:NormalizedEpilogueConvolutionDesc": {"cpu"},
    "lookup_table_desc:LookupConvolutionDesc": {"cpu"},
}
"""Classes that graphs make of several nodes, and the devices that have a plan for them: all others run the nodes."""


@pytest.mark.parametrize(("name", "devices"), FUSED.items(), ids=FUSED.keys())
def test_nothing_for_an_operator_handles_what_graphs_add_to_it(name: str, devices: set[str]) -> None:
    """A plan for the operator alone would leave the addition out."""
    kind: type[OperatorDesc] = resolve_name(f"dmlpy.devices.graphs.{name}")
    tables: dict[str, ClassRegistry[Any]] = {"cpu": cpu_plan, "numpy": numpy_plan, "cuda": cuda_plan, "reference": defines}
    assert {device for device, table in tables.items() if table.find(kind) is not None} == devices
