// Search and scores: inner products of pairs, areas under curves, candidates of ranks, the best nodes and pairs.
#include "graphs.hpp"

#include <cmath>
#include <limits>

namespace l2g2g {
namespace {

// Each score is summed by one thread in one order, so that it does not depend on their number.
template <class T>
NewVector<double> inner_products(const Matrix<T>& embedding, const Vector<int64_t>& sources, const Vector<int64_t>& targets) {
    std::vector<double> scores(sources.shape(0));
    {
        nb::gil_scoped_release release;
        require(sources.shape(0) == targets.shape(0), "sources and targets must be equally long");
        check_nodes(sources, static_cast<int64_t>(embedding.shape(0)));
        check_nodes(targets, static_cast<int64_t>(embedding.shape(0)));
        const size_t dim = embedding.shape(1);
        parallel_ranges(static_cast<int64_t>(scores.size()), 1 << 13, [&](int64_t low, int64_t high, int) {
            for (int64_t pair = low; pair < high; ++pair) {
                const T* first = embedding.data() + static_cast<size_t>(sources.data()[pair]) * dim;
                const T* second = embedding.data() + static_cast<size_t>(targets.data()[pair]) * dim;
                double total = 0;
                for (size_t column = 0; column < dim; ++column) total += static_cast<double>(first[column]) * static_cast<double>(second[column]);
                scores[static_cast<size_t>(pair)] = total;
            }
        });
    }
    return to_numpy(std::move(scores));
}

// Both lists are read from above; equal scores pass together.
std::pair<double, double> areas_under_curves(const Vector<double>& edges, const Vector<double>& others) {
    const auto num_edges = static_cast<int64_t>(edges.shape(0)), num_others = static_cast<int64_t>(others.shape(0));
    require(num_edges > 0 && num_others > 0, "there must be edges and others");
    int64_t place = num_edges - 1, other = num_others - 1;
    int64_t twice_won = 0;  // twice the pairs (edge, other) in the right order, ties counting half: a whole number
    double precision = 0;
    while (place >= 0) {
        const double threshold = edges.data()[place];
        const int64_t before = place;
        do --place;  // at least one, so that the loop ends whatever the numbers are
        while (place >= 0 && edges.data()[place] == threshold);
        while (other >= 0 && others.data()[other] > threshold) --other;
        int64_t below = other;
        while (below >= 0 && others.data()[below] == threshold) --below;
        const int64_t passed = before - place;
        twice_won += passed * (2 * (below + 1) + other - below);
        other = below;
        const int64_t found = num_edges - 1 - place, mistaken = num_others - 1 - below;
        precision += static_cast<double>(passed) * (static_cast<double>(found) / static_cast<double>(found + mistaken));
    }
    return {static_cast<double>(twice_won) / static_cast<double>(2 * num_edges * num_others),
            precision / static_cast<double>(num_edges)};
}

NewMatrix<int64_t> draw_candidates(const Vector<int64_t>& fixed, const Vector<int64_t>& order, const Vector<int64_t>& low,
                                   const Vector<int64_t>& high, const Vector<int64_t>& starts, const Vector<bool>& downwards,
                                   const Vector<int64_t>& indptr, const Vector<int32_t>& indices, int64_t num_candidates) {
    std::vector<int64_t> candidates;
    {
        nb::gil_scoped_release release;
        const auto num_nodes = static_cast<int64_t>(order.shape(0)), num_rows = static_cast<int64_t>(fixed.shape(0));
        require(num_candidates >= 0, "num_candidates must not be negative");
        require(indptr.shape(0) == order.shape(0) + 1, "order and the pattern must have all nodes");
        check_indptr(indptr.data(), indptr.shape(0), indices.shape(0));
        check_nodes(fixed, num_nodes);
        check_nodes(order, num_nodes);
        for (const auto& each : {low, high, starts}) require(each.shape(0) == fixed.shape(0), "low, high and starts must have one entry per row");
        require(downwards.shape(0) == fixed.shape(0), "downwards must have one entry per row");
        for (int64_t row = 0; row < num_rows; ++row) {
            const int64_t begin = low.data()[row], end = high.data()[row], start = starts.data()[row];
            if (begin < 0 || end > num_nodes || begin > end || (begin < end && (start < begin || start >= end)))
                throw std::out_of_range("0 <= low <= start < high <= num_nodes does not hold");
        }
        candidates.assign(static_cast<size_t>(num_rows * num_candidates), -1);
        parallel_ranges(num_rows, 256, [&](int64_t first_row, int64_t last_row, int) {
            for (int64_t row = first_row; row < last_row; ++row) {
                const int64_t node = fixed.data()[row], begin = low.data()[row], size = high.data()[row] - begin;
                int64_t* found = candidates.data() + row * num_candidates;
                int64_t below = begin - 1, above = high.data()[row], count = 0, step = 0;
                bool down = downwards.data()[row];
                while (count < num_candidates && (step < size || below >= 0 || above < num_nodes)) {
                    const bool outside = step >= size;
                    int64_t place;
                    if (!outside)
                        place = begin + (starts.data()[row] - begin + step++) % size;
                    else if ((down && below >= 0) || above >= num_nodes)
                        place = below--;
                    else
                        place = above++;
                    const int64_t other = order.data()[place];
                    if (other == node || find_in_row(indices.data(), indptr.data()[node], indptr.data()[node + 1], other) >= 0) continue;
                    found[count++] = other;
                    down = down != outside;  // turn round after every node taken outside
                }
            }
        });
    }
    const size_t num_rows = fixed.shape(0);
    return to_numpy(std::move(candidates), num_rows, static_cast<size_t>(num_candidates));
}

void keep_best(const Matrix<float>& block, int64_t first, const Vector<int64_t>& own, const MatrixOut<float>& scores,
               const MatrixOut<int64_t>& nodes) {
    const auto num_rows = static_cast<int64_t>(block.shape(0)), num_columns = static_cast<int64_t>(block.shape(1));
    const auto k = static_cast<int64_t>(scores.shape(1));
    require(own.shape(0) == block.shape(0) && scores.shape(0) == block.shape(0), "own, scores and block must have equally many rows");
    require(nodes.shape(0) == scores.shape(0) && nodes.shape(1) == scores.shape(1), "nodes and scores must have one shape");
    if (k == 0) return;
    parallel_for(num_rows, [&](int64_t row, int) {
        const float* line = block.data() + row * num_columns;
        float* best = scores.data() + row * k;
        int64_t* who = nodes.data() + row * k;
        const int64_t self = own.data()[row] - first;
        constexpr int64_t kPiece = 64;  // pieces without a good score are passed over in vector code
        for (int64_t low = 0; low < num_columns; low += kPiece) {
            const int64_t high = std::min(num_columns, low + kPiece);
            const float lowest = best[k - 1];
            int good = 0;
            for (int64_t column = low; column < high; ++column) good += line[column] > lowest;
            if (good == 0) continue;
            for (int64_t column = low; column < high; ++column) {
                const float score = line[column];
                if (!(score > best[k - 1]) || column == self) continue;
                int64_t place = k - 1;
                for (; place > 0 && best[place - 1] < score; --place) {
                    best[place] = best[place - 1];
                    who[place] = who[place - 1];
                }
                best[place] = score;
                who[place] = first + column;
            }
        }
    });
}

NewMatrix<double> bound_boxes(const Matrix<double>& low, const Matrix<double>& high, const Matrix<double>& other_low,
                              const Matrix<double>& other_high, const Vector<double>& longest, const Vector<double>& other_longest) {
    const size_t count = low.shape(0), other_count = other_low.shape(0), width = low.shape(1);
    std::vector<double> bounds;
    {
        nb::gil_scoped_release release;
        require(high.shape(0) == count && high.shape(1) == width && longest.shape(0) == count, "low, high and longest must fit");
        require(other_low.shape(1) == width && other_high.shape(0) == other_count && other_high.shape(1) == width &&
                    other_longest.shape(0) == other_count,
                "other_low, other_high and other_longest must fit");
        bounds.assign(count * other_count, 0);
        // Boxes beside each other, so that the inner loop is vector code and each sum keeps its order.
        std::vector<double> turned_low(width * other_count), turned_high(width * other_count);
        for (size_t other = 0; other < other_count; ++other)
            for (size_t place = 0; place < width; ++place) {
                turned_low[place * other_count + other] = other_low.data()[other * width + place];
                turned_high[place * other_count + other] = other_high.data()[other * width + place];
            }
        parallel_for(static_cast<int64_t>(count), [&](int64_t one, int) {
            double* total = bounds.data() + static_cast<size_t>(one) * other_count;
            for (size_t place = 0; place < width; ++place) {
                const double a = low.data()[static_cast<size_t>(one) * width + place], b = high.data()[static_cast<size_t>(one) * width + place];
                const double *c = turned_low.data() + place * other_count, *d = turned_high.data() + place * other_count;
                for (size_t other = 0; other < other_count; ++other)
                    total[other] += std::max(std::max(a * c[other], a * d[other]), std::max(b * c[other], b * d[other]));
            }
            for (size_t other = 0; other < other_count; ++other)
                total[other] = std::min(total[other], longest.data()[one] * other_longest.data()[other]);
        });
    }
    return to_numpy(std::move(bounds), count, other_count);
}

// A heap of pairs in two arrays whose root is the worst; where it is full the worst gives way.
class WorstFirst {
  public:
    WorstFirst(float* scores, int64_t* keys, int64_t room) : scores_(scores), keys_(keys), room_(room) {}
    int64_t size() const { return count_; }

    void push(float score, int64_t key) {
        if (count_ < room_) {
            int64_t place = count_++;
            for (; place > 0 && worse(score, key, (place - 1) / 2); place = (place - 1) / 2) move((place - 1) / 2, place);
            put(place, score, key);
        } else if (count_ > 0 && !worse(score, key, 0)) {
            int64_t place = 0;
            for (int64_t child; (child = 2 * place + 1) < count_; place = child) {
                if (child + 1 < count_ && worse(scores_[child + 1], keys_[child + 1], child)) ++child;
                if (!worse(scores_[child], keys_[child], score, key)) break;
                move(child, place);
            }
            put(place, score, key);
        }
    }

  private:
    static bool worse(float score, int64_t key, float other_score, int64_t other_key) {
        return score == other_score ? key > other_key : score < other_score;
    }
    bool worse(float score, int64_t key, int64_t place) const { return worse(score, key, scores_[place], keys_[place]); }
    void put(int64_t place, float score, int64_t key) { scores_[place] = score, keys_[place] = key; }
    void move(int64_t from, int64_t to) { put(to, scores_[from], keys_[from]); }

    float* scores_;
    int64_t* keys_;
    int64_t room_, count_ = 0;
};

using Cube = nb::ndarray<const float, nb::ndim<3>, nb::c_contig, nb::device::cpu>;

NewVector<int64_t> best_pairs(const Cube& products, const Vector<int64_t>& tiles, const Vector<int64_t>& order,
                              const Vector<int64_t>& starts, const Vector<int64_t>& other_order, const Vector<int64_t>& other_starts,
                              const Vector<int64_t>& indptr, const Vector<int32_t>& indices, float threshold, bool same, bool one_way,
                              const MatrixOut<float>& scores, const MatrixOut<int64_t>& keys) {
    std::vector<int64_t> found(tiles.shape(0), 0);
    {
        nb::gil_scoped_release release;
        const auto num_nodes = static_cast<int64_t>(order.shape(0)), num_tiles = static_cast<int64_t>(tiles.shape(0));
        const auto height = static_cast<int64_t>(products.shape(1)), width = static_cast<int64_t>(products.shape(2));
        require(products.shape(0) == tiles.shape(0) && scores.shape(0) == tiles.shape(0) && keys.shape(0) == tiles.shape(0) &&
                    keys.shape(1) == scores.shape(1),
                "products, scores and keys must have one entry for each tile");
        require(other_order.shape(0) == order.shape(0) && indptr.shape(0) == order.shape(0) + 1, "orders and the pattern must have all nodes");
        require(starts.shape(0) >= 1 && other_starts.shape(0) >= 1, "starts must have at least one entry");
        const auto num_groups = static_cast<int64_t>(starts.shape(0)) - 1, num_others = static_cast<int64_t>(other_starts.shape(0)) - 1;
        // A call has a few tiles of a large graph: what these read is checked, not the whole graph.
        const auto check_group = [num_nodes](const Vector<int64_t>& nodes, const Vector<int64_t>& bounds, int64_t group, int64_t room) {
            const int64_t begin = bounds.data()[group], end = bounds.data()[group + 1];
            require(0 <= begin && begin <= end && end <= num_nodes && end - begin <= room, "a group does not fit its nodes or the products");
            for (int64_t place = begin; place < end; ++place)
                if (nodes.data()[place] < 0 || nodes.data()[place] >= num_nodes) throw std::out_of_range("a node is out of range");
            return std::pair(nodes.data() + begin, end - begin);
        };
        const auto num_entries = static_cast<int64_t>(indices.shape(0));
        const auto is_known = [&](int64_t source, int64_t target) {
            const int64_t begin = indptr.data()[source], end = indptr.data()[source + 1];
            require(0 <= begin && begin <= end && end <= num_entries, "indptr does not fit the indices");
            return find_in_row(indices.data(), begin, end, target) >= 0;
        };
        const auto room = static_cast<int64_t>(scores.shape(1));
        parallel_for(num_tiles, [&](int64_t tile, int) {
            const int64_t number = tiles.data()[tile];
            if (number < 0 || number >= num_groups * num_others) throw std::out_of_range("a tile is out of range");
            const int64_t one = number / num_others, other = number % num_others;
            const auto [sources, num_rows] = check_group(order, starts, one, height);
            const auto [targets, num_columns] = check_group(other_order, other_starts, other, width);
            WorstFirst heap(scores.data() + tile * room, keys.data() + tile * room, room);
            for (int64_t row = 0; row < num_rows; ++row) {
                const float* line = products.data() + (tile * height + row) * width;
                int good = 0;  // counted without a branch: most lines have none, and are passed over in vector code
                for (int64_t column = 0; column < num_columns; ++column) good += line[column] >= threshold;
                if (good == 0) continue;
                const int64_t source = sources[row];
                for (int64_t column = same && one == other ? row + 1 : 0; column < num_columns; ++column) {
                    if (!(line[column] >= threshold)) continue;
                    const int64_t target = targets[column];
                    if (!same && (source == target || (source > target && !one_way))) continue;
                    const int64_t key = same ? std::min(source, target) * num_nodes + std::max(source, target) : source * num_nodes + target;
                    if (!is_known(source, target)) heap.push(line[column], key);
                }
            }
            found[static_cast<size_t>(tile)] = heap.size();
        });
    }
    return to_numpy(std::move(found));
}

}  // namespace

void bind_search(nb::module_& module) {
    constexpr const char* products =
        "(num_pairs,) float64 inner products of the rows of each pair.\n\n"
        "embedding: (num_nodes, dim) float32 or float64; sources, targets: (num_pairs,) int64.";
    module.def("inner_products", &inner_products<float>, "embedding"_a.noconvert(), "sources"_a.noconvert(), "targets"_a.noconvert(), products);
    module.def("inner_products", &inner_products<double>, "embedding"_a.noconvert(), "sources"_a.noconvert(), "targets"_a.noconvert(), products);
    module.def("areas_under_curves", &areas_under_curves, "edges"_a.noconvert(), "others"_a.noconvert(),
               nb::call_guard<nb::gil_scoped_release>(),
               "(AUC, average precision) of the scores of edges against those of others.\n\n"
               "edges: (num_edges,) float64, others: (num_others,) float64: finite, ascending.");
    module.def("draw_candidates", &draw_candidates, "fixed"_a.noconvert(), "order"_a.noconvert(), "low"_a.noconvert(), "high"_a.noconvert(),
               "starts"_a.noconvert(), "downwards"_a.noconvert(), "indptr"_a.noconvert(), "indices"_a.noconvert(), "num_candidates"_a,
               "(num_rows, num_candidates) int64 nodes that are neither the row's fixed node nor joined to it, -1 where there are\n"
               "fewer: round order[low:high] from a start inside, then above and below by turns.\n\n"
               "fixed: (num_rows,) int64 nodes. order: (num_nodes,) int64 all nodes.\n"
               "low, high, starts: (num_rows,) int64 places in the order, low <= start < high.\n"
               "downwards: (num_rows,) bool, whether the first node outside is taken below.\n"
               "indptr: (num_nodes + 1,) int64, indices: (num_entries,) int32, ascending in each row: CSR pattern.");
    module.def("keep_best", &keep_best, "block"_a.noconvert(), "first"_a, "own"_a.noconvert(), "scores"_a.noconvert(), "nodes"_a.noconvert(),
               nb::call_guard<nb::gil_scoped_release>(),
               "None; merges a block of scores into the k best so far of each row. Of equal scores the one that came first stays first.\n\n"
               "block: (num_rows, num_columns) float32, its columns the nodes from `first` on.\n"
               "own: (num_rows,) int64 the node that a row must not find.\n"
               "scores: (num_rows, k) float32, nodes: (num_rows, k) int64: sorted from the best down, changed in place.");
    module.def("bound_boxes", &bound_boxes, "low"_a.noconvert(), "high"_a.noconvert(), "other_low"_a.noconvert(), "other_high"_a.noconvert(),
               "longest"_a.noconvert(), "other_longest"_a.noconvert(),
               "(num_boxes, num_others) float64: the largest inner product that two boxes allow, or the product of the longest\n"
               "vectors, whichever is less.\n\n"
               "low, high: (num_boxes, width) float64; other_low, other_high: (num_others, width) float64.\n"
               "longest: (num_boxes,) float64; other_longest: (num_others,) float64.");
    module.def("best_pairs", &best_pairs, "products"_a.noconvert(), "tiles"_a.noconvert(), "order"_a.noconvert(), "starts"_a.noconvert(),
               "other_order"_a.noconvert(), "other_starts"_a.noconvert(), "indptr"_a.noconvert(), "indices"_a.noconvert(), "threshold"_a,
               "same"_a, "one_way"_a, "scores"_a.noconvert(), "keys"_a.noconvert(),
               "(num_tiles,) int64 how many pairs were kept of each pair of groups: the best that reach a threshold and are not known.\n\n"
               "products: (num_tiles, height, width) float32 scores of the nodes of one group with those of another.\n"
               "tiles: (num_tiles,) int64 group · num_others + other.\n"
               "order: (num_nodes,) int64 nodes, group after group; starts: (num_groups + 1,) int64 their bounds.\n"
               "other_order, other_starts: the same for the columns.\n"
               "indptr: (num_nodes + 1,) int64, indices: (num_entries,) int32, ascending in each row: CSR pattern of known pairs.\n"
               "threshold: float. same: whether both orders are one, so that a pair counts once; one_way: whether (u, v) and (v, u)\n"
               "are different pairs.\n"
               "scores: (num_tiles, room) float32, keys: (num_tiles, room) int64 source · num_nodes + target: filled in no order.");
}

}  // namespace l2g2g
