"""Records of every schema version that was ever written are still read."""

from pathlib import Path

from harness.data import downloads, manifest

SAMPLES = Path(__file__).parent / "samples"


def test_manifest_version_1() -> None:
    found = manifest.read(SAMPLES / "processed-1.json")
    assert found.sequence_length == 128
    digest = "f6962785d2cde156732202533a5031267dfea86f22179138dc4c27a7db307334"
    assert found.sha256() == digest


def test_downloads_version_1() -> None:
    found = downloads.read(SAMPLES / "downloads-1.json")
    assert found.datasets["text"].disk.override_used
    assert found.models["toy"].repo == "toy"
    assert len(found.files) == 1
