"""The forms of one target task that compete: the covariance of its outputs, and the priors of its hyperparameters.

    y(x) = b + sum_s a_s F_s(g0(x)) + r(x) + eps,    b ~ N(0, max(1/4, 1/N)),  a_s ~ N(0, lambda_s),  eps ~ N(0, nu)

With b and a integrated out, and F ~ posterior given the sources with mean m, covariance C and gradient of the mean
grad m, the outputs are Gaussian with mean zero and the covariance

    tau [ var(b) + sum_s lambda_s (m_s(x) m_s(x') + C_s(x, x')) + R(x, x') + nu 1(x = x') ]

(a and F are independent, and the product is taken as Gaussian). The output scale is itself the estimate of N numbers,
hence tau: log tau ~ N(log(N / (N - 1)), 2 / (N - 1)), as the variance of a sample has it. One source has lambda = 1; of
several, log lambda_s ~ N(-1, 2^2), so that one which does not help is left out by itself. The forms:

    nominal            R = 0: the prior mapping g0 as it is
    residual           R = v k(x, x'), k an ARD kernel on the task's own inputs
    shifted            R = v k(g0(x), g0(x')): what no multiple of a source gives, in the common domain
    linear+residual    R = v sum_d w_d x_d x'_d / D_t + v' k(x, x')
    calibrated         R = v k(x, x') sum_s lambda_s grad m_s(x) . grad m_s(x'):  g = g0 + delta, delta a GP, linearised
    affine             the same with 1 + sum_d w_d x_d x'_d / D_t in place of k:  an affine delta
    calibrated+residual, affine+linear    sums of two
    alone              no source: var(b) + v k(x, x')
    alone+linear       no source: var(b) + v k(x, x') + v' sum_d w_d x_d x'_d / D_t

Two fidelities of one quantity have one unit, and then a source tells location and scale better than a few rows of the
target do. Each form with sources therefore has a twin, ``..., same units``, in which y is the most alike source s as it
stands, in the units of the data, up to a ~ N(1, 1/4), b ~ N(0, 1/4) in the source's standard deviations and R:

    y ~ N( shift + scale m_s(x),  tau [ 1/4 + 1/4 lambda_s (m_s m_s' + C_s) + C_s + (others) + R + nu 1(x = x') ] )

with log tau ~ N(log scale^2, 1/4^2).

Where g0 is not known (a learned prior mapping), two forms take an affine map of the inputs whose every coefficient is
a hyperparameter, g(x) = W x + w, W_dj ~ N(0, 1 / D_t), w ~ N(0, 1/4); nothing is linearised, and the columns' names and
order mean nothing:

    mapped, mapped+linear  R = 0, or the linear R, with m and C at g(x)

and, where they are few enough to try, every choice of D of the task's columns in every order is a g of its own:

    columns i, j           R = 0, with m and C at those columns (standardised, or in their own units where these agree)
    columns i, j+residual  R = v k(x, x')

The linearisation holds as far as the sources are nearly linear, so delta is in units of their reach: the shortest
lengthscale of a dimension of the common domain, at most 1. (grad m stands for its product with the reach.)
Linear terms see inputs bounded smoothly, x / sqrt(1 + x^2 / 9), since they would extrapolate without bound.
Priors, for standardised inputs of dimension D: log l ~ N(log 2.5 + log(D) / 2, 1), log v ~ N(log 0.1, 1.5^2)
(alone: N(0, 1.5^2)), log w ~ N(0, 1), log nu ~ N(c, 2^2) above a floor of 1e-6. Tasks of one study are of a kind: where
the sources are noisy, or rougher than their rows can tell, the target probably is too, so c = -7 is raised half of the
way to the logarithm of the sources' noise.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Term:
    """A summand of R: a stationary kernel on own or aligned inputs, or a linear one; perhaps times the gradients'."""

    linear: bool = False
    calibrates: bool = False
    aligned: bool = False
    variance: float = 0.1


@dataclass(frozen=True)
class Form:
    """A form: whether it sees the sources, the summands of R, whether the map to the common domain is in it.

    And whether it takes a source for the same quantity in the same units.
    """

    name: str
    transfers: bool
    terms: tuple[Term, ...] = ()
    maps: bool = False
    alike: bool = False
    columns: tuple[int, ...] | None = None
    """The own inputs that are taken for the common ones, where the form tries a choice of them."""


def _in_same_units(form: Form) -> Form:
    return replace(form, name=f"{form.name}, same units", alike=True)


_TRANSFERRING = (
    Form("nominal", True),
    Form("residual", True, (Term(),)),
    Form("shifted", True, (Term(aligned=True),)),
    Form("linear+residual", True, (Term(linear=True), Term())),
    Form("calibrated", True, (Term(calibrates=True),)),
    Form("affine", True, (Term(linear=True, calibrates=True),)),
    Form("calibrated+residual", True, (Term(calibrates=True), Term())),
    Form("affine+linear", True, (Term(linear=True, calibrates=True), Term(linear=True))),
)
FORMS = (
    *_TRANSFERRING,
    *(_in_same_units(form) for form in _TRANSFERRING),
    Form("alone", False, (Term(variance=1.0),)),
    Form("alone+linear", False, (Term(variance=1.0), Term(linear=True, variance=1.0))),
)
MAPPED_FORMS = (Form("mapped", True, maps=True), Form("mapped+linear", True, (Term(linear=True),), maps=True))


def column_forms(columns: tuple[int, ...], names: tuple[str, ...], residual: bool, alike: bool) -> Iterator[Form]:
    """Give the forms that take those own inputs for the common ones."""
    name = f"columns {', '.join(names[at] for at in columns)}"
    plain = (Form(name, True, columns=columns), Form(f"{name}+residual", True, (Term(),), columns=columns))
    for form in plain[: 1 + residual]:
        yield form
        if alike:
            yield _in_same_units(form)
