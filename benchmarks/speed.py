"""Training time beside every peer's: ``python -m benchmarks.speed [--seeds 3] [--short]``.

Each measurement is a process of its own that trains twice: from nothing (cold: compilation and tracing included,
imports not) and again (warm). All share one core, take turns in one run, and get the same data and, where the model is
the same, the same initial values (peers/problems.py): their bounds at the start must agree to 1e-8. Rows go to
results/speed.csv, the best objective against time to results/speed_traces.csv, the tables to results/speed.md; a run
that was stopped goes on where it was.
"""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks import rows
from benchmarks.peers import environment
from benchmarks.peers.serving import SPACING

ROOT = Path(__file__).parents[1]
PROBLEMS = {
    "n106": "N=106, M=30, D=2",
    "n1004": "N=1004, M=100, D=3",
    "b532": "N=22,912, M=100, D=16, batch 512+20",
}
KEYS = ("problem", "model", "seed", "method")
REFERENCE = {"g0": "GPflow Adam", "hsvlmc": "aligngp Adam"}
AGREEMENT = 1e-8  # of the bounds at the start
GPYTORCH_AGREEMENT = 1e-6  # its strategy adds the jitter to the marginal variances too
SAME_BOUND = 1e-4  # of a peer's bound and ours at its final parameters: GPflow's jitter is absolute, ours relative
LONGEST = 1800.0  # seconds after which a process is stopped, whatever its own limit is
OWN_LIMIT = 300.0  # seconds a training: what takes longer ends there, and its row has fewer iterations
PAPER_STEPS = 5000


@dataclass(frozen=True)
class Method:
    """A way to train: its worker, the environment it runs in (None: ours), and its command."""

    name: str
    worker: str
    peer: str | None
    command: dict[str, Any] = field(default_factory=dict)
    agreement: float = AGREEMENT


def methods(problem: str, model: str) -> list[Method]:
    """All ways to train one problem; the order in which they take turns."""
    collapsed = Method("aligngp collapsed", "aligngp_train", None, {"method": "collapsed", "model": model})
    adam = Method(REFERENCE["hsvlmc"], "aligngp_train", None, {"method": "adam", "model": model})
    if model == "hsvlmc":
        return [adam, collapsed]
    svi = Method("aligngp svi", "aligngp_train", None, {"method": "svi"})
    paper = {"method": "adam", "iterations": PAPER_STEPS, "chunk": 100 if problem == "n106" else 20}
    natural = {"gamma": 0.1, "learning_rate": 0.01} if problem == "b532" else {"gamma": 0.5, "learning_rate": 0.02}
    found = [
        svi if problem == "b532" else collapsed,
        Method("GPflow Adam", "gpflow_train", "gpflow", {**paper, "parameters": True}),
        Method("GPflow L-BFGS", "gpflow_train", "gpflow", {"method": "lbfgs", "iterations": 3000, "parameters": True}),
        Method(
            "GPflow natural gradients",
            "gpflow_train",
            "gpflow",
            {"method": "natgrad", "iterations": 2000, "chunk": 20, **natural, "parameters": True},
        ),
        adam,
        Method("GPyTorch Adam", "gpytorch_train", "torch", {"iterations": PAPER_STEPS}, GPYTORCH_AGREEMENT),
    ]
    if problem == "n106":  # XLA is the faster form there, and two to three times the slower one elsewhere
        found.insert(2, Method("GPflow Adam, XLA", "gpflow_train", "gpflow", {**paper, "xla": True}))
    if problem != "b532":  # these are exact Gaussian processes
        found += [
            Method("BoTorch MultiTaskGP", "botorch_train", "torch", {"model": "multitask"}),
            Method("BoTorch HeterogeneousMTGP", "botorch_train", "torch", {"model": "heterogeneous"}),
            Method("SMT MFK", "smt_train", "smt"),
        ]
    return found


def short_form(method: Method) -> Method:
    """A tenth of the iterations, at most ten seconds."""
    command = dict(method.command)
    if method.command.get("iterations"):
        chunk = command.get("chunk", 1)
        command["iterations"] = max(chunk, command["iterations"] // 10 // chunk * chunk)
    elif command.get("method") == "adam":
        command["iterations"] = PAPER_STEPS // 10
    return Method(method.name, method.worker, method.peer, {**command, "seconds": 10.0}, method.agreement)


def run(method: Method, command: dict[str, Any]) -> dict[str, Any]:
    """One command in a new process of a method's worker; its answer, with what it said when its imports were done."""
    folder = Path(environment.__file__).parent
    if method.peer is None:
        arguments, where = [sys.executable, "-m", f"benchmarks.peers.{method.worker}"], ROOT
    else:
        arguments, where = [str(environment.python_of(method.peer)), f"{method.worker}.py"], folder
    # Cold is cold: no compilation from an earlier process.
    variables = {**os.environ, "JAX_ENABLE_COMPILATION_CACHE": "false"}
    try:
        done = subprocess.run(
            arguments,
            input=json.dumps(command) + "\n",
            cwd=where,
            env=variables,
            capture_output=True,
            text=True,
            timeout=LONGEST,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return {"error": f"not done after {LONGEST:g} s"}
    return parsed(done.stdout, done.returncode, done.stderr)


def parsed(output: str, code: int, errors: str = "") -> dict[str, Any]:
    """The answer of a worker from its two lines."""
    lines = [line for line in output.splitlines() if line.strip()]
    if len(lines) != 2:
        return {"error": f"the worker ended with code {code}: {' '.join(errors.split())[-300:]}"}
    ready, answer = (json.loads(line) for line in lines)
    versions = {key: value for key, value in ready.items() if key not in ("ready", "imported_mib")}
    return {"imported_mib": ready["imported_mib"], **answer, "versions": versions}


def row_of(measured: dict[str, Any], key: dict[str, Any], command: dict[str, Any]) -> dict[str, Any]:
    """The row of a measurement: everything but its trace."""
    objectives = [objective for _, objective in measured.get("trace", [])]
    numbers = {
        **{name: measured.get(name) for name in ("wall_cold", "wall_warm", "iterations", "objective_at_start")},
        "objective_best": max(objectives) if objectives else None,
        "objective_end": objectives[-1] if objectives else None,
        "objective_checked": measured.get("objective_checked"),
        **{name: measured.get(name) for name in ("imported_mib", "peak_mib")},
    }
    return {
        **key,
        **{name: "" if value is None else f"{value:.10g}" for name, value in numbers.items()},
        "settings": json.dumps({name: value for name, value in command.items() if name not in ("case", "seed")}),
        "versions": " ".join(f"{name} {value}" for name, value in measured.get("versions", {}).items()),
        "error": measured.get("error", ""),
        **rows.environment(),
    }


def rising(trace: Sequence[Sequence[float]]) -> list[tuple[float, float]]:
    """The points at which the best objective rises, thinned to steps of 2 % in time: the last of each step stays.

    Enough to read off the time to any objective; it is overestimated by 2 % at the most.
    """
    kept: list[tuple[float, float]] = []
    begun = -float("inf")
    for seconds, objective in sorted((float(s), float(o)) for s, o in trace):
        if kept and objective <= kept[-1][1]:
            continue
        if kept and seconds < SPACING * begun:
            kept.pop()
        else:
            begun = seconds
        kept.append((seconds, objective))
    return kept


def time_to(trace: Sequence[tuple[float, float]], target: float) -> float | None:
    """Seconds to an objective at least as good, None where it is not reached."""
    return next((seconds for seconds, objective in trace if objective >= target), None)


def checked(measured: dict[str, Any], command: dict[str, Any], known: float | None, agreement: float) -> dict[str, Any]:
    """The measurement, if it is of the same model: its bound at the start, and our bound at its final values."""
    start = measured.get("objective_at_start")
    if known is not None and start is not None and abs(start - known) > agreement * abs(known):
        raise RuntimeError(f"not the same model: {start} and {known} at the start")
    values = measured.pop("values", None)
    if values is None:
        return measured
    question = {"case": command["case"], "seed": command["seed"], "method": "adam", "parameters": values}
    ours = run(Method("", "aligngp_train", None), question)
    if "error" in ours:
        raise RuntimeError(ours["error"])
    end = measured["trace"][-1][1]
    if abs(ours["objective"] - end) > SAME_BOUND * abs(end):
        raise RuntimeError(f"not the same bound at the end: {end} there, {ours['objective']} by ours")
    return {**measured, "objective_checked": ours["objective"]}


def measure(out: Path, wanted: list[tuple[dict[str, Any], Method]], limit: float) -> None:
    """Measure what is missing, one after the other, on one core."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})  # the workers inherit it
    todo = rows.missing(out, [key for key, _ in wanted], KEYS)
    by_key = {tuple(key.values()): method for key, method in wanted}
    for number, key in enumerate(todo, start=1):
        method = by_key[tuple(key.values())]
        command = {"seconds": limit, **method.command, "case": key["problem"], "seed": key["seed"]}
        starts = [
            float(row["objective_at_start"])
            for row in rows.read(out)
            if row["objective_at_start"] and all(row[name] == str(key[name]) for name in KEYS[:3])
        ]
        measured = run(method, command)
        if "error" not in measured:
            measured = checked(measured, command, starts[0] if starts else None, method.agreement)
        for start in ("cold", "warm"):
            trace = measured.get("trace" if start == "warm" else "cold_trace", [])
            for seconds, objective in rising(trace):
                point = {"start": start, "seconds": f"{seconds:.6g}", "objective": f"{objective:.10g}"}
                rows.append(traces_of(out), {**key, **point})
        rows.append(out, row := row_of(measured, key, command))
        shown = (*KEYS, "wall_cold", "wall_warm", "objective_best", "peak_mib", "error")
        print(f"[{number}/{len(todo)}] " + " ".join(str(row[name]) for name in shown), flush=True)


def traces_of(out: Path) -> Path:
    """Where the traces of the rows in a file stand."""
    return out.with_name(out.stem + "_traces.csv")


def main() -> None:
    """Measure, then write the tables."""
    from benchmarks.speed_table import tables

    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--problems", nargs="+", choices=PROBLEMS, default=list(PROBLEMS))
    parser.add_argument("--models", nargs="+", choices=REFERENCE, default=list(REFERENCE))
    parser.add_argument("--methods", nargs="+", help="only those that begin with one of these")
    parser.add_argument("--limit", type=float, default=OWN_LIMIT, help="seconds a training")
    parser.add_argument("--short", action="store_true", help="one seed, the smallest problem, a tenth of the work")
    parser.add_argument("--out", type=Path, default=rows.RESULTS / "speed.csv")
    parser.add_argument("--table", action="store_true", help="make the tables of the rows there are, measure nothing")
    arguments = parser.parse_args()
    if arguments.short:
        arguments.seeds, arguments.problems = 1, ["n106"]
    if not arguments.table:
        wanted = plan(arguments.seeds, arguments.problems, arguments.models, arguments.methods, arguments.short)
        measure(arguments.out, wanted, arguments.limit)
    arguments.out.with_suffix(".md").write_text(tables(rows.read(arguments.out), rows.read(traces_of(arguments.out))))


def plan(
    seeds: int, problems: Sequence[str], models: Sequence[str], only: Sequence[str] | None, short: bool
) -> list[tuple[dict[str, Any], Method]]:
    """Keys and methods of all measurements, in the order of their turns; environments are made if need be.

    The short form makes none: peers that are not installed are left out, and said.
    """
    wanted, absent = [], set()
    for seed in range(seeds):
        for problem in problems:
            for model in models:
                if model == "hsvlmc" and problem == "b532":
                    continue  # HSVLMC is compared at the two smaller sizes
                for method in methods(problem, model):
                    if only and not any(method.name.startswith(name) for name in only):
                        continue
                    if short and method.peer is not None and not environment.is_current(method.peer):
                        absent.add(method.peer)
                        continue
                    if method.peer is not None:
                        environment.ensure(method.peer)
                    key = {"problem": problem, "model": model, "seed": seed, "method": method.name}
                    wanted.append((key, short_form(method) if short else method))
    for peer in sorted(absent):
        print(f"{peer}: not installed, left out; python benchmarks/peers/environment.py {peer} installs it")
    return wanted


if __name__ == "__main__":
    sys.exit(main())
