// The shared worker and its connection, with a clock, timers and a server of the test's own.

import assert from "node:assert/strict";
import { test } from "node:test";

const URL_OF_RUN = "http://x/api/stream?session=a";
let now = 0;
const ticks = [], timers = new Map(), streams = [];
globalThis.self = globalThis;
Date.now = () => now;
globalThis.setInterval = (act) => ticks.push(act);
globalThis.setTimeout = (act, ms) => {
  const id = Symbol("timer");
  timers.set(id, { act, at: now + ms });
  return id;
};
globalThis.clearTimeout = (id) => timers.delete(id);
/** A server that takes the connection and says nothing. */
globalThis.fetch = (url, { signal }) => new Promise((_, fail) => {
  streams.push(signal);
  signal.addEventListener("abort", () => fail(new Error("aborted")));
});

await import("../../web/js/net/worker.js");
const { open_feed } = await import("../../web/js/net/feed.js");

function tab() {
  const port = { heard: [], postMessage: (message) => port.heard.push(message) };
  self.onconnect({ ports: [port] });
  port.say = (data) => port.onmessage({ data });
  return port;
}

/** Lets time go by, with what is due in it. */
function wait(ms) {
  now += ms;
  for (const tick of ticks) tick();
  for (const [id, { act, at }] of [...timers]) if (at <= now && timers.delete(id)) act();
}

const open = () => streams.filter((signal) => !signal.aborted).length;
const settle = () => new Promise((done) => setImmediate(done));

test("a tab that slept for long is subscribed again by its next call, and told to ask for what it missed", () => {
  const port = tab();
  port.say({ subscribe: URL_OF_RUN });
  assert.equal(open(), 1);
  wait(16e3);
  assert.equal(open(), 0);
  port.heard.length = 0;
  port.say({ here: URL_OF_RUN });
  assert.equal(open(), 1);
  assert.deepEqual(port.heard[0], { url: URL_OF_RUN, connection: { state: "connecting" } });
  port.heard.length = 0;
  wait(9e3);
  port.say({ here: URL_OF_RUN });
  wait(9e3);
  assert.equal(open(), 1);
  port.say({ leave: true });
  assert.equal(open(), 0);
});

test("a connection that hangs after a retry by hand is given up like any other", async () => {
  const told = [];
  const feed = open_feed(URL_OF_RUN, ({ connection }) => told.push(connection.state));
  feed.retry();
  await settle(); // the first one ends after the second began
  assert.equal(open(), 1);
  wait(21e3);
  await settle();
  assert.deepEqual(told, ["waiting"]);
  feed.stop();
});
