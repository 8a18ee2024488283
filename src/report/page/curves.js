// Draws a sweep: one figure of every plan along one dim, with the others fixed. The colour of a
// curve is its plan's, or its device's where there are several; the dashes are always its plan's.

const kChartHigh = 430;
const kAround = { left: 74, right: 24, top: 34, bottom: 48 };
const kMostMarks = 8;

const kDashes = { unfused: "2 4", compiler: "9 4", fastest: "11 3 2 3", limit: "1 6", explicit: "5 5" };
const kPlanTones = { unfused: 0, compiler: 1, auto: 2, fastest: 3, limit: 4, explicit: 5, fused: 2 };

const numbersOf = (text) => text.split(" ").map((word) => (word === "-" ? NaN : Number(word)));

class Sweep {
  constructor(data) {
    Object.assign(this, { lists: data.lists, devices: data.devices, dims: data.dims, plans: data.plans });
    this.best = numbersOf(data.best);
    this.figures = data.figures.map(({ name, unit, curves }) =>
      ({ name, unit, curves: curves.map((curve) => (curve === null ? null : numbersOf(curve))) }));
    const unfused = this.plans.indexOf("unfused");
    for (const figure of [...this.figures]) {
      const base = figure.curves[unfused];
      if (!base) continue;
      this.figures.push({ name: `speedup by ${figure.name}`, unit: "x",
        curves: figure.curves.map((curve) => curve?.map((value, i) => base[i] / value) ?? null) });
    }
  }

  // The plan that is best at the most points, unfused left aside; auto where it is none.
  mostOftenFused() {
    const counts = this.plans.map((plan, i) => [plan, this.best.filter((best) => best === i).length])
      .filter(([plan, count]) => plan !== "unfused" && count > 0);
    counts.sort((a, b) => b[1] - a[1]);
    return counts[0]?.[0] ?? "auto";
  }

  // The place of a point: of its list, its device and the values of its dims.
  place(list, device, values) {
    let place = list * this.devices.length + device;
    this.dims.forEach((dim, i) => { place = place * dim.values.length + values[i]; });
    return place;
  }
}

function figureInWords(value, unit) {
  if (Number.isNaN(value)) return "-";
  return unit === "B" ? bytesInWords(value) : unit === "us" ? timeInWords(value)
    : `${value.toFixed(2)}x`;
}

class Curves {
  constructor(element, sweep) {
    this.sweep = sweep;
    this.element = element;
    this.figure = sweep.figures[0];
    this.list = 0;
    this.along = sweep.dims.findIndex((dim) => dim.values.length > 1);
    this.fixed = sweep.dims.map(() => 0);
    // Several devices and all plans would be too many curves to tell apart.
    this.shown = new Set(sweep.devices.length > 1 ? ["unfused", sweep.mostOftenFused()] : sweep.plans);
    this.cursor = null;
    this.chart = draw("svg", { class: "chart", role: "img", tabindex: "0",
      onpointermove: (event) => this.follow(event), onpointerleave: () => this.read(null),
      onkeydown: (event) => this.step(event) });
    this.words = make("div", { class: "readout", "aria-live": "polite" });
    this.bar = make("div", { class: "toolbar" });
    this.legend = make("div", { class: "toolbar keys" });
    element.replaceChildren(this.bar, this.legend, this.chart, this.words);
    this.fillBar();
    this.fillLegend();
    this.render();
    new ResizeObserver(() => this.render()).observe(element);
  }

  fillBar() {
    const { sweep } = this;
    const figures = make("fieldset", { class: "plans" }, make("legend", {}, "Figure"),
      ...sweep.figures.map((figure) => make("label", {},
        make("input", { type: "radio", name: "figure", value: figure.name,
          checked: figure === this.figure, onchange: () => { this.figure = figure; this.render(); } }),
        make("span", {}, figure.name))));
    const selects = [];
    if (sweep.lists.length > 1) {
      selects.push(this.select("op list", sweep.lists, (i) => { this.list = i; }));
    }
    const varied = sweep.dims.flatMap((dim, i) => (dim.values.length > 1 ? [i] : []));
    if (varied.length > 1) {
      selects.push(this.select("along", varied.map((i) => sweep.dims[i].name),
        (i) => { this.along = varied[i]; this.fillBar(); }, varied.indexOf(this.along)));
      for (const i of varied) {
        if (i === this.along) continue;
        selects.push(this.select(sweep.dims[i].name, sweep.dims[i].values.map(String),
          (value) => { this.fixed[i] = value; }, this.fixed[i]));
      }
    }
    this.bar.replaceChildren(figures, ...selects);
  }

  select(words, names, choose, chosen = 0) {
    const options = names.map((name, i) =>
      make("option", { value: i, selected: i === chosen }, name));
    return make("label", { class: "choice" }, `${words} `, make("select",
      { onchange: (event) => { choose(Number(event.target.value)); this.render(); } }, ...options));
  }

  fillLegend() {
    const { sweep } = this;
    const plans = sweep.plans.map((plan) => make("label", {},
      make("input", { type: "checkbox", checked: this.shown.has(plan), value: plan,
        onchange: (event) => {
          if (event.target.checked) this.shown.add(plan);
          else this.shown.delete(plan);
          this.render();
        } }), this.sample(kDashes[plan], this.tone(plan, null)), plan));
    const devices = sweep.devices.length > 1 ? sweep.devices.map((device, i) =>
      make("span", { class: "key" }, this.sample(null, this.tone(null, i)), device)) : [];
    this.legend.replaceChildren(...plans, ...devices);
  }

  tone(plan, device) {
    if (this.sweep.devices.length === 1) return `tone${kPlanTones[plan] ?? 6}`;
    return device === null ? "" : `tone${device % 8}`;
  }

  sample(dashes, tone) {
    return draw("svg", { class: "sample", viewBox: "0 0 34 10", "aria-hidden": "true" },
      draw("path", { class: `curve ${tone}`, d: "M1 5H33", "stroke-dasharray": dashes }));
  }

  // {plan, device, places}: the points of each curve that is shown.
  curves() {
    const { sweep, along } = this;
    return sweep.devices.flatMap((_, device) => {
      const places = sweep.dims[along].values.map((value, i) =>
        sweep.place(this.list, device, this.fixed.map((at, dim) => (dim === along ? i : at))));
      return sweep.plans.flatMap((plan, i) => (this.shown.has(plan) && this.figure.curves[i]
        ? [{ plan, device, places, values: places.map((place) => this.figure.curves[i][place]) }] : []));
    });
  }

  render() {
    const { sweep, figure } = this;
    const wide = Math.max(360, this.element.clientWidth);
    const dim = sweep.dims[this.along];
    const curves = this.curves();
    const values = curves.flatMap((curve) => curve.values.filter((value) => value > 0));
    const x = dimScale(dim.values, kAround.left + 8, wide - kAround.right - 8);
    const y = figureScale(values.length > 0 ? values : [1], kChartHigh - kAround.bottom, kAround.top);
    Object.assign(this, { x, drawnCurves: curves });
    this.chart.setAttribute("viewBox", `0 0 ${wide} ${kChartHigh}`);
    this.chart.setAttribute("aria-label", `${figure.name} along ${dim.name}, ` +
      `${plural(curves.length, "curve")}; left and right read the values`);
    this.chart.replaceChildren(...this.axes(x, y, wide, dim), ...this.marks(x, dim),
      ...curves.flatMap((curve) => this.curve(curve, x, y, dim)));
    this.line = draw("path", { class: "cursor" });
    this.chart.append(this.line);
    this.read(null);
  }

  axes(x, y, wide, dim) {
    const bottom = kChartHigh - kAround.bottom;
    return [
      ...y.ticks.flatMap((tick) => [
        draw("path", { class: "grid", d: `M${kAround.left} ${round(y.at(tick))}H${wide - kAround.right}` }),
        draw("text", { class: "tick", x: kAround.left - 8, y: round(y.at(tick)) + 4,
          "text-anchor": "end" }, tickInWords(tick, this.figure.unit))]),
      ...x.ticks.map((tick) => draw("text", { class: "tick", x: round(x.at(tick)), y: bottom + 18,
        "text-anchor": "middle" }, String(tick))),
      draw("text", { class: "axis", x: (kAround.left + wide - kAround.right) / 2, y: kChartHigh - 8,
        "text-anchor": "middle" }, dim.name),
      draw("text", { class: "axis", x: kAround.left, y: 14 },
        `${this.figure.name}${y.logarithmic ? ", logarithmic" : ""}`),
    ];
  }

  curve({ plan, device, values }, x, y, dim) {
    let d = "";
    let gap = true;
    const dots = [];
    values.forEach((value, i) => {
      if (!(value > 0)) {
        gap = true;
        return;
      }
      const at = `${round(x.at(dim.values[i]))} ${round(y.at(value))}`;
      d += (gap ? "M" : "L") + at;
      gap = false;
      if (values.length <= 40) {
        const [cx, cy] = at.split(" ");
        dots.push(draw("circle", { class: `point ${this.tone(plan, device)}`, cx, cy, r: 3.2 }));
      }
    });
    return [draw("path", { class: `curve ${this.tone(plan, device)}`, d,
      "stroke-dasharray": kDashes[plan] }), ...dots];
  }

  // Where another plan becomes the best.
  marks(x, dim) {
    const found = [];
    this.sweep.devices.forEach((name, device) => {
      let before = NaN;
      dim.values.forEach((value, i) => {
        const now = this.sweep.best[this.sweep.place(this.list, device,
          this.fixed.map((at, other) => (other === this.along ? i : at)))];
        if (Number.isNaN(now)) return;
        if (!Number.isNaN(before) && now !== before) found.push({ value, device, plan: this.sweep.plans[now] });
        before = now;
      });
    });
    if (found.length > kMostMarks) return [];
    return found.flatMap(({ value, device, plan }, i) => {
      const at = round(x.at(value));
      const words = `${plan} from ${value}` +
        (this.sweep.devices.length > 1 ? `, ${this.sweep.devices[device]}` : "");
      const left = at > x.at(Math.max(...dim.values)) - 180;
      return [draw("path", { class: "mark", d: `M${at} ${kAround.top - 8}V${kChartHigh - kAround.bottom}` }),
        draw("text", { class: "mark-label", x: at + (left ? -5 : 5), y: kAround.top + 4 + 14 * (i % 4),
          "text-anchor": left ? "end" : "start" }, words)];
    });
  }

  follow(event) {
    const { values } = this.sweep.dims[this.along];
    const box = this.chart.getBoundingClientRect();
    const at = ((event.clientX - box.left) * this.chart.viewBox.baseVal.width) / box.width;
    let nearest = 0;
    values.forEach((value, i) => {
      if (Math.abs(this.x.at(value) - at) < Math.abs(this.x.at(values[nearest]) - at)) nearest = i;
    });
    this.read(nearest);
  }

  step(event) {
    const last = this.sweep.dims[this.along].values.length - 1;
    const to = { ArrowLeft: (this.cursor ?? 1) - 1, ArrowRight: (this.cursor ?? -1) + 1, Home: 0,
      End: last, Escape: null }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    this.read(to === null ? null : Math.max(0, Math.min(last, to)));
  }

  // Tells the figures of all curves at a value of the dim.
  read(place) {
    this.cursor = place;
    const dim = this.sweep.dims[this.along];
    if (place === null) {
      this.line.setAttribute("d", "");
      this.words.replaceChildren(make("p", { class: "hint" },
        `Move over the chart to read the figures at a value of ${dim.name}.`));
      return;
    }
    const at = round(this.x.at(dim.values[place]));
    this.line.setAttribute("d", `M${at} ${kAround.top}V${kChartHigh - kAround.bottom}`);
    const several = this.sweep.devices.length > 1;
    this.words.replaceChildren(make("p", {}, make("b", {}, `${dim.name} = ${dim.values[place]}`),
      ...this.drawnCurves.flatMap(({ plan, device, values }) => [
        make("span", { class: "key" }, `${plan}${several ? ` on ${this.sweep.devices[device]}` : ""} `,
          make("b", {}, figureInWords(values[place], this.figure.unit)))])));
  }
}

const sweepData = JSON.parse(document.getElementById("data").textContent);
for (const element of document.querySelectorAll(".curves")) new Curves(element, new Sweep(sweepData));
performance.mark("interactive");
