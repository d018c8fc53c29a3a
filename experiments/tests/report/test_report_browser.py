"""The report in an offline browser: a page of short trainings."""

import json
import shutil

import pytest

from eigenrnn_experiments.report import write_report
from reported_runs import WITH_DYNAMICS, rebuild, train_all, write_recipe

pytest.importorskip("selenium", reason="needs selenium: pip install 'eigenrnn[dev]'")

from selenium import webdriver
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

CHROMIUM, DRIVER = (shutil.which(name) for name in ("chromium", "chromedriver"))

pytestmark = pytest.mark.skipif(
    not (CHROMIUM and DRIVER),
    reason="needs the system's browser: apt-get install chromium chromium-driver",
)

DESKTOP, PHONE = (1300, 900), (400, 740)
FLAGS = ("headless=new", "no-sandbox", "disable-gpu", "disable-dev-shm-usage")

# pairs of texts, controls and charts that overlap without one containing the other
OVERLAPS = """
const boxes = [...document.querySelectorAll(
  "h1, h2, h3, p, figcaption, summary, .plotly-graph-div, .picture svg, nav a, table"
)].filter((e) => e.offsetParent && !e.closest("details:not([open]) > :not(summary)"))
  .map((e) => [e, e.getBoundingClientRect()]).filter(([, b]) => b.width && b.height);
const found = [];
boxes.forEach(([one, a], i) => boxes.slice(i + 1).forEach(([other, b]) => {
  if (one.contains(other) || other.contains(one)) return;
  const wide = Math.min(a.right, b.right) - Math.max(a.left, b.left);
  const high = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
  const said = [one, other].map((e) => e.outerHTML.slice(0, 80)).join(" | ");
  if (wide > 1 && high > 1) found.push(said);
}));
return found;
"""


@pytest.fixture(scope="module")
def browser():
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for flag in FLAGS:
        options.add_argument(f"--{flag}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options, webdriver.ChromeService(executable_path=DRIVER))
    network = {"offline": True, "latency": 0, "downloadThroughput": 0, "uploadThroughput": 0}
    driver.execute_cdp_cmd("Network.enable", {})
    driver.execute_cdp_cmd("Network.emulateNetworkConditions", network)
    yield driver
    driver.quit()


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    folder = train_all(tmp_path_factory.mktemp("browser") / "runs")
    with pytest.MonkeyPatch.context() as patch:
        write_recipe(folder, patch, "chain", "<b>LSTM</b> & more")
        return write_report([folder], folder.parent / "page.html", rebuild=rebuild)


@pytest.fixture
def fresh_page(browser, page):
    """The freshly loaded page, on a desktop with a light colour scheme."""
    resize(browser, DESKTOP)
    prefer(browser, "light")
    load(browser, page)
    return browser


def load(browser, page):
    browser.get(page.as_uri())
    WebDriverWait(browser, 20).until(
        lambda b: b.execute_script(
            "return [...document.querySelectorAll('.plotly-graph-div')]"
            ".every((p) => p.querySelector('svg'))"
        )
    )


def resize(browser, size):
    width, height = size
    metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)


def prefer(browser, scheme):
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})


def settled(browser, width):
    """Wait until the charts fit the width of the page."""
    WebDriverWait(browser, 10).until(
        lambda b: b.execute_script(
            "return innerWidth === arguments[0] && "
            "[...document.querySelectorAll('.plotly-graph-div')]"
            ".every((p) => Math.abs(p._fullLayout.width - p.clientWidth) <= 1)",
            width,
        )
    )


def choose(browser, label):
    """Choose an entry of the menu of quantities."""
    header = browser.find_element(By.CSS_SELECTOR, ".updatemenu-header")
    ActionChains(browser).move_to_element(header).click().perform()

    # the entries fade in, and an invisible one has no text
    def visible_entry(browser):
        entries = browser.find_elements(By.CSS_SELECTOR, ".updatemenu-dropdown-button")
        return next((entry for entry in entries if entry.text == label), None)

    entry = WebDriverWait(browser, 10).until(visible_entry)
    ActionChains(browser).move_to_element(entry).click().perform()


def shown(browser):
    """Return the names of the visible curves, each with its number of points."""
    return browser.execute_script(
        "return Object.fromEntries(document.querySelector('#curves-1').data"
        ".filter((t) => t.visible === true && t.name).map((t) => [t.name, t.x.length]))"
    )


def test_page_opens_offline_without_errors(fresh_page):
    assert fresh_page.get_log("browser") == []
    assert len(fresh_page.find_elements(By.CSS_SELECTOR, ".picture svg")) > 5


def test_a_chosen_quantity_is_drawn(fresh_page):
    choose(fresh_page, "train loss")
    # logged every 5 of 30 steps
    assert shown(fresh_page) == {"lstm (2 seeds)": 6, "scornn (2 seeds)": 6}
    assert fresh_page.find_element(By.CSS_SELECTOR, ".ytitle").text == "train loss"
    assert fresh_page.get_log("browser") == []


@pytest.mark.long
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_page_fits_its_width_and_nothing_overlaps(fresh_page, size, scheme):
    prefer(fresh_page, scheme)
    resize(fresh_page, size)
    settled(fresh_page, size[0])
    wide, inner = fresh_page.execute_script(
        "return [document.documentElement.scrollWidth, innerWidth]"
    )
    assert wide <= inner
    assert fresh_page.execute_script(OVERLAPS) == []


@pytest.mark.long
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_texts_of_pictures_have_the_colour_of_the_page(fresh_page, scheme):
    prefer(fresh_page, scheme)
    colours = fresh_page.execute_script(
        "return ['.picture text', '.plotly-graph-div .xtitle', 'body'].map((s) => {"
        " const style = getComputedStyle(document.querySelector(s));"
        " return s === 'body' ? style.color : style.fill })"
    )
    assert colours == [colours[-1]] * 3


LINK = '<a href="https://example.org">quantity</a>'


@pytest.mark.long
def test_names_in_run_files_do_not_become_links(browser, page, tmp_path):
    folder = shutil.copytree(page.parent / "runs" / WITH_DYNAMICS, tmp_path / "run")
    for name, old in (("metrics.csv", "train_loss,"), ("dynamics.jsonl", "l0")):
        in_csv = '"' + LINK.replace('"', '""') + '",'
        quoted = in_csv if name == "metrics.csv" else json.dumps(LINK)[1:-1]
        text = (folder / name).read_text()
        assert old in text
        (folder / name).write_text(text.replace(old, quoted))
    load(browser, write_report([folder], tmp_path / "page.html"))
    choose(browser, LINK)
    titles = [title.text for title in browser.find_elements(By.CSS_SELECTOR, ".ytitle")]
    assert LINK in titles
    assert (
        browser.find_elements(
            By.CSS_SELECTOR, ".card figure a, .plotly-graph-div a[href*=example]"
        )
        == []
    )


@pytest.mark.long
def test_quantities_named_like_object_properties_are_drawn(browser, page, tmp_path):
    for name, column in (("scornn-0", "train_loss,"), ("lstm-0", "constructor,")):
        folder = shutil.copytree(page.parent / "runs" / name, tmp_path / "runs" / name)
        text = (folder / "metrics.csv").read_text()
        (folder / "metrics.csv").write_text(text.replace("train_loss,", column))
    load(browser, write_report([tmp_path / "runs"], tmp_path / "page.html"))
    choose(browser, "constructor")
    assert list(shown(browser)) == ["lstm-0"]
    assert browser.get_log("browser") == []
