// Puts a workspace together: the drawing, the switch between plans, the search and the tabs.

class Workspace {
  constructor(element, data) {
    this.graph = new Graph(data);
    this.views = new Map();
    this.unfused = this.graph.plans.find((plan) => plan.name === "unfused");
    const actions = {
      boxWords: (node) => this.boxWords(node),
      edgeWords: (edge) => this.edgeWords(edge),
      stubWords: (stub, side) => this.stubWords(stub, side),
      openBox: (node) => this.openBox(node),
      openEdge: (edge) => this.tell(edgeDetails(this.graph, edge, this.links)),
      openTensor: (tensor) => this.openTensor(tensor),
      openKernel: (kernel) => this.openKernel(kernel),
      toggleScope: (scope) => this.toggleScope(scope),
      toggleRepeat: (repeat, kernel) => this.toggleRepeat(repeat, kernel),
      enter: (node) => (node.scope === null ? this.tabs.panel("details").focus()
        : this.toggleScope(node.scope)),
      search: () => this.search.input.focus(),
      close: () => this.tabs.show("kernels"),
    };
    this.links = actions;
    this.drawing = new Drawing(actions);
    this.search = new Search((found) => this.mark(found), (kernel) => this.openKernel(kernel));
    this.tabs = new Tabs([["kernels", "Kernels"], ["details", "Details"], ["tensors", "Tensors"],
      ["scopes", "Scopes"], ["roofline", "Roofline"]]);
    this.tabs.onshow = (id) => this.fillTab(id);
    this.tell([make("p", { class: "hint" },
      "Pick a kernel, an edge or a tensor, in the drawing or in a table.")], false);
    this.plans = this.planSwitch();
    element.classList.add("live");
    element.prepend(
      make("h2", {}, "Graph"),
      make("div", { class: "toolbar" }, this.plans, this.search.element, this.buttons()),
      make("p", { class: "left-out", hidden: !data.left_out }, data.left_out ?? ""),
      make("div", { class: "columns" }, make("div", { class: "stage" }, this.drawing.element,
        legend()), this.tabs.element));
    this.showPlan(this.graph.headline);
    this.drawing.home();
    new ResizeObserver(() => this.drawing.render()).observe(this.drawing.element);
    addEventListener("beforeprint", () => this.drawing.toPaper());
    addEventListener("afterprint", () => this.drawing.toScreen());
  }

  planSwitch() {
    const name = `plan-${++Workspace.count}`;
    return make("fieldset", { class: "plans" }, make("legend", {}, "Plan"),
      ...this.graph.plans.filter((plan) => plan.drawn).map((plan) => make("label", {},
        make("input", { type: "radio", name, value: plan.name,
          checked: plan === this.graph.headline,
          onchange: () => { this.showPlan(plan); this.drawing.home(); } }),
        make("span", {}, plan.name, " ", make("small", {}, bytesInWords(plan.bytes),
          plan.time === null ? null : `, ${timeInWords(plan.time)}`)))));
  }

  buttons() {
    const button = (words, label, action) => make("button",
      { type: "button", "aria-label": label, title: label, onclick: action }, words);
    this.smallToggle = make("button", { type: "button", onclick: () => {
      this.view.showSmall = !this.view.showSmall;
      this.redraw();
    } });
    return make("div", { class: "buttons" }, this.smallToggle,
      button("\u2212", "zoom out", () => this.drawing.zoom(0.8)),
      button("+", "zoom in", () => this.drawing.zoom(1.25)),
      button("Fit", "show everything", () => this.drawing.fit()),
      button("Start", "back to the start", () => this.drawing.home()));
  }

  get view() {
    if (!this.views.has(this.plan)) this.views.set(this.plan, new View(this.graph, this.plan));
    return this.views.get(this.plan);
  }

  showPlan(plan) {
    this.plan = plan;
    this.table = kernelTable(this.graph, plan, (kernel) => this.openKernel(kernel));
    this.tabs.panel("kernels").replaceChildren(this.table.element);
    this.drawing.current = null;
    this.draw();
    this.search.show(this.graph, plan);
    const shown = this.tabs.shown ?? "kernels";
    this.tabs.show(shown === "details" ? "kernels" : shown);
  }

  draw() {
    const { small, showSmall } = this.view;
    this.smallToggle.hidden = small === 0;
    this.smallToggle.setAttribute("aria-pressed", String(showSmall));
    this.smallToggle.textContent = `${showSmall ? "Hide" : "Show"} ${plural(small, "small kernel")}`;
    this.smallToggle.title = "kernels of less than 0.01 % of the plan's bytes";
    this.drawing.show(this.graph, this.view);
  }

  // After boxes were collapsed or expanded.
  redraw() {
    this.draw();
    this.drawing.render();
    this.fillTab(this.tabs.shown);
  }

  toggleScope(scope) {
    const { collapsed } = this.view;
    if (!collapsed.delete(scope)) collapsed.add(scope);
    this.redraw();
    const kernel = this.plan.kernels.find((one) => this.graph.scopesOf(one).includes(scope));
    const node = kernel && this.drawing.byId.get(this.view.boxOf(kernel));
    if (node) this.drawing.centre(node);
  }

  toggleRepeat(repeat, kernel = this.plan.kernels[repeat.first]) {
    const { unfolded } = this.view;
    if (!unfolded.delete(repeat.first)) unfolded.add(repeat.first);
    this.redraw();
    const node = this.drawing.byId.get(this.view.boxOf(kernel));
    if (node) this.drawing.pick(node, true);
  }

  mark(found) {
    const rows = this.plan.kernels
      .filter((kernel) => found === null
        ? this.plan.repeatOf.get(kernel.id) === undefined || this.isFirst(kernel) : found.has(kernel.id))
      .map((kernel) => ({ kernel,
        times: found === null ? this.plan.repeatOf.get(kernel.id)?.count ?? 1 : 1 }));
    this.table.show(rows);
    this.drawing.markFound(found ?? new Set());
  }

  // Whether it is of the first of its repeated layers.
  isFirst(kernel) {
    const { first, period } = this.plan.repeatOf.get(kernel.id);
    return kernel.id < first + period;
  }

  fillTab(id) {
    if (id === "tensors") {
      const tensors = tensorTable(this.graph, this.plan, this.unfused, (tensor) => this.openTensor(tensor));
      tensors.show(tensorRows(this.graph, this.plan, this.unfused));
      this.tabs.panel(id).replaceChildren(tensors.element);
    } else if (id === "scopes") {
      this.tabs.panel(id).replaceChildren(
        scopeTree(this.graph, this.view, (scope) => this.toggleScope(scope)));
    } else if (id === "roofline") {
      this.tabs.panel(id).replaceChildren(
        roofline(this.graph, this.plan, (kernel) => this.openKernel(kernel)));
    }
  }

  tell(content, show = true) {
    this.tabs.panel("details").replaceChildren(...content.filter((part) => part !== null));
    if (show) this.tabs.show("details");
  }

  openBox(node) {
    if (node.scope !== null) {
      this.tell(scopeDetails(this.graph, node, this.links));
    } else {
      const repeat = this.plan.repeatOf.get(node.kernels[0].id);
      this.tell(kernelDetails(this.graph, node.kernels[0],
        { repeat, folded: this.view.isFolded(repeat) }, this.links));
    }
  }

  openKernel(kernel) {
    if (this.drawing.byId.get(this.view.boxOf(kernel))?.kernels[0] !== kernel) {
      this.view.reveal(kernel);
      this.redraw();
    }
    this.drawing.pick(this.drawing.byId.get(this.view.boxOf(kernel)), true);
  }

  openTensor(tensor) {
    this.tell(tensorDetails(this.graph, this.plan, tensor, this.links));
  }

  boxWords(node) {
    if (node.scope !== null) {
      return [node.scope, plural(node.kernels.length, "kernel"), bytesInWords(node.bytes)];
    }
    const kernel = node.kernels[0];
    const words = [this.graph.nameOf(kernel),
      `reads ${bytesInWords(kernel.read)}, writes ${bytesInWords(kernel.written)}`,
      plural(kernel.ops.length, "operation")];
    if (kernel.dram !== null) words.push(`measured ${bytesInWords(kernel.dram)}`);
    words.push(`predicted ${timeInWords(kernel.predicted.time)}, bound by ${kernel.predicted.bound}`);
    if (kernel.time !== null) words.push(`takes ${timeInWords(kernel.time)}`);
    if (node.repeat) words.push(`repeated ${node.repeat.count} times`);
    const reasons = new Set([...kernel.boundaries, ...kernel.others].map(({ reason }) => reason));
    for (const reason of [...reasons].slice(0, 3)) words.push(`not fused: ${reason}`);
    return words;
  }

  edgeWords(edge) {
    const words = edge.tensors.slice(0, 4).map(({ tensor, bytes }) =>
      `${this.graph.tensors[tensor].name}: ${bytesInWords(bytes)}`);
    if (edge.tensors.length > 4) words.push(`and ${edge.tensors.length - 4} more tensors`);
    return [...words, ...reasonsOf(edge).slice(0, 3).map((reason) => `not fused: ${reason}`)];
  }

  stubWords(stub, side) {
    const { name, type } = this.graph.tensors[stub.tensor];
    const from = stub.carried ? "from the layer before" : stub.from ? "from far away; click to go there"
      : side < 0 ? "input of the graph" : "output of the graph";
    return [name, type, bytesInWords(stub.bytes), from];
  }
}
Workspace.count = 0;

function legend() {
  return make("p", { class: "legend" }, "bytes: less ",
    ...[0, 1, 2, 3, 4].map((heat) => make("span", { class: `swatch heat${heat}` })), " more");
}

const { reports } = JSON.parse(document.getElementById("data").textContent);
for (const element of document.querySelectorAll(".workspace")) {
  const data = reports[Number(element.dataset.report)];
  if (data === null) {
    element.prepend(make("p", { class: "left-out" },
      "The graph is too large to draw: --format json has all of it."));
    continue;
  }
  const report = element.closest("details.report");
  const start = () => {
    if (!element.classList.contains("live")) new Workspace(element, data);
  };
  if (report === null) start();
  else report.addEventListener("toggle", start);
}
performance.mark("interactive");
