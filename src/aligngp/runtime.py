"""How the package computes: double precision, one BLAS thread and a cache of compiled functions, inside its own calls.

JAX computes in single precision unless a process-wide flag says otherwise. aligngp does not touch that flag: each
public call enters double precision for its own duration. OpenBLAS' threads fight XLA's own pool (a Cholesky gradient
took fifteen times longer with both), so the same scope holds BLAS to one thread.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import jax
import scipy.linalg  # noqa: F401  (loads the LAPACK that jaxlib calls, so that its threads can be limited)
from threadpoolctl import OpenBLASController, ThreadpoolController

from aligngp.cache import Cache

P = ParamSpec("P")
R = TypeVar("R")


class _OneThread:
    """One BLAS thread while anyone is inside.

    The number of BLAS threads belongs to the process: the first to enter sets it, the last to leave restores it, in
    whichever Python threads they are.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._blas: ThreadpoolController | None = None  # found once: looking the libraries up takes milliseconds
        self._limits: Any = None

    def __enter__(self) -> None:
        with self._lock:
            if self._inside == 0:
                self._blas = self._blas or ThreadpoolController().select(user_api="blas")
                _let_anyone_set()  # even inside of a limit that another Python thread has set
                self._limits = self._blas.limit(limits=1, user_api="blas")
            self._inside += 1

    def __exit__(self, *exception: object) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                _let_anyone_set()
                self._limits.restore_original_limits()
                _let_anyone_set()


def _let_anyone_set() -> None:
    """Let any Python thread set OpenBLAS' threads; newer versions of threadpoolctl leave it to the first that did."""
    clear = getattr(OpenBLASController, "clear_controlling_thread", None)
    if clear is not None:
        clear(force=True)


_one_thread, _cache = _OneThread(), Cache()


@contextmanager
def computing() -> Iterator[None]:
    """Double precision, one BLAS thread, compiled functions kept on disk while the block runs; as before afterwards."""
    with jax.enable_x64(True), _one_thread, _cache:
        yield


def computes(function: Callable[P, R]) -> Callable[P, R]:
    """Run a function inside :func:`computing`."""

    @wraps(function)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
        with computing():
            return function(*args, **kwargs)

    return wrapped
