"""A file is complete under its name, or the old one stays as it was."""

import os

import pytest

from aligngp.data.atomic import replacing, write_text


def test_a_file_is_replaced_at_the_end_alone(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("old")
    with replacing(path) as file:
        file.write(b"new")
        assert path.read_text() == "old"
    assert path.read_text() == "new"
    assert os.listdir(tmp_path) == ["a.txt"]


@pytest.mark.parametrize("call", ["replace", "fsync"])
@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt])
def test_what_fails_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch, call, error):
    path = tmp_path / "a.txt"
    path.write_text("old")

    def fail(*arguments):
        raise error("no space left on device")

    monkeypatch.setattr(os, call, fail)
    with pytest.raises(error, match="no space left"):
        write_text(path, "new")
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["a.txt"]


def test_text_is_written_in_utf_8(tmp_path):
    write_text(tmp_path / "a.txt", "ζ\n")
    assert (tmp_path / "a.txt").read_bytes() == "ζ\n".encode()
