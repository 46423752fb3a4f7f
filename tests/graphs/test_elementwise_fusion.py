"""Element-wise nodes that run as one kernel on CUDA and the CPU: which do, and that results stay the same bit for bit."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from pkgutil import resolve_name
from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from dmlpy.devices.cpu.elementwise.program import FUNCTIONS, OPERATORS
from dmlpy.devices.cuda import sources
from dmlpy.devices.cuda.device import CudaDevice
from dmlpy.devices.graphs import elementwise_fusion
from dmlpy.graphs import Graph, GraphBuilder
from tests.support.cuda.binaries.nvrtc import compile_instance
from tests.support.cuda.instances.chains import chain_kernels
from tests.support.cuda.plan_kernels import H100, RecordingLibrary
from tests.support.graphs.chains import TYPICAL, chain_around, chain_graph, element_wise
from tests.support.graphs.runs import on_device, on_host
from tests.support.operators.layout_runs import random_values, repeated
from tests.support.pairwise import first_few
from tests.support.tensors import tensor

Build = Callable[[GraphBuilder], Iterator[Any]]


@pytest.fixture(scope="module")
def planning_device() -> dml.Device:
    """Plans, and launches nothing."""
    library = RecordingLibrary(H100)
    device = CudaDevice(library.runtime)
    device.library = library
    return device


def unary(g: GraphBuilder, x: Any, name: str, **members: Any) -> Any:
    return g.add(dml.ElementWiseAbsDesc, name, input_tensor=x, output_tensor=tensor(*x.tensor.sizes), **members)


def add(g: GraphBuilder, a: Any, b: Any, name: str) -> Any:
    return g.add(dml.ElementWiseAddDesc, name, a_tensor=a, b_tensor=b, output_tensor=tensor(*a.tensor.sizes))


def inputs(g: GraphBuilder, count: int, *sizes: int) -> list[Any]:
    return [g.input(f"in{number}", tensor(*sizes)) for number in range(count)]


def tree(g: GraphBuilder) -> Iterator[Any]:
    a, b = inputs(g, 2, 2, 3)
    yield add(g, unary(g, a, "a"), unary(g, b, "b"), "sum")


def read_twice_within(g: GraphBuilder) -> Iterator[Any]:
    a = unary(g, inputs(g, 1, 2, 3)[0], "a")
    yield add(g, a, unary(g, a, "b"), "sum")


def read_outside(g: GraphBuilder) -> Iterator[Any]:
    a = unary(g, inputs(g, 1, 2, 3)[0], "a")
    yield unary(g, a, "b")
    yield g.add(dml.GEMMDesc, "product", a_tensor=a.viewed(tensor(1, 1, 2, 3)), b_tensor=a.viewed(tensor(1, 1, 3, 2)))


def an_output(g: GraphBuilder) -> Iterator[Any]:
    a = unary(g, inputs(g, 1, 2, 3)[0], "a")
    yield a
    yield unary(g, a, "b")


def reshaped(g: GraphBuilder) -> Iterator[Any]:
    a = unary(g, inputs(g, 1, 2, 3, 4)[0], "a")
    yield unary(g, a.viewed(tensor(6, 4)), "b")


def reshaped_with_a_broadcast_input(g: GraphBuilder) -> Iterator[Any]:
    """No strides read a repeated row as a part of one long row."""
    a, b = g.input("a", tensor(2, 3)), g.input("b", tensor(2, 3, strides=[0, 1]))
    yield unary(g, add(g, a, b, "sum").viewed(tensor(6)), "end")


def transposed(g: GraphBuilder) -> Iterator[Any]:
    a, b = g.input("a", tensor(4, 5)), g.input("b", tensor(5, 4))
    yield add(g, unary(g, a, "a").viewed(tensor(5, 4, strides=[1, 5])), b, "sum")


def transposed_and_not(g: GraphBuilder) -> Iterator[Any]:
    """The readers take other elements together."""
    a = unary(g, g.input("a", tensor(4, 4)), "a")
    yield add(g, a, a.viewed(tensor(4, 4, strides=[1, 4])), "sum")


def broadcast(g: GraphBuilder) -> Iterator[Any]:
    """What is computed once would be computed for each row."""
    a, b = g.input("a", tensor(1, 4)), g.input("b", tensor(3, 4))
    yield add(g, b, unary(g, a, "a").viewed(tensor(3, 4, strides=[0, 1])), "sum")


def broadcast_constant(g: GraphBuilder) -> Iterator[Any]:
    fill: dict[str, Any] = {"value_data_type": "FLOAT32", "value": 2.0}
    two = g.add(dml.FillValueConstantDesc, "two", output_tensor=tensor(1, 1), **fill)
    yield add(g, g.input("b", tensor(3, 4)), two.viewed(tensor(3, 4, strides=[0, 0])), "sum")


def gaps_that_are_read(g: GraphBuilder) -> Iterator[Any]:
    wide = tensor(2, 3, strides=[4, 1])
    a = g.add(dml.ElementWiseAbsDesc, "a", input_tensor=g.input("a", tensor(2, 3)), output_tensor=wide)
    yield unary(g, a.viewed(tensor(7)), "b")


def other_types(g: GraphBuilder) -> Iterator[Any]:
    a = g.add(dml.CastDesc, "cast", input_tensor=g.input("a", tensor(2, 3)), output_tensor=tensor(2, 3, data_type="FLOAT16"))
    yield g.add(dml.ElementWiseExpDesc, "exp", input_tensor=a)


def bits_as_another_type(g: GraphBuilder) -> Iterator[Any]:
    a = unary(g, g.input("a", tensor(2, 3)), "a")
    yield g.add(dml.ElementWiseBitNotDesc, "not", input_tensor=a.viewed(tensor(2, 3, data_type="UINT32")))


def copy_in_between(g: GraphBuilder) -> Iterator[Any]:
    a = unary(g, g.input("a", tensor(4, 5)), "a").viewed(tensor(5, 4, strides=[1, 5]))
    yield unary(g, g.add(dml.ElementWiseIdentityDesc, "turn", input_tensor=a, output_tensor=tensor(5, 4)), "b")


def copy_behind(g: GraphBuilder) -> Iterator[Any]:
    """A view costs nothing."""
    a = unary(g, g.input("a", tensor(1, 1, 4, 5)), "a").viewed(tensor(1, 1, 5, 4, strides=[20, 20, 1, 5]))
    turned = g.add(dml.ElementWiseIdentityDesc, "turn", input_tensor=a, output_tensor=tensor(1, 1, 5, 4))
    yield g.add(dml.GEMMDesc, "product", a_tensor=turned, b_tensor=turned, trans_b="TRANSPOSE")


def two_inputs_across(g: GraphBuilder) -> Iterator[Any]:
    """The engine takes one of them by tiles: in one kernel the other would be read with gaps."""
    a, b = inputs(g, 2, 32, 64)
    turned = tensor(64, 32, strides=[1, 64])
    yield add(g, unary(g, a.viewed(turned), "a"), unary(g, b.viewed(turned), "b"), "sum")


def fused_activation(g: GraphBuilder) -> Iterator[Any]:
    a, b = inputs(g, 2, 2, 3)
    yield unary(g, g.add(dml.ActivationReluDesc, "relu", input_tensor=add(g, a, b, "sum")), "abs")


def many_inputs(g: GraphBuilder) -> Iterator[Any]:
    first, *others = inputs(g, elementwise_fusion.MAX_INPUTS + 3, 2, 3)
    for number, other in enumerate(others):
        first = add(g, first, other, f"sum {number}")
    yield first


def many_nodes(g: GraphBuilder) -> Iterator[Any]:
    a = g.input("a", tensor(2, 3))
    for number in range(elementwise_fusion.MAX_GROUPED + 2):
        a = unary(g, a, f"abs {number}")
    yield a


def one_input_in_many_ways(g: GraphBuilder) -> Iterator[Any]:
    """Each way of reading takes its own place among the parameters."""
    square = g.input("a", tensor(9, 9))
    first = unary(g, square, "first")
    for number in range(elementwise_fusion.MAX_INPUTS):
        strides = [9, 1] if number % 2 else [1, 9]
        first = add(g, first, square.viewed(tensor(9, 9, strides=strides)), f"sum {number}")
    yield first


CHAINS: dict[str, tuple[Build, list[tuple[str, ...]]]] = {
    "tree": (tree, [("a", "b", "sum")]),
    "read twice within": (read_twice_within, [("a", "b", "sum")]),
    "read outside": (read_outside, []),
    "output": (an_output, []),
    "reshaped": (reshaped, [("a", "b")]),
    "reshaped with a broadcast input": (reshaped_with_a_broadcast_input, []),
    "transposed": (transposed, [("a", "sum")]),
    "transposed and not": (transposed_and_not, []),
    "broadcast": (broadcast, []),
    "broadcast constant": (broadcast_constant, [("two", "sum")]),
    "gaps that are read": (gaps_that_are_read, []),
    "other types": (other_types, [("cast", "exp")]),
    "bits as another type": (bits_as_another_type, [("a", "not")]),
    "copy in between": (copy_in_between, [("a", "turn", "b")]),
    "copy behind": (copy_behind, []),
    "two inputs across": (two_inputs_across, [("a", "sum")]),
    "fused activation": (fused_activation, [("sum", "abs")]),
    "many inputs": (many_inputs, [("sum 0", "sum 1", "sum 2"), tuple(f"sum {number}" for number in range(3, 14))]),
    "many nodes": (many_nodes, [("abs 0", "abs 1"), tuple(f"abs {number}" for number in range(2, 34))]),
    "one input in many ways": (one_input_in_many_ways, [("first", *(f"sum {number}" for number in range(elementwise_fusion.MAX_INPUTS)))]),
}


@pytest.mark.parametrize("name", CHAINS)
def test_which_nodes_run_as_one(name: str, planning_device: dml.Device) -> None:
    build, expected = CHAINS[name]
    g = GraphBuilder(name)
    for number, value in enumerate(build(g)):
        g.output(f"y{number}", value)
    graph = g.build()
    op = dml.compile(graph, planning_device)
    report = op.explain_plan()
    assert list(report.chains) == expected
    assert not any(f"one kernel      {', '.join(nodes)}" not in str(report) for nodes in expected)
    apart = dml.compile(graph, planning_device, fuse=False)
    assert not apart.explain_plan().chains
    assert (op.inputs, op.outputs) == (apart.inputs, apart.outputs), "callers bind the same tensors"
    assert not dml.compile(graph, "numpy").explain_plan().chains


def test_the_figures_are_those_of_the_chain(planning_device: dml.Device) -> None:
    """Operations are the same, and tensors between them are not moved."""
    g = GraphBuilder()
    a, b = inputs(g, 2, 1024, 1024)
    g.output("y", add(g, unary(g, a, "a"), unary(g, b, "b"), "sum"))
    one, apart = (dml.compile(g.build(), planning_device, fuse=fuse).explain_plan() for fuse in (True, False))
    assert one.flops == apart.flops == 3 * 2**20
    assert one.bytes_moved["tensors"] == 3 * 2**22
    assert apart.bytes_moved["tensors"] == 7 * 2**22
    assert (one.memory.size, len(one.order), len(apart.order)) == (0, 1, 3)


def outputs_of(op: dml.CompiledGraph, host: dict[str, Any]) -> dict[str, Any]:
    """What two dispatches over spoilt scratch give."""
    device = op.device
    given = {name: on_device(device, desc, host[name]) for name, desc in op.inputs.items()}
    results = {name: device.empty(desc, device.current_stream()) for name, desc in op.outputs.items()}
    size = op.binding_properties.temporary_resource_size
    scratch = device.from_host(np.full(size + 256, 0x7F, np.uint8))
    start = device.view(scratch).pointer
    dispatch = op.bind(given, results, temporary=dml.Buffer(start + -start % 256, size))
    for _ in range(2):
        dispatch()
    return {name: on_host(device, op.outputs[name], array) for name, array in results.items()}


def check_chains(graph: Graph, device: dml.Device, seed: int) -> None:
    """Fails unless a graph gives the same bits whether its chains are fused or not, except a NaN's payload."""
    one, apart = (dml.compile(graph, device, fuse=fuse) for fuse in (True, False))
    rng = np.random.default_rng(seed)
    host = {}
    for name, desc in one.inputs.items():
        memory = np.zeros(desc.memory.span, desc.memory.data_type.numpy)
        host[name] = np.lib.stride_tricks.as_strided(memory, desc.memory.sizes, desc.memory.numpy_strides())
        held = desc.memory
        host[name][...] = repeated(random_values(rng, held, positive=bool(rng.integers(2))), held)
    found, expected = outputs_of(one, host), outputs_of(apart, host)
    for name, array in found.items():
        assert same_numbers(array, expected[name]), name


def same_numbers(found: Any, expected: Any) -> bool:
    bits = f"u{found.itemsize}"
    same = np.ascontiguousarray(found).view(bits) == np.ascontiguousarray(expected).view(bits)
    return bool(np.all(same | (np.isnan(found) & np.isnan(expected)) if found.dtype.kind == "f" else same))


@pytest.mark.parametrize("name", first_few(list(TYPICAL), 3))
def test_typical_chains_give_the_same_bits(name: str, cuda_device: dml.Device) -> None:
    graph = TYPICAL[name]()
    assert dml.compile(graph, cuda_device).explain_plan().chains
    check_chains(graph, cuda_device, 1)


@pytest.mark.parametrize("seed", first_few(range(300), 2))
def test_random_chains_give_the_same_bits(seed: int, cuda_device: dml.Device) -> None:
    check_chains(chain_graph(seed, 2 + seed % 6), cuda_device, seed)


COMPILED = tuple(resolve_name(name).short_name() for name in (*FUNCTIONS, *OPERATORS))
"""The operators of the chains that the device `cpu` compiles."""


@pytest.mark.parametrize("name", [name for name in TYPICAL if name != "tanh gelu"])
def test_typical_chains_give_the_same_bits_on_the_cpu(name: str) -> None:
    pytest.importorskip("llvmlite")
    graph = TYPICAL[name]()
    assert dml.compile(graph, "cpu").explain_plan().chains
    check_chains(graph, dml.device("cpu"), 1)


@pytest.mark.parametrize("seed", first_few(range(300), 6))
def test_random_chains_give_the_same_bits_on_the_cpu(seed: int) -> None:
    pytest.importorskip("llvmlite")
    names = tuple(name for name in COMPILED if name in element_wise())
    check_chains(chain_graph(seed, 2 + seed % 6, names), dml.device("cpu"), seed)


@pytest.mark.slow
@pytest.mark.parametrize("block", range(16))
def test_every_operator_gives_the_same_bits_in_a_chain(block: int, cuda_device: dml.Device) -> None:
    """Of up to three of its types each."""
    for name in sorted(element_wise())[block::16]:
        descs = element_wise()[name]
        for desc in descs[:: -(-len(descs) // 3)]:
            graph = chain_around(desc)
            assert dml.compile(graph, cuda_device).explain_plan().chains, desc
            check_chains(graph, cuda_device, 2)


def test_every_node_of_a_chain_is_traced(cuda_device: dml.Device) -> None:
    g = GraphBuilder()
    a, b = inputs(g, 2, 2, 3)
    g.output("y", add(g, unary(g, a, "a"), unary(g, b, "b"), "sum"))
    op = dml.compile(g.build(), cuda_device)
    values = {name: cuda_device.from_host(np.full((2, 3), -1.0 - at, np.float32)) for at, name in enumerate(("in0", "in1"))}
    found = {name: float(cuda_device.to_host(array)[0, 0]) for name, array in op.trace(values).items()}
    assert found == {"a": 1, "b": 2, "sum": 3}


FFMA = 0x23
"""The low bits of the instructions that multiply and add with one rounding, from compute capability 7.5 on."""


@pytest.mark.parametrize("architecture", first_few([75, 120, 80, 90, 100], 2))
def test_products_and_sums_of_two_nodes_are_not_contracted(architecture: int) -> None:
    product, whole = (
        "Step<element_wise::Multiply, float, Given<0>, Given<1>>",
        "Step<element_wise::Add, float, Element<3, float>, Given<2>>",
    )
    entries = [
        f"elements<Chain<{product}, {whole}>, 1, int, 8, float, float, float, float>",
        "elements<Chain<Step<Linear, float, Given<0>>>, 1, int, 8, float, float>",
    ]
    apart, within = (compile_instance(sources.read("elementwise/chain.cu"), entry, architecture) for entry in entries)
    assert FFMA not in _opcodes(apart.image)
    assert FFMA in _opcodes(within.image), "of one node they are"


@pytest.mark.slow
@pytest.mark.parametrize("architecture", [75, 80, 90, 100, 120])
def test_random_chains_compile_without_warnings_and_spills(architecture: int) -> None:
    """The usual tests compile those that people write."""
    for kernel in chain_kernels(chain_graph(seed, 10) for seed in range(architecture, architecture + 10)):
        compiled = compile_instance(sources.read(kernel.file), kernel.entry, architecture)
        assert (compiled.warnings, compiled.spilled_bytes) == ("", 0), kernel.entry


def _opcodes(image: bytes) -> set[int]:
    """The opcodes of all instructions of a cubin, without their variants."""
    (sections,), (count,) = struct.unpack_from("<Q", image, 0x28), struct.unpack_from("<H", image, 0x3C)
    found = set()
    for number in range(count):
        _, kind, flags, _, offset, size = struct.unpack_from("<IIQQQQ", image, sections + 64 * number)
        if kind == 1 and flags & 4:  # code
            found |= {struct.unpack_from("<Q", image, at)[0] & 0x1FF for at in range(offset, offset + size, 16)}
    return found
