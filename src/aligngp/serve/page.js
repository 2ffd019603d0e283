"use strict";
// The page keeps one point of one task. Whatever moves the point asks again; answers to older points are dropped.

const MOST_SLICES = 12;
const RAMP = [[68, 1, 84], [59, 82, 139], [33, 145, 140], [94, 201, 98], [253, 231, 37]]; // viridis
const find = id => document.getElementById(id);
const page = document.documentElement;
let model, task, point = Object.create(null), version = 0, running = false, drawn = 0, slices = [], surface = null;

function shown(value, digits = 5) {
  if (value === 0) return "0";
  const size = Math.abs(value);
  const text = size >= 1e6 || size < 1e-4 ? value.toExponential(digits - 2) : Number(value.toPrecision(digits)).toString();
  return text.replace("-", "\u2212").replace("e+", "e");
}

function made(name, attributes = {}, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) key in node ? node[key] = value : node.setAttribute(key, value);
  node.append(...children);
  return node;
}

function drawing(name, attributes, text) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  if (text !== undefined) node.textContent = text;
  return node;
}

function complain(message) {
  find("error").textContent = message || "";
  find("error").hidden = !message;
}

function warn(sentences) {
  find("warnings").replaceChildren(...sentences.map(sentence => made("li", {}, sentence)));
  find("warnings").hidden = !sentences.length;
}

async function ask(path, body) {
  let answer;
  try {
    answer = await fetch(path, body && {
      method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body),
    });
  } catch {
    throw new Error("The server does not answer. Is 'aligngp serve' still running?");
  }
  const found = await answer.json();
  if (!answer.ok) throw new Error(found.error);
  return found;
}

// ---- the point ------------------------------------------------------------------------------------------------------

function set(changes) {
  Object.assign(point, changes);
  for (const input of task.inputs) {
    const slider = document.querySelector(`.slider[data-at="${task.inputs.indexOf(input)}"]`);
    const [number, range] = [slider.querySelector("[type=number]"), slider.querySelector("[type=range]")];
    if (document.activeElement !== number) number.value = Number(point[input.name].toPrecision(5));
    range.value = point[input.name];
    number.removeAttribute("aria-invalid");
  }
  refresh();
}

function makeSlider(input, at) {
  const number = made("input", { type: "number", step: "any", ariaLabel: input.name });
  const range = made("input", { type: "range", min: input.lower, max: input.upper, step: "any", ariaLabel: `${input.name}, slider` });
  number.addEventListener("input", () => {
    const value = number.valueAsNumber;
    if (Number.isFinite(value)) set({ [input.name]: value });
    else number.setAttribute("aria-invalid", "true");
  });
  number.addEventListener("blur", () => set({}));
  range.addEventListener("input", () => set({ [input.name]: range.valueAsNumber }));
  const ends = made("span", { className: "ends soft small" }, made("span", {}, shown(input.lower, 4)), made("span", {}, shown(input.upper, 4)));
  const node = made("div", { className: "slider" }, made("span", { className: "name", title: input.name }, input.name), number, range, ends);
  node.dataset.at = at;
  return node;
}

function choose(name) {
  task = model.tasks.find(one => one.name === name);
  point = Object.create(null); // an input may have any name, __proto__ as well
  [slices, surface] = [[], null];
  complain("");
  find("sliders").replaceChildren(...task.inputs.map(makeSlider));
  find("output").textContent = `${task.output} of ${task.name}`;
  find("domain").textContent = task.domain === task.name
    ? "The inputs of this task are the common domain." : `Where this point lies among the inputs of ${task.domain}.`;
  const options = () => task.inputs.map((input, at) => made("option", { value: String(at) }, input.name));
  find("across").replaceChildren(...options());
  find("up").replaceChildren(...options());
  find("map").hidden = task.inputs.length < 2;
  find("up").value = "1";
  find("slices").replaceChildren(...task.inputs.slice(0, MOST_SLICES).map(input =>
    made("figure", { className: "chart" }, made("figcaption", { title: input.name }, input.name))));
  const left = task.inputs.length - MOST_SLICES;
  find("more").textContent = left > 0 ? `${left} further inputs are not drawn.` : "";
  middle();
}

function middle() {
  set(Object.fromEntries(task.inputs.map(input => [input.name, input.middle])));
}

// ---- answers --------------------------------------------------------------------------------------------------------

function refresh() {
  version += 1;
  find("answer").classList.add("stale");
  if (!running) answerAll();
}

async function answerAll() {
  running = true;
  for (let last = -1; last !== version;) {
    last = version;
    const [name, at] = [task.name, { ...point }];
    const current = () => last === version;
    try {
      const found = await ask("/api/predict", { task: name, rows: [at] });
      if (task.name !== name) continue;
      showNumber(found, current());
      if (current()) await drawSlices(name, at, current);
      if (current() && task.inputs.length > 1) await drawSurface(name, at, current);
      if (current()) complain("");
    } catch (error) {
      if (current()) complain(error.message);
    }
  }
  running = false;
  page.dataset.drawn = drawn += 1;
}

function showNumber(found, fresh) {
  find("mean").textContent = shown(found.mean[0]);
  find("band").textContent = `95%: ${shown(found.lower[0], 4)} to ${shown(found.upper[0], 4)}`;
  find("deviation").textContent = `standard deviation ${shown(found.std[0], 3)}`;
  find("answer").classList.toggle("stale", !fresh);
  warn(found.warnings);
  const head = made("thead", {}, made("tr", {}, ...["input", "mean", "sd"].map(text => made("th", { scope: "col" }, text))));
  const rows = found.aligned.names.map((name, at) => made("tr", {}, made("th", { scope: "row" }, name),
    made("td", {}, shown(found.aligned.mean[0][at])), made("td", {}, shown(found.aligned.sd[0][at], 3))));
  find("aligned").replaceChildren(head, made("tbody", {}, ...rows));
}

async function drawSlices(name, at, current) {
  const found = [];
  for (const input of task.inputs.slice(0, MOST_SLICES)) {
    found.push(await ask("/api/slice", { task: name, at, input: input.name, points: 60 }));
    if (!current()) return;
  }
  slices = found;
  showSlices();
}

function showSlices() {
  // One scale for all, so that charts can be compared.
  const low = Math.min(...slices.flatMap(one => one.lower)), high = Math.max(...slices.flatMap(one => one.upper));
  slices.forEach((one, place) => {
    const figure = find("slices").children[place], title = figure.firstChild;
    figure.replaceChildren(title, chart(one, point[one.input], low, high, title.clientWidth));
  });
}

function chart(one, here, low, high, width) {
  const [height, left, right, top, bottom] = [160, 40, 8, 8, 22];
  const [first, last] = [one.values[0], one.values[one.values.length - 1]];
  const x = value => left + (value - first) / (last - first) * (width - left - right);
  const y = value => height - bottom - (value - low) / (high - low || 1) * (height - top - bottom);
  const path = values => values.map((value, at) => `${x(one.values[at]).toFixed(1)} ${y(value).toFixed(1)}`);
  const svg = drawing("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `Prediction over ${one.input}` });
  svg.append(
    drawing("line", { class: "axis", x1: left, x2: width - right, y1: height - bottom, y2: height - bottom }),
    drawing("line", { class: "axis", x1: left, x2: left, y1: top, y2: height - bottom }),
    drawing("path", { class: "band", d: `M${[...path(one.upper), ...path(one.lower).reverse()].join("L")}Z` }),
    drawing("path", { class: "line", d: `M${path(one.mean).join("L")}` }),
    drawing("text", { x: left - 5, y: top + 9, "text-anchor": "end" }, shown(high, 3)),
    drawing("text", { x: left - 5, y: height - bottom, "text-anchor": "end" }, shown(low, 3)),
    drawing("text", { x: left, y: height - 6 }, shown(first, 4)),
    drawing("text", { x: width - right, y: height - 6, "text-anchor": "end" }, shown(last, 4)),
  );
  if (here >= first && here <= last) {
    const place = (here - first) / (last - first) * (one.values.length - 1), before = Math.min(Math.floor(place), one.values.length - 2);
    const value = one.mean[before] + (place - before) * (one.mean[before + 1] - one.mean[before]);
    svg.append(drawing("line", { class: "here", x1: x(here), x2: x(here), y1: top, y2: height - bottom }),
      drawing("circle", { class: "dot", cx: x(here), cy: y(value), r: 4.5 }));
  }
  svg.addEventListener("click", event => {
    const box = svg.getBoundingClientRect();
    const part = ((event.clientX - box.left) / box.width * width - left) / (width - left - right);
    set({ [one.input]: first + Math.min(Math.max(part, 0), 1) * (last - first) });
  });
  return svg;
}

// ---- the heat map ---------------------------------------------------------------------------------------------------

async function drawSurface(name, at, current) {
  const inputs = [task.inputs[find("across").value].name, task.inputs[find("up").value].name];
  const found = await ask("/api/surface", { task: name, at, inputs, points: 30 });
  if (current()) showSurface(surface = found);
}

function colour(part) {
  const place = Math.min(Math.max(part, 0), 1) * (RAMP.length - 1), at = Math.min(Math.floor(place), RAMP.length - 2);
  return RAMP[at].map((value, channel) => Math.round(value + (place - at) * (RAMP[at + 1][channel] - value)));
}

function showSurface(found) {
  const values = found[find("shown").value], size = values.length;
  const low = Math.min(...values.flat()), high = Math.max(...values.flat());
  const image = new ImageData(size, size);
  for (let i = 0; i < size; i++) for (let j = 0; j < size; j++) {
    image.data.set([...colour((values[i][j] - low) / (high - low || 1)), 255], 4 * ((size - 1 - j) * size + i));
  }
  const small = made("canvas", { width: size, height: size });
  small.getContext("2d").putImageData(image, 0, 0);
  const canvas = find("surface"), ratio = devicePixelRatio || 1;
  canvas.width = Math.round(canvas.clientWidth * ratio);
  canvas.height = Math.round(canvas.clientHeight * ratio);
  const pen = canvas.getContext("2d");
  pen.imageSmoothingQuality = "high";
  // The first and last values stand in the middle of the outermost pixels: only what lies between is drawn.
  pen.drawImage(small, .5, .5, size - 1, size - 1, 0, 0, canvas.width, canvas.height);
  const [x, y] = found.inputs.map((name, at) => {
    const axis = found.values[at];
    return (point[name] - axis[0]) / (axis[size - 1] - axis[0]);
  });
  for (const [style, width] of [["#000", 5], ["#fff", 2.5]]) {
    pen.beginPath();
    pen.arc(x * canvas.width, (1 - y) * canvas.height, 7 * ratio, 0, 2 * Math.PI);
    pen.strokeStyle = style;
    pen.lineWidth = width * ratio;
    pen.stroke();
  }
  const ends = (id, axis, texts) => find(id).replaceChildren(...texts(axis).map(text => made("span", {}, text)));
  ends("across-ends", found.values[0], axis => [shown(axis[0], 4), found.inputs[0], shown(axis[size - 1], 4)]);
  ends("up-ends", found.values[1], axis => [shown(axis[size - 1], 4), found.inputs[1], shown(axis[0], 4)]);
  canvas.setAttribute("aria-label", `Heat map over ${found.inputs.join(" and ")}, from ${shown(low, 4)} to ${shown(high, 4)}`);
  find("lowest").textContent = shown(low, 4);
  find("highest").textContent = shown(high, 4);
}

function showRamp() {
  const pen = find("ramp").getContext("2d"), image = new ImageData(128, 1);
  for (let at = 0; at < 128; at++) image.data.set([...colour(at / 127), 255], 4 * at);
  pen.putImageData(image, 0, 0);
}

function other(changed, left) {
  // The two inputs of the map are different ones.
  if (find(changed).value === find(left).value) find(left).value = String((Number(find(changed).value) + 1) % task.inputs.length);
  refresh();
}

// ---- tables ---------------------------------------------------------------------------------------------------------

async function send(file) {
  const link = find("download");
  link.hidden = true;
  if (link.href.startsWith("blob:")) URL.revokeObjectURL(link.href);
  if (file.size > 1e7) {
    find("csv").textContent = `${file.name} is larger than 10 MB. Send it in parts.`;
    return;
  }
  find("csv").textContent = `${file.name} is computed \u2026`;
  try {
    const answer = await fetch(`/api/csv?task=${encodeURIComponent(task.name)}`, {
      method: "POST", headers: { "Content-Type": "text/csv" }, body: await file.arrayBuffer(),
    });
    if (!answer.ok) throw new Error((await answer.json()).error);
    const told = JSON.parse(answer.headers.get("x-warnings") || "[]");
    link.href = URL.createObjectURL(await answer.blob());
    link.download = file.name.replace(/(\.[^.]*)?$/, "-predicted.csv");
    link.textContent = `Download ${link.download}`;
    link.hidden = false;
    find("csv").textContent = [`${file.name} is done. Drop or choose another one.`, ...told].join(" ");
  } catch (error) {
    find("csv").textContent = error instanceof TypeError ? "The server does not answer, or refused the file." : error.message;
  }
}

// ---- start ----------------------------------------------------------------------------------------------------------

async function start() {
  model = await ask("/api/model");
  document.title = `aligngp: ${model.tasks.map(one => one.name).join(", ")}`;
  find("about").textContent = model.tasks.map(one => `${one.name}: ${one.rows} rows`).join(" \u00b7 ");
  find("task").replaceChildren(...model.tasks.map(one => made("option", { value: one.name }, one.name)));
  find("task").addEventListener("change", () => choose(find("task").value));
  find("reset").addEventListener("click", middle);
  find("across").addEventListener("change", () => other("across", "up"));
  find("up").addEventListener("change", () => other("up", "across"));
  find("shown").addEventListener("change", () => surface && showSurface(surface));
  addEventListener("resize", () => {
    showSlices();
    if (surface) showSurface(surface);
  });
  find("surface").addEventListener("click", event => {
    if (!surface) return;
    const box = find("surface").getBoundingClientRect();
    const parts = [(event.clientX - box.left) / box.width, 1 - (event.clientY - box.top) / box.height];
    set(Object.fromEntries(surface.inputs.map((name, at) => {
      const axis = surface.values[at];
      return [name, axis[0] + parts[at] * (axis[axis.length - 1] - axis[0])];
    })));
  });
  const drop = find("drop");
  for (const kind of ["dragover", "dragleave", "drop"]) drop.addEventListener(kind, event => {
    event.preventDefault();
    drop.classList.toggle("over", kind === "dragover");
    if (kind === "drop" && event.dataTransfer.files.length) send(event.dataTransfer.files[0]);
  });
  find("file").addEventListener("change", () => {
    if (find("file").files.length) send(find("file").files[0]);
    find("file").value = "";
  });
  showRamp();
  choose(model.tasks[0].name);
}

start().catch(error => complain(error.message));
