"""Randomness by counter: keys, words and hashes are what their formulas say, and streams are apart."""

import numpy as np
import pytest
import torch

from l2g2g.core import hash_nodes, hash_numbers, hash_pairs
from l2g2g.core.randomness import (
    Purpose,
    gaussian_numbers,
    mix,
    mix_words,
    random_words,
    scale_all_bits,
    scale_words,
    share_threshold,
    stream_key,
    stream_keys,
    torch_generator,
)

GOLDEN = 0x9E3779B97F4A7C15


def test_splitmix64_by_its_published_sequence():
    # The first outputs of SplitMix64 with seed 1234567 (reference implementation by Vigna).
    expected = [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431]
    keys = np.array([1234567], np.uint64)
    assert [int(random_words(keys, position)[0]) for position in range(4)] == expected
    assert mix((1234567 + GOLDEN) % 2**64) == expected[0]


def test_arrays_are_mixed_like_numbers():
    words = np.array([0, 1, 2**32, 2**63 - 1, 2**63, 2**64 - 1], np.uint64)
    assert mix_words(words).tolist() == [mix(int(word)) for word in words]


def test_every_part_of_a_key_changes_the_stream():
    base = stream_key(1, Purpose.NEGATIVES, 2, 3)
    others = [
        stream_key(2, Purpose.NEGATIVES, 2, 3),
        stream_key(1, Purpose.NOISE, 2, 3),
        stream_key(1, Purpose.NEGATIVES, 3, 3),
        stream_key(1, Purpose.NEGATIVES, 2, 4),
        stream_key(1, Purpose.NEGATIVES, 3, 2),
    ]
    assert len({base, *others}) == 6
    assert base == stream_key(1, Purpose.NEGATIVES, 2, 3)
    grid = {stream_key(s, p, e, j) for s in range(5) for p in Purpose for e in range(10) for j in range(10)}
    assert len(grid) == 5 * len(Purpose) * 100
    assert all(0 <= key < 2**64 for key in grid)


def test_keys_of_many_patches_are_those_of_each():
    patches = np.array([4, 0, 2**31])
    expected = [stream_key(7, Purpose.MASK, 3, patch) for patch in patches.tolist()]
    assert stream_keys(7, Purpose.MASK, 3, patches).tolist() == expected


def test_torch_generators_repeat_and_differ():
    draw = [torch.randn(8, generator=torch_generator(0, Purpose.NOISE, patch)) for patch in (4, 4, 5)]
    assert torch.equal(draw[0], draw[1])
    assert not torch.equal(draw[0], draw[2])


def test_scaled_words_fill_their_range_evenly():
    keys = stream_keys(0, Purpose.MASK, 0, np.arange(70_000))
    counts = np.bincount(scale_words(random_words(keys, 0), np.full(70_000, 7)), minlength=7)
    assert len(counts) == 7
    assert ((counts - 10_000) ** 2 / 10_000).sum() < 22.5  # chi-square, 6 degrees, p = 0.001
    largest = scale_words(np.array([2**64 - 1], np.uint64), np.array([2**31 - 1]))
    assert largest.tolist() == [2**31 - 2]
    assert scale_words(np.array([0], np.uint64), np.array([9])).tolist() == [0]


@pytest.mark.parametrize(("fraction", "threshold"), [(0.0, 0), (0.25, 2**30), (0.5, 2**31), (1.0, 2**32)])
def test_thresholds_are_shares_of_all_words(fraction, threshold):
    assert share_threshold(fraction) == threshold


def test_hashes_of_nodes_pairs_and_numbers_fill_their_range_evenly():
    """Of neighbouring numbers, under keys of one stream after another: nothing is left of their order."""
    nodes = np.arange(64_000, dtype=np.int32)
    for epoch in range(3):
        key = stream_key(0, Purpose.MASK, epoch)
        hashes = hash_nodes(nodes, key)
        assert len(np.unique(hashes)) == len(nodes)  # a bijection
        words = [
            hashes,
            hash_pairs(nodes, np.roll(nodes, 1), key),
            hash_pairs(np.zeros_like(nodes), nodes, key),
            hash_numbers(np.repeat(hashes[:64], 1000), np.tile(np.arange(1000), 64), key),
        ]
        for each in words:
            for bits in (each >> np.uint32(26), each & np.uint32(63), (each >> np.uint32(13)) & np.uint32(63)):
                counts = np.bincount(bits, minlength=64)
                assert ((counts - 1000) ** 2 / 1000).sum() < 63 + 5 * np.sqrt(2 * 63)


def test_hashes_of_pairs_have_no_direction_and_follow_the_key():
    one, other = np.random.default_rng(0).integers(0, 2**31, (2, 500)).astype(np.int32)
    assert (hash_pairs(one, other, 5) == hash_pairs(other, one, 5)).all()
    for changed in (6, 5 + 2**32, 5 + 2**63):  # both halves of the key count
        assert (hash_pairs(one, other, changed) != hash_pairs(one, other, 5)).mean() > 0.99


@pytest.mark.parametrize("bound", [1, 3, 10_000_019, 2**31 + 11, 2**32 - 1])
def test_all_bits_of_a_word_are_scaled(bound):
    words = np.array([0, 1, 2**32 - 1, 2**32, 2**63 + 12345, 2**64 - 2**32, 2**64 - 1], np.uint64)
    words = np.concatenate([words, random_words(np.arange(1000, dtype=np.uint64), 0)])
    assert scale_all_bits(words, bound).tolist() == [int(word) * bound >> 64 for word in words.tolist()]


def test_normal_numbers_of_nodes():
    nodes = np.arange(20_000)
    numbers = gaussian_numbers(nodes, 5, seed=1, epoch=2)
    assert numbers.shape == (20_000, 5)
    assert np.abs(numbers.mean(0)).max() < 4 / np.sqrt(20_000)
    np.testing.assert_allclose(np.cov(numbers.T), np.eye(5), atol=0.04)
    assert np.abs(np.mean(np.abs(numbers) < 1.0, axis=0) - 0.6827).max() < 0.015
    some = np.array([7, 19_999, 3])
    np.testing.assert_array_equal(gaussian_numbers(some, 5, seed=1, epoch=2), numbers[some])  # by node, not by place
    assert (gaussian_numbers(nodes, 5, seed=1, epoch=3) != numbers).mean() > 0.99
