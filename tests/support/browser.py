"""A real browser for tests: the system's Chromium, which playwright drives and never downloads."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Dialog, Page, sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
PHONE, DESKTOP = (390, 844), (1280, 900)


@contextmanager
def chromium() -> Iterator[Browser]:
    """A browser; without one the test is skipped, but in CI it fails.

    Open it for a module, not for the session: it keeps an event loop in the thread of the tests.
    """
    found = next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        told = f"there is no browser: none of {', '.join(NAMES)}"
        if os.environ.get("CI"):
            pytest.fail(told)
        pytest.skip(told)
    with sync_playwright() as playwright:
        # Without its own sandbox, which root may not use.
        browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        try:
            yield browser
        finally:
            browser.close()


@dataclass
class Shown:
    """A page that is open, and all that happened on it which nobody did."""

    page: Page
    complaints: list[str] = field(default_factory=list)  # console errors, exceptions
    asked: list[str] = field(default_factory=list)  # addresses, but the page's own
    dialogs: list[str] = field(default_factory=list)
    elsewhere: list[str] = field(default_factory=list)  # other pages that were opened

    @property
    def is_wider_than_the_screen(self) -> bool:
        return bool(self.page.evaluate("document.documentElement.scrollWidth > window.innerWidth"))

    def refuse(self, dialog: Dialog) -> None:
        self.dialogs.append(dialog.message)
        dialog.dismiss()


@contextmanager
def shown(browser: Browser, path: Path, size: tuple[int, int] = DESKTOP) -> Iterator[Shown]:
    """A file in a window of this width and height."""
    address = path.resolve().as_uri()
    with browser.new_context(viewport={"width": size[0], "height": size[1]}) as context:
        page = context.new_page()
        page.set_default_timeout(60_000)
        seen = Shown(page)
        page.on("console", lambda m: seen.complaints.append(m.text) if m.type == "error" else None)
        page.on("pageerror", lambda error: seen.complaints.append(str(error)))
        page.on("dialog", seen.refuse)
        page.on("popup", lambda other: seen.elsewhere.append(other.url))
        page.on("request", lambda r: seen.asked.append(r.url) if r.url != address else None)
        page.on(
            "framenavigated",
            lambda frame: (
                None if frame.url.partition("#")[0] == address else seen.elsewhere.append(frame.url)
            ),
        )
        page.goto(address)
        yield seen
