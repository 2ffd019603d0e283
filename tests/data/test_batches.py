"""Minibatches: every row once an epoch, repeatable, and however many are drawn at once."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aligngp.data.batches import Batches, resolve_batch_sizes
from aligngp.errors import SettingError


def only(batches: Batches, count: int) -> np.ndarray:
    (rows,) = batches.draw(count)
    assert rows is not None
    return rows


@given(size=st.integers(2, 40), batch=st.integers(1, 39), epochs=st.integers(1, 4), seed=st.integers(0, 2**64))
def test_every_row_exactly_once_an_epoch(size, batch, epochs, seed):
    batch = min(batch, size - 1)
    rows = only(Batches([size], [batch], seed), -(-size * epochs // batch))
    assert rows.dtype == np.int32 and rows.shape[1] == batch
    for epoch in rows.ravel()[: size * epochs].reshape(epochs, size):
        assert sorted(epoch.tolist()) == list(range(size))


@given(counts=st.lists(st.integers(0, 7), max_size=8), skips=st.lists(st.booleans(), min_size=8, max_size=8))
def test_the_batches_do_not_depend_on_how_they_are_asked_for(counts, skips):
    whole = Batches([11, 30], [4, 7], 3).draw(sum(counts))
    parts, first = Batches([11, 30], [4, 7], 3), 0
    for count, skip in zip(counts, skips, strict=False):
        if skip:
            parts.skip(count)
        else:
            for rows, expected in zip(parts.draw(count), whole, strict=True):
                np.testing.assert_array_equal(rows, expected[first : first + count])
        first += count
    assert parts.drawn == sum(counts)


def test_the_sequence_is_pinned():
    """The permutations are those of NumPy's spawned seeds: task first, then epoch."""
    task = np.random.SeedSequence(7).spawn(2)[1]
    expected = np.concatenate([np.random.default_rng(epoch).permutation(5) for epoch in task.spawn(4)])
    _, rows = Batches([9, 5], [2, 4], 7).draw(5)
    np.testing.assert_array_equal(rows.ravel(), expected)


def test_another_task_changes_nothing_for_the_others():
    two = Batches([20, 9], [3, 2], 5).draw(30)
    three = Batches([20, 9, 50], [3, 2, 8], 5).draw(30)
    whole = Batches([20, 9], [None, 2], 5).draw(30)
    np.testing.assert_array_equal(two[0], three[0])
    np.testing.assert_array_equal(two[1], three[1])
    assert whole[0] is None
    np.testing.assert_array_equal(two[1], whole[1])


def test_tasks_of_equal_size_and_seeds_differ():
    first, second = Batches([50, 50], [10, 10], 0).draw(5)
    assert (first != second).any()
    assert (first != Batches([50, 50], [10, 10], 1).draw(5)[0]).any()
    np.testing.assert_array_equal(first, Batches([50, 50], [10, 10], 0).draw(5)[0])


def test_a_far_skip_is_free():
    batches = Batches([10**6], [1000], 0)
    batches.skip(10**12)
    rows = only(batches, 1)
    assert batches.drawn == 10**12 + 1
    assert len(np.unique(rows)) == 1000


def test_a_sum_over_a_batch_is_unbiased():
    """Over the random permutations, every row stands in every batch B/N times on average."""
    size, batch, seeds = 7, 3, 4000
    counts = np.zeros((4, size))
    for seed in range(seeds):
        for step, rows in enumerate(only(Batches([size], [batch], seed), 4)):
            np.add.at(counts[step], rows, 1)
    # Five standard deviations of a Bernoulli mean; the third batch straddles two permutations.
    np.testing.assert_allclose(counts / seeds, batch / size, atol=5 * np.sqrt(0.25 / seeds))


def test_all_rows_are_not_listed():
    assert Batches([5, 4], [None, 4], 0).draw(3) == (None, None)
    assert Batches([5], [9], 0).draw(3) == (None,)


@pytest.mark.parametrize(
    ("setting", "expected"),
    [
        (None, (None, None)),
        (32, (None, 32)),
        (6, (None, 6)),
        (np.int64(5), (5, 5)),
        ({"coarse": 10}, (None, 10)),
        ({"fine": 2, "coarse": None}, (2, None)),
        ({"fine": 100, "coarse": 100}, (None, None)),
        ({}, (None, None)),
    ],
)
def test_settings(setting, expected):
    assert resolve_batch_sizes(setting, ("fine", "coarse"), (6, 100)) == expected


@pytest.mark.parametrize("setting", [0, -3, 2.0, True, "32", [1, 2], float("nan")])
def test_settings_that_are_no_positive_integers(setting):
    message = f"must be a positive integer or None, got {setting!r}"
    with pytest.raises(SettingError, match="batch_size " + re.escape(message)):
        resolve_batch_sizes(setting, ("fine",), (6,))
    with pytest.raises(SettingError, match="batch_size for task 'fine' " + re.escape(message)):
        resolve_batch_sizes({"fine": setting}, ("fine",), (6,))


def test_settings_for_an_unknown_task():
    with pytest.raises(SettingError, match=r"'Fine', which is not a task \(did you mean 'fine'\?\).*'fine', 'coarse'"):
        resolve_batch_sizes({"Fine": 3}, ("fine", "coarse"), (6, 100))


def test_wrong_use():
    with pytest.raises(SettingError, match="seed must be a non-negative integer, got -1"):
        Batches([5], [2], -1)
    with pytest.raises(SettingError, match="2 tasks but 1 batch sizes"):
        Batches([5, 6], [2], 0)
    with pytest.raises(SettingError, match="positive integer or None, got 0"):
        Batches([5], [0], 0)
    with pytest.raises(SettingError, match="count must not be negative"):
        Batches([5], [2], 0).draw(-1)
