"""The direct calls of CUDA's driver, against a library with its interface in which a graph is destroyed by a thread of its own."""

from __future__ import annotations

import ctypes
import gc
import threading
import weakref

import pytest

from dmlpy.devices.cuda.emulation.compiler import compile_program
from dmlpy.devices.cuda.runtime.captures import RELAXED, CaptureDriver, GraphMemory
from dmlpy.messages.problems import DeviceError
from tests.support.tools import require

LIBRARY = """
#include <stddef.h>
#include <stdint.h>
#include <thread>
// As cuda.h declares it. Stream 7 is captured in the graph of the current number, stream 8 is not captured, the capture of stream 9 is
// invalid, and no other stream exists.
typedef void (*Destructor)(void*);
struct Object { void* pointer; Destructor destroy; unsigned references; };
struct Graph { Object* objects[16]; size_t count; size_t nodes; };
static thread_local int mode = 0;
static Graph* graph = nullptr;
static uint64_t number = 0;
static int refusing = 0, released = 0;
static void drop(Object* object, unsigned count) {
    object->references -= count;
    if (object->references == 0) {  // on an internal thread, as CUDA does
        std::thread([object] { object->destroy(object->pointer); delete object; }).join();
    }
}
#define EXPORT extern "C" __attribute__((visibility("default")))
EXPORT int cuThreadExchangeStreamCaptureMode(int* value) {
    if (*value < 0 || *value > 2) return 1;
    const int before = mode; mode = *value; *value = before; return 0;
}
EXPORT int cuStreamGetCaptureInfo_v2(void* stream, int* status, uint64_t* id, Graph** made, void* dependencies, void* count) {
    const uintptr_t handle = reinterpret_cast<uintptr_t>(stream);
    if (handle < 7 || handle > 9 || dependencies || count) return 400;
    *status = handle == 7 ? 1 : handle == 8 ? 0 : 2;
    if (handle == 7) { *id = number; *made = graph; }
    return 0;
}
EXPORT int cuGraphGetNodes(Graph* of, void* nodes, size_t* count) { if (of != graph || nodes) return 1; *count = of->nodes; return 0; }
EXPORT int cuUserObjectCreate(Object** made, void* pointer, Destructor destroy, unsigned references, unsigned flags) {
    if (!pointer || !destroy || references != 1 || flags != 1) return 1;
    *made = new Object{pointer, destroy, references}; return 0;
}
EXPORT int cuUserObjectRelease(Object* object, unsigned count) { ++released; drop(object, count); return 0; }
EXPORT int cuGraphRetainUserObject(Graph* of, Object* object, unsigned count, unsigned flags) {
    if (refusing || of != graph || count != 1 || flags != 1 || of->count == 16) return 1;
    of->objects[of->count++] = object; return 0;
}
// what the tests do with it
EXPORT void refuse(int value) { refusing = value; }
EXPORT int released_objects() { return released; }
EXPORT void* begin(size_t nodes) { ++number; graph = new Graph{{}, 0, nodes}; return graph; }
EXPORT size_t object_count(Graph* of) { return of->count; }
EXPORT void destroy(Graph* of) { for (size_t i = 0; i < of->count; ++i) drop(of->objects[i], 1); delete of; }
"""
CAPTURED, IDLE, INVALID, UNKNOWN = 7, 8, 9, 10
GLOBAL, THREAD_LOCAL = 0, 1


@pytest.fixture(scope="module")
def library() -> ctypes.CDLL:
    require("g++")
    path = str(compile_program(LIBRARY, ("-std=c++17", "-O1", "-shared", "-fPIC", "-fvisibility=hidden", "-pthread")))
    loaded = ctypes.CDLL(path)
    loaded.begin.restype, loaded.begin.argtypes = ctypes.c_void_p, (ctypes.c_size_t,)
    loaded.object_count.restype, loaded.object_count.argtypes = ctypes.c_size_t, (ctypes.c_void_p,)
    for call in (loaded.destroy, ctypes.PyDLL(path).destroy):
        call.restype, call.argtypes = None, (ctypes.c_void_p,)
    return loaded


class Block:
    """Memory."""


def held_block(memory: GraphMemory) -> weakref.ref[Block]:
    """A block that only the graph of `CAPTURED` keeps alive."""
    block = Block()
    memory.hold(CAPTURED, block)
    return weakref.ref(block)


def exchanged(library: ctypes.CDLL, mode: int) -> int:
    """Sets the thread's mode, and returns the one before."""
    value = ctypes.c_int(mode)
    assert library.cuThreadExchangeStreamCaptureMode(ctypes.byref(value)) == 0
    return value.value


def test_the_mode_is_the_threads_and_is_given_back(library: ctypes.CDLL) -> None:
    driver = CaptureDriver(library)
    assert exchanged(library, THREAD_LOCAL) == GLOBAL
    with driver.relaxed():
        with driver.relaxed():
            pass
        assert exchanged(library, RELAXED) == RELAXED
        others: list[int] = []
        thread = threading.Thread(target=lambda: others.append(exchanged(library, GLOBAL)))
        thread.start()
        thread.join()
        assert others == [GLOBAL]
    assert exchanged(library, GLOBAL) == THREAD_LOCAL


def fail(driver: CaptureDriver) -> None:
    with driver.relaxed():
        raise ZeroDivisionError


def test_the_mode_is_given_back_after_an_error(library: ctypes.CDLL) -> None:
    with pytest.raises(ZeroDivisionError):
        fail(CaptureDriver(library))
    assert exchanged(library, GLOBAL) == GLOBAL


def test_a_mode_that_cuda_refuses_is_reported(library: ctypes.CDLL, monkeypatch: pytest.MonkeyPatch) -> None:
    driver = CaptureDriver(library)
    monkeypatch.setattr(driver, "exchange_mode", lambda mode: 3)
    with pytest.raises(DeviceError, match="cuThreadExchangeStreamCaptureMode failed with CUresult 3"), driver.relaxed():
        pass


def test_a_capture_and_its_nodes(library: ctypes.CDLL) -> None:
    driver, graph = CaptureDriver(library), library.begin(3)
    number, found = driver.capture(CAPTURED)
    assert (found, driver.node_count(graph)) == (graph, 3)
    library.begin(4)
    assert driver.capture(CAPTURED)[0] == number + 1


@pytest.mark.parametrize(
    ("stream", "message"), [(IDLE, "is not being captured"), (INVALID, "is not being captured"), (UNKNOWN, "failed with CUresult 400")]
)
def test_a_stream_that_is_not_captured_has_no_graph(stream: int, message: str, library: ctypes.CDLL) -> None:
    with pytest.raises(DeviceError, match=message):
        CaptureDriver(library).capture(stream)


@pytest.mark.parametrize("python_waits", [False, True], ids=["without the interpreter", "with the interpreter"])
def test_memory_is_held_until_the_graph_is_destroyed(python_waits: bool, library: ctypes.CDLL) -> None:
    """Whether or not the thread that destroys it holds the interpreter meanwhile: a destructor that ran Python would wait for ever."""
    memory, graph = GraphMemory(CaptureDriver(library)), library.begin(0)
    assert not memory
    blocks = [held_block(memory) for _ in range(3)]
    assert library.object_count(graph) == 1, "one object tells the end of a graph"
    gc.collect()
    assert memory
    assert not memory.let_go()
    assert all(block() is not None for block in blocks)
    (ctypes.PyDLL(library._name) if python_waits else library).destroy(ctypes.c_void_p(graph))
    assert memory.let_go()
    assert not memory
    assert all(block() is None for block in blocks)


def test_memory_is_held_by_nobody_else(library: ctypes.CDLL) -> None:
    memory, graph = GraphMemory(CaptureDriver(library)), library.begin(0)
    here, block = weakref.ref(memory), held_block(memory)
    del memory
    gc.collect()
    found = here()
    assert found is not None
    assert block() is not None
    library.destroy(graph)
    assert found.let_go()
    del found
    gc.collect()
    assert here() is None
    assert block() is None


def test_graphs_are_looked_at_in_turns(library: ctypes.CDLL) -> None:
    memory = GraphMemory(CaptureDriver(library))
    graphs, blocks = [], []
    for _ in range(4):
        graphs.append(library.begin(0))
        blocks.append(held_block(memory))
    library.destroy(graphs[2])
    assert [memory.let_go(1) for _ in range(4)] == [False, False, True, False]
    assert [block() is None for block in blocks] == [False, False, True, False]
    for graph in (graphs[0], graphs[1], graphs[3]):
        library.destroy(graph)
    assert memory.let_go()
    assert not memory


def test_what_cuda_refuses_is_reported_and_holds_nothing(library: ctypes.CDLL) -> None:
    memory, before = GraphMemory(CaptureDriver(library)), library.released_objects()
    library.begin(0)
    library.refuse(1)
    try:
        with pytest.raises(DeviceError, match="cuGraphRetainUserObject failed with CUresult 1"):
            memory.hold(CAPTURED, Block())
    finally:
        library.refuse(0)
    assert library.released_objects() == before + 1
    assert not memory
