"""Rows of a stream: every one once an epoch, in an order of their own, from any position; and what a pass tells."""

import numpy as np
import pytest

import aligngp as agp
from aligngp.data import stream as module
from aligngp.data.parquet import Dataset, open_dataset
from aligngp.data.scaling import fit_scaler
from aligngp.data.stream import Batcher, Shard, Stream, combined, group_facts, summarise
from streams import matrix, table, write


@pytest.fixture
def made(tmp_path):
    """A dataset of 1000 rows in 13 row groups of two files, and its values in the files' order."""
    rows = table(1000)
    write(tmp_path / "a.parquet", rows.slice(0, 630), 90)
    write(tmp_path / "b.parquet", rows.slice(630), 70)
    return open_dataset(agp.Parquet(tmp_path, "zeta"), "coarse"), matrix(rows)


def sorted_rows(values):
    return values[np.lexsort(values.T)]


def test_the_summary_is_that_of_all_rows(made, monkeypatch):
    dataset, values = made
    monkeypatch.setattr(module, "SAMPLE_ROWS", 100)
    found = summarise(dataset)
    np.testing.assert_allclose(found.mean, values.mean(axis=0), rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(found.spread, values.std(axis=0), rtol=1e-12)
    np.testing.assert_array_equal(found.low, values.min(axis=0))
    np.testing.assert_array_equal(found.high, values.max(axis=0))
    assert found.sample.shape == (100, 3)
    places = [int(np.flatnonzero((values == row).all(axis=1))[0]) for row in found.sample]
    assert len(set(places)) == 100 and max(np.diff(np.sort(places))) < 100  # all over the files
    np.testing.assert_array_equal(places, np.sort(places))


def test_all_rows_are_the_sample_where_they_are_few(made):
    dataset, values = made
    np.testing.assert_array_equal(summarise(dataset).sample, values)


@pytest.mark.parametrize("offset, scale", [(0.0, 1.0), (1e9, 1.0), (-1e5, 1e-6), (0.0, 1e200), (1e-300, 1e-305)])
def test_moments_in_pieces_are_those_of_the_whole(offset, scale):
    rng = np.random.default_rng(0)
    values = offset + scale * rng.normal(size=(3000, 1))
    whole = fit_scaler(values)
    pieces = [_facts(piece) for piece in np.split(values, [10, 11, 700, 2500])]
    found = combined(pieces, values[:1])
    np.testing.assert_allclose(found.mean, whole.mean, rtol=1e-12, atol=1e-10 * scale)
    np.testing.assert_allclose(found.spread, whole.scale, rtol=1e-7)
    np.testing.assert_allclose(found.scaler(slice(None), True).scale, whole.scale, rtol=1e-7)


def test_a_constant_column_gets_scale_one():
    values = np.full((100, 1), 0.1)
    found = combined([_facts(values[:33]), _facts(values[33:])], values[:1])
    np.testing.assert_array_equal(found.scaler(slice(None), True).scale, [1.0])
    np.testing.assert_array_equal(found.scaler(slice(None), False).mean, [0.0])


def _facts(values):
    mean, spread = module.moments(values)
    return np.stack([np.full(1, float(len(values))), mean, spread, values.min(axis=0), values.max(axis=0)])


def test_facts_of_a_row_group_are_its_own(made):
    dataset, values = made
    facts, chosen = group_facts(dataset, 8, np.array([0, 69]))
    own = values[700:770]
    np.testing.assert_allclose(facts[1:3], [own.mean(axis=0), own.std(axis=0)], rtol=1e-10, atol=1e-14)
    np.testing.assert_array_equal(facts[0], [70.0] * 3)
    np.testing.assert_array_equal(chosen, own[[0, 69]])


@pytest.mark.parametrize("shards", [1, 3])
def test_an_epoch_takes_every_row_once(made, monkeypatch, shards):
    dataset, values = made
    monkeypatch.setattr(module, "POOL_BYTES", 3 * 8 * 250)
    stream = Stream(dataset, summarise(dataset), shards)
    assert sum(stream.rows_of) == 1000 and np.ptp(stream.rows_of) <= 90
    epochs = []
    for shard in range(shards):
        one, size = Shard(stream, shard, 0, 5), int(stream.rows_of[shard])
        epochs.append([one.rows(start, size) for start in (0, size)])
        one.close()
    for epoch in zip(*epochs, strict=True):
        np.testing.assert_array_equal(sorted_rows(np.concatenate(epoch)), sorted_rows(values))
    assert not np.array_equal(epochs[0][0], epochs[0][1])


def test_the_order_is_random_within_pools_and_over_row_groups(made, monkeypatch):
    dataset, values = made
    monkeypatch.setattr(module, "POOL_BYTES", 3 * 8 * 250)
    one = Shard(Stream(dataset, summarise(dataset)), 0, 0, 5)
    drawn = one.rows(0, 1000)
    one.close()
    ends = np.cumsum(dataset.groups[:, 2])
    group = np.searchsorted(ends, [np.flatnonzero((values == row).all(axis=1))[0] for row in drawn], side="right")
    first = set(group[:150])
    assert 2 <= len(first) <= 3  # as many row groups as a pool has room for ...
    assert len(np.unique(group[:20])) >= 2  # ... mixed
    assert sorted(first) != list(range(len(first)))
    other = Shard(Stream(dataset, summarise(dataset)), 0, 0, 6)
    assert not np.array_equal(other.rows(0, 100), drawn[:100])
    other.close()


@pytest.mark.parametrize("shards", [1, 2])
def test_any_batch_is_found_again(made, monkeypatch, shards):
    dataset, _ = made
    monkeypatch.setattr(module, "POOL_BYTES", 3 * 8 * 250)
    stream = Stream(dataset, summarise(dataset), shards)
    whole = Batcher(stream, 1, 5, 64)
    expected = whole.draw(0, 50)
    whole.close()
    later = Batcher(stream, 1, 5, 64)
    np.testing.assert_array_equal(later.draw(31, 4), expected[31:35])
    np.testing.assert_array_equal(later.draw(35, 15), expected[35:])
    np.testing.assert_array_equal(later.draw(0, 1), expected[:1])
    later.close()


def test_shards_read_apart_make_the_batch_of_all(made):
    dataset, _ = made
    stream = Stream(dataset, summarise(dataset), 4)
    batchers = [Batcher(stream, 0, 5, 64, shards) for shards in (None, [0, 1], [2, 3])]
    whole, *parts = (one.draw(2, 3) for one in batchers)
    np.testing.assert_array_equal(np.concatenate(parts, axis=1), whole)
    if batchers[0].weights is not None:
        np.testing.assert_array_equal(np.concatenate([one.weights for one in batchers[1:]]), batchers[0].weights)
    for one in batchers:
        one.close()


def test_rows_of_smaller_shards_count_for_less(tmp_path):
    """So that the mean over batches of a weighted sum is the sum over all rows."""
    write(tmp_path / "a.parquet", table(300), 200)
    dataset = open_dataset(agp.Parquet(tmp_path, "zeta"), "coarse")
    stream = Stream(dataset, summarise(dataset), 2)
    np.testing.assert_array_equal(stream.rows_of, [200, 100])
    batcher = Batcher(stream, 0, 5, 10)
    drawn = batcher.draw(0, 40)  # one epoch of the larger shard, two of the smaller
    batcher.close()
    sums = (drawn[..., 2] * batcher.weights).sum(axis=1) * 300 / 10
    np.testing.assert_allclose(sums.mean(), matrix(table(300))[:, 2].sum(), rtol=1e-12)


def test_blocks_are_all_rows_once(made, monkeypatch):
    dataset, values = made
    monkeypatch.setattr(module, "BLOCK_ROWS", 40)
    stream = Stream(dataset, summarise(dataset), 3)
    blocks = list(stream.blocks())
    assert max(map(len, blocks)) == 40
    np.testing.assert_array_equal(np.concatenate(blocks), values)
    parts = [np.concatenate(list(stream.blocks(shards))) for shards in ([0], [1, 2])]
    np.testing.assert_array_equal(sorted_rows(np.concatenate(parts)), sorted_rows(values))


def test_two_pools_and_no_more_are_held(made, monkeypatch):
    """The memory of a stream, counted: what is read and not yet given back."""
    dataset, _ = made
    monkeypatch.setattr(module, "POOL_BYTES", 3 * 8 * 100)
    held, most = [], []
    read = Shard._read

    def counted(self, groups, *where):
        values, order = read(self, groups, *where)
        import weakref

        held.append(weakref.ref(values))
        most.append(sum(one() is not None for one in held))
        return values, order

    monkeypatch.setattr(Shard, "_read", counted)
    one = Shard(Stream(dataset, summarise(dataset)), 0, 0, 5)
    for start in range(0, 3000, 25):
        one.rows(start, 25)
    one.close()
    assert len(held) > 30
    assert max(most) <= 2


def test_what_fails_while_reading_ahead_is_told_where_it_is_needed(made, monkeypatch):
    dataset, _ = made
    stream = Stream(dataset, summarise(dataset))
    monkeypatch.setattr(module, "POOL_BYTES", 3 * 8 * 100)
    one = Shard(stream, 0, 0, 5)
    one.rows(0, 10)

    def broken(self, group):
        raise agp.DataError("the disk is gone")

    monkeypatch.setattr(Dataset, "read", broken)
    with pytest.raises(agp.DataError, match="the disk is gone"):
        one.rows(0, 1000)
    one.close()


def test_shards_and_batches_that_do_not_fit_are_refused(made):
    dataset, _ = made
    with pytest.raises(agp.SettingError, match=r"task 'coarse': shards=14 parts of 13 row groups cannot be made"):
        Stream(dataset, summarise(dataset), 14)
    with pytest.raises(agp.SettingError, match=r"'coarse': expected a multiple of its 3 shards, got 64"):
        Batcher(Stream(dataset, summarise(dataset), 3), 0, 5, 64)
