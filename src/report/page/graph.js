// The drawing of a plan: boxes and lines as SVG, only those in sight, and from afar as plain shapes.

const kFromAfar = 0.42;  // below this scale no text can be read
const kMostOnPaper = 1000;  // boxes: with more, none could be read

class Drawing {
  constructor(actions) {
    this.actions = actions;
    this.scene = draw("g");
    this.svg = draw("svg", { "aria-hidden": false }, this.scene);
    this.tip = make("div", { class: "tip", hidden: true });
    this.element = make("div", {
      class: "viewport", tabindex: 0, role: "application",
      "aria-label": "Graph. Arrow keys move between kernels, Enter opens one, plus and minus zoom, " +
        "0 shows everything, / searches.",
      onkeydown: (event) => this.onKey(event),
      onwheel: (event) => this.onWheel(event),
      onpointerdown: (event) => this.onDown(event),
      onpointermove: (event) => this.onMove(event),
      onpointerup: () => { this.drag = null; },
      onpointercancel: () => { this.drag = null; },
      onpointerleave: () => this.hideTip(),
    }, this.svg, this.tip);
    this.onPaper = false;
    this.scale = 1;
    this.x = 0;
    this.y = 0;
    this.found = new Set();
    this.current = null;
  }

  show(graph, view) {
    this.graph = graph;
    this.view = view;
    const { nodes, edges } = view.build();
    // Heat is by what a box or a line adds to the plan, all repetitions together; widths are by the
    // bytes of one.
    this.most = nodes.reduce((most, node) => Math.max(most, node.bytes * node.times), 1);
    this.mostMoved = 1;
    this.widest = 1;
    for (const [line, times] of [...edges.map((edge) => [edge, edge.times]),
      ...nodes.flatMap((node) => node.inputs.map((stub) => [stub, node.times]))]) {
      this.mostMoved = Math.max(this.mostMoved, line.bytes * times);
      this.widest = Math.max(this.widest, line.bytes);
    }
    this.layout = new Layout(nodes, edges, measureBox);
    this.nodes = nodes;
    this.byId = new Map(nodes.map((node) => [node.id, node]));
    this.current = this.current && this.byId.get(this.current.id);
    this.shown = null;
    this.scene.replaceChildren();
    this.afar = null;
    this.edgeLayer = draw("g");
    this.boxLayer = draw("g");
    this.scene.append(this.brackets(), this.edgeLayer, this.boxLayer);
  }

  get size() {
    const { clientWidth, clientHeight } = this.element;
    return { width: clientWidth || 900, height: clientHeight || 600 };
  }

  // The start of the graph, as large as can be read.
  home() {
    const { width } = this.size;
    this.scale = Math.min(1, Math.max(0.7, width / (this.layout.width + 90)));
    const first = this.nodes.find((node) => node.rank === 0) ?? this.nodes[0];
    const fits = (this.layout.width + 60) * this.scale <= width;
    const middle = fits ? this.layout.width / 2 : first.x;
    this.x = width / 2 - middle * this.scale;
    this.y = 30;
    this.grow(this.layout.height * this.scale + 100);
    this.render();
  }

  // As tall as a small drawing needs; the style sheet limits it.
  grow(height) {
    this.tall = Math.max(this.tall ?? 0, height);
    this.element.closest(".columns").style.setProperty("--tall", `${Math.ceil(this.tall)}px`);
  }

  fit() {
    const { width, height } = this.size;
    this.scale = Math.min(1.2, width / (this.layout.width + 90), height / (this.layout.height + 60));
    this.x = (width - this.layout.width * this.scale) / 2;
    this.y = (height - this.layout.height * this.scale) / 2;
    this.render();
  }

  zoom(factor, px = this.size.width / 2, py = this.size.height / 2) {
    const scale = Math.min(3, Math.max(0.01, this.scale * factor));
    this.x = px - ((px - this.x) * scale) / this.scale;
    this.y = py - ((py - this.y) * scale) / this.scale;
    this.scale = scale;
    this.render();
  }

  centre(node) {
    const { width, height } = this.size;
    if (this.scale < 0.6) this.scale = 0.85;
    this.x = width / 2 - node.x * this.scale;
    this.y = height / 2 - (node.y + node.height / 2) * this.scale;
    this.render();
  }

  // On paper the whole drawing, as wide as the sheet.
  toPaper() {
    const { width, height } = this.layout;
    this.onPaper = true;
    this.svg.setAttribute("viewBox", `-45 -30 ${round(width + 90)} ${round(height + 60)}`);
    this.scene.removeAttribute("transform");
    if (this.paintFromAfar(this.nodes.length > kMostOnPaper)) return;
    this.shown = { left: -Infinity, right: Infinity, top: -Infinity, bottom: Infinity };
    this.fill();
  }

  toScreen() {
    this.onPaper = false;
    this.svg.removeAttribute("viewBox");
    this.shown = null;
    this.render();
  }

  paintFromAfar(afar) {
    this.element.classList.toggle("afar", afar);
    if (afar && this.afar === null) {
      this.afar = this.fromAfar();
      this.scene.append(this.afar);
    }
    return afar;
  }

  render() {
    if (this.onPaper) return;
    this.scene.setAttribute("transform", `translate(${this.x} ${this.y}) scale(${this.scale})`);
    if (this.paintFromAfar(this.scale < kFromAfar)) return;
    const { width, height } = this.size;
    const sight = { left: -this.x / this.scale, top: -this.y / this.scale };
    sight.right = sight.left + width / this.scale;
    sight.bottom = sight.top + height / this.scale;
    const known = this.shown;
    if (known && known.left <= sight.left && known.right >= sight.right &&
        known.top <= sight.top && known.bottom >= sight.bottom) return;
    // Somewhat more, so that most moves need nothing new.
    const wide = (sight.right - sight.left) / 2;
    const high = (sight.bottom - sight.top) / 2;
    this.shown = { left: sight.left - wide, right: sight.right + wide,
      top: sight.top - high, bottom: sight.bottom + high };
    this.fill();
  }

  fill() {
    const { left, right, top, bottom } = this.shown;
    const inSight = (box) => box.left <= right && box.right >= left && box.top <= bottom &&
      box.bottom >= top;
    const focused = this.boxLayer.contains(document.activeElement);
    this.edgeLayer.replaceChildren(...this.layout.lines.filter((line) => inSight(line.box))
      .map((line) => this.line(line)));
    this.boxLayer.replaceChildren(...this.nodes.filter((node) => inSight({
      left: node.x - node.left, right: node.x + node.right, top: node.y,
      bottom: node.y + node.height,
    })).map((node) => this.box(node)));
    if (focused && this.current?.element?.isConnected) this.current.element.focus();
  }

  fromAfar() {
    const boxes = ["", "", "", "", ""];
    const lines = ["", "", "", "", ""];
    for (const node of this.nodes) {
      boxes[heatOf(node.bytes * node.times, this.most)] +=
        `M${round(node.x - kBox / 2)} ${round(node.y)}h${kBox}v${node.height}h${-kBox}z`;
    }
    for (const { edge, points } of this.layout.lines) {
      lines[heatOf(edge.bytes * edge.times, this.mostMoved)] += pathOf(points);
    }
    return draw("g", { class: "from-afar", "aria-hidden": "true" },
      ...lines.map((d, heat) => draw("path", { class: `line heat${heat}`, d, "stroke-width": 3 })),
      ...boxes.map((d, heat) => draw("path", { class: `far-box heat${heat}`, d })));
  }

  widthOf(bytes) {
    return round(1.2 + 9 * Math.sqrt(bytes / this.widest));
  }

  line({ edge, points }) {
    const d = pathOf(points);
    const words = () => this.actions.edgeWords(edge);
    return draw("g", {
      class: "edge", "data-edge": `${edge.from.id} ${edge.to.id}`,
      onpointerenter: (event) => this.showTip(event, words()),
      onclick: () => this.actions.openEdge(edge),
    },
    draw("path", { class: "reach", d }),
    draw("path", { class: `line heat${heatOf(edge.bytes * edge.times, this.mostMoved)}`, d,
      "stroke-width": this.widthOf(edge.bytes) }));
  }

  box(node) {
    const left = node.x - kBox / 2;
    const kernel = node.kernels[0];
    const isScope = node.scope !== null;
    const title = isScope ? lastParts(node.scope) : this.titleOf(kernel);
    const classes = ["box", `heat${heatOf(node.bytes * node.times, this.most)}`];
    if (isScope) classes.push("scope");
    if (node === this.current) classes.push("current");
    if (node.kernels.some((member) => this.found.has(member.id))) classes.push("found");
    if (kernel.doubt) classes.push("doubtful");
    const group = draw("g", {
      class: classes.join(" "), id: `box-${node.id}`, role: "button", tabindex: -1,
      transform: `translate(${round(left)} ${round(node.y)})`,
      "aria-label": this.actions.boxWords(node).join(", "),
      onpointerenter: (event) => this.showTip(event, this.actions.boxWords(node)),
      onclick: () => this.pick(node, false),
      ondblclick: () => { if (isScope) this.actions.toggleScope(node.scope); },
    });
    if (isScope) {
      group.append(draw("rect", { class: "behind", x: 5, y: 5, width: kBox, height: node.height,
        rx: 7 }));
    }
    const bytes = bytesInWords(node.bytes);
    group.append(
      draw("rect", { class: "frame", width: kBox, height: node.height, rx: 7 }),
      draw("path", { class: "tab", d: `M0 7a7 7 0 0 1 7 -7v${node.height}a7 7 0 0 1 -7 -7z` }),
      draw("text", { class: "title", x: 16, y: 19 },
        fitted(title, 620, 12.5, kBox - 34 - 8 * bytes.length)),
      draw("text", { class: "bytes", x: kBox - 10, y: 19 }, bytes));
    rowsOf(this.graph, node).forEach(([kind, name], i) => {
      const y = kHead + 11 + i * kRow;
      group.append(draw("text", { class: "row", x: 16, y },
        draw("tspan", { class: "kind" }, kind), draw("tspan", { dx: 6 }, shortened(name, 28 - kind.length))));
    });
    if (node.repeat && node.scope === null) {
      group.append(draw("text", { class: "times", x: kBox - 10, y: node.height - 8 },
        `\u00d7 ${node.repeat.count}`));
    }
    this.stubs(group, node.inputs, -1, node.times);
    this.stubs(group, node.outputs, 1, node.times);
    node.element = group;
    return group;
  }

  titleOf(kernel) {
    const scope = this.graph.scopesOf(kernel).at(-1);
    return kernel.ops.length > 3 && scope !== undefined ? lastParts(scope)
      : kernel.ops.slice(0, 3).map((op) => lastParts(this.graph.ops[op].leaf)).join("+");
  }

  // Inputs of the graph on the left, outputs on the right, and what comes from too far away to draw.
  stubs(group, stubs, side, times) {
    const edge = side < 0 ? 0 : kBox;
    stubs.slice(0, kMostStubs).forEach((stub, i) => {
      const y = 14 + i * kRow;
      const end = edge + side * kStub;
      const tensor = this.graph.tensors[stub.tensor];
      const label = shortened(stub.carried ? "from layer before" : lastParts(tensor.name), 18);
      group.append(draw("g", {
        class: stub.from ? "stub far" : "stub",
        onpointerenter: (event) => {
          event.stopPropagation();
          this.showTip(event, this.actions.stubWords(stub, side));
        },
        onclick: (event) => {
          event.stopPropagation();
          if (stub.from) this.pick(stub.from, true);
          else this.actions.openTensor(stub.tensor);
        },
      },
      draw("line", { class: `line heat${heatOf(stub.bytes * times, this.mostMoved)}`, x1: edge, x2: end,
        y1: y, y2: y, "stroke-width": this.widthOf(stub.bytes) }),
      draw("text", { class: side < 0 ? "label before" : "label", x: end + side * 5, y: y + 4 },
        label)));
    });
    if (stubs.length > kMostStubs) {
      group.append(draw("text", { class: side < 0 ? "label before" : "label", x: edge + side * 10,
        y: 18 + kMostStubs * kRow }, `and ${stubs.length - kMostStubs} more`));
    }
  }

  // Beside each run of repeated layers: how often, and a way to show all or one.
  brackets() {
    const group = draw("g", { class: "brackets" });
    const members = new Map(this.view.plan.repeats.map((repeat) => [repeat, []]));
    for (const node of this.nodes) {
      if (node.scope === null) members.get(this.view.plan.repeatOf.get(node.kernels[0].id))?.push(node);
    }
    for (const [repeat, inside] of members) {
      if (inside.length === 0) continue;
      const top = Math.min(...inside.map((node) => node.y)) - 8;
      const bottom = Math.max(...inside.map((node) => node.y + node.height)) + 8;
      const x = Math.min(...inside.map((node) => node.x - node.left)) - 14;
      const folded = this.view.isFolded(repeat);
      const words = folded ? `\u00d7 ${repeat.count}: show all` : `\u00d7 ${repeat.count}: show one`;
      const toggle = () => this.actions.toggleRepeat(repeat);
      group.append(draw("g", { class: "bracket", role: "button",
        "aria-label": words, onclick: toggle },
        draw("path", { d: `M${x + 10} ${top}h-10V${bottom}h10` }),
        draw("text", { transform: `translate(${x - 8} ${(top + bottom) / 2}) rotate(-90)` }, words)));
    }
    return group;
  }

  // Makes a box the current one.
  pick(node, centre) {
    this.current = node;
    if (centre) this.centre(node);
    for (const marked of this.boxLayer.querySelectorAll(".current")) {
      marked.classList.remove("current");
    }
    node.element?.classList.add("current");
    this.actions.openBox(node);
  }

  markFound(kernels) {
    this.found = kernels;
    if (this.shown) this.fill();
  }

  move(key) {
    if (this.current === null || this.current === undefined) return this.pick(this.nodes[0], true);
    const boxes = (items, next) => items.flatMap((item) => item.point ? boxes(item[next], next) : item);
    const beside = this.layout.layers[this.current.rank].filter((item) => !item.point);
    const place = beside.indexOf(this.current);
    const target = { ArrowDown: boxes(this.current.outs, "outs")[0],
      ArrowUp: boxes(this.current.ins, "ins")[0],
      ArrowLeft: beside[place - 1], ArrowRight: beside[place + 1] }[key];
    if (target === undefined) return undefined;
    this.pick(target, true);
    target.element?.focus({ preventScroll: true });
    return undefined;
  }

  onKey(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const keys = { "+": () => this.zoom(1.25), "=": () => this.zoom(1.25), "-": () => this.zoom(0.8),
      "0": () => this.fit(), "/": () => this.actions.search(), Home: () => this.home(),
      Enter: () => { if (this.current) this.actions.enter(this.current); },
      Escape: () => this.actions.close() };
    if (event.key.startsWith("Arrow")) this.move(event.key);
    else if (keys[event.key]) keys[event.key]();
    else return;
    event.preventDefault();
  }

  // The wheel moves the drawing, with Ctrl (or two fingers apart) it zooms. At the drawing's end the
  // page moves on.
  onWheel(event) {
    const area = this.element.getBoundingClientRect();
    if (event.ctrlKey || event.metaKey) {
      event.preventDefault();
      this.zoom(Math.exp(-event.deltaY / 300), event.clientX - area.left, event.clientY - area.top);
      return;
    }
    const bottom = this.y + this.layout.height * this.scale;
    const stuck = event.deltaY > 0 ? bottom < area.height - 30 : this.y > 30;
    if (stuck && event.deltaX === 0) return;
    event.preventDefault();
    this.x -= event.deltaX;
    this.y -= event.deltaY;
    this.render();
  }

  onDown(event) {
    if (event.button !== 0) return;
    this.drag = { x: event.clientX, y: event.clientY, moved: false };
  }

  onMove(event) {
    if (!this.drag) {
      if (!event.target.closest(".box, .edge")) this.hideTip();
      return;
    }
    const dx = event.clientX - this.drag.x;
    const dy = event.clientY - this.drag.y;
    if (!this.drag.moved && Math.hypot(dx, dy) < 4) return;
    if (!this.drag.moved) this.element.setPointerCapture(event.pointerId);
    this.drag = { x: event.clientX, y: event.clientY, moved: true };
    this.x += dx;
    this.y += dy;
    this.hideTip();
    this.render();
  }

  showTip(event, lines) {
    if (this.drag) return;
    this.tip.replaceChildren(...lines.map((line) => make("div", {}, nameOf(line))));
    this.tip.hidden = false;
    const area = this.element.getBoundingClientRect();
    const left = Math.min(event.clientX - area.left + 14, area.width - this.tip.offsetWidth - 8);
    const top = Math.min(event.clientY - area.top + 14, area.height - this.tip.offsetHeight - 8);
    this.tip.style.left = `${Math.max(4, left)}px`;
    this.tip.style.top = `${Math.max(4, top)}px`;
  }

  hideTip() {
    this.tip.hidden = true;
  }
}
