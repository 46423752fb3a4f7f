// One step of a GRU and its gradient, as TensorFlow's GRUBlockCell and GRUBlockCellGrad compute them.
//
//   [r, u] = sigmoid([x, h_prev] w_ru + b_ru)          d_c_bar = d_h (1 - u) (1 - c c)
//   c = tanh([x, r h_prev] w_c + b_c)                  d_u_bar = d_h (h_prev - c) u (1 - u)
//   h = u h_prev + (1 - u) c                           [d_x2, d_h_prevr] = d_c_bar w_c^T
//                                                      d_r_bar = d_h_prevr h_prev r (1 - r)
//                                                      [d_x1, d_h1] = [d_r_bar, d_u_bar] w_ru^T
//                                                      d_x = d_x1 + d_x2
//                                                      d_h_prev = d_h1 + d_h_prevr r + d_h u
//
// Matrix products come before, between and after these kernels:
//
//   step       products with w_ru, `gates`, products with w_c, `candidate`
//   gradient   `candidate_gradient`, product with w_c^T, `gates_gradient`, product with w_ru^T added, `gather`
//
// Letters: B samples, I inputs, H units. The element type of the caller's tensors is the template argument T; arithmetic and sums are
// float, but `gates` leaves r h_prev as a left matrix of type T.
//
// One thread owns elements; the grid is one-dimensional, of any size. No block shares anything with another. Tensors have two leading
// axes of size 1 (a bias three); an absent one is not computed. Outputs overlap nothing else.
#include "common/machine.cuh"
#include "common/types.cuh"
#include "common/grid_stride.cuh"
#include "common/strided.cuh"
#include "common/activations.cuh"
#include "common/tf32.cuh"

template <class T>
__device__ float load(Strided<T const> const& tensor, long long row, long long column) {
    return machine::to_float(tensor.at(0, 0, row, column));
}

template <class T>
struct GatesParameters {
    float const* sums;         // [B][2H]: [x, h_prev] w_ru; unset for a gate that is not needed
    Strided<T const> b_ru;     // [2H]
    Strided<T const> h_prev;   // [B][H]
    Strided<T> r;              // [B][H]
    Strided<T> u;              // [B][H]
    T* reset_state;            // [B][H]: r h_prev, or absent
    float* update;             // [B][H]: u, or absent
    long long batch_size;
    long long cell_size;
};

/// r and u.
template <class T>
__global__ void gates(GatesParameters<T> parameters) {
    long long const cell_size = parameters.cell_size;
    bool const resets = parameters.r.data != nullptr || parameters.reset_state != nullptr;
    bool const updates = parameters.u.data != nullptr || parameters.update != nullptr;
#pragma unroll 1
    for (long long index = first_element(); index < parameters.batch_size * cell_size; index += element_stride()) {
        long long const sample = index / cell_size;
        long long const unit = index % cell_size;
        float const* const sums = parameters.sums + sample * 2 * cell_size;
        if (resets) {
            float const r = logistic(sums[unit] + load(parameters.b_ru, 0, unit));
            store(parameters.r, 0, 0, sample, unit, r);
            if (parameters.reset_state != nullptr) {
                parameters.reset_state[index] = machine::from_float<T>(r * load(parameters.h_prev, sample, unit));
            }
        }
        if (updates) {
            float const u = logistic(sums[cell_size + unit] + load(parameters.b_ru, 0, cell_size + unit));
            store(parameters.u, 0, 0, sample, unit, u);
            if (parameters.update != nullptr) {
                parameters.update[index] = u;
            }
        }
    }
}

template <class T>
struct CandidateParameters {
    float const* sums;         // [B][H]: [x, r h_prev] w_c
    float const* update;       // [B][H]: u; absent where h is
    Strided<T const> b_c;      // [H]
    Strided<T const> h_prev;   // [B][H]
    Strided<T> c;              // [B][H]
    Strided<T> h;              // [B][H]
    long long batch_size;
    long long cell_size;
};

/// c and h.
template <class T>
__global__ void candidate(CandidateParameters<T> parameters) {
    long long const cell_size = parameters.cell_size;
#pragma unroll 1
    for (long long index = first_element(); index < parameters.batch_size * cell_size; index += element_stride()) {
        long long const sample = index / cell_size;
        long long const unit = index % cell_size;
        float const c = hyperbolic_tangent(parameters.sums[index] + load(parameters.b_c, 0, unit));
        store(parameters.c, 0, 0, sample, unit, c);
        if (parameters.h.data != nullptr) {
            float const u = parameters.update[index];
            store(parameters.h, 0, 0, sample, unit, u * load(parameters.h_prev, sample, unit) + (1.0f - u) * c);
        }
    }
}

template <class T>
struct CandidateGradientParameters {
    Strided<T const> h_prev;    // [B][H]
    Strided<T const> u;         // [B][H]
    Strided<T const> c;         // [B][H]
    Strided<T const> d_h;       // [B][H]
    Strided<T> d_c_bar;         // [B][H]
    Strided<T> d_r_bar_u_bar;   // [B][2H]: the second half is written
    float* candidate_sums;      // [B][H]: d_c_bar, or absent
    float* gate_sums;           // [B][2H]: d_u_bar in the second half, or absent
    long long batch_size;
    long long cell_size;
};

/// d_c_bar and d_u_bar.
template <class T>
__global__ void candidate_gradient(CandidateGradientParameters<T> parameters) {
    long long const cell_size = parameters.cell_size;
#pragma unroll 1
    for (long long index = first_element(); index < parameters.batch_size * cell_size; index += element_stride()) {
        long long const sample = index / cell_size;
        long long const unit = index % cell_size;
        float const u = load(parameters.u, sample, unit);
        float const c = load(parameters.c, sample, unit);
        float const d_h = load(parameters.d_h, sample, unit);
        float const d_candidate = d_h * (1.0f - u);
        float const d_c_bar = d_candidate * (1.0f - c * c);
        float const d_u_bar = d_candidate * (load(parameters.h_prev, sample, unit) - c) * u;
        store(parameters.d_c_bar, 0, 0, sample, unit, d_c_bar);
        store(parameters.d_r_bar_u_bar, 0, 0, sample, cell_size + unit, d_u_bar);
        if (parameters.candidate_sums != nullptr) {
            parameters.candidate_sums[index] = to_tf32_factor<T>(d_c_bar);
        }
        if (parameters.gate_sums != nullptr) {
            parameters.gate_sums[(sample * 2 + 1) * cell_size + unit] = to_tf32_factor<T>(d_u_bar);
        }
    }
}

template <class T>
struct GatesGradientParameters {
    Strided<T const> h_prev;    // [B][H]
    Strided<T const> r;         // [B][H]
    Strided<T const> u;         // [B][H]
    Strided<T const> d_h;       // [B][H]
    Strided<T> d_r_bar_u_bar;   // [B][2H]: the first half is written
    float* product;             // [B][I + H]: d_c_bar w_c^T; then its last H columns, d_h_prevr, become d_h_prevr r + d_h u
    float* gate_sums;           // [B][2H]: d_r_bar in the first half, or absent
    long long batch_size;
    long long input_size;
    long long cell_size;
};

/// d_r_bar, and the part of d_h_prev that is not a product with w_ru^T.
template <class T>
__global__ void gates_gradient(GatesGradientParameters<T> parameters) {
    long long const cell_size = parameters.cell_size;
#pragma unroll 1
    for (long long index = first_element(); index < parameters.batch_size * cell_size; index += element_stride()) {
        long long const sample = index / cell_size;
        long long const unit = index % cell_size;
        float* const d_state = parameters.product + sample * (parameters.input_size + cell_size) + parameters.input_size + unit;
        float const d_reset_state = *d_state;
        float const r = load(parameters.r, sample, unit);
        float const d_r_bar = d_reset_state * load(parameters.h_prev, sample, unit) * r * (1.0f - r);
        *d_state = d_reset_state * r + load(parameters.d_h, sample, unit) * load(parameters.u, sample, unit);
        store(parameters.d_r_bar_u_bar, 0, 0, sample, unit, d_r_bar);
        if (parameters.gate_sums != nullptr) {
            parameters.gate_sums[sample * 2 * cell_size + unit] = to_tf32_factor<T>(d_r_bar);
        }
    }
}

template <class T>
struct GatherParameters {
    float const* product;   // [B][I + H]: d_x, d_h_prev; unset if not needed
    Strided<T> d_x;         // [B][I]
    Strided<T> d_h_prev;    // [B][H]
    long long batch_size;
    long long input_size;
    long long cell_size;
};

/// d_x and d_h_prev in the caller's layout.
template <class T>
__global__ void gather(GatherParameters<T> parameters) {
    long long const input_size = parameters.input_size;
    long long const width = input_size + parameters.cell_size;
#pragma unroll 1
    for (long long index = first_element(); index < parameters.batch_size * width; index += element_stride()) {
        long long const sample = index / width;
        long long const column = index % width;
        if (column < input_size) {
            store(parameters.d_x, 0, 0, sample, column, parameters.product[index]);
        } else {
            store(parameters.d_h_prev, 0, 0, sample, column - input_size, parameters.product[index]);
        }
    }
}
