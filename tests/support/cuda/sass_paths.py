"""What a warp executes of a loop, counted along a way through its code, and how far loads are from the first wait for them."""

from __future__ import annotations

import heapq
import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from tests.support.cuda.sass import Block, Code, Instruction, Loop, SassError


@dataclass(frozen=True)
class Load:
    """A load from global memory in a loop.

    Attributes:
        instruction: the load.
        distance: the fewest instructions from it to the first that waits for it, itself not counted and the other counted, within the loop;
            infinite where the loop has none.
        products: the fewest instructions of arithmetic between, on any way.
    """

    instruction: Instruction
    distance: float
    products: float


def loads_of(code: Code, loop: Loop, wanted: Callable[[Instruction], bool] = lambda _: True) -> list[Load]:
    """Those of a loop that are wanted, in the order of their addresses."""
    found = []
    for number in sorted(loop.blocks):
        for place, instruction in enumerate(code.blocks[number].instructions):
            if instruction.loads_globally and wanted(instruction):
                if instruction.write_barrier is None:
                    raise SassError(f"a load without a barrier: {instruction.opcode} {instruction.operands}")
                distances = [
                    _least_to_wait(code.blocks, loop, number, place + 1, instruction.write_barrier, weight)
                    for weight in (lambda _: 1, lambda other: int(other.kind in ("product", "float")))
                ]
                found.append(Load(instruction, *distances))
    return found


def _least_to_wait(
    blocks: tuple[Block, ...], loop: Loop, first: int, place: int, barrier: int, weight: Callable[[Instruction], int]
) -> float:
    """The least sum of weights on a way from an instruction to one that waits for a barrier."""
    queue = [(0, first, place)]
    seen: set[tuple[int, int]] = set()
    while queue:
        passed, number, place = heapq.heappop(queue)
        if (number, place) in seen:
            continue
        seen.add((number, place))
        for instruction in blocks[number].instructions[place:]:
            passed += weight(instruction)
            if barrier in instruction.waits:
                return passed
        for after in blocks[number].following:
            if after in loop.blocks:
                heapq.heappush(queue, (passed, after, 0))
    return math.inf


@dataclass(frozen=True)
class Way:
    """What is passed on a way: how many instructions of each kind."""

    kinds: Counter[str] = field(default_factory=Counter)

    @property
    def total(self) -> int:
        return sum(self.kinds.values())

    def then(self, other: Way) -> Way:
        return Way(self.kinds + other.kinds)

    def taken(self, times: int) -> Way:
        return Way(Counter({kind: count * times for kind, count in self.kinds.items()}))


@dataclass(frozen=True)
class UsualWay:
    """The way through a loop on which most is executed, of those that a warp usually takes.

    It passes no block that is left out, none that calls a function, which is there for rare numbers, and none that pauses: of a loop that
    waits for others only the first look counts. Other inner loops are executed as often as is said.

    Attributes:
        code: the kernel.
        times: how often the header of an inner loop is executed, 0 for a loop that is passed by; None: not known.
        leaves_out: whether a block is not passed.
    """

    code: Code
    times: Callable[[Loop], int | None]
    leaves_out: Callable[[Block], bool]

    def once(self, loop: Loop) -> Way:
        """One turn, from the header back to it.

        Raises:
            SassError: there is none, or it is not known how often an inner loop is executed.
        """
        return self._turn(loop, self._ways(loop))

    def _turn(self, loop: Loop, ways: Mapping[int, Way]) -> Way:
        ends = [way for number, way in ways.items() if loop.header in self.code.blocks[number].following]
        if not ends:
            raise SassError(f"no usual way through the loop at {self._place(loop)}")
        return max(ends, key=lambda way: way.total)

    def _ways(self, loop: Loop) -> dict[int, Way]:
        """The best way from a loop's header to the end of each block, in one turn; of those that have one."""
        inner = {number: other for other in self._directly_in(loop) for number in other.blocks}
        arrived = {loop.header: Way()}
        ends: dict[int, Way] = {}
        for number in self._order(loop, inner):
            if number not in arrived:
                continue
            own = inner[number].blocks if number in inner else {number}
            passed = self._through(inner[number], loop) if number in inner else {number: self._of(number)}
            for end, way in passed.items():
                ends[end] = arrived[number].then(way)
                for after in self.code.blocks[end].following:
                    leaves = after not in own and after != loop.header and self._is_passed(after, loop)
                    if leaves and (after not in arrived or arrived[after].total < ends[end].total):
                        arrived[after] = ends[end]
        return ends

    def _through(self, inner: Loop, outer: Loop) -> dict[int, Way]:
        """The best way from the first turn of an inner loop to the end of each block in its last one; none if it is passed by."""
        times = self._times(inner, outer)
        if times == 0:
            return {}
        ways = self._ways(inner)
        before = Way() if times == 1 else self._turn(inner, ways).taken(times - 1)
        return {number: before.then(way) for number, way in ways.items()}

    def _times(self, inner: Loop, outer: Loop) -> int:
        own = inner.blocks.difference(*(other.blocks for other in self._directly_in(inner)))
        if any(self.code.blocks[number].has("NANOSLEEP") for number in own):
            # The first look is the loop's, or comes before it.
            exits = {
                after for number in inner.blocks for after in self.code.blocks[number].following if after in outer.blocks - inner.blocks
            }
            return 0 if exits <= self._reached(outer, outer.blocks - inner.blocks) else 1
        times = self.times(inner)
        if times is None:
            raise SassError(f"how often is the loop at {self._place(inner)} executed?")
        return times

    def _reached(self, loop: Loop, blocks: frozenset[int]) -> set[int]:
        """Those of some blocks of a loop to which a way leads from its header, in one turn."""
        found, waiting = {loop.header}, [loop.header]
        while waiting:
            for after in self.code.blocks[waiting.pop()].following:
                if after in blocks and after not in found and self._is_passed(after, loop):
                    found.add(after)
                    waiting.append(after)
        return found

    def _is_passed(self, number: int, loop: Loop) -> bool:
        block = self.code.blocks[number]
        return number in loop.blocks and not block.has("NANOSLEEP", "CALL") and not self.leaves_out(block)

    def _of(self, number: int) -> Way:
        return Way(Counter(instruction.kind for instruction in self.code.blocks[number].instructions))

    def _directly_in(self, loop: Loop) -> list[Loop]:
        inside = [other for other in self.code.loops if other.blocks < loop.blocks]
        return [other for other in inside if not any(other.blocks < third.blocks for third in inside)]

    def _order(self, loop: Loop, inner: Mapping[int, Loop]) -> list[int]:
        """Blocks of a loop, of an inner one its header alone, such that none comes before one that leads to it."""

        def after(number: int) -> list[int]:
            own = inner[number].blocks if number in inner else {number}
            found = {other for one in own for other in self.code.blocks[one].following if other in loop.blocks and other not in own}
            return sorted({inner[other].header if other in inner else other for other in found} - {loop.header})

        done: list[int] = []
        seen = {loop.header}
        stack = [(loop.header, iter(after(loop.header)))]
        while stack:
            number, rest = stack[-1]
            following = next((other for other in rest if other not in seen), None)
            if following is None:
                done.append(number)
                stack.pop()
            else:
                seen.add(following)
                stack.append((following, iter(after(following))))
        return done[::-1]

    def _place(self, loop: Loop) -> str:
        return ", ".join(f"{file}:{line}" for file, line in self.code.places_of(loop)) or f"block {loop.header}"
