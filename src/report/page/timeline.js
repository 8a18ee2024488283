// Draws the launches of a process one after the other: as wide as their time, as high as their rate
// of DRAM bytes, as hot as their bytes. What is narrower than a pixel is drawn with its neighbours.

const kTimelineHigh = 300;
const kSpace = { left: 74, right: 20, top: 16, bottom: 40 };
const kFewest = 8; // of the shortest launches, which fill the chart at the largest zoom

class Timeline {
  constructor(element, process, table) {
    this.element = element;
    this.timed = process.timed;
    this.names = process.names;
    this.readBars(process.bars);
    this.peak = this.timed ? process.peak : 0;
    this.top = this.bars.reduce((top, bar) => Math.max(top, bar.rate), this.peak) || 1;
    this.from = 0;
    this.to = this.end;
    this.current = null;
    this.found = null;
    this.chart = draw("svg", { class: "chart", role: "img", tabindex: "0",
      onkeydown: (event) => this.key(event),
      onwheel: (event) => this.wheel(event),
      onpointermove: (event) => this.read(this.barAt(event)),
      onpointerleave: () => this.read(this.current),
      onclick: (event) => { this.pick(this.barAt(event)); } });
    this.words = make("div", { class: "readout", "aria-live": "polite" });
    element.replaceChildren(this.toolbar(), this.chart, this.words);
    this.linkTable(table);
    this.render();
    this.read(null);
    new ResizeObserver(() => this.render()).observe(element);
  }

  // {name, index, launches, time, bytes, rate, start}; times in us, or 1 each where none is known.
  readBars(text) {
    const fields = text === "" ? [] : text.split(" ");
    this.bars = [];
    this.end = 0;
    for (let i = 0; i < fields.length; i += 5) {
      const time = Number(fields[i + 3]) / (this.timed ? 1000 : 1);
      const bytes = fields[i + 4] === "-" ? null : Number(fields[i + 4]);
      const rate = bytes === null ? 0 : this.timed ? bytes / (time * 1e-6) : bytes;
      this.bars.push({ name: fields[i] === "-" ? null : Number(fields[i]),
        index: Number(fields[i + 1]), launches: Number(fields[i + 2]), time, bytes, rate,
        start: this.end });
      this.end += time;
    }
    this.most = this.bars.reduce((most, bar) => Math.max(most, bar.bytes ?? 0), 1);
    this.shortest = this.bars.reduce((least, bar) => Math.min(least, bar.time), Infinity);
  }

  toolbar() {
    const button = (words, label, action) =>
      make("button", { type: "button", "aria-label": label, title: label, onclick: action }, words);
    return make("div", { class: "toolbar" },
      make("span", { class: "hint" }, this.timed
        ? "width: time; height: DRAM bytes a second; colour: bytes, less "
        : "no times: all launches are equally wide; height and colour: bytes, less ",
      ...[0, 1, 2, 3, 4].map((heat) => make("span", { class: `swatch heat${heat}` })), " more"),
      make("div", { class: "buttons" }, button("\u2212", "Zoom out", () => this.zoom(2)),
        button("+", "Zoom in", () => this.zoom(0.5)),
        button("All", "Show all launches", () => this.show(0, this.end))));
  }

  // The names in the table of kernels mark their launches.
  linkTable(table) {
    table?.querySelectorAll("tbody th").forEach((head, place) => {
      if (place >= this.names.length || head.textContent !== this.names[place]) return;
      head.replaceChildren(make("button", { type: "button", class: "link", "aria-pressed": "false",
        onclick: (event) => {
          this.found = this.found === place ? null : place;
          for (const other of table.querySelectorAll(".link")) {
            other.setAttribute("aria-pressed", String(this.found === place && other === event.currentTarget));
          }
          this.element.scrollIntoView({ block: "nearest" });
          this.render();
        } }, nameOf(this.names[place])));
    });
  }

  scale() {
    this.wide = Math.max(360, this.element.clientWidth - 30);
    this.pixels = (this.wide - kSpace.left - kSpace.right) / (this.to - this.from);
  }
  at(time) { return kSpace.left + (time - this.from) * this.pixels; }
  height(rate) { return (rate / (this.top * 1.05)) * (kTimelineHigh - kSpace.top - kSpace.bottom); }

  render() {
    this.scale();
    this.chart.setAttribute("viewBox", `0 0 ${this.wide} ${kTimelineHigh}`);
    this.chart.setAttribute("aria-label", `Timeline of ${grouped(this.bars.length)} launches; left and ` +
      "right go through them, plus and minus zoom");
    this.chart.replaceChildren(...this.axes(), ...this.shapes());
  }

  axes() {
    const bottom = kTimelineHigh - kSpace.bottom;
    const unit = this.timed ? "/s" : "";
    const right = this.wide - kSpace.right;
    const levels = niceTicks(this.top, 4).map((level) => [level, "grid",
      tickInWords(level, "B") + unit]);
    const ticks = niceTicks(this.to - this.from, 8).map((step) => this.from + step)
      .filter((tick) => tick <= this.to);
    return [
      ...levels.flatMap(([level, tone, words]) => {
        const y = round(bottom - this.height(level));
        return [draw("path", { class: tone, d: `M${kSpace.left} ${y}H${right}` }),
          draw("text", { class: "tick", x: kSpace.left - 8, y: y + 4, "text-anchor": "end" }, words)];
      }),
      this.peak > 0 ? draw("path", { class: "peak",
        d: `M${kSpace.left} ${round(bottom - this.height(this.peak))}H${right}` },
      draw("title", {}, `the memory's peak, ${bytesInWords(this.peak)}/s`)) : null,
      this.peak > 0 ? draw("text", { class: "tick", x: right, "text-anchor": "end",
        y: round(bottom - this.height(this.peak)) - 4 }, "the memory's peak") : null,
      ...ticks.map((tick) => draw("text", { class: "tick", x: round(this.at(tick)), y: bottom + 16,
        "text-anchor": "middle" }, this.timed ? tickInWords(tick, "us") : String(Math.round(tick)))),
      draw("text", { class: "axis", x: (kSpace.left + right) / 2, y: kTimelineHigh - 4,
        "text-anchor": "middle" }, this.timed ? "GPU time, launch after launch" : "launches"),
    ].filter((part) => part !== null);
  }

  shapes() {
    const bottom = kTimelineHigh - kSpace.bottom;
    const shapes = [];
    let crowd = null;
    const flush = () => {
      if (crowd === null) return;
      const high = this.height(crowd.bytes / crowd.weight);
      shapes.push(draw("rect", { class: `launch heat${heatOf(crowd.most, this.most)}` +
        (crowd.found ? " found" : ""), x: round(crowd.x), y: round(bottom - Math.max(1, high)),
      width: round(Math.max(1, crowd.wide)), height: round(Math.max(1, high)) }));
      crowd = null;
    };
    for (const bar of this.bars) {
      if (bar.start + bar.time < this.from || bar.start > this.to) continue;
      const found = this.found !== null && bar.name === this.found;
      const left = Math.max(kSpace.left, this.at(bar.start));
      const right = Math.min(this.wide - kSpace.right, this.at(bar.start + bar.time));
      if (right - left < 1.5) {
        crowd ??= { x: left, wide: 0, bytes: 0, weight: 0, most: 0, found: false };
        crowd.wide = right - crowd.x;
        crowd.bytes += bar.rate * bar.time;
        crowd.weight += bar.time;
        crowd.most = Math.max(crowd.most, bar.bytes ?? 0);
        crowd.found ||= found;
        if (crowd.wide >= 1.5) flush();
        continue;
      }
      flush();
      const high = Math.max(1, this.height(bar.rate));
      shapes.push(draw("rect", { class: `launch heat${heatOf(bar.bytes ?? 0, this.most)}` +
        (found ? " found" : "") + (bar === this.current ? " current" : ""), x: round(left),
      y: round(bottom - high), width: round(Math.max(1, right - left - 0.8)), height: round(high) }));
    }
    flush();
    return shapes;
  }

  barAt(event) {
    const box = this.chart.getBoundingClientRect();
    const x = ((event.clientX - box.left) * this.wide) / box.width;
    const time = this.from + (x - kSpace.left) / this.pixels;
    if (time < 0 || time >= this.end) return null;
    let low = 0;
    let high = this.bars.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.bars[middle].start <= time) low = middle;
      else high = middle - 1;
    }
    return this.bars[low];
  }

  read(bar) {
    if (bar === null) {
      this.words.replaceChildren(make("p", { class: "hint" },
        "Move over a launch, or click on one and use the arrow keys; the wheel with Ctrl zooms."));
      return;
    }
    const what = bar.launches > 1 ? make("b", {}, `${grouped(bar.launches)} launches from ${bar.index} on`)
      : make("span", {}, `${bar.index} `, bar.name === null ? null : nameOf(this.names[bar.name]));
    const words = [bar.bytes === null ? "not counted" : bytesInWords(bar.bytes)];
    if (this.timed) {
      words.push(timeInWords(bar.time));
      if (bar.bytes !== null) {
        words.push(`${grouped(Math.round(bar.rate / 1e9))} GB/s` +
          (this.peak > 0 ? `, ${percent(bar.rate, this.peak)} of peak` : ""));
      }
    }
    this.words.replaceChildren(make("p", {}, what, ...words.map((text) => make("span", {}, text))));
  }

  pick(bar) {
    this.current = bar;
    if (bar !== null && (bar.start < this.from || bar.start + bar.time > this.to)) {
      const half = (this.to - this.from) / 2;
      this.show(bar.start - half, bar.start + half);
    } else {
      this.render();
    }
    this.read(bar);
  }

  show(from, to) {
    const span = Math.min(this.end, to - from);
    this.from = Math.max(0, Math.min(from, this.end - span));
    this.to = this.from + span;
    this.render();
  }

  // Around a time: the current launch's, or the middle.
  zoom(factor, around = null) {
    const middle = around ?? (this.current && this.current.start >= this.from
      && this.current.start <= this.to ? this.current.start : (this.from + this.to) / 2);
    const least = Math.min(kFewest * this.shortest, this.end);
    const span = Math.max(least, (this.to - this.from) * factor);
    const share = (middle - this.from) / (this.to - this.from);
    this.show(middle - share * span, middle + (1 - share) * span);
  }

  wheel(event) {
    const span = this.to - this.from;
    if (event.ctrlKey) {
      const box = this.chart.getBoundingClientRect();
      const x = ((event.clientX - box.left) * this.wide) / box.width;
      this.zoom(event.deltaY > 0 ? 1.25 : 0.8, this.from + (x - kSpace.left) / this.pixels);
    } else if (span < this.end && Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      this.show(this.from + (event.deltaX / this.wide) * span, this.to + (event.deltaX / this.wide) * span);
    } else {
      return;
    }
    event.preventDefault();
  }

  key(event) {
    const place = this.bars.indexOf(this.current);
    const last = this.bars.length - 1;
    const go = { ArrowLeft: Math.max(0, place - 1), ArrowRight: Math.min(last, place + 1),
      Home: 0, End: last }[event.key];
    if (go !== undefined) this.pick(this.bars[go] ?? null);
    else if (event.key === "+") this.zoom(0.5);
    else if (event.key === "-") this.zoom(2);
    else if (event.key === "0") this.show(0, this.end);
    else if (event.key === "Escape") this.pick(null);
    else return;
    event.preventDefault();
  }
}

const { processes } = JSON.parse(document.getElementById("data").textContent);
for (const element of document.querySelectorAll(".timeline")) {
  const place = element.dataset.process;
  new Timeline(element, processes[Number(place)], document.getElementById(`kernel-table-${place}`));
}
performance.mark("interactive");
