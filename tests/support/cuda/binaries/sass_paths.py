"""What a warp executes of a loop, counted along a way through its code, and how far loads are from the first wait for them."""

from __future__ import annotations

import heapq
import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tests.support.cuda.binaries.sass import Block, Code, Instruction, Loop, SassError


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


@dataclass(frozen=True)
class Way:
    """The instructions that are passed on a way, in order."""

    instructions: tuple[Instruction, ...] = ()

    @property
    def total(self) -> int:
        return len(self.instructions)

    @property
    def kinds(self) -> Counter[str]:
        """How many there are of each kind."""
        return Counter(instruction.kind for instruction in self.instructions)

    def then(self, other: Way) -> Way:
        return Way(self.instructions + other.instructions)

    def taken(self, times: int) -> Way:
        return Way(self.instructions * times)


@dataclass(frozen=True)
class UsualWays:
    """The ways through a loop that a warp usually takes.

    They pass no block that is left out, and inner loops as often as given.

    Attributes:
        code: the kernel.
        times: how often the header of an inner loop is executed, 0 for a loop that is passed by; None: not known.
        leaves_out: whether a block is not passed.
    """

    code: Code
    times: Callable[[Loop], int | None] = lambda _: None
    leaves_out: Callable[[Block], bool] = lambda _: False

    def once(self, loop: Loop) -> Way:
        """What is executed in one turn, from the header back to it, where it is most.

        The way passes no block that calls a function, which is there for rare numbers, none that gathers a warp whose threads have parted,
        and none that pauses: of a loop that waits for others only the first look counts.

        Raises:
            SassError: there is none, or it is not known how often an inner loop is executed.
        """
        return self._turn(loop, self._ways(loop))

    def loads(self, loop: Loop) -> list[Load]:
        """The loads of a loop, in the order of their addresses, each with the usual way on which a wait for it comes first."""
        within = [inner for inner in self.code.loops if inner.blocks <= loop.blocks]
        never = [inner.blocks for inner in within if inner is not loop and self.times(inner) == 0]
        around = {
            number: min(
                (one for one in within if number in one.blocks and one.header != number), key=lambda one: len(one.blocks), default=loop
            )
            for number in loop.blocks
        }
        passed = {number for number in loop.blocks.difference(*never) if self._is_passed(number, around[number])}
        passed = self._reached(loop, frozenset(passed))
        skips = self._skips(loop)
        following = {
            number: [to for to in self.code.blocks[number].following if to in passed and (number, to) not in skips] for number in passed
        }
        found = []
        for number in sorted(passed):
            for place, instruction in enumerate(self.code.blocks[number].instructions):
                if instruction.loads_globally:
                    distance, products = (
                        self._least_to_wait(following, number, place, weight)
                        for weight in (lambda _: 1, lambda other: int(other.kind in ("product", "float")))
                    )
                    found.append(Load(instruction, distance, products))
        return found

    def _skips(self, loop: Loop) -> set[tuple[int, int]]:
        """The ways around inner loops that are executed: from a block that every way to the loop passes, to where it ends."""
        found = set()
        for inner in self.code.loops:
            if inner.blocks < loop.blocks and self.times(inner):
                ends = {to for number in inner.blocks for to in self.code.blocks[number].following} - inner.blocks
                before = self.code.dominators[inner.header] - inner.blocks
                found |= {(number, to) for number in before for to in self.code.blocks[number].following if to in ends}
        return found

    def _least_to_wait(self, following: Mapping[int, list[int]], first: int, place: int, weight: Callable[[Instruction], int]) -> float:
        """The least sum of weights on a way from after a load to the first instruction that waits for it, which counts."""
        barrier = self.code.blocks[first].instructions[place].write_barrier
        queue = [(0, first, place + 1)]
        seen: set[tuple[int, int]] = set()
        while queue:
            total, number, place = heapq.heappop(queue)
            if (number, place) in seen:
                continue
            seen.add((number, place))
            for instruction in self.code.blocks[number].instructions[place:]:
                total += weight(instruction)
                if barrier in instruction.waits:
                    return total
            for to in following[number]:
                heapq.heappush(queue, (total, to, 0))
        return math.inf

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
            # The first look is the loop's, or comes before it. One that may give up has further exits.
            exits = {
                after for number in inner.blocks for after in self.code.blocks[number].following if after in outer.blocks - inner.blocks
            }
            return 0 if exits & self._reached(outer, outer.blocks - inner.blocks) else 1
        times = self.times(inner)
        if times is None:
            raise SassError(f"how often is the loop at {self._place(inner)} executed?")
        return times

    def _is_passed(self, number: int, loop: Loop) -> bool:
        """Whether ways through a loop pass a block that is directly in it, or begins a loop in it. What is on every way is."""
        block = self.code.blocks[number]
        if number not in loop.blocks or block.has("NANOSLEEP") or block.calls or block.gathers:
            return False
        return number == loop.header or not self.leaves_out(block) or not self._returns(loop, loop.blocks - {number})

    def _returns(self, loop: Loop, blocks: frozenset[int]) -> bool:
        """Whether a way leads from the header back to it through some blocks of a loop."""
        return any(loop.header in self.code.blocks[number].following for number in self._reached(loop, blocks))

    def _reached(self, loop: Loop, blocks: frozenset[int]) -> set[int]:
        """Those of some blocks of a loop to which a way leads from its header, in one turn."""
        found, waiting = {loop.header}, [loop.header]
        while waiting:
            new = blocks.intersection(self.code.blocks[waiting.pop()].following) - found
            found |= new
            waiting += new
        return found

    def _of(self, number: int) -> Way:
        return Way(self.code.blocks[number].instructions)

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
