// The recurrent cells: a step of one hidden unit of one sample, given the sums of its gates.
//
// A cell is a pointwise function; the kernels compute the products. All arithmetic is float.
//   input[g]    row g of X[t] W^T
//   product[g]  row g of H[t-1] R^T
// Gate order along g: Rnn i; Gru z, r, h; Lstm i, o, f, c.
//
// A cell passes the values that a gradient needs to its argument `pass`: for gate g, at place g, the activation's value if the
// derivative follows from that, else its argument; Gru<true> also H[t-1] Rh^T + Rbh, at place 3. If sums are clipped it is always
// the argument before the clip. Lstm's h is recomputed from C[t]. The bits of `saved_by_next`, and of `saved_by_reset` where the reset
// is a separate kernel, are the places that are saved there.
#pragma once

/// A pass that saves nothing.
struct Inference {
    __device__ void save(int, float) const {}

    __device__ float* address() const {
        return nullptr;
    }
};

/// A training pass, with saved values for a gradient.
struct Training {
    float* saved;  // [Cell::saved][H], from the unit's own on; null: not saved
    long long hidden_size;

    __device__ void save(int place, float value) const {
        if (saved != nullptr) {
            saved[place * hidden_size] = value;
        }
    }

    /// The address of place 0 of the unit; null: not saved.
    __device__ float* address() const {
        return saved;
    }
};

/// An activation's value, for the cell and for the pass.
template <class F, class Pass>
__device__ float activate(F const& function, float argument, int place, Pass const& pass) {
    float const value = function(argument);
    pass.save(place, F::saves_value ? value : argument);
    return value;
}

/// A direction's activation functions, by their names in the cells' equations.
template <class F, class G = Identity, class H = Identity>
struct Activations {
    F f;
    G g;
    H h;

    __device__ explicit Activations(float const (&attributes)[3][2])
        : f(with_attributes<F>(attributes[0])), g(with_attributes<G>(attributes[1])), h(with_attributes<H>(attributes[2])) {}
};

/// The constants of one hidden unit for the whole sequence.
template <class Cell>
struct Unit {
    float bias[Cell::biases];  // Wb + Rb for each gate; Gru<true>: z and r summed, then Wb of h, then Rb of h
    float peephole[3];         // i, o, f; read by Lstm with peepholes only
    float clip_threshold;      // read by Lstm with clip only

    /// Absent tensors count as zero.
    __device__ Unit(float const* bias_tensor,      // [D][biases][H] or null
                    float const* peephole_tensor,  // [D][3][H] or null
                    float clip, long long direction, long long unit, long long hidden_size)
        : clip_threshold(clip) {
        for (int g = 0; g < Cell::biases; ++g) {
            bias[g] = bias_tensor == nullptr ? 0.0f : bias_tensor[(direction * Cell::biases + g) * hidden_size + unit];
        }
        for (int g = 0; g < 3; ++g) {
            peephole[g] = peephole_tensor == nullptr ? 0.0f : peephole_tensor[(direction * 3 + g) * hidden_size + unit];
        }
    }

    /// From the values that a unit's constructor read, stored contiguously.
    __device__ Unit(float const* biases,     // [biases], aligned for one access if there are four
                    float const* peepholes,  // [3] or null
                    float clip)
        : clip_threshold(clip) {
        if constexpr (Cell::biases == 4) {
            Vector4<float> const loaded = *reinterpret_cast<Vector4<float> const*>(biases);
            for (int g = 0; g < Cell::biases; ++g) {
                bias[g] = loaded.values[g];
            }
        } else {
            for (int g = 0; g < Cell::biases; ++g) {
                bias[g] = biases[g];
            }
        }
        for (int g = 0; g < 3; ++g) {
            peephole[g] = peepholes == nullptr ? 0.0f : peepholes[g];
        }
    }
};

/// H[t] = f(X[t] W^T + H[t-1] R^T + Wb + Rb)
struct Rnn {
    static constexpr int gates = 1;
    static constexpr int biases = 1;
    static constexpr int saved = 1;
    static constexpr unsigned saved_by_next = 0b1;
    static constexpr bool has_memory = false;
    static constexpr bool resets_before_product = false;

    template <class Activations, class Pass>
    __device__ static float next(Activations const& activations, Unit<Rnn> const& unit, float const (&input)[1],
                                 float const (&product)[1], float, float&, Pass const& pass) {
        return activate(activations.f, input[0] + product[0] + unit.bias[0], 0, pass);
    }
};

/// z = f(X[t] Wz^T + H[t-1] Rz^T + Wbz + Rbz)
/// r = f(X[t] Wr^T + H[t-1] Rr^T + Wbr + Rbr)
/// n = g(X[t] Wh^T + (r . H[t-1]) Rh^T + Rbh + Wbh)     linear_before_reset false
/// n = g(X[t] Wh^T + r . (H[t-1] Rh^T + Rbh) + Wbh)     linear_before_reset true
/// H[t] = (1 - z) . n + z . H[t-1]
template <bool linear_before_reset>
struct Gru {
    static constexpr int gates = 3;
    static constexpr int biases = linear_before_reset ? 4 : 3;
    static constexpr int saved = linear_before_reset ? 4 : 3;
    static constexpr unsigned saved_by_next = linear_before_reset ? 0b1111 : 0b101;
    static constexpr unsigned saved_by_reset = 0b10;
    static constexpr bool has_memory = false;
    /// Whether the product of the last gate is of r . H[t-1], so that all units have to reset before any can continue.
    static constexpr bool resets_before_product = !linear_before_reset;

    /// r; needs product[1] only.
    template <class Activations, class Pass>
    __device__ static float reset(Activations const& activations, Unit<Gru> const& unit, float const (&input)[3],
                                  float const (&product)[3], Pass const& pass) {
        return activate(activations.f, input[1] + product[1] + unit.bias[1], 1, pass);
    }

    /// product[2] is of H[t-1] or of r . H[t-1], as `resets_before_product` says.
    template <class Activations, class Pass>
    __device__ static float next(Activations const& activations, Unit<Gru> const& unit, float const (&input)[3],
                                 float const (&product)[3], float hidden, float&, Pass const& pass) {
        float const update = activate(activations.f, input[0] + product[0] + unit.bias[0], 0, pass);
        float sum = input[2] + unit.bias[2];
        if constexpr (linear_before_reset) {
            float const recurrent = product[2] + unit.bias[3];
            pass.save(3, recurrent);
            sum += reset(activations, unit, input, product, pass) * recurrent;
        } else {
            sum += product[2];
        }
        return (1.0f - update) * activate(activations.g, sum, 2, pass) + update * hidden;
    }
};

/// i = f(clip(X[t] Wi^T + H[t-1] Ri^T + Pi . C[t-1] + Wbi + Rbi))
/// F = f(clip(X[t] Wf^T + H[t-1] Rf^T + Pf . C[t-1] + Wbf + Rbf)), or 1 - i if couple_input_forget
/// c = g(clip(X[t] Wc^T + H[t-1] Rc^T + Wbc + Rbc))
/// C[t] = F . C[t-1] + i . c
/// o = f(clip(X[t] Wo^T + H[t-1] Ro^T + Po . C[t] + Wbo + Rbo))
/// H[t] = o . h(C[t])
template <bool use_clip_threshold, bool couple_input_forget, bool has_peephole>
struct Lstm {
    static constexpr int gates = 4;
    static constexpr int biases = 4;
    static constexpr int saved = 4;
    static constexpr unsigned saved_by_next = couple_input_forget ? 0b1011 : 0b1111;
    static constexpr bool has_memory = true;
    static constexpr bool resets_before_product = false;

    /// A gate's sum, clipped; NaN stays NaN.
    __device__ static float clip(float sum, float threshold) {
        return sum < -threshold ? -threshold : sum > threshold ? threshold : sum;
    }

    /// A gate's value, from its sum.
    template <class F, class Pass>
    __device__ static float gate(F const& function, float sum, float threshold, int place, Pass const& pass) {
        if constexpr (use_clip_threshold) {
            pass.save(place, sum);
            return function(clip(sum, threshold));
        } else {
            return activate(function, sum, place, pass);
        }
    }

    /// Leaves place 2 unwritten with couple_input_forget.
    template <class Activations, class Pass>
    __device__ static float next(Activations const& activations, Unit<Lstm> const& unit, float const (&input)[4],
                                 float const (&product)[4], float, float& memory, Pass const& pass) {
        float sums[4];
        for (int g = 0; g < 4; ++g) {
            sums[g] = input[g] + product[g] + unit.bias[g];
        }
        if constexpr (has_peephole) {
            sums[0] += unit.peephole[0] * memory;
            sums[2] += unit.peephole[2] * memory;
        }
        float const entry = gate(activations.f, sums[0], unit.clip_threshold, 0, pass);
        float keep;
        if constexpr (couple_input_forget) {
            keep = rest_of(activations.f, use_clip_threshold ? clip(sums[0], unit.clip_threshold) : sums[0], entry);
        } else {
            keep = gate(activations.f, sums[2], unit.clip_threshold, 2, pass);
        }
        float const candidate = gate(activations.g, sums[3], unit.clip_threshold, 3, pass);
        memory = keep * memory + entry * candidate;
        if constexpr (has_peephole) {
            sums[1] += unit.peephole[1] * memory;
        }
        float const exit = gate(activations.f, sums[1], unit.clip_threshold, 1, pass);
        return exit * activations.h(memory);
    }
};
