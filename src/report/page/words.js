// Elements and figures as text. Names are only ever set as text, never as markup.

const SVG = "http://www.w3.org/2000/svg";

// set(element, {class, text attributes, onclick...}, children): strings become text.
function set(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) {
      element.addEventListener(name.slice(2), value);
    } else {
      element.setAttribute(name, value === true ? "" : value);
    }
  }
  element.append(...children.filter((child) => child !== undefined && child !== null));
  return element;
}

const make = (tag, attributes = {}, ...children) =>
  set(document.createElement(tag), attributes, children);
const draw = (tag, attributes = {}, ...children) =>
  set(document.createElementNS(SVG, tag), attributes, children);

// Isolated from the direction of the text around it.
const nameOf = (text) => make("bdi", { class: "name" }, text);

// Four digits, decimal units.
function inUnits(value, units, step = 1000) {
  let unit = 0;
  while (value >= step * 0.99995 && unit + 1 < units.length) {
    value /= step;
    ++unit;
  }
  if (unit === 0 && Number.isInteger(value)) return `${value} ${units[0]}`;
  return `${value.toFixed(value < 9.9995 ? 3 : value < 99.995 ? 2 : 1)} ${units[unit]}`;
}

const bytesInWords = (bytes) => inUnits(bytes, ["B", "kB", "MB", "GB", "TB", "PB", "EB"]);
const flopsInWords = (flops) => inUnits(flops, ["flop", "kflop", "Mflop", "Gflop", "Tflop", "Pflop"]);
const timeInWords = (us) => (us < 1000 ? `${us.toFixed(2)} us` : `${(us / 1000).toFixed(3)} ms`);
// To a tenth of a pixel.
const round = (value) => Math.round(value * 10) / 10;
const grouped = (count) => count.toLocaleString("en-US");
const rounded = (value) => value.toLocaleString("en-US", { maximumSignificantDigits: 3 });
const plural = (count, noun) => `${grouped(count)} ${noun}${count === 1 ? "" : "s"}`;
const percent = (part, whole) => (whole > 0 ? `${((100 * part) / whole).toFixed(1)} %` : "-");

// As much of a text as takes `most` characters, cut in the middle, where names differ least.
function shortened(text, most) {
  if (text.length <= most) return text;
  const head = Math.floor((most - 1) / 2);
  return `${text.slice(0, head)}\u2026${text.slice(text.length - (most - 1 - head))}`;
}

// As much of a text as fits: fonts differ by a third in width.
const kPen = document.createElement("canvas").getContext("2d");
function fitted(text, weight, size, width) {
  kPen.font = `${weight} ${size}px ${getComputedStyle(document.body).fontFamily}`;
  const needed = kPen.measureText(text).width;
  return needed <= width ? text : shortened(text, Math.floor((text.length * width) / needed));
}

// A step of the heat scale, 0 to 4, by the square root of the share.
const heatOf = (bytes, most) =>
  most > 0 ? Math.min(4, Math.floor(5 * Math.sqrt(bytes / most) * 0.9999)) : 0;

const bar = (share, tone) =>
  make("span", { class: "track", "aria-hidden": "true" },
    make("span", { class: `bar ${tone}`, style: `width:${(100 * Math.min(1, share)).toFixed(2)}%` }));
