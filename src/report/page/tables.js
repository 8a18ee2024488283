// The tables beside the drawing: they follow the plan, sort by any column and open what they name.

const kRowsAtOnce = 200;

// columns: {name, number, value(row) to sort by, cell(row)}. Rows are shown from the first sort on.
class SortedTable {
  constructor(caption, columns, sortBy) {
    this.columns = columns;
    this.sortBy = sortBy;
    this.ascending = !columns[sortBy].number;
    this.shown = kRowsAtOnce;
    this.rows = [];
    this.heads = columns.map((column, i) => make("th",
      { scope: "col", class: column.number ? "number" : null },
      column.value ? make("button", { type: "button", class: "sort", onclick: () => this.sort(i) },
        column.name) : column.name));
    this.body = make("tbody");
    this.more = make("button", { type: "button", class: "more",
      onclick: () => { this.shown *= 10; this.fill(); } });
    this.element = make("div", { class: "wide" },
      make("table", {}, make("caption", {}, caption),
        make("thead", {}, make("tr", {}, ...this.heads)), this.body), this.more);
  }

  show(rows) {
    this.rows = rows;
    this.shown = kRowsAtOnce;
    this.sort(null);
  }

  sort(column) {
    if (column !== null) {
      this.ascending = column === this.sortBy ? !this.ascending : !this.columns[column].number;
      this.sortBy = column;
    }
    const { value } = this.columns[this.sortBy];
    const sign = this.ascending ? 1 : -1;
    const keys = new Map(this.rows.map((row, i) => [row, [value(row), i]]));
    this.sorted = [...this.rows].sort((a, b) => {
      const [left, i] = keys.get(a);
      const [right, j] = keys.get(b);
      return (left < right ? -sign : left > right ? sign : 0) || i - j;
    });
    this.heads.forEach((head, i) => {
      if (i === this.sortBy) head.setAttribute("aria-sort", this.ascending ? "ascending" : "descending");
      else head.removeAttribute("aria-sort");
    });
    this.fill();
  }

  fill() {
    this.body.replaceChildren(...this.sorted.slice(0, this.shown).map((row) => make("tr", {},
      ...this.columns.map((column, i) => i === 0
        ? make("th", { scope: "row" }, column.cell(row))
        : make("td", { class: column.number ? "number" : null }, column.cell(row))))));
    const left = this.sorted.length - this.shown;
    this.more.hidden = left <= 0;
    this.more.textContent = `${plural(Math.max(0, left), "more row")}: show`;
  }
}

const link = (text, action) =>
  make("button", { type: "button", class: "link", onclick: action }, nameOf(text));

function kernelTable(graph, plan, open) {
  const added = (row) => row.kernel.bytes * row.times;
  const columns = [
    { name: "kernel", value: (row) => graph.nameOf(row.kernel),
      cell: (row) => make("div", {}, link(graph.nameOf(row.kernel), () => open(row.kernel)),
        row.times > 1 ? make("span", { class: "times" }, ` \u00d7 ${grouped(row.times)}`) : null,
        bar(added(row) / plan.mostAdded, "after")) },
    { name: "bytes", number: true, value: (row) => row.kernel.bytes,
      cell: (row) => bytesInWords(row.kernel.bytes) },
    { name: "limit", number: true, value: (row) => row.kernel.limit,
      cell: (row) => bytesInWords(row.kernel.limit) },
  ];
  if (plan.kernels.some((kernel) => kernel.dram !== null)) {
    columns.push({ name: "measured", number: true, value: (row) => row.kernel.dram ?? -1,
      cell: (row) => (row.kernel.dram === null ? "-" : bytesInWords(row.kernel.dram)) });
  }
  columns.push({ name: "predicted", number: true, value: (row) => row.kernel.predicted.time,
    cell: (row) => timeInWords(row.kernel.predicted.time) });
  if (plan.timed) {
    columns.push({ name: "time", number: true, value: (row) => row.kernel.time ?? -1,
      cell: (row) => (row.kernel.time === null ? "-" : timeInWords(row.kernel.time)) });
  }
  columns.push({ name: "bound", value: (row) => row.kernel.predicted.bound,
    cell: (row) => row.kernel.predicted.bound });
  columns.push({ name: "of plan", number: true, value: added,
    cell: (row) => percent(added(row), plan.bytes) });
  return new SortedTable(`Kernels of ${plan.name}`, columns, columns.length - 1);
}

function tensorTable(graph, plan, unfused, open) {
  const saved = (row) => row.before - row.moved;
  const columns = [
    { name: "tensor", value: (row) => graph.tensors[row.tensor].name,
      cell: (row) => make("div", {}, link(graph.tensors[row.tensor].name, () => open(row.tensor)),
        bar(row.before / row.most, "faint")) },
    { name: "moved", number: true, value: (row) => row.moved,
      cell: (row) => (row.moved === 0 ? "never in memory" : bytesInWords(row.moved)) },
  ];
  if (unfused !== undefined && unfused !== plan) {
    columns.push({ name: "saved", number: true, value: saved,
      cell: (row) => (saved(row) === 0 ? "" : bytesInWords(Math.abs(saved(row)))) });
  }
  return new SortedTable(`Tensors: bytes that ${plan.name} moves`, columns,
    columns.length - 1);
}

function tensorRows(graph, plan, unfused) {
  const before = unfused?.traffic ?? plan.traffic;
  const tensors = new Set([...before.keys(), ...plan.traffic.keys()]);
  let most = 1;
  for (const bytes of before.values()) most = Math.max(most, bytes);
  return [...tensors].map((tensor) => ({ tensor, most, moved: plan.traffic.get(tensor) ?? 0,
    before: before.get(tensor) ?? 0 }));
}
