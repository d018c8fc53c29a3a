// The charts: each draws itself from its controls, and returns its numbers as a table.
"use strict";

class Chart {
  constructor(figure) {
    this.figure = figure;
    this.plots = [...figure.querySelectorAll(".plot")];
    for (const plot of this.plots) plot.figure = this;
    this.prepare();
    for (const select of figure.querySelectorAll("select")) {
      select.addEventListener("change", () => this.changed(select.name));
    }
    for (const button of figure.querySelectorAll("[data-act]")) {
      button.addEventListener("click", () => this.act(button));
    }
    figure.querySelector(".numbers").addEventListener("toggle", () => this.tabulate());
    for (const plot of this.plots) if (plot.tabIndex === 0) listenToKeys(plot);
  }
  prepare() {}
  select(name) { return this.figure.querySelector(`select[name="${name}"]`); }
  part(name) { return this.figure.querySelector(`[data-part="${name}"]`); }
  pressed(act) { return this.figure.querySelector(`[data-act="${act}"]`)?.getAttribute("aria-pressed") === "true"; }
  changed() { this.draw(); }
  tabulate() {
    const details = this.figure.querySelector(".numbers");
    if (details.open) showTable(details.querySelector(".scroll"), this.table());
  }
  act(button) {
    const act = button.dataset.act;
    if (act === "csv") save(`${this.figure.id}.csv`, toCsv(this.table()));
    else if (act === "png") this.plots.filter((plot) => plot.offsetParent).forEach((plot, number) => Plotly.downloadImage(plot, {format: "png", scale: 2, filename: `${this.figure.id}-${number + 1}`}));
    else if (act === "reset") this.plots.forEach(resetZoom);
    else if (act === "log") {
      button.setAttribute("aria-pressed", String(!this.pressed("log")));
      this.plots.forEach(resetZoom);
    }
  }
}

// Charts of several series, each of which can be hidden.
class SeriesChart extends Chart {
  prepare() {
    this.series = this.loadSeries();
    const container = this.figure.querySelector(".toggles");
    this.toggles = this.series.map((one) => {
      const button = make("button", undefined, {type: "button", "aria-pressed": String(one.shown)});
      button.append(swatch(one.colour, one.dash), make("span", one.label));
      button.addEventListener("click", () => {
        one.shown = !one.shown;
        button.setAttribute("aria-pressed", String(one.shown));
        this.draw();
      });
      return button;
    });
    container.replaceChildren(...this.toggles);
    this.plot = this.plots[0];
  }
  line(one, x, y, more = {}) {
    return {
      type: "scatter", mode: x.length > 1 ? "lines" : "markers", x, y, name: plain(one.label), visible: one.shown, connectgaps: true,
      line: {color: colourOf(one.colour), dash: DASHES[one.dash % 5], width: 2}, ...more,
    };
  }
}

class LearningCurves extends SeriesChart {
  loadSeries() {
    this.data = DATA.curves[this.figure.dataset.key];
    fill(this.select("quantity"), this.data.quantities.map((name) => [name, words(name)]), this.data.initial);
    fill(this.select("band"), [["error", "standard error"], ["range", "range over runs"], ["none", "none"]]);
    return this.data.series;
  }
  changed(name) {
    if (name === "quantity") resetZoom(this.plot);
    else this.draw();
  }
  band(one, values, log) {
    const kind = this.select("band").value;
    const at = values.step.map((_, index) => index).filter((index) => kind === "range" || values.error[index] !== null);
    const around = (index, sign) => {
      const mean = values.mean[index];
      const edge = kind === "range" ? (sign < 0 ? values.low : values.high)[index] : mean + sign * values.error[index];
      return log && edge <= 0 ? mean / 10 : edge;  // a logarithmic axis cannot show values below zero
    };
    const [x, back] = [at.map((index) => values.step[index]), [...at].reverse()];
    const colour = colourOf(one.colour);
    return {
      type: "scatter", mode: "lines", fill: "toself", fillcolor: faint(colour, 0.18), line: {width: 0, color: colour}, hoverinfo: "skip",
      x: [...x, ...[...x].reverse()], y: [...at.map((i) => around(i, 1)), ...back.map((i) => around(i, -1))],
      visible: one.shown && kind !== "none", name: plain(`${one.label}, band`),
    };
  }
  draw() {
    const [quantity, log] = [this.select("quantity").value, this.pressed("log")];
    const present = this.series.filter((one) => one.values[quantity]);
    this.series.forEach((one, index) => { this.toggles[index].hidden = !one.values[quantity]; });
    const lines = present.map((one) => this.line(one, one.values[quantity].step, one.values[quantity].mean));
    const bands = present.map((one) => this.band(one, one.values[quantity], log));
    const ends = present.filter((one) => one.shown).map((one) => `${one.label} ends at ${short(one.values[quantity].mean.at(-1))}`);
    this.plot.setAttribute("aria-label", `${words(quantity)} over training steps: ${ends.join(", ") || "all are hidden"}`);
    const scale = log ? LOG : {type: "linear"};
    this.tabulate();
    return draw(this.plot, [...bands, ...lines], layout(
      axis("training step", {exponentformat: "none", separatethousands: true}), axis(words(quantity), scale),
      {hovermode: "x unified", uirevision: `${quantity} ${log} ${this.plot.revision}`},
    ));
  }
  table() {
    const quantity = this.select("quantity").value;
    const present = this.series.filter((one) => one.shown && one.values[quantity]);
    const steps = [...new Set(present.flatMap((one) => one.values[quantity].step))].sort((a, b) => a - b);
    const names = ["mean", "error", "low", "high", "count"];
    const columns = ["step", ...present.flatMap((one) => ["mean", "standard error", "smallest", "largest", "runs"].map((name) => `${one.label}: ${name}`))];
    const places = present.map((one) => new Map(one.values[quantity].step.map((step, index) => [step, index])));
    const cells = (step) => present.flatMap((one, number) => names.map((name) => one.values[quantity][name][places[number].get(step)] ?? null));
    return {columns, rows: steps.map((step) => [step, ...cells(step)])};
  }
}

class FisherMemory extends SeriesChart {
  loadSeries() { return DATA.fisher; }
  draw() {
    const log = this.pressed("log");
    const lines = this.series.map((one) => this.line(one, one.values.map((_, k) => k), one.values));
    const totals = this.series.filter((one) => one.shown).map((one) => `${one.label} ${short(one.total)} in total`);
    this.plot.setAttribute("aria-label", `Fisher memory by age of the input: ${totals.join(", ") || "all are hidden"}`);
    this.tabulate();
    return draw(this.plot, lines, layout(axis("age k of the input (steps)"), axis("J(k)", log ? LOG : {}), {uirevision: `${log} ${this.plot.revision}`, hovermode: "x unified"}));
  }
  table() {
    const most = Math.max(...this.series.map((one) => one.values.length));
    return {
      columns: ["k", ...this.series.map((one) => one.label)],
      rows: Array.from({length: most}, (_, k) => [k, ...this.series.map((one) => one.values[k] ?? null)]),
    };
  }
}

// Charts of one network's matrix at a time.
class NetworkChart extends Chart {
  prepare() {
    this.networks = DATA[this.figure.dataset.chart];
    fill(this.select("network"), this.networks.map((one, index) => [String(index), one.label]));
    this.fillMatrices();
  }
  get network() { return this.networks[Number(this.select("network").value)]; }
  get matrix() { return this.network.matrices[this.select("matrix").value]; }
  fillMatrices() { fill(this.select("matrix"), Object.keys(this.network.matrices).map((name) => [name, name]), this.network.main); }
  changed(name) {
    if (name === "network") this.fillMatrices();
    return this.plots.forEach(resetZoom);
  }
}

class HeatMaps extends NetworkChart {
  draw() {
    const {map, profile, note} = this.matrix;
    const label = `${this.network.label}, ${this.select("matrix").value}`;
    this.part("map").setAttribute("aria-label", `Heat map of ${label}. ${note}`);
    this.part("note").textContent = note;
    this.tabulate();
    heatMap(this.part("map"), map);
    const colour = colourOf(this.network.colour);
    const log = profile.log ? LOG : {};
    this.part("diagonals").setAttribute("aria-label", `${profile.y_name} by ${profile.x_name} of ${label}`);
    draw(this.part("diagonals"), [{type: "scatter", mode: "lines+markers", x: profile.x, y: profile.y, line: {color: colour, width: 2}, marker: {size: 4}, name: plain(label)}],
      layout(axis(profile.x_name), axis(profile.y_name, log), {uirevision: `${label} ${this.part("diagonals").revision}`}));
  }
  table() {
    const {map, profile} = this.matrix;
    const values = map.z.flatMap((row, i) => row.map((value, j) => [map.y[i], map.x[j], value === null ? null : map.log ? Number((10 ** value).toPrecision(4)) : value]));
    return {columns: [map.y_name, map.x_name, map.name, "", profile.x_name, profile.y_name], rows: values.map((row, index) => [...row, "", profile.x[index] ?? null, profile.y[index] ?? null])};
  }
}

class Spectrum extends NetworkChart {
  prepare() {
    this.slider = this.figure.querySelector("input[type=range]");
    this.player = this.figure.querySelector('[data-act="play"]');
    super.prepare();
    this.slider.addEventListener("input", () => this.draw());
  }
  fillMatrices() {
    super.fillMatrices();
    const {steps, measures} = this.network;
    this.stop();
    this.slider.max = String(steps.length - 1);
    this.slider.value = this.slider.max;
    this.figure.querySelector(".slider").hidden = steps.length < 2;
    fill(this.select("measure"), Object.keys(measures).map((name) => [name, name]));
    const gradients = Object.keys(this.network.gradients).length > 0;
    this.part("gradients").hidden = !gradients;
    this.part("measures").hidden = this.part("measure-field").hidden = steps.length < 2;
    this.figure.querySelector(".side").hidden = steps.length < 2 && !gradients;
    this.figure.querySelector(".pair").classList.toggle("alone", steps.length < 2 && !gradients);
  }
  act(button) {
    if (button.dataset.act === "play") (this.playing ? this.stop() : this.play());
    else super.act(button);
  }
  play() {
    if (Number(this.slider.value) === Number(this.slider.max)) this.slider.value = "0";
    this.player.textContent = "Pause";
    this.player.setAttribute("aria-pressed", "true");
    this.playing = setInterval(() => {
      this.slider.value = String(Number(this.slider.value) + 1);
      this.draw();
      if (Number(this.slider.value) >= Number(this.slider.max)) this.stop();
    }, 250);
    this.draw();
  }
  stop() {
    clearInterval(this.playing);
    this.playing = null;
    this.player.textContent = "Play";
    this.player.setAttribute("aria-pressed", "false");
  }
  draw() {
    const [at, name, {steps, label}] = [Number(this.slider.value), this.select("matrix").value, this.network];
    const position = steps[at] === null ? "the trained model" : `step ${steps[at].toLocaleString("en")}`;
    this.figure.querySelector("output").textContent = position;
    this.slider.setAttribute("aria-valuetext", position);
    this.part("note").textContent = `Shown is ${position}. ${this.network.note}`;
    this.tabulate();
    this.drawDisc(at, `${label}, ${name}, ${position}`);
    if (steps.length > 1) this.drawMeasures(at);
    this.drawGradients(at);
  }
  drawDisc(at, position) {
    const planes = this.matrix;
    const [now, first] = [planes[at], planes[0]];
    const moduli = now.re.map((re, index) => Math.hypot(re, now.im[index]));
    const angles = now.re.map((re, index) => Math.atan2(now.im[index], re));
    const far = Math.max(1, ...planes.flatMap((p) => p.re.map((re, i) => Math.max(Math.abs(re), Math.abs(p.im[i]))))) * 1.08;
    const turns = Array.from({length: 181}, (_, index) => (index * Math.PI) / 90);
    const colour = colourOf(this.network.colour);
    this.part("disc").setAttribute("aria-label", `${moduli.length} eigenvalues of ${position}; the largest modulus is ${short(Math.max(...moduli))}`);
    const traces = [
      {type: "scatter", mode: "lines", x: turns.map(Math.cos), y: turns.map(Math.sin), line: {color: style("--soft"), width: 1}, hoverinfo: "skip", name: "unit circle"},
      {type: "scatter", mode: "markers", x: first.re, y: first.im, marker: {color: style("--soft"), size: 6, symbol: "circle-open", opacity: 0.6}, hoverinfo: "skip", visible: planes.length > 1, name: "first step"},
      {
        type: "scatter", mode: "markers", x: now.re, y: now.im, marker: {color: colour, size: 7, opacity: 0.85}, name: "eigenvalues",
        customdata: moduli.map((modulus, index) => [modulus, angles[index]]),
        hovertemplate: "%{x:.4f} + %{y:.4f}i<br>modulus %{customdata[0]:.4f}, angle %{customdata[1]:.3f} rad<extra></extra>",
      },
    ];
    draw(this.part("disc"), traces, layout(
      axis("real part", {range: [-far, far], constrain: "domain"}),
      axis("imaginary part", {range: [-far, far], scaleanchor: "x", constrain: "domain"}),
      {uirevision: `${this.select("network").value} ${this.select("matrix").value} ${this.part("disc").revision}`},
    ));
  }
  marker(x) {
    return {shapes: [{type: "line", xref: "x", yref: "paper", x0: x, x1: x, y0: 0, y1: 1, line: {color: style("--soft"), width: 1, dash: "dot"}}]};
  }
  drawMeasures(at) {
    const [{steps, measures, colour}, measure] = [this.network, this.select("measure").value];
    const y = measures[measure][this.select("matrix").value];
    this.part("measures").setAttribute("aria-label", `${words(measure)} over training: ${short(y[0])} at first, ${short(y.at(-1))} at last`);
    draw(this.part("measures"), [{type: "scatter", mode: "lines+markers", x: steps, y, marker: {size: 4}, line: {color: colourOf(colour), width: 2}, name: plain(measure)}],
      layout(axis("training step"), axis(words(measure), {exponentformat: "power"}), {...this.marker(steps[at]), uirevision: `${this.part("measures").revision}`}));
  }
  drawGradients(at) {
    const layers = Object.entries(this.network.gradients);
    if (!layers.length) return;
    const every = layers.flatMap(([, {norms}]) => norms.flat()).filter((value) => value > 0);
    const span = every.length ? [Math.log10(Math.min(...every)) - 0.2, Math.log10(Math.max(...every)) + 0.2] : undefined;
    const traces = layers.map(([name, {time, norms}], index) => ({type: "scatter", mode: "lines", x: time, y: norms[at], name: plain(name), line: {color: colourOf(this.network.colour), dash: DASHES[index % 5], width: 2}}));
    draw(this.part("gradients"), traces, layout(axis("time step of the sequence"), axis("gradient norm", {...LOG, range: span}), {uirevision: `${this.part("gradients").revision}`}));
  }
  table() {
    const now = this.matrix[Number(this.slider.value)];
    return {columns: ["real part", "imaginary part", "modulus"], rows: now.re.map((re, i) => [re, now.im[i], Number(Math.hypot(re, now.im[i]).toPrecision(5))])};
  }
}

const KINDS = {curves: LearningCurves, fisher: FisherMemory, schur: HeatMaps, gradient: HeatMaps, spectrum: Spectrum};
const charts = [...document.querySelectorAll("[data-chart]")].map((figure) => new KINDS[figure.dataset.chart](figure));
const drawAll = () => charts.forEach((chart) => chart.draw());

const FILES = {csv: ["csv", "text/csv"], markdown: ["md", "text/markdown"], latex: ["tex", "application/x-tex"]};
document.querySelectorAll("[data-table]").forEach((saver) => saver.addEventListener("click", () => {
  const {table, format} = saver.dataset;
  const [ending, type] = FILES[format];
  save(`${table}.${ending}`, DATA.tables[table][format], type);
}));

const button = document.getElementById("theme");
function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  button.setAttribute("aria-pressed", String(theme === "dark"));
  drawAll();
}
const dark = matchMedia("(prefers-color-scheme: dark)");
let chosen = null;
const theme = () => chosen ?? (dark.matches ? "dark" : "light");
button.addEventListener("click", () => setTheme((chosen = theme() === "dark" ? "light" : "dark")));
dark.addEventListener("change", () => setTheme(theme()));
setTheme(theme());

let closed = [];
addEventListener("beforeprint", () => {
  printing = true;
  closed = [...document.querySelectorAll("details:not(.numbers):not([open])")];
  closed.forEach((details) => { details.open = true; });
  setTheme("light");
});
addEventListener("afterprint", () => {
  printing = false;
  closed.forEach((details) => { details.open = false; });
  setTheme(theme());
  charts.flatMap((chart) => chart.plots).filter((plot) => plot.offsetParent).forEach((plot) => Plotly.Plots.resize(plot));
});
document.documentElement.dataset.ready = "true";
