"""`headrace keys`: make keys for signed and encrypted messages."""

from __future__ import annotations

import click

from headrace.cli.output.render import echo
from headrace.core.crypto.keys import new_key

_USE = """
Keep it secret. Give it to your programs in the environment, say as HEADRACE_KEYS:

  app = App(url, codec=SignedCodec(os.environ["HEADRACE_KEYS"]))       refuses what was changed
  app = App(url, codec=EncryptedCodec(os.environ["HEADRACE_KEYS"]))    also hides it from readers of the store

To replace a key: add the new one behind the old one in every program (old,new), then put it first (new,old).
When no message, result or schedule with the old key is left, take the old key out."""


@click.group()
def keys() -> None:
    """Make keys for signed and encrypted messages.

    \b
    Examples:
      headrace keys new
      export HEADRACE_KEYS="$(headrace keys new)"
    """


@keys.command()
def new() -> None:
    """Print a new key.

    How to use it is printed to the error output, so that $(headrace keys new) is the key alone.

    \b
    Examples:
      headrace keys new
      export HEADRACE_KEYS="$(headrace keys new)"
    """
    echo(new_key())
    echo(_USE, err=True)
