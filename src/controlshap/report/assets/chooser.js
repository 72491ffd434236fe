// The list of rows: filtered, sorted, and drawn only where it is seen.
const LINE = 36;
const list = document.getElementById('row-list');
let wantedRows = Array.from({ length: common.rows }, (_, row) => row);

function filteredRows(text) {
  const words = text.toLowerCase().replaceAll(MINUS, '-').split(/\s+/).filter(Boolean);
  const all = Array.from({ length: common.rows }, (_, row) => row);
  if (words.length === 0) return all;
  const searched = searchTexts();
  return all.filter((row) => words.every((word) => searched[row].includes(word)));
}

function sortedRows(rows, by, output) {
  const found = block(output);
  const keys = {
    row: (row) => row,
    high: (row) => -found.predictions[row],
    low: (row) => found.predictions[row],
    error: (row) => -largestError(output, row),
    gain: (row) => (common.gain[row] === null ? Infinity : common.gain[row]),
    evaluations: (row) => -common.evaluations[row],
  };
  const key = new Map(rows.map((row) => [row, keys[by](row)]));
  return rows.sort((a, b) => (key.get(a) < key.get(b) ? -1 : key.get(a) > key.get(b) ? 1 : a - b));
}

function drawList(output, chosen) {
  if (!list) return;
  const first = Math.max(0, Math.floor(list.scrollTop / LINE) - 4);
  const last = Math.min(wantedRows.length, Math.ceil((list.scrollTop + list.clientHeight) / LINE) + 4);
  const sizer = list.querySelector('.sizer');
  sizer.style.height = wantedRows.length * LINE + 'px';
  const lines = [];
  for (let place = first; place < last; place++) {
    const row = wantedRows[place];
    const line = element('div', 'line');
    line.id = 'line-' + row;
    line.dataset.row = row;
    line.setAttribute('role', 'option');
    line.setAttribute('aria-selected', String(row === chosen));
    line.setAttribute('aria-setsize', wantedRows.length);
    line.setAttribute('aria-posinset', place + 1);
    line.style.top = place * LINE + 'px';
    // where all rows ended alike, the sign says enough
    const status = element('span', 'status', common.status.levels.length > 1 ? decoded(common.status, row) : '');
    status.dataset.status = decoded(common.status, row);
    line.append(
      element('span', 'which', (common.names === null ? 'Row ' : '') + rowName(row)),
      element('span', 'prediction', number(block(output).predictions[row], 3)),
      status,
    );
    lines.push(line);
  }
  sizer.replaceChildren(...lines);
  const isDrawn = lines.some((line) => Number(line.dataset.row) === chosen);
  if (isDrawn) list.setAttribute('aria-activedescendant', 'line-' + chosen);
  else list.removeAttribute('aria-activedescendant');
}

function revealInList(chosen) {
  if (!list) return;
  const place = wantedRows.indexOf(chosen);
  if (place < 0) return;
  const top = place * LINE;
  if (top < list.scrollTop) list.scrollTop = top;
  else if (top + LINE > list.scrollTop + list.clientHeight) list.scrollTop = top + LINE - list.clientHeight;
}

// The row some places further in the list; the first one where the chosen row is not in it.
function neighbour(chosen, by) {
  const place = wantedRows.indexOf(chosen);
  if (place < 0) return wantedRows[0];
  return wantedRows[Math.min(wantedRows.length - 1, Math.max(0, place + by))];
}
