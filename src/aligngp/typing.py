"""The axis glossary: one letter means one thing in every shape of the code.

T tasks, Q latent GPs, N rows of a task, B rows of a batch, M inducing inputs, D dimensions of the common domain,
``Dt`` a task's own dimensions, P outputs of a sparse GP, S samples of the aligned inputs.
"""

from collections.abc import Callable
from typing import Any, Literal

import jax
import numpy as np
from jaxtyping import Float, Int, PRNGKeyArray

Array = jax.Array | np.ndarray
"""Data come as NumPy arrays; inside a compiled function everything is a JAX array."""

Scalar = Float[Array, ""]
Parameter = Any
"""An array in a resolved model, the wrapper of one (aligngp.parameters) in a stored or trained one."""
Progress = Callable[[int, int, float], None]
"""Called as ``progress(done, total, objective)``."""
Expectation = Literal["analytic", "sampled"]

__all__ = ["Array", "Expectation", "Float", "Int", "PRNGKeyArray", "Parameter", "Progress", "Scalar"]
