// The machine under the job as one folded line below the lanes; opened, every figure of it.

import { bytes, known, memory, number, percent } from "../model/format.js";
import { $, el, set_hidden, set_terms, set_text } from "../ui/dom.js";

/** @param {(open: boolean) => void} opened unfolds the host's lanes above */
export function host_row(opened) {
  return el("details", { ontoggle: (event) => opened(event.target.open), id: "host", class: "host", hidden: true }, el("summary", {}, el("b", {}, "Host"), el("span", { class: "dim", id: "host-line" })), el("dl", { id: "host-figures" }));
}

const share = (value) => percent(known(value) ? 100 * value : null, 0);
const rate = (value) => `${bytes(value)}/s`;

/** All figures that are known, the most telling first: [name, text]. */
export function host_figures(host) {
  const now = host?.now ?? {}, cores = host?.core_share?.length;
  const out = [];
  const push = (value, name, text) => { if (known(value)) out.push([name, text]); };
  push(now.cpu_share, "CPU", `${share(now.cpu_share)}${cores > 0 ? ` of ${cores} cores` : ""}`);
  push(now.job_cores, "job", `${number(now.job_cores)} cores${known(host?.cpu_limit_cores) ? ` of ${number(host.cpu_limit_cores)} allowed` : ""}`);
  push(now.memory_used_bytes, "memory", `${memory(now.memory_used_bytes).join(" ")}${known(host?.memory_limit_bytes) ? ` of ${memory(host.memory_limit_bytes).join(" ")}` : ""}`);
  push(now.disk_read_bytes_per_s, "disk read", rate(now.disk_read_bytes_per_s));
  push(now.disk_write_bytes_per_s, "disk write", rate(now.disk_write_bytes_per_s));
  push(now.net_receive_bytes_per_s, "network in", rate(now.net_receive_bytes_per_s));
  push(now.net_send_bytes_per_s, "network out", rate(now.net_send_bytes_per_s));
  push(now.iowait_share, "waiting for disk", share(now.iowait_share));
  push(now.steal_share, "stolen by other machines", share(now.steal_share));
  push(now.throttled_share, "throttled by the container's limit", share(now.throttled_share));
  return out;
}

/** What is wrong stands in the folded line too: throttling and stolen time from 1 %. */
export function host_line(host) {
  const figures = new Map(host_figures(host)), now = host?.now ?? {};
  const names = ["CPU", "job", "memory", "disk read"];
  if (now.throttled_share >= 0.01) names.push("throttled by the container's limit");
  if (now.steal_share >= 0.01) names.push("stolen by other machines");
  return names.filter((name) => figures.has(name)).map((name) => `${name} ${figures.get(name)}`).join(", ");
}

export function render_host(state) {
  const figures = host_figures(state.host);
  set_hidden($("host"), figures.length === 0);
  set_text($("host-line"), host_line(state.host));
  set_terms($("host-figures"), figures);
}
