// Making and changing elements. Text enters by textContent alone, sizes by the style object.

export const $ = (id) => document.getElementById(id);

const SVG = "http://www.w3.org/2000/svg";
const SVG_TAGS = new Set(["svg", "path", "circle", "line", "rect"]);

/** el("td", {class: "num", title: "…", onclick: f, style: {width: "3px"}}, "text", node) */
export function el(tag, attributes = {}, ...children) {
  const node = SVG_TAGS.has(tag) ? document.createElementNS(SVG, tag) : document.createElement(tag);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else if (key === "style") Object.assign(node.style, value);
    else if (key === "dataset") Object.assign(node.dataset, value);
    else node.setAttribute(key === "class" ? "class" : key, value === true ? "" : value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

/** Changes text only where it differs: a number that stands still costs nothing and keeps a selection. */
export function set_text(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

export function set_attribute(node, name, value) {
  if (value === null || value === false || value === undefined) node.removeAttribute(name);
  else if (node.getAttribute(name) !== String(value)) node.setAttribute(name, value);
}

const styles = new WeakMap(); // as written: the browser gives its own words back

export function set_style(node, name, value) {
  const written = styles.get(node) ?? {};
  if (written[name] === value) return;
  styles.set(node, { ...written, [name]: value });
  node.style[name] = value;
}

export function set_hidden(node, hidden) {
  if (node.hidden !== hidden) node.hidden = hidden;
}

/** A line that is there while it has text. */
export function set_line(node, text) {
  set_hidden(node, text === "");
  set_text(node, text);
}

/**
 * Children of `parent` = one node per item, in order; nodes keep their identity (and focus) by key.
 * create(item) makes a node, update(node, item) fills it.
 */
export function keyed(parent, items, key, create, update) {
  const known = new Map([...parent.children].map((node) => [node.dataset.key, node]));
  let at = parent.firstElementChild;
  for (const item of items) {
    const name = String(key(item));
    let node = known.get(name);
    if (node) known.delete(name);
    else {
      node = create(item);
      node.dataset.key = name;
    }
    update(node, item);
    if (node === at) at = at.nextElementSibling;
    else parent.insertBefore(node, at);
  }
  while (at) { // also what has the key of another
    const next = at.nextElementSibling;
    at.remove();
    at = next;
  }
}

/** A list of terms: rows of [name, text]. */
export function set_terms(list, rows) {
  keyed(list, rows, ([name]) => name, () => el("div", {}, el("dt"), el("dd")), (node, [name, text]) => {
    set_text(node.firstElementChild, name);
    set_text(node.lastElementChild, text);
  });
}

/** A dialog in the page that a click beside it closes. */
export function make_dialog(attributes, ...children) {
  const dialog = el("dialog", attributes, ...children);
  dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });
  document.body.append(dialog);
  return dialog;
}

export const close_button = () => el("button", { type: "button", class: "close", "aria-label": "Close", onclick: (event) => event.target.closest("dialog").close() }, "×");

/** `try num_workers=8` in backquotes becomes code; all of it is text. */
export function with_code(text) {
  return String(text).split("`").map((part, i) => (i % 2 === 1 ? el("code", {}, part) : part));
}

/** Keys with these belong to the browser and the system, whatever else they say. */
export const modified = (event) => event.ctrlKey || event.metaKey || event.altKey;

/** Says something to a screen reader, once. */
export function announce(text, urgent = false) {
  const node = $(urgent ? "alarm" : "announce");
  node.textContent = "";
  requestAnimationFrame(() => { node.textContent = text; });
}

export async function copy_text(text) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const area = el("textarea", { class: "sr" });
    area.value = text;
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
  announce("Copied");
}

export function save_file(name, type, text) {
  const url = URL.createObjectURL(new Blob([text], { type }));
  const link = el("a", { href: url, download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 10e3);
}
