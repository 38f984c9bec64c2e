"""Benchmarks, each against something to compare with. README.md has the latest figures."""

import argparse
import sys


def command_line(doc: str | None) -> argparse.ArgumentParser:
    """A parser for the part that is run. `--help` shows its module's docstring, and so how to call it."""
    name = sys.modules["__main__"].__spec__.name.removesuffix(".__main__")
    return argparse.ArgumentParser(
        prog=f"python -m {name}", description=doc, formatter_class=argparse.RawDescriptionHelpFormatter
    )
