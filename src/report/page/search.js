// Finds kernels by their names, and by the names and kinds of their ops and tensors.

class Search {
  constructor(onfind, onstep) {
    this.onfind = onfind;
    this.onstep = onstep;
    this.found = [];
    this.place = -1;
    this.input = make("input", { type: "search", placeholder: "Search ops, kernels, tensors",
      "aria-label": "Search ops, kernels and tensors", oninput: () => this.find(),
      onkeydown: (event) => {
        if (event.key !== "Enter") return;
        event.preventDefault();
        this.step(event.shiftKey ? -1 : 1);
      } });
    this.count = make("output", { class: "count", "aria-live": "polite" });
    this.element = make("div", { class: "search", role: "search" }, this.input, this.count,
      make("button", { type: "button", "aria-label": "previous match", onclick: () => this.step(-1) },
        "\u2191"),
      make("button", { type: "button", "aria-label": "next match", onclick: () => this.step(1) },
        "\u2193"));
  }

  show(graph, plan) {
    this.graph = graph;
    this.plan = plan;
    this.find();
  }

  get wanted() {
    return this.input.value.trim().toLowerCase();
  }

  textOf(kernel) {
    const { ops, tensors } = this.graph;
    kernel.text ??= [...kernel.ops.flatMap((op) => [ops[op].name, ops[op].kind]),
      ...[...kernel.reads, ...kernel.writes].map((entry) => tensors[entry.tensor].name)]
      .join("\n").toLowerCase();
    return kernel.text;
  }

  find() {
    const { wanted } = this;
    this.found = wanted === "" ? []
      : this.plan.kernels.filter((kernel) => this.textOf(kernel).includes(wanted));
    this.place = -1;
    this.tell();
    this.onfind(wanted === "" ? null : new Set(this.found.map((kernel) => kernel.id)));
  }

  step(by) {
    if (this.found.length === 0) return;
    this.place = this.place < 0 && by < 0 ? this.found.length - 1
      : (this.place + by + this.found.length) % this.found.length;
    this.tell();
    this.onstep(this.found[this.place]);
  }

  tell() {
    this.count.textContent = this.wanted === "" ? ""
      : this.found.length === 0 ? "nothing found"
        : this.place < 0 ? plural(this.found.length, "kernel")
          : `${this.place + 1} of ${this.found.length}`;
  }
}
