"""Profiles: the nodes that run, their times by the device's clock, and the trace."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from dmlpy.devices.numpy.device import NumpyDevice
from dmlpy.devices.reporting.profile import write_trace
from tests.support.tensors import tensor

RNG = np.random.default_rng(7)


def network() -> dml.Graph:
    """A fused activation, an input that is prepared, and an output twice."""
    g = dml.GraphBuilder("network")
    x, w = g.input("x", tensor(1, 1, 3, 4)), g.input("w", tensor(1, 1, 4, 4, flags="OWNED_BY_DML"))
    y = g.add(dml.ActivationTanhDesc, "tanh", input_tensor=g.add(dml.GEMMDesc, "product", a_tensor=x, b_tensor=w))
    g.output("y", y)
    g.output("again", y)
    g.output("z", g.add(dml.ElementWiseAbsDesc, "absolute", input_tensor=y))
    return g.build()


def inputs() -> dict[str, Any]:
    return {"x": RNG.standard_normal((1, 1, 3, 4), np.float32), "w": RNG.standard_normal((1, 1, 4, 4), np.float32)}


class ClockedDevice(NumpyDevice):
    """A device with a clock that says 1 ms, then 2 ms, and so on."""

    def __init__(self) -> None:
        self.readings = itertools.count(1)

    def start_timer(self, stream: int) -> Callable[[], float] | None:
        return lambda: float(next(self.readings))


def clocked_profile() -> dml.Profile:
    return dml.compile(network(), ClockedDevice()).profile(inputs(), runs=2)


def test_a_graph_is_profiled_node_by_node(every_device: dml.Device) -> None:
    op, given = dml.compile(network(), every_device), inputs()
    before = {name: array.copy() for name, array in given.items()}
    for profile in (op.profile(given, runs=3), op.profile(**given, runs=3)):
        assert [(node.name, node.operator, node.fused) for node in profile.nodes] == [
            ("product", "GEMM", ("tanh",)),
            ("again", "ELEMENT_WISE_IDENTITY", ()),
            ("absolute", "ELEMENT_WISE_ABS", ()),
        ]
        assert {node.place for node in profile.nodes} == {every_device.name} == {profile.device}
        assert [len(node.runs_us) for node in profile.nodes] == [3, 3, 3]
        assert len(profile.whole_us) == 3
        assert all(us > 0 for node in profile.nodes for us in node.runs_us)
        assert all(us > 0 for us in profile.whole_us)
    assert profile.nodes[0].flops == 2 * 3 * 4 * 4
    for name, array in given.items():
        np.testing.assert_array_equal(array, before[name])


def test_a_profiled_dispatch_computes_what_a_call_does(every_device: dml.Device) -> None:
    """The nodes that are launched one by one write where the dispatch does."""
    op, given = dml.compile(network(), every_device), inputs()
    held = {name: every_device.from_host(array) for name, array in given.items()}
    prepared = op.prepare(w=held["w"])
    shape, poison = (1, 1, 3, 4), np.full((1, 1, 3, 4), np.nan, np.float32)
    outputs = {name: every_device.from_host(poison.copy()) for name in op.outputs}
    dispatch = prepared.bind({"x": held["x"]}, outputs)
    assert [node.name for node in dispatch.profile(runs=1).nodes] == ["product", "again", "absolute"]
    assert [node.name for node in prepared.profile(x=held["x"], runs=1).nodes] == ["product", "again", "absolute"]
    expected = np.tanh(given["x"].astype(np.float64) @ given["w"])
    for name, values in {"y": expected, "again": expected, "z": np.abs(expected)}.items():
        found = every_device.to_host(outputs[name]).reshape(shape)
        np.testing.assert_allclose(found, values, atol=1e-5)


def test_the_times_are_those_of_the_devices_clock() -> None:
    profile = clocked_profile()  # the first run of each kind is not measured
    assert profile.whole_us == (2000.0, 3000.0)
    assert [node.runs_us for node in profile.nodes] == [(7000.0, 10000.0), (8000.0, 11000.0), (9000.0, 12000.0)]
    assert [row[:1] + row[3:6] for row in profile.table().rows] == [
        ("absolute", "10,500.0", "9,000.0", "36.8%"),
        ("again", "9,500.0", "8,000.0", "33.3%"),
        ("product (with tanh)", "8,500.0", "7,000.0", "29.8%"),
    ]
    assert [row[0] for row in profile.by_operator().rows] == ["ELEMENT_WISE_ABS", "ELEMENT_WISE_IDENTITY", "GEMM"]
    assert profile.summary() == "network on numpy, 2 runs: whole 2,500.0 us (median), 3 nodes one by one 28,500.0 us"
    assert profile.summary() in str(profile)


def test_nodes_of_one_operator_are_summed() -> None:
    g = dml.GraphBuilder()
    a = g.add(dml.ElementWiseExpDesc, "a", input_tensor=g.input("x", tensor(1, 1, 1, 5)))
    g.output("y", g.add(dml.ElementWiseExpDesc, "b", input_tensor=a))
    profile = dml.compile(g.build(), ClockedDevice()).profile(x=np.zeros((1, 1, 1, 5), np.float32), runs=1)
    ((operator, place, count, us, share),) = profile.by_operator().rows
    assert (operator, place, count, us, share) == ("ELEMENT_WISE_EXP", "numpy", "2", "11,000.0", "100.0%")


def test_the_trace_is_chromes(tmp_path: Path) -> None:
    profile = clocked_profile()
    profile.save(tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    rows = {event["tid"]: event["args"]["name"] for event in events if event["name"] == "thread_name"}
    assert rows == {1: "whole runs", 2: "nodes one by one"}
    spans = [event for event in events if event["ph"] == "X"]
    assert [event["dur"] for event in spans if event["tid"] == 1] == list(profile.whole_us)
    assert [(event["name"], event["args"]["run"], event["dur"]) for event in spans if event["tid"] == 2] == [
        (node.name, run, node.runs_us[run]) for run in range(2) for node in profile.nodes
    ]
    for row in rows:  # no two events of a row overlap
        own = sorted((event["ts"], event["ts"] + event["dur"]) for event in spans if event["tid"] == row)
        assert all(end <= begin for (_, end), (begin, _) in itertools.pairwise(own))
    write_trace(tmp_path / "two.json", [profile, profile])
    both = json.loads((tmp_path / "two.json").read_text())["traceEvents"]
    assert {event["pid"] for event in both} == {1, 2}


def test_an_operators_dispatch_is_one_node() -> None:
    op = dml.compile(dml.ElementWiseExpDesc(input_tensor=tensor(2, 2), output_tensor=tensor(2, 2)), "numpy")
    output = np.empty((2, 2), np.float32)
    profile = op.bind({"input_tensor": np.zeros((2, 2), np.float32)}, {"output_tensor": output}).profile(runs=2)
    assert [(node.operator, len(node.runs_us)) for node in profile.nodes] == [("ELEMENT_WISE_EXP", 2)]
    np.testing.assert_array_equal(output, 1)


def test_the_node_with_the_work_takes_the_time() -> None:
    g = dml.GraphBuilder()
    a = g.input("a", tensor(1, 1, 256, 256))
    g.output("y", g.add(dml.GEMMDesc, "heavy", a_tensor=a, b_tensor=g.add(dml.ActivationReluDesc, "light", input_tensor=a)))
    profile = dml.compile(g.build(), "numpy").profile(a=np.ones((1, 1, 256, 256), np.float32), runs=5)
    light, heavy = profile.nodes
    assert (light.name, heavy.name) == ("light", "heavy")
    assert heavy.median_us > light.median_us


@pytest.mark.parametrize("runs", [0, -1, True, 1.5, None, "20"])
def test_runs_are_counted_from_one(runs: Any) -> None:
    with pytest.raises(dml.DescError, match=r"network\.profile.*\n.*runs is .*, expected a whole number, at least 1"):
        dml.compile(network(), "numpy").profile(inputs(), runs=runs)


def test_inputs_are_checked() -> None:
    with pytest.raises(dml.BindError, match="w is not given"):
        dml.compile(network(), "numpy").profile(x=inputs()["x"])


def test_a_captured_stream_is_not_profiled(monkeypatch: pytest.MonkeyPatch) -> None:
    device = ClockedDevice()
    op, given = dml.compile(network(), device), inputs()
    prepared = op.prepare(w=given["w"])
    dispatch = prepared.bind({"x": given["x"]}, {name: np.empty((1, 1, 3, 4), np.float32) for name in op.outputs})
    monkeypatch.setattr(device, "is_capturing", lambda stream: True)
    with pytest.raises(dml.DispatchError, match="captured cannot be profiled"):
        dispatch.profile()
