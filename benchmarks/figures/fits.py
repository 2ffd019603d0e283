"""What is drawn of single fits: made once, and kept as numbers in a small file."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

import aligngp as agp
from aligngp.data.atomic import write_text
from benchmarks import rows
from benchmarks.accuracy import revision, settings
from benchmarks.cases import CASES
from benchmarks.cases.instance import Instance

PARK_MODELS = ("HSVLMC-g0", "HSVLMC-EM", "HSVLMC", "HSVLMC-l1-KL0")
SHOWN_ROWS, GRID = 100, 200
SEED = 0


def kept(path: Path, say: Callable[[str], None], again: bool = False) -> dict[str, Any]:
    """Return what is in the file; what is not there yet is fitted first."""
    content = json.loads(path.read_text()) if path.exists() and not again else {}
    for name, make in {"noisy": noisy, "park": park}.items():
        if name not in content:
            say(f"fitting what is drawn of {name}, seed {SEED}")
            content[name] = make(SEED) | {"seed": SEED, "revision": revision(), **rows.environment()}
            write_text(path, json.dumps(content, separators=(",", ":")) + "\n")
    return content


def noisy(seed: int) -> dict[str, Any]:
    """Return HSVLMC's predictions of both tasks along x1 (x2 at its mean), and where its training rows stand."""
    instance = CASES["noisy"](seed)
    gp = fitted(instance, "HSVLMC", seed)
    (target,) = instance.targets
    X, y = instance.tasks[target]
    Z, source = instance.tasks[instance.common]
    x1 = np.linspace(min(X[:, 0].min(), Z.min()), max(X[:, 0].max(), Z.max()), GRID)
    at = {target: np.column_stack([x1, np.full(GRID, X[:, 1].mean())]), instance.common: x1[:, None]}
    X_test, y_test = instance.test[target]
    return {
        "model": "HSVLMC",
        "x1": plain(x1),
        "curves": {name: moments(gp.predict(name, points)) for name, points in at.items()},
        "training": {target: [plain(X[:, 0]), plain(y)], instance.common: [plain(Z[:, 0]), plain(source)]},
        "test": [plain(X_test[:, 0]), plain(y_test)],
        "prior": plain(gp.nominal(target, X)[:, 0]),
        "posterior": plain(gp.aligned(target, X)[0][:, 0]),
        "target": target,
        "common": instance.common,
    }


def park(seed: int) -> dict[str, Any]:
    """Return predictions at the first test rows, and prior and posterior aligned inputs of the training rows."""
    instance = CASES["park"](seed)
    (target,) = instance.targets
    X, _ = instance.tasks[target]
    X_test, y_test = (part[:SHOWN_ROWS] for part in instance.test[target])
    models = {}
    for model in PARK_MODELS:
        gp = fitted(instance, model, seed)
        mean, variance = gp.aligned(target, X)
        models[model] = {
            **moments(gp.predict(target, X_test)),
            "prior": plain(gp.nominal(target, X)),
            "posterior": plain(mean),
            "deviation": plain(np.sqrt(variance)),
        }
    columns = list(instance.names[instance.common])
    return {"columns": columns, "observed": plain(y_test), "source": plain(instance.tasks[instance.common][0])} | {
        "models": models
    }


def fitted(instance: Instance, model: str, seed: int) -> agp.AlignedGP:
    """Return a model as the benchmark fits it."""
    keywords, make = settings(instance, model, seed, None)
    tasks = {name: agp.Task(*table, names=list(instance.names[name])) for name, table in instance.tasks.items()}
    return make(**keywords).fit(tasks)


def moments(prediction: agp.Prediction) -> Mapping[str, Any]:
    """Return mean and standard deviation."""
    return {"mean": plain(prediction.mean), "std": plain(prediction.std)}


def plain(values: np.ndarray) -> Any:
    """Return numbers as JSON has them, with five digits."""
    array = np.asarray(values, float)
    return [plain(one) for one in array] if array.ndim > 1 else [float(f"{value:.5g}") for value in array]
