import assert from "node:assert/strict";
import test from "node:test";

import { communication_sentence, energy_facts, meter_figures, meter_line, known_sentence, meter_name, meters_of, run_scope, run_sentences, slowed_by } from "../../web/js/panels/meters.js";

const device = (more = {}, now = {}) => ({
  device: "cuda:0", works: true, index: 3, name: "Fake GPU", pci: "0000:3b:00.0", reason: "", mig: false, power_limit_w: 700, sm_max_mhz: 1980, total_bytes: 80 * 2 ** 30,
  joules_per_step: 88.25, samples_per_joule: null, ecc_corrected: 0, ecc_uncorrected: 0, last_xid: null, xid_count: 0,
  ...more, now: { power_w: 412, temperature_c: 71, sm_mhz: 1755, slowed_by: [], other_bytes: null, ...now },
});

test("the line names power, heat and clocks, and what holds them back", () => {
  assert.equal(meter_line(device()), "412 of 700 W, 71 °C, 1,755 of 1,980 MHz, 88.3 J a step");
  assert.match(meter_line(device({}, { slowed_by: ["power_cap", "idle", "thermal", "thermal_hardware"] })), /held back by its power limit and heat/);
  assert.equal(slowed_by(device({}, { slowed_by: null })), "");
});

test("what is not known is left out, never 0", () => {
  const names = meter_figures(device({}, { power_w: null })).map(([name]) => name);
  assert.ok(!names.includes("power") && !names.includes("of other processes") && !names.includes("samples per joule"));
  assert.deepEqual(energy_facts({ hardware: { devices: [device({}, { power_w: null })], joules_per_step: null } }), []);
});

test("a lost device, faults and MIG stand in the folded line", () => {
  assert.equal(meter_line(device({ reason: "the GPU has fallen off the bus" })), "the GPU has fallen off the bus");
  assert.match(meter_line(device({ last_xid: 79, last_xid_ms: 61e3, xid_count: 1, ecc_uncorrected: 2, mig: true }), { start_unix_ms: 0, end_ms: null }), /2 memory errors not corrected, Xid 79 at 61 s, MIG/);
});

test("an Xid before or after a run is none of its, and one that ended it is", () => {
  const run = { start_unix_ms: new Date(2026, 2, 3, 14, 0).getTime(), end_ms: 60e3 };
  const told = (last_xid_ms) => {
    const one = device({ last_xid: 31, last_xid_ms, xid_count: 2 });
    return [/Xid.*$/.exec(meter_line(one, run))?.[0], new Map(meter_figures(one, run)).get("last Xid")];
  };
  assert.deepEqual(told(-7.2e6), [undefined, "31, 2 h before this run (2 seen)"]);
  assert.deepEqual(told(62e3), ["Xid 31 at 14:01:02", "31 at 14:01:02 (2 seen)"]);
  assert.deepEqual(told(360e3), [undefined, "31, 5 min after this run (2 seen)"]);
  run.end_ms = null; // it goes on, and is silent since
  assert.deepEqual(told(360e3)[0], "Xid 31 at 14:06:00");
  assert.deepEqual(told(null), [undefined, "31 (2 seen)"]);
});

test("under MIG the instances are told apart, and the whole GPU's power is not the job's", () => {
  const shared = device({ mig: true, joules_per_step: null, instances: [
    { name: "Fake GPU MIG 1g.10gb", uuid: "MIG-1", used_bytes: 2 * 2 ** 30, total_bytes: 10 * 2 ** 30 }, { name: "", uuid: "MIG-3", used_bytes: null, total_bytes: null }] });
  assert.match(meter_line(shared), /MIG: of the whole GPU, not of one of its 2 instances$/);
  assert.deepEqual(meter_figures(shared).filter(([name]) => name.includes("MIG")), [["Fake GPU MIG 1g.10gb", "2.00 GiB of 10.0 GiB"]]);
  assert.deepEqual(energy_facts({ hardware: { devices: [shared], joules_per_step: null } }), []);
});

test("the job's own devices are shown, else those of the machine by their numbers there", () => {
  const answer = { hardware: { devices: [device({ device: null, works: false, index: 0 }), device()] } };
  assert.deepEqual(meters_of(answer).map(meter_name), ["GPU 0"]);
  assert.deepEqual(meters_of({ hardware: { devices: [device({ device: null, works: null })] } }).map(meter_name), ["GPU 3 of the machine"]);
  assert.deepEqual(meters_of(null), []);
});

test("the headline sums the devices of the job", () => {
  const answer = { hardware: { devices: [device(), device({ device: "cuda:1" })], joules_per_step: 176.5, samples_per_joule: 1.45 } };
  assert.deepEqual(energy_facts(answer), [["GPUs' power", "824", " of 1,400 W"], ["Energy", "177", " J/step, 1.45 samples/J"]]);
});

test("of eight GPUs that a job sees the headline and the lines are of the one that it works on", () => {
  const devices = (works) => Array.from({ length: 8 }, (_, i) => device({ device: `cuda:${i}`, works: works(i), joules_per_step: i === 5 ? 88 : null }));
  const told = { hardware: { devices: devices((i) => i === 5), joules_per_step: 88, samples_per_joule: null } };
  assert.deepEqual(energy_facts(told), [["GPU power", "412", " of 700 W"], ["Energy", "88.0", " J/step"]]);
  assert.deepEqual(meters_of(told).map(meter_name), ["GPU 5"]);
  const unknown = { hardware: { devices: [...devices(() => null), device({ device: null, works: false })], joules_per_step: null, samples_per_joule: null } };
  assert.deepEqual(energy_facts(unknown), []);
  assert.equal(meters_of(unknown).length, 8);
});

test("how work reaches the device is told in what is known, and nothing else", () => {
  assert.deepEqual(run_sentences(undefined), []);
  assert.deepEqual(run_sentences({ launch_delay: { p50_us: null }, queue_depth: null, streams: [{}], streams_busy: 1, copies: [] }), []);
  assert.deepEqual(run_sentences({
    launch_delay: { p50_us: 12.4, p95_us: 88 }, queue_depth: 3.42, streams: [{}, {}], streams_busy: 1.27,
    copies: [{ direction: "h2d", pageable: true, count: 9, bytes: 4e9, bytes_per_s: 12e9 }, { direction: "d2d", pageable: false, count: 1, bytes: 2e6, bytes_per_s: 1e12 },
      { direction: "d2h", pageable: null, count: 2, bytes: 1e6, bytes_per_s: 1e9 },
      { direction: "p2p", pageable: false, count: 3, bytes: null, bytes_per_s: null }, { direction: "h2h", pageable: false, count: 0, bytes: 0, bytes_per_s: null }],
  }), [
    "Work begins 12.4 µs after its launch (median; 95 % within 88.0 µs)", "3.42 launches wait in its queue on average", "1.27 of 2 streams at once while busy",
    "copies to the device, pageable: 4.00 GB at 12.0 GB/s", "copies on the device: 2.00 MB at 1.00 TB/s",
    "copies from the device: 1.00 MB at 1.00 GB/s",
    "copies between devices: 3 of unknown size",
  ]);
});

test("amounts of a run say of how many of its steps they are", () => {
  assert.equal(run_scope({ steps: 280, recorded_steps: 280 }, false), "Whole run");
  assert.equal(run_scope({ steps: 3, recorded_steps: 3 }, true), "Whole file");
  assert.equal(run_scope({ steps: 1280, recorded_steps: 160 }, false), "In what was recorded (160 of 1,280 steps)");
});

test("means say on how many steps they stand, and why on none", () => {
  assert.equal(known_sentence({ known_steps: 280, reason: "" }, 280), "");
  assert.equal(known_sentence({ known_steps: 61, reason: "" }, 280), "Means of the 61 of 280 steps whose GPU work is known.");
  assert.equal(known_sentence({ known_steps: 0, reason: "The device was behind" }, 280), "The device was behind.");
  assert.equal(known_sentence({ known_steps: 0, reason: "" }, 280), "");
  assert.equal(known_sentence(undefined, 280), "");
});

test("of communication is said how much of it compute hides", () => {
  assert.equal(communication_sentence({ overlap_ms: 620, use_ms: { communication: 380 }, per_step_ms: { communication: 7.6 } }), "62 % of communication lies beside compute, 7.60 ms per step do not.");
  assert.equal(communication_sentence({ overlap_ms: 10, use_ms: { communication: 0 }, per_step_ms: { communication: null } }), "100 % of communication lies beside compute.");
  assert.equal(communication_sentence({ overlap_ms: 0, use_ms: { communication: 0 }, per_step_ms: {} }), "");
  assert.equal(communication_sentence({ overlap_ms: null, use_ms: {}, per_step_ms: {} }), "");
  assert.equal(communication_sentence(undefined), "");
});
