"""Does a long training complete on two cores? ``python -m benchmarks.deadlock``, with every jax: ``make stress``.

jaxlib 0.10 can deadlock when two batched LAPACK calls run at once on few cores. One run is 5000 iterations of the
paper's HSVLMC, M = 100, 4 + 1000 rows, in a process of its own that is held to two cores, with XLA's own number of
threads. Every run adds a row to results/deadlock.csv; a run that does not end in time is stopped and says so there.
"""

import argparse
import os
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path

from benchmarks import rows

CORES = 2
ITERATIONS = 5000
SECONDS = 1800.0
ROOT = Path(__file__).parents[1]


def measure(iterations: int = ITERATIONS, limit: float = SECONDS) -> dict[str, object]:
    """Train in a process of its own and return its row; its errors are raised, its timeout is not."""
    command = [sys.executable, "-m", "benchmarks.deadlock", "--iterations", str(iterations), "--worker"]
    start = time.perf_counter()
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=limit, check=False)
    except subprocess.TimeoutExpired:
        cores, finished = CORES, False
    else:
        if done.returncode != 0:
            raise RuntimeError(f"the training failed, exit code {done.returncode}:\n{done.stderr}")
        cores, finished = int(done.stdout), True
    return {
        "jax": version("jax"),
        "jaxlib": version("jaxlib"),
        "iterations": iterations,
        "seconds": f"{time.perf_counter() - start:.1f}",
        "cores": cores,
        "finished": finished,
    }


def work(iterations: int) -> None:
    """Fit on two cores and print how many there were; fail where the training is not what was asked for."""
    cores = _hold_to(CORES)
    import numpy as np

    import aligngp as agp

    rng = np.random.default_rng(0)
    fine, coarse = rng.uniform(size=(4, 6)), rng.uniform(size=(1000, 3))
    tasks = {
        "fine": (fine, np.sin(5.0 * fine[:, 0]) + fine[:, 1] ** 2 + 0.5 * fine[:, 2] + 0.1 * fine[:, 3]),
        "coarse": (coarse, np.sin(5.0 * coarse[:, 0]) + coarse[:, 1] ** 2 + 0.5 * coarse[:, 2]),
    }
    gp = agp.paper.hsvlmc(
        "coarse",
        mappings={"fine": ["x1", "x2", "x3"]},
        num_inducing=100,
        num_samples=1,
        max_iterations=iterations,
        progress=False,
    ).fit(tasks)
    objective = gp.history.objective
    if objective.size != iterations or not np.mean(objective[-10:]) > objective[0]:
        raise RuntimeError(f"{objective.size} of {iterations} iterations, from {objective[0]} to {objective[-1]}")
    print(cores)


def _hold_to(number: int) -> int:
    """Hold this process to some cores where the system can do it; return how many it has."""
    if not hasattr(os, "sched_setaffinity"):
        return os.cpu_count() or 1
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:number])
    return len(os.sched_getaffinity(0))


def main() -> int:
    """Run once and add a row; exit code 1 where the run did not end."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--iterations", type=int, default=ITERATIONS)
    parser.add_argument("--limit", type=float, default=SECONDS, help="seconds after which a run counts as deadlocked")
    parser.add_argument("--out", type=Path, default=rows.RESULTS / "deadlock.csv")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        work(arguments.iterations)
        return 0
    row = measure(arguments.iterations, arguments.limit)
    rows.append(arguments.out, row)
    print(", ".join(f"{name} {value}" for name, value in row.items()))
    return 0 if row["finished"] else 1


if __name__ == "__main__":
    sys.exit(main())
