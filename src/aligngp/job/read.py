"""A job file becomes a job."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path

from aligngp.data.files import missing_file
from aligngp.data.parquet import is_url
from aligngp.errors import SettingError
from aligngp.job import check
from aligngp.job.check import Place
from aligngp.job.contents import Job, Source
from aligngp.job.hints import hint
from aligngp.job.lines import find_lines
from aligngp.job.toml import toml_key, toml_value

LARGEST = 2**20
"""Most bytes of a job file."""
_LONG_KEY = re.compile(r"""(?<![\w-])(?:(?>[\w-]+|"[^"\n]*"|'[^'\n]*')[ \t]*\.[ \t]*){100}""")
"""A hundred names with dots between them: reading a key costs the square of their number."""


def read_job(path: str | os.PathLike[str], confined: bool = False) -> Job:
    """Return the job that a file describes; paths in it start at its folder.

    ``confined`` is for jobs of strangers: they may name files in their own folder alone, and no URL.
    """
    source = Path(path)
    if not source.is_file():
        raise SettingError(
            f"{source}: this is a folder. Name the job file in it."
            if source.is_dir()
            else f"{missing_file(source)} Name a job file; 'aligngp init' writes one to start from."
        )
    text = _text(source)
    if (found := _LONG_KEY.search(text)) is not None:
        line = text.count("\n", 0, found.start()) + 1
        raise SettingError(f"{source}:{line}: a key of a hundred names with dots between them. A job needs four.")
    try:
        content = tomllib.loads(text)
        lines = find_lines(text)
    except tomllib.TOMLDecodeError as error:
        raise SettingError(_syntax(source, text, str(error))) from None
    except RecursionError:
        told = "lists or tables stand in each other too deeply. A job needs four levels."
        raise SettingError(f"{source}: {told}") from None
    job = _job(source, Place(str(source), lines, content))
    if confined:
        _check_confined(job)
    return job


def _check_confined(job: Job) -> None:
    """Raise where a job names what does not stand in its folder, also by a link."""
    home = job.path.resolve().parent
    for name, source in (*job.tasks.items(), *job.test.items()):
        inside = isinstance(source.file, Path) and source.file.resolve().is_relative_to(home)
        if not inside:
            raise SettingError(
                f"{job.path}: task {name!r}: {source.file} is not in the job's folder, and this job is kept to it. Put "
                "the file there, or leave out --confined."
            )


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
    return Source(**{**found, "file": _place(path, found["file"]), "output": output})


def _test(path: Path, entry: Place, task: Source) -> Source:
    found = check.read_source(entry, check.TEST)
    return Source(**{"output": task.output, **found, "file": _place(path, found["file"])})


def _place(path: Path, file: str) -> Path | str:
    """Return where a file is that a job names: seen from the job's folder, or a URL as it is."""
    return file if is_url(file) else path.parent / file


def _text(source: Path) -> str:
    if source.stat().st_size > LARGEST:
        raise SettingError(
            f"{source}: {source.stat().st_size} bytes, expected a job file of at most {LARGEST}. Tables of numbers "
            "stand in files of their own."
        )
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
