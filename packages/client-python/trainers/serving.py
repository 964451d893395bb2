"""A scorer that refuses some texts, so that a trainer meets samples without a score."""


def sometimes(data_source, solution_str, ground_truth, extra_info):
    """How many letters there are; a third of all texts is refused."""
    if sum(map(ord, solution_str)) % 3 == 0:
        raise ValueError("a text that it does not like")
    return sum(c.isalpha() for c in solution_str) / 16
