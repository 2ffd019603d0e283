"""Two processes with one core each against one: ``python -m benchmarks.distributed``.

Weak scaling of stochastic training from Parquet: a process takes 512 rows of the streamed task a step, so that two take
1024 together. Every process is bound to one core. Rows go to results/distributed.csv, the table to
results/distributed.md, with what a step exchanges and what that would cost on 64 GPUs.
"""

import argparse
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from benchmarks import rows

EACH, STEPS, CHUNK, GROUPS, INDUCING, LATENTS, INPUTS = 512, 200, 50, 16, 100, 1, 8
GPUS, BANDWIDTH, LATENCY = 64, 25e9, 2e-5
"""Of the projection: bytes a second of one link (200 Gbit/s), seconds of one step of a ring."""


def write(path: Path) -> None:
    """The streamed task: 200,000 rows of 8 inputs."""
    import pyarrow as pa
    import pyarrow.parquet as parquet

    rng = np.random.default_rng(0)
    X = rng.uniform(-1.0, 1.0, size=(200_000, INPUTS))
    columns = {f"x{d + 1}": X[:, d] for d in range(INPUTS)}
    zeta = np.sin(2.5 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.1 * rng.normal(size=len(X))
    parquet.write_table(pa.table({**columns, "zeta": zeta}), path, row_group_size=len(X) // GROUPS)


def work(folder: Path, processes: int, process: int, port: int) -> dict[str, Any]:
    """Train in this process, one of several."""
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[process % len(cores)]})
    from aligngp.data.processes import start

    if processes > 1:
        start(f"127.0.0.1:{port}", processes, process)
    import aligngp as agp

    gp = agp.AlignedGP(
        inference="svi", calibration="none", num_inducing=INDUCING, batch_size=EACH * processes,
        max_iterations=STEPS, patience=10 * STEPS, progress=False,
    )  # fmt: skip
    task = agp.Parquet(folder / "rows.parquet", "zeta", stream=True, shards=processes)
    used = os.times()
    gp.fit({"rows": task}, devices="all" if processes > 1 else None)
    spent = os.times()
    chunks = np.diff(gp.history.seconds[CHUNK - 1 :: CHUNK]) / CHUNK
    size = gp.model.latents[0].inducing.shape[0]
    return {
        "ms_a_step": 1e3 * float(median(chunks)),
        "cpu_seconds": spent.user + spent.system - used.user - used.system,
        "bytes_a_step": 8 * ((LATENTS * size) ** 2 + LATENTS * size + 2 + LATENTS * (size * INPUTS + INPUTS + 1) + 3),
        "objective": float(gp.history.objective[-1]),
    }


def measure(folder: Path, processes: int, repeat: int) -> dict[str, Any]:
    """One measurement: the slowest of its processes."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "benchmarks.distributed", "--one", str(folder), str(processes)]
    running = [
        subprocess.Popen([*command, str(at), str(port)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        for at in range(processes)
    ]
    found = [json.loads(process.communicate(timeout=900)[0].splitlines()[-1]) for process in running]
    return {
        "processes": processes,
        "repeat": repeat,
        "rows_a_step": EACH * processes,
        "ms_a_step": f"{max(one['ms_a_step'] for one in found):.4g}",
        "cpu_seconds": f"{max(one['cpu_seconds'] for one in found):.4g}",
        "bytes_a_step": found[0]["bytes_a_step"],
        "objective": f"{found[0]['objective']:.10g}",
        "load": f"{os.getloadavg()[0]:.1f}",
        **rows.environment(),
    }


def table(path: Path) -> str:
    """The measurements, and the projection."""
    found = rows.read(path)
    steps = {n: [float(row["ms_a_step"]) for row in found if row["processes"] == str(n)] for n in (1, 2)}
    best = {n: min(values) for n, values in steps.items()}
    heading = ("processes", "rows a step", "ms a step, fastest", "median", "runs", "efficiency by the fastest")
    heading = (*heading, "processor seconds of a process, fewest")
    spent = {n: min(float(row["cpu_seconds"]) for row in found if row["processes"] == str(n)) for n in (1, 2)}
    body = [
        (
            *(str(n), str(EACH * n), f"{best[n]:.1f}", f"{median(steps[n]):.1f}", str(len(steps[n]))),
            f"{best[1] / best[n]:.0%}",
            f"{spent[n]:.1f}",
        )
        for n in (1, 2)
    ]
    size = int(found[0]["bytes_a_step"])
    ring = 2 * (GPUS - 1) / GPUS * size / BANDWIDTH + 2 * (GPUS - 1) * LATENCY
    loads = [float(row["load"]) for row in found]
    hops = 2 * (GPUS - 1) * LATENCY
    note = (
        f"\nEvery process is bound to one core and reads half of the row groups; {INDUCING} inducing inputs. Where the "
        "rest goes: factors\nand solves of the inducing variables are computed by every process, sums over rows are "
        "exchanged by gloo over the\nloopback device, and a step waits for the slower process. The two cores were "
        f"shared with other work (load {min(loads):.0f} to {max(loads):.0f}),\nwhich hits two processes that wait for "
        "each other harder than one: these are lower bounds.\n"
        "\nOn paper: a step exchanges the sums P and b, the bound's two scalars and the gradient of hyperparameters "
        f"and inducing\ninputs, {size / 1e3:.0f} kB here, whatever the rows. On {GPUS} GPUs in a ring of "
        f"{BANDWIDTH / 1e9:.0f} GB/s a link, {LATENCY * 1e6:.0f} us a hop,\nthat is {1e3 * ring:.1f} ms a step (of it "
        f"{1e3 * hops:.1f} ms hops): the efficiency is above 90% where the rows of a GPU take ten\ntimes that. It is a "
        "projection from bytes, not a measurement: no GPU was at hand. Raw rows: distributed.csv.\n"
    )
    return (__doc__ or "").split("\n")[0].replace("``", "`") + "\n\n" + rows.markdown(heading, body) + note


def main() -> None:
    """Measure what is missing, then write the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--out", type=Path, default=rows.RESULTS / "distributed.csv")
    parser.add_argument("--one", nargs=4, metavar=("FOLDER", "PROCESSES", "PROCESS", "PORT"), help="one process")
    arguments = parser.parse_args()
    if arguments.one:
        folder, *numbers = arguments.one
        print(json.dumps(work(Path(folder), *map(int, numbers))), flush=True)
        return
    wanted = [{"processes": n, "repeat": repeat} for repeat in range(arguments.repeats) for n in (1, 2)]
    with tempfile.TemporaryDirectory(prefix="aligngp-distributed-") as folder:
        write(Path(folder) / "rows.parquet")
        for row in rows.missing(arguments.out, wanted, ("processes", "repeat")):
            rows.append(arguments.out, measure(Path(folder), row["processes"], row["repeat"]))
            time.sleep(1.0)
    arguments.out.with_suffix(".md").write_text(table(arguments.out))


if __name__ == "__main__":
    main()
