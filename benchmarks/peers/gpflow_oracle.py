"""Values of the bound by GPflow, for tests that must not depend on our own reading of the equations.

Run inside the peer's environment: `<python of the gpflow peer> benchmarks/peers/gpflow_oracle.py`; it writes
`tests/reference/gpflow_elbo.json`. Every latent is whitened, every q_sqrt a full lower triangle. GPflow adds
an absolute jitter to the diagonal of each K_zz and nowhere else in these paths (`covariances.Kuu(...,
jitter=default_jitter())` in `posteriors.py`); it is set to 1e-8 times the kernel's variance, which is a
relative jitter of 1e-8 since all kernels here are stationary. The gradient for the variance is left out:
GPflow's jitter does not move with it.
"""

import json
import os
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # before TensorFlow is imported

import gpflow
import numpy as np
import tensorflow as tf
from oracle_inputs import latent_model, mapping_model

TARGET = Path(__file__).resolve().parents[2] / "tests" / "reference" / "gpflow_elbo.json"
RELATIVE_JITTER = 1e-8
KERNELS = {
    "se": gpflow.kernels.SquaredExponential,
    "matern32": gpflow.kernels.Matern32,
    "matern52": gpflow.kernels.Matern52,
}
INDUCING = gpflow.inducing_variables


def with_jitter(variance):
    """GPflow's configuration for kernels of this variance, undone at the end of the block."""
    return gpflow.config.as_context(gpflow.config.Config(jitter=RELATIVE_JITTER * variance))


def build_latents(values):
    """GPflow's LMC: one SVGP over a linear coregionalisation of Q kernels; a likelihood a task."""
    kernels = [KERNELS[values["kernel"]](values["variance"], row) for row in values["lengthscales"]]
    model = gpflow.models.SVGP(
        gpflow.kernels.LinearCoregionalization(kernels, W=values["mixing"]),
        gpflow.likelihoods.Gaussian(),  # not used: each task has its own
        INDUCING.SeparateIndependentInducingVariables([INDUCING.InducingPoints(z) for z in values["Z"]]),
        num_latent_gps=len(kernels),
        q_mu=values["q_mu"],
        q_sqrt=values["q_sqrt"],
        whiten=True,
    )
    return model, [gpflow.likelihoods.Gaussian(variance) for variance in values["noise"]]


def build_mapping(values):
    """GPflow's multi-output SVGP of the residual: D outputs share kernel and inducing inputs."""
    dims = values["q_mu"].shape[1]
    kernel = gpflow.kernels.SquaredExponential(values["variance"], values["lengthscales"])
    return gpflow.models.SVGP(
        gpflow.kernels.SharedIndependent(kernel, output_dim=dims),
        gpflow.likelihoods.Gaussian(),
        INDUCING.SharedIndependentInducingVariables(INDUCING.InducingPoints(values["Z"])),
        num_latent_gps=dims,
        q_mu=values["q_mu"],
        q_sqrt=values["q_sqrt"],
        whiten=True,
    )


def expected_log_likelihood(model, likelihood, task, rows, y):
    """sum_i E_q[log N(y_i; f_t(x_i), nu_t)]: the task's column of GPflow's multi-output marginals."""
    mean, variance = model.predict_f(rows)
    columns = (mean[:, task : task + 1], variance[:, task : task + 1])
    return tf.reduce_sum(likelihood.variational_expectations(rows, *columns, y[:, None]))


def gradients(tape, total, parameters, values):
    """d total / d parameter for constrained values, in the shapes of `values`.

    GPflow differentiates for the raw ones; the chain rule through its positive transform undoes that. A
    packed triangle is unpacked, which keeps each entry.
    """
    answer = {}
    for name, group in parameters.items():
        constrained = []
        for parameter in group:
            raw, transform = parameter.unconstrained_variable, parameter.transform
            gradient = tape.gradient(total, raw)
            if name == "q_sqrt":
                gradient = transform.forward(gradient)
            elif transform is not None:
                gradient = gradient / tf.exp(transform.forward_log_det_jacobian(raw, event_ndims=0))
            constrained.append(gradient.numpy())
        answer[name] = np.reshape(np.stack(constrained), np.shape(values[name]))
    return answer


def latent_parameters(model, likelihoods):
    """Parameters of the LMC by name; a list is stacked along a first axis."""
    kernels = model.kernel.kernels
    return {
        "mixing": [model.kernel.W],
        "lengthscales": [kernel.lengthscales for kernel in kernels],
        "noise": [likelihood.variance for likelihood in likelihoods],
        "Z": [variable.Z for variable in model.inducing_variable.inducing_variables],
        "q_mu": [model.q_mu],
        "q_sqrt": [model.q_sqrt],
    }


def fixed_rows(name, **settings):
    """Fixed aligned inputs (HSVLMC-g0): equation (elbo_hsvlmc_g0), predictions and gradients."""
    values = latent_model(**settings)
    model, likelihoods = build_latents(values)
    with with_jitter(values["variance"]):
        with tf.GradientTape(persistent=True) as tape:
            terms = [
                expected_log_likelihood(model, likelihood, task, values["aligned"][task], values["y"][task])
                for task, likelihood in enumerate(likelihoods)
            ]
            latent_kl = model.prior_kl()
            elbo = tf.add_n(terms) - latent_kl
        predicted = [[part[:, t] for part in model.predict_f(rows)] for t, rows in enumerate(values["new"])]
        if values["mixing"].tolist() == [[1.0]]:
            agree_with_plain_svgp(values, elbo)
    return {
        "name": name,
        **values,
        "values": {
            "expected_log_likelihood": terms,
            "latent_kl": latent_kl,
            "elbo": elbo,
            "prediction_mean": [mean for mean, _ in predicted],
            "prediction_variance": [variance for _, variance in predicted],
            "gradients": gradients(tape, elbo, latent_parameters(model, likelihoods), values),
        },
    }


def agree_with_plain_svgp(values, elbo):
    """One task, one latent, mixing one: the LMC's bound is that of GPflow's single-output SVGP (an SOGP)."""
    plain = gpflow.models.SVGP(
        KERNELS[values["kernel"]](values["variance"], values["lengthscales"][0]),
        gpflow.likelihoods.Gaussian(values["noise"][0]),
        values["Z"][0],
        q_mu=values["q_mu"],
        q_sqrt=values["q_sqrt"],
        whiten=True,
    )
    other = plain.elbo((values["aligned"][0], values["y"][0][:, None]))
    np.testing.assert_allclose(elbo.numpy(), other.numpy(), rtol=1e-13)


def drawn_rows(name, mapping, latent):
    """A first task aligned by a residual GP, at given draws: (elbo_hsvlmc_final) without the row KL.

    x_bar_s = g0 + mu + sqrt(nu) eps_s; the expected log likelihood of the first task is averaged over the
    draws. What is generated as the first task's aligned rows serves as its nominal rows.
    """
    values = latent_model(**latent)
    values.pop("new")
    nominal, second = values.pop("aligned")
    given = {"nominal": nominal, **mapping_model(**mapping)}
    model, likelihoods = build_latents(values)
    mapper = build_mapping(given)
    with tf.GradientTape(persistent=True) as tape:
        with with_jitter(given["variance"]):
            residual, variance = mapper.predict_f(given["X"])
            mapping_kl = mapper.prior_kl()
        mean = residual + nominal
        draws = mean[None] + tf.sqrt(variance)[None] * given["eps"]
        with with_jitter(values["variance"]):
            first = [expected_log_likelihood(model, likelihoods[0], 0, x, values["y"][0]) for x in tf.unstack(draws)]
            other = expected_log_likelihood(model, likelihoods[1], 1, second, values["y"][1])
            latent_kl = model.prior_kl()
        total = tf.add_n(first) / len(first) + other - latent_kl - mapping_kl
    parameters = latent_parameters(model, likelihoods)
    own = {
        "lengthscales": [mapper.kernel.kernel.lengthscales],
        "Z": [mapper.inducing_variable.inducing_variable.Z],
        "q_mu": [mapper.q_mu],
        "q_sqrt": [mapper.q_sqrt],
    }
    return {
        "name": name,
        **values,
        "second_aligned": second,
        "mapping": given,
        "values": {
            "mapping_mean": mean,
            "mapping_variance": variance,
            "x_bar": draws,
            "expected_log_likelihood_per_draw": first,
            "expected_log_likelihood": [tf.add_n(first) / len(first), other],
            "latent_kl": latent_kl,
            "mapping_kl": mapping_kl,
            "elbo_without_row_kl": total,
            "gradients": gradients(tape, total, parameters, values),
            "mapping_gradients": gradients(tape, total, own, given),
        },
    }


def problems():
    """All problems; seeds are fixed, so a second run with the same versions writes the same file."""
    se = {"kernel": "se", "dims": 2}
    latent = {**se, "seed": 5, "rows": (5, 9), "latents": 2, "inducing": 6, "variance": 1.3}
    mapping = {"seed": 50, "rows": 5, "own_dims": 4, "dims": 2, "inducing": 4, "variance": 0.6, "samples": 3}
    return [
        fixed_rows("g0_se", **se, seed=1, rows=(7, 12), latents=2, inducing=5, variance=1.3),
        fixed_rows(
            "g0_matern52",
            seed=2,
            kernel="matern52",
            rows=(6, 9, 11),
            latents=1,
            dims=3,
            inducing=6,
            variance=0.8,
        ),
        fixed_rows(
            "g0_matern32",
            seed=3,
            kernel="matern32",
            rows=(8, 10),
            latents=3,
            dims=1,
            inducing=4,
            variance=2.1,
        ),
        fixed_rows("sogp_se", **se, seed=4, rows=(15,), latents=1, inducing=6, variance=1.4, mixing=[[1.0]]),
        drawn_rows("hsvlmc_se", mapping, latent),
    ]


def plain(value):
    """Arrays and tensors as lists and numbers in full precision."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return np.asarray(value).tolist() if isinstance(value, (np.ndarray, np.generic, tf.Tensor)) else value


def text(value, depth=0):
    """JSON with a key a line down to the values of a problem: small, and readable in a diff."""
    pad = " " * (depth + 1)
    if isinstance(value, dict) and value:
        lines = [f"{pad}{json.dumps(key)}: {text(item, depth + 1)}" for key, item in value.items()]
        return "{\n" + ",\n".join(lines) + "\n" + " " * depth + "}"
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return "[\n" + ",\n".join(pad + text(item, depth + 1) for item in value) + "\n" + " " * depth + "]"
    return json.dumps(value)


def main():
    """Compute and write the reference file."""
    reference = {
        "made_by": "benchmarks/peers/gpflow_oracle.py",
        "versions": {"gpflow": gpflow.__version__, "tensorflow": tf.__version__, "numpy": np.__version__},
        "relative_jitter": RELATIVE_JITTER,
        "whitened": True,
        "problems": problems(),
    }
    TARGET.parent.mkdir(parents=True, exist_ok=True)
    TARGET.write_text(text(plain(reference)) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
