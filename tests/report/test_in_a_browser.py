"""The report in a headless Chromium: it draws, complains of nothing, asks for nothing, and fits the screen."""

import numpy as np
import pytest

import aligngp as agp
from aligngp import report
from browser import PATH, needs_browser, opened

pytestmark = needs_browser
NAMES = ['<script>document.title = "taken"</script>', "b"]


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    if PATH is None:
        pytest.skip("there is no Chromium")
    folder = tmp_path_factory.mktemp("browser")
    rng = np.random.default_rng(0)
    fine, coarse = rng.uniform(size=(8, 2)), rng.uniform(size=(15, 1))
    gp = agp.AlignedGP("coarse", mappings={"fine": ["b"]}, progress=False).fit(
        {
            "fine": agp.Task(fine, np.sin(3 * fine[:, 1]) + 0.3 * fine[:, 0], names=NAMES),
            "coarse": agp.Task(coarse, np.sin(3 * coarse[:, 0]), names=["b"]),
        }
    )
    file = report.write(gp, folder / "report.html")
    with opened(folder / "profile") as page:
        page.look(1280, 900)
        page.open(file)
        yield page


def test_every_figure_is_drawn(page):
    traces = "figure.querySelectorAll('.main-svg .trace, .main-svg .hm').length"
    drawn = page.value(f"[...document.querySelectorAll('figure')].map(figure => {traces})")
    assert len(drawn) == int(page.value("document.documentElement.dataset.drawn")) >= 12
    assert min(drawn) > 0


def test_nothing_is_asked_for_and_nothing_complained_of(page):
    assert [url for url in page.requests() if not url.endswith("/report.html")] == []
    assert page.complaints() == []


def test_the_policy_holds(page):
    # A page that may fetch nothing refuses even its own file.
    assert page.value("fetch(location.href).then(() => 'fetched', () => 'refused')") == "refused"
    page.events.clear()  # the refusal is a complaint


def test_names_stay_text(page):
    assert page.value("document.title") == "aligngp: fine, coarse"
    titles = page.value("[...document.querySelectorAll('.xtitle')].map(title => title.textContent)")
    assert NAMES[0] in titles


def test_an_input_is_chosen(page):
    shown = "document.querySelector('#inputs .xtitle').textContent"
    assert page.value(shown) == NAMES[0]
    assert page.value("[...document.querySelector('#inputs select').options].map(one => one.text)") == NAMES
    page.value(
        "(select => { select.selectedIndex = 1; select.dispatchEvent(new Event('change')); })"
        "(document.querySelector('#inputs select'))"
    )
    page.wait(f"{shown} === 'b'")


def test_it_fits_a_phone(page):
    page.look(390, 844)
    right = "svg.getBoundingClientRect().right <= innerWidth"
    page.wait(f"[...document.querySelectorAll('.main-svg')].every(svg => {right})")
    assert page.value("document.documentElement.scrollWidth <= innerWidth")
    bottoms = "[figure.querySelector('.main-svg'), figure].map(one => one.getBoundingClientRect().bottom)"
    for plot, figure in page.value(f"[...document.querySelectorAll('figure')].map(figure => {bottoms})"):
        assert plot <= figure + 1
    page.look(1280, 900)


def test_colours_follow_the_reader(page):
    colour = "getComputedStyle(document.querySelector('.xtitle')).fill"
    light = page.value(colour)
    page.look(1280, 900, dark=True)
    page.wait(f"{colour} !== '{light}'")
    assert page.value("getComputedStyle(document.body).backgroundColor") == "rgb(20, 23, 28)"
    page.look(1280, 900)
    page.wait(f"{colour} === '{light}'")


def test_it_prints(page, tmp_path):
    page.pdf(tmp_path / "report.pdf")
    content = (tmp_path / "report.pdf").read_bytes()
    assert content.startswith(b"%PDF")
    assert len(content) > 30_000
    assert page.complaints() == []
