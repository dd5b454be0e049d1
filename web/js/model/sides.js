// What can be compared: sessions, and stretches of one. A side is {session, stretch}. Pure.

import { count, known, number, percent } from "./format.js";
import { is_over, session_of, shown_series } from "./store.js";

const MOST_EPOCHS = 50;

/** What of a session can be a side, as [window, name]; more is known of the chosen one. */
export function stretches(now, id) {
  const session = now.status?.sessions?.find((one) => one.id === id), out = [["run", "Whole run"]];
  if (session && !is_over(session)) out.push(["60s", "Last 60 s"], ["10min", "Last 10 min"]);
  if (id !== now.session) return out;
  const { selection } = now.view, last = shown_series(now).steps.at(-1)?.epoch;
  if (selection) out.push([`${selection.first}-${selection.last}`, selection.first === selection.last ? `Step ${count(selection.first)}` : `Steps ${count(selection.first)} to ${count(selection.last)}`]);
  for (let epoch = last; epoch > Math.max(0, last - MOST_EPOCHS); epoch--) out.push([`epoch:${epoch}`, `Epoch ${count(epoch)}`]);
  return out;
}

/** The run before the chosen one, of the same name if there is one; null without. */
export function run_before(now) {
  const mine = session_of(now);
  const others = (now.status?.sessions ?? []).filter((one) => one.id !== now.session);
  const order = (one) => [one.name === mine?.name ? 1 : 0, (one.start_unix_ms ?? 0) <= (mine?.start_unix_ms ?? Infinity) ? 1 : 0, one.start_unix_ms ?? 0];
  return others.sort((a, b) => order(b).map((value, i) => value - order(a)[i]).find((diff) => diff !== 0) ?? 0)[0] ?? null;
}

/** The two sides to begin with: the selection with its run, the run with the one before, the last two epochs. */
export function first_sides(now) {
  const { session } = now, { selection } = now.view, of = (stretch, id = session) => ({ session: id, stretch });
  if (selection) return [of("run"), of(`${selection.first}-${selection.last}`)];
  const before = run_before(now), last = shown_series(now).steps.at(-1)?.epoch;
  if (before) return [of("run", before.id), of("run")];
  return last > 1 ? [of(`epoch:${last - 1}`), of(`epoch:${last}`)] : [of("run"), of(is_over(session_of(now)) ? "run" : "60s")];
}

/** What a comparison comes to, in a sentence. A side of one step has no spread to hold a difference against. */
export function verdict_of(answer) {
  const step = answer.others?.[0]?.step_ms;
  if (!known(step?.diff_ms)) return "There are no steps on both sides to compare.";
  const certain = Array.isArray(step.ci95_ms), share = known(step.diff_pct) ? ` (${percent(Math.abs(step.diff_pct))})` : "";
  const more = `A step takes ${number(Math.abs(step.diff_ms))} ms ${step.diff_ms > 0 ? "more" : "less"}${share}`;
  if (certain && !step.changed) return "A step takes the same, as far as the spread of the steps tells.";
  return certain ? `${more}.` : `${more}; the spread of the steps is not known, so it may be chance.`;
}

const is_told = (row) => row.state !== "same" || row.changed || (row.interval === null && known(row.diff) && row.diff !== 0);

/** Of one of `others` the findings that came, went, or cost more or less than both intervals explain; without intervals every difference. */
export function finding_rows(other) {
  return (other.findings ?? []).map((one) => ({ kind: "finding", name: one.title, advice: one.advice ?? "", base: one.base_ms_per_step, now: one.ms_per_step, diff: one.diff_ms, percent: one.diff_pct, changed: one.changed === true, interval: one.ci95_ms ?? null, state: one.state })).filter(is_told);
}
