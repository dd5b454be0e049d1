// Colours of the style sheet for the canvas, read again when the scheme changes.

const asked = new URLSearchParams(location.search).get("theme");
if (asked === "light" || asked === "dark") document.documentElement.dataset.theme = asked;

const probe = document.body.appendChild(document.createElement("i"));
probe.hidden = true;
const cache = new Map();
const listeners = [];

/** The value of a token as rgb(), optionally with an opacity. */
export function colour(token, alpha = 1) {
  const key = `${token} ${alpha}`;
  if (!cache.has(key)) {
    probe.style.color = `var(--${token})`;
    const rgb = getComputedStyle(probe).color;
    cache.set(key, alpha === 1 ? rgb : rgb.replace("rgb(", "rgba(").replace(")", `, ${alpha})`));
  }
  return cache.get(key);
}

let family = null; // asked once: each asking has the page's styles worked out anew

export function font(size) {
  family ??= getComputedStyle(document.body).fontFamily;
  return `${size}px ${family}`;
}

export const on_scheme = (listener) => listeners.push(listener);

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  cache.clear();
  for (const listener of listeners) listener();
});
