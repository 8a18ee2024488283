// A layered drawing: every box below the boxes it reads from, by the longest path. Edges that cross
// layers pass them at places of their own. The same boxes and edges always give the same drawing.

const kLayerGap = 54;
const kNodeGap = 34;
const kLongestEdge = 12;  // layers; a longer edge is told at both its ends
const kMany = 3000;  // boxes, which are placed with less care

class Layout {
  // `measure` sets the size of a box: how far it goes to the left and the right of its middle, and
  // its height.
  constructor(nodes, edges, measure) {
    this.nodes = nodes;
    this.lines = [];
    // Collapsing may close a cycle; the edge back is told, not drawn.
    const ahead = edges.filter((edge) => edge.from.index < edge.to.index);
    this.rank(ahead);
    const near = ahead.filter((edge) => edge.to.rank - edge.from.rank <= kLongestEdge);
    const drawn = new Set(near);
    for (const edge of edges) {
      if (drawn.has(edge)) continue;
      edge.to.inputs.push({ tensor: edge.tensors[0].tensor, bytes: edge.bytes, from: edge.from });
    }
    nodes.forEach(measure);
    this.place(near);
    const sweeps = nodes.length > kMany ? 2 : 6;
    for (let sweep = 0; sweep < sweeps; ++sweep) this.order(sweep % 2 === 0);
    this.setY();
    this.setX();
    this.route();
  }

  rank(edges) {
    const ins = new Map(this.nodes.map((node) => [node, []]));
    const outs = new Map(this.nodes.map((node) => [node, []]));
    for (const edge of edges) {
      ins.get(edge.to).push(edge.from);
      outs.get(edge.from).push(edge.to);
    }
    // Indexes are in an order in which the kernels run.
    for (const node of this.nodes) {
      node.rank = 0;
      for (const from of ins.get(node)) node.rank = Math.max(node.rank, from.rank + 1);
    }
    for (const node of [...this.nodes].reverse()) {
      if (ins.get(node).length > 0 || outs.get(node).length === 0) continue;
      node.rank = Math.min(...outs.get(node).map((to) => to.rank)) - 1;
    }
  }

  // Items of every layer: boxes, and points that long edges pass, those of one box shared.
  place(edges) {
    const depth = this.nodes.reduce((most, node) => Math.max(most, node.rank + 1), 0);
    this.layers = Array.from({ length: depth }, () => []);
    const add = (item) => this.layers[item.rank].push(item);
    for (const node of this.nodes) {
      node.ins = [];
      node.outs = [];
      add(node);
    }
    const points = new Map();
    for (const edge of edges) {
      const way = [edge.from];
      for (let rank = edge.from.rank + 1; rank < edge.to.rank; ++rank) {
        const key = `${edge.from.index} ${rank}`;
        if (!points.has(key)) {
          const point = { rank, left: 5, right: 5, height: 0, ins: [], outs: [], point: true };
          points.set(key, point);
          add(point);
        }
        way.push(points.get(key));
      }
      way.push(edge.to);
      for (let i = 1; i < way.length; ++i) {
        if (!way[i].ins.includes(way[i - 1])) {
          way[i].ins.push(way[i - 1]);
          way[i - 1].outs.push(way[i]);
        }
      }
      this.lines.push({ edge, way });
    }
    for (const layer of this.layers) layer.forEach((item, i) => { item.place = i; });
  }

  // One sweep of the barycentre method, down or up.
  order(down) {
    const layers = down ? this.layers : [...this.layers].reverse();
    for (const layer of layers) {
      for (const item of layer) {
        const others = down ? item.ins : item.outs;
        item.wish = others.length === 0
          ? item.place
          : others.reduce((sum, other) => sum + other.place, 0) / others.length;
      }
      layer.sort((a, b) => a.wish - b.wish || a.place - b.place);
      layer.forEach((item, i) => { item.place = i; });
    }
  }

  setY() {
    let y = 0;
    for (const layer of this.layers) {
      const height = layer.reduce((most, item) => Math.max(most, item.height), 0);
      for (const item of layer) item.y = y;
      y += height + kLayerGap;
      layer.height = height;
    }
    this.height = Math.max(0, y - kLayerGap);
  }

  setX() {
    for (const layer of this.layers) {
      let x = 0;
      for (const item of layer) {
        item.x = x + item.left;
        x = item.x + item.right + kNodeGap;
      }
    }
    const sweeps = this.nodes.length > kMany ? 2 : 8;
    for (let sweep = 0; sweep < sweeps; ++sweep) {
      const down = sweep % 2 === 0;
      for (const layer of down ? this.layers : [...this.layers].reverse()) settle(layer, down);
    }
    let least = Infinity;
    let most = -Infinity;
    for (const layer of this.layers) {
      for (const item of layer) {
        least = Math.min(least, item.x - item.left);
        most = Math.max(most, item.x + item.right);
      }
    }
    for (const layer of this.layers) for (const item of layer) item.x -= least;
    this.width = this.nodes.length === 0 ? 0 : most - least;
  }

  // The corners of every line; several at one side of a box stand beside each other.
  route() {
    for (const node of this.nodes) {
      node.ins.sort((a, b) => a.x - b.x);
      node.outs.sort((a, b) => a.x - b.x);
    }
    const port = (item, others, other) => {
      if (item.point) return item.x;
      const step = Math.min(22, 150 / others.length);
      return item.x + (others.indexOf(other) - (others.length - 1) / 2) * step;
    };
    for (const line of this.lines) {
      line.points = [];
      for (let i = 0; i < line.way.length; ++i) {
        const item = line.way[i];
        const layer = this.layers[item.rank];
        if (i > 0) line.points.push([port(item, item.ins, line.way[i - 1]), item.y]);
        if (i + 1 < line.way.length) {
          const bottom = item.point ? item.y + layer.height : item.y + item.height;
          line.points.push([port(item, item.outs, line.way[i + 1]), bottom]);
        }
      }
      const xs = line.points.map((point) => point[0]);
      line.box = { left: Math.min(...xs), right: Math.max(...xs), top: line.points[0][1],
        bottom: line.points[line.points.length - 1][1] };
    }
  }
}

function medianX(items) {
  if (items.length === 1) return items[0].x;
  const xs = items.map((item) => item.x).sort((a, b) => a - b);
  return (xs[(xs.length - 1) >> 1] + xs[xs.length >> 1]) / 2;
}

// Moves the items of a layer to where their neighbours are, in their order and apart from each
// other: the least squares under these conditions (pool adjacent violators).
function settle(layer, down) {
  const blocks = [];
  let offset = 0;
  layer.forEach((item, i) => {
    if (i > 0) offset += layer[i - 1].right + item.left + kNodeGap;
    const others = down ? item.ins : item.outs;
    const back = down ? item.outs : item.ins;
    const near = others.length > 0 ? others : back;
    // Points keep long edges straight.
    const weight = near.length === 0 ? 0.1 : item.point ? 4 : 1;
    const middle = near.length === 0 ? item.x : medianX(near);
    blocks.push({ sum: (middle - offset) * weight, weight, items: [[item, offset]] });
    while (blocks.length > 1) {
      const last = blocks[blocks.length - 1];
      const before = blocks[blocks.length - 2];
      if (before.sum / before.weight <= last.sum / last.weight) break;
      before.sum += last.sum;
      before.weight += last.weight;
      for (const entry of last.items) before.items.push(entry);
      blocks.pop();
    }
  });
  for (const { sum, weight, items } of blocks) {
    for (const [item, at] of items) item.x = sum / weight + at;
  }
}

// Straight through layers, curved between them.
function pathOf(points) {
  let path = `M${round(points[0][0])} ${round(points[0][1])}`;
  for (let i = 1; i < points.length; ++i) {
    const [x0, y0] = points[i - 1];
    const [x1, y1] = points[i];
    if (Math.abs(x0 - x1) < 0.5) {
      path += `L${round(x1)} ${round(y1)}`;
    } else {
      const bend = (y1 - y0) / 2;
      path += `C${round(x0)} ${round(y0 + bend)} ${round(x1)} ${round(y1 - bend)} ` +
        `${round(x1)} ${round(y1)}`;
    }
  }
  return path;
}
