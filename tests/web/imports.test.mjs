// What a module uses of another one it imports: a missing name is seen only when its line runs.

import assert from "node:assert/strict";
import { readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";

const ROOT = fileURLToPath(new URL("../../web/js/", import.meta.url));
const modules = readdirSync(ROOT, { recursive: true }).filter((name) => name.endsWith(".js"));
const texts = new Map(modules.map((name) => [name, readFileSync(join(ROOT, name), "utf8").replace(/^\s*(\/\/|\/?\*).*$/gm, "")]));
const exported = new Set([...texts.values()].flatMap((text) => [...text.matchAll(/^export (?:async )?(?:function|class|const|let) (\w+)/gm)].map((match) => match[1])));

test("a module imports or makes every function of others that it calls", () => {
  assert.ok(modules.length > 40 && exported.size > 100, `${modules.length} modules, ${exported.size} names`);
  for (const [name, text] of texts) {
    const called = new Set([...text.matchAll(/(?<![\w.$#])(\w+)\(/g)].map((match) => match[1]).filter((each) => exported.has(each)));
    for (const each of called) {
      const known = new RegExp(`\\bimport\\s*{[^}]*\\b${each}\\b[^}]*}|\\b(function|class|const|let)\\s+${each}\\b|[{(,]\\s*${each}\\s*(=[^=>][^,]*)?[,)}]|\\b${each}\\s*=>|^\\s+(async )?${each}\\([^)]*\\) {`, "m");
      assert.match(text, known, `${name}: ${each}`);
    }
  }
});
