/** Days (UTC) as the usage API names them. */
const DAY_MS = 86_400_000;

/** The last `count` days, the oldest first; the last one is that of `now`. */
export function lastDays(count, now = Date.now()) {
  return Array.from({ length: count }, (_, at) => new Date(now - (count - 1 - at) * DAY_MS).toISOString().slice(0, 10));
}

/** A list for each name of `fields`: the values of the days in their order, 0 for a day without any. */
export function byDay(days, items, fields) {
  const known = new Map(items.map((item) => [item.day, item]));
  return Object.fromEntries(fields.map((field) => [field, days.map((day) => Number(known.get(day)?.[field] ?? 0))]));
}
