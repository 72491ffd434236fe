// The players of a row: a table whose middle column is drawn.
const MOST_PLAYERS = 60;
const body = document.querySelector('#players tbody');
const comparers = {
  magnitude: (a, b) => Math.abs(b.value) - Math.abs(a.value),
  value: (a, b) => b.value - a.value,
  name: (a, b) => a.name.localeCompare(b.name, undefined, { numeric: true }),
  error: (a, b) => b.error - a.error,
};

// Steps of 1, 2 or 5 times a power of ten.
function ticksOf(low, high) {
  const span = high - low;
  if (!(span > 0)) return [0];
  const unit = 10 ** Math.floor(Math.log10(span / 5));
  const step = [1, 2, 5, 10].map((s) => s * unit).find((s) => span / s <= 5);
  const found = [];
  for (let i = Math.ceil(low / step - 1e-9); i <= Math.floor(high / step + 1e-9); i++) found.push(i * step);
  return found;
}

// What the axis spans: intervals with control, and those without as far as they do not dwarf them.
function domainOf(all, withPlain) {
  let low = Math.min(0, ...all.map((one) => one.low));
  let high = Math.max(0, ...all.map((one) => one.high));
  if (withPlain) {
    const room = 0.35 * (high - low);
    low = Math.max(low - room, Math.min(low, ...all.map((one) => one.plainValue - one.plainReach)));
    high = Math.min(high + room, Math.max(high, ...all.map((one) => one.plainValue + one.plainReach)));
  }
  return high > low ? [low, high] : [-1, 1];
}

function bar(one, place, ticks, withPlain) {
  const svg = drawn('svg', { 'aria-hidden': 'true', width: '100%', height: 24 });
  const at = (value) => place(value) + '%';
  const line = (className, from, to, top, bottom) =>
    svg.append(drawn('line', { class: className, x1: at(from), x2: at(to), y1: top, y2: bottom }));
  for (const tick of ticks) line(tick === 0 ? 'grid zero' : 'grid', tick, tick, -40, 64);
  const left = Math.min(0, one.value);
  const width = place(Math.max(0, one.value)) - place(left);
  const kind = one.value < 0 ? 'negative' : 'positive';
  svg.append(drawn('rect', { class: kind, x: at(left), y: 3, width: width + '%', height: 12 }));
  if (one.error > 0) {
    line('whisker', one.low, one.high, 9, 9);
    line('whisker', one.low, one.low, 5.5, 12.5);
    line('whisker', one.high, one.high, 5.5, 12.5);
  }
  if (withPlain && one.controlled && one.plainError > 0) {
    line('without', one.plainValue - one.plainReach, one.plainValue + one.plainReach, 20, 20);
    svg.append(drawn('circle', { class: 'without', cx: at(one.plainValue), cy: 20, r: 2 }));
  }
  return svg;
}

function drawAxis(ticks, place) {
  const axis = document.getElementById('axis');
  axis.replaceChildren();
  for (const tick of ticks) {
    const where = place(tick);
    const anchor = where < 4 ? 'start' : where > 96 ? 'end' : 'middle';
    axis.append(drawn('text', { x: where + '%', y: 12, class: anchor }, number(tick, 6)));
  }
}

function playerRow(one, row, place, ticks, withPlain) {
  const line = element('tr');
  line.tabIndex = -1;
  line.setAttribute('aria-describedby', 'tooltip');
  const head = element('th');
  head.scope = 'row';
  head.append(element('span', 'name', one.name), element('span', 'shows', '= ' + shown(one.player, row)));
  const plot = element('td', 'plot');
  plot.append(bar(one, place, ticks, withPlain));
  const numbers = element('td', 'number');
  const [value, error] = signed(one.value, one.reach).split(PLUS_MINUS);
  numbers.append(element('span', 'value', value));
  if (error) numbers.append(' ', element('span', 'error', PLUS_MINUS.trimStart() + error));
  else if (decoded(common.status, row) === 'exact') numbers.append(' ', element('span', 'error', 'exact'));
  line.append(head, plot, numbers);
  // not mouseenter, which also comes when rows are drawn anew under a mouse at rest
  line.addEventListener('mousemove', () => {
    if (tooltip.hidden || tooltipOf !== line) showTooltip(line, one, row);
  });
  line.addEventListener('mouseleave', () => {
    if (tooltipOf === line) hideTooltip();
  });
  line.addEventListener('focus', () => {
    for (const other of body.rows) other.tabIndex = other === line ? 0 : -1;
    showTooltip(line, one, row);
  });
  line.addEventListener('blur', hideTooltip);
  return line;
}

// Up and down go from player to player.
body.addEventListener('keydown', (event) => {
  const lines = [...body.rows];
  const here = lines.indexOf(document.activeElement);
  const to = { ArrowDown: here + 1, ArrowUp: here - 1, Home: 0, End: lines.length - 1 }[event.key];
  if (here < 0 || to === undefined) return;
  event.preventDefault();
  if (lines[to]) lines[to].focus();
});

function drawPlayers(output, row, view) {
  hideTooltip();
  const all = entries(output, row);
  const controlled = all.some((one) => one.controlled && one.plainError > 0);
  document.getElementById('plain-label').hidden = !controlled;
  const withPlain = controlled && view.plain;
  const [low, high] = domainOf(all, withPlain);
  const place = (value) => Math.round(1e4 * Math.min(1, Math.max(0, (value - low) / (high - low)))) / 100;
  const ticks = ticksOf(low, high);
  drawAxis(ticks, place);
  const wanted = view.filter.trim().toLowerCase();
  const found = all.filter((one) => one.name.toLowerCase().includes(wanted));
  // in the order of the certified ranking first, which also settles ties
  const order = block(output).order[row];
  const places = new Map(order.map((player, index) => [player, index]));
  found.sort((a, b) => places.get(a.player) - places.get(b.player)).sort(comparers[view.sort]);
  const drawnNow = view.all ? found : found.slice(0, MOST_PLAYERS);
  body.replaceChildren(...drawnNow.map((one) => playerRow(one, row, place, ticks, withPlain)));
  if (body.rows.length) body.rows[0].tabIndex = 0;
  document.getElementById('nothing').hidden = found.length > 0;
  const more = document.getElementById('more');
  more.hidden = drawnNow.length === found.length;
  more.textContent = 'Show all ' + count(found.length, 'player');
  const sampled = all.some((one) => one.error > 0);
  const interval = 'Thin lines are ' + number(100 * common.level) + ' % intervals, of which \u00b1 is half';
  const below = withPlain ? '; below each bar, in grey, what the same evaluations give without control' : '';
  document.getElementById('players-caption').textContent = sampled ? interval + below + '.' : '';
}
