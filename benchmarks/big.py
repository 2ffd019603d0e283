"""Rows that do not fit: ``python -m benchmarks.big [--rows 100000 1000000 10000000 20000000]``.

Two tasks stream from Parquet: a source of N rows x 16 inputs, and a target of N / 100 rows with two more inputs. A
process a number of rows fits (svi, 100 inducing inputs, batches of 512 rows a task, 500 steps) and, of the largest,
one more predicts the source's rows from Parquet to Parquet. Rows go to results/big.csv, the table to results/big.md;
the files are made in a temporary folder and removed. A run that was stopped goes on where it was.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import rows
from benchmarks.peers.serving import peak_mib

ROWS = (100_000, 1_000_000, 10_000_000, 20_000_000)
INPUTS, EXTRA, GROUP, STEPS, CHUNK = 16, 2, 100_000, 500, 50
KEYS = ("rows", "stage")
LARGEST_STEPS = 10_000_000


def values_of(rng: np.random.Generator, number: int, inputs: int) -> dict[str, np.ndarray]:
    """Columns of so many rows: a smooth function of a few inputs, noise of a tenth of its deviation."""
    X = rng.uniform(-1.0, 1.0, size=(number, inputs)).astype(np.float32)
    zeta = np.sin(2.5 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.5 * X[:, 3] ** 2
    if inputs > INPUTS:
        zeta = 1.2 * zeta + 0.4 * X[:, INPUTS]
    zeta = zeta + 0.08 * rng.normal(size=number)
    return {**{f"x{d + 1}": X[:, d] for d in range(inputs)}, "zeta": zeta.astype(np.float32)}


def write(path: Path, number: int, inputs: int, seed: int) -> None:
    """A Parquet file of so many rows, made a row group at a time."""
    import pyarrow as pa
    import pyarrow.parquet as parquet

    rng, group = np.random.default_rng(seed), min(GROUP, max(1, number // 4))
    writer = None
    for start in range(0, number, group):
        table = pa.table(values_of(rng, min(group, number - start), inputs))
        writer = writer or parquet.ParquetWriter(path, table.schema)
        writer.write_table(table)
    assert writer is not None
    writer.close()


def fit(folder: Path, number: int) -> dict[str, Any]:
    """Fit both tasks, in this process."""
    import aligngp as agp

    before, start = peak_mib(), time.perf_counter()
    tasks = {name: agp.Parquet(folder / f"{name}.parquet", stream=True) for name in ("target", "source")}
    gp = agp.AlignedGP(
        "source", calibration="none", inference="svi", num_inducing=100, max_iterations=STEPS, patience=STEPS,
        batch_size=512, progress=False,
    )  # fmt: skip
    gp.fit(tasks, output="zeta")
    seconds = time.perf_counter() - start
    chunks = gp.history.seconds[CHUNK - 1 :: CHUNK]
    gp.save(folder / "model.agp")
    test = values_of(np.random.default_rng(99), 5000, INPUTS)
    X = np.column_stack([test[f"x{d + 1}"] for d in range(INPUTS)]).astype(float)
    score = gp.score("source", (X, test["zeta"]))
    return {
        "seconds": seconds,
        "ms_a_step": 1e3 * float(np.median(np.diff(chunks))) / CHUNK,
        "peak_above_import_mib": peak_mib() - before,
        "rmse": score["rmse"],
    }


def steps(folder: Path, number: int) -> dict[str, Any]:
    """Processor time of a step, all threads together, which other work on the machine hardly touches."""
    from aligngp.fit import natural, pipeline

    moments, advance = [], natural._advance

    def watched(*arguments: Any) -> Any:
        moments.append(time.process_time())
        return advance(*arguments)

    natural._advance = watched
    pipeline.best_over_all_rows = lambda model, data, devices: model  # the pass at the end is not a step
    found = fit(folder, number)
    return {**found, "ms_a_step": 1e3 * float(np.median(np.diff(moments[1:]))) / CHUNK}


def predict(folder: Path, number: int) -> dict[str, Any]:
    """Predict the source's rows from Parquet to Parquet, by the command line's own function, in this process."""
    import aligngp  # noqa: F401  (what stands before the measurement)
    from aligngp.cli import main as command

    before, start = peak_mib(), time.perf_counter()
    where = str(folder / "model.agp"), "--task", "source", "--input", str(folder / "source.parquet")
    sys.argv = ["aligngp", "predict", *where, "--output", str(folder / "predicted.parquet"), "--force", "--quiet"]
    try:
        command()
    except SystemExit as ended:
        assert not ended.code
    seconds = time.perf_counter() - start
    return {"seconds": seconds, "ms_a_step": "", "peak_above_import_mib": peak_mib() - before, "rmse": rmse(folder)}


def rmse(folder: Path) -> float:
    """Root mean square of what was predicted, less the outputs."""
    import pyarrow.parquet as parquet

    total, number = 0.0, 0
    with parquet.ParquetFile(folder / "predicted.parquet") as file:
        for batch in file.iter_batches(65_536, columns=["zeta", "mean"]):
            total += float(np.sum((batch["zeta"].to_numpy() - batch["mean"].to_numpy()) ** 2))
            number += batch.num_rows
    return (total / number) ** 0.5


def measure(folder: Path, number: int, stage: str) -> dict[str, Any]:
    """One measurement, in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.big", "--one", str(folder), str(number), stage]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    found = json.loads(done.stdout.splitlines()[-1])
    total = number + (max(1, number // 100) if stage == "fit" else 0)
    return {
        "rows": number,
        "stage": stage,
        "inputs": INPUTS,
        "seconds": f"{found['seconds']:.1f}",
        "rows_a_second": f"{total / found['seconds']:.0f}",
        "ms_a_step": f"{found['ms_a_step']:.3g}" if found["ms_a_step"] else "",
        "peak_above_import_mib": f"{found['peak_above_import_mib']:.0f}",
        "data_mib": f"{8 * (INPUTS + 1) * number / 2**20:.0f}",
        "rmse": f"{found['rmse']:.4f}",
        "load": f"{os.getloadavg()[1]:.1f}",
        **rows.environment(),
    }


def table(path: Path) -> str:
    """The measurements as Markdown."""
    heading = ("rows", "stage", "s", "rows a s", "ms a step", "peak above the import, MiB", "data, MiB", "RMSE", "load")
    names = "rows stage seconds rows_a_second ms_a_step peak_above_import_mib data_mib rmse load".split()
    found = sorted(rows.read(path), key=lambda row: (int(row["rows"]), row["stage"]))
    body = [[row[name] for name in names] for row in found]
    note = (
        f"\n16 inputs and the output in float32, row groups of {GROUP} rows; two tasks, {STEPS} steps of 512 rows a "
        "task. The fit's\nseconds hold everything: one pass for scaling and sample, the start from a subset, "
        "compiling, the steps, and one\npass over all rows for the best q(u). Data: as float64, which is what a table "
        "in memory takes. The noise's deviation\nis 0.08, the least RMSE there is. The machine's two cores were shared "
        "with other work: load is the average of the last\nfive minutes, and 2 would be all of the machine; seconds "
        "are fewer on one that is idle. Raw rows: big.csv.\n"
    )
    if any(row["stage"] == "steps" for row in found):
        note += "Steps: processor time of all threads, of a training without the pass at its end.\n"
    return (__doc__ or "").split("\n")[0].replace("``", "`") + "\n\n" + rows.markdown(heading, body) + note


def main() -> None:
    """Measure what is missing, then write the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--rows", type=int, nargs="+", default=list(ROWS))
    parser.add_argument("--out", type=Path, default=rows.RESULTS / "big.csv")
    parser.add_argument("--table", action="store_true", help="make the table of the rows there are")
    parser.add_argument("--one", nargs=3, metavar=("FOLDER", "ROWS", "STAGE"), help="one measurement, in this process")
    arguments = parser.parse_args()
    if arguments.one:
        folder, number, stage = arguments.one
        print(
            json.dumps({"fit": fit, "steps": steps, "predict": predict}[stage](Path(folder), int(number))), flush=True
        )
        return
    wanted = [{"rows": number, "stage": "fit"} for number in arguments.rows]
    wanted += [{"rows": number, "stage": "steps"} for number in arguments.rows if number <= LARGEST_STEPS]
    wanted += [{"rows": max(arguments.rows), "stage": "predict"}]
    left = [] if arguments.table else rows.missing(arguments.out, wanted, KEYS)
    for number in sorted({row["rows"] for row in left}):
        folder = Path(tempfile.mkdtemp(prefix="aligngp-big-"))
        try:
            write(folder / "source.parquet", number, INPUTS, 0)
            write(folder / "target.parquet", max(1, number // 100), INPUTS + EXTRA, 1)
            stages = [row["stage"] for row in left if row["rows"] == number]
            if "predict" in stages and "fit" not in stages:
                stages = ["fit", *stages]  # whose model it predicts with
            for stage in stages:
                row = measure(folder, number, stage)
                if row["stage"] != "fit" or {"rows": number, "stage": "fit"} in left:
                    rows.append(arguments.out, row)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    arguments.out.with_suffix(".md").write_text(table(arguments.out))


if __name__ == "__main__":
    main()
