"""`python -m dmlpy.pydirectml [--device DEVICE] SCRIPT [ARGUMENTS]`: runs a script that imports pydirectml, unchanged, on any device."""

from __future__ import annotations

import argparse
import os
import runpy
import sys
from pathlib import Path

import dmlpy.pydirectml
from dmlpy.messages.problems import DmlError
from dmlpy.pydirectml.device import choose_device


def main(arguments: list[str]) -> None:
    """Runs a script as Python would, with this package under the name pydirectml."""
    parser = argparse.ArgumentParser("python -m dmlpy.pydirectml", description="Runs a script that imports pydirectml, unchanged.")
    parser.add_argument("--device", help="cpu, numpy, cuda or cuda:1, whatever the script asks for")
    parser.add_argument("script", type=Path)
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="the script's own arguments")
    options = parser.parse_args(arguments)
    if not os.path.isfile(options.script):
        parser.error(f"there is no file {options.script}")
    try:
        choose_device(options.device)
    except DmlError as error:
        parser.error(str(error))
    before = sys.argv, sys.path[:], sys.modules.get("pydirectml")
    sys.modules["pydirectml"] = dmlpy.pydirectml
    sys.argv = [str(options.script), *options.arguments]
    sys.path[0] = str(options.script.resolve().parent)
    try:
        runpy.run_path(str(options.script), run_name="__main__")
    finally:
        sys.argv, sys.path[:] = before[0], before[1]
        choose_device(None)
        if before[2] is None:
            del sys.modules["pydirectml"]
        else:
            sys.modules["pydirectml"] = before[2]


if __name__ == "__main__":
    main(sys.argv[1:])
