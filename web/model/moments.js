/** Times of events, to the millisecond. */
import { clockText } from "./format.js";

const DAY = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short" });
const DATE = new Intl.DateTimeFormat(undefined, { dateStyle: "medium" });

/** Time of day with milliseconds; with the day where that is not today. */
export function whenText(milliseconds, now = Date.now()) {
  const [day, today] = [milliseconds, now].map((each) => DATE.format(new Date(each)));
  return day === today ? clockText(milliseconds) : `${DAY.format(new Date(milliseconds))}, ${clockText(milliseconds)}`;
}

/** Date and time with milliseconds. */
export function exactText(milliseconds) {
  return `${DATE.format(new Date(milliseconds))}, ${clockText(milliseconds)}`;
}
