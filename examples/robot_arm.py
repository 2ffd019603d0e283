# %% [markdown]
# # Two robot arms
#
# A laboratory has a well-tested arm with a telescopic link. Its new arm has an elbow instead. Both lift a payload. We
# want the torque at the shoulder of the new arm, and have few runs with it.
#
# The arms have different joints, so their inputs differ in number and in meaning. But physics says how they relate:
# both shoulders feel the payload where the *hand* is. This is the prior mapping, and a plain NumPy function.
#
# The data come from the equations of motion below. They are written for this page; they are no recorded robot.
#
# ## The two simulators
#
# The telescopic arm has five inputs: the angle of the link, its length, the speeds of both, and the angular
# acceleration.

# %%
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from scipy.stats import qmc

import aligngp as agp

GRAVITY = 9.81
TELESCOPE = ["theta", "reach", "theta_speed", "reach_speed", "theta_acceleration"]
ELBOW = ["q1", "q2", "speed1", "speed2", "acceleration1", "acceleration2"]


def telescope_torque(X):
    """Torque (N m) with a sliding payload of 1.2 kg on a link of 1.5 kg, centred at 0.3 m."""
    theta, reach, theta_speed, reach_speed, theta_acceleration = X.T
    inertia = 1.5 * 0.3**2 + 1.2 * reach**2
    coriolis = 2 * 1.2 * reach * reach_speed * theta_speed
    return (
        inertia * theta_acceleration
        + coriolis
        + (1.5 * 0.3 + 1.2 * reach) * GRAVITY * np.cos(theta)
    )


# %% [markdown]
# The elbow arm has six: two joint angles, their speeds, their accelerations. Its links have mass, so it is not the
# telescopic arm in other words.

# %%
L1, L2, M1, M2, PAYLOAD = 0.5, 0.4, 2.0, 1.0, 1.0  # lengths in m, masses in kg


def elbow_torque(X):
    """Torque at the shoulder (N m) of two uniform links with a payload at the hand."""
    q1, q2, speed1, speed2, acceleration1, acceleration2 = X.T
    cosine, sine = np.cos(q2), np.sin(q2)
    m11 = M1 * L1**2 / 3 + M2 * (L1**2 + L2**2 / 3 + L1 * L2 * cosine)
    m11 += PAYLOAD * (L1**2 + L2**2 + 2 * L1 * L2 * cosine)
    m12 = M2 * (L2**2 / 3 + L1 * L2 / 2 * cosine) + PAYLOAD * (L2**2 + L1 * L2 * cosine)
    coriolis = (M2 / 2 + PAYLOAD) * L1 * L2 * sine * (2 * speed1 * speed2 + speed2**2)
    weight = (M1 / 2 + M2 + PAYLOAD) * L1 * np.cos(q1) + (M2 / 2 + PAYLOAD) * L2 * np.cos(
        q1 + q2
    )
    return m11 * acceleration1 + m12 * acceleration2 - coriolis + GRAVITY * weight


# %% [markdown]
# ## The mapping
#
# The hand of the elbow arm in polar coordinates, with its speeds and its angular acceleration: the inputs that a
# telescopic arm would have with its hand in the same place.


# %%
def hand(X):
    """Return (n, 5) inputs of the telescopic arm for rows (n, 6) of the elbow arm."""
    q1, q2, speed1, speed2, acceleration1, acceleration2 = X.T
    cosine, sine = np.cos(q2), np.sin(q2)
    squared = L1**2 + L2**2 + 2 * L1 * L2 * cosine
    lever = L2**2 + L1 * L2 * cosine
    share = lever / squared  # how much of the elbow's speed the hand's angle gets
    slope = L1 * L2 * sine * (2 * lever - squared) / squared**2
    reach = np.sqrt(squared)
    return np.column_stack(
        [
            q1 + np.arctan2(L2 * sine, L1 + L2 * cosine),
            reach,
            speed1 + share * speed2,
            -L1 * L2 * sine * speed2 / reach,
            acceleration1 + share * acceleration2 + slope * speed2**2,
        ]
    )


# %% [markdown]
# ## Data
#
# 15 runs of the new arm, 150 of the old one, both measured with an error of 0.1 N m. 500 further runs of the new arm
# are kept for the scores.

# %%
rng = np.random.default_rng(0)


def elbow_rows(count):
    low, high = [-1.0, 0.3, -1.5, -1.5, -3.0, -3.0], [1.0, 1.8, 1.5, 1.5, 3.0, 3.0]
    return qmc.scale(qmc.LatinHypercube(6, rng=rng).random(count), low, high)


def telescope_rows(count):
    low, high = [-0.5, 0.5, -2.5, -1.0, -5.0], [1.8, 0.95, 2.5, 1.0, 5.0]
    return qmc.scale(qmc.LatinHypercube(5, rng=rng).random(count), low, high)


def table(columns, X, torque):
    measured = torque(X) + 0.1 * rng.standard_normal(len(X))
    return pd.DataFrame(X, columns=columns).assign(torque=measured)


tasks = {
    "elbow": table(ELBOW, elbow_rows(15), elbow_torque),
    "telescope": table(TELESCOPE, telescope_rows(150), telescope_torque),
}
test = table(ELBOW, elbow_rows(500), elbow_torque)
print(tasks["elbow"].head(3).round(2).to_string())

# %% [markdown]
# ## Fit and compare
#
# Three models: with the mapping, with no knowledge of it (`agp.Learned()`), and the new arm alone.

# %%
models = {
    "mapping": agp.AlignedGP("telescope", mappings={"elbow": hand}),
    "learned": agp.AlignedGP("telescope", mappings={"elbow": agp.Learned()}),
    "alone": agp.AlignedGP(shared=False),
}
print(f"{'':10}{'RMSE (N m)':>12}{'CRPS':>8}{'coverage':>10}")
for name, gp in models.items():
    gp.fit(tasks, output="torque")
    scores = gp.score("elbow", test)
    print(
        f"{name:10}{scores['rmse']:12.3f}{scores['crps']:8.3f}{scores['coverage95']:10.0%}"
    )

# %% [markdown]
# RMSE and CRPS are in newton metres, lower is better. Coverage is the part of test runs inside the 95% intervals.
#
# Physics knows the mapping, and fifteen runs in six inputs are few to learn one from.

# %%
figure, axes = plt.subplots(1, 2, figsize=(9, 4), sharey=True, layout="constrained")
for ax, name in zip(axes, ["mapping", "alone"], strict=True):
    models[name].plot.observed("elbow", test.head(100), ax=ax)
    ax.set_title(name)

# %% [markdown]
# ## What the calibration does
#
# The mapping ignores the masses of the links. The calibration may move the aligned inputs to make up for it, and a
# part on the task's own inputs takes what is left. `gp.aligned` says where a run was placed, `gp.nominal` where the
# formula puts it.

# %%
gp = models["mapping"]
mean, variance = gp.aligned("elbow", test.head(3))
print(
    pd.DataFrame(gp.nominal("elbow", test.head(3)), columns=TELESCOPE).round(2).to_string()
)
print(pd.DataFrame(mean, columns=TELESCOPE).round(2).to_string())
