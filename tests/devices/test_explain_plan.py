"""`explain_plan`: flops, bytes, residency and the model's times, against numbers worked out by hand."""

from __future__ import annotations

from dataclasses import FrozenInstanceError
from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from dmlpy.devices.cuda.device import CudaDevice
from dmlpy.operators.recurrent.layer import RecurrentDesc
from tests.support.cuda.dry_run import DryRunRuntime
from tests.support.cuda.gpu_models import H200
from tests.support.cuda.gradient_cases import gradient_desc
from tests.support.graphs.branching import branches
from tests.support.recurrent.layer_runs import CELLS, USUAL, sizes_of
from tests.support.recurrent.networks import network

CLOCK = 1980.0
"""Cycles in a microsecond."""
MEMORY = 4.3e6
"""Bytes in a microsecond."""
FMA = 0.8 * 256
"""Flop in a cycle."""


def on(strategy: str | None = None) -> CudaDevice:
    return CudaDevice(DryRunRuntime(H200), strategy=strategy)


def layer(cell: str, data_type: str = "FLOAT32", *, t: int = 10, b: int = 4, i: int = 3, h: int = 8, directions: int = 1) -> RecurrentDesc:
    names = ("input_tensor", "weight_tensor", "recurrence_tensor", "output_single_tensor")
    sizes = sizes_of(cell, t, b, i, h, directions)
    tensors = {name: dml.TensorDesc(data_type=data_type, sizes=sizes[name]) for name in names}
    direction = "FORWARD" if directions == 1 else "BIDIRECTIONAL"
    return CELLS[cell](**tensors, activation_descs=list(USUAL[cell]) * directions, direction=direction)


def report(desc: dml.OperatorDesc, strategy: str | None = None) -> dml.PlanReport:
    return dml.compile(desc, on(strategy)).explain_plan()


# recurrent layers


def test_persistent_block() -> None:
    found = report(layer("LSTM"), "persistent_block")
    assert (found.operator, found.device, found.strategy) == ("DML_LSTM_OPERATOR_DESC", "cuda:0", "persistent_block")
    assert found.flops == 2 * 10 * 4 * 4 * 8 * (3 + 8)
    assert found.bytes_moved == {
        "weights": 4 * (4 * 8 * 3 + 4 * 8 * 8),
        "tensors": 4 * (10 * 4 * 3 + 4 * 8),
        "input product": 2 * 4 * 10 * 4 * 4 * 8,
    }
    assert found.residency == {"shared memory": 4 * 4 * 8 * 8}
    # A sample in each of four blocks: the parts of any step, and a product in float32.
    step_us = (300 + 2 * 4 * 8 * 8 / FMA) / CLOCK
    product_us = 4 * (3 * (40 + 32) + 40 * 32) / MEMORY
    assert found.floor_step_us == pytest.approx(step_us)
    assert found.floor_us == pytest.approx(10 * step_us + product_us)
    assert found.estimate_step_us is not None
    assert found.estimate_us is not None
    assert found.estimate_us >= 10 * found.estimate_step_us
    assert found.unmodelled == ""


def test_per_step_reads_the_recurrence_in_each_step() -> None:
    found = report(layer("GRU", "FLOAT16", t=7, directions=2), "per_step")
    recurrence = 2 * 2 * 3 * 8 * 8
    assert found.residency == {"nowhere": recurrence}
    assert found.bytes_moved["recurrence in each step"] == 7 * recurrence
    assert found.bytes_moved["products of steps"] == 2 * 4 * 7 * 4 * 2 * 3 * 8
    assert found.bytes_moved["input product"] == 2 * 2 * 7 * 4 * 2 * 3 * 8
    # Two products and two kernels, each product for both directions: six launches of a graph, of which four take 4 us at least.
    assert found.estimate_step_us == pytest.approx(6 * 1.3 + 4 * 4.0, rel=0.02)


def test_persistent_grid() -> None:
    alone, together = report(layer("LSTM"), "persistent_grid"), report(layer("LSTM", b=16, i=5, h=512))
    assert together.strategy == "persistent_grid"
    assert "exchange between blocks" not in alone.bytes_moved
    for found, size in ((alone, 4 * 4 * 8 * 8), (together, 4 * 4 * 512 * 512)):
        assert set(found.residency) <= {"registers", "shared memory"}
        assert sum(found.residency.values()) == size
    exchanged = together.bytes_moved["exchange between blocks"]
    assert exchanged % (10 * 16 * 512 * 4) == 0
    assert exchanged >= 2 * 10 * 16 * 512 * 4, "every block that shares R reads all of h"


def test_an_lstm_with_a_projection() -> None:
    desc = dml.LSTMTrainingDesc(
        **{
            name: dml.TensorDesc(data_type="FLOAT32", sizes=sizes)
            for name, sizes in {
                "input_tensor": (1, 6, 2, 3),
                "weight_tensor": (1, 1, 4 * 8, 3),
                "recurrence_tensor": (1, 1, 4 * 8, 5),
                "projection_tensor": (1, 1, 5, 8),
            }.items()
        },
        activation_descs=USUAL["LSTM"],
        direction="FORWARD",
    ).with_outputs("output_single_tensor")
    found = report(desc)
    assert found.strategy == "per_step"
    assert found.flops == 2 * 6 * 2 * (4 * 8 * (3 + 5) + 5 * 8)
    assert found.residency == {"nowhere": 4 * (4 * 8 * 5 + 5 * 8)}
    # The state takes two trips, of four blocks' worth of cells each with separate products.
    assert found.floor_step_us == pytest.approx((2 * 300 + 2 * (4 * 8 * 5 + 5 * 8) / FMA) / CLOCK)


@pytest.mark.parametrize("strategy", ["persistent_block", "per_step"])
def test_gradients(strategy: str) -> None:
    found = report(gradient_desc("LSTM", "FLOAT32", 4, 8, 10), strategy)
    # back through R, then the gradients of input, weights and R
    assert found.flops == 2 * 10 * 4 * 4 * 8 * (8 + 3 + 3 + 8)
    # written once, read for those three and the bias
    assert found.bytes_moved["gate gradients"] == (1 + 4) * 4 * 10 * 4 * 4 * 8
    assert found.residency == {"persistent_block": {"shared memory": 1024}, "per_step": {"nowhere": 1024}}[strategy]
    # what comes back to the states, written and read
    assert found.bytes_moved.get("products of steps", 0) == {"persistent_block": 0, "per_step": 2 * 4 * 10 * 4 * 8}[strategy]
    # One step's product is as in the forward pass, the gate gradients come in a block.
    step_us = (300 + 2 * 4 * 8 * 8 / FMA) / CLOCK
    assert found.floor_step_us == pytest.approx(step_us)
    products_us = 4 * ((40 * 3 + 32 * (40 + 3)) + (32 * 3 + 40 * (32 + 3)) + (32 * 8 + 40 * (32 + 8))) / MEMORY
    assert found.floor_us == pytest.approx(10 * step_us + products_us)


def test_gradients_of_two_bytes() -> None:
    """Gate gradients are float32, and so is what the reserve holds; products read copies of both, which FLOAT16 scales."""
    found = {dtype: report(gradient_desc("LSTM", dtype, 4, 8, 10), "persistent_block") for dtype in ("FLOAT32", "FLOAT16", "BFLOAT16")}
    gradients, states = 10 * 4 * 4 * 8, 11 * 4 * 8
    assert found["FLOAT16"].bytes_moved["FLOAT16 factors"] == (4 + 4 + 2) * gradients + (4 + 2) * states
    assert found["BFLOAT16"].bytes_moved["BFLOAT16 factors"] == (4 + 2) * (gradients + states)
    assert not any("factors" in name for name in found["FLOAT32"].bytes_moved)
    # written once, read for three products and the bias
    assert found["FLOAT16"].bytes_moved["gate gradients"] == (4 + 3 * 2 + 4) * gradients
    products_us = (2 * ((40 * 3 + 32 * (40 + 3)) + (32 * 3 + 40 * (32 + 3)) + (32 * 8 + 40 * (32 + 8))) + 2 * (120 + 96 + 256)) / MEMORY
    step_us = found["FLOAT16"].floor_step_us
    assert step_us is not None
    assert found["FLOAT16"].floor_us == pytest.approx(10 * step_us + products_us)


@pytest.mark.parametrize("device", ["numpy", "cuda"])
def test_a_network_is_the_sum_of_its_layers(device: str) -> None:
    desc = network(np.random.default_rng(0), "gru", layers=3, directions=2, steps=5, batch=3, inputs=4, units=6).desc
    for described, times in ((desc, 1), (desc.gradient(), 2)):
        found = dml.compile(described, "numpy" if device == "numpy" else on()).explain_plan()
        assert len(found.parts) == 3
        rows, gate_rows = 5 * 3 * 2, 3 * 6
        widths = 4 + 12 + 12 + 3 * 6
        assert found.flops == times * 2 * rows * gate_rows * widths
        biases = 2 * gate_rows if described is desc else 0
        assert found.bytes_moved["weights"] == 4 * 2 * sum(gate_rows * (width + 6) + biases for width in (4, 12, 12))
        if device == "numpy":
            assert found.floor_us is None
            assert "no cost model for 3 of 3 parts: the device numpy has no model" in found.unmodelled
        else:
            for name in ("floor_us", "floor_step_us", "estimate_us", "estimate_step_us"):
                assert getattr(found, name) == pytest.approx(sum(getattr(part, name) for part in found.parts))


# batch normalization


@pytest.mark.parametrize(
    ("sizes", "data_type", "forward_us", "backward_us", "again"),
    [
        ((32, 64, 112, 112), "FLOAT16", 23.9, 35.8, (1, 2)),
        ((32, 256, 56, 56), "FLOAT16", 23.9, 35.8, (0, 2 * (1 - 13 * 512 / 12_544))),
        ((32, 512, 28, 28), "FLOAT16", 11.9, 17.9, (0, 0)),
        ((32, 1024, 14, 14), "FLOAT16", 6.0, 9.0, (0, 0)),
        ((32, 2048, 7, 7), "FLOAT32", 6.0, 9.0, (0, 0)),
    ],
)
def test_batch_normalization(
    sizes: tuple[int, ...], data_type: str, forward_us: float, backward_us: float, again: tuple[float, float]
) -> None:
    """Images of ResNet-50 at 4.3 TB/s: x read once and y written once, or x and dy read once and dx written once.

    Training's second pass, forwards and backwards, reads again what shared memory has no room for, in images.
    """

    def tensor(*sizes: int) -> dml.TensorDesc:
        return dml.TensorDesc(data_type=data_type, sizes=sizes)

    image, groups = tensor(*sizes), tensor(1, sizes[1], 1, 1)
    given = {"input_tensor": image, "scale_tensor": groups, "mean_tensor": groups, "variance_tensor": groups}
    kinds: dict[Any, dict[str, dml.TensorDesc]] = {
        dml.BatchNormalizationDesc: given | {"bias_tensor": groups},
        dml.BatchNormalizationTrainingDesc: {"input_tensor": image, "scale_tensor": groups, "bias_tensor": groups},
        dml.BatchNormalizationTrainingGradDesc: given | {"input_gradient_tensor": image},
    }
    size = image.size_in_bytes
    for kind, members in kinds.items():
        desc = kind(**members).with_outputs()
        found = report(desc)
        backward = "input_gradient_tensor" in members
        wanted_us, sweep = (backward_us, again[1]) if backward else (forward_us, 0 if "mean_tensor" in members else again[0])
        assert found.floor_us == pytest.approx(wanted_us, abs=0.06)
        assert found.bytes_moved.get("second pass", 0) == round(sweep * size)
        assert found.bytes_moved["tensors"] == sum(item.element_count * item.data_type.bits // 8 for item in desc.tensors().values())
        assert found.estimate_us is not None
        assert wanted_us < found.estimate_us < 2.5 * wanted_us
        assert found.floor_step_us is None


# the rest


def test_any_operator_reports_its_bytes() -> None:
    tensor = dml.TensorDesc(data_type="FLOAT16", sizes=(3, 5), strides=(0, 1))
    desc = dml.ActivationReluDesc(input_tensor=tensor, output_tensor=tensor.replace(strides=(7, 1)))
    for device in (dml.device("numpy"), on()):
        found = dml.compile(desc, device).explain_plan()
        assert found.bytes_moved == {"tensors": 2 * 2 * 15}
        assert found.flops == 15
        if device.name == "numpy":
            assert found.floor_us is None
            assert found.unmodelled == "the device numpy has no model of this operator"
        else:
            assert found.floor_us is not None
            assert found.floor_us > 0


def test_a_graph_is_the_sum_of_its_nodes() -> None:
    found = dml.compile(branches(), "numpy").explain_plan()
    assert found.operator == "branches"
    assert [part.operator for part in found.parts].count("DML_ACTIVATION_ELU_OPERATOR_DESC") == 1
    assert len(found.parts) == 4
    assert found.bytes_moved == {"tensors": sum(part.bytes_moved["tensors"] for part in found.parts)}
    assert found.flops == sum(part.flops or 0 for part in found.parts) > 0


def test_prepared_and_owned_operators_report_the_same() -> None:
    desc = layer("RNN")
    op = dml.compile(desc, "numpy")
    constants = {name: np.zeros(desc.tensors()[name].sizes, np.float32) for name in ("weight_tensor", "recurrence_tensor")}
    assert op.prepare(**constants).explain_plan() == op.explain_plan()
    owned = dml.BatchNormalizationTrainingDesc(
        input_tensor=dml.TensorDesc(data_type="FLOAT32", sizes=(2, 3, 4, 5)),
        scale_tensor=dml.TensorDesc(data_type="FLOAT32", sizes=(1, 3, 1, 1), flags="OWNED_BY_DML"),
        bias_tensor=dml.TensorDesc(data_type="FLOAT32", sizes=(1, 3, 1, 1)),
    ).with_outputs()
    assert report(owned).floor_us == pytest.approx(2 * 4 * 120 / MEMORY)


def test_a_report_is_a_small_table() -> None:
    found = report(layer("LSTM"), "persistent_block")
    assert str(found) == TABLE.format(found)
    assert str(dml.compile(layer("LSTM"), "numpy").explain_plan()).splitlines()[-1] == (
        "    floor           the device numpy has no model of this operator"
    )
    with pytest.raises(FrozenInstanceError):
        found.flops = 0  # type: ignore[misc]


TABLE = """\
DML_LSTM_OPERATOR_DESC on cuda:0, strategy persistent_block
    arithmetic      28.2 kflop
    bytes moved     1.4 kB weights
                    608 bytes tensors
                    10.2 kB input product
    R lies in       1.0 kB shared memory
    floor           1.529 us, 0.153 us a step
    estimate        {0.estimate_us:.4g} us, {0.estimate_step_us:.3g} us a step
    (floor and estimate: a model, not measured)"""
