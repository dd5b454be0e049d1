// The traces that were uploaded: shown, fetched back, and removed once the reader has said so twice.

import { bytes, plural } from "../model/format.js";
import { $, el, keyed, make_dialog, set_attribute, set_hidden, set_text } from "../ui/dom.js";

let dialog = null, wanted = null; // the file that the dialog is about

function build_dialog(actions) {
  const refused = el("p", { class: "notice", role: "alert", hidden: true });
  const remove = el("button", { type: "button", class: "primary", onclick: async () => {
    remove.disabled = true;
    const reason = await actions.remove_trace(wanted);
    remove.disabled = false;
    set_text(refused, reason ?? "");
    set_hidden(refused, reason === null);
    if (reason !== null) return;
    dialog.close();
    $("cost").focus();
  } }, "Remove");
  dialog = make_dialog({ id: "removal", "aria-labelledby": "removal-title" }, el("h2", { id: "removal-title" }),
    el("p", {}, "What was uploaded goes from the server, with all that is shown of it. The file that it was uploaded from stays where it is."), refused,
    el("div", { class: "actions" }, el("button", { type: "button", class: "plain", autofocus: true, onclick: () => dialog.close() }, "Keep it"), remove));
}

function confirm(actions, file) {
  if (dialog === null) build_dialog(actions);
  wanted = file;
  set_text(dialog.querySelector("h2"), `Remove ${file.name}?`);
  set_hidden(dialog.querySelector(".notice"), true);
  dialog.showModal();
}

export function build_uploads(actions, state_of) {
  $("cost-body").append(el("ul", { class: "foot windows", id: "upload-list", "aria-label": "Uploaded traces", hidden: true }));
  $("upload-list").addEventListener("click", (event) => {
    const { act, id } = event.target.closest("button")?.dataset ?? {};
    const file = state_of().traces?.traces?.find((row) => row.id === id);
    if (!file) return;
    if (act === "show") actions.choose_session(file.session);
    else confirm(actions, file);
  });
}

export function render_uploads(state) {
  const files = (state.traces?.traces ?? []).filter((file) => file.uploaded || file.error);
  const button = (act, text) => el("button", { type: "button", class: "plain", dataset: { act } }, text);
  set_hidden($("upload-list"), files.length === 0);
  keyed($("upload-list"), files, (file) => file.id, () => el("li", {}, el("span"), button("show", "Show"), el("a", { class: "plain", download: "" }, "Download"), button("remove", "Remove")), (node, file) => {
    const [text, show, save, remove] = node.children;
    set_text(text, file.error ? `${file.name} could not be read: ${file.error}` : `${file.name}: uploaded, ${bytes(file.bytes)}, ${plural(file.events, "event")}`);
    set_hidden(show, Boolean(file.error) || file.session === state.session);
    for (const one of [save, remove]) set_hidden(one, Boolean(file.error));
    set_attribute(save, "href", `api/traces/${encodeURIComponent(file.id)}`);
    for (const one of [show, remove]) {
      one.dataset.id = file.id;
      set_attribute(one, "aria-label", `${one.textContent} ${file.name}`);
    }
    set_attribute(save, "aria-label", `Download ${file.name}`);
  });
}
