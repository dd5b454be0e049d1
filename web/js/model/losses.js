// What a session's numbers are without, in sentences: one for each kind of loss.

import { count, plural } from "./format.js";
import { lost_events } from "./store.js";

function lost_text(session) {
  const lost = session.lost_events;
  if (lost !== null && typeof lost === "object") return Object.entries(lost).filter(([, n]) => n > 0).map(([source, n]) => `${source}: ${count(n)}`).join(", ");
  return count(lost_events(session));
}

/** What is missing from the tables of a file, and why. */
function file_text(file) {
  const said = [];
  const why = (file?.reasons ?? []).map((row) => `${row.reason} (${count(row.count)})`).join("; ");
  if (file?.skipped > 0) said.push(`${plural(file.skipped, "event")} of the file could not be read, and ${file.skipped === 1 ? "is" : "are"} missing from all that is shown${why ? `: ${why}` : ""}.`);
  for (const row of file?.incomplete ?? []) said.push(`${count(row.count)} ${row.reason}.`);
  return said.join(" ");
}

/** "" where nothing is missing. */
export function loss_text(session, file) {
  const said = file_text(file);
  if (said !== "") return said;
  const parts = [], threads = session?.threads_refused ?? 0, names = session?.names_refused ?? 0, late = session?.late_events ?? 0;
  if (lost_events(session) > 0) parts.push(`Events lost: ${lost_text(session)}. What is counted lost is missing from ops and traces.`);
  if (threads > 0) parts.push(`${plural(threads, "thread")} found no room in shared memory: nothing of ${threads === 1 ? "it" : "them"} is recorded.`);
  if (names > 0) parts.push(`${plural(names, "event")} found no room for a name of ${names === 1 ? "its" : "their"} own, and ${names === 1 ? "stands" : "stand"} under none.`);
  if (late > 0) parts.push(`${plural(late, "event")} came after ${late === 1 ? "its step was" : "their steps were"} closed, and ${late === 1 ? "counts" : "count"} in a later one or in none.`);
  return parts.join(" ");
}
