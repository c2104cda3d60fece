// Masks: whether an edge is hidden in an epoch depends on a key and its two nodes alone, so it is the same in both directions
// and in every patch.
#pragma once

namespace {
using namespace l2g2g;

void split_masked(const MaskArguments& a) {
    const Csr rows{a.indptr, a.indptr + 1, a.indices, nullptr, a.num_rows, a.num_entries};
    const int64_t items = count_items(rows, 8);
    l2g2g::parallel_for(items, [&](int64_t item, int) {
        uint32_t words[kBuffer];
        const int64_t end = item_start(rows, item + 1, items);
        for (int64_t row = item_start(rows, item, items); row < end; ++row) {
            const int64_t first = a.indptr[row], last = a.indptr[row + 1];
            const uint32_t own = a.node_hashes[row], flip = static_cast<uint32_t>(a.key >> 32);
            int64_t left = first, right = last - 1;
            float weight = 1.0f;
            for (int64_t low = first; low < last; low += kBuffer) {
                const int64_t high = low + kBuffer < last ? low + kBuffer : last;
                for (int64_t entry = low; entry < high; ++entry) words[entry - low] = mix((own + a.node_hashes[a.indices[entry]]) ^ flip);
                for (int64_t entry = low; entry < high; ++entry) {  // written always, counted only if it belongs there
                    const int32_t column = a.indices[entry];
                    const uint32_t word = words[entry - low];
                    const bool between = !a.groups || a.groups[row] != a.groups[column];
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
            const float* from = a.values + row * a.width;
            float* to = a.out + row * a.width;
            const uint32_t node = a.node_hashes[row], flip = static_cast<uint32_t>(a.key >> 32);
            const uint32_t threshold = static_cast<uint32_t>(a.threshold);
            for (int64_t column = 0; column < a.width; ++column)
                to[column] = mix((node + static_cast<uint32_t>(column) * kSpread) ^ flip) >= threshold ? from[column] * a.factor : 0.0f;
        }
    });
}

}  // namespace
