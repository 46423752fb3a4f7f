"""The worker's session in the process of the tests: no process is started, and what the mock notes can be read."""

from __future__ import annotations

import json
from typing import Any

from dmlpy.conformance.process import Opened, Worker
from dmlpy.conformance.worker import Session, response_to
from dmlpy.messages.problems import DmlError


class InProcess(Worker):
    """A worker without a process. What would end the process ends the session.

    Attributes:
        level: the level of the open device.
        levels: the levels of the devices that were opened.
    """

    def __init__(self, dll: str | None, **options: Any) -> None:
        super().__init__(dll, **options)
        self._session: Session | None = None
        self.level = ""
        self.levels: list[str] = []

    def open(self, level: str) -> Opened:
        self.level = level
        self.levels.append(level)
        return super().open(level)

    def _launch(self) -> None:
        self._session = Session()

    @property
    def is_running(self) -> bool:
        return self._session is not None

    def _request(self, limit_s: float, name: str, **arguments: Any) -> Any:
        assert self._session is not None
        response = json.loads(json.dumps(response_to(self._session, name, json.loads(json.dumps(arguments)))))
        if "ended" in response:
            raise self._ended(response["ended"])
        if "failed" in response:
            raise DmlError(response["failed"])
        return response["value"]

    def close(self) -> None:
        if self._session is not None:
            self._session.close()
        self._session = None
