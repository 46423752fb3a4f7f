"""The device `cpu`: which strategy it takes and why, its names, and that it runs what NumPy's device runs."""

from __future__ import annotations

import copy
import json
import pickle
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from dmlpy.description.registry import OPERATORS
from dmlpy.devices.cpu import plans
from tests.support.operators.exact import exact
from tests.support.recurrent.layer_runs import build

pytest.importorskip("llvmlite", reason="llvmlite is not installed (the extra 'cpu')")

RNG = np.random.default_rng(1)
SIZES = dml.TensorDesc(data_type="FLOAT32", sizes=[2, 3])
BITS = dml.ElementWiseBitCountDesc(input_tensor=SIZES.replace(data_type="UINT32"), output_tensor=SIZES.replace(data_type="UINT8"))
NOTS = dml.ElementWiseBitNotDesc(input_tensor=SIZES.replace(data_type="UINT32")).with_outputs()
POOLING = dml.MaxPooling2Desc(
    input_tensor=dml.TensorDesc(data_type="INT32", sizes=[1, 1, 4, 4]),
    strides=(1, 1),
    window_size=(2, 2),
    start_padding=(0, 0),
    end_padding=(0, 0),
    dilations=(1, 1),
    output_tensor=dml.TensorDesc(data_type="INT32", sizes=[1, 1, 3, 3]),
)
NO_LLVMLITE = "llvmlite is not installed: pip install 'dmlpy[cpu]'"


@pytest.mark.parametrize(
    ("desc", "installed", "expected"),
    [
        pytest.param(build("RNN", RNG).desc, True, "compiled", id="compiled"),
        pytest.param(build("RNN", RNG).desc, False, f"numpy ({NO_LLVMLITE})", id="no llvmlite"),
        pytest.param(POOLING, True, "numpy (compiled poolings are of floats, UINT8 or INT8)", id="another type"),
        pytest.param(BITS, True, "numpy (ELEMENT_WISE_BIT_COUNT has no compiled form)", id="another operator"),
        pytest.param(NOTS, True, "numpy (ELEMENT_WISE_BIT_NOT is compiled for 257 or more elements in contiguous rows)", id="few bits"),
        pytest.param(BITS, False, "numpy (ELEMENT_WISE_BIT_COUNT has no compiled form)", id="another operator, no llvmlite"),
    ],
)
def test_the_plan_names_the_strategy_and_why(
    desc: dml.OperatorDesc, installed: bool, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plans, "llvmlite_is_installed", lambda: installed)
    plan = dml.device("cpu").plan(desc)
    assert plan is not None
    assert plan.strategy == expected
    owned = dml.compile(desc, "cpu", flags="ALLOW_HALF_PRECISION_COMPUTATION")
    assert owned.plan.splitlines()[0].startswith("strategy: ")


def test_results_of_a_desc_without_a_compiled_form() -> None:
    x = np.array([[0, 1, 255], [2**32 - 1, 2**31, 6]], np.uint32)
    found = dml.compile(BITS, "cpu")(input_tensor=x)
    np.testing.assert_array_equal(found.output_tensor, [[0, 1, 8], [32, 1, 2]])


def test_the_strategy_of_an_operator_that_stores_owned_inputs() -> None:
    owned = BITS.replace(input_tensor=BITS.input_tensor.replace(flags="OWNED_BY_DML"))
    lines = dml.compile(owned, "cpu").plan.splitlines()
    reason = "ELEMENT_WISE_BIT_COUNT has no compiled form"
    assert (lines[0], lines[-1]) == (f"strategy: numpy ({reason})", "prepare copies input_tensor")
    assert not dml.compile(owned, "numpy").plan.startswith("strategy")


PLANS = """
import json, sys
from dmlpy.description.registry import OPERATORS
from dmlpy.devices.cpu.plans import compiled_plan
from dmlpy.inspection.samples import sample
found = [compiled_plan(sample(kind)) for kind in OPERATORS.values()]
print(json.dumps([sum(not isinstance(plan, str) for plan in found), "dmlpy.devices.cpu.compiler.translation" in sys.modules]))
"""


def test_plans_are_made_without_the_compiler() -> None:
    """Only compiling imports it: a process that finds its kernels on disk has neither its seconds nor its memory."""
    found = subprocess.run([sys.executable, "-c", PLANS], capture_output=True, text=True, check=True)
    plans_made, imported = json.loads(found.stdout)
    assert plans_made > 50
    assert not imported


def test_it_runs_every_operator() -> None:
    cpu, numpy = dml.device("cpu"), dml.device("numpy")
    assert [kind for kind in OPERATORS.values() if cpu.runs(kind)] == [kind for kind in OPERATORS.values() if numpy.runs(kind)]


@pytest.mark.parametrize("duplicate", [copy.copy, lambda operator: pickle.loads(pickle.dumps(operator))], ids=["copy", "pickle"])
def test_an_operator_can_be_pickled(duplicate: Any) -> None:
    operator = dml.compile(BITS, "cpu")
    assert duplicate(operator) is operator


def test_a_graph_of_compiled_and_other_operators() -> None:
    run = build("LSTM", RNG, t=3, b=2, i=4, h=5, layouts=("packed",))
    g = dml.GraphBuilder()
    given = {name: placed.elements for name, placed in run.inputs.items()}
    layer = run.desc.replace(output_single_tensor=None, output_cell_single_tensor=None)
    sequence = g.add(layer, **{name: g.input(name, getattr(layer, name)) for name in given})
    g.output("y", g.add(dml.ActivationReluDesc, input_tensor=sequence))
    compiled = dml.compile(g.build(), "cpu")
    expected = np.maximum(exact(run.desc, run.arrays)["output_sequence_tensor"], 0)
    np.testing.assert_allclose(compiled(**given).y, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("installed", [True, False])
def test_its_description(installed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    from dmlpy.devices.cpu import device
    from dmlpy.devices.cpu.isa import host_isa, multiplies_bfloat16

    monkeypatch.setattr(device, "llvmlite_is_installed", lambda: installed)
    found = dml.device("cpu").describe()
    if installed:
        assert found["vector registers"] == f"{host_isa().registers} of {host_isa().lanes} floats"
        assert found["BFLOAT16 products"] == ("yes" if multiplies_bfloat16() else "no")
    else:
        assert found["compiled plans"] == "none: llvmlite is not installed (pip install 'dmlpy[cpu]')"
