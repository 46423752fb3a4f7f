"""What `dmlpy explain` shows as an example: a valid desc of every operator, and Python code that makes it and runs."""

from __future__ import annotations

import numpy as np
import pytest

import dmlpy as dml
from dmlpy.description.descs import OperatorDesc
from dmlpy.description.registry import OPERATORS
from dmlpy.inspection.samples import example, sample, source
from tests.support.generators import samples as make_samples
from tests.support.generators import stored_data


def test_the_file_is_fresh() -> None:
    text = stored_data.text(make_samples.FILE, make_samples.samples())
    assert make_samples.FILE.read_text(encoding="utf-8") == text, "run: python -m tests.support.generators.samples"


@pytest.mark.parametrize("family", sorted({kind.family() for kind in OPERATORS.values()}))
def test_every_example_runs_as_it_is_printed(family: str) -> None:
    numpy = dml.device("numpy")
    for name, kind in OPERATORS.items():
        if kind.family() == family:
            scope: dict[str, object] = {}
            exec(compile(example(kind, run=numpy.runs(kind)), name, "exec"), scope)
            desc = scope["desc"]
            assert isinstance(desc, OperatorDesc)
            assert desc == sample(kind)
            assert not numpy.runs(kind) or scope["outputs"] is not None


def test_infinities_enumerations_and_nested_structs_are_code() -> None:
    kind = dml.ElementWiseClipDesc
    x = dml.TensorDesc(data_type="FLOAT16", sizes=[2, 3], strides=[0, 1], flags="OWNED_BY_DML")
    desc = kind(input_tensor=x, scale_bias=dml.ScaleBias(scale=2, bias="nan"), min="-inf", max=1).with_outputs()
    code = source(desc)
    assert 'flags="OWNED_BY_DML"' in code
    assert eval(code, {"dml": dml}) == desc
    assert np.isnan(eval(code, {"dml": dml}).scale_bias.bias)
