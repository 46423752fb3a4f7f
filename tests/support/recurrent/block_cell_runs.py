"""TensorFlow's GRU block cell: descs, inputs, runs on a device, and the comparison with TensorFlow's results."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

import dmlpy as dml
from dmlpy.operators.recurrent.block_cell import GRUBlockDesc, gru_block_cell_weight_gradients
from tests.support.folders import STORED_CASES
from tests.support.tolerance import assert_close

Array = np.ndarray[Any, Any]


Arrays = Mapping[str, Array]


OUTPUTS: dict[type[GRUBlockDesc], tuple[str, ...]] = {
    dml.GRUBlockCellDesc: ("r", "u", "c", "h"),
    dml.GRUBlockCellGradDesc: ("d_x", "d_h_prev", "d_c_bar", "d_r_bar_u_bar"),
}


def random_inputs(rng: np.random.Generator, b: int, i: int, h: int, kind: type[GRUBlockDesc], dtype: Any = np.float32) -> dict[str, Array]:
    """Inputs of the step; for the gradient with what the step gave and an upstream gradient, all rounded to the type."""
    sizes = {"x": (b, i), "h_prev": (b, h), "w_ru": (i + h, 2 * h), "w_c": (i + h, h), "b_ru": (2 * h,), "b_c": (h,)}
    arrays = {name: rng.standard_normal(shape).astype(dtype) for name, shape in sizes.items()}
    if kind is dml.GRUBlockCellGradDesc:
        step = dml.reference(described(dml.GRUBlockCellDesc, arrays), arrays).as_dict()
        arrays |= {name: step[name].astype(dtype) for name in "ruc"} | {"d_h": rng.standard_normal((b, h)).astype(dtype)}
    return arrays


def described(kind: type[GRUBlockDesc], arrays: Arrays, *outputs: str) -> GRUBlockDesc:
    return kind(**{name: dml.TensorDesc.of(array) for name, array in arrays.items()}).with_outputs(*outputs)


def run(device: dml.Device, desc: GRUBlockDesc, arrays: Arrays) -> dict[str, Array]:
    """The described outputs, on the host. Memory for them held NaN before."""
    given = {name: device.from_host(array) for name, array in {**arrays, **poisons(desc)}.items()}
    outputs = dml.compile(desc, device=device)(**given).as_dict()
    return {name: device.to_host(array) for name, array in outputs.items()}


def poisons(desc: GRUBlockDesc) -> dict[str, Array]:
    """Arrays of NaN for the described outputs."""
    tensors = desc.tensors()
    names = [name for name in OUTPUTS[type(desc)] if name in tensors]
    return {name: np.full(tensors[name].sizes, np.nan, tensors[name].data_type.numpy) for name in names}


def check(found: Arrays, desc: GRUBlockDesc, arrays: Arrays, what: str = "") -> None:
    """Every output of a run against float64."""
    expected, known = dml.reference(desc, arrays).as_dict(), desc.sizes()
    assert set(found) == set(expected)
    for name, values in expected.items():
        terms = known["input_size"] + 2 * known["cell_size"]
        assert_close(found[name], values, found[name].dtype, terms=terms, what=f"{what}{name}")


def load(case: str) -> tuple[dict[str, Array], dict[str, Array]]:
    """A case's inputs and TensorFlow's outputs, by name."""
    with np.load(STORED_CASES / f"{case}.npz") as file:
        stored = {name: file[name] for name in file.files}
    return tuple({name[len(part) :]: array for name, array in stored.items() if name.startswith(part)} for part in ("in.", "out."))  # type: ignore[return-value]


def check_tensorflow_step(any_device: dml.Device, case: str) -> None:
    arrays, expected = load(case)
    found = run(any_device, described(dml.GRUBlockCellDesc, arrays), arrays)
    assert set(found) == set(expected)
    for name, values in expected.items():
        assert_close(found[name], values, np.float32, terms=sum(arrays["w_c"].shape), what=name)


def check_tensorflow_gradient(any_device: dml.Device, case: str) -> None:
    arrays, expected = load(case)
    found = run(any_device, described(dml.GRUBlockCellGradDesc, arrays), arrays)
    of_weights = gru_block_cell_weight_gradients(arrays["x"], arrays["h_prev"], arrays["r"], found["d_c_bar"], found["d_r_bar_u_bar"])
    found |= of_weights._asdict()
    assert set(found) == set(expected)
    for name, values in expected.items():
        assert_close(found[name], values, np.float32, terms=sum(arrays["w_ru"].shape), what=name)
