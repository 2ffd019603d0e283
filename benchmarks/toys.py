"""The paper's two toy cases with every model: ``python -m benchmarks.toys [--repeats 10]``.

Rows go to results/toys.csv as they are measured, so the command can be stopped and started again; the table
results/toys.md is made from the rows at the end (``--table`` makes it alone).

Protocol ``train`` scales by the training rows, as the library does. Protocol ``paper`` normalises training and test
rows together before the fit, as the paper's appendix does: test rows leak into the scaling. It is kept for comparison.
"""

import argparse
import time
from collections import defaultdict
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

import aligngp as agp
from aligngp.model import Model
from aligngp.parameters import resolve
from benchmarks import rows
from benchmarks.models import PAPER

CASES = {"noisy": agp.datasets.noisy, "park": agp.datasets.park}
MODELS = {**PAPER, "default": agp.AlignedGP}
PROTOCOLS = ("train", "paper")
KEYS = ("case", "model", "protocol", "seed", "iterations")
SCORES = ("smse", "smll", "rmse", "nlpd", "crps", "coverage95")


@dataclass(frozen=True)
class Instance:
    """One instance of a case under one protocol: what is fitted, and what it is tested on."""

    tasks: dict[str, Any]
    test: tuple[np.ndarray, np.ndarray]
    mappings: dict[str, Any]
    standardize: bool


def instance(case: agp.datasets.Case, protocol: str) -> Instance:
    """Return a case as its protocol scales it."""
    target = case.target
    if protocol == "train":
        return Instance(dict(case.tasks), case.test[target], dict(case.mappings), True)
    columns = list(case.names[target])
    positions = [columns.index(name) for name in case.mappings[target]]
    inputs, outputs = {}, {}
    for name in case.tasks:
        X = np.concatenate([case.tasks[name][0], case.test[name][0]])
        y = np.concatenate([case.tasks[name][1], case.test[name][1]])
        inputs[name], outputs[name] = (X.mean(axis=0), X.std(axis=0)), (y.mean(), y.std())
    # Aligned columns must agree, so the target's are scaled by the common task's numbers.
    for part in (0, 1):
        inputs[target][part][positions] = inputs[case.common][part]

    def scaled(name: str, rows: tuple[np.ndarray, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        (mean, scale), (centre, spread) = inputs[name], outputs[name]
        return (rows[0] - mean) / scale, (rows[1] - centre) / spread

    tasks = {name: scaled(name, case.tasks[name]) for name in case.tasks}
    return Instance(tasks, scaled(target, case.test[target]), {target: positions}, False)


def measure(name: str, model: str, protocol: str, seed: int, iterations: int) -> dict[str, Any]:
    """Fit one model to one instance; return a row of scores on the target task."""
    case = CASES[name](seed=seed)
    data = instance(case, protocol)
    mappings = data.mappings if protocol == "paper" else {case.target: positions_of(case)}
    keywords = {"seed": seed, "progress": False, "max_iterations": iterations, "standardize": data.standardize}
    if model == "SOGP":
        gp = MODELS[model](**keywords)
        tasks = {case.target: data.tasks[case.target]}
    else:
        gp = MODELS[model](common=case.common, mappings=mappings, **keywords)
        tasks = data.tasks
    start = time.perf_counter()
    gp.fit(tasks)
    seconds = time.perf_counter() - start
    scores = gp.score(case.target, data.test)
    y = data.test[1]
    return {
        "case": name,
        "model": model,
        "protocol": protocol,
        "seed": seed,
        "iterations": iterations,
        **{key: f"{scores[key]:.6g}" for key in SCORES},
        "rmse_over_test_sd": f"{scores['rmse'] / y.std():.6g}",
        "nu_g0": nu_g0(gp, case.target),
        "objective": f"{np.mean(gp.history.objective[-iterations // 10 :]):.6g}",
        "seconds": f"{seconds:.3g}",
        **rows.environment(),
    }


def positions_of(case: agp.datasets.Case) -> list[int]:
    """Return the prior mapping as column positions: the cases' arrays have no names."""
    columns = list(case.names[case.target])
    return [columns.index(name) for name in case.mappings[case.target]]


def nu_g0(gp: agp.AlignedGP, task: str) -> str:
    """Return the learned prior variance of the aligned inputs, empty for a model that has none."""
    model = gp.model
    if not isinstance(model, Model) or len(model.mappings) < 2:
        return ""
    with agp.computing():
        mapping = resolve(model).mappings[0]
    return f"{float(mapping.prior_variance):.4g}" if hasattr(mapping, "prior_variance") else ""


def table(path: Path) -> str:
    """Return the tables of all rows: mean, standard deviation and median over the seeds."""
    groups: dict[tuple[str, str], dict[str, list[dict[str, str]]]] = defaultdict(lambda: defaultdict(list))
    for row in rows.read(path):
        groups[row["case"], row["protocol"]][row["model"]].append(row)
    parts = [__doc__.split("\n")[0].replace("``", "`") + "\n"]
    for (case, protocol), models in groups.items():
        heading = (
            "model",
            "seeds",
            "SMSE mean ± sd",
            "median",
            "SMLL mean ± sd",
            "median",
            "RMSE / test sd",
            "95% coverage",
            "nu_g0 median",
            "seconds median",
        )
        body = []
        for model in [name for name in MODELS if name in models]:
            found = models[model]
            values = {
                key: np.array([float(row[key]) for row in found if row[key]])
                for key in found[0]
                if key in (*SCORES, "rmse_over_test_sd", "nu_g0", "seconds")
            }
            body.append((
                model, str(len(found)),
                f"{values['smse'].mean():.3f} ± {values['smse'].std():.3f}", f"{np.median(values['smse']):.3f}",
                f"{values['smll'].mean():.2f} ± {values['smll'].std():.2f}", f"{np.median(values['smll']):.2f}",
                f"{values['rmse_over_test_sd'].mean():.3f}", f"{values['coverage95'].mean():.0%}",
                f"{np.median(values['nu_g0']):.2g}" if values["nu_g0"].size else "",
                f"{np.median(values['seconds']):.1f}",
            ))  # fmt: skip
        parts.append(f"## {case}, protocol {protocol}\n\n" + rows.markdown(heading, body))
    return "\n".join(parts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--protocols", nargs="+", choices=PROTOCOLS, default=["train"])
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--iterations", type=int, default=5000)
    parser.add_argument("--out", type=Path, default=rows.RESULTS / "toys.csv")
    parser.add_argument("--table", action="store_true", help="make the table of the rows there are, measure nothing")
    arguments = parser.parse_args()
    # The seed varies fastest, so that one compilation serves all instances of a model.
    wanted = [
        {"case": case, "model": model, "protocol": protocol, "seed": seed, "iterations": arguments.iterations}
        for case, protocol, model, seed in product(
            arguments.cases, arguments.protocols, arguments.models, range(arguments.repeats)
        )
    ]
    todo = [] if arguments.table else rows.missing(arguments.out, wanted, KEYS)
    for done, row in enumerate(todo):
        measured = measure(row["case"], row["model"], row["protocol"], row["seed"], row["iterations"])
        rows.append(arguments.out, measured)
        print(f"[{done + 1}/{len(todo)}] " + " ".join(str(measured[key]) for key in (*KEYS, *SCORES)), flush=True)
    arguments.out.with_suffix(".md").write_text(table(arguments.out))


if __name__ == "__main__":
    main()
