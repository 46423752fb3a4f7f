"""`dml.reference`: what it takes and gives, and what it refuses."""

from __future__ import annotations

import importlib
import inspect
import pydoc
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from tests.support.descs.messages import reference_of_undefined

Array = np.ndarray[Any, Any]


def tensor(data_type: str, *sizes: int, **members: Any) -> dml.TensorDesc:
    return dml.TensorDesc(data_type=data_type, sizes=sizes, **members)


def add(data_type: str = "FLOAT32", *sizes: int) -> dml.ElementWiseAddDesc:
    own = tensor(data_type, *(sizes or (2, 3)))
    return dml.ElementWiseAddDesc(a_tensor=own, b_tensor=own, output_tensor=own)


A = np.array([[1, 2, 3], [4, 5, 6]], np.float32)
THIRD = A / 3


@pytest.mark.parametrize("given", ["keywords", "mapping", "both", "C's names", "list", "tuple", "list and keyword"])
def test_inputs_are_given_by_name_or_in_the_struct_s_order(given: str) -> None:
    calls = {
        "keywords": lambda: dml.reference(add(), a_tensor=A, b_tensor=A),
        "mapping": lambda: dml.reference(add(), {"a_tensor": A, "b_tensor": A}),
        "both": lambda: dml.reference(add(), {"a_tensor": A}, b_tensor=A),
        "C's names": lambda: dml.reference(add(), ATensor=A, BTensor=A),
        "list": lambda: dml.reference(add(), [A, A]),
        "tuple": lambda: dml.reference(add(), (A, A)),
        "list and keyword": lambda: dml.reference(add(), [None, A], a_tensor=A),
    }
    outputs = calls[given]()
    assert isinstance(outputs, dml.Outputs)
    np.testing.assert_array_equal(outputs.output_tensor, 2.0 * A)
    np.testing.assert_array_equal(outputs.OutputTensor, 2.0 * A)


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [(None, np.float64), (np.float32, np.float32), ("FLOAT32", np.float32), (dml.DataType.FLOAT64, np.float64), ("float32", np.float32)],
    ids=str,
)
@pytest.mark.parametrize("stored", ["FLOAT16", "FLOAT32"])
def test_floating_point_has_the_type_of_the_arithmetic(stored: str, dtype: Any, expected: Any) -> None:
    options = {} if dtype is None else {"dtype": dtype}
    found = dml.reference(add(stored), a_tensor=THIRD, b_tensor=THIRD.astype(np.float16), **options).output_tensor
    assert found.dtype == expected
    np.testing.assert_array_equal(found, THIRD.astype(expected) + THIRD.astype(np.float16).astype(expected))


def test_nothing_is_rounded_on_the_way() -> None:
    third = A.astype(np.float64) / 3
    found = dml.reference(add("FLOAT16"), a_tensor=third, b_tensor=third).output_tensor
    np.testing.assert_array_equal(found, third + third)
    assert (found != found.astype(np.float16)).any()


def test_integers_have_their_own_type_and_wrap_around() -> None:
    x = np.array([[200, 100, 1]], np.uint8)
    found = dml.reference(add("UINT8", 1, 3), a_tensor=x, b_tensor=x).output_tensor
    np.testing.assert_array_equal(found, np.array([[144, 200, 2]], np.uint8), strict=True)


def test_quantized_results_are_rounded_and_clamped() -> None:
    one = tensor("FLOAT32", 1)
    desc = dml.ElementWiseQuantizeLinearDesc(input_tensor=one, scale_tensor=one, zero_point_tensor=None, output_tensor=tensor("INT8", 1))
    for value, expected in ((0.25, 0), (0.75, 2), (1e9, 127), (-1e9, -128)):
        found = dml.reference(desc, input_tensor=np.array([value]), scale_tensor=np.array([0.5])).output_tensor
        np.testing.assert_array_equal(found, np.array([expected], np.int8), strict=True)


def test_strides_and_broadcasts_do_not_matter() -> None:
    desc = dml.ElementWiseAddDesc(
        a_tensor=tensor("FLOAT32", 2, 3, strides=(0, 1)),
        b_tensor=tensor("FLOAT32", 2, 3, strides=(1, 2)),
        output_tensor=tensor("FLOAT32", 2, 3),
    )
    row = np.broadcast_to(A[0], (2, 3))
    np.testing.assert_array_equal(dml.reference(desc, a_tensor=row, b_tensor=A.T.copy().T).output_tensor, row + A)


def test_owned_inputs_are_given_with_the_others() -> None:
    desc = add().replace(b_tensor=tensor("FLOAT32", 2, 3, flags="OWNED_BY_DML"))
    np.testing.assert_array_equal(dml.reference(desc, a_tensor=A, b_tensor=A).output_tensor, 2 * A)


def test_outputs_are_new_arrays() -> None:
    x = A.astype(np.float64)
    desc = dml.ElementWiseIdentityDesc(input_tensor=tensor("FLOAT32", 2, 3), output_tensor=tensor("FLOAT32", 2, 3))
    found = dml.reference(desc, input_tensor=x).output_tensor
    found[...] = 7
    np.testing.assert_array_equal(x, A)


def join() -> dml.JoinDesc:
    return dml.JoinDesc(input_tensors=[tensor("FLOAT32", 2, 3)] * 2, output_tensor=tensor("FLOAT32", 4, 3), axis=0)


@pytest.mark.parametrize(
    "inputs",
    [
        {"input_tensors": [A, -A]},
        {"InputTensors": (A, -A)},
        {"input_tensors[0]": A, "input_tensors[1]": -A},
        {"InputTensors[1]": -A, "input_tensors[0]": A},
        [A, -A],
    ],
    ids=["list", "C's name", "one by one", "one by one, C's name", "in order"],
)
def test_arrays_of_tensors_are_lists_or_given_one_by_one(inputs: Any) -> None:
    np.testing.assert_array_equal(dml.reference(join(), inputs).output_tensor, np.concatenate([A, -A]))


def test_output_arrays_of_tensors_are_tuples() -> None:
    found = np.concatenate([A, -A])
    back = dml.SplitDesc(input_tensor=tensor("FLOAT32", 4, 3), output_tensors=[tensor("FLOAT32", 1, 3), tensor("FLOAT32", 3, 3)], axis=0)
    first, rest = dml.reference(back, input_tensor=found).output_tensors
    np.testing.assert_array_equal(np.concatenate([first, rest]), found)


def layer(**members: Any) -> Any:
    x, w = tensor("FLOAT32", 1, 4, 2, 3), tensor("FLOAT32", 1, 1, 5, 3)
    lengths = tensor("UINT32", 1, 1, 1, 2)
    functions = (dml.ActivationTanhDesc(),)
    desc = dml.RNNDesc(
        input_tensor=x,
        weight_tensor=w,
        recurrence_tensor=tensor("FLOAT32", 1, 1, 5, 5),
        sequence_lengths_tensor=lengths,
        activation_descs=functions,
        direction="FORWARD",
    )
    return desc.replace(**members).with_outputs("output_sequence_tensor")


def layer_inputs(lengths: list[int]) -> dict[str, Array]:
    rng = np.random.default_rng(1)
    arrays: dict[str, Array] = {"input_tensor": rng.normal(size=(1, 4, 2, 3)), "weight_tensor": rng.normal(size=(1, 1, 5, 3))}
    arrays |= {"recurrence_tensor": rng.normal(size=(1, 1, 5, 5))}
    return arrays | {"sequence_lengths_tensor": np.array(lengths, np.uint32).reshape(1, 1, 1, 2)}


def test_what_the_desc_leaves_out_is_not_given() -> None:
    assert list(dml.reference(layer(), layer_inputs([4, 1])).as_dict()) == ["output_sequence_tensor"]


REFUSED: dict[str, tuple[Any, type[dml.DmlError], str]] = {
    "no desc": (lambda: dml.reference("ADD"), dml.DescError, "field.form"),
    "another type": (lambda: dml.reference(add(), a_tensor=A, b_tensor=A, dtype=np.int32), dml.DescError, "field.form"),
    "no type": (lambda: dml.reference(add(), a_tensor=A, b_tensor=A, dtype="seven"), dml.DescError, "field.form"),
    "a wrong desc": (lambda: dml.reference(add().replace(b_tensor=tensor("FLOAT32", 9))), dml.CompileError, "dims.equal"),
    "absent": (lambda: dml.reference(add(), a_tensor=A), dml.BindError, "bind.missing"),
    "unknown": (lambda: dml.reference(add(), a_tensor=A, b_tensor=A, c_tensor=A), dml.BindError, "bind.unknown"),
    "twice": (lambda: dml.reference(add(), a_tensor=A, b_tensor=A, BTensor=A), dml.BindError, "bind.twice"),
    "an output": (lambda: dml.reference(add(), a_tensor=A, b_tensor=A, output_tensor=A), dml.BindError, "bind.misplaced"),
    "null in the desc": (lambda: dml.reference(layer(), layer_inputs([4, 1]), bias_tensor=A), dml.BindError, "bind.unexpected"),
    "other sizes": (lambda: dml.reference(add(), a_tensor=A, b_tensor=A[0]), dml.BindError, "array.shape"),
    "integers for floating point": (lambda: dml.reference(add(), a_tensor=A, b_tensor=A.astype(int)), dml.BindError, "array.type"),
    "other integers": (
        lambda: dml.reference(add("UINT8", 2, 3), a_tensor=A.astype(np.uint8), b_tensor=A.astype(np.int8)),
        dml.BindError,
        "array.type",
    ),
    "no array": (lambda: dml.reference(add(), a_tensor=A, b_tensor=[[1, 2, 3], [4, 5, 6]]), dml.BindError, "array.kind"),
    "memory of a GPU": (lambda: dml.reference(add(), a_tensor=A, b_tensor=on_gpu()), dml.BindError, "array.device"),
    "one of two": (lambda: dml.reference(join(), input_tensors=[A]), dml.BindError, "bind.missing"),
    "three of two": (lambda: dml.reference(join(), input_tensors=[A, A, A]), dml.BindError, "bind.count"),
    "no list of tensors": (lambda: dml.reference(join(), input_tensors=A), dml.BindError, "bind.count"),
    "numbers that are no array": (lambda: dml.reference(add(), a_tensor=A, b_tensor=A.tolist()), dml.BindError, "array.kind"),
    "too short a list": (lambda: dml.reference(add(), [A], b_tensor=A), dml.BindError, "bind.count"),
    "no mapping": (lambda: dml.reference(add(), 7), dml.BindError, "bind.form"),
    "in the mapping and by name": (lambda: dml.reference(add(), {"a_tensor": A, "BTensor": A}, b_tensor=A), dml.BindError, "bind.twice"),
    "too long a sequence": (lambda: dml.reference(layer(), layer_inputs([4, 5])), dml.BindError, "value.range"),
    "no definition": (reference_of_undefined, dml.CompileError, "operator.undefined"),
}


def on_gpu() -> Any:
    return type("OnGpu", (), {"__cuda_array_interface__": {"shape": (2, 3), "typestr": "<f4", "data": (4096, False), "version": 3}})()


@pytest.mark.parametrize("name", REFUSED)
def test_what_does_not_fit_is_refused(name: str) -> None:
    call, error, code = REFUSED[name]
    with pytest.raises(error) as caught:
        call()
    assert any(problem.code.startswith(code) for problem in caught.value.problems), caught.value


def test_all_problems_are_reported_at_once() -> None:
    with pytest.raises(dml.BindError) as caught:
        dml.reference(add(), {"a_tensr": A}, b_tensor=A[0])
    assert [(problem.code, problem.path) for problem in caught.value.problems] == [
        ("bind.unknown", "a_tensr"),
        ("bind.missing", "a_tensor"),
        ("array.shape", "b_tensor"),
    ]
    assert "did you mean a_tensor?" in str(caught.value)


def test_four_bit_elements_are_bytes() -> None:
    quantized = dml.QuantizeDesc(
        input_tensor=tensor("FLOAT32", 4),
        quantization_type="SCALE",
        quantization_tensors=[tensor("FLOAT32", 4)],
        output_tensor=tensor("INT4", 4),
    )
    found = dml.reference(quantized, [np.array([-1.0, 2.0, 9.0, -9.0]), np.ones(4)]).output_tensor
    assert (found.dtype, found.tolist()) == (np.uint8, [0x2F, 0x87])


# the package and the function have one name


def test_the_function_has_the_package_s_name() -> None:
    assert inspect.isfunction(dml.reference)
    assert importlib.import_module("dmlpy.reference").__path__


@pytest.mark.parametrize(
    "first",
    [
        "import dmlpy, dmlpy.reference",
        pytest.param("import dmlpy.reference, dmlpy", marks=pytest.mark.slow),
        "from dmlpy.reference.recurrent.layer import lstm_step; import dmlpy",
    ],
)
def test_the_function_stays_where_modules_of_the_package_are_imported(first: str) -> None:
    program = f"{first}; print(callable(dmlpy.reference), callable(dmlpy.reference))"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout == "True True\n"


MODULES = ["activation", "normalization.batch", "recurrent.layer"]


@pytest.mark.each_value
@pytest.mark.parametrize("before", ["", "import dmlpy; dmlpy.reference; "], ids=["first", "after the function"])
@pytest.mark.parametrize("module", MODULES)
def test_modules_of_the_package_are_imported_under_another_name(module: str, before: str) -> None:
    program = f"{before}import dmlpy.reference.{module} as found; import dmlpy; print(found is dmlpy.reference.{module}, found.__name__)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == f"True dmlpy.reference.{module}\n"


def test_help_and_signature_are_the_function_s() -> None:
    text = pydoc.plain(pydoc.render_doc(dml.reference))
    assert "Computes an operator's results by its plain definition" in text
    assert [*inspect.signature(dml.reference).parameters] == ["desc", "inputs", "dtype", "arrays"]
