"""Peak memory of predictions: ``python -m benchmarks.predict_memory``.

A process for each number of rows fits a small model (D=16 common inputs of Dt=21; HSVLMC-g0 and HSVLMC with M=30, and
the default, a mixture of exact GPs), then predicts. What counts is the peak above that after a prediction of 10000
rows; the inputs are held before, the two outputs are in it. Rows are padded to powers of two and so compiled for a few
sizes, for all of them before.
Rows go to results/predict_memory.csv.
"""

import argparse
import resource
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

import aligngp as agp
from benchmarks import rows

SIZES = (10_000, 100_000, 1_000_000)
CALIBRATIONS = ("none", "bayes", "auto")


def peak() -> float:
    """Return the process's peak memory in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measure(size: int, calibration: str) -> dict[str, object]:
    """Fit, predict, return a row."""
    rng = np.random.default_rng(0)
    X, low = rng.normal(size=(20, 21)), rng.normal(size=(400, 16))
    tasks = {"high": (X, np.sin(X[:, 0])), "low": (low, np.sin(low[:, 0]))}
    sparse = {} if calibration == "auto" else {"expectation": "sampled", "max_iterations": 10, "num_inducing": 30}
    gp = agp.AlignedGP(
        "low", mappings={"high": list(range(16))}, calibration=calibration, progress=False, **sparse
    ).fit(tasks)
    new = rng.normal(size=(size, 21))
    for first in (10_000, *(2**k for k in range(4, 12))):
        gp.predict("high", new[:first])
    before, start = peak(), time.perf_counter()
    prediction = gp.predict("high", new)
    seconds = time.perf_counter() - start
    held = (prediction.mean.nbytes + prediction.variance.nbytes) / 2**20
    return {
        "rows": size,
        "calibration": calibration,
        "peak_above_10000_rows_mib": f"{peak() - before:.1f}",
        "outputs_held_mib": f"{held:.1f}",
        "seconds": f"{seconds:.3g}",
        **rows.environment(),
    }


def main() -> None:
    """Measure every size in a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, default=rows.RESULTS / "predict_memory.csv")
    parser.add_argument("--one", nargs=2, metavar=("ROWS", "CALIBRATION"), help="one measurement, in this process")
    arguments = parser.parse_args()
    if arguments.one:
        row = measure(int(arguments.one[0]), arguments.one[1])
        rows.append(arguments.out, row)
        print(row, flush=True)
        return
    for calibration in CALIBRATIONS:
        for size in SIZES:
            command = [sys.executable, "-m", "benchmarks.predict_memory", "--one", str(size), calibration]
            subprocess.run([*command, "--out", str(arguments.out)], check=True)


if __name__ == "__main__":
    main()
