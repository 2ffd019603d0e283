"""What the rows say, as Markdown: the paper's findings, the weights, the studies, the default, the time it took."""

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from benchmarks import overview, rows, studies
from benchmarks.cases import CASES
from benchmarks.cases.published import PUBLISHED
from benchmarks.compare import LEVEL, Pair, Rows, Scores, of_shared_seeds, pair, scores, values, variances
from benchmarks.models import MODELS, WEIGHTED
from benchmarks.overview import TITLES, cases

CLAIMS = {
    "The SOGP fails with few rows, HSVLMC-g0 is better": ("HSVLMC-g0", "SOGP"),
    "The SOGP fails with few rows, HSVLMC is better": ("HSVLMC", "SOGP"),
    "HSVLMC-g0 is better than HSVLMC-EM in general": ("HSVLMC-g0", "HSVLMC-EM"),
    "HSVLMC is better than HSVLMC-EM": ("HSVLMC", "HSVLMC-EM"),
    "HSVLMC is better than HSVLMC-g0": ("HSVLMC", "HSVLMC-g0"),
}
"""What the paper says, as (better, worse)."""
WEIGHTS = ("HSVLMC", *WEIGHTED)
MARKS = {"yes": " ▼", "no": " ▲", "open": "", "none": " ?"}
DEFAULT, RIVALS = "auto", tuple(model for model in MODELS if model not in ("auto", "auto, no mapping"))


def claims(found: Rows) -> str:
    """Return for each of the paper's findings the cases on which it holds, is reversed, or cannot be seen."""
    table = scores(found)
    heading = ("the paper says", "score", "holds", "reversed", "no difference", "too few seeds")
    body = []
    for said, (better, worse) in CLAIMS.items():
        for key, title in TITLES.items():
            verdicts = _verdicts(table, better, worse, key)
            cells = [[case for case, one in verdicts.items() if one == word] for word in ("yes", "no", "open", "none")]
            body.append((said if key == "smse" else "", title, *(_counted(cell, len(verdicts)) for cell in cells)))
    return rows.markdown(heading, body)


def weights(found: Rows) -> str:
    """Return HSVLMC over HSVLMC-g0 for every weight beside the paper's ratio, and which weight comes nearest."""
    table = scores(found)
    there = [model for model in WEIGHTS if any((case, model) in table for case in cases(table))]
    body = []
    for case in cases(table):
        paper = paper_ratio(case)
        cells = [_ratio_cell(table, case, model) for model in there]
        if any(cells):
            body.append((case, "" if paper is None else f"{paper:.2f}", *cells))
    said = rows.markdown(("case", "paper", *there), body)
    return f"{said}\n{_sentences([_of_weight(table, model) for model in there])}"


def paper_ratio(case: str) -> float | None:
    """Return the paper's mean SMSE of HSVLMC over that of HSVLMC-g0, None where it has none."""
    numbers = [PUBLISHED.get((case, model)) for model in ("HSVLMC", "HSVLMC-g0")]
    return numbers[0][0] / numbers[1][0] if numbers[0] and numbers[1] else None


def ratio(table: Scores, case: str, model: str, base: str = "HSVLMC-g0") -> float | None:
    """Return the geometric mean over the seeds of one SMSE over another, None where a model has no rows."""
    if (case, model) not in table or (case, base) not in table:
        return None
    first, second = table[case, model], table[case, base]
    logs = [np.log(float(first[seed]["smse"]) / float(second[seed]["smse"])) for seed in first if seed in second]
    return float(np.exp(np.mean(logs))) if logs else None


def distance(table: Scores, model: str) -> tuple[float, int]:
    """Return how far a model's ratios are from the paper's (mean absolute log ratio), and over how many cases."""
    pairs = [(ratio(table, case, model), paper_ratio(case)) for case in cases(table)]
    logs = [abs(np.log(ours / paper)) for ours, paper in pairs if ours is not None and paper is not None]
    return (float(np.mean(logs)) if logs else np.nan), len(logs)


def learned(found: Rows) -> str:
    """Return the median nu_g0 of every model that learns it, by case."""
    there = variances(found, rows.read(rows.RESULTS / "toys.csv"))
    models = [model for model in WEIGHTS if not model.endswith("KL0")]
    body = [
        (case, *(f"{np.median(there[case, model]):.1e}" if (case, model) in there else "" for model in models))
        for case in CASES
        if any((case, model) in there for model in models)
    ]
    return rows.markdown(("case", *models), body)


def impacts(found: Rows) -> str:
    """Return a table of the scores at every level of each study, of the seeds that all levels have."""
    parts = []
    for study in studies.STUDIES:
        table = of_shared_seeds(scores(found), tuple(study.levels.values()), studies.MODELS)
        body = []
        for label, case in study.levels.items():
            for key, title in TITLES.items():
                cells = [_level_cell(table, case, model, key) for model in studies.MODELS]
                seeds = {len(table[case, model]) for model in studies.MODELS if (case, model) in table}
                if any(cells):
                    body.append((label if key == "smse" else "", title, "-".join(map(str, sorted(seeds))), *cells))
        if body:
            parts.append(f"{study.title}\n\n" + rows.markdown(("", "score", "seeds", *studies.MODELS), body))
    return "\n".join(parts) if parts else "No study has been measured yet.\n"


def default(found: Rows) -> str:
    """Return for every case which models are better or worse than the default, and on how many it is best or tied."""
    table = scores(found)
    body, best = [], dict.fromkeys(TITLES, 0)
    for case in cases(table):
        cells = []
        for key in TITLES:
            better = [m for m, one in _against_default(table, case, key).items() if one.verdict == "no"]
            tied = [m for m, one in _against_default(table, case, key).items() if one.verdict == "open"]
            best[key] += not better
            cells += [", ".join(better) or "none", ", ".join(tied) or "none"]
        body.append((case, *cells))
    heading = ["case"] + [f"{title}: {word}" for title in TITLES.values() for word in ("better", "no difference")]
    said = ", ".join(f"on {best[key]} of {len(body)} cases in {title}" for key, title in TITLES.items())
    return f"No model is better than the default {said}.\n\n" + rows.markdown(heading, body)


def time(found: Rows) -> str:
    """Return how long all fits took, by case."""
    body, totals = [], np.zeros(3)
    for case in dict.fromkeys(row["case"] for row in found):
        own = [row for row in found if row["case"] == case and row["seconds"]]
        numbers = np.array([len(own), *(sum(float(row[key]) for row in own) for key in ("seconds", "cpu_seconds"))])
        totals += numbers
        body.append((case, f"{numbers[0]:.0f}", f"{numbers[1] / 60:.1f}", f"{numbers[2] / 60:.1f}"))
    groups = [values(seeds, "seconds").mean() for seeds in scores(found).values()]
    count, seconds, cpu = totals
    said = (
        f"All {count:.0f} fits together took {seconds / 3600:.1f} hours one after another, {cpu / 3600:.1f} hours of a "
        f"processor; ten instances of every model and case in them take {sum(groups) * 10 / 3600:.1f} hours. Loading "
        "data, scoring and figures come on top. With `--jobs 2` on two free cores it is about half."
    )
    return f"{said}\n\n" + rows.markdown(("case", "fits", "minutes", "processor minutes"), body)


SECTIONS: dict[str, Callable[[Rows], str]] = {
    "overview": overview.markdown,
    "default": default,
    "claims": claims,
    "weights": weights,
    "variances": learned,
    "studies": impacts,
    "time": time,
}


def _verdicts(table: Scores, better: str, worse: str, key: str) -> dict[str, str]:
    both = [case for case in cases(table) if (case, better) in table and (case, worse) in table]
    return {case: pair(table[case, better], table[case, worse], key).verdict for case in both}


def _counted(found: Sequence[str], total: int) -> str:
    return f"{len(found)} of {total}: {', '.join(found)}" if found else f"0 of {total}"


def _ratio_cell(table: Scores, case: str, model: str) -> str:
    found = ratio(table, case, model)
    if found is None:
        return ""
    ours = pair(table[case, model], table[case, "HSVLMC-g0"], "smse")
    fewer = f" ({ours.pairs} seeds)" if ours.pairs < len(table[case, "HSVLMC-g0"]) else ""
    return f"{found:.2f}{MARKS[ours.verdict]}{fewer}"


def _of_weight(table: Scores, model: str) -> str:
    parts = []
    for key, title in TITLES.items():
        found = list(_verdicts(table, model, "HSVLMC-g0", key).values())
        parts.append(f"{title} better on {found.count('yes')} and worse on {found.count('no')} of {len(found)} cases")
    far, number = distance(table, model)
    near = f"; off the paper's ratio by a factor {np.exp(far):.2f} (mean of {number} cases)" if number else ""
    return f"`{model}` against HSVLMC-g0: {', '.join(parts)}{near}."


def _level_cell(table: Scores, case: str, model: str, key: str) -> str:
    if (case, model) not in table:
        return ""
    found = values(table[case, model], key)
    digits = 3 if key == "smse" else 2
    return f"{found.mean():.{digits}f} ± {found.std():.{digits}f}"


def _against_default(table: Scores, case: str, key: str) -> dict[str, Pair]:
    if (case, DEFAULT) not in table:
        return {}
    return {model: pair(table[case, DEFAULT], table[case, model], key) for model in RIVALS if (case, model) in table}


def _sentences(found: Iterable[str]) -> str:
    return "".join(f"- {one}\n" for one in found)


NOTE = f"Tests are two-sided signed-rank tests (Wilcoxon) over the seeds, at p < {LEVEL}."
