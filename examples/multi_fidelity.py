# %% [markdown]
# # Costly and cheap flow simulations
#
# The case that aligngp was made for: a few runs of a costly flow simulation with many design parameters, and many runs
# of a cheap one with some of them. Here it is a diffuser. We want its loss of total pressure.
#
# A real flow simulation is too slow for a page that is built from its code. The two functions below stand for it. They
# are made up: they have the trends of textbooks (separation at wide angles, friction in long ducts, swirl) and no
# measured coefficients.
#
# ## The two simulations
#
# The costly one has eight design parameters.

# %%
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from scipy.stats import qmc

import aligngp as agp

BOUNDS = {
    "area_ratio": (1.4, 2.6),  # outlet to inlet
    "length": (2.0, 8.0),  # in inlet heights
    "swirl": (0.0, 25.0),  # degrees at the inlet
    "blockage": (0.0, 0.12),  # of the inlet by boundary layers
    "curvature": (-0.5, 0.5),  # of the wall, positive bends outwards early
    "hub_taper": (0.0, 1.0),
    "log_reynolds": (5.0, 6.5),
    "roughness": (0.0, 2.0),
}


def costly_loss(
    area_ratio, length, swirl, blockage, curvature, hub_taper, log_reynolds, roughness
):
    """Loss of total pressure with boundary layers, a shaped wall and rough walls."""
    opening = np.degrees(np.arctan((area_ratio - 1) / length))
    limit = 11 - 40 * blockage + 3 * hub_taper - 4 * curvature**2 + 0.08 * swirl
    separation = 0.02 * np.logaddexp(0, opening - limit)
    friction = (
        0.035
        * (1 + 0.2 * roughness)
        * 10 ** (-0.2 * (log_reynolds - 5))
        * length
        / (1 + area_ratio)
    )
    whirl = 0.9 * np.sin(np.radians(swirl)) ** 2 * (1 + 0.3 * hub_taper)
    outlet = 0.35 / area_ratio**2 * (1 + 2 * blockage)
    return separation + friction + whirl + outlet + 0.02 * curvature * (area_ratio - 1)


def cheap_loss(area_ratio, length, swirl):
    """The same without boundary layers, a straight wall, constant friction: biased."""
    opening = np.degrees(np.arctan((area_ratio - 1) / length))
    return (
        0.028 * np.logaddexp(0, opening - 10)
        + 0.01 * length
        + 0.8 * np.radians(swirl) ** 2
        + 0.3 / area_ratio**2
    )


# %% [markdown]
# ## Data
#
# 12 costly runs, 120 cheap ones, and 300 costly ones that no model sees: they are for the scores.

# %%
rng = np.random.default_rng(0)


def runs(simulation, columns, count):
    low, high = zip(*(BOUNDS[name] for name in columns), strict=True)
    X = qmc.scale(qmc.LatinHypercube(len(columns), rng=rng).random(count), low, high)
    return pd.DataFrame(X, columns=columns).assign(loss=simulation(*X.T))


every, few = list(BOUNDS), ["area_ratio", "length", "swirl"]
tasks = {"costly": runs(costly_loss, every, 12), "cheap": runs(cheap_loss, few, 120)}
test = runs(costly_loss, every, 300)

# %% [markdown]
# ## Fit
#
# The cheap task's columns are among those of the costly one. They are matched by name, so no mapping has to be passed.

# %%
gp = agp.AlignedGP(common="cheap", seed=0)
gp.fit(tasks, output="loss")
print(gp.summary())

# %% [markdown]
# The default model is a mixture of several forms; the summary says how much each of them counts. See
# [the mathematics](../mathematics.md#the-default-model).
#
# ## Check
#
# The scores on rows that were left out of the fit one by one need no further data:

# %%
found = gp.training_scores()["costly"]
print(
    found["scored"],
    f"RMSE {found['rmse']:.4f}, coverage {found['coverage95']:.0%} of {found['rows']} rows",
)

# %% [markdown]
# With the 300 test runs, against a model of the costly runs alone:

# %%
alone = agp.AlignedGP(seed=0).fit({"costly": tasks["costly"]}, output="loss")
print(f"{'':10}{'RMSE':>8}{'SMSE':>8}{'CRPS':>9}{'coverage':>10}")
for name, model in {"aligned": gp, "alone": alone}.items():
    scores = model.score("costly", test)
    errors = f"{scores['rmse']:8.4f}{scores['smse']:8.3f}{scores['crps']:9.4f}"
    print(f"{name:10}{errors}{scores['coverage95']:10.0%}")

# %% [markdown]
# SMSE is the squared error over the variance of the training outputs: 1 is no better than their mean. CRPS judges mean
# and interval together, in the units of the loss. Coverage is the part of test runs inside the 95% intervals. Where it
# is far below 95%, the intervals are too narrow; the left-out rows above are only twelve, and cannot tell it so well.

# %%
figure, axes = plt.subplots(1, 2, figsize=(9, 4), sharey=True, layout="constrained")
for ax, (name, model) in zip(axes, {"aligned": gp, "alone": alone}.items(), strict=True):
    model.plot.observed("costly", test.head(100), ax=ax)
    ax.set_title(name)

# %% [markdown]
# ## Is the cheap simulation worth having?

# %%
report = gp.transfer_report("costly")
for sentence in report.sentences:
    print(sentence)

# %% [markdown]
# ## Use
#
# The loss over the opening of the diffuser, the other parameters in the middle of their ranges:

# %%
middle = {name: sum(bounds) / 2 for name, bounds in BOUNDS.items() if name != "area_ratio"}
gp.plot.predictions("costly", "area_ratio", at=middle)
plt.show()

# %% [markdown]
# A question that needs more than a mean and an interval: which of five designs is the best, and how sure are we? Joint
# draws answer it. Read the chances as rough: they rest on twelve runs, and they are as good as the intervals above.

# %%
designs = test.head(5).drop(columns="loss")
draws = gp.predict("costly", designs).sample(2000, seed=1)
best = np.bincount(draws.argmin(axis=1), minlength=5) / len(draws)
for design, chance in enumerate(best):
    print(
        f"design {design}: the lowest loss in {chance:.0%} of draws, true loss {test.loss[design]:.3f}"
    )
