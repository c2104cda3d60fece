// Sparse times dense: rows of a CSR matrix combine rows of a table.
#pragma once

namespace {
using namespace l2g2g;

constexpr int64_t kAhead = 48;  // entries whose rows are fetched before they are needed
constexpr int64_t kNear = 1 << 17;  // floats of a table that stays in the second-level cache: nothing is fetched ahead

// The entries of a row that dropout keeps, up to kBuffer of them, written to `columns` and `values`.
constexpr int64_t kBuffer = 512;
struct Entries {
    int32_t columns[kBuffer + 16];
    float values[kBuffer + 16];
};
INLINE int64_t keep_entries(const Csr& matrix, const Dropout& dropout, int64_t row, int64_t first, int64_t last, Entries& kept) {
    const uint32_t node = dropout.by_column ? static_cast<uint32_t>(row) * kSpread : dropout.node_hashes[row];
#ifdef __AVX512F__
    typedef uint32_t Words __attribute__((vector_size(64)));
    const uint32_t flip = static_cast<uint32_t>(dropout.key >> 32);
    const __m512i least = _mm512_set1_epi32(static_cast<int>(static_cast<uint32_t>(dropout.threshold)));
    int64_t number = 0;
    for (int64_t entry = first; entry < last; entry += 16) {  // sixteen at a time, compressed in registers
        const __mmask16 valid = static_cast<__mmask16>(last - entry < 16 ? (1u << (last - entry)) - 1 : 0xffffu);
        const __m512i columns = _mm512_maskz_loadu_epi32(valid, matrix.indices + entry);
        const Words other = dropout.by_column ? (Words)_mm512_mask_i32gather_epi32(columns, valid, columns, dropout.node_hashes, 4) : (Words)columns * kSpread;
        Words word = (other + node) ^ flip;  // mix() of hashing.hpp
        word = (word ^ (word >> 16)) * 0x7feb352du;
        word = (word ^ (word >> 15)) * 0x846ca68bu;
        const __mmask16 stays = _mm512_mask_cmpge_epu32_mask(valid, (__m512i)(word ^ (word >> 16)), least);
        _mm512_storeu_si512(kept.columns + number, _mm512_maskz_compress_epi32(stays, columns));
        const __m512 values = matrix.values ? _mm512_maskz_loadu_ps(valid, matrix.values + entry) : _mm512_set1_ps(1.0f);
        _mm512_storeu_ps(kept.values + number, _mm512_maskz_compress_ps(stays, values));
        number += __builtin_popcount(stays);
    }
    return number;
#else
    uint32_t words[kBuffer];
    for (int64_t entry = first; entry < last; ++entry) {
        const uint32_t column = static_cast<uint32_t>(matrix.indices[entry]);
        words[entry - first] = hash_pair(dropout.key, node, dropout.by_column ? dropout.node_hashes[column] : column * kSpread);
    }
    int64_t count = 0;
    for (int64_t entry = first; entry < last; ++entry) {  // written always, counted only if kept: no branch to mispredict
        kept.columns[count] = matrix.indices[entry];
        kept.values[count] = matrix.values ? matrix.values[entry] : 1.0f;
        count += words[entry - first] >= dropout.threshold;
    }
    return count;
#endif
}

// A table whose rows are combined, and two tables whose rows are combined alike, so that the matrix is read once.
template <int W> struct OneTable {
    using Sum = Row<W>;
    const float* rows;
    int64_t width;
    MEMBER const float* at(int64_t column) const { return rows + column * (W ? W : width); }
    MEMBER void fetch(int64_t column) const { prefetch_row<W>(at(column)); }
};
template <int W, int V> struct TwoRows {
    const float *one, *two;
};
template <int W, int V> struct TwoSums {
    Row<W> one;
    Row<V> two;
    MEMBER void clear(int64_t) {
        one.clear(W);
        two.clear(V);
    }
    MEMBER void add(TwoRows<W, V> from, int64_t) {
        one.add(from.one, W);
        two.add(from.two, V);
    }
    MEMBER void add_scaled(float factor, TwoRows<W, V> from, int64_t) {
        one.add_scaled(factor, from.one, W);
        two.add_scaled(factor, from.two, V);
    }
    MEMBER void add(const TwoSums& other, int64_t) {
        one.add(other.one, W);
        two.add(other.two, V);
    }
};
template <int W, int V> struct TwoTables {
    using Sum = TwoSums<W, V>;
    const float *one, *two;
    int64_t width;  // of both
    MEMBER TwoRows<W, V> at(int64_t column) const { return {one + column * W, two + column * V}; }
    MEMBER void fetch(int64_t column) const {
        prefetch_row<W>(one + column * W);
        prefetch_row<V>(two + column * V);
    }
};

template <bool Values, bool Fetch, class Table>
INLINE void add_entries(typename Table::Sum& sum, const int32_t* columns, const float* values, int64_t first, int64_t last, int64_t fetchable, const Table& table) {
    typename Table::Sum other;  // two sums side by side: no addition waits for the one before
    int64_t entry = first;
    if (last - first > 1) {
        other.clear(table.width);
        for (; entry + 1 < last; entry += 2) {
            if constexpr (Fetch) {
                const int64_t ahead = entry + kAhead < fetchable ? entry + kAhead : fetchable;
                table.fetch(columns[ahead]);
                table.fetch(columns[ahead + 1]);
            }
            const auto one = table.at(columns[entry]), two = table.at(columns[entry + 1]);
            if constexpr (Values) {
                sum.add_scaled(values[entry], one, table.width);
                other.add_scaled(values[entry + 1], two, table.width);
            } else {
                sum.add(one, table.width);
                other.add(two, table.width);
            }
        }
        sum.add(other, table.width);
    }
    if (entry < last) {
        if constexpr (Values)
            sum.add_scaled(values[entry], table.at(columns[entry]), table.width);
        else
            sum.add(table.at(columns[entry]), table.width);
    }
}

// sum += the entries from `first` to `last` of a row, those that dropout keeps.
template <bool Dropped, bool Fetch, class Table>
INLINE void add_span(typename Table::Sum& sum, const Csr& matrix, const Dropout& dropout, int64_t row, int64_t first, int64_t last, const Table& table) {
    if constexpr (Dropped) {
        Entries kept;
        for (int64_t low = first; low < last; low += kBuffer) {
            const int64_t high = low + kBuffer < last ? low + kBuffer : last;
            const int64_t count = keep_entries(matrix, dropout, row, low, high, kept);
            add_entries<true, false>(sum, kept.columns, kept.values, 0, count, 0, table);
        }
    } else if (matrix.values) {
        add_entries<true, Fetch>(sum, matrix.indices, matrix.values, first, last, matrix.num_entries - 2, table);
    } else {
        add_entries<false, Fetch>(sum, matrix.indices, nullptr, first, last, matrix.num_entries - 2, table);
    }
}

template <bool Dropped, bool Fetch, class Table>
INLINE void add_row(typename Table::Sum& sum, const Csr& matrix, const Dropout& dropout, int64_t row, const Table& table) {
    add_span<Dropped, Fetch>(sum, matrix, dropout, row, matrix.starts[row], matrix.ends[row], table);
}

// Rows at which items begin that have about as many entries each; starts must ascend.
INLINE int64_t item_start(const Csr& matrix, int64_t item, int64_t num_items) {
    if (item >= num_items) return matrix.num_rows;
    // An entry counts 4, a row 1: rows without entries cost something too.
    const auto weight = [&](int64_t row) { return 4 * matrix.starts[row] + row; };
    const int64_t base = matrix.num_rows ? weight(0) : 0;
    const int64_t total = matrix.num_rows ? 4 * matrix.ends[matrix.num_rows - 1] + matrix.num_rows - base : 0;
    const int64_t wanted = base + total / num_items * item;
    int64_t low = 0, high = matrix.num_rows;
    while (low < high) {
        const int64_t middle = (low + high) / 2;
        if (weight(middle) < wanted)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}
// Small matrices are one item: waking another thread takes longer.
INLINE int64_t count_items(const Csr& matrix, int64_t per_thread) {
    const int64_t work = matrix.num_entries + matrix.num_rows, threads = l2g2g::num_threads();
    return threads == 1 || work < 20000 ? 1 : threads * per_thread;
}

// A product: how the sum of a row begins, and what becomes of it.
// out[r] = added[r] + scale[r] (table[r] where loops + sum of the entries of row r), or with scale_added scale[r] (added[r] + ...)
template <int W> struct OneProduct {
    const ProductArguments& a;
    OneTable<W> table;

    MEMBER explicit OneProduct(const ProductArguments& arguments) : a(arguments), table{arguments.table, arguments.width} {}
    MEMBER void begin(Row<W>& sum, int64_t row) const {
        if (a.loops)
            sum.read(a.table + row * a.width, a.width);
        else
            sum.clear(a.width);
    }
    MEMBER void resume(Row<W>& sum, int64_t row) const { sum.read(a.out + row * a.width, a.width); }
    MEMBER void pause(const Row<W>& sum, int64_t row) const { sum.write(a.out + row * a.width, a.width); }
    template <bool Dropped> MEMBER void finish(Row<W>& sum, int64_t row) const {
        if (Dropped) sum.scale(a.dropout.factor, a.width);
        if (a.scale && !a.scale_added) sum.scale(a.scale[row], a.width);
        if (a.added) sum.add(a.added + row * a.added_stride, a.width);
        if (a.scale && a.scale_added) sum.scale(a.scale[row], a.width);
        pause(sum, row);
    }
};

// out[r] = scale[r] (added + factor (sum of the entries of row r)), of two tables; the second one has no scale.
template <int W, int V> struct TwoProducts {
    const TwoProductArguments& a;
    TwoTables<W, V> table;

    MEMBER explicit TwoProducts(const TwoProductArguments& arguments) : a(arguments), table{arguments.tables[0], arguments.tables[1], W + V} {}
    MEMBER void begin(TwoSums<W, V>& sum, int64_t) const { sum.clear(W + V); }
    MEMBER void resume(TwoSums<W, V>& sum, int64_t row) const {
        sum.one.read(a.outs[0] + row * W, W);
        sum.two.read(a.outs[1] + row * V, V);
    }
    MEMBER void pause(const TwoSums<W, V>& sum, int64_t row) const {
        sum.one.write(a.outs[0] + row * W, W);
        sum.two.write(a.outs[1] + row * V, V);
    }
    template <bool Dropped> MEMBER void finish(TwoSums<W, V>& sum, int64_t row) const {
        const float factor = Dropped ? a.factor * a.dropout.factor : a.factor;
        sum.one.scale(factor, W);
        sum.two.scale(factor, V);
        if (a.added[0]) sum.one.add(a.added[0], W);
        if (a.added[1]) sum.two.add(a.added[1], V);
        if (a.scale) sum.one.scale(a.scale[row], W);
        pause(sum, row);
    }
};

template <bool Dropped, bool Fetch, class Product> void multiply_range(const Product& product, int64_t low, int64_t high) {
    for (int64_t row = low; row < high; ++row) {
        typename decltype(product.table)::Sum sum;
        product.begin(sum, row);
        add_row<Dropped, Fetch>(sum, product.a.matrix, product.a.dropout, row, product.table);
        product.template finish<Dropped>(sum, row);
    }
}

// The same by slices of the columns whose rows of the table stay in the first-level cache. It pays where rows have many
// entries in every slice.
constexpr int64_t kSlice = 8192;        // floats of a slice
constexpr int64_t kSliceEntries = 16;   // entries a row must have in a slice, on average
constexpr int64_t kSliceRows = 64;      // rows that go through the slices together

INLINE int64_t slice_columns(int64_t width) { return width < kSlice ? kSlice / width : 1; }
INLINE bool slices_pay(const Csr& matrix, int64_t num_columns, int64_t width) {
    const int64_t slices = num_columns / slice_columns(width) + 1;
    return matrix.ordered && slices > 2 && matrix.num_entries > kSliceEntries * slices * matrix.num_rows;
}

// The first entry whose column is not below `bound`; columns ascend.
INLINE int64_t skip_below(const int32_t* columns, int64_t first, int64_t last, int32_t bound) {
#ifdef __AVX512F__
    const __m512i least = _mm512_set1_epi32(bound);
    for (; first < last; first += 16) {
        const __mmask16 valid = static_cast<__mmask16>(last - first < 16 ? (1u << (last - first)) - 1 : 0xffffu);
        const __mmask16 below = _mm512_mask_cmplt_epi32_mask(valid, _mm512_maskz_loadu_epi32(valid, columns + first), least);
        if (below != 0xffffu) return first + __builtin_popcount(below);
    }
    return last;
#else
    while (first < last) {
        const int64_t middle = first + (last - first) / 2;
        if (columns[middle] < bound)
            first = middle + 1;
        else
            last = middle;
    }
    return first;
#endif
}

template <bool Dropped, class Product> void multiply_slices(const Product& product, int64_t low, int64_t high) {
    const Csr& matrix = product.a.matrix;
    const int64_t step = slice_columns(product.table.width), num_columns = product.a.num_columns;
    for (int64_t block = low; block < high; block += kSliceRows) {
        const int64_t end = block + kSliceRows < high ? block + kSliceRows : high;
        int64_t next[kSliceRows];  // the first entry of each row that is in no slice yet
        for (int64_t row = block; row < end; ++row) next[row - block] = matrix.starts[row];
        for (int64_t column = 0; column < num_columns; column += step) {
            const bool is_first = column == 0, is_last = column + step >= num_columns;
            for (int64_t row = block; row < end; ++row) {
                typename decltype(product.table)::Sum sum;
                is_first ? product.begin(sum, row) : product.resume(sum, row);
                const int64_t first = next[row - block], row_end = matrix.ends[row];
                const int64_t last = is_last ? row_end : skip_below(matrix.indices, first, row_end, static_cast<int32_t>(column + step));
                next[row - block] = last;
                add_span<Dropped, false>(sum, matrix, product.a.dropout, row, first, last, product.table);
                is_last ? product.template finish<Dropped>(sum, row) : product.pause(sum, row);
            }
        }
    }
}

template <class Product> void multiply_rows(const Product& product, bool sliced, int64_t low, int64_t high) {
    const auto& a = product.a;
    if (sliced)
        a.dropout.threshold ? multiply_slices<true>(product, low, high) : multiply_slices<false>(product, low, high);
    else if (a.dropout.threshold)
        multiply_range<true, false>(product, low, high);
    else if (a.num_columns * product.table.width > kNear)
        multiply_range<false, true>(product, low, high);
    else
        multiply_range<false, false>(product, low, high);
}

void multiply(const ProductArguments& a) {
    const int64_t items = count_items(a.matrix, 8);
    const bool sliced = !a.loops && slices_pay(a.matrix, a.num_columns, a.width);
    l2g2g::parallel_for(items, [&](int64_t item, int) {
        const int64_t low = item_start(a.matrix, item, items), high = item_start(a.matrix, item + 1, items);
        with_width(a.width, [&](auto w) { multiply_rows(OneProduct<decltype(w)::value>(a), sliced, low, high); });
    });
}

// Compiled for the widths of the paper's encoder and of the same with a skip connection.
void multiply_two(const TwoProductArguments& a) {
    const int64_t items = count_items(a.matrix, 8);
    const bool sliced = slices_pay(a.matrix, a.num_columns, kTwoWidths[0] + kTwoWidths[1]);
    l2g2g::parallel_for(items, [&](int64_t item, int) {
        const int64_t low = item_start(a.matrix, item, items), high = item_start(a.matrix, item + 1, items);
        multiply_rows(TwoProducts<kTwoWidths[0], kTwoWidths[1]>(a), sliced, low, high);
    });
}

template <int W> INLINE void add_to_row(float* target, float factor, const Row<W>& source, int64_t width) {
    if constexpr (W == 0) {
        for (int64_t n = 0; n < width; ++n) target[n] += factor * source.parts[n];
    } else {
        for (int n = 0; n < Row<W>::N; ++n)
            store<Row<W>::L>(target + n * Row<W>::L, load<Row<W>::L>(target + n * Row<W>::L) + factor * source.parts[n]);
    }
}

// The transpose times dense, by adding rows up in a table per part, which stays in the cache where columns are few.
template <int W, bool Dropped> void multiply_transposed_range(const TransposedArguments& a, int64_t low, int64_t high, float* sums) {
    for (int64_t row = low; row < high; ++row) {
        Row<W> own;
        own.read(a.dense + row * a.width, a.width);
        if constexpr (Dropped) {
            own.scale(a.dropout.factor, a.width);
            Entries kept;
            for (int64_t first = a.matrix.starts[row]; first < a.matrix.ends[row]; first += kBuffer) {
                const int64_t last = first + kBuffer < a.matrix.ends[row] ? first + kBuffer : a.matrix.ends[row];
                const int64_t count = keep_entries(a.matrix, a.dropout, row, first, last, kept);
                for (int64_t place = 0; place < count; ++place)
                    add_to_row<W>(sums + kept.columns[place] * a.width, kept.values[place], own, a.width);
            }
        } else {
            for (int64_t entry = a.matrix.starts[row]; entry < a.matrix.ends[row]; ++entry)
                add_to_row<W>(sums + a.matrix.indices[entry] * a.width, a.matrix.values ? a.matrix.values[entry] : 1.0f, own, a.width);
        }
    }
}

void multiply_transposed(const TransposedArguments& a) {
    l2g2g::parallel_for(a.num_parts, [&](int64_t part, int) {
        const int64_t low = item_start(a.matrix, part, a.num_parts), high = item_start(a.matrix, part + 1, a.num_parts);
        float* sums = a.sums + part * a.num_columns * a.width;
        with_width(a.width, [&](auto w) {
            constexpr int W = decltype(w)::value;
            if (a.dropout.threshold)
                multiply_transposed_range<W, true>(a, low, high, sums);
            else
                multiply_transposed_range<W, false>(a, low, high, sums);
        });
    });
}

}  // namespace
