"""Trainers' side of rewardops. Standard library only."""

__version__ = "0.1.0"

__all__ = ["__version__"]
