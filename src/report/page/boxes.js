// The size of a box and what it says.

const kBox = 244;  // pixels
const kRow = 16;
const kHead = 28;
const kMostRows = 7;
const kMostStubs = 5;
const kStub = 44;
const kLabels = 112;

// What a box says under its title.
function rowsOf(graph, node) {
  if (node.scope !== null) return [[plural(node.kernels.length, "kernel"), "Enter expands"]];
  const ops = node.kernels[0].ops.map((op) => graph.ops[op]);
  if (ops.length === 1) return [[ops[0].kind, ops[0].scope]];
  const rows = ops.slice(0, kMostRows).map((op) => [op.kind, op.leaf]);
  if (ops.length > kMostRows) rows.push([`and ${ops.length - kMostRows} more`, ""]);
  return rows;
}

function measureBox(node) {
  const ops = node.scope !== null ? 1 : node.kernels[0].ops.length;
  const rows = Math.min(ops, kMostRows + 1);
  const stubs = Math.max(node.inputs.length, node.outputs.length);
  node.height = Math.max(kHead + rows * kRow + 6,
    Math.min(stubs, kMostStubs) * kRow + (stubs > kMostStubs ? 26 : 12));
  node.left = kBox / 2 + (node.inputs.length > 0 ? kStub + kLabels : 0);
  node.right = kBox / 2 + (node.outputs.length > 0 ? kStub + kLabels : 0);
}

// "q_proj.weight" of "model.layers.0.self_attn.q_proj.weight".
const lastParts = (name) => name.split(".").slice(-2).join(".");
