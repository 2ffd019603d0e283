# %% [markdown]
# # Supernovae
#
# How likely are the data of 192 supernovae under a Hubble constant, a density of matter and a density of dark energy?
# One answer takes an integral for every supernova. On a fine grid it is the costly task. The cheap task integrates on
# two points, and it does not know dark energy: it takes a density of 0.5.
#
# The paper has such a case. It does not say its grids, so our numbers are of a problem that is only like that one.
# The table is of Davis et al., ApJ 666 (2007); it is in `benchmarks/cases/data` of the repository.

# %%
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from scipy.stats import qmc

import aligngp as agp

file = Path(__file__).parents[1] / "benchmarks" / "cases" / "data" / "davis2007_snia.csv"
supernovae = agp.read_table(file).to_pandas()
print(supernovae.head(3).to_string())

# %% [markdown]
# ## The two fidelities
#
# The distance modulus of a supernova at redshift \(z\) is
#
# \[ \mu(z) = 5 \log_{10} \left( \frac{c (1 + z)}{H_0} \int_0^z \frac{dt}
# {\sqrt{\Omega_r (1 + t)^4 + \Omega_m (1 + t)^3 + \Omega_\Lambda}} \right) + 25 \]
#
# with \(\Omega_r = \max(0, 1 - \Omega_m - \Omega_\Lambda)\). The output is the mean over the supernovae of the log
# density of the observed modulus.

# %%
LIGHT = 299792.48  # km/s


def log_likelihood(hubble, matter, dark, grid):
    """Return the mean log density of the observed moduli; the integral by the trapezoid rule."""
    redshift, observed, sigma = supernovae.to_numpy().T
    one = 1 + redshift[:, None] * np.linspace(0, 1, grid)
    integrand = 1 / np.sqrt(max(0, 1 - matter - dark) * one**4 + matter * one**3 + dark)
    distance = (
        LIGHT
        * (1 + redshift)
        / hubble
        * redshift
        * np.trapezoid(integrand, dx=1 / (grid - 1))
    )
    residual = (observed - 5 * np.log10(distance) - 25) / sigma
    return np.mean(np.maximum(-0.5 * (np.log(2 * np.pi * sigma**2) + residual**2), -1000))


rng = np.random.default_rng(0)


def costly(count):
    X = qmc.scale(qmc.LatinHypercube(3, rng=rng).random(count), [60, 0, 0], [80, 1, 1])
    frame = pd.DataFrame(X, columns=["H0", "matter", "dark"])
    return frame.assign(likelihood=[log_likelihood(*row, 1000) for row in X])


def cheap(count):
    X = qmc.scale(qmc.LatinHypercube(2, rng=rng).random(count), [60, 0], [80, 1])
    frame = pd.DataFrame(X, columns=["H0", "matter"])
    return frame.assign(likelihood=[log_likelihood(*row, 0.5, 2) for row in X])


tasks = {"costly": costly(10), "cheap": cheap(200)}
test = costly(200)

# %% [markdown]
# ## Fit
#
# Both columns of the cheap task are columns of the costly one, so the mapping follows from their names.

# %%
gp = agp.AlignedGP().fit(tasks, output="likelihood")
print(gp.summary())

# %% [markdown]
# ## Compare
#
# The same ten rows without the cheap task:

# %%
alone = agp.AlignedGP().fit({"costly": tasks["costly"]}, output="likelihood")
print(f"{'':10}{'SMSE':>8}{'SMLL':>8}{'coverage':>10}")
for name, model in {"aligned": gp, "alone": alone}.items():
    scores = model.score("costly", test)
    print(
        f"{name:10}{scores['smse']:8.2f}{scores['smll']:8.2f}{scores['coverage95']:10.0%}"
    )

# %%
figure, axes = plt.subplots(1, 2, figsize=(9, 4), sharey=True, layout="constrained")
for ax, (name, model) in zip(axes, {"aligned": gp, "alone": alone}.items(), strict=True):
    model.plot.observed("costly", test, ax=ax)
    ax.set_title(name)

# %% [markdown]
# Most rows have likelihoods near the best, and a few far below: a tail that ten rows cannot tell much of. Look at the
# figure before you trust a single score. SMSE divides by the variance of the ten training outputs, which itself
# changes much from draw to draw.

# %%
print(tasks["costly"]["likelihood"].describe().round(2).to_string())
