"""A report in a browser: real clicks and keys on a page of real trainings, without a network."""

import base64
import json
import shutil

import pytest

from eigenrnn.experiments.report import write_report
from reported_runs import STEPS, WATCHED, rebuild, recipe_row, train_all, write_recipe

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

# what is laid out on each other: text, controls and charts of the same parent's line of descent
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

# texts of a chart's axes that touch each other
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

CONTROLS = """
return [...document.querySelectorAll("a[href], button, select, input, summary, [tabindex='0']")]
  .filter((e) => e.offsetParent !== null && !e.closest("details:not([open]) > :not(summary)"))
  .filter((e) => e.checkVisibility({visibilityProperty: true})).length;
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
    write_recipe(folder, [recipe_row(), recipe_row("<b>LSTM</b> & more", reported=None)])
    return write_report([folder], folder.parent / "page.html", rebuild=rebuild)


@pytest.fixture
def opened(browser, page):
    """The page as it is when it has just been opened, on a desktop in the light."""
    resize(browser, DESKTOP)
    prefer(browser, "light")
    load(browser, page)
    return browser


@pytest.fixture
def seen(browser, page):
    """The page as another test may have left it: for those that look, or leave it as it was."""
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
    """Wait until the charts have been drawn for the width of their places."""
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


def background(browser):
    return browser.execute_script("return getComputedStyle(document.body).backgroundColor")


def test_page_opens_without_a_network_and_without_a_complaint(opened):
    assert opened.get_log("browser") == []
    assert opened.execute_script(
        "return [...document.querySelectorAll('.plot')].filter((p) => p.offsetParent)"
        ".every((p) => p.querySelector('svg'))"
    )


def test_everything_that_can_be_pressed_and_chosen_works_without_a_complaint(opened):
    for select in opened.find_elements(By.TAG_NAME, "select"):
        for option in Select(select).options:
            Select(select).select_by_visible_text(option.text)
    for act in ("log", "whole", "log"):
        for button in opened.find_elements(By.CSS_SELECTOR, f"[data-act={act}]"):
            button.click()
    for summary in opened.find_elements(By.CSS_SELECTOR, ".numbers summary"):
        summary.click()
    assert opened.get_log("browser") == []


def test_arrow_keys_on_the_slider_move_the_eigenvalues(seen):
    Select(seen.find_element(By.ID, "spectrum-network")).select_by_visible_text("scornn, seed 0")
    output = seen.find_element(By.CSS_SELECTOR, ".slider output")
    slider = focus(seen, seen.find_element(By.ID, "spectrum-step"))
    slider.send_keys(Keys.HOME)
    planes = {}
    for _ in STEPS:
        planes[output.text] = tuple(traces(seen, "[data-part=disc]")[2]["x"])
        slider.send_keys(Keys.ARROW_RIGHT)
    assert list(planes) == [f"step {step}" for step in STEPS]
    assert len(set(planes.values())) == len(STEPS)


def test_eigenvalues_on_the_disc_are_those_of_the_step(seen, page):
    Select(seen.find_element(By.ID, "spectrum-network")).select_by_visible_text("scornn, seed 0")
    focus(seen, seen.find_element(By.ID, "spectrum-step")).send_keys(Keys.HOME)
    line = (page.parent / "runs" / "scornn-0" / "dynamics.jsonl").read_text().splitlines()[0]
    written = [re for re, _ in json.loads(line)["spectrum"]["hh_l0"]]
    assert traces(seen, "[data-part=disc]")[2]["x"] == pytest.approx(written, abs=1e-4)


def test_playing_goes_through_the_steps_and_stops_at_the_last(seen):
    Select(seen.find_element(By.ID, "spectrum-network")).select_by_visible_text("scornn, seed 0")
    button = focus(seen, seen.find_element(By.CSS_SELECTOR, "[data-act=play]"))
    button.send_keys(Keys.SPACE)
    assert button.text == "Pause"
    WebDriverWait(seen, 10, poll_frequency=0.05).until(lambda _: button.text == "Play")
    output = seen.find_element(By.CSS_SELECTOR, ".slider output").text
    assert output == f"step {STEPS[-1]}"


def test_network_that_nobody_watched_has_no_slider(seen):
    Select(seen.find_element(By.ID, "spectrum-network")).select_by_visible_text("lstm, seed 0")
    assert not seen.find_element(By.ID, "spectrum-step").is_displayed()
    assert len(traces(seen, "[data-part=disc]")[2]["x"]) == 8


def test_space_on_a_toggle_hides_and_shows_its_curve_with_its_band(opened):
    button = focus(opened, opened.find_elements(By.CSS_SELECTOR, "#curves .toggles button")[0])

    def shown():
        found = traces(opened, "#task-1 .plot")
        return [t["visible"] for t in found if t["name"].startswith(button.text)]

    assert (shown(), button.get_attribute("aria-pressed")) == ([True, True], "true")
    button.send_keys(Keys.SPACE)
    assert (shown(), button.get_attribute("aria-pressed")) == ([False, False], "false")
    button.send_keys(Keys.SPACE)
    assert shown() == [True, True]


def test_keys_on_a_chart_zoom_and_go_back(seen):
    def width():
        low, high = seen.execute_script(
            "return document.querySelector('#task-1 .plot')._fullLayout.xaxis.range"
        )
        return high - low

    plot = focus(seen, seen.find_element(By.CSS_SELECTOR, "#task-1 .plot"))
    whole = width()
    plot.send_keys("+")
    WebDriverWait(seen, 10).until(lambda _: width() == pytest.approx(0.6 * whole))
    plot.send_keys("0")
    WebDriverWait(seen, 10).until(lambda _: width() == pytest.approx(whole))


def test_logarithm_is_taken_and_given_back(seen):
    button = focus(seen, seen.find_element(By.CSS_SELECTOR, "#task-1 [data-act=log]"))
    scale = "return document.querySelector('#task-1 .plot')._fullLayout.yaxis.type"
    button.send_keys(Keys.ENTER)
    assert seen.execute_script(scale) == "log"
    button.send_keys(Keys.ENTER)
    assert seen.execute_script(scale) == "linear"


def test_quantity_that_is_chosen_is_drawn(seen):
    Select(seen.find_element(By.ID, "task-1-quantity")).select_by_value("train_loss")
    assert len(traces(seen, "#task-1 .plot")[-1]["x"]) == 6  # logged every 5 of 30 steps
    label = seen.find_element(By.CSS_SELECTOR, "#task-1 .plot").get_attribute("aria-label")
    assert label.startswith("Train loss over training steps: lstm")


def test_button_makes_page_and_charts_dark(seen):
    ink = "return document.querySelector('#task-1 .plot').layout.font.color"
    light = background(seen), seen.execute_script(ink)
    focus(seen, seen.find_element(By.ID, "theme")).send_keys(Keys.ENTER)
    dark = background(seen), seen.execute_script(ink)
    assert all(a != b for a, b in zip(light, dark, strict=True))
    seen.find_element(By.ID, "theme").click()
    assert (background(seen), seen.execute_script(ink)) == light


def test_page_is_dark_where_the_reader_prefers_it(opened):
    light = background(opened)
    prefer(opened, "dark")
    WebDriverWait(opened, 10).until(lambda b: background(b) != light)
    assert opened.find_element(By.ID, "theme").get_attribute("aria-pressed") == "true"


@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_page_fits_its_width_and_nothing_overlaps(seen, size):
    resize(seen, size)
    settled(seen, size[0])
    wide, inner = seen.execute_script("return [document.documentElement.scrollWidth, innerWidth]")
    assert wide <= inner
    assert seen.execute_script(OVERLAPS) == []
    assert seen.execute_script(TICKS) == []


def test_text_on_a_phone_is_not_small(seen):
    resize(seen, PHONE)
    settled(seen, PHONE[0])
    sizes = seen.execute_script(
        "return [...document.querySelectorAll('p, td, th, label, button, summary, .xtick text')]"
        ".map((e) => parseFloat(getComputedStyle(e).fontSize))"
    )
    assert min(sizes) >= 12


def test_tab_key_reaches_every_control(seen):
    reached = set()
    controls = seen.execute_script(CONTROLS)
    for _ in range(controls):
        webdriver.ActionChains(seen, duration=0).send_keys(Keys.TAB).perform()
        reached.add(seen.switch_to.active_element.id)
    assert len(reached) == controls


def test_every_control_has_a_name(seen):
    nameless = seen.execute_script(
        "return [...document.querySelectorAll('button, select, input, [role=img]')].filter((e) => "
        "!(e.getAttribute('aria-label') || e.textContent.trim() && e.tagName === 'BUTTON' || "
        "e.labels?.length)).map((e) => e.outerHTML)"
    )
    assert nameless == []


def test_numbers_of_a_chart_are_a_table_too(opened):
    opened.find_element(By.CSS_SELECTOR, "#task-1 .numbers summary").click()
    place = (By.CSS_SELECTOR, "#task-1 .numbers tbody td")
    cells = WebDriverWait(opened, 10).until(lambda b: b.find_elements(*place))
    assert cells[0].text == "10"  # the first evaluation


def test_label_with_markup_is_shown_as_it_is(seen):
    assert "<b>LSTM</b> & more" in seen.find_element(By.ID, "results").text


LINK = '<a href="https://example.org">quantity</a>'


def test_names_in_the_files_of_a_run_become_no_links(browser, page, tmp_path):
    folder = shutil.copytree(page.parent / "runs" / WATCHED, tmp_path / "run")
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


def test_quantities_that_a_script_knows_by_name_are_drawn(browser, page, tmp_path):
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


def test_page_prints(opened):
    paper = {"paperWidth": 8.27, "paperHeight": 11.69, "printBackground": True}
    printed = base64.b64decode(opened.execute_cdp_cmd("Page.printToPDF", paper)["data"])
    assert printed.startswith(b"%PDF")
    assert opened.get_log("browser") == []
    # and is as it was
    assert opened.execute_script("return document.documentElement.dataset.theme") == "light"
    settled(opened, DESKTOP[0])


def test_controls_are_not_on_paper(seen):
    seen.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    hidden = seen.find_elements(By.CSS_SELECTOR, "[data-act], nav, #theme, .slider")
    assert not any(element.is_displayed() for element in hidden)
    seen.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
