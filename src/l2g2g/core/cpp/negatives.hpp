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

constexpr int64_t kShortList = 64;  // excluded columns of a row that are all looked at

// The draws of the rows of block `one` among the columns of block `other`, chunk by chunk.
struct BlockDraws {
    const Round& round;
    const Excluded& excluded;
    const uint32_t* node_hashes;
    const uint8_t* wanted;  // packed rows to draw for; null: all
    int64_t block, first_column, end_column, last_column;
    bool special;  // the block itself, or the last one, which may be shorter: every draw must be looked at
    float part;
    RowDraws rows;

    MEMBER BlockDraws(const Round& r, const Excluded& e, const uint32_t* hashes, const uint8_t* chosen, int64_t one, int64_t other)
        : round(r),
          excluded(e),
          node_hashes(hashes),
          wanted(chosen),
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
        uint32_t words[kChunk + kGroup];
        int count = 0, num_runs = 0, num_spare = 0;
        int spare[kChunk];  // pairs that only fill the last group of a row
        int32_t spare_rows[kChunk];
        while (count < kChunk && !rows.done()) {
            if (wanted && !wanted[round.first_row + rows.row]) {
                rows.advance();
                continue;
            }
            const int64_t left = rows.count - rows.taken, taken = left < kChunk - count ? left : kChunk - count;
            const int32_t row = static_cast<int32_t>(round.first_row + rows.row);
            const uint32_t base = node_hashes[row] + static_cast<uint32_t>(rows.taken) * kSpread;
            for (int64_t k = 0; k < taken; k += kGroup) {
                chunk.rows[(count + k) / kGroup] = row;
                for (uint32_t lane = 0; lane < kGroup; ++lane) words[count + k + lane] = base + (static_cast<uint32_t>(k) + lane) * kSpread;
            }
            runs[num_runs] = {row, count, count + static_cast<int>(taken)};
            if (special || (excluded.blocks[row] >> (block & 63) & 1)) {  // only these are looked at
                __builtin_prefetch(excluded.columns + guess_excluded(excluded, row, part));
                ++num_runs;
            }
            count += static_cast<int>(taken);
            for (; count % kGroup; ++count) {
                spare_rows[num_spare] = row;
                spare[num_spare++] = count;
            }
            rows.taken += taken;
            if (taken == left) rows.advance();
        }
        const uint32_t flip = static_cast<uint32_t>(round.key >> 32), size = static_cast<uint32_t>(round.block_size);
        const int32_t first = static_cast<int32_t>(first_column);
        for (int pair = 0; pair < count; ++pair) {  // nothing but arithmetic: vector code
            chunk.columns[pair] = first + static_cast<int32_t>(scale_to(mix(words[pair] ^ flip), size));
            chunk.weights[pair] = round.weight;
        }
        for (int k = 0; k < num_spare; ++k) {
            chunk.columns[spare[k]] = spare_rows[k];
            chunk.weights[spare[k]] = 0;
        }
        for (int run = 0; run < num_runs; ++run) exclude(chunk, runs[run].row, runs[run].first, runs[run].last);
        chunk.count = count;
    }

    // The excluded columns of a row that lie in the block, and so many -1 that there are a multiple of kGroup of them. Returns
    // how many that are; at most kBuffer, from `place` on, which is moved behind them.
    MEMBER int64_t list_excluded(int64_t row, int64_t& place, int32_t* found) const {
        const int64_t end = excluded.indptr[row + 1];
        int64_t number = 0;
#ifdef __AVX512F__
        const __m512i low = _mm512_set1_epi32(static_cast<int>(first_column)), high = _mm512_set1_epi32(static_cast<int>(end_column));
        for (; place < end && number + 16 <= kBuffer; place += 16) {
            const __mmask16 valid = static_cast<__mmask16>(end - place < 16 ? (1u << (end - place)) - 1 : 0xffffu);
            const __m512i columns = _mm512_maskz_loadu_epi32(valid, excluded.columns + place);
            const __mmask16 inside = _mm512_mask_cmplt_epi32_mask(_mm512_mask_cmpge_epi32_mask(valid, columns, low), columns, high);
            _mm512_storeu_si512(found + number, _mm512_maskz_compress_epi32(inside, columns));
            number += __builtin_popcount(inside);
            if (_mm512_mask_cmpge_epi32_mask(valid, columns, high)) {
                place = end;
                break;
            }
        }
#else
        for (; place < end && number < kBuffer; ++place) {
            const int32_t column = excluded.columns[place];
            if (column >= end_column) {
                place = end;
                break;
            }
            if (column >= first_column) found[number++] = column;
        }
#endif
        for (int spare = 0; spare < kGroup - 1; ++spare) found[number + spare] = -1;
        return (number + kGroup - 1) / kGroup * kGroup;
    }

    // Draws of one row whose column is excluded, is the row itself or lies beyond the last row count nothing. With few
    // branches: where rows have many excluded columns, they would be mispredicted.
    MEMBER void exclude(Chunk& chunk, int64_t row, int first, int last) const {
        using Lanes = Ints<kLanes>;
        int32_t listed[kBuffer + 16];
        int64_t place = excluded.indptr[row];
        if (excluded.indptr[row + 1] - place > kShortList) place = find_excluded(excluded, row, first_column, part);
        Lanes number;
        for (int lane = 0; lane < kLanes; ++lane) number[lane] = lane;
        const Lanes own = Lanes{} + static_cast<int32_t>(row), beyond = Lanes{} + static_cast<int32_t>(last_column);
        do {
            const int64_t count = list_excluded(row, place, listed);
            for (int pair = first; pair < last; pair += kLanes) {
                Lanes columns;
                Floats<kLanes> weights = load<kLanes>(chunk.weights + pair);
                std::memcpy(&columns, chunk.columns + pair, sizeof columns);
                Lanes found = special ? (columns == own) | (columns >= beyond) : Lanes{};
                for (int64_t each = 0; each < count; each += kGroup)
                    for (int k = 0; k < kGroup; ++k) found |= columns == listed[each + k];
                found &= number < last - pair;  // the others are of the next row
                columns = found ? own : columns;
                weights = found ? Floats<kLanes>{} : weights;
                std::memcpy(chunk.columns + pair, &columns, sizeof columns);
                store<kLanes>(chunk.weights + pair, weights);
            }
        } while (place < excluded.indptr[row + 1]);
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
        BlockDraws draws(round, a.excluded, a.node_hashes, a.wanted, side ? other : one, side ? one : other);
        const auto next = [&](Chunk& chunk) { draws.fill(chunk); };
        const Sums found = a.tables.left == a.tables.right ? work_chunks<W, true, false, false, kGroup>(a.tables, next) : work_chunks<W, true, true, false, kGroup>(a.tables, next);
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
        BlockDraws draws(round, a.excluded, a.node_hashes, a.wanted, one, partner(round, one));
        for (Chunk chunk;;) {
            draws.fill(chunk);
            if (chunk.count == 0) break;
            for (int pair = 0; pair < chunk.count; ++pair) {
                const int32_t row = chunk.rows[pair / kGroup];
                a.rows[written] = row;
                a.columns[written] = chunk.columns[pair];
                written += chunk.weights[pair] != 0;
            }
        }
    }
    return written;
}

}  // namespace
