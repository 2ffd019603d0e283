"""A job as it was used, as TOML."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path

from aligngp.job.contents import Job, Source
from aligngp.job.toml import toml_key, toml_value
from aligngp.settings import Settings


def as_used(job: Job, folder: Path, common: str | None, note: str) -> str:
    """Return a job file for another folder that asks for the same, every setting written out.

    ``common`` is the common task that was found where the job names none. What has its default stands in comments.
    """
    lines = [f"# {note}", "# Paths start at this file; a line in comments is a setting at its default.", ""]
    if common is not None:
        lines += [f"common = {toml_value(common)}" + ("" if job.common else "  # found: the fewest inputs"), ""]
    lines.append("[tasks]")
    lines += [f"{toml_key(name)} = {_source(source, folder)}" for name, source in job.tasks.items()]
    if job.test:
        lines += ["", "[test]"]
        lines += [f"{toml_key(name)} = {_source(source, folder)}" for name, source in job.test.items()]
    lines += ["", "[mappings]"]
    if not job.mappings_given:
        lines.append("# none: the common task's columns, picked by name")
    lines += [f"{toml_key(name)} = {toml_value(given)}" for name, given in job.mappings_given.items()]
    lines += ["", "[model]"]
    for field in dataclasses.fields(Settings):
        if field.name in ("common", "mappings"):
            continue
        if field.name in job.model:
            lines.append(f"{field.name} = {toml_value(job.model[field.name])}")
        elif field.default is None:
            lines.append(f"# {field.name}: chosen by aligngp")
        else:
            lines.append(f"# {field.name} = {toml_value(field.default)}")
    return "\n".join(lines) + "\n"


def _source(source: Source, folder: Path) -> str:
    """Return where a task's table stands, seen from a folder."""
    try:
        file = Path(os.path.relpath(source.file.resolve(), folder.resolve())).as_posix()
    except ValueError:  # on another drive
        file = source.file.resolve().as_posix()
    others = {key: getattr(source, key) for key in ("output", "inputs", "noise", "sheet")}
    return toml_value({"file": file, **{key: value for key, value in others.items() if value is not None}})
