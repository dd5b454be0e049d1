// Where a chart's labels have room. Pure.

/**
 * Labels that would touch another, or a dot, are left out: the first have the word.
 * @param {{left: number, right: number, top: number, bottom: number}[]} taken
 */
export function place_labels(taken = []) {
  return (left, width, baseline) => {
    const box = { left: left - 6, right: left + width + 6, top: baseline - 9, bottom: baseline + 3 };
    if (taken.some((other) => box.left < other.right && box.right > other.left && box.top < other.bottom && box.bottom > other.top)) return false;
    taken.push(box);
    return true;
  };
}
