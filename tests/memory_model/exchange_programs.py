"""What the blocks of the recurrent `persistent_grid` kernels do to memory that they share, as programs for the memory model.

A program is written as the kernels are: `Member` has the parts of `BlockExchange` (raw_kernels/common/block_exchange.cuh) and of `Staging`
(raw_kernels/common/staging.cuh), and `KERNELS` are the loops over steps and passes of recurrent/persistent_grid.cu and
recurrent/persistent_grid_gradient.cu. What a thread does alone is left out. In each exchange every thread puts one value, the number of the
step, counted from 1; memory holds zeros before, or with the protocol `data` sentinels.

To memory a product is this: the warps that read the same part of the operand bring it into shared memory together, each lane a share, and
read all of it after a barrier; each lane writes a partial sum to shared memory, and after a barrier other threads read it. That a part
comes in chunks, which take turns in two buffers of shared memory, is left out: it is the same barrier each time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Literal

from tests.memory_model.programs import Barrier, Instruction, Load, LoadOrder, Program, Scope, Store, StoreOrder, Thread

SENTINEL = -1
"""The value of a word before the launch where the data itself is the flag: `sentinel`."""


@dataclass(frozen=True)
class Shape:
    """How much of a kernel is modelled.

    Attributes:
        producers: of each part of the operand the first and the last block whose values it has. In the kernels every block is in some part.
        sharing: warps that need the same part.
        lanes: of a warp.
        passes: over the samples of a block.
        halves: the values of two neighbouring threads are one word, which the first of them puts.
        sums: products leave partial sums, and others read them.
    """

    blocks: int = 2
    producers: tuple[tuple[int, int], ...] = ((0, 1),)
    sharing: int = 1
    lanes: int = 2
    steps: int = 3
    passes: int = 1
    halves: bool = False
    sums: bool = True

    @property
    def warps(self) -> int:
        return len(self.producers) * self.sharing

    @property
    def threads(self) -> int:
        return self.warps * self.lanes


@dataclass(frozen=True)
class Rules:
    """What a mutation changes; the defaults are the kernels'.

    Attributes:
        protocol: as in block_exchange.cuh.
        stores, read: how values are written and read.
        polls: how a wait looks at a flag.
        raises, acquires: how a flag is raised, and how it is read once more when it is up, if it is.
        scope: of raising and acquiring.
        release_barrier, product_barrier, pass_barrier, staging_barrier, warp_barrier: that of `release`, the one between a product and its
            sums, the one between two passes that release together, the one between bringing an operand into shared memory and reading it
            there, and that of `wait`.
        turns: how many buffers take turns; the kernel's number if 0.
        early: how many exchanges less are waited for.
        flags: what the flags hold before the launch.
        late: with data, of which values the last look comes when they are needed, after looks at the others: none's, which are there at the
            first look, before; that of every second word of a thread; or all of them.
        lone_halves: each thread puts its own half of a word.
        clears: with data, a thread puts the sentinel back in place of a value that all have read.
    """

    protocol: Literal["flags", "data"] = "flags"
    stores: StoreOrder = "relaxed"
    read: LoadOrder = "relaxed"
    polls: LoadOrder = "acquire"
    raises: StoreOrder = "release"
    acquires: LoadOrder | None = None
    scope: Scope = "gpu"
    release_barrier: bool = True
    product_barrier: bool = True
    pass_barrier: bool = True
    staging_barrier: bool = True
    warp_barrier: bool = True
    turns: int = 0
    early: int = 0
    flags: int = 0
    late: Literal["none", "some", "all"] = "none"
    lone_halves: bool = False
    clears: bool = False

    def mutated(self) -> str:
        """What is not a default."""
        changed = {name: value for name, value in vars(self).items() if value != getattr(Rules(), name)}
        return ", ".join(f"{name}={value}" for name, value in changed.items())


Values = tuple[str, int]
"""The name of a buffer, and what all of it has to hold."""


@dataclass
class Member:
    """A thread of a group of blocks, and what it does in its turn: its methods yield instructions."""

    shape: Shape
    rules: Rules
    block: int
    warp: int
    lane: int
    epoch: int = 0
    products: int = 0
    loads: int = 0
    initial: dict[str, int] = field(default_factory=dict)

    @property
    def thread(self) -> int:
        return self.warp * self.shape.lanes + self.lane

    @property
    def part(self) -> int:
        """Of the operand, that this warp needs."""
        return self.warp % len(self.shape.producers)

    def load(self, place: str | tuple[str, ...], **how: object) -> Load:
        self.loads += 1
        what = place if isinstance(place, str) else " and ".join(place)
        return Load(f"block {self.block}, thread {self.thread}, load {self.loads}: {what}", place, **how)

    def barrier_of_block(self, there: bool = True) -> Iterator[Instruction]:
        if there:
            yield Barrier("block")

    def turns(self, taking_turns: int) -> int:
        """As `Turns` of block_exchange.cuh."""
        return self.rules.turns or (self.shape.steps if self.rules.protocol == "data" else taking_turns)

    # common/block_exchange.cuh

    def store(self, buffer: str, value: int) -> Iterator[Instruction]:
        if not self.shape.halves or self.rules.lone_halves or self.thread % 2 == 0:
            yield Store(element(buffer, self.block, self.thread), value, self.rules.stores)

    def release(self) -> Iterator[Instruction]:
        self.epoch += 1
        yield from self.barrier_of_block(self.rules.release_barrier)
        if self.rules.protocol == "flags" and self.thread == 0:
            yield Store(flag(self.block), self.epoch, self.rules.raises, self.rules.scope)

    def wait(self, fewer: int = 0) -> Iterator[Instruction]:
        if self.rules.protocol == "data":
            return
        awaited = self.epoch - fewer - self.rules.early
        first, last = self.shape.producers[self.part]
        for block in range(first + self.lane, last + 1, self.shape.lanes):
            self.initial[flag(block)] = self.rules.flags
            yield self.load(flag(block), order=self.rules.polls, scope=self.rules.scope, until=at_least(awaited))
            if self.rules.acquires is not None:
                yield self.load(flag(block), order=self.rules.acquires, scope=self.rules.scope)
        if self.rules.warp_barrier:
            yield Barrier("warp")

    def fetch(self, values: Values, late: bool) -> Iterator[Instruction]:
        """Of this thread's share of its warp's part the words that are there at the first look, or those that are not.

        These are looked for together, and each comes at a look of its own: the order of the last looks at them is any. Here the first word
        comes last. What is loaded again with a missing word stays what it was: relaxed loads of one word do not go back in time.
        """
        buffer, expected = values
        first, last = self.shape.producers[self.part]
        part = [word for block in range(first, last + 1) for word in words(buffer, block, self.shape, self.rules)]
        place = self.warp // len(self.shape.producers) * self.shape.lanes + self.lane
        until = SENTINEL.__ne__ if self.rules.protocol == "data" else None
        if until is not None:
            self.initial |= {name: SENTINEL for word in part for name in ([word] if isinstance(word, str) else word)}
        share = part[place :: self.shape.sharing * self.shape.lanes]
        waited_for = {"none": [], "some": share[::2], "all": share}[self.rules.late]
        for word in reversed(waited_for) if late else [word for word in share if word not in waited_for]:
            yield self.load(word, order=self.rules.read, expected=expected, until=until)

    # common/staging.cuh and common/products.cuh

    def begin(self, values: Values) -> Iterator[Instruction]:
        yield from self.fetch(values, late=False)

    def multiply(self, values: Values, following: Values | None = None) -> Iterator[Instruction]:
        self.products += 1
        yield from self.fetch(values, late=True)
        yield Store(staged(self.block, self.warp, self.lane), self.products)
        if following is not None:
            yield from self.begin(following)
        if self.rules.staging_barrier:
            yield Barrier("warp" if self.shape.sharing == 1 else "block")
        for warp in range(self.part, self.shape.warps, len(self.shape.producers)):
            yield self.load(staged(self.block, warp, (self.lane + 1) % self.shape.lanes), expected=self.products)
        if self.shape.sums:
            yield Store(partial(self.block, self.warp, self.lane), self.products)
        yield from self.barrier_of_block(self.rules.product_barrier)
        for warp in range(self.shape.warps if self.shape.sums else 0):
            yield self.load(partial(self.block, warp, (self.lane + 1) % self.shape.lanes), expected=self.products)


def element(buffer: str, block: int, thread: int) -> str:
    return f"{buffer} of {block}.{thread}"


def words(buffer: str, block: int, shape: Shape, rules: Rules) -> list[str | tuple[str, ...]]:
    elements = [element(buffer, block, thread) for thread in range(shape.threads)]
    if not shape.halves:
        return [*elements]
    return [*zip(elements[::2], elements[1::2], strict=True)] if rules.lone_halves else [*elements[::2]]


def flag(block: int) -> str:
    return f"flag of {block}"


def staged(block: int, warp: int, lane: int) -> str:
    return f"operand in {block}.{warp}.{lane}"


def partial(block: int, warp: int, lane: int) -> str:
    return f"partial sum of {block}.{warp}.{lane}"


def at_least(awaited: int) -> Callable[[int], bool]:
    return lambda value: value >= awaited


# the kernels


def forward(member: Member, resets: bool = False) -> Iterator[Instruction]:
    """`persistent_grid` of recurrent/persistent_grid.cu."""
    shape, turns, reset_turns = member.shape, member.turns(2), member.turns(1)

    def hidden(step: int, number: int) -> Values:
        return f"hidden {step % turns}, pass {number}", step + 1

    def reset(step: int, number: int) -> Values:
        return f"reset {step % reset_turns}, pass {number}", step + 1

    def multiply(values: Callable[[int, int], Values], step: int, number: int) -> Iterator[Instruction]:
        if number == 0:
            yield from member.wait()
            yield from member.begin(values(step, 0))
        yield from member.multiply(values(step, number), values(step, number + 1) if number + 1 < shape.passes else None)

    for number in range(shape.passes):
        yield from member.store(*hidden(0, number))
    yield from member.release()
    for step in range(shape.steps):
        for number in range(shape.passes if resets else 0):
            yield from multiply(hidden, step, number)
            yield from member.store(*reset(step, number))
            if number + 1 < shape.passes:
                yield from member.barrier_of_block(member.rules.pass_barrier)
            else:
                yield from member.release()
        for number in range(shape.passes):
            yield from multiply(reset if resets else hidden, step, number)
            if step + 1 < shape.steps:
                if member.rules.clears and step > 0:
                    yield from member.store(hidden(step - 1, number)[0], SENTINEL)
                yield from member.store(*hidden(step + 1, number))
            if number + 1 < shape.passes:
                yield from member.barrier_of_block(member.rules.pass_barrier)
            elif step + 1 < shape.steps:
                yield from member.release()


def forward_resets(member: Member) -> Iterator[Instruction]:
    """The same for a Gru that resets before the product."""
    return forward(member, resets=True)


def gradient(member: Member, resets: bool = False) -> Iterator[Instruction]:
    """`persistent_grid` of recurrent/persistent_grid_gradient.cu."""
    shape, turns = member.shape, member.turns(1 if resets else 2)

    def values(name: str, step: int, number: int) -> Values:
        return f"{name} {step % turns}, pass {number}", step + 1

    def multiply(values: Values, fewer: int) -> Iterator[Instruction]:
        yield from member.wait(fewer)
        yield from member.begin(values)
        yield from member.multiply(values)

    for step in range(shape.steps + 1):
        for number in range(shape.passes):
            if step > 0:
                since = shape.passes - 1 if step < shape.steps else shape.passes - 1 - number
                yield from multiply(values("sums", step - 1, number), (2 if resets else 1) * since)
            if step == shape.steps:
                yield from member.barrier_of_block()
                continue
            if resets:
                yield from member.store(*values("reset", step, number))
                yield from member.release()
                yield from multiply(values("reset", step, number), 0)
            yield from member.store(*values("sums", step, number))
            yield from member.release()


def gradient_resets(member: Member) -> Iterator[Instruction]:
    """The same for a Gru that resets before the product."""
    return gradient(member, resets=True)


KERNELS: dict[str, Callable[[Member], Iterator[Instruction]]] = {
    "forward": forward,
    "forward, resetting": forward_resets,
    "gradient": gradient,
    "gradient, resetting": gradient_resets,
}


def program(kernel: Callable[[Member], Iterator[Instruction]], shape: Shape, rules: Rules = Rules()) -> Program:
    """All threads of a group of blocks."""
    threads: list[Thread] = []
    initial: dict[str, int] = {}
    for block in range(shape.blocks):
        for warp in range(shape.warps):
            for lane in range(shape.lanes):
                member = Member(shape, rules, block, warp, lane)
                threads.append(Thread(block, tuple(kernel(member)), warp))
                initial |= member.initial
    return Program(threads, initial)
