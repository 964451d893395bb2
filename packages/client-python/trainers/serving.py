"""A scorer that refuses some texts, so that trainers receive samples without a score."""

import time


def sometimes(data_source, solution_str, ground_truth, extra_info):
    """Returns the number of letters in a text divided by 16, and refuses a third of all texts."""
    # The delay lets run_trl_restart.py kill the service while a batch is scored.
    time.sleep(0.1)
    if sum(map(ord, solution_str)) % 3 == 0:
        raise ValueError("a refused text")
    return sum(c.isalpha() for c in solution_str) / 16
