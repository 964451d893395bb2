#!/usr/bin/env python3
"""Computes the numbers of batch and run pages from exported samples.

    recompute.py samples.jsonl [facts.json] > numbers.json

`samples.jsonl` has responses of `GET /api/export/samples?format=jsonl` for one or more runs; texts are not needed.
`facts.json` has facts about batches that samples do not contain: `{"b3": {"onFailure": "group_mean", "normByStd":
false}}`. The script uses only Python's standard library and no code of the service: every definition is implemented
again from the documentation. Durations are in milliseconds, quantiles are interpolated linearly (SQL's
percentile_cont), and deviations use n - 1.
"""

import json
import math
import statistics
import struct
import sys
from datetime import datetime, timezone
from fractions import Fraction

SIGNALS = ("varied", "all_correct", "all_incorrect", "all_equal", "single_sample", "all_failed", "empty")
EPSILON = 1e-6
EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


def single(value):
    """Rounds to single precision, in which durations are stored."""
    return struct.unpack("f", struct.pack("f", value))[0]


def as_single(value):
    """The shortest decimal that round-trips in single precision, as Postgres prints a `real`."""
    if value is None:
        return None
    target = single(value)
    for digits in range(6, 10):
        text = "%.*g" % (digits, target)
        if single(float(text)) == target:
            return float(text)
    return target


def mean(values):
    return float(sum(map(Fraction, values)) / len(values)) if values else None


def deviation(values):
    if len(values) < 2:
        return None
    exact = [Fraction(value) for value in values]
    middle = sum(exact) / len(exact)
    return math.sqrt(sum((value - middle) ** 2 for value in exact) / (len(exact) - 1))


def quantile(values, at):
    """SQL's percentile_cont: linear interpolation between the two nearest values."""
    if not values:
        return None
    ordered = sorted(values)
    place = at * (len(ordered) - 1)
    below, above = math.floor(place), math.ceil(place)
    low, high = ordered[below], ordered[above]
    return low if below == above else low + (place - below) * (high - low)


def micros(text):
    """A timestamp of the export as whole microseconds since 1970."""
    if text is None:
        return None
    moment = datetime.strptime(text, "%Y-%m-%dT%H:%M:%S.%fZ").replace(tzinfo=timezone.utc)
    since = moment - EPOCH
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds


def millis_between(start, end):
    """The difference of two timestamps, each truncated to milliseconds."""
    return None if start is None or end is None else end // 1000 - start // 1000


def tenths_between(start, end):
    """Milliseconds with one decimal. Halves are rounded away from zero."""
    if start is None or end is None:
        return None
    span = end - start
    tenths = (abs(span) + 50) // 100
    return (tenths if span >= 0 else -tenths) / 10


def counts(row):
    """Whether statistics include a sample: it has a score that no failure policy set or removed."""
    return row["status"] == "scored" and not row["substituted"] and row["score"] is not None


def scores_of(rows):
    return [row["score"] for row in rows if counts(row)]


def ended(row):
    return row["status"] in ("scored", "failed")


def tally(values):
    found = {}
    for value in values:
        found[value] = found.get(value, 0) + 1
    return found


def bucket(value, low, high, bins):
    """The index of a value among `bins` equal bins; the last bin includes its upper edge."""
    return min(bins - 1, int(bins * ((value - low) / (high - low))))


def distribution(scores):
    values = sorted(tally(scores).items())
    if len(values) <= 12:
        return {
            "kind": "bars",
            "n": len(scores),
            "bins": [{"from": value, "to": value, "count": n} for value, n in values],
        }
    low, high = min(scores), max(scores)
    found = tally(bucket(score, low, high, 40) for score in scores)
    width = (high - low) / 40
    return {
        "kind": "histogram",
        "n": len(scores),
        "bins": [
            {
                "from": low + at * width,
                "to": high if at == 39 else low + (at + 1) * width,
                "count": found.get(at, 0),
            }
            for at in range(40)
        ],
    }


def signal(members):
    scores = scores_of(members)
    if not members:
        return "empty"
    if not scores:
        return "all_failed"
    if len(scores) == 1:
        return "single_sample"
    if min(scores) != max(scores):
        return "varied"
    if scores[0] >= 1:
        return "all_correct"
    return "all_incorrect" if scores[0] <= 0 else "all_equal"


def advantages(members, facts):
    """GRPO advantages over the scored members. None for other members, or 0 if group_mean set the score."""
    scores = scores_of(members)
    middle, spread = mean(scores), deviation(scores)
    by_std = facts.get("normByStd", True)
    found = []
    for row in members:
        if not counts(row):
            neutral = facts.get("onFailure") == "group_mean" and row["substituted"]
            found.append(0 if neutral and row["score"] is not None else None)
        elif len(members) == 1:
            found.append(row["score"] / (1 + EPSILON) if by_std else row["score"])
        elif len(scores) == 1 or spread == 0:
            found.append(0)
        else:
            above = float(Fraction(row["score"]) - sum(map(Fraction, scores)) / len(scores))
            found.append(above / (spread + EPSILON) if by_std else above)
    return found


def groups_of(rows, facts):
    by_uid = {}
    for row in rows:
        by_uid.setdefault(row["uid"], []).append(row)
    found = []
    for uid, members in by_uid.items():
        first = members[0]
        if first["groupSeq"] is None:
            continue
        scores = scores_of(members)
        last = max(members, key=lambda row: (micros(row["endedAt"]) // 1000, row["index"]))
        found.append(
            {
                "uid": uid,
                "seq": first["groupSeq"],
                "completedMs": millis_between(
                    micros(first["submittedAt"]), micros(first["groupCompletedAt"])
                ),
                "size": len(members),
                "failed": sum(row["status"] == "failed" for row in members),
                "mean": mean(scores),
                "std": deviation(scores),
                "min": min(scores, default=None),
                "max": max(scores, default=None),
                "signal": signal(members),
                "scores": [row["score"] if row["status"] == "scored" else None for row in members],
                "slowestIndex": last["index"],
                "slowestQueueMs": last["queueMs"],
                "slowestScoreMs": last["scoreMs"],
                "indices": [row["index"] for row in members],
                "advantages": advantages(members, facts),
            }
        )
    return sorted(found, key=lambda group: group["seq"])


def signal_counts(groups):
    found = tally(group["signal"] for group in groups)
    return {word: found.get(word, 0) for word in SIGNALS}


def timeline(rows):
    start = micros(rows[0]["submittedAt"])
    marks = {}
    by_uid = {}
    for row in rows:
        if not ended(row):
            continue
        marks[row["index"]] = {
            "dispatchedMs": tenths_between(start, micros(row["dispatchedAt"])),
            "endedMs": tenths_between(start, micros(row["endedAt"])),
            "server": row["serverName"],
            "reason": row["reason"] if row["status"] == "failed" else None,
            "attempts": row["attempts"],
        }
        by_uid.setdefault(row["uid"], []).append(row)
    groups = []
    for uid, members in by_uid.items():
        if members[0]["groupSeq"] is None:
            continue
        ends = sorted(marks[row["index"]]["endedMs"] for row in members)
        begun = [
            max(0, min(mark["dispatchedMs"], mark["endedMs"]))
            for mark in (marks[row["index"]] for row in members)
            if mark["dispatchedMs"] is not None
        ]
        first = min(begun, default=None)
        completed = tenths_between(start, micros(members[0]["groupCompletedAt"]))
        n = len(ends)
        groups.append(
            {
                "uid": uid,
                "seq": members[0]["groupSeq"],
                "size": n,
                "startMs": first,
                "endMs": max(completed, ends[-1]),
                "completedMs": completed,
                "medianMs": None
                if first is None
                else max(0, (ends[(n - 1) // 2] + ends[n // 2]) / 2 - first),
                "tookMs": ends[-1] - (first or 0),
                "stragglerDelayMs": ends[-1] - ends[-2] if n > 1 else 0,
                "tailMs": ends[-1] - (ends[(n - 1) // 2] + ends[n // 2]) / 2 if n > 1 else None,
                "failed": sum(row["status"] == "failed" for row in members),
            }
        )
    groups.sort(key=lambda group: group["seq"])
    tails = [group["tailMs"] for group in groups if group["tailMs"] is not None]
    typical = statistics.median(tails or [0])
    deviation = statistics.median([abs(tail - typical) for tail in tails] or [0])
    span = max([group["endMs"] for group in groups], default=0)
    least = max(50, 0.05 * span)
    late = [
        group
        for group in groups
        if (tail := group["tailMs"]) is not None
        and tail > typical + 4 * deviation
        and tail >= least
        and group["stragglerDelayMs"] >= 50
    ]
    return {
        "samples": marks,
        "groups": groups,
        "stragglerDelayMs": sum(group["stragglerDelayMs"] for group in late),
        "stragglers": len(late),
    }


def batch_page(rows, facts):
    submitted, completed = micros(rows[0]["submittedAt"]), micros(rows[0]["batchCompletedAt"])
    scores = scores_of(rows)
    groups = groups_of(rows, facts)
    timed = [row for row in rows if ended(row) and row["queueMs"] is not None]
    queue = [single(row["queueMs"]) for row in timed]
    took = [single(row["scoreMs"]) for row in timed if row["scoreMs"] is not None]
    sources, servers = {}, {}
    for row in rows:
        sources.setdefault(row["dataSource"], []).append(row)
        if row["serverName"] is not None:
            servers.setdefault(row["serverName"], []).append(row)
    every = 1 if len(groups) <= 200 else math.ceil(len(groups) / 200)
    return {
        "samples": len(rows),
        "scored": sum(row["status"] == "scored" for row in rows),
        "failed": sum(row["status"] == "failed" for row in rows),
        "groups": len({row["uid"] for row in rows}),
        "groupsCompleted": len(groups),
        "retries": sum(max(0, row["attempts"] - 1) for row in rows),
        "tookMs": millis_between(submitted, completed),
        "mean": mean(scores),
        "std": deviation(scores),
        "min": min(scores, default=None),
        "max": max(scores, default=None),
        "distribution": distribution(scores),
        "dataSources": {
            name: {
                "samples": len(of),
                "scored": sum(row["status"] == "scored" for row in of),
                "failed": sum(row["status"] == "failed" for row in of),
                "mean": mean(scores_of(of)),
            }
            for name, of in sources.items()
        },
        "failures": tally(row["reason"] for row in rows if row["status"] == "failed"),
        "servers": {
            name: {
                "samples": len(of),
                "p50Ms": quantile([single(row["scoreMs"]) for row in of], 0.5),
                "p99Ms": quantile([single(row["scoreMs"]) for row in of], 0.99),
            }
            for name, of in servers.items()
        },
        "queueMsP50": quantile(queue, 0.5),
        "queueMsP95": quantile(queue, 0.95),
        "scoreMsP50": quantile(took, 0.5),
        "scoreMsP95": quantile(took, 0.95),
        "groupSignals": signal_counts(groups),
        "completion": [
            {"ms": group["completedMs"], "groups": group["seq"]}
            for group in groups
            if group["seq"] % every == 0 or group["seq"] == len(groups)
        ],
        "groupRows": groups,
        "timeline": timeline(rows),
    }


def step_of(batches, facts):
    """The numbers of a step. The run page shows the last of its batches."""
    batch_id, rows = batches[-1]
    scores = scores_of(rows)
    queue = [single(row["queueMs"]) for row in rows if row["queueMs"] is not None]
    took = [single(row["scoreMs"]) for row in rows if row["scoreMs"] is not None]
    submitted, completed = micros(rows[0]["submittedAt"]), micros(rows[0]["batchCompletedAt"])
    return {
        "step": rows[0]["step"],
        "batchId": batch_id,
        "others": len(batches) - 1,
        "samples": len(rows),
        "scored": sum(row["status"] == "scored" for row in rows),
        "failed": sum(row["status"] == "failed" for row in rows),
        "substituted": sum(row["substituted"] for row in rows),
        "groups": len({row["uid"] for row in rows}),
        "retries": sum(max(0, row["attempts"] - 1) for row in rows),
        "n": len(scores),
        "mean": mean(scores),
        "std": deviation(scores),
        "min": min(scores, default=None),
        "max": max(scores, default=None),
        "quantiles": [quantile(scores, at) for at in (0.05, 0.25, 0.5, 0.75, 0.95)] if scores else None,
        "groupSignals": signal_counts(groups_of(rows, facts.get(batch_id, {}))),
        "reasons": tally(row["reason"] for row in rows if row["status"] == "failed"),
        "waitMs": millis_between(submitted, completed),
        "queueMsP50": as_single(quantile(queue, 0.5)),
        "scoreMsP50": as_single(quantile(took, 0.5)),
        "scoreMsP95": as_single(quantile(took, 0.95)),
    }


def sources_of(last_batches):
    found = {}
    for _, rows in last_batches:
        for row in rows:
            found.setdefault(row["dataSource"], {}).setdefault(row["step"], []).append(row)
    result = {}
    for name, by_step in found.items():
        points = []
        for step, rows in sorted(by_step.items()):
            scores = scores_of(rows)
            if not scores:
                continue
            points.append(
                {
                    "step": step,
                    "n": len(scores),
                    "mean": mean(scores),
                    "q25": quantile(scores, 0.25),
                    "q75": quantile(scores, 0.75),
                    "failed": sum(row["status"] == "failed" for row in rows),
                    "samples": len(rows),
                }
            )
        if points:
            samples = sum(point.pop("samples") for point in points)
            result[name] = {"samples": samples, "points": points}
    return result


def heat(last_batches):
    """Shares of each step's samples: per score if there are few scores, else in 32 bins.

    A step with more than 64 distinct scores is first counted in 128 bins over its own range. The share of each of
    these bins is then divided among the 32 bins that it overlaps.
    """
    steps = [(rows[0]["step"], scores_of(rows)) for _, rows in last_batches]
    steps = [(step, scores) for step, scores in steps if scores]
    if not steps:
        return None
    every = sorted({score for _, scores in steps for score in scores})
    if all(len(set(scores)) <= 64 for _, scores in steps) and len(every) <= 24:
        return {
            "kind": "values",
            "edges": every,
            "steps": [
                {"step": step, "shares": [scores.count(value) / len(scores) for value in every]}
                for step, scores in steps
            ],
        }
    low, high = every[0], every[-1]
    width = (high - low) / 32
    result = []
    for step, scores in steps:
        shares = [0.0] * 32
        if len(set(scores)) <= 64:
            for score in scores:
                shares[min(31, max(0, math.floor((score - low) / width)))] += 1 / len(scores)
        else:
            least, most = min(scores), max(scores)
            own = (most - least) / 128
            for at, n in tally(bucket(score, least, most, 128) for score in scores).items():
                start, end = least + at * own, least + (at + 1) * own
                for row in range(32):
                    inside = min(end, low + (row + 1) * width) - max(start, low + row * width)
                    if inside > 0:
                        shares[row] += n / len(scores) * inside / own
        result.append({"step": step, "shares": shares})
    edges = [high if at == 32 else low + at * width for at in range(33)]
    return {"kind": "bins", "edges": edges, "steps": result}


def components_of(batches, names):
    """The components of a reward over batches: numbers in reward extra info, booleans as 0 and 1."""
    result = {}
    for name in names:
        points = []
        for batch_id, rows in batches:
            values = []
            for row in rows:
                value = row["rewardExtraInfo"].get(name)
                if counts(row) and isinstance(value, (int, float)):
                    values.append(float(value))
            if values:
                points.append(
                    {
                        "batchId": batch_id,
                        "step": rows[0]["step"],
                        "n": len(values),
                        "mean": mean(values),
                        "std": deviation(values),
                    }
                )
        result[name] = points
    return result


def run_page(batches, facts):
    by_step = {}
    for batch in batches:
        by_step.setdefault(batch[1][0]["step"], []).append(batch)
    ordered = sorted(by_step.items())
    steps = [step_of(of, facts) for _, of in ordered]
    last = [of[-1] for _, of in ordered]
    starts = [micros(rows[0]["submittedAt"]) for _, rows in last]
    for at, step in enumerate(steps):
        until = millis_between(starts[at], starts[at + 1]) if at + 1 < len(starts) else None
        step["stepMs"] = until if until is not None and until > 0 else None
    components = sorted(
        {name for batch_id, _ in batches for name in facts.get(batch_id, {}).get("components", [])}
    )
    return {
        "batches": len(batches),
        "samples": sum(len(rows) for _, rows in batches),
        "scored": sum(row["status"] == "scored" for _, rows in batches for row in rows),
        "failed": sum(row["status"] == "failed" for _, rows in batches for row in rows),
        "steps": steps,
        "sources": sources_of(last),
        "heat": heat(last),
        "components": components_of(batches, components),
    }


def main(path, facts):
    batches = {}
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            row = json.loads(line)
            batches.setdefault(row["batchId"], []).append(row)
    runs = {}
    for batch_id, rows in sorted(batches.items(), key=lambda each: int(each[0][1:])):
        rows.sort(key=lambda row: row["index"])
        runs.setdefault(rows[0]["run"], {}).setdefault(rows[0]["split"], []).append((batch_id, rows))
    return {
        "batches": {name: batch_page(rows, facts.get(name, {})) for name, rows in batches.items()},
        "runs": {
            name: {split: run_page(of, facts) for split, of in splits.items()}
            for name, splits in runs.items()
        },
    }


if __name__ == "__main__":
    facts = {}
    if len(sys.argv) > 2:
        with open(sys.argv[2], encoding="utf-8") as file:
            facts = json.load(file)
    json.dump(main(sys.argv[1], facts), sys.stdout, allow_nan=False)
