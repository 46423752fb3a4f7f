"""An array's layout is checked once; what depends on its address, its values or what else is bound is checked each time."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from dmlpy.devices.graphs import CompiledGraph
from dmlpy.devices.memory import binding
from dmlpy.devices.operator import CompiledOperator

Array = np.ndarray[Any, np.dtype[Any]]
ROWS, COLUMNS = 3, 4


def anew(desc: dml.OperatorDesc, device: dml.Device | str = "numpy") -> CompiledOperator:
    """A separate operator, to which no other test's layouts are known."""
    shared = dml.compile(desc, device)
    return CompiledOperator(shared.desc, shared.device, shared.feature_level, shared.flags, shared._plan)


def compiled(**members: Any) -> CompiledOperator:
    tensor = dml.TensorDesc(data_type="FLOAT32", sizes=[1, 1, ROWS, COLUMNS], **members)
    return anew(dml.ElementWiseAddDesc(a_tensor=tensor, b_tensor=tensor, output_tensor=tensor))


PACKED = dml.TensorDesc(data_type="FLOAT32", sizes=[1, 1, ROWS, COLUMNS])


def compiled_graph(device: dml.Device | str, tensor: dml.TensorDesc = PACKED) -> CompiledGraph:
    """A graph that gives y = relu(x)."""
    g = dml.GraphBuilder()
    x = g.input("x", tensor)
    g.output("y", g.add(dml.ActivationReluDesc, input_tensor=x, output_tensor=tensor))
    return dml.compile(g.build(), device)


def values(start: int = 0) -> Array:
    return np.arange(start, start + ROWS * COLUMNS, dtype=np.float32).reshape(1, 1, ROWS, COLUMNS)


@pytest.fixture
def looked_at(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The tensors whose layouts were looked at."""
    found: list[str] = []
    check = binding._array_problems

    def checked(device: dml.Device, name: str, *rest: Any, **more: Any) -> Any:
        found.append(name)
        return check(device, name, *rest, **more)

    monkeypatch.setattr(binding, "_array_problems", checked)
    return found


def laid_out(device: dml.Device) -> tuple[dml.TensorDesc, Callable[[Array], Any]]:
    """A desc, and what gives an array of its layout: in host memory columns, as a packed array's layout needs no look there."""
    if device.memory_kind != "cpu":
        return dml.TensorDesc(data_type="FLOAT32", sizes=[1, 1, ROWS, COLUMNS]), device.from_host
    return dml.TensorDesc(data_type="FLOAT32", sizes=[1, 1, ROWS, COLUMNS], strides=[12, 12, 1, ROWS]), np.asfortranarray


def test_packed_arrays_of_host_memory_are_not_looked_at(looked_at: list[str]) -> None:
    op, graph = compiled(), compiled_graph("numpy")
    for start in range(2):
        np.testing.assert_array_equal(op(a_tensor=values(), b_tensor=values(start)).output_tensor, values() + values(start))
        np.testing.assert_array_equal(graph(x=values(start), y=values())["y"], values(start))
    assert looked_at == []


def test_each_layout_is_looked_at_once(looked_at: list[str], any_device: dml.Device) -> None:
    tensor, laid = laid_out(any_device)
    op = anew(dml.ActivationReluDesc(input_tensor=tensor, output_tensor=tensor), any_device)
    for start in range(-3, 0):
        given, output = laid(values(start)), laid(values())
        op(input_tensor=given)
        op.bind({"input_tensor": given}, {"output_tensor": output})()
        np.testing.assert_array_equal(any_device.to_host(output), np.maximum(values(start), 0))
    assert sorted(looked_at) == ["input_tensor", "output_tensor"]


def test_each_layout_is_looked_at_once_by_a_graph(looked_at: list[str], any_device: dml.Device) -> None:
    tensor, laid = laid_out(any_device)
    graph = compiled_graph(any_device, tensor)
    for start in range(-3, 0):
        given, output = laid(values(start)), laid(values())
        graph(x=given)
        graph.bind({"x": given}, {"y": output})()
        np.testing.assert_array_equal(any_device.to_host(output), np.maximum(values(start), 0))
    assert sorted(looked_at) == ["x", "y"]


def test_what_is_wrong_after_a_good_call_of_a_graph_is_still_reported() -> None:
    graph = compiled_graph("numpy")
    for _ in range(2):
        graph(x=values(), y=values())
        for given, code in (
            ({"x": values().astype(np.float64)}, "array.type"),
            ({"x": values()[..., ::-1]}, "array.strides"),
            ({"x": unaligned()}, "bind.alignment"),
            ({"x": values(), "y": read_only()}, "array.read_only"),
        ):
            with pytest.raises(dml.BindError) as caught:
                graph(**given)
            assert [problem.code for problem in caught.value.problems] == [code]


def unaligned() -> Array:
    raw = np.zeros(ROWS * COLUMNS * 4 + 1, np.uint8)[1:]
    return raw.view(np.float32).reshape(1, 1, ROWS, COLUMNS)


def read_only() -> Array:
    array = values()
    array.flags.writeable = False
    return array


WRONG: dict[str, tuple[str, Callable[[], Any], str]] = {
    "type": ("a_tensor", lambda: values().astype(np.float64), "array.type"),
    "byte order": ("a_tensor", lambda: values().astype(">f4"), "array.type"),
    "shape": ("a_tensor", lambda: values().reshape(1, 1, COLUMNS, ROWS), "array.shape"),
    "strides": ("b_tensor", lambda: np.asfortranarray(values()), "array.strides"),
    "flipped": ("b_tensor", lambda: values()[..., ::-1], "array.strides"),
    "alignment": ("a_tensor", unaligned, "bind.alignment"),
    "read-only": ("output_tensor", read_only, "array.read_only"),
    "no array": ("a_tensor", lambda: values().tolist(), "array.kind"),
    "absent": ("a_tensor", lambda: None, "bind.missing"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_after_a_good_call_is_still_reported(name: str) -> None:
    op = compiled()
    good = {"a_tensor": values(), "b_tensor": values(1), "output_tensor": values()}
    for _ in range(2):
        op(**good)
        place, make, code = WRONG[name]
        for given in ({**good, place: make()}, {**good, place: make(), "c_tensor": values()}):
            with pytest.raises(dml.BindError) as caught:
                op(**given)
            expected = {place: code} | ({"c_tensor": "bind.unknown"} if "c_tensor" in given else {})
            assert {problem.path: problem.code for problem in caught.value.problems} == expected


def test_a_promised_alignment_is_checked_at_each_call() -> None:
    op = compiled(guaranteed_base_offset_alignment=64)
    block = np.zeros(ROWS * COLUMNS + 32, np.float32)
    start = -block.ctypes.data % 64 // 4

    def at(offset: int) -> Array:
        return block[start + offset :][: ROWS * COLUMNS].reshape(1, 1, ROWS, COLUMNS)

    for _ in range(2):
        op(a_tensor=at(0), b_tensor=at(16))
        with pytest.raises(dml.BindError, match="a multiple of 64 "):
            op(a_tensor=at(0), b_tensor=at(1))


def test_shared_memory_is_found_at_each_call() -> None:
    op = compiled()
    memory = np.zeros(2 * ROWS * COLUMNS, np.float32)
    a, apart, over = (memory[at : at + ROWS * COLUMNS].reshape(1, 1, ROWS, COLUMNS) for at in (0, ROWS * COLUMNS, COLUMNS))
    for _ in range(2):
        op(a_tensor=a, b_tensor=a, output_tensor=apart)
        for given in (
            {"a_tensor": a, "b_tensor": apart, "output_tensor": over},
            {"a_tensor": apart, "b_tensor": apart, "output_tensor": over},
        ):
            with pytest.raises(dml.BindError) as caught:
                op(**given)
            assert {problem.code for problem in caught.value.problems} == {"hazard.in_place"}
        with pytest.raises(dml.BindError):
            op.bind([a, apart], [over])


def test_an_array_that_changes_its_own_shape_stays_bound() -> None:
    op = compiled()
    a, b, output = values(), values(5), values()
    dispatch = op.bind([a, b], [output])
    op.bind([a, b], [output])
    with warnings.catch_warnings(category=DeprecationWarning, action="ignore"):  # NumPy 2.5 advises against it, and still does it
        a.shape = (ROWS * COLUMNS,)
        output.shape = (COLUMNS, ROWS)
    dispatch()
    np.testing.assert_array_equal(output.reshape(-1), a + b.reshape(-1))


def test_no_more_layouts_are_remembered_than_there_is_room_for(looked_at: list[str]) -> None:
    columns = dml.TensorDesc(data_type="FLOAT32", sizes=[1, 1, 2, 2], strides=[4, 4, 1, 2])
    op = anew(dml.ElementWiseIdentityDesc(input_tensor=columns, output_tensor=columns.replace(strides=None)))
    memory = np.arange(4, dtype=np.float32)
    for stride in range(2 * binding.MAX_KNOWN):
        array = np.lib.stride_tricks.as_strided(memory, (1, 1, 2, 2), (4 * stride, 0, 4, 8))
        np.testing.assert_array_equal(op(input_tensor=array).output_tensor, array)
    assert len(op._tables.layouts["input_tensor"]) == binding.MAX_KNOWN
    assert len(looked_at) == 2 * binding.MAX_KNOWN


def test_threads_share_an_operator() -> None:
    op = compiled()
    wrong: list[str] = []

    def work(seed: int) -> None:
        rng = np.random.default_rng(seed)
        for _ in range(100):
            a, b = rng.standard_normal((2, 1, 1, ROWS, COLUMNS), np.float32)
            if not np.array_equal(op(a_tensor=a, b_tensor=b).output_tensor, a + b):
                wrong.append("result")
            try:
                op(a_tensor=a, b_tensor=b.astype(np.float16))
                wrong.append("accepted")
            except dml.BindError:
                pass

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_floating_point_warnings_stay_off_whatever_the_caller_asks_for() -> None:
    op = compiled()
    huge = np.full((1, 1, ROWS, COLUMNS), 3e38, np.float32)
    with np.errstate(all="raise"):
        assert np.isinf(op(a_tensor=huge, b_tensor=huge).output_tensor).all()
        assert np.geterr()["over"] == "raise", "the caller's own settings are kept"
