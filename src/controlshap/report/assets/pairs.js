// The largest interactions of a row.
function drawPairs(output, row) {
  const table = document.querySelector('#pairs tbody');
  if (!table) return;
  const pairs = block(output).pairs[row];
  const low = Math.min(0, ...pairs.map(([, , value, reach]) => value - reach));
  const high = Math.max(0, ...pairs.map(([, , value, reach]) => value + reach));
  const place = (value) => (high > low ? Math.round((1e4 * (value - low)) / (high - low)) / 100 : 0);
  table.replaceChildren(
    ...pairs.map(([first, second, value, reach]) => {
      const svg = drawn('svg', { 'aria-hidden': 'true', width: '100%', height: 20 });
      const line = (className, from, to, top, bottom) =>
        svg.append(drawn('line', { class: className, x1: place(from) + '%', x2: place(to) + '%', y1: top, y2: bottom }));
      line('grid zero', 0, 0, -40, 60);
      const kind = (value < 0 ? 'negative' : 'positive') + (reach > 0 && Math.abs(value) <= reach ? ' unsure' : '');
      const left = place(Math.min(0, value));
      svg.append(drawn('rect', { class: kind, x: left + '%', y: 4, width: place(Math.max(0, value)) - left + '%', height: 12 }));
      if (reach > 0) line('whisker', value - reach, value + reach, 10, 10);
      const head = element('th');
      head.scope = 'row';
      head.append(element('span', 'name', players[first] + ' \u00d7 ' + players[second]));
      const plot = element('td', 'plot');
      plot.append(svg);
      const all = element('tr');
      all.append(head, plot, element('td', 'number', signed(value, reach)));
      return all;
    }),
  );
}
