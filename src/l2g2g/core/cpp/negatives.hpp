// Negatives in tiles. The rows of every patch lie in a fixed random order, cut into tiles of up to 16. In a round tile I meets tile
// (r - I) mod B: every tile is in one meeting, so meetings run in parallel, and the rows of a tile draw the same columns of the
// tile they meet, so every vector that is read serves as many pairs. Over all r and all first columns every other node is as likely
// as any; excluded pairs count nothing.
#pragma once

namespace {
using namespace l2g2g;

static_assert(kTile % kLanes == 0);

// The tile that a tile meets in a round.
INLINE int64_t partner(const Round& round, int64_t tile) {
    const int64_t other = round.meeting - tile;
    return other < 0 ? other + round.num_tiles : other;
}

// The tile with the lower number of the k-th meeting: tiles up to r / 2 meet lower half against upper half of [0, r], the
// others those of [r + 1, B).
INLINE int64_t meeting_tile(const Round& round, int64_t k) {
    const int64_t low = round.meeting / 2 + 1;
    return k < low ? k : round.meeting + 1 + (k - low);
}

// Where the excluded pairs of tile `one` with columns of tile `other` begin, or would. Tiles are random subsets of the nodes, so
// the place is guessed and counted in a few keys around it; where that fails, a binary search finds it.
INLINE int64_t guess_excluded(const Excluded& excluded, const Round& round, int64_t one, int64_t other) {
    const int64_t first = excluded.starts[round.first_tile + one], last = excluded.starts[round.first_tile + one + 1];
    const int64_t place = static_cast<int64_t>(static_cast<float>(last - first) * (static_cast<float>(other) * round.share));
    return first + (place < last - first ? place : last - first);
}
INLINE int64_t find_excluded(const Excluded& excluded, const Round& round, int64_t one, int64_t other) {
    constexpr int64_t kAround = 24;
    const int64_t first = excluded.starts[round.first_tile + one], last = excluded.starts[round.first_tile + one + 1];
    const int64_t place = guess_excluded(excluded, round, one, other);
    const uint32_t low = static_cast<uint32_t>(other * kTile * kTile), *keys = excluded.keys;
    int64_t from = place - kAround < first ? first : place - kAround, to = place + kAround > last ? last : place + kAround;
    if ((from == first || keys[from - 1] < low) && (to == last || keys[to] >= low)) {
        int64_t below = 0;
        for (int64_t each = from; each < to; ++each) below += keys[each] < low;
        return from + below;
    }
    for (from = first, to = last; from < to;) {
        const int64_t middle = (from + to) / 2;
        if (keys[middle] < low)
            from = middle + 1;
        else
            to = middle;
    }
    return from;
}

// The draws of the rows of tile `one` among the columns of tile `other`.
struct TileDraws {
    int64_t size;                       // rows of a tile
    int64_t first_row, num_rows;        // of the tile, in packed order; the last one of a patch may have fewer
    int64_t first_column, num_columns;  // of the tile it meets
    int32_t start, count;               // the columns drawn: start, start + 1, ... modulo size; some may lie beyond num_columns
    uint16_t allowed[kTile];            // by column: bit l: the pair of row l and this column counts

    MEMBER TileDraws(const Round& round, const Excluded& excluded, const uint8_t* wanted, int64_t one, int64_t other) {
        size = round.tile_size;
        first_row = round.first_row + one * size;
        num_rows = smaller(size, round.num_rows - one * size);
        first_column = round.first_row + other * size;
        num_columns = smaller(size, round.num_rows - other * size);
        count = static_cast<int32_t>(((one + 1) * round.num_columns + round.shift) / round.num_tiles - (one * round.num_columns + round.shift) / round.num_tiles);
        start = static_cast<int32_t>(scale_to(hash_number(round.key, 0, static_cast<uint32_t>(one)), static_cast<uint32_t>(size)));
        uint16_t lanes = static_cast<uint16_t>((1u << num_rows) - 1);
        if (wanted)
            for (int64_t lane = 0; lane < num_rows; ++lane)
                if (!wanted[first_row + lane]) lanes &= static_cast<uint16_t>(~(1u << lane));
        for (int64_t column = 0; column < kTile; ++column) allowed[column] = lanes;
        if (one == other)
            for (int64_t column = 0; column < kTile; ++column) allowed[column] &= static_cast<uint16_t>(~(1u << column));
        exclude(excluded, round, one, other);
    }
    static MEMBER int64_t smaller(int64_t one, int64_t two) { return one < two ? one : two; }

    MEMBER void exclude(const Excluded& excluded, const Round& round, int64_t one, int64_t other) {
        const uint32_t low = static_cast<uint32_t>(other * kTile * kTile), *keys = excluded.keys;
        const int64_t end = excluded.starts[round.first_tile + one + 1];
        for (int64_t place = find_excluded(excluded, round, one, other); place < end && keys[place] - low < kTile * kTile; ++place) {
            const uint32_t pair = keys[place] - low;
            allowed[pair / kTile] &= static_cast<uint16_t>(~(1u << pair % kTile));
        }
    }
    MEMBER int64_t column(int32_t draw) const { return start + draw < size ? start + draw : start + draw - size; }
};

// L rows of L floats, turned.
template <int L, int Stride, int... Lane> INLINE void swap_halves(Floats<L>& one, Floats<L>& two, std::integer_sequence<int, Lane...>) {
    const Floats<L> first = __builtin_shufflevector(one, two, (Lane & Stride ? L + Lane - Stride : Lane)...);
    two = __builtin_shufflevector(one, two, (Lane & Stride ? L + Lane : Lane + Stride)...);
    one = first;
}
template <int L, int Stride> INLINE void swap_all(Floats<L>* rows) {
    for (int n = 0; n < L; ++n)
        if (!(n & Stride)) swap_halves<L, Stride>(rows[n], rows[n + Stride], std::make_integer_sequence<int, L>{});
}
template <int L> INLINE void turn(Floats<L>* rows) {
    swap_all<L, 1>(rows);
    if constexpr (L >= 4) swap_all<L, 2>(rows);
    if constexpr (L >= 8) swap_all<L, 4>(rows);
    if constexpr (L >= 16) swap_all<L, 8>(rows);
}

// The weights of the pairs of one column with kLanes rows from `lane` on.
INLINE Floats<kLanes> lane_weights(uint16_t allowed, int lane, float weight) {
    Ints<kLanes> bits;
    for (int n = 0; n < kLanes; ++n) bits[n] = 1 << (lane + n);
    return (bits & static_cast<int32_t>(allowed)) != 0 ? all<kLanes>(weight) : Floats<kLanes>{};
}

// Scores of all pairs of a tile, their losses and slopes, and their gradient to both ends.
template <int W> struct TileWork {
    static constexpr int L = Row<W>::L, kAtOnce = kLanes == 16 ? 16 : kLanes;
    const Tables& t;
    const TileDraws& draws;
    float weight;
    alignas(64) float slopes[kTile][kTile];  // by draw, by row
    int64_t places[kTile], columns[kTile];   // where rows and columns begin; beyond the last one: the first

    MEMBER TileWork(const Tables& tables, const int32_t* order, const TileDraws& d, float w) : t(tables), draws(d), weight(w) {
        for (int64_t lane = 0; lane < kTile; ++lane) {
            const int64_t row = d.first_row + (lane < d.num_rows ? lane : 0), column = d.first_column + (lane < d.num_columns ? lane : 0);
            places[lane] = (order ? order[row] : row) * W;
            columns[lane] = (order ? order[column] : column) * W;
        }
    }
    MEMBER void run(Floats<kLanes>& loss, Floats<kLanes>& total) {
        score(loss, total);
        for (int part = 0; part < W; part += L)
            for (int first = 0; first < kTile; first += kAtOnce) spread(part, first);
    }

    MEMBER void score(Floats<kLanes>& loss, Floats<kLanes>& total) {
        alignas(64) float turned[W][kTile];
        for (int lane = 0; lane < kTile; lane += L)
            for (int part = 0; part < W; part += L) {
                Floats<L> block[L];
                for (int n = 0; n < L; ++n) block[n] = load<L>(t.left + places[lane + n] + part);
                turn<L>(block);
                for (int n = 0; n < L; ++n) store<L>(turned[part + n] + lane, block[n]);
            }
        for (int32_t draw = 0; draw < draws.count; ++draw) {
            const int64_t column = draws.column(draw);
            const float* other = t.right + columns[column];
            const uint16_t allowed = column < draws.num_columns ? draws.allowed[column] : uint16_t{0};
            for (int lane = 0; lane < kTile; lane += kLanes) {
                Floats<kLanes> sums[4] = {};  // four side by side: no addition waits for the one before
                for (int n = 0; n < W; ++n) sums[n % 4] += other[n] * load<kLanes>(turned[n] + lane);
                const Floats<kLanes> weights = lane_weights(allowed, lane, weight);
                Floats<kLanes> own, slope;
                softplus(((sums[0] + sums[1]) + (sums[2] + sums[3]) + t.bias) * -t.sign, own, slope);
                slope *= weights * -t.sign;
                loss += own * weights;
                total += slope;
                store<kLanes>(slopes[draw] + lane, slope);
            }
        }
    }
    // The gradient of L columns from `part` on, of kAtOnce rows and of all drawn columns.
    MEMBER void spread(int part, int first) const {
        Floats<L> own[kAtOnce] = {};
        for (int32_t draw = 0; draw < draws.count; ++draw) {
            const int64_t column = draws.column(draw);
            if (column >= draws.num_columns) continue;
            const int64_t place = columns[column] + part;
            const Floats<L> other = load<L>(t.right + place);
            Floats<L> sums[2] = {};
            for (int n = 0; n < kAtOnce; ++n) {
                const float slope = slopes[draw][first + n];
                own[n] += slope * other;
                sums[n % 2] += slope * load<L>(t.left + places[first + n] + part);
            }
            store<L>(t.of_right + place, load<L>(t.of_right + place) + (sums[0] + sums[1]));
        }
        for (int n = 0; n < kAtOnce; ++n) {
            if (first + n >= draws.num_rows) break;
            float* to = t.of_left + places[first + n] + part;
            store<L>(to, load<L>(to) + own[n]);
        }
    }
};

// Rows of any width, pair by pair.
template <> struct TileWork<0> {
    const Tables& t;
    const int32_t* order;
    const TileDraws& draws;
    float weight;

    MEMBER TileWork(const Tables& tables, const int32_t* o, const TileDraws& d, float w) : t(tables), order(o), draws(d), weight(w) {}
    MEMBER int64_t place(int64_t packed) const { return (order ? order[packed] : packed) * t.width; }
    MEMBER void run(Floats<kLanes>& loss, Floats<kLanes>& total) {
        for (int32_t draw = 0; draw < draws.count; ++draw) {
            const int64_t column = draws.column(draw);
            if (column >= draws.num_columns) continue;
            const int64_t other = place(draws.first_column + column);
            for (int64_t lane = 0; lane < draws.num_rows; lane += kLanes) {
                Floats<kLanes> scores{}, own, slope;
                for (int64_t n = 0; n < kLanes && lane + n < draws.num_rows; ++n) {
                    const float* row = t.left + place(draws.first_row + lane + n);
                    float sum = 0;
                    for (int64_t k = 0; k < t.width; ++k) sum += row[k] * t.right[other + k];
                    scores[static_cast<int>(n)] = sum;
                }
                const Floats<kLanes> weights = lane_weights(draws.allowed[column], static_cast<int>(lane), weight);
                softplus((scores + t.bias) * -t.sign, own, slope);
                slope *= weights * -t.sign;
                loss += own * weights;
                total += slope;
                for (int64_t n = 0; n < kLanes && lane + n < draws.num_rows; ++n) {
                    const float factor = slope[static_cast<int>(n)];
                    if (factor == 0) continue;
                    const int64_t row = place(draws.first_row + lane + n);
                    for (int64_t k = 0; k < t.width; ++k) {
                        t.of_left[row + k] += factor * t.right[other + k];
                        t.of_right[other + k] += factor * t.left[row + k];
                    }
                }
            }
        }
    }
};

// Fetches the rows of a tile that are not next to each other.
template <int W> INLINE void fetch_tile(const NegativeArguments& a, const Round& round, int64_t tile) {
    const int64_t first = tile * round.tile_size, last = first + round.tile_size < round.num_rows ? first + round.tile_size : round.num_rows;
    for (int64_t row = first; row < last; ++row) {
        const int64_t place = a.order[round.first_row + row] * (W ? W : a.tables.width);
        prefetch_row<W>(a.tables.left + place);
        prefetch_row<W>(a.tables.of_left + place);
    }
}

template <int W> INLINE Sums meet(const NegativeArguments& a, const Round& round, int64_t low, int64_t high) {
    Sums sums;
    for (int64_t k = low; k < high; ++k) {
        const int64_t one = meeting_tile(round, k), other = partner(round, one);
        if (a.order && k + 1 < high) {
            const int64_t next = meeting_tile(round, k + 1);
            fetch_tile<W>(a, round, next);
            fetch_tile<W>(a, round, partner(round, next));
        }
        if (k + 2 < high) {
            const int64_t next = meeting_tile(round, k + 2), with = partner(round, next);
            __builtin_prefetch(a.excluded.keys + guess_excluded(a.excluded, round, next, with));
            __builtin_prefetch(a.excluded.keys + guess_excluded(a.excluded, round, with, next));
        }
        Floats<kLanes> loss{}, total{};
        for (int side = 0; side < (one == other ? 1 : 2); ++side) {
            const TileDraws draws(round, a.excluded, a.wanted, side ? other : one, side ? one : other);
            if (draws.count) TileWork<W>(a.tables, a.order, draws, round.weight).run(loss, total);
        }
        add_lanes(sums, loss, total);
    }
    return sums;
}

void score_negatives(const NegativeArguments& a) {
    l2g2g::parallel_for(a.first_task[a.num_rounds], [&](int64_t task, int) {
        int64_t number = 0;
        while (a.first_task[number + 1] <= task) ++number;
        const Round& round = a.rounds[number];
        const int64_t low = (task - a.first_task[number]) * kMeetings, high = low + kMeetings;
        a.sums[task] = with_width(a.tables.width, [&](auto w) { return meet<decltype(w)::value>(a, round, low, high < round.num_meetings ? high : round.num_meetings); });
    });
}

int64_t list_negatives(const ListDrawArguments& a) {
    int64_t written = 0;
    const Round& round = a.round;
    for (int64_t one = 0; one < round.num_tiles; ++one) {
        const TileDraws draws(round, a.excluded, a.wanted, one, partner(round, one));
        for (int64_t lane = 0; lane < draws.num_rows; ++lane)
            for (int32_t draw = 0; draw < draws.count; ++draw) {
                const int64_t column = draws.column(draw);
                a.rows[written] = static_cast<int32_t>(draws.first_row + lane);
                a.columns[written] = static_cast<int32_t>(draws.first_column + column);
                written += column < draws.num_columns && (draws.allowed[column] >> lane & 1);
            }
    }
    return written;
}

}  // namespace
