"""What an expert says becomes a checked mapping in raw units, or an error that says what was expected."""

import jax.numpy as jnp
import numpy as np
import pytest

import aligngp as agp
from aligngp.mappings.prior import Prior, as_prior, identity
from estimators import unchecked

COLUMNS, COMMON = ("x1", "x2", "x3"), ("a", "b")
X = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 7.0]])


def prior(spec, columns=COLUMNS, common=COMMON, rows=2) -> Prior:
    return as_prior(spec, "fine", columns, "coarse", common, rows)


def g0(spec, **keywords) -> np.ndarray:
    return prior(spec, **keywords).nominal(X, "fine", training=True)


@pytest.mark.parametrize(
    "spec",
    [
        agp.Columns("x3", "x1"),
        agp.Columns(2, 0),
        agp.Columns(-1, 0),
        [np.int64(-1), np.int8(0)],
        ["x3", "x1"],
        [2, "x1"],
        ("x3", 0),
        lambda x: x[:, [2, 0]],
        lambda x: jnp.stack([x[:, 2], x[:, 0]], axis=1),
        lambda x: [[row[2], row[0]] for row in x],
        agp.Affine([[0, 0, 1], [1, 0, 0]]),
        agp.Affine([[0, 0, 1], [1, 0, 0]], [0, 0]),
        agp.Tabulated([[3, 1], [7, 4]]),
    ],
)
def test_every_way_to_say_the_same(spec):
    value = g0(spec)
    np.testing.assert_array_equal(value, [[3.0, 1.0], [7.0, 4.0]])
    assert value.dtype == np.float64


def test_the_common_columns_are_found_by_name_in_their_order():
    np.testing.assert_array_equal(g0(None, common=("x3", "x2")), X[:, [2, 1]])
    assert prior(None, common=("x3", "x2")).label == "x3, x2"


def test_the_common_task_is_mapped_to_itself():
    np.testing.assert_array_equal(identity(COLUMNS).nominal(X, "fine"), X)


def test_an_affine_map():
    np.testing.assert_allclose(
        g0(agp.Affine([[1.0, 2.0, 0.0], [0.0, 0.0, -1.0]], [10.0, 0.5])), [[15.0, -2.5], [24.0, -6.5]]
    )
    np.testing.assert_allclose(g0(agp.Affine([1.0, 0.0, 1.0], 2.0), common=("a",)), [[6.0], [13.0]])


def test_one_column_may_be_said_without_a_list():
    np.testing.assert_array_equal(g0("x2", common=("a",)), X[:, [1]])
    np.testing.assert_array_equal(g0(agp.Tabulated([8.0, 9.0]), common=("a",)), [[8.0], [9.0]])


def test_a_formula_gets_float64_rows_of_its_own():
    def halve(x):
        assert x.dtype == np.float64
        x /= 2.0  # in place
        return x[:, :2]

    rows = X.copy()
    np.testing.assert_array_equal(prior(halve).nominal(rows, "fine"), X[:, :2] / 2.0)
    np.testing.assert_array_equal(rows, X)
    assert prior(halve).label == "halve"


def test_a_formula_is_not_asked_about_no_rows():
    assert prior(lambda x: x[:, :2] / x.max()).nominal(np.empty((0, 3)), "fine").shape == (0, 2)


def test_what_was_given_does_not_change_with_the_users_arrays():
    A, b, table = np.ones((2, 3)), np.zeros(2), np.ones((2, 2))
    affine, tabulated = prior(agp.Affine(A, b)), prior(agp.Tabulated(table))
    for mine in (A, b, table):
        mine[:] = 7.0
    np.testing.assert_array_equal(affine.nominal(X, "fine"), [[6.0, 6.0], [16.0, 16.0]])
    np.testing.assert_array_equal(tabulated.nominal(X, "fine", training=True), np.ones((2, 2)))


def test_tabulated_inputs_say_nothing_of_new_rows():
    known = prior(agp.Tabulated([[3, 1], [7, 4]]))
    assert np.isnan(known.nominal(X, "fine")).all()
    assert np.isnan(known.nominal(X[:1], "fine")).all()


def test_a_missing_common_column_names_three_ways_out():
    with pytest.raises(agp.SettingError) as caught:
        prior(None, common=("x1", "b", "c"))
    text = str(caught.value)
    assert text.startswith("task 'fine' has no columns 'b', 'c' of the common task 'coarse' (it has x1, x2, x3)")
    for way in ("AlignedGP(mappings={'fine': [...]})", "mappings={'fine': agp.Learned()}", "AlignedGP(common=...)"):
        assert way in text


@pytest.mark.parametrize(
    "spec, message",
    [
        (["x1"], r"expected a mapping to 2 columns \(the common task 'coarse' has a, b\), got 1: Columns\('x1'\)"),
        ("x1", "expected a mapping to 2 columns"),
        (["x1", "xx2"], r"no column 'xx2' \(did you mean 'x2'\?\); it has x1, x2, x3"),
        (["x1", 3], r"column position below 3 \(x1, x2, x3\), got 3"),
        (["x1", -4], "column position below 3"),
        (["x1", True], "no column True"),
        (["x1", 1.0], "no column 1.0"),
        (agp.Affine(np.eye(3)), r"A of shape \(2, 3\) and b of shape \(2,\).*got \(3, 3\) and \(3,\)"),
        (agp.Affine(np.ones((2, 3)), np.zeros(3)), r"got \(2, 3\) and \(3,\)"),
        (agp.Affine([[np.nan, 0, 0], [0, 0, 0]]), "finite numbers in Affine"),
        (agp.Tabulated(np.zeros((3, 2))), r"aligned inputs of shape \(2, 2\) .*got \(3, 2\)"),
        (agp.Tabulated([[1.0, np.inf], [0.0, 0.0]]), "finite aligned inputs in Tabulated"),
        (agp.Learned, r"agp.Learned, got the class Learned"),
        (3, "expected a mapping to be column names, .*, got int"),
        ({"a": "x1"}, "expected a mapping to be column names, .*, got dict"),
    ],
)
def test_a_mapping_that_does_not_fit(spec, message):
    with unchecked(), pytest.raises(agp.SettingError, match=f"task 'fine'.*{message}"):
        prior(spec)


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: agp.Affine([["a"]]), r"Affine\(A=...\): expected an array of numbers"),
        (lambda: agp.Affine([[1.0]], "b"), r"Affine\(b=...\): expected an array of numbers"),
        (lambda: agp.Tabulated([[1.0], [1.0, 2.0]]), r"Tabulated\(X_bar\): expected an array of numbers"),
        (lambda: agp.Learned("cca"), "expected 'supervised' or 'pca', got 'cca'"),
        (lambda: agp.Learned(strength=-1.0), "expected a number >= 0, got -1.0"),
        (lambda: agp.Learned(strength=np.nan), "expected a number >= 0, got nan"),
        (lambda: agp.Learned(strength="1"), "expected a number >= 0, got '1'"),
    ],
)
def test_a_mapping_that_cannot_be(make, message):
    with unchecked(), pytest.raises(agp.SettingError, match=message):
        make()


def broken(x):
    raise KeyError("no such table")


@pytest.mark.parametrize(
    "function, message",
    [
        (lambda x: x, r"expected the prior mapping <lambda> to return shape \(2, 2\) \(rows, .*got \(2, 3\)"),
        (lambda x: x[:, 0], r"got \(2,\). Keep the column's axis: x\[:, \[0\]\]"),
        (lambda x: x[:1, :2], r"got \(1, 2\)"),
        (lambda x: x[:, :2] / np.array([[1.0], [np.nan]]), r"returned \[nan nan\] at row 1; expected finite numbers"),
        (broken, r"the prior mapping broken failed on an array of shape \(2, 3\): KeyError: 'no such table'. It must"),
        (lambda x: "text", r"failed on an array of shape \(2, 3\): ValueError"),
        (lambda: 1, r"failed on an array of shape \(2, 3\): TypeError"),
    ],
)
def test_a_formula_that_fails(function, message):
    with pytest.raises(agp.DataError, match=message) as caught:
        prior(function).nominal(X, "fine")
    assert str(caught.value).startswith("task 'fine'")


def test_what_a_mapping_looks_like():
    shown = [agp.Columns("x1", 2), agp.Affine([[1.0]]), agp.Tabulated([1.0, 2.0]), agp.Learned("pca", 2.5)]
    assert list(map(repr, shown)) == [
        "Columns('x1', 2)",
        "Affine(A (1, 1), b (1,))",
        "Tabulated(X_bar (2, 1))",
        "Learned(init='pca', strength=2.5)",
    ]
