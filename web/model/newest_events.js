/**
 * The newest events of the timeline, oldest first, after which position the next ones come, and whether there are
 * older ones that were to be read, too: `{events, next, isCut, before}`; with that `before` the reading goes on.
 *
 * `page(query)` reads a page of `GET /events/`; it is read backwards until `isEnough(events so far, newest first)` or
 * nothing is left. A page may be empty while there is more: at most `pages` are read. `onPart(events so far, oldest first)`
 * is called while more is read.
 */
export async function newestEvents(page, isEnough, { pages = 25, before, onPart = () => {} } = {}) {
  const found = [];
  let next = 0;
  let isCut = true;
  for (let read = 0; read < pages; read += 1) {
    const { events, has_more: hasMore, next: reached } = await page({ order: "desc", before });
    // Nothing can have come between the newest event and those that are read after it.
    if (read === 0) next = events[0]?.position ?? Math.max(0, reached - 1);
    found.push(...events);
    before = reached;
    isCut = hasMore && !isEnough(found);
    if (!isCut) break;
    onPart(found.toReversed());
  }
  return { events: found.toReversed(), next, isCut, before };
}
