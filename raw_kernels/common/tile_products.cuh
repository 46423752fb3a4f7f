// Sums of products by tiles, on tensor cores where elements have 2 bytes or 1: sums[row, column] = sum over the terms of a row's elements times
// a column's.
//
// A block of 128 threads owns a tile of 64 rows and 64 columns. Pieces of both operands pass through shared memory, 64 lines (rows of A,
// columns of B) by 64 bytes of terms each, in two buffers, with the next piece in flight in registers. In shared memory a line is 16 words,
// whose groups of four change places such that neither the lanes that read fragments nor those that read neighbouring lines meet a bank
// twice. A warp of tensor cores owns 32 rows and 32 columns.
//
// An operand loads its own pieces: `load(first, terms)` reads the piece that begins with a term into registers, `store(shared)` writes it.
// Elements past the operand are 0. Elements are raw: unsigned integers of their size. Loaded words are converted in
// `store`: an instruction that uses them earlier would wait for them before the product that hides the load. Only where elements of less
// than a word come one by one, they are joined, and so waited for, in `load`.
//
// `Sums` are those of a tile. Roundings do not add up in long sums: some terms are summed first (`stage_terms`), then added to the
// total. The order of sums depends only on the number of terms.
#pragma once

constexpr int tile_side = 64;
constexpr int tile_threads = 128;
constexpr int line_words = 16;                                       // of a piece
constexpr int own_words = tile_side * line_words / tile_threads;     // of each operand that a thread loads

/// Where a word of a line of a piece lies in shared memory.
__device__ __forceinline__ int word_place(int line, int word) {
    return line * line_words + (word / 4 ^ ((line / 2 ^ line / 8) & 3)) * 4 + word % 4;
}

/// Shifts words and appends new ones, so that a loop that is not unrolled fills registers.
template <int size, int count>
__device__ __forceinline__ void append(unsigned (&words)[size], unsigned const (&added)[count]) {
#pragma unroll
    for (int i = 0; i < size; ++i) {
        words[i] = i + count < size ? words[(i + count) % size] : added[(i + count) % count];
    }
}

/// How threads load a matrix: neighbouring threads along the terms or along the lines, single elements or 16 bytes at a time.
enum class Order : int { terms, lines, wide_terms, wide_lines };

/// A matrix as an operand. Order::wide_terms: terms are neighbours, and their number, the distance of lines and the address are multiples
/// of 16 bytes. Order::wide_lines: the same for lines, with any stride of terms.
template <class Raw>
class MatrixLines {
    static constexpr int in_word = 4 / sizeof(Raw);
    static constexpr int in_quad = 4 * in_word;
    static constexpr int piece_terms = line_words * in_word;
    static constexpr int together = 8;                                          // neighbouring lines of a thread
    static constexpr int in_load = sizeof(Raw) < 4 ? together : in_quad;        // of 16 bytes at most
    static constexpr int at_once = own_words / in_word < 4 ? 4 : own_words / in_word;   // words with independent loads

  public:
    /// `data`: of the tile's first line; `lines`: from there on; `flip`: the mask that each word is XORed with.
    __device__ MatrixLines(void const* data, long long line_stride, long long term_stride, long long lines, Order order, unsigned flip = 0)
        : data_(static_cast<Raw const*>(data)), line_stride_(line_stride), term_stride_(term_stride), order_(order), flip_(flip) {
        lines_ = static_cast<int>(lines < tile_side ? lines : tile_side);
    }

    __device__ __forceinline__ void load(long long first, long long terms) {
        int const thread = static_cast<int>(threadIdx.x);
        if (order_ == Order::wide_terms) {
            clear();
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                int const line = thread / 4 + i * (tile_threads / 4);
                long long const term = first + thread % 4 * in_quad;
                if (line < lines_ && term < terms) {
                    load_words<4>(4 * i, data_ + line * line_stride_ + term);
                }
            }
        } else if (order_ == Order::wide_lines) {
            clear();
            int const line = thread % together * together;
#pragma unroll
            for (int e = 0; e < in_word; ++e) {
                long long const term = first + thread / together * in_word + e;
#pragma unroll
                for (int part = 0; part < together; part += in_load) {
                    if (line + part < lines_ && term < terms) {
                        load_words<in_load / in_word>((e * together + part) / in_word, data_ + line + part + term * term_stride_);
                    }
                }
            }
        } else {
#pragma unroll 1
            for (int number = 0; number < own_words; number += at_once) {
                unsigned words[at_once];
#pragma unroll
                for (int i = 0; i < at_once; ++i) {
                    words[i] = flip_;
                    int const line = single_line(number + i);
                    long long const term = first + single_word(number + i) * in_word;
#pragma unroll
                    for (int e = 0; e < in_word; ++e) {
                        if (line < lines_ && term + e < terms) {
                            Raw const value = data_[line * line_stride_ + (term + e) * term_stride_];
                            words[i] ^= static_cast<unsigned>(static_cast<Raw>(value ^ static_cast<Raw>(flip_))) << e * 8 * sizeof(Raw);
                        }
                    }
                }
                append(words_, words);
            }
        }
    }

    __device__ __forceinline__ void store(unsigned* staged) const {
        int const thread = static_cast<int>(threadIdx.x);
        if (order_ == Order::wide_terms) {
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                Vector4<unsigned> quad;
#pragma unroll
                for (int w = 0; w < 4; ++w) {
                    quad.values[w] = words_[4 * i + w] ^ flip_;
                }
                int const place = word_place(thread / 4 + i * (tile_threads / 4), thread % 4 * 4);
                *reinterpret_cast<Vector4<unsigned>*>(staged + place) = quad;
            }
        } else if (order_ == Order::wide_lines) {
            int const first = thread % together * together;
            int const upper = thread % together / 4;   // these write their lines in the other order, to avoid bank conflicts
            unsigned of_lines[together];
#pragma unroll
            for (int i = 0; i < together; ++i) {
                of_lines[i] = word_of_line(i) ^ flip_;
            }
#pragma unroll
            for (int i = 0; i < together; ++i) {
                staged[word_place(first + (i ^ upper), thread / together)] = upper != 0 ? of_lines[i ^ 1] : of_lines[i];
            }
        } else {
#pragma unroll
            for (int i = 0; i < own_words; ++i) {
                staged[word_place(single_line(i), single_word(i))] = words_[i] ^ flip_;
            }
        }
    }

  private:
    /// Makes words such that `store` makes zeros of them.
    __device__ __forceinline__ void clear() {
#pragma unroll
        for (int i = 0; i < own_words; ++i) {
            words_[i] = flip_;
        }
    }

    /// Begins to read `count` words.
    template <int count>
    __device__ __forceinline__ void load_words(int place, Raw const* from) {
        auto const loaded = *reinterpret_cast<AlignedVector<unsigned, count> const*>(from);
#pragma unroll
        for (int w = 0; w < count; ++w) {
            words_[place + w] = loaded.values[w];
        }
    }

    /// Of Order::wide_lines: the terms of one of the thread's lines, which were loaded with those of its neighbours.
    __device__ __forceinline__ unsigned word_of_line(int line) const {
        unsigned word = 0;
#pragma unroll
        for (int e = 0; e < in_word; ++e) {
            unsigned const neighbours = words_[(e * together + line) / in_word];
            word |= static_cast<unsigned>(static_cast<Raw>(neighbours >> line % in_word * 8 * sizeof(Raw))) << e * 8 * sizeof(Raw);
        }
        return word;
    }

    __device__ __forceinline__ int single_line(int i) const {
        int const thread = static_cast<int>(threadIdx.x);
        return order_ == Order::terms ? thread / line_words + i * (tile_threads / line_words) : thread % tile_side;
    }
    __device__ __forceinline__ int single_word(int i) const {
        int const thread = static_cast<int>(threadIdx.x);
        return order_ == Order::terms ? thread % line_words : thread / tile_side + i * (tile_threads / tile_side);
    }

    Raw const* data_;
    long long line_stride_;
    long long term_stride_;
    int lines_;
    Order order_;
    unsigned flip_;
    unsigned words_[own_words];   // of the piece that was loaded last, combined with nothing yet
};

/// A lane's part of a tile on tensor cores: two by four fragments of 16 rows and 8 columns.
constexpr int row_fragments = 2;
constexpr int column_fragments = 4;

template <int rows = row_fragments>
__device__ __forceinline__ int fragment_row(int i, int e) {
    int const thread = static_cast<int>(threadIdx.x);
    return thread / 64 * (rows * 16) + i * 16 + e / 2 * 8 + thread % 32 / 4;
}

template <int columns = column_fragments>
__device__ __forceinline__ int fragment_column(int j, int e) {
    int const thread = static_cast<int>(threadIdx.x);
    return thread / 32 % 2 * (columns * 8) + j * 8 + thread % 4 * 2 + e % 2;
}

/// Calls multiply(i, j, a, b) for each of a lane's row fragments i and column fragments j of a piece, step by step. A fragment's words come into
/// neighbouring registers. `factor` makes factors of words.
template <int row_count = row_fragments, int column_count = column_fragments, class Multiply, class Factor>
__device__ __forceinline__ void for_each_matrix(unsigned const* rows, unsigned const* columns, Multiply const& multiply,
                                                Factor const& factor) {
    int const lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
    int const row_place = word_place(warp / 2 * (row_count * 16) + lane % 16, lane / 16 * 4);
    int const column_place = word_place(warp % 2 * (column_count * 8) + lane / 16 * 8 + lane % 8, lane / 8 % 2 * 4);
    // 16 lines on, and two groups of four words on: either changes the same bit of a word's place.
    auto const load = [&](unsigned(&words)[4], unsigned const* staged, int place, int lines, int step) {
        machine::load_matrices(words, staged + (place ^ (lines % 2 ^ step) * 8) + lines * 16 * line_words);
#pragma unroll
        for (int w = 0; w < 4; ++w) {
            words[w] = factor(words[w]);
        }
    };
#pragma unroll
    for (int step = 0; step < 2; ++step) {
        unsigned a[row_count][4];
#pragma unroll
        for (int i = 0; i < row_count; ++i) {
            load(a[i], rows, row_place, i, step);
        }
#pragma unroll
        for (int pair = 0; pair < column_count / 2; ++pair) {
            unsigned words[4];
            load(words, columns, column_place, pair, step);
#pragma unroll
            for (int j = 0; j < 2; ++j) {
                unsigned const b[2] = {words[2 * j], words[2 * j + 1]};
#pragma unroll
                for (int i = 0; i < row_count; ++i) {
                    multiply(i, 2 * pair + j, a[i], b);
                }
            }
        }
    }
}

/// A word whose factors are those that it has.
__device__ __forceinline__ unsigned as_it_is(unsigned word) {
    return word;
}

/// A total that is a float.
class PlainSum {
  public:
    __device__ void add(float term) { sum_ += term; }
    __device__ float result() const { return sum_; }

  private:
    float sum_ = 0.0f;
};

/// Sums of products of halves, or of bfloat16s, by tensor cores.
template <class T>
class NarrowSums {
  public:
    using Raw = unsigned short;
    static constexpr int piece_terms = 32;
    static constexpr int stage_terms = 256;

    __device__ __forceinline__ void multiply(unsigned const* rows, unsigned const* columns) {
        auto const add = [&](int i, int j, unsigned const(&a)[4], unsigned const(&b)[2]) {
            machine::multiply_add<T>(sums_[i][j], a, b);
        };
        for_each_matrix(rows, columns, add, as_it_is);
    }

    template <class Zeros>
    __device__ __forceinline__ void end_stage(int, Zeros const&) {
        visit([](float& sum, float& total, int, int) {
            total += sum;
            sum = 0.0f;
        });
    }

    /// Calls take(row, column, sum) for each sum of this thread.
    template <class Take>
    __device__ __forceinline__ void for_each(Take const& take) {
        visit([&](float&, float& total, int row, int column) { take(row, column, total); });
    }

  private:
    template <class Take>
    __device__ __forceinline__ void visit(Take const& take) {
#pragma unroll
        for (int i = 0; i < row_fragments; ++i) {
#pragma unroll
            for (int j = 0; j < column_fragments; ++j) {
#pragma unroll
                for (int e = 0; e < 4; ++e) {
                    take(sums_[i][j][e], totals_[i][j][e], fragment_row(i, e), fragment_column(j, e));
                }
            }
        }
    }

    float sums_[row_fragments][column_fragments][4] = {};
    float totals_[row_fragments][column_fragments][4] = {};
};

/// Sums of products of floats, by multiply-add: a thread has 8 rows and 4 columns of a tile of 64 x 64, or 8 columns of one of 128 x 64, for
/// which it reads a third less of shared memory a product. They are interleaved such that neighbouring threads have neighbouring columns.
/// `Total` adds up the sums of `stage` terms.
template <class Total, int stage, int own_columns = 4>
class FloatSums {
    static constexpr int own_rows = 8;
    static constexpr int across = tile_side / own_columns, down = 8;   // threads of 64 rows

  public:
    using Raw = unsigned;
    using Result = float;
    static constexpr int rows = tile_threads / across * own_rows;
    static constexpr int columns = tile_side;
    static constexpr int piece_terms = 16;
    static constexpr int stage_terms = stage;

    __device__ __forceinline__ void multiply(unsigned const* row_piece, unsigned const* column_piece) {
#pragma unroll 1
        for (int quad = 0; quad < 4; ++quad) {
            int const row_place = word_place(row(0), quad * 4), column_place = word_place(column(0), quad * 4);
            auto const of_row = [&](int i) { return words_of(row_piece, row_place, i * down); };
            auto const of_column = [&](int j) { return words_of(column_piece, column_place, j * across); };
            if constexpr (own_columns < own_rows) {   // the smaller side stays in registers
                Vector4<unsigned> b[own_columns];
#pragma unroll
                for (int j = 0; j < own_columns; ++j) {
                    b[j] = of_column(j);
                }
#pragma unroll
                for (int i = 0; i < own_rows; ++i) {
                    Vector4<unsigned> const a = of_row(i);
#pragma unroll
                    for (int j = 0; j < own_columns; ++j) {
#pragma unroll
                        for (int k = 0; k < 4; ++k) {
                            add(sums_[i][j], a, b[j], k);
                        }
                    }
                }
            } else {
                Vector4<unsigned> a[own_rows];
#pragma unroll
                for (int i = 0; i < own_rows; ++i) {
                    a[i] = of_row(i);
                }
#pragma unroll
                for (int j = 0; j < own_columns; ++j) {
                    Vector4<unsigned> const b = of_column(j);
#pragma unroll
                    for (int k = 0; k < 4; ++k) {
#pragma unroll
                        for (int i = 0; i < own_rows; ++i) {
                            add(sums_[i][j], a[i], b, k);
                        }
                    }
                }
            }
        }
    }

    template <class Zeros>
    __device__ __forceinline__ void end_stage(int, Zeros const&) {
#pragma unroll
        for (int i = 0; i < own_rows; ++i) {
#pragma unroll
            for (int j = 0; j < own_columns; ++j) {
                totals_[i][j].add(sums_[i][j]);
                sums_[i][j] = 0.0f;
            }
        }
    }

    template <class Take>
    __device__ __forceinline__ void for_each(Take const& take) const {
#pragma unroll
        for (int i = 0; i < own_rows; ++i) {
#pragma unroll
            for (int j = 0; j < own_columns; ++j) {
                take(row(i), column(j), totals_[i][j].result());
            }
        }
    }

  private:
    /// Words of the line that lies so many multiples of 8 after the one that has them at a place.
    __device__ static __forceinline__ Vector4<unsigned> words_of(unsigned const* piece, int place, int lines) {
        return *reinterpret_cast<Vector4<unsigned> const*>(piece + (place ^ lines / 8 % 4 * 4) + lines * line_words);
    }

    __device__ static __forceinline__ void add(float& sum, Vector4<unsigned> const& a, Vector4<unsigned> const& b, int k) {
        sum += machine::float_of_bits(a.values[k]) * machine::float_of_bits(b.values[k]);
    }

    __device__ static __forceinline__ int row(int i) {
        int const line = static_cast<int>(threadIdx.x) / across;
        return (rows == tile_side ? line : line / down * tile_side + line % down) + i * down;
    }
    __device__ static __forceinline__ int column(int j) { return static_cast<int>(threadIdx.x) % across + j * across; }

    float sums_[own_rows][own_columns] = {};
    Total totals_[own_rows][own_columns];
};

/// Exact sums of products of differences of bytes to zero points, by tensor cores: that of (a - az) (b - bz) is that of a b, less az times
/// that of b and bz times that of a, and az bz for each term. The tensor cores find the sums of a and of b, too, as products with ones.
/// A and B are the bytes of rows and columns, signed or not. Sums wrap around in 32 bits: they are exact where there are no more than 2^15
/// terms.
template <class A, class B>
class ByteSums {
  public:
    using Raw = unsigned char;
    using Result = int;
    static constexpr int rows = tile_side;
    static constexpr int columns = tile_side;
    static constexpr int piece_terms = 64;
    static constexpr int stage_terms = 1 << 30;

    /// Whether any zero point of a row, or of a column, is not 0.
    __device__ ByteSums(bool of_rows, bool of_columns) : has_row_zeros_(of_rows), has_column_zeros_(of_columns) {}

    __device__ __forceinline__ void multiply(unsigned const* rows, unsigned const* columns) {
        constexpr unsigned one = 0x01010101u;
        auto const add = [&](int i, int j, unsigned const(&a)[4], unsigned const(&b)[2]) {
            machine::multiply_add_bytes<A, B>(sums_[i][j], a, b);
            if (j == 0 && has_column_zeros_) {
                unsigned const ones[2] = {one, one};
                machine::multiply_add_bytes<A, B>(of_rows_[i], a, ones);
            }
            if (i == 0 && has_row_zeros_) {
                unsigned const ones[4] = {one, one, one, one};
                machine::multiply_add_bytes<A, B>(of_columns_[j], ones, b);
            }
        };
        for_each_matrix(rows, columns, add, as_it_is);
    }

    /// `zeros.row(r)` and `zeros.column(c)` are the zero points of the tile's lines.
    template <class Zeros>
    __device__ __forceinline__ void end_stage(int terms, Zeros const& zeros) {
#pragma unroll
        for (int i = 0; i < row_fragments; ++i) {
#pragma unroll
            for (int e = 0; e < 4; ++e) {
                unsigned const of_row = has_row_zeros_ ? zeros.row(fragment_row(i, e)) : 0;
#pragma unroll
                for (int j = 0; j < column_fragments; ++j) {
                    unsigned const of_column = has_column_zeros_ ? zeros.column(fragment_column(j, e)) : 0;
                    unsigned const of_zeros = of_row * of_columns_[j][e] + of_column * (of_rows_[i][e] - terms * of_row);
                    sums_[i][j][e] -= of_zeros;
                }
            }
        }
        clear(of_rows_);
        clear(of_columns_);
    }

    template <class Take>
    __device__ __forceinline__ void for_each(Take const& take) const {
#pragma unroll
        for (int i = 0; i < row_fragments; ++i) {
#pragma unroll
            for (int j = 0; j < column_fragments; ++j) {
#pragma unroll
                for (int e = 0; e < 4; ++e) {
                    take(fragment_row(i, e), fragment_column(j, e), sums_[i][j][e]);
                }
            }
        }
    }

  private:
    template <int count>
    __device__ __forceinline__ static void clear(int (&sums)[count][4]) {
#pragma unroll
        for (int i = 0; i < count; ++i) {
#pragma unroll
            for (int e = 0; e < 4; ++e) {
                sums[i][e] = 0;
            }
        }
    }

    bool has_row_zeros_;
    bool has_column_zeros_;
    int sums_[row_fragments][column_fragments][4] = {};
    int of_rows_[row_fragments][4] = {};
    int of_columns_[column_fragments][4] = {};
};

/// Of operands without zero points.
struct NoZeros {};

/// Adds all products of two operands. All threads of a block call it; shared memory may be reused after it.
template <class Sums, class Rows, class Columns, class Zeros = NoZeros>
__device__ __forceinline__ void sum_tile(Sums& sums, Rows& rows, Columns& columns, long long terms, Zeros const& zeros = {}) {
    alignas(16) __shared__ unsigned staged[2][2][tile_side * line_words];
    int buffer = 0, of_stage = 0;
    rows.load(0, terms);
    columns.load(0, terms);
    // Prefetches: the next piece is waited for after the product of this one.
#pragma unroll 1
    for (long long first = 0; first < terms; first += Sums::piece_terms) {
        rows.store(staged[buffer][0]);
        columns.store(staged[buffer][1]);
        __syncthreads();
        long long const next = first + Sums::piece_terms;
        rows.load(next, terms);
        columns.load(next, terms);
        sums.multiply(staged[buffer][0], staged[buffer][1]);
        buffer ^= 1;
        of_stage += static_cast<int>(next < terms ? Sums::piece_terms : terms - first);
        if (of_stage >= Sums::stage_terms || next >= terms) {
            sums.end_stage(of_stage, zeros);
            of_stage = 0;
        }
    }
    __syncthreads();
}
