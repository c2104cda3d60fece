// Negatives in packed blocks. The rows of every patch lie in a fixed random order, cut into blocks of equal size. In a round
// block I meets block (r - I) mod B: every block is in one meeting, so meetings run in parallel, and both blocks stay in the
// second-level cache. Over all r every other node is as likely as any; excluded draws count nothing.
#pragma once

namespace {
using namespace l2g2g;

// The rows of a block that draw something, and how many draws each has: row p of the patch has
// group_size (floor(((p + 1) num_groups + shift) / num_rows) - floor((p num_groups + shift) / num_rows)), found without
// dividing for each.
struct RowDraws {
    int64_t row, end, num_rows;
    int64_t each, rest, carried, size;  // num_groups = each num_rows + rest; carried: the remainder before this row
    int64_t taken = 0, count = 0;

    MEMBER RowDraws(const Round& round, int64_t low, int64_t high)
        : row(low - 1),
          end(high),
          num_rows(round.num_rows),
          each(round.num_groups / round.num_rows),
          rest(round.num_groups % round.num_rows),
          carried((low * rest + round.shift) % round.num_rows),
          size(round.group_size) {
        advance();
    }
    MEMBER void advance() {
        taken = 0;
        do {
            if (++row >= end) return;
            carried += rest;
            const bool over = carried >= num_rows;
            carried -= over ? num_rows : 0;
            count = (each + over) * size;
        } while (count == 0);
    }
    MEMBER bool done() const { return row >= end; }
};

// Where the excluded columns of a row that lie in [low, high) begin; they end at the first one that is not below high. Blocks
// are random subsets of the nodes, so the place is guessed, at `part` of the row, and corrected by a few steps.
INLINE int64_t guess_excluded(const Excluded& excluded, int64_t row, float part) {
    const int64_t first = excluded.indptr[row], last = excluded.indptr[row + 1];
    const int64_t place = first + static_cast<int64_t>(static_cast<float>(last - first) * part);
    return place < last ? place : last;
}
INLINE int64_t find_excluded(const Excluded& excluded, int64_t row, int64_t low, float part) {
    const int64_t first = excluded.indptr[row], last = excluded.indptr[row + 1];
    int64_t place = guess_excluded(excluded, row, part);
    while (place > first && excluded.columns[place - 1] >= low) --place;
    while (place < last && excluded.columns[place] < low) ++place;
    return place;
}

// The draws of the rows of block `one` among the columns of block `other`, chunk by chunk.
struct BlockDraws {
    const Round& round;
    const Excluded& excluded;
    const uint32_t* node_hashes;
    int64_t block, first_column, end_column, last_column;
    bool special;  // the block itself, or the last one, which may be shorter: every draw must be looked at
    float part;
    RowDraws rows;

    MEMBER BlockDraws(const Round& r, const Excluded& e, const uint32_t* hashes, int64_t one, int64_t other)
        : round(r),
          excluded(e),
          node_hashes(hashes),
          block(other),
          first_column(r.first_row + other * r.block_size),
          end_column(first_column + r.block_size),
          last_column(r.first_row + r.num_rows),
          special(one == other || end_column > last_column),
          part(static_cast<float>(other) / static_cast<float>(r.num_blocks)),
          rows(r, one * r.block_size, smaller((one + 1) * r.block_size, r.num_rows)) {}
    static MEMBER int64_t smaller(int64_t one, int64_t two) { return one < two ? one : two; }

    MEMBER void fill(Chunk& chunk) {
        struct Run {
            int64_t row;
            int first, last;
        } runs[kChunk];
        uint32_t words[kChunk];
        int count = 0, num_runs = 0;
        while (count < kChunk && !rows.done()) {
            const int64_t left = rows.count - rows.taken, taken = left < kChunk - count ? left : kChunk - count;
            const int32_t row = static_cast<int32_t>(round.first_row + rows.row);
            const uint32_t base = node_hashes[row];
            for (int64_t k = 0; k < taken; ++k) {
                chunk.rows[count + k] = row;
                words[count + k] = base + static_cast<uint32_t>(rows.taken + k) * kSpread;
            }
            runs[num_runs] = {row, count, count + static_cast<int>(taken)};
            if (special || (excluded.blocks[row] >> (block & 63) & 1)) {  // only these are looked at
                __builtin_prefetch(excluded.columns + guess_excluded(excluded, row, part));
                ++num_runs;
            }
            count += static_cast<int>(taken);
            rows.taken += taken;
            if (taken == left) rows.advance();
        }
        const uint32_t flip = static_cast<uint32_t>(round.key >> 32), size = static_cast<uint32_t>(round.block_size);
        const int32_t first = static_cast<int32_t>(first_column);
        for (int pair = 0; pair < count; ++pair) {  // nothing but arithmetic: vector code
            chunk.columns[pair] = first + static_cast<int32_t>(scale_to(mix(words[pair] ^ flip), size));
            chunk.weights[pair] = round.weight;
        }
        for (int run = 0; run < num_runs; ++run) exclude(chunk, runs[run].row, runs[run].first, runs[run].last);
        chunk.count = count;
    }

    // Draws of one row whose column is excluded, is the row itself or lies beyond the last row count nothing. Without a
    // branch for each draw: where rows have many excluded columns, it would be mispredicted.
    MEMBER void exclude(Chunk& chunk, int64_t row, int first, int last) const {
        using Lanes = Ints<kLanes>;
        const int64_t list_end = excluded.indptr[row + 1], low = find_excluded(excluded, row, first_column, part);
        int64_t high = low;
        while (high < list_end && excluded.columns[high] < end_column) ++high;
        Lanes number;
        for (int lane = 0; lane < kLanes; ++lane) number[lane] = lane;
        const Lanes own = Lanes{} + static_cast<int32_t>(row), beyond = Lanes{} + static_cast<int32_t>(last_column);
        for (int pair = first; pair < last; pair += kLanes) {
            Lanes columns;
            Floats<kLanes> weights = load<kLanes>(chunk.weights + pair);
            std::memcpy(&columns, chunk.columns + pair, sizeof columns);
            Lanes found = special ? (columns == own) | (columns >= beyond) : Lanes{};
            for (int64_t place = low; place < high; ++place) found |= columns == excluded.columns[place];
            found &= number < last - pair;  // the others are of the next row
            columns = found ? own : columns;
            weights = found ? Floats<kLanes>{} : weights;
            std::memcpy(chunk.columns + pair, &columns, sizeof columns);
            store<kLanes>(chunk.weights + pair, weights);
        }
    }
};

// Blocks in the order in which they are tasks: those with I <= (r - I) mod B.
INLINE int64_t partner(const Round& round, int64_t block) {
    const int64_t other = (round.meeting - block) % round.num_blocks;
    return other < 0 ? other + round.num_blocks : other;
}

template <int W> INLINE Sums meet(const NegativeArguments& a, const Round& round, int64_t one, int64_t other) {
    Sums sums;
    for (int side = 0; side < (one == other ? 1 : 2); ++side) {
        BlockDraws draws(round, a.excluded, a.node_hashes, side ? other : one, side ? one : other);
        const auto next = [&](Chunk& chunk) { draws.fill(chunk); };
        const Sums found = a.tables.left == a.tables.right ? work_chunks<W, true, false, false>(a.tables, next) : work_chunks<W, true, true, false>(a.tables, next);
        sums.loss += found.loss;
        sums.slope += found.slope;
    }
    return sums;
}

void score_negatives(const NegativeArguments& a) {
    l2g2g::parallel_for(a.first_task[a.num_rounds], [&](int64_t task, int) {
        int64_t number = 0;
        while (a.first_task[number + 1] <= task) ++number;
        const Round& round = a.rounds[number];
        // The k-th block that is not larger than its partner.
        int64_t block = 0;
        for (int64_t k = task - a.first_task[number];; ++block)
            if (block <= partner(round, block) && k-- == 0) break;
        a.sums[task] = with_width(a.tables.width, [&](auto w) { return meet<decltype(w)::value>(a, round, block, partner(round, block)); });
    });
}

int64_t list_negatives(const ListDrawArguments& a) {
    int64_t written = 0;
    const Round& round = a.round;
    for (int64_t one = 0; one < round.num_blocks; ++one) {
        BlockDraws draws(round, a.excluded, a.node_hashes, one, partner(round, one));
        for (Chunk chunk;;) {
            draws.fill(chunk);
            if (chunk.count == 0) break;
            for (int pair = 0; pair < chunk.count; ++pair) {
                a.rows[written] = chunk.rows[pair];
                a.columns[written] = chunk.columns[pair];
                written += chunk.weights[pair] != 0 && (!a.wanted || a.wanted[chunk.rows[pair]]);
            }
        }
    }
    return written;
}

}  // namespace
