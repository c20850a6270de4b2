"""Errors shown to the user as one line, each with its exit status."""


class HarnessError(Exception):
    """A failure the user can act on: one line that names the thing and what to do."""

    exit_code = 1


class Refused(HarnessError):
    """A request that is not carried out: unknown, inconsistent or unsafe."""

    exit_code = 2
