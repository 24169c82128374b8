/** Moments in milliseconds since 1970, with the microseconds of the API's timestamps as a fraction. */
export function timeOf(timestamp) {
  const fraction = timestamp.indexOf(".");
  if (fraction < 0) return Date.parse(timestamp);
  return Date.parse(`${timestamp.slice(0, fraction)}Z`) + Number(`0${timestamp.slice(fraction, -1)}`) * 1000;
}

/**
 * The moment at which an id was made, or null: ids are UUIDs of version 7, which begin with it. A turn's id is that of
 * its command, so it tells when the gateway took the message in.
 */
export function timeOfId(id) {
  if (!/^[0-9a-f]{8}-[0-9a-f]{4}-7/.test(id ?? "")) return null;
  return parseInt(id.slice(0, 8) + id.slice(9, 13), 16);
}
