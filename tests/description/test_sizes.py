"""The pattern language: parsing, alignment, and the evidence for symbols."""

from __future__ import annotations

from time import process_time

import pytest

from dmlpy.description.sizes import Sizes, Term, UnboundSymbolError, align, is_permutation, parse, show


def known(*evidence: tuple[str, int, str]) -> Sizes:
    """Sizes after the evidence of vectors, each a term, a size and a place."""
    sizes = Sizes()
    for term, size, place in evidence:
        sizes.add_tensor(place, parse(term), parse(term), [size])
    return sizes


@pytest.mark.parametrize(
    ("pattern", "terms"),
    [
        ("1 seq_length 4*hidden_size", (Term(1), Term(1, "seq_length"), Term(4, "hidden_size"))),
        ("batch *window", (Term(1, "batch"), Term(1, "window", run=True))),
        ("", ()),
        ("12*x2", (Term(12, "x2"),)),
    ],
)
def test_parse(pattern: str, terms: tuple[Term, ...]) -> None:
    assert parse(pattern) == terms
    assert show(terms) == f"[{', '.join(pattern.split())}]"


@pytest.mark.parametrize("pattern", ["-1", "2*", "*2", "a*2", "A", "2*3", "a+1", "*a *b", "2**a", "1.5"])
def test_what_is_no_pattern(pattern: str) -> None:
    with pytest.raises(ValueError, match="size pattern"):
        parse(pattern)


@pytest.mark.parametrize(
    ("pattern", "count", "expected"),
    [
        ("1 a", 2, "[1, a]"),
        ("1 a", 3, None),
        ("*a", 0, "[]"),
        ("*a", 2, "[a[0], a[1]]"),
        ("1 *a 2*b", 4, "[1, a[0], a[1], 2*b]"),
        ("1 *a 2*b", 2, "[1, 2*b]"),
        ("1 *a 2*b", 1, None),
    ],
)
def test_align(pattern: str, count: int, expected: str | None) -> None:
    terms = align(parse(pattern), count)
    assert (None if terms is None else show(terms)) == expected


def test_most_places_win() -> None:
    sizes = known(("h", 5, "a"), ("h", 6, "b"), ("2*h", 12, "c"))
    assert sizes["h"] == 6
    assert sizes.why("h") == "h = 6: from b.sizes[0], c.sizes[0]"


def test_a_tie_goes_to_the_earliest() -> None:
    assert known(("h", 5, "a"), ("h", 6, "b"))["h"] == 5
    assert known(("h", 6, "b"), ("h", 5, "a"), ("h", 5, "c"), ("h", 6, "d"))["h"] == 6


def test_attributes_outrank_any_number_of_tensors() -> None:
    sizes = known(("d", 1, "a"), ("d", 1, "b"), ("d", 1, "c"))
    sizes.fix("d", 2, "direction is BIDIRECTIONAL")
    assert sizes["d"] == 2
    assert sizes.why("d") == "d = 2: direction is BIDIRECTIONAL"


@pytest.mark.parametrize(
    ("count", "expected"),
    [
        (1, "h = 5: from p0.sizes[0]"),
        (3, "h = 5: from p0.sizes[0], p1.sizes[0], p2.sizes[0]"),
        (4, "h = 5: from p0.sizes[0], p1.sizes[0], p2.sizes[0] and 1 more"),
        (7, "h = 5: from p0.sizes[0], p1.sizes[0], p2.sizes[0] and 4 more"),
    ],
)
def test_three_witnesses_at_most(count: int, expected: str) -> None:
    assert known(*(("h", 5, f"p{index}") for index in range(count))).why("h") == expected


@pytest.mark.parametrize(("term", "size"), [("1", 5), ("4*h", 21), ("h", 0), ("h", -5), ("h", 2**32)])
def test_sizes_that_say_nothing_do_not_vote(term: str, size: int) -> None:
    sizes = known((term, size, "a"))
    assert "h" not in sizes
    assert len(sizes) == 0
    assert list(sizes) == []
    assert sizes.evaluate(Term(4, "h")) is None
    assert sizes.infer(parse("1 h")) is None
    with pytest.raises(KeyError):
        sizes["h"]


def test_inference() -> None:
    sizes = known(("t", 7, "x"), ("4*h", 20, "w"))
    sizes.fix("d", 2, "direction is BIDIRECTIONAL")
    assert sizes.infer(parse("t d 1 8*h")) == (7, 2, 1, 40)
    assert dict(sizes) == {"d": 2, "t": 7, "h": 5}


def test_fallbacks_count_only_where_nothing_else_does() -> None:
    sizes = Sizes()
    for term, size in (("4*h", 21), ("h", 2**32), ("4*h", 20), ("h", 6), ("1", 3)):
        sizes.add_fallback(parse(term)[0], size)
    assert dict(sizes) == {"h": 5}
    assert sizes.why("h").startswith("h = 5: ")
    sizes.add_tensor("a", parse("h"), parse("h"), [7])
    assert dict(sizes) == {"h": 7}
    assert sizes.why("h") == "h = 7: from a.sizes[0]"
    with pytest.raises(UnboundSymbolError):
        sizes.why("t")


def test_runs() -> None:
    """The length of a run is held by tensors as sizes are, and reasons that are functions are called when they are read."""
    sizes, pattern = Sizes(), parse("1 *window 2*k")
    for place, given in (("x", [1, 5, 4]), ("y", [1, 5, 7, 4]), ("z", [1, 6, 7, 6])):
        sizes.add_tensor(place, pattern, align(pattern, len(given)) or (), given)
    assert sizes.run("window") == (5, 7)
    assert sizes.why("len(window)") == "len(window) = 2: from y.sizes, z.sizes"
    assert sizes.why("k") == "k = 2: from x.sizes[2], y.sizes[3]"
    assert sizes.explain(parse("1 3*k other"), [1, 6, 9])
    assert not sizes.explain(parse("1 3*k other"), [1, 7, 9])
    assert sizes.explain(parse("4*other"), [8])
    assert not sizes.explain(parse("4*other"), [9])
    sizes.derive("area", lambda known: known["k"] * known["window[1]"], "k * window[1]")
    assert sizes.why("area") == "area = 14: k * window[1], for k = 2, window[1] = 7"


@pytest.mark.parametrize(
    ("sizes", "expected", "answer"),
    [
        ((2, 3), (3, 2), True),
        ((2, 3), (2, 3), False),
        ((2, 3), (2, 4), False),
        ((2, 3), (2, 3, 1), False),
        ((1, 1), (1, 1), False),
        ((3, 1), (1, 3), True),
    ],
)
def test_permutations_are_recognised(sizes: tuple[int, ...], expected: tuple[int, ...], answer: bool) -> None:
    assert is_permutation(sizes, expected) is answer


def test_many_different_sizes_are_looked_up() -> None:
    """A hostile desc may have tens of thousands: the time grows with them, not with their square."""

    def seconds(count: int) -> float:
        begin, sizes = process_time(), Sizes()
        for size in range(1, count + 1):
            sizes.add_tensor("a", parse("h"), parse("h"), [size])
        return process_time() - begin

    assert min(seconds(8000) for _ in range(3)) < 9 * min(seconds(2000) for _ in range(3))  # the square would be 16 times
