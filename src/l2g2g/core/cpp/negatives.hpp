// Negatives in tiles. The rows of every patch lie in a fixed random order, cut into tiles of up to 16. In a round tile I meets
// tile (r - I) mod B: every tile is in one meeting, so meetings run in parallel. Row l of a tile of T rows draws the columns
// (l + s) mod T of the tile it meets, for some successive s: all columns are drawn equally often, and a vector that is read
// serves several pairs. Over all r and s every other node is as likely as any; excluded pairs count nothing.
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
    int64_t size;                  // rows of a tile
    int64_t first_row, num_rows;   // of the tile, in packed order; the last one of a patch may have fewer
    int64_t first_column;          // of the tile it meets
    int32_t start, count;          // the distances s of columns from rows: start, start + 1, ... modulo size
    uint16_t allowed[kTile];       // by s: bit l: the pair of row l with column (l + s) mod size counts

    MEMBER TileDraws(const Round& round, const Excluded& excluded, const uint8_t* wanted, int64_t one, int64_t other) {
        size = round.tile_size;
        first_row = round.first_row + one * size;
        num_rows = smaller(size, round.num_rows - one * size);
        first_column = round.first_row + other * size;
        count = static_cast<int32_t>(((one + 1) * round.num_columns + round.shift) / round.num_tiles - (one * round.num_columns + round.shift) / round.num_tiles);
        start = static_cast<int32_t>(scale_to(hash_number(round.key, 0, static_cast<uint32_t>(one)), static_cast<uint32_t>(size)));
        uint16_t rows = static_cast<uint16_t>((1u << num_rows) - 1);
        if (wanted)
            for (int64_t row = 0; row < num_rows; ++row)
                if (!wanted[first_row + row]) rows &= static_cast<uint16_t>(~(1u << row));
        for (int64_t distance = 0; distance < kTile; ++distance) allowed[distance] = rows;
        if (one == other) allowed[0] = 0;
        for (int64_t column = smaller(size, round.num_rows - other * size); column < size; ++column)  // beyond the last row
            for (int64_t row = 0; row < num_rows; ++row) leave_out(row, column);
        const uint32_t low = static_cast<uint32_t>(other * kTile * kTile), *keys = excluded.keys;
        const int64_t end = excluded.starts[round.first_tile + one + 1];
        for (int64_t place = find_excluded(excluded, round, one, other); place < end && keys[place] - low < kTile * kTile; ++place)
            leave_out((keys[place] - low) % kTile, (keys[place] - low) / kTile);
    }
    static MEMBER int64_t smaller(int64_t one, int64_t two) { return one < two ? one : two; }
    MEMBER void leave_out(int64_t row, int64_t column) {
        const int64_t distance = column - row;
        allowed[distance < 0 ? distance + size : distance] &= static_cast<uint16_t>(~(1u << row));
    }
    MEMBER int64_t distance(int32_t draw) const { return start + draw < size ? start + draw : start + draw - size; }
    MEMBER int64_t column(int64_t row, int32_t draw) const { return (row + distance(draw)) % size; }
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

// The rows of a tile by coordinate, written twice, so that a load at s has them turned round by s, and their gradient.
template <int W> struct Tile {
    static constexpr int L = Row<W>::L;
    alignas(64) float rows[W][2 * kTile];
    alignas(64) float gradient[W][kTile];

    MEMBER void read(const float* table, const int64_t* places, int64_t size) {
        for (int lane = 0; lane < kTile; lane += L)
            for (int part = 0; part < W; part += L) {
                Floats<L> block[L];
                for (int n = 0; n < L; ++n) block[n] = load<L>(table + places[lane + n] + part);
                turn<L>(block);
                for (int n = 0; n < L; ++n) store<L>(rows[part + n] + lane, block[n]);
            }
        for (int n = 0; n < W; ++n)
            for (int lane = 0; lane < kTile; lane += kLanes) {
                store<kLanes>(gradient[n] + lane, Floats<kLanes>{});
                store<kLanes>(rows[n] + size + lane, load<kLanes>(rows[n] + lane));
            }
    }
    MEMBER void add_gradient(float* table, const int64_t* places, int64_t num_rows) const {
        for (int lane = 0; lane < num_rows; lane += L)
            for (int part = 0; part < W; part += L) {
                Floats<L> block[L];
                for (int n = 0; n < L; ++n) block[n] = load<L>(gradient[part + n] + lane);
                turn<L>(block);
                for (int n = 0; n < L && lane + n < num_rows; ++n) {
                    float* to = table + places[lane + n] + part;
                    store<L>(to, load<L>(to) + block[n]);
                }
            }
    }
};

// Scores of the pairs of a tile of rows with one of columns, their losses and slopes, and their gradient to both.
template <int W>
INLINE void work_tiles(const Tables& t, const TileDraws& draws, float weight, Tile<W>& rows, Tile<W>& columns, Floats<kLanes>& loss, Floats<kLanes>& total) {
    alignas(64) float slopes[kTile][2 * kTile];  // by draw, by row, written twice like rows
    const int64_t size = draws.size;
    for (int32_t draw = 0; draw < draws.count; ++draw) {
        const int64_t distance = draws.distance(draw);
        Floats<kLanes> found[kTile / kLanes];
        for (int lane = 0; lane < kTile; lane += kLanes) {
            Floats<kLanes> sums[4] = {};  // four side by side: no addition waits for the one before
            for (int n = 0; n < W; ++n) sums[n % 4] += load<kLanes>(rows.rows[n] + lane) * load<kLanes>(columns.rows[n] + distance + lane);
            const Floats<kLanes> weights = lane_weights(draws.allowed[distance], lane, weight);
            Floats<kLanes> own, slope;
            softplus(((sums[0] + sums[1]) + (sums[2] + sums[3]) + t.bias) * -t.sign, own, slope);
            slope *= weights * -t.sign;
            loss += own * weights;
            total += slope;
            found[lane / kLanes] = slope;
        }
        for (int lane = 0; lane < kTile; lane += kLanes) store<kLanes>(slopes[draw] + lane, found[lane / kLanes]);
        for (int lane = 0; lane < kTile; lane += kLanes) store<kLanes>(slopes[draw] + size + lane, found[lane / kLanes]);
    }
    constexpr int kAtOnce = kLanes == 16 ? 8 : 4;  // coordinates whose sums stay in registers
    static_assert(W % kAtOnce == 0);
    for (int lane = 0; lane < kTile; lane += kLanes)
        for (int first = 0; first < W; first += kAtOnce) {
            Floats<kLanes> of_row[kAtOnce] = {}, of_column[kAtOnce] = {};
            for (int32_t draw = 0; draw < draws.count; ++draw) {
                const int64_t there = draws.distance(draw) + lane, back = size - draws.distance(draw) + lane;
                const Floats<kLanes> slope = load<kLanes>(slopes[draw] + lane), slope_back = load<kLanes>(slopes[draw] + back);
                for (int n = 0; n < kAtOnce; ++n) {
                    of_row[n] += slope * load<kLanes>(columns.rows[first + n] + there);
                    of_column[n] += slope_back * load<kLanes>(rows.rows[first + n] + back);
                }
            }
            for (int n = 0; n < kAtOnce; ++n) {
                store<kLanes>(rows.gradient[first + n] + lane, load<kLanes>(rows.gradient[first + n] + lane) + of_row[n]);
                store<kLanes>(columns.gradient[first + n] + lane, load<kLanes>(columns.gradient[first + n] + lane) + of_column[n]);
            }
        }
}

// Where the rows of a tile begin; beyond the last one: the first.
INLINE void find_places(const NegativeArguments& a, const Round& round, int64_t tile, int64_t* places) {
    const int64_t first = round.first_row + tile * round.tile_size, last = round.first_row + round.num_rows;
    for (int64_t lane = 0; lane < kTile; ++lane) {
        const int64_t row = lane < round.tile_size && first + lane < last ? first + lane : first;
        places[lane] = (a.order ? a.order[row] : row) * a.tables.width;
    }
}

// Both tiles of a meeting, each as rows and as columns.
template <int W> INLINE void work_meeting(const NegativeArguments& a, const Round& round, int64_t one, int64_t other, Floats<kLanes>& loss, Floats<kLanes>& total) {
    const Tables& t = a.tables;
    const bool is_two = t.left != t.right, is_self = one == other;
    const int64_t numbers[2] = {one, other};
    int64_t places[2][kTile], num_rows[2];
    Tile<W> left[2], right[2];
    for (int side = 0; side < (is_self ? 1 : 2); ++side) {
        const int64_t rest = round.num_rows - numbers[side] * round.tile_size;
        num_rows[side] = rest < round.tile_size ? rest : round.tile_size;
        find_places(a, round, numbers[side], places[side]);
        left[side].read(t.left, places[side], round.tile_size);
        if (is_two) right[side].read(t.right, places[side], round.tile_size);
    }
    for (int side = 0; side < (is_self ? 1 : 2); ++side) {
        const TileDraws draws(round, a.excluded, a.wanted, numbers[side], numbers[1 - side]);
        const int with = is_self ? 0 : 1 - side;
        work_tiles<W>(t, draws, round.weight, left[side], is_two ? right[with] : left[with], loss, total);
    }
    for (int side = 0; side < (is_self ? 1 : 2); ++side) {
        left[side].add_gradient(t.of_left, places[side], num_rows[side]);
        if (is_two) right[side].add_gradient(t.of_right, places[side], num_rows[side]);
    }
}

// Rows of any width, pair by pair.
INLINE void work_pairs(const NegativeArguments& a, const Round& round, int64_t one, int64_t other, Floats<kLanes>& loss, Floats<kLanes>& total) {
    const Tables& t = a.tables;
    const auto place = [&](int64_t packed) { return (a.order ? a.order[packed] : packed) * t.width; };
    for (int side = 0; side < (one == other ? 1 : 2); ++side) {
        const TileDraws draws(round, a.excluded, a.wanted, side ? other : one, side ? one : other);
        for (int32_t draw = 0; draw < draws.count; ++draw)
            for (int64_t first = 0; first < draws.num_rows; first += kLanes) {
                const int64_t last = first + kLanes < draws.num_rows ? first + kLanes : draws.num_rows;
                const Floats<kLanes> weights = lane_weights(draws.allowed[draws.distance(draw)], static_cast<int>(first), round.weight);
                Floats<kLanes> scores{}, own, slope;
                for (int64_t row = first; row < last; ++row) {
                    if (weights[row - first] == 0) continue;
                    const float *left = t.left + place(draws.first_row + row), *right = t.right + place(draws.first_column + draws.column(row, draw));
                    float sum = 0;
                    for (int64_t n = 0; n < t.width; ++n) sum += left[n] * right[n];
                    scores[row - first] = sum;
                }
                softplus((scores + t.bias) * -t.sign, own, slope);
                slope *= weights * -t.sign;
                loss += own * weights;
                total += slope;
                for (int64_t row = first; row < last; ++row) {
                    if (weights[row - first] == 0) continue;
                    const int64_t from = place(draws.first_row + row), to = place(draws.first_column + draws.column(row, draw));
                    const float factor = slope[row - first];
                    for (int64_t n = 0; n < t.width; ++n) {
                        t.of_left[from + n] += factor * t.right[to + n];
                        t.of_right[to + n] += factor * t.left[from + n];
                    }
                }
            }
    }
}

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
        if constexpr (W == 0)
            work_pairs(a, round, one, other, loss, total);
        else
            work_meeting<W>(a, round, one, other, loss, total);
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
                a.rows[written] = static_cast<int32_t>(draws.first_row + lane);
                a.columns[written] = static_cast<int32_t>(draws.first_column + draws.column(lane, draw));
                written += draws.allowed[draws.distance(draw)] >> lane & 1;
            }
    }
    return written;
}

}  // namespace
