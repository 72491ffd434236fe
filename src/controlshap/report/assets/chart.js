// The players of a row: a table whose middle column is drawn.
const MOST_PLAYERS = 20;
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
function domainOf(all, withPlain, ends) {
  let low = Math.min(...ends, ...all.map((one) => one.from + Math.min(0, one.low)));
  let high = Math.max(...ends, ...all.map((one) => one.from + Math.max(0, one.high)));
  if (withPlain) {
    const room = 0.35 * (high - low);
    low = Math.max(low - room, Math.min(low, ...all.map((one) => one.from + one.plainValue - one.plainReach)));
    high = Math.min(high + room, Math.max(high, ...all.map((one) => one.from + one.plainValue + one.plainReach)));
  }
  return high > low ? [low, high] : [low - 1, high + 1];
}

// Where each bar begins: at 0, or as a waterfall where the one above it ends.
function placeBars(found, output, row, view) {
  if (view.shape === 'bars') return found.forEach((one) => (one.from = 0));
  let total = block(output).bases[row];
  for (const one of found) {
    one.from = total;
    total += one.value;
  }
}

function bar(one, place, ticks, withPlain, ends) {
  const svg = drawn('svg', { 'aria-hidden': 'true', width: '100%', height: 24 });
  const at = (value) => place(one.from + value) + '%';
  const line = (className, from, to, top, bottom) =>
    svg.append(drawn('line', { class: className, x1: at(from), x2: at(to), y1: top, y2: bottom }));
  for (const tick of ticks) line(tick === 0 ? 'grid zero' : 'grid', tick - one.from, tick - one.from, -40, 64);
  if (ends.length > 1) {
    for (const end of ends) line('end', end - one.from, end - one.from, -40, 64);
    line('step', 0, 0, -40, 9);
    line('step', one.value, one.value, 9, 64);
  }
  const left = Math.min(0, one.value);
  const width = place(one.from + Math.max(0, one.value)) - place(one.from + left);
  const kind = (one.value < 0 ? 'negative' : 'positive') + (one.unsure ? ' unsure' : '');
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

function drawAxis(ticks, place, ends) {
  const axis = document.getElementById('axis');
  axis.replaceChildren();
  axis.setAttribute('height', ends.length > 1 ? 48 : 16);
  if (ends.length > 1) {
    // each on a line of its own, since the two may be anywhere
    ['base value', 'prediction'].forEach((word, line) => {
      const where = place(ends[line]);
      const side = where < 15 ? 'start' : where > 85 ? 'end' : 'middle';
      axis.append(drawn('text', { x: where + '%', y: 11 + 14 * line, class: side }, word));
    });
  }
  for (const tick of ticks) {
    const where = place(tick);
    const anchor = where < 4 ? 'start' : where > 96 ? 'end' : 'middle';
    axis.append(drawn('text', { x: where + '%', y: ends.length > 1 ? 43 : 12, class: anchor }, number(tick, 6)));
  }
}

function playerRow(one, row, place, ticks, withPlain, ends, places) {
  const line = element('tr');
  line.tabIndex = -1;
  line.setAttribute('aria-describedby', 'tooltip');
  const head = element('th');
  head.scope = 'row';
  head.append(element('span', 'name', one.name), element('span', 'shows', '= ' + shown(one.player, row)));
  const plot = element('td', 'plot');
  plot.append(bar(one, place, ticks, withPlain, ends));
  const numbers = element('td', 'number');
  const text = places === null ? signed(one.value, one.reach) : signedExact(one.value, places);
  const [value, error] = text.split(PLUS_MINUS);
  numbers.append(element('span', 'value', value));
  if (error) numbers.append(' ', element('span', 'error', PLUS_MINUS.trimStart() + error));
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
  // in the order of the certified ranking first, which also settles ties
  const places = new Map(block(output).order[row].map((player, index) => [player, index]));
  all.sort((a, b) => places.get(a.player) - places.get(b.player)).sort(comparers[view.sort]);
  placeBars(all, output, row, view);
  const ends = view.shape === 'bars' ? [0] : [block(output).bases[row], block(output).predictions[row]];
  const [low, high] = domainOf(all, withPlain, ends);
  const place = (value) => Math.round(1e4 * Math.min(1, Math.max(0, (value - low) / (high - low)))) / 100;
  const ticks = ticksOf(low, high);
  drawAxis(ticks, place, ends);
  const wanted = view.filter.trim().toLowerCase();
  const found = all.filter((one) => one.name.toLowerCase().includes(wanted));
  const drawnNow = view.all ? found : found.slice(0, MOST_PLAYERS);
  const exact = decoded(common.status, row) === 'exact';
  document.getElementById('players-head').textContent = exact ? 'exact value' : 'value \u00b1 ' + number(100 * common.level) + ' %';
  const decimals = exact ? placesOfExact(all.map((one) => one.value)) : null;
  body.replaceChildren(...drawnNow.map((one) => playerRow(one, row, place, ticks, withPlain, ends, decimals)));
  if (body.rows.length) body.rows[0].tabIndex = 0;
  document.getElementById('nothing').hidden = found.length > 0;
  const more = document.getElementById('more');
  more.hidden = drawnNow.length === found.length;
  const left = found.slice(drawnNow.length);
  const together = left.reduce((sum, one) => sum + one.value, 0);
  const smaller = view.sort === 'magnitude' && !wanted ? ' smaller' : ' more';
  more.textContent = 'Show ' + grouped(left.length, 0) + smaller + (left.length === 1 ? ' player' : ' players') + ', together ' + (together > 0 ? '+' : '') + number(together, 3);
  document.getElementById('players-caption').textContent = captionOf(all, withPlain, view);
}

function captionOf(all, withPlain, view) {
  const level = number(100 * common.level) + ' %';
  const texts = [];
  if (view.shape !== 'bars') texts.push('Each bar starts where the one above it ends: from the base value to the prediction');
  if (all.some((one) => one.error > 0)) texts.push('Thin lines are ' + level + ' intervals, of which \u00b1 is half');
  if (all.some((one) => one.unsure)) texts.push('Pale bars may have the other sign');
  if (withPlain) texts.push('Below each bar, in grey: what the same evaluations give without control');
  return texts.length ? texts.join('. ') + '.' : '';
}
