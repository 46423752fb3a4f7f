"""Runs operators with Microsoft's DxDispatch in place of dmlpy's own calls: a second implementation, to judge results that differ."""

from __future__ import annotations

import json
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dmlpy.conformance.execution import POISON
from dmlpy.messages.naming import c_member
from dmlpy.messages.problems import DmlError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dmlpy.description.descs import OperatorDesc
    from dmlpy.description.enums import FeatureLevel
    from dmlpy.description.markers import Slot

SOFTWARE_ADAPTER = "Microsoft Basic Render Driver"
_MODEL = "model.json"


class DxDispatch:
    """An installed DxDispatch.

    Args:
        program: dxdispatch.exe.
        level: the highest feature level that it may use.
        hardware: the adapter that it chooses itself in place of the software adapter.
        limit_s: the most seconds for an operator.
    """

    def __init__(self, program: Path, level: FeatureLevel, *, hardware: bool, limit_s: float) -> None:
        self._limit_s = limit_s
        adapter = [] if hardware else ["--adapter", SOFTWARE_ADAPTER]
        self._command = [str(program), "--dml_feature_level", str(level), *adapter, "--model", _MODEL]

    def run(self, desc: OperatorDesc, inputs: Sequence[bytes | None]) -> list[bytes | None]:
        """Runs an operator once; arguments and result as for `execution.run`.

        Raises:
            DmlError: DxDispatch cannot be started, fails, or does not end in time.
        """
        with tempfile.TemporaryDirectory() as folder:
            place = Path(folder)
            for index, data in enumerate(inputs):
                if data is not None:
                    (place / _input(index)).write_bytes(data)
            (place / _MODEL).write_text(json.dumps(model(desc)), encoding="utf-8")
            self._execute(place)
            sizes = [None if slot.tensor is None else slot.tensor.size_in_bytes for slot in desc.output_slots()]
            return [None if size is None else self._read(place / _output(index), size) for index, size in enumerate(sizes)]

    def _execute(self, folder: Path) -> None:
        try:
            done = subprocess.run(
                self._command, cwd=folder, capture_output=True, text=True, errors="replace", timeout=self._limit_s, check=False
            )
        except OSError as error:
            raise DmlError(f"DxDispatch cannot be started: {error.strerror}") from error
        except subprocess.TimeoutExpired:
            raise DmlError(f"DxDispatch did not end within {self._limit_s:g} s") from None
        if done.returncode != 0:
            lines = (done.stderr or done.stdout).replace(str(folder), "FOLDER").strip().splitlines()
            raise DmlError(f"DxDispatch ended with status {done.returncode}" + (f": {lines[-1]}" if lines else ""))

    @staticmethod
    def _read(file: Path, size: int) -> bytes:
        try:
            return file.read_bytes()[:size]
        except OSError as error:
            raise DmlError(f"DxDispatch wrote no output: {error.strerror}") from error


def model(desc: OperatorDesc) -> dict[str, Any]:
    """A DxDispatch model that runs an operator once: inputs are files of bytes, outputs hold poison beforehand and are written to files."""
    resources: dict[str, Any] = {}
    bindings: dict[str, Any] = {}
    writes = []
    for index, slot in enumerate(desc.input_slots()):
        if slot.tensor is not None:
            source = {"initialValuesDataType": "UINT8", "initialValues": {"sourcePath": _input(index)}}
            resources[_input(index)] = source | {"sizeInBytes": slot.tensor.minimum_size_in_bytes}
            _bind(bindings, slot, _input(index))
    for index, slot in enumerate(desc.output_slots()):
        if slot.tensor is not None:
            values = {"valueCount": slot.tensor.minimum_size_in_bytes, "value": POISON}
            resources[_output(index)] = {"initialValuesDataType": "UINT8", "initialValues": values}
            _bind(bindings, slot, _output(index))
            writes.append({"type": "writeFile", "resource": _output(index), "targetPath": _output(index)})
    described = desc.to_dict()
    return {
        "resources": resources,
        "dispatchables": {"operator": {"type": described["Type"], "desc": described["Desc"]}},
        "commands": [{"type": "dispatch", "dispatchable": "operator", "bindings": bindings}, *writes],
    }


def _bind(bindings: dict[str, Any], slot: Slot, resource: str) -> None:
    name = c_member(slot.field.name)
    if slot.field.listed:
        bindings.setdefault(name, []).append(resource)
    else:
        bindings[name] = resource


def _input(index: int) -> str:
    return f"input{index}.bin"


def _output(index: int) -> str:
    return f"output{index}.bin"
