"""Single bindings of a dispatch are replaced; all others stay."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from tests.support.tensors import tensor
from tests.support.tolerance import assert_close

RNG = np.random.default_rng(3)
SIZES = (1, 1, 3, 4)


def values(*sizes: int) -> np.ndarray[Any, Any]:
    return RNG.standard_normal(sizes or SIZES, dtype=np.float32)


def sum_of_two(device: dml.Device | str = "numpy") -> Any:
    desc = tensor(*SIZES)
    return dml.compile(dml.ElementWiseAddDesc(a_tensor=desc, b_tensor=desc).with_outputs(), device)


def test_inputs_and_outputs_are_replaced(any_device: dml.Device) -> None:
    op = sum_of_two(any_device)
    host = [values() for _ in range(3)]
    a, b, c = (any_device.from_host(array.copy()) for array in host)
    first, second = (any_device.from_host(np.full(SIZES, np.nan, np.float32)) for _ in range(2))
    dispatch = op.bind([a, b], [first])
    dispatch()
    dispatch.rebind(b_tensor=c, output_tensor=second)
    dispatch()
    dispatch.rebind(ATensor=c)
    np.testing.assert_array_equal(any_device.to_host(second), host[0] + host[2])
    dispatch()
    np.testing.assert_array_equal(any_device.to_host(first), host[0] + host[1])
    np.testing.assert_array_equal(any_device.to_host(second), host[2] + host[2])
    dispatch.rebind(output_tensor=c)  # in place, which ADD allows
    dispatch()
    np.testing.assert_array_equal(any_device.to_host(c), host[2] + host[2])


def test_elements_of_an_array_of_tensors_are_replaced() -> None:
    part = tensor(2)
    op = dml.compile(dml.JoinDesc(input_tensors=[part, part], axis=0).with_outputs(), "numpy")
    one, two, three, output = values(2), values(2), values(2), values(4)
    dispatch = op.bind({"input_tensors": [one, two]}, {"output_tensor": output})
    dispatch.rebind(**{"input_tensors[1]": three})
    dispatch()
    np.testing.assert_array_equal(output, [*one, *three])
    dispatch.rebind(input_tensors=[two, one])
    dispatch()
    np.testing.assert_array_equal(output, [*two, *one])


def test_launches_for_memory_that_comes_again_are_not_made_again(cuda_device: dml.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    op = sum_of_two(cuda_device)
    a, b, c, output = (cuda_device.from_host(values()) for _ in range(4))
    dispatch = op.bind([a, b], [output])
    made = []
    plan, bind = type(op._plan), type(op._plan).bind

    def noted(*arguments: Any) -> Any:
        made.append(arguments)
        return bind(*arguments)

    monkeypatch.setattr(plan, "bind", noted)
    for turn in (c, b, c, b):
        dispatch.rebind(b_tensor=turn)
        dispatch()
        expected = cuda_device.to_host(a) + cuda_device.to_host(turn)
        np.testing.assert_array_equal(cuda_device.to_host(output), expected)
    assert len(made) == 1


def test_packed_constants_and_limits_stay(any_device: dml.Device) -> None:
    sizes = {"input_tensor": (1, 3, 2, 4), "weight_tensor": (1, 1, 5, 4), "recurrence_tensor": (1, 1, 5, 5)}
    desc = dml.RNNDesc(
        **{name: tensor(*own) for name, own in sizes.items()},
        sequence_lengths_tensor=tensor(1, 1, 1, 2, data_type="UINT32"),
        activation_descs=[dml.ActivationTanhDesc()],
        direction="FORWARD",
    ).with_outputs("output_single_tensor")
    host = {name: values(*own) for name, own in sizes.items()}
    other = values(*sizes["input_tensor"])
    lengths, wrong = (np.array(counts, np.uint32).reshape(1, 1, 1, 2) for counts in ([3, 2], [3, 4]))
    op = dml.compile(desc, any_device)
    weights = {name: any_device.from_host(host[name]) for name in op.prepared_inputs}
    output = any_device.from_host(np.zeros((1, 1, 2, 5), np.float32))
    given = {"input_tensor": any_device.from_host(host["input_tensor"]), "sequence_lengths_tensor": any_device.from_host(lengths)}
    dispatch = op.prepare(**weights).bind(given, {"output_single_tensor": output})
    dispatch.rebind(input_tensor=any_device.from_host(other))
    dispatch()
    expected = dml.reference(desc, {**host, "input_tensor": other, "sequence_lengths_tensor": lengths}).output_single_tensor
    assert_close(any_device.to_host(output), expected, np.float32, terms=9)
    with pytest.raises(dml.BindError) as caught:
        dispatch.rebind(weight_tensor=weights["weight_tensor"])
    assert [(problem.code, problem.path) for problem in caught.value.problems] == [("bind.packed", "weight_tensor")]
    if any_device.memory_kind == "cpu":
        dispatch.rebind(sequence_lengths_tensor=wrong)
        with pytest.raises(dml.BindError, match="is 4, expected 0 to 3"):
            dispatch()
        dispatch.rebind(sequence_lengths_tensor=lengths)
        dispatch()


A, B, OUTPUT = values(), values(), values()
WRONG: dict[str, tuple[dict[str, Any], dict[str, str]]] = {
    "type": ({"a_tensor": A.astype(np.float64)}, {"a_tensor": "array.type"}),
    "all are told": ({"a_tensor": A[..., ::2], "output_tensor": "x"}, {"a_tensor": "array.shape", "output_tensor": "array.kind"}),
    "unknown": ({"c_tensor": A}, {"c_tensor": "bind.unknown"}),
    "none alone": ({"a_tensor": None}, {"a_tensor": "bind.missing"}),
    "none": ({"a_tensor": None, "c_tensor": A}, {"a_tensor": "bind.missing", "c_tensor": "bind.unknown"}),
    "part of an input": ({"output_tensor": dml.Buffer(A.ctypes.data + 4, 48)}, {"output_tensor": "hazard.in_place"}),
    "part of the output": ({"b_tensor": dml.Buffer(OUTPUT.ctypes.data + 16, 48)}, {"output_tensor": "hazard.in_place"}),
}


@pytest.mark.parametrize("name", WRONG)
def test_memory_that_does_not_fit_leaves_all_as_it_was(name: str) -> None:
    changes, problems = WRONG[name]
    output = OUTPUT
    dispatch = sum_of_two().bind([A, B], [output])
    output.fill(np.nan)
    with pytest.raises(dml.BindError, match=r"\.rebind: ") as caught:
        dispatch.rebind(**changes)
    assert {problem.path: problem.code for problem in caught.value.problems} == problems
    assert np.isnan(output).all()
    dispatch()
    np.testing.assert_array_equal(output, A + B)


def test_scratch_is_not_bound_as_a_tensor() -> None:
    desc = tensor(1, 1, 64, 64)
    op = dml.compile(dml.ActivationTanhDesc(input_tensor=desc, output_tensor=desc), "numpy")
    size = op.binding_properties.temporary_resource_size
    assert size > 0
    scratch = np.zeros(max(size, 4 * 64 * 64) // 4 + 64, np.float32)
    dispatch = op.bind([values(1, 1, 64, 64)], [values(1, 1, 64, 64)], temporary=dml.Buffer(scratch.ctypes.data, scratch.nbytes))
    with pytest.raises(dml.BindError) as caught:
        dispatch.rebind(input_tensor=scratch[: 64 * 64].reshape(1, 1, 64, 64))
    assert [problem.code for problem in caught.value.problems] == ["hazard.temporary"]


def test_a_dispatch_is_not_rebound_while_it_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    dispatch = sum_of_two().bind([A, B], [OUTPUT])
    launch = dispatch._launch

    def launched(stream: int) -> None:
        with pytest.raises(dml.DispatchError):
            dispatch.rebind(a_tensor=B)
        launch(stream)

    dispatch._launch = launched
    dispatch()
    np.testing.assert_array_equal(OUTPUT, A + B)
