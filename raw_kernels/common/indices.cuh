// Indices into the dimensions of a tensor, of any of the four types of the indexing operators.
#pragma once

/// The indices of a launch. They come in tuples, one index for each of some dimensions; most operators have tuples of one. The type is a
/// number and not a template argument: its branches are the same in all threads, and a kernel has one instance instead of four.
struct Indices {
    void const* data;
    long long step;       // from one index of a tuple to the next
    long long sizes[8];   // of the dimensions that a tuple indexes
    int count;            // indices in a tuple, 1 to 8
    int bytes;            // of an index: 4 or 8
    int is_signed;        // not 0: negative indices count from the end of a dimension

    /// Index number `which` of the tuple whose first index lies at `place`, counted from the start of its dimension: below 0 or at least
    /// the dimension's size if it is out of range.
    __device__ __forceinline__ long long from_start(long long place, int which) const {
        constexpr long long largest = 0x7FFFFFFFFFFFFFFF;
        long long const own = place + which * step;
        long long index;
        if (bytes == 4) {
            unsigned const word = static_cast<unsigned const*>(data)[own];
            index = is_signed ? static_cast<long long>(static_cast<int>(word)) : word;
        } else {
            long long const word = static_cast<long long const*>(data)[own];
            index = word < 0 && !is_signed ? largest : word;
        }
        return index < 0 ? index + sizes[which] : index;
    }
};
