"""The centre of paired ratios, with its 95 % interval, and what it says of a mark.

Hodges and Lehmann's estimator (the median of all means of two log ratios) with the
interval of Wilcoxon's signed-rank test: nothing is assumed but that the order within a
pair was drawn at random.
"""

import json
import math


def ratio(pairs):
    """(centre, low, high) of b / a over pairs (a, b) of positive numbers."""
    logs = sorted(math.log(b / a) for a, b in pairs)
    n = len(logs)
    walsh = sorted((logs[i] + logs[j]) / 2 for i in range(n) for j in range(i, n))
    count = len(walsh)
    spread = math.sqrt(n * (n + 1) * (2 * n + 1) / 24)
    at = max(0, min(count // 2, math.floor(n * (n + 1) / 4 - 1.96 * spread)))
    middle = (walsh[(count - 1) // 2] + walsh[count // 2]) / 2
    return tuple(math.exp(value) for value in (middle, walsh[at], walsh[count - 1 - at]))


def verdict(low, high, mark):
    """What lies on one side of its mark with its whole interval is decided."""
    return "hit" if high <= mark else "missed" if low > mark else "undecided"


def say(name, value, mark, **more):
    """Prints a figure in per cent; True when it is missed."""
    centre, low, high = value
    row = {"name": name, "pct": round(centre, 2), "ci95": [round(low, 2), round(high, 2)], "mark": mark,
           "verdict": verdict(low, high, mark), **more}
    print(json.dumps(row), flush=True)
    return row["verdict"] == "missed"
