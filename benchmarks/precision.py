"""What single precision loses: ``python -m benchmarks.precision [--repeats 5]``.

The same fits in float64 and in float32: Park and the synthetic case `lossless`, prior mapping as it is,
collapsed and stochastic inference. Rows go to results/precision.csv, the table to results/precision.md.
"""

import argparse
import time
import warnings
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

import aligngp as agp
from benchmarks import rows
from benchmarks.cases import CASES

KEYS = ("case", "inference", "dtype", "seed")
NAMES, INFERENCES, DTYPES = ("park", "lossless"), ("collapsed", "svi"), ("float64", "float32")


def measure(case: str, inference: str, dtype: str, seed: int) -> dict[str, Any]:
    """Fit and score once; a fit that fails says so in its row."""
    instance = CASES[case](seed)
    gp = agp.AlignedGP(
        instance.common,
        mappings=instance.mappings,
        calibration="none",
        inference=inference,
        dtype=dtype,
        num_inducing=30,
        max_iterations=1000,
        restarts=1,
        seed=seed,
        progress=False,
    )
    tasks = {name: agp.Task(*table, names=list(instance.names[name])) for name, table in instance.tasks.items()}
    start, note, target = time.perf_counter(), "", instance.targets[0]
    objective = nmse = nlpd = float("nan")
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always", agp.AligngpWarning)
        try:
            gp.fit(tasks)
            objective, X, y = gp.elbo()["total"], *instance.test[target]
            scores = gp.score(target, (X, y))
            nmse, nlpd = scores["rmse"] ** 2 / float(np.var(y)), scores["nlpd"]
        except agp.AligngpError as error:
            note = str(error)[:120]
    jitter = sum("nearly singular" in str(one.message) for one in told)
    found = {"objective": objective, "nmse": nmse, "nlpd": nlpd, "seconds": time.perf_counter() - start}
    key = {"case": case, "inference": inference, "dtype": dtype, "seed": seed}
    shown = {name: f"{value:.8g}" for name, value in found.items()}
    return {**key, **shown, "more_jitter": jitter, "note": note, **rows.environment()}


def table(found: list[dict[str, str]]) -> str:
    """Return what float32 changes, seed by seed, in the median."""
    body = []
    for case, inference in product(NAMES, INFERENCES):
        by: dict[str, dict[str, dict[str, str]]] = {dtype: {} for dtype in DTYPES}
        for row in found:
            if (row["case"], row["inference"]) == (case, inference):
                by[row["dtype"]][row["seed"]] = row
        seeds = [seed for seed in by["float64"] if seed in by["float32"] and not by["float32"][seed]["note"]]
        if not seeds:
            continue

        def medians(name: str, by=by, seeds=seeds) -> tuple[str, str]:
            return tuple(f"{np.median([float(by[d][s][name]) for s in seeds]):.4g}" for d in DTYPES)

        failed = sum(bool(row["note"]) for row in by["float32"].values())
        jitter = sum(int(row["more_jitter"]) for row in by["float32"].values())
        cells = [cell for name in ("objective", "nmse", "nlpd") for cell in medians(name)]
        body.append((case, inference, str(len(seeds)), *cells, str(jitter), str(failed)))
    heading = (
        *("case", "inference", "seeds", "bound, float64", "float32", "NMSE, float64", "float32"),
        *("NLPD, float64", "float32", "float32 warned of jitter in", "failed in"),
    )
    first = (__doc__ or "").split("\n")[0].replace("``", "`")
    note = "\nMedians over the seeds; NMSE is the squared error over the variance of the test outputs.\n"
    return f"{first}\n\n{rows.markdown(heading, body)}{note}"


def main() -> None:
    """Measure what is missing, then write the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--out", type=Path, default=rows.RESULTS / "precision.csv")
    arguments = parser.parse_args()
    every = product(NAMES, INFERENCES, DTYPES, range(arguments.repeats))
    for key in rows.missing(arguments.out, [dict(zip(KEYS, one, strict=True)) for one in every], KEYS):
        rows.append(arguments.out, row := measure(**key))
        print(" ".join(str(row[name]) for name in (*KEYS, "objective", "nmse", "nlpd", "note")), flush=True)
    arguments.out.with_suffix(".md").write_text(table(rows.read(arguments.out)))


if __name__ == "__main__":
    main()
