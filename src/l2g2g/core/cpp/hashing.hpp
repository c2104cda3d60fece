// Random numbers by counter, 32 bits at a time: a draw is a function of a stream's key and of node numbers, nothing else.
// The same formulas stand in core/reference.py and give the same bits.
#pragma once
#include <cstdint>

namespace {

// A bijection of 32-bit words in which every input bit reaches every output bit.
INLINE uint32_t mix(uint32_t word) {
    word ^= word >> 16;
    word *= 0x7feb352du;
    word ^= word >> 15;
    word *= 0x846ca68bu;
    return word ^ (word >> 16);
}

constexpr uint32_t kSpread = 0x9e3779b1u;  // odd: numbers 0, 1, 2, ... become far apart

// The hash of a node, of two nodes (in either order), and of a node and a number (a column, a draw).
INLINE uint32_t hash_node(uint64_t key, uint32_t node) { return mix(node + static_cast<uint32_t>(key)); }
INLINE uint32_t hash_pair(uint64_t key, uint32_t one, uint32_t other) { return mix((one + other) ^ static_cast<uint32_t>(key >> 32)); }
INLINE uint32_t hash_number(uint64_t key, uint32_t node_hash, uint32_t number) {
    return hash_pair(key, node_hash, number * kSpread);
}
// A number in [0, bound).
INLINE uint32_t scale_to(uint32_t word, uint32_t bound) { return static_cast<uint32_t>((static_cast<uint64_t>(word) * bound) >> 32); }

}  // namespace
