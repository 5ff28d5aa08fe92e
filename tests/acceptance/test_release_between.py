"""`rocwheel release promote --from … --to …`: a set moves from one stream to another, and the gate
of the second one decides."""

import base64
import hashlib
import json
import shutil
import sys
import time
from pathlib import Path

import pytest
from envelopes import opened, payload, sealed
from test_index import assert_every_link_is_true, pip
from test_release_publish import TARGETS, installed, requires, rocm

from command import Result, Rocwheel, run, with_uv
from small_index import write_wheel
from trees import differences, put, snapshot

NOW = "2026-11-20T01:02:03Z"
OLD, NEW = "7.12.0rc1", "7.12.0"
VERDICT = "https://rocwheel.dev/test-verdict/v1"
# The modules of the tests' wheels say their version.
TEXTS = ("--also-in", "*.py")


def staged(rocwheel: Rocwheel, tmp_path: Path, version: str = OLD) -> Path:
    """A store whose stream `staging` has ROCm and the torch that joined it."""
    store = tmp_path / "store"
    words = ("--to", store, "--stream", "staging", "--now", NOW)
    rocwheel.run("release", "publish", rocm(tmp_path / f"rocm-{version}", version), *words)
    torch = tmp_path / f"torch-{version}"
    local = f"2.14.0+rocm{version}"
    write_wheel(torch, "torch", local, *requires(f"rocm[device-gfx942]=={version}"))
    rocwheel.run("release", "publish", torch, *words, "--join", f"rocm-{version}")
    return store


def promote(rocwheel: Rocwheel, store: Path, *words: object, **options) -> Result:
    streams = ("--store", store, "--from", "staging", "--to", "release", "--version", NEW)
    return rocwheel.run("release", "promote", *streams, *TEXTS, *words, **options)


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


class Signer:
    """A key and DSSE envelopes, made by openssl."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self.key = folder, folder / "key.pem"
        run("openssl", "genpkey", "-algorithm", "ed25519", "-out", self.key)
        run("openssl", "pkey", "-in", self.key, "-pubout", "-out", folder / "key.pub")
        self.public = folder / "key.pub"

    def seal(self, statement: dict) -> dict:
        return sealed(statement, self.key)

    def verdict(
        self, path: Path, wheels: list[Path], target: str, result: str = "passed", finished: str = NOW, **more: str
    ) -> None:
        statement = {
            "_type": "https://in-toto.io/Statement/v1",
            "subject": [{"name": wheel.name, "digest": {"sha256": digest(wheel)}} for wheel in wheels],
            "predicateType": VERDICT,
            "predicate": {
                "suite": "smoke",
                "result": result,
                "targets": [target],
                "counts": {"passed": 12, "failed": int(result == "failed")},
                "runner": {"end": "supervised"},
                "finished": finished,
                **more,
            },
        }
        put(path, json.dumps(self.seal(statement)))


def gate(store: Path, text: str, *public: Path) -> None:
    keys = "".join(f"'''{path.read_text()}''', " for path in public)
    folder = store / "release/.release"
    put(folder / "stream.toml", f'kind = "final"\n[gate]\nkeys = [{keys}]\n{text}')


def wheels_for(store: Path, target: str) -> list[Path]:
    """What a machine with this GPU installs."""
    others = [other for other in TARGETS if other != target]
    found = sorted((store / "staging").glob("*/*.whl"))
    return [path for path in found if not any(other in path.name for other in others)]


def test_a_set_does_not_go_unsigned_into_a_signed_stream(rocwheel: Rocwheel, tmp_path: Path) -> None:
    store, signer = staged(rocwheel, tmp_path), Signer(tmp_path / "signer")
    write_wheel(tmp_path / "demo", "demo", "1.0")
    words = ("--to", store, "--stream", "release", "--signing-key", signer.key)
    rocwheel.run("release", "publish", tmp_path / "demo", *words)
    before = snapshot(store)
    refused = promote(rocwheel, store, expect=1, environment={"ROCWHEEL_SIGNING_KEY": ""})
    refused.says("snapshot 1 of the stream is signed, and this change is not", "`--allow unsigned`")
    promote(rocwheel, store, "--dry-run")
    assert differences(before, snapshot(store)) == []
    promote(rocwheel, store, "--allow", "unsigned").says("the snapshot is not signed")


def test_a_set_moves_as_one(rocwheel: Rocwheel, tmp_path: Path) -> None:
    store = staged(rocwheel, tmp_path)
    release = store / "release"
    before = snapshot(store)
    dry = promote(rocwheel, store, "--dry-run", "--now", NOW)
    assert differences(before, snapshot(store)) == []
    assert "`rocm-7.12.0` would be published in `release` as number 1" in dry.stderr
    assert "+Version: 7.12.0" in dry.stdout and "added torch/torch-2.14.0+rocm7.12.0-py3-none-any.whl" in dry.stdout
    signer = Signer(tmp_path / "signer")
    said = promote(rocwheel, store, "--signing-key", signer.key, "--now", NOW)
    assert "`rocm-7.12.0` published in `release` as number 1: 5 files" in said.stderr
    assert assert_every_link_is_true(release) == 5
    found = installed(f"{release.as_uri()}/", "torch", tmp_path)
    assert found == {"torch": "2.14.0+rocm7.12.0", "rocm": NEW, "rocm-sdk-core": NEW, "rocm-sdk-device-gfx942": NEW}
    target = tmp_path / "target"
    pip("install", "--quiet", "--index-url", f"{release.as_uri()}/", "--target", target, "torch")
    assert "2.14.0+rocm7.12.0" in (target / "torch.py").read_text()
    rocwheel.run("release", "verify", store, "--stream", "release", "--key", signer.public)
    # No other names of the files are left, and the staging folder is gone.
    assert [path.name for path in store.iterdir()] in (["release", "staging"], ["staging", "release"])
    assert {path.stat().st_nlink for path in release.glob("*/*.whl")} == {1}

    document = json.loads((release / ".release/sets/rocm-7.12.0.json").read_text())
    [name] = document["statements"]
    path = release / f".release/statements/{name}.json"
    assert digest(path) == name
    statement = opened(json.loads(path.read_text()), signer.public)
    subjects = {one["name"]: one["digest"]["sha256"] for one in statement["subject"]}
    assert subjects == {path.name: digest(path) for path in release.glob("*/*.whl")}
    inputs = statement["predicate"]["buildDefinition"]["resolvedDependencies"]
    published = (store / "staging").glob("*/*.whl")
    assert {one["name"]: one["digest"]["sha256"] for one in inputs} == {path.name: digest(path) for path in published}
    path.write_text(path.read_text() + " ")
    said = rocwheel.run("release", "verify", store, "--stream", "release", expect=1)
    assert f"`.release/statements/{name}.json` has other bytes" in said.stdout
    # The same again is no new publication. It repairs what it has the bytes of.
    path.write_text("damaged")
    with_key = ("--signing-key", signer.key)
    promote(rocwheel, store, *with_key).says(
        "published already", f"missing or damaged: `.release/statements/{name}.json`"
    )
    assert digest(path) == name
    before = snapshot(store)
    said = promote(rocwheel, store, *with_key)
    assert "published already" in said.stderr and "repaired" not in said.stderr
    assert differences(before, snapshot(store)) == []


def test_the_version_stays_when_nobody_says_another(rocwheel: Rocwheel, tmp_path: Path) -> None:
    """What passed in staging is what is released, byte for byte. A gate is asked as always."""
    store = staged(rocwheel, tmp_path)
    streams = ("--store", store, "--from", "staging", "--to", "release")
    rocwheel.run("release", "promote", *streams, "--dry-run").says("7.12.0rc1 → 7.12.0rc1")
    rocwheel.run("release", "promote", *streams)
    before = {path.name: path.read_bytes() for path in (store / "staging").glob("*/*.whl")}
    after = {path.name: path.read_bytes() for path in (store / "release").glob("*/*.whl")}
    assert before and before == after


def test_what_cannot_move_stays(rocwheel: Rocwheel, tmp_path: Path) -> None:
    store = staged(rocwheel, tmp_path)
    streams = ("--store", store, "--from", "staging", "--to", "release")

    def refused(text: str, *words: object, expect: int = 1) -> None:
        before = snapshot(store)
        rocwheel.run("release", "promote", *streams, *words, expect=expect).says(text)
        assert differences(before, snapshot(store)) == []

    refused("still say version 7.12.0rc1", "--version", NEW)
    refused("the stream has no candidate of 7.13.0:\n  rocm-7.12.0rc1\n", "--version", "7.13.0")
    refused("the stream has no set `other`", "--version", NEW, "--set", "other")
    refused("cannot be used with", "--version", NEW, "--output", tmp_path / "x", expect=2)
    failing = ("--version", NEW, *TEXTS, "--", "sh", "-c", "exit 7")
    refused("nothing was published: `sh` failed with exit code 7", *failing)
    # Two candidates need a name.
    staged(rocwheel, tmp_path, "7.12.0rc2")
    refused("name one: `--set rocm-7.12.0rc2`", "--version", NEW, *TEXTS)
    words = ("rocm-sdk-core==7.12.0rc2", "--reason", "bad", "--store", store, "--stream", "staging")
    rocwheel.run("release", "yank", *words)
    refused("is withdrawn: bad", "--version", NEW, *TEXTS, "--set", "rocm-7.12.0rc2")
    # Bytes that are not those of the snapshot.
    wheel = next((store / "staging/rocm").glob("*rc1*.whl"))
    good = wheel.read_bytes()
    # Another time of the first member: still a wheel, of the same size.
    wheel.write_bytes(good[:10] + bytes([good[10] ^ 2]) + good[11:])
    refused("is not what the stream's snapshot says it is", "--version", NEW, *TEXTS, "--set", f"rocm-{OLD}")
    wheel.write_bytes(good)
    # A command sees the set in an index, as it will be.
    script = f'uv pip compile --no-config --no-cache -q - <<<torch | grep -q "rocm=={NEW}"'
    words = ("--version", NEW, *TEXTS, "--set", f"rocm-{OLD}", "--", "bash", "-c", script)
    rocwheel.run("release", "promote", *streams, *words, environment=with_uv())
    assert_every_link_is_true(store / "release")


def test_the_gate_decides(rocwheel: Rocwheel, tmp_path: Path) -> None:
    store, verdicts = staged(rocwheel, tmp_path), tmp_path / "verdicts"
    lab, stranger = Signer(tmp_path / "lab"), Signer(tmp_path / "stranger")
    gate(store, 'suites = ["smoke"]\n', lab.public)
    words = ("--verdicts", verdicts, "--now", "2026-11-21T00:00:00Z")
    verdicts.mkdir()

    def explained(expect: int) -> dict:
        said = promote(rocwheel, store, *words, "--explain", "--json", expect=expect)
        document = json.loads(said.stdout)
        assert document["may_go_out"] == (expect == 0)
        rows = {row["target"]: row["state"] for row in document["decision"]["rows"]}
        return {**rows, "ignored": [one["reason"] for one in document["decision"]["ignored"]]}

    before = snapshot(store)
    assert explained(1) == {"gfx1100": "missing", "gfx942": "missing", "ignored": []}
    refused = promote(rocwheel, store, *words, expect=1)
    assert "the gate does not let `rocm-7.12.0rc1` out" in refused.stderr
    assert "suite `smoke` on gfx942: there is no verdict about these bytes" in refused.stderr
    for target in TARGETS:
        lab.verdict(verdicts / f"{target}.json", wheels_for(store, target), target)
    assert explained(0) == {"gfx1100": "passed", "gfx942": "passed", "ignored": []}

    # What does not count.
    good = (verdicts / "gfx942.json").read_bytes()
    stranger.verdict(verdicts / "gfx942.json", wheels_for(store, "gfx942"), "gfx942")
    assert explained(1)["ignored"] == ["no key of the gate has signed it"]
    other = tmp_path / "other" / wheels_for(store, "gfx942")[0].name
    put(other, b"other")
    lab.verdict(verdicts / "gfx942.json", [other, *wheels_for(store, "gfx942")[1:]], "gfx942")
    assert "about other bytes" in explained(1)["ignored"][0]
    envelope = json.loads(good)
    other = base64.b64decode(envelope["payload"]).replace(b'"passed": 12', b'"passed": 13')
    (verdicts / "gfx942.json").write_text(json.dumps({**envelope, "payload": base64.b64encode(other).decode()}))
    assert explained(1)["ignored"] == ["no key of the gate has signed it"]
    (verdicts / "gfx942.json").write_text("{")
    assert len(explained(1)["ignored"]) == 1
    lab.verdict(verdicts / "gfx942.json", wheels_for(store, "gfx942"), "gfx942", more="of a later version")
    assert explained(0)["gfx942"] == "passed"
    lab.verdict(verdicts / "again.json", wheels_for(store, "gfx942"), "gfx942", "failed", "2026-11-20T02:00:00Z")
    assert explained(1)["gfx942"] == "failed"
    lab.verdict(verdicts / "again.json", wheels_for(store, "gfx942"), "gfx942", "incomplete", "2026-11-20T02:00:00Z")
    assert explained(1)["gfx942"] == "incomplete"

    # A bypass has a name, a reason and an end, and is in the decision.
    row = '[[bypass_tests_for_releases]]\nname = "lab"\nreason = "the lab moves"\ntargets = ["gfx942"]\n'
    bypass = tmp_path / "bypass.toml"
    bypass.write_text(row)
    assert "missing field `expires`" in promote(rocwheel, store, *words, "--bypass", bypass, expect=1).stderr
    bypass.write_text(f'{row}expires = "2026-11-20"\n')
    promote(rocwheel, store, *words, "--bypass", bypass, expect=1).says("the bypass `lab` expired after 2026-11-20")
    assert differences(before, {**snapshot(store)}) == []
    bypass.write_text(f"{row.replace('gfx942', 'gfx94l')}expires = 2026-11-21\n")
    promote(rocwheel, store, *words, "--bypass", bypass, expect=2).says("names `gfx94l`, which is not a GPU target")
    bypass.write_text(f"{row}expires = 2026-11-21\n")
    decision = tmp_path / "decision.json"
    said = promote(rocwheel, store, *words, "--bypass", bypass, "--decision", decision, "--signing-key", lab.key)
    assert "bypass `lab` until 2026-11-21: the lab moves" in said.stderr
    statement = payload(json.loads(decision.read_text()))
    assert statement["predicateType"] == "https://slsa.dev/verification_summary/v1"
    predicate = statement["predicate"]
    assert (predicate["verificationResult"], predicate["verifiedLevels"]) == ("PASSED", ["ROCWHEEL_GATE_BYPASSED"])
    assert predicate["rocwheel_decision"]["bypasses"][0]["reason"] == "the lab moves"
    inputs = {one["uri"]: one["digest"]["sha256"] for one in predicate["inputAttestations"]}
    assert inputs["gfx1100.json"] == digest(verdicts / "gfx1100.json")
    subjects = {one["name"]: one["digest"]["sha256"] for one in statement["subject"]}
    assert subjects == {path.name: digest(path) for path in (store / "staging").glob("*/*.whl")}
    document = json.loads((store / "release/.release/sets/rocm-7.12.0.json").read_text())
    assert {digest(decision), digest(verdicts / "gfx1100.json")} < set(document["statements"])
    rocwheel.run("release", "verify", store, "--stream", "release")


def test_a_bypass_of_a_failure_says_so_and_is_spelled_right(rocwheel: Rocwheel, tmp_path: Path) -> None:
    store, verdicts, bypass = staged(rocwheel, tmp_path), tmp_path / "verdicts", tmp_path / "bypass.toml"
    lab = Signer(tmp_path / "lab")
    gate(store, 'suites = ["smoke", "torch"]\nmax-age-days = 30\n', lab.public)
    for target in TARGETS:
        lab.verdict(verdicts / f"{target}.json", wheels_for(store, target), target)
        torch = verdicts / f"torch-{target}.json"
        lab.verdict(
            torch, wheels_for(store, target), target, "failed" if target == "gfx942" else "passed", suite="torch"
        )
    decision = tmp_path / "decision.json"
    words = ("--verdicts", verdicts, "--now", "2026-11-21T00:00:00Z", "--bypass", bypass, "--decision", decision)
    row = '[[bypass_tests_for_releases]]\nname = "lab"\nreason = "no machine"\nexpires = 2027-01-31\n'
    for more, code, said in (
        ("", 1, "the bypass `lab` is for missing verdicts, and not for a failure (`over-failure = true`)"),
        ('suites = ["torhc"]\n', 2, "names the suite `torhc`, which no rule of the stream requires"),
        ('suites = ["torhc"]\nover-failure = true\n', 2, "hint: did you mean `torch`?"),
        ('targets = ["gfx924"]\nover-failure = true\n', 2, "hint: did you mean `gfx942`?"),
        ("over-failures = true\n", 1, "unknown field `over-failures`"),
        ('suites = ["smoke"]\nover-failure = true\n', 1, "suite `torch` on gfx942: it failed (1 failed, 12 passed"),
    ):
        bypass.write_text(row + more)
        assert said in promote(rocwheel, store, *words, expect=code).stderr, more
        assert not (store / "release/torch").exists()
    bypass.write_text(f'{row}suites = ["torch"]\nover-failure = true\n')
    promote(rocwheel, store, *words, "--explain").prints("bypass over a failure")
    said = promote(rocwheel, store, *words, "--signing-key", lab.key).stderr
    assert "bypass `lab` until 2027-01-31: no machine" in said
    assert "suite `torch` on gfx942: failed: it failed (1 failed, 12 passed, finished " in said
    assert "and bypass `lab` lets it out" in said
    predicate = payload(json.loads(decision.read_text()))["predicate"]
    assert (predicate["verificationResult"], predicate["verifiedLevels"]) == ("FAILED", ["FAILED"])
    assert predicate["rocwheel_may_go_out"] is True
    rocwheel.run("release", "verify", store, "--stream", "release")


def test_verdicts_say_how_the_runner_ended_how_old_they_are_and_what_they_replace(
    rocwheel: Rocwheel, tmp_path: Path
) -> None:
    store, verdicts = staged(rocwheel, tmp_path), tmp_path / "verdicts"
    lab = Signer(tmp_path / "lab")
    rules = 'suites = ["smoke"]\n'
    words = ("--verdicts", verdicts, "--now", "2026-11-21T00:00:00Z")
    both = [(target, wheels_for(store, target)) for target in TARGETS]
    for runner, more, code in (
        ({"end": "exited", "code": 0}, "", 0),
        ({"end": "exited", "code": 0}, "max-age-days = 1\n", 0),
        ({"end": "unknown"}, "", 1),
        ("unknown", "", 1),
        (None, "", 1),
        (None, 'unknown-runner-exit = "recorded"\n', 0),
        ({"end": "exited", "code": 1}, 'unknown-runner-exit = "recorded"\n', 1),
    ):
        gate(store, rules + more, lab.public)
        for target, wheels in both:
            lab.verdict(verdicts / f"{target}.json", wheels, target, runner=runner)
        said = promote(rocwheel, store, *words, "--explain", expect=code)
        unknown = "it does not say how the runner of the tests ended (`unknown-runner-exit"
        assert (unknown in said.stderr) == (code == 1 and not more), said.stderr
        assert ("says passed, but the runner of the tests says otherwise" in said.stdout) == (code == 1 and bool(more))
    gate(store, f"{rules}max-age-days = 1\n", lab.public)
    for target, wheels in both:
        lab.verdict(verdicts / f"{target}.json", wheels, target, finished="2026-11-19T23:59:59Z")
    promote(rocwheel, store, *words, "--explain", expect=1).says("more than 1 days ago (`max-age-days`)")
    for wrong in ("max-age-days = 0", "max-age = 1", 'unknown-runner-exit = "yes"', 'absent-tests = "no"'):
        gate(store, f"{rules}{wrong}\n", lab.public)
        assert "stream.toml" in promote(rocwheel, store, *words, "--explain", expect=1).stderr
    # A suite that was run until it passed has a failure in its decision.
    gate(store, rules, lab.public)
    for target, wheels in both:
        lab.verdict(verdicts / f"{target}.json", wheels, target)
        lab.verdict(verdicts / f"first-{target}.json", wheels, target, "failed", "2026-11-20T00:12:00Z")
    decision = tmp_path / "decision.json"
    replaced = "suite `smoke` on gfx942: a newer verdict about the same files replaces a failure, `first-gfx942.json`"
    assert replaced in promote(rocwheel, store, *words, "--explain").stderr
    assert replaced in promote(rocwheel, store, *words, "--decision", decision).stderr
    predicate = payload(json.loads(decision.read_text()))["predicate"]
    rows = {row["target"]: row for row in predicate["rocwheel_decision"]["rows"]}
    assert rows["gfx942"]["replaced"][0]["sha256"] == digest(verdicts / "first-gfx942.json")


def test_verdicts_of_one_name_are_not_confused(rocwheel: Rocwheel, tmp_path: Path) -> None:
    """Only those that decide are in the signed decision and in the store, whatever they are called;
    linked ones are read too."""
    store, decision = staged(rocwheel, tmp_path), tmp_path / "decision.json"
    lab, stranger = Signer(tmp_path / "lab"), Signer(tmp_path / "stranger")
    gate(store, 'suites = ["smoke"]\n', lab.public)
    name = "verdict.intoto.json"
    # A job's folder that is a link, one that is not, with a link back, and a file.
    first, second, third = tmp_path / "jobs/first" / name, tmp_path / "given/second" / name, tmp_path / "third" / name
    lab.verdict(first, wheels_for(store, "gfx942"), "gfx942")
    stranger.verdict(second, wheels_for(store, "gfx942"), "gfx942", "failed", "2026-11-20T02:00:00Z")
    lab.verdict(third, wheels_for(store, "gfx1100"), "gfx1100")
    (tmp_path / "given/linked").mkdir()
    (tmp_path / "given/linked/first").symlink_to(tmp_path / "jobs/first")
    (tmp_path / "given/linked/back").symlink_to(tmp_path / "given")
    folders = (tmp_path / "given/linked/first", second.parent, third, tmp_path / "given/linked")
    words = [word for folder in folders for word in ("--verdicts", folder)]
    promote(rocwheel, store, *words, "--now", "2026-11-21T00:00:00Z", "--decision", decision)
    predicate = payload(json.loads(decision.read_text()))["predicate"]
    inputs = {one["digest"]["sha256"] for one in predicate["inputAttestations"]}
    assert inputs == {digest(first), digest(third)}
    uris = [one["uri"] for one in predicate["inputAttestations"]]
    assert len(uris) == 2 and all(uri.endswith(name) for uri in uris), f"each is read once: {uris}"
    stored = {path.stem for path in (store / "release/.release/statements").iterdir()}
    assert {digest(first), digest(third), digest(decision)} < stored and digest(second) not in stored


def test_the_gate_looks_at_the_clock(rocwheel: Rocwheel, tmp_path: Path) -> None:
    """SOURCE_DATE_EPOCH is for what is written: it revives no bypass, and no real verdict is in its
    future."""
    store, verdicts, bypass = staged(rocwheel, tmp_path), tmp_path / "verdicts", tmp_path / "bypass.toml"
    lab = Signer(tmp_path / "lab")
    gate(store, 'suites = ["smoke"]\n', lab.public)
    bypass.write_text('[[bypass_tests_for_releases]]\nname = "old"\nreason = "x"\nexpires = 2025-01-31\n')
    past = {"SOURCE_DATE_EPOCH": "1700000000"}
    explain = ("--explain", "--json")
    late = promote(rocwheel, store, "--bypass", bypass, *explain, environment=past, expect=1)
    assert "the bypass `old` expired after 2025-01-31" in late.stdout
    promote(rocwheel, store, "--bypass", bypass, *explain, "--now", "2025-01-31T00:00:00Z")
    for target in TARGETS:
        lab.verdict(verdicts / f"{target}.json", wheels_for(store, target), target, finished="2025-06-01T00:00:00Z")
    words = ("--verdicts", verdicts, *explain)
    promote(rocwheel, store, *words, environment=past)
    # A failure counts, whatever the clock of its machine says; a pass does not.
    ahead = "2999-01-01T00:00:00Z"
    lab.verdict(verdicts / "ahead.json", wheels_for(store, "gfx942"), "gfx942", "failed", ahead)
    assert "it failed (" in promote(rocwheel, store, *words, expect=1).stdout
    lab.verdict(verdicts / "ahead.json", wheels_for(store, "gfx942"), "gfx942", "passed", ahead)
    assert "in the future" in promote(rocwheel, store, *words).stdout
    contradiction = {"counts": {"passed": 12, "failed": 9, "crashed": 2}}
    (verdicts / "ahead.json").unlink()
    lab.verdict(verdicts / "gfx942.json", wheels_for(store, "gfx942"), "gfx942", **contradiction)
    said = promote(rocwheel, store, "--verdicts", verdicts, expect=1)
    assert "`gfx942.json` says passed, but counts failures (2 crashed, 9 failed, 12 passed" in said.stderr


def test_a_stream_with_a_gate_takes_nothing_untested(rocwheel: Rocwheel, tmp_path: Path) -> None:
    lab = Signer(tmp_path / "lab")
    store, dist = tmp_path / "store", rocm(tmp_path / "dist", NEW)
    gate(store, 'suites = ["smoke"]\nrunners = ["gfx942"]\nno-runner = "recorded"\n', lab.public)
    words = ("release", "publish", dist, "--to", store, "--stream", "release")
    assert "the gate does not let `rocm-7.12.0` out" in rocwheel.run(*words, expect=1).stderr
    wheels = [path for path in dist.iterdir() if "gfx1100" not in path.name]
    # Artifacts of jobs are downloaded into a folder each.
    lab.verdict(tmp_path / "verdicts/job-7/a.json", wheels, "gfx942")
    nothing = {"counts": {"passed": 0, "skipped": 3}}
    lab.verdict(tmp_path / "empty/a.json", wheels, "gfx942", **nothing)
    said = rocwheel.run(*words, "--verdicts", tmp_path / "empty", expect=1).stderr
    assert "`a.json` does not count: it says passed, and no test passed" in said
    rocwheel.run(*words, "--verdicts", tmp_path / "verdicts")
    assert_every_link_is_true(store / "release")
    for text, said in {
        'no-runner = "maybe"\n': "unknown variant `maybe`",
        'keys = ["x"]\n': "`a key of `keys` in [gate]` cannot be used as a key",
        # A typing error would make a target one without a machine, which is recorded only.
        'no-runner = "recorded"\nrunners = ["gfx94l"]\n': "`gfx94l`, which is not a GPU target",
        'no-runner = "recorded"\nrunners = ["gfx94X-all"]\n': "it is a family; name its targets",
    }.items():
        other = tmp_path / "other"
        gate(other, f'suites = ["smoke"]\n{text}')
        if text.startswith("keys"):
            lines = f'kind = "final"\n[gate]\nsuites = ["smoke"]\n{text}'
            (other / "release/.release/stream.toml").write_text(lines)
        code = 2 if "runners" in text else 1
        publish = ("release", "publish", dist, "--to", other, "--stream", "release")
        assert said in rocwheel.run(*publish, expect=code).stderr


def test_what_test_report_signs_opens_the_gate(rocwheel: Rocwheel, tmp_path: Path) -> None:
    """From pytest to the verdict of `test report` and through the gate, for two releases."""
    store = tmp_path / "store"
    rocwheel.run("release", "key", "new", tmp_path / "key.pem")
    rules = 'suites = ["smoke"]\nrunners = ["gfx942"]\nno-runner = "recorded"\n'
    gate(store, rules, tmp_path / "key.pem.pub")
    test, verdicts, junit = tmp_path / "test_it.py", tmp_path / "verdicts", tmp_path / "junit.xml"
    verdicts.mkdir()

    def publish(dist: Path, body: str, code: int, *more: object) -> str:
        """Tests the distributions of a folder with pytest, and publishes them."""
        wheels = [path for path in sorted(dist.iterdir()) if "gfx1100" not in path.name and path.suffix == ".whl"]
        tested = tmp_path / f"tested-{dist.name}"
        tested.mkdir(exist_ok=True)
        for wheel in wheels[1:]:
            shutil.copy(wheel, tested)
        test.write_text(body)
        about = ("--suite", "smoke", "--targets", "gfx942", "--wheel", wheels[0], "--wheel", tested)
        verdict = ("--verdict", verdicts / f"{time.monotonic_ns()}.json", "--signing-key", tmp_path / "key.pem")
        command = ("--", sys.executable, "-m", "pytest", "-q", "--rootdir", tmp_path, "--junit-xml", junit, test)
        rocwheel.run("test", "report", junit, *about, *verdict, "--ids", *command, expect=code)
        words = ("release", "publish", dist, "--to", store, "--stream", "release", "--verdicts", verdicts, *more)
        said = rocwheel.run(*words, expect=code).stderr
        assert ("suite `smoke` on gfx942: it failed" in said) == (code == 1), said
        # Verdicts have seconds: of two in the same one, the failure counts.
        time.sleep(1.1)
        return said

    first = rocm(tmp_path / "dist", NEW)
    two = "def test_it():\n    assert {}\n\ndef test_other(): ...\n"
    publish(first, two.format("1 == 2"), 1)
    said = publish(first, two.format("True"), 0)
    assert "a newer verdict about the same files replaces a failure" in said
    rocwheel.run("release", "verify", store, "--stream", "release")
    # A test of that release is absent from the next one.
    later = rocm(tmp_path / "later", "7.13.0")
    said = publish(later, "def test_it(): ...\n", 0, "--dry-run")
    absent = "1 test of `rocm-7.12.0` is absent, such as `test_it.py::test_other`"
    assert f"suite `smoke` on gfx942: passed: {absent}" in said, said
    gate(store, f'{rules}absent-tests = "blocked"\n', tmp_path / "key.pem.pub")
    words = ("release", "publish", later, "--to", store, "--stream", "release", "--verdicts", verdicts)
    assert f"suite `smoke` on gfx942: {absent}" in rocwheel.run(*words, expect=1).stderr
    publish(later, two.format("True"), 0)


def test_pruning_deletes_the_statements_of_sets_that_are_gone(rocwheel: Rocwheel, tmp_path: Path) -> None:
    store = staged(rocwheel, tmp_path)
    promote(rocwheel, store)
    release = store / "release"
    statements = release / ".release/statements"
    (old,) = statements.iterdir()
    later = ("--stream", "release", "--now", "2026-12-20T00:00:00Z")
    rocwheel.run("release", "publish", rocm(tmp_path / "next", "7.13.0"), "--to", store, "--allow", "fewer", *later)
    prune = ("release", "prune", "--store", store, *later[:2])
    (release / ".release/stream.toml").write_text("[retention]\ndays = 10\ngrace-days = 1\nsnapshots = 1\n")
    rocwheel.run(*prune, "--now", "2026-12-21T00:00:00Z")
    assert old.exists(), "the snapshot before can still be restored"
    rocwheel.run(*prune, "--now", "2026-12-25T00:00:00Z")
    rocwheel.run(*prune, "--now", "2026-12-26T00:00:00Z")
    assert not old.exists(), list(statements.iterdir())
    rocwheel.run("release", "verify", store, "--stream", "release")


@pytest.mark.parametrize("words", [(), ("--", "false")])
def test_options_of_streams_need_streams(rocwheel: Rocwheel, tmp_path: Path, words: tuple[str, ...]) -> None:
    rocwheel.run("release", "promote", tmp_path, "--version", NEW, "--to", "x", *words, expect=2).says("--from")
