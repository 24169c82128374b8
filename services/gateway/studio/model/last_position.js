/**
 * The last position of the timeline, which is read from its beginning only: found by doubling, then by halving.
 *
 * `probe(after)` is a page of one event. Positions beyond it may belong to others, so the answer lies at most
 * a few behind the last one that one may see.
 */
const EXACT_ENOUGH = 64;

export async function lastPosition(probe) {
  const first = await probe(0);
  if (!isBeyond(first, 0)) return 0;
  let low = Math.max(0, (first.events[0]?.position ?? first.next) - 1);
  let step = 1024;
  while (isBeyond(await probe(low + step), low + step)) {
    low += step;
    step *= 4;
  }
  let high = low + step;
  while (high - low > EXACT_ENOUGH) {
    const middle = Math.floor((low + high) / 2);
    if (isBeyond(await probe(middle), middle)) low = middle;
    else high = middle;
  }
  return high;
}

function isBeyond({ events, has_more: hasMore, next }, after) {
  return events.length > 0 || hasMore || next > after;
}
