"""Whether the tables of a job agree with what it says of the common task and the mappings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager

from aligngp.data.tables import listed
from aligngp.data.tasks import TaskSchema
from aligngp.errors import SettingError
from aligngp.job.toml import toml_key, toml_value
from aligngp.mappings.prior import as_prior
from aligngp.settings import Settings

Said = Callable[..., AbstractContextManager[None]]
"""A block whose errors name the line of the first of some keys (``*ways: Keys``) that the job has."""


def check_agreement(
    file: object, settings: Settings, mappings: Mapping[str, object], tables: Mapping[str, TaskSchema], said: Said
) -> None:
    """Raise where no common task follows, or a mapping does not fit the columns; an error speaks of the job file.

    The estimator would find the same, but advises in Python.
    """
    if not settings.shared:
        return
    common = settings.common or _fewest_inputs(file, tables)
    with said(("mappings", common)):
        if common in mappings:
            raise SettingError(
                f"task {common!r} is the common task, so it has no mapping: its inputs are the common domain. Remove "
                "the line, or name another common task."
            )
    with said(("model", "calibration", common), ("model", "calibration")):
        settings.check_common(common)
    wanted = tables[common].columns
    for name, table in tables.items():
        if name in mappings:
            with said(("mappings", name)):
                as_prior(mappings[name], name, table.columns, common, wanted, 0)
            continue
        missing = [column for column in wanted if column not in table.columns]
        if missing:
            key = toml_key(name)
            raise SettingError(
                f"{file}: task {name!r} lacks the column{'s' if len(missing) > 1 else ''} {listed(missing)} of the "
                f"common task {common!r} (it has {listed(table.columns)}), so its mapping does not follow from the "
                f"names. Write below [mappings] {key} = [...] with {len(wanted)} of its columns, {key} = {{ affine = "
                f'{{ A = [...] }} }} or {key} = "learned"; or name another common task.'
            )


def _fewest_inputs(file: object, tables: Mapping[str, TaskSchema]) -> str:
    """Return the task with the fewest inputs, or raise where several have them."""
    fewest = min(len(table.columns) for table in tables.values())
    found = [name for name, table in tables.items() if len(table.columns) == fewest]
    if len(found) > 1:
        raise SettingError(
            f"{file}: the tasks {listed(found)} all have {fewest} inputs, so the common domain does not follow from "
            f"the data. Write above [tasks] the task whose inputs the others map to: common = {toml_value(found[-1])}."
        )
    return found[0]
