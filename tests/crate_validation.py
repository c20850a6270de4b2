"""Validate an RO-Crate without a network: `crate_validation.py CRATE PROFILE CONTEXT`.

Prints the identifiers of the checks that it does not pass. Runs in the environment `crates`.
The validator asks the network for one document, the terms of RO-Crate 1.1. CONTEXT is the crate
library's copy of a later version's; the two terms that stood elsewhere then are put back.
"""

import json
import sys
from pathlib import Path
from typing import Any

from rocrate_validator import services
from rocrate_validator.models import Severity, ValidationSettings
from rocrate_validator.utils.http import HttpRequester

ADDRESS = "https://w3id.org/ro/crate/1.1/context"
TERMS = ("ComputationalWorkflow", "FormalParameter")


class Answer:
    """What the network would have said."""

    status_code = 200

    def __init__(self, document: dict[str, Any]) -> None:
        self.document = document
        self.headers = {"Content-Type": "application/ld+json"}

    def json(self) -> dict[str, Any]:
        return self.document


def issues(crate: str, profile: str, context: Path) -> list[str]:
    document = json.loads(context.read_text())
    document["@context"] |= {term: f"https://bioschemas.org/{term}" for term in TERMS}

    def get(self: HttpRequester, url: str, **_: object) -> Answer:
        if url != ADDRESS:
            raise ValueError(f"asked for {url}")
        return Answer(document)

    HttpRequester.get = get
    settings = ValidationSettings(
        rocrate_uri=crate,
        profile_identifier=profile,
        requirement_severity=Severity.RECOMMENDED,
    )
    found = services.validate(settings).get_issues()
    return sorted({issue.check.identifier for issue in found})


def main() -> None:
    crate, profile, context = sys.argv[1:]
    sys.stdout.write(json.dumps(issues(crate, profile, Path(context))))


if __name__ == "__main__":
    main()
