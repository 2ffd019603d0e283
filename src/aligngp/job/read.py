"""A job file becomes a job."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path

from aligngp.data.files import missing_file
from aligngp.errors import SettingError
from aligngp.job import check
from aligngp.job.check import Place
from aligngp.job.contents import Job, Source
from aligngp.job.hints import hint
from aligngp.job.lines import find_lines
from aligngp.job.toml import toml_key, toml_value


def read_job(path: str | os.PathLike[str]) -> Job:
    """Return the job that a file describes; paths in it start at its folder."""
    source = Path(path)
    if not source.is_file():
        raise SettingError(
            f"{source}: this is a folder. Name the job file in it."
            if source.is_dir()
            else f"{missing_file(source)} Name a job file; 'aligngp init' writes one to start from."
        )
    text = _text(source)
    try:
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise SettingError(_syntax(source, text, str(error))) from None
    return _job(source, Place(str(source), find_lines(text), content))


def _job(path: Path, place: Place) -> Job:
    top = place.table(check.TOP, "a table")
    if "tasks" not in top or not top["tasks"].value:
        raise (top.get("tasks") or place).error('there is no task. Write [tasks] and below it fine = "fine.csv".')
    entries = top["tasks"].table(None, 'a table with a line a task, such as fine = "fine.csv"')
    outputs = check.read_outputs(top.get("output"), entries)
    tasks = {name: _source(path, name, entry, outputs) for name, entry in entries.items()}
    common = top["common"].text("the name of a task") if "common" in top else None
    if common is not None:
        check.check_task_name(top["common"], common, tasks)
    given = top["mappings"].table(None, 'a table such as fine = ["x3", "x4"]') if "mappings" in top else {}
    rows = top["test"].table(None, 'a table such as fine = "fine_test.csv"') if "test" in top else {}
    for name, entry in (*given.items(), *rows.items()):
        check.check_task_name(entry, name, tasks)
    return Job(
        path,
        tasks,
        {name: _test(path, entry, tasks[name]) for name, entry in rows.items()},
        common,
        {name: check.read_mapping(entry) for name, entry in given.items()},
        {name: entry.value for name, entry in given.items()},
        check.read_model(top["model"], tasks) if "model" in top else {},
        place.lines,
    )


def _source(path: Path, name: str, entry: Place, outputs: Mapping[str, str]) -> Source:
    found = check.read_source(entry, check.TASK)
    output = found.pop("output", outputs.get(name))
    if output is None:
        raise entry.error(
            f'task {name!r} has no output column. Write output = "..." at the top of the file, or {toml_key(name)} = '
            f'{{ file = {toml_value(found["file"])}, output = "..." }}.'
        )
    return Source(**{**found, "file": path.parent / found["file"], "output": output})


def _test(path: Path, entry: Place, task: Source) -> Source:
    found = check.read_source(entry, check.TEST)
    return Source(**{"output": task.output, **found, "file": path.parent / found["file"]})


def _text(source: Path) -> str:
    try:
        return source.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise SettingError(f"{source}: not in UTF-8 (byte {error.start}). Save it as UTF-8.") from None


def _syntax(source: Path, text: str, told: str) -> str:
    """Return file:line:column and what tomllib says there."""
    match = re.fullmatch(r"(.*) \(at (?:line (\d+), column (\d+)|end of document)\)", told, re.DOTALL)
    if match is None:
        return f"{source}: not TOML: {told}.{hint(told)}"
    line, column = match[2] or str(text.count("\n") + 1), match[3] or str(len(text.rsplit("\n", 1)[-1]) + 1)
    return f"{source}:{line}:{column}: not TOML: {match[1]}.{hint(match[1])}"
