"""A class and a function make an operator: checks, inference, documentation, schemas, JSON and execution follow from them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import cache
from typing import Any

import jsonschema
import numpy as np
import pytest

from dmlpy.description.registry import OPERATORS
from dmlpy.inspection.schemas import DIALECT
from tests.support.folders import ROOT

# In a separate process: an operator that is defined stays in the list of all.
PROGRAM = """
import contextlib, io, json, sys
import numpy as np
import dmlpy as dml
from dmlpy.description.registry import operator_class
from dmlpy.inspection import catalog, schemas
from dmlpy.cli.main import main as command
from tests.support.operators.example_operator import PairDistanceDesc

def tensor(*sizes):
    return dml.TensorDesc(data_type="FLOAT32", sizes=sizes)

def told(desc, level="6_4"):
    return [[problem.code, problem.path, problem.found, problem.expected] for problem in dml.check(desc, level)]

a, b = np.random.default_rng(1).standard_normal((2, 2, 3, 4), np.float32)
desc = PairDistanceDesc(a_tensor=dml.TensorDesc.of(a), b_tensor=dml.TensorDesc.of(b), scale=2.0).with_outputs()
operator = dml.compile(desc, "numpy")
(entry,) = [entry for entry in catalog.operators() if entry.kind is PairDistanceDesc]
wrong = {
    "sizes": desc.replace(b_tensor=tensor(2, 3, 5)),
    "rule": desc.replace(scale=-1.0),
    "limit": desc.replace(p=0),
    "type": desc.replace(b_tensor=dml.TensorDesc(data_type="FLOAT16", sizes=b.shape)),
    "dimensions": PairDistanceDesc(a_tensor=tensor(4), b_tensor=tensor(4)),
}
sys.argv = ["dmlpy", "explain", "PAIR_DISTANCE"]
with contextlib.redirect_stdout(io.StringIO()) as printed, contextlib.suppress(SystemExit):
    command()
try:
    PairDistanceDesc(a_tensor=tensor(2, 3, 4), b_tensors=tensor(2, 3, 4))
except dml.DescError as error:
    mistyped = str(error)
print(json.dumps({
    "a": a.tolist(), "b": b.tolist(), "outputs": operator(a_tensor=a, b_tensor=b).output_tensor.tolist(),
    "valid": told(desc), "wrong": {name: told(item) for name, item in wrong.items()}, "mistyped": mistyped,
    "inferred": list(desc.output_tensor.sizes),
    "same": dml.OperatorDesc.from_json(desc.to_json()) == desc and operator_class("PAIR_DISTANCE") is PairDistanceDesc,
    "json": desc.to_dict(), "schema": schemas.schema(PairDistanceDesc),
    "entry": entry.to_dict(), "explained": printed.getvalue(),
}))
"""


@cache
def report() -> dict[str, Any]:
    run = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, cwd=ROOT, env={**os.environ, "COLUMNS": "200"})
    assert run.returncode == 0, run.stderr
    found: dict[str, Any] = json.loads(run.stdout)
    return found


def test_it_runs_on_numpy() -> None:
    a, b = (np.array(report()[name]) for name in "ab")
    expected = 2 * np.linalg.norm(a[:, :, None, :] - b[:, None, :, :], axis=-1)
    np.testing.assert_allclose(report()["outputs"], expected, rtol=1e-5)


def test_its_output_is_inferred() -> None:
    assert report()["inferred"] == [2, 3, 3]
    assert report()["valid"] == []


@pytest.mark.parametrize(
    ("fault", "code", "path"),
    [
        ("sizes", "size.equal", "b_tensor.sizes[2]"),
        ("rule", "positive_scale", "scale"),
        ("limit", "attribute.range", "p"),
        ("type", "type.equal", "b_tensor.data_type"),
        ("dimensions", "dims.support", "a_tensor.sizes"),
    ],
)
def test_wrong_descs_are_refused(fault: str, code: str, path: str) -> None:
    assert [code, path] in [problem[:2] for problem in report()["wrong"][fault]], report()["wrong"][fault]


def test_a_mistyped_member_is_reported() -> None:
    assert "did you mean b_tensor?" in report()["mistyped"]


def test_it_is_explained_and_listed() -> None:
    explained, entry = report()["explained"], report()["entry"]
    for part in (
        "The distance of each row of A",
        "output[i, j] = scale * sum(|a[i] - b[j]| ** p)",
        "a_tensor",
        "[*batch, m, k]",
        "at least 1",
    ):
        assert part in explained, explained
    assert [entry[name] for name in ("operator", "own", "runs_on")] == [
        "DMLPY_OPERATOR_PAIR_DISTANCE",
        True,
        {"numpy": True, "cpu": True, "cuda": False},
    ]


def test_its_schema_takes_its_descs() -> None:
    schema = report()["schema"]
    assert schema["$schema"] == DIALECT
    validator = jsonschema.Draft202012Validator(schema)
    validator.validate(report()["json"])
    for members in ({"P": "two"}, {"ATensor": None}, {"Distance": 1}):
        wrong = report()["json"] | {"Desc": report()["json"]["Desc"] | members}
        assert list(validator.iter_errors(wrong)), members
    assert report()["same"]


def test_it_is_no_part_of_dmlpy() -> None:
    assert "DMLPY_OPERATOR_PAIR_DISTANCE" not in OPERATORS
