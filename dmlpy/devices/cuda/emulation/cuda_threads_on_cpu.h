// The execution of CUDA threads on a CPU: an OS thread for each running block, a fiber for each CUDA thread.
//
// What it finds, as text in the caller's buffer and without ending the process: a barrier or a warp function that some threads
// never reach or reach at another line, a mask that names absent lanes, writes past the dynamic shared memory, or to that of a block of the
// cluster that does not run yet or any more, `__trap`, and waiting without end. Shared memory starts every block filled with 0xFF (NaN). Threads run in an order that a seed shuffles at
// every barrier, so a missing barrier shows as a wrong result in an ordinary run too.
//
// Under -fsanitize=thread every fiber is a thread of its own for the sanitizer. Barriers and release/acquire accesses order memory;
// shuffles, votes, relaxed accesses and the switch between fibers do not, as on a GPU. A block then never shares an OS thread or a stack
// with another block, since both would order the two.
#pragma once

#if defined(CUDA_ON_CPU_TRACES)
#undef __SANITIZE_THREAD__  // compiled as for it, but without its library: cuda_tracing_on_cpu.h
#define CUDA_ON_CPU_UNTRACED __attribute__((no_sanitize_coverage))
#else
#define CUDA_ON_CPU_UNTRACED
#endif

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#if !defined(__x86_64__)
#include <ucontext.h>
#endif

/// The runtime moves data between fibers by itself: the thread sanitizer must see neither those accesses nor an order from them. And it
/// abandons stack frames, in which the address sanitizer must have put nothing.
#define CUDA_ON_CPU_UNSEEN __attribute__((no_sanitize("thread", "address"))) CUDA_ON_CPU_UNTRACED
#define CUDA_ON_CPU_EXPORT __attribute__((visibility("default")))

#pragma GCC visibility push(hidden)

namespace cuda_on_cpu {

struct dim3 {
    unsigned x, y, z;
};

#if defined(__SANITIZE_THREAD__)
constexpr bool thread_sanitizer = true;
#else
constexpr bool thread_sanitizer = false;
#endif
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__) || defined(CUDA_ON_CPU_TRACES)
constexpr size_t stack_bytes = 256 * 1024;
#else
constexpr size_t stack_bytes = 64 * 1024;
#endif
constexpr unsigned warp_size = 32;
constexpr size_t guard_bytes = 256;
constexpr unsigned char guard_byte = 0x5A, poison_byte = 0xFF;

/// A stack that can be left and entered again.
struct Context {
#if defined(__x86_64__)
    void* stack_pointer;
#else
    ucontext_t registers;
#endif
    char* stack;  // lowest address
    size_t size;
    void* sanitizer_thread;
    void* fake_stack;
};

// ---- a launch, its blocks, their threads ------------------------------------------------------------------------------------

enum class Arithmetic : int;  // of cuda_arithmetic_on_cpu.h

/// What the other blocks of a cluster know of a block. Both are atomic.
struct Peer {
    char* shared;  // null before the block runs
    int has_ended;
};

struct Launch {
    const void* argument;
    dim3 grid, block;
    size_t shared_bytes;
    unsigned workers;
    uint64_t seed;
    double patience_s;
    unsigned delay_us;  // before each release a random pause of up to so many microseconds, half of them none
    Arithmetic arithmetic;
    Peer* peers;         // of each block
    uint64_t* clusters;  // of each cluster how many threads have come to its barriers, atomic
    int failed;          // atomic
    char* error;
    size_t error_size;
};

enum class State { ready, paused, at_barrier, in_exchange, ended };

/// What a thread brings to a warp function, and what it takes from it.
struct Exchange {
    unsigned mask;
    unsigned source;  // lane whose value is wanted, or `vote`
    uint64_t value, result;
    const char* file;
    int line;
};
constexpr unsigned vote = ~0u;

/// What a thread has begun to copy and not yet waited for, in order.
struct Copies {
    struct Copy* first;
    unsigned begin, end, capacity;
    unsigned groups;  // so far
};

struct Fiber {
    Context context;
    State state;
    dim3 thread;
    unsigned index;
    Exchange exchange;
    Copies copies;
};

struct Block {
    Launch* launch;
    dim3 index;
    Fiber* current;
    Fiber* fibers;
    unsigned threads;
    Context scheduler;
    unsigned* queue;  // ring of `threads` fibers that can run
    unsigned queue_head, queue_length;
    char** stacks;  // those not in use
    unsigned stacks_free;
    unsigned arrived, generation;  // of the barrier
    const char* barrier_file;
    int barrier_line;
    char barrier_order[2];  // addresses only: what the sanitizer's order hangs on, by the generation's parity
    unsigned exchanging[warp_size];  // for each warp the lanes that wait in an exchange
    uint64_t random;
    char* shared;
    char start_order, end_order;
    struct BlockTrace* trace;  // of cuda_events_on_cpu.h, null where nothing is traced
};

/// The block that this OS thread runs.
extern __thread Block* running;

CUDA_ON_CPU_UNSEEN inline Fiber& here() { return *running->current; }
CUDA_ON_CPU_UNSEEN inline dim3 thread_index() { return running->current->thread; }
CUDA_ON_CPU_UNSEEN inline dim3 block_index() { return running->index; }
CUDA_ON_CPU_UNSEEN inline dim3 block_size() { return running->launch->block; }
CUDA_ON_CPU_UNSEEN inline dim3 grid_size() { return running->launch->grid; }
CUDA_ON_CPU_UNSEEN inline void* dynamic_shared() { return running->shared; }

/// Ends the launch with a text, from within a CUDA thread.
[[noreturn]] __attribute__((format(printf, 1, 2))) void fail(const char* format, ...);

void barrier(const char* file, int line);

/// A lane comes to a warp function with all lanes of `mask`, which has to be the same in each. True in the last one, which goes on alone:
/// it does what the function does for all, and ends with `dismiss`; the others return after that.
bool gather(unsigned mask, uint64_t value, unsigned source, const char* file, int line, const void* caller);
void dismiss(unsigned mask);

/// A barrier of all threads of a cluster.
void cluster_barrier();

/// What lies in the dynamic shared memory of a block of the own cluster where `place` is in that of this one.
void* in_block(void* place, unsigned block);

/// Every lane of `mask` brings a value; each takes that of the lane `source`, or with `vote` the mask of the values that are not zero.
uint64_t exchange(unsigned mask, uint64_t value, unsigned source, const char* file, int line);

void synchronize_warp(unsigned mask, const char* file, int line);

/// Keeps four words for an address, adds the group of all that were kept since the last one, and gives one after the other of those that
/// are not of the latest `groups`; null after the last.
void begin_copy(void* to, const unsigned* words);
void commit_copies();
void* next_copy(unsigned groups, unsigned* words);

/// Makes a block late at random with what it releases, if the launch asks for that: blocks then meet in many orders.
void delay();

/// The time since some moment.
uint64_t nanoseconds();

/// Lets others run while this thread waits for another block.
void pause();

/// All 32 lanes bring the address of something of their own; one calls `act` with all of them.
template <class Own, class Act>
CUDA_ON_CPU_UNSEEN void together(Own* own, Act act, const char* file, int line) {
    if (!gather(~0u, reinterpret_cast<uint64_t>(own), vote, file, line, __builtin_return_address(0))) return;
    const Fiber* const fibers = &here() - here().index % warp_size;
    Own* all[warp_size];
    for (unsigned lane = 0; lane < warp_size; ++lane) all[lane] = reinterpret_cast<Own*>(fibers[lane].exchange.value);
    act(all);
    dismiss(~0u);
}

/// A kernel, and how it is called.
struct Kernel {
    void (*call)(const Launch&);
    void (*function)();
    size_t parameter_bytes;
    unsigned cluster_blocks;  // that form a cluster, neighbours along x; 1 for none
};

}  // namespace cuda_on_cpu

/// That of this shared object or program. Not within the namespace, whose functions have names that kernels have too.
extern "C" const cuda_on_cpu::Kernel cuda_on_cpu_kernel;

namespace cuda_on_cpu {

template <class Parameters>
CUDA_ON_CPU_UNSEEN void call(const Launch& launch) {
    reinterpret_cast<void (*)(Parameters)>(cuda_on_cpu_kernel.function)(*static_cast<const Parameters*>(launch.argument));
}

/// Of a kernel with such parameters: a macro in the place of `__cluster_dims__` cannot tell.
template <class Parameters>
constexpr auto cluster_blocks_of(int) -> decltype(unsigned(Parameters::cluster_blocks)) {
    return Parameters::cluster_blocks;
}

template <class>
constexpr unsigned cluster_blocks_of(...) {
    return 1;
}

template <class Parameters>
Kernel kernel_of(void (*function)(Parameters)) {
    return {call<Parameters>, reinterpret_cast<void (*)()>(function), sizeof(Parameters), cluster_blocks_of<Parameters>(0)};
}

}  // namespace cuda_on_cpu

#pragma GCC visibility pop

/// Names the kernel, an expression such as `persistent_block<float, Lstm<true>>`.
#define CUDA_ON_CPU_ENTRY(...) const cuda_on_cpu::Kernel cuda_on_cpu_kernel = cuda_on_cpu::kernel_of(&__VA_ARGS__);
