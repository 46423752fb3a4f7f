"""What a GPU executes: the instructions of a cubin with their control bits, as a control flow graph. It needs nvdisasm, and no GPU.

NVIDIA documents neither the encoding nor the control bits, which are in the upper half of an instruction's 128 bits from Volta on: bits
105 to 108 are the cycles until the warp's next instruction may issue, 109 whether another warp had better go first, 110 to 112 the barrier
that is raised until the result is written, 113 to 115 the one that is raised until the operands are read (7: none), 116 to 121 the barriers
that have to be down before the instruction issues, 122 to 125 the operands that are reused by the next one. Barriers are of a warp, six in
number. A load's result is used after a wait for its barrier; loads may share one.
"""

from __future__ import annotations

import functools
import importlib.util
import re
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_NO_BARRIER = 7
_TEXT = re.compile(
    r"/\*[0-9a-f]+\*/\s+(?:@(?P<predicate>!?U?P[T0-9]+)\s+)?(?P<opcode>[A-Z][\w.]*)\s*(?P<operands>.*?)\s*;\s*/\* 0x[0-9a-f]{16} \*/"
)
_UPPER = re.compile(r"/\* 0x([0-9a-f]{16}) \*/")
_LABEL = re.compile(r"(\.L_\w+):")
_PLACE = re.compile(r'//## File "([^"]+)", line (\d+)( inlined at)?')
_LABELS = re.compile(r"\.L_\w+")
_TARGET = re.compile(r"`\((\.L_\w+)\)")
_CONVERGENCE = re.compile(r"B\d+")
_PREDICATES = re.compile(r"!?U?P\d")
_SECTION = re.compile(r"^\.text\.(\S+):$", re.MULTILINE)

KINDS = {
    "product": ("HMMA", "IMMA", "DMMA", "BMMA", "QMMA"),
    "float": (
        "FFMA", "FADD", "FMUL", "FMNMX", "FSEL", "FSETP", "FSET", "FCHK", "FSWZADD", "MUFU", "HADD2", "HMUL2", "HFMA2", "HSETP2", "HMNMX2",
        "DADD", "DMUL", "DFMA", "DSETP", "F2F", "F2FP", "F2I", "I2F", "I2FP", "FRND",
    ),
    "global": ("LDG", "STG", "LD", "ST", "ATOM", "ATOMG", "RED", "REDG", "CCTL", "LDGSTS", "LDL", "STL"),
    "shared": ("LDS", "STS", "STAS", "LDSM", "STSM", "ATOMS", "SHFL"),
    "constant": ("LDC", "ULDC", "S2R", "S2UR", "CS2R", "LDCU", "S2CS"),
    "barrier": ("BAR", "WARPSYNC", "MEMBAR", "DEPBAR", "LDGDEPBAR", "ERRBAR", "UCGABAR_ARV", "UCGABAR_WAIT", "SYNCS", "FENCE", "NANOSLEEP"),
    "control": ("BRA", "BRX", "BSSY", "BSYNC", "BREAK", "CALL", "RET", "EXIT", "BPT", "NOP", "VOTE", "VOTEU", "YIELD", "JMP", "BMOV"),
}  # fmt: skip
"""Opcodes by what they do; all others are of integers and bits, addresses and predicates, or moves."""
_KIND_OF = {opcode: kind for kind, opcodes in KINDS.items() for opcode in opcodes}
_GLOBAL_LOADS = ("LDG", "LD")


class SassError(Exception):
    """The disassembly has something that this reader does not understand."""


@dataclass(frozen=True)
class Instruction:
    """One instruction.

    Attributes:
        opcode: with its modifiers, LDG.E.128.
        operands: as nvdisasm prints them.
        predicate: under which it executes; None: always.
        stall: cycles until the next one may issue.
        write_barrier: raised until the result is there; None if there is none.
        waits: the barriers that it waits for.
        places: file and line of the statement, then of the calls that it was inlined by; empty without line information.
    """

    opcode: str
    operands: str
    predicate: str | None
    stall: int
    write_barrier: int | None
    waits: frozenset[int]
    places: tuple[tuple[str, int], ...] = ()

    @property
    def name(self) -> str:
        """The opcode without modifiers."""
        return self.opcode.partition(".")[0]

    @property
    def kind(self) -> str:
        """What it does, see `KINDS`; "integer" for all else."""
        return _KIND_OF.get(self.name, "integer")

    @property
    def loads_globally(self) -> bool:
        """Whether it loads from global memory into registers."""
        return self.name in _GLOBAL_LOADS

    @property
    def target(self) -> str | None:
        """The label that it names."""
        found = _TARGET.search(self.operands)
        return None if found is None else found[1]

    @property
    def branches_always(self) -> bool:
        """Whether a branch is taken by all threads: no predicate, and the label is the only operand."""
        return self.predicate is None and self.operands.startswith("`")

    @property
    def jumps_by_call(self) -> bool:
        """Whether it is a call, under a predicate, of a label of the same kernel: before 9.0 the compiler leaves loops so."""
        return self.name == "CALL" and self.predicate is not None and self.target is not None


@dataclass(frozen=True)
class Block:
    """Instructions that are executed one after the other, and the numbers of the blocks that may follow."""

    instructions: tuple[Instruction, ...]
    following: tuple[int, ...]

    def has(self, *names: str) -> bool:
        return any(instruction.name in names for instruction in self.instructions)

    @property
    def calls(self) -> bool:
        """Whether it calls a function."""
        return any(instruction.name == "CALL" and not instruction.jumps_by_call for instruction in self.instructions)

    @property
    def gathers(self) -> bool:
        """Whether it brings threads of a warp that have parted together for what all do at once: where they have not, it is passed by."""
        return any(instruction.opcode == "WARPSYNC.COLLECTIVE" for instruction in self.instructions)


@dataclass(frozen=True)
class Loop:
    """A natural loop: blocks of which each is reached through the header, and leads back to it."""

    header: int
    blocks: frozenset[int]


@dataclass(frozen=True)
class Code:
    """A kernel: its blocks in the order of their addresses, of which the first is the entry."""

    blocks: tuple[Block, ...]

    @functools.cached_property
    def loops(self) -> tuple[Loop, ...]:
        """All of them; loops of one header are one."""
        found: dict[int, set[int]] = {}
        for end, dominators in self.dominators.items():
            for header in dominators.intersection(self.blocks[end].following):
                inside = found.setdefault(header, {header})
                waiting = [end]
                while waiting:
                    number = waiting.pop()
                    if number not in inside:
                        inside.add(number)
                        waiting += self._preceding[number]
        return tuple(Loop(header, frozenset(inside)) for header, inside in found.items())

    def instructions(self, loop: Loop) -> Iterator[Instruction]:
        for number in sorted(loop.blocks):
            yield from self.blocks[number].instructions

    def places_of(self, loop: Loop) -> tuple[tuple[str, int], ...]:
        """The file and line of each branch that leads back to the header, and of the comparison that it goes by."""
        found = []
        for number in sorted(loop.blocks):
            if loop.header in self.blocks[number].following:
                *before, branch = self.blocks[number].instructions
                by = {name.lstrip("!") for name in (branch.predicate or "", *_PREDICATES.findall(branch.operands))}
                comparison = next((one for one in reversed(before) if by.intersection(one.operands.split(", ")[:2])), branch)
                found += [one.places[0] for one in (branch, comparison) if one.places]
        return tuple(dict.fromkeys(found))

    @functools.cached_property
    def _preceding(self) -> dict[int, list[int]]:
        """Of each block that can be reached, the entry first, those that it may follow."""
        found: dict[int, list[int]] = {0: []}
        waiting = [0]
        while waiting:
            number = waiting.pop()
            for after in self.blocks[number].following:
                if after not in found:
                    found[after] = []
                    waiting.append(after)
                found[after].append(number)
        return found

    @functools.cached_property
    def dominators(self) -> dict[int, frozenset[int]]:
        """Of each block that can be reached, those that every way to it passes, itself among them."""
        found = dict.fromkeys(self._preceding, frozenset(self._preceding)) | {0: frozenset({0})}
        changed = True
        while changed:
            changed = False
            for number, before in self._preceding.items():
                of_all = frozenset.intersection(*(found[other] for other in before)) | {number} if number else found[0]
                if of_all != found[number]:
                    found[number], changed = of_all, True
        return found


def nvdisasm() -> Path | None:
    """The program of the package nvidia-cuda-nvdisasm; None where it is missing."""
    package = importlib.util.find_spec("nvidia")
    roots = [] if package is None else [Path(root) for root in package.submodule_search_locations or ()]
    return max((path for root in roots for path in root.glob("*/bin/nvdisasm")), default=None)


def disassemble(image: bytes) -> str:
    """A cubin as nvdisasm prints it: code with encodings, lines and inlining.

    Raises:
        FileNotFoundError: nvdisasm is missing.
        SassError: it refuses the image.
    """
    program = nvdisasm()
    if program is None:
        raise FileNotFoundError("nvdisasm")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "kernel.cubin"
        file.write_bytes(image)
        done = subprocess.run([program, "-c", "-hex", "-gi", file], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SassError(f"nvdisasm: {done.stderr.strip()}")
    return done.stdout


def code_of(text: str, symbol: str) -> Code:
    """A kernel in a disassembly. Functions that it calls are not part of it.

    Raises:
        SassError: the kernel is not there, or has something that is not understood.
    """
    lines, labels = _read(text, symbol)
    starts = {0, *labels.values()}
    for number, instruction in enumerate(lines):
        if instruction.name in ("BRA", "BRX", "BSYNC", "EXIT", "RET", "BPT", "JMP", "BREAK") or instruction.jumps_by_call:
            starts.add(number + 1)
    bounds = sorted(start for start in starts if start < len(lines))
    block_at = {start: number for number, start in enumerate(bounds)}
    blocks = {label: block_at[start] for label, start in labels.items() if start in block_at}
    parts = [tuple(lines[start:end]) for start, end in zip(bounds, [*bounds[1:], len(lines)], strict=True)]
    return Code(_connected(parts, blocks))


def _read(text: str, symbol: str) -> tuple[list[Instruction], dict[str, int]]:
    """The instructions of a kernel, and of each label the number of the first one after it."""
    sections = list(_SECTION.finditer(text))
    found = next((number for number, section in enumerate(sections) if section[1] == symbol), None)
    if found is None:
        raise SassError(f"{symbol} is not among {[section[1] for section in sections]}")
    end = sections[found + 1].start() if found + 1 < len(sections) else len(text)
    instructions: list[Instruction] = []
    labels: dict[str, int] = {}
    places: list[tuple[str, int]] = []
    fresh = True
    body = iter(text[sections[found].end() : end].splitlines())
    for line in body:
        if (label := _LABEL.fullmatch(line.strip())) is not None:
            labels[label[1]] = len(instructions)
        elif (place := _PLACE.search(line)) is not None:
            if fresh:
                places, fresh = [], False
            places.append((place[1], int(place[2])))
            fresh = place[3] is None
        elif (instruction := _TEXT.search(line)) is not None:
            instructions.append(_instruction(instruction, next(body), tuple(places)))
        elif re.search(r"/\*[0-9a-f]{4,}\*/", line):
            raise SassError(f"not understood: {line.strip()}")
        elif "SYMBOLS" in line or line.startswith("\t.section"):
            break
    return instructions, labels


def _instruction(found: re.Match[str], next_line: str, places: tuple[tuple[str, int], ...]) -> Instruction:
    upper = _UPPER.search(next_line)
    if upper is None:
        raise SassError(f"no upper half of {found[0]}: {next_line.strip()}")
    control = int(upper[1], 16) >> 41
    barrier = control >> 5 & 7
    return Instruction(
        found["opcode"],
        found["operands"],
        found["predicate"],
        stall=control & 15,
        write_barrier=None if barrier == _NO_BARRIER else barrier,
        waits=frozenset(number for number in range(6) if control >> 11 + number & 1),
        places=places,
    )


def _connected(parts: list[tuple[Instruction, ...]], blocks: dict[str, int]) -> tuple[Block, ...]:
    """Blocks with those that follow. Where threads converge (BSYNC) the way continues at the label of the BSSY that came before."""
    following: list[set[int]] = [set() for _ in parts]
    states: list[dict[str, set[int]] | None] = [None] * len(parts)  # where convergence registers lead, at a block's begin
    states[0] = {}
    waiting = [0]
    while waiting:
        number = waiting.pop()
        state = {register: set(labels) for register, labels in (states[number] or {}).items()}
        for instruction in parts[number]:
            if instruction.name == "BSSY" and instruction.target is not None:
                state[_register(instruction)] = {blocks[instruction.target]}
        following[number] = _following(number, parts, blocks, state)
        for after in following[number]:
            known = states[after]
            merged = {register: set(labels) for register, labels in (known or {}).items()}
            for register, labels in state.items():
                merged.setdefault(register, set()).update(labels)
            if known != merged:
                states[after] = merged
                waiting.append(after)
    return tuple(Block(part, tuple(sorted(after))) for part, after in zip(parts, following, strict=True))


def _following(number: int, parts: list[tuple[Instruction, ...]], blocks: dict[str, int], state: dict[str, set[int]]) -> set[int]:
    last = parts[number][-1]
    next_one = {number + 1} if number + 1 < len(parts) else set()
    if last.name == "BRA":
        if last.target is None:
            raise SassError(f"a branch without a label: {last.opcode} {last.operands}")
        return {blocks[last.target]} | (set() if last.branches_always else next_one)
    if last.jumps_by_call:
        return next_one | {blocks[target] for target in [last.target] if target in blocks}
    if last.name == "BSYNC":
        return state.get(_register(last), next_one) | (next_one if last.predicate else set())
    if last.name == "BRX":
        return {blocks[label] for label in _LABELS.findall(last.operands)} | (next_one if last.predicate else set())
    if last.name in ("EXIT", "RET", "BPT"):
        return next_one if last.predicate else set()
    if last.name == "BREAK":
        return next_one  # threads that are to part leave the barrier, and continue as before
    if last.name == "JMP":
        raise SassError(f"not understood: {last.opcode} {last.operands}")
    return next_one


def _register(instruction: Instruction) -> str:
    found = _CONVERGENCE.search(instruction.operands)
    if found is None:
        raise SassError(f"no convergence register: {instruction.opcode} {instruction.operands}")
    return found[0]
