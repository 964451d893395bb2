"""The version, alone, so that everything can know it."""

VERSION = "0.1.0"
