"""`rewardops serve-reward`: a reward function as a scorer over HTTP, its calls in processes that can be killed."""
