// The pair loss: sum of weight * -log sigma(sign (left_u . right_v + bias)) over pairs, with its gradient, in chunks of
// pairs whose rows stay in the first-level cache: all scores, then all slopes in vector code, then all gradients.
#pragma once

namespace {
using namespace l2g2g;

constexpr int kChunk = 128;

// Pairs in groups of Q: pairs g Q to g Q + Q - 1 have the row rows[g]. A row whose pairs do not fill its last group repeats
// itself there with weight 0. With groups of four nothing branches at the end of a row, and rows are read once for four pairs.
constexpr int kGroup = 4;
template <int Q> struct ChunkOf {
    int32_t rows[kChunk / Q + 16], columns[kChunk + 16];
    float weights[kChunk + 16];
    int count = 0;  // a multiple of Q
};
using Chunk = ChunkOf<kGroup>;

template <int W, int Q> INLINE void score_chunk(const ChunkOf<Q>& chunk, const Tables& t, float* scores) {
    if constexpr (W == 0) {
        for (int pair = 0; pair < chunk.count; ++pair) {
            const float *one = t.left + chunk.rows[pair / Q] * t.width, *two = t.right + chunk.columns[pair] * t.width;
            float sum = 0;
            for (int64_t n = 0; n < t.width; ++n) sum += one[n] * two[n];
            scores[pair] = sum;
        }
    } else {
        constexpr int L = Row<W>::L;
        for (int pair = 0; pair < chunk.count; pair += L) {
            Floats<L> products[L];
            for (int k = 0; k < L; ++k) {
                const float *one = t.left + static_cast<int64_t>(chunk.rows[(pair + k) / Q]) * W, *two = t.right + static_cast<int64_t>(chunk.columns[pair + k]) * W;
                products[k] = load<L>(one) * load<L>(two);
                for (int n = 1; n < Row<W>::N; ++n) products[k] += load<L>(one + n * L) * load<L>(two + n * L);
            }
            store<L>(scores + pair, sum_lanes<L>(products));
        }
    }
}

// sum of slopes[k] table[columns[k]] over the pairs of a group.
template <int W, int Q> INLINE void gather_group(Row<W>& sum, const float* slopes, const int32_t* columns, const float* table, int64_t width) {
    sum.clear(width);
    sum.add_scaled(slopes[0], table + columns[0] * width, width);
    if constexpr (Q == 4) {  // two sums side by side
        Row<W> other;
        other.clear(width);
        other.add_scaled(slopes[1], table + columns[1] * width, width);
        sum.add_scaled(slopes[2], table + columns[2] * width, width);
        other.add_scaled(slopes[3], table + columns[3] * width, width);
        sum.add(other, width);
    }
}

// Scores, losses and slopes of a chunk, and their gradient. Both: to both ends of a pair, otherwise to its row alone, as
// where every pair stands in the list in both directions: what the other direction would add is then counted here.
template <int W, bool Both, bool Two, int Q> INLINE void work_chunk(ChunkOf<Q>& chunk, const Tables& t, Floats<kLanes>& loss, Floats<kLanes>& total) {
    static_assert(Q == 1 || Q == 4);
    alignas(64) float slopes[kChunk + 16];
    const int count = chunk.count;
    if (count == 0) return;
    for (int pair = count; pair < count + 16; ++pair) {  // whole vectors: the rest counts nothing
        chunk.rows[pair / Q] = chunk.rows[count / Q - 1];
        chunk.columns[pair] = chunk.columns[count - 1];
        chunk.weights[pair] = 0;
        slopes[pair] = 0;
    }
    score_chunk<W>(chunk, t, slopes);
    constexpr bool doubled = !Both && !Two;
    for (int pair = 0; pair < count; pair += kLanes) {
        const Floats<kLanes> weight = load<kLanes>(chunk.weights + pair);
        Floats<kLanes> own, slope;
        softplus((load<kLanes>(slopes + pair) + t.bias) * -t.sign, own, slope);
        slope *= weight * -t.sign;
        loss += own * weight;
        total += slope;
        store<kLanes>(slopes + pair, doubled ? slope * 2.0f : slope);
    }
    const int64_t width = W ? W : t.width;
    for (int pair = 0; pair < count; pair += Q) {
        const int64_t row = chunk.rows[pair / Q];
        const int32_t* columns = chunk.columns + pair;
        Row<W> sum;
        gather_group<W, Q>(sum, slopes + pair, columns, t.right, width);
        if constexpr (Both) {
            Row<W> own;
            own.read(t.left + row * width, width);
            for (int k = 0; k < Q; ++k) add_to_row<W>(t.of_right + columns[k] * width, slopes[pair + k], own, width);
        }
        sum.add(t.of_left + row * width, width);
        sum.write(t.of_left + row * width, width);
        if constexpr (Two && !Both) {
            gather_group<W, Q>(sum, slopes + pair, columns, t.left, width);
            sum.add(t.of_right + row * width, width);
            sum.write(t.of_right + row * width, width);
        }
    }
}

INLINE void add_lanes(Sums& sums, Floats<kLanes> loss, Floats<kLanes> total) {
    for (int lane = 0; lane < kLanes; ++lane) {
        sums.loss += static_cast<double>(loss[lane]);
        sums.slope += static_cast<double>(total[lane]);
    }
}

// Fills chunks by `next(chunk)` until one stays empty, the rows of the next chunk fetched while this one is worked on.
template <int W, bool Both, bool Two, bool Fetch, int Q, class Next> INLINE Sums work_chunks(const Tables& t, Next&& next) {
    ChunkOf<Q> chunks[2];
    Sums sums;
    const int64_t width = W ? W : t.width;
    const auto fill = [&](ChunkOf<Q>& chunk) {
        chunk.count = 0;
        next(chunk);
        if constexpr (Fetch)
            for (int pair = 0; pair < chunk.count; ++pair) {
                prefetch_row<W>(t.right + chunk.columns[pair] * width);
                if constexpr (Both) prefetch_row<W>(t.of_right + chunk.columns[pair] * width);
            }
    };
    fill(chunks[0]);
    for (int turn = 0; chunks[turn].count; turn ^= 1) {
        fill(chunks[turn ^ 1]);
        Floats<kLanes> loss{}, total{};
        work_chunk<W, Both, Two>(chunks[turn], t, loss, total);
        add_lanes(sums, loss, total);
    }
    return sums;
}

// The entries from `first` on, at most 16 and none from `last` on, as pairs of a row; returns how many groups' pairs they fill.
INLINE int take_arcs(Chunk& chunk, int count, const ArcArguments& a, int64_t row, int64_t first, int64_t last) {
    const int taken = static_cast<int>(last - first < 16 ? last - first : 16);
    const int32_t own = static_cast<int32_t>(row);
    for (int group = 0; group < 16 / kGroup; ++group) chunk.rows[count / kGroup + group] = own;
#ifdef __AVX512F__
    const __mmask16 valid = static_cast<__mmask16>((1u << taken) - 1);
    _mm512_storeu_si512(chunk.columns + count, _mm512_mask_loadu_epi32(_mm512_set1_epi32(own), valid, a.arcs.indices + first));
    const __m512 weights = a.weights.kind == Weights::kByPair ? _mm512_maskz_loadu_ps(valid, a.weights.values + first) : _mm512_maskz_mov_ps(valid, _mm512_set1_ps(a.weights.at(row, 0)));
    _mm512_storeu_ps(chunk.weights + count, weights);
#else
    for (int k = 0; k < taken; ++k) {
        chunk.columns[count + k] = a.arcs.indices[first + k];
        chunk.weights[count + k] = a.weights.at(row, first + k);
    }
    for (int k = taken; k % kGroup; ++k) {
        chunk.columns[count + k] = own;
        chunk.weights[count + k] = 0;
    }
#endif
    return (taken + kGroup - 1) / kGroup * kGroup;
}

// Arcs of a symmetric pattern under a symmetric score: the gradient of a row is gathered from its own arcs.
template <int W, bool Two, bool Fetch> INLINE Sums arcs_range(const ArcArguments& a, int64_t low, int64_t high) {
    const Tables& t = a.tables;
    std::memset(t.of_left + low * t.width, 0, sizeof(float) * static_cast<size_t>((high - low) * t.width));
    if (Two) std::memset(t.of_right + low * t.width, 0, sizeof(float) * static_cast<size_t>((high - low) * t.width));
    int64_t row = low, entry = low < high ? a.arcs.starts[low] : 0;
    return work_chunks<W, false, Two, Fetch, kGroup>(t, [&](Chunk& chunk) {
        int count = 0;
        while (row < high && count + 16 <= kChunk) {
            const int64_t last = a.arcs.ends[row];
            count += take_arcs(chunk, count, a, row, entry, last);
            entry += 16;
            if (entry >= last && ++row < high) entry = a.arcs.starts[row];
        }
        chunk.count = count;
    });
}

void score_arcs(const ArcArguments& a) {
    l2g2g::parallel_for(a.num_items, [&](int64_t item, int) {
        const int64_t low = item_start(a.arcs, item, a.num_items), high = item_start(a.arcs, item + 1, a.num_items);
        a.sums[item] = with_width(a.tables.width, [&](auto w) {
            constexpr int W = decltype(w)::value;
            if (a.tables.left != a.tables.right) return arcs_range<W, true, true>(a, low, high);
            return a.arcs.num_rows * a.tables.width > kNear ? arcs_range<W, false, true>(a, low, high) : arcs_range<W, false, false>(a, low, high);
        });
    });
}

// Any list of pairs: the gradient goes to both ends, in tables of every part's own.
void score_list(const ListArguments& a) {
    l2g2g::parallel_for(a.num_parts, [&](int64_t part, int) {
        int64_t pair = a.num_pairs * part / a.num_parts;
        const int64_t end = a.num_pairs * (part + 1) / a.num_parts;
        Tables t = a.tables;
        t.of_left += part * a.num_rows[0] * t.width;
        t.of_right += part * a.num_rows[1] * t.width;
        a.sums[part] = with_width(t.width, [&](auto w) {
            return work_chunks<decltype(w)::value, true, true, true, 1>(t, [&](ChunkOf<1>& chunk) {
                chunk.count = static_cast<int>(end - pair < kChunk ? end - pair : kChunk);
                for (int k = 0; k < chunk.count; ++k, ++pair) {
                    chunk.rows[k] = a.rows[pair];
                    chunk.columns[k] = a.columns[pair];
                    chunk.weights[k] = a.weights.at(a.rows[pair], pair);
                }
            });
        });
    });
}

void multiply_ends(const EndsArguments& a) {
    const int64_t items = l2g2g::num_threads() == 1 || a.num_pairs * a.width < 200000 ? 1 : 2 * l2g2g::num_threads();
    l2g2g::parallel_for(items, [&](int64_t item, int) {
        for (int64_t pair = a.num_pairs * item / items; pair < a.num_pairs * (item + 1) / items; ++pair) {
            const float *one = a.table + a.rows[pair] * a.width, *two = a.table + a.columns[pair] * a.width;
            float* out = a.products + pair * a.width;
            for (int64_t n = 0; n < a.width; ++n) out[n] = one[n] * two[n];
        }
    });
}
// Threads share out the columns, so that every sum has one order.
void spread_to_ends(const EndsArguments& a) {
    const int64_t parts = a.width < 32 || a.num_pairs < 1000 ? 1 : l2g2g::num_threads();
    l2g2g::parallel_for(parts, [&](int64_t part, int) {
        const int64_t low = a.width * part / parts, high = a.width * (part + 1) / parts;
        for (int64_t pair = 0; pair < a.num_pairs; ++pair) {
            const float *one = a.table + a.rows[pair] * a.width, *two = a.table + a.columns[pair] * a.width;
            float *of_one = a.of_table + a.rows[pair] * a.width, *of_two = a.of_table + a.columns[pair] * a.width;
            const float* slope = a.products + pair * a.width;
            for (int64_t n = low; n < high; ++n) {
                of_one[n] += slope[n] * two[n];
                of_two[n] += slope[n] * one[n];
            }
        }
    });
}

}  // namespace
