/** What of a row's bars and marks can be told apart on a track of so many pixels: thousands of them become few. */
const FEW = 40;

/**
 * `segments` are `{kind, from, to}`; `place(moment)` is in percent of the track. Returns `{kind, left, right, length, count}`:
 * those of one kind that touch on the screen are one, as long as all of them together.
 */
export function drawnSegments(segments, place, width) {
  const inSight = [];
  for (const { kind, from, to } of segments) {
    const [left, right] = [place(from), place(to)];
    if (right >= 0 && left <= 100) inSight.push({ kind, left, right, length: to - from, count: 1 });
  }
  if (inSight.length <= FEW) return inSight;
  const pixel = 100 / width;
  const last = new Map();
  const drawn = [];
  for (const each of inSight.sort((a, b) => a.left - b.left)) {
    const before = last.get(each.kind);
    if (before && each.left <= before.right + pixel) {
      before.right = Math.max(before.right, each.right);
      before.length += each.length;
      before.count += 1;
    } else {
      last.set(each.kind, each);
      drawn.push(each);
    }
  }
  return drawn;
}

/** Places of marks, in percent, that are not on top of each other. */
export function drawnMarks(moments, place, width) {
  const inSight = moments.map(place).filter((at) => at >= 0 && at <= 100);
  if (inSight.length <= FEW) return inSight;
  const least = (100 / width) * 3;
  const drawn = [];
  for (const at of inSight.sort((a, b) => a - b)) {
    if (!drawn.length || at - drawn.at(-1) >= least) drawn.push(at);
  }
  return drawn;
}
