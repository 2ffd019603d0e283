"""Every key of a TOML text is found in its line."""

import tomllib

from aligngp.job.lines import find_lines

TEXT = """\
# a comment with [brackets] and "quotes
output = "zeta" # x = 1
text = \"\"\"a
b = "1"
\"\"\"\"
literal = '''
[no] # table'''
a.b."c d" = 1.5
[tasks]
fine = "f#i\\"ne.csv"
co = {file = "c.parquet", noise = 0.1, 'out put' = 1979-05-27T07:32:00}

  [ mappings . "x.y" ]
fine = [
  "x3", # a comment, with ] and }

  "x4",
]
m = {affine = {A = [[1, 0.5], [
 3, -4]], b = [1e-3, +0.5]}}
[[p.q]]
z = 1
[[p.q]]
z = {a = [], b = {}}
last = 2
"""
EXPECTED = {
    ("output",): 2,
    ("text",): 3,
    ("literal",): 6,
    ("a",): 8,
    ("a", "b"): 8,
    ("a", "b", "c d"): 8,
    ("tasks",): 9,
    ("tasks", "fine"): 10,
    ("tasks", "co"): 11,
    ("tasks", "co", "file"): 11,
    ("tasks", "co", "noise"): 11,
    ("tasks", "co", "out put"): 11,
    ("mappings",): 13,
    ("mappings", "x.y"): 13,
    ("mappings", "x.y", "fine"): 14,
    ("mappings", "x.y", "fine", 0): 15,
    ("mappings", "x.y", "fine", 1): 17,
    ("mappings", "x.y", "m"): 19,
    ("mappings", "x.y", "m", "affine"): 19,
    ("mappings", "x.y", "m", "affine", "A"): 19,
    ("mappings", "x.y", "m", "affine", "A", 0): 19,
    ("mappings", "x.y", "m", "affine", "A", 0, 0): 19,
    ("mappings", "x.y", "m", "affine", "A", 0, 1): 19,
    ("mappings", "x.y", "m", "affine", "A", 1): 19,
    ("mappings", "x.y", "m", "affine", "A", 1, 0): 20,
    ("mappings", "x.y", "m", "affine", "A", 1, 1): 20,
    ("mappings", "x.y", "m", "affine", "b"): 20,
    ("mappings", "x.y", "m", "affine", "b", 0): 20,
    ("mappings", "x.y", "m", "affine", "b", 1): 20,
    ("p",): 21,
    ("p", "q"): 21,
    ("p", "q", 0, "z"): 22,
    ("p", "q", 1, "z"): 24,
    ("p", "q", 1, "z", "a"): 24,
    ("p", "q", 1, "z", "b"): 24,
    ("p", "q", 1, "last"): 25,
}


def test_every_key_has_its_line():
    assert find_lines(TEXT) == EXPECTED


def test_the_keys_are_those_that_tomllib_finds():
    content = tomllib.loads(TEXT)
    for keys in EXPECTED:
        value = content
        for key in keys:
            value = value[key]


def test_a_text_without_keys_has_no_lines():
    assert find_lines("# nothing\n\n") == {}
