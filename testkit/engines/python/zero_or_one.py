"""A reward of 0 or 1, the most common kind."""


def compute_score(data_source, solution_str, ground_truth, extra_info=None):
    return 1.0 if "42" in solution_str else 0.0
