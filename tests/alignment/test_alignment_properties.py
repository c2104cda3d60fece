"""Alignment, of any patches: what moved them is undone, whatever frame and order they come in."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from l2g2g.alignment.align import align

BOUNDED = settings(max_examples=15, deadline=None, derandomize=True)


@st.composite
def scenes(draw):
    """(points, patches of (nodes, coordinates)): a tree of patches with enough in common, each moved by itself."""
    dim, num_patches = draw(st.integers(1, 5)), draw(st.integers(2, 6))
    generator = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    shared, nodes, count = dim + draw(st.integers(2, 5)), [[] for _ in range(num_patches)], 0
    for second in range(1, num_patches):
        for patch in (int(generator.integers(second)), second):
            nodes[patch] += range(count, count + shared)
        count += shared
    for patch in nodes:
        patch += range(count, count + 2)
        count += 2
    points = generator.normal(size=(count, dim))
    return points, [(np.array(patch), moved(points[patch], generator)) for patch in nodes]


def moved(points, generator):
    dim = points.shape[1]
    rotation = np.linalg.qr(generator.normal(size=(dim, dim)))[0]
    rotation[0] *= generator.choice([-1, 1])
    return points @ rotation + 3 * generator.normal(size=dim)


def distances(points):
    return np.linalg.norm(points[:, None] - points[None], axis=2)


@BOUNDED
@given(scene=scenes())
def test_what_moved_the_patches_is_undone(scene):
    points, patches = scene
    aligned = align(patches)
    assert aligned.nodes.tolist() == list(range(len(points)))
    assert np.allclose(distances(aligned.embedding), distances(points), atol=1e-7)


@BOUNDED
@given(scene=scenes(), seed=st.integers(0, 999))
def test_another_frame_for_a_patch_changes_nothing_but_the_frame(scene, seed):
    _, patches = scene
    generator = np.random.default_rng(seed)
    noisy = [(nodes, part + 0.01 * generator.normal(size=part.shape)) for nodes, part in patches]
    turned = [(nodes, moved(part, generator)) for nodes, part in noisy]
    one, two = align(noisy), align(turned)
    assert np.allclose(distances(one.embedding), distances(two.embedding), atol=1e-6)
    assert np.isclose(one.residuals.after, two.residuals.after, atol=1e-8)


@BOUNDED
@given(scene=scenes(), seed=st.integers(0, 999))
def test_the_order_of_patches_and_of_their_nodes_does_not_matter(scene, seed):
    _, patches = scene
    generator = np.random.default_rng(seed)
    noisy = [(nodes, part + 0.01 * generator.normal(size=part.shape)) for nodes, part in patches]
    mixed = []
    for place in generator.permutation(len(noisy)):
        rows = generator.permutation(len(noisy[place][0]))
        mixed.append((noisy[place][0][rows], noisy[place][1][rows]))
    one, two = align(noisy), align(mixed)
    assert one.nodes.tolist() == two.nodes.tolist()
    assert np.allclose(distances(one.embedding), distances(two.embedding), atol=1e-6)


@BOUNDED
@given(scene=scenes())
def test_an_anchor_stays_where_it_is(scene):
    points, patches = scene
    aligned = align(patches, anchor=1)
    nodes, part = patches[1]
    assert np.allclose(aligned.embedding[nodes], part, atol=1e-7)
    assert np.allclose(distances(aligned.embedding), distances(points), atol=1e-7)


@BOUNDED
@given(scene=scenes())
def test_names_are_as_good_as_numbers(scene):
    _, patches = scene
    one = align(patches)
    two = align([(np.array([f"{node:04d}" for node in nodes]), part) for nodes, part in patches])
    assert two.nodes.tolist() == [f"{node:04d}" for node in one.nodes]
    assert np.allclose(one.embedding, two.embedding, atol=1e-9)
