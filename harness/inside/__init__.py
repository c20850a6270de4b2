"""Code that the harness runs inside the sandbox; it imports nothing from outside this package."""
