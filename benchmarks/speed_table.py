"""The tables of the speed benchmark, made from its rows and traces."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from statistics import median

from benchmarks import rows, speed

Row = Mapping[str, str]
Trace = list[tuple[float, float]]
HEADING = (
    "method",
    "seeds",
    "to the target, s, warm",
    "cold",
    "times faster, warm",
    "cold",
    "whole training, s, warm",
    "cold",
    "best objective",
    "peak MiB",
    "of these imports",
)


def traces(points: Iterable[Row]) -> dict[tuple[str, ...], Trace]:
    """(problem, model, seed, method, start) -> rising trace."""
    found: dict[tuple[str, ...], Trace] = defaultdict(list)
    for point in points:
        key = tuple(point[name] for name in (*speed.KEYS, "start"))
        found[key].append((float(point["seconds"]), float(point["objective"])))
    return found


def references(group: Sequence[Row], name: str) -> dict[str, tuple[float, float, float]]:
    """Seed -> target and warm and cold seconds of the reference: the best of its forms in each of the three."""
    found: dict[str, tuple[float, float, float]] = {}
    for row in group:
        if row["method"] in (name, f"{name}, XLA") and not row["error"]:
            mine = (float(row["objective_best"]), float(row["wall_warm"]), float(row["wall_cold"]))
            best = found.get(row["seed"], (-float("inf"), float("inf"), float("inf")))
            found[row["seed"]] = (max(best[0], mine[0]), min(best[1], mine[1]), min(best[2], mine[2]))
    return found


def tables(measured: Sequence[Row], points: Sequence[Row]) -> str:
    """All tables, a problem and model each, and how to read them."""
    seen = traces(points)
    parts = [speed.__doc__.split("\n")[0].replace("``", "`") + "\n" if speed.__doc__ else "", _NOTE]
    for problem, title in speed.PROBLEMS.items():
        for model, name in speed.REFERENCE.items():
            group = [row for row in measured if (row["problem"], row["model"]) == (problem, model)]
            known = references(group, name)
            if group and known:
                parts.append(f"## {title}, {model}; the target is {name}'s best objective\n")
                parts.append(_table(group, known, seen))
                parts.append(_fairer(group, known, seen))
    failed = [row for row in measured if row["error"]]
    if failed:
        body = [(*(row[name] for name in speed.KEYS), row["error"].replace("|", "/")) for row in failed]
        parts.append("## What failed\n\n" + rows.markdown((*speed.KEYS, "error"), body))
    return "\n".join(part for part in parts if part)


_NOTE = """One core; medians over the seeds; imports are not in the times. The target is the best bound that the
reference (GPflow's 5000 Adam steps in the faster of its forms; for hsvlmc our own Adam as the paper configures it)
shows at any look on its way, and "times faster" its whole training over the time to that target or a better one. Looks
at the objective are not in the times. Exact models and kriging have other objectives: there is only their time.
"""


def _table(group: Sequence[Row], known: Mapping[str, tuple[float, float, float]], seen) -> str:
    """One line a method."""
    body = []
    for method in dict.fromkeys(row["method"] for row in group):
        chosen = [row for row in group if row["method"] == method and not row["error"]]
        if not chosen:
            continue
        times = {start: _times(chosen, known, seen, start) for start in ("warm", "cold")}
        ratios = {
            start: [known[seed][1 if start == "warm" else 2] / seconds for seed, seconds in times[start].items()]
            for start in times
        }
        total = len(chosen)
        comparable = any(row["objective_best"] for row in chosen)
        body.append(
            (
                method,
                str(total),
                *(_reached(list(times[start].values()), total, comparable) for start in times),
                *(f"{median(ratios[start]):.3g}" if ratios[start] else "" for start in times),
                *(f"{median(float(row[name]) for row in chosen):.3g}" for name in ("wall_warm", "wall_cold")),
                f"{median(float(row['objective_best']) for row in chosen):.6g}" if comparable else "",
                *(f"{median(float(row[name]) for row in chosen):.0f}" for name in ("peak_mib", "imported_mib")),
            )
        )
    return rows.markdown(HEADING, body)


def _times(chosen: Sequence[Row], known, seen, start: str) -> dict[str, float]:
    """Seed -> seconds to the target, where it is reached."""
    found = {}
    for row in chosen:
        if row["seed"] in known:
            key = (*(row[name] for name in speed.KEYS), start)
            seconds = speed.time_to(seen.get(key, []), known[row["seed"]][0])
            if seconds is not None:
                found[row["seed"]] = seconds
    return found


def _reached(seconds: list[float], total: int, comparable: bool) -> str:
    if not comparable:
        return ""
    if not seconds:
        return "not reached"
    return f"{median(seconds):.3g}" + (f" ({len(seconds)} of {total})" if len(seconds) < total else "")


def _fairer(group: Sequence[Row], known, seen) -> str:
    """Our time to the target beside the better of GPflow's L-BFGS and natural gradients, seed by seed."""
    lines = []
    for start in ("warm", "cold"):
        by_method = {
            method: _times([row for row in group if row["method"] == method], known, seen, start)
            for method in dict.fromkeys(row["method"] for row in group)
        }
        ours: dict[str, float] = {}
        theirs: dict[str, float] = {}
        for method, times in by_method.items():
            if method in ("GPflow L-BFGS", "GPflow natural gradients"):
                _keep_least(theirs, times)
            elif method in ("aligngp collapsed", "aligngp svi"):
                _keep_least(ours, times)
        ratios = [theirs[seed] / ours[seed] for seed in ours if seed in theirs]
        if ratios:
            lines.append(f"{start} {median(ratios):.3g} ({len(ratios)} of {len(known)} seeds)")
    if not lines:
        return ""
    return f"Times faster to the target than the better of GPflow's L-BFGS and natural gradients: {', '.join(lines)}.\n"


def _keep_least(best: dict[str, float], times: Mapping[str, float]) -> None:
    for seed, seconds in times.items():
        best[seed] = min(seconds, best.get(seed, float("inf")))
