// Which of its states the page is in: badge, title and what is shown. Pure.

import { age, count, decimals, duration_text, number, plural, span } from "./format.js";
import { newest } from "./series.js";
import { STOPPED, died_at, file_of, is_over, session_of, stale_after_ms } from "./store.js";

/** The state of a source in a word. */
export const SOURCE_STATES = { active: "on", yielded: "held", stolen: "taken", unavailable: "off", disabled: "off", unknown: "–" };

/** "empty" without a session, "loading" before the first answer, else "run". */
export function page_of(state) {
  if (state.status === null) return "loading";
  return state.session === null ? "empty" : "run";
}

/** Age of the newest event of the session, by the page's own clock since it was told. */
export function event_age_ms(state, now) {
  if (state.last_event_age_ms === null || state.heard_at === null) return null;
  return state.last_event_age_ms + Math.max(0, now - state.heard_at);
}

function connection_badge({ state, retry_at, reason }, now) {
  if (state === "waiting") {
    const left = Math.max(0, Math.ceil((retry_at - now) / 1e3));
    return { kind: "stale", title: left > 0 ? "Reconnecting" : "Reconnecting …", detail: left > 0 ? `in ${left} s` : "", hint: reason ?? "", action: "now", faded: true };
  }
  if (state === "polling") return { kind: "stale", title: "Polling", detail: "every 5 s", hint: reason ?? "The server has as many viewers as it serves live.", action: "pause" };
  return null;
}

/** How a session or an earlier run ended, in a word or few: "Finished", "Failed with exit code 1", "Interrupted", "Crashed". */
export function outcome_of({ state, end }) {
  if (state === "ended") return STOPPED[end?.signal] ?? (end?.exit_code > 0 ? `Failed with exit code ${end.exit_code}` : "Finished");
  if (state === "crashed") return STOPPED[end?.signal] ?? "Crashed"; // of an older server's run
  return state === "lost" ? "Unreadable" : "Running";
}

function ended_badge(session) {
  const steps = count(session.steps), some = plural(session.steps, "step"), title = outcome_of(session);
  if (session.from_file) return { kind: "over", title: "Trace file", detail: some, hint: "", action: "none" };
  if (title.startsWith("Failed")) return { kind: "crashed", title, detail: `after ${some}`, hint: "", action: "none" };
  if (STOPPED[session.end?.signal] === title) return { kind: "over", title, detail: `at step ${steps}`, hint: session.reason ?? "", action: "none" };
  if (session.state === "ended") return { kind: "over", title: "Finished", detail: some, hint: "", action: "none" };
  if (session.state === "crashed") return { kind: "crashed", title: "Crashed", detail: `at step ${steps}`, hint: session.reason ?? "", action: "none" };
  return { kind: "crashed", title: "Unreadable", detail: "", hint: session.reason ?? "", action: "none" };
}

/**
 * The badge: kind (colour and sign), title (spoken), detail (not spoken), what a click does.
 * @param {{median_ms: number | null, now: number, clock: (ms: number) => string}} with_
 */
export function badge_of(state, { median_ms, now, clock }) {
  const page = page_of(state);
  const lost = connection_badge(state.connection, now);
  if (page === "loading") return lost ?? { kind: "waiting", title: "Connecting", detail: "", hint: "", action: "none" };
  if (lost && lost.faded) return lost;
  if (page === "empty") return { kind: "waiting", title: "Waiting for a run", detail: "", hint: "", action: "none" };
  const session = session_of(state);
  if (session.state === "lost" && died_at(state) !== null) return { ...ended_badge(session), detail: `since ${clock(died_at(state))}` };
  if (is_over(session)) return ended_badge(session);
  const { paused } = state.view;
  if (paused) {
    const behind = (newest(state.series) ?? 0) - Math.min(paused.to, newest(paused.series) ?? paused.to);
    return { kind: "paused", title: "Paused", detail: behind > 500 ? `${span(behind)} behind` : "", hint: "Click, space or a double-click on the timeline goes back to live.", action: "resume" };
  }
  if (lost) return lost;
  const quiet = event_age_ms(state, now);
  if (session.steps > 0 && quiet !== null && quiet > stale_after_ms(median_ms)) {
    return { kind: "stale", title: "No step", detail: `for ${age(quiet)}`, hint: "", action: "pause", stale: true };
  }
  if (!(session.steps > 0)) return { kind: "live", title: "Live", detail: "before the first step", hint: "", action: "pause" };
  return { kind: "live", title: "Live", detail: quiet === null ? "" : `${(quiet / 1e3).toFixed(1)} s ago`, hint: "Click or space pauses.", action: "pause" };
}

const WARM_STEPS = 10;

/** The headline as parts; `em` is the avoidable share. */
export function verdict_of(state) {
  const session = session_of(state);
  const told = state.bottlenecks;
  const mean = told?.step_ms?.mean;
  const over = session?.state === "ended" && !state.view.selection;
  const steps = Math.max(session?.steps ?? 0, told?.steps ?? 0); // of the run: a window of slow steps holds few
  if (!over && !state.view.selection && steps < WARM_STEPS) {
    return steps === 0 ? ["Waiting for the first step."] : [`Warming up: ${plural(steps, "step")}.`];
  }
  if (typeof mean !== "number") return [state.bottlenecks === null ? " " : over && steps === 0 ? (session.from_file ? "A trace without steps." : `${outcome_of(session)} without a step.`) : "No step in this window."];
  const whole = file_of(state)?.steps_from === "file"; // a trace of inference, for one
  const head = whole ? `All of the trace, ${duration_text(mean)}, counts as one step: nothing in it marks steps.` : over ? `${session.from_file ? "" : `${outcome_of(session)}. `}A step took ${duration_text(mean)}.` : `A step takes ${duration_text(mean)}.`;
  const avoidable = told.avoidable_ms ?? 0;
  const priced = (told.findings ?? []).some((finding) => finding.ms_per_step > 0); // seen a moment ago, it owns nothing of this window
  if (!(avoidable >= 0.01 * mean)) return [over || priced || told.steps < WARM_STEPS ? head : `${head} Nothing stands out.`];
  return [`${head} Up to `, { em: beside(avoidable, mean) }, over ? " of it was avoidable." : " of it is avoidable."];
}

/** What stands in the place of findings where there are none; " ": not known yet. */
export function no_findings(state) {
  const told = state.bottlenecks;
  if (told === null) return " ";
  const session = session_of(state), live = !state.view.selection && session?.state === "running";
  if (live && Math.max(session.steps ?? 0, told.steps ?? 0) < WARM_STEPS) return `After ${WARM_STEPS} steps.`;
  if (told.reason ?? told.verdict) return told.reason ?? told.verdict;
  return told.steps < told.steps_needed ? `Too few steps to tell: ${told.steps} of the ${told.steps_needed} that it takes.`
    : "Nothing stands out: no cause is large and sure enough to be named.";
}

/** A part with the unit and decimals of its whole: 57 of 214 ms, 5.7 of 21.4 ms. */
function beside(part, whole) {
  if (whole >= 999.5 || whole < 0.9995) return duration_text(part);
  return `${number(part, decimals(whole))} ms`;
}
