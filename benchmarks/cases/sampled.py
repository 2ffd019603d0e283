"""Training and test rows of a case whose tasks have fixed samples, one table a task."""

from collections.abc import Mapping

from benchmarks.cases.instance import Table, streams


def split(
    seed: int, tables: Mapping[str, Table], rows: Mapping[str, int], test_rows: int
) -> tuple[dict[str, Table], dict[str, Table]]:
    """Return training and test tables, drawn for each task apart.

    The test rows do not depend on how many rows are trained on, and more training rows contain fewer.
    """
    tasks, test = {}, {}
    for stream, (name, (X, y)) in zip(streams(seed, len(tables)), tables.items(), strict=True):
        if test_rows + rows[name] > len(X):
            raise ValueError(f"{name}: expected {test_rows} + {rows[name]} rows in the sample, it has {len(X)}")
        order = stream.permutation(len(X))
        held, used = order[:test_rows], order[test_rows : test_rows + rows[name]]
        tasks[name], test[name] = (X[used], y[used]), (X[held], y[held])
    return tasks, test
