"""The built site in a browser: every page fits a telephone and a wide screen, and a search blackens no picture.

Chromium opens the pages in frames of these widths and measures them. With DMLPY_TEST_PICTURES=FOLDER it also photographs some of them, for
people to look at.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import threading
from collections.abc import Iterator, Sequence
from functools import partial
from html import unescape
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.docs.built_site import built_site

pytestmark = pytest.mark.slow
WIDTHS = (390, 1400)
PAGES = (
    "index", "guide/gallery", "guide/tour", "guide/gpu", "guide/graphs", "guide/bench", "operators/convolution", "operators/lstm",
    "operators/index", "reference/errors", "reference/layouts", "reference/api/onnx", "reference/api/directml",
)  # fmt: skip
MARKED = "reference/layouts.html?highlight=size"
"""A page as it is opened from a search: each hit in a picture gets a rectangle behind it."""
OFFLINE = "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"
"""The browser reaches the site alone, so that the pages look the same wherever they are tested."""
SCRIPT = """
const found = {};
const frames = [...document.querySelectorAll("iframe")];
window.addEventListener("load", () => setTimeout(() => {
  for (const frame of frames) {
    const page = frame.contentDocument, root = page.documentElement;
    const marks = [...page.querySelectorAll("svg rect.highlighted")].map((mark) => frame.contentWindow.getComputedStyle(mark).fill);
    const content = page.querySelector("article").getBoundingClientRect();
    found[frame.dataset.name] = {
      wide: root.scrollWidth, text: Math.round(content.width), marks: marks, copies: page.querySelectorAll("button.copybtn").length,
      tex: [...page.querySelectorAll(".dmlpy-formula")].filter((formula) => formula.offsetHeight).length,
      plain: page.querySelectorAll(".dmlpy-formula + details[open]").length,
    };
  }
  document.body.innerHTML = "<pre>" + JSON.stringify(found) + "</pre>";
}, 1500));
"""


FRAMED = """
const asked = new URLSearchParams(location.search);
const frame = document.createElement("iframe");
frame.src = "site/" + asked.get("page");
frame.style = "border: 0; height: 2000px; width: " + asked.get("width") + "px";
document.body.append(frame);
"""


def browser() -> str:
    for name in ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable"):
        if path := shutil.which(name):
            return path
    pytest.skip("Chromium is not installed", allow_module_level=True)


def chromium(folder: Path, *arguments: str) -> str:
    """What Chromium prints; the page's timers run as fast as it can."""
    plain = ("--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--disable-dev-shm-usage")
    options = (*plain, OFFLINE, f"--user-data-dir={folder}")
    command = [browser(), *options, "--virtual-time-budget=10000", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *arguments: Any) -> None:
        del arguments


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The site on a server, beside a page of frames: pages of files may not look into each other."""
    browser()
    folder = tmp_path_factory.mktemp("served")
    (folder / "site").symlink_to(built_site() / "site")
    frames = [
        f'<iframe data-name="{name} {width}" src="site/{name}" style="width: {width}px; height: 900px"></iframe>'
        for width in WIDTHS
        for name in (*(f"{page}.html" for page in PAGES), MARKED)
    ]
    (folder / "frames.html").write_text(f"<!doctype html><body>{''.join(frames)}<script>{SCRIPT}</script></body>", "utf-8")
    (folder / "photograph.html").write_text(f"<!doctype html><body style='margin: 0'><script>{FRAMED}</script></body>", "utf-8")
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


@pytest.fixture(scope="module")
def measured(address: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    dump = chromium(tmp_path_factory.mktemp("profile"), "--window-size=1500,1000", "--dump-dom", f"{address}/frames.html")
    found = re.search(r"<pre>(\{.*\})</pre>", dump, re.DOTALL)
    assert found is not None, dump[-2000:]
    pages: dict[str, dict[str, Any]] = json.loads(unescape(found[1]))
    return pages


@pytest.mark.parametrize("width", WIDTHS)
def test_no_page_is_wider_than_its_window(width: int, measured: dict[str, dict[str, Any]]) -> None:
    """What is too wide, such as a table of records, scrolls by itself."""
    found = {name: page["wide"] for name, page in measured.items() if name.endswith(f" {width}")}
    assert len(found) == len(PAGES) + 1
    assert {name: wide for name, wide in found.items() if wide > width} == {}


def test_the_text_takes_the_room_that_there_is(measured: dict[str, dict[str, Any]]) -> None:
    least = {390: 340, 1400: 800}
    found = {name: page["text"] for name, page in measured.items()}
    assert {name: text for name, text in found.items() if text < least[int(name.rpartition(" ")[2])]} == {}


def test_a_search_blackens_no_picture(measured: dict[str, dict[str, Any]]) -> None:
    marks = [mark for name, page in measured.items() if name.startswith(MARKED) for mark in page["marks"]]
    assert len(marks) > 5, "the pictures of this page have hits"
    assert "rgb(0, 0, 0)" not in marks


def test_code_can_be_copied(measured: dict[str, dict[str, Any]]) -> None:
    assert measured["index.html 1400"]["copies"] >= 8
    assert measured["operators/lstm.html 390"]["copies"] >= 3


def test_formulas_are_plain_text_without_a_network(measured: dict[str, dict[str, Any]]) -> None:
    found = {name: (page["tex"], page["plain"]) for name, page in measured.items() if "operators/lstm" in name}
    assert found == {"operators/lstm.html 390": (0, 1), "operators/lstm.html 1400": (0, 1)}


def photographs() -> Sequence[tuple[str, int]]:
    return [(page, width) for page in PAGES for width in WIDTHS] if "DMLPY_TEST_PICTURES" in os.environ else []


@pytest.mark.parametrize(("page", "width"), photographs())
def test_pages_are_photographed(page: str, width: int, address: str, tmp_path: Path) -> None:
    """For people: through a frame, since Chromium's windows are no narrower than 500 pixels."""
    folder = Path(os.environ["DMLPY_TEST_PICTURES"]).absolute()
    folder.mkdir(exist_ok=True)
    target = folder / f"{page.replace('/', '-')}-{width}.png"
    asked = f"{address}/photograph.html?page={page}.html&width={width}"
    chromium(tmp_path, f"--window-size={max(width, 500)},2000", f"--screenshot={target}", asked)
    assert target.stat().st_size > 10_000
