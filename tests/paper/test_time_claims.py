"""Claims about time, growth and memory."""

import pytest

from l2g2g.paper import complexity
from l2g2g.paper.timing import timing_options


@pytest.fixture
def epochs(make_row):
    """Lines of the training times on one graph: epochs(dataset, edges, {contender: seconds})."""

    def make(dataset, num_edges, seconds, **fields):
        options = timing_options(False)
        return [
            make_row(dataset, name, options=options, epoch=own, num_edges=num_edges, **fields)
            for name, own in seconds.items()
        ]

    return make


@pytest.mark.parametrize(
    ("words", "good", "bad"),
    [
        ("L2G2G and GAE+L2G train at nearly", {"l2g2g": 1.9, "gae+l2g": 1}, {"l2g2g": 0.4, "gae+l2g": 1}),
        ("L2G2G is not much slower than FastGAE", {"l2g2g": 1.9, "fastgae": 1}, {"l2g2g": 2.1, "fastgae": 1}),
        ("L2G2G is faster than GAE in almost", {"l2g2g": 0.9, "gae": 1}, {"l2g2g": 1.1, "gae": 1}),
        ("An epoch of L2G2G takes around a tenth", {"l2g2g": 0.14, "gae": 1}, {"l2g2g": 0.16, "gae": 1}),
    ],
)
def test_ratios_of_epochs(epochs, judge, words, good, bad):
    assert judge(words, "training-time", epochs("yelp-like", 10**7, good)).verdict == "holds"
    assert judge(words, "training-time", epochs("yelp-like", 10**7, bad)).verdict == "does not hold"
    assert judge(words, "training-time", epochs("yelp-like", 10**7, {"l2g2g": 1})).verdict == "not measured"


def test_the_exception_of_the_two_smaller_graphs_is_checked(epochs, judge):
    slow, fast = {"l2g2g": 2, "gae": 1}, {"l2g2g": 0.5, "gae": 1}
    rows = epochs("cora-ml", 100, slow) + epochs("sbm-large", 10**6, fast)
    assert judge("L2G2G is faster than GAE in almost", "training-time", rows).verdict == "holds"
    assert judge("On the two smaller", "training-time", rows).verdict == "holds"
    rows += epochs("sbm-small", 100, fast)
    assert judge("On the two smaller", "training-time", rows).verdict == "does not hold"


def test_only_graphs_with_a_million_edges_are_larger(epochs, judge):
    words = "An epoch of L2G2G takes around a tenth"
    small = epochs("cora-ml", 10**5, {"l2g2g": 2, "gae": 1})
    assert judge(words, "training-time", small).verdict == "not measured"
    large = epochs("sbm-large", 10**6, {"l2g2g": 0.1, "gae": 1})
    assert judge(words, "training-time", small + large).verdict == "holds"


def test_every_fast_method_must_be_ten_times_faster(epochs, judge):
    words = "The faster methods are at least an order"
    seconds = {"gae": 1, "fastgae": 0.1, "gae+l2g": 0.05, "l2g2g": 0.1}
    assert judge(words, "training-time", epochs("cora", 100, seconds)).verdict == "holds"
    slower = judge(words, "training-time", epochs("cora", 100, seconds | {"fastgae": 0.11}))
    assert slower.verdict == "does not hold"
    assert "FastGAE on 0 of 1 (cora 0.11)" in slower.evidence
    del seconds["fastgae"]
    assert judge(words, "training-time", epochs("cora", 100, seconds)).verdict == "not measured"


def test_the_gap_on_large_graphs(epochs, judge):
    small = epochs("cora", 100, {"l2g2g": 0.02, "gae+l2g": 0.01})
    for ours, verdict in ((1.1, "holds"), (0.9, "does not hold")):
        large = epochs("sbm-large", 10**6, {"l2g2g": ours, "gae+l2g": 1})
        assert judge("The gap of L2G2G", "training-time", small + large).verdict == verdict
    ahead = epochs("cora", 100, {"l2g2g": 0.01, "gae+l2g": 0.51})  # a lead that becomes smaller is no gap
    assert judge("The gap of L2G2G", "training-time", ahead + large).verdict == "does not hold"
    assert judge("The gap of L2G2G", "training-time", small).verdict == "not measured"


def by_patches(make_row, dataset, ours, theirs, **fields):
    return [
        make_row(dataset, name, options=timing_options(False, patches=count), epoch=epoch, **fields)
        for name, times in {"l2g2g": ours, "gae+l2g": theirs}.items()
        for count, epoch in zip((2, 30), times, strict=True)
    ]


def test_times_by_patches(make_row, judge):
    small = by_patches(make_row, "cora", (2.0, 1.0), (1.9, 1.0))
    large = by_patches(make_row, "yelp-like", (2.0, 3.0), (1.5, 2.8), num_nodes=10**6)
    rows = small + large
    assert judge("The training time of L2G2G increases", "patch-time", large).verdict == "holds"
    assert judge("The training time of L2G2G increases", "patch-time", rows).verdict == "does not hold"  # one of two
    falling = judge("On a CPU it decreases", "patch-time", rows)
    assert falling.verdict == "holds"
    assert "30 patches ÷ 2: on 1 of 1 (cora 0.50)" in falling.evidence
    assert judge("From 2 to 30 patches the gap", "patch-time", rows).verdict == "holds"
    assert judge("From 2 to 30 patches that gap", "patch-time", rows).verdict == "holds"


def test_gaps_by_patches_that_change(make_row, judge):
    small = by_patches(make_row, "cora", (2.0, 1.0), (1.5, 1.0))
    assert judge("From 2 to 30 patches the gap", "patch-time", small).verdict == "does not hold"
    assert judge("From 2 to 30 patches that gap", "patch-time", small).verdict == "not measured"
    for ours in (3.0, 2.0):  # from 0.1 above to 0.5 above or below
        large = by_patches(make_row, "yelp-like", (2.0, ours), (1.9, 2.5), num_nodes=10**6)
        assert judge("From 2 to 30 patches that gap", "patch-time", large).verdict == "does not hold"


def test_large_patches(make_row, judge):
    for nodes, verdict in ((90, "holds"), (50, "does not hold")):  # of 1000 nodes, 30 patches
        rows = by_patches(make_row, "cora", (1, 1), (1, 1), largest_patch_nodes=nodes)
        assert judge("Overlapping patches", "patch-time", rows).verdict == verdict


@pytest.fixture
def grow(make_row):
    """Lines of a sweep: grow(name, contender, value -> seconds)."""

    def make(name, contender, time):
        (sweep,) = [sweep for sweep in complexity.sweeps(False) if sweep.name == name]
        return [
            make_row(point.dataset, contender, options=timing_options(False, **point.options), epoch=time(point.value))
            for point in sweep.points
        ]

    return make


def test_all_four_methods_must_be_linear(grow, judge):
    words = "All four sparse"
    linear = grow("n", "gae", lambda n: 1e-6 * n**0.99)
    assert judge(words, "complexity", linear).verdict == "cannot be said"  # of one
    linear += grow("n", "fastgae", lambda n: 1e-6 * n**0.7) + grow("n", "gae+l2g", lambda n: 1e-6 * n**0.7)
    rows = linear + grow("n", "l2g2g", lambda n: 1e-6 * n**0.9)
    found = judge(words, "complexity", rows)
    assert found.verdict == "holds"
    assert "GAE 0.99 ± 0.00" in found.evidence
    assert judge(words, "complexity", linear + grow("n", "l2g2g", lambda n: 1e-6 * n**1.1)).verdict == "does not hold"
    ends = {rows[0]["cell"]["dataset"], rows[3]["cell"]["dataset"]}
    two_points = [row for row in rows if row["cell"]["dataset"] in ends]
    assert judge(words, "complexity", two_points).verdict == "cannot be said"


def test_an_exponent_counts_with_its_error(grow, judge):
    steep = [row for name in ("gae", "fastgae", "gae+l2g") for row in grow("n", name, lambda n: 1e-6 * n**0.9)]
    steep += grow("n", "l2g2g", lambda n: 1e-6 * n**1.1 * (2 if n == 32_000 else 1))
    assert judge("All four sparse", "complexity", steep).verdict == "holds"


def test_the_decoder_of_all_pairs(grow, judge):
    words = "The decoder of GAE scales as N²"
    assert judge(words, "complexity", grow("pairs", "gae", lambda n: 1e-9 * n**2)).verdict == "holds"
    assert judge(words, "complexity", grow("pairs", "gae", lambda n: 1e-9 * n**2.5)).verdict == "does not hold"
    rough = grow("pairs", "gae", lambda n: 1e-9 * n**2 * (3 if n == 2000 else 1))
    assert judge(words, "complexity", rough).verdict == "cannot be said"


def test_patches_reduce_the_cost_of_the_decoder(grow, judge):
    words = "In the general case more patches"
    rows = grow("pairs", "gae", lambda n: n**2) + grow("pairs", "gae+l2g", lambda n: 2000 * n)
    assert judge(words, "complexity", rows).verdict == "not measured"
    assert judge(words, "complexity", rows + grow("pairs", "l2g2g", lambda n: 2000 * n)).verdict == "holds"
    assert judge(words, "complexity", rows + grow("pairs", "l2g2g", lambda n: n**2 + 1)).verdict == "does not hold"


def test_the_gap_must_grow_linearly_with_the_patches(grow, judge):
    words = "With more patches the gap"
    flat = grow("k", "gae+l2g", lambda k: 1.0)
    assert judge(words, "complexity", flat + grow("k", "l2g2g", lambda k: 1 + 0.1 * k)).verdict == "holds"
    for time in (lambda k: 1.0, lambda k: 1 - 0.01 * k, lambda k: 0.5 + 0.01 * k, lambda k: 1.1 + (k > 2)):
        assert judge(words, "complexity", flat + grow("k", "l2g2g", time)).verdict == "does not hold"


def failure(dataset, error, **options):
    cell = {"dataset": dataset, "method": "gae", "preset": "paper", "options": timing_options(False) | options}
    return {"key": dataset, "cell": cell, "error": error}


def test_only_failures_for_want_of_memory_count(epochs, judge):
    words = "GAEs suffer from memory issues"
    good = epochs("sbm-large", 10**6, {"gae": 1})
    others = [failure("yelp", "NumericalError: loss"), failure("reddit", "MemoryError: ", epochs=3)]
    found = judge(words, "training-time", good + others)
    assert found.verdict == "does not hold"
    assert "out of memory: on no graph; finished on 1 graphs" in found.evidence
    for error in ("MemoryError: ", "ResourceError: not enough memory", "RuntimeError: can't allocate memory"):
        found = judge(words, "training-time", [*good, failure("yelp", error)])
        assert found.verdict == "holds"
        assert "out of memory: yelp" in found.evidence
    assert judge(words, "training-time", others).verdict == "not measured"


def test_the_matrix_of_all_scores(epochs, judge):
    words = "GAEs store very large matrices"
    small, large = (epochs(f"a{n}", 10, {"gae": 1}, num_nodes=n) for n in (10_000, 100_000))
    assert judge(words, "training-time", small).verdict == "does not hold"
    found = judge(words, "training-time", large)
    assert found.verdict == "holds"
    assert "a100000 40.00" in found.evidence
    assert "sampled pairs all of a100000 took at most 1.0 GB" in found.evidence
    assert judge(words, "training-time", small + large).verdict == "does not hold"  # half is not more than half
