"""Public helpers answer arguments of other kinds with dmlpy's errors, not with those of the code inside them."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx.helper import make_node

import dmlpy as dml
from dmlpy import dxdispatch, onnx, pydirectml, x
from tests.support.onnx import models
from tests.support.tensors import tensor

LAYOUT = dml.ParamsLayout("lstm", 1, 2, 3, bidirectional=False)
FLAT = np.zeros(LAYOUT.size, np.float32)
MATRIX = np.zeros((2, 3), np.float32)
CLOSED = io.BytesIO()
CLOSED.close()
JUNK: tuple[Any, ...] = (3, 2.5, b"b", MATRIX, np.array("x"), object(), dml.ActivationReluDesc(), lambda: None)
"""What is neither a text nor a list nor None."""


def expression() -> Any:
    graph = pydirectml.GraphBuilder(pydirectml.Device(use_gpu=False))
    return pydirectml.input_tensor(graph, 0, pydirectml.TensorDesc(pydirectml.TensorDataType.FLOAT32, [1, 2, 3, 3]))


def model() -> onnx.Model:
    return onnx.load(models.model([make_node("Relu", ["x"], ["y"])], {"x": ["n", 3]}, ["y"]))


def keras(name: str, /, **arguments: Any) -> Callable[[Any], object]:
    """A constructor of `dmlpy.keras`, with the value as the argument that is None here."""

    def make(value: Any) -> object:
        from dmlpy import keras as package

        return getattr(package, name)(**{key: value if own is None else own for key, own in arguments.items()})

    return make


def fit(shuffle: Any) -> None:
    from dmlpy.keras import Dense, Sequential

    trained = Sequential([Dense(1, input_dim=3)], device="numpy")
    trained.compile("sgd", "mse")
    trained.fit(MATRIX, MATRIX[:, :1], nb_epoch=1, verbose=0, shuffle=shuffle)


def make_in(package: str, name: str, argument: str, /, **others: Any) -> Callable[[Any], object]:
    """A constructor of a package that may be absent, with the value as an argument."""
    return lambda value: getattr(pytest.importorskip(package), name)(**others, **{argument: value})


OPTIONAL_FLAGS: tuple[Any, ...] = ("no", [], 2, MATRIX, np.array([True]))
FLAGS = (*OPTIONAL_FLAGS, None)
"""What is neither True nor False."""


def graph() -> dml.Graph:
    return x.graph(x.input("a", [2, 3]) * 2)


def compiled() -> dml.CompiledOperator:
    return dml.compile(dml.ActivationReluDesc(input_tensor=tensor(2, 3)).with_outputs(), "numpy")


CALLS: dict[str, tuple[Callable[[Any], object], tuple[Any, ...]]] = {
    "params_to_canonical, layout": (lambda value: dml.params_to_canonical(FLAT, value), (None, "x", *JUNK)),
    "params_to_weights_and_biases, layout": (lambda value: dml.params_to_weights_and_biases(FLAT, value), (None, "x", *JUNK)),
    "canonical_to_params, canonical": (lambda value: dml.canonical_to_params(value, LAYOUT), (None, "x", [], {3: FLAT}, *JUNK)),
    "canonical_to_params, layout": (lambda value: dml.canonical_to_params({}, value), (None, "x", {}, *JUNK)),
    "weights_and_biases_to_params, weights": (lambda value: dml.weights_and_biases_to_params(value, [], LAYOUT), (None, {}, *JUNK)),
    "weights_and_biases_to_params, layout": (lambda value: dml.weights_and_biases_to_params([], [], value), (None, *JUNK)),
    "params_size, num_layers": (lambda value: dml.params_size(value, 2, 3), (None, "x", 0, 1 << 17, 10**30, *JUNK[1:])),
    "gru_block_cell_weight_gradients": (
        lambda value: dml.gru_block_cell_weight_gradients(MATRIX, MATRIX, value, MATRIX, np.zeros((2, 6), np.float32)),
        (None, "x", [], MATRIX.T, MATRIX[0], np.array([[object()]]), *(junk for junk in JUNK if junk is not MATRIX)),
    ),
    "check_file, path": (dxdispatch.check_file, (None, *JUNK)),
    "check_file, input_path": (lambda value: dxdispatch.check_file("absent", input_path=value), JUNK),
    "check_file, feature_level": (lambda value: dxdispatch.check_file("absent", value), (None, "x", *JUNK)),
    "load, path": (dxdispatch.load, (None, "absent", Path("absent"), *JUNK)),
    "load, folders": (lambda value: dxdispatch.load("absent.json", value), JUNK),
    "load, stream": (lambda value: dxdispatch.load("-", stream=value), (CLOSED, io.StringIO("{}"), *JUNK)),
    "run, model": (dxdispatch.run, (None, "x", *JUNK)),
    "RunOptions": (lambda value: dxdispatch.RunOptions(iterations=value), (None, "x", 0, -1, True, *JUNK[1:])),
    "onnx.Model": (lambda value: onnx.Model(value, {}, {}), (None, "net.onnx", *JUNK)),
    "onnx.Model.compile, keep_bytes": (lambda value: model().compile("numpy", keep_bytes=value), (None, "x", -1, True, *JUNK[1:])),
    "explain_plan": (
        lambda value: model().compile("numpy").explain_plan(value),
        ("x", {"x": 3}, {"x": ["a"]}, {"z": [1, 2]}, {"x": [2, 4]}, *JUNK),
    ),
    "from_json": (dml.GEMMDesc.from_json, (None, "x", "3", {}, [], *JUNK)),
    "Graph.from_json": (dml.Graph.from_json, (None, "x", "3", {}, [], *JUNK)),
    "GraphBuilder.constant": (lambda value: dml.GraphBuilder().constant(value, value), (None, *JUNK[:3], *JUNK[5:])),
    "CompiledGraph.trace": (lambda value: dml.compile(x.graph(x.input("a", [2]) + 1), "numpy").trace(value), ("x", [], *JUNK)),
    "Sequential.compile, metrics": (
        lambda value: keras("Sequential", layers=None, device="numpy")([]).compile("sgd", "mse", metrics=value),  # type: ignore[attr-defined]
        ("x", {"accuracy"}, [["accuracy"]], CLOSED, *JUNK),
    ),
    "reinterpret": (lambda value: pydirectml.reinterpret(value, "FLOAT32", [1]), (None, "x", [], pydirectml.Expression(), *JUNK)),
    "up_sample_2d": (lambda value: pydirectml.up_sample_2d(expression(), value, "NEAREST_NEIGHBOR"), (None, "x", [2, 2], *JUNK)),
    "mean_variance_normalization": (pydirectml.mean_variance_normalization, (None, "x", [], *JUNK)),
    "gru, activation_descs": (
        lambda value: pydirectml.gru(expression(), expression(), expression(), activation_descs=value),
        (None, "x", pydirectml.FusedActivation(), *(junk for junk in JUNK if getattr(junk, "shape", None) != ())),
    ),
    "average_pooling, include_padding": (
        lambda value: pydirectml.average_pooling(expression(), [1, 1], [1, 1], [0, 0], [0, 0], value),
        (MATRIX,),
    ),
    "check, strict": (lambda value: dml.check(compiled().desc, strict=value), FLAGS),
    "compile, fuse": (lambda value: dml.compile(graph(), "numpy", fuse=value), FLAGS),
    "CompiledOperator, copy": (lambda value: compiled()(input_tensor=MATRIX, copy=value), FLAGS),
    "CompiledOperator, validate": (lambda value: compiled()(input_tensor=MATRIX, validate=value), FLAGS),
    "CompiledOperator.prepare, copy": (lambda value: compiled().prepare(copy=value), FLAGS),
    "CompiledOperator.prepare, portable": (lambda value: compiled().prepare(portable=value), FLAGS),
    "PreparedOperator, copy": (lambda value: compiled().prepare()(input_tensor=MATRIX, copy=value), FLAGS),
    "CompiledGraph, copy": (lambda value: dml.compile(graph(), "numpy")(a=MATRIX, copy=value), FLAGS),
    "CompiledGraph.prepare, copy": (lambda value: dml.compile(graph(), "numpy").prepare(copy=value), FLAGS),
    "CompiledGraph.prepare, portable": (lambda value: dml.compile(graph(), "numpy").prepare(portable=value), FLAGS),
    "x.input, owned_by_dml": (lambda value: x.input("a", [2, 3], owned_by_dml=value), FLAGS),
    "to_json, flat": (lambda value: compiled().desc.to_json(flat=value), FLAGS),
    "to_json, indent": (lambda value: compiled().desc.to_json(indent=value), ("x", [], True, -1, 10**30, *JUNK[1:])),
    "Graph.to_json, indent": (lambda value: graph().to_json(indent=value), ("x", [], True, -1, 10**30, *JUNK[1:])),
    "Graph.check, strict": (lambda value: graph().check(strict=value), FLAGS),
    "Graph.check, lenient": (lambda value: graph().check(lenient=value), FLAGS),
    "Graph.label": (lambda value: graph().label(value), (None, "x", [], True, -1, 1, *JUNK)),
    "Graph.table, problems": (lambda value: graph().table(value), (None, "x", [3], *JUNK)),
    "Graph.to_dot, problems": (lambda value: graph().to_dot(value), (None, "x", [3], *JUNK)),
    "OperatorDesc.table, problems": (lambda value: compiled().desc.table(value), (None, "x", [3], *JUNK)),
    "GraphBuilder.build, prune": (lambda value: dml.GraphBuilder().build(prune=value), FLAGS),
    "onnx.load, join_quantized": (lambda value: onnx.load(b"", join_quantized=value), FLAGS),
    "onnx.Model.compile, fuse": (lambda value: model().compile("numpy", fuse=value), FLAGS),
    "onnx.Report.text, all_causes": (lambda value: model().report().text(all_causes=value), FLAGS),
    "check_file, lenient": (lambda value: dxdispatch.check_file("absent", lenient=value), FLAGS),
    "Dense, bias": (keras("Dense", output_dim=2, bias=None), FLAGS),
    "Dense, training": (lambda value: keras("Dense", output_dim=2)(None)(MATRIX, training=value), OPTIONAL_FLAGS),  # type: ignore[operator]
    "LSTM, training": (lambda value: keras("LSTM", output_dim=2)(None)(MATRIX[None], training=value), OPTIONAL_FLAGS),  # type: ignore[operator]
    "Embedding, mask_zero": (keras("Embedding", input_dim=2, output_dim=2, mask_zero=None), FLAGS),
    "SGD, nesterov": (keras("SGD", nesterov=None), FLAGS),
    "ModelCheckpoint, save_best_only": (keras("ModelCheckpoint", filepath="x", save_best_only=None), FLAGS),
    "Sequential.fit, shuffle": (fit, FLAGS),
    "CSVLogger": (keras("CSVLogger", filename=None), (None, *JUNK)),
    "CSVLogger, separator": (keras("CSVLogger", filename="x", separator=None), (None, "", "ab", *JUNK)),
    "BackupAndRestore": (keras("BackupAndRestore", backup_dir=None), (None, *JUNK)),
    "ModelCheckpoint": (keras("ModelCheckpoint", filepath=None), (None, *JUNK)),
    "LearningRateScheduler": (keras("LearningRateScheduler", schedule=None), (None, "x", int, *JUNK[:-1])),
    "EarlyStopping, monitor": (keras("EarlyStopping", monitor=None), (None, *JUNK)),
    "EarlyStopping, mode": (keras("EarlyStopping", mode=None), (None, "x", *JUNK)),
    "EarlyStopping, min_delta": (keras("EarlyStopping", min_delta=None), (None, "x", *JUNK[2:])),
    "ReduceLROnPlateau, factor": (keras("ReduceLROnPlateau", factor=None), (None, "x", 1.0, *JUNK)),
    "Sequential, layers": (keras("Sequential", layers=None, device="numpy"), JUNK),
    "Sequential, seed": (keras("Sequential", seed=None, device="numpy"), ("x", -1, *JUNK[1:3], *JUNK[4:])),
    "Dropout, name": (keras("Dropout", rate=0.5, name=None), JUNK),
    "BinaryCrossentropy": (keras("BinaryCrossentropy", from_logits=None), (None, "x", *JUNK)),
    "load_model": (keras("load_model", path=None), (None, *JUNK)),
    "torch.RNN, nonlinearity": (make_in("dmlpy.torch", "RNN", "nonlinearity", input_size=2, hidden_size=2), (None, "x", *JUNK)),
    "torch.GRU, dtype": (make_in("dmlpy.torch", "GRU", "dtype", input_size=2, hidden_size=2), ("x", *JUNK)),
    "torch.LSTM, hidden_size": (make_in("dmlpy.torch", "LSTM", "hidden_size", input_size=2), (None, "x", 0, 10**30, *JUNK[1:])),
    "thinc.GRU, bi": (make_in("dmlpy.thinc", "GRU", "bi"), (None, "x", *JUNK[1:])),
    "thinc.RNN, activation": (make_in("dmlpy.thinc", "RNN", "activation"), (None, "x", *JUNK)),
    "thinc.LSTM, init_W": (make_in("dmlpy.thinc", "LSTM", "init_W"), ("x", *JUNK[:-1])),
    "thinc.to_pytorch": (make_in("dmlpy.thinc", "to_pytorch", "model"), (None, "x", *JUNK)),
    "dask.map_blocks, axes": (
        lambda value: pytest.importorskip("dmlpy.dask").map_blocks(dml.ActivationReluDesc(input_tensor=tensor(2, 3)), axes=value),
        (MATRIX,),
    ),
}  # fmt: skip
"""Calls of a value, with values that they refuse."""


@pytest.mark.parametrize("name", [name for name, (_, values) in CALLS.items() if values is FLAGS or values is OPTIONAL_FLAGS])
def test_flags_may_be_numpys_and_numbers(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    told = []
    for value in (np.True_, 1, np.uint8(0)):
        try:
            CALLS[name][0](value)
        except (dml.DmlError, OSError) as error:  # of the call's other arguments
            told.append(str(error))
    assert not any(f"{name.rpartition(', ')[2]} is" in text for text in told)


@pytest.mark.parametrize("name", CALLS)
def test_arguments_of_other_kinds_are_answered_with_dmlpys_errors(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    call, values = CALLS[name]
    assert values
    told = []
    for index, value in enumerate(values):
        try:
            call(value)
        except dml.DmlError as error:
            told.append(str(error))
        else:
            pytest.fail(f"value {index} is accepted")
    assert all("1 problem" in text or "problems" in text for text in told)
    is_flag = values is FLAGS or values is OPTIONAL_FLAGS
    assert not is_flag or all(f"{name.rpartition(', ')[2]} is" in text and "expected True or False" in text for text in told)
    assert not [*tmp_path.iterdir()]
