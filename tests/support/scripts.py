"""The examples as modules, and commands run as their users run them."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from tests.support.folders import EXAMPLES, ROOT


def example(name: str) -> ModuleType:
    """An example as a module; its main() does not run."""
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(EXAMPLES)  # where a script finds its neighbours
        spec.loader.exec_module(module)
    return module


def run(*command: str, folder: Path = ROOT, status: int = 0) -> str:
    """What a command prints, run in a folder and ending with a status; `dmlpy` and `python` are those of this environment."""
    programs = {"python": [], "dmlpy": ["-c", "from dmlpy.cli.main import main; main()"]}
    environment = {**os.environ, "COLUMNS": "140", "NO_COLOR": "1", "PYTHONIOENCODING": "utf-8"}
    arguments = [sys.executable, *programs[command[0]], *command[1:]]
    done = subprocess.run(arguments, cwd=folder, env=environment, capture_output=True, encoding="utf-8", check=False)
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout


def losses_of(printed: str) -> dict[str, float]:
    """Nats per character by what predicts, in the output of a character model."""
    return {name: float(loss) for name, loss in re.findall(r"^(unigram|bigram|trigram|GRU) .*? (\d\.\d+) nats = ", printed, re.MULTILINE)}


def shows_lines(path: Path) -> bool:
    """Whether a picture is a drawn curve and not a blank page."""
    from PIL import Image

    with Image.open(path) as picture:
        return picture.size == (1200, 750) and len(picture.convert("RGB").getcolors(maxcolors=1 << 20) or ()) > 20
