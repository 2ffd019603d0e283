"""What is made of rows: the complete table in Markdown and LaTeX, and what the rows say, against values by hand."""

import re

import numpy as np
import pytest
from benchmarks.cases.published import PUBLISHED
from benchmarks.compare import Pair, pair, scores
from benchmarks.studies import Study
from scipy.stats import wilcoxon

from benchmarks import accuracy_table, overview, reading, report, rows, studies


def made(case, model, smse, smll=None, **more):
    smll = [0.0] * len(smse) if smll is None else smll
    plain = {"case": case, "model": model, "iterations": "", "seconds": "90", "cpu_seconds": "60", "note": "", **more}
    return [
        {**plain, "seed": str(seed), "smse": str(a), "smll": str(b), "nu_g0": plain.get("nu_g0", "")}
        for seed, (a, b) in enumerate(zip(smse, smll, strict=True))
    ]


@pytest.fixture(autouse=True)
def _cases(monkeypatch):
    for module in (overview, reading):
        monkeypatch.setattr(module, "CASES", dict.fromkeys(("noisy", "a_case", "disk")))


def lines_of(text):
    """The cells of every line of every table."""
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("|")]


# ---- pairs --------------------------------------------------------------------------------------------------------


def test_pairs_are_of_the_seeds_that_both_have():
    first = scores(made("noisy", "A", [1.0, 2.0, 3.0]))["noisy", "A"]
    second = scores(made("noisy", "B", [0.0, 9.0])[1:] + made("noisy", "B", [0.5] * 5)[4:])["noisy", "B"]
    found = pair(first, second, "smse")
    np.testing.assert_array_equal(found.differences, [2.0 - 9.0])
    assert (found.pairs, found.lower, found.median, found.p, found.verdict) == (1, 1, -7.0, None, "none")


@pytest.mark.parametrize(
    "differences, verdict",
    [
        (-np.arange(1.0, 7.0), "yes"),  # p = 2 / 2^6
        (np.arange(1.0, 7.0), "no"),
        ([-1.0, 2.0, -3.0, 4.0, -5.0, 6.0], "open"),
        ([-1.0] * 5, "none"),
        (np.zeros(8), "open"),
    ],
)
def test_the_verdict_is_that_of_the_signed_rank_test(differences, verdict):
    found = Pair(np.array(differences))
    assert found.verdict == verdict
    if verdict == "yes":
        assert found.p == pytest.approx(wilcoxon(differences)[1]) == pytest.approx(2 / 64)


def test_failed_and_limited_fits_are_not_compared():
    found = made("noisy", "A", [1.0, 2.0]) + made("noisy", "A", [5.0], iterations="50")
    found[1]["smse"] = ""
    assert list(scores(found)["noisy", "A"]) == ["0"]


# ---- the complete table -------------------------------------------------------------------------------------------

DISK = made("disk", "SOGP", [1.0, 3.0], [4.0, 8.0]) + made("disk", "auto", [0.5, 0.25, 1.5], [-1.0, -2.0, 0.0])


def test_the_complete_table_in_markdown():
    table = lines_of(overview.markdown(DISK, ("SOGP", "HSVLMC", "auto")))
    assert table[0] == ["case", "SOGP", "HSVLMC", "auto"]
    deviation = np.std([0.5, 0.25, 1.5])
    assert table[2] == ["disk", "2.000 ± 1.000 (1 seeds fewer)", "", f"**0.750 ± {deviation:.3f}**"]
    assert table[3] == ["paper", "*0.907 ± 0.333*", "*0.033 ± 0.020*", ""]
    assert table[6] == ["disk", "6.00 ± 2.00 (1 seeds fewer)", "", "**-1.00 ± 0.82**"]
    assert table[7] == ["paper", "*16.25 ± 17.12*", "*-1.32 ± 0.74*", ""]


def test_the_complete_table_in_latex():
    text = overview.latex(DISK + made("a_case", "SOGP", [2.0]), ("SOGP", "auto"))
    assert r"a\_case & $\mathbf{2.000}_{\pm 0.000}$ &  \\" in text
    assert r"disk & $2.000_{\pm 1.000}^{(-1)}$ & $\mathbf{0.750}_{\pm 0.540}$ \\" in text
    assert r"paper & {\color{gray}$0.907_{\pm 0.333}$} &  \\" in text
    assert r"SMLL & \texttt{SOGP} & \texttt{auto} \\" in text
    assert text.count("{") == text.count("}") and text.count("$") % 2 == 0
    assert {line.count("&") for line in text.splitlines() if line.endswith(r"\\")} == {2}
    assert not re.search(r"(?<!\\)_(?!\{)", text.partition("\n\n")[2]), "a bare underscore ends in an error"


def test_tables_are_written_beside_the_rows(tmp_path, monkeypatch):
    monkeypatch.setattr(accuracy_table, "description", lambda case: "A disk.")
    monkeypatch.setattr(accuracy_table, "CASES", {"disk": None})
    more = {"rmse_over_test_sd": "1", "crps_over_test_sd": "1", "coverage95": "0.9"}
    for row in DISK:
        rows.append(tmp_path / "rows.csv", {**row, **more})
    markdown, latex = report.tables(tmp_path / "rows.csv")
    assert markdown == tmp_path / "rows.md" and latex == tmp_path / "rows.tex"
    assert "## disk\n\nA disk." in markdown.read_text() and "| SOGP | 2 |" in markdown.read_text()
    assert r"\begin{tabular}" in latex.read_text()


def test_the_papers_numbers_are_complete():
    models = ("SOGP", "HSVLMC-g0", "HSVLMC-EM", "HSVLMC")
    names = ("airfoil", "disk", "supernova", "sarcos_a", "sarcos_b", "exhaust")
    assert set(PUBLISHED) == {(case, model) for case in names for model in models}
    for case in names:  # the paper marks HSVLMC best in every line
        assert min(models, key=lambda model: PUBLISHED[case, model][0]) == "HSVLMC"
        assert min(models, key=lambda model: PUBLISHED[case, model][2]) == "HSVLMC"


# ---- what the rows say --------------------------------------------------------------------------------------------

UP = np.arange(1.0, 9.0)


def test_findings_hold_are_reversed_or_cannot_be_seen():
    found = made("noisy", "HSVLMC", UP) + made("noisy", "HSVLMC-g0", UP + UP / 10)
    found += made("a_case", "HSVLMC", UP + UP / 10) + made("a_case", "HSVLMC-g0", UP)
    found += made("disk", "HSVLMC", UP[:3]) + made("disk", "HSVLMC-g0", UP[:3])
    table = lines_of(reading.claims(found))
    at = next(number for number, line in enumerate(table) if line[0] == "HSVLMC is better than HSVLMC-g0")
    assert table[at][1:] == ["SMSE", "1 of 3: noisy", "1 of 3: a_case", "0 of 3", "1 of 3: disk"]
    assert table[at + 1][1:] == ["SMLL", "0 of 3", "0 of 3", "2 of 3: noisy, a_case", "1 of 3: disk"]


def test_weights_are_compared_with_g0_and_with_the_paper():
    found = made("disk", "HSVLMC-g0", UP) + made("disk", "HSVLMC", UP * 2.0)
    found += made("disk", "HSVLMC-KL0", [UP[0] / 8.0, UP[1] / 2.0])
    text = reading.weights(found)
    table = lines_of(text)
    paper = 0.0326 / 0.1702
    assert table[0] == ["case", "paper", "HSVLMC", "HSVLMC-KL0"]
    assert table[2] == ["disk", f"{paper:.2f}", "2.00 ▲", "0.25 ? (2 seeds)"]
    assert (
        "- `HSVLMC` against HSVLMC-g0: SMSE better on 0 and worse on 1 of 1 cases, SMLL better on 0 and worse on 0 of "
        f"1 cases; off the paper's ratio by a factor {2.0 / paper:.2f} (mean of 1 cases)." in text
    )
    assert f"a factor {0.25 / paper:.2f} (mean of 1 cases)" in text


def test_distances_to_the_paper_are_means_of_logarithms(monkeypatch):
    monkeypatch.setattr(reading, "PUBLISHED", {(c, m): (x,) for c in ("noisy", "disk") for m, x in
                                               (("HSVLMC", 1.0), ("HSVLMC-g0", 2.0))})  # fmt: skip
    found = made("noisy", "HSVLMC-g0", [1.0]) + made("noisy", "HSVLMC", [1.0])
    found += made("disk", "HSVLMC-g0", [1.0]) + made("disk", "HSVLMC", [0.125])
    far, number = reading.distance(scores(found), "HSVLMC")
    assert (np.exp(far), number) == (pytest.approx(np.sqrt(2.0 * 4.0)), 2)


def test_learned_variances_are_medians_and_older_rows_fill_in(monkeypatch):
    older = made("noisy", "HSVLMC", [1.0] * 3, protocol="train", nu_g0="0.5")
    older += made("noisy", "HSVLMC", [1.0], protocol="paper", nu_g0="9")
    monkeypatch.setattr(rows, "read", lambda path: older if path.name == "toys.csv" else [])
    found = made("noisy", "HSVLMC", [1.0], nu_g0="0.001")  # seed 0 anew
    found += [
        {**row, "nu_g0": str(value)} for row, value in zip(made("noisy", "HSVLMC-l1", UP[:3]), (1, 3, 8), strict=True)
    ]
    table = lines_of(reading.learned(found))
    assert table[0] == ["case", "HSVLMC", "HSVLMC-KL/ND", "HSVLMC-l1", "HSVLMC-l1-KL/ND"]
    assert table[2] == ["noisy", "5.0e-01", "", "3.0e+00", ""]


def test_the_default_is_best_or_tied_where_nothing_is_better():
    found = made("noisy", "auto", UP, -UP) + made("noisy", "SOGP", UP * 2, -UP) + made("noisy", "IMC", UP[::-1], -UP)
    found += (
        made("disk", "auto", UP, -UP) + made("disk", "SOGP", UP / 2, -UP * 2) + made("disk", "exact GP", UP * 2, UP)
    )
    text = reading.default(found)
    assert text.startswith("No model is better than the default on 1 of 2 cases in SMSE, on 1 of 2 cases in SMLL.")
    table = lines_of(text)
    assert table[2] == ["noisy", "none", "IMC", "none", "SOGP, IMC"]
    assert table[3] == ["disk", "SOGP", "none", "SOGP", "none"]


def test_studies_have_a_line_for_every_level(monkeypatch):
    study = Study("one", "Impact of it", {"4": "disk", "8": "disk_8", "16": "disk_16"})
    monkeypatch.setattr(studies, "STUDIES", (study,))
    found = (
        made("disk", "SOGP", [1.0, 3.0], [0.0, 1.0]) + made("disk_8", "SOGP", [0.5]) + made("disk_8", "auto", [0.1] * 3)
    )
    text = reading.impacts(found)
    table = lines_of(text)
    assert text.startswith("Impact of it\n")
    assert [line[:4] for line in table[2:]] == [
        ["4", "SMSE", "1", "1.000 ± 0.000"],  # of seed 0 alone, which both levels have
        ["", "SMLL", "1", "0.00 ± 0.00"],
        ["8", "SMSE", "1-3", "0.500 ± 0.000"],
        ["", "SMLL", "1-3", "0.00 ± 0.00"],
    ]
    assert table[4][-1] == "0.100 ± 0.000"


def test_the_time_is_the_sum_of_the_rows():
    found = made("noisy", "SOGP", [1.0] * 40) + made("disk", "auto", [1.0] * 20, seconds="180", cpu_seconds="6")
    found += made("disk", "IMC", [""], seconds="", cpu_seconds="")
    text = reading.time(found)
    assert text.startswith("All 60 fits together took 2.0 hours one after another, 0.7 hours of a processor;")
    assert f"in them take {10 * (90 + 180) / 3600:.1f} hours. " in text
    assert lines_of(text)[2:] == [["noisy", "40", "60.0", "40.0"], ["disk", "20", "60.0", "2.0"]]


def test_every_section_is_there_without_rows():
    assert all(isinstance(section([]), str) for section in reading.SECTIONS.values())
