"""Refuses options that are given twice, where one value would silently win."""

from __future__ import annotations

from collections import Counter

import click


class OnceCommand(click.Command):
    """A command that takes the value of an option once, unless the option is declared to collect several."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse arguments like click, which would take the last of two values and forget the first."""
        if not ctx.resilient_parsing:  # as for the completion of a line that is not ready
            given = Counter(self.make_parser(ctx).parse_args([*args])[2])
            for param, times in given.items():
                if times > 1 and isinstance(param, click.Option) and not (param.multiple or param.is_flag):
                    expected = f"{max(param.opts, key=len)} {param.make_metavar(ctx)} once"
                    raise click.BadParameter(f"given {times} times; expected {expected}", ctx, param)
        return super().parse_args(ctx, args)
