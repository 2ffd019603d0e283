"""Scores by case, model and seed, and two models compared seed by seed."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from scipy.stats import wilcoxon

FEWEST_PAIRS = 6
"""Below, a two-sided signed-rank test cannot reach p = 0.05."""
LEVEL = 0.05

Rows = list[dict[str, str]]
Seeds = Mapping[str, Mapping[str, str]]
"""The rows of one model on one case, by their seeds."""
Scores = Mapping[tuple[str, str], Seeds]
"""(case, model) to its rows."""

Variances = Mapping[tuple[str, str], np.ndarray]
"""(case, model) to nu_g0 of every seed."""


def scores(found: Iterable[dict[str, str]]) -> Scores:
    """Return the rows of fits that did not fail and had no limit of iterations."""
    result: dict[tuple[str, str], dict[str, dict[str, str]]] = {}
    for row in found:
        if row["smse"] and not row["iterations"]:
            result.setdefault((row["case"], row["model"]), {})[row["seed"]] = row
    return result


def values(seeds: Seeds, key: str) -> np.ndarray:
    """Return one score of all seeds."""
    return np.array([float(row[key]) for row in seeds.values()])


def of_shared_seeds(found: Scores, cases: Iterable[str], models: Iterable[str]) -> Scores:
    """Return of every model the seeds that all cases have in which it was measured, so that cases can be compared."""
    result = {}
    for model in models:
        there = {case: found[case, model] for case in cases if (case, model) in found}
        seeds = set.intersection(*(set(one) for one in there.values())) if there else set()
        for case, one in there.items():
            result[case, model] = {seed: row for seed, row in one.items() if seed in seeds}
    return {key: one for key, one in result.items() if one}


def variances(found: Iterable[Mapping[str, str]], older: Iterable[Mapping[str, str]] = ()) -> Variances:
    """Return nu_g0 over the seeds; HSVLMC's of the toy cases from older rows (toys.csv), where these have none."""
    result: dict[tuple[str, str], dict[str, float]] = {}
    usable = [row for row in older if (row["protocol"], row["model"]) == ("train", "HSVLMC")]
    for row in [*usable, *(row for row in found if not row["iterations"])]:
        if row.get("nu_g0"):
            result.setdefault((row["case"], row["model"]), {})[row["seed"]] = float(row["nu_g0"].split()[0])
    return {key: np.array(list(values.values())) for key, values in result.items()}


@dataclass(frozen=True)
class Pair:
    """How one model compares with another: differences seed by seed, of which negative is better."""

    differences: np.ndarray

    @property
    def pairs(self) -> int:
        """The number of seeds that both have."""
        return len(self.differences)

    @property
    def lower(self) -> int:
        """The number of seeds on which the first is lower."""
        return int(np.sum(self.differences < 0))

    @property
    def median(self) -> float:
        """The median difference."""
        return float(np.median(self.differences))

    @property
    def p(self) -> float | None:
        """The p value of the two-sided signed-rank test, None for too few pairs."""
        if self.pairs < FEWEST_PAIRS:
            return None
        return float(wilcoxon(self.differences)[1]) if np.any(self.differences != 0) else 1.0

    @property
    def verdict(self) -> str:
        """Whether the first is better: yes, no (the second is), open (no difference can be seen), none (too few)."""
        if self.p is None:
            return "none"
        # The signed-rank test compares sums of ranks, so they say in which direction as well.
        ranks = np.abs(self.differences).argsort().argsort() + 1.0
        first = np.sum(ranks * np.sign(self.differences)) < 0
        return "open" if self.p >= LEVEL else "yes" if first else "no"


def pair(first: Seeds, second: Seeds, key: str) -> Pair:
    """Return the comparison of two models on the seeds that both have."""
    seeds = [seed for seed in first if seed in second and first[seed][key] and second[seed][key]]
    return Pair(np.array([float(first[seed][key]) - float(second[seed][key]) for seed in seeds]))
