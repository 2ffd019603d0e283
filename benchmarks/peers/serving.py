"""What every worker that trains does alike: threads, a clock that can be stopped, memory, JSON lines.

The standard library alone, as every peer's environment must be able to import it. A worker reads one command a line
and answers it with one line; an error is an answer too.
"""

import json
import os
import resource
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

THREADS = "1"
SPACING = 1.02  # a look at the objective is due when the training time has grown by this factor


def limit_threads() -> None:
    """One thread in every BLAS; before the first library that has one is imported."""
    for library in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[library] = THREADS


def peak_mib() -> float:
    """Peak memory of this process so far, in MiB."""
    unit = 2**20 if sys.platform == "darwin" else 2**10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit


class Clock:
    """Seconds of training and the objective on the way; the time that a look takes does not count."""

    def __init__(self, limit: float = float("inf")):
        self.trace: list[tuple[float, float]] = []
        self.limit = limit
        self._counted, self._since, self._due = 0.0, time.perf_counter(), 0.0

    @property
    def seconds(self) -> float:
        """Seconds of training so far."""
        return self._counted + time.perf_counter() - self._since

    @property
    def over(self) -> bool:
        """Whether the limit has passed."""
        return self.seconds > self.limit

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """Time that does not count."""
        self._counted = self.seconds
        yield
        self._since = time.perf_counter()

    def look(self, objective: Callable[[], float], always: bool = False) -> None:
        """Note the objective if a look is due, with the clock stopped."""
        with self.stopped():
            if always or self._counted >= self._due:
                self.trace.append((self._counted, objective()))
                self._due = SPACING * self._counted


def cold_and_warm(make: Callable[[], Any], train: Callable[[Any, Clock], int], limit: float) -> dict[str, Any]:
    """Make and train twice: from nothing, then again with everything compiled.

    `make` gives what `train` works on and is called once; `train(made, clock)` starts from the initial values every
    time, looks at the objective through the clock if it has one, and returns its iterations. The trace is the warm
    one; `cold_trace` counts from the beginning of `make`.
    """
    clock = Clock(limit)
    made = make()
    train(made, clock)
    cold, cold_trace = clock.seconds, clock.trace
    clock = Clock(limit)
    iterations = train(made, clock)
    warm, trace = clock.seconds, clock.trace
    return {
        "wall_cold": cold,
        "wall_warm": warm,
        "iterations": iterations,
        "objective": trace[-1][1] if trace else None,
        "trace": trace,
        "cold_trace": cold_trace,
        "peak_mib": peak_mib(),
    }


def serve(answer: Callable[[dict[str, Any]], dict[str, Any]], versions: dict[str, str]) -> None:
    """Answer commands until standard input ends; the first line out says that the imports are done."""
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a library prints must not stand between the answers
    print(json.dumps({"ready": True, "imported_mib": peak_mib(), **versions}), file=replies, flush=True)
    for line in sys.stdin:
        if not line.strip():
            continue
        try:
            reply = {**answer(json.loads(line)), **versions}
        except Exception as error:  # the parent decides what a failed command means
            reply = {"error": f"{type(error).__name__}: {' '.join(str(error).split())[:500]}", "command": line.strip()}
        print(json.dumps(reply), file=replies, flush=True)
