"""Upstreams from mirrors: the commit decides, a pinned digest is checked, a part is no whole."""

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from command_line import harness

from harness import mirrors, places, sources
from harness.errors import HarnessError, Refused
from harness.nar import nar_sha256
from harness.plan import Choices, plan
from harness.project import Project
from harness.schemas import read_record
from harness.sources import Mirror, Source

SOURCE = Path(__file__).parents[1]
NAME = "mdlm"


def git(folder: Path, *words: str) -> str:
    names = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
    done = subprocess.run(
        ["git", *names, "-C", str(folder), *words], capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A repository of two commits, with a program, a link and a large file."""
    folder = tmp_path / "a clone"  # its address needs escaping
    folder.mkdir()
    git(folder, "init", "--quiet")
    (folder / "main.py").write_text("print('upstream')\n")
    (folder / "main.py").chmod(0o755)
    (folder / "assets").mkdir()
    (folder / "assets/paper.pdf").write_bytes(b"%PDF" * 100)
    (folder / "link").symlink_to("main.py")
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "-m", "one")
    (folder / "main.py").write_text(f"print({str(tmp_path)!r})\n")  # new to the store each time
    git(folder, "commit", "--quiet", "-a", "-m", "two")
    return folder


Pinned = Callable[..., Project]


@pytest.fixture
def pinned(tmp_path: Path) -> Pinned:
    """A project with one upstream pinned at a commit: `pinned(commit, narHash=...)`."""

    def make(commit: str, **more: str) -> Project:
        source = tmp_path / "source"
        (source / "nix").mkdir(parents=True, exist_ok=True)
        shutil.copy(SOURCE / "nix/source.nix", source / "nix")
        for name in ("upstreams.nix", "recipes.json", "pins.json"):
            shutil.copy(SOURCE / name, source)
        # Not an owner of anything: nobody can fetch it from GitHub.
        entry = {"owner": "-", "repo": "none", "rev": commit, **more}
        pins = json.loads((SOURCE / "upstreams.json").read_text())
        pins["upstreams"][NAME] = entry
        (source / "upstreams.json").write_text(json.dumps(pins))
        return Project(source=source, root=tmp_path / "root")

    return make


def realise(project: Project, *options: str) -> Source:
    return mirrors.realise(project, NAME, mirrors.parse(options), lambda _: None)


def without(clone: Path, commit: str, path: str) -> None:
    """Take a file's contents out of a repository, as a partial clone has none of them."""
    blob = git(clone, "rev-parse", f"{commit}:{path}")
    (clone / ".git/objects" / blob[:2] / blob[2:]).unlink()


@pytest.mark.parametrize("deep", [1, 1500])
def test_a_tree_deeper_than_any_source_is_refused(clone: Path, deep: int) -> None:
    blob = git(clone, "hash-object", "-w", "--stdin")
    git(clone, "update-index", "--add", "--cacheinfo", f"100644,{blob},{'d/' * deep}file")
    git(clone, "commit", "-qm", "deep")
    commit = git(clone, "rev-parse", "HEAD")
    if deep < mirrors.DEEPEST:
        assert f"{'d/' * deep}file" in {path for path, _, _ in mirrors._files(clone, commit)}
        return
    with pytest.raises(Refused, match="folders over 100 deep"):
        mirrors._absent(clone, commit, "mdlm")


def test_mirrors_are_read_from_options(tmp_path: Path) -> None:
    commit = "a" * 40
    found = mirrors.parse(("mdlm=/some/where", f"duo=/a=b@{commit}"))
    assert found == {
        "mdlm": Mirror(Path("/some/where")),
        "duo": Mirror(Path("/a=b"), commit),
    }


@pytest.mark.parametrize("option", ["mdlm", "=/x", "mdlm=", "MDLM=/x"])
def test_another_form_is_refused(option: str) -> None:
    with pytest.raises(Refused, match="expected KEY=DIR"):
        mirrors.parse((option,))


@pytest.mark.e2e
class TestFetching:
    """With git and Nix."""

    def test_a_pinned_tree_is_one_path_from_any_mirror(
        self, clone: Path, pinned: Pinned, tmp_path: Path
    ) -> None:
        head = git(clone, "rev-parse", "HEAD")
        bare = tmp_path / "folder" / "-+none" / "repo"
        git(tmp_path, "clone", "--quiet", "--bare", str(clone), str(bare))
        first = realise(pinned(head), f"{NAME}={clone}")
        assert (first.path / "main.py").read_text() == (clone / "main.py").read_text()
        assert (first.path / "link").is_symlink()
        assert not first.near
        assert first.digest == nar_sha256(first.path)
        project = pinned(head, narHash=str(first.digest))
        assert realise(project, f"{NAME}={bare}").path == first.path
        # There already: nothing is asked of anybody.
        assert realise(project, f"{NAME}={tmp_path}/nowhere").path == first.path

    def test_a_folder_of_mirrors_is_found(
        self, clone: Path, pinned: Pinned, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        clone.rename(tmp_path / "-+none")
        monkeypatch.setenv(mirrors.FOLDER, str(tmp_path))
        project = pinned(git(tmp_path / "-+none", "rev-parse", "HEAD"))
        assert realise(project).path.is_dir()

    def test_another_tree_than_the_pinned_one_is_refused(self, clone: Path, pinned: Pinned) -> None:
        project = pinned(git(clone, "rev-parse", "HEAD"), narHash="sha256-" + "A" * 43 + "=")
        with pytest.raises(Refused, match="hash mismatch"):
            realise(project, f"{NAME}={clone}")

    def test_a_near_commit_is_marked_everywhere(self, clone: Path, pinned: Pinned) -> None:
        near = git(clone, "rev-parse", "HEAD")
        project = pinned("b" * 40, narHash="sha256-" + "A" * 43 + "=")
        with pytest.raises(Refused, match="has no commit bbbbb.*second class"):
            realise(project, f"{NAME}={clone}")
        found = realise(project, f"{NAME}={clone}@{near}")
        assert found.near
        assert found.label == (
            f"mdlm at {near[:12]}, not the pinned {'b' * 12} (evidence of a second class)"
        )
        record = found.record(str(found.digest))
        assert record == {
            "name": NAME,
            "commit": near,
            "tree": nar_sha256(found.path),
            "pinned": "b" * 40,
        }
        chosen = Choices(NAME, "lm1b", mirrors={NAME: Mirror(None, near)})
        planned = plan(project, chosen)
        assert planned.run.name.endswith(f"near-{near[:12]}")
        assert not planned.lacks("source")
        assert {m.target: m.source for m in planned.mounts}[places.SOURCE] == found.path
        assert plan(project, Choices(NAME, "lm1b")).lacks("source")

    def test_a_partial_clone_gives_no_pinned_tree(self, clone: Path, pinned: Pinned) -> None:
        head = git(clone, "rev-parse", "HEAD")
        without(clone, head, "assets/paper.pdf")
        with pytest.raises(Refused, match=r"lacks assets/paper.pdf of the pinned commit"):
            realise(pinned(head), f"{NAME}={clone}")
        with pytest.raises(Refused, match=r"lacks assets/paper.pdf of the pinned commit"):
            realise(pinned(head), f"{NAME}={clone}@{head}")

    def test_a_partial_clone_gives_the_rest_of_a_near_commit(
        self, clone: Path, pinned: Pinned
    ) -> None:
        near = git(clone, "rev-parse", "HEAD")
        project = pinned("b" * 40)
        whole = realise(project, f"{NAME}={clone}@{near}").path
        link, record = sources.kept(project, NAME, near)
        link.unlink()
        without(clone, near, "assets/paper.pdf")
        found = realise(project, f"{NAME}={clone}@{near}")
        assert found.absent == ("assets/paper.pdf",)
        assert found.record(str(found.digest))["absent"] == ["assets/paper.pdf"]
        assert read_record(record, "source")["absent"] == ["assets/paper.pdf"]
        assert link.resolve() == found.path != whole
        names = {path.name for path in whole.rglob("*")}
        assert names - {path.name for path in found.path.rglob("*")} == {"assets", "paper.pdf"}
        for name in ("main.py", "link"):
            assert (found.path / name).lstat().st_mode == (whole / name).lstat().st_mode

    def test_a_tree_that_was_altered_is_no_source(self, clone: Path, pinned: Pinned) -> None:
        found = realise(pinned(git(clone, "rev-parse", "HEAD")), f"{NAME}={clone}")
        with pytest.raises(HarnessError, match="has digest sha256-other, not sha256-"):
            found.record("sha256-other")

    @pytest.mark.parametrize("what", ["missing", "file", "empty"])
    def test_what_is_no_mirror_is_told(self, tmp_path: Path, pinned: Pinned, what: str) -> None:
        place = tmp_path / "place"
        if what == "file":
            place.write_text("")
        elif what == "empty":
            place.mkdir()
        with pytest.raises(Refused, match="no such folder|does not take it for a repository"):
            realise(pinned("c" * 40), f"{NAME}={place}")

    def test_out_of_reach_is_one_line_that_says_what_to_do(
        self, pinned: Pinned, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for name in ("http_proxy", "https_proxy", "all_proxy"):
            monkeypatch.setenv(name, "http://127.0.0.1:9")
        with pytest.raises(
            Refused, match="cannot be fetched from GitHub.*--mirror mdlm=DIR$"
        ) as told:
            realise(pinned("c" * 40))
        assert "\n" not in str(told.value)

    def test_the_commands_take_a_mirror(self, tmp_path: Path) -> None:
        done = harness(
            tmp_path, "fetch", NAME, "--mirror", f"{NAME}={tmp_path}/no@{'d' * 40}", check=2
        )
        assert f"mirror {NAME}={tmp_path}/no: no such folder" in done.stderr
        done = harness(tmp_path, "plan", NAME, "lm1b", "--mirror", f"{NAME}=no@{'d' * 40}")
        assert "mdlm at dddddddddddd, not the pinned c112c526d193 (evidence" in done.stdout
        for command in (("plan", NAME, "lm1b"), ("fetch", NAME)):
            done = harness(tmp_path, *command, "--mirror", "nobody=/x", check=2)
            assert "source nobody: no pin" in done.stderr
