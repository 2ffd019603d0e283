"""The BoTorch adapter: values are those of the model, derivatives those of differences, BoTorch's own tools work."""

import re
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch", reason="PyTorch is not installed: make test-botorch has an environment with it")
pytest.importorskip("botorch", reason="BoTorch is not installed: make test-botorch has an environment with it")

import torch
from botorch.acquisition import LogExpectedImprovement
from botorch.acquisition.logei import qLogNoisyExpectedImprovement
from botorch.acquisition.objective import ScalarizedPosteriorTransform
from botorch.optim import optimize_acqf
from botorch.sampling.normal import SobolQMCNormalSampler

import aligngp as agp
from aligngp.botorch import AlignedModel
from aligngp.errors import SettingError
from ensembles import two_fidelities

BOUNDS = torch.tensor([[-1.0] * 3, [1.0] * 3], dtype=torch.double)
LOWER = ScalarizedPosteriorTransform(torch.tensor([-1.0], dtype=torch.double))


@pytest.fixture(scope="module")
def gp():
    tasks = two_fidelities(8)
    twin = agp.Task(tasks["fine"].X, tasks["fine"].y ** 2, names=["a", "b", "c"])
    return agp.AlignedGP("coarse", progress=False, hyperparameters="map").fit({**tasks, "twin": twin})


@pytest.fixture(scope="module")
def model(gp):
    return AlignedModel(gp, "fine")


def rows(*shape, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return 2 * torch.rand(*shape, 3, dtype=torch.double, generator=generator) - 1


def test_moments_are_those_of_the_model_for_every_batch_shape(gp, model):
    for shape in ((4,), (3, 2), (2, 2, 3), (5, 1)):
        X = rows(*shape)
        posterior = model.posterior(X)
        assert posterior.mean.shape == (*shape, 1)
        blocks = X.reshape(-1, *X.shape[-2:]).numpy()
        covariance = posterior.mvn.covariance_matrix.reshape(-1, shape[-1], shape[-1])
        means = posterior.mean.reshape(-1, shape[-1])
        for block, mean, found in zip(blocks, means, covariance, strict=True):
            expected = gp.predict("fine", block, latent=True)
            np.testing.assert_allclose(mean, expected.mean, rtol=1e-7)
            np.testing.assert_allclose(found, expected.covariance, atol=1e-6)


def test_noise_is_added_where_it_is_asked_for(gp, model):
    X = rows(3)
    with_noise, without = (model.posterior(X, observation_noise=asked).variance[:, 0] for asked in (True, False))
    noise = gp.predict("fine", X.numpy()).variance - gp.predict("fine", X.numpy(), latent=True).variance
    np.testing.assert_allclose(with_noise - without, noise, rtol=1e-6, atol=1e-12)
    given = model.posterior(X, observation_noise=torch.full((3, 1), 0.5, dtype=torch.double)).variance[:, 0]
    np.testing.assert_allclose(given - without, 0.5, rtol=1e-9)


def test_derivatives_are_those_of_differences(model):
    X = rows(1, 2).requires_grad_()
    assert torch.autograd.gradcheck(lambda x: model.posterior(x).mean, X, eps=1e-5, rtol=1e-4, atol=1e-6)
    assert torch.autograd.gradcheck(
        lambda x: model.posterior(x).mvn.covariance_matrix, X, eps=1e-5, rtol=1e-3, atol=1e-6
    )
    single = rows(3, 1).requires_grad_()
    assert torch.autograd.gradcheck(lambda x: model.posterior(x).mean, single, eps=1e-5, rtol=1e-4, atol=1e-6)
    assert torch.autograd.gradcheck(lambda x: model.posterior(x).variance, single, eps=1e-5, rtol=1e-3, atol=1e-6)


def test_samples_have_the_posteriors_moments(model):
    posterior = model.posterior(rows(3))
    draws = SobolQMCNormalSampler(torch.Size([4096]), seed=0)(posterior)[..., 0]
    np.testing.assert_allclose(draws.mean(0), posterior.mean[:, 0], atol=0.02)
    np.testing.assert_allclose(torch.cov(draws.T), posterior.mvn.covariance_matrix, atol=0.03)


@pytest.mark.filterwarnings("ignore:Optimization failed:RuntimeWarning")  # L-BFGS where nothing more can be gained
def test_expected_improvement_is_optimised_to_what_suggest_finds(gp, model):
    best = torch.tensor(float(-gp.predict("fine", two_fidelities(8)["fine"].X, latent=True).mean.min()))
    acquisition = LogExpectedImprovement(model, best_f=best.double(), posterior_transform=LOWER)
    _, value = optimize_acqf(acquisition, BOUNDS, q=1, num_restarts=4, raw_samples=64, options={"seed": 0})
    bounds = {"fine": {name: (-1, 1) for name in "abc"}}
    ours = gp.suggest("minimize", target="fine", bounds=bounds)
    there = acquisition(torch.tensor([list(ours.inputs.values())], dtype=torch.double))
    assert float(value) > float(there) - 0.05
    assert float(value) > float(acquisition(rows(200, 1)).max()) - 0.05


def test_noisy_expected_improvement_of_a_batch(model):
    X = torch.tensor(two_fidelities(8)["fine"].X)
    acquisition = qLogNoisyExpectedImprovement(
        model, X_baseline=X, posterior_transform=LOWER, sampler=SobolQMCNormalSampler(torch.Size([64]), seed=0)
    )
    found, value = optimize_acqf(
        acquisition, BOUNDS, q=2, num_restarts=2, raw_samples=16, options={"seed": 0, "maxiter": 20}
    )
    assert found.shape == (2, 3)
    assert float(value) > max(float(acquisition(rows(2, seed=seed))) for seed in range(8))


def test_several_outputs_and_some_of_them(gp):
    both = AlignedModel(gp, ["fine", "twin"])
    assert both.num_outputs == 2
    X = rows(3)
    posterior = both.posterior(X)
    for at, name in enumerate(("fine", "twin")):
        expected = gp.predict(name, X.numpy(), latent=True)
        np.testing.assert_allclose(posterior.mean[:, at], expected.mean, rtol=1e-7)
        np.testing.assert_allclose(posterior.variance[:, at], expected.variance, rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(both.subset_output([at]).posterior(X).mean[:, 0], expected.mean, rtol=1e-7)
        np.testing.assert_allclose(both.posterior(X, output_indices=[at]).mean[:, 0], expected.mean, rtol=1e-7)


def test_further_rows_move_the_posterior_towards_them(model):
    X = rows(2, seed=3)
    before = model.posterior(X)
    Y = before.mean + torch.sqrt(before.variance)
    after = model.condition_on_observations(X, Y.detach()).posterior(X)
    assert float((after.mean - Y).abs().max()) < 0.6 * float((before.mean - Y).abs().max())
    assert torch.all(after.variance < 0.9 * before.variance)
    with pytest.raises(NotImplementedError, match="use an acquisition without them"):
        model.condition_on_observations(X[None], Y[None])


def test_what_is_refused(gp, model):
    with pytest.raises(SettingError, match="different inputs"):
        AlignedModel(gp, ["fine", "coarse"])
    with pytest.raises(SettingError, match=r"expected X of shape \(..., q, 3\) with the columns a, b, c"):
        model.posterior(rows(2)[:, :2])


def test_the_page_of_the_documentation_runs(capsys):
    page = (Path(__file__).parents[1] / "docs" / "how-to" / "botorch.md").read_text(encoding="utf-8")
    fences = re.findall(r"^```python no-run\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    namespace = {}
    for fence in fences:
        exec(compile(fence, "docs/how-to/botorch.md", "exec"), namespace)
    assert "('angle', 'speed')" in capsys.readouterr().out
    candidates = namespace["candidates"].numpy()
    outputs = (candidates[:, 0] - 0.3) ** 2 + 0.2 * candidates[:, 1]
    everywhere = np.random.default_rng(0).uniform(size=(2000, 2))
    assert outputs.min() < np.quantile((everywhere[:, 0] - 0.3) ** 2 + 0.2 * everywhere[:, 1], 0.05)
