"""How well every model predicts on every case: ``python -m benchmarks.accuracy [--repeats 10]``.

Rows go to results/accuracy.csv as they are measured, so the command can be stopped and started again; the tables
results/accuracy.md are made from the rows at the end (``--table`` makes them alone). Cases are in benchmarks/cases;
those whose data are not in the repository need ALIGNGP_DATA, and are left out with a word where it is not there.

`auto`, `auto, no mapping` and `exact GP` are agp.AlignedGP with its defaults: with the case's prior mapping, with
agp.Learned() instead, and on the target task alone. The paper's models are configured as its appendix says for the case
(5000 Adam iterations unless `--iterations` says otherwise, minibatches of 512 for sarcos). BoTorch's models see equal
column names as equal inputs, so they run where the tasks share columns, in an environment of their own.
"""

import argparse
import json
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

import aligngp as agp
from aligngp.errors import AligngpError
from aligngp.metrics import scores
from benchmarks import report, rows
from benchmarks.cases import CASES
from benchmarks.cases.files import DataMissingError
from benchmarks.cases.instance import Instance
from benchmarks.models import ALONE, BOTORCH, MODELS, PAPER, VARIANTS, applies, nu_g0
from benchmarks.peers import environment
from benchmarks.studies import VARIED

KEYS = ("case", "model", "seed", "iterations")
SCORES = ("smse", "smll", "rmse", "nlpd", "crps", "coverage95")
AVERAGED = (*SCORES, "rmse_over_test_sd", "crps_over_test_sd")
TIMES = ("seconds", "cpu_seconds")
LEARNED = ("steps", "nu_g0")
"""Iterations that were made, and the prior variance of the aligned inputs, of the paper's models."""
SHOWN = ("smse", "smll", "coverage95", *TIMES, "note")
BOTORCH_SOURCE_ROWS = 1000
"""An exact GP over all rows: a larger source is thinned at random, and the row says so."""
Seconds = np.ndarray
"""Wall clock and processor, (2,): on a machine shared with other work the second is the one to compare."""


class Worker:
    """The BoTorch worker: one JSON command a line, one answer a line; started when it is first asked."""

    def __init__(self) -> None:
        self.process: subprocess.Popen[str] | None = None

    def ask(self, command: dict[str, Any]) -> dict[str, Any]:
        """Send a command, return the answer; one that failed raises."""
        if self.process is None:
            script = Path(environment.__file__).with_name("botorch_accuracy.py")
            pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
            command_line = [str(environment.ensure("torch")), str(script)]
            self.process = subprocess.Popen(command_line, text=True, cwd=script.parent, **pipes)
            self._read()
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(command) + "\n")
        self.process.stdin.flush()
        return self._read()

    def close(self) -> None:
        """End the worker, if it was started."""
        if self.process is not None:
            self.process.communicate(timeout=30)
            self.process = None

    def _read(self) -> dict[str, Any]:
        assert self.process is not None and self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"the BoTorch worker ended with code {self.process.wait()}.")
        reply = json.loads(line)
        if "error" in reply:
            raise ArithmeticError(reply["error"])
        return reply


def draw(case: str, seed: int) -> Instance:
    """Return the instance of a case, or of a study's."""
    return (CASES[case] if case in CASES else VARIED[case])(seed)


def fit_ours(
    instance: Instance, model: str, seed: int, iterations: int | None
) -> tuple[dict[str, Any], Seconds, dict[str, Any]]:
    """Fit a model of this package; return the scores of every target, the time of all fits and what was learned."""
    keywords, make = settings(instance, model, seed, iterations)
    tasks = {name: agp.Task(*table, names=list(instance.names[name])) for name, table in instance.tasks.items()}
    found, seconds, steps, variances = {}, np.zeros(2), 0, []
    for targets in [[target] for target in instance.targets] if model in ALONE else [instance.targets]:
        gp = make(**keywords)
        start = np.array([time.perf_counter(), time.process_time()])
        gp.fit({target: tasks[target] for target in targets} if model in ALONE else tasks)
        seconds += [time.perf_counter(), time.process_time()] - start
        found |= {target: gp.score(target, instance.test[target]) for target in targets}
        if make is not agp.AlignedGP:
            steps += gp.history.iteration.size
            variances += [nu_g0(gp, task) for task in instance.mappings]
    learned = [f"{variance:.6g}" for variance in variances if variance is not None]
    return found, seconds, {"steps": steps or "", "nu_g0": " ".join(learned)}


def settings(
    instance: Instance, model: str, seed: int, iterations: int | None
) -> tuple[dict[str, Any], Callable[..., agp.AlignedGP]]:
    """Return the keywords of a model for an instance, and what takes them."""
    keywords: dict[str, Any] = {"seed": seed, "progress": False}
    if iterations is not None:
        keywords["max_iterations"] = iterations
    if model in PAPER or model in VARIANTS:
        keywords |= instance.paper
    if model in VARIANTS:
        model, own = VARIANTS[model]
        keywords |= own(instance)
    if model not in ALONE:
        learned = {task: agp.Learned() for task in instance.mappings}
        mappings = learned if model == "auto, no mapping" else instance.mappings
        keywords |= {"common": instance.common, "mappings": mappings}
    return keywords, PAPER.get(model, agp.AlignedGP)


def fit_botorch(
    worker: Worker, instance: Instance, model: str, seed: int, iterations: int | None
) -> tuple[dict[str, Any], Seconds, str]:
    """Fit a model of BoTorch to every target; return the scores, the time and what was left out."""
    found, seconds, note = {}, np.zeros(2), ""
    for target in instance.targets:
        names = [target, *(name for name in instance.tasks if name != target)]
        joint = list(dict.fromkeys(column for name in names for column in instance.names[name]))
        features = [[joint.index(column) for column in instance.names[name]] for name in names]
        arrays: dict[str, Any] = {"X_test": instance.test[target][0]}
        for number, name in enumerate(names):
            X, y = instance.tasks[name]
            if name != target and len(y) > BOTORCH_SOURCE_ROWS:
                note = f"{name}: {BOTORCH_SOURCE_ROWS} of {len(y)} rows"
                chosen = np.random.default_rng(seed).choice(len(y), BOTORCH_SOURCE_ROWS, replace=False)
                X, y = X[chosen], y[chosen]
            arrays |= {f"X{number}": X, f"y{number}": y}
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "instance.npz"
            np.savez(file, **arrays)
            command = {"model": BOTORCH[model], "file": str(file), "features": features, "seed": seed}
            reply = worker.ask(command if iterations is None else {**command, "iterations": iterations})
        seconds += [reply["seconds"], reply["cpu_seconds"]]
        y = instance.tasks[target][1]
        predicted = np.array(reply["mean"]), np.array(reply["variance"])
        found[target] = scores(instance.test[target][1], *predicted, float(y.mean()), float(y.var()))
    return found, seconds, note


def measure(peer: Worker, case: str, model: str, seed: int, iterations: int | None) -> dict[str, Any]:
    """Fit one model to one instance; return a row: scores averaged over the targets, empty where the fit failed."""
    instance = draw(case, seed)
    asked = {"case": case, "model": model, "seed": seed, "iterations": iterations}
    note, learned = "", {}
    try:
        if model in BOTORCH:
            found, seconds, note = fit_botorch(peer, instance, model, seed, iterations)
        else:
            found, seconds, learned = fit_ours(instance, model, seed, iterations)
    except (AligngpError, ArithmeticError, np.linalg.LinAlgError) as error:
        return failed(asked, f"{type(error).__name__}: {error}")
    for target, values in found.items():
        spread = float(instance.test[target][1].std())
        values |= {f"{key}_over_test_sd": values[key] / spread for key in ("rmse", "crps")}
    average = {key: f"{np.mean([values[key] for values in found.values()]):.6g}" for key in AVERAGED}
    took = {key: f"{value:.3g}" for key, value in zip(TIMES, seconds, strict=True)}
    return {**failed(asked, ""), **average, **took, "note": note, **learned}


def failed(asked: Mapping[str, Any], why: str) -> dict[str, Any]:
    """Return the row of a fit that gave nothing."""
    return {
        **{key: "" if asked[key] is None else asked[key] for key in KEYS},
        **dict.fromkeys((*AVERAGED, *TIMES), ""),
        "note": " ".join(f"failed: {why}".split())[:200],
        "revision": revision(),
        **rows.environment(),
        **dict.fromkeys(LEARNED, ""),
    }


def revision() -> str:
    """Return the commit that last changed the package, with a plus where it has been changed since."""

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(Path(__file__).parent.parent), *arguments, "--", "src"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        return done.stdout.strip()

    return git("log", "-1", "--format=%h") + ("+" if git("status", "--porcelain") else "")


def wanted(
    cases: Iterable[str],
    models: Iterable[str],
    repeats: int,
    iterations: int | None,
    tell: Callable[[str], None] = print,
) -> list[dict[str, Any]]:
    """Return what is to be measured; cases whose data are missing are told, models that cannot be asked left out."""
    chosen = []
    for case in cases:
        try:
            instance = draw(case, 0)
        except DataMissingError as error:
            tell(f"left out: {error}")
            continue
        asked = [model for model in models if applies(instance, model)]
        # The seed varies fastest, so that one compilation serves all instances of a model.
        chosen += [
            {"case": case, "model": model, "seed": seed, "iterations": "" if iterations is None else iterations}
            for model, seed in product(asked, range(repeats))
        ]
    return chosen


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--cases", nargs="+", choices=[*CASES, *VARIED], default=list(CASES))
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--repeats", type=int, default=10, help="seeds 0, 1, ...")
    parser.add_argument("--iterations", type=int, help="a limit for all models; default: each model's own")
    parser.add_argument("--out", type=Path, default=rows.RESULTS / "accuracy.csv")
    parser.add_argument("--again", action="store_true", help="measure anew what is already there")
    parser.add_argument("--table", action="store_true", help="make the tables of the rows there are, measure nothing")
    arguments = parser.parse_args()
    if not arguments.table:
        todo = wanted(arguments.cases, arguments.models, arguments.repeats, arguments.iterations)
        if arguments.again:
            forget(arguments.out, todo)
        run(rows.missing(arguments.out, todo, KEYS), arguments.out)
    report.tables(arguments.out)


def forget(path: Path, todo: list[dict[str, Any]]) -> None:
    """Take the rows that are to be measured anew out of the file."""
    kept = rows.read(path)
    again = {tuple(str(row[key]) for key in KEYS) for row in todo}
    kept = [row for row in kept if tuple(row[key] for key in KEYS) not in again]
    path.unlink(missing_ok=True)
    for row in kept:
        rows.append(path, row)


def run(todo: list[dict[str, Any]], out: Path) -> None:
    """Measure, and add each row when it is there."""
    worker = Worker()
    try:
        for done, row in enumerate(todo):
            iterations = None if row["iterations"] == "" else row["iterations"]
            measured = measure(worker, row["case"], row["model"], row["seed"], iterations)
            rows.append(out, measured)
            shown = " ".join(f"{key}={measured[key]}" for key in (*KEYS, *SHOWN))
            print(f"[{done + 1}/{len(todo)}] {shown}", flush=True)
    finally:
        worker.close()


if __name__ == "__main__":
    main()
