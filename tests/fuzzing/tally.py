"""How fuzzing goes: tries of several kinds in turn, their outcomes, and broken promises."""

from __future__ import annotations

import argparse
import random
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import dmlpy as dml

MAX_SECONDS = 5.0
"""Of the processor's time for one try."""
_MOST_TOLD = 20


class BrokenError(Exception):
    """A promise was broken; the message names it."""


class FuzzRun:
    """Tries of one program.

    Attributes:
        chance: the source of everything random; seeded.
        tries: how many there were.
        told: the outcomes, each with its count.
        finds: the broken promises.
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.chance = random.Random(seed)
        self.tries = 0
        self.told: Counter[str] = Counter()
        self.finds: list[str] = []

    def take(self, name: str, attempt: Callable[[FuzzRun], str]) -> None:
        """One try: what it gives is counted, and what it raises is a broken promise."""
        self.tries += 1
        seed = f"{self.seed} {name} {self.tries}"
        self.chance.seed(seed)
        begin = time.process_time()
        try:
            self.told[f"{name}: {attempt(self)}"] += 1
        except BrokenError as error:
            self.finds.append(f"{name}, try {seed!r}: {error}")
        except Exception as error:
            place = traceback.extract_tb(error.__traceback__)[-1]
            self.finds.append(f"{name}, try {seed!r}: {type(error).__name__} at {place.filename.rpartition('/')[2]}:{place.lineno}")
        if (seconds := time.process_time() - begin) > MAX_SECONDS:
            self.finds.append(f"{name}, try {seed!r}: took {seconds:.1f} s")

    def promise(self, holds: Any, what: str) -> None:
        """A promise that a try relies on."""
        if not holds:
            raise BrokenError(what)

    @contextmanager
    def answers(self, found: list[str]) -> Iterator[None]:
        """A call whose errors may be dmlpy's only: the outcome is added to a list, in one word."""
        try:
            yield
        except dml.DmlError as error:
            self.promise(len(str(error)) < 10**6, f"an error of {len(str(error))} characters")
            found.append(error.problems[0].code if error.problems else type(error).__name__)
        else:
            found.append("accepted")


def run(arguments: Sequence[str] | None, description: str | None, kinds: Mapping[str, Callable[[FuzzRun], str]]) -> int:
    """Runs a fuzzer's kinds of tries in turn, prints what came of them, and gives the status of the process.

    Args:
        arguments: of the command line: `--seconds` or `--tries` of each kind, `--seed`, `--kinds`.
        description: of the program.
        kinds: a try of each kind; it returns the outcome, in a word or two.
    """
    parser = argparse.ArgumentParser(description=(description or "").partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=0.0, help="for all kinds together")
    parser.add_argument("--tries", type=int, default=100, help="of each kind, where no seconds are given")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kinds", nargs="+", choices=list(kinds), default=list(kinds))
    asked = parser.parse_args(arguments)
    fuzz = FuzzRun(asked.seed)
    end = time.perf_counter() + asked.seconds
    rounds = 0
    while time.perf_counter() < end if asked.seconds else rounds < asked.tries:
        for kind in asked.kinds:
            fuzz.take(kind, kinds[kind])
        rounds += 1
    for told, count in sorted(fuzz.told.items()):
        print(f"{count:7} {told}")
    print(f"{fuzz.tries} tries, {len(fuzz.finds)} broken promises (seed {asked.seed})")
    seen: Counter[str] = Counter()
    for find in fuzz.finds:
        cause = find.rpartition(": ")[2]
        seen[cause] += 1
        if seen[cause] <= 3 and len(seen) <= _MOST_TOLD:
            print(f"BROKEN {find}")
    return 1 if fuzz.finds else 0
