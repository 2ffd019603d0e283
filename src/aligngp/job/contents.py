"""What a job says: the files of the tasks, what is known of them, the settings."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aligngp.data.files import missing_file, read_table
from aligngp.data.parquet import Parquet, is_dataset, open_dataset, stored_columns
from aligngp.data.streamed import open_stream, whole_table
from aligngp.data.tasks import Task, read_inputs_and_output, task_schema
from aligngp.errors import DataError, SettingError
from aligngp.job.agree import check_agreement
from aligngp.job.lines import Keys
from aligngp.settings import Settings


@dataclass(frozen=True)
class Source:
    """A task's table: its file, output column, input columns (default all others), known noise, Excel sheet.

    ``stream`` and ``shards`` are those of :class:`aligngp.Parquet`.
    """

    file: Path | str
    output: str
    inputs: tuple[str, ...] | None = None
    noise: float | None = None
    sheet: str | None = None
    stream: bool | None = None
    shards: int | None = None

    def open(self) -> Any:
        """Return the table, or its files where they are Parquet."""
        if is_dataset(self.file) and self.sheet is None:
            return self._parquet()
        if self.stream is not None or self.shards is not None:
            raise DataError(
                f"{self.file}: stream and shards are for Parquet. Remove them, or write the table as Parquet."
            )
        return read_table(self.file, self.sheet)

    def task(self, name: str, opened: Any) -> Task | Parquet:
        """Return what was opened as a task: a stream as it is, anything else in memory."""
        if isinstance(opened, Parquet):
            if open_stream(opened, name) is not None:
                return opened
            opened = read_table(self.file) if Path(self.file).is_file() else whole_table(opened, name)
        return Task(opened, self.output, self.inputs, noise=self.noise)

    def _parquet(self) -> Parquet:
        return Parquet(self.file, self.output, self.inputs, None, self.noise, self.stream, self.shards or 1)

    def checksum(self, task: str) -> str:
        """Return a checksum of the contents; of Parquet by its footers, which tell other contents apart."""
        if is_dataset(self.file):
            return open_dataset(self._parquet(), task).fingerprint()
        file = Path(self.file)
        if not file.exists():
            raise DataError(f"{missing_file(file)} Check the name and the folder.")
        with file.open("rb") as opened:
            return hashlib.file_digest(opened, "sha256").hexdigest()

    def said(self, task: str) -> dict[str, Any]:
        """Return all that is said of the table and its contents, for a checksum."""
        plain = {name: value for name, value in dataclasses.asdict(self).items() if name not in ("stream", "shards")}
        given = {name: getattr(self, name) for name in ("stream", "shards") if getattr(self, name) is not None}
        return {**plain, **given, "file": self.checksum(task)}


@dataclass(frozen=True)
class Job:
    """What a job file asks for."""

    path: Path
    tasks: Mapping[str, Source]
    test: Mapping[str, Source]
    common: str | None
    mappings: Mapping[str, Any]
    mappings_given: Mapping[str, Any]
    """The mappings as TOML has them."""
    model: Mapping[str, Any]
    """Further keywords of AlignedGP."""
    lines: Mapping[Keys, int] = field(default_factory=dict)
    """In which line a key stands."""

    @property
    def settings(self) -> Settings:
        """Return the settings of the fit, without the mappings."""
        return Settings(**{key: value for key, value in self.keywords.items() if key != "mappings"})

    @property
    def keywords(self) -> dict[str, Any]:
        """Return the keywords of AlignedGP."""
        return {"common": self.common, "mappings": dict(self.mappings) or None, **self.model}

    def read(self) -> tuple[dict[str, Task | Parquet], dict[str, Task]]:
        """Return the tasks with their tables, and the test rows of those that have some; all of them checked."""
        tasks, schemas, test = {}, {}, {}
        for name, source in self.tasks.items():
            opened, columns = self._opened("tasks", name, source)
            unknown = [column for column in source.inputs or () if column not in columns]
            with self._said(*self._output("tasks", name, columns), *([("tasks", name, "inputs")] if unknown else [])):
                with _of(source.file):
                    tasks[name] = source.task(name, opened)
                    schemas[name] = task_schema(name, tasks[name])
        check_agreement(self.path, self.settings, self.mappings, schemas, self._said)
        for name, source in self.test.items():
            table = self._table("test", name, source)
            test[name] = Task(table, source.output)
            with self._said(*self._output("test", name, table.column_names)), _of(source.file):
                read_inputs_and_output(schemas[name], test[name])
        return tasks, test

    def digest(self) -> str:
        """Return a checksum of all settings and of the files' contents: equal where a fit would be the same."""
        settings = self.settings
        plain = {one.name: getattr(settings, one.name) for one in dataclasses.fields(Settings)}
        plain |= {"mappings": dict(self.mappings_given), "progress": None}
        said = {
            kind: {name: self._fingerprint(kind, name, one) for name, one in sources.items()}
            for kind, sources in (("tasks", self.tasks), ("test", self.test))
        }
        # The order of the tasks counts: it is that of the random streams.
        text = json.dumps([plain, said, list(self.tasks)], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()

    def _fingerprint(self, kind: str, name: str, source: Source) -> dict[str, Any]:
        """Return all that is said of a table, with the checksum of its contents."""
        with self._said((kind, name, "file"), (kind, name)):
            return source.said(name)

    def _opened(self, kind: str, name: str, source: Source) -> tuple[Any, Sequence[str]]:
        """Return a table, or its files where they are Parquet, and its columns."""
        with self._said(*([(kind, name, "sheet")] if source.sheet else []), (kind, name, "file"), (kind, name)):
            opened = source.open()
            columns = stored_columns(opened, name) if isinstance(opened, Parquet) else opened.column_names
            return opened, columns

    def _table(self, kind: str, name: str, source: Source) -> Any:
        """Return the table in a file."""
        with self._said(*([(kind, name, "sheet")] if source.sheet else []), (kind, name, "file"), (kind, name)):
            return read_table(source.file, source.sheet)

    def _output(self, kind: str, name: str, columns: Sequence[str]) -> list[Keys]:
        """Return the keys that may name a table's output, none where it has that column."""
        source = self.tasks[name] if kind == "tasks" else self.test[name]
        if source.output in columns:
            return []
        if kind == "test":
            return [("test", name, "output"), ("test", name)]
        return [("tasks", name, "output"), ("output", name), ("output",)]

    @contextmanager
    def _said(self, *ways: Keys) -> Iterator[None]:
        """Let an error of the block begin with the line of the first of these keys that the job has."""
        try:
            yield
        except (DataError, SettingError) as error:
            keys = next((way for way in ways if way in self.lines), None)
            if keys is None:
                raise
            raise type(error)(f"{self.path}:{self.lines[keys]}: {'.'.join(map(str, keys))}: {error}") from None


@contextmanager
def _of(file: Path | str) -> Iterator[None]:
    """Let an error of the block name the file, and say how rows are counted."""
    try:
        yield
    except DataError as error:
        rows = " Row 0 is the first below the column names." if "counted from 0" in str(error) else ""
        raise DataError(f"{file}: {error}{rows}") from None
