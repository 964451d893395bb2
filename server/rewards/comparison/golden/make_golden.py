"""Computes the expected values of the comparison tests from the definitions, with the standard library.

    python3 server/rewards/comparison/golden/make_golden.py [path of shared/data] > server/rewards/comparison/golden/golden.json

It is independent of the service and slow: it compares every pair, counts every rank and determines signs with exact
fractions.
"""

import csv
import json
import math
import random
import statistics
import sys
from fractions import Fraction


def ranks(values):
    return [
        sum(other < value for other in values) + (sum(other == value for other in values) + 1) / 2
        for value in values
    ]


def correlation(a, b):
    if len(a) < 2 or len(set(a)) == 1 or len(set(b)) == 1:
        return None
    return statistics.correlation(a, b)


def kappa(a, b):
    n = len(a)
    observed = Fraction(sum(x == y for x, y in zip(a, b)), n)
    expected = sum(Fraction(a.count(v) * b.count(v), n * n) for v in set(a) | set(b))
    return None if expected == 1 else float((observed - expected) / (1 - expected))


def signs(scores):
    exact = [Fraction(score) for score in scores]
    mean = sum(exact) / len(exact)
    return [0 if abs(one - mean) < Fraction(1, 10**12) else (1 if one > mean else -1) for one in exact]


def group(a, b):
    n = len(a)
    pairs = [(i, j) for i in range(n) for j in range(i + 1, n)]
    x = [(a[i] > a[j]) - (a[i] < a[j]) for i, j in pairs]
    y = [(b[i] > b[j]) - (b[i] < b[j]) for i, j in pairs]
    alike = sum(p * q > 0 for p, q in zip(x, y))
    reversed_ = sum(p * q < 0 for p, q in zip(x, y))
    ties_a, ties_b = x.count(0), y.count(0)
    under = (len(pairs) - ties_a) * (len(pairs) - ties_b)
    best_a = {i for i in range(n) if a[i] == max(a)}
    best_b = {i for i in range(n) if b[i] == max(b)}
    return {
        "tau": None if under == 0 else (alike - reversed_) / math.sqrt(under),
        "comparable": alike + reversed_,
        "reversed": reversed_,
        "tiedFirst": ties_a,
        "tiedSecond": ties_b,
        "tiedBoth": sum(p == 0 and q == 0 for p, q in zip(x, y)),
        "bestChanged": not best_a & best_b,
        "signs": list(zip(signs(a), signs(b))),
    }


def compare(a, b, of):
    numbers = sorted(set(of))
    groups = [
        group([v for v, g in zip(a, of) if g == no], [v for v, g in zip(b, of) if g == no])
        for no in numbers
    ]
    taus = [one["tau"] for one in groups if one["tau"] is not None]
    table = [[0] * 3 for _ in range(3)]
    for one in groups:
        for p, q in one["signs"]:
            table[p + 1][q + 1] += 1
    total = {
        key: sum(one[key] for one in groups)
        for key in ("comparable", "reversed", "tiedFirst", "tiedSecond", "tiedBoth", "bestChanged")
    }
    return {
        "n": len(a),
        "mean": [statistics.fmean(a), statistics.fmean(b)],
        "std": [statistics.stdev(a), statistics.stdev(b)],
        "pearson": correlation(a, b),
        "spearman": correlation(ranks(a), ranks(b)),
        "kappa": kappa(a, b),
        "tau": statistics.fmean(taus) if taus else None,
        "tauGroups": len(taus),
        **total,
        "signs": table,
        "signFlipped": table[0][2] + table[2][0],
    }


def made():
    rng = random.Random(7)
    yield "continuous", [rng.gauss(0, 1) for _ in range(96)], [rng.gauss(0, 1) for _ in range(96)], [i // 8 for i in range(96)]
    yield "ties", [rng.randrange(4) for _ in range(90)], [rng.randrange(3) for _ in range(90)], [i // 6 for i in range(90)]
    a = [rng.choice([0.1, 0.2, 0.3, 0.7]) for _ in range(120)]
    yield "decimals", a, [2 * one + rng.choice([-0.1, 0, 0.1]) for one in a], [i % 10 for i in range(120)]
    a = [rng.choice([0, 1]) for _ in range(200)]
    yield "one large group", a, [one + rng.random() for one in a], [0] * 200
    yield "opposite", list(range(16)), list(range(16, 0, -1)), [i // 4 for i in range(16)]
    yield "one does not vary", [1] * 12, list(range(12)), [i // 4 for i in range(12)]


def real(folder):
    with open(f"{folder}/qwen-math-rm8/verdicts.csv", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    yield (
        "qwen-math-rm8: rule against reward model",
        [float(row["verl_math_reward_vs_answer"]) for row in rows],
        [float(row["rm_score"]) for row in rows],
        [int(row["idx"]) for row in rows],
    )
    with open(f"{folder}/gsm8k-groups8/verdicts.csv", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    yield (
        "gsm8k-groups8: strict against flexible",
        [float(row["verl_gsm8k_strict"]) for row in rows],
        [float(row["verl_gsm8k_flexible"]) for row in rows],
        [int(row["idx"]) for row in rows],
    )


def main():
    cases = [
        {"name": name, "first": a, "second": b, "group": of, **compare(a, b, of)}
        for name, a, b, of in made()
    ]
    if len(sys.argv) > 1:
        cases += [{"name": name, **compare(a, b, of)} for name, a, b, of in real(sys.argv[1])]
    print("[" + ",\n".join(json.dumps(case) for case in cases) + "]")


main()
