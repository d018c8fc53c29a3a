// Shared by all charts: colours, layouts, tables and downloads.
"use strict";

// names come from files: objects without a prototype have no inherited keys such as "constructor"
const bare = (_, value) => (value === null || typeof value !== "object" || Array.isArray(value) ? value : Object.assign(Object.create(null), value));
const DATA = JSON.parse(document.getElementById("data").textContent, bare);
const DASHES = ["solid", "dash", "dot", "dashdot", "longdash"];
const STROKES = ["", "8 4", "2 3", "8 3 2 3", "12 4"];
const CONFIG = {displayModeBar: false, responsive: true, scrollZoom: false, doubleClick: "reset"};
const LOG = {type: "log"};
const touch = matchMedia("(pointer: coarse)").matches;
let printing = false;

const style = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const colourOf = (index) => style(`--series-${index % 7}`);
const faint = (colour, share) => colour + Math.round(share * 255).toString(16).padStart(2, "0");
const words = (name) => name.replaceAll("_", " ").replace(/^./, (letter) => letter.toUpperCase());
const short = (value) => (value === null || value === undefined || Number.isNaN(value) ? "" : String(Number(value.toPrecision(6))));
// labels come from files: escape them, because plotly interprets markup and links
const plain = (text) => String(text).replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");

function make(tag, text, attributes = {}) {
  const element = document.createElement(tag);
  if (text !== undefined) element.textContent = text;
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  return element;
}

function fill(select, names, chosen) {
  const before = select.value;
  select.replaceChildren(...names.map(([value, text]) => make("option", text, {value})));
  const values = names.map(([value]) => value);
  select.value = values.includes(before) && before !== "" ? before : chosen ?? values[0];
}

function swatch(colour, dash) {
  const space = "http://www.w3.org/2000/svg";
  const picture = document.createElementNS(space, "svg");
  const line = document.createElementNS(space, "line");
  for (const [name, value] of [["x1", 1], ["x2", 33], ["y1", 6], ["y2", 6], ["stroke-width", 3]]) line.setAttribute(name, value);
  line.setAttribute("stroke-dasharray", STROKES[dash % 5]);
  line.style.stroke = `var(--series-${colour % 7})`;
  picture.setAttribute("viewBox", "0 0 34 12");
  picture.setAttribute("aria-hidden", "true");
  picture.append(line);
  return picture;
}

function axis(title, more = {}) {
  return {
    title: {text: plain(title), standoff: 8}, gridcolor: style("--grid"), linecolor: style("--line"),
    zerolinecolor: style("--line"), automargin: true, ...more,
  };
}

function layout(x, y, more = {}) {
  const ink = style("--ink");
  return {
    font: {family: getComputedStyle(document.body).fontFamily, size: 13, color: ink},
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", showlegend: false, autosize: true,
    margin: {l: 52, r: 14, t: 14, b: 44}, dragmode: touch ? false : "zoom", hovermode: "closest",
    hoverlabel: {bgcolor: style("--card"), bordercolor: style("--line"), font: {color: ink}, namelength: -1},
    xaxis: x, yaxis: y, ...more,
  };
}

// 0.05, 0.1, 0.2 rather than plotly's 5, 10^-1, 2
function logTicks(low, high) {
  const powers = [];
  for (let power = Math.floor(low); power <= Math.ceil(high); power += 1) powers.push(power);
  let values = powers.filter((power) => power % Math.ceil((high - low) / 6) === 0).map((power) => 10 ** power);
  if (high - low < 2.5) values = powers.flatMap((power) => [1, 2, 5].map((digit) => digit * 10 ** power));
  if (high - low < 0.5) {  // too close for that: evenly, as on a linear axis
    const wide = 10 ** high - 10 ** low;
    const size = 10 ** Math.floor(Math.log10(wide / 2));
    const step = size * (wide / size > 10 ? 5 : wide / size > 4 ? 2 : 1);
    values = Array.from({length: 30}, (_, index) => (Math.floor(10 ** low / step) + index) * step);
  }
  values = values.filter((value) => value > 0 && Math.log10(value) >= low - 1e-9 && Math.log10(value) <= high + 1e-9);
  const label = (value) => {
    const power = Math.floor(Math.log10(value) + 1e-9);
    const digits = Number((value / 10 ** power).toPrecision(4));
    return Math.abs(power) < 4 ? short(value) : `${digits === 1 ? "" : `${digits}·`}10<sup>${power}</sup>`;
  };
  return {values, texts: values.map(label)};
}

function logRange(traces) {
  const shown = traces.filter((trace) => trace.visible !== false).flatMap((trace) => trace.y.filter((value) => value > 0));
  const [low, high] = [shown.reduce((a, b) => Math.min(a, b), Infinity), shown.reduce((a, b) => Math.max(a, b), 0)].map(Math.log10);
  if (!Number.isFinite(low)) return [-1, 1];
  return high - low < 1e-3 ? [low - 1, high + 1] : [low - 0.06 * (high - low), high + 0.06 * (high - low)];
}

// updated after each zoom
function retick(plot) {
  const {type, range, tickvals} = plot.layout.yaxis;
  if (type !== "log" || !range) return;
  const {values, texts} = logTicks(...range);
  if (values.length && String(values) !== String(tickvals)) Plotly.relayout(plot, {"yaxis.tickvals": values, "yaxis.ticktext": texts});
}

// chart widths on paper, because the page keeps its screen layout until it is printed
const WIDTHS = {tall: 640, square: 310, short: 310};
function draw(plot, traces, shown) {
  if (printing) {
    const kind = Object.keys(WIDTHS).find((name) => plot.classList.contains(name));
    const lone = plot.closest(".alone");
    Object.assign(shown, {width: lone ? 400 : WIDTHS[kind], height: kind === "short" ? 145 : 285, autosize: false});
    shown.font = {...shown.font, size: 11};
  }
  if (shown.yaxis.type === "log") {
    shown.yaxis.range ??= logRange(traces);
    const {values, texts} = logTicks(...shown.yaxis.range);
    Object.assign(shown.yaxis, {tickvals: values, ticktext: texts});
  }
  const drawn = Plotly.react(plot, traces, shown, CONFIG);
  if (!plot.listens) plot.on("plotly_relayout", () => retick(plot));
  plot.listens = true;
  return drawn;
}

function heatMap(plot, map) {
  const finite = map.z.flat().filter((value) => value !== null);
  let [low, high] = [finite.reduce((a, b) => Math.min(a, b), Infinity), finite.reduce((a, b) => Math.max(a, b), -Infinity)];
  if (high - low < 0.02) [low, high] = [low - 0.5, high + 0.5];
  const {values, texts} = logTicks(low, high);
  const traces = [{
    type: "heatmap", z: map.z, x: map.x, y: map.y, colorscale: "Cividis", hoverongaps: false, zmin: low, zmax: high,
    customdata: map.log ? map.z.map((row) => row.map((value) => (value === null ? "" : (10 ** value).toPrecision(3)))) : map.z,
    hovertemplate: `${map.y_name} %{y}, ${map.x_name} %{x}<br>${map.name} %{customdata}<extra></extra>`,
    colorbar: {
      title: {text: map.name, side: "right"}, thickness: 14, outlinewidth: 0, len: 0.95,
      ...(map.log ? {tickvals: values.map(Math.log10), ticktext: texts} : {}),
    },
  }];
  const square = map.square === false ? {} : {scaleanchor: "x", constrain: "domain"};
  return draw(plot, traces, layout(
    axis(map.x_name, {constrain: "domain", showgrid: false, zeroline: false}),
    axis(map.y_name, {autorange: "reversed", showgrid: false, zeroline: false, ...square}),
    {margin: {l: 48, r: 8, t: 14, b: 44}},
  ));
}

function toCsv(table) {
  const cell = (value) => {
    const text = value === null || value === undefined ? "" : String(value);
    return /[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  return [table.columns, ...table.rows].map((row) => row.map(cell).join(",")).join("\n") + "\n";
}

function save(name, text, type = "text/csv") {
  const link = make("a", undefined, {download: name, href: URL.createObjectURL(new Blob([text], {type}))});
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

function showTable(container, table) {
  const maxRows = 60;
  const every = Math.max(1, Math.ceil(table.rows.length / maxRows));
  const rows = table.rows.filter((_, index) => index % every === 0 || index === table.rows.length - 1);
  const head = make("tr");
  head.append(...table.columns.map((name) => make("th", name, {scope: "col"})));
  const lines = rows.map((row) => {
    const line = make("tr");
    line.append(...row.map((value) => make("td", typeof value === "number" ? short(value) : value ?? "")));
    return line;
  });
  const [element, top, body] = [make("table"), make("thead"), make("tbody")];
  top.append(head);
  body.append(...lines);
  const caption = every > 1 ? `${rows.length} of ${table.rows.length} rows; the CSV file has all` : `${rows.length} rows`;
  element.append(make("caption", caption), top, body);
  container.replaceChildren(element);
}

// zoom and move by keys, because plotly handles only the mouse
function listenToKeys(plot) {
  plot.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || !plot._fullLayout) return;
    const [low, high] = plot._fullLayout.xaxis.range;
    const width = high - low;
    const by = {ArrowLeft: [-0.2, -0.2], ArrowRight: [0.2, 0.2], "+": [0.2, -0.2], "=": [0.2, -0.2], "-": [-0.33, 0.33]}[event.key];
    if (by) Plotly.relayout(plot, {"xaxis.range": [low + by[0] * width, high + by[1] * width], "xaxis.autorange": false});
    else if (event.key === "0") resetZoom(plot);
    else return;
    event.preventDefault();
  });
}

function resetZoom(plot) {
  plot.revision = (plot.revision ?? 0) + 1;  // a new revision resets the zoom of plotly
  return plot.figure.draw();
}
