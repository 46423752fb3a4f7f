"""Places in the kernels' sources, named by their text: a statement is where it begins and where it ends, in whichever line it is today."""

from __future__ import annotations

import functools
from dataclasses import dataclass

from dmlpy.devices.cuda import sources
from tests.support.cuda.binaries.sass import Block, Code, Instruction, Loop


class StatementError(Exception):
    """There is no such statement, or there are several."""


@dataclass(frozen=True)
class Statement:
    """A statement of a source.

    Attributes:
        file: below raw_kernels, or the name of a made-up source.
        text: how it begins, which occurs once; white space counts.
        after: if it occurs more often: a text that occurs once; the statement is the first one after it.
        source: the file's text; None: that of raw_kernels.
    """

    file: str
    text: str
    after: str = ""
    source: str | None = None

    def __str__(self) -> str:
        return f"{self.file}: {self.text}"

    @functools.cached_property
    def lines(self) -> range:
        """Its lines, counted from 1: to the end of its body where braces follow, or to the semicolon.

        Raises:
            StatementError: it is not there, or it is not clear which one is meant.
        """
        source = (sources.directory() / self.file).read_text(encoding="utf-8") if self.source is None else self.source
        named_by = self.after or self.text
        if (count := source.count(named_by)) != 1:
            raise StatementError(f"{self.file}: {named_by!r} occurs {count} times")
        start = source.find(self.text, source.index(named_by))
        if start < 0:
            raise StatementError(f"{self.file}: no {self.text!r} after {named_by!r}")
        first = source.count("\n", 0, start) + 1
        return range(first, first + source.count("\n", start, _end(source, start)) + 1)

    def has(self, instruction: Instruction) -> bool:
        """Whether an instruction comes from it, itself or through the functions that it calls."""
        return any(file.endswith(self.file) and line in self.lines for file, line in instruction.places)

    def has_nearly_all_of(self, block: Block) -> bool:
        """Whether a block is the statement's. The compiler moves a few instructions to blocks of others: a short one is nobody's."""
        working = [instruction for instruction in block.instructions if instruction.kind != "control"]
        return len(working) > 2 and 5 * sum(map(self.has, working)) >= 4 * len(working)

    def is_loop(self, code: Code, loop: Loop) -> bool:
        """Whether it is the statement of a loop: it begins where the branches back come from, or what they go by."""
        return any(file.endswith(self.file) and line == self.lines[0] for file, line in code.places_of(loop))

    def loops(self, code: Code) -> list[Loop]:
        """What the compiler made of a loop: one, several where it wrote it out, or none."""
        return [loop for loop in code.loops if self.is_loop(code, loop)]


def _end(source: str, start: int) -> int:
    """Where a statement ends that begins at a place: its parentheses and braces are closed."""
    depth, braces = 0, 0
    for place in range(start, len(source)):
        character = source[place]
        depth += character in "([{"
        depth -= character in ")]}"
        braces += character == "{"
        if depth == 0 and (character == ";" or (character == "}" and braces)):
            return place
    raise StatementError(f"no end of {source[start : start + 40]!r}")
