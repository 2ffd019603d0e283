"""How much each form counts: by evidence and by leave-one-out predictive density, pooled.

    b_k = E_alpha[ softmax_k( N sum_i alpha_i log p_k(y_i | y_-i) ) ],   alpha ~ Dirichlet(1, ..., 1)
    w_k ~ ( b_k^(1 - r)  p_k(y)^r )^(N / (N + 5)),   r = 5 / (5 + N)

b is pseudo-Bayesian model averaging with the Bayesian bootstrap (Yao, Vehtari, Simpson and Gelman, 2018): where few
rows decide, or rows disagree, the bootstrap spreads the weight. The evidence counts the prior, the leave-one-out
density does not; neither is reliable alone with five rows, and with many rows the second is what prediction asks for.
As a product a form that either finds impossible gets nothing. The outer power shrinks the weights towards equal ones
where rows are few: what five rows say of the forms is itself noisy, and intervals of one form that they chose are too
narrow.
"""

import numpy as np

_REPLICATES = 1000
_EVEN = 5.0
"""Rows at which both count the same."""
_SHRUNK = 5.0
"""Rows at which the weights are half as far apart, in logarithms, as the rows say."""
_SMALLEST = 1e-300


def form_weights(leave_one_out: np.ndarray, evidence: np.ndarray | None, rng: np.random.Generator) -> np.ndarray:
    """Return weights (K,) from log densities of the rows left out (K, N) and log evidences (K,), if there are any."""
    rows = leave_one_out.shape[1]
    shares = rng.dirichlet(np.ones(rows), _REPLICATES) * rows
    bootstrapped = softmax(shares @ leave_one_out.T).mean(axis=0)
    if evidence is None:
        return bootstrapped
    share = _EVEN / (_EVEN + rows)
    pooled = (1.0 - share) * np.log(np.maximum(bootstrapped, _SMALLEST)) + share * evidence
    return softmax(rows / (rows + _SHRUNK) * pooled)


def softmax(values: np.ndarray) -> np.ndarray:
    """Return ``exp(values)`` over its sum along the last axis."""
    shares = np.exp(values - values.max(axis=-1, keepdims=True))
    return shares / shares.sum(axis=-1, keepdims=True)
