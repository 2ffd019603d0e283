"""Trainings of HSVLMC-g0 by GPflow: `<python of the gpflow peer> benchmarks/peers/gpflow_train.py`.

One JSON command a line, one JSON answer a line (serving.py):

    {"case": "n106", "seed": 0, "method": "adam", "iterations": 5000, "chunk": 100, "xla": true}

`method` is adam (the paper's training), lbfgs (GPflow's Scipy optimiser on all rows) or natgrad (natural gradients
for q(u) by turns with Adam on the rest, `gamma` its step). All start from the values of problems.py, in the form that
is the fastest of gpflow_models.py ("plain"); `seconds` ends a training early. The answer has the times, the bound on
all rows at the end and on the way, and with `"parameters": true` the final values of what was trained.
"""

from serving import cold_and_warm, limit_threads, serve

limit_threads()

import os  # noqa: E402

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import tensorflow as tf  # noqa: E402  (its libraries read the environment when they are loaded)

tf.config.threading.set_intra_op_parallelism_threads(1)
tf.config.threading.set_inter_op_parallelism_threads(1)
tf.get_logger().setLevel("ERROR")

import gpflow  # noqa: E402
import numpy as np  # noqa: E402
from gpflow.keras import tf_keras  # noqa: E402
from gpflow_models import Bound  # noqa: E402

from problems import problem  # noqa: E402

DEFAULTS = {
    "seed": 0,
    "iterations": 5000,
    "learning_rate": 5e-3,
    "gamma": 1.0,
    "chunk": 1,
    "xla": False,
    "seconds": 1e9,
    "parameters": False,
}
LOOK = 100  # Adam: the bound on all rows after so many steps


class Training:
    """A bound at its initial values, and the way back to them."""

    def __init__(self, settings):
        values = problem(settings["case"], settings["seed"])
        # GPflow's jitter is absolute; at the initial values it is the problem's relative one
        gpflow.config.set_default_jitter(values["relative_jitter"] * float(values["variance"][0]))
        tf.random.set_seed(settings["seed"])
        self.settings = settings
        self.bound = Bound(values, "g0", "plain")
        self.variables = self.bound.trainable_variables
        self.loss = lambda: self.bound(self.bound.aligned[1], self.bound.y[1], 1.0, None)  # on all rows
        self.full = tf.function(lambda: -self.loss())
        self.initial = [variable.numpy() for variable in self.variables]

    def objective(self):
        """The bound on all rows."""
        return float(self.full())

    def restart(self):
        """Initial values again."""
        for variable, value in zip(self.variables, self.initial, strict=True):
            variable.assign(value)


class Stepped(Training):
    """Adam on everything, or natural gradients for q(u) and then Adam on the rest, in compiled chunks."""

    def __init__(self, settings):
        super().__init__(settings)
        latents = self.bound.latents
        self.pairs = list(zip(latents.q_mu, latents.q_sqrt, strict=True)) if settings["method"] == "natgrad" else []
        natural = {id(part.unconstrained_variable) for pair in self.pairs for part in pair}
        self.moved = [variable for variable in self.variables if id(variable) not in natural]
        # the legacy optimiser has TensorFlow's fused update: half the cost of the newer one's
        self.adam = tf_keras.optimizers.legacy.Adam(settings["learning_rate"], epsilon=1e-8)
        # no gradient, no move: this only makes the slots, which must exist before a loop is traced
        self.adam.apply_gradients([(tf.zeros_like(variable), variable) for variable in self.moved])
        self.natural = gpflow.optimizers.NaturalGradient(gamma=settings["gamma"])
        self.run = tf.function(self._chunk if settings["chunk"] > 1 else self._step, jit_compile=settings["xla"])

    def _step(self):
        if self.pairs:
            self.natural.minimize(self.bound.sampled, self.pairs)
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(self.moved)
            loss = self.bound.sampled()
        self.adam.apply_gradients(zip(tape.gradient(loss, self.moved), self.moved, strict=True))
        return loss

    def _chunk(self):
        loss = tf.zeros([], gpflow.default_float())
        for _ in tf.range(self.settings["chunk"]):
            loss = self._step()
        return loss

    def restart(self):
        """Initial values again, and none of Adam's memory."""
        super().restart()
        for slot in self.adam.variables():
            slot.assign(tf.zeros_like(slot))

    def train(self, clock):
        """All iterations; a bound that is not finite ends them."""
        chunk, total = self.settings["chunk"], self.settings["iterations"]
        if total % chunk:
            raise ValueError(f"iterations must be a multiple of chunk; they are {total} and {chunk}.")
        done = 0
        while done < total and not clock.over:
            loss = self.run()
            done += chunk
            if self.pairs or done % LOOK == 0 or done == total:
                if not np.isfinite(loss.numpy()):
                    raise FloatingPointError(f"The bound is {loss.numpy()} after {done} iterations.")
                clock.look(self.objective, always=not self.pairs or done == total)
        return done


class Lbfgs(Training):
    """GPflow's Scipy optimiser, compiled, on everything and all rows."""

    def __init__(self, settings):
        super().__init__(settings)
        self.optimiser = gpflow.optimizers.Scipy(compile_cache_size=2)

    def train(self, clock):
        """To SciPy's own end, the cap on iterations or the limit of the clock."""
        iterations = 0

        def watch(step, _variables, _values):
            nonlocal iterations
            iterations = step + 1
            clock.look(self.objective)
            if clock.over:
                raise StopIteration  # how SciPy is told to stop

        options = {"maxiter": self.settings["iterations"], "maxfun": 4 * self.settings["iterations"]}
        fun_args = {"jit_compile": self.settings["xla"]}
        self.optimiser.minimize(self.loss, self.variables, step_callback=watch, options=options, tf_fun_args=fun_args)
        clock.look(self.objective, always=True)
        return iterations


METHODS = {"adam": Stepped, "natgrad": Stepped, "lbfgs": Lbfgs}


def values_of(bound):
    """What was trained, by the names of problems.py, as lists."""
    latents = bound.latents
    values = {
        "Z": [inducing.Z for inducing in latents.inducing],
        "lengthscales": [kernel.lengthscales for kernel in latents.kernels],
        "variance": [kernel.variance for kernel in latents.kernels],
        "mixing": [latents.mixing],
        "noise": [likelihood.variance for likelihood in bound.likelihoods],
        "q_mu": [tf.concat([tf.convert_to_tensor(mean) for mean in latents.q_mu], 1)],
        "q_sqrt": [tf.concat([tf.convert_to_tensor(scale) for scale in latents.q_sqrt], 0)],
    }
    arrays = {name: np.stack([np.asarray(part) for part in parts]) for name, parts in values.items()}
    return {name: (a[0] if name in ("mixing", "q_mu", "q_sqrt") else a).tolist() for name, a in arrays.items()}


def answer(command):
    """Obey one command."""
    settings = {**DEFAULTS, **command}
    unknown = sorted(set(settings) - set(DEFAULTS) - {"case", "method"})
    if unknown or settings.get("method") not in METHODS:
        raise ValueError(f"method must be one of {', '.join(METHODS)}, and there is no setting {unknown}.")
    made = []

    def make():
        made.append(METHODS[settings["method"]](settings))
        return made[0]

    def train(training, clock):
        training.restart()
        return training.train(clock)

    found = cold_and_warm(make, train, settings["seconds"])
    if settings["parameters"]:
        found["values"] = values_of(made[0].bound)
    made[0].restart()
    return {**found, "objective_at_start": made[0].objective()}


if __name__ == "__main__":
    serve(answer, {"gpflow": gpflow.__version__, "tensorflow": tf.__version__, "numpy": np.__version__})
