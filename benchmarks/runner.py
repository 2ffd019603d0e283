"""What ``aligngp benchmark`` measures: cases, studies and models, by their names."""

import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aligngp.data.tables import did_you_mean, listed
from aligngp.errors import SettingError
from benchmarks import pool, rows, studies
from benchmarks.accuracy import KEYS, wanted
from benchmarks.cases import CASES
from benchmarks.models import BOTORCH, MODELS, THE_PAPERS_FOUR
from benchmarks.peers import environment

ROWS = rows.RESULTS / "accuracy.csv"


@dataclass(frozen=True)
class Plan:
    """What is asked for, by the names that there are; a study has models of its own where all are asked."""

    cases: Sequence[str]
    models: Sequence[str]
    study_models: Sequence[str]
    repeats: int
    iterations: int | None

    @classmethod
    def of(cls, cases: Sequence[str], models: Sequence[str], repeats: int, iterations: int | None) -> "Plan":
        """Return the plan of what the options name, or raise."""
        groups = {"all": (*CASES, *studies.VARIED), "cases": tuple(CASES), "studies": tuple(studies.VARIED)}
        chosen = names("cases", cases, groups, (*CASES, *studies.VARIED))
        asked = names("models", models, {"all": MODELS, "paper": THE_PAPERS_FOUR}, MODELS)
        own = [model for model in MODELS if model in studies.MODELS]
        return cls(chosen, asked, own if "all" in models else asked, repeats, iterations)

    def rows(self, tell: Callable[[str], None]) -> list[dict[str, Any]]:
        """Return the rows that are to be there; cases whose data are missing are told and left out."""
        parts = [(True, self.models), (False, self.study_models)]
        return [
            row
            for plain, models in parts
            for row in wanted(
                [case for case in self.cases if (case in CASES) == plain], models, self.repeats, self.iterations, tell
            )
        ]


def names(option: str, given: Iterable[str], groups: Mapping[str, Sequence[str]], known: Sequence[str]) -> list[str]:
    """Return what an option names: a name as it is, or names and groups between commas; each once, in one order."""
    parts: list[str] = []
    for value in given:
        parts += [value] if value in known else [part.strip() for part in value.split(",") if part.strip()]
    chosen: set[str] = set()
    for part in parts:
        if part not in groups and part not in known:
            raise SettingError(
                f"--{option}: there is no {part!r}{did_you_mean(part, [*groups, *known])}. Name some of "
                f"{listed([*groups, *known])}."
            )
        chosen.update(groups.get(part, (part,)))
    if not chosen:
        raise SettingError(f"--{option}: expected a name, got nothing. Name some of {listed([*groups, *known])}.")
    return [name for name in known if name in chosen]


def run(todo: Sequence[Mapping[str, Any]], out: Path, jobs: int, tell: pool.Tell) -> None:
    """Measure rows in ``jobs`` processes and append each when it is there."""
    if any(row["model"] in BOTORCH for row in todo):
        try:
            environment.ensure("torch")  # once, before several workers would make it at the same time
        except subprocess.CalledProcessError as error:
            raise pool.WorkerError(
                f"benchmark: BoTorch's environment could not be made: pip ended with code {error.returncode}, what it "
                "said stands above. Name the models without BoTorch's: --models ..."
            ) from error
    pool.run(todo, out, jobs, tell)


def missing(out: Path, todo: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return what is not there yet; half a row at the end of the file, left by a machine that stopped, is removed."""
    rows.mend(out)
    return rows.missing(out, todo, KEYS)
