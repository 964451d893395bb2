"""The version, in a module without imports so that every module can import it."""

VERSION = "0.1.0"
