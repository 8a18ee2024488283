// What the drawing shows of a plan: kernels, with repeated layers drawn once and collapsed scopes
// as one box each.

const kFew = 24;  // kernels
const kSmall = 1e-4;  // of the plan's bytes

class View {
  constructor(graph, plan) {
    this.graph = graph;
    this.plan = plan;
    this.unfolded = new Set();  // repeats that are drawn in full
    this.collapsed = new Set();  // scopes
    // Kernels of hardly any bytes, as models have many, are left out of a large drawing at first.
    this.least = plan.kernels.length > kFew ? plan.bytes * kSmall : 0;
    this.small = plan.kernels.filter((kernel) => kernel.bytes < this.least).length;
    this.showSmall = false;
    this.collapseToFit(160);
  }

  // Collapses the scopes of a large graph whose boxes would be too many to read, the inner ones
  // first.
  collapseToFit(most) {
    for (let depth = 8; depth > 0; --depth) {
      const inside = new Map();
      const boxes = new Set();
      for (const kernel of this.plan.kernels) {
        if (this.isHidden(kernel) || this.placeOf(kernel) !== kernel.id) continue;
        boxes.add(this.boxOf(kernel));
        const scope = this.graph.scopesOf(kernel)[depth - 1];
        if (scope !== undefined) inside.set(scope, (inside.get(scope) ?? 0) + 1);
      }
      if (boxes.size <= most) return;
      for (const [scope, count] of inside) {
        if (count > 1) this.collapsed.add(scope);
      }
    }
  }

  isHidden(kernel) {
    return !this.showSmall && kernel.bytes < this.least;
  }

  isFolded(repeat) {
    return repeat !== undefined && !this.unfolded.has(repeat.first);
  }

  // The kernel that is drawn for this one: that of the first repetition.
  placeOf(kernel) {
    const repeat = this.plan.repeatOf.get(kernel.id);
    if (!this.isFolded(repeat)) return kernel.id;
    return repeat.first + ((kernel.id - repeat.first) % repeat.period);
  }

  turnOf(kernel) {
    const repeat = this.plan.repeatOf.get(kernel.id);
    return this.isFolded(repeat) ? Math.floor((kernel.id - repeat.first) / repeat.period) : 0;
  }

  // The box of a kernel: "k7", or "s" and the outermost collapsed scope around it.
  boxOf(kernel) {
    const drawn = this.plan.kernels[this.placeOf(kernel)];
    const scope = this.graph.scopesOf(drawn).find((name) => this.collapsed.has(name));
    return scope === undefined ? `k${drawn.id}` : `s${scope}`;
  }

  // Makes a kernel's own box visible.
  reveal(kernel) {
    if (this.isHidden(kernel)) this.showSmall = true;
    const repeat = this.plan.repeatOf.get(kernel.id);
    if (repeat !== undefined && this.turnOf(kernel) > 0) this.unfolded.add(repeat.first);
    for (const scope of this.graph.scopesOf(this.plan.kernels[this.placeOf(kernel)])) {
      this.collapsed.delete(scope);
    }
  }

  nodes() {
    const nodes = new Map();
    for (const kernel of this.plan.kernels) {
      if (this.isHidden(kernel)) continue;
      const id = this.boxOf(kernel);
      let node = nodes.get(id);
      if (node === undefined) {
        node = { id, kernels: [], bytes: 0, limit: 0, inputs: [], outputs: [], repeat: null,
          scope: id[0] === "s" ? id.slice(1) : null };
        nodes.set(id, node);
      }
      node.bytes += this.turnOf(kernel) === 0 || node.scope !== null ? kernel.bytes : 0;
      node.limit += this.turnOf(kernel) === 0 || node.scope !== null ? kernel.limit : 0;
      if (this.turnOf(kernel) === 0) node.kernels.push(kernel);
      const repeat = this.plan.repeatOf.get(kernel.id);
      if (this.isFolded(repeat) && node.scope === null) node.repeat = repeat;
    }
    const list = [...nodes.values()];
    list.forEach((node, index) => {
      node.index = index;
      node.times = node.repeat?.count ?? 1;
    });
    return { nodes: list, byId: nodes };
  }

  // Boxes and the edges between them, each with all tensors that take this way.
  build() {
    const { nodes, byId } = this.nodes();
    const edges = new Map();
    for (const { tensor, bytes, from, to } of this.plan.edges) {
      if (this.isHidden(to) || (from !== null && this.isHidden(from))) continue;
      const target = byId.get(this.boxOf(to));
      if (from === null) {
        if (this.turnOf(to) === 0) addStub(target.inputs, { tensor, bytes });
        continue;
      }
      const source = byId.get(this.boxOf(from));
      if (source === target && source.scope !== null) continue;
      const same = this.plan.repeatOf.get(from.id) === this.plan.repeatOf.get(to.id) &&
        this.isFolded(this.plan.repeatOf.get(to.id));
      const turns = [this.turnOf(from), this.turnOf(to)];
      if (same && turns[0] !== turns[1]) {
        // From one layer to the next.
        if (turns[1] === 1) {
          addStub(target.inputs, { tensor, bytes, from: source, carried: true });
        }
        continue;
      }
      if (turns[1] > 0 || source === target) continue;
      const key = `${source.index} ${target.index}`;
      const edge = edges.get(key) ?? { from: source, to: target, bytes: 0, tensors: [] };
      edge.bytes += bytes;
      edge.times = target.times;
      edge.tensors.push({ tensor, bytes, from, to });
      edges.set(key, edge);
    }
    for (const kernel of this.plan.kernels) {
      if (this.isHidden(kernel)) continue;
      const node = byId.get(this.boxOf(kernel));
      for (const { tensor, bytes } of kernel.writes) {
        if (this.graph.tensors[tensor].output) addStub(node.outputs, { tensor, bytes });
      }
    }
    const list = [...edges.values()];
    for (const edge of list) edge.tensors.sort((a, b) => b.bytes - a.bytes);
    for (const node of nodes) {
      node.inputs.sort((a, b) => b.bytes - a.bytes);
      node.outputs.sort((a, b) => b.bytes - a.bytes);
    }
    return { nodes, edges: list };
  }
}

function addStub(stubs, stub) {
  if (!stubs.some((other) => other.tensor === stub.tensor)) stubs.push(stub);
}
