"""Time of one Adam step beside GPflow's: ``python -m benchmarks.step_time [--rounds 5]``.

Both sides start from the same data and values (peers/problems.py) and are measured in turns on the same core, in one
run; the bound at the start must agree before any time counts. GPflow runs in an environment of its own, in the best of
its forms: two plain SVGPs mixed by hand, stepped one by one or in compiled chunks, with and without XLA (its own
multi-output form is measured beside it). The roofline is what no step can do without, in NumPy and OpenBLAS on the
same core: for every latent the exponentials of its M x N and M x M covariances, a Cholesky factor, and three M x M x N
products (A = R K, (I - S) A, and the one of the gradient). Rows go to results/step_time.csv, the table to
results/step_time.md.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from itertools import product
from pathlib import Path
from statistics import median
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from scipy.linalg import cholesky

import aligngp as agp
from aligngp.fit import adam
from aligngp.gp.sparse import SparseGP
from aligngp.kernels import SquaredExponential
from aligngp.likelihoods import Gaussian
from aligngp.mappings.contract import Rows
from aligngp.mappings.fixed import Nominal
from aligngp.mappings.gaussian import ResidualGP
from aligngp.model import Model
from aligngp.objective.elbo import TaskBatch
from aligngp.parameters import Triangular, as_array, positive, split
from benchmarks import rows
from benchmarks.peers import environment
from benchmarks.peers.problems import CASES as SIZES
from benchmarks.peers.problems import LATENTS, problem

CASES = {"n106": "N=106, M=30, D=2", "n1004": "N=1004, M=100, D=3", "b532": "batch 532, M=100, D=16"}
MODELS = ("g0", "hsvlmc")
ROOFLINE = "roofline"
# How many steps are timed at once, and how many GPflow compiles into one call where it may.
STEPS = {"n106": (1000, 100), "n1004": (60, 20), "b532": (60, 20)}
GPFLOW = (
    {"form": "plain", "xla": False, "chunked": False},
    {"form": "plain", "xla": False, "chunked": True},
    {"form": "plain", "xla": True, "chunked": True},
    {"form": "lmc", "xla": False, "chunked": False},
)


def our_model(data: dict[str, Any], kind: str) -> tuple[Model, tuple[TaskBatch, ...]]:
    """Return our model at the problem's initial values, and its data."""
    jitters = np.broadcast_to(data["relative_jitter"], len(data["variance"])).tolist()

    def gp(Z, lengthscales, variance, mean, scale, jitter=jitters[0]) -> SparseGP:
        kernel = SquaredExponential(positive(lengthscales), positive(variance))
        return SparseGP(kernel, as_array(Z), as_array(mean), Triangular(as_array(scale)), jitter)

    latents = tuple(
        gp(
            *(data["Z"][q], data["lengthscales"][q], data["variance"][q]),
            *(data["q_mu"][:, q : q + 1], data["q_sqrt"][q : q + 1]),
            jitters[q],
        )
        for q in range(data["Z"].shape[0])
    )
    mapping = Nominal()
    if kind == "hsvlmc":
        parts = [data[f"mapping_{name}"] for name in ("Z", "lengthscales", "variance", "q_mu", "q_sqrt")]
        mapping = ResidualGP(Nominal(), gp(*parts), positive(data["row_variance"]), 1.0)
    likelihoods = tuple(Gaussian(positive(noise)) for noise in data["noise"])
    model = Model((mapping, Nominal()), latents, as_array(data["mixing"]), likelihoods)
    batches = tuple(
        TaskBatch(Rows(as_array(x), as_array(aligned), as_array(np.arange(x.shape[0]))), as_array(y))
        for x, aligned, y in zip(data["X"], data["aligned"], data["y"], strict=True)
    )
    return model, batches


class Ours:
    """Our compiled training loop on one problem."""

    def __init__(self, case: str, kind: str):
        self.case, self.kind = case, kind
        data = problem(case)
        self.model, self.batches = our_model(data, kind)
        size = data["batch"]
        self.sizes = (None, size)
        self.settings = adam.AdamSettings(1, data["learning_rate"], num_samples=1)
        self.key = jax.random.key(0)
        trainable, self.rest = split(self.model)
        self.state = adam._State(trainable, optax.adam(data["learning_rate"]).init(trainable), jnp.zeros((), jnp.int32))
        source = adam.Batches([batch.y.shape[0] for batch in self.batches], self.sizes, 0)
        drawn = tuple(adam._padded(part) for part in source.draw(adam._CHUNK))
        scales = (1.0, 1.0 if size is None else self.batches[1].y.shape[0] / size)
        self.chunk = adam._Chunk(drawn, scales)
        self.first = self._time(1)[0]

    def objective(self) -> float:
        """Return the bound at the start on all rows; the stochastic model has none that can be compared exactly."""
        return float(adam.bound(self.model, self.batches, self.key, self.settings).total)

    def seconds_per_step(self, steps: int) -> float:
        """Return the mean over many steps, in the chunks that training runs."""
        return self._time(steps)[0] / steps

    def _time(self, steps: int) -> tuple[float, Any]:
        state, done, start = self.state, 0, time.perf_counter()
        while done < steps:
            count = min(adam._CHUNK, steps - done)
            state, values = adam._advance(
                state, self.rest, self.batches, self.chunk, jnp.int32(count), self.key, self.settings
            )
            np.asarray(values)
            done += count
        return time.perf_counter() - start, state


class Roofline:
    """The products, exponentials and factors of a step, each into memory that is there already."""

    def __init__(self, case: str):
        size = SIZES[case]
        rows_a_step = size.rows[0] + (size.batch or size.rows[1])
        rng = np.random.default_rng(0)
        self.square = rng.normal(size=(size.inducing, size.inducing))
        self.covariance = self.square @ self.square.T + size.inducing * np.eye(size.inducing)
        self.wide = rng.normal(size=(size.inducing, rows_a_step))
        self.results = np.empty_like(self.square), np.empty_like(self.wide)

    def seconds_per_step(self, steps: int) -> float:
        """Return the mean over many steps."""
        small, wide = self.results
        start = time.perf_counter()
        for _ in range(steps * LATENTS):
            np.exp(self.wide, out=wide)
            np.exp(self.square, out=small)
            cholesky(self.covariance, lower=True, check_finite=False)
            np.matmul(self.square, self.wide, out=wide)
            np.matmul(self.square, self.wide, out=wide)
            np.matmul(wide, self.wide.T, out=small)
        return (time.perf_counter() - start) / steps


class Peer:
    """The GPflow worker: one JSON command a line, one answer a line."""

    def __init__(self) -> None:
        python = environment.ensure("gpflow")
        worker = Path(environment.__file__).with_name("gpflow_step.py")
        self.process = subprocess.Popen(
            [str(python), str(worker)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            cwd=worker.parent,
        )
        self._read()

    def ask(self, command: dict[str, Any]) -> dict[str, Any]:
        """Send a command, return the answer."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(command) + "\n")
        self.process.stdin.flush()
        return self._read()

    def _read(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError("the GPflow worker ended without an answer")
        return json.loads(line)


def measure(rounds: int, cases: list[str], out: Path, scale: float) -> None:
    """Measure both sides in turns and write a row a measurement."""
    core = sorted(os.sched_getaffinity(0))[-1] if hasattr(os, "sched_getaffinity") else None
    if core is not None:
        os.sched_setaffinity(0, {core})  # the worker inherits it: both sides share one core, one after the other
    peer = Peer()
    with agp.computing():
        for case, kind in product(cases, MODELS):
            ours = Ours(case, kind)
            steps, chunk = STEPS[case]
            steps = max(chunk, int(steps * scale) // chunk * chunk)
            for number in range(rounds):
                base = {"case": case, "model": kind, "round": number}
                seconds = ours.seconds_per_step(steps)
                agreed = ours.objective() if kind == "g0" else float("nan")
                found = {"side": "aligngp", "form": "while_loop chunks", "xla": True, "chunk": adam._CHUNK}
                _write(out, {**base, **found, "seconds_per_step": seconds, "objective": agreed, "first": ours.first})
                least = {"side": ROOFLINE, "form": "products, exponentials, factors", "xla": "", "chunk": ""}
                seconds = Roofline(case).seconds_per_step(steps)
                _write(out, {**base, **least, "seconds_per_step": seconds, "objective": "", "first": ""})
                for form in GPFLOW:
                    if form["xla"] and case != "n106":
                        continue  # two to three times slower there, and minutes to compile
                    command = {"case": case, "model": kind, "form": form["form"], "xla": form["xla"], "steps": steps}
                    if kind == "hsvlmc" and form["form"] == "lmc":
                        continue
                    command["chunk"] = chunk if form["chunked"] else 1
                    answer = peer.ask(command)
                    if "error" in answer:
                        raise RuntimeError(answer["error"])
                    if kind == "g0" and abs(answer["objective"] - agreed) > 1e-8 * abs(agreed):
                        raise RuntimeError(f"not the same model: {answer['objective']} and {agreed}")
                    found = {"side": f"GPflow {answer['gpflow']}", **{k: command[k] for k in ("form", "xla", "chunk")}}
                    seconds, first = answer["seconds_per_step"], answer["first_call_seconds"]
                    objective = answer["objective"]
                    _write(out, {**base, **found, "seconds_per_step": seconds, "objective": objective, "first": first})
    assert peer.process.stdin is not None
    peer.process.stdin.close()
    peer.process.wait(timeout=30)


def _write(out: Path, row: dict[str, Any]) -> None:
    shown = {key: f"{value:.6g}" if isinstance(value, float) else value for key, value in row.items()}
    rows.append(out, {**shown, **rows.environment()})
    print(" ".join(str(value) for value in shown.values()), flush=True)


def table(path: Path) -> str:
    """Return medians over the rounds and the ratio to GPflow's fastest form."""
    found = rows.read(path)
    heading = (
        *("case", "model", "aligngp, ms", "GPflow's fastest, ms", "its form", "ratio", "GPflow plain loop, ms"),
        *("roofline, ms", "aligngp, times the roofline", "GPflow, times the roofline"),
    )
    body = []
    for case, kind in product(CASES, MODELS):
        times: dict[tuple[str, str, str], list[float]] = {}
        for row in found:
            if (row["case"], row["model"]) == (case, kind):
                form = (row["side"], row["form"], f"XLA {row['xla']}, {row['chunk']} steps a call")
                times.setdefault(form, []).append(1e3 * float(row["seconds_per_step"]))
        medians = {form: median(values) for form, values in times.items()}
        if not medians:
            continue
        ours = next(value for form, value in medians.items() if form[0] == "aligngp")
        least = next(value for form, value in medians.items() if form[0] == ROOFLINE)
        theirs = {form: value for form, value in medians.items() if form[0] not in ("aligngp", ROOFLINE)}
        best = min(theirs, key=lambda form: theirs[form])
        plain = next(v for f, v in theirs.items() if f[1] == "plain" and f[2] == "XLA False, 1 steps a call")
        shown = (
            f"{ours:.3g}",
            f"{theirs[best]:.3g}",
            f"{best[1]}, {best[2]}",
            f"{theirs[best] / ours:.2f}",
            f"{plain:.3g}",
            f"{least:.3g}",
            f"{ours / least:.2f}",
            f"{theirs[best] / least:.2f}",
        )
        body.append((CASES[case], kind, *shown))
    note = (
        "\nOne core, medians of interleaved rounds. `hsvlmc` draws one sample a step; the bound of `g0` at the start"
        "\nagrees to 1e-8 on both sides. Raw rows: step_time.csv.\n"
    )
    return __doc__.split("\n")[0].replace("``", "`") + "\n\n" + rows.markdown(heading, body) + note


def main() -> None:
    """Measure, then write the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--scale", type=float, default=1.0, help="fraction of the steps to time")
    parser.add_argument("--out", type=Path, default=rows.RESULTS / "step_time.csv")
    parser.add_argument("--table", action="store_true", help="make the table of the rows there are, measure nothing")
    arguments = parser.parse_args()
    if not arguments.table:
        measure(arguments.rounds, arguments.cases, arguments.out, arguments.scale)
    arguments.out.with_suffix(".md").write_text(table(arguments.out))


if __name__ == "__main__":
    sys.exit(main())
