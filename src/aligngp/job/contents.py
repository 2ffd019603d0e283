"""What a job says: the files of the tasks, what is known of them, the settings."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aligngp.data.files import missing_file, read_table
from aligngp.data.tasks import Task, TaskSchema, read_inputs_and_output, read_tasks
from aligngp.errors import AligngpWarning, DataError, SettingError
from aligngp.job.agree import check_agreement
from aligngp.job.lines import Keys
from aligngp.settings import Settings


@dataclass(frozen=True)
class Source:
    """A task's table: its file, output column, input columns (default all others), known noise, Excel sheet."""

    file: Path
    output: str
    inputs: tuple[str, ...] | None = None
    noise: float | None = None
    sheet: str | None = None


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

    def read(self) -> tuple[dict[str, Task], dict[str, Task]]:
        """Return the tasks with their tables, and the test rows of those that have some; all of them checked."""
        tasks, schemas, test = {}, {}, {}
        for name, source in self.tasks.items():
            table = self._table("tasks", name, source)
            tasks[name] = Task(table, source.output, source.inputs, noise=source.noise)
            unknown = [column for column in source.inputs or () if column not in table.column_names]
            with self._said(*self._output("tasks", name, table), *([("tasks", name, "inputs")] if unknown else [])):
                with _of(source.file):
                    schemas[name] = _schema(name, tasks[name])
        check_agreement(self.path, self.settings, self.mappings, schemas, self._said)
        for name, source in self.test.items():
            table = self._table("test", name, source)
            test[name] = Task(table, source.output)
            with self._said(*self._output("test", name, table)), _of(source.file):
                read_inputs_and_output(schemas[name], test[name])
        return tasks, test

    def digest(self) -> str:
        """Return a checksum of all settings and of the files' contents: equal where a fit would be the same."""
        settings = self.settings
        plain = {one.name: getattr(settings, one.name) for one in dataclasses.fields(Settings)}
        plain |= {"mappings": dict(self.mappings_given), "progress": None}
        said = {
            kind: {
                name: {**dataclasses.asdict(one), "file": self._file(kind, name, one)} for name, one in sources.items()
            }
            for kind, sources in (("tasks", self.tasks), ("test", self.test))
        }
        # The order of the tasks counts: it is that of the random streams.
        text = json.dumps([plain, said, list(self.tasks)], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()

    def _file(self, kind: str, name: str, source: Source) -> str:
        """Return the checksum of a table's file."""
        with self._said((kind, name, "file"), (kind, name)):
            return _checksum(source.file)

    def _table(self, kind: str, name: str, source: Source) -> Any:
        """Return the table in a file."""
        with self._said(*([(kind, name, "sheet")] if source.sheet else []), (kind, name, "file"), (kind, name)):
            return read_table(source.file, source.sheet)

    def _output(self, kind: str, name: str, table: Any) -> list[Keys]:
        """Return the keys that may name a table's output, none where it has that column."""
        source = self.tasks[name] if kind == "tasks" else self.test[name]
        if source.output in table.column_names:
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


def _schema(name: str, task: Task) -> TaskSchema:
    """Return what a task looks like, or raise; what is only suspicious is told when it is fitted."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AligngpWarning)
        return read_tasks({name: task})[0].schema


@contextmanager
def _of(file: Path) -> Iterator[None]:
    """Let an error of the block name the file, and say how rows are counted."""
    try:
        yield
    except DataError as error:
        rows = " Row 0 is the first below the column names." if "counted from 0" in str(error) else ""
        raise DataError(f"{file}: {error}{rows}") from None


def _checksum(file: Path) -> str:
    if file.is_dir():
        raise DataError(f"{file}: this is a folder. Name a file in it.")
    if not file.exists():
        raise DataError(f"{missing_file(file)} Check the name and the folder.")
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()
