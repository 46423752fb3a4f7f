"""The compiler of the CPU device's kernels: what it makes of Python's statements and operators, and what it refuses."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import dmlpy as dml

pytest.importorskip("llvmlite", reason="llvmlite is not installed (the extra 'cpu')")

from dmlpy.devices.cpu.compiler.expressions import KernelError
from dmlpy.devices.cpu.compiler.functions import jit
from dmlpy.devices.cpu.compiler.translation import Translation
from dmlpy.devices.cpu.jit import Kernel
from tests.support.cpu import compiled_functions as functions

if TYPE_CHECKING:
    from pathlib import Path

MODULE = "tests.support.cpu.compiled_functions"
WRITER = Kernel(f"{MODULE}:build_writer", 3)


@pytest.mark.parametrize("name", [function.__name__ for function in functions.FUNCTIONS])
def test_results_are_those_of_python(name: str) -> None:
    function, kernel, place = functions.build(name), WRITER(name), np.zeros(1, np.int64)
    rng = np.random.default_rng(3)
    numbers = [*range(-3, 4), *map(int, rng.integers(-50, 50, 12))]
    for x in numbers:
        for y in numbers:
            expected = _as_python(function, x, y)
            kernel(place.ctypes.data, x, y)
            assert place[0] == expected, (x, y)


def _as_python(function: Any, x: int, y: int) -> int:
    """The result of a function whose helpers are run as Python, too."""
    scope = dict(function.__globals__)
    helpers = {name: value for name, value in scope.items() if name in ("_ordered", "_difference")}
    for name, helper in helpers.items():
        scope[name] = type(function)(helper.python.__code__, scope, name)
    found: int = type(function)(function.__code__, scope)(x, y)
    return found


@pytest.mark.parametrize(("x", "y"), [(7, 2), (-7, 2), (7, -2), (-7, -2), (6, 3), (7, 0), (-7, 0), (0, 5)])
def test_divisions_by_any_number(x: int, y: int) -> None:
    """By 0 they give 0: a kernel cannot raise."""
    found = np.full(2, 99, np.int64)
    Kernel(f"{MODULE}:build_divisions", 3)()(found.ctypes.data, x, y)
    assert found.tolist() == ([x // y, x % y] if y else [0, 0])


@pytest.mark.parametrize(("scaled", "factor", "expected"), [(True, 3, 21), (False, 3, -7)])
def test_what_is_known_is_decided_when_compiling(scaled: bool, factor: int, expected: int) -> None:
    found = np.zeros(1, np.int64)
    Kernel(f"{MODULE}:build_known", 2)(scaled, factor)(found.ctypes.data, 7)
    assert found[0] == expected


def test_fields_of_structs() -> None:
    """Integers of 32 bits are computed with in 64."""
    struct = np.array([(4, 0.5, 0.25, 1 << 20)], functions.FIELDS)
    Kernel(f"{MODULE}:build_fields", 1)()(struct.ctypes.data)
    count = 4 + (1 << 40) + (1 << 20)
    assert struct[0].tolist() == (count, np.float32(0.5 * count), np.float32(0.5 * count) + 0.25, 5)


@pytest.mark.parametrize("x", [0.3, -1e-3, 12345.678])
def test_numbers_are_promoted_as_those_of_numpy(x: float) -> None:
    source, found = np.array([x], np.float32), np.zeros(4, np.float32)
    Kernel(f"{MODULE}:build_promotions", 3)()(source.ctypes.data, found.ctypes.data, 3)
    np.testing.assert_array_equal(found, functions.promotions(source[0], 3))


@pytest.mark.parametrize(("target", "x", "expected"), [("build_external", -12, 12), ("build_intrinsic", 5, 51), ("build_intrinsic", 2, 20)])
def test_functions_of_other_kinds(target: str, x: int, expected: int) -> None:
    found = np.zeros(1, np.int64)
    Kernel(f"{MODULE}:{target}", 2)()(found.ctypes.data, x)
    assert found[0] == expected


@pytest.mark.parametrize(("function", "message"), functions.REFUSED, ids=lambda value: getattr(value, "__name__", ""))
def test_what_cannot_be_compiled_is_refused(function: Any, message: str) -> None:
    with pytest.raises(KernelError, match=rf"compiled_functions\.py:\d+: .*{message}|^{message}"):
        Translation().add_kernel(function, 1, returns=False, symbol="kernel")


@pytest.mark.parametrize(
    ("source", "message"),
    [(None, "it is missing; keep the .py files of dmlpy"), ("def other(x):\n    return x\n", "it has no kernel at line 1")],
)
def test_a_source_that_does_not_fit_is_reported(source: str | None, message: str, tmp_path: Path) -> None:
    """Packages may leave out sources, and an update may replace those of a running process."""
    file, scope = tmp_path / "kernels.py", dict[str, Any]()
    exec(compile("def kernel(x):\n    return x\n", str(file), "exec"), scope)
    if source is not None:
        file.write_text(source)
    with pytest.raises(dml.DeviceError, match=f"compiles kernel from its source file, .*kernels.py, which it cannot use: {message}"):
        Translation().add_kernel(scope["kernel"], 1, returns=True, symbol="kernel")


def test_a_function_is_compiled_once_for_its_types() -> None:
    """Numbers that are known are passed as others."""

    @jit
    def twice(x: Any) -> Any:
        return x + x

    def kernel(x: Any) -> Any:
        return twice(1) + twice(x) + twice(2) + int(twice(0.5))

    translation = Translation()
    translation.add_kernel(kernel, 1, returns=True, symbol="kernel")
    assert [function.name.rpartition(".")[0].rpartition(".")[2] for function in translation.module.functions] == ["", "twice", "twice"]


class _Factor:
    def __init__(self, value: int) -> None:
        self.value = value


class _Factors:
    """Each read gives a new object, whose place in memory the next one may have."""

    three = property(lambda self: _Factor(3))
    five = property(lambda self: _Factor(5))


def test_known_arguments_that_are_read_anew_are_not_mistaken_for_each_other() -> None:
    @jit
    def times(x: Any, factor: Any) -> Any:
        return x * factor.value

    factors = _Factors()

    def kernel(x: Any) -> Any:
        return times(x, factors.three) + times(x, factors.five)

    translation = Translation()
    translation.add_kernel(kernel, 1, returns=True, symbol="kernel")
    numbers = re.findall(r"mul (?:nsw )?i64 %[^,]*, (\d+)", str(translation.module))
    assert sorted(map(int, numbers)) == [3, 5]


def test_functions_for_kernels_do_not_run_in_python() -> None:
    with pytest.raises(TypeError, match="_ordered is a function for kernels only"):
        functions.calls(1, 2)
