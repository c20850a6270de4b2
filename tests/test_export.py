"""Exports: read back by the formats' own libraries, and signatures that hold only for the run."""

import base64
import hashlib
import json
import subprocess
import zipfile
from collections.abc import Callable
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from run_folders import SOURCE, completed_run, reading, relist, rewrite

from harness import canonical, nix
from harness.cli.export import command
from harness.errors import HarnessError, Refused
from harness.export import crate
from harness.export.signing import sign, verified
from harness.export.statement import parsed, statement
from harness.lock import load
from harness.project import Project

__all__ = ["reading"]
pytestmark = pytest.mark.usefixtures("reading")


@pytest.fixture
def run(project: Project) -> Path:
    return completed_run(project)


@pytest.fixture(params=["ed25519", "ec", "rsa"])
def keys(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, Path]:
    """A private and a public key, as OpenSSL's users have them."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

    made: dict[str, Callable[[], Any]] = {
        "ed25519": ed25519.Ed25519PrivateKey.generate,
        "ec": lambda: ec.generate_private_key(ec.SECP256R1()),
        "rsa": lambda: rsa.generate_private_key(65537, 2048),
    }
    key = made[request.param]()
    private, public = tmp_path / "key.pem", tmp_path / "key.pub"
    private.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    public.write_bytes(
        key.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
    )
    return private, public


def test_a_statement_names_every_file_and_every_pin(project: Project, run: Path) -> None:
    document = parsed(statement(project, run), "test")
    named = {entry["name"]: entry["digest"] for entry in document["subject"]}
    for path in run.rglob("*"):
        if path.is_file() and path.name != ".lock":
            name = path.relative_to(run).as_posix()
            assert named[name] == {"sha256": hashlib.sha256(path.read_bytes()).hexdigest()}
    completed = json.loads((run / "completed.json").read_text())
    state = completed["checkpoint"]["tensors"]["state"]["digest"]
    assert named["model.ckpt#state"] == {"tensors-sha256": state}
    build = document["predicate"]["buildDefinition"]
    materials = {entry["name"]: entry for entry in build["resolvedDependencies"]}
    identity = json.loads((run / "identity.json").read_text())
    assert build["internalParameters"]["identity"] == identity
    for wheel in load(SOURCE / "envs", "smoke").wheels:
        assert materials[wheel.file]["digest"] == {"sha256": wheel.sha256}
    told = json.dumps(materials)
    for digest in (
        identity["data"]["manifest_sha256"], identity["tokenizer"]["sha256"],
        identity["environment"]["lock_sha256"], identity["environment"]["base"]["path"],
        identity["config_sha256"],
    ):  # fmt: skip
        assert digest in told
    assert document["predicate"]["runDetails"]["metadata"]["finishedOn"] == completed["completed"]


def test_nothing_is_said_of_a_run_that_does_not_hold(project: Project, run: Path) -> None:
    (run / "stdout.log").write_bytes(b"other")
    for export in (statement, lambda p, r: crate.describe(p, r, None)):
        with pytest.raises(Refused, match=r"stdout\.log has other bytes"):
            export(project, run)


EXPORTS: dict[str, Callable[[Project, Path], Any]] = {
    "in-toto": statement,
    "ro-crate": lambda project, run: crate.describe(project, run, None),
}


@pytest.mark.parametrize("export", EXPORTS.values(), ids=EXPORTS)
@pytest.mark.parametrize(
    "name", ["config.yaml", "recipe.json", "launch_argv.json", "model.ckpt", "identity.json"]
)
def test_a_record_that_does_not_list_what_a_run_has_is_refused(
    project: Project, run: Path, name: str, export: Callable[[Project, Path], Any]
) -> None:
    (run / name).unlink()
    relist(run)
    with pytest.raises(Refused, match=f"{name}(: not found| is missing)"):
        export(project, run)


@pytest.mark.parametrize("export", EXPORTS.values(), ids=EXPORTS)
def test_a_source_that_nobody_knows_is_refused(
    project: Project, run: Path, export: Callable[[Project, Path], Any]
) -> None:
    rewrite(run / "identity.json", lambda i: i["source"].update(name="unknown", commit="0" * 40))
    sha256 = canonical.digest(json.loads((run / "identity.json").read_text()))
    rewrite(run / "completed.json", lambda record: record.update(identity_sha256=sha256))
    relist(run)
    with pytest.raises(Refused, match="source unknown: no pin; one of"):
        export(project, run)


@pytest.mark.parametrize(
    "name",
    [
        *("README.md", "readme.MD", "ro-crate-metadata.json", "ro-crate-preview.html"),
        *("ro-crate-preview_files/x", "README.md/x"),
    ],
)
def test_a_run_cannot_replace_what_a_crate_says(
    project: Project, run: Path, tmp_path: Path, name: str
) -> None:
    (run / name).parent.mkdir(exist_ok=True)
    (run / name).write_text("mine")
    relist(run)
    with pytest.raises(Refused, match=f"{name}: is named as a file of the crate's own"):
        crate.write(project, run, tmp_path / "crate", None)
    assert not (tmp_path / "crate").exists()


@pytest.mark.parametrize("target", ["crate", "crate.zip"])
def test_names_that_mean_something_elsewhere_are_plain_names_in_a_crate(
    project: Project, run: Path, tmp_path: Path, target: str
) -> None:
    names = (
        *("http:/evil", "%2e%2e%2f%2e%2e%2fup", "..%2F..%2Fup", "a#b?c&d <x>", "#material-0"),
        *("output/README.md", "output/ro-crate-metadata.json", "file:x", "...", "~"),
    )
    for name in names:
        (run / name).parent.mkdir(exist_ok=True)
        (run / name).write_text(name)
    relist(run)
    before = {path for path in tmp_path.rglob("*") if path.is_relative_to(project.root)}
    crate.write(project, run, tmp_path / "out" / target, None)
    made = tmp_path / "out" / target
    if target.endswith(".zip"):
        with zipfile.ZipFile(made) as archive:
            assert {archive.read(name).decode() for name in names} == set(names)
        return
    assert {name: (made / name).read_text() for name in names} == {name: name for name in names}
    assert {path.name for path in (tmp_path / "out").iterdir()} == {target}
    assert {path for path in tmp_path.rglob("*") if path.is_relative_to(project.root)} == before


def test_what_is_no_statement_is_refused() -> None:
    for data in (b"", b"[]", b"{}", b'{"_type": "x"}', b"[" * 5000):
        with pytest.raises(Refused, match="no in-toto Statement"):
            parsed(data, "test")


def test_a_signature_holds_for_its_key_and_bytes(keys: tuple[Path, Path]) -> None:
    private, public = keys
    envelope = sign(b"{}", private)
    assert verified(envelope, public, "test") == b"{}"
    changed = json.loads(envelope)
    changed["payload"] = "e30K"
    with pytest.raises(HarnessError, match="not signed by"):
        verified(json.dumps(changed).encode(), public, "test")
    with pytest.raises(Refused, match="no usable private key"):
        sign(b"{}", public)
    with pytest.raises(Refused, match="no public key"):
        verified(envelope, private, "test")
    with pytest.raises(Refused, match="no signed envelope"):
        verified(b"[]", public, "test")


def test_openssl_alone_can_check_a_signature(tmp_path: Path, keys: tuple[Path, Path]) -> None:
    """By nothing but DSSE's definition: what is signed is "DSSEv1 LENGTH TYPE LENGTH PAYLOAD"."""
    envelope = json.loads(sign(b'{"a": 1}', keys[0]))
    kind, payload = envelope["payloadType"].encode(), base64.b64decode(envelope["payload"])
    signed, signature = tmp_path / "signed", tmp_path / "signature"
    signed.write_bytes(b"DSSEv1 %d %s %d %s" % (len(kind), kind, len(payload), payload))
    signature.write_bytes(base64.b64decode(envelope["signatures"][0]["sig"]))
    algorithm = subprocess.run(
        ["openssl", "pkey", "-pubin", "-in", keys[1], "-noout", "-text"],
        check=True, capture_output=True, text=True,
    ).stdout  # fmt: skip
    command = ["openssl", "dgst", "-sha256", "-verify", keys[1], "-signature", signature, signed]
    if "ED25519" in algorithm:
        command = ["openssl", "pkeyutl", "-verify", "-pubin", "-inkey", keys[1], "-rawin"]
        command += ["-in", signed, "-sigfile", signature]
    elif "Modulus" in algorithm:
        command[3:3] = ["-sigopt", "rsa_padding_mode:pss"]
    assert subprocess.run(command, check=False, capture_output=True).returncode == 0
    signed.write_bytes(signed.read_bytes() + b" ")
    assert subprocess.run(command, check=False, capture_output=True).returncode != 0


def test_another_key_is_not_believed(tmp_path: Path, keys: tuple[Path, Path]) -> None:
    other = tmp_path / "other.pem"
    subprocess.run(
        ["openssl", "genpkey", "-algorithm", "ed25519", "-out", other],
        check=True, capture_output=True,
    )  # fmt: skip
    with pytest.raises(HarnessError, match="not signed by"):
        verified(sign(b"{}", other), keys[1], "test")


def invoke(project: Project, *words: object) -> Result:
    return CliRunner().invoke(command, [str(word) for word in words], obj=project)


def test_signed_and_verified_on_the_command_line(
    project: Project, run: Path, tmp_path: Path, keys: tuple[Path, Path]
) -> None:
    private, public = keys
    envelope = tmp_path / "run.intoto.json"
    assert invoke(project, run, "-o", envelope, "--sign", private).exit_code == 0
    good = invoke(project, run, "--verify", envelope, "--key", public)
    assert good.exit_code == 0
    assert "signed by" in good.output
    record = json.loads((run / "completed.json").read_text())
    assert record["schema_version"] == 1
    (run / "output" / "metrics.jsonl").write_bytes(b"")
    bad = invoke(project, run, "--verify", envelope, "--key", public)
    assert isinstance(bad.exception, HarnessError)
    other = completed_run(project, weights=(7.0, 8.0, 9.0)) if not run.exists() else None
    assert other is None


def test_another_runs_statement_is_not_this_ones(
    project: Project, run: Path, tmp_path: Path, keys: tuple[Path, Path]
) -> None:
    from dataclasses import replace

    from run_folders import SMOKE

    envelope = tmp_path / "run.intoto.json"
    other = completed_run(project, replace(SMOKE, seed=7))
    assert invoke(project, other, "-o", envelope, "--sign", keys[0]).exit_code == 0
    found = invoke(project, run, "--verify", envelope, "--key", keys[1])
    assert "is not as signed" in str(found.exception)


@pytest.mark.parametrize("name", ["crate", "crate.zip"])
def test_a_crate_is_read_by_its_own_library(
    project: Project, run: Path, tmp_path: Path, name: str
) -> None:
    from rocrate.rocrate import ROCrate

    target = tmp_path / name
    crate.write(project, run, target, "https://spdx.org/licenses/CC-BY-4.0")
    if name.endswith(".zip"):
        with zipfile.ZipFile(target) as archive:
            archive.extractall(tmp_path / "unpacked")
        target = tmp_path / "unpacked"
    for path in run.rglob("*"):
        if path.is_file() and path.name != ".lock":
            assert (target / path.relative_to(run)).read_bytes() == path.read_bytes()
    read = ROCrate(target)
    assert read.mainEntity.id == "recipe.json"
    assert "ComputationalWorkflow" in read.mainEntity.type
    action = read.root_dataset["mentions"]
    assert action.type == "CreateAction"
    assert action["instrument"] == read.mainEntity
    results = {entity.id for entity in action["result"]}
    assert {"model.ckpt", "completed.json", "output/metrics.jsonl"} <= results
    given = {entity["name"] for entity in action["object"]}
    assert {"adapters", "data smoke-lm1b", "environment lock smoke"} <= given
    profiles = {entity.id for entity in read.root_dataset["conformsTo"]}
    assert profiles == {uri for uri, _, _ in crate.PROFILES}


def test_a_crate_never_replaces_anything(project: Project, run: Path, tmp_path: Path) -> None:
    with pytest.raises(Refused, match="is there already"):
        crate.write(project, run, tmp_path, None)
    with pytest.raises(Refused, match="is there already"):
        crate.write(project, run, run / "model.ckpt", None)


# What the profiles recommend and a run folder cannot tell: who made it, and where it is published.
UNKNOWN = {
    "process-run-crate-0.5_5.1",  # an address on the web for the recipe
    "process-run-crate-0.5_8.6",  # an agent
    "ro-crate-1.1_22.2",  # an author
    "ro-crate-1.1_22.3",  # a publisher
    "workflow-ro-crate-1.0_8.1",  # Bioschemas' own profile, which wants a creator
}


@pytest.mark.e2e
@pytest.mark.parametrize("profile", ["process-run-crate-0.5", "workflow-run-crate-0.5"])
def test_a_crate_passes_the_profiles_validator(
    project: Project, run: Path, tmp_path: Path, profile: str
) -> None:
    crate.write(project, run, tmp_path / "crate", "https://spdx.org/licenses/CC-BY-4.0")
    assert issues(tmp_path / "crate", profile) <= UNKNOWN


@pytest.mark.e2e
def test_the_validator_sees_what_is_wrong(project: Project, run: Path, tmp_path: Path) -> None:
    crate.write(project, run, tmp_path / "crate", None)
    path = tmp_path / "crate" / "ro-crate-metadata.json"
    document = json.loads(path.read_text())
    (action,) = (entity for entity in document["@graph"] if entity["@type"] == "CreateAction")
    del action["instrument"]
    path.write_text(json.dumps(document))
    assert issues(tmp_path / "crate", "workflow-run-crate-0.5") - UNKNOWN


def issues(target: Path, profile: str) -> set[str]:
    """The checks of a profile, required and recommended, that a crate does not pass."""
    made = nix.realise(Project(SOURCE, SOURCE), "crates")
    context = resources.files("rocrate") / "data" / "ro-crate.jsonld"
    program = Path(__file__).with_name("crate_validation.py")
    command = made.base.command(made.path, "-sPB", str(program), str(target), profile, str(context))
    done = subprocess.run(command, env={}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stdout))
