"""The tables of the accuracy benchmark, made from its rows alone."""

from collections import defaultdict
from collections.abc import Mapping, Sequence

import numpy as np

from benchmarks import overview, rows
from benchmarks.cases import CASES
from benchmarks.cases.files import DataMissingError
from benchmarks.cases.published import PUBLISHED
from benchmarks.compare import Rows, pair
from benchmarks.studies import VARIED

OURS = "auto"

HEAD = """Accuracy of every model on every case: `aligngp benchmark --resume`, rows in accuracy.csv.

SMSE and SMLL are the paper's (over the variance of the training outputs); RMSE and CRPS are over the standard deviation
of the test outputs. Mean ± standard deviation over the seeds; where a case has two targets, scores are averaged over
them. The paper's columns are its own numbers, of instances that are not ours. Seconds are of one fit, data in memory,
on a machine shared with other work: compare the processor's. The first fit of a shape also compiles. `auto` is
aligngp's default; `auto, no mapping` has to learn the mapping, `exact GP` knows the target alone. HSVLMC's names:
`KL/ND` and `KL0` have the weight 1/(N D) or 0 on KL[q(X-bar)||p(X-bar)] where the paper has 1, `l1` starts the
mapping's lengthscale at 1 where the appendix has 0.1.
"""

HEADING = (
    "model", "seeds", "SMSE mean ± sd", "median", "SMLL mean ± sd", "median", "RMSE", "CRPS", "95% coverage",
    "seconds median", "CPU seconds", "paper SMSE", "paper SMLL",
)  # fmt: skip


def tables(found: Rows) -> str:
    """Return a table of scores and one of paired tests for every case."""
    cases: dict[str, dict[str, Rows]] = defaultdict(lambda: defaultdict(list))
    for row in found:
        cases[row["case"]][label(row)].append(row)
    parts = [HEAD, "## All cases\n\n" + overview.markdown(found)]
    for case in [name for name in (*CASES, *VARIED) if name in cases]:
        models = cases[case]
        body = [line(case, model, models[model]) for model in models]
        parts.append(f"## {case}\n\n{description(case)}\n\n" + rows.markdown(HEADING, body))
        notes = sorted({f"{row['model']}: {row['note']}" for name in models for row in models[name] if row["note"]})
        parts += ["".join(f"- {note}\n" for note in notes)] if notes else []
        if OURS in models:
            parts.append(paired(models))
    return "\n".join(parts)


def label(row: Mapping[str, str]) -> str:
    """Return the model's name, with the limit of iterations where there was one."""
    return f"{row['model']}, {row['iterations']} iterations" if row["iterations"] else row["model"]


def description(case: str) -> str:
    """Return what a case says of itself, where its data are there."""
    try:
        return (CASES[case] if case in CASES else VARIED[case])(0).description
    except DataMissingError:
        return "(The data of this case are not there.)"


def values(models: Rows, key: str) -> np.ndarray:
    """Return a column of the fits that did not fail."""
    return np.array([float(row[key]) for row in models if row[key]])


def line(case: str, model: str, found: Rows) -> Sequence[str]:
    """Return a model's line in its case's table."""
    smse, smll = values(found, "smse"), values(found, "smll")
    failed = len(found) - len(smse)
    seeds = str(len(smse)) + (f" ({failed} failed)" if failed else "")
    if not len(smse):
        return (model, seeds, *[""] * (len(HEADING) - 2))
    paper = PUBLISHED.get((case, found[0]["model"]))
    return (
        model, seeds,
        f"{smse.mean():.3f} ± {smse.std():.3f}", f"{np.median(smse):.3f}",
        f"{smll.mean():.2f} ± {smll.std():.2f}", f"{np.median(smll):.2f}",
        f"{values(found, 'rmse_over_test_sd').mean():.3f}", f"{values(found, 'crps_over_test_sd').mean():.3f}",
        f"{values(found, 'coverage95').mean():.0%}", f"{np.median(values(found, 'seconds')):.1f}",
        f"{np.median(values(found, 'cpu_seconds')):.1f}",
        f"{paper[0]:.3f} ± {paper[1]:.3f}" if paper else "", f"{paper[2]:.2f} ± {paper[3]:.2f}" if paper else "",
    )  # fmt: skip


def paired(models: Mapping[str, Rows]) -> str:
    """Return the table of two-sided Wilcoxon signed-rank tests of `auto` against every other model, seed by seed."""
    heading = [f"{OURS} against", "pairs"]
    for score in ("SMSE", "SMLL"):
        heading += [f"{score}: {OURS} lower in", f"{score}: median difference", f"{score}: p"]
    body = [comparison(model, models[OURS], models[model]) for model in models if model != OURS]
    return rows.markdown(heading, body) if body else ""


def comparison(model: str, ours: Rows, theirs: Rows) -> Sequence[str]:
    """Return one line: how often `auto` is lower (better), by how much, and the p value."""
    cells = []
    pairs = 0
    for key in ("smse", "smll"):
        found = pair(*({row["seed"]: row for row in rows} for rows in (ours, theirs)), key)
        pairs = found.pairs
        cells += [str(found.lower), f"{found.median:+.3f}"] if pairs else ["", ""]
        cells.append("" if found.p is None else f"{found.p:.3f}")
    return (model, str(pairs), *cells)
