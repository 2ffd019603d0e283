"""Parquet tasks: which are read into memory and which are streamed, and the one pass over those."""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING

from aligngp.data.parquet import STREAMED_ABOVE, Dataset, Parquet, open_dataset, opened
from aligngp.data.processes import added, process_count, process_index
from aligngp.data.sizes import check_fits
from aligngp.data.stream import Stream, summarise

if TYPE_CHECKING:
    import pyarrow as pa

log = logging.getLogger("aligngp")


def open_stream(spec: Parquet, task: str, output: str | None = None) -> Dataset | None:
    """Return the dataset of a task that is streamed, None where its rows go into memory."""
    if spec.stream is False:
        return None
    dataset = open_dataset(spec, task, output)
    return dataset if spec.stream or dataset.bytes > STREAMED_ABOVE else None


def whole_table(spec: Parquet, task: str, output: str | None = None) -> pa.Table:
    """Return all rows of a dataset as a table of its inputs and output."""
    import pyarrow as pa

    dataset = open_dataset(spec, task, output)
    check_fits(os.fspath(spec.path), dataset.bytes)
    tables = []
    for file in dataset.files:
        with opened(file, task) as source:
            tables.append(source.read(columns=list(dataset.columns), use_threads=False).select(dataset.columns))
    return pa.concat_tables(tables, promote_options="permissive")


def summarised(dataset: Dataset, shards: int) -> Stream:
    """Return a dataset as a stream, after one pass over its rows."""
    log.info(
        "task %r: %d rows in %d row groups of %d files are streamed; one pass over them comes first",
        *(dataset.task, dataset.rows, len(dataset.groups), len(dataset.files)),
    )
    return Stream(dataset, summarise(dataset, (process_index(), process_count()), added), shards)
