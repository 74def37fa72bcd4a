"""A headless Chromium for tests of pages; tests that need it are skipped where there is none."""

import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

ARTEFACTS = Path(__file__).resolve().parents[3] / ".artifacts" / "report"
READY_LIMIT_S = 60.0


@contextmanager
def chromium(width: int = 1500, height: int = 1000) -> Iterator[Any]:
    """A browser that is closed at the end; skips the test with the reason where it cannot be had."""
    webdriver = pytest.importorskip("selenium.webdriver", reason="needs the selenium package")
    browser = shutil.which("chromium") or shutil.which("google-chrome") or shutil.which("chromium-browser")
    driver = shutil.which("chromedriver")
    if browser is None or driver is None:
        pytest.skip("needs Chromium and its driver (Debian: chromium chromium-driver)")
    options = webdriver.ChromeOptions()
    options.binary_location = browser
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(argument)
    options.add_argument(f"--window-size={width},{height}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    session = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    try:
        yield session
    finally:
        session.quit()


def open_page(session: Any, page: Path) -> float:
    """Open a report; returns the seconds until all of its plots are drawn."""
    started = time.monotonic()
    session.get(page.as_uri())
    wait_until_drawn(session)
    return time.monotonic() - started


def wait_until_drawn(session: Any) -> None:
    until = time.monotonic() + READY_LIMIT_S
    while session.execute_script("return document.documentElement.dataset.state") != "ready":
        assert time.monotonic() < until, "the page does not become ready"
        time.sleep(0.02)


def errors(session: Any) -> list[str]:
    """What the page logged since the last call."""
    return [entry["message"] for entry in session.get_log("browser")]


def screenshot(session: Any, name: str) -> Path:
    """The whole page as a picture among the artefacts."""
    ARTEFACTS.mkdir(parents=True, exist_ok=True)
    size = session.get_window_size()
    session.set_window_size(size["width"], session.execute_script("return document.documentElement.scrollHeight") + 100)
    time.sleep(0.5)  # plots follow the width of their cards
    path = ARTEFACTS / f"{name}.png"
    session.save_screenshot(str(path))
    session.set_window_size(size["width"], size["height"])
    return path
