// What becomes of a block's scores: what is added to them, to which keys a row attends, and the softmax while they come.
//
// `Own` says what a thread has of a tile of scores: `own_rows` rows and `own_scores` keys of each, `score(scores, row, j)`, which rows and keys
// these are, and how many neighbouring `lanes` have a row's `own_keys` together, all of a tile's or a warp's. `own_key` is the thread's first
// key of a tile.
#pragma once

/// In the place of a scale of 0: products with it are 0 beside any other exponent, while infinities stay.
inline constexpr float least_scale = 1.17549435e-38f;

struct Largest {
    __device__ __forceinline__ float operator()(float a, float b) const { return fmaxf(a, b); }
};

struct Sum {
    __device__ __forceinline__ float operator()(float a, float b) const { return a + b; }
};

/// Merges the values of the neighbouring lanes that have a row.
template <int lanes, class Merge>
__device__ __forceinline__ float over_lanes(float value) {
    Merge const merge;
#pragma unroll
    for (int mask = 1; mask < lanes; mask *= 2) {
        value = merge(value, machine::shuffle_xor(value, mask));
    }
    return value;
}

/// To which keys a thread's rows attend.
template <class Own>
class Seen {
  public:
    /// `first_row`: of the thread.
    template <class T>
    __device__ __forceinline__ Seen(AttentionParameters<T> const& parameters, RowsAndKeys const& work, int first_row) {
        least_ = parameters.seen(work.first_row / parameters.group_heads, work.valid);
#pragma unroll
        for (int i = 0; i < Own::own_rows; ++i) {
            int const row = min(first_row + Own::row_of(i), parameters.rows - 1);
            of_row_[i] = parameters.seen(row / parameters.group_heads, work.valid);
        }
    }

    /// The number of leading keys of a tile that a row attends to.
    __device__ __forceinline__ int limit(KeyTile const& tile, int row) const { return min(tile.count, of_row_[row] - tile.place); }

    /// Gives keys of a tile that a row does not attend to no weight; a thread's keys begin with `own_key`.
    __device__ __forceinline__ void hide(typename Own::Scores& scores, KeyTile const& tile, int own_key) const {
        if (min(tile.count, least_ - tile.place) >= Own::keys) {
            return;
        }
#pragma unroll
        for (int i = 0; i < Own::own_rows; ++i) {
            int const own_limit = limit(tile, i) - own_key;
#pragma unroll
            for (int j = 0; j < Own::own_scores; ++j) {
                if (Own::key_of(j) >= own_limit) {
                    Own::score(scores, i, j) = -machine::float_of_bits(infinity_bits);
                }
            }
        }
    }

  private:
    int least_;   // of all rows of the block
    int of_row_[Own::own_rows];
};

/// What is added to the scores of a thread's rows.
template <class T, class Own, bool plain>
class Additions {
  public:
    __device__ __forceinline__ Additions(AttentionParameters<T> const& parameters, RowsAndKeys const& work, int first_row)
        : parameters_(parameters), filter_(parameters.filter_value * log2_e) {
#pragma unroll
        for (int i = 0; i < Own::own_rows; ++i) {
            int const row = min(first_row + Own::row_of(i), parameters.rows - 1);
            int const query = row / parameters.group_heads, head = work.group * parameters.group_heads + row % parameters.group_heads;
            biases_[i] = parameters.position_bias.data == nullptr ? nullptr : &parameters.position_bias.at(work.batch, head, query, 0);
            masks_[i] = parameters.mask.data == nullptr ? nullptr : &parameters.mask.at(work.batch, head, query, 0);
            bias_of_keys_[i] = 0.0f;
        }
        if (parameters.ends.data != nullptr) {
            // The distance of a negative one from a key may be beyond what an int holds.
            end_ = max(0, parameters.ends.at(work.batch));
            start_ = parameters.starts.data == nullptr ? 0 : max(0, parameters.starts.at(work.batch));
        }
    }

    /// Sets what the biases of new keys add to a row's scores, before they are scaled.
    __device__ __forceinline__ void set_bias_of_keys(int row, float value) { bias_of_keys_[row] = value; }

    /// Begins to load what is added to the scores of a tile.
    __device__ __forceinline__ void load(Seen<Own> const& seen, KeyTile const& tile, int own_key) {
        if (parameters_.position_bias.data != nullptr) {
            load_each(added_, biases_, static_cast<int>(parameters_.position_bias.strides[3]), seen, tile, own_key);
        }
        if (parameters_.mask.data != nullptr) {
            load_each(kept_, masks_, static_cast<int>(parameters_.mask.strides[3]), seen, tile, own_key);
        }
    }

    /// Converts products to exponents: scaled, with all that is added, relative to `offset` of the states, which is raised. The largest
    /// exponents so far become relative to it, too.
    __device__ __forceinline__ void add(typename Own::Scores& scores, State (&states)[Own::own_rows], Seen<Own> const& seen, KeyTile const& tile, int own_key,
                                        float scale) {
#pragma unroll
        for (int i = 0; i < Own::own_rows; ++i) {
            float const of_key = tile.earlier ? 0.0f : bias_of_keys_[i] * scale;
#pragma unroll
            for (int j = 0; j < Own::own_scores; ++j) {
                float& score = Own::score(scores, i, j);
                score = score * scale + of_key;
            }
            if (parameters_.position_bias.data != nullptr) {
#pragma unroll
                for (int j = 0; j < Own::own_scores; ++j) {
                    Own::score(scores, i, j) += machine::to_float(added_[i][j]) * log2_e;
                }
            }
            if (parameters_.masks()) {
                filter(scores, states[i], seen.limit(tile, i) - own_key, i, tile.place + own_key);
            }
        }
    }

  private:
    /// Loads a number for each score; for keys that a row does not attend to that of another.
    template <class Number>
    __device__ __forceinline__ static void load_each(Number (&loaded)[Own::own_rows][Own::own_scores], Number const* const (&rows)[Own::own_rows], int stride,
                                                     Seen<Own> const& seen, KeyTile const& tile, int own_key) {
#pragma unroll
        for (int i = 0; i < Own::own_rows; ++i) {
            int const last = max(seen.limit(tile, i) - 1, 0);
#pragma unroll
            for (int j = 0; j < Own::own_scores; ++j) {
                loaded[i][j] = rows[i][(tile.place + min(own_key + Own::key_of(j), last)) * stride];
            }
        }
    }

    /// Adds what the mask adds to row `i`: `limit` as for keys from `place` on.
    __device__ __forceinline__ void filter(typename Own::Scores& scores, State& state, int limit, int i, int place) {
        unsigned filtered = 0;   // a bit for each key
        if (parameters_.mask.data != nullptr) {
#pragma unroll
            for (int j = 0; j < Own::own_scores; ++j) {
                filtered |= kept_[i][j] == 0 ? 1u << j : 0u;
            }
        } else {
            filtered = ~leading(end_ - place) | leading(start_ - place);
        }
        unsigned const all = leading(limit);
        float offset = (filtered & all) == 0 ? state.offset : fmaxf(state.offset, filter_);
        offset = over_lanes<Own::lanes, Largest>((~filtered & all) == 0 ? offset : fmaxf(offset, 0.0f));
        float const of_filtered = distance(filter_, offset), of_others = distance(0.0f, offset);
#pragma unroll
        for (int j = 0; j < Own::own_scores; ++j) {
            Own::score(scores, i, j) += (filtered >> j & 1) != 0 ? of_filtered : of_others;
        }
        state.most = raised(state, offset);
        state.offset = offset;
    }

    /// The bits of a thread's keys before one, counted from its first.
    __device__ __forceinline__ static unsigned leading(int keys) {
        int const before = max(0, min(keys, Own::own_keys));
        return (1u << Own::keys_before(before)) - 1;
    }

    AttentionParameters<T> const& parameters_;
    float filter_;
    T const* biases_[Own::own_rows];
    int const* masks_[Own::own_rows];
    float bias_of_keys_[Own::own_rows];
    int start_;   // the first key that the mask does not filter out
    int end_;     // and the first one after them
    T added_[Own::own_rows][Own::own_scores];
    int kept_[Own::own_rows][Own::own_scores];
};

/// Of plain attention: nothing.
template <class T, class Own>
class Additions<T, Own, true> {
  public:
    __device__ __forceinline__ Additions(AttentionParameters<T> const&, RowsAndKeys const&, int) {}

    __device__ __forceinline__ void load(Seen<Own> const&, KeyTile const&, int) {}

    __device__ __forceinline__ void add(typename Own::Scores&, State (&)[Own::own_rows], Seen<Own> const&, KeyTile const&, int, float) {}
};

/// What the exponents of a row's weights are relative to as far as its largest score goes: with a weight of 1 for it.
template <class T>
__device__ __forceinline__ float most_of(float largest, float scale) {
    return largest * scale;
}

/// In halves with 2^15 for it, so that small weights are in their range, too: what is 2^-29 of the largest one has all digits, and 2^-39 of it
/// is the last that is not 0. Rounded up: beyond 2^24 floats are 2 apart, and 2^16 is no half.
template <>
__device__ __forceinline__ float most_of<machine::half>(float largest, float scale) {
    return machine::multiply_add_up(largest, scale, -15.0f);
}

/// Converts exponents, products with `scale` or scores, to weights of type `T`, and calls rescale(row, factor) for the results so far.
template <class T, class Own, class Rescale>
__device__ __forceinline__ void weigh(typename Own::Scores& scores, State (&states)[Own::own_rows], float scale, Rescale const& rescale) {
#pragma unroll
    for (int i = 0; i < Own::own_rows; ++i) {
        State& state = states[i];
        float largest = Own::score(scores, i, 0);
#pragma unroll
        for (int j = 1; j < Own::own_scores; ++j) {
            largest = fmaxf(largest, Own::score(scores, i, j));
        }
        float const most = fmaxf(state.most, most_of<T>(over_lanes<Own::lanes, Largest>(largest), scale));
        float const origin = origin_of(most);
        float const factor = machine::exp2_flushed(state.most - origin);
        state.most = most;
        state.sum *= factor;
        state.earlier *= factor;
#pragma unroll
        for (int j = 0; j < Own::own_scores; ++j) {
            float& score = Own::score(scores, i, j);
            score = machine::exp2_flushed(fmaf(score, scale, -origin));
            state.sum += score;
        }
        rescale(i, factor);
    }
}
