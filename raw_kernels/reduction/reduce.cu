// REDUCE, ARGMIN and ARGMAX: one result for each group of entries that differ only along some of a tensor's axes.
//
//   `reduce`               where a thread group for each group fills the device
//   `gather`, `combine`    if groups are few and large: they are split over blockIdx.y, and parts are merged in a second launch
//
// T is the type of entries, R the reduction: common/reduction.cuh. See common/thread_groups.cuh for thread groups and the work of a block
// and a thread. y overlaps nothing else.
#include "common/machine.cuh"
#include "common/reduction.cuh"

template <class T, class R>
struct ReduceParameters {
    T const* x;
    void* y;                     // one element for each group: R::Result, of `ArgExtreme` an index of settings.index_bytes
    ThreadGroups<2> thread_groups;              // of x, and of an entry's number in its group, row-major in the tensor's dimensions
    Axes<1> outer;               // of y, as those of the thread groups
    long long stride;            // of y from one group to the next along the innermost axis; 0 if that is within groups
    Splits<typename R::Part> splits;
    unsigned side_by_side;       // groups along the innermost axis: 1 within groups
    ReductionSettings settings;
};

/// Writes the result of a group whose place on the outer axes and along the innermost one is given.
template <class T, class R>
__device__ __forceinline__ void write(ReduceParameters<T, R> const& parameters, unsigned outer, unsigned inner,
                                      typename R::Part const& part) {
    long long const place = locate(parameters.outer, outer).of[0] + inner * parameters.stride;
    auto const result = R::result(part, parameters.settings);
    if constexpr (is_same<R, ArgExtreme<T>>) {
        if (parameters.settings.index_bytes == 8) {
            static_cast<unsigned long long*>(parameters.y)[place] = result;
            return;
        }
    }
    static_cast<typename R::Result*>(parameters.y)[place] = result;
}

/// The parts of a thread group's groups in a split, for each of its threads.
template <int width, bool across, class T, class R, int owned>
__device__ __forceinline__ void take_parts(ReduceParameters<T, R> const& parameters, Member const& member, unsigned split,
                                           typename R::Part (&parts)[owned]) {
    add_entries<width, across, R>(parameters.x, parameters.thread_groups, member, split, parameters.settings, {}, parts);
    merge_thread_group(parameters.thread_groups.size, parts, machine::dynamic_shared<typename R::Part>());
}

/// One launch: a block is several thread groups, and a thread group processes all of its groups.
template <class T, class R, int width, bool across>
__global__ void __launch_bounds__(most_block_threads, resident_blocks<across>) reduce(const __grid_constant__ ReduceParameters<T, R> parameters) {
    constexpr int owned = across ? width : 1;
    Member const member(parameters.thread_groups, blockIdx.x);
    typename R::Part parts[owned];
    take_parts<width, across>(parameters, member, 0, parts);
    if (member.leads()) {
#pragma unroll
        for (int number = 0; number < owned; ++number) {
            write(parameters, member.outer, member.column * width + number, parts[number]);
        }
    }
}

/// First launch of two: a thread group processes a split of its groups.
template <class T, class R, int width, bool across>
__global__ void __launch_bounds__(most_block_threads, resident_blocks<across>) gather(const __grid_constant__ ReduceParameters<T, R> parameters) {
    constexpr int owned = across ? width : 1;
    Member const member(parameters.thread_groups, blockIdx.x);
    typename R::Part parts[owned];
    take_parts<width, across>(parameters, member, blockIdx.y, parts);
    for_led_groups<width, across>(
        parameters.thread_groups, member, [&](unsigned group, int number) { parameters.splits.part(blockIdx.y, group) = parts[number]; });
}

/// Second launch: a lane of threads merges the splits of a group.
template <class T, class R>
__global__ void __launch_bounds__(most_block_threads, 1) combine(const __grid_constant__ ReduceParameters<T, R> parameters) {
    typename R::Part const part = merge_splits(parameters.splits, machine::dynamic_shared<typename R::Part>());
    unsigned const group = group_of(parameters.splits);
    if (group < parameters.splits.groups && threadIdx.x >> parameters.splits.size.lanes_log2 == 0) {
        unsigned const outer = group / parameters.side_by_side;
        write(parameters, outer, group - outer * parameters.side_by_side, part);
    }
}
