// A hidden layer: H = ReLU(scale S D + b) and H W in one pass over the rows, and its gradients in another. A few rows go
// through all of it while they are in the cache; apart, every step would read and write a table of all rows.
#pragma once

namespace {
using namespace l2g2g;

constexpr int64_t kBlock = 64;  // rows that go through a pass together

// How many rows of W floats are summed at once: as many as the registers hold, so that what they share is loaded once.
template <int W> constexpr int rows_at_once() {
    if constexpr (W == 0) return 1;
    else {
        constexpr int registers = kLanes == 16 ? 24 : 12, fitting = registers / Row<W>::N;
        return fitting < 1 ? 1 : fitting > 8 ? 8 : fitting;
    }
}

// out[i] = factors[i] @ table for `count` rows; table: (depth, W).
template <int W> void project(const float* factors, int64_t count, int64_t depth, const float* table, int64_t width, float* out) {
    constexpr int R = rows_at_once<W>();
    int64_t row = 0;
    for (; row + R <= count; row += R) {
        Row<W> sums[R];
        for (int r = 0; r < R; ++r) sums[r].clear(width);
        for (int64_t k = 0; k < depth; ++k)
            for (int r = 0; r < R; ++r) sums[r].add_scaled(factors[(row + r) * depth + k], table + k * width, width);
        for (int r = 0; r < R; ++r) sums[r].write(out + (row + r) * width, width);
    }
    for (; row < count; ++row) {
        Row<W> sum;
        sum.clear(width);
        for (int64_t k = 0; k < depth; ++k) sum.add_scaled(factors[row * depth + k], table + k * width, width);
        sum.write(out + row * width, width);
    }
}

// sums += leftᵀ @ right for `count` rows; left: (count, depth), right: (count, W), sums: (depth, W).
template <int W> void add_outer(const float* left, const float* right, int64_t count, int64_t depth, int64_t width, float* sums) {
    constexpr int K = rows_at_once<W>();
    int64_t k = 0;
    for (; k + K <= depth; k += K) {
        Row<W> own[K];
        for (int j = 0; j < K; ++j) own[j].read(sums + (k + j) * width, width);
        for (int64_t row = 0; row < count; ++row)
            for (int j = 0; j < K; ++j) own[j].add_scaled(left[row * depth + k + j], right + row * width, width);
        for (int j = 0; j < K; ++j) own[j].write(sums + (k + j) * width, width);
    }
    for (; k < depth; ++k) {
        Row<W> own;
        own.read(sums + k * width, width);
        for (int64_t row = 0; row < count; ++row) own.add_scaled(left[row * depth + k], right + row * width, width);
        own.write(sums + k * width, width);
    }
}

using Project = void (*)(const float*, int64_t, int64_t, const float*, int64_t, float*);
using AddOuter = void (*)(const float*, const float*, int64_t, int64_t, int64_t, float*);
INLINE Project project_for(int64_t width) {
    return with_width(width, [](auto w) -> Project { return &project<decltype(w)::value>; });
}
INLINE AddOuter add_outer_for(int64_t width) {
    return with_width(width, [](auto w) -> AddOuter { return &add_outer<decltype(w)::value>; });
}

// sum = scale[row] (table[row] where loops + the rows of the table that the row of the matrix combines).
template <int W, bool Fetch> INLINE void combine_row(Row<W>& sum, const Csr& matrix, const float* scale, bool loops, int64_t row, const float* table, int64_t width) {
    if (loops)
        sum.read(table + row * width, width);
    else
        sum.clear(width);
    add_row<false, Fetch>(sum, matrix, Dropout{}, row, OneTable<W>{table, width});
    if (scale) sum.scale(scale[row], width);
}

template <int H, bool Fetch> void hidden_rows(const LayerArguments& a, int64_t low, int64_t high) {
    for (int64_t row = low; row < high; ++row) {
        Row<H> sum;
        combine_row<H, Fetch>(sum, a.matrix, a.scale, a.loops, row, a.table, a.hidden_width);
        sum.add(a.bias, a.hidden_width);
        sum.keep_positive(a.hidden_width);
        sum.write(a.hidden + row * a.hidden_width, a.hidden_width);
    }
}

// The same where S is dense and the rows of S D are in `hidden` already.
template <int H> void gate_sums(const LayerArguments& a, int64_t low, int64_t high) {
    for (int64_t row = low; row < high; ++row) {
        Row<H> sum;
        sum.read(a.hidden + row * a.hidden_width, a.hidden_width);
        if (a.scale) sum.scale(a.scale[row], a.hidden_width);
        sum.add(a.bias, a.hidden_width);
        sum.keep_positive(a.hidden_width);
        sum.write(a.hidden + row * a.hidden_width, a.hidden_width);
    }
}

// Where the rows of an item begin: about as many entries each of a sparse S, as many rows of a dense one.
template <class Arguments> INLINE int64_t share_start(const Arguments& a, int64_t item, int64_t items) {
    return a.dense ? a.matrix.num_rows * item / items : item_start(a.matrix, item, items);
}

INLINE void scale_row(float* row, float factor, int64_t width) {
    for (int64_t n = 0; n < width; ++n) row[n] *= factor;
}

void forward_layer(const LayerArguments& a) {
    const Project project_rows = project_for(a.width), project_dense = project_for(a.hidden_width);
    const int64_t items = count_items(a.matrix, 8);
    l2g2g::parallel_for(items, [&](int64_t item, int) {
        const int64_t end = share_start(a, item + 1, items);
        for (int64_t low = share_start(a, item, items); low < end; low += kBlock) {
            const int64_t high = low + kBlock < end ? low + kBlock : end;
            if (a.dense) project_dense(a.dense + low * a.num_columns, high - low, a.num_columns, a.table, a.hidden_width, a.hidden + low * a.hidden_width);
            with_width(a.hidden_width, [&](auto h) {
                if (a.dense)
                    gate_sums<decltype(h)::value>(a, low, high);
                else if (a.num_columns * a.hidden_width > kNear)
                    hidden_rows<decltype(h)::value, true>(a, low, high);
                else
                    hidden_rows<decltype(h)::value, false>(a, low, high);
            });
            project_rows(a.hidden + low * a.hidden_width, high - low, a.hidden_width, a.weight, a.width, a.out + low * a.width);
            if (a.out_scale)
                for (int64_t row = low; row < high; ++row) scale_row(a.out + row * a.width, a.out_scale[row], a.width);
        }
    });
}

template <int H> void gate_rows(const LayerGradients& a, int64_t low, int64_t high, float* rows, float* of_bias, float* of_table) {
    Row<H> bias;
    bias.read(of_bias, a.hidden_width);
    for (int64_t row = low; row < high; ++row) {
        float* place = rows + (row - low) * a.hidden_width;
        Row<H> own;
        own.read(place, a.hidden_width);
        own.keep_where_positive(a.hidden + row * a.hidden_width, a.hidden_width);
        bias.add(own, a.hidden_width);
        if (a.scale) own.scale(a.scale[row], a.hidden_width);
        if (of_table && !a.dense) {
            for (int64_t entry = a.matrix.starts[row]; entry < a.matrix.ends[row]; ++entry)
                add_to_row<H>(of_table + a.matrix.indices[entry] * a.hidden_width, a.matrix.values ? a.matrix.values[entry] : 1.0f, own, a.hidden_width);
        } else {
            own.write(place, a.hidden_width);
        }
    }
    bias.write(of_bias, a.hidden_width);
}

// The gradient of H W of some rows, where a product follows it.
template <int W, bool Fetch> void pass_back(const LayerGradients& a, int64_t low, int64_t high, float* out) {
    for (int64_t row = low; row < high; ++row) {
        Row<W> sum;
        combine_row<W, Fetch>(sum, *a.through, a.through_scale, a.loops, row, a.gradient, a.width);
        sum.write(out + (row - low) * a.width, a.width);
    }
}

// The rows of the next block, so that this one's work hides their way from memory.
INLINE void fetch_ahead(const float* from, int64_t count) {
    for (int64_t n = 0; n < count; n += 16) __builtin_prefetch(from + n);
}

void backward_layer(const LayerGradients& a) {
    const Project project_rows = project_for(a.hidden_width);
    const AddOuter add_outer_rows = add_outer_for(a.width), add_outer_dense = add_outer_for(a.hidden_width);
    l2g2g::parallel_for(a.num_parts, [&](int64_t part, int) {
        alignas(64) float buffer[kBlock * kWidest], passed[kBlock * kWidest];
        float* of_bias = a.of_bias + part * a.hidden_width;
        float* of_weight = a.of_weight + part * a.hidden_width * a.width;
        float* of_table = a.of_table ? a.of_table + part * a.num_columns * a.hidden_width : nullptr;
        const auto start = [&](int64_t number) { return a.through ? item_start(*a.through, number, a.num_parts) : share_start(a, number, a.num_parts); };
        const int64_t end = start(part + 1);
        for (int64_t low = start(part); low < end; low += kBlock) {
            const int64_t high = low + kBlock < end ? low + kBlock : end;
            float* rows = of_table ? buffer : a.of_sums + low * a.hidden_width;
            fetch_ahead(a.hidden + high * a.hidden_width, (high + kBlock < end ? kBlock : end - high) * a.hidden_width);
            const float* gradient = a.through ? passed : a.gradient + low * a.width;
            if (a.through)
                with_width(a.width, [&](auto w) {
                    constexpr int W = decltype(w)::value;
                    a.matrix.num_rows * a.width > kNear ? pass_back<W, true>(a, low, high, passed) : pass_back<W, false>(a, low, high, passed);
                });
            project_rows(gradient, high - low, a.width, a.turned, a.hidden_width, rows);
            add_outer_rows(a.hidden + low * a.hidden_width, gradient, high - low, a.hidden_width, a.width, of_weight);
            with_width(a.hidden_width, [&](auto h) { gate_rows<decltype(h)::value>(a, low, high, rows, of_bias, of_table); });
            if (a.dense && of_table) add_outer_dense(a.dense + low * a.num_columns, rows, high - low, a.num_columns, a.hidden_width, of_table);
        }
    });
}

void move_rows(const MoveArguments& a) {
    const int64_t items = l2g2g::num_threads() == 1 || a.num_rows * a.width < 200000 ? 1 : 4 * l2g2g::num_threads();
    l2g2g::parallel_for(items, [&](int64_t item, int) {
        const int64_t low = a.num_rows * item / items, high = a.num_rows * (item + 1) / items;
        with_width(a.width, [&](auto w) {
            constexpr int W = decltype(w)::value;
            for (int64_t row = low; row < high; ++row) {
                Row<W> own;
                own.read(a.table + (a.order ? a.order[row] : row) * a.width, a.width);
                if (a.order && row + 16 < high) prefetch_row<W>(a.table + a.order[row + 16] * a.width);
                if (a.scale) own.scale(a.scale[row], a.width);
                if (a.add) own.add(a.out + row * a.width, a.width);
                own.write(a.out + row * a.width, a.width);
            }
        });
    });
}

void multiply_dense(const DenseArguments& a) {
    const Project project_rows = project_for(a.width);
    const int64_t blocks = (a.num_rows + kBlock - 1) / kBlock;
    parallel_for(blocks, [&](int64_t block, int) {
        const int64_t low = block * kBlock, high = low + kBlock < a.num_rows ? low + kBlock : a.num_rows;
        project_rows(a.rows + low * a.depth, high - low, a.depth, a.table, a.width, a.out + low * a.width);
        if (!a.added && !a.scale) return;
        for (int64_t row = low; row < high; ++row) {
            float* own = a.out + row * a.width;
            const float factor = a.scale ? a.scale[row] : 1.0f;
            for (int64_t n = 0; n < a.width; ++n) own[n] = factor * (own[n] + (a.added ? a.added[n] : 0.0f));
        }
    });
}

void multiply_dense_transposed(const DenseArguments& a) {
    const AddOuter add_outer_rows = add_outer_for(a.width);
    parallel_for(a.num_parts, [&](int64_t part, int) {
        const int64_t end = a.num_rows * (part + 1) / a.num_parts;
        for (int64_t low = a.num_rows * part / a.num_parts; low < end; low += kBlock) {
            const int64_t high = low + kBlock < end ? low + kBlock : end;
            add_outer_rows(a.rows + low * a.depth, a.table + low * a.width, high - low, a.depth, a.width, a.out + part * a.depth * a.width);
        }
    });
}

// sums[p] += the sum of the p-th part of the rows.
void sum_rows(const float* table, int64_t num_rows, int64_t width, int64_t num_parts, float* sums) {
    parallel_for(num_parts, [&](int64_t part, int) {
        with_width(width, [&](auto w) {
            Row<decltype(w)::value> own;
            own.read(sums + part * width, width);
            for (int64_t row = num_rows * part / num_parts; row < num_rows * (part + 1) / num_parts; ++row) own.add(table + row * width, width);
            own.write(sums + part * width, width);
        });
    });
}

}  // namespace
