"""Kernels: what the latent functions and the mappings look like."""

from __future__ import annotations

from aligngp.errors import SettingError
from aligngp.kernels.contract import AbstractKernel, Product, Sum
from aligngp.kernels.foreign import Foreign, is_foreign
from aligngp.kernels.linear import Linear
from aligngp.kernels.stationary import Matern12, Matern32, Matern52, SquaredExponential

NAMES: dict[str, type] = {
    "se": SquaredExponential,
    "matern12": Matern12,
    "matern32": Matern32,
    "matern52": Matern52,
    "linear": Linear,
}


def as_kernel(kernel: object) -> AbstractKernel:
    """Return the kernel that a name, one of our kernels or a GPJax kernel stands for."""
    if isinstance(kernel, AbstractKernel):
        return kernel
    if isinstance(kernel, str) and kernel in NAMES:
        return NAMES[kernel]()
    if is_foreign(kernel):
        return Foreign(kernel)
    raise SettingError(
        f"kernel: expected one of {', '.join(map(repr, NAMES))}, a sum or product of aligngp.kernels objects, "
        f"or a GPJax kernel; got {kernel!r}."
    )


__all__ = [
    "AbstractKernel",
    "Foreign",
    "Linear",
    "Matern12",
    "Matern32",
    "Matern52",
    "Product",
    "SquaredExponential",
    "Sum",
    "as_kernel",
]
