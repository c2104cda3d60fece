// The pair loss: sum of weight * -log sigma(sign (left_u . right_v + bias)) over pairs, with its gradient, in chunks of
// pairs whose rows stay in the first-level cache: all scores, then all slopes in vector code, then all gradients.
#pragma once

namespace {
using namespace l2g2g;

constexpr int kChunk = 128;

struct Chunk {
    int32_t rows[kChunk + 16], columns[kChunk + 16];  // pairs of one row lie together
    float weights[kChunk + 16];
    int count = 0;
};

template <int W> INLINE void score_chunk(const Chunk& chunk, const Tables& t, float* scores) {
    if constexpr (W == 0) {
        for (int pair = 0; pair < chunk.count; ++pair) {
            const float *one = t.left + chunk.rows[pair] * t.width, *two = t.right + chunk.columns[pair] * t.width;
            float sum = 0;
            for (int64_t n = 0; n < t.width; ++n) sum += one[n] * two[n];
            scores[pair] = sum;
        }
    } else {
        constexpr int L = Row<W>::L;
        for (int pair = 0; pair < chunk.count; pair += L) {
            Floats<L> products[L];
            for (int k = 0; k < L; ++k) {
                const float *one = t.left + static_cast<int64_t>(chunk.rows[pair + k]) * W, *two = t.right + static_cast<int64_t>(chunk.columns[pair + k]) * W;
                products[k] = load<L>(one) * load<L>(two);
                for (int n = 1; n < Row<W>::N; ++n) products[k] += load<L>(one + n * L) * load<L>(two + n * L);
            }
            store<L>(scores + pair, sum_lanes<L>(products));
        }
    }
}

// Scores, losses and slopes of a chunk, and their gradient. Both: to both ends of a pair, otherwise to its row alone, as
// where every pair stands in the list in both directions: `doubled` then counts what the other direction would add.
template <int W, bool Both, bool Two> INLINE void work_chunk(Chunk& chunk, const Tables& t, Floats<kLanes>& loss, Floats<kLanes>& total) {
    alignas(64) float slopes[kChunk + 16];
    const int count = chunk.count;
    if (count == 0) return;
    for (int pair = count; pair < count + 16; ++pair) {  // whole vectors: the rest counts nothing
        chunk.rows[pair] = chunk.rows[count - 1];
        chunk.columns[pair] = chunk.columns[count - 1];
        chunk.weights[pair] = 0;
        slopes[pair] = 0;
    }
    score_chunk<W>(chunk, t, slopes);
    for (int pair = 0; pair < count; pair += kLanes) {
        const Floats<kLanes> weight = load<kLanes>(chunk.weights + pair);
        Floats<kLanes> own, slope;
        softplus((load<kLanes>(slopes + pair) + t.bias) * -t.sign, own, slope);
        slope *= weight * -t.sign;
        loss += own * weight;
        total += slope;
        store<kLanes>(slopes + pair, slope);
    }
    const int64_t width = W ? W : t.width;
    for (int pair = 0; pair < count;) {
        const int64_t row = chunk.rows[pair];
        Row<W> own, of_own, of_other;
        if constexpr (Both || Two) own.read(t.left + row * width, width);
        of_own.clear(width);
        if constexpr (Two && !Both) of_other.clear(width);
        for (; pair < count && chunk.rows[pair] == row; ++pair) {
            const int64_t column = chunk.columns[pair];
            of_own.add_scaled(slopes[pair], t.right + column * width, width);
            if constexpr (Both) add_to_row<W>(t.of_right + column * width, slopes[pair], own, width);
            if constexpr (Two && !Both) of_other.add_scaled(slopes[pair], t.left + column * width, width);
        }
        if constexpr (!Both && !Two) of_own.scale(2.0f, width);
        of_own.add(t.of_left + row * width, width);
        of_own.write(t.of_left + row * width, width);
        if constexpr (Two && !Both) {
            of_other.add(t.of_right + row * width, width);
            of_other.write(t.of_right + row * width, width);
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
template <int W, bool Both, bool Two, bool Fetch, class Next> INLINE Sums work_chunks(const Tables& t, Next&& next) {
    Chunk chunks[2];
    Sums sums;
    const int64_t width = W ? W : t.width;
    const auto fill = [&](Chunk& chunk) {
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

// Arcs of a symmetric pattern under a symmetric score: the gradient of a row is gathered from its own arcs.
template <int W, bool Two> INLINE Sums arcs_range(const ArcArguments& a, int64_t low, int64_t high) {
    const Tables& t = a.tables;
    std::memset(t.of_left + low * t.width, 0, sizeof(float) * static_cast<size_t>((high - low) * t.width));
    if (Two) std::memset(t.of_right + low * t.width, 0, sizeof(float) * static_cast<size_t>((high - low) * t.width));
    int64_t row = low, entry = low < high ? a.arcs.starts[low] : 0;
    return work_chunks<W, false, Two, true>(t, [&](Chunk& chunk) {
        int count = 0;
        while (row < high) {
            const int64_t left = a.arcs.ends[row] - entry;
            const int64_t taken = left < kChunk - count ? left : kChunk - count;
            for (int64_t k = 0; k < taken; ++k) {
                chunk.rows[count + k] = static_cast<int32_t>(row);
                chunk.columns[count + k] = a.arcs.indices[entry + k];
            }
            if (a.weights.kind == Weights::kByPair)
                std::memcpy(chunk.weights + count, a.weights.values + entry, sizeof(float) * static_cast<size_t>(taken));
            else {
                const float weight = a.weights.at(row, 0);
                for (int64_t k = 0; k < taken; ++k) chunk.weights[count + k] = weight;
            }
            count += static_cast<int>(taken);
            entry += taken;
            if (taken < left) break;
            if (++row < high) entry = a.arcs.starts[row];
        }
        chunk.count = count;
    });
}

void score_arcs(const ArcArguments& a) {
    l2g2g::parallel_for(a.num_items, [&](int64_t item, int) {
        const int64_t low = item_start(a.arcs, item, a.num_items), high = item_start(a.arcs, item + 1, a.num_items);
        a.sums[item] = with_width(a.tables.width, [&](auto w) {
            constexpr int W = decltype(w)::value;
            return a.tables.left == a.tables.right ? arcs_range<W, false>(a, low, high) : arcs_range<W, true>(a, low, high);
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
            return work_chunks<decltype(w)::value, true, true, true>(t, [&](Chunk& chunk) {
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
