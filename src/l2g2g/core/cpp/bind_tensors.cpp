// Python's view of the kernels with vector code. Patterns are checked once, when they are made; tables at every call.
#include "arrays.hpp"

#include "arguments.hpp"
#include "pool.hpp"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <new>

#ifdef __linux__
#include <sys/mman.h>
#endif

namespace l2g2g {

const Kernels* active = nullptr;

namespace {

template <class T> using Cube = nb::ndarray<T, nb::ndim<3>, nb::c_contig, nb::device::cpu>;
template <class T> using Maybe = std::optional<T>;
constexpr int64_t kWidestTable = 512;

std::vector<const Kernels*> available() {
    std::vector<const Kernels*> found = {&kernels_generic()};
#ifdef HAVE_avx2
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2")) {
        found.push_back(&kernels_avx2());
        if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
            found.push_back(&kernels_avx512());
    }
#endif
    return found;
}

template <class T> const T* data(const Maybe<Vector<T>>& array) { return array ? array->data() : nullptr; }

void check_shape(bool holds, const char* what) { require(holds, what); }

// A CSR pattern or matrix whose rows may have gaps between them: the entries of row r are starts[r] to ends[r].
class CsrMatrix {
  public:
    CsrMatrix(Vector<int64_t> starts, Vector<int64_t> ends, Vector<int32_t> indices, Maybe<Vector<float>> values, int64_t num_columns, bool checked)
        : starts_(starts), ends_(ends), indices_(indices), values_(values), num_columns_(num_columns) {
        check_shape(starts.size() == ends.size(), "starts and ends must have the same length");
        check_shape(!values || values->size() == indices.size(), "values must be as many as indices");
        if (checked) return;
        const int64_t num_entries = static_cast<int64_t>(indices.size());
        const nb::gil_scoped_release release;
        int64_t before = 0;
        for (size_t row = 0; row < starts.size(); ++row) {
            if (starts.data()[row] < before || ends.data()[row] < starts.data()[row] || ends.data()[row] > num_entries)
                throw std::invalid_argument("rows must lie one after the other inside the entries");
            before = starts.data()[row];
        }
        check_indices(indices.data(), indices.size(), num_columns);
        ordered_ = true;
        for (size_t row = 0; row < starts.size() && ordered_; ++row)
            ordered_ = std::is_sorted(indices.data() + starts.data()[row], indices.data() + ends.data()[row]);
    }

    Csr csr() const {
        return {starts_.data(), ends_.data(), indices_.data(), data(values_), static_cast<int64_t>(starts_.size()), static_cast<int64_t>(indices_.size()), ordered_};
    }
    int64_t num_rows() const { return static_cast<int64_t>(starts_.size()); }
    int64_t num_columns() const { return num_columns_; }
    int64_t count() const {
        int64_t total = 0;
        for (size_t row = 0; row < starts_.size(); ++row) total += ends_.data()[row] - starts_.data()[row];
        return total;
    }

  private:
    Vector<int64_t> starts_, ends_;
    Vector<int32_t> indices_;
    Maybe<Vector<float>> values_;
    int64_t num_columns_;
    bool ordered_ = false;  // of a matrix that is not checked, nothing is known
};

Dropout make_dropout(const Maybe<Vector<uint32_t>>& hashes, uint64_t key, uint64_t threshold, float factor, int64_t num_hashes, bool by_column = false) {
    check_shape(threshold < (uint64_t{1} << 32), "the threshold must be below 2^32");
    check_shape(threshold == 0 || (hashes && static_cast<int64_t>(hashes->size()) == num_hashes), "dropout needs a node hash per row, or per column");
    return {data(hashes), key, threshold, factor, by_column};
}

void multiply(const CsrMatrix& matrix, Matrix<float> table, MatrixOut<float> out, Maybe<Vector<float>> scale, bool loops, Maybe<Matrix<float>> added,
              Maybe<Vector<uint32_t>> hashes, uint64_t key, uint64_t threshold, float factor, bool by_column, bool scale_added) {
    const int64_t rows = matrix.num_rows(), width = static_cast<int64_t>(table.shape(1));
    check_shape(static_cast<int64_t>(table.shape(0)) == matrix.num_columns(), "the table must have a row per column of the matrix");
    check_shape(static_cast<int64_t>(out.shape(0)) == rows && static_cast<int64_t>(out.shape(1)) == width, "out has the wrong shape");
    check_shape(width <= kWidestTable, "a table may have at most 512 columns");
    check_shape(!scale || static_cast<int64_t>(scale->size()) == rows, "scale must have a number per row");
    check_shape(!loops || matrix.num_columns() >= rows, "loops need a square matrix");
    check_shape(!loops || threshold == 0, "dropout is for matrices without loops");
    check_shape(!added || (static_cast<int64_t>(added->shape(1)) == width && (added->shape(0) == 1 || static_cast<int64_t>(added->shape(0)) == rows)),
                "added has the wrong shape");
    const ProductArguments arguments = {matrix.csr(), make_dropout(hashes, key, threshold, factor, by_column ? matrix.num_columns() : rows, by_column), table.data(), matrix.num_columns(), width, data(scale), loops,
                                        added ? added->data() : nullptr, added && added->shape(0) > 1 ? width : 0, scale_added, out.data()};
    const nb::gil_scoped_release release;
    if (width && rows) active->multiply(arguments);
}

void multiply_two(const CsrMatrix& matrix, Matrix<float> one, Matrix<float> two, MatrixOut<float> out_one, MatrixOut<float> out_two, float sum_factor, Maybe<Vector<float>> added_one,
                  Maybe<Vector<float>> added_two, Maybe<Vector<float>> scale, Maybe<Vector<uint32_t>> hashes, uint64_t key, uint64_t threshold, float factor, bool by_column) {
    const int64_t rows = matrix.num_rows(), columns = matrix.num_columns();
    const auto fits = [](const auto& table, int64_t length, int width) { return static_cast<int64_t>(table.shape(0)) == length && static_cast<int>(table.shape(1)) == width; };
    check_shape(fits(one, columns, kTwoWidths[0]) && fits(two, columns, kTwoWidths[1]), "the tables must have a row per column of the matrix, of 32 and 16 floats");
    check_shape(fits(out_one, rows, kTwoWidths[0]) && fits(out_two, rows, kTwoWidths[1]), "the results must have a row per row of the matrix, of 32 and 16 floats");
    check_shape((!added_one || added_one->size() == kTwoWidths[0]) && (!added_two || added_two->size() == kTwoWidths[1]), "what is added must have the width of its table");
    check_shape(!scale || static_cast<int64_t>(scale->size()) == rows, "scale must have a number per row");
    const TwoProductArguments arguments = {matrix.csr(), make_dropout(hashes, key, threshold, factor, by_column ? columns : rows, by_column), {one.data(), two.data()}, columns, sum_factor,
                                           {data(added_one), data(added_two)}, data(scale), {out_one.data(), out_two.data()}};
    const nb::gil_scoped_release release;
    if (rows) active->multiply_two(arguments);
}

void multiply_transposed(const CsrMatrix& matrix, Matrix<float> dense, Cube<float> sums, Maybe<Vector<uint32_t>> hashes, uint64_t key, uint64_t threshold,
                         float factor, bool by_column) {
    const int64_t rows = matrix.num_rows(), width = static_cast<int64_t>(dense.shape(1));
    check_shape(static_cast<int64_t>(dense.shape(0)) == rows, "dense must have a row per row of the matrix");
    check_shape(static_cast<int64_t>(sums.shape(1)) == matrix.num_columns() && static_cast<int64_t>(sums.shape(2)) == width && sums.shape(0) >= 1,
                "sums has the wrong shape");
    check_shape(width <= kWidestTable, "a table may have at most 512 columns");
    const TransposedArguments arguments = {matrix.csr(), make_dropout(hashes, key, threshold, factor, by_column ? matrix.num_columns() : rows, by_column), dense.data(), width, matrix.num_columns(),
                                           static_cast<int>(sums.shape(0)), sums.data()};
    const nb::gil_scoped_release release;
    if (width && rows) active->multiply_transposed(arguments);
}

// The checks that products with bits share.
BitArguments bit_arguments(const Matrix<uint8_t>& bits, const Maybe<Vector<float>>& values, const Matrix<float>& table, const MatrixOut<float>& out, float factor, int64_t num_columns) {
    const int64_t rows = static_cast<int64_t>(bits.shape(0)), bytes = static_cast<int64_t>(bits.shape(1)), width = static_cast<int64_t>(table.shape(1));
    check_shape(bytes % kBitPadding == 0 && bytes * 8 >= num_columns && bytes * 8 < num_columns + 8 * kBitPadding, "rows of bits must be padded to a multiple of 16 bytes");
    check_shape(!values || static_cast<int64_t>(values->size()) == rows, "values must be a number per row");
    check_shape(static_cast<int64_t>(out.shape(1)) == width, "out has the wrong shape");
    check_shape(width <= kWidestTable, "a table may have at most 512 columns");
    return {bits.data(), data(values), rows, bytes, num_columns, table.data(), width, factor, nullptr, nullptr, 0, false, out.data()};
}

void multiply_bits(Matrix<uint8_t> bits, Maybe<Vector<float>> values, Matrix<float> table, MatrixOut<float> out, float factor, Maybe<Vector<float>> scale, Maybe<Matrix<float>> added, bool scale_added) {
    BitArguments arguments = bit_arguments(bits, values, table, out, factor, static_cast<int64_t>(table.shape(0)));
    const int64_t rows = arguments.num_rows, width = arguments.width;
    check_shape(static_cast<int64_t>(out.shape(0)) == rows, "out has the wrong shape");
    check_shape(!scale || static_cast<int64_t>(scale->size()) == rows, "scale must have a number per row");
    check_shape(!added || (static_cast<int64_t>(added->shape(1)) == width && (added->shape(0) == 1 || static_cast<int64_t>(added->shape(0)) == rows)), "added has the wrong shape");
    arguments.scale = data(scale);
    arguments.added = added ? added->data() : nullptr;
    arguments.added_stride = added && added->shape(0) > 1 ? width : 0;
    arguments.scale_added = scale_added;
    const nb::gil_scoped_release release;
    if (width && rows && arguments.num_bytes) active->multiply_bits(arguments);
}

void multiply_bits_transposed(Matrix<uint8_t> bits, Maybe<Vector<float>> values, Matrix<float> dense, MatrixOut<float> out, float factor) {
    const BitArguments arguments = bit_arguments(bits, values, dense, out, factor, static_cast<int64_t>(out.shape(0)));
    check_shape(static_cast<int64_t>(dense.shape(0)) == arguments.num_rows, "dense must have a row per row of the matrix");
    const nb::gil_scoped_release release;
    if (arguments.width && arguments.num_bytes) active->multiply_bits_transposed(arguments);
}

void drop_bits(Matrix<uint8_t> bits, Vector<uint32_t> hashes, uint64_t key, uint64_t threshold, MatrixOut<uint8_t> out) {
    check_shape(bits.shape(0) == out.shape(0) && bits.shape(1) == out.shape(1) && hashes.size() == bits.shape(0), "out or the hashes have the wrong shape");
    check_shape(bits.shape(1) % kBitPadding == 0, "rows of bits must be padded to a multiple of 16 bytes");
    check_shape(threshold < (uint64_t{1} << 32), "the threshold must be below 2^32");
    const nb::gil_scoped_release release;
    active->drop_bits({bits.data(), static_cast<int64_t>(bits.shape(0)), static_cast<int64_t>(bits.shape(1)), hashes.data(), key, threshold, out.data()});
}

// The left factor of a layer: a sparse matrix, or a dense one, of which the kernels are told the number of rows.
struct Operand {
    explicit Operand(const CsrMatrix& matrix) : csr(matrix.csr()), dense(nullptr), num_columns(matrix.num_columns()) {}
    explicit Operand(const Matrix<float>& matrix) : csr{}, dense(matrix.data()), num_columns(static_cast<int64_t>(matrix.shape(1))) {
        csr.num_rows = static_cast<int64_t>(matrix.shape(0));
        csr.num_entries = static_cast<int64_t>(matrix.size());
    }
    Csr csr;
    const float* dense;
    int64_t num_columns;
};

template <class Left> void forward_layer(const Left& matrix, Matrix<float> table, Vector<float> bias, Matrix<float> weight, MatrixOut<float> hidden, MatrixOut<float> out,
                   Maybe<Vector<float>> scale, bool loops, Maybe<Vector<float>> out_scale) {
    const Operand left(matrix);
    const int64_t rows = left.csr.num_rows, inner = static_cast<int64_t>(table.shape(1)), width = static_cast<int64_t>(weight.shape(1));
    check_shape(static_cast<int64_t>(table.shape(0)) == left.num_columns, "the table must have a row per column of the matrix");
    check_shape(static_cast<int64_t>(bias.size()) == inner && static_cast<int64_t>(weight.shape(0)) == inner, "bias and weight must fit the table");
    check_shape(static_cast<int64_t>(hidden.shape(0)) == rows && static_cast<int64_t>(hidden.shape(1)) == inner, "hidden has the wrong shape");
    check_shape(static_cast<int64_t>(out.shape(0)) == rows && static_cast<int64_t>(out.shape(1)) == width, "out has the wrong shape");
    check_shape(inner > 0 && width > 0 && inner <= kWidestTable && width <= kWidestTable, "a layer has 1 to 512 columns");
    check_shape((!scale || static_cast<int64_t>(scale->size()) == rows) && (!out_scale || static_cast<int64_t>(out_scale->size()) == rows),
                "a scale must have a number per row");
    check_shape(!loops || (!left.dense && left.num_columns >= rows), "loops need a square sparse matrix");
    const LayerArguments arguments = {left.csr, left.dense, table.data(), left.num_columns, inner, data(scale), loops, bias.data(), weight.data(), width, data(out_scale), hidden.data(), out.data()};
    const nb::gil_scoped_release release;
    active->forward_layer(arguments);
}

template <class Left> void backward_layer(const Left& matrix, Matrix<float> hidden, Matrix<float> gradient, Matrix<float> turned, MatrixOut<float> of_bias, Cube<float> of_weight,
                    Maybe<MatrixOut<float>> of_sums, Maybe<Cube<float>> of_table, Maybe<Vector<float>> scale, const CsrMatrix* through, Maybe<Vector<float>> through_scale, bool loops) {
    const Operand left(matrix);
    const int64_t rows = left.csr.num_rows, inner = static_cast<int64_t>(hidden.shape(1)), width = static_cast<int64_t>(gradient.shape(1));
    const size_t parts = of_bias.shape(0);
    check_shape(static_cast<int64_t>(hidden.shape(0)) == rows && static_cast<int64_t>(gradient.shape(0)) == rows, "hidden and gradient must have a row per row");
    check_shape(static_cast<int64_t>(turned.shape(0)) == width && static_cast<int64_t>(turned.shape(1)) == inner, "turned has the wrong shape");
    check_shape(parts >= 1 && static_cast<int64_t>(of_bias.shape(1)) == inner, "of_bias has the wrong shape");
    check_shape(of_weight.shape(0) == parts && static_cast<int64_t>(of_weight.shape(1)) == inner && static_cast<int64_t>(of_weight.shape(2)) == width,
                "of_weight has the wrong shape");
    check_shape(of_sums.has_value() != of_table.has_value(), "give of_sums or of_table");
    check_shape(!of_sums || (static_cast<int64_t>(of_sums->shape(0)) == rows && static_cast<int64_t>(of_sums->shape(1)) == inner), "of_sums has the wrong shape");
    check_shape(!of_table || (of_table->shape(0) == parts && static_cast<int64_t>(of_table->shape(1)) == left.num_columns && static_cast<int64_t>(of_table->shape(2)) == inner),
                "of_table has the wrong shape");
    check_shape(inner > 0 && width > 0 && inner <= kWidestTable && width <= kWidestTable, "a layer has 1 to 512 columns");
    check_shape(!scale || static_cast<int64_t>(scale->size()) == rows, "scale must have a number per row");
    const Csr product = through ? through->csr() : Csr{};
    check_shape(!through || (product.num_rows == rows && through->num_columns() == rows), "through must be square, with a row per row");
    check_shape(!through_scale || (through && static_cast<int64_t>(through_scale->size()) == rows), "through_scale must have a number per row of through");
    const LayerGradients arguments = {left.csr, left.dense, hidden.data(), inner, gradient.data(), width, through ? &product : nullptr, data(through_scale), loops, turned.data(), data(scale),
                                      static_cast<int>(parts),
                                      of_sums ? of_sums->data() : nullptr, of_table ? of_table->data() : nullptr, left.num_columns, of_bias.data(), of_weight.data()};
    const nb::gil_scoped_release release;
    active->backward_layer(arguments);
}

void move_rows(Matrix<float> table, MatrixOut<float> out, Maybe<Vector<int32_t>> order, Maybe<Vector<float>> scale, bool add) {
    const size_t rows = out.shape(0);
    check_shape(table.shape(1) == out.shape(1) && static_cast<int64_t>(table.shape(1)) <= kWidestTable, "table and out must have the same width, at most 512");
    check_shape(order ? order->size() == rows : table.shape(0) == rows, "there must be a row for every row of out");
    check_shape(!scale || scale->size() == rows, "scale must have a number per row");
    const nb::gil_scoped_release release;
    if (order) check_indices(order->data(), rows, static_cast<int64_t>(table.shape(0)));
    active->move_rows({table.data(), data(order), data(scale), static_cast<int64_t>(rows), static_cast<int64_t>(table.shape(1)), add, out.data()});
}

void multiply_dense(Matrix<float> rows, Matrix<float> table, MatrixOut<float> out, Maybe<Vector<float>> added, Maybe<Vector<float>> scale) {
    check_shape(rows.shape(1) == table.shape(0) && static_cast<int64_t>(table.shape(1)) <= kWidestTable, "the table must have a row per column, and at most 512 columns");
    check_shape(out.shape(0) == rows.shape(0) && out.shape(1) == table.shape(1), "out has the wrong shape");
    check_shape((!added || added->size() == table.shape(1)) && (!scale || scale->size() == rows.shape(0)), "added or scale has the wrong length");
    const nb::gil_scoped_release release;
    active->multiply_dense({rows.data(), static_cast<int64_t>(rows.shape(0)), static_cast<int64_t>(rows.shape(1)), static_cast<int64_t>(table.shape(1)), table.data(), data(added),
                            data(scale), 1, out.data()});
}
void multiply_dense_transposed(Matrix<float> rows, Matrix<float> dense, Cube<float> sums) {
    check_shape(rows.shape(0) == dense.shape(0) && static_cast<int64_t>(dense.shape(1)) <= kWidestTable, "rows and dense must have as many rows, and dense at most 512 columns");
    check_shape(sums.shape(0) >= 1 && sums.shape(1) == rows.shape(1) && sums.shape(2) == dense.shape(1), "sums has the wrong shape");
    const nb::gil_scoped_release release;
    active->multiply_dense_transposed({rows.data(), static_cast<int64_t>(rows.shape(0)), static_cast<int64_t>(rows.shape(1)), static_cast<int64_t>(dense.shape(1)), dense.data(),
                                       nullptr, nullptr, static_cast<int64_t>(sums.shape(0)), sums.data()});
}

void sum_rows(Matrix<float> table, MatrixOut<float> sums) {
    check_shape(sums.shape(0) >= 1 && sums.shape(1) == table.shape(1) && static_cast<int64_t>(table.shape(1)) <= kWidestTable, "sums has the wrong shape");
    const nb::gil_scoped_release release;
    active->sum_rows(table.data(), static_cast<int64_t>(table.shape(0)), static_cast<int64_t>(table.shape(1)), static_cast<int64_t>(sums.shape(0)), sums.data());
}

struct Found {
    double loss, slope;
};
Found add_up(const std::vector<Sums>& sums) {
    Found total{0, 0};
    for (const Sums& part : sums) {
        total.loss += part.loss;
        total.slope += part.slope;
    }
    return total;
}
std::pair<double, double> as_pair(Found found) { return {found.loss, found.slope}; }

Weights make_weights(const Vector<float>& weights, int64_t num_rows, int64_t num_pairs, const std::string& kind) {
    const int64_t size = static_cast<int64_t>(weights.size());
    if (kind == "all") {
        require(size == 1, "weights must be one number");
        return {weights.data(), Weights::kScalar};
    }
    if (kind == "row") {
        require(size == num_rows, "weights must be one number per row");
        return {weights.data(), Weights::kByRow};
    }
    require(kind == "pair" && size == num_pairs, "weights must be one number per pair");
    return {weights.data(), Weights::kByPair};
}

Tables make_tables(const Matrix<float>& left, const Maybe<Matrix<float>>& right, float* of_left, float* of_right, float bias, float sign) {
    check_shape(!right || right->shape(1) == left.shape(1), "both tables must have the same width");
    check_shape(left.shape(1) >= 1 && static_cast<int64_t>(left.shape(1)) <= kWidestTable, "a table has 1 to 512 columns");
    return {left.data(), right ? right->data() : left.data(), of_left, of_right, static_cast<int64_t>(left.shape(1)), bias, sign};
}

std::pair<double, double> score_arcs(const CsrMatrix& arcs, Vector<float> weights, const std::string& kind, Matrix<float> left, Maybe<Matrix<float>> right, float bias,
                                     float sign, MatrixOut<float> of_left, Maybe<MatrixOut<float>> of_right) {
    check_shape(static_cast<int64_t>(left.shape(0)) == arcs.num_rows() && arcs.num_columns() == arcs.num_rows(), "the tables must have a row per row of the arcs");
    check_shape(of_left.shape(0) == left.shape(0) && of_left.shape(1) == left.shape(1), "of_left has the wrong shape");
    check_shape(right.has_value() == of_right.has_value(), "right needs of_right");
    check_shape(!right || (right->shape(0) == left.shape(0) && of_right->shape(0) == left.shape(0) && of_right->shape(1) == left.shape(1)), "of_right has the wrong shape");
    const Csr csr = arcs.csr();
    const Weights own = make_weights(weights, csr.num_rows, csr.num_entries, kind);
    const Tables tables = make_tables(left, right, of_left.data(), right ? of_right->data() : of_left.data(), bias, sign);
    const nb::gil_scoped_release release;
    const int64_t items = csr.num_entries < 20000 ? 1 : 64;  // the same for any number of threads, and so are the sums
    std::vector<Sums> sums(static_cast<size_t>(items));
    active->score_arcs({csr, own, tables, sums.data(), items});
    return as_pair(add_up(sums));
}

std::pair<double, double> score_list(Vector<int32_t> rows, Vector<int32_t> columns, Vector<float> weights, const std::string& kind, Matrix<float> left, Maybe<Matrix<float>> right,
                                     float bias, float sign, Cube<float> of_left, Maybe<Cube<float>> of_right) {
    const size_t parts = of_left.shape(0), num_right = right ? right->shape(0) : left.shape(0);
    check_shape(rows.size() == columns.size(), "rows and columns must be as many");
    check_shape(parts >= 1 && of_left.shape(1) == left.shape(0) && of_left.shape(2) == left.shape(1), "of_left has the wrong shape");
    check_shape(right.has_value() == of_right.has_value(), "right needs of_right");
    check_shape(!right || (of_right->shape(0) == parts && of_right->shape(1) == num_right && of_right->shape(2) == left.shape(1)), "of_right has the wrong shape");
    const Weights own = make_weights(weights, static_cast<int64_t>(left.shape(0)), static_cast<int64_t>(rows.size()), kind);
    const Tables tables = make_tables(left, right, of_left.data(), right ? of_right->data() : of_left.data(), bias, sign);
    const nb::gil_scoped_release release;
    check_indices(rows.data(), rows.size(), static_cast<int64_t>(left.shape(0)));
    check_indices(columns.data(), columns.size(), static_cast<int64_t>(num_right));
    std::vector<Sums> sums(parts);
    active->score_list({rows.data(), columns.data(), static_cast<int64_t>(rows.size()), own, tables, {static_cast<int64_t>(left.shape(0)), static_cast<int64_t>(num_right)},
                        static_cast<int64_t>(parts), sums.data()});
    return as_pair(add_up(sums));
}

void check_ends(const Matrix<float>& table, const Vector<int32_t>& rows, const Vector<int32_t>& columns, size_t num_products, size_t width) {
    check_shape(rows.size() == columns.size() && rows.size() == num_products && width == table.shape(1), "rows, columns and products must be as many");
    check_indices(rows.data(), rows.size(), static_cast<int64_t>(table.shape(0)));
    check_indices(columns.data(), columns.size(), static_cast<int64_t>(table.shape(0)));
}
void multiply_ends(Matrix<float> table, Vector<int32_t> rows, Vector<int32_t> columns, MatrixOut<float> products) {
    check_ends(table, rows, columns, products.shape(0), products.shape(1));
    const nb::gil_scoped_release release;
    active->multiply_ends({table.data(), rows.data(), columns.data(), static_cast<int64_t>(rows.size()), static_cast<int64_t>(table.shape(1)), products.data(), nullptr});
}
void spread_to_ends(MatrixOut<float> of_table, Matrix<float> table, Vector<int32_t> rows, Vector<int32_t> columns, MatrixOut<float> of_products) {
    check_ends(table, rows, columns, of_products.shape(0), of_products.shape(1));
    check_shape(of_table.shape(0) == table.shape(0) && of_table.shape(1) == table.shape(1), "of_table has the wrong shape");
    const nb::gil_scoped_release release;
    active->spread_to_ends({table.data(), rows.data(), columns.data(), static_cast<int64_t>(rows.size()), static_cast<int64_t>(table.shape(1)), of_products.data(), of_table.data()});
}

// A float table on large pages where it is large: its rows are read in random order.
class AlignedTable {
  public:
    float* get(size_t count) {
        if (count > size_) {
            memory_.reset(static_cast<float*>(::operator new[](count * sizeof(float), std::align_val_t{kPage})));
            size_ = count;
#ifdef __linux__
            if (count * sizeof(float) >= 2 * kPage) madvise(memory_.get(), count * sizeof(float), MADV_HUGEPAGE);
#endif
        }
        return memory_.get();
    }

  private:
    static constexpr size_t kPage = size_t{1} << 21;
    struct Delete {
        void operator()(float* p) const { ::operator delete[](p, std::align_val_t{kPage}); }
    };
    std::unique_ptr<float[], Delete> memory_;
    size_t size_ = 0;
};

// A table whose memory begins with a cache line, so that a row of 16 floats is one line. Large ones ask for large pages.
using Table = nb::ndarray<nb::numpy, float, nb::c_contig>;
Table blank_table(const std::vector<size_t>& shape) {
    constexpr std::align_val_t line{64};
    constexpr size_t page = size_t{1} << 21;
    size_t bytes = sizeof(float);
    for (const size_t length : shape) {
        check_shape(length == 0 || bytes <= (size_t{1} << 48) / length, "the table is too large");
        bytes *= length;
    }
    float* memory = static_cast<float*>(::operator new[](bytes > 64 ? bytes : 64, line));
#ifdef __linux__
    if (bytes >= 2 * page) {
        const uintptr_t first = (reinterpret_cast<uintptr_t>(memory) + page - 1) / page * page, last = reinterpret_cast<uintptr_t>(memory) + bytes;
        madvise(reinterpret_cast<void*>(first), last - first, MADV_HUGEPAGE);
    }
#endif
    nb::capsule owner(memory, [](void* p) noexcept { ::operator delete[](static_cast<float*>(p), line); });
    return Table(memory, shape.size(), shape.data(), owner);
}

// 64 random bits at a position of a stream: `random_words` of core/randomness.py.
uint64_t random_word(uint64_t key, uint64_t position) {
    uint64_t value = key + (position + 1) * 0x9e3779b97f4a7c15ull;
    value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9ull;
    value = (value ^ (value >> 27)) * 0x94d049bb133111ebull;
    return value ^ (value >> 31);
}
int64_t scale_word(uint64_t word, int64_t bound) { return static_cast<int64_t>(((word >> 32) * static_cast<uint64_t>(bound)) >> 32); }

// The negatives of some stacked patches, see negatives.hpp and `DrawPlan`.
class PackedNegatives {
  public:
    PackedNegatives(Vector<int64_t> indptr, Vector<int32_t> columns, Vector<int64_t> offsets, Vector<int64_t> num_columns, Vector<int64_t> num_rounds, Vector<float> weights,
                    Vector<int32_t> order, Vector<int32_t> places)
        : offsets_(offsets), num_columns_(num_columns), num_rounds_(num_rounds), weights_(weights), order_(order), places_(places) {
        const size_t patches = weights.size(), rows = order.size();
        check_shape(indptr.size() == rows + 1 && places.size() == rows, "there must be excluded columns and a place per row");
        check_indptr(indptr.data(), indptr.size(), columns.size());
        check_shape(offsets.size() == patches + 1 && num_columns.size() == patches && num_rounds.size() == patches, "there must be a number of columns and of rounds and a weight per patch");
        check_shape(offsets.data()[0] == 0 && offsets.data()[patches] == num_rows(), "patches must cover the rows");
        check_shape(rows < (size_t{1} << 31) - 4096, "too many rows");
        check_indices(order.data(), rows, num_rows());
        check_indices(places.data(), rows, num_rows());
        first_tile_.push_back(0);
        for (size_t patch = 0; patch < patches; ++patch) {
            const int64_t size = offsets.data()[patch + 1] - offsets.data()[patch], drawn = num_columns.data()[patch], rounds = num_rounds.data()[patch];
            check_shape(size >= 0 && size < (int64_t{1} << 28), "a patch lies outside the rows, or has too many");
            const int64_t wanted = (size + kTile - 1) / kTile, tile = wanted ? (size + wanted - 1) / wanted : 1;
            tile_sizes_.push_back(tile);
            first_tile_.push_back(first_tile_.back() + (size + tile - 1) / tile);
            check_shape(drawn >= 0 && rounds >= 1 && drawn < (int64_t{1} << 36) && drawn <= rounds * tile * num_tiles(patch), "a patch has an impossible number of draws");
            is_packed_ |= rounds > 2;
        }
        exclude(indptr.data(), columns.data());
    }

    // Adds the gradient of the negatives of an epoch to of_left and of_right; wanted: (num_rows,) uint8 by row, only those of
    // these rows.
    std::pair<double, double> score(Vector<uint64_t> keys, Matrix<float> left, Maybe<Matrix<float>> right, float bias, MatrixOut<float> of_left, Maybe<MatrixOut<float>> of_right,
                                    Maybe<Vector<uint8_t>> wanted) {
        check_shape(!wanted || static_cast<int64_t>(wanted->size()) == num_rows(), "wanted must have a number per row");
        check_shape(keys.size() == weights_.size(), "there must be a key per patch");
        check_shape(static_cast<int64_t>(left.shape(0)) == num_rows(), "the tables must have a row per row");
        check_shape(of_left.shape(0) == left.shape(0) && of_left.shape(1) == left.shape(1), "of_left has the wrong shape");
        check_shape(right.has_value() == of_right.has_value(), "right needs of_right");
        check_shape(!right || (right->shape(0) == left.shape(0) && of_right->shape(0) == left.shape(0) && of_right->shape(1) == left.shape(1)), "of_right has the wrong shape");
        Tables tables = make_tables(left, right, of_left.data(), right ? of_right->data() : of_left.data(), bias, -1.0f);
        const nb::gil_scoped_release release;
        const std::lock_guard<std::mutex> lock(mutex_);  // the memory below serves one caller at a time
        const std::vector<uint8_t> chosen = in_packed_order(wanted);
        const Tables given = tables;
        const size_t count = static_cast<size_t>(num_rows() * tables.width);
        if (is_packed_) {
            pack(given.left, count, tables.width, packed_[0], packed_[1]);
            if (right) pack(given.right, count, tables.width, packed_[2], packed_[3]);
            tables.left = packed_[0].get(count);
            tables.of_left = packed_[1].get(count);
            tables.right = right ? packed_[2].get(count) : tables.left;
            tables.of_right = right ? packed_[3].get(count) : tables.of_left;
        }
        Found total{0, 0};
        for (int64_t turn = 0;; ++turn) {
            const std::vector<Round> rounds = rounds_of(keys.data(), turn);
            if (rounds.empty()) break;
            std::vector<int64_t> first_task = {0};
            for (const Round& round : rounds) first_task.push_back(first_task.back() + (round.num_meetings + kMeetings - 1) / kMeetings);
            std::vector<Sums> sums(static_cast<size_t>(first_task.back()));
            active->score_negatives({rounds.data(), static_cast<int64_t>(rounds.size()), first_task.data(), excluded(), wanted ? chosen.data() : nullptr, is_packed_ ? nullptr : order_.data(), tables,
                                     sums.data()});
            const Found found = add_up(sums);
            total.loss += found.loss;
            total.slope += found.slope;
        }
        if (!is_packed_) return as_pair(total);
        active->move_rows({tables.of_left, places_.data(), nullptr, num_rows(), tables.width, true, given.of_left});
        if (right) active->move_rows({tables.of_right, places_.data(), nullptr, num_rows(), tables.width, true, given.of_right});
        return as_pair(total);
    }

    // (rows, columns) of the pairs that an epoch draws; wanted: (num_rows,) uint8 by row, only these rows.
    std::pair<NewVector<int32_t>, NewVector<int32_t>> list(Vector<uint64_t> keys, Maybe<Vector<uint8_t>> wanted) {
        check_shape(keys.size() == weights_.size(), "there must be a key per patch");
        check_shape(!wanted || static_cast<int64_t>(wanted->size()) == num_rows(), "wanted must have a number per row");
        std::vector<int32_t> rows, columns;
        {
            const nb::gil_scoped_release release;
            const std::vector<uint8_t> chosen = in_packed_order(wanted);
            for (int64_t turn = 0;; ++turn) {
                const std::vector<Round> rounds = rounds_of(keys.data(), turn);
                if (rounds.empty()) break;
                for (const Round& round : rounds) {
                    const size_t before = rows.size();
                    rows.resize(before + static_cast<size_t>(round.num_columns * kTile) + 1);
                    columns.resize(rows.size());
                    const int64_t count = active->list_negatives({round, excluded(), wanted ? chosen.data() : nullptr, rows.data() + before, columns.data() + before});
                    rows.resize(before + static_cast<size_t>(count));
                    columns.resize(rows.size());
                }
            }
            for (size_t pair = 0; pair < rows.size(); ++pair) {
                rows[pair] = order_.data()[rows[pair]];
                columns[pair] = order_.data()[columns[pair]];
            }
        }
        return {to_numpy(std::move(rows)), to_numpy(std::move(columns))};
    }

  private:
    int64_t num_rows() const { return static_cast<int64_t>(order_.size()); }
    int64_t num_tiles(size_t patch) const { return first_tile_[patch + 1] - first_tile_[patch]; }
    std::vector<uint8_t> in_packed_order(const Maybe<Vector<uint8_t>>& wanted) const {
        std::vector<uint8_t> chosen(wanted ? static_cast<size_t>(num_rows()) : 0);
        for (size_t place = 0; place < chosen.size(); ++place) chosen[place] = wanted->data()[order_.data()[place]];
        return chosen;
    }
    Excluded excluded() const { return {starts_.data(), keys_.data()}; }

    // The excluded pairs of every tile by column: its rows' lists, merged two by two.
    void exclude(const int64_t* indptr, const int32_t* columns) {
        starts_.assign(1, 0);
        for (size_t patch = 0; patch < weights_.size(); ++patch)
            for (int64_t tile = 1; tile <= num_tiles(patch); ++tile) starts_.push_back(indptr[std::min(offsets_.data()[patch] + tile * tile_sizes_[patch], offsets_.data()[patch + 1])]);
        keys_.resize(static_cast<size_t>(starts_.back()));
        std::atomic<bool> leaves{false};
        for (size_t patch = 0; patch < weights_.size(); ++patch) {
            const int64_t first = offsets_.data()[patch], last = offsets_.data()[patch + 1], size = tile_sizes_[patch];
            parallel_for(num_tiles(patch), [&](int64_t tile, int) {
                thread_local std::vector<uint32_t> one, other;
                int64_t bounds[kTile + 1];
                for (int64_t lane = 0; lane <= kTile; ++lane) bounds[lane] = indptr[std::min(first + tile * size + std::min(lane, size), last)];
                const int64_t begin = bounds[0];
                for (int64_t& bound : bounds) bound -= begin;
                one.resize(static_cast<size_t>(bounds[kTile]));
                other.resize(one.size());
                for (int64_t lane = 0; lane < kTile; ++lane)
                    for (int64_t entry = bounds[lane]; entry < bounds[lane + 1]; ++entry) {
                        const int64_t column = columns[begin + entry] - first;
                        if (column < 0 || column >= last - first) leaves = true;
                        one[static_cast<size_t>(entry)] = static_cast<uint32_t>((column / size * kTile + column % size) * kTile + lane);
                    }
                for (int64_t step = 1; step < kTile; step *= 2, one.swap(other))
                    for (int64_t lane = 0; lane < kTile; lane += 2 * step) {
                        const auto at = [&](int64_t row) { return one.begin() + bounds[row]; };
                        std::merge(at(lane), at(lane + step), at(lane + step), at(lane + 2 * step), other.begin() + bounds[lane]);
                    }
                std::copy(one.begin(), one.end(), keys_.begin() + begin);
            });
        }
        check_shape(!leaves, "an excluded pair leaves its patch");
    }
    void pack(const float* table, size_t count, int64_t width, AlignedTable& packed, AlignedTable& gradient) {
        active->move_rows({table, order_.data(), nullptr, num_rows(), width, false, packed.get(count)});
        std::fill_n(gradient.get(count), count, 0.0f);
    }

    // The rounds of a turn, one per patch that has so many: `DrawPlan.rounds`.
    std::vector<Round> rounds_of(const uint64_t* keys, int64_t turn) const {
        std::vector<Round> rounds;
        for (size_t patch = 0; patch < weights_.size(); ++patch) {
            const int64_t first = offsets_.data()[patch], size = offsets_.data()[patch + 1] - first, tiles = num_tiles(patch);
            const int64_t drawn = num_columns_.data()[patch], turns = num_rounds_.data()[patch];
            if (turn >= turns || drawn == 0 || size == 0) continue;
            const uint64_t key = keys[patch], position = static_cast<uint64_t>(2 * turn);
            const int64_t meeting = (scale_word(random_word(key, 0), tiles) + turn) % tiles;
            rounds.push_back({first, size, first_tile_[patch], tiles, tile_sizes_[patch], meeting, meeting / 2 + 1 + (meeting + tiles) / 2 - meeting, drawn * (turn + 1) / turns - drawn * turn / turns,
                              scale_word(random_word(key, position + 1), tiles), random_word(key, position + 2), weights_.data()[patch],
                              1.0f / static_cast<float>(tiles)});
        }
        return rounds;
    }

    Vector<int64_t> offsets_, num_columns_, num_rounds_;
    Vector<float> weights_;
    Vector<int32_t> order_, places_;
    std::vector<int64_t> first_tile_;  // (num_patches + 1,)
    std::vector<int64_t> tile_sizes_;  // (num_patches,) `_cut_tiles` of models/sampling.py
    std::vector<int64_t> starts_;
    std::vector<uint32_t> keys_;
    bool is_packed_ = false;  // whether tables are copied in packed order: it pays where rows are read in several rounds
    AlignedTable packed_[4];
    std::mutex mutex_;
};

void split_masked(const CsrMatrix& adjacency, Vector<int64_t> indptr, Vector<uint32_t> hashes, Maybe<Vector<int32_t>> groups, uint64_t key, uint64_t hidden_below,
                  uint64_t scored_below, VectorOut<int32_t> out_indices, Maybe<VectorOut<float>> out_values, VectorOut<int64_t> visible_ends, VectorOut<int64_t> scored_starts,
                  Maybe<VectorOut<float>> scale, int64_t first_row) {
    const Csr csr = adjacency.csr();
    const size_t rows = static_cast<size_t>(csr.num_rows), columns = static_cast<size_t>(adjacency.num_columns());
    check_shape(csr.starts == indptr.data() && indptr.size() == rows + 1, "indptr must be that of the adjacency");
    check_shape(first_row >= 0 && static_cast<size_t>(first_row) + rows <= columns, "every row must be one of the columns");
    check_shape(hashes.size() == columns && (!groups || groups->size() == columns), "there must be a hash and a group per column");
    check_shape(static_cast<int64_t>(out_indices.size()) == csr.num_entries && (csr.values == nullptr) == !out_values.has_value(), "out_indices or out_values has the wrong length");
    check_shape(!out_values || static_cast<int64_t>(out_values->size()) == csr.num_entries, "out_values has the wrong length");
    check_shape(visible_ends.size() == rows && scored_starts.size() == rows && (!scale || scale->size() == rows), "there must be a number per row");
    check_shape(scored_below <= hidden_below, "only hidden entries are scored");
    const nb::gil_scoped_release release;
    active->split_masked({indptr.data(), csr.indices, csr.values, hashes.data(), data(groups), csr.num_rows, csr.num_entries, first_row, key, hidden_below, scored_below, out_indices.data(),
                          out_values ? out_values->data() : nullptr, visible_ends.data(), scored_starts.data(), scale ? scale->data() : nullptr});
}

void hash_nodes(Vector<int32_t> nodes, uint64_t key, VectorOut<uint32_t> out) {
    check_shape(nodes.size() == out.size(), "out must have a number per node");
    const nb::gil_scoped_release release;
    active->hash_nodes(nodes.data(), static_cast<int64_t>(nodes.size()), key, out.data());
}
void hash_pairs(Vector<int32_t> one, Vector<int32_t> other, uint64_t key, VectorOut<uint32_t> out) {
    check_shape(one.size() == out.size() && other.size() == out.size(), "out must have a number per pair");
    const nb::gil_scoped_release release;
    active->hash_pairs(one.data(), other.data(), static_cast<int64_t>(one.size()), key, out.data());
}
void drop_dense(Matrix<float> values, Vector<uint32_t> hashes, uint64_t key, uint64_t threshold, float factor, MatrixOut<float> out) {
    check_shape(values.shape(0) == out.shape(0) && values.shape(1) == out.shape(1) && hashes.size() == values.shape(0), "out or the hashes have the wrong shape");
    check_shape(threshold < (uint64_t{1} << 32), "the threshold must be below 2^32");
    const nb::gil_scoped_release release;
    active->drop_dense({values.data(), hashes.data(), static_cast<int64_t>(values.shape(0)), static_cast<int64_t>(values.shape(1)), key, threshold, factor, out.data()});
}

void step_adam(VectorOut<float> values, Vector<float> gradient, VectorOut<float> means, VectorOut<float> squares, float rate, float mean_correction, float square_correction) {
    const size_t count = values.size();
    check_shape(gradient.size() == count && means.size() == count && squares.size() == count, "parameters, gradient and moments must be as many");
    const nb::gil_scoped_release release;
    active->step_adam({values.data(), means.data(), squares.data(), gradient.data(), static_cast<int64_t>(count), rate, mean_correction, square_correction});
}

}  // namespace

void bind_tensors(nb::module_& module) {
    active = available().back();
    module.def("instruction_sets", [] {
        std::vector<std::string> names;
        for (const Kernels* each : available()) names.emplace_back(each->name);
        return names;
    }, "Instruction sets that this CPU and this build have, the best one last.");
    module.def("instruction_set", [] { return std::string(active->name); }, "The instruction set that kernels use.");
    module.def("set_instruction_set", [](const std::string& name) {
        for (const Kernels* each : available())
            if (name == each->name) {
                active = each;
                return;
            }
        throw std::invalid_argument("this CPU or this build does not have the instruction set " + name);
    }, "name"_a, "Choose the instruction set of all kernels.");

    nb::class_<CsrMatrix>(module, "Csr", R"(A constant CSR matrix or pattern, checked once.

starts, ends: (num_rows,) int64, the entries of each row, starts ascending. indices: (num_entries,) int32 columns.
values: (num_entries,) float32, or None where all are 1. num_columns: columns are below it.
checked: skip the checks, for patterns that a kernel made.)")
        .def(nb::init<Vector<int64_t>, Vector<int64_t>, Vector<int32_t>, Maybe<Vector<float>>, int64_t, bool>(), "starts"_a.noconvert(), "ends"_a.noconvert(),
             "indices"_a.noconvert(), "values"_a.noconvert().none(), "num_columns"_a, "checked"_a = false)
        .def_prop_ro("num_rows", &CsrMatrix::num_rows, "Rows.")
        .def_prop_ro("num_columns", &CsrMatrix::num_columns, "Columns.")
        .def("count", &CsrMatrix::count, "Entries of all rows.");

    module.def("blank_table", &blank_table, "shape"_a, "A float32 array with undefined contents, aligned to a cache line.");
    module.def("multiply", &multiply, "matrix"_a, "table"_a.noconvert(), "out"_a.noconvert(), "scale"_a.noconvert().none() = nb::none(), "loops"_a = false,
               "added"_a.noconvert().none() = nb::none(), "node_hashes"_a.noconvert().none() = nb::none(), "key"_a = 0, "threshold"_a = 0, "factor"_a = 1.0f, "by_column"_a = false,
               "scale_added"_a = false,
               R"(out = added + scale * (matrix @ table + table where loops), or scale * (added + ...) with scale_added.

matrix: Csr (rows, columns). table: (columns, width) float32. out: (rows, width) float32. scale: (rows,) float32.
loops: whether row r of the table counts for row r. added: (1, width) or (rows, width) float32.
node_hashes, key, threshold, factor: dropout; entries whose hash is below the threshold are left out, the others scaled.
by_column: the node hashes are those of the columns; the matrix is the transpose of one that is thinned by rows.)");
    module.attr("two_widths") = nb::make_tuple(kTwoWidths[0], kTwoWidths[1]);
    module.def("multiply_two", &multiply_two, "matrix"_a, "one"_a.noconvert(), "two"_a.noconvert(), "out_one"_a.noconvert(), "out_two"_a.noconvert(), "sum_factor"_a = 1.0f,
               "added_one"_a.noconvert().none() = nb::none(), "added_two"_a.noconvert().none() = nb::none(), "scale"_a.noconvert().none() = nb::none(), "node_hashes"_a.noconvert().none() = nb::none(),
               "key"_a = 0, "threshold"_a = 0, "factor"_a = 1.0f, "by_column"_a = false,
               R"(out_one = scale * (added_one + sum_factor * matrix @ one) and out_two = added_two + sum_factor * matrix @ two, reading the matrix once.

matrix: Csr (rows, columns). one, two: (columns, 32) and (columns, 16) float32. out_one, out_two: (rows, 32) and (rows, 16) float32.
added_one, added_two: (32,) and (16,) float32. scale: (rows,) float32. The rest: dropout, as for `multiply`.)");
    module.def("multiply_transposed", &multiply_transposed, "matrix"_a, "dense"_a.noconvert(), "sums"_a.noconvert(), "node_hashes"_a.noconvert().none() = nb::none(),
               "key"_a = 0, "threshold"_a = 0, "factor"_a = 1.0f, "by_column"_a = false,
               R"(sums[p] += what the p-th part of the rows gives to transpose(matrix) @ dense; the product is their sum.

dense: (rows, width) float32. sums: (parts, columns, width) float32. The rest: dropout, as for `multiply`.)");
    module.attr("bit_padding") = kBitPadding;
    module.def("multiply_bits", &multiply_bits, "bits"_a.noconvert(), "values"_a.noconvert().none(), "table"_a.noconvert(), "out"_a.noconvert(), "factor"_a = 1.0f,
               "scale"_a.noconvert().none() = nb::none(), "added"_a.noconvert().none() = nb::none(), "scale_added"_a = false,
               R"(out = added + scale * factor * matrix @ table, or scale * (added + factor * matrix @ table) with scale_added.

matrix: values[r] where bit c of row r is set. bits: (rows, bytes) uint8, eight columns a byte, the first one lowest, padded with
zeros to a multiple of `bit_padding` bytes. values: (rows,) float32, or None where all are 1. table: (columns, width) float32. out: (rows, width) float32.
scale: (rows,) float32. added: (1, width) or (rows, width) float32.)");
    module.def("multiply_bits_transposed", &multiply_bits_transposed, "bits"_a.noconvert(), "values"_a.noconvert().none(), "dense"_a.noconvert(), "out"_a.noconvert(), "factor"_a = 1.0f,
               R"(out = factor * transpose(matrix) @ dense. dense: (rows, width) float32. out: (columns, width) float32. The rest: as for `multiply_bits`.)");
    module.def("drop_bits", &drop_bits, "bits"_a.noconvert(), "node_hashes"_a.noconvert(), "key"_a, "threshold"_a, "out"_a.noconvert(),
               "The bits that dropout keeps, those that `multiply` keeps as entries. bits, out: (rows, bytes) uint8; node_hashes: (rows,) uint32.");
    const auto define_layers = [&]<class Left>(std::type_identity<Left>, auto left) {
        module.def("forward_layer", &forward_layer<Left>, left, "table"_a.noconvert(), "bias"_a.noconvert(), "weight"_a.noconvert(), "hidden"_a.noconvert(), "out"_a.noconvert(),
                   "scale"_a.noconvert().none() = nb::none(), "loops"_a = false, "out_scale"_a.noconvert().none() = nb::none(),
                   R"(hidden = ReLU(scale * (matrix @ table + table where loops) + bias); out = out_scale * (hidden @ weight).

matrix: Csr, or a dense array without loops: (rows, columns). table: (columns, inner). bias: (inner,). weight: (inner,
width). hidden: (rows, inner). out: (rows, width). scale, out_scale: (rows,). All float32; inner and width at most 512.)");
        module.def("backward_layer", &backward_layer<Left>, left, "hidden"_a.noconvert(), "gradient"_a.noconvert(), "turned"_a.noconvert(), "of_bias"_a.noconvert(),
                   "of_weight"_a.noconvert(), "of_sums"_a.noconvert().none() = nb::none(), "of_table"_a.noconvert().none() = nb::none(),
                   "scale"_a.noconvert().none() = nb::none(), "through"_a.none() = nb::none(), "through_scale"_a.noconvert().none() = nb::none(), "loops"_a = false,
                   R"(The gradients of what `forward_layer` took, from that of hidden @ weight.

gradient: (rows, width). through: (rows, rows), the gradient is through_scale * (through @ gradient), or with loops
through_scale * (gradient + through @ gradient). turned: (width, inner) the transpose of weight. of_bias: (parts, inner), of_weight: (parts, inner,
width), both zeros: sums of each part of the rows. of_sums: (rows, inner) gradient of matrix @ table, times scale; or
of_table: (parts, columns, inner) zeros, gradient of the table.)");
    };
    define_layers(std::type_identity<CsrMatrix>{}, "matrix"_a);
    define_layers(std::type_identity<Matrix<float>>{}, "matrix"_a.noconvert());
    module.def("move_rows", &move_rows, "table"_a.noconvert(), "out"_a.noconvert(), "order"_a.noconvert().none() = nb::none(), "scale"_a.noconvert().none() = nb::none(),
               "add"_a = false,
               R"(out[r] = scale[r] * table[order[r]], added to what is there where `add`.

table: (num_rows, width) float32. order: (rows,) int32. scale: (rows,) float32. out: (rows, width) float32.)");
    module.def("multiply_dense", &multiply_dense, "rows"_a.noconvert(), "table"_a.noconvert(), "out"_a.noconvert(), "added"_a.noconvert().none() = nb::none(),
               "scale"_a.noconvert().none() = nb::none(),
               R"(out = scale * (rows @ table + added).

rows: (num_rows, depth), table: (depth, width), out: (num_rows, width), added: (width,), scale: (num_rows,). All float32.)");
    module.def("multiply_dense_transposed", &multiply_dense_transposed, "rows"_a.noconvert(), "dense"_a.noconvert(), "sums"_a.noconvert(),
               R"(sums[p] += what the p-th part of the rows gives to transpose(rows) @ dense.

rows: (num_rows, depth), dense: (num_rows, width), sums: (parts, depth, width). All float32.)");
    module.def("sum_rows", &sum_rows, "table"_a.noconvert(), "sums"_a.noconvert(),
               "sums[p] += the sum of the p-th part of the rows. table: (rows, width) float32, sums: (parts, width) float32.");
    module.def("score_arcs", &score_arcs, "arcs"_a, "weights"_a.noconvert(), "kind"_a, "left"_a.noconvert(), "right"_a.noconvert().none(), "bias"_a, "sign"_a,
               "of_left"_a.noconvert(), "of_right"_a.noconvert().none(),
               R"((loss, slope) of sum weight * -log sigma(sign * (left_u . right_v + bias)) over the arcs of a symmetric pattern.

arcs: Csr (rows, rows), every pair in both directions. weights: (1,), (rows,) or (entries,) float32, and kind: all, row or
pair. left, right: (rows, width) float32; right None: the left one. The score must be the same in both directions.
of_left, of_right: (rows, width) gradients, written. slope: the derivative by the bias.)");
    module.def("score_list", &score_list, "rows"_a.noconvert(), "columns"_a.noconvert(), "weights"_a.noconvert(), "kind"_a, "left"_a.noconvert(),
               "right"_a.noconvert().none(), "bias"_a, "sign"_a, "of_left"_a.noconvert(), "of_right"_a.noconvert().none(),
               R"(The same for any list of pairs. rows, columns: (num_pairs,) int32.

of_left, of_right: (parts, rows, width) gradients, added to: of each part of the list apart.)");
    module.def("multiply_ends", &multiply_ends, "table"_a.noconvert(), "rows"_a.noconvert(), "columns"_a.noconvert(), "products"_a.noconvert(),
               "products = table[rows] * table[columns]. table: (num_rows, width) float32; rows, columns: (num_pairs,) int32; products: (num_pairs, width).");
    module.def("spread_to_ends", &spread_to_ends, "of_table"_a.noconvert(), "table"_a.noconvert(), "rows"_a.noconvert(), "columns"_a.noconvert(),
               "of_products"_a.noconvert(), "Add the gradient of `multiply_ends` to of_table, (num_rows, width), from that of the products.");
    nb::class_<PackedNegatives>(module, "PackedNegatives", R"(The negatives of some stacked patches: see core/cpp/negatives.hpp and `DrawPlan`.

indptr: (num_rows + 1,) int64, columns: int32 in order, both packed rows: pairs that are never drawn. offsets:
(num_patches + 1,), num_columns, num_rounds: (num_patches,) int64, weights: (num_patches,) float32. order, places:
(num_rows,) int32.)")
        .def(nb::init<Vector<int64_t>, Vector<int32_t>, Vector<int64_t>, Vector<int64_t>, Vector<int64_t>, Vector<float>, Vector<int32_t>, Vector<int32_t>>(), "indptr"_a.noconvert(),
             "columns"_a.noconvert(), "offsets"_a.noconvert(), "num_columns"_a.noconvert(), "num_rounds"_a.noconvert(), "weights"_a.noconvert(), "order"_a.noconvert(),
             "places"_a.noconvert())
        .def("score", &PackedNegatives::score, "keys"_a.noconvert(), "left"_a.noconvert(), "right"_a.noconvert().none(), "bias"_a, "of_left"_a.noconvert(),
             "of_right"_a.noconvert().none(), "wanted"_a.noconvert().none() = nb::none(),
             R"((loss, slope) of the negatives of an epoch; gradients are added.

keys: (num_patches,) uint64 streams. left, right, of_left, of_right: (num_rows, width) float32. wanted: (num_rows,) uint8, only
the negatives of these rows.)")
        .def("list", &PackedNegatives::list, "keys"_a.noconvert(), "wanted"_a.noconvert().none() = nb::none(),
             "(rows, columns) int32 of the pairs that an epoch draws. wanted: (num_rows,) uint8, only these rows.");
    module.def("split_masked", &split_masked, "adjacency"_a, "indptr"_a.noconvert(), "node_hashes"_a.noconvert(), "groups"_a.noconvert().none(), "key"_a, "hidden_below"_a,
               "scored_below"_a, "out_indices"_a.noconvert(), "out_values"_a.noconvert().none(), "visible_ends"_a.noconvert(), "scored_starts"_a.noconvert(),
               "scale"_a.noconvert().none() = nb::none(), "first_row"_a = 0,
               R"(Sort the entries of every row into visible ones, at its beginning, and scored ones, at its end.

An entry is hidden if the hash of its two nodes is below hidden_below and its ends lie in different groups, and scored if
it is also below scored_below. node_hashes, groups: (columns,); row r has the node of column first_row + r. out_indices, out_values: (num_entries,). visible_ends, scored_starts: (rows,) int64.
scale: (rows,) float32, 1 / sqrt(1 + weight of the visible entries).)");
    module.def("step_adam", &step_adam, "values"_a.noconvert(), "gradient"_a.noconvert(), "means"_a.noconvert(), "squares"_a.noconvert(), "rate"_a, "mean_correction"_a,
               "square_correction"_a,
               R"(One step of Adam with beta 0.9 and 0.999 and epsilon 1e-8, in place. All arrays: (count,) float32.

mean_correction, square_correction: 1 - beta^step.)");
    module.def("hash_nodes", &hash_nodes, "nodes"_a.noconvert(), "key"_a, "out"_a.noconvert(), "out[i] = hash of nodes[i]. nodes: int32, out: uint32.");
    module.def("hash_pairs", &hash_pairs, "one"_a.noconvert(), "other"_a.noconvert(), "key"_a, "out"_a.noconvert(),
               "out[i] = hash of the pair of nodes (one[i], other[i]), the same in both directions. int32, int32, uint32.");
    module.def("drop_dense", &drop_dense, "values"_a.noconvert(), "node_hashes"_a.noconvert(), "key"_a, "threshold"_a, "factor"_a, "out"_a.noconvert(),
               "Dropout of dense rows. values, out: (rows, width) float32; node_hashes: (rows,) uint32.");
}

}  // namespace l2g2g
