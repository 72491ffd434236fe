// All rows at once: a line of dots for each of the largest players.
const SWARM_PLAYERS = 12;
const SWARM_HEIGHT = 44;
const swarms = [];

// Dots that are close to each other stand beside each other.
function spread(dots) {
  const cells = new Map();
  for (const dot of dots) {
    const cell = Math.floor(dot.x / 7);
    const n = cells.get(cell) ?? 0;
    cells.set(cell, n + 1);
    dot.offset = n % 2 ? (n + 1) / 2 : -n / 2;
  }
  const gap = Math.min(4, (2 * (SWARM_HEIGHT / 2 - 4)) / Math.max(...cells.values(), 1));
  for (const dot of dots) dot.y = SWARM_HEIGHT / 2 + gap * dot.offset;
}

function drawSwarm(output) {
  const table = document.querySelector('#swarm tbody');
  if (!table) return;
  swarms.length = 0;
  table.replaceChildren();
  const shownPlayers = block(output).importance.slice(0, SWARM_PLAYERS);
  const lines = shownPlayers.map((player) => dotRows.map((row) => ({ row, ...entry(output, row, player) })));
  let [low, high] = [0, 0];
  for (const line of lines) {
    for (const one of line) [low, high] = [Math.min(low, one.value), Math.max(high, one.value)];
  }
  if (!(high > low)) [low, high] = [-1, 1];
  const place = (value) => 10 + ((SIZE - 20) * (value - low)) / (high - low);
  const ticks = ticksOf(low, high);
  const axis = document.getElementById('swarm-axis');
  axis.replaceChildren(
    ...ticks.map((tick) => {
      const where = place(tick) / 10;
      return drawn('text', { x: where + '%', y: 12, class: where < 4 ? 'start' : where > 96 ? 'end' : 'middle' }, number(tick, 6));
    }),
  );
  lines.forEach((line, index) => {
    const shades = shadesOf(shownPlayers[index]);
    const dots = line.map((one) => {
      const shade = shades[one.row];
      return { row: one.row, x: place(one.value), unsure: one.unsure, shade: shade === null ? 'none' : Math.min(SHADES - 1, Math.floor(shade * SHADES)) };
    });
    spread(dots);
    const svg = picture(SWARM_HEIGHT, SWARM_HEIGHT);
    for (const tick of ticks) draw(svg, tick === 0 ? 'grid zero' : 'grid', 'M' + place(tick).toFixed(1) + ' 0V' + SWARM_HEIGHT);
    drawDots(svg, dots);
    const mark = drawn('path', { class: 'dot mark', d: '' });
    svg.append(mark);
    svg.addEventListener('click', (event) => openRow(nearest(svg, event, dots, SWARM_HEIGHT).row));
    swarms.push({ mark, dots });
    const head = element('th');
    head.scope = 'row';
    head.append(element('span', 'name', players[shownPlayers[index]]));
    const plot = element('td', 'plot');
    plot.append(svg);
    const all = element('tr');
    all.append(head, plot);
    table.append(all);
  });
  markRow(state.row);
}

// The chosen row in every picture of rows.
function markRow(row) {
  for (const { mark, dots } of swarms) {
    const dot = dots.find((one) => one.row === row);
    mark.setAttribute('d', dot ? dotsOf([[dot.x, dot.y]]) : '');
  }
}
