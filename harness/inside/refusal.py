"""The one error of the tools inside the sandbox."""


class Refusal(Exception):
    """A file that is not read: damaged, hostile or of an unknown kind; one line says which."""
