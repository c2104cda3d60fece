// Masks: whether an edge is hidden in an epoch depends on a key and its two nodes alone, so it is the same in both directions
// and in every patch.
#pragma once

namespace {
using namespace l2g2g;

#ifdef __AVX512F__
// The same without weights and groups, sixteen entries at a time: compressed in registers, written with masks.
INLINE void split_vectors(const MaskArguments& a, int64_t low, int64_t high, uint32_t own, uint32_t flip, int64_t& left, int64_t& right) {
    typedef uint32_t Words __attribute__((vector_size(64)));
    const __m512i nothing = _mm512_setzero_si512();
    const auto most = [](uint64_t below) { return _mm512_set1_epi32(static_cast<int>(below >> 32 ? 0xffffffffu : static_cast<uint32_t>(below))); };
    const __m512i hidden_below = most(a.hidden_below), scored_below = most(a.scored_below);
    const bool hides_all = a.hidden_below >> 32, scores_all = a.scored_below >> 32;
    for (int64_t entry = low; entry < high; entry += 16) {
        const int64_t count = high - entry < 16 ? high - entry : 16;
        const __mmask16 valid = static_cast<__mmask16>((1u << count) - 1);
        const __m512i columns = _mm512_maskz_loadu_epi32(valid, a.indices + entry);
        Words hashes = (Words)_mm512_mask_i32gather_epi32(nothing, valid, columns, a.node_hashes, 4);
        hashes = (hashes + own) ^ flip;  // mix() of hashing.hpp
        hashes = (hashes ^ (hashes >> 16)) * 0x7feb352du;
        hashes = (hashes ^ (hashes >> 15)) * 0x846ca68bu;
        const __m512i word = (__m512i)(hashes ^ (hashes >> 16));
        const __mmask16 hidden = hides_all ? valid : _mm512_mask_cmplt_epu32_mask(valid, word, hidden_below);
        const __mmask16 scored = scores_all ? valid : _mm512_mask_cmplt_epu32_mask(valid, word, scored_below);
        const __mmask16 visible = static_cast<__mmask16>(valid & ~hidden);
        const int num_visible = __builtin_popcount(visible), num_scored = __builtin_popcount(scored);
        _mm512_mask_storeu_epi32(a.out_indices + left, static_cast<__mmask16>((1u << num_visible) - 1), _mm512_maskz_compress_epi32(visible, columns));
        right -= num_scored;
        _mm512_mask_storeu_epi32(a.out_indices + right + 1, static_cast<__mmask16>((1u << num_scored) - 1), _mm512_maskz_compress_epi32(scored, columns));
        left += num_visible;
    }
}
#endif

void split_masked(const MaskArguments& a) {
    const Csr rows{a.indptr, a.indptr + 1, a.indices, nullptr, a.num_rows, a.num_entries, false};
    const int64_t items = count_items(rows, 8);
    l2g2g::parallel_for(items, [&](int64_t item, int) {
        uint32_t words[kBuffer];
        const int64_t end = item_start(rows, item + 1, items);
        for (int64_t row = item_start(rows, item, items); row < end; ++row) {
            const int64_t first = a.indptr[row], last = a.indptr[row + 1];
            const uint32_t own = a.node_hashes[a.first_row + row], flip = static_cast<uint32_t>(a.key >> 32);
            int64_t left = first, right = last - 1;
            float weight = 1.0f;
            for (int64_t low = first; low < last; low += kBuffer) {
                const int64_t high = low + kBuffer < last ? low + kBuffer : last;
#ifdef __AVX512F__
                if (!a.values && !a.groups) {
                    split_vectors(a, low, high, own, flip, left, right);
                    continue;
                }
#endif
                for (int64_t entry = low; entry < high; ++entry) words[entry - low] = mix((own + a.node_hashes[a.indices[entry]]) ^ flip);
                for (int64_t entry = low; entry < high; ++entry) {  // written always, counted only if it belongs there
                    const int32_t column = a.indices[entry];
                    const uint32_t word = words[entry - low];
                    const bool between = !a.groups || a.groups[a.first_row + row] != a.groups[column];
                    const bool hidden = word < a.hidden_below && between, scored = word < a.scored_below && between;
                    a.out_indices[left] = column;
                    a.out_indices[right] = column;
                    if (a.values) {
                        a.out_values[left] = a.values[entry];
                        a.out_values[right] = a.values[entry];
                        weight += hidden ? 0.0f : a.values[entry];
                    }
                    left += !hidden;
                    right -= scored;
                }
            }
            a.visible_ends[row] = left;
            a.scored_starts[row] = right + 1;
            if (!a.values) weight += static_cast<float>(left - first);
            if (a.scale) a.scale[row] = 1.0f / __builtin_sqrtf(weight);
        }
    });
}

// Places of the columns of a row whose pair with the row's node has a hash below a bound, in order; returns how many.
// places: room for 16 more than there are columns.
int64_t select_below(const int32_t* columns, int64_t count, uint32_t own, const uint32_t* node_hashes, uint64_t key, uint64_t bound, int32_t* places) {
    const uint32_t flip = static_cast<uint32_t>(key >> 32);
    int64_t found = 0;
#ifdef __AVX512F__
    typedef uint32_t Words __attribute__((vector_size(64)));
    const __m512i nothing = _mm512_setzero_si512(), below = _mm512_set1_epi32(static_cast<int>(static_cast<uint32_t>(bound)));
    __m512i numbers = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    for (int64_t low = 0; low < count; low += 16) {
        const __mmask16 valid = static_cast<__mmask16>(count - low < 16 ? (1u << (count - low)) - 1 : 0xffffu);
        const __m512i here = _mm512_maskz_loadu_epi32(valid, columns + low);
        Words hashes = (Words)_mm512_mask_i32gather_epi32(nothing, valid, here, node_hashes, 4);
        hashes = (hashes + own) ^ flip;  // mix() of hashing.hpp
        hashes = (hashes ^ (hashes >> 16)) * 0x7feb352du;
        hashes = (hashes ^ (hashes >> 15)) * 0x846ca68bu;
        const __m512i word = (__m512i)(hashes ^ (hashes >> 16));
        const __mmask16 chosen = bound >> 32 ? valid : _mm512_mask_cmplt_epu32_mask(valid, word, below);
        _mm512_storeu_si512(places + found, _mm512_maskz_compress_epi32(chosen, numbers));
        found += __builtin_popcount(chosen);
        numbers = _mm512_add_epi32(numbers, _mm512_set1_epi32(16));
    }
#else
    uint32_t words[kBuffer];
    for (int64_t low = 0; low < count; low += kBuffer) {
        const int64_t high = low + kBuffer < count ? low + kBuffer : count;
        for (int64_t place = low; place < high; ++place) words[place - low] = mix((own + node_hashes[columns[place]]) ^ flip);
        for (int64_t place = low; place < high; ++place) {  // written always, counted only if it belongs there
            places[found] = static_cast<int32_t>(place);
            found += words[place - low] < bound;
        }
    }
#endif
    return found;
}

// hashes[i] = hash of nodes[i] under a key.
void hash_nodes(const int32_t* nodes, int64_t count, uint64_t key, uint32_t* hashes) {
    for (int64_t place = 0; place < count; ++place) hashes[place] = hash_node(key, static_cast<uint32_t>(nodes[place]));
}

// words[i] = hash of the pair (one[i], other[i]) of nodes under a key.
void hash_pairs(const int32_t* one, const int32_t* other, int64_t count, uint64_t key, uint32_t* words) {
    for (int64_t place = 0; place < count; ++place)
        words[place] = hash_pair(key, hash_node(key, static_cast<uint32_t>(one[place])), hash_node(key, static_cast<uint32_t>(other[place])));
}

void drop_dense(const DropArguments& a) {
    const int64_t items = l2g2g::num_threads() == 1 || a.num_rows * a.width < 100000 ? 1 : 4 * l2g2g::num_threads();
    l2g2g::parallel_for(items, [&](int64_t item, int) {
        for (int64_t row = a.num_rows * item / items; row < a.num_rows * (item + 1) / items; ++row) {
            const float* __restrict from = a.values + row * a.width;
            float* __restrict to = a.out + row * a.width;
            const uint32_t node = a.node_hashes[row], flip = static_cast<uint32_t>(a.key >> 32);
            const uint32_t threshold = static_cast<uint32_t>(a.threshold);
            const float factor = a.factor;
            const uint32_t width = static_cast<uint32_t>(a.width);
            // A 32-bit counter and no load that depends on the hash: otherwise it is not vectorised, and ten times slower.
            for (uint32_t column = 0; column < width; ++column) {
                const float value = from[column] * factor;
                to[column] = mix((node + column * kSpread) ^ flip) >= threshold ? value : 0.0f;
            }
        }
    });
}

}  // namespace
