/** When a key ends: after a number of days, or at the end of a chosen one. */
export const LIFETIMES = [["7", "in 7 days"], ["30", "in 30 days"], ["90", "in 90 days"], ["365", "in a year"], ["date", "on a day of my choice"]];

/** The moment in the API's words; undefined for none. `day` is such as `2030-01-31`, in this browser's time zone. */
export function expiryOf(lifetime, day, now = Date.now()) {
  if (lifetime === "date") return day ? new Date(`${day}T23:59:59`).toISOString() : undefined;
  return lifetime ? new Date(now + Number(lifetime) * 86_400_000).toISOString() : undefined;
}

/** What became of a key: `valid`, `being replaced`, `expired` or `revoked`. */
export function keyState({ revoked_at: revoked, expires_at: expires, successor_id: successor }, now = Date.now()) {
  if (revoked) return "revoked";
  if (expires && Date.parse(expires) <= now) return "expired";
  return successor ? "being replaced" : "active";
}
