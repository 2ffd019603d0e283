"""How the package computes: double precision and one BLAS thread, inside its own calls and nowhere else.

JAX computes in single precision unless a process-wide flag says otherwise. aligngp does not touch that flag: each
public call enters double precision for its own duration. OpenBLAS' threads fight XLA's own pool (a Cholesky gradient
took fifteen times longer with both), so the same scope holds BLAS to one thread.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import ParamSpec, TypeVar

import jax
import scipy.linalg  # noqa: F401  (loads the LAPACK that jaxlib calls, so that its threads can be limited)
from threadpoolctl import ThreadpoolController

P = ParamSpec("P")
R = TypeVar("R")

_controller: list[ThreadpoolController] = []  # found once: looking the libraries up takes milliseconds


@contextmanager
def computing() -> Iterator[None]:
    """Double precision and one BLAS thread while the block runs; both as before afterwards."""
    if not _controller:
        _controller.append(ThreadpoolController())
    with jax.enable_x64(True), _controller[0].limit(limits=1, user_api="blas"):
        yield


def computes(function: Callable[P, R]) -> Callable[P, R]:
    """Run a function inside :func:`computing`."""

    @wraps(function)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
        with computing():
            return function(*args, **kwargs)

    return wrapped
