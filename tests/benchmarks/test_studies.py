"""The studies' own cases: one thing changes, all else stays."""

import numpy as np
import pytest
from benchmarks.cases import CASES, sarcos
from test_cases import skip_without

from benchmarks import studies


@pytest.fixture(scope="module")
def plain():
    skip_without("sarcos", "sarcos_test.npz")
    return CASES["sarcos_a"](3)


@pytest.mark.parametrize("components", [12, 8])
def test_fewer_components_are_the_first_ones(plain, components):
    case = studies.VARIED[f"sarcos_a_d{components}"](3)
    for kept, full in ((case.tasks, plain.tasks), (case.test, plain.test)):
        np.testing.assert_array_equal(kept["tau7"][0], full["tau7"][0][:, :components])
        np.testing.assert_array_equal(kept["tau7"][1], full["tau7"][1])
        for one, other in zip(kept["tau4"], full["tau4"], strict=True):
            np.testing.assert_array_equal(one, other)
    affine = case.mappings["tau4"]
    X = case.tasks["tau4"][0]
    np.testing.assert_allclose(X @ affine.A.T + affine.b, sarcos.project(X)[:, :components], atol=1e-12)
    assert len(case.names["tau7"]) == components and str(components) in case.description


@pytest.mark.parametrize("torque", [1, 3])
def test_another_torque_has_the_same_rows(plain, torque):
    case = studies.VARIED[f"sarcos_a_tau{torque}"](3)
    own = f"tau{torque}"
    assert case.targets == (own,) and set(case.tasks) == {own, "tau7"} and f"torque {torque} " in case.description
    np.testing.assert_array_equal(case.tasks[own][0], plain.tasks["tau4"][0])
    np.testing.assert_array_equal(case.test[own][1], sarcos.arm().torques_test[:, torque - 1])
    rows = {tuple(x): torques for x, torques in zip(sarcos.arm().X, sarcos.arm().torques, strict=True)}
    np.testing.assert_array_equal(case.tasks[own][1], [rows[tuple(x)][torque - 1] for x in case.tasks[own][0]])
    np.testing.assert_array_equal(case.tasks["tau7"][0], plain.tasks["tau7"][0])
