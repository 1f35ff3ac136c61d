"""``ascend-session aoe``: tuning with AOE, from its conditions to what it came to."""

from ascend_session.cli._groups import group, help_without_command
from ascend_session.cli.aoe_report import report

__all__ = ["app"]

app = group(help="Tune with AOE: what it came to.")
app.callback()(help_without_command)
app.command()(report)
