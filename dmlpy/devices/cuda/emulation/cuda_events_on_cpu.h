// What the CUDA threads of a block did to memory, event by event: written by cuda_tracing_on_cpu.h, read by count_accesses.cpp.
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace cuda_on_cpu {

enum class Kind : uint8_t {
    basic_block,  // begins
    load,   // relaxed ones too: blocks exchange values so
    store,  // relaxed ones too
    atomic_load,   // that acquires
    atomic_store,  // that releases, or reads as well
    synchronized,  // a barrier, or a function of a warp
};

struct Event {
    uint64_t address;
    uint32_t place;    // of the call that tells of it, in the shared object
    uint32_t context;  // the calls that lead there, as a hash
    uint16_t depth;    // of these calls
    Kind kind;
    uint8_t bytes;
    bool is_part;  // of a value that is aligned to less than its size
};

/// The events of one CUDA thread.
struct Trace {
    Event* events;
    size_t count, capacity;
    uint32_t contexts[64];
    uint16_t depth;
    bool polls;  // since a pause there was nothing but accesses to own memory, and relaxed loads of what was loaded before
};

struct Range {
    uint64_t begin, bytes;
};

/// What the threads of one block did. Addresses in none of the ranges are of global memory.
struct BlockTrace {
    Trace* threads;
    uint32_t thread_count;
    Range dynamic_shared, static_shared, stacks, module;
    BlockTrace* next;
};

}  // namespace cuda_on_cpu
