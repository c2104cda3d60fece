// Partition and overlap: FENNEL, and the growth of clusters into patches that share nodes.
#include "graphs.hpp"

#include <cmath>
#include <numeric>

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

struct Clusters {
    const int32_t* labels;
    const int64_t* members;
    const int64_t* starts;
    int64_t size(int64_t cluster) const { return starts[cluster + 1] - starts[cluster]; }
};

// Fills `queue` with nodes of the giver: those with most edges to the taker, then their neighbours, and so on.
void grow_from_boundary(const Pattern& graph, const Clusters& clusters, int64_t giver, int64_t taker, int64_t quota,
                        std::vector<uint8_t>& taken, int64_t* queue) {
    const int64_t* nodes = clusters.members + clusters.starts[giver];
    std::vector<int64_t> ties(static_cast<size_t>(clusters.size(giver)), 0), order(ties.size());
    for (size_t place = 0; place < ties.size(); ++place)
        for (int64_t entry = graph.indptr[nodes[place]]; entry < graph.indptr[nodes[place] + 1]; ++entry)
            ties[place] += clusters.labels[graph.indices[entry]] == taker;
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int64_t one, int64_t other) {
        return ties[static_cast<size_t>(one)] > ties[static_cast<size_t>(other)];
    });
    int64_t length = 0, head = 0;
    const auto take = [&](int64_t node) {
        if (taken[static_cast<size_t>(node)] || length == quota) return;
        taken[static_cast<size_t>(node)] = 1;
        queue[length++] = node;
    };
    size_t next = 0;
    while (length < quota) {
        if (next < order.size() && (ties[static_cast<size_t>(order[next])] > 0 || head >= length)) {
            take(nodes[order[next++]]);  // the boundary, or a new start where the search is exhausted
            continue;
        }
        require(head < length, "members must be distinct");
        const int64_t node = queue[head++];
        for (int64_t entry = graph.indptr[node]; entry < graph.indptr[node + 1]; ++entry)
            if (clusters.labels[graph.indices[entry]] == giver) take(graph.indices[entry]);
    }
    for (int64_t place = 0; place < length; ++place) taken[static_cast<size_t>(queue[place])] = 0;
}

std::pair<NewVector<int64_t>, NewVector<int64_t>> grow_overlaps(const Vector<int64_t>& indptr, const Vector<int32_t>& indices,
                                                                const Vector<int32_t>& labels, const Vector<int64_t>& members,
                                                                const Vector<int64_t>& starts, const Matrix<int64_t>& pairs,
                                                                int64_t wanted) {
    std::vector<int64_t> added_patch, added_node;
    {
        nb::gil_scoped_release release;
        const Pattern graph = check_pattern(indptr, indices, static_cast<int64_t>(labels.shape(0)));
        require(graph.num_rows == static_cast<int64_t>(labels.shape(0)), "labels must have one entry for each node");
        check_nodes(members, graph.num_rows);
        check_indptr(starts.data(), starts.shape(0), members.shape(0));
        require(pairs.shape(1) == 2, "pairs must have two columns");
        require(wanted >= 0, "wanted must not be negative");
        const auto num_clusters = static_cast<int64_t>(starts.shape(0)) - 1;
        const auto num_sides = static_cast<int64_t>(2 * pairs.shape(0));
        const Clusters clusters{labels.data(), members.data(), starts.data()};
        std::vector<int64_t> firsts{0};
        for (int64_t pair = 0; 2 * pair < num_sides; ++pair) {
            const int64_t* ends = pairs.data() + 2 * pair;
            for (int side = 0; side < 2; ++side)
                if (ends[side] < 0 || ends[side] >= num_clusters) throw std::out_of_range("a cluster is out of range");
            const int64_t first_size = clusters.size(ends[0]), second_size = clusters.size(ends[1]);
            const int64_t from_first = std::min(first_size, std::max((wanted + 1) / 2, wanted - second_size));
            firsts.push_back(firsts.back() + from_first);
            firsts.push_back(firsts.back() + std::min(second_size, wanted - from_first));
        }
        added_patch.resize(static_cast<size_t>(firsts.back()));
        added_node.resize(static_cast<size_t>(firsts.back()));
        std::vector<std::vector<uint8_t>> taken(static_cast<size_t>(num_threads()));
        parallel_for(num_sides, [&](int64_t side, int thread) {
            auto& flags = taken[static_cast<size_t>(thread)];
            flags.resize(static_cast<size_t>(graph.num_rows), 0);
            const int64_t giver = pairs.data()[side], taker = pairs.data()[side ^ 1];
            const int64_t first = firsts[static_cast<size_t>(side)], last = firsts[static_cast<size_t>(side) + 1];
            std::fill(added_patch.begin() + first, added_patch.begin() + last, taker);
            grow_from_boundary(graph, clusters, giver, taker, last - first, flags, added_node.data() + first);
        });
    }
    return {to_numpy(std::move(added_patch)), to_numpy(std::move(added_node))};
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
    module.def("grow_overlaps", &grow_overlaps, "indptr"_a.noconvert(), "indices"_a.noconvert(), "labels"_a.noconvert(),
               "members"_a.noconvert(), "starts"_a.noconvert(), "pairs"_a.noconvert(), "wanted"_a,
               "(clusters int64, nodes int64): nodes to add to clusters, so that the two clusters of a pair share about `wanted`:\n"
               "half from either side, those with most edges to the other side first, then breadth first.\n\n"
               "indptr: (num_nodes + 1,) int64, indices: (num_entries,) int32: symmetric CSR pattern.\n"
               "labels: (num_nodes,) int32 cluster of each node.\n"
               "members: (num_nodes,) int64 nodes, cluster after cluster; starts: (num_clusters + 1,) int64 their bounds.\n"
               "pairs: (num_pairs, 2) int64 clusters; wanted: int.");
}

}  // namespace l2g2g
