// Drawings of a plan: C of each problem cut into tiles, and who works when. Both show the problem that is
// picked, by pointer or arrow keys.

// Paul Tol's scheme "muted", which colour-blind readers can tell apart, lighter where that is too dark for dark pages.
const palette = ["#4477AA", "#88CCEE", "#44AA99", "#228833", "#999933", "#DDCC77", "#CC6677", "#AA4477", "#AA4499", "#6655AA", "#EE8866", "#66BB55"];

// A problem has the same colour in both drawings; colours repeat where problems are many.
export const colors = palette.length;
export const color = (problem) => palette[problem % palette.length];

const style = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

// begin sizes a canvas for the screen and clears it.
function begin(canvas, height) {
  const width = canvas.clientWidth, scale = window.devicePixelRatio || 1;
  canvas.style.height = `${height}px`;
  canvas.width = Math.round(width * scale);
  canvas.height = Math.round(height * scale);
  const g = canvas.getContext("2d");
  g.scale(scale, scale);
  return g;
}

// shelves places rectangles in rows, the highest first, with the largest scale that needs no more than limit pixels.
function shelves(sizes, width, limit) {
  const order = sizes.map((_, i) => i).sort((x, y) => sizes[y].h - sizes[x].h || sizes[y].w - sizes[x].w);
  const gap = sizes.length > 100 ? 2 : 6;
  const place = (scale) => {
    let x = 0, y = 0, shelf = 0, right = 0;
    const at = [];
    for (const i of order) {
      const w = Math.max(sizes[i].w * scale, 1), h = Math.max(sizes[i].h * scale, 1);
      if (x > 0 && x + w > width) {
        x = 0;
        y += shelf + gap;
        shelf = 0;
      }
      at[i] = {x, y, w, h};
      x += w + gap;
      right = Math.max(right, x - gap);
      shelf = Math.max(shelf, h);
    }
    return {at, scale, right, height: y + shelf};
  };
  let low = 0, high = 2;
  for (let i = 0; i < 24; i++) {
    const middle = (low + high) / 2, made = place(middle);
    if (made.height <= limit && made.right <= width) low = middle;
    else high = middle;
  }
  return place(low);
}

// drawTiles draws rows of C down, or to the right where that leaves more room. It returns which problem is at a
// point, and whether rows run to the right.
export function drawTiles(canvas, plan, picked) {
  const upright = plan.problems.map((p) => ({w: p.n, h: p.m, tw: p.tn, th: p.tm}));
  const lying = plan.problems.map((p) => ({w: p.m, h: p.n, tw: p.tm, th: p.tn}));
  const [a, b] = [upright, lying].map((sizes) => shelves(sizes, canvas.clientWidth, 300));
  const turned = b.scale > 1.3 * a.scale;
  const {at, scale, height} = turned ? b : a;
  const g = begin(canvas, Math.ceil(height) + 2);
  (turned ? lying : upright).forEach((p, i) => {
    const {x, y, w, h} = at[i];
    g.globalAlpha = picked >= 0 && picked !== i ? 0.3 : 1;
    g.fillStyle = color(i);
    g.fillRect(x, y, w, h);
    g.strokeStyle = style("--surface");
    g.lineWidth = Math.min(1, Math.min(p.tw, p.th) * scale / 4);
    g.beginPath();
    for (let c = p.tw; c < p.w; c += p.tw) { g.moveTo(x + c * scale, y); g.lineTo(x + c * scale, y + h); }
    for (let r = p.th; r < p.h; r += p.th) { g.moveTo(x, y + r * scale); g.lineTo(x + w, y + r * scale); }
    g.stroke();
  });
  return {turned, at: (px, py) => at.findIndex(({x, y, w, h}) => px >= x && px <= x + w && py >= y && py <= y + h)};
}

// time is a time in its unit, with three digits at most.
export function time(micros) {
  const [per, unit] = micros >= 1e6 ? [1e6, "s"] : micros >= 1e3 ? [1e3, "ms"] : [1, "µs"];
  return `${Number((micros / per).toPrecision(3))} ${unit}`;
}

// tick is the distance of marks on the time axis: 1, 2 or 5 times a power of ten.
function tick(total, most) {
  const power = 10 ** Math.floor(Math.log10(total / most));
  return [1, 2, 5, 10].map((f) => f * power).find((step) => total / step <= most);
}

// drawTimeline returns which problem is at a point.
export function drawTimeline(canvas, plan, picked) {
  const {rows, bars, total} = plan.timeline;
  const axis = 24, width = canvas.clientWidth;
  const row = Math.min(26, Math.max(4, 320 / Math.max(rows, 1)));
  const g = begin(canvas, rows * row + axis);
  const x = (micros) => total > 0 ? micros / total * width : 0;
  const gap = row > 6 ? 1.5 : 0.5;
  for (const b of bars) {
    const faded = picked >= 0 && picked !== b.p, from = x(b.s), wide = x(b.e) - from;
    g.globalAlpha = (faded ? 0.25 : 1) * (b.k === "partial" ? 0.6 : 1);
    g.fillStyle = b.k === "fixup" ? style("--muted") : color(b.p);
    g.fillRect(from, b.r * row, Math.max(wide - Math.min(1, wide / 4), 0.3), row - gap);
  }
  g.globalAlpha = 1;
  g.fillStyle = style("--muted");
  g.strokeStyle = style("--line");
  g.font = "12px system-ui, sans-serif";
  const step = tick(total, width < 500 ? 4 : 10);
  for (let at = 0; total > 0 && at <= total; at += step) {
    g.beginPath();
    g.moveTo(x(at), rows * row);
    g.lineTo(x(at), rows * row + 5);
    g.stroke();
    g.textAlign = at === 0 ? "left" : x(at) > width - 30 ? "right" : "center";
    g.fillText(at === 0 ? "0" : time(at), x(at), rows * row + 19);
  }
  return (px, py) => bars.find((b) => b.r === Math.floor(py / row) && px >= x(b.s) && px <= x(b.e))?.p ?? -1;
}
