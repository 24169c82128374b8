/** A time scale from 0 to 1 in which idle stretches are shortened. */
const GAP_WIDTH = 0.03;
const MOST_GAPS_WIDTH = 0.4;

/** Joins intervals that touch or overlap. */
export function merged(intervals) {
  const sorted = intervals.filter(([from, to]) => to >= from).sort((a, b) => a[0] - b[0]);
  const joined = [];
  for (const [from, to] of sorted) {
    const last = joined.at(-1);
    if (last && from <= last[1]) last[1] = Math.max(last[1], to);
    else joined.push([from, to]);
  }
  return joined;
}

/**
 * A scale over the intervals of activity. Pauses that are much longer than the activity around them become gaps of one
 * small width, unless `compress` is false.
 */
export function scaleOf(intervals, { compress = true } = {}) {
  const active = merged(intervals);
  if (!active.length) return new Scale([{ from: 0, to: 1, left: 0, right: 1, gap: false }]);
  const start = active[0][0];
  const end = active.at(-1)[1];
  if (!compress) return new Scale([piece(start, Math.max(end, start + 1), 0, 1)]);
  const worked = active.reduce((sum, [from, to]) => sum + to - from, 0);
  const longest = Math.max(400, worked * 0.2);
  return new Scale(laidOut(withGaps(active, longest)));
}

function piece(from, to, left, right, gap = false) {
  return { from, to, left, right, gap };
}

/** Returns stretches as `[from, to, isGap]`. Short pauses count as part of the activity around them. */
function withGaps(active, longest) {
  const stretches = [];
  for (const [from, to] of active) {
    const last = stretches.at(-1);
    if (last && from - last[1] > longest) stretches.push([last[1], from, true], [from, to, false]);
    else if (last) last[1] = Math.max(last[1], to);
    else stretches.push([from, to, false]);
  }
  return stretches;
}

function laidOut(stretches) {
  const gaps = stretches.filter(([, , gap]) => gap).length;
  const gapWidth = gaps ? Math.min(GAP_WIDTH, MOST_GAPS_WIDTH / gaps) : 0;
  const worked = stretches.reduce((sum, [from, to, gap]) => sum + (gap ? 0 : to - from), 0);
  const count = stretches.length - gaps;
  // Keeps moments, which have no length, and short stretches visible.
  const least = (0.15 * (1 - gaps * gapWidth)) / count;
  const share = (1 - gaps * gapWidth - least * count) / (worked || 1);
  let left = 0;
  const pieces = stretches.map(([from, to, gap]) => {
    const width = gap ? gapWidth : least + (worked ? (to - from) * share : (1 - gaps * gapWidth - least * count) / count);
    left += width;
    return piece(from, to, left - width, left, gap);
  });
  pieces.at(-1).right = 1;
  return pieces;
}

class Scale {
  constructor(pieces) {
    this.pieces = pieces;
    this.start = pieces[0].from;
    this.end = pieces.at(-1).to;
  }

  get gaps() {
    return this.pieces.filter(({ gap }) => gap);
  }

  /** Returns a moment's position, from 0 to 1. */
  at(moment) {
    if (moment <= this.start) return 0;
    const found = this.pieces[this.#indexOf(moment)];
    const length = found.to - found.from;
    return length ? found.left + ((moment - found.from) / length) * (found.right - found.left) : found.left;
  }

  /** Returns the moment at a position. */
  momentAt(place) {
    const found = this.pieces.find(({ right }) => place <= right) ?? this.pieces.at(-1);
    const width = found.right - found.left;
    return found.from + (width ? (place - found.left) / width : 0) * (found.to - found.from);
  }

  #indexOf(moment) {
    let low = 0;
    let high = this.pieces.length - 1;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.pieces[middle].to < moment) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  /** Returns marks at round intervals, about `count` of them between `left` and `right`. */
  ticks(count, left = 0, right = 1) {
    const shown = this.pieces.filter((each) => !each.gap && each.right > left && each.left < right && each.to > each.from);
    return shown.flatMap((each) => ticksWithin(each, this.start, (right - left) / count, left, right));
  }
}

const STEPS = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 15_000, 30_000, 60_000, 120_000, 300_000,
  600_000, 1_800_000, 3_600_000, 7_200_000, 21_600_000, 43_200_000, 86_400_000];

function ticksWithin(found, origin, distance, left, right) {
  const perPlace = (found.to - found.from) / (found.right - found.left);
  const step = STEPS.find((each) => each >= perPlace * distance) ?? STEPS.at(-1);
  const first = Math.ceil((found.from - origin) / step);
  const last = Math.floor((found.to - origin) / step);
  const ticks = [];
  for (let number = first; number <= last && ticks.length < 100; number += 1) {
    const moment = origin + number * step;
    const place = found.left + (moment - found.from) / perPlace;
    if (place >= left && place <= right) ticks.push({ place, after: number * step });
  }
  return ticks;
}

const FEW = 40;

/**
 * Returns segments `{kind, from, to}` as drawn: `{kind, left, right, length, count}`. `place(moment)` is in percent of
 * the track. Segments of one kind that touch on the screen are merged, and their lengths are added.
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

/** Returns the positions of marks in percent, without overlaps. */
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
