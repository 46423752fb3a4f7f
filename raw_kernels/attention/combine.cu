// Attention where blocks have parts of the keys: merges the results of a row's parts.
//
//   y = sum over parts of 2^(most - m) results / sum over parts of 2^(most - m) sum      with m the largest `most` of all parts
//
// Warps own rows; the grid is one-dimensional, of any size. The order of sums is that of the parts.
#include "common/machine.cuh"
#include "common/types.cuh"
#include "common/strided.cuh"
#include "common/grid_stride.cuh"
#include "attention/attention.cuh"

/// Columns that a lane sums at a time.
inline constexpr int together = 4;
inline constexpr int warp = 32;

template <class T>
__global__ void combine(const __grid_constant__ AttentionParameters<T> parameters) {
    long long const of_part = parameters.all_rows;
    int const columns = parameters.value.size, lane = static_cast<int>(threadIdx.x) % warp;
    bool const masks = parameters.masks();
#pragma unroll 1
    for (long long place = first_element() / warp; place < of_part; place += element_stride() / warp) {
        int const row = static_cast<int>(place % parameters.rows);
        long long const rest = place / parameters.rows;
        int const group = static_cast<int>(rest % parameters.groups), batch = static_cast<int>(rest / parameters.groups);
        int const query = row / parameters.group_heads, head = group * parameters.group_heads + row % parameters.group_heads;
        Vector4<float> const* const states = reinterpret_cast<Vector4<float> const*>(parameters.part_states) + place;
        State all = no_keys();
#pragma unroll 4
        for (int part = 0; part < parameters.result_parts; ++part) {
            State const of = state_of(states[part * of_part]);
            float const offset = masks ? fmaxf(all.offset, of.offset) : 0.0f;
            float const earlier = masks ? raised(all, offset) : all.most, later = masks ? raised(of, offset) : of.most;
            float const most = fmaxf(earlier, later), origin = origin_of(most);
            float const factor = machine::exp2_flushed(earlier - origin), weight = machine::exp2_flushed(later - origin);
            all = {most, offset, all.sum * factor + of.sum * weight, all.earlier * factor + of.earlier * weight};
        }
        bool const sees_none = parameters.seen(query, parameters.valid(batch)) == 0;
#pragma unroll 1
        for (int first = lane; first < columns; first += together * warp) {
            float results[together] = {};
#pragma unroll 4
            for (int part = 0; part < parameters.result_parts; ++part) {
                State const of = state_of(states[part * of_part]);
                float const later = masks ? raised(of, all.offset) : of.most;
                float const weight = machine::exp2_flushed(later - origin_of(all.most));
                float const* const from = parameters.part_results + (part * of_part + place) * result_columns(columns);
#pragma unroll
                for (int i = 0; i < together; ++i) {
                    results[i] += first + i * warp < columns ? from[first + i * warp] * weight : 0.0f;
                }
            }
#pragma unroll
            for (int i = 0; i < together; ++i) {
                int const column = first + i * warp;
                if (column < columns) {
                    float const biased = parameters.value.bias == nullptr ? 0.0f : (all.sum - all.earlier) * parameters.value.bias_at(group, column);
                    float const result = sees_none ? 0.0f : (results[i] + biased) / all.sum;
                    parameters.output.at(batch, query, head, column) = machine::from_float<T>(result);
                }
            }
        }
    }
}
