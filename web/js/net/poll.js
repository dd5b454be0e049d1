// What the stream does not carry is asked again in its own rhythm, one request of a kind at a time.

const RETRY_MS = 1000;

/**
 * @param {{name: string, every_ms: () => number | null, ask: (signal: AbortSignal) => Promise<void>}[]} kinds
 *   every_ms null: only when told by `now`
 */
export function open_poll(kinds) {
  const entries = new Map(kinds.map((kind) => [kind.name, { ...kind, last: -Infinity, abort: null, again: false, failed: false }]));

  async function run(entry) {
    if (entry.abort) {
      entry.again = true;
      return;
    }
    entry.abort = new AbortController();
    entry.last = performance.now();
    const mine = entry.abort;
    try {
      await entry.ask(mine.signal);
      if (entry.abort === mine) entry.failed = false;
    } catch {
      // `ask` told what it could, the connection says whether the server is there: again in a while.
      if (entry.abort === mine) entry.failed = true;
    }
    if (entry.abort === mine) entry.abort = null;
    if (entry.again && entry.abort === null) {
      entry.again = false;
      run(entry);
    }
  }

  setInterval(() => {
    if (document.visibilityState === "hidden") return;
    for (const entry of entries.values()) {
      const every = entry.failed && entry.every_ms() === null ? RETRY_MS : entry.every_ms();
      if (every !== null && performance.now() - entry.last >= every) run(entry);
    }
  }, 250);

  return {
    /** Asks at once; what was under way for an older question is given up. */
    now(...names) {
      for (const name of names) {
        const entry = entries.get(name);
        entry.abort?.abort();
        entry.abort = null;
        entry.again = false;
        run(entry);
      }
    },
  };
}
