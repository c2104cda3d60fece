// What the kernels take and how they are called: one table of functions for every instruction set.
#pragma once
#include <cstdint>

#define MEMBER inline __attribute__((always_inline))

namespace l2g2g {

struct Csr {
    const int64_t *starts, *ends;  // (num_rows,) entries of each row
    const int32_t* indices;
    const float* values;  // null: all ones
    int64_t num_rows, num_entries;
    bool ordered;  // whether the columns of every row ascend
};

// Keeps an entry of row r and column c where its hash reaches the threshold, scaled by `factor`; see hashing.hpp.
struct Dropout {
    const uint32_t* node_hashes;  // (num_rows,), or (num_columns,) where `by_column`
    uint64_t key;
    uint64_t threshold;  // 0 keeps all
    float factor;
    bool by_column;  // of a transpose: the entry is that of row c and column r
};

struct ProductArguments {
    Csr matrix;
    Dropout dropout;
    const float* table;
    int64_t num_columns, width;
    const float* scale;      // (num_rows,) factor of every sum; null: 1
    bool loops;              // whether row r of the table counts for row r of the result too
    const float* added;      // what is added to the scaled sum; null: nothing
    int64_t added_stride;    // 0: the same row for all
    bool scale_added;        // whether scale is applied after adding
    float* out;              // (num_rows, width)
};

// Widths of the two tables of `multiply_two`: the hidden layer and the vectors of the paper's encoder.
constexpr int kTwoWidths[2] = {32, 16};
struct TwoProductArguments {
    Csr matrix;
    Dropout dropout;
    const float* tables[2];  // (num_columns, 32) and (num_columns, 16)
    int64_t num_columns;
    float factor;            // of both sums
    const float* added[2];   // (32,) and (16,); null: nothing
    const float* scale;      // (num_rows,) factor of the first result; null: 1
    float* outs[2];          // (num_rows, 32) and (num_rows, 16)
};

struct TransposedArguments {
    Csr matrix;
    Dropout dropout;
    const float* dense;  // (num_rows, width)
    int64_t width, num_columns;
    int num_parts;
    float* sums;  // (num_parts, num_columns, width), zeros; the product is their sum
};

// A matrix of zeros and values[r] as bits, eight columns a byte, the first one lowest; rows are padded with zeros.
constexpr int64_t kBitPadding = 16;
struct BitArguments {
    const uint8_t* bits;     // (num_rows, num_bytes), num_bytes a multiple of kBitPadding
    const float* values;     // (num_rows,); null: 1
    int64_t num_rows, num_bytes, num_columns;
    const float* table;      // (num_columns, width); of the transpose (num_rows, width)
    int64_t width;
    float factor;            // of all sums
    const float* scale;      // these as in ProductArguments; not of the transpose
    const float* added;
    int64_t added_stride;
    bool scale_added;
    float* out;              // (num_rows, width); of the transpose (num_columns, width)
};

struct DropBitArguments {
    const uint8_t* bits;
    int64_t num_rows, num_bytes;
    const uint32_t* node_hashes;  // (num_rows,)
    uint64_t key, threshold;
    uint8_t* out;
};

struct LayerArguments {
    Csr matrix;          // S; of a dense one the number of rows only
    const float* dense;  // S where it is dense: (num_rows, num_columns); null where it is sparse
    const float* table;  // D: (num_columns, hidden)
    int64_t num_columns, hidden_width;
    const float* scale;  // (num_rows,) factor of the sums; null: 1
    bool loops;
    const float* bias;      // (hidden,)
    const float* weight;    // W: (hidden, width)
    int64_t width;
    const float* out_scale;  // (num_rows,) factor of the rows of H W; null: 1
    float* hidden;           // H: (num_rows, hidden)
    float* out;              // H W: (num_rows, width)
};

struct LayerGradients {
    Csr matrix;              // for sharing out rows, and for `of_table` where it is wanted
    const float* dense;      // as in LayerArguments
    const float* hidden;     // H
    int64_t hidden_width;
    const float* gradient;   // of H W: (num_rows, width); where `through` is given, of the product that follows, scaled by column
    int64_t width;
    const Csr* through;      // P: the gradient of H W is through_scale P' gradient, with P' = P, or P + I where loops; null: no product
    const float* through_scale;
    bool loops;
    const float* turned;     // Wᵀ: (width, hidden)
    const float* scale;      // (num_rows,) factor of the sums in the forward pass; null: 1
    int num_parts;
    float* of_sums;          // (num_rows, hidden) gradient of S D, scaled; null where of_table is wanted
    float* of_table;         // (num_parts, num_columns, hidden) gradient of D; zeros
    int64_t num_columns;
    float* of_bias;          // (num_parts, hidden); zeros
    float* of_weight;        // (num_parts, hidden, width); zeros
};

// out[r] = scale[r] table[order[r]] (+ what was there); order or scale may be null.
struct MoveArguments {
    const float* table;
    const int32_t* order;
    const float* scale;
    int64_t num_rows, width;
    bool add;
    float* out;
};

struct Tables {
    const float *left, *right;  // (num_rows, width); the same where the score is an inner product of one table
    float *of_left, *of_right;  // gradients; the same where the tables are
    int64_t width;
    float bias, sign;  // sign: 1 for edges, -1 for non-edges
};

struct Sums {
    double loss = 0, slope = 0;
};

// How pairs count: all alike, by their row, or each by itself.
struct Weights {
    const float* values;
    enum Kind { kScalar, kByRow, kByPair } kind;
    MEMBER float at(int64_t row, int64_t pair) const { return values[kind == kScalar ? 0 : kind == kByRow ? row : pair]; }
};

struct ArcArguments {
    Csr arcs;  // every pair in both directions
    Weights weights;
    Tables tables;  // of_left, of_right: written, not added to
    Sums* sums;     // (num_items,)
    int64_t num_items;
};

struct ListArguments {
    const int32_t *rows, *columns;  // (num_pairs,)
    int64_t num_pairs;
    Weights weights;
    Tables tables;        // of_left, of_right: (num_parts, num_rows, width) each, added to
    int64_t num_rows[2];  // of the left and of the right table
    int64_t num_parts;
    Sums* sums;  // (num_parts,)
};

// products[p] = table[rows[p]] * table[columns[p]], elementwise; and the gradient back to both ends.
struct EndsArguments {
    const float* table;
    const int32_t *rows, *columns;
    int64_t num_pairs, width;
    float* products;     // (num_pairs, width): written, or the gradient of the products
    float* of_table;     // (num_rows, width): added to
};

constexpr int64_t kTile = 16;      // rows of a tile, at most
constexpr int64_t kMeetings = 64;  // pairs of tiles that are one task

struct Round {
    int64_t first_row, num_rows;      // of the patch, in packed order
    int64_t first_tile, num_tiles;    // of the patch
    int64_t tile_size;                // rows of a tile; the last one may have fewer
    int64_t meeting, num_meetings;    // r, and the pairs of tiles that meet
    int64_t num_columns, shift;       // a row of tile I draws floor(((I + 1) num_columns + shift) / num_tiles) - the same of I - 1, at most tile_size
    uint64_t key;
    float weight, share;              // of a draw that counts; 1 / num_tiles
};

struct Excluded {
    const int64_t* starts;  // (num_tiles of all patches + 1,)
    const uint32_t* keys;   // of a tile, ascending: (kTile * tile of the column + place of the column in it) * kTile + row inside the tile
};

struct NegativeArguments {
    const Round* rounds;  // of different patches: their rows do not overlap
    int64_t num_rounds;
    const int64_t* first_task;  // (num_rounds + 1,) tasks of the rounds before
    Excluded excluded;
    const uint8_t* wanted;      // (num_rows,) packed rows to draw for; null: all
    const int32_t* order;       // (num_rows,) row of the tables at each packed place; null: the tables are in packed order
    Tables tables;              // gradients are added to
    Sums* sums;                 // (num_tasks,)
};

// The draws of the packed rows of a round, excluded ones left out. Returns how many were written.
struct ListDrawArguments {
    Round round;
    Excluded excluded;
    const uint8_t* wanted;    // (num_rows of all,) packed rows to draw for; null: all
    int32_t *rows, *columns;  // memory for all draws and one more; packed numbers
};

struct MaskArguments {
    const int64_t* indptr;
    const int32_t* indices;
    const float* values;          // weights of the entries; null: all ones
    const uint32_t* node_hashes;  // (num_columns,) of the columns' nodes
    const int32_t* groups;        // (num_columns,): only entries between groups are hidden; null: all may be
    int64_t num_rows, num_entries;
    int64_t first_row;  // row r has the node of column first_row + r
    uint64_t key;
    uint64_t hidden_below, scored_below;  // scored_below <= hidden_below
    int32_t* out_indices;                 // (num_entries,) rows as before: first what is visible, last what is scored
    float* out_values;                    // the same; null without values
    int64_t *visible_ends, *scored_starts;  // (num_rows,)
    float* scale;                         // (num_rows,) 1 / sqrt(1 + visible weights); null: not wanted
};

// out = values where the hash of (node of the row, column) reaches the threshold, scaled by factor; else 0. Dense rows.
struct DropArguments {
    const float* values;
    const uint32_t* node_hashes;
    int64_t num_rows, width;
    uint64_t key, threshold;
    float factor;
    float* out;
};

// out = scale (rows @ table + added): dense rows times a narrow table; and sums[p] += transpose(rows) @ dense of the p-th part.
struct DenseArguments {
    const float* rows;   // (num_rows, depth)
    int64_t num_rows, depth, width;
    const float* table;  // (depth, width), or dense: (num_rows, width)
    const float* added;  // (width,); null: nothing
    const float* scale;  // (num_rows,); null: 1
    int64_t num_parts;
    float* out;          // (num_rows, width), or sums: (num_parts, depth, width)
};

// One step of Adam (Kingma and Ba 2015) on `count` numbers; correction: 1 - beta^step of the means and of the squares.
struct AdamArguments {
    float *values, *means, *squares;
    const float* gradient;
    int64_t count;
    float rate, mean_correction, square_correction;
};

struct Kernels {
    const char* name;
    void (*multiply)(const ProductArguments&);
    void (*multiply_two)(const TwoProductArguments&);
    void (*multiply_transposed)(const TransposedArguments&);
    void (*multiply_bits)(const BitArguments&);
    void (*multiply_bits_transposed)(const BitArguments&);
    void (*drop_bits)(const DropBitArguments&);
    void (*forward_layer)(const LayerArguments&);
    void (*backward_layer)(const LayerGradients&);
    void (*move_rows)(const MoveArguments&);
    void (*multiply_dense)(const DenseArguments&);
    void (*multiply_dense_transposed)(const DenseArguments&);
    void (*sum_rows)(const float* table, int64_t num_rows, int64_t width, int64_t num_parts, float* sums);
    void (*score_arcs)(const ArcArguments&);
    void (*score_list)(const ListArguments&);
    void (*multiply_ends)(const EndsArguments&);
    void (*spread_to_ends)(const EndsArguments&);
    void (*score_negatives)(const NegativeArguments&);
    int64_t (*list_negatives)(const ListDrawArguments&);
    void (*split_masked)(const MaskArguments&);
    int64_t (*select_below)(const int32_t* columns, int64_t count, uint32_t own, const uint32_t* node_hashes, uint64_t key, uint64_t bound, int32_t* places);
    void (*drop_dense)(const DropArguments&);
    void (*step_adam)(const AdamArguments&);
    void (*hash_nodes)(const int32_t* nodes, int64_t count, uint64_t key, uint32_t* hashes);
    void (*hash_pairs)(const int32_t* one, const int32_t* other, int64_t count, uint64_t key, uint32_t* words);
};

extern const Kernels* active;  // of the instruction set that is chosen

const Kernels& kernels_generic();
#ifdef HAVE_avx2
const Kernels& kernels_avx2();
const Kernels& kernels_avx512();
#endif

}  // namespace l2g2g
