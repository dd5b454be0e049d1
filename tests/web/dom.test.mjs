import assert from "node:assert/strict";
import { test } from "node:test";
import { keyed } from "../../web/js/ui/dom.js";

/** As much of an element as a keyed list touches. */
class Node {
  parent = null;
  children = [];
  dataset = {};
  get firstElementChild() { return this.children[0] ?? null; }
  get nextElementSibling() { return this.parent.children[this.parent.children.indexOf(this) + 1] ?? null; }
  remove() {
    if (this.parent) this.parent.children.splice(this.parent.children.indexOf(this), 1);
    this.parent = null;
  }
  insertBefore(node, at) {
    node.remove();
    this.children.splice(at === null ? this.children.length : this.children.indexOf(at), 0, node);
    node.parent = this;
  }
}

const fill = (parent, keys) => keyed(parent, keys, (key) => key, () => new Node(), () => {});
const keys_of = (parent) => parent.children.map((node) => node.dataset.key).join("");

test("a keyed list keeps the nodes of its keys, in the order of its items", () => {
  const parent = new Node();
  fill(parent, [..."abcd"]);
  const [a, b, , d] = parent.children;
  fill(parent, [..."dxba"]);
  assert.equal(keys_of(parent), "dxba");
  assert.deepEqual([parent.children[0] === d, parent.children[2] === b, parent.children[3] === a], [true, true, true]);
  fill(parent, []);
  assert.equal(keys_of(parent), "");
});

test("items with one key are as many nodes as items, however often they are drawn", () => {
  const parent = new Node();
  for (let i = 0; i < 5; i++) fill(parent, [..."aab"]);
  assert.equal(keys_of(parent), "aab");
});
