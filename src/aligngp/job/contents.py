"""What a job says: the files of the tasks, what is known of them, the settings."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aligngp.data.files import missing_file, read_table
from aligngp.data.parquet import Parquet, is_dataset, open_dataset
from aligngp.data.streamed import open_stream, whole_table
from aligngp.data.tasks import Task, read_inputs_and_output, task_schema
from aligngp.errors import DataError
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

    def read(self, task: str) -> Task | Parquet:
        """Return the table as a task, its columns checked; an error names the file."""
        if is_dataset(self.file) and self.sheet is None:
            spec = self._parquet()
            if open_stream(spec, task) is not None:
                return spec
            if not Path(self.file).is_file():
                return Task(whole_table(spec, task), self.output, self.inputs, noise=self.noise)
        elif self.stream is not None or self.shards is not None:
            raise DataError(
                f"{self.file}: stream and shards are for Parquet. Remove them, or write the table as Parquet."
            )
        read = Task(read_table(self.file, self.sheet), self.output, self.inputs, noise=self.noise)
        with _of(self.file):
            task_schema(task, read)
        return read

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

    @property
    def keywords(self) -> dict[str, Any]:
        """Return the keywords of AlignedGP."""
        return {"common": self.common, "mappings": dict(self.mappings) or None, **self.model}

    def read(self) -> tuple[dict[str, Task | Parquet], dict[str, Task]]:
        """Return the tasks with their tables, and the test rows of those that have some; all of them checked."""
        tasks = {name: source.read(name) for name, source in self.tasks.items()}
        test = {}
        for name, source in self.test.items():
            test[name] = Task(read_table(source.file, source.sheet), source.output)
            with _of(source.file):
                read_inputs_and_output(task_schema(name, tasks[name]), test[name])
        return tasks, test

    def digest(self) -> str:
        """Return a checksum of all settings and of the files' contents: equal where a fit would be the same."""
        settings = Settings(**{key: value for key, value in self.keywords.items() if key != "mappings"})
        plain = {field.name: getattr(settings, field.name) for field in dataclasses.fields(Settings)}
        plain |= {"mappings": dict(self.mappings_given), "progress": None}
        said = {
            kind: {name: one.said(name) for name, one in sources.items()}
            for kind, sources in (("tasks", self.tasks), ("test", self.test))
        }
        # The order of the tasks counts: it is that of the random streams.
        text = json.dumps([plain, said, list(self.tasks)], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()


@contextmanager
def _of(file: Path | str) -> Iterator[None]:
    """Let an error of the block name the file, and say how rows are counted."""
    try:
        yield
    except DataError as error:
        rows = " Row 0 is the first below the column names." if "counted from 0" in str(error) else ""
        raise DataError(f"{file}: {error}{rows}") from None
