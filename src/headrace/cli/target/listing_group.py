"""A group of commands with one that runs when none is named: `headrace jobs` is `headrace jobs list`."""

from __future__ import annotations

import click
from click.shell_completion import CompletionItem

from headrace.cli.target.completion import apps_starting


class ListingGroup(click.Group):
    """The name of the group alone runs its command `list`."""

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        return ["[list]", "[OPTIONS]", "[MODULE:APP]", "|", "COMMAND", "[ARGS]..."]

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if ctx.resilient_parsing and not args:  # a shell completes what follows: a command, or an app
            return super().parse_args(ctx, args)
        if not args or (args[0] not in self.commands and args[0] not in ctx.help_option_names):
            args = ["list", *args]
        return super().parse_args(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        found = super().shell_complete(ctx, incomplete)
        if incomplete.startswith("-"):
            return found + self.commands["list"].shell_complete(ctx, incomplete)
        return found + [CompletionItem(each) for each in apps_starting(incomplete)]

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)  # in the order in which they were added

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The options of the listing too, since the bare name takes them."""
        listing = self.commands["list"]
        with click.Context(listing, info_name="list", parent=ctx) as inner:
            options = [each for each in listing.params if isinstance(each, click.Option)]
            records = [record for each in options if (record := each.get_help_record(inner))]
        with formatter.section("Options of the listing"):
            formatter.write_dl(records)
        self.format_commands(ctx, formatter)
