"""Killed at random moments: ``python -m benchmarks.faults [--kills 50]``.

kill -9 during ``aligngp fit`` (stochastic training from Parquet, a checkpoint twice a second; each next attempt
resumes, and whatever ends must give the model of an undisturbed run, bit by bit), during writing of a model file over
an earlier one, and during a benchmark that appends rows and is resumed. After every kill all files under final names
are read.
Rows go to results/faults.csv, the table to results/faults.md; a run that was stopped goes on where it was.
"""

import argparse
import json
import multiprocessing
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import rows

KINDS = ("fit", "save", "benchmark")
JOB = """
output = "zeta"
common = "coarse"
[tasks]
fine = "fine.csv"
coarse = { file = "coarse.parquet", stream = true }
[model]
calibration = "none"
inference = "svi"
num_inducing = 20
batch_size = 256
max_iterations = 2000
patience = 5000
"""


def prepared(folder: Path) -> None:
    """The job and its files."""
    import pyarrow as pa
    import pyarrow.parquet as parquet

    import aligngp as agp

    rng = np.random.default_rng(0)
    for name, number, inputs in (("fine", 50, 3), ("coarse", 50_000, 2)):
        X = rng.uniform(-1.0, 1.0, size=(number, inputs))
        zeta = np.sin(3.0 * X[:, 0]) + X.sum(axis=1) + 0.1 * rng.normal(size=number)
        table = pa.table({**{f"x{d + 1}": X[:, d] for d in range(inputs)}, "zeta": zeta})
        if name == "fine":
            agp.write_table(table, folder / "fine.csv")
        else:
            parquet.write_table(table, folder / "coarse.parquet", row_group_size=5000)
    (folder / "job.toml").write_text(JOB)


def command(folder: Path, out: str) -> list[str]:
    """The command that fits, and goes on with what was stopped."""
    arguments = ["fit", str(folder / "job.toml"), "--out", str(folder / out), "--checkpoint-every", "0.5", "--resume"]
    return [sys.executable, "-m", "aligngp.cli", *arguments, "--quiet"]


def tensors_of(model: Path) -> dict[str, np.ndarray]:
    """The arrays of a model file, without the seconds of its training."""
    from aligngp import storage

    return {name: value for name, value in storage.read(model)[1].items() if not name.endswith("seconds")}


def check_files(folder: Path) -> str:
    """What is wrong with a file under a final name; nothing where all are whole."""
    from aligngp import storage
    from aligngp.data.sealed import unseal

    for file in folder.rglob("*") if folder.exists() else ():
        if file.name.startswith(".") or not file.is_file():
            continue
        try:
            if file.suffix == ".checkpoint":
                unseal(file)
            elif file.suffix == ".agp":
                storage.read(file)
            elif file.suffix == ".json":
                json.loads(file.read_text())
        except Exception as error:
            return f"{file.name}: {error}"
    return ""


def newest_step(folder: Path) -> int:
    """Steps of the newest checkpoint."""
    names = [file.stem for file in (folder / "states").glob("step-*.checkpoint")]
    return max((int(name.removeprefix("step-")) for name in names), default=0)


def kill_fits(folder: Path, left: int, note: Callable[[dict[str, Any]], None]) -> None:
    """Kill so many fits, each resumed from what the one before it left."""
    prepared(folder)
    start = time.monotonic()
    subprocess.run(command(folder, "whole"), check=True, stdout=subprocess.DEVNULL)
    span, whole = time.monotonic() - start, tensors_of(folder / "whole" / "model.agp")
    draw = random.Random(left)
    while left:
        process = subprocess.Popen(command(folder, "run"), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        moment = draw.uniform(0.0, span)
        try:
            code = process.wait(moment)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.wait()
            wrong = check_files(folder / "run")
            steps = newest_step(folder / "run")
            note({"moment": moment, "found": f"{steps} steps kept", "survived": not wrong, "wrong": wrong})
            left -= 1
            continue
        wrong = "" if code == 0 else f"the resumed run ended with code {code}"
        if not wrong:
            again = tensors_of(folder / "run" / "model.agp")
            same = again.keys() == whole.keys() and all(np.array_equal(again[name], whole[name]) for name in whole)
            wrong = "" if same else "the resumed run ended with another model"
        found = "ended: the model is that of the undisturbed run" if not wrong else "ended"
        note({"moment": "", "found": found, "survived": not wrong, "wrong": wrong})
        shutil.rmtree(folder / "run")


def kill_after(moment: float, function: Callable[[Path], None], path: Path) -> None:
    """Kill a process that calls a function, so many seconds after its start."""
    process = multiprocessing.get_context("fork").Process(target=function, args=(path,))
    process.start()
    time.sleep(moment)
    assert process.pid is not None
    os.kill(process.pid, signal.SIGKILL)
    process.join()


def save_forever(path: Path) -> None:
    """Write a model file again and again, every time another one."""
    from aligngp import storage

    number = 0
    while True:
        number += 1
        storage.write(path, {"number": number}, {"a": np.full(500_000, float(number))})


def kill_saves(folder: Path, left: int, note: Callable[[dict[str, Any]], None]) -> None:
    """Kill so many processes that write over a model file."""
    from aligngp import storage

    path, draw, before = folder / "model.agp", random.Random(left), 0
    for _ in range(left):
        moment = draw.uniform(0.02, 0.4)
        kill_after(moment, save_forever, path)
        wrong, number = "", before
        try:
            if path.exists():
                description, tensors = storage.read(path)
                number = description["number"]
                if not np.all(tensors["a"] == number):
                    wrong = "half of one model and half of another"
        except Exception as error:
            wrong = str(error)
        note({"moment": moment, "found": f"model {number} is whole", "survived": not wrong, "wrong": wrong})
        for leftover in folder.glob(".model.agp.*"):
            leftover.unlink()


WANTED = [{"case": str(case), "seed": seed} for case in range(500) for seed in range(10)]


def measure_missing(path: Path) -> None:
    """A benchmark: what is not yet in the file is measured and appended."""
    for row in rows.missing(path, WANTED, ("case", "seed")):
        value = float(np.random.default_rng(int(row["case"]) * 10 + row["seed"]).normal())
        rows.append(path, {**row, "value": repr(value), **rows.environment()})


def kill_benchmarks(folder: Path, left: int, note: Callable[[dict[str, Any]], None]) -> None:
    """Kill so many runs of a benchmark, each going on where the one before it was."""
    path, draw, before = folder / "rows.csv", random.Random(left), 0
    for _ in range(left):
        moment = draw.uniform(0.02, 0.3)
        kill_after(moment, measure_missing, path)
        found, wrong = rows.read(path), ""
        places = [(row["case"], row["seed"]) for row in found]
        if len(found) < before:
            wrong = f"{before - len(found)} rows are gone"
        elif len(set(places)) < len(places) or any(None in row.values() for row in found):
            wrong = "a row stands twice, or is half there"
        before = len(found)
        note({"moment": moment, "found": f"{before} rows", "survived": not wrong, "wrong": wrong})
        if before == len(WANTED):
            path.unlink()
            before = 0


def table(path: Path) -> str:
    """Faults injected, survived and lost, a line a kind."""
    body = []
    for kind in KINDS:
        found = [row for row in rows.read(path) if row["kind"] == kind]
        kills = [row for row in found if row["moment"]]
        ends = len(found) - len(kills)
        lost = [row for row in found if row["survived"] != "True"]
        survived = len(kills) - len([row for row in lost if row["moment"]])
        body.append((kind, str(len(kills)), str(survived), str(len(lost)), str(ends)))
    heading = ("during", "kill -9", "survived", "lost", "ended undisturbed in between, bit for bit")
    note = (
        "\nSurvived: every file under a final name is whole, and the next attempt goes on from it. Lost: anything "
        "else, also an\nattempt that ended with another model than the undisturbed run. The time since the last "
        "checkpoint (half a second of\ntraining) is lost by design. Raw rows: faults.csv.\n"
    )
    return (__doc__ or "").split("\n")[0].replace("``", "`") + "\n\n" + rows.markdown(heading, body) + note


def main() -> None:
    """Kill what is left to be killed, then write the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--out", type=Path, default=rows.RESULTS / "faults.csv")
    arguments = parser.parse_args()
    for kind in arguments.kinds:
        done = len([row for row in rows.read(arguments.out) if row["kind"] == kind and row["moment"]])

        def note(found: dict[str, Any], kind: str = kind) -> None:
            moment = f"{found['moment']:.3f}" if found["moment"] != "" else ""
            rows.append(arguments.out, {"kind": kind, **found, "moment": moment, **rows.environment()})

        if done < arguments.kills:
            with tempfile.TemporaryDirectory(prefix="aligngp-faults-") as folder:
                kill = {"fit": kill_fits, "save": kill_saves, "benchmark": kill_benchmarks}[kind]
                kill(Path(folder), arguments.kills - done, note)
    arguments.out.with_suffix(".md").write_text(table(arguments.out))


if __name__ == "__main__":
    main()
