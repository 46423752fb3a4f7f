"""The worker's process: answers, endings, time limits. A short program takes the place of `dmlpy.conformance.worker`."""

from __future__ import annotations

import os
import sys

import pytest

from dmlpy.conformance import process
from dmlpy.conformance.process import EndedError, StartError, Worker
from dmlpy.messages.problems import DmlError

OPENED = {"file": "f", "version": "1", "system": "s", "adapter": "a", "debug_layer": False, "highest_level": "6_4"}
PROGRAM = """
import json, os, sys, time
for line in sys.stdin:
    name, arguments = json.loads(line)
    if name == "load":
        value = {"file": "f", "version": "1", "system": "s"}
    elif name == "open":
        value = {"adapter": "a", "debug_layer": False, "highest_level": "6_4"}
        if arguments["level"] == "6_4":
            print(json.dumps({"failed": "no such level"}), flush=True)
            continue
    elif arguments["desc"] == "kill":
        os.kill(os.getpid(), 9)
    elif arguments["desc"] == "leave":
        os._exit(5)
    elif arguments["desc"] == "sleep":
        time.sleep(600)
    elif arguments["desc"] == "removed":
        print(json.dumps({"ended": "the device was removed"}), flush=True)
        os._exit(1)
    elif arguments["desc"] == "wrong":
        print(json.dumps({"failed": "a call failed"}), flush=True)
        continue
    else:
        value = {"received": arguments["desc"], "process": os.getpid()}
    print(json.dumps({"value": value}), flush=True)
"""


@pytest.fixture(autouse=True)
def _program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "COMMAND", (sys.executable, "-I", "-S", "-c", PROGRAM))


@pytest.mark.parametrize(
    ("desc", "reason"),
    [
        ("kill", f"the process ended with status {'0x9' if os.name == 'nt' else '-9'}"),
        ("leave", "the process ended with status 0x5"),
        ("sleep", "no answer within 2 s"),
        ("removed", "the device was removed"),
    ],
)
def test_an_ended_process_is_followed_by_another(desc: str, reason: str) -> None:
    with Worker(None, hardware=False, debug=False, limit_s=2) as worker:
        assert vars(worker.open("1_0")) == OPENED
        first = worker.check("first")
        assert worker.check("second") == {**first, "received": "second"}
        with pytest.raises(EndedError) as caught:
            worker.check(desc)
        assert str(caught.value) == reason
        assert (worker.endings, worker.is_running) == (1, False)
        third = worker.check("third")
        assert third["received"] == "third"
        assert third["process"] != first["process"]
    assert not worker.is_running


def test_a_failed_call_leaves_the_process_alive() -> None:
    with Worker(None, hardware=False, debug=False, limit_s=20) as worker:
        worker.open("1_0")
        first = worker.check("first")
        with pytest.raises(DmlError, match="a call failed"):
            worker.check("wrong")
        assert worker.check("second")["process"] == first["process"]


def test_a_level_that_cannot_be_opened() -> None:
    with Worker(None, hardware=False, debug=False, limit_s=20) as worker:
        worker.open("1_0")
        with pytest.raises(StartError, match="no such level"):
            worker.open("6_4")


def test_a_process_that_does_not_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "COMMAND", (sys.executable, "-I", "-S", "-c", "raise SystemExit(3)"))
    with Worker(None, hardware=False, debug=False, limit_s=20) as worker, pytest.raises(StartError) as caught:
        worker.open("1_0")
    assert str(caught.value) == "DirectML could not be loaded: the process ended with status 0x3"
