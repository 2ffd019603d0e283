"""CSV files as people and programs write them."""

import io

import numpy as np
import pandas as pd
import pytest

import aligngp as agp
from aligngp.data.files import read_table

READ = {
    "commas": ("a,b\n1,2.5\n", {"a": [1], "b": [2.5]}),
    "semicolons and decimal commas": ("a;b\n1,5;2\n-3;,25\n", {"a": [1.5, -3.0], "b": [2.0, 0.25]}),
    "semicolons and decimal points": ("a;b\n1.5;2\n", {"a": [1.5], "b": [2]}),
    "exponents": ("a;b\n1,5e-3;2E4\n", {"a": [0.0015], "b": [2e4]}),
    "tabs": ("a\tb\n1\t2,5\n", {"a": [1], "b": [2.5]}),
    "bars": ("a|b\n1|2\n", {"a": [1], "b": [2]}),
    "space": ("a , b\n 1 , 2.5 \n", {"a": [1], "b": [2.5]}),
    "names in quotes": ('"a, [m]";"b;c"\n1;2\n', {"a, [m]": [1], "b;c": [2]}),
    "text with the separator": ('a;b\n"u;v";1,25\n', {"a": ["u;v"], "b": [1.25]}),
    "lines of Windows": ("a,b\r\n1,2\r\n", {"a": [1], "b": [2]}),
    "lines of an old Mac": ("a,b\r1,2\r", {"a": [1], "b": [2]}),
    "empty lines": ("\n\na\n1\n\n2\n", {"a": [1, 2]}),
    "no end of the last line": ("a,b\n1,2", {"a": [1], "b": [2]}),
    "a last separator": ("a,b,\n1,2,\n", {"a": [1], "b": [2]}),
    "Excel's first line": ("sep=;\na;b\n1;2\n", {"a": [1], "b": [2]}),
    "comments": ("# Case 3\n# 2024\na,b\n1,2\n", {"a": [1], "b": [2]}),
    "one column": ("a\n1\n2\n", {"a": [1, 2]}),
    "names alone": ("a,b\n", {"a": [], "b": []}),
    "some names are numbers": ("400,410,y\n1,2,3\n", {"400": [1], "410": [2], "y": [3]}),
    "missing": ("a,b\n1,NA\n,2\n", {"a": [1, None], "b": [None, 2]}),
}


@pytest.fixture
def file(tmp_path):
    def made(content: str | bytes, name: str = "t.csv"):
        (tmp_path / name).write_bytes(content.encode() if isinstance(content, str) else content)
        return tmp_path / name

    return made


@pytest.mark.parametrize("content, expected", READ.values(), ids=READ.keys())
def test_what_is_read(file, content, expected):
    assert read_table(file(content)).to_pydict() == expected


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_unicode(file, encoding):
    assert read_table(file("ζ,b\n1,2\n".encode(encoding))).to_pydict() == {"ζ": [1], "b": [2]}


def test_what_excel_writes_in_the_west_is_read_with_a_warning(file):
    path = file("Länge;b\n1,5;2\n".encode("cp1252"))
    with pytest.warns(agp.AligngpWarning, match=r"t\.csv: not in UTF-8, read as Windows-1252. Check the column names"):
        assert read_table(path).to_pydict() == {"Länge": [1.5], "b": [2]}


def test_what_numpy_and_pandas_write(file):
    values = np.random.default_rng(0).normal(size=(3, 2))
    text = io.StringIO()
    np.savetxt(text, values, delimiter=",", header="a,b", fmt="%.17g")
    expected = {"a": values[:, 0].tolist(), "b": values[:, 1].tolist()}
    assert read_table(file(text.getvalue())).to_pydict() == expected
    european = pd.DataFrame(expected).to_csv(index=False, sep=";", decimal=",")
    assert read_table(file(european)).to_pydict() == expected


def test_tabs_by_the_suffix(file):
    assert read_table(file("a,b\tc\n1\t2\n", "t.tsv")).to_pydict() == {"a,b": [1], "c": [2]}


WRONG = {
    "blank": (" \n\n", "the file is empty"),
    "no names": ("1.5,2\n3,4\n", r"its first line holds the numbers '1\.5', '2', expected column names"),
    "decimal commas among commas": ("a,b\n1,5,2\n", r"Row #2: Expected 2 columns, got 3.*need semicolons"),
    "decimal commas in quotes": ('a,b\n"1,5",2\n', "column 'a' has decimal commas in a file with commas between"),
    "both signs": ("a;b\n1,5;2.5\n", "column 'a' has decimal commas and column 'b' decimal points"),
    "a short line": ("a;b\n1;2\n3\n", r"Row #3: Expected 2 columns, got 1: 3\. .* as the first, with ';' between\.$"),
    "an index without name": (",a\n0,1\n", r"column 1 has no name.*to_csv\(\.\.\., index=False\)"),
    "a name twice": ("a, a\n1,2\n", "several columns of the name 'a'"),
    "not text": (b"\x00\x01\x02", "this is not a text file"),
}


@pytest.mark.parametrize("content, told", WRONG.values(), ids=WRONG.keys())
def test_what_is_refused(file, content, told):
    with pytest.raises(agp.DataError, match=told) as error:
        read_table(file(content))
    assert "t.csv: " in str(error.value)
    assert "\n" not in str(error.value)
