"""The files around the package agree with one another and name no machine they were written on."""

import importlib.metadata
import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

import aligngp

ROOT = Path(__file__).parents[1]
PIN = re.compile(r"([a-z0-9-]+)==([0-9][a-z0-9.]*)")
MACHINE_PATH = re.compile(r"(?<![\w.])/(?:work|root|tmp|(?:home|Users)/[\w.-]+)/")
REGISTRY = re.compile(
    r"pypi\.org|pythonhosted\.org|anaconda\.org|npmjs\.(?:org|com)|--(?:extra-)?index[-]url|--find[-]links|/simple[/]",
    re.IGNORECASE,
)


def committed_texts() -> dict[str, str]:
    """Name -> text of every text file that is committed or about to be."""
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listing = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    contents = {name: (ROOT / name).read_bytes() for name in listing.split("\0") if (ROOT / name).is_file()}
    return {name: data.decode() for name, data in contents.items() if b"\0" not in data}


def lines_with(pattern: re.Pattern, texts: dict[str, str]) -> list[str]:
    """name:line: text of every line in which the pattern is found."""
    return [
        f"{name}:{number}: {line.strip()}"
        for name, text in texts.items()
        for number, line in enumerate(text.splitlines(), start=1)
        if pattern.search(line)
    ]


def pins() -> dict[str, str]:
    """Package -> pinned version; a line that is neither a pin nor a comment is an error."""
    found = {}
    for line in (ROOT / "constraints.txt").read_text().splitlines():
        if line.startswith("#"):
            continue
        match = PIN.fullmatch(line)
        assert match, f"constraints.txt: expected 'name==version', came {line!r}"
        found[match[1]] = match[2]
    return found


def project() -> dict:
    """The [project] table of pyproject.toml."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def run_make(*arguments: str) -> subprocess.CompletedProcess:
    """Run make apart from the make that may be running these tests."""
    if shutil.which("make") is None:
        pytest.skip("make is not installed")
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("MAKE", "MFLAGS"))}
    command = ["make", "--no-print-directory", *arguments]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


def test_no_file_names_a_place_on_a_machine():
    assert lines_with(MACHINE_PATH, committed_texts()) == []


def test_no_file_names_a_package_registry():
    assert lines_with(REGISTRY, committed_texts()) == []


@pytest.mark.parametrize("folder", ["work", "root", "tmp", "home/ada", "Users/ada"])
def test_a_machine_path_is_seen(folder):
    texts = {"a.md": f"one\nsee `/{folder}/data.csv`"}
    assert lines_with(MACHINE_PATH, texts) == [f"a.md:2: see `/{folder}/data.csv`"]
    assert lines_with(MACHINE_PATH, {"a.md": f"src/{folder}/x, ../{folder}/x and example.org/{folder}/x"}) == []


@pytest.mark.parametrize("parts", [("--index", "-url x"), ("https://PyPI", ".org/p"), ("https://host/simple", "/jax")])
def test_a_registry_is_seen(parts):
    assert len(lines_with(REGISTRY, {"a.txt": "".join(parts)})) == 1
    assert lines_with(REGISTRY, {"a.txt": "a simple/plain index of pypi packages"}) == []


def test_the_version_is_said_once():
    version = project()["version"]
    assert aligngp.__version__ == version
    assert importlib.metadata.version("aligngp") == version, "the installation is older than the source: make install"
    assert f'\nversion: "{version}"\n' in (ROOT / "CITATION.cff").read_text()


def test_the_changelog_has_a_place_for_what_comes_next():
    headings = re.findall(r"^## (.*)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert headings[0] == "[Unreleased]"


def test_every_requirement_has_a_pin_that_satisfies_it():
    pinned = pins()
    extras = project()["optional-dependencies"].values()
    for line in [*project()["dependencies"], *(line for lines in extras for line in lines)]:
        requirement = Requirement(line)
        name = canonicalize_name(requirement.name)
        if name != "aligngp":
            assert name in pinned, f"constraints.txt does not pin {name}: make constraints"
            assert requirement.specifier.contains(pinned[name]), f"{line} in pyproject.toml, {pinned[name]} pinned"


def test_jax_and_jaxlib_are_one_pair():
    assert pins()["jax"] == pins()["jaxlib"]


def test_the_old_jax_is_the_oldest_that_is_allowed():
    old = re.search(r"^OLDEST_JAX := (\S+)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    (requirement,) = (Requirement(line) for line in project()["dependencies"] if Requirement(line).name == "jax")
    assert old is not None
    assert min(Version(part.version) for part in requirement.specifier if part.operator == ">=") == Version(old[1])


def test_make_alone_lists_every_command():
    listed = re.findall(r"^  make (\S+)", run_make().stdout, re.MULTILINE)
    assert set(listed) >= {"help", "install", "demo", "test", "test-jaxlib", "stress", "lint", "docs", "bench", "clean"}


def test_make_refuses_an_old_python(tmp_path):
    python = tmp_path / "python3"
    python.write_text('#!/bin/sh\nif [ "$1" = --version ]; then echo Python 3.10.2; else exit 1; fi\n')
    python.chmod(0o755)
    done = run_make("install", f"PYTHON={python}", f"VENV={tmp_path / 'venv'}")
    assert done.returncode != 0
    assert "needs Python 3.11 or newer" in done.stderr
    assert "Python 3.10.2" in done.stderr
    missing = run_make("install", "PYTHON=no-such-python", f"VENV={tmp_path / 'venv'}")
    assert missing.returncode != 0
    assert "no 'no-such-python' here" in missing.stderr


@pytest.mark.parametrize(
    "command, stamp", [("install", ".installed-dev"), ("demo", ".installed-demo"), ("docs", ".installed-docs")]
)
def test_make_installs_again_only_when_its_inputs_changed(tmp_path, command, stamp):
    venv = tmp_path / "venv"
    (venv / "bin").mkdir(parents=True)
    (venv / "bin" / "pip").touch()
    (venv / stamp).touch()
    # Dry run: what would be done, with the stamp newer and then older than pyproject.toml.
    assert "pip install" not in run_make("-n", command, f"VENV={venv}").stdout
    os.utime(venv / stamp, (0, 0))
    assert "pip install" in run_make("-n", command, f"VENV={venv}").stdout
