"""Operators called on arrays: results are those of the compiled operator, whatever the layout, the library and the number of calls."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from dmlpy import eager, x
from dmlpy.description.registry import OPERATORS
from dmlpy.devices import Device
from dmlpy.eager import calls, runs
from dmlpy.inspection.samples import sample
from dmlpy.x.signatures import function_name
from tests.support.descs.expression_calls import arguments_of
from tests.support.operators.random_inputs import random_inputs

FAMILIES = sorted({kind.family() for kind in OPERATORS.values()})
F32 = np.float32


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(3)


@pytest.fixture(autouse=True)
def nothing_prepared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "_prepared", {})


def flat(values: Any) -> list[Any]:
    """The arrays of a result or of outputs, without those that are absent; the memory of reserves depends on the call."""
    found: list[Any] = [*values] if isinstance(values, tuple | dml.Outputs) else [values]
    found = [item for value in found for item in (value if isinstance(value, tuple) else (value,))]
    return [item for item in found if item is not None and not isinstance(item, dml.Reserve)]


def call_of(desc: dml.OperatorDesc, values: dict[str, Any]) -> Any:
    operands = [values.get(field.name) for field in sorted(desc.inputs(), key=lambda field: field.optional)]
    return getattr(eager, function_name(type(desc)))(*operands, **arguments_of(desc), device="numpy")


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("staged", [True, False], ids=["copied", "bound"])
def test_every_operator_gives_what_its_desc_gives(family: str, staged: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not staged:
        monkeypatch.setattr(runs, "MAX_STAGED", 0)
    for kind in (kind for kind in OPERATORS.values() if kind.family() == family):
        desc, rng = sample(kind), np.random.default_rng(11)
        rounds = [random_inputs(rng, desc) for _ in range(2)]
        results = [call_of(desc, values) for values in rounds]  # the first results must not be those of the second call
        for values, result in zip(rounds, results, strict=True):
            found, expected = flat(result), flat(dml.compile(desc, "numpy")(**values))
            assert len(found) == len(expected), kind
            for own, wanted in zip(found, expected, strict=True):
                np.testing.assert_array_equal(own, wanted, strict=True, err_msg=kind.short_name())


LAYOUTS: dict[str, Callable[[Any], Any]] = {
    "packed": lambda array: array,
    "columns first": np.asfortranarray,
    "every second": lambda array: np.repeat(array, 2, axis=1)[:, ::2],
    "repeated": lambda array: np.broadcast_to(array[:, :1], array.shape),
    "read-only": lambda array: np.frombuffer(array.tobytes(), array.dtype).reshape(array.shape),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("size", [7, 300])
def test_arrays_of_any_layout_are_taken(layout: str, size: int, rng: np.random.Generator) -> None:
    """300 is more than what is copied."""
    a, b = LAYOUTS[layout](rng.standard_normal((size, size), F32)), rng.standard_normal((size, size), F32)
    assert (size == 300) == (3 * b.nbytes > runs.MAX_STAGED)
    for _ in range(2):
        np.testing.assert_array_equal(eager.subtract(a, b, device="numpy"), a - b, strict=True)


@pytest.mark.parametrize("other", [2, 2.5, np.float32(1.5), np.ones(3, F32), np.ones((4, 1), F32)], ids=str)
@pytest.mark.parametrize("size", [3, 300_000])
def test_operands_are_broadcast(other: Any, size: int, rng: np.random.Generator) -> None:
    if np.shape(other) == (3,):
        other = np.full(size, 2, F32)
    data = rng.standard_normal((4, size), F32)
    for _ in range(2):
        np.testing.assert_array_equal(eager.multiply(data, other, device="numpy"), data * np.asarray(other, F32), strict=True)
        np.testing.assert_array_equal(eager.multiply(other, data, device="numpy"), data * np.asarray(other, F32), strict=True)


def test_numbers_are_values_not_layouts(rng: np.random.Generator) -> None:
    data = rng.integers(0, 100, 5, np.int32)
    for number in range(10):
        np.testing.assert_array_equal(eager.add(data, number), data + number, strict=True)
    assert len(calls._prepared) == 1


@pytest.mark.parametrize("size", [3, 300_000])
@pytest.mark.parametrize("number", [0.5, float("nan"), float("inf"), 2**40], ids=str)
def test_a_number_that_the_type_does_not_hold_is_refused_at_any_call(number: float, size: int) -> None:
    data = np.zeros(size, np.int32)
    eager.add(data, 1 if isinstance(number, int) else 1.0, device="numpy")
    with pytest.raises(dml.DescError, match=r"expected a (value|number) that INT32 holds"):
        eager.add(data, number, device="numpy")
    assert eager.add(data, 2, device="numpy")[0] == 2


def test_operands_and_attributes_may_be_named(rng: np.random.Generator) -> None:
    a, b, c = (rng.standard_normal((3, 3), F32) for _ in range(3))
    expected = eager.gemm(a, b, c, trans_b="TRANSPOSE", alpha=2.0, beta=0.5)
    np.testing.assert_allclose(expected, 2 * a @ b.T + 0.5 * c, rtol=1e-5)
    for _ in range(2):
        np.testing.assert_array_equal(eager.gemm(c=c, beta=0.5, b=b, a=a, trans_b=dml.MatrixTransform.TRANSPOSE, alpha=2.0), expected)
        np.testing.assert_array_equal(eager.gemm(a, b, beta=0.5, c=c, trans_b="TRANSPOSE", alpha=2), expected)


def test_attributes_are_told_apart(rng: np.random.Generator) -> None:
    data = rng.standard_normal((4, 6), F32)
    for axes in ([0], [1], [0, 1], (1,), np.array([1])):
        expected = data.sum(axis=tuple(axes), keepdims=True)
        np.testing.assert_allclose(eager.reduce(data, function="SUM", axes=axes), expected, rtol=1e-5, atol=1e-6)
    for dtype in (np.float16, "FLOAT16", np.int32):
        assert eager.cast(data, output_data_type=dtype).dtype == np.dtype("float16" if dtype == "FLOAT16" else dtype)


def test_a_later_call_checks_nothing(monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator) -> None:
    a = rng.standard_normal((2, 3), F32)
    eager.add(a, a)
    monkeypatch.setattr(calls, "call", lambda *_, **__: pytest.fail("described again"))
    np.testing.assert_array_equal(eager.add(a, a), a + a, strict=True)


def test_not_all_calls_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "_MOST_PREPARED", 3)
    for size in range(1, 8):
        assert eager.abs(np.full(size, -1, F32)).tolist() == [1] * size
    assert len(calls._prepared) == 3


def test_threads_share_what_is_prepared(rng: np.random.Generator) -> None:
    data = [rng.standard_normal((40, 40), F32) for _ in range(24)]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda array: [eager.gemm(array, array, device="numpy") for _ in range(8)], data))
    for array, results in zip(data, found, strict=True):
        expected = eager.gemm(array, array, device="numpy")
        assert all(np.array_equal(result, expected) for result in results)


def test_values_out_of_range_are_refused_at_any_call(rng: np.random.Generator) -> None:
    x, w, r = (rng.standard_normal(sizes, F32) for sizes in ((1, 5, 2, 3), (1, 1, 4, 3), (1, 1, 4, 4)))
    options: dict[str, Any] = {"activation_descs": [dml.ActivationTanhDesc()], "direction": "FORWARD", "device": "numpy"}

    def run(length: int) -> Any:
        return eager.rnn(x, w, r, sequence_lengths=np.full((1, 1, 1, 2), length, np.uint32), **options)

    assert run(5).sequence.shape == (5, 1, 2, 4)
    with pytest.raises(dml.BindError, match="sequence_lengths_tensor"):
        run(6)
    np.testing.assert_array_equal(run(3).sequence[:3], run(5).sequence[:3])


def test_results_belong_to_the_library_of_the_operands(rng: np.random.Generator) -> None:
    torch = pytest.importorskip("torch")
    a, b = torch.from_numpy(rng.standard_normal((3, 5), F32)), torch.from_numpy(rng.standard_normal((5, 2), F32))
    for _ in range(2):
        product = eager.gemm(a, b, device="numpy")
        assert isinstance(product, torch.Tensor)
        np.testing.assert_allclose(product, a @ b, rtol=1e-5)
        assert torch.equal(eager.add(a, 2.0), a + 2)
        assert torch.equal(eager.add(a, a[0]), a + a[0])
        np.testing.assert_allclose(eager.gemm(b.T, a.T, device="numpy"), (a @ b).T, rtol=1e-5)


def test_the_device_of_the_arrays_runs_it(cuda_device: Device, rng: np.random.Generator) -> None:
    a, b = rng.standard_normal((3, 5), F32), rng.standard_normal((3, 5), F32)
    found = eager.add(cuda_device.from_host(a), cuda_device.from_host(b), device=cuda_device)
    np.testing.assert_array_equal(cuda_device.to_host(found), a + b)
    with pytest.raises(dml.BindError, match="host memory"):
        eager.add(a, b, device=cuda_device)


def test_numbers_are_copied_on_the_stream_of_the_tensors(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that their memory, which is freed after the call, goes to later work of that stream only."""
    torch = pytest.importorskip("torch")
    streams: dict[str, Any] = {}

    class Compiled:
        device = SimpleNamespace(
            name="cuda:1", memory_kind="cuda", from_host=lambda array, stream=None: streams.update(copy=stream) or torch.from_numpy(array)
        )
        desc = sample(dml.ElementWiseAdd1Desc)

        def __call__(self, stream: int, a_tensor: Any, b_tensor: Any) -> Any:
            streams["call"] = stream
            return SimpleNamespace(as_dict=lambda: {"output_tensor": a_tensor})

    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: SimpleNamespace(cuda_stream={"cuda:1": 0x7100}[device]))
    one, many = (dml.TensorDesc(data_type="FLOAT32", sizes=(size,)) for size in (1, 3))
    operands = [runs.Operand("a_tensor", 0, many, many), runs.Operand("b_tensor", 1, one, many, is_number=True)]
    run = runs._BoundCall(Compiled(), operands, lambda results: results)
    run([torch.ones(3), 2.0])
    assert streams == {"copy": 0x7100, "call": 0x7100}


def wrong_calls() -> Iterator[tuple[str, Callable[[], Any], list[str]]]:
    double, single = np.ones((2, 3)), np.ones((3, 4), F32)
    yield (
        "float64",
        lambda: eager.gemm(double, double.T),
        ["2 problems", "a_tensor.data_type is FLOAT64", "cast it: a.astype(numpy.float32)"],
    )
    yield "sizes", lambda: eager.gemm(single, single), ["1 problem", "b_tensor.sizes[0] is 3, expected k = 4"]
    yield "no array", lambda: eager.abs("data"), ["input_tensor is a str, expected an array"]
    yield "negative stride", lambda: eager.abs(single[::-1]), ["input_tensor.strides", "numpy.ascontiguousarray"]
    yield "bool", lambda: eager.abs(np.ones(3, np.bool_)), ["array.view(numpy.uint8)"]
    yield "too many", lambda: eager.abs(single, single), ["abs() takes 1 operand (input), but 2 were given"]
    yield "twice", lambda: eager.abs(*[single], **{"input": single}), ["abs() got several values for input"]
    yield (
        "list",
        lambda: eager.gemm([[1.0, 2.0]], single),
        ["a_tensor is [[1.0, 2.0]], expected an array  ", "make it an array: numpy.array(values, numpy.float32)"],
    )
    yield "list of arrays", lambda: eager.gemm([single], single), ["a_tensor is [<array FLOAT32 [3, 4]", "expected an array  "]
    yield "array for a list", lambda: eager.join(single, axis=0), ["input_tensors is", "expected a list of arrays"]
    yield "a row", lambda: eager.gemm(single[0], single), ["has 1 dimension [4], expected 2 to 4 dimensions  [dims.support]"]
    yield (
        "flags",
        lambda: eager.gemm(single, single.T, flags="ALLOW_HALF_PRECISION_COMPUTATION"),
        ["flags is not an argument of this function", "describe the operator and pass it to dml.compile(desc, flags=...)"],
    )
    yield (
        "padding",
        lambda: eager.convolution(np.ones((1, 3, 8, 8), F32), np.ones((4, 3, 3, 3), F32), padding=1),
        ["did you mean start_padding and end_padding?"],
    )
    image, filters = np.ones((1, 8, 8), F32), np.ones((4, 1, 3, 3), F32)
    single_sample = ["1 problem", "input_tensor.sizes has 3 dimensions", "a single sample is a batch of one: sizes [1, 1, 8, 8]"]
    yield "no batch", lambda: eager.convolution(image, filters), single_sample
    yield "no batch, padded", lambda: eager.convolution(image, filters, start_padding=[1, 1], end_padding=[1, 1]), single_sample
    yield (
        "filter of too few dimensions",
        lambda: eager.convolution(image[None], filters[0]),
        ["1 problem", "filter_tensor.sizes has 3 dimensions [1, 3, 3], expected 4"],
    )
    yield (
        "filter of too many dimensions for the arrays",
        lambda: eager.convolution(image, filters, strides=[1], start_padding=[1], end_padding=[1]),
        ["filter_tensor.sizes has 4 dimensions"],
    )
    yield "dim", lambda: eager.activation_softmax1(single, dim=1), ["did you mean axes?"]
    yield "unknown attribute", lambda: eager.gemm(single, single, transb="TRANSPOSE"), ["did you mean trans_b?"]
    yield (
        "unknown type",
        lambda: eager.cast(single, dtype="INT8"),
        ["expected one of input, output_data_type, device", "did you mean output_data_type?"],
    )
    yield "a bias", lambda: eager.gemm(single, single.T, bias=single), ["bias is not an argument of this function", "did you mean c?"]
    yield "members", lambda: eager.gemm(a_tensor=single, b_tensor=single), ["2 problems", "expected one of a, b, c,", "write a="]
    yield "a member's C name", lambda: eager.gemm(single, BTensor=single), ["BTensor is the name of a member", "remedy: write b="]
    yield "a list's member", lambda: eager.join(input_tensors=[single, single], axis=0), ["remedy: write inputs="]
    yield "out", lambda: eager.abs(single, out=single), ["results are new arrays; dml.compile(desc, device).bind(inputs, outputs)"]
    yield "a type of results", lambda: eager.abs(single, dtype="FLOAT16"), ["cast the operands"]
    yield "device", lambda: eager.abs(single, device="gpu"), ["did you mean 'cuda'?"]
    yield "line", lambda: eager.gemm(single, single), ["gemm at ", "test_eager.py"]


@pytest.mark.parametrize(("call", "message"), [pytest.param(call, message, id=name) for name, call, message in wrong_calls()])
def test_a_wrong_call_is_told_what_is_wrong(call: Callable[[], Any], message: list[str]) -> None:
    for _ in range(2):
        with pytest.raises((dml.DmlError, TypeError)) as caught:
            call()
        for text in message:
            assert text in str(caught.value)


def test_every_function_is_listed_and_documented() -> None:
    names = dir(eager)
    assert len(names) == len(OPERATORS)
    stub = inspect.getsourcefile(eager)
    assert stub is not None
    with open(f"{stub}i", encoding="utf-8") as file:
        declared = re.findall(r"^def (\w+)\(((?:.|\n)*?)^\) ->", file.read(), re.MULTILINE)
    assert {name for name, _ in declared} == {*names}
    for name, parameters in declared:
        function = getattr(eager, name)
        assert [*inspect.signature(function).parameters] == re.findall(r"^    (\w+):", parameters, re.MULTILINE)
        text = inspect.getdoc(function) or ""
        assert all(f"    {parameter}: " in text for parameter in inspect.signature(function).parameters)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("gem", "gemm"),
        ("relu", "eager.activation_relu"),
        ("concat", "eager.join"),
        ("linear", "did you mean eager.activation_linear, or eager.gemm (it is the matrix product)?"),
        ("GEMM", "gemm"),
        ("reshape", "other sizes"),
    ],
)
def test_an_unknown_function_is_told_the_known_one(name: str, message: str) -> None:
    for module in (eager, x):
        with pytest.raises(AttributeError, match=re.escape(message.replace("eager.", f"{module.__name__.removeprefix('dmlpy.')}."))):
            getattr(module, name)


def test_a_function_that_is_no_operator_s_is_suggested_too() -> None:
    with pytest.raises(AttributeError, match=r"dmlpy\.x has no function 'inptu': did you mean x\.input\?"):
        x.inptu  # type: ignore[attr-defined]  # noqa: B018  (reading it raises)
