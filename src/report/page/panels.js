// What is told of a kernel, a tensor, an edge and a scope, and the tabs that hold it.

class Tabs {
  constructor(names) {
    this.tabs = new Map();
    this.list = make("div", { class: "tabs", role: "tablist", onkeydown: (event) => this.onKey(event) });
    this.element = make("div", { class: "side" }, this.list);
    for (const [id, name] of names) {
      const key = `${id}-${++Tabs.count}`;
      const panel = make("div", { role: "tabpanel", id: key, "aria-labelledby": `tab-${key}`,
        tabindex: 0, hidden: true });
      const tab = make("button", { type: "button", role: "tab", id: `tab-${key}`,
        "aria-controls": key, "aria-selected": "false", onclick: () => this.show(id) }, name);
      this.tabs.set(id, { tab, panel });
      this.list.append(tab);
      this.element.append(panel);
    }
  }

  panel(id) {
    return this.tabs.get(id).panel;
  }

  show(id) {
    for (const [name, { tab, panel }] of this.tabs) {
      const chosen = name === id;
      tab.setAttribute("aria-selected", String(chosen));
      tab.tabIndex = chosen ? 0 : -1;
      panel.hidden = !chosen;
    }
    this.shown = id;
    this.onshow?.(id);
  }

  onKey(event) {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (step === undefined) return;
    const ids = [...this.tabs.keys()];
    const next = ids[(ids.indexOf(this.shown) + step + ids.length) % ids.length];
    this.show(next);
    this.tabs.get(next).tab.focus();
    event.preventDefault();
  }
}
Tabs.count = 0;

const facts = (pairs) => make("dl", { class: "facts" }, ...pairs.filter((pair) => pair[1] !== null)
  .map(([name, value]) => make("div", {}, make("dt", {}, name), make("dd", {}, value))));

function table(caption, rows) {
  return rows.length === 0 ? null : make("table", {}, make("caption", {}, caption),
    make("tbody", {}, ...rows.map((cells) => make("tr", {},
      ...cells.map((cell, i) => i === 0 ? make("th", { scope: "row" }, cell)
        : make("td", { class: i === 1 ? "number" : null }, cell))))));
}

// `repeat`: the run of layers that it is in; `folded`: whether one of them is drawn for all.
function kernelDetails(graph, kernel, { repeat, folded }, actions) {
  const most = Math.max(1, ...[...kernel.reads, ...kernel.writes].map((entry) => entry.bytes));
  const moved = (entries) => [...entries].sort((a, b) => b.bytes - a.bytes).map((entry) => [
    link(graph.tensors[entry.tensor].name, () => actions.openTensor(entry.tensor)),
    bytesInWords(entry.bytes) + (entry.passes > 1 ? `, ${entry.passes} passes` : ""),
    bar(entry.bytes / most, "after"),
  ]);
  const { plan } = kernel;
  const reasons = [...kernel.boundaries, ...kernel.others];
  return [
    make("h3", {}, nameOf(graph.nameOf(kernel))),
    facts([
      ["total", bytesInWords(kernel.bytes)],
      ["read", bytesInWords(kernel.read)],
      ["written", bytesInWords(kernel.written)],
      ["limit", bytesInWords(kernel.limit)],
      ["measured", kernel.dram === null ? null : bytesInWords(kernel.dram)],
      ["predicted", bytesInWords(kernel.predicted.dram)],
      ["predicted time", `${timeInWords(kernel.predicted.time)} (${kernel.predicted.low.toFixed(2)} to ` +
        `${kernel.predicted.high.toFixed(2)} us)`],
      ["bound", kernel.predicted.bound],
      ["time", kernel.time === null ? null : timeInWords(kernel.time)],
      ["arithmetic", flopsInWords(kernel.flops)],
      ["intensity", kernel.bytes > 0 ? `${rounded(kernel.flops / kernel.bytes)} flop/B` : null],
      ["of the plan", percent(kernel.bytes * (folded ? repeat.count : 1), plan.bytes)],
      ["repeated", repeat ? `\u00d7 ${repeat.count}` : null],
      ["runs as", kernel.schedule || null],
    ]),
    kernel.doubt ? make("p", { class: "doubt" }, `No kernel for it: ${kernel.doubt}`) : null,
    make("p", { class: "actions" }, repeat === undefined ? null : make("button",
      { type: "button", class: "chip", onclick: () => actions.toggleRepeat(repeat, kernel) },
      `show ${folded ? "all" : "one of"} ${repeat.count}`), ...graph.scopesOf(kernel).map((scope) =>
      make("button", { type: "button", class: "chip", onclick: () => actions.toggleScope(scope) },
        "collapse ", nameOf(scope)))),
    table(`Operations (${kernel.ops.length})`, kernel.ops.slice(0, 100).map((op) =>
      [nameOf(graph.ops[op].name), graph.ops[op].kind])),
    table("Reads", moved(kernel.reads)),
    table("Writes", moved(kernel.writes)),
    reasons.length === 0 ? null : make("h4", {}, "Why it ends here"),
    reasons.length === 0 ? null : make("ul", { class: "reasons" }, ...reasons.slice(0, 100).map(
      ({ with: other, tensor, reason }) => make("li", {},
        "not fused with ", link(graph.nameOf(plan.kernels[other]), () => actions.openKernel(plan.kernels[other])),
        " (they share ", nameOf(graph.tensors[tensor].name), "): ", make("span", { class: "reason" }, reason)))),
  ];
}

function tensorDetails(graph, plan, tensor, actions) {
  const { name, type, bytes, input, output } = graph.tensors[tensor];
  const touching = (key) => plan.kernels.filter((kernel) =>
    kernel[key].some((entry) => entry.tensor === tensor));
  const rows = (key) => touching(key).slice(0, 100).map((kernel) => [
    link(graph.nameOf(kernel), () => actions.openKernel(kernel)),
    bytesInWords(kernel[key].find((entry) => entry.tensor === tensor).bytes)]);
  const moved = plan.traffic.get(tensor);
  return [
    make("h3", {}, nameOf(name)),
    facts([["type", type], ["size", bytesInWords(bytes)],
      ["moved", moved === undefined ? "never in memory" : bytesInWords(moved)],
      ["role", input ? "input of the graph" : output ? "output of the graph" : "intermediate"]]),
    table("Written by", rows("writes")),
    table("Read by", rows("reads")),
  ];
}

// The reasons why the kernels at both ends of an edge are not one.
function reasonsOf(edge) {
  const told = new Set();
  for (const { from, to } of edge.tensors) {
    for (const { with: other, reason } of from.boundaries) if (other === to.id) told.add(reason);
    for (const { with: other, reason } of to.boundaries) if (other === from.id) told.add(reason);
  }
  return [...told];
}

function edgeDetails(graph, edge, actions) {
  const reasons = reasonsOf(edge);
  return [
    make("h3", {}, "Through memory: ", bytesInWords(edge.bytes)),
    table("Tensors", edge.tensors.slice(0, 100).map(({ tensor, bytes }) => [
      link(graph.tensors[tensor].name, () => actions.openTensor(tensor)), bytesInWords(bytes)])),
    table("Between", [edge.tensors[0].from, edge.tensors[0].to].map((kernel) =>
      [link(graph.nameOf(kernel), () => actions.openKernel(kernel)), bytesInWords(kernel.bytes)])),
    reasons.length > 0 ? make("h4", {}, "Why they are not fused") : null,
    make("ul", { class: "reasons" }, ...reasons.map((reason) => make("li", {}, reason))),
  ];
}

function scopeDetails(graph, node, actions) {
  return [
    make("h3", {}, nameOf(node.scope)),
    facts([["kernels", grouped(node.kernels.length)], ["total", bytesInWords(node.bytes)],
      ["limit", bytesInWords(node.limit)]]),
    make("p", { class: "actions" }, make("button", { type: "button", class: "chip",
      onclick: () => actions.toggleScope(node.scope) }, "expand")),
    table("Kernels", node.kernels.slice(0, 100).map((kernel) => [
      link(graph.nameOf(kernel), () => actions.openKernel(kernel)), bytesInWords(kernel.bytes)])),
  ];
}

// Scopes as a tree; one that is collapsed here is one box in the drawing.
function scopeTree(graph, view, toggle) {
  const root = { name: "", children: new Map(), kernels: 0, bytes: 0 };
  for (const kernel of view.plan.kernels) {
    if (view.placeOf(kernel) !== kernel.id) continue;
    let at = root;
    for (const scope of graph.scopesOf(kernel)) {
      if (!at.children.has(scope)) {
        at.children.set(scope, { name: scope, children: new Map(), kernels: 0, bytes: 0 });
      }
      at = at.children.get(scope);
      ++at.kernels;
      at.bytes += kernel.bytes;
    }
  }
  if (root.children.size === 0) return make("p", {}, "No operation of this graph has a scope.");
  const item = (scope, parent, level) => {
    const open = !view.collapsed.has(scope.name);
    const children = [...scope.children.values()];
    return make("li", { role: "none" },
      make("button", { type: "button", role: "treeitem", "aria-level": level,
        "aria-expanded": String(open), onclick: () => toggle(scope.name) },
      nameOf(scope.name.slice(parent.length).replace(/^\./, "")),
      make("span", { class: "aside" }, `${plural(scope.kernels, "kernel")}, ${bytesInWords(scope.bytes)}`)),
      open && children.length > 0 ? make("ul", { role: "group" },
        ...children.map((child) => item(child, scope.name, level + 1))) : null);
  };
  return make("ul", { class: "tree", role: "tree", "aria-label": "Scopes" },
    ...[...root.children.values()].map((child) => item(child, "", 1)));
}
