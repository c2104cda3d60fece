import numpy as np
import pytest

from l2g2g.errors import InputError
from l2g2g.patches.overlap_index import index_overlaps, rows_of_shared_nodes


def test_three_patches_by_hand():
    overlaps = index_overlaps([np.array([4, 0, 1]), np.array([1, 2, 4]), np.array([2, 9])])
    assert overlaps.edges.tolist() == [[0, 1], [1, 2]]
    assert overlaps.pointers.tolist() == [0, 2, 3]
    assert overlaps.first_rows.tolist() == [2, 0, 4]
    assert overlaps.second_rows.tolist() == [3, 5, 6]
    assert overlaps.sizes.tolist() == [2, 1]
    assert overlaps.pair_of_entry.tolist() == [0, 0, 1]


def test_rows_name_the_same_node_for_random_patches_and_sparse_ids():
    generator = np.random.default_rng(0)
    for spread in (60, 10**15):
        names = generator.choice(spread, 60, replace=False)
        patches = [generator.choice(names, 25, replace=False) for _ in range(7)]
        overlaps = index_overlaps(patches)
        stacked = np.concatenate(patches)
        assert (stacked[overlaps.first_rows] == stacked[overlaps.second_rows]).all()
        for edge, (i, j) in enumerate(overlaps.edges.tolist()):
            assert int(overlaps.sizes[edge]) == len(np.intersect1d(patches[i], patches[j]))
        expected = sum(len(np.intersect1d(patches[i], patches[j])) > 0 for i in range(7) for j in range(i))
        assert overlaps.num_pairs == expected


def test_only_given_pairs_are_looked_at():
    patches = [np.array([0, 1, 2]), np.array([1, 2, 3]), np.array([2, 3, 4])]
    assert index_overlaps(patches, pairs=np.array([[2, 1], [1, 0], [0, 1]])).edges.tolist() == [[0, 1], [1, 2]]


def test_buckets_cover_every_entry_once_with_little_padding():
    generator = np.random.default_rng(1)
    patches = [np.unique(generator.integers(0, 400, size)) for size in (5, 30, 80, 200, 390)]
    overlaps = index_overlaps(patches)
    seen = []
    for pairs, entries, mask in overlaps.buckets:
        kept = entries if mask is None else entries[mask]
        seen.append(kept.reshape(-1).numpy())
        assert entries.numel() <= 2 * int(overlaps.sizes[pairs].sum())
    assert sorted(np.concatenate(seen).tolist()) == list(range(len(overlaps.first_rows)))


def test_nothing_shared_and_no_patches():
    assert index_overlaps([np.array([0]), np.array([1])]).num_pairs == 0
    assert index_overlaps([]).num_pairs == 0
    assert index_overlaps([np.array([], dtype=int), np.array([1])]).buckets == []
    assert rows_of_shared_nodes(np.array([3, 10**14, 3])).tolist() == [0, 2]


@pytest.mark.parametrize("patches", [[[1, 2, 1]], [[1, 2, 1], [5]], [[0], [1, 0, 1]]])
def test_a_repeated_node_is_refused_by_name(patches):
    with pytest.raises(InputError, match="node 1 stands more than once in patch"):
        index_overlaps([np.array(patch) for patch in patches])


def test_a_pair_that_names_no_patch_is_refused():
    with pytest.raises(InputError, match=r"pair \[0, 3\]"):
        index_overlaps([np.array([0]), np.array([0])], pairs=np.array([[0, 3]]))


def test_moving_keeps_everything():
    overlaps = index_overlaps([np.array([0, 1]), np.array([1])]).to("cpu")
    assert overlaps.edges.tolist() == [[0, 1]]
    assert overlaps.num_patches == 2
