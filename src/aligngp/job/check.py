"""What stands in a job file, checked by hand: every mistake names the file, the line, the key and what is accepted."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from aligngp.data.tables import did_you_mean, listed
from aligngp.errors import AligngpError, SettingError
from aligngp.job.lines import Keys
from aligngp.job.toml import toml_value
from aligngp.mappings.prior import Affine, Columns, Learned
from aligngp.settings import Settings

TOP = ("output", "common", "tasks", "mappings", "model", "test")
TASK = ("file", "output", "inputs", "noise", "sheet")
TEST = ("file", "output", "sheet")
MODEL = tuple(field.name for field in dataclasses.fields(Settings) if field.name not in ("common", "mappings"))
"""The keys that are accepted at the top, for a task, for test rows and under [model]."""

_MAPPING = (
    'a list of columns such as ["x3", "x4"] (names, or positions from 0), "learned", { learned = { init = "pca" } } '
    "or { affine = { A = [[...]], b = [...] } }"
)


@dataclass(frozen=True)
class Place:
    """A value of the file, and the way to it."""

    file: str
    lines: Mapping[Keys, int]
    value: Any
    keys: Keys = ()

    def at(self, key: str | int) -> Place:
        """Return a value inside of this one."""
        return Place(self.file, self.lines, self.value[key], (*self.keys, key))

    def error(self, message: str) -> SettingError:
        """Return the error with the line in which the key stands."""
        keys = self.keys
        while keys and keys not in self.lines:
            keys = keys[:-1]
        line = f":{self.lines[keys]}" if keys else ""
        return SettingError(f"{self.file}{line}: {message}")

    def expected(self, what: str) -> SettingError:
        """Return the error that something else was expected here."""
        came = toml_value(self.value)
        return self.error(f"{self.name}: expected {what}, got {came if len(came) <= 60 else came[:57] + '...'}.")

    @property
    def name(self) -> str:
        """Return the way to this value as one writes it in TOML."""
        return ".".join(str(key) for key in self.keys)

    def table(self, accepted: Collection[str] | None, what: str) -> dict[str, Place]:
        """Return the values of a table by key; ``accepted`` lists its keys where not all will do."""
        if not isinstance(self.value, dict):
            raise self.expected(what)
        found = {key: self.at(key) for key in self.value}
        for key, place in found.items():
            if accepted is not None and key not in accepted:
                where = f" in {self.name}" if self.keys else ""
                hint = _belongs(key, self.keys) or did_you_mean(key, accepted)
                raise place.error(
                    f"unknown key {key!r}{where}{hint}. The accepted keys are {listed(accepted, most=40)}."
                )
        return found

    def text(self, what: str) -> str:
        """Return a string that is not empty."""
        if not isinstance(self.value, str) or not self.value.strip():
            raise self.expected(what)
        return self.value

    def rows(self, what: str, accepts: Callable[[Any], bool]) -> list[Any]:
        """Return a list that is not empty and whose items are all accepted."""
        if not isinstance(self.value, list) or not self.value:
            raise self.expected(what)
        for at, item in enumerate(self.value):
            if not accepts(item):
                raise self.at(at).expected(what)
        return self.value


def check_task_name(place: Place, name: str, tasks: Collection[str]) -> None:
    """Raise where a key speaks of a task that is not there."""
    if name not in tasks:
        raise place.error(
            f"{place.name}: there is no task {name!r}{did_you_mean(name, tasks)}. The tasks are {listed(tasks)}."
        )


def read_outputs(place: Place | None, tasks: Collection[str]) -> dict[str, str]:
    """Return the output column of each task, from one name for all or a table; a task may be absent."""
    if place is None:
        return {}
    if isinstance(place.value, str):
        return dict.fromkeys(tasks, place.text("the name of a column"))
    outputs = {}
    for name, one in place.table(None, 'the name of a column, or a table such as { fine = "zeta" }').items():
        check_task_name(one, name, tasks)
        outputs[name] = one.text("the name of a column")
    return outputs


def read_source(place: Place, accepted: Collection[str]) -> dict[str, Any]:
    """Return what is said of a table: a file's name alone, or keys with the file among them."""
    what = 'the name of a file such as "fine.csv", or a table such as { file = "fine.csv", output = "zeta" }'
    if isinstance(place.value, str):
        return {"file": place.text(what)}
    found = place.table(accepted, what)
    if "file" not in found:
        raise place.error(f"{place.name} has no file. Write {place.keys[-1]} = {{ file = ..., ... }}.")
    result: dict[str, Any] = {}
    for key, one in found.items():
        if key == "noise":
            if not _is_number(one.value) or one.value <= 0:
                raise one.expected("a positive number (the noise's standard deviation, in the units of the output)")
            result[key] = float(one.value)
        elif key == "inputs":
            result[key] = tuple(one.rows("a list of column names", lambda item: isinstance(item, str) and item != ""))
        else:
            result[key] = one.text({"file": "the name of a file", "sheet": "the name of a sheet"}.get(key, "a column"))
    return result


def read_mapping(place: Place) -> Any:
    """Return the prior mapping that a value stands for."""
    value = place.value
    if value == "learned":
        return Learned()
    if isinstance(value, list):
        return Columns(*place.rows(_MAPPING, _is_column))
    if not isinstance(value, dict) or len(value) != 1:
        raise place.expected(_MAPPING)
    found = place.table(("affine", "learned"), _MAPPING)
    if "learned" in found:
        keywords = found["learned"].table(("init", "strength"), 'a table such as { init = "pca", strength = 1.0 }')
        return _said_of(found["learned"], lambda: Learned(**{key: one.value for key, one in keywords.items()}))
    parts = found["affine"].table(("A", "b"), "a table with A, a list of rows, and b, a list")
    if "A" not in parts:
        raise found["affine"].error(f"{found['affine'].name} has no A. Write {{ A = [[...], [...]], b = [...] }}.")
    what = "a list of rows of numbers, one a common input, all of the same length"
    rows = parts["A"].rows(what, lambda row: isinstance(row, list) and bool(row) and all(map(_is_number, row)))
    for at, row in enumerate(rows):
        if len(row) != len(rows[0]):
            raise parts["A"].at(at).expected(what)
    b = parts["b"].rows("a list of numbers, one a common input", _is_number) if "b" in parts else None
    if b is not None and len(b) != len(rows):
        raise parts["b"].expected(f"{len(rows)} numbers, one a row of A")
    return Affine(rows, b)


def read_model(place: Place, tasks: Collection[str]) -> dict[str, Any]:
    """Return keywords of AlignedGP, each of them checked."""
    found = place.table(MODEL, "a table of AlignedGP's keywords")
    for key, one in found.items():
        _said_of(one, lambda one=one, key=key: Settings(**{key: one.value}))
        if isinstance(one.value, dict):
            for name in one.value:
                check_task_name(one.at(name), name, tasks)
    return {key: one.value for key, one in found.items()}


def _said_of(place: Place, make: Callable[[], Any]) -> Any:
    """Return what is made, an error saying where the value stands."""
    try:
        return make()
    except AligngpError as error:
        raise place.error(f"{'.'.join(map(str, place.keys[:-1]))}: {error}") from None


def _is_column(value: Any) -> bool:
    return isinstance(value, (str, int)) and not isinstance(value, bool)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _belongs(key: str, keys: Keys) -> str:
    """Say where a key stands that is known elsewhere."""
    if keys and key in TOP:
        return ", which stands at the top of the file, above every [table]"
    if not keys and key in MODEL:
        return ", which stands under [model]"
    return ""
