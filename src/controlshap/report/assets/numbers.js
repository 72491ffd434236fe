// Numbers in words: no more digits than their errors justify (as `results/wording.py` does).
const MINUS = '\u2212';
// A line may break before the sign, not after it.
const PLUS_MINUS = ' \u00b1\u00a0';

function grouped(value, places) {
  const text = Math.abs(value).toFixed(Math.max(places, 0));
  const [whole, rest] = text.split('.');
  const commas = whole.replace(/\B(?=(\d{3})+$)/g, ',');
  const sign = value < 0 && Number(text) !== 0 ? MINUS : '';
  return sign + commas + (rest === undefined ? '' : '.' + rest);
}

function power(value, digits) {
  return value.toExponential(Math.min(digits, 20)).replace('e+', 'e').replaceAll('-', MINUS);
}

function number(value, digits = 5) {
  if (value === null) return 'not known';
  if (value === 0) return '0';
  const exponent = Math.floor(Math.log10(Math.abs(value)));
  if (exponent < -5 || exponent > 8) return power(value, digits - 1);
  const places = digits - 1 - exponent;
  const rounded = Number(value.toPrecision(digits));
  const text = grouped(rounded, places);
  return text.includes('.') ? text.replace(/\.?0+$/, '') : text;
}

// Decimal places to which the error has two digits.
function placesOf(error) {
  return 1 - Math.floor(Math.log10(error));
}

function toPlaces(value, places) {
  if (places <= 7) {
    const unit = 10 ** -Math.min(places, 0);
    return grouped(places < 0 ? Math.round(value / unit) * unit : value, places);
  }
  const size = value === 0 ? 0 : Math.floor(Math.log10(Math.abs(value)));
  return power(value, Math.max(0, places + size));
}

function withError(value, error) {
  if (!(error > 0)) return number(value);
  const places = placesOf(error);
  return toPlaces(value, places) + PLUS_MINUS + toPlaces(error, places);
}

function signed(value, error) {
  const text = withError(value, error);
  return value > 0 && /^[0.,]*[1-9]/.test(text) ? '+' + text : text;
}

// Decimal places of a column of exact values: four digits of the largest.
function placesOfExact(values) {
  const largest = Math.max(...values.map(Math.abs));
  return largest > 0 ? 3 - Math.floor(Math.log10(largest)) : 3;
}

function signedExact(value, places) {
  const text = value === 0 ? '0' : places > 7 || places < 0 ? number(value, 4) : toPlaces(value, places);
  const shown = Number(text.replaceAll(',', '').replace(MINUS, '-')) === 0 && value !== 0 ? number(value, 2) : text;
  return value > 0 ? '+' + shown : shown;
}

function count(n, noun) {
  return grouped(n, 0) + ' ' + noun + (n === 1 ? '' : 's');
}
