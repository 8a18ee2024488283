// Each kernel at its arithmetic for each byte and the rate that it reached, or is predicted to reach,
// under the rates of the device's memory and of its tensor cores; both scales are logarithmic.

const kWide = 640;
const kHigh = 380;
const kEdge = { left: 64, right: 18, top: 14, bottom: 44 };

function logScale(values, from, to) {
  const logs = values.map(Math.log10);
  let least = Math.floor(Math.min(...logs));
  let most = Math.ceil(Math.max(...logs));
  if (least === most) ++most;
  const at = (value) => from + ((Math.log10(value) - least) / (most - least)) * (to - from);
  return { at, ticks: Array.from({ length: most - least + 1 }, (_, i) => 10 ** (least + i)),
    least: 10 ** least, most: 10 ** most };
}

const powerInWords = (value, unit) => inUnits(value, ["", "k", "M", "G", "T", "P"].map((prefix) =>
  prefix + unit)).replace(/\.0+ /, " ");

function roofline(graph, plan, open) {
  const kernels = plan.kernels.filter((kernel) =>
    kernel.flops > 0 && kernel.bytes > plan.bytes * kSmall);
  if (kernels.length === 0) return make("p", {}, "No kernel of this plan computes anything.");
  const timed = plan.timed ? kernels.filter((kernel) => kernel.time > 0) : kernels;
  const figure = byRate(graph, timed, plan.timed);
  const chart = draw("svg", { class: "roofline", viewBox: `0 0 ${kWide} ${kHigh}`, role: "img",
    "aria-label": figure.caption });
  axes(chart, figure);
  for (const line of figure.lines) {
    chart.append(draw("path", { class: line.roof ? "roof" : "guide", d: line.d }),
      draw("text", { class: "guide-label", x: line.x, y: line.y, "text-anchor": "end" }, line.words));
  }
  const most = kernels.reduce((sum, kernel) => Math.max(sum, kernel.bytes), 1);
  for (const { kernel, x, y } of figure.dots) {
    chart.append(draw("circle", { class: `dot heat${heatOf(kernel.bytes, most)}`, cx: round(x),
      cy: round(y), r: 5, onclick: () => open(kernel) },
    draw("title", {}, `${graph.nameOf(kernel)}: ${bytesInWords(kernel.bytes)}, ` +
      `${flopsInWords(kernel.flops)}, ${rounded(kernel.flops / kernel.bytes)} flop a byte`)));
  }
  return make("figure", {}, chart, make("figcaption", {}, figure.caption));
}

function axes(chart, { x, y, xWords, yWords, xUnit, yUnit }) {
  const bottom = kHigh - kEdge.bottom;
  for (const tick of x.ticks) {
    chart.append(draw("path", { class: "grid", d: `M${round(x.at(tick))} ${kEdge.top}V${bottom}` }),
      draw("text", { class: "tick", x: round(x.at(tick)), y: bottom + 16, "text-anchor": "middle" },
        powerInWords(tick, xUnit)));
  }
  for (const tick of y.ticks) {
    chart.append(draw("path", { class: "grid",
      d: `M${kEdge.left} ${round(y.at(tick))}H${kWide - kEdge.right}` }),
    draw("text", { class: "tick", x: kEdge.left - 6, y: round(y.at(tick)) + 4,
      "text-anchor": "end" }, powerInWords(tick, yUnit)));
  }
  chart.append(draw("text", { class: "axis", x: (kEdge.left + kWide - kEdge.right) / 2, y: kHigh - 6,
    "text-anchor": "middle" }, xWords),
  draw("text", { class: "axis", "text-anchor": "middle",
    transform: `translate(13 ${(kEdge.top + bottom) / 2}) rotate(-90)` }, yWords));
}

function byRate(graph, kernels, measured) {
  const rate = (kernel) => kernel.flops / ((measured ? kernel.time : kernel.predicted.time) * 1e-6);
  const intensity = (kernel) => kernel.flops / kernel.bytes;
  const ridge = graph.peak / graph.bandwidth;
  const x = logScale([...kernels.map(intensity), ridge], kEdge.left, kWide - kEdge.right);
  const y = logScale([...kernels.map(rate), graph.peak], kHigh - kEdge.bottom, kEdge.top);
  const from = Math.max(x.least, y.least / graph.bandwidth);
  const memory = `memory, ${(graph.bandwidth / 1e9).toFixed(0)} GB/s`;
  const compute = `tensor cores, ${(graph.peak / 1e12).toFixed(0)} Tflop/s`;
  const lines = [
    { roof: true, d: `M${round(x.at(from))} ${round(y.at(from * graph.bandwidth))}` +
      `L${round(x.at(ridge))} ${round(y.at(graph.peak))}H${kWide - kEdge.right}`,
    x: x.at(ridge) - 10, y: y.at(graph.peak) + 4, words: memory },
    { roof: true, d: "", x: kWide - kEdge.right - 4, y: y.at(graph.peak) - 6, words: compute },
  ];
  return { x, y, lines, xUnit: "", yUnit: "flop/s", xWords: "flop a byte", yWords: "flop/s",
    dots: kernels.map((kernel) => ({ kernel, x: x.at(intensity(kernel)), y: y.at(rate(kernel)) })),
    caption: `Arithmetic rate of each kernel, ${measured ? "measured" : "predicted"}. On the slope ` +
      "memory limits it, so that fewer bytes save time; below the roof something else does." };
}
