// Tracing: g++ calls the functions below at each access to memory and at the begin of each basic block, and they add to the events of the
// CUDA thread that runs.
//
// That takes -fsanitize=thread and -fsanitize-coverage=trace-pc, but neither of their libraries. The runtime is compiled without both, so
// that its own accesses are not traced; nor is what g++ knows to be of the thread alone.
#pragma once

#include "cuda_events_on_cpu.h"

namespace cuda_on_cpu {

static unsigned traced_blocks;   // the first so many of each launch
static BlockTrace* block_traces;  // the latest first
static pthread_mutex_t traces_lock = PTHREAD_MUTEX_INITIALIZER;

/// The trace of the CUDA thread that runs, null where nothing is traced.
CUDA_ON_CPU_UNSEEN inline Trace* trace_here() {
    Block* const block = running;
    return block && block->trace ? &block->trace->threads[block->current->index] : nullptr;
}

CUDA_ON_CPU_UNSEEN inline void add_event(Kind kind, const void* caller, const volatile void* address, size_t bytes, bool is_part = false) {
    Trace* const trace = trace_here();
    if (!trace) return;
    const Range& stacks = running->trace->stacks;
    if (kind != Kind::basic_block && reinterpret_cast<uint64_t>(address) - stacks.begin >= stacks.bytes) trace->polls = false;
    if (trace->count == trace->capacity) {
        trace->capacity = trace->capacity ? 2 * trace->capacity : 256;
        void* const grown = realloc(trace->events, trace->capacity * sizeof(Event));
        if (!grown) fail("no memory for the trace of %zu events", trace->capacity);
        trace->events = static_cast<Event*>(grown);
    }
    const uint64_t module = running->trace->module.begin;
    const uint32_t context = trace->depth ? trace->contexts[(trace->depth - 1) % 64] : 0;
    trace->events[trace->count++] = {reinterpret_cast<uint64_t>(address), uint32_t(reinterpret_cast<uint64_t>(caller) - module), context,
                                     trace->depth, kind, uint8_t(bytes), is_part};
}

/// A value of any size, or one that is aligned to less than its size: a GPU moves it word by word.
CUDA_ON_CPU_UNSEEN inline void add_parts(Kind kind, const void* caller, const void* address, size_t bytes) {
    const size_t part = bytes % 4 == 0 ? 4 : bytes % 2 == 0 ? 2 : 1;
    for (size_t done = 0; done < bytes; done += part) add_event(kind, caller, static_cast<const char*>(address) + done, part, true);
}

CUDA_ON_CPU_UNSEEN inline void trace_synchronization(const void* caller) { add_event(Kind::synchronized, caller, nullptr, 0); }

/// A relaxed load, whose value may not have come: the same load after a pause adds nothing.
CUDA_ON_CPU_UNSEEN inline void add_relaxed_load(const void* caller, const volatile void* address, size_t bytes) {
    const Trace* const trace = trace_here();
    if (!trace) return;
    bool again = false;
    for (size_t at = trace->count; trace->polls && !again && at-- > 0;)
        again = trace->events[at].kind == Kind::load && trace->events[at].address == reinterpret_cast<uint64_t>(address);
    if (!again) add_event(Kind::load, caller, address, bytes);
}

/// A thread that polls forgets the round that failed, so that what is counted does not depend on how long it waits.
CUDA_ON_CPU_UNSEEN inline void trace_pause() {
    Trace* const trace = trace_here();
    if (!trace) return;
    trace->polls = true;
    size_t begin = trace->count;
    for (size_t at = trace->count; at-- > 0;) {
        const Event& event = trace->events[at];
        if (event.kind == Kind::basic_block) continue;
        if (event.kind != Kind::atomic_load) break;
        bool again = false;  // the round before
        for (size_t later = begin; later < trace->count; ++later)
            again |= trace->events[later].kind == Kind::atomic_load && trace->events[later].place == event.place;
        if (again) break;
        begin = at;
    }
    trace->count = begin;
}

CUDA_ON_CPU_UNSEEN inline int find_module(dl_phdr_info* module, size_t, void* found) {
    bool ours = false;
    uint64_t bytes = 0;
    for (int i = 0; i < module->dlpi_phnum; ++i) {
        const ElfW(Phdr)& segment = module->dlpi_phdr[i];
        if (segment.p_type != PT_LOAD) continue;
        ours |= reinterpret_cast<uintptr_t>(&find_module) - module->dlpi_addr - segment.p_vaddr < segment.p_memsz;
        bytes = segment.p_vaddr + segment.p_memsz;  // segments ascend
    }
    if (ours) *static_cast<Range*>(found) = {module->dlpi_addr, bytes};
    return ours;
}

/// Before a block's first thread runs.
CUDA_ON_CPU_UNSEEN inline void begin_trace(Block& block, const void* shared_variables, size_t shared_variables_bytes) {
    const dim3& grid = block.launch->grid;
    const uint64_t number = block.index.x + uint64_t(grid.x) * (block.index.y + uint64_t(grid.y) * block.index.z);
    block.trace = nullptr;
    if (number >= traced_blocks) return;
    BlockTrace* const trace = static_cast<BlockTrace*>(calloc(1, sizeof(BlockTrace)));
    trace->threads = static_cast<Trace*>(calloc(block.threads, sizeof(Trace)));
    trace->thread_count = block.threads;
    trace->dynamic_shared = {reinterpret_cast<uint64_t>(block.shared), block.launch->shared_bytes};
    trace->static_shared = {reinterpret_cast<uint64_t>(shared_variables), shared_variables_bytes};
    trace->stacks = {reinterpret_cast<uint64_t>(block.stacks[block.threads - 1]), block.threads * stack_bytes};
    dl_iterate_phdr(find_module, &trace->module);
    pthread_mutex_lock(&traces_lock);
    trace->next = block_traces;
    block_traces = trace;
    pthread_mutex_unlock(&traces_lock);
    block.trace = trace;
}

}  // namespace cuda_on_cpu

extern "C" {

/// From now on the first `count` blocks of each launch are traced.
CUDA_ON_CPU_EXPORT CUDA_ON_CPU_UNSEEN void cuda_on_cpu_trace_blocks(unsigned count) { cuda_on_cpu::traced_blocks = count; }

CUDA_ON_CPU_EXPORT CUDA_ON_CPU_UNSEEN const void* cuda_on_cpu_traces() { return cuda_on_cpu::block_traces; }

CUDA_ON_CPU_EXPORT CUDA_ON_CPU_UNSEEN void cuda_on_cpu_forget_traces() {
    while (cuda_on_cpu::BlockTrace* const trace = cuda_on_cpu::block_traces) {
        cuda_on_cpu::block_traces = trace->next;
        for (uint32_t thread = 0; thread < trace->thread_count; ++thread) free(trace->threads[thread].events);
        free(trace->threads);
        free(trace);
    }
}

// What the compiler calls.

#define CUDA_ON_CPU_CALLER __builtin_return_address(0)

#define CUDA_ON_CPU_TRACED_SIZE(size)                                                                                                  \
    CUDA_ON_CPU_UNSEEN void __tsan_read##size(void* address) {                                                                         \
        cuda_on_cpu::add_event(cuda_on_cpu::Kind::load, CUDA_ON_CPU_CALLER, address, size);                                            \
    }                                                                                                                                  \
    CUDA_ON_CPU_UNSEEN void __tsan_write##size(void* address) {                                                                        \
        cuda_on_cpu::add_event(cuda_on_cpu::Kind::store, CUDA_ON_CPU_CALLER, address, size);                                           \
    }                                                                                                                                  \
    CUDA_ON_CPU_UNSEEN void __tsan_unaligned_read##size(void* address) {                                                               \
        cuda_on_cpu::add_parts(cuda_on_cpu::Kind::load, CUDA_ON_CPU_CALLER, address, size);                                            \
    }                                                                                                                                  \
    CUDA_ON_CPU_UNSEEN void __tsan_unaligned_write##size(void* address) {                                                              \
        cuda_on_cpu::add_parts(cuda_on_cpu::Kind::store, CUDA_ON_CPU_CALLER, address, size);                                           \
    }
CUDA_ON_CPU_TRACED_SIZE(1)
CUDA_ON_CPU_TRACED_SIZE(2)
CUDA_ON_CPU_TRACED_SIZE(4)
CUDA_ON_CPU_TRACED_SIZE(8)
CUDA_ON_CPU_TRACED_SIZE(16)

CUDA_ON_CPU_UNSEEN void __tsan_read_range(void* address, size_t bytes) {
    cuda_on_cpu::add_parts(cuda_on_cpu::Kind::load, CUDA_ON_CPU_CALLER, address, bytes);
}

CUDA_ON_CPU_UNSEEN void __tsan_write_range(void* address, size_t bytes) {
    cuda_on_cpu::add_parts(cuda_on_cpu::Kind::store, CUDA_ON_CPU_CALLER, address, bytes);
}

#define CUDA_ON_CPU_TRACED_ATOMIC(bits)                                                                                                \
    CUDA_ON_CPU_UNSEEN uint##bits##_t __tsan_atomic##bits##_load(const volatile uint##bits##_t* address, int order) {                  \
        if (order == __ATOMIC_RELAXED)                                                                                                 \
            cuda_on_cpu::add_relaxed_load(CUDA_ON_CPU_CALLER, address, bits / 8);                                                      \
        else                                                                                                                           \
            cuda_on_cpu::add_event(cuda_on_cpu::Kind::atomic_load, CUDA_ON_CPU_CALLER, address, bits / 8);                             \
        return __atomic_load_n(address, __ATOMIC_SEQ_CST);                                                                             \
    }                                                                                                                                  \
    CUDA_ON_CPU_UNSEEN void __tsan_atomic##bits##_store(volatile uint##bits##_t* address, uint##bits##_t value, int order) {           \
        const auto kind = order == __ATOMIC_RELAXED ? cuda_on_cpu::Kind::store : cuda_on_cpu::Kind::atomic_store;                      \
        cuda_on_cpu::add_event(kind, CUDA_ON_CPU_CALLER, address, bits / 8);                                                           \
        __atomic_store_n(address, value, __ATOMIC_SEQ_CST);                                                                            \
    }                                                                                                                                  \
    CUDA_ON_CPU_UNSEEN uint##bits##_t __tsan_atomic##bits##_exchange(volatile uint##bits##_t* address, uint##bits##_t value, int) {    \
        cuda_on_cpu::add_event(cuda_on_cpu::Kind::atomic_store, CUDA_ON_CPU_CALLER, address, bits / 8);                                \
        return __atomic_exchange_n(address, value, __ATOMIC_SEQ_CST);                                                                  \
    }                                                                                                                                  \
    CUDA_ON_CPU_UNSEEN uint##bits##_t __tsan_atomic##bits##_fetch_add(volatile uint##bits##_t* address, uint##bits##_t value, int) {   \
        cuda_on_cpu::add_event(cuda_on_cpu::Kind::atomic_store, CUDA_ON_CPU_CALLER, address, bits / 8);                                \
        return __atomic_fetch_add(address, value, __ATOMIC_SEQ_CST);                                                                   \
    }                                                                                                                                  \
    CUDA_ON_CPU_UNSEEN uint##bits##_t __tsan_atomic##bits##_compare_exchange_val(volatile uint##bits##_t* address,                     \
                                                                                 uint##bits##_t expected, uint##bits##_t value, int,   \
                                                                                 int) {                                                \
        cuda_on_cpu::add_event(cuda_on_cpu::Kind::atomic_store, CUDA_ON_CPU_CALLER, address, bits / 8);                                \
        __atomic_compare_exchange_n(address, &expected, value, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);                             \
        return expected;                                                                                                               \
    }
CUDA_ON_CPU_TRACED_ATOMIC(32)
CUDA_ON_CPU_TRACED_ATOMIC(64)

CUDA_ON_CPU_UNSEEN void __sanitizer_cov_trace_pc() {
    cuda_on_cpu::add_event(cuda_on_cpu::Kind::basic_block, CUDA_ON_CPU_CALLER, nullptr, 0);
}

CUDA_ON_CPU_UNSEEN void __tsan_func_entry(void* caller) {
    cuda_on_cpu::Trace* const trace = cuda_on_cpu::trace_here();
    if (!trace) return;
    const uint32_t outer = trace->depth ? trace->contexts[(trace->depth - 1) % 64] : 0;
    trace->contexts[trace->depth++ % 64] = (outer ^ uint32_t(reinterpret_cast<uint64_t>(caller))) * 0x9E3779B1u;
}

CUDA_ON_CPU_UNSEEN void __tsan_func_exit() {
    if (cuda_on_cpu::Trace* const trace = cuda_on_cpu::trace_here()) --trace->depth;
}

CUDA_ON_CPU_UNSEEN void __tsan_init() {}

}  // extern "C"
