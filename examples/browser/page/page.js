// The page: takes choices, asks the worker, and shows what it answers.
import {color, colors, drawTiles, drawTimeline, time} from "./draw.js";

const $ = (id) => document.getElementById(id);
const form = $("form"), fields = form.elements;

// make is an element with a text or with children.
function make(tag, content, attributes = {}) {
  const e = document.createElement(tag);
  e.append(...[].concat(content));
  for (const [name, value] of Object.entries(attributes)) e.setAttribute(name, value);
  return e;
}

function say(text, busy) {
  $("status").textContent = text;
  $("status").classList.toggle("busy", Boolean(busy));
}

function fail(text) {
  $("error").textContent = text;
  $("error").hidden = !text;
  if (text) say("");
}

// The worker answers in the order of calls.
let worker = null, calls = 0;
const waiting = new Map();

function ask(request, content) {
  return new Promise((resolve, reject) => {
    waiting.set(++calls, {resolve, reject});
    worker.postMessage({id: calls, request: JSON.stringify(request), content});
  });
}

// launch starts the program, which then says what it is ready for.
function launch(ready) {
  const mine = worker = new Worker("worker.js");
  worker.onerror = (e) => fail(`The program did not load: ${e.message || "see the console"}`);
  worker.onmessage = ({data}) => {
    if (mine !== worker) return; // it was ended
    data.ready ? ready().catch((e) => fail(e.message)) : answer(data);
  };
}

function answer(data) {
  if (data.broken) return fail(`The program stopped; load the page again. ${data.broken}`);
  if (data.state) return say(data.state, true);
  const {resolve, reject} = waiting.get(data.id);
  waiting.delete(data.id);
  data.error ? reject(new Error(data.error)) : resolve(JSON.parse(data.result));
}

// stop ends the program, which hears of nothing while it computes on the CPU, and starts it again.
function stop() {
  turn++; // nobody awaits the run
  devices = [];
  waiting.clear();
  worker.terminate();
  $("stop").disabled = true;
  fields.backend.focus(); // where it was cannot be used now
  launch(() => start().then(() => say(`Stopped. ${$("status").textContent}`)));
}

let devices = [], dropped = null, plan = null, picked = -1, turn = 0;

async function start() {
  say("Looking for a GPU ...", true);
  devices = await ask({call: "devices"});
  const before = fields.backend.value;
  fields.backend.replaceChildren(...devices.filter((d) => !d.reason).map((d) => {
    const name = d.backend === "cpu" ? "CPU, in WebAssembly" : `${d.software ? "Software adapter" : "GPU"}: ${d.name}`;
    return make("option", name, {value: d.backend});
  }));
  if (before) fields.backend.value = before;
  await choose();
}

// chosen is a layer, or a workload, named as the command line of batchgemm does.
function chosen() {
  const v = (name) => fields[name].value;
  switch (v("kind")) {
    case "inception": return {workload: v("module")};
    case "moe": return {workload: `moe:experts=${v("experts")},top=${v("top")},tokens=${v("tokens")},n=${v("n")},k=${v("k")},skew=${v("skew")},seed=1`};
    case "layer": return {layer: Object.fromEntries(["tokens", "experts", "top", "hidden", "intermediate", "skew"].map((name) => [name, Number(v(name))]))};
    case "random": return {workload: `random:mn=${v("mn")},k=${v("depth")},batch=${v("batch")},seed=${v("seed")}`};
  }
  return {workload: dropped?.name};
}

function tellDevice() {
  const gpu = devices.find((d) => d.backend === "webgpu"), chosen = fields.backend.value;
  let text = "";
  if (chosen === "cpu") text = "Runs on the CPU in WebAssembly, on one thread.";
  if (gpu?.reason) text += ` There is no WebGPU here: ${gpu.reason}`;
  else if (chosen === "webgpu" && gpu.software) text = "This WebGPU adapter is software that runs on the CPU: it computes the same, but times say nothing about a GPU.";
  $("device").textContent = text;
}

// choose plans what is chosen. Of choices that follow each other fast the last one counts.
async function choose() {
  const kind = fields.kind.value, mine = ++turn;
  for (const part of form.querySelectorAll("[data-kind]")) {
    part.hidden = !part.dataset.kind.split(" ").includes(kind);
    for (const input of part.querySelectorAll("input, select")) input.disabled = part.hidden; // so that it is not validated
  }
  if (!devices.length) return; // start plans
  tellDevice();
  fail("");
  $("run").disabled = $("stop").disabled = true;
  $("results").hidden = $("plan").hidden = true;
  if (kind === "file" && !dropped) return say("Choose a .npz file, or drop one.");
  if (!form.checkValidity()) return fail("A number is missing, or outside of its limits.");
  say("Planning ...", true);
  try {
    const content = kind === "file" ? new Uint8Array(await dropped.arrayBuffer()) : undefined;
    if (mine !== turn) return; // another choice was planned while the file was read
    const made = await ask({call: "plan", backend: fields.backend.value, ...chosen()}, content);
    if (mine !== turn) return;
    plan = made;
    picked = -1;
    $("plan").hidden = false;
    $("drawings").hidden = Boolean(plan.layer);
    $("layer").hidden = !plan.layer;
    plan.layer ? showLayer() : showPlan();
    $("run").disabled = false;
  } catch (e) {
    if (mine === turn) fail(e.message);
  }
}

const number = (x) => x >= 100 ? x.toLocaleString("en", {maximumFractionDigits: 0}) : String(Number(x.toPrecision(3)));

function showFacts(facts) {
  $("facts").replaceChildren(...facts.map(([name, value]) => make("div", [make("dt", name), make("dd", String(value))])));
}

const sayPlanned = (what, gflop) => say(`Planned ${what}, ${number(gflop * 1e3)} MFLOP, in ${time(plan.micros)}.`);

function showLayer() {
  const {experts, busy, rows, most, tiles, launches} = plan.layer;
  showFacts([["Experts with rows", `${busy} of ${experts}`], ["Rows", rows], ["Most of an expert", most], ["Tile shapes", tiles.join(", ") || "chosen in each run"], ["Launches", launches]]);
  sayPlanned("a layer of experts", plan.gflop);
}

function showPlan() {
  const e = plan.explain, n = plan.problems.length;
  sayPlanned(n === 1 ? "1 problem" : `${n} problems`, e.gflop);
  showFacts([
    ["Problems", n],
    ["Schedule", e.schedule],
    ["Tile shapes", (e.tiles || []).map((t) => t.name).join(", ")],
    ["Workers", number(e.workers)],
    ["Segments", number(e.segments)],
    ["Launches", (e.launches || []).length],
    [e.predicted_is_guess ? "Predicted (a guess)" : "Predicted", time(e.predicted_micros)],
  ]);
  const entries = n > colors ? [] : plan.problems.map((p, i) => [color(i), `${i}: ${p.m} × ${p.n} × ${p.k}, tile ${p.tile}`]);
  const kinds = new Set(plan.timeline.bars.map((b) => b.k));
  if (kinds.has("partial")) entries.push(["", "paler: a part of K"]);
  if (kinds.has("fixup")) entries.push(["var(--muted)", "adds parts of K"]);
  $("legend").replaceChildren(...entries.map(([shade, text]) => {
    const swatch = make("i", [], {"aria-hidden": "true"});
    swatch.style.background = shade;
    return make("li", shade ? [swatch, text] : [text]);
  }));
  const {rows, lanes} = plan.timeline;
  $("tiles").setAttribute("aria-label", `${n} matrices C, each cut into tiles. Arrow keys pick a problem.`);
  $("timeline").setAttribute("aria-label", `Timeline of ${rows} of ${lanes} workgroup places over ${time(plan.timeline.total)}. Arrow keys pick a problem.`);
  draw();
}

let problemAt = {};

function draw() {
  if (!plan?.problems || $("plan").hidden) return;
  const tiles = drawTiles($("tiles"), plan, picked);
  problemAt = {tiles: tiles.at, timeline: drawTimeline($("timeline"), plan, picked)};
  $("tiles-title").textContent = `Each C, cut into tiles (M ${tiles.turned ? "to the right, N down" : "down, N to the right"})`;
  const p = plan.problems[picked], {rows, lanes} = plan.timeline;
  $("picked").textContent = p
    ? `Problem ${picked}: M ${p.m}, N ${p.n}, K ${p.k}; ${Math.ceil(p.m / p.tm) * Math.ceil(p.n / p.tn)} tiles of ${p.tm} × ${p.tn} (${p.tile}).`
    : `A row for each place of a workgroup${rows < lanes ? `, ${rows} of ${lanes}` : ""}. Point at a problem, or pick one with the arrow keys.`;
}

function pick(problem) {
  if (problem === picked) return;
  picked = problem;
  draw();
}

for (const id of ["tiles", "timeline"]) {
  $(id).addEventListener("pointermove", (e) => pick(problemAt[id](e.offsetX, e.offsetY)));
  $(id).addEventListener("pointerdown", (e) => pick(problemAt[id](e.offsetX, e.offsetY)));
  $(id).addEventListener("pointerleave", () => pick(-1));
  $(id).addEventListener("keydown", (e) => {
    const step = {ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1}[e.key];
    if (e.key === "Escape") pick(-1);
    if (!step) return;
    e.preventDefault();
    const n = plan.problems.length;
    pick(picked < 0 ? (step > 0 ? 0 : n - 1) : (picked + step + n) % n);
  });
}

async function run() {
  const mine = turn;
  fail("");
  $("run").disabled = true;
  $("stop").disabled = false;
  $("results").hidden = true;
  say("Preparing ...", true);
  try {
    const results = await ask({call: "run"});
    if (mine === turn) showResults(results);
  } catch (e) {
    if (mine === turn) fail(e.message);
  } finally {
    if (mine === turn) {
      $("run").disabled = false;
      $("stop").disabled = true;
    }
  }
}

function showResults(results) {
  const [ours, ...rivals] = results, most = Math.max(...results.map((r) => r.gflops));
  const wrong = results.filter((r) => r.wrong);
  $("results").hidden = false;
  $("verdict").replaceChildren(...rivals.flatMap((r, i) => [make("strong", `${number(r.micros / ours.micros)} times`), ` as fast as ${r.name}${i < rivals.length - 1 ? ", " : "."}`]));
  $("rows").replaceChildren(...results.map((r) => {
    const bar = make("div", [], {class: "bar"});
    bar.style.width = `${100 * r.gflops / most}%`;
    const verified = r.wrong ? make("td", "wrong", {class: "bad"}) : make("td", "✓ float64", {class: "good", title: `largest error: ${number(100 * r.worst)} % of its bound`});
    return make("tr", [make("th", r.name, {scope: "row"}), make("td", bar, {class: "bar-column"}), make("td", number(r.gflops)),
      make("td", time(r.micros), {title: `${time(r.min)} to ${time(r.max)}`}), make("td", number(r.dispatches), {class: "dispatches"}), verified]);
  }));
  const sample = plan.layer
    ? "runs, one submission each, by the clock on the wall, from recording the first to hearing of the end of the last, divided by the runs. Routing on the host reads the router's choices in each run, and writes lists of rows. Each product of each expert is then a dispatch, prepared before for these choices. There is no naive kernel for a layer."
    : "runs in one submission, by the clock on the wall, from recording it to hearing of its end, divided by the runs.";
  $("method").textContent = `${fields.backend.selectedOptions[0].text}. Median of 5 samples, taken in turn; a sample is ${results.map((r) => r.runs).join(", ")} ${sample} ` +
    `Planning, compiling and copies of operands are not in it. Every element of ${plan.layer ? "the output" : "C"} is compared with float64, and may differ by what rounding in fp32 explains (largest: ${number(100 * ours.worst)} % of that).`;
  if (wrong.length) fail(wrong.map((r) => `${r.name}: ${r.wrong}`).join("\n"));
  else say(`Done: all results are verified. ${number(ours.gflops)} GFLOP/s.`);
}

function take(files) {
  if (!files.length) return;
  dropped = files[0];
  fields.kind.value = "file";
  choose();
}

for (let i = 1; i <= 9; i++) fields.module.append(make("option", `Inception module ${i}`, {value: `inception-${i}`}));
fields.file.addEventListener("change", (e) => {
  e.stopPropagation();
  take(fields.file.files);
});
form.addEventListener("change", choose);
form.addEventListener("submit", (e) => {
  e.preventDefault();
  if (!$("run").disabled) run();
});
$("stop").addEventListener("click", stop);
addEventListener("dragover", (e) => {
  e.preventDefault();
  document.body.classList.add("drag");
});
addEventListener("dragleave", () => document.body.classList.remove("drag"));
addEventListener("drop", (e) => {
  e.preventDefault();
  document.body.classList.remove("drag");
  fields.file.files = e.dataTransfer.files; // which shows its name
  take(e.dataTransfer.files);
});
new ResizeObserver(draw).observe(form);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
launch(start);
