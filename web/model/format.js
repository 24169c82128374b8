/** Formats numbers, sizes and times for people. */
const MOMENT = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" });
const CLOCK = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit", hour12: false });
const NUMBER = new Intl.NumberFormat();
const COMPACT = new Intl.NumberFormat(undefined, { notation: "compact", maximumFractionDigits: 2 });

export function momentText(timestamp) {
  return MOMENT.format(new Date(timestamp));
}

const TIMESTAMPS = /\d{4}-\d\d-\d\dT\d\d:\d\d:[\d.]+Z/g;

/** Makes the timestamps in a message readable. */
export function plainText(sentence) {
  return sentence.replace(TIMESTAMPS, momentText);
}

/** Formats the time of day with milliseconds. */
export function clockText(milliseconds) {
  const date = new Date(milliseconds);
  return `${CLOCK.format(date)}.${String(date.getMilliseconds()).padStart(3, "0")}`;
}

export function numberText(value) {
  return NUMBER.format(value);
}

/** Formats a short number, such as `12.35M`. */
export function shortText(value) {
  return value < 100_000 ? numberText(value) : COMPACT.format(value);
}

/** Formats a duration in its two largest units. */
export function durationText(milliseconds) {
  const ms = Math.max(0, milliseconds);
  if (ms === 0) return "0 s";
  if (ms < 1) return `${Math.round(ms * 1000)} µs`;
  if (ms < 100) return `${trimmed(ms, 1)} ms`;
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 60_000) return `${trimmed(ms / 1000, ms < 10_000 ? 2 : 1)} s`;
  if (ms < 3_600_000) return pair(ms / 1000, 60, "min", "s");
  if (ms < 86_400_000) return pair(ms / 60_000, 60, "h", "min");
  return pair(ms / 3_600_000, 24, "d", "h");
}

function trimmed(value, digits) {
  return String(Number(value.toFixed(digits)));
}

function pair(value, base, large, small) {
  const whole = Math.round(value);
  const rest = whole % base;
  return rest ? `${Math.floor(whole / base)} ${large} ${rest} ${small}` : `${Math.floor(whole / base)} ${large}`;
}

/** Formats a count with its noun: `1 file`, `2 files`. */
export function countText(count, one, many = `${one}s`) {
  return `${numberText(count)} ${count === 1 ? one : many}`;
}

export function sizeText(bytes) {
  if (bytes < 1000) return `${bytes} B`;
  const units = ["kB", "MB", "GB", "TB"];
  let value = bytes;
  let unit = -1;
  while (value >= 1000 && unit < units.length - 1) {
    value /= 1000;
    unit += 1;
  }
  return `${trimmed(value, value < 10 ? 1 : 0)} ${units[unit]}`;
}

/** Describes how long ago something happened. */
export function agoText(timestamp, now = Date.now()) {
  const seconds = Math.round((now - new Date(timestamp).getTime()) / 1000);
  if (seconds < 5) return "now";
  if (seconds < 60) return `${seconds} s ago`;
  if (seconds < 3600) return `${Math.round(seconds / 60)} min ago`;
  if (seconds < 86_400) return `${Math.round(seconds / 3600)} h ago`;
  return momentText(timestamp);
}

const DAY_MS = 86_400_000;

/** Returns the last `count` days, oldest first, up to that of `now`. */
export function lastDays(count, now = Date.now()) {
  return Array.from({ length: count }, (_, at) => new Date(now - (count - 1 - at) * DAY_MS).toISOString().slice(0, 10));
}

/** Returns a list of values by day for each field. Days without a value have 0. */
export function byDay(days, items, fields) {
  const known = new Map(items.map((item) => [item.day, item]));
  return Object.fromEntries(fields.map((field) => [field, days.map((day) => Number(known.get(day)?.[field] ?? 0))]));
}

/** Returns milliseconds since 1970, with the microseconds of the API's timestamps as a fraction. */
export function timeOf(timestamp) {
  const fraction = timestamp.indexOf(".");
  if (fraction < 0) return Date.parse(timestamp);
  return Date.parse(`${timestamp.slice(0, fraction)}Z`) + Number(`0${timestamp.slice(fraction, -1)}`) * 1000;
}

/**
 * Returns an id's creation time, or null. Ids are UUIDs of version 7, which start with the time. A turn's id is that of
 * its command, so its time is when the gateway accepted the message.
 */
export function timeOfId(id) {
  if (!/^[0-9a-f]{8}-[0-9a-f]{4}-7/.test(id ?? "")) return null;
  return parseInt(id.slice(0, 8) + id.slice(9, 13), 16);
}
