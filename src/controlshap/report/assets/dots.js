// Dots as paths without length: a round line end is a circle of the stroke's width, whatever the size of the picture.
const SIZE = 1000;
const MOST_DOTS = 2000;
const SHADES = 5;

// Every row, or evenly spaced ones where there are too many to draw.
const dotRows = (() => {
  const step = Math.ceil(common.rows / MOST_DOTS);
  return Array.from({ length: Math.ceil(common.rows / step) }, (_, place) => place * step);
})();

function dotsOf(points) {
  return points.map(([x, y]) => 'M' + x.toFixed(1) + ' ' + y.toFixed(1) + 'h0').join('');
}

// A picture that fills its place; coordinates from 0 to SIZE across and 0 to `height` down.
function picture(height, pixels) {
  return drawn('svg', { viewBox: '0 0 ' + SIZE + ' ' + height, preserveAspectRatio: 'none', width: '100%', height: pixels, 'aria-hidden': 'true' });
}

function draw(svg, className, path) {
  if (path) svg.append(drawn('path', { class: className, d: path }));
}

// What a player's data are worth from 0 to 1, between the 5 % and the 95 % quantile; null where they have no size.
function shadesOf(player) {
  const column = common.data[player];
  if (!column.numbers) {
    const isTruth = column.levels.every((level) => ['True', 'False', ''].includes(level));
    return column.codes.map((code) => (isTruth && code !== null && column.levels[code] ? Number(column.levels[code] === 'True') : null));
  }
  const sorted = column.numbers.filter((value) => value !== null).sort((a, b) => a - b);
  if (!sorted.length) return column.numbers.map(() => null);
  const quantile = (share) => sorted[Math.round(share * (sorted.length - 1))];
  let [low, high] = [quantile(0.05), quantile(0.95)];
  if (low === high) [low, high] = [sorted[0], sorted[sorted.length - 1]];
  return column.numbers.map((value) => (value === null ? null : high > low ? Math.min(1, Math.max(0, (value - low) / (high - low))) : 0.5));
}

// Filled dots by shade; hollow where the sign is not certain, or pale where so many would run into each other.
const MANY_DOTS = 300;

function drawDots(svg, dots) {
  const many = dots.length > MANY_DOTS;
  for (const hollow of [true, false]) {
    const chosen = dots.filter((dot) => dot.unsure === hollow);
    for (const shade of new Set(chosen.map((dot) => dot.shade))) {
      draw(svg, 'dot shade-' + shade + (many ? ' small' : '') + (many && hollow ? ' pale' : ''), dotsOf(chosen.filter((dot) => dot.shade === shade).map((dot) => [dot.x, dot.y])));
    }
    if (hollow && !many) draw(svg, 'dot hole', dotsOf(chosen.map((dot) => [dot.x, dot.y])));
  }
}

// The dot nearest to a click, in pixels.
function nearest(svg, event, dots, height) {
  const box = svg.getBoundingClientRect();
  const distance = (dot) =>
    ((dot.x / SIZE) * box.width + box.left - event.clientX) ** 2 + ((dot.y / height) * box.height + box.top - event.clientY) ** 2;
  return dots.reduce((best, dot) => (best === null || distance(dot) < distance(best) ? dot : best), null);
}
