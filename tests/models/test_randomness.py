"""Randomness by counter: numba and torch give the same bits, and streams are apart."""

import numpy as np
import torch

from l2g2g.models.randomness import (
    Purpose,
    mix,
    random_word,
    random_words,
    scale_to,
    signed_key,
    stream_key,
    torch_generator,
)

GOLDEN = 0x9E3779B97F4A7C15


def test_splitmix64_by_its_published_sequence():
    # The first outputs of SplitMix64 with seed 1234567 (reference implementation by Vigna).
    expected = [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431]
    with np.errstate(over="ignore"):
        drawn = [int(random_word(np.uint64(1234567), np.uint64(position))) for position in range(4)]
    assert drawn == expected
    assert mix((1234567 + GOLDEN) % 2**64) == expected[0]


def test_numba_and_torch_give_the_same_bits():
    positions = torch.arange(500)
    for key in (0, 1, 2**63 - 1, 2**63, 2**64 - 1, stream_key(3, Purpose.NEGATIVES, 5, 7)):
        words = random_words(torch.tensor(signed_key(key)), positions).numpy().view(np.uint64)
        assert [int(random_word(np.uint64(key), np.uint64(position))) for position in range(500)] == words.tolist()


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


def test_torch_generators_repeat_and_differ():
    draw = [torch.randn(8, generator=torch_generator(0, Purpose.NOISE, epoch, 1)) for epoch in (4, 4, 5)]
    assert torch.equal(draw[0], draw[1])
    assert not torch.equal(draw[0], draw[2])


def test_scaled_words_fill_their_range_evenly():
    words = random_words(torch.tensor(signed_key(stream_key(0, Purpose.MASK))), torch.arange(70_000))
    counts = torch.bincount(scale_to(words, torch.tensor(7)), minlength=7).double()
    assert len(counts) == 7
    assert float(((counts - 10_000) ** 2 / 10_000).sum()) < 22.5  # chi-square, 6 degrees, p = 0.001
    largest = scale_to(torch.tensor(-1), torch.tensor(2**31 - 1))  # all bits set
    assert int(largest) == 2**31 - 2
