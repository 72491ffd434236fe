// One feature: its values against its data, with intervals.
const FEATURE_HEIGHT = 300;
const MOST_LEVELS = 12;

function fillFeatures(output) {
  const chooser = document.getElementById('feature');
  if (!chooser) return;
  const before = chooser.value;
  chooser.replaceChildren(
    ...block(output).importance.map((player) => {
      const option = element('option', '', players[player]);
      option.value = player;
      return option;
    }),
  );
  if (before !== '') chooser.value = before;
}

// Places of the data on the horizontal axis, 0 to SIZE, and its labels; what is missing stands at the right.
function horizontal(player) {
  const column = common.data[player];
  const apart = [SIZE - 40, 'missing'];
  if (!column.numbers) {
    const counts = new Map();
    for (const code of column.codes) if (code !== null) counts.set(code, (counts.get(code) ?? 0) + 1);
    const kept = [...counts.keys()].sort((a, b) => counts.get(b) - counts.get(a)).slice(0, MOST_LEVELS);
    kept.sort((a, b) => a - b);
    const labels = kept.map((code) => column.levels[code]);
    if (kept.length < counts.size) labels.push('others');
    const missing = column.codes.includes(null);
    if (missing) labels.push('missing');
    const width = SIZE / Math.max(1, labels.length);
    const place = (row) => {
      const code = column.codes[row];
      const at = code === null ? labels.length - 1 : kept.includes(code) ? kept.indexOf(code) : kept.length;
      // a fixed scatter, so that rows of a category do not hide each other
      return width * (at + 0.5 + 0.5 * (((row * 0.618034) % 1) - 0.5));
    };
    return { place, labels: labels.map((label, index) => [width * (index + 0.5), label]) };
  }
  const known = column.numbers.filter((value) => value !== null);
  const missing = known.length < column.numbers.length;
  let low = known.reduce((a, b) => Math.min(a, b), Infinity);
  let high = known.reduce((a, b) => Math.max(a, b), -Infinity);
  if (!known.length) return { place: () => apart[0], labels: [apart] };
  if (low === high) [low, high] = [low - 1, high + 1];
  const room = missing ? SIZE - 140 : SIZE - 40;
  const at = (value) => 20 + (room * (value - low)) / (high - low);
  const labels = ticksOf(low, high).map((tick) => [at(tick), number(tick, 6)]);
  if (missing) labels.push(apart);
  return { place: (row) => (column.numbers[row] === null ? apart[0] : at(column.numbers[row])), labels };
}

function drawFeature(output) {
  const chooser = document.getElementById('feature');
  if (!chooser) return;
  const player = Number(chooser.value);
  const { place, labels } = horizontal(player);
  const all = dotRows.map((row) => ({ row, x: place(row), ...entry(output, row, player) }));
  let [low, high] = [0, 0];
  for (const one of all) [low, high] = [Math.min(low, one.low), Math.max(high, one.high)];
  if (!(high > low)) [low, high] = [-1, 1];
  const down = (value) => 8 + ((FEATURE_HEIGHT - 16) * (high - value)) / (high - low);
  const svg = picture(FEATURE_HEIGHT, FEATURE_HEIGHT);
  const ticks = ticksOf(low, high);
  for (const tick of ticks) draw(svg, tick === 0 ? 'grid zero' : 'grid', 'M0 ' + down(tick).toFixed(1) + 'H' + SIZE);
  draw(svg, all.length > MANY_DOTS ? 'reach faint' : 'reach', all.filter((one) => one.error > 0).map((one) => 'M' + one.x.toFixed(1) + ' ' + down(one.low).toFixed(1) + 'V' + down(one.high).toFixed(1)).join(''));
  const dots = all.map((one) => ({ row: one.row, x: one.x, y: down(one.value), unsure: one.unsure, shade: 'own' }));
  drawDots(svg, dots);
  svg.addEventListener('click', (event) => openRow(nearest(svg, event, dots, FEATURE_HEIGHT).row));
  document.getElementById('feature-plot').replaceChildren(svg);
  document.getElementById('feature-values').replaceChildren(
    ...ticks.map((tick) => drawn('text', { x: '100%', y: down(tick) + 4, class: 'end' }, number(tick, 6))),
  );
  const longest = Math.max(4, Math.floor(90 / Math.max(1, labels.length)));
  document.getElementById('feature-data').replaceChildren(
    ...labels.map(([at, label]) => {
      const short = label.length > longest ? label.slice(0, longest - 1) + '\u2026' : label;
      return drawn('text', { x: at / 10 + '%', y: 12, class: at < 40 ? 'start' : at > 960 ? 'end' : 'middle' }, short);
    }),
  );
  document.getElementById('feature-title').textContent = players[player];
}
