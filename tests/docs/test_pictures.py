"""The gallery's pictures say what they would say if they were drawn now, and the recording of a terminal plays."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

from tests.support.generators import pictures, recording
from tests.support.tools import require

QUICK = ("layout.svg", "memory.svg", "enlarged.png")


@pytest.mark.parametrize("name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in pictures.PICTURES])
def test_a_picture_is_current(name: str) -> None:
    """Where this fails: `python -m tests.support.generators.pictures`."""
    if name == "graph.svg":
        require("dot")
    assert not pictures.stale(name)


def test_a_picture_that_says_something_else_is_stale(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(pictures.PICTURES, "layout.svg", lambda: pictures.layout().replace("stride 24", "stride 25"))
    assert pictures.stale("layout.svg")


def test_every_picture_is_whole() -> None:
    drawn = sorted(pictures.FOLDER.glob("*.svg"))
    assert {path.name for path in drawn} >= {name for name in pictures.PICTURES if name.endswith(".svg")}
    for path in drawn:
        root = ElementTree.fromstring(path.read_text("utf-8"))
        assert root.tag.endswith("svg")
        assert re.findall(r"""(?:url\(|href=|src=|@import )["']?https?:""", path.read_text("utf-8")) == [], "it loads something"


def test_a_recording_plays_a_session_line_by_line() -> None:
    session = [("dmlpy one", "first\n\x1b[31mred\x1b[0m"), ("dmlpy two", "x" * 130)]
    svg = recording.picture(session, "title")
    lines = re.findall(r'animation-delay: ([\d.]+)s" class="[^"]*appears"[^>]*>([^<]*)<', svg)
    shown = [(float(delay), text.replace("&#160;", " ").strip()) for delay, text in lines if text.replace("&#160;", "").strip()]
    assert [text for _, text in shown] == ["$ dmlpy one", "first", "red", "$ dmlpy two", "x" * 100, "x" * 30]
    delays = [delay for delay, _ in shown]
    assert delays == sorted(delays)
    assert delays[3] - delays[2] > 10 * (delays[2] - delays[1]), "a pause before each command"
    assert "prefers-reduced-motion" in svg
