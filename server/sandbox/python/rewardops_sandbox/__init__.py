"""Runs Python programs for the sandbox service, each in namespaces of its own. Nothing here is for programs to import."""
