// The recurrent cells backwards: the gradients of one hidden unit of one sample from the gradient of its state and the values that the step
// saved.
//
// A cell's gradient is a pointwise function; the kernels compute the products. All arithmetic is float.
// d_x stands for the gradient of x; d_z, d_i, ... are those of the gates' sums, before the activation and the clip. The derivatives
// at kinks are those of common/activations.cuh; a clipped sum has derivative 1 up to its bound and 0 beyond.
#pragma once

/// The saved values of one hidden unit at a step, and the states around it.
template <int gates>
struct Saved {
    float saved_gates[gates];  // of each gate its value or its argument, as the activation's functor specifies; the sum if it is clipped
    float before;             // Gru: H[t-1]; Lstm: C[t-1]
    float after;              // Lstm: C[t]
};

/// The constants of one hidden unit for the whole sequence.
struct UnitConstants {
    float peephole[3];     // i, o, f; read by Lstm with peepholes only
    float clip_threshold;  // read by Lstm with clip only
};

/// The value of an activation, from its saved value or argument.
template <class Functor>
__device__ float value_of(Functor const& functor, float saved) {
    if constexpr (Functor::saves_value) {
        return saved;
    } else {
        return functor(saved);
    }
}

/// The derivative of an activation at an argument whose value is known too.
template <class Functor>
__device__ float derivative_at(Functor const& functor, float argument, float value) {
    return functor.derivative(Functor::saves_value ? value : argument);
}

/// For each cell:
///   saved           values that the reserve holds for each unit and step
///   rows            gradients of sums for each unit and step: by gate; for Gru<true>, where the recurrent product of the last
///                   gate has a separate gradient, z, r, product of h, h
///   before, after   which state's slots `Saved` is filled from: 0 none, 1 hidden, 2 memory
///   step            d_sums from d_hidden and d_memory, the gradients of H[t] and C[t]. d_memory becomes that of C[t-1], and d_hidden
///                   the part of H[t-1]'s gradient that does not come from products with R.
template <class Cell>
struct CellGradient;

/// d_i = d_H f'
template <>
struct CellGradient<Rnn> {
    static constexpr int saved = Rnn::saved;
    static constexpr int rows = 1;
    static constexpr int before = 0;
    static constexpr int after = 0;

    template <class Activations>
    __device__ static void step(Activations const& activations, UnitConstants const&, Saved<1> const& of_step, float& d_hidden, float&,
                                float (&d_sums)[1]) {
        d_sums[0] = d_hidden * activations.f.derivative(of_step.saved_gates[0]);
        d_hidden = 0.0f;
    }
};

/// d_h = d_H (1 - z) g',  d_z = d_H (H[t-1] - n) f',  d_H[t-1] = d_H z + ...
///
/// linear_before_reset false, q = r . H[t-1]:        d_q = d_h Rh,  d_r = d_q H[t-1] f',  d_H[t-1] += d_q r   (`reset`)
/// linear_before_reset true, q = H[t-1] Rh^T + Rbh:  d_q = d_h r,   d_r = d_h q f'
template <bool linear_before_reset>
struct CellGradient<Gru<linear_before_reset>> {
    static constexpr int saved = Gru<linear_before_reset>::saved;
    static constexpr int rows = saved;
    static constexpr int before = 1;
    static constexpr int after = 0;

    template <class Activations>
    __device__ static void step(Activations const& activations, UnitConstants const&, Saved<saved> const& of_step, float& d_hidden,
                                float&, float (&d_sums)[rows]) {
        float const update = value_of(activations.f, of_step.saved_gates[0]);
        float const candidate = value_of(activations.g, of_step.saved_gates[2]);
        float const d_candidate = d_hidden * (1.0f - update) * activations.g.derivative(of_step.saved_gates[2]);
        d_sums[0] = d_hidden * (of_step.before - candidate) * activations.f.derivative(of_step.saved_gates[0]);
        if constexpr (linear_before_reset) {
            d_sums[1] = d_candidate * of_step.saved_gates[3] * activations.f.derivative(of_step.saved_gates[1]);
            d_sums[2] = d_candidate * value_of(activations.f, of_step.saved_gates[1]);
            d_sums[3] = d_candidate;
        } else {
            d_sums[1] = 0.0f;  // computed by `reset`
            d_sums[2] = d_candidate;
        }
        d_hidden *= update;
    }

    /// d_r, from d_q; adds to the gradient of H[t-1].
    template <class Activations>
    __device__ static float reset(Activations const& activations, Saved<saved> const& of_step, float d_product, float& d_hidden) {
        d_hidden += d_product * value_of(activations.f, of_step.saved_gates[1]);
        return d_product * of_step.before * activations.f.derivative(of_step.saved_gates[1]);
    }

    /// r . H[t-1], the operand of the last gate's product.
    template <class Activations>
    __device__ static float operand(Activations const& activations, UnitConstants const&, Saved<saved> const& of_step) {
        return value_of(activations.f, of_step.saved_gates[1]) * of_step.before;
    }
};

/// d_o = d_H h(C[t]) f',  d_C = d_C[t] + d_H o h'(C[t]) + Po d_o
/// d_i = d_C c f',  d_f = d_C C[t-1] f'; with couple_input_forget d_i = d_C (c - C[t-1]) f' and d_f = 0
/// d_c = d_C i g',  d_C[t-1] = d_C F + Pi d_i + Pf d_f
template <bool use_clip_threshold, bool couple_input_forget, bool has_peephole>
struct CellGradient<Lstm<use_clip_threshold, couple_input_forget, has_peephole>> {
    using Cell = Lstm<use_clip_threshold, couple_input_forget, has_peephole>;
    static constexpr int saved = Cell::saved;
    static constexpr int rows = 4;
    static constexpr int before = 2;
    static constexpr int after = 2;

    /// An activation of a gate's sum, and the derivative with respect to the sum.
    struct Gate {
        float value;
        float derivative;

        template <class Functor>
        __device__ Gate(Functor const& functor, float of_step, float threshold) {
            if constexpr (use_clip_threshold) {
                float const sum = Cell::clip(of_step, threshold);
                value = functor(sum);
                derivative = of_step < -threshold || of_step > threshold ? 0.0f : derivative_at(functor, sum, value);
            } else {
                value = value_of(functor, of_step);
                derivative = functor.derivative(of_step);
            }
        }
    };

    template <class Activations>
    __device__ static void step(Activations const& activations, UnitConstants const& unit, Saved<4> const& of_step, float& d_hidden,
                                float& d_memory, float (&d_sums)[4]) {
        Gate const entry(activations.f, of_step.saved_gates[0], unit.clip_threshold);
        Gate const exit(activations.f, of_step.saved_gates[1], unit.clip_threshold);
        Gate const candidate(activations.g, of_step.saved_gates[3], unit.clip_threshold);
        float const shown = activations.h(of_step.after);
        d_sums[1] = d_hidden * shown * exit.derivative;
        d_memory += d_hidden * exit.value * derivative_at(activations.h, of_step.after, shown);
        if constexpr (has_peephole) {
            d_memory += unit.peephole[1] * d_sums[1];
        }
        d_sums[3] = d_memory * entry.value * candidate.derivative;
        float keep;
        if constexpr (couple_input_forget) {
            d_sums[0] = d_memory * (candidate.value - of_step.before) * entry.derivative;
            d_sums[2] = 0.0f;
            keep = 1.0f - entry.value;
        } else {
            Gate const forget(activations.f, of_step.saved_gates[2], unit.clip_threshold);
            d_sums[0] = d_memory * candidate.value * entry.derivative;
            d_sums[2] = d_memory * of_step.before * forget.derivative;
            keep = forget.value;
        }
        d_memory *= keep;
        if constexpr (has_peephole) {
            d_memory += unit.peephole[0] * d_sums[0] + unit.peephole[2] * d_sums[2];
        }
        d_hidden = 0.0f;
    }

    /// o . h(C[t]), which a projection multiplies.
    template <class Activations>
    __device__ static float operand(Activations const& activations, UnitConstants const& unit, Saved<4> const& of_step) {
        return Gate(activations.f, of_step.saved_gates[1], unit.clip_threshold).value * activations.h(of_step.after);
    }
};
