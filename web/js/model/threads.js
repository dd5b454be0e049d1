// What a thread is in, as words.

/** "step 12847 › data › DataLoader.__next__", outermost first. */
export function open_path(thread) {
  return (thread.open ?? []).map((range) => range.name).join(" › ");
}

/** The same as a sentence of its own: below a step or phase an op may be missing because none was recorded.
 * @param {boolean} [ops_recorded] undefined: not known */
export function open_text(thread, ops_recorded) {
  const inner = thread.open?.at(-1);
  const unseen = ops_recorded === false ? "ops were not recorded at that moment" : "";
  if (!inner) return unseen || "nothing open";
  if (inner.kind !== "step" && inner.kind !== "phase") return open_path(thread);
  return `${open_path(thread)} (${unseen || "no op open"})`;
}
