// The certified order of a row: groups that are separated from each other.
function groupsOf(output, row) {
  const order = block(output).order[row];
  const cuts = block(output).cuts[row];
  const groups = [[]];
  order.forEach((player, place) => {
    groups[groups.length - 1].push(player);
    if (cuts[place] === '1') groups.push([]);
  });
  return groups;
}

function chance(share) {
  return '\u21c4\u00a0' + (share < 0.01 ? '<1' : String(Math.round(100 * share))) + '\u00a0%';
}

function drawRanking(output, row) {
  const list = document.getElementById('row-ranking');
  if (!list) return;
  const groups = groupsOf(output, row);
  const text = document.getElementById('row-ranking-text');
  const level = number(100 * common.level) + ' %';
  if (decoded(common.status, row) === 'exact') {
    text.textContent =
      'The order by magnitude is exact for this background' +
      (groups.length < players.length ? '; players of equal magnitude stand together.' : '.');
  } else if (groups.length === 1) {
    text.textContent = 'Nothing about the order is certified at ' + level + ': the players are too close, or tied.';
  } else if (groups.length === players.length) {
    text.textContent = 'The whole order by magnitude is certified at ' + level + '.';
  } else {
    text.textContent =
      'By magnitude, each group is certified to stand above the next at ' + level + '; within a group the order is open.';
  }
  const swaps = block(output).swaps[row];
  document.getElementById('swap-caption').hidden = groups.every((group) => group.length === 1);
  let before = 0;
  const most = state.view.all ? players.length : MOST_PLAYERS;
  list.replaceChildren(
    ...groups.filter((_, place) => groups.slice(0, place).flat().length < most).map((group) => {
      const item = element('li', group.length === 1 ? '' : 'open');
      const places = group.length === 1 ? String(before + 1) : before + 1 + '\u2013' + (before + group.length);
      item.append(element('span', 'place', places));
      const names = element('span', 'names');
      const drawnNow = group.slice(0, Math.max(0, most - before));
      drawnNow.forEach((player, place) => {
        names.append(element('span', 'chip', players[player]));
        if (place < drawnNow.length - 1) names.append(element('span', 'swap', chance(swaps[before + place])));
      });
      if (drawnNow.length < group.length) names.append(element('span', 'swap', 'and ' + (group.length - drawnNow.length) + ' more'));
      item.append(names);
      before += group.length;
      return item;
    }),
  );
}
