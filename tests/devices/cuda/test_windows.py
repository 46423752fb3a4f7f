"""raw_kernels/common/windows.cuh and axes.cuh by themselves, executed on the CPU: numbers beyond 32 bits, and positions one by one."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from dmlpy.devices.axes import Axis, merged
from dmlpy.devices.cuda import sources
from dmlpy.devices.cuda.common.axes import axes_type, axes_value
from dmlpy.devices.cuda.common.windows import WINDOW, Window, windows_value
from dmlpy.devices.cuda.emulation.runtime import EmulatedRuntime
from dmlpy.devices.cuda.kernels import struct
from tests.support.tools import require

PROBES = """
template <class T>
struct LocateParameters {
    T const* numbers;
    long long* places;
    Axes<2> axes;
    int count;
};

template <class T>
__global__ void probe_locate(LocateParameters<T> const parameters) {
    for (int i = 0; i < parameters.count; ++i) {
        Places<2> const places = locate_far(parameters.axes, parameters.numbers[i]);
        parameters.places[2 * i] = places.of[0];
        parameters.places[2 * i + 1] = places.of[1];
    }
}

template <class T>
struct PositionsParameters {
    Window const* windows;
    T const* elements;
    T* found;
    int count;
};

template <class T>
__global__ void probe_positions(PositionsParameters<T> const parameters) {
    for (int i = 0; i < parameters.count; ++i) {
        Window const& window = parameters.windows[i];
        T const element = parameters.elements[i];
        Positions const positions = positions_with(window, element);
        T* const found = parameters.found + 5 * i;
        found[0] = positions.first;
        found[1] = positions.count;
        found[2] = positions.count > 0 ? tap_of(window, element, positions.first) : 0;
        found[3] = tap_count(window, element - window.start, false);
        found[4] = tap_count(window, element - window.start, true);
    }
}
"""


def run(entry: str, argument: np.ndarray[Any, Any], arrays: dict[str, np.ndarray[Any, Any]], result: str) -> np.ndarray[Any, Any]:
    """The array `result` after a launch of one thread of a probe over these arrays."""
    require("g++")
    runtime = EmulatedRuntime()
    [(image, symbol)] = runtime.compile(sources.read("pooling/gradient.cu") + PROBES, [entry], 90)
    memories = {name: runtime.to_device(0, np.frombuffer(array.tobytes(), np.int64), 0) for name, array in arrays.items()}
    for name, memory in memories.items():
        argument[name] = memory.pointer
    runtime.bind_launch(runtime.load(0, image, symbol, 0), (1, 1, 1), 1, 0, argument)(0)
    runtime.check_guards()
    return runtime.to_host(memories[result], 0)


def test_entries_beyond_2_to_the_32() -> None:
    axes = [Axis(70_001, (3, -(2**40))), Axis(2**32 - 1, (1 << 20, 7)), Axis(1, (5, 5)), Axis(77, (1, 0))]
    total = 70_001 * (2**32 - 1) * 77
    numbers = np.array([0, 1, 76, 77, 2**32 - 1, 2**32, 77 * 2**32 + 5, total // 2, total - 1], np.uint64)
    parameters = struct(("numbers", np.uint64), ("places", np.uint64), ("axes", axes_type(2)), ("count", np.int32))
    argument = np.zeros(1, parameters)
    argument["axes"], argument["count"] = axes_value(axes, 2), numbers.size
    arrays = {"numbers": numbers, "places": np.zeros(2 * numbers.size, np.int64)}
    found = run("probe_locate<unsigned long long>", argument, arrays, "places").reshape(-1, 2)
    for number, places in zip(numbers.tolist(), found.tolist(), strict=True):
        expected, rest = [0, 0], number
        for axis in reversed(axes):
            rest, entry = divmod(rest, axis.size)
            expected = [place + entry * stride for place, stride in zip(expected, axis.strides, strict=True)]
        assert places == expected, number


def test_axes_are_merged_as_far_as_32_bits_count_them() -> None:
    assert merged((65536, 65535), [(65535, 1)]) == (Axis(65536 * 65535, (1,)),)
    assert merged((65536, 65536), [(65536, 1)]) == (Axis(65536, (65536,)), Axis(65536, (1,)))


def windows() -> list[tuple[Window, int]]:
    """Windows along one dimension, each with all elements of it; and some numbers beyond 32 bits."""
    found = []
    for size, start, end, length, dilation, stride in itertools.product((1, 5), (0, 3), (0, 2), (1, 3), (1, 2, 6), (1, 2, 4)):
        room = size + start + end - 1 - (length - 1) * dilation
        for positions in {room // stride + 1, -(-room // stride) + 1} if room >= 0 else ():
            own = Window(size, start, end, length, dilation, stride, positions)
            found += [(own, element) for element in range(size)]
    huge = Window(2**32 - 1, 2**32 - 1, 0, 2**16 + 1, 3, 2**15, (2**33 - 2 - 3 * 2**16 - 1) // 2**15 + 1)
    return found + [(huge, element) for element in (0, 12345, 2**31, 2**32 - 2)]


def test_positions_that_have_an_element_and_taps_that_are_elements() -> None:
    """Against all positions whose taps reach the element."""
    cases = windows()
    argument = np.zeros(1, struct(("windows", np.uint64), ("elements", np.uint64), ("found", np.uint64), ("count", np.int32)))
    argument["count"] = len(cases)
    arrays = {
        "windows": windows_value([window for window, _ in cases]),
        "elements": np.array([element for _, element in cases]),
        "found": np.zeros(5 * len(cases), np.int64),
    }
    assert arrays["windows"].dtype == WINDOW
    found = run("probe_positions<long long>", argument, arrays, "found").reshape(-1, 5)
    several = 0
    for (window, element), (first, count, tap, inside, padded) in zip(cases, found.tolist(), strict=True):
        place, reach = element + window.start, (window.length - 1) * window.dilation
        near = range(max(0, -(-(place - reach) // window.stride)), min(place // window.stride, window.positions - 1) + 1)
        expected = [position for position in near if (place - position * window.stride) % window.dilation == 0]
        what = f"{window} {element}"
        assert [first + i * window.apart for i in range(count)] == expected, what
        assert not expected or tap == (place - expected[0] * window.stride) // window.dilation, what
        taps = range(element - window.start, element - window.start + reach + 1, window.dilation)
        assert inside == sum(0 <= tap < window.size for tap in taps), what
        assert padded == sum(tap < window.size + window.end for tap in taps), what
        several += len(expected) > 1
    assert several > 50
