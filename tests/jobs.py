"""Job files that are right, and one for every mistake with what is said of it."""

FULL = """\
# a job
output = { fine = "zeta", coarse = "z" }
common = "coarse"

[tasks]
fine = "fine.csv"
coarse = "coarse.parquet"
third = { file = "sub/third.xlsx", output = "w", inputs = ["b", "a"], noise = 0.1, sheet = "Table" }

[mappings]
fine = ["x3", 1]
third = { affine = { A = [[1, 0], [0.5, 2]], b = [0, -1] } }

[test]
fine = { file = "test.csv", output = "zeta_true" }

[model]
seed = 3
calibration = { fine = "bayes" }
learning_rate = 1e-3
standardize = false
"""
SHORT = 'output = "zeta"\n[tasks]\nfine = "fine.csv"\ncoarse = "coarse.csv"\n'
NO_OUTPUT = SHORT.partition("\n")[2]

COLUMNS = r'expected a list of columns such as \["x3", "x4"\] \(names, or positions from 0\), "learned"'
MISTAKES = {
    "no task": ("", r"job\.toml: there is no task\. Write \[tasks\]"),
    "no task in tasks": ("\n[tasks]\n", r":2: there is no task\. Write"),
    "tasks are no table": ("tasks = 3", r":1: tasks: expected a table .* got 3"),
    "a task is no file": (SHORT.replace('"fine.csv"', "3"), r":3: tasks\.fine: expected the name of a file .* got 3"),
    "no file": (SHORT.replace('"fine.csv"', "{ noise = 1 }"), r":3: tasks\.fine has no file\. Write fine = { file"),
    "a key of a task": (
        SHORT.replace('"fine.csv"', '{ fil = "a" }'),
        r":3: unknown key 'fil' in tasks\.fine \(did you mean 'file'\?\)\. The accepted keys are 'file', 'output'",
    ),
    "noise": (
        SHORT.replace('"fine.csv"', '{ file = "a.csv", noise = -1 }'),
        r":3: tasks\.fine\.noise: expected a positive number .* got -1",
    ),
    "inputs": (
        SHORT.replace('"fine.csv"', '{ file = "a.csv", inputs = ["a",\n 3] }'),
        r":4: tasks\.fine\.inputs\.1: expected a list of column names, got 3",
    ),
    "a key at the top": (
        'comon = "a"\n' + SHORT,
        r":1: unknown key 'comon' \(did you mean 'common'\?\).*'output', 'co",
    ),
    "a key of the model at the top": ("seed = 1\n" + SHORT, r":1: unknown key 'seed', which stands under \[model\]"),
    "a key of the top in the model": (SHORT + "[model]\nmappings = {}", r":6: .*'mappings' in model, which stands at"),
    "common": ('common = "fin"\n' + SHORT, r":1: common: there is no task 'fin' \(did you mean 'fine'\?\)\. The tasks"),
    "no output": (NO_OUTPUT, r":2: task 'fine' has no output column\. Write output = "),
    "output of another task": ('output = { fin = "a" }\n' + NO_OUTPUT, r":1: output\.fin: there is no task 'fin'"),
    "output is no name": (
        "[output]\nfine = 1979-05-27\n" + NO_OUTPUT,
        r":2: output\.fine: expected .* got 1979-05-27",
    ),
    "a keyword": (SHORT + "[model]\n\nsead = 1", r":7: unknown key 'sead' in model \(did you mean 'seed'\?\).*'seed'"),
    "a keyword's value": (
        SHORT + "[model]\nseed = -1",
        r":6: model: seed: expected a whole number from 0 to 4294967295",
    ),
    "a choice": (SHORT + '[model]\ncalibration = "baies"', r":6: model: calibration: expected one of 'auto', 'none', "),
    "a kernel": (SHORT + '[model]\nkernel = "rbf"', r":6: model: kernel: expected one of 'se', .*got 'rbf'"),
    "a choice of no task": (
        SHORT + '[model]\ncalibration = { fin = "none" }',
        r":6: model\.calibration\.fin: there is no",
    ),
    "rows a step": (SHORT + "[model.batch_size]\nfine = 0", r":5: model: batch_size of task 'fine': expected a whole"),
    "a mapping of no task": (SHORT + '[mappings]\nfime = ["x"]', r":6: mappings\.fime: there is no task 'fime' \(did"),
    "a word for a mapping": (SHORT + '[mappings]\nfine = "x3"', rf':6: mappings\.fine: {COLUMNS}.* got "x3"'),
    "no columns": (SHORT + "[mappings]\nfine = []", rf":6: mappings\.fine: {COLUMNS}.* got \[\]"),
    "a column": (SHORT + "[mappings]\nfine = [\n1.5]", rf":7: mappings\.fine\.0: {COLUMNS}.* got 1\.5"),
    "a kind of mapping": (
        SHORT + "[mappings]\nfine = { afine = 1 }",
        r":6: unknown key 'afine' in mappings\.fine \(did ",
    ),
    "no A": (SHORT + "[mappings]\nfine = { affine = { b = [1] } }", r":6: mappings\.fine\.affine has no A\."),
    "rows of A": (
        SHORT + "[mappings]\nfine = { affine = { A = [[1, 2],\n[3]] } }",
        r":7: mappings\.fine\.affine\.A\.1: expected .*all of the same length, got \[3\]",
    ),
    "numbers of A": (
        SHORT + '[mappings]\nfine = { affine = { A = [[1, 2],\n\n[3, "a"]] } }',
        r":8: mappings\.fine\.affine\.A\.1: expected a list of rows of numbers.* got \[3, \"a\"\]",
    ),
    "length of b": (
        SHORT + "[mappings]\nfine = { affine = { A = [[1, 2], [3, 4]], b = [1] } }",
        r":6: mappings\.fine\.affine\.b: expected 2 numbers, one a row of A, got \[1\]",
    ),
    "a way to learn": (
        SHORT + '[mappings]\nfine = { learned = { init = "pcb" } }',
        r":6: mappings\.fine: Learned\(init=\.\.\.\): expected 'supervised' or 'pca', got 'pcb'",
    ),
    "test of no task": (SHORT + '[test]\nfinee = "a.csv"', r":6: test\.finee: there is no task 'finee' \(did you mean"),
    "stream": (
        SHORT.replace('"fine.csv"', '{ file = "a.parquet", stream = "yes" }'),
        r":3: tasks\.fine\.stream: expected true or false, got \"yes\"",
    ),
    "shards": (
        SHORT.replace('"fine.csv"', '{ file = "a.parquet", shards = 0 }'),
        r":3: tasks\.fine\.shards: expected a whole number >= 1, got 0",
    ),
    "a key of test": (SHORT + '[test]\nfine = { file = "a.csv", noise = 1 }', r":6: unknown key 'noise' in test\.fine"),
}
