"""Double precision and one BLAS thread, inside the package's own calls and nowhere else."""

import os
import subprocess
import sys
import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from aligngp.runtime import computes, computing
from training import KEY, QUICK, case


def blas_threads() -> list[int]:
    """The number of threads of every BLAS in the process, asked without changing anything."""
    from threadpoolctl import ThreadpoolController

    return [library.num_threads for library in ThreadpoolController().select(user_api="blas").lib_controllers]


def precision() -> str:
    """What a float of JAX is now."""
    return jnp.zeros(()).dtype.name


@pytest.fixture
def single():
    """As outside of these tests: single precision, and more than one BLAS thread."""
    with jax.enable_x64(False), threadpool_limits(3, user_api="blas"):
        if not blas_threads() or max(blas_threads()) == 1:
            pytest.skip("this BLAS has one thread at most")
        before = blas_threads()
        assert precision() == "float32"
        yield before
        assert blas_threads() == before
        assert precision() == "float32"


def inside() -> bool:
    """Whether double precision and one BLAS thread are in force."""
    return precision() == "float64" and set(blas_threads()) == {1}


def test_both_are_entered_and_left(single):
    with computing():
        assert inside()
    assert blas_threads() == single


def test_both_are_left_after_an_exception(single):
    with pytest.raises(ZeroDivisionError), computing():
        assert inside()
        raise ZeroDivisionError
    assert blas_threads() == single
    with pytest.raises(KeyboardInterrupt), computing():
        raise KeyboardInterrupt
    assert blas_threads() == single


def test_they_can_be_nested(single):
    with computing():
        with computing():
            assert inside()
        assert inside()
        with pytest.raises(ValueError), computing():
            raise ValueError
        assert inside()
    assert blas_threads() == single


def test_a_function_is_run_inside_and_keeps_its_name(single):
    @computes
    def total(a: int, *, b: int = 1) -> tuple[int, bool]:
        """Add."""
        return a + b, inside()

    assert total(2, b=3) == (5, True)
    assert (total.__name__, total.__doc__) == ("total", "Add.")


@pytest.mark.parametrize("first_leaves_first", [True, False])
def test_threads_that_overlap_leave_what_they_found(single, first_leaves_first):
    found, entered = {}, [threading.Event(), threading.Event()]
    leave = [threading.Event(), threading.Event()]

    def work(number):
        with jax.enable_x64(False):  # a thread's own: a new one does not inherit it
            with computing():
                entered[number].set()
                leave[number].wait(60)
                found[number] = inside()
            found[f"after {number}"] = precision()

    workers = [threading.Thread(target=work, args=(number,)) for number in (0, 1)]
    for number, worker in enumerate(workers):
        worker.start()
        assert entered[number].wait(60)
    assert precision() == "float32"  # a thread's own
    order = (0, 1) if first_leaves_first else (1, 0)
    leave[order[0]].set()
    workers[order[0]].join()
    assert set(blas_threads()) == {1}  # one of them is still inside
    leave[order[1]].set()
    workers[order[1]].join()
    assert blas_threads() == single
    assert found[0] and found[1]
    assert found["after 0"] == found["after 1"] == "float32"
    with computing():  # and the main thread can still have its turn
        assert inside()


def test_it_may_be_entered_from_a_thread_that_ends(single):
    """The thread that limited the BLAS is gone when the last one leaves."""
    entered, proceed = threading.Event(), threading.Event()

    def hold():
        with computing():
            entered.set()
            proceed.wait(60)

    holder = threading.Thread(target=hold)
    holder.start()
    assert entered.wait(60)
    with computing():
        proceed.set()
        holder.join()
        assert inside()
    assert blas_threads() == single


def test_it_works_without_compilation():
    with jax.enable_x64(False), jax.disable_jit(), computing():
        assert precision() == "float64"
        from aligngp.fit.adam import train

        problem = case(1)
        model, history = train(problem.start(), problem.data(), KEY, 0, replace_iterations(2))
    compiled, expected = train(problem.start(), problem.data(), KEY, 0, replace_iterations(2))
    np.testing.assert_allclose(history.objective, expected.objective, rtol=1e-10)
    np.testing.assert_allclose(model.latents[0].mean, compiled.latents[0].mean, atol=1e-10)


def replace_iterations(number):
    from dataclasses import replace

    return replace(QUICK, iterations=number)


@pytest.mark.parametrize(
    "first",
    [
        "import aligngp",
        "import numpy, aligngp",
        "import scipy.linalg, aligngp",
        "import jax, aligngp",
        "import sklearn.cluster",
    ],
)
def test_the_order_of_imports_does_not_matter(first):
    script = (
        f"{first}\n"
        "from aligngp.runtime import computing\n"
        "import numpy, scipy.linalg, jax, jax.numpy as jnp\n"
        "from threadpoolctl import ThreadpoolController\n"
        "def threads():\n"
        "    return [one.num_threads for one in ThreadpoolController().select(user_api='blas').lib_controllers]\n"
        "before = threads()\n"
        "with computing():\n"
        "    for library in (jnp, numpy, scipy):\n"
        "        library.linalg.cholesky(numpy.eye(3))\n"
        "    print(sorted(set(threads())), jnp.zeros(()).dtype)\n"
        "print(threads() == before, jnp.zeros(()).dtype, jax.config.jax_enable_x64)\n"
    )
    environment = {key: value for key, value in os.environ.items() if key != "JAX_ENABLE_X64"}
    environment["OPENBLAS_NUM_THREADS"] = "2"
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["[1] float64", "True float32 False"]
