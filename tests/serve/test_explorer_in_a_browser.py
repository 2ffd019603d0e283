"""The explorer in a headless Chromium: it answers, complains of nothing, asks no one else, and fits the screen."""

import numpy as np
import pytest

import aligngp as agp
from browser import PATH, needs_browser, opened
from pictures import park

pytestmark = needs_browser
SETTLED = "document.documentElement.dataset.drawn"


@pytest.fixture(scope="module")
def page(served, tmp_path_factory):
    if PATH is None:
        pytest.skip("there is no Chromium")
    with opened(tmp_path_factory.mktemp("browser") / "profile") as page:
        page.look(1280, 900)
        page.visit(f"http://127.0.0.1:{served}/")
        yield page


def act(page, script: str) -> None:
    """Run a script and wait until the page has its answers."""
    before = page.value(SETTLED)
    page.value(script)
    page.wait(f"{SETTLED} !== '{before}'")


def moved(at: int, value: float, kind: str = "range") -> str:
    """A script that moves the slider of an input, or types into its field."""
    node = f"document.querySelectorAll('.slider [type={kind}]')[{at}]"
    return f"(node => {{ node.value = {value}; node.dispatchEvent(new Event('input')); }})({node})"


def number(page) -> float:
    return float(page.value("document.querySelector('#mean').textContent").replace("\u2212", "-"))


def test_it_shows_the_prediction_in_the_middle(page):
    middle = park()._training[0].X.mean(axis=0, keepdims=True)
    assert number(page) == pytest.approx(park().predict("high", middle).mean[0], rel=1e-4)
    rows = (
        "[...document.querySelectorAll('#aligned tbody tr')].map(row => [...row.cells].map(cell => cell.textContent))"
    )
    mean, variance = park().aligned("high", middle)
    for (name, value, sd), *expected in zip(page.value(rows), ("x3", "x4"), mean[0], np.sqrt(variance[0]), strict=True):
        assert name == expected[0]
        np.testing.assert_allclose([float(value), float(sd)], expected[1:], rtol=1e-2)


def test_a_slider_and_a_field_change_the_number(page):
    act(page, moved(3, 0.8))
    row = park()._training[0].X.mean(axis=0)
    slider = float(page.value("document.querySelectorAll('.slider [type=range]')[3].value"))
    assert slider == pytest.approx(0.8, abs=1e-6)
    assert number(page) == pytest.approx(park().predict("high", [[*row[:3], 0.8]]).mean[0], rel=1e-4)
    act(page, moved(3, 7.5, "number"))
    with pytest.warns(agp.AligngpWarning, match="far outside"):
        expected = park().predict("high", [[*row[:3], 7.5]])
    assert number(page) == pytest.approx(expected.mean[0], rel=1e-4)
    assert "lie far outside its training rows" in page.value("document.querySelector('#warnings').textContent")
    act(page, "document.querySelector('#reset').click()")
    assert page.value("document.querySelector('#warnings').hidden")


def test_what_is_drawn(page):
    assert page.value("document.querySelectorAll('.chart svg .line').length") == 4
    assert page.value("document.querySelectorAll('.chart svg .dot').length") == 4
    ends = page.value(
        "[document.querySelector('#lowest'), document.querySelector('#highest')].map(one => +one.textContent)"
    )
    assert ends[0] < number(page) < ends[1]
    act(
        page, "(one => { one.value = '1'; one.dispatchEvent(new Event('change')); })(document.querySelector('#across'))"
    )
    assert page.value("document.querySelector('#across-ends').textContent").count("x2") == 1
    assert page.value("document.querySelector('#up-ends').textContent").count("x3") == 1


def test_a_click_moves_the_point(page):
    click = "new MouseEvent('click', {{clientX: box.left + {0} * box.width, clientY: box.top + {1} * box.height}})"
    on = "(node => {{ const box = node.getBoundingClientRect(); node.dispatchEvent({0}); }})"
    at = on + "(document.querySelector('{1}'))"
    before = page.value("[...document.querySelectorAll('.slider [type=range]')].map(one => +one.value)")
    act(page, at.format(click.format(0.25, 0.25), "#surface"))
    after = page.value("[...document.querySelectorAll('.slider [type=range]')].map(one => +one.value)")
    low, high = park()._training[0].span
    expected = [before[0], *(low + [0, 0.25, 0.75, 0] * (high - low))[1:3], before[3]]
    np.testing.assert_allclose(after, expected, atol=5e-3)
    act(page, at.format(click.format(0.9, 0.5), ".chart svg"))
    assert float(page.value("document.querySelector('.slider [type=range]').value")) > before[0]


def test_a_table_comes_back(page):
    page.value("""(() => {
        const data = new DataTransfer();
        data.items.add(new File(['x1,x2,x3,x4\\n0.1,0.2,0.4,0.5\\n'], 'mine.csv'));
        document.querySelector('#drop').dispatchEvent(new DragEvent('drop', { dataTransfer: data, cancelable: true }));
    })()""")
    page.wait("!document.querySelector('#download').hidden")
    assert page.value("document.querySelector('#download').download") == "mine-predicted.csv"
    # The page may not fetch what it offers for download, so the test reads what it is made of.
    text = page.value(
        "fetch('/api/csv?task=high', {method: 'POST', headers: {'Content-Type': 'text/csv'}, "
        "body: 'x1,x2,x3,x4\\n0.1,0.2,0.4,0.5\\n'}).then(answer => answer.text())"
    )
    names, values = (line.split(",") for line in text.splitlines())
    assert names[4:] == ["mean", "std", "lower", "upper"]
    assert float(values[4]) == pytest.approx(park().predict("high", [[0.1, 0.2, 0.4, 0.5]]).mean[0], rel=1e-12)


def test_another_task(page):
    act(
        page, "(one => { one.value = 'low'; one.dispatchEvent(new Event('change')); })(document.querySelector('#task'))"
    )
    assert page.value("document.querySelectorAll('.slider').length") == 2
    middle = park()._training[1].X.mean(axis=0, keepdims=True)
    assert number(page) == pytest.approx(park().predict("low", middle).mean[0], rel=1e-4)
    assert "are the common domain" in page.value("document.querySelector('#domain').textContent")


def test_no_one_else_is_asked_and_nothing_complained_of(page, served):
    assert [url for url in page.requests() if not url.startswith(f"http://127.0.0.1:{served}/")] == []
    assert page.complaints() == []
    refused = "new Promise(done => { addEventListener('securitypolicyviolation', event => done(event.blockedURI)); "
    assert page.value(f"{refused} fetch('http://127.0.0.1:9/').catch(() => 0); }})") == "http://127.0.0.1:9/"
    page.events.clear()  # the refusal is a complaint


def test_it_fits_a_phone(page):
    page.look(390, 844)
    page.wait("innerWidth === 390")
    assert page.value("document.documentElement.scrollWidth <= innerWidth")
    outside = "one => one.getBoundingClientRect().right > innerWidth + 1"
    page.wait(f"[...document.querySelectorAll('main *')].filter({outside}).length === 0")
    page.look(1280, 900)
