"""The report in an offline browser: clicks and keys on a page of short trainings."""

import json
import shutil

import pytest

from eigenrnn_experiments.report import write_report
from reported_runs import STEPS, WITH_DYNAMICS, rebuild, train_all, write_recipe

pytest.importorskip("selenium", reason="needs selenium: pip install 'eigenrnn[dev]'")

from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select, WebDriverWait

CHROMIUM, DRIVER = (shutil.which(name) for name in ("chromium", "chromedriver"))

pytestmark = pytest.mark.skipif(
    not (CHROMIUM and DRIVER),
    reason="needs the system's browser: apt-get install chromium chromium-driver",
)

DESKTOP, PHONE = (1280, 900), (360, 740)
FLAGS = ("headless=new", "no-sandbox", "disable-gpu", "disable-dev-shm-usage")

# pairs of texts, controls and charts that overlap without one containing the other
OVERLAPS = """
const boxes = [...document.querySelectorAll(
  "h1, h2, h3, p, figcaption, summary, label, select, button, input, output, .plot, nav a, table"
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

# tick labels that overlap
TICKS = """
return [...document.querySelectorAll(".plot")].filter((p) => p.offsetParent).flatMap((plot) => {
  return ["xtick", "ytick"].flatMap((kind) => {
    const texts = [...plot.querySelectorAll(`.${kind} text`)];
    const boxes = texts.map((e) => e.getBoundingClientRect());
    return boxes.flatMap((a, i) => boxes.slice(i + 1).filter((b) =>
      Math.min(a.right, b.right) - Math.max(a.left, b.left) > 0 &&
      Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 0
    ).map(() => `${plot.getAttribute("aria-label")} ${kind}`));
  });
});
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


@pytest.fixture
def shared_page(browser, page):
    """The page shared by tests that do not change it, or restore it."""
    resize(browser, DESKTOP)
    prefer(browser, "light")
    if browser.current_url != page.as_uri():
        load(browser, page)
    settled(browser, DESKTOP[0])
    return browser


def load(browser, page):
    browser.get(page.as_uri())
    WebDriverWait(browser, 20).until(
        lambda b: b.execute_script("return document.documentElement.dataset.ready") == "true"
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
            "return innerWidth === arguments[0] && [...document.querySelectorAll('.plot')]"
            ".filter((p) => p.offsetParent)"
            ".every((p) => Math.abs(p._fullLayout.width - p.clientWidth) <= 1)",
            width,
        )
    )


def focus(browser, element):
    browser.execute_script("arguments[0].focus()", element)
    return browser.switch_to.active_element


def traces(browser, plot):
    return browser.execute_script(
        "return document.querySelector(arguments[0]).data.map((t) => "
        "({name: t.name, visible: t.visible !== false, x: Array.from(t.x), y: Array.from(t.y)}))",
        plot,
    )


def test_page_opens_offline_without_errors(fresh_page):
    assert fresh_page.get_log("browser") == []
    assert fresh_page.execute_script(
        "return [...document.querySelectorAll('.plot')].filter((p) => p.offsetParent)"
        ".every((p) => p.querySelector('svg'))"
    )


def test_every_control_works_without_errors(fresh_page):
    for select in fresh_page.find_elements(By.TAG_NAME, "select"):
        for option in Select(select).options:
            Select(select).select_by_visible_text(option.text)
    for act in ("log", "reset", "log"):
        for button in fresh_page.find_elements(By.CSS_SELECTOR, f"[data-act={act}]"):
            button.click()
    for summary in fresh_page.find_elements(By.CSS_SELECTOR, ".numbers summary"):
        summary.click()
    assert fresh_page.get_log("browser") == []


def test_arrow_keys_on_the_slider_move_the_eigenvalues(shared_page):
    Select(shared_page.find_element(By.ID, "spectrum-network")).select_by_visible_text(
        "scornn, seed 0"
    )
    output = shared_page.find_element(By.CSS_SELECTOR, ".slider output")
    slider = focus(shared_page, shared_page.find_element(By.ID, "spectrum-step"))
    slider.send_keys(Keys.HOME)
    planes = {}
    for _ in STEPS:
        planes[output.text] = tuple(traces(shared_page, "[data-part=disc]")[2]["x"])
        slider.send_keys(Keys.ARROW_RIGHT)
    assert list(planes) == [f"step {step}" for step in STEPS]
    assert len(set(planes.values())) == len(STEPS)


def test_eigenvalues_on_the_disc_are_those_of_the_step(shared_page, page):
    Select(shared_page.find_element(By.ID, "spectrum-network")).select_by_visible_text(
        "scornn, seed 0"
    )
    focus(shared_page, shared_page.find_element(By.ID, "spectrum-step")).send_keys(Keys.HOME)
    line = (page.parent / "runs" / "scornn-0" / "dynamics.jsonl").read_text().splitlines()[0]
    written = [re for re, _ in json.loads(line)["spectrum"]["hh_l0"]]
    assert traces(shared_page, "[data-part=disc]")[2]["x"] == pytest.approx(written, abs=1e-4)


def test_network_without_recorded_dynamics_has_no_slider(shared_page):
    Select(shared_page.find_element(By.ID, "spectrum-network")).select_by_visible_text(
        "lstm, seed 0"
    )
    assert not shared_page.find_element(By.ID, "spectrum-step").is_displayed()
    assert len(traces(shared_page, "[data-part=disc]")[2]["x"]) == 8


def test_selected_quantity_is_drawn(shared_page):
    Select(shared_page.find_element(By.ID, "task-1-quantity")).select_by_value("train_loss")
    assert len(traces(shared_page, "#task-1 .plot")[-1]["x"]) == 6  # logged every 5 of 30 steps
    label = shared_page.find_element(By.CSS_SELECTOR, "#task-1 .plot").get_attribute("aria-label")
    assert label.startswith("Train loss over training steps: lstm")


@pytest.mark.long
@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_page_fits_its_width_and_nothing_overlaps(fresh_page, size):
    resize(fresh_page, size)
    settled(fresh_page, size[0])
    wide, inner = fresh_page.execute_script(
        "return [document.documentElement.scrollWidth, innerWidth]"
    )
    assert wide <= inner
    assert fresh_page.execute_script(OVERLAPS) == []
    assert fresh_page.execute_script(TICKS) == []


@pytest.mark.long
def test_tables_are_saved_in_every_format(fresh_page):
    fresh_page.execute_script(
        "window.saved = [];URL.createObjectURL = (blob) => { saved.push(blob.text()); return '#' }"
    )
    buttons = fresh_page.find_elements(By.CSS_SELECTOR, "#results [data-table=recipe-1-results]")
    for button in buttons:
        button.click()
    csv, markdown, latex = fresh_page.execute_async_script("Promise.all(saved).then(arguments[0])")
    assert csv.splitlines()[0].startswith("network,")
    assert "\n<b>LSTM</b> & more," in csv
    assert r"| \<b\>LSTM\</b\> \& more |" in markdown
    assert r"\textless{}b\textgreater{}LSTM" in latex


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
    Select(browser.find_element(By.NAME, "quantity")).select_by_value(LINK)
    titles = [title.text for title in browser.find_elements(By.CSS_SELECTOR, ".ytitle")]
    assert LINK in titles
    assert browser.find_elements(By.CSS_SELECTOR, ".plot a") == []


@pytest.mark.long
def test_quantities_named_like_object_properties_are_drawn(browser, page, tmp_path):
    for name, column in (("scornn-0", "train_loss,"), ("lstm-0", "constructor,")):
        folder = shutil.copytree(page.parent / "runs" / name, tmp_path / "runs" / name)
        text = (folder / "metrics.csv").read_text()
        (folder / "metrics.csv").write_text(text.replace("train_loss,", column))
    load(browser, write_report([tmp_path / "runs"], tmp_path / "page.html"))
    Select(browser.find_element(By.NAME, "quantity")).select_by_value("constructor")
    shown = [
        b for b in browser.find_elements(By.CSS_SELECTOR, ".toggles button") if b.is_displayed()
    ]
    assert [button.text for button in shown] == ["lstm-0"]
    assert browser.get_log("browser") == []
