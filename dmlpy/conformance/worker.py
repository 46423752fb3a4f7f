"""The process that talks to DirectML: it answers each line of JSON on standard input with one on its standard output.

Whatever DirectML prints goes to standard error. After a crash or a removed device nothing here can be trusted: the process ends, and
`process.Worker` starts another one.
"""

from __future__ import annotations

import base64
import json
import os
import re
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any

from dmlpy.conformance import execution, libraries
from dmlpy.conformance.device import Device, RemovedError
from dmlpy.conformance.pydirectml import Pydirectml
from dmlpy.description.descs import OperatorDesc
from dmlpy.description.enums import FeatureLevel
from dmlpy.messages.problems import DmlError
from dmlpy.system.line_protocol import serve_lines


class Session:
    """The requests, by the names of the methods; the arguments and results are JSON data."""

    def __init__(self) -> None:
        self._libraries: libraries.Libraries | None = None
        self._device: Device | None = None
        self._pydirectml: Pydirectml | None = None

    def load(self, dll: str | None) -> dict[str, Any]:
        """Loads the libraries."""
        self._libraries = libraries.load(None if dll is None else Path(dll))
        return {"file": self._libraries.file, "version": self._libraries.version, "system": self._libraries.system}

    def open(self, level: str, hardware: bool, debug: bool) -> dict[str, Any]:
        """Opens a device in place of an open one."""
        assert self._libraries is not None, "load comes first"
        self.close()
        self._device = device = Device(self._libraries, FeatureLevel.parse(level), hardware=hardware, debug=debug)
        return {"adapter": device.adapter, "debug_layer": device.has_debug_layer, "highest_level": str(device.highest_level())}

    def open_pydirectml(self, hardware: bool, debug: bool) -> None:
        """Opens a device of pydirectml, which then runs operators."""
        self._pydirectml = Pydirectml.load(hardware=hardware, debug=debug)

    def close(self) -> None:
        """Releases the device."""
        if self._device is not None:
            self._device.close()
            self._device = None

    @property
    def device(self) -> Device:
        assert self._device is not None, "open comes first"
        return self._device

    def check(self, desc: dict[str, Any]) -> dict[str, Any]:
        """Creates and compiles an operator."""
        return asdict(self.device.check(OperatorDesc.from_dict(desc)))

    def run(self, desc: dict[str, Any], inputs: list[str | None]) -> list[str | None]:
        """Runs an operator; tensors are the Base64 of their bytes."""
        stored = [None if text is None else base64.b64decode(text) for text in inputs]
        operator = OperatorDesc.from_dict(desc)
        results = execution.run(self.device, operator, stored) if self._pydirectml is None else self._pydirectml.run(operator, stored)
        return [None if data is None else base64.b64encode(data).decode("ascii") for data in results]


def response_to(session: Session, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """The answer to a request: its value, why it failed, or, as `ended`, why the process must end."""
    try:
        return {"value": getattr(session, name)(**arguments)}
    except RemovedError as error:
        return {"ended": str(error)}
    except DmlError as error:
        return {"failed": str(error)}
    except OSError as error:  # an access violation, which ctypes catches on Windows
        return {"ended": f"a crash: {re.sub(' 0x[0-9A-Fa-f]+', '', str(error))}"}  # addresses differ from run to run


def serve(requests: IO[str], responses: IO[str]) -> None:
    """Answers requests until there are no more, or until DirectML cannot be used any more."""
    session = Session()
    for line in requests:
        name, arguments = json.loads(line)
        response = response_to(session, name, arguments)
        print(json.dumps(response), file=responses, flush=True)
        if "ended" in response:
            os._exit(1)  # releasing objects may crash too


def main() -> None:
    """Runs the process."""
    serve_lines(serve)


if __name__ == "__main__":
    main()
