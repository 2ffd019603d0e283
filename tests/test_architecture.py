"""The house keeps its order: who imports whom, what is never used, what importing must not do."""

import ast
import json
import os
import subprocess
import sys
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src"
PACKAGE = "aligngp"

# From the ground up: a module imports only from rungs that stand before its own. A folder is one rung.
ORDER = (
    "typing errors threads cache runtime parameters data datasets kernels linalg gaussian dense gp mappings "
    "likelihoods model objective frame settings fit ensemble predict prediction parts storage archive metrics "
    "progress refits training_scores summary transfer trained findings suggest plots estimator loading optimization "
    "botorch paper report job serve sklearn cli"
).split()

PICKLES = {"pickle", "cPickle", "_pickle", "cloudpickle", "dill", "shelve", "marshal"}


def find_modules(source: Path) -> dict[str, Path]:
    """Dotted name -> file of every module of the package; a folder's `__init__` goes by the folder's name."""
    modules = {}
    for file in sorted((source / PACKAGE).rglob("*.py")):
        parts = file.relative_to(source).with_suffix("").parts
        modules[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = file
    return modules


def imports_of(name: str, modules: dict[str, Path]) -> set[tuple[int, str]]:
    """(line, dotted name) of every import that stays inside the package, wherever in the file it stands."""
    file = modules[name]
    found = []
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"), str(file))):
        if isinstance(node, ast.Import):
            found += [(node.lineno, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parts = name.split(".") if file.name == "__init__.py" else name.split(".")[:-1]
                base = ".".join([*parts[: len(parts) - node.level + 1], *filter(None, [node.module])])
            # `from folder import module` depends on the module, `from module import name` on the module too.
            for alias in node.names:
                inner = f"{base}.{alias.name}"
                found.append((node.lineno, inner if inner in modules else base))
    return {(line, target) for line, target in found if target.split(".")[0] == PACKAGE}


def rung(module: str) -> int:
    """Place in ORDER of a dotted module name."""
    name = module.split(".")[1]
    if name not in ORDER:
        raise AssertionError(
            f"'{module}' has no place in the house: the list ORDER in tests/test_architecture.py must be "
            f"extended by '{name}', after everything that it imports and before everything that imports it."
        )
    return ORDER.index(name)


def order_breaches(source: Path) -> list[str]:
    """One sentence for every import of something that stands below the importing module."""
    modules = find_modules(source)
    breaches = []
    for name in modules:
        if name == PACKAGE:
            continue
        own = rung(name)
        # What imports the package's root is left to the test for cycles: the root imports nearly everything.
        for line, target in sorted(imports_of(name, modules)):
            if target != PACKAGE and rung(target) > own:
                breaches.append(f"{modules[name].name}:{line}: {name} imports {target}, which stands below it")
    return breaches


def import_cycle(source: Path) -> list[str]:
    """The modules of one import cycle, empty where there is none."""
    modules = find_modules(source)
    graph = {name: {target for _, target in imports_of(name, modules)} for name in modules}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return error.args[1]
    return []


def forbidden_uses(file: Path) -> list[str]:
    """One entry for every pickle, eval or exec in a file."""
    found = []
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"), str(file))):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name.split(".")[0] for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names = [node.module.split(".")[0]]
        elif isinstance(node, ast.Call):
            if isinstance(node.func, ast.Name) and node.func.id in {"eval", "exec"}:
                found.append(f"{file.name}:{node.lineno}: {node.func.id}(")
            for keyword in node.keywords:
                if keyword.arg == "allow_pickle" and getattr(keyword.value, "value", True) is not False:
                    found.append(f"{file.name}:{node.lineno}: allow_pickle")
        found += [f"{file.name}:{node.lineno}: {name}" for name in names if name in PICKLES]
    return found


def write_package(folder: Path, files: dict[str, str]) -> Path:
    """A package of the same name made of the given files, for testing the tests' own tools."""
    for name, text in {"__init__.py": "", **files}.items():
        file = folder / PACKAGE / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return folder


def test_a_module_imports_only_from_above():
    assert order_breaches(SOURCE) == []


def test_imports_have_no_cycle():
    assert " -> ".join(import_cycle(SOURCE)) == ""


def test_no_pickle_eval_or_exec():
    assert [use for file in find_modules(SOURCE).values() for use in forbidden_uses(file)] == []


@pytest.mark.parametrize(
    "line",
    [
        "import aligngp.model",
        "import numpy, aligngp.model as m",
        "from aligngp.model import Model",
        "from aligngp import model",
        "from ..model import Model",
        "from .. import model",
        "def f():\n    from aligngp.model import Model",
    ],
)
def test_every_way_to_import_from_below_is_seen(tmp_path, line):
    source = write_package(tmp_path, {"model.py": "", "gp/__init__.py": "", "gp/sparse.py": line})
    (breach,) = order_breaches(source)
    assert "aligngp.gp.sparse imports aligngp.model" in breach


def test_imports_from_above_and_within_a_folder_are_allowed(tmp_path):
    sparse = "from aligngp.errors import DataError\nfrom .exact import g\nimport numpy\nfrom jax import model\n"
    files = {
        "errors.py": "",
        "gp/__init__.py": "from .sparse import f",
        "gp/exact.py": "",
        "gp/sparse.py": sparse,
    }
    source = write_package(tmp_path, files)
    assert order_breaches(source) == []
    assert import_cycle(source) == []


def test_an_unknown_module_is_sent_to_the_list(tmp_path):
    source = write_package(tmp_path, {"novelty.py": ""})
    with pytest.raises(AssertionError, match=r"list ORDER .* must be extended by 'novelty'"):
        order_breaches(source)


@pytest.mark.parametrize(
    "files",
    [
        {"gp/__init__.py": "", "gp/a.py": "from aligngp.gp import b", "gp/b.py": "from .a import f"},
        {"gp/__init__.py": "from .a import f", "gp/a.py": "from aligngp.gp import f"},
        {"__init__.py": "from .storage import load", "storage.py": "from aligngp import version"},
    ],
)
def test_a_cycle_is_found(tmp_path, files):
    cycle = import_cycle(write_package(tmp_path, files))
    assert len(cycle) == 3
    assert cycle[0] == cycle[-1]


@pytest.mark.parametrize(
    "text, seen",
    [
        ("import pickle", "pickle"),
        ("from cloudpickle import loads", "cloudpickle"),
        ("y = eval('1')", "eval("),
        ("exec('1')", "exec("),
        ("numpy.load(f, allow_pickle=True)", "allow_pickle"),
        ("numpy.load(f, allow_pickle=False); model.eval(); evaluation = 'pickle'", None),
    ],
)
def test_forbidden_uses_are_seen(tmp_path, text, seen):
    file = tmp_path / "one.py"
    file.write_text(text)
    assert forbidden_uses(file) == ([] if seen is None else [f"one.py:1: {seen}"])


def test_importing_the_package_is_light_and_leaves_jax_alone():
    script = (
        "import json, sys, aligngp, jax\n"
        "print(json.dumps([sorted({name.split('.')[0] for name in sys.modules}), jax.config.jax_enable_x64]))"
    )
    environment = {key: value for key, value in os.environ.items() if key != "JAX_ENABLE_X64"}
    done = subprocess.run(
        [sys.executable, "-c", script],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    loaded, x64 = json.loads(done.stdout)
    assert "aligngp" in loaded
    assert (
        set(loaded) & {"sklearn", "matplotlib", "plotly", "pandas", "polars", "gpjax", "typer", "fastapi", "pydantic"}
        == set()
    )
    assert x64 is False
