"""The file itself: what goes in comes out, nothing half-written, and every damage is one clear error."""

import json
import os
import stat
import struct

import jax.numpy as jnp
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import aligngp as agp
from aligngp import storage
from aligngp.data import sealed
from aligngp.kernels import Linear, Matern12, Product, SquaredExponential, Sum
from aligngp.likelihoods import Gaussian
from aligngp.parameters import Positive, frozen, positive

DESCRIPTION = {"settings": {"seed": 3, "common": None}, "parts": []}
TENSORS = {
    "b.one": np.array(0.1),
    "a": np.arange(6.0).reshape(2, 3)[:, ::-1],
    "c": np.array([1, 2], np.int32),
    "empty": np.zeros((0, 2)),
}


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "model.agp"
    storage.write(path, DESCRIPTION, {name: np.array(value, order="C") for name, value in TENSORS.items()})
    return path


def reopened(path) -> tuple[dict, dict[str, str], dict[str, np.ndarray]]:
    """The description, all metadata and the tensors of a file, read without the package."""
    content = path.read_bytes()
    (length,) = struct.unpack("<Q", content[:8])
    metadata = json.loads(content[8 : 8 + length])["__metadata__"]
    return json.loads(metadata["aligngp"]), metadata, load_file(path)


def rewritten(path, description: dict, tensors: dict[str, np.ndarray], digest: str | None = None) -> None:
    """Write a file that is whole, but for what the test made wrong; its checksum is right unless one is given."""
    text = json.dumps(description)
    right = sealed.digest(text, tensors)
    save_file(tensors, path, metadata={"aligngp": text, "sha256": digest or right})


def test_what_goes_in_comes_out(file):
    header, tensors = storage.read(file)
    assert {name: header[name] for name in DESCRIPTION} == DESCRIPTION
    assert (header["format"], header["aligngp"]) == (1, agp.__version__)
    assert set(tensors) == set(TENSORS)
    for name, value in TENSORS.items():
        assert (tensors[name].shape, tensors[name].dtype) == (value.shape, value.dtype)
        np.testing.assert_array_equal(tensors[name], value)


@pytest.mark.parametrize(
    "node",
    [
        None,
        True,
        3,
        0.1,
        "text",
        (1, (2.5, None)),
        Gaussian(positive(0.3, 1e-6)),
        Gaussian(frozen(jnp.asarray(0.3))),
        Sum((Product((SquaredExponential(0.5, 2.0), Linear(jnp.array([1.0, 2.0])))), Matern12())),
    ],
)
def test_a_node_comes_back(node):
    tensors = {}
    described = json.loads(json.dumps(storage.encode(node, tensors, "part")))
    again = storage.decode(described, tensors)
    assert type(again) is type(node)
    stored = {}
    assert storage.encode(again, stored, "part") == described
    for name, value in tensors.items():
        assert value.shape == stored[name].shape
        np.testing.assert_array_equal(value, stored[name])


def test_a_number_keeps_its_shape_and_precision():
    tensors = {}
    described = storage.encode(Positive(jnp.asarray(0.1, "float32"), 1e-6), tensors, "noise")
    assert described == {"class": "Positive", "fields": {"raw": {"tensor": "noise.raw"}, "floor": 1e-6}}
    assert (tensors["noise.raw"].shape, tensors["noise.raw"].dtype) == ((), np.float32)
    assert storage.encode(np.float64(0.5), tensors, "x") == 0.5


def test_code_is_not_stored():
    with pytest.raises(agp.ModelFileError, match=r"cannot store part.1: function is not part of the file format"):
        storage.encode((1, lambda x: x), {}, "part")


@pytest.mark.parametrize("name", ["Model", "os.system", "", None, "Foreign"])
def test_only_known_classes_are_built(name):
    with pytest.raises(agp.ModelFileError, match="a part that this version does not know"):
        storage.decode({"class": name, "fields": {}}, {})


@pytest.mark.parametrize("length", [0, 4, 8, 100, 400, -1])
def test_a_truncated_file(file, length):
    content = file.read_bytes()
    file.write_bytes(content[:length])
    with pytest.raises(agp.ModelFileError, match=r"model.agp: not a complete aligngp model file.*truncated"):
        agp.load(file)


def test_random_bytes(file):
    file.write_bytes(np.random.default_rng(0).bytes(2000))
    with pytest.raises(agp.ModelFileError, match="not a complete aligngp model file"):
        agp.load(file)


def test_a_pickle_is_not_read(file):
    file.write_bytes(b"\x80\x04\x95\x0b\x00\x00\x00\x00\x00\x00\x00}\x94\x8c\x01a\x94K\x01s.")
    with pytest.raises(agp.ModelFileError, match="not a complete aligngp model file"):
        agp.load(file)


def test_a_file_of_another_program(file):
    save_file({"weight": np.zeros(3)}, file, metadata={"format": "pt"})
    with pytest.raises(agp.ModelFileError, match="a safetensors file, but not of aligngp"):
        agp.load(file)
    save_file({"weight": np.zeros(3)}, file)
    with pytest.raises(agp.ModelFileError, match="a safetensors file, but not of aligngp"):
        agp.load(file)


def test_a_newer_format_says_what_to_install(file):
    description, _, tensors = reopened(file)
    rewritten(file, {**description, "format": 2, "aligngp": "9.8.7"}, tensors, digest="made in another way")
    with pytest.raises(agp.ModelFileError, match=r"by aligngp 9.8.7 in file format 2.*up to 1. Install a newer"):
        agp.load(file)


@pytest.mark.parametrize("found", [0, -1, "1", None, 1.5])
def test_a_format_that_cannot_be(file, found):
    description, _, tensors = reopened(file)
    rewritten(file, {**description, "format": found}, tensors)
    with pytest.raises(agp.ModelFileError, match="its description is damaged"):
        agp.load(file)


@pytest.mark.parametrize("text", ["", "{", "[1]", "null", '{"parts": []}', "[" * 20_000])
def test_a_damaged_description(file, text):
    save_file({}, file, metadata={"aligngp": text, "sha256": sealed.digest(text, {})})
    with pytest.raises(agp.ModelFileError, match="its description is damaged"):
        agp.load(file)


@pytest.mark.parametrize("change", ["value", "shape", "dtype", "name", "missing", "more"])
def test_tensors_are_those_that_were_saved(file, change):
    description, metadata, tensors = reopened(file)
    if change == "value":
        tensors["a"][0, 0] += 1e-12
    elif change == "shape":
        tensors["a"] = tensors["a"].reshape(3, 2)
    elif change == "dtype":
        tensors["c"] = tensors["c"].view(np.uint32)
    elif change == "more":
        tensors["d"] = np.zeros(1)
    else:
        value = tensors.pop("a")
        if change == "name":
            tensors["z"] = value
    save_file(tensors, file, metadata=metadata)
    with pytest.raises(agp.ModelFileError, match=r"not those that were saved \(wrong checksum\)"):
        storage.read(file)
    assert description["format"] == 1


def test_a_flipped_bit(file):
    content = bytearray(file.read_bytes())
    content[-3] ^= 1
    file.write_bytes(content)
    with pytest.raises(agp.ModelFileError, match="wrong checksum"):
        agp.load(file)


def test_a_changed_description(file):
    description, metadata, tensors = reopened(file)
    rewritten(file, {**description, "settings": {"seed": 4}}, tensors, digest=metadata["sha256"])
    with pytest.raises(agp.ModelFileError, match="wrong checksum"):
        agp.load(file)


def test_no_file_and_no_folder(tmp_path):
    with pytest.raises(agp.ModelFileError, match=r"absent.agp: there is no such file. Expected one that gp.save"):
        agp.load(tmp_path / "absent.agp")
    with pytest.raises(agp.ModelFileError, match="there is no such file"):
        agp.load(tmp_path)
    with pytest.raises(agp.ModelFileError, match=r"the folder .*nowhere does not exist. Make it first"):
        storage.write(tmp_path / "nowhere" / "model.agp", DESCRIPTION, {})
    with pytest.raises(agp.ModelFileError, match=r"this is a folder. Name a file"):
        storage.write(tmp_path, DESCRIPTION, {})


@pytest.mark.parametrize("call", ["replace", "fsync"])
@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt])
def test_a_save_that_fails_leaves_the_old_file(file, monkeypatch, call, error):
    before = file.read_bytes()

    def fail(*arguments):
        raise error("no space left on device")

    monkeypatch.setattr(os, call, fail)
    with pytest.raises(error, match="no space left"):
        storage.write(file, {**DESCRIPTION, "more": 1}, {})
    assert file.read_bytes() == before
    assert os.listdir(file.parent) == ["model.agp"]


def test_a_save_replaces_the_old_file_as_any_program_would(file):
    mask = os.umask(0o022)
    try:
        storage.write(str(file), {**DESCRIPTION, "more": 1}, {})
    finally:
        os.umask(mask)
    assert storage.read(file)[0]["more"] == 1
    assert os.listdir(file.parent) == ["model.agp"]
    assert stat.S_IMODE(file.stat().st_mode) == 0o644


def test_not_a_number_is_not_written(tmp_path):
    with pytest.raises(ValueError, match="not JSON compliant"):
        storage.write(tmp_path / "model.agp", {"x": float("nan")}, {})
    assert os.listdir(tmp_path) == []
