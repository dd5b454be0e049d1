// One connection to the stream: reads it, tries again with growing pauses, says what it is doing.
// Runs in the shared worker, or in the page where there is none.

import { backoff_s, sse_reader } from "../model/sse.js";

const SILENCE_MS = 20000; // the server sends at least a heartbeat every 10 s
const FULL_RETRY_MS = 15000; // while the server has too many viewers

/**
 * @param {string} url absolute
 * @param {(message: {event: object} | {connection: object}) => void} tell
 * @returns {{stop: () => void, retry: () => void}}
 */
export function open_feed(url, tell) {
  let tries = 0, last_id = "", timer = 0, silence = 0, stopped = false, abort = null;

  function later(delay_ms, state, reason) {
    clearTimeout(timer);
    tell({ connection: { state, retry_at: Date.now() + delay_ms, reason } });
    timer = setTimeout(connect, delay_ms);
  }

  function heard() {
    clearTimeout(silence);
    silence = setTimeout(() => abort?.abort(), SILENCE_MS);
  }

  async function connect() {
    if (stopped) return;
    clearTimeout(timer);
    abort?.abort();
    const mine = abort = new AbortController();
    heard();
    let full = null;
    try {
      full = await read(mine.signal);
    } catch { /* told below as a lost connection */ }
    if (stopped || mine !== abort) return;
    clearTimeout(silence);
    if (full !== null) return later(full.retry_ms, "polling", full.reason);
    later(backoff_s(tries++) * 1e3, "waiting", "The server does not answer.");
  }

  async function read(signal) {
    const headers = last_id === "" ? {} : { "Last-Event-ID": last_id };
    const response = await fetch(url, { signal, headers, cache: "no-store", credentials: "same-origin" });
    if (response.status === 503) return too_many(response);
    if (!response.ok || response.body === null) throw new Error(String(response.status));
    tries = 0;
    tell({ connection: { state: "open" } });
    const feed = sse_reader((event) => {
      last_id = event.id || last_id;
      tell({ event: { type: event.type, data: JSON.parse(event.data) } });
    });
    const decoder = new TextDecoder();
    const reader = response.body.getReader();
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return null;
      heard();
      feed(decoder.decode(value, { stream: true }));
    }
  }

  async function too_many(response) {
    const seconds = Number(response.headers.get("Retry-After"));
    const body = await response.json().catch(() => ({}));
    return { retry_ms: seconds > 0 ? Math.max(5, seconds) * 1e3 : FULL_RETRY_MS, reason: body.reason ?? body.error ?? null };
  }

  connect();
  return {
    stop() {
      stopped = true;
      clearTimeout(timer);
      clearTimeout(silence);
      abort?.abort();
    },
    retry() {
      tries = 0;
      connect();
    },
  };
}
