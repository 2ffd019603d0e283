"""Parquet files to stream from: what stands in them is known, and every row can be told from the others."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet


def table(rows: int, seed: int = 0, dimensions: int = 2) -> pa.Table:
    """Columns x1, x2, ... and zeta, a smooth function of them with some noise."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1.0, 1.0, size=(rows, dimensions))
    zeta = np.sin(3.0 * X[:, 0]) + 0.3 * X.sum(axis=1) + 0.05 * rng.normal(size=rows)
    return pa.table({**{f"x{d + 1}": X[:, d] for d in range(dimensions)}, "zeta": zeta})


def write(path: Path, rows: pa.Table, group: int = 100) -> Path:
    """The table as a Parquet file with row groups of that size."""
    path.parent.mkdir(parents=True, exist_ok=True)
    parquet.write_table(rows, path, row_group_size=group)
    return path


def matrix(rows: pa.Table) -> np.ndarray:
    """The values (N, C) of a table."""
    return np.column_stack([rows.column(name).to_numpy() for name in rows.column_names])
