"""The pattern language for sizes: `"1 num_directions 4*hidden_size input_size"`.

A pattern has one term for each dimension: an integer, a symbol, `k*symbol`, or once `*symbol` for a run of dimensions.
Symbols are bound by the evidence of all tensors: the value that most places hold wins, and those that hold another are wrong.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from typing import NamedTuple

MAX_SIZE = 2**32 - 1
_TERM = re.compile(r"(?P<number>\d+)$|(?:(?P<factor>\d+)\*)?(?P<symbol>[a-z]\w*)$|\*(?P<run>[a-z]\w*)$")


class Term(NamedTuple):
    """One dimension of a pattern: `factor * symbol`, or a plain number where there is no symbol."""

    factor: int
    symbol: str | None = None
    run: bool = False

    def __str__(self) -> str:
        if self.symbol is None:
            return str(self.factor)
        return f"*{self.symbol}" if self.run else self.symbol if self.factor == 1 else f"{self.factor}*{self.symbol}"


@cache
def parse(pattern: str) -> tuple[Term, ...]:
    """The terms of a pattern.

    Raises:
        ValueError: a term is none of the four forms, or there is more than one run.
    """
    terms = []
    for text in pattern.split():
        match = _TERM.match(text)
        if match is None:
            raise ValueError(f"{text!r} in the size pattern {pattern!r} is not an integer, symbol, k*symbol or *symbol")
        if match["number"]:
            terms.append(Term(int(match["number"])))
        else:
            terms.append(Term(int(match["factor"] or 1), match["symbol"] or match["run"], run=match["run"] is not None))
    if sum(term.run for term in terms) > 1:
        raise ValueError(f"the size pattern {pattern!r} has more than one run")
    return tuple(terms)


def run_of(terms: Sequence[Term], dimension_count: int) -> tuple[Term, int] | None:
    """The symbol for the length of a pattern's run, and its length in a tensor of this many dimensions; None if there is no run."""
    run = _length_of_run(tuple(terms))
    return None if run is None else (run, dimension_count - len(terms) + 1)


@lru_cache(4096)
def _length_of_run(terms: tuple[Term, ...]) -> Term | None:
    run = next((term for term in terms if term.run), None)
    return None if run is None else Term(1, f"len({run.symbol})")


def align(terms: Sequence[Term], dimension_count: int) -> tuple[Term, ...] | None:
    """Expands a pattern's run over the dimensions that it covers (`sizes[0]`, `sizes[1]`, ...); None if the counts do not fit."""
    return _aligned(tuple(terms), dimension_count)


@lru_cache(4096)
def _aligned(terms: tuple[Term, ...], dimension_count: int) -> tuple[Term, ...] | None:
    run = run_of(terms, dimension_count)
    if run is None:
        return terms if len(terms) == dimension_count else None
    width = run[1]
    if width < 0:
        return None
    spread: list[Term] = []
    for term in terms:
        spread.extend([Term(1, f"{term.symbol}[{index}]") for index in range(width)] if term.run else [term])
    return tuple(spread)


@dataclass
class _Evidence:
    """The places that hold one value of a symbol, and how much they say together."""

    value: int
    places: list[str] = field(default_factory=list)
    weight: float = 0.0


class _Votes:
    """The evidence of all places for the values of symbols."""

    def __init__(self) -> None:
        self._evidence: dict[str, list[_Evidence]] = {}
        self._by_value: dict[tuple[str, int], _Evidence] = {}
        self._are_numbers = True
        self._winners: dict[str, _Evidence] = {}

    def add_tensor(self, tensor: _Tensor) -> None:
        if tensor.run is not None:
            self._add(*tensor.run, f"{tensor.place}.sizes")
        for axis, (term, size) in enumerate(zip(tensor.terms, tensor.sizes, strict=True)):
            self._add(term, size, f"{tensor.place}.sizes[{axis}]")

    def _add(self, term: Term, size: int, place: str) -> None:
        if (value := _value_of(term, size)) is None or term.symbol is None:
            return
        evidence = self._evidence_of(term.symbol, value)
        evidence.places.append(place)
        evidence.weight += 1 / term.factor  # a multiple says less: 4 rows of an LSTM's weights are 4 units as likely as 4*1
        self._winners.pop(term.symbol, None)

    def _evidence_of(self, symbol: str, value: int) -> _Evidence:
        """The evidence for a value of a symbol; without places if the value is new."""
        known = self._evidence.setdefault(symbol, [])
        is_number = type(value) is int
        if is_number and self._are_numbers:  # looked up, as a hostile desc may have many different ones
            evidence = self._by_value.get((symbol, value))
        else:  # symbolic sizes have no hash
            evidence = next((each for each in known if each.value == value), None)
        if evidence is None:
            evidence = _Evidence(value)
            known.append(evidence)
            if is_number:
                self._by_value[symbol, value] = evidence
            self._are_numbers &= is_number
        return evidence

    def winner(self, symbol: str) -> _Evidence | None:
        if (winner := self._winners.get(symbol)) is None and (known := self._evidence.get(symbol)) is not None:
            # max() keeps the first of equals, so a tie goes to the value of the earliest field.
            winner = known[0] if len(known) == 1 else max(known, key=lambda evidence: round(evidence.weight, 6))
            self._winners[symbol] = winner
        return winner


class _Tensor(NamedTuple):
    """The sizes of a tensor, with the terms of its pattern for each, and the symbol for the length of the pattern's run with its value."""

    place: str
    terms: Sequence[Term]
    sizes: Sequence[int]
    run: tuple[Term, int] | None


def _value_of(term: Term, size: int) -> int | None:
    """The value of a term's symbol by a size; None if the size is illegal, or no value explains it, or there is no symbol."""
    symbol, factor = term.symbol, term.factor
    if symbol is None:
        return None
    least = 0 if symbol.startswith("len(") else 1  # a run may cover no dimension
    return None if not least <= size <= MAX_SIZE or size % factor else size // factor


class UnboundSymbolError(KeyError):
    """Raised if no tensor and no attribute binds a symbol. `@derived` methods raise it where attributes make no sense."""


@dataclass(frozen=True)
class Explained:
    """A derived value with a separate reason: `Explained(13, "(28 + 0 + 0 - 3) // 2 + 1")`."""

    value: int
    reason: str


Derived = int | Explained


class Sizes(Mapping[str, int]):
    """The symbols of a desc bound to numbers, each with the reason for its value."""

    def __init__(self) -> None:
        self._fixed: dict[str, tuple[int, str | Callable[[], str]]] = {}
        self._tensors: list[_Tensor] = []
        self._first: dict[str, int] = {}
        """The first value that a tensor has for each symbol: as a rule, all others have it, too."""
        self._votes: _Votes | None = None
        """The evidence of all tensors, once two of them differ, or a reason is read."""
        self._fallbacks: dict[str, int] = {}
        self._read_symbols: list[str] | None = None
        """The symbols that a formula has read; None where none is computed: many threads may read at the same time."""

    def fix(self, symbol: str, value: int, reason: str | Callable[[], str]) -> None:
        """Binds a symbol by an attribute, which outranks every tensor; a reason that is a function is called when it is read."""
        self._fixed[symbol] = (value, reason)

    def derive(self, symbol: str, compute: Callable[[Sizes], Derived | Sequence[Derived]], formula: str) -> None:
        """Binds a symbol, or a run of dimensions, by others.

        The reason names the symbols that were read, with the place if only one holds the value; an `Explained` value brings its reason.

        Raises:
            UnboundSymbolError: one of the others is unbound.
        """
        read: list[str] = []
        self._read_symbols = read
        try:
            value = compute(self)
        finally:
            self._read_symbols = None
        known = [(other, self[other], other in self._fixed) for other in dict.fromkeys(read)]

        def reason() -> str:
            terms = []
            for other, value, is_fixed in known:
                winner = None if is_fixed else self._counted().winner(other)
                terms.append(f"{other} = {value}" + (f" ({winner.places[0]})" if winner and len(winner.places) == 1 else ""))
            return f"{formula}, for {', '.join(terms)}" if terms else formula

        if isinstance(value, Sequence):
            self.fix(f"len({symbol})", len(value), reason)
            for index, item in enumerate(value):
                self._fix_derived(f"{symbol}[{index}]", item, formula)
        else:
            self._fix_derived(symbol, value, reason)

    def _fix_derived(self, symbol: str, value: Derived, reason: str | Callable[[], str]) -> None:
        self.fix(symbol, *((value.value, value.reason) if isinstance(value, Explained) else (value, reason)))

    def add_tensor(self, place: str, pattern: Sequence[Term], terms: Sequence[Term], sizes: Sequence[int]) -> None:
        """Counts the sizes of a tensor as evidence for the symbols of its terms, and their number as evidence for the length of a run.

        Sizes that are illegal, or that no value of the symbol explains, say nothing.

        Args:
            place: the tensor.
            pattern: its pattern.
            terms: the pattern's term for each dimension.
            sizes: the size of each dimension.
        """
        tensor = _Tensor(place, terms, sizes, run_of(pattern, len(sizes)))
        self._tensors.append(tensor)
        if self._votes is not None:
            self._votes.add_tensor(tensor)
        first, agree = self._first, True
        if tensor.run is not None:
            term, length = tensor.run
            agree = first.setdefault(str(term), length) == length
        for term, size in zip(terms, sizes, strict=True):
            if (symbol := term.symbol) is None or not 1 <= size <= MAX_SIZE:
                continue
            if term.factor != 1:
                if size % term.factor:
                    continue
                size //= term.factor
            earlier = first.setdefault(symbol, size)
            agree = (earlier is size or earlier == size) and agree
        if not agree:
            self._counted()

    def _counted(self) -> _Votes:
        """The evidence of all tensors."""
        if self._votes is None:
            votes = _Votes()
            for tensor in self._tensors:
                votes.add_tensor(tensor)
            self._votes = votes
        return self._votes

    def add_fallback(self, term: Term, size: int) -> None:
        """Adds the value by a tensor with a wrong dimension count, which counts only if nothing else binds the symbol."""
        if term.symbol is not None and 1 <= size <= MAX_SIZE and size % term.factor == 0:
            self._fallbacks.setdefault(term.symbol, size // term.factor)

    def __getitem__(self, symbol: str) -> int:
        if self._read_symbols is not None:
            self._read_symbols.append(symbol)
        if (fixed := self._fixed.get(symbol)) is not None:
            return fixed[0]
        if (first := self._first.get(symbol)) is not None:
            return first if self._votes is None or (winner := self._votes.winner(symbol)) is None else winner.value
        if symbol not in self._fallbacks:
            raise UnboundSymbolError(symbol)
        return self._fallbacks[symbol]

    def is_held(self, symbol: str) -> bool:
        """Whether an attribute, or a tensor with a right dimension count, binds a symbol."""
        return symbol in self._fixed or symbol in self._first

    def run(self, symbol: str) -> tuple[int, ...]:
        """The sizes that a run covers: those of `*sizes` are `known.run("sizes")`.

        Raises:
            UnboundSymbolError: no tensor has them.
        """
        return tuple(self[f"{symbol}[{index}]"] for index in range(self[f"len({symbol})"]))

    def __iter__(self) -> Iterator[str]:
        yield from {**self._fixed, **self._first, **self._fallbacks}

    def __len__(self) -> int:
        return len({**self._fixed, **self._first, **self._fallbacks})

    def why(self, symbol: str) -> str:
        """One line: the value, and the attribute or the places (three at most) that hold it.

        Raises:
            UnboundSymbolError: nothing binds the symbol.
        """
        if symbol in self._fixed:
            value, reason = self._fixed[symbol]
            return f"{symbol} = {value}: {reason if isinstance(reason, str) else reason()}"
        winner = self._counted().winner(symbol)
        if winner is None:
            return f"{symbol} = {self[symbol]}: read from a tensor of a wrong dimension count"
        places = winner.places[:3]
        more = f" and {len(winner.places) - 3} more" if len(winner.places) > 3 else ""
        return f"{symbol} = {winner.value}: from {', '.join(places)}{more}"

    def evaluate(self, term: Term) -> int | None:
        """The value of a term; None while its symbol is unbound."""
        symbol = term.symbol
        if symbol is None:
            return term.factor
        return term.factor * self[symbol] if symbol in self else None

    def __contains__(self, symbol: object) -> bool:
        return symbol in self._fixed or symbol in self._first or symbol in self._fallbacks

    def explain(self, terms: Sequence[Term], sizes: Sequence[int]) -> bool:
        """Whether sizes are those of the terms; of a term whose symbol is unbound, whether a size may be one."""
        for term, size in zip(terms, sizes, strict=True):
            value = self.evaluate(term)
            if size % term.factor != 0 if value is None else not (size is value or size == value):
                return False
        return True

    def infer(self, terms: Sequence[Term]) -> tuple[int, ...] | None:
        """The sizes of a pattern; None while any symbol is unbound."""
        run = run_of(terms, 0)
        width = 0 if run is None else self.evaluate(run[0])
        if width is None:
            return None
        spread = align(terms, len(terms) if run is None else len(terms) - 1 + width) or ()
        sizes = [self.evaluate(term) for term in spread]
        return None if None in sizes else tuple(size for size in sizes if size is not None)


def show(terms: Iterable[Term]) -> str:
    """Formats a pattern for a message: `[1, num_directions, 4*hidden_size, input_size]`."""
    return f"[{', '.join(str(term) for term in terms)}]"


def is_permutation(sizes: Sequence[int], expected: Sequence[int]) -> bool:
    """Returns whether the same sizes were given in another order (and more than ones were moved)."""
    return tuple(sizes) != tuple(expected) and sorted(sizes) == sorted(expected) and math.prod(expected) > 1
