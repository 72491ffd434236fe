// The data: blocks of JSON, those of an output read when it is first chosen.
const common = JSON.parse(document.getElementById('common').textContent);
const players = common.players;
const blocks = new Map();

function block(output) {
  if (!blocks.has(output)) blocks.set(output, JSON.parse(document.getElementById('output-' + output).textContent));
  return blocks.get(output);
}

function decoded(column, row) {
  return column.levels[column.codes[row]];
}

// The name of a row in the user's data, or its number.
function rowName(row) {
  return common.names === null ? grouped(row, 0) : common.names[row];
}

// What a player shows in a row, as text; all digits there are, or four.
function shown(player, row, whole = false) {
  const column = common.data[player];
  if (column.numbers) {
    const value = column.numbers[row];
    if (value === null) return 'missing';
    return (whole || Number.isInteger(value) ? String(value) : String(Number(value.toPrecision(4)))).replaceAll('-', MINUS);
  }
  return column.codes[row] === null ? 'missing' : decoded(column, row);
}

// Everything about one player of a row.
function entry(output, row, player) {
  const found = block(output);
  const value = found.values[row][player];
  const error = found.errors ? found.errors[row][player] : 0;
  const critical = found.critical[row];
  const times = Array.isArray(critical) ? critical[player] : critical;
  const plainError = found.plainErrors ? found.plainErrors[row][player] : error;
  const reach = times * error;
  return {
    player,
    name: players[player],
    value,
    error,
    reach,
    low: value - reach,
    high: value + reach,
    // an error of 0 says nothing until every background row was used
    unsure: error > 0 ? Math.abs(value) <= reach : value !== 0 && !common.complete[row],
    controlled: Boolean(found.plainValues) && decoded(common.controls, row) !== '',
    plainValue: found.plainValues ? found.plainValues[row][player] : value,
    plainError,
    plainReach: times * plainError,
    reduction: found.reductions ? found.reductions[row][player] : 0,
  };
}

function entries(output, row) {
  return players.map((_, player) => entry(output, row, player));
}

function largestError(output, row) {
  const errors = block(output).errors;
  return errors ? Math.max(...errors[row]) : 0;
}

// What is searched for a row: its number, how it ended, and every value with its name. Made once, when first needed.
let texts = null;

function searchTexts() {
  if (texts === null) {
    texts = Array.from({ length: common.rows }, (_, row) => {
      const parts = [String(row), rowName(row), decoded(common.status, row), decoded(common.method, row)];
      for (let player = 0; player < players.length; player++) {
        parts.push(players[player] + '=' + shown(player, row, true).replaceAll(MINUS, '-'));
      }
      return parts.join('\n').toLowerCase();
    });
  }
  return texts;
}

// An element with text; data never becomes markup.
function element(name, className, text) {
  const made = document.createElement(name);
  if (className) made.className = className;
  if (text !== undefined) made.textContent = text;
  return made;
}

const SVG = 'http://www.w3.org/2000/svg';

function drawn(name, attributes, text) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  return made;
}
