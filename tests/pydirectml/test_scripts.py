"""Scripts in pydirectml's style run unchanged on each device, with the results of their graphs' definitions."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from dmlpy.pydirectml import __main__ as program
from dmlpy.pydirectml import device as devices
from tests.support.folders import EXAMPLES
from tests.support.graphs.reference import graph_reference
from tests.support.scripts import run
from tests.support.tolerance import assert_close

SCRIPTS = {"classifier": (["probabilities", "pooled"], 9), "gru": (["sequence", "single"], 1), "style": (["picture"], 12)}
"""The scripts below examples/pydirectml, each with what it saves and the number of its graph's operators at least."""


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_gives_what_its_graph_is_defined_to_give(
    name: str, any_device: dml.Device, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    models: list[tuple[Any, Any]] = []
    compute = devices.Device.compute

    def recorded(self: Any, model: Any, inputs: Any, outputs: Any) -> Any:
        models.append((model, inputs))
        return compute(self, model, inputs, outputs)

    monkeypatch.setattr(devices.Device, "compute", recorded)
    monkeypatch.setattr(devices, "find_device", lambda given: any_device)
    program.main([str(EXAMPLES / "pydirectml" / f"{name}.py"), "--save", str(tmp_path / "results.npz")])
    assert capsys.readouterr().out
    assert "pydirectml" not in sys.modules
    ((model, bindings),) = models
    graph = model.compiled.graph
    saved, least = SCRIPTS[name]
    assert len(graph.nodes) >= least
    assert graph.check(lenient=True) == []
    expected = graph_reference(graph, {item.expr._ref.producer.name: item.data.reshape(-1).astype(np.float64) for item in bindings})
    with np.load(tmp_path / "results.npz") as results:
        assert list(results) == saved
        for found, wanted in zip(results.values(), expected.values(), strict=False):
            assert found.shape == wanted.shape
            assert_close(found, wanted, np.float32, terms=1024)


def test_a_script_runs_by_the_command(tmp_path: Path) -> None:
    printed = run("python", "-m", "dmlpy.pydirectml", "--device", "numpy", str(EXAMPLES / "pydirectml" / "gru.py"), folder=tmp_path)
    assert printed.startswith("sequence (6, 2, 3, 5) ")


BROKEN = """\
import neighbour
import pydirectml as dml
print(__name__, neighbour.NAME, dml.__name__)
import sys
print(sys.argv[1:])
graph = dml.GraphBuilder(dml.Device(False))
a = dml.input_tensor(graph, 0, dml.TensorDesc(dml.FLOAT32, [1, 1, 2, 3]))
dml.gemm(a, a)
"""


def test_a_script_is_the_program_and_errors_name_its_line(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(BROKEN)
    (tmp_path / "neighbour.py").write_text("NAME = 'beside it'\n")
    command = [sys.executable, "-m", "dmlpy.pydirectml", "--device", "numpy", "net.py", "--device", "own"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stdout.splitlines() == ["__main__ beside it dmlpy.pydirectml", "['--device', 'own']"]
    assert "gemm at net.py:8: " in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"), [(["none.py"], "there is no file none.py"), (["--device", "abacus", __file__], "abacus")]
)
def test_wrong_arguments_are_reported(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        program.main(arguments)
    assert ended.value.code == 2
    assert message in capsys.readouterr().err
