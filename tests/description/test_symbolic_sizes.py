"""Symbolic sizes: formulas of arithmetic, recorded comparisons, and uses of the number itself."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from dmlpy.description.enums import DataType
from dmlpy.description.sized_arrays import SizedArray
from dmlpy.description.sized_copies import Kinds, SizedTemplate, example_of
from dmlpy.description.symbolic_sizes import NoTemplateError, SizeTrace, are_symbolic, slice_indices
from dmlpy.description.tensors import TensorDesc
from dmlpy.operators.activation import ActivationReluDesc
from dmlpy.validation.checking import check

EXAMPLE = (12, 5)
OTHERS = ((7, 3), (30, 8), (13, 5), (100, 99), (6, 1), (3, 7))

ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    "sums": lambda a, b: a + b + 3 - (2 - a) - b * 2,
    "products": lambda a, b: a * b * 4 + 7 * a,
    "rounded": lambda a, b: -(-a * b // 4) * 4,
    "rest": lambda a, b: (a % 4) + (17 % b) + 100 // b,
    "divided": lambda a, b: divmod(a * b, 3)[0] + divmod(1000, a)[1],
    "of Python": lambda a, b: math.prod((a, 2, b)) + sum([a, b, 1]),
    "of NumPy": lambda a, b: (a * np.int64(3) + np.int32(2)) - np.int64(4) * b,
    "negated": lambda a, b: -a + +b,
    "quotients": lambda a, b: a / b + 2 / a - 0.5 * (b / 3.0),
    "quotients rounded": lambda a, b: math.ceil(a / 7) + math.floor(b * 0.3) + math.ceil(a * 1.0),
    "ones of both kinds": lambda a, b: [a * 1, a * 1.0, b / 1, b * -0.0, b * 0.0],
}
BRANCHES: dict[str, Callable[[Any, Any], Any]] = {
    "maximum": lambda a, b: max(a, 2 * b, 10),
    "minimum": lambda a, b: min([b, a]),
    "sorted": lambda a, b: sorted([a, b, 9]),
    "equal": lambda a, b: a if a == 13 else b,
    "equal to NumPy's": lambda a, b: a if a == np.int64(13) or np.int32(30) == a else b,
    "in tuples": lambda a, b: (a, 1) == (30, 1),
    "quotients compared": lambda a, b: a if a / b > 2.3 else 1.5 * b,
    "with infinity": lambda a, b: min(a / 2, math.inf, b - 0.25),
    "chained": lambda a, b: a * 2 if 1 <= b < 6 else b,
    "even": lambda a, b: a if not a % 2 else -a,
    "contained": lambda a, b: 8 in (a, b),
}
NEEDED: dict[str, Callable[[Any], Any]] = {
    "int": int,
    "float": float,
    "index": lambda a: [*range(20)][a],
    "range": lambda a: [*range(a)],
    "quotient as an integer": lambda a: int(a / 4),
    "product with NumPy's": lambda a: a * np.float32(0.5),
    "power": lambda a: a**2,
    "exponent": lambda a: 2**a,
    "bits": lambda a: a & 3,
    "shifted": lambda a: a << 1,
    "array": lambda a: np.zeros(a),
    "integers": lambda a: np.asarray([a, 2], np.int64),
    "array compared": lambda a: np.arange(8) == a,
    "array multiplied": lambda a: a * np.arange(3),
    "repeated": lambda a: [1] * a,
    "rounded": round,
    "slice": lambda a: slice(None).indices(a),
    "bytes": lambda a: a.to_bytes(2, "little") if hasattr(a, "to_bytes") else int(a).to_bytes(2, "little"),
}


def values(formula: Callable[..., Any], example: tuple[int, ...], others: tuple[int, ...]) -> Any:
    """The result of a formula for other sizes, by its trace for an example; None if there is no template."""
    trace = SizeTrace(example)
    with trace.active():
        found = formula(*trace.symbols)
    try:
        copy = SizedTemplate(trace, [found]).copy(others)
    except NoTemplateError:
        return None
    return None if copy is None else copy.item[0]


@pytest.mark.parametrize("name", ARITHMETIC)
def test_arithmetic_is_computed_again_for_other_sizes(name: str) -> None:
    formula = ARITHMETIC[name]
    assert values(formula, EXAMPLE, EXAMPLE) == formula(*EXAMPLE)
    assert [values(formula, EXAMPLE, others) for others in OTHERS] == [formula(*others) for others in OTHERS]


@pytest.mark.parametrize("name", BRANCHES)
def test_no_value_follows_where_a_comparison_comes_out_differently(name: str) -> None:
    """Whatever is given is right; and for the example's neighbours something is given."""
    formula = BRANCHES[name]
    found = {others: values(formula, EXAMPLE, others) for others in (EXAMPLE, (12, 4), *OTHERS)}
    assert all(value is None or value == formula(*others) for others, value in found.items())
    assert found[EXAMPLE] == formula(*EXAMPLE)
    assert found[12, 4] == formula(12, 4)
    assert None in found.values()


@pytest.mark.parametrize("name", NEEDED)
def test_where_the_number_is_needed_nothing_follows_for_others(name: str) -> None:
    assert np.all(NEEDED[name](SizeTrace([6]).symbols[0]) == NEEDED[name](6))
    assert values(NEEDED[name], (6,), (6,)) is None


def test_caches_refuse_symbolic_sizes() -> None:
    """A cached result would be taken for that of the example's number."""
    trace = SizeTrace([6])
    with pytest.raises(TypeError, match="symbolic"):
        hash(trace.symbols[0])
    assert trace.end_stage() is None


@pytest.mark.parametrize("step", [1, 3, -1, -2])
def test_slices_of_symbolic_sizes_are_those_of_numbers(step: int) -> None:
    for start in (None, -9, -4, -1, 0, 2, 5, 40):
        for stop in (None, -9, -4, -1, 0, 2, 5, 40):
            part = slice(start, stop, step)
            for size in (1, 5, 8):
                assert slice_indices(part, size) == part.indices(size)
                found = values(lambda size, part=part: slice_indices(part, size), (6,), (size,))
                assert found is None or found == part.indices(size)
            assert values(lambda size, part=part: slice_indices(part, size), (6,), (6,)) == part.indices(6)


def test_what_no_number_results_from_gives_nothing() -> None:
    """Neither a division by zero nor the rounding of infinity minus infinity."""
    assert values(lambda a, b: a // (b - 4), (12, 5), (12, 4)) is None
    assert values(lambda a: math.floor(a * 1e308 - a * 1e308), (1,), (2,)) is None


def test_sizes_are_symbolic_only_inside() -> None:
    trace = SizeTrace([6])
    assert not are_symbolic()
    with trace.active():
        assert are_symbolic()
    assert not are_symbolic()


def test_symbolic_sizes_are_integers_for_isinstance_and_texts() -> None:
    trace = SizeTrace([6])
    (size,) = trace.symbols
    assert isinstance(size, int)
    assert f"{size} {size!r} {size + 1:>3}" == "6 6   7"
    assert trace.end_stage() is not None


def test_copies_are_as_valid_as_their_template_each_for_itself() -> None:
    trace = SizeTrace([5])
    with trace.active():
        tensor = TensorDesc(data_type=DataType.FLOAT32, sizes=[2, *trace.symbols])
        desc = ActivationReluDesc(input_tensor=tensor, output_tensor=tensor)
        assert not check(desc, "3.0")
    template = SizedTemplate(trace, desc)
    one, other = (copy.item for size in (6, 7) if (copy := template.copy([size])) is not None)
    assert not check(one, "5.0")
    known = [{level.name for level, *_ in each.__dict__["_valid_at"]} for each in (desc, one, other)]
    assert known == [{"FL_3_0"}, {"FL_3_0", "FL_5_0"}, {"FL_3_0"}]
    assert [each.__dict__.get("has_bfloat16") for each in (one, other)] == [False, False], "known without another look at the tensors"


def test_a_desc_with_symbolic_sizes_is_copied_with_numbers() -> None:
    """What is the same for all sizes is shared; what is checked stays checked."""
    trace = SizeTrace([6])
    with trace.active():
        (size,) = trace.symbols
        tensor = TensorDesc(data_type=DataType.FLOAT32, sizes=[2, size, 4], strides=[0, 4, 1])
        same = TensorDesc(data_type="FLOAT32", sizes=[2, 4])
        extent = tensor.extent_in_bytes
    copy = SizedTemplate(trace, {"t": (tensor, same), "extent": extent}).copy([9])
    assert copy is not None
    found = copy.item
    assert found["t"][0] == TensorDesc(data_type="FLOAT32", sizes=[2, 9, 4], strides=[0, 4, 1])
    assert hash(found["t"][0]) == hash(TensorDesc(data_type="FLOAT32", sizes=[2, 9, 4], strides=[0, 4, 1]))
    assert found["extent"] == found["t"][0].extent_in_bytes
    assert found["t"][1] is same
    assert copy.part(tensor) is found["t"][0]


class Changing:
    """An object that changes what it holds."""

    def __init__(self, sizes: Any) -> None:
        self.sizes, self.seen = sizes, dict[int, int]()

    def note(self) -> None:
        self.seen[self.sizes[0]] = 1


@dataclass(frozen=True)
class Part:
    """A part that others are derived from."""

    size: Any


def test_what_is_derived_changes_without_its_copies() -> None:
    trace = SizeTrace([6])
    with trace.active():
        part = Part(trace.symbols[0] * 2)
    template, computed = SizedTemplate(trace, part), []

    def compute(part: Part, is_symbolic: bool) -> Changing:
        computed.append(is_symbolic)
        return Changing((part.size + 1, 5))

    def derive(size: int) -> Any:
        copy = template.copy([size])
        assert copy is not None
        return copy.derive("key", part, compute, Kinds(changing=(Changing,)))

    first, second = derive(6), derive(10)
    first.note()
    assert (first.sizes, second.sizes) == ((13, 5), (21, 5))
    assert (first.seen, second.seen, derive(6).seen) == ({13: 1}, {}, {})
    derive(14)
    assert computed == [True, False, False], "the first copies are compared with what numbers give"


def test_what_is_derived_is_compared_for_other_sizes_than_the_example() -> None:
    """A number of the example, such as one in a text, is right in the first copy only."""
    trace = SizeTrace([6])
    part = Part(trace.symbols[0])
    template = SizedTemplate(trace, part)
    for size, expected in ((6, "6 rows"), (6, "6 rows"), (7, None), (6, None)):
        copy = template.copy([size])
        assert copy is not None
        assert copy.derive("key", part, lambda part, is_symbolic: f"{part.size} rows") == expected


def test_what_is_derived_is_derived_again_where_a_comparison_comes_out_differently() -> None:
    """Both results stay: each is computed with symbolic sizes once, and compared with what numbers give twice."""
    trace = SizeTrace([6])
    part = Part(trace.symbols[0])
    template, computed = SizedTemplate(trace, part), Counter[bool]()

    def compute(part: Part, is_symbolic: bool) -> tuple[str, int]:
        computed[is_symbolic] += 1
        return ("many", part.size // 3) if part.size > 3 else ("few", part.size * 2)

    for _ in range(2):
        for size in (6, 7, 2, 3, 9, 1):
            copy = template.copy([size])
            assert copy is not None
            assert copy.derive("key", part, compute) == compute(Part(size), False)
            computed[False] -= 1
    assert computed == {True: 2, False: 4}


def test_what_is_derived_from_a_derived_result_is_its_own() -> None:
    """Its parts are copied once, and it has results for other sizes by itself."""
    trace = SizeTrace([6])
    part = Part(trace.symbols[0])
    template, computed = SizedTemplate(trace, part), Counter[str]()

    def whole(part: Part, is_symbolic: bool) -> Part:
        computed["whole"] += is_symbolic
        return Part(part.size * 2)

    def detail(whole: Part, is_symbolic: bool) -> tuple[Part, str]:
        computed["detail"] += is_symbolic
        return whole, "many" if whole.size > 6 else "few"

    for size in (6, 2, 9, 3, 1, 8):
        copy = template.copy([size])
        assert copy is not None
        first = copy.derived_copy("whole", part, whole)
        assert first is not None
        assert first.item == Part(size * 2)
        found = copy.derive("detail", first.symbolic, detail, before=first)
        assert found == (first.item, "many" if size > 3 else "few")
        assert found[0] is first.item
    assert computed == {"whole": 1, "detail": 2}


def test_results_give_way_to_those_of_the_sizes_that_come() -> None:
    trace = SizeTrace([0])
    part = Part(trace.symbols[0])
    template, computed = SizedTemplate(trace, part), list[int]()

    def compute(part: Part, is_symbolic: bool) -> int:
        found = next(at for at in range(20) if part.size < 10 * at + 10)
        computed.extend([found] * is_symbolic)
        return found

    def derived(*sizes: int) -> list[int]:
        """The results that are made for these sizes with symbolic ones."""
        computed.clear()
        for size in sizes:
            copy = template.copy([size])
            assert copy is not None
            assert copy.derive("key", part, compute) in (None, size // 10)
        return computed.copy()

    assert derived(5, 15, 25, 35, 45, 6, 16) == [0, 1, 2, 3]
    assert derived(*[51] * 6) == [5], "after some sizes without"
    assert derived(6, 16, 36) == [], "that of 25 has not been used for longest"


def test_an_operation_that_fails_for_an_example_fails_where_it_is_needed() -> None:
    trace = SizeTrace([6])
    with trace.active():
        part = Part(trace.symbols[0] + 1)
        _ = 12 // (trace.symbols[0] - 2)
    template = SizedTemplate(trace, part)

    def compute(part: Part, is_symbolic: bool) -> float:
        return 1 if part.size == 3 else 12 // (part.size - 3)

    for size in (6, 2, 5, 2, 7):
        copy = template.copy([size])
        assert copy is not None
        assert copy.derive("key", part, compute) == compute(Part(size + 1), False)


def test_what_is_refused_meanwhile_is_used_by_nobody() -> None:
    """Another thread may refuse results between the choice of one and its use."""
    trace = SizeTrace([6])
    part = Part(trace.symbols[0])
    template = SizedTemplate(trace, part)
    copy = template.copy([6])
    assert copy is not None
    assert copy.derive("key", part, lambda part, is_symbolic: (part.size, 3)) == (6, 3)
    variants = template.variants_of("key", None)
    (result,) = variants.items
    variants.refuse()
    variants.use(result)
    assert not variants.items


def test_arrays_of_an_example_are_those_of_its_sizes() -> None:
    trace = SizeTrace([5])
    with trace.active():
        array = SizedArray.of([trace.symbols[0] * 2], (1,))
        for size in (5, 7, 5):
            trace.set_example([size])
            assert example_of([array])[0].tolist() == [size * 2]


@pytest.mark.parametrize(
    "compute",
    [
        lambda part, is_symbolic: [part.size if is_symbolic else part.size + 1],
        lambda part, is_symbolic: [int(part.size)],
        lambda part, is_symbolic: [object()],
        lambda part, is_symbolic: [1 // 0] if is_symbolic else [1],
    ],
    ids=["others with numbers", "number needed", "unknown kind", "raises"],
)
def test_what_cannot_be_derived_is_not(compute: Callable[[Part, bool], Any]) -> None:
    trace = SizeTrace([6])
    part = Part(trace.symbols[0])
    copy = SizedTemplate(trace, part).copy([7])
    assert copy is not None
    assert copy.derive("key", part, compute) is None
    assert copy.derive("key", part, compute) is None
    assert copy.derive("another", part, lambda part, is_symbolic: (part.size, 3)) == (7, 3)


def test_an_array_that_follows_from_sizes_is_not_read_unnoticed() -> None:
    """NumPy is refused; the example's elements can be had, and then nothing follows for other sizes."""
    trace = SizeTrace([5])
    (size,) = trace.symbols
    with trace.active():
        array = SizedArray.of([size * 2, 3], (1, 2))
        with pytest.raises(NoTemplateError):
            np.asarray(array)
        formulas = trace.end_stage()
        assert formulas is not None
        values = formulas.values([7])
        assert values is not None
        np.testing.assert_array_equal(array.at(values), [[14, 3]])
        np.testing.assert_array_equal(array.fixed(), [[10, 3]])
        assert trace.end_stage() is None
    np.testing.assert_array_equal(SizedArray.of([4, 3], (2,)), [4, 3], "plain numbers give an array of NumPy")
