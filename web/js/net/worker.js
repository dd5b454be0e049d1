// The shared worker: all tabs of the browser that look at the same session and rank share one
// connection, because a browser opens only six to one server.

import { open_feed } from "./feed.js";

const GONE_MS = 15000; // a tab that has not called for so long was closed or frozen
const feeds = new Map(); // url → {feed, ports: Map<port, last call>, connection}

function subscribe(port, url) {
  leave(port);
  let entry = feeds.get(url);
  if (!entry) {
    entry = { ports: new Map(), connection: { state: "connecting" } };
    feeds.set(url, entry);
    entry.feed = open_feed(url, (message) => {
      if (message.connection) entry.connection = message.connection;
      for (const each of entry.ports.keys()) each.postMessage({ url, ...message });
    });
  }
  entry.ports.set(port, Date.now());
  port.postMessage({ url, connection: { state: "connecting" } }); // what it missed is asked for once it is open
  port.postMessage({ url, connection: entry.connection });
}

function leave(port) {
  for (const [url, entry] of feeds) {
    entry.ports.delete(port);
    if (entry.ports.size > 0) continue;
    entry.feed.stop();
    feeds.delete(url);
  }
}

/** One that slept for too long comes back by its call. */
function called(port, url) {
  const ports = feeds.get(url)?.ports;
  if (ports?.has(port)) ports.set(port, Date.now());
  else subscribe(port, url);
}

setInterval(() => {
  for (const entry of [...feeds.values()]) {
    for (const [port, at] of entry.ports) if (Date.now() - at > GONE_MS) leave(port);
  }
}, 5000);

self.onconnect = ({ ports: [port] }) => {
  port.onmessage = ({ data }) => {
    if (data.subscribe) subscribe(port, data.subscribe);
    else if (data.leave) leave(port);
    else if (data.retry) feeds.get(data.retry)?.feed.retry();
    else if (data.here) called(port, data.here);
  };
};
