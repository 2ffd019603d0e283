"""Commands as a user calls them, in the test's own process, and a finished run to start from."""

import shutil
import sys
from dataclasses import dataclass

import pytest

from aligngp.cli import main


@dataclass
class Done:
    """What a command left: exit code, standard output, standard error."""

    code: int
    out: str
    err: str


@pytest.fixture(autouse=True)
def _here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")


@pytest.fixture
def run(monkeypatch, capsys):
    def made(*arguments: str) -> Done:
        monkeypatch.setattr(sys, "argv", ["aligngp", *map(str, arguments)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main()
            raise SystemExit(0)
        said = capsys.readouterr()
        return Done(int(ended.value.code or 0), said.out, said.err)

    return made


@pytest.fixture(scope="session")
def finished(tmp_path_factory):
    """A folder in which ``aligngp init`` and ``aligngp fit job.toml`` were called."""
    folder = tmp_path_factory.mktemp("finished")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for arguments in (["init", "--quiet"], ["fit", "job.toml", "--quiet"]):
            patch.setattr(sys, "argv", ["aligngp", *arguments])
            with pytest.raises(SystemExit) as ended:
                main()
                raise SystemExit(0)
            assert not ended.value.code
    return folder


@pytest.fixture
def started(finished, tmp_path):
    """A copy of it, in which the test is."""
    shutil.copytree(finished, tmp_path, dirs_exist_ok=True)
    return tmp_path
