# %% [markdown]
# # Lift with and without Reynolds and Mach
#
# A user of another surrogate toolbox
# [asked](https://github.com/SMTorg/smt/issues/597) how to build a multi-fidelity model if the cheap simulation has
# fewer inputs than the costly one. The example was a lift coefficient: the cheap model knows the angle of attack
# alone, the costly one the Reynolds and the Mach number too. Filling the missing inputs with constants was the only
# way at hand.
#
# Here is the same problem with aligngp. The two models are analytic stand-ins, written for this page: they have the
# right trends and are no aerodynamic data.

# %%
import warnings

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from scipy.stats import qmc

import aligngp as agp


def lift(alpha, log_reynolds, mach):
    """Lift of a thin airfoil with viscous losses, Prandtl-Glauert's correction, a soft stall."""
    losses = 0.25 * np.exp(
        -(log_reynolds - 5.0)
    )  # thicker boundary layers at low Reynolds numbers
    slope = 2 * np.pi * (1 - losses) / np.sqrt(1 - mach**2)
    stall = 12 + 2 * (log_reynolds - 6) - 8 * mach**2  # degrees
    beyond = np.logaddexp(0, alpha - stall)
    return slope * np.radians(alpha + 2) - 0.25 * beyond


# %% [markdown]
# The cheap table: 25 angles at one condition, a Reynolds number of a million and Mach 0.1. The costly one: 6 runs over
# all three inputs.


# %%
def costly(count, seed):
    rng = np.random.default_rng(seed)
    low, high = [-4, 5.3, 0.05], [20, 7, 0.6]
    X = qmc.scale(qmc.LatinHypercube(3, rng=rng).random(count), low, high)
    frame = pd.DataFrame(X, columns=["alpha", "log_reynolds", "mach"])
    return frame.assign(lift=lift(*X.T))


angles = np.linspace(-4, 20, 25)
cheap = pd.DataFrame({"alpha": angles, "lift": lift(angles, 6.0, 0.1)})
train, test = costly(6, seed=0), costly(300, seed=100)
print(train.round(3).to_string())

# %% [markdown]
# ## Fit
#
# The cheap task's only column, `alpha`, is among those of the costly task. So nothing has to be said of the mapping:
# columns are matched by name. The common task is the one with the fewest inputs.

# %%
gp = agp.AlignedGP().fit({"costly": train, "cheap": cheap}, output="lift")
print(gp.common)

# %% [markdown]
# ## Does it help?
#
# Against the costly runs alone, and against the way of the question: the cheap table with constants in the columns that
# it lacks. The constants of the condition at which it was computed are one choice, those of another condition stand
# for a user who does not know it. The filled table has the columns of the costly one, so a single GP can take all rows
# together, too. One draw of six runs says little, so this is the median of six draws.

# %%
known = cheap.assign(log_reynolds=6.0, mach=0.1)
wrong = cheap.assign(log_reynolds=5.3, mach=0.6)


def compared(seed):
    runs = costly(6, seed)

    def together(table):
        return agp.AlignedGP("cheap").fit({"costly": runs, "cheap": table}, output="lift")

    def one(table):
        return agp.AlignedGP().fit({"costly": table}, output="lift")

    models = {
        "aligned": together(cheap),
        "filled": together(known),
        "filled, wrong": together(wrong),
        "one GP, filled": one(pd.concat([runs, known])),
        "one GP, wrong": one(pd.concat([runs, wrong])),
        "costly runs alone": one(runs),
    }
    return pd.DataFrame(
        {name: model.score("costly", test) for name, model in models.items()}
    )


with warnings.catch_warnings():
    warnings.simplefilter(
        "ignore", agp.AligngpWarning
    )  # rows outside six runs, constant columns: we know
    draws = pd.concat([compared(seed) for seed in range(6)], keys=range(6))
medians = draws.groupby(level=1, sort=False).median()
print(medians.T[["rmse", "crps", "coverage95"]].round(3).to_string())

# %% [markdown]
# The cheap table is worth having in every way. This is so because the stall is abrupt and six runs cannot show it. With
# eight or ten runs and a gentler stall, the costly runs alone did as well when we tried.
#
# Filling with the right constants predicts better than aligning, and one GP on all rows better still. The reason is
# what the constants say. In this example the cheap model *is* the costly one at one condition, so 25 filled rows are
# 25 exact rows of the costly function. Aligning does not know at which condition they hold: it has to find out from six
# runs how the two functions differ. With constants of another condition the same table misleads: one GP then is worse
# than aligning, and nothing in the data says so.
#
# So, where the cheap model is the costly one at a condition that you know, fill in the condition and put the rows
# together. Where the condition is not known, or the cheap model has none (other physics, other geometry), or it has
# *other* inputs, as [the robot arms](robot-arm.md) do, align.

# %% [markdown]
# Without test runs the transfer report answers for the draw at hand. It leaves training runs out one by one, with the
# cheap table and without it. Six rows seldom prove anything.

# %%
for sentence in gp.transfer_report("costly").sentences:
    print(sentence)

# %% [markdown]
# ## The lift curve at one condition

# %%
condition = {"log_reynolds": 5.5, "mach": 0.5}
new = pd.DataFrame({"alpha": np.linspace(-4, 20, 97)}).assign(**condition)
pred = gp.predict("costly", new)
lower, upper = pred.interval(0.95)
plt.figure()
plt.fill_between(new.alpha, lower, upper, alpha=0.25, label="95% interval")
plt.plot(new.alpha, pred.mean, label="predicted")
plt.plot(new.alpha, lift(*new.to_numpy().T), "k--", label="costly model")
plt.plot(cheap.alpha, cheap.lift, ".", color="0.5", label="cheap table")
plt.xlabel("angle of attack (degrees)")
plt.ylabel("lift coefficient")
plt.title("Reynolds number 316 000, Mach 0.5")
plt.legend()
plt.show()

# %% [markdown]
# What each input does, averaged over the training runs:

# %%
figure, axes = plt.subplots(1, 3, figsize=(10, 3.2), sharey=True, layout="constrained")
for ax, column in zip(axes, ["alpha", "log_reynolds", "mach"], strict=True):
    gp.plot.partial_dependence("costly", column, ax=ax)
