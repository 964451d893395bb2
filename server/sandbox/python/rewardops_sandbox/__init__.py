"""Runs Python programs for the sandbox service, each in its own namespaces. Programs do not import this package."""
