"""Every keyword is checked where it is given, and says what it expected."""

import numpy as np
import pytest

import aligngp as agp
from aligngp.settings import Settings
from estimators import unchecked

WRONG = [
    ("common", 0, "common: expected the name of a task or None, got 0"),
    ("mappings", ["x1"], "mappings: expected a dict of task name to mapping, got list"),
    ("calibration", "baies", r"calibration: expected one of 'auto', 'none', .*, got 'baies'"),
    ("calibration", {"fine": "baies"}, "calibration of task 'fine': expected one of .*, got 'baies'"),
    ("calibration", None, "calibration: expected one of"),
    ("shared", 1, "shared: expected one of True, False, got 1"),
    ("standardize", "yes", "standardize: expected one of True, False, got 'yes'"),
    ("progress", 0, "progress: expected one of True, False, None, got 0"),
    ("inference", "mcmc", "inference: expected one of 'auto', 'exact', 'collapsed', 'svi', 'adam', got 'mcmc'"),
    ("hyperparameters", "bayes", "hyperparameters: expected one of 'auto', 'map', 'marginalize', 'ml', got 'bayes'"),
    ("residual", 1, "residual: expected one of True, False, None, got 1"),
    ("expectation", "exact", "expectation: expected one of 'auto', 'analytic', 'sampled'"),
    ("likelihood", "poisson", "likelihood: expected one of 'gaussian', got 'poisson'"),
    ("dtype", "float16", "dtype: expected one of 'float64', 'float32', got 'float16'"),
    ("kernel", "rbf", "^kernel: expected one of 'se', .*, or a GPJax kernel; got 'rbf'"),
    ("mapping_kernel", 3, "^mapping_kernel: expected one of 'se', .*got 3"),
    ("num_latents", 0, "num_latents: expected a whole number >= 1, got 0"),
    ("num_latents", None, "num_latents: expected a whole number >= 1, got None"),
    ("num_inducing", 2.0, "num_inducing: expected a whole number >= 1 or None, got 2.0"),
    ("max_iterations", True, "max_iterations: expected a whole number >= 1 or None, got True"),
    ("patience", -5, "patience: expected a whole number"),
    ("restarts", 0, "restarts: expected a whole number >= 1 or None, got 0"),
    ("num_samples", "10", "num_samples: expected a whole number >= 1, got '10'"),
    ("batch_size", 0, "batch_size: expected a whole number >= 1 or None, got 0"),
    ("batch_size", {"fine": 1.5}, "batch_size of task 'fine': expected a whole number"),
    ("learning_rate", 0.0, "learning_rate: expected a positive number or None, got 0.0"),
    ("initial_lengthscale", float("nan"), "initial_lengthscale: expected a positive number or None, got nan"),
    ("initial_mapping_lengthscale", -1, "initial_mapping_lengthscale: expected a positive number or None, got -1"),
    ("initial_mapping_variance", float("inf"), "initial_mapping_variance: expected a positive number, got inf"),
    ("initial_noise", True, "initial_noise: expected a positive number or None, got True"),
    ("mapping_kl_weight", -0.1, "mapping_kl_weight: expected a number >= 0 or None, got -0.1"),
    ("imc_penalty", None, "imc_penalty: expected a number >= 0, got None"),
    ("seed", -1, "seed: expected a whole number from 0 to 4294967295, got -1"),
    ("seed", 2**32, "seed: expected a whole number"),
    ("seed", 0.5, "seed: expected a whole number"),
]


@pytest.mark.parametrize("name, value, message", WRONG)
def test_a_wrong_keyword_says_what_was_expected(name, value, message):
    with unchecked(), pytest.raises(agp.SettingError, match=message):
        agp.AlignedGP(**{name: value})


def test_every_keyword_is_tried_above():
    assert {name for name, _, _ in WRONG} == set(Settings.__dataclass_fields__)


def test_limits_are_accepted():
    with unchecked():
        settings = Settings(
            mapping_kl_weight=0, imc_penalty=0.0, seed=2**32 - 1, num_inducing=1, batch_size={"a": None}
        )
    assert (settings.mapping_kl_weight, settings.imc_penalty, settings.seed) == (0.0, 0.0, 2**32 - 1)


def test_numbers_of_numpy_become_pythons():
    with unchecked():
        settings = Settings(num_latents=np.int64(3), learning_rate=np.float32(0.5), shared=np.False_, seed=np.uint8(7))
        sizes = Settings(batch_size={"fine": np.int32(4)}).batch_size
    assert (settings.num_latents, settings.learning_rate, settings.shared, settings.seed) == (3, 0.5, False, 7)
    for name, kind in {"num_latents": int, "learning_rate": float, "shared": bool, "seed": int}.items():
        assert type(getattr(settings, name)) is kind
    assert sizes == {"fine": 4}
    assert type(sizes["fine"]) is int


def test_what_happens_to_a_users_dict_later_changes_nothing():
    mappings, calibration, sizes = {"fine": ["x1"]}, {"fine": "none"}, {"fine": 4}
    settings = Settings(mappings=mappings, calibration=calibration, batch_size=sizes)
    for mine in (mappings, calibration, sizes):
        mine.clear()
    assert settings.mappings == {"fine": ["x1"]}
    assert settings.calibration_of("fine") == "none"
    assert settings.batch_size == {"fine": 4}


@pytest.mark.parametrize(
    "keyword, value",
    [
        ("common", "coars"),
        ("mappings", {"coars": None}),
        ("calibration", {"coars": "none"}),
        ("batch_size", {"coars": 2}),
    ],
)
def test_a_keyword_that_names_no_task(keyword, value):
    with pytest.raises(
        agp.SettingError, match=rf"{keyword}: there is no task 'coars' \(did you mean 'coarse'\?\).*'fine', 'coarse'"
    ):
        Settings(**{keyword: value}).check_tasks(["fine", "coarse"])


def test_the_keywords_of_two_tasks_fit_one_that_shares_nothing():
    settings = Settings(common="coarse", mappings={"fine": ["x1"]}, calibration={"coarse": "bayes"}, shared=False)
    settings.check_tasks(["other"])
    with pytest.raises(agp.SettingError, match="batch_size: there is no task 'fine'"):
        Settings(batch_size={"fine": 2}, shared=False).check_tasks(["other"])


def test_the_common_task_is_not_calibrated():
    for calibration in ("bayes", {"coarse": "none"}, {"coarse": "auto"}, {"fine": "bayes"}):
        Settings(calibration=calibration).check_common("coarse")
    with pytest.raises(agp.SettingError, match=r"'coarse' is the common task.* got 'bayes'. Leave it out"):
        Settings(calibration={"coarse": "bayes"}).check_common("coarse")


def test_automatic_calibration_is_the_two_layer_bound():
    assert (Settings().calibration_of("fine"), Settings().kl_weight_of("fine")) == ("bayes", 0.0)
    bayes = Settings(calibration="bayes")
    assert (bayes.calibration_of("fine"), bayes.kl_weight_of("fine")) == ("bayes", 1.0)
    some = Settings(calibration={"fine": "free"})
    assert [some.calibration_of(task) for task in ("fine", "other")] == ["free", "bayes"]
    assert [some.kl_weight_of(task) for task in ("fine", "other")] == [1.0, 0.0]
    assert [Settings(calibration=c, mapping_kl_weight=0.25).kl_weight_of("fine") for c in ("auto", "bayes")] == [
        0.25
    ] * 2


def test_a_task_alone_keeps_what_concerns_it():
    settings = Settings(
        common="coarse", mappings={"fine": ["x1"]}, calibration="linear", batch_size={"fine": 4}, seed=3, num_latents=1
    )
    alone = settings.alone("fine")
    assert (alone.common, alone.mappings, alone.calibration, alone.batch_size) == ("fine", None, "none", 4)
    assert (alone.seed, alone.num_latents) == (3, 1)
    assert settings.alone("coarse").batch_size is None
    assert Settings(batch_size=9).alone("coarse").batch_size == 9


def test_iterations_default_to_the_papers():
    assert (Settings().iterations, Settings(max_iterations=7).iterations) == (5000, 7)


def test_only_changed_keywords_are_told():
    kernel = agp.kernels.Linear()
    given = Settings(common="a", seed=0, num_latents=3, dtype="float64", kernel=kernel, progress=False)
    assert given.changed() == ["common='a'", "num_latents=3", f"kernel={kernel!r}", "progress=False"]
    assert Settings().changed() == []


def test_settings_cannot_be_changed():
    with pytest.raises(AttributeError, match="seed"):
        Settings().seed = 1
