// How CUDA threads execute on a CPU: what cuda_threads_on_cpu.h declares, compiled once and linked to every kernel.
#include "cuda_threads_on_cpu.h"

#include <link.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#endif
#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif

namespace cuda_on_cpu {

// ---- what the sanitizers must know ------------------------------------------------------------------------------------------

#if defined(__SANITIZE_THREAD__)
static void publish(void* where) { __tsan_release(where); }
static void observe(void* where) { __tsan_acquire(where); }
#else
static void publish(void*) {}
static void observe(void*) {}
#endif

#if defined(__x86_64__)
extern "C" void cuda_on_cpu_switch(void** leave, void* enter);
asm(R"(
.text
.type cuda_on_cpu_switch, @function
cuda_on_cpu_switch:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
.size cuda_on_cpu_switch, .-cuda_on_cpu_switch
)");
#endif

/// Makes `context` begin at `entry`, which never returns, on the given stack.
CUDA_ON_CPU_UNSEEN static void prepare(Context& context, char* stack, void (*entry)()) {
    context.stack = stack;
    context.size = stack_bytes;
#if defined(__x86_64__)
    void** top = reinterpret_cast<void**>(stack + stack_bytes);  // aligned to 16, as the ABI asks before a call
    top[-1] = nullptr;                                           // where `entry` would return: ends every backtrace
    top[-2] = reinterpret_cast<void*>(entry);
    for (int saved = 3; saved <= 8; ++saved) top[-saved] = nullptr;
    context.stack_pointer = top - 8;
#else
    getcontext(&context.registers);
    context.registers.uc_stack.ss_sp = stack;
    context.registers.uc_stack.ss_size = stack_bytes;
    context.registers.uc_link = nullptr;
    makecontext(&context.registers, entry, 0);
#endif
}

/// Leaves one context for another; `last` says that `from` is never entered again.
CUDA_ON_CPU_UNSEEN static void change(Context& from, Context& to, bool last) {
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_start_switch_fiber(last ? nullptr : &from.fake_stack, to.stack, to.size);
#else
    (void)last;
#endif
#if defined(__SANITIZE_THREAD__)
    __tsan_switch_to_fiber(to.sanitizer_thread, __tsan_switch_to_fiber_no_sync);
#endif
#if defined(__x86_64__)
    cuda_on_cpu_switch(&from.stack_pointer, to.stack_pointer);
#else
    swapcontext(&from.registers, &to.registers);
#endif
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_finish_switch_fiber(from.fake_stack, nullptr, nullptr);
#endif
}

__thread Block* running;


/// Keeps the first failure of a launch; every block stops when it next schedules.
CUDA_ON_CPU_UNSEEN static void record(Block& block, int thread, const char* format, va_list values) {
    Launch& launch = *block.launch;
    if (__atomic_exchange_n(&launch.failed, 1, __ATOMIC_ACQ_REL) || !launch.error_size) return;
    int length = snprintf(launch.error, launch.error_size, "block (%u, %u, %u)", block.index.x, block.index.y, block.index.z);
    if (thread >= 0) length += snprintf(launch.error + length, launch.error_size - length, ", thread %d", thread);
    length += snprintf(launch.error + length, launch.error_size - length, ": ");
    vsnprintf(launch.error + length, launch.error_size - length, format, values);
}

CUDA_ON_CPU_UNSEEN static void leave(State state, bool last = false) {
    Block& block = *running;
    Fiber& self = *block.current;
    self.state = state;
    change(self.context, block.scheduler, last);
}

CUDA_ON_CPU_UNSEEN void fail(const char* format, ...) {
    va_list values;
    va_start(values, format);
    record(*running, static_cast<int>(here().index), format, values);
    va_end(values);
    leave(State::ended, true);
    __builtin_unreachable();
}

/// The same from the scheduler.
__attribute__((format(printf, 2, 3))) CUDA_ON_CPU_UNSEEN static void fail_block(Block& block, const char* format, ...) {
    va_list values;
    va_start(values, format);
    record(block, -1, format, values);
    va_end(values);
}

}  // namespace cuda_on_cpu

#if defined(CUDA_ON_CPU_TRACES)
#include "cuda_tracing_on_cpu.h"
#else
namespace cuda_on_cpu {
static void begin_trace(Block&, const void*, size_t) {}
static void trace_synchronization(const void*) {}
static void trace_pause() {}
}  // namespace cuda_on_cpu
#endif

namespace cuda_on_cpu {

CUDA_ON_CPU_UNSEEN static void enqueue(Block& block, unsigned fiber) {
    block.queue[(block.queue_head + block.queue_length++) % block.threads] = fiber;
}

CUDA_ON_CPU_UNSEEN static unsigned random_below(Block& block, unsigned bound) {
    block.random ^= block.random << 13;
    block.random ^= block.random >> 7;
    block.random ^= block.random << 17;
    return static_cast<unsigned>((block.random >> 32) % bound);
}

/// All threads become ready, from a random one on, upwards or downwards: cheap, and any two threads meet in either order.
CUDA_ON_CPU_UNSEEN static void enqueue_all(Block& block) {
    const unsigned first = random_below(block, block.threads);
    const unsigned step = random_below(block, 2) ? 1 : block.threads - 1;
    for (unsigned i = 0, fiber = first; i < block.threads; ++i, fiber = (fiber + step) % block.threads) enqueue(block, fiber);
}

CUDA_ON_CPU_UNSEEN void barrier(const char* file, int line) {
    Block& block = *running;
    char* const order = &block.barrier_order[block.generation & 1];
    trace_synchronization(__builtin_return_address(0));
    publish(order);
    if (block.arrived == 0) {
        block.barrier_file = file;
        block.barrier_line = line;
    } else if (block.barrier_line != line || strcmp(block.barrier_file, file) != 0) {
        fail("__syncthreads at %s:%d, while %u threads wait at the one of %s:%d", file, line, block.arrived, block.barrier_file,
             block.barrier_line);
    }
    if (++block.arrived == block.threads) {
        block.arrived = 0;
        ++block.generation;
        enqueue_all(block);
    }
    leave(State::at_barrier);
    observe(order);
}

CUDA_ON_CPU_UNSEEN bool gather(unsigned mask, uint64_t value, unsigned source, const char* file, int line, const void* caller) {
    Block& block = *running;
    Fiber& self = *block.current;
    const unsigned warp = self.index / warp_size, lane = self.index % warp_size;
    const unsigned lanes = block.threads - warp * warp_size;  // of this warp, 32 or more: all
    const unsigned present = lanes >= warp_size ? ~0u : (1u << lanes) - 1;
    if (mask & ~present)
        fail("a warp function's mask %#x at %s:%d names lanes that the block lacks (%#x)", mask, file, line, mask & ~present);
    if (!(mask >> lane & 1)) fail("a warp function's mask %#x at %s:%d lacks its own lane %u", mask, file, line, lane);
    trace_synchronization(caller);
    self.exchange = {mask, source, value, ~uint64_t(0), file, line};
    unsigned& waiting = block.exchanging[warp];
    waiting |= 1u << lane;
    if ((waiting & mask) != mask) {
        leave(State::in_exchange);
        return false;
    }
    const Fiber* const fibers = block.fibers + warp * warp_size;
    for (unsigned other = 0; other < warp_size; ++other) {
        if (!(mask >> other & 1)) continue;
        const Exchange& theirs = fibers[other].exchange;
        if (theirs.mask != mask || theirs.line != line || strcmp(theirs.file, file) != 0)
            fail("a warp function with mask %#x at %s:%d meets lane %u in one with mask %#x at %s:%d", mask, file, line, other,
                 theirs.mask, theirs.file, theirs.line);
    }
    return true;
}

CUDA_ON_CPU_UNSEEN void dismiss(unsigned mask) {
    Block& block = *running;
    const unsigned self = block.current->index, first = self - self % warp_size;
    for (unsigned lane = 0; lane < warp_size; ++lane)
        if (mask >> lane & 1 && first + lane != self) enqueue(block, first + lane);
    block.exchanging[self / warp_size] &= ~mask;
}

struct Copy {
    void* to;
    unsigned words[4];
    unsigned group;
};

CUDA_ON_CPU_UNSEEN void begin_copy(void* to, const unsigned* words) {
    Copies& copies = here().copies;
    if (copies.end == copies.capacity) {
        copies.capacity = copies.capacity ? 2 * copies.capacity : 64;
        void* const grown = realloc(copies.first, copies.capacity * sizeof(Copy));
        if (!grown) fail("no memory for %u copies", copies.capacity);
        copies.first = static_cast<Copy*>(grown);
    }
    Copy& copy = copies.first[copies.end++];
    copy.to = to;
    copy.group = copies.groups;
    for (int word = 0; word < 4; ++word) copy.words[word] = words[word];
}

CUDA_ON_CPU_UNSEEN void commit_copies() { ++here().copies.groups; }

CUDA_ON_CPU_UNSEEN void* next_copy(unsigned groups, unsigned* words) {
    Copies& copies = here().copies;
    if (copies.begin == copies.end) copies.begin = copies.end = 0;
    if (copies.begin == copies.end || copies.first[copies.begin].group + groups >= copies.groups) return nullptr;
    const Copy& copy = copies.first[copies.begin++];
    for (int word = 0; word < 4; ++word) words[word] = copy.words[word];
    return copy.to;
}

CUDA_ON_CPU_UNSEEN uint64_t exchange(unsigned mask, uint64_t value, unsigned source, const char* file, int line) {
    Fiber& self = here();
    if (!gather(mask, value, source, file, line, __builtin_return_address(0))) return self.exchange.result;
    Fiber* const fibers = &self - self.index % warp_size;
    uint64_t ballot = 0;
    for (unsigned other = 0; other < warp_size; ++other)
        if (mask >> other & 1) ballot |= uint64_t(fibers[other].exchange.value != 0) << other;
    for (unsigned other = 0; other < warp_size; ++other) {
        if (!(mask >> other & 1)) continue;
        Exchange& theirs = fibers[other].exchange;
        if (theirs.source == vote)
            theirs.result = ballot;
        else if (mask >> theirs.source & 1)  // any other lane's value is undefined: it stays all ones, a NaN
            theirs.result = fibers[theirs.source].exchange.value;
    }
    dismiss(mask);
    return self.exchange.result;
}

/// All 32 lanes bring the address of something of their own; one calls `act` with all of them.
CUDA_ON_CPU_UNSEEN void delay() {
    Block& block = *running;
    const unsigned most = block.launch->delay_us;
    if (most && random_below(block, 2)) usleep(random_below(block, most + 1));
}

CUDA_ON_CPU_UNSEEN void pause() {
    trace_pause();
    leave(State::paused);
}

CUDA_ON_CPU_UNSEEN void synchronize_warp(unsigned mask, const char* file, int line) {
    Fiber& self = here();
    publish(&self.exchange);
    exchange(mask, 0, vote, file, line);
    if (!thread_sanitizer) return;
    for (unsigned lane = 0; lane < warp_size; ++lane)
        if (mask >> lane & 1) observe(&(&self - self.index % warp_size + lane)->exchange);
    exchange(mask, 0, vote, file, line);  // nobody publishes again before all have observed this time
}

CUDA_ON_CPU_UNSEEN static uint64_t number_of(const Launch& launch, const dim3& block) {
    return block.x + uint64_t(launch.grid.x) * (block.y + uint64_t(launch.grid.y) * block.z);
}

CUDA_ON_CPU_UNSEEN void cluster_barrier() {
    const Block& block = *running;
    const Launch& launch = *block.launch;
    const unsigned blocks = cuda_on_cpu_kernel.cluster_blocks;
    uint64_t* const arrived = &launch.clusters[number_of(launch, block.index) / blocks];
    const uint64_t threads = uint64_t(blocks) * block.threads;
    publish(arrived);
    const uint64_t before = __atomic_fetch_add(arrived, 1, __ATOMIC_ACQ_REL);
    while (__atomic_load_n(arrived, __ATOMIC_ACQUIRE) < (before / threads + 1) * threads) pause();
    observe(arrived);
}

CUDA_ON_CPU_UNSEEN void* in_block(void* place, unsigned number) {
    const Block& block = *running;
    const Launch& launch = *block.launch;
    const unsigned blocks = cuda_on_cpu_kernel.cluster_blocks;
    const size_t offset = size_t(static_cast<char*>(place) - block.shared);
    if (offset >= launch.shared_bytes) fail("a place in another block that is not in this one's dynamic shared memory");
    if (number >= blocks) fail("a place in block %u of a cluster of %u", number, blocks);
    const Peer& peer = launch.peers[number_of(launch, block.index) / blocks * blocks + number];
    char* const shared = __atomic_load_n(&peer.shared, __ATOMIC_ACQUIRE);
    if (!shared) fail("an access to the shared memory of block %u of its cluster, which does not run yet", number);
    if (__atomic_load_n(&peer.has_ended, __ATOMIC_ACQUIRE))
        fail("an access to the shared memory of block %u of its cluster, which has ended", number);
    return shared + offset;
}

CUDA_ON_CPU_UNSEEN static void fiber_main() {
#if defined(__SANITIZE_ADDRESS__)
    const void* came_from;
    __sanitizer_finish_switch_fiber(nullptr, &came_from, &running->scheduler.size);
    running->scheduler.stack = static_cast<char*>(const_cast<void*>(came_from));
#endif
    Block& block = *running;
    observe(&block.start_order);
    cuda_on_cpu_kernel.call(*block.launch);
    publish(&block.end_order);
    leave(State::ended, true);
    __builtin_unreachable();
}

CUDA_ON_CPU_UNSEEN uint64_t nanoseconds() {
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return uint64_t(now.tv_sec) * 1000000000 + uint64_t(now.tv_nsec);
}

CUDA_ON_CPU_UNSEEN static double seconds() { return 1e-9 * double(nanoseconds()); }

/// Nobody can run, yet some have not ended: says who waits where.
CUDA_ON_CPU_UNSEEN static void fail_stuck(Block& block, unsigned ended) {
    if (block.arrived) {
        fail_block(block, "__syncthreads at %s:%d is reached by %u of %u threads; %u have ended, %u wait in a warp function",
                   block.barrier_file, block.barrier_line, block.arrived, block.threads, ended, block.threads - block.arrived - ended);
        return;
    }
    for (unsigned i = 0; i < block.threads; ++i)
        if (block.fibers[i].state == State::in_exchange) {
            const Exchange& wait = block.fibers[i].exchange;
            fail_block(block, "thread %u waits for lanes %#x at %s:%d, of which only %#x arrive; %u threads have ended", i, wait.mask,
                       wait.file, wait.line, block.exchanging[i / warp_size] & wait.mask, ended);
            return;
        }
}

/// Lets the block's threads run in turn until all have ended or the launch has failed.
CUDA_ON_CPU_UNSEEN static void schedule(Block& block) {
    unsigned ended = 0, idle = 0;
    double idle_since = 0;
    while (ended < block.threads && !__atomic_load_n(&block.launch->failed, __ATOMIC_RELAXED)) {
        if (block.queue_length == 0) return fail_stuck(block, ended);
        Fiber& fiber = block.fibers[block.queue[block.queue_head]];
        block.queue_head = (block.queue_head + 1) % block.threads;
        --block.queue_length;
        if (!fiber.context.stack) prepare(fiber.context, block.stacks[--block.stacks_free], fiber_main);
        block.current = &fiber;
        fiber.state = State::ready;
        change(block.scheduler, fiber.context, false);
        if (fiber.state == State::paused) {
            enqueue(block, fiber.index);
            if (++idle < block.queue_length) continue;
            // Everyone who can run waits for another block.
            const double now = seconds();
            if (idle == block.queue_length) idle_since = now;
            if (now - idle_since > block.launch->patience_s)
                return fail_block(block, "thread %u has waited for another block for %g s", fiber.index, block.launch->patience_s);
            sched_yield();
            continue;
        }
        idle = 0;
        if (fiber.state != State::ended) continue;
        ++ended;
        if (!thread_sanitizer) block.stacks[block.stacks_free++] = fiber.context.stack;
    }
}

/// Where this OS thread's copy of the kernel's __shared__ variables lies.
struct SharedVariables {
    char* begin;
    size_t bytes;
};

CUDA_ON_CPU_UNSEEN static int find_shared_variables(dl_phdr_info* module, size_t, void* found) {
    bool ours = false;
    const ElfW(Phdr)* variables = nullptr;
    for (int i = 0; i < module->dlpi_phnum; ++i) {
        const ElfW(Phdr)& segment = module->dlpi_phdr[i];
        const uintptr_t offset = reinterpret_cast<uintptr_t>(&find_shared_variables) - module->dlpi_addr - segment.p_vaddr;
        if (segment.p_type == PT_LOAD && offset < segment.p_memsz) ours = true;
        if (segment.p_type == PT_TLS) variables = &segment;
    }
    if (!ours) return 0;
    if (variables) *static_cast<SharedVariables*>(found) = {static_cast<char*>(module->dlpi_tls_data), variables->p_memsz};
    return 1;
}

/// An OS thread that runs the blocks `first`, `first + workers`, ... one after the other.
struct Worker {
    Launch* launch;
    uint64_t first;
    pthread_t thread;
    void* shared;  // freed with the launch: a faulty kernel may write there from other blocks
};

CUDA_ON_CPU_UNSEEN static void run_block(Block& block, const SharedVariables& variables) {
    Launch& launch = *block.launch;
    memset(variables.begin, poison_byte, variables.bytes);
    running = &block;  // is itself among the variables of this thread
    memset(block.shared, poison_byte, launch.shared_bytes);
#if !defined(__SANITIZE_ADDRESS__)
    memset(block.shared - guard_bytes, guard_byte, guard_bytes);
    memset(block.shared + launch.shared_bytes, guard_byte, guard_bytes);
#endif
    memset(block.exchanging, 0, sizeof block.exchanging);
    block.arrived = block.generation = block.queue_head = block.queue_length = 0;
    begin_trace(block, variables.begin, variables.bytes);
    publish(&block.start_order);
    Peer& own = launch.peers[number_of(launch, block.index)];
    __atomic_store_n(&own.shared, block.shared, __ATOMIC_RELEASE);
    for (unsigned i = 0; i < block.threads; ++i) {
        Fiber& fiber = block.fibers[i];
        fiber.context.stack = nullptr;
        fiber.index = i;
        fiber.thread = {i, 0, 0};
        fiber.copies.begin = fiber.copies.end = fiber.copies.groups = 0;
#if defined(__SANITIZE_THREAD__)
        char name[64];
        snprintf(name, sizeof name, "block (%u, %u, %u) thread %u", block.index.x, block.index.y, block.index.z, i);
        fiber.context.sanitizer_thread = __tsan_create_fiber(0);
        __tsan_set_fiber_name(fiber.context.sanitizer_thread, name);
#endif
    }
    enqueue_all(block);
    schedule(block);
    __atomic_store_n(&own.has_ended, 1, __ATOMIC_RELEASE);
    observe(&block.end_order);
#if defined(__SANITIZE_THREAD__)
    for (unsigned i = 0; i < block.threads; ++i) __tsan_destroy_fiber(block.fibers[i].context.sanitizer_thread);
#endif
#if !defined(__SANITIZE_ADDRESS__)
    for (size_t i = 0; i < guard_bytes; ++i)
        if (static_cast<unsigned char>(block.shared[-1 - ptrdiff_t(i)]) != guard_byte ||
            static_cast<unsigned char>(block.shared[launch.shared_bytes + i]) != guard_byte)
            return fail_block(block, "a write beside its %zu bytes of dynamic shared memory", launch.shared_bytes);
#endif
}

CUDA_ON_CPU_UNSEEN static void* work(void* given) {
    Worker& worker = *static_cast<Worker*>(given);
    Launch& launch = *worker.launch;
    running = nullptr;  // touches this thread's variables, so that they exist before they are looked for
    SharedVariables variables{};
    dl_iterate_phdr(find_shared_variables, &variables);

    Block block{};
    block.launch = &launch;
    block.threads = launch.block.x;
    block.fibers = static_cast<Fiber*>(calloc(block.threads, sizeof(Fiber)));
    block.queue = static_cast<unsigned*>(calloc(block.threads, sizeof(unsigned)));
    block.stacks = static_cast<char**>(calloc(block.threads, sizeof(char*)));
    // Exactly as long as asked for where the address sanitizer watches over its ends, else between guards.
#if defined(__SANITIZE_ADDRESS__)
    const size_t margin = 0;
#else
    const size_t margin = guard_bytes;
#endif
    void* shared = nullptr;
    if (posix_memalign(&shared, 128, launch.shared_bytes + 2 * margin)) shared = nullptr;
    char* const stacks = static_cast<char*>(
        mmap(nullptr, block.threads * stack_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    if (!block.fibers || !block.queue || !block.stacks || !shared || stacks == MAP_FAILED) {
        fail_block(block, "no memory for %u threads", block.threads);
        return nullptr;
    }
    worker.shared = shared;
    block.shared = static_cast<char*>(shared) + margin;
#if defined(__SANITIZE_THREAD__)
    block.scheduler.sanitizer_thread = __tsan_get_current_fiber();
#endif
    const uint64_t blocks = uint64_t(launch.grid.x) * launch.grid.y * launch.grid.z;
    for (uint64_t number = worker.first; number < blocks && !__atomic_load_n(&launch.failed, __ATOMIC_RELAXED);
         number += launch.workers) {
        block.index = {unsigned(number % launch.grid.x), unsigned(number / launch.grid.x % launch.grid.y),
                       unsigned(number / launch.grid.x / launch.grid.y)};
        block.random = (launch.seed + 1 + number) * 0x9E3779B97F4A7C15ull | 1;
        block.stacks_free = block.threads;
        for (unsigned i = 0; i < block.threads; ++i) block.stacks[i] = stacks + size_t(block.threads - 1 - i) * stack_bytes;
        run_block(block, variables);
    }
    running = nullptr;
    munmap(stacks, block.threads * stack_bytes);
    free(block.stacks);
    free(block.queue);
    for (unsigned i = 0; i < block.threads; ++i) free(block.fibers[i].copies.first);
    free(block.fibers);
    return nullptr;
}

/// Runs a whole grid and returns 0, or 1 with the first failure's text in `error`.
static int run(Launch& launch, bool cooperative) {
    const uint64_t blocks = uint64_t(launch.grid.x) * launch.grid.y * launch.grid.z;
    const long processors = sysconf(_SC_NPROCESSORS_ONLN);
    const unsigned cluster = cuda_on_cpu_kernel.cluster_blocks;
    if (launch.grid.x % cluster) {
        snprintf(launch.error, launch.error_size, "%u blocks along x are no clusters of %u", launch.grid.x, cluster);
        return 1;
    }
    const bool all_at_once = cooperative || cluster > 1 || thread_sanitizer || processors < 1 || blocks < uint64_t(processors);
    launch.workers = unsigned(all_at_once ? blocks : uint64_t(processors));
    Worker* const workers = static_cast<Worker*>(calloc(launch.workers, sizeof(Worker)));
    launch.peers = static_cast<Peer*>(calloc(blocks, sizeof(Peer)));
    launch.clusters = static_cast<uint64_t*>(calloc(blocks / cluster, sizeof(uint64_t)));
    unsigned started = 0;
    for (; launch.workers > 1 && started < launch.workers; ++started) {
        workers[started].launch = &launch;
        workers[started].first = started;
        if (pthread_create(&workers[started].thread, nullptr, work, &workers[started])) {
            if (!__atomic_exchange_n(&launch.failed, 1, __ATOMIC_ACQ_REL))
                snprintf(launch.error, launch.error_size, "no OS thread for block %u of %u", started, launch.workers);
            break;
        }
    }
    for (unsigned i = 0; i < started; ++i) pthread_join(workers[i].thread, nullptr);
    if (launch.workers == 1) {
        workers[0].launch = &launch;
        work(&workers[0]);
    }
    for (unsigned i = 0; i < launch.workers; ++i) free(workers[i].shared);
    free(launch.clusters);
    free(launch.peers);
    free(workers);
    return launch.failed;
}

/// At most the bytes of the kernel's __shared__ variables: alignment and the one pointer of this file are counted too.
static size_t static_shared_bytes() {
    running = nullptr;
    SharedVariables variables{};
    dl_iterate_phdr(find_shared_variables, &variables);
    return variables.bytes <= sizeof running ? 0 : variables.bytes;
}

}  // namespace cuda_on_cpu

extern "C" {

CUDA_ON_CPU_EXPORT int cuda_on_cpu_run(const unsigned* grid, unsigned threads, size_t shared_bytes, const void* argument, int cooperative,
                                       uint64_t seed, double patience_s, unsigned delay_us, int arithmetic, char* error,
                                       size_t error_size) {
    cuda_on_cpu::Launch launch{};
    launch.argument = argument;
    launch.grid = {grid[0], grid[1], grid[2]};
    launch.block = {threads, 1, 1};
    launch.shared_bytes = shared_bytes;
    launch.seed = seed;
    launch.patience_s = patience_s;
    launch.delay_us = delay_us;
    launch.arithmetic = static_cast<cuda_on_cpu::Arithmetic>(arithmetic);
    launch.error = error;
    launch.error_size = error_size;
    return cuda_on_cpu::run(launch, cooperative != 0);
}

CUDA_ON_CPU_EXPORT size_t cuda_on_cpu_parameter_bytes() { return cuda_on_cpu_kernel.parameter_bytes; }

CUDA_ON_CPU_EXPORT int cuda_on_cpu_cluster_blocks() { return int(cuda_on_cpu_kernel.cluster_blocks); }

CUDA_ON_CPU_EXPORT size_t cuda_on_cpu_static_shared_bytes() { return cuda_on_cpu::static_shared_bytes(); }

}  // extern "C"
