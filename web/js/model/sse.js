// A reader of text/event-stream: bytes in any pieces in, events out. Pure.
// Not EventSource, because that hides the status (503: too many viewers) and its retry time.

const MOST_BUFFERED = 1 << 20; // characters; an event is at most 8 KB

/** @param {(event: {type: string, data: string, id: string}) => void} receive */
export function sse_reader(receive) {
  let rest = "", type = "", data = [], id = "";

  function line(text) {
    if (text === "") {
      if (data.length > 0) receive({ type: type || "message", data: data.join("\n"), id });
      type = "";
      data = [];
      return;
    }
    const colon = text.indexOf(":");
    if (colon === 0) return;
    const field = colon < 0 ? text : text.slice(0, colon);
    const value = colon < 0 ? "" : text.slice(colon + (text[colon + 1] === " " ? 2 : 1));
    if (field === "event") type = value;
    else if (field === "data") data.push(value);
    else if (field === "id" && !value.includes("\0")) id = value;
  }

  return function feed(text) {
    rest += text;
    const lines = rest.split(/\r\n|\n|\r(?=[^])/);
    rest = lines.pop();
    for (const each of lines) line(each);
    if (rest.length > MOST_BUFFERED) throw new Error("an event without an end");
  };
}

/** Seconds until the next try: 1, 2, 4, 8, 15, 15 … */
export const backoff_s = (tries) => Math.min(15, 2 ** Math.min(tries, 5));
