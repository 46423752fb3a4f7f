"""Functions of bytes that the CPU looks up in tables: which nodes become one, and that results stay the same bit for bit."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite", reason="llvmlite is not installed (the extra 'cpu')")

import dmlpy as dml
from dmlpy import compiler
from dmlpy.description.tensors import packed_strides
from dmlpy.devices.cpu.quantized import lookup_table
from dmlpy.devices.cpu.quantized.lookup_table import LookupTablePlan
from dmlpy.devices.cpu.quantized.products import ByteIsa, Dot, host_byte_isa
from dmlpy.devices.graphs.lookup_table_desc import LookupTableDesc
from dmlpy.graphs import GraphBuilder
from tests.support.operators.layout_runs import Array
from tests.support.tensors import tensor

CHANNELS = 5
SIZES = (2, CHANNELS, 7, 9)
OWNED = "OWNED_BY_DML"


class Chain:
    """A graph of quantized values.

    Args:
        sizes: those of all values.
        dtype: the type of bytes.
        flags: of the constants.
        axis: the dimension of constants with several entries.
    """

    def __init__(self, sizes: tuple[int, ...] = SIZES, dtype: str = "UINT8", flags: str = OWNED, axis: int = 1) -> None:
        self.g, self.sizes, self.dtype, self._flags, self._axis, self._count = GraphBuilder("chain"), sizes, dtype, flags, axis, 0

    def constant(self, dtype: str = "FLOAT32", *, varies: bool = False) -> Any:
        """One number for all elements, or for each entry along the axis."""
        strides = [int(varies and at == self._axis) for at in range(len(self.sizes))]
        self._count += 1
        return self.g.input(f"constant{self._count}", tensor(*self.sizes, data_type=dtype, strides=strides, flags=self._flags))

    def bytes(self, name: str = "x") -> Any:
        return self.g.input(name, tensor(*self.sizes, data_type=self.dtype))

    def numbers(self, x: Any, name: str = "dequantize", *, varies: bool = False) -> Any:
        constants = {"scale_tensor": self.constant(varies=varies), "zero_point_tensor": self.constant(self.dtype, varies=varies)}
        return self.g.add(dml.ElementWiseDequantizeLinearDesc, name, input_tensor=x, output_tensor=tensor(*self.sizes), **constants)

    def quantized(self, x: Any, name: str = "quantize", dtype: str = "", strides: list[int] | None = None) -> Any:
        dtype = dtype or self.dtype
        output = tensor(*self.sizes, data_type=dtype, strides=strides)
        constants = {"scale_tensor": self.constant(), "zero_point_tensor": self.constant(dtype)}
        return self.g.add(dml.ElementWiseQuantizeLinearDesc, name, input_tensor=x, output_tensor=output, **constants)

    def normalized(self, x: Any) -> Any:
        entries = tensor(*(size if at == 1 else 1 for at, size in enumerate(self.sizes)), flags=self._flags)
        own = {f"{name}_tensor": self.g.input(name, entries) for name in ("mean", "variance", "scale", "bias")}
        return self.g.add(dml.BatchNormalizationDesc, "norm", input_tensor=x, **own, epsilon=0.25)

    def constant_bytes(self, *, varies: bool = False) -> Any:
        return self.constant(self.dtype, varies=varies)

    def added(self, x: Any, other: Any, name: str = "sum") -> Any:
        """The quantized sum of bytes and constants."""
        ones = [1] * len(self.sizes)

        def one(dtype: str = "FLOAT32") -> Any:
            self._count += 1
            return self.g.input(f"constant{self._count}", tensor(*ones, data_type=dtype, flags=self._flags))

        output = tensor(*self.sizes, data_type=self.dtype)
        own = {f"{of}_scale_tensor": one() for of in ("a", "b", "output")} | {
            f"{of}_zero_point_tensor": one(self.dtype) for of in ("a", "b")
        }
        zero = {"output_zero_point_tensor": one(self.dtype)}
        return self.g.add(dml.ElementWiseQuantizedLinearAddDesc, name, a_tensor=x, b_tensor=other, **own, **zero, output_tensor=output)

    def product(self, a: Any, b: Any, name: str = "product") -> Any:
        return self.g.add(dml.ElementWiseMultiplyDesc, name, a_tensor=a, b_tensor=b, output_tensor=tensor(*self.sizes))

    def apply(self, kind: Any, x: Any, name: str, **members: Any) -> Any:
        return self.g.add(kind, name, input_tensor=x, output_tensor=tensor(*self.sizes), **members)


def nothing(c: Chain) -> None:
    c.g.output("y", c.quantized(c.numbers(c.bytes())))


def normalization(c: Chain) -> None:
    c.g.output("y", c.quantized(c.normalized(c.numbers(c.bytes()))))


def clipped(c: Chain) -> None:
    norm = c.normalized(c.numbers(c.bytes(), varies=True))
    c.g.output("y", c.quantized(c.apply(dml.ElementWiseClipDesc, norm, "clip", min=0.0, max=1.5), dtype="INT8"))


def rectified(c: Chain) -> None:
    c.g.output("y", c.quantized(c.apply(dml.ActivationReluDesc, c.normalized(c.numbers(c.bytes())), "relu")))


def sigmoid(c: Chain) -> None:
    c.g.output("y", c.quantized(c.apply(dml.ActivationSigmoidDesc, c.numbers(c.bytes()), "sigmoid")))


def leaky(c: Chain) -> None:
    c.g.output("y", c.quantized(c.apply(dml.ActivationLeakyReluDesc, c.numbers(c.bytes()), "leaky", alpha=0.1)))


def gate(c: Chain) -> None:
    """Both factors are functions of one value, of which one is quantized."""
    x = c.bytes()
    factor = c.quantized(c.apply(dml.ActivationSigmoidDesc, c.numbers(x), "sigmoid"), "between")
    c.g.output("y", c.quantized(c.product(c.numbers(x, "left"), c.numbers(factor, "right"))))


def error_function(c: Chain) -> None:
    """Both factors of a GELU are quantized functions of one number, as is a sum within one of them."""
    number = c.numbers(c.bytes())
    left = c.quantized(c.product(number, c.constant(), "half"), "between")
    right = c.added(c.quantized(c.apply(dml.ElementWiseErfDesc, number, "erf"), "step"), c.constant_bytes())
    c.g.output("y", c.quantized(c.product(c.numbers(left, "left"), c.numbers(right, "right"))))


def sum_of_bytes(c: Chain) -> None:
    c.g.output("y", c.added(c.bytes(), c.constant_bytes(varies=True)))


def added(c: Chain) -> None:
    """A bias for each channel."""
    total = c.g.add(
        dml.ElementWiseAddDesc,
        "sum",
        a_tensor=c.numbers(c.bytes()),
        b_tensor=c.constant(varies=True),
        output_tensor=tensor(*c.sizes),
    )
    c.g.output("y", c.quantized(total))


def twice(c: Chain) -> None:
    inner = c.quantized(c.normalized(c.numbers(c.bytes())), "between")
    c.g.output("y", c.quantized(c.apply(dml.ActivationHardSwishDesc, c.numbers(inner, "again"), "swish")))


def in_place(c: Chain) -> None:
    """Results overwrite the bytes that they are functions of, which no bytes determine."""
    x = c.g.input("x", tensor(*c.sizes))
    found = c.quantized(c.normalized(c.numbers(c.quantized(x, "first"))))
    c.g.output("y", c.numbers(found, "again"))


def with_gaps(c: Chain) -> None:
    """The results are part of a larger tensor."""
    c.g.output("y", c.quantized(c.normalized(c.numbers(c.bytes())), strides=[400, 80, 9, 1]))


def another_reader(c: Chain) -> None:
    """A value that another node reads is also computed outside the table."""
    norm = c.normalized(c.numbers(c.bytes()))
    c.g.output("y", c.quantized(norm))
    c.g.output("z", c.g.add(dml.ReduceDesc, "reduce", function="SUM", input_tensor=norm, axes=[3]))


def an_output(c: Chain) -> None:
    norm = c.normalized(c.numbers(c.bytes()))
    c.g.output("y", c.quantized(norm))
    c.g.output("z", norm)


def after_a_bias(c: Chain) -> None:
    """A bias for each entry of the last dimension has no table, but the function that follows has one."""
    total = c.added(c.bytes(), c.constant_bytes(varies=True), "bias")
    c.g.output("y", c.quantized(c.apply(dml.ActivationSigmoidDesc, c.numbers(total), "sigmoid")))


def gate_after_a_bias(c: Chain) -> None:
    """The last node reads the biased value before the longer way to it."""
    total = c.added(c.bytes(), c.constant_bytes(varies=True), "bias")
    factor = c.quantized(c.apply(dml.ActivationSigmoidDesc, c.numbers(total), "sigmoid"), "between")
    c.g.output("y", c.added(total, factor))


def factor(c: Chain, *sizes: int, sigmoid: bool = False, x: Any = None, varies: bool = False) -> Any:
    """The product of bytes and others of the given sizes, which are repeated: the number of each, or its sigmoid quantized."""
    few = Chain(sizes, c.dtype)
    few.g, few._count = c.g, 100
    other = few.numbers(few.bytes("f"), "number")
    if sigmoid:
        other = few.quantized(few.apply(dml.ActivationSigmoidDesc, other, "sigmoid"), "between")
        few._count += 10
        other = few.numbers(other, "again")
    strides = [step if size > 1 else 0 for size, step in zip(sizes, packed_strides(sizes), strict=True)]
    repeated = replace(other, tensor=tensor(*c.sizes, strides=strides))
    product = c.g.add(
        dml.ElementWiseMultiplyDesc,
        "product",
        a_tensor=c.numbers(c.bytes() if x is None else x, varies=varies),
        b_tensor=repeated,
        output_tensor=tensor(*c.sizes),
    )
    return c.quantized(product)


def of_channels(c: Chain) -> None:
    c.g.output("y", factor(c, 1, CHANNELS, 1, 1))


def of_rows(c: Chain) -> None:
    """A factor for each row of each image, of all channels."""
    c.g.output("y", factor(c, c.sizes[0], 1, c.sizes[2], 1, sigmoid=True))


def squeeze_excite(c: Chain) -> None:
    """The bytes are a function of others, which is computed in any case: the table begins there."""
    x = c.quantized(c.apply(dml.ActivationSigmoidDesc, c.numbers(c.bytes(), "left"), "silu"), "inner")
    c.g.output("y", factor(c, c.sizes[0], CHANNELS, 1, 1, sigmoid=True, x=x))
    c.g.output("z", x)


Build = Callable[[Chain], None]
# properties of the processor that decide on the instructions: any has those that smaller ones have
INSTRUCTIONS: dict[str, dict[str, Any]] = {
    "own": {},
    "shuffles": {"moves_bytes": False},
    "none of bytes": {"moves_bytes": False, "dot": Dot.PORTABLE},
}
LARGER = (2, CHANNELS, 41, 43)
"""The least elements for which a table of 256 rows is made are fewer."""
ROWS: dict[str, tuple[Build, tuple[str, ...]]] = {
    "channels": (of_channels, ("dequantize", "number", "product", "quantize")),
    "rows": (of_rows, ("dequantize", "number", "sigmoid", "between", "again", "product", "quantize")),
    "squeeze and excite": (squeeze_excite, ("dequantize", "number", "sigmoid", "between", "again", "product", "quantize")),
}
TABLES: dict[str, tuple[Build, tuple[str, ...]]] = {
    "nothing between": (nothing, ("dequantize", "quantize")),
    "normalization": (normalization, ("dequantize", "norm", "quantize")),
    "scales of channels": (clipped, ("dequantize", "norm", "clip", "quantize")),
    "fused RELU": (rectified, ("dequantize", "norm", "quantize")),
    "sigmoid": (sigmoid, ("dequantize", "sigmoid", "quantize")),
    "gate": (gate, ("dequantize", "sigmoid", "between", "left", "right", "product", "quantize")),
    "gate of several quantizations": (
        error_function,
        ("dequantize", "half", "between", "erf", "step", "sum", "left", "right", "product", "quantize"),
    ),
    "quantized sum": (sum_of_bytes, ("sum",)),
    "another reader": (another_reader, ("dequantize", "norm", "quantize")),
    "an output of the graph": (an_output, ("dequantize", "norm", "quantize")),
    "bias": (added, ("dequantize", "sum", "quantize")),
    "in place": (in_place, ("dequantize", "norm", "quantize")),
    "two functions": (twice, ("dequantize", "norm", "between", "again", "swish", "quantize")),
}


def made(build: Build, **members: Any) -> tuple[dml.CompiledGraph, dml.CompiledGraph]:
    """The graph as it runs, and with each node by itself."""
    chain = Chain(**members)
    build(chain)
    graph = chain.g.build()
    whole, apart = (dml.compile(graph, "cpu", fuse=fuse) for fuse in (True, False))
    return whole, apart


def arrays(compiled: dml.CompiledGraph, seed: int = 4) -> dict[str, Array]:
    """Bytes with every value, and small positive constants."""
    rng = np.random.default_rng(seed)
    found: dict[str, Array] = {}
    for name, desc in compiled.inputs.items():
        dtype = desc.data_type.numpy
        if desc.data_type.bits == 8 and not name.startswith("constant"):
            found[name] = rng.permuted(np.resize(np.arange(256, dtype=np.uint8), desc.sizes)).view(dtype)
            continue
        entries = [size if stride else 1 for size, stride in zip(desc.sizes, desc.element_strides, strict=True)]
        values = rng.integers(0, 100, entries) if desc.data_type.bits == 8 else rng.uniform(0.01, 0.2, entries)
        found[name] = np.broadcast_to(values.astype(dtype), desc.sizes)
    return found


def same(whole: dml.CompiledGraph, apart: dml.CompiledGraph) -> None:
    """Both give the same bytes, prepared or not, whatever was in the memory before."""
    given = arrays(whole)
    expected = apart(**given).as_dict()
    owned = {name: given[name] for name in whole.prepared_inputs}
    bound = {name: array for name, array in given.items() if name not in owned}
    for found in (whole(**given).as_dict(), whole.prepare(**owned)(**bound).as_dict() if owned else {}):
        for name, array in found.items():
            np.testing.assert_array_equal(array, expected[name])
            assert len(np.unique(array)) > 3


@pytest.mark.parametrize("dtype", ["UINT8", "INT8"])
@pytest.mark.parametrize("name", TABLES)
def test_functions_of_bytes_are_looked_up(name: str, dtype: str) -> None:
    build, nodes = TABLES[name]
    whole, apart = made(build, dtype=dtype)
    assert whole.explain_plan().chains == (nodes,)
    assert whole.explain_plan().in_place == (("quantize",) if build is in_place else ())
    assert "lookups on 1 thread" in whole.plan
    same(whole, apart)


@pytest.fixture(params=list(INSTRUCTIONS.values()), ids=list(INSTRUCTIONS))
def isa(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[ByteIsa]:
    """The instructions of a processor, while no plan with other ones is cached."""
    found = replace(host_byte_isa(), **request.param)
    monkeypatch.setattr(lookup_table, "host_byte_isa", lambda: found)
    compiler._compile_operator.cache_clear()
    yield found
    compiler._compile_operator.cache_clear()


def kernels_of(whole: dml.CompiledGraph) -> set[tuple[bool, ByteIsa]]:
    """Whether bytes choose rows, and the instructions, of each table."""
    plans = [step.operator._plan for step in whole._program.steps]
    return {plan._kernel for plan in plans if isinstance(plan, LookupTablePlan)}


@pytest.mark.parametrize("dtype", ["UINT8", "INT8"])
@pytest.mark.parametrize("name", ROWS)
def test_bytes_that_are_repeated_choose_a_row_of_a_table(name: str, dtype: str, isa: ByteIsa) -> None:
    build, nodes = ROWS[name]
    whole, apart = made(build, dtype=dtype, sizes=LARGER)
    assert sorted(nodes) in [sorted(chain) for chain in whole.explain_plan().chains]
    assert (True, isa) in kernels_of(whole)
    same(whole, apart)


def test_tables_hold_the_numbers_of_the_structs() -> None:
    """FLOAT members are 32-bit floats."""
    whole, _ = made(leaky)
    (step,) = whole._program.steps
    assert isinstance(step.operator.desc, LookupTableDesc)
    assert [getattr(node.desc, "alpha", None) for node in step.operator.desc.nodes] == [None, float(np.float32(0.1)), None]


@pytest.mark.parametrize(
    ("build", "nodes"),
    [(after_a_bias, ("dequantize", "sigmoid", "quantize")), (gate_after_a_bias, ("dequantize", "sigmoid", "between", "sum"))],
)
def test_the_longest_chain_with_a_table_is_taken(build: Build, nodes: tuple[str, ...]) -> None:
    whole, apart = made(build, axis=3)
    assert whole.explain_plan().chains == (nodes,)
    same(whole, apart)


@pytest.mark.parametrize(("build", "steps"), [(another_reader, 4), (an_output, 3), (error_function, 1)])
def test_only_values_that_others_read_are_also_computed_outside_tables(build: Build, steps: int) -> None:
    whole, _ = made(build)
    assert len(whole.explain_plan().order) == steps


@pytest.mark.parametrize("sizes", [(1, 2, 33, 1), (3, 4, 5, 64), (2, 3, 1, 191), (1, 1, 8, 8), (1, 2, 130, 1)])
def test_runs_of_all_lengths(sizes: tuple[int, ...], isa: ByteIsa) -> None:
    whole, apart = made(normalization, sizes=sizes)
    assert kernels_of(whole) == {(False, isa)}
    same(whole, apart)


def test_results_with_gaps_and_parts_of_runs_by_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lookup_table, "available_threads", lambda: 2)
    monkeypatch.setattr(lookup_table, "_WORK_OF_A_THREAD", 1)
    whole, apart = made(with_gaps)
    assert "lookups on 2 threads" in whole.plan
    same(whole, apart)
    monkeypatch.setattr(lookup_table, "_PIECE", 40)
    same(*made(normalization, sizes=(2, CHANNELS, 7, 10)))


def channels_last(c: Chain) -> None:
    """The elements of a channel are not side by side."""
    c.g.output("y", c.quantized(c.normalized(c.numbers(c.bytes())), strides=[315, 1, 45, 5]))


def two_values(c: Chain) -> None:
    operands = {"a_tensor": c.numbers(c.bytes("a"), "left"), "b_tensor": c.numbers(c.bytes("b"), "right")}
    c.g.output("y", c.quantized(c.g.add(dml.ElementWiseMultiplyDesc, "product", **operands, output_tensor=tensor(*c.sizes))))


def of_columns(c: Chain) -> None:
    """A factor for each entry of the last dimension."""
    c.g.output("y", factor(c, 1, 1, 1, c.sizes[3]))


def of_channels_with_scales(c: Chain) -> None:
    """Each channel has a scale of its own, and would have a table of 256 rows."""
    c.g.output("y", factor(c, 1, CHANNELS, 1, 1, x=c.bytes(), varies=True))


APART: dict[str, tuple[Build, dict[str, Any]]] = {
    "factors of the last dimension": (of_columns, {"sizes": LARGER}),
    "factors of few elements": (of_channels, {}),
    "factors and scales of channels": (of_channels_with_scales, {"sizes": LARGER}),
    "constants that are bound": (normalization, {"flags": "NONE"}),
    "two values": (two_values, {}),
    "constants of the last dimension": (added, {"axis": 3}),
    "channels side by side": (channels_last, {}),
    "short runs": (normalization, {"sizes": (8, CHANNELS, 1, lookup_table.SHORTEST_RUN - 1)}),
    "one element": (nothing, {"sizes": (1, 1, 1, 1)}),
}


@pytest.mark.parametrize("name", APART)
def test_what_is_not_looked_up(name: str) -> None:
    build, members = APART[name]
    whole, apart = made(build, **members)
    assert "lookups" not in whole.plan
    given = arrays(whole)
    for key, array in whole(**given).as_dict().items():
        np.testing.assert_array_equal(array, apart(**given).as_dict()[key])


def test_a_pickle_of_a_prepared_graph_holds_its_tables() -> None:
    whole, apart = made(normalization)
    given = arrays(whole)
    prepared = whole.prepare(**{name: given[name] for name in whole.prepared_inputs})
    again = pickle.loads(pickle.dumps(prepared))
    np.testing.assert_array_equal(again(x=given["x"]).y, apart(**given).y)


def test_numpy_runs_each_node() -> None:
    chain = Chain()
    normalization(chain)
    assert dml.compile(chain.g.build(), "numpy").explain_plan().chains == ()
