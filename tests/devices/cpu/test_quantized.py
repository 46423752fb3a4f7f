"""Compiled operators on bytes, on this machine's instructions and others: bit for bit what the definition gives."""

from __future__ import annotations

import itertools
import platform
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from dmlpy.description.tensors import packed_strides
from tests.support.operators.layout_runs import Array, run, run_in_layouts, tensor

pytest.importorskip("llvmlite")

from dmlpy.devices.cpu.float32_copies import Float32CopyPlan
from dmlpy.devices.cpu.isa import host_processor
from dmlpy.devices.cpu.jit import Kernel
from dmlpy.devices.cpu.plans import compiled_plan
from dmlpy.devices.cpu.quantized import convolution, divided_convolution, linear, matrix, plane_tiling, tiling
from dmlpy.devices.cpu.quantized.plans import with_joined_rows
from dmlpy.devices.cpu.quantized.products import ByteIsa, Dot, byte_isa_of, host_byte_isa
from dmlpy.devices.cpu.quantized.tiling import ByteGeometry
from tests.support.cpu.byte_convolutions import CONVOLUTIONS, convolution_of, extreme, scale
from tests.support.cpu.compiled_plans import run_on

BYTES = ("uint8", "int8")
OTHERS = [
    ByteIsa(16, 32, Dot.VPDPBUSD),
    ByteIsa(8, 16, Dot.VPDPBUSD),
    ByteIsa(16, 32, Dot.VPMADDWD),
    ByteIsa(8, 16, Dot.VPMADDWD),
    ByteIsa(4, 16, Dot.VPMADDWD),
    ByteIsa(4, 32, Dot.PORTABLE),
]
DOT = Kernel("tests.support.cpu.byte_dot:build_dot", 4)


def supported(isa: ByteIsa) -> bool:
    """Whether kernels may use the instructions here."""
    features = host_processor().features
    needed = {16: ["avx512bw", "avx512vl"], 8: ["avx2"], 4: []}[isa.lanes]
    if isa.dot is Dot.VPDPBUSD:
        needed = [*needed, "avx512vnni" if isa.lanes == 16 or features.get("avx512vl") else "avxvnni"]
    return isa.dot is Dot.PORTABLE or (platform.machine().lower() in ("x86_64", "amd64") and all(map(features.get, needed)))


@pytest.mark.parametrize("isa", [host_byte_isa(), *OTHERS], ids=str)
def test_products_of_extreme_bytes(isa: ByteIsa) -> None:
    """vpmaddubsw would saturate: 255 * 127 twice is more than 32767."""
    if not supported(isa):
        pytest.skip("this machine lacks the instructions")
    count = 4 * isa.lanes
    for left, right in itertools.product((0, 1, 127, 128, 255), (-128, -127, -1, 0, 127)):
        unsigned, signed = np.full(count, left, np.uint8), np.full(count, right, np.int8)
        unsigned[1::4], signed[2::4] = 3, 5
        sums = np.arange(isa.lanes, dtype=np.int32) - 2**30
        wanted = sums + (unsigned.astype(np.int32) * signed).reshape(-1, 4).sum(1, np.int32)
        DOT(isa)(*(array.ctypes.data for array in (sums, unsigned, signed)), sums.ctypes.data)
        np.testing.assert_array_equal(sums, wanted)


def test_instruction_sets() -> None:
    every = {"avx2": True, "avx512f": True, "avx512bw": True, "avx512vl": True, "avx512vnni": True}
    assert byte_isa_of(every, "x86_64") == ByteIsa(16, 32, Dot.VPDPBUSD)
    assert byte_isa_of({**every, "avx512vbmi": True, "avx512vbmi2": True}, "amd64") == ByteIsa(16, 32, Dot.VPDPBUSD, moves_bytes=True)
    assert byte_isa_of({**every, "avx512vbmi": True}, "x86_64") == ByteIsa(16, 32, Dot.VPDPBUSD)
    assert byte_isa_of({**every, "avx512vnni": False}, "amd64") == ByteIsa(16, 32, Dot.VPMADDWD)
    assert byte_isa_of({"avx2": True, "avx512f": True}, "x86_64") == ByteIsa(8, 16, Dot.VPMADDWD)
    assert byte_isa_of({"avx2": True, "avxvnni": True}, "x86_64") == ByteIsa(8, 16, Dot.VPDPBUSD)
    assert byte_isa_of({"avx": True}, "x86_64") == ByteIsa(4, 16, Dot.VPMADDWD)
    assert byte_isa_of({}, "aarch64") == ByteIsa(4, 32, Dot.PORTABLE)


def product_of(a: Array, b: Array, rng: np.random.Generator, *, each: bool, output: str = "") -> tuple[dml.OperatorDesc, dict[str, Array]]:
    """A product of matrices: of integers, or quantized again as `output`."""
    rows, columns, ones = a.shape[-2], b.shape[-1], (1,) * (a.ndim - 2)
    of_rows, of_columns = ((*ones, rows, 1), (*ones, 1, columns)) if each else ((*ones, 1, 1), (*ones, 1, 1))
    given = {"a_tensor": a, "a_zero_point_tensor": extreme(rng, a.dtype.name, *of_rows), "b_tensor": b}
    given["b_zero_point_tensor"] = extreme(rng, b.dtype.name, *of_columns)
    if not output:
        return dml.MatrixMultiplyIntegerDesc(**{name: tensor(array) for name, array in given.items()}).with_outputs(), given
    given |= {"a_scale_tensor": scale(rng, *of_rows), "b_scale_tensor": scale(rng, *of_columns)}
    given |= {"output_scale_tensor": scale(rng, *of_rows) * 300, "output_zero_point_tensor": extreme(rng, output, *of_rows)}
    sizes = (*np.broadcast_shapes(a.shape[:-2], b.shape[:-2]), rows, columns)
    described = dml.TensorDesc(data_type=output.upper(), sizes=sizes)
    tensors = {name: tensor(array) for name, array in given.items()}
    return dml.QuantizedLinearMatrixMultiplyDesc(**tensors, output_tensor=described), given


PRODUCTS = {
    "one row": (1, 67, 97),
    "few terms": (13, 2, 16),
    "no whole quad": (9, 5, 50),
    "several chunks and panels": (70, 133, 101),
    "one column": (8, 16, 1),
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_products(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """On two threads, and the same on one; B and its zero points transposed, too."""
    rng, (rows, terms, columns) = np.random.default_rng(1), PRODUCTS[name]
    for number, (left, right) in enumerate(itertools.product(BYTES, BYTES)):
        a, b = extreme(rng, left, rows, terms), extreme(rng, right, terms, columns)
        for output in ("", BYTES[number % 2]):
            desc, given = product_of(a, b if number % 2 else np.asfortranarray(b), rng, each=number > 1, output=output)
            wanted = run(desc, given)["output_tensor"]
            for threads in (1, 2):
                found = run_on(threads, matrix, desc, given, monkeypatch, prepared=threads == 1)
                np.testing.assert_array_equal(found, wanted)


COLUMNS = 130
"""Whole panels, and some columns of one more."""
# batch, rows, the axes along which B is the same, whether rows have scales, and the joined sizes
JOINED: dict[str, tuple[tuple[int, int], int, tuple[int, ...], bool, tuple[int, ...]]] = {
    "steps of one row": ((2, 5), 1, (0, 1), False, (1, 1, 10, COLUMNS)),
    "until there are many rows": ((2, 37), 1, (0, 1), False, (2, 1, 37, COLUMNS)),
    "few rows": ((1, 5), 3, (1,), False, (1, 1, 15, COLUMNS)),
    "scales of rows": ((1, 5), 3, (1,), True, (1, 5, 3, COLUMNS)),
    "scales of one row": ((1, 5), 1, (1,), True, (1, 1, 5, COLUMNS)),
    "another B": ((2, 5), 1, (1,), False, (2, 1, 5, COLUMNS)),
    "many rows": ((1, 2), 33, (1,), False, (1, 2, 33, COLUMNS)),
}


@pytest.mark.parametrize("output", ["", "uint8", "float32"])
@pytest.mark.parametrize("name", JOINED)
def test_rows_of_products_that_share_b_are_joined(name: str, output: str, monkeypatch: pytest.MonkeyPatch) -> None:
    batch, rows, shared, each, joined = JOINED[name]
    rng, terms = np.random.default_rng(9), 41
    a = extreme(rng, "uint8", *batch, rows, terms)
    b = extreme(rng, "int8", *(1 if axis in shared else size for axis, size in enumerate(batch)), terms, COLUMNS)
    desc, given = product_of(a, np.broadcast_to(b, (*batch, terms, COLUMNS)), rng, each=each, output=output if output == "uint8" else "")
    if output == "float32":
        given |= {"a_scale_tensor": scale(rng, 1, 1, rows if each else 1, 1), "b_scale_tensor": scale(rng, 1, 1, 1, 1)}
        if each:
            given["b_scale_tensor"] = scale(rng, 1, 1, 1, COLUMNS)
        given["bias_tensor"] = rng.normal(size=(*batch, rows, COLUMNS)).astype(np.float32)
        desc = dml.MatrixMultiplyIntegerToFloatDesc(**{place: tensor(array) for place, array in given.items()}).with_outputs()
    found = with_joined_rows(desc)
    assert found.tensors()["output_tensor"].sizes == joined
    assert dml.check(found) == []
    for threads in (1, 2):
        result = run_on(threads, matrix, desc, given, monkeypatch, prepared=threads == 1)
        np.testing.assert_array_equal(result, run(desc, given)["output_tensor"])


DIVIDED = {
    "dilations larger than tiles": 9,
    "dilations with strides": 9,
    "dilated columns": 3,
    "dilations beyond the image": 1,
    "windows before the image": 1,
}
"""The convolutions of the taps that reach the image, where each is worth a launch."""


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolutions(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """On two threads, and the same on one."""
    rng = np.random.default_rng(2)
    monkeypatch.setattr(tiling, "_TILE_BYTES", 3000)
    for number, types in enumerate(itertools.product(BYTES, BYTES)):
        for output in ("", BYTES[number % 2]):
            desc, given = convolution_of(name, types, rng, output=output, wide=number == 3)
            assert not isinstance(compiled_plan(desc), str)
            wanted = run(desc, given)["output_tensor"]
            for threads in (1, 2):
                found = run_on(threads, convolution, desc, given, monkeypatch, prepared=threads == 1)
                np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("name", DIVIDED)
def test_convolutions_of_the_taps_that_reach_the_image(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Padding stands for 0, also where filters have zero points; in any layout, with filters packed or not."""
    monkeypatch.setattr(divided_convolution, "WORTH_DIVIDING", 0)
    monkeypatch.setattr(tiling, "_TILE_BYTES", 3000)
    rng = np.random.default_rng(6)
    for types, output in ((("uint8", "int8"), "uint8"), (("int8", "uint8"), ""), (("int8", "int8"), "int8")):
        desc, given = convolution_of(name, types, rng, output=output)
        plan, wanted = compiled_plan(desc), run(desc, given)["output_tensor"]
        assert isinstance(plan, divided_convolution.DividedConvolutionPlan)
        assert plan.describe().startswith(f"{DIVIDED[name]} convolution")
        assert [problem for part in plan._parts for problem in dml.check(part.plan._desc)] == []
        for threads in (1, 2):
            np.testing.assert_array_equal(run_on(threads, convolution, desc, given, monkeypatch, prepared=threads == 1), wanted)
        np.testing.assert_array_equal(run_in_layouts(desc, given, "cpu")["output_tensor"], wanted)


@pytest.mark.parametrize("name", [name for name in CONVOLUTIONS if "depthwise" in name or "planes" in name])
def test_depthwise_convolutions_without_permutations(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """On processors that move no bytes within registers of 512 bits."""
    isa = replace(host_byte_isa(), moves_bytes=False)
    monkeypatch.setattr(convolution, "host_byte_isa", lambda: isa)
    monkeypatch.setattr(tiling, "_TILE_BYTES", 3000)
    rng = np.random.default_rng(2)
    for number, types in enumerate(itertools.product(BYTES, BYTES)):
        desc, given = convolution_of(name, types, rng, output="" if number % 2 else BYTES[number // 2], wide=number == 2)
        wanted = run(desc, given)["output_tensor"]
        for threads in (1, 2):
            np.testing.assert_array_equal(run_on(threads, convolution, desc, given, monkeypatch, prepared=threads == 1), wanted)


def test_vectors_of_planes() -> None:
    """As few as there can be: through all rows, a row after the other, or short rows side by side; quads of a row, or of all taps."""
    rng, isa = np.random.default_rng(3), host_byte_isa()
    if not isa.moves_bytes:
        pytest.skip("this machine moves no bytes within registers of 512 bits")
    found = {name: plane_tiling.PlaneTiling.of(geometry_of(name, rng), 4, 1, isa) for name in CONVOLUTIONS}
    chosen = {name: (tiling.chunks, tiling.quads, tiling.orders) for name, tiling in found.items() if tiling is not None}
    assert chosen == {
        "depthwise": (11, 3, 1),
        "depthwise with strides": (6, 10, 1),
        "depthwise, dilated rows": (2, 1, 1),
        "depthwise, dilated columns": (2, 1, 1),
        "small planes": (1, 3, 1),
        "small planes with strides": (3, 3, 1),
        "small planes, dilated": (3, 7, 7),
        "small planes, pointwise": (11, 1, 1),
        "planes of short rows with strides": (1, 3, 1),
        "planes of very short rows": (1, 3, 1),
        "planes with columns behind the last window": (3, 6, 1),
    }


def test_large_and_few_planes_are_divided_by_rows() -> None:
    """A plane that is not a tile for each of the threads, and one that no first cache holds."""
    geometry = geometry_of("small planes", np.random.default_rng(3))
    large = replace(geometry, spatial=(300, 300), out=(300, 300), input_steps=(0, 90_000, 300, 1), output_steps=(0, 90_000, 300, 1))
    isa = ByteIsa(16, 32, Dot.VPDPBUSD, moves_bytes=True)
    assert plane_tiling.PlaneTiling.of(large, 1, 1, isa) is None
    assert plane_tiling.PlaneTiling.of(geometry, 1, 2 * 6 + 1, isa) is None


@pytest.mark.skipif(sys.platform != "linux", reason="pages are protected as Linux does it")
@pytest.mark.parametrize("name", [name for name in CONVOLUTIONS if "planes" in name])
def test_nothing_behind_the_planes_is_read(name: str) -> None:
    """The registers of the last plane reach behind it: with a page there that nobody may touch, the process would end."""
    from tests.fuzzing.pages import Guarded

    desc, given = convolution_of(name, ("uint8", "int8"), np.random.default_rng(4), output="uint8")
    wanted, plan = run(desc, given)["output_tensor"], compiled_plan(desc)
    assert not isinstance(plan, str)
    blocks = {place: Guarded(array.nbytes, array.itemsize, at_end=True, fill=0) for place, array in given.items()}
    blocks |= {"output_tensor": Guarded(wanted.nbytes, 1, at_end=True, fill=9)}
    for place, array in given.items():
        blocks[place].values(array.shape, array.dtype, array.strides)[...] = array
        blocks[place].write_protect(True)
    scratch = Guarded(plan.temporary_size, 64, at_end=True, fill=0xA5)
    plan.bind({place: block.pointer for place, block in blocks.items()}, scratch.pointer, None)(0)
    np.testing.assert_array_equal(blocks["output_tensor"].values(wanted.shape, wanted.dtype, wanted.strides), wanted)
    assert np.count_nonzero(blocks["output_tensor"].bytes == 9) >= blocks["output_tensor"].bytes.size - wanted.size


def geometry_of(name: str, rng: np.random.Generator) -> ByteGeometry:
    desc, _ = convolution_of(name, ("uint8", "int8"), rng)
    assert isinstance(desc, dml.ConvolutionIntegerDesc)
    return ByteGeometry.of(desc)


@pytest.mark.parametrize(
    "name", ["small planes with strides", "pointwise, several rows of positions", "strides of 2", "depthwise with strides"]
)
def test_layouts_of_convolutions(name: str) -> None:
    """With gaps and axes in another order; what is around the elements is unchanged."""
    desc, given = convolution_of(name, ("int8", "uint8"), np.random.default_rng(3), output="int8")
    wanted = run(desc, given)["output_tensor"]
    np.testing.assert_array_equal(run_in_layouts(desc, given, "cpu")["output_tensor"], wanted)


def test_bytes_that_lie_where_words_would() -> None:
    """Each is 4 bytes from the next: what lies between them is unchanged."""
    desc, given = convolution_of("small planes", ("int8", "uint8"), np.random.default_rng(3), output="int8")
    wanted = run(desc, given)["output_tensor"]
    sizes = wanted.shape
    apart = dml.TensorDesc(data_type="INT8", sizes=sizes, strides=[4 * stride for stride in packed_strides(sizes)])
    np.testing.assert_array_equal(run(desc.replace(output_tensor=apart), given, "cpu")["output_tensor"], wanted)


def test_results_far_beyond_their_type() -> None:
    """Of either sign: quotients that no integer of 32 bits holds, infinities, and NaN among those that are near."""
    rng = np.random.default_rng(5)
    for output in BYTES:
        desc, given = convolution_of("pointwise, several rows of positions", ("uint8", "int8"), rng, output=output)
        given["filter_zero_point_tensor"][...] = 0
        given["filter_scale_tensor"][0, :8, 0, 0] = 1e9, -1e9, 1e15, -3e38, np.inf, np.nan, 0.3, 1e6
        with np.errstate(all="ignore"):
            wanted = run(desc, given)["output_tensor"]
        np.testing.assert_array_equal(run(desc, given, "cpu")["output_tensor"], wanted)


@pytest.mark.slow
@pytest.mark.parametrize("isa", OTHERS, ids=str)
def test_other_processors(isa: ByteIsa, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whole kernels with the instructions of other processors."""
    if not supported(isa):
        pytest.skip("this machine lacks the instructions")
    rng = np.random.default_rng(4)
    for module in (convolution, linear, matrix):
        monkeypatch.setattr(module, "host_byte_isa", lambda: isa)
    cases = [convolution_of(name, types, rng, output="uint8") for name in CONVOLUTIONS for types in itertools.product(BYTES, BYTES)]
    for rows, terms, columns in PRODUCTS.values():
        a, b = extreme(rng, "int8", rows, terms), extreme(rng, "uint8", terms, columns)
        cases += [product_of(a, b, rng, each=True), product_of(a, b, rng, each=True, output="int8")]
    for desc, given in cases:
        module = matrix if "a_tensor" in given else convolution
        np.testing.assert_array_equal(run_on(1, module, desc, given, monkeypatch), run(desc, given)["output_tensor"])
    for make, given in ELEMENTS.values():
        with np.errstate(all="ignore"):
            wanted = run(make(), given)["output_tensor"]
        np.testing.assert_array_equal(run_on(1, linear, make(), given, monkeypatch), wanted)


@pytest.mark.parametrize("output", BYTES)
@pytest.mark.parametrize("isa", [host_byte_isa(), ByteIsa(16, 32, Dot.VPDPBUSD), ByteIsa(8, 16, Dot.VPMADDWD)], ids=str)
def test_quotients_next_to_ties(isa: ByteIsa, output: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sums that no float32 holds, with scales whose products lie on each side of ties by less than float32 tells apart."""
    if not supported(isa):
        pytest.skip("this machine lacks the instructions")
    monkeypatch.setattr(convolution, "host_byte_isa", lambda: isa)
    rng, zero = np.random.default_rng(8), 0 if output == "uint8" else -128
    desc, given = convolution_of("pointwise, several rows of positions", ("uint8", "int8"), rng, output=output)
    filters = given["filter_tensor"].shape[0]
    for number in range(12):
        given["input_zero_point_tensor"][...] = given["filter_zero_point_tensor"][...] = 0
        given["output_zero_point_tensor"][...] = zero
        sums = rng.integers(1 << 24, 1 << 27, filters)  # of a bias, beside which products are small
        given["bias_tensor"][0, :, 0, 0] = sums
        given["output_scale_tensor"][...] = 1
        given["input_scale_tensor"][...] = np.float32(1 + rng.random())
        tie = rng.integers(100, 255, filters) + 0.5
        given["filter_scale_tensor"][0, :, 0, 0] = (tie / (sums * float(given["input_scale_tensor"].item()))).astype(np.float32)
        given["filter_tensor"][...] = rng.integers(-1, 2, given["filter_tensor"].shape)
        wanted = run(desc, given)["output_tensor"]
        found = run_on(1, convolution, desc, given, monkeypatch)
        np.testing.assert_array_equal(found, wanted, err_msg=str(number))


SCALES = {
    "zero": 0.0,
    "infinity": np.inf,
    "NaN": np.nan,
    "subnormal": 1e-42,
    "of no precision in float32": 1e-38,
    "negative": -0.01,
}


@pytest.mark.parametrize("name", SCALES)
def test_scales_that_float32_cannot_divide(name: str) -> None:
    rng = np.random.default_rng(5)
    a, b = extreme(rng, "uint8", 5, 9), extreme(rng, "int8", 9, 20)
    for field in ("a_scale_tensor", "b_scale_tensor", "output_scale_tensor"):
        desc, given = product_of(a, b, rng, each=False, output="uint8")
        given[field][...] = SCALES[name]
        with np.errstate(all="ignore"):
            wanted = run(desc, given)["output_tensor"]
        np.testing.assert_array_equal(run(desc, given, "cpu")["output_tensor"], wanted)


def test_sums_wrap_around() -> None:
    """More terms than fit in 32 bits: sums of integers wrap, what is quantized again is computed by NumPy."""
    a, b = np.full((1, 40_000), 255, np.uint8), np.full((40_000, 1), 255, np.uint8)
    desc, given = product_of(a, b, np.random.default_rng(6), each=False)
    given = {name: array for name, array in given.items() if "zero" not in name}
    desc = desc.replace(a_zero_point_tensor=None, b_zero_point_tensor=None)
    assert run(desc, given, "cpu")["output_tensor"].item() == 40_000 * 255 * 255 - 2**32
    scaled, _ = product_of(a, b, np.random.default_rng(6), each=False, output="uint8")
    assert compiled_plan(scaled) == "a sum of more than 33025 products may not fit in 32 bits"


def of_elements() -> dict[str, tuple[Callable[[], dml.OperatorDesc], dict[str, Array]]]:
    """Element-wise operators on odd numbers of elements, with ties, infinities, NaN and scales of 0."""
    rng = np.random.default_rng(7)
    x = (rng.integers(-900, 900, (3, 5, 37)) / 4).astype(np.float32)
    x[0, 0, :6] = np.nan, np.inf, -np.inf, 3e38, -0.0, 1e-44
    q, of_channels = extreme(rng, "int8", 3, 5, 37), np.array([0.5, 0.25, 3.1, 0.0, -1.5], np.float32).reshape(1, 5, 1)
    zeros, one = extreme(rng, "int8", 1, 5, 1), (1, 1, 1)
    found: dict[str, tuple[Callable[[], dml.OperatorDesc], dict[str, Array]]] = {}
    for name, kind, field in (("quantize", dml.QuantizeDesc, x), ("dequantize", dml.DequantizeDesc, q)):
        for of, own, zero in (("one", of_channels[:, :1], zeros[:, :1]), ("each", of_channels, zeros)):
            given = {"input_tensor": field, "quantization_tensors[0]": own, "quantization_tensors[1]": zero}

            def desc(kind: Any = kind, given: dict[str, Array] = given) -> dml.OperatorDesc:
                parameters = [tensor(given[f"quantization_tensors[{number}]"]) for number in (0, 1)]
                made = kind(
                    input_tensor=tensor(given["input_tensor"]), quantization_type="SCALE_ZERO_POINT", quantization_tensors=parameters
                )
                return made.with_outputs()

            found[f"{name}, {of}"] = desc, given
    given = {"a_tensor": q, "b_tensor": extreme(rng, "uint8", 3, 5, 37)}
    for name, value in (("a", 0.5), ("b", 0.25), ("output", 1.5)):
        given[f"{name}_scale_tensor"] = np.full(one, value, np.float32)
    given |= {"a_zero_point_tensor": zeros[:, :1], "b_zero_point_tensor": np.full(one, 200, np.uint8)}
    given["output_zero_point_tensor"] = np.full(one, -7, np.int8)
    output = dml.TensorDesc(data_type="INT8", sizes=q.shape)
    tensors = {name: tensor(array) for name, array in given.items()}
    found["add"] = lambda: dml.ElementWiseQuantizedLinearAddDesc(**tensors, output_tensor=output), given
    for repeats, sizes in (("a", one), ("b", one), ("a", (3, 5, 1)), ("b", (1, 5, 1)), ("ab", (3, 1, 1))):
        parts = {f"{name}_tensor": np.broadcast_to(given[f"{name}_tensor"][tuple(map(slice, sizes))], q.shape) for name in repeats}
        whole = given | parts

        def sums(whole: dict[str, Array] = whole) -> dml.OperatorDesc:
            described = {name: dml.TensorDesc.of(array) for name, array in whole.items()}
            return dml.ElementWiseQuantizedLinearAddDesc(**described, output_tensor=output)

        found[f"add, {' and '.join(repeats)} of {sizes}"] = sums, whole
    return found


ELEMENTS = of_elements()


@pytest.mark.parametrize("name", ELEMENTS)
def test_elements(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """On two threads, and the same on one, whose pieces are others."""
    desc, given = ELEMENTS[name]
    plan = compiled_plan(desc())
    assert not isinstance(plan, str)
    assert (plan.temporary_size > 0) == name.startswith("add, ")  # a repeated operand is in scratch, from which it is read in vectors
    with np.errstate(all="ignore"):
        wanted = run(desc(), given)["output_tensor"]
    for threads in (1, 2):
        np.testing.assert_array_equal(run_on(threads, linear, desc(), given, monkeypatch), wanted)


@pytest.mark.parametrize("data_type", ["UINT8", "INT8"])
def test_quotients_at_ties(data_type: str) -> None:
    """Products with a reciprocal would round some of these another way."""
    rng = np.random.default_rng(8)
    for factor in (0.1, 3.0, 1 / 3, 0.0078125, 1e-20, -0.7, *rng.uniform(1e-3, 2, 12)):
        of = np.float32(factor)
        x = ((np.arange(-300, 300) + 0.5) * of).astype(np.float32)
        x = np.concatenate([x, np.nextafter(x, np.float32(np.inf)), np.nextafter(x, np.float32(-np.inf))])
        given = {
            "input_tensor": x,
            "scale_tensor": repeated(of, x.shape),
            "zero_point_tensor": repeated(np.array(5, data_type.lower()), x.shape),
        }
        tensors = {name: dml.TensorDesc.of(array) for name, array in given.items()}
        desc = dml.ElementWiseQuantizeLinearDesc(**tensors, output_tensor=dml.TensorDesc(data_type=data_type, sizes=x.shape))
        np.testing.assert_array_equal(run(desc, given, "cpu")["output_tensor"], run(desc, given)["output_tensor"], err_msg=str(factor))


def test_sums_of_all_bytes() -> None:
    """With scales whose quotients are ties, are far beyond the output's range, or are neither."""
    rng = np.random.default_rng(9)
    every = np.indices((256, 256), np.uint8)
    for scales in ((0.5, 0.25, 0.5), (0.02, 0.03, 0.045), (3.0, 0.1, 0.7), (-0.3, 0.4, 0.35), *rng.uniform(0.1, 1.0, (5, 3))):
        for types in (("uint8", "int8", "uint8"), ("int8", "uint8", "int8")):
            given = {f"{name}_tensor": part.view(of) for name, part, of in zip("ab", every, types[:2], strict=True)}
            for name, factor, of in zip(("a", "b", "output"), scales, types, strict=True):
                given[f"{name}_scale_tensor"] = np.full((1, 1), factor, np.float32)
                given[f"{name}_zero_point_tensor"] = rng.integers(0, 128, (1, 1)).astype(of)
            tensors = {name: dml.TensorDesc.of(array) for name, array in given.items()}
            desc = dml.ElementWiseQuantizedLinearAddDesc(
                **tensors, output_tensor=dml.TensorDesc(data_type=types[2].upper(), sizes=(256, 256))
            )
            np.testing.assert_array_equal(run(desc, given, "cpu")["output_tensor"], run(desc, given)["output_tensor"], err_msg=str(scales))


def repeated(value: Any, sizes: tuple[int, ...]) -> Array:
    """The same number everywhere, with strides of 0."""
    return np.broadcast_to(value, sizes)


def test_other_types_are_computed_by_numpy() -> None:
    whole, scale = (dml.TensorDesc(data_type=kind, sizes=(2, 3)) for kind in ("INT32", "FLOAT32"))
    reason = "compiled quantization is between FLOAT32 and UINT8 or INT8"
    assert compiled_plan(dml.ElementWiseDequantizeLinearDesc(input_tensor=whole, scale_tensor=scale).with_outputs()) == reason


@pytest.mark.parametrize("prepared", [False, True])
def test_products_in_halves(prepared: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The results of FLOAT32 from the same scales and biases, rounded."""
    rng = np.random.default_rng(10)
    arrays = {"a_tensor": extreme(rng, "uint8", 2, 5, 37), "b_tensor": extreme(rng, "int8", 2, 37, 19)}
    numbers = {"a_scale_tensor": (1, 1, 1), "b_scale_tensor": (1, 1, 19), "bias_tensor": (2, 5, 19)}
    found = []
    for kind in ("float16", "float32"):
        given = arrays | {name: np.random.default_rng(1).uniform(0.01, 0.5, sizes).astype(np.float16) for name, sizes in numbers.items()}
        given = {name: array.astype(kind) if name in numbers else array for name, array in given.items()}
        tensors = {name: tensor(array) for name, array in given.items()}
        desc = dml.MatrixMultiplyIntegerToFloatDesc(**tensors, output_tensor=dml.TensorDesc(data_type=kind.upper(), sizes=(2, 5, 19)))
        assert isinstance(compiled_plan(desc), Float32CopyPlan) == (kind == "float16")
        found.append(run_on(1, matrix, desc, given, monkeypatch, prepared=prepared))
    np.testing.assert_array_equal(found[0], found[1].astype(np.float16))


def test_zeros_keep_their_sign_without_a_bias() -> None:
    """A sum of 0 times a negative scale is -0."""
    given = {"a_tensor": np.zeros((3, 5), np.uint8), "b_tensor": np.ones((5, 19), np.int8)}
    given |= {"a_scale_tensor": np.array([[-1.0], [1.0], [-2.0]], np.float32), "b_scale_tensor": np.ones((1, 19), np.float32)}
    output = dml.TensorDesc(data_type="FLOAT32", sizes=(3, 19))
    desc = dml.MatrixMultiplyIntegerToFloatDesc(**{name: tensor(array) for name, array in given.items()}, output_tensor=output)
    signs = np.signbit(run(desc, given, "cpu")["output_tensor"])
    np.testing.assert_array_equal(signs, np.broadcast_to([[True], [False], [True]], (3, 19)))


@pytest.mark.parametrize("strides", [(0, 1), (3, 0), (300, 2)], ids=["one row", "one column", "gaps"])
def test_biases_of_any_strides(strides: tuple[int, int]) -> None:
    """Whole panels of columns and a part of one; contiguous biases of a whole panel are read in place."""
    rng, sizes = np.random.default_rng(11), (5, COLUMNS)
    given = {"a_tensor": extreme(rng, "uint8", 5, 41), "b_tensor": extreme(rng, "int8", 41, COLUMNS)}
    given |= {"a_scale_tensor": scale(rng, 1, 1), "b_scale_tensor": scale(rng, 1, 1)}
    kept = tuple(1 if step == 0 else size for size, step in zip(sizes, strides, strict=True))
    given["bias_tensor"] = np.broadcast_to(rng.normal(size=kept).astype(np.float32), sizes)
    tensors = {name: tensor(array) for name, array in given.items()}
    tensors["bias_tensor"] = dml.TensorDesc(data_type="FLOAT32", sizes=sizes, strides=strides)
    desc = dml.MatrixMultiplyIntegerToFloatDesc(**tensors).with_outputs()
    assert not isinstance(compiled_plan(desc), str | Float32CopyPlan)
    np.testing.assert_array_equal(run(desc, given, "cpu")["output_tensor"], run(desc, given)["output_tensor"])
