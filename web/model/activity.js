/** The last hour's turns by minute, computed from their events. */
import { timeOf, timeOfId } from "./format.js";

export const HOUR_MS = 3_600_000;
const MINUTE_MS = 60_000;
const ENDS = { "turn.completed": "completed", "turn.failed": "failed", "turn.cancelled": "cancelled" };

/** The event types from which the activity is computed. */
export const ACTIVITY_TYPES = ["turn.queued", "turn.started", "turn.restarted", "turn.action_required", "turn.action_resolved", ...Object.keys(ENDS)].join(",");

export class Activity {
  turns = new Map();

  /** Adds an event. Events may arrive in any order. */
  take({ type, time, turn_id: id, session_id: sessionId, data }) {
    const at = timeOf(time);
    let turn = this.turns.get(id);
    if (!turn) {
      turn = { id, sessionId, status: "running", at, begun: timeOfId(id) ?? at, ended: null, hasWaited: false, tokens: 0, error: null };
      this.turns.set(id, turn);
    }
    if (type === "turn.action_required") turn.hasWaited = true;
    turn.begun = Math.min(turn.begun, at);
    if (turn.ended !== null || at < turn.at) return;
    turn.at = at;
    if (type in ENDS) {
      turn.ended = at;
      turn.status = ENDS[type];
      turn.tokens = (data.usage?.input_tokens ?? 0) + (data.usage?.output_tokens ?? 0);
      turn.error = data.error?.message ?? null;
    } else {
      turn.status = { "turn.queued": "queued", "turn.action_required": "waiting" }[type] ?? "running";
    }
  }

  /** Removes turns that ended before the last hour. */
  forget(now) {
    for (const [id, { ended }] of this.turns) if (ended !== null && ended < now - HOUR_MS - MINUTE_MS) this.turns.delete(id);
  }

  /** Returns the turns with these statuses, newest first. */
  of(...states) {
    return [...this.turns.values()].filter(({ status }) => states.includes(status)).sort((a, b) => b.at - a.at);
  }

  /**
   * Returns the last hour by minute: `{minutes, turns, failed, median, slow, tokens}`, all lists.
   * Response times are in seconds, or null for minutes without any. They exclude turns that waited for a person. `from`
   * is the time from which the data is complete.
   */
  series(now, from = 0) {
    const last = Math.floor(now / MINUTE_MS);
    const minutes = Array.from({ length: 60 }, (_, at) => last - 59 + at);
    const rows = minutes.map((minute) => ({ isKnown: (minute + 1) * MINUTE_MS > from, turns: 0, failed: 0, tokens: 0, times: [] }));
    for (const { ended, status, begun, hasWaited, tokens } of this.turns.values()) {
      const row = ended === null ? null : rows[Math.floor(ended / MINUTE_MS) - minutes[0]];
      if (!row) continue;
      row.turns += 1;
      row.tokens += tokens;
      if (status === "failed") row.failed += 1;
      if (status === "completed" && !hasWaited) row.times.push((ended - begun) / 1000);
    }
    const known = (value) => rows.map((row) => (row.isKnown ? value(row) : null));
    return {
      minutes: minutes.map((minute) => minute * 60),
      turns: known(({ turns }) => turns),
      failed: known(({ failed }) => failed),
      tokens: known(({ tokens }) => tokens),
      median: known(({ times }) => quantile(times, 0.5)),
      slow: known(({ times }) => quantile(times, 0.95)),
    };
  }
}

export function quantile(values, part) {
  if (!values.length) return null;
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))];
}
