"""`rewardops serve-reward`: serves a reward function over HTTP and runs its calls in processes that can be killed."""
