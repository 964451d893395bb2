"""A scorer that refuses some texts, so that a trainer meets samples without a score."""


def sometimes(data_source, solution_str, ground_truth, extra_info):
    """How many letters there are, where there are some."""
    letters = sum(c.isalpha() for c in solution_str)
    if len(solution_str) % 3 == 0:
        raise ValueError("a length that it does not like")
    return letters / 16
