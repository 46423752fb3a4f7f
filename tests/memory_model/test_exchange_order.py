"""The order between blocks in the recurrent `persistent_grid` kernels, by the PTX memory model: all executions that it allows are right,
and each mutation that matters has one that is not.

What holds is shown with every freedom that the model gives, as if nothing depended on anything. Faults are shown without the strangest of
these, reads of values from the future, so that a machine need not be odd to have them.

That the programs are what the kernels do is a comparison of texts. The model cannot show that compiler and GPU obey it.
"""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from dmlpy.devices.cuda import sources
from tests.memory_model.exchange_programs import KERNELS, Rules, Shape, program
from tests.memory_model.executions import Fault, executions
from tests.memory_model.programs import Graph, Program, Store

WARP_FOR_EACH = ((0, 0), (1, 1))

SHAPES = {
    "a warp": Shape(),
    "a warp for each block": Shape(producers=WARP_FOR_EACH),
    "two warps for both blocks": Shape(sharing=2),
    "passes": Shape(passes=2),
    "halves": Shape(halves=True),
    "a warp for each block, passes": Shape(producers=WARP_FOR_EACH, passes=2),
}
"""Of two blocks in three steps, with two lanes to a warp."""

LARGER_SHAPES = {
    "three blocks": Shape(blocks=3, producers=((0, 2),), steps=4),
    "three blocks, three warps": Shape(blocks=3, producers=((0, 0), (1, 1), (2, 2)), steps=4),
    "three blocks, two warps, passes": Shape(blocks=3, producers=((0, 1), (1, 2)), steps=4, passes=2),
    "three blocks, halves": Shape(blocks=3, producers=((0, 0), (1, 2)), steps=4, halves=True),
    "two warps for each block, passes": Shape(producers=WARP_FOR_EACH, sharing=2, passes=2),
    "three lanes": Shape(producers=WARP_FOR_EACH, lanes=3, steps=4),
}

PROTOCOLS = {
    "flags": Rules(),
    "data, at first": Rules(protocol="data"),
    "data, some at first": Rules(protocol="data", late="some"),
    "data, at last": Rules(protocol="data", late="all"),
}
"""With data a value may be there at the first look at it, or at one that comes later, when others of the thread have long been there."""


def faults(program: Program, in_order: bool = True) -> set[str]:
    """What can go wrong: "value", a load that reads something else than it should; "race"; "endless", a poll that may not end."""
    kinds: tuple[Fault, ...] = ("value", "race")
    found: set[str] = {kind for kind in kinds if any(True for _ in executions(program, fault=kind, in_order=in_order))}
    return found | ({"endless"} if Graph(program).endless() else set())


def check_right(program: Program) -> None:
    assert next(executions(program), None) is not None
    assert faults(program, in_order=False) == set()


@pytest.mark.each_value
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_blocks_read_what_was_stored_for_the_step(protocol: str, kernel: str, shape: str) -> None:
    check_right(program(KERNELS[kernel], SHAPES[shape], PROTOCOLS[protocol]))


@pytest.mark.slow
@pytest.mark.parametrize("shape", LARGER_SHAPES)
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_more_blocks_read_what_was_stored_for_the_step(protocol: str, kernel: str, shape: str) -> None:
    check_right(program(KERNELS[kernel], LARGER_SHAPES[shape], PROTOCOLS[protocol]))


# mutations

MUTATIONS: dict[str, tuple[Rules, set[str]]] = {
    "a relaxed store raises the flag": (Rules(raises="relaxed"), {"value"}),
    "a weak store raises the flag": (Rules(raises="weak"), {"value", "race", "endless"}),
    "a relaxed poll": (Rules(polls="relaxed"), {"value"}),
    "a relaxed poll, and another one": (Rules(polls="relaxed", acquires="relaxed"), {"value"}),
    "a weak poll": (Rules(polls="weak"), {"value", "race", "endless"}),
    "release and acquire in the scope of a block": (Rules(scope="cta"), {"value", "race", "endless"}),
    "no barrier in release": (Rules(release_barrier=False), {"value"}),
    "no barrier after a product": (Rules(product_barrier=False), {"value", "race"}),
    "no barrier after staging": (Rules(staging_barrier=False), {"value", "race"}),
    # The lane that acquires is one, and those that read are others.
    "no __syncwarp after a wait": (Rules(warp_barrier=False), {"value"}),
    "waiting for the exchange before": (Rules(early=1), {"value"}),
    "waiting for the exchange after": (Rules(early=-1), {"endless"}),
    "a flag is up already": (Rules(flags=1), {"value"}),
    "flags of an earlier launch": (Rules(flags=9), {"value"}),
    # Harmless. The acquire could come after the poll, for one more trip to the L2 cache.
    "a relaxed poll, and then an acquire": (Rules(polls="relaxed", acquires="acquire"), set()),
    # To the model the values may be accessed weakly: release and acquire order them, so there is no race. That they are relaxed costs
    # nothing, and leaves no compiler and no cache a reason to keep a value from step to step.
    "weak stores of values": (Rules(stores="weak"), set()),
    "weak loads of values": (Rules(read="weak"), set()),
    "weak accesses to values": (Rules(stores="weak", read="weak"), set()),
}
"""And what is found, at least; nothing if it is harmless."""


def check_mutation(kernel: str, shape: Shape, mutation: str) -> None:
    rules, wanted = MUTATIONS[mutation]
    found = faults(program(KERNELS[kernel], shape, rules), in_order=bool(wanted))
    assert found >= wanted if wanted else found == set()


MUTATED = [
    ("forward", "a warp"),
    ("forward", "a warp for each block"),
    ("gradient, resetting", "a warp"),
    ("gradient", "a warp for each block"),
]


@pytest.mark.parametrize(
    ("mutation", "kernel", "shape"),
    [
        pytest.param(mutation, *program, marks=[pytest.mark.slow] * (place != number % len(MUTATED)))
        for number, mutation in enumerate(MUTATIONS)
        for place, program in enumerate(MUTATED)
    ],
)
def test_mutations_are_found(mutation: str, kernel: str, shape: str) -> None:
    check_mutation(kernel, SHAPES[shape], mutation)


@pytest.mark.slow
@pytest.mark.parametrize("shape", ["a warp", "a warp for each block", "two warps for both blocks", "passes", "halves"])
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("mutation", MUTATIONS)
def test_mutations_are_found_in_every_kernel(mutation: str, kernel: str, shape: str) -> None:
    check_mutation(kernel, SHAPES[shape], mutation)


@pytest.mark.each_value
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("shape", ["a warp", "a warp for each block", "passes"])
def test_one_buffer_needs_a_second_exchange_in_each_step(kernel: str, shape: str) -> None:
    """Who has waited for the second exchange knows that all are done with the first one's values. `persistent_grid` of
    recurrent/persistent_grid.cu has two buffers of H[t] nevertheless.
    """
    found = faults(program(KERNELS[kernel], SHAPES[shape], Rules(turns=1)), in_order=False)
    assert found == (set() if "resetting" in kernel else {"value"})


@pytest.mark.parametrize("kernel", ["forward", "forward, resetting"])
def test_passes_that_publish_together_need_a_barrier_between(kernel: str) -> None:
    assert faults(program(KERNELS[kernel], SHAPES["a warp for each block, passes"], Rules(pass_barrier=False))) == {"value", "race"}


@pytest.mark.parametrize(("shape", "found"), [("a warp", set()), ("a warp for each block", {"value"})])
def test_two_buffers_need_a_barrier_between_wait_and_put(shape: str, found: set[str]) -> None:
    """That of `release` comes too late: a warp that waits for one block stores while another block still reads. Partial sums aside."""
    mutated = program(KERNELS["forward"], Shape(producers=SHAPES[shape].producers, sums=False), Rules(product_barrier=False))
    assert faults(mutated) == found


@pytest.mark.parametrize("kernel", KERNELS)
def test_two_buffers_need_waits_for_all_blocks(kernel: str) -> None:
    """Though a block may need values of some only: the others must not be left behind."""
    assert faults(program(KERNELS[kernel], Shape(producers=((0, 0),)))) == {"value"}


def test_halves_that_threads_store_separately_must_not_race() -> None:
    """The model promises nothing for accesses that overlap in part and race. With flags these would not; with data they do, so that
    neighbouring threads' halves are put as one word.
    """
    flags = program(KERNELS["forward"], SHAPES["halves"], Rules(lone_halves=True))
    assert not any(execution.races for execution in executions(flags))
    data = program(KERNELS["forward"], SHAPES["halves"], Rules(protocol="data", lone_halves=True))
    assert any(execution.mixed for execution in executions(data, fault="race"))


DATA_MUTATIONS = {
    # A buffer that is used again still has the values of before,
    Rules("data", turns=2): {"value"},
    # and so it may seem to have if the sentinel is put back: nothing orders that before the value of another place that says so,
    Rules("data", turns=3, clears=True): {"value"},
    Rules("data", turns=3, clears=True, stores="release"): {"value"},
    Rules("data", turns=3, clears=True, read="acquire"): {"value"},
    # unless each value is released and acquired,
    Rules("data", turns=3, clears=True, stores="release", read="acquire"): set[str](),
    # and of two buffers one is cleared too late even then.
    Rules("data", turns=2, clears=True, stores="release", read="acquire"): {"value"},
    Rules("data", stores="weak"): {"race", "endless"},
    Rules("data", read="weak"): {"race", "endless"},
    # No flag is waited for, but shared memory is used again.
    Rules("data", product_barrier=False): {"value", "race"},
    Rules("data", release_barrier=False): {"value", "race"},
    Rules("data", staging_barrier=False): {"value", "race"},
}
"""And what is found, of `forward`; nothing if it is harmless."""


@pytest.mark.parametrize("rules", DATA_MUTATIONS, ids=Rules.mutated)
def test_mutations_of_words_that_are_their_own_flags(rules: Rules) -> None:
    mutated = program(KERNELS["forward"], Shape(producers=WARP_FOR_EACH, steps=4), rules)
    # Whether a poll may miss a value before it is cleared depends on more than its place: `endless` does not look at that.
    assert faults(mutated) - ({"endless"} if rules.clears else set()) == DATA_MUTATIONS[rules]


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_word_that_nobody_writes_is_polled_for_ever(kernel: str) -> None:
    right = program(KERNELS[kernel], Shape(), Rules("data"))
    first, *others = right.threads
    assert isinstance(first.instructions[0], Store)
    assert faults(replace(right, threads=[replace(first, instructions=first.instructions[1:]), *others])) == {"endless"}


# the kernels' text

RULES = Rules()


def text_of(file: str) -> str:
    """A source without comments."""
    return re.sub(r"//.*", "", (sources.directory() / file).read_text(encoding="utf-8"))


def body(text: str, start: str) -> str:
    """What stands between the braces that follow the only place where `start` is."""
    assert text.count(start) == 1, start
    begin = text.index("{", text.index(start)) + 1
    depth = 1
    for end in range(begin, len(text)):
        depth += (text[end] == "{") - (text[end] == "}")
        if depth == 0:
            return text[begin:end]
    raise AssertionError(f"{start} has no end")


EXCHANGE = "common/block_exchange.cuh", "class BlockExchange "
STAGING = "common/staging.cuh", "class Staging"
UNSCALE = "common/gradient_products.cuh", "class Unscale"
PARTS = [
    (
        *EXCHANGE,
        "void store(",
        "if constexpr (protocol == Protocol::alone) { if (has_value) { *place = value; } } else {"
        " unsigned word = machine::to_bits(value); bool writes = has_value;"
        " if constexpr (sizeof(E) == 2) { word |= machine::shuffle_xor(word, 1) << 16; writes = has_value && threadIdx.x % 2 == 0; }"
        " if (writes && !has_given_up()) { unsigned* const address = reinterpret_cast<unsigned*>(place);"
        " if constexpr (protocol == Protocol::data) { machine::store_relaxed(address, word == sentinel ? 0x7FFF7FFF : word); }"
        " else { machine::store_exchanged(address, word); } } }",
    ),
    (
        *EXCHANGE,
        "void release(",
        "bool const is_last = has_given_up(); __syncthreads(); if constexpr (protocol == Protocol::flags) {"
        " ++epoch_; if (threadIdx.x == 0 && !is_last) { machine::store_release(flags_ + own_, epoch_); } }",
    ),
    (
        *EXCHANGE,
        "void wait(",
        "if constexpr (protocol == Protocol::flags) { unsigned const awaited = epoch_ - fewer; bool in_time = true;"
        " for (int block = first + static_cast<int>(threadIdx.x % 32); block <= last; block += 32) {"
        " Wait wait; while (machine::load_acquire(flags_ + block) < awaited && in_time) { in_time = look_again(wait); } }"
        " __syncwarp(); if (machine::ballot(!in_time) != 0) { readable_ = 0; atomicExch(&given_up(), 1u); } }",
    ),
    (
        *EXCHANGE,
        "void load(",
        "if constexpr (protocol == Protocol::data) { machine::load_relaxed(address, words); }"
        " else { machine::load_exchanged(address, words); }",
    ),
    (
        *EXCHANGE,
        "bool is_there(",
        "return protocol != Protocol::data ||"
        " ((words[0] != sentinel) & (words[1] != sentinel) & (words[2] != sentinel) & (words[3] != sentinel));",
    ),
    (
        *STAGING,
        "void enter(",
        "Wait wait; while (!(is_there(exchange) & others.is_there()) && exchange.look_again(wait)) {"
        " load_missing(exchange, operand, begin); others.load_missing(); }"
        " if (begin == 0) { others.keep(); }"
        " Vector4<unsigned>* const place = own_ + buffer_of(begin) * chunk_size;"
        " #pragma unroll for (int i = 0; i < loads; ++i) { place[more_samples(i) * row + more_units(i)] = under_way_[i]; }"
        " bool const is_last = begin + chunk_steps >= steps_; Operand<T> const following = is_last ? next : operand;"
        " if (following.values != nullptr) { load(exchange, following, is_last ? 0 : begin + chunk_steps); }"
        " if constexpr (row_warps == 1) { __syncwarp(); } else { __syncthreads(); }",
    ),
    (
        *STAGING,
        "bool is_there(",
        "bool all = true; #pragma unroll for (int i = 0; i < loads; ++i) { all &= exchange.is_there(under_way_[i].values); } return all;",
    ),
    (
        *STAGING,
        "void load_missing(",
        "int const first_byte = machine::opaque(first_byte_);"
        " #pragma unroll for (int i = 0; i < loads; ++i) { if (!exchange.is_there(under_way_[i].values)) {"
        " exchange.load(address_of(operand, first_byte, begin, i), under_way_[i].values); } }",
    ),
    (*UNSCALE, "bool is_there(", "return exchange_.is_there(under_way_);"),
    (*UNSCALE, "void load_missing(", "if (!is_there()) { load(place_of_lane()); }"),
    (
        *UNSCALE,
        "void fetch(",
        "for (unsigned& word : under_way_) { word = 0; } if (is_given(place)) { load(place);"
        " Wait wait; while (!is_there() && exchange_.look_again(wait)) { load(place); } }",
    ),
]


@pytest.mark.parametrize(("file", "holder", "start", "does"), PARTS, ids=[f"{part[1]}: {part[2]}" for part in PARTS])
def test_an_exchange_does_what_is_modelled(file: str, holder: str, start: str, does: str) -> None:
    """`Member` in tests/memory_model/exchange_programs.py has the same."""
    assert " ".join(body(body(text_of(file), holder), start).split()) == does


ORDER = re.compile(
    r"for \(int (?:pass|step) |if constexpr \(resets\w*\)|if \(multiplies\)|if \(pass == 0\)|if \((?:pass|step) (?:\+ 1 )?< \w+\)|else|"
    r"__sync\w+|exchange\.wait|exchange\.release|send\(\w+\.\w+\(\)|exchange\.store\(\w+|"
    r"\w+\.(?:begin|template multiply<\w+>|multiply)\(exchange[^;]*\)|"
    r"(?:sums|reset)\.store|Operand<T> const next = [^;]*|operand = [^;\[]*;|\w*(?:turns|sums|reset)\.(?:now|advance)\(\)|"
    r"Turns<protocol, T> \w*turns\([^;]*|int const since = [^;]*|multiplies = [^;]*|taking_turns = [^;]*"
)
"""What defines the order in which a kernel accesses exchanged values."""

FORWARD = """
Turns<protocol, T> turns(own ? own_hidden : parameters.hidden, group, 2, seq_length, of_passes * pass_size)
Turns<protocol, T> reset_turns(own ? own_reset_hidden : parameters.reset_hidden, group, 1, seq_length, of_passes * late_pass_size)
if constexpr (resets_first); __syncthreads; else; exchange.store(buffer
for (int pass; send(turns.now(); exchange.release; for (int pass
for (int step
turns.now(); reset_turns.now()
operand = hidden_operand(0)
if constexpr (resets_first)
for (int pass; if (pass == 0); exchange.wait; product.begin(exchange, operand)
Operand<T> const next = pass + 1 < passes ? hidden_operand(pass + 1) : Operand<T>{}
product.multiply(exchange, operand, next); operand = next
__syncthreads; send(reset_turns.now()
if (pass + 1 < passes); __syncthreads; else; exchange.release
if constexpr (resets_first); operand = reset_operand(0)
for (int pass
if constexpr (resets_first); if (pass == 0); exchange.wait; late.begin(exchange, operand)
Operand<T> const next = pass + 1 < passes ? reset_operand(pass + 1) : Operand<T>{}
late.multiply(exchange, operand, next); operand = next
else; if (pass == 0); exchange.wait; product.begin(exchange, operand)
Operand<T> const next = pass + 1 < passes ? hidden_operand(pass + 1) : Operand<T>{}
product.multiply(exchange, operand, next); operand = next
__syncthreads; if constexpr (resets_first); else; else; if (step + 1 < steps); send(turns.next()
if (pass + 1 < passes); __syncthreads; else; if (step + 1 < steps); exchange.release
turns.advance(); reset_turns.advance()
for (int pass
"""
GRADIENT = """
taking_turns = resets ? 1 : 2
for (int pass; __syncthreads
for (int step
multiplies = step > 0 && (step < steps || parameters.hidden_init_gradient.data != nullptr)
for (int pass; else
if (multiplies); int const since = step < steps ? passes - 1 : passes - 1 - pass
sums.template multiply<true>(exchange, pass, one_pass ? loaded : sums.loaded(there), (resets ? 2 : 1) * since); __syncthreads
if (step < steps)
if constexpr (resets); reset.store; exchange.release
reset.template multiply<false>(exchange, pass, one_pass ? reset_loaded : reset.loaded(there), 0); __syncthreads
sums.store; exchange.release
else; __syncthreads
else
sums.advance(); reset.advance()
for (int pass
"""
PRODUCT = """
exchange.wait
product_.begin(exchange, operand)
product_.multiply(exchange, operand, {}, Scales(exchange, inverse, fetched_, skipped, end - first, given))
else; product_.multiply(exchange, operand, {})
"""


@pytest.mark.parametrize(
    ("file", "function", "does"),
    [
        ("common/persistent_grid.cuh", "void persistent_grid_direction(", FORWARD),
        ("recurrent/persistent_grid_gradient.cu", "void persistent_grid_direction(", GRADIENT),
        ("common/gradient_products.cuh", "void multiply(", PRODUCT),
    ],
)
def test_a_kernel_does_what_is_modelled(file: str, function: str, does: str) -> None:
    """`forward` and `gradient` in tests/memory_model/exchange_programs.py have the same."""
    found = [" ".join(part.split()).rstrip(";") for part in ORDER.findall(body(text_of(file), function))]
    assert found == [part.strip() for part in re.split(r"[;\n]", does) if part.strip()]


def test_turns_are_the_buffers_that_are_modelled() -> None:
    """`Member.turns` is their number: of one all steps have the same, two alternate, and with data each step has its own."""
    turns = body(text_of("common/block_exchange.cuh"), "class Turns")
    does = {
        "count(int": "return protocol == Protocol::data ? steps : protocol == Protocol::alone ? 1 : taking_turns;",
        "now() const": "return now_;",
        "next() const": "return now_ + to_next_;",
        "before() const": "return protocol == Protocol::data ? now_ - to_next_ : now_ + to_next_;",
        "advance()": "now_ += to_next_; if constexpr (protocol == Protocol::flags || is_cluster(protocol)) { to_next_ = -to_next_; }",
    }
    assert {start: " ".join(body(turns, start).split()) for start in does} == does
    assert "to_next_(machine::opaque(count(taking_turns, steps) == 1 ? 0 : size))" in turns
    product = body(text_of("common/gradient_products.cuh"), "class GradientProduct ")
    assert product.count("of_step_before ? operands_.before() : operands_.now()") == 1
    assert product.count("of_step_before ? inverses_.before() : inverses_.now()") == 1


ACCESSES = {
    "store_relaxed": ("st", RULES.stores, "gpu", "global"),
    "load_relaxed": ("ld", RULES.read, "gpu", "global"),
    "store_release": ("st", RULES.raises, RULES.scope, "global"),
    "load_acquire": ("ld", RULES.polls, RULES.scope, "global"),
    # What follows a wait in vain is not part of the model: it orders nothing but two reports to the host.
    "store_to_host": ("st", "release", "sys", "global"),
    # Nor is what blocks of a cluster do: common/cluster_exchange.cuh.
    "begin_arrivals": ("fence", "mbarrier_init", "release", "cluster"),
    "store_to_block": ("st", "async", "shared::cluster", "mbarrier::complete_tx::bytes"),
}
"""The functions of common/machine.cuh that access what others read or write meanwhile, and how the model's do it."""


ACCESS = r"(?:ld|st|atom|red|fence|membar)\."


def test_ptx_instructions_have_the_orders_that_are_modelled() -> None:
    """And the compiler has to leave them where they are, and other accesses on their side of them."""
    text = text_of("common/machine.cuh")
    seen = []
    for name, inside in re.findall(r"__device__ __forceinline__ \w+ (\w+)\([^;]*?\) \{\n(.*?)\n\}", text, re.DOTALL):
        for opening, instruction, operands in re.findall(rf'(asm[^(]*)\("({ACCESS}[^" ]*)[^"]*"(.*?);', inside, re.DOTALL):
            assert tuple(instruction.rstrip(";").split(".")[:4]) == ACCESSES[name], name
            assert opening == "asm volatile"
            assert '"memory"' in operands
            seen.append(name)
    assert {*seen} == {*ACCESSES}
    assert len(seen) == len(re.findall(rf'"{ACCESS}', text))


def test_a_wait_sleeps_only_after_its_first_looks() -> None:
    """A sleep between two looks that follow each other may take as long as a tenth of the trip to the L2 cache."""
    text = text_of("common/machine.cuh")
    assert " ".join(body(text, "void pause(").split()) == 'if (looks >= prompt_looks) { asm volatile("nanosleep.u32 20;"); }'
    assert text.count("nanosleep") == 1
    assert "constexpr unsigned prompt_looks = 8;" in text


def test_nothing_else_accesses_what_blocks_exchange() -> None:
    names = (*ACCESSES, "store_exchanged", "load_exchanged")
    used = {
        path.relative_to(sources.directory()).as_posix()
        for path in sources.directory().rglob("*.cu*")
        for name in names
        if path.name != "machine.cuh" and f"machine::{name}(" in path.read_text(encoding="utf-8")
    }
    assert used == {"common/block_exchange.cuh", "common/cluster_exchange.cuh"}
