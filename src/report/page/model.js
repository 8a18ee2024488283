// The data of a report as objects: tensors, ops, and plans with their kernels.

class Plan {
  constructor(graph, data) {
    this.graph = graph;
    this.name = data.name;
    this.bytes = data.read + data.write;
    this.time = data.time ?? null;  // predicted, in us
    this.drawn = data.kernels !== undefined;
    // Two in a row are no layers yet.
    this.repeats = (data.repeats ?? []).filter(([, , count]) => count > 2)
      .map(([first, period, count]) => ({ first, period, count }));
    this.kernels = (data.kernels ?? []).map((kernel, id) => this.kernel(kernel, id, data));
    this.timed = this.kernels.some((kernel) => kernel.time !== null);
    this.repeatOf = new Map();
    for (const repeat of this.repeats) {
      for (let i = 0; i < repeat.period * repeat.count; ++i) {
        this.repeatOf.set(repeat.first + i, repeat);
      }
    }
    // The most that a kernel adds to the plan, with its repetitions.
    this.mostAdded = this.kernels.reduce((most, { id, bytes }) =>
      Math.max(most, bytes * (this.repeatOf.get(id)?.count ?? 1)), 1);
    for (const kernel of this.kernels) {
      for (const boundary of kernel.boundaries) {
        // Told at both kernels, written at one.
        this.kernels[boundary.with].others.push({ ...boundary, with: kernel.id });
      }
    }
  }

  kernel([ops, reads, writes, flops, limit, boundaries = [], doubt], id, data) {
    const kernel = {
      id, ops, flops, limit,
      plan: this,
      reads: reads.map((entry) => this.entry(entry)),
      writes: writes.map((entry) => this.entry(entry)),
      boundaries: boundaries.map(([other, tensor, reason]) =>
        ({ with: other, tensor, reason: this.graph.reasons[reason] })),
      others: [],
      doubt: doubt === undefined ? "" : this.graph.reasons[doubt],
    };
    kernel.read = kernel.reads.reduce((sum, entry) => sum + entry.bytes, 0);
    kernel.written = kernel.writes.reduce((sum, entry) => sum + entry.bytes, 0);
    kernel.bytes = kernel.read + kernel.written;
    const [dramRead, dramWrite, time, schedule] = data.measured?.[id] ?? [null, null, null, ""];
    const [dram, us, low, high, bound] = data.predicted[id];
    kernel.predicted = { dram, time: us, low, high, bound: this.graph.kinds[bound] };
    kernel.dram = dramRead === null ? null : dramRead + dramWrite;
    kernel.time = time;
    kernel.schedule = schedule;
    return kernel;
  }

  entry(entry) {
    return typeof entry === "number"
      ? { tensor: entry, bytes: this.graph.tensors[entry].bytes, passes: 1 }
      : { tensor: entry[0], bytes: entry[1], passes: entry[2] };
  }

  // The tensors that go through memory: {tensor, bytes, from, to}. `from` is the last kernel that
  // wrote the tensor before `to`, null for an input of the graph.
  get edges() {
    if (this.known) return this.known;
    this.known = [];
    const writers = new Map();
    for (const kernel of this.kernels) {
      for (const { tensor, bytes } of kernel.reads) {
        this.known.push({ tensor, bytes, from: writers.get(tensor) ?? null, to: kernel });
      }
      for (const { tensor } of kernel.writes) writers.set(tensor, kernel);
    }
    return this.known;
  }

  // Bytes of every tensor over all kernels.
  get traffic() {
    if (this.moved) return this.moved;
    this.moved = new Map();
    for (const kernel of this.kernels) {
      for (const { tensor, bytes } of [...kernel.reads, ...kernel.writes]) {
        this.moved.set(tensor, (this.moved.get(tensor) ?? 0) + bytes);
      }
    }
    return this.moved;
  }
}

class Graph {
  constructor(data) {
    const patterns = data.patterns.map((pattern) => pattern.split("\n"));
    // A text, or the place of its pattern and its numbers.
    const textOf = (text) => (typeof text === "string" ? text
      : patterns[text[0]].map((part, i) => part + (text[i + 1] ?? "")).join(""));
    const scopes = data.scopes.map(textOf);
    this.kinds = data.kinds.map(textOf);
    this.reasons = data.reasons.map(textOf);
    Object.assign(this, { name: data.name, device: data.device,
      bandwidth: data.copy ?? data.rates[0], peak: data.rates[1] });
    this.ops = data.ops.map(([written, kind, scope, inside]) => {
      const name = textOf(written);
      return {
        name: inside ? scopes[scope] + name : name,
        leaf: inside ? name.slice(1) : name,
        kind: this.kinds[kind],
        scope: scopes[scope],
      };
    });
    this.tensors = data.tensors.map(([name, bytes, ends, type]) => ({
      name: typeof name === "number" ? this.ops[name].name : textOf(name),
      bytes,
      input: (ends & 1) !== 0,
      output: (ends & 2) !== 0,
      type: this.kinds[type],
    }));
    this.plans = data.plans.map((plan) => new Plan(this, plan));
    this.headline = this.plans.find((plan) => plan.name === data.headline && plan.drawn) ??
      this.plans.find((plan) => plan.drawn);
  }

  // "layers.3.mlp.act+mul": the names of the first three ops, those of one scope without it.
  nameOf(kernel) {
    if (kernel.name !== undefined) return kernel.name;
    const ops = kernel.ops.slice(0, 3).map((op) => this.ops[op]);
    const names = ops.map((op, i) => (i > 0 && op.scope === ops[0].scope ? op.leaf : op.name));
    const more = kernel.ops.length - ops.length;
    kernel.name = names.join("+") + (more > 0 ? `+${more} more` : "");
    return kernel.name;
  }

  // The scopes that hold all ops of a kernel, from the outermost on: "a", "a.b", "a.b.c".
  scopesOf(kernel) {
    if (kernel.scopes !== undefined) return kernel.scopes;
    let common = this.ops[kernel.ops[0]].scope.split(".");
    for (const op of kernel.ops) {
      const parts = this.ops[op].scope.split(".");
      let same = 0;
      while (same < common.length && common[same] === parts[same]) ++same;
      common = common.slice(0, same);
    }
    kernel.scopes = common[0] === "" ? [] : common.map((_, i) => common.slice(0, i + 1).join("."));
    return kernel.scopes;
  }
}
