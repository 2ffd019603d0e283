"""The six constructors give the configuration of the paper's appendix, and give way to what a user says."""

import numpy as np
import pytest

import aligngp as agp
import estimators
from aligngp.mappings.fixed import AffineMap, Nominal
from aligngp.mappings.free import FreeRows
from aligngp.mappings.gaussian import EmbeddedGP, ResidualGP
from aligngp.settings import Settings

APPENDIX = {
    "num_latents": 2,
    "kernel": "se",
    "mapping_kernel": "se",
    "likelihood": "gaussian",
    "num_inducing": 30,
    "initial_lengthscale": 0.1,
    "initial_mapping_lengthscale": 0.1,
    "initial_mapping_variance": 1.0,
    "learning_rate": 5e-3,
    "max_iterations": 5000,
    "mapping_kl_weight": 1.0,
    "expectation": "sampled",
    "inference": "adam",
    "hyperparameters": "ml",
    "residual": False,
    "batch_size": None,
    "patience": None,
    "restarts": None,
    "standardize": True,
}
MODELS = {
    "sogp": ("none", False, Nominal),
    "hsvlmc_g0": ("none", True, Nominal),
    "hsvlmc_em": ("embedded", True, EmbeddedGP),
    "hsvlmc": ("bayes", True, ResidualGP),
    "hsvlmc_free": ("free", True, FreeRows),
    "imc": ("linear", True, AffineMap),
}
models = pytest.mark.parametrize("name", list(MODELS))


@models
def test_the_configuration_of_the_appendix(name):
    settings = getattr(agp.paper, name)().settings
    calibration, shared, _ = MODELS[name]
    assert (settings.calibration, settings.shared) == (calibration, shared)
    assert {key: getattr(settings, key) for key in APPENDIX} == APPENDIX
    assert (settings.common, settings.mappings) == (None, None)
    assert settings.kl_weight_of("fine") == 1.0


@models
def test_what_a_user_says_wins(name):
    given = {
        "common": "coarse",
        "mappings": {"fine": ["x2"]},
        "num_inducing": 7,
        "max_iterations": 11,
        "seed": 5,
        "progress": False,
        "num_latents": 1,
        "initial_lengthscale": None,
    }
    gp = getattr(agp.paper, name)(**given)
    assert {key: getattr(gp.settings, key) for key in given} == given
    assert gp.settings.initial_mapping_lengthscale == 0.1


@models
def test_an_unknown_keyword_is_refused(name):
    with pytest.raises(TypeError, match="number_of_latents"):
        getattr(agp.paper, name)(number_of_latents=2)


@models
def test_each_is_the_model_of_its_name(name):
    # Not with the start in which every row stands alone: an untrained model would predict nothing there.
    few = {**estimators.COMMON, "num_latents": 2, "initial_lengthscale": 1.0, "mappings": {"fine": ["x2"]}}
    gp = getattr(agp.paper, name)(**few)
    with estimators.untrained():
        gp.fit(estimators.tasks())
    model = gp.model["fine"] if name == "sogp" else gp.model
    assert type(model.mappings[0]) is MODELS[name][2]
    assert len(model.latents) == (1 if name == "sogp" else 2)
    assert len(model.mappings) == (1 if name == "sogp" else 2)
    mean = gp.predict("fine", estimators.NEW).mean
    assert np.all(np.abs(mean - estimators.FINE_Y.mean()) < 10 * estimators.FINE_Y.std())


def test_the_paper_is_one_configuration_of_the_front_door():
    given = {field: getattr(agp.paper.hsvlmc().settings, field) for field in Settings.__dataclass_fields__}
    assert agp.AlignedGP(**given).settings == agp.paper.hsvlmc().settings
