// Partition and overlap: FENNEL, and the growth of clusters into patches that share nodes.
#include "graphs.hpp"

#include <cmath>

namespace l2g2g {
namespace {

// Nodes of each cluster, what a further one costs, and a tree over the clusters whose root is the least loaded one, the
// first of equals: leaf c is cluster c, and every inner place holds the less loaded of the two below it.
class Loads {
  public:
    Loads(int64_t* loads, int64_t num_clusters, double factor) : loads_(loads), factor_(factor), prices_(static_cast<size_t>(num_clusters)) {
        while (size_ < num_clusters) size_ *= 2;
        tree_.assign(static_cast<size_t>(2 * size_), -1);
        for (int64_t cluster = 0; cluster < num_clusters; ++cluster) {
            tree_[static_cast<size_t>(size_ + cluster)] = static_cast<int32_t>(cluster);
            prices_[static_cast<size_t>(cluster)] = factor_ * std::sqrt(static_cast<double>(loads_[cluster]));
        }
        for (int64_t place = size_ - 1; place >= 1; --place) choose(place);
    }

    int32_t least() const { return tree_[1]; }
    int64_t load(int32_t cluster) const { return loads_[cluster]; }
    double price(int32_t cluster) const { return prices_[static_cast<size_t>(cluster)]; }

    void change(int32_t cluster, int64_t by) {
        loads_[cluster] += by;
        prices_[static_cast<size_t>(cluster)] = factor_ * std::sqrt(static_cast<double>(loads_[cluster]));
        for (int64_t place = (size_ + cluster) / 2; place >= 1; place /= 2) choose(place);
    }

  private:
    void choose(int64_t place) {
        const int32_t left = tree_[static_cast<size_t>(2 * place)], right = tree_[static_cast<size_t>(2 * place + 1)];
        tree_[static_cast<size_t>(place)] = right >= 0 && loads_[right] < loads_[left] ? right : left;
    }

    int64_t* loads_;
    double factor_;
    int64_t size_ = 1;
    std::vector<int32_t> tree_;
    std::vector<double> prices_;
};

int64_t fennel(const Vector<int64_t>& indptr, const Vector<int32_t>& indices, int64_t first_node, const VectorOut<int32_t>& labels,
               const VectorOut<int64_t>& loads, double alpha, int64_t limit) {
    const auto num_nodes = static_cast<int64_t>(labels.shape(0)), num_clusters = static_cast<int64_t>(loads.shape(0));
    const Pattern graph = check_pattern(indptr, indices, num_nodes);
    require(first_node >= 0 && first_node + graph.num_rows <= num_nodes, "the rows must be nodes that have labels");
    require(num_clusters >= 1 && num_clusters < (int64_t{1} << 31), "there must be 1 to 2^31 - 1 clusters");
    const auto check_label = [&](int32_t label) {
        if (label < -1 || label >= num_clusters) throw std::out_of_range("a label is out of range");
        return label;
    };
    Loads tree(loads.data(), num_clusters, 1.5 * alpha);
    std::vector<int64_t> neighbours(static_cast<size_t>(num_clusters), 0);
    std::vector<int32_t> touched, around;
    int64_t num_moved = 0;
    for (int64_t row = 0; row < graph.num_rows; ++row) {
        int32_t& own = labels.data()[first_node + row];
        if (check_label(own) >= 0) tree.change(own, -1);
        const int64_t begin = graph.indptr[row], degree = graph.indptr[row + 1] - begin;
        around.resize(static_cast<size_t>(degree));
        // Without a branch, so that the processor waits for many labels at once.
        for (int64_t place = 0; place < degree; ++place) around[static_cast<size_t>(place)] = labels.data()[graph.indices[begin + place]];
        touched.clear();
        for (const int32_t label : around)
            if (check_label(label) >= 0 && neighbours[static_cast<size_t>(label)]++ == 0) touched.push_back(label);
        // Of all clusters without a neighbour the least loaded one has the lowest price, so none better is missed.
        int32_t best = tree.least();
        double best_score = static_cast<double>(neighbours[static_cast<size_t>(best)]) - tree.price(best);
        for (const int32_t cluster : touched) {
            if (tree.load(cluster) >= limit) continue;
            const double score = static_cast<double>(neighbours[static_cast<size_t>(cluster)]) - tree.price(cluster);
            if (score > best_score || (score == best_score && cluster < best)) {
                best = cluster;
                best_score = score;
            }
        }
        for (const int32_t cluster : touched) neighbours[static_cast<size_t>(cluster)] = 0;
        num_moved += own != best;
        own = best;
        tree.change(best, 1);
    }
    return num_moved;
}

// The part of a list of nodes that belongs to one cluster of a pair, most ties first; free places have no ties.
struct Boundary {
    int64_t taker, first, last;
};

void boundary_nodes(const Vector<int64_t>& indptr, const Vector<int32_t>& indices, int64_t first_node, const Vector<int32_t>& labels,
                    const Matrix<int64_t>& pairs, const Vector<int64_t>& bounds, const VectorOut<int64_t>& nodes,
                    const VectorOut<int64_t>& ties) {
    const auto num_nodes = static_cast<int64_t>(labels.shape(0));
    const Pattern graph = check_pattern(indptr, indices, num_nodes);
    require(first_node >= 0 && first_node + graph.num_rows <= num_nodes, "the rows must be nodes that have labels");
    require(pairs.shape(1) == 2, "pairs must have two columns");
    require(bounds.shape(0) == 2 * pairs.shape(0) + 1, "bounds must have two ranges for each pair");
    check_indptr(bounds.data(), bounds.shape(0), nodes.shape(0));
    require(nodes.shape(0) == ties.shape(0), "nodes and ties must be equally long");
    int64_t num_clusters = 0;
    for (int64_t node = 0; node < num_nodes; ++node) {
        if (labels.data()[node] < 0) throw std::out_of_range("a label is out of range");
        num_clusters = std::max<int64_t>(num_clusters, labels.data()[node] + int64_t{1});
    }
    std::vector<std::vector<Boundary>> given(static_cast<size_t>(num_clusters));
    for (size_t place = 0; place < 2 * pairs.shape(0); ++place) {
        const int64_t giver = pairs.data()[place], taker = pairs.data()[place ^ 1];
        if (giver < 0 || giver >= num_clusters) throw std::out_of_range("a cluster is out of range");
        given[static_cast<size_t>(giver)].push_back({taker, bounds.data()[place], bounds.data()[place + 1]});
    }
    std::vector<int64_t> counts(static_cast<size_t>(num_clusters), 0);
    for (int64_t row = 0; row < graph.num_rows; ++row) {
        const int64_t node = first_node + row;
        const auto& boundaries = given[static_cast<size_t>(labels.data()[node])];
        if (boundaries.empty()) continue;
        const int32_t *begin = graph.indices + graph.indptr[row], *end = graph.indices + graph.indptr[row + 1];
        for (const int32_t* place = begin; place < end; ++place) ++counts[static_cast<size_t>(labels.data()[*place])];
        for (const Boundary& boundary : boundaries) {
            const int64_t count = counts[static_cast<size_t>(boundary.taker)];
            int64_t* first = ties.data() + boundary.first;
            int64_t* last = ties.data() + boundary.last;
            if (count == 0 || first == last || last[-1] >= count) continue;
            // Nodes ascend, so of equals the later one comes behind.
            int64_t* place = std::partition_point(first, last, [count](int64_t other) { return other >= count; });
            std::move_backward(place, last - 1, last);
            *place = count;
            int64_t* place_of_node = nodes.data() + (place - ties.data());
            std::move_backward(place_of_node, nodes.data() + boundary.last - 1, nodes.data() + boundary.last);
            *place_of_node = node;
        }
        for (const int32_t* place = begin; place < end; ++place) counts[static_cast<size_t>(labels.data()[*place])] = 0;
    }
}

}  // namespace

void bind_partition(nb::module_& module) {
    module.def("fennel", &fennel, "indptr"_a.noconvert(), "indices"_a.noconvert(), "first_node"_a, "labels"_a.noconvert(),
               "loads"_a.noconvert(), "alpha"_a, "limit"_a, nb::call_guard<nb::gil_scoped_release>(),
               "Number of nodes that changed their cluster, after each node of a block of rows was given to the best one:\n"
               "most neighbours less the price 1.5 alpha sqrt(load) (FENNEL, Tsourakakis et al. 2014), the first of equals.\n\n"
               "indptr: (num_rows + 1,) int64, indices: (num_entries,) int32: CSR pattern of the nodes from first_node on.\n"
               "labels: (num_nodes,) int32 cluster of each node, -1 for none, changed in place.\n"
               "loads: (num_clusters,) int64 nodes of each cluster, changed in place.\n"
               "alpha: float; limit: a cluster with so many nodes takes no more.");
    module.def("boundary_nodes", &boundary_nodes, "indptr"_a.noconvert(), "indices"_a.noconvert(), "first_node"_a,
               "labels"_a.noconvert(), "pairs"_a.noconvert(), "bounds"_a.noconvert(), "nodes"_a.noconvert(),
               "ties"_a.noconvert(), nb::call_guard<nb::gil_scoped_release>(),
               "Update in place the nodes of each cluster of a pair that have most edges to the other one.\n\n"
               "indptr: (num_rows + 1,) int64, indices: (num_entries,) int32: CSR pattern of the nodes from first_node on.\n"
               "labels: (num_nodes,) int32 cluster of each node. pairs: (num_pairs, 2) int64 clusters.\n"
               "bounds: (2 num_pairs + 1,) int64, place 2 p + s has the nodes of pairs[p, s], most edges first, of equals the\n"
               "first node. nodes: int64, -1 behind the last. ties: int64 their edges, 0 behind the last.");
}

}  // namespace l2g2g
