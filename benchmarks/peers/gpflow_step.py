"""Time one Adam step of GPflow: a worker that a parent process can interleave with its own measurements.

Run inside the peer's environment. It prints `{"ready": true, ...}`, then reads one JSON command a line from
standard input and answers each with one JSON line, an error as `{"error": ...}`:

    {"case": "n106", "model": "g0", "form": "plain", "xla": false, "steps": 200, "chunk": 1, "seed": 0}

`case` is one of problems.CASES, `model` g0 or hsvlmc, `form` plain or lmc; `xla` compiles the step with XLA;
`chunk` steps run in one call of the compiled function (1: a Python loop around it, as GPflow's documentation
does); `form`, `xla`, `steps`, `chunk` and `seed` may be left out. Compiled steps are kept between commands.
Each command starts again from the initial values of the problem, and its warm-up is not timed. The answer
repeats the settings and adds

    seconds_per_step     mean over the steps
    first_call_seconds   trace, compile and first run of the step
    objective            bound (to be maximised) on all rows at the initial values and the problem's draw
    objective_after      the same after the steps
    gpflow, tensorflow, numpy, threads

`ALIGNGP_PEER_THREADS` (default 1) is the number of TensorFlow's threads; pinning to cores is the parent's
business. GPflow's own lmc form cannot be compiled by XLA (a loop over latents with a shape that is not
constant): that command is answered with an error.
"""

import json
import os
import sys
import time

THREADS = int(os.environ.get("ALIGNGP_PEER_THREADS", "1"))
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
for library in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[library] = str(THREADS)

import tensorflow as tf  # noqa: E402  (its libraries read the environment when they are loaded)

tf.config.threading.set_intra_op_parallelism_threads(THREADS)
tf.config.threading.set_inter_op_parallelism_threads(THREADS)
tf.get_logger().setLevel("ERROR")  # many compiled functions live here on purpose

import gpflow  # noqa: E402
import numpy as np  # noqa: E402
from gpflow.keras import tf_keras  # noqa: E402
from gpflow_models import FORMS, MODELS, Bound  # noqa: E402

from problems import CASES, problem  # noqa: E402

DEFAULTS = {"form": "plain", "xla": False, "steps": 200, "chunk": 1, "seed": 0}
VERSIONS = {
    "gpflow": gpflow.__version__,
    "tensorflow": tf.__version__,
    "numpy": np.__version__,
    "threads": THREADS,
}
WARM_UP_SECONDS = 0.5


class Step:
    """A compiled gradient and Adam update, its model, and the values that it starts from."""

    def __init__(self, case, model, form, xla, chunk, seed):
        values = problem(case, seed)
        # GPflow's jitter is absolute; at the initial values it is the problem's relative one
        gpflow.config.set_default_jitter(values["relative_jitter"] * float(values["variance"][0]))
        tf.random.set_seed(seed)
        self.chunk = chunk
        self.bound = Bound(values, model, form)
        self.variables = self.bound.trainable_variables
        # the legacy optimiser has TensorFlow's fused update: half the cost of the newer one's
        self.optimizer = tf_keras.optimizers.legacy.Adam(values["learning_rate"], epsilon=1e-8)
        eps = values["eps"][0]
        self.full = tf.function(lambda: -self.bound.full(eps))
        self.objective = float(self.full())
        # no gradient, no move: this only makes the slots, which must exist before a loop is traced
        self.optimizer.apply_gradients([(tf.zeros_like(variable), variable) for variable in self.variables])
        slots = self.optimizer.variables()
        self.state = [*self.variables, *slots]
        self.initial = [
            *(variable.numpy() for variable in self.variables),
            *(np.zeros_like(s.numpy()) for s in slots),
        ]
        self.run = tf.function(self._chunk if chunk > 1 else self._update, jit_compile=xla)
        start = time.perf_counter()
        self.run().numpy()
        self.first_call_seconds = time.perf_counter() - start
        self._warm_up(WARM_UP_SECONDS)

    def _update(self):
        """One step of Adam on the negative bound."""
        with tf.GradientTape() as tape:
            loss = self.bound.sampled()
        gradients = tape.gradient(loss, self.variables)
        self.optimizer.apply_gradients(zip(gradients, self.variables, strict=True))
        return loss

    def _chunk(self):
        """Several steps in one call."""
        loss = tf.zeros([], gpflow.default_float())
        for _ in tf.range(self.chunk):
            loss = self._update()
        return loss

    def _warm_up(self, seconds):
        """Run for a while: first calls cost more, and so does the first call after a pause."""
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            self.run().numpy()

    def measure(self, steps):
        """Seconds a step over `steps` steps from the initial values, and the bound that they reach."""
        self._warm_up(WARM_UP_SECONDS / 10)
        for variable, value in zip(self.state, self.initial, strict=True):
            variable.assign(value)
        calls = steps // self.chunk
        start = time.perf_counter()
        for _ in range(calls):
            loss = self.run()
        loss.numpy()
        seconds = (time.perf_counter() - start) / (calls * self.chunk)
        return seconds, float(self.full())


def settings_of(command):
    """The command with its defaults, or an error that says what is wrong with it."""
    settings = {**DEFAULTS, **command}
    known = {"case": tuple(CASES), "model": MODELS, "form": FORMS}
    for key, values in known.items():
        if settings.get(key) not in values:
            raise ValueError(f"{key} must be one of {', '.join(values)}; it is {settings.get(key)!r}.")
    unknown = sorted(set(settings) - set(known) - set(DEFAULTS))
    if unknown:
        raise ValueError(f"Unknown settings: {', '.join(unknown)}.")
    steps, chunk = settings["steps"], settings["chunk"]
    if chunk < 1 or steps < chunk or steps % chunk:
        raise ValueError(f"steps must be a multiple of chunk, both positive; they are {steps} and {chunk}.")
    return settings


def answer(line, kept):
    """Obey one command; `kept` holds compiled steps by their settings."""
    settings = settings_of(json.loads(line))
    key = tuple(settings[name] for name in ("case", "model", "form", "xla", "chunk", "seed"))
    if key not in kept:
        kept[key] = Step(*key)
    step = kept[key]
    seconds, after = step.measure(settings["steps"])
    return {
        **settings,
        "seconds_per_step": seconds,
        "first_call_seconds": step.first_call_seconds,
        "objective": step.objective,
        "objective_after": after,
        **VERSIONS,
    }


def main():
    """Answer commands until standard input ends."""
    kept = {}
    print(json.dumps({"ready": True, **VERSIONS}), flush=True)
    for line in sys.stdin:
        if not line.strip():
            continue
        try:
            reply = answer(line, kept)
        except Exception as error:  # the parent decides what a failed command means
            message = str(error).partition("\n")[0]
            reply = {"error": f"{type(error).__name__}: {message}", "command": line.strip()}
        print(json.dumps(reply), flush=True)


if __name__ == "__main__":
    main()
