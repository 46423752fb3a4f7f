// Philox-4x32-10, and the dropout between the layers of a stacked network.
//
// A counter-based generator (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011): a counter of four words and a key of
// two give four random words, without any state. So every element of a mask is computed independently, wherever it is needed, and the
// backward pass recomputes it instead of saving it.
#pragma once

/// The four words of a counter, or the four random words that it generates.
struct Philox {
    unsigned words[4];

    /// Ten rounds under a key.
    __device__ Philox random(unsigned key0, unsigned key1) const {
        unsigned c0 = words[0], c1 = words[1], c2 = words[2], c3 = words[3];
        for (int round = 0; round < 10; ++round) {
            unsigned long long const product0 = static_cast<unsigned long long>(0xD2511F53u) * c0;
            unsigned long long const product2 = static_cast<unsigned long long>(0xCD9E8D57u) * c2;
            c0 = static_cast<unsigned>(product2 >> 32) ^ c1 ^ key0;
            c1 = static_cast<unsigned>(product2);
            c2 = static_cast<unsigned>(product0 >> 32) ^ c3 ^ key1;
            c3 = static_cast<unsigned>(product0);
            key0 += 0x9E3779B9u;
            key1 += 0xBB67AE85u;
        }
        return Philox{{c0, c1, c2, c3}};
    }
};

/// The multipliers of a layer's output before the next layer. Element (t * B + b) * W + unit, for W values of each step and sample,
/// is kept where the first word of Philox for (element, layer, low word of offset, high word of offset) reaches the threshold.
struct Dropout {
    unsigned key[2];     // the low words of the two seeds
    unsigned threshold;  // floor(p * 2^32), of the probability p that an element is dropped
    float scale;         // 1 / (1 - p), the multiplier of a kept element

    __device__ float multiplier(unsigned element, unsigned layer, unsigned long long offset) const {
        Philox const counter{{element, layer, static_cast<unsigned>(offset), static_cast<unsigned>(offset >> 32)}};
        return counter.random(key[0], key[1]).words[0] >= threshold ? scale : 0.0f;
    }
};
