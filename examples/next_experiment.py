# %% [markdown]
# # The next experiment
#
# A costly simulator knows the angle, the thickness and the speed of a blade; a cheap one knows the angle and the speed
# alone. We look for the blade with the smallest loss. A run of the costly one takes ten times as long, and `gp.suggest`
# says which of the two to run next, and where.

# %%
import matplotlib.pyplot as plt
import numpy as np

import aligngp as agp


def costly(angle, thickness, speed):
    return (
        (angle - 0.4) ** 2 + 0.3 * np.sin(6 * speed) * angle + 0.2 * (thickness - 0.7) ** 2
    )


def cheap(angle, speed):
    return 1.2 * ((angle - 0.45) ** 2 + 0.3 * np.sin(6 * speed) * angle) + 0.1


rng = np.random.default_rng(0)
X, Z = rng.uniform(size=(6, 3)), rng.uniform(size=(20, 2))
tasks = {
    "costly": agp.Task(X, costly(*X.T), names=["angle", "thickness", "speed"]),
    "cheap": agp.Task(Z, cheap(*Z.T), names=["angle", "speed"]),
}
gp = agp.AlignedGP("cheap").fit(tasks)

# %% [markdown]
# Each task has a space of its own. A pair is a real variable; `agp.Integer` and `agp.Choice` are there too. The best
# output so far is always one of the costly task, whatever the cheap one has found.

# %%
bounds = {
    "costly": {"angle": (0, 1), "thickness": (0, 1), "speed": (0, 1)},
    "cheap": {"angle": (0, 1), "speed": (0, 1)},
}
costs = {"costly": 10, "cheap": 1}
suggestion = gp.suggest("minimize", costs=costs, bounds=bounds)
print(suggestion.task, suggestion.inputs)
print(f"expected there: {suggestion.mean:.3f}, give or take {suggestion.std:.3f}")

# %% [markdown]
# `objective="learn"` asks for the run that takes most off the average variance of the costly task for its cost:

# %%
suggestion = gp.suggest("learn", target="costly", costs=costs, bounds=bounds)
print(suggestion.task, suggestion.inputs)

# %% [markdown]
# ## The whole loop
#
# `agp.optimize` calls the functions by itself until the budget is spent. An evaluation that raises is noted as failed,
# and the search goes on elsewhere. With `history="search.parquet"` a search that was stopped goes on where it was; with
# `workers=4` four evaluations run at once; where you evaluate by hand, `agp.Optimizer` has `ask` and `tell`.

# %%
found = agp.optimize(
    {"costly": costly, "cheap": cheap},
    bounds,
    costs=costs,
    budget=130,
    initial={"costly": 5, "cheap": 20},
    model={"hyperparameters": "map"},  # quicker than averaging over them
)
print(
    f"best {found.value:.4f} at",
    {name: round(value, 3) for name, value in found.inputs.items()},
)

# %% [markdown]
# Against the best of a grid of 27000 points, which nobody could have paid for:

# %%
grid = np.stack(np.meshgrid(*[np.linspace(0, 1, 30)] * 3), axis=-1).reshape(-1, 3)
optimum = costly(*grid.T).min()
print(f"the grid's best is {optimum:.4f}")
found.plot(optimum=min(optimum, found.value) - 1e-5)
plt.title("Regret against cost")
plt.show()
