"""The conditions of measurements: computer, device, and two rates of the device, to judge times by."""

from __future__ import annotations

import os
import platform
import shutil
import statistics
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import dmlpy as dml
from dmlpy.bench.records import Host, Machine
from dmlpy.bench.shapes import LayerShape, Recurrent
from dmlpy.devices.cuda.device import CudaDevice
from dmlpy.devices.host.processors import processors
from dmlpy.messages.quantities import show_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from dmlpy.bench.work import Case

Product = tuple[int, int, int, str]
"""Rows, terms of each sum, columns and data type of a matrix product."""

COPIED_BYTES = {"cpu": 1 << 27, "cuda": 1 << 30}
"""The size of a copy that exceeds the caches."""
MEASURED_S = 0.05
MOST_COLUMNS = 1024
MOST_STACKED, STACKED_FLOPS = 64, 1 << 23
"""On the CPU, small products are batched into one call, up to these numbers of products and operations."""
LARGE = 8192
"""The sizes of the product that determines a GPU's rate."""
_DRAWN = 1 << 20
"""Random numbers for a product's factors, which repeat them."""
OPERATORS_PRODUCT: Product = (512, 512, 512, "FLOAT32")
"""The product whose rate determines the roofline of a single operator with matrix products."""
_QUERIED = ("driver_version", "clocks.sm", "clocks.mem", "clocks.max.sm", "temperature.gpu", "power.limit")


def load() -> list[float]:
    """The load averages of 1, 5 and 15 minutes; empty if the system has none."""
    return list(os.getloadavg()) if hasattr(os, "getloadavg") else []


_LOOP = """
import os, signal, sys, threading
signal.signal(signal.SIGINT, signal.SIG_IGN)
threading.Thread(target=lambda: (sys.stdin.read(), os._exit(0)), daemon=True).start()
while True:
    pass
"""
"""An endless loop that ends when its standard input is closed, at the latest when its parent process ends. Ctrl+C is left to the parent."""


@contextmanager
def busy(loops: int) -> Iterator[None]:
    """Runs endless loops in separate processes during the block, to simulate a busy machine."""
    started: list[subprocess.Popen[bytes]] = []
    try:
        for _ in range(loops):
            started.append(subprocess.Popen([sys.executable, "-c", _LOOP], stdin=subprocess.PIPE))
        yield
    finally:
        for loop in started:
            loop.kill()
            loop.communicate()


def host(threads: int, busy_loops: int = 0, max_isa: str | None = None) -> Host:
    """The computer's current state."""
    import psutil

    clock = psutil.cpu_freq() if hasattr(psutil, "cpu_freq") else None
    return Host(
        processor=_processor(),
        system=f"{platform.system()} {platform.release()}",
        cores=processors(),
        threads=threads,
        busy_loops=busy_loops,
        max_isa=max_isa,
        load_before=load(),
        clock_mhz=clock.current if clock else None,
    )


def _processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def device_facts(device: dml.Device) -> dict[str, str]:
    """The device's description of itself, and its kind."""
    facts = {"kind": device.memory_kind, **device.describe()}
    if isinstance(device, CudaDevice) and device.limits.l2_bytes:
        facts["L2 cache"] = show_bytes(device.limits.l2_bytes)
    return facts


def gpu_facts(ordinal: int) -> dict[str, str]:
    """nvidia-smi's report of the driver and the current clocks; empty without nvidia-smi."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return {}
    command = [program, f"--id={ordinal}", f"--query-gpu={','.join(_QUERIED)}", "--format=csv,noheader"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return {}
    return dict(zip(_QUERIED, (value.strip() for value in done.stdout.splitlines()[0].split(",")), strict=False))


# rates


def product_of_gpu() -> Product:
    """The matrix product that determines a GPU's rate."""
    return LARGE, LARGE, LARGE, "FLOAT16"


def products_of(case: Case) -> list[Product]:
    """The matrix products whose rates determine a case's floor on the processor."""
    if not isinstance(case.shape, Recurrent):
        return [OPERATORS_PRODUCT] if case.shape.flops(case.which) else []
    products: dict[Product, None] = {}
    for layer in case.shape.layers:
        products |= dict.fromkeys(_layer_products(case.shape, layer))
    return list(products)


def _layer_products(shape: Recurrent, layer: LayerShape) -> tuple[Product, Product]:
    """A layer's input product over all steps and its recurrent product, computed in FLOAT32 whatever the type."""
    rows = layer.gates * layer.hidden_size
    columns = min(shape.steps * shape.batch, MOST_COLUMNS)
    return (rows, layer.input_size, columns, "FLOAT32"), (rows, layer.state_size, shape.batch, "FLOAT32")


def product_key(product: Product) -> str:
    """A product's key in a record: rows, terms, columns and type."""
    rows, terms, columns, dtype = product
    return f"{rows}x{terms}x{columns} {dtype}"


def _flops(product: Product) -> int:
    rows, terms, columns, _ = product
    return 2 * rows * terms * columns


def _calls(product: Product) -> int:
    """The number of products to batch into one NumPy call, so that the rate excludes the call's overhead."""
    return max(1, min(MOST_STACKED, STACKED_FLOPS // _flops(product)))


def copies_of(case: Case) -> list[int]:
    """The sizes of copies whose rates determine a case's floor on the processor: a large one, and one that fits the caches."""
    large = COPIED_BYTES["cpu"]
    return [large] if _measure_copy(case) >= large else [large, _measure_copy(case)]


def _measure_copy(case: Case) -> int:
    """The size of a copy that moves as many bytes as a case, rounded up to a power of two."""
    return max(1 << 12, 1 << (case.shape.bytes(case.which, case.dtype) // 2 - 1).bit_length())


def rates(device_name: str, products: Iterable[Product], copies: Iterable[int]) -> dict[str, Any]:
    """The rates of copies by size (1e9 bytes/s) and of products by key (1e9 operations/s), and a GPU driver's report right after."""
    device = dml.device(device_name)
    measured: dict[str, Any] = {"copies": {}, "products": {}, "device": {}}
    for size in copies:
        measured["copies"][size] = 2 * size / _seconds(device, _copy(device, size)) / 1e9
    for product in products:
        calls = _calls(product) if device.memory_kind == "cpu" else 1
        measured["products"][product_key(product)] = calls * _flops(product) / _seconds(device, _multiply(device, product)) / 1e9
    if device.memory_kind == "cuda":
        measured["device"] = gpu_facts(int(device.name.partition(":")[2]))
    return measured


def _seconds(device: dml.Device, work: Callable[[], object]) -> float:
    """The least of several times, each the mean of enough calls to be measurable."""
    work()
    repeats, stream = 1, device.current_stream()
    seconds: list[float] = []
    while len(seconds) < 5:
        stop = device.start_timer(stream)
        start = time.perf_counter()
        for _ in range(repeats):
            work()
        taken = time.perf_counter() - start if stop is None else stop() / 1e3
        if taken < MEASURED_S / 5 and repeats < 1 << 20:
            repeats *= 2
        else:
            seconds.append(taken / repeats)
    return min(seconds)


def _copy(device: dml.Device, size: int) -> Callable[[], object]:
    stream = device.current_stream()
    source = device.upload(np.ones(size, np.uint8), stream)
    target = device.upload(np.zeros(size, np.uint8), stream)
    return lambda: device.copy(target.pointer, source.pointer, size, stream)


def _multiply(device: dml.Device, product: Product) -> Callable[[], object]:
    """Multiplies matrices as the device does: NumPy's product, or cuBLAS with sums in FLOAT32."""
    rows, terms, columns, data_type = product
    rng, dtype = np.random.default_rng(0), np.dtype(data_type.lower())
    drawn = rng.standard_normal(_DRAWN, np.float32).astype(dtype)
    left, right = (np.resize(drawn, sizes) for sizes in ((rows, terms), (columns, terms)))
    if device.memory_kind == "cpu":
        stacked, results = np.tile(right.T, (_calls(product), 1, 1)), np.empty((_calls(product), rows, columns), dtype)
        return lambda: np.matmul(left, stacked, out=results)
    from dmlpy.devices.cuda.runtime.interface import Matrix, MatrixProduct

    assert isinstance(device, CudaDevice)
    runtime, ordinal, stream = device.runtime, device.ordinal, device.current_stream()
    a, b = (device.upload(array, stream) for array in (left, right))
    c = device.allocate(4 * rows * columns, stream, "a product")
    multiplied = MatrixProduct(
        Matrix(a.pointer, rows, terms, terms, dtype),
        Matrix(b.pointer, columns, terms, terms, dtype),
        Matrix(c.pointer, rows, columns, columns, np.dtype(np.float32)),
    )
    operands = (a, b, c)

    def multiply() -> tuple[Any, ...]:
        runtime.gemm(ordinal, multiplied, stream)
        return operands

    return multiply


def floor_us(case: Case, machine: Machine) -> float | None:
    """The least time of a pass on the processor: its matrix products at their measured rates, or its bytes at a copy's rate.

    In training each product has two more, one of which is sequential too if the product itself is. None without rates.
    """
    if machine.copy_gb_s is None:
        return None
    memory = case.shape.memory_us(case.which, case.dtype, machine.cached_copy_gb_s.get(str(_measure_copy(case)), machine.copy_gb_s))
    if not isinstance(case.shape, Recurrent):
        rate = machine.gemm_gflops.get(product_key(OPERATORS_PRODUCT))
        return max(memory, case.shape.flops(case.which) / rate / 1e3) if rate else memory
    steps, total = sum(case.shape.sequence_lengths()), 0.0
    for layer in case.shape.layers:
        at_once, by_step = (machine.gemm_gflops.get(product_key(product)) for product in _layer_products(case.shape, layer))
        if at_once is None or by_step is None:
            return None
        waiting, free = (2, 1) if case.trains else (1, 0)
        flops_at_once = layer.input_flops * (3 if case.trains else 1) + layer.recurrent_flops * free
        total += steps * (flops_at_once / at_once + layer.recurrent_flops * waiting / by_step) / 1e3
    return max(memory, total)


def percentile(values: list[float], tenths: int) -> float:
    """The `tenths`-th decile of one or more values."""
    return statistics.quantiles(values, n=10, method="inclusive")[tenths - 1] if len(values) > 1 else values[0]
