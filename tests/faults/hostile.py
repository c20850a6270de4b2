"""An upstream that means harm: it does the one thing that the file `fault` in its data names."""

import json
import os
import socket
import sys
import time
from pathlib import Path

DATA, OUTPUT = Path("/run/harness/data"), Path("/run/harness/output")
FAULT = json.loads((DATA / "fault").read_text())
SECRET = FAULT["secret"]
LAST, METRICS, PROGRESS = (
    OUTPUT / name for name in ("checkpoints/last.ckpt", "metrics.jsonl", "progress.json")
)


def finish():
    """End as a trainer that did its work, except where something is in the way."""
    LAST.parent.mkdir(exist_ok=True)
    LAST.write_bytes((DATA / "500.ckpt").read_bytes())
    if not os.path.lexists(METRICS):
        METRICS.write_text('{"step": 500, "loss": 5}\n')


def folders(hundreds):
    """Make so many hundreds of empty folders."""
    for number in range(hundreds):
        (OUTPUT / f"d{number}").mkdir()
        for inner in range(100):
            (OUTPUT / f"d{number}/{inner}").mkdir()


def link_as_checkpoint():
    LAST.parent.mkdir()
    LAST.symlink_to(SECRET)


def link_as_folder():
    (OUTPUT / "checkpoints").symlink_to(Path(SECRET).parent)


def link_as_metrics():
    METRICS.symlink_to(SECRET)
    finish()


def link_as_progress():
    PROGRESS.symlink_to(SECRET)
    finish()
    time.sleep(1)


def link_deep_below():
    (OUTPUT / "a/b/c").mkdir(parents=True)
    (OUTPUT / "a/b/c/link").symlink_to("../../../../identity.json")
    finish()


def hard_link():
    finish()
    os.link(LAST, OUTPUT / "second")


def pipe_as_checkpoint():
    LAST.parent.mkdir()
    os.mkfifo(LAST)


def pipe_as_metrics():
    os.mkfifo(METRICS)
    finish()


def pipe_as_progress():
    os.mkfifo(PROGRESS)
    time.sleep(1.2)
    finish()


def a_socket():
    socket.socket(socket.AF_UNIX).bind(str(OUTPUT / "socket"))
    finish()


def folder_as_checkpoint():
    LAST.mkdir(parents=True)


def many_files():
    for number in range(FAULT["entries"] + 1):
        os.close(os.open(OUTPUT / f"f{number}", os.O_CREAT, 0o644))
    finish()


def many_folders():
    folders(FAULT["entries"] // 200)
    finish()


def too_many_folders():
    folders(FAULT["entries"] // 100)
    finish()


def deep_tree():
    finish()
    os.chdir(OUTPUT)
    for _ in range(3000):
        Path("deep").mkdir()
        os.chdir("deep")


def wild_name():
    finish()
    (OUTPUT / "\x1b]0;owned\x07\n\u202e").write_text("x")


def name_of_no_text():
    finish()
    Path(os.fsdecode(os.fsencode(OUTPUT) + b"/\xff\xfe")).write_text("x")


def hollow_checkpoint():
    LAST.parent.mkdir()
    with LAST.open("wb") as file:
        file.truncate(1 << 42)


def hollow_file():
    finish()
    with (OUTPUT / "cache").open("wb") as file:
        file.truncate(1 << 42)


def payload():
    LAST.parent.mkdir()
    LAST.write_bytes((DATA / "payload").read_bytes())


def archive_bomb():
    LAST.parent.mkdir()
    LAST.write_bytes((DATA / "bomb").read_bytes())


def strides_bomb():
    LAST.parent.mkdir()
    LAST.write_bytes((DATA / "strides").read_bytes())


def metrics_of_empty_lines():
    METRICS.write_bytes(b"\n" * (FAULT["rows"] + 1))
    finish()


def metrics_of_one_line():
    METRICS.write_bytes(b'{"loss": [' + b"1," * (60 << 20))
    finish()


def metrics_of_many_names():
    with METRICS.open("w") as file:
        for number in range(20_000):
            file.write(f'{{"name{number}": 1}}\n')
    finish()


def metrics_of_nests():
    METRICS.write_text("[" * 900_000 + "\n" + '{"a":' * 100_000 + "\n")
    finish()


def progress_of_nests():
    PROGRESS.write_text("[" * 4000)
    time.sleep(1.2)
    PROGRESS.write_text('{"step": 1e999, "max_steps": NaN}')
    time.sleep(0.6)
    PROGRESS.write_text('{"step": 9' + "9" * 3000 + "}")
    time.sleep(0.6)
    finish()


def endless_log():
    line = ("x" * 1023 + "\n").encode()
    for _ in range(140 << 10):
        os.write(1, line)
    finish()


def endless_line():
    for _ in range(70):
        os.write(2, b"y" * (1 << 20))
    sys.exit(3)


def escapes():
    PROGRESS.write_text('{"step": 1, "max_steps": 2, "loss": "\x1b[31m"}')
    METRICS.write_text('{"\\u001b]0;owned\\u0007": 1}\n')
    os.write(2, b"\x1b]0;owned\x07\x1b[2J\x9b31m\xe2\x80\xae\r\x08 the end \xff\n")
    sys.exit(3)


def daemons():
    for number in range(5):
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                for _ in range(10_000):
                    with (OUTPUT / f"daemon{number}").open("a") as file:
                        file.write("still here\n")
                    time.sleep(0.001)
            os._exit(0)
    time.sleep(0.2)
    finish()


def kills_all():
    os.kill(-1, 9)


def kills_its_parent():
    os.kill(1, 9)
    os.kill(os.getppid(), 9)
    sys.exit(5)


def closes_its_streams():
    for number in (0, 1, 2):
        os.close(number)
    finish()
    os._exit(0)


def forged_records():
    for name in ("completed.json", "identity.json", "provenance.json"):
        (OUTPUT / name).write_text("{}")
        for way in (f"../{name}", f"/proc/1/cwd/../{name}", f"/proc/1/root/{name}"):
            try:
                (OUTPUT / way).write_text("{}")
            except OSError:
                continue
    sys.exit(0)


def nothing():
    return


def interrupted():
    """End as one that was stopped within a round, its checkpoints at hand."""
    LAST.parent.mkdir(exist_ok=True)
    for name, step in (("0-300.ckpt", 300), ("0-500.ckpt", 500), ("last.ckpt", 500)):
        if not os.path.lexists(LAST.with_name(name)):
            LAST.with_name(name).write_bytes((DATA / f"{step}.ckpt").read_bytes())
    sys.exit(143)


def resumed_over_a_linked_folder():
    (OUTPUT / "student_checkpoints").symlink_to(FAULT["victim"])
    interrupted()


def resumed_over_all_linked():
    LAST.parent.symlink_to(FAULT["victim"])
    sys.exit(143)


def resumed_over_a_linked_file():
    LAST.parent.mkdir()
    LAST.with_name("0-300.ckpt").symlink_to(FAULT["victim"] + "/0-300.ckpt")
    interrupted()


def resumed_over_a_second_name():
    LAST.parent.mkdir()
    LAST.write_bytes((DATA / "500.ckpt").read_bytes())
    os.link(LAST, OUTPUT / "second")
    interrupted()


def resumed_over_a_pipe():
    LAST.parent.mkdir()
    os.mkfifo(LAST.with_name("0-300.ckpt"))
    interrupted()


def resumed_over_plain_files():
    interrupted()


globals()[FAULT["attempt"]]()
