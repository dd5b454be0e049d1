// The critical path as /api/critical_path tells it: its pieces, legend and sentences.

import { called, count, known, number, percent, time_unit } from "./format.js";

const SENTENCE = 0.01, ROW = 0.0005; // of a step: less is not worth one

/** Kinds of pieces: what they are called, their colour, and whose lane they lie on. */
export const KINDS = {
  data: ["Data loading", "data", "host"], op: ["Ops on the CPU", "backward", "host"], launch: ["Launches", "forward", "host"],
  runtime: ["Other calls", "other", "host"], sync: ["Calls that wait", "sync", "host"], collective: ["Collectives", "communication", "host"],
  python: ["Code between ops", "rest", "host"], compute: ["Compute", "compute", "device"], communication: ["Communication", "communication", "device"],
  copy: ["Copies", "copy", "device"], latency: ["Launch latency", "idle", "device"], unknown: ["Unknown waits", "idle", "device"],
};

/** The path's pieces with their place in the step, 0 to 1. */
export function pieces_of(told) {
  const { start_ms: start, duration_ms: length } = told?.step ?? {};
  if (!known(start) || !(length > 0)) return [];
  const columns = told.path.columns;
  return told.path.points.map((point) => {
    const piece = Object.fromEntries(columns.map((name, i) => [name, point[i]]));
    return { ...piece, lane: KINDS[piece.kind]?.[2] ?? "host", from: (piece.start_ms - start) / length, share: piece.duration_ms / length };
  });
}

/** Legend: the kinds that the path has, but for what would read as 0.0 %, in the order of the lanes. */
export function kind_rows(told) {
  return Object.entries(KINDS).filter(([kind]) => told?.kinds?.[kind] >= ROW * told?.step?.duration_ms).map(([kind, [name, token]]) => ({
    name, token, ms: told.kinds[kind], note: `, ${percent((100 * told.kinds[kind]) / told.step.duration_ms, 1)}`,
  }));
}

/** "aten::mm, 12.4 ms, ops on the CPU, MainThread" */
export function piece_text(piece, unit) {
  const name = called(piece) || (piece.kind === "python" ? "nothing that is recorded" : "");
  const many = piece.pieces > 1 ? `, the longest of ${count(piece.pieces)} pieces` : "";
  const title = KINDS[piece.kind]?.[0] ?? piece.kind, kind = title[0].toLowerCase() + title.slice(1);
  return [name, `${number(piece.duration_ms * unit.scale)} ${unit.unit}`, kind, piece.where].filter(Boolean).join(", ") + many;
}

const PHASES = { data: "data loading", forward: "forward", backward: "backward", optimizer: "the optimizer", other: "no phase" };

/** "Device work: 12.4 ms a step launched in forward, 24.8 ms in backward." "" where phases or work are not known. */
export function launched_sentence(told) {
  const rows = Object.entries(PHASES).map(([phase, name]) => [name, told?.launched_ms?.[phase]]).filter(([, ms]) => ms >= ROW * told?.replayed_step_ms);
  if (rows.length === 0) return "";
  const { unit, scale } = time_unit(Math.max(...rows.map(([, ms]) => ms)));
  return `Device work: ${rows.map(([name, ms], i) => `${number(ms * scale)} ${unit}${i === 0 ? " a step launched" : ""} in ${name}`).join(", ")}.`;
}

/** What is worth a sentence, by at least 1 % of the steps that were replayed, and was not said: `said`, its id. */
export function what_if_sentences(told, said = null) {
  return (told?.what_if ?? []).filter((row) => row.id !== said && told.replayed_step_ms - row.step_ms >= SENTENCE * told.replayed_step_ms).map((row) => {
    const { unit, scale } = time_unit(row.step_ms_high);
    return `${row.title}, a step would take ${number(row.step_ms_low * scale)} to ${number(row.step_ms_high * scale)} ${unit}.`;
  });
}
