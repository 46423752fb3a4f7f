"""Every kernel compiles for every architecture that dmlpy supports, with every NVRTC that it may meet; no GPU is needed."""

from __future__ import annotations

import functools
import re
import subprocess
from collections.abc import Hashable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import combinations, product
from pathlib import Path

import pytest

from dmlpy.devices.cuda import sources
from dmlpy.devices.cuda.common.functors import ELEMENT_WISE, functor
from dmlpy.devices.cuda.emulation.compiler import FLAGS, HERE, over_cpu_machine
from dmlpy.devices.cuda.kernels import Kernel
from dmlpy.devices.cuda.recurrent.block_shapes import MOST_PERSISTENT_BLOCK_THREADS
from dmlpy.devices.host.processors import processors
from tests.support.cuda.binaries.nvrtc import (
    NEWEST,
    PROMISED,
    VERSIONS,
    NvrtcError,
    compile_instance,
    compile_instances,
    compile_ptx,
    nvrtc,
)
from tests.support.cuda.gpu_kernels import kernels_of_gpu_tests
from tests.support.cuda.instances.kernels import instances
from tests.support.cuda.plan_kernels import DEVICES, cases, kernels_of
from tests.support.pairwise import cover
from tests.support.tools import missing, require

ARCHITECTURES = (75, 80, 90, 100, 120)
OLDEST = VERSIONS[0]
REGISTERS = 65536
"""Of a multiprocessor, on all of these architectures."""

KERNELS = instances()
BY_NAME: dict[tuple[str, str], list[Kernel]] = {}
"""The instances of each kernel: of a file, and of a name in it."""
for _kernel in KERNELS:
    BY_NAME.setdefault((_kernel.file, _kernel.entry.partition("<")[0]), []).append(_kernel)
EVERY_CASE = 499
"""Of so many cases that name kernels, one is compiled at each run."""
STEPS = (75, 90, 120)
"""The architectures that a change compiles every kernel for: the oldest, the one that added most of what kernels use, the newest."""
PAIRED = ("attention/", "recurrent/gradient.cu", "recurrent/layer.cu")
"""Of these kernels a change is compiled for every pair of template arguments: two of them together decide whether a block's registers
suffice. In the others an argument is a function of an element, a type or a width, or a plan fits the block to the registers.
"""
ACTIVATIONS = frozenset(map(functor, ELEMENT_WISE))
PRODUCT_SHAPE = re.compile(r"\b(TensorCores|Fma)<[^<>]*>")
"""Sizes that a plan chooses for a layer; those of the instances are examples."""
MOST_TOGETHER = 48
"""Instances of a program: they share the time that their source takes to read, and processors share the programs."""


def require_version(version: str) -> None:
    """Skips where a version is missing that is not promised."""
    tool = "nvrtc" if version == NEWEST else f"nvrtc {version}"
    if version not in PROMISED and (reason := missing(tool)):
        pytest.skip(reason)
    require(tool)


def architectures_of(kernel: Kernel) -> list[int]:
    """Those that have what the kernel uses."""
    return [architecture for architecture in ARCHITECTURES if architecture >= kernel.lowest_capability]


def faults(kernels: Sequence[Kernel], architecture: int, version: str) -> str:
    """What is wrong with kernels of one file: a warning, another kernel with them, local memory, or that the largest block of
    `persistent_block` cannot be launched.
    """
    file = kernels[0].file
    place = f"{file} for sm_{architecture}, NVRTC {version}"
    try:
        results = compile_instances(sources.read(file), [kernel.entry for kernel in kernels], architecture, version)
    except NvrtcError as error:
        return str(error)
    found = [f"{place}: {results[0].warnings}"] if results[0].warnings else []
    if results[0].kernels != len(kernels):
        found.append(f"{place}: {results[0].kernels} kernels were compiled for {len(kernels)} instances")
    for kernel, result in zip(kernels, results, strict=True):
        if not (result.image.startswith(b"\x7fELF") and result.symbol.encode() in result.image):
            found.append(f"{place}: no image, or without {result.symbol} of {kernel.entry}")
        if result.stack_bytes > most_local_bytes(kernel, version):
            found.append(f"{place}: {kernel.entry} keeps {result.stack_bytes} bytes of a thread in local memory")
        if kernel.entry.startswith("persistent_block<") and result.registers * MOST_PERSISTENT_BLOCK_THREADS > REGISTERS:
            found.append(f"{place}: {kernel.entry} uses {result.registers} registers")
    return "\n".join(found)


def most_local_bytes(kernel: Kernel, version: str) -> int:
    """What a thread may keep in local memory: with NVRTC 12.9 the digits of large angles, and packs of the smallest integers."""
    if version != OLDEST:
        return 0
    entry = kernel.entry
    if any(f"element_wise::{function}>" in entry for function in ("Sin", "Cos", "Tan")):
        return 32
    return 16 if "ArgExtreme<signed char>" in entry else 0


def programs(pairs: Iterable[tuple[Kernel, int]]) -> list[tuple[list[Kernel], int]]:
    """Kernels of one file for one architecture, a few together."""
    together: dict[tuple[str, int], list[Kernel]] = {}
    for kernel, architecture in pairs:
        together.setdefault((kernel.file, architecture), []).append(kernel)
    return [
        (kernels[first : first + MOST_TOGETHER], architecture)
        for (_, architecture), kernels in together.items()
        for first in range(0, len(kernels), MOST_TOGETHER)
    ]


def all_faults(pairs: Iterable[tuple[Kernel, int]], version: str) -> str:
    """What is wrong with kernels for architectures, each on a line; compiled on all processors."""
    with ThreadPoolExecutor(processors()) as threads:
        found = threads.map(lambda program: faults(*program, version), programs(pairs))
        return "\n".join(filter(None, found))


def pairs(kernels: Iterable[Kernel] = KERNELS, architectures: Sequence[int] = ARCHITECTURES) -> list[tuple[Kernel, int]]:
    """Each instance for one architecture, in turn; and each kernel, in some instance, for those given that have what it uses."""
    by_name: dict[tuple[str, str], list[Kernel]] = {}
    for kernel in kernels:
        by_name.setdefault((kernel.file, kernel.entry.partition("<")[0]), []).append(kernel)
    found = []
    for same in by_name.values():
        missing_ones = [architecture for architecture in architectures if any(architecture in architectures_of(kernel) for kernel in same)]
        for number, kernel in enumerate(same):
            known = architectures_of(kernel)
            architecture = next((new for new in known if new in missing_ones), known[number % len(known)])
            missing_ones = [other for other in missing_ones if other != architecture]
            found.append((kernel, architecture))
        found += [(next(kernel for kernel in same if other in architectures_of(kernel)), other) for other in missing_ones]
    return found


def name(item: object) -> str:
    return f"sm_{item}" if isinstance(item, int) else str(item)


FILES = tuple(dict.fromkeys(kernel.file for kernel in KERNELS))


def usual_kernels(file: str) -> list[Kernel]:
    """Every third kernel of a file, in an instance from the middle. A stage of CI compiles all instances of all kernels."""
    return [same[len(same) // 2] for (place, _), same in BY_NAME.items() if place == file][::3]


def usual_architecture(file: str, version: str) -> int:
    """In turn; that of another version is another one."""
    known = [architecture for architecture in ARCHITECTURES if all(architecture in architectures_of(k) for k in usual_kernels(file))]
    return known[(FILES.index(file) + 2 * (version == OLDEST)) % len(known)]


@pytest.mark.parametrize(
    ("file", "version"),
    [
        pytest.param(file, version, marks=[pytest.mark.slow] * (number % 12 != (0 if version == OLDEST else 3)))
        for number, file in enumerate(FILES)
        for version in (OLDEST, NEWEST)
    ],
)
def test_some_kernels_of_each_file_compile(file: str, version: str) -> None:
    require_version(version)
    found = faults(usual_kernels(file), usual_architecture(file, version), version)
    assert not found, found


def parts_of(entry: str) -> tuple[str, ...]:
    """A kernel's name, and the names and values in its template arguments: `a<b<c, d>, e>` has `a`, `b`, `c`, `d` and `e`."""
    return tuple(found.strip() for found in re.split("[<>,]", entry) if found.strip())


def features(kernel: Kernel) -> set[Hashable]:
    """What a change is to be compiled with: each part in its place of the entry, in `PAIRED` each pair of them; and each activation
    somewhere in the folder, since kernels call all of them in the same way.
    """
    parts = parts_of(PRODUCT_SHAPE.sub(r"\1", kernel.entry))
    row = list(enumerate("activation" if part in ACTIVATIONS else part for part in parts))
    units = [*row, *combinations(row, 2)] if kernel.file.startswith(PAIRED) else row
    activations = {(kernel.file.partition("/")[0], part) for part in parts if part in ACTIVATIONS}
    return {*((kernel.file, parts[0], len(parts), unit) for unit in units), *activations}


@functools.cache
def representatives() -> tuple[Kernel, ...]:
    """The instances that a change is compiled for. For the other ones `test_every_instance_has_right_types` asks g++, in a hundredth of the
    time, and at night NVRTC compiles them.
    """
    shortest_first = sorted(KERNELS, key=lambda kernel: len(sources.read(kernel.file)))
    found = {shortest_first[number] for number in cover(list(map(features, shortest_first)))}
    return tuple(kernel for kernel in KERNELS if kernel in found)


def change() -> list[tuple[Kernel, int]]:
    """What a change is compiled for."""
    return pairs(representatives(), STEPS)


def half(version: str) -> list[tuple[Kernel, int]]:
    """The pairs of a change for the oldest or the newest version: of each file two or three architectures, of the next file the others.
    Instances for one architecture share the time that their source takes to read, so they are not divided.
    """
    turns = (*STEPS, *(known for known in ARCHITECTURES if known not in STEPS))
    of_newest = {(file, known) for number, file in enumerate(FILES) for turn, known in enumerate(turns) if (number + turn) % 2}
    return [pair for pair in change() if ((pair[0].file, pair[1]) in of_newest) == (version == NEWEST)]


@pytest.mark.slow
@pytest.mark.parametrize("version", [OLDEST, NEWEST], ids=name)
def test_half_of_the_instances_compiles(version: str) -> None:
    """A stage of CI: each of `representatives`, with one of the versions."""
    require_version(version)
    assert not (found := all_faults(half(version), version)), found


@pytest.mark.slow
@pytest.mark.parametrize("version", [OLDEST, NEWEST], ids=name)
def test_every_instance_compiles(version: str) -> None:
    require_version(version)
    assert not (found := all_faults(pairs(), version)), found


def type_errors(source: str, entries: Sequence[str]) -> str:
    """What g++ says against instances of a source's kernels."""
    uses = (f"auto* const instance_{number} = &{entry};\n" for number, entry in enumerate(entries))
    command = ["g++", *FLAGS, "-O0", "-fsyntax-only", f"-I{HERE}", "-x", "c++", "-"]
    return subprocess.run(command, input=f"{source}\n{''.join(uses)}", capture_output=True, text=True).stderr


@pytest.mark.slow  # .ci/run kernels
@pytest.mark.parametrize("file", FILES)
def test_every_instance_has_right_types(file: str) -> None:
    """g++ instantiates all of a file at once, without code for them: two milliseconds each, where NVRTC takes a hundred."""
    require("g++")
    found = type_errors(over_cpu_machine(sources.read(file)), [kernel.entry for kernel in KERNELS if kernel.file == file])
    assert not found, found


def test_a_wrong_type_in_one_instance_is_found() -> None:
    require("g++")
    text = """template <typename T> T twice(T x) { return x + x; }
template <typename T> void kernel(T* x) { *x = twice(*x); }
struct Text { char letters[4]; };
"""
    assert not type_errors(text, ["kernel<int>", "kernel<float>"])
    assert "no match for" in type_errors(text, ["kernel<int>", "kernel<Text>", "kernel<float>"])


def test_the_halves_are_the_change_and_each_has_every_kernel_and_architecture() -> None:
    halves = {version: half(version) for version in (OLDEST, NEWEST)}
    assert sorted(map(repr, halves[OLDEST] + halves[NEWEST])) == sorted(map(repr, change()))
    for version, chosen in halves.items():
        assert {(kernel.file, kernel.entry.partition("<")[0]) for kernel, _ in chosen} == {*BY_NAME}, version
        assert {architecture for _, architecture in chosen} == {*ARCHITECTURES}, version
    compiled = {(kernel.file, kernel.entry.partition("<")[0], known) for kernel, known in change()}
    assert compiled >= {(k.file, k.entry.partition("<")[0], known) for k in KERNELS for known in architectures_of(k) if known in STEPS}


def test_representatives_have_every_argument_of_every_kernel() -> None:
    assert set().union(*map(features, representatives())) == set().union(*map(features, KERNELS))
    assert parts_of("a<b<c, d<e>>, f>") == ("a", "b", "c", "d", "e", "f")
    assert len(representatives()) < 0.45 * len(KERNELS)


@pytest.mark.parametrize(
    ("file", "one", "other", "alike"),
    [
        ("matrix/product.cu", "product<float, Relu>", "product<float, Elu>", False),  # the folder needs both, the kernel one
        ("recurrent/persistent_grid.cu", "layer<Fma<8, 1>, Rnn>", "layer<Fma<16, 1>, Rnn>", True),
        ("recurrent/persistent_grid.cu", "layer<Fma<8, 1>, Rnn>", "layer<TensorCores<float, 1>, Rnn>", False),
        ("reduction/reduce.cu", "reduce<Sum, 1>", "reduce<Sum, 2>", False),
    ],
)
def test_instances_are_alike_that_differ_in_a_products_shape(file: str, one: str, other: str, alike: bool) -> None:
    first, second = (features(replace(KERNELS[0], file=file, entry=entry)) for entry in (one, other))
    assert (first == second) == alike


def test_every_instance_and_every_pair_of_kernel_and_architecture_is_compiled() -> None:
    compiled = pairs()
    assert {kernel for kernel, _ in compiled} == set(KERNELS)
    names = {(kernel.file, kernel.entry.partition("<")[0], architecture) for kernel, architecture in compiled}
    files = {path.relative_to(sources.directory()).as_posix() for path in sources.directory().rglob("*.cu")}
    usable = {(kernel.file, kernel.entry.partition("<")[0], known) for kernel in KERNELS for known in architectures_of(kernel)}
    assert names == usable
    limited = {file for file, _, _ in names} - {file for file, _, architecture in names if architecture == min(ARCHITECTURES)}
    assert limited == {"recurrent/clusters.cu"}, "all other files have kernels for every architecture"
    assert set(FILES) == files
    assert all(usual_kernels(file) for file in FILES)
    assert {usual_architecture(file, NEWEST) for number, file in enumerate(FILES) if number % 3} == set(ARCHITECTURES)
    assert {usual_architecture(file, OLDEST) for file in FILES[::3]} == set(ARCHITECTURES)


# what plans name


@pytest.mark.slow
@pytest.mark.parametrize(("version", "first"), [(OLDEST, 0), (NEWEST, EVERY_CASE // 2)])
def test_kernels_of_some_plans_compile(version: str, first: int) -> None:
    """Of every so many cases, those that no list has, for the device that they were chosen on."""
    require_version(version)
    chosen = cases()[first::EVERY_CASE]
    assert {case.limits for case in chosen} == set(DEVICES)
    named = [(kernel, case.limits.compute_capability) for case in chosen for kernel in case.kernels() if kernel not in KERNELS]
    assert len(named) >= 10
    assert not (found := all_faults(dict.fromkeys(named), version)), found


# all of them


@functools.cache
def kernels_of_plans() -> tuple[Kernel, ...]:
    """Those of the shapes of `dmlpy bench` that no list has."""
    return tuple(kernel for kernel in kernels_of(cases()) if kernel not in KERNELS)


@pytest.fixture(scope="module")
def kernels_of_tests(tmp_path_factory: pytest.TempPathFactory) -> tuple[Kernel, ...]:
    """Those of the tests marked `gpu` that neither a list nor a plan of a shape has."""
    count, kernels = kernels_of_gpu_tests(tmp_path_factory.mktemp("gpu") / "kernels")
    assert count > 1000
    named = dict.fromkeys(kernel for kernel, _ in kernels)
    return tuple(kernel for kernel in named if kernel not in (*KERNELS, *kernels_of_plans()))


@pytest.mark.slow
@pytest.mark.parametrize(("version", "architecture"), [*product(VERSIONS, ARCHITECTURES)], ids=name)
def test_every_kernel_compiles(version: str, architecture: int, kernels_of_tests: tuple[Kernel, ...]) -> None:
    require_version(version)
    every = (*KERNELS, *kernels_of_plans(), *kernels_of_tests)
    known = [(kernel, architecture) for kernel in every if architecture >= kernel.lowest_capability]
    assert not (found := all_faults(known, version)), found


def test_the_kernels_of_a_test_on_a_gpu_are_found(tmp_path: Path) -> None:
    """Also those that it comes to after a comparison, which fails where nothing computes."""
    test = "tests/devices/test_softmax.py::test_the_first_of_equal_entries_wins"
    count, named = kernels_of_gpu_tests(tmp_path / "kernels", test)
    kernels = [kernel for kernel, is_late in named if not is_late]
    assert count == 2
    assert {kernel.file for kernel in kernels} == {"activation/groups.cu"}
    assert {kernel.entry.partition(",")[0] for kernel in kernels} == {"groups<float", "groups<machine::half"}
    assert {kernel.entry.rpartition(" ")[2] for kernel in kernels} == {"true>", "false>"}, "the first layout needs one of them only"


# the compiler


@pytest.mark.parametrize("version", VERSIONS)
def test_the_version_that_is_asked_for_answers(version: str) -> None:
    """By its version function and by the version in its output, whichever others are loaded."""
    require_version(version)
    for other in VERSIONS:
        if missing("nvrtc" if other == NEWEST else f"nvrtc {other}") is None:
            nvrtc(other)
    answer = "{}.{}".format(*nvrtc(version).version)
    assert answer == version or (version == NEWEST and nvrtc(version).version >= (13, 0))
    assert f"Cuda compilation tools, release {answer}," in compile_ptx(sources.read("pack.cu"), "copy<float, float>", version)[0]


def test_an_error_names_the_file_and_line() -> None:
    require_version(NEWEST)
    text = (sources.directory() / "pack.cu").read_text(encoding="utf-8")
    call = "machine::to_float(value)"
    line = text[: text.index(call)].count("\n") + 1
    broken = sources.read("pack.cu").replace(call, "machine::to_flot(value)")
    with pytest.raises(NvrtcError, match=rf"pack\.cu\({line}\): error: .*to_flot"):
        compile_instance(broken, "copy<float, float>", 90)
