"""The report in a real browser: it works, asks nobody, and runs no script but its own."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Dialog, Locator, Page, sync_playwright
from support import finished_runs, hostile_dataset, toys

from toolloom.pipeline.dataset.publish import publish
from toolloom.pipeline.pages import report as pages
from toolloom.pipeline.render.section import visible
from toolloom.pipeline.store.version import Version
from toolloom.schemas import Ability, Granularity, Reason

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
PHONE, DESKTOP = (390, 844), (1280, 900)


@pytest.fixture(scope="module")  # not the session's: it keeps an event loop in its thread
def chromium() -> Iterator[Browser]:
    """The system's Chromium, which playwright drives and never downloads; without one the test is
    skipped, but in CI it fails."""
    program = next(filter(None, map(shutil.which, NAMES)), None)
    if program is None:
        lacking = f"there is no browser: none of {', '.join(NAMES)}"
        if os.environ.get("CI"):
            pytest.fail(lacking)
        pytest.skip(lacking)
    with sync_playwright() as playwright:
        # Without its own sandbox, which root may not use.
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
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


KEPT = 24  # samples of the plain report


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of 30 samples, 6 rejected records, rows of templates and instructions."""
    folder = tmp_path_factory.mktemp("plain")
    samples = [toys.sample(toys.query(number)) for number in range(30)]
    reasons = [Reason.OFF_PATH] * 4 + [Reason.SAYS_TOO_MUCH] * 2
    fallen = [
        toys.rejected(one, "rewritten", reason)
        for one, reason in zip(samples, reasons, strict=False)
    ]
    levels = [one for n in range(3) for one in finished_runs.levels(f"q{n}")]
    run = finished_runs.run(
        folder, toys.recipe(), samples, finished_runs.expanded(), levels, fallen
    )
    return report(publish(run, folder), folder)


@pytest.fixture(scope="module")
def attacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of a dataset whose every text is hostile."""
    folder = tmp_path_factory.mktemp("hostile")
    return report(hostile_dataset.dataset(folder), folder)


def report(version: Version, folder: Path) -> Path:
    path = folder / "report.html"
    path.write_text(pages.page(version, pages.read(version)), encoding="utf-8")
    return path


def samples(page: Page) -> Locator:
    """The samples one sees."""
    return page.locator(".sample:visible")


def place(page: Page) -> str:
    return page.locator(".place").inner_text()


@pytest.mark.parametrize("size", [PHONE, DESKTOP])
def test_it_shows_without_complaints_and_asks_nobody(
    chromium: Browser, plain: Path, size: tuple[int, int]
) -> None:
    """No console error, no request but the page itself, nothing wider than the screen."""
    with shown(chromium, plain, size) as seen:
        for name in ("overview", "funnel", "reasons", "distributions", "diversity", "cost"):
            assert seen.page.locator(f"#{name} h2").is_visible()
        assert samples(seen.page).count() == 1
        assert not seen.is_wider_than_the_screen
        seen.page.mouse.wheel(0, 20_000)
        assert (seen.complaints, seen.asked, seen.elsewhere) == ([], [], [])


@pytest.mark.slow
def test_samples_are_browsed(chromium: Browser, plain: Path) -> None:
    """Next and previous go through the samples of a kind, and stop at its ends."""
    with shown(chromium, plain, PHONE) as seen:
        page, following = seen.page, seen.page.get_by_role("button", name="Next")
        assert place(page) == f"1 of {KEPT}"
        first = samples(page).locator("h3").inner_text()
        assert page.get_by_role("button", name="Previous").is_disabled()
        for _ in range(KEPT - 1):
            following.click()
        assert place(page) == f"{KEPT} of {KEPT}"
        assert following.is_disabled()
        assert samples(page).locator("h3").inner_text() != first
        for _ in range(KEPT - 1):
            page.keyboard.press("ArrowLeft")
        assert samples(page).locator("h3").inner_text() == first
        assert seen.complaints == []


@pytest.mark.slow
def test_samples_are_found(chromium: Browser, plain: Path) -> None:
    """A filter leaves what has its value; words narrow it further, down to nothing. Each kind is a
    click away, and a reason opens its rejected records, with the finding at its turn."""
    with shown(chromium, plain) as seen:
        page = seen.page
        page.get_by_label("Ability").select_option(Ability.CALL)
        assert place(page) == "1 of 8"
        assert "call" in samples(page).locator(".tl-kinds").inner_text()
        name = samples(page).locator("h3").inner_text()
        page.get_by_label("Words in it").fill(f"({name[1:]})")
        assert place(page) == "1 of 1"
        assert samples(page).locator("h3").inner_text() == name
        page.get_by_label("Words in it").fill("no such words")
        assert place(page) == "0 of 0"
        assert page.get_by_text("No sample is like that.").is_visible()
        for kind, count in (("Rejected", 6), ("Rows of templates", 3), ("Instructions", 3)):
            button = page.get_by_role("button", name=kind)
            button.click()
            assert button.get_attribute("aria-pressed") == "true"
            assert place(page) == f"1 of {count}"
        assert samples(page).locator("dt").all_inner_texts()[:5] == [*Granularity]
        page.locator("#reasons").get_by_role("link", name="says too much").click()
        assert place(page) == "1 of 2"
        marked = samples(page).locator("li.tl-marked")
        assert marked.locator(".tl-number").inner_text() == "1"
        assert "says too much" in marked.inner_text()


@pytest.mark.parametrize("size", [PHONE, pytest.param(DESKTOP, marks=pytest.mark.slow)])
def test_hostile_text_does_nothing(
    chromium: Browser, attacked: Path, size: tuple[int, int]
) -> None:
    """Through all samples of all kinds: nothing runs, nothing opens, nothing is asked for."""
    with shown(chromium, attacked, size) as seen:
        page = seen.page
        for button in page.locator(".groups button").all():
            button.click()
            while True:
                samples(page).locator("header").hover()
                assert not seen.is_wider_than_the_screen
                if page.locator(".next").is_disabled():
                    break
                page.locator(".next").click()
        assert page.evaluate("typeof window.ran") == "undefined"
        assert page.locator("script, iframe, object, embed, img, form, base").count() == 1
        assert page.locator(".toolloom :is(a, style, link, meta, input, button, svg)").count() == 0
        assert page.locator("body").is_visible()
        assert (seen.complaints, seen.asked) == ([], [])
        assert (seen.dialogs, seen.elsewhere) == ([], [])


@pytest.mark.slow
def test_hostile_text_is_shown_as_text(chromium: Browser, attacked: Path) -> None:
    """What a model wrote stands there letter by letter; what cannot be seen is written out."""
    with shown(chromium, attacked) as seen:
        said = "nodes => nodes.map(node => node.textContent)"
        told = seen.page.locator(".sample .tl-user .tl-said").evaluate_all(said)
        short = [text for text in hostile_dataset.TEXTS if len(text) <= 20_000]
        assert {visible(text) for text in short} <= {*told}
        findings = seen.page.locator(".tl-marked .tl-finding > span").evaluate_all(said)
        assert {f"at its turn: {visible(text)}" for text in short} <= {*findings}
        [long] = {text for text in told if text.startswith("words words")}
        assert "more characters" in long


@pytest.mark.slow
def test_a_script_that_got_in_would_not_run(chromium: Browser, plain: Path, tmp_path: Path) -> None:
    """The page's policy is a second wall: it allows this one script, and no address at all."""
    hole = (
        "<script>window.ran = 1</script><img src='x' onerror='window.ran = 1'>"
        "<img src='http://127.0.0.1:9/x.png'><style>body { display: none }</style>"
    )
    path = tmp_path / "hole.html"
    path.write_text(plain.read_text().replace("<main>", f"{hole}<main>", 1))
    with shown(chromium, path) as seen:
        assert seen.page.evaluate("typeof window.ran") == "undefined"
        assert seen.page.locator("h1").is_visible()
        assert place(seen.page) == f"1 of {KEPT}"
        assert all("Content Security Policy" in complaint for complaint in seen.complaints)
        assert len(seen.complaints) == 5
