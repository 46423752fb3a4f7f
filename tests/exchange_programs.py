"""What the blocks of the recurrent `grid` kernels do to memory that they share, as programs for the memory model.

A program is written as the kernels are: `Member` has the parts of `Exchange` (raw_kernels/common/exchange.cuh), and `KERNELS` are the loops
over steps and passes of recurrent/grid.cu and recurrent/grid_gradient.cu. What a thread does alone is left out. In each exchange every
thread puts one value, the number of the step, counted from 1; memory holds zeros before.

To memory a product is this: each warp reads what the blocks that it waits for have put, each lane writes a partial sum to shared memory,
and after a barrier other threads read it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from tests.ptx_programs import Barrier, Instruction, Load, LoadOrder, Program, Scope, Store, StoreOrder, Thread

SENTINEL = -1
"""What a word holds before the launch where the data is its own flag."""


@dataclass(frozen=True)
class Shape:
    """How much of a kernel is modelled.

    Attributes:
        producers: for each warp of a block the first and the last block whose values it needs. In the kernels every block is some warp's.
        lanes: of a warp.
        passes: over the samples of a block.
        halves: neighbouring threads put the halves of one word, and it is read whole.
        sums: products leave partial sums, and others read them.
    """

    blocks: int = 2
    producers: tuple[tuple[int, int], ...] = ((0, 1),)
    lanes: int = 2
    steps: int = 3
    passes: int = 1
    halves: bool = False
    sums: bool = True

    @property
    def threads(self) -> int:
        return len(self.producers) * self.lanes


@dataclass(frozen=True)
class Rules:
    """What a mutation changes; the defaults are the kernels'.

    Attributes:
        put, read: how values are written and read.
        polls: how a wait looks at a flag.
        raises, acquires: how a flag is raised, and how it is read once it is up.
        scope: of raising and acquiring.
        publish_barrier, product_barrier, pass_barrier, warp_barrier: that of `publish`, the one between a product and its sums, the one
            between two passes that publish together, and that of `wait`.
        turns: how many buffers take turns; the kernel's number if 0.
        early: how many exchanges less are waited for.
        flags: what the flags hold before the launch.
        clears: where the data is its own flag, a thread puts the sentinel back in place of a value that all have read.
    """

    put: StoreOrder = "relaxed"
    read: LoadOrder = "relaxed"
    polls: LoadOrder = "relaxed"
    raises: StoreOrder = "release"
    acquires: LoadOrder | None = "acquire"
    scope: Scope = "gpu"
    publish_barrier: bool = True
    product_barrier: bool = True
    pass_barrier: bool = True
    warp_barrier: bool = True
    turns: int = 0
    early: int = 0
    flags: int = 0
    clears: bool = False


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

    def load(self, place: str | tuple[str, ...], **how: object) -> Load:
        self.loads += 1
        what = place if isinstance(place, str) else " and ".join(place)
        return Load(f"block {self.block}, thread {self.thread}, load {self.loads}: {what}", place, **how)  # type: ignore[arg-type]

    # common/exchange.cuh

    def put(self, buffer: str, value: int) -> Iterator[Instruction]:
        yield Store(element(buffer, self.block, self.thread), value, self.rules.put)

    def publish(self) -> Iterator[Instruction]:
        self.epoch += 1
        if self.rules.publish_barrier:
            yield Barrier("block")
        if self.thread == 0:
            yield Store(flag(self.block), self.epoch, self.rules.raises, self.rules.scope)

    def wait(self, fewer: int = 0) -> Iterator[Instruction]:
        awaited = self.epoch - fewer - self.rules.early
        first, last = self.shape.producers[self.warp]
        for block in range(first + self.lane, last + 1, self.shape.lanes):
            self.initial[flag(block)] = self.rules.flags
            yield self.load(flag(block), order=self.rules.polls, until=at_least(awaited))
            if self.rules.acquires is not None:
                yield self.load(flag(block), order=self.rules.acquires, scope=self.rules.scope)
        if self.rules.warp_barrier:
            yield Barrier("warp")

    def end_of_pass(self) -> Iterator[Instruction]:
        if self.rules.pass_barrier:
            yield Barrier("block")

    # common/products.cuh

    def multiply(self, buffer: str, expected: int) -> Iterator[Instruction]:
        yield from self.fetch(buffer, expected)
        yield from self.sums()

    def fetch(self, buffer: str, expected: int, until: Callable[[int], bool] | None = None) -> Iterator[Instruction]:
        first, last = self.shape.producers[self.warp]
        for block in range(first, last + 1):
            for word in words(buffer, block, self.shape):
                yield self.load(word, order=self.rules.read, expected=expected, until=until)

    def sums(self) -> Iterator[Instruction]:
        self.products += 1
        if self.shape.sums:
            yield Store(partial(self.block, self.warp, self.lane), self.products)
        if self.rules.product_barrier:
            yield Barrier("block")
        for warp in range(len(self.shape.producers) if self.shape.sums else 0):
            other = (self.lane + 1) % self.shape.lanes
            yield self.load(partial(self.block, warp, other), expected=self.products)


def element(buffer: str, block: int, thread: int) -> str:
    return f"{buffer} of {block}.{thread}"


def words(buffer: str, block: int, shape: Shape) -> list[str | tuple[str, ...]]:
    elements = [element(buffer, block, thread) for thread in range(shape.threads)]
    return [*zip(elements[::2], elements[1::2], strict=True)] if shape.halves else [*elements]


def flag(block: int) -> str:
    return f"flag of {block}"


def partial(block: int, warp: int, lane: int) -> str:
    return f"partial sum of {block}.{warp}.{lane}"


def at_least(awaited: int) -> Callable[[int], bool]:
    return lambda value: value >= awaited


# the kernels


def forward(member: Member) -> Iterator[Instruction]:
    """`grid` of recurrent/grid.cu, for the cells with one product a step."""
    shape, turns = member.shape, member.rules.turns or 2

    def hidden(step: int, number: int) -> str:
        return f"hidden {step % turns}, pass {number}"

    for number in range(shape.passes):
        yield from member.put(hidden(0, number), 1)
    yield from member.publish()
    for step in range(shape.steps):
        for number in range(shape.passes):
            if number == 0:
                yield from member.wait()
            yield from member.multiply(hidden(step, number), step + 1)
            if step + 1 < shape.steps:
                yield from member.put(hidden(step + 1, number), step + 2)
            if number + 1 < shape.passes:
                yield from member.end_of_pass()
            elif step + 1 < shape.steps:
                yield from member.publish()


def forward_resets(member: Member) -> Iterator[Instruction]:
    """`grid` of recurrent/grid.cu, for a Gru that resets before the product."""
    shape, turns = member.shape, member.rules.turns or 2

    def hidden(step: int, number: int) -> str:
        return f"hidden {step % turns}, pass {number}"

    for number in range(shape.passes):
        yield from member.put(hidden(0, number), 1)
    yield from member.publish()
    for step in range(shape.steps):
        for number in range(shape.passes):
            if number == 0:
                yield from member.wait()
            yield from member.multiply(hidden(step, number), step + 1)
            yield from member.put(f"reset, pass {number}", step + 1)
            if number + 1 < shape.passes:
                yield from member.end_of_pass()
            else:
                yield from member.publish()
        for number in range(shape.passes):
            if number == 0:
                yield from member.wait()
            yield from member.multiply(f"reset, pass {number}", step + 1)
            if step + 1 < shape.steps:
                yield from member.put(hidden(step + 1, number), step + 2)
            if number + 1 < shape.passes:
                yield from member.end_of_pass()
            elif step + 1 < shape.steps:
                yield from member.publish()


def gradient(member: Member, resets: bool = False) -> Iterator[Instruction]:
    """`grid` of recurrent/grid_gradient.cu."""
    shape, turns = member.shape, member.rules.turns or (1 if resets else 2)

    def buffer(name: str, step: int, number: int) -> str:
        return f"{name} {step % turns}, pass {number}"

    for step in range(shape.steps + 1):
        for number in range(shape.passes):
            if step > 0:
                since = shape.passes - 1 if step < shape.steps else shape.passes - 1 - number
                yield from member.wait((2 if resets else 1) * since)
                yield from member.multiply(buffer("sums", step - 1, number), step)
            if step == shape.steps:
                yield Barrier("block")
                continue
            if resets:
                yield from member.put(buffer("reset", step, number), step + 1)
                yield from member.publish()
                yield from member.wait()
                yield from member.multiply(buffer("reset", step, number), step + 1)
            yield from member.put(buffer("sums", step, number), step + 1)
            yield from member.publish()


def gradient_resets(member: Member) -> Iterator[Instruction]:
    """The same for a Gru that resets before the product."""
    return gradient(member, resets=True)


def data_as_flag(member: Member) -> Iterator[Instruction]:
    """An exchange without flags and fences: each step has a buffer of its own, which holds a sentinel before the launch; who needs a value
    polls it until it is another. The barriers are there for the partial sums alone.
    """
    shape, turns = member.shape, member.rules.turns or member.shape.steps

    def hidden(step: int) -> str:
        return f"hidden {step % turns}"

    def clear(step: int) -> Iterator[Instruction]:
        if step >= 0 and member.rules.clears:
            yield from member.put(hidden(step), SENTINEL)

    member.initial |= {element(hidden(step), member.block, member.thread): SENTINEL for step in range(shape.steps)}
    yield from member.put(hidden(0), 1)
    for step in range(shape.steps):
        yield from member.fetch(hidden(step), step + 1, until=SENTINEL.__ne__)
        yield from member.sums()
        if step + 1 < shape.steps:
            yield from clear(step - 1)
            yield from member.put(hidden(step + 1), step + 2)
        if member.rules.publish_barrier:
            yield Barrier("block")


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
        for warp in range(len(shape.producers)):
            for lane in range(shape.lanes):
                member = Member(shape, rules, block, warp, lane)
                threads.append(Thread(block, tuple(kernel(member)), warp))
                initial |= member.initial
    return Program(threads, initial)
