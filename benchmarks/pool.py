"""Rows measured by several processes at once, and written by this one as they come."""

import json
import queue
import subprocess
import sys
import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from aligngp.errors import AligngpError
from benchmarks import rows
from benchmarks.accuracy import failed

ROOT = Path(__file__).resolve().parents[1]
Tell = Callable[[Mapping[str, Any], int, int, float | None], None]
"""A row that is there, the number of those there, the number wanted, the seconds left (None: not known)."""


class WorkerError(AligngpError, RuntimeError):
    """A row could not be measured, for a reason that is not the model's."""


class Process:
    """One worker: it is started when it is first asked, and again after it has died."""

    def __init__(self) -> None:
        self.process: subprocess.Popen[str] | None = None

    def measure(self, wanted: Mapping[str, Any]) -> dict[str, Any]:
        """Return the row; a worker that was killed leaves a failed row, a fault in the program raises."""
        if self.process is None:
            command = [sys.executable, "-m", "benchmarks.worker"]
            pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
            # A session of its own: Ctrl-C reaches the parent alone, which ends the workers.
            self.process = subprocess.Popen(command, text=True, cwd=ROOT, start_new_session=True, **pipes)
        process = self.process
        assert process.stdin is not None and process.stdout is not None
        line = ""
        try:
            process.stdin.write(json.dumps({**wanted, "iterations": wanted["iterations"] or None}) + "\n")
            process.stdin.flush()
            line = process.stdout.readline()
        except BrokenPipeError:
            pass
        if line:
            return json.loads(line)
        self.process, code = None, _ended(process)
        if code < 0:
            return failed(wanted, f"the process ended with signal {-code}")
        where = ", ".join(f"{key} {wanted[key]}" for key in ("case", "model", "seed"))
        raise WorkerError(f"benchmark: {where}: the worker ended with code {code}; what it said stands above.")

    def end(self) -> None:
        """End the process, if there is one, at once."""
        process = self.process
        if process is not None:
            process.kill()
            _ended(process)


def _ended(process: subprocess.Popen[str]) -> int:
    """Wait for a process that ends, close its pipes and return its code."""
    code = process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with suppress(BrokenPipeError):
                pipe.close()
    return code


class Pace:
    """How long what is left will take, from the rows there are."""

    def __init__(self, found: Sequence[Mapping[str, Any]]) -> None:
        self._seconds: dict[tuple[str, str], list[float]] = defaultdict(list)
        for row in found:
            if row["seconds"]:
                self.add(row, float(row["seconds"]))

    def add(self, row: Mapping[str, Any], seconds: float) -> None:
        """Remember what a row took."""
        self._seconds[row["case"], row["model"]].append(seconds)

    def left(self, todo: Sequence[Mapping[str, Any]], jobs: int) -> float | None:
        """Return the seconds of rows that are still to come: a model's median on the case, else the medians' mean."""
        if not self._seconds:
            return None
        medians = {key: float(np.median(values)) for key, values in self._seconds.items()}
        other = float(np.mean(list(medians.values())))
        total = sum(medians.get((row["case"], row["model"]), other) for row in todo)
        return total / min(jobs, len(todo)) if todo else 0.0


def run(todo: Sequence[Mapping[str, Any]], out: Path, jobs: int, tell: Tell) -> None:
    """Measure rows in ``jobs`` processes and append each when it is there; the first fault ends all."""
    pending, waiting = dict(enumerate(todo)), deque(range(len(todo)))
    answers: queue.Queue[tuple[int, dict[str, Any] | BaseException, float]] = queue.Queue()
    workers = [Process() for _ in range(min(jobs, len(todo)))]

    def work(worker: Process) -> None:
        answer: dict[str, Any] | BaseException = {}
        while waiting and not isinstance(answer, BaseException):
            try:
                number = waiting.popleft()
            except IndexError:  # another thread took the last
                return
            start = time.monotonic()
            try:
                answer = worker.measure(todo[number])
            except BaseException as error:  # raised by the thread that waits
                answer = error
            answers.put((number, answer, time.monotonic() - start))

    pace = Pace(rows.read(out))
    try:
        for worker in workers:
            threading.Thread(target=work, args=(worker,), daemon=True).start()
        for done in range(1, len(todo) + 1):
            number, answer, seconds = answers.get()
            if isinstance(answer, BaseException):
                raise answer
            rows.append(out, answer)
            pace.add(answer, seconds)
            del pending[number]
            tell(answer, done, len(todo), pace.left(list(pending.values()), jobs))
    finally:
        waiting.clear()
        for worker in workers:
            worker.end()
