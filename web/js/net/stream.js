// The page's end of the stream. A shared worker holds the connection; where there is none, or it
// could not be loaded, the tab that holds the lock has it and broadcasts; without either each tab
// has its own.

import { open_feed } from "./feed.js";

const CALL_MS = 5000; // how often a tab says that it is still there

/**
 * @param {(message: {event?: object, connection?: object}) => void} receive
 * @returns {{watch: (url: string | null) => void, retry: () => void}}
 */
export function open_stream(receive) {
  const without_worker = () => {
    carrier = channel_carrier(receive);
    apply();
  };
  let carrier = typeof SharedWorker === "function" ? worker_carrier(receive, without_worker) : channel_carrier(receive);
  let wanted = null;
  const apply = () => carrier.set(document.visibilityState === "hidden" ? null : wanted);
  document.addEventListener("visibilitychange", apply);
  addEventListener("pagehide", () => carrier.set(null));
  addEventListener("pageshow", (event) => { if (event.persisted) apply(); });
  return {
    watch(url) {
      if (url === wanted) return;
      wanted = url;
      apply();
    },
    retry: () => carrier.retry(),
  };
}

function worker_carrier(receive, failed) {
  const worker = new SharedWorker(new URL("worker.js", import.meta.url), { type: "module", name: "trainglass" });
  const { port } = worker;
  let current = null;
  port.onmessage = ({ data }) => { if (data.url === current) receive(data); };
  const calls = setInterval(() => { if (current) port.postMessage({ here: current }); }, CALL_MS);
  worker.onerror = () => {
    clearInterval(calls);
    failed();
  };
  return {
    set(url) {
      if (url === current) return;
      current = url;
      port.postMessage(url ? { subscribe: url } : { leave: true });
    },
    retry: () => port.postMessage({ retry: current }),
  };
}

function channel_carrier(receive) {
  let current = null, feed = null, channel = null, release = null, connection = null;

  function lead(url) {
    feed = open_feed(url, (message) => {
      if (url !== current) return;
      if (message.connection) connection = message.connection;
      receive(message);
      channel?.postMessage(message);
    });
  }

  function stop() {
    feed?.stop();
    channel?.close();
    release?.();
    feed = channel = release = connection = null;
  }

  /** A tab that comes later asks the one that leads how the connection stands. */
  function hear(message) {
    if (!message.asks) receive(message);
    else if (connection) channel.postMessage({ connection });
  }

  function start(url) {
    if (typeof BroadcastChannel !== "function" || !navigator.locks) return lead(url);
    channel = new BroadcastChannel(`trainglass ${url}`);
    channel.onmessage = ({ data }) => hear(data);
    channel.postMessage({ asks: true });
    const waiting = new AbortController();
    release = () => waiting.abort();
    navigator.locks.request(`trainglass ${url}`, { signal: waiting.signal }, () => {
      if (url !== current) return undefined;
      lead(url);
      return new Promise((done) => { release = done; });
    }).catch(() => { /* gave up waiting: another session was chosen */ });
    return undefined;
  }

  return {
    set(url) {
      if (url === current) return;
      stop();
      current = url;
      if (!url) return;
      receive({ connection: { state: "connecting" } }); // what was missed is asked for once it is open
      start(url);
    },
    retry: () => feed?.retry(),
  };
}
