"""Training of HSVLMC-g0 by GPyTorch: `<python of the torch peer> benchmarks/peers/gpytorch_train.py`.

One JSON command a line, one JSON answer a line (serving.py):

    {"case": "n106", "seed": 0, "iterations": 5000, "learning_rate": 0.005}

The model is GPyTorch's own linear model of coregionalisation (LMCVariationalStrategy over a batch of Q variational
GPs), a noise a task, everything trainable, from the values of problems.py. Its call with `task_indices` takes the
product of two lazy covariances through root decompositions, which is slow and not exact; so all tasks are asked for
at all rows and each row keeps its own.
"""

from serving import cold_and_warm, limit_threads, serve

limit_threads()

import gpytorch  # noqa: E402
import numpy as np  # noqa: E402
import torch  # noqa: E402

from problems import problem  # noqa: E402

torch.set_num_threads(1)
torch.set_num_interop_threads(1)
torch.set_default_dtype(torch.float64)

DEFAULTS = {"seed": 0, "iterations": 5000, "learning_rate": 5e-3, "seconds": 1e9}
LOOK = 100  # the bound on all rows after so many steps
BLOCK = 2048  # rows at once where the bound is taken on all of them


class Latents(gpytorch.models.ApproximateGP):
    """Q sparse GPs with a kernel, inducing inputs and q(u) each, mixed into the tasks."""

    def __init__(self, values):
        latents, inducing, dims = values["Z"].shape
        shape = torch.Size([latents])
        posterior = gpytorch.variational.CholeskyVariationalDistribution(inducing, batch_shape=shape)
        base = gpytorch.variational.VariationalStrategy(
            self, torch.tensor(values["Z"]), posterior, jitter_val=values["relative_jitter"]
        )
        tasks = len(values["mixing"])
        super().__init__(
            gpytorch.variational.LMCVariationalStrategy(base, num_tasks=tasks, num_latents=latents, jitter_val=0.0)
        )
        self.mean_module = gpytorch.means.ZeroMean(batch_shape=shape)
        kernel = gpytorch.kernels.RBFKernel(ard_num_dims=dims, batch_shape=shape)
        self.covar_module = gpytorch.kernels.ScaleKernel(kernel, batch_shape=shape)
        kernel.lengthscale = torch.tensor(values["lengthscales"])[:, None, :]
        self.covar_module.outputscale = torch.tensor(values["variance"])
        with torch.no_grad():
            posterior.variational_mean.copy_(torch.tensor(values["q_mu"]).T)
            posterior.chol_variational_covar.copy_(torch.tensor(values["q_sqrt"]))
            self.variational_strategy.lmc_coefficients.copy_(torch.tensor(values["mixing"]).T)
            base.variational_params_initialized.fill_(1)  # or the first call overwrites q(u)

    def forward(self, x):
        """The prior at the rows."""
        return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))


class Training:
    """The model and the data of a problem."""

    def __init__(self, settings):
        self.settings = settings
        self.values = problem(settings["case"], settings["seed"])
        aligned, y = self.values["aligned"], self.values["y"]
        self.sizes = [len(part) for part in y]
        self.x, self.y = torch.tensor(np.concatenate(aligned)), torch.tensor(np.concatenate(y))
        self.task = torch.cat([torch.full((n,), t) for t, n in enumerate(self.sizes)])
        self.restart()

    def restart(self):
        """A model at the initial values."""
        torch.manual_seed(self.settings["seed"])
        self.model = Latents(self.values)
        self.raw_noise = torch.nn.Parameter(torch.tensor(np.log(np.expm1(self.values["noise"]))))
        self.model.train()

    def terms(self, rows):
        """Expected log densities of some rows."""
        f, task = self.model(self.x[rows]), self.task[rows]
        mean, variance = (part.gather(1, task[:, None])[:, 0] for part in (f.mean, f.variance))
        noise = torch.nn.functional.softplus(self.raw_noise)[task]
        square = (self.y[rows] - mean) ** 2 + variance
        return -0.5 * (torch.log(2 * torch.pi * noise) + square / noise)

    def objective(self):
        """The bound on all rows."""
        with torch.no_grad():
            blocks = torch.arange(len(self.y)).split(BLOCK)
            return float(
                sum(self.terms(rows).sum() for rows in blocks) - self.model.variational_strategy.kl_divergence()
            )

    def train(self, clock):
        """All iterations of Adam; a bound that is not finite ends them."""
        parameters = [*self.model.parameters(), self.raw_noise]
        adam = torch.optim.Adam(parameters, lr=self.settings["learning_rate"], foreach=True)
        first, second = self.sizes
        batch, total = self.values["batch"], self.settings["iterations"]
        rows, scale = torch.arange(first + second), 1.0
        for done in range(1, total + 1):
            if batch is not None:
                picks = first + torch.randint(second, (batch,))
                rows, scale = torch.cat([torch.arange(first), picks]), second / batch
            adam.zero_grad()
            terms = self.terms(rows)
            loss = self.model.variational_strategy.kl_divergence() - terms[:first].sum() - scale * terms[first:].sum()
            loss.backward()
            adam.step()
            last = done == total or clock.over
            if done % LOOK == 0 or last:
                if not torch.isfinite(loss):
                    raise FloatingPointError(f"The bound is {float(loss)} after {done} iterations.")
                clock.look(self.objective, always=True)
            if last:
                break
        return done


def answer(command):
    """Obey one command."""
    settings = {**DEFAULTS, **command}
    unknown = sorted(set(settings) - set(DEFAULTS) - {"case"})
    if unknown:
        raise ValueError(f"There is no setting {unknown}.")

    def train(training, clock):
        training.restart()
        return training.train(clock)

    found = cold_and_warm(lambda: Training(settings), train, settings["seconds"])
    return {**found, "objective_at_start": Training(settings).objective()}


if __name__ == "__main__":
    serve(answer, {"gpytorch": gpytorch.__version__, "torch": torch.__version__, "numpy": np.__version__})
