"""A kernel's PTX, its code before the last translation: the instructions, and which loads wait for other loads."""

from __future__ import annotations

import re
from collections.abc import Sequence

_REGISTER = re.compile(r"%[a-z]+\d+")
_INSTRUCTION = re.compile(r"(@!?%p\d+ )?([\w.]+) ?(.*);")
_BRANCH = re.compile(r"(@!?(?P<predicate>%p\d+) )?bra(\.uni)? (?P<target>\$\w+);")


def body(ptx: str, symbol: str) -> list[str]:
    """The labels and instructions of an entry, each with single spaces."""
    start = ptx.index("{", ptx.index(f".entry {symbol}("))
    lines = (" ".join(line.split()) for line in ptx[start : ptx.index("\n}", start)].splitlines()[1:])
    return [line for line in lines if line and not line.startswith((".", "//"))]


def count(instructions: Sequence[str], *names: str) -> int:
    """How many instructions begin with one of the names, predicated ones included: `div`, `ld.global`."""
    return sum(re.sub(r"^@!?%p\d+ ", "", line).startswith(names) for line in instructions)


def load_chain(instructions: Sequence[str]) -> int:
    """The most loads from global memory of which each waits for the one before: for its address, or for a branch around it."""
    places = {line[:-1]: place for place, line in enumerate(instructions) if line.endswith(":")}
    depths: dict[str, int] = {}  # of registers: the loads that lead to their values
    regions: list[tuple[int, int]] = []  # where code ends that some threads may pass by, and the loads that decide that
    most = 0
    for place, line in enumerate(instructions):
        regions = [region for region in regions if region[0] > place]
        around = max((depth for _, depth in regions), default=0)
        if branch := _BRANCH.fullmatch(line):
            target = places[branch["target"]]
            if branch["predicate"] is not None:
                around = max(around, depths.get(branch["predicate"], 0))
            if target > place:
                regions.append((target, around))
            continue
        if line.endswith(":"):
            continue
        found = _INSTRUCTION.fullmatch(line)
        assert found is not None, line
        predicate, opcode, operands = found.groups()
        written = "" if opcode.startswith(("st.", "bar.")) else operands[: operands.find("}" if operands.startswith("{") else ",")]
        read = _REGISTER.findall(f"{predicate} {operands[len(written) :]}")
        depth = max((depths.get(register, 0) for register in read), default=0)
        depth = max(depth, around)
        if opcode.startswith("ld.global"):
            depth += 1
            most = max(most, depth)
        depths |= dict.fromkeys(_REGISTER.findall(written), depth)
    return most
