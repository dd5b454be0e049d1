// Addresses of the server and answers from it. All addresses are relative to the page, so that a
// proxy's sub-path works.

import { tells_launched, window_parameter } from "../model/store.js";

const base = typeof document === "undefined" ? null : new URL(".", document.baseURI);

/** Parameters without nulls, in the order given. */
export function address(path, parameters = {}) {
  const query = new URLSearchParams();
  for (const [key, value] of Object.entries(parameters)) {
    if (value !== null && value !== undefined && value !== "") query.set(key, value);
  }
  const text = query.toString();
  return text === "" ? path : `${path}?${text}`;
}

/** Which session and rank every question is about. */
export const chosen = (state) => (state.session === null ? {} : { session: state.session, rank: state.rank });

/** As chosen, where the table has such a column: of the time on a GPU only ops of the CPU tell. */
export function sort_of(state, device) {
  const { sort } = state.view;
  return sort.startsWith("device_") && !tells_launched(state, device) ? "self" : sort;
}

/** Parameters of each endpoint for what the page shows now; the ⋯ menu copies the same ones. */
export const questions = {
  bottlenecks: (state) => ["api/bottlenecks", { ...chosen(state), window: window_parameter(state) }],
  ops: (state, device) => {
    const { k, group, query } = state.view, chosen_sort = sort_of(state, device);
    // A program with annotations alone has no self times to sort by.
    const ranges = state.ops?.ops?.length > 0 && state.ops.ops.every((op) => op.kind === "range");
    const sort = chosen_sort === "self" && ranges ? "total" : chosen_sort;
    return ["api/ops", { ...chosen(state), window: window_parameter(state), device, sort, k, group: group === "name" ? null : group, q: query }];
  },
  steps: (state, points, window) => ["api/steps", { ...chosen(state), window, points }],
  memory: (state, points, window) => ["api/memory", { ...chosen(state), window, points }],
  gpu: (state, points, window) => ["api/gpu", { ...chosen(state), window, points }],
  ranks: (state) => ["api/ranks", { session: state.session, window: window_parameter(state) }],
  critical: (state) => ["api/critical_path", { ...chosen(state), window: window_parameter(state) }],
  overhead: (state) => ["api/overhead", chosen(state)],
  status: (state) => ["api/status", chosen(state)],
  host: (state) => ["api/host", chosen(state)],
  runs: () => ["api/runs", {}],
  traces: () => ["api/traces", {}],
  windows: (state) => ["api/windows", { session: state.session }],
};

export const absolute = (path) => new URL(path, base).href;
export const curl = (path) => `curl '${absolute(path).replaceAll("'", "%27")}'`;

/** An answer that is not 2xx: the server's own words, and its status. */
export class Refused extends Error {
  constructor(status, message, remedy = null) {
    super(message);
    this.status = status;
    this.remedy = remedy;
  }
}

async function refusal(response) {
  let body = {};
  try {
    body = await response.json();
  } catch { /* no JSON: the status has to do */ }
  return new Refused(response.status, body.reason ?? body.error ?? `The server answered ${response.status}.`, body.remedy);
}

export async function get_json(path, { signal } = {}) {
  const response = await fetch(absolute(path), { signal, credentials: "same-origin" });
  if (!response.ok) throw await refusal(response);
  return response.json();
}

export async function get_buffer(path) {
  const response = await fetch(absolute(path), { credentials: "same-origin" });
  if (!response.ok) throw await refusal(response);
  return response.arrayBuffer();
}

export async function remove(path) {
  const response = await fetch(absolute(path), { method: "DELETE", credentials: "same-origin" });
  if (!response.ok) throw await refusal(response);
}

export async function post_json(path, body) {
  const response = await fetch(absolute(path), {
    method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body), credentials: "same-origin",
  });
  if (!response.ok) throw await refusal(response);
  return response.status === 204 ? null : response.json();
}
