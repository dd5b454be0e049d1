// What tests of the real programs share.

/** The first line on a program's stderr or stdout that matches. */
export function said(child, pattern) {
  return new Promise((done, fail) => {
    let text = "";
    const hear = (bytes) => {
      text += bytes;
      const match = pattern.exec(text);
      if (match) done(match);
    };
    child.stdout.on("data", hear);
    child.stderr.on("data", hear);
    child.on("exit", (code) => fail(new Error(`exit ${code}: ${text}`)));
  });
}
