// What the neighbours of two nodes say about a link between them: sums over common neighbours and over paths of length three.
#include <bit>

#include "graphs.hpp"

namespace l2g2g {
namespace {

constexpr int64_t kGrain = 256;

struct Row {
    const int32_t* begin;
    const int32_t* end;
    int64_t size() const { return end - begin; }
};

Row row_of(const Pattern& pattern, int64_t row) {
    return {pattern.indices + pattern.indptr[row], pattern.indices + pattern.indptr[row + 1]};
}

// Steps of a binary search in a row.
int64_t depth(int64_t size) { return std::bit_width(static_cast<uint64_t>(size)); }

bool holds(const Row& row, int32_t node) {
    const int32_t* found = std::lower_bound(row.begin, row.end, node);
    return found < row.end && *found == node;
}

// visit(node) for the nodes of both rows, ascending: along both, or looking those of the shorter up in the longer.
template <class Visit> void visit_common(Row one, Row other, const Visit& visit) {
    if (one.size() > other.size()) std::swap(one, other);
    if (one.size() * depth(other.size()) < one.size() + other.size()) {
        for (const int32_t* node = one.begin; node < one.end; ++node)
            if (holds(other, *node)) visit(*node);
        return;
    }
    const int32_t *a = one.begin, *b = other.begin;
    while (a < one.end && b < other.end) {
        if (*a == *b) visit(*a);
        const bool is_first = *a <= *b, is_second = *b <= *a;
        a += is_first;
        b += is_second;
    }
}

int64_t check_pairs(const Vector<int64_t>& sources, const Vector<int64_t>& targets, int64_t num_nodes) {
    require(sources.shape(0) == targets.shape(0), "sources and targets must be equally many");
    check_nodes(sources, num_nodes);
    check_nodes(targets, num_nodes);
    return static_cast<int64_t>(sources.shape(0));
}

NewMatrix<double> common_sums(const Vector<int64_t>& indptr, const Vector<int32_t>& indices, const Vector<int64_t>& sources,
                              const Vector<int64_t>& targets, const Matrix<double>& weights) {
    const size_t width = weights.shape(1);
    std::vector<double> sums(sources.shape(0) * width, 0.0);
    {
        nb::gil_scoped_release release;
        const Pattern graph = check_pattern(indptr, indices, static_cast<int64_t>(indptr.shape(0)) - 1);
        require(static_cast<int64_t>(weights.shape(0)) == graph.num_rows, "weights must have one row for each node");
        parallel_ranges(check_pairs(sources, targets, graph.num_rows), kGrain, [&](int64_t low, int64_t high, int) {
            for (int64_t pair = low; pair < high; ++pair) {
                double* own = sums.data() + static_cast<size_t>(pair) * width;
                visit_common(row_of(graph, sources.data()[pair]), row_of(graph, targets.data()[pair]), [&](int32_t node) {
                    const double* shares = weights.data() + static_cast<size_t>(node) * width;
                    for (size_t column = 0; column < width; ++column) own[column] += shares[column];
                });
            }
        });
    }
    return to_numpy(std::move(sums), sources.shape(0), width);
}

// Σ over b in both rows of factor_b, where marks holds the factors of the far row, or is empty.
double sum_common(const Row& near, const Row& far, const double* factors, const std::vector<double>& marks, bool is_marked) {
    double sum = 0;
    if (is_marked && near.size() <= far.size() * depth(near.size()))
        for (const int32_t* node = near.begin; node < near.end; ++node) sum += marks[static_cast<size_t>(*node)];
    else
        visit_common(near, far, [&](int32_t node) { sum += factors[node]; });
    return sum;
}

void path_sums(const Vector<int64_t>& indptr, const Vector<int32_t>& indices, const Vector<int64_t>& sources,
               const Vector<int64_t>& targets, int64_t first, const Vector<int64_t>& block_indptr, const Vector<int32_t>& block_indices,
               const Vector<double>& factors, const VectorOut<double>& sums) {
    const Pattern graph = check_pattern(indptr, indices, static_cast<int64_t>(indptr.shape(0)) - 1);
    const Pattern block = check_pattern(block_indptr, block_indices, graph.num_rows);
    const int64_t num_pairs = check_pairs(sources, targets, graph.num_rows), last = first + block.num_rows;
    require(first >= 0 && last <= graph.num_rows, "the block goes beyond the nodes");
    require(static_cast<int64_t>(factors.shape(0)) == graph.num_rows, "factors must have one number for each node");
    require(static_cast<int64_t>(sums.shape(0)) == num_pairs, "sums must have one number for each pair");
    std::vector<std::vector<double>> tables(static_cast<size_t>(num_threads()));
    parallel_ranges(num_pairs, kGrain, [&](int64_t low, int64_t high, int thread) {
        auto& marks = tables[static_cast<size_t>(thread)];
        if (marks.empty()) marks.assign(static_cast<size_t>(graph.num_rows), 0.0);
        for (int64_t pair = low; pair < high; ++pair) {
            Row near = row_of(graph, sources.data()[pair]), far = row_of(graph, targets.data()[pair]);
            if (near.size() > far.size()) std::swap(near, far);
            near = {std::lower_bound(near.begin, near.end, first), std::lower_bound(near.begin, near.end, last)};
            const auto middle_of = [&](const int32_t* node) { return row_of(block, *node - first); };
            int64_t marked_cost = 2 * far.size(), plain_cost = 0;
            for (const int32_t* node = near.begin; node < near.end; ++node) {
                const int64_t size = middle_of(node).size();
                const int64_t by_search = std::min(size * depth(far.size()), far.size() * depth(size));
                marked_cost += std::min(size, far.size() * depth(size));
                plain_cost += std::min(by_search, size + far.size());
            }
            const bool is_marked = marked_cost < plain_cost;
            if (is_marked)
                for (const int32_t* node = far.begin; node < far.end; ++node) marks[static_cast<size_t>(*node)] = factors.data()[*node];
            double sum = 0;
            for (const int32_t* node = near.begin; node < near.end; ++node)
                sum += factors.data()[*node] * sum_common(middle_of(node), far, factors.data(), marks, is_marked);
            if (is_marked)
                for (const int32_t* node = far.begin; node < far.end; ++node) marks[static_cast<size_t>(*node)] = 0;
            sums.data()[pair] += sum;
        }
    });
}

}  // namespace

void bind_evidence(nb::module_& module) {
    module.def("common_sums", &common_sums, "indptr"_a.noconvert(), "indices"_a.noconvert(), "sources"_a.noconvert(),
               "targets"_a.noconvert(), "weights"_a.noconvert(),
               "(num_pairs, width) float64 sums of the weights of the common neighbours of each pair.\n\n"
               "indptr: (num_nodes + 1,) int64, indices: (num_entries,) int32, ascending in each row: CSR pattern, complete in\n"
               "the rows of the pairs. sources, targets: (num_pairs,) int64. weights: (num_nodes, width) float64.");
    module.def("path_sums", &path_sums, "indptr"_a.noconvert(), "indices"_a.noconvert(), "sources"_a.noconvert(), "targets"_a.noconvert(),
               "first"_a, "block_indptr"_a.noconvert(), "block_indices"_a.noconvert(), "factors"_a.noconvert(), "sums"_a.noconvert(),
               nb::call_guard<nb::gil_scoped_release>(),
               "None; adds factor_a · factor_b for every path s – a – b – t of a pair in which the neighbour a of the end with fewer\n"
               "neighbours lies in a block of rows: over all blocks that is every path of length three once.\n\n"
               "indptr, indices, sources, targets: as in `common_sums`. first: node of the first row of the block.\n"
               "block_indptr: (num_rows + 1,) int64, block_indices: int32, ascending in each row. factors: (num_nodes,) float64.\n"
               "sums: (num_pairs,) float64, changed in place.");
}

}  // namespace l2g2g
