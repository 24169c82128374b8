/** The first rows of a CSV text, as people see them: `{headers, rows}`. Quotes hold separators, breaks and doubled quotes. */
export function readCsv(text, most = 100) {
  const rows = [];
  let row = [];
  let cell = "";
  let quoted = false;
  const separator = separatorOf(text);
  const body = text.replace(/^\ufeff/, "");
  for (let at = 0; at <= body.length && rows.length <= most; at += 1) {
    const letter = body[at];
    if (quoted && letter !== undefined) {
      if (letter !== '"') cell += letter;
      else if (body[at + 1] === '"') (cell += '"'), (at += 1);
      else quoted = false;
    } else if (letter === '"' && cell === "") quoted = true;
    else if (letter === separator) row = [...row, cell], (cell = "");
    else if (letter === "\n" || letter === undefined) {
      row.push(cell.replace(/\r$/, ""));
      if (row.length > 1 || row[0] !== "") rows.push(row);
      (row = []), (cell = "");
    } else cell += letter;
  }
  const [headers = [], ...others] = rows;
  return { headers, rows: others.slice(0, most) };
}

function separatorOf(text) {
  const first = text.slice(0, text.search(/\n|$/));
  const counts = [",", ";", "\t"].map((each) => [first.split(each).length, each]);
  return counts.reduce((best, each) => (each[0] > best[0] ? each : best))[1];
}
