"""Files from strangers: whatever stands in them, they are read or refused with one of our errors, and run no code.

What fuzzing found stands below as tests of its own.
"""

import io
import json
import struct
import tracemalloc
import warnings
import zipfile

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import aligngp as agp
from aligngp import storage
from aligngp.data import sealed, sizes
from aligngp.data.parquet import open_dataset
from aligngp.job import read_job
from estimators import unchecked
from jobs import FULL
from strangers import damaged, descriptions
from streams import table

MANY = settings(
    max_examples=150, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck), database=None
)


@pytest.fixture(autouse=True)
def _as_users_run_it():
    with unchecked():
        yield


def make_models(folder):
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(20, 2))
    y = np.sin(3.0 * X[:, 0]) + X[:, 1]
    sparse = {"calibration": "bayes", "inference": "collapsed", "num_inducing": 3, "max_iterations": 2}
    for name, keywords in (("sparse", sparse), ("mixture", {"hyperparameters": "map"})):
        gp = agp.AlignedGP("coarse", mappings={"fine": ["x1"]}, progress=False, **keywords)
        gp.fit({"fine": (X[:6], y[:6]), "coarse": (X[:, :1], y)}).save(folder / f"{name}.agp")


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """Descriptions and arrays of a sparse model and of a mixture of exact GPs."""
    folder = tmp_path_factory.mktemp("models")
    make_models(folder)
    return {name: storage.read(folder / f"{name}.agp") for name in ("sparse", "mixture")}


def used(path, predicts):
    """Read a model file and predict; only our errors go out.

    What a mixture holds is looked at when it is read, but not down to every number of its forms: its predictions are
    not asked for.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            gp = agp.load(path)
        except agp.AligngpError as error:
            assert len(str(error)) < 2000
            return None
        try:
            for task, inputs in (("fine", [[0.1, 0.2]]), ("coarse", [[0.3]])) if predicts else ():
                gp.predict(task, inputs)
        except agp.AligngpError:
            return None
    return gp


@pytest.mark.parametrize("kind", ["sparse", "mixture"])
def test_a_model_file_with_other_contents_is_read_or_refused(models, tmp_path, kind):
    path, seen = tmp_path / "model.agp", {True: 0, False: 0}

    @MANY
    @given(st.data())
    def check(data):
        path.write_bytes(data.draw(descriptions(*models[kind])))
        seen[used(path, kind == "sparse") is not None] += 1

    check()
    assert seen[False] > 10 and seen[True] > 10


def test_a_damaged_model_file_is_refused(models, tmp_path):
    description, tensors = models["sparse"]
    content = sealed.seal(json.dumps(description), tensors)
    path = tmp_path / "model.agp"

    @MANY
    @given(st.data())
    def check(data):
        changed = data.draw(damaged(content))
        path.write_bytes(changed)
        if changed == content:
            return
        with pytest.raises(agp.ModelFileError):
            agp.load(path)

    check()


def test_sizes_that_a_model_file_claims_are_not_believed(tmp_path):
    path = tmp_path / "model.agp"
    for claimed in (10**15, 2**40):
        header = json.dumps(
            {
                "a": {"dtype": "F64", "shape": [claimed], "data_offsets": [0, 8 * claimed]},
                "__metadata__": {"aligngp": "{}"},
            }
        ).encode()
        path.write_bytes(struct.pack("<Q", len(header)) + header + bytes(64))
        tracemalloc.start()
        with pytest.raises(agp.ModelFileError):
            agp.load(path)
        assert tracemalloc.get_traced_memory()[1] < 2**22
        tracemalloc.stop()
    path.write_bytes(struct.pack("<Q", 2**62) + b"{}")
    with pytest.raises(agp.ModelFileError):
        agp.load(path)


@pytest.mark.parametrize(
    "node", [{"class": "os.system", "fields": {"command": "true"}}, {"class": "Settings", "fields": {}}]
)
def test_only_parts_of_models_are_built(models, tmp_path, node):
    description, tensors = models["sparse"]
    description = json.loads(json.dumps(description))
    description["parts"][0]["model"]["latents"] = node
    (tmp_path / "model.agp").write_bytes(sealed.seal(json.dumps(description), tensors))
    with pytest.raises(agp.ModelFileError, match="a part that this version does not know"):
        agp.load(tmp_path / "model.agp")


@pytest.mark.parametrize(
    "way, value",
    [
        (("parts", 0, "model", "mixing"), 3),
        (
            ("parts", 0, "model", "latents"),
            {"class": "SquaredExponential", "fields": {"lengthscale": 1, "variance": 1}},
        ),
        (("parts", 0, "model", "mappings", "tuple"), []),
        (("parts", 0, "model", "likelihoods", "tuple", 0, "fields", "variance"), {"tuple": []}),
        (("parts", 0, "frame", "common"), 7),
        (("parts", 0, "frame", "inputs"), []),
        (("parts", 0, "rows"), [1]),
        (("parts", 0, "frame", "priors", 0, "positions"), [5]),
    ],
)
def test_contents_that_do_not_fit_together_are_told_at_loading(models, tmp_path, way, value):
    """Each of these was loaded once, and its first prediction failed with an error of Python's."""
    description, tensors = models["sparse"]
    node = description = json.loads(json.dumps(description))
    for key in way[:-1]:
        node = node[key]
    node[way[-1]] = value
    (tmp_path / "model.agp").write_bytes(sealed.seal(json.dumps(description), tensors))
    with pytest.raises(agp.ModelFileError, match=r"does not fit its contents|is not what it must be"):
        agp.load(tmp_path / "model.agp")


# Job files.


def test_a_damaged_job_is_read_or_refused(tmp_path):
    path = tmp_path / "job.toml"

    @MANY
    @given(st.data())
    def check(data):
        path.write_bytes(data.draw(damaged(FULL.encode())))
        try:
            read_job(path)
        except agp.AligngpError as error:
            assert str(path) in str(error)

    check()


@pytest.mark.parametrize(
    "text, words",
    [
        ("a = " + "[" * 100_000, "too deeply"),
        ("a = " + "[" * 100_000 + "]" * 100_000, "too deeply"),
        ("[tasks]\na = " + "{a=" * 5000 + "1" + "}" * 5000, "too deeply"),
        ("a." * 20_000 + "b = 1", r"job\.toml:1: a key of a hundred names"),
        ("[tasks]\n" + '"a" . ' * 200 + "b = 1", r"job\.toml:2: a key of a hundred names"),
        ("a = '" + "x" * 2**20 + "'", "expected a job file of at most 1048576"),
    ],
)
def test_jobs_that_would_cost_much_are_refused_at_once(tmp_path, text, words):
    path = tmp_path / "job.toml"
    path.write_text(text)
    with pytest.raises(agp.SettingError, match=words):
        read_job(path)


def test_a_job_may_be_kept_to_its_folder(tmp_path):
    inside = tmp_path / "inside"
    inside.mkdir()
    agp.write_table(table(5), tmp_path / "outside.csv")
    agp.write_table(table(5), inside / "a.csv")
    (inside / "link.csv").symlink_to(tmp_path / "outside.csv")
    for name in ("../outside.csv", str(tmp_path / "outside.csv"), "link.csv", "memory://x.parquet", "../*.parquet"):
        (inside / "job.toml").write_text(f'output = "zeta"\n[tasks]\na = "{name}"\n')
        read_job(inside / "job.toml")
        with pytest.raises(agp.SettingError, match=r"job\.toml: task 'a': .* is not in the job's folder"):
            read_job(inside / "job.toml", confined=True)
    (inside / "job.toml").write_text('output = "zeta"\n[tasks]\na = "./a.csv"\n[test]\na = "../outside.csv"\n')
    with pytest.raises(agp.SettingError, match="is not in the job's folder"):
        read_job(inside / "job.toml", confined=True)
    (inside / "job.toml").write_text('output = "zeta"\n[tasks]\na = "./a.csv"\n')
    assert read_job(inside / "job.toml", confined=True).read()[0]["a"].X.num_rows == 5


# Tables.


def read_any(path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return agp.read_table(path)
        except agp.AligngpError as error:
            assert path.name in str(error)
            return None


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".parquet", ".feather", ".npz"])
def test_a_damaged_table_is_read_or_refused(tmp_path, suffix):
    path = tmp_path / f"table{suffix}"
    agp.write_table(table(60), path)

    whole = path.read_bytes()

    @MANY
    @given(st.data())
    def check(data):
        path.write_bytes(data.draw(st.one_of(damaged(whole), st.binary(max_size=200))))
        read_any(path)

    check()


def test_a_damaged_stream_is_read_or_refused(tmp_path):
    path = tmp_path / "a.parquet"
    parquet.write_table(table(300), path, row_group_size=50)

    whole = path.read_bytes()

    @MANY
    @given(st.data())
    def check(data):
        path.write_bytes(data.draw(damaged(whole)))
        try:
            dataset = open_dataset(agp.Parquet(path, "zeta"), "coarse")
            for group in range(len(dataset.groups)):
                assert np.isfinite(dataset.read(group)).all()
        except agp.AligngpError as error:
            assert "a.parquet" in str(error)

    check()


def test_a_table_that_becomes_too_large_is_refused_by_its_footer(tmp_path, monkeypatch):
    """Runs of equal values: some kilobytes that would take half a gigabyte."""
    path = tmp_path / "a.parquet"
    rows = pa.table({"x1": np.zeros(2_000_000), "zeta": np.zeros(2_000_000)})
    parquet.write_table(rows, path)
    assert path.stat().st_size < 100_000
    monkeypatch.setattr(sizes, "memory", lambda: 2**24)
    for read in (agp.read_table, lambda path: agp.AlignedGP().fit({"a": agp.Parquet(path, "zeta", stream=False)})):
        with pytest.raises(agp.DataError, match=r"a\.parquet: it would take .* GiB in memory, more than half"):
            read(path)


def test_archives_that_unpack_far_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(sizes, "ALWAYS", 2**16)
    for name in ("a.npz", "a.xlsx"):
        path = tmp_path / name
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("x.npy", bytes(2**22))
        with pytest.raises(agp.DataError, match=rf"{name}: \d+ bytes become 4194304, which no honest table does"):
            agp.read_table(path)


@pytest.mark.parametrize("rows", [10**12, 11])
def test_an_array_that_claims_another_size_is_refused(tmp_path, rows):
    content = io.BytesIO()
    np.lib.format.write_array_header_1_0(content, {"descr": "<f8", "fortran_order": False, "shape": (rows,)})
    path = tmp_path / "a.npz"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("x1.npy", content.getvalue() + bytes(80))
    with pytest.raises(agp.DataError, match=rf"array 'x1' says that it has {8 * rows} bytes, and there are 80"):
        agp.read_table(path)
