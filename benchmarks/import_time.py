"""Import time: ``python -m benchmarks.import_time [--rounds 11]``: a new process that imports a package and ends.

Beside aligngp the packages that it stands on or is compared with: NumPy and JAX alone, GPflow and BoTorch, each in its
environment (``python benchmarks/peers/environment.py gpflow``, ``torch``). The first round brings the files into memory
and is left out of the medians. Rows go to results/import_time.csv, the table to results/import_time.md.

Imports run in one thread: where others use the machine too (``load`` in the rows), the seconds of the processor are
what an idle one would take, and by them the limit is checked.
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from statistics import median

from benchmarks import rows
from benchmarks.peers import environment

# What is imported, and the peer in whose environment it is; None is the environment of this process.
MODULES = {"numpy": None, "jax": None, "aligngp": None, "gpflow": "gpflow", "botorch": "torch"}
LIMIT = 1.5
"""Seconds that importing aligngp may take."""

WORK = """
import json, sys, time
start, used = time.perf_counter(), time.process_time()
import {module}
seconds, used = time.perf_counter() - start, time.process_time() - used
# Not getrusage: what it knows of a new program begins with the memory of the process that started it.
memory = next(int(line.split()[1]) / 1024 for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(json.dumps({{"import": seconds, "processor": used, "version": {module}.__version__, "modules": len(sys.modules),
                   "memory": memory}}))
"""


def timed(python: str, module: str) -> dict[str, str]:
    """One new process: seconds of the import, of the processor and by the clock, modules loaded, memory."""
    quiet = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
    load = os.getloadavg()[0]
    done = subprocess.run(
        [python, "-c", WORK.format(module=module)], env=quiet, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"import {module} ended with code {done.returncode}: {done.stderr[-500:]}")
    found = json.loads(done.stdout.splitlines()[-1])
    return {
        "version": found["version"],
        "processor_seconds": f"{found['processor']:.4g}",
        "seconds": f"{found['import']:.4g}",
        "modules": str(found["modules"]),
        "memory_mib": f"{found['memory']:.0f}",
        "load": f"{load:.1f}",
    }


def table(found: list[dict[str, str]]) -> str:
    """Medians over the rounds but the first."""
    body = []
    for module in MODULES:
        warm = [row for row in found if row["module"] == module and row["round"] != "0"]
        if warm:
            size = (f"{_median(warm, name):.0f}" for name in ("modules", "memory_mib"))
            seconds = f"{_median(warm, 'processor_seconds'):.2f}"
            body.append((module, warm[-1]["version"], str(len(warm)), seconds, *size))
    heading = ("package", "version", "rounds", "seconds of the processor", "modules", "MiB")
    loads = sorted(float(row["load"]) for row in found)
    note = (
        f"\nMedians; {found[-1]['machine']}, Python {found[-1]['python']}, pinned to one core that others used too "
        f"(load {loads[0]:.0f} to\n{loads[-1]:.0f}): seconds by the clock say little there and stand in the raw rows "
        "alone, import_time.csv.\n"
    )
    return "Import time: `python -m benchmarks.import_time`\n\n" + rows.markdown(heading, body) + note


def _median(chosen: list[dict[str, str]], name: str) -> float:
    return median(float(row[name]) for row in chosen)


def main() -> None:
    """Measure the rounds that are missing, then write the table; fail where aligngp takes longer than it may."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--out", type=Path, default=rows.RESULTS / "import_time.csv")
    parser.add_argument("--table", action="store_true", help="make the table of the rows there are, measure nothing")
    arguments = parser.parse_args()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})  # the processes inherit it
    wanted = [{"round": number, "module": module} for number in range(arguments.rounds) for module in MODULES]
    for one in [] if arguments.table else rows.missing(arguments.out, wanted, ("round", "module")):
        peer = MODULES[one["module"]]
        if peer is not None and not environment.is_current(peer):
            print(f"{one['module']}: its environment is not there, python benchmarks/peers/environment.py {peer}")
            continue
        python = sys.executable if peer is None else str(environment.python_of(peer))
        row = {**one, **timed(python, one["module"]), **rows.environment()}
        rows.append(arguments.out, row)
        print(*list(row.values())[:8], flush=True)
    found = rows.read(arguments.out)
    arguments.out.with_suffix(".md").write_text(table(found))
    warm = [row for row in found if row["module"] == "aligngp" and row["round"] != "0"]
    if warm and _median(warm, "processor_seconds") > LIMIT:
        raise SystemExit(f"importing aligngp takes more than {LIMIT} s")


if __name__ == "__main__":
    main()
