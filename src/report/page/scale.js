// Axes of charts: where a value lies, and which values are written beside the axis.

// Values at least one decade apart, and all above zero, lie on a logarithmic axis.
const spreads = (least, most) => least > 0 && most / least >= 10;

// Steps of 1, 2 or 5 times a power of ten, about `count` of them.
function niceTicks(most, count) {
  const raw = most / count;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = power * ([1, 2, 5, 10].find((factor) => factor * power >= raw * 0.999) ?? 10);
  const ticks = [];
  for (let i = 0; i * step <= most * 1.0001; ++i) ticks.push(i * step);
  return ticks;
}

function logTicks(least, most) {
  const decades = Math.log10(most / least);
  const factors = decades > 3 ? [1] : decades > 1.5 ? [1, 3] : [1, 2, 5];
  const ticks = [];
  for (let power = Math.floor(Math.log10(least)); power <= Math.ceil(Math.log10(most)); ++power) {
    for (const factor of factors) {
      const tick = factor * 10 ** power;
      if (tick >= least * 0.999 && tick <= most * 1.001) ticks.push(tick);
    }
  }
  return ticks;
}

// From the figures of the curves to pixels, `low` being the end of the least. A linear axis begins
// at zero.
function figureScale(values, low, high) {
  let least = Infinity;
  let most = -Infinity;
  for (const value of values) {
    least = Math.min(least, value);
    most = Math.max(most, value);
  }
  if (spreads(least, most)) {
    least *= 0.9;
    most *= 1.1;
    const at = (value) => low + (Math.log(value / least) / Math.log(most / least)) * (high - low);
    return { at, ticks: logTicks(least, most), logarithmic: true };
  }
  most = (most > 0 ? most : 1) * 1.06;
  return { at: (value) => low + (Math.max(0, value) / most) * (high - low), ticks: niceTicks(most, 5),
    logarithmic: false };
}

// The values of a dim, as many of them written as there is room for.
function dimScale(values, left, right) {
  const least = Math.min(...values);
  const most = Math.max(...values);
  const place = spreads(least, most) ? Math.log : (value) => value;
  const span = place(most) - place(least) || 1;
  const at = (value) => left + ((place(value) - place(least)) / span) * (right - left);
  const ticks = [];
  for (const value of values) {
    const room = 16 + 7 * String(value).length;
    if (ticks.every((tick) => Math.abs(at(tick) - at(value)) >= room)) ticks.push(value);
  }
  return { at, ticks };
}

// A round number beside an axis, without zeros at its end.
function tickInWords(value, unit) {
  if (unit === "us") return value < 1000 ? `${rounded(value)} us` : `${rounded(value / 1000)} ms`;
  if (unit === "x") return `${rounded(value)}x`;
  return bytesInWords(value).replace(/\.0+ /, " ").replace(/(\.\d*?)0+ /, "$1 ");
}
