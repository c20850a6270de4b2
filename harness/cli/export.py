"""`harness export`: a run in the formats of others, signed or checked with a local key."""

from pathlib import Path

import click

from harness.cli.arguments import RUN, Place
from harness.cli.saying import say
from harness.errors import HarnessError, Refused
from harness.project import Project

FILE = Place(dir_okay=False)


@click.command()
@click.argument("run", type=RUN)
@click.option("--format", "form", type=click.Choice(["in-toto", "ro-crate"]), default="in-toto")
@click.option("-o", "--output", type=Place(), help="Where to write it.")
@click.option("--sign", type=FILE, help="A private key (PEM) to sign the Statement with.")
@click.option("--verify", type=FILE, help="A signed Statement to check RUN against, with --key.")
@click.option("--key", type=FILE, help="The public key (PEM) of who signed.")
@click.option("--license", "license_", help="The license of the crate, as a URL.")
@click.pass_obj
def command(
    project: Project,
    run: Path,
    form: str,
    output: Path | None,
    sign: Path | None,
    verify: Path | None,
    key: Path | None,
    license_: str | None,
) -> None:
    """Write RUN as an in-toto Statement with SLSA provenance, or as a Workflow Run RO-Crate.

    A crate is a folder, or one file where OUTPUT ends in .zip. With --verify nothing is written:
    the signature and every digest of RUN's files are checked.
    """
    run = run.resolve()
    if verify is not None or key is not None:
        if verify is None or key is None:
            raise Refused("--verify FILE and --key FILE belong together")
        _verify(run, verify, key)
    elif output is None:
        raise Refused("nowhere to write to; give --output")
    elif form == "ro-crate":
        from harness.export import crate

        if sign is not None:
            raise Refused("--sign: only the in-toto format is signed")
        crate.write(project, run, output.resolve(), license_)
        say(str(output))
    else:
        from harness.export.signing import sign as signed
        from harness.export.statement import statement
        from harness.files import publish_bytes

        made = statement(project, run)
        publish_bytes(output.resolve(), signed(made, sign) if sign else made)
        say(str(output))


def _verify(run: Path, envelope: Path, key: Path) -> None:
    from harness.export.signing import verified
    from harness.export.statement import parsed, records, subjects
    from harness.files import open_plain
    from harness.json_files import MAX_JSON

    try:
        with open_plain(envelope) as file:
            data = file.read(MAX_JSON)
    except FileNotFoundError as error:
        raise Refused(f"{envelope}: not found") from error
    document = parsed(verified(data, key, str(envelope)), str(envelope))
    _, completed, _ = records(run)
    told = {entry["name"]: entry["digest"] for entry in document["subject"]}
    here = {entry["name"]: entry["digest"] for entry in subjects(run, completed)}
    differing = sorted(n for n in told.keys() | here.keys() if told.get(n) != here.get(n))
    if differing:
        raise HarnessError(f"{run}: {differing[0]} is not as signed ({len(differing)} in all)")
    done = f"{envelope}: signed by {key}, and all {len(here)} digests are {run.name}'s"
    say(done)
