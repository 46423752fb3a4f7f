"""Execution flags: their spellings, where they reach, and TF32, which for FLOAT32 nothing but the flag that allows it brings about."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from dmlpy.compiler import Flags
from dmlpy.devices.cuda.emulation.runtime import H100, T4
from dmlpy.devices.cuda.plans import STRATEGIES
from dmlpy.devices.cuda.runtime.interface import Limits, MatrixProduct
from dmlpy.dxdispatch import RunOptions, load
from dmlpy.dxdispatch.runner import _ModelRun
from tests.support.cuda.dry_run import DryRunRuntime
from tests.support.cuda.tf32 import ALLOW, DISABLE, NONE, VOLATILE, check_results_in_tf32
from tests.support.dxdispatch.models import put, rnn_model, write
from tests.support.operators.dispatch_cases import CASES, Case, relu
from tests.support.recurrent.small_rnn import inputs, rnn
from tests.support.tensors import tensor

# names


@pytest.mark.parametrize("member", [NONE, ALLOW, DISABLE, VOLATILE], ids=str)
def test_every_spelling_gives_the_member(member: dml.ExecutionFlags) -> None:
    short = str(member)
    spellings: list[Any] = [member, short, short.lower(), short.title(), f" {short} ", member.c_name, member.c_name.lower()]
    spellings += [int(member), np.uint32(member), [short], (member,), {member.c_name}, [short, "none", 0]]
    for spelling in spellings:
        assert dml.ExecutionFlags.parse(spelling) is member
    assert member.c_name == f"DML_EXECUTION_FLAG_{short}"
    assert repr(member) == f"ExecutionFlags.{short}"
    assert pickle.loads(pickle.dumps(member)) is member


def test_flags_combine() -> None:
    both = ALLOW | VOLATILE
    assert str(both) == "ALLOW_HALF_PRECISION_COMPUTATION|DESCRIPTORS_VOLATILE"
    assert repr(both) == "ExecutionFlags.ALLOW_HALF_PRECISION_COMPUTATION | ExecutionFlags.DESCRIPTORS_VOLATILE"
    for spelling in (5, str(both), both.c_name, ["descriptors_volatile", ALLOW], [both, NONE]):
        assert dml.ExecutionFlags.parse(spelling) is both
    assert dml.ExecutionFlags.parse([]) is NONE


@pytest.mark.parametrize(
    "value", [None, True, 1.0, "", "FAST", "NONE|", -1, 8, 2**40, object(), b"NONE", ["FAST"], {}, dml.TensorFlags.NONE]
)
def test_anything_else_is_refused_with_the_names(value: Any) -> None:
    with pytest.raises(ValueError, match=r"expected one of NONE, .*, DESCRIPTORS_VOLATILE"):
        dml.ExecutionFlags.parse(value)
    with pytest.raises(dml.DescError, match=r"flags is .*expected one of NONE, .*, DESCRIPTORS_VOLATILE"):
        dml.compile(rnn(), "numpy", flags=value)


# where they reach


@pytest.mark.parametrize("flags", ["disable_meta_commands", DISABLE, 2, [DISABLE, "NONE"]])
def test_equal_flags_give_the_same_object(flags: Flags) -> None:
    op = dml.compile(relu("FLOAT32"), "numpy", flags=flags)
    assert op is dml.compile(relu("FLOAT32"), "numpy", flags="DML_EXECUTION_FLAG_DISABLE_META_COMMANDS")
    assert op is not dml.compile(relu("FLOAT32"), "numpy")
    assert (op.flags, dml.compile(relu("FLOAT32"), "numpy").flags) == (DISABLE, NONE)


def test_numpy_takes_them_to_no_effect() -> None:
    desc = rnn()
    arrays = inputs(desc)
    plain, flagged = dml.compile(desc, "numpy"), dml.compile(desc, "numpy", flags=7)
    assert flagged.plan == f"{plain.plan}\nflags: {flagged.flags} (no effect here)"
    for name, array in plain(**arrays).as_dict().items():
        np.testing.assert_array_equal(flagged(**arrays).as_dict()[name], array)


def test_a_graph_hands_them_to_its_nodes() -> None:
    builder = dml.GraphBuilder("two")
    builder.output("y", builder.add(dml.ActivationTanhDesc, "tanh", input_tensor=builder.input("x", tensor(2, 3))))
    graph = dml.compile(builder.build(), "numpy", flags="DESCRIPTORS_VOLATILE")
    assert graph.flags == VOLATILE
    assert [step.operator.flags for step in graph._program.steps] == [VOLATILE]


@pytest.mark.parametrize(
    ("written", "meant"),
    [(None, NONE), ("DISABLE_META_COMMANDS", DISABLE), (["DML_EXECUTION_FLAG_ALLOW_HALF_PRECISION_COMPUTATION", "NONE"], ALLOW)],
)
def test_a_models_flags_reach_its_operators(tmp_path: Path, written: Any, meant: dml.ExecutionFlags) -> None:
    data = rnn_model()
    if written is not None:
        put(data, "dispatchables/rnn/executionFlags", written)
    model = load(write(tmp_path, data))
    running = _ModelRun(model, dml.device("numpy"), RunOptions(), dml.FeatureLevel.FL_6_4, print, print)
    running.compile_all()
    assert [compiled.flags for compiled in running.compiled.values()] == [meant]


# TF32


class ProductsRuntime(DryRunRuntime):
    """Notes of each matrix product the type of its factors and whether they may be of TF32."""

    def __init__(self, *options: Any) -> None:
        super().__init__(*options)
        self.products: list[tuple[str, bool]] = []

    def gemm(self, device: int, product: MatrixProduct, stream: int, workspace: int = 0) -> None:
        self.products.append((product.a.data_type.name, product.rounds))


def products(case: Case, limits: Limits, data_type: str, flags: dml.ExecutionFlags = NONE) -> tuple[list[tuple[str, bool]], str]:
    """Those of a dispatch, and the plan."""
    runtime = ProductsRuntime(limits)
    dispatch = case.bound(runtime, data_type, flags)
    dispatch()
    return runtime.products, dispatch.operator.plan


@pytest.mark.parametrize("name", CASES)
def test_products_are_of_tf32_where_the_flag_allows_it(name: str) -> None:
    without, _ = products(CASES[name], H100, "FLOAT32")
    allowed, plan = products(CASES[name], H100, "FLOAT32", ALLOW)
    has_effect = bool(without)
    assert without == [("float32", False)] * len(without)
    assert allowed == [("float32", True)] * len(without)
    assert plan.endswith(f"\nflags: {ALLOW}" if has_effect else f"\nflags: {ALLOW} (no effect here)")
    assert ("matrix products of TF32" in plan) == has_effect


@pytest.mark.parametrize("limits", [T4, H100], ids=lambda limits: limits.name)
@pytest.mark.parametrize("name", CASES)
def test_products_of_float16_need_no_flag(name: str, limits: Limits) -> None:
    """Their factors are halves, also those of gradients of all steps; but gradients within steps are float32, in TF32 where there is."""
    found, plan = products(CASES[name], limits, "FLOAT16")
    assert products(CASES[name], limits, "FLOAT16", ALLOW) == (found, f"{plan}\nflags: {ALLOW} (no effect here)")
    multiplies_gradients = name == "gradient of a GRU step" or name.startswith("per_step, gradient")
    assert set(found) <= {("float16", False), ("float32", limits is H100)}
    assert any(kind == "float32" for kind, _ in found) == multiplies_gradients
    assert ("in TF32" in plan) == (multiplies_gradients and limits is H100)


def test_the_other_flags_have_no_effect() -> None:
    plans, products = [], []
    for flags in (NONE, DISABLE | VOLATILE, DISABLE | ALLOW):
        runtime = ProductsRuntime()
        dispatch = CASES["persistent_block, LSTM"].bound(runtime, "FLOAT32", flags)
        dispatch()
        plans.append(dispatch.operator.plan)
        products.append(runtime.products)
    assert products == [[("float32", False)], [("float32", False)], [("float32", True)]]
    assert plans[1] == f"{plans[0]}\nflags: DISABLE_META_COMMANDS|DESCRIPTORS_VOLATILE (no effect here)"
    assert plans[2].endswith("\nflags: ALLOW_HALF_PRECISION_COMPUTATION, DISABLE_META_COMMANDS (no effect here)")


def test_an_old_gpu_has_no_tf32() -> None:
    runtime = ProductsRuntime(T4)
    dispatch = CASES["persistent_block, LSTM"].bound(runtime, "FLOAT32", ALLOW)
    dispatch()
    assert runtime.products == [("float32", False)]
    assert dispatch.operator.plan.endswith("(no effect here)")


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_results_in_tf32(strategy: str) -> None:
    check_results_in_tf32(strategy)
