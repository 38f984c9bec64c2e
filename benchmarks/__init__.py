"""What is measured, against what; README.md has the last figures."""

import argparse
import sys


def command_line(doc: str | None) -> argparse.ArgumentParser:
    """Of the part that is run: `--help` says its module's docstring, which shows how it is called."""
    name = sys.modules["__main__"].__spec__.name.removesuffix(".__main__")
    return argparse.ArgumentParser(
        prog=f"python -m {name}", description=doc, formatter_class=argparse.RawDescriptionHelpFormatter
    )
