"""From a plan to a launch, for every command that trains; an embedded corpus is made on the way."""

from typing import TYPE_CHECKING

from harness.plan import Plan, plan
from harness.project import Project

if TYPE_CHECKING:
    from harness.cli.progress import Reporter
    from harness.launch import Launch


def launch(project: Project, planned: Plan, reporter: "Reporter") -> "Launch":
    """Make the embedded data if it is missing, then environment, configuration, identity."""
    from harness.launch import ready_launch

    found = ready_launch(project, supplied(project, planned, reporter), reporter.say)
    reporter.say(f"identity {found.identity.sha256}")
    return found


def supplied(project: Project, planned: Plan, reporter: "Reporter") -> Plan:
    """The plan, once the embedded data it may lack is made."""
    from harness.cli.bars import bars
    from harness.data import pins, ready

    key = planned.recipe.data
    if planned.lacks("data") and pins.load(project.source).dataset(key).kind == "embedded":
        reporter.say(f"data {key}: generating the embedded corpus")
        with bars() as progress:
            ready.prepare_embedded(project, key, progress)
        planned = plan(project, planned.choices)
    return planned
