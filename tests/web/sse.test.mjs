import assert from "node:assert/strict";
import { test } from "node:test";
import { backoff_s, sse_reader } from "../../web/js/model/sse.js";

const STREAM = 'retry: 2000\n\n: still here\n\nid: 7-1\nevent: steps\ndata: {"steps":[]}\n\nevent: two\r\ndata: a\r\ndata: b\r\n\r\ndata: plain\n\n';
const EVENTS = [{ type: "steps", data: '{"steps":[]}', id: "7-1" }, { type: "two", data: "a\nb", id: "7-1" }, { type: "message", data: "plain", id: "7-1" }];

test("events come out whole however the bytes are cut", () => {
  for (let size = 1; size <= STREAM.length; size++) {
    const got = [];
    const feed = sse_reader((event) => got.push(event));
    for (let at = 0; at < STREAM.length; at += size) feed(STREAM.slice(at, at + size));
    assert.deepEqual(got, EVENTS, `pieces of ${size}`);
  }
});

test("an event without data is none", () => {
  const got = [];
  sse_reader((event) => got.push(event))("event: empty\n\nid: 3\n\n");
  assert.deepEqual(got, []);
});

test("a stream without line ends is refused before it fills the memory", () => {
  const feed = sse_reader(() => {});
  assert.throws(() => { for (let i = 0; i < 40; i++) feed("x".repeat(65536)); });
});

test("pauses between tries double up to 15 s", () => {
  assert.deepEqual([0, 1, 2, 3, 4, 5, 50].map(backoff_s), [1, 2, 4, 8, 15, 15, 15]);
});
