"""The common task, the prior mappings and the scalers, from training rows; and rows as the model sees them."""

import warnings

import numpy as np
import pytest

import aligngp as agp
from aligngp.data.tasks import read_tasks
from aligngp.frame import Frame, affine_in_frame, alone, build_frame

RNG = np.random.default_rng(0)
FINE, COARSE, THIRD = RNG.uniform(1.0, 9.0, (7, 3)), RNG.uniform(0.0, 2.0, (5, 2)), RNG.uniform(size=(4, 4))
FINE_Y, COARSE_Y, THIRD_Y = RNG.normal(3.0, 2.0, 7), RNG.normal(-1.0, 4.0, 5), RNG.normal(size=4)


def log_ratio(x):
    return np.log(x[:, :2] / x[:, [2]])


def frame(
    mapping=None, common=None, standardize=True, fine="x1 x2 x3", coarse="x2 x1", fine_mapping=None, third=False
) -> Frame:
    tasks = {
        "fine": agp.Task(FINE, FINE_Y, names=fine.split(), mapping=fine_mapping),
        "coarse": agp.Task(COARSE, COARSE_Y, names=coarse.split()),
    }
    if third:
        tasks["third"] = agp.Task(THIRD, THIRD_Y, names=["u", "x1", "v", "x2"])
    return build_frame(read_tasks(tasks), common, None if mapping is None else {"fine": mapping}, standardize)


def scaled(X, by):
    return (X - by.mean(axis=0)) / by.std(axis=0)


def test_the_common_task_has_the_fewest_inputs():
    made = frame(third=True)
    assert (made.names, made.common, made.common_columns) == (("fine", "coarse", "third"), 1, ("x2", "x1"))
    assert [prior.kind for prior in made.priors] == ["columns", "identity", "columns"]


def test_a_tie_asks_for_the_common_task():
    tasks = read_tasks({"a": (FINE, FINE_Y), "b": (FINE, FINE_Y), "c": (THIRD, THIRD_Y)})
    with pytest.raises(agp.SettingError, match=r"tasks 'a', 'b' all have 3 inputs.*AlignedGP\(common=...\).*'b'"):
        build_frame(tasks, None, None, True)
    assert build_frame(tasks[:2], "a", None, True).common == 0


def test_the_common_task_may_be_named():
    tasks = read_tasks({"fine": (FINE, FINE_Y), "coarse": (COARSE, COARSE_Y)})
    made = build_frame(tasks, "fine", {"coarse": agp.Affine(np.ones((3, 2)))}, True)
    assert (made.common, made.common_columns) == (0, ("x1", "x2", "x3"))
    with pytest.raises(agp.DataError, match=r"no task 'fin' \(did you mean 'fine'\?\)"):
        build_frame(tasks, "fin", None, True)


def test_rows_are_mapped_raw_and_then_scaled_as_the_common_task():
    made = frame()
    rows = made.rows(0, FINE[:2])
    np.testing.assert_allclose(rows.own, scaled(FINE[:2], FINE), rtol=1e-12)
    np.testing.assert_allclose(rows.nominal, scaled(FINE[:2, [1, 0]], COARSE), rtol=1e-12)
    np.testing.assert_array_equal(rows.index, [-1, -1])
    np.testing.assert_array_equal(made.rows(0, FINE[:2], training=True).index, [0, 1])
    own = made.rows(1, COARSE)
    np.testing.assert_array_equal(own.own, own.nominal)


def test_a_formula_sees_raw_rows():
    made = frame(lambda x: np.column_stack([x[:, 0] * x[:, 1], np.log(x[:, 2])]))
    expected = np.column_stack([FINE[:, 0] * FINE[:, 1], np.log(FINE[:, 2])])
    np.testing.assert_allclose(made.rows(0, FINE).nominal, scaled(expected, COARSE), rtol=1e-12)


def test_outputs_are_scaled_by_task():
    made = frame()
    np.testing.assert_allclose(made.batch(0, FINE, FINE_Y).y, scaled(FINE_Y, FINE_Y), rtol=1e-12)
    np.testing.assert_allclose(made.batch(1, COARSE, COARSE_Y).y, scaled(COARSE_Y, COARSE_Y), rtol=1e-12)
    np.testing.assert_allclose(
        made.training_outputs, [[FINE_Y.mean(), FINE_Y.var()], [COARSE_Y.mean(), COARSE_Y.var()]]
    )


def test_nothing_is_scaled_without_standardisation():
    made = frame(standardize=False)
    rows = made.rows(0, FINE)
    np.testing.assert_array_equal(rows.own, FINE)
    np.testing.assert_array_equal(rows.nominal, FINE[:, [1, 0]])
    np.testing.assert_array_equal(made.batch(0, FINE, FINE_Y).y, FINE_Y)


def test_tabulated_inputs_stand_for_the_training_rows():
    table = RNG.uniform(size=(7, 2))
    made = frame(agp.Tabulated(table))
    np.testing.assert_allclose(made.batch(0, FINE, FINE_Y).rows.nominal, scaled(table, COARSE), rtol=1e-12)
    assert np.isnan(np.asarray(made.rows(0, FINE).nominal)).all()


def test_a_task_may_bring_its_mapping():
    np.testing.assert_array_equal(
        frame(fine_mapping=["x3", "x1"]).rows(0, FINE).nominal, frame([2, 0]).rows(0, FINE).nominal
    )
    with pytest.raises(agp.SettingError, match="task 'fine' has two mappings"):
        frame(["x1", "x2"], fine_mapping=["x3", "x1"])


def test_the_common_task_has_no_mapping():
    with pytest.raises(agp.SettingError, match=r"task 'fine' is the common task.*no mapping. Remove"):
        frame(["x1", "x2", "x3"], common="fine")


def test_a_mapping_of_an_unknown_task():
    with pytest.raises(agp.DataError, match=r"no task 'fin' \(did you mean 'fine'\?\)"):
        build_frame(read_tasks({"fine": (FINE, FINE_Y)}), None, {"fin": ["x1"]}, True)


def test_columns_taken_by_position_are_told():
    tasks = read_tasks({"fine": (FINE, FINE_Y), "coarse": agp.Task(COARSE, COARSE_Y, names=["x1", "x3"])})
    with pytest.warns(
        agp.AligngpWarning,
        match=r"task 'fine' came without column names, so its columns x1, x3 .*'coarse'.*mappings=\{'f",
    ):
        made = build_frame(tasks, None, None, True)
    assert made.priors[0].positions == (0, 2)


@pytest.mark.parametrize(
    "fine, mappings",
    [
        (agp.Task(FINE, FINE_Y, names=["x1", "x2", "x3"]), None),
        (agp.Task(FINE, FINE_Y, mapping=["x2", "x1"]), None),
        ((FINE, FINE_Y), {"fine": ["x2", "x1"]}),
        ((FINE[:, :2], FINE_Y), None),
    ],
)
def test_columns_that_are_named_or_all_there_are_not_told(fine, mappings):
    tasks = read_tasks({"fine": fine, "coarse": (COARSE, COARSE_Y)})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        build_frame(tasks, "coarse", mappings, True)


def test_a_task_by_itself():
    made = alone(frame(), 0)
    assert (made.names, made.common, made.common_columns) == (("fine",), 0, ("x1", "x2", "x3"))
    rows = made.rows(0, FINE)
    np.testing.assert_allclose(rows.nominal, scaled(FINE, FINE), rtol=1e-12)
    np.testing.assert_array_equal(made.training_outputs, [[FINE_Y.mean(), FINE_Y.var()]])


@pytest.mark.parametrize(
    "spec", [["x3", "x1"], agp.Affine([[1, 2, 0], [0, 0, 5]], [3, -4]), lambda x: x[:, 1:] * 7 + 1]
)
def test_an_affine_mapping_is_read_off_in_standardised_units(spec):
    made = frame(spec)
    matrix, offset = affine_in_frame(made, 0, FINE)
    rows = made.rows(0, FINE)
    np.testing.assert_allclose(rows.own @ matrix.T + offset, rows.nominal, atol=1e-12)


@pytest.mark.parametrize("spec", [lambda x: x[:, :2] ** 2, log_ratio])
def test_a_mapping_that_is_not_affine_is_refused(spec):
    with (
        np.errstate(all="ignore"),
        pytest.raises(agp.SettingError, match=r"task 'fine': calibration='linear' .*affine"),
    ):
        affine_in_frame(frame(spec), 0, FINE)


def test_a_formula_that_is_defined_on_the_data_alone_is_not_affine():
    def root(x):
        assert (x[:, 1] == 2 * x[:, 0]).all()
        return np.sqrt(x[:, :2])

    X = FINE[:, [0, 0, 1]] * [1.0, 2.0, 1.0]
    made = build_frame(read_tasks({"fine": (X, FINE_Y), "coarse": (COARSE, COARSE_Y)}), None, {"fine": root}, True)
    with pytest.raises(agp.SettingError, match="affine, and root is not") as caught:
        affine_in_frame(made, 0, X)
    assert isinstance(caught.value.__cause__, agp.DataError)


@pytest.mark.parametrize("init", ["supervised", "pca"])
def test_a_learned_mapping_starts_from_the_data_whatever_its_units(init):
    made = frame(agp.Learned(init))
    rows = made.rows(0, FINE).nominal
    # The spread of the aligned rows is that of the common domain, and their mean is its mean.
    np.testing.assert_allclose(np.mean(rows, axis=0), 0.0, atol=1e-12)
    np.testing.assert_allclose(np.trace(np.cov(rows.T, bias=True)), 2.0, rtol=0.6)
    other = read_tasks(
        {
            "fine": agp.Task(1e6 * FINE + 5.0, 1e-6 * FINE_Y, names=["x1", "x2", "x3"]),
            "coarse": agp.Task(1e-6 * COARSE, 1e6 * COARSE_Y - 3.0, names=["x2", "x1"]),
        }
    )
    again = build_frame(other, None, {"fine": agp.Learned(init)}, True)
    np.testing.assert_allclose(again.rows(0, 1e6 * FINE + 5.0).nominal, rows, atol=1e-8)


def test_a_supervised_start_aligns_the_directions_in_which_outputs_grow():
    fine, coarse = RNG.normal(size=(40, 3)), RNG.normal(size=(40, 2))
    tasks = read_tasks(
        {
            "fine": agp.Task(fine, 3.0 * fine[:, 2], names=list("abc")),
            "coarse": agp.Task(coarse, -2.0 * coarse[:, 0], names=list("uv")),
        }
    )
    made = build_frame(tasks, None, {"fine": agp.Learned()}, True)
    nominal = made.priors[0].nominal(fine, "fine")
    assert np.corrcoef(nominal[:, 0], fine[:, 2])[0, 1] < -0.99


def test_the_middle_of_inputs_is_in_their_units():
    X = np.array([[1.0, -5.0], [2.0, 5.0], [9.0, 6.0]])
    tasks = read_tasks({"one": (X, np.arange(3.0))})
    scaled, raw = (build_frame(tasks, None, None, standardize) for standardize in (True, False))
    assert scaled.middle(0) == pytest.approx(X.mean(axis=0))
    assert raw.middle(0) == pytest.approx([5.0, 0.5])
    assert raw.spans[0].tolist() == [[1.0, -5.0], [9.0, 6.0]]
