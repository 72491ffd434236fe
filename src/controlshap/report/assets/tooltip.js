// Numbers of a player, on hover and on keyboard focus; Escape hides them.
const tooltip = document.getElementById('tooltip');

function fillTooltip(one, row) {
  const lines = [['in the data', shown(one.player, row)], ['value', number(one.value, 6)]];
  if (one.error > 0) {
    const places = placesOf(one.error);
    lines.push(['standard error', number(one.error, 3)]);
    lines.push([number(100 * common.level) + ' % interval', toPlaces(one.low, places) + ' to ' + toPlaces(one.high, places)]);
  } else {
    lines.push(['standard error', decoded(common.status, row) === 'exact' ? '0 (exact)' : '0']);
  }
  if (one.controlled) {
    lines.push(['without control', withError(one.plainValue, one.plainReach)]);
    lines.push(['variance reduction', number(100 * one.reduction, 3) + ' %']);
  }
  const list = element('dl');
  for (const [name, value] of lines) list.append(element('dt', '', name), element('dd', '', value));
  tooltip.replaceChildren(element('strong', '', one.name), list);
}

function placeTooltip(target) {
  const box = target.getBoundingClientRect();
  const own = tooltip.getBoundingClientRect();
  const width = document.documentElement.clientWidth;
  const height = window.innerHeight;
  const below = box.bottom + 6 + own.height <= height || box.top < own.height + 6;
  const plot = target.querySelector('.plot').getBoundingClientRect();
  const left = Math.min(Math.max(8, plot.left), width - own.width - 8);
  tooltip.style.left = left + 'px';
  tooltip.style.top = (below ? Math.min(box.bottom + 6, height - own.height - 8) : box.top - own.height - 6) + 'px';
}

let tooltipOf = null;

function showTooltip(target, one, row) {
  tooltipOf = target;
  fillTooltip(one, row);
  tooltip.hidden = false;
  placeTooltip(target);
}

function hideTooltip() {
  tooltip.hidden = true;
}

document.addEventListener('keydown', (event) => {
  if (event.key === 'Escape') hideTooltip();
});
// A focus may scroll the page: the tooltip goes along, and goes when its player does.
function followTarget() {
  if (tooltip.hidden) return;
  const box = tooltipOf.getBoundingClientRect();
  if (!tooltipOf.isConnected || box.bottom < 0 || box.top > window.innerHeight) hideTooltip();
  else placeTooltip(tooltipOf);
}
window.addEventListener('scroll', followTarget, { passive: true });
window.addEventListener('resize', followTarget);
