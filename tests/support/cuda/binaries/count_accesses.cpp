// What the warps of a GPU would make of the accesses of traced blocks: a library, for tests/support/cuda/binaries/access_counts.py.
//
// Lanes. A warp's threads were traced one by one. Here they go on together: of the threads that have not ended those take their next event
// that are deepest in calls and, among them, at the lowest place in the code; who is elsewhere waits. So they part at branches and meet
// where these end, as long as the code of a loop or a branch lies before what follows it. Threads wait for each other at barriers.
//
// Shared memory. 32 banks of 4 bytes, one word from each in a wavefront, whoever wants it. Accesses of up to 4 bytes serve the 32 lanes
// together, those of 8 bytes 16 lanes and those of 16 bytes 8 lanes after the other; a load twice as many if each lane has its address in
// common with its neighbour, or each with its next but one. (CUDA C++ Programming Guide, "Shared Memory" of compute capability 5.x, for the
// banks; "Unexpected shared memory bank conflict", NVIDIA developer forums, thread 77228, for wider accesses.)
//
// Global memory. The sectors of 32 bytes that an access of a warp touches.
#include <stdint.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <set>
#include <tuple>
#include <vector>

#include "cuda_events_on_cpu.h"

namespace {

using cuda_on_cpu::BlockTrace;
using cuda_on_cpu::Event;
using cuda_on_cpu::Kind;
using cuda_on_cpu::Range;
using cuda_on_cpu::Trace;

constexpr int warp_size = 32;
constexpr uint64_t bank_bytes = 4, banks = 32, sector_bytes = 32;
constexpr int widest = 16;  // bytes of a lane's access

enum class Space : int32_t { shared, global, none };

/// As in access_counts.py.
struct Row {
    int32_t line;
    int32_t space;
    int32_t kind;
    int32_t bytes;  // of one lane
    uint64_t accesses;  // of warps
    uint64_t lanes;     // that took part, in all of them
    uint64_t wavefronts, least_wavefronts;  // the least that could move as many bytes
    uint64_t sectors, least_sectors;
    uint64_t rounds;  // loads before which the warp has stored something since its last load, or has met a barrier
};

bool holds(const Range& range, uint64_t address) { return address - range.begin < range.bytes; }

/// Where an address is, and its place there.
std::pair<Space, uint64_t> locate(const BlockTrace& block, uint64_t address) {
    if (holds(block.dynamic_shared, address)) return {Space::shared, address - block.dynamic_shared.begin};
    if (holds(block.static_shared, address)) return {Space::shared, address - block.static_shared.begin};
    if (holds(block.stacks, address) || holds(block.module, address)) return {Space::none, 0};
    return {Space::global, address};
}

uint64_t distinct(std::vector<uint64_t>& numbers) {
    std::sort(numbers.begin(), numbers.end());
    numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
    return numbers.size();
}

/// The units of `size` bytes that some accesses touch, each once.
uint64_t touched(const std::vector<uint64_t>& addresses, uint64_t bytes, uint64_t size) {
    std::vector<uint64_t> units;
    for (const uint64_t address : addresses)
        for (uint64_t unit = address / size; unit <= (address + bytes - 1) / size; ++unit) units.push_back(unit);
    return distinct(units);
}

uint64_t divide_up(uint64_t number, uint64_t by) { return (number + by - 1) / by; }

/// One access of a warp.
struct Access {
    std::vector<uint64_t> addresses;  // of the lanes that take part
    std::vector<int> lanes;
    uint64_t bytes;
    bool is_load;
};

bool in_pairs(const Access& access, int apart) {
    std::array<uint64_t, warp_size> of_lane;
    of_lane.fill(~uint64_t(0));
    for (size_t i = 0; i < access.lanes.size(); ++i) of_lane[access.lanes[i]] = access.addresses[i];
    for (int lane = 0; lane < warp_size; ++lane) {
        const uint64_t own = of_lane[lane], other = of_lane[lane ^ apart];
        if (own != ~uint64_t(0) && other != ~uint64_t(0) && own != other) return false;
    }
    return true;
}

uint64_t wavefronts_of(const Access& access) {
    int together = access.bytes <= 4 ? warp_size : access.bytes == 8 ? warp_size / 2 : warp_size / 4;
    if (together < warp_size && access.is_load && (in_pairs(access, 1) || in_pairs(access, 2))) together *= 2;
    uint64_t wavefronts = 0;
    for (int first = 0; first < warp_size; first += together) {
        std::vector<uint64_t> words;
        for (size_t i = 0; i < access.lanes.size(); ++i)
            if (access.lanes[i] / together == first / together)
                for (uint64_t byte = 0; byte < access.bytes; byte += bank_bytes)
                    words.push_back((access.addresses[i] + byte) / bank_bytes);
        distinct(words);
        std::array<uint64_t, banks> in_bank{};
        for (const uint64_t word : words) ++in_bank[word % banks];
        wavefronts += *std::max_element(in_bank.begin(), in_bank.end());
    }
    return wavefronts;
}

/// The source line of each place.
class Lines {
  public:
    Lines(const uint32_t* places, const int32_t* lines, size_t count) : places_(places), lines_(lines), count_(count) {}

    int32_t operator()(uint32_t place) const { return lines_[std::lower_bound(places_, places_ + count_, place) - places_]; }

  private:
    const uint32_t* places_;  // ascending
    const int32_t* lines_;
    size_t count_;
};

/// Merges pairs of accesses to what lies side by side, as the compiler of a GPU does with an aligned struct's values: accesses of one line,
/// one after the other, that are no rounds of a loop and lie side by side, aligned to both, whenever any thread comes by.
class Merger {
  public:
    Merger(const Lines& lines, int bytes) : lines_(lines), bytes_(bytes) {}

    /// Forbids what does not always lie side by side; true if that is news.
    bool learn(const std::vector<Event>& events) {
        const size_t before = forbidden_.size();
        pass(events, [this](const Event& first, const Event& second) {
            const bool together = first.address % (2 * bytes_) == 0 && second.address == first.address + bytes_;
            if (!together) forbidden_.insert({first.place, second.place});
            return together;
        });
        return forbidden_.size() > before;
    }

    std::vector<Event> merged(const std::vector<Event>& events) const {
        return pass(events, [](const Event&, const Event&) { return true; });
    }

  private:
    template <class Merges>
    std::vector<Event> pass(const std::vector<Event>& events, Merges merges) const {
        std::vector<Event> result;
        size_t last = 0;  // access, in `result`
        bool follows = false;
        for (const Event& event : events) {
            const bool plain = (event.kind == Kind::load || event.kind == Kind::store) && !event.is_part && event.bytes == bytes_;
            if (plain && follows) {
                Event& other = result[last];
                if (other.kind == event.kind && other.place < event.place && lines_(other.place) == lines_(event.place) &&
                    !forbidden_.count({other.place, event.place}) && merges(other, event)) {
                    other.bytes = static_cast<uint8_t>(2 * bytes_);
                    follows = false;
                    continue;
                }
            }
            if (event.kind != Kind::basic_block) {
                last = result.size();
                follows = plain;
            }
            result.push_back(event);
        }
        return result;
    }

    const Lines& lines_;
    uint64_t bytes_;
    std::set<std::pair<uint32_t, uint32_t>> forbidden_;
};

using Rows = std::map<std::tuple<int32_t, Space, Kind, uint64_t>, Row>;

void count(Rows& rows, int32_t line, Kind kind, Space space, const Access& access, bool& loading) {
    Row& row = rows[{line, space, kind, access.bytes}];
    row.line = line;
    row.space = static_cast<int32_t>(space);
    row.kind = static_cast<int32_t>(kind);
    row.bytes = static_cast<int32_t>(access.bytes);
    ++row.accesses;
    row.lanes += access.lanes.size();
    if (space == Space::shared) {
        row.wavefronts += wavefronts_of(access);
        row.least_wavefronts += divide_up(touched(access.addresses, access.bytes, bank_bytes), banks);
    } else {
        row.sectors += touched(access.addresses, access.bytes, sector_bytes);
        row.least_sectors += divide_up(touched(access.addresses, access.bytes, 1), sector_bytes);
        if (kind == Kind::load && !loading) ++row.rounds;
    }
    if (kind == Kind::load)
        loading |= space == Space::global;
    else
        loading = false;
}

/// Counts one warp, given the events of its lanes.
void count_warp(Rows& rows, const Lines& lines, const BlockTrace& block, const std::vector<Event>* events, size_t lane_count) {
    std::array<size_t, warp_size> next{};
    bool loading = false;  // since the last store or barrier
    const auto before = [](const Event& a, const Event& b) {
        const auto order = [](const Event& e) {
            return std::tuple(e.kind == Kind::synchronized, -int(e.depth), e.place, e.context, e.kind, e.bytes);
        };
        return order(a) < order(b);
    };
    while (true) {
        const Event* first = nullptr;
        for (size_t lane = 0; lane < lane_count; ++lane)
            if (next[lane] < events[lane].size() && (!first || before(events[lane][next[lane]], *first))) first = &events[lane][next[lane]];
        if (!first) return;
        const Event chosen = *first;
        std::map<Space, Access> accesses;
        for (size_t lane = 0; lane < lane_count; ++lane) {
            if (next[lane] == events[lane].size() || before(chosen, events[lane][next[lane]])) continue;
            const Event& event = events[lane][next[lane]++];
            if (event.bytes == 0) continue;
            const auto [space, place] = locate(block, event.address);
            Access& access = accesses[space];
            access.addresses.push_back(place);
            access.lanes.push_back(static_cast<int>(lane));
            access.bytes = event.bytes;
            access.is_load = event.kind == Kind::load;
        }
        if (chosen.kind == Kind::synchronized) loading = false;
        for (const auto& [space, access] : accesses) count(rows, lines(chosen.place), chosen.kind, space, access, loading);
    }
}

/// The events of each thread of a block but for those of its own memory, pairs of accesses merged.
std::vector<std::vector<Event>> relevant(const BlockTrace& block, const Lines& lines) {
    std::vector<std::vector<Event>> threads(block.thread_count);
    for (uint32_t thread = 0; thread < block.thread_count; ++thread) {
        const Trace& trace = block.threads[thread];
        std::copy_if(trace.events, trace.events + trace.count, std::back_inserter(threads[thread]), [&](const Event& event) {
            return event.bytes == 0 || locate(block, event.address).first != Space::none;
        });
    }
    for (int bytes = 1; bytes < widest; bytes *= 2) {
        Merger merger(lines, bytes);
        for (bool learned = true; learned;) {
            learned = false;
            for (const std::vector<Event>& events : threads) learned |= merger.learn(events);
        }
        for (std::vector<Event>& events : threads) events = merger.merged(events);
    }
    return threads;
}

const BlockTrace* traces_of(const void* traces) { return static_cast<const BlockTrace*>(traces); }

}  // namespace

extern "C" {

/// The places of all accesses, ascending; returns how many there are and writes no more than `most`.
size_t access_places(const void* traces, uint32_t* places, size_t most) {
    std::vector<uint64_t> found;
    for (const BlockTrace* block = traces_of(traces); block; block = block->next)
        for (uint32_t thread = 0; thread < block->thread_count; ++thread)
            for (size_t at = 0; at < block->threads[thread].count; ++at)
                if (block->threads[thread].events[at].bytes) found.push_back(block->threads[thread].events[at].place);
    distinct(found);
    std::copy_n(found.begin(), std::min(most, found.size()), places);
    return found.size();
}

/// Counts all traced blocks together; `lines` numbers the source line of each place. Returns how many rows there are, as above.
size_t count_accesses(const void* traces, const uint32_t* places, const int32_t* lines, size_t place_count, Row* rows, size_t most) {
    Rows counted;
    const Lines line_of(places, lines, place_count);
    for (const BlockTrace* block = traces_of(traces); block; block = block->next) {
        const std::vector<std::vector<Event>> threads = relevant(*block, line_of);
        for (size_t first = 0; first < threads.size(); first += warp_size)
            count_warp(counted, line_of, *block, &threads[first], std::min<size_t>(warp_size, threads.size() - first));
    }
    size_t written = 0;
    for (const auto& [key, row] : counted)
        if (written < most) rows[written++] = row;
    return counted.size();
}

}  // extern "C"
