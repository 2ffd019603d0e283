"""Does a source task help a task, make no difference, or hurt? Scores with and without it, row by row.

With scores s_i of row i (squared error over the variance of the training outputs, negative log predictive density,
CRPS), the effect of a source is the mean difference over the same rows

    d = 1/n sum_i (s_i with - s_i without)                        (negative: the source helps)

and its 95% interval is a paired bootstrap over the rows. Few rows make a percentile interval too narrow, so its
distances from d are widened by t_{n-1} / z sqrt(n / (n - 1)), which makes it Student's for Gaussian differences.
Rows count as independent; hyperparameters are those of all rows where rows are left out in closed form.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal

import numpy as np
from rich.console import Group
from rich.table import Table
from rich.text import Text
from scipy.special import ndtri, stdtrit

from aligngp.data.tables import listed, to_native
from aligngp.data.tasks import TaskData, find_task, read_inputs_and_output
from aligngp.ensemble import Ensemble
from aligngp.errors import DataError, SettingError
from aligngp.fit.pipeline import ProgressOf
from aligngp.metrics import row_scores
from aligngp.parts import Part
from aligngp.refits import Kept, MixtureRefits, Plan, SparseRefits
from aligngp.settings import Settings, whole
from aligngp.summary import Summary

Verdict = Literal["helps", "makes no difference", "hurts"]
Interval = tuple[float, float]
SMALL = 0.05
"""A change of the CRPS by less than this part of it makes no difference, however sure it is."""
SMALLEST = 1e-3
"""The same, as a part of the standard deviation of the training outputs."""
_LEVEL = 0.95
_REPLICATES = 4000
_SHORT = {"helps": "helps", "makes no difference": "no difference", "hurts": "hurts"}
_SCORES = ("smse", "nlpd", "crps")


@dataclass(frozen=True)
class Transfer:
    """What a source does for a task: scores (lower is better), and 95% intervals of ``with - without``.

    ``with`` is with all other tasks, ``without`` with all but the source, ``alone`` with none. A source of None stands
    for all the other tasks together. SMSE and NLPD are as :meth:`aligngp.AlignedGP.score` defines them.
    """

    task: str
    source: str | None
    scored: Kept
    """How the scored rows were kept from the model: "left out" one by one, "held out" in parts, or "test" rows."""
    rows: int
    """How many rows were scored."""
    smse_with: float
    smse_without: float
    smse_alone: float
    smse_interval: Interval
    nlpd_with: float
    nlpd_without: float
    nlpd_alone: float
    nlpd_interval: Interval
    crps_with: float
    crps_without: float
    crps_alone: float
    crps_interval: Interval
    verdict: Verdict
    """By the CRPS: helps or hurts where its interval lies on one side of zero, and it changes by 5% or more of itself
    and by a thousandth or more of the training outputs' standard deviation."""
    sentence: str


@dataclass(frozen=True, repr=False)
class TransferReport:
    """Which task helps which; it prints itself as a table and plain sentences.

    ``rows`` has an entry for every task and other task, ``together`` one for every task and all the others together.
    """

    rows: tuple[Transfer, ...]
    together: tuple[Transfer, ...]
    kind: str = "array"
    """The kind of tables that :meth:`to_frame` gives."""

    @property
    def sentences(self) -> tuple[str, ...]:
        """Return the plain sentences."""
        return tuple(entry.sentence for entry in self._shown())

    def to_frame(self) -> Any:
        """Return ``rows`` as a table of the kind that the tasks came in; for arrays a pyarrow Table.

        Intervals become two columns each, such as ``crps_low`` and ``crps_high``.
        """
        columns: dict[str, list[Any]] = {}
        for field in fields(Transfer):
            values = [getattr(entry, field.name) for entry in self.rows]
            if field.name.endswith("_interval"):
                score = field.name.removesuffix("_interval")
                columns[f"{score}_low"], columns[f"{score}_high"] = (list(ends) for ends in zip(*values, strict=True))
            else:
                columns[field.name] = values
        return to_native(columns, self.kind)

    def _shown(self) -> list[Transfer]:
        """Return the entries by task; all others together are told where there are several."""
        result = []
        for overall in self.together:
            own = [entry for entry in self.rows if entry.task == overall.task]
            result += own if len(own) == 1 else [*own, overall]
        return result

    def __rich__(self) -> Group:
        title = Text("Transfer: scores of each task with and without a source (lower is better)")
        table = Table(title=title, title_justify="left")
        for heading in ("task", "source", "rows"):
            table.add_column(heading)
        for score in _SCORES:
            table.add_column(f"{score.upper()}\nwith", justify="right")
            table.add_column("\nwithout", justify="right")
        table.add_column("verdict")
        for entry in self._shown():
            scores = (f"{getattr(entry, f'{s}_{side}'):.3g}" for s in _SCORES for side in ("with", "without"))
            source = "all others" if entry.source is None else entry.source
            cells = (entry.task, source, f"{entry.rows} {entry.scored}", *scores, _SHORT[entry.verdict])
            table.add_row(*map(Text, cells))
        return Group(table, *map(Text, self.sentences))

    def __str__(self) -> str:
        return str(Summary([self.__rich__()]))

    __repr__ = __str__


def transfer_report(
    parts: Sequence[Part],
    tasks: tuple[TaskData, ...],
    settings: Settings,
    progress: ProgressOf,
    *,
    targets: str | Iterable[str] | None = None,
    test: Mapping[str, Any] | None = None,
    folds: int = 5,
    rows: int = 500,
) -> TransferReport:
    """Return the report of a fitted model of several tasks, see :meth:`aligngp.AlignedGP.transfer_report`."""
    names = [task.name for task in tasks]
    if len(names) == 1:
        raise DataError(
            f"transfer_report: expected two tasks or more, got {names[0]!r} alone. Fit it together with other tasks."
        )
    if not settings.shared:
        raise SettingError("transfer_report: with shared=False no task learns from another. Fit with shared=True.")
    (part,) = parts
    held = _read_test(part, test)
    chosen = _targets(targets, names, held)
    plan = Plan(held, whole("rows", rows), _folds(folds))
    kind = MixtureRefits if isinstance(part.model, Ensemble) else SparseRefits
    refits = kind(part, tasks, settings, plan)

    cases = [(at, among) for at in chosen for among in _variants(at, len(names))]
    fits = [refits.fits(at) for at, _ in cases]
    shown, scores = progress("transfer report"), {}
    for number, (at, among) in enumerate(cases):

        def report(done: int, total: int, objective: float, before: int = sum(fits[:number])) -> None:
            if shown is not None:
                shown(before + done, sum(fits), objective)

        found = refits.predictions(at, among, report)
        scores[at, among] = row_scores(found.y, found.mean, found.variance, float(part.frame.training_outputs[at, 1]))

    single, together = [], []
    for at in chosen:
        everyone, used = _variants(at, len(names))[0], refits.used(at)
        for source in (*everyone, None):
            without = () if source is None else tuple(s for s in everyone if s != source)
            entry = _entry(
                names[at],
                None if source is None else names[source],
                refits.kept(at),
                *(scores[at, among] for among in (everyone, without, ())),
                deviation=float(np.sqrt(part.frame.training_outputs[at, 1])),
                used=bool(used) if source is None else source in used,
                seed=settings.seed,
            )
            (together if source is None else single).append(entry)
    return TransferReport(tuple(single), tuple(together), tasks[0].kind)


def paired_interval(differences: np.ndarray, seed: int = 0) -> Interval:
    """Return the 95% interval of the mean of the rows' differences (n,), see the top of this module."""
    size = len(differences)
    if size < 2:
        return (-math.inf, math.inf)
    draws = np.random.default_rng(seed).integers(size, size=(_REPLICATES, size))
    means, middle, tail = differences[draws].mean(axis=1), differences.mean(), 0.5 - _LEVEL / 2.0
    wider = stdtrit(size - 1, tail) / ndtri(tail) * math.sqrt(size / (size - 1.0))
    low, high = middle + wider * (np.quantile(means, [tail, 1.0 - tail]) - middle)
    return float(low), float(high)


def judged(crps_with: float, crps_without: float, interval: Interval, deviation: float) -> Verdict:
    """Return the verdict that the CRPS and the interval of its change give, outputs having that deviation."""
    least = max(SMALL * max(crps_with, crps_without), SMALLEST * deviation)
    if abs(crps_with - crps_without) >= least:
        if interval[1] < 0.0:
            return "helps"
        if interval[0] > 0.0:
            return "hurts"
    return "makes no difference"


def _entry(
    task: str,
    source: str | None,
    scored: Kept,
    given: dict[str, np.ndarray],
    without: dict[str, np.ndarray],
    alone: dict[str, np.ndarray],
    *,
    deviation: float,
    used: bool,
    seed: int,
) -> Transfer:
    values: dict[str, Any] = {}
    for score in _SCORES:
        values[f"{score}_with"] = float(np.mean(given[score]))
        values[f"{score}_without"] = float(np.mean(without[score]))
        values[f"{score}_alone"] = float(np.mean(alone[score]))
        values[f"{score}_interval"] = paired_interval(given[score] - without[score], seed)
    verdict = judged(values["crps_with"], values["crps_without"], values["crps_interval"], deviation)
    rows = len(given["crps"])
    sentence = _sentence(task, source, scored, verdict, values, rows) if used else _unused(task, source)
    return Transfer(task, source, scored, rows, **values, verdict=verdict, sentence=sentence)


def _sentence(
    task: str, source: str | None, scored: Kept, verdict: Verdict, values: Mapping[str, Any], rows: int
) -> str:
    subject = "The other tasks together" if source is None else repr(source)
    several = source is None
    error = {"left out": "left-out error", "held out": "held-out error", "test": "error on the test rows"}[scored]
    before, after = f"{values['crps_without']:.3g}", f"{values['crps_with']:.3g}"
    change = f"95% interval of the change {_range(values['crps_interval'])}"
    if verdict != "makes no difference":
        verb = {"helps": "help", "hurts": "hurt"}[verdict] if several else verdict
        moves = "falls" if verdict == "helps" else "rises"
        return f"{subject} {verb} {task!r}: its {error} (CRPS) {moves} from {before} to {after} ({change})."
    verb = "make" if several else "makes"
    told = "one row cannot tell" if rows == 1 else change
    return f"{subject} {verb} no difference to {task!r}: its {error} (CRPS) is {before} without, {after} with ({told})."


def _unused(task: str, source: str | None) -> str:
    subject, verb = ("The other tasks together", "make") if source is None else (repr(source), "makes")
    return (
        f"{subject} {verb} no difference to {task!r}: its model does not learn from tasks with far fewer rows, or with "
        "an unknown mapping."
    )


def _range(interval: Interval) -> str:
    return f"{interval[0]:.3g} to {interval[1]:.3g}"


def _variants(at: int, number: int) -> list[tuple[int, ...]]:
    """Return the sets of other tasks that a task is predicted with: all, all but each, none."""
    others = tuple(other for other in range(number) if other != at)
    return list(dict.fromkeys([others, *(tuple(s for s in others if s != left) for left in others), ()]))


def _targets(targets: str | Iterable[str] | None, names: Sequence[str], held: Collection[int]) -> list[int]:
    if targets is None:
        return sorted(held) if held else list(range(len(names)))
    chosen = [find_task(name, names) for name in ([targets] if isinstance(targets, str) else targets)]
    if not chosen:
        raise DataError(f"transfer_report: tasks is empty. Name one or more of {listed(names)}, or leave it out.")
    return list(dict.fromkeys(chosen))


def _read_test(part: Part, test: Mapping[str, Any] | None) -> dict[int, tuple[np.ndarray, np.ndarray]]:
    if test is None:
        return {}
    if not isinstance(test, Mapping) or not test:
        came = "an empty one" if isinstance(test, Mapping) else type(test).__name__
        raise DataError(f"transfer_report: test expects a dict of task name to rows with outputs, got {came}.")
    found = {find_task(name, part.frame.names): data for name, data in test.items()}
    return {at: read_inputs_and_output(part.frame.tasks[at], data) for at, data in found.items()}


def _folds(folds: Any) -> int:
    if whole("folds", folds) < 2:
        raise SettingError(f"folds: expected a whole number >= 2, got {folds!r}.")
    return int(folds)
