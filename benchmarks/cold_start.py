"""Cold start: ``python -m benchmarks.cold_start [--rounds 5]``: import aligngp, fit Park and predict in a new process.

Every round starts processes of their own, one after the other on one core: with an empty folder for compiled programs,
with the folder that the process before has filled, and, for comparison, the bare imports of aligngp, GPflow and
BoTorch (those that are installed: peers/environment.py). Rows go to results/cold_start.csv, the table to
results/cold_start.md.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks import rows
from benchmarks.peers import environment

# The settings of a fit beside the defaults, by the name in the rows.
FITS: dict[str, dict[str, Any]] = {"default": {}, "prior mapping": {"calibration": "none"}}
IMPORTS = {"aligngp": None, "gpflow": "gpflow", "botorch": "torch"}
PARTS = ("import", "fit", "predict")

WORK = """
import json, sys, time
start = time.perf_counter()
import aligngp as agp
imported = time.perf_counter()
case = agp.datasets.park()
columns = list(case.names["high"])
mapping = {"high": [columns.index(name) for name in case.mappings["high"]]}
gp = agp.AlignedGP("low", mappings=mapping, progress=False, **json.loads(sys.argv[1])).fit(case.tasks)
fitted = time.perf_counter()
mean = gp.predict("high", case.test["high"][0]).mean
ended = time.perf_counter()
error = float(((mean - case.test["high"][1]) ** 2).mean() / case.test["high"][1].var())
print(json.dumps({"import": imported - start, "fit": fitted - imported, "predict": ended - fitted, "smse": error}))
"""


def variables(folder: Path) -> dict[str, str]:
    """The environment of a process whose compiled programs go into a folder, wherever they would go otherwise."""
    return {**os.environ, "XDG_CACHE_HOME": str(folder), "JAX_COMPILATION_CACHE_DIR": str(folder / "compiled")}


def timed(command: list[str], folder: Path) -> tuple[float, str]:
    """Wall seconds of a process from its start to its end, and what it printed."""
    start = time.perf_counter()
    done = subprocess.run(command, env=variables(folder), capture_output=True, text=True, check=False)
    seconds = time.perf_counter() - start
    if done.returncode:
        raise RuntimeError(f"{' '.join(command[:2])} ... ended with code {done.returncode}: {done.stderr[-500:]}")
    return seconds, done.stdout


def fits(number: int, folder: Path, out: Path) -> None:
    """Rows of one round: every fit with an empty folder of compiled programs, then with a full one."""
    for name, settings in FITS.items():
        own = folder / f"{number} {name}"
        for cache in ("empty", "filled"):
            seconds, output = timed([sys.executable, "-c", WORK, json.dumps(settings)], own)
            found = json.loads(output.splitlines()[-1])
            write(out, number, name, cache, seconds, found)


def imports(number: int, folder: Path, out: Path) -> None:
    """Rows of one round: bare imports."""
    for module, peer in IMPORTS.items():
        if peer is not None and not environment.is_current(peer):
            continue
        python = sys.executable if peer is None else str(environment.python_of(peer))
        seconds, _ = timed([python, "-c", f"import {module}"], folder)
        write(out, number, f"import {module}", "", seconds, {})


def write(out: Path, number: int, what: str, cache: str, seconds: float, found: dict[str, float]) -> None:
    """Add one row and print it."""
    parts = {name: f"{found[name]:.4g}" if name in found else "" for name in (*PARTS, "smse")}
    row = {"round": number, "what": what, "cache": cache, "seconds": f"{seconds:.4g}", **parts, **rows.environment()}
    rows.append(out, row)
    print(" ".join(str(value) for value in list(row.values())[:8]), flush=True)


def table(found: list[dict[str, str]]) -> str:
    """Medians over the rounds."""
    groups: dict[tuple[str, str], list[dict[str, str]]] = {}
    for row in found:
        groups.setdefault((row["what"], row["cache"]), []).append(row)
    body = []
    for (what, cache), chosen in groups.items():
        cells = [_median(chosen, name) for name in ("seconds", *PARTS)]
        body.append((what, cache, str(len(chosen)), *cells))
    heading = ("process", "compiled programs", "rounds", "seconds, start to end", *PARTS)
    note = (
        "\nMedians; one core. `default` is `AlignedGP` as it comes, `prior mapping` the same with "
        '`calibration="none"`; both are\nfitted to Park (6 + 100 rows) and predict 1000 rows. Raw rows: '
        "cold_start.csv.\n"
    )
    return (
        (__doc__ or "").split(":")[0] + ": `python -m benchmarks.cold_start`\n\n" + rows.markdown(heading, body) + note
    )


def _median(chosen: list[dict[str, str]], name: str) -> str:
    values = [float(row[name]) for row in chosen if row[name]]
    return f"{median(values):.3g}" if values else ""


def main() -> None:
    """Measure the rounds that are missing, then write the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=Path, default=rows.RESULTS / "cold_start.csv")
    parser.add_argument("--table", action="store_true", help="make the table of the rows there are, measure nothing")
    arguments = parser.parse_args()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})  # the processes inherit it
    done = {int(row["round"]) for row in rows.read(arguments.out)}
    for number in range(0 if arguments.table else arguments.rounds):
        if number in done:
            continue
        with tempfile.TemporaryDirectory() as folder:
            imports(number, Path(folder), arguments.out)
            fits(number, Path(folder), arguments.out)
    arguments.out.with_suffix(".md").write_text(table(rows.read(arguments.out)))


if __name__ == "__main__":
    main()
