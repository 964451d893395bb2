"""The command line: `rewardops <command>`."""

from __future__ import annotations

import argparse

from rewardops import __version__, export_metrics
from rewardops.serving import command as serve_reward


def main(argv: list[str] | None = None) -> int:
    """Runs a command and returns its exit code."""
    parser = argparse.ArgumentParser(
        prog="rewardops", description="The rewardops client for trainers.", allow_abbrev=False
    )
    parser.add_argument("--version", action="version", version=f"rewardops {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    serve_reward.add_to(commands)
    export_metrics.add_to(commands)
    arguments = parser.parse_args(argv)
    code: int = arguments.run(arguments)
    return code
