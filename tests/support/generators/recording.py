"""A session in a terminal as an animated SVG: commands are run, and what they print appears line by line."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from io import StringIO
from pathlib import Path

from rich.console import Console
from rich.text import Text

COLUMNS = 100
_PAUSE_S, _LINE_S = 1.6, 0.06
"""The seconds before a command's output, and from one line to the next."""
_FONT_FACES = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)
_LINE = re.compile(r'<text class="([^"]*)"([^>]*clip-path="url\(#([\w-]+)-line-(\d+)\)")')
_STYLE = """
    .appears { animation: appear 0.01s both; }
    @keyframes appear { from { visibility: hidden; } to { visibility: visible; } }
    @media (prefers-reduced-motion: reduce) { .appears { animation: none; } }
"""


def output_of(command: str, folder: Path) -> str:
    """What a `dmlpy` command prints in colours on a terminal; times are left out, which differ from run to run."""
    _, *arguments = command.split()
    environment = {**os.environ, "COLUMNS": str(COLUMNS), "FORCE_COLOR": "1", "PYTHONIOENCODING": "utf-8"}
    program = [sys.executable, "-c", "from dmlpy.cli.main import main; main()", *arguments]
    done = subprocess.run(program, cwd=folder, env=environment, capture_output=True, encoding="utf-8", check=False)
    return re.sub(r", [\d.]+ ms median \(\w+\)", "", done.stdout + done.stderr).rstrip("\n")


def picture(session: Sequence[tuple[str, str]], title: str) -> str:
    """The commands and their outputs as an SVG that plays once; where motion is not wanted, it shows everything at once."""
    console = Console(record=True, width=COLUMNS, file=StringIO(), force_terminal=True, color_system="truecolor", legacy_windows=False)
    appears: list[float] = []
    now = 0.2
    for command, output in session:
        before = len(console.export_text(clear=False).splitlines())
        console.print(Text(f"$ {command}", style="bold green"))
        now += _PAUSE_S / 2
        appears += [now] * (len(console.export_text(clear=False).splitlines()) - before)
        now += _PAUSE_S / 2
        for line in [*output.splitlines(), ""]:
            before = len(console.export_text(clear=False).splitlines())
            console.print(Text.from_ansi(line))
            now += _LINE_S
            appears += [now] * (len(console.export_text(clear=False).splitlines()) - before)
    svg = console.export_svg(title=title, unique_id="recording")
    svg = _FONT_FACES.sub("", svg).replace("Fira Code", "DejaVu Sans Mono").replace("</style>", f"{_STYLE}</style>", 1)

    def delayed(line: re.Match[str]) -> str:
        classes, rest, _, number = line.groups()
        return f'<text style="animation-delay: {appears[int(number)]:.2f}s" class="{classes} appears"{rest}'

    return "\n".join(line.rstrip() for line in _LINE.sub(delayed, svg).splitlines()) + "\n"
