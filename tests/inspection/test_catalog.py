"""`dmlpy ops` and `dmlpy levels`: what they show of operators and levels agrees with the classes, the facts and the tests."""

from __future__ import annotations

import importlib
import inspect
import json
import textwrap
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest

import dmlpy as dml
from dmlpy.description.enums import FeatureLevel
from dmlpy.description.registry import OPERATORS
from dmlpy.devices.operator import CompiledOperator
from dmlpy.inspection import catalog
from dmlpy.messages.json_text import WIDTH
from tests.support.descs import documented_examples as page_examples
from tests.support.descs import facts_reader
from tests.support.folders import ROOT, STORED_CASES, TESTS
from tests.support.keras import gradients as keras_gradients
from tests.support.keras import model_losses as keras_model_losses
from tests.support.keras.cases import check_keras_case
from tests.support.operators import batch_normalization_cases, onnx_runtime_activations, stored_results
from tests.support.operators.operator_results import RESULTS, SYSTEMS
from tests.support.recurrent import block_cell_runs
from tests.support.recurrent.networks import check_torch

INDEX = [entry["case"] for entry in json.loads((STORED_CASES / "index.json").read_text())]

# The tests that compare with stored results: whose they are, by the beginning of the cases' names; the longest beginning counts.
COMPARISONS: dict[str, tuple[str, Callable[[str, dml.Device], Any]]] = {
    "onnx_activation_": (
        "ONNX Runtime",
        lambda case, on: onnx_runtime_activations.check_onnx_runtime(on, case.removeprefix("onnx_activation_")),
    ),
    "tf_gru_block_cell_grad_": ("TensorFlow", lambda case, on: block_cell_runs.check_tensorflow_gradient(on, case)),
    "tf_gru_block_cell_": ("TensorFlow", lambda case, on: block_cell_runs.check_tensorflow_step(on, case)),
    "tf_fused_batch_norm_": ("TensorFlow", lambda case, on: batch_normalization_cases.check_tensorflow(on, case)),
    "torch_": ("PyTorch", lambda case, on: check_torch(on, case)),
    "model_": ("PyTorch", lambda case, on: keras_model_losses.check_loss_and_gradients(case)),
    "keras_mask_grad_": ("Keras", lambda case, on: keras_gradients.check_keras(on, case)),
    "keras_dropout_grad_": ("Keras", lambda case, on: keras_gradients.check_keras(on, case)),
    "keras_dropout_mask_grad_": ("Keras", lambda case, on: keras_gradients.check_keras(on, case)),
    "keras_": ("Keras", lambda case, on: check_keras_case(case, on.name)),
}
# test_numpy_recurrent runs these without compiling them; live layers of Keras are imported, and computed as the other cases are.
DESCRIBED = "onnx_rnn_", "onnx_lstm_", "onnx_gru_"
IMPORTED = "keras_import_"


def with_onnx() -> Iterator[tuple[str, Callable[[], None]]]:
    """The tests that compare with ONNX's reference implementation, by name: those marked `onnx_reference`, on NumPy."""
    devices = TESTS / "devices"
    for path in sorted([*devices.glob("test_*.py"), *(devices / "numpy").glob("test_*.py")]):
        if "onnx_reference" not in path.read_text(encoding="utf-8"):
            continue
        module = importlib.import_module(".".join(path.relative_to(ROOT).with_suffix("").parts))
        for name, test in vars(module).items():
            if any(mark.name == "onnx_reference" for mark in getattr(test, "pytestmark", ())):
                takes_device = not {"any_device", "every_device"}.isdisjoint(inspect.signature(test).parameters)
                yield name, partial(test, dml.device("numpy")) if takes_device else test


@contextmanager
def recorded(monkeypatch: pytest.MonkeyPatch) -> Iterator[set[str]]:
    """The short names of the operators that run meanwhile."""
    seen: set[str] = set()

    def noting(work: Callable[..., Any]) -> Callable[..., Any]:
        def noted(self: CompiledOperator, *arguments: Any, **options: Any) -> Any:
            seen.add(self.desc.short_name())
            return work(self, *arguments, **options)

        return noted

    with monkeypatch.context() as patch:
        for way in ("_run", "_bind"):
            patch.setattr(CompiledOperator, way, noting(getattr(CompiledOperator, way)))
        yield seen


def test_operators_are_verified_against_what_the_tests_compare_them_with(monkeypatch: pytest.MonkeyPatch) -> None:
    numpy = dml.device("numpy")
    found: dict[str, set[str]] = {"ONNX Runtime": {case.split("_")[1].upper() for case in INDEX if case.startswith(DESCRIBED)}}
    done: set[tuple[str, ...]] = set()
    for case in INDEX:
        if case.startswith((*DESCRIBED, IMPORTED)):
            continue
        start = max((start for start in COMPARISONS if case.startswith(start)), key=len)
        # One case of each group is enough to see which operators are compared; the tests themselves run all.
        group = (start, *(word for word in case.split("_") if word in ("simplernn", "lstm", "gru", "grad", "infer", "stateful")))
        if group in done and start != "onnx_activation_":
            continue
        done.add(group)
        source, compare = COMPARISONS[start]
        with recorded(monkeypatch) as seen:
            compare(case, numpy)
        assert seen, case
        found.setdefault(source, set()).update(seen)
    for result in RESULTS:
        with recorded(monkeypatch) as seen:
            stored_results.compute(numpy, result)
        assert seen == {result.kind.short_name()}, result
        found.setdefault(SYSTEMS[result.file], set()).update(seen)
    for name, test in with_onnx():
        with recorded(monkeypatch) as seen:
            test()
        assert seen, name
        found.setdefault("ONNX's reference", set()).update(seen)
    examples = {example.operator for example in page_examples.examples()}
    found["DirectML's examples"] = {kind.short_name() for name, kind in OPERATORS.items() if name in examples and numpy.runs(kind)}
    stored = tomllib.loads((ROOT / "dmlpy" / "inspection" / "verified.toml").read_text(encoding="utf-8"))
    print(toml(found))  # what the file should be, if it is not
    assert {source: sorted(names) for source, names in found.items()} == stored


def toml(found: dict[str, set[str]]) -> str:
    """The text of `verified.toml`, without its comment."""
    listed = (", ".join(f'"{name}"' for name in sorted(names)) for names in found.values())
    groups = (textwrap.fill(text, WIDTH - 1, initial_indent="    ", subsequent_indent="    ") for text in listed)
    return "\n".join(f'"{source}" = [\n{group},\n]\n' for source, group in zip(found, groups, strict=True))


def of_facts() -> tuple[dict[str, set[str]], dict[str, set[str]]]:
    """New and grown operators by level, as the facts have them: rows that take what no row before them took for the same attributes."""
    new: dict[str, set[str]] = {str(level): set() for level in FeatureLevel}
    grown: dict[str, set[str]] = {str(level): set() for level in FeatureLevel}
    types = facts_reader.enums()["enums"]["DML_OPERATOR_TYPE"]
    introduced = types["introduced"] | {alias: types["introduced"][name] for alias, name in types["aliases"].items()}
    for type_name, fact in facts_reader.operators().items():
        name = type_name.removeprefix("DML_OPERATOR_")
        new[introduced[type_name]].add(name)
        taken: set[tuple[Any, ...]] = set()
        for level in FeatureLevel:
            now = {
                (attribute, value, tensor, *pair)
                for row in fact["support"]
                if row["feature_level"] == str(level)
                for attribute, values in (row["when"] or {None: [None]}).items()
                for value in values
                for tensor, takes in row["tensors"].items()
                for pair in [
                    *(("type", item) for item in takes["types"]),
                    *(("dims", item) for item in range(takes["dims"][0], takes["dims"][1] + 1)),
                ]
            }
            if now - taken and level > FeatureLevel.parse(introduced[type_name]):
                grown[str(level)].add(name)
            taken |= now
    return new, grown


def test_levels_are_those_of_the_facts() -> None:
    new, grown = of_facts()
    found = {str(item.level): item for item in catalog.levels()}
    described = {kind.short_name() for kind in OPERATORS.values() if not kind.is_extension}
    wrong = []
    for level, item in found.items():
        members = {name for name, texts in item.grown.items() if all("Mode " in text for text in texts)}
        wrong += [f"{level} brings {name}" for name in set(item.operators) ^ (new[level] & described)]
        wrong += [f"{level} grows {name}" for name in (set(item.grown) - members) ^ (grown[level] & described)]
    assert not wrong, "\n".join(sorted(wrong))
    assert sum(len(item.operators) for item in found.values()) == len(described)


def test_what_grew_is_reported() -> None:
    found = {str(item.level): item.grown for item in catalog.levels()}
    assert found["4_0"]["GEMM"] == ("2 to 4 dimensions",)
    assert found["3_0"]["CAST"] == (
        "InputTensor also UINT32, INT32, UINT64, INT64",
        "OutputTensor also UINT32, INT32, UINT64, INT64",
    )
    assert found["6_4"]["PADDING1"] == ("PaddingMode WRAP",)
    assert all(texts for grown in found.values() for texts in grown.values())


def test_operators_are_filtered() -> None:
    everything = catalog.operators()
    assert [entry.kind.type_name for entry in everything] == sorted(OPERATORS, key=lambda name: (OPERATORS[name].is_extension, name))
    assert sum(len(catalog.operators(family=family)) for family in catalog.families()) == len(everything)
    for level in FeatureLevel:
        kinds = {entry.kind for entry in catalog.operators(feature_level=level)}
        assert kinds == {kind for kind in OPERATORS.values() if not kind.is_extension and kind.introduced() <= level}
    with pytest.raises(dml.DescError, match="did you mean recurrent"):
        catalog.operators(family="recurent")
