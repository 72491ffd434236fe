// What is chosen, and what follows from it.
const state = { row: 0, output: 0, view: { sort: 'magnitude', filter: '', shape: 'waterfall', plain: true, all: false } };
const get = (id) => document.getElementById(id);
const on = (id, event, action) => {
  const found = get(id);
  if (found) found.addEventListener(event, action);
};

function drawRow() {
  const { row, output } = state;
  const found = block(output);
  const status = decoded(common.status, row);
  get('row-title').textContent = 'Row ' + rowName(row);
  get('row-status').textContent = status;
  get('row-status').dataset.status = status;
  const base = withError(found.bases[row], found.baseReaches[row]);
  const moved = found.predictions[row] - found.bases[row];
  const sum = (moved < 0 ? ' ' + MINUS + ' ' : ' + ') + number(Math.abs(moved));
  const name = common.outputs[output];
  get('row-sum').replaceChildren(
    name.charAt(0).toUpperCase() + name.slice(1) + ': ',
    element('strong', '', number(found.predictions[row])),
    ' = base value ' + base + sum + ' from the players.',
  );
  const facts = [count(common.evaluations[row], 'model evaluation'), decoded(common.method, row)];
  const controls = decoded(common.controls, row);
  if (controls) facts.push('coefficients: ' + controls);
  if (controls && status !== 'exact') {
    const gain = common.gain[row];
    if (gain === null) facts.push('the control left no error');
    else if (Math.abs(gain - 1) < 0.005) facts.push('the control changed nothing');
    else if (gain < 1) facts.push(number(1 / gain, 3) + ' times more variance by the control');
    else facts.push(number(gain, 3) + ' times less variance by the control');
  }
  if (status === 'exact') facts.push('no sampling error');
  else if (!common.complete[row] && (!found.errors || found.errors[row].includes(0))) {
    facts.push('not every background row was used: an error of 0 proves nothing');
  }
  get('row-facts').textContent = facts.filter(Boolean).join(' \u00b7 ');
  drawPlayers(output, row, state.view);
  drawRanking(output, row);
  drawPairs(output, row);
  markRow(row);
}

// The address follows a moment later: a key held down would change it more often than browsers allow.
let linkTimer = 0;

function noteLink() {
  clearTimeout(linkTimer);
  linkTimer = setTimeout(() => {
    const output = state.output ? '&output=' + state.output : '';
    history.replaceState(null, '', '#row=' + state.row + output);
  }, 120);
}

function chooseRow(row, from) {
  if (!Number.isInteger(row) || row < 0 || row >= common.rows) return;
  state.row = row;
  drawRow();
  revealInList(row);
  drawList(state.output, row);
  if (get('row-number') && from !== 'number') get('row-number').value = row;
  get('previous')?.toggleAttribute('disabled', wantedRows.length === 0 || wantedRows[0] === row);
  get('next')?.toggleAttribute('disabled', wantedRows.length === 0 || wantedRows[wantedRows.length - 1] === row);
  if (from === 'start') return;
  const prediction = number(block(state.output).predictions[row]);
  get('live').textContent = 'Row ' + rowName(row) + ': prediction ' + prediction + ', ' + decoded(common.status, row);
  if (from !== 'link') noteLink();
}

function listRows() {
  if (!list) return;
  wantedRows = sortedRows(filteredRows(get('row-filter').value), get('row-sort').value, state.output);
  get('row-count').textContent =
    wantedRows.length === common.rows ? count(common.rows, 'row') : count(wantedRows.length, 'row') + ' of ' + grouped(common.rows, 0);
  list.scrollTop = 0;
  // a filter that leaves the chosen row out goes to the first one it finds
  if (wantedRows.length && !wantedRows.includes(state.row)) chooseRow(wantedRows[0], 'filter');
  else chooseRow(state.row, 'start');
}

function chooseOutput(output) {
  state.output = output;
  for (const part of document.querySelectorAll('.of-output')) part.hidden = Number(part.dataset.output) !== output;
  if (get('output')) get('output').value = output;
  drawSwarm(output);
  fillFeatures(output);
  drawFeature(output);
}

// From a dot to its row.
function openRow(row) {
  if (!wantedRows.includes(row)) {
    get('row-filter').value = '';
    listRows();
  }
  chooseRow(row);
  get('rows').scrollIntoView();
}

// #row=17 and #row=17&output=1
function followLink() {
  const found = /^#row=(\d+)(?:&output=(\d+))?$/.exec(location.hash);
  if (!found) return false;
  clearTimeout(linkTimer);
  const output = Number(found[2] ?? 0);
  if (output < common.outputs.length && output !== state.output) {
    chooseOutput(output);
    listRows();
  }
  if (Number(found[1]) >= common.rows) return false;
  if (list && !wantedRows.includes(Number(found[1]))) {
    get('row-filter').value = '';
    listRows();
  }
  chooseRow(Number(found[1]), 'link');
  get('rows').scrollIntoView();
  return true;
}

on('previous', 'click', () => chooseRow(neighbour(state.row, -1)));
on('next', 'click', () => chooseRow(neighbour(state.row, 1)));
on('row-number', 'input', (event) => {
  const valid = event.target.value !== '' && event.target.checkValidity();
  event.target.setAttribute('aria-invalid', String(!valid));
  if (valid) chooseRow(Number(event.target.value), 'number');
});
on('row-number', 'change', (event) => {
  event.target.value = state.row;
  event.target.setAttribute('aria-invalid', 'false');
});
on('row-filter', 'input', listRows);
on('row-sort', 'change', listRows);
on('row-list', 'scroll', () => drawList(state.output, state.row));
on('row-list', 'click', (event) => {
  const line = event.target.closest('.line');
  if (line) chooseRow(Number(line.dataset.row));
});
on('row-list', 'keydown', (event) => {
  const page = Math.max(1, Math.floor(list.clientHeight / LINE) - 1);
  const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity };
  if (!(event.key in steps) || wantedRows.length === 0) return;
  event.preventDefault();
  chooseRow(neighbour(state.row, steps[event.key]));
});
// Left and right, from anywhere among the rows where they have no other use.
on('explorer', 'keydown', (event) => {
  const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
  const busy = event.target.closest('input, select') || event.altKey || event.ctrlKey || event.metaKey;
  if (!step || busy || common.rows === 1 || wantedRows.length === 0) return;
  event.preventDefault();
  const inTable = body.contains(event.target);
  chooseRow(neighbour(state.row, step));
  if (inTable && body.rows.length) body.rows[0].focus();
});
on('player-sort', 'change', (event) => {
  state.view.sort = event.target.value;
  drawRow();
});
on('player-shape', 'change', (event) => {
  state.view.shape = event.target.value;
  drawRow();
});
on('player-filter', 'input', (event) => {
  state.view.filter = event.target.value;
  drawRow();
});
on('plain', 'change', (event) => {
  state.view.plain = event.target.checked;
  drawRow();
});
on('feature', 'change', () => drawFeature(state.output));
on('more', 'click', () => {
  state.view.all = true;
  drawRow();
});
on('output', 'change', (event) => {
  chooseOutput(Number(event.target.value));
  listRows();
  chooseRow(state.row);
});
window.addEventListener('hashchange', followLink);
window.addEventListener('resize', () => drawList(state.output, state.row));

document.documentElement.classList.add('scripted');
document.querySelector('label.output')?.removeAttribute('hidden');
get('explorer').hidden = false;
get('features')?.removeAttribute('hidden');
chooseOutput(0);
listRows();
if (!list) chooseRow(0, 'start');
followLink();
