// Trace files from the reader's own disk: chosen or dropped anywhere, sent to the server, shown.

import { number } from "../model/format.js";
import { absolute, address, get_json } from "../net/api.js";
import { $, announce, el } from "../ui/dom.js";
import { change_notice, notice } from "../ui/notices.js";

const KEY = "upload";
const TOLD_MS = 200; // a share that changes faster cannot be read
const MIB = 2 ** 20;

let sending = false;
const waiting = []; // files to send

/** Sends the bytes as they are; resolves with the server's answer. */
function send(file, on_share, on_start) {
  return new Promise((done, fail) => {
    const request = new XMLHttpRequest(); // fetch does not tell how much was sent
    request.open("POST", absolute(address("api/traces", { name: file.name })));
    request.setRequestHeader("Content-Type", "application/octet-stream");
    request.responseType = "json";
    request.upload.addEventListener("progress", (event) => { if (event.lengthComputable) on_share(event.loaded / event.total); });
    request.addEventListener("load", () => (request.status === 201 ? done(request.response) : fail(new Error(request.response?.error ?? `the server answered ${request.status}`))));
    request.addEventListener("error", () => fail(new Error("the connection ended before all of it was there")));
    request.addEventListener("abort", () => done(null));
    on_start(() => request.abort());
    request.send(file);
  });
}

/** Says how far it is, and offers to stop. */
function progress(file) {
  let told = -Infinity, stop = () => {};
  notice(KEY, `${file.name}: sending`, "Cancel", () => stop());
  return {
    start: (abort) => { stop = abort; },
    share(share) {
      if (share < 1 && performance.now() - told < TOLD_MS) return;
      told = performance.now();
      change_notice(KEY, `${file.name}: ${share < 1 ? `${number(100 * share, 0)} % of ${number(file.size / MIB, 1)} MiB sent` : "sent, being read"}`);
    },
  };
}

async function open_file(file, show) {
  const { upload_max_bytes: most } = await get_json("api/traces").catch(() => ({}));
  if (file.size > most) throw new Error(`it has ${number(file.size / MIB, 0)} MiB, and upload_max allows ${number(most / MIB, 0)}`);
  const shown = progress(file);
  const told = await send(file, shown.share, shown.start);
  notice(KEY, null);
  if (told === null) return;
  await show(told.session);
  announce(`${told.name} is open`);
  if (told.reason) notice(KEY, `${told.name}: ${told.reason}`);
}

/** One after the other, those that come meanwhile too; the last one stays in view. */
async function open_files(files, show) {
  waiting.push(...files);
  if (sending) return;
  sending = true;
  for (let file = waiting.shift(); file; file = waiting.shift()) {
    try {
      await open_file(file, show);
    } catch (error) {
      notice(KEY, `${file.name} was not opened: ${error.message}`);
    }
  }
  sending = false;
}

/** @param {(session: string) => Promise<void>} show */
export function build_files(show) {
  const chooser = el("input", { type: "file", id: "file-chooser", accept: ".json,.gz,application/json,application/gzip", multiple: true, hidden: true, "aria-label": "Trace files" });
  document.body.append(chooser);
  chooser.addEventListener("change", () => {
    open_files([...chooser.files], show);
    chooser.value = "";
  });
  $("open-file").addEventListener("click", () => chooser.click());
  const has_files = (event) => event.dataTransfer?.types.includes("Files") === true;
  addEventListener("dragover", (event) => {
    if (!has_files(event)) return;
    event.preventDefault();
    document.body.classList.add("dropping");
  });
  addEventListener("dragleave", (event) => { if (event.relatedTarget === null) document.body.classList.remove("dropping"); });
  addEventListener("drop", (event) => {
    if (!has_files(event)) return;
    event.preventDefault();
    document.body.classList.remove("dropping");
    open_files([...event.dataTransfer.files], show);
  });
}
