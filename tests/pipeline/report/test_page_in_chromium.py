"""The page in a real browser. Pictures of it lie in `.artifacts/report`."""

import json
import time

import pytest

from pipeline.report.page import write_report
from pipeline.report.run_selection import select_runs
from tests.pipeline.report.chromium import chromium, errors, open_page, screenshot, wait_until_drawn
from tests.pipeline.report.run_files import seeded_run

OPENS_WITHIN_S = 3.0
MAX_BYTES = 10_000_000

INK = """
// Plots without content: canvases of one colour only, and bar plots without bars.
const shown = [...document.querySelectorAll('[data-plot]')].filter((figure) => figure.offsetParent !== null);
return shown.filter((figure) => {
  const canvas = figure.querySelector('canvas');
  if (!canvas) return figure.querySelectorAll('svg rect').length === 0;
  const pixels = new Uint32Array(canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data.buffer);
  return new Set(pixels).size < 8;
}).map((figure) => figure.dataset.plot);
"""


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """Two short runs."""
    root = tmp_path_factory.mktemp("runs")
    for seed, name in ((0, "recompute"), (2, "loglinear")):
        seeded_run(root / name, seed, 120)
    return write_report(select_runs([root]), root / "report.html")


@pytest.fixture(scope="module")
def browser():
    with chromium() as session:
        yield session


def drawn(browser):
    root = browser.execute_script("return {...document.documentElement.dataset}")
    return int(root["drawn"]), int(root["plots"])


@pytest.mark.timeout(300)
def test_four_runs_of_2000_steps_open_in_time_with_every_plot_drawn(tmp_path, browser):
    for seed, name in enumerate(("recompute", "reuse", "loglinear", "linear")):
        seeded_run(tmp_path / name, seed, 2000)
    page = write_report(select_runs([tmp_path]), tmp_path / "report.html")
    assert page.stat().st_size < MAX_BYTES
    open_page(browser, page)  # the first page of a browser pays for the browser
    opened_s = min(open_page(browser, page) for _ in range(3))
    num_drawn, num_plots = drawn(browser)
    assert num_drawn == num_plots > 25
    assert browser.execute_script(INK) == []
    assert errors(browser) == []
    screenshot(browser, "four-runs-light")
    assert opened_s < OPENS_WITHIN_S
    print(json.dumps({"opened_s": round(opened_s, 2), "bytes": page.stat().st_size, "plots": num_plots}))


@pytest.mark.timeout(300)
def test_every_control_works_without_an_error(page, browser):
    open_page(browser, page)
    browser.find_element("id", "theme").click()
    wait_until_drawn(browser)
    assert browser.execute_script("return document.documentElement.dataset.theme") in ("dark", "light")
    browser.execute_script("document.querySelector('input[name=axis][value=time]').click()")
    wait_until_drawn(browser)
    set_smoothing = (
        "const s = document.getElementById('smoothing'); s.value = 0.95; s.dispatchEvent(new Event('input'))"
    )
    browser.execute_script(set_smoothing)
    time.sleep(0.5)
    assert browser.find_element("id", "smoothing-value").text == "0.95"
    chip = browser.find_elements("css selector", ".chip")[0]
    chip.click()
    wait_until_drawn(browser)
    assert chip.get_attribute("aria-pressed") == "false"
    browser.execute_script("document.querySelectorAll('input[name=mode]').forEach((input) => input.click())")
    assert browser.execute_script(INK) == []
    assert errors(browser) == []
    screenshot(browser, "two-runs-other-theme")


COLOURS = """
return [...document.querySelector('.completion').querySelectorAll('.token')].map((token) =>
  ({outside: token.classList.contains('outside'), colour: getComputedStyle(token).backgroundColor}));
"""
NO_COLOUR = "rgba(0, 0, 0, 0)"


@pytest.mark.timeout(300)
def test_tokens_are_coloured_by_the_difference_of_their_logprobs(page, browser):
    open_page(browser, page)
    browser.execute_script("document.querySelector('input[name=mode][value=difference]').click()")
    tokens = browser.execute_script(COLOURS)
    assert {t["colour"] for t in tokens if t["outside"]} == {NO_COLOUR}, "a tool's token was not sampled"
    coloured = [t["colour"] for t in tokens if not t["outside"]]
    assert len(coloured) > 10 and NO_COLOUR not in coloured
    blue, red = ("31, 95, 191", "201, 42, 42")
    assert any(blue in c for c in coloured) and any(red in c for c in coloured)
    screenshot(browser, "tokens-by-difference")
    browser.execute_script("document.querySelector('input[name=mode][value=version]').click()")
    assert [t["colour"] for t in browser.execute_script(COLOURS)] != [t["colour"] for t in tokens]
    assert errors(browser) == []


@pytest.mark.timeout(300)
def test_hovering_shows_the_value_of_every_run(page, browser):
    from selenium.webdriver import ActionChains

    open_page(browser, page)
    over = browser.find_element("css selector", "[data-plot='rl/reward'] .u-over")
    ActionChains(browser).move_to_element(over).perform()
    time.sleep(0.3)
    text = browser.find_element("id", "tooltip").text
    assert text.startswith("step ")
    assert all(name in text for name in ("recompute", "loglinear"))
    token = browser.find_element("css selector", ".token")
    ActionChains(browser).scroll_to_element(token).move_to_element(token).perform()
    time.sleep(0.3)
    assert "behavior logprob" in browser.find_element("id", "tooltip").text
    assert errors(browser) == []


@pytest.mark.timeout(300)
def test_dragging_zooms_all_plots_alike_and_a_double_click_undoes_it(page, browser):
    from selenium.webdriver import ActionChains

    open_page(browser, page)
    over = browser.find_element("css selector", "[data-plot='rl/reward'] .u-over")
    before = browser.find_element("css selector", "[data-plot='rl/lag'] canvas").screenshot_as_png
    drag = ActionChains(browser).move_to_element_with_offset(over, -60, 0).click_and_hold()
    drag.move_by_offset(80, 0).release().perform()
    time.sleep(0.5)
    zoomed = browser.find_element("css selector", "[data-plot='rl/lag'] canvas").screenshot_as_png
    ActionChains(browser).move_to_element(over).double_click().perform()
    ActionChains(browser).move_to_element(browser.find_element("css selector", "h1")).perform()
    time.sleep(0.5)
    after = browser.find_element("css selector", "[data-plot='rl/lag'] canvas").screenshot_as_png
    assert zoomed != before
    assert after == before
    assert errors(browser) == []


@pytest.mark.timeout(300)
def test_other_metrics_are_drawn_when_they_are_unfolded(page, browser):
    open_page(browser, page)
    before = drawn(browser)[0]
    browser.execute_script("document.querySelector('details.section').open = true")
    time.sleep(0.2)
    wait_until_drawn(browser)
    assert drawn(browser)[0] >= before + 40
    assert browser.execute_script(INK) == []
    assert errors(browser) == []


@pytest.mark.timeout(300)
def test_a_run_of_one_step_and_without_trajectories_is_shown_too(tmp_path, browser):
    root = seeded_run(tmp_path / "young", 5, 1, num_logged=0)
    open_page(browser, write_report(select_runs([root]), tmp_path / "report.html"))
    num_drawn, num_plots = drawn(browser)
    assert num_drawn == num_plots > 20
    assert browser.execute_script(INK) == []
    assert errors(browser) == []
    screenshot(browser, "one-step")


@pytest.mark.timeout(300)
def test_a_narrow_window_does_not_scroll_sideways(page, browser):
    browser.set_window_size(520, 900)
    try:
        open_page(browser, page)
        width = "return [document.documentElement.scrollWidth, document.documentElement.clientWidth]"
        scroll, client = browser.execute_script(width)
        assert scroll <= client < 600
        screenshot(browser, "narrow")
    finally:
        browser.set_window_size(1500, 1000)
    assert errors(browser) == []
