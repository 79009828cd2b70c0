# SPDX-License-Identifier: MIT
"""Medians, spreads and the uncertainty of a median."""
import collections
import math
import random
import statistics


def median(values):
    return statistics.median(values) if values else float("nan")


def quartiles(values):
    if len(values) < 2:
        return values[0], values[0]
    low, _, high = statistics.quantiles(values, n=4, method="inclusive")
    return low, high


def median_interval(values, share=0.95, draws=4000):
    """Bootstrap interval of the median."""
    pick = random.Random(1)
    medians = sorted(median(pick.choices(values, k=len(values))) for _ in range(draws))
    cut = int(draws * (1 - share) / 2)
    return medians[cut], medians[-1 - cut]


def grouped(values, size):
    """Sums of `size` neighbours, so that a group holds several samples; the rest is left off."""
    whole = len(values) - len(values) % size
    return [sum(values[i:i + size]) for i in range(0, whole, size)]


def usual(values, step=0.03):
    """The value that most values are near: the middle of the fullest bin of `step` width."""
    bins = collections.defaultdict(list)
    for value in values:
        bins[round(math.log(value) / step)].append(value)
    pairs = {place: bins[place] + bins.get(place + 1, []) for place in list(bins)}
    return median(max(pairs.values(), key=len))
